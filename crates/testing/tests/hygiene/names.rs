//! No names of the project's former private language where the field has a term.

use crate::list;
use crate::scan;
use crate::tree::{self, Source};
use std::collections::BTreeSet;

/// Words that a name stands behind where an item is defined.
const KINDS: [&str; 7] = ["struct", "enum", "union", "trait", "type", "fn", "mod"];

/// A word of `names.txt`.
struct Word {
    word: String,
    /// The field's term.
    term: String,
    /// Beginnings of paths below `crates/` where the word would have its former sense.
    places: Vec<String>,
}

/// An item with a word as its name.
struct Hit<'a> {
    path: &'a str,
    line: usize,
    word: &'a Word,
}

/// Items outside of tests with a word as their name, where the word has the former sense.
fn hits<'a>(sources: &'a [Source], words: &'a [Word]) -> Vec<Hit<'a>> {
    let mut found = Vec::new();
    for s in sources.iter().filter(|s| !s.test) {
        let here: Vec<&Word> = words
            .iter()
            .filter(|w| {
                w.places
                    .iter()
                    .any(|p| s.path.starts_with(&format!("crates/{p}")))
            })
            .collect();
        let mut before = "";
        for (at, name) in scan::words(&s.product) {
            if KINDS.contains(&before)
                && let Some(word) = here.iter().find(|w| w.word == name)
            {
                found.push(Hit {
                    path: &s.path,
                    line: scan::line_of(&s.product, at),
                    word,
                });
            }
            before = name;
        }
    }
    found
}

/// What of `hits` is not in `kept` (path, word, reason), and what of `kept` is in vain.
fn findings(hits: &[Hit<'_>], kept: &[Vec<String>]) -> Vec<String> {
    let mut used = BTreeSet::new();
    let mut findings = Vec::new();
    for h in hits {
        match kept
            .iter()
            .position(|k| k[0] == h.path && k[1] == h.word.word)
        {
            Some(i) => drop(used.insert(i)),
            None => findings.push(format!(
                "{}:{}: {}: the field says {}",
                h.path, h.line, h.word.word, h.word.term
            )),
        }
    }
    for (i, k) in kept.iter().enumerate().filter(|(i, _)| !used.contains(i)) {
        findings.push(format!(
            "names_kept.txt, entry {}: nothing is called {} in {}",
            i + 1,
            k[1],
            k[0]
        ));
    }
    findings
}

/// The words of `names.txt`; `*` stands for the crates of the packet path.
fn dictionary(entries: &[Vec<String>]) -> Vec<Word> {
    let path = [
        "engine/",
        "classify/",
        "packet/",
        "table/",
        "state/",
        "nat/",
        "element/",
        "verify/",
    ];
    entries
        .iter()
        .map(|f| Word {
            word: f[0].clone(),
            term: f[1].clone(),
            places: f[2]
                .split_whitespace()
                .flat_map(|p| if p == "*" { path.to_vec() } else { vec![p] })
                .map(str::to_owned)
                .collect(),
        })
        .collect()
}

#[test]
fn names() {
    let words = dictionary(&list::read("names.txt", 3));
    crate::report(
        "names",
        &findings(
            &hits(tree::sources(), &words),
            &list::read("names_kept.txt", 3),
        ),
    );
}

#[test]
fn places_of_names_exist() {
    let gone: Vec<String> = dictionary(&list::read("names.txt", 3))
        .iter()
        .flat_map(|w| {
            w.places
                .iter()
                .map(|p| format!("{}: no crates/{p}", w.word))
        })
        .filter(|f| {
            !onefold_testing::root()
                .join(f.rsplit(' ').next().unwrap_or_default())
                .exists()
        })
        .collect();
    crate::report("names.txt", &gone);
}

#[test]
fn names_are_found() {
    let words = dictionary(&[
        vec!["Way".into(), "FlowAction".into(), "*".into()],
        vec![
            "short".into(),
            "batch_exec".into(),
            "engine/src/program".into(),
        ],
    ]);
    let sources = [
        Source::new(
            "crates/engine/src/program/a.rs",
            "// struct Way\npub(crate) struct Way<'a>(&'a str);\nmod short;",
        ),
        Source::new(
            "crates/engine/src/flow/a.rs",
            "fn short() -> Wayward { \"fn Way\" }\n#[cfg(test)]\nmod t { struct Way; }",
        ),
        Source::new("crates/chain/src/a.rs", "struct Way;"),
        Source::new("crates/engine/tests/a.rs", "struct Way;"),
    ];
    let found = hits(&sources, &words);
    let all: Vec<(&str, usize, &str)> = found
        .iter()
        .map(|h| (h.path, h.line, h.word.word.as_str()))
        .collect();
    let path = "crates/engine/src/program/a.rs";
    assert_eq!(all, [(path, 2, "Way"), (path, 3, "short")]);

    let kept = |path: &str, word: &str| vec![path.to_owned(), word.to_owned(), "reason".to_owned()];
    assert_eq!(findings(&found, &[]).len(), 2);
    assert!(findings(&found, &[kept(path, "Way"), kept(path, "short")]).is_empty());
    assert_eq!(
        findings(
            &found,
            &[kept(path, "Way"), kept(path, "short"), kept(path, "Act")]
        )
        .len(),
        1,
        "in vain"
    );
}
