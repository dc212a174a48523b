//! Actions without entries: where few intervals of addresses and ports decide, and nothing is a flow's own, all packets of a class have one action
//! and need no entry of their own flow.
//!
//! Behind such an entry port, intervals of every field that is part of a flow's key are numbered; each combination within a
//! [masked match](crate::flow::masked_match::MaskedMatch) is a place in a small table. A packet's place costs one comparison of a row for each field: no hash,
//! and no memory that grows with flows. Headers never seen before cost what all others cost.

use crate::simd::any::Any;
use crate::simd::intervals::FieldIntervals;
use crate::simd::word_tree::{MAX_TREES, Ranks, WordTree};
use crate::simd::{At, HEAD_AT, ROW, Wide};
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

/// A field of the key, cut into intervals, and how many places it is from one interval to the next.
#[derive(Debug, Clone)]
struct Field<T> {
    cuts: T,
    stride: u32,
}

/// A field of 32 bits at most.
#[derive(Debug, Clone)]
struct Narrow {
    byte: u8,
    shift: u8,
    mask: u64,
    /// For sixteen packets at once, if it is within one word of an IP header and what follows, and intervals are few.
    quick: Option<FieldIntervals>,
    /// The last value of each interval but the last one; no value is above what stands behind these. If there are several rows, the first
    /// one has the last value of each other.
    rows: Box<[Row]>,
}

/// A field of more bits: an IPv6 address, or a part of one.
#[derive(Debug, Clone)]
struct Long {
    at: At<16>,
    shift: u8,
    mask: u128,
    /// For sixteen packets at once, if it is whole words: which one of the cache's trees.
    quick: Option<u8>,
    /// The first value of each interval but the first one.
    cuts: Box<[u128]>,
}

impl Narrow {
    /// `None` if it is not within eight bytes of the window.
    fn of(bit: i32, bits: u8, cuts: &[u128]) -> Option<Narrow> {
        let Read::Word { byte, shift, mask } = bits_read(bit, bits)? else {
            return None;
        };
        let end = |c: &u128| u32::try_from(c.checked_sub(1)?).ok();
        let ends = cuts.iter().map(end).collect::<Option<Vec<u32>>>()?;
        Some(Narrow {
            byte,
            shift,
            mask,
            quick: from_columns(bit).and_then(|from| FieldIntervals::of(from, bits, &ends)),
            rows: rows(&ends),
        })
    }

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
    fn number(&self, wide: impl Wide, w: &[u8; WINDOW]) -> u32 {
        let v = word(w, self.byte, self.shift, self.mask) as u32;
        let above = |i: usize| self.rows.get(i).map_or(0, |r| wide.above(v, &r.0));
        let first = above(0);
        match self.rows.len() {
            1 => first,
            _ => first * ROW as u32 + above(1 + first as usize),
        }
    }
}

impl Long {
    /// `None` if it is not within sixteen bytes of the window.
    fn of(bit: i32, bits: u8, cuts: &[u128], trees: &mut Vec<WordTree>) -> Option<Long> {
        let first = usize::try_from(bit).ok()?;
        let at = (first / 8).min(WINDOW - 16);
        let end = first + usize::from(bits);
        let shift = ((at + 16) * 8).checked_sub(end)?;
        let from = from_columns(bit).filter(|from| from.is_multiple_of(32));
        let tree = from.and_then(|from| WordTree::of(from / 32, bits, cuts));
        let quick = tree.and_then(|tree| share(tree, trees));
        Some(Long {
            at: At::of(at)?,
            shift: u8::try_from(shift).ok()?,
            mask: u128::MAX >> (u128::BITS - u32::from(bits)),
            quick,
            cuts: cuts.into(),
        })
    }

    /// Which interval?
    #[inline]
    fn number(&self, w: &[u8; WINDOW]) -> u32 {
        let v = u128::from_be_bytes(self.at.get(w)) >> (self.shift & 127) & self.mask;
        self.cuts.partition_point(|c| *c <= v) as u32
    }
}

/// Which one of these a tree is; it is put to them if it is none and there is room.
fn share(tree: WordTree, trees: &mut Vec<WordTree>) -> Option<u8> {
    let at = trees.iter().position(|t| *t == tree).or_else(|| {
        (trees.len() < MAX_TREES).then(|| {
            trees.push(tree);
            trees.len() - 1
        })
    });
    at.and_then(|i| u8::try_from(i).ok())
}

