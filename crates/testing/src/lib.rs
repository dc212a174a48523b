//! What tests of all crates need around them: where third-party data lies, and skips that somebody sees.
//!
//! A test that cannot do its work here (no data, no root, a tool that is missing) calls [`skip`] and returns. The
//! reason is printed, and `make test` lists all of them at its end: the test runner swallows what passing tests print,
//! so each skip is also written to the file that `ONEFOLD_SKIPS` names, one line each: `TEST: REASON`. Where nothing
//! may skip (`ONEFOLD_NO_SKIP=1`, as CI sets it where it has root and the data), a skip fails the test.
//!
//! ```
//! let Some(rules) = onefold_testing::data("rules/classbench") else { return };
//! assert!(rules.is_dir());
//! ```

pub mod net;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Names the file that skips are appended to.
pub const SKIPS: &str = "ONEFOLD_SKIPS";
/// Set to `1` where no test may skip.
pub const NO_SKIP: &str = "ONEFOLD_NO_SKIP";
/// Names the folder with third-party data; `../shared/data` from the project's root if not set.
pub const DATA: &str = "ONEFOLD_DATA";
/// Names the folder with published rulesets; `../rulesets` from the project's root if not set.
pub const RULESETS: &str = "ONEFOLD_RULESETS";

/// The project's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// A file or folder of the third-party data, or `None`, said as a [`skip`], where it is missing.
#[track_caller]
pub fn data(part: &str) -> Option<PathBuf> {
    let base = std::env::var_os(DATA).map_or_else(|| root().join("../shared/data"), PathBuf::from);
    let path = base.join(part);
    if path.exists() {
        return Some(path);
    }
    skip(format!(
        "third-party data: no {} ({DATA} names the folder)",
        path.display()
    ));
    None
}

/// A file of the published rulesets that `scripts/rulesets.sh` fetches, or `None`, said as a [`skip`], where it is
/// missing. Where there is no folder of them, that is listed and no more: nobody has to reach others' servers.
#[track_caller]
pub fn ruleset(part: &str) -> Option<PathBuf> {
    let base = std::env::var_os(RULESETS).map_or_else(|| root().join("../rulesets"), PathBuf::from);
    let path = base.join(part);
    if path.exists() {
        return Some(path);
    }
    let why = format!(
        "published rulesets: no {} ({RULESETS} names the folder, scripts/rulesets.sh fetches it)",
        path.display()
    );
    match base.exists() {
        true => skip(why),
        false => list(&why),
    }
    None
}

/// Whether a tool is there (it answers `--version`), said as a [`skip`] where it is not.
#[track_caller]
pub fn tool(name: &str) -> bool {
    let there = std::process::Command::new(name)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !there {
        skip(format!("{name} is not installed"));
    }
    there
}

/// Says that the test that calls this does not do its work here, and why; the test returns then.
///
/// # Panics
/// Where nothing may skip ([`NO_SKIP`]).
#[track_caller]
pub fn skip(reason: impl Display) {
    list(&reason);
    assert!(
        std::env::var_os(NO_SKIP).is_none_or(|v| v != "1"),
        "nothing may skip here ({NO_SKIP}=1), but this did: {reason}"
    );
}

/// Prints and writes down why a test does not do its work here.
#[track_caller]
fn list(reason: &dyn Display) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let file = std::panic::Location::caller().file();
    println!("skipped: {test}: {reason}");
    if let Some(list) = std::env::var_os(SKIPS) {
        // one write: tests of several processes append to the same file
        let line = format!("{file}: {test}: {reason}\n");
        let _ = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(list)
            .and_then(|mut f| f.write_all(line.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Skips once, in a process of its own: the environment is the whole process's.
    #[test]
    fn skips_for_a_parent() {
        if std::env::var_os("ONEFOLD_TESTING_CHILD").is_some() {
            super::skip("because it was asked to");
        }
    }

    fn child(vars: &[(&str, &str)]) -> bool {
        let mut c = Command::new(std::env::current_exe().unwrap());
        c.args(["tests::skips_for_a_parent", "--exact"])
            .env_remove(super::NO_SKIP)
            .env("ONEFOLD_TESTING_CHILD", "1")
            .envs(vars.iter().copied());
        c.output().unwrap().status.success()
    }

    #[test]
    fn skips_are_listed_and_fail_where_nothing_may_skip() {
        let list = std::env::temp_dir().join(format!("onefold-skips-{}", std::process::id()));
        let path = list.to_str().unwrap();
        assert!(child(&[(super::SKIPS, path)]));
        assert!(!child(&[(super::SKIPS, path), (super::NO_SKIP, "1")]));
        let text = std::fs::read_to_string(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        let line = "src/lib.rs: tests::skips_for_a_parent: because it was asked to\n";
        assert_eq!(text.matches(line).count(), 2, "{text}");
    }
}
