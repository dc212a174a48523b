//! Any bytes as a Click configuration: no panic, bounded time and memory, and what is accepted reads back as the same
//! graph.

use onefold_click::{FlatGraph, Globals, LoadOptions, conf, diag, load};
use std::collections::BTreeSet;

fn read(text: &[u8], globals: Globals) -> Result<FlatGraph, Vec<diag::Diagnostic>> {
    let options = LoadOptions {
        globals,
        ..LoadOptions::default()
    };
    load(
        text,
        "fuzz",
        &[("given".to_owned(), "a, \"b\" $x".to_owned())],
        &options,
    )
}

fn essence(
    graph: &FlatGraph,
) -> (
    Vec<(&str, &str, &str)>,
    BTreeSet<(usize, usize, usize, usize)>,
) {
    (
        graph
            .elements
            .iter()
            .map(|e| (e.name.as_str(), e.class.as_str(), e.config.as_str()))
            .collect(),
        graph
            .connections
            .iter()
            .map(|c| (c.from.element, c.from.port, c.to.element, c.to.port))
            .collect(),
    )
}

/// One input.
pub fn run(bytes: &[u8]) {
    for globals in [Globals::Keep, Globals::Substitute] {
        let graph = match read(bytes, globals) {
            Ok(graph) => graph,
            Err(errors) => {
                assert!(diag::any_errors(&errors));
                // Showing them takes far longer than finding them.
                diag::render_all(&errors[..errors.len().min(2)], false);
                continue;
            }
        };
        diag::render_all(&graph.warnings[..graph.warnings.len().min(2)], true);
        for element in &graph.elements {
            for arg in element.args() {
                conf::unquote(&arg);
                arg.split_spaces();
                graph.sources.locate(arg.span().unwrap_or(element.span));
            }
        }
        // A reference that is left over may mean something the second time.
        if graph.elements.iter().any(|e| e.config.contains('$'))
            || !graph.defines.iter().all(|(_, v)| !v.contains('$'))
        {
            continue;
        }
        let text = graph.to_click_text();
        match read(text.as_bytes(), globals) {
            Ok(again) => assert_eq!(essence(&graph), essence(&again), "{text}"),
            Err(errors) => panic!("{text}\n{}", diag::render_all(&errors, false)),
        }
    }
}
