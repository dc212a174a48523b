//! What a policy is shown.

use crate::Nanos;
use crate::topology::{ChainSet, Topology};

/// How full a ring is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Level {
    /// Packets in it.
    pub occupancy: u32,
    /// Its places; 0: there is no such ring.
    pub capacity: u32,
}

impl Level {
    /// Is it at least so many per cent full?
    pub fn at_least(&self, per_cent: u32) -> bool {
        u64::from(self.occupancy) * 100 >= u64::from(self.capacity) * u64::from(per_cent)
    }

    /// Packets that fit in.
    pub fn free(&self) -> u32 {
        self.capacity.saturating_sub(self.occupancy)
    }
}

/// What is seen of one NF. Counters begin at 0 when it is launched and wrap around.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NfView {
    /// The ring that it takes packets from.
    pub input: Level,
    /// The fullest of those that it puts packets into.
    pub output: Level,
    /// Packets that came for it: those that found its ring full, or were shed at the entry in front of it, included.
    pub arrived: u64,
    /// Packets that it is done with.
    pub done: u64,
    /// Service time of a packet, in ns, from the last batch that was timed; `None`: none was since the last one.
    pub sample: Option<Nanos>,
    /// Packets of a batch, on average since the last look; 0: it has worked on none.
    pub batch: u32,
    /// Would run if it had a core.
    pub runnable: bool,
    /// Chains with packets in its input ring; of one with several rings, in those that are full ([`Watermarks`]).
    pub queued: ChainSet,
    /// Chains that have rings of their own here, none of which is full any more: another chain's is, if any.
    pub relieved: ChainSet,
    /// Chains that could come here, behind an NF that goes on to several, and of which no packet has done so of late.
    pub absent: ChainSet,
}

/// When a ring is full, and when it is so no more, in per cent of its places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Below this it is not any more.
    pub low: u32,
    /// From here on it is.
    pub high: u32,
}

/// All that is seen at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The moment; never less than the last one.
    pub now: Nanos,
    /// By NF.
    pub nfs: &'a [NfView],
}

/// The observation is of another topology than the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an observation of {seen} NFs for a policy of {known}")]
pub struct ObservationError {
    /// NFs of the observation.
    pub seen: usize,
    /// NFs of the policy.
    pub known: usize,
}

impl Observation<'_> {
    /// Is it of this topology?
    ///
    /// # Errors
    /// No.
    pub fn check(&self, topology: &Topology) -> Result<(), ObservationError> {
        match self.nfs.len() == topology.nfs().len() {
            true => Ok(()),
            false => Err(ObservationError {
                seen: self.nfs.len(),
                known: topology.nfs().len(),
            }),
        }
    }
}
