//! With what every processor has.

use crate::simd::GROUP;
use crate::simd::WINDOW;
use crate::simd::hash::{scaled, tag};
use crate::simd::intervals::IntervalEnds;
use crate::simd::window_rewrite::Operands;
use crate::simd::window_rewrite::WindowRewrite;
use crate::simd::{EDGES, HEAD, HEAD_AT, Hashes, Lanes, ROW, TAGS, Wide, ZERO_SUM_WORDS};

/// Whatever the processor is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Any;

impl Wide for Any {
    type V = [u8; WINDOW];
    #[inline(always)]
    fn load(self, w: &[u8; WINDOW]) -> [u8; WINDOW] {
        *w
    }
    #[inline(always)]
    fn inside(
        self,
        w: [u8; WINDOW],
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool {
        // Byte by byte and by index: vectors straight from memory. Words put together first would be stored one by one and loaded as
        // vectors again, which stalls.
        let mut over = 0;
        #[allow(clippy::needless_range_loop)]
        for i in 0..WINDOW {
            over |= (w[i] & mask[i]).wrapping_sub(lo[i]).saturating_sub(span[i]);
        }
        over == 0
    }
    #[inline(always)]
    fn all_inside(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        lo: &[u8; WINDOW],
        span: &[u8; WINDOW],
    ) -> bool {
        let mut all = true;
        for w in windows {
            all &= self.inside(**w, mask, lo, span);
        }
        all
    }
    #[inline(always)]
    fn all_same(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool {
        let mut other = 0;
        for w in windows {
            for i in 0..WINDOW {
                other |= (w[i] ^ bits[i]) & mask[i];
            }
        }
        other == 0
    }
    #[inline(always)]
    fn all_same_near(
        self,
        windows: &[&[u8; WINDOW]; ROW],
        mask: &[u8; WINDOW],
        bits: &[u8; WINDOW],
    ) -> bool {
        self.all_same(windows, mask, bits)
    }
    #[inline(always)]
    fn change(
        self,
        w: [u8; WINDOW],
        keep: &[u8; WINDOW],
        set: &[u8; WINDOW],
        sub: &[u8; WINDOW],
        to: &mut [u8; WINDOW],
    ) {
        for i in 0..WINDOW {
            to[i] = (w[i] & keep[i] | set[i]).wrapping_sub(sub[i]);
        }
    }
    type LoadedTemplate<'a> = &'a WindowRewrite;
    #[inline(always)]
    fn take(self, template: &WindowRewrite) -> &WindowRewrite {
        template
    }
    #[inline(always)]
    fn rewrite(
        self,
        v: [u8; WINDOW],
        template: &WindowRewrite,
        operands: &Operands,
        to: &mut [u8; WINDOW],
    ) {
        template.write(v, to, operands);
    }
    #[inline(always)]
    fn rewrite_near(self, template: &WindowRewrite, w: &mut [u8; WINDOW]) {
        template.write_simple(*w, w);
    }
    #[inline(always)]
    fn above(self, v: u32, row: &[u32; ROW]) -> u32 {
        row.iter().map(|x| u32::from(v > *x)).sum()
    }
    #[inline(always)]
    fn equal(self, tags: &[u16; TAGS], tag: u16) -> u32 {
        let mut m = 0;
        for (i, t) in tags.iter().enumerate() {
            m |= u32::from(t & !1 == tag) << i;
        }
        m
    }
    #[inline(always)]
    fn turned_by(self, v: [u8; WINDOW], turn: &[u8; WINDOW]) -> [u8; WINDOW] {
        let mut to = v;
        for (to, from) in to.iter_mut().zip(turn) {
            *to = v[usize::from(*from) % WINDOW];
        }
        to
    }
    #[inline(always)]
    fn odd(self, tags: &[u16; TAGS]) -> u32 {
        let mut m = 0;
        for (i, t) in tags.iter().enumerate() {
            m |= u32::from(t & 1) << i;
        }
        m
    }
    #[inline(always)]
    fn zeroes_checksum(self, entry: &[u64; 8], x: u16) -> u32 {
        let [a, b, c] = ZERO_SUM_WORDS;
        u32::from(self.among(&[entry[a], entry[b], entry[c]], x)) & u32::from(x != 0)
    }
    type ZeroSums = u32;
    #[inline(always)]
    fn no_zero_sums(self) -> u32 {
        0
    }
    #[inline(always)]
    fn more_zero_sums(self, so_far: u32, entry: &[u64; 8], x: u16) -> u32 {
        so_far | self.zeroes_checksum(entry, x)
    }
    #[inline(always)]
    fn any_zero_sums(self, of: u32) -> bool {
        of != 0
    }

    type N = Lanes;
    #[inline(always)]
    fn all(self, v: u32) -> Lanes {
        Lanes([v; ROW])
    }
    #[inline(always)]
    fn get(self, from: &Lanes) -> Lanes {
        *from
    }
    #[inline(always)]
    fn put(self, v: Lanes, to: &mut Lanes) {
        *to = v;
    }
    #[inline(always)]
    fn plus(self, a: Lanes, b: Lanes) -> Lanes {
        each(a, b, u32::wrapping_add)
    }
    #[inline(always)]
    fn minus(self, a: Lanes, b: Lanes) -> Lanes {
        each(a, b, u32::wrapping_sub)
    }
    #[inline(always)]
    fn times(self, a: Lanes, b: Lanes) -> Lanes {
        each(a, b, u32::wrapping_mul)
    }
    #[inline(always)]
    fn and(self, a: Lanes, b: Lanes) -> Lanes {
        each(a, b, |a, b| a & b)
    }
    #[inline(always)]
    fn right(self, a: Lanes, by: u32) -> Lanes {
        each(a, a, |a, _| a >> (by & 31))
    }
    #[inline(always)]
    fn over(self, a: Lanes, b: Lanes) -> u16 {
        let mut m = 0;
        for i in 0..ROW {
            m |= u16::from(a.0[i] > b.0[i]) << i;
        }
        m
    }
    /// All ones for those that are there, zero for the others.
    type M = Lanes;
    #[inline(always)]
    fn every(self) -> Lanes {
        self.all(u32::MAX)
    }
    #[inline(always)]
    fn any_among(self, some: Lanes) -> bool {
        some.0.iter().fold(0, |a, b| a | b) != 0
    }
    #[inline(always)]
    fn equal_among(self, some: Lanes, v: Lanes, value: u32) -> Lanes {
        each(some, v, |s, v| if v == value { s } else { 0 })
    }
    #[inline(always)]
    fn add_above(self, n: Lanes, some: Lanes, v: Lanes, (above, more): (u32, u32)) -> Lanes {
        let add = each(some, v, |s, v| if v > above { s & more } else { 0 });
        self.plus(n, add)
    }
    #[inline(always)]
    fn rank(self, v: Lanes, ends: &IntervalEnds) -> Lanes {
        each(v, v, |v, _| {
            let more = |end: &u32| usize::from(v > *end);
            let row: usize = ends.heads[..ends.rows - 1].iter().map(more).sum();
            let quarters = ends.quarters.iter().map(|q| &q.0[row]);
            let quarter = row * 4 + quarters.map(more).sum::<usize>();
            let places = ends.places.iter();
            let places = places.map(|p| &p[quarter / ROW % 2].0[quarter % ROW]);
            (quarter * 4 + places.map(more).sum::<usize>()) as u32
        })
    }
    #[inline(always)]
    fn columns(self, windows: &[&[u8; WINDOW]; ROW]) -> [Lanes; HEAD / 4] {
        let mut to = [Lanes([0; ROW]); HEAD / 4];
        for (i, w) in windows.iter().enumerate() {
            for (c, b) in to.iter_mut().zip(w[HEAD_AT..].as_chunks::<4>().0) {
                c.0[i] = u32::from_be_bytes(*b);
            }
        }
        to
    }
    #[inline(always)]
    fn edges(self, windows: &[&[u8; WINDOW]; ROW]) -> [Lanes; HEAD / 4] {
        let mut to = [Lanes([0; ROW]); HEAD / 4];
        for (i, w) in windows.iter().enumerate() {
            let (first, second) = (&w[EDGES.0..EDGES.0 + HEAD / 2], &w[EDGES.1..]);
            let words = first.as_chunks::<4>().0.iter().chain(second.as_chunks().0);
            for (c, b) in to.iter_mut().zip(words) {
                c.0[i] = u32::from_le_bytes(*b);
            }
        }
        to
    }
    #[inline(always)]
    fn swapped(self, v: Lanes) -> Lanes {
        each(v, v, |v, _| v.swap_bytes())
    }
    #[inline(always)]
    fn first_bits(self, v: Lanes, n: Lanes) -> Lanes {
        each(v, n, |v, n| {
            let n = (n as i32).clamp(0, 32) as u32;
            v & !u32::MAX.checked_shr(n).unwrap_or(0)
        })
    }
    #[inline(always)]
    fn unlike(self, so_far: Lanes, v: Lanes, mask: u32, value: u32) -> Lanes {
        each(so_far, v, |s, v| s | (v & mask) ^ value)
    }
    #[inline(always)]
    fn beyond(self, so_far: Lanes, v: Lanes, mask: u32, lo: u32, span: u32) -> Lanes {
        let (lo, span) = (lo.to_ne_bytes(), span.to_ne_bytes());
        each(so_far, v, |s, v| {
            let mut b = (v & mask).to_ne_bytes();
            for i in 0..b.len() {
                b[i] = b[i].wrapping_sub(lo[i]).saturating_sub(span[i]);
            }
            s | u32::from_ne_bytes(b)
        })
    }
    #[inline(always)]
    fn zero(self, v: Lanes) -> u16 {
        let mut m = 0;
        for i in 0..ROW {
            m |= u16::from(v.0[i] == 0) << i;
        }
        m
    }
    #[inline(always)]
    fn pick(self, from: &[u32], at: Lanes) -> Lanes {
        let last = from.len().saturating_sub(1);
        each(at, at, |i, _| {
            from.get(last.min(i as usize)).copied().unwrap_or(0)
        })
    }
    #[inline(always)]
    fn put_some(self, v: Lanes, which: u16, to: &mut [u32; ROW]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if which >> i & 1 == 1 { v.0[i] } else { *to };
        }
    }
    #[inline(always)]
    fn number(self, v: u16, which: u16, to: &mut [u16; ROW]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if which >> i & 1 == 1 { v } else { *to };
        }
    }
    #[inline(always)]
    fn same(self, of: &[u32; GROUP], v: u32) -> u64 {
        let mut m = 0;
        for (i, x) in of.iter().enumerate() {
            m |= u64::from(*x == v) << i;
        }
        m
    }
    #[inline(always)]
    fn sum(self, of: &[u32; GROUP], which: u64) -> u32 {
        let mut sum = 0u32;
        for (i, x) in of.iter().enumerate() {
            sum = sum.wrapping_add(if which >> i & 1 == 1 { *x } else { 0 });
        }
        sum
    }
    #[inline(always)]
    fn set(self, v: u32, which: u64, to: &mut [u32; GROUP]) {
        for (i, to) in to.iter_mut().enumerate() {
            *to = if which >> i & 1 == 1 { v } else { *to };
        }
    }
    #[inline(always)]
    fn choose(self, a: Lanes, b: Lanes, which: u16) -> Lanes {
        let mut to = a;
        for i in 0..ROW {
            to.0[i] = if which >> i & 1 == 1 { b.0[i] } else { a.0[i] };
        }
        to
    }
    #[inline(always)]
    fn halves(self, v: Lanes, to: &mut [u16; ROW]) {
        for (to, v) in to.iter_mut().zip(v.0) {
            *to = v as u16;
        }
    }
    #[inline(always)]
    fn pairs(self, of: &[Lanes; 4], to: &mut [[u64; 2]; ROW]) {
        let [a, b, c, d] = of;
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        for (i, to) in to.iter_mut().enumerate() {
            *to = [word(a.0[i], b.0[i]), word(c.0[i], d.0[i])];
        }
    }
    type H = [u64; ROW];
    #[inline(always)]
    fn product(self, a: Lanes, b: Lanes) -> [u64; ROW] {
        let mut to = [0; ROW];
        for (to, (a, b)) in to.iter_mut().zip(a.0.iter().zip(&b.0)) {
            *to = u64::from(*a) * u64::from(*b);
        }
        to
    }
    #[inline(always)]
    fn sum_of(self, a: [u64; ROW], b: [u64; ROW]) -> [u64; ROW] {
        let mut to = a;
        for (to, b) in to.iter_mut().zip(b) {
            *to = to.wrapping_add(b);
        }
        to
    }
    #[inline(always)]
    fn mixed_hashes(
        self,
        h: [u64; ROW],
        (by, n): ([u64; 2], u32),
        (to, tags, buckets): Hashes<'_>,
    ) {
        for (i, mut h) in h.into_iter().enumerate() {
            for s in by {
                h = (h ^ h >> 32).wrapping_mul(s);
            }
            to[i] = h ^ h >> 32;
            tags[i] = tag(to[i]);
            buckets[i] = scaled(to[i] as u32, n);
        }
    }
}

impl Any {
    /// Is a quarter of one of these this one?
    #[inline(always)]
    pub fn among(self, words: &[u64; 3], x: u16) -> bool {
        const ONES: u64 = 0x0001_0001_0001_0001;
        let mut any = 0;
        for w in words {
            // a part of four that is zero
            let v = w ^ (u64::from(x) * ONES);
            any |= v.wrapping_sub(ONES) & !v & (ONES << 15);
        }
        any != 0
    }
}

#[inline(always)]
fn each(a: Lanes, b: Lanes, f: impl Fn(u32, u32) -> u32) -> Lanes {
    let mut to = a;
    for i in 0..ROW {
        to.0[i] = f(a.0[i], b.0[i]);
    }
    to
}
