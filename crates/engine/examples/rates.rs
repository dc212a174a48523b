//! Nanoseconds of processor time per packet of whole chains in the batched engine, on minimum-size frames from memory. The
//! ceiling, the same packets copied in and discarded with no chain between, is the chain `none`.
//!
//! ```text
//! cargo run --release -p onefold-engine --example rates [-- [--batch N] [--rounds N] CHAIN...]
//! cargo run --release -p onefold-engine --example rates -- --text CHAIN             the chain, as an element class `Chain`
//! cargo run --release -p onefold-engine --example rates -- --packets CHAIN FILE     its packets, as a capture
//! ```
//!
//! With the last two, any other program that reads Click's language can be measured on the same chain and packets.
//! Chains: `none`, `l2`, `l3`, `l3-full`, `routers-N`, `napts-N` (1,000 flows), `napts-N-64k`, `filter-RULES`, and
//! `edge-RULES` (firewall, router and NAPT).

use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::{Timestamp, checksum};
use std::fmt::Write;

/// Bytes of a frame, and of its place in the list: the frame check sequence would make it 64.
const FRAME: usize = 60;

fn routes() -> String {
    let list: Vec<String> = (0..10).map(|r| format!("10.{r}.0.0/16 {r}")).collect();
    list.join(", ")
}

/// One standards-compliant router of ten routes; every output leads to the next one's input.
fn router(i: usize, text: &mut String) {
    let _ = writeln!(
        text,
        "elementclass Router{i} {{\n input -> c :: Classifier(12/0800, -) -> Paint(1) -> Strip(14)\n\
         -> CheckIPHeader -> rt :: RadixIPLookup({});\n c[1] -> Discard;",
        routes()
    );
    for r in 0..10 {
        let _ = writeln!(
            text,
            "rt[{r}] -> DropBroadcasts -> cp{r} :: PaintTee(9) -> gio{r} :: IPGWOptions(10.{r}.0.1)\n\
             -> FixIPSrc(10.{r}.0.1) -> dt{r} :: DecIPTTL -> fr{r} :: IPFragmenter(1500)\n\
             -> EtherEncap(0x0800, 00:00:00:00:{i:02x}:0{r}, 00:00:00:01:{i:02x}:0{r}) -> output;\n\
             dt{r}[1] -> ICMPError(10.{r}.0.1, timeexceeded) -> [0]rt;\n\
             fr{r}[1] -> ICMPError(10.{r}.0.1, unreachable, needfrag) -> [0]rt;\n\
             gio{r}[1] -> ICMPError(10.{r}.0.1, parameterproblem) -> [0]rt;\n\
             cp{r}[1] -> ICMPError(10.{r}.0.1, redirect, host) -> [0]rt;"
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
         -> EtherEncap(0x0800, 00:00:00:00:{i:02x}:aa, 00:00:00:01:{i:02x}:aa) -> output;\n\
         rw[1] -> Discard; c[1] -> Discard;\n}}"
    );
}

/// A firewall that allows what rule 0, 1, ... describe and denies the rest. Prefix lengths and ports are spread as in access
/// lists between networks: sources are networks, destinations mostly hosts, most rules name a port.
fn firewall(rules: usize, text: &mut String) {
    text.push_str(
        "elementclass Firewall {\n input -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader\n -> IPFilter(",
    );
    for i in 0..rules {
        let r = Rule::new(i);
        let [a, b, c, _] = r.src;
        let [w, x, y, z] = r.dst;
        let _ = write!(
            text,
            "allow src net {a}.{b}.{c}.0/24 && dst net {w}.{x}.{y}.{z}/{} && udp",
            r.dst_len
        );
        if let Some(p) = r.port {
            let _ = write!(text, " && dst port {p}");
        }
        text.push_str(",\n  ");
    }
    text.push_str("deny all) -> Unstrip(14) -> output;\n c[1] -> Discard;\n}\n");
}

/// One rule of the firewall.
struct Rule {
    src: [u8; 4],
    dst: [u8; 4],
    dst_len: u32,
    port: Option<u16>,
}

