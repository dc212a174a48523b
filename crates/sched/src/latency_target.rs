//! Onefold's own policy: a latency target for each chain, turns whose lengths follow from it and from costs that are
//! learnt while packets flow, and a bound on what may wait where a chain enters.
//!
//! - *For how long.* NFs of a core take turns (FIFO, and each yields): a round of all of them takes a third of the
//!   strictest target on that core, shared evenly by its chains. A chain's NFs have as many packets a turn as that
//!   comes to, all the same number, so that none gets ahead of the next one. What an NF hands over by itself costs a
//!   switch; a core that is taken away from outside costs a look, a lever and an interrupt besides, during which
//!   nobody does anything useful (decision 87).
//! - *Who comes in.* At most so many packets wait where a chain enters as can be worked on within half of its target,
//!   less what waits for its later NFs beyond a turn's: what would be too late is dropped before anybody has worked on
//!   it. Whoever moves packets keeps the bound by itself, packet by packet; the policy only moves it, so that a look
//!   that comes late does no harm.
//! - *Whose packets.* A chain is all NFs that its packets could come to. Those that none has come to of late do not
//!   count ([`NfView::absent`]): a slow NF behind one that chains share holds up those that go on to it, and no other
//!   one.
//! - *Full rings.* An NF that puts all packets into one ring waits for room there. Others would hold up chains that
//!   have nothing to do with it: they take nothing more from inputs that lead to the full ring, and go on with others.
//!
//! Where cost varies by packet, its median counts; the last sample does until there is one. An NF with a core of its
//! own may wait for something that is not the processor (a disk, a device): what it is done with while packets wait for
//! it says what one takes there. An NF that never yields is the controller's affair: it gives all of
//! that core turns by the clock. One that has stalled keeps its packets, and its chain is shut; one that has crashed is
//! the launcher's affair.

use crate::decision::{Class, Decisions};
use crate::estimate::ServiceEstimate;
use crate::observation::{NfView, Observation, ObservationError};
use crate::topology::{ChainSet, Topology};
use crate::{MICROSECOND, MILLISECOND, Nanos, Policy};

/// Packets of a batch, while none was seen: what NFs have between two yields is told in batches.
const BATCH: Nanos = 32;
/// Each millisecond so much of the largest batch that was seen is forgotten.
const FORGOTTEN: f64 = 0.02;
/// Weight of the last millisecond in an NF's pace.
const PACE: f64 = 0.1;
/// Per cent of the next ring from which on an NF may be waiting for room.
const FULL: u32 = 75;
/// Batches of a turn while costs are not known.
const UNKNOWN: u32 = 8;
/// A turn fills at most this part of a ring.
const MOST_OF_RING: (Nanos, Nanos) = (3, 4);
/// A round of a core's NFs takes at most this part of the strictest target.
const ROUND: Nanos = 3;
/// What waits where a chain enters is worth at most this part of its target: more than a round, so that there is
/// enough for every turn.
const WAITING: Nanos = 2;
/// Decisions are made that often in a target's time, within these bounds: bounds of entries are kept by who moves
/// packets, and turns by functions, so that what a look changes is only how they follow costs.
const LOOKS: Nanos = 6;
const SHORTEST_PERIOD: Nanos = 100 * MICROSECOND;
/// A chain whose packets take less than this on a core is as fast as those who bring its packets, and share a core with
/// the policy: a look takes them some 40 us, timer, switches and cold caches included.
const QUICK: Nanos = 500;
/// Decisions in a target's time where all chains are quick.
const SELDOM: Nanos = 2;
/// A turn that is worth its switch, where nobody asks for shorter ones: a switch, with what it does to caches and who
/// is woken, costs 5 to 12 us on a virtual machine.
const WORTHWHILE: Nanos = 100 * MICROSECOND;
/// Shortest target: what several switches take.
pub const LEAST_TARGET: Nanos = 50 * MICROSECOND;

/// Targets that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// One for each chain is needed.
    #[error("{targets} latency targets for {chains} chains")]
    Number {
        /// Targets.
        targets: usize,
        /// Chains.
        chains: usize,
    },
    /// Too short.
    #[error("chain {chain}: a latency target has to be at least {LEAST_TARGET} ns")]
    Short {
        /// The chain.
        chain: usize,
    },
}

