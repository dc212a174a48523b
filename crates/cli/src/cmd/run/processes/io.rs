//! A port of the chain, as the launcher has it: what is behind it, and its rings.

use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_runtime::{Count, Histogram, Loss, Port};
use serde_json::Value;

/// Nothing that is stamped is in a chain for longer, ns.
const LONGEST_STAY: u64 = 600_000_000_000;

/// A port of the chain.
pub struct Io {
    pub name: String,
    pub port: Option<Box<dyn Port>>,
    /// May packets arrive? Not at a port without a device, or whose device has none to give and never will: a capture
    /// to be written, memory without frames.
    pub receives: bool,
    /// The output that what arrives there leaves the launcher through.
    pub entry: Option<usize>,
    /// Inputs with what leaves there.
    pub exits: Vec<usize>,
    /// The chain that what arrives there is of, for a scheduling policy.
    pub way: Option<usize>,
    /// When the next packet arrives, if that is known.
    pub next: Option<Timestamp>,
    pub received: Count,
    pub sent: Count,
    /// How long live packets that left here were in the chain, ns.
    pub stayed: Histogram,
    /// What arrives here is to say when, in its last bytes; and what leaves here does.
    pub stamps: bool,
    pub stamped: bool,
}

impl Io {
    pub fn new(
        name: String,
        mut port: Option<Box<dyn Port>>,
        entry: Option<usize>,
        exits: Vec<usize>,
    ) -> Io {
        let gives = |p: &mut Box<dyn Port>| p.is_live() || p.next_at().is_some();
        Io {
            name,
            stamps: port.as_ref().is_some_and(|p| p.stamps()),
            stamped: false,
            receives: port.as_mut().is_some_and(gives),
            port,
            entry,
            exits,
            way: None,
            next: None,
            received: Count::default(),
            sent: Count::default(),
            stayed: Histogram::default(),
        }
    }

    /// What it has lost.
    pub fn losses(&self) -> Vec<Loss> {
        self.port.as_ref().map_or(Vec::new(), |p| p.losses())
    }

    /// The state of a network interface's link.
    pub fn link(&self) -> Option<&'static str> {
        let port = self.port.as_ref().filter(|p| p.is_live())?;
        Some(port.link().name())
    }

    /// The key `latency` of a port in the report: how long packets that left here were in the chain, ns; `None`: none
    /// did.
    pub fn latency(&self) -> Option<Value> {
        crate::live::latency_json(&self.stayed)
    }
}

/// The last bytes of these packets say when they came.
pub fn stamp(packets: &mut [Pkt], now: Timestamp) {
    for p in packets {
        if let Some(last) = p.data_mut().last_chunk_mut::<8>() {
            *last = now.0.to_ne_bytes();
        }
    }
}

/// These packets leave now: how long live ones were in the chain is added, by when they came as far as `came` knows, or
/// by what they say.
pub fn add_stayed(
    to: &mut Histogram,
    (live, stamped): (bool, bool),
    packets: &[Pkt],
    came: impl Fn(&Packet) -> Timestamp,
    now: Timestamp,
) {
    for p in packets.iter().filter(|_| live) {
        let came = match stamped {
            true => p.data().last_chunk().map(|b| i64::from_ne_bytes(*b)),
            false => Some(came(p).0),
        };
        let stayed = came.and_then(|c| u64::try_from(now.0.checked_sub(c)?).ok());
        // others' packets have something else there
        if let Some(stayed) = stayed.filter(|s| *s <= LONGEST_STAY) {
            to.record(stayed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_runtime::{Keep, MemoryPort, PacedPort};

    /// A policy takes a chain as one way if nothing can come from its other end.
    #[test]
    fn a_port_receives_if_its_device_has_packets_to_give() {
        let receives = |port| Io::new("lan".into(), port, Some(0), Vec::new()).receives;
        let empty = || MemoryPort::new(Keep::Nothing);
        let mut full = empty();
        assert!(full.push(Timestamp(1), &[7; 60]));
        assert!(!receives(None));
        assert!(!receives(Some(Box::new(empty()))));
        assert!(receives(Some(Box::new(full))));
        // live ones may at any time
        assert!(receives(Some(Box::new(PacedPort::new(empty(), 1)))));
    }

    #[test]
    fn packets_say_when_they_came() {
        let mut packets: Vec<Pkt> = vec![
            Box::new(Packet::from_slice(&[7; 60])),
            Box::new(Packet::from_slice(&[7; 4])),
        ];
        let (came, now) = (Timestamp(5_000_000_000), Timestamp(5_000_123_456));
        stamp(&mut packets, came);
        assert_eq!((packets[1].data(), packets[0].data()[51]), (&[7; 4][..], 7));
        // as one that no generator has made
        packets.push(Box::new(Packet::from_slice(&[7; 60])));
        let mut stayed = Histogram::default();
        add_stayed(&mut stayed, (true, true), &packets, |_| now, now);
        let all: Vec<(u64, u64)> = stayed.buckets().collect();
        assert!(all.len() == 1 && all[0].1 == 1, "{all:?}");
        assert!((100_000..150_000).contains(&all[0].0), "{all:?}");
        let mut none = Histogram::default();
        add_stayed(&mut none, (false, true), &packets, |_| now, now);
        assert!(none.told().is_none());
    }
}
