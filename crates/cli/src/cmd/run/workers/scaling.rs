//! How many threads have groups: loads are looked at twice a second, and groups are moved by what follows from them
//! ([`Scaler`]), or by hand.

use super::count::ScalingArg;
use super::thread::{Meter, Metered, Order};
use crate::control::PATIENCE;
use anyhow::{Context, Result};
use onefold_runtime::scaling::{Decision, Kind, Move, Sample, Scaler};
use onefold_runtime::{Ending, Sender};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Events that are kept for who asks.
const EVENTS: usize = 64;

/// Groups have moved.
#[derive(Debug, Clone)]
struct Event {
    /// Seconds since the beginning.
    at: f64,
    what: Move,
    by_hand: bool,
    /// For how long nobody had the groups.
    gap: Duration,
    /// From the decision until the new worker had them.
    took: Duration,
}

struct State {
    scaler: Scaler,
    /// Its workers are as many as somebody has said.
    by_hand: bool,
    /// By thread, as of the last sample.
    before: Vec<Metered>,
    /// By kind: how often.
    splits: u64,
    merges: u64,
    balances: u64,
    /// The longest for which nobody had a group.
    longest_gap: Duration,
    events: VecDeque<Event>,
    stopped: bool,
}

/// See the module's text.
pub struct Scaling {
    state: Mutex<State>,
    /// Ends the wait between two samples.
    changed: Condvar,
    threads: Vec<(Sender<Order>, Arc<Meter>)>,
    ending: Arc<Ending>,
    /// As on the command line.
    range: (usize, usize),
    every: Duration,
    begun: Instant,
    quiet: bool,
}

/// The thread that looks at loads; it ends when this is dropped.
pub struct Looking {
    scaling: Arc<Scaling>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.scaling.state().stopped = true;
        self.scaling.changed.notify_all();
        if let Some(t) = self.thread.take() {
            let _ = t.join();
        }
    }
}

fn list(groups: &[usize]) -> String {
    let all: Vec<String> = groups.iter().map(usize::to_string).collect();
    all.join(", ")
}

