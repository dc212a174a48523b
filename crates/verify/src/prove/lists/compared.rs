//! The result of a comparison: sets of packets that depend on the kind of case that decides, and packets of them.

use super::cube::Cube;
use super::index::{Bounds, meet};
use super::kinds::Kind;
use crate::prove::dd::{Dd, NO, Ref, YES};
use crate::prove::vars::{Bit, Vars};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Most cases in which a packet of a set is looked for.
const MAX_TRIES: usize = 20_000;
/// Most earlier cases that are subtracted from a case to find a packet about which it decides.
const MAX_SUBTRACTED: usize = 256;

/// All comparisons of a proof.
pub type All = Vec<Rc<Compared>>;

/// Two lists, compared.
pub struct Compared {
    /// Number of the comparison.
    nth: u32,
    /// What the source list says, by kind.
    pub taken: Ref,
    /// For each kind: what the program does (its action's number plus one; zero where no rule fits), and the packets
    /// it may have.
    kinds: Vec<(Ref, Ref)>,
    /// The bits of the kind's number.
    bits: Vec<Ref>,
    /// The source list, each case with its bounds and its kind, without cases that no packet reaches.
    source: Vec<(Cube, Bounds, u32)>,
}

/// A function of the number whose bits are given, highest first: the list's element at that position, and "no" behind
/// its end.
fn select(dd: &mut Dd, bits: &[Ref], list: &[Ref]) -> Ref {
    match (bits.split_first(), list) {
        (_, []) => NO,
        (None, [first, ..]) => *first,
        (Some((bit, rest)), list) => {
            let (lo, hi) = list.split_at(list.len().min(1 << rest.len()));
            let (lo, hi) = (select(dd, rest, lo), select(dd, rest, hi));
            dd.ite(*bit, hi, lo)
        }
    }
}

impl Compared {
    /// A comparison that came to these kinds.
    pub(super) fn new(
        dd: &mut Dd,
        vars: &mut Vars,
        nth: u32,
        kinds: &[Kind],
        source: Vec<(Cube, Bounds, u32)>,
    ) -> Compared {
        let width = usize::BITS - kinds.len().saturating_sub(1).leading_zeros();
        let each = (0..width as u8).map(|b| vars.var(dd, Bit::Decided(nth, b)));
        let bits: Vec<Ref> = each.collect();
        let says: Vec<Ref> = kinds.iter().map(|k| dd.terminal(k.says)).collect();
        Compared {
            nth,
            taken: select(dd, &bits, &says),
            kinds: kinds.iter().map(|k| (k.does, k.care)).collect(),
            bits,
            source,
        }
    }

    /// For everything that the program does about packets of a set (an action's number plus one; zero: no rule fits),
    /// in ascending order: about which of them, depending on the kind.
    pub fn regions(&self, dd: &mut Dd, here: Ref) -> Vec<(u32, Ref)> {
        let mut known: HashMap<Ref, Vec<(u32, Ref)>> = HashMap::new();
        let mut by: BTreeMap<u32, Vec<Ref>> = BTreeMap::new();
        for (k, (does, care)) in self.kinds.iter().enumerate() {
            let each = known.entry(*does).or_insert_with(|| {
                let mut values = dd.values(*does);
                values.insert(0);
                values.into_iter().map(|v| (v, dd.is(*does, v))).collect()
            });
            for (v, f) in each {
                let part = dd.and(*f, *care);
                if part != NO {
                    let list = by.entry(*v).or_insert_with(|| vec![NO; self.kinds.len()]);
                    if let Some(to) = list.get_mut(k) {
                        *to = part;
                    }
                }
            }
        }
        let mut out = Vec::with_capacity(by.len());
        for (v, list) in by {
            let all = select(dd, &self.bits, &list);
            let all = dd.and(all, here);
            if all != NO {
                out.push((v, all));
            }
        }
        out
    }

    /// The variables that are the kind's number, highest first.
    fn levels(&self, vars: &mut Vars) -> Vec<u32> {
        (0..16)
            .map(|b| vars.level(Bit::Decided(self.nth, b)))
            .collect()
    }

    /// The packets that are in a set if a case of this kind decides.
    pub(super) fn part(&self, dd: &mut Dd, vars: &mut Vars, set: Ref, kind: u32) -> Ref {
        let width = usize::BITS - self.kinds.len().saturating_sub(1).leading_zeros();
        let levels = self.levels(vars);
        let by = levels
            .iter()
            .take(width as usize)
            .enumerate()
            .map(|(i, l)| {
                let one = kind >> (width as usize - 1 - i) & 1 == 1;
                (*l, if one { YES } else { NO })
            });
        dd.put(set, &by.collect())
    }

    /// Does a set depend on the kind?
    pub fn is_in(&self, dd: &Dd, vars: &mut Vars, set: Ref) -> bool {
        let levels = self.levels(vars);
        dd.support(set).iter().any(|l| levels.contains(l))
    }

    /// Some packets of a set, with the case that really decides about them; none where no such case was found.
    pub fn concrete(&self, dd: &mut Dd, vars: &mut Vars, set: Ref) -> Ref {
        if !self.is_in(dd, vars, set) {
            return set;
        }
        let mut here: HashMap<u32, Ref> = HashMap::new();
        let mut tries = MAX_TRIES;
        for (i, (c, b, k)) in self.source.iter().enumerate() {
            let of = match here.get(k) {
                Some(f) => *f,
                None => {
                    let f = self.part(dd, vars, set, *k);
                    here.insert(*k, f);
                    f
                }
            };
            if of == NO {
                continue;
            }
            let region = c.region(dd);
            let mut left = dd.and(of, region);
            let mut taken = 0;
            for (e, eb, _) in self.source.iter().take(i) {
                if left == NO || taken > MAX_SUBTRACTED {
                    break;
                }
                if meet(eb, b) && !e.is_apart(dd, c) {
                    let of = e.region(dd);
                    left = dd.minus(left, of);
                    taken += 1;
                }
            }
            if left != NO && taken <= MAX_SUBTRACTED && dd.stopped().is_none() {
                return left;
            }
            tries -= 1;
            if tries == 0 {
                break;
            }
        }
        NO
    }

    /// The source list, each case with its kind.
    pub(super) fn cases(&self) -> impl Iterator<Item = (&Cube, u32)> {
        self.source.iter().map(|(c, _, k)| (c, *k))
    }
    /// What the program does about packets of a kind, and those it may have.
    #[cfg(test)]
    pub(super) fn kind(&self, kind: u32) -> (Ref, Ref) {
        self.kinds.get(kind as usize).copied().unwrap_or((NO, NO))
    }
    /// The number of kinds.
    pub(super) fn kinds(&self) -> u32 {
        self.kinds.len() as u32
    }
}
