//! The function that says which worker gets a packet: which packets have to meet, and that there is an answer for every
//! frame.

use onefold_partition::{
    Forward, Hash, Partition, Pool, PortRule, Target, Transport, owner, slice_of,
};
use proptest::prelude::*;
use std::net::Ipv4Addr;

const POOL: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const SECOND: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 22);
const IDENTIFICATION: u16 = 77;

/// An IPv4 packet. `place`: flags and offset of the fragment.
fn ip(proto: u8, (s, d): (Ipv4Addr, Ipv4Addr), place: u16, options: usize, body: &[u8]) -> Vec<u8> {
    let header = 20 + options * 4;
    let mut p = vec![0x40 | (header / 4) as u8, 0];
    p.extend(((header + body.len()) as u16).to_be_bytes());
    p.extend(IDENTIFICATION.to_be_bytes());
    p.extend(place.to_be_bytes());
    p.extend([64, proto, 0, 0]);
    p.extend(s.octets());
    p.extend(d.octets());
    p.extend(vec![1; options * 4]);
    p.extend(body);
    p
}

fn framed(tags: usize, kind: u16, body: &[u8]) -> Vec<u8> {
    let mut f = vec![2; 12];
    for t in 0..tags {
        f.extend([[0x81, 0], [0, t as u8]].concat());
    }
    f.extend(kind.to_be_bytes());
    f.extend(body);
    f
}

fn ports(s: u16, d: u16) -> Vec<u8> {
    [s.to_be_bytes(), d.to_be_bytes(), [0, 8], [0, 0]].concat()
}

fn v4(packet: &[u8]) -> Vec<u8> {
    framed(0, 0x0800, packet)
}

/// An ICMP error from `from` to `to` about `packet`.
fn error_about(packet: &[u8], from: Ipv4Addr, to: Ipv4Addr, place: u16) -> Vec<u8> {
    let body = [&[3, 4, 0, 0, 0, 0, 0, 0], packet].concat();
    v4(&ip(1, (from, to), place, 0, &body))
}

fn outside() -> PortRule {
    PortRule {
        hash: Hash::Source,
        pools: vec![Pool {
            addresses: (POOL, SECOND),
            ports: (1024, 65535),
            identifiers: (1, 65535),
            forwards: vec![Forward {
                transport: Transport::Tcp,
                address: POOL,
                port: 80,
                host: HOST,
            }],
        }],
        ..PortRule::default()
    }
}

fn inside() -> PortRule {
    PortRule {
        hosts: vec![HOST],
        hairpins: vec![(POOL, SECOND)],
        ..PortRule::default()
    }
}

fn of(p: &mut Partition, port: usize, frame: &[u8]) -> usize {
    match p.target(port, frame) {
        Target::One(w) => w,
        Target::All => panic!("everyone"),
    }
}

fn address() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

