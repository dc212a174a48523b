//! Captures are bound to a chain's ports.

use crate::common;
use anyhow::{Result, bail};
use onefold_capture::Format;
use onefold_chain::Chain;
use onefold_click::suggest::did_you_mean;
use std::path::Path;

/// The chain's ports by name, for binding files to them.
pub fn find_port(chain: &Chain, name: &str, entry: bool) -> Result<usize> {
    let known = |want_entry: bool| -> Vec<&str> {
        let has = |p: &&onefold_chain::ChainPort| {
            if want_entry {
                p.source.is_some()
            } else {
                !p.sinks.is_empty()
            }
        };
        chain
            .ports
            .iter()
            .filter(has)
            .map(|p| p.name.as_str())
            .collect()
    };
    let list = known(entry).join(", ");
    let way = if entry { "enter" } else { "leave" };
    match chain.ports.iter().position(|p| p.name == name) {
        None => {
            let like = did_you_mean(name, known(entry));
            let like = like.map_or_else(String::new, |l| format!("; {l}"));
            bail!("the chain has no port '{name}'; packets {way} at: {list}{like}")
        }
        Some(i) if entry && chain.ports[i].source.is_none() => {
            bail!("no packets enter at port '{name}'; they do at: {list}")
        }
        Some(i) if !entry && chain.ports[i].sinks.is_empty() => {
            bail!("no packets leave at port '{name}'; they do at: {list}")
        }
        Some(i) => Ok(i),
    }
}

/// Looks whether every file is bound to a port that there is, and outputs can be written where they are to be: before
/// anything takes time. `spec` is the chain as on the command line.
///
/// # Errors
/// A port is not there or has no such way, or a file is bound twice or cannot be.
pub fn check_bindings(
    chain: &Chain,
    spec: &str,
    inputs: &[(String, String)],
    outputs: &[(String, String)],
) -> Result<()> {
    for (port, file) in inputs {
        find_port(chain, port, true)?;
        if file != "-" && !Path::new(file).exists() {
            bail!(
                "there is no file '{file}'; hint: `onefold gen --for {spec} --out {file}` makes packets that the chain lets pass"
            );
        }
    }
    if inputs.iter().filter(|(_, f)| f == "-").count() > 1 {
        bail!("the standard input (-) can be read at one port only");
    }
    common::reserve_stdout(outputs.iter().map(|(_, f)| f.as_str()))?;
    let mut taken = Vec::new();
    for (port, file) in outputs {
        let i = find_port(chain, port, false)?;
        if taken.contains(&i) {
            bail!("port '{port}' has two output files");
        }
        taken.push(i);
        if file == "-" {
            continue;
        }
        if inputs.iter().any(|(_, f)| same_file(f, file)) {
            bail!("'{file}' is an input and an output");
        }
        Format::from_path(file)?;
        let folder = Path::new(file)
            .parent()
            .filter(|p| !p.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|f| !f.is_dir()) {
            bail!("'{file}': there is no folder '{}'", folder.display());
        }
    }
    Ok(())
}

fn same_file(a: &str, b: &str) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
