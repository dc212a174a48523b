//! Which of sixteen packets are in a masked match, by columns of their headers.

use crate::flow::mask_match::equal::EqualMatch;
use crate::flow::masked_match::{IP6_HEADER, MaskedMatch};
use crate::flow::windows::Windows;
use crate::simd::bits::each_bit;
use crate::simd::word_tree::Ranks;
use crate::simd::{COLUMNS, GROUP, HEAD, HEAD_AT, Lanes, ROW, WINDOW, Wide, by_itself};

/// Lanes headers, by columns.
pub(crate) struct Columns<N> {
    pub words: [N; HEAD / 4],
    /// Bytes from the IP header on, as it says.
    pub total: N,
    /// Bytes of the packet.
    pub len: N,
    /// Header checksums that are not right: a bit each.
    wrong: u16,
}

impl<N: Copy> Columns<N> {
    #[inline(always)]
    pub fn of<W: Wide<N = N>>(wide: W, windows: &[&[u8; WINDOW]; ROW], len: N) -> Columns<N> {
        let words = wide.columns(windows);
        let low = wide.all(0xffff);
        let [a, b, c, d, e, ..] = words;
        let mut sum = wide.all(0);
        for w in [a, b, c, d, e] {
            sum = wide.plus(sum, wide.plus(wide.right(w, 16), wide.and(w, low)));
        }
        // ten numbers of 16 bits: at most 9 above the lower half, and all ones if and only if the sum is
        let sum = wide.plus(wide.right(sum, 16), wide.and(sum, low));
        Columns {
            words,
            total: wide.and(a, low),
            len,
            wrong: wide.over(sum, low) | wide.over(low, sum),
        }
    }

    /// Bytes from the IP header on where it is IPv6, as it says. Noted of these packets, a bit each, and which of them
    /// are longer.
    #[inline(always)]
    fn long_totals<W: Wide<N = N>>(
        &self,
        wide: W,
        here: u16,
        (totals, longer): (&mut Lanes, &mut u16),
    ) -> N {
        let payload = wide.right(self.words[1], 16);
        let total = wide.plus(payload, wide.all(IP6_HEADER));
        wide.put_some(total, here, &mut totals.0);
        let ends = wide.plus(total, wide.all(HEAD_AT as u32));
        *longer = *longer & !here | wide.over(self.len, ends) & here;
        total
    }
}

/// Words of an IPv4 packet that are columns, and of what is behind it that are columns, too.
pub(crate) const COLUMNS_V4: usize = COLUMNS;

/// Sixteen packets: their first bytes, columns of their headers, words around these, and the columns of IPv6, if there
/// are any. References to each: what is told apart by number is in memory, and what is one value with it would be, too.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a, N> {
    pub windows: &'a [&'a [u8; WINDOW]; ROW],
    pub columns: &'a Columns<N>,
    pub edges: &'a [N; HEAD / 4],
    pub long: Option<&'a Ranks<N>>,
}

/// The words of sixteen IPv6 headers, and the two behind them, or of as much of IPv4 packets: those of the columns, and
/// of those behind them.
#[inline(always)]
pub(crate) fn six<W: Wide>(
    wide: W,
    inner: &[W::N; HEAD / 4],
    outer: &[W::N; HEAD / 4],
) -> [W::N; COLUMNS] {
    let [a, b, c, d, e, f, g, h] = *inner;
    let [.., i, j, k, l] = *outer;
    // written out: closures may not be inlined
    let (i, j, k, l) = (
        wide.swapped(i),
        wide.swapped(j),
        wide.swapped(k),
        wide.swapped(l),
    );
    [a, b, c, d, e, f, g, h, i, j, k, l]
}

/// Which numbers are less than the least one, or more than so much above it.
#[inline(always)]
fn outside<W: Wide>(wide: W, v: W::N, (least, more): (u32, u32)) -> u16 {
    wide.over(wide.minus(v, wide.all(least)), wide.all(more))
}

