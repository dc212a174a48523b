//! Which binding a packet gets, and what it looks like afterwards.

use super::*;
use onefold_packet::wire::tcp::flag::{ACK, SYN};

#[test]
fn napt_both_ways() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 1024-65535# - - 0 1, drop");
    let a = ("18.26.4.44", 30);
    assert_eq!(
        n.go(0, tcp_packet(a, ("10.0.0.4", 40), SYN, b"")),
        "0: 1.0.0.1 1024 > 10.0.0.4 40"
    );
    assert_eq!(
        n.go(0, udp_packet(a, ("10.0.0.4", 40), b"xyz")),
        "0: 1.0.0.1 1025 > 10.0.0.4 40"
    );
    assert_eq!(
        n.go(
            1,
            tcp_packet(("10.0.0.4", 40), ("1.0.0.1", 1024), ACK, b"abc")
        ),
        "1: 10.0.0.4 40 > 18.26.4.44 30"
    );
    // the UDP flow's port is not the TCP flow's
    assert_eq!(
        n.go(1, udp_packet(("10.0.0.4", 40), ("1.0.0.1", 1024), b"")),
        "-"
    );
    assert_eq!(
        n.drops("IPRewriter: no mapping for this packet, and none is made at this input"),
        1
    );
    // a reply finds its binding whatever input it comes in at, a forward packet too
    assert_eq!(
        n.go(0, udp_packet(("10.0.0.4", 40), ("1.0.0.1", 1025), b"1")),
        "1: 10.0.0.4 40 > 18.26.4.44 30"
    );
    assert_eq!(
        n.go(1, tcp_packet(a, ("10.0.0.4", 40), ACK, b"12345")),
        "0: 1.0.0.1 1024 > 10.0.0.4 40"
    );
    assert_eq!(n.read("rw", "table_size"), "2");
}

/// What is said of packets that belong to no flow, at an input that begins none.
#[test]
fn a_drop_has_the_reason_that_its_specification_gives() {
    let spec = "pattern 1.0.0.1 1024-65535# - - 0 1, drop \"nobody asked for it\"";
    let from = ("10.0.0.4", 40);
    let mut n = Net::one("IPRewriter", spec);
    assert_eq!(n.go(1, udp_packet(from, ("1.0.0.1", 1024), b"")), "-");
    assert_eq!(n.go(1, tcp_packet(from, ("1.0.0.1", 1), ACK, b"")), "-");
    assert_eq!(n.drops("nobody asked for it"), 2);
}

/// Expected bytes computed by hand: 10.0.0.1:5000 -> 9.9.9.9:53 becomes 1.0.0.1:1024.
#[test]
fn expected_bytes() {
    let mut n = Net::one("UDPRewriter", "pattern 1.0.0.1 1024-65535# - - 0 1, drop");
    #[rustfmt::skip]
    let p = [
        // words 4500 001c 0001 4011 0a00 0001 0909 0909 sum up to a141: checksum 5ebe
        0x45, 0, 0, 0x1c, 0, 1, 0, 0, 0x40, 0x11, 0x5e, 0xbe, 10, 0, 0, 1, 9, 9, 9, 9,
        // 0a00 0001 0909 0909 0011 0008 and 1388 0035 0008 sum up to 2ff1: checksum d00e
        0x13, 0x88, 0, 0x35, 0, 8, 0xd0, 0x0e,
    ];
    let mut pkt = Box::new(Packet::from_slice(&p));
    pkt.set_network_header(0, 20);
    let (o, q) = n.push("rw", 0, pkt).unwrap();
    assert_eq!(o, 0);
    // 0a00 becomes 0100: the sum falls and the checksum rises by 0900; 1388 becomes 0400: by another 0f88
    #[rustfmt::skip]
    let want = [
        0x45, 0, 0, 0x1c, 0, 1, 0, 0, 0x40, 0x11, 0x67, 0xbe, 1, 0, 0, 1, 9, 9, 9, 9,
        0x04, 0x00, 0, 0x35, 0, 8, 0xe8, 0x96,
    ];
    assert_eq!(q.data(), want);
    assert_eq!(q.anno.dst_ip(), [9, 9, 9, 9]);
}

