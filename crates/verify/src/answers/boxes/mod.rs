//! A list's filters as boxes of small numbers, for questions that look at thousands of them.
//!
//! In each dimension the values are told apart only as far as the list's filters do: values that the same filters allow
//! are one *class*. What a filter allows is then a few runs of classes, nearly always one, so that two filters are
//! compared by a few numbers of 32 bits, and an index answers for a set of packets, or for one packet, which filters
//! it meets, which ones contain it, and which ones it fits.

mod axis;
pub mod bits;

use crate::generate::read::Seen;
use crate::rng::Rng;
pub use axis::Runs;
use axis::{ANY, Axis, Side};
use bits::{Bits, has, ones, set_bit, some};
use onefold_element::model::{ValueSet, max_of};
use onefold_synth::program::{Dim, Filter};

/// A set of packets: runs of classes in each dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cube(pub Vec<Runs>);

/// The class of a packet in each dimension; `None` where it is not known.
pub type Point = Vec<Option<u32>>;

/// A list's filters. Bound: 100 bytes for each filter, dimension and end.
#[derive(Debug, Clone)]
pub struct Boxes {
    axes: Vec<Axis>,
    /// By filter: one for each axis.
    sides: Vec<Side>,
    /// Filters some of whose sides have several runs.
    several: Bits,
    len: usize,
    /// What one dimension says, no other one contradicts.
    independent: bool,
}

impl Boxes {
    /// Of these filters.
    pub fn new(filters: &[Filter]) -> Boxes {
        let lifted: Vec<Filter>;
        let (mut dims, mut filters) = (dims_of(filters), filters);
        if dims.iter().any(|d| whole(*d, &dims) != *d) {
            lifted = filters.iter().map(|f| lift(f, &dims)).collect();
            filters = &lifted;
            dims = dims_of(filters);
        }
        let stride = dims.len();
        let mut sides = vec![ANY; stride * filters.len()];
        let mut several = vec![0; filters.len().div_ceil(64)];
        let axes = (dims.iter().enumerate())
            .map(|(at, d)| {
                let mut axis = Axis::new(*d, filters, &mut |i, side| {
                    if side.list > 0 {
                        set_bit(&mut several, i);
                    }
                    if let Some(s) = sides.get_mut(i * stride + at) {
                        *s = side;
                    }
                });
                axis.index(filters.len(), |i| sides.get(i * stride + at).copied());
                axis
            })
            .collect();
        Boxes {
            axes,
            sides,
            several,
            len: filters.len(),
            independent: independent(&dims),
        }
    }

    /// How many filters there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Can packets be in any combination of what dimensions allow?
    pub fn independent(&self) -> bool {
        self.independent
    }

