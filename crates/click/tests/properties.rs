//! Properties of any configuration: what is printed reads back as the same graph, and nothing panics.

use onefold_click::{Connection, FlatElement, FlatGraph, Globals, LoadOptions, PortRef, SrcText};
use onefold_click::{diag, load};
use proptest::prelude::*;
use std::collections::BTreeSet;

type Ends = (String, usize, String, usize);

/// What makes two graphs the same: elements in order, connections as a set, requirements.
fn essence(graph: &FlatGraph) -> (Vec<[String; 3]>, BTreeSet<Ends>, Vec<String>) {
    let name = |i: usize| graph.elements[i].name.clone();
    let element = |e: &FlatElement| [e.name.clone(), e.class.clone(), e.config.to_string()];
    let ends = |c: &Connection| {
        (
            name(c.from.element),
            c.from.port,
            name(c.to.element),
            c.to.port,
        )
    };
    (
        graph.elements.iter().map(element).collect(),
        graph.connections.iter().map(ends).collect(),
        graph
            .requirements
            .iter()
            .map(|r| format!("{} {}", r.kind, r.value))
            .collect(),
    )
}

fn read(text: &str, globals: Globals) -> Result<FlatGraph, Vec<diag::Diagnostic>> {
    load(
        text.as_bytes(),
        "generated",
        &[],
        &LoadOptions {
            globals,
            ..LoadOptions::default()
        },
    )
}

fn reads_back(graph: &FlatGraph) -> Result<(), TestCaseError> {
    let text = graph.to_click_text();
    let globals = if graph.defines_kept {
        Globals::Keep
    } else {
        Globals::Substitute
    };
    match read(&text, globals) {
        Ok(again) => {
            prop_assert_eq!(essence(graph), essence(&again), "{}", text);
        }
        Err(errors) => prop_assert!(false, "{}\n{}", text, diag::render_all(&errors, false)),
    }
    Ok(())
}

/// Balanced configuration strings with everything that is hard to lex.
fn config() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        "[a-zA-Z0-9 .:/-]{0,8}"
            .prop_filter("no comment", |s| !s.contains("//") && !s.ends_with('/')),
        Just(", ".to_owned()),
        Just("\"a, )\\\" (\"".to_owned()),
        Just("'(\\'".to_owned()),
        Just("/* ) */".to_owned()),
        Just("// it's )\n".to_owned()),
        Just("\\<00 ff // )\n>".to_owned()),
        Just("$x ${y} '${z-1}'".to_owned()),
        Just("\u{e9}\u{2028}".to_owned()),
        Just("\r\n\t".to_owned()),
    ];
    let leaf = prop::collection::vec(atom, 0..4).prop_map(|v| v.concat());
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop::collection::vec(inner, 1..3).prop_map(|v| format!("({})", v.join("+")))
    })
}

fn graph() -> impl Strategy<Value = FlatGraph> {
    let element = (
        "[a-z]{1,3}(/[a-z]{1,2}@?[0-9]{0,2}){0,2}",
        "[A-Z][a-z]{0,2}",
        config(),
    );
    let connection = (
        any::<prop::sample::Index>(),
        0..4usize,
        any::<prop::sample::Index>(),
        0..4usize,
    );
    (
        prop::collection::vec(element, 1..12),
        prop::collection::vec(connection, 0..24),
    )
        .prop_map(|(elements, connections)| {
            let mut graph = FlatGraph {
                defines_kept: true,
                ..FlatGraph::default()
            };
            let mut sources = onefold_click::source::SourceMap::new();
            let file = sources.add("made", "");
            let span = onefold_click::source::Span::new(file, 0, 0);
            let mut names = BTreeSet::new();
            for (name, class, config) in elements {
                if names.insert(name.clone()) {
                    graph.elements.push(FlatElement {
                        name,
                        anonymous: false,
                        class,
                        config: SrcText::new(config, span),
                        span,
                        compound: None,
                    });
                }
            }
            let mut seen = BTreeSet::new();
            for (from, output, to, input) in connections {
                let from = PortRef {
                    element: from.index(graph.elements.len()),
                    port: output,
                };
                let to = PortRef {
                    element: to.index(graph.elements.len()),
                    port: input,
                };
                if seen.insert((from, to)) {
                    graph.connections.push(Connection { from, to, span });
                }
            }
            graph.sources = sources.into();
            graph
        })
}

