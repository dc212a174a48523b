//! The first rule that fits, for a batch of packets.
//!
//! A stage's rules have much in common: a length, an Ethernet type, a good IP header. So they are looked at through a few
//! *views*. A view has a [`guard`], a handful of tests on a packet's bytes, and behind it a structure of `onefold-classify` over
//! what the rules that are left still ask ([`inner`]): often a few rules about one field. Keys are taken out of the packets of a
//! batch as structure of arrays ([`columns`]).
//!
//! Where sixteen packets in a row pass the first guard, it is asked of all of them together, and so are the words of their keys ([`rows`]).
//!
//! Every view is exact for the packets that pass its guard, whatever the guard is; guards are chosen so that ordinary packets
//! pass the first one ([`choose`], [`probes`]). The last view has no guard where a structure takes all rules; where none does, the
//! tree ([`crate::program::lookup::tree`]) takes what is left, which is also what the answers are tested against.
//!
//! Views are made when they are first needed. Bounds: [`VIEWS`] of them; entries and bytes of [`inner`].

pub(crate) mod cells;
pub(crate) mod choose;
pub(crate) mod columns;
pub(crate) mod gaps;
pub(crate) mod guard;
pub(crate) mod inner;
pub(crate) mod left_rules;
pub(crate) mod probes;
pub(crate) mod report;
pub(crate) mod rules;
pub(crate) mod tree;
pub(crate) mod using;

#[cfg(test)]
mod tests;

pub use crate::program::lookup::report::{StageReport, ViewReport};

pub(crate) use crate::program::lookup::columns::Scratch;
pub(crate) use crate::program::lookup::rules::StageRules;

use crate::program::headers::registers::{Regs, Source};
use crate::program::headers::rows::{ROW, Row};
use crate::program::lookup::choose::{Chooser, compile};
use crate::program::lookup::columns::{MOST, STRIDE};
use crate::program::lookup::guard::Guard;
use crate::program::lookup::inner::Find;
use crate::program::lookup::left_rules::Inner;
use crate::program::lookup::tree::{Classifier, NO_RULE, StageIndex};
use crate::program::lookup::using::{Structures, Using};
use crate::simd::dispatch::{Work, widely};
use onefold_classify::{Keys, Kind, MAX_WORDS};
use onefold_element::model::ValueSet;
use onefold_packet::Packet;
use onefold_synth::program::{Dim, Filter};
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

/// Views with a guard, at most.
const VIEWS: usize = 3;
/// Guards that fewer ordinary packets would pass are not worth it.
const SELDOM: f64 = 0.02;
/// The same for stages with many rules: all others come to the tree, which may take as long there as a hundred look-ups.
const SELDOM_LARGE: f64 = 0.0005;
/// Keys that structures look up at once, at least.
const VECTOR: usize = 16;
/// Stages with more rules have guarded views only, and the tree for the rest.
const LARGE: usize = 16_384;

/// Rules as they are behind a guard.
#[derive(Debug)]
struct View {
    guard: Option<Guard>,
    find: Find,
    /// Bytes that packets must have to be taken sixteen at a time; `None` where that cannot be.
    reach: Option<u32>,
}

impl View {
    fn new(guard: Option<Guard>, find: Find) -> View {
        let asked = guard.as_ref().map_or(Some(0), Guard::reach);
        let read = match &find {
            Find::Always(_) => Some(0),
            Find::By(c, _) => c.reach(),
        };
        View {
            guard,
            find,
            reach: asked.zip(read).map(|(a, b)| a.max(b)),
        }
    }

    /// [`View::take`] of sixteen packets, the first of which has this number. False, and nothing has happened, where they are to be taken one by one.
    #[inline(always)]
    fn take_row<P: Deref<Target = Packet>>(
        &self,
        first: u16,
        packets: &[P; ROW],
        s: &mut Scratch,
    ) -> bool {
        let row = self.reach.and_then(|reach| Row::of(packets, reach));
        let Some(row) = row else { return false };
        if self.guard.as_ref().is_some_and(|g| !g.pass(&row)) {
            return false;
        }
        if let (Find::By(c, _), Some(to)) = (&self.find, s.keys.get_mut(s.at.len()..)) {
            c.fill_row(&row, to, STRIDE);
        }
        s.at.push_row(first);
        true
    }

