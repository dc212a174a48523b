//! What the analysis must be told of a chain, beyond its program.

use onefold_element::{ElemId, GraphSpec};
use onefold_synth::program::{End, Program};
use std::collections::{BTreeSet, VecDeque};

/// Elements whose packets the reference graph takes over with addresses and ports as the program's have there: what
/// they punt are options, lengths, fragments and times to live; and those that only pass packets on, or end their
/// way. Not among them are elements that punt every packet (`ARPQuerier`, `Queue`): the program has nothing behind
/// them to go by.
#[rustfmt::skip]
const PLAIN: &[&str] = &[
    "CheckICMPHeader", "CheckIP6Header", "CheckIPHeader", "CheckIPHeader2", "CheckLength", "CheckPaint",
    "CheckTCPHeader", "CheckUDPHeader", "Classifier", "ConnConfirm", "ConnTrack", "Counter", "DecIP6HLIM",
    "DecIPTTL", "DirectIPLookup", "Discard", "DropBroadcasts", "EtherEncap", "EtherRewrite", "FlowMonitor",
    "FromDevice", "GetIP6Address", "GetIPAddress", "HostEtherFilter", "IP6Filter", "IP6PrefixTranslate",
    "IPClassifier", "IPFilter",
    "IPFragmenter", "IPGWOptions", "LinearIPLookup", "LookupIP6Route", "MarkEtherHeader", "MarkIPHeader", "NFLink",
    "Null", "Paint", "PaintSwitch", "PaintTee", "PayloadFilter", "RadixIPLookup", "RangeIPLookup", "RateCheck",
    "RatedSplitter", "SortedIPLookup", "StaticIPLookup", "Strip", "StripEtherVLANHeader", "Tee", "ToDevice", "Unstrip",
    "VLANDecap", "VLANEncap",
    "ICMPPingRewriter", "IPAddrPairRewriter", "IPAddrRewriter", "IPRewriter", "TCPRewriter", "UDPRewriter",
];

/// Elements whose own packets, or those that they make into others, are ICMP errors, echo replies or ARP: only
/// rewriters of addresses make bindings of them.
#[rustfmt::skip]
const NO_FLOWS: &[&str] = &[
    "ARPResponder", "FixIPSrc", "ICMP6Error", "ICMP6PingResponder", "ICMPError", "ICMPPingResponder", "ICMPRewriter",
    "IP6NDAdvertiser",
];

/// Rewriters that know no protocols. Packets of protocols other than TCP and UDP are punted there, all of them.
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
    /// Rewriters that packets can come to which the reference graph has taken over, from wherever.
    pub punted: BTreeSet<ElemId>,
}

impl Facts {
    /// Those of a chain.
    pub fn of(spec: &GraphSpec, p: &Program) -> Facts {
        let next = successors(spec);
        let punted = punted(&next, p);
        let class = |e: &usize| spec.elements.get(*e).map_or("", |e| e.class.as_str());
        let rewriters = punted.iter().filter(|e| REWRITERS.contains(&class(e)));
        Facts {
            punted: rewriters.map(|e| ElemId(*e as u32)).collect(),
            loose: loose(spec, p, &next, &punted),
        }
    }
}

/// Where each element's outputs lead.
fn successors(spec: &GraphSpec) -> Vec<Vec<usize>> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); spec.elements.len()];
    for c in &spec.connections {
        if let Some(l) = next.get_mut(c.from.0) {
            l.push(c.to.0);
        }
    }
    next
}

/// Elements from which the reference graph takes packets over.
fn punts(p: &Program) -> BTreeSet<usize> {
    let actions = p.stages.iter().flat_map(|s| &s.actions);
    let at = actions.filter_map(|a| match &a.end {
        End::Punt { elem, .. } => Some(elem.0 as usize),
        _ => None,
    });
    at.collect()
}

/// These elements, and all that come behind them.
fn behind(next: &[Vec<usize>], from: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    let mut queue: VecDeque<usize> = from.into_iter().collect();
    let mut seen: BTreeSet<usize> = queue.iter().copied().collect();
    while let Some(e) = queue.pop_front() {
        for n in next.get(e).into_iter().flatten() {
            if seen.insert(*n) {
                queue.push_back(*n);
            }
        }
    }
    seen
}

/// Elements that such packets can come to.
fn punted(next: &[Vec<usize>], p: &Program) -> BTreeSet<usize> {
    behind(next, punts(p))
}

/// Rewriters at which flows may begin that no packet of the program begins: their table is another's, too, somebody
/// else makes bindings there, or packets come there from elements that may make them into others.
fn loose(
    spec: &GraphSpec,
    p: &Program,
    next: &[Vec<usize>],
    punted: &BTreeSet<usize>,
) -> BTreeSet<ElemId> {
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
    let of_addresses = |e: &usize| OF_ADDRESSES.contains(&class(*e));
    let no_flows = |e: &usize| NO_FLOWS.contains(&class(*e));
    let anything = |e: &usize| !no_flows(e) && !PLAIN.contains(&class(*e));
    let all = behind(next, punted.iter().copied().filter(anything));
    let some = behind(next, punted.iter().copied().filter(no_flows));
    // and where those of other protocols can come, of which no rewriter of addresses lets the program have any
    let at = punts(p).into_iter().filter(of_addresses);
    let protocols = behind(
        next,
        at.flat_map(|e| next.get(e).cloned().unwrap_or_default()),
    );
    for e in &rewriters {
        let others = class(*e) == "ICMPPingRewriter" || of_addresses(e);
        if all.contains(e) || of_addresses(e) && some.contains(e) || others && protocols.contains(e)
        {
            out.insert(ElemId(*e as u32));
        }
    }
    out
}
