//! No flow takes another one's place.

use super::packets::*;
use super::{Rig, refused};

const NO_ROOM: &str = "IPRewriter: no free port or address";

#[test]
fn a_port_range_of_one_port() {
    for range in ["5000", "5000-5000"] {
        let f =
            format!("nat: {{ pool: 203.0.113.1, port-range: {range}, mapping: address-and-port }}");
        let mut r = Rig::new(&f);
        r.is_proved();
        let (outside, remote) = ((a("203.0.113.1"), 5000), (a("198.51.100.1"), 53));
        let (first, second) = ((a("10.0.0.1"), 4000), (a("10.0.0.2"), 4000));
        for packet in [udp, tcp] {
            for _ in 0..3 {
                let p = r.through(0, &frame(&packet(first, remote)));
                assert_eq!(flow(&p), (outside, remote));
                // the second host has to do without
                assert_eq!(r.lost(0, &frame(&packet(second, remote))), NO_ROOM);
                let p = r.through(1, &frame(&packet(remote, outside)));
                assert_eq!(flow(&p), (remote, first));
            }
            // with somebody else it may speak
            let other = (a("198.51.100.2"), 53);
            let p = r.through(0, &frame(&packet(second, other)));
            assert_eq!(flow(&p), (outside, other));
        }
    }
}

#[test]
fn forwards_to_one_inside_address_and_port() {
    let mut r = Rig::new(
        "nat: { pool: 203.0.113.1, forward: [tcp 203.0.113.1:80 -> 10.0.0.5:8080, tcp 203.0.113.1:81 -> 10.0.0.5:8080] }",
    );
    r.is_proved();
    let (server, at) = ((a("10.0.0.5"), 8080), a("203.0.113.1"));
    let remote = (a("198.51.100.1"), 4000);
    for _ in 0..3 {
        let p = r.through(1, &frame(&tcp(remote, (at, 80))));
        assert_eq!(flow(&p), (remote, server));
        // its replies would be those of the flow through port 80
        assert_eq!(r.lost(1, &frame(&tcp(remote, (at, 81)))), NO_ROOM);
        let p = r.through(0, &frame(&tcp(server, remote)));
        assert_eq!(flow(&p), ((at, 80), remote));
    }
    let other = (remote.0, 4001);
    let p = r.through(1, &frame(&tcp(other, (at, 81))));
    assert_eq!(flow(&p), (other, server));
    let p = r.through(0, &frame(&tcp(server, other)));
    assert_eq!(flow(&p), ((at, 81), other));
}

#[test]
fn a_forward_does_not_take_over_the_servers_own_flow() {
    let mut r =
        Rig::new("nat: { pool: 203.0.113.1, forward: [tcp 203.0.113.1:80 -> 10.0.0.5:8080] }");
    let (server, at) = ((a("10.0.0.5"), 8080), a("203.0.113.1"));
    let remote = (a("198.51.100.1"), 4000);
    let p = r.through(0, &frame(&tcp(server, remote)));
    assert_eq!(flow(&p), ((at, 8080), remote));
    assert_eq!(r.lost(1, &frame(&tcp(remote, (at, 80)))), NO_ROOM);
    let p = r.through(1, &frame(&tcp(remote, (at, 8080))));
    assert_eq!(flow(&p), (remote, server));
}

#[test]
fn a_pool_of_one_port_each_gives_the_next_address() {
    let mut r = Rig::new(
        "nat: { pool: 203.0.113.1-203.0.113.2, port-range: 5000, mapping: address-and-port }",
    );
    let remote = (a("198.51.100.1"), 53);
    let mut seen = Vec::new();
    for host in ["10.0.0.1", "10.0.0.2"] {
        let p = r.through(0, &frame(&udp((a(host), 1), remote)));
        seen.push(ends(&p).0);
    }
    seen.sort_unstable();
    assert_eq!(seen, [a("203.0.113.1"), a("203.0.113.2")]);
    let third = frame(&udp((a("10.0.0.3"), 1), remote));
    assert_eq!(r.lost(0, &third), NO_ROOM);
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let has = |function: &str, wanted: &str| {
        let all = refused(function);
        assert!(all.contains(wanted), "no '{wanted}' in\n{all}");
    };
    has(
        "nat: { pool: 203.0.113.1, capacity: 4194305 }",
        "capacity 4194305 out of range, at most 4194304 flows",
    );
    has(
        "nat: { pool: 203.0.113.1, capacity: 4194305 }",
        "t/chain.yaml:3:41",
    );
    has(
        "nat: { one-to-one: [10.0.0.1 = 203.0.113.1, 10.0.0.1 = 203.0.113.2] }",
        "inside address 10.0.0.1 has a pair already",
    );
    has(
        "nat: { one-to-one: [10.0.0.1 = 203.0.113.1, 10.0.0.2 = 203.0.113.1] }",
        "outside address 203.0.113.1 has a pair already",
    );
    has(
        "nat: { one-to-one: [] }",
        "'one-to-one' needs at least one pair",
    );
    has(
        "nat: { pool: 203.0.113.1, forward: [tcp 203.0.113.1:80 -> 10.0.0.5:80, tcp 203.0.113.1:80 -> 10.0.0.6:80] }",
        "tcp 203.0.113.1:80 is forwarded already",
    );
    Rig::new("nat: { pool: 203.0.113.1, capacity: 4194304 }");
}