    /// Makes the key of a packet that passes the guard; others are left.
    #[inline(always)]
    fn take(&self, i: u16, p: &Packet, regs: &Regs, s: &mut Scratch) {
        let (buf, head) = (p.buffer(), p.data_offset());
        if let Some(g) = &self.guard
            && !g.passes(p, buf, head, regs)
        {
            s.left.push(i);
            return;
        }
        if let (Find::By(c, _), Some(to)) = (&self.find, s.keys.get_mut(s.at.len()..)) {
            c.fill(p, buf, head, regs, to, STRIDE);
        }
        s.at.push(i);
    }

    /// Finds the rules of the packets that have been taken; `all`: how many the batch has.
    fn settle(&self, all: usize, s: &mut Scratch, out: &mut [u32]) {
        let n = s.at.len();
        let mut put = |i: u16, rule: u32| {
            if let Some(o) = out.get_mut(usize::from(i)) {
                *o = rule;
            }
        };
        match &self.find {
            Find::Always(rule) => s.at.as_slice().iter().for_each(|i| put(*i, *rule)),
            Find::By(_, _) if n == 0 => {}
            Find::By(c, by) => {
                // whole vectors: what is found for the keys of before behind the last one is of no interest
                let whole = match by.kind() {
                    Kind::DecisionCode | Kind::BitVector => n.next_multiple_of(VECTOR).min(MOST),
                    // one key after the other
                    _ => n,
                };
                let Some(keys) = Keys::new(&s.keys, c.words(), STRIDE, whole) else {
                    return;
                };
                if whole == all && n == all {
                    by.lookup(keys, out);
                } else if let Some(found) = s.found.get_mut(..whole) {
                    by.lookup(keys, found);
                    if n == all {
                        out.iter_mut().zip(found).for_each(|(o, r)| *o = *r);
                    } else {
                        s.at.as_slice()
                            .iter()
                            .zip(found)
                            .for_each(|(i, r)| put(*i, *r));
                    }
                }
            }
        }
    }
}

/// All packets of a batch come to the first view.
struct First<'a, P> {
    view: &'a View,
    packets: &'a [P],
    regs: &'a Regs,
    s: &'a mut Scratch,
}

impl<P: Deref<Target = Packet>> Work for First<'_, P> {
    type Out = ();
    #[inline(always)]
    fn run(self) {
        let (rows, rest) = self.packets.as_chunks::<ROW>();
        let mut i = 0;
        // where one row does not pass as a whole, the next one most likely does not either
        let mut by_rows = true;
        for row in rows {
            by_rows = by_rows && self.view.take_row(i, row, self.s);
            if by_rows {
                i += ROW as u16;
                continue;
            }
            for p in row {
                self.view.take(i, p, self.regs, self.s);
                i += 1;
            }
        }
        for p in rest {
            self.view.take(i, p, self.regs, self.s);
            i += 1;
        }
    }
}

/// All views of a stage.
#[derive(Debug, Default)]
pub(crate) struct Views {
    views: Vec<View>,
    pub report: StageReport,
}

/// The look-up of a stage: made when it is first needed.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// What it is made from, until then.
    rules: Mutex<Option<Arc<StageRules>>>,
    using: Using,
    dims: Vec<Dim>,
    stage: usize,
    views: OnceLock<Arc<Views>>,
}

/// What has been made for a stage, and what of.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    rules: Arc<StageRules>,
    using: Using,
    dims: Vec<Dim>,
    views: Arc<Views>,
}

impl Made {
    fn is_of(&self, l: &Lookup, rules: &StageRules) -> bool {
        *self.rules == *rules && self.using == l.using && self.dims == l.dims
    }
}

