//! Lengths of functions, files and lines against lists that only shrink.

use crate::list;
use crate::tree::{self, Source};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lines that a file may have.
const FILE_LIMIT: usize = 600;
/// Characters that a line may have.
const LINE_LIMIT: usize = 120;
/// By how much the count of long lines of a crate may be below its entry: crates are worked on in parallel.
const LINE_SLACK: usize = 20;

/// Something that is too long: a function of a file, a file (its name is its path's last part), long lines of a crate.
#[derive(Clone, Debug, PartialEq)]
pub struct Long {
    pub path: String,
    pub name: String,
    pub lines: usize,
}

/// Compares what is too long with a list (`path | name | lines`), and lowers the list if the environment asks for it.
/// An entry may be above what is found by `slack`.
///
/// # Panics
/// With what is new, has grown, is no longer too long, or has become shorter.
pub fn hold(name: &str, found: &[Long], slack: usize) {
    let entries: Vec<Long> = list::read(name, 3)
        .into_iter()
        .map(|f| Long {
            lines: f[2]
                .parse()
                .unwrap_or_else(|_| panic!("{name}: not a number: {}", f[2])),
            path: f[0].clone(),
            name: f[1].clone(),
        })
        .collect();
    if std::env::var("ONEFOLD_HYGIENE").as_deref() == Ok("lower") {
        let text = list::heading(name) + &lowered(&entries, found);
        std::fs::write(list::file(name), text).unwrap_or_else(|e| panic!("{name}: {e}"));
        return;
    }
    crate::report(name, &compare(&entries, found, slack));
}

/// Both sides by path and name; a file may have several functions of one name: their lines, longest first.
fn by_name(all: &[Long]) -> BTreeMap<(&str, &str), Vec<usize>> {
    let mut map: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for l in all {
        map.entry((&l.path, &l.name)).or_default().push(l.lines);
    }
    for lines in map.values_mut() {
        lines.sort_by(|a, b| b.cmp(a));
    }
    map
}

fn compare(entries: &[Long], found: &[Long], slack: usize) -> Vec<String> {
    let (entries, found) = (by_name(entries), by_name(found));
    let mut findings = Vec::new();
    for (key @ (path, name), lines) in &found {
        let listed = entries.get(key).map_or(&[][..], Vec::as_slice);
        for (i, &n) in lines.iter().enumerate() {
            match listed.get(i) {
                None => findings.push(format!("{path}: {name} is too long: {n}")),
                Some(&l) if n > l => {
                    findings.push(format!("{path}: {name} has grown from {l} to {n}"))
                }
                Some(&l) if n + slack < l => findings.push(format!(
                    "{path}: {name} is down from {l} to {n}: lower its entry"
                )),
                _ => {}
            }
        }
    }
    for (key @ (path, name), listed) in &entries {
        if found.get(key).map_or(0, Vec::len) < listed.len() {
            findings.push(format!(
                "{path}: {name} is not too long any more: take out its entry"
            ));
        }
    }
    findings
}

/// The list as it may be now: what is found, as far as an entry allows it. A moved function or file (same name, no
/// longer) takes the entry of the old place with it.
fn lowered(entries: &[Long], found: &[Long]) -> String {
    let mut left = entries.to_vec();
    let mut kept = Vec::new();
    for same_path in [true, false] {
        for f in found {
            if kept.contains(f) {
                continue;
            }
            let fits = |e: &Long| {
                e.name == f.name && e.lines >= f.lines && (!same_path || e.path == f.path)
            };
            if let Some(i) = left.iter().position(fits) {
                left.remove(i);
                kept.push(f.clone());
            }
        }
    }
    kept.sort_by(|a, b| (&a.path, &a.name).cmp(&(&b.path, &b.name)));
    kept.iter().fold(String::new(), |mut text, l| {
        let _ = writeln!(text, "{} | {} | {}", l.path, l.name, l.lines);
        text
    })
}

fn long_files_of(sources: &[Source], limit: usize) -> Vec<Long> {
    sources
        .iter()
        .map(|s| Long {
            path: s.path.clone(),
            name: s.path.rsplit('/').next().unwrap_or_default().to_owned(),
            lines: s.text.lines().count(),
        })
        .filter(|l| l.lines > limit)
        .collect()
}

