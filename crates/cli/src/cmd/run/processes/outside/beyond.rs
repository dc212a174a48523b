//! What the launcher has to do with packets that do not go from process to process by rings: a manager forwards them,
//! or they are in interfaces and black boxes, where nobody can look whether something is under way.

use super::program::Program;
use anyhow::{Result, bail};
use onefold_nf::{Arrived, Descriptor, Region, Seat};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Packets that a manager takes out of a ring at once.
const BATCH: usize = 256;

/// See the module's text.
#[derive(Default)]
pub struct Beyond {
    /// From inputs of the launcher's seat to outputs.
    forwards: Vec<(usize, usize)>,
    /// Open vSwitch.
    fabric: Option<Program>,
    settle: Option<Duration>,
    /// Batches of all processes, and since when there were so many.
    seen: Option<(u64, Instant)>,
    arrived: Vec<Arrived>,
    /// Packets that were forwarded.
    pub forwarded: u64,
}

impl Beyond {
    /// These are forwarded; this switch has packets; nothing is under way when nothing was seen for `settle`.
    pub fn new(
        forwards: Vec<(usize, usize)>,
        fabric: Option<Program>,
        settle: Option<Duration>,
    ) -> Beyond {
        Beyond {
            forwards,
            fabric,
            settle,
            ..Beyond::default()
        }
    }

    /// Is it not known at once whether something is under way?
    pub fn is_slow(&self) -> bool {
        self.settle.is_some()
    }

    /// Is nothing under way, if nothing is in rings (`quiet`)?
    pub fn is_quiet(&mut self, quiet: bool, region: &Region) -> bool {
        let Some(settle) = self.settle else {
            return quiet;
        };
        let nfs = (1..region.shape().nfs).filter_map(|nf| region.nf(nf));
        let batches = nfs.map(|b| b.said().batches.load(Ordering::Relaxed));
        let now = batches.fold(0u64, u64::wrapping_add);
        match self.seen {
            Some((then, since)) if quiet && then == now => since.elapsed() >= settle,
            _ => {
                self.seen = Some((now, Instant::now()));
                false
            }
        }
    }

    /// Packets go in: what was seen before says nothing any more.
    pub fn fed(&mut self) {
        self.seen = None;
    }

    /// Forwards what waits, where there is room. How many descriptors.
    ///
    /// # Errors
    /// A peer's counter cannot be.
    pub fn forward(&mut self, seat: &mut Seat) -> Result<usize> {
        let mut all = 0;
        for (input, output) in &self.forwards {
            if seat.backlog(*output) > 0 {
                continue;
            }
            all += seat.receive(*input, &mut self.arrived, BATCH)?;
            for a in self.arrived.drain(..) {
                let d = a.descriptor;
                let at = seat.describe(a.frame, usize::from(d.offset), d.len as usize);
                if let Some(at) = at {
                    self.forwarded += u64::from(d.flags & Descriptor::MORE == 0);
                    seat.queue(*output, Descriptor { slot: at.slot, ..d });
                }
            }
        }
        Ok(all)
    }

    /// Is the switch still there?
    ///
    /// # Errors
    /// It is not.
    pub fn look(&mut self) -> Result<()> {
        match self.fabric.as_mut().and_then(Program::ended) {
            Some(status) => bail!("interconnect: ovs: Open vSwitch has ended ({status})"),
            None => Ok(()),
        }
    }

    /// No more packets come.
    pub fn end(&mut self) {
        if let Some(f) = self.fabric.take() {
            f.end();
        }
    }
}
