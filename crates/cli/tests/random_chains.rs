//! Random chains (`onefold_bench::chains`): at every level, with a small flow table, and proved. Thirty of them in
//! every run of the tests; as many as wanted in the soak run:
//!
//!     cargo test --profile quick -p onefold --test cli-suite -- random_chains:: --ignored --nocapture
//!
//! Environment variables of the soak run:
//!
//! - `SEED_FROM` (1), `SEED_COUNT` (2000): which chains.
//! - `SOAK_PACKETS` (5000): packets for every level.
//! - `SOAK_THREADS` (2), `SOAK_SECONDS` (no limit): it ends early, and goes on with what is left when it is started
//!   again.
//! - `SOAK_DIR` (`out/random-chains`): there, `progress.jsonl` says what is done (remove it to begin anew), and a
//! - `SOAK_DIR` (`out/random-chains`): there, `progress.jsonl` says what is done (remove it to begin anew), and a
//!   folder per seed that failed has the chain file and what was printed.
use crate::common;

use common::{root, temp};
use onefold_bench::chains::{ChainOptions, random_chain};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest time for one command.
const PATIENCE: Duration = Duration::from_secs(600);

/// A name, and the arguments of `onefold verify` besides chain, seed and, for those that send any, packets.
type Run = (&'static str, &'static [&'static str]);

/// What is done with every chain.
const RUNS: &[Run] = &[
    ("all levels", &["--level", "all"]),
    (
        "a small flow table",
        &["--level", "flow", "--flow-table", "16"],
    ),
    ("proof", &["--prove"]),
];

/// What came of a chain.
#[derive(Default)]
struct Result {
    packets: u64,
    with_output: u64,
    seconds: f64,
    /// Of the proof; what stopped it, if anything did.
    verdict: String,
    /// What is wrong, each with the command that shows it.
    faults: Vec<String>,
}

/// Runs a command for so long at most; its exit status and what it printed.
fn patiently(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let files = [dir.join("stdout.txt"), dir.join("stderr.txt")];
    let [out, err] = files
        .each_ref()
        .map(|f| std::fs::File::create(f).expect("a file"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_onefold"))
        .current_dir(dir)
        // a proof that was kept is no proof of this build's prover
        .env("ONEFOLD_CACHE", "")
        .args(args)
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .expect("the binary runs");
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child") {
            Some(s) => break s.code(),
            None if begun.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let [out, err] = files.map(|f| std::fs::read_to_string(f).unwrap_or_default());
    (status, out, err)
}

/// What is wrong with the answer of a command, if anything is.
fn fault(status: Option<i32>, v: &Value, prove: bool) -> Option<String> {
    let some = |k: &str| v[k].as_array().is_some_and(|a| !a.is_empty());
    match (status, prove) {
        (None, _) => Some("it did not end in time".to_string()),
        (Some(0), _) => None,
        // a bound was reached, and it says which
        (Some(1), true) if v["verdict"] == "unknown" && !v["stopped"].is_null() => None,
        (Some(1), true) => Some(format!(
            "{}: {} {}",
            v["verdict"], v["different"], v["unknown"]
        )),
        (Some(1), false) if some("internal_errors") => {
            Some(format!("internal error: {}", v["internal_errors"]))
        }
        (Some(1), false) => {
            let all = v["found"].as_array().into_iter().flatten();
            let one = |f: &Value| {
                format!(
                    "{}: {} at {}: {} against {}",
                    f["level"], f["what"], f["place"], f["reference"], f["compared"]
                )
            };
            Some(all.map(one).collect::<Vec<_>>().join("; "))
        }
        (Some(n), _) => Some(format!("exit status {n}")),
    }
}

/// Makes the chain of a seed in a folder and does these things with it.
fn examine(dir: &Path, seed: u64, packets: u64, runs: &[Run]) -> Result {
    let begun = Instant::now();
    let mut r = Result::default();
    random_chain(seed, &ChainOptions::default())
        .write(dir)
        .expect("the chain's files");
    let (packets, number) = (packets.to_string(), seed.to_string());
    for (name, more) in runs {
        let prove = more.contains(&"--prove");
        let head = ["verify", "chain.yaml", "--seed", &number];
        let sent = ["--packets", &packets];
        let sent = if prove { &[][..] } else { &sent[..] };
        let args = [&head[..], sent, more].concat();
        let (status, out, err) = patiently(dir, &[&args[..], &["--json", "--quiet"]].concat());
        let v: Value = serde_json::from_str(&out).unwrap_or_default();
        for level in v["levels"].as_array().into_iter().flatten() {
            r.packets += level["packets"].as_u64().unwrap_or(0);
            r.with_output += level["with_output"].as_u64().unwrap_or(0);
        }
        if prove {
            r.verdict = v["verdict"].as_str().unwrap_or("none").to_string();
            if let Some(cause) = v["stopped"].as_str() {
                r.verdict.push_str(&format!(" ({cause})"));
            }
        }
        if let Some(what) = fault(status, &v, prove) {
            let said: String = err.chars().take(400).collect();
            r.faults.push(format!(
                "{name}: {what}\n  onefold {}\n  {said}",
                args.join(" ")
            ));
        }
    }
    r.seconds = begun.elapsed().as_secs_f64();
    r
}

/// Seeds, done by several threads; results come in the order in which they are ready.
fn all(seeds: &[u64], threads: usize, work: &(dyn Fn(u64) -> bool + Sync)) {
    let next = AtomicU64::new(0);
    std::thread::scope(|s| {
        for _ in 0..threads.max(1) {
            s.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    if !work(*seed) {
                        break;
                    }
                }
            });
        }
    });
}

#[test]
fn thirty_random_chains() {
    let dir = temp("random-chains");
    let results = Mutex::new(Vec::new());
    let seeds: Vec<u64> = (1..=30).collect();
    all(&seeds, 2, &|seed| {
        // a small table takes half as long as all the rest: every other chain has one
        let all = seed % 2 == 0;
        let runs: Vec<Run> = (RUNS.iter().copied())
            .filter(|(_, args)| all || !args.contains(&"--flow-table"))
            .collect();
        let r = examine(&dir.join(seed.to_string()), seed, 400, &runs);
        results.lock().unwrap().push((seed, r));
        true
    });
    let results = results.into_inner().unwrap();
    let faults: Vec<String> = (results.iter())
        .flat_map(|(seed, r)| r.faults.iter().map(move |f| format!("seed {seed}: {f}")))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // chains that let nothing through would show nothing
    let passes = |r: &Result| r.with_output * 20 > r.packets;
    let n = results.iter().filter(|(_, r)| passes(r)).count();
    assert!(n >= 24, "packets pass {n} of {} chains", results.len());
    let unproved: Vec<_> = (results.iter())
        .filter(|(_, r)| r.verdict != "proved")
        .map(|(seed, r)| (seed, &r.verdict))
        .collect();
    assert!(unproved.is_empty(), "{unproved:?}");
}

/// A number of the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    let v = std::env::var(name).ok().filter(|v| !v.is_empty());
    v.map_or(otherwise, |v| {
        v.parse().unwrap_or_else(|_| panic!("{name}: a number"))
    })
}

