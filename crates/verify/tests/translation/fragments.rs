//! Later fragments follow their first one, and are dropped where it is not known.

use super::Rig;
use super::packets::*;

const NOT_KNOWN: &str = "IPRewriter: not TCP or UDP, or a later fragment";

#[test]
fn through_a_nat() {
    let mut r = Rig::new("nat: { pool: 203.0.113.1 }");
    let (host, remote) = ((a("10.0.0.1"), 4000), (a("198.51.100.1"), 53));
    for (packet, id) in [(udp as fn(_, _) -> _, 1), (tcp, 2)] {
        let whole: Vec<u8> = packet(host, remote);
        let mut outer = (a("0.0.0.0"), 0);
        for (n, f) in fragments(&whole, id).iter().enumerate() {
            let p = r.through(0, &frame(f));
            assert_eq!(ends(&p), (a("203.0.113.1"), remote.0));
            assert_eq!(p[4..8], f[4..8]);
            match n {
                0 => outer = flow(&p).0,
                _ => assert_eq!(p[20..], f[20..]),
            }
        }
        for f in fragments(&packet(remote, outer), id) {
            let p = r.through(1, &frame(&f));
            assert_eq!(ends(&p), (remote.0, host.0));
        }
    }
}

#[test]
fn pings_through_a_nat() {
    let mut r = Rig::new("nat: { pool: 203.0.113.1 }");
    let (host, remote) = (a("10.0.0.1"), a("198.51.100.1"));
    let mut id = 0;
    for (n, f) in fragments(&echo(host, remote, 8, 77), 5).iter().enumerate() {
        let p = r.through(0, &frame(f));
        assert_eq!(ends(&p), (a("203.0.113.1"), remote));
        if n == 0 {
            id = u16::from_be_bytes([p[24], p[25]]);
        }
    }
    for f in fragments(&echo(remote, a("203.0.113.1"), 0, id), 5) {
        assert_eq!(ends(&r.through(1, &frame(&f))), (remote, host));
    }
}

#[test]
fn without_their_first_one_they_are_dropped() {
    let mut r = Rig::new("nat: { pool: 203.0.113.1 }");
    r.is_proved();
    let (host, remote) = ((a("10.0.0.1"), 4000), (a("198.51.100.1"), 53));
    let all = fragments(&tcp(host, remote), 1);
    assert_eq!(r.lost(0, &frame(&all[1])), NOT_KNOWN);
    r.through(0, &frame(&all[0]));
    r.through(0, &frame(&all[1]));
    // of another packet, another host, another protocol
    let other = |id, host: Addr, proto| ip(host, remote.0, proto, id, 2, b"the rest");
    r.through(0, &frame(&other(1, host.0, 6)));
    assert_eq!(r.lost(0, &frame(&other(2, host.0, 6))), NOT_KNOWN);
    assert_eq!(r.lost(0, &frame(&other(1, a("10.0.0.2"), 6))), NOT_KNOWN);
    assert_eq!(r.lost(0, &frame(&other(1, host.0, 17))), NOT_KNOWN);
    let ping = r.lost(0, &frame(&other(1, host.0, 1)));
    assert_eq!(
        ping,
        "ICMPPingRewriter: not an echo request or reply, or a later fragment"
    );
    // nobody waits for ever
    r.wait(31);
    assert_eq!(r.lost(0, &frame(&all[1])), NOT_KNOWN);
}

fn balancer(more: &str) -> Rig {
    Rig::new(&format!(
        "load-balancer: {{ address: 198.18.0.80, servers: [ {{ address: 172.16.3.1 }}, {{ address: 172.16.3.2 }} ]{more} }}"
    ))
}

#[test]
fn through_a_load_balancer() {
    let (client, at) = ((a("192.0.2.1"), 4000), (a("198.18.0.80"), 80));
    for more in ["", ", ports: [80, 443]", ", ports: [80], pass-other: false"] {
        let mut r = balancer(more);
        let all = fragments(&tcp(client, at), 1);
        // nothing goes to the virtual address behind it
        assert_eq!(r.lost(0, &frame(&all[1])), NOT_KNOWN);
        let server = flow(&r.through(0, &frame(&all[0]))).1;
        for f in &all[1..] {
            assert_eq!(ends(&r.through(0, &frame(f))), (client.0, server.0));
        }
        // nor does a server's address get out
        let back = fragments(&tcp(server, client), 2);
        assert_eq!(r.lost(1, &frame(&back[1])), NOT_KNOWN);
        for f in &back {
            assert_eq!(ends(&r.through(1, &frame(f))), (at.0, client.0));
        }
    }
}

#[test]
fn of_other_traffic_through_a_load_balancer() {
    let (client, server) = ((a("192.0.2.1"), 4000), (a("172.16.3.1"), 53));
    let mut r = balancer(", ports: [80]");
    // a server's own packets pass as a whole
    for f in fragments(&udp(server, client), 3) {
        assert_eq!(r.through(1, &frame(&f)), f);
    }
    for f in fragments(&udp(client, server), 3) {
        assert_eq!(r.through(0, &frame(&f)), f);
    }
    // to another port of the virtual address: the first fragment is other traffic, the port of later ones is not known
    let all = fragments(&udp(client, (a("198.18.0.80"), 53)), 4);
    assert_eq!(r.through(0, &frame(&all[0])), all[0]);
    assert_eq!(r.lost(0, &frame(&all[1])), NOT_KNOWN);
}