#[test]
fn wrong_checksums_stay_wrong_and_zero_stays_zero() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 1024-65535# - - 0 1, drop");
    let mut p = udp_packet(("10.0.0.1", 7), ("2.0.0.2", 9), b"abcd");
    p.transport_mut().unwrap()[6..8].fill(0);
    let (_, q) = n.push("rw", 0, p).unwrap();
    assert_eq!(q.transport().unwrap()[6..8], [0, 0]);

    let mut p = udp_packet(("10.0.0.1", 7), ("2.0.0.2", 9), b"abcd");
    let good = n.push("rw", 0, p.clone()).unwrap().1;
    p.transport_mut().unwrap()[7] ^= 0x11;
    let bad = n.push("rw", 0, p).unwrap().1;
    let sum =
        |p: &Packet| u16::from_be_bytes([p.transport().unwrap()[6], p.transport().unwrap()[7]]);
    assert_ne!(sum(&good), sum(&bad));
    assert_eq!(describe(&good), "1.0.0.1 1024 > 2.0.0.2 9");
}

#[test]
fn annotations() {
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# 7.7.7.7 - 0 1, drop, REPLY_ANNO PAINT",
    );
    let mut p = tcp_packet(("10.0.0.1", 7), ("2.0.0.2", 9), SYN, b"");
    p.anno.set_paint(5);
    let (_, q) = n.push("rw", 0, p).unwrap();
    assert_eq!((q.anno.dst_ip(), q.anno.paint()), ([7, 7, 7, 7], 5));
    let p = tcp_packet(("7.7.7.7", 9), ("1.0.0.1", 1024), ACK, b"");
    let (o, q) = n.push("rw", 1, p).unwrap();
    assert_eq!((o, describe(&q).as_str()), (1, "2.0.0.2 9 > 10.0.0.1 7"));
    assert_eq!((q.anno.dst_ip(), q.anno.paint()), ([10, 0, 0, 1], 5));

    let mut n = Net::one("TCPRewriter", "keep 0 1, pass 1, DST_ANNO false");
    let (_, q) = n
        .push("rw", 0, tcp_packet(("1.1.1.1", 7), ("2.0.0.2", 9), 0, b""))
        .unwrap();
    assert_eq!(q.anno.dst_ip(), [0; 4]);
}

#[test]
fn what_is_not_rewritten() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 1024-65535# - - 0 1, pass 1");
    let fragment = |offset: u8| {
        let mut p = udp_packet(("10.0.0.1", 7), ("2.0.0.2", 9), b"abcdefgh");
        let mut h = ipv4::Header::parse(p.network_mut().unwrap()).unwrap();
        h.set_frag_word(0x2000 | u16::from(offset));
        h.fill_checksum();
        p
    };
    // a later fragment has no ports: dropped where there is a pattern, let through where everything is
    assert!(n.push("rw", 0, fragment(3)).is_none());
    let (o, q) = n.push("rw", 1, fragment(3)).unwrap();
    assert_eq!((o, q.data()), (1, fragment(3).data()));
    // the first fragment has
    let (_, q) = n.push("rw", 0, fragment(0)).unwrap();
    assert_eq!(&q.data()[12..16], [1, 0, 0, 1]);
    // other protocols, short headers
    assert!(
        n.push("rw", 0, ip_packet("1.1.1.1", "2.2.2.2", 47, &[0; 20]))
            .is_none()
    );
    assert!(
        n.push("rw", 0, ip_packet("1.1.1.1", "2.2.2.2", 17, &[0; 7]))
            .is_none()
    );
    assert_eq!(
        n.drops("IPRewriter: not TCP or UDP, or a later fragment"),
        3
    );
    assert!(
        n.push("rw", 0, Box::new(Packet::from_slice(&[0x45; 40])))
            .is_none()
    );
    assert_eq!(n.drops("IPRewriter: no IP header"), 1);
    // a TCP header of less than 18 bytes: the binding is made, only the IP header changes
    let p = ip_packet("10.0.0.1", "2.2.2.2", 6, &[0, 7, 0, 9, 1, 1, 1, 1, 1, 1]);
    let (_, q) = n.push("rw", 0, p).unwrap();
    assert_eq!(
        &q.data()[12..],
        [1, 0, 0, 1, 2, 2, 2, 2, 0, 7, 0, 9, 1, 1, 1, 1, 1, 1]
    );
}

