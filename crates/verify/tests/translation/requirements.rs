//! What RFC 4787 (UDP), 5382 (TCP), 5508 (ICMP), 7857 (updates) and 6888 (carriers' NATs) require of translators, one
//! test for each row of docs/nat-behaviour.md. Each packet goes through all levels, which must do the same.

use super::packets::*;
use super::{Rig, refused};
use std::collections::{BTreeMap, BTreeSet};

type End = (Addr, u16);

const POOL: &str = "nat: { pool: 203.0.113.1-203.0.113.8 }";
const ONE: &str = "nat: { pool: 203.0.113.1 }";
const HAIRPIN: &str = "nat: { pool: 203.0.113.1-203.0.113.2, hairpin: true }";
const OPEN: &str = "nat: { pool: 203.0.113.1, filtering: endpoint-independent }";

const SYN: u8 = 2;
const ACK: u8 = 16;
const FIN: u8 = 1;
const RST: u8 = 4;

/// Longer than sweeps are apart.
const SWEEP: i64 = 15 * 60;

type Transport = fn(End, End) -> Vec<u8>;
const BOTH: [Transport; 2] = [udp, tcp];

fn host(n: u8) -> Addr {
    [10, 0, 0, n]
}
fn remote(n: u8) -> End {
    ([198, 51, 100, n], 53)
}

/// Sends from inside: what the sender is shown as.
fn out(r: &mut Rig, of: Transport, from: End, to: End) -> End {
    let p = r.through(0, &frame(&of(from, to)));
    let (source, destination) = flow(&p);
    assert_eq!(destination, to);
    source
}

/// Sends from outside: who gets it.
fn back(r: &mut Rig, of: Transport, from: End, to: End) -> End {
    let p = r.through(1, &frame(&of(from, to)));
    let (source, destination) = flow(&p);
    assert_eq!(source, from);
    destination
}

/// A ping from inside: address and identifier outside.
fn ping(r: &mut Rig, from: End, to: Addr) -> End {
    let p = r.through(0, &frame(&echo(from.0, to, 8, from.1)));
    assert_eq!(ends(&p).1, to);
    (ends(&p).0, identifier(&p))
}

fn identifier(p: &[u8]) -> u16 {
    u16::from_be_bytes([p[24], p[25]])
}

/// A segment with these control bits and no data.
fn segment(from: End, to: End, control: u8) -> Vec<u8> {
    let mut p = ip(from.0, to.0, 6, 7, 0, &tcp(from, to)[20..40]);
    p[33] = control;
    p[36..38].fill(0);
    let sum = onefold_packet::checksum::pseudo_v4(from.0, to.0, 6, 20);
    let sum = !onefold_packet::checksum::fold(onefold_packet::checksum::sum(&p[20..], sum));
    p[36..38].copy_from_slice(&sum.to_be_bytes());
    p
}

/// From inside, to an outside address of the NAT's: what an inside host gets.
fn turned(r: &mut Rig, packet: &[u8]) -> Vec<u8> {
    let mut all = r.send(0, &frame(packet));
    assert_eq!(all.len(), 1, "of {packet:02x?}");
    let (port, b) = all.remove(0);
    assert_eq!(port, 0);
    check(&b[14..]);
    b[14..].to_vec()
}

/// RFC 4787 REQ-1, RFC 5382 REQ-1: endpoint-independent mapping.
#[test]
fn one_endpoint_for_all_destinations() {
    for function in [ONE, POOL, HAIRPIN, OPEN] {
        let mut r = Rig::new(function);
        r.is_proved();
        for of in BOTH {
            // the second host's port is taken at the first one's address, where there is one
            for n in 1..=3 {
                let from = (host(n), 4000);
                let shown = out(&mut r, of, from, remote(1));
                for to in [remote(2), (remote(1).0, 54), (remote(3).0, 1)] {
                    assert_eq!(out(&mut r, of, from, to), shown);
                    assert_eq!(back(&mut r, of, to, shown), from);
                }
            }
        }
    }
}

