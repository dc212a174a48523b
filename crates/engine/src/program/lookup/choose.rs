//! Which guards does a stage get? Those that ordinary packets pass, as far as rules let one guess.
//!
//! Field by field, those first that most rules ask about, the cell is taken that most probes are in, as long as nearly all are; what
//! tells probes apart is left to the structure behind the guard, within the range that probes have. Fields that no rule asks about any
//! more, as the guard is by then, do not matter. Probes that do not pass a guard choose the next.

use crate::program::headers::registers::Source;
use crate::program::lookup::cells::{Cells, around};
use crate::program::lookup::guard::Guard;
use crate::program::lookup::left_rules::Inner;
use crate::program::lookup::probes::Probes;
use crate::program::lookup::rules::{Field, StageRules};
use onefold_element::model::{HeaderCheck, ValueSet, max_of};
use onefold_synth::program::EndAt;

/// Share of probes that have to be in a field's cell for it to be part of a guard.
const NEARLY_ALL: f32 = 0.8;
/// Share of probes that has to pass the whole guard.
const MOST_OF_THEM: f32 = 0.5;
/// In stages with so many rules a field that fewer probes have in common is part of a guard only if it rids the view of a fifth of the
/// rules.
const MANY: usize = 1024;
const ALL: f32 = 0.999;
/// Fields of at most so many bits are cut to the range of probes, if these have at most so many cells.
const SHORT: u8 = 16;
const FEW_CELLS: usize = 4;

/// A stage's probes, by cells.
pub(crate) struct Chooser<'a> {
    rules: &'a StageRules,
    cells: &'a [Option<Cells>],
    probes: Probes,
    /// By probe and field.
    at: Vec<u16>,
    /// Probes that no guard has let pass.
    left: Vec<u32>,
    total: f32,
}

