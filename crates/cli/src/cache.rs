//! Proofs that were made before: what this build has proved of a program and a graph need not be proved again.
//!
//! A proof is found by its *key*: a SHA-256 hash of the identity of the build (`build.rs`), the program, the graph's
//! configuration (every element's class and arguments, and the wiring) and the models that it was proved against.
//! Only the verdict "proved" is kept. Large route tables, which programs ask, are part of the configuration, although
//! no proof depends on what is in them (docs/decisions/0016): a changed table is proved anew.
//!
//! A file is used only if it is whole (it ends in a hash of itself), names its own key, and, like its folder, belongs
//! to the user and cannot be written by others. Anything else is no proof: it is made anew, and the file replaced.

use anyhow::{Context, Result, bail};
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_partition::slice_of;
use onefold_synth::Program;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most proofs that are kept; those that have not been used for longest are evicted.
pub const MAX_PROOFS: usize = 1024;
/// Longest file of a proof, in bytes.
const MAX_BYTES: u64 = 1024;
/// What this build is: other sources, compilers or flags have another one.
const BUILD: &str = env!("ONEFOLD_BUILD_ID");
/// First line of a file: the form that follows.
const FORM: &str = "onefold proof 2";
/// Temporary files older than this belong to nobody any more.
const ABANDONED: Duration = Duration::from_secs(600);

/// What a proof is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

/// Hashes what is written to it.
struct Hashing(Sha256);

impl std::fmt::Write for Hashing {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        self.0.update(s.as_bytes());
        Ok(())
    }
}

fn hex(hash: Sha256) -> String {
    let bytes = hash.finalize();
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl Key {
    /// Of a program and a graph as this build sees them. `None` after a handler has changed a graph: what it is then
    /// is more than its configuration.
    pub fn of(graph: &Graph, program: &Program) -> Option<Key> {
        Key::with(BUILD, graph, program)
    }

    /// Of what a proof sees of a program and a graph as it is now: models, wiring, finer models. It serves one run.
    ///
    /// `slices`: what NATs hand out in this graph, with what they have in all. Sets of values that are said to be a
    /// slice count as if they were all of it, wherever the program only says what values may be. In rules' conditions
    /// they count as they are.
    pub fn of_proof(graph: &Graph, program: &Program, slices: &Slices) -> Key {
        let mut h = Hashing(Sha256::new());
        // writing into a hash cannot fail
        let _ = writeln!(
            h,
            "{}",
            whole(&format!("{:?}", graph.synthesis_input()), slices)
        );
        for s in &program.stages {
            let _ = writeln!(h, "{:?}", s.rules);
        }
        let _ = writeln!(h, "{}", whole(&format!("{program:?}"), slices));
        for e in 0..graph.len() as u32 {
            let e = ElemId(e);
            for port in 0..graph.port_counts(e).0 {
                let finer = graph.finer_model(e, port as u16);
                let _ = finer.map(|cases| writeln!(h, "{e:?} {port} {cases:?}"));
            }
        }
        Key(hex(h.0))
    }

    fn with(build: &str, graph: &Graph, program: &Program) -> Option<Key> {
        if graph.changes() > 0 {
            return None;
        }
        let mut h = Hashing(Sha256::new());
        // what proofs see of an element beyond its models (`Graph::finer_model`) follows from its arguments. Writing
        // into a hash cannot fail
        let _ = write!(h, "{FORM}\n{build}\n{:?}\n", graph.synthesis_input());
        let spec = graph.spec();
        // without the places where things stand: files may be moved, and lines
        for e in &spec.elements {
            let _ = writeln!(h, "{:?} {:?} {:?}", e.name, e.class, e.args);
        }
        for c in &spec.connections {
            let _ = writeln!(h, "{:?} {:?}", c.from, c.to);
        }
        let _ = write!(h, "{program:?}");
        Some(Key(hex(h.0)))
    }
}

/// Slices of ranges of ports and identifiers, each with the range that it is a slice of.
pub type Slices = Vec<((u16, u16), (u16, u16))>;

/// Those of a worker.
pub fn slices_of(ranges: &[(u16, u16)], worker: usize, workers: usize) -> Slices {
    let one = |r: &(u16, u16)| Some((slice_of(*r, worker, workers)?, *r));
    ranges.iter().filter_map(one).collect()
}

/// The text with each interval that is a slice in the place of which its range stands.
fn whole(text: &str, slices: &Slices) -> String {
    let mut text = text.to_string();
    for (slice, range) in slices.iter().filter(|(s, r)| s != r) {
        let wanted = format!("{}-{}", slice.0, slice.1);
        let mut next = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some(at) = rest.find(&wanted) {
            let (before, found) = rest.split_at(at);
            let (found, behind) = found.split_at(wanted.len());
            next.push_str(before);
            // not a part of longer numbers
            let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
            match digit(next.chars().next_back()) || digit(behind.chars().next()) {
                true => next.push_str(found),
                false => next.push_str(&format!("{}-{}", range.0, range.1)),
            }
            rest = behind;
        }
        next.push_str(rest);
        text = next;
    }
    text
}

/// A proof that was made before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kept {
    /// When, in seconds since 1970.
    pub made: u64,
    /// How long it took.
    pub seconds: f64,
    /// Share of the header space that was proved.
    pub proved: f64,
    /// Share that is handed over to the reference graph.
    pub punted: f64,
    /// Neither is wrong by more than that.
    pub within: f64,
}

