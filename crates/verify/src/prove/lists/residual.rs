//! What remains of one case behind earlier ones, and of the program's rules for the packets of that case.

use super::cube::Cube;
use super::index::{meet, outside};
use super::marks::{Marks, Parts};
use super::place::{Lists, WIDE};
use crate::prove::dd::{Dd, NO, Ref, YES};
use std::collections::BTreeMap;

/// Most rules of later cases that are considered for one case.
const MAX_LATE: usize = 2_000;
/// Most earlier cases that are subtracted from packets of one case to see that nothing is left.
const MAX_SUBTRACTED: usize = 256;
/// A function with more nodes is not worth subtracting from.
const MAX_SIZE: usize = 2_000;
/// A union of functions of one block is not extended beyond about so many nodes ...
const MAX_UNION: usize = 20_000;
/// ... which is checked after so many extensions.
const SIZED: usize = 64;

/// A rule relative to a case: what it still asks about the case's packets, and its value.
pub type Rest = (Parts, u32);

/// The rules that may decide about the packets of a case, wide ones and its own, relative to the case.
pub struct Remaining {
    /// Position in the program, and rule.
    pub rules: Vec<(u32, Rest)>,
    /// So many come before all rules whose holder is a later case.
    pub early: usize,
    /// The domain, relative to the case. `None`: it has none of the case's packets.
    pub domain: Option<Parts>,
    /// Blocks in which some rule is not a union of cells ([`Marks::rest`]).
    pub exact: Vec<u16>,
}

impl Lists {
    /// The residual of a case: without the values that earlier cases take from it in one block. An earlier case that
    /// contains all of this one but for one block leaves only other values of that block. What earlier cases take in
    /// several blocks at once is not subtracted, so the residual may be larger than what is really left. `None`:
    /// nothing is left.
    pub fn residual(&self, dd: &mut Dd, i: usize) -> Option<Cube> {
        let (case, bounds) = (self.source.get(i)?, self.source_bounds.get(i)?);
        let mut taken: BTreeMap<u16, (Ref, usize)> = BTreeMap::new();
        let earlier = self.source.iter().zip(&self.source_bounds).zip(&self.dead);
        for ((c, b), _) in earlier.take(i).filter(|(_, dead)| !**dead) {
            if !meet(b, bounds) || outside(b, bounds) > 1 {
                continue;
            }
            let mut cut = None;
            let mut more = false;
            for (block, f) in &c.parts {
                if !dd.implies(case.get(*block), *f) {
                    more = cut.is_some();
                    if more {
                        break;
                    }
                    cut = Some((*block, *f));
                }
            }
            if more {
                continue;
            }
            let (block, f) = cut?;
            if dd.disjoint(case.get(block), f) {
                continue;
            }
            let (all, n) = taken.entry(block).or_insert((NO, 0));
            if *n % SIZED == SIZED - 1 && dd.size(*all, MAX_UNION) >= MAX_UNION {
                // less is subtracted than could be
                continue;
            }
            *n += 1;
            *all = dd.or(*all, f);
        }
        let mut parts: BTreeMap<u16, Ref> = case.parts.iter().copied().collect();
        for (block, (f, _)) in taken {
            let part = parts.entry(block).or_insert(YES);
            *part = dd.minus(*part, f);
            if *part == NO {
                return None;
            }
        }
        Some(Cube {
            parts: parts.into_iter().collect(),
            value: case.value,
        })
    }

    /// The rules that remain for the packets of the i-th case, whose residual is `case`.
    pub fn remaining(
        &mut self,
        dd: &mut Dd,
        marks: &mut Marks,
        (i, case): (usize, &Cube),
    ) -> Option<Remaining> {
        // a wide rule that an earlier case contains decides about no packet of this one
        let wide = self.wide.iter().filter(|(_, first)| *first as usize >= i);
        let mut all: Vec<u32> = wide.map(|(j, _)| *j).collect();
        all.extend(self.own.get(i)?);
        all.sort_unstable();
        let later = self.later.get(i).copied()?;
        let mut rules = Vec::new();
        let mut early = 0;
        let mut exact = Vec::new();
        for j in all {
            let rule = self.program.get(j as usize)?;
            let mut asked = Vec::new();
            let Some(parts) = marks.rest(dd, rule, case, &mut asked) else {
                continue;
            };
            let value = rule.value;
            if self.is_leftover(dd, (i, case), j)? {
                continue;
            }
            exact.extend(asked);
            let last = parts.is_empty();
            early += usize::from(j < later);
            rules.push((j, (parts, value)));
            if last {
                break;
            }
        }
        Some(Remaining {
            rules,
            early,
            domain: self.domain.behind(dd, case),
            exact,
        })
    }

