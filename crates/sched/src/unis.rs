//! UNiS (TNSM): unmodified poll-mode NFs take turns on a core by occupancy of their rings.
//!
//! Algorithm 1: each core has a queue of its NFs in the order of chains. Each period, the NF that runs is put at the
//! queue's end where its slice is over, at most θ_min packets wait for it, or θ_max wait where it puts them; the first
//! one in the queue that has packets and room is next. slice = cost x γ x places of the ring it puts packets into.
//!
//! *Holes of the algorithm as published.* Where at most θ_min packets wait for an NF, it is never chosen: the last
//! packets of a burst, or those of a slow flow, wait for ever. [`Ageing`] lets an NF run that has had packets waiting,
//! and has not run, for so long. Where nobody can be chosen, the NF that runs goes on with a new slice. The period is
//! not given.

use crate::decision::{CorePlan, Decisions};
use crate::estimate::ServiceEstimate;
use crate::observation::{Level, NfView, Observation, ObservationError};
use crate::topology::Topology;
use crate::{MICROSECOND, MILLISECOND, Nanos, Policy};
use std::collections::VecDeque;

/// What is done about packets that would wait for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ageing {
    /// Nothing: as published.
    Faithful,
    /// An NF that has packets and has not run for so long, in ns, can be chosen.
    After(Nanos),
}

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UnisConfig {
    /// T, in ns.
    pub period: Nanos,
    /// γ.
    pub gamma: f64,
    /// An NF with at most so many packets waiting is not chosen.
    pub theta_min: u32,
    /// An NF with this part of its output ring taken is not chosen; `None`: output rings are not looked at (fig. 14).
    pub theta_max: Option<f64>,
    /// What is done about packets that would wait for ever.
    pub ageing: Ageing,
    /// Costs are learnt while packets flow, from those that were given on; the paper measures each NF alone on a core.
    pub learns: bool,
}

/// What a packet is taken to cost before anything was learnt, in ns.
pub const FIRST_COST: Nanos = 200;

impl Default for UnisConfig {
    /// The paper's: batches of 64, and 8 less is θ_min; ageing after 1 ms.
    fn default() -> Self {
        UnisConfig {
            period: 5 * MICROSECOND,
            gamma: 0.75,
            theta_min: 56,
            theta_max: Some(0.75),
            ageing: Ageing::After(MILLISECOND),
            learns: false,
        }
    }
}

/// What the algorithm does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnisError {
    /// An NF has to be in one chain only.
    #[error("NF {nf} is passed by several chains; the algorithm knows NFs of one chain")]
    Shared {
        /// The NF.
        nf: usize,
    },
    /// A cost for each NF is needed.
    #[error("{costs} costs for {nfs} NFs; each has to be more than 0")]
    Costs {
        /// Costs.
        costs: usize,
        /// NFs.
        nfs: usize,
    },
    /// A configuration that cannot be.
    #[error("the period and γ have to be more than 0, θ_max more than 0 and at most 1")]
    Config,
}

#[derive(Debug, Clone)]
struct Core {
    /// NFs that wait for their turn; the one that runs is not among them.
    queue: VecDeque<usize>,
    current: Option<usize>,
    begun: Nanos,
    slice: Nanos,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Unis {
    topology: Topology,
    config: UnisConfig,
    costs: Vec<Nanos>,
    /// Where costs are learnt.
    estimates: Vec<ServiceEstimate>,
    last_update: Nanos,
    cores: Vec<Core>,
    /// Since when an NF has had packets and not run.
    waits: Vec<Option<Nanos>>,
    /// Until something can happen on a core, as far as costs tell, in ns.
    rests: Nanos,
}

impl Unis {
    /// `costs`: by NF, ns a packet, measured while it was alone on its core.
    ///
    /// # Errors
    /// Chains share an NF, costs are missing, or the configuration cannot be.
    pub fn new(
        topology: &Topology,
        costs: Vec<Nanos>,
        config: UnisConfig,
    ) -> Result<Unis, UnisError> {
        let nfs = topology.nfs().len();
        if let Some(nf) = (0..nfs).find(|n| topology.through(*n).count_ones() > 1) {
            return Err(UnisError::Shared { nf });
        }
        if costs.len() != nfs || costs.contains(&0) {
            let costs = costs.len();
            return Err(UnisError::Costs { costs, nfs });
        }
        let ratio = config.theta_max.unwrap_or(1.0);
        if config.period == 0
            || config.gamma.is_nan()
            || config.gamma <= 0.0
            || !(ratio > 0.0 && ratio <= 1.0)
        {
            return Err(UnisError::Config);
        }
        let core = |c| Core {
            queue: topology.on_core(c).iter().copied().collect(),
            current: None,
            begun: 0,
            slice: 0,
        };
        Ok(Unis {
            cores: (0..topology.cores()).map(core).collect(),
            waits: vec![None; nfs],
            estimates: match config.learns {
                true => vec![ServiceEstimate::default(); nfs],
                false => Vec::new(),
            },
            last_update: 0,
            rests: config.period,
            topology: topology.clone(),
            config,
            costs,
        })
    }

    /// An NF's slice, in ns, with this output ring; with none, as if it were one like its input ring.
    pub fn slice(&self, nf: usize, output: Level) -> Nanos {
        let cost = self.costs.get(nf).copied().unwrap_or(1) as f64;
        let places = match output.capacity {
            0 => self.topology.nfs().get(nf).map_or(1, |n| n.capacity),
            n => n,
        };
        (cost * self.config.gamma * f64::from(places)).max(1.0) as Nanos
    }

