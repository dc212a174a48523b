//! How long bindings live: time-outs, guarantees, capacity, connection state.

use super::*;
use onefold_nat::FlowTable;
use onefold_packet::wire::tcp::flag::{ACK, FIN, RST, SYN};

fn out(host: u8) -> Pkt {
    out_flags(host, 0, b"")
}
fn out_flags(host: u8, flags: u8, payload: &[u8]) -> Pkt {
    tcp_packet(
        (&format!("10.0.0.{host}"), 7),
        ("2.0.0.2", 9),
        flags,
        payload,
    )
}
fn back(port: u16) -> Pkt {
    back_flags(port, 0, b"")
}
fn back_flags(port: u16, flags: u8, payload: &[u8]) -> Pkt {
    tcp_packet(("2.0.0.2", 9), ("1.0.0.1", port), flags, payload)
}
/// Ports of the flows that are there, found without touching them.
fn alive(n: &mut Net) -> Vec<u16> {
    let table = n.read("rw", "tcp_table");
    let forward = table.lines().filter(|l| l.contains("[*"));
    let port = |l: &str| {
        l.split("=> (1.0.0.1, ")
            .nth(1)?
            .split(',')
            .next()?
            .parse()
            .ok()
    };
    let mut v: Vec<u16> = forward.filter_map(port).collect();
    v.sort_unstable();
    v
}
fn exp(n: &mut Net) -> Vec<String> {
    let table = n.read("rw", "tcp_table");
    let forward = table.lines().filter(|l| l.contains("[*"));
    forward
        .filter_map(|l| Some(l.rsplit_once("exp")?.1.to_string()))
        .collect()
}

#[test]
fn connection_state_decides_the_time_out() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 1024-65535# - - 0 1, drop");
    let mut step = |port, p: Pkt, want: &str| {
        n.go(port, p);
        assert_eq!(exp(&mut n), [want]);
    };
    // five minutes until there is data both ways, then a day
    step(0, out_flags(1, SYN, b""), "300");
    step(1, back_flags(1024, SYN | ACK, b""), "300");
    step(0, out_flags(1, ACK, b"data"), "300");
    step(1, back_flags(1024, ACK, b"data"), "86400");
    // four minutes once both sides have closed
    step(0, out_flags(1, FIN | ACK, b""), "86400");
    step(1, back_flags(1024, FIN | ACK, b""), "240");
    step(0, out_flags(1, ACK, b""), "240");
    // data after the end, or a new SYN, opens that side again
    step(0, out_flags(1, ACK, b"more"), "86400");
    // a reset closes both
    step(1, back_flags(1024, RST, b""), "240");
    step(1, back_flags(1024, SYN, b""), "86400");
}

#[test]
fn keywords_set_time_outs() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, drop, TCP_NODATA_TIMEOUT 11, TCP_TIMEOUT 2min, TCP_DONE_TIMEOUT 13.6, \
         UDP_TIMEOUT 14, UDP_STREAMING_TIMEOUT 15",
    );
    n.go(0, out(1));
    assert_eq!(exp(&mut n), ["11"]);
    n.go(0, out_flags(1, RST, b""));
    assert_eq!(exp(&mut n), ["14"]);
    n.go(0, out_flags(1, SYN, b"x"));
    n.go(1, back_flags(1024, SYN, b"x"));
    assert_eq!(exp(&mut n), ["120"]);
    // UDP streams after three packets, one of them a reply
    let udp_exp = |n: &mut Net| {
        let t = n.read("rw", "udp_table");
        t.lines()
            .next()
            .unwrap()
            .rsplit_once("exp")
            .unwrap()
            .1
            .to_string()
    };
    n.go(0, udp_packet(("10.0.0.1", 7), ("2.0.0.2", 9), b""));
    n.go(0, udp_packet(("10.0.0.1", 7), ("2.0.0.2", 9), b""));
    n.go(0, udp_packet(("10.0.0.1", 7), ("2.0.0.2", 9), b""));
    assert_eq!(udp_exp(&mut n), "14");
    n.go(1, udp_packet(("2.0.0.2", 9), ("1.0.0.1", 1025), b""));
    assert_eq!(udp_exp(&mut n), "15");
}

