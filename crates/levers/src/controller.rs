//! The loop between what is seen and what is done.

use crate::apply::{Held, Levers};
use crate::kernel::Kernel;
use crate::observe::{Wanted, Watcher};
use crate::stat::{Counters, Usage};
use crate::{LeverError, sys};
use onefold_nf::{Plan, Region, Shape};
use onefold_sched::spec::Spec;
use onefold_sched::{
    ChainSet, Class, CorePlan, Decisions, MICROSECOND, MILLISECOND, Nanos, NfSpec, Observation,
    Policy, Topology,
};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Usage of processes is read so often.
const USAGE: Nanos = 100 * MILLISECOND;
/// Whether somebody starves is looked at so often.
const WATCH: Nanos = 5 * MILLISECOND;
/// Who has packets waiting and is not done with any for so long starves.
const STARVED: Nanos = 50 * MILLISECOND;
/// A core that no function ran on for so long, of 100 ms, although one of real time was to run all of them, was
/// withheld.
const WITHHELD: Nanos = 2 * MILLISECOND;
/// What takes longer than this was interrupted.
const LONGEST_LOOK: Nanos = 50 * MICROSECOND;
/// Shortest pause between two looks. A timer that is set costs some 8 us on a virtual machine (two exits), in which
/// nobody else has the core: with pauses of 2 us those who move packets had a tenth of it, and functions waited for
/// them (decision 71).
const LEAST_PAUSE: Nanos = 30 * MICROSECOND;

/// A way through a chain's functions: a chain, in a scheduler's words. Packets that enter at one port are of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The port's name.
    pub name: String,
    /// The NFs that its packets can come to, in the order in which they are reached.
    pub nfs: Vec<usize>,
    /// So many of them, from the first one on, are one behind the other; whether packets come to the rest, behind an NF
    /// that goes on to several, is seen from them.
    pub certain: usize,
}

/// What is to be scheduled.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The processes' memory.
    pub region: Arc<Region>,
    /// Its rings. NF `i` is process `i + 1`.
    pub plan: Plan,
    /// By NF.
    pub names: Vec<String>,
    /// By NF: the core that it is pinned to.
    pub cores: Vec<Option<usize>>,
    /// By NF: how much its load counts.
    pub priorities: Vec<u32>,
    /// Chains.
    pub ways: Vec<Way>,
    /// The core that the launcher and the policy are executed on.
    pub housekeeping: Option<usize>,
    /// Where records of what was changed in the system are kept.
    pub folder: PathBuf,
}

/// What is told of an NF.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct NfFigures {
    /// Of all its processes.
    pub usage: Usage,
    /// Packets that it had worked on and that found the next ring full.
    pub wasted: u64,
    /// 100 ms in which its core was withheld from functions in real time that were to run.
    pub throttled: u64,
    /// How long it was, together, in ns.
    pub throttled_ns: Nanos,
    /// Its `cpu.shares` at present.
    pub shares: u32,
}

/// What the policy's thread, who moves packets and who asks have in common.
#[derive(Debug)]
pub struct Shared {
    /// By NF: its process; 0: there is none at present.
    pids: Vec<AtomicU32>,
    /// Chains whose packets are dropped where they enter.
    shed: AtomicU64,
    /// By chain: how many were.
    shed_packets: Vec<AtomicU64>,
    /// By chain: so many may wait in the ring that it enters by, and others are dropped there.
    admit: Vec<AtomicU32>,
    /// The thread is to end.
    stop: AtomicBool,
    figures: Mutex<Figures>,
}

/// What is told of scheduling.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// By NF.
    pub nfs: Vec<NfFigures>,
    /// Since when, in ns.
    pub elapsed: Nanos,
    /// Looks.
    pub steps: u64,
    /// Levers that were pulled.
    pub pulled: u64,
    /// Cores that were given turns because a function did not let others run.
    pub rescued: u64,
}

