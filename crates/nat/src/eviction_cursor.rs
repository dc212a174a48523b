//! Evictions one after the other, where each new flow of a flood replaces another one.
//!
//! Finding the next victim anew takes some 300 instructions: two queues' first flows, their ranks, and the new one's.
//! Most of that is the same from one flow to the next within a millisecond, and only the queue that a flow was evicted
//! from has another first flow.

use crate::age_queue::{Filed, NIL};
use crate::insert_evict::rank;
use crate::lease::{NO_LEASE, STAMP_BITS};
use crate::record::Timeout;
use crate::table::{FlowTable, timeout};

/// What orders flows that may go, as numbers that are compared at once: when, behind all others if it is guaranteed
/// until then; stamp.
type Order = (u64, u64);

/// Set where a flow is guaranteed.
const GUARANTEED: u64 = 1 << 63;

fn order((guaranteed, when, stamp): (bool, u64, u64)) -> Order {
    (when | if guaranteed { GUARANTEED } else { 0 }, stamp)
}

/// The first flow of a queue.
#[derive(Debug, Clone, Copy)]
struct Head {
    order: Order,
    filed: Filed,
}

/// Two queues whose flows go next, as [the last search](crate::insert_evict::EvictionOrder) left it, and what is known
/// of them within one millisecond.
///
/// It holds as long as flows leave queues only by [`FlowTable::evict_next`], and no flow is added that is
/// [alone](crate::age_queue::AgeQueue::file_newest) in its queue.
#[derive(Debug)]
pub(crate) struct EvictionCursor {
    now_ms: u64,
    until: Order,
    queues: [usize; 2],
    timeouts: [Timeout; 2],
    heads: [Option<Head>; 2],
    /// Of both maps of a rewriter: what a new flow's order begins with, behind all others where it may not go itself.
    own: [u64; 2],
}

impl FlowTable {
    /// A cursor for new flows of these maps' rewriter with stamps of this millisecond; `None` where the next victim
    /// takes a search.
    pub(crate) fn eviction_cursor(&self, map: u16, stamp: u64) -> Option<EvictionCursor> {
        let now_ms = stamp >> STAMP_BITS;
        let last = &self.order;
        if last.now_ms != now_ms {
            return None;
        }
        let own = [map & !1, map | 1].map(|map| {
            let t = timeout(&self.members, self.queue_of(map, 0));
            match t.guarantee {
                0 => now_ms + t.expire,
                _ => u64::MAX,
            }
        });
        let mut cursor = EvictionCursor {
            now_ms,
            until: order(last.until),
            queues: last.queues,
            timeouts: last.queues.map(|q| timeout(&self.members, q)),
            heads: [None; 2],
            own,
        };
        for n in 0..2 {
            self.read_head(&mut cursor, n);
        }
        Some(cursor)
    }

    /// Reads a queue's first flow again.
    #[inline(always)]
    fn read_head(&self, g: &mut EvictionCursor, n: usize) {
        let first = match self.queues.get(g.queues[n]) {
            Some(q) => q.first(),
            None => None,
        };
        g.heads[n] = match first {
            Some(filed) => Some(Head {
                order: order(rank(g.timeouts[n], g.now_ms, filed.stamp)),
                filed,
            }),
            None => None,
        };
    }

    /// Evicts the flow that a new one of the map with this stamp replaces: takes it out of its queue and of the index,
    /// and gives its record, which the new one reuses. `None`, and nothing has happened, where that takes a search.
    /// Where the victim was counted for the same member and `input`, its count stays as it is and true is returned: one
    /// less and one more.
    #[inline(always)]
    pub(crate) fn evict_next(
        &mut self,
        g: &mut EvictionCursor,
        map: u16,
        stamp: u64,
        input: u16,
    ) -> Option<(u32, bool)> {
        let [Some(a), Some(b)] = g.heads else {
            return None;
        };
        let n = usize::from(b.order < a.order);
        let head = if n == 1 { b } else { a };
        let own = (g.own[usize::from(map & 1)], stamp);
        let goes = (head.order < g.until)
            & (head.order.0 < GUARANTEED)
            & (head.order < own)
            & (stamp >> STAMP_BITS == g.now_ms);
        let i = head.filed.record;
        let r = self.records.get_mut(i as usize)?;
        // what it was filed under was its last use, and there is nothing else to be taken care of
        let plain = (r.filing == head.filed.number)
            & (r.stamp == head.filed.stamp)
            & (r.lease == NO_LEASE)
            & (r.shifts == NIL);
        if !(goes & plain) {
            return None;
        }
        r.generation = r.generation.wrapping_add(1);
        let (its_map, its_input) = (r.map, r.input);
        #[cfg(debug_assertions)]
        debug_assert!(self.is_victim(g.now_ms, i));
        let [forward, reply] = head.filed.hashes;
        self.index.take_out(forward, i << 1);
        self.index.take_out(reply, i << 1 | 1);
        let same = (its_map >> 1 == map >> 1) & (its_input == input);
        if !same {
            self.count_removed(its_map, its_input);
        }
        let queue = g.queues[n];
        if let Some(q) = self.queues.get_mut(queue) {
            q.pop_first();
        }
        self.read_head(g, n);
        if g.queues[0] == g.queues[1] {
            g.heads = [g.heads[n]; 2];
        }
        self.prefetch_victims(queue);
        Some((i, same))
    }
}
