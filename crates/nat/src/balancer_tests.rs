//! Who gets a connection.

use super::*;
use std::net::Ipv6Addr;

const ALL: [Spread; 3] = [
    Spread::RoundRobin,
    Spread::SourceHash {
        nodes: 100,
        seed: 0xbeef,
    },
    Spread::Maglev { size: 997, seed: 0 },
];

fn server(n: u16, weight: u32) -> BalancedServer {
    BalancedServer {
        end: (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n).into(), 8080),
        weight,
        id: n,
    }
}

fn flow(n: u32) -> BalancedFlow {
    BalancedFlow {
        source: 0x2001_0db8_0001 << 80 | u128::from(n.wrapping_mul(0x9e37_79b1)),
        destination: 0x2001_0db8_0002 << 80 | 0x80,
        ports: ((n >> 3) as u16, 443),
        protocol: 6,
    }
}

/// Connections by server.
fn shares(b: &mut Balancer, n: u32) -> Vec<(ServerEnd, usize)> {
    let mut all: Vec<(ServerEnd, usize)> = b.servers().map(|s| (s.0, 0)).collect();
    for i in 0..n {
        let to = b.choose(&flow(i)).unwrap();
        all.iter_mut().find(|a| a.0 == to).unwrap().1 += 1;
    }
    all
}

#[test]
fn shares_follow_weights() {
    for spread in ALL {
        let mut b = Balancer::new(&[server(1, 1), server(2, 3), server(3, 2)], spread);
        let all = shares(&mut b, 12_000);
        for ((_, n), wanted) in all.iter().zip([2000, 6000, 4000]) {
            // places on the ring are drawn
            let most = if spread == ALL[1] {
                wanted / 3
            } else {
                wanted / 8
            };
            assert!(n.abs_diff(wanted) <= most, "{spread:?}: {all:?}");
        }
    }
}

#[test]
fn who_is_chosen_by_a_hash_stays() {
    for spread in &ALL[1..] {
        let servers = [server(1, 1), server(2, 1), server(3, 1), server(4, 1)];
        let mut b = Balancer::new(&servers, *spread);
        let mut turned = Balancer::new(&[servers[2], servers[0], servers[3], servers[1]], *spread);
        let mut fewer = Balancer::new(&[servers[0], servers[1], servers[3]], *spread);
        let mut moved = 0;
        for n in 0..4000 {
            let to = b.choose(&flow(n));
            assert_eq!(b.choose(&flow(n)), to);
            // in whatever order they are told
            assert_eq!(turned.choose(&flow(n)), to);
            if to != Some(servers[2].end) && fewer.choose(&flow(n)) != to {
                moved += 1;
            }
        }
        // of 3,000; an ideal hash moves none
        assert!(moved < 300, "{spread:?}: {moved}");
    }
}

/// Each server has its turn as often as its weight says, and none is lost where others are down.
#[test]
fn turns() {
    let mut b = Balancer::new(&[server(1, 2), server(2, 1)], Spread::RoundRobin);
    let next = |b: &mut Balancer| b.choose(&flow(7)).map(|s| s.0.to_string());
    let names = ["2001:db8::1", "2001:db8::1", "2001:db8::2"];
    for i in 0..9 {
        assert_eq!(next(&mut b).as_deref(), Some(names[i % 3]));
    }
    b.set_down(&[server(1, 2).end]).unwrap();
    for _ in 0..4 {
        assert_eq!(next(&mut b).as_deref(), Some(names[2]));
    }
}

