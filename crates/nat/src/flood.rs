//! New flows of a batch, all of them made before the first of their packets is written.
//!
//! What [`Binder::bind`] does for a packet, and what is then written into the packet, are some hundreds of
//! instructions, most of which find out what is the same for all packets of a flood, or bring to the stack what a
//! processor has no registers left for. Here all places in the index are found, then all records are written
//! (docs/decisions/0033). What is plain is made, in the order of packets; at what is not it ends, and [`Binder::bind`]
//! goes on.

use crate::age_queue::Filed;
use crate::binder::{Binder, Wanted};
use crate::columns::{COLUMNS, Columns};
use crate::insert_evict::EvictionOrder;
use crate::record::{CLASSES, NewFlow};
use crate::table::FlowTable;
use onefold_packet::Timestamp;

/// Packets that may be new flows.
struct News<'c> {
    c: &'c Columns,
    from: usize,
    n: usize,
    input: u16,
    outputs: (usize, usize),
    /// The first stamp of their millisecond.
    first: u64,
}

impl<'s> Binder<'s> {
    /// Did all packets of the batch that was [prepared](Binder::batch_prepare) last look as if they began flows?
    #[inline(always)]
    pub fn floods(&self) -> bool {
        self.table.flood
    }

    /// Is all wanted that new flows may become?
    #[inline(always)]
    pub fn always_as_wanted(&mut self, wanted: &'s Wanted) -> bool {
        let leaves = self.new.as_ref().map(|(_, f, _)| *f);
        leaves == Some(wanted.output) && self.is_always_wanted(wanted)
    }

    /// Binds up to `n` packets, from number `from` of these columns on, which are [always as
    /// wanted](Binder::always_as_wanted): as many as begin flows of which nothing special is to be seen. What
    /// [`Binder::bind`] would give for each is then their [`Columns::binding`]; how many there are comes back, and
    /// nothing has happened for the others.
    #[inline(always)]
    pub fn bind_new(&mut self, c: &Columns, from: usize, n: usize, now: Timestamp) -> usize {
        let first = self.first_stamp(now);
        let Some((pattern, f, r)) = &mut self.new else {
            return 0;
        };
        let news = News {
            c,
            from,
            n: c.likely(from, n),
            input: self.port,
            outputs: (usize::from(*f), usize::from(*r)),
            first,
        };
        let made = self.table.insert_new(&news);
        if let Some(last) = made.checked_sub(1) {
            pattern.take_own(c.flow(from + last));
        }
        made
    }
}

impl FlowTable {
    /// Inserts flows as long as there is nothing special about them, and says how many.
    #[inline(always)]
    fn insert_new(&mut self, news: &News<'_>) -> usize {
        // flows with mappings are made one by one, here and where they go
        if self.has_exhaustion() || self.endpoints.is_some() || news.n == 0 {
            return 0;
        }
        match self.limit().checked_sub(self.live) {
            // in places of others where there is no room, and next time where there is not enough
            None | Some(0) => self.insert_evicting(news),
            Some(room) => self.insert_without_evicting(news, news.n.min(room)),
        }
    }

    /// Where all of them find room.
    #[inline(always)]
    fn insert_without_evicting(&mut self, news: &News<'_>, n: usize) -> usize {
        let c = news.c;
        let mut records = [0; COLUMNS];
        let mut made = 0;
        for (i, to) in (news.from..).zip(&mut records).take(n) {
            let hashes = c.hashes(i);
            let Some([forward, reply]) = self.index.vacancies(hashes) else {
                break;
            };
            let (new, deltas) = c.new_flow(i, news.input, news.outputs);
            self.check_free(&new, hashes, deltas);
            let Some(record) = self.allocate() else { break };
            self.index.fill(forward, hashes[0], record << 1);
            self.index.fill(reply, hashes[1], record << 1 | 1);
            *to = record;
            made += 1;
        }
        if made == 0 {
            return 0;
        }
        let first = self.next_stamp(news.first);
        self.keep_tidy(c.map(news.from));
        let mut alone = false;
        let mut queues = Queues::default();
        for ((i, record), stamp) in (news.from..).zip(&records).zip(first..).take(made) {
            let (new, deltas) = c.new_flow(i, news.input, news.outputs);
            let filed = self.fill(*record, &new, stamp, c.hashes(i), deltas);
            alone |= self.file_newest(&mut queues, &new, filed);
        }
        if alone {
            self.order = EvictionOrder::default();
        }
        self.set_last_stamp(first + made as u64 - 1);
        self.live += made;
        self.count_flows(c.map(news.from), news.input, made as u32);
        made
    }

    /// Where each of them replaces another one: the next victim may depend on the flow that has just been inserted.
    #[inline(always)]
    fn insert_evicting(&mut self, news: &News<'_>) -> usize {
        let c = news.c;
        let map = c.map(news.from);
        self.keep_tidy(map);
        let first = self.next_stamp(news.first);
        let Some(mut cursor) = self.eviction_cursor(map, first) else {
            return 0;
        };
        let mut queues = Queues::default();
        let (mut made, mut more) = (0, 0);
        for (i, stamp) in (news.from..).zip(first..).take(news.n) {
            let hashes = c.hashes(i);
            let Some([forward, reply]) = self.index.vacancies(hashes) else {
                break;
            };
            let (new, deltas) = c.new_flow(i, news.input, news.outputs);
            self.check_free(&new, hashes, deltas);
            let gone = self.evict_next(&mut cursor, new.map, stamp, news.input);
            let Some((record, same)) = gone else { break };
            more += u32::from(!same);
            self.index.fill(forward, hashes[0], record << 1);
            self.index.fill(reply, hashes[1], record << 1 | 1);
            let filed = self.fill(record, &new, stamp, hashes, deltas);
            made += 1;
            if self.file_newest(&mut queues, &new, filed) {
                self.order = EvictionOrder::default();
                break;
            }
        }
        if made > 0 {
            self.set_last_stamp(first + made as u64 - 1);
            self.evictions += made as u64;
            self.count_flows(map, news.input, more);
        }
        made
    }

    /// What new flows of a rewriter would do to its queues one by one: filings leave nothing stale behind, so that once
    /// is enough.
    #[inline(always)]
    fn keep_tidy(&mut self, map: u16) {
        let member = usize::from(map >> 1);
        for q in self.queues.iter_mut().skip(member * CLASSES).take(CLASSES) {
            q.keep_tidy(&self.records);
        }
    }

    /// Files a flow that has been written down with a stamp after all others. Is it alone in its queue?
    #[inline(always)]
    fn file_newest(&mut self, queues: &mut Queues, new: &NewFlow, filed: Filed) -> bool {
        let kind = u32::from(new.map) << 8 | u32::from(new.flags);
        let known = &mut queues.0[usize::from(new.map & 1)];
        if known.0 != kind {
            *known = (kind, self.queue_of(new.map, new.flags));
        }
        match self.queues.get_mut(known.1) {
            Some(q) => q.file_newest(filed),
            None => false,
        }
    }
}

/// The queues of the last flows of each map: two kinds of packets are the rule, one in each.
struct Queues([(u32, usize); 2]);

impl Default for Queues {
    fn default() -> Queues {
        Queues([(u32::MAX, 0); 2])
    }
}