/// Texts made of the language's words: some are accepted, most are nearly right.
fn words() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "a",
        "b",
        "c",
        "A",
        "B",
        "C",
        "input",
        "output",
        "->",
        "->",
        "->",
        "=>",
        "::",
        "::",
        ",",
        ";",
        ";",
        "{",
        "}",
        "(",
        ")",
        "(1, K 2, 3)",
        "($a)",
        "[0]",
        "[1]",
        "[0,1]",
        "[0-2]",
        "[]",
        "[1-]",
        "|",
        "||",
        "...",
        "$a |",
        "$a, K $b, __REST__ $c |",
        "elementclass A {",
        "elementclass",
        "elementclass B A;",
        "require(x)",
        "define($a 1, $b $a)",
        "provide",
        "\n# 7 \"f\"\n",
        "// c\n",
        "/* c */",
        "\"",
        "'",
        "\\<",
        "0x1",
        "a/b",
        "x@1",
        "{ -> X($a) -> }",
        "(->)",
        "( -> Y -> )",
        "{ $a | -> X(\"$a\") -> }(2)",
        "a :: A;",
        "b :: B(2) -> a;",
        "elementclass C { -> X -> || ... }",
        "elementclass D { $a | -> X($a) -> || input[1] -> [1]output }",
        "D(3)",
    ];
    prop::collection::vec(prop::sample::select(WORDS), 0..40).prop_map(|words| words.join(" "))
}

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(n: u32) -> ProptestConfig {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    ProptestConfig::with_cases(v.unwrap_or(n))
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_graph_reads_back(graph in graph()) {
        reads_back(&graph)?;
    }

    #[test]
    fn what_is_accepted_reads_back(text in words()) {
        for globals in [Globals::Keep, Globals::Substitute] {
            match read(&text, globals) {
                Ok(graph) => reads_back(&graph)?,
                Err(errors) => {
                    prop_assert!(diag::any_errors(&errors));
                    for error in errors {
                        prop_assert!(error.location.is_some(), "{}", error);
                        prop_assert!(error.render(true).len() < 20_000);
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_handled(bytes: Vec<u8>) {
        if let Err(errors) = load(&bytes, "bytes", &[], &LoadOptions::default()) {
            let _ = diag::render_all(&errors, false);
        }
    }

    #[test]
    fn any_characters_are_handled(text in r#"[aA$b{}()\[\]|,;:>=\-."'\\</*#0-9\n\r é]{0,60}"#) {
        match read(&text, Globals::Keep) {
            Ok(graph) => drop(graph.to_click_text()),
            Err(errors) => drop(diag::render_all(&errors, false)),
        }
    }

    #[test]
    fn every_argument_knows_its_place(configs in prop::collection::vec("[a-z0-9 ]{1,9}", 1..6), column in 0..9usize) {
        let list = configs.join(",");
        let text = format!("{}elementclass C {{ __REST__ $r | A($r) }} C({list})", "\n".repeat(column));
        let graph = read(&text, Globals::Substitute).map_err(|e| TestCaseError::fail(diag::render_all(&e, false)))?;
        for arg in graph.elements[0].args() {
            let Some(span) = arg.span() else { return Err(TestCaseError::fail("no span")) };
            let bytes = graph.sources.bytes(span.file);
            if !arg.is_empty() {
                prop_assert_eq!(&bytes[span.start as usize..span.end as usize], arg.as_bytes());
            }
            prop_assert_eq!(graph.sources.locate(span).line as usize, column + 1);
        }
    }
}