/// A bit of the window, counted from the first bit of the columns; only masked matches whose header begins there ask
/// them.
fn from_columns(bit: i32) -> Option<usize> {
    usize::try_from(bit).ok()?.checked_sub(HEAD_AT * 8)
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
    fields: Vec<Field<Narrow>>,
    long: Vec<Field<Long>>,
    places: usize,
}

impl IntervalFields {
    /// `None` where there are bindings, or too many intervals. `trees`: of all fields of a cache.
    pub fn of(reads: &ShapeReads, trees: &mut Vec<WordTree>) -> Option<IntervalFields> {
        if reads.binds || reads.slots || reads.keys.len() > MAX_FIELDS {
            return None;
        }
        let (mut fields, mut long) = (Vec::new(), Vec::new());
        let mut places = 1;
        for d in &reads.keys {
            let cuts = d.cuts.as_ref()?;
            let Dim::Bits { bit, bits } = d.dim else {
                return None;
            };
            if cuts.is_empty() {
                continue;
            }
            if cuts.len() > MAX_ENDS {
                return None;
            }
            let stride = places as u32;
            if bits <= 32 {
                let cuts = Narrow::of(bit, bits, cuts)?;
                fields.push(Field { cuts, stride });
            } else {
                let cuts = Long::of(bit, bits, cuts, trees)?;
                long.push(Field { cuts, stride });
            }
            places *= cuts.len() + 1;
            if places > MAX_PLACES {
                return None;
            }
        }
        Some(IntervalFields {
            fields,
            long,
            places,
        })
    }
}

/// Columns of sixteen headers.
pub(crate) enum Headers<'a, N> {
    /// The first 32 bytes of each.
    Short(&'a [N]),
    /// Those of IPv6, and the intervals of addresses, by the cache's trees.
    Long(&'a mut Ranks<N>, &'a [WordTree]),
}

impl<N> Headers<'_, N> {
    #[inline(always)]
    fn words(&self) -> &[N] {
        match self {
            Headers::Short(words) => words,
            Headers::Long(ranks, _) => &ranks.words,
        }
    }
}

/// The places of one masked match, among those of its cache: each has an action, which is [`BY_FLOW`], [`UNKNOWN`], or
/// what is done to all packets of the place.
#[derive(Debug, Clone)]
pub(crate) struct IntervalTable {
    fields: Box<[Field<Narrow>]>,
    long: Box<[Field<Long>]>,
    /// The first place, and how many.
    first: u32,
    places: u32,
    /// Some place has had an action for all of its packets. If none has, there is no need to ask for places: packets
    /// are looked up by their flows, and those of places of which nothing is known have no entries.
    pub decides: bool,
}

/// As many places are read from registers.
const FEW: u32 = 32;

impl IntervalTable {
    /// `places`: those of the cache, to which its own are added.
    pub fn new(f: &IntervalFields, places: &mut Vec<u32>) -> IntervalTable {
        let first = places.len();
        places.resize(first + f.places, UNKNOWN);
        IntervalTable {
            fields: f.fields.clone().into(),
            long: f.long.clone().into(),
            // Bound: of each masked match `MAX_PLACES`
            first: first as u32,
            places: f.places as u32,
            decides: false,
        }
    }

