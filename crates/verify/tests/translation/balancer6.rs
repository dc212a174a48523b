//! The load balancer of IPv6: flows, replies and ICMPv6 errors, at all levels.

use super::packets6::*;
use super::{Rig, packets, refused};
use std::collections::BTreeMap;

fn balancer(more: &str) -> Rig {
    Rig::new(&format!(
        "load-balancer: {{ address: \"2001:db8:80::80\", servers: [ {{ address: \"2001:db8:3::1\" }}, \
         {{ address: \"2001:db8:3::2\" }} ]{more} }}"
    ))
}

fn client(port: u16) -> End6 {
    (a6("2001:db8:9::1"), port)
}

fn vip() -> End6 {
    (a6("2001:db8:80::80"), 80)
}

fn router() -> Addr6 {
    a6("2001:db8:ffff::9")
}

/// The only packet that leaves at the other port.
fn through(r: &mut Rig, port: usize, packet: &[u8]) -> Vec<u8> {
    let mut out = r.send(port, &frame6(packet));
    assert_eq!(out.len(), 1, "{:?} of {packet:02x?}", r.drops());
    let (at, f) = out.remove(0);
    assert_eq!(at, 1 - port);
    check6(&f[14..]);
    f[14..].to_vec()
}

const POLICIES: [&str; 3] = ["round-robin", "source-hash", "maglev"];

#[test]
fn proved() {
    balancer("").is_proved();
    balancer(", ports: [80, 443], pass-other: false, decrement-ttl: true").is_proved();
    for policy in POLICIES {
        balancer(&format!(", ports: [80], policy: {policy}")).is_proved();
    }
}

/// A flow stays with its server, flows are spread, and answers find their way.
#[test]
fn flows_and_answers() {
    for policy in POLICIES {
        let mut r = balancer(&format!(", policy: {policy}"));
        let mut servers = BTreeMap::new();
        for n in 0..60u16 {
            let client = (a6(&format!("2001:db8:9::{n:x}")), 4000 + n);
            let first = [udp6, tcp6][usize::from(n % 2)];
            let p = through(&mut r, 0, &first(client, vip()));
            let server = flow6(&p).1;
            assert_eq!((flow6(&p).0, server.1), (client, 80));
            for _ in 0..2 {
                // SYN and ACK, then ACK
                let reply = match n % 2 {
                    0 => udp6(server, client),
                    _ => segment6(server, client, 0x12),
                };
                let p = through(&mut r, 1, &reply);
                assert_eq!(flow6(&p), (vip(), client));
                let next = match n % 2 {
                    0 => udp6(client, vip()),
                    _ => segment6(client, vip(), 0x10),
                };
                assert_eq!(flow6(&through(&mut r, 0, &next)), (client, server));
            }
            *servers.entry(server).or_insert(0) += 1;
        }
        assert_eq!(servers.len(), 2, "{policy}");
        assert!(servers.values().all(|n| *n > 15), "{policy}: {servers:?}");
    }
}

/// Before the server has answered, too, and whatever others begin in between.
#[test]
fn packets_behind_the_first_one() {
    let mut r = balancer("");
    let p = through(&mut r, 0, &udp6(client(1), vip()));
    let server = flow6(&p).1;
    for n in 2..9 {
        through(&mut r, 0, &udp6(client(n), vip()));
        assert_eq!(
            flow6(&through(&mut r, 0, &udp6(client(1), vip()))).1,
            server
        );
    }
}

#[test]
fn errors_both_ways() {
    for more in ["", ", ports: [80, 443]", ", ports: [80], pass-other: false"] {
        for tcp in [false, true] {
            let mut r = balancer(more);
            let sent = match tcp {
                true => tcp6(client(5), vip()),
                false => udp6(client(5), vip()),
            };
            let p = through(&mut r, 0, &sent);
            let server = flow6(&p).1;
            // about what the client has sent: from the server, or from a router in front of it
            for from in [server.0, router()] {
                for n in [1500, 48] {
                    let e = through(&mut r, 1, &error6(from, client(5).0, 2, &p, n));
                    assert_eq!(ends6(&e), (vip().0, client(5).0));
                    assert_eq!(quoted6(&e), &sent[..n.min(sent.len())]);
                }
            }
            let reply = match tcp {
                true => segment6(server, client(5), 0x12),
                false => udp6(server, client(5)),
            };
            let shown = through(&mut r, 1, &reply);
            assert_eq!(flow6(&shown), (vip(), client(5)));
            // about what the server has sent
            for from in [client(5).0, router()] {
                for n in [1500, 48] {
                    let e = through(&mut r, 0, &error6(from, vip().0, 1, &shown, n));
                    assert_eq!(ends6(&e), (from, server.0));
                    assert_eq!(quoted6(&e), &reply[..n.min(reply.len())]);
                }
            }
        }
    }
}

