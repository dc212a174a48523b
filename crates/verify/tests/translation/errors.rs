//! ICMP errors through network address and port translation (RFC 5508 REQ-3 to REQ-5 and REQ-7).

use super::Rig;
use super::packets::*;

const UNMAPPED: &str = "ICMPRewriter: no mapping for the packet that the error is about";

fn host() -> (Addr, u16) {
    (a("10.0.0.1"), 4000)
}
fn remote() -> (Addr, u16) {
    (a("198.51.100.1"), 53)
}
fn outside() -> Addr {
    a("203.0.113.1")
}

fn nat() -> Rig {
    Rig::new("nat: { pool: 203.0.113.1, forward: [tcp 203.0.113.1:80 -> 10.0.0.5:8080] }")
}

/// How much of a packet an error quotes: all, the least of RFC 792, something between.
const QUOTES: [usize; 3] = [1500, 28, 38];

#[test]
fn proved() {
    nat().is_proved();
}

#[test]
fn from_outside_about_what_went_out() {
    for packet in [udp, tcp] {
        let mut r = nat();
        let sent = packet(host(), remote());
        let p = r.through(0, &frame(&sent));
        for n in QUOTES {
            // from the host itself, and from a router on the way: its address stays
            for from in [remote().0, a("192.0.2.9")] {
                let e = r.through(1, &frame(&error(from, outside(), &p, n)));
                assert_eq!(ends(&e), (from, host().0));
                assert_eq!(quoted(&e), sent[..n.min(sent.len())]);
            }
        }
        // too little to know what it is about
        let short = frame(&error(remote().0, outside(), &p, 27));
        assert_eq!(r.lost(1, &short), UNMAPPED);
    }
}

#[test]
fn from_inside_no_private_address_gets_out() {
    for packet in [udp, tcp] {
        let mut r = nat();
        let p = r.through(0, &frame(&packet(host(), remote())));
        let from = flow(&p).0;
        let reply = packet(remote(), from);
        let inner = r.through(1, &frame(&reply));
        for n in QUOTES {
            // from the host itself, and from a router of the inside, which has no mapping
            for sender in [host().0, a("10.9.9.9")] {
                let e = r.through(0, &frame(&error(sender, remote().0, &inner, n)));
                assert_eq!(ends(&e), (outside(), remote().0));
                assert_eq!(quoted(&e), reply[..n.min(reply.len())]);
            }
        }
    }
}

#[test]
fn about_flows_that_were_let_in() {
    let mut r = nat();
    let (client, server) = ((a("198.51.100.7"), 999), (a("10.0.0.5"), 8080));
    let sent = tcp(client, (outside(), 80));
    let inner = r.through(1, &frame(&sent));
    assert_eq!(flow(&inner), (client, server));
    for sender in [server.0, a("10.9.9.9")] {
        let e = r.through(0, &frame(&error(sender, client.0, &inner, 28)));
        assert_eq!(ends(&e), (outside(), client.0));
        assert_eq!(quoted(&e), sent[..28]);
    }
    // path MTU discovery of the server
    let reply = tcp(server, client);
    let p = r.through(0, &frame(&reply));
    let e = r.through(1, &frame(&error(a("192.0.2.9"), outside(), &p, 1500)));
    assert_eq!(ends(&e), (a("192.0.2.9"), server.0));
    assert_eq!(quoted(&e), reply);
}

#[test]
fn checksums_of_udp_that_are_none_stay_so() {
    let mut r = nat();
    let mut sent = udp(host(), remote());
    sent[26..28].fill(0);
    let p = r.through(0, &frame(&sent));
    assert_eq!(p[26..28], [0, 0]);
    let e = r.through(1, &frame(&error(remote().0, outside(), &p, 1500)));
    assert_eq!(quoted(&e), sent);
}

