//! Whether packets are at the worker whose they are: a second look, by each worker itself.

use onefold_packet::Pkt;
use onefold_partition::{Partition, Target};

/// Of so many packets one is looked at, where nobody asks for more.
const USUAL: u32 = 64;

/// Counts packets at the wrong worker: those that have come although another one's state is theirs, and those that
/// leave although their answers would come to another one. Correct rules of the partition make that none.
#[derive(Debug)]
pub(crate) struct Check {
    partition: Partition,
    /// The chain's port.
    port: usize,
    worker: usize,
    /// One of so many packets is looked at; the next one when this has counted down.
    every: u32,
    left: u32,
    /// Packets at the wrong worker, of how many.
    pub wrong: u64,
    pub looked_at: u64,
}

impl Check {
    /// For a worker at a port of the chain; `all`: of every packet.
    pub fn new(partition: Partition, port: usize, worker: usize, all: bool) -> Check {
        let every = if all { 1 } else { USUAL };
        Check {
            partition,
            port,
            worker,
            every,
            left: every,
            wrong: 0,
            looked_at: 0,
        }
    }

    /// Is it time to look at one?
    #[inline]
    fn is_due(&mut self) -> bool {
        self.left -= 1;
        let due = self.left == 0;
        if due {
            self.left = self.every;
        }
        due
    }

    /// These have come to the worker.
    #[inline]
    pub fn came(&mut self, packets: &[Pkt]) {
        for p in packets {
            if self.is_due()
                && let Some(t) = self.partition.expected(self.port, p.data())
            {
                self.count(t);
            }
        }
    }

    /// These leave.
    #[inline]
    pub fn leave(&mut self, packets: &[Pkt]) {
        for p in packets {
            if self.is_due()
                && let Some(w) = self.partition.answered_by(self.port, p.data())
            {
                self.count(Target::One(w));
            }
        }
    }

    #[inline(never)]
    fn count(&mut self, target: Target) {
        self.looked_at += 1;
        self.wrong += u64::from(!target.is_for(self.worker));
    }
}
