//! `onefold explain`: what the synthesizer made of a chain.

use crate::cmd::check::rules::odd;
use crate::common::{self, ChainArgs};
use crate::explain::{self, Explained};
use crate::progress::Busy;
use crate::xdp;
use anyhow::{Context, Result};
use onefold_chain::Chain;
use onefold_engine::program::{ProgramRunner, Using};
use onefold_engine::{BuildOptions, Graph};
use onefold_synth::parts::{self, Split};
use onefold_synth::program::StageId;
use onefold_synth::{Program, check, synthesize, text};
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Classes of a stage that are printed without `--all`.
const SHOWN: usize = 40;

/// Odd rules are looked for so long.
const ODD_RULES_LIMIT: Duration = Duration::from_secs(3);

/// Options of `onefold explain`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A traffic class is all packets that a chain treats alike. For each: its packet filters, what is done to it in one \
    read and one write, the rules that made it, and how many operations of the chain as written become how many.\n\n\
    Examples:\n  \
    onefold explain napt-fw-lb\n  \
    onefold explain isp-edge --html isp-edge.html\n  \
    onefold explain isp-edge --program > before.txt\n  \
    onefold explain isp-edge --program --split-at classes > parts.txt\n  \
    onefold explain fw10 --xdp"
)]
pub struct Args {
    #[command(flatten)]
    chain: ChainArgs,
    /// Prints the program in its textual form (docs/program.md)
    #[arg(long)]
    program: bool,
    /// With --program: as two partial programs, which are the program together (docs/program.md): the entries' classes
    /// and all the rest (`classes`), or what comes before a fresh stage and that stage (`stageN`)
    #[arg(long, value_name = "WHERE", requires = "program", value_parser = split_at)]
    split_at: Option<Split>,
    /// Prints the XDP program of each port (`run --offload xdp`): what it drops, and its code
    #[arg(long, conflicts_with_all = ["program", "html", "json", "all"])]
    xdp: bool,
    /// Writes a self-contained HTML page: graph, classes, operations, punts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    budget: common::BudgetArgs,
    /// Measures the look-up structures that could be taken, instead of estimating them
    #[arg(long, conflicts_with = "program")]
    measure: bool,
    /// Prints every class
    #[arg(long)]
    all: bool,
    /// Prints one JSON object
    #[arg(long, conflicts_with = "program")]
    json: bool,
}

fn split_at(s: &str) -> Result<Split, String> {
    match s.strip_prefix("stage").map(str::parse) {
        Some(Ok(n)) => Ok(Split::Stage(StageId(n))),
        _ if s == "classes" => Ok(Split::Classes),
        _ => Err("'classes', or a stage: 'stage3'".to_string()),
    }
}

/// The XDP programs of all ports.
fn print_xdp(chain: &Chain, graph: &Graph, program: &Program) -> Result<()> {
    let made = xdp::programs(chain, graph, program, &|_, _| true, &Default::default())?;
    let mut out = std::io::stdout().lock();
    for p in made {
        let g = &p.generated;
        writeln!(out, "port {}: {}", p.port, xdp::told(&g.summary))?;
        for (i, c) in g.classes.iter().enumerate() {
            write!(
                out,
                "  class {i}: dropped by {}: {}",
                graph.name(c.elem),
                c.reason
            )?;
            let lists = c.decisions.iter().map(|(e, arg, _)| match arg {
                Some(n) => format!("{}[{n}]", graph.name(*e)),
                None => format!("{} (policy)", graph.name(*e)),
            });
            let lists: Vec<String> = lists.collect();
            match lists.is_empty() {
                true => writeln!(out)?,
                false => writeln!(out, "; decided by {}", lists.join(", "))?,
            }
        }
        out.write_all(g.code.text().as_bytes())?;
    }
    Ok(())
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let Some(chain) = args.chain.load_or_print() else {
        return Ok(common::BAD_INPUT);
    };
    // databases of many patterns take seconds
    let busy = Busy::new("configuring the elements", args.json);
    let built = common::build(&chain, &BuildOptions::default());
    drop(busy);
    let mut graph = match built {
        Ok(g) => g,
        Err(ds) => {
            common::print_diagnostics(&ds);
            return Ok(common::BAD_INPUT);
        }
    };
    let matchers = common::matchers(&mut graph);
    let states = common::states(&graph);
    let input = graph.synthesis_input();
    let start = Instant::now();
    let program = synthesize(&input, args.budget.budget());
    let seconds = start.elapsed().as_secs_f64();
    // before anything is made to be shown
    let peak = common::peak_memory();
    // the engine relies on these; a program that breaks one is a fault of the synthesizer
    let report = check::check(&program);
    for v in &report.violations {
        eprintln!("onefold: the program is unsound: {v}");
    }
    if args.xdp {
        print_xdp(&chain, &graph, &program)?;
        return Ok(common::HOLDS);
    }
    let mut x = Explained::new(&chain, &program, seconds, peak);
    if !args.program {
        let whole = onefold_chain::load_whole(&args.chain.chain, &args.chain.options());
        let whole = whole.as_ref().unwrap_or(&chain);
        x.named.clone_from(&args.chain.chain);
        x.odd = Some(odd(&chain, whole, &mut graph, ODD_RULES_LIMIT));
        let using = Using {
            measure: args.measure,
            ..Using::default()
        };
        match ProgramRunner::with_program_using(graph, &program, using) {
            Ok(r) => x.structures = r.structures(),
            Err(e) => eprintln!("onefold: the program cannot be loaded: {e}"),
        }
    }
    if let Some(file) = &args.html {
        let page = crate::html::explain_page(&x);
        std::fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))?;
        eprintln!("wrote {}", file.display());
    }
    let mut out = std::io::stdout().lock();
    if args.program {
        let parts = match args.split_at {
            Some(at) => match parts::split(&program, at) {
                Ok(parts) => parts.to_vec(),
                Err(e) => {
                    eprintln!("error: --split-at: {e}");
                    return Ok(common::BAD_INPUT);
                }
            },
            None => vec![program.clone()],
        };
        for (i, p) in parts.iter().enumerate() {
            if i > 0 {
                out.write_all(b"\n")?;
            }
            out.write_all(text::print(p).as_bytes())?;
        }
    } else if args.json {
        // printed under a lock of its own
        drop(out);
        let mut v = explain::json(&x);
        v["matchers"] = common::matchers_json(&matchers);
        v["states"] = (states.iter())
            .map(|(users, scope)| {
                serde_json::json!({ "elements": users, "scope": scope.to_string() })
            })
            .collect();
        common::print_json(&v)?;
    } else if args.html.is_none() {
        let most = if args.all { usize::MAX - 1 } else { SHOWN };
        out.write_all(explain::print(&x, most).as_bytes())?;
        for (name, who) in &matchers {
            writeln!(out, "payload matcher of {name}: {who}")?;
        }
        for (users, scope) in &states {
            writeln!(out, "state of {}: {scope}", users.join(", "))?;
        }
    }
    Ok(match report.violations.is_empty() {
        true => common::HOLDS,
        false => common::HOLDS_NOT,
    })
}
