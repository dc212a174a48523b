//! `onefold capture`: packets of a running chain, written down as they pass.

use super::status::{Which, refused};
use crate::common;
use anyhow::{Context, Result, bail};
use onefold_capture::{CaptureWriter, Format, LinkType};
use onefold_control::{Matching, Request};
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Signals are looked at so often.
const LOOK: Duration = Duration::from_millis(200);

/// Options of `onefold capture`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "With --drop and --class the chain takes packets one by one for as long as it is captured, which \
    costs throughput; with --port it does not.\n\n\
    Examples:\n  \
    onefold capture --port lan -w lan.pcapng\n  \
    onefold capture --drop 'no rule' --count 10\n  \
    onefold capture --class 0.3 -w class.pcapng"
)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Packets that arrive or leave at this port of the chain
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Packets that are dropped at an element or for a reason with this in it
    #[arg(long, value_name = "REASON")]
    drop: Option<String>,
    /// Packets of this traffic class, as `status` and `explain` number them
    #[arg(long, value_name = "STAGE.ACTION")]
    class: Option<String>,
    /// A pcapng file with a comment for each packet, - for the standard output; without it packets are printed
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    write: Option<PathBuf>,
    /// So many packets; until Ctrl-C if not given
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

impl Args {
    fn matching(&self) -> Result<Matching> {
        match (&self.port, &self.drop, &self.class) {
            (Some(p), None, None) => Ok(Matching::Port(p.clone())),
            (None, Some(d), None) => Ok(Matching::Drop(d.clone())),
            (None, None, Some(c)) => Ok(Matching::Class(c.clone())),
            _ => {
                bail!("say which packets: one of --port PORT, --drop REASON, --class STAGE.ACTION")
            }
        }
    }
}

/// Where packets go.
enum Out {
    File(CaptureWriter<std::fs::File>),
    Text,
}

impl Out {
    fn open(args: &Args) -> Result<Out> {
        let Some(path) = &args.write else {
            return Ok(Out::Text);
        };
        let shown = path.display();
        if path.as_os_str() == "-" {
            let out = onefold_bench::output::file(path)?;
            return Ok(Out::File(CaptureWriter::new(
                out,
                Format::PcapNg,
                LinkType::ETHERNET,
                0,
            )?));
        }
        if Format::from_path(path)? != Format::PcapNg {
            bail!("'{shown}': only pcapng keeps what is said of packets; call it .pcapng");
        }
        let w = CaptureWriter::create(path, Format::PcapNg, LinkType::ETHERNET, 0);
        Ok(Out::File(w.with_context(|| format!("'{shown}'"))?))
    }

    fn packet(&mut self, v: &Value) -> Result<()> {
        let text = |key: &str| v[key].as_str().unwrap_or_default();
        let frame = bytes(text("hex")).context("the chain's answer is no packet")?;
        let at = v["time_ns"].as_i64().unwrap_or(0);
        match self {
            Out::File(w) => w.write_commented(at, &frame, frame.len() as u32, text("comment"))?,
            Out::Text => {
                let mut out = std::io::stdout().lock();
                writeln!(
                    out,
                    "{}.{:09} {} {} {} bytes: {} ({})",
                    at / 1_000_000_000,
                    at % 1_000_000_000,
                    text("port"),
                    text("direction"),
                    frame.len(),
                    text("hex"),
                    text("comment")
                )?;
            }
        }
        Ok(())
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = hex
        .chars()
        .map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    let digits = digits.filter(|d| d.len().is_multiple_of(2))?;
    Some(
        digits
            .chunks(2)
            .map(|d| d.iter().fold(0, |n, x| n << 4 | x))
            .collect(),
    )
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let request = Request::Capture {
        matching: args.matching()?,
        count: args.count.unwrap_or(u64::MAX),
    };
    // signals are looked at meanwhile
    let mut client = args.which.connect(Some(LOOK))?;
    let mut out = Out::open(args)?;
    crate::runner::catch_interrupt();
    let mut n = 0u64;
    let mut failed = None;
    let goes_on = || !crate::runner::interrupted().load(Ordering::Relaxed);
    let answer = client.ask_for(&request, |v| {
        let Some(v) = v else { return goes_on() };
        match out.packet(v) {
            Ok(()) => n += 1,
            Err(e) => failed = Some(e),
        }
        failed.is_none() && goes_on()
    });
    if let Out::File(w) = out {
        w.finish()?;
    }
    if let Some(e) = failed {
        return Err(e);
    }
    match answer {
        Ok(v) => {
            let missed = v["missed"].as_u64().unwrap_or(0);
            eprintln!("{n} packets");
            if missed > 0 {
                eprintln!("warning: {missed} more came too fast to be written down");
            }
            Ok(common::HOLDS)
        }
        Err(e) => refused(e, false),
    }
}
