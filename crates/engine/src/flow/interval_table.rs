//! Actions without entries: where few intervals of addresses and ports decide, and nothing is a flow's own, all packets of a class have one action
//! and need no entry of their own flow.
//!
//! Behind such an entry port, intervals of every field that is part of a flow's key are numbered; each combination within a
//! [masked match](crate::flow::masked_match::MaskedMatch) is a place in a small table. A packet's place costs one comparison of a row for each field: no hash,
//! and no memory that grows with flows. Headers never seen before cost what all others cost.

use crate::simd::any::Any;
use crate::simd::intervals::FieldIntervals;
use crate::simd::{HEAD, HEAD_AT, ROW, Wide};
use onefold_synth::program::Dim;

use crate::flow::field_read::{Read, bits_read, word};
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::program::reads::ShapeReads;
use crate::simd::WINDOW;

/// Combinations of intervals, at most.
const MAX_PLACES: usize = 1 << 15;
/// IntervalFields, at most.
const MAX_FIELDS: usize = 4;

/// Intervals of a field, at most: the last value of each row, and the rows.
const MAX_ENDS: usize = ROW * ROW;

/// A field of a key, and the interval that a packet's value is in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub bit: usize,
    pub bits: usize,
    pub lo: u64,
    pub hi: u64,
}

/// A row of numbers on a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Row([u32; ROW]);

/// A field of the key, cut into intervals.
#[derive(Debug, Clone)]
struct Field {
    byte: u8,
    shift: u8,
    mask: u64,
    /// Places from one interval to the next.
    stride: u32,
    /// For sixteen packets at once, if it is within one word of an IPv4 header and what follows, and intervals are few.
    quick: Option<FieldIntervals>,
    /// The last value of each interval but the last one; no value is above what stands behind these. If there are several rows, the first
    /// one has the last value of each other.
    rows: Box<[Row]>,
}

impl Field {
    /// The last value of an interval; `None` for the last one.
    fn end(&self, i: usize) -> Option<u32> {
        let rows = match self.rows.len() {
            1 => &self.rows[..],
            _ => self.rows.get(1..)?,
        };
        let row = rows.get(i / ROW)?;
        row.0.get(i % ROW).copied().filter(|e| *e < u32::MAX)
    }

    /// Which interval?
    #[inline(always)]
    fn number(&self, wide: impl Wide, v: u32) -> u32 {
        let above = |i: usize| self.rows.get(i).map_or(0, |r| wide.above(v, &r.0));
        let first = above(0);
        match self.rows.len() {
            1 => first,
            _ => first * ROW as u32 + above(1 + first as usize),
        }
    }
}

/// Numbers in rows.
fn rows(ends: &[u32]) -> Box<[Row]> {
    let row = |c: &[u32]| {
        let mut r = [u32::MAX; ROW];
        r.iter_mut().zip(c).for_each(|(to, x)| *to = *x);
        Row(r)
    };
    let mut all: Vec<Row> = ends.chunks(ROW).map(row).collect();
    if all.len() > 1 {
        let lasts: Vec<u32> = ends
            .chunks_exact(ROW)
            .filter_map(|c| c.last().copied())
            .collect();
        all.insert(0, row(&lasts));
        // behind the last full row there may be none, and nothing to be above of
        all.push(row(&[]));
    }
    all.into()
}

/// How places of a shape are found.
#[derive(Debug, Clone)]
pub(crate) struct IntervalFields {
    fields: Vec<Field>,
    places: usize,
}

impl IntervalFields {
    /// `None` where there are bindings, or too many intervals.
    pub fn of(reads: &ShapeReads) -> Option<IntervalFields> {
        if reads.binds || reads.slots || reads.keys.len() > MAX_FIELDS {
            return None;
        }
        let mut fields = Vec::new();
        let mut places = 1;
        for d in &reads.keys {
            let cuts = d.cuts.as_ref()?;
            let Dim::Bits { bit, bits } = d.dim else {
                return None;
            };
            let Read::Word { byte, shift, mask } = bits_read(bit, bits)? else {
                return None;
            };
            if cuts.is_empty() {
                continue;
            }
            if cuts.len() > MAX_ENDS || bits > 32 {
                return None;
            }
            let end = |c: &u128| u32::try_from(c.checked_sub(1)?).ok();
            let ends = cuts.iter().map(end).collect::<Option<Vec<u32>>>()?;
            // counted from the first bit of the columns; only masked matches whose header begins there ask them
            let from = usize::try_from(bit).ok()?.checked_sub(HEAD_AT * 8);
            fields.push(Field {
                byte,
                shift,
                mask,
                quick: from.and_then(|from| FieldIntervals::of(from, bits, &ends)),
                rows: rows(&ends),
                stride: places as u32,
            });
            places *= cuts.len() + 1;
            if places > MAX_PLACES {
                return None;
            }
        }
        Some(IntervalFields { fields, places })
    }
}

/// The places of one masked match.
#[derive(Debug, Clone)]
pub(crate) struct IntervalTable {
    fields: Box<[Field]>,
    /// The action of each: [`BY_FLOW`], [`UNKNOWN`], or what is done to all packets of the place.
    places: Box<[u32]>,
}

impl IntervalTable {
    pub fn new(f: &IntervalFields) -> IntervalTable {
        IntervalTable {
            fields: f.fields.clone().into(),
            places: vec![UNKNOWN; f.places].into(),
        }
    }

    #[inline(always)]
    fn index(&self, wide: impl Wide, w: &[u8; WINDOW]) -> usize {
        let mut at = 0;
        for f in &self.fields {
            let v = word(w, f.byte, f.shift, f.mask);
            at += f.number(wide, v as u32) * f.stride;
        }
        at as usize
    }

