//! Extraction: the first look at a batch: match, and action or key, of sixteen packets at once.
//!
//! One packet after the other, each masked match asks for a length here, a sum there, and each field for a word, a
//! shift, and a comparison: a hundred instructions for each packet. Here the first 32 bytes of sixteen IP headers
//! become columns, a register for each word, what is around them, too, and every question is asked of sixteen packets
//! in one or two instructions. An IPv6 header is longer, and goes on in the columns behind the first ones. What has no
//! columns (VLAN tags, rare guards) is asked packet by packet, as ever.

use crate::flow::batch_meta::{BatchMeta, bits_from, row};
use crate::flow::ingress_cache::IngressCache;
use crate::flow::interval_table::{Headers, IntervalTable};
use crate::flow::key::{ADDRESSES, Keys, long_addresses};
use crate::flow::masked_match::MaskedMatch;
use crate::flow::members::{Asked, Columns, six};
use crate::flow::packet_meta::{BY_FLOW, UNKNOWN};
use crate::flow::packet_meta::{NO_MATCH, PacketMeta};
use crate::flow::plain::{Sixteen, plain};
use crate::flow::table::{NO_SLOT, Table};
use crate::flow::windows::Windows;
use crate::simd::GROUP;
use crate::simd::WINDOW;
use crate::simd::bits::each_bit;
use crate::simd::dispatch::one_by_one;
use crate::simd::word_tree::Ranks;
use crate::simd::{HEAD, HEAD_AT, Lanes, ROW, Wide};
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

    /// Packets of a masked match, a bit each. `known`: what their places say is. Those of which it is all that there is
    /// to be known.
    #[inline(always)]
    fn put_each(
        &mut self,
        (wide, places): (impl Wide, &[u32]),
        (mut here, known): (u16, bool),
        (b, number): (&MaskedMatch, u16),
        (actions, guards): (&mut [u32; ROW], &mut [u16; ROW]),
    ) -> u16 {
        let mut only = 0;
        // Bound: one bit less each time
        while here != 0 {
            let i = here.trailing_zeros() as usize % ROW;
            here &= here - 1;
            if let Some(d) = &b.interval_table {
                if !known {
                    actions[i] = d.get(wide, self.windows[i], places);
                }
                // all is said
                if actions[i] < BY_FLOW {
                    guards[i] = number;
                    only |= 1 << i;
                    continue;
                }
            }
            let action = b.interval_table.as_ref().map_or(BY_FLOW, |_| actions[i]);
            self.put(i, (b, number), action);
        }
        only
    }

    /// Packets that are in no masked match, a bit each.
    #[inline(always)]
    fn put_unmatched(&mut self, left: u16, actions: &mut [u32; ROW]) {
        each_bit!(left.into(), i, {
            if let Some(x) = self.out.get_mut(i) {
                (x.guard, x.action, x.slot, x.lease) = (NO_MATCH, UNKNOWN, NO_SLOT, NO_LEASE);
                actions[i & (ROW - 1)] = UNKNOWN;
                self.seen.unknown += 1;
            }
        });
    }
}

/// What has been found of sixteen packets, a bit each.
struct Found<N> {
    /// Nothing else is to be known of them.
    only: u16,
    /// They are looked up by these keys, and have long ones.
    keyed: u16,
    long: u16,
    keys: Keys<N>,
    /// They have these places, which are still to be read.
    classed: u16,
    places: N,
}

impl<N: Copy> Found<N> {
    #[inline(always)]
    fn none<W: Wide<N = N>>(wide: W) -> Found<N> {
        Found {
            only: 0,
            keyed: 0,
            long: 0,
            keys: Keys::none(wide),
            classed: 0,
            places: wide.all(0),
        }
    }

    /// These packets of a masked match are looked up. `long`: it is one of IPv6.
    #[inline(always)]
    fn look_up<W: Wide<N = N>>(
        &mut self,
        wide: W,
        b: &MaskedMatch,
        (columns, long): (&Columns<N>, Option<&Ranks<N>>),
        which: u16,
    ) {
        match long {
            Some(headers) => {
                (b.place).long_keys(wide, &headers.words, which, &mut self.keys);
                self.long |= which;
            }
            None => b.place.keys(wide, &columns.words, which, &mut self.keys),
        }
        self.keyed |= which;
    }
}

/// The words around the columns of sixteen packets, if they are asked for.
#[inline(always)]
fn around<W: Wide>(wide: W, windows: &[&[u8; WINDOW]; ROW], asked: bool) -> [W::N; HEAD / 4] {
    match asked {
        true => wide.edges(windows),
        false => [wide.all(0); HEAD / 4],
    }
}

