//! Who runs when, where network functions (NFs) are processes that share cores.
//!
//! A [`Policy`] is a state machine: it is shown what a launcher can see of its processes ([`Observation`]: rings,
//! counters, service times) and says what it wants done ([`Decisions`]: levers as data). It makes no system call, has
//! no clock, and allocates nothing once it was made. Whoever has processes applies the levers; [`sim`] applies them to
//! simulated ones, which is how policies are tested and compared.
//!
//! | policy | after | levers |
//! |---|---|---|
//! | [`Baseline`] | the kernel alone; SCC (JSS 127, 2017) by [`scc_quantum`] | scheduling class, slice |
//! | [`Cooperative`] | UNiS's baseline | FIFO, yields after so many batches |
//! | [`Nfvnice`] | NFVnice (SIGCOMM 2017) | shares, relinquish flags, shedding at the entry, ECN |
//! | [`Unis`] | UNiS (TNSM), algorithm 1 | which NF a core runs, and its slice |
//! | [`LatencyTarget`] | nobody: Onefold's own | which NF a core runs, its slice, shedding at the entry |
//!
//! ```
//! use onefold_sched::sim::{Model, Simulator, Source};
//! use onefold_sched::{Baseline, NfSpec, Topology};
//!
//! // two functions on one core, 50 and 200 ns a packet, 1 Mpps
//! let nf = NfSpec { core: 0, priority: 1, capacity: 1024 };
//! let topology = Topology::new(1, vec![nf; 2], vec![vec![0, 1]])?;
//! let models = vec![Model::interrupted(50), Model::interrupted(200)];
//! let mut sim = Simulator::new(&topology, models, vec![Source::steady(0, 1_000_000)])?;
//! sim.run(&mut Baseline::normal(), 10_000_000)?;
//! assert!(sim.report().chains[0].delivered > 9_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod baseline;
mod decision;
mod estimate;
mod known;
mod latency_target;
pub mod nfvnice;
mod observation;
pub mod sim;
pub mod spec;
mod topology;
mod unis;

pub use baseline::{Baseline, Cooperative, QuantumError, scc_quantum};
pub use decision::{Class, CorePlan, DEFAULT_SHARES, Decisions, NfLevers};
pub use estimate::ServiceEstimate;
pub use known::{KNOWN, Known};
pub use latency_target::{LatencyTarget, TargetError};
pub use nfvnice::Nfvnice;
pub use observation::{Level, NfView, Observation, ObservationError, Watermarks};
pub use topology::{ChainSet, MOST_CHAINS, MOST_CORES, MOST_NFS, NfSpec, Topology, TopologyError};
pub use unis::{Ageing, Unis, UnisConfig, UnisError};

/// Time, or a span of it, in ns.
pub type Nanos = u64;
/// A microsecond.
pub const MICROSECOND: Nanos = 1_000;
/// A millisecond.
pub const MILLISECOND: Nanos = 1_000_000;

/// Decides who runs when.
pub trait Policy {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// How often it wants to be asked, in ns; more often does no harm.
    fn period(&self) -> Nanos;

    /// What it has seen the last time does not call for anything before so long, in ns: who pays for every look need
    /// not ask it earlier. At least its period.
    fn rests(&self) -> Nanos {
        self.period()
    }

    /// Does it look at [`NfView::queued`], and what is a full ring for it? To find it out takes time.
    fn sees_chains(&self) -> Option<Watermarks> {
        None
    }

    /// Does it look at [`NfView::absent`]? To find it out takes time, too, a thousand times a second.
    fn sees_ways(&self) -> bool {
        false
    }

    /// Looks, and changes what is to be changed. `to` is what it said the last time: what a policy does not touch stays
    /// as it was. Steps: in proportion to NFs and the hops of their chains. Nothing is allocated.
    ///
    /// # Errors
    /// The observation is of another topology.
    fn decide(
        &mut self,
        seen: &Observation<'_>,
        to: &mut Decisions,
    ) -> Result<(), ObservationError>;
}
