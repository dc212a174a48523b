//! What is done for 64 bytes, for a row of numbers, or for sixteen packets at once: with AVX-512 or AVX2 in a few instructions, else in whatever the compiler makes
//! of it for the registers that there are ([`crate::flow::steps`]).
#![allow(unsafe_code)]

pub(crate) mod any;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod bits;
pub(crate) mod dispatch;
pub(crate) mod hash;
pub(crate) mod intervals;
pub(crate) mod merge;
pub(crate) mod sum;
pub(crate) mod window_rewrite;
pub(crate) mod word_tree;

pub(crate) use crate::simd::any::Any;
use crate::simd::hash::{MORE, Secrets};
use crate::simd::intervals::IntervalEnds;
use crate::simd::merge::MergeWords;
use crate::simd::sum::SumBytes;
use crate::simd::window_rewrite::{AddSums, Operands, WindowRewrite};

/// Bytes of a packet that are looked at together.
pub(crate) const WINDOW: usize = 64;
/// Packets that are looked up together: as many as a word has bits.
pub(crate) const GROUP: usize = 64;
/// Numbers of a row.
pub(crate) const ROW: usize = 16;
/// Tags of a bucket.
pub(crate) const TAGS: usize = 8;
/// Bytes of a header that are turned into columns.
pub(crate) const HEAD: usize = 32;

/// Where a header begins that is turned into columns: behind addresses and type of Ethernet.
pub(crate) const HEAD_AT: usize = 14;

/// Bytes before those columns and behind them that are turned into columns, too: where the first and the second half of them begin.
pub(crate) const EDGES: (usize, usize) = (0, HEAD_AT + HEAD);

/// Words of a header in columns, and of the bytes behind it that are columns, too: an IPv6 header with ports.
pub(crate) const COLUMNS: usize = HEAD / 4 + HEAD / 8;

/// Lanes numbers on a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Lanes(pub [u32; ROW]);

/// The same number, in a register of its own. Answers of several comparisons would be put together into wide registers otherwise, one by one, to
/// be looked at together: it takes longer than the comparisons.
#[inline(always)]
pub(crate) fn by_itself(v: u32) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mut v = v;
        // SAFETY: no instruction at all.
        unsafe {
            std::arch::asm!("/* {0:e} */", inout(reg) v, options(pure, nomem, nostack, preserves_flags));
        }
        v
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    v
}

/// A place in a window with room for `N` bytes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct At<const N: usize>(u8);

impl<const N: usize> At<N> {
    /// The last one that there is.
    pub const LAST: At<N> = At((WINDOW - N) as u8);
    /// `None` where there is no room.
    pub const fn of(at: usize) -> Option<At<N>> {
        match at + N <= WINDOW {
            true => Some(At(at as u8)),
            false => None,
        }
    }
    pub fn place(self) -> usize {
        self.0.into()
    }
    /// The bytes that stand there.
    #[inline(always)]
    pub fn get(self, w: &[u8; WINDOW]) -> [u8; N] {
        // SAFETY: a place has room for `N` bytes in a window, or it would not have been made.
        unsafe { w.as_ptr().add(self.0.into()).cast::<[u8; N]>().read() }
    }
    #[inline(always)]
    pub fn put(self, w: &mut [u8; WINDOW], bytes: [u8; N]) {
        // SAFETY: as above.
        unsafe {
            w.as_mut_ptr()
                .add(self.0.into())
                .cast::<[u8; N]>()
                .write(bytes);
        }
    }
}

/// Which of an entry's words have what endangers its packets ([`crate::flow::flow_action::Flow::zero_udp_checksum`]).
pub(crate) const ZERO_SUM_WORDS: [usize; 3] = [4, 6, 7];

