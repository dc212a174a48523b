//! IPFilter on ClassBench filter sets: the index of the first matching rule of every trace header is the one that an
//! independent linear search finds.
//!
//! Reads `$ONEFOLD_DATA/rules/classbench` (default `../shared/data` from the workspace) and skips, saying so, where it
//! is not.

use onefold_element::NameDb;
use onefold_element::args::ArgScope;
use onefold_elements::filter::{Filter, Rule, View, parse_rule};
use onefold_elements::lookup;
use onefold_elements::testing::Bench;
use onefold_packet::Packet;
use std::io::Read;
use std::path::PathBuf;
use std::time::Instant;

fn data() -> Option<PathBuf> {
    onefold_testing::data("rules/classbench")
}

fn text(dir: &std::path::Path, name: &str) -> String {
    let plain = dir.join(name);
    if plain.exists() {
        return std::fs::read_to_string(plain).unwrap();
    }
    let file = std::fs::File::open(dir.join(format!("{name}.gz"))).unwrap();
    let mut s = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut s)
        .unwrap();
    s
}

/// A line of a filter set.
#[derive(Debug, Clone)]
struct Line {
    src: (u32, u32),
    dst: (u32, u32),
    sport: (u16, u16),
    dport: (u16, u16),
    proto: Option<u8>,
    /// TCP flags: value, mask.
    flags: (u8, u8),
}

fn number(s: &str) -> u64 {
    match s.strip_prefix("0x") {
        Some(h) => u64::from_str_radix(h, 16).unwrap(),
        None => s.parse().unwrap(),
    }
}

impl Line {
    fn parse(l: &str) -> Line {
        let f: Vec<&str> = l.trim_start_matches('@').split_whitespace().collect();
        let net = |s: &str| {
            let (a, n) = s.split_once('/').unwrap();
            let a: std::net::Ipv4Addr = a.parse().unwrap();
            let n: u32 = n.parse().unwrap();
            let mask = u32::MAX.checked_shl(32 - n).unwrap_or(0);
            (u32::from(a) & mask, mask)
        };
        let port = |i: usize| (f[i].parse().unwrap(), f[i + 2].parse().unwrap());
        let pair = |s: &str| {
            let (v, m) = s.split_once('/').unwrap();
            (number(v), number(m))
        };
        let (proto, mask) = pair(f[8]);
        let (flags, flag_mask) = pair(f[9]);
        let proto = (mask == 0xff).then_some(proto as u8);
        Line {
            src: net(f[0]),
            dst: net(f[1]),
            sport: port(2),
            dport: port(5),
            proto,
            // the column's upper byte is the TCP flags byte; for other protocols it means something else
            flags: match proto {
                Some(6) => ((flags >> 8) as u8, (flag_mask >> 8) as u8),
                _ => (0, 0),
            },
        }
    }

    /// As an IPFilter argument; every third rule denies.
    fn rule(&self, i: usize) -> String {
        let mut s = String::from(if i % 3 == 2 { "deny" } else { "allow" });
        let addr = |a: u32| std::net::Ipv4Addr::from(a);
        let (src, dst) = (addr(self.src.0), addr(self.dst.0));
        s += &format!(
            " src net {src}/{} && dst net {dst}/{}",
            self.src.1.count_ones(),
            self.dst.1.count_ones()
        );
        if let Some(p) = self.proto {
            s += &format!(" && ip proto {p}");
        }
        for (side, bytes, (lo, hi)) in [
            ("src", "transp[0:2]", self.sport),
            ("dst", "transp[2:2]", self.dport),
        ] {
            let field = match self.proto {
                Some(6 | 17) => format!("{side} port"),
                _ => bytes.to_string(),
            };
            match (lo, hi) {
                (0, 65535) => {}
                (lo, hi) if lo == hi => s += &format!(" && {field} {lo}"),
                (0, hi) => s += &format!(" && {field} <= {hi}"),
                (lo, 65535) => s += &format!(" && {field} >= {lo}"),
                (lo, hi) => s += &format!(" && {field} >= {lo} && {field} <= {hi}"),
            }
        }
        if self.flags.1 != 0 {
            s += &format!(
                " && tcp[13] & {:#x} == {}",
                self.flags.1,
                self.flags.0 & self.flags.1
            );
        }
        s
    }

