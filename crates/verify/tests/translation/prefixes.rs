//! Prefixes of IPv6 addresses (RFC 6296) by the kind `nat`.

use super::packets6::*;
use super::{Rig, packets, refused};

fn nat(more: &str) -> Rig {
    Rig::new(&format!(
        "nat: {{ prefixes: [ {{ inside: \"fd01:203:405::/48\", outside: \"2001:db8:1::/48\" }}, \
         {{ inside: \"fd02:1:2:300::/56\", outside: \"2001:db8:2:100::/56\" }} ]{more} }}"
    ))
}

/// RFC 6296 section 3.6: an address inside, and what stands for it outside.
fn host() -> (Addr6, Addr6) {
    (a6("fd01:203:405:1::1234"), a6("2001:db8:1:d550::1234"))
}

fn remote() -> Addr6 {
    a6("3fff::9")
}

fn packets(src: Addr6, dst: Addr6) -> Vec<Vec<u8>> {
    vec![
        udp6((src, 1000), (dst, 53)),
        tcp6((src, 1000), (dst, 80)),
        echo6(src, dst, 128, 7),
        echo6(src, dst, 129, 7),
        // a transport that no translator knows (DCCP), with a checksum of its own
        ip6(src, dst, 33, &[1, 2, 3, 4, 5, 6, 7, 8]),
    ]
}

/// The only packet that leaves at the other port.
fn through(r: &mut Rig, port: usize, packet: &[u8]) -> Vec<u8> {
    let mut out = r.send(port, &frame6(packet));
    assert_eq!(out.len(), 1, "{:?} of {packet:02x?}", r.drops());
    let (at, f) = out.remove(0);
    assert_eq!(at, 1 - port);
    f[14..].to_vec()
}

#[test]
fn proved() {
    nat("").is_proved();
    nat(", hairpin: true").is_proved();
    nat(", decrement-ttl: true").is_proved();
    nat(", pool: 203.0.113.1").is_proved();
}

/// Every packet, whatever it carries, and nothing of it but an address.
#[test]
fn the_rfcs_example_both_ways() {
    let mut r = nat("");
    let (inside, outside) = host();
    let sent = packets(inside, remote());
    for (p, shown) in sent.iter().zip(packets(outside, remote())) {
        assert_eq!(through(&mut r, 0, p), shown);
    }
    let sent = packets(remote(), outside);
    for (p, found) in sent.iter().zip(packets(remote(), inside)) {
        assert_eq!(through(&mut r, 1, p), found);
    }
}

/// All hosts of a prefix, there and back; prefixes of more than 48 bits keep the subnet.
#[test]
fn there_and_back() {
    let mut r = nat("");
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..400u32 {
        let words = n.wrapping_mul(0x9e37_79b1);
        let (high, low) = (words >> 16, words & 0xffff);
        let src = match n % 2 {
            0 => a6(&format!("fd01:203:405:{high:x}:0:ffff::{low:x}")),
            _ => a6(&format!("fd02:1:2:3{:02x}:ffff:{low:x}:ff:9", high & 0xff)),
        };
        if high == 0xffff || low == 0xffff {
            continue;
        }
        let p = through(&mut r, 0, &udp6((src, 1), (remote(), 2)));
        check6(&p);
        let shown = ends6(&p).0;
        assert!(seen.insert(shown));
        assert_eq!(shown[14..], src[14..]);
        if n % 2 == 1 {
            assert_eq!((shown[7], &shown[8..10]), (src[7], &src[8..10]));
        }
        let p = through(&mut r, 1, &udp6((remote(), 2), (shown, 1)));
        check6(&p);
        assert_eq!(ends6(&p), (remote(), src));
    }
}

#[test]
fn what_is_not_translated() {
    let mut r = nat("");
    let lost = |r: &mut Rig, port, src: &str, dst: Addr6| {
        r.lost(port, &frame6(&udp6((a6(src), 1), (dst, 2))))
    };
    let unmapped = "IP6PrefixTranslate: address cannot be mapped (RFC 6296: 0xffff)";
    assert_eq!(lost(&mut r, 0, "fd01:203:405:ffff::1", remote()), unmapped);
    let all_ones = "fd02:1:2:3ff:ffff:ffff:ffff:ffff";
    assert_eq!(lost(&mut r, 0, all_ones, remote()), unmapped);
    let outside = a6("2001:db8:1:ffff::1");
    assert_eq!(lost(&mut r, 1, "3fff::9", outside), unmapped);
    assert_eq!(
        lost(&mut r, 0, "fd03::1", remote()),
        "source address is in no prefix that is translated"
    );
    assert_eq!(
        lost(&mut r, 1, "3fff::9", a6("2001:db8:3::1")),
        "destination address is in no prefix that is translated"
    );
    let v4 = packets::udp((packets::a("10.0.0.1"), 1), (packets::a("10.0.0.2"), 2));
    assert_eq!(r.lost(0, &packets::frame(&v4)), "not an IPv6 packet");
}