impl<'a> Chooser<'a> {
    pub fn new(rules: &'a StageRules, cells: &'a [Option<Cells>]) -> Chooser<'a> {
        let probes = Probes::of(rules);
        let mut at = Vec::with_capacity(probes.len() * cells.len());
        for i in 0..probes.len() {
            let values = probes.values(i).iter().zip(cells);
            at.extend(values.map(|(v, c)| c.as_ref().map_or(0, |c| c.of(*v))));
        }
        Chooser {
            rules,
            cells,
            at,
            left: (0..probes.len() as u32).collect(),
            total: probes.weights.iter().sum(),
            probes,
        }
    }

    /// The share of probes that no guard has let pass.
    pub fn open(&self) -> f64 {
        let left: f32 = self.left.iter().map(|p| self.weight(*p)).sum();
        f64::from(left / self.total.max(f32::MIN_POSITIVE))
    }

    fn weight(&self, p: u32) -> f32 {
        self.probes.weights[p as usize]
    }

    fn cell(&self, p: u32, field: usize) -> u16 {
        self.at[p as usize * self.cells.len() + field]
    }

    fn value(&self, p: u32, field: usize) -> u128 {
        self.probes.values(p as usize)[field]
    }

    /// The next guard, by field; all `None` where probes have nothing in common.
    pub fn next(&mut self) -> Vec<Option<ValueSet>> {
        let n = self.cells.len();
        let mut guard: Vec<Option<ValueSet>> = vec![None; n];
        let mut live = self.of_one_form();
        let weigh = |live: &[u32]| live.iter().map(|p| self.weight(*p)).sum::<f32>();
        let least = weigh(&live) * MOST_OF_THEM;
        let mut seen = vec![false; n];
        // Bound: one field is looked at each time.
        for _ in 0..n {
            // the one that most of the rules ask about that are left
            let inner = Inner::new(self.rules, &guard);
            let asked = inner.rules_by_field(self.rules);
            let open = (0..n).filter(|f| !seen[*f] && asked[*f] > 0);
            let Some(f) = open.max_by_key(|f| (asked[*f], std::cmp::Reverse(*f))) else {
                break;
            };
            seen[f] = true;
            let bits = self.rules.fields[f].bits;
            let all = weigh(&live);
            let told = self.telling(f, &live);
            let told = told.filter(|(share, _)| *share >= all * NEARLY_ALL && *share >= least);
            guard[f] = match told {
                Some((share, (from, to))) => {
                    let set = Some(around(from, to, bits));
                    // what ordinary packets fail has to rid the view of many rules: those packets would be looked up elsewhere
                    let form = live.first().map_or(0, |p| self.probes.forms[*p as usize]);
                    let fail = |s: &ValueSet| self.probes.some_differ(self.rules, form, f, s);
                    let some = share < all * ALL || set.as_ref().is_some_and(fail);
                    let many = self.rules.len() > MANY && some;
                    if many {
                        guard[f].clone_from(&set);
                        let left = Inner::new(self.rules, &guard).rules.len();
                        guard[f] = None;
                        set.filter(|_| is_worth(left, inner.rules.len()))
                    } else {
                        set
                    }
                }
                None => self.range(f, &live).filter(|set| {
                    // it has to rid the view of some rules
                    let mut with = guard.clone();
                    with[f] = Some(set.clone());
                    let left = Inner::new(self.rules, &with).rules.len();
                    match self.rules.len() > MANY {
                        true => is_worth(left, inner.rules.len()),
                        false => left < inner.rules.len(),
                    }
                }),
            };
            if let Some(set) = &guard[f] {
                live.retain(|p| set.contains(self.value(*p, f)));
            }
        }
        self.implied(&mut guard);
        self.left = {
            let passed: std::collections::HashSet<u32> = live.into_iter().collect();
            let left = self.left.iter().copied();
            left.filter(|p| !passed.contains(p)).collect()
        };
        guard
    }

    /// A header that fits has its bytes. To ask for them keeps nobody out, and no rule has to ask.
    fn implied(&self, guard: &mut [Option<ValueSet>]) {
        let fields = &self.rules.fields;
        let header = |(f, g): (&Field, &Option<ValueSet>)| {
            let Source::Check(check, at, EndAt::Same) = f.source else {
                return None;
            };
            let bytes = match check {
                HeaderCheck::Ip4Fits => 20,
                HeaderCheck::Ip6Fits => 40,
                _ => return None,
            };
            let yes = g.as_ref().is_some_and(|g| !g.contains(0));
            u128::try_from(at).ok().filter(|_| yes).map(|at| at + bytes)
        };
        let Some(least) = fields.iter().zip(&*guard).filter_map(header).max() else {
            return;
        };
        for (f, g) in fields.iter().zip(guard) {
            if f.source == Source::Len && g.is_none() {
                *g = Some(ValueSet::range(least, max_of(f.bits)));
            }
        }
    }

    /// Probes that no guard has let pass, of the form that weighs most.
    fn of_one_form(&self) -> Vec<u32> {
        let form = |p: &u32| self.probes.forms[*p as usize];
        let mut shares = [0f32; 256];
        for p in &self.left {
            shares[usize::from(form(p))] += self.weight(*p);
        }
        let best = (0..=255u8).max_by(|a, b| {
            let of = |f: &u8| shares[usize::from(*f)];
            of(a).total_cmp(&of(b))
        });
        let left = self.left.iter().copied();
        left.filter(|p| Some(form(p)) == best).collect()
    }

    /// The part of a cell that most probes are in, and how many those are.
    fn telling(&self, field: usize, live: &[u32]) -> Option<(f32, (u128, u128))> {
        let cells = self.cells[field].as_ref()?;
        if cells.len() < 2 || self.rules.fields[field].bits > 64 {
            return None;
        }
        let mut shares = vec![0f32; cells.len()];
        for p in live {
            shares[usize::from(self.cell(*p, field))] += self.weight(*p);
        }
        let top = (0..shares.len()).max_by(|a, b| shares[*a].total_cmp(&shares[*b]))? as u16;
        let parts = cells.parts(top);
        let set = |part: &(u128, u128)| around(part.0, part.1, self.rules.fields[field].bits);
        let share = |part: &(u128, u128)| -> f32 {
            let set = set(part);
            let mine = live.iter().filter(|p| self.cell(**p, field) == top);
            mine.filter(|p| set.contains(self.value(**p, field)))
                .map(|p| self.weight(*p))
                .sum()
        };
        if let [part] = parts[..] {
            return Some((shares[usize::from(top)], part));
        }
        let tried = parts.into_iter().take(16).map(|p| (share(&p), p));
        tried.max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The range of a short field that nearly all probes are in.
    fn range(&self, field: usize, live: &[u32]) -> Option<ValueSet> {
        let (f, cells) = (&self.rules.fields[field], self.cells[field].as_ref()?);
        if f.bits > SHORT || cells.len() < 2 {
            return None;
        }
        let mut shares: Vec<(f32, u16)> = (0..cells.len() as u16).map(|c| (0.0, c)).collect();
        for p in live {
            shares[usize::from(self.cell(*p, field))].0 += self.weight(*p);
        }
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let all: f32 = shares.iter().map(|s| s.0).sum();
        let (mut sum, mut most) = (0.0, Vec::new());
        for (share, cell) in shares {
            if sum >= all * NEARLY_ALL {
                break;
            }
            sum += share;
            most.push(cell);
        }
        if most.len() > FEW_CELLS {
            return None;
        }
        // from the begin of the first part that a probe is in to the end of the last
        let mine = live
            .iter()
            .filter(|p| most.contains(&self.cell(**p, field)));
        let values: Vec<u128> = mine.map(|p| self.value(*p, field)).collect();
        let (lo, hi) = (*values.iter().min()?, *values.iter().max()?);
        let parts = most.iter().flat_map(|c| cells.parts(*c));
        let parts: Vec<(u128, u128)> = parts
            .flat_map(|(a, b)| match a <= b {
                true => vec![(a, b)],
                false => vec![(0, b), (a, max_of(f.bits))],
            })
            .collect();
        let of = |v: u128| parts.iter().find(|(a, b)| (*a..=*b).contains(&v));
        let set = ValueSet::range(of(lo)?.0, of(hi)?.1);
        (!set.is_full(f.bits)).then_some(set)
    }
}

/// Are so few of the rules left behind a guard that packets may be looked up elsewhere for its sake?
fn is_worth(left: usize, of: usize) -> bool {
    left * 5 <= of * 4
}

/// A guard as it is compiled; `None` where it asks nothing, or something that guards cannot.
pub(crate) fn compile(rules: &StageRules, guard: &[Option<ValueSet>]) -> Option<Guard> {
    let asked = rules.fields.iter().zip(guard);
    let asked: Vec<_> = asked.filter_map(|(f, g)| Some((f, g.as_ref()?))).collect();
    match asked.is_empty() {
        true => None,
        false => Guard::new(&asked),
    }
}
