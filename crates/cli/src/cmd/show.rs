//! `onefold show`: the stitched graph, as text, Click, JSON or a page.

use crate::common::{self, ChainArgs};
use crate::graphview;
use anyhow::Result;
use std::io::Write;

/// Options of `onefold show`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    onefold show --list\n  \
    onefold show isp-edge                        its functions, links and ports\n  \
    onefold show isp-edge --html chain.html\n  \
    onefold show isp-edge --function fw          the elements that the firewall is made of")]
pub struct Args {
    #[command(flatten)]
    chain: Option<ChainArgs>,
    /// Lists the examples
    #[arg(long, conflicts_with = "ChainArgs")]
    list: bool,
    /// Prints the graph as a flat Click configuration
    #[arg(long)]
    click: bool,
    /// Prints one function's own graph as Click text, before it was stitched
    #[arg(long, value_name = "NAME")]
    function: Option<String>,
    /// Writes a self-contained HTML page with the graph drawn
    #[arg(long, value_name = "FILE")]
    html: Option<std::path::PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let mut out = std::io::stdout().lock();
    if args.list {
        return list(&mut out);
    }
    let Some(chain_args) = &args.chain else {
        anyhow::bail!("name a chain, or use --list for the examples");
    };
    let Some(chain) = chain_args.load_or_print() else {
        return Ok(common::BAD_INPUT);
    };
    if let Some(name) = &args.function {
        let Some(f) = chain.functions.iter().find(|f| f.name == *name) else {
            let names: Vec<&str> = chain.functions.iter().map(|f| f.name.as_str()).collect();
            anyhow::bail!("no function '{name}'; there are {}", names.join(", "));
        };
        out.write_all(f.click.as_bytes())?;
        return Ok(common::HOLDS);
    }
    if let Some(file) = &args.html {
        std::fs::write(file, crate::html::graph_page(&chain))?;
        eprintln!("wrote {}", file.display());
    }
    if args.json {
        drop(out);
        return common::print_json(&graphview::json(&chain));
    }
    if args.click {
        out.write_all(chain.graph.to_click_text().as_bytes())?;
    } else if args.html.is_none() {
        out.write_all(graphview::text(&chain).as_bytes())?;
    }
    Ok(common::HOLDS)
}

fn list(out: &mut impl Write) -> Result<u8> {
    let dirs = common::example_dirs();
    let options = onefold_chain::Options {
        set: Vec::new(),
        examples: dirs,
    };
    let names = onefold_chain::example_names(&options);
    if names.is_empty() {
        anyhow::bail!("no examples found: set ONEFOLD_CHAINS to the folder 'chains'");
    }
    for n in names {
        let about = onefold_chain::find(&n, &options)
            .ok()
            .and_then(|(p, _)| std::fs::read_to_string(p).ok())
            .and_then(|t| {
                t.lines()
                    .find_map(|l| l.strip_prefix("description:").map(|d| d.trim().to_string()))
            });
        writeln!(out, "{n:<18} {}", about.unwrap_or_default())?;
    }
    Ok(common::HOLDS)
}
