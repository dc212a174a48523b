//! What the flow table knows of one entry port: its masked matches, and how often they find something.

use crate::flow::masked_match::{MaskedMatch, Plan, fits, make, plan};
use crate::flow::match_order::MatchOrder;
use crate::flow::packet_meta::{BY_FLOW, NO_MATCH, PacketMeta, UNKNOWN};
use crate::flow::patience::Patience;
use crate::flow::policy::monitor::Monitor;
use crate::flow::table::NO_SLOT;
use crate::program::code::Code;
use crate::program::headers::shape::Shape;
use crate::program::reads::{EntryReads, ShapeReads};
use crate::simd::word_tree::WordTree;
use crate::simd::{WINDOW, Wide};
use onefold_nat::NO_LEASE;
use onefold_packet::Packet;

/// Masked matches that are compared together.
const AT_ONCE: usize = 4;

/// Where a cache's packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    /// The stage of the program where they entered.
    pub entry: u32,
    /// The stage that they are at.
    pub stage: u32,
    /// How many epochs are behind them.
    pub depth: usize,
    /// They are looked at from so many bytes before their first one, where their IP headers begin at
    /// [`HEAD_AT`](crate::simd::HEAD_AT) then.
    pub shift: i32,
}

/// Everything about one entry, or about one place where an epoch begins behind a write-out or an element that was
/// asked.
#[derive(Debug)]
pub(crate) struct IngressCache {
    /// `u32::MAX` of what is no entry.
    pub source: u32,
    pub seat: Seat,
    /// Some of its actions' packets [go on](crate::flow::exit).
    pub exits: bool,
    /// Some of its actions are [composed](crate::flow::composed).
    pub composed: bool,
    /// Its packets come one by one ([`Exit::alone`](crate::flow::exit::Exit::alone)).
    pub alone: bool,
    /// When the next packet is looked up for what may be.
    pub patience: Patience,
    /// What decides where packets go, and what later caches ask of packets that come from here.
    reads: EntryReads,
    wider: Vec<ShapeReads>,
    plans: Vec<Plan>,
    /// Of long fields of all masked matches.
    pub trees: Vec<WordTree>,
    pub matches: Vec<MaskedMatch>,
    /// Of their interval tables.
    pub places: Vec<u32>,
    pub order: MatchOrder,
    /// There are [quick](MaskedMatch::quick) ones of IPv6 packets.
    pub quick_v6: bool,
    pub monitor: Monitor,
}

impl IngressCache {
    pub fn new(code: &Code, reads: &EntryReads, seat: Seat, monitor: Monitor) -> IngressCache {
        let mut cache = IngressCache {
            source: reads.source,
            seat,
            exits: false,
            composed: false,
            alone: false,
            patience: Patience::default(),
            wider: Vec::new(),
            reads: reads.clone(),
            plans: Vec::new(),
            trees: Vec::new(),
            matches: Vec::new(),
            places: Vec::new(),
            order: MatchOrder::default(),
            quick_v6: false,
            monitor,
        };
        cache.make_plans(code);
        cache
    }

    /// From the next [`IngressCache::make_plans`] on, packets are asked what a later cache asks, too.
    pub fn widen(&mut self, later: &EntryReads) {
        if self.wider.is_empty() {
            self.wider.clone_from(&self.reads.shapes);
        }
        for (s, wider) in Shape::all().into_iter().zip(&mut self.wider) {
            for (then, reads) in Shape::all().into_iter().zip(&later.shapes) {
                if (then.v6, then.transport) == (s.v6, s.transport) && then.l3 <= s.l3 {
                    wider.widen(reads, s, then);
                }
            }
        }
    }

    /// Makes plans of what is to be asked. There is no match any more.
    pub fn make_plans(&mut self, code: &Code) {
        let (mut plans, mut trees) = (Vec::new(), Vec::new());
        for (i, s) in Shape::all().into_iter().enumerate() {
            let at = (s, self.seat.shift);
            let wider = self.wider.get(i);
            let wider = wider.and_then(|r| plan(code, r, at, &mut trees));
            let own = self.reads.shapes.get(i);
            plans.extend(wider.or_else(|| plan(code, own?, at, &mut trees)));
        }
        (self.plans, self.trees) = (plans, trees);
        self.matches.clear();
        self.places.clear();
        self.order = MatchOrder::default();
        self.quick_v6 = false;
    }

    /// The first masked match that a packet is in, and what its IP header says of its length.
    #[inline(always)]
    fn find(&self, wide: impl Wide, w: &[u8; WINDOW], p: &Packet) -> Option<(usize, u32)> {
        let v = wide.load(w);
        let right = |b: &MaskedMatch| wide.inside(v, &b.mask, &b.lo, &b.span);
        // Most traffic is in two or four masked matches, in no order that a processor could foresee: these are
        // compared without a branch.
        let mut some = 0;
        for (i, b) in self.matches.iter().take(AT_ONCE).enumerate() {
            some |= u32::from(right(b)) << i;
        }
        // Bound: one bit less each time
        while some != 0 {
            let i = some.trailing_zeros() as usize;
            if let Some(total) = self.matches.get(i)?.holds(w, p) {
                return Some((i, total));
            }
            some &= some - 1;
        }
        let mut others = self.matches.iter().enumerate().skip(AT_ONCE);
        others.find_map(|(i, b)| match right(b) {
            true => b.holds(w, p).map(|total| (i, total)),
            false => None,
        })
    }

    #[inline(always)]
    fn action_of_packet(&self, wide: impl Wide, w: Option<&[u8; WINDOW]>, x: &mut PacketMeta) {
        (x.action, x.slot, x.lease) = (UNKNOWN, NO_SLOT, NO_LEASE);
        let Some(b) = self.matches.get(usize::from(x.guard)) else {
            return;
        };
        let Some(w) = w else { return };
        if let Some(d) = &b.interval_table {
            x.action = d.get(wide, w, &self.places);
            // nothing to be looked up, or nothing known; else the table knows
            if x.action != BY_FLOW {
                return;
            }
        }
        x.action = BY_FLOW;
        x.sum = b.sum_of(w);
        b.key(w, &mut x.key);
    }

    /// Both, of one packet.
    pub fn parse(&self, wide: impl Wide, p: &Packet, x: &mut PacketMeta) {
        x.guard = NO_MATCH;
        if let Some(w) = p.window()
            && let Some((i, total)) = self.find(wide, w, p)
        {
            (x.guard, x.total) = (i as u16, total);
        }
        self.action_of_packet(wide, p.window(), x);
    }

    /// A masked match for a packet that is in none; false when there cannot be one.
    #[cold]
    pub fn make_match(&mut self, p: &Packet, next: &mut u32) -> bool {
        let Some(w) = p.window::<WINDOW>() else {
            return false;
        };
        if p.window::<ROOM>().is_none() || self.matches.len() >= MAX_MATCHES || *next >= 1 << 31 {
            return false;
        }
        let shaped = |plan: &&Plan| {
            plan.has_shape(w) && !plan.shape.excludes(w) && fits(plan.shape, w, p.len()).is_some()
        };
        let Some(plan) = self.plans.iter().find(shaped) else {
            return false;
        };
        let Some(made) = make(plan, (w, p), *next, &mut self.places) else {
            return false;
        };
        *next += 1;
        self.quick_v6 |= made.quick && made.shape.v6;
        self.order.push();
        self.matches.push(made);
        true
    }
}

/// Masked matches of one entry.
const MAX_MATCHES: usize = 48;

/// Bytes that a packet's buffer must have from its first byte on, so that a header can be pulled or written.
const ROOM: usize = 128;