#[test]
fn hairpin() {
    // inside 10/8 behind 1.0.0.1; port 80 of it is 10.0.0.1's; output 0 is outside, output 1 inside
    let mut n = Net::one(
        "IPRewriter",
        "pattern 1.0.0.1 1024-65535# - - 0 1, pattern - - 10.0.0.1 8080 1 0",
    );
    let client = ("10.0.0.2", 5000);
    let (o, p) = n
        .push("rw", 0, tcp_packet(client, ("1.0.0.1", 80), SYN, b""))
        .unwrap();
    assert_eq!((o, describe(&p).as_str()), (0, "1.0.0.1 1024 > 1.0.0.1 80"));
    // routed back from outside: to the server, with the public source address
    let (o, p) = n.push("rw", 1, p).unwrap();
    assert_eq!(
        (o, describe(&p).as_str()),
        (1, "1.0.0.1 1024 > 10.0.0.1 8080")
    );
    // and the answer the same way back
    let answer = tcp_packet(("10.0.0.1", 8080), ("1.0.0.1", 1024), SYN | ACK, b"");
    let (o, p) = n.push("rw", 0, answer).unwrap();
    assert_eq!((o, describe(&p).as_str()), (0, "1.0.0.1 80 > 1.0.0.1 1024"));
    let (o, p) = n.push("rw", 1, p).unwrap();
    assert_eq!(
        (o, describe(&p).as_str()),
        (1, "1.0.0.1 80 > 10.0.0.2 5000")
    );
    assert_eq!(n.read("rw", "table_size"), "2");
}

#[test]
fn two_zones_with_the_same_addresses() {
    // two zones numbered 10/8, each behind a NAT of its own, both behind one gateway: input and output per zone
    let zone = "pattern 192.168.0.1 1024-65535# - - 0 1, drop";
    let other = "pattern 192.168.0.2 1024-65535# - - 0 1, drop";
    let gateway = "pattern 1.0.0.1 1024-65535# - - 0 1, pattern 1.0.0.1 1024-65535# - - 0 2, drop";
    let mut n = Net::new(&[
        ("a", "IPRewriter", zone, 2, 2),
        ("b", "IPRewriter", other, 2, 2),
        ("gw", "IPRewriter", gateway, 3, 3),
    ])
    .unwrap();
    let packet = || udp_packet(("10.0.0.1", 5000), ("8.8.8.8", 53), b"q");
    let mut seen = Vec::new();
    for (zone, input) in [("a", 0), ("b", 1)] {
        let (_, p) = n.push(zone, 0, packet()).unwrap();
        let (o, p) = n.push("gw", input, p).unwrap();
        seen.push(format!("{o}: {}", describe(&p)));
    }
    // two inputs that have patterns of their own count on their own, but never choose a port that is in use
    assert_eq!(
        seen,
        [
            "0: 1.0.0.1 1024 > 8.8.8.8 53",
            "0: 1.0.0.1 1025 > 8.8.8.8 53"
        ]
    );
    for (port, zone, output) in [(1025, "b", 2), (1024, "a", 1)] {
        let (o, p) = n
            .push(
                "gw",
                2,
                udp_packet(("8.8.8.8", 53), ("1.0.0.1", port), b"r"),
            )
            .unwrap();
        assert_eq!(o, output);
        let (o, p) = n.push(zone, 1, p).unwrap();
        assert_eq!(
            (o, describe(&p).as_str()),
            (1, "8.8.8.8 53 > 10.0.0.1 5000")
        );
        // the other zone does not know it
        let other = if zone == "a" { "b" } else { "a" };
        assert!(n.push(other, 1, p).is_none());
    }
}