proptest! {
    /// Every frame has a target in range, whatever is in it and however short it is.
    #[test]
    fn every_frame_has_a_worker(
        workers in 1usize..9,
        kind in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8100, 0x1234]),
        tags in 0usize..4,
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        first in prop::sample::select(vec![0x45u8, 0x4f, 0x60, 0x40, 0x00]),
        proto in prop::sample::select(vec![0u8, 1, 6, 17, 43, 44, 51, 58, 60]),
    ) {
        let mut p = Partition::new(workers, 3, vec![outside(), inside()]);
        let mut body = bytes;
        for (at, b) in [(0, first), (9, proto), (6, proto)] {
            if let Some(x) = body.get_mut(at) {
                *x = b;
            }
        }
        let frame = framed(tags, kind, &body);
        for port in 0..3 {
            for n in 0..=frame.len() {
                match p.target(port, &frame[..n]) {
                    Target::One(w) => prop_assert!(w < workers),
                    Target::All => prop_assert!(false, "nobody is asked here"),
                }
            }
        }
    }

    /// Where nothing is rewritten: both directions, tagged or not, with options or not, whole or in fragments, and
    /// errors about either.
    #[test]
    fn both_directions_meet(
        a in address(), b in address(), s in any::<u16>(), d in any::<u16>(), router in address(),
        proto in prop::sample::select(vec![1u8, 6, 17, 47]), tags in 0usize..3, options in 0usize..11,
    ) {
        let mut p = Partition::new(5, 9, vec![PortRule::default(); 2]);
        let there = ip(proto, (a, b), 0, 0, &ports(s, d));
        let back = ip(proto, (b, a), 0, options, &ports(d, s));
        prop_assume!(proto != 1);
        let w = of(&mut p, 0, &v4(&there));
        prop_assert_eq!(of(&mut p, 1, &framed(tags, 0x0800, &back)), w);
        prop_assert_eq!(of(&mut p, 0, &v4(&ip(proto, (a, b), 0x2000, 0, &ports(s, d)))), w);
        prop_assert_eq!(of(&mut p, 0, &v4(&ip(proto, (a, b), 0x0100, 0, &[9; 40]))), w);
        prop_assert_eq!(of(&mut p, 1, &error_about(&there, router, a, 0)), w);
        prop_assert_eq!(of(&mut p, 0, &error_about(&back, router, b, 0)), w);
    }

    /// At a NAT's outside: replies, errors about what it has sent, and fragments of both, go to the worker whose slice
    /// the port is in; forwards by their source, as what the inside host answers.
    #[test]
    fn replies_find_the_slice(
        remote in address(), router in address(), s in any::<u16>(), pick in any::<u16>(), workers in 1usize..9,
        to in prop::sample::select(vec![POOL, SECOND]), proto in prop::sample::select(vec![6u8, 17]),
    ) {
        let mut p = Partition::new(workers, 9, vec![inside(), outside()]);
        let w = usize::from(pick) % workers;
        let (lo, hi) = slice_of((1024, 65535), w, workers).unwrap_or((0, 0));
        let port = lo + pick % (hi - lo + 1);
        prop_assert_eq!(of(&mut p, 1, &v4(&ip(proto, (remote, to), 0, 3, &ports(s, port)))), w);
        let sent = ip(proto, (to, remote), 0, 0, &ports(port, s));
        prop_assert_eq!(of(&mut p, 1, &error_about(&sent, router, to, 0)), w);
        // an error in fragments: the later ones quote nothing
        prop_assert_eq!(of(&mut p, 1, &error_about(&sent, router, SECOND, 0x2000)), w);
        prop_assert_eq!(of(&mut p, 1, &v4(&ip(1, (router, SECOND), 0x0100, 0, &[0; 24]))), w);
        prop_assert_eq!(of(&mut p, 1, &v4(&ip(proto, (remote, to), 0x2000, 0, &ports(s, port)))), w);
        prop_assert_eq!(of(&mut p, 1, &v4(&ip(proto, (remote, to), 0x2001, 0, &[0; 24]))), w);
        prop_assert_eq!(of(&mut p, 1, &v4(&ip(proto, (remote, to), 0x0002, 0, &[0; 24]))), w);

        // whoever sent it gets what comes back for it, and what is said about errors
        let reply = ip(proto, (remote, to), 0, 3, &ports(s, port));
        if workers == 1 || remote.is_multicast() || remote.is_broadcast() {
            prop_assert_eq!(p.answered_by(1, &v4(&sent)), None);
        } else {
            prop_assert_eq!(p.answered_by(1, &v4(&sent)), Some(w));
            prop_assert_eq!(p.answered_by(1, &error_about(&reply, to, remote, 0)), Some(w));
        }
        prop_assert_eq!(p.expected(1, &v4(&reply)), Some(Target::One(w)));
        // all fragments are brought to one worker, which knows what they belong to
        let first = v4(&ip(proto, (remote, to), 0x2000, 0, &ports(s, port)));
        let later = v4(&ip(proto, (remote, to), 0x2001, 0, &[0; 24]));
        prop_assert_eq!(p.collector(1, &first).is_some_and(|c| c < workers), workers > 1);
        prop_assert_eq!(p.collector(1, &first), p.collector(1, &later));
        prop_assert_eq!(p.collector(1, &v4(&reply)), None);
        prop_assert_eq!(p.expected(1, &later), (workers == 1).then_some(Target::One(0)));

        let ping = (1, 65535);
        let echo = [0, 0, 0, 0, (port >> 8) as u8, port as u8, 0, 1];
        let reply = of(&mut p, 1, &v4(&ip(1, (remote, POOL), 0, 0, &echo)));
        prop_assert_eq!(Some(reply), owner(ping, port, workers));

        let request = of(&mut p, 1, &v4(&ip(6, (remote, POOL), 0, 0, &ports(s, 80))));
        let answer = of(&mut p, 0, &v4(&ip(6, (HOST, remote), 0, 0, &ports(8080, s))));
        prop_assert_eq!(request, answer);
        let refused = error_about(&ip(6, (remote, HOST), 0, 0, &ports(s, 8080)), HOST, remote, 0);
        prop_assert_eq!(of(&mut p, 0, &refused), answer);
        // inside hosts meet, whichever outside addresses they use
        let asks = of(&mut p, 0, &v4(&ip(6, (Ipv4Addr::new(10, 1, 1, 1), POOL), 0, 0, &ports(s, 80))));
        let answers = of(&mut p, 0, &v4(&ip(6, (HOST, SECOND), 0, 0, &ports(8080, port))));
        prop_assert_eq!(asks, answers);
    }
}