#[test]
fn errors_are_translated_with_what_they_quote() {
    let mut r = nat("");
    let (inside, outside) = host();
    for (sent, shown) in (packets(inside, remote()).iter()).zip(packets(outside, remote())) {
        for (from, kind) in [(remote(), 1), (a6("2001:db8:ffff::1"), 2), (remote(), 3)] {
            for n in [1500, 48, 40] {
                let e = error6(from, outside, kind, &shown, n);
                let e = through(&mut r, 1, &e);
                check6(&e);
                assert_eq!(ends6(&e), (from, inside));
                assert_eq!(quoted6(&e), &sent[..n.min(sent.len())]);
            }
        }
    }
    // about what came from outside, by the host and by a router in front of it
    let router = (a6("fd01:203:405::1"), a6("2001:db8:1:d54f::1"));
    for (sent, found) in (packets(remote(), outside).iter()).zip(packets(remote(), inside)) {
        for (from, shown) in [host(), router] {
            let e = through(&mut r, 0, &error6(from, remote(), 1, &found, 1500));
            check6(&e);
            assert_eq!(ends6(&e), (shown, remote()));
            assert_eq!(quoted6(&e), &sent[..]);
        }
    }
}

/// RFC 6296 section 3: hosts inside that know each other by outside addresses.
#[test]
fn hairpin() {
    let mut r = nat(", hairpin: true");
    let other = a6("fd02:1:2:3aa::5");
    let p = through(&mut r, 0, &udp6((other, 1), (remote(), 2)));
    let shown = ends6(&p).0;
    let mut out = r.send(0, &frame6(&udp6((host().0, 5), (shown, 6))));
    let (port, f) = out.remove(0);
    assert_eq!((port, out.len()), (0, 0));
    check6(&f[14..]);
    assert_eq!(flow6(&f[14..]), ((host().1, 5), (other, 6)));
    // an error about it comes back by the same way
    let e = error6(other, host().1, 1, &f[14..], 1500);
    let mut out = r.send(0, &frame6(&e));
    let (port, f) = out.remove(0);
    assert_eq!((port, ends6(&f[14..])), (0, (shown, host().0)));
    check6(&f[14..]);
    assert_eq!(quoted6(&f[14..]), udp6((host().0, 5), (shown, 6)));
}

/// Neighbor discovery and what else stays on a link passes from side to side, as ARP does.
#[test]
fn what_stays_on_the_link() {
    let mut r = nat("");
    for (src, dst) in [
        ("fe80::1", "ff02::1"),
        ("fe80::1", "fe80::2"),
        ("::", "ff02::1:ff00:1"),
        ("fd01:203:405:1::1234", "ff05::2"),
    ] {
        let p = udp6((a6(src), 1), (a6(dst), 2));
        assert_eq!(through(&mut r, 0, &p), p);
        assert_eq!(through(&mut r, 1, &p), p);
    }
}

/// IPv4 and IPv6 in one function.
#[test]
fn beside_a_pool() {
    let mut r = nat(", pool: 203.0.113.1");
    let p = through(&mut r, 0, &udp6((host().0, 1), (remote(), 2)));
    assert_eq!(ends6(&p), (host().1, remote()));
    let (inside, remote) = (packets::a("10.0.0.1"), packets::a("198.51.100.1"));
    let p = r.through(0, &packets::frame(&packets::udp((inside, 5), (remote, 6))));
    assert_eq!(packets::ends(&p), (packets::a("203.0.113.1"), remote));
}

#[test]
fn pairs_that_are_wrong() {
    let one = |inside: &str, outside: &str| {
        let pair = format!("{{ inside: \"{inside}\", outside: \"{outside}\" }}");
        refused(&format!("nat: {{ prefixes: [ {pair} ] }}"))
    };
    for (inside, outside, why) in [
        ("fd00::/48", "2001:db8::/56", "have the same length"),
        ("fd00::/65", "2001:db8::/65", "from 1 to 64 bits long"),
        (
            "fd00::1/48",
            "2001:db8::/48",
            "bits behind the prefix are set",
        ),
        ("10.0.0.0/8", "2001:db8::/48", "is no IPv6 address"),
        (
            "fd00::",
            "2001:db8::/48",
            "the length of the prefix is missing",
        ),
    ] {
        let said = one(inside, outside);
        assert!(said.contains(why), "{said}");
    }
    let two = "{ inside: \"fd00::/48\", outside: \"2001:db8::/48\" }, \
               { inside: \"fd00:0:0:1::/64\", outside: \"3fff::/64\" }";
    let said = refused(&format!("nat: {{ prefixes: [ {two} ] }}"));
    assert!(
        said.contains("fd00::/48 is in another pair already"),
        "{said}"
    );
    let said = refused(
        "nat: { prefixes: [ { inside: \"fd00::/48\", outside: \"3fff::/48\" } ], udp-timeout: 9, capacity: 5 }",
    );
    for why in ["'udp-timeout' goes with 'pool'", "'capacity' is of flows"] {
        assert!(said.contains(why), "{said}");
    }
    let said = refused("nat: { prefixes: [] }");
    assert!(said.contains("'prefixes' has 1 to 256 pairs"), "{said}");
}
