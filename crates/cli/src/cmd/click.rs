//! `onefold click`: a Click configuration, run as Click's user-level driver runs it.

use crate::{common, runner};
use anyhow::Result;

/// Everything is passed on: the options are Click's.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// FILE, -e EXPRESSION, -h ELEMENT.HANDLER, -q, PARAM=VALUE, --flatten; --help lists them all
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGUMENTS"
    )]
    rest: Vec<String>,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    runner::catch_interrupt();
    let status = onefold_engine::click::click_main(&args.rest, runner::interrupted());
    Ok(u8::try_from(status).unwrap_or(common::HOLDS_NOT))
}
