//! Composed actions whose packets are written once: all that the templates of their parts do is done by one of them,
//! and a packet is counted once for all of its actions ([`crate::flow::fuse`] says when that can be done).
//!
//! A template begins where the one before has just written, so that its loads wait for those stores; and each action
//! has a tally, which waits likewise. Here a packet's window is read and written once, and its way has one tally,
//! from which those of the actions follow whenever anyone may ask for them ([`FusedWays::take`]).

use crate::flow::flow_action::{Count, Pending};
use crate::simd::window_rewrite::WindowRewrite;
use onefold_element::BatchNeeds;
use std::collections::HashMap;

/// Elements that are asked on a fused way, at most.
pub(crate) const MAX_ASKED: usize = 5;

/// An element that is asked on a fused way.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FusedAsk {
    pub node: u16,
    /// Where the packet begins that it would be given, in bytes behind the beginning of the packet that came.
    pub start: i16,
    /// Bytes of the IP header.
    pub header: u8,
    pub protocol: u8,
    /// Which of the hints that are kept with flows' entries is its; [`HINTS`](crate::flow::in_place_way::HINTS) for
    /// none.
    pub hint: u8,
}

/// A way that packets go with one rewrite. Places are in bytes behind the beginning of the packet that came.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Fused {
    pub asked: [FusedAsk; MAX_ASKED],
    /// How many are asked.
    pub count: u8,
    /// How many of them before the packet is written.
    pub written: u8,
    /// How many of them before the lease is used.
    pub touched: u8,
    /// How many of them before the packet ends where its IP header says; more than there are if it does not.
    pub trimmed: u8,
    /// The flow's operands are written.
    pub own: bool,
    /// Nothing is written.
    pub idle: bool,
    /// The packet ends where its IP header says.
    pub trims: bool,
    /// Nobody asks when the bindings were used last that its operands stand on.
    pub untimed: bool,
    /// Where the IP header is.
    pub l3: u16,
    /// Where the packet begins that leaves.
    pub start: i16,
    /// Number of the rewrite.
    pub rewrite: u32,
    /// Where it leaves.
    pub sink: u32,
    /// To be added to the flow's operands: checksums' changes that all packets have in common.
    pub sums: u32,
}

// one line of the cache
const _: () = assert!(size_of::<Fused>() == 64);

/// An action on a fused way: of what lengths its packets were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FusedPart {
    pub action: u32,
    /// Where packets begin at it.
    pub start: i32,
    /// They end where their IP headers say.
    pub trimmed: bool,
    /// What the element behind it is counted at, if one is asked.
    pub site: Option<u32>,
}

/// Packets of a way that its actions have not been told of.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(32))]
pub(crate) struct WayTally {
    pub packets: u64,
    /// Bytes as they came.
    pub bytes: u64,
    /// From where they came to where their IP headers say that they end.
    pub ends: u64,
    /// As their IP headers say.
    pub ip_bytes: u64,
}

impl WayTally {
    /// So many packets more, of so many bytes, and so many as their IP headers say.
    #[inline(always)]
    pub fn add(&mut self, packets: u64, bytes: u64, ip_bytes: u64, way: &Fused) {
        *self = WayTally {
            packets: self.packets + packets,
            bytes: self.bytes + bytes,
            ends: self.ends
                + match way.trims {
                    true => ip_bytes + packets * u64::from(way.l3),
                    false => bytes,
                },
            ip_bytes: self.ip_bytes + ip_bytes,
        };
    }

    /// Bytes that an action counts.
    fn bytes_at(&self, part: &FusedPart) -> u64 {
        let all = if part.trimmed { self.ends } else { self.bytes };
        let less = (self.packets as i64).wrapping_mul(part.start.into());
        all.wrapping_add_signed(less.wrapping_neg())
    }

    /// What an action counts.
    fn pending_at(&self, part: &FusedPart) -> Pending {
        Pending {
            packets: self.packets,
            bytes: self.bytes_at(part),
            ip_bytes: self.ip_bytes,
        }
    }
}

/// A way with all that belongs to it.
#[derive(Debug)]
pub(crate) struct WholeWay {
    pub way: Fused,
    /// Packets may go it [together](crate::flow::inspect_batch): what the element that inspects them needs.
    pub batched: Option<BatchNeeds>,
    pub rewrite: WindowRewrite,
    pub parts: Box<[FusedPart]>,
    /// What is told at the end of a moment: a count of one of the parts.
    pub moments: Vec<(Count, usize)>,
}