    /// Number of classes of each dimension.
    pub fn classes(&self) -> impl Iterator<Item = u32> + '_ {
        self.axes.iter().map(|a| a.classes)
    }

    fn sides(&self, i: usize) -> &[Side] {
        let n = self.axes.len();
        self.sides.get(i * n..(i + 1) * n).unwrap_or(&[])
    }

    fn runs<'a>(
        &'a self,
        axis: &'a Axis,
        side: &'a Side,
        room: &'a mut [(u32, u32); 1],
    ) -> &'a [(u32, u32)] {
        match side.list {
            0 => {
                room[0] = (side.lo, side.hi.min(axis.classes - 1));
                room
            }
            n => axis.lists.get(n as usize - 1).map_or(&[], |l| &l[..]),
        }
    }

    /// Calls `each` with the runs of a filter in one dimension.
    pub fn each_run(&self, i: usize, at: usize, each: &mut dyn FnMut(u32, u32)) {
        let (Some(axis), Some(side)) = (self.axes.get(at), self.sides(i).get(at)) else {
            return;
        };
        let mut room = [(0, 0)];
        for (l, h) in self.runs(axis, side, &mut room) {
            each(*l, *h);
        }
    }

    /// The packets of a filter.
    pub fn cube(&self, i: usize) -> Cube {
        let mut out = Vec::with_capacity(self.axes.len());
        for (axis, side) in self.axes.iter().zip(self.sides(i)) {
            let mut room = [(0, 0)];
            out.push(self.runs(axis, side, &mut room).to_vec());
        }
        Cube(out)
    }

    /// Those packets of a set that have this value in a dimension, or values of the same class; `None`: there are none.
    pub fn with_value(&self, mut cube: Cube, dim: Dim, value: u128) -> Option<Cube> {
        let Some(at) = self.axes.iter().position(|a| a.dim == dim) else {
            return Some(cube);
        };
        let class = self.axes.get(at)?.class(value);
        let runs = cube.0.get_mut(at)?;
        if !contains(runs, class) {
            return None;
        }
        *runs = vec![(class, class)];
        Some(cube)
    }

    /// The packets of both a set and a filter; `None`: there are none.
    pub fn both(&self, cube: &Cube, i: usize) -> Option<Cube> {
        let mut out = Vec::with_capacity(self.axes.len());
        for ((axis, side), mine) in self.axes.iter().zip(self.sides(i)).zip(&cube.0) {
            let mut room = [(0, 0)];
            let both = meet(mine, self.runs(axis, side, &mut room));
            if both.is_empty() {
                return None;
            }
            out.push(both);
        }
        Some(Cube(out))
    }

    /// What a set's runs and a filter have in common in one dimension.
    pub fn inside(&self, runs: &[(u32, u32)], i: usize, at: usize) -> Runs {
        let mut room = [(0, 0)];
        match (self.axes.get(at), self.sides(i).get(at)) {
            (Some(axis), Some(side)) => meet(runs, self.runs(axis, side, &mut room)),
            _ => Vec::new(),
        }
    }

    /// What of a set's runs a filter leaves in one dimension.
    pub fn outside(&self, runs: &[(u32, u32)], i: usize, at: usize) -> Runs {
        let mut out = Vec::new();
        let (Some(axis), Some(side)) = (self.axes.get(at), self.sides(i).get(at)) else {
            return out;
        };
        let mut room = [(0, 0)];
        let gone = self.runs(axis, side, &mut room);
        for (lo, hi) in runs {
            let mut from = *lo;
            let mut done = false;
            for (l, h) in gone.iter().filter(|(l, h)| *h >= *lo && *l <= *hi) {
                if *l > from {
                    out.push((from, l - 1));
                }
                match *h >= *hi {
                    true => done = true,
                    false => from = h + 1,
                }
            }
            if !done {
                out.push((from, *hi));
            }
        }
        out
    }

    /// Does a filter contain all of a set?
    pub fn covers(&self, i: usize, cube: &Cube) -> bool {
        self.asks(i, cube, 1) == 0
    }

    /// In how many dimensions, `most` of them at most, a filter asks for less than a set allows.
    pub fn asks(&self, i: usize, cube: &Cube, most: usize) -> usize {
        let mut n = 0;
        for ((axis, side), mine) in self.axes.iter().zip(self.sides(i)).zip(&cube.0) {
            n += usize::from(!self.within(axis, side, mine));
            if n == most {
                break;
            }
        }
        n
    }

    /// In one dimension: does a filter allow all that a set does?
    pub fn allows(&self, i: usize, at: usize, runs: &[(u32, u32)]) -> bool {
        match (self.axes.get(at), self.sides(i).get(at)) {
            (Some(axis), Some(side)) => self.within(axis, side, runs),
            _ => true,
        }
    }

    fn within(&self, axis: &Axis, side: &Side, mine: &[(u32, u32)]) -> bool {
        let (Some((lo, _)), Some((_, hi))) = (mine.first(), mine.last()) else {
            return true;
        };
        if side.lo > *lo || side.hi < *hi {
            return false;
        }
        side.list == 0 || {
            let theirs = axis.lists.get(side.list as usize - 1);
            let inside = |(l, h): &(u32, u32)| {
                theirs.is_some_and(|t| t.iter().any(|(a, b)| a <= l && h <= b))
            };
            mine.iter().all(inside)
        }
    }

    /// Have a filter and a set no packet in common?
    pub fn is_disjoint(&self, i: usize, cube: &Cube) -> bool {
        for ((axis, side), mine) in self.axes.iter().zip(self.sides(i)).zip(&cube.0) {
            let (Some((lo, _)), Some((_, hi))) = (mine.first(), mine.last()) else {
                return true;
            };
            if side.lo > *hi || side.hi < *lo {
                return true;
            }
            if side.list == 0 && mine.len() == 1 {
                continue;
            }
            let mut room = [(0, 0)];
            let theirs = self.runs(axis, side, &mut room);
            if !mine
                .iter()
                .any(|(l, h)| theirs.iter().any(|(a, b)| a <= h && l <= b))
            {
                return true;
            }
        }
        false
    }

    /// The first `until` filters that meet a set as far as the first and the last class of each dimension tell.
    pub fn overlapping(&self, cube: &Cube, until: usize) -> Bits {
        self.between(cube, until, &|runs| Some((runs.last()?.1, runs.first()?.0)))
    }

    /// The first `until` filters that contain a set, as far as the same tells.
    pub fn covering(&self, cube: &Cube, until: usize) -> Bits {
        self.between(cube, until, &|runs| Some((runs.first()?.0, runs.last()?.1)))
    }

    /// Filters that begin at the first of two classes at the latest, and end at the second at the earliest.
    fn between(
        &self,
        cube: &Cube,
        until: usize,
        ends: &dyn Fn(&Runs) -> Option<(u32, u32)>,
    ) -> Bits {
        let mut acc = some(until.min(self.len));
        let words = self.len.div_ceil(64);
        let mut scratch = Vec::with_capacity(words);
        for (axis, runs) in self.axes.iter().zip(&cube.0) {
            let Some((lo, hi)) = ends(runs) else { continue };
            axis.first
                .keep_up_to(lo.into(), &mut acc, words, &mut scratch);
            axis.last
                .keep_up_to((u32::MAX - hi).into(), &mut acc, words, &mut scratch);
        }
        acc
    }

    /// The first of the filters `among`, and from `from` on, that a packet fits.
    pub fn first(&self, p: &Point, among: &Bits, from: usize) -> Option<usize> {
        let words = self.len.div_ceil(64);
        let mut acc = among.clone();
        for w in acc.iter_mut().take(from / 64) {
            *w = 0;
        }
        if let Some(w) = acc.get_mut(from / 64) {
            *w &= u64::MAX << (from % 64);
        }
        let mut scratch = Vec::with_capacity(words);
        for (axis, class) in self.axes.iter().zip(p) {
            let Some(c) = *class else { continue };
            axis.first
                .keep_up_to(c.into(), &mut acc, words, &mut scratch);
            axis.last
                .keep_up_to((u32::MAX - c).into(), &mut acc, words, &mut scratch);
        }
        ones(&acc).find(|i| !has(&self.several, *i) || self.fits(*i, p))
    }

    fn fits(&self, i: usize, p: &Point) -> bool {
        let mut all = self.axes.iter().zip(self.sides(i)).zip(p);
        all.all(|((axis, side), class)| {
            let mut room = [(0, 0)];
            class.is_none_or(|c| contains(self.runs(axis, side, &mut room), c))
        })
    }

    /// A packet's classes.
    pub fn point(&self, frame: &[u8]) -> Point {
        let seen = Seen::arrive(frame, 0);
        let class = |a: &Axis| seen.value(a.dim).map(|v| a.class(v));
        self.axes.iter().map(class).collect()
    }

    /// A packet of a set, any classes of it.
    pub fn random(&self, cube: &Cube, rng: &mut Rng) -> Point {
        let one = |runs: &Runs| {
            let many: usize = runs.iter().map(|(l, h)| (h - l) as usize + 1).sum();
            let mut n = rng.below(many.max(1)) as u32;
            for (l, h) in runs {
                match n <= h - l {
                    true => return Some(l + n),
                    false => n -= h - l + 1,
                }
            }
            None
        };
        cube.0.iter().map(one).collect()
    }

    /// The set of the packets that are in the same classes as one.
    pub fn around(&self, p: &Point) -> Cube {
        let one = |(axis, c): (&Axis, &Option<u32>)| match c {
            Some(c) => vec![(*c, *c)],
            None => vec![(0, axis.classes - 1)],
        };
        Cube(self.axes.iter().zip(p).map(one).collect())
    }

    /// A set, by values.
    pub fn filter(&self, cube: &Cube) -> Filter {
        let mut out = Filter::default();
        for (axis, runs) in self.axes.iter().zip(&cube.0) {
            if *runs != [(0, axis.classes - 1)] {
                out.0.push((axis.dim, axis.values(runs)));
            }
        }
        out
    }
}

