//! The verifier pass over a program: what the synthesizer promises and an engine relies on. It runs behind synthesis in
//! tests and debug builds, and on programs that were parsed.
//!
//! What holds for every program ([`Violation::invariant`] is the number here):
//!
//! 1. **References.** Every element, stage, action and slot that is named exists. Every action is named by a rule. An
//!    element is the source of at most one entry.
//! 2. **Filters** (of rules, and what is known): dimensions ascend, each at most once; no set is empty or full; all
//!    values are within the dimension's width; bits are 1 to 128, annotations 1, 2, 4, 8 or 16 bytes within the 48.
//! 3. **Rules can be taken**: no rule's filter contradicts what is known in its stage, or all of the filters that
//!    packets come there from among.
//! 4. **Slots** are 1 to 128 bits wide, and may be something. A binding fills six, of 32, 32, 16, 16, 16 and 16 bits,
//!    and perhaps one of 8 bits for an annotation.
//! 5. **Slots are read behind their binding only**: on every path of the epoch from its beginning to the filter, image
//!    or checksum that reads a slot there is a binding that fills it. No slot lives longer than its epoch.
//! 6. **Writes** of an image ascend, are disjoint and 1 to 128 bits wide, and constants fit. What is read fits
//!    invariant 2.
//! 7. **Checksums** stand where their kind has them, behind an IPv4 (or IPv6) header; they overlap neither each other
//!    nor a write (it would be unclear which comes first); their terms are as in 6.
//! 8. **Images** start, end and have their marks and writes within [`REACH`] bytes of the epoch's packet; annotations
//!    ascend, are disjoint, and constants fit.
//! 9. **Epochs.** Stages of entries and behind elements that were asked and write-outs, and only those, are fresh; so
//!    are the stages that [`End::Ask`] and [`End::Write`] lead to, and no others. An entry's stage knows nothing:
//!    anything may come.
//! 10. **Progress.** No packet comes round to a stage within one epoch: the stages form no cycle but through an element
//!     that is asked or a write-out.
//! 11. **Bindings.** One that expects nothing never goes on: it is the last step, and the action's end is
//!     [`End::Unreachable`], which stands nowhere else. Sets of expected values are neither empty nor too wide; those
//!     of kept fields are full. So are the sets of the kinds of other bindings, where they are told; then every output
//!     that one of them leaves at has a way, and the others have none ([`Next::Never`], which stands nowhere else).
//! 12. **Some rule fits every packet** that can come to a stage. Shown by subtracting the rules from what is known, as
//!     long as that takes at most [`MAX_PIECES`] pieces; beyond, nothing is claimed ([`Report::unshown`]).
//! 13. **Forks** have at least two ways (one would be no copy); drops, punts and questions say why.

mod cover;
mod image;
mod progress;
mod slots;
#[cfg(test)]
mod tests;

use crate::program::*;
use onefold_element::ElemId;
use onefold_element::model::{AnnoKey, FlowSide, ValueSet, max_of};
use std::fmt;

/// Most pieces that are looked at to show that a stage's rules leave nothing out.
pub const MAX_PIECES: usize = 20_000;
/// Most bytes from the epoch's first byte to anything that an image speaks of.
pub const REACH: i32 = 65_536;
/// Violations that are told; looking stops there.
pub const MAX_VIOLATIONS: usize = 200;

/// What does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invariant {invariant}: {place}: {message}")]
pub struct Violation {
    /// The number of the invariant in this module's documentation.
    pub invariant: u8,
    /// Where.
    pub place: Place,
    /// What is wrong.
    pub message: String,
}

/// A place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Stage.
    pub stage: Option<u32>,
    /// Rule, from 0.
    pub rule: Option<u32>,
    /// Action.
    pub action: Option<u32>,
    /// Step of the action; its end, if there are no more steps.
    pub step: Option<u32>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(stage) = self.stage else {
            return f.write_str("program");
        };
        write!(f, "stage{stage}")?;
        if let Some(r) = self.rule {
            write!(f, ", rule {r}")?;
        }
        if let Some(a) = self.action {
            write!(f, ", a{a}")?;
        }
        if let Some(s) = self.step {
            write!(f, ", step {s}")?;
        }
        Ok(())
    }
}

/// What the pass found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// What does not hold; empty for a sound program.
    pub violations: Vec<Violation>,
    /// Stages of which it could not be shown that some rule always fits.
    pub unshown: Vec<StageId>,
}