impl Kept {
    /// A proof that has just been made.
    pub fn now(seconds: f64, [proved, punted, within]: [f64; 3]) -> Kept {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Kept {
            made: now.map_or(0, |d| d.as_secs()),
            seconds,
            proved,
            punted,
            within,
        }
    }

    /// The day, as `2026-11-25`.
    pub fn date(&self) -> String {
        onefold_bench::experiment::date_of(self.made / 86_400)
    }

    fn text(&self, key: &Key) -> String {
        let Kept {
            made,
            seconds,
            proved,
            punted,
            within,
        } = self;
        let body = format!(
            "{FORM}\nkey {}\nverdict proved\nmade {made}\nseconds {seconds:?}\nproved {proved:?}\npunted {punted:?}\n\
             within {within:?}\n",
            key.0
        );
        let sum = hex(Sha256::new_with_prefix(&body));
        format!("{body}sum {sum}\n")
    }

    fn read(text: &str, key: &Key) -> Option<Kept> {
        let mut lines = text.lines();
        let mut value = |name: &str| {
            let (found, value) = lines.next()?.split_once(' ')?;
            (found == name).then_some(value)
        };
        let form = value("onefold")?;
        let named = value("key")?;
        let verdict = value("verdict")?;
        let kept = Kept {
            made: value("made")?.parse().ok()?,
            seconds: value("seconds")?.parse().ok()?,
            proved: value("proved")?.parse().ok()?,
            punted: value("punted")?.parse().ok()?,
            within: value("within")?.parse().ok()?,
        };
        let ok = FORM.ends_with(form) && named == key.0 && verdict == "proved";
        // the same bytes, the hash at their end among them
        (ok && kept.text(key) == text).then_some(kept)
    }
}

/// The folder of proofs.
pub struct ProofCache {
    dir: PathBuf,
}

/// Where proofs are kept, if they are.
pub fn kept_in() -> Option<PathBuf> {
    folder(|name| std::env::var_os(name))
}

/// The folder that the environment says; `None`: nothing is to be kept. `ONEFOLD_CACHE` is the folder itself, or
/// empty for none; otherwise it is `onefold` in `XDG_CACHE_HOME` (if that is an absolute path) or `~/.cache`.
fn folder(get: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    if let Some(own) = get("ONEFOLD_CACHE") {
        return (!own.is_empty()).then(|| PathBuf::from(own));
    }
    let absolute = |name| get(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("onefold"))
}

/// Only this user can have written it.
fn is_own(m: &fs::Metadata) -> bool {
    // the owner of what this process is; where the system does not say, nothing is trusted
    let me = fs::metadata("/proc/self").map(|m| m.uid());
    me.is_ok_and(|me| m.uid() == me) && m.mode() & 0o022 == 0
}

impl ProofCache {
    /// The cache, made if it is not there yet. `None` if there is to be none.
    ///
    /// # Errors
    /// Its folder cannot be made, or others may write to it.
    pub fn open() -> Result<Option<ProofCache>> {
        match folder(|name| std::env::var_os(name)) {
            Some(dir) => ProofCache::at(&dir.join("proofs")).map(Some),
            None => Ok(None),
        }
    }