impl Rule {
    fn new(i: usize) -> Rule {
        let mixed = (i as u32).wrapping_mul(2_654_435_761);
        let dst_len = [32, 32, 32, 28, 24][i % 5];
        let host = 0x0a00_0000 | (i as u32 % 10) << 16 | mixed >> 16;
        let dst = host & u32::MAX << (32 - dst_len);
        Rule {
            src: [20 + (i % 7) as u8, (i >> 8) as u8, i as u8, 0],
            dst: dst.to_be_bytes(),
            dst_len,
            port: (!i.is_multiple_of(8)).then(|| 1 + (mixed % 9000) as u16),
        }
    }
}

/// A chain by name: the text of its element class `Chain`, its flows, and the rules that they follow.
fn chain(name: &str) -> Option<(String, Vec<[u8; FRAME]>)> {
    let (stem, flows) = match name.strip_suffix("-64k") {
        Some(s) => (s, 64_000),
        None => (name, 1000),
    };
    let (kind, n) = match stem.rsplit_once('-') {
        Some((kind, n)) if kind != "l3" => (kind, n.parse().ok().filter(|n| *n <= 10_000)?),
        _ => (stem, 0usize),
    };
    let mut text = String::new();
    let path: Vec<String> = match kind {
        "none" | "l2" | "l3" | "l3-full" => Vec::new(),
        "routers" | "napts" if n <= 99 => (0..n)
            .map(|i| match kind {
                "routers" => {
                    router(i, &mut text);
                    format!("Router{i}")
                }
                _ => {
                    napt(i, &mut text);
                    format!("Napt{i}")
                }
            })
            .collect(),
        "filter" => {
            firewall(n, &mut text);
            vec!["Firewall".into()]
        }
        "edge" => {
            firewall(n, &mut text);
            router(0, &mut text);
            napt(1, &mut text);
            ["Firewall", "Router0", "Napt1"].map(String::from).into()
        }
        _ => return None,
    };
    let forward = |check: &str, change: &str| {
        let mut t = format!(
            "input -> Strip(14) -> {check} -> rt :: RadixIPLookup({});\n",
            routes()
        );
        for r in 0..10 {
            let _ = writeln!(
                t,
                "rt[{r}] -> {change} EtherEncap(0x0800, 00:00:00:00:00:0{r}, 00:00:00:01:00:0{r}) -> output;"
            );
        }
        t
    };
    let body = match kind {
        "none" => "input -> output;".to_string(),
        "l2" => "input -> EtherMirror -> output;".to_string(),
        "l3" => forward("GetIPAddress(16)", ""),
        "l3-full" => forward("CheckIPHeader", "DecIPTTL ->"),
        _ => format!("input -> {} -> output;", path.join(" -> ")),
    };
    let _ = writeln!(text, "elementclass Chain {{ {body} }}");
    let rules = if matches!(kind, "filter" | "edge") {
        n
    } else {
        0
    };
    let flows = match (kind, rules) {
        ("routers" | "l3" | "l3-full", _) => 4000,
        (_, 0) => flows,
        _ => 10_000,
    };
    Some((text, frames(flows, rules)))
}

/// UDP frames of `flows` flows, one each, shuffled; over all routes, or over all rules.
fn frames(flows: usize, rules: usize) -> Vec<[u8; FRAME]> {
    // 7 has no factor in common with any number of flows here
    (0..flows).map(|k| frame(k * 7 % flows, rules)).collect()
}

fn frame(f: usize, rules: usize) -> [u8; FRAME] {
    let mut p = [0u8; FRAME];
    p[0..6].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
    p[6..12].copy_from_slice(&[0, 0, 0, 0, 0, 2]);
    p[12..14].copy_from_slice(&[8, 0]);
    p[14] = 0x45;
    p[17] = 46;
    p[22] = 64;
    p[23] = 17;
    let (src, dst, port) = match rules {
        0 => (
            [192, 168, (f >> 8) as u8, f as u8],
            [10, (f % 10) as u8, (f >> 8) as u8, 7],
            53,
        ),
        n => {
            let (r, turn) = (Rule::new(f % n), f / n);
            let src = [r.src[0], r.src[1], r.src[2], 1 + (turn % 250) as u8];
            let inside = (turn as u32) & (u32::MAX >> 1 >> (r.dst_len - 1));
            let dst = u32::from_be_bytes(r.dst) | inside;
            (src, dst.to_be_bytes(), r.port.unwrap_or(7))
        }
    };
    p[26..30].copy_from_slice(&src);
    p[30..34].copy_from_slice(&dst);
    p[34..36].copy_from_slice(&(1024 + (f % 60_000) as u16).to_be_bytes());
    p[36..38].copy_from_slice(&port.to_be_bytes());
    p[39] = 26;
    let sum = checksum::internet(&p[14..34]);
    p[24..26].copy_from_slice(&sum.to_be_bytes());
    p
}