/// RFC 4787 REQ-1 under pressure: mappings stay while ports run out around them.
#[test]
fn mappings_stay_when_ports_run_out() {
    let mut r = Rig::new("nat: { pool: 203.0.113.1, port-range: 5000-5007 }");
    let mut shown = BTreeMap::new();
    for n in 0..20u8 {
        let from = (host(1 + n % 12), 5000 + u16::from(n % 3));
        let p = r.send(0, &frame(&udp(from, remote(n % 5))));
        let Some((_, b)) = p.first() else {
            assert_eq!(shown.len(), 8);
            continue;
        };
        let (source, _) = flow(&b[14..]);
        assert_eq!(*shown.entry(from).or_insert(source), source);
    }
    let different: BTreeSet<End> = shown.values().copied().collect();
    assert_eq!((shown.len(), different.len()), (8, 8));
}

/// RFC 4787 REQ-2, RFC 7857 section 4, RFC 6888 REQ-2: paired, whatever the protocol.
#[test]
fn one_address_for_all_flows_of_a_host() {
    let mut r = Rig::new(POOL);
    r.is_proved();
    let mut used = BTreeSet::new();
    for n in 1..=60 {
        let mut mine = BTreeSet::new();
        for i in 0..4 {
            for of in BOTH {
                mine.insert(out(&mut r, of, (host(n), 4000 + u16::from(i)), remote(i)).0);
            }
            mine.insert(ping(&mut r, (host(n), u16::from(i)), remote(i).0).0);
        }
        assert_eq!(mine.len(), 1, "{mine:?}");
        used.extend(mine);
    }
    assert_eq!(used.len(), 8);
}

/// RFC 4787 REQ-3, RFC 5382 REQ-7: no port overloading.
#[test]
fn nobody_has_the_port_of_another_one() {
    let mut r = Rig::new(ONE);
    for of in BOTH {
        let mut all = BTreeSet::new();
        for n in 1..=50 {
            all.insert(out(&mut r, of, (host(n), 4000), remote(n)));
        }
        assert_eq!(all.len(), 50);
    }
    let mut r = Rig::new("nat: { pool: 203.0.113.1, port-range: 5000 }");
    r.is_proved();
    out(&mut r, udp, (host(1), 5000), remote(1));
    let second = frame(&udp((host(2), 5000), remote(2)));
    assert_eq!(r.lost(0, &second), "IPRewriter: no free port or address");
}

/// RFC 4787 REQ-3 a: ports below 1024 stay below, others above.
#[test]
fn the_class_of_a_port_stays() {
    let mut r = Rig::new(ONE);
    for n in 1..=30 {
        for port in [1, 80, 1023, 1024, 4000, 65535] {
            let shown = out(&mut r, udp, (host(n), port), remote(1));
            assert_eq!(shown.1 < 1024, port < 1024, "{port} became {shown:?}");
        }
    }
}

/// RFC 4787 REQ-4, RFC 7857 section 8: parity.
#[test]
fn the_parity_of_a_port_stays() {
    let mut r = Rig::new(ONE);
    for n in 1..=30 {
        for port in [4000, 4001, 81, 82] {
            let shown = out(&mut r, udp, (host(n), port), remote(1));
            assert_eq!(shown.1 % 2, port % 2, "{port} became {shown:?}");
        }
    }
}

/// RFC 4787 REQ-5: a silent mapping of UDP lasts five minutes, or as long as is said.
#[test]
fn udp_time_out() {
    let from = (host(1), 4000);
    for (function, stays, goes) in [
        (ONE, 299, 301),
        ("nat: { pool: 203.0.113.1, udp-timeout: 120 }", 119, 121),
    ] {
        let mut r = Rig::new(function);
        let shown = out(&mut r, udp, from, remote(1));
        r.wait(stays);
        assert_eq!(back(&mut r, udp, remote(1), shown), from);
        r.wait(goes + SWEEP);
        r.lost(1, &frame(&udp(remote(1), shown)));
    }
}