    fn matches(&self, h: &Header) -> bool {
        let within = |v: u16, (lo, hi): (u16, u16)| lo <= v && v <= hi;
        h.src & self.src.1 == self.src.0
            && h.dst & self.dst.1 == self.dst.0
            && self.proto.is_none_or(|p| p == h.proto)
            && within(h.sport, self.sport)
            && within(h.dport, self.dport)
            && (h.proto != 6 || h.flags & self.flags.1 == self.flags.0 & self.flags.1)
    }
}

#[derive(Debug, Clone, Copy)]
struct Header {
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    proto: u8,
    flags: u8,
}

impl Header {
    fn parse(l: &str) -> Header {
        let f: Vec<u64> = l.split_whitespace().map(number).collect();
        Header {
            src: f[0] as u32,
            dst: f[1] as u32,
            sport: f[2] as u16,
            dport: f[3] as u16,
            proto: f[4] as u8,
            // value in the upper half of the column, mask in the lower
            flags: (f[5] >> 24) as u8,
        }
    }
    fn bytes(&self) -> [u8; 40] {
        let mut b = [0u8; 40];
        b[0] = 0x45;
        b[3] = 40;
        b[8] = 64;
        b[9] = self.proto;
        b[12..16].copy_from_slice(&self.src.to_be_bytes());
        b[16..20].copy_from_slice(&self.dst.to_be_bytes());
        b[20..22].copy_from_slice(&self.sport.to_be_bytes());
        b[22..24].copy_from_slice(&self.dport.to_be_bytes());
        b[33] = self.flags;
        b
    }
}

struct Set {
    lines: Vec<Line>,
    rules: Vec<String>,
    headers: Vec<Header>,
}

fn load(dir: &std::path::Path, name: &str) -> Set {
    let lines: Vec<Line> = text(dir, name)
        .lines()
        .filter(|l| l.starts_with('@'))
        .map(Line::parse)
        .collect();
    let trace = text(dir, &format!("{name}_trace"));
    Set {
        rules: lines.iter().enumerate().map(|(i, l)| l.rule(i)).collect(),
        headers: trace.lines().map(Header::parse).collect(),
        lines,
    }
}

fn compile(rules: &[String]) -> Filter {
    let scope = ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    };
    let parsed = rules.iter().enumerate().map(|(i, t)| {
        let (action, parsed) = parse_rule(t, 1, &scope).unwrap_or_else(|e| panic!("{t}: {e}"));
        Rule {
            argument: i as u32,
            action,
            expr: parsed.expr,
        }
    });
    Filter::new(parsed.collect())
}

fn view(b: &[u8]) -> View<'_> {
    View {
        net: b,
        transport: &b[20..],
        mac: &[],
        net6: &[],
    }
}

#[test]
fn first_matching_rule_of_every_header() {
    let Some(dir) = data() else { return };
    for name in [
        "acl1_1k", "fw1_1k", "ipc1_1k", "acl2_1k", "fw2_1k", "acl2_10k", "fw2_10k",
    ] {
        let set = load(&dir, name);
        let filter = compile(&set.rules);
        let mut hit = 0;
        for (n, h) in set.headers.iter().enumerate() {
            let want = set.lines.iter().position(|l| l.matches(h));
            let bytes = h.bytes();
            assert_eq!(filter.first_match(&view(&bytes)), want, "{name}, {h:?}");
            // the walk over the trees is slow on the large sets
            if n % 16 == 0 {
                assert_eq!(
                    filter.first_match_linear(&view(&bytes)),
                    want,
                    "{name}, {h:?}"
                );
            }
            hit += usize::from(want.is_some());
        }
        assert!(hit > 0);
        println!(
            "{name}: {} rules, {} headers, {hit} match, {:?}",
            set.rules.len(),
            set.headers.len(),
            filter.sizes()
        );
    }
}

