//! IP6PrefixTranslate: which packets, which address, what errors quote.

use crate::ip6::testpkt::*;
use crate::testing::{Bench, cases};
use proptest::prelude::*;

const INSIDE: &str = "fd01:203:405::/48";
const OUTSIDE: &str = "2001:db8:1::/48";
/// RFC 6296 section 3.6.
const HOST: &str = "fd01:203:405:1::1234";
const SHOWN: &str = "2001:db8:1:d550::1234";
const THEM: &str = "2001:db8:ffff::9";

fn out(more: &str) -> Bench {
    let config = format!("SOURCE, {INSIDE} {OUTSIDE}{more}");
    Bench::new("IP6PrefixTranslate", &config, 1, 2).unwrap()
}

fn back(more: &str) -> Bench {
    let config = format!("DESTINATION, {OUTSIDE} {INSIDE}{more}");
    Bench::new("IP6PrefixTranslate", &config, 1, 2).unwrap()
}

/// Output and bytes of the only packet.
fn one(b: &mut Bench, d: &[u8]) -> Option<(usize, Vec<u8>)> {
    let mut all = b.push_packet(0, marked(d));
    assert!(all.len() < 2);
    all.pop().map(|(port, p)| (port, p.data().to_vec()))
}

fn udp(src: &str, dst: &str) -> Vec<u8> {
    let mut d = ip6(src, dst, 17, &[0, 53, 4, 0, 0, 13, 0, 0, 1, 2, 3, 4, 5]);
    put_checksum(&mut d, 46);
    d
}

/// An error of this type about a packet.
fn error(src: &str, dst: &str, kind: u8, about: &[u8]) -> Vec<u8> {
    let message = [&[kind, 0, 0, 0, 0, 0, 5, 0][..], about].concat();
    let mut d = ip6(src, dst, 58, &message);
    put_checksum(&mut d, 42);
    d
}

#[test]
fn addresses_change_and_checksums_do_not() {
    let d = udp(HOST, THEM);
    let shown = one(&mut out(""), &d).unwrap();
    assert_eq!(shown, (0, udp(SHOWN, THEM)));
    let answer = udp(THEM, SHOWN);
    let found = one(&mut back(""), &answer).unwrap();
    assert_eq!(found, (0, udp(THEM, HOST)));
    assert!(checksum_ok(&shown.1) && checksum_ok(&found.1));
    // who has another prefix
    let other = udp("fd01:203:406::1", HOST);
    assert_eq!(one(&mut out(""), &other), Some((1, other.clone())));
    let mut alone = Bench::new(
        "IP6PrefixTranslate",
        &format!("SOURCE, {INSIDE} {OUTSIDE}"),
        1,
        1,
    )
    .unwrap();
    assert_eq!(one(&mut alone, &other), None);
    let why = "IP6PrefixTranslate: address has no prefix that is translated";
    assert_eq!(alone.drops()[why], 1);
    // as Linux, which leaves that to the rule
    let (port, d) = one(&mut out(", NETFILTER true"), &other).unwrap();
    assert_eq!((port, &d[8..14]), (0, &addr("2001:db8:1::")[..6]));
}

#[test]
fn what_cannot_be_mapped_is_dropped() {
    let mut b = out("");
    assert_eq!(one(&mut b, &udp("fd01:203:405:ffff::1", THEM)), None);
    let why = "IP6PrefixTranslate: address cannot be mapped (RFC 6296: 0xffff)";
    assert_eq!(b.drops()[why], 1);
    let mut linux = out(", NETFILTER true");
    assert!(one(&mut linux, &udp("fd01:203:405:ffff::1", THEM)).is_some());
    let long = "SOURCE, fd01:203:405:1::/64 2001:db8:1:1::/64";
    for more in ["", ", NETFILTER true"] {
        let mut b = Bench::new("IP6PrefixTranslate", &format!("{long}{more}"), 1, 1).unwrap();
        let ones = "fd01:203:405:1:ffff:ffff:ffff:ffff";
        assert_eq!(one(&mut b, &udp(ones, THEM)), None);
        assert_eq!(b.drops()[why], 1);
    }
    let mut short = marked(&udp(HOST, THEM)[..39]);
    short.set_network_header(0, 39);
    assert!(b.push_packet(0, short).is_empty());
    assert_eq!(b.drops()["IP6PrefixTranslate: no IPv6 header"], 1);
}