#[test]
fn a_sweep_removes_what_has_timed_out() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, drop, TCP_NODATA_TIMEOUT 20, REAP_INTERVAL 30",
    );
    assert_eq!(
        n.with("rw", |e, _| e.initial_timers()),
        [(0, Timestamp::from_secs(30))]
    );
    n.at(0.0);
    n.go(0, out(1));
    n.at(5.0);
    n.go(0, out(2));
    n.at(15.0);
    n.go(1, back(1024));
    // at 25 flow 2 has just timed out, flow 1 was used at 15; until a sweep comes, timed-out flows still work
    n.at(24.9995);
    n.timer("rw");
    assert_eq!(
        n.host.timers.get(&0),
        Some(&(n.now + Timestamp::from_secs(30)))
    );
    assert_eq!(alive(&mut n), [1024, 1025]);
    n.at(25.0);
    n.timer("rw");
    assert_eq!(alive(&mut n), [1024]);
    assert_eq!(n.read("rw", "table_size"), "1");
    n.at(60.0);
    assert_eq!(n.go(1, back(1024)), "1: 2.0.0.2 9 > 10.0.0.1 7");
    n.timer("rw");
    assert_eq!(alive(&mut n), [1024]);
    // a port whose flow has gone can be given again
    assert_eq!(n.go(1, back(1025)), "-");
    assert_eq!(n.go(0, out(3)), "0: 1.0.0.1 1026 > 2.0.0.2 9");
}

#[test]
fn an_expired_port_is_used_again() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 50-50# - - 0 1, drop, TCP_NODATA_TIMEOUT 20, REAP_INTERVAL 30",
    );
    // a range of one is a port like any other: the newer flow takes it over. So two ports:
    n.go(0, out(1));
    assert_eq!(n.go(0, out(2)), "0: 1.0.0.1 50 > 2.0.0.2 9");
    assert_eq!(n.read("rw", "size"), "1");

    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 50-51# - - 0 1, drop, TCP_NODATA_TIMEOUT 20, REAP_INTERVAL 30",
    );
    n.go(0, out(1));
    n.go(0, out(2));
    n.at(10.0);
    n.go(0, out(2));
    assert_eq!(n.go(0, out(3)), "-");
    n.at(21.0);
    // timed out, but not swept
    assert_eq!(n.go(0, out(3)), "-");
    n.timer("rw");
    assert_eq!(n.go(0, out(3)), "0: 1.0.0.1 50 > 2.0.0.2 9");
    assert_eq!(n.go(1, back(50)), "1: 2.0.0.2 9 > 10.0.0.3 7");
}

#[test]
fn a_full_table_admits_no_flow_while_guarantees_last() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 3, TCP_GUARANTEE 5",
    );
    for (i, t) in [(1, 0.1), (2, 0.2), (3, 0.3)] {
        n.at(t);
        assert_ne!(n.go(0, out(i)), "-");
    }
    n.at(1.0);
    assert_eq!(n.go(0, out(4)), "-");
    assert_eq!(n.drops("IPRewriter: mapping capacity reached"), 1);
    assert_eq!(n.read("rw", "mapping_failures"), "1");
    // flow 1 is used again; at 5.25 the guarantee of flow 2 is over, that of flow 1 is not
    n.at(2.0);
    n.go(1, back(1024));
    n.at(5.25);
    assert_eq!(n.go(0, out(5)), "0: 1.0.0.1 1028 > 2.0.0.2 9");
    assert_eq!(alive(&mut n), [1024, 1026, 1028]);
    assert_eq!(n.read("rw", "evictions"), "1");
    // the next in line is guaranteed until 5.3
    n.at(5.2999);
    assert_eq!(n.go(0, out(6)), "-");
    n.at(5.3);
    assert_ne!(n.go(0, out(6)), "-");
    assert_eq!(alive(&mut n), [1024, 1028, 1030]);
}

