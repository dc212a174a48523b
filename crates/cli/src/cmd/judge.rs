//! What `verify` compares others with.

use super::verify::Args;
use crate::common;
use crate::runner;
use anyhow::Result;
use onefold_chain::Chain;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;

/// The reference graph that packets are compared with, and when its clock begins. None: why it cannot be made has been
/// said.
pub(super) fn graph(args: &Args, chain: &Chain) -> Result<Option<(Graph, Timestamp)>> {
    let start = match args.inputs.is_empty() {
        true => Timestamp::from_secs(1_000),
        false => runner::first_time(&args.inputs)?,
    };
    let options = BuildOptions {
        seed: args.seed,
        start,
        ..Default::default()
    };
    match common::build(chain, &options) {
        Ok(graph) => {
            common::print_warnings(&graph);
            Ok(Some((graph, start)))
        }
        Err(ds) => {
            common::print_diagnostics(&ds);
            Ok(None)
        }
    }
}
