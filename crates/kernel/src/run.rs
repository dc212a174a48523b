//! A whole comparison: packets from a source, until a difference or the end.

use crate::judged::{Counts, SharedLab};
use crate::{KernelError, Pinned};
use onefold_verify::generate::Source;
use onefold_verify::shrink::Cut;
use onefold_verify::{At, Finding, Pair, Record, examine};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Frames between two words about how far it is.
const TELL_EVERY: u64 = 64;
/// Frames after which drops, account and states of the two reference graphs are compared.
const CHECKPOINT_EVERY: u64 = 20_000;

/// How.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Stop after so many differences.
    pub max_differences: usize,
    /// A difference is shrunk for so long at most.
    pub shrink_time: Duration,
    /// Documented differences are differences, too (except what cannot be compared at all).
    pub strict: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            max_differences: 1,
            shrink_time: Duration::from_secs(onefold_verify::shrink::SECONDS),
            strict: false,
        }
    }
}

/// What came out.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Frames that the source gave.
    pub packets: u64,
    /// What became of them.
    pub counts: Counts,
    /// Differences.
    pub findings: Vec<Finding>,
    /// It was ended early from outside.
    pub interrupted: bool,
}

/// Runs all events of `source` through copies of `pristine`, whose second execution is a [`crate::Judged`] of this lab.
/// `go_on` is told how far it is, and ends it with false.
///
/// # Errors
/// The kernel cannot be asked any more.
pub fn run(
    pristine: &Pair,
    source: &mut dyn Source,
    lab: &Rc<RefCell<SharedLab>>,
    options: &Options,
    go_on: &mut dyn FnMut(At) -> bool,
) -> Result<Outcome, KernelError> {
    let _pinned = Pinned::here()?;
    let mut o = Outcome::default();
    let mut pair = pristine.fork();
    let mut record = Record::default();
    // Bound: the events of the source
    while let Some(mut e) = source.next() {
        if e.source
            .is_some_and(|s| lab.borrow_mut().skips(s, &e.bytes))
        {
            o.packets += 1;
            continue;
        }
        let findings = o.findings.len();
        record.push(&mut e);
        let watches = source.watches();
        if watches {
            pair.right.watch();
        }
        let mut found = pair.step(&e);
        if let Some(failed) = lab.borrow_mut().failed.take() {
            return Err(failed);
        }
        let steps = if watches {
            pair.right.watched()
        } else {
            Vec::new()
        };
        o.packets += u64::from(e.source.is_some());
        let (events, outputs) = pair.last();
        if watches || !outputs.is_empty() {
            source.seen(events, outputs, &steps);
        }
        if found.is_none() && o.packets.is_multiple_of(CHECKPOINT_EVERY) && e.source.is_some() {
            found = pair.checkpoint();
        }
        let crowded = found.is_none() && lab.borrow().is_crowded();
        if crowded {
            found = pair.checkpoint();
        }
        if let Some(d) = found {
            lab.borrow_mut().counting = false;
            let f = examine(pristine, &record, d, options.shrink_time, go_on);
            lab.borrow_mut().counting = true;
            if let Some(failed) = lab.borrow_mut().failed.take() {
                return Err(failed);
            }
            o.interrupted |= f.cut == Some(Cut::Interrupted);
            o.findings.push(f);
            if o.interrupted || o.findings.len() >= options.max_differences.max(1) {
                break;
            }
        }
        if crowded || o.findings.len() > findings {
            pair = pristine.fork();
            record = Record::default();
        }
        if o.packets.is_multiple_of(TELL_EVERY) && !go_on(At::Packets(o.packets)) {
            o.interrupted = true;
            break;
        }
    }
    o.counts = lab.borrow().counts.clone();
    Ok(o)
}
