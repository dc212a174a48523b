//! Crates depend downwards, as the table in ARCHITECTURE.md says.

use std::collections::BTreeSet;

/// Which crate must not come to know which, however indirectly, and why.
const NEVER: [(&str, &str, &str); 8] = [
    (
        "element",
        "elements",
        "what an element is does not depend on any of them",
    ),
    (
        "nat",
        "element",
        "bindings are data below the elements that use them",
    ),
    (
        "state",
        "element",
        "states are named and kept without knowing whose they are",
    ),
    ("table", "packet", "tables of words know nothing of packets"),
    ("synth", "elements", "synthesis knows models only"),
    (
        "synth",
        "engine",
        "a program does not depend on who executes it",
    ),
    ("classify", "packet", "look-up structures know keys only"),
    (
        "engine",
        "chain",
        "the engine knows graphs and programs, not chain files",
    ),
];

/// A crate and the crates of the project that it needs to be built (without those of its tests).
#[derive(Debug, PartialEq)]
struct Crate {
    name: String,
    needs: BTreeSet<String>,
}

/// What a crate is called, without `onefold-`.
fn named(manifest: &str) -> Option<String> {
    let name = manifest.lines().find_map(|l| l.strip_prefix("name = "))?;
    let name = name.trim_matches('"');
    Some(match name {
        "onefold" => "cli".to_owned(),
        n => n.strip_prefix("onefold-").unwrap_or(n).to_owned(),
    })
}

/// What a `Cargo.toml` says of the project's crates.
fn needs(manifest: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        }
        let counts = section.ends_with("dependencies") && !section.ends_with("dev-dependencies");
        if counts && let Some(rest) = line.strip_prefix("onefold-") {
            let name = rest
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .next();
            found.extend(name.map(str::to_owned));
        }
    }
    found
}

/// The rows of the table that begins with `| crate |`: the first cell without backticks, the last as a list.
fn table(text: &str) -> Vec<Crate> {
    text.lines()
        .skip_while(|l| !l.starts_with("| crate |"))
        .skip(2)
        .take_while(|l| l.starts_with('|'))
        .map(|l| {
            let cells: Vec<&str> = l.trim_matches('|').split('|').map(str::trim).collect();
            let last = cells.last().copied().unwrap_or_default();
            let needs = last
                .split(',')
                .map(|n| n.trim().trim_matches('`').to_owned());
            Crate {
                name: cells
                    .first()
                    .copied()
                    .unwrap_or_default()
                    .trim_matches('`')
                    .to_owned(),
                needs: needs.filter(|n| !n.is_empty() && n != "nobody").collect(),
            }
        })
        .collect()
}

/// Where the table differs from the manifests, and rows that come before a crate they need.
fn compare(table: &[Crate], real: &[Crate]) -> Vec<String> {
    let mut findings = Vec::new();
    for r in real {
        match table.iter().find(|t| t.name == r.name) {
            None => findings.push(format!("{} has no row", r.name)),
            Some(t) if t.needs != r.needs => {
                findings.push(format!(
                    "{} needs {:?}; its row says {:?}",
                    r.name, r.needs, t.needs
                ));
            }
            Some(_) => {}
        }
    }
    let mut seen = BTreeSet::new();
    for t in table {
        if !real.iter().any(|r| r.name == t.name) {
            findings.push(format!("{} has a row and is no crate", t.name));
        }
        for n in t.needs.iter().filter(|n| !seen.contains(n.as_str())) {
            findings.push(format!("{} comes before {n}, which it needs", t.name));
        }
        seen.insert(t.name.as_str());
    }
    findings
}

/// How `from` comes to need `to`, crate by crate.
fn chain_to(all: &[Crate], from: &str, to: &str) -> Option<Vec<String>> {
    let mut open = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(path) = open.pop() {
        let last = path.last()?;
        if last == to {
            return Some(path);
        }
        if seen.insert(last.clone())
            && let Some(c) = all.iter().find(|c| &c.name == last)
        {
            open.extend(
                c.needs
                    .iter()
                    .map(|n| [&path[..], std::slice::from_ref(n)].concat()),
            );
        }
    }
    None
}

fn forbidden(all: &[Crate], never: &[(&str, &str, &str)]) -> Vec<String> {
    never
        .iter()
        .filter_map(|(from, to, why)| {
            Some(format!("{}: {why}", chain_to(all, from, to)?.join(" -> ")))
        })
        .collect()
}

#[test]
fn crates_depend_downwards() {
    let root = onefold_testing::root();
    let mut real = Vec::new();
    // a folder is a crate, or has crates in it (`ports`)
    let mut open = vec![root.join("crates")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match std::fs::read_to_string(entry.path().join("Cargo.toml")) {
                Ok(manifest) => real.push(Crate {
                    name: named(&manifest).unwrap_or_default(),
                    needs: needs(&manifest),
                }),
                Err(_) if entry.path().is_dir() => open.push(entry.path()),
                Err(_) => {}
            }
        }
    }
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    crate::report(
        "the table of crates in ARCHITECTURE.md",
        &compare(&table(&text), &real),
    );
    crate::report("crates", &forbidden(&real, &NEVER));
}

#[test]
fn dependencies_upwards_are_found() {
    let manifest = "[dependencies]\nonefold-b.workspace = true\nonefold-c = { path = \"../c\" }\nserde = \"1\"\n\
                    [dev-dependencies]\nonefold-d.workspace = true\n[target.'cfg(unix)'.dependencies]\nonefold-e.workspace = true";
    assert_eq!(
        needs(manifest).into_iter().collect::<Vec<_>>(),
        ["b", "c", "e"]
    );

    let is = |name: &str, needs: &[&str]| Crate {
        name: name.to_owned(),
        needs: needs.iter().map(|n| (*n).to_owned()).collect(),
    };
    let real = [is("a", &[]), is("b", &["a"]), is("c", &["b"])];
    let text = "x\n| crate | what | needs |\n|---|---|---|\n| `a` | . | nobody |\n| `b` | . | `a` |\n| `c` | . | b |\n\n| d | . | e |";
    assert_eq!(table(text), real);
    assert!(compare(&real, &real).is_empty());
    assert_eq!(
        compare(&[is("b", &["a"]), is("a", &[]), is("c", &["b"])], &real).len(),
        1,
        "order"
    );
    assert_eq!(
        compare(&[is("a", &[]), is("b", &["a"]), is("c", &["a"])], &real).len(),
        1,
        "another need"
    );
    assert_eq!(compare(&real, &real[..2]).len(), 1, "no such crate");
    assert_eq!(compare(&real[..2], &real).len(), 1, "no row");
    assert_eq!(forbidden(&real, &[("c", "a", "why")]), ["c -> b -> a: why"]);
    assert!(forbidden(&real, &[("a", "c", "why")]).is_empty());
}
