//! Onefold's own policy: the order of chains, occupancy and backpressure together, cost learnt while packets flow, and
//! a latency target for each chain.
//!
//! - *Who runs.* NFs of a core take turns, the last one of a chain first: what is nearly through goes before what has
//!   just come. The NF that runs goes on until its slice is over, nothing waits for it, or the next ring is 3/4 full.
//!   The next one is the first in the queue with a batch waiting, or with packets that have waited for a part of the
//!   target; where there is none, whoever has packets at all: a core with work does not idle.
//! - *For how long.* A slice is what the next ring has room for, by learnt cost, and at most a quarter of the
//!   strictest target among chains on its core, divided by the chain's NFs.
//! - *Who comes in.* A chain is shed at its entry while what is under way would take one of its cores longer than 3/4
//!   of its target, until it is less than half of it: packets that would be too late anyhow cost nothing.
//!
//! Where cost varies by packet, its median counts. An NF that never yields has its turns and no more: the launcher
//! takes the core away. One that has stalled wastes its turns, and its chain is shed; other chains have the turns
//! between (neither is simulated). One that has crashed is the launcher's affair.

use crate::decision::{CorePlan, Decisions};
use crate::estimate::ServiceEstimate;
use crate::observation::{NfView, Observation, ObservationError};
use crate::topology::Topology;
use crate::{MICROSECOND, MILLISECOND, Nanos, Policy};
use std::collections::VecDeque;

/// Decisions are made so often.
const PERIOD: Nanos = 5 * MICROSECOND;
/// Packets that are worth a switch.
const BATCH: u32 = 64;
/// A ring with so many per cent taken has no room.
const FULL: u32 = 75;
/// Shortest target: what several switches take.
pub const OLD_LEAST: Nanos = 50 * MICROSECOND;

/// Targets that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OldError {
    /// One for each chain is needed.
    #[error("{targets} latency targets for {chains} chains")]
    Number {
        /// Targets.
        targets: usize,
        /// Chains.
        chains: usize,
    },
    /// Too short.
    #[error("chain {chain}: a latency target has to be at least {OLD_LEAST} ns")]
    Short {
        /// The chain.
        chain: usize,
    },
}

#[derive(Debug, Clone, Default)]
struct Core {
    /// NFs that wait for their turn.
    queue: VecDeque<usize>,
    current: Option<usize>,
    begun: Nanos,
    slice: Nanos,
    /// By chain: what waits for it.
    work: Vec<Work>,
}

/// A chain's work that waits for a core.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// Packets.
    waiting: Nanos,
    /// ns a packet; of NFs whose cost is known.
    cost: Nanos,
}

impl Work {
    fn time(&self) -> Nanos {
        self.waiting.saturating_mul(self.cost)
    }
}

#[derive(Debug, Clone)]
struct State {
    estimate: ServiceEstimate,
    /// Longest slice, and how long packets may wait for a turn.
    budget: Nanos,
    /// Since when it has had packets and not run.
    waits: Option<Nanos>,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct OldTarget {
    topology: Topology,
    targets: Vec<Nanos>,
    /// Cores that a chain passes, each once.
    passes: Vec<Vec<usize>>,
    cores: Vec<Core>,
    states: Vec<State>,
    last_update: Nanos,
}

impl OldTarget {
    /// `targets`: by chain, ns from arrival to departure.
    ///
    /// # Errors
    /// They do not fit the topology.
    pub fn new(topology: &Topology, targets: Vec<Nanos>) -> Result<OldTarget, OldError> {
        let chains = topology.chains();
        if targets.len() != chains.len() {
            let (targets, chains) = (targets.len(), chains.len());
            return Err(OldError::Number { targets, chains });
        }
        if let Some(chain) = targets.iter().position(|t| *t < OLD_LEAST) {
            return Err(OldError::Short { chain });
        }
        let budget = |nf: usize| {
            // who else waits for this core?
            let here = topology.on_core(topology.nfs().get(nf).map_or(0, |n| n.core));
            let is_here = |hops: &[usize]| hops.iter().any(|h| here.contains(h));
            let through = chains.iter().zip(&targets).filter(|c| is_here(c.0));
            // a quarter of a target for turns, shared by the chain's NFs
            let parts = through.map(|(hops, target)| target / (4 * hops.len() as Nanos));
            parts.min().unwrap_or(MILLISECOND).max(PERIOD)
        };
        let core_of = |nf: &usize| topology.nfs().get(*nf).map_or(0, |n| n.core);
        let passes = chains.iter().map(|hops| {
            let mut cores: Vec<usize> = hops.iter().map(core_of).collect();
            cores.sort_unstable();
            cores.dedup();
            cores
        });
        Ok(OldTarget {
            cores: (0..topology.cores())
                .map(|c| Core {
                    queue: topology.on_core(c).iter().rev().copied().collect(),
                    work: vec![Work::default(); chains.len()],
                    ..Core::default()
                })
                .collect(),
            states: (0..topology.nfs().len())
                .map(|nf| State {
                    estimate: ServiceEstimate::default(),
                    budget: budget(nf),
                    waits: None,
                })
                .collect(),
            passes: passes.collect(),
            topology: topology.clone(),
            targets,
            last_update: 0,
        })
    }

