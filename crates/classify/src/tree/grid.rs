//! The first step into a tree: two words are cut at once, each into up to 64 parts.
//!
//! Where the first steps of all keys are the same, they are taken by sixteen keys at once: which part of each word a
//! key lies in is counted with two rounds of seven comparisons, and a table has what is where the two parts meet
//! (HyperCuts, Singh et al., SIGCOMM 2003, cuts several words of a node at once, too). That takes the place of two or
//! three levels.

use super::cut::Hulls;
use crate::simd::Isa;

/// Parts of a word, at most.
pub(super) const PARTS: usize = 64;
/// Fewer entries are not worth it.
const LEAST: usize = 96;
/// Entries looked at to choose.
const SAMPLE: usize = 4096;
/// A word is not cut that leaves more than this share of the entries beside one of them.
const USELESS: f64 = 0.7;

/// Ascending cuts of one word, for [`Isa::parts`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Cuts {
    pub word: usize,
    /// The number of the last part.
    pub last: u32,
    /// Number `8 * i + j` of the cuts stands in row `j`, place `i`; those of the last row are compared first.
    rows: [[u32; 8]; 8],
}

impl Cuts {
    pub fn new(word: usize, at: &[u32]) -> Cuts {
        let mut rows = [[u32::MAX; 8]; 8];
        for (n, at) in at.iter().enumerate().take(PARTS - 1) {
            rows[n % 8][n / 8] = *at;
        }
        let last = at.len().min(PARTS - 1) as u32;
        Cuts { word, last, rows }
    }

    /// Which parts sixteen keys lie in.
    #[inline(always)]
    pub fn parts<S: Isa>(&self, s: S, keys: &[u32; 16]) -> [u32; 16] {
        s.parts(&self.rows, self.last, keys)
    }
}

/// What stands in front of a tree.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    pub cuts: [Cuts; 2],
    /// For each part of the first word a row of the second one's parts: where keys go on.
    pub cells: Vec<u32>,
}

/// A grid to be: of both words the cuts.
pub(super) struct Plan {
    pub words: [usize; 2],
    pub at: [Vec<u32>; 2],
}

impl Plan {
    /// How many cells.
    pub fn cells(&self) -> usize {
        (self.at[0].len() + 1) * (self.at[1].len() + 1)
    }

    /// The cells that an entry lies in, by its parts of both words.
    pub fn of(&self, hulls: &Hulls, e: u32) -> [std::ops::RangeInclusive<usize>; 2] {
        [0, 1].map(|i| {
            let (lo, hi) = (
                hulls.lo[self.words[i]][e as usize],
                hulls.hi[self.words[i]][e as usize],
            );
            let from = self.at[i].partition_point(|a| *a <= lo);
            from..=self.at[i].partition_point(|a| *a <= hi)
        })
    }

    /// Where a part begins and ends.
    pub fn part(&self, i: usize, n: usize, whole: (u32, u32)) -> (u32, u32) {
        let at = &self.at[i];
        let first = n.checked_sub(1).and_then(|n| at.get(n));
        (
            first.copied().unwrap_or(whole.0),
            at.get(n).map_or(whole.1, |a| a - 1),
        )
    }
}

/// The grid for these entries, with at most so many more copies of them; `None` if it does not pay.
pub(super) fn plan(
    hulls: &Hulls,
    entries: &[u32],
    whole: &[(u32, u32)],
    copies: usize,
) -> Option<Plan> {
    if entries.len() < LEAST {
        return None;
    }
    let step = entries.len().div_ceil(SAMPLE);
    let n = entries.len().div_ceil(step) as f64;
    // the ends of entries in each word, and how many others an entry has beside it in its part: the two words with the
    // least
    let mut words: Vec<(f64, usize, Vec<u32>)> = Vec::new();
    for (w, whole) in whole.iter().enumerate() {
        let (Some(lo), Some(hi)) = (hulls.lo.get(w), hulls.hi.get(w)) else {
            continue;
        };
        let some = || entries.iter().step_by(step).map(|e| *e as usize);
        let mut ends: Vec<u32> = some().filter(|e| lo[*e] > whole.0).map(|e| lo[e]).collect();
        ends.extend(some().filter(|e| hi[*e] < whole.1).map(|e| hi[e] + 1));
        ends.sort_unstable();
        let at = dense(&ends, PARTS);
        let mut parts = vec![0f64; at.len() + 2];
        for e in some() {
            // counted where they begin and end
            parts[at.partition_point(|a| *a <= lo[e])] += 1.0;
            parts[at.partition_point(|a| *a <= hi[e]) + 1] -= 1.0;
        }
        let (mut now, mut squares) = (0.0, 0.0);
        for p in parts {
            now += p;
            squares += now * now;
        }
        words.push((squares / n, w, ends));
    }
    words.sort_by(|a, b| a.0.total_cmp(&b.0));
    words.truncate(2);
    let [(_, a, a_ends), (cost, b, b_ends)] = &words[..] else {
        return None;
    };
    let two = *cost < USELESS * n;
    let mut fan = PARTS;
    // Bound: half as many each time.
    while fan >= 8 {
        let plan = Plan {
            words: [*a, *b],
            at: [
                dense(a_ends, fan),
                if two { dense(b_ends, fan) } else { Vec::new() },
            ],
        };
        let many = |e: &u32| {
            plan.of(hulls, *e)
                .map(|r| r.count())
                .iter()
                .product::<usize>()
        };
        let all: usize = entries.iter().map(many).sum();
        if plan.cells() > 1 && all - entries.len() <= copies && plan.cells() <= entries.len() * 2 {
            return Some(plan);
        }
        fan /= 2;
    }
    None
}

/// Cuts so that parts have about as many ends each.
fn dense(ends: &[u32], parts: usize) -> Vec<u32> {
    if ends.is_empty() {
        return Vec::new();
    }
    let mut at: Vec<u32> = (1..parts).map(|j| ends[ends.len() * j / parts]).collect();
    at.dedup();
    at
}