/// A chain's work on a core.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    /// Packets that wait for it, but for those where the chain enters.
    within: Nanos,
    /// Those, too.
    waiting: Nanos,
    /// ns a packet, of NFs whose cost is known.
    cost: Nanos,
    /// Of none of its NFs the cost is unknown.
    known: bool,
    /// It passes this core.
    passes: bool,
}

impl Work {
    fn time(&self) -> Nanos {
        self.waiting.saturating_mul(self.cost)
    }
}

#[derive(Debug, Clone)]
struct Core {
    /// Strictest target of the chains that pass.
    target: Nanos,
    /// Chains that pass, of late.
    chains: Nanos,
    /// By chain.
    work: Vec<Work>,
}

impl Core {
    /// Packets of a chain that an NF has in a turn.
    fn turn(&self, w: &Work) -> Nanos {
        self.target / ROUND / self.chains / w.cost.max(1)
    }
}

/// How fast an NF works where nobody else can be the reason.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// When it was looked at, and `done` then, if packets waited.
    from: Option<(Nanos, u64)>,
    /// ns a packet.
    each: f64,
}

impl Pace {
    /// A millisecond has passed. `alone`: it has a core of its own.
    fn update(&mut self, now: Nanos, v: &NfView, alone: bool) {
        let may_wait = v.output.capacity > 0 && v.output.at_least(FULL);
        let busy = alone && v.input.occupancy > 0 && !may_wait;
        let before = std::mem::replace(&mut self.from, busy.then_some((now, v.done)));
        match before.filter(|_| busy) {
            Some((from, done)) => {
                let packets = v.done.wrapping_sub(done);
                let each = now.saturating_sub(from) as f64 / packets.max(1) as f64;
                self.each += PACE * (each - self.each);
            }
            // it does not need what it needed then
            None => self.each *= 1.0 - PACE,
        }
    }
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct LatencyTarget {
    topology: Topology,
    targets: Vec<Nanos>,
    cores: Vec<Core>,
    estimates: Vec<ServiceEstimate>,
    /// By NF: what a packet cost last, for as long as nothing else is known.
    samples: Vec<Option<Nanos>>,
    /// By NF: packets of its batches when there are enough.
    batches: Vec<f64>,
    /// By NF.
    paces: Vec<Pace>,
    /// By NF: it may wait for room at the next one.
    waits: Vec<bool>,
    /// By NF: chains that could pass, and have not of late.
    absent: Vec<ChainSet>,
    last_update: Nanos,
    /// The strictest target of all.
    strictest: Nanos,
    period: Nanos,
}

impl LatencyTarget {
    /// The target of a chain that nobody has given one: a millisecond, or what a round takes on the fullest of its
    /// cores in which all functions have turns of 100 us, if that is more (from four functions on).
    pub fn usual(topology: &Topology, chain: usize) -> Nanos {
        let hops = topology.chains().get(chain);
        let fullest = (0..topology.cores())
            .map(|c| topology.on_core(c))
            .filter(|here| hops.is_some_and(|hops| hops.iter().any(|h| here.contains(h))))
            .map(<[usize]>::len)
            .max();
        let round = fullest.unwrap_or(0) as Nanos * WORTHWHILE;
        MILLISECOND.max(ROUND * round)
    }

    /// `targets`: by chain, ns from arrival to departure.
    ///
    /// # Errors
    /// They do not fit the topology.
    pub fn new(topology: &Topology, targets: Vec<Nanos>) -> Result<LatencyTarget, TargetError> {
        let chains = topology.chains();
        if targets.len() != chains.len() {
            let (targets, chains) = (targets.len(), chains.len());
            return Err(TargetError::Number { targets, chains });
        }
        if let Some(chain) = targets.iter().position(|t| *t < LEAST_TARGET) {
            return Err(TargetError::Short { chain });
        }
        let core = |c: usize| {
            let here = topology.on_core(c);
            let is_here = |hops: &[usize]| hops.iter().any(|h| here.contains(h));
            let through = chains.iter().zip(&targets).filter(|c| is_here(c.0));
            Core {
                target: through.clone().map(|c| *c.1).min().unwrap_or(MILLISECOND),
                chains: through.count().max(1) as Nanos,
                work: vec![Work::default(); chains.len()],
            }
        };
        let strictest = targets.iter().copied().min().unwrap_or(MILLISECOND);
        Ok(LatencyTarget {
            cores: (0..topology.cores()).map(core).collect(),
            estimates: vec![ServiceEstimate::default(); topology.nfs().len()],
            samples: vec![None; topology.nfs().len()],
            batches: vec![BATCH as f64; topology.nfs().len()],
            paces: vec![Pace::default(); topology.nfs().len()],
            waits: (0..topology.nfs().len())
                .map(|nf| topology.has_one_output(nf))
                .collect(),
            absent: vec![0; topology.nfs().len()],
            topology: topology.clone(),
            targets,
            last_update: 0,
            strictest,
            period: (strictest / LOOKS).clamp(SHORTEST_PERIOD, MILLISECOND),
        })
    }

