//! IPv6 hosts that reach IPv4 hosts (RFC 6146), by the kind `nat`.

use super::packets::{self, a, echo, error, fragments, frame, ip, tcp, udp};
use super::packets6::*;
use super::{Rig, refused};

const POOL: &str = "203.0.113.1";

fn nat(more: &str) -> Rig {
    Rig::new(&format!(
        "nat: {{ pool: {POOL}, nat64: {{ prefix: \"64:ff9b:1::/96\" }}{more} }}"
    ))
}

fn host() -> Addr6 {
    a6("2001:db8::5")
}

fn remote() -> packets::Addr {
    a("198.51.100.7")
}

/// As IPv6 hosts see it.
fn shown(v4: &str) -> Addr6 {
    a6(&format!("64:ff9b:1::{v4}"))
}

fn remote6() -> Addr6 {
    shown("198.51.100.7")
}

/// The IPv4 packet that leaves for an IPv6 packet from inside.
fn out(r: &mut Rig, packet: &[u8]) -> Vec<u8> {
    let mut all = r.send(0, &frame6(packet));
    assert_eq!(all.len(), 1, "{:?}", r.drops());
    let (port, f) = all.remove(0);
    assert_eq!((port, &f[12..14]), (1, &[8, 0][..]));
    packets::check(&f[14..]);
    f[14..].to_vec()
}

/// The IPv6 packet that leaves for an IPv4 packet from outside.
fn back(r: &mut Rig, packet: &[u8]) -> Vec<u8> {
    let mut all = r.send(1, &frame(packet));
    assert_eq!(all.len(), 1, "{:?}", r.drops());
    let (port, f) = all.remove(0);
    assert_eq!((port, &f[12..14]), (0, &[0x86, 0xdd][..]));
    check6(&f[14..]);
    f[14..].to_vec()
}

fn flow(p: &[u8]) -> (packets::Addr, u16) {
    packets::flow(p).0
}

/// RFC 6146 section 1.2.2: a connection is opened, and packets go both ways.
#[test]
fn tcp_udp_and_pings_both_ways() {
    let mut r = nat("");
    let p = out(&mut r, &tcp6((host(), 1500), (remote6(), 80)));
    assert_eq!(packets::flow(&p), ((a(POOL), 1500), (remote(), 80)));
    let p = back(&mut r, &tcp((remote(), 80), (a(POOL), 1500)));
    assert_eq!(flow6(&p), ((remote6(), 80), (host(), 1500)));
    let p = out(&mut r, &segment6((host(), 1500), (remote6(), 80), 0x10));
    assert_eq!(packets::flow(&p), ((a(POOL), 1500), (remote(), 80)));
    let p = out(&mut r, &udp6((host(), 1500), (remote6(), 53)));
    let p = back(&mut r, &udp((remote(), 53), flow(&p)));
    assert_eq!(flow6(&p), ((remote6(), 53), (host(), 1500)));
    let p = out(&mut r, &echo6(host(), remote6(), 128, 7));
    assert_eq!((p[9], p[20]), (1, 8));
    let id = u16::from_be_bytes([p[24], p[25]]);
    let p = back(&mut r, &echo(remote(), a(POOL), 0, id));
    assert_eq!((ends6(&p), p[6], p[40]), ((remote6(), host()), 58, 129));
    assert_eq!(p[44..46], [0, 7]);
}

/// RFC 6146 section 3.5: mappings are endpoint-independent, and no two hosts have the same.
#[test]
fn mappings_and_filtering() {
    let mut r = nat("");
    let to = |r: &mut Rig, src: &str, port: u16, dst: &str| {
        flow(&out(r, &udp6((a6(src), port), (shown(dst), 53))))
    };
    let first = to(&mut r, "2001:db8::5", 1500, "198.51.100.7");
    assert_eq!(to(&mut r, "2001:db8::5", 1500, "192.0.2.9"), first);
    let other = to(&mut r, "2001:db8::6", 1500, "198.51.100.7");
    assert_ne!(other, first);
    let stranger = udp((a("192.0.2.10"), 53), first);
    assert_eq!(
        r.lost(1, &frame(&stranger)),
        "no mapping for this inbound packet"
    );
    let mut r = nat(", filtering: endpoint-independent");
    let first = to(&mut r, "2001:db8::5", 1500, "198.51.100.7");
    let p = back(&mut r, &udp((a("192.0.2.10"), 9), first));
    assert_eq!(flow6(&p), ((shown("192.0.2.10"), 9), (host(), 1500)));
}

