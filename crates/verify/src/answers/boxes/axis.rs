//! One dimension of a list's filters: its values as classes.

use super::bits::set_bit;
use crate::generate::index::Ends;
use crate::rng::Rng;
use onefold_element::model::{ValueSet, max_of};
use onefold_synth::program::{Dim, Filter};
use std::collections::HashMap;

/// Runs of classes, ascending and apart; never none.
pub type Runs = Vec<(u32, u32)>;

/// The values of one dimension, as classes.
#[derive(Debug, Clone)]
pub struct Axis {
    pub dim: Dim,
    /// First value of each interval that is told apart, ascending from 0, and its class.
    cells: Vec<(u128, u32)>,
    /// The intervals of each class, where one of them has several.
    merged: Option<Vec<Vec<u32>>>,
    /// How many classes there are.
    pub classes: u32,
    /// What filters allow in more than one run.
    pub lists: Vec<Runs>,
    /// Filters by the first class of theirs, and by the last one counted from above.
    pub first: Ends,
    pub last: Ends,
}

/// What one filter allows in one dimension: classes from `lo` to `hi`; `list` is the number of the runs plus one, where
/// that is not all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    pub lo: u32,
    pub hi: u32,
    pub list: u32,
}

/// Anything.
pub const ANY: Side = Side {
    lo: 0,
    hi: u32::MAX,
    list: 0,
};

impl Axis {
    /// The classes of what filters ask of a dimension; `put` gets what each of them allows.
    pub fn new(dim: Dim, filters: &[Filter], put: &mut dyn FnMut(usize, Side)) -> Axis {
        let max = max_of(dim.width());
        // each set once, by number
        let mut known: HashMap<&ValueSet, u32> = HashMap::new();
        let mut sets: Vec<&ValueSet> = Vec::new();
        let mut of: Vec<(usize, u32)> = Vec::new();
        for (i, f) in filters.iter().enumerate() {
            if let Some(s) = f.get(dim) {
                let n = *known.entry(s).or_insert_with(|| {
                    sets.push(s);
                    sets.len() as u32 - 1
                });
                of.push((i, n));
            }
        }
        // where a set begins or ends; a value's sets are told by a sum of random numbers, one for each set
        let mut rng = Rng::new(0x0b0c);
        let mut marks: Vec<(u128, u128)> = Vec::new();
        for s in &sets {
            let mark = rng.wide();
            for (lo, hi) in s.intervals().iter().filter(|(lo, _)| *lo <= max) {
                marks.push((*lo, mark));
                if *hi < max {
                    marks.push((hi + 1, mark));
                }
            }
        }
        marks.sort_unstable();
        let mut cells: Vec<(u128, u32)> = Vec::new();
        let mut class_of: HashMap<u128, u32> = HashMap::new();
        let mut sum = 0u128;
        let mut at = 0;
        let mut from = 0;
        loop {
            while let Some((v, m)) = marks.get(at)
                && *v <= from
            {
                sum ^= m;
                at += 1;
            }
            let n = class_of.len() as u32;
            let class = *class_of.entry(sum).or_insert(n);
            if cells.last().is_none_or(|(_, c)| *c != class) {
                cells.push((from, class));
            }
            match marks.get(at) {
                Some((v, _)) => from = *v,
                None => break,
            }
        }
        let classes = class_of.len() as u32;
        let merged = (cells.len() > class_of.len()).then(|| {
            let mut by = vec![Vec::new(); class_of.len()];
            for (i, (_, c)) in cells.iter().enumerate() {
                if let Some(l) = by.get_mut(*c as usize) {
                    l.push(i as u32);
                }
            }
            by
        });
        let mut axis = Axis {
            dim,
            cells,
            merged,
            classes,
            lists: Vec::new(),
            first: Ends::default(),
            last: Ends::default(),
        };
        let sides: Vec<Side> = sets.iter().map(|s| axis.side(s)).collect();
        for (i, n) in of {
            if let Some(s) = sides.get(n as usize) {
                put(i, *s);
            }
        }
        axis
    }

    /// The classes of a set that some filter asks for.
    fn side(&mut self, set: &ValueSet) -> Side {
        let mut all: Vec<u32> = Vec::new();
        for (lo, hi) in set.intervals() {
            let from = self.cells.partition_point(|(v, _)| v <= lo) - 1;
            let to = self.cells.partition_point(|(v, _)| v <= hi);
            all.extend(self.cells.get(from..to).unwrap_or(&[]).iter().map(|c| c.1));
        }
        all.sort_unstable();
        all.dedup();
        let mut runs: Runs = Vec::new();
        for c in all {
            match runs.last_mut() {
                Some((_, h)) if *h + 1 == c => *h = c,
                _ => runs.push((c, c)),
            }
        }
        match (runs.first(), runs.last()) {
            (Some((lo, _)), Some((_, hi))) => {
                let (lo, hi) = (*lo, *hi);
                let list = match runs.len() {
                    1 => 0,
                    _ => {
                        self.lists.push(runs);
                        self.lists.len() as u32
                    }
                };
                Side { lo, hi, list }
            }
            // nothing fits: behind all classes
            _ => Side {
                lo: u32::MAX,
                hi: 0,
                list: 0,
            },
        }
    }

    /// Orders filters by both ends of what they allow.
    pub fn index(&mut self, filters: usize, side: impl Fn(usize) -> Option<Side>) {
        let mut free = vec![0; filters.div_ceil(64)];
        let (mut first, mut last) = (Vec::new(), Vec::new());
        for i in 0..filters {
            match side(i) {
                Some(s) if s != ANY => {
                    first.push((s.lo.into(), i as u32));
                    last.push(((u32::MAX - s.hi).into(), i as u32));
                }
                _ => set_bit(&mut free, i),
            }
        }
        self.first = Ends::new(first, &free);
        self.last = Ends::new(last, &free);
    }

    /// The class of a value.
    pub fn class(&self, value: u128) -> u32 {
        let at = self.cells.partition_point(|(v, _)| *v <= value);
        self.cells.get(at.saturating_sub(1)).map_or(0, |c| c.1)
    }

    fn cell(&self, i: usize) -> Option<(u128, u128)> {
        let (from, _) = self.cells.get(i)?;
        let until = self.cells.get(i + 1).map(|c| c.0 - 1);
        Some((*from, until.unwrap_or(max_of(self.dim.width()))))
    }

    /// The values of classes.
    pub fn values(&self, runs: &Runs) -> ValueSet {
        let whole =
            |(l, h): &(u32, u32)| Some((self.cell(*l as usize)?.0, self.cell(*h as usize)?.1));
        match &self.merged {
            None => ValueSet::from_intervals(runs.iter().filter_map(whole)),
            Some(by) => {
                let classes = runs.iter().flat_map(|(l, h)| *l..=*h);
                let cells = classes.flat_map(|c| by.get(c as usize).into_iter().flatten());
                ValueSet::from_intervals(cells.filter_map(|i| self.cell(*i as usize)))
            }
        }
    }
}