impl Shared {
    /// For so many NFs and chains.
    pub fn new(nfs: usize, ways: usize) -> Shared {
        Shared {
            pids: (0..nfs).map(|_| AtomicU32::new(0)).collect(),
            shed: AtomicU64::new(0),
            shed_packets: (0..ways).map(|_| AtomicU64::new(0)).collect(),
            admit: (0..ways).map(|_| AtomicU32::new(u32::MAX)).collect(),
            stop: AtomicBool::new(false),
            figures: Mutex::new(Figures {
                nfs: vec![NfFigures::default(); nfs],
                ..Figures::default()
            }),
        }
    }

    /// The process of an NF; 0: it has ended.
    pub fn set_pid(&self, nf: usize, pid: u32) {
        if let Some(p) = self.pids.get(nf) {
            p.store(pid, Ordering::Release);
        }
    }

    fn pid(&self, nf: usize) -> u32 {
        self.pids.get(nf).map_or(0, |p| p.load(Ordering::Acquire))
    }

    /// Chains whose packets are to be dropped where they enter.
    #[inline]
    pub fn shed(&self) -> ChainSet {
        self.shed.load(Ordering::Relaxed)
    }

    /// How many packets of a chain may wait in the ring that it enters by: none, if they are to be dropped there.
    #[inline]
    pub fn admits(&self, way: usize) -> u32 {
        let most = self.admit.get(way);
        match self.shed() >> way & 1 {
            0 => most.map_or(u32::MAX, |a| a.load(Ordering::Relaxed)),
            _ => 0,
        }
    }