/// Tells which of sixteen packets are plain, if that is to be told, by their columns and the words around these, which
/// are made if they are not there.
#[inline(always)]
fn plain_of<W: Wide>(
    wide: W,
    (packets, first): (&Windows<'_>, usize),
    (columns, edges, there): (&Columns<W::N>, &[W::N; HEAD / 4], bool),
    meta: &mut BatchMeta,
) {
    let Some(sums) = meta.tells_plain else { return };
    let around = match there {
        true => *edges,
        false => wide.edges(packets.row(first)),
    };
    let words = six(wide, &columns.words, &around);
    let those = Sixteen {
        packets,
        first,
        words: &words,
        len: columns.len,
    };
    plain(wide, &those, meta, sums);
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

    /// What is known of these packets of a masked match, a bit each, by the places of the intervals that they are in. Of
    /// which nothing is known, and which are looked up; `None` where all is said.
    #[inline(always)]
    fn by_interval<const LONG: bool, W: Wide>(
        &self,
        wide: W,
        at: W::N,
        (d, number, here): (&IntervalTable, u16, u16),
        found: &mut Found<W::N>,
        (actions, guards): (&mut [u32; ROW], &mut [u16; ROW]),
    ) -> Option<(u16, u16)> {
        if LONG && d.many_places() {
            // what stands there is read once for all
            wide.number(number, here, guards);
            found.places = wide.choose(found.places, d.among_all(wide, at), here);
            found.classed |= here;
            return None;
        }
        let v = d.pick(wide, at, &self.places);
        wide.put_some(v, here, actions);
        let others = wide.over(v, wide.all(BY_FLOW - 1)) & here;
        wide.number(number, here, guards);
        found.only |= here & !others;
        if others == 0 {
            return None;
        }
        let unknown = wide.over(v, wide.all(BY_FLOW)) & others;
        Some((unknown, others & !unknown))
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
        let len = Lanes(*row(&mut meta.lens, first));
        let windows = packets.row(first);
        let columns = Columns::of(wide, windows, wide.get(&len));
        // Registers, unless they are told apart by number: what asks so has copies.
        let edges = around(wide, windows, EDGES);
        plain_of(wide, (packets, first), (&columns, &edges, EDGES), meta);
        let actions = row(&mut meta.actions, first);
        let guards = row(&mut meta.guards, first);
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
        let mut left = (u16::MAX as u32 >> (ROW - n)) as u16;
        let mut found = Found::none(wide);
        // one for each time: it borrows what is written in between
        macro_rules! others {
            () => {
                OneByOne {
                    table,
                    windows,
                    totals: &totals,
                    out: &mut *out,
                    seen: &mut *seen,
                }
            };
        }
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
            let of = Asked {
                windows,
                columns: &columns,
                edges: &edges,
                long: long.as_ref(),
            };
            let (from, to) = ((packets, first, left), (&mut totals, &mut longer));
            let Some(mut here) = b.members::<EDGES, LONG, W>(wide, of, from, to) else {
                continue;
            };
            left &= !here;
            // which of these are looked up in the table
            let (mut by_flow, mut known) = (here, false);
            let asked = b.interval_table.as_ref().filter(|d| d.decides);
            if let (Some(d), true) = (asked, b.quick) {
                let at = match &mut long {
                    Some(long) if v6 => d.many(wide, Headers::Long(long, &self.trees)),
                    _ => {
                        let words = columns.words;
                        d.many(wide, Headers::Short(&words))
                    }
                };
                if let Some(at) = at {
                    let (of, to) = ((d, number as u16, here), (&mut *actions, &mut *guards));
                    match self.by_interval::<LONG, W>(wide, at, of, &mut found, to) {
                        Some(rest) => (here, by_flow) = rest,
                        None => continue,
                    }
                    known = true;
                }
            }
            if b.quick && (known || asked.is_none()) {
                wide.number(number as u16, by_flow, guards);
                let long = long.as_ref().filter(|_| v6);
                found.look_up(wide, b, (&columns, long), by_flow);
                if !known {
                    continue;
                }
            }
            let (here, of) = ((here, known), (b, number as u16));
            let places = (wide, &*self.places);
            found.only |= others!().put_each(places, here, of, (actions, guards));
        }
        if LONG && found.classed != 0 {
            let places = (found.places, found.classed);
            found.only |= self.read_places(wide, places, guards, actions, others!());
        }
        others!().put_unmatched(left, actions);
        *row(&mut meta.totals, first) = totals.0;
        if found.keyed != 0 {
            let (words, keys) = ((&columns.words, &edges), (found.keys, found.long));
            ask_buckets::<LONG, W>(wide, table, words, keys, windows, (first, meta));
            seen.by_flow = true;
            meta.keyed |= bits_from(first, found.keyed);
        }
        if LONG {
            meta.longer |= longer != 0;
        }
        meta.only |= bits_from(first, found.only);
    }
}