/// IPv6: extension headers are passed over, errors go by what they quote, later fragments of an error follow.
#[test]
fn ip6_too() {
    let mut p = Partition::new(7, 1, vec![PortRule::default(); 2]);
    let v6 = |proto: u8, s: u8, d: u8, body: &[u8]| {
        let mut b = vec![0x60, 0, 0, 0, 0, body.len() as u8, proto, 64];
        for a in [s, d] {
            b.extend([[0x20, 1, 0xd, 0xb8], [0; 4], [0; 4], [0, 0, 0, a]].concat());
        }
        b.extend(body);
        b
    };
    let mut apart = 0;
    for (a, b) in (1..20).zip(30..50) {
        let there = v6(17, a, b, &ports(1, 2));
        let w = of(&mut p, 0, &framed(0, 0x86dd, &there));
        let back = v6(
            60,
            b,
            a,
            &[&[17, 0, 1, 4, 0, 0, 0, 0][..], &ports(2, 1)].concat(),
        );
        assert_eq!(of(&mut p, 1, &framed(1, 0x86dd, &back)), w);
        let quote = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &there].concat();
        assert_eq!(of(&mut p, 1, &framed(0, 0x86dd, &v6(58, 99, a, &quote))), w);
        let in_fragments = [&[58, 0, 0, 1, 0, 0, 0, a][..], &quote].concat();
        assert_eq!(
            of(&mut p, 1, &framed(0, 0x86dd, &v6(44, 99, a, &in_fragments))),
            w
        );
        let later = [58, 0, 1, 0, 0, 0, 0, a, 0, 0, 0, 0];
        assert_eq!(of(&mut p, 1, &framed(0, 0x86dd, &v6(44, 99, a, &later))), w);
        apart += usize::from(w != of(&mut p, 1, &framed(0, 0x86dd, &v6(17, 99, a, &[]))));
    }
    assert!(apart > 5, "errors would have met their flows anyway");
}

/// Replies of neighbours go to everybody where the chain asks, and to one worker elsewhere; other frames to the first
/// one.
#[test]
fn replies_of_neighbours_go_to_all_who_ask() {
    let asks = PortRule {
        neighbours: true,
        ..PortRule::default()
    };
    let mut p = Partition::new(3, 0, vec![asks, PortRule::default()]);
    let arp = |operation: u8| {
        let body = [&[0, 1, 8, 0, 6, 4, 0, operation][..], &[0; 20]].concat();
        framed(0, 0x0806, &body)
    };
    assert_eq!(p.target(0, &arp(2)), Target::All);
    assert_eq!(p.target(1, &arp(2)), Target::One(0));
    assert_eq!(p.target(0, &arp(1)), Target::One(0));
    let mut advertisement = vec![0x60, 0, 0, 0, 0, 24, 58, 255];
    advertisement.extend([7; 32]);
    advertisement.extend([136, 0, 0, 0]);
    let advertisement = framed(0, 0x86dd, &advertisement);
    assert_eq!(p.target(0, &advertisement), Target::All);
    assert_eq!(p.target(1, &advertisement), Target::One(0));
    assert_eq!(p.target(0, &framed(0, 0x88cc, &[1; 50])), Target::One(0));
    assert!(Target::All.is_for(2) && Target::One(2).is_for(2) && !Target::One(1).is_for(2));
}

/// Hashes spread: no worker of eight has less than three quarters of its share of many addresses, whichever is hashed.
#[test]
fn hashes_spread() {
    for hash in [Hash::Both, Hash::Source, Hash::Destination] {
        let rule = PortRule {
            hash,
            ..PortRule::default()
        };
        let mut p = Partition::new(8, 4, vec![rule]);
        let mut got = [0; 8];
        for n in 0..8000u32 {
            let (a, b) = (
                Ipv4Addr::from(0x0a00_0000 + n),
                Ipv4Addr::from(0xc633_6400 + n),
            );
            got[of(&mut p, 0, &v4(&ip(17, (a, b), 0, 0, &ports(1, 2))))] += 1;
        }
        assert!(got.iter().all(|n| *n > 750), "{hash:?}: {got:?}");
    }
}