#[test]
fn without_guarantee_the_first_to_time_out_goes() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 3, GUARANTEE 0",
    );
    n.at(0.0);
    n.go(0, out_flags(1, ACK, b"x"));
    n.go(1, back_flags(1024, ACK, b"x"));
    n.at(1.0);
    n.go(0, out(2));
    n.at(2.0);
    n.go(0, out(3));
    // flow 1 is the oldest, but it has data both ways
    n.at(3.0);
    n.go(0, out(4));
    assert_eq!(alive(&mut n), [1024, 1026, 1027]);
    // it is closed: four minutes from now, so the others go first in five minutes' time only
    n.at(4.0);
    n.go(0, out_flags(1, RST, b""));
    n.go(0, out(5));
    assert_eq!(alive(&mut n), [1026, 1027, 1028]);
    // a table of day-long flows does not even admit a new one
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, drop, MAPPING_CAPACITY 1, GUARANTEE 0",
    );
    n.go(0, out_flags(1, ACK, b"x"));
    n.go(1, back_flags(1024, ACK, b"x"));
    assert_eq!(n.go(0, out(2)), "-");
    assert_eq!(alive(&mut n), [1024]);
    assert_eq!(n.read("rw", "mapping_failures"), "1");
}

#[test]
fn capacity_is_shared_and_can_be_changed() {
    let mut n = Net::new(&[
        (
            "other",
            "UDPRewriter",
            "pattern 1.0.0.2 1024-65535# - - 0 1, drop, MAPPING_CAPACITY rw",
            2,
            2,
        ),
        (
            "rw",
            "IPRewriter",
            "pattern 1.0.0.1 1024-65535# - - 0 1, drop, CAPACITY 3",
            2,
            2,
        ),
        ("err", "ICMPRewriter", "other rw", 1, 1),
    ])
    .unwrap();
    n.at(0.0);
    n.go(0, out(1));
    n.at(1.0);
    n.push("other", 0, out(2)).unwrap();
    n.at(2.0);
    n.go(0, out(3));
    n.at(3.0);
    assert!(n.push("other", 0, out(4)).is_none());
    assert_eq!(n.read("other", "size"), "3");
    assert_eq!(n.read("other", "table_size"), "1");
    assert_eq!(n.read("other", "capacity"), "3");
    n.at(5.5);
    // the other rewriter's new flow takes the place of this one's
    n.push("other", 0, out(5)).unwrap();
    assert_eq!(alive(&mut n), [1025]);
    n.write("other", "capacity", "1").unwrap();
    assert_eq!(
        (n.read("rw", "size"), n.read("rw", "capacity")),
        ("1".into(), "1".into())
    );
    assert_eq!(alive(&mut n), []);
    assert!(
        n.write("rw", "capacity", "many")
            .unwrap_err()
            .contains("capacity: expected")
    );
    assert!(n.write("rw", "capacity", "-1").is_err());
}

#[test]
fn references_know_when_their_flow_has_gone() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 1024-65535# - - 0 1, drop");
    n.go(0, out(1));
    let id = n.with("rw", |e, _| e.states()[0]);
    let f = {
        let t = n.store.get::<FlowTable>(id).unwrap();
        let f = t.reference(0).unwrap();
        let r = t.resolve(f).unwrap();
        assert_eq!((r.origin(), r.output(false), r.output(true)), (0, 0, 1));
        assert_eq!(
            r.rewritten(false).to_string(),
            "(1.0.0.1, 1024, 2.0.0.2, 9)"
        );
        assert!(t.reference(1).is_none());
        f
    };
    // a fast path that has found it may refresh it
    n.at(50.0);
    let now = n.now;
    let t = n.store.get_mut::<FlowTable>(id).unwrap();
    let flow = t.resolve(f).unwrap().key(true);
    assert_eq!(t.binding(ElemId(0), false, &flow), Some((f, true)));
    assert_eq!(t.binding(ElemId(0), true, &flow), None);
    assert_eq!(t.input_specs(ElemId(0)).len(), 2);
    assert!(t.refresh(f, now));
    assert_eq!(exp(&mut n), ["300"]);
    n.write("rw", "clear", "").unwrap();
    assert!(n.store.get::<FlowTable>(id).unwrap().resolve(f).is_none());
    assert!(!n.store.get_mut::<FlowTable>(id).unwrap().refresh(f, now));
    n.go(0, out(2));
    let t = n.store.get::<FlowTable>(id).unwrap();
    assert!(t.resolve(f).is_none());
    assert_ne!(t.reference(0), Some(f));
    assert_eq!((t.len(), t.is_empty()), (1, false));
}

