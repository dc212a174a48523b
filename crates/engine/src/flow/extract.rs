//! Extraction: the first look at a batch: match, and action or key, of sixteen packets at once.
//!
//! One packet after the other, each masked match asks for a length here, a sum there, and each field for a word, a
//! shift, and a comparison: a hundred instructions for each packet. Here the first 32 bytes of sixteen IP headers
//! become columns, a register for each word, what is around them, too, and every question is asked of sixteen packets
//! in one or two instructions. An IPv6 header is longer, and goes on in the columns behind the first ones. What has no
//! columns (VLAN tags, rare guards) is asked packet by packet, as ever.

use crate::flow::batch_meta::{BatchMeta, bits_from};
use crate::flow::ingress_cache::IngressCache;
use crate::flow::interval_table::Headers;
use crate::flow::key::{ADDRESSES, Keys, long_addresses};
use crate::flow::mask_match::equal::EqualMatch;
use crate::flow::masked_match::{IP6_HEADER, MaskedMatch};
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::packet_meta::{NO_MATCH, PacketMeta};
use crate::flow::table::{NO_SLOT, Table};
use crate::flow::windows::Windows;
use crate::simd::GROUP;
use crate::simd::WINDOW;
use crate::simd::bits::each_bit;
use crate::simd::dispatch::one_by_one;
use crate::simd::word_tree::Ranks;
use crate::simd::{COLUMNS, HEAD, HEAD_AT, Lanes, ROW, Wide, by_itself};
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
    /// All are known, some by their entries, and nothing has been written down but [in short](BatchMeta::keyed).
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

/// The words of sixteen IPv6 headers, and the two behind them: those of the columns, and of those behind them.
#[inline(always)]
fn six<W: Wide>(wide: W, inner: &[W::N; HEAD / 4], outer: &[W::N; HEAD / 4]) -> [W::N; COLUMNS] {
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
}

/// Packets of which more is asked than their actions, or nothing is known.
struct OneByOne<'a> {
    table: &'a Table,
    windows: &'a [&'a [u8; WINDOW]; ROW],
    totals: &'a Lanes,
    out: &'a mut [PacketMeta],
    seen: &'a mut Extracted,
}

impl OneByOne<'_> {
    /// A packet, its masked match, and the action of its place, if it has one.
    #[inline(always)]
    fn put(&mut self, i: usize, (b, number): (&MaskedMatch, u16), action: u32) {
        let (Some(x), w) = (self.out.get_mut(i), self.windows[i % ROW]) else {
            return;
        };
        (x.guard, x.total) = (number, self.totals.0[i % ROW]);
        (x.action, x.slot, x.lease) = (action, NO_SLOT, NO_LEASE);
        // nothing to be looked up, or nothing known; else the table knows
        if action != BY_FLOW {
            self.seen.unknown += usize::from(action == UNKNOWN);
            return;
        }
        self.seen.by_flow = true;
        x.sum = b.sum_of(w);
        b.key(w, &mut x.key);
        x.hash = self.table.hash(&x.key);
        self.table.ask_bucket(x.hash);
    }
}