/// The same through the element: what leaves, what is dropped, and which argument decided.
#[test]
fn verdict_and_trace_of_the_element() {
    let Some(dir) = data() else { return };
    assert!(lookup("IPFilter").is_some());
    for name in ["acl1_1k", "fw1_1k"] {
        let set = load(&dir, name);
        let mut b = Bench::new("IPFilter", &set.rules.join(", "), 1, 1).unwrap();
        for h in &set.headers {
            let want = set.lines.iter().position(|l| l.matches(h));
            let mut p = Box::new(Packet::from_slice(&h.bytes()));
            p.set_network_header(0, 20);
            let out = b.push_packet(0, p);
            assert_eq!(
                out.len() == 1,
                want.is_some_and(|i| i % 3 != 2),
                "{name}, {h:?}"
            );
            assert_eq!(
                b.host.decisions.pop().map(|d| d.0),
                Some(want),
                "{name}, {h:?}"
            );
        }
    }
}

/// `cargo test --release -p onefold-elements --test classbench -- --ignored --nocapture`
#[test]
#[ignore = "measures; run it in release mode"]
fn speed() {
    let Some(dir) = data() else { return };
    for (name, take) in [
        ("acl1_1k", 10),
        ("acl1_1k", 251),
        ("acl1_1k", 713),
        ("acl1_1k", 1000),
        ("fw1_1k", 1000),
        ("ipc1_1k", 1000),
        ("fw2_1k", 1000),
        ("acl2_10k", 8550),
        ("fw2_10k", 8550),
        ("acl2_10k", 100_000),
    ] {
        let mut set = load(&dir, name);
        set.rules.truncate(take);
        set.lines.truncate(take);
        if take == 100_000 {
            // copies of the set, moved to other destination networks
            let lines = set.lines.clone();
            for k in 1u32.. {
                for l in &lines {
                    let mut l = l.clone();
                    l.dst.0 = (l.dst.0 ^ k.wrapping_mul(0x9e37_79b9)) & l.dst.1;
                    l.src.0 = (l.src.0 ^ k.wrapping_mul(0x85eb_ca6b)) & l.src.1;
                    let i = set.rules.len();
                    set.rules.push(l.rule(i));
                    set.lines.push(l);
                }
                if set.rules.len() >= take {
                    break;
                }
            }
        }
        let config = set.rules.join(", ");
        let t = Instant::now();
        let bench = Bench::new("IPFilter", &config, 1, 1).unwrap();
        let whole = t.elapsed();
        drop(bench);
        let t = Instant::now();
        let filter = compile(&set.rules);
        let built = t.elapsed();
        let packets: Vec<[u8; 40]> = set.headers.iter().map(Header::bytes).collect();
        let mut sum = 0;
        let mut best = f64::MAX;
        for _ in 0..5 {
            let t = Instant::now();
            for p in &packets {
                sum += filter.first_match(&view(p)).unwrap_or(0);
            }
            best = best.min(t.elapsed().as_nanos() as f64 / packets.len() as f64);
        }
        let t = Instant::now();
        for p in packets.iter().take(200) {
            sum += filter.first_match_linear(&view(p)).unwrap_or(0);
        }
        let linear = t.elapsed().as_nanos() as f64 / 200.0;
        println!(
            "{name} {:6} rules: {best:7.1} ns, walk {linear:9.1} ns; element configured in {whole:.1?}, compiled {built:.1?}; {:?} {}",
            set.rules.len(),
            filter.sizes(),
            sum % 10,
        );
    }
}
