//! The large ClassBench filter sets in the ISP edge's firewall: every header of their traces is taken by the rule
//! that a linear search finds, in the reference graph and in the synthesized program.
//!
//! Reads `$ONEFOLD_DATA/rules/classbench` (default `../shared/data` from the workspace) and skips, saying so, where
//! it is not.

use crate::common;

use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_synth::{Budget, Program, synthesize};
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Instant;

fn text(name: &str) -> Option<String> {
    let file = common::data()?
        .join("rules/classbench")
        .join(format!("{name}.gz"));
    let Ok(file) = std::fs::File::open(&file) else {
        onefold_testing::skip(format!("{} is missing", file.display()));
        return None;
    };
    let mut s = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut s)
        .expect("a compressed text");
    Some(s)
}

/// A line of a filter set.
struct Line {
    src: (u32, u32),
    dst: (u32, u32),
    sport: (u16, u16),
    dport: (u16, u16),
    proto: Option<u8>,
    /// Value and mask: TCP flags or ICMP type in the upper byte, ICMP code in the lower one.
    flags: (u16, u16),
}

fn number(s: &str) -> u64 {
    let hex = s.strip_prefix("0x").map(|h| u64::from_str_radix(h, 16));
    hex.unwrap_or_else(|| s.parse()).expect("a number")
}

impl Line {
    fn parse(l: &str) -> Line {
        let f: Vec<&str> = l.trim_start_matches('@').split_whitespace().collect();
        let net = |s: &str| {
            let (a, n) = s.split_once('/').expect("a prefix");
            let mask = u32::MAX
                .checked_shl(32 - n.parse::<u32>().expect("a length"))
                .unwrap_or(0);
            (
                u32::from(a.parse::<Ipv4Addr>().expect("an address")) & mask,
                mask,
            )
        };
        let port = |i: usize| (number(f[i]) as u16, number(f[i + 2]) as u16);
        let pair = |s: &str| {
            let (v, m) = s.split_once('/').expect("a value and a mask");
            (number(v) as u16, number(m) as u16)
        };
        let (proto, mask) = pair(f[8]);
        assert!(matches!(mask, 0 | 0xff), "{l}");
        Line {
            src: net(f[0]),
            dst: net(f[1]),
            sport: port(2),
            dport: port(5),
            proto: (mask == 0xff).then_some(proto as u8),
            flags: pair(f[9]),
        }
    }

    fn matches(&self, h: &Header) -> bool {
        let ports = |v: u16, (lo, hi): (u16, u16)| {
            // who asks for a port asks for a protocol that has some
            (lo, hi) == (0, 65535) || matches!(h.proto, 6 | 17) && (lo..=hi).contains(&v)
        };
        let (value, mask) = self.flags;
        let flags = match self.proto {
            Some(1) => mask & (value ^ (u16::from(h.first) << 8 | u16::from(h.second))) == 0,
            // an ICMP code is nothing that another protocol has; flags are TCP's
            Some(6) => (mask >> 8) & ((value >> 8) ^ u16::from(h.flags)) == 0,
            None => {
                mask >> 8 == 0
                    || h.proto == 6 && (mask >> 8) & ((value >> 8) ^ u16::from(h.flags)) == 0
            }
            Some(_) => true,
        };
        h.src & self.src.1 == self.src.0
            && h.dst & self.dst.1 == self.dst.0
            && self.proto.is_none_or(|p| p == h.proto)
            && ports(h.sport, self.sport)
            && ports(h.dport, self.dport)
            && flags
    }
}

/// A header of a trace, as a packet has it.
#[derive(Debug)]
struct Header {
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    proto: u8,
    flags: u8,
    /// The first two bytes behind the IP header.
    first: u8,
    second: u8,
}

impl Header {
    fn parse(l: &str) -> Header {
        let f: Vec<u64> = l.split_whitespace().map(number).collect();
        let (sport, flags) = (f[2] as u16, (f[5] >> 24) as u8);
        let (first, second) = match f[4] {
            // value in the upper half of the column, mask in the lower
            1 => (flags, (f[5] >> 16) as u8),
            _ => ((sport >> 8) as u8, sport as u8),
        };
        Header {
            src: f[0] as u32,
            dst: f[1] as u32,
            sport,
            dport: f[3] as u16,
            proto: f[4] as u8,
            flags,
            first,
            second,
        }
    }

