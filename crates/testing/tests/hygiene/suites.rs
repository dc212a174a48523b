//! Every file of tests is run: where a crate says itself what its test programs are (`autotests = false`), a file that
//! is in none of them would be compiled by nobody, and pass.

use std::path::Path;

/// Files of `tests/` that no program has: by the crate's manifest, what its `tests/suite.rs` says, and the names of the
/// files there (`a.rs`) and of the programs in folders (`a` of `a/main.rs`).
fn left_out(manifest: &str, suite: &str, names: &[String]) -> Vec<String> {
    if !manifest.lines().any(|l| l == "autotests = false") {
        return Vec::new();
    }
    let has = |name: &str| {
        let file = name.trim_end_matches(".rs");
        let path = [format!("tests/{file}.rs"), format!("tests/{file}/main.rs")];
        let program = path
            .iter()
            .any(|p| manifest.contains(&format!("path = \"{p}\"")));
        program || suite.lines().any(|l| l == format!("mod {file};"))
    };
    names.iter().filter(|n| !has(n)).cloned().collect()
}

/// The files and folders of a crate's tests that are programs by themselves, if nobody says otherwise.
fn names(tests: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(tests).into_iter().flatten().flatten();
    let mut all: Vec<String> = entries
        .filter(|e| e.path().is_file() || e.path().join("main.rs").exists())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|n| n.ends_with(".rs") || tests.join(n).is_dir())
        .collect();
    all.sort();
    all
}

#[test]
fn every_file_of_tests_is_in_a_program() {
    let crates = onefold_testing::root().join("crates");
    let mut findings = Vec::new();
    for entry in std::fs::read_dir(crates).expect("crates").flatten() {
        let read = |name: &str| std::fs::read_to_string(entry.path().join(name));
        let (Ok(manifest), suite) = (read("Cargo.toml"), read("tests/suite.rs")) else {
            continue;
        };
        let names = names(&entry.path().join("tests"));
        let left = left_out(&manifest, &suite.unwrap_or_default(), &names);
        let name = entry.file_name().to_string_lossy().into_owned();
        findings.extend(left.iter().map(|f| {
            format!("crates/{name}/tests/{f} is in no test program: add it to tests/suite.rs")
        }));
    }
    crate::report("files of tests", &findings);
}

#[test]
fn files_that_are_left_out_are_found() {
    let manifest = "autotests = false\n[[test]]\nname = \"x-suite\"\npath = \"tests/suite.rs\"\n\
                    [[test]]\nname = \"own\"\npath = \"tests/own/main.rs\"\n";
    let names = ["a.rs", "b.rs", "own", "suite.rs"].map(String::from);
    assert_eq!(left_out(manifest, "mod a;\n", &names), ["b.rs"]);
    assert!(left_out(manifest, "mod a;\nmod b;\n", &names).is_empty());
    assert!(left_out("[package]\n", "", &names).is_empty());
}
