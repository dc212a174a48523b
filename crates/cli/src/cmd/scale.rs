//! `onefold scale`: how many workers a running chain has.

use super::status::{PATIENCE, Which, number, refused};
use crate::common;
use anyhow::{Result, bail};
use onefold_control::Request;
use std::path::PathBuf;

/// Options of `onefold scale`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "For runs with --workers MIN..MAX. Packets are divided into groups, which go from worker to worker \
    with all that belongs to them: no connection breaks, and no packet overtakes another one of its flow.\n\n\
    Exit status: 0 there are so many workers; 1 the run has a fixed number of them, 2 there are not so many."
)]
pub struct Args {
    /// The name of the run, if several run; then a number of workers, or `auto`: as many as the load needs, as before
    #[arg(value_name = "[NAME] N|auto", num_args = 1..=2, required = true)]
    what: Vec<String>,
    /// Its control socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let (name, wanted) = match args.what.as_slice() {
        [wanted] => (None, wanted),
        [name, wanted, ..] => (Some(name.clone()), wanted),
        [] => bail!("a number of workers, or auto"),
    };
    let workers = match wanted.as_str() {
        "auto" => None,
        n => match n.parse::<usize>() {
            Ok(n) => Some(n),
            Err(_) => bail!("'{n}': expected a number of workers, or auto"),
        },
    };
    let which = Which {
        name: name.filter(|_| args.socket.is_none()),
        socket: args.socket.clone(),
    };
    let mut client = which.connect(Some(PATIENCE))?;
    let v = match client.ask(&Request::Scale { workers }) {
        Ok(v) => v,
        Err(e) => return refused(e, args.json),
    };
    if args.json {
        return common::print_json(&v);
    }
    crate::say!(
        "{} workers, {}: by group, the worker: {}",
        number(&v, &["workers", "active"]),
        if v["by_hand"] == true {
            "by hand"
        } else {
            "as the load needs"
        },
        v["groups"]
    );
    Ok(common::HOLDS)
}
