//! Programs broken one place at a time, to see what a proof finds out.
//!
//! Every place where a kind of damage can be done is listed in the program's order; of each kind some are taken,
//! evenly.

use crate::generate::solve::{Search as Found, uncovered};
use onefold_element::model::{ValueSet, max_of};
use onefold_synth::Program;
use onefold_synth::program::{
    Action, ActionId, Dim, End, Expr, Filter, Image, Rule, Step, SumTerm, SumWrite, Write,
};
use std::sync::Arc;

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Damage {
    /// An interval of a filter begins or ends one earlier or later.
    Boundary,
    /// Two rules that follow each other change their actions.
    Swapped,
    /// A rule is lost: its packets are treated as others are.
    LostRule,
    /// The same with a rule that hands over or drops: its packets are treated as some that pass.
    LostGuard,
    /// A term of a checksum is another one.
    Delta,
    /// A term, or a checksum, is lost.
    LostDelta,
    /// A field gets another value.
    Value,
    /// A field is not written.
    LostWrite,
    /// A binding is asked for at another input.
    Origin,
    /// Something is not counted, or with another length.
    Count,
    /// Dropped by another element, or for another reason; leaves elsewhere.
    End,
}

impl Damage {
    /// All kinds.
    pub const ALL: [Damage; 11] = [
        Damage::Boundary,
        Damage::Swapped,
        Damage::LostRule,
        Damage::LostGuard,
        Damage::Delta,
        Damage::LostDelta,
        Damage::Value,
        Damage::LostWrite,
        Damage::Origin,
        Damage::Count,
        Damage::End,
    ];
}

/// A broken program.
#[derive(Debug, Clone)]
pub struct Mutant {
    /// Which kind.
    pub damage: Damage,
    /// Where: stage, and rule or action.
    pub place: String,
    /// The program.
    pub program: Program,
}

/// Places tried for one mutant.
const TRIES: usize = 64;

/// At most so many programs of each kind.
pub fn mutants(p: &Program, each: usize) -> Vec<Mutant> {
    let mut out = Vec::new();
    for damage in Damage::ALL {
        let sites = sites(p, damage);
        let n = sites.len().min(each);
        for i in 0..n {
            // the next place where it changes something
            let (from, to) = (i * sites.len() / n, (i + 1) * sites.len() / n);
            for site in sites.get(from..to).unwrap_or(&[]).iter().take(TRIES) {
                let mut program = p.clone();
                if let Some(what) = apply(&mut program, damage, *site) {
                    let (stage, index, _) = *site;
                    out.push(Mutant {
                        damage,
                        place: format!("stage{stage} {index}: {what}"),
                        program,
                    });
                    break;
                }
            }
        }
    }
    out
}

/// Stage, rule or action, and which of its places.
type Site = (usize, usize, usize);

fn sites(p: &Program, d: Damage) -> Vec<Site> {
    let mut out = Vec::new();
    for (i, s) in p.stages.iter().enumerate() {
        let rules = s.rules.iter().enumerate();
        let actions = s.actions.iter().enumerate();
        match d {
            Damage::Boundary => out.extend(rules.flat_map(|(j, r)| {
                let n = r
                    .filter
                    .0
                    .iter()
                    .map(|(_, s)| s.intervals().len() * 2)
                    .sum();
                (0..n).map(move |k| (i, j, k))
            })),
            Damage::Swapped => out.extend(
                rules
                    .filter(|(j, r)| s.rules.get(j + 1).is_some_and(|n| n.action != r.action))
                    .map(|(j, _)| (i, j, 0)),
            ),
            Damage::LostRule | Damage::LostGuard => {
                let guard = |r: &Rule| s.actions.get(r.action.0 as usize).is_some_and(is_guard);
                out.extend(
                    rules
                        .filter(|(_, r)| guard(r) == (d == Damage::LostGuard))
                        .map(|(j, _)| (i, j, 0)),
                );
            }
            _ => out.extend(actions.flat_map(|(j, a)| {
                let n = places(&mut a.clone(), d, usize::MAX).0;
                (0..n).map(move |k| (i, j, k))
            })),
        }
    }
    out
}

fn is_guard(a: &Action) -> bool {
    matches!(a.end, End::Punt { .. } | End::Drop { .. })
}

