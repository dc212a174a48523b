//! Scheduling policies ([`onefold_sched`]) applied to the processes of a chain ([`onefold_nf`]).
//!
//! - [`Watcher`] sees what a policy wants to see: rings' occupancy, what came and went, service times, which chains
//!   wait in a ring.
//! - [`Levers`] does what it wants: scheduling class, nice, slice, real-time priorities ([`sys`]), shares ([`group`]),
//!   the system's round-robin quantum ([`quantum`]), and what processes do by themselves when they are told to
//!   ([`onefold_nf::Orders`]: yield, relinquish, wait at full rings, mark).
//! - [`Controller`] is the loop between them, for a thread of its own: it looks as often as the policy wants to, sees
//!   to it that nobody starves, and counts what the kernel says of processes ([`stat`]).
//!
//! What the kernel cannot do is said when a policy begins ([`Kernel::remarks`]). All levers are put back when a
//! [`Controller`] is dropped; what a run has left behind that was killed is put back when the next one begins
//! ([`clean`]).
//!
//! **No process can hang another one.** A policy never waits for anybody. A process that has stalled has its turns and
//! wastes them; one that has ended is passed over, and is told everything anew when it is there again; one that does
//! not let others run, where the kernel would let it ([`sys::Class::Fifo`]), has turns from then on
//! ([`Controller::step`]).
#![deny(unsafe_code)]

mod apply;
mod controller;
pub mod group;
mod kernel;
mod observe;
pub mod quantum;
pub mod stat;
pub mod sys;

pub use apply::{Held, Levers};
pub use controller::{Controller, Figures, NfFigures, Setup, Shared, Way};
pub use kernel::Kernel;
pub use observe::Watcher;

use std::path::Path;

/// Why levers cannot be pulled.
#[derive(Debug, thiserror::Error)]
pub enum LeverError {
    /// A scheduling class, a priority, a core.
    #[error("{function}: {what}: {error}{}", hint(.error))]
    Schedule {
        /// The function.
        function: String,
        /// What was to be done.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
    /// Shares of processor time.
    #[error("shares of processor time (control groups): {0}{hint}", hint = hint(.0))]
    Groups(std::io::Error),
    /// There are no control groups with a processor controller.
    #[error("shares of processor time: there are no control groups with a cpu controller here")]
    NoGroups,
    /// The system's round-robin quantum.
    #[error("the system's round-robin quantum (/proc/sys/kernel/sched_rr_timeslice_ms): {0}{hint}", hint = hint(.0))]
    Quantum(std::io::Error),
    /// The policy, the chain and its processes do not fit together.
    #[error(transparent)]
    Topology(#[from] onefold_sched::TopologyError),
    /// A policy that cannot be made for this chain.
    #[error(transparent)]
    Spec(#[from] onefold_sched::spec::SpecError),
    /// Real time where everything else runs, too.
    #[error(
        "{function} is on core {core}, which the launcher itself is executed on: scheduled in real time, it would stop \
         its own packets; give it another one (affinity), or the launcher (--housekeeping)"
    )]
    Housekeeping {
        /// The function.
        function: String,
        /// The core.
        core: usize,
    },
}

/// What to do about what the system refuses.
fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "; it takes root (or CAP_SYS_NICE, and a control group that allows real time)"
        }
        _ => "",
    }
}

/// Puts back what runs have left that were killed: control groups, and the system's round-robin quantum (of which
/// records are kept in `folder`). What there was, in words.
pub fn clean(folder: &Path) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(h) = group::hierarchy() {
        let n = group::remove_dead(&h);
        if n > 0 {
            said.push(format!(
                "removed {n} control groups of runs that were killed"
            ));
        }
    }
    if let Some(ms) = quantum::restore_dead(folder) {
        said.push(format!(
            "put the round-robin quantum back to {ms} ms, for a run that was killed"
        ));
    }
    said
}
