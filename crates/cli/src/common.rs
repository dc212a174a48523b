//! What all subcommands share: chains, diagnostics, exit status.

use anyhow::Result;
use onefold_chain::{Chain, ChainError, Diagnostic};
use onefold_click::source::Location;
use onefold_click::suggest::did_you_mean;
use onefold_element::SourceLoc;
use onefold_engine as engine;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// What was asked holds.
pub const HOLDS: u8 = 0;
/// It does not.
pub const HOLDS_NOT: u8 = 1;
/// Wrong use or bad input.
pub const BAD_INPUT: u8 = 2;

/// Which chain, and its parameters.
#[derive(clap::Args, Debug, Clone)]
pub struct ChainArgs {
    /// Chain file, folder with a chain.yaml, name of an example, or a Click configuration (.click: every device is a
    /// port)
    #[arg(value_name = "CHAIN")]
    pub chain: String,
    /// Sets a parameter of the chain
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
}

/// How much the synthesizer may put into one list.
#[derive(clap::Args, Debug, Clone)]
pub struct BudgetArgs {
    /// Most rules in one stage of the program; a list that would be longer is split into stages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    stage_rules: Option<u32>,
}

impl BudgetArgs {
    /// The bounds for the synthesizer.
    pub fn budget(&self) -> onefold_synth::Budget {
        let mut b = onefold_synth::Budget::default();
        if let Some(n) = self.stage_rules {
            b.rules = n as usize;
        }
        b
    }
}

/// `KEY=VALUE`.
pub fn key_value(s: &str) -> Result<(String, String), String> {
    match s.split_once('=') {
        Some((k, v)) if !k.is_empty() => Ok((k.to_string(), v.to_string())),
        _ => Err("expected KEY=VALUE".to_string()),
    }
}

/// `PORT=FILE`.
pub fn port_file(s: &str) -> Result<(String, String), String> {
    match s.split_once('=') {
        Some((p, f)) if !p.is_empty() && !f.is_empty() => Ok((p.to_string(), f.to_string())),
        _ => Err("expected a port of the chain and a file, such as lan=lan.pcap".to_string()),
    }
}

/// Folders with examples: `ONEFOLD_CHAINS`, `chains/` here and in the folders above, beside the program,
/// `share/onefold/chains` where it is installed, and where it was built.
pub fn example_dirs() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = std::env::var_os("ONEFOLD_CHAINS")
        .map(PathBuf::from)
        .into_iter()
        .collect();
    if let Ok(here) = std::env::current_dir() {
        dirs.extend(here.ancestors().take(8).map(|a| a.join("chains")));
    }
    if let Ok(exe) = std::env::current_exe() {
        dirs.extend(exe.ancestors().skip(1).take(4).map(|a| a.join("chains")));
        // where it is installed
        dirs.extend(
            exe.ancestors()
                .nth(2)
                .map(|a| a.join("share/onefold/chains")),
        );
    }
    // where the program was built from, if that is still there
    if let Some(root) = PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2) {
        dirs.push(root.join("chains"));
    }
    dirs.retain(|d| d.is_dir());
    dirs
}

impl ChainArgs {
    /// As it was given on the command line.
    pub fn text(&self) -> String {
        let sets = self.set.iter().map(|(k, v)| format!(" --set {k}={v}"));
        std::iter::once(self.chain.clone()).chain(sets).collect()
    }

    /// How to load it.
    pub fn options(&self) -> onefold_chain::Options {
        onefold_chain::Options {
            set: self.set.clone(),
            examples: example_dirs(),
        }
    }

    /// Loads the chain.
    pub fn load(&self) -> Result<Chain, ChainError> {
        onefold_chain::load(&self.chain, &self.options())
    }

    /// Loads the chain; errors are printed, and `None` comes back. Warnings are printed too.
    pub fn load_or_print(&self) -> Option<Chain> {
        match self.load() {
            Ok(c) => {
                print_diagnostics(&c.warnings);
                Some(c)
            }
            Err(e) => {
                print_diagnostics(&chain_error(&e));
                None
            }
        }
    }
}

