//! Is there a packet in a set that fits none of some filters of a list? The search of [`super::filters`] on the list's
//! [`Boxes`].
//!
//! Packets at random come first, then a gap among all filters at once (decision 40), then filters are taken away one
//! after the other, which alone can say that there is none.

use super::boxes::bits::{Bits, has, ones};
use super::boxes::{Boxes, Cube, Runs};
use crate::cubes::tightened;
use crate::rng::Rng;

/// Packets that are tried.
const POINTS: usize = 6;
/// Looks at all filters for a gap between them.
const GAP_LOOKS: usize = 6;
/// Dimensions in which a gap is looked for at each place.
const CHOICES: usize = 3;
/// Parts of more runs in one dimension are not asked whether there is a packet in them.
const MAX_RUNS: usize = 16;
/// Filters that one question may look at in all while it takes them away, at most.
const WORK: usize = 4_000_000;

/// What came of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// There is none: proved.
    No,
    /// There is, and it was accepted.
    Yes,
    /// There may be, but every part that was offered was refused.
    Refused,
    /// A bound was reached.
    Unknown,
}

/// Looks for parts of `cube` that fit none of the filters `earlier`; they are offered to `accept` until it takes one.
/// `work`: filters that may be looked at, over several questions.
pub fn exists(
    boxes: &Boxes,
    cube: &Cube,
    earlier: &Bits,
    (rng, work): (&mut Rng, &mut usize),
    accept: &mut dyn FnMut(&Cube) -> bool,
) -> Found {
    let around = boxes.covering(cube, earlier.len() * 64);
    if ones(&around).any(|i| has(earlier, i) && boxes.covers(i, cube)) {
        return Found::No;
    }
    let mut search = Search {
        boxes,
        accept,
        refused: false,
        work: 0,
        ends: Vec::new(),
    };
    if !search.possible(cube) {
        return Found::No;
    }
    for _ in 0..POINTS {
        let p = boxes.random(cube, rng);
        if boxes.first(&p, earlier, 0).is_none() && search.offer(&boxes.around(&p)) == Left::Taken {
            return Found::Yes;
        }
    }
    let open: Vec<usize> = ones(earlier)
        .filter(|i| !boxes.is_disjoint(*i, cube))
        .collect();
    search.work = GAP_LOOKS * (open.len() + 1);
    if search.gap(cube, &open) {
        return Found::Yes;
    }
    let most = WORK.min(*work);
    search.work = most;
    let left = search.left(cube, &open);
    *work -= most - search.work;
    match left {
        Left::Taken => Found::Yes,
        Left::TooLong => Found::Unknown,
        Left::Nothing if search.refused => Found::Refused,
        Left::Nothing => Found::No,
    }
}

struct Search<'a> {
    boxes: &'a Boxes,
    accept: &'a mut dyn FnMut(&Cube) -> bool,
    /// A part was offered and refused.
    refused: bool,
    /// Filters that may still be looked at.
    work: usize,
    /// Room: where filters begin (1) and the first class behind each (-1).
    ends: Vec<(u32, i32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Taken,
    TooLong,
}

