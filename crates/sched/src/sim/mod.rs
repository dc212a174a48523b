//! A discrete-event simulation of NFs that share cores, for comparing policies: no threads, no clock, no chance; the
//! same inputs give the same figures.
//!
//! *What is modelled*: rings with places; NFs that take a batch, work on each packet for its cost, and put what came of
//! it into the next ring, where what finds no room is lost; sleeping and polling NFs; a kernel with fair, round-robin
//! and FIFO classes (fair: least virtual run time first, slices, wake-ups that preempt); a switch's cost; what a
//! policy sees and all its levers, when it wants to look ([`Policy::rests`]), how soon it can at most, and how long a
//! lever takes ([`Simulator::pause`], [`Simulator::lever`]; nothing, unless it is said). *What is not*: caches, the
//! time of a core that looks and levers take, wake-up latency beyond a switch, preemption within a batch (it waits for
//! the batch's end), ticks, real-time throttling, migration, TCP's answer to losses and marks.

mod core;
mod report;
mod ring;

pub use report::{ChainReport, NfReport, Report, jain};

use crate::decision::{Decisions, NfLevers};
use crate::observation::{Level, NfView, Observation, ObservationError};
use crate::topology::Topology;
use crate::{MICROSECOND, Nanos, Policy};
use core::Core;
use report::Counters;
use ring::{Packets, Queue};

/// Packets arrive in portions, so often.
const ARRIVALS: Nanos = 2 * MICROSECOND;
/// Most packets a second of one source: what 400 Gb/s are of 64 bytes, about.
pub const HIGHEST_RATE: u64 = 600_000_000;

/// How an NF behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// What a packet costs, in ns, from a moment on; in order of time. Before the first one: the first one's.
    pub cost: Vec<(Nanos, Nanos)>,
    /// It does not sleep when nothing waits.
    pub polls: bool,
    /// Most packets of a batch.
    pub batch: u32,
}

impl Model {
    /// Sleeps when nothing waits; batches of 32, as NFVnice's.
    pub fn interrupted(cost: Nanos) -> Model {
        Model {
            cost: vec![(0, cost)],
            polls: false,
            batch: 32,
        }
    }

    /// Polls; batches of 64, as UNiS's.
    pub fn polling(cost: Nanos) -> Model {
        Model {
            polls: true,
            batch: 64,
            ..Model::interrupted(cost)
        }
    }

    fn cost_at(&self, now: Nanos) -> Nanos {
        let since = self.cost.iter().rev().find(|(from, _)| *from <= now);
        since.or(self.cost.first()).map_or(1, |c| c.1).max(1)
    }
}

/// Packets that arrive for a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Source {
    /// The chain.
    pub chain: usize,
    /// Packets a second.
    pub rate: u64,
    /// From this moment on.
    pub from: Nanos,
    /// Until this one.
    pub until: Nanos,
    /// Its packets are ECN-capable.
    pub ecn: bool,
}

impl Source {
    /// Without a beginning or an end.
    pub fn steady(chain: usize, rate: u64) -> Source {
        Source {
            chain,
            rate,
            from: 0,
            until: Nanos::MAX,
            ecn: false,
        }
    }
}

/// Why a simulation cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// A model for each NF is needed.
    #[error("{models} models for {nfs} NFs")]
    Models {
        /// Models.
        models: usize,
        /// NFs.
        nfs: usize,
    },
    /// An NF that never takes anything.
    #[error("NF {nf}: batches of 0")]
    Batch {
        /// The NF.
        nf: usize,
    },
    /// Packets for a chain that there is not.
    #[error("there is no chain {chain}")]
    NoChain {
        /// The chain.
        chain: usize,
    },
    /// Too many packets.
    #[error("{rate} packets a second: at most {HIGHEST_RATE}")]
    Rate {
        /// Packets a second.
        rate: u64,
    },
}

/// An NF on its way through time.
#[derive(Debug)]
struct Nf {
    model: Model,
    input: Queue,
    /// What it works on at this moment.
    batch: Vec<Packets>,
    /// Virtual run time.
    fair: f64,
    batches: u32,
    arrived: u64,
    done: u64,
    sample: Option<Nanos>,
}