/// A chain error as diagnostics.
pub fn chain_error(e: &ChainError) -> Vec<Diagnostic> {
    match e {
        ChainError::Invalid(ds) => ds.clone(),
        ChainError::NotFound { name, near } => {
            let d = Diagnostic::error(e.to_string());
            let is_file = name.contains(['.', '/']);
            vec![match near.is_empty() {
                _ if is_file => {
                    d.hint("there is no such file; `onefold show --list` lists the examples")
                }
                true => {
                    d.hint("no folder with examples was found; set ONEFOLD_CHAINS or name a file")
                }
                false => {
                    let like = did_you_mean(name, near.iter().map(String::as_str));
                    let like = like.map_or_else(String::new, |l| format!("{l} "));
                    d.hint(format!("{like}examples: {}", near.join(", ")))
                }
            }]
        }
    }
}

/// Prints diagnostics with snippets on standard error.
pub fn print_diagnostics(ds: &[Diagnostic]) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for d in ds {
        let _ = writeln!(std::io::stderr(), "{}\n", d.render(colour).trim_end());
    }
}

/// Builds a chain's graph.
pub fn build(
    chain: &Chain,
    options: &engine::BuildOptions,
) -> Result<engine::Graph, Vec<Diagnostic>> {
    if let Some(name) = chain.native() {
        let external = |f: &onefold_chain::FunctionInfo| f.name == name && f.external.is_some();
        let what = match chain.functions.iter().any(external) {
            true => "a black box",
            false => "a program of its own",
        };
        let d = Diagnostic::error(format!("{name} is {what}, and nobody can see into it"));
        let hint =
            "`onefold run` executes such a chain, `check` and `show` read it; nothing else does";
        return Err(vec![d.hint(hint)]);
    }
    engine::Graph::build(chain.graph.clone(), options)
        .map_err(|e| e.0.iter().map(engine_diagnostic).collect())
}

/// Elements that look for patterns in payloads, each with who does it.
pub fn matchers(graph: &mut engine::Graph) -> Vec<(String, String)> {
    let all = (0..graph.len() as u32).map(onefold_element::ElemId);
    let names: Vec<String> = all
        .filter(|e| graph.has_handler(*e, "matcher", false))
        .map(|e| graph.name(e).to_string())
        .collect();
    (names.into_iter())
        .filter_map(|name| {
            let who = graph.read_handler(&format!("{name}.matcher")).ok()?;
            Some((name, who))
        })
        .collect()
}

/// States that elements share: who uses each, and what several workers would do with it.
pub fn states(graph: &engine::Graph) -> Vec<(Vec<String>, onefold_element::Scope)> {
    let names = |elems: Vec<onefold_element::ElemId>| {
        (elems.into_iter())
            .map(|e| graph.name(e).to_string())
            .collect()
    };
    let all = graph.state_scopes().into_iter();
    all.map(|(users, scope)| (names(users), scope)).collect()
}

/// Says who looks for patterns in payloads, a line for each that differs, on standard error.
pub fn tell_matchers(matchers: &[(String, String)]) {
    for (i, (name, who)) in matchers.iter().enumerate() {
        if !matchers.iter().take(i).any(|m| m.1 == *who) {
            eprintln!("payload matcher: {who} ({name})");
        }
    }
}

/// The same for machines.
pub fn matchers_json(matchers: &[(String, String)]) -> serde_json::Value {
    let one =
        |(name, who): &(String, String)| serde_json::json!({ "element": name, "matcher": who });
    matchers.iter().map(one).collect()
}

/// Prints what a graph's elements warn of.
pub fn print_warnings(graph: &engine::Graph) {
    let told = graph.warnings().iter().filter(|d| !d.info);
    print_diagnostics(&told.map(engine_diagnostic).collect::<Vec<_>>());
}