    /// Does a rule decide about no packet of the i-th case because all packets of both belong to earlier cases? This
    /// is looked for only where the rule was probably made from another case: most rules with its value have holders
    /// that say something else.
    fn is_leftover(&mut self, dd: &mut Dd, (i, case): (usize, &Cube), j: u32) -> Option<bool> {
        let rule = self.program.get(j as usize)?;
        let own = self.holder.get(j as usize) == Some(&(i as u32));
        if !own || self.usual.get(&rule.value) == Some(&case.value) {
            return Some(false);
        }
        let (rule, case) = (rule.region(dd), case.region(dd));
        let here = dd.and(rule, case);
        Some(self.unshadowed(dd, i, here)? == NO)
    }

    /// Rules before the one at `end` whose holders are later cases, and which may decide about the packets `here` of
    /// the i-th case, relative to that case. `None`: too many.
    pub fn late(
        &mut self,
        dd: &mut Dd,
        (marks, exact): (&mut Marks, &mut Vec<u16>),
        (i, case): (usize, &Cube),
        (here, end): (Ref, u32),
    ) -> Option<Vec<(u32, Rest)>> {
        let mut out = Vec::new();
        let from = self.later.get(i).copied()?.min(end);
        let bounds = self.source_bounds.get(i)?;
        let last = end.min(self.program.len() as u32);
        self.tests = (self.tests).checked_sub(last.saturating_sub(from).into())?;
        let holders = self.holder.iter().zip(&self.program_bounds);
        let each = (0u32..).zip(holders).skip(from as usize);
        for (j, (holder, b)) in each.take_while(|(j, _)| *j < end) {
            if *holder == WIDE || *holder as usize <= i || !meet(b, bounds) {
                continue;
            }
            let rule = self.program.get(j as usize)?;
            if rule.parts.iter().any(|(_, f)| dd.disjoint(here, *f)) {
                continue;
            }
            let mut both = here;
            for (_, f) in &rule.parts {
                both = dd.and(both, *f);
            }
            if both != NO
                && let Some(parts) = marks.rest(dd, rule, case, exact)
            {
                out.push((j, (parts, rule.value)));
            }
            if out.len() > MAX_LATE || dd.stopped().is_some() {
                return None;
            }
        }
        Some(out)
    }

    /// Those packets `here` of the i-th case that are not packets of earlier cases; perhaps more, where those are
    /// many.
    pub fn unshadowed(&mut self, dd: &mut Dd, i: usize, mut here: Ref) -> Option<Ref> {
        let bounds = self.source_bounds.get(i)?;
        self.tests = self.tests.checked_sub(i as u64)?;
        // earlier cases, those first that ask least beyond this case: whose bounds are outside in fewest columns, and
        // that have fewest functions that do not hold for all these packets
        let mut earlier: Vec<(usize, usize, usize)> = Vec::new();
        for (h, c) in self.source.iter().enumerate().take(i) {
            if here == NO {
                return Some(NO);
            }
            let Some(b) = self.source_bounds.get(h) else {
                continue;
            };
            let dead = self.dead.get(h) == Some(&true);
            if dead || !meet(b, bounds) || c.parts.iter().any(|(_, f)| dd.disjoint(here, *f)) {
                continue;
            }
            let cut = c.parts.iter().filter(|(_, f)| !dd.implies(here, *f));
            match cut.count() {
                0 => return Some(NO),
                n => earlier.push((outside(b, bounds), n, h)),
            }
        }
        earlier.sort_unstable();
        let mut subtracted = 0;
        for (_, _, h) in earlier {
            let case = self.source.get(h)?;
            if case.parts.iter().any(|(_, f)| dd.disjoint(here, *f)) {
                continue;
            }
            let of = case.region(dd);
            let less = dd.minus(here, of);
            if less != here && dd.size(less, MAX_SIZE) < MAX_SIZE {
                here = less;
            }
            subtracted += 1;
            if here == NO || subtracted >= MAX_SUBTRACTED {
                break;
            }
        }
        Some(here)
    }
}
