//! Extraction: the first look at a batch: match, and action or key, of sixteen packets at once.
//!
//! One packet after the other, each masked match asks for a length here, a sum there, and each field for a word, a
//! shift, and a comparison: a hundred instructions for each packet. Here the first 32 bytes of sixteen IP headers
//! become columns, a register for each word, what is around them, too, and every question is asked of sixteen packets
//! in one or two instructions. What has no columns (IPv6, VLAN tags, rare guards) is asked packet by packet, as ever.

use crate::flow::batch_meta::{BatchMeta, bits_from};
use crate::flow::ingress_cache::IngressCache;
use crate::flow::key::Keys;
use crate::flow::mask_match::equal::EqualMatch;
use crate::flow::masked_match::MaskedMatch;
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::packet_meta::{NO_MATCH, PacketMeta};
use crate::flow::table::{NO_SLOT, Table};
use crate::flow::windows::Windows;
use crate::simd::GROUP;
use crate::simd::WINDOW;
use crate::simd::bits::each_bit;
use crate::simd::dispatch::one_by_one;
use crate::simd::{HEAD, HEAD_AT, Lanes, ROW, Wide, by_itself};
use onefold_nat::NO_LEASE;

/// What is known of a group after the first look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extracted {
    /// Some are to be looked up in the table.
    pub by_flow: bool,
    /// Of so many nothing is known.
    pub unknown: usize,
    /// Which ones these are, a bit each, if that has been found out.
    pub which: Option<u64>,
    /// All have entries, and nothing has been written down but [in short](BatchMeta::keyed).
    pub keyed: bool,
    /// The same, but that [some](Extracted::which) have none.
    pub part: bool,
}

/// Lanes headers, by columns.
struct Columns<N> {
    words: [N; HEAD / 4],
    /// Bytes from the IP header on, as it says.
    total: N,
    /// Bytes of the packet.
    len: N,
    /// Header checksums that are not right: a bit each.
    wrong: u16,
}

impl<N: Copy> Columns<N> {
    #[inline(always)]
    fn of<W: Wide<N = N>>(wide: W, windows: &[&[u8; WINDOW]; ROW], len: N) -> Columns<N> {
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
    fn holds_many<W: Wide>(&self, wide: W, c: &Columns<W::N>, behind: W::N) -> u16 {
        let ends = wide.plus(c.total, wide.all(HEAD_AT as u32));
        let bad = wide.over(ends, c.len)
            | outside(wide, c.total, self.total)
            | outside(wide, c.len, self.len);
        let wrong = if self.sum { c.wrong } else { 0 };
        let payload = match self.payload {
            None => 0,
            Some(there) => {
                // four bits of the TCP header: so many words
                let words = wide.and(behind, wide.all(0xf0));
                let behind = wide.over(c.total, wide.plus(wide.right(words, 2), wide.all(20)));
                if there { !behind } else { behind }
            }
        };
        !(bad | wrong | payload)
    }
}

/// Lanes of a group's, from this one on.
#[inline(always)]
fn row<T>(all: &mut [T; GROUP], first: usize) -> &mut [T; ROW] {
    &mut all.as_chunks_mut().0[first / ROW % (GROUP / ROW)]
}

impl IngressCache {
    /// Is more asked of packets' bytes than what one masked match asks? Of one masked match bytes are asked packet by
    /// packet: what is around the columns takes as long to be made columns of.
    #[inline]
    pub fn edges(&self) -> bool {
        self.matches.len() > 1 || self.matches.iter().any(|b| b.payload.is_some())
    }

    /// Match, and action or key, of each packet of a group. Buckets of the table are asked for. `EDGES`: as
    /// [`IngressCache::edges`] says.
    #[inline(always)]
    pub fn extract<const EDGES: bool, W: Wide>(
        &self,
        wide: W,
        table: &Table,
        packets: &Windows<'_>,
        meta: &mut BatchMeta,
        out: &mut [PacketMeta],
    ) -> Extracted {
        let mut seen = Extracted::default();
        let mut first = 0;
        // Bound: sixteen packets each time
        while first < packets.len().min(GROUP) {
            let Some(out) = out.get_mut(first..) else {
                break;
            };
            self.sixteen::<EDGES, W>(wide, table, packets, (first, meta), (out, &mut seen));
            first += ROW;
        }
        seen
    }