/// RFC 4787 REQ-6: what is sent from inside keeps a mapping; and (7857 section 7) what comes from outside does.
#[test]
fn packets_refresh_their_mapping() {
    let from = (host(1), 4000);
    let mut r = Rig::new(ONE);
    let shown = out(&mut r, udp, from, remote(1));
    for _ in 0..8 {
        r.wait(250);
        assert_eq!(out(&mut r, udp, from, remote(1)), shown);
    }
    for _ in 0..8 {
        r.wait(250);
        assert_eq!(back(&mut r, udp, remote(1), shown), from);
    }
    // another destination is the same mapping as long as one of them lasts
    assert_eq!(out(&mut r, udp, from, remote(2)), shown);
}

/// RFC 4787 REQ-7: inside and outside may have the same addresses.
#[test]
fn the_same_addresses_inside_and_outside() {
    let mut r = Rig::new(ONE);
    let (from, to) = ((host(1), 4000), (host(2), 53));
    let shown = out(&mut r, udp, from, to);
    assert_eq!(shown.0, a("203.0.113.1"));
    assert_eq!(back(&mut r, udp, to, shown), from);
    let twin = (host(1), 53);
    let shown = out(&mut r, udp, from, twin);
    assert_eq!(back(&mut r, udp, twin, shown), from);
}

/// RFC 4787 REQ-8, RFC 5382 REQ-3, RFC 6888 REQ-7: filtering is as it is configured.
#[test]
fn who_may_send_to_a_mapping() {
    let from = (host(1), 4000);
    for (n, of) in BOTH.into_iter().enumerate() {
        let mut r = Rig::new(ONE);
        let shown = out(&mut r, of, from, remote(1));
        for stranger in [remote(2), (remote(1).0, 54)] {
            r.lost(1, &frame(&of(stranger, shown)));
        }
        let mut r = Rig::new(OPEN);
        r.is_proved();
        let shown = out(&mut r, of, from, remote(1));
        for stranger in [remote(2), (remote(1).0, 54)] {
            assert_eq!(back(&mut r, of, stranger, shown), from);
            assert_eq!(out(&mut r, of, from, stranger), shown);
        }
        // of the other protocol nobody has anything (RFC 7857 sections 5 and 6)
        let other = BOTH[1 - n];
        r.lost(1, &frame(&other(remote(2), shown)));
    }
    assert!(
        refused(
            "nat: { pool: 203.0.113.1, mapping: address-and-port, filtering: endpoint-independent }"
        )
        .contains("goes with 'mapping: endpoint-independent'")
    );
}

/// RFC 4787 REQ-9, RFC 5382 REQ-8: hairpinning, with the outside address and port of the sender.
#[test]
fn inside_hosts_reach_each_others_mappings() {
    let mut r = Rig::new(HAIRPIN);
    r.is_proved();
    for of in BOTH {
        let (one, two) = ((host(1), 4000), (host(2), 4000));
        let shown = [
            out(&mut r, of, one, remote(1)),
            out(&mut r, of, two, remote(1)),
        ];
        for _ in 0..3 {
            // nobody has sent to the other one before
            let p = turned(&mut r, &of(one, shown[1]));
            assert_eq!(flow(&p), (shown[0], two));
            let p = turned(&mut r, &of(two, shown[0]));
            assert_eq!(flow(&p), (shown[1], one));
        }
        // to oneself
        let p = turned(&mut r, &of(one, shown[0]));
        assert_eq!(flow(&p), (shown[0], one));
        // where there is no mapping nothing goes, neither round nor out
        let nobody = (shown[0].0, 9);
        r.lost(0, &frame(&of(one, nobody)));
    }
}

/// RFC 4787 REQ-10: no gateway for applications changes what is inside of packets.
#[test]
fn payload_is_left_alone() {
    let mut r = Rig::new(ONE);
    for of in BOTH {
        for port in [21, 53, 69, 5060] {
            let sent = of((host(1), 4000), (remote(1).0, port));
            let p = r.through(0, &frame(&sent));
            assert_eq!(p[40..], sent[40..]);
        }
    }
}