#[test]
fn a_fork_is_independent_and_summaries_tell_states_apart() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 1024-65535# - - 0 1, drop");
    n.go(0, out(1));
    let before = n.store.summaries();
    let fork = n.store.clone();
    n.go(0, out(1));
    let same_time = n.store.summaries();
    assert_eq!(same_time, before);
    n.at(1.0);
    n.go(0, out(1));
    assert_ne!(n.store.summaries(), before);
    n.go(0, out(2));
    assert_eq!(fork.summaries(), before);
    assert!(
        before
            .iter()
            .any(|s| s.contains("(10.0.0.1, 7, 2.0.0.2, 9) => (1.0.0.1, 1024, 2.0.0.2, 9)"))
    );
}

#[test]
fn a_written_pattern_forgets_its_inputs_flows() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, pattern 1.0.0.2 1024-65535# - - 0 1",
    );
    n.go(0, out(1));
    n.go(1, out(2));
    assert_eq!(
        n.read("rw", "patterns"),
        "1.0.0.1 1024-65535 - - [1]\n1.0.0.2 1024-65535 - - [1]\n"
    );
    for i in 0..5 {
        n.write(
            "rw",
            "pattern0",
            &format!("pattern 1.0.0.{} 1024-65534# - - 0 1", 3 + i),
        )
        .unwrap();
    }
    assert_eq!(n.read("rw", "pattern0"), "1.0.0.7 1024-65534 - -\n");
    assert_eq!(n.read("rw", "size"), "1");
    assert_eq!(n.go(0, out(1)), "0: 1.0.0.7 1024 > 2.0.0.2 9");
    n.write("rw", "pattern1", "pass 1").unwrap();
    assert_eq!(n.go(1, out(2)), "1: 10.0.0.2 7 > 2.0.0.2 9");
    assert_eq!(
        n.read("rw", "patterns"),
        "1.0.0.7 1024-65534 - - [1]\n<nochange>\n"
    );
    assert!(n.write("rw", "pattern1", "pattern x y").is_err());
    assert!(n.write("rw", "pattern2", "drop").is_err());
    assert_eq!(
        n.read("rw", "tcp_lookup 10.0.0.1 7 2.0.0.2 9"),
        "1.0.0.7 1024 2.0.0.2 9"
    );
    assert_eq!(n.read("rw", "tcp_lookup 10.0.0.1 7 2.0.0.2 10"), "");
}

#[test]
fn capacities_shared_in_a_circle_are_one() {
    let share = |other: &str| format!("keep 0 1, drop, MAPPING_CAPACITY {other}");
    let mut n = Net::new(&[
        ("rw", "IPRewriter", &share("b"), 2, 2),
        ("b", "UDPRewriter", &share("c"), 2, 2),
        ("c", "TCPRewriter", &share("b"), 2, 2),
    ])
    .unwrap();
    n.go(0, out(1));
    n.push("b", 0, out(1)).unwrap();
    n.push("c", 0, out(1)).unwrap();
    for e in ["rw", "b", "c"] {
        assert_eq!(
            (n.read(e, "size"), n.read(e, "table_size")),
            ("3".into(), "1".into())
        );
    }
}

#[test]
fn checksum_shifts_are_what_packets_get() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, keep 0 1",
    );
    let p = out_flags(1, ACK, b"data");
    let (_, q) = n.push("rw", 0, p.clone()).unwrap();
    let id = n.with("rw", |e, _| e.states()[0]);
    let t = n.store.get::<FlowTable>(id).unwrap();
    let r = t.resolve(t.reference(0).unwrap()).unwrap();
    let add = |sum: u16, shift: u16| !checksum::fold(u64::from(!sum) + u64::from(shift));
    let sums = |p: &Packet| {
        let at = |i: usize| u16::from_be_bytes([p.data()[i], p.data()[i + 1]]);
        (at(10), at(36))
    };
    let ((ip, tcp), (a, b)) = (sums(&p), r.checksum_shifts(false));
    assert_eq!(sums(&q), (add(ip, a), add(tcp, b)));
    let ((ip, tcp), (a, b)) = (sums(&q), r.checksum_shifts(true));
    assert_eq!(sums(&p), (add(ip, a), add(tcp, b)));
    assert!(!r.shifts_sequence_numbers());
    n.push("rw", 1, out(2)).unwrap();
    let t = n.store.get::<FlowTable>(id).unwrap();
    let r = t.resolve(t.reference(1).unwrap()).unwrap();
    assert_eq!(r.checksum_shifts(false), (0, 0));
}
