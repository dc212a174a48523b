//! What each structure costs on given rule sets: `cargo run --release -p onefold-classify --example measure --
//! [options] FILE...`
//!
//! Files are rule sets in ClassBench's format (`onefold gen --rules acl --count 8550 --out FILE`), gzip or not. Headers
//! are drawn from rules chosen at random, anywhere within the rule, so that none comes twice but by chance; they lie in
//! memory in batches, as a pipeline would have them. Structures run in turns (A B A B); what is printed is the median
//! of CPU time per key, of the thread. Options: `--only NAME`, `--batch N` (64), `--keys N` (262144), `--runs N` (7),
//! `--check` (compare all structures' answers), `--plan` (what the cost model chooses, and why), `--routes FILE`
//! (prefixes, one per line), `--vectors avx2|portable` (what other processors would do).

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
    routes: Option<String>,
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
        routes: None,
    };
    let mut it = std::env::args().skip(1);
    while let Some(x) = it.next() {
        let mut number = || it.next().and_then(|n| n.parse().ok()).expect("a number");
        match &x[..] {
            "--batch" => a.batch = number(),
            "--keys" => a.keys = number(),
            "--runs" => a.runs = number(),
            "--only" => a.only = it.next(),
            "--routes" => a.routes = it.next(),
            "--vectors" => match it.next().as_deref() {
                Some("avx2") => limit_vectors(Vectors::Avx2),
                Some("portable") => limit_vectors(Vectors::Portable),
                _ => limit_vectors(Vectors::Avx512),
            },
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

/// Runs structures in turns and prints medians.
fn measure(list: &[(Box<dyn Classifier>, f64)], batches: &[KeyBuf], a: &Args) {
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
                for b in batches {
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
}

/// Random addresses in a table of routes, `a.b.c.d/len` per line: half of them within a route.
fn routes(file: &str, a: &Args) {
    let text = classbench::text(Path::new(file));
    let mut rng = Rng(7);
    for bits in [32u8, 128] {
        let mut r = Routes::default();
        for line in text.lines() {
            let Some((addr, len)) = line.split_once('/') else {
                continue;
            };
            let (width, value) = match addr.parse().expect("an address") {
                std::net::IpAddr::V4(a) => (32, u128::from(u32::from(a))),
                std::net::IpAddr::V6(a) => (128, u128::from(a)),
            };
            if width == bits {
                r.list
                    .push((value, len.parse().expect("a length"), rng.below(64) as u32));
            }
        }
        let max = u128::MAX >> (128 - bits);
        let layout = Layout::new(&[bits]).expect("a layout");
        let batches: Vec<KeyBuf> = (0..a.keys / a.batch)
            .map(|_| {
                let mut b = KeyBuf::new(&layout, a.batch);
                for _ in 0..a.batch {
                    let (v, len, _) = r.list[rng.below(r.list.len())];
                    let host = max.checked_shr(len.into()).unwrap_or(0);
                    let near = v & !host | rng.wide() & host;
                    b.push(&[if rng.chance(50) {
                        near
                    } else {
                        rng.wide() & max
                    }]);
                }
                b
            })
            .collect();
        for some in [8, 64, r.list.len()] {
            let step = r.list.len() / some;
            let part = Routes {
                list: r.list.iter().step_by(step).take(some).copied().collect(),
            };
            println!("{some} routes of {bits} bits");
            let start = Instant::now();
            let trie = part.trie(bits, 1 << 30).expect("a trie");
            let mut list: Vec<(Box<dyn Classifier>, f64)> =
                vec![(Box::new(trie), start.elapsed().as_secs_f64())];
            if some <= MAX_SMALL {
                let start = Instant::now();
                let table = Table::new(&part.rules(bits).expect("rules")).expect("a table");
                let code = DecisionCode::new(&table).expect("code");
                list.push((Box::new(code), start.elapsed().as_secs_f64()));
            }
            measure(&list, &batches, a);
        }
    }
}

fn main() {
    let a = args();
    if let Some(file) = &a.routes {
        routes(file, &a);
    }
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
        measure(&list, &batches, &a);
        if a.check {
            let mut want = vec![NO_MATCH; a.batch];
            let mut out = want.clone();
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