/// An IPv4 host beside, with the same ports, by the same pool.
#[test]
fn beside_ipv4_hosts() {
    let mut r = nat("");
    let six = flow(&out(&mut r, &udp6((host(), 1500), (remote6(), 53))));
    let p = r.through(0, &frame(&udp((a("10.0.0.1"), 1500), (remote(), 53))));
    let four = flow(&p);
    assert_eq!((six.0, four.0), (a(POOL), a(POOL)));
    assert_ne!(six.1, four.1);
    let p = r.through(1, &frame(&udp((remote(), 53), four)));
    assert_eq!(packets::flow(&p).1, (a("10.0.0.1"), 1500));
    let p = back(&mut r, &udp((remote(), 53), six));
    assert_eq!(flow6(&p).1, (host(), 1500));
    // nobody sends in an IPv6 host's name
    let handle = udp((a("240.0.0.0"), 1500), (remote(), 53));
    assert_eq!(
        r.lost(0, &frame(&handle)),
        "CheckIPHeader: bad source address"
    );
}

/// RFC 6146 section 3.7, RFC 7915 sections 4.3 and 5.3.
#[test]
fn errors_both_ways() {
    let mut r = nat("");
    let sent = udp6((host(), 1500), (remote6(), 53));
    let p = out(&mut r, &sent);
    for (from, bytes) in [(remote(), 28), (a("192.0.2.1"), 1500)] {
        let e = back(&mut r, &error(from, a(POOL), &p, bytes));
        let from = shown(&std::net::Ipv4Addr::from(from).to_string());
        assert_eq!((ends6(&e), e[6]), ((from, host()), 58));
        assert_eq!(quoted6(&e), &sent[..sent.len().min(bytes + 20)]);
    }
    // the MTU is 20 more
    let mut t = vec![3, 4, 0, 0, 0, 0, 5, 0x78];
    t.extend(&p);
    let sum = onefold_packet::checksum::internet(&t);
    t[2..4].copy_from_slice(&sum.to_be_bytes());
    let e = back(&mut r, &ip(a("192.0.2.1"), a(POOL), 1, 9, 0, &t));
    assert_eq!(
        (&e[40..42], &e[44..48]),
        (&[2, 0][..], &[0, 0, 5, 0x8c][..])
    );
    // from inside, by the host and by a router: no address but the flow's gets out
    let answer = udp((remote(), 53), flow(&p));
    let came = back(&mut r, &answer);
    for from in ["2001:db8::5", "2001:db8::1"] {
        let e = out(&mut r, &error6(a6(from), remote6(), 1, &came, 1500));
        assert_eq!(packets::ends(&e), (a(POOL), remote()));
        let quoted = packets::quoted(&e);
        assert_eq!(packets::flow(&quoted), packets::flow(&answer));
        assert_eq!(quoted[20..], answer[20..]);
    }
    let nobody = udp6((remote6(), 53), (a6("2001:db8::77"), 1));
    let said = r.lost(0, &frame6(&error6(host(), remote6(), 1, &nobody, 1500)));
    assert_eq!(said, "NAT64: ICMP error about a packet of nobody's");
}