    /// Costs, ways, and the work that waits on each core.
    fn learn(&mut self, seen: &Observation<'_>) {
        let updates = seen.now.saturating_sub(self.last_update) >= MILLISECOND;
        if updates {
            self.last_update = seen.now;
        }
        let known = self.estimates.iter_mut().zip(&mut self.samples);
        let known = known.zip(&mut self.batches);
        for (((e, sample), batch), v) in known.zip(seen.nfs) {
            if let Some(took) = v.sample {
                e.add(seen.now, took);
                *sample = v.sample;
            }
            if updates {
                e.update(seen.now);
            }
            if updates && v.batch > 0 {
                *batch *= 1.0 - FORGOTTEN;
            }
            *batch = batch.max(f64::from(v.batch)).max(1.0);
        }
        if updates {
            for (nf, (pace, v)) in self.paces.iter_mut().zip(seen.nfs).enumerate() {
                let core = self.topology.nfs().get(nf).map_or(0, |n| n.core);
                pace.update(seen.now, v, self.topology.on_core(core).len() == 1);
            }
        }
        self.weigh(seen.nfs);
    }

    /// The work that waits on each core.
    fn weigh(&mut self, views: &[NfView]) {
        self.cores
            .iter_mut()
            .for_each(|c| c.work.fill(Work::default()));
        for (absent, v) in self.absent.iter_mut().zip(views) {
            *absent = v.absent;
        }
        // Little's law: what is in a chain up to its last NF on a core, times what that core does for one packet. What
        // has passed an NF already counts in full, as the NF works for others meanwhile. NFs that chains share count
        // for each of them: cautious
        for (chain, hops) in self.topology.chains().iter().enumerate() {
            let (mut waiting, mut entry): (Nanos, Nanos) = (0, 0);
            for (i, nf) in hops.iter().enumerate() {
                // whoever enters is at the first one
                if i > 0 && self.absent.get(*nf).is_some_and(|a| a >> chain & 1 != 0) {
                    continue;
                }
                let here = views.get(*nf).map_or(0, |v| v.input.occupancy);
                waiting += Nanos::from(here);
                if i == 0 {
                    entry = waiting;
                }
                let core = self.topology.nfs().get(*nf).map_or(0, |n| n.core);
                let Some(w) = self.cores.get_mut(core).and_then(|c| c.work.get_mut(chain)) else {
                    continue;
                };
                let median = self.estimates.get(*nf).and_then(ServiceEstimate::median);
                let cost = median.or_else(|| self.samples.get(*nf).copied().flatten());
                let pace = self.paces.get(*nf).map_or(0, |p| p.each as Nanos);
                let cost = cost.map(|c| c.max(pace));
                w.known = cost.is_some() && (w.known || !w.passes);
                w.passes = true;
                w.cost = w.cost.saturating_add(cost.unwrap_or(0));
                (w.waiting, w.within) = (waiting, waiting - entry);
            }
        }
        for c in &mut self.cores {
            let passing = c.work.iter().filter(|w| w.passes).count();
            c.chains = passing.max(1) as Nanos;
        }
    }

