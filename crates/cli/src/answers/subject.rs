//! A chain to be asked about: loaded, built, synthesized. A rule file alone is one, too: a firewall that has nothing
//! but these rules.

use crate::cmd::trace::{Copied, copied};
use crate::common;
use crate::program;
use anyhow::{Context, Result};
use onefold_chain::{Chain, ChainError, Reader};
use onefold_engine::{BuildOptions, Graph, Log};
use onefold_packet::Timestamp;
use onefold_synth::Program;
use onefold_verify::answers::differ::Compared;
use onefold_verify::generate::Port;
use onefold_verify::prove::{Options, prove_with};
use std::path::Path;
use std::time::Duration;

/// When packets arrive that are shown.
const AT: Timestamp = Timestamp::from_secs(1_000);

/// How the chain that a rule file stands for is called.
pub const FIREWALL: &str = "(a firewall of ";

/// A chain, ready to be asked about.
pub struct Subject {
    /// As it was named.
    pub name: String,
    /// It is a rule file.
    pub rules: bool,
    /// The chain.
    pub chain: Chain,
    /// Its graph, as it begins.
    pub graph: Graph,
    /// Its program.
    pub program: Program,
    /// Its ports.
    pub ports: Vec<Port>,
}

/// A rule file by itself: no chain file and no Click configuration.
fn is_rule_file(name: &str) -> bool {
    let path = Path::new(name);
    let ends = |e: &str| path.extension().is_some_and(|x| x == e);
    if !path.is_file() || ends("click") || ends("yaml") || ends("yml") {
        return false;
    }
    let chain = |t: String| t.lines().any(|l| l.starts_with("functions:"));
    std::fs::read_to_string(path).is_ok_and(|t| !chain(t))
}

/// A firewall of these rules.
fn firewall(name: &str) -> Result<Chain, ChainError> {
    let path = Path::new(name);
    let dir = path.parent().unwrap_or(Path::new("."));
    let file = path
        .file_name()
        .map_or(name.into(), |f| f.to_string_lossy());
    // a string of JSON is one of YAML
    let file = serde_json::Value::from(file.as_ref());
    let text = format!(
        "functions:\n  fw:\n    firewall:\n      rules-file: {file}\nports:\n  inside: fw[0]\n  outside: fw[1]\n"
    );
    let shown = format!("{FIREWALL}{name})");
    onefold_chain::load_text(&text, &shown, &[], &mut Reader::new(dir))
}

impl Subject {
    /// Loads a chain, or a rule file; errors are printed, and `None` comes back.
    pub fn load(name: &str, set: &[(String, String)]) -> Option<Subject> {
        let args = common::ChainArgs {
            chain: name.to_string(),
            set: set.to_vec(),
        };
        let rules = is_rule_file(name);
        let loaded = match rules {
            true => firewall(name),
            false => args.load(),
        };
        let chain = match loaded {
            Ok(c) => c,
            Err(e) => {
                common::print_diagnostics(&common::chain_error(&e));
                return None;
            }
        };
        common::print_diagnostics(&chain.warnings);
        let options = BuildOptions {
            start: AT,
            log: Log::Discard,
            ..BuildOptions::default()
        };
        let graph = match common::build(&chain, &options) {
            Ok(g) => g,
            Err(ds) => {
                common::print_diagnostics(&ds);
                return None;
            }
        };
        let program = program::synthesize_graph(&graph).program;
        Some(Subject {
            name: name.to_string(),
            rules,
            ports: crate::cmd::verify::ports(&chain),
            chain,
            graph,
            program,
        })
    }

    /// As it is compared and asked.
    pub fn compared(&self) -> Compared<'_> {
        Compared {
            graph: &self.graph,
            program: &self.program,
            ports: &self.ports,
        }
    }

    /// Is the program the chain, for all packets? Within a time.
    pub fn is_proved(&self, limit: Duration) -> bool {
        let options = Options {
            time_limit: Some(limit),
            ..Options::default()
        };
        let input = self.graph.synthesis_input();
        let finer = |e, p| self.graph.finer_model(e, p);
        prove_with(&input, &self.program, &options, &finer).holds()
    }

    /// A packet's way through the chain as it is written: as JSON, and as text.
    ///
    /// # Errors
    /// The chain has no such port.
    pub fn trace(&self, port: &str, frame: &[u8]) -> Result<(serde_json::Value, Vec<String>)> {
        let c = Copied {
            chain: &self.chain,
            port,
            frame,
            at: AT,
            graph: self.graph.fork(),
            program: None,
        };
        copied(c).context("the packet's trace")
    }
}
