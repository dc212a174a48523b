//! Time of one thread on one core.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::sync::OnceLock;

/// Where this process could run before its thread was bound to a core.
static ALLOWED: OnceLock<CpuSet> = OnceLock::new();

/// Processor time of this thread and time on the wall, both in nanoseconds since some moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// What the thread has been executed for: other load on the machine does not count.
    pub cpu_ns: u64,
    /// Monotonic.
    pub wall_ns: u64,
}

impl Times {
    /// Now. Zeros where the system has no such clocks.
    pub fn now() -> Times {
        let read = |id| {
            clock_gettime(id).map_or(0, |t| {
                (t.tv_sec().max(0) as u64) * 1_000_000_000 + t.tv_nsec().max(0) as u64
            })
        };
        Times {
            wall_ns: read(ClockId::CLOCK_MONOTONIC),
            cpu_ns: read(ClockId::CLOCK_THREAD_CPUTIME_ID),
        }
    }

    /// From `earlier` to this one.
    pub fn since(self, earlier: Times) -> Times {
        Times {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
        }
    }
}

/// Binds this thread to a core: the one asked for, or else the highest that it may use (interrupts are mostly served by
/// the lowest). Gives the core.
///
/// # Errors
/// What the system says against it.
pub fn pin(core: Option<usize>) -> Result<usize, PinError> {
    let allowed = sched_getaffinity(Pid::from_raw(0))?;
    ALLOWED.get_or_init(|| allowed);
    let may = |c: &usize| allowed.is_set(*c).unwrap_or(false);
    let highest = || (0..CpuSet::count()).rev().find(may);
    let core = match core {
        Some(c) if !may(&c) => return Err(PinError::NotAllowed(c)),
        Some(c) => c,
        None => highest().ok_or(PinError::NotAllowed(0))?,
    };
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)?;
    Ok(core)
}

/// Does something (begins another process, say) while this thread may run wherever it could before it was bound to a
/// core.
pub fn on_all_cores<T>(f: impl FnOnce() -> T) -> T {
    let me = Pid::from_raw(0);
    let bound = sched_getaffinity(me).ok();
    if let Some(all) = ALLOWED.get() {
        let _ = sched_setaffinity(me, all);
    }
    let result = f();
    if let Some(bound) = bound {
        let _ = sched_setaffinity(me, &bound);
    }
    result
}

/// Cores that this process could run on before its thread was bound to one, highest first.
pub fn cores() -> Vec<usize> {
    let now = sched_getaffinity(Pid::from_raw(0)).ok();
    let set = ALLOWED.get().copied().or(now);
    let may = |c: &usize| set.is_some_and(|s| s.is_set(*c).unwrap_or(false));
    (0..CpuSet::count()).rev().filter(may).collect()
}

/// Why a thread was not bound to a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// It may not run there.
    #[error("this process may not run on core {0}; hint: `taskset -p $$` says where it may")]
    NotAllowed(usize),
    /// The system refuses.
    #[error("the system did not bind the thread to a core: {0}")]
    System(#[from] nix::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_forward_and_cpu_time_is_not_more_than_wall_time() {
        let begun = Times::now();
        let mut x = 1u64;
        for i in 0..3_000_000u64 {
            x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(i));
        }
        let t = Times::now().since(begun);
        assert!(t.cpu_ns > 100_000 && t.wall_ns > 100_000, "{t:?} {x}");
        // clocks are read one after the other
        assert!(t.cpu_ns <= t.wall_ns + 1_000_000, "{t:?}");
    }

    #[test]
    fn a_thread_is_bound_where_it_may_run() {
        std::thread::spawn(|| {
            let core = pin(None).unwrap();
            assert_eq!(pin(Some(core)), Ok(core), "now the only one");
            let other = if core == 0 { 1 } else { 0 };
            assert_eq!(pin(Some(other)), Err(PinError::NotAllowed(other)));
            let beyond = CpuSet::count() + 5;
            assert_eq!(pin(Some(beyond)), Err(PinError::NotAllowed(beyond)));
        })
        .join()
        .unwrap();
    }
}
