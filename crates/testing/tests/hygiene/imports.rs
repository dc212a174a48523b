//! Modules import downwards: no circles within the rooms of the engine, and the rooms in their order.
//!
//! A module is a file. It imports another one by a `use` or by a path within its code (`crate::`, `super::`, `self::`),
//! tests and comments left out. A name that a `mod.rs` or `lib.rs` passes on counts as imported from where it is
//! defined, and passing on is no import.

use crate::list;
use crate::scan;
use crate::tree::{self, Source};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The rooms of the engine, lowest first: a room imports from those before it. Files beside the rooms count as one.
const ROOMS: [&str; 7] = [
    "simd", "level", "graph", "program", "flow", "shadow", "executor",
];
/// Rooms without circles, file by file.
const NO_CIRCLES: [&str; 3] = ["program", "flow", "shadow"];
/// Rooms whose parts (files and folders) import each other in one direction only.
const NO_CIRCLES_OF_PARTS: [&str; 2] = ["program", "flow"];
/// How many times a name is passed on at most.
const MAX_PASSED_ON: usize = 8;

/// A module within its crate: `["program", "lookup"]`; the crate's root is empty.
type Module = Vec<String>;

/// One name of a `use`.
struct Use {
    /// As written, `self` at the end left out.
    path: Vec<String>,
    /// What it is called here; `*` for all.
    name: String,
    /// Whether others may import it from here.
    public: bool,
}

/// What is known of a module's text.
#[derive(Default)]
struct Text {
    file: String,
    /// Modules from which it imports, as absolute paths of names.
    wants: Vec<Vec<String>>,
    /// Names that it passes on: what they are called here, and the absolute path.
    passes_on: Vec<(String, Vec<String>)>,
    defines: BTreeSet<String>,
}

/// Which file imports which names from which files.
type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The module that a path from `src` is.
fn module_of(file: &str) -> Module {
    let mut parts: Module = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if parts
        .last()
        .is_some_and(|l| l == "mod" || l == "lib" || l == "main")
    {
        parts.pop();
    }
    parts
}

/// The names of a tree like `a::{b::C, d as e, self}`, below `base`.
fn expand(tree: &str, base: &[String], out: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    let (head, body) = match tree.split_once('{') {
        Some((head, rest)) => (head, rest.rsplit_once('}').map(|(body, _)| body)),
        None => (tree, None),
    };
    let (head, alias) = head.split_once(" as ").unwrap_or((head, ""));
    let mut path = base.to_vec();
    path.extend(
        head.split("::")
            .map(str::trim)
            .filter(|p| !p.is_empty())
            .map(str::to_owned),
    );
    let Some(body) = body else {
        if path.last().is_some_and(|l| l == "self") && path.len() > 1 {
            path.pop();
        }
        let name = if alias.is_empty() {
            path.last().cloned().unwrap_or_default()
        } else {
            alias.trim().to_owned()
        };
        if !path.is_empty() {
            out.push((path, name));
        }
        return;
    };
    let (mut depth, mut start) = (0, 0);
    for (i, c) in body.char_indices().chain([(body.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !body[start..i].trim().is_empty() {
                    expand(&body[start..i], &path, out);
                }
                start = i + 1;
            }
            _ => {}
        }
    }
}

/// The `use`s of a text, with the place of each, and the text without them.
fn uses(code: &str) -> (Vec<(usize, Use)>, String) {
    let mut found = Vec::new();
    let mut rest = code.as_bytes().to_vec();
    for (at, word) in scan::words(code) {
        // `use<'a>` in a type captures lifetimes
        if word != "use" || code[at + 3..].trim_start().starts_with('<') {
            continue;
        }
        let Some(end) = code[at..].find(';').map(|n| at + n) else {
            continue;
        };
        let before = code[..at].trim_end();
        let public = before.ends_with("pub")
            || (before.ends_with(')')
                && before
                    .rsplit('(')
                    .nth(1)
                    .is_some_and(|b| b.ends_with("pub")));
        let mut names = Vec::new();
        expand(&code[at + 3..end], &[], &mut names);
        found.extend(
            names
                .into_iter()
                .map(|(path, name)| (at, Use { path, name, public })),
        );
        rest[at..end].fill(b' ');
    }
    (found, String::from_utf8_lossy(&rest).into_owned())
}

