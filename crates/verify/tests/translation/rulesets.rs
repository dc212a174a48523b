//! How translation by rulesets stands to what RFC 4787, 5382 and 5508 require: as Linux does it
//! (docs/nat-behaviour.md).

use super::Rig;
use super::packets::*;

type End = (Addr, u16);

/// A router whose table nat has this rule, with addresses .1 to .4 outside.
fn router(rule: &str) -> Rig {
    let dir = std::env::temp_dir().join(format!("onefold-requirements-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join(rule.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let rules = format!(
        "*nat\n:PREROUTING ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -o wan0 {rule}\nCOMMIT\n\
         *filter\n:FORWARD DROP [0:0]\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
         -A FORWARD -i lan0 -o wan0 -j ACCEPT\nCOMMIT\n"
    );
    std::fs::write(&file, rules).unwrap();
    let r = Rig::new(&format!(
        "firewall: {{ rules-file: \"{}\", interfaces: {{ inside: lan0, outside: wan0 }}, \
         addresses: {{ inside: [10.0.0.254/24], outside: [203.0.113.1/24] }} }}",
        file.display()
    ));
    let _ = std::fs::remove_file(&file);
    r
}

fn host(n: u8) -> Addr {
    [10, 0, 0, n]
}
fn remote(n: u8) -> End {
    ([198, 51, 100, n], 53)
}
fn out(r: &mut Rig, from: End, to: End) -> End {
    let p = r.through(0, &frame(&udp(from, to)));
    assert_eq!(flow(&p).1, to);
    flow(&p).0
}

const MASQUERADE: &str = "-j MASQUERADE";

/// RFC 4787 REQ-1 and REQ-3: who is known keeps the port that it has, as long as nobody has it for that destination, so
/// that the mapping is endpoint-independent unless somebody is in the way; and ports are shared by those with different
/// destinations.
#[test]
fn a_port_stays_where_it_is_free() {
    let mut r = router(MASQUERADE);
    let own = a("203.0.113.1");
    for n in 1..4 {
        assert_eq!(out(&mut r, (host(1), 4000), remote(n)), (own, 4000));
    }
    let moved = out(&mut r, (host(2), 4000), remote(1));
    assert!(moved.0 == own && moved.1 != 4000 && moved.1 >= 1024);
    assert_eq!(out(&mut r, (host(2), 4000), remote(9)), moved);
    // shared with the first one
    assert_eq!(out(&mut r, (host(3), 4000), remote(9)), (own, 4000));
}

/// RFC 4787 REQ-2: paired with `--persistent`.
#[test]
fn one_address_for_a_host_where_that_is_asked_for() {
    let mut r = router("-j SNAT --to-source 203.0.113.1-203.0.113.4 --persistent");
    for n in 1..20 {
        let shown = out(&mut r, (host(n), 4000), remote(1)).0;
        for to in 2..6 {
            assert_eq!(
                out(&mut r, (host(n), 4000 + u16::from(to)), remote(to)).0,
                shown
            );
        }
    }
}

/// RFC 4787 REQ-3 a: privileged ports stay privileged, others are not.
#[test]
fn the_class_of_a_port_stays() {
    let mut r = router(MASQUERADE);
    for n in 1..20 {
        for port in [100, 700, 4000] {
            let shown = out(&mut r, (host(n), port), remote(1)).1;
            assert_eq!(shown < 1024, port < 1024);
        }
    }
}

/// RFC 4787 REQ-5: the tracker's time-outs, 30 seconds, and 120 of a stream.
#[test]
fn udp_time_outs_are_the_trackers() {
    let mut r = router(MASQUERADE);
    let (from, to) = ((host(1), 4000), remote(1));
    let shown = out(&mut r, from, to);
    r.wait(29);
    r.through(1, &frame(&udp(to, shown)));
    let mut r = router(MASQUERADE);
    let shown = out(&mut r, from, to);
    r.wait(31);
    assert_eq!(r.send(1, &frame(&udp(to, shown))), []);
}

/// RFC 4787 REQ-8: filtering is address and port dependent. RFC 5508 REQ-4: errors come back, and end nothing.
#[test]
fn strangers_are_not_let_in_and_errors_are() {
    let mut r = router(MASQUERADE);
    let from = (host(1), 4000);
    let sent = udp(from, remote(1));
    let p = r.through(0, &frame(&sent));
    let shown = flow(&p).0;
    assert_eq!(r.send(1, &frame(&udp(remote(2), shown))), []);
    let e = r.through(1, &frame(&error(remote(3).0, shown.0, &p, 1500)));
    assert_eq!((ends(&e), quoted(&e)), ((remote(3).0, from.0), sent));
    r.through(1, &frame(&udp(remote(1), shown)));
}

/// RFC 4787 REQ-14: fragments are of no connection, and dropped.
#[test]
fn fragments_are_dropped() {
    let mut r = router(MASQUERADE);
    for f in fragments(&udp((host(1), 4000), remote(1)), 5) {
        assert_eq!(r.send(0, &frame(&f)), []);
    }
}

/// RFC 4787 REQ-9: an inside host that asks for a forwarded port by the router's outside address is not turned round,
/// also where a rule would give it another source (the usual rules for hairpinning): that is said by its reason, and
/// nothing leaves. Other destinations behind the same rules are as without them.
#[test]
fn inside_hosts_do_not_reach_each_other_by_outside_addresses() {
    let mut r = router(
        "-j MASQUERADE\n-A PREROUTING -d 203.0.113.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 10.0.0.5:53\n\
         -A POSTROUTING -s 10.0.0.0/24 -d 10.0.0.5/32 -p udp -m udp --dport 53 -j MASQUERADE",
    );
    let own = a("203.0.113.1");
    let why = r.lost(0, &frame(&udp((host(9), 4000), (own, 53))));
    assert!(
        why.contains("its new destination is where it came from"),
        "{why}"
    );
    assert_eq!(out(&mut r, (host(9), 4000), remote(1)), (own, 4000));
}
