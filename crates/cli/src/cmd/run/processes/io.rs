//! A port of the chain, as the launcher has it: what is behind it, and its rings.

use onefold_packet::{Pkt, Timestamp};
use onefold_runtime::{Count, Loss, Port};
use onefold_traffic::Histogram;
use serde_json::{Value, json};

/// A port of the chain.
pub struct Io {
    pub name: String,
    pub port: Option<Box<dyn Port>>,
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
}

impl Io {
    pub fn new(
        name: String,
        port: Option<Box<dyn Port>>,
        entry: Option<usize>,
        exits: Vec<usize>,
    ) -> Io {
        Io {
            name,
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
        let told = self.stayed.told()?;
        let buckets: Vec<(u64, u64)> = self.stayed.buckets().collect();
        Some(json!({
            "p50": told.p50, "p90": told.p90, "p99": told.p99, "p999": told.p999, "max": told.max, "mean": told.mean,
            "buckets": buckets,
        }))
    }
}

/// These packets leave now: how long live ones were in the chain is added.
pub fn add_stayed(to: &mut Histogram, live: bool, packets: &[Pkt], now: Timestamp) {
    for p in packets.iter().filter(|_| live) {
        let stayed = now.0.saturating_sub(p.anno.timestamp.0);
        to.record(u64::try_from(stayed).unwrap_or(0));
    }
}
