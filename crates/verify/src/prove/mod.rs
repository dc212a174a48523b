//! Symbolic equivalence: a program against the composition of the models along the reference graph, for all packets
//! at once.
//!
//! [`prove`] takes a program (however it was made: usually parsed from its text) and the models and wiring of a
//! graph. It shares nothing with the synthesizer but the models and the program's data structure. For every entry it
//! follows both sides by functions of the packet's bits ([`dd`]): the program stage by stage, the models element by
//! element, split wherever one of them decides. At every place where something happens both must have the same
//! packet: what leaves and where, drops and their reasons, counts and their lengths, bindings asked for, elements
//! asked, packets handed over to the reference graph.
//!
//! What a proof rests on:
//! - the models say what elements do (tests hold them against the behaviour);
//! - a binding changes checksums by the difference that its rewriting makes;
//! - [`onefold_engine::program`] executes a program as its grammar says.
//!
//! Where both have another checksum when an epoch ends, that counts if anything comes of it: the next epochs are
//! followed with two values for it, and what is dropped with it shows nothing.
//!
//! Values that only run time knows (bindings) are unknowns that both sides name alike. Questions about whole headers
//! (is the checksum right?) are unknowns, too. Every set of packets is at least as big as the true one: nothing is
//! left out, and what differs only for packets that there cannot be is not proved.
//!
//! - [`sum`]: checksums in ones'-complement arithmetic;
//! - [`settle`]: differences where no packet comes, or nobody looks;
//! - [`witness`]: from a set of packets to a frame that shows the difference.

mod bits;
mod carry;
mod chase;
pub mod dd;
mod element;
mod first;
mod image;
mod lists;
pub mod mutate;
mod outlast;
mod packet;
mod possible;
mod search;
pub mod seek;
pub mod settle;
pub mod sum;
mod unsaid;
mod vars;
pub mod witness;

use dd::{Dd, NO, Ref, Stop, YES};
use onefold_element::ElemId;
use onefold_element::model::{Case, ValueSet};
use onefold_synth::program::{EndAt, StageId};
use onefold_synth::{Input, Program};
use packet::{Facts, World};
use search::{Search, Told};
use seek::Seek;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use vars::{Bit, Vars};

/// Bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Longest time; without, as long as it takes.
    pub time_limit: Option<Duration>,
    /// Most nodes of decision diagrams for one entry, and what is remembered while they are made (30 to 65 bytes
    /// each).
    pub nodes: usize,
    /// Most steps of symbolic packets through elements, for one entry.
    pub steps: u64,
    /// Most differences for which frames are looked for.
    pub differences: usize,
    /// Lists of at least so many cases are compared with the program's rule by rule; where that does not prove them
    /// equal, both are made diagrams.
    pub long: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            time_limit: Some(Duration::from_secs(60)),
            nodes: 40_000_000,
            steps: 5_000_000,
            differences: 8,
            long: 128,
        }
    }
}

/// Places that are looked at for each difference.
const SEEKS: usize = 6;

/// Shares of the header space: of all values of the bits that anything reads (frames of up to 2047 bytes, each answer
/// of each question), averaged over the entries.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Share {
    /// The program does the same.
    pub proved: f64,
    /// The program does the same by handing over to the reference graph before anything else is known of the packet.
    pub punted: f64,
    /// The program differs, as far as the proof can see.
    pub different: f64,
    /// Not known.
    pub unknown: f64,
    /// No other share is wrong by more than that. Zero: they are exact.
    pub within: f64,
}

impl Share {
    /// Shares that were not counted, as "not a number". If everything was proved, nothing is different or unknown all
    /// the same.
    fn uncounted(same: bool) -> Share {
        let none = if same { 0.0 } else { f64::NAN };
        Share {
            proved: f64::NAN,
            punted: f64::NAN,
            different: none,
            unknown: none,
            within: 0.0,
        }
    }
}

