//! The system calls of scheduling: class, nice, slice and priority of a thread, its core, yields' opposite: sleeping
//! until a moment.
#![allow(unsafe_code)]

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

/// `SCHED_NORMAL`, `SCHED_FIFO`, `SCHED_RR`, `SCHED_BATCH` (`sched(7)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Fair, wakes up early.
    Normal,
    /// Fair, for who computes.
    Batch,
    /// Real time, in turns.
    RoundRobin,
    /// Real time, until it sleeps or yields.
    Fifo,
}

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The class.
    pub class: Class,
    /// -20 to 19; of fair classes.
    pub nice: i32,
    /// 1 to 99; of real-time classes.
    pub priority: u32,
    /// The slice, in ns; 0: the kernel's own. Of fair classes, from Linux 6.12 on (`sched_attr.sched_runtime`).
    pub slice: u64,
    /// What it launches is not scheduled so, but as threads are in the beginning (`SCHED_RESET_ON_FORK`).
    pub alone: bool,
}

impl Attributes {
    /// As threads are in the beginning.
    pub const DEFAULT: Attributes = Attributes {
        class: Class::Normal,
        nice: 0,
        priority: 0,
        slice: 0,
        alone: false,
    };
}

/// `SCHED_FLAG_RESET_ON_FORK`.
const RESET_ON_FORK: u64 = 1;

/// `struct sched_attr`, its first version (48 bytes).
#[repr(C)]
#[derive(Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const SIZE: u32 = size_of::<SchedAttr>() as u32;
const _: () = assert!(SIZE == 48);

/// Sets how thread `tid` is scheduled.
///
/// # Errors
/// What the system says: it takes `CAP_SYS_NICE`, and a control group that allows real time.
pub fn set_attributes(tid: u32, a: Attributes) -> io::Result<()> {
    let fair = matches!(a.class, Class::Normal | Class::Batch);
    let attr = SchedAttr {
        size: SIZE,
        policy: match a.class {
            Class::Normal => libc::SCHED_OTHER,
            Class::Batch => libc::SCHED_BATCH,
            Class::RoundRobin => libc::SCHED_RR,
            Class::Fifo => libc::SCHED_FIFO,
        } as u32,
        nice: if fair { a.nice } else { 0 },
        priority: if fair { 0 } else { a.priority },
        runtime: if fair { a.slice } else { 0 },
        flags: if a.alone { RESET_ON_FORK } else { 0 },
        ..SchedAttr::default()
    };
    // SAFETY: the system reads as many bytes as the structure says that it has.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const attr, 0) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How thread `tid` is scheduled.
///
/// # Errors
/// What the system says: there is no such thread; a class that is none of these (`InvalidData`).
pub fn attributes(tid: u32) -> io::Result<Attributes> {
    let mut attr = SchedAttr::default();
    // SAFETY: the system writes at most as many bytes as it is told that there are.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, &raw mut attr, SIZE, 0) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    let class = match attr.policy as i32 {
        libc::SCHED_OTHER => Class::Normal,
        libc::SCHED_BATCH => Class::Batch,
        libc::SCHED_RR => Class::RoundRobin,
        libc::SCHED_FIFO => Class::Fifo,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(Attributes {
        class,
        nice: attr.nice,
        priority: attr.priority,
        slice: attr.runtime,
        alone: attr.flags & RESET_ON_FORK != 0,
    })
}

/// Sets the priority of a real-time thread and nothing else: the lever that is pulled most often.
///
/// # Errors
/// What the system says: there is no such thread, or it is none of real time.
#[inline]
pub fn set_priority(tid: u32, priority: u32) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: priority as libc::c_int,
    };
    // SAFETY: the system reads the parameter.
    let done = unsafe { libc::sched_setparam(tid as libc::pid_t, &raw const param) };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Thread `tid` (0: this one) is executed on this core only.
///
/// # Errors
/// There is no such core, or what the system says.
pub fn pin(tid: u32, core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(tid as i32), &set)?;
    Ok(())
}

/// Nanoseconds since some moment; never less than before.
#[inline]
pub fn now() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |t| {
        t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64
    })
}

/// Sleeps until [`now`] is `at`, or a signal comes.
pub fn sleep_until(at: u64) {
    let time = libc::timespec {
        tv_sec: (at / 1_000_000_000) as libc::time_t,
        tv_nsec: (at % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the system reads the time, and writes nothing with an absolute one.
    unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &raw const time,
            std::ptr::null_mut(),
        );
    }
}

/// Timers of this thread are as exact as they can be (`PR_SET_TIMERSLACK`; 50 us otherwise, but for real-time threads).
pub fn exact_timers() {
    // SAFETY: takes numbers.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_read_back() {
        // another thread, so that no other test is scheduled so
        let done = std::thread::spawn(|| {
            let me = nix::unistd::gettid().as_raw() as u32;
            let nice = Attributes {
                nice: 5,
                class: Class::Batch,
                ..Attributes::DEFAULT
            };
            set_attributes(me, nice).unwrap();
            let is = attributes(me).unwrap();
            assert_eq!((is.class, is.nice), (Class::Batch, 5));
            let real = Attributes {
                class: Class::RoundRobin,
                priority: 2,
                ..Attributes::DEFAULT
            };
            match set_attributes(me, real) {
                Ok(()) => {
                    set_priority(me, 3).unwrap();
                    let is = attributes(me).unwrap();
                    assert_eq!((is.class, is.priority), (Class::RoundRobin, 3));
                }
                Err(e) => assert_eq!(e.kind(), io::ErrorKind::PermissionDenied),
            }
        });
        done.join().unwrap();
    }

    #[test]
    fn there_is_no_such_thread() {
        // beyond the most that there are
        assert!(set_attributes(1 << 23, Attributes::DEFAULT).is_err());
        assert!(attributes(1 << 23).is_err() && set_priority(1 << 23, 1).is_err());
    }

    #[test]
    fn sleeps_until_then() {
        exact_timers();
        let at = now() + 3_000_000;
        sleep_until(at);
        assert!(now() >= at);
    }
}
