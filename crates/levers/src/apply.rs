//! Pulls the levers, those that have changed.

use crate::LeverError;
use crate::group::{self, Groups};
use crate::quantum::{self, Quantum};
use crate::sys::{self, Attributes, Class as Kernels};
use onefold_nf::native::OwnBell;
use onefold_nf::{Orders, Region, WhenFull};
use onefold_sched::{Class, CorePlan, Decisions, MILLISECOND, NfLevers, Topology};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Real-time priority of functions that are not to run at present.
const LOW: u32 = 1;
/// Of the one that is.
const HIGH: u32 = 2;

/// What is to be had on a core in the place of what a policy wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// What it wants.
    No,
    /// Turns, where it wants functions to run until they sleep: one did not let others run.
    Turns,
    /// The fair class, where it wants real time: the launcher is executed there, too.
    Fair,
}

/// What was done to a process.
#[derive(Debug, Clone, Copy, Default)]
struct Applied {
    /// 0: there is none.
    pid: u32,
    attributes: Option<Attributes>,
    shares: u32,
    told: Option<NfLevers>,
}

/// All levers of a chain's processes.
#[derive(Debug)]
pub struct Levers {
    region: Arc<Region>,
    names: Vec<String>,
    bells: Vec<OwnBell>,
    /// As processes are in the beginning: as their launcher is.
    home: Attributes,
    applied: Vec<Applied>,
    /// By core: the NF that is to run.
    chosen: Vec<Option<usize>>,
    groups: Option<Groups>,
    quantum: Option<Quantum>,
    /// The first one that was refused since somebody asked.
    refused: Option<LeverError>,
    /// Levers that were pulled.
    pub pulled: u64,
}

impl Levers {
    /// Of these processes, by name; nothing is pulled yet.
    pub fn new(region: &Arc<Region>, names: Vec<String>) -> Levers {
        let bells = (1..=names.len() as u32).map(|n| OwnBell::of(region.clone(), n));
        Levers {
            bells: bells.collect(),
            applied: vec![Applied::default(); names.len()],
            chosen: Vec::new(),
            names,
            region: region.clone(),
            home: sys::attributes(std::process::id()).unwrap_or(Attributes::DEFAULT),
            groups: None,
            quantum: None,
            refused: None,
            pulled: 0,
        }
    }

