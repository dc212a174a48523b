//! The first packet of a capture that is dropped.

use super::Args;
use crate::common;
use crate::dropped::{Dropped, Replay};
use crate::progress::Busy;
use crate::runner;
use anyhow::Result;
use onefold_chain::Chain;
use onefold_engine::{BuildOptions, Log};

/// The first packet that is dropped for such a reason.
pub fn find(
    args: &Args,
    chain: &Chain,
    input: &[(String, String)],
    reason: &str,
) -> Result<Option<Dropped>> {
    let options = BuildOptions {
        seed: args.seed,
        start: runner::first_time(input)?,
        log: Log::Discard,
        ..Default::default()
    };
    // what is wrong with the chain is said where it is followed
    let Ok(graph) = common::build(chain, &options) else {
        return Ok(Some(Dropped {
            input: 0,
            number: 1,
            at: options.start,
            length: 0,
            why: String::new(),
        }));
    };
    let mut replay = Replay::new(chain, graph, input)?;
    let _busy = Busy::new("looking for a packet that is dropped", args.json);
    while let Some(dropped) = replay.next()? {
        if let Some(d) = dropped.filter(|d| d.why.contains(reason)) {
            return Ok(Some(d));
        }
    }
    Ok(None)
}
