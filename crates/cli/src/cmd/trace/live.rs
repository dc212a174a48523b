//! `onefold trace --live`: packets of a running chain.

use crate::cmd::status::{Which, refused};
use crate::common;
use anyhow::{Result, bail};
use onefold_control::{Request, Tracing};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Signals are looked at so often.
const LOOK: Duration = Duration::from_millis(200);

/// Options of `onefold trace --live`.
#[derive(clap::Args, Debug)]
pub struct LiveArgs {
    /// Follows the next packets of a running chain, whose name stands in the chain's place (the only one that runs if
    /// none is given)
    #[arg(long)]
    live: bool,
    /// With --live: its control socket
    #[arg(long, value_name = "PATH", requires = "live")]
    socket: Option<PathBuf>,
    /// With --live: those that arrive at this port of the chain
    #[arg(long, value_name = "PORT", requires = "live")]
    port: Option<String>,
    /// With --live: those that a firewall's rule with this text would match, such as `src host 10.0.0.1 && tcp dst
    /// port 80`
    #[arg(long, value_name = "EXPRESSION", requires = "live")]
    filter: Option<String>,
    /// With --live: those that are dropped at an element or for a reason with this in it
    #[arg(
        long,
        value_name = "REASON",
        requires = "live",
        conflicts_with = "class"
    )]
    drop: Option<String>,
    /// With --live: those of this traffic class, as `status` and `explain` number them
    #[arg(long, value_name = "STAGE.ACTION", requires = "live")]
    class: Option<String>,
    /// With --live: so many packets
    #[arg(long, value_name = "N", requires = "live", default_value_t = 1)]
    count: u64,
}

impl LiveArgs {
    /// Is it about a running chain?
    pub fn is_asked(&self) -> bool {
        self.live
    }
}

/// Asks, and prints what comes.
pub fn run(args: &LiveArgs, name: &str, json: bool) -> Result<u8> {
    if args.count == 0 {
        bail!("--count 0 follows no packet");
    }
    let request = Request::Trace(Tracing {
        port: args.port.clone(),
        filter: args.filter.clone(),
        drop: args.drop.clone(),
        class: args.class.clone(),
        count: args.count,
    });
    let which = Which::of(name, args.socket.clone());
    // signals are looked at meanwhile
    let mut client = which.connect(Some(LOOK))?;
    crate::runner::catch_interrupt();
    let (mut n, mut different, mut failed) = (0u64, false, None);
    let goes_on = || !crate::runner::interrupted().load(Ordering::Relaxed);
    let answer = client.ask_for(&request, |v| {
        let Some(v) = v else { return goes_on() };
        different |= v["trace"]["same"] == Value::Bool(false);
        n += 1;
        if let Err(e) = print(v, json) {
            failed = Some(e);
        }
        failed.is_none() && goes_on()
    });
    if let Some(e) = failed {
        return Err(e);
    }
    match answer {
        Ok(_) if different => Ok(common::HOLDS_NOT),
        Ok(_) => Ok(common::HOLDS),
        Err(e) => refused(e, json),
    }
}

/// A packet: one object a line, or as text.
fn print(v: &Value, json: bool) -> Result<()> {
    if json {
        crate::say!("{}", v["trace"]);
        return Ok(());
    }
    for line in v["text"].as_array().into_iter().flatten() {
        crate::say!("{}", line.as_str().unwrap_or_default());
    }
    crate::say!("");
    Ok(())
}