/// Checks all invariants.
pub fn check(p: &Program) -> Report {
    let mut c = Checker {
        p,
        place: Place::default(),
        out: Vec::new(),
    };
    c.program();
    let mut report = Report::default();
    if c.out.is_empty() {
        // what follows needs indices that hold
        slots::check(p, &mut c);
        for (i, s) in p.stages.iter().enumerate() {
            let id = StageId(i as u32);
            match cover::uncovered(s, &p.slots, MAX_PIECES) {
                cover::Coverage::All => {}
                cover::Coverage::Unknown => report.unshown.push(id),
                cover::Coverage::Left(f) => {
                    c.place = stage_place(i);
                    let words = crate::text::Words::for_stage(p, s).with(&f);
                    c.wrong(
                        12,
                        format!("no rule fits packets with {}", words.filter(&f)),
                    );
                }
            }
        }
    }
    report.violations = c.out;
    report
}

fn stage_place(i: usize) -> Place {
    Place {
        stage: Some(i as u32),
        ..Place::default()
    }
}

struct Checker<'a> {
    p: &'a Program,
    place: Place,
    out: Vec<Violation>,
}

impl Checker<'_> {
    fn wrong(&mut self, invariant: u8, message: impl Into<String>) {
        if self.out.len() < MAX_VIOLATIONS {
            self.out.push(Violation {
                invariant,
                place: self.place,
                message: message.into(),
            });
        }
    }

    fn elem(&mut self, e: ElemId) {
        if self.p.elements.get(e.0 as usize).is_none() {
            self.wrong(1, format!("there is no element e{}", e.0));
        }
    }

    /// A stage that exists, and is as fresh as this way to it wants.
    fn stage(&mut self, s: StageId, fresh: bool) {
        match self.p.stages.get(s.0 as usize) {
            None => self.wrong(1, format!("there is no stage{}", s.0)),
            Some(st) if st.fresh != fresh => {
                let what = if fresh { "no" } else { "a" };
                self.wrong(9, format!("stage{} is {what} fresh stage", s.0));
            }
            Some(_) => {}
        }
    }

    fn nexts(&mut self, l: &[Next], fresh: bool) {
        for n in l {
            match n {
                Next::Stage(s) => self.stage(*s, fresh),
                Next::Unconnected(e) => self.elem(*e),
                Next::Never => self.wrong(11, "a way that no binding is said not to take"),
            }
        }
    }

    /// What other bindings than the expected one may be, and where they lead.
    fn sides(&mut self, sides: &[FlowSide], bound: &[Next]) {
        let what = ["saddr", "daddr", "sport", "dport"];
        for s in sides {
            for (i, bits) in BOUND_BITS.iter().enumerate().take(4) {
                self.set(11, what[i], &s.from[i], *bits, true);
                self.set(11, what[i], &s.to[i], *bits, true);
                if s.kept[i] && !s.to[i].is_full(*bits) {
                    self.wrong(11, format!("{} is kept, but not anything", what[i]));
                }
            }
            if matches!(bound.get(usize::from(s.output)), None | Some(Next::Never)) {
                let text = format!("a binding leaves at output {}, where no way is", s.output);
                self.wrong(11, text);
            }
        }
        for (q, n) in bound.iter().enumerate() {
            match n {
                Next::Never => {}
                Next::Stage(s) => self.stage(*s, false),
                Next::Unconnected(e) => self.elem(*e),
            }
            if *n != Next::Never && sides.iter().all(|s| usize::from(s.output) != q) {
                self.wrong(
                    11,
                    format!("no binding leaves at output {q}, where a way is"),
                );
            }
        }
    }

    fn program(&mut self) {
        for (i, s) in self.p.slots.iter().enumerate() {
            if !(1..=128).contains(&s.bits) {
                self.wrong(4, format!("s{i} has {} bits", s.bits));
            }
            self.set(4, &format!("s{i}"), &s.set, s.bits, true);
        }
        let mut sources: Vec<ElemId> = Vec::new();
        for e in &self.p.entries {
            self.elem(e.source);
            self.stage(e.stage, true);
            if sources.contains(&e.source) {
                self.wrong(1, format!("e{} has two entries", e.source.0));
            }
            sources.push(e.source);
            if let Some(s) = self.p.stages.get(e.stage.0 as usize)
                && (s.why != Why::Entry || !s.known.0.is_empty() || !s.among.is_empty())
            {
                self.wrong(
                    9,
                    format!("stage{} is entered but is no entry's", e.stage.0),
                );
            }
        }
        for (i, s) in self.p.stages.iter().enumerate() {
            self.place = stage_place(i);
            self.one_stage(s);
        }
        self.place = Place::default();
        if self.out.is_empty() {
            self.progress();
        }
    }

    fn one_stage(&mut self, s: &Stage) {
        let here = self.place;
        self.elem(s.at.0);
        let behind = matches!(s.why, Why::Entry | Why::Asked | Why::Written);
        if s.fresh != behind {
            self.wrong(9, format!("'{:?}' and fresh do not agree", s.why));
        }
        self.filter(&s.known);
        s.among.iter().for_each(|f| self.filter(f));
        if s.among.len() == 1 {
            self.wrong(2, "one filter alone is what is known");
        }
        let mut named = vec![false; s.actions.len()];
        for (i, r) in s.rules.iter().enumerate() {
            self.place.rule = Some(i as u32);
            self.filter(&r.filter);
            let among = s.among.is_empty() || s.among.iter().any(|f| !r.filter.is_disjoint(f));
            if r.filter.is_disjoint(&s.known) || !among {
                self.wrong(3, "this rule contradicts what is known here");
            }
            match named.get_mut(r.action.0 as usize) {
                Some(n) => *n = true,
                None => self.wrong(1, format!("there is no a{}", r.action.0)),
            }
            for o in &r.origin {
                self.elem(o.elem);
                let binds = s.actions.get(r.action.0 as usize).map_or(0, binds_of);
                if o.counted.is_some_and(|c| usize::from(c.binds) > binds) {
                    self.wrong(
                        1,
                        "an origin is counted behind more bindings than its action asks for",
                    );
                }
            }
        }
        self.place = here;
        for (i, a) in s.actions.iter().enumerate() {
            self.place.action = Some(i as u32);
            if named.get(i) == Some(&false) {
                self.wrong(1, "no rule names this action");
            }
            self.action(a);
            self.place = here;
        }
    }

    /// `set` is neither empty nor wider than `bits`; full, too, is allowed only where said.
    fn set(&mut self, invariant: u8, what: &str, set: &ValueSet, bits: u8, full: bool) {
        if set.is_empty() {
            self.wrong(invariant, format!("the set of {what} is empty"));
        } else if set
            .intervals()
            .last()
            .is_some_and(|(_, h)| *h > max_of(bits))
        {
            self.wrong(
                invariant,
                format!("the set of {what} has values of more than {bits} bits"),
            );
        } else if !full && set.is_full(bits) {
            self.wrong(invariant, format!("the set of {what} is full"));
        }
    }

    fn anno(&mut self, invariant: u8, a: AnnoKey) {
        let end = u32::from(a.offset) + u32::from(a.size);
        if !matches!(a.size, 1 | 2 | 4 | 8 | 16) || end > 48 {
            self.wrong(
                invariant,
                format!("no annotation has {} bytes at {}", a.size, a.offset),
            );
        }
    }

    fn bits(&mut self, invariant: u8, bit: i32, bits: u8) {
        if !(1..=128).contains(&bits) {
            self.wrong(invariant, format!("@{bit}:{bits} has {bits} bits"));
        }
        if bit.unsigned_abs() > REACH.unsigned_abs() * 8 {
            self.wrong(8, format!("@{bit}:{bits} is more than {REACH} bytes away"));
        }
    }

    fn dim(&mut self, d: Dim) {
        match d {
            Dim::Bits { bit, bits } => self.bits(2, bit, bits),
            Dim::Anno(a) => self.anno(2, a),
            Dim::Slot(s) => self.slot(s),
            Dim::Check { at, end, .. } => {
                self.near(at);
                self.end_at(end);
            }
            Dim::Len | Dim::PacketType => {}
            Dim::Route { table, of, .. } => {
                self.elem(table);
                if !matches!(of.width(), 32 | 128) {
                    self.wrong(2, format!("an address of {} bits", of.width()));
                }
                match of {
                    Address::Bits { bit, bits } => self.bits(2, bit, bits),
                    Address::Anno(a) => self.anno(2, a),
                    Address::Is { value, bits } if value > max_of(bits) => {
                        self.wrong(2, format!("an address of more than {bits} bits"));
                    }
                    Address::Is { .. } => {}
                }
            }
        }
    }

    fn slot(&mut self, s: Slot) {
        if self.p.slots.get(usize::from(s.0)).is_none() {
            self.wrong(1, format!("there is no slot s{}", s.0));
        }
    }

    fn near(&mut self, byte: i32) {
        if byte.unsigned_abs() > REACH.unsigned_abs() {
            self.wrong(8, format!("byte {byte} is more than {REACH} bytes away"));
        }
    }

    fn end_at(&mut self, e: EndAt) {
        match e {
            EndAt::Same => {}
            EndAt::Ip4(at) | EndAt::Ip6(at) => self.near(at),
        }
    }

    fn filter(&mut self, f: &Filter) {
        let words = crate::text::Words::new(self.p);
        for (d, set) in &f.0 {
            self.dim(*d);
            let bits = crate::text::width(&self.p.slots, *d);
            self.set(2, &words.dim_name(*d), set, bits, false);
        }
        if !f.0.is_sorted_by(|a, b| a.0 < b.0) {
            self.wrong(2, "the filter's dimensions do not ascend");
        }
    }

    fn expr(&mut self, e: Expr, bits: u8) {
        match e {
            Expr::Const(v) if v > max_of(bits) => {
                self.wrong(6, format!("{v} has more than {bits} bits"));
            }
            Expr::Const(_) => {}
            Expr::Of(d, _) => self.dim(d),
        }
    }

    fn action(&mut self, a: &Action) {
        a.path.iter().for_each(|e| self.elem(*e));
        let mut goes_on = true;
        for (i, step) in a.steps.iter().enumerate() {
            self.place.step = Some(i as u32);
            if !goes_on {
                self.wrong(11, "a step behind a binding that expects nothing");
            }
            match step {
                Step::Count { elem, len, .. } => {
                    self.elem(*elem);
                    self.near(len.start);
                    self.end_at(len.end);
                }
                Step::Bind {
                    elem,
                    image,
                    first,
                    anno,
                    expect,
                    bound,
                    sides,
                    pass,
                    ..
                } => {
                    self.elem(*elem);
                    self.image(image);
                    match sides {
                        Some(sides) => self.sides(sides, bound),
                        None => self.nexts(bound, false),
                    }
                    self.nexts(pass, false);
                    for (i, bits) in BOUND_BITS.iter().enumerate() {
                        let s = usize::from(first.0) + i;
                        match self.p.slots.get(s) {
                            None => self.wrong(1, format!("there is no slot s{s}")),
                            Some(x) if x.bits != *bits => {
                                self.wrong(4, format!("s{s} is bound and has not {bits} bits"));
                            }
                            Some(_) => {}
                        }
                    }
                    if let Some((at, s)) = anno {
                        self.anno(
                            8,
                            AnnoKey {
                                offset: *at,
                                size: 1,
                            },
                        );
                        match self.p.slots.get(usize::from(s.0)) {
                            None => self.wrong(1, format!("there is no slot s{}", s.0)),
                            Some(x) if x.bits != 8 => {
                                self.wrong(
                                    4,
                                    format!("s{} is an annotation and has not 8 bits", s.0),
                                );
                            }
                            Some(_) => {}
                        }
                    }
                    goes_on = expect.is_some();
                    if let Some(x) = expect {
                        let what = ["saddr", "daddr", "sport", "dport"];
                        for (i, set) in x.sets.iter().enumerate() {
                            let bits = BOUND_BITS[i];
                            self.set(11, what[i], set, bits, true);
                            if x.kept[i] && !set.is_full(bits) {
                                self.wrong(11, format!("{} is kept, but not anything", what[i]));
                            }
                        }
                    }
                }
            }
        }
        self.place.step = Some(a.steps.len() as u32);
        if goes_on == (a.end == End::Unreachable) {
            let what = if goes_on {
                "this end is reached"
            } else {
                "a binding that expects nothing goes on"
            };
            self.wrong(11, what);
        }
        self.end(&a.end);
        self.place.step = None;
    }

    fn end(&mut self, end: &End) {
        let reason = |c: &mut Self, r: &str| {
            if r.is_empty() {
                c.wrong(13, "no reason is given");
            }
        };
        match end {
            End::Output { sink, image } => {
                self.elem(*sink);
                self.image(image);
            }
            End::Drop { elem, reason: r } => {
                self.elem(*elem);
                reason(self, r);
            }
            End::Punt {
                elem, cause, image, ..
            } => {
                self.elem(*elem);
                reason(self, cause);
                self.image(image);
            }
            End::Ask {
                elem,
                cause,
                image,
                outputs,
                ..
            } => {
                self.elem(*elem);
                reason(self, cause);
                self.image(image);
                self.nexts(outputs, true);
            }
            End::Write { image, next } => {
                self.image(image);
                self.stage(*next, true);
            }
            End::Goto(s) => self.stage(*s, false),
            End::Fork(l) => {
                if l.len() < 2 {
                    self.wrong(13, format!("a fork of {}", l.len()));
                }
                self.nexts(l, false);
            }
            End::Unreachable => {}
        }
    }
}

/// Bindings that an action asks for.
fn binds_of(a: &Action) -> usize {
    let bind = |s: &&Step| matches!(s, Step::Bind { .. });
    a.steps.iter().filter(bind).count()
}

/// Widths of the slots that a binding fills.
const BOUND_BITS: [u8; 6] = [32, 32, 16, 16, 16, 16];
