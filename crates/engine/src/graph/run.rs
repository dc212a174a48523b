//! Running: tasks, timers, quiescence.

use crate::graph::core::Core;
use crate::graph::limits;
use crate::graph::trace::Entry;
use onefold_element::{Outbox, StateStore, TaskStatus};
use onefold_packet::Timestamp;

/// What a turn of the task list did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskTurn {
    /// No task wants to run.
    Idle,
    /// A task ran and did nothing.
    Nothing,
    /// A task ran and did something.
    Worked,
}

impl Core {
    /// A number that grows with whatever happens.
    fn work_done(&self, out: &Outbox) -> u64 {
        self.steps + self.activity + out.created + out.dropped + out.sent
    }

    /// Lets the next task have its turn.
    pub fn run_one_task(&mut self, out: &mut Outbox, store: &mut StateStore) -> TaskTurn {
        let Some(node) = self.run_list.begin() else {
            return TaskTurn::Idle;
        };
        let before = self.work_done(out);
        let ingress = self.ingress.take();
        let mut again = false;
        for _ in 0..limits::TASK_BURST {
            let mark = out.effects.len();
            let traced = self.trace_begin(node, Entry::Task, None, out);
            let status = self.with(node, out, store, |e, cx| e.run_task(cx));
            self.trace_end(traced, None, mark, out);
            self.settle(node, mark, out, store);
            match status {
                Some(TaskStatus::Again) if self.steps <= limits::MAX_STEPS => continue,
                Some(TaskStatus::Again | TaskStatus::Reschedule) => again = true,
                Some(TaskStatus::Sleep) | None => {}
            }
            break;
        }
        self.run_late(out, store);
        self.ingress = ingress;
        let worked = self.work_done(out) != before;
        self.run_list.end(again, worked);
        match worked {
            true => TaskTurn::Worked,
            false => TaskTurn::Nothing,
        }
    }

    /// Fires timers that are due, at most `limit`; says how many fired.
    pub fn run_timers(&mut self, limit: u32, out: &mut Outbox, store: &mut StateStore) -> u32 {
        let mut fired = 0;
        let ingress = self.ingress.take();
        while fired < limit && !self.stop_flag {
            let Some((node, timer)) = self.timers.take_due(self.now) else {
                break;
            };
            fired += 1;
            self.activity += 1;
            let mark = out.effects.len();
            let traced = self.trace_begin(node, Entry::Timer, None, out);
            self.with(node, out, store, |e, cx| e.run_timer(timer, cx));
            self.trace_end(traced, None, mark, out);
            self.settle(node, mark, out, store);
            self.run_late(out, store);
        }
        self.ingress = ingress;
        fired
    }

    /// Does nothing wait to be done at this time? Then [`Core::quiesce`] would do nothing.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.late.is_empty()
            && self.late_calls.is_empty()
            && self.run_list.len() == 0
            && self.timers.next().is_none_or(|t| t > self.now)
    }

    /// Would nothing happen before the clock stands at `at`, nor then?
    pub fn is_quiet_until(&self, at: Timestamp) -> bool {
        self.is_quiet() && self.timers.next().is_none_or(|t| t > at)
    }

    /// Runs tasks and due timers until nothing more happens at this time. False when the budget ran out first.
    pub fn quiesce(&mut self, out: &mut Outbox, store: &mut StateStore) -> bool {
        let mut turns = match self.overruns {
            0 => limits::TASK_TURNS,
            _ => limits::TASK_TURNS_RUNAWAY,
        };
        let mut timers = limits::TIMERS;
        self.run_late(out, store);
        loop {
            // as many turns without work as there are tasks: nothing more to do
            let mut fruitless = 0;
            while fruitless < self.run_list.len() && !self.stop_flag {
                let tasks = self.run_list.len();
                if turns == 0 {
                    self.overruns += 1;
                    return false;
                }
                turns -= 1;
                match self.run_one_task(out, store) {
                    TaskTurn::Worked => fruitless = 0,
                    // one that went to sleep is no longer among those that must have had their turn
                    TaskTurn::Nothing if self.run_list.len() < tasks => {}
                    TaskTurn::Nothing => fruitless += 1,
                    TaskTurn::Idle => break,
                }
            }
            let fired = self.run_timers(timers, out, store);
            timers -= fired;
            if fired == 0 {
                return true;
            }
            if timers == 0 {
                self.overruns += 1;
                return false;
            }
        }
    }

    /// Moves the clock to `at` (never back), running whatever is due on the way.
    pub fn advance(&mut self, at: Timestamp, out: &mut Outbox, store: &mut StateStore) {
        // Bound: a timer that sets itself again for the same moment is stopped by the budget of `quiesce`.
        let mut fired = 0;
        while let Some(t) = self.timers.next().filter(|t| *t <= at) {
            if self.stop_flag || fired >= limits::TIMERS {
                break;
            }
            fired += 1;
            self.steps = 0;
            self.now = self.now.max(t);
            if !self.quiesce(out, store) {
                break;
            }
        }
        self.now = self.now.max(at);
    }
}