/// Paths within code that begin with `crate`, `self` or `super`.
fn inline_paths(code: &str) -> Vec<(usize, Vec<String>)> {
    let words: Vec<(usize, &str)> = scan::words(code).collect();
    let mut found = Vec::new();
    let mut i = 0;
    while i < words.len() {
        let (at, word) = words[i];
        let mut path = vec![word.to_owned()];
        while let (Some((a, w)), Some((b, next))) = (words.get(i), words.get(i + 1))
            && code[a + w.len()..*b].trim() == "::"
        {
            path.push((*next).to_owned());
            i += 1;
        }
        if path.len() > 1 && matches!(word, "crate" | "self" | "super") {
            found.push((at, path));
        }
        i += 1;
    }
    found
}

/// Modules that are written within the file: where they begin and end, and their names.
fn inner_modules(code: &str) -> Vec<(usize, usize, String)> {
    let words: Vec<(usize, &str)> = scan::words(code).collect();
    words
        .windows(2)
        .filter(|w| w[0].1 == "mod")
        .filter_map(|w| {
            let (at, name) = w[1];
            let end = scan::end_of_item(code.as_bytes(), at + name.len())?;
            code[..end]
                .ends_with('}')
                .then(|| (at, end, name.to_owned()))
        })
        .collect()
}

/// A path as written at a place of a module, from the crate's root; `None` where it leads out of the crate.
fn absolute(
    module: &Module,
    inner: &[(usize, usize, String)],
    at: usize,
    path: &[String],
) -> Option<Vec<String>> {
    let mut base: Module = match path.first()?.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => {
            let within = inner
                .iter()
                .filter(|(from, to, _)| *from < at && at < *to)
                .map(|(_, _, n)| n.clone());
            module.iter().cloned().chain(within).collect()
        }
        _ => return None,
    };
    for p in path {
        match p.as_str() {
            "crate" | "self" => {}
            "super" => drop(base.pop()),
            _ => base.push(p.clone()),
        }
    }
    Some(base)
}

/// The modules of a crate. `folder` is its `src`, with `/` at its end.
fn modules(sources: &[Source], folder: &str) -> BTreeMap<Module, Text> {
    let mut all = BTreeMap::new();
    for s in sources.iter().filter(|s| !s.test) {
        let Some(file) = s.path.strip_prefix(folder) else {
            continue;
        };
        let module = module_of(file);
        let inner = inner_modules(&s.product);
        let (uses, rest) = uses(&s.product);
        let mut text = Text {
            file: file.to_owned(),
            ..Text::default()
        };
        let passing = ["mod.rs", "lib.rs", "main.rs"]
            .iter()
            .any(|n| file.ends_with(n));
        for (at, u) in uses {
            let Some(path) = absolute(&module, &inner, at, &u.path) else {
                continue;
            };
            if u.public {
                text.passes_on.push((u.name, path.clone()));
            }
            if !(u.public && passing) {
                text.wants.push(path);
            }
        }
        text.wants.extend(
            inline_paths(&rest)
                .iter()
                .filter_map(|(at, p)| absolute(&module, &inner, *at, p)),
        );
        let words: Vec<&str> = scan::words(&rest).map(|(_, w)| w).collect();
        let kinds = [
            "struct",
            "enum",
            "union",
            "trait",
            "type",
            "fn",
            "const",
            "static",
            "macro_rules",
        ];
        text.defines = words
            .windows(2)
            .filter(|w| kinds.contains(&w[0]))
            .map(|w| w[1].to_owned())
            .collect();
        all.insert(module, text);
    }
    all
}

/// The file in which the name at the end of an absolute path is defined, and the name.
fn defined_in<'a>(
    all: &'a BTreeMap<Module, Text>,
    path: &[String],
    left: usize,
) -> Option<(&'a Text, String)> {
    let n = (0..=path.len())
        .rev()
        .find(|&n| all.contains_key(&path[..n]))?;
    let text = &all[&path[..n]];
    let Some(name) = path.get(n) else {
        return Some((text, "self".to_owned()));
    };
    if left > 0 && !text.defines.contains(name) {
        let by_name = text.passes_on.iter().find(|(as_name, _)| as_name == name);
        if let Some((_, to)) = by_name {
            return defined_in(all, to, left - 1);
        }
        for (_, to) in text.passes_on.iter().filter(|(as_name, _)| as_name == "*") {
            let to = [&to[..to.len() - 1], std::slice::from_ref(name)].concat();
            if let Some((t, found)) = defined_in(all, &to, left - 1)
                && t.defines.contains(&found)
            {
                return Some((t, found));
            }
        }
    }
    Some((text, name.clone()))
}