/// Lines of the progress file, by seed: chains without faults that saw so many packets.
fn done_before(file: &Path, packets: u64) -> BTreeMap<u64, Value> {
    let Ok(f) = std::fs::File::open(file) else {
        return BTreeMap::new();
    };
    let lines = std::io::BufReader::new(f).lines().map_while(|l| l.ok());
    let all = lines.filter_map(|l| serde_json::from_str::<Value>(&l).ok());
    let good = all.filter(|v| v["faults"] == 0 && v["asked"] == packets);
    good.filter_map(|v| Some((v["seed"].as_u64()?, v)))
        .collect()
}

#[test]
#[ignore = "forty minutes; make soak-random-chains"]
fn soak_random_chains() {
    let (from, count) = (number("SEED_FROM", 1), number("SEED_COUNT", 2000));
    let packets = number("SOAK_PACKETS", 5000);
    let limit = Duration::from_secs(number("SOAK_SECONDS", u32::MAX.into()));
    let threads = number("SOAK_THREADS", 2) as usize;
    let dir = std::env::var_os("SOAK_DIR")
        .map_or_else(|| root().join("out/random-chains"), PathBuf::from);
    std::fs::create_dir_all(&dir).expect("a folder");
    let progress = dir.join("progress.jsonl");
    let before = done_before(&progress, packets);
    let seeds: Vec<u64> = (from..from + count)
        .filter(|s| !before.contains_key(s))
        .collect();
    println!(
        "{count} chains, {} of them done before",
        count - seeds.len() as u64
    );
    let file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(&progress);
    let file = Mutex::new(file.expect("the progress file"));
    let failed = Mutex::new(BTreeSet::new());
    let begun = Instant::now();
    all(&seeds, threads, &|seed| {
        if begun.elapsed() > limit {
            return false;
        }
        let at = dir.join(seed.to_string());
        let r = examine(&at, seed, packets, RUNS);
        let line = json!({ "seed": seed, "asked": packets, "packets": r.packets, "with_output": r.with_output,
            "verdict": r.verdict, "seconds": r.seconds, "faults": r.faults.len() });
        let mut f = file.lock().unwrap();
        writeln!(f, "{line}").expect("the progress file");
        match r.faults.is_empty() {
            true => std::fs::remove_dir_all(&at).expect("its folder"),
            false => {
                failed.lock().unwrap().insert(seed);
                for text in &r.faults {
                    println!("seed {seed} ({}): {text}", at.display());
                }
            }
        }
        true
    });
    let done: Vec<Value> = done_before(&progress, packets).into_values().collect();
    let failed = failed.into_inner().unwrap();
    summary(&done, count, failed.len(), begun.elapsed());
    assert!(
        failed.is_empty(),
        "failed: {failed:?}; their chains are in {}",
        dir.display()
    );
}

