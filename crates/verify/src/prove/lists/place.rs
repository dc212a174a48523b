//! Both lists as cubes, and each program rule assigned to the first case that contains it.

use super::cube::{Blocks, Cube};
use super::index::{Bounds, Columns, Holders};
use super::marks::Parts;
use crate::prove::dd::{Dd, NO, Ref, YES};
use crate::prove::first::Rule;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most wide rules: they are considered for every case.
const MAX_WIDE: usize = 1_000;
/// Most pairs of bounds that are compared.
const MAX_TESTS: u64 = 1_000_000_000;
/// Most general cases ...
const MAX_GENERAL: usize = 64;
/// ... and nodes of their union.
const MAX_UNION: usize = 1_000;
/// Stands for the holder of a wide rule.
pub const WIDE: u32 = u32::MAX;

/// The cases of the source list and the rules of the program.
pub struct Lists {
    /// The cases, in order; the last one fits every packet.
    pub source: Vec<Cube>,
    /// Bounds of each case.
    pub source_bounds: Vec<Bounds>,
    /// The rules, in order.
    pub program: Vec<Cube>,
    /// Bounds of each rule.
    pub program_bounds: Vec<Bounds>,
    /// For each rule its holder: the first case that contains it; or [`WIDE`].
    pub holder: Vec<u32>,
    /// Wide rules, in order, each with the first case that contains it (or the number of cases).
    pub wide: Vec<(u32, u32)>,
    /// The rules that each case is the holder of, in order.
    pub own: Vec<Vec<u32>>,
    /// For each case, the first rule whose holder is a later case.
    pub later: Vec<u32>,
    /// Cases that no packet reaches, because earlier ones contain them.
    pub dead: Vec<bool>,
    /// For each value of a rule, what the holders of most rules with that value say.
    pub usual: HashMap<u32, u32>,
    /// General cases, which ask about neither of the first two columns: position of each, and the union of all up to
    /// it.
    pub general: Vec<(usize, Ref)>,
    /// Contains all rules that are not wide.
    pub domain: Cube,
    /// Comparisons that may still be made.
    pub tests: u64,
}

impl Lists {
    /// Assigns the rules. `None`: too many of them are wide.
    pub fn of(dd: &mut Dd, blocks: &Blocks, source: &[Rule], program: &[Rule]) -> Option<Lists> {
        let mut cases: Vec<Cube> = source.iter().filter_map(|r| blocks.cube(dd, r)).collect();
        match cases.iter().position(|c| c.parts.is_empty()) {
            Some(i) => cases.truncate(i + 1),
            // packets that fit no case
            None => cases.push(Cube {
                parts: Vec::new(),
                value: 0,
            }),
        }
        let rules: Vec<Cube> = program.iter().filter_map(|r| blocks.cube(dd, r)).collect();
        let mut columns = Columns::of(&cases);
        let mut bounds = |dd: &Dd, list: &[Cube]| -> Vec<Bounds> {
            let each = list.iter();
            each.map(|c| columns.bounds(dd, blocks, c)).collect()
        };
        let source_bounds = bounds(dd, &cases);
        let program_bounds = bounds(dd, &rules);
        let wide_case: Vec<bool> = cases.iter().map(|c| columns.is_wide(c)).collect();
        let mut l = Lists {
            holder: Vec::with_capacity(rules.len()),
            wide: Vec::new(),
            own: vec![Vec::new(); cases.len()],
            later: vec![u32::MAX; cases.len()],
            dead: Vec::new(),
            usual: HashMap::new(),
            general: Vec::new(),
            domain: Cube {
                parts: Vec::new(),
                value: 0,
            },
            source: cases,
            source_bounds,
            program: rules,
            program_bounds,
            tests: MAX_TESTS,
        };
        l.assign(dd, &wide_case)?;
        l.enclose(dd, &columns);
        l.count();
        l.unite(dd, &columns);
        Some(l)
    }

