//! Files that the texts for contributors name exist.

use crate::tree::{self, Source};
use std::path::Path;

/// The texts that lead through the sources.
const TEXTS: [&str; 3] = ["ARCHITECTURE.md", "CONTRIBUTING.md", INDEX];
/// The index of decisions.
const INDEX: &str = "docs/decisions/README.md";
/// Where a path may begin, from the root.
const BASES: [&str; 5] = [
    "",
    "crates",
    "crates/engine/src",
    "docs/decisions",
    "crates/testing/tests/hygiene",
];
/// Folders of the root that a path may begin with.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "chains/", "scripts/", "fuzz/"];
/// Endings of files that are named.
const ENDINGS: [&str; 5] = [".rs", ".md", ".toml", ".txt", ".sh"];

/// The paths that a text names: in backticks, as targets of links, and decisions by number (`docs/decisions/0001`).
fn named(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let spans = line.split('`').skip(1).step_by(2).filter(|s| is_path(s));
        let links = line
            .split("](")
            .skip(1)
            .filter_map(|l| l.split(')').next())
            .filter(|l| !l.contains("://"));
        let decisions = line.split("docs/decisions/").skip(1).map(|l| {
            let number: String = l.chars().take_while(|c| c.is_ascii_digit()).collect();
            format!("docs/decisions/{number}")
        });
        let links = links.map(|l| l.split('#').next().unwrap_or_default());
        found.extend(
            spans
                .chain(links)
                .map(str::to_owned)
                .chain(decisions)
                .map(|p| (i + 1, p)),
        );
    }
    found.retain(|(_, p)| !p.is_empty() && p != "docs/decisions/");
    found
}

/// Whether what is in backticks names a file or folder.
fn is_path(span: &str) -> bool {
    let plain = span
        .bytes()
        .all(|c| c.is_ascii_alphanumeric() || b"_./-".contains(&c));
    let ends = ENDINGS
        .iter()
        .any(|e| span.ends_with(e) && span.len() > e.len());
    plain && (ends || FOLDERS.iter().any(|f| span.starts_with(f)))
}

/// Whether a path is there, from one of the [`BASES`]; the end of a source's path will do, and a decision's number.
fn exists(root: &Path, sources: &[Source], path: &str) -> bool {
    let end = format!("/{path}");
    BASES.iter().any(|b| root.join(b).join(path).exists())
        || sources.iter().any(|s| s.path.ends_with(&end))
        || (path.starts_with("docs/decisions/")
            && tree::files(root, "docs/decisions", "md")
                .iter()
                .any(|f| f.starts_with(path)))
        || path.contains("NNNN")
}

/// Decisions that the index has no link to.
fn unlisted(index: &str, decisions: &[String]) -> Vec<String> {
    let missing =
        |d: &&String| !index.contains(&format!("]({})", d.rsplit('/').next().unwrap_or_default()));
    decisions
        .iter()
        .filter(|d| !d.ends_with("README.md"))
        .filter(missing)
        .cloned()
        .collect()
}

#[test]
fn every_decision_is_in_the_index() {
    let root = onefold_testing::root();
    let index =
        std::fs::read_to_string(root.join(INDEX)).unwrap_or_else(|e| panic!("{INDEX}: {e}"));
    crate::report(
        INDEX,
        &unlisted(&index, &tree::files(&root, "docs/decisions", "md")),
    );
    let decisions = [
        "d/0001-a.md".to_owned(),
        "d/0002-b.md".to_owned(),
        "d/README.md".to_owned(),
    ];
    assert_eq!(unlisted("| [1](0001-a.md) |", &decisions), ["d/0002-b.md"]);
}

#[test]
fn paths_in_texts_exist() {
    let root = onefold_testing::root();
    let mut gone = Vec::new();
    for name in TEXTS {
        let text =
            std::fs::read_to_string(root.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        for (line, path) in named(&text) {
            if !exists(&root, tree::sources(), &path) {
                gone.push(format!("{name}:{line}: {path} does not exist"));
            }
        }
    }
    crate::report("paths", &gone);
}

#[test]
fn paths_are_found() {
    let text = "see `crates/a` and `a/src/b.rs`, `x/y` `.rs`\n```\n`c.rs`\n```\n[d](docs/d.md#e) docs/decisions/0001, `f`";
    let found: Vec<(usize, String)> = named(text);
    let want = [
        (1, "crates/a"),
        (1, "a/src/b.rs"),
        (5, "docs/d.md"),
        (5, "docs/decisions/0001"),
    ];
    assert_eq!(found, want.map(|(l, p)| (l, p.to_owned())));
    let root = onefold_testing::root();
    let sources = [Source::new("crates/a/src/b.rs", "")];
    for there in ["docs/decisions/0001", "testing/src/lib.rs", "src/b.rs"] {
        assert!(exists(&root, &sources, there), "{there}");
    }
    for gone in ["docs/decisions/0000", "testing/src/gone.rs", "rc/b.rs"] {
        assert!(!exists(&root, &sources, gone), "{gone}");
    }
}