#[test]
fn fragments_follow_their_first_one() {
    let mut r = nat("");
    let whole = udp6((host(), 1500), (remote6(), 53));
    let part = |offset: u16, more: bool, bytes: &[u8]| {
        let [x, y] = (offset << 3 | u16::from(more)).to_be_bytes();
        let p = [&[17, 0, x, y, 0, 0, 0x12, 0x34], bytes].concat();
        frame6(&ip6(host(), remote6(), 44, &p))
    };
    let mut sent = Vec::new();
    for f in [part(0, true, &whole[40..48]), part(1, false, &whole[48..])] {
        let all = r.send(0, &f);
        assert_eq!((all.len(), all[0].0), (1, 1));
        let p = &all[0].1[14..];
        assert_eq!(
            (packets::ends(p), &p[4..6]),
            ((a(POOL), remote()), &[0x12, 0x34][..])
        );
        sent.extend(&p[20..]);
    }
    packets::check(&ip(a(POOL), remote(), 17, 0x1234, 0, &sent));
    let port = u16::from_be_bytes([sent[0], sent[1]]);
    // and back, the first one first
    let answer = udp((remote(), 53), (a(POOL), port));
    let mut came = Vec::new();
    for f in fragments(&answer, 77) {
        let all = r.send(1, &frame(&f));
        assert_eq!((all.len(), all[0].0), (1, 0));
        let p = &all[0].1[14..];
        assert_eq!(
            (ends6(p), p[6], &p[44..48]),
            ((remote6(), host()), 44, &[0, 0, 0, 77][..])
        );
        came.extend(&p[48..]);
    }
    let p = ip6(remote6(), host(), 17, &came);
    check6(&p);
    assert_eq!(flow6(&p), ((remote6(), 53), (host(), 1500)));
}

#[test]
fn forwards_to_ipv6_hosts() {
    let mut r = nat(
        ", forward: [ \"tcp 203.0.113.1:80 -> [2001:db8::80]:8080\", \"udp 203.0.113.1:53 -> [2001:db8::53]:53\", \
         \"tcp 203.0.113.1:22 -> 10.0.0.5:22\", \"tcp 203.0.113.1:443 -> [2001:db8::80]:8443\" ]",
    );
    let client = (a("192.0.2.9"), 3000);
    for (port, to) in [
        (80, (a6("2001:db8::80"), 8080)),
        (443, (a6("2001:db8::80"), 8443)),
    ] {
        let p = back(&mut r, &tcp(client, (a(POOL), port)));
        assert_eq!(flow6(&p), ((shown("192.0.2.9"), 3000), to));
        let p = out(&mut r, &segment6(to, (shown("192.0.2.9"), 3000), 0x12));
        assert_eq!(packets::flow(&p), ((a(POOL), port), client));
    }
    let p = back(&mut r, &udp(client, (a(POOL), 53)));
    assert_eq!(flow6(&p).1, (a6("2001:db8::53"), 53));
    let p = r.through(1, &frame(&tcp(client, (a(POOL), 22))));
    assert_eq!(packets::flow(&p).1, (a("10.0.0.5"), 22));
}

/// RFC 6146 section 3.8: hosts inside that know each other by outside addresses, of both versions.
#[test]
fn hairpin() {
    let mut r = nat(", hairpin: true, filtering: endpoint-independent");
    let other = a6("2001:db8::6");
    let end = flow(&out(&mut r, &udp6((other, 9), (remote6(), 53))));
    let mut all = r.send(0, &frame6(&udp6((host(), 1500), (shown(POOL), end.1))));
    let (port, f) = all.remove(0);
    assert_eq!((port, all.len()), (0, 0));
    check6(&f[14..]);
    let (from, to) = flow6(&f[14..]);
    assert_eq!((from.0, to), (shown(POOL), (other, 9)));
    // an IPv4 host to the same one
    let mut all = r.send(0, &frame(&udp((a("10.0.0.1"), 7), end)));
    let (port, f) = all.remove(0);
    check6(&f[14..]);
    assert_eq!((port, flow6(&f[14..]).1), (0, (other, 9)));
}

/// Time-outs are the pool's; a host's handle goes to nobody else before.
#[test]
fn time_outs() {
    let mut r = nat(", udp-timeout: 120");
    let first = flow(&out(&mut r, &udp6((host(), 1500), (remote6(), 53))));
    r.wait(100);
    let p = back(&mut r, &udp((remote(), 53), first));
    assert_eq!(flow6(&p).1, (host(), 1500));
    r.wait(2000);
    let late = udp((remote(), 53), first);
    assert_eq!(
        r.lost(1, &frame(&late)),
        "no mapping for this inbound packet"
    );
    let p = out(&mut r, &udp6((host(), 1500), (remote6(), 53)));
    assert_eq!(flow(&p).0, a(POOL));
    let mut r = Rig::new(&format!(
        "nat: {{ pool: {POOL}, udp-timeout: 120, nat64: {{ prefix: \"64:ff9b:1::/96\", hosts: 1 }} }}"
    ));
    out(&mut r, &udp6((host(), 1500), (remote6(), 53)));
    let other = udp6((a6("2001:db8::6"), 1500), (remote6(), 53));
    r.wait(900);
    assert_eq!(r.lost(0, &frame6(&other)), "NAT64: too many IPv6 hosts");
    r.wait(121);
    out(&mut r, &other);
}

