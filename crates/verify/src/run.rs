//! A whole verification: events from sources, through both executions, until a difference or the end.

use crate::compare::{Difference, Pair, feed};
use crate::event::{Event, Record};
use crate::generate::Source;
use crate::shrink::{self, Cut, Patience, Small};
use std::time::Duration;

/// What a long run is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// So many frames were sent.
    Packets(u64),
    /// A difference is shrunk: a sequence of so many events shows it.
    Shrinking(usize),
}

/// How.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Drops, account and states are compared after so many packets.
    pub checkpoint_every: usize,
    /// Stop after so many differences (each ends a run; the next starts behind it with fresh copies).
    pub max_differences: usize,
    /// A difference is shrunk for so long at most.
    pub shrink_time: Duration,
}

/// Frames between two words about how far it is: packets for goals may cost milliseconds each.
const TELL_EVERY: u64 = 256;

impl Default for Options {
    fn default() -> Self {
        Options {
            checkpoint_every: 20_000,
            max_differences: 1,
            shrink_time: Duration::from_secs(shrink::SECONDS),
        }
    }
}

/// A difference with its smallest sequence and what happened in both executions.
#[derive(Debug, Clone)]
pub struct Finding {
    /// As it was found.
    pub difference: Difference,
    /// Shrunk; `None` when it did not come again from the start, or not before shrinking was cut short.
    pub small: Option<Small>,
    /// Shrinking was cut short: the sequence may not be the smallest.
    pub cut: Option<Cut>,
    /// What both executions did with the last packet of the small sequence.
    pub traces: [Vec<String>; 2],
}

/// What came out.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Frames that were compared.
    pub packets: u64,
    /// Frames after which something left the reference.
    pub with_output: u64,
    /// Differences.
    pub findings: Vec<Finding>,
    /// Frames of batches that were sent alone, because they go round in the chain; see [`Pair::alone`].
    pub alone: u64,
    /// It was ended early from outside.
    pub interrupted: bool,
    /// What the program counted, if one was compared.
    pub report: Option<onefold_engine::program::Report>,
    /// What the flow table did, if one was compared.
    pub flow: Option<onefold_engine::flow::FlowStats>,
    /// Packets by the level that took them, if there were several.
    pub levels: Option<[u64; 3]>,
    /// Why packets that could have had an entry in it have none, most frequent first.
    pub flow_causes: Vec<(&'static str, u64)>,
}

/// Runs all events of `source` through copies of `pristine`. `go_on` is told how far it is after each some thousand
/// frames and while a difference is shrunk, and ends it with false.
pub fn run(
    pristine: &Pair,
    source: &mut dyn Source,
    options: &Options,
    go_on: &mut dyn FnMut(At) -> bool,
) -> Outcome {
    let mut o = Outcome::default();
    let mut pair = pristine.fork();
    let mut record = Record::default();
    loop {
        let mut event = source.next();
        let found = match &mut event {
            Some(e) => {
                record.push(e);
                let watches = source.watches();
                if watches {
                    pair.right.watch();
                }
                let d = pair.step(e);
                let steps = match watches {
                    true => pair.right.watched(),
                    false => Vec::new(),
                };
                if e.source.is_some() {
                    o.packets += 1;
                }
                let (events, outputs) = pair.last();
                o.with_output += events.len().min(outputs.len()) as u64;
                if watches || !outputs.is_empty() {
                    source.seen(events, outputs, &steps);
                }
                match d {
                    None if o.packets % options.checkpoint_every.max(1) as u64 == 0
                        && e.source.is_some() =>
                    {
                        pair.checkpoint()
                    }
                    d => d,
                }
            }
            None => pair.checkpoint(),
        };
        if let Some(d) = found {
            let f = examine(pristine, &record, d, options.shrink_time, go_on);
            o.interrupted |= f.cut == Some(Cut::Interrupted);
            o.findings.push(f);
            if o.interrupted || o.findings.len() >= options.max_differences.max(1) {
                break;
            }
            pair = pristine.fork();
            record = Record::default();
        }
        if event.is_none() {
            break;
        }
        if o.packets.is_multiple_of(TELL_EVERY) && !go_on(At::Packets(o.packets)) {
            o.interrupted = true;
            if let Some(d) = pair.checkpoint() {
                let time = options.shrink_time;
                o.findings.push(examine(pristine, &record, d, time, go_on));
            }
            break;
        }
    }
    o.report = pair.right.report();
    o.flow = pair.right.flow_stats();
    o.levels = pair.right.levels();
    o.flow_causes = pair.right.flow_causes();
    o.flow_causes.sort_by_key(|c| std::cmp::Reverse(c.1));
    o.alone = pair.alone();
    o
}

/// Shrinks a difference, for so long at most, and traces it.
pub fn examine(
    pristine: &Pair,
    record: &Record,
    difference: Difference,
    time: Duration,
    go_on: &mut dyn FnMut(At) -> bool,
) -> Finding {
    let patience = Patience { time, go_on };
    let s = shrink::shrink(pristine, record, &difference, patience);
    let traces = (s.small.as_ref()).map_or_else(Default::default, |s| traces(pristine, &s.events));
    Finding {
        difference,
        small: s.small,
        cut: s.cut,
        traces,
    }
}

/// What both executions do with the last event of a sequence.
pub fn traces(pristine: &Pair, events: &[Event]) -> [Vec<String>; 2] {
    let mut p = pristine.fork();
    let Some((last, before)) = events.split_last() else {
        return Default::default();
    };
    feed(&mut p, &mut before.to_vec());
    p.flush();
    p.left.start_trace();
    p.right.start_trace();
    let alone = Event {
        joined: false,
        ..last.clone()
    };
    p.step(&alone);
    p.flush();
    [p.left.take_trace(), p.right.take_trace()]
}