/// An engine's diagnostic with a snippet of the file that it points at, if that can be read.
pub fn engine_diagnostic(d: &engine::Diagnostic) -> Diagnostic {
    let message = match (&d.element, &d.argument) {
        (Some((name, class)), Some(a)) => format!("{name} :: {class}: {a}: {}", d.message),
        (Some((name, class)), None) => format!("{name} :: {class}: {}", d.message),
        (None, _) => d.message.clone(),
    };
    let mut out = match d.severity {
        engine::Severity::Error => Diagnostic::error(message),
        engine::Severity::Warning => Diagnostic::warning(message),
    };
    out = out.maybe_hint(d.hint.clone());
    if let Some(l) = location(&d.loc) {
        out = out.at_location(l);
    }
    for (loc, text) in &d.notes {
        out = out.note(format!("{loc}: {text}"));
    }
    out
}

/// A source location as the language's, if it is known.
pub fn location(l: &SourceLoc) -> Option<Location> {
    (l.line > 0).then(|| Location {
        file: l.file.to_string(),
        line: l.line,
        column: l.column.max(1),
        length: 1,
    })
}

/// Prints one JSON object on standard output.
pub fn print_json(v: &impl serde::Serialize) -> Result<u8> {
    let mut text = serde_json::to_string_pretty(v)?;
    text.push('\n');
    match PACKETS_ON_STDOUT.load(Ordering::Relaxed) {
        true => std::io::stderr().write_all(text.as_bytes())?,
        false => std::io::stdout().write_all(text.as_bytes())?,
    }
    Ok(HOLDS)
}

/// Packets go to the standard output: the result goes to the standard error.
static PACKETS_ON_STDOUT: AtomicBool = AtomicBool::new(false);

/// From now on the standard output is for packets, if one of these files is `-`.
///
/// # Errors
/// Two of them are.
pub fn reserve_stdout<'a>(files: impl Iterator<Item = &'a str>) -> Result<()> {
    match files.filter(|f| *f == "-").count() {
        0 => Ok(()),
        1 => {
            PACKETS_ON_STDOUT.store(true, Ordering::Relaxed);
            Ok(())
        }
        n => anyhow::bail!("the standard output (-) has room for one capture, not for {n}"),
    }
}

/// A line of the result.
pub fn say(line: std::fmt::Arguments<'_>) {
    let _ = match PACKETS_ON_STDOUT.load(Ordering::Relaxed) {
        true => writeln!(std::io::stderr(), "{line}"),
        false => writeln!(std::io::stdout(), "{line}"),
    };
}

/// `println!` that does not mind a closed pipe (`onefold ... | head`).
#[macro_export]
macro_rules! say {
    ($($t:tt)*) => {
        $crate::common::say(format_args!($($t)*))
    };
}

/// `1,234,567`
pub fn thousands(n: u64) -> String {
    let s = n.to_string();
    let mut out = String::new();
    for (i, c) in s.chars().enumerate() {
        if i > 0 && (s.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// JSON of a diagnostic, as INTERFACE documents it.
pub fn diagnostic_json(d: &Diagnostic) -> serde_json::Value {
    let l = d.location.as_ref();
    serde_json::json!({
        "severity": d.severity.to_string(),
        "file": l.map(|l| l.file.as_str()),
        "line": l.map(|l| l.line),
        "column": l.map(|l| l.column),
        "message": d.message,
        "expected": d.expected,
        "hint": d.hint,
    })
}

/// The most memory that this process has had so far, in bytes; `None` where the system does not say.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Seconds that this process has been executed for so far, on all cores; `None` where the system does not say.
pub fn cpu_seconds() -> Option<f64> {
    let mut ns = 0u64;
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        ns = ns.saturating_add(stat.split_whitespace().next()?.parse().ok()?);
    }
    Some(ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_for_people() {
        assert_eq!(super::thousands(0), "0");
        assert_eq!(super::thousands(1_234_567), "1,234,567");
        assert!(super::key_value("=x").is_err());
    }
}