    /// [`IngressCache::extract`] of sixteen packets at most, the first of which has number `first` in its group.
    #[inline(always)]
    fn sixteen<const EDGES: bool, W: Wide>(
        &self,
        wide: W,
        table: &Table,
        packets: &Windows<'_>,
        (first, meta): (usize, &mut BatchMeta),
        (out, seen): (&mut [PacketMeta], &mut Extracted),
    ) {
        let n = packets.len().saturating_sub(first).min(ROW);
        let actions = row(&mut meta.actions, first);
        let guards = row(&mut meta.guards, first);
        let len = Lanes(*row(&mut meta.lens, first));
        let mut only = 0u16;
        let windows = packets.row(first);
        let columns = Columns::of(wide, windows, wide.get(&len));
        // Registers, unless they are told apart by number: what asks so has copies.
        let edges = match EDGES {
            true => wide.edges(windows),
            false => [wide.all(0); HEAD / 4],
        };
        let mut totals = Lanes([0; ROW]);
        wide.put(columns.total, &mut totals);
        let ends = wide.plus(columns.total, wide.all(HEAD_AT as u32));
        meta.longer |= wide.over(columns.len, ends) != 0;
        let all = (u16::MAX as u32 >> (ROW - n)) as u16;
        let mut left = all;
        let mut keyed = 0u16;
        let mut keys = Keys::none(wide);
        for number in 0..self.matches.len() {
            let b = &self.matches[number];
            if left == 0 {
                break;
            }
            let here = match &b.word_match {
                Some(a) if EDGES => {
                    let words = columns.words;
                    a.hold(wide, &words, &edges)
                }
                _ => b.fit(wide, windows, &columns),
            };
            let mut here = here & left;
            if here == 0 {
                continue;
            }
            if b.quick {
                here &= b.holds_many(wide, &columns, edges[HEAD / 8]);
                if b.marked {
                    here = b.marks_each(here, packets, first);
                }
            } else {
                here = b.holds_each(here, packets, first, &mut totals);
            }
            left &= !here;
            if b.quick && b.interval_table.is_none() {
                wide.number(number as u16, here, guards);
                b.short.keys(wide, &columns.words, here, &mut keys);
                keyed |= here;
                continue;
            }
            let mut found = false;
            if b.quick
                && let Some(d) = &b.interval_table
                && let words = columns.words
                && let Some(v) = d.many(wide, &words)
            {
                wide.put_some(v, here, actions);
                if wide.over(v, wide.all(BY_FLOW - 1)) & here == 0 {
                    wide.number(number as u16, here, guards);
                    only |= here;
                    continue;
                }
                found = true;
            }
            // Bound: one bit less each time
            while here != 0 {
                let i = here.trailing_zeros() as usize;
                here &= here - 1;
                let (Some(x), Some(w)) = (out.get_mut(i), windows.get(i)) else {
                    break;
                };
                if let Some(d) = &b.interval_table {
                    if !found {
                        actions[i & (ROW - 1)] = d.get(wide, w);
                    }
                    // all is said
                    if actions[i & (ROW - 1)] < BY_FLOW {
                        guards[i & (ROW - 1)] = number as u16;
                        only |= 1 << i;
                        continue;
                    }
                }
                (x.guard, x.total) = (number as u16, totals.0[i & (ROW - 1)]);
                (x.action, x.slot, x.lease) = (BY_FLOW, NO_SLOT, NO_LEASE);
                if b.interval_table.is_some() {
                    x.action = actions[i & (ROW - 1)];
                }
                // nothing to be looked up, or nothing known; else the table knows
                if x.action != BY_FLOW {
                    seen.unknown += usize::from(x.action == UNKNOWN);
                    continue;
                }
                seen.by_flow = true;
                x.sum = b.sum_of(w);
                b.key(w, &mut x.key);
                x.hash = table.hash(&x.key);
                table.ask_bucket(x.hash);
            }
        }
        if keyed != 0 {
            let of = [keys.ports, keys.ids, columns.words[4], columns.words[3]];
            wide.pairs(&of, row(&mut meta.keys, first));
            wide.halves(keys.sums, row(&mut meta.sums, first));
            let buckets = row(&mut meta.buckets, first);
            let hashes = row(&mut meta.hashes, first);
            let tags = row(&mut meta.tags, first);
            wide.hashes(&of, table.hashing(), (hashes, tags, buckets));
            // those of packets that have no keys do no harm
            for b in buckets {
                one_by_one();
                table.ask(*b);
            }
            seen.by_flow = true;
            meta.keyed |= bits_from(first, keyed);
        }
        each_bit!(left.into(), i, {
            if let Some(x) = out.get_mut(i) {
                (x.guard, x.action, x.slot, x.lease) = (NO_MATCH, UNKNOWN, NO_SLOT, NO_LEASE);
                actions[i & (ROW - 1)] = UNKNOWN;
                seen.unknown += 1;
            }
        });
        *row(&mut meta.totals, first) = totals.0;
        meta.only |= bits_from(first, only);
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