#[test]
fn a_flow_to_itself_has_one_entry() {
    // source and destination equal, before and after: the one entry is the reply's, as in Click
    let mut n = Net::one("UDPRewriter", "keep 0 1, drop");
    let p = || udp_packet(("1.0.0.2", 1024), ("1.0.0.2", 1024), b"");
    assert_eq!(n.go(0, p()), "0: 1.0.0.2 1024 > 1.0.0.2 1024");
    assert_eq!(n.go(0, p()), "1: 1.0.0.2 1024 > 1.0.0.2 1024");
    assert_eq!(n.read("rw", "table").lines().count(), 1);
    n.write("rw", "clear", "").unwrap();
    assert_eq!(
        (n.read("rw", "size"), n.read("rw", "table")),
        ("0".into(), String::new())
    );
}

#[test]
fn a_new_flow_with_the_same_replies_replaces_the_old_one() {
    // no port to choose: the second flow's replies look like the first one's
    let mut n = Net::one("UDPRewriter", "pattern 1.0.0.1 99 - - 0 1, drop");
    n.go(0, udp_packet(("10.0.0.1", 1), ("2.0.0.2", 2), b""));
    n.go(0, udp_packet(("10.0.0.9", 1), ("2.0.0.2", 2), b""));
    assert_eq!(
        n.go(1, udp_packet(("2.0.0.2", 2), ("1.0.0.1", 99), b"")),
        "1: 2.0.0.2 2 > 10.0.0.9 1"
    );
    assert_eq!(n.read("rw", "size"), "1");
}

#[test]
fn nobody_is_taken_over_where_that_is_refused() {
    type Case = (&'static str, &'static str, fn(&str) -> Pkt);
    let specs: [Case; 5] = [
        ("UDPRewriter", "pattern 1.0.0.1 99 - - 0 1", |a| {
            udp_packet((a, 1), ("2.0.0.2", 2), b"")
        }),
        ("IPRewriter", "pattern 1.0.0.1 99-99 - - 0 1", |a| {
            tcp_packet((a, 1), ("2.0.0.2", 2), SYN, b"")
        }),
        ("IPAddrPairRewriter", "pattern 1.0.0.1 - 0 1", |a| {
            ip_packet(a, "2.0.0.2", 47, b"")
        }),
        ("IPAddrRewriter", "pattern 1.0.0.1 - 0 1", |a| {
            ip_packet(a, "2.0.0.2", 47, b"")
        }),
        ("ICMPPingRewriter", "pattern 1.0.0.1 99 - - 0 1", |a| {
            icmp_packet(a, "2.0.0.2", 8, [0; 4], b"")
        }),
    ];
    for (class, pattern, packet) in specs {
        let mut n = Net::one(class, &format!("{pattern}, drop, TAKE_OVER false"));
        let first = n.go(0, packet("10.0.0.1"));
        assert!(first.starts_with("0: 1.0.0.1 "), "{class}: {first}");
        assert_eq!(n.go(0, packet("10.0.0.9")), "-", "{class}");
        assert_eq!(n.drops(&format!("{class}: no free port or address")), 1);
        assert_eq!(n.read("rw", "mapping_failures"), "1", "{class}");
        assert_eq!(n.go(0, packet("10.0.0.1")), first, "{class}");
        n.write("rw", "clear", "").unwrap();
        assert_eq!(n.go(0, packet("10.0.0.9")), first, "{class}");
    }
    // replies of a flow that is kept as it is, and a flow the other way
    let mut n = Net::one(
        "UDPRewriter",
        "pattern - - 3.0.0.3 9 0 1, keep 1 0, TAKE_OVER false",
    );
    n.go(0, udp_packet(("10.0.0.1", 1), ("2.0.0.2", 2), b""));
    assert_eq!(
        n.go(1, udp_packet(("10.0.0.1", 1), ("3.0.0.3", 9), b"")),
        "-"
    );
    assert_eq!(
        n.go(1, udp_packet(("3.0.0.3", 9), ("10.0.0.1", 1), b"")),
        "1: 2.0.0.2 2 > 10.0.0.1 1"
    );
}

