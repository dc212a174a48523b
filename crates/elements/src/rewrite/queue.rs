//! Flows by age: which one has been silent longest.
//!
//! A packet of a flow only writes the flow's stamp; it moves nothing. An [`AgeQueue`] files every flow under the stamp that
//! it had when it was last filed, and looks at the real stamp when the flow comes up as the oldest: one that has been
//! refreshed since is filed again. Stamps only grow, so a radix heap does: filing is O(1), and finding the oldest costs each
//! filed flow at most 64 moves to a lower bucket in all, however often it is refreshed.
//!
//! Bound: one call of [`AgeQueue::oldest`] looks at each flow of the queue at most 65 times, and that only when all of them
//! have been refreshed since they were filed; over a run it is constant per packet.

use super::lease::Leases;
use super::record::Record;

/// "No record".
pub(super) const NIL: u32 = u32::MAX;

const BUCKETS: usize = 65;

/// Flows with the same time-out, so that the one that has been silent longest is the one to expire first.
#[derive(Debug, Clone)]
pub(super) struct AgeQueue {
    /// No flow in the queue is filed under less.
    base: u64,
    /// Bit `i`: bucket `i` is not empty.
    used: u128,
    /// Heads of doubly linked lists. A stamp belongs to the bucket of the highest bit in which it differs from the base.
    heads: [u32; BUCKETS],
}

impl Default for AgeQueue {
    fn default() -> Self {
        AgeQueue {
            base: 0,
            used: 0,
            heads: [NIL; BUCKETS],
        }
    }
}

#[inline]
fn bucket_of(stamp: u64, base: u64) -> usize {
    64 - (stamp ^ base).leading_zeros() as usize
}

impl AgeQueue {
    /// Files a record under its stamp, which must not be less than any stamp that [`AgeQueue::oldest`] has met.
    pub fn push(&mut self, records: &mut [Record], i: u32) {
        let stamp = records[i as usize].stamp.max(self.base);
        let b = bucket_of(stamp, self.base);
        let next = self.heads[b];
        let r = &mut records[i as usize];
        r.bucket = b as u8;
        r.prev = NIL;
        r.next = next;
        if next != NIL {
            records[next as usize].prev = i;
        }
        self.heads[b] = i;
        self.used |= 1 << b;
    }

    /// Takes a record out.
    pub fn unlink(&mut self, records: &mut [Record], i: u32) {
        let Record {
            prev, next, bucket, ..
        } = records[i as usize];
        if prev == NIL {
            let b = usize::from(bucket);
            self.heads[b] = next;
            if next == NIL {
                self.used &= !(1 << b);
            }
        } else {
            records[prev as usize].next = next;
        }
        if next != NIL {
            records[next as usize].prev = prev;
        }
    }

    /// The record with the least stamp. Stamps of those that are looked at are those of their last use afterwards.
    pub fn oldest(&mut self, records: &mut [Record], leases: Option<&Leases>) -> Option<u32> {
        // Each round files at least one record higher up, or spreads a bucket over lower ones.
        loop {
            if self.used == 0 {
                return None;
            }
            let b = self.used.trailing_zeros() as usize;
            let head = self.heads[b];
            if b == 0 {
                records[head as usize].settle(leases);
                if records[head as usize].stamp == self.base {
                    return Some(head);
                }
                self.unlink(records, head);
                self.push(records, head);
                continue;
            }
            // The least stamp that still belongs to this bucket is the least of all: higher buckets only hold greater ones.
            let mut least = None;
            let mut i = head;
            while i != NIL {
                let r = &mut records[i as usize];
                r.settle(leases);
                if bucket_of(r.stamp, self.base) == b {
                    least = Some(least.map_or(r.stamp, |l: u64| l.min(r.stamp)));
                }
                i = r.next;
            }
            if let Some(l) = least {
                self.base = l;
            }
            self.heads[b] = NIL;
            self.used &= !(1 << b);
            let mut i = head;
            while i != NIL {
                let next = records[i as usize].next;
                self.push(records, i);
                i = next;
            }
        }
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
                        q.push(&mut records, i as u32);
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
}
