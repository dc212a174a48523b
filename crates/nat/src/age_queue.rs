//! Flows by age: which one has been idle longest.
//!
//! A packet of a flow only writes the flow's stamp; it moves nothing. An [`AgeQueue`] files every flow under the stamp
//! that it had when it was last filed, and looks at the real stamp when the flow comes up as the oldest: one that has
//! been refreshed since is filed again. Stamps only grow, so flows that are filed for the first time stand in line, in
//! an array that is read from one end and written at the other: of flows that are never used again (a flood's) nothing
//! is read but the one that is evicted. Those that are filed again go to a heap.
//!
//! What is filed says so itself: a record has the number of its last filing, and whatever has another number is of no
//! worth any more. So nothing is searched for or linked, and leaving the queue costs one number; what is left behind
//! goes when it comes up, or when it is more than what is worth something.
//!
//! Bound: one call of [`AgeQueue::oldest`] files each flow of the queue at most once, and that only when all of them
//! have been refreshed since they were filed; over a run it is constant per packet, but for the heap's logarithm.

use crate::lease::Leases;
use crate::record::Record;
use onefold_table::{RingBuffer, prefetch};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// "No record".
pub(crate) const NIL: u32 = u32::MAX;

/// What is worth nothing may be so much more than what is.
const SLACK: usize = 64;

/// A flow as it was when it was filed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Filed {
    pub stamp: u64,
    pub record: u32,
    /// Of this filing: another one stands in its record if it has left.
    pub number: u32,
    /// Of its keys in the index, as they arrive in both directions: an evicted flow leaves the index without its record
    /// being read.
    pub hashes: [u32; 2],
}

/// Flows with the same time-out, so that the one that has been silent longest is the one to expire first.
#[derive(Debug, Clone, Default)]
pub(crate) struct AgeQueue {
    /// Filed for the first time: stamps grow.
    line: RingBuffer<Filed>,
    /// The stamp of the last one that was added to the line: no other one in it has a greater one.
    last: u64,
    /// Filed again.
    again: BinaryHeap<Reverse<Filed>>,
    live: usize,
}

impl AgeQueue {
    /// Files a record under its stamp; it must not be in a queue. `hashes`: of its keys. True where it may have the
    /// least stamp of all now, or is the only one.
    pub fn push(&mut self, records: &mut [Record], i: u32, hashes: [u32; 2]) -> bool {
        let r = &mut records[i as usize];
        r.filing = r.filing.wrapping_add(1);
        let f = Filed {
            stamp: r.stamp,
            record: i,
            number: r.filing,
            hashes,
        };
        self.file(records, f)
    }

    /// The same of a record in which number and stamp stand already.
    #[inline(always)]
    pub fn file(&mut self, records: &[Record], f: Filed) -> bool {
        // entries of flows that have left may still be in it: they are removed when they come up
        let alone = self.is_empty();
        let empty = self.line.is_empty();
        let behind = !empty && self.last <= f.stamp;
        if behind || empty {
            self.last = f.stamp;
            self.line.push_back(f);
        } else {
            // field by field: what is handed over in memory is in memory on the other way, too, where it is written in
            // parts, read as a whole, and waited for
            self.file_again(f.stamp, f.record, f.number, f.hashes);
        }
        self.live += 1;
        self.keep_tidy(records);
        alone || !behind
    }

    /// The same of one with a stamp after all others. It does not [tidy](AgeQueue::keep_tidy): one filing leaves
    /// nothing stale behind.
    #[inline(always)]
    pub fn file_newest(&mut self, f: Filed) -> bool {
        let alone = self.is_empty();
        self.last = f.stamp;
        self.line.push_back(f);
        self.live += 1;
        alone
    }

    /// Removes stale entries where there are more of them than of valid ones.
    #[inline(always)]
    pub fn keep_tidy(&mut self, records: &[Record]) {
        if self.line.len() + self.again.len() > 2 * self.live + SLACK {
            self.tidy(records);
        }
    }

    #[cold]
    #[inline(never)]
    fn file_again(&mut self, stamp: u64, record: u32, number: u32, hashes: [u32; 2]) {
        self.again.push(Reverse(Filed {
            stamp,
            record,
            number,
            hashes,
        }));
    }

    /// Removes stale entries.
    #[cold]
    fn tidy(&mut self, records: &[Record]) {
        let worth = |f: &Filed| records[f.record as usize].filing == f.number;
        self.line.retain(worth);
        self.again.retain(|f| worth(&f.0));
    }

    /// Takes a record out.
    #[inline]
    pub fn unlink(&mut self, records: &mut [Record], i: u32) {
        let r = &mut records[i as usize];
        if self.line.front().is_some_and(|f| f.record == i) {
            self.line.pop_front();
        }
        r.filing = r.filing.wrapping_add(1);
        self.live -= 1;
    }