fn apply(p: &mut Program, d: Damage, (stage, index, nth): Site) -> Option<String> {
    let slots = p.slots.clone();
    let s = p.stages.get_mut(stage)?;
    match d {
        Damage::Boundary => {
            let width = |d: Dim| match d {
                Dim::Slot(n) => slots.get(usize::from(n.0)).map_or(128, |s| s.bits),
                d => d.width(),
            };
            let r = s.rules.get(index)?;
            let mut k = nth;
            for (i, (dim, set)) in r.filter.0.iter().enumerate() {
                let n = set.intervals().len() * 2;
                if k >= n {
                    k -= n;
                    continue;
                }
                // further out, unless earlier rules decide there; then further in, if later rules do
                let (before, after) = s.rules.split_at(index);
                let with = |set: ValueSet| {
                    let mut f = r.filter.clone();
                    f.0.get_mut(i)?.1 = set;
                    Some(f)
                };
                let bits = width(*dim);
                let out = moved(set, k / 2, k % 2 == 1, max_of(bits), true);
                let out = out.filter(|new| {
                    let more = with(new.minus(set, bits));
                    let earlier: Vec<&Filter> = before.iter().map(|r| &r.filter).collect();
                    let mut steps = 4_000;
                    more.is_some_and(|more| {
                        let found = uncovered(&more, &earlier, &width, &mut steps, &mut |_| true);
                        found != Found::Covered
                    })
                });
                let new = out.or_else(|| {
                    let new = moved(set, k / 2, k % 2 == 1, max_of(bits), false)?;
                    let lost = with(set.minus(&new, bits))?;
                    let mut later = after.iter().skip(1);
                    later.any(|r| !r.filter.is_disjoint(&lost)).then_some(new)
                })?;
                if new.is_empty() || new.is_full(bits) || new == *set {
                    return None;
                }
                let what = format!("boundary {k} of {dim:?}");
                s.rules.get_mut(index)?.filter.0.get_mut(i)?.1 = new;
                return Some(what);
            }
            None
        }
        Damage::Swapped => {
            let (a, b): (ActionId, ActionId) =
                (s.rules.get(index)?.action, s.rules.get(index + 1)?.action);
            s.rules.get_mut(index)?.action = b;
            s.rules.get_mut(index + 1)?.action = a;
            Some(format!("a{} for a{}", b.0, a.0))
        }
        Damage::LostRule | Damage::LostGuard => {
            // lost while rules are made: its packets are treated as some that come later are, or before
            let lost = s.rules.get(index)?.action;
            let passes = |r: &&Rule| {
                let a = s.actions.get(r.action.0 as usize);
                d == Damage::LostRule || a.is_some_and(|a| !is_guard(a))
            };
            let (before, after) = s.rules.split_at(index);
            let mut others = after.iter().chain(before.iter().rev()).filter(passes);
            let other = others.find(|r| r.action != lost)?.action;
            s.rules.get_mut(index)?.action = other;
            Some(format!("a{} instead of a{}", other.0, lost.0))
        }
        _ => {
            let a = s.actions.get_mut(index)?;
            places(a, d, nth).1
        }
    }
}

/// One end of an interval, one further out or in.
fn moved(set: &ValueSet, i: usize, high: bool, max: u128, out: bool) -> Option<ValueSet> {
    let mut v = set.intervals().to_vec();
    let (l, h) = v.get_mut(i)?;
    match (high, out) {
        (true, true) if *h < max => *h += 1,
        (true, false) if *h > *l => *h -= 1,
        (false, true) if *l > 0 => *l -= 1,
        (false, false) if *l < *h => *l += 1,
        _ => return None,
    }
    Some(ValueSet::from_intervals(v))
}

/// The number of places in an action where this can be done; the one with that number is broken.
fn places(a: &mut Action, d: Damage, nth: usize) -> (usize, Option<String>) {
    let mut n = 0;
    let mut done = None;
    let mut hit = |what: &str| {
        n += 1;
        let now = n - 1 == nth;
        if now {
            done = Some(what.to_string());
        }
        now
    };
    let mut lost = None;
    for (i, step) in a.steps.iter_mut().enumerate() {
        match step {
            Step::Count { len, .. } if d == Damage::Count => {
                if hit("count of another length") {
                    len.start += 1;
                }
                if hit("lost count") {
                    lost = Some(i);
                }
            }
            Step::Bind { port, image, .. } => {
                if d == Damage::Origin && hit("another input") {
                    *port ^= 1;
                }
                broken(image, d, &mut hit);
            }
            Step::Count { .. } => {}
        }
    }
    if let Some(i) = lost {
        a.steps.remove(i);
    }
    match &mut a.end {
        End::Output { sink, image } => {
            broken(image, d, &mut hit);
            if d == Damage::End && hit("another sink") {
                sink.0 = sink.0.wrapping_sub(1);
            }
        }
        End::Drop { elem, reason } if d == Damage::End => {
            if hit("another element") {
                elem.0 = elem.0.saturating_sub(1);
            }
            if hit("another reason") {
                reason.push('!');
            }
        }
        End::Punt { port, image, .. } => {
            broken(image, d, &mut hit);
            let _ = port;
        }
        End::Ask { image, .. } | End::Write { image, .. } => broken(image, d, &mut hit),
        _ => {}
    }
    (n, done)
}

fn broken(image: &mut Arc<Image>, d: Damage, hit: &mut dyn FnMut(&str) -> bool) {
    let m = Arc::make_mut(image);
    match d {
        Damage::Value => {
            for w in &mut m.writes {
                if hit("another value") {
                    other(w);
                }
            }
        }
        Damage::LostWrite => {
            let mut i = 0;
            m.writes.retain(|_| {
                i += 1;
                !hit("lost write")
            });
        }
        Damage::Delta => {
            for t in terms(&mut m.sums) {
                if let SumTerm::Change { to, bits, .. } = t
                    && hit("another delta")
                {
                    *to = match *to {
                        Expr::Const(c) => Expr::Const(c ^ 1),
                        Expr::Of(d, n) => Expr::Of(d, n.wrapping_sub(1) & max_of(*bits)),
                    };
                }
            }
        }
        Damage::LostDelta => {
            for s in &mut m.sums {
                for g in &mut s.groups {
                    g.retain(|_| !hit("lost term"));
                }
                s.groups.retain(|g| !g.is_empty());
            }
            m.sums.retain(|s| s.anew || !s.groups.is_empty());
        }
        _ => {}
    }
}

fn terms(sums: &mut [SumWrite]) -> impl Iterator<Item = &mut SumTerm> {
    sums.iter_mut().flat_map(|s| s.groups.iter_mut().flatten())
}

fn other(w: &mut Write) {
    w.value = match w.value {
        Expr::Const(c) => Expr::Const(c ^ 1),
        Expr::Of(d, n) => Expr::Of(d, n.wrapping_add(1) & max_of(w.bits)),
    };
}
