//! Generated frames, looked at with the eyes of others: etherparse and tshark.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::process::Command;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use onefold_bench::{
    Direction, ExceptionKind, Generator, Payload, RuleKind, RuleParams, SizeModel, TcpStyle,
    TrafficError, TrafficParams, exercise, first_match, generate_rules,
};
use onefold_capture::{CaptureWriter, LinkType};

/// A frame, when, and what the generator says about it.
type Made = (onefold_bench::GeneratedFrame, Vec<u8>);

fn make(p: TrafficParams) -> Vec<Made> {
    let mut g = Generator::new(p).unwrap();
    let mut frames = Vec::new();
    let mut buf = Vec::new();
    while let Some(about) = g.next_into(&mut buf) {
        frames.push((about, buf.clone()));
    }
    let c = g.counts();
    assert_eq!(c.forward + c.reverse, frames.len() as u64);
    assert_eq!(c.tcp + c.udp + c.icmp + c.other, frames.len() as u64);
    frames
}

/// The network addresses, protocol and ports: who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tuple {
    src: std::net::IpAddr,
    dst: std::net::IpAddr,
    proto: u8,
    sport: u16,
    dport: u16,
}

struct Parsed {
    tuple: Tuple,
    payload: Vec<u8>,
    tcp: Option<(u32, u32, u8)>,
    ttl: u8,
}

/// Parses a frame strictly, checking every length and every checksum.
fn parse(frame: &[u8]) -> Parsed {
    let p = SlicedPacket::from_ethernet(frame).unwrap_or_else(|e| panic!("{e}: {frame:02x?}"));
    assert!(frame.len() >= 60);
    let (src, dst, v4, v6, ttl);
    match p.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let h = ip.header().to_header();
            assert_eq!(h.header_checksum, h.calc_header_checksum());
            (src, dst) = (
                h.source.into(),
                std::net::IpAddr::from(std::net::Ipv4Addr::from(h.destination)),
            );
            ttl = h.time_to_live;
            (v4, v6) = (Some(h), None);
        }
        NetSlice::Ipv6(ip) => {
            let h = ip.header().to_header();
            (src, dst) = (
                h.source.into(),
                std::net::IpAddr::from(std::net::Ipv6Addr::from(h.destination)),
            );
            ttl = h.hop_limit;
            (v4, v6) = (None, Some(h));
        }
        other => panic!("{other:?}"),
    }
    let mut tuple = Tuple {
        src,
        dst,
        proto: 0,
        sport: 0,
        dport: 0,
    };
    let mut tcp = None;
    let payload;
    match p.transport.as_ref() {
        Some(TransportSlice::Tcp(t)) => {
            let h = t.to_header();
            payload = t.payload().to_vec();
            let sum = match (&v4, &v6) {
                (Some(ip), _) => h.calc_checksum_ipv4(ip, &payload),
                (_, Some(ip)) => h.calc_checksum_ipv6(ip, &payload),
                _ => unreachable!(),
            };
            assert_eq!(h.checksum, sum.unwrap());
            tuple.proto = 6;
            (tuple.sport, tuple.dport) = (h.source_port, h.destination_port);
            let bits = [h.fin, h.syn, h.rst, h.psh, h.ack, h.urg];
            let flags = (0..6).filter(|&i| bits[i]).map(|i| 1 << i).sum();
            tcp = Some((h.sequence_number, h.acknowledgment_number, flags));
        }
        Some(TransportSlice::Udp(u)) => {
            let h = u.to_header();
            payload = u.payload().to_vec();
            let sum = match (&v4, &v6) {
                (Some(ip), _) => h.calc_checksum_ipv4(ip, &payload),
                (_, Some(ip)) => h.calc_checksum_ipv6(ip, &payload),
                _ => unreachable!(),
            };
            assert_eq!(h.checksum, sum.unwrap());
            assert_ne!(h.checksum, 0);
            tuple.proto = 17;
            (tuple.sport, tuple.dport) = (h.source_port, h.destination_port);
        }
        Some(TransportSlice::Icmpv4(i)) => {
            assert_eq!(i.checksum(), i.icmp_type().calc_checksum(i.payload()));
            payload = i.payload().to_vec();
            tuple.proto = 1;
        }
        Some(TransportSlice::Icmpv6(i)) => {
            let ip = v6.as_ref().unwrap();
            assert!(i.is_checksum_valid(ip.source, ip.destination));
            payload = i.payload().to_vec();
            tuple.proto = 58;
        }
        Some(other) => panic!("{other:?}"),
        None => {
            let ip = p.net.as_ref().unwrap().ip_payload_ref().unwrap();
            tuple.proto = ip.ip_number.0;
            payload = ip.payload.to_vec();
        }
    }
    Parsed {
        tuple,
        payload,
        tcp,
        ttl,
    }
}

