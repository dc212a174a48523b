//! Composed actions: several, one behind the other, that all packets have which have the first one.
//!
//! Behind a write-out or an element that was asked, packets are looked up again ([`crate::flow::exit`]). Where what
//! they are found in there follows from what they were found in at their entry, that need not be done again for each
//! packet: the entry, or the place of an interval table, stands for all actions of the way, up to where the packet
//! leaves. An element that is asked may still send a packet elsewhere; it goes on there as any other.
//!
//! What follows from what is told by [`follows`]; [`crate::flow::walk`] finds ways that may be composed, and takes
//! packets along them.

use crate::flow::batch_way::BatchWay;
use crate::flow::fused_way::{FusedWays, WholeWay};
use crate::flow::in_place_way::{HINTS, InPlace, NOBODY};

use crate::flow::interval_table::Bounds;
use crate::flow::masked_match::MaskedMatch;
use crate::flow::origin::{Origin, Origins};
use crate::flow::wave_order::MAX_WAVES;
use crate::simd::WINDOW;
use onefold_packet::Packet;
use std::collections::HashMap;

/// Numbers from here on stand for composed actions, where numbers of actions are kept.
pub(crate) const COMPOSED: u32 = 1 << 30;

/// Different ones; more are not composed.
const MAX_COMPOSED: usize = 1 << 14;

/// Packets are written action by action.
const NOT_FUSED: u32 = u32::MAX;

/// Actions that are composed, at most.
pub(crate) const MAX_PARTS: usize = MAX_WAVES + 1;

/// One action of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    pub action: u32,
    /// The action's.
    pub template: u32,
    /// The cache that knows its packets, and the masked match there.
    pub cache: u32,
    pub guard: u16,
    /// The cache looks at packets from so many bytes before their first one.
    pub shift: u16,
    /// Annotations are looked at before it is applied: no action in front of it says what they are.
    pub marked: bool,
    /// The flow's operands and lease are this action's.
    pub own: bool,
}

/// All composed actions.
#[derive(Debug, Default)]
pub(crate) struct ComposedTable {
    all: Vec<Box<[Part]>>,
    /// Those that packets may go through in place.
    in_place: Vec<Option<InPlace>>,
    /// Of these, elements whose hints entries keep, by number.
    hinted: Vec<[u32; HINTS as usize]>,
    any_hinted: bool,
    /// Of these the ones that are written once, by number; [`NOT_FUSED`] for the others.
    fused_ways: Vec<u32>,
    /// Of these the ones that packets go [together](crate::flow::inspect_batch).
    batched: Vec<BatchWay>,
    any_batched: bool,
    /// Of these, elements give leases to some.
    leases: Option<Leased>,
    pub fused: FusedWays,
    names: HashMap<Box<[Part]>, u32>,
}

/// What is to be known of leased flows of composed actions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leased {
    /// Checksums of plain packets have to be right.
    pub sums: bool,
    /// Some of them are of flows that stand on bindings of which is noted when they are used.
    pub timed: bool,
}

impl ComposedTable {
    /// Is this one of their numbers?
    #[inline(always)]
    pub fn is(number: u32) -> bool {
        (COMPOSED..COMPOSED + MAX_COMPOSED as u32).contains(&number)
    }

    /// The parts of a composed action.
    #[inline(always)]
    pub fn parts(&self, number: u32) -> &[Part] {
        let parts = self.all.get((number.wrapping_sub(COMPOSED)) as usize);
        parts.map_or(&[], |p| p)
    }

    /// A composed action that packets may go through in place.
    #[inline(always)]
    pub fn in_place(&self, number: u32) -> Option<&InPlace> {
        let at = number.wrapping_sub(COMPOSED) as usize;
        self.in_place.get(at)?.as_ref()
    }

    /// Elements on a composed action's way whose hints entries keep; [`NOBODY`] for none.
    #[inline(always)]
    pub fn hinted(&self, number: u32) -> [u32; HINTS as usize] {
        let at = number.wrapping_sub(COMPOSED) as usize;
        let hinted = self.hinted.get(at).copied();
        hinted.unwrap_or([NOBODY; HINTS as usize])
    }

    /// Have any got hints?
    #[inline(always)]
    pub fn any_hinted(&self) -> bool {
        self.any_hinted
    }