    /// Costs, who waits since when, and the work that waits on each core.
    fn learn(&mut self, seen: &Observation<'_>) {
        let updates = seen.now.saturating_sub(self.last_update) >= MILLISECOND;
        if updates {
            self.last_update = seen.now;
        }
        self.cores
            .iter_mut()
            .for_each(|c| c.work.fill(Work::default()));
        for (nf, (s, v)) in self.states.iter_mut().zip(seen.nfs).enumerate() {
            if let Some(took) = v.sample {
                s.estimate.add(seen.now, took);
            }
            if updates {
                s.estimate.update(seen.now);
            }
            let core = self.topology.nfs().get(nf).map_or(0, |n| n.core);
            let Some(c) = self.cores.get_mut(core) else {
                continue;
            };
            s.waits = match v.input.occupancy > 0 && c.current != Some(nf) {
                true => s.waits.or(Some(seen.now)),
                false => None,
            };
        }
        // Little's law: what is in a chain up to its last NF on a core, times what that core does for one packet. What
        // has passed an NF already counts in full, as the NF works for others meanwhile. NFs that chains share count
        // for each of them: cautious
        for (chain, hops) in self.topology.chains().iter().enumerate() {
            let mut waiting: Nanos = 0;
            for nf in hops {
                waiting += seen
                    .nfs
                    .get(*nf)
                    .map_or(0, |v| Nanos::from(v.input.occupancy));
                let core = self.topology.nfs().get(*nf).map_or(0, |n| n.core);
                let Some(w) = self.cores.get_mut(core).and_then(|c| c.work.get_mut(chain)) else {
                    continue;
                };
                let cost = self.states.get(*nf).and_then(|s| s.estimate.median());
                w.cost = w.cost.saturating_add(cost.unwrap_or(0));
                w.waiting = waiting;
            }
        }
    }

    /// Chains whose packets would be too late.
    fn shed(&self, to: &mut Decisions) {
        for (i, (cores, target)) in self.passes.iter().zip(&self.targets).enumerate() {
            // chains take turns, so that a longer queue beside this one does not hold it up for longer than its own
            let delay = |c: &Core| {
                let own = c.work.get(i).map_or(0, Work::time);
                let turns = c.work.iter().map(|w| w.time().min(own));
                turns.fold(0, Nanos::saturating_add)
            };
            // cores work at the same time: the slowest one decides
            let all = cores.iter().filter_map(|c| self.cores.get(*c));
            let backlog = all.map(delay).max().unwrap_or(0);
            if backlog > target / 4 * 3 {
                to.shed |= 1 << i;
            } else if backlog < target / 2 {
                to.shed &= !(1 << i);
            }
        }
    }

    fn slice(&self, nf: usize, v: &NfView) -> Nanos {
        let Some(s) = self.states.get(nf) else {
            return PERIOD;
        };
        let room = match v.output.capacity {
            0 => u32::MAX,
            _ => v.output.free(),
        };
        let cost = s.estimate.median();
        let fits = cost.map_or(Nanos::MAX, |c| c.saturating_mul(Nanos::from(room)));
        s.budget.min(fits).max(PERIOD)
    }

    /// Who is next on a core. Steps: twice its NFs.
    fn turn(&mut self, core: usize, seen: &Observation<'_>) -> Option<CorePlan> {
        let now = seen.now;
        let view = |nf: usize| seen.nfs.get(nf).copied().unwrap_or_default();
        let has_room = |v: &NfView| v.output.capacity == 0 || !v.output.at_least(FULL);
        let c = self.cores.get(core)?;
        if let Some(nf) = c.current {
            let v = view(nf);
            let over = now.saturating_sub(c.begun) >= c.slice;
            if !over && v.input.occupancy > 0 && has_room(&v) {
                return None;
            }
        }
        let is_ready = |nf: &usize| {
            let v = view(*nf);
            let waited = self.states.get(*nf).is_some_and(|s| {
                s.waits
                    .is_some_and(|since| now.saturating_sub(since) >= s.budget)
            });
            has_room(&v) && (v.input.occupancy >= BATCH || (waited && v.input.occupancy > 0))
        };
        let has_work = |nf: &usize| {
            let v = view(*nf);
            has_room(&v) && v.input.occupancy > 0
        };
        let order = || c.queue.iter().copied().chain(c.current);
        let chosen = order().find(is_ready).or_else(|| order().find(has_work));
        let chosen = chosen.or(c.current).or_else(|| order().next())?;
        let slice = self.slice(chosen, &view(chosen));
        let c = self.cores.get_mut(core)?;
        if let Some(before) = c.current {
            c.queue.push_back(before);
        }
        c.queue.retain(|q| *q != chosen);
        (c.current, c.begun, c.slice) = (Some(chosen), now, slice);
        Some(CorePlan::Only { nf: chosen, slice })
    }
}

impl Policy for OldTarget {
    fn name(&self) -> &'static str {
        "latency target"
    }

    fn period(&self) -> Nanos {
        PERIOD
    }

    fn decide(
        &mut self,
        seen: &Observation<'_>,
        to: &mut Decisions,
    ) -> Result<(), ObservationError> {
        seen.check(&self.topology)?;
        self.learn(seen);
        self.shed(to);
        for core in 0..self.topology.cores() {
            let plan = self.turn(core, seen);
            if let (Some(plan), Some(to)) = (plan, to.cores.get_mut(core)) {
                *to = plan;
            }
        }
        Ok(())
    }
}