/// All of them, by number.
#[derive(Debug, Default)]
pub(crate) struct FusedWays {
    pub ways: Vec<Fused>,
    /// Packets of this moment.
    pub tallies: Vec<WayTally>,
    /// Packets of earlier ones that actions have not been told of.
    rest: Vec<WayTally>,
    pub parts: Vec<Box<[FusedPart]>>,
    /// What is told at the end of a moment: a counter, and which part's packets.
    moments: Vec<Box<[(u32, u32)]>>,
    /// What is written: few things, by many ways.
    pub rewrites: Vec<WindowRewrite>,
    known_rewrites: HashMap<WindowRewrite, u32>,
    /// Counts that are told at the end of a moment: few, of many ways.
    pub counters: Vec<(Count, Pending)>,
    known_counters: HashMap<Count, u32>,
    /// Ways with packets of this moment, and of earlier ones.
    pub dirty: Vec<u32>,
    waiting: Vec<u32>,
}

impl FusedWays {
    /// The number of another one.
    pub fn add(&mut self, of: WholeWay) -> u32 {
        let rewrites = &mut self.rewrites;
        let number = (self.known_rewrites.entry(of.rewrite)).or_insert_with_key(|r| {
            rewrites.push(r.clone());
            rewrites.len() as u32 - 1
        });
        let rewrite = *number;
        let counters = &mut self.counters;
        let mut moments = Vec::new();
        for (count, part) in of.moments {
            let number = *self.known_counters.entry(count).or_insert_with(|| {
                counters.push((count, Pending::default()));
                counters.len() as u32 - 1
            });
            moments.push((number, part as u32));
        }
        self.ways.push(Fused { rewrite, ..of.way });
        self.tallies.push(WayTally::default());
        self.rest.push(WayTally::default());
        self.parts.push(of.parts);
        self.moments.push(moments.into());
        self.ways.len() as u32 - 1
    }

    /// The moment ends: [counters](FusedWays::counters) have its packets, and `site` is told of those that asked
    /// elements have seen.
    pub fn end_moment(&mut self, mut site: impl FnMut(u32, u64)) {
        // Bound: ways
        while let Some(way) = self.dirty.pop() {
            let at = way as usize;
            let (Some(tally), Some(rest), Some(parts), Some(moments)) = (
                self.tallies.get_mut(at),
                self.rest.get_mut(at),
                self.parts.get(at),
                self.moments.get(at),
            ) else {
                continue;
            };
            let tally = std::mem::take(tally);
            for part in parts {
                if let Some(s) = part.site {
                    site(s, tally.packets);
                }
            }
            for (counter, part) in moments {
                let part = parts.get(*part as usize);
                if let (Some((_, n)), Some(part)) = (self.counters.get_mut(*counter as usize), part)
                {
                    n.packets += tally.packets;
                    n.bytes += tally.bytes_at(part);
                    n.ip_bytes += tally.ip_bytes;
                }
            }
            if rest.packets == 0 {
                self.waiting.push(way);
            }
            rest.packets += tally.packets;
            rest.bytes += tally.bytes;
            rest.ends += tally.ends;
            rest.ip_bytes += tally.ip_bytes;
        }
    }

    /// Packets of moments that have ended that actions have not been told of: an action, and which those are.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, Pending)> {
        self.waiting.iter().flat_map(|way| {
            let parts = self.parts.get(*way as usize).map_or(&[][..], |p| p);
            let tally = self.rest.get(*way as usize).copied().unwrap_or_default();
            parts.iter().map(move |p| (p.action, tally.pending_at(p)))
        })
    }

    /// These have been told.
    pub fn all_told(&mut self) {
        for way in self.waiting.drain(..) {
            if let Some(rest) = self.rest.get_mut(way as usize) {
                *rest = WayTally::default();
            }
        }
    }

    /// Forgets all of them. What their packets are counted by must have been told.
    pub fn clear(&mut self) {
        debug_assert!(self.dirty.is_empty() && self.waiting.is_empty());
        *self = FusedWays::default();
    }
}