    /// Its own ones of a cache's places.
    #[inline(always)]
    fn own<'a>(&self, places: &'a [u32]) -> &'a [u32] {
        let first = self.first as usize;
        places
            .get(first..first + self.places as usize)
            .unwrap_or_default()
    }

    /// Are there more places than registers have room for? All of a cache's are read at once, then.
    #[inline(always)]
    pub fn many_places(&self) -> bool {
        self.places > FEW
    }

    #[inline(always)]
    fn index(&self, wide: impl Wide, w: &[u8; WINDOW]) -> usize {
        let mut at = 0;
        for f in &self.fields {
            at += f.cuts.number(wide, w) * f.stride;
        }
        for f in &self.long {
            at += f.cuts.number(w) * f.stride;
        }
        at as usize
    }

    /// What is known of packets like this one.
    #[inline(always)]
    pub fn get(&self, wide: impl Wide, w: &[u8; WINDOW], places: &[u32]) -> u32 {
        let place = self.index(wide, w);
        self.own(places).get(place).copied().unwrap_or(UNKNOWN)
    }

    /// What is known of sixteen packets with these places of its own.
    #[inline(always)]
    pub fn pick<W: Wide>(&self, wide: W, at: W::N, places: &[u32]) -> W::N {
        wide.pick(self.own(places), at)
    }

    /// Places of its own as those of the cache.
    #[inline(always)]
    pub fn among_all<W: Wide>(&self, wide: W, at: W::N) -> W::N {
        wide.plus(at, wide.all(self.first))
    }

    /// The places of sixteen packets, by the words of their headers; `None` where that cannot be told at once.
    #[inline(always)]
    pub fn many<W: Wide>(&self, wide: W, headers: Headers<'_, W::N>) -> Option<W::N> {
        let mut at = wide.all(0);
        for f in &self.fields {
            let n = f.cuts.quick.as_ref()?.number(wide, headers.words())?;
            // of the first field each interval is a place
            at = match f.stride {
                1 => wide.plus(at, n),
                stride => wide.plus(at, wide.times(n, wide.all(stride))),
            };
        }
        if let Headers::Long(ranks, trees) = headers {
            for f in &self.long {
                let n = ranks.number(wide, trees, f.cuts.quick?)?;
                at = wide.plus(at, wide.times(n, wide.all(f.stride)));
            }
        } else if !self.long.is_empty() {
            return None;
        }
        Some(at)
    }

    /// Now it is known.
    pub fn set(&mut self, w: &[u8; WINDOW], what: u32, places: &mut [u32]) {
        let at = self.index(Any, w);
        self.decides |= what < BY_FLOW;
        if let Some(p) = places.get_mut(self.first as usize + at) {
            *p = what;
        }
    }

    /// Its fields, each with the interval that this packet's value is in; `None` if one of them is long.
    pub fn bounds(&self, w: &[u8; WINDOW]) -> Option<Vec<Bounds>> {
        let bounds = |f: &Field<Narrow>| {
            let f = &f.cuts;
            let bits = f.mask.count_ones() as usize;
            let n = f.number(Any, w) as usize;
            let end = |i: usize| f.end(i).map(u64::from);
            Bounds {
                bit: usize::from(f.byte) * 8 + 64 - usize::from(f.shift) - bits,
                bits,
                lo: n.checked_sub(1).and_then(end).map_or(0, |e| e + 1),
                hi: end(n).unwrap_or(f.mask).min(f.mask),
            }
        };
        let short = self.long.is_empty();
        short.then(|| self.fields.iter().map(bounds).collect())
    }

    /// Are all of these values of a field in the interval that this packet's value is in?
    pub fn same_place(&self, w: &[u8; WINDOW], of: &Bounds, values: (u64, u64)) -> bool {
        let its = self.bounds(w).unwrap_or_default();
        let field = its.iter().find(|b| (b.bit, b.bits) == (of.bit, of.bits));
        field.is_some_and(|b| b.lo <= values.0 && values.1 <= b.hi)
    }

    /// Places that are known.
    pub fn known(&self, places: &[u32]) -> usize {
        self.own(places).iter().filter(|p| **p < BY_FLOW).count()
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
        IntervalFields::of(&reads, &mut Vec::new())
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
            // others of the cache
            let mut places = vec![UNKNOWN; 5];
            let d = IntervalTable::new(&fields(&[&cuts, &other]).unwrap(), &mut places);
            // each place its own
            for (i, p) in places[5..].iter_mut().enumerate() {
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
                    proptest::prop_assert_eq!(d.get(Any, &w, &places) as usize, d.index(Any, &w));
                    let mut all = [&[0; WINDOW]; ROW];
                    all[5] = &w;
                    let many = d.many(Any, Headers::Short(&Any.columns(&all)));
                    proptest::prop_assert_eq!(many.is_some(), cuts.len() <= MAX_INTERVALS);
                    if let Some(m) = many {
                        proptest::prop_assert_eq!(m.0[5] as usize, d.index(Any, &w));
                        let picked = d.pick(Any, m, &places);
                        let all = Any.pick(&places, d.among_all(Any, m));
                        proptest::prop_assert_eq!((picked.0, all.0[5]), (m.0, m.0[5]));
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
        assert!(
            IntervalFields::of(&none, &mut Vec::new()).is_none(),
            "flows have bindings"
        );
    }
}
