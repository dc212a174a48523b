//! The example chains.

use onefold_chain::Chain;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use std::path::{Path, PathBuf};

/// Where they are.
pub fn folder() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    root.unwrap().join("chains")
}

/// An example chain by its name, and its graph.
#[allow(dead_code)]
pub fn load(name: &str) -> (Chain, Graph) {
    let options = onefold_chain::Options {
        set: Vec::new(),
        examples: vec![folder()],
    };
    let chain = onefold_chain::load(name, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let options = BuildOptions {
        start: Timestamp::from_secs(1000),
        ..Default::default()
    };
    let graph = Graph::build(chain.graph.clone(), &options)
        .unwrap_or_else(|e| panic!("{name}: {} errors", e.0.len()));
    (chain, graph)
}
