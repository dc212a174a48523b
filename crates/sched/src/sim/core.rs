//! A core: who runs next, for how long, and what comes of it.

use super::{Hop, Simulator};
use crate::decision::{Class, CorePlan};
use crate::{MILLISECOND, Nanos};
use std::collections::VecDeque;

/// What polling in vain takes, in ns.
const POLL: Nanos = 500;
/// Who wakes up preempts where it is behind by more than this (ns of virtual run time).
const WAKE_UP: f64 = MILLISECOND as f64;

/// A core on its way through time.
#[derive(Debug)]
pub(super) struct Core {
    /// NFs in the order of chains.
    nfs: Vec<usize>,
    /// Runnable ones, the one that runs first. At most all of them.
    queue: VecDeque<usize>,
    current: Option<usize>,
    /// When what it does is done; `MAX`: nothing.
    pub until: Nanos,
    /// When work on the present batch began.
    begun: Nanos,
    /// How long the current one has had the core without a pause.
    used: Nanos,
    /// The current one has had as many batches as it wants.
    yields: bool,
}

impl Core {
    pub fn new(nfs: &[usize]) -> Core {
        Core {
            nfs: nfs.to_vec(),
            queue: VecDeque::with_capacity(nfs.len()),
            current: None,
            until: Nanos::MAX,
            begun: 0,
            used: 0,
            yields: false,
        }
    }

    /// Does it do nothing?
    pub fn is_free(&self) -> bool {
        self.until == Nanos::MAX
    }
}

impl Simulator {
    /// A core's batch is done.
    pub(super) fn finish(&mut self, core: usize) {
        let c = &mut self.cores[core];
        let took = c.until.saturating_sub(c.begun);
        (c.until, c.used) = (Nanos::MAX, c.used + took);
        let Some(nf) = c.current else { return };
        self.counters.nfs[nf].cpu += took;
        let lever = self.levers.nfs[nf];
        let n = &mut self.nfs[nf];
        n.fair += took as f64 * 1024.0 / f64::from(lever.shares.max(1));
        n.batches += 1;
        if lever.yield_after.is_some_and(|k| n.batches >= k) {
            self.cores[core].yields = true;
        }
        let mut batch = std::mem::take(&mut n.batch);
        for p in batch.drain(..) {
            self.nfs[nf].done += u64::from(p.number);
            self.counters.nfs[nf].done += u64::from(p.number);
            let c = &mut self.counters.chains[p.chain];
            match self.next[nf][p.chain] {
                Hop::Nf(to) => {
                    let lost = u64::from(self.put(to, p));
                    self.counters.chains[p.chain].wasted += lost;
                    self.counters.nfs[nf].wasted += lost;
                }
                Hop::Out | Hop::None => {
                    let latency = self.now.saturating_sub(p.born);
                    c.delivered += u64::from(p.number);
                    c.marked += u64::from(if p.marked { p.number } else { 0 });
                    c.latency_sum += u128::from(latency) * u128::from(p.number);
                    c.latency_most = c.latency_most.max(latency);
                }
            }
        }
        self.nfs[nf].batch = batch;
    }

    /// A core that does nothing begins a batch, where somebody is to run.
    pub(super) fn begin(&mut self, core: usize) {
        self.update_queue(core);
        let before = self.cores[core].current;
        let chosen = self.choose(core);
        let c = &mut self.cores[core];
        c.yields = false;
        if chosen != before {
            if let Some(b) = before {
                let n = &mut self.counters.nfs[b];
                match c.queue.contains(&b) {
                    true => n.involuntary += 1,
                    false => n.voluntary += 1,
                }
            }
            (c.current, c.used) = (chosen, 0);
            if let Some(n) = chosen {
                self.nfs[n].batches = 0;
            }
        }
        let Some(nf) = chosen else { return };
        let switch = if chosen == before { 0 } else { self.switch };
        let n = &mut self.nfs[nf];
        let number = n.input.take(n.model.batch, &mut n.batch);
        let cost = n.model.cost_at(self.now);
        let work = match number {
            0 => POLL,
            packets => {
                n.sample = Some(cost);
                cost * u64::from(packets)
            }
        };
        let c = &mut self.cores[core];
        c.begun = self.now + switch;
        c.until = c.begun + work;
    }

    /// Who has woken up is put at the end; who sleeps is taken out.
    fn update_queue(&mut self, core: usize) {
        for i in 0..self.cores[core].nfs.len() {
            let nf = self.cores[core].nfs[i];
            let is = self.is_runnable(nf);
            let at = self.cores[core].queue.iter().position(|q| *q == nf);
            match (is, at) {
                (true, None) => {
                    // it has slept, and has no claim to what it did not use
                    let others = self.cores[core].queue.iter().map(|q| self.nfs[*q].fair);
                    let least = others.fold(f64::INFINITY, f64::min);
                    if least.is_finite() {
                        self.nfs[nf].fair = self.nfs[nf].fair.max(least - WAKE_UP);
                    }
                    self.cores[core].queue.push_back(nf);
                }
                (false, Some(at)) => drop(self.cores[core].queue.remove(at)),
                _ => {}
            }
        }
    }

    /// Who is to run: the policy's choice, or the kernel's.
    fn choose(&mut self, core: usize) -> Option<usize> {
        if let CorePlan::Only { nf, .. } = self.levers.cores[core] {
            // the highest priority; asleep, others do not run in its place
            let here = self.cores[core].nfs.contains(&nf);
            return (here && self.is_runnable(nf)).then_some(nf);
        }
        let real_time = |s: &Simulator, nf: usize| {
            matches!(s.lever(nf).class, Class::RoundRobin { .. } | Class::Fifo)
        };
        let c = &self.cores[core];
        let current = c.current.filter(|n| c.queue.contains(n));
        let is_real_time = c.queue.iter().any(|n| real_time(self, *n));
        if is_real_time {
            let over = |nf: usize| match self.lever(nf).class {
                Class::RoundRobin { quantum } => c.used >= quantum,
                _ => false,
            };
            let stays = current.filter(|n| real_time(self, *n) && !c.yields && !over(*n));
            if stays.is_some() {
                return stays;
            }
            if let Some(nf) = current {
                let queue = &mut self.cores[core].queue;
                queue.retain(|q| *q != nf);
                queue.push_back(nf);
            }
            let queue = &self.cores[core].queue;
            return queue.iter().copied().find(|n| real_time(self, *n));
        }
        let fair = |nf: usize| self.nfs[nf].fair;
        let least = c
            .queue
            .iter()
            .copied()
            .min_by(|a, b| fair(*a).total_cmp(&fair(*b)));
        let (Some(current), Some(least)) = (current, least) else {
            return least;
        };
        let over = match self.lever(current).class {
            Class::Normal { slice } | Class::Batch { slice } => c.used >= slice,
            _ => true,
        };
        let wakes = matches!(self.lever(least).class, Class::Normal { .. });
        let preempted = wakes && fair(least) + WAKE_UP < fair(current);
        match over || preempted || c.yields {
            true => Some(least),
            false => Some(current),
        }
    }
}
