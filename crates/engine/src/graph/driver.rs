//! Running a graph on its own, as Click's driver does: tasks, timers and stop requests, until it is asked to stop.

use crate::graph::core::Core;
use crate::graph::reference::Graph;
use crate::graph::run::TaskTurn;
use onefold_element::{ElemId, Outbox, StateStore};
use onefold_packet::Timestamp;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Task turns between two looks at timers and signals.
const TURNS: u32 = 129;
/// Virtual time that one turn of a task takes, so that timers come up while tasks are busy.
const TURN_TIME: Timestamp = Timestamp(1_000);
/// Virtual time that passes at a time while tasks wait for nothing but time.
const POLL_TIME: Timestamp = Timestamp(100_000);
/// Longest real-time sleep, so that signals are seen.
const NAP: Duration = Duration::from_millis(20);
/// Steps that a driver script may take at one stop request.
const DRIVER_STEPS: u32 = 1000;

/// How [`Graph::run_driver`] runs.
#[derive(Default)]
pub struct DriverOptions<'a> {
    /// The clock follows real time; else it is virtual and jumps to the next timer when there is nothing to do.
    pub real_time: bool,
    /// Set from outside (a signal) to end the run.
    pub interrupt: Option<&'a AtomicBool>,
    /// Virtual time at which the run ends at the latest.
    pub until: Option<Timestamp>,
    /// Something to be done before every round: lets live ports push what has arrived. True if anything had.
    #[allow(clippy::type_complexity)]
    pub ports: Option<&'a mut dyn FnMut(&mut Graph) -> bool>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// An element, a script or a handler asked for it.
    Stopped,
    /// From outside.
    Interrupted,
    /// The end of the time given.
    TimeUp,
    /// No task, no timer and no live port is left: nothing can happen any more.
    NothingLeft,
}

impl Core {
    /// The run has been asked to stop: lets the driver script decide. True if it stops.
    pub fn verify_stop(&mut self, out: &mut Outbox, store: &mut StateStore) -> bool {
        self.stop_flag = false;
        if self.run_count > 0 {
            return false;
        }
        if let Some(d) = self.driver {
            for _ in 0..DRIVER_STEPS {
                let mark = out.effects.len();
                self.steps = 0;
                let plain = self.with(d, out, store, |e, cx| e.driver_step(cx));
                self.settle(d, mark, out, store);
                self.run_late(out, store);
                if plain != Some(true) || self.run_count > 0 {
                    break;
                }
            }
        }
        self.stop_flag = self.run_count <= 0;
        self.stop_flag
    }
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Timestamp(since.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)))
}

impl Graph {
    /// Runs until the graph is asked to stop and its driver script, if it has one, does not object; or until nothing can
    /// happen any more.
    pub fn run_driver(&mut self, mut options: DriverOptions<'_>) -> Ended {
        let origin = (Instant::now(), self.core.now);
        loop {
            if options.interrupt.is_some_and(|i| i.load(Ordering::Relaxed)) {
                return Ended::Interrupted;
            }
            if self.core.stop_flag && self.core.verify_stop(&mut self.out, &mut self.store) {
                return Ended::Stopped;
            }
            if options.until.is_some_and(|t| self.core.now >= t) {
                return Ended::TimeUp;
            }
            if options.real_time {
                let passed = i64::try_from(origin.0.elapsed().as_nanos()).unwrap_or(i64::MAX);
                self.core.now = self.core.now.max(origin.1 + Timestamp(passed));
            }
            let mut worked = match options.ports.as_mut() {
                Some(f) => f(self),
                None => false,
            };
            let (out, store) = (&mut self.out, &mut self.store);
            let mut idle = true;
            for _ in 0..TURNS {
                if self.core.stop_flag {
                    break;
                }
                self.core.steps = 0;
                let turn = self.core.run_one_task(out, store);
                if !options.real_time && turn == TaskTurn::Worked {
                    self.core.now = self.core.now + TURN_TIME;
                }
                match turn {
                    TaskTurn::Worked => {
                        worked = true;
                        idle = false;
                    }
                    TaskTurn::Nothing => {
                        idle = false;
                        if self.core.run_list.len() <= 1 {
                            break;
                        }
                    }
                    TaskTurn::Idle => break,
                }
            }
            self.core.steps = 0;
            let fired = self.core.run_timers(64, out, store);
            if worked || fired > 0 || self.core.stop_flag {
                continue;
            }
            let next = self.core.timers.next();
            if options.real_time {
                if idle {
                    let wait = next.map_or(Timestamp::MAX, |t| t - self.core.now);
                    let wait = Duration::from_nanos(wait.nanos().max(0).unsigned_abs());
                    if next.is_none() && options.ports.is_none() && options.interrupt.is_none() {
                        return Ended::NothingLeft;
                    }
                    std::thread::sleep(wait.min(NAP));
                }
                continue;
            }
            // virtual time: to the next event
            let until = options.until.unwrap_or(Timestamp::MAX);
            let soon = self.core.now + POLL_TIME;
            self.core.now = match (next, idle) {
                (Some(t), true) => t.min(until).max(self.core.now),
                (Some(t), false) => t.min(soon).min(until).max(self.core.now),
                (None, false) => soon.min(until),
                (None, true) if options.ports.is_some() => soon.min(until),
                (None, true) => return Ended::NothingLeft,
            };
        }
    }

    /// The present real time, to start a clock from.
    pub fn wall_clock() -> Timestamp {
        wall_clock()
    }

    /// Runs tasks and timers that are due at the present time until nothing more happens.
    pub fn settle(&mut self) {
        self.core.steps = 0;
        self.core.quiesce(&mut self.out, &mut self.store);
    }

    /// Takes out every packet that elements still hold and counts it as dropped, for the end of an account.
    pub fn drain_held(&mut self) -> usize {
        let mut n = 0;
        for i in 0..self.len() as u32 {
            let (out, store) = (&mut self.out, &mut self.store);
            let held = self.core.with(i, out, store, |e, cx| e.drain_held(cx));
            for p in held.into_iter().flatten() {
                n += 1;
                self.out.drop(ElemId(i), "held at the end", p);
            }
        }
        for p in self.store.drain_held() {
            n += 1;
            self.out.drop(ElemId(u32::MAX), "held at the end", p);
        }
        n
    }
}
