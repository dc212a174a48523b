//! Packets of captures that a chain drops, found by following all of them through the chain as it is written: which
//! element drops each, why, and which rule decided.

use crate::common::thousands;
use crate::files;
use crate::progress::Progress;
use crate::runner;
use anyhow::{Context, Result, bail};
use onefold_capture::{CaptureReader, CaptureWriter, LinkType, Merge};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::{Graph, TraceStep};
use onefold_packet::Timestamp;
use std::path::Path;

/// A packet that went through.
pub struct Replayed {
    /// Which of the captures it came from.
    pub input: usize,
    /// Which packet of that, from 1.
    pub number: u64,
    /// When it came.
    pub at: Timestamp,
    /// Its length on the wire.
    pub length: u32,
    /// What it did.
    pub steps: Vec<TraceStep>,
}

/// A packet that was dropped, or a part of which was.
pub struct Dropped {
    /// Which of the captures it came from.
    pub input: usize,
    /// Which packet of its capture, from 1.
    pub number: u64,
    /// When it came.
    pub at: Timestamp,
    /// Its length on the wire.
    pub length: u32,
    /// Who dropped it, why, and by which rule.
    pub why: String,
}

/// Packets of captures, one by one through a graph.
pub struct Replay {
    graph: Graph,
    merge: Merge,
    sources: Vec<ElemId>,
    numbers: Vec<u64>,
    now: Timestamp,
    /// The packet that came last.
    pub frame: Vec<u8>,
}

impl Replay {
    /// Of these captures (port and file), through a graph as it begins.
    ///
    /// # Errors
    /// A capture cannot be read, or the chain has no such port.
    pub fn new(chain: &Chain, mut graph: Graph, inputs: &[(String, String)]) -> Result<Replay> {
        let mut readers = Vec::new();
        let mut sources = Vec::new();
        for (port, file) in inputs {
            let p = runner::find_port(chain, port, true)?;
            let source = chain.ports.get(p).and_then(|p| p.source);
            sources.push(ElemId(source.unwrap_or(0) as u32));
            readers
                .push(CaptureReader::open(files::twice(file)?).with_context(|| files::told(file))?);
        }
        graph.start_trace();
        Ok(Replay {
            graph,
            merge: Merge::new(readers),
            numbers: vec![0; sources.len()],
            sources,
            now: Timestamp::ZERO,
            frame: Vec::new(),
        })
    }

    /// The next packet: what of it was dropped, if anything. `None`: there are no more.
    ///
    /// # Errors
    /// A capture is damaged.
    pub fn next(&mut self) -> Result<Option<Option<Dropped>>> {
        let next = self.step()?;
        Ok(next.map(|r| {
            why(&r.steps).map(|why| Dropped {
                input: r.input,
                number: r.number,
                at: r.at,
                length: r.length,
                why,
            })
        }))
    }

    /// The next packet, and all that it did. `None`: there are no more.
    ///
    /// # Errors
    /// A capture is damaged.
    pub fn step(&mut self) -> Result<Option<Replayed>> {
        let Some(next) = self.merge.next_into(&mut self.frame) else {
            return Ok(None);
        };
        let (input, meta) = next?;
        self.now = self.now.max(Timestamp(meta.ts_ns));
        let (Some(n), Some(source)) = (self.numbers.get_mut(input), self.sources.get(input)) else {
            return Ok(None);
        };
        *n += 1;
        let number = *n;
        self.graph.inject(*source, &self.frame, self.now);
        self.graph.drain_transmitted(|_, _| {});
        let (steps, _) = self.graph.take_trace();
        self.graph.start_trace();
        Ok(Some(Replayed {
            input,
            number,
            at: Timestamp(meta.ts_ns),
            length: meta.orig_len,
            steps,
        }))
    }
}

/// The first drop of a packet's steps in words, with the rule that was decided by last.
fn why(steps: &[TraceStep]) -> Option<String> {
    let at = steps.iter().position(|s| !s.drops.is_empty())?;
    let step = steps.get(at)?;
    let reason = step.drops.first()?;
    let before = steps.get(..=at).unwrap_or(&[]).iter().rev();
    let rule = before
        .flat_map(|s| &s.decisions)
        .find(|d| d.argument.is_some() && d.loc.line > 0);
    let by = rule.map_or_else(String::new, |d| format!(" ({})", d.loc));
    Some(format!("{}: {reason}{by}", step.name))
}

/// What `--drops` and `--alerts` go with.
///
/// # Errors
/// Packets come from elsewhere, or not as they are in captures.
pub fn check(flag: &str, captures: bool, as_they_are: bool) -> Result<()> {
    if !captures {
        bail!(
            "{flag} is for captures; what a running chain drops: `onefold capture NAME --drop TEXT -w FILE`"
        );
    }
    if !as_they_are {
        bail!(
            "{flag} goes with one worker and with captures as they are; leave out --workers and --adapt"
        );
    }
    Ok(())
}

/// Writes the packets that a chain drops to a capture (pcapng), with a comment each, and says how many.
///
/// # Errors
/// Something cannot be read or written.
pub fn write(
    file: &Path,
    (chain, graph): (&Chain, &Graph),
    inputs: &[(String, String)],
    (limit, quiet): (Option<u64>, bool),
) -> Result<()> {
    if file.extension().is_none_or(|e| e != "pcapng") {
        bail!(
            "--drops {}: comments need pcapng; hint: a name that ends in .pcapng",
            file.display()
        );
    }
    let mut replay = Replay::new(chain, graph.fork(), inputs)?;
    let mut out = CaptureWriter::create_for(file, LinkType::ETHERNET)
        .with_context(|| format!("'{}'", file.display()))?;
    let mut progress = Progress::new(limit.unwrap_or(0), quiet);
    let mut n = 0;
    while limit.is_none_or(|l| n < l)
        && let Some(dropped) = replay.next()?
    {
        n += 1;
        progress.at(n, || "what is dropped".to_string());
        if let Some(d) = dropped {
            out.write_commented(d.at.nanos(), &replay.frame, d.length, &d.why)?;
        }
    }
    progress.finish();
    let written = thousands(out.frames());
    out.finish()?;
    eprintln!("{written} packets that are dropped: {}", file.display());
    Ok(())
}