/// A capture of the frames.
fn capture(frames: &[[u8; FRAME]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(24 + frames.len() * (16 + FRAME));
    for w in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65_535, 1] {
        out.extend(w.to_le_bytes());
    }
    for f in frames {
        for w in [1, 0, FRAME as u32, FRAME as u32] {
            out.extend(w.to_le_bytes());
        }
        out.extend(f);
    }
    out
}

/// Processor time of this thread so far: other load on the machine does not count. The kernel brings it up to date some
/// hundred times a second, so that what is measured has to take longer.
fn cpu_nanos() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = stat.split_whitespace().next();
    first.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Nanoseconds per packet of each round, in rising order.
fn measure(name: &str, batch: usize, rounds: usize) -> Option<Vec<f64>> {
    let (text, frames) = chain(name)?;
    let text = format!("{text}\nIdle -> first :: Null -> Chain -> out :: Discard;");
    let flat = onefold_click::load(text.as_bytes(), name, &[], &Default::default())
        .unwrap_or_else(|e| panic!("{e:?}"));
    let mut g = Graph::build(spec_from_flat(&flat), &BuildOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let first = g.find("first")?;
    let mut list = Vec::with_capacity(batch);
    let (mut next, mut clock) = (0, 0);
    let mut run = |g: &mut Graph, packets: usize| {
        for _ in 0..packets.div_ceil(batch) {
            for _ in 0..batch {
                list.push(g.make_packet(&frames[next]));
                next += 1;
                if next == frames.len() {
                    next = 0;
                }
            }
            clock += 2;
            g.inject_batch(first, &mut list, Timestamp::from_micros(clock));
        }
    };
    // every flow is met once before anything is measured, and a round takes a quarter of a second
    run(&mut g, frames.len().max(20_000));
    let began = cpu_nanos();
    let mut packets = 0;
    while cpu_nanos() - began < 100_000_000 {
        run(&mut g, 10_000);
        packets += 10_000;
    }
    let mut each: Vec<f64> = (0..rounds)
        .map(|_| {
            let n = packets * 5 / 2;
            let began = cpu_nanos();
            run(&mut g, n);
            (cpu_nanos() - began) as f64 / (n.div_ceil(batch) * batch) as f64
        })
        .collect();
    each.sort_by(f64::total_cmp);
    let t = g.totals();
    assert!(t.balanced(), "{t:?}");
    let drops = g.drops();
    let out = drops.iter().find(|d| d.element == "out");
    let lost = t.packets_in - out.map_or(0, |d| d.packets);
    if lost > 0 {
        println!(
            "{name}: {lost} of {} did not come through: {drops:?}",
            t.packets_in
        );
    }
    Some(each)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let mut number = |option: &str, default: usize| {
        let Some(i) = args.iter().position(|a| a == option) else {
            return default;
        };
        let n = args.get(i + 1).and_then(|n| n.parse().ok());
        args.drain(i..args.len().min(i + 2));
        n.filter(|n| *n > 0).unwrap_or(default)
    };
    let (batch, rounds) = (number("--batch", 32), number("--rounds", 5));
    let no_chain = |c: &String| format!("no chain is called {c}");
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--text", c] => {
            print!("{}", chain(c).ok_or_else(|| no_chain(&args[1]))?.0);
            return Ok(());
        }
        ["--packets", c, file] => {
            let (_, frames) = chain(c).ok_or_else(|| no_chain(&args[1]))?;
            std::fs::write(file, capture(&frames))?;
            return Ok(());
        }
        [] => {
            args = [
                "none",
                "l2",
                "l3-full",
                "routers-1",
                "routers-10",
                "napts-1",
                "filter-251",
            ]
            .map(String::from)
            .into();
        }
        _ => {}
    }
    for c in &args {
        let ns = measure(c, batch, rounds).ok_or_else(|| no_chain(c))?;
        println!(
            "{c:14} batches of {batch:3}: {:7.1} ns per packet ({:.1} to {:.1})",
            ns[ns.len() / 2],
            ns[0],
            ns[ns.len() - 1]
        );
    }
    Ok(())
}
