//! `onefold check`: everything that is wrong with a chain.

mod lists;
pub(crate) mod rules;

use crate::common::{self, ChainArgs};
use anyhow::Result;
use onefold_chain::{Chain, Diagnostic, OnCrash};
use onefold_engine::BuildOptions;

/// Options of `onefold check`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Warnings say what is surely not meant: rules that mix && and or without parentheses, rule files \
    without rules, unconnected outputs.\n\n\
    --rules looks for rules that are surely not meant, in every list of rules of the chain (IPFilter, IPClassifier, \
    Classifier, and what firewalls are made of):\n  \
    never-matches   no packet that comes to the rule is what it asks for\n  \
    contradictory   rules before it take all its packets, and all do the opposite\n  \
    shadowed        rules before it take all its packets; some do the same, some the opposite\n  \
    redundant       without it the same would happen to every packet\n\
    Each is proved, with the rules that make it so and a packet that shows it. It is said of packets that have their \
    transport header and of later fragments; of IPv6, of packets without extension headers.\n\n\
    Examples:\n  \
    onefold check chain.yaml\n  \
    onefold check isp-edge --set rules=my.rules\n  \
    onefold check isp-edge --rules\n\n\
    Exit status: 0 the chain can be run, and --rules finds nothing; 1 --rules finds something; 2 it cannot be run."
)]
pub struct Args {
    #[command(flatten)]
    chain: ChainArgs,
    /// Looks for rules that never decide, or without which nothing would change
    #[arg(long)]
    rules: bool,
    /// Prints all that --rules finds
    #[arg(long, requires = "rules")]
    all: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let mut placed = Vec::new();
    let mut checked = None;
    let (name, diagnostics, counts) = match args.chain.load() {
        Err(e) => (args.chain.chain.clone(), common::chain_error(&e), None),
        Ok(chain) => {
            let mut ds = chain.warnings.clone();
            let counts = (chain.functions.len(), chain.graph.elements.len());
            ds.extend(segments(&chain, &mut placed));
            match common::build(&chain, &BuildOptions::default()) {
                Err(_) if chain.native().is_some() => {}
                Ok(mut g) => {
                    ds.extend(g.warnings().iter().map(common::engine_diagnostic));
                    checked = args.rules.then(|| {
                        // where that leads to too many rules, those that are executed are looked at
                        let whole =
                            onefold_chain::load_whole(&args.chain.chain, &args.chain.options());
                        let whole = whole.as_ref().unwrap_or(&chain);
                        rules::check(&chain, whole, &mut g, args.json)
                    });
                }
                Err(e) => ds.extend(e),
            }
            (chain.name, ds, Some(counts))
        }
    };
    let ok = !diagnostics.iter().any(Diagnostic::is_error);
    if args.json {
        let mut v = serde_json::json!({
            "ok": ok,
            "chain": name,
            "diagnostics": diagnostics.iter().map(common::diagnostic_json).collect::<Vec<_>>(),
            "processes": placed.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        });
        if let Some(c) = &checked {
            (v["findings"], v["lists"]) = c.json();
        }
        common::print_json(&v)?;
    } else {
        common::print_diagnostics(&diagnostics);
        let errors = diagnostics.iter().filter(|d| d.is_error()).count();
        match counts {
            Some((f, e)) if ok => {
                crate::say!("{name}: ok ({f} network functions, {e} elements)");
                for (name, how) in &placed {
                    crate::say!("  process {name}{how}");
                }
            }
            _ => crate::say!(
                "{name}: {errors} error{}",
                if errors == 1 { "" } else { "s" }
            ),
        }
    }
    if let (Some(c), false) = (&checked, args.json) {
        c.print(&args.chain.chain, args.all);
    }
    Ok(match (ok, &checked) {
        (false, _) => common::BAD_INPUT,
        (true, Some(c)) => rules::status(c),
        (true, None) => common::HOLDS,
    })
}

/// What runs in which process, if functions run in several, and what is wrong with that.
fn segments(chain: &Chain, placed: &mut Vec<(String, String)>) -> Vec<Diagnostic> {
    if !chain.has_processes() {
        return Vec::new();
    }
    let segments = match chain.segments() {
        Ok(s) => s,
        Err(e) => return vec![Diagnostic::error(e.to_string())],
    };
    let mut wrong = Vec::new();
    for s in &segments.all {
        let mut how = match s.functions.len() {
            1 => String::new(),
            n => format!(" ({n} functions, merged)"),
        };
        if let Some(core) = s.affinity {
            how.push_str(&format!(", core {core}"));
        }
        if s.on_crash != OnCrash::Wait {
            how.push_str(&format!(", on-crash: {}", s.on_crash.name()));
        }
        placed.push((s.name.clone(), how));
        // what refers to what is in another process cannot be built
        if s.native.is_none()
            && s.external.is_none()
            && let Err(ds) = common::build(&s.chain, &BuildOptions::default())
        {
            wrong.extend(ds);
        }
    }
    wrong
}
