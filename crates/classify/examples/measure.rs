//! What each structure costs on given rule sets: `cargo run --release -p onefold-classify --example measure -- [options] FILE...`
//!
//! Files are rule sets in ClassBench's format (`onefold gen --rules acl --count 8550 --out FILE`), gzip or not. Headers are drawn from
//! rules chosen at random, anywhere within the rule, so that none comes twice but by chance; they lie in memory in batches, as a pipeline
//! would have them. Structures run in turns (A B A B); what is printed is the median of CPU time per key, of the thread. Options: `--only NAME`,
//! `--batch N` (64), `--keys N` (262144), `--runs N` (7), `--check` (compare all structures' answers),
//! `--plan` (what the cost model chooses, and why).

#[path = "../tests/common/classbench.rs"]
mod classbench;
#[path = "../tests/common/mod.rs"]
mod common;

use common::Rng;
use onefold_classify::*;
use std::path::Path;
use std::time::Instant;

/// CPU time of this thread in nanoseconds, or wall time where the system does not tell.
fn cpu(start: Instant) -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = stat.and_then(|s| s.split_whitespace().next()?.parse().ok());
    ns.unwrap_or_else(|| start.elapsed().as_nanos() as u64)
}

struct Args {
    files: Vec<String>,
    only: Option<String>,
    batch: usize,
    keys: usize,
    runs: usize,
    check: bool,
    plan: bool,
}

fn args() -> Args {
    let mut a = Args {
        files: Vec::new(),
        only: None,
        batch: 64,
        keys: 1 << 18,
        runs: 7,
        check: false,
        plan: false,
    };
    let mut it = std::env::args().skip(1);
    while let Some(x) = it.next() {
        let mut number = || it.next().and_then(|n| n.parse().ok()).expect("a number");
        match &x[..] {
            "--batch" => a.batch = number(),
            "--keys" => a.keys = number(),
            "--runs" => a.runs = number(),
            "--only" => a.only = it.next(),
            "--check" => a.check = true,
            "--plan" => a.plan = true,
            _ => a.files.push(x),
        }
    }
    a
}

/// Batches of keys, one after the other in memory.
fn batches(rules: &Rules, a: &Args) -> Vec<KeyBuf> {
    let mut rng = Rng(42);
    let headers = classbench::headers(rules, a.keys, &mut rng);
    (headers.chunks(a.batch))
        .map(|c| {
            let mut b = KeyBuf::new(rules.layout(), a.batch);
            assert!(c.iter().all(|k| b.push(k)));
            b
        })
        .collect()
}

/// Trees' settings, from the environment: to try others.
fn settings() -> TreeSettings {
    let read = |name| std::env::var(name).ok().and_then(|v| v.parse().ok());
    let d = TreeSettings::default();
    TreeSettings {
        leaf: read("LEAF").or(d.leaf),
        copies: read("COPIES").unwrap_or(d.copies),
        ..d
    }
}

fn build(table: &Table, a: &Args) -> Vec<(Box<dyn Classifier>, f64)> {
    type Make = fn(&Table) -> Result<Box<dyn Classifier>, Refusal>;
    let makers: [Make; 4] = [
        |t| Ok(Box::new(DecisionCode::new(t)?)),
        |t| Ok(Box::new(BitVector::new(t, 1500 << 20)?)),
        |t| Ok(Box::new(TupleSpace::new(t, 1500 << 20)?)),
        |t| Ok(Box::new(DecisionTree::new(t, &settings())?)),
    ];
    let mut list = Vec::new();
    for m in makers {
        let t = Instant::now();
        match m(table) {
            Ok(s) => {
                let wanted = |o: &String| s.kind().to_string().contains(&o[..]);
                if a.only.as_ref().is_none_or(wanted) {
                    list.push((s, t.elapsed().as_secs_f64()));
                }
            }
            Err(e) => println!("  refused: {e}"),
        }
    }
    list
}

fn main() {
    let a = args();
    for file in &a.files {
        let rules = classbench::rules(Path::new(file));
        let t = Instant::now();
        let table = Table::new(&rules).expect("a table");
        let name = Path::new(file).file_name().unwrap_or_default();
        println!(
            "{}: {} rules, {} entries, table in {:.3} s",
            name.to_string_lossy(),
            rules.len(),
            table.len(),
            t.elapsed().as_secs_f64()
        );
        if a.plan {
            let needs = Needs {
                measure: true,
                batch: a.batch,
                ..Needs::default()
            };
            match choose(&table, &needs) {
                Ok((_, report)) => print!("  {report}"),
                Err(e) => println!("  no plan: {e}"),
            }
        }
        let batches = batches(&rules, &a);
        let list = build(&table, &a);
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); list.len()];
        let mut sums = vec![0u64; list.len()];
        let mut out = vec![NO_MATCH; a.batch];
        let start = Instant::now();
        for _ in 0..a.runs {
            for (n, (s, _)) in list.iter().enumerate() {
                // short sets are gone through several times, so that the clock's grain does not matter
                let mut rounds = 0u32;
                let from = cpu(start);
                let mut sum = 0u64;
                let ns = loop {
                    for b in &batches {
                        s.lookup(b.keys(), &mut out);
                        sum = sum.wrapping_mul(31).wrapping_add(u64::from(out[0]));
                    }
                    rounds += 1;
                    let spent = cpu(start) - from;
                    if spent > 60_000_000 {
                        break spent as f64;
                    }
                };
                sums[n] = sum;
                times[n].push(ns / f64::from(rounds) / a.keys as f64);
            }
        }
        for ((s, built), t) in list.iter().zip(&mut times) {
            t.sort_by(f64::total_cmp);
            println!(
                "  {:14} {:7.1} ns/key ({:.1} to {:.1})  build {:7.3} s  {:9.2} MiB  {}",
                s.kind(),
                t[t.len() / 2],
                t[0],
                t[t.len() - 1],
                built,
                s.memory_bytes() as f64 / f64::from(1 << 20),
                s.shape()
            );
        }
        if a.check {
            let mut want = vec![NO_MATCH; a.batch];
            for b in &batches {
                list[0].0.lookup(b.keys(), &mut want);
                for (s, _) in &list[1..] {
                    s.lookup(b.keys(), &mut out);
                    assert_eq!(want, out, "{}", s.kind());
                }
            }
            println!("  all answer alike");
        }
    }
}
