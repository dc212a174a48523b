//! Plans are made in a thread of their own, while packets go on.
//!
//! What takes milliseconds to seconds (synthesis, proof, structures) never happens between two batches of packets that
//! arrive by themselves: it is [started](Planner::start) with a copy of all that it needs, and [taken](Planner::take)
//! when it is done.

use rustix::process::setpriority_process;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;

/// How much nicer a thread is that makes plans: where it shares a processor with one that takes packets, it gets a
/// tenth of it (`sched(7)`, "The nice value").
const NICE: i32 = 10;

/// From now on the calling thread stands back behind those that take packets. It cannot be undone without privilege, so
/// this is for threads that end with their work.
pub fn stand_back() {
    // none is zero: the calling thread. Where the system does not want it, it has a usual thread's share
    let _ = setpriority_process(None, NICE);
}

/// The compile thread: one plan at a time.
#[derive(Debug)]
pub struct Planner<T> {
    under_way: Option<(Receiver<T>, JoinHandle<()>)>,
}

/// What has become of a plan.
#[derive(Debug, PartialEq, Eq)]
pub enum Planned<T> {
    /// None is being made.
    Idle,
    /// It is not done yet.
    Busy,
    /// Here it is.
    Made(T),
    /// The thread has ended without one: a defect in what makes it.
    Lost,
}

impl<T> Default for Planner<T> {
    fn default() -> Self {
        Planner { under_way: None }
    }
}

impl<T: Send + 'static> Planner<T> {
    /// Is one being made?
    pub fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// Makes one in a thread of its own, unless one is being made or no thread can be had: false then.
    pub fn start(&mut self, make: impl FnOnce() -> T + Send + 'static) -> bool {
        if self.is_busy() {
            return false;
        }
        let (done, made) = channel();
        let thread = std::thread::Builder::new().name("planner".into());
        let thread = thread.spawn(move || {
            // nobody waits any more when the run has ended
            let _ = done.send(make());
        });
        match thread {
            Ok(thread) => {
                self.under_way = Some((made, thread));
                true
            }
            Err(_) => false,
        }
    }

    /// The plan, if it is done.
    pub fn take(&mut self) -> Planned<T> {
        let Some((made, _)) = &self.under_way else {
            return Planned::Idle;
        };
        match made.try_recv() {
            Ok(plan) => self.end(Planned::Made(plan)),
            Err(TryRecvError::Empty) => Planned::Busy,
            Err(TryRecvError::Disconnected) => self.end(Planned::Lost),
        }
    }

    /// Waits for it: where packets wait, too.
    pub fn wait(&mut self) -> Planned<T> {
        let Some((made, _)) = &self.under_way else {
            return Planned::Idle;
        };
        match made.recv() {
            Ok(plan) => self.end(Planned::Made(plan)),
            Err(_) => self.end(Planned::Lost),
        }
    }

    fn end(&mut self, planned: Planned<T>) -> Planned<T> {
        if let Some((_, thread)) = self.under_way.take() {
            // it has nothing left to do; if it has panicked, it has said so
            let _ = thread.join();
        }
        planned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The calling thread's nice value (`proc_pid_stat(5)`, field 19).
    fn nice() -> i32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        // its name may have blanks
        let (_, rest) = stat.rsplit_once(") ").unwrap();
        rest.split(' ').nth(16).unwrap().parse().unwrap()
    }

    #[test]
    fn who_plans_stands_back_and_nobody_else() {
        let before = nice();
        let planner = std::thread::spawn(|| {
            stand_back();
            nice()
        });
        assert!(planner.join().unwrap() >= NICE.max(before));
        assert_eq!(nice(), before);
    }
    use std::sync::mpsc::sync_channel;

    #[test]
    fn packets_go_on_until_a_plan_is_made() {
        let mut p = Planner::default();
        assert_eq!(p.take(), Planned::Idle);
        let (go, wait) = sync_channel(0);
        assert!(p.start(move || {
            wait.recv().unwrap();
            7
        }));
        assert!(!p.start(|| 8), "one at a time");
        assert_eq!(p.take(), Planned::Busy);
        go.send(()).unwrap();
        assert_eq!(p.wait(), Planned::Made(7));
        assert_eq!(p.take(), Planned::Idle);
        assert!(p.start(|| 9));
        assert_eq!(p.wait(), Planned::Made(9));
    }

    #[test]
    fn a_thread_that_panics_is_told_of() {
        let mut p: Planner<u32> = Planner::default();
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        assert!(p.start(|| panic!("a defect")));
        assert_eq!(p.wait(), Planned::Lost);
        std::panic::set_hook(hook);
        assert!(!p.is_busy());
    }
}
