//! Frames in memory that arrive in real time, at a rate, again and again: a load that is there whatever becomes of it.

use crate::memory::MemoryPort;
use crate::port::{Loss, Port, PortError};
use crate::worker::Count;
use onefold_packet::{Pkt, Timestamp};
use std::time::{Duration, Instant};

/// Packets that wait until they are taken; what is more is lost, as in a device's ring.
pub const QUEUE: u64 = 4096;
/// Highest rate, packets a second.
pub const HIGHEST_RATE: u64 = 1_000_000_000;
/// Of packets that nobody took in time.
pub const NOT_TAKEN: &str = "receive queue full";
/// Nobody tells that packets have come: they are looked for so often.
const LOOK: Duration = Duration::from_micros(50);

/// See the module's text. What leaves here is kept, or counted, as of the memory port that it is made of.
#[derive(Debug)]
pub struct PacedPort {
    memory: MemoryPort,
    /// Packets a second.
    rate: u64,
    /// Since when they arrive.
    since: Option<Instant>,
    /// Packets that were given or lost since then.
    passed: u64,
    lost: u64,
    stamped: bool,
}

impl PacedPort {
    /// The frames of this port arrive so often a second, from its start on.
    pub fn new(memory: MemoryPort, rate: u64) -> PacedPort {
        PacedPort {
            memory,
            rate: rate.min(HIGHEST_RATE),
            since: None,
            passed: 0,
            lost: 0,
            stamped: false,
        }
    }

    /// What arrives is to say when ([`Port::stamps`]).
    pub fn stamped(self, stamped: bool) -> PacedPort {
        PacedPort { stamped, ..self }
    }

    /// Packets that have come and were not taken yet, by this time after the start.
    fn due(&mut self, after: Duration) -> u64 {
        let come = after.as_nanos() * u128::from(self.rate) / 1_000_000_000;
        let due = (come as u64).saturating_sub(self.passed);
        let lost = due.saturating_sub(QUEUE);
        self.passed += lost;
        self.lost += lost;
        due - lost
    }
}

impl Port for PacedPort {
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        self.memory.transmit(packets, now)
    }
    fn finish(&mut self) -> Result<(), PortError> {
        self.memory.finish()
    }
    fn stamps(&self) -> bool {
        self.stamped
    }
    fn is_live(&self) -> bool {
        true
    }
    fn start(&mut self, receives: bool) -> Result<(), PortError> {
        self.since = receives.then(Instant::now);
        Ok(())
    }
    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let Some(since) = self.since.filter(|_| !self.memory.is_empty()) else {
            return Ok(());
        };
        let due = self.due(since.elapsed());
        let wanted = usize::try_from(due)
            .unwrap_or(usize::MAX)
            .min(n)
            .min(free.len());
        let from = batch.len();
        // Bound: each round gives one at least
        while batch.len() - from < wanted {
            let left = wanted - (batch.len() - from);
            let before = batch.len();
            self.memory.receive(free, batch, Timestamp::MAX, left);
            if batch.len() == before {
                self.memory.rewind();
            }
        }
        self.passed += (batch.len() - from) as u64;
        Ok(())
    }
    fn discard(&mut self, most: u64) -> Option<Count> {
        let mut all = Count::default();
        if let Some(since) = self.since.filter(|_| !self.memory.is_empty()) {
            all.packets = self.due(since.elapsed()).min(most);
            if self.memory.next_at().is_none() {
                self.memory.rewind();
            }
            all.bytes = self.memory.skip(all.packets);
            self.passed += all.packets;
        }
        Some(all)
    }
    fn stop(&mut self) {
        self.since = None;
    }
    fn longest_sleep(&self) -> Option<Duration> {
        self.since.map(|_| LOOK)
    }
    fn losses(&self) -> Vec<Loss> {
        let loss = Loss {
            reason: NOT_TAKEN,
            packets: self.lost,
        };
        Some(loss).filter(|l| l.packets > 0).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Keep;
    use onefold_packet::Packet;

    #[test]
    fn frames_come_again_and_again_and_what_nobody_takes_is_lost() {
        let mut memory = MemoryPort::new(Keep::Nothing);
        for n in 0..3u8 {
            assert!(memory.push(Timestamp(i64::from(n) + 1), &[n; 60]));
        }
        let mut p = PacedPort::new(memory, 1_000_000);
        let free = || {
            (0..8)
                .map(|_| Box::new(Packet::from_slice(&[])))
                .collect::<Vec<Pkt>>()
        };
        let mut batch = Vec::new();
        // not started: nothing
        assert!(p.poll(&mut free(), &mut batch, 8).is_ok() && batch.is_empty());
        assert!(p.longest_sleep().is_none());
        assert!(p.start(true).is_ok());
        while batch.len() < 8 {
            let left = 8 - batch.len();
            assert!(p.poll(&mut free(), &mut batch, left).is_ok());
        }
        let first: Vec<u8> = batch
            .iter()
            .filter_map(|p| p.data().first().copied())
            .collect();
        assert_eq!(first, [0, 1, 2, 0, 1, 2, 0, 1]);
        // what is passed over is neither given nor lost, and the others are in their order
        std::thread::sleep(Duration::from_micros(20));
        let gone = p.discard(5).unwrap_or_default();
        assert_eq!((gone.packets, gone.bytes), (5, 300));
        batch.clear();
        assert!(p.poll(&mut free(), &mut batch, 1).is_ok());
        let next = batch.first().and_then(|p| p.data().first().copied());
        assert!(next.is_none_or(|n| n == (8 + 5) % 3), "{next:?}");
        // a second later a million have come
        assert_eq!(p.due(Duration::from_secs(1)), QUEUE);
        let lost = p.losses().first().map(|l| l.packets);
        assert!(
            lost.is_some_and(|n| n >= 1_000_000 - QUEUE - 14),
            "{lost:?}"
        );
        p.stop();
        batch.clear();
        assert!(p.poll(&mut free(), &mut batch, 8).is_ok() && batch.is_empty());
    }
}
