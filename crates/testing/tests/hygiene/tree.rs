//! The project's sources.

use crate::scan;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A Rust file.
pub struct Source {
    /// From the project's root, with `/`.
    pub path: String,
    pub text: String,
    /// `text` without comments and literals.
    pub code: String,
    /// `code` without what is behind `#[cfg(test)]`.
    pub product: String,
    /// Whether all of it is for tests: it is in a `tests` folder, or a module behind `#[cfg(test)]`.
    pub test: bool,
}

impl Source {
    /// A file's text, with what the checks look at made of it. `test` is what its path says.
    pub fn new(path: &str, text: &str) -> Source {
        let code = scan::blank(text);
        let (product, _) = scan::without_tests(&code);
        Source {
            path: path.to_owned(),
            text: text.to_owned(),
            code,
            product,
            test: path.contains("/tests/")
                || path.ends_with("/tests.rs")
                || path.ends_with("_tests.rs"),
        }
    }
}

/// All Rust files of the workspace (`crates`, `fuzz`), sorted by path; read once.
pub fn sources() -> &'static [Source] {
    static ALL: OnceLock<Vec<Source>> = OnceLock::new();
    ALL.get_or_init(read_all)
}

fn read_all() -> Vec<Source> {
    let mut all: Vec<Source> = ["crates", "fuzz"]
        .iter()
        .flat_map(|d| files(&onefold_testing::root(), d, "rs"))
        .filter_map(|path| {
            let text = std::fs::read_to_string(onefold_testing::root().join(&path)).ok()?;
            Some(Source::new(&path, &text))
        })
        .collect();
    let tests = test_modules(&all);
    for s in &mut all {
        s.test |= tests.iter().any(|t| is_of(&s.path, t));
    }
    all
}

/// Whether `path` is the module `module` (a path without `.rs`) or within it.
fn is_of(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Modules, as paths without `.rs`, that are declared behind `#[cfg(test)]`.
fn test_modules(all: &[Source]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for s in all {
        let folder = module_folder(&s.path);
        for name in scan::without_tests(&s.code).1 {
            found.insert(format!("{folder}/{name}"));
        }
    }
    found
}

/// The folder in which a file's modules are: its own for `mod.rs`, `lib.rs` and `main.rs`, else one of its name.
fn module_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    }
}

/// Files with an extension below a folder, as paths from `root`, sorted. What was built, and hidden folders, are left
/// out.
pub fn files(root: &Path, folder: &str, extension: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open: Vec<PathBuf> = vec![root.join(folder)];
    while let Some(dir) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            if path.is_dir() {
                if name != "target" && !name.to_string_lossy().starts_with('.') {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|e| e == extension)
                && let Ok(relative) = path.strip_prefix(root)
            {
                found.push(relative.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn modules_behind_cfg_test_are_tests() {
    let all = [
        Source::new(
            "crates/a/src/b/mod.rs",
            "#[cfg(test)]\nmod c_tests;\nmod d;",
        ),
        Source::new("crates/a/src/e.rs", "#[cfg(test)]\nmod proofs;"),
    ];
    let found: Vec<String> = test_modules(&all).into_iter().collect();
    assert_eq!(found, ["crates/a/src/b/c_tests", "crates/a/src/e/proofs"]);
    assert!(is_of("crates/a/src/e/proofs/mod.rs", &found[1]));
    assert!(!is_of("crates/a/src/e/proofs_of.rs", &found[1]));
}
