//! Trials as another process wants them (`onefold bench live`): commands on standard input, answers on standard output,
//! a line each.

use super::args::rate;
use super::report::Told;
use super::{Onlooker, searched};
use crate::common;
use crate::live::seconds;
use crate::runner;
use anyhow::{Result, anyhow, bail};
use onefold_traffic::{Generator, Limit, Schedule};
use serde_json::json;
use std::io::{BufRead, Write};
use std::sync::atomic::Ordering;

/// Obeys until standard input ends, or somebody interrupts.
pub fn obey(generator: &mut Generator, told: &mut Told<'_>, watch: &mut Onlooker) -> Result<u8> {
    let args = told.args;
    answer(&json!({ "ready": true, "openings": told.openings, "flows": told.flows }))?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let trial = match words[..] {
            ["search", ref near @ ..] => {
                let near = near.first().and_then(|n| n.parse().ok());
                let found = searched(generator, args, near, watch)?;
                told.found = Some((found.pps, found.bound, found.trials));
                found.best
            }
            ["trial", pps, time] => {
                told.found = None;
                let rate = rate(pps).map_err(|e| anyhow!("{e}"))?;
                let limit = Limit {
                    time: Some(seconds(time).map_err(|e| anyhow!("{e}"))?),
                    packets: None,
                };
                let schedule = Schedule::new(rate, args.live.spread(), args.gen_args.seed);
                Some(generator.trial(schedule, limit, watch)?)
            }
            [] => continue,
            _ => bail!("'{line}' is no command"),
        };
        match trial {
            Some(t) => answer(&told.json(&t))?,
            None => answer(&serde_json::Value::Null)?,
        }
        if runner::interrupted().load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(common::HOLDS)
}

fn answer(v: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{v}")?;
    Ok(out.flush()?)
}