impl Lookup {
    /// `dims`: of the fields.
    pub fn new(stage: usize, rules: StageRules, dims: Vec<Dim>, using: Using) -> Lookup {
        Lookup {
            rules: Mutex::new(Some(Arc::new(rules))),
            using,
            dims,
            stage,
            views: OnceLock::new(),
        }
    }

    /// The views; made now if there are none yet.
    pub fn views(&self) -> &Views {
        self.views.get_or_init(|| {
            let rules = self.take_rules().unwrap_or_default();
            Arc::new(Views::new(self.stage, &rules, &self.dims, &self.using))
        })
    }

    fn take_rules(&self) -> Option<Arc<StageRules>> {
        self.rules.lock().unwrap_or_else(|e| e.into_inner()).take()
    }

    /// The views that were made for the same stage of another program, if they are of the same rules; else they are
    /// made now, and kept there if none were.
    pub fn share(&self, made: &mut Option<Made>) {
        if self.views.get().is_some() {
            return;
        }
        let Some(rules) = self.take_rules() else {
            return;
        };
        let views = match made {
            Some(m) if m.is_of(self, &rules) => Arc::clone(&m.views),
            _ => Arc::new(Views::new(self.stage, &rules, &self.dims, &self.using)),
        };
        let views = Arc::clone(self.views.get_or_init(|| views));
        made.get_or_insert_with(|| Made {
            rules,
            using: self.using,
            dims: self.dims.clone(),
            views,
        });
    }

    /// The views, if they have been made.
    #[inline]
    pub fn made(&self) -> Option<&Views> {
        self.views.get().map(|v| &**v)
    }
}

impl Views {
    fn new(stage: usize, rules: &StageRules, dims: &[Dim], using: &Using) -> Views {
        let start = Instant::now();
        let mut v = Views {
            report: StageReport {
                stage,
                rules: rules.len(),
                ..StageReport::default()
            },
            ..Views::default()
        };
        if using.structures == Structures::Tree {
            v.report.rest = Some("it was asked for".to_string());
            return v;
        }
        let cells = rules.cells();
        let mut chooser = Chooser::new(rules, &cells);
        let mut why = None;
        let seldom = match rules.len() > LARGE {
            true => SELDOM_LARGE,
            false => SELDOM,
        };
        for _ in 0..VIEWS {
            let before = chooser.open();
            if before < seldom {
                break;
            }
            let guard = chooser.next();
            let Some(compiled) = compile(rules, &guard) else {
                break;
            };
            let share = before - chooser.open();
            if share < seldom {
                break;
            }
            let inner = Inner::new(rules, &guard);
            match inner.find(rules, &cells, dims, using) {
                Ok((find, structure)) => {
                    v.report.views.push(ViewReport {
                        guard: filter(dims, &guard),
                        tests: compiled.tests(),
                        share,
                        rules: inner.rules.len(),
                        structure,
                    });
                    v.views.push(View::new(Some(compiled), find));
                }
                Err(e) => why = Some(e),
            }
        }
        let open = chooser.open();
        let inner = Inner::new(rules, &vec![None; rules.fields.len()]);
        let found = match rules.len() > LARGE && !v.views.is_empty() {
            true => Err(format!("more than {LARGE} rules")),
            false => inner.find(rules, &cells, dims, using),
        };
        match found {
            Ok((find, structure)) => {
                v.report.views.push(ViewReport {
                    guard: Filter::default(),
                    tests: 0,
                    share: open.max(0.0),
                    rules: inner.rules.len(),
                    structure,
                });
                v.views.push(View::new(None, find));
            }
            Err(e) => v.report.rest = Some(why.unwrap_or(e)),
        }
        v.report.seconds = start.elapsed().as_secs_f64();
        v
    }