/// RFC 4787 REQ-12, RFC 5382 REQ-10: no ICMP message ends a mapping.
#[test]
fn errors_end_nothing() {
    let mut r = Rig::new(ONE);
    for of in BOTH {
        let from = (host(1), 4000);
        let shown = out(&mut r, of, from, remote(1));
        let sent = of(shown, remote(1));
        for (kind, code) in [(3, 0), (3, 3), (3, 13), (11, 0), (12, 0), (4, 0)] {
            let mut e = icmp(remote(9).0, shown.0, kind, [0; 4], &sent);
            e[21] = code;
            e[22..24].fill(0);
            let sum = onefold_packet::checksum::internet(&e[20..]);
            e[22..24].copy_from_slice(&sum.to_be_bytes());
            let p = r.through(1, &frame(&e));
            assert_eq!((ends(&p).1, p[20], p[21]), (from.0, kind, code));
        }
        assert_eq!(back(&mut r, of, remote(1), shown), from);
        assert_eq!(out(&mut r, of, from, remote(2)), shown);
    }
}

/// RFC 4787 REQ-14: fragments in any order but that the first one comes first. One that overtakes it is lost, and the
/// packet's other fragments, and later packets, are none the worse for it.
#[test]
fn fragments_behind_their_first_one() {
    let mut r = Rig::new(ONE);
    r.is_proved();
    for (of, id) in [(BOTH[0], 1), (BOTH[1], 50)] {
        let whole = of((host(1), 4000), remote(1));
        let all = fragments(&whole, id);
        assert!(all.len() > 1);
        r.lost(0, &frame(&all[1]));
        for f in all[..1].iter().chain(all[1..].iter().rev()) {
            let p = r.through(0, &frame(f));
            assert_eq!(ends(&p), (a("203.0.113.1"), remote(1).0));
            assert_eq!(p[4..8], f[4..8]);
            check(&p);
        }
    }
    // a flood of those that nothing is known of is forgotten at once
    for id in 100..300 {
        let late = &fragments(&udp((host(2), 1), remote(2)), id)[1];
        r.lost(0, &frame(late));
    }
    for f in fragments(&udp((host(2), 1), remote(2)), 299) {
        r.through(0, &frame(&f));
    }
}

/// RFC 5382 REQ-2: all ways to open a connection.
#[test]
fn connections_are_opened_in_all_ways() {
    let mut r = Rig::new(ONE);
    let (from, to) = ((host(1), 4000), remote(1));
    let shown = (a("203.0.113.1"), 4000);
    // both sides at once
    for (port, ends, control) in [
        (0, (from, to), SYN),
        (1, (to, shown), SYN),
        (0, (from, to), SYN | ACK),
        (1, (to, shown), SYN | ACK),
        (0, (from, to), ACK),
    ] {
        let p = r.through(port, &frame(&segment(ends.0, ends.1, control)));
        let want = if port == 0 { (shown, to) } else { (to, from) };
        assert_eq!((flow(&p), p[33]), (want, control));
    }
}

/// RFC 5382 REQ-4: who is not asked gets no answer, and does not get in the way.
#[test]
fn an_unsolicited_syn_is_not_answered() {
    let mut r = Rig::new(ONE);
    let (from, to) = ((host(1), 4000), remote(1));
    let shown = (a("203.0.113.1"), 4000);
    r.lost(1, &frame(&segment(to, shown, SYN)));
    assert_eq!(
        flow(&r.through(0, &frame(&segment(from, to, SYN)))),
        (shown, to)
    );
    assert_eq!(
        flow(&r.through(1, &frame(&segment(to, shown, SYN | ACK)))),
        (to, from)
    );
}

