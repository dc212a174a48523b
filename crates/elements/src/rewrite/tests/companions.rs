//! ICMPRewriter, FTPPortMapper, the mappers.

use super::*;
use onefold_packet::wire::tcp::flag::{ACK, SYN};

/// An ICMP error of a type about the first `len` bytes of a packet.
fn error_about(kind: u8, from: &str, to: &str, about: &Packet, len: usize) -> Pkt {
    icmp_packet(
        from,
        to,
        kind,
        [0; 4],
        &about.data()[..len.min(about.len())],
    )
}

/// The packet inside an ICMP error, with its checksums looked at.
fn inside(p: &Packet) -> String {
    let mut q = Box::new(Packet::from_slice(&p.transport().unwrap()[8..]));
    q.set_network_header(0, 20);
    describe(&q)
}

fn nat() -> Net {
    Net::new(&[
        (
            "rw",
            "IPRewriter",
            "pattern 1.0.0.1 1024-65535# - - 0 1, drop",
            2,
            2,
        ),
        (
            "ping",
            "ICMPPingRewriter",
            "pattern 1.0.0.1 - 0-65535# 0 1, drop",
            2,
            2,
        ),
        (
            "addr",
            "IPAddrRewriter",
            "pattern 3.0.0.1-3.0.0.9# - 0 1, drop",
            2,
            2,
        ),
        ("err", "ICMPRewriter", "rw ping:1 addr", 1, 3),
    ])
    .unwrap()
}

#[test]
fn errors_come_back_to_who_sent_the_packet() {
    let mut n = nat();
    let original = tcp_packet(("10.0.0.7", 5000), ("2.0.0.2", 80), SYN, b"hello");
    let (_, sent) = n.push("rw", 0, original.clone()).unwrap();
    for kind in [3, 4, 5, 11, 12] {
        let e = error_about(kind, "9.9.9.9", "1.0.0.1", &sent, 1500);
        let (o, q) = n.push("err", 0, e).unwrap();
        assert_eq!(o, 0);
        assert_eq!(describe(&q), format!("9.9.9.9 > 10.0.0.7 type {kind} id 0"));
        assert_eq!(inside(&q), "10.0.0.7 5000 > 2.0.0.2 80");
        assert_eq!(&q.transport().unwrap()[8..], original.data());
        assert_eq!(q.anno.dst_ip(), [10, 0, 0, 7]);
    }
    // eight bytes of the transport header are enough, and needed
    let (_, q) = n
        .push("err", 0, error_about(3, "9.9.9.9", "1.0.0.1", &sent, 28))
        .unwrap();
    assert_eq!(q.transport().unwrap()[8..], original.data()[..28]);
    assert!(
        n.push("err", 0, error_about(3, "9.9.9.9", "1.0.0.1", &sent, 27))
            .is_none()
    );
    assert_eq!(
        n.drops("ICMPRewriter: no mapping for the packet that the error is about"),
        1
    );
    // an error about a reply, on its way out
    let reply = tcp_packet(("2.0.0.2", 80), ("1.0.0.1", 1024), ACK, b"");
    let (_, inner) = n.push("rw", 1, reply.clone()).unwrap();
    let (_, q) = n
        .push(
            "err",
            0,
            error_about(11, "10.0.0.254", "2.0.0.2", &inner, 40),
        )
        .unwrap();
    assert_eq!(q.transport().unwrap()[8..], reply.data()[..40]);
    assert_eq!(describe(&q), "10.0.0.254 > 2.0.0.2 type 11 id 0");
}