    /// The first rules of packets; of those that no view is for, nothing is said: their numbers are left in `s.open`.
    fn batch<P: Deref<Target = Packet>>(
        &self,
        packets: &[P],
        regs: &Regs,
        s: &mut Scratch,
        out: &mut [u32],
    ) {
        s.open.clear();
        let Some((first, others)) = self.views.split_first() else {
            (0..packets.len()).for_each(|i| s.open.push(i as u16));
            return;
        };
        s.at.clear();
        widely(First {
            view: first,
            packets,
            regs,
            s,
        });
        first.settle(packets.len(), s, out);
        for view in others {
            if s.left.len() == 0 {
                break;
            }
            std::mem::swap(&mut s.open, &mut s.left);
            s.left.clear();
            s.at.clear();
            for k in 0..s.open.len() {
                let i = s.open.as_slice().get(k).copied().unwrap_or(0);
                if let Some(p) = packets.get(usize::from(i)) {
                    view.take(i, p, regs, s);
                }
            }
            view.settle(packets.len(), s, out);
        }
        std::mem::swap(&mut s.open, &mut s.left);
        s.left.clear();
    }

    /// The first rule of one packet; `None` if no view is for it.
    fn one(&self, p: &Packet, regs: &Regs) -> Option<u32> {
        let (buf, head) = (p.buffer(), p.data_offset());
        let passes = |v: &&View| {
            let g = v.guard.as_ref();
            g.is_none_or(|g| g.passes(p, buf, head, regs))
        };
        match &self.views.iter().find(passes)?.find {
            Find::Always(rule) => Some(*rule),
            Find::By(columns, by) => {
                let mut key = [0u32; MAX_WORDS];
                columns.fill(p, buf, head, regs, &mut key, 1);
                Some(by.lookup_one(key.get(..columns.words())?))
            }
        }
    }
}

fn filter(dims: &[Dim], guard: &[Option<ValueSet>]) -> Filter {
    let asked = dims.iter().zip(guard);
    let mut f: Vec<(Dim, ValueSet)> = asked.filter_map(|(d, g)| Some((*d, g.clone()?))).collect();
    f.sort();
    Filter(f)
}

/// A stage as it is looked up.
#[derive(Clone, Copy)]
pub(crate) struct StageLookup<'a> {
    /// Its views.
    pub lookup: &'a Lookup,
    /// The tree of all stages, and the stage's place in it.
    pub classifier: &'a Classifier,
    /// See [`StageLookup::classifier`].
    pub index: StageIndex,
    /// What registers are filled from.
    pub sources: &'a [Source],
    /// Registers that the stage's rules read at once.
    pub needs: &'a [u16],
}

/// For each packet of a batch the first rule of a stage that fits, or [`NO_RULE`]. Nothing is changed but `s` and what `regs` has
/// read of packets.
pub(crate) fn first_rules<P: Deref<Target = Packet>>(
    stage: StageLookup<'_>,
    regs: &mut Regs,
    s: &mut Scratch,
    packets: &[P],
    out: &mut Vec<u32>,
) {
    out.clear();
    out.resize(packets.len(), NO_RULE);
    let views = stage.lookup.views();
    if let ([p], [o]) = (packets, &mut out[..]) {
        regs.begin();
        *o = first_rule(stage, regs, p);
        return;
    }
    for (packets, out) in packets.chunks(MOST).zip(out.chunks_mut(MOST)) {
        s.left.clear();
        views.batch(packets, regs, s, out);
        for i in s.open.as_slice().iter().map(|i| usize::from(*i)) {
            if let (Some(p), Some(o)) = (packets.get(i), out.get_mut(i)) {
                regs.begin();
                *o = tree(stage, regs, p);
            }
        }
    }
}

/// The first rule of a stage that fits a packet, or [`NO_RULE`]. `regs` is at an epoch of this packet.
#[inline]
pub(crate) fn first_rule(stage: StageLookup<'_>, regs: &mut Regs, p: &Packet) -> u32 {
    if let Some(views) = stage.lookup.made()
        && let Some(rule) = views.one(p, regs)
    {
        return rule;
    }
    tree(stage, regs, p)
}

/// What the tree says. `regs` is at an epoch of this packet.
fn tree(stage: StageLookup<'_>, regs: &mut Regs, p: &Packet) -> u32 {
    for r in stage.needs {
        regs.ensure(*r, stage.sources, p);
    }
    stage.classifier.first(stage.index, regs, stage.sources, p)
}