/// Among 65,536 identifications of a flow one comes to a quoted checksum of zero, which would say that there is none.
#[test]
fn a_quoted_checksum_of_udp_does_not_become_none() {
    let mut r = nat();
    let mut sent = udp(host(), remote());
    // the checksum is all ones: the payload makes up for it
    let sum = u16::from_be_bytes([sent[26], sent[27]]);
    let word = u16::from_be_bytes([sent[28], sent[29]]);
    let whole = u32::from(word) + u32::from(sum);
    let new = ((whole & 0xffff) + (whole >> 16)) as u16;
    sent[28..30].copy_from_slice(&new.to_be_bytes());
    sent[26..28].copy_from_slice(&[0xff, 0xff]);
    check(&sent);
    let p = r.through(0, &frame(&sent));
    assert_ne!(p[26..28], [0, 0]);
    let e = r.through(1, &frame(&error(remote().0, outside(), &p, 1500)));
    assert_eq!(quoted(&e), sent);
}

#[test]
fn about_pings() {
    let mut r = nat();
    let sent = echo(host().0, remote().0, 8, 77);
    let p = r.through(0, &frame(&sent));
    assert_eq!(ends(&p), (outside(), remote().0));
    let e = r.through(1, &frame(&error(a("192.0.2.9"), outside(), &p, 28)));
    assert_eq!(ends(&e), (a("192.0.2.9"), host().0));
    assert_eq!(quoted(&e), sent[..28]);
    // about the reply, from inside
    let id = u16::from_be_bytes([p[24], p[25]]);
    let reply = echo(remote().0, outside(), 0, id);
    let inner = r.through(1, &frame(&reply));
    assert_eq!(ends(&inner), (remote().0, host().0));
    let e = r.through(0, &frame(&error(a("10.9.9.9"), remote().0, &inner, 1500)));
    assert_eq!(ends(&e), (outside(), remote().0));
    assert_eq!(quoted(&e), reply);
}

#[test]
fn about_nothing_known() {
    let mut r = nat();
    let p = r.through(0, &frame(&udp(host(), remote())));
    let strange = udp((outside(), 1), remote());
    let e = error(remote().0, outside(), &strange, 1500);
    assert_eq!(r.lost(1, &frame(&e)), UNMAPPED);
    // not to whom the quoted packet was from
    let e = error(remote().0, a("203.0.113.9"), &p, 1500);
    assert_eq!(r.lost(1, &frame(&e)), UNMAPPED);
    // about a packet of the side that it comes from
    let e = error(a("10.0.0.1"), outside(), &p, 1500);
    assert_ne!(r.lost(0, &frame(&e)), "");
    let private = udp(host(), remote());
    let e = error(a("192.0.2.9"), host().0, &private, 1500);
    assert_ne!(r.lost(1, &frame(&e)), "");
    // about an error, which nobody may send
    let e = error(
        remote().0,
        outside(),
        &error(outside(), remote().0, &p, 28),
        1500,
    );
    assert_eq!(r.lost(1, &frame(&e)), UNMAPPED);
    // a fragment of an error that looks like one
    let mut e = error(remote().0, outside(), &p, 1500);
    e[7] = 3;
    e[10..12].fill(0);
    let sum = onefold_packet::checksum::internet(&e[..20]);
    e[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_ne!(r.lost(1, &frame(&e)), "");
}

/// An inside host's error about a packet of another inside host, which both know by outside addresses.
#[test]
fn around_the_corner() {
    let mut r = Rig::new(
        "nat: { pool: 203.0.113.1, hairpin: true, forward: [tcp 203.0.113.1:80 -> 10.0.0.5:8080] }",
    );
    r.is_proved();
    let client = host();
    let sent = tcp(client, (outside(), 80));
    let mut out = r.send(0, &frame(&sent));
    assert_eq!(out.len(), 1);
    let (port, b) = out.remove(0);
    let inner = &b[14..];
    assert_eq!((port, ends(inner)), (0, (outside(), a("10.0.0.5"))));
    let e = error(a("10.0.0.5"), outside(), inner, 1500);
    let out = r.send(0, &frame(&e));
    assert_eq!(out.len(), 1);
    let (port, e) = (out[0].0, &out[0].1[14..]);
    check(e);
    assert_eq!((port, ends(e)), (0, (outside(), client.0)));
    assert_eq!(quoted(e), sent);
}
