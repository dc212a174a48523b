//! `onefold verify --prove`: the program is the chain, for all packets at once, or a packet that shows where not.

use super::verify::{Args, ports};
use crate::common::{self, thousands};
use crate::counterexample::{PACKETS, Search, Shown, hex, place, show};
use crate::program;
use crate::progress::Busy;
use anyhow::Result;
use onefold_chain::Chain;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_synth::text;
use onefold_verify::prove::{Doubt, Options, Proof, prove_with};
use std::time::{Duration, Instant};

/// What came of it.
pub struct Judged {
    /// The exit status.
    pub status: u8,
    /// The result, where JSON is asked for; as text it was printed.
    pub json: Option<serde_json::Value>,
}

/// Runs it. `None`: the input is bad, which was said.
pub fn run(args: &Args, chain: &Chain) -> Result<Option<Judged>> {
    let options = BuildOptions {
        seed: args.seed,
        start: Timestamp::from_secs(1_000),
        ..Default::default()
    };
    let graph = match common::build(chain, &options) {
        Ok(g) => g,
        Err(ds) => {
            common::print_diagnostics(&ds);
            return Ok(None);
        }
    };
    let begun = Instant::now();
    let (name, program) = match args.program.is_empty() {
        false => match program::read_all(&args.program)? {
            Some(p) => ("the program".to_string(), p),
            None => return Ok(None),
        },
        true => {
            let made = onefold_synth::synthesize(&graph.synthesis_input(), args.budget.budget());
            // what is judged is the text
            match program::parse("the program", &text::print(&made)) {
                Some(p) => ("the program".to_string(), p),
                None => return Ok(None),
            }
        }
    };
    if let Err(e) = ProgramRunner::with_program(graph.fork(), &program) {
        eprintln!("error: {name}: {e}");
        return Ok(None);
    }
    let limit = Duration::from_secs(args.time_limit.into());
    let options = Options {
        time_limit: Some(limit),
        ..Options::default()
    };
    let busy = Busy::new("proving that the program is the chain", args.quiet);
    let proof = prove_with(&graph.synthesis_input(), &program, &options, &|e, p| {
        graph.finer_model(e, p)
    });
    drop(busy);
    let ports = ports(chain);
    let how = Search {
        packets: PACKETS,
        seed: args.seed,
        shrink_time: Duration::from_secs(args.shrink_time.into()),
        deadline: None,
        quiet: args.quiet,
    };
    let shown = match proof.different.is_empty() {
        true => None,
        false => show(&graph, &program, &ports, &proof, &how)?,
    };
    let verdict = match (&shown, proof.holds()) {
        (Some(_), _) => "refuted",
        (None, true) => "proved",
        (None, false) => "unknown",
    };
    let seconds = begun.elapsed().as_secs_f64();
    let shown = shown.as_ref();
    let json = (args.json).then(|| json(chain, &graph, verdict, &proof, shown, seconds));
    if !args.json {
        print_text(chain, &graph, verdict, &proof, shown, seconds);
    }
    let status = match verdict {
        "proved" => common::HOLDS,
        _ => common::HOLDS_NOT,
    };
    Ok(Some(Judged { status, json }))
}

fn json(
    chain: &Chain,
    graph: &Graph,
    verdict: &str,
    proof: &Proof,
    shown: Option<&Shown>,
    seconds: f64,
) -> serde_json::Value {
    let doubts = |l: &[Doubt]| -> Vec<serde_json::Value> {
        let one = |d: &Doubt| {
            serde_json::json!({
                "entry": graph.name(d.source),
                "stage": d.stage.0,
                "action": d.action,
                "element": graph.name(d.elem),
                "what": d.what,
            })
        };
        l.iter().map(one).collect()
    };
    serde_json::json!({
        "chain": chain.name,
        "verdict": verdict,
        "header_space": {
            "proved": proof.share.proved,
            "punted": proof.share.punted,
            "unknown": proof.share.unknown + proof.share.different,
            "within": proof.share.within,
        },
        "differences": u64::from(shown.is_some()),
        "counterexample": shown.map(|s| serde_json::json!({
            "packets": s.packets.iter()
                .map(|(p, b)| serde_json::json!({ "port": p, "packet": hex(b) }))
                .collect::<Vec<_>>(),
            "difference": s.difference,
        })),
        "different": doubts(&proof.different),
        "unknown": doubts(&proof.unknown),
        "unreached_stages": proof.unreached.iter().map(|s| s.0).collect::<Vec<_>>(),
        "stopped": proof.stopped(),
        "entries": proof.entries.iter().map(|e| serde_json::json!({
            "entry": graph.name(e.source),
            "reference": e.reference,
            "header_space": {
                "proved": e.share.proved,
                "punted": e.share.punted,
                "unknown": e.share.unknown + e.share.different,
                "within": e.share.within,
            },
            "epochs": e.epochs,
            "steps": e.steps,
            "nodes": e.nodes,
        })).collect::<Vec<_>>(),
        "seconds": seconds,
        "cpu_seconds": common::cpu_seconds(),
        "peak_bytes": common::peak_memory(),
    })
}

/// Most lines about what is not proved.
const LINES: usize = 10;

fn print_text(
    chain: &Chain,
    graph: &Graph,
    verdict: &str,
    proof: &Proof,
    shown: Option<&Shown>,
    seconds: f64,
) {
    let memory = common::peak_memory().map_or(String::new(), |b| format!(", {} MB", b >> 20));
    crate::say!("{}: {verdict} ({seconds:.1} s{memory})", chain.name);
    let percent = |x: f64| match x.is_nan() {
        true => "a share that was not counted".to_string(),
        false => format!("{:.2}%", x * 100.0),
    };
    for e in &proof.entries {
        let name = graph.name(e.source);
        if e.reference {
            crate::say!("  {name}: the reference graph itself");
            continue;
        }
        let mut line = format!(
            "  {name}: proved {}, handed over {}",
            percent(e.share.proved),
            percent(e.share.punted)
        );
        if e.share.different > 0.0 {
            line += &format!(", different {}", percent(e.share.different));
        }
        if e.share.unknown > 0.0 {
            line += &format!(", unknown {}", percent(e.share.unknown));
        }
        crate::say!(
            "{line} of the header space; {} epochs, {} steps, {} nodes of at most {}",
            thousands(e.epochs as u64),
            thousands(e.steps),
            thousands(e.nodes as u64),
            thousands(Options::default().nodes as u64)
        );
        if let Some(why) = &e.stopped {
            crate::say!("    given up: {why}");
        }
    }
    for (list, head) in [
        (&proof.different, "different"),
        (&proof.unknown, "not known"),
    ] {
        for d in list.iter().take(LINES) {
            crate::say!("  {head}: {}", place(graph, d));
        }
        if list.len() > LINES {
            crate::say!("  and {} more", list.len() - LINES);
        }
    }
    if let Some(s) = shown {
        crate::say!("{}", s.difference);
        for (port, bytes) in &s.packets {
            crate::say!("  onefold trace {} --hex {port}={}", chain.name, hex(bytes));
        }
    } else if !proof.different.is_empty() {
        crate::say!("  no packet was found that shows what differs: there may be none");
    }
}