    /// A frame to the router's inside address.
    fn frame(&self) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
        let mut b = [0u8; 40];
        (b[0], b[3], b[8], b[9]) = (0x45, 40, 64, self.proto);
        b[12..16].copy_from_slice(&self.src.to_be_bytes());
        b[16..20].copy_from_slice(&self.dst.to_be_bytes());
        (b[20], b[21]) = (self.first, self.second);
        if self.proto != 1 {
            b[22..24].copy_from_slice(&self.dport.to_be_bytes());
            b[33] = self.flags;
        }
        let mut sum: u32 = b[..20]
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        b[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        f.extend_from_slice(&b);
        f
    }
}

/// The ISP edge with this access list.
fn edge(rules: &Path) -> (Graph, ElemId) {
    let options = onefold_chain::Options {
        set: vec![("rules".to_string(), rules.display().to_string())],
        examples: vec![common::root().join("chains")],
    };
    let chain = onefold_chain::load("isp-edge", &options).unwrap_or_else(|e| panic!("{e:?}"));
    let lan = chain
        .ports
        .iter()
        .find(|p| p.name == "lan")
        .and_then(|p| p.source);
    let graph =
        Graph::build(chain.graph, &BuildOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    (graph, ElemId(lan.expect("packets enter at lan") as u32))
}

/// Seconds that this thread has been executed for; of the clock on the wall where the system does not say.
fn thread_seconds(wall: Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ns = stat.and_then(|s| s.split_whitespace().next()?.parse::<u64>().ok());
    ns.map_or_else(|| wall.elapsed().as_secs_f64(), |n| n as f64 / 1e9)
}

fn timed(graph: &Graph, what: &str, bound: f64) -> Program {
    let wall = Instant::now();
    let before = thread_seconds(wall);
    let program = synthesize(&graph.synthesis_input(), Budget::default());
    let seconds = thread_seconds(wall) - before;
    let rules: usize = program.stages.iter().map(|s| s.rules.len()).sum();
    println!(
        "{what}: synthesized in {seconds:.2} s on one core, {rules} rules in {} stages",
        program.stages.len()
    );
    // without optimization, and with the checks that run behind it then, it takes longer
    if !cfg!(debug_assertions) {
        assert!(seconds < bound, "{what}: {seconds} s");
    }
    program
}

/// Headers of a trace through both executions: one in `part` of them, with one in `part` of the rules.
fn compare(name: &str, part: usize) {
    let (Some(rules), Some(trace)) = (text(name), text(&format!("{name}_trace"))) else {
        return;
    };
    let dir = common::temp(&format!("classbench-{name}"));
    let file: PathBuf = dir.join("all.rules");
    let rules: Vec<&str> = rules.lines().step_by(part).collect();
    std::fs::write(&file, rules.join("\n")).expect("the rules");
    // with their numbers, from 1
    let lines: Vec<(u32, Line)> = (1..)
        .zip(&rules)
        .filter(|(_, l)| l.starts_with('@'))
        .map(|(n, l)| (n, Line::parse(l)))
        .collect();
    let headers = trace.lines().step_by(part).map(Header::parse);
    let headers: Vec<Header> = headers.collect();
    assert!(lines.len() * part > 9000 && headers.len() * part > 18_000);

    let (graph, lan) = edge(&file);
    let program = timed(&graph, name, 5.0);
    let firewall = ElemId(
        (0..graph.spec().elements.len())
            .find(|i| graph.spec().elements[*i].name == "fw/up_rules")
            .expect("the firewall's rules") as u32,
    );
    let mut reference = graph.fork();
    let mut runner = ProgramRunner::with_program(graph, &program).unwrap_or_else(|e| panic!("{e}"));
    let (mut by_rule, mut by_default, mut out) = (0, 0, 0);
    for (n, h) in headers.iter().enumerate() {
        // line 0: none of them, the default
        let want = lines.iter().find(|(_, l)| l.matches(h));
        let want = Some(want.map_or(0, |(n, _)| *n));
        let at = Timestamp::from_secs(1000) + Timestamp(n as i64 * 1000);
        let frame = h.frame();

        reference.start_trace();
        reference.inject(lan, &frame, at);
        let (steps, _) = reference.take_trace();
        let step = steps.iter().find(|s| s.element == firewall);
        let argument = step.map(|s| s.decisions.first().and_then(|d| d.argument));
        let of_list = |arg: Option<usize>| {
            let arg = arg.expect("a rule decides");
            let loc = reference.spec().arg_loc(firewall.0 as usize, arg);
            if loc.file.ends_with("all.rules") {
                loc.line
            } else {
                0
            }
        };
        assert_eq!(
            argument.map(of_list),
            want,
            "{name}, reference graph, {h:?}"
        );

        runner.start_trace();
        runner.inject(lan, &frame, at);
        let (stages, _, _) = runner.take_trace();
        // the first stage tells: all that the firewall distinguishes is in it
        let origin = stages.iter().find_map(|s| {
            let rule = program.stages.get(s.stage)?.rules.get(s.rule?)?;
            rule.origin.iter().find(|o| o.elem == firewall)
        });
        let argument = origin.map(|o| o.arg.map(|a| a as usize));
        assert_eq!(
            argument.map(of_list),
            want,
            "{name}, program, {h:?}: {stages:?}"
        );

        let mut left = [0u64; 2];
        reference.drain_transmitted(|_, _| left[0] += 1);
        runner.graph_mut().drain_transmitted(|_, _| left[1] += 1);
        assert_eq!(left[0], left[1], "{name}, {h:?}");
        out += left[0];
        match want {
            Some(0) => by_default += 1,
            _ => by_rule += 1,
        }
    }
    println!(
        "{name}: {} rules; {} headers: {by_rule} taken by the linear search's rule in both modes, {by_default} by the default; \
        {out} packets left",
        lines.len(),
        headers.len()
    );
    // a header was made for one rule, which may not be there
    assert!(by_rule > headers.len() / if part == 1 { 2 } else { 100 });
}

#[test]
fn acl2_10k() {
    compare("acl2_10k", 16);
}

#[test]
fn fw2_10k() {
    compare("fw2_10k", 16);
}

/// Whole lists and traces: `cargo test --profile quick -p onefold --test cli-suite -- classbench:: --include-ignored
/// --nocapture`.
#[test]
#[ignore = "long: whole lists"]
fn whole_lists() {
    compare("acl2_10k", 1);
    compare("fw2_10k", 1);
}

/// The bounds on time and memory; they hold for an optimized build.
#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "long without optimization, where the bounds say nothing"
)]
fn synthesis_is_quick_and_small() {
    let (graph, _) = edge(&common::root().join("chains/isp-edge/acl-713.rules"));
    timed(&graph, "713 rules", 0.3);
    let Some(rules) = text("acl2_10k") else {
        return;
    };
    let dir = common::temp("classbench-memory");
    std::fs::write(dir.join("all.rules"), rules).expect("the rules");
    let args = ["explain", "isp-edge", "--set", "rules=all.rules"];
    // in a process of its own, so that nothing else is counted
    let v = common::json(&dir, 0, &args);
    println!(
        "10k rules: {:.2} s, {} classes, peak memory {:.0} MB",
        v["seconds"].as_f64().unwrap(),
        v["classes"].as_array().unwrap().len(),
        v["peak_bytes"].as_f64().unwrap_or(0.0) / 1e6
    );
    if let Some(peak) = v["peak_bytes"].as_u64() {
        assert!(peak < 1 << 30, "{peak} bytes");
    }
}

