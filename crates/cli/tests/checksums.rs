//! The ISP edge and the IPv6 edge over every capture of the third-party corpus: whatever leaves has no checksum error
//! that what entered did not have. Two judges: our own, packet by packet, and tshark.
//!
//! The corpus' addresses fit no chain, so that nearly all of it is dropped as it is. It is therefore fed three times,
//! at every entry: as it is; with a MAC address of the chain's and rules that let everything pass; and with source
//! addresses of the chain's inner network too, each packet that leaves answered from outside, and with an ICMP error
//! about it.

use crate::common;

use common::corpus::Corpus;
use common::judge::{Layout, Sum, judge};
use common::wireshark::Part;
use common::{adapt, wireshark};
use onefold_capture::{CaptureWriter, LinkType};
use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// How a chain is fed.
struct Edge {
    name: &'static str,
    set: &'static [&'static str],
    /// Where frames for `lan` and `wan` are sent.
    macs: [[u8; 6]; 2],
    /// Networks inside, without an address of the router: first bytes of IPv4 and of IPv6 addresses.
    inside4: &'static [u8],
    inside6: &'static [u8],
    /// The chain passes IPv6.
    v6: bool,
}

const ISP: Edge = Edge {
    name: "isp-edge",
    set: &["rules"],
    macs: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 5]],
    inside4: &[204, 152, 7],
    inside6: &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1],
    v6: false,
};

const IPV6: Edge = Edge {
    name: "ipv6-edge",
    set: &["rules", "rules6"],
    macs: [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]],
    inside4: &[10, 9],
    inside6: &[0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1],
    v6: true,
};

/// What happened, in packets.
#[derive(Debug, Default)]
struct Count {
    fed: usize,
    left: usize,
    /// Checksums of packets that left: right; wrong, as they were in the packet that caused it.
    right: usize,
    wrong_before: usize,
    /// Ordinary packets (a router and a NAT have no reason to keep them), and those that left at the other side.
    ordinary: usize,
    ordinary_left: usize,
    /// Packets put together from fragments that left.
    reassembled: usize,
    /// IP packets of which the capture has less than was on the wire.
    cut: usize,
}

/// A chain that is being fed.
struct Rig {
    graph: Graph,
    /// lan, wan
    sources: [ElemId; 2],
    sinks: [Vec<ElemId>; 2],
    now: Timestamp,
    count: BTreeMap<String, Count>,
    /// All that left, and for each which input caused it.
    writer: CaptureWriter<File>,
    causes: Vec<usize>,
    parts: Vec<Part>,
    /// The inputs that caused something.
    inputs: Vec<Vec<u8>>,
    failures: Vec<String>,
}

