//! Configurations and what becomes of them: the files under `tests/cases`.
//!
//! A case is `=== name`, the configuration, and after `--- flat`, `--- errors` or `--- rendered` what is expected: the
//! flat configuration without its line directives, or the errors, or those as they are shown to people. Warnings come
//! after `--- warnings`. `--- params` gives parameters, one `NAME=VALUE` a line; with it, global parameters are
//! substituted. With `BLESS=1` in the environment, the expectations are rewritten instead of checked.

use onefold_click::{Globals, LoadOptions, diag, load};
use std::fmt::Write;
use std::path::Path;

struct Case {
    name: String,
    sections: Vec<(String, String)>,
}

impl Case {
    fn section(&self, name: &str) -> Option<&str> {
        self.sections
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, text)| text.as_str())
    }
}

fn read(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("=== ") {
            cases.push(Case {
                name: name.to_owned(),
                sections: vec![("config".to_owned(), String::new())],
            });
        } else if let Some(name) = line.strip_prefix("--- ") {
            cases
                .last_mut()
                .unwrap()
                .sections
                .push((name.to_owned(), String::new()));
        } else if let Some(case) = cases.last_mut() {
            writeln!(case.sections.last_mut().unwrap().1, "{line}").unwrap();
        }
    }
    cases
}

fn outcome(case: &Case) -> Vec<(String, String)> {
    let params: Option<Vec<(String, String)>> = case.section("params").map(|text| {
        let pair = |line: &str| {
            line.split_once('=')
                .map(|(n, v)| (n.to_owned(), v.to_owned()))
        };
        text.lines().filter_map(pair).collect()
    });
    let globals = if params.is_some() {
        Globals::Substitute
    } else {
        Globals::Keep
    };
    let options = LoadOptions {
        globals,
        ..LoadOptions::default()
    };
    let lines = |diagnostics: &[diag::Diagnostic]| {
        let mut out = String::new();
        for d in diagnostics {
            writeln!(out, "{d}").unwrap();
            for note in &d.notes {
                let place = note
                    .location
                    .as_ref()
                    .map(|l| format!("{l}: "))
                    .unwrap_or_default();
                writeln!(out, "  {place}{}", note.message).unwrap();
            }
        }
        out
    };
    let text = case.section("config").unwrap();
    let mut sections = Vec::new();
    match load(
        text.as_bytes(),
        "c",
        params.as_deref().unwrap_or(&[]),
        &options,
    ) {
        Ok(graph) => {
            let flat = graph.to_click_text();
            let flat: String = flat
                .lines()
                .filter(|l| !l.starts_with("# "))
                .map(|l| format!("{l}\n"))
                .collect();
            sections.push(("flat".to_owned(), flat));
            if !graph.warnings.is_empty() {
                sections.push(("warnings".to_owned(), lines(&graph.warnings)));
            }
        }
        Err(diagnostics) if case.section("rendered").is_some() => {
            sections.push(("rendered".to_owned(), diag::render_all(&diagnostics, false)));
        }
        Err(diagnostics) => sections.push(("errors".to_owned(), lines(&diagnostics))),
    }
    sections
}

#[test]
fn cases() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let bless = std::env::var_os("BLESS").is_some();
    let (mut count, mut wrong) = (0, String::new());
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let mut blessed = String::new();
        for case in read(&std::fs::read_to_string(&file).unwrap()) {
            count += 1;
            let got = outcome(&case);
            writeln!(blessed, "=== {}", case.name).unwrap();
            blessed.push_str(case.section("config").unwrap());
            if let Some(params) = case.section("params") {
                write!(blessed, "--- params\n{params}").unwrap();
            }
            for (name, text) in &got {
                write!(blessed, "--- {name}\n{text}").unwrap();
            }
            let given = |(n, _): &&(String, String)| n != "config" && n != "params";
            let expected: Vec<(String, String)> =
                case.sections.iter().filter(given).cloned().collect();
            // Empty lines at the end of a section only separate.
            let trim = |s: &[(String, String)]| -> Vec<(String, String)> {
                s.iter()
                    .map(|(n, t)| (n.clone(), t.trim_end().to_owned()))
                    .collect()
            };
            if trim(&expected) != trim(&got) {
                writeln!(
                    wrong,
                    "{}: {}\nexpected {expected:#?}\ngot {got:#?}",
                    file.display(),
                    case.name
                )
                .unwrap();
            }
        }
        if bless {
            std::fs::write(&file, blessed).unwrap();
        }
    }
    assert!(bless || wrong.is_empty(), "{wrong}");
    assert!(count > 50, "only {count} cases found");
}