#[test]
fn errors_about_udp_without_checksum_pings_and_addresses() {
    let mut n = nat();
    let mut p = udp_packet(("10.0.0.7", 5000), ("2.0.0.2", 53), b"hello");
    p.transport_mut().unwrap()[6..8].fill(0);
    let (_, sent) = n.push("rw", 0, p.clone()).unwrap();
    let (_, q) = n
        .push("err", 0, error_about(3, "2.0.0.2", "1.0.0.1", &sent, 100))
        .unwrap();
    assert_eq!(q.transport().unwrap()[8..], *p.data());

    let p = icmp_packet("10.0.0.7", "2.0.0.2", 8, [0x12, 0x34, 0, 1], b"ping");
    let (_, sent) = n.push("ping", 0, p.clone()).unwrap();
    let (o, q) = n
        .push("err", 0, error_about(11, "2.0.0.2", "1.0.0.1", &sent, 100))
        .unwrap();
    // the map's offset and the reply output
    assert_eq!(o, 2);
    assert_eq!(describe(&q), "2.0.0.2 > 10.0.0.7 type 11 id 0");
    assert_eq!(q.transport().unwrap()[8..], *p.data());

    // a binding of addresses leaves the embedded destination alone
    let p = ip_packet("10.0.0.8", "2.0.0.2", 47, b"tunnel");
    let (_, sent) = n.push("addr", 0, p.clone()).unwrap();
    let (_, q) = n
        .push("err", 0, error_about(3, "2.0.0.2", "3.0.0.1", &sent, 100))
        .unwrap();
    assert_eq!(q.transport().unwrap()[8..], *p.data());
    assert_eq!(describe(&q), "2.0.0.2 > 10.0.0.8 type 3 id 0");
}

/// Ports, and identifiers of pings, are nothing that rewriters of addresses know: they stay in the quoted packet.
#[test]
fn errors_through_rewriters_of_addresses_leave_ports_alone() {
    for class in ["IPAddrRewriter", "IPAddrPairRewriter"] {
        let mut n = Net::new(&[
            ("rw", class, "pattern 3.0.0.1 - 0 1, drop", 2, 2),
            ("err", "ICMPRewriter", "rw", 1, 1),
        ])
        .unwrap();
        for p in [
            udp_packet(("10.0.0.7", 5000), ("2.0.0.2", 53), b"hello"),
            tcp_packet(("10.0.0.7", 5000), ("2.0.0.2", 53), SYN, b"hello"),
            icmp_packet("10.0.0.7", "2.0.0.2", 8, [0x12, 0x34, 0, 1], b"ping"),
            icmp_packet("10.0.0.7", "2.0.0.2", 8, [0; 4], b""),
        ] {
            let (_, sent) = n.push("rw", 0, p.clone()).unwrap();
            for len in [100, 28] {
                let e = error_about(3, "9.9.9.9", "3.0.0.1", &sent, len);
                let (_, q) = n.push("err", 0, e).unwrap();
                assert_eq!(describe(&q), "9.9.9.9 > 10.0.0.7 type 3 id 0");
                assert_eq!(q.transport().unwrap()[8..], p.data()[..len.min(p.len())]);
            }
        }
    }
}

#[test]
fn the_source_of_errors() {
    let sources = ["keep", "own", "all"].map(|s| format!("rw, SOURCE {s}"));
    let mut spec = vec![("rw", "IPRewriter", "pattern - - 5.0.0.5 - 0 1, drop", 2, 2)];
    let names = ["keep", "own", "all"];
    spec.extend((names.iter().zip(&sources)).map(|(n, s)| (*n, "ICMPRewriter", s.as_str(), 1, 1)));
    spec.push((
        "strict",
        "ICMPRewriter",
        "rw, STRICT true, UNMAPPED 1",
        1,
        2,
    ));
    let mut n = Net::new(&spec).unwrap();
    let (_, sent) = n
        .push(
            "rw",
            0,
            udp_packet(("10.0.0.7", 5000), ("2.0.0.2", 53), b""),
        )
        .unwrap();
    let mut source = |name: &str, from: &str| {
        let (_, q) = n
            .push(name, 0, error_about(3, from, "10.0.0.7", &sent, 28))
            .unwrap();
        describe(&q).split(' ').next().unwrap().to_string()
    };
    assert_eq!(source("keep", "5.0.0.5"), "5.0.0.5");
    assert_eq!(source("keep", "9.9.9.9"), "9.9.9.9");
    assert_eq!(source("own", "5.0.0.5"), "2.0.0.2");
    assert_eq!(source("own", "9.9.9.9"), "9.9.9.9");
    assert_eq!(source("all", "5.0.0.5"), "2.0.0.2");
    assert_eq!(source("all", "9.9.9.9"), "2.0.0.2");
    // where others leave, unchanged
    let mut other = |to: &str, about: &Packet| {
        let e = error_about(3, "9.9.9.9", to, about, 28);
        let (o, q) = n.push("strict", 0, e.clone()).unwrap();
        (o, q.data() == e.data())
    };
    assert_eq!(other("10.0.0.7", &sent), (0, false));
    assert_eq!(other("10.0.0.8", &sent), (1, true));
    let unknown = udp_packet(("10.0.0.8", 5000), ("5.0.0.5", 53), b"");
    assert_eq!(other("10.0.0.8", &unknown), (1, true));
}