impl Rig {
    fn new(edge: &Edge, rules: Option<&Path>, out: &Path) -> Self {
        let value = |r: &Path| r.to_string_lossy().into_owned();
        let set = rules
            .iter()
            .flat_map(|r| edge.set.iter().map(|k| (k.to_string(), value(r))))
            .collect();
        let options = onefold_chain::Options {
            set,
            examples: vec![common::root().join("chains")],
        };
        let chain = onefold_chain::load(edge.name, &options).expect("the chain loads");
        let port = |name: &str| {
            let p = chain.ports.iter().find(|p| p.name == name);
            let p = p.expect("an edge has ports lan and wan");
            let sinks = p.sinks.iter().map(|s| ElemId(*s as u32)).collect();
            (ElemId(p.source.expect("an entry") as u32), sinks)
        };
        let ((lan, lan_out), (wan, wan_out)) = (port("lan"), port("wan"));
        let graph = Graph::build(chain.graph, &BuildOptions::default()).expect("the chain builds");
        Self {
            graph,
            sources: [lan, wan],
            sinks: [lan_out, wan_out],
            now: Timestamp::ZERO,
            count: BTreeMap::new(),
            writer: CaptureWriter::create_for(out, LinkType::ETHERNET).expect("a capture"),
            causes: Vec::new(),
            parts: Vec::new(),
            inputs: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Feeds a frame, judges what leaves; gives what leaves at the other side.
    fn feed(
        &mut self,
        way: &str,
        side: usize,
        frame: &[u8],
        ordinary: bool,
        who: &str,
    ) -> Vec<Vec<u8>> {
        self.graph.inject(self.sources[side], frame, self.now);
        let mut out: Vec<(ElemId, Vec<u8>)> = Vec::new();
        self.graph
            .drain_transmitted(|e, p| out.push((e, p.data().to_vec())));
        let c = self.count.entry(way.to_string()).or_default();
        c.fed += 1;
        c.left += out.len();
        let before = judge(frame);
        let whole = reassemble(out.iter().map(|(_, b)| b.as_slice()));
        for (i, bytes) in out.iter().map(|(_, b)| b).chain(&whole).enumerate() {
            let after = judge(bytes);
            c.right += after.right.len();
            for sum in after.wrong {
                if before.excuses(sum) {
                    c.wrong_before += 1;
                } else {
                    self.failures.push(format!(
                        "{way}, {who}: wrong {sum:?} checksum\n  in  {}\n  out {}",
                        hex(frame),
                        hex(bytes)
                    ));
                }
            }
            if i >= out.len() {
                c.reassembled += 1;
                continue;
            }
            // numbered instead of timed: tcpdump cannot print every time that the corpus has
            let number = self.causes.len() as i64;
            self.writer
                .write(number, bytes, bytes.len() as u32)
                .expect("the capture is written");
            self.causes.push(self.inputs.len());
            self.parts.push(part(bytes));
        }
        if !out.is_empty() {
            self.inputs.push(frame.to_vec());
        }
        let other = &self.sinks[1 - side];
        c.ordinary += usize::from(ordinary);
        c.ordinary_left += usize::from(ordinary && out.iter().any(|(_, b)| same_kind(frame, b)));
        out.into_iter()
            .filter(|(e, _)| other.contains(e))
            .map(|(_, b)| b)
            .collect()
    }
}

/// The IPv4 packets of which all fragments are there.
fn reassemble<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut groups: BTreeMap<Vec<u8>, BTreeMap<usize, &[u8]>> = BTreeMap::new();
    for f in frames {
        let Some(ip) = f
            .get(14..)
            .filter(|ip| ip.first().is_some_and(|v| v >> 4 == 4))
        else {
            continue;
        };
        if Layout::of(ip).is_some_and(|l| l.fragment) {
            let offset = (usize::from(ip[6] & 0x1f) * 256 + usize::from(ip[7])) * 8;
            let key = [&f[..14], &ip[4..6], &ip[9..10], &ip[12..20]].concat();
            groups.entry(key).or_default().insert(offset, f);
        }
    }
    let join = |g: BTreeMap<usize, &[u8]>| {
        let mut whole: Vec<u8> = g.get(&0)?.to_vec();
        let header = Layout::of(&whole[14..])?.transport;
        whole.truncate(14 + header);
        let mut last = false;
        for (offset, f) in g {
            let l = Layout::of(&f[14..])?;
            if offset + 14 + header != whole.len() {
                return None;
            }
            whole.extend_from_slice(&f[14 + l.transport..14 + l.end]);
            last = f[20] & 0x20 == 0;
        }
        let len = u16::try_from(whole.len() - 14).ok()?;
        whole[16..18].copy_from_slice(&len.to_be_bytes());
        whole[20..22].copy_from_slice(&[0, 0]);
        whole[24..26].copy_from_slice(&[0, 0]);
        let sum = !common::judge::ones(&[&whole[14..14 + header]]);
        whole[24..26].copy_from_slice(&sum.to_be_bytes());
        last.then_some(whole)
    };
    groups.into_values().filter_map(join).collect()
}

/// Protocol and, of ICMP, type.
fn kind(frame: &[u8]) -> Option<(u8, Option<u8>)> {
    let ip = frame.get(14..)?;
    let l = Layout::of(ip)?;
    let icmp = matches!((l.proto, l.v6), (1, false) | (58, true));
    Some((
        l.proto,
        if icmp {
            ip.get(l.transport).copied()
        } else {
            None
        },
    ))
}

/// The packet itself, not a remark about it.
fn same_kind(a: &[u8], b: &[u8]) -> bool {
    kind(a).is_some() && kind(a) == kind(b)
}

fn part(frame: &[u8]) -> Part {
    match kind(frame) {
        _ if frame
            .get(14..)
            .and_then(Layout::of)
            .is_some_and(|l| l.fragment) =>
        {
            Part::Fragment
        }
        Some((1, Some(3 | 4 | 5 | 11 | 12))) => Part::IcmpError,
        Some((58, Some(0..=127))) => Part::IcmpError,
        _ => Part::Whole,
    }
}

fn hex(b: &[u8]) -> String {
    let shown = b.iter().take(120).map(|x| format!("{x:02x}"));
    shown.collect::<String>() + if b.len() > 120 { "..." } else { "" }
}

/// Feeds the corpus to a chain in one way; the capture of what left, and the rig.
fn run(edge: &Edge, corpus: &Corpus, dir: &Path, way: &str) -> (PathBuf, Rig) {
    let out = dir.join(format!("{way}.pcap"));
    let all = dir.join("all.rules");
    std::fs::write(&all, "allow all\n").expect("a rule file");
    let mut rig = Rig::new(edge, (way != "as is").then_some(all.as_path()), &out);
    for f in &corpus.frames {
        rig.now = rig.now.max(Timestamp(f.ts_ns));
        let who = corpus.files[f.file].to_string_lossy();
        if way == "as is" {
            for side in [0, 1] {
                rig.feed(
                    ["as is, lan", "as is, wan"][side],
                    side,
                    &f.data,
                    false,
                    &who,
                );
            }
            continue;
        }
        let Some((kind, packet)) = adapt::network(&f.data, f.link) else {
            continue;
        };
        let is_ip = kind == 0x0800 || kind == 0x86dd;
        if way == "our MAC" {
            for side in [0, 1] {
                let way = ["our MAC, lan", "our MAC, wan"][side];
                let ordinary =
                    side == 0 && is_ip && (edge.v6 || kind == 0x0800) && adapt::ordinary(packet);
                rig.feed(
                    way,
                    side,
                    &adapt::frame(edge.macs[side], kind, packet),
                    ordinary,
                    &who,
                );
                let c = rig.count.entry(way.to_string()).or_default();
                c.cut += usize::from(is_ip && f.cut);
            }
            continue;
        }
        if !is_ip {
            continue;
        }
        let mut packet = packet.to_vec();
        adapt::source_within(&mut packet, edge.inside4, edge.inside6);
        let ordinary = (edge.v6 || kind == 0x0800) && adapt::ordinary(&packet);
        let left = rig.feed(
            "our addresses, lan",
            0,
            &adapt::frame(edge.macs[0], kind, &packet),
            ordinary,
            &who,
        );
        for q in left {
            // what the chain itself had to say, a fragment: nothing to answer
            let Some(ip) = q
                .get(14..)
                .filter(|ip| judge(&q).wrong.is_empty() && adapt::ordinary(ip))
            else {
                continue;
            };
            for (way, made) in [
                ("answers, wan", adapt::answer(ip)),
                ("errors about them, wan", adapt::error_about(ip)),
            ] {
                if let Some(a) = made {
                    let kind = u16::from_be_bytes([q[12], q[13]]);
                    rig.feed(way, 1, &adapt::frame(edge.macs[1], kind, &a), true, &who);
                }
            }
        }
    }
    let t = rig.graph.totals();
    assert!(t.balanced(), "{}, {way}: not conserved: {t:?}", edge.name);
    (out, rig)
}

/// tcpdump and tshark read what left; what tshark finds wrong was wrong before.
fn other_judges(edge: &Edge, dir: &Path, way: &str, out: &Path, rig: &Rig) {
    if rig.causes.is_empty() {
        return;
    }
    if wireshark::installed("tcpdump") {
        assert_eq!(wireshark::tcpdump(out), rig.causes.len(), "tcpdump, {way}");
    }
    if !wireshark::installed("tshark") {
        return;
    }
    let after = wireshark::tshark(out);
    assert_eq!(after.len(), rig.causes.len(), "tshark, {way}: frames");
    let bad: Vec<usize> = (0..after.len()).filter(|i| after[*i].any()).collect();
    println!(
        "{}, {way}: tshark finds {} of {} frames with a wrong checksum",
        edge.name,
        bad.len(),
        after.len()
    );
    if bad.is_empty() {
        return;
    }
    let causes = dir.join("causes.pcap");
    let mut w = CaptureWriter::create_for(&causes, LinkType::ETHERNET).expect("a capture");
    for i in &bad {
        let frame = &rig.inputs[rig.causes[*i]];
        w.write(0, frame, frame.len() as u32).expect("written");
    }
    w.finish().expect("written");
    let before = wireshark::tshark(&causes);
    assert_eq!(before.len(), bad.len(), "tshark, causes");
    for (i, was) in bad.iter().zip(&before) {
        let worse = after[*i].worse_than(was, rig.parts[*i]);
        assert!(
            !worse,
            "{}, {way}: frame {} of {}: {:?}, {was:?} in what caused it\n  in {}",
            edge.name,
            i + 1,
            out.display(),
            after[*i],
            hex(&rig.inputs[rig.causes[*i]])
        );
    }
}

/// Ways: `as is`, `our MAC`, `our addresses`.
fn judge_edge(edge: &Edge, ways: &[&str]) {
    let Some(corpus) = Corpus::read() else { return };
    let dir = common::temp(&format!("checksums-{}-{}", edge.name, ways[0]));
    for &way in ways {
        let (out, mut rig) = run(edge, corpus, &dir, way);
        for (way, c) in &rig.count {
            println!("{}, {way}: {c:?}", edge.name);
        }
        assert!(
            rig.failures.is_empty(),
            "{}: {} checksum errors that were not there before; the first:\n{}",
            edge.name,
            rig.failures.len(),
            rig.failures[..rig.failures.len().min(5)].join("\n")
        );
        for (way, c) in &rig.count {
            assert!(
                c.ordinary_left * 100 >= c.ordinary * 98,
                "{}, {way}: of {} ordinary packets {} left; {:?}",
                edge.name,
                c.ordinary,
                c.ordinary_left,
                rig.graph.drops()
            );
        }
        let closed = std::mem::replace(
            &mut rig.writer,
            CaptureWriter::create_for(dir.join("closed.pcap"), LinkType::ETHERNET)
                .expect("a capture"),
        );
        closed.finish().expect("the capture is written");
        if way == "our addresses" {
            assert!(
                rig.causes.len() > 20_000,
                "only {} packets left",
                rig.causes.len()
            );
        }
        other_judges(edge, &dir, way, &out, &rig);
    }
}

#[test]
fn isp_edge_adds_no_checksum_error_to_the_corpus() {
    judge_edge(&ISP, &["as is", "our MAC"]);
}

#[test]
fn isp_edge_adds_no_checksum_error_both_ways() {
    judge_edge(&ISP, &["our addresses"]);
}

#[test]
fn ipv6_edge_adds_no_checksum_error_to_the_corpus() {
    judge_edge(&IPV6, &["as is", "our MAC"]);
}

#[test]
fn ipv6_edge_adds_no_checksum_error_both_ways() {
    judge_edge(&IPV6, &["our addresses"]);
}

/// The judge itself: it finds each kind of error, and does not mind what cannot be judged.
#[test]
fn the_judge_sees_every_kind_of_error() {
    let mut ip = vec![
        0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ];
    // RFC 768: port 1 to port 2, no data
    ip.extend_from_slice(&[0, 1, 0, 2, 0, 8, 0, 0]);
    let sum = !common::judge::ones(&[&ip[..20]]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let none = common::judge::judge_ip(&ip);
    assert_eq!((none.right, none.wrong), (vec![Sum::Ip], vec![]));
    // addresses 0x0a00+1+0x0a00+2 = 0x1403, protocol 17, length 8 twice, ports 3: 0x1427, complemented
    ip[26..28].copy_from_slice(&[0xeb, 0xd8]);
    let both = common::judge::judge_ip(&ip);
    assert_eq!((both.right, both.wrong), (vec![Sum::Ip, Sum::Udp], vec![]));
    let error = adapt::error_about(&ip).expect("it can be reported");
    let all = common::judge::judge_ip(&error);
    assert_eq!(
        all.right,
        [Sum::Ip, Sum::Icmp, Sum::QuotedIp, Sum::QuotedTransport]
    );
    for (at, kind) in [
        (8, Sum::Ip),
        (12, Sum::Ip),
        (22, Sum::Icmp),
        (28 + 9, Sum::QuotedIp),
        (28 + 21, Sum::QuotedTransport),
    ] {
        let mut broken = error.clone();
        broken[at] ^= 0x40;
        assert!(
            common::judge::judge_ip(&broken).wrong.contains(&kind),
            "{at}"
        );
    }
    let back = adapt::answer(&ip).expect("it can be answered");
    assert_eq!(common::judge::judge_ip(&back).right, [Sum::Ip, Sum::Udp]);
    adapt::source_within(&mut ip, &[204, 152], &[]);
    assert_eq!(common::judge::judge_ip(&ip).right, [Sum::Ip, Sum::Udp]);
    let mut cut = ip.clone();
    cut.truncate(25);
    assert_eq!(
        common::judge::judge_ip(&cut),
        common::judge::Opinion::default()
    );
}
