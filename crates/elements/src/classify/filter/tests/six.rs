//! Filters for IPv6.

use super::{bare, scope};
use crate::filter::{Expr, Filter, Rule, View6, parse_pattern6, parse_rule6};
use onefold_packet::Packet;
use proptest::prelude::*;
use std::net::Ipv6Addr;

fn parse(text: &str) -> Expr {
    parse_pattern6(text, &scope()).unwrap().expr
}

fn error(text: &str) -> String {
    let e = parse_pattern6(text, &scope()).unwrap_err();
    match &e.hint {
        Some(h) => format!("{e}; {h}"),
        None => e.to_string(),
    }
}

/// A packet with these headers behind the IPv6 header.
fn packet(src: &str, dst: &str, next: u8, rest: &[u8]) -> Packet {
    let mut d = vec![0x6b, 0x81, 0x23, 0x45, 0, rest.len() as u8, next, 64];
    for a in [src, dst] {
        d.extend_from_slice(&a.parse::<Ipv6Addr>().unwrap().octets());
    }
    d.extend_from_slice(rest);
    marked(&d)
}

fn marked(d: &[u8]) -> Packet {
    let mut p = Packet::from_slice(d);
    p.set_network_header(0, 40);
    p
}

fn matches(text: &str, p: &Packet) -> bool {
    parse(text).matches(&View6::of(p).unwrap().view())
}

const TCP: &[u8] = &[
    0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x02, 4, 0, 0, 0, 0, 0,
];

#[test]
fn primitives() {
    let p = packet("2001:db8::1", "3ffe:1:2::9", 6, TCP);
    for yes in [
        "src 2001:db8::1",
        "src net 2001:db8::/32 and dst net 3ffe:1::/32",
        "host 3ffe:1:2::9",
        "dst net 3ffe::/16",
        "net ::/0",
        "dst net 3ffe:1:2::8/127 or dst host ::",
        "src != 2001:db8::2",
        "tcp",
        "ip6 proto 6",
        "tcp dst port 80",
        "src port 12345 and dst port < 1024",
        "tcp opt syn and not tcp opt ack",
        "tcp win 1024",
        "ip6 hlim 64",
        "ip hlim >= 64",
        "ip6 class 0xb8",
        "ip6 dscp 46",
        "ip6 flow 0x12345",
        "ip6 flow & 0xff == 0x45",
        "ip6 plen 20",
        "ip6 nxt 6",
        "ip6 vers 6",
        "not ip6 ect",
        "ip6 unfrag",
        "ip6[7] = 64",
        "ip6[8:4] = 0x20010db8",
        "tcp[13] & 2 != 0",
        "2001:db8::1 and 3ffe:1:2::9",
        "icmp6 type echo ? false : tcp",
    ] {
        assert!(matches(yes, &p), "{yes}");
        assert!(!matches(&format!("not ({yes})"), &p), "{yes}");
    }
    for no in [
        "src 2001:db8::2",
        "src net 2001:db8:1::/48",
        "dst net 2001:db8::/32",
        "udp",
        "icmp6",
        "icmp6 type echo",
        "src port 80",
        "ip6 frag",
        "host != 2001:db8::1",
    ] {
        assert!(!matches(no, &p), "{no}");
    }
    let echo = packet("fe80::1", "ff02::1", 58, &[128, 0, 0, 0, 0, 0, 0, 0]);
    assert!(matches("icmp6 type echo", &echo) && matches("icmp6 type 128", &echo));
    assert!(!matches("icmp6 type neighborsolicit", &echo));
    assert!(matches("src net fe80::/10 and dst net ff00::/8", &echo));
}