impl Scaling {
    /// Of so many groups, among these threads, as `range` says.
    pub fn new(
        range: (usize, usize),
        groups: usize,
        threads: Vec<(Sender<Order>, Arc<Meter>)>,
        ending: Arc<Ending>,
        (how, quiet): (ScalingArg, bool),
    ) -> Scaling {
        let state = State {
            scaler: Scaler::new(how.limits, range, groups),
            by_hand: false,
            before: vec![Metered::default(); threads.len()],
            splits: 0,
            merges: 0,
            balances: 0,
            longest_gap: Duration::ZERO,
            events: VecDeque::new(),
            stopped: false,
        };
        Scaling {
            state: Mutex::new(state),
            changed: Condvar::new(),
            threads,
            ending,
            range,
            every: how.every,
            begun: Instant::now(),
            quiet,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By group: the thread that has it.
    pub fn map(&self) -> Vec<usize> {
        self.state().scaler.map().to_vec()
    }

    /// Looks at loads from now on.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn look(self: Arc<Scaling>) -> Result<Looking> {
        let scaling = Arc::clone(&self);
        let thread = std::thread::Builder::new().name("scaling".to_string());
        let thread = thread.spawn(move || scaling.go_on());
        Ok(Looking {
            scaling: self,
            thread: Some(thread.context("a thread for scaling")?),
        })
    }

    fn go_on(&self) {
        let mut next = Instant::now() + self.every;
        let mut state = self.state();
        loop {
            if state.stopped || self.ending.is_asked() {
                return;
            }
            let left = next.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            next += self.every;
            // who has slept too long does not look twice
            next = next.max(Instant::now() + self.every / 2);
            self.sample(&mut state);
        }
    }

    fn sample(&self, state: &mut State) {
        let now: Vec<Metered> = self.threads.iter().map(|t| t.1.read()).collect();
        let before = std::mem::replace(&mut state.before, now);
        let now = &state.before;
        let busy = now.iter().zip(&before).map(|(n, b)| {
            let time = n.load.elapsed.saturating_sub(b.load.elapsed);
            let busy = n.load.busy.saturating_sub(b.load.busy);
            (!time.is_zero()).then(|| busy.as_secs_f64() / time.as_secs_f64())
        });
        // a group that has moved is in two of them: the later one has more
        let spent = |all: &[Metered], g: usize| {
            let of = all.iter().flat_map(|m| &m.groups).filter(|x| x.0 == g);
            of.map(|x| x.1).max().unwrap_or_default()
        };
        let groups = 0..state.scaler.map().len();
        let cost = groups.map(|g| {
            spent(now, g)
                .saturating_sub(spent(&before, g))
                .as_secs_f64()
        });
        let sample = Sample {
            busy: busy.collect(),
            cost: cost.collect(),
        };
        for d in state.scaler.sample(&sample) {
            match d {
                Decision::Move(m) => {
                    // a run that ends has no more use for it
                    if self.carry_out(state, m, false).is_err() {
                        return;
                    }
                }
                Decision::Undividable { worker, group } if !self.quiet => eprintln!(
                    "scaling: worker {worker} is overloaded, by group {group} alone: a group is not divided"
                ),
                Decision::Undividable { .. } => {}
            }
        }
    }

    /// Has groups moved.
    fn carry_out(&self, state: &mut State, m: Move, by_hand: bool) -> Result<()> {
        let begun = Instant::now();
        let (reply, answer) = sync_channel(1);
        let (Some((from, _)), Some((to, _))) = (self.threads.get(m.from), self.threads.get(m.to))
        else {
            anyhow::bail!("there is no such worker");
        };
        from.send(Order::Give {
            groups: m.groups.clone(),
            to: to.clone(),
            reply,
        })?;
        let gap = answer.recv_timeout(PATIENCE)?;
        let took = begun.elapsed();
        match m.kind {
            Kind::Split => state.splits += 1,
            Kind::Merge => state.merges += 1,
            Kind::Balance => state.balances += 1,
        }
        state.longest_gap = state.longest_gap.max(gap);
        if !self.quiet {
            eprintln!(
                "scaling: {}{}: groups {} go from worker {} ({:.0}% busy) to worker {} ({:.0}%), in {:.2} ms",
                m.kind.name(),
                if by_hand { " by hand" } else { "" },
                list(&m.groups),
                m.from,
                m.load.0 * 100.0,
                m.to,
                m.load.1 * 100.0,
                took.as_secs_f64() * 1e3,
            );
        }
        if state.events.len() >= EVENTS {
            state.events.pop_front();
        }
        state.events.push_back(Event {
            at: self.begun.elapsed().as_secs_f64(),
            what: m,
            by_hand,
            gap,
            took,
        });
        Ok(())
    }

    /// So many workers from now on, whatever the load is; `None`: as many as it needs. How it stands then.
    ///
    /// # Errors
    /// When there are not so many, or the run ends.
    pub fn by_hand(&self, workers: Option<usize>) -> Result<Value> {
        let most = self.threads.len();
        if let Some(n) = workers.filter(|n| *n == 0 || *n > most) {
            anyhow::bail!("{n} workers: this run has from 1 to {most}");
        }
        let mut state = self.state();
        let range = workers.map_or(self.range, |n| (n, n));
        let moves = state.scaler.set_range(range);
        state.by_hand = workers.is_some();
        for m in moves {
            self.carry_out(&mut state, m, true)
                .context("the run ends")?;
        }
        drop(state);
        Ok(self.json())
    }

    /// As documented in docs/json.md.
    pub fn json(&self) -> Value {
        let state = self.state();
        let range = self.range;
        let event = |e: &Event| {
            json!({
                "seconds": e.at,
                "kind": e.what.kind.name(),
                "by_hand": e.by_hand,
                "from": e.what.from,
                "to": e.what.to,
                "groups": e.what.groups,
                "load": { "from": e.what.load.0, "to": e.what.load.1 },
                "gap_seconds": e.gap.as_secs_f64(),
                "took_seconds": e.took.as_secs_f64(),
            })
        };
        json!({
            "workers": { "least": range.0, "most": range.1, "active": state.scaler.active() },
            "by_hand": state.by_hand,
            "groups": state.scaler.map(),
            "splits": state.splits,
            "merges": state.merges,
            "balances": state.balances,
            "longest_gap_seconds": state.longest_gap.as_secs_f64(),
            "events": state.events.iter().map(event).collect::<Vec<_>>(),
        })
    }

    /// `workers[]`, by thread; `packets`: of each group, what it took, sent and dropped.
    pub fn workers_json(&self) -> Vec<Value> {
        let state = self.state();
        let one = |(i, (m, average)): (usize, (Metered, f64))| {
            let l = m.load;
            json!({
                "worker": i,
                "core": m.core,
                "groups": m.groups.iter().map(|g| g.0).collect::<Vec<_>>(),
                "packets_in": l.packets,
                "cpu_seconds": m.cpu_seconds,
                "elapsed_seconds": l.elapsed.as_secs_f64(),
                "busy_seconds": l.busy.as_secs_f64(),
                "load": l.busy.as_secs_f64() / l.elapsed.as_secs_f64().max(1e-9),
                "load_average": average,
                "batches": l.batches,
                "batch_packets": l.packets as f64 / l.batches.max(1) as f64,
                "batch_ns": { "p50": l.batch_ns_p50, "p99": l.batch_ns_p99 },
            })
        };
        let all = self.threads.iter().map(|t| t.1.read());
        all.zip(state.scaler.loads()).enumerate().map(one).collect()
    }
}