fn base(packets: u64, flows: u32) -> TrafficParams {
    TrafficParams {
        packets,
        flows,
        ..TrafficParams::default()
    }
}

#[test]
fn every_frame_is_well_formed() {
    let sizes = [
        "60",
        "imix",
        "campus",
        "router",
        "isp",
        "datacenter",
        "9014",
        "65535",
    ];
    let payloads = [Payload::Zero, Payload::Ramp, Payload::Text, Payload::Random];
    for (i, size) in sizes.into_iter().enumerate() {
        for (ipv6, vlan, replies) in [(0.0, None, false), (0.5, Some(7), true), (1.0, None, true)] {
            let frames = make(TrafficParams {
                sizes: SizeModel::parse(size, None).unwrap(),
                payload: payloads[i % 4],
                ipv6,
                vlan,
                replies,
                ttl: 33,
                protocols: "tcp=2,udp=2,icmp=1".parse().unwrap(),
                needle: Some((b"needle".to_vec(), 0.5)),
                ..base(600, 40)
            });
            assert_eq!(frames.len(), 600);
            for (about, frame) in &frames {
                assert_eq!(about.orig_len as usize, frame.len());
                assert_eq!(about.exception, None);
                assert_eq!(parse(frame).ttl, 33);
                let tag = (frame[12..14] == [0x81, 0])
                    .then(|| u16::from_be_bytes([frame[14], frame[15]]));
                assert_eq!(tag, vlan);
                let macs = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
                let to = usize::from(about.direction == Direction::Reverse);
                assert_eq!(frame[..6], macs[to]);
                assert_eq!(frame[6..12], macs[1 - to]);
            }
        }
    }
}