#[test]
fn ports_run_out() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 10-11# - - 0 1, drop");
    let go = |n: &mut Net, host: &str| n.go(0, tcp_packet((host, 1), ("2.0.0.2", 2), SYN, b""));
    assert_eq!(go(&mut n, "10.0.0.1"), "0: 1.0.0.1 10 > 2.0.0.2 2");
    assert_eq!(go(&mut n, "10.0.0.2"), "0: 1.0.0.1 11 > 2.0.0.2 2");
    assert_eq!(go(&mut n, "10.0.0.3"), "-");
    assert_eq!(n.drops("IPRewriter: no free port or address"), 1);
    assert_eq!(n.read("rw", "mapping_failures"), "1");
    // the flows that have one go on
    assert_eq!(go(&mut n, "10.0.0.1"), "0: 1.0.0.1 10 > 2.0.0.2 2");
    n.write("rw", "clear", "").unwrap();
    assert_eq!(go(&mut n, "10.0.0.3"), "0: 1.0.0.1 10 > 2.0.0.2 2");
}

#[test]
fn named_patterns_are_shared() {
    let mut n = Net::new(&[
        (
            "p",
            "IPRewriterPatterns",
            "out 1.0.0.1 1024-65535# - -, in - - 10.0.0.1 -, alias out",
            0,
            0,
        ),
        (
            "rw",
            "IPRewriter",
            "pattern out 0 1, pattern alias 0 2, pattern in 1 0",
            3,
            3,
        ),
        ("nf/rw", "IPRewriter", "pattern out 0 1, drop", 2, 2),
    ])
    .unwrap();
    let p = |host: &str| tcp_packet((host, 7), ("2.0.0.2", 9), SYN, b"");
    // one running number for all inputs and rewriters
    assert_eq!(n.go(0, p("10.0.0.1")), "0: 1.0.0.1 1024 > 2.0.0.2 9");
    assert_eq!(n.go(1, p("10.0.0.2")), "0: 1.0.0.1 1025 > 2.0.0.2 9");
    let (_, q) = n.push("nf/rw", 0, p("10.0.0.3")).unwrap();
    assert_eq!(describe(&q), "1.0.0.1 1026 > 2.0.0.2 9");
    assert_eq!(n.go(0, p("10.0.0.4")), "0: 1.0.0.1 1027 > 2.0.0.2 9");
    // replies leave by the input that made the binding
    let r = |port| tcp_packet(("2.0.0.2", 9), ("1.0.0.1", port), ACK, b"");
    assert_eq!(n.go(2, r(1024)), "1: 2.0.0.2 9 > 10.0.0.1 7");
    assert_eq!(n.go(2, r(1025)), "2: 2.0.0.2 9 > 10.0.0.2 7");
    assert_eq!(n.go(2, r(1026)), "1: 2.0.0.2 9 > 10.0.0.1 1026");
}

#[test]
fn basic_nat() {
    let mut n = Net::one("IPAddrRewriter", "pattern 3.0.0.1-3.0.0.2# - 0 1, drop");
    let p = |src, dst| ip_packet(src, dst, 47, &[1, 2, 3, 4]);
    assert_eq!(n.go(0, p("1.0.0.1", "9.9.9.9")), "0: 3.0.0.1 > 9.9.9.9");
    assert_eq!(n.go(0, p("1.0.0.2", "9.9.9.9")), "0: 3.0.0.2 > 9.9.9.9");
    assert_eq!(n.go(0, p("1.0.0.1", "9.9.9.8")), "0: 3.0.0.1 > 9.9.9.8");
    assert_eq!(n.go(1, p("9.9.9.7", "3.0.0.2")), "1: 9.9.9.7 > 1.0.0.2");
    assert_eq!(n.go(1, p("9.9.9.7", "3.0.0.3")), "-");
    assert_eq!(n.go(0, p("1.0.0.3", "9.9.9.8")), "-");
    assert_eq!(n.drops("IPAddrRewriter: no free port or address"), 1);
    // transport checksums cover the addresses
    assert_eq!(
        n.go(0, tcp_packet(("1.0.0.1", 5), ("9.9.9.9", 6), 0, b"x")),
        "0: 3.0.0.1 5 > 9.9.9.9 6"
    );
    let exp = n.read("rw", "table");
    assert_eq!(
        exp,
        "0.0.0.0 => 0.0.0.0 [0 *1] i0 exp7200\n".repeat(2)
            + "1.0.0.1 => 3.0.0.1 [*0 1] i0 exp7200\n1.0.0.2 => 3.0.0.2 [*0 1] i0 exp7200\n"
    );
    // a pattern that changes the destination makes no binding here
    let mut n = Net::one("IPAddrRewriter", "pattern 3.0.0.1 4.0.0.4 0 1, drop");
    assert_eq!(n.go(0, p("1.0.0.1", "9.9.9.9")), "-");
    assert_eq!(n.drops("IPAddrRewriter: pattern rewrites too much"), 1);
}