    /// Costs, where they are learnt.
    fn learn(&mut self, seen: &Observation<'_>) {
        let updates = seen.now.saturating_sub(self.last_update) >= MILLISECOND;
        if updates {
            self.last_update = seen.now;
        }
        for ((e, v), cost) in self.estimates.iter_mut().zip(seen.nfs).zip(&mut self.costs) {
            if let Some(took) = v.sample {
                e.add(seen.now, took);
            }
            if updates {
                e.update(seen.now);
                *cost = e.median().unwrap_or(*cost).max(1);
            }
        }
    }

    /// Half of the time until the NF that runs on a core has used its slice, has worked off what waits for it, or has
    /// filled the next ring, whichever comes first; nothing, where it has nothing to do. With every look half of what
    /// is left goes by, so that a cost that was too high does little harm.
    fn foresee(&self, core: &Core, seen: &Observation<'_>) -> Option<Nanos> {
        let nf = core.current?;
        let v = seen.nfs.get(nf)?;
        let cost = self.costs.get(nf).copied()?;
        let waiting = v.input.occupancy.saturating_sub(self.config.theta_min);
        let most = self.config.theta_max.unwrap_or(1.0) * f64::from(v.output.capacity);
        let room = match v.output.capacity {
            0 => u32::MAX,
            _ => (most as u32).saturating_sub(v.output.occupancy),
        };
        let work = cost.saturating_mul(Nanos::from(waiting.min(room)));
        let left = (core.begun + core.slice).saturating_sub(seen.now);
        Some(work.min(left) / 2)
    }

    fn has_room(&self, v: &NfView) -> bool {
        v.output.capacity == 0
            || self.config.theta_max.is_none_or(|part| {
                f64::from(v.output.occupancy) < part * f64::from(v.output.capacity)
            })
    }

    fn can_be_chosen(&self, nf: usize, v: &NfView, now: Nanos) -> bool {
        let aged = match (self.config.ageing, self.waits.get(nf).copied().flatten()) {
            (Ageing::After(age), Some(since)) => now.saturating_sub(since) >= age,
            _ => false,
        };
        (v.input.occupancy > self.config.theta_min || aged) && self.has_room(v)
    }

    /// Algorithm 1 for one core. Steps: at most its NFs.
    fn turn(&mut self, core: usize, seen: &Observation<'_>) -> Option<CorePlan> {
        let now = seen.now;
        let view = |nf: usize| seen.nfs.get(nf).copied().unwrap_or_default();
        let mut c = std::mem::replace(
            self.cores.get_mut(core)?,
            Core {
                queue: VecDeque::new(),
                current: None,
                begun: 0,
                slice: 0,
            },
        );
        let plan = match c.current {
            // the head of the queue begins
            None => c.queue.pop_front(),
            Some(f) => {
                let v = view(f);
                let over = now.saturating_sub(c.begun) >= c.slice;
                let starved = v.input.occupancy <= self.config.theta_min;
                if over || starved || !self.has_room(&v) {
                    c.queue.push_back(f);
                    let mut n = c.queue.pop_front().unwrap_or(f);
                    while n != f && !self.can_be_chosen(n, &view(n), now) {
                        c.queue.push_back(n);
                        n = c.queue.pop_front().unwrap_or(f);
                    }
                    Some(n)
                } else {
                    None
                }
            }
        };
        if let Some(nf) = plan {
            c.slice = self.slice(nf, view(nf).output);
            c.begun = now;
            c.current = Some(nf);
        }
        let decided = c.current.map(|nf| CorePlan::Only { nf, slice: c.slice });
        if let Some(at) = self.cores.get_mut(core) {
            *at = c;
        }
        decided
    }
}

impl Policy for Unis {
    fn name(&self) -> &'static str {
        match self.config.ageing {
            Ageing::Faithful => "UNiS, as published",
            Ageing::After(_) => "UNiS",
        }
    }

    fn period(&self) -> Nanos {
        self.config.period
    }

    fn rests(&self) -> Nanos {
        self.rests
    }

    fn decide(
        &mut self,
        seen: &Observation<'_>,
        to: &mut Decisions,
    ) -> Result<(), ObservationError> {
        seen.check(&self.topology)?;
        self.learn(seen);
        for (nf, (w, v)) in self.waits.iter_mut().zip(seen.nfs).enumerate() {
            let core = self.topology.nfs().get(nf).map_or(0, |n| n.core);
            let runs = self.cores.get(core).is_some_and(|c| c.current == Some(nf));
            *w = match v.input.occupancy > 0 && !runs {
                true => w.or(Some(seen.now)),
                false => None,
            };
        }
        for core in 0..self.topology.cores() {
            let plan = self.turn(core, seen);
            if let (Some(plan), Some(to)) = (plan, to.cores.get_mut(core)) {
                *to = plan;
            }
        }
        let soonest = self
            .cores
            .iter()
            .filter_map(|c| self.foresee(c, seen))
            .min();
        self.rests = match self.config.ageing {
            // as published: every period
            Ageing::Faithful => self.config.period,
            Ageing::After(age) => soonest.unwrap_or(0).min(age / 2).max(self.config.period),
        };
        Ok(())
    }
}
