//! Running the binary.
#![allow(dead_code)]

pub mod adapt;
pub mod browser;
pub mod captures;
pub mod corpus;
pub mod judge;
pub mod kernel;
pub mod running;
pub mod wireshark;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The project's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("two folders up")
        .to_path_buf()
}

/// The folder with third-party data, if it is there; says so if not.
pub fn data() -> Option<PathBuf> {
    onefold_testing::data("")
}

/// A folder of this test's own, empty.
pub fn temp(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder for the test");
    dir
}

/// Runs `onefold` in a folder. No proof is kept: neither do tests write into the home of whoever runs them, nor does
/// one see what another one has proved.
pub fn onefold(dir: &Path, args: &[&str]) -> Output {
    onefold_with(dir, &[("ONEFOLD_CACHE", "")], args)
}

/// Runs `onefold` in a folder and an environment.
pub fn onefold_with(dir: &Path, environment: &[(&str, &str)], args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_onefold"))
        .current_dir(dir)
        .envs(environment.iter().copied())
        .args(args)
        .output()
        .expect("the binary runs")
}

/// Runs it, expects an exit status, gives standard output and standard error.
pub fn run(dir: &Path, status: i32, args: &[&str]) -> (String, String) {
    let o = onefold(dir, args);
    let (out, err) = (
        String::from_utf8_lossy(&o.stdout).into_owned(),
        String::from_utf8_lossy(&o.stderr).into_owned(),
    );
    assert_eq!(
        o.status.code(),
        Some(status),
        "onefold {args:?}\n{out}\n{err}"
    );
    (out, err)
}

/// Runs it with `--json`.
pub fn json(dir: &Path, status: i32, args: &[&str]) -> serde_json::Value {
    let (out, err) = run(dir, status, &[args, &["--json"]].concat());
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}\n{err}"))
}