/// All dimensions of filters, ascending.
fn dims_of(filters: &[Filter]) -> Vec<Dim> {
    let mut dims: Vec<Dim> = (filters.iter())
        .flat_map(|f| f.0.iter().map(|(d, _)| *d))
        .collect();
    dims.sort_unstable();
    dims.dedup();
    dims
}

/// The widest field that begins where one does.
fn whole(d: Dim, dims: &[Dim]) -> Dim {
    let Dim::Bits { bit, .. } = d else { return d };
    let same = dims
        .iter()
        .copied()
        .filter(|o| matches!(o, Dim::Bits { bit: b, .. } if *b == bit));
    same.max_by_key(|o| o.width()).unwrap_or(d)
}

/// The same filter, said of whole fields where it speaks of their first bits.
fn lift(f: &Filter, dims: &[Dim]) -> Filter {
    let mut out = Filter::default();
    for (d, set) in &f.0 {
        let to = whole(*d, dims);
        let more = to.width() - d.width();
        let wide = |(lo, hi): &(u128, u128)| (lo << more, (hi << more) | max_of(more));
        match more {
            0 => out.narrow(to, set, to.width()),
            _ => {
                let set = ValueSet::from_intervals(set.intervals().iter().map(wide));
                out.narrow(to, &set, to.width())
            }
        };
    }
    out
}

