//! A thread that stays on one processor.

use crate::KernelError;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread stays on the processor that it is on, until this is dropped: what it sends is worked on there, in
/// order.
#[derive(Debug)]
pub struct Pinned(CpuSet);

impl Pinned {
    /// From now on.
    ///
    /// # Errors
    /// The system does not say, or does not let it be so.
    pub fn here() -> Result<Pinned, KernelError> {
        let failed = |e: nix::Error| KernelError::System {
            doing: "staying on one processor".to_string(),
            error: e.into(),
        };
        let me = Pid::from_raw(0);
        let before = sched_getaffinity(me).map_err(failed)?;
        let mut one = CpuSet::new();
        one.set(sched_getcpu().map_err(failed)?).map_err(failed)?;
        sched_setaffinity(me, &one).map_err(failed)?;
        Ok(Pinned(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // it was allowed before
        let _ = sched_setaffinity(Pid::from_raw(0), &self.0);
    }
}