/// Who imports what from whom, in a crate.
fn graph(sources: &[Source], folder: &str) -> Graph {
    let all = modules(sources, folder);
    let mut graph = Graph::new();
    for text in all.values() {
        for path in &text.wants {
            if let Some((from, name)) = defined_in(&all, path, MAX_PASSED_ON)
                && from.file != text.file
            {
                let edges = graph.entry(text.file.clone()).or_default();
                edges.entry(from.file.clone()).or_default().insert(name);
            }
        }
    }
    graph
}

/// The part of a graph below a folder, with files taken together that are in one of its parts if `parts`.
fn within(graph: &Graph, folder: &str, parts: bool) -> Graph {
    let key = |file: &str| {
        let rest = file.strip_prefix(folder)?.strip_prefix('/')?;
        Some(match (parts, rest.split_once('/')) {
            (true, Some((part, _))) => format!("{folder}/{part}/"),
            _ => file.to_owned(),
        })
    };
    let mut out = Graph::new();
    for (from, edges) in graph {
        for (to, names) in edges {
            if let (Some(from), Some(to)) = (key(from), key(to))
                && from != to
            {
                out.entry(from)
                    .or_default()
                    .entry(to)
                    .or_default()
                    .extend(names.iter().cloned());
            }
        }
    }
    out
}

/// The shortest circles, each once, as a text: file by file with what is imported.
fn circles(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for start in graph.keys() {
        let Some(circle) = circle_from(graph, start) else {
            continue;
        };
        let mut files = circle.clone();
        files.sort();
        if !seen.insert(files) {
            continue;
        }
        let steps = circle
            .iter()
            .zip(circle.iter().cycle().skip(1))
            .map(|(a, b)| {
                let names: Vec<&str> = graph[a][b].iter().take(5).map(String::as_str).collect();
                format!("{a} -> {b} ({})", names.join(", "))
            });
        found.push(steps.collect::<Vec<_>>().join(", "));
    }
    found
}

/// A shortest circle through a file, that file first.
fn circle_from(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut open = VecDeque::from([start]);
    while let Some(at) = open.pop_front() {
        for next in graph.get(at).into_iter().flat_map(BTreeMap::keys) {
            if next == start {
                let mut circle = vec![at.to_owned()];
                let mut back = at;
                while back != start {
                    back = before[back];
                    circle.push(back.to_owned());
                }
                circle.reverse();
                return Some(circle);
            }
            if !before.contains_key(next.as_str()) {
                before.insert(next, at);
                open.push_back(next);
            }
        }
    }
    None
}

/// Imports from a room that comes later.
fn upwards(graph: &Graph, rooms: &[&str]) -> Vec<(String, String, String)> {
    let rank = |file: &str| {
        let room = file
            .split('/')
            .next()
            .unwrap_or_default()
            .trim_end_matches(".rs");
        rooms.iter().position(|r| *r == room)
    };
    let mut found = Vec::new();
    for (from, edges) in graph {
        for (to, names) in edges {
            if let (Some(a), Some(b)) = (rank(from), rank(to))
                && a < b
            {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                found.push((from.clone(), to.clone(), names.join(", ")));
            }
        }
    }
    found
}

/// Takes the listed imports (from, to, reason) out of a graph; says which of them are not there.
fn without_kept(graph: &mut Graph, kept: &[Vec<String>]) -> Vec<String> {
    let mut vain = Vec::new();
    for k in kept {
        let gone = graph.get_mut(&k[0]).and_then(|edges| edges.remove(&k[1]));
        if gone.is_none() {
            vain.push(format!(
                "imports_kept.txt: {} does not import {}",
                k[0], k[1]
            ));
        }
    }
    vain
}

