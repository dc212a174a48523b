//! Synthesis by example: every file of `filetests/` is a chain and the program that it must become.
//!
//! A file has remarks at its top, then sections. A section begins with `--- NAME`; all but the last are files of the
//! chain (the first is the one that is loaded: a Click configuration or a chain file), the last, `--- program`, is the
//! expected text. `BLESS=1 cargo test -p onefold-synth --test filetests` writes what comes out into the files: look at
//! the difference then.

use onefold_synth::{Budget, check, synthesize, text};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("filetests")
}

/// Remarks, the chain's files, the program.
type Parts<'a> = (&'a str, Vec<(&'a str, &'a str)>, &'a str);

fn split(all: &str) -> Parts<'_> {
    let mut sections: Vec<(&str, &str)> = Vec::new();
    let mut starts: Vec<usize> = all.match_indices("\n--- ").map(|(i, _)| i + 1).collect();
    let remarks = &all[..starts.first().copied().unwrap_or(all.len())];
    starts.push(all.len());
    for w in starts.windows(2) {
        let section = &all[w[0] + 4..w[1]];
        let (name, body) = section.split_once('\n').unwrap_or((section, ""));
        sections.push((name.trim(), body));
    }
    let program = match sections.pop() {
        Some(("program", body)) => body,
        other => panic!("the last section is 'program', not {other:?}"),
    };
    (remarks, sections, program)
}

/// The program that a chain becomes, and whether the verifier pass is content.
fn program_of(file: &Path) -> String {
    let options = onefold_chain::Options {
        set: Vec::new(),
        examples: Vec::new(),
    };
    let name = file.to_str().expect("a path in UTF-8");
    let chain = onefold_chain::load(name, &options).unwrap_or_else(|e| panic!("{name}: {e}"));
    let graph = onefold_engine::Graph::build(chain.graph, &Default::default())
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    let program = synthesize(&graph.synthesis_input(), Budget::default());
    let printed = text::print(&program);
    let report = check::check(&program);
    assert!(
        report.violations.is_empty(),
        "{name}: {:#?}\n{printed}",
        report.violations
    );
    assert_eq!(text::parse(&printed).as_ref(), Ok(&program), "{name}");
    printed
}

/// The first lines that differ.
fn difference(expected: &str, got: &str) -> String {
    let (mut e, mut g) = (expected.lines(), got.lines());
    let mut line = 0;
    loop {
        line += 1;
        match (e.next(), g.next()) {
            (a, b) if a == b && a.is_some() => {}
            (None, None) => return "only the ends differ".into(),
            (a, b) => {
                let show = |x: Option<&str>| x.unwrap_or("(no more lines)").to_string();
                return format!(
                    "line {line} of the program:\n  expected {}\n  got      {}",
                    show(a),
                    show(b)
                );
            }
        }
    }
}

#[test]
fn chains_become_the_programs_written_down() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .expect("the folder filetests")
        .map(|e| e.expect("an entry").path())
        .filter(|p| p.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut wrong = Vec::new();
    for path in files {
        let stem = path.file_stem().and_then(|s| s.to_str()).expect("a name");
        let all = std::fs::read_to_string(&path).expect("readable");
        let (remarks, sections, expected) = split(&all);
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("filetests")
            .join(stem);
        std::fs::create_dir_all(&dir).expect("a folder for the test");
        for (name, body) in &sections {
            std::fs::write(dir.join(name), body).expect("written");
        }
        let main = sections.first().expect("a section with the chain").0;
        let got = program_of(&dir.join(main));
        if got == expected {
            continue;
        }
        if bless {
            let mut new = remarks.to_string();
            for (name, body) in &sections {
                new += &format!("--- {name}\n{body}");
            }
            new += &format!("--- program\n{got}");
            std::fs::write(&path, new).expect("written");
            println!("blessed {}", path.display());
        } else {
            wrong.push(format!("{stem}: {}", difference(expected, &got)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\n(BLESS=1 writes what comes out into the files)",
        wrong.join("\n")
    );
}

#[test]
fn sections_are_told_apart() {
    let (r, s, p) = split("; a\n--- a.click\nx --- y\n--- program\nz\n");
    assert_eq!((r, p), ("; a\n", "z\n"));
    assert_eq!(s, [("a.click", "x --- y\n")]);
    assert!(difference("a\nb\n", "a\nc\n").contains("line 2"));
}
