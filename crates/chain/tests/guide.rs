//! The chain files of the guide load, and the engine takes them.

use crate::common;

use common::{build, load_in};
use std::path::{Path, PathBuf};

fn guide() -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn chain_files_of_the_guide() {
    let text = guide();
    let mut kinds = Vec::new();
    for part in text.split("```yaml\n").skip(1) {
        let yaml = part.split("```").next().unwrap();
        let chain = load_in(Path::new("."), yaml)
            .unwrap_or_else(|e| panic!("{}\nof\n{yaml}", e.join("\n")));
        build(&chain);
        kinds.extend(chain.functions.iter().map(|f| f.kind));
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "click",
            "dpi",
            "external",
            "firewall",
            "load-balancer",
            "monitor",
            "nat",
            "native",
            "router",
            "vlan"
        ]
    );
}