    /// What a policy says of chains' entries.
    fn admit(&self, d: &Decisions) {
        self.shed.store(d.shed, Ordering::Relaxed);
        for (to, most) in self.admit.iter().zip(&d.admit) {
            to.store(most.unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    /// Nobody says anything of chains' entries any more.
    fn admit_all(&self) {
        self.shed.store(0, Ordering::Relaxed);
        for to in &self.admit {
            to.store(u32::MAX, Ordering::Relaxed);
        }
    }

    /// So many packets of a chain were.
    pub fn count_shed(&self, way: usize, packets: u64) {
        if let Some(n) = self.shed_packets.get(way) {
            n.store(n.load(Ordering::Relaxed) + packets, Ordering::Relaxed);
        }
    }

    /// How many were.
    pub fn shed_packets(&self, way: usize) -> u64 {
        let n = self.shed_packets.get(way);
        n.map_or(0, |n| n.load(Ordering::Relaxed))
    }

    /// The thread is to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Is it?
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// How it stands.
    pub fn figures(&self) -> Figures {
        self.figures
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What the kernel has counted of an NF.
#[derive(Debug, Default)]
struct Counted {
    pid: u32,
    counters: Option<Counters>,
    /// Of processes that have ended.
    before: Usage,
    last: Usage,
    /// When it was seen to be done with a packet, and how many it was.
    progress: (Nanos, u64),
    figures: NfFigures,
}

/// A policy at work.
pub struct Controller {
    setup: Setup,
    shared: Arc<Shared>,
    spec: Spec,
    topology: Topology,
    /// `None`: the kernel alone decides.
    policy: Option<Box<dyn Policy + Send>>,
    decisions: Decisions,
    levers: Levers,
    watcher: Watcher,
    counted: Vec<Counted>,
    /// By core: what is to be had there in the place of what a policy wants.
    held: Vec<Held>,
    begun: Nanos,
    watched: Nanos,
    read: Nanos,
    steps: u64,
    rescued: u64,
}

/// Cores by number, from 0 on, and chains as NFs: what a policy knows.
fn topology(setup: &Setup, spec: &Spec) -> Result<(Topology, Vec<String>), LeverError> {
    let mut known: Vec<Option<usize>> = Vec::new();
    let mut core_of = |core: Option<usize>| match known.iter().position(|k| *k == core) {
        Some(at) => at,
        None => {
            known.push(core);
            known.len() - 1
        }
    };
    let Shape { places, .. } = setup.plan.shape;
    let nfs: Vec<NfSpec> = (setup.cores.iter())
        .zip(&setup.priorities)
        .map(|(core, priority)| NfSpec {
            core: core_of(*core),
            priority: (*priority).max(1),
            capacity: places,
        })
        .collect();
    let mut chains: Vec<Vec<usize>> = setup.ways.iter().map(|w| w.nfs.clone()).collect();
    let mut names: Vec<String> = setup.ways.iter().map(|w| w.name.clone()).collect();
    if spec.merges_chains() {
        merge(&mut chains, &mut names);
    }
    // functions that nothing enters, as far as is known
    let rest: Vec<usize> = (0..nfs.len())
        .filter(|n| chains.iter().all(|c| !c.contains(n)))
        .collect();
    if !rest.is_empty() {
        chains.push(rest);
        names.push("(nothing enters)".to_string());
    }
    Ok((Topology::new(known.len(), nfs, chains)?, names))
}

/// Chains that share an NF become one: the first one's order, and what others have besides.
fn merge(chains: &mut Vec<Vec<usize>>, names: &mut Vec<String>) {
    let mut at = 0;
    // Bound: each round takes a chain away, or goes on to the next one
    while at < chains.len() {
        let own = chains.get(at).cloned().unwrap_or_default();
        let later = chains.iter().skip(at + 1);
        let other = later
            .clone()
            .position(|c| c.iter().any(|n| own.contains(n)));
        match other {
            None => at += 1,
            Some(n) => {
                let other = chains.remove(at + 1 + n);
                names.remove(at + 1 + n);
                if let Some(c) = chains.get_mut(at) {
                    c.extend(other.into_iter().filter(|n| !own.contains(n)));
                }
            }
        }
    }
}

impl Controller {
    /// A policy begins. Also gives what is to be said of it: what this kernel cannot do.
    ///
    /// # Errors
    /// The policy does not fit the chain, or the system refuses a lever.
    pub fn new(
        setup: Setup,
        shared: Arc<Shared>,
        spec: &Spec,
    ) -> Result<(Controller, Vec<String>), LeverError> {
        let (topology, _) = topology(&setup, spec)?;
        let nfs = setup.names.len();
        let mut new = Controller {
            watcher: Watcher::new(&setup.region, &setup.plan, &setup.ways),
            levers: Levers::new(&setup.region, setup.names.clone()),
            decisions: Decisions::new(&topology),
            counted: (0..nfs).map(|_| Counted::default()).collect(),
            held: Vec::new(),
            policy: None,
            spec: spec.clone(),
            topology,
            setup,
            shared,
            begun: sys::now(),
            watched: 0,
            read: 0,
            steps: 0,
            rescued: 0,
        };
        let said = new.change(spec)?;
        Ok((new, said))
    }

    /// Another policy takes the place of the one that there is; where it cannot, that one goes on.
    ///
    /// # Errors
    /// As [`Controller::new`].
    pub fn change(&mut self, spec: &Spec) -> Result<Vec<String>, LeverError> {
        let (topology, names) = topology(&self.setup, spec)?;
        let made = match spec.is_kernel() {
            true => None,
            false => Some(spec.build(&topology, &names)?),
        };
        let house = self.setup.housekeeping;
        let on_house = (self.setup.cores.iter()).position(|c| c.is_some() && *c == house);
        if let (Some(core), Some(nf)) = (house, on_house)
            && spec.is_real_time()
            && !spec.goes_without_real_time()
        {
            return Err(LeverError::Housekeeping {
                function: self.setup.names.get(nf).cloned().unwrap_or_default(),
                core,
            });
        }
        self.levers.undo();
        self.shared.admit_all();
        let (policy, decisions) = match made {
            Some((policy, first)) => (Some(policy), first),
            None => (None, Decisions::new(&topology)),
        };
        let mut remarks = Vec::new();
        if policy.is_some() {
            let folder = self.setup.folder.clone();
            let begun = self
                .levers
                .begin(&topology, &decisions, spec.has_shares(), &folder);
            if let Err(e) = begun {
                self.levers.undo();
                return Err(e);
            }
            remarks = Kernel::ask().remarks(&decisions, spec.is_real_time());
            if let Some(nf) = on_house.filter(|_| spec.is_real_time()) {
                remarks.push(format!(
                    "{} is on the launcher's core: functions there are not in real time",
                    self.setup.names.get(nf).map_or("a function", |n| n)
                ));
            }
        }
        self.held = vec![Held::No; topology.cores()];
        let core = on_house
            .and_then(|nf| topology.nfs().get(nf))
            .map(|n| n.core);
        if let Some(held) = core.and_then(|c| self.held.get_mut(c)) {
            *held = Held::Fair;
        }
        (self.policy, self.decisions, self.topology) = (policy, decisions, topology);
        self.spec = spec.clone();
        Ok(remarks)
    }

    /// The policy, as it was written.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// How often it wants to look, in ns.
    pub fn period(&self) -> Nanos {
        let period = self.policy.as_ref().map_or(USAGE, |p| p.period());
        // class and starvation are looked at more often than a baseline asks
        period.clamp(
            MICROSECOND,
            if self.policy.is_some() { WATCH } else { USAGE },
        )
    }

    /// The first lever that the system has refused since this was asked last.
    pub fn take_refused(&mut self) -> Option<LeverError> {
        self.levers.take_refused()
    }

    /// Looks, decides, and pulls levers. Allocates nothing, but where a process is new; waits for nobody. True:
    /// somebody who did not let others run was given turns.
    pub fn step(&mut self, now: Nanos) -> bool {
        self.steps += 1;
        let wanted = self.policy.as_ref().map_or(Wanted::default(), |p| Wanted {
            chains: p.sees_chains(),
            ways: p.sees_ways(),
        });
        let nfs = self.watcher.look(&self.shared, now, wanted);
        if let Some(policy) = &mut self.policy {
            // the observation is of the same topology
            let _ = policy.decide(&Observation { now, nfs }, &mut self.decisions);
            self.shared.admit(&self.decisions);
            let shared = &self.shared;
            self.levers.apply(
                &self.topology,
                &self.decisions,
                |nf| shared.pid(nf),
                &self.held,
            );
        }
        let mut rescued = false;
        if now.saturating_sub(self.watched) >= WATCH {
            self.watched = now;
            rescued = self.rescue(now);
        }
        if now.saturating_sub(self.read) >= USAGE {
            let passed = now.saturating_sub(self.read);
            self.read = now;
            self.usage(now, passed);
        }
        rescued
    }

    /// Where functions run until they sleep ([`Class::Fifo`]) and one of them starves, all of its core have turns from
    /// now on.
    fn rescue(&mut self, now: Nanos) -> bool {
        let mut rescued = false;
        for (nf, (c, v)) in self
            .counted
            .iter_mut()
            .zip(self.watcher.views())
            .enumerate()
        {
            let waits = v.input.occupancy > 0 && v.runnable;
            if !waits || v.done != c.progress.1 {
                c.progress = (now, v.done);
                continue;
            }
            let levers = self.decisions.nfs.get(nf);
            let fifo = self.policy.is_some()
                && levers.is_some_and(|l| l.class == Class::Fifo && !l.relinquish);
            let core = self.topology.nfs().get(nf).map_or(0, |n| n.core);
            let kernel = self.decisions.cores.get(core) == Some(&CorePlan::Kernel);
            let Some(held) = self.held.get_mut(core).filter(|h| **h == Held::No) else {
                continue;
            };
            let long = now.saturating_sub(c.progress.0) >= STARVED;
            if fifo && kernel && long && self.topology.on_core(core).len() > 1 {
                *held = Held::Turns;
                rescued = true;
                self.rescued += 1;
            }
        }
        rescued
    }

    /// What the kernel has counted.
    fn usage(&mut self, now: Nanos, passed: Nanos) {
        for (nf, c) in self.counted.iter_mut().enumerate() {
            let pid = self.shared.pid(nf);
            if pid != c.pid {
                c.before = c.before.plus(c.last);
                (c.pid, c.last) = (pid, Usage::default());
                c.counters = (pid != 0).then(|| Counters::open(pid).ok()).flatten();
            }
            if let Some(read) = c.counters.as_ref().and_then(Counters::read) {
                c.last = read;
            }
            c.figures.wasted = self.watcher.wasted(nf);
            c.figures.shares = self.decisions.nfs.get(nf).map_or(0, |n| n.shares);
        }
        for core in 0..self.topology.cores() {
            self.withheld(core, passed);
        }
        for c in &mut self.counted {
            c.figures.usage = c.before.plus(c.last);
        }
        // who asks has it for a moment only; there is a next time
        if let Ok(mut f) = self.shared.figures.try_lock() {
            for (to, c) in f.nfs.iter_mut().zip(&self.counted) {
                *to = c.figures;
            }
            f.elapsed = now.saturating_sub(self.begun);
            (f.steps, f.pulled, f.rescued) = (self.steps, self.levers.pulled, self.rescued);
        }
    }

    /// Was a core withheld from its functions, although they are of real time and were to run?
    fn withheld(&mut self, core: usize, passed: Nanos) {
        let fair = self.held.get(core) == Some(&Held::Fair);
        if self.policy.is_none() || !self.spec.is_real_time() || fair {
            return;
        }
        let (mut ran, mut awake) = (0, 0);
        let here = || self.topology.on_core(core).iter();
        for nf in here() {
            if let Some(c) = self.counted.get(*nf) {
                // what was told the last time is in the figures still
                let new = c.before.plus(c.last).since(c.figures.usage);
                ran += new.run;
                awake = awake.max(new.run + new.wait);
            }
        }
        let rest = passed.saturating_sub(ran);
        // somebody was to run all of the time, and for a part of it nobody did
        if rest < WITHHELD || awake + WITHHELD / 2 < passed {
            return;
        }
        for nf in here() {
            if let Some(c) = self.counted.get_mut(*nf) {
                c.figures.throttled += 1;
                c.figures.throttled_ns += rest;
            }
        }
    }

    /// Sleeps until it is time for the next look; at most a quarter of the time is this thread's.
    pub fn pause(&self, begun: Nanos) {
        let now = sys::now();
        let took = now.saturating_sub(begun);
        let asked = self.policy.as_ref().map_or(0, |p| p.rests()).min(WATCH);
        let next = begun.saturating_add(self.period().max(asked));
        // a look during which others had the core took no longer for that
        let rest = (3 * took.min(LONGEST_LOOK)).max(LEAST_PAUSE);
        sys::sleep_until(next.max(now + rest));
    }

    /// The last figures are read, and all levers are put back.
    pub fn end(mut self) {
        let now = sys::now();
        self.watcher.look(&self.shared, now, Wanted::default());
        let passed = now.saturating_sub(self.read);
        self.usage(now, passed);
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.shared.admit_all();
        self.levers.undo();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_that_share_a_function_become_one() {
        let mut chains = vec![vec![0, 1], vec![3], vec![1, 0], vec![2, 3], vec![1, 5]];
        let mut names: Vec<String> = ["a", "b", "c", "d", "e"].map(String::from).to_vec();
        merge(&mut chains, &mut names);
        assert_eq!(chains, [vec![0, 1, 5], vec![3, 2]]);
        assert_eq!(names, ["a", "b"]);
    }
}