#[test]
fn imports() {
    let mut engine = graph(tree::sources(), "crates/engine/src/");
    assert!(engine.len() > 50, "the engine's imports are not found");
    let mut findings = without_kept(&mut engine, &list::read("imports_kept.txt", 3));
    let files = std::fs::read_dir(onefold_testing::root().join("crates/engine/src"))
        .expect("the engine's sources");
    for entry in files.flatten() {
        let name = entry
            .file_name()
            .to_string_lossy()
            .trim_end_matches(".rs")
            .to_owned();
        if name != "lib" && !ROOMS.contains(&name.as_str()) {
            findings.push(format!("engine/src/{name} has no place among the rooms"));
        }
    }
    findings.extend(
        upwards(&engine, &ROOMS)
            .iter()
            .map(|(a, b, n)| format!("upwards: {a} -> {b} ({n})")),
    );
    for folder in NO_CIRCLES {
        findings.extend(
            circles(&within(&engine, folder, false))
                .iter()
                .map(|c| format!("circle: {c}")),
        );
    }
    for folder in NO_CIRCLES_OF_PARTS {
        findings.extend(
            circles(&within(&engine, folder, true))
                .iter()
                .map(|c| format!("circle of parts: {c}")),
        );
    }
    crate::report("imports", &findings);
}

/// A crate of made-up files.
fn made_up(files: &[(&str, &str)]) -> Graph {
    let sources: Vec<Source> = files
        .iter()
        .map(|(f, t)| Source::new(&format!("crates/a/src/{f}"), t))
        .collect();
    graph(&sources, "crates/a/src/")
}

#[test]
fn circles_are_found() {
    let files = [
        ("lib.rs", "mod p;\npub use crate::p::x::X;"),
        (
            "p/mod.rs",
            "pub mod x; pub mod y; pub mod z;\npub use self::z::Z;",
        ),
        ("p/x.rs", "use super::y::{self, Y as W};\npub struct X;"),
        ("p/y.rs", "pub struct Y;\nfn f() -> crate::p::Z { }\n"),
        (
            "p/z.rs",
            "pub struct Z;\nmod inner { use super::super::super::X; }",
        ),
    ];
    let g = made_up(&files);
    let found = circles(&within(&g, "p", false));
    assert_eq!(
        found,
        ["p/x.rs -> p/y.rs (Y, self), p/y.rs -> p/z.rs (Z), p/z.rs -> p/x.rs (X)"]
    );

    let mut rest = g;
    let kept = |to: &str| vec!["p/z.rs".to_owned(), to.to_owned(), "reason".to_owned()];
    assert_eq!(
        without_kept(&mut rest, &[kept("p/x.rs"), kept("p/q.rs")]).len(),
        1,
        "in vain"
    );
    assert!(circles(&rest).is_empty());
}

#[test]
fn tests_comments_and_passing_on_are_no_imports() {
    let g = made_up(&[
        ("p/mod.rs", "pub mod x;\npub use self::x::X;"),
        (
            "p/x.rs",
            "// use super::y::Y;\npub struct X;\n#[cfg(test)]\nmod tests { use crate::p::y::Y; }",
        ),
        ("p/y.rs", "use super::X;\npub struct Y;"),
    ]);
    let all: Vec<(&str, &str)> = g
        .iter()
        .flat_map(|(a, e)| e.keys().map(move |b| (a.as_str(), b.as_str())))
        .collect();
    assert_eq!(all, [("p/y.rs", "p/x.rs")]);
}

#[test]
fn circles_of_parts_and_imports_upwards_are_found() {
    let g = made_up(&[
        ("p/a/x.rs", "use crate::p::b::y::Y;"),
        ("p/a/z.rs", "pub struct Z;"),
        ("p/b/y.rs", "pub use crate::p::a::z::Z; pub struct Y;"),
        ("q.rs", "use crate::p::b::y::*;"),
    ]);
    assert!(circles(&within(&g, "p", false)).is_empty());
    assert_eq!(circles(&within(&g, "p", true)).len(), 1);
    assert!(upwards(&g, &["p", "q"]).is_empty());
    let up = upwards(&g, &["q", "p"]);
    assert_eq!(
        up,
        [("q.rs".to_owned(), "p/b/y.rs".to_owned(), "*".to_owned())]
    );
}
