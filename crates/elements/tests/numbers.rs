//! Numbers of elements and states are those of one graph. An element that holds some must not be carried into another
//! graph as it is (`Element::take_state`).

use std::path::{Path, PathBuf};

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for f in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = f.path();
        let name = f.file_name();
        let name = name.to_string_lossy();
        match path.is_dir() {
            true if name != "tests" && name != "model_check" => sources(&path, all),
            false if name.ends_with(".rs") && !name.contains("test") => all.push(path),
            _ => {}
        }
    }
}

/// A field of a struct of such a type.
fn has_number(line: &str) -> bool {
    let line = line.trim();
    let field = line
        .trim_start_matches("pub ")
        .trim_start_matches("pub(super) ")
        .trim_start_matches("pub(crate) ");
    let typed = ["ElemId", "StateId", "RewriterHandle", "PatternRef"];
    let named = field
        .split_once(": ")
        .is_some_and(|(n, _)| n.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    named
        && line.ends_with(',')
        && !line.contains('(')
        && !line.starts_with("fn")
        && typed.iter().any(|t| line.contains(t))
}

/// Structs of a source with such a field, those with a lifetime (they live for one call) left out.
fn holders(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut inside: Option<String> = None;
    for line in text.lines() {
        if let Some(rest) = line
            .trim_start_matches("pub ")
            .trim_start_matches("pub(super) ")
            .strip_prefix("struct ")
        {
            inside = (rest.ends_with('{') && !rest.contains('<'))
                .then(|| rest.trim_end_matches(" {").to_string());
        } else if line.starts_with('}') {
            inside = None;
        } else if let Some(name) = inside.take_if(|_| has_number(line)) {
            found.push(name);
        }
    }
    found
}

#[test]
fn elements_with_numbers_say_what_they_take() {
    assert_eq!(
        holders("struct A {\n    t: StateId,\n}\nstruct B<'a> {\n    e: ElemId,\n}\n"),
        ["A"]
    );
    let mut all = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    let (mut with, mut missing) = (0, Vec::new());
    for path in all {
        let text = std::fs::read_to_string(&path).expect("a source");
        // what is built by elements while they are configured is no element
        let is_element = text.contains("element_any!();");
        let found = holders(&text);
        if found.is_empty() || !is_element {
            continue;
        }
        with += 1;
        if !text.contains("element_takes!(") && !text.contains("fn take_state(") {
            missing.push(format!("{}: {}", path.display(), found.join(", ")));
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(with >= 14, "only {with} are found");
}