    /// A policy begins: groups are made if it wants `shares`, and the system's quantum is set if it wants turns.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn begin(
        &mut self,
        topology: &Topology,
        d: &Decisions,
        shares: bool,
        folder: &Path,
    ) -> Result<(), LeverError> {
        self.chosen = vec![None; topology.cores()];
        if shares {
            let h = group::hierarchy().ok_or(LeverError::NoGroups)?;
            self.groups = Some(Groups::create(&h, self.names.len()).map_err(LeverError::Groups)?);
        }
        let quanta = d.nfs.iter().filter_map(|n| match n.class {
            Class::RoundRobin { quantum } => Some(quantum.div_ceil(MILLISECOND).max(1)),
            _ => None,
        });
        if let Some(ms) = quanta.min()
            && quantum::get() != Some(ms)
        {
            self.quantum = Some(Quantum::set(ms, folder).map_err(LeverError::Quantum)?);
        }
        Ok(())
    }

    /// The first lever that was refused since this was asked last.
    pub fn take_refused(&mut self) -> Option<LeverError> {
        self.refused.take()
    }

    /// Pulls what has changed. `pids`: by NF; 0: there is no process. `held`: by core. Steps: the NFs and cores;
    /// nothing is allocated, but for an error.
    pub fn apply(
        &mut self,
        topology: &Topology,
        d: &Decisions,
        pids: impl Fn(usize) -> u32,
        held: &[Held],
    ) {
        for (nf, (wanted, spec)) in d.nfs.iter().zip(topology.nfs()).enumerate() {
            let pid = pids(nf);
            let Some(a) = self.applied.get_mut(nf) else {
                continue;
            };
            if a.pid != pid {
                // what it was told stays in the shared block
                let told = a.told;
                *a = Applied {
                    pid,
                    told,
                    ..Applied::default()
                };
                if let (Some(g), true) = (&self.groups, pid != 0)
                    && let Err(e) = g.join(nf, pid)
                    && e.raw_os_error() != Some(libc::ESRCH)
                {
                    self.refused.get_or_insert(LeverError::Groups(e));
                }
            }
            self.tell(nf, wanted);
            let only = match d.cores.get(spec.core) {
                Some(CorePlan::Only { nf, .. }) => Some(*nf),
                _ => None,
            };
            let held = held.get(spec.core).copied().unwrap_or(Held::No);
            self.schedule(
                nf,
                attributes(wanted, only.map(|o| o == nf), held),
                only.is_some(),
            );
            self.share(nf, wanted.shares);
        }
        for (core, plan) in d.cores.iter().enumerate() {
            self.choose(core, plan);
        }
    }

    /// What a process does by itself, if it is told to.
    fn tell(&mut self, nf: usize, wanted: &NfLevers) {
        let (Some(a), Some(block)) = (self.applied.get_mut(nf), self.region.nf(nf as u32 + 1))
        else {
            return;
        };
        let before = a.told.replace(*wanted);
        if before.is_some_and(|b| same_orders(&b, wanted)) {
            return;
        }
        give(block.orders(), wanted);
        self.pulled += 1;
        if before.is_some_and(|b| b.relinquish)
            && !wanted.relinquish
            && let Some(bell) = self.bells.get(nf)
        {
            bell.ring();
        }
    }

    /// Its class. Where a core has one that is to run, priorities are [`Levers::choose`]'s, and are set here only for a
    /// process that is new.
    fn schedule(&mut self, nf: usize, wanted: Attributes, chosen_by_priority: bool) {
        let Some(a) = self.applied.get_mut(nf).filter(|a| a.pid != 0) else {
            return;
        };
        let same = a.attributes.is_some_and(|is| {
            let priority = match chosen_by_priority {
                true => is.priority,
                false => wanted.priority,
            };
            is == Attributes { priority, ..wanted }
        });
        if same {
            return;
        }
        a.attributes = Some(wanted);
        self.pulled += 1;
        let done = sys::set_attributes(a.pid, wanted);
        self.check(nf, "setting its scheduling class", done);
    }

    fn share(&mut self, nf: usize, shares: u32) {
        let (Some(a), Some(g)) = (self.applied.get_mut(nf), &self.groups) else {
            return;
        };
        if a.shares == shares {
            return;
        }
        a.shares = shares;
        self.pulled += 1;
        if let Err(e) = g.set_shares(nf, shares) {
            self.refused.get_or_insert(LeverError::Groups(e));
        }
    }

    /// Who runs on a core: its priority goes up, and then that of who ran goes down.
    fn choose(&mut self, core: usize, plan: &CorePlan) {
        let wanted = match plan {
            CorePlan::Kernel => None,
            CorePlan::Only { nf, .. } => Some(*nf),
        };
        let before = self.chosen.get(core).copied().flatten();
        if wanted == before {
            return;
        }
        if let Some(c) = self.chosen.get_mut(core) {
            *c = wanted;
        }
        let both = [(wanted, HIGH), (before.filter(|_| wanted.is_some()), LOW)];
        for (nf, priority) in both {
            let Some(nf) = nf else { continue };
            let Some(a) = self.applied.get_mut(nf).filter(|a| a.pid != 0) else {
                continue;
            };
            let Some(is) = a.attributes.as_mut().filter(|is| is.priority != priority) else {
                continue;
            };
            is.priority = priority;
            self.pulled += 1;
            let done = sys::set_priority(a.pid, priority);
            self.check(nf, "setting its priority", done);
        }
    }

    /// A process that has ended meanwhile is not an error.
    fn check(&mut self, nf: usize, what: &'static str, done: std::io::Result<()>) {
        let Err(error) = done else { return };
        if error.raw_os_error() == Some(libc::ESRCH) || self.refused.is_some() {
            return;
        }
        self.refused = Some(LeverError::Schedule {
            function: self.names.get(nf).cloned().unwrap_or_default(),
            what,
            error,
        });
    }

    /// Everything is as it was before: processes are scheduled as their launcher is, in its control group, and do by
    /// themselves what they did.
    pub fn undo(&mut self) {
        for nf in 0..self.applied.len() {
            let Some(a) = self.applied.get_mut(nf) else {
                continue;
            };
            let was = std::mem::take(a);
            if was.pid != 0 {
                if was.attributes.is_some() {
                    // one that has ended is not scheduled at all
                    let _ = sys::set_attributes(was.pid, self.home);
                }
                if let Some(g) = &self.groups {
                    let _ = g.leave(was.pid);
                }
            }
            if let Some(block) = self.region.nf(nf as u32 + 1) {
                let o = block.orders();
                o.relinquish.store(0, Ordering::Relaxed);
                o.yield_after.store(0, Ordering::Relaxed);
                o.when_full.store(WhenFull::Block as u32, Ordering::Relaxed);
                o.mark_ecn.store(0, Ordering::Relaxed);
            }
            if let Some(bell) = self.bells.get(nf) {
                bell.ring();
            }
        }
        self.chosen.fill(None);
        (self.groups, self.quantum) = (None, None);
    }
}