#[test]
fn what_is_no_error_is_dropped() {
    let mut n = nat();
    assert!(
        n.push("err", 0, udp_packet(("1.1.1.1", 1), ("2.2.2.2", 2), b""))
            .is_none()
    );
    assert_eq!(n.drops("ICMPRewriter: not ICMP"), 1);
    for p in [
        icmp_packet("1.1.1.1", "2.2.2.2", 8, [0; 4], &[0x45; 40]),
        icmp_packet("1.1.1.1", "2.2.2.2", 3, [0; 4], &[0x45; 19]),
        icmp_packet("1.1.1.1", "2.2.2.2", 3, [0; 4], &[0x44; 40]),
        icmp_packet("1.1.1.1", "2.2.2.2", 3, [0; 4], &[0x65; 40]),
        ip_packet("1.1.1.1", "2.2.2.2", 1, b""),
    ] {
        assert!(n.push("err", 0, p).is_none());
    }
    assert_eq!(n.drops("ICMPRewriter: not an error about a packet"), 5);
    // the header length reaches beyond what is there: addresses alone count
    let p = icmp_packet("1.1.1.1", "2.2.2.2", 3, [0; 4], &[0x4f; 24]);
    assert!(n.push("err", 0, p).is_none());
    assert_eq!(
        n.drops("ICMPRewriter: no mapping for the packet that the error is about"),
        1
    );
}

#[test]
fn ftp_port_command() {
    let mut n = Net::new(&[
        ("ftp", "FTPPortMapper", "rw, rw, 0", 1, 1),
        (
            "rw",
            "TCPRewriter",
            "pattern 1.0.0.1 1024-65535# - - 0 0",
            1,
            1,
        ),
    ])
    .unwrap();
    let client = ("200.200.200.200", 30);
    let server = ("2.0.0.2", 21);
    let mut send = |seq: u32, payload: &str| {
        let p = tcp_numbered(client, server, ACK, (seq, 0), &[], payload.as_bytes());
        let (_, p) = n.push("ftp", 0, p).unwrap();
        let (_, p) = n.push("rw", 0, p).unwrap();
        assert_eq!(describe(&p), "1.0.0.1 1024 > 2.0.0.2 21");
        let t = p.transport().unwrap();
        let seq = u32::from_be_bytes([t[4], t[5], t[6], t[7]]);
        (seq, String::from_utf8_lossy(&t[20..]).into_owned())
    };
    assert_eq!(send(0, "x"), (0, "x".into()));
    assert_eq!(
        send(1, "PORT 200,200,200,200,3,9\r\n"),
        (1, "PORT 1,0,0,1,4,1\r\n".into())
    );
    // 26 bytes have become 18
    assert_eq!(send(27, "quit\r\n"), (19, "quit\r\n".into()));
    assert_eq!(send(0, "x"), (0, "x".into()));
    // no commands: unfinished, wrong numbers, not first
    for text in [
        "PORT 1,2,3,4,5,6",
        "PORT 1,2,3,4,5\r\n",
        "PORT 256,2,3,4,5,6\n",
        "\nPORT 1,2,3,4,5,6\n",
        "PORT 1,2,3,4,5,6,7\n",
    ] {
        assert_eq!(send(40, text).1, text);
    }
    // acknowledgments, SACK blocks among them, go the other way
    let sack = |l: u32, r: u32| {
        let mut o = vec![1, 1, 5, 10];
        o.extend_from_slice(&l.to_be_bytes());
        o.extend_from_slice(&r.to_be_bytes());
        o
    };
    let answer = |ack: u32, options: &[u8]| {
        tcp_numbered(server, ("1.0.0.1", 1024), ACK, (0, ack), options, b"")
    };
    let (_, p) = n.push("rw", 0, answer(19, &sack(1, 25))).unwrap();
    assert_eq!(describe(&p), "2.0.0.2 21 > 200.200.200.200 30");
    let t = p.transport().unwrap();
    assert_eq!(t[8..12], 27u32.to_be_bytes());
    assert_eq!(t[20..], sack(1, 33));
    // the data connection is known
    let data = tcp_packet(("2.0.0.2", 20), ("1.0.0.1", 1025), SYN, b"");
    let (_, p) = n.push("rw", 0, data).unwrap();
    assert_eq!(describe(&p), "2.0.0.2 20 > 200.200.200.200 777");
    let table = n.read("rw", "table");
    assert!(table.contains(
        "(200.200.200.200, 30, 2.0.0.2, 21) => (1.0.0.1, 1024, 2.0.0.2, 21) seq -8 [*0 0] i0"
    ));
    // the header says that there is more of it than there is
    let mut p = tcp_packet(client, server, ACK, b"PORT 1,2,3,4,5,6\n");
    p.transport_mut().unwrap()[12] = 0xf0;
    let before = p.data().to_vec();
    assert_eq!(n.push("ftp", 0, p).unwrap().1.data(), before);
}

