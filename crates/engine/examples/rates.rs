//! Nanoseconds per packet of routers and NATs in the batched engine, above the ceiling (copying templates in and discarding).
//!
//! `cargo run --release -p onefold-engine --example rates [-- CHAIN...]` with chains such as `routers-1`, `napts-4`.

use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::Timestamp;
use std::fmt::Write;

/// One standards-compliant router of ten routes; every output leads to the next one's input.
fn router(i: usize, text: &mut String) {
    let mut routes = String::new();
    for r in 0..10 {
        let _ = write!(routes, "{}10.{r}.0.0/16 {r}", if r > 0 { ", " } else { "" });
    }
    let _ = writeln!(
        text,
        "elementclass Router{i} {{\n input -> c :: Classifier(12/0800, -) -> Paint(1) -> Strip(14)\n\
         -> CheckIPHeader -> rt :: RadixIPLookup({routes});\n c[1] -> Discard;\n"
    );
    for r in 0..10 {
        let _ = writeln!(
            text,
            "rt[{r}] -> DropBroadcasts -> cp{r} :: PaintTee(9) -> gio{r} :: IPGWOptions(10.{r}.0.1)\n\
             -> FixIPSrc(10.{r}.0.1) -> dt{r} :: DecIPTTL -> fr{r} :: IPFragmenter(1500)\n\
             -> EtherEncap(0x0800, 00:00:00:00:0{i}:0{r}, 00:00:00:00:01:0{r}) -> output;\n\
             dt{r}[1] -> ICMPError(10.{r}.0.1, timeexceeded) -> [0]rt;\n\
             fr{r}[1] -> ICMPError(10.{r}.0.1, unreachable, needfrag) -> [0]rt;\n\
             gio{r}[1] -> ICMPError(10.{r}.0.1, parameterproblem) -> [0]rt;\n\
             cp{r}[1] -> ICMPError(10.{r}.0.1, redirect, host) -> [0]rt;\n"
        );
    }
    text.push_str("}\n");
}

/// A NAPT: checks the header and rewrites with one pattern.
fn napt(i: usize, text: &mut String) {
    let _ = writeln!(
        text,
        "elementclass Napt{i} {{\n input -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader\n\
         -> rw :: IPRewriter(pattern 100.{i}.0.1 1024-65535 - - 0 1)\n\
         -> EtherEncap(0x0800, 00:00:00:00:00:0{i}, 00:00:00:00:01:0{i}) -> output;\n\
         rw[1] -> Discard; c[1] -> Discard;\n}}"
    );
}

fn chain(name: &str) -> Option<String> {
    let mut text = String::new();
    let (kind, n) = name.rsplit_once('-')?;
    let n: usize = n.parse().ok().filter(|n| *n <= 9)?;
    let class = match kind {
        "routers" => "Router",
        "napts" => "Napt",
        "none" => "",
        _ => return None,
    };
    for i in 0..n {
        match class {
            "Router" => router(i, &mut text),
            _ => napt(i, &mut text),
        }
    }
    text.push_str("Idle -> first :: Null");
    for i in 0..n {
        let _ = write!(text, " -> {class}{i}");
    }
    text.push_str(" -> out :: Discard;");
    Some(text)
}

/// UDP packets of `flows` flows over all routes, minimum size.
fn templates(flows: usize) -> Vec<Vec<u8>> {
    (0..flows)
        .map(|f| {
            let mut p = vec![0u8; 60];
            p[0..6].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
            p[12..14].copy_from_slice(&[8, 0]);
            p[14] = 0x45;
            p[17] = 46;
            p[22] = 64;
            p[23] = 17;
            p[26..30].copy_from_slice(&[192, 168, (f >> 8) as u8, f as u8]);
            p[30..34].copy_from_slice(&[10, (f % 10) as u8, (f >> 8) as u8, 7]);
            p[34..38].copy_from_slice(&[0x10, f as u8, 0, 53]);
            p[39] = 26;
            let sum = onefold_packet::checksum::internet(&p[14..34]);
            p[24..26].copy_from_slice(&sum.to_be_bytes());
            p
        })
        .collect()
}

/// Processor time of this thread so far: other load on the machine does not count.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    first.and_then(|n| n.parse().ok()).unwrap_or(0)
}

fn measure(name: &str, flows: usize, batch: usize, packets: usize) -> Option<f64> {
    let text = chain(name)?;
    let flat = onefold_click::load(text.as_bytes(), name, &[], &Default::default())
        .unwrap_or_else(|e| panic!("{e:?}"));
    let mut g = Graph::build(spec_from_flat(&flat), &BuildOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let first = g.find("first")?;
    let packets_in = templates(flows);
    let mut list = Vec::with_capacity(batch);
    let mut next = 0;
    let mut best = f64::MAX;
    for round in 0..6 {
        let began = cpu_nanos();
        for b in 0..packets / batch {
            for _ in 0..batch {
                list.push(g.make_packet(&packets_in[next]));
                next = (next + 7) % packets_in.len();
            }
            let at = Timestamp::from_micros((round * packets + b) as i64);
            g.inject_batch(first, &mut list, at);
        }
        if round > 0 {
            best = best.min((cpu_nanos() - began) as f64 / packets as f64);
        }
    }
    let t = g.totals();
    assert!(t.balanced(), "{t:?}");
    let out = g
        .drops()
        .iter()
        .find(|d| d.element == "out")
        .map_or(0, |d| d.packets);
    let lost = t.packets_in - out;
    if lost > 0 {
        println!(
            "  {name}: {lost} of {} packets did not come through: {:?}",
            t.packets_in,
            g.drops()
        );
    }
    Some(best)
}

fn main() {
    let mut chains: Vec<String> = std::env::args().skip(1).collect();
    if chains.is_empty() {
        chains = ["none-0", "routers-1", "routers-4", "napts-1", "napts-4"]
            .map(String::from)
            .into();
    }
    for c in &chains {
        for (flows, batch) in [(1000, 32), (1000, 256), (4000, 32), (64_000, 32)] {
            match measure(c, flows, batch, 400_000) {
                Some(ns) => {
                    println!("{c:12} {flows:6} flows, batches of {batch:3}: {ns:7.1} ns per packet")
                }
                None => println!("{c}: no such chain"),
            }
        }
    }
}