/// TTL and hop limit are left alone, or decremented once, as of IPv4.
#[test]
fn times_to_live() {
    for (more, hops) in [("", 64), (", decrement-ttl: true", 63)] {
        let mut r = nat(more);
        let p = out(&mut r, &udp6((host(), 1500), (remote6(), 53)));
        assert_eq!(p[8], hops);
        let p = back(&mut r, &udp((remote(), 53), flow(&p)));
        assert_eq!(p[7], hops);
    }
}

/// What must not be fragmented and does not fit is answered, with the MTU that there is for IPv4.
#[test]
fn too_long_for_the_link() {
    let mut r = nat(
        ", encap-outside: { mac: \"02:00:00:00:00:05\", next-hop: \"02:00:00:00:00:06\" }, \
         encap-inside: { mac: \"02:00:00:00:00:07\", next-hop: \"02:00:00:00:00:08\" }",
    );
    let end = flow(&out(&mut r, &udp6((host(), 1500), (remote6(), 53))));
    let long = |df: u16| {
        let mut t = [&53u16.to_be_bytes()[..], &end.1.to_be_bytes()].concat();
        t.extend([5, 0xc8, 0, 0]);
        t.resize(1480, 9);
        let sum = onefold_packet::checksum::pseudo_v4(remote(), a(POOL), 17, 1480);
        let sum = !onefold_packet::checksum::fold(onefold_packet::checksum::sum(&t, sum));
        t[6..8].copy_from_slice(&sum.to_be_bytes());
        ip(remote(), a(POOL), 17, 5, df, &t)
    };
    let p = long(0x4000);
    let mut all = r.send(1, &frame(&p));
    let (port, f) = all.remove(0);
    assert_eq!((port, all.len()), (1, 0));
    assert_eq!(f[..14], [2, 0, 0, 0, 0, 6, 2, 0, 0, 0, 0, 5, 8, 0]);
    packets::check(&f[14..]);
    assert_eq!(packets::ends(&f[14..]), (a(POOL), remote()));
    assert_eq!(
        (&f[34..36], &f[40..42]),
        (&[3, 4][..], &1480u16.to_be_bytes()[..])
    );
    let quoted = packets::quoted(&f[14..]);
    assert_eq!(quoted[12..], p[12..quoted.len()]);
    // what may be is cut
    let all = r.send(1, &frame(&long(0)));
    assert_eq!(all.len(), 2);
    for (port, f) in all {
        assert_eq!(
            (port, &f[..14]),
            (0, &[2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 7, 0x86, 0xdd][..])
        );
        assert!(f.len() <= 14 + 1280);
        assert_eq!((ends6(&f[14..]), f[20]), ((remote6(), host()), 44));
    }
}

/// Prefixes of IPv6 and an IPv4 Internet in one function.
#[test]
fn beside_prefixes() {
    let mut r = nat(", prefixes: [ { inside: \"2001:db8::/48\", outside: \"3fff:1::/48\" } ]");
    let p = out(&mut r, &udp6((host(), 1500), (remote6(), 53)));
    let p = back(&mut r, &udp((remote(), 53), flow(&p)));
    assert_eq!(flow6(&p).1, (host(), 1500));
    let mut all = r.send(0, &frame6(&udp6((host(), 1500), (a6("3fff:9::1"), 53))));
    let (port, f) = all.remove(0);
    check6(&f[14..]);
    assert_eq!((port, ends6(&f[14..]).1), (1, a6("3fff:9::1")));
    assert_eq!(ends6(&f[14..]).0[..6], [0x3f, 0xff, 0, 1, 0, 0]);
}