#[test]
fn extension_headers_are_followed() {
    let tail = |headers: &[&[u8]]| {
        let mut rest = headers.concat();
        rest.extend_from_slice(TCP);
        rest
    };
    let hop = [43, 0, 0, 0, 0, 0, 0, 0];
    let routing = [60, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let options = [6, 0, 0, 0, 0, 0, 0, 0];
    let p = packet("::1", "::2", 0, &tail(&[&hop, &routing, &options]));
    assert!(matches("tcp dst port 80 and ip6 nxt 0 and ip6 unfrag", &p));
    // first fragment, lone fragment header, later fragment
    for (word, first, frag) in [
        ([0, 1], true, true),
        ([0, 0], true, false),
        ([0, 8], false, true),
        ([1, 1], false, true),
    ] {
        let f = [6, 0, word[0], word[1], 0, 0, 0, 7];
        let p = packet("::1", "::2", 44, &tail(&[&f]));
        assert_eq!(matches("dst port 80", &p), first, "{word:?}");
        assert_eq!(matches("ip6 frag", &p), frag, "{word:?}");
        assert!(matches("tcp", &p));
    }
    // what cannot be followed is no match and no mismatch, but nothing at all
    assert!(View6::of(&packet("::1", "::2", 0, &[6, 3, 0, 0])).is_none());
    assert!(View6::of(&packet("::1", "::2", 44, &[6, 0, 0])).is_none());
    let endless = vec![0u8; 8 * 40];
    assert!(View6::of(&packet("::1", "::2", 0, &endless)).is_none());
    assert!(View6::of(&marked(&[0x60; 39])).is_none());
}

#[test]
fn errors() {
    for (text, want) in [
        ("src 10.0.0.1", "unknown word"),
        ("net 2001:db8::1", "missing"),
        ("host 2001:db8::/32", "missing"),
        ("icmp type echo", "icmp6"),
        ("ip6 ttl 3", "unknown word 'ttl'"),
        ("ip6 flow 1048576", "out of range"),
        ("src 2001:db8::1 & 0xff 3", ""),
        ("ip6[6:4] = 3", "aligned"),
        ("src > 2001:db8::1", "no such operator"),
        ("net 2001:db8::/129", ""),
    ] {
        let e = error(text);
        assert!(e.contains(want), "{text}: {e}");
    }
    assert!(parse_rule6("allow tcp", 1, &scope()).is_ok());
    assert!(parse_rule6("permit tcp", 1, &scope()).is_err());
}

fn addr() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "2001:db8::1",
        "2001:db8::2",
        "2001:db8:0:1::1",
        "2001:db9::1",
        "fe80::1",
        "ff02::1",
        "::1",
    ])
    .prop_map(str::to_string)
}

fn primitive() -> impl Strategy<Value = String> {
    let dir = prop::sample::select(vec!["src ", "dst ", "", "src and dst "]);
    let net = (dir.clone(), addr(), 0u8..=128, prop::bool::ANY)
        .prop_map(|(d, a, n, ne)| format!("{d}net {}{a}/{n}", if ne { "!= " } else { "" }));
    let host = (dir.clone(), addr()).prop_map(|(d, a)| format!("{d}host {a}"));
    let port = (dir, prop::sample::select(vec!["80", "> 1023", "!= 53"]))
        .prop_map(|(d, p)| format!("{d}port {p}"));
    let plain = prop::sample::select(vec![
        "tcp",
        "udp",
        "icmp6",
        "ip6 frag",
        "ip6 hlim < 2",
        "ip6 flow 7",
        "ip6 class & 3 == 3",
        "ip6 ce",
        "icmp6 type echo",
        "tcp opt syn",
        "ip6 proto > 50",
    ])
    .prop_map(str::to_string);
    prop_oneof![net, host, port, plain]
}

fn pattern() -> impl Strategy<Value = String> {
    primitive().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|v| format!("({})", v.join(") and ("))),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|v| format!("({})", v.join(") or ("))),
            inner.prop_map(|e| format!("not ({e})")),
        ]
    })
}

fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let next = prop::sample::select(vec![6u8, 17, 58, 0, 44, 60, 59]);
    let rest = prop::collection::vec(
        prop::sample::select(vec![0u8, 0, 0, 1, 2, 6, 17, 44, 53, 58, 80, 128, 255]),
        0..40,
    );
    let head = (0u8..4, 0u8..=255, 0u8..3, prop::bool::weighted(0.05));
    (addr(), addr(), next, rest, head).prop_map(|(s, d, next, rest, (class, flow, hlim, cut))| {
        let p = packet(&s, &d, next, &rest);
        let mut b = p.data().to_vec();
        b[1] = class << 4;
        b[3] = flow % 9;
        b[7] = hlim;
        if cut {
            b.truncate(usize::from(flow) % 45);
        }
        b
    })
}

proptest! {
    #![proptest_config(crate::testing::cases(300))]
    /// The text of a tree is read back as the same tree.
    #[test]
    fn text_round_trip(text in pattern()) {
        let e = parse(&text);
        let again = parse(&e.to_string());
        prop_assert_eq!(bare(e.clone()), bare(again), "{} printed as {}", text, e);
    }

    /// The search finds the rule that walking the list finds.
    #[test]
    fn search_equals_list(
        texts in prop::collection::vec(pattern(), 1..40),
        packets in prop::collection::vec(any_packet(), 1..30),
    ) {
        let rules = texts.iter().enumerate().map(|(i, t)| {
            let (action, p) = parse_rule6(&format!("allow {t}"), 1, &scope()).unwrap();
            Rule { argument: i as u32, action, expr: p.expr }
        });
        let filter = Filter::new(rules.collect());
        for b in &packets {
            let p = marked(b);
            if let Some(six) = View6::of(&p) {
                let v = six.view();
                prop_assert_eq!(filter.first_match(&v), filter.first_match_linear(&v));
            }
        }
    }
}