/// Two of the balancer's ports at one port of a server: the client's second connection has another port there.
#[test]
fn connections_that_meet_at_a_server() {
    let mut r = Rig::new(
        "load-balancer: { address: \"2001:db8:80::80\", ports: [80, 443], \
         servers: [ { address: \"2001:db8:3::1\", port: 8080 } ] }",
    );
    let first = flow6(&through(&mut r, 0, &udp6(client(5), (vip().0, 80))));
    let second = flow6(&through(&mut r, 0, &udp6(client(5), (vip().0, 443))));
    assert_eq!(first, (client(5), (a6("2001:db8:3::1"), 8080)));
    assert!(second.1 == first.1 && second.0.0 == first.0.0 && second.0.1 != first.0.1);
    for (at, port) in [(first, 80), (second, 443)] {
        let p = through(&mut r, 1, &udp6(at.1, at.0));
        assert_eq!(flow6(&p), ((vip().0, port), client(5)));
    }
}

#[test]
fn other_traffic() {
    let mut r = balancer(", ports: [80]");
    let other = [
        udp6(client(1), (vip().0, 81)),
        udp6(client(1), (a6("2001:db8:3::1"), 80)),
        echo6(client(1).0, vip().0, 128, 5),
    ];
    for p in &other {
        assert_eq!(&through(&mut r, 0, p), p);
    }
    let server = (a6("2001:db8:3::1"), 9);
    for p in [
        udp6(server, client(1)),
        echo6(server.0, client(1).0, 129, 5),
    ] {
        assert_eq!(through(&mut r, 1, &p), p);
    }
    let mut r = balancer(", ports: [80], pass-other: false");
    for p in &other {
        let why = r.lost(0, &frame6(p));
        assert_eq!(why, "not for the balanced address and ports");
    }
    assert_eq!(
        r.lost(1, &frame6(&udp6(server, client(1)))),
        "no connection for this packet from a server"
    );
    // an error about nothing that is known
    let e = error6(router(), vip().0, 1, &udp6(vip(), client(9)), 1500);
    assert_eq!(
        r.lost(0, &frame6(&e)),
        "of no connection, and none can begin with it"
    );
    let v4 = packets::udp((packets::a("10.0.0.1"), 1), (packets::a("10.0.0.2"), 2));
    assert_eq!(r.lost(0, &packets::frame(&v4)), "not an IPv6 packet");
    // the first one of two fragments
    let mut f = vec![17, 0, 0, 1, 0, 0, 0, 7];
    f.extend(&udp6(client(1), vip())[40..]);
    let f = ip6(client(1).0, vip().0, 44, &f);
    assert_eq!(
        r.lost(0, &frame6(&f)),
        "a fragment: only whole packets are balanced"
    );
}

#[test]
fn versions_of_ip_are_not_mixed() {
    for (own, server, why) in [
        (
            "2001:db8::80",
            "10.0.0.1",
            "'10.0.0.1' is an IPv4 address, and the balancer's own is an IPv6 one",
        ),
        (
            "198.18.0.80",
            "2001:db8::1",
            "'2001:db8::1' is an IPv6 address, and the balancer's own is an IPv4 one",
        ),
        ("2001:db8::80", "x", "expected an IPv6 address, found 'x'"),
        ("x", "2001:db8::80", "expected an address, found 'x'"),
    ] {
        let servers = format!("[ {{ address: \"{server}\" }} ]");
        let said = refused(&format!(
            "load-balancer: {{ address: \"{own}\", servers: {servers} }}"
        ));
        assert!(said.contains(why), "{said}");
    }
}