#[test]
fn what_is_not_translated() {
    let mut r = nat("");
    let to = |dst: &str| frame6(&udp6((host(), 1500), (a6(dst), 53)));
    assert_eq!(
        r.lost(0, &to("2001:db8:9::1")),
        "IPv6, and the destination stands for no IPv4 address"
    );
    assert_eq!(
        r.lost(1, &to("2001:db8:9::1")),
        "IPv6 from outside, where there is only IPv4"
    );
    let other = frame6(&ip6(host(), remote6(), 132, &[0; 12]));
    assert_eq!(r.lost(0, &other), "NAT64: neither TCP, UDP nor ICMP");
    // neighbor discovery passes from side to side, as ARP does
    let p = udp6((a6("fe80::1"), 1), (a6("ff02::1"), 2));
    for port in 0..2 {
        let all = r.send(port, &frame6(&p));
        assert_eq!((all.len(), all[0].0), (1, 1 - port));
    }
    let mut known = Rig::new(&format!(
        "nat: {{ pool: {POOL}, nat64: {{ prefix: \"64:ff9b::/96\" }} }}"
    ));
    out(
        &mut known,
        &udp6((host(), 1500), (a6("64:ff9b::8.8.8.8"), 53)),
    );
    let local = frame6(&udp6((host(), 1500), (a6("64:ff9b::10.0.0.1"), 53)));
    assert_eq!(
        known.lost(0, &local),
        "NAT64: IPv4 address that is not global behind 64:ff9b::/96 (RFC 6052 3.1)"
    );
}

/// All lengths that a prefix may have.
#[test]
fn prefixes_of_networks() {
    for (prefix, to) in [
        ("2001:db8::/32", "2001:db8:c633:6407::"),
        ("2001:db8:100::/40", "2001:db8:1c6:3364:7::"),
        ("2001:db8:122::/48", "2001:db8:122:c633:64:700::"),
        ("2001:db8:122:300::/56", "2001:db8:122:3c6:33:6407::"),
        ("2001:db8:122:344::/64", "2001:db8:122:344:c6:3364:700::"),
        ("2001:db8:122:344::/96", "2001:db8:122:344::c633:6407"),
    ] {
        let mut r = Rig::new(&format!(
            "nat: {{ pool: {POOL}, nat64: {{ prefix: \"{prefix}\" }} }}"
        ));
        let from = a6("3fff::5");
        let p = out(&mut r, &udp6((from, 1500), (a6(to), 53)));
        assert_eq!(packets::ends(&p), (a(POOL), remote()), "{prefix}");
        let p = back(&mut r, &udp((remote(), 53), flow(&p)));
        assert_eq!(ends6(&p), (a6(to), from), "{prefix}");
    }
}

#[test]
fn what_is_refused() {
    let with = |more: &str| refused(&format!("nat: {{ {more} }}"));
    for (more, why) in [
        (
            "pool: 203.0.113.1, nat64: { prefix: \"64:ff9b::/95\" }",
            "32, 40, 48, 56, 64 or 96 bits",
        ),
        (
            "pool: 203.0.113.1, nat64: { prefix: 10.0.0.0/8 }",
            "is no IPv6 address",
        ),
        (
            "one-to-one: [ \"10.0.0.5 = 203.0.113.5\" ], nat64: { prefix: \"64:ff9b::/96\" }",
            "'nat64' goes with 'pool'",
        ),
        (
            "prefixes: [ { inside: \"fd00::/48\", outside: \"3fff::/48\" } ], nat64: { prefix: \"64:ff9b::/96\" }",
            "'nat64' goes with 'pool'",
        ),
        (
            "pool: 203.0.113.1, mapping: address-and-port, nat64: { prefix: \"64:ff9b::/96\" }",
            "'nat64' goes with 'mapping: endpoint-independent'",
        ),
        (
            "pool: 203.0.113.1, forward: [ \"tcp 203.0.113.1:80 -> [::5]:80\" ]",
            "a forward to an IPv6 host goes with 'nat64'",
        ),
        (
            "pool: 203.0.113.1, nat64: { prefix: \"64:ff9b::/96\", mtu: 1000 }",
            "an MTU of IPv6 is from 1280 to 65535, found 1000",
        ),
    ] {
        let said = with(more);
        assert!(said.contains(why), "{more}: {said}");
    }
}