    /// What is known of packets like this one.
    #[inline(always)]
    pub fn get(&self, wide: impl Wide, w: &[u8; WINDOW]) -> u32 {
        let place = self.index(wide, w);
        self.places.get(place).copied().unwrap_or(UNKNOWN)
    }

    /// What is known of sixteen packets, by the words of their headers; `None` where that cannot be told at once.
    #[inline(always)]
    pub fn many<W: Wide>(&self, wide: W, words: &[W::N; HEAD / 4]) -> Option<W::N> {
        let mut at = wide.all(0);
        for f in &self.fields {
            let n = f.quick.as_ref()?.number(wide, words)?;
            // of the first field each interval is a place
            at = match f.stride {
                1 => wide.plus(at, n),
                stride => wide.plus(at, wide.times(n, wide.all(stride))),
            };
        }
        Some(wide.pick(&self.places, at))
    }

    /// Now it is known.
    pub fn set(&mut self, w: &[u8; WINDOW], what: u32) {
        let at = self.index(Any, w);
        if let Some(p) = self.places.get_mut(at) {
            *p = what;
        }
    }

    /// Its fields, each with the interval that this packet's value is in.
    pub fn bounds(&self, w: &[u8; WINDOW]) -> Vec<Bounds> {
        let bounds = |f: &Field| {
            let bits = f.mask.count_ones() as usize;
            let v = word(w, f.byte, f.shift, f.mask) as u32;
            let n = f.number(Any, v) as usize;
            let end = |i: usize| f.end(i).map(u64::from);
            Bounds {
                bit: usize::from(f.byte) * 8 + 64 - usize::from(f.shift) - bits,
                bits,
                lo: n.checked_sub(1).and_then(end).map_or(0, |e| e + 1),
                hi: end(n).unwrap_or(f.mask).min(f.mask),
            }
        };
        self.fields.iter().map(bounds).collect()
    }

    /// Are all of these values of a field in the interval that this packet's value is in?
    pub fn same_place(&self, w: &[u8; WINDOW], of: &Bounds, values: (u64, u64)) -> bool {
        let its = self.bounds(w);
        let field = its.iter().find(|b| (b.bit, b.bits) == (of.bit, of.bits));
        field.is_some_and(|b| b.lo <= values.0 && values.1 <= b.hi)
    }

    /// All of it is forgotten.
    pub fn clear(&mut self) {
        for p in &mut self.places {
            *p = UNKNOWN;
        }
    }

    /// Places that are known.
    pub fn known(&self) -> usize {
        self.places.iter().filter(|p| **p < BY_FLOW).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::reads::DimRead;
    use crate::simd::any::Any;
    use crate::simd::intervals::MAX_INTERVALS;

    fn fields(cuts: &[&[u32]]) -> Option<IntervalFields> {
        let key = |(i, c): (usize, &&[u32])| DimRead {
            dim: Dim::Bits {
                bit: 26 * 8 + i as i32 * 32,
                bits: 32,
            },
            reg: 0,
            cuts: Some(c.iter().map(|c| u128::from(*c)).collect()),
        };
        let reads = ShapeReads {
            keys: cuts.iter().enumerate().map(key).collect(),
            ..ShapeReads::default()
        };
        IntervalFields::of(&reads)
    }

    proptest::proptest! {
        /// Two values have one place if and only if no cut is between them.
        #[test]
        fn places_are_intervals(
            n in 1usize..MAX_ENDS,
            seed in proptest::num::u32::ANY,
            values in proptest::collection::vec(proptest::num::u32::ANY, 20),
        ) {
            let mut cuts: Vec<u32> = (1..=n as u32).map(|i| i.wrapping_mul(seed | 1).max(1)).collect();
            cuts.sort_unstable();
            cuts.dedup();
            let other = [7, 1000];
            let mut d = IntervalTable::new(&fields(&[&cuts, &other]).unwrap());
            // each place its own
            for (i, p) in d.places.iter_mut().enumerate() {
                *p = i as u32;
            }
            let near = cuts.iter().flat_map(|c| [c - 1, *c]);
            for v in near.chain(values).chain([0, u32::MAX]) {
                let want = cuts.partition_point(|c| *c <= v);
                for (o, k) in [(0, 0), (6, 0), (7, 1), (999, 1), (1000, 2), (u32::MAX, 2)] {
                    let mut w = [0; WINDOW];
                    w[26..30].copy_from_slice(&v.to_be_bytes());
                    w[30..34].copy_from_slice(&u32::to_be_bytes(o));
                    proptest::prop_assert_eq!(d.index(Any, &w), want + k * (cuts.len() + 1));
                    let mut all = [&[0; WINDOW]; ROW];
                    all[5] = &w;
                    let many = d.many(Any, &Any.columns(&all));
                    proptest::prop_assert_eq!(many.is_some(), cuts.len() <= MAX_INTERVALS);
                    if let Some(m) = many {
                        proptest::prop_assert_eq!(m.0[5] as usize, d.index(Any, &w));
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_too_much_is_left_to_the_table() {
        let many: Vec<u32> = (1..=MAX_ENDS as u32).collect();
        assert!(fields(&[&many]).is_some());
        assert!(fields(&[&many, &many]).is_none(), "too many places");
        let more: Vec<u32> = (1..=MAX_ENDS as u32 + 1).collect();
        assert!(fields(&[&more]).is_none());
        let none = ShapeReads {
            binds: true,
            ..ShapeReads::default()
        };
        assert!(IntervalFields::of(&none).is_none(), "flows have bindings");
    }
}
