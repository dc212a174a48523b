//! Says which build this is: the profile, and an identity that is another one whenever anything is that the binary is
//! made of.
//!
//! Proofs are kept by that identity (`src/cache.rs`): a build must never trust what another one has proved. The
//! identity is a hash of all sources of the workspace's crates, of the versions and checksums of all others
//! (`Cargo.lock`), and of the compiler and its flags.

use sha2::{Digest, Sha256};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let crates = here.parent().unwrap_or(&here);
    let mut files = Vec::new();
    let mut watched = Vec::new();
    for dir in list(crates) {
        for part in ["Cargo.toml", "build.rs", "src"] {
            let path = dir.join(part);
            if path.exists() {
                collect(&path, &mut files);
                watched.push(path);
            }
        }
    }
    for name in ["Cargo.toml", "Cargo.lock", ".cargo/config.toml"] {
        if let Some(path) = crates.parent().map(|r| r.join(name))
            && path.exists()
        {
            files.push(path.clone());
            watched.push(path);
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for f in &files {
        let name = f
            .strip_prefix(crates)
            .unwrap_or(f)
            .to_string_lossy()
            .into_owned();
        let bytes = fs::read(f).unwrap_or_default();
        part(&mut hash, name.as_bytes());
        part(&mut hash, &bytes);
    }
    part(&mut hash, &compiler());
    for (key, value) in env::vars_os() {
        let name = key.to_string_lossy();
        let counts = name.starts_with("CARGO_CFG_")
            || name.starts_with("CARGO_FEATURE_")
            || name.starts_with("CARGO_PROFILE_")
            || ["TARGET", "OPT_LEVEL", "DEBUG", "CARGO_ENCODED_RUSTFLAGS"].contains(&&*name);
        if counts {
            part(&mut hash, name.as_bytes());
            part(&mut hash, value.as_encoded_bytes());
        }
    }
    let profile = profile();
    part(&mut hash, profile.as_bytes());
    let id: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    println!("cargo::rustc-env=ONEFOLD_BUILD_ID={id}");
    println!("cargo::rustc-env=ONEFOLD_BUILD_PROFILE={profile}");
    for w in watched {
        println!("cargo::rerun-if-changed={}", w.display());
    }
}

/// Adds something with its length, so that no two lists of parts are alike.
fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

/// Cargo's `PROFILE` is "release" for every profile that inherits it; the folder has the profile's own name:
/// `target/[TRIPLE/]PROFILE/build/onefold-HASH/out`. That of `dev` is called `debug`.
fn profile() -> String {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let name = out.ancestors().nth(3).and_then(Path::file_name);
    name.map_or("unknown".to_string(), |n| n.to_string_lossy().into_owned())
}

fn compiler() -> Vec<u8> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output();
    said.map(|o| o.stdout).unwrap_or_default()
}

fn list(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.path()).collect()
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match path.is_dir() {
        true => list(path).iter().for_each(|p| collect(p, files)),
        false => files.push(path.to_path_buf()),
    }
}