    fn at(dir: &Path) -> Result<ProofCache> {
        let shown = || format!("'{}'", dir.display());
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir);
        made.with_context(shown)?;
        let about = fs::metadata(dir).with_context(shown)?;
        if !is_own(&about) {
            bail!(
                "{} belongs to somebody else, or others may write to it",
                shown()
            );
        }
        Ok(ProofCache {
            dir: dir.to_path_buf(),
        })
    }

    fn file(&self, key: &Key) -> PathBuf {
        self.dir.join(&key.0)
    }

    /// The proof of this, if it was made before. It counts as used now.
    pub fn find(&self, key: &Key) -> Option<Kept> {
        let mut f = fs::OpenOptions::new()
            .read(true)
            .open(self.file(key))
            .ok()?;
        let about = f.metadata().ok()?;
        if !about.is_file() || about.len() > MAX_BYTES || !is_own(&about) {
            return None;
        }
        let mut text = String::new();
        (&mut f).take(MAX_BYTES).read_to_string(&mut text).ok()?;
        let kept = Kept::read(&text, key)?;
        // whether it is evicted sooner or later is all that depends on it
        let _ = f.set_modified(SystemTime::now());
        Some(kept)
    }

    /// Keeps a proof, in one step: nobody ever reads half of one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, key: &Key, proof: &Kept) -> std::io::Result<()> {
        let temporary = self
            .dir
            .join(format!("{}.{}.tmp", key.0, std::process::id()));
        let write = || {
            let mut f = fs::File::create(&temporary)?;
            f.write_all(proof.text(key).as_bytes())?;
            f.sync_all()?;
            fs::rename(&temporary, self.file(key))
        };
        let written = write();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.evict();
        written
    }

    /// Removes the proofs that are too many, and temporary files that somebody has left.
    fn evict(&self) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut proofs: Vec<(SystemTime, PathBuf)> = Vec::new();
        for e in entries {
            let path = e.path();
            let Some(used) = e.metadata().ok().and_then(|m| m.modified().ok()) else {
                continue;
            };
            match path.extension().is_some_and(|x| x == "tmp") {
                false => proofs.push((used, path)),
                true if used.elapsed().is_ok_and(|t| t > ABANDONED) => {
                    let _ = fs::remove_file(path);
                }
                true => {}
            }
        }
        proofs.sort();
        for (_, path) in proofs.iter().take(proofs.len().saturating_sub(MAX_PROOFS)) {
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_engine::{BuildOptions, spec_from_flat};
    use onefold_synth::{Budget, synthesize};

    fn folder_of(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("onefold-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        dir
    }

    fn graph(rule: &str) -> (Graph, Program) {
        let text = format!("FromDevice(a) -> Classifier({rule}) -> ToDevice(b);");
        let flat = onefold_click::load(text.as_bytes(), "t", &[], &Default::default()).unwrap();
        let g = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap();
        let p = synthesize(&g.synthesis_input(), Budget::default());
        (g, p)
    }

    #[test]
    fn keys_are_of_build_graph_and_program() {
        let (g, p) = graph("12/0800");
        let key = Key::with("this", &g, &p).unwrap();
        let (again, same) = graph("12/0800");
        assert_eq!(
            Key::with("this", &again, &same).unwrap(),
            key,
            "the same, made anew"
        );
        assert_ne!(Key::with("that", &g, &p).unwrap(), key, "another build");
        let (other, q) = graph("12/0806");
        assert_ne!(Key::with("this", &other, &q).unwrap(), key, "another rule");
        assert_ne!(Key::with("this", &g, &q).unwrap(), key, "another program");
        assert_ne!(Key::with("this", &other, &p).unwrap(), key, "another graph");
        assert_eq!(BUILD.len(), 64);
    }

    #[test]
    fn slices_stand_for_their_ranges() {
        let slices = vec![((1024, 2047), (1024, 4095)), ((1, 9), (1, 9))];
        let text = "{80, 1024-2047} 1024-20470 11024-2047 1-9 1024-2047";
        let expected = "{80, 1024-4095} 1024-20470 11024-2047 1-9 1024-4095";
        assert_eq!(whole(text, &slices), expected);
    }

    /// The proof of the program with all that NATs have is one for each worker's, which has its slice of it.
    #[test]
    fn workers_have_one_proof() {
        let chains = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chains");
        let options = onefold_chain::Options {
            examples: vec![chains],
            ..Default::default()
        };
        let made = |c: &onefold_chain::Chain| {
            let Ok(g) = crate::common::build(c, &BuildOptions::default()) else {
                panic!("{} cannot be built", c.name);
            };
            let p = synthesize(&g.synthesis_input(), Budget::default());
            (g, p)
        };
        for chain in ["router-nat-lb", "napts-2", "fw10"] {
            let (g, p) = made(&onefold_chain::load(chain, &options).unwrap());
            let all = Key::of_proof(&g, &p, &Slices::new());
            let workers = onefold_chain::load_workers(chain, &options, 4).unwrap();
            for (n, c) in workers.chains.iter().enumerate() {
                let (g, p) = made(c);
                let slices = slices_of(&workers.ranges, n, 4);
                assert!(Key::of_proof(&g, &p, &slices) == all, "{chain}, {n}");
                // which are configuration all the same
                let raw = Key::of_proof(&g, &p, &Slices::new());
                assert_eq!(raw == all, workers.ranges.is_empty(), "{chain}");
            }
        }
        let ((g, p), (other, q)) = (graph("12/0800"), graph("12/0806"));
        let key = |g, p| Key::of_proof(g, p, &Slices::new());
        assert!(key(&g, &p) != key(&other, &q) && key(&g, &p) != key(&other, &p));
    }

    #[test]
    fn what_is_damaged_is_no_proof() {
        let dir = folder_of("damage");
        let cache = ProofCache::at(&dir).unwrap();
        let key = Key("ab".repeat(32));
        let proof = Kept::now(9.25, [0.75, 0.25, 1e-9]);
        assert_eq!(cache.find(&key), None);
        cache.keep(&key, &proof).unwrap();
        assert_eq!(cache.find(&key), Some(proof));
        let whole = fs::read(cache.file(&key)).unwrap();
        for i in 0..whole.len() {
            let mut bad = whole.clone();
            bad[i] ^= 1;
            fs::write(cache.file(&key), &bad).unwrap();
            assert_eq!(cache.find(&key), None, "byte {i}");
            fs::write(cache.file(&key), &whole[..i]).unwrap();
            assert_eq!(cache.find(&key), None, "{i} bytes");
        }
        fs::write(cache.file(&key), [&whole[..], b"\n"].concat()).unwrap();
        assert_eq!(cache.find(&key), None, "more than there was");
        // the proof of something else
        let other = Key("cd".repeat(32));
        fs::write(cache.file(&other), &whole).unwrap();
        assert_eq!(cache.find(&other), None);
        cache.keep(&key, &proof).unwrap();
        assert_eq!(cache.find(&key), Some(proof), "replaced");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_others_may_write_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let dir = folder_of("others");
        let cache = ProofCache::at(&dir).unwrap();
        let key = Key("ab".repeat(32));
        cache.keep(&key, &Kept::now(1.0, [1.0, 0.0, 0.0])).unwrap();
        let mode = |path: &Path, bits| {
            fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
        };
        mode(&cache.file(&key), 0o666);
        assert_eq!(cache.find(&key), None);
        mode(&cache.file(&key), 0o600);
        assert!(cache.find(&key).is_some());
        mode(&dir, 0o777);
        assert!(ProofCache::at(&dir).is_err());
        mode(&dir, 0o700);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_oldest_are_evicted() {
        let dir = folder_of("evict");
        let cache = ProofCache::at(&dir).unwrap();
        let key = |i: usize| Key(format!("{i:064x}"));
        let proof = Kept::now(1.0, [1.0, 0.0, 0.0]);
        let long_ago = UNIX_EPOCH + Duration::from_secs(1_000_000);
        for i in 0..MAX_PROOFS + 3 {
            let path = cache.file(&key(i));
            fs::write(&path, proof.text(&key(i))).unwrap();
            let at = long_ago + Duration::from_secs(i as u64);
            fs::File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_modified(at)
                .unwrap();
        }
        // used: it is no longer the oldest
        assert!(cache.find(&key(0)).is_some());
        let left = dir.join("x.1.tmp");
        fs::write(&left, "half").unwrap();
        fs::File::options()
            .write(true)
            .open(&left)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        cache.keep(&key(MAX_PROOFS + 3), &proof).unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), MAX_PROOFS);
        let there: Vec<bool> = (0..6).map(|i| cache.find(&key(i)).is_some()).collect();
        assert_eq!(there, [true, false, false, false, false, true]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_environment_says_where() {
        let at = |vars: &[(&str, &str)]| {
            folder(|n| vars.iter().find(|(k, _)| *k == n).map(|(_, v)| v.into()))
        };
        let some = |p: &str| Some(PathBuf::from(p));
        assert_eq!(at(&[("ONEFOLD_CACHE", "/c"), ("HOME", "/h")]), some("/c"));
        assert_eq!(at(&[("ONEFOLD_CACHE", ""), ("HOME", "/h")]), None);
        assert_eq!(
            at(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]),
            some("/x/onefold")
        );
        assert_eq!(
            at(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]),
            some("/h/.cache/onefold")
        );
        assert_eq!(at(&[]), None);
    }
}
