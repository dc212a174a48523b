//! `onefold check`: everything that is wrong with a chain.

use crate::common::{self, ChainArgs};
use anyhow::Result;
use onefold_chain::Diagnostic;
use onefold_engine::BuildOptions;

/// Options of `onefold check`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Warnings say what is surely not meant: rules that mix && and or without parentheses, rule files without rules, unconnected \
    outputs.\n\n\
    Examples:\n  \
    onefold check chain.yaml\n  \
    onefold check isp-edge --set rules=my.rules\n\n\
    Exit status: 0 the chain can be run, 2 it cannot."
)]
pub struct Args {
    #[command(flatten)]
    chain: ChainArgs,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let (name, diagnostics, counts) = match args.chain.load() {
        Err(e) => (args.chain.chain.clone(), common::chain_error(&e), None),
        Ok(chain) => {
            let mut ds = chain.warnings.clone();
            let counts = (chain.functions.len(), chain.graph.elements.len());
            match common::build(&chain, &BuildOptions::default()) {
                Ok(g) => ds.extend(g.warnings().iter().map(common::engine_diagnostic)),
                Err(e) => ds.extend(e),
            }
            (chain.name, ds, Some(counts))
        }
    };
    let ok = !diagnostics.iter().any(Diagnostic::is_error);
    if args.json {
        common::print_json(&serde_json::json!({
            "ok": ok,
            "chain": name,
            "diagnostics": diagnostics.iter().map(common::diagnostic_json).collect::<Vec<_>>(),
        }))?;
    } else {
        common::print_diagnostics(&diagnostics);
        let errors = diagnostics.iter().filter(|d| d.is_error()).count();
        match counts {
            Some((f, e)) if ok => crate::say!("{name}: ok ({f} network functions, {e} elements)"),
            _ => crate::say!(
                "{name}: {errors} error{}",
                if errors == 1 { "" } else { "s" }
            ),
        }
    }
    Ok(if ok { common::HOLDS } else { common::BAD_INPUT })
}
