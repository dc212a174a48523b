//! How many flows go to which server: counted when somebody asks, a part of the table at a time, so that nobody waits
//! long for it, however many flows there are.

use crate::mapper::ServerAddr;
use crate::table::FlowTable;
use std::collections::HashMap;
use std::hash::Hash;

/// Records that are looked at at a time: 4 MiB of a table.
pub const COUNTED_AT_ONCE: usize = 1 << 16;

/// Flows by server.
#[derive(Debug, Clone)]
pub struct DestinationCounts<A> {
    /// The place of each server.
    known: HashMap<A, usize>,
    flows: Vec<u64>,
    other: u64,
}

impl<A: Copy + Eq + Hash> DestinationCounts<A> {
    /// Of these servers; what one that is there twice has is the first one's.
    pub fn new(servers: &[A]) -> DestinationCounts<A> {
        let mut known = HashMap::new();
        for (i, s) in servers.iter().enumerate() {
            known.entry(*s).or_insert(i);
        }
        DestinationCounts {
            known,
            flows: vec![0; servers.len()],
            other: 0,
        }
    }

    /// A flow goes `there`; `anywhere` is the same without its port.
    pub fn add(&mut self, there: A, anywhere: A) {
        let of = self.known.get(&there).or(self.known.get(&anywhere));
        match of.and_then(|i| self.flows.get_mut(*i)) {
            Some(n) => *n += 1,
            None => self.other += 1,
        }
    }

    /// By server, in their order.
    pub fn flows(&self) -> &[u64] {
        &self.flows
    }

    /// Those that go elsewhere.
    pub fn other(&self) -> u64 {
        self.other
    }
}

impl FlowTable {
    /// Counts the flows of a rewriter that have not expired at `now` (milliseconds since the epoch), by where their
    /// forward packets go; of [`COUNTED_AT_ONCE`] records from number `from` on. Where the next ones begin; `None`:
    /// that was all.
    pub fn count_destinations(
        &self,
        (member, now): (u16, u64),
        from: usize,
        counts: &mut DestinationCounts<ServerAddr>,
    ) -> Option<usize> {
        let end = from.saturating_add(COUNTED_AT_ONCE);
        let records = self.records.iter().skip(from).take(COUNTED_AT_ONCE);
        for r in records {
            if r.used() && r.map / 2 == member && self.expiry_ms(r) > now {
                let to = r.rewritten(false);
                counts.add((to.daddr, to.dport), (to.daddr, 0));
            }
        }
        (end < self.records.len()).then_some(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_a_port_comes_before_one_without() {
        let mut c = DestinationCounts::new(&[(1u32, 0u16), (1, 80), (2, 80), (1, 80)]);
        for (there, n) in [((1, 80), 2), ((1, 81), 3), ((2, 81), 4), ((2, 80), 5)] {
            for _ in 0..n {
                c.add(there, (there.0, 0));
            }
        }
        assert_eq!((c.flows(), c.other()), (&[3, 2, 5, 0][..], 4));
    }
}