/// RFC 5382 REQ-5, RFC 7857 section 2: how long connections last.
#[test]
fn tcp_time_outs() {
    let (from, to) = ((host(1), 4000), remote(1));
    let shown = (a("203.0.113.1"), 4000);
    let open = |r: &mut Rig| {
        r.through(0, &frame(&segment(from, to, SYN)));
        r.through(1, &frame(&segment(to, shown, SYN | ACK)));
        r.through(0, &frame(&segment(from, to, ACK)));
    };
    let answered = |r: &mut Rig| r.through(1, &frame(&segment(to, shown, ACK)));
    // established, no data: two hours and four minutes at least
    let mut r = Rig::new(ONE);
    open(&mut r);
    for _ in 0..8 {
        // timers are due in between
        r.wait(7440 / 8);
        r.lost(1, &frame(&segment(remote(9), shown, ACK)));
    }
    answered(&mut r);
    // being opened: four minutes at least
    let mut r = Rig::new(ONE);
    r.through(0, &frame(&segment(from, to, SYN)));
    r.wait(240);
    r.through(1, &frame(&segment(to, shown, SYN | ACK)));
    let mut r = Rig::new(ONE);
    r.through(0, &frame(&segment(from, to, SYN)));
    r.wait(301 + SWEEP);
    r.lost(1, &frame(&segment(to, shown, SYN | ACK)));
    // closed, or reset: four minutes, and no longer than it takes to look
    for last in [[FIN | ACK, FIN | ACK], [ACK, RST]] {
        for (stays, seconds) in [(true, 239), (false, 241 + SWEEP)] {
            let mut r = Rig::new(ONE);
            open(&mut r);
            r.through(0, &frame(&segment(from, to, last[0])));
            r.through(1, &frame(&segment(to, shown, last[1])));
            r.wait(seconds);
            match stays {
                true => drop(answered(&mut r)),
                false => drop(r.lost(1, &frame(&segment(to, shown, ACK)))),
            }
        }
    }
    // as is said
    let mut r = Rig::new("nat: { pool: 203.0.113.1, tcp-transitory-timeout: 600 }");
    r.through(0, &frame(&segment(from, to, SYN)));
    r.wait(599);
    r.through(1, &frame(&segment(to, shown, SYN | ACK)));
}

/// RFC 5508 REQ-1: pings and their answers pass, and an identifier is one outside, whoever is asked.
#[test]
fn one_identifier_for_all_who_are_asked() {
    for function in [ONE, POOL] {
        let mut r = Rig::new(function);
        let mut all = BTreeSet::new();
        for n in 1..=40 {
            let from = (host(n), 77);
            let shown = ping(&mut r, from, remote(1).0);
            all.insert(shown);
            for to in [remote(2).0, remote(3).0] {
                assert_eq!(ping(&mut r, from, to), shown);
                let p = r.through(1, &frame(&echo(to, shown.0, 0, shown.1)));
                assert_eq!((ends(&p).1, identifier(&p)), from);
            }
        }
        assert_eq!(all.len(), 40);
    }
}

/// RFC 5508 REQ-2, RFC 7857 section 11: a ping's mapping lasts a minute at least.
#[test]
fn ping_time_out() {
    for (function, stays, goes) in [
        (ONE, 299, 301),
        ("nat: { pool: 203.0.113.1, icmp-timeout: 60 }", 59, 61),
    ] {
        let mut r = Rig::new(function);
        let shown = ping(&mut r, (host(1), 7), remote(1).0);
        let answer = frame(&echo(remote(1).0, shown.0, 0, shown.1));
        r.wait(stays);
        r.through(1, &answer);
        r.wait(goes + SWEEP);
        r.lost(1, &answer);
    }
}

/// RFC 5508 REQ-3: errors with wrong checksums are dropped, what they quote may be cut off.
#[test]
fn errors_with_wrong_checksums_are_dropped() {
    let mut r = Rig::new(ONE);
    let from = (host(1), 4000);
    let p = r.through(0, &frame(&udp(from, remote(1))));
    let shown = a("203.0.113.1");
    let right = error(remote(1).0, shown, &p, 36);
    let mut wrong = right.clone();
    wrong[22] ^= 1;
    assert_ne!(r.lost(1, &frame(&wrong)), "");
    // of the quoted IP header
    let mut quoted = p.clone();
    quoted[10] ^= 1;
    assert_ne!(
        r.lost(1, &frame(&error(remote(1).0, shown, &quoted, 36))),
        ""
    );
    // of what is behind it nobody asks: most of it is missing
    r.through(1, &frame(&right));
}

