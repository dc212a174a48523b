//! Any text as a chain file: no panic, bounded time and memory; either a chain whose parts fit together, or errors.

use onefold_chain::{ChainError, Reader, load_text};

/// One input.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    let mut reader = Reader::without_files();
    match load_text(text, "chain.yaml", &[], &mut reader) {
        Ok(chain) => {
            let n = chain.graph.elements.len();
            for c in &chain.graph.connections {
                assert!(c.from.0 < n && c.to.0 < n);
            }
            for p in &chain.ports {
                assert!(
                    p.source
                        .into_iter()
                        .chain(p.sinks.iter().copied())
                        .all(|e| e < n)
                );
            }
        }
        Err(ChainError::Invalid(ds)) => {
            assert!(ds.iter().any(|d| d.is_error()));
            for d in ds.iter().take(20) {
                let _ = d.render(false);
            }
        }
        Err(ChainError::NotFound { .. }) => unreachable!("a text was given"),
    }
}