/// Lines of more than `limit` characters, by crate or folder.
fn long_lines_of<'a>(texts: impl Iterator<Item = (&'a str, &'a str)>, limit: usize) -> Vec<Long> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in texts {
        // a row of a table cannot be broken
        let row = |l: &&str| path.ends_with(".md") && l.starts_with('|');
        let n = text
            .lines()
            .filter(|l| l.chars().count() > limit && !row(l))
            .count();
        let mut parts = path.split('/');
        let place = match (parts.next(), parts.next()) {
            (Some("crates"), Some(c)) => format!("crates/{c}"),
            (Some(top), Some(_)) => top.to_owned(),
            _ => ".".to_owned(),
        };
        if n > 0 {
            *counts.entry(place).or_default() += n;
        }
    }
    counts
        .into_iter()
        .map(|(path, lines)| Long {
            path,
            name: "lines".to_owned(),
            lines,
        })
        .collect()
}

#[test]
fn long_files() {
    hold(
        "long_files.txt",
        &long_files_of(tree::sources(), FILE_LIMIT),
        0,
    );
}

#[test]
fn long_lines() {
    let root = onefold_testing::root();
    let prose: Vec<(String, String)> = tree::files(&root, ".", "md")
        .into_iter()
        .map(|path| {
            (
                path.clone(),
                std::fs::read_to_string(root.join(&path)).unwrap_or_default(),
            )
        })
        .collect();
    let prose = prose
        .iter()
        .map(|(p, t)| (p.trim_start_matches("./"), t.as_str()));
    let code = tree::sources()
        .iter()
        .map(|s| (s.path.as_str(), s.text.as_str()));
    let found = long_lines_of(code.chain(prose), LINE_LIMIT);
    hold("long_lines.txt", &found, LINE_SLACK);
}

fn l(path: &str, name: &str, lines: usize) -> Long {
    Long {
        path: path.into(),
        name: name.into(),
        lines,
    }
}

#[test]
fn lists_only_shrink() {
    let listed = [l("a.rs", "f", 120), l("a.rs", "f", 110)];
    let findings = |found: &[Long]| compare(&listed, found, 0).len();
    assert_eq!(findings(&listed), 0);
    assert_eq!(
        findings(&[l("a.rs", "f", 120), l("a.rs", "f", 111)]),
        1,
        "grown"
    );
    assert_eq!(
        findings(&[l("a.rs", "f", 119), l("a.rs", "f", 110)]),
        1,
        "smaller: the entry is lowered"
    );
    assert_eq!(
        findings(&[l("a.rs", "f", 120)]),
        1,
        "short enough: the entry goes"
    );
    assert_eq!(
        compare(&listed, &[&listed[..], &[l("b.rs", "g", 101)]].concat(), 0).len(),
        1,
        "new"
    );
    assert!(
        compare(&listed, &[l("a.rs", "f", 110), l("a.rs", "f", 100)], 10).is_empty(),
        "slack"
    );
}

#[test]
fn lists_are_lowered_not_raised() {
    let listed = [
        l("a.rs", "f", 120),
        l("a.rs", "g", 110),
        l("a.rs", "h", 105),
    ];
    let now = [
        l("a.rs", "f", 115),
        l("a.rs", "g", 111),
        l("b.rs", "h", 105),
        l("b.rs", "i", 130),
    ];
    assert_eq!(lowered(&listed, &now), "a.rs | f | 115\nb.rs | h | 105\n");
}

#[test]
fn long_files_and_lines_are_found() {
    let files = [
        Source::new("crates/a/src/b.rs", "1\n2\n3\n"),
        Source::new("crates/a/src/c.rs", "1\n2\n"),
    ];
    assert_eq!(
        long_files_of(&files, 2),
        [l("crates/a/src/b.rs", "b.rs", 3)]
    );
    let texts = [
        ("crates/a/src/b.rs", "äöü\näöüß\n"),
        ("docs/x.md", "12345\n|1234|"),
        ("R.md", "1"),
    ];
    assert_eq!(
        long_lines_of(texts.into_iter(), 3),
        [l("crates/a", "lines", 1), l("docs", "lines", 1)]
    );
}
