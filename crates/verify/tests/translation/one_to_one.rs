//! ICMP errors and fragments through one-to-one translation.

use super::Rig;
use super::packets::*;

fn nat() -> Rig {
    Rig::new("nat: { one-to-one: [10.0.0.5 = 203.0.113.5, 10.0.0.6 = 203.0.113.6] }")
}

fn remote() -> Addr {
    a("198.51.100.1")
}

/// Packets from inside of several protocols, and those that answer them as they arrive outside.
fn packets(from: Addr, to: Addr) -> Vec<Vec<u8>> {
    vec![
        tcp((from, 1000), (to, 80)),
        udp((from, 1000), (to, 53)),
        echo(from, to, 8, 5),
        echo(from, to, 0, 5),
        ip(from, to, 47, 3, 0, b"of a tunnel that nobody looks into"),
        ip(from, to, 50, 3, 0, b"encrypted"),
    ]
}

#[test]
fn proved() {
    nat().is_proved();
}

#[test]
fn errors_from_outside() {
    let mut r = nat();
    for sent in packets(a("10.0.0.5"), remote()) {
        let p = r.through(0, &frame(&sent));
        assert_eq!(ends(&p), (a("203.0.113.5"), remote()));
        for from in [remote(), a("192.0.2.9")] {
            for n in [1500, 28, 20] {
                let e = r.through(1, &frame(&error(from, a("203.0.113.5"), &p, n)));
                assert_eq!(ends(&e), (from, a("10.0.0.5")));
                assert_eq!(quoted(&e), sent[..n.min(sent.len())]);
            }
        }
    }
}

#[test]
fn errors_from_inside() {
    let mut r = nat();
    for sent in packets(remote(), a("203.0.113.5")) {
        let inner = r.through(1, &frame(&sent));
        assert_eq!(ends(&inner), (remote(), a("10.0.0.5")));
        let senders = [
            ("10.0.0.5", "203.0.113.5"),
            // another one with an address of its own
            ("10.0.0.6", "203.0.113.6"),
            // a router without
            ("10.9.9.9", "203.0.113.5"),
        ];
        for (from, shown) in senders {
            for n in [1500, 28, 20] {
                let e = r.through(0, &frame(&error(a(from), remote(), &inner, n)));
                assert_eq!(ends(&e), (a(shown), remote()));
                assert_eq!(quoted(&e), sent[..n.min(sent.len())]);
            }
        }
    }
}

#[test]
fn errors_about_nothing_known() {
    let mut r = nat();
    let strange = udp((a("203.0.113.5"), 1), (remote(), 2));
    let e = error(remote(), a("203.0.113.5"), &strange, 1500);
    assert_eq!(
        r.lost(1, &frame(&e)),
        "ICMPRewriter: no mapping for the packet that the error is about"
    );
    let strange = udp((remote(), 1), (a("10.0.0.5"), 2));
    let e = error(a("10.9.9.9"), remote(), &strange, 1500);
    assert_eq!(
        r.lost(0, &frame(&e)),
        "ICMPRewriter: no mapping for the packet that the error is about"
    );
}

#[test]
fn fragments() {
    let mut r = nat();
    let whole = udp((a("10.0.0.5"), 1), (remote(), 2));
    for f in super::packets::fragments(&whole, 99) {
        let p = r.through(0, &frame(&f));
        assert_eq!(ends(&p), (a("203.0.113.5"), remote()));
        assert_eq!(p[4..8], f[4..8]);
    }
}