impl Search<'_> {
    /// Can there be a packet at all?
    fn possible(&self, cube: &Cube) -> bool {
        self.boxes.independent() || tightened(&self.boxes.filter(cube), None).is_some()
    }

    /// Is it worth asking whether there is a packet in a part?
    fn small(&self, part: &Cube) -> bool {
        part.0.iter().all(|runs| runs.len() <= MAX_RUNS)
    }

    /// Offers a part that no filter meets.
    fn offer(&mut self, part: &Cube) -> Left {
        if !self.possible(part) {
            return Left::Nothing;
        }
        if (self.accept)(part) {
            return Left::Taken;
        }
        self.refused = true;
        Left::Nothing
    }

    fn open(&self, cube: &Cube, of: &[usize]) -> Vec<usize> {
        let of = of.iter().copied();
        of.filter(|i| !self.boxes.is_disjoint(*i, cube)).collect()
    }

    /// Narrows the set, dimension by dimension, to classes that the fewest filters ask for. False says nothing.
    fn gap(&mut self, cube: &Cube, open: &[usize]) -> bool {
        self.work = match self.work.checked_sub(open.len() + 1) {
            Some(w) => w,
            None => return false,
        };
        if open.is_empty() {
            return self.offer(cube) == Left::Taken;
        }
        if open.iter().any(|i| self.boxes.covers(*i, cube)) {
            return false;
        }
        let mut all: Vec<(usize, usize, Runs)> = Vec::with_capacity(cube.0.len());
        for (at, runs) in cube.0.iter().enumerate() {
            if let Some((n, runs)) = self.least_asked(at, runs, open) {
                all.push((n, at, runs));
            }
        }
        all.sort_by_key(|c| (c.0, c.1));
        all.retain(|c| c.0 < open.len());
        all.truncate(CHOICES);
        for (_, at, runs) in all {
            let mut part = cube.clone();
            if let Some(to) = part.0.get_mut(at) {
                *to = runs;
            }
            let rest = self.open(&part, open);
            if self.gap(&part, &rest) {
                return true;
            }
        }
        false
    }

    /// The classes of a dimension that the fewest filters allow, and how many do: all of them where none does,
    /// otherwise the longest run.
    fn least_asked(&mut self, at: usize, runs: &Runs, open: &[usize]) -> Option<(usize, Runs)> {
        let (lo, hi) = (runs.first()?.0, runs.last()?.1);
        self.ends.clear();
        let mut always = 0;
        for i in open {
            if self.boxes.allows(*i, at, runs) {
                always += 1;
                continue;
            }
            let ends = &mut self.ends;
            self.boxes.each_run(*i, at, &mut |l, h| {
                if l <= hi && h >= lo {
                    ends.push((l.max(lo), 1));
                    ends.push((h.min(hi) + 1, -1));
                }
            });
        }
        if always == open.len() {
            return None;
        }
        self.ends.sort_unstable();
        let mut free: Runs = Vec::new();
        let mut best: Option<(i32, (u32, u32))> = None;
        let (mut next, mut now) = (0, 0);
        for (lo, hi) in runs {
            let mut from = *lo;
            // Bound: the ends
            while from <= *hi {
                while let Some((_, more)) = self.ends.get(next).filter(|e| e.0 <= from) {
                    now += more;
                    next += 1;
                }
                let behind = self.ends.get(next).map_or(hi + 1, |e| e.0.min(hi + 1));
                let run = (from, behind - 1);
                if now == 0 {
                    free.push(run);
                }
                let wider = |(l, h): (u32, u32)| run.1 - run.0 > h - l;
                if best.is_none_or(|(n, old)| now < n || now == n && wider(old)) {
                    best = Some((now, run));
                }
                from = behind;
            }
        }
        match free.is_empty() {
            false => Some((always, free)),
            true => best.map(|(n, run)| (always + n.max(0) as usize, vec![run])),
        }
    }

    /// Takes filters away from the set, one after the other: exact, within `work`.
    fn left(&mut self, cube: &Cube, open: &[usize]) -> Left {
        // the one that asks the least beyond what is known leaves the fewest parts
        let mut best: Option<(usize, usize)> = None;
        for i in open {
            let most = best.map_or(usize::MAX, |b| b.0);
            let n = self.boxes.asks(*i, cube, most);
            if n == 0 {
                return Left::Nothing;
            }
            if n < most {
                best = Some((n, *i));
            }
        }
        let Some((_, e)) = best else {
            return self.offer(cube);
        };
        self.work = match self.work.checked_sub(open.len() + 16) {
            Some(w) => w,
            None => return Left::TooLong,
        };
        let mut inside = cube.clone();
        for at in 0..cube.0.len() {
            let Some(runs) = inside.0.get(at) else {
                continue;
            };
            let outside = self.boxes.outside(runs, e, at);
            if outside.is_empty() {
                continue;
            }
            let within = self.boxes.inside(runs, e, at);
            let mut part = inside.clone();
            if let Some(to) = part.0.get_mut(at) {
                *to = outside;
            }
            // no packet may be there, whatever filters take
            if !self.small(&part) || self.possible(&part) {
                let rest: Vec<usize> = self.open(&part, open);
                match self.left(&part, &rest) {
                    Left::Nothing => {}
                    other => return other,
                }
            }
            if within.is_empty() {
                return Left::Nothing;
            }
            if let Some(to) = inside.0.get_mut(at) {
                *to = within;
            }
        }
        Left::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::{ValueSet, max_of};
    use onefold_synth::program::{Dim, Filter};
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_assume, proptest};

    fn bits(bit: i32, bits: u8) -> Dim {
        Dim::Bits { bit, bits }
    }

    /// Two intervals of one dimension.
    type Part = (usize, [u8; 4]);

    fn filter(parts: &[Part], dims: &[(Dim, u8)]) -> Filter {
        let mut f = Filter::default();
        for (d, v) in parts {
            let (dim, width) = dims[d % dims.len()];
            let max = max_of(width);
            let pair = |a: u8, b: u8| (u128::from(a.min(b)) & max, u128::from(a.max(b)) & max);
            let fix = |(a, b): (u128, u128)| (a.min(b), a.max(b));
            let set = ValueSet::from_intervals([fix(pair(v[0], v[1])), fix(pair(v[2], v[3]))]);
            f.narrow(dim, &set, width);
        }
        f.0.retain(|(d, s)| !s.is_full(d.width()));
        f
    }

    fn lists() -> impl Strategy<Value = Vec<Vec<Part>>> {
        let part = (0usize..3, [0u8..16, 0u8..16, 0u8..16, 0u8..16]);
        proptest::collection::vec(proptest::collection::vec(part, 0..4), 1..40)
    }

    fn ask(all: &[Filter]) -> (Found, Option<Filter>) {
        let boxes = Boxes::new(all);
        let cube = boxes.cube(all.len() - 1);
        let earlier = boxes.overlapping(&cube, all.len() - 1);
        let mut part = None;
        let found = exists(
            &boxes,
            &cube,
            &earlier,
            (&mut Rng::new(1), &mut 1_000_000),
            &mut |c| {
                part = Some(boxes.filter(c));
                true
            },
        );
        (found, part)
    }

    proptest! {
            /// Three fields of four bits: what is said to be left is left, and nothing is where nothing is said to be.
            #[test]
            fn what_is_left_is_known(parts in lists()) {
                let dims: Vec<(Dim, u8)> = (0..3).map(|i| (bits(i * 4, 4), 4)).collect();
                let all: Vec<Filter> = parts.iter().map(|p| filter(p, &dims)).collect();
                let (cube, earlier) = all.split_last().unwrap();
                prop_assume!(cube.0.iter().all(|(_, s)| !s.is_empty()));
                let fits = |f: &Filter, v: u128| {
                    let value = |d: Dim| (0..3).find(|i| dims[*i].0 == d).map_or(0, |i| v >> (4 * i) & 15);
                    f.0.iter().all(|(d, s)| s.contains(value(*d)))
                };
                let free = |v: u128| fits(cube, v) && !earlier.iter().any(|e| fits(e, v));
                let any = (0..4096u128).any(free);
                let (found, part) = ask(&all);
                prop_assert_eq!(found, if any { Found::Yes } else { Found::No });
                if let Some(part) = part {
                    let inside: Vec<u128> = (0..4096u128).filter(|v| fits(&part, *v)).collect();
                    prop_assert!(!inside.is_empty() && inside.into_iter().all(free));
                }
            }

            /// Fields that overlap: a packet that there is, is found.
            #[test]
            fn fields_that_overlap_are_understood(parts in lists()) {
                let dims = [(bits(0, 8), 8), (bits(4, 4), 4), (bits(6, 6), 6)];
                let all: Vec<Filter> = parts.iter().map(|p| filter(p, &dims)).collect();
                let (cube, earlier) = all.split_last().unwrap();
                prop_assume!(cube.0.iter().all(|(_, s)| !s.is_empty()));
                let earlier: Vec<&Filter> = earlier.iter().collect();
                let (found, part) = ask(&all);
                // twelve bits: whether one number fits
                let read = |v: u128, d: Dim| match d {
                    Dim::Bits { bit, bits } => (v >> (12 - bit - i32::from(bits))) & max_of(bits),
                    _ => 0,
                };
                let fits = |f: &Filter, v: u128| f.0.iter().all(|(d, s)| s.contains(read(v, *d)));
                let any = (0..4096u128).any(|v| fits(cube, v) && !earlier.iter().any(|e| fits(e, v)));
                prop_assert!(!any || found == Found::Yes);
                if let Some(part) = part {
    let free = |v: u128| fits(cube, v) && !earlier.iter().any(|e| fits(e, v));
                    prop_assert!((0..4096u128).all(|v| !fits(&part, v) || free(v)));
                }
            }
        }
}