    /// The number of a composed action's way, if its packets are [written once](crate::flow::fused_way).
    #[inline(always)]
    pub fn fused_way(&self, number: u32) -> Option<u32> {
        let at = number.wrapping_sub(COMPOSED) as usize;
        self.fused_ways.get(at).copied().filter(|w| *w != NOT_FUSED)
    }

    /// A composed action's way, if its packets go it [together](crate::flow::inspect_batch).
    #[inline(always)]
    pub fn batched(&self, number: u32) -> Option<&BatchWay> {
        let at = number.wrapping_sub(COMPOSED) as usize;
        self.batched.get(at).filter(|w| w.is_one())
    }

    /// Do any?
    #[inline(always)]
    pub fn any_batched(&self) -> bool {
        self.any_batched
    }

    /// Are flows of any leased?
    #[inline(always)]
    pub fn leases(&self) -> Option<Leased> {
        self.leases
    }

    /// Has this packet room for what is written on a way?
    #[inline(always)]
    pub fn fits(&self, way: u32, p: &Packet) -> bool {
        self.fused.ways.get(way as usize).is_some_and(|w| w.fits(p))
    }

    /// A composed action's packets are written once from now on.
    pub fn set_fused(&mut self, number: u32, way: WholeWay) {
        if let Some(n) = self
            .fused_ways
            .get_mut((number.wrapping_sub(COMPOSED)) as usize)
            && *n == NOT_FUSED
        {
            let goes = way.batched;
            *n = self.fused.add(way);
            if let (Some(goes), Some(w)) = (goes, self.fused.ways.get(*n as usize))
                && let Some(t) = self.batched.get_mut(number.wrapping_sub(COMPOSED) as usize)
            {
                (*t, self.any_batched) = (BatchWay::of(*n, w, goes), true);
                if t.leases {
                    let sums = self.leases.is_some_and(|l| l.sums) || t.checksums;
                    let timed = self.leases.is_some_and(|l| l.timed) || !t.untimed && w.own;
                    self.leases = Some(Leased { sums, timed });
                }
            }
        }
    }

    /// Is it known that these follow one from the other, for all packets of a flow of which one has had them?
    pub fn has(&self, parts: &[Part]) -> bool {
        self.names.contains_key(parts)
    }

    /// The number of what is composed of these, which packets may go through in place, or not. `None` if there are too
    /// many.
    pub fn number(&mut self, parts: &[Part], in_place: Option<InPlace>) -> Option<u32> {
        if let Some(n) = self.names.get(parts) {
            return Some(*n);
        }
        if self.all.len() >= MAX_COMPOSED || parts.len() > MAX_PARTS {
            return None;
        }
        let n = COMPOSED + self.all.len() as u32;
        self.all.push(parts.into());
        self.any_hinted |= in_place.as_ref().is_some_and(|w| w.hinted[0] != NOBODY);
        (self.hinted).push((in_place.as_ref()).map_or([NOBODY; HINTS as usize], |w| w.hinted));
        self.in_place.push(in_place);
        self.fused_ways.push(NOT_FUSED);
        self.batched.push(BatchWay::NONE);
        self.names.insert(parts.into(), n);
        Some(n)
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.all.clear();
        self.in_place.clear();
        self.hinted.clear();
        self.any_hinted = false;
        self.fused_ways.clear();
        self.batched.clear();
        self.any_batched = false;
        self.leases = None;
        self.fused.clear();
        self.names.clear();
    }
}

/// Packets of a masked match, or of one flow in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub of: &'a MaskedMatch,
    /// One of the packets.
    pub window: &'a [u8; WINDOW],
    /// They are one flow's, which has an entry.
    pub keyed: bool,
}

impl Known<'_> {
    /// May a packet's byte at this place be `x`?
    pub fn may_be(&self, at: usize, x: u8) -> bool {
        match self.keyed && self.of.shape.in_key(at as i32 * 8, 8) {
            true => self.window[at] == x,
            false => self.of.byte_may_be(at, x),
        }
    }

    /// Do all packets have this byte in common?
    fn constant(&self, o: &Origin) -> bool {
        match o {
            Origin::Is(_) => true,
            Origin::Flow => self.keyed,
            Origin::Byte(at, _) => {
                self.keyed && self.of.shape.in_key(*at as i32 * 8, 8) || self.one_value(*at)
            }
            Origin::Unknown => false,
        }
    }

    /// May the byte at this place be one value only?
    fn one_value(&self, at: usize) -> bool {
        (0..=0xff).filter(|x| self.may_be(at, *x)).count() == 1
    }
}