/// See the module's text.
#[derive(Debug)]
pub struct Simulator {
    topology: Topology,
    /// By NF and chain: where the chain goes next.
    next: Vec<Vec<Hop>>,
    nfs: Vec<Nf>,
    cores: Vec<Core>,
    sources: Vec<(Source, u128)>,
    /// What the policy last said, and when that takes effect.
    wanted: Decisions,
    takes_effect: Option<Nanos>,
    levers: Decisions,
    views: Vec<NfView>,
    counters: Counters,
    now: Nanos,
    next_arrival: Nanos,
    next_decision: Nanos,
    /// What a switch costs, in ns: 1,000 (SCC, table 2: 940 to 1,140).
    pub switch: Nanos,
    /// Least time between two looks, in ns: 0. On processes 30 us (decision 71).
    pub pause: Nanos,
    /// From a look to when its levers take effect, in ns: 0. On processes 10 us from a priority to a switch.
    pub lever: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hop {
    /// The chain does not pass.
    None,
    Nf(usize),
    Out,
}

impl Simulator {
    /// Nothing has arrived yet. `models`: by NF.
    ///
    /// # Errors
    /// They do not fit the topology.
    pub fn new(
        topology: &Topology,
        models: Vec<Model>,
        sources: Vec<Source>,
    ) -> Result<Simulator, SimError> {
        let nfs = topology.nfs().len();
        if models.len() != nfs {
            let models = models.len();
            return Err(SimError::Models { models, nfs });
        }
        if let Some(nf) = models.iter().position(|m| m.batch == 0) {
            return Err(SimError::Batch { nf });
        }
        let chains = topology.chains();
        for s in &sources {
            if s.chain >= chains.len() {
                return Err(SimError::NoChain { chain: s.chain });
            }
            if s.rate > HIGHEST_RATE {
                return Err(SimError::Rate { rate: s.rate });
            }
        }
        let mut next = vec![vec![Hop::None; chains.len()]; nfs];
        for (chain, hops) in chains.iter().enumerate() {
            for (i, nf) in hops.iter().enumerate() {
                next[*nf][chain] = hops.get(i + 1).map_or(Hop::Out, |n| Hop::Nf(*n));
            }
        }
        let made = models
            .into_iter()
            .zip(topology.nfs())
            .map(|(model, spec)| Nf {
                batch: Vec::with_capacity(model.batch as usize),
                model,
                input: Queue::new(spec.capacity, chains.len()),
                fair: 0.0,
                batches: 0,
                arrived: 0,
                done: 0,
                sample: None,
            });
        Ok(Simulator {
            nfs: made.collect(),
            next,
            cores: (0..topology.cores())
                .map(|c| Core::new(topology.on_core(c)))
                .collect(),
            sources: sources.into_iter().map(|s| (s, 0)).collect(),
            wanted: Decisions::new(topology),
            takes_effect: None,
            levers: Decisions::new(topology),
            views: vec![NfView::default(); nfs],
            counters: Counters::new(nfs, chains.len()),
            topology: topology.clone(),
            now: 0,
            next_arrival: 0,
            next_decision: 0,
            switch: MICROSECOND,
            pause: 0,
            lever: 0,
        })
    }

    /// Goes on for so long, in ns. Steps: bounded by time over the shortest of arrivals (2 us), the policy's period
    /// and a batch's work.
    ///
    /// # Errors
    /// The policy was made for another topology.
    pub fn run(&mut self, policy: &mut dyn Policy, time: Nanos) -> Result<(), ObservationError> {
        let end = self.now.saturating_add(time);
        loop {
            let cores = self.cores.iter().map(|c| c.until).min();
            let event = cores
                .unwrap_or(Nanos::MAX)
                .min(self.next_arrival)
                .min(self.next_decision)
                .min(self.takes_effect.unwrap_or(Nanos::MAX));
            if event > end {
                self.now = end;
                return Ok(());
            }
            self.now = event.max(self.now);
            if self.next_arrival <= self.now {
                self.arrive();
                self.next_arrival = self.now + ARRIVALS;
            }
            for c in 0..self.cores.len() {
                if self.cores[c].until <= self.now {
                    self.finish(c);
                }
            }
            if self.next_decision <= self.now {
                self.look(policy.sees_chains().is_some());
                let (now, nfs) = (self.now, self.views.as_slice());
                policy.decide(&Observation { now, nfs }, &mut self.wanted)?;
                let rest = policy.period().max(policy.rests()).max(self.pause);
                self.next_decision = self.now + rest.max(100);
                // what was said before takes effect no later for that
                self.takes_effect.get_or_insert(self.now + self.lever);
            }
            if self.takes_effect.is_some_and(|at| at <= self.now) {
                self.takes_effect = None;
                self.levers.clone_from(&self.wanted);
            }
            for c in 0..self.cores.len() {
                if self.cores[c].is_free() {
                    self.begin(c);
                }
            }
        }
    }

