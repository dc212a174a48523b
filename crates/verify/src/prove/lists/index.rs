//! An index of cubes: which of many may contain, or meet, another one. Cubes are compared by the lowest and the
//! highest value in those few blocks (*columns*) in which a list's cubes differ most.

use super::cube::{Blocks, Cube};
use crate::prove::dd::{Dd, Quick, Ref};
use std::collections::{HashMap, HashSet};

/// Number of columns.
const COLUMNS: usize = 4;

/// Lowest and highest value in each column.
pub type Bounds = [(u64, u64); COLUMNS];

/// The blocks that are columns.
pub struct Columns {
    /// Their blocks.
    pub blocks: Vec<u16>,
    /// Bounds by function.
    known: HashMap<Ref, (u64, u64), Quick>,
}

impl Columns {
    /// The blocks in which the cubes have most different functions.
    pub fn of(cubes: &[Cube]) -> Columns {
        let mut functions: HashMap<u16, HashSet<Ref, Quick>> = HashMap::new();
        for (b, f) in cubes.iter().flat_map(|c| &c.parts) {
            functions.entry(*b).or_default().insert(*f);
        }
        let mut by: Vec<(usize, u16)> = functions.iter().map(|(b, f)| (f.len(), *b)).collect();
        by.sort_unstable_by(|a, b| b.cmp(a));
        by.truncate(COLUMNS);
        Columns {
            blocks: by.into_iter().map(|(_, b)| b).collect(),
            known: HashMap::default(),
        }
    }
    /// Does a cube ask about no column?
    pub fn is_wide(&self, c: &Cube) -> bool {
        !c.parts.iter().any(|(b, _)| self.blocks.contains(b))
    }
    /// A cube's bounds.
    pub fn bounds(&mut self, dd: &Dd, blocks: &Blocks, c: &Cube) -> Bounds {
        let mut out = [(0, u64::MAX); COLUMNS];
        for (to, block) in out.iter_mut().zip(&self.blocks) {
            if let Ok(i) = c.parts.binary_search_by_key(block, |p| p.0)
                && let Some((_, f)) = c.parts.get(i)
            {
                let known = self.known.entry(*f);
                *to = *known.or_insert_with(|| blocks.bounds(dd, *block, *f));
            }
        }
        out
    }
}

/// May a cube with bounds `a` contain one with bounds `b`?
fn around(a: &Bounds, b: &Bounds) -> bool {
    a.iter().zip(b).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
}

/// In how many columns a cube with bounds `a` certainly does not contain one with bounds `b`.
pub fn outside(a: &Bounds, b: &Bounds) -> usize {
    let out = a.iter().zip(b).filter(|(a, b)| a.0 > b.0 || b.1 > a.1);
    out.count()
}

/// May two cubes with these bounds have a packet in common?
pub fn meet(a: &Bounds, b: &Bounds) -> bool {
    a.iter().zip(b).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
}

/// The size (as a power of two) and number of the smallest aligned block of numbers that holds an interval.
fn aligned((lo, hi): (u64, u64)) -> (u32, u64) {
    let size = 64 - (lo ^ hi).leading_zeros();
    (size, lo.checked_shr(size).unwrap_or(0))
}

/// Entries by the aligned block of numbers that contains their interval; `sizes` has a bit for each size that occurs.
struct Level<T> {
    blocks: HashMap<(u32, u64), T>,
    sizes: u128,
}

impl<T: Default> Level<T> {
    fn new() -> Self {
        Level {
            blocks: HashMap::new(),
            sizes: 0,
        }
    }
    fn at(&mut self, interval: (u64, u64)) -> &mut T {
        let b = aligned(interval);
        self.sizes |= 1 << b.0;
        self.blocks.entry(b).or_default()
    }
    /// The entries of all aligned blocks that contain an interval's.
    fn around(&self, interval: (u64, u64)) -> impl Iterator<Item = &T> {
        let (least, _) = aligned(interval);
        let sizes = (least..=64).filter(|s| self.sizes >> s & 1 == 1);
        sizes.filter_map(move |s| {
            let number = interval.0.checked_shr(s).unwrap_or(0);
            self.blocks.get(&(s, number))
        })
    }
}

impl<T: Default> Default for Level<T> {
    fn default() -> Self {
        Level::new()
    }
}

/// Cubes by the aligned blocks of numbers that contain their bounds in the first two columns. A cube that contains
/// another one is in an aligned block that contains the other's, and there are only as many of those as numbers have
/// bits.
#[derive(Default)]
pub struct Holders {
    first: Level<Level<Vec<(u32, Bounds)>>>,
}

impl Holders {
    /// These cubes, by their bounds.
    pub fn of(bounds: &[Bounds]) -> Holders {
        let mut out = Holders::default();
        for (i, b) in (0..).zip(bounds) {
            out.first.at(b[0]).at(b[1]).push((i, *b));
        }
        out
    }
    /// The first cube before number `before` that contains this one.
    pub fn first(
        &self,
        dd: &mut Dd,
        cubes: &[Cube],
        (c, b): (&Cube, &Bounds),
        before: u32,
    ) -> Option<u32> {
        let mut best = before;
        for second in self.first.around(b[0]) {
            for list in second.around(b[1]) {
                for (i, bounds) in list {
                    if *i >= best {
                        break;
                    }
                    if around(bounds, b)
                        && let Some(o) = cubes.get(*i as usize)
                        && c.is_in(dd, o)
                    {
                        best = *i;
                        break;
                    }
                }
            }
        }
        (best < before).then_some(best)
    }
}