/// Lengths of packets when they are looked at: the least, and the most.
pub(crate) type Lengths = (u64, u64);

/// Are all packets of `first`, when they have become what `origins` says, `lens` bytes long, and looked up in the cache
/// of `then`, in that masked match, with the action that one of them has had there?
///
/// # Errors
/// Why that cannot be told.
pub(crate) fn follows(
    first: Known<'_>,
    then: Known<'_>,
    origins: &Origins,
    lens: Lengths,
) -> Result<(), &'static str> {
    let b = then.of;
    if !b.takes_lengths(lens) {
        return Err("a length");
    }
    for (j, o) in origins.iter().enumerate() {
        let fits = match o {
            _ if !b.asks_byte(j) => true,
            Origin::Is(x) => b.byte_may_be(j, *x),
            Origin::Byte(at, done) => (0..=0xff)
                .filter(|x| first.may_be(*at, *x))
                .all(|x| b.byte_may_be(j, Origin::of(done, x))),
            // of one flow, one packet's is all packets'
            Origin::Flow => first.keyed,
            Origin::Unknown => false,
        };
        if !fits {
            return Err("a byte that is looked at again");
        }
    }
    let same_header = |n: usize| {
        let to = b.shape.l3 + n;
        origins.get(to).and_then(Origin::same_as) == Some(first.of.shape.l3 + n)
    };
    if b.shape.v6 != first.of.shape.v6 || !(2..6).all(same_header) {
        return Err("another IP header");
    }
    b.rest_follows(first.of, |from, n| {
        let all = origins.get(from..from + n).unwrap_or_default();
        match all.iter().all(|o| first.constant(o)) {
            true => Some(None),
            false => moved(all).map(Some),
        }
    })?;
    let key = |j: usize| b.shape.in_key(j as i32 * 8, 8);
    if then.keyed
        && !(0..WINDOW)
            .filter(|j| key(*j))
            .all(|j| first.constant(&origins[j]))
    {
        return Err("a key that is another flow's");
    }
    match (&b.interval_table, then.keyed) {
        (Some(table), false) => {
            let bounds = table.bounds(then.window);
            let bounds = bounds.ok_or("an interval of addresses of IPv6")?;
            intervals_follow(first, bounds, origins, |lo, hi| {
                table.same_place(then.window, lo, hi)
            })
        }
        _ => Ok(()),
    }
}

/// Where these bytes were, if they stood together and are as they were.
fn moved(all: &[Origin]) -> Option<usize> {
    let from = all.first()?.same_as()?;
    let together = |(i, o): (usize, &Origin)| o.same_as() == Some(from + i);
    all.iter().enumerate().all(together).then_some(from)
}

/// Do all packets have the place that one of them has?
fn intervals_follow(
    first: Known<'_>,
    then: Vec<Bounds>,
    origins: &Origins,
    same_place: impl Fn(&Bounds, (u64, u64)) -> bool,
) -> Result<(), &'static str> {
    const UNTOLD: &str = "an interval that does not follow";
    let had = first.of.interval_table.as_ref();
    // of long fields nothing is told: they may have any value
    let had = had.and_then(|t| t.bounds(first.window)).unwrap_or_default();
    for f in &then {
        if !(f.bit | f.bits).is_multiple_of(8) {
            return Err(UNTOLD);
        }
        let bytes = origins.get(f.bit / 8..(f.bit + f.bits) / 8).ok_or(UNTOLD)?;
        if bytes.iter().all(|o| first.constant(o)) {
            continue;
        }
        let from = moved(bytes).ok_or(UNTOLD)? * 8;
        let before = had.iter().find(|b| (b.bit, b.bits) == (from, f.bits));
        let whole = u64::MAX >> (64 - f.bits as u32);
        let (lo, hi) = before.map_or((0, whole), |b| (b.lo, b.hi));
        if !same_place(f, (lo, hi)) {
            return Err(UNTOLD);
        }
    }
    Ok(())
}