#[test]
fn address_pairs() {
    let mut n = Net::one(
        "IPAddrPairRewriter",
        "pattern 3.0.0.1-3.0.0.255# - 0 1, drop",
    );
    let p = |src, dst| ip_packet(src, dst, 47, &[1, 2, 3, 4]);
    assert_eq!(n.go(0, p("1.0.0.1", "9.9.9.9")), "0: 3.0.0.1 > 9.9.9.9");
    assert_eq!(n.go(0, p("1.0.0.2", "9.9.9.8")), "0: 3.0.0.2 > 9.9.9.8");
    assert_eq!(n.go(0, p("1.0.0.1", "9.9.9.9")), "0: 3.0.0.1 > 9.9.9.9");
    assert_eq!(n.go(0, p("1.0.0.1", "9.9.9.7")), "0: 3.0.0.3 > 9.9.9.7");
    assert_eq!(n.go(1, p("9.9.9.6", "3.0.0.1")), "-");
    assert_eq!(n.go(1, p("9.9.9.7", "3.0.0.3")), "1: 9.9.9.7 > 1.0.0.1");
    assert!(
        n.read("rw", "table")
            .contains("(1.0.0.1, 9.9.9.7) => (3.0.0.3, 9.9.9.7) [*0 1] i0 exp7200\n")
    );
}

#[test]
fn pings() {
    let mut n = Net::one("ICMPPingRewriter", "pattern 2.0.0.2 - 0-65535# 0 1, drop");
    let ping = |src, dst, kind, id: u16| {
        let [a, b] = id.to_be_bytes();
        icmp_packet(src, dst, kind, [a, b, 0, 9], b"payload!")
    };
    assert_eq!(
        n.go(0, ping("1.0.0.1", "5.0.0.5", 8, 10230)),
        "0: 2.0.0.2 > 5.0.0.5 type 8 id 0"
    );
    assert_eq!(
        n.go(0, ping("1.0.0.2", "5.0.0.5", 8, 10230)),
        "0: 2.0.0.2 > 5.0.0.5 type 8 id 1"
    );
    assert_eq!(
        n.go(1, ping("5.0.0.5", "2.0.0.2", 0, 1)),
        "1: 5.0.0.5 > 1.0.0.2 type 0 id 10230"
    );
    assert_eq!(
        n.go(1, ping("5.0.0.5", "2.0.0.2", 0, 0)),
        "1: 5.0.0.5 > 1.0.0.1 type 0 id 10230"
    );
    // a reply that nobody asked for, another type, a request the other way
    assert_eq!(n.go(1, ping("5.0.0.5", "2.0.0.2", 0, 7)), "-");
    assert_eq!(n.go(0, ping("5.0.0.5", "2.0.0.2", 13, 7)), "-");
    let odd = "ICMPPingRewriter: not an echo request or reply, or a later fragment";
    let unasked = "ICMPPingRewriter: no mapping for this packet, and none is made at this input";
    assert_eq!((n.drops(odd), n.drops(unasked)), (1, 1));
    assert_eq!(n.go(1, ping("5.0.0.5", "2.0.0.2", 8, 1)), "-");
    assert!(
        n.read("rw", "table")
            .contains("(1.0.0.1, 5.0.0.5, 10230) => (2.0.0.2, 5.0.0.5, 0) [*0 1] i0")
    );
    let spec = "pattern 1.0.0.1 1024-65535# - - 0 1, drop \"nobody asked for it\"";
    let mut n = Net::one("ICMPPingRewriter", spec);
    assert_eq!(n.go(1, ping("10.0.0.4", "1.0.0.1", 0, 7)), "-");
    assert_eq!(n.go(1, ping("10.0.0.4", "1.0.0.1", 8, 7)), "-");
    assert_eq!(n.drops("nobody asked for it"), 2);
}