    /// What has become of all packets so far.
    pub fn report(&self) -> Report {
        let waiting = self.nfs.iter().map(|n| n.input.len());
        let held = self
            .nfs
            .iter()
            .map(|n| n.batch.iter().map(|p| p.number).sum());
        self.counters.report(self.now, waiting.zip(held))
    }

    /// What the policy last said.
    pub fn wanted(&self) -> &Decisions {
        &self.wanted
    }

    fn arrive(&mut self) {
        for i in 0..self.sources.len() {
            let (s, carried) = &mut self.sources[i];
            if self.now < s.from || self.now >= s.until {
                continue;
            }
            let due = *carried + u128::from(s.rate) * u128::from(ARRIVALS);
            let number = (due / 1_000_000_000) as u32;
            *carried = due % 1_000_000_000;
            let (chain, ecn) = (s.chain, s.ecn);
            let Some(&entry) = self.topology.chains()[chain].first() else {
                continue;
            };
            self.counters.chains[chain].offered += u64::from(number);
            if self.levers.shed & (1 << chain) != 0 {
                self.counters.chains[chain].shed += u64::from(number);
                self.nfs[entry].arrived += u64::from(number);
                continue;
            }
            let admit = self.levers.admit.get(chain).copied().flatten();
            let waiting = self.nfs.get(entry).map_or(0, |n| n.input.len());
            let let_in = number.min(admit.map_or(u32::MAX, |a| a.saturating_sub(waiting)));
            let shed = u64::from(number - let_in);
            self.counters.chains[chain].shed += shed;
            self.nfs[entry].arrived += shed;
            let number = let_in;
            let (born, marked) = (self.now, false);
            let packets = Packets {
                chain,
                number,
                born,
                ecn,
                marked,
            };
            let lost = self.put(entry, packets);
            self.counters.chains[chain].full += u64::from(lost);
        }
    }

    /// Puts packets into an NF's ring. How many found no room?
    fn put(&mut self, nf: usize, mut packets: Packets) -> u32 {
        let n = &mut self.nfs[nf];
        n.arrived += u64::from(packets.number);
        packets.marked |= packets.ecn && self.levers.nfs[nf].mark_ecn;
        n.input.push(packets)
    }

    /// What is seen of all NFs.
    /// `chains`: which of them wait is wanted, too, as of [`Policy::sees_chains`].
    fn look(&mut self, chains: bool) {
        for i in 0..self.nfs.len() {
            let mut output = Level {
                occupancy: 0,
                capacity: self.topology.nfs()[i].capacity,
            };
            for hop in &self.next[i] {
                if let Hop::Nf(n) = hop {
                    let level = self.nfs[*n].input.level();
                    if u64::from(level.occupancy) * u64::from(output.capacity)
                        >= u64::from(output.occupancy) * u64::from(level.capacity)
                    {
                        output = level;
                    }
                }
            }
            let runnable = self.is_runnable(i);
            let n = &mut self.nfs[i];
            self.views[i] = NfView {
                input: n.input.level(),
                output,
                arrived: n.arrived,
                done: n.done,
                sample: n.sample.take(),
                batch: n.model.batch,
                runnable,
                queued: if chains { n.input.chains() } else { 0 },
                relieved: 0,
                // chains are what their packets pass here
                absent: 0,
            };
        }
    }

    fn lever(&self, nf: usize) -> &NfLevers {
        &self.levers.nfs[nf]
    }

    /// Would it run if it had a core?
    fn is_runnable(&self, nf: usize) -> bool {
        let n = &self.nfs[nf];
        let lever = self.lever(nf);
        if lever.relinquish || (n.input.len() == 0 && !n.model.polls) {
            return false;
        }
        let full = |h: &Hop| match h {
            Hop::Nf(to) => self.nfs[*to].input.level().free() < n.model.batch,
            _ => false,
        };
        !(lever.blocks_when_full && self.next[nf].iter().any(full))
    }
}