#[test]
fn errors_quote_what_the_other_side_knows() {
    for more in ["", ", NETFILTER true"] {
        // a host inside is told of, and what it was sent is what was sent to it from outside
        let told = error(HOST, THEM, 1, &udp(THEM, HOST));
        let shown = error(SHOWN, THEM, 1, &udp(THEM, SHOWN));
        assert_eq!(one(&mut out(more), &told), Some((0, shown)));
        let told = error(THEM, SHOWN, 2, &udp(SHOWN, THEM));
        let found = error(THEM, HOST, 2, &udp(HOST, THEM));
        assert!(checksum_ok(&found));
        assert_eq!(one(&mut back(more), &told), Some((0, found)));
        // about packets of others, or that are cut off
        for about in [udp(THEM, "2001:db8:9::1"), udp(THEM, HOST)[..39].to_vec()] {
            let told = error(HOST, THEM, 3, &about);
            let shown = error(SHOWN, THEM, 3, &about);
            assert_eq!(one(&mut out(more), &told), Some((0, shown)));
        }
        // a ping that carries such bytes
        let told = error(HOST, THEM, 128, &udp(THEM, HOST));
        let shown = error(SHOWN, THEM, 128, &udp(THEM, HOST));
        assert_eq!(one(&mut out(more), &told), Some((0, shown)));
    }
}

#[test]
fn errors_behind_extension_headers() {
    let inner = error(HOST, THEM, 1, &udp(THEM, HOST));
    let options = [&[58, 0, 1, 4, 0, 0, 0, 0][..], &inner[40..]].concat();
    let d = ip6(HOST, THEM, 0, &options);
    let (_, shown) = one(&mut out(""), &d).unwrap();
    assert_eq!(shown[48 + 8 + 24..48 + 8 + 40], addr(SHOWN));
    // Linux leaves them alone
    let (_, shown) = one(&mut out(", NETFILTER true"), &d).unwrap();
    assert_eq!(shown[48 + 8 + 24..48 + 8 + 40], addr(HOST));
    // the quoted address cannot be mapped
    let about = udp(THEM, "fd01:203:405:ffff::1");
    let d = error(HOST, THEM, 1, &about);
    assert_eq!(one(&mut out(""), &d), None);
    assert!(one(&mut out(", NETFILTER true"), &d).is_some());
}

#[test]
fn arguments_that_are_wrong() {
    for bad in [
        "",
        "SOURCE",
        "BOTH, fd00::/48 2001:db8::/48",
        "SOURCE, fd00::/48",
        "SOURCE, fd00::/48 2001:db8::/48 1",
        "SOURCE, fd00::/65 2001:db8::/48",
        "SOURCE, fd00::1/48 2001:db8::/48",
        "SOURCE, fd00::/48 2001:db8::/48, fd01::/48 2001:db9::/48, NETFILTER true",
    ] {
        let made = Bench::new("IP6PrefixTranslate", bad, 1, 1);
        assert!(made.is_err(), "{bad}");
    }
    let made = Bench::new(
        "IP6PrefixTranslate",
        "SOURCE, fd00::/4x 2001:db8::/48",
        1,
        1,
    );
    let why = made.err().unwrap().join("\n");
    assert!(why.contains("fd00::/4x"), "{why}");
}

proptest! {
    #![proptest_config(cases(64))]
    /// There and back is identity, of errors, too, and no checksum is wrong on the way.
    #[test]
    fn there_and_back(subnet in 0u16..0xffff, host: u64, kind in 1u8..=4, is_error: bool) {
        let inside = format!("fd01:203:405:{subnet:x}:{:x}:{:x}:{:x}:{:x}",
            host >> 48, host >> 32 & 0xffff, host >> 16 & 0xffff, host & 0xffff);
        let d = match is_error {
            false => udp(&inside, THEM),
            true => error(&inside, THEM, kind, &udp(THEM, &inside)),
        };
        let (_, shown) = one(&mut out(""), &d).unwrap();
        prop_assert!(checksum_ok(&shown));
        prop_assert!(shown[8..24] != d[8..24] && shown[22..24] == d[22..24]);
        // it comes back as the answer to itself
        let mut turned = shown.clone();
        turned[8..24].copy_from_slice(&shown[24..40]);
        turned[24..40].copy_from_slice(&shown[8..24]);
        if is_error {
            turned[56..72].copy_from_slice(&shown[72..88]);
            turned[72..88].copy_from_slice(&shown[56..72]);
        }
        let (_, found) = one(&mut back(""), &turned).unwrap();
        prop_assert!(checksum_ok(&found));
        prop_assert_eq!(&found[24..40], &d[8..24]);
        if is_error {
            prop_assert_eq!(&found[56..72], &d[72..88]);
        }
    }
}