/// An instruction set.
pub(crate) trait Wide: SumBytes + MergeWords + AddSums {
    /// 64 bytes in registers.
    type V: Copy;
    fn load(self, w: &[u8; WINDOW]) -> Self::V;
    /// Is each byte under its mask one of `lo` to `lo + span`? What a mask leaves out is 0 in both.
    fn inside(
        self,
        w: Self::V,
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool;
    /// Are sixteen packets' bytes so?
    fn all_inside(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool;
    /// Are sixteen packets' bits under the mask these?
    fn all_same(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool;
    /// [`Wide::all_same`], where the mask has none behind the first [`NEAR`](crate::simd::window_rewrite::NEAR) bytes.
    fn all_same_near(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool;
    /// Bits kept and bits set, then subtracted byte by byte.
    fn change(
        self,
        w: Self::V,
        keep: &[u8; WINDOW],
        set: &[u8; WINDOW],
        sub: &[u8; WINDOW],
        to: &mut [u8; WINDOW],
    );
    /// What is done to many packets, in registers if there are enough of them.
    type LoadedTemplate<'a>: Copy;
    fn take(self, template: &WindowRewrite) -> Self::LoadedTemplate<'_>;
    /// Writes what becomes of bytes by what is done to them, and by what is their flow's own: [`WindowRewrite::write`], of one that has been [arranged](WindowRewrite::arrange).
    fn rewrite(
        self,
        v: Self::V,
        taken: Self::LoadedTemplate<'_>,
        operands: &Operands,
        to: &mut [u8; WINDOW],
    );
    /// The same by a template that is [simple](WindowRewrite::simple).
    fn rewrite_near(self, template: &WindowRewrite, w: &mut [u8; WINDOW]);
    /// How many numbers of a row `v` is above.
    fn above(self, v: u32, row: &[u32; ROW]) -> u32;
    /// Which tags are equal to this one, but for their low bits: a bit each. The tag's own low bit is not set.
    fn equal(self, tags: &[u16; TAGS], tag: u16) -> u32;
    /// Of each place the byte that stands where `turn` says, within the same sixteen.
    fn turned_by(self, v: Self::V, turn: &[u8; WINDOW]) -> Self::V;
    /// Which tags' low bits are set: a bit each.
    fn odd(self, tags: &[u16; TAGS]) -> u32;
    /// Is a quarter of one of an entry's words of [`ZERO_SUM_WORDS`] this one, and not zero? Some bit is set if so.
    fn zeroes_checksum(self, entry: &[u64; 8], x: u16) -> u32;
    /// What has been found of many packets.
    type ZeroSums: Copy;
    fn no_zero_sums(self) -> Self::ZeroSums;
    /// [`Wide::zeroes_checksum`] of one packet more. What is zero may be taken for one, which is a danger to few: that nothing is found is right, and something may be found that is none.
    fn more_zero_sums(self, so_far: Self::ZeroSums, entry: &[u64; 8], x: u16) -> Self::ZeroSums;
    /// Has any been found?
    fn any_zero_sums(self, of: Self::ZeroSums) -> bool;

    /// Lanes numbers in registers.
    type N: Copy;
    fn all(self, v: u32) -> Self::N;
    fn get(self, from: &Lanes) -> Self::N;
    fn put(self, v: Self::N, to: &mut Lanes);
    /// Sums, without carry.
    fn plus(self, a: Self::N, b: Self::N) -> Self::N;
    /// Differences, without borrow.
    fn minus(self, a: Self::N, b: Self::N) -> Self::N;
    /// Products' low halves.
    fn times(self, a: Self::N, b: Self::N) -> Self::N;
    fn and(self, a: Self::N, b: Self::N) -> Self::N;
    /// Shifted right by `by`, which is below 32.
    fn right(self, a: Self::N, by: u32) -> Self::N;
    /// Where `a` is above `b`: a bit each.
    fn over(self, a: Self::N, b: Self::N) -> u16;
    /// Some of sixteen packets.
    type M: Copy;
    /// All of them.
    fn every(self) -> Self::M;
    /// Is there any?
    fn any_among(self, some: Self::M) -> bool;
    /// Those of them whose `v` is this value.
    fn equal_among(self, some: Self::M, v: Self::N, value: u32) -> Self::M;
    /// `n`, and `more` for those of them whose `v` is above a number: this number, and `more`.
    fn add_above(
        self,
        n: Self::N,
        some: Self::M,
        v: Self::N,
        above_and_more: (u32, u32),
    ) -> Self::N;
    /// How many of these numbers each is above.
    fn rank(self, v: Self::N, ends: &IntervalEnds) -> Self::N;
    /// The big-endian words of sixteen headers, from [`HEAD_AT`] on: one column for each.
    fn columns(self, windows: &[&[u8; WINDOW]; ROW]) -> [Self::N; HEAD / 4];
    /// The words of what is around them, little-endian: four from the first place that [`EDGES`] says, and four from the second.
    fn edges(self, windows: &[&[u8; WINDOW]; ROW]) -> [Self::N; HEAD / 4];
    /// The last two bytes of each window, as upper halves of big-endian words.
    #[inline(always)]
    fn last_halves(self, windows: &[&[u8; WINDOW]; ROW]) -> Self::N {
        let mut to = Lanes([0; ROW]);
        let mut i = 0;
        // Loops over indices: adapters may not be inlined
        while i < ROW {
            let [.., a, b] = *windows[i];
            to.0[i] = u32::from_be_bytes([a, b, 0, 0]);
            i += 1;
        }
        self.get(&to)
    }
    /// Each with its bytes in the opposite order.
    fn swapped(self, v: Self::N) -> Self::N;
    /// The first bits of each, as many as `n` says as a number with a sign: none below 1, all above 31.
    fn first_bits(self, v: Self::N, n: Self::N) -> Self::N;
    /// `so_far`, with bits set where `v` under the mask is not this value.
    fn unlike(self, so_far: Self::N, v: Self::N, mask: u32, value: u32) -> Self::N;
    /// `so_far`, with bits set where any byte of `v` under the mask is not one of `lo` to `lo + span`.
    fn beyond(self, so_far: Self::N, v: Self::N, mask: u32, lo: u32, span: u32) -> Self::N;
    /// Which are zero: a bit each.
    fn zero(self, v: Self::N) -> u16;
    /// Those of these numbers that stand at these places; of places beyond the last, the last one. There is one at least.
    fn pick(self, from: &[u32], at: Self::N) -> Self::N;
    /// Those whose bit is set are written down.
    fn put_some(self, v: Self::N, which: u16, to: &mut [u32; ROW]);
    /// The same number, likewise.
    fn number(self, v: u16, which: u16, to: &mut [u16; ROW]);
    /// Of a group's numbers, those that are this one: a bit each.
    fn same(self, of: &[u32; GROUP], v: u32) -> u64;
    /// The sum of those of a group's numbers whose bit is set, without carry.
    fn sum(self, of: &[u32; GROUP], which: u64) -> u32;
    /// Those of a group's numbers whose bit is set become this one.
    fn set(self, v: u32, which: u64, to: &mut [u32; GROUP]);
    /// Those of `b` whose bit is set, and others of `a`.
    fn choose(self, a: Self::N, b: Self::N, which: u16) -> Self::N;
    /// The lower half of each.
    fn halves(self, v: Self::N, to: &mut [u16; ROW]);
    /// Two words each, of these numbers: the lower and the upper half of the first, and of the second.
    fn pairs(self, of: &[Self::N; 4], to: &mut [[u64; 2]; ROW]);
    /// Sums of 64 bits, one for each of sixteen packets, without carry.
    type H: Copy;
    /// Products.
    fn product(self, a: Self::N, b: Self::N) -> Self::H;
    fn sum_of(self, a: Self::H, b: Self::H) -> Self::H;
    /// Hashes that are made of such sums by these two factors, their [tags](crate::simd::hash::tag), and the numbers
    /// of buckets, of so many.
    fn mixed_hashes(self, h: Self::H, by: ([u64; 2], u32), to: Hashes<'_>);

    /// The product of two numbers, to each of which half of a secret has been added; none but where the bit is set.
    #[inline(always)]
    fn secret_product(self, [a, b]: [Self::N; 2], secret: u64, which: u16) -> Self::H {
        let a = self.plus(a, self.all(secret as u32));
        let b = self.plus(b, self.all((secret >> 32) as u32));
        let a = match which {
            u16::MAX => a,
            _ => self.choose(self.all(0), a, which),
        };
        self.product(a, b)
    }
    /// [`onefold_table::hash_words`] of keys of two words, by the numbers that [`Wide::pairs`] makes them of.
    #[inline(always)]
    fn hashes(self, of: &[Self::N; 4], (secrets, n): (&[u64; 4], u32), to: Hashes<'_>) {
        let [a, b, c, d] = *of;
        let [p, q, r, s] = *secrets;
        let first = self.secret_product([a, b], p, u16::MAX);
        let h = self.sum_of(first, self.secret_product([c, d], q, u16::MAX));
        self.mixed_hashes(h, ([r, s], n), to);
    }
    /// The same; of those whose bit is set, which have these further words, [`Secrets::hash_long`].
    #[inline(always)]
    fn long_hashes(
        self,
        of: &[Self::N; 4],
        (more, which): (&[[Self::N; 2]; MORE], u16),
        (secrets, n): (&Secrets, u32),
        to: Hashes<'_>,
    ) {
        let [a, b, c, d] = *of;
        let [p, q, r, s] = secrets.short;
        let first = self.secret_product([a, b], p, u16::MAX);
        let mut h = self.sum_of(first, self.secret_product([c, d], q, u16::MAX));
        let mut i = 0;
        // Loops over indices: adapters may not be inlined
        while i < MORE {
            h = self.sum_of(h, self.secret_product(more[i], secrets.more[i], which));
            i += 1;
        }
        self.mixed_hashes(h, ([r, s], n), to);
    }
}

/// Where hashes go: these, what they say in a bucket, and the buckets' numbers.
pub(crate) type Hashes<'a> = (&'a mut [u64; ROW], &'a mut [u16; ROW], &'a mut [u32; ROW]);

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::simd::avx2::Avx2;
    use crate::simd::avx512::Avx512;

    /// A word of the windows.
    fn all_of(windows: &[&[u8; WINDOW]; ROW], i: usize) -> u32 {
        let w = windows[i % ROW];
        u32::from_ne_bytes(w.as_chunks().0[i / ROW])
    }

    /// A group's numbers: which are the same as one, a sum, and some that are set.
    fn same_of_group<W: Wide>(wide: W, windows: &[&[u8; WINDOW]; ROW]) -> u64 {
        let new = all_of(windows, 0);
        let mut group: [u32; GROUP] = std::array::from_fn(|i| all_of(windows, i * 3));
        group[GROUP / 2 + 1] = group[3];
        let which = u64::from(all_of(windows, 1)) << 32 | u64::from(all_of(windows, 2));
        let same = wide.same(&group, group[3]);
        assert_eq!(same & (1 << (GROUP / 2 + 1) | 8), 1 << (GROUP / 2 + 1) | 8);
        let some = (0..GROUP).filter(|i| which >> i & 1 == 1);
        let sum = some.clone().fold(0u32, |s, i| s.wrapping_add(group[i]));
        assert_eq!(wide.sum(&group, which), sum);
        let mut want = group;
        some.for_each(|i| want[i] = new);
        wide.set(new, which, &mut group);
        assert_eq!(group, want);
        same
    }

    /// Pairs of words, and the hashes of keys that are made of them and of further words.
    fn pairs_and_hashes<W: Wide>(wide: W, c: &[W::N; HEAD / 4], row: &[u32]) -> [[u64; 2]; ROW] {
        let [a, b, ..] = *c;
        let four = [c[2], a, b, c[3]];
        let mut pairs = [[0; 2]; ROW];
        wide.pairs(&four, &mut pairs);
        let secrets = std::array::from_fn(|i| u64::from(row[i]) << 32 | u64::from(row[i + 4]) | 1);
        let (mut hashes, mut tags, mut buckets) = ([0; ROW], [0; ROW], [0; ROW]);
        let to = (&mut hashes, &mut tags, &mut buckets);
        wide.hashes(&four, (&secrets, 12_345), to);
        for i in 0..ROW {
            let h = onefold_table::hash_words(&secrets, pairs[i][0], pairs[i][1]);
            let bucket = crate::simd::hash::scaled(h as u32, 12_345);
            assert_eq!((h, bucket), (hashes[i], buckets[i]));
            assert_eq!(crate::simd::hash::tag(h), tags[i]);
        }
        let secrets = Secrets {
            short: secrets,
            more: std::array::from_fn(|i| u64::from(row[i + 8]) << 32 | u64::from(row[i + 12])),
        };
        let more = [[c[4], c[5]], [c[6], c[7]], [c[1], c[0]]];
        let which = wide.over(a, b);
        let to = (&mut hashes, &mut tags, &mut buckets);
        wide.long_hashes(&four, (&more, which), (&secrets, 12_345), to);
        let (mut first, mut second) = ([[0; 2]; ROW], [[0; 2]; ROW]);
        wide.pairs(&[c[4], c[5], c[6], c[7]], &mut first);
        wide.pairs(&[c[1], c[0], c[0], c[0]], &mut second);
        for i in 0..ROW {
            let [x, y] = pairs[i];
            let h = match which >> i & 1 {
                0 => onefold_table::hash_words(&secrets.short, x, y),
                _ => secrets.hash_long(&[x, y, first[i][0], first[i][1], second[i][0]]),
            };
            let bucket = crate::simd::hash::scaled(h as u32, 12_345);
            assert_eq!((h, bucket), (hashes[i], buckets[i]));
            assert_eq!(crate::simd::hash::tag(h), tags[i]);
        }
        pairs
    }

    /// What is asked of sixteen packets' bytes, and bytes that change places.
    fn bytes_of_all<W: Wide>(wide: W, windows: &[&[u8; WINDOW]; ROW]) {
        let (mut mask, mut lo, mut span) = ([0; WINDOW], [0; WINDOW], [0; WINDOW]);
        for i in 0..4 {
            let at = i * 17;
            let all = windows.iter().map(|w| w[at]);
            (mask[at], lo[at]) = (0xff, all.clone().min().unwrap_or(0));
            span[at] = all.max().unwrap_or(0) - lo[at];
            assert!(wide.all_inside(windows, &mask, &lo, &span));
            let mut less = span;
            less[at] = less[at].saturating_sub(1);
            assert_eq!(wide.all_inside(windows, &mask, &lo, &less), less == span);
            let mut one = [0; WINDOW];
            one[at] = mask[at];
            assert_eq!(wide.all_same(windows, &one, &lo), span[at] == 0);
            if at < crate::simd::window_rewrite::NEAR {
                assert_eq!(wide.all_same_near(windows, &one, &lo), span[at] == 0);
            }
        }
        let place = |i: usize| (i / 16 * 16 + usize::from(windows[i % ROW][i]) % 16) as u8;
        let (turn, mut to) = (std::array::from_fn(place), [0; WINDOW]);
        let turned = wide.turned_by(wide.load(windows[0]), &turn);
        wide.change(turned, &[0xff; WINDOW], &[0; WINDOW], &[0; WINDOW], &mut to);
        assert_eq!(to, turn.map(|from| windows[0][usize::from(from)]));
    }

    /// What sixteen packets are asked, one way or the other.
    fn numbers<W: Wide>(wide: W, windows: &[&[u8; WINDOW]; ROW]) -> Vec<u32> {
        let mut all = Vec::new();
        let mut keep = |v: W::N| {
            let mut to = Lanes([0; ROW]);
            wide.put(wide.plus(wide.get(&to), v), &mut to);
            all.extend(to.0);
        };
        let c = wide.columns(windows);
        c.iter().for_each(|c| keep(*c));
        let [a, b, ..] = c;
        keep(wide.minus(a, b));
        keep(wide.times(a, b));
        keep(wide.and(a, b));
        keep(wide.right(a, 16));
        keep(wide.right(a, 0));
        keep(wide.last_halves(windows));
        for n in [wide.and(b, wide.all(63)), wide.all(0), wide.all(32), b] {
            keep(wide.first_bits(a, n));
            keep(wide.first_bits(a, wide.minus(n, wide.all(32))));
        }
        for n in [1, 2, 4, 8] {
            let mut some: Vec<u32> = (0..n * ROW - 1).map(|i| all_of(windows, i)).collect();
            some.sort_unstable();
            let ends = IntervalEnds::of(&some);
            let mut to = Lanes([0; ROW]);
            for v in [a, b, wide.all(some[3]), wide.all(0), wide.all(u32::MAX)] {
                wide.put(wide.rank(v, &ends), &mut to);
                all.extend(to.0);
                let mut of = Lanes([0; ROW]);
                wide.put(v, &mut of);
                for (got, v) in to.0.iter().zip(of.0) {
                    assert_eq!(*got as usize, some.partition_point(|s| *s < v));
                }
            }
        }
        let mut keep = |v: W::N| {
            let mut to = Lanes([0; ROW]);
            wide.put(v, &mut to);
            all.extend(to.0);
        };
        keep(wide.all(wide.over(a, b).into()));
        let row: Vec<u32> = (0..33).map(|i| all_of(windows, i)).collect();
        keep(wide.pick(&row, wide.and(a, wide.all(63))));
        for n in [1, 2, 15, 16, 17, 31, 32] {
            keep(wide.pick(&row[..n], wide.and(a, wide.all(63))));
        }
        keep(wide.pick(&row[..1], a));
        let (mut some, mut same) = ([7; ROW], [7; ROW]);
        wide.put_some(a, wide.over(a, b), &mut some);
        wide.number(9, wide.over(a, b), &mut same);
        keep(wide.get(&Lanes(some)));
        keep(wide.get(&Lanes(same.map(u32::from))));
        let same = same_of_group(wide, windows);
        keep(wide.all(same as u32));
        keep(wide.all((same >> 32) as u32));
        keep(wide.choose(a, b, wide.over(a, b)));
        keep(wide.swapped(a));
        let some = wide.equal_among(wide.every(), wide.and(a, wide.all(3)), 1);
        assert!(wide.any_among(wide.every()));
        keep(wide.all(wide.any_among(some).into()));
        keep(wide.add_above(b, some, a, (row[3], 5)));
        keep(wide.add_above(b, wide.every(), a, (row[3], 5)));
        let mut halves = [0; ROW];
        wide.halves(a, &mut halves);
        keep(wide.get(&Lanes(halves.map(u32::from))));
        let pairs = pairs_and_hashes(wide, &c, &row);
        keep(wide.get(&Lanes(pairs.map(|p| p[0] as u32))));
        keep(wide.get(&Lanes(pairs.map(|p| (p[1] >> 32) as u32))));
        bytes_of_all(wide, windows);
        let edges = wide.edges(windows);
        edges.iter().for_each(|c| keep(*c));
        let (first, second) = (all_of(windows, 0), all_of(windows, 1));
        for c in [edges[0], edges[5]] {
            for mask in [0, 0xff00, 0xff_00ff, u32::MAX] {
                keep(wide.unlike(a, c, mask, first & mask));
                keep(wide.beyond(a, c, mask, first & mask, second & mask));
                let none = wide.unlike(wide.all(0), c, mask, first & mask);
                keep(wide.all(wide.zero(none).into()));
                let none = wide.beyond(wide.all(0), c, mask, first & mask, second & mask);
                keep(wide.all(wide.zero(none).into()));
            }
        }
        all
    }

    /// What is asked of one packet, of a row, and of tags.
    fn each_alone<W: Wide>(
        x: W,
        (w, bit): (&[u8; WINDOW], usize),
        (row, v): (&[u32; ROW], u32),
        tags: &[u16; TAGS],
    ) {
        let mut mask = [0; WINDOW];
        mask[bit / 8] = 1 << (bit % 8);
        let mut value = [0; WINDOW];
        value[bit / 8] = w[bit / 8] & mask[bit / 8];
        let mut other = *w;
        other[bit / 8] ^= mask[bit / 8];
        let entry: [u64; 8] =
            std::array::from_fn(|i| u64::from(row[i]) << 32 | u64::from(row[i + 8]));
        let quarters = |i: usize| (0..4).map(move |k| (i, k));
        let quarter = |(i, k): (usize, usize)| (entry[i] >> (16 * k)) as u16;
        let zero_sums = || {
            ZERO_SUM_WORDS
                .iter()
                .flat_map(|i| quarters(*i))
                .map(quarter)
        };
        for word_match in zero_sums()
            .chain(quarters(2).map(quarter))
            .chain([0, 1, v as u16])
        {
            let want = word_match != 0 && zero_sums().any(|d| d == word_match);
            assert_eq!(x.zeroes_checksum(&entry, word_match) != 0, want);
            let none = x.no_zero_sums();
            assert!(!x.any_zero_sums(none));
            let some = x.more_zero_sums(none, &entry, word_match);
            assert!(
                x.any_zero_sums(some) == want || word_match == 0 && zero_sums().any(|d| d == 1)
            );
            assert!(!want || x.any_zero_sums(x.more_zero_sums(some, &[1; 8], 2)));
        }
        let none = [0; WINDOW];
        assert!(x.inside(x.load(w), &mask, &value, &none));
        assert!(!x.inside(x.load(&other), &mask, &value, &none));
        // ranges of whole bytes
        let lo = [tags[0] as u8 * 40; WINDOW];
        let (all, span) = ([0xff; WINDOW], [100 + tags[1] as u8 * 50; WINDOW]);
        let inside = w.iter().all(|b| b.wrapping_sub(lo[0]) <= span[0]);
        assert_eq!(x.inside(x.load(w), &all, &lo, &span), inside);
        let mut changed = none;
        x.change(x.load(w), &mask, &value, &lo, &mut changed);
        let want = |i: usize| (w[i] & mask[i] | value[i]).wrapping_sub(lo[i]);
        assert_eq!(changed, std::array::from_fn(want));
        for v in [v, row[3], row[12], 0, u32::MAX] {
            let above = row.iter().filter(|x| **x < v).count() as u32;
            assert_eq!(x.above(v, row), above);
        }
        let want = (0..TAGS).filter(|i| tags[*i] & !1 == 2);
        assert_eq!(x.equal(tags, 2), want.map(|i| 1 << i).sum::<u32>());
        let odd = (0..TAGS).filter(|i| tags[*i] % 2 == 1);
        assert_eq!(x.odd(tags), odd.map(|i| 1 << i).sum::<u32>());
    }

    proptest::proptest! {
        #[test]
        fn sixteen_packets_are_asked_alike(bytes in proptest::collection::vec(0u8.., ROW * WINDOW)) {
            let all: Vec<&[u8; WINDOW]> = bytes.as_chunks().0.iter().collect();
            let windows: [&[u8; WINDOW]; ROW] = all.try_into().unwrap();
            let any = numbers(Any, &windows);
            for (i, v) in any.iter().take(HEAD / 4 * ROW).enumerate() {
                let from = HEAD_AT + i / ROW * 4;
                let want = u32::from_be_bytes(windows[i % ROW][from..from + 4].try_into().unwrap());
                proptest::prop_assert_eq!(*v, want);
            }
            if let Some(x) = Avx2::found() {
                proptest::prop_assert_eq!(&any, &numbers(x, &windows));
            }
            if let Some(x) = Avx512::found() {
                proptest::prop_assert_eq!(&any, &numbers(x, &windows));
            }
        }

        #[test]
        fn all_do_the_same(
            w in proptest::collection::vec(0u8.., WINDOW),
            bit in 0..WINDOW * 8,
            row in proptest::collection::vec(proptest::num::u32::ANY, ROW),
            v in proptest::num::u32::ANY,
            tags in proptest::collection::vec(0u16..4, TAGS),
        ) {
            let row: [u32; ROW] = row.try_into().unwrap();
            let tags: [u16; TAGS] = tags.try_into().unwrap();
            let w: [u8; WINDOW] = w.try_into().unwrap();
            each_alone(Any, (&w, bit), (&row, v), &tags);
            if let Some(x) = Avx2::found() {
                each_alone(x, (&w, bit), (&row, v), &tags);
            }
            if let Some(x) = Avx512::found() {
                each_alone(x, (&w, bit), (&row, v), &tags);
            }
        }
    }
}