    /// How many packets of a chain may wait where it enters; `None`: nothing is known of its costs.
    fn admitted(&self, chain: usize) -> Option<u32> {
        let target = *self.targets.get(chain)?;
        let budget = target / WAITING;
        let mut least = None;
        for (core, c) in self.cores.iter().enumerate() {
            let Some(w) = c.work.get(chain).filter(|w| w.passes) else {
                continue;
            };
            if !w.known || w.cost == 0 {
                continue;
            }
            // Chains of a core take turns: one with a longer queue holds this one up for no more than its part
            let others = || {
                let all = c.work.iter().enumerate();
                all.filter(|(i, w)| *i != chain && w.waiting > 0)
                    .map(|(_, w)| w.time())
            };
            let part = budget / (1 + others().count() as Nanos);
            let taken: Nanos = others().map(|t| t.min(part)).sum();
            let packets = budget.saturating_sub(taken) / w.cost;
            // what a turn hands on to the next one is under way
            let under_way = match self.topology.on_core(core).len() {
                0 | 1 => c.turn(w).clamp(1, 2 * BATCH),
                _ => c.turn(w).max(BATCH),
            };
            let room = packets.saturating_sub(w.within.saturating_sub(under_way));
            least = Some(least.map_or(room, |l: Nanos| l.min(room)));
        }
        // one has to be let in to see whether it is slow still, unless it would wait behind others
        let floor = |room: Nanos| match self.waits_within(chain) {
            true => room,
            false => room.max(1),
        };
        least.map(|room| u32::try_from(floor(room)).unwrap_or(u32::MAX))
    }

    /// What each chain costs on each core is known, and less than [`QUICK`].
    fn is_quick(&self) -> bool {
        let works = self.cores.iter().flat_map(|c| &c.work);
        let mut passing = works.filter(|w| w.passes).peekable();
        passing.peek().is_some() && passing.all(|w| w.known && w.cost < QUICK)
    }

    /// Does anything wait for a chain's later NFs?
    fn waits_within(&self, chain: usize) -> bool {
        let work = self.cores.iter().filter_map(|c| c.work.get(chain));
        work.map(|w| w.within).max().unwrap_or(0) > 0
    }

    /// Batches that an NF has in a turn; `None`: as many as it likes, as nobody else is on its core.
    fn turn(&self, nf: usize) -> Option<u32> {
        let spec = self.topology.nfs().get(nf)?;
        let c = self.cores.get(spec.core)?;
        if self.topology.on_core(spec.core).len() < 2 {
            return None;
        }
        let mut packets: Nanos = 0;
        let absent = self.absent.get(nf).copied().unwrap_or_default();
        let through = self.topology.through(nf);
        // where nobody has come to, whoever could may
        let through = match through & !absent {
            0 => through,
            some => some,
        };
        let passing = c
            .work
            .iter()
            .enumerate()
            .filter(|(i, _)| through >> i & 1 != 0);
        for (_, w) in passing {
            if !w.known {
                return Some(UNKNOWN);
            }
            packets += c.turn(w);
        }
        let ring = Nanos::from(spec.capacity) / MOST_OF_RING.1 * MOST_OF_RING.0;
        let batch = self.batches.get(nf).copied().unwrap_or(BATCH as f64);
        let batches = packets.min(ring) as f64 / batch;
        Some((batches.round() as u32).max(1))
    }
}

impl Policy for LatencyTarget {
    fn name(&self) -> &'static str {
        "latency target"
    }

    fn period(&self) -> Nanos {
        self.period
    }

    fn rests(&self) -> Nanos {
        let shared = (0..self.topology.cores()).any(|c| self.topology.on_core(c).len() > 1);
        match shared {
            true if self.is_quick() => self.period.max(self.strictest / SELDOM),
            true => self.period,
            // nobody takes turns
            false => self.period.max(MILLISECOND),
        }
    }

    fn sees_ways(&self) -> bool {
        true
    }

    fn decide(
        &mut self,
        seen: &Observation<'_>,
        to: &mut Decisions,
    ) -> Result<(), ObservationError> {
        seen.check(&self.topology)?;
        self.learn(seen);
        for (chain, admit) in to.admit.iter_mut().enumerate() {
            *admit = self.admitted(chain);
        }
        for (nf, n) in to.nfs.iter_mut().enumerate() {
            n.class = Class::Fifo;
            n.yield_after = self.turn(nf);
            n.blocks_when_full = self.waits.get(nf).copied().unwrap_or(false);
            n.waits_by_way = true;
        }
        Ok(())
    }
}
