//! The cells of a field: values that all rules of a stage treat alike.

use onefold_element::model::{ValueSet, max_of};

/// Different sets of a field that are told apart, at most: one bit each.
pub(crate) const MAX_SETS: usize = 64;
/// Pieces of a field, at most.
const MAX_PIECES: usize = 8192;

/// Which sets of a list have a value, for all values.
#[derive(Debug, Clone)]
pub(crate) struct Cells {
    /// Where pieces begin, ascending; the first is 0.
    starts: Vec<u128>,
    /// The cell of each piece.
    cell: Vec<u16>,
    /// Which sets contain each cell.
    masks: Vec<u64>,
    bits: u8,
}

impl Cells {
    /// Of so many sets; `None` if there are too many of them, or of their pieces.
    pub fn new(sets: &[ValueSet], bits: u8) -> Option<Cells> {
        if sets.len() > MAX_SETS {
            return None;
        }
        let pieces: usize = sets.iter().map(|s| s.intervals().len()).sum();
        if pieces > MAX_PIECES {
            return None;
        }
        let max = max_of(bits);
        let mut starts = vec![0];
        for (lo, hi) in sets.iter().flat_map(|s| s.intervals()) {
            starts.push(*lo);
            if *hi < max {
                starts.push(hi + 1);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let mut masks: Vec<u64> = Vec::new();
        let mut cell = Vec::with_capacity(starts.len());
        for v in &starts {
            let has = sets.iter().enumerate();
            let mask = has.fold(0u64, |m, (i, s)| m | u64::from(s.contains(*v)) << i);
            let known = masks.iter().position(|m| *m == mask);
            cell.push(known.unwrap_or(masks.len()) as u16);
            if known.is_none() {
                masks.push(mask);
            }
        }
        Some(Cells {
            starts,
            cell,
            masks,
            bits,
        })
    }

    /// How many cells.
    pub fn len(&self) -> usize {
        self.masks.len()
    }

    /// The cell of a value.
    #[inline]
    pub fn of(&self, v: u128) -> u16 {
        let i = self.starts.partition_point(|s| *s <= v);
        self.cell.get(i.saturating_sub(1)).copied().unwrap_or(0)
    }

    /// Which sets, by number, have a value.
    #[inline]
    pub fn sets_of(&self, v: u128) -> u64 {
        let cell = usize::from(self.of(v));
        self.masks.get(cell).copied().unwrap_or(0)
    }

    /// The cells that the set with this number has.
    pub fn of_set(&self, set: usize) -> impl Iterator<Item = u16> {
        let has = move |(_, m): &(usize, &u64)| **m >> set & 1 == 1;
        (self.masks.iter().enumerate())
            .filter(has)
            .map(|(i, _)| i as u16)
    }

    /// The parts of a cell: from, to. One that goes on from the greatest value to 0 comes as one part with `from > to`.
    pub fn parts(&self, cell: u16) -> Vec<(u128, u128)> {
        let max = max_of(self.bits);
        let mut parts: Vec<(u128, u128)> = Vec::new();
        for (i, c) in self.cell.iter().enumerate() {
            if *c != cell {
                continue;
            }
            let end = self.starts.get(i + 1).map_or(max, |n| n - 1);
            match parts.last_mut() {
                Some((_, last)) if *last + 1 == self.starts[i] => *last = end,
                _ => parts.push((self.starts[i], end)),
            }
        }
        if let ([(0, _), .., (_, last)], true) = (&parts[..], parts.len() > 1)
            && *last == max
            && let Some((from, _)) = parts.pop()
        {
            parts[0].0 = from;
        }
        parts
    }
}

/// The set from `from` to `to`, round the end if `from > to`.
pub(crate) fn around(from: u128, to: u128, bits: u8) -> ValueSet {
    match from <= to {
        true => ValueSet::range(from, to),
        false => ValueSet::from_intervals([(0, to), (from, max_of(bits))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_cell_are_in_the_same_sets() {
        let sets = [
            ValueSet::one(1),
            ValueSet::range(6, 17),
            ValueSet::from_intervals([(0, 0), (2, 255)]),
        ];
        let c = Cells::new(&sets, 8).unwrap();
        assert_eq!(c.len(), 3);
        for a in 0..256u128 {
            for b in 0..256 {
                let same = sets.iter().all(|s| s.contains(a) == s.contains(b));
                assert_eq!(c.of(a) == c.of(b), same, "{a} {b}");
            }
        }
        assert_eq!(c.parts(c.of(7)), [(6, 17)]);
        // round the end
        assert_eq!(c.parts(c.of(0)), [(18, 0), (2, 5)]);
        assert!(around(18, 0, 8).contains(255) && !around(18, 0, 8).contains(1));
        assert_eq!(c.of_set(1).collect::<Vec<_>>(), [c.of(7)]);
    }
}