/// Fields of a packet that do not overlap, and nothing about its length or its headers as a whole.
fn independent(dims: &[Dim]) -> bool {
    let mut end = i32::MIN;
    // ascending by where they begin
    dims.iter().all(|d| match *d {
        Dim::Bits { bit, bits } => {
            let apart = bit >= end;
            end = end.max(bit + i32::from(bits));
            apart
        }
        _ => false,
    })
}

fn contains(runs: &[(u32, u32)], class: u32) -> bool {
    runs.iter().any(|(l, h)| (*l..=*h).contains(&class))
}

/// What two have in common.
fn meet(a: &[(u32, u32)], b: &[(u32, u32)]) -> Runs {
    let mut out = Vec::new();
    let (mut i, mut j) = (0, 0);
    while let (Some((al, ah)), Some((bl, bh))) = (a.get(i), b.get(j)) {
        let (lo, hi) = (*al.max(bl), *ah.min(bh));
        if lo <= hi {
            out.push((lo, hi));
        }
        match ah < bh {
            true => i += 1,
            false => j += 1,
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_assume, proptest};

    fn byte(i: i32) -> Dim {
        Dim::Bits {
            bit: i * 8,
            bits: 8,
        }
    }

    /// Conditions on three bytes, of one or two intervals.
    fn filter(parts: &[(i32, [u8; 4])]) -> Filter {
        let mut f = Filter::default();
        for (d, v) in parts {
            let pair = |a: u8, b: u8| (u128::from(a.min(b)), u128::from(a.max(b)));
            let set = ValueSet::from_intervals([pair(v[0], v[1]), pair(v[2], v[3])]);
            f.narrow(byte(*d), &set, 8);
        }
        f.0.retain(|(_, s)| !s.is_full(8));
        f
    }

    fn part() -> impl Strategy<Value = (i32, [u8; 4])> {
        (0i32..3, [0u8..40, 0u8..40, 0u8..40, 0u8..40])
    }

    proptest! {
        /// What is said of boxes is so of filters.
        #[test]
        fn boxes_are_filters(
            list in proptest::collection::vec(proptest::collection::vec(part(), 0..4), 1..150),
            of in proptest::collection::vec(part(), 0..3),
            frame in [0u8..42, 0u8..42, 0u8..42],
            from in 0usize..150,
        ) {
            let list: Vec<Filter> = list.iter().map(|p| filter(p)).collect();
            let boxes = Boxes::new(&list);
            prop_assert!(boxes.independent());
            let empty = |f: &Filter| f.0.iter().any(|(_, s)| s.is_empty());
            let p = boxes.point(&frame);
            let seen = Seen::arrive(&frame, 0);
            let fits = |f: &Filter| seen.fits(f).is_ok();
            let all = some(list.len());
            let want = (from..list.len()).find(|i| fits(&list[*i]));
            prop_assert_eq!(boxes.first(&p, &all, from), want);
            prop_assert!(fits(&boxes.filter(&boxes.around(&p))));
            // of filters in the list every question can be asked
            let f = filter(&of);
            let mut more = list.clone();
            more.push(f.clone());
            let boxes = Boxes::new(&more);
            prop_assume!(!empty(&f));
            let n = list.len();
            let cube = boxes.cube(n);
            prop_assert_eq!(&boxes.filter(&cube), &f);
            let (near, around) = (boxes.overlapping(&cube, n), boxes.covering(&cube, n));
            for (i, g) in list.iter().enumerate().filter(|(_, g)| !empty(g)) {
                prop_assert_eq!(boxes.is_disjoint(i, &cube), g.is_disjoint(&f));
                prop_assert_eq!(boxes.covers(i, &cube), g.covers(&f));
                prop_assert!(g.is_disjoint(&f) || has(&near, i));
                prop_assert!(!g.covers(&f) || has(&around, i));
                let both = boxes.both(&cube, i);
                prop_assert_eq!(both.is_none(), g.is_disjoint(&f));
                for at in 0..cube.0.len() {
                    let mut out = cube.clone();
                    out.0[at] = boxes.outside(&cube.0[at], i, at);
                    let d = boxes.axes[at].dim;
                    let full = ValueSet::full(8);
                    let (mine, theirs) = (f.get(d).unwrap_or(&full), g.get(d).unwrap_or(&full));
                    prop_assert_eq!(boxes.axes[at].values(&out.0[at]), mine.minus(theirs, 8));
                    let inside = boxes.inside(&cube.0[at], i, at);
                    prop_assert_eq!(boxes.axes[at].values(&inside), mine.intersect(theirs));
                }
            }
            let mut rng = Rng::new(from as u64);
            let q = boxes.random(&cube, &mut rng);
            prop_assert!(f.covers(&boxes.filter(&boxes.around(&q))));
        }
    }

    /// The first bits of a field, beside the whole field: one dimension.
    #[test]
    fn first_bits_are_said_of_the_whole() {
        let top = Dim::Bits { bit: 0, bits: 3 };
        let high = Filter(vec![(top, ValueSet::range(1, 7))]);
        let one = Filter(vec![(byte(0), ValueSet::one(33))]);
        let boxes = Boxes::new(&[high, one.clone()]);
        assert!(boxes.independent());
        let said = Filter(vec![(byte(0), ValueSet::range(32, 255))]);
        assert_eq!(boxes.filter(&boxes.cube(0)), said);
        assert!(boxes.covers(0, &boxes.cube(1)));
        assert_eq!(boxes.filter(&boxes.cube(1)), one);
    }

    #[test]
    fn values_with_the_same_sets_are_one_class() {
        // a flag set and another one not: 32 intervals, two classes
        let flags = ValueSet::masked(0x12, 0x02, 8, 256).unwrap();
        let f = Filter(vec![(byte(0), flags)]);
        let boxes = Boxes::new(&[f.clone(), Filter::default()]);
        assert_eq!(boxes.classes().collect::<Vec<_>>(), [2]);
        assert_eq!(boxes.filter(&boxes.cube(0)), f);
        assert!(boxes.several.iter().all(|w| *w == 0));
        assert_eq!(boxes.cube(1), Cube(vec![vec![(0, 1)]]));
    }
}
