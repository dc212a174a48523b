//! Rules as cubes: a conjunction with at most one function for each block of variables. Blocks are the finest
//! division of the variables such that no function reads variables of two blocks; mostly they are fields.

use crate::prove::dd::{Dd, NO, Quick, Ref, YES};
use crate::prove::first::Rule;
use std::collections::{HashMap, HashSet};

/// A rule: it fits where the functions of all its blocks hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cube {
    /// Blocks, ascending, each with its function, which is neither always true nor always false.
    pub parts: Vec<(u16, Ref)>,
    /// Its value.
    pub value: u32,
}

impl Cube {
    /// The function of a block; always true where the rule has none.
    pub fn get(&self, block: u16) -> Ref {
        match self.parts.binary_search_by_key(&block, |p| p.0) {
            Ok(i) => self.parts.get(i).map_or(YES, |p| p.1),
            Err(_) => YES,
        }
    }
    /// All packets that fit.
    pub fn region(&self, dd: &mut Dd) -> Ref {
        dd.all(self.parts.iter().map(|p| p.1))
    }
    /// Does every packet that fits this one fit the other?
    pub fn is_in(&self, dd: &mut Dd, other: &Cube) -> bool {
        let mut parts = other.parts.iter();
        parts.all(|(b, f)| dd.implies(self.get(*b), *f))
    }
    /// Does no packet fit both?
    pub fn is_apart(&self, dd: &mut Dd, other: &Cube) -> bool {
        let mut parts = other.parts.iter();
        parts.any(|(b, f)| dd.disjoint(self.get(*b), *f))
    }
    /// What the rule asks of packets that fit `given`, beyond `given`. `None`: none of them fits.
    pub fn behind(&self, dd: &mut Dd, given: &Cube) -> Option<Vec<(u16, Ref)>> {
        let mut out = Vec::with_capacity(self.parts.len());
        for (b, f) in &self.parts {
            let care = given.get(*b);
            if dd.implies(care, *f) {
                continue;
            }
            if dd.disjoint(care, *f) {
                return None;
            }
            out.push((*b, dd.within(*f, care)));
        }
        Some(out)
    }
}

/// The blocks of two lists.
#[derive(Default)]
pub struct Blocks {
    /// Block of each variable's level.
    of: HashMap<u32, u16, Quick>,
    /// Levels of each block, ascending.
    pub levels: Vec<Vec<u32>>,
}

/// Most blocks; real lists have dozens of fields at most.
const MAX_BLOCKS: usize = 4_000;

impl Blocks {
    /// The blocks of these rules. `None`: too many.
    pub fn of(dd: &Dd, lists: [&[Rule]; 2]) -> Option<Blocks> {
        let mut seen: HashSet<Ref, Quick> = HashSet::default();
        // union-find: by level, another one of the same block, nearer to the block's first
        let mut up: HashMap<u32, u32, Quick> = HashMap::default();
        fn root(up: &mut HashMap<u32, u32, Quick>, mut l: u32) -> u32 {
            // Bound: every step goes to a lower level.
            while let Some(n) = up.get(&l).copied()
                && n != l
            {
                let next = up.get(&n).copied().unwrap_or(n);
                up.insert(l, next);
                l = next;
            }
            l
        }
        for f in lists.into_iter().flatten().flat_map(|r| &r.all) {
            if !seen.insert(*f) {
                continue;
            }
            let support = dd.support(*f);
            let Some(first) = support.first().copied() else {
                continue;
            };
            for l in support {
                up.entry(l).or_insert(l);
                let (a, b) = (root(&mut up, first), root(&mut up, l));
                up.insert(a.max(b), a.min(b));
            }
        }
        let mut all: Vec<u32> = up.keys().copied().collect();
        all.sort_unstable();
        let mut out = Blocks::default();
        let mut number: HashMap<u32, u16, Quick> = HashMap::default();
        for l in all {
            let r = root(&mut up, l);
            let n = match number.get(&r) {
                Some(n) => *n,
                None if out.levels.len() >= MAX_BLOCKS => return None,
                None => {
                    let n = out.levels.len() as u16;
                    number.insert(r, n);
                    out.levels.push(Vec::new());
                    n
                }
            };
            out.of.insert(l, n);
            out.levels.get_mut(usize::from(n))?.push(l);
        }
        Some(out)
    }

    /// The block that a function depends on. `None`: none, or several.
    pub fn only(&self, dd: &Dd, f: Ref) -> Option<u16> {
        let mut blocks = dd.support(f).into_iter().map(|l| self.of.get(&l).copied());
        let first = blocks.next()??;
        blocks.all(|b| b == Some(first)).then_some(first)
    }

    /// A rule as a cube. `None`: no packet fits it.
    pub fn cube(&self, dd: &mut Dd, r: &Rule) -> Option<Cube> {
        let mut parts: Vec<(u16, Ref)> = Vec::with_capacity(r.all.len());
        for f in &r.all {
            if *f == YES {
                continue;
            }
            let block = self.of.get(&dd.level(*f)).copied()?;
            match parts.iter_mut().find(|p| p.0 == block) {
                Some(p) => p.1 = dd.and(p.1, *f),
                None => parts.push((block, *f)),
            }
        }
        if parts.iter().any(|p| p.1 == NO) {
            return None;
        }
        parts.sort_unstable();
        Some(Cube {
            parts,
            value: r.value,
        })
    }

    /// The lowest and the highest value for which a function may hold; a value is the block's first 64 variables, as
    /// a number.
    pub fn bounds(&self, dd: &Dd, block: u16, f: Ref) -> (u64, u64) {
        let levels = self.levels.get(usize::from(block)).map_or(&[][..], |l| l);
        let levels = levels.get(..levels.len().min(64)).unwrap_or(levels);
        let end = |high: bool| {
            let (mut f, mut value) = (f, 0u64);
            for l in levels {
                let (lo, hi) = (dd.cofactor(f, *l, false), dd.cofactor(f, *l, true));
                let one = if high { hi != NO } else { lo == NO };
                value = value << 1 | u64::from(one);
                f = if one { hi } else { lo };
            }
            value
        };
        (end(false), end(true))
    }
}