/// Something that was not shown to be the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Packets that enter here.
    pub source: ElemId,
    /// The program's stage.
    pub stage: StageId,
    /// Its action.
    pub action: Option<u32>,
    /// Where in the reference graph.
    pub elem: ElemId,
    /// In words.
    pub what: String,
    /// It shows with a packet alone, before anything is written out or asked.
    pub first_epoch: bool,
    /// Frames that may show it.
    pub frames: Vec<Vec<u8>>,
    /// A frame that is one of the packets for which program and models contradict each other.
    pub certain: Option<Vec<u8>>,
    /// Where else to look for packets that show it.
    pub seeks: Vec<Seek>,
    /// Only checksums differ, where a rewriter is asked: it shows if the packet is handed over to the rewriter, and
    /// only then.
    pub unless_bound: bool,
}

/// What came of one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct EntryProof {
    /// Its source.
    pub source: ElemId,
    /// Shares of its header space.
    pub share: Share,
    /// The program has no stage for it: packets take the reference graph.
    pub reference: bool,
    /// Epochs, told apart by what is known of the packet.
    pub epochs: usize,
    /// Steps of symbolic packets through elements.
    pub steps: u64,
    /// Nodes of decision diagrams.
    pub nodes: usize,
    /// Why it was given up.
    pub stopped: Option<String>,
}

/// What came of a proof.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Proof {
    /// By entry.
    pub entries: Vec<EntryProof>,
    /// What differs; some packets of it may not exist.
    pub different: Vec<Doubt>,
    /// What could not be said.
    pub unknown: Vec<Doubt>,
    /// Stages of the program that no packet comes to.
    pub unreached: Vec<StageId>,
    /// Shares, averaged.
    pub share: Share,
    /// Seconds.
    pub seconds: f64,
}

impl Proof {
    /// Is everything the same?
    pub fn holds(&self) -> bool {
        self.different.is_empty()
            && self.unknown.is_empty()
            && self.entries.iter().all(|e| e.stopped.is_none())
    }
    /// Why it was given up, if it was.
    pub fn stopped(&self) -> Option<&str> {
        self.entries.iter().find_map(|e| e.stopped.as_deref())
    }
}

/// What becomes of packets that the model of an element's input hands over ([`onefold_engine::Graph::finer_model`]).
pub type Finer<'a> = dyn Fn(ElemId, u16) -> Option<Vec<Case>> + 'a;

/// Proves that a program does what the models of a graph do, or says where not.
pub fn prove(input: &Input, program: &Program, options: &Options) -> Proof {
    prove_with(input, program, options, &|_, _| None)
}

/// The same, with what elements say beyond their models: asked where a program goes on and a model hands over.
pub fn prove_with(input: &Input, program: &Program, options: &Options, finer: &Finer<'_>) -> Proof {
    let begun = Instant::now();
    let deadline = options.time_limit.map(|t| begun + t);
    let mut proof = Proof {
        unreached: (0..program.stages.len() as u32).map(StageId).collect(),
        ..Proof::default()
    };
    let names = || input.elements.iter().map(|e| &e.name);
    let foreign = !program.elements.iter().eq(names());
    for source in &input.sources {
        let entry = program.entries.iter().find(|e| e.source == *source);
        let e = match entry {
            Some(_) if foreign => EntryProof {
                stopped: Some("the program is one for another graph".to_string()),
                ..nothing(*source)
            },
            Some(e) => one_entry(
                (input, program, finer),
                *source,
                e.stage,
                options,
                deadline,
                &mut proof,
            ),
            None => EntryProof {
                share: Share {
                    punted: 1.0,
                    ..Share::default()
                },
                reference: true,
                ..nothing(*source)
            },
        };
        proof.entries.push(e);
    }
    let n = proof.entries.len().max(1) as f64;
    let mean = |f: fn(&Share) -> f64| proof.entries.iter().map(|e| f(&e.share)).sum::<f64>() / n;
    proof.share = Share {
        proved: mean(|s| s.proved),
        punted: mean(|s| s.punted),
        different: mean(|s| s.different),
        unknown: mean(|s| s.unknown),
        within: mean(|s| s.within),
    };
    proof.seconds = begun.elapsed().as_secs_f64();
    proof
}