#[test]
fn round_robin() {
    let mut n = Net::new(&[
        (
            "m",
            "RoundRobinIPMapper",
            "- - 5.0.0.1 - 0 0, - - 5.0.0.2 - 1 0, 1.0.0.1 7-8# 5.0.0.3 - 2 1",
            0,
            0,
        ),
        ("rw", "IPRewriter", "m", 1, 3),
    ])
    .unwrap();
    let p = |host: u8, port| udp_packet((&format!("10.0.0.{host}"), port), ("9.9.9.9", 2), b"");
    assert_eq!(n.go(0, p(1, 1)), "0: 10.0.0.1 1 > 5.0.0.1 2");
    assert_eq!(n.go(0, p(2, 1)), "1: 10.0.0.2 1 > 5.0.0.2 2");
    assert_eq!(n.go(0, p(1, 1)), "0: 10.0.0.1 1 > 5.0.0.1 2");
    assert_eq!(n.go(0, p(3, 1)), "2: 1.0.0.1 7 > 5.0.0.3 2");
    assert_eq!(n.go(0, p(4, 1)), "0: 10.0.0.4 1 > 5.0.0.1 2");
    n.go(0, p(5, 1));
    assert_eq!(n.go(0, p(6, 1)), "2: 1.0.0.1 8 > 5.0.0.3 2");
    n.go(0, p(7, 1));
    n.go(0, p(8, 1));
    // the third has no port left: it is passed over
    assert_eq!(n.go(0, p(9, 1)), "0: 10.0.0.9 1 > 5.0.0.1 2");
    assert_eq!(n.go(0, p(10, 1)), "1: 10.0.0.10 1 > 5.0.0.2 2");
    // replies leave where the chosen pattern says
    let r = udp_packet(("5.0.0.3", 2), ("1.0.0.1", 8), b"");
    assert_eq!(n.go(0, r), "1: 9.9.9.9 2 > 10.0.0.6 1");
    assert_eq!(n.read("rw", "patterns"), "<mapper> [10]\n");
}

#[test]
fn source_hash_is_sticky() {
    let mut n = Net::new(&[
        (
            "m",
            "SourceIPHashMapper",
            "20 99, - - 5.0.0.1 - 0 1 1, - - 5.0.0.2 - 0 1 2, - - 5.0.0.3 - 0 1 3",
            0,
            0,
        ),
        ("rw", "IPRewriter", "m", 1, 2),
    ])
    .unwrap();
    let mut servers = std::collections::BTreeSet::new();
    for host in 1..=60u8 {
        let src = format!("10.0.0.{host}");
        let mut last = None;
        for port in 1..4 {
            let (_, q) = n
                .push("rw", 0, udp_packet((&src, port), ("9.9.9.9", 2), b""))
                .unwrap();
            let dst = ipv4::Header::parse(q.network().unwrap()).unwrap().dst();
            assert_eq!(*last.get_or_insert(dst), dst);
            servers.insert(dst);
        }
    }
    assert_eq!(servers.len(), 3);
}