impl Drop for Levers {
    fn drop(&mut self) {
        self.undo();
    }
}

fn same_orders(a: &NfLevers, b: &NfLevers) -> bool {
    let orders = |n: &NfLevers| {
        let full = (n.blocks_when_full, n.waits_by_way);
        (n.relinquish, n.yield_after, full, n.mark_ecn)
    };
    orders(a) == orders(b)
}

fn give(orders: &Orders, wanted: &NfLevers) {
    let full = match (wanted.blocks_when_full, wanted.waits_by_way) {
        (true, _) => WhenFull::Wait,
        (false, true) => WhenFull::ByWay,
        (false, false) => WhenFull::Drop,
    };
    let word = |on: bool| u32::from(on);
    orders
        .relinquish
        .store(word(wanted.relinquish), Ordering::Relaxed);
    orders
        .mark_ecn
        .store(word(wanted.mark_ecn), Ordering::Relaxed);
    orders.when_full.store(full as u32, Ordering::Relaxed);
    let after = wanted.yield_after.unwrap_or(0);
    orders.yield_after.store(after, Ordering::Relaxed);
}

/// What the kernel is told. `only`: is it the one that its core is to run, where there is one?
fn attributes(wanted: &NfLevers, only: Option<bool>, held: Held) -> Attributes {
    let real = |class, priority| Attributes {
        class,
        priority,
        ..Attributes::DEFAULT
    };
    if let Some(chosen) = only {
        return real(Kernels::RoundRobin, if chosen { HIGH } else { LOW });
    }
    let fair = |class, slice: u64| Attributes {
        class,
        nice: wanted.nice,
        priority: 0,
        slice: if slice == Class::KERNELS { 0 } else { slice },
        alone: false,
    };
    match wanted.class {
        Class::Normal { slice } => fair(Kernels::Normal, slice),
        Class::Batch { slice } => fair(Kernels::Batch, slice),
        Class::RoundRobin { .. } | Class::Fifo if held == Held::Fair => {
            fair(Kernels::Normal, Class::KERNELS)
        }
        Class::RoundRobin { .. } => real(Kernels::RoundRobin, LOW),
        Class::Fifo if held == Held::Turns => real(Kernels::RoundRobin, LOW),
        Class::Fifo => real(Kernels::Fifo, LOW),
    }
}
