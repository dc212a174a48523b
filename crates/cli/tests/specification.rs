//! SPECIFICATION.md: the tests that it names exist, its numbers are those of the code.

use crate::common;

use common::root;
use std::path::Path;

/// Everything of the form `path: name` between backticks.
fn references(text: &str) -> Vec<(&str, &str)> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter_map(|s| s.split_once(": "))
        .filter(|(path, _)| path.ends_with(".rs"))
        .collect()
}

/// The value of a constant or of a field's default: digits, `_`, `<<`, `*`.
fn value(source: &str, name: &str) -> Option<u64> {
    let heads = [format!("const {name}: "), format!("            {name}: ")];
    let line = source.lines().find(|l| {
        heads.iter().any(|h| l.contains(h.as_str())) && l.bytes().any(|b| b.is_ascii_digit())
    })?;
    let text = line
        .rsplit_once('=')
        .map_or_else(|| line.split_once(": ").map(|p| p.1), |p| Some(p.1))?;
    let text = text.trim().trim_end_matches([';', ',']);
    let number = |s: &str| s.trim().replace('_', "").parse::<u64>().ok();
    match (text.split_once("<<"), text.split_once('*')) {
        (Some((a, b)), _) => Some(number(a)? << number(b)?),
        (_, Some((a, b))) => Some(number(a)? * number(b)?),
        _ => number(text),
    }
}

fn read(path: &str) -> String {
    let file = root().join(Path::new(path));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn every_promise_names_a_test_that_exists() {
    let text = read("SPECIFICATION.md");
    let (mut tests, mut wrong) = (0, Vec::new());
    for line in text.lines() {
        let number = line
            .split('|')
            .nth(2)
            .and_then(|c| c.trim().parse::<u64>().ok());
        for (i, (path, name)) in references(line).into_iter().enumerate() {
            let source = read(path);
            if let (Some(n), 0) = (number, i) {
                // a path that says where another name leads
                let found = value(&source, name);
                if found != Some(n) {
                    wrong.push(format!("{path}: {name} is {found:?}, not {n}"));
                }
                continue;
            }
            tests += 1;
            // attributes stand between blank lines or closing braces and the function
            let attributes = source.find(&format!("fn {name}(")).map(|at| {
                let before = &source[..at];
                let from = before.rfind("\n\n").max(before.rfind("}\n")).unwrap_or(0);
                &before[from..]
            });
            match attributes {
                Some(a) if !a.contains("#[test]") => {
                    wrong.push(format!("{path}: {name} is no test"))
                }
                None => wrong.push(format!("{path} has no test {name}")),
                // what `make test` leaves out must say what runs it
                Some(a) if a.contains("#[ignore") && !line.contains("by hand") => {
                    wrong.push(format!("{path}: {name} is ignored"));
                }
                Some(_) => {}
            }
        }
        let promises =
            line.starts_with('|') && !line.starts_with("|---") && line.matches('|').count() > 4;
        if promises && number.is_some() {
            let kept = references(line).len() > 1 || line.contains("*not tested*");
            assert!(kept, "neither a test nor 'not tested': {line}");
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(tests > 40, "{tests} tests named");
}