/// Keys and hashes of sixteen packets, the first of which has number `first` in its group, by the words of their
/// headers: buckets of the table are asked for. `long`: which have keys of five words.
#[inline(always)]
fn ask_buckets<const LONG: bool, W: Wide>(
    wide: W,
    table: &Table,
    (inner, outer): (&[W::N; HEAD / 4], &[W::N; HEAD / 4]),
    (keys, long): (Keys<W::N>, u16),
    windows: &[&[u8; WINDOW]; ROW],
    (first, meta): (usize, &mut BatchMeta),
) {
    let mut of = [keys.ports, keys.ids, inner[4], inner[3]];
    let hashes = row(&mut meta.hashes, first);
    let buckets = row(&mut meta.buckets, first);
    let tags = row(&mut meta.tags, first);
    let (secrets, n) = table.hashing();
    if LONG && long != 0 {
        let (address, more) = long_addresses(wide, inner, outer);
        of[2] = wide.choose(of[2], address[0], long);
        of[3] = wide.choose(of[3], address[1], long);
        let to = (hashes, tags, &mut *buckets);
        wide.long_hashes(&of, (&more, long), (secrets, n), to);
        let addresses = row(&mut meta.addresses, first);
        // all of them: those of packets without long keys are not looked at
        #[allow(clippy::needless_range_loop)]
        for i in 0..ROW {
            addresses[i] = ADDRESSES.words(windows[i]);
        }
        meta.long |= bits_from(first, long);
    } else {
        wide.hashes(&of, (&secrets.short, n), (hashes, tags, &mut *buckets));
    }
    wide.pairs(&of, row(&mut meta.keys, first));
    wide.halves(keys.sums, row(&mut meta.sums, first));
    // those of packets that have no keys do no harm
    for b in buckets {
        one_by_one();
        table.ask(*b);
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
        self.matches.len() > 1 || self.quick_v6 || self.matches.iter().any(|b| b.payload.is_some())
    }

    /// Match, and action or key, of each packet of a group. Buckets of the table are asked for. `EDGES`: as
    /// [`IngressCache::edges`] says. `LONG`: there are [IPv6 packets in columns](IngressCache::quick_v6), and `EDGES`.
    #[inline(always)]
    pub fn extract<const EDGES: bool, const LONG: bool, W: Wide>(
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
            self.sixteen::<EDGES, LONG, W>(wide, table, packets, (first, meta), (out, &mut seen));
            first += ROW;
        }
        seen
    }

    /// The actions of these places, of packets whose masked matches are known, a bit each. Of which it is all that is
    /// known.
    #[inline(always)]
    fn read_places<W: Wide>(
        &self,
        wide: W,
        (places, which): (W::N, u16),
        matches: &[u16; ROW],
        actions: &mut [u32; ROW],
        mut others: OneByOne<'_>,
    ) -> u16 {
        let v = wide.pick(&self.places, places);
        wide.put_some(v, which, actions);
        let more = wide.over(v, wide.all(BY_FLOW - 1)) & which;
        each_bit!(more.into(), i, {
            let i = i % ROW;
            if let Some(b) = self.matches.get(usize::from(matches[i])) {
                others.put(i, (b, matches[i]), actions[i]);
            }
        });
        which & !more
    }

    /// [`IngressCache::extract`] of sixteen packets at most, the first of which has number `first` in its group.
    #[inline(always)]
    fn sixteen<const EDGES: bool, const LONG: bool, W: Wide>(
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
        // in memory, where they are asked by number; nothing is put there where nobody does
        let mut long = match LONG {
            true => Some(Ranks::of(wide, six(wide, &columns.words, &edges))),
            false => None,
        };
        let mut totals = Lanes([0; ROW]);
        wide.put(columns.total, &mut totals);
        let ends = wide.plus(columns.total, wide.all(HEAD_AT as u32));
        let mut longer = wide.over(columns.len, ends);
        if !LONG {
            meta.longer |= longer != 0;
        }
        let all = (u16::MAX as u32 >> (ROW - n)) as u16;
        let mut left = all;
        let (mut keyed, mut longs) = (0u16, 0u16);
        let (mut classed, mut places) = (0u16, wide.all(0));
        let mut keys = Keys::none(wide);
        for k in 0..self.matches.len() {
            // where masked matches are few and of one family, as they came to be: nothing is looked up
            let number = match LONG {
                true => self.order.number(k),
                false => k,
            };
            let Some(b) = self.matches.get(number).filter(|_| left != 0) else {
                break;
            };
            let v6 = LONG && b.shape.v6;
            let here = match (&b.word_match, &long) {
                (Some(a), Some(long)) if LONG => a.hold(wide, &long.words, &edges),
                (Some(a), _) if EDGES => {
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
                let mut total = columns.total;
                if v6 {
                    let payload = wide.right(columns.words[1], 16);
                    total = wide.plus(payload, wide.all(IP6_HEADER));
                    wide.put_some(total, here, &mut totals.0);
                    let ends = wide.plus(total, wide.all(HEAD_AT as u32));
                    longer = longer & !here | wide.over(columns.len, ends) & here;
                }
                here &= b.holds_many(wide, &columns, total, edges[HEAD / 8]);
                if b.beside && !b.in_columns.is_empty() {
                    here &= match &long {
                        Some(long) if v6 => b.in_ranges(wide, &long.words),
                        _ => {
                            let words = columns.words;
                            b.in_ranges(wide, &words)
                        }
                    };
                }
                if b.beside && b.marked {
                    here = b.marks_each(here, packets, first);
                }
            } else {
                here = b.holds_each(here, packets, first, &mut totals);
            }
            left &= !here;
            // which of these are looked up in the table
            let mut by_flow = here;
            let mut found = false;
            if let (Some(d), true) = (&b.interval_table, b.quick) {
                let at = match &mut long {
                    Some(long) if v6 => d.many(wide, Headers::Long(long, &self.trees)),
                    _ => {
                        let words = columns.words;
                        d.many(wide, Headers::Short(&words))
                    }
                };
                if let (Some(at), true) = (at, LONG && d.many_places()) {
                    // what stands there is read once for all
                    wide.number(number as u16, here, guards);
                    places = wide.choose(places, d.among_all(wide, at), here);
                    classed |= here;
                    continue;
                }
                if let Some(at) = at {
                    let v = d.pick(wide, at, &self.places);
                    wide.put_some(v, here, actions);
                    let others = wide.over(v, wide.all(BY_FLOW - 1)) & here;
                    wide.number(number as u16, here, guards);
                    only |= here & !others;
                    if others == 0 {
                        continue;
                    }
                    // of these nothing is known
                    here = wide.over(v, wide.all(BY_FLOW)) & others;
                    by_flow = others & !here;
                    found = true;
                }
            }
            if b.quick && (found || b.interval_table.is_none()) {
                wide.number(number as u16, by_flow, guards);
                match &long {
                    Some(headers) if v6 => {
                        (b.place).long_keys(wide, &headers.words, by_flow, &mut keys);
                        longs |= by_flow;
                    }
                    _ => b.place.keys(wide, &columns.words, by_flow, &mut keys),
                }
                keyed |= by_flow;
                if !found {
                    continue;
                }
            }
            let mut to = OneByOne {
                table,
                windows,
                totals: &totals,
                out: &mut *out,
                seen: &mut *seen,
            };
            // Bound: one bit less each time
            while here != 0 {
                let i = here.trailing_zeros() as usize % ROW;
                here &= here - 1;
                if let Some(d) = &b.interval_table {
                    if !found {
                        actions[i] = d.get(wide, windows[i], &self.places);
                    }
                    // all is said
                    if actions[i] < BY_FLOW {
                        guards[i] = number as u16;
                        only |= 1 << i;
                        continue;
                    }
                }
                let action = b.interval_table.as_ref().map_or(BY_FLOW, |_| actions[i]);
                to.put(i, (b, number as u16), action);
            }
        }
        if LONG && classed != 0 {
            let to = OneByOne {
                table,
                windows,
                totals: &totals,
                out: &mut *out,
                seen: &mut *seen,
            };
            only |= self.read_places(wide, (places, classed), guards, actions, to);
        }
        each_bit!(left.into(), i, {
            if let Some(x) = out.get_mut(i) {
                (x.guard, x.action, x.slot, x.lease) = (NO_MATCH, UNKNOWN, NO_SLOT, NO_LEASE);
                actions[i & (ROW - 1)] = UNKNOWN;
                seen.unknown += 1;
            }
        });
        *row(&mut meta.totals, first) = totals.0;
        if keyed != 0 {
            let (words, keys) = ((&columns.words, &edges), (keys, longs));
            ask_buckets::<LONG, W>(wide, table, words, keys, windows, (first, meta));
            seen.by_flow = true;
            meta.keyed |= bits_from(first, keyed);
        }
        if LONG {
            meta.longer |= longer != 0;
        }
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