/// What came of all chains so far. The last line is what `scripts/soak.sh` keeps.
fn summary(done: &[Value], of: u64, failed: usize, took: Duration) {
    let sum = |k: &str| done.iter().filter_map(|v| v[k].as_u64()).sum::<u64>();
    let share = |n: u64, of: u64| n as f64 * 100.0 / of.max(1) as f64;
    let mut verdicts: BTreeMap<&str, u64> = BTreeMap::new();
    for v in done {
        let verdict = v["verdict"].as_str().unwrap_or("none");
        *verdicts.entry(verdict).or_default() += 1;
    }
    let out = |v: &&Value| v["with_output"].as_u64() > Some(0);
    let some = done.iter().filter(out).count() as u64;
    let mut times: Vec<(f64, u64)> = (done.iter())
        .filter_map(|v| Some((v["seconds"].as_f64()?, v["seed"].as_u64()?)))
        .collect();
    times.sort_by(|a, b| b.0.total_cmp(&a.0));
    let slowest: Vec<String> = (times.iter().take(5))
        .map(|(s, seed)| format!("{seed} ({s:.1} s)"))
        .collect();
    println!(
        "{:.1}% of the packets have output; something left {:.1}% of the chains",
        share(sum("with_output"), sum("packets")),
        share(some, done.len() as u64)
    );
    println!(
        "seconds for a chain: median {:.2}, all {:.0}; slowest seeds: {}; {:.0} s now",
        times.get(times.len() / 2).map_or(0.0, |t| t.0),
        times.iter().map(|t| t.0).sum::<f64>(),
        slowest.join(", "),
        took.as_secs_f64()
    );
    let verdicts: Vec<String> = (verdicts.iter())
        .map(|(verdict, n)| format!("{n} {verdict}"))
        .collect();
    println!(
        "soak: {} of {of} chains, {} packets, {failed} chains with faults; {}",
        done.len() + failed,
        sum("packets"),
        verdicts.join(", ")
    );
}
