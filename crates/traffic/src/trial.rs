//! How long a trial lasts, and what it has shown.

use crate::account::Counts;
use onefold_runtime::Histogram;
use onefold_runtime::Loss;
use std::time::Duration;

/// When sending ends; whichever comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Packets are sent whose intended time is before this one.
    pub time: Option<Duration>,
    /// So many packets.
    pub packets: Option<u64>,
}

/// What passed a port in a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortCounts {
    /// The port.
    pub name: String,
    /// Packets and bytes that were handed to it.
    pub sent: (u64, u64),
    /// Packets and bytes of this run that it gave, copies included.
    pub received: (u64, u64),
    /// What the port itself has lost meanwhile, by reason, on the way out or in.
    pub lost: Vec<Loss>,
}

/// What a trial has shown.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Packets by what became of them.
    pub counts: Counts,
    /// From the first intended send time to the end of sending.
    pub seconds: f64,
    /// Latency from the intended send times.
    pub from_intended: Histogram,
    /// Latency from the moments at which packets were handed to their ports.
    pub from_sent: Histogram,
    /// The most that a packet was sent after its intended time, in nanoseconds.
    pub behind: u64,
    /// By port.
    pub ports: Vec<PortCounts>,
    /// Packets that were on their way when the last one had been sent: what waits in the device's queues is among them.
    pub in_flight: u64,
    /// Somebody wanted it to end.
    pub interrupted: bool,
}

impl Trial {
    /// Packets a second that were sent, those without a stamp included.
    pub fn rate(&self) -> f64 {
        match self.seconds > 0.0 {
            true => (self.counts.sent + self.counts.unstamped) as f64 / self.seconds,
            false => 0.0,
        }
    }

    /// What the generator's own ports have lost: part of what is missing is not the chain's.
    pub fn own_losses(&self) -> u64 {
        let all = self.ports.iter().flat_map(|p| &p.lost);
        all.map(|l| l.packets).sum()
    }
}