/// A part of a list, one in three rules denying, in the ISP edge: proved, and its share of the header space counted.
/// (Whole lists, and all mixtures of verdicts: `proved_lists.rs`.)
fn proved(name: &str, part: usize) {
    let Some(rules) = text(name) else {
        return;
    };
    let dir = common::temp(&format!("classbench-proof-{name}"));
    let file = dir.join("some.rules");
    let some: Vec<&str> = rules.lines().step_by(part).collect();
    std::fs::write(&file, some.join("\n")).expect("the rules");
    let chain = common::root().join("chains/isp-edge/chain.yaml");
    let chain = std::fs::read_to_string(chain).expect("the chain");
    let with = "format: classbench\n      deny-every: 3\n      default: deny";
    let chain = chain.replace("default: deny", with);
    std::fs::write(dir.join("edge.yaml"), &chain).expect("the chain");
    let args = ["verify", "edge.yaml", "--prove"];
    let v = common::json(
        &dir,
        0,
        &[&args[..], &["--set", "rules=some.rules"]].concat(),
    );
    println!("{name}: {v}");
    assert_eq!(v["verdict"], "proved");
    let space = &v["header_space"];
    assert_eq!(space["unknown"].as_f64(), Some(0.0));
    assert!(space["within"].as_f64().is_some_and(|w| w < 1e-3), "{v}");
}

#[test]
fn acl2_10k_is_proved() {
    proved("acl2_10k", 50);
}

#[test]
fn fw2_10k_is_proved() {
    proved("fw2_10k", 50);
}
