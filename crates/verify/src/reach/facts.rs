//! What the analysis must be told of a chain, beyond its program.

use onefold_elements::ElemId;
use onefold_elements::GraphSpec;
use onefold_synth::program::{End, Program};
use std::collections::{BTreeSet, VecDeque};

/// Elements whose packets the reference graph takes over with addresses and ports as the program's have there: what they
/// punt are options, lengths, fragments and times to live; and those that only pass packets on, or end their way.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "ARPQuerier", "CheckICMPHeader", "CheckIP6Header", "CheckIPHeader", "CheckIPHeader2", "CheckLength", "CheckPaint",
    "CheckTCPHeader", "CheckUDPHeader", "Classifier", "Counter", "DecIP6HLIM", "DecIPTTL", "DirectIPLookup", "Discard",
    "DropBroadcasts", "EtherEncap", "EtherRewrite", "FlowMonitor", "FromDevice", "GetIP6Address", "GetIPAddress",
    "HostEtherFilter", "IP6Filter", "IPClassifier", "IPFilter", "IPFragmenter", "IPGWOptions", "LinearIPLookup",
    "LookupIP6Route", "MarkEtherHeader", "MarkIPHeader", "NFLink", "Null", "Paint", "PaintSwitch", "PaintTee",
    "PayloadFilter", "Queue", "RadixIPLookup", "RangeIPLookup", "RatedSplitter", "SortedIPLookup", "StaticIPLookup",
    "Strip", "StripEtherVLANHeader", "Tee", "ToDevice", "Unqueue", "Unstrip", "VLANDecap", "VLANEncap",
    "ICMPPingRewriter", "IPAddrPairRewriter", "IPAddrRewriter", "IPRewriter", "TCPRewriter", "UDPRewriter",
];

/// Elements whose own packets, or those that they make into others, are ICMP errors, echo replies or ARP: only rewriters of
/// addresses make bindings of them.
#[rustfmt::skip]
const NO_FLOWS: &[&str] = &[
    "ARPResponder", "FixIPSrc", "ICMP6Error", "ICMP6PingResponder", "ICMPError", "ICMPPingResponder", "ICMPRewriter",
    "IP6NDAdvertiser",
];

/// Rewriters that know no protocols.
const OF_ADDRESSES: &[&str] = &["IPAddrRewriter", "IPAddrPairRewriter"];

/// Classes of rewriters.
const REWRITERS: &[&str] = &[
    "IPRewriter",
    "TCPRewriter",
    "UDPRewriter",
    "IPAddrRewriter",
    "IPAddrPairRewriter",
    "ICMPPingRewriter",
];

/// What is known of a chain beyond its program.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Rewriters at which others than the program's packets may begin flows.
    pub loose: BTreeSet<ElemId>,
}

impl Facts {
    /// Those of a chain.
    pub fn of(spec: &GraphSpec, p: &Program) -> Facts {
        Facts {
            loose: loose(spec, p),
        }
    }
}

/// Rewriters at which flows may begin that no packet of the program begins: their table is another's, too, somebody else
/// makes bindings there, or packets come there from elements that may make them into others.
fn loose(spec: &GraphSpec, p: &Program) -> BTreeSet<ElemId> {
    let class = |i: usize| spec.elements.get(i).map_or("", |e| e.class.as_str());
    let rewriters: Vec<usize> = (0..spec.elements.len())
        .filter(|i| REWRITERS.contains(&class(*i)))
        .collect();
    let mut out = BTreeSet::new();
    for r in &rewriters {
        let name = spec.elements.get(*r).map_or("", |e| e.name.as_str());
        let local = name.rsplit('/').next().unwrap_or(name);
        for (i, e) in spec.elements.iter().enumerate() {
            // errors and mappers make no flows
            if i == *r || e.class == "ICMPRewriter" {
                continue;
            }
            let named = |a: &String| {
                a.split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | '.'))
                    .any(|w| w == local || w == name)
            };
            if e.args.iter().any(named) {
                out.insert(ElemId(*r as u32));
                if REWRITERS.contains(&e.class.as_str()) {
                    out.insert(ElemId(i as u32));
                }
            }
        }
    }
    // where packets that the reference graph takes over can come from elements that are not plain
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); spec.elements.len()];
    for c in &spec.connections {
        if let Some(l) = next.get_mut(c.from.0) {
            l.push(c.to.0);
        }
    }
    let mut seen: BTreeSet<usize> = BTreeSet::new();
    let mut queue: VecDeque<usize> = VecDeque::new();
    for s in &p.stages {
        for a in &s.actions {
            if let End::Punt { elem, .. } = &a.end
                && seen.insert(elem.0 as usize)
            {
                queue.push_back(elem.0 as usize);
            }
        }
    }
    // doubtful for all rewriters, and for those of addresses
    let mut doubtful: [VecDeque<usize>; 2] = Default::default();
    while let Some(e) = queue.pop_front() {
        if NO_FLOWS.contains(&class(e)) {
            doubtful[1].push_back(e);
        } else if !PLAIN.contains(&class(e)) {
            doubtful[0].push_back(e);
        }
        for n in next.get(e).into_iter().flatten() {
            if seen.insert(*n) {
                queue.push_back(*n);
            }
        }
    }
    for (all, mut queue) in [true, false].into_iter().zip(doubtful) {
        let mut from: BTreeSet<usize> = queue.iter().copied().collect();
        while let Some(e) = queue.pop_front() {
            if rewriters.contains(&e) && (all || OF_ADDRESSES.contains(&class(e))) {
                out.insert(ElemId(e as u32));
            }
            for n in next.get(e).into_iter().flatten() {
                if from.insert(*n) {
                    queue.push_back(*n);
                }
            }
        }
    }
    out
}