#[test]
fn random_ports_are_in_range_and_free() {
    let mut n = Net::one("IPRewriter", "pattern 1.0.0.1 2000-2099? - - 0 1, drop");
    let mut seen = std::collections::BTreeSet::new();
    for i in 0..100u16 {
        let (_, q) = n
            .push("rw", 0, udp_packet(("10.0.0.1", i), ("2.0.0.2", 2), b""))
            .unwrap();
        let t = q.transport().unwrap();
        seen.insert(u16::from_be_bytes([t[0], t[1]]));
    }
    assert_eq!(
        (seen.len(), seen.first(), seen.last()),
        (100, Some(&2000), Some(&2099))
    );
    assert_eq!(
        n.go(0, udp_packet(("10.0.0.1", 200), ("2.0.0.2", 2), b"")),
        "-"
    );
}

#[test]
fn decisions_name_the_argument() {
    let mut n = Net::one(
        "IPRewriter",
        "drop, DST_ANNO true, pattern 1.0.0.1 9 - - 0 1",
    );
    n.go(1, udp_packet(("10.0.0.1", 1), ("2.0.0.2", 2), b""));
    n.go(0, udp_packet(("10.0.0.2", 1), ("2.0.0.2", 2), b""));
    let d = &n.host.decisions;
    assert_eq!(d[0].0, Some(2));
    assert_eq!(
        d[0].1,
        "forward mapping of input 1: (10.0.0.1, 1, 2.0.0.2, 2) => (1.0.0.1, 9, 2.0.0.2, 2), output 0"
    );
    assert_eq!(
        d[1],
        (
            Some(0),
            "IPRewriter: no mapping for this packet, and none is made at this input".to_string()
        )
    );
}

#[test]
fn a_batch_does_what_its_packets_do() {
    let config = "pattern 1.0.0.1 1024-1040# - - 0 1, pass 1, MAPPING_CAPACITY 9, TCP_GUARANTEE 0, UDP_GUARANTEE 0";
    let mut packets = Vec::new();
    for i in 0..100u16 {
        let (host, other) = (format!("10.0.0.{}", i % 7), 1024 + i % 11);
        packets.push(match i % 5 {
            0 => tcp_packet((&host, 7), ("2.0.0.2", 9), SYN, b""),
            1 => udp_packet((&host, 7), ("2.0.0.2", 9), b"x"),
            2 => udp_packet(("2.0.0.2", 9), ("1.0.0.1", other), b"x"),
            3 => tcp_packet(("2.0.0.2", 9), ("1.0.0.1", other), ACK, b"data"),
            _ => ip_packet(&host, "2.0.0.2", 47, b"x"),
        });
    }
    let mut one = Net::one("IPRewriter", config);
    let mut all = Net::one("IPRewriter", config);
    let mut want = Vec::new();
    for p in &packets {
        want.extend(
            one.push("rw", 0, p.clone())
                .map(|(o, p)| (o, p.data().to_vec())),
        );
    }
    all.with("rw", |e, cx| e.push_batch(0, &mut packets, cx));
    let mut got = Vec::new();
    for e in all.out.effects.drain(..) {
        if let onefold_element::Emission::Emit(o, p) = e {
            got.push((o, p.data().to_vec()));
        }
    }
    assert_eq!(got, want);
    assert!(got.len() > 40);
    assert_eq!(one.store.summaries(), all.store.summaries());
    assert_eq!(one.out.drops, all.out.drops);
}
