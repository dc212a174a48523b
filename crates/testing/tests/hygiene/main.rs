//! Checks that keep the sources readable: names, lengths, imports between modules and crates, paths in the texts.
//!
//! The sources are read as text, without a parser of Rust. Each check is a function from sources to findings, tried on
//! small made-up sources beside it and then held against the project. What may stay although a check finds it stands in
//! a list beside this file; an entry that nothing needs any more is a failure too, so that lists only shrink. The lists
//! of lengths (`long_*.txt`) are lowered by running the tests with `ONEFOLD_HYGIENE=lower`: entries go, get smaller, or
//! follow a function or file that was moved; none is added and none grows.

mod crates;
mod functions;
mod imports;
mod lengths;
mod list;
mod names;
mod paths;
mod scan;
mod suites;
mod tree;

/// Fails with all findings, one per line.
fn report(check: &str, findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{check}: {} findings\n  {}\n",
        findings.len(),
        findings.join("\n  ")
    );
}
