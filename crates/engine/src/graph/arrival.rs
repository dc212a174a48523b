//! When the packets of a batch arrive: all at one moment, or each at its own time.
//!
//! Whatever looks at the clock on a fast path does so in whole milliseconds (the stamps of rewriters' records and leases, the rates of
//! counters): packets of one *tick* may be carried out together, as long as no timer is due between them. Whatever looks closer
//! (meters, delays, elements that stamp packets) is executed packet by packet, and the clock stands at the packet's own time then.

use crate::graph::reference::Graph;
use onefold_packet::{Pkt, Timestamp};

/// Nanoseconds of a tick.
const TICK: i64 = 1_000_000;

/// How the packets of a batch arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// At the present time of the graph.
    Together,
    /// Each at the time of its annotation, or at the present time if that is later.
    Stamped,
}

/// The millisecond that a time is in.
#[inline]
pub(crate) fn tick(t: Timestamp) -> i64 {
    t.0.div_euclid(TICK)
}

impl Graph {
    /// Is a timer due by this time?
    #[inline]
    pub(crate) fn timer_due(&self, at: Timestamp) -> bool {
        self.core.timers.next().is_some_and(|t| t <= at)
    }

    /// How many of these packets, from the first on, arrive before the next timer is due; `within`: and in the same tick as the first.
    #[inline]
    pub(crate) fn run_of(&self, packets: &[Pkt], within: bool) -> usize {
        let now = self.core.now;
        let mut until = self.core.timers.next().unwrap_or(Timestamp::MAX);
        if within {
            let first = packets.first().map_or(now, |p| p.anno.timestamp.max(now));
            until = until.min(Timestamp((tick(first) + 1).saturating_mul(TICK)));
        }
        // times do not go back: where the last one is, all are
        if packets
            .last()
            .is_some_and(|p| p.anno.timestamp.max(now) < until)
        {
            return packets.len();
        }
        packets.partition_point(|p| p.anno.timestamp.max(now) < until)
    }
}
