//! Frames through two chains, which show that both treat a class of packets differently.

use super::actions::Like;
use super::ask::{LEAST_TTL, MTU};
use super::differ::Compared;
use crate::generate::solve::Maker;
use crate::generate::tables::Tables;
use crate::rng::Rng;
use onefold_element::ElemId;
use onefold_element::model::ValueSet;
use onefold_engine::Graph;
use onefold_packet::Timestamp;
use onefold_synth::Program;
use onefold_synth::program::{Dim, End, Filter, Step};

/// Frames that are tried in all.
const TRIES: usize = 20_000;
/// The same where each needs copies of both chains, as they remember what they have seen.
const FRESH_TRIES: usize = 2_000;
/// Frames that are tried for a part.
pub(super) const FRAMES: usize = 6;

/// Frames through both graphs.
pub(super) struct Trial<'a> {
    old: &'a Compared<'a>,
    new: &'a Compared<'a>,
    maker: Maker,
    rng: Rng,
    /// So many frames may be tried.
    pub(super) tries: usize,
    /// Copies of both for all frames, where nothing is remembered of one.
    copies: Option<[Graph; 2]>,
}

/// Does a chain remember what it has seen: are bindings made, or elements asked?
fn remembers(p: &Program) -> bool {
    let binds = |s: &Step| matches!(s, Step::Bind { .. });
    let mut all = p.stages.iter().flat_map(|s| &s.actions);
    all.any(|a| matches!(a.end, End::Ask { .. }) || a.steps.iter().any(binds))
}

/// When frames arrive.
const AT: Timestamp = Timestamp::from_secs(1_000);

/// What leaves a graph for one frame: ports and bytes, in order.
pub fn leaves(c: &Compared<'_>, port: &str, frame: &[u8]) -> Vec<(String, Vec<u8>)> {
    let Some(source) = c
        .ports
        .iter()
        .find(|p| p.name == port)
        .and_then(|p| p.source)
    else {
        return Vec::new();
    };
    left(&mut c.graph.fork(), c, (source, frame))
}

/// What leaves this copy of a chain's graph.
fn left(
    graph: &mut Graph,
    c: &Compared<'_>,
    (source, frame): (ElemId, &[u8]),
) -> Vec<(String, Vec<u8>)> {
    graph.inject(source, frame, AT);
    let mut out = Vec::new();
    graph.drain_transmitted(|e, p| {
        let port = c.ports.iter().find(|p| p.sinks.contains(&e));
        out.push((
            port.map_or(String::new(), |p| p.name.clone()),
            p.data().to_vec(),
        ));
    });
    out
}

/// Of a set of frames those that are like most, as far as there are such: IP packets that are no fragments and have the
/// whole of a transport header. To connection tracking others are invalid.
fn usual(part: &Filter) -> Filter {
    const LEAST: u128 = 40;
    let says = |bit: i32, bits: u8, v: u128| {
        let set = part.get(Dim::Bits { bit, bits });
        set.is_some_and(|s| s.single() == Some(v))
    };
    let range = ValueSet::range;
    let fields = match (says(96, 16, 0x0800), says(96, 16, 0x86dd)) {
        (true, _) => vec![
            (116, 4, ValueSet::one(5)),
            (128, 16, range(LEAST, MTU)),
            (162, 1, ValueSet::one(0)),
            (163, 13, ValueSet::one(0)),
            (176, 8, range(LEAST_TTL, 255)),
        ],
        (_, true) => vec![
            (144, 16, range(LEAST - 20, MTU - 40)),
            (168, 8, range(LEAST_TTL, 255)),
        ],
        _ => Vec::new(),
    };
    let mut out = part.clone();
    for (bit, bits, set) in fields {
        if let Some(less) = out.and(Dim::Bits { bit, bits }, &set, bits) {
            out = less;
        }
    }
    out
}

impl<'a> Trial<'a> {
    pub(super) fn new(old: &'a Compared<'a>, new: &'a Compared<'a>) -> Trial<'a> {
        let mut maker = Maker::default();
        maker.tables = Tables::of(old.graph, old.program);
        let fresh = remembers(old.program) || remembers(new.program);
        Trial {
            tries: if fresh { FRESH_TRIES } else { TRIES },
            copies: (!fresh).then(|| [old.graph.fork(), new.graph.fork()]),
            old,
            new,
            maker,
            rng: Rng::new(0xd1ff),
        }
    }

    /// Do both treat a frame differently?
    fn differ(&mut self, port: &str, frame: &[u8]) -> bool {
        if let Some([a, b]) = &mut self.copies {
            let source = |c: &Compared<'_>| {
                let p = c.ports.iter().find(|p| p.name == port)?;
                p.source
            };
            let (Some(from), Some(to)) = (source(self.old), source(self.new)) else {
                return false;
            };
            if left(a, self.old, (from, frame)) == left(b, self.new, (to, frame)) {
                return false;
            }
        }
        leaves(self.old, port, frame) != leaves(self.new, port, frame)
    }

    /// A frame of one of these parts that both treat differently; so many are tried of each.
    pub(super) fn show(&mut self, port: &str, parts: &[Filter], each: usize) -> Option<Vec<u8>> {
        for part in parts {
            let usual = usual(part);
            for i in 0..each {
                let part = if i % 2 == 0 { &usual } else { part };
                let made = match i {
                    0 | 1 => self.maker.frame(part, &mut self.rng),
                    _ => self.maker.random_frame(part, &mut self.rng),
                };
                let Some(frame) = made else { continue };
                if self.tries == 0 {
                    return None;
                }
                self.tries -= 1;
                if self.differ(port, &frame) {
                    return Some(frame);
                }
            }
        }
        None
    }

    /// What differs for a frame.
    pub(super) fn what(&self, port: &str, frame: &[u8]) -> Like {
        let (a, b) = (leaves(self.old, port, frame), leaves(self.new, port, frame));
        let ports = |l: &[(String, Vec<u8>)]| l.iter().map(|x| x.0.clone()).collect::<Vec<_>>();
        match a.is_empty() != b.is_empty() {
            true => Like::Verdict,
            false if ports(&a) != ports(&b) => Like::Port,
            false => Like::Rewriting,
        }
    }
}
