//! What the analysis must be told of a chain, beyond its program.

use onefold_elements::ElemId;
use onefold_elements::GraphSpec;
use onefold_synth::program::{End, Program};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Elements whose packets the reference graph takes over with addresses and ports as the program's have there: what they
/// punt are options, lengths, fragments and times to live.
const PLAIN: &[&str] = &[
    "CheckIPHeader",
    "CheckIPHeader2",
    "CheckTCPHeader",
    "CheckUDPHeader",
    "CheckICMPHeader",
    "CheckIP6Header",
    "MarkIPHeader",
    "MarkEtherHeader",
    "Strip",
    "StripEtherVLANHeader",
    "Unstrip",
    "EtherEncap",
    "VLANEncap",
    "VLANDecap",
    "IPFragmenter",
    "DecIPTTL",
    "DecIP6HLIM",
    "GetIPAddress",
    "IPFilter",
    "IPClassifier",
    "Classifier",
    "RadixIPLookup",
    "LinearIPLookup",
    "StaticIPLookup",
    "DirectIPLookup",
    "RangeIPLookup",
    "SortedIPLookup",
    "LookupIP6Route",
    "IPRewriter",
    "TCPRewriter",
    "UDPRewriter",
    "IPAddrRewriter",
    "IPAddrPairRewriter",
    "ICMPPingRewriter",
    "ARPQuerier",
    "Counter",
    "CheckPaint",
    "Paint",
];

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
    /// Where replies leave, by rewriter and input at which their flows began; anywhere, where that is not told.
    pub replies: BTreeMap<(ElemId, u16), BTreeSet<u16>>,
}

impl Facts {
    /// Those of a chain.
    pub fn of(spec: &GraphSpec, p: &Program) -> Facts {
        Facts {
            loose: loose(spec, p),
            replies: replies(spec),
        }
    }
}

/// The last word of an input specification is the reply output; a mapper's patterns have their own.
fn replies(spec: &GraphSpec) -> BTreeMap<(ElemId, u16), BTreeSet<u16>> {
    let last = |text: &str| text.split_whitespace().next_back()?.parse::<u16>().ok();
    let mut all = BTreeMap::new();
    for (i, e) in spec.elements.iter().enumerate() {
        if !REWRITERS.contains(&e.class.as_str()) {
            continue;
        }
        // inputs' specifications come first
        for (port, arg) in e.args.iter().enumerate() {
            let words: Vec<&str> = arg.split_whitespace().collect();
            let outputs: Option<BTreeSet<u16>> = match words[..] {
                ["pattern" | "keep", ..] => last(arg).map(|o| BTreeSet::from([o])),
                [name] => {
                    let scope = e.name.rsplit_once('/').map_or("", |(s, _)| s);
                    let full = format!("{scope}/{name}");
                    let mapper = spec.elements.iter().find(|m| m.name == full);
                    mapper.and_then(|m| m.args.iter().map(|a| last(a)).collect())
                }
                _ => None,
            };
            if let (Some(o), Ok(port)) = (outputs, u16::try_from(port)) {
                all.insert((ElemId(i as u32), port), o);
            }
        }
    }
    all
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
    let mut doubtful: VecDeque<usize> = VecDeque::new();
    while let Some(e) = queue.pop_front() {
        if !PLAIN.contains(&class(e)) && !is_far(spec, e) {
            doubtful.push_back(e);
        }
        for n in next.get(e).into_iter().flatten() {
            if seen.insert(*n) {
                queue.push_back(*n);
            }
        }
    }
    let mut from: BTreeSet<usize> = doubtful.iter().copied().collect();
    while let Some(e) = doubtful.pop_front() {
        if rewriters.contains(&e) {
            out.insert(ElemId(e as u32));
        }
        for n in next.get(e).into_iter().flatten() {
            if from.insert(*n) {
                doubtful.push_back(*n);
            }
        }
    }
    out
}

/// Elements that only pass packets on, or end their way.
fn is_far(spec: &GraphSpec, e: usize) -> bool {
    const PASS: &[&str] = &[
        "ToDevice",
        "Discard",
        "Queue",
        "Unqueue",
        "NFLink",
        "Null",
        "FromDevice",
        "Tee",
        "EtherRewrite",
    ];
    spec.elements
        .get(e)
        .is_some_and(|e| PASS.contains(&e.class.as_str()))
}