impl MaskedMatch {
    /// Which packets' bytes are right, as far as bytes under a mask tell?
    #[inline(always)]
    fn fit<W: Wide>(&self, wide: W, windows: &[&[u8; WINDOW]; ROW], c: &Columns<W::N>) -> u16 {
        let all = match &self.equal_match {
            // half the instructions
            Some(a) => {
                let v = c.words[EqualMatch::COLUMN];
                let beyond = wide.beyond(wide.all(0), v, a.mask, a.lo, a.span);
                wide.zero(beyond) == u16::MAX && a.same(wide, windows, &self.lo)
            }
            None => wide.all_inside(windows, &self.mask, &self.lo, &self.span),
        };
        if all {
            return u16::MAX;
        }
        let mut here = 0;
        // no branch: which packet is in which masked match cannot be foreseen
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            let fits = wide.inside(wide.load(windows[i]), &self.mask, &self.lo, &self.span);
            here = by_itself(here | u32::from(fits) << i);
        }
        here as u16
    }

    /// Which packets are in the masked match, given that the bytes under its mask are right? `behind`: the first word
    /// behind the columns.
    #[inline(always)]
    fn holds_many<W: Wide>(&self, wide: W, c: &Columns<W::N>, total: W::N, behind: W::N) -> u16 {
        let ends = wide.plus(total, wide.all(HEAD_AT as u32));
        let bad = wide.over(ends, c.len)
            | outside(wide, total, self.total)
            | outside(wide, c.len, self.len);
        let wrong = if self.sum { c.wrong } else { 0 };
        let payload = match self.payload {
            None => 0,
            Some(there) => {
                // four bits of the TCP header: so many words
                let words = wide.and(behind, wide.all(0xf0));
                let behind = wide.over(total, wide.plus(wide.right(words, 2), wide.all(20)));
                if there { !behind } else { behind }
            }
        };
        !(bad | wrong | payload)
    }
}

impl MaskedMatch {
    /// Which packets have values of these [ranges](MaskedMatch::in_columns)?
    #[inline(always)]
    fn in_ranges<W: Wide>(&self, wide: W, words: &[W::N]) -> u16 {
        let mut no = 0;
        for r in &self.in_columns {
            let Some(v) = words.get(usize::from(r.word)) else {
                return 0;
            };
            let v = wide.and(wide.right(*v, r.right.into()), wide.all(r.mask));
            no |= outside(wide, v, r.values);
        }
        !no
    }

    /// Which of the packets that are `left` are in the masked match; `None` where nobody's bytes are right. Notes
    /// lengths, and which packets of IPv6 are `longer`.
    #[inline(always)]
    pub fn members<const EDGES: bool, const LONG: bool, W: Wide>(
        &self,
        wide: W,
        of: Asked<'_, W::N>,
        (packets, first, left): (&Windows<'_>, usize, u16),
        (totals, longer): (&mut Lanes, &mut u16),
    ) -> Option<u16> {
        let columns = of.columns;
        let here = match (&self.word_match, of.long) {
            (Some(a), Some(long)) if LONG => a.hold(wide, &long.words, of.edges),
            (Some(a), _) if EDGES => {
                let words = columns.words;
                a.hold(wide, &words, of.edges)
            }
            _ => self.fit(wide, of.windows, columns),
        };
        let mut here = here & left;
        if here == 0 {
            return None;
        }
        if !self.quick {
            return Some(self.holds_each(here, packets, first, totals));
        }
        let v6 = LONG && self.shape.v6;
        let total = match v6 {
            true => columns.long_totals(wide, here, (totals, longer)),
            false => columns.total,
        };
        here &= self.holds_many(wide, columns, total, of.edges[HEAD / 8]);
        if self.beside && !self.in_columns.is_empty() {
            here &= match of.long {
                Some(long) if v6 => self.in_ranges(wide, &long.words),
                _ => {
                    let words = columns.words;
                    self.in_ranges(wide, &words)
                }
            };
        }
        if self.beside && self.marked {
            here = self.marks_each(here, packets, first);
        }
        Some(here)
    }
}

impl MaskedMatch {
    /// Which packets' annotations and types are right.
    #[inline(never)]
    fn marks_each(&self, candidates: u16, packets: &Windows<'_>, first: usize) -> u16 {
        let (mut here, windows) = (0, packets.row(first));
        each_bit!(candidates.into(), i, {
            if let (Some(p), Some(w)) = (packets.packet(first + i), windows.get(i))
                && self.others_hold(w, p)
            {
                here |= 1 << i;
            }
        });
        here
    }

    /// [`MaskedMatch::holds_many`] for what has no columns. Notes lengths.
    fn holds_each(
        &self,
        candidates: u16,
        packets: &Windows<'_>,
        first: usize,
        totals: &mut Lanes,
    ) -> u16 {
        let (mut here, windows) = (0, packets.row(first));
        each_bit!(candidates.into(), i, {
            if let (Some(p), Some(w), Some(t)) = (
                packets.packet(first + i),
                windows.get(i),
                totals.0.get_mut(i),
            ) && let Some(total) = self.holds(w, p)
            {
                *t = total;
                here |= 1 << i;
            }
        });
        here
    }
}