/// An entry of which nothing is known.
fn nothing(source: ElemId) -> EntryProof {
    EntryProof {
        source,
        share: Share {
            unknown: 1.0,
            ..Share::default()
        },
        reference: false,
        epochs: 0,
        steps: 0,
        nodes: 0,
        stopped: None,
    }
}

/// The result of one attempt to prove an entry.
struct Attempt {
    entry: EntryProof,
    different: Vec<Doubt>,
    unknown: Vec<Doubt>,
    visited: BTreeSet<StageId>,
}

impl Attempt {
    fn holds(&self) -> bool {
        self.entry.stopped.is_none() && self.different.is_empty() && self.unknown.is_empty()
    }
}

fn one_entry(
    of: (&Input, &Program, &Finer<'_>),
    source: ElemId,
    stage: StageId,
    options: &Options,
    deadline: Option<Instant>,
    proof: &mut Proof,
) -> EntryProof {
    let (mut a, listed) = attempt(of, source, stage, options, deadline);
    let shown = a.different.iter().any(|d| d.certain.is_some());
    if listed && !a.holds() && !shown {
        // differences may be due to cases that cannot decide about the packets: with diagrams there are none of those
        let plain = Options {
            long: usize::MAX,
            ..*options
        };
        let (b, _) = attempt(of, source, stage, &plain, deadline);
        if b.entry.stopped.is_none() || a.entry.stopped.is_some() {
            a = b;
        }
    }
    proof.unreached.retain(|id| !a.visited.contains(id));
    proof.different.extend(a.different);
    proof.unknown.extend(a.unknown);
    a.entry
}

/// Tries to prove an entry. Also says whether lists were compared rule by rule.
fn attempt(
    (input, program, finer): (&Input, &Program, &Finer<'_>),
    source: ElemId,
    stage: StageId,
    options: &Options,
    deadline: Option<Instant>,
) -> (Attempt, bool) {
    let w = World {
        dd: Dd::new(options.nodes, deadline),
        vars: Vars::default(),
        facts: Facts::entry(),
    };
    let mut s = Search::new(input, program, finer, w, options);
    let whole = s.entry(source, stage);
    let stopped = match s.w.dd.stopped() {
        Some(Stop::Nodes) => Some(format!(
            "more than {} nodes of decision diagrams",
            options.nodes
        )),
        Some(Stop::Time) => Some("the time limit".to_string()),
        None if s.exhausted => Some(format!("more than {} steps", options.steps)),
        None => None,
    };
    let mut e = EntryProof {
        epochs: s.meetings.len(),
        steps: s.steps,
        nodes: s.w.dd.nodes(),
        stopped,
        ..nothing(source)
    };
    let mut a = Attempt {
        different: Vec::new(),
        unknown: Vec::new(),
        visited: std::mem::take(&mut s.visited),
        entry: e.clone(),
    };
    let listed = !s.compared.is_empty();
    if !whole {
        return (a, listed);
    }
    e.share = share(&mut s);
    let doubts = |s: &mut Search<'_>, list: Vec<Told>, frames: usize| -> Vec<Doubt> {
        let mut out: Vec<Doubt> = Vec::new();
        let (mut made, mut sought) = (0, 0);
        for mut t in list {
            let like = |d: &&mut Doubt| {
                let same = d.stage == t.stage && d.elem == t.elem && d.what == t.what;
                same && d.source == source && d.unless_bound == t.unless_bound
            };
            if let Some(m) = s.meetings.get(t.meeting) {
                s.w.facts = m.facts.clone();
            }
            if made < frames || sought < frames * SEEKS {
                // only packets about which a case of the assumed kind really decides
                t.here = s.concrete(t.here);
            }
            let seek = match sought < frames * SEEKS && t.here != NO {
                true => {
                    t.here = s.w.possible(t.here);
                    Some(seek::seek(&mut s.w, &t))
                }
                false => None,
            };
            sought += 1;
            s.w.facts = Facts::entry();
            let region = match t.meeting {
                0 => t.here,
                m => leads_to(s, m),
            };
            let region = match made < frames {
                true => s.concrete(region),
                false => region,
            };
            let found = match made < frames && region != NO {
                true => witness::frames(&mut s.w, region),
                false => Vec::new(),
            };
            made += usize::from(!found.is_empty());
            let certain = match t.meeting == 0 && t.plain {
                true => found
                    .iter()
                    .find(|f| witness::is_one(&mut s.w, t.here, f))
                    .cloned(),
                false => None,
            };
            if let Some(d) = out.iter_mut().find(like) {
                d.frames.extend(found);
                d.first_epoch |= t.meeting == 0;
                d.certain = d.certain.take().or(certain);
                d.seeks.extend(seek.filter(|_| d.seeks.len() < SEEKS));
                continue;
            }
            out.push(Doubt {
                source,
                stage: t.stage,
                action: t.action,
                elem: t.elem,
                what: t.what,
                first_epoch: t.meeting == 0,
                frames: found,
                certain,
                seeks: seek.into_iter().collect(),
                unless_bound: t.unless_bound,
            });
        }
        out
    };
    let (different, unknown) = (
        std::mem::take(&mut s.different),
        std::mem::take(&mut s.unknown),
    );
    a.different = doubts(&mut s, different, options.differences);
    a.unknown = doubts(&mut s, unknown, options.differences);
    // looking for frames may have met a bound; what was found before stays true
    a.entry = e;
    (a, listed)
}

/// Packets that enter and may come to a meeting.
fn leads_to(s: &mut Search<'_>, to: usize) -> Ref {
    // the first step of the way that was found first
    let mut at = to;
    for _ in 0..s.meetings.len() {
        match s.meetings.get(at).and_then(|m| m.from) {
            Some(0) => {
                let first = s.meetings.first();
                return first.and_then(|m| m.next.get(&at)).copied().unwrap_or(NO);
            }
            Some(from) => at = from,
            None => return NO,
        }
    }
    NO
}

fn share(s: &mut Search<'_>) -> Share {
    let n = s.meetings.len();
    // what is not the same behind a meeting counts for the packets that lead there
    let (mut different, mut unknown) = (vec![false; n], vec![false; n]);
    for (i, m) in s.meetings.iter().enumerate() {
        different[i] = m.different != NO;
        unknown[i] = m.unknown != NO;
    }
    // Bound: every round marks another meeting.
    loop {
        let mut more = false;
        for (i, m) in s.meetings.iter().enumerate() {
            for to in m.next.keys() {
                for marks in [&mut different, &mut unknown] {
                    if marks.get(*to) == Some(&true) && !marks[i] {
                        marks[i] = true;
                        more = true;
                    }
                }
            }
        }
        if !more {
            break;
        }
    }
    let Some(first) = s.meetings.first() else {
        return Share::default();
    };
    let (mut d, mut u, p) = (first.different, first.unknown, first.punted);
    let next: Vec<(usize, Ref)> = first.next.iter().map(|(i, f)| (*i, *f)).collect();
    for (to, here) in next {
        if different.get(to) == Some(&true) {
            d = s.w.dd.or(d, here);
        }
        if unknown.get(to) == Some(&true) {
            u = s.w.dd.or(u, here);
        }
    }
    let w = &mut s.w;
    w.facts = Facts::entry();
    let Some(([d, u, p], within)) = lists::measure::settle(w, &s.compared, [d, u, p]) else {
        return Share::uncounted(d == NO && u == NO);
    };
    let short = w.length_in(0, EndAt::Same, &ValueSet::range(0, 2047));
    let of = w.dd.share(short);
    let mut without = YES;
    let mut part = |w: &mut World, f: Ref| {
        let bound: BTreeSet<u32> = (w.dd.support(f).into_iter())
            .filter(|l| matches!(w.vars.bit(*l), Some(Bit::Bound(..))))
            .collect();
        let f = w.dd.exists(f, &bound);
        let f = w.dd.and(f, short);
        let mine = w.dd.and(f, without);
        without = w.dd.minus(without, f);
        w.dd.share(mine) / of
    };
    let different = part(w, d);
    let unknown = part(w, u);
    let punted = part(w, p);
    let proved = part(w, YES);
    Share {
        proved,
        punted,
        different,
        unknown,
        within,
    }
}
