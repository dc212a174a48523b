//! What has become of packets and cores.

use crate::Nanos;

/// What became of a chain's packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainReport {
    /// Came.
    pub offered: u64,
    /// Were shed at the entry, as the policy said.
    pub shed: u64,
    /// Found the first NF's ring full.
    pub full: u64,
    /// Were lost after an NF had worked on them.
    pub wasted: u64,
    /// Came through.
    pub delivered: u64,
    /// Of them: marked (CE).
    pub marked: u64,
    /// Added up over those delivered: ns from arrival to departure.
    pub latency_sum: u128,
    /// The longest one, in ns.
    pub latency_most: Nanos,
}

/// What became of an NF.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NfReport {
    /// Packets worked on.
    pub done: u64,
    /// Packets lost at the next ring after they were worked on here.
    pub wasted: u64,
    /// ns of the core, polling in vain included.
    pub cpu: Nanos,
    /// It gave the core away.
    pub voluntary: u64,
    /// The core was taken away.
    pub involuntary: u64,
    /// Packets in its ring and in its hands.
    pub waiting: u64,
}

/// All of it, from the beginning to `now`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The moment.
    pub now: Nanos,
    /// By chain.
    pub chains: Vec<ChainReport>,
    /// By NF.
    pub nfs: Vec<NfReport>,
}

impl Report {
    /// Packets that came through.
    pub fn delivered(&self) -> u64 {
        self.chains.iter().map(|c| c.delivered).sum()
    }

    /// Packets lost after they were worked on.
    pub fn wasted(&self) -> u64 {
        self.chains.iter().map(|c| c.wasted).sum()
    }

    /// Switches from one NF to another one.
    pub fn switches(&self) -> u64 {
        self.nfs.iter().map(|n| n.voluntary + n.involuntary).sum()
    }
}

/// Jain's index of fairness: 1 where all are equal, 1/n where one has everything; 1 for nothing.
pub fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    match squares > 0.0 {
        true => sum * sum / (rates.len() as f64 * squares),
        false => 1.0,
    }
}

/// The report as it grows.
#[derive(Debug)]
pub(super) struct Counters {
    pub chains: Vec<ChainReport>,
    pub nfs: Vec<NfReport>,
}

impl Counters {
    pub fn new(nfs: usize, chains: usize) -> Counters {
        Counters {
            chains: vec![ChainReport::default(); chains],
            nfs: vec![NfReport::default(); nfs],
        }
    }

    /// `waiting`: by NF, packets in its ring and in its hands.
    pub fn report(&self, now: Nanos, waiting: impl Iterator<Item = (u32, u32)>) -> Report {
        let nfs = self
            .nfs
            .iter()
            .zip(waiting)
            .map(|(n, (ring, hands))| NfReport {
                waiting: u64::from(ring) + u64::from(hands),
                ..*n
            });
        Report {
            now,
            chains: self.chains.clone(),
            nfs: nfs.collect(),
        }
    }
}