    /// The first entry of the line, if no entry that has been filed again is older.
    #[inline(always)]
    pub fn first(&self) -> Option<Filed> {
        let f = self.line.front()?;
        if self.again.peek().is_some_and(|t| t.0.stamp < f.stamp) {
            return None;
        }
        Some(*f)
    }

    /// Removes the first entry of the line, whose flow is filed nowhere else.
    #[inline(always)]
    pub fn pop_first(&mut self) {
        self.line.pop_front();
        self.live -= 1;
    }

    /// Is no flow in it?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// No record has a lesser stamp. Nothing is looked at but what has been filed.
    #[inline]
    pub fn least(&self) -> Option<u64> {
        let (first, top) = (self.line.front(), self.again.peek());
        match (first.map(|f| f.stamp), top.map(|t| t.0.stamp)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The record with the least stamp. Stamps of those that are looked at are those of their last use afterwards.
    pub fn oldest(&mut self, records: &mut [Record], leases: Option<&Leases>) -> Option<u32> {
        // Bound: each round takes out something that is worth nothing, or files a flow under a greater stamp.
        loop {
            let (first, top) = (self.line.front(), self.again.peek());
            let (f, in_line) = match (first, top) {
                (Some(f), Some(Reverse(t))) if t.stamp < f.stamp => (*t, false),
                (Some(f), _) => (*f, true),
                (None, Some(Reverse(t))) => (*t, false),
                (None, None) => return None,
            };
            let r = &mut records[f.record as usize];
            let worth = r.filing == f.number;
            if worth {
                r.settle(leases);
                if r.stamp == f.stamp {
                    return Some(f.record);
                }
            }
            let new = Reverse(Filed {
                stamp: r.stamp,
                ..f
            });
            match (in_line, worth) {
                (true, true) => {
                    self.line.pop_front();
                    self.again.push(new);
                }
                (true, false) => {
                    self.line.pop_front();
                }
                (false, true) => {
                    if let Some(mut top) = self.again.peek_mut() {
                        *top = new;
                    }
                }
                (false, false) => {
                    self.again.pop();
                }
            }
        }
    }

    /// [`AgeQueue::nth`] of so many will be asked.
    #[inline(always)]
    pub fn prefetch(&self, n: usize) {
        if let Some(f) = self.line.get(n) {
            prefetch(f);
        }
    }

    /// The record that is number `n` in line, and its hashes: soon the oldest, if it has not been used since. Possibly
    /// one that has left.
    #[inline(always)]
    pub fn nth(&self, n: usize) -> Option<(u32, [u32; 2])> {
        self.line.get(n).map(|f| (f.record, f.hashes))
    }
    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        self.line.memory_bytes() + self.again.capacity() * size_of::<Filed>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Against a plain search for the least stamp.
        #[test]
        fn finds_the_longest_silent(ops in proptest::collection::vec((0u8..5, 0usize..24, 1u64..5000), 1..400)) {
            let mut records = vec![Record::default(); 24];
            let mut live = [false; 24];
            let mut q = AgeQueue::default();
            let mut clock = 1u64 << 40;
            for (op, i, step) in ops {
                clock += step;
                match (op, live[i]) {
                    (0 | 1, false) => {
                        records[i].stamp = clock;
                        q.push(&mut records, i as u32, [0; 2]);
                        live[i] = true;
                    }
                    (1 | 2, true) => records[i].stamp = clock,
                    (3, true) => {
                        q.unlink(&mut records, i as u32);
                        live[i] = false;
                    }
                    _ => {
                        let want = (0..24).filter(|i| live[*i]).min_by_key(|i| records[*i].stamp);
                        proptest::prop_assert_eq!(q.oldest(&mut records, None), want.map(|i| i as u32));
                    }
                }
            }
        }
    }

    /// Flows that go from queue to queue leave nothing behind that grows.
    #[test]
    fn what_is_left_behind_is_bounded() {
        let mut records = vec![Record::default(); 10];
        let mut queues = [AgeQueue::default(), AgeQueue::default()];
        for i in 0..10 {
            queues[0].push(&mut records, i, [0; 2]);
        }
        let mut of = [0; 10];
        for stamp in 1..100_000u64 {
            let i = (stamp % 10) as usize;
            records[i].stamp = stamp;
            queues[of[i]].unlink(&mut records, i as u32);
            of[i] ^= 1;
            queues[of[i]].push(&mut records, i as u32, [0; 2]);
        }
        for q in &queues {
            assert!(q.line.len() + q.again.len() <= 2 * 10 + SLACK);
        }
        assert_eq!(queues[0].live + queues[1].live, 10);
    }
}