#[test]
fn servers_that_are_down() {
    for spread in ALL {
        let servers = [server(1, 1), server(2, 1), server(3, 1)];
        let mut b = Balancer::new(&servers, spread);
        let before: Vec<_> = (0..500).map(|n| b.choose(&flow(n))).collect();
        b.set_down(&[servers[1].end]).unwrap();
        for (n, was) in before.iter().enumerate() {
            let to = b.choose(&flow(n as u32));
            assert_ne!(to, Some(servers[1].end));
            if spread != Spread::RoundRobin && *was != Some(servers[1].end) {
                assert_eq!(to, *was, "others stay");
            }
        }
        let unknown = server(9, 1).end;
        assert_eq!(b.set_down(&[unknown]), Err(unknown));
        assert_eq!(b.servers().filter(|s| s.1).count(), 1);
        b.set_down(&servers.map(|s| s.end)).unwrap();
        assert_eq!(b.choose(&flow(1)), None);
        b.set_down(&[]).unwrap();
        assert!(b.choose(&flow(1)).is_some());
    }
}

/// By address, wherever a server stands in the list.
#[test]
fn what_is_handed_on() {
    let mut old = Balancer::new(
        &[server(1, 1), server(2, 1), server(3, 1)],
        Spread::RoundRobin,
    );
    old.choose(&flow(1));
    old.choose(&flow(2));
    old.set_down(&[server(2, 1).end, server(3, 1).end]).unwrap();
    let mut new = Balancer::new(&[server(3, 1), server(4, 1)], Spread::RoundRobin);
    assert_eq!(new.take_state(&mut old, &|e| Some(e)), Takes::Done);
    let down: Vec<_> = new.servers().filter(|s| s.1).map(|s| s.0).collect();
    assert_eq!(down, [server(3, 1).end]);
    assert!(new.summary().contains("down: [2001:db8::3]:8080"));
    assert_eq!(new.choose(&flow(3)), Some(server(4, 1).end));
}

/// Of another configuration: who is down is taken over by address, whose turn it is is not.
#[test]
fn settings_are_handed_on_without_the_turn() {
    for spread in ALL {
        let mut old = Balancer::new(&[server(1, 1), server(2, 1), server(3, 1)], spread);
        old.choose(&flow(1));
        old.set_down(&[server(1, 1).end, server(3, 1).end]).unwrap();
        let mut new = Balancer::new(&[server(4, 2), server(3, 1), server(2, 1)], spread);
        new.set_down(&[server(4, 2).end, server(2, 1).end]).unwrap();
        let turn = new.choice.text();
        new.take_settings(&old);
        let down: Vec<_> = new.servers().filter(|s| s.1).map(|s| s.0).collect();
        assert_eq!(
            down,
            [server(3, 1).end],
            "{spread:?}: what it had is replaced"
        );
        assert_eq!(new.choice.text(), turn);
        for n in 0..100 {
            assert_ne!(new.choose(&flow(n)), Some(server(3, 1).end), "{spread:?}");
        }
        // another state's settings are none of a balancer's
        let before = new.summary();
        new.take_settings(&crate::FlowTable::new());
        assert_eq!(new.summary(), before);
    }
}

/// A turn behind the end of a shorter list is one of that list.
#[test]
fn turns_are_handed_on_within_the_list() {
    let servers: Vec<_> = (1..=5).map(|n| server(n, 1)).collect();
    let mut old = Balancer::new(&servers, Spread::RoundRobin);
    for n in 0..4 {
        old.choose(&flow(n));
    }
    let mut new = Balancer::new(&servers[..3], Spread::RoundRobin);
    new.take_state(&mut old, &|e| Some(e));
    assert_eq!(new.choose(&flow(9)), Some(servers[1].end));
}

/// Addresses that differ in any bit are others.
#[test]
fn all_bits_count() {
    let spread = Spread::Maglev { size: 997, seed: 0 };
    let servers: Vec<BalancedServer> = (1..=50).map(|n| server(n, 1)).collect();
    for (what, spread) in [
        ("source", ALL[1]),
        ("source", spread),
        ("destination", spread),
    ] {
        let mut b = Balancer::new(&servers, spread);
        let mut seen = std::collections::HashSet::new();
        for bit in 0..128 {
            let mut f = flow(1);
            match what {
                "source" => f.source ^= 1 << bit,
                _ => f.destination ^= 1 << bit,
            }
            seen.insert(b.choose(&f));
        }
        assert!(seen.len() > 30, "{what} {spread:?}: {}", seen.len());
    }
}