#[test]
fn a_seed_decides_everything() {
    let p = || TrafficParams {
        ipv6: 0.3,
        zipf: 1.0,
        replies: true,
        exceptions: 0.2,
        ..base(3_000, 100)
    };
    assert_eq!(make(p()), make(p()));
    let other = make(TrafficParams { seed: 2, ..p() });
    assert_ne!(make(p()), other);
    // The bytes of a seed must not change between releases either: a hash (FNV-1a) of many, and one by value.
    let hash = make(p())
        .iter()
        .flat_map(|(_, f)| f)
        .fold(0xcbf2_9ce4_8422_2325u64, |h, &b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
    assert_eq!(hash, 14747597327820415853);
    let (about, frame) = &make(TrafficParams {
        protocols: "udp".parse().unwrap(),
        sizes: SizeModel::fixed(60),
        payload: Payload::Ramp,
        ..base(1, 1)
    })[0];
    assert_eq!(about.ts_ns, 1_700_000_000_000_000_000);
    let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(
        hex,
        concat!(
            "02000000000202000000000108004500002e00000000401172780aefd6cfc612",
            "6076d1af01bb001adbb6000102030405060708090a0b0c0d0e0f1011"
        )
    );
}

#[test]
fn flows_are_different_and_take_turns_at_random() {
    const FLOWS: usize = 500;
    const ROUNDS: usize = 6;
    let frames = make(TrafficParams {
        protocols: "udp".parse().unwrap(),
        ..base((FLOWS * ROUNDS) as u64, FLOWS as u32)
    });
    let tuples: Vec<Tuple> = frames.iter().map(|(_, f)| parse(f).tuple).collect();
    let rounds: Vec<&[Tuple]> = tuples.chunks(FLOWS).collect();
    let all: HashSet<Tuple> = tuples.iter().copied().collect();
    assert_eq!(all.len(), FLOWS);
    for r in &rounds {
        assert_eq!(
            r.iter().collect::<HashSet<_>>().len(),
            FLOWS,
            "each once a round"
        );
    }
    // In random order: a step goes up in half of the cases, and no flow keeps its place.
    for r in &rounds {
        let ups = r.windows(2).filter(|w| w[0].src < w[1].src).count();
        assert!(ups.abs_diff(FLOWS / 2) < 60, "{ups} ascents");
    }
    let same = (0..FLOWS).filter(|&i| rounds[0][i] == rounds[1][i]).count();
    assert!(same < 10, "{same} flows kept their places");
}

#[test]
fn popularity_follows_zipf_and_not_addresses() {
    let frames = make(TrafficParams {
        protocols: "udp".parse().unwrap(),
        sizes: SizeModel::fixed(60),
        zipf: 1.0,
        ..base(200_000, 1_000)
    });
    let mut seen: HashMap<std::net::IpAddr, u32> = HashMap::new();
    for (_, f) in &frames {
        *seen.entry(parse(f).tuple.src).or_default() += 1;
    }
    let mut by_count: Vec<(u32, std::net::IpAddr)> =
        seen.into_iter().map(|(a, n)| (n, a)).collect();
    by_count.sort_by(|a, b| b.cmp(a));
    // The slope of log count over log rank, by least squares over the first hundred ranks.
    let points: Vec<(f64, f64)> = by_count
        .iter()
        .take(100)
        .enumerate()
        .map(|(i, (n, _))| (((i + 1) as f64).ln(), f64::from(*n).ln()))
        .collect();
    let mean = |f: fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / points.len() as f64;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let slope = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum::<f64>()
        / points.iter().map(|p| (p.0 - mx).powi(2)).sum::<f64>();
    assert!((slope + 1.0).abs() < 0.05, "slope {slope}");
    // 1 / H(1000) = 13.4% for the first.
    assert!((f64::from(by_count[0].0) / 200_000.0 - 0.1336).abs() < 0.005);
    let ups = by_count
        .windows(2)
        .take(200)
        .filter(|w| w[0].1 < w[1].1)
        .count();
    assert!(ups.abs_diff(100) < 35, "{ups} ascents");
}

#[test]
fn sizes_protocols_and_families_are_shared_out_as_asked() {
    let p = TrafficParams {
        ipv6: 0.25,
        protocols: "tcp=50,udp=40,icmp=10".parse().unwrap(),
        tcp: TcpStyle::Stateless,
        ..base(40_000, 40_000)
    };
    // IPv6 TCP headers (74 bytes) are longer than the shortest IMIX frame; one byte of payload is always there.
    let frames = make(p);
    let n = frames.len() as f64;
    let mean = frames
        .iter()
        .map(|(a, _)| f64::from(a.orig_len))
        .sum::<f64>()
        / n;
    let expected = SizeModel::named("imix").unwrap().mean();
    assert!(mean > expected - 8.0 && mean < expected + 12.0, "{mean}");
    let mut shares: BTreeMap<u8, f64> = BTreeMap::new();
    for (_, f) in &frames {
        *shares.entry(parse(f).tuple.proto).or_default() += 1.0 / n;
    }
    for (proto, share) in [(6, 0.5), (17, 0.4), (1, 0.075), (58, 0.025)] {
        assert!(
            (shares[&proto] - share).abs() < 0.012,
            "{proto}: {shares:?}"
        );
    }
    let gaps: HashSet<i64> = frames
        .windows(2)
        .map(|w| w[1].0.ts_ns - w[0].0.ts_ns)
        .collect();
    assert_eq!(gaps, HashSet::from([1_000]));
}

#[test]
fn connections_open_talk_and_close_in_order() {
    let frames = make(TrafficParams {
        protocols: "tcp".parse().unwrap(),
        tcp: TcpStyle::Connections { segments: 4 },
        replies: true,
        ..base(20 * 40, 40)
    });
    // The client's view: flow -> what was seen of the current connection.
    #[derive(Default)]
    struct Side {
        next: u32,
    }
    let mut flows: HashMap<Tuple, (usize, Side, Side, usize)> = HashMap::new();
    let (fin, syn, psh, ack) = (1u8, 2u8, 8u8, 16u8);
    for (about, f) in &frames {
        let p = parse(f);
        let (seq, acked, flags) = p.tcp.unwrap();
        let client = about.direction == Direction::Forward;
        let t = p.tuple;
        let key = if client {
            t
        } else {
            Tuple {
                src: t.dst,
                dst: t.src,
                sport: t.dport,
                dport: t.sport,
                ..t
            }
        };
        let (step, c, s, done) = flows.entry(key).or_default();
        let expected = [
            (true, syn),
            (false, syn | ack),
            (true, ack),
            (true, psh | ack),
            (false, psh | ack),
            (true, psh | ack),
            (false, psh | ack),
            (true, fin | ack),
            (false, fin | ack),
            (true, ack),
        ][*step];
        assert_eq!((client, flags), expected, "step {step} of {key:?}");
        assert_eq!(p.payload.is_empty(), flags & psh == 0);
        let (own, other) = if client { (c, s) } else { (s, c) };
        if flags & syn != 0 {
            own.next = seq;
        }
        assert_eq!(seq, own.next);
        if flags & ack != 0 {
            assert_eq!(acked, other.next);
        }
        let virtual_bytes = u32::from(flags & (syn | fin) != 0);
        own.next = seq.wrapping_add(p.payload.len() as u32 + virtual_bytes);
        *step += 1;
        if *step == 10 {
            *step = 0;
            *done += 1;
        }
    }
    assert_eq!(flows.len(), 40);
    assert!(
        flows.values().all(|f| f.3 == 2 && f.0 == 0),
        "20 packets are two connections"
    );
}

#[test]
fn answers_can_go_to_a_nat() {
    let to = std::net::Ipv4Addr::new(192, 0, 2, 1);
    let frames = make(TrafficParams {
        replies: true,
        reply_to: Some(to),
        ..base(400, 20)
    });
    let back: Vec<_> = frames
        .iter()
        .filter(|(a, _)| a.direction == Direction::Reverse)
        .collect();
    assert!(back.len() > 100);
    assert!(back.iter().all(|(_, f)| parse(f).tuple.dst == to));
}

#[test]
fn needles_are_where_they_fit() {
    let needle = b"attack-signature".to_vec();
    let frames = make(TrafficParams {
        needle: Some((needle.clone(), 0.2)),
        sizes: SizeModel::fixed(200),
        tcp: TcpStyle::Stateless,
        payload: Payload::Text,
        ..base(5_000, 50)
    });
    let hits = frames
        .iter()
        .filter(|(_, f)| f.windows(needle.len()).any(|w| w == needle))
        .count();
    assert!(hits.abs_diff(1_000) < 130, "{hits}");
}

#[test]
fn exceptions_are_what_they_are_called() {
    for kind in ExceptionKind::ALL {
        for ipv6 in [0.0, 1.0] {
            let frames = make(TrafficParams {
                exceptions: 0.5,
                exception_kinds: vec![kind],
                ipv6,
                replies: true,
                protocols: "tcp,udp,icmp".parse().unwrap(),
                ..base(2_000, 50)
            });
            let odd: Vec<&Made> = frames
                .iter()
                .filter(|(a, _)| a.exception.is_some())
                .collect();
            assert!(odd.iter().all(|(a, _)| a.exception == Some(kind)));
            let share = odd.len() as f64 / frames.len() as f64;
            // Fragments come in pairs: two thirds.
            let expected = if kind == ExceptionKind::Fragments {
                2.0 / 3.0
            } else {
                0.5
            };
            assert!((share - expected).abs() < 0.05, "{kind:?}: {share}");
            for (about, f) in &frames {
                if about.exception.is_none() {
                    parse(f);
                }
            }
            check_exceptions(kind, ipv6 == 1.0, &odd);
        }
    }
}

fn check_exceptions(kind: ExceptionKind, v6: bool, odd: &[&Made]) {
    let strict = |f: &[u8]| std::panic::catch_unwind(|| parse(f).ttl).ok();
    match kind {
        ExceptionKind::Options => {
            for (_, f) in odd {
                if v6 {
                    assert_eq!(f[20], 0, "hop-by-hop comes next");
                    assert!(SlicedPacket::from_ethernet(f).unwrap().transport.is_some());
                } else {
                    assert!(f[14] > 0x45);
                    parse(f);
                }
            }
        }
        ExceptionKind::Ttl => assert!(odd.iter().all(|(_, f)| parse(f).ttl == 1)),
        ExceptionKind::Fragments => {
            for pair in odd.chunks_exact(2) {
                // The first says that more follow, the second continues where the first ends.
                let part = |f: &[u8]| -> (bool, usize, Vec<u8>) {
                    let p = SlicedPacket::from_ethernet(f).unwrap();
                    let net = p.net.unwrap();
                    let ip = net.ip_payload_ref().unwrap();
                    assert!(ip.fragmented);
                    let field = if v6 {
                        u16::from_be_bytes([f[56], f[57]])
                    } else {
                        let h = u16::from_be_bytes([f[20], f[21]]);
                        h << 3 | h >> 13 & 1
                    };
                    (field & 1 == 1, usize::from(field & !7), ip.payload.to_vec())
                };
                let (first, second) = (part(&pair[0].1), part(&pair[1].1));
                assert_eq!((first.0, first.1), (true, 0));
                assert_eq!((second.0, second.1), (false, first.2.len()));
                assert!(!second.2.is_empty());
            }
        }
        ExceptionKind::IpChecksum | ExceptionKind::TransportChecksum => {
            let hook = std::panic::take_hook();
            std::panic::set_hook(Box::new(|_| {}));
            let good = odd.iter().filter(|(_, f)| strict(f).is_some()).count();
            std::panic::set_hook(hook);
            assert_eq!(good, 0);
            // Only the checksum is wrong.
            assert!(
                odd.iter()
                    .all(|(_, f)| SlicedPacket::from_ethernet(f).is_ok())
            );
        }
        ExceptionKind::Truncated => {
            assert!(
                odd.iter()
                    .all(|(a, f)| f.len() < a.orig_len as usize && f.len() >= 14)
            );
        }
        ExceptionKind::Length => {
            for (_, f) in odd {
                let claimed = if v6 {
                    40 + usize::from(u16::from_be_bytes([f[18], f[19]]))
                } else {
                    usize::from(u16::from_be_bytes([f[16], f[17]]))
                };
                assert!(claimed > f.len() - 14);
            }
        }
        ExceptionKind::Arp => {
            for (_, f) in odd {
                assert_eq!(f[..6], [0xff; 6]);
                assert_eq!(f[12..22], [8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
                assert_eq!(f.len(), 60);
            }
        }
    }
}

#[test]
fn rules_are_exercised_evenly_by_real_packets() {
    let rules = generate_rules(&RuleParams::preset(RuleKind::Fw), 200, 5)
        .unwrap()
        .rules;
    let found = exercise(&rules, 1_000, 5, true);
    assert_eq!(found.headers.len(), 1_000 - 5 * found.unreached.len());
    let headers = found.headers.iter().map(|h| h.0).collect();
    let frames = make(TrafficParams {
        headers: Some(headers),
        ..base(found.headers.len() as u64 * 2, 1)
    });
    let mut hits = vec![0u32; rules.len()];
    for (_, f) in &frames {
        let p = parse(f);
        let v4 = |a| match a {
            std::net::IpAddr::V4(a) => u32::from(a),
            std::net::IpAddr::V6(_) => panic!("rules are IPv4"),
        };
        let header = onefold_bench::Header {
            src: v4(p.tuple.src),
            dst: v4(p.tuple.dst),
            ports: matches!(p.tuple.proto, 6 | 17).then_some((p.tuple.sport, p.tuple.dport)),
            proto: p.tuple.proto,
            flags: match p.tuple.proto {
                6 => u16::from(p.tcp.unwrap().2) << 8,
                // Type and code are the two bytes after the IP header.
                1 => u16::from_be_bytes([f[34], f[35]]),
                _ => 0,
            },
        };
        hits[first_match(&rules, &header).unwrap()] += 1;
    }
    for (i, &n) in hits.iter().enumerate() {
        let expected = if found.unreached.contains(&i) { 0 } else { 10 };
        assert_eq!(n, expected, "rule {i}");
    }
}

#[test]
fn impossible_parameters_are_refused() {
    let few = TrafficParams {
        src: "10.0.0.1".parse().unwrap(),
        dst: "10.0.0.2".parse().unwrap(),
        dport: "80".parse().unwrap(),
        sport: "1000-1099".parse().unwrap(),
        protocols: "udp".parse().unwrap(),
        ..base(1, 101)
    };
    let exactly = TrafficParams {
        flows: 100,
        ..few.clone()
    };
    assert_eq!(Generator::new(exactly).unwrap().flows(), 100);
    assert_eq!(
        Generator::new(few).err(),
        Some(TrafficError::TooFewFlows {
            found: 100,
            wanted: 101
        })
    );
    let bad: [fn(&mut TrafficParams); 10] = [
        |p| p.flows = 0,
        |p| p.zipf = f64::NAN,
        |p| p.zipf = -0.1,
        |p| p.exceptions = 1.1,
        |p| p.ipv6 = -1.0,
        |p| p.pps = 0,
        |p| p.dscp = 64,
        |p| p.vlan = Some(4096),
        |p| p.start_ns = -1,
        |p| p.src = "::1".parse().unwrap(),
    ];
    for (i, f) in bad.into_iter().enumerate() {
        let mut p = base(1, 1);
        f(&mut p);
        assert!(p.check().is_err(), "{i}");
    }
    let late = TrafficParams {
        packets: u64::MAX,
        pps: 1,
        ..base(1, 1)
    };
    assert!(matches!(
        Generator::new(late).err(),
        Some(TrafficError::Range { .. })
    ));
}

#[test]
fn tshark_finds_nothing_wrong() {
    if !onefold_testing::tool("tshark") {
        return;
    }
    let dir = std::env::temp_dir().join(format!("onefold-gen-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("traffic.pcapng");
    // Both directions in one file; few rounds, so that no connection reuses its ports.
    let mut g = Generator::new(TrafficParams {
        replies: true,
        ipv6: 0.3,
        vlan: Some(9),
        tcp: TcpStyle::Connections { segments: 6 },
        dport: "5001-5050".parse().unwrap(),
        protocols: "tcp=5,udp=3,icmp=2".parse().unwrap(),
        ..base(200 * 12, 200)
    })
    .unwrap();
    let mut w = CaptureWriter::create_for(&file, LinkType::ETHERNET).unwrap();
    let mut buf = Vec::new();
    while let Some(a) = g.next_into(&mut buf) {
        w.write(a.ts_ns, &buf, a.orig_len).unwrap();
    }
    w.finish().unwrap();
    let tshark = |filter: &str| -> usize {
        let out = Command::new("tshark")
            .args([
                "-n",
                "-o",
                "ip.check_checksum:TRUE",
                "-o",
                "tcp.check_checksum:TRUE",
            ])
            .args([
                "-o",
                "udp.check_checksum:TRUE",
                "-Y",
                filter,
                "-T",
                "fields",
                "-e",
                "frame.number",
                "-r",
            ])
            .arg(&file)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        out.stdout.iter().filter(|&&b| b == b'\n').count()
    };
    assert_eq!(tshark("frame"), 2_400);
    assert_eq!(tshark("ip.checksum.status == \"Good\" || ipv6"), 2_400);
    for wrong in ["tcp", "udp", "icmp", "icmpv6"] {
        let all = tshark(wrong);
        assert!(all > 0, "no {wrong}");
        assert_eq!(
            tshark(&format!("{wrong}.checksum.status == \"Good\"")),
            all,
            "{wrong}"
        );
    }
    assert_eq!(tshark("tcp.analysis.flags"), 0);
    assert!(tshark("icmp.resp_to") > 0);
    std::fs::remove_dir_all(&dir).unwrap();
}
