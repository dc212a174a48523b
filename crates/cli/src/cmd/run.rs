//! `onefold run`: captures in, captures out.

use crate::common::{self, ChainArgs, key_value, thousands};
use crate::runner::{self, Outcome, Plan};
use anyhow::Result;
use clap::ValueEnum;
use onefold_engine::BuildOptions;
use onefold_packet::Timestamp;

/// How the chain is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Element by element, as written.
    Reference,
}

/// Options of `onefold run`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Several ports' captures are merged by time; the clock of the chain is the captures' time.\n\n\
    Examples:\n  \
    onefold run isp-edge --in lan=lan.pcap --in wan=wan.pcap --out wan=out.pcap\n  \
    onefold run isp-edge --set rules=my.rules --in lan=lan.pcap --html report.html\n\n\
    Exit status: 0 every packet is accounted for, 1 not, 2 wrong use or bad input."
)]
pub struct Args {
    #[command(flatten)]
    chain: ChainArgs,
    /// A capture (pcap, pcapng, also gzipped) that arrives at a port
    #[arg(long = "in", value_name = "PORT=FILE", value_parser = key_value, required = true)]
    inputs: Vec<(String, String)>,
    /// Where to write what leaves at a port; .pcapng or .pcap
    #[arg(long = "out", value_name = "PORT=FILE", value_parser = key_value)]
    outputs: Vec<(String, String)>,
    /// How the chain is executed
    #[arg(long, value_enum, default_value = "reference")]
    mode: Mode,
    /// Packets that pass the elements together: 1 is the scalar reference itself, more is faster
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    batch: u16,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Let the clock run on for this long after the last packet
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    linger: f64,
    /// Writes a self-contained HTML page: rates, ports, drops by reason, the graph
    #[arg(long, value_name = "FILE")]
    html: Option<std::path::PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let Mode::Reference = args.mode;
    let Some(chain) = args.chain.load_or_print() else {
        return Ok(common::BAD_INPUT);
    };
    let start = runner::first_time(&args.inputs)?;
    let options = BuildOptions {
        seed: args.seed,
        start,
        ..Default::default()
    };
    let mut graph = match common::build(&chain, &options) {
        Ok(g) => g,
        Err(ds) => {
            common::print_diagnostics(&ds);
            return Ok(common::BAD_INPUT);
        }
    };
    let plan = Plan {
        inputs: args.inputs.clone(),
        outputs: args.outputs.clone(),
        batch: usize::from(args.batch),
        limit: args.limit,
        linger: Timestamp::from_secs_f64(args.linger.clamp(0.0, 1e9)),
        quiet: args.quiet,
    };
    runner::catch_interrupt();
    let outcome = runner::run(&chain, &mut graph, &plan)?;
    for w in &outcome.warnings {
        eprintln!("warning: {w}");
    }
    if let Some(file) = &args.html {
        std::fs::write(file, crate::html::run_page(&chain, &outcome))?;
    }
    if args.json {
        common::print_json(&json(&outcome))?;
    } else {
        print_text(&chain.name, &outcome);
        if let Some(f) = &args.html {
            crate::say!("report: {}", f.display());
        }
    }
    Ok(if outcome.totals.balanced() {
        common::HOLDS
    } else {
        common::HOLDS_NOT
    })
}

/// The result as INTERFACE documents it.
pub fn json(o: &Outcome) -> serde_json::Value {
    let t = &o.totals;
    let ports: serde_json::Map<String, serde_json::Value> = o
        .ports
        .iter()
        .map(|(n, i, out)| {
            let v = serde_json::json!({
                "in": { "packets": i.packets, "bytes": i.bytes },
                "out": { "packets": out.packets, "bytes": out.bytes },
            });
            (n.clone(), v)
        })
        .collect();
    serde_json::json!({
        "packets_in": t.packets_in,
        "packets_out": t.sent,
        "created": t.created,
        "held": t.held,
        "dropped": t.dropped,
        "drops": o.drops,
        "drops_by_element": o.drops_by_element.iter().map(|(e, r, n)| serde_json::json!({
            "element": e, "reason": r, "packets": n })).collect::<Vec<_>>(),
        "ports": ports,
        "seconds": o.seconds,
        "mpps": t.packets_in as f64 / o.seconds.max(1e-9) / 1e6,
        "capture_seconds": o.span,
        "conserved": t.balanced(),
        "interrupted": o.interrupted,
        "overruns": o.overruns,
        "warnings": o.warnings,
    })
}

fn print_text(name: &str, o: &Outcome) {
    let t = &o.totals;
    let rate = t.packets_in as f64 / o.seconds.max(1e-9) / 1e6;
    if o.interrupted {
        crate::say!("interrupted: this is what happened until then");
    }
    crate::say!(
        "{name}: {} packets in {:.2} s, {rate:.2} Mpps, {:.0} ns per packet",
        thousands(t.packets_in),
        o.seconds,
        o.seconds * 1e9 / (t.packets_in.max(1) as f64)
    );
    crate::say!("  in       {:>14}", thousands(t.packets_in));
    if t.created > 0 {
        crate::say!(
            "  created  {:>14}   copies, fragments, ICMP errors, ARP",
            thousands(t.created)
        );
    }
    crate::say!("  out      {:>14}", thousands(t.sent));
    crate::say!("  dropped  {:>14}", thousands(t.dropped));
    crate::say!("  held     {:>14}", thousands(t.held));
    if !t.balanced() {
        crate::say!("  NOT CONSERVED: in + created != out + dropped + held");
    }
    crate::say!("ports");
    for (n, i, out) in &o.ports {
        crate::say!(
            "  {n:<12} in {:>12} packets {:>15} bytes   out {:>12} packets {:>15} bytes",
            thousands(i.packets),
            thousands(i.bytes),
            thousands(out.packets),
            thousands(out.bytes)
        );
    }
    if !o.drops_by_element.is_empty() {
        crate::say!("drops by reason");
        const SHOWN: usize = 20;
        for (e, r, n) in o.drops_by_element.iter().take(SHOWN) {
            crate::say!("  {:>12}  {r}  ({e})", thousands(*n));
        }
        if o.drops_by_element.len() > SHOWN {
            crate::say!(
                "  ... and {} more (--json shows all)",
                o.drops_by_element.len() - SHOWN
            );
        }
    }
    if o.overruns > 0 {
        crate::say!(
            "work was cut short {} times by the engine's bounds",
            o.overruns
        );
    }
}