/// RFC 5508 REQ-6: errors keep no mapping.
#[test]
fn errors_refresh_nothing() {
    let mut r = Rig::new(ONE);
    let p = r.through(0, &frame(&echo(host(1), remote(1).0, 8, 7)));
    let e = frame(&error(remote(9).0, a("203.0.113.1"), &p, 100));
    for _ in 0..2 {
        r.wait(200);
        r.through(1, &e);
    }
    r.wait(SWEEP);
    r.lost(1, &e);
}

/// RFC 5508 REQ-7, RFC 7857 section 12: pings, and errors, from inside hosts to inside hosts.
#[test]
fn pings_and_errors_turn_round() {
    let mut r = Rig::new(HAIRPIN);
    let (one, two) = ((host(1), 7), (host(2), 7));
    let shown = [
        ping(&mut r, one, remote(1).0),
        ping(&mut r, two, remote(1).0),
    ];
    let request = echo(one.0, shown[1].0, 8, shown[1].1);
    let p = turned(&mut r, &request);
    assert_eq!(ends(&p), (shown[0].0, two.0));
    let e = turned(&mut r, &error(two.0, shown[0].0, &p, 1500));
    assert_eq!((ends(&e), quoted(&e)), ((shown[1].0, one.0), request));
    let p = turned(&mut r, &echo(two.0, shown[0].0, 0, identifier(&p)));
    assert_eq!(
        (ends(&p), identifier(&p)),
        ((shown[1].0, one.0), shown[1].1)
    );
    // an error about what has been turned round
    for of in BOTH {
        let (one, two) = ((host(1), 4000), (host(2), 4000));
        let shown = [
            out(&mut r, of, one, remote(1)),
            out(&mut r, of, two, remote(1)),
        ];
        let sent = of(one, shown[1]);
        let p = turned(&mut r, &sent);
        let e = turned(&mut r, &error(two.0, shown[0].0, &p, 1500));
        assert_eq!(ends(&e), (shown[1].0, one.0));
        assert_eq!(quoted(&e), sent);
    }
    // one-to-one
    let mut r = Rig::new(
        "nat: { one-to-one: [10.0.0.1 = 203.0.113.1, 10.0.0.2 = 203.0.113.2], hairpin: true }",
    );
    r.is_proved();
    let (one, two) = (a("203.0.113.1"), a("203.0.113.2"));
    let p = turned(&mut r, &echo(host(1), two, 8, 7));
    assert_eq!(ends(&p), (one, host(2)));
    let p = turned(&mut r, &echo(host(2), one, 0, 7));
    assert_eq!(ends(&p), (two, host(1)));
    for of in BOTH {
        let p = turned(&mut r, &of((host(1), 4000), (two, 53)));
        assert_eq!(flow(&p), ((one, 4000), (host(2), 53)));
    }
}

/// RFC 6888 REQ-8 and static forwards: what is forwarded is handed out to nobody.
#[test]
fn forwarded_ports_are_handed_out_to_nobody() {
    let mut r = Rig::new(
        "nat: { pool: 203.0.113.1, port-range: 80-82, forward: [udp 203.0.113.1:81 -> 10.0.0.9:8080] }",
    );
    r.is_proved();
    let mut all = BTreeSet::new();
    for n in 1..=2 {
        all.insert(out(&mut r, udp, (host(n), 81), remote(1)).1);
    }
    assert_eq!(all, [80, 82].into());
    r.lost(0, &frame(&udp((host(3), 81), remote(1))));
    let p = r.through(1, &frame(&udp(remote(1), (a("203.0.113.1"), 81))));
    assert_eq!(flow(&p).1, (host(9), 8080));
    // of TCP it is free
    assert_eq!(out(&mut r, tcp, (host(3), 81), remote(1)).1, 81);
}

/// Click's way, where it is asked for: ports are shared, addresses taken in turn.
#[test]
fn as_click_where_that_is_asked_for() {
    let mut r = Rig::new("nat: { pool: 203.0.113.1-203.0.113.2, mapping: address-and-port }");
    r.is_proved();
    let mut all = BTreeSet::new();
    for n in 1..=4 {
        all.insert(out(&mut r, udp, (host(1), 4000), remote(n)));
    }
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|e| e.1 == 4000));
}