    /// Finds the holder of each rule, and the cases that are dead.
    fn assign(&mut self, dd: &mut Dd, wide_case: &[bool]) -> Option<()> {
        let holders = Holders::of(&self.source_bounds);
        let each = self.source.iter().flat_map(|c| c.parts.iter().map(|p| p.0));
        let read: BTreeSet<u16> = each.collect();
        let mut known: HashMap<Parts, (u32, u32)> = HashMap::new();
        let end = self.source.len() as u32;
        for (j, (c, b)) in (0u32..).zip(self.program.iter().zip(&self.program_bounds)) {
            // cases read no other blocks
            let mut parts = c.parts.clone();
            parts.retain(|p| read.contains(&p.0));
            let (first, holder) = *known.entry(parts).or_insert_with(|| {
                let first = holders.first(dd, &self.source, (c, b), end);
                let tells = first.filter(|i| wide_case.get(*i as usize) == Some(&false));
                (first.unwrap_or(end), tells.unwrap_or(WIDE))
            });
            self.holder.push(holder);
            match self.own.get_mut(holder as usize) {
                Some(own) => own.push(j),
                None => self.wide.push((j, first)),
            }
            if self.wide.len() > MAX_WIDE || dd.stopped().is_some() {
                return None;
            }
        }
        let mut least = u32::MAX;
        for (later, own) in self.later.iter_mut().zip(&self.own).rev() {
            *later = least;
            least = least.min(own.first().copied().unwrap_or(u32::MAX));
        }
        for (i, (c, b)) in (0u32..).zip(self.source.iter().zip(&self.source_bounds)) {
            let held = holders.first(dd, &self.source, (c, b), i).is_some();
            self.dead.push(held);
        }
        Some(())
    }

    /// Finds the general cases, such as those of headers that are cut off.
    fn unite(&mut self, dd: &mut Dd, columns: &Columns) {
        let first = columns.blocks.get(..2).unwrap_or(&columns.blocks);
        let mut all = NO;
        for (i, c) in self.source.iter().enumerate() {
            if self.general.len() >= MAX_GENERAL {
                break;
            }
            if c.parts.is_empty() || c.parts.iter().any(|(b, _)| first.contains(b)) {
                continue;
            }
            let region = c.region(dd);
            let more = dd.or(all, region);
            if dd.size(more, MAX_UNION) < MAX_UNION {
                all = more;
                self.general.push((i, all));
            }
        }
    }

    /// The union of the general cases before the i-th case.
    pub fn general_before(&self, i: usize) -> Ref {
        let n = self.general.partition_point(|g| g.0 < i);
        let last = n.checked_sub(1).and_then(|n| self.general.get(n));
        last.map_or(NO, |g| g.1)
    }

    /// Counts what the holders of rules with each value say.
    fn count(&mut self) {
        let mut counts: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for (rule, holder) in self.program.iter().zip(&self.holder) {
            if let Some(case) = self.source.get(*holder as usize) {
                *counts.entry((rule.value, case.value)).or_default() += 1;
            }
        }
        let mut most: HashMap<u32, usize> = HashMap::new();
        for ((value, says), n) in counts {
            let m = most.entry(value).or_default();
            if n > *m {
                *m = n;
                self.usual.insert(value, says);
            }
        }
    }

    /// The domain: what all rules that are not wide have in common in blocks that are no columns.
    fn enclose(&mut self, dd: &mut Dd, columns: &Columns) {
        let mut hull: Option<Parts> = None;
        let placed = self.program.iter().zip(&self.holder);
        for (c, _) in placed.filter(|(_, h)| **h != WIDE) {
            match &mut hull {
                None => {
                    let mut parts = c.parts.clone();
                    parts.retain(|p| !columns.blocks.contains(&p.0));
                    hull = Some(parts);
                }
                Some(h) => {
                    for (b, f) in h.iter_mut() {
                        *f = dd.or(*f, c.get(*b));
                    }
                    h.retain(|p| p.1 != YES);
                }
            }
        }
        self.domain.parts = hull.unwrap_or_default();
    }
}
