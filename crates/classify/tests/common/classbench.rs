//! Rule sets and headers in ClassBench's format: addresses, ports, protocol, flags.
#![allow(dead_code)]

use super::common::Rng;
use onefold_classify::*;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The fields.
pub const BITS: &[u8] = &[32, 32, 16, 16, 8, 16];

/// Third-party data, if it is there.
pub fn data() -> Option<PathBuf> {
    onefold_testing::data("rules")?
        .parent()
        .map(Path::to_path_buf)
}

/// A text file, gzip or not.
pub fn text(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut s = String::new();
    match path.extension().is_some_and(|e| e == "gz") {
        true => {
            flate2::read::GzDecoder::new(&bytes[..])
                .read_to_string(&mut s)
                .unwrap();
        }
        false => s = String::from_utf8(bytes).unwrap(),
    }
    s
}

fn number(s: &str) -> u128 {
    match s.strip_prefix("0x") {
        Some(h) => u128::from_str_radix(h, 16).unwrap(),
        None => s.parse().unwrap(),
    }
}

fn prefix(s: &str) -> Match {
    let (a, l) = s.split_once('/').unwrap();
    let a: std::net::Ipv4Addr = a.parse().unwrap();
    Match::Prefix {
        value: u128::from(u32::from(a)),
        len: l.parse().unwrap(),
    }
}

fn mask(s: &str) -> Match {
    let (v, m) = s.split_once('/').unwrap();
    Match::Mask {
        value: number(v),
        mask: number(m),
    }
}

/// A rule set; each rule's value is its index.
pub fn rules(path: &Path) -> Rules {
    let mut r = Rules::new(Layout::new(BITS).unwrap());
    for (i, line) in text(path).lines().enumerate() {
        let c: Vec<&str> = line.trim_start_matches('@').split_whitespace().collect();
        let [src, dst, a, ":", b, x, ":", y, proto, flags] = c[..] else {
            panic!("{}:{}: {line}", path.display(), i + 1);
        };
        let range = |lo, hi| Match::Range {
            lo: number(lo),
            hi: number(hi),
        };
        let row = [
            prefix(src),
            prefix(dst),
            range(a, b),
            range(x, y),
            mask(proto),
            mask(flags),
        ];
        r.push(&row, i as u32).unwrap();
    }
    r
}

/// The headers of a trace, at most so many.
pub fn trace(path: &Path, most: usize) -> KeyBuf {
    let text = text(path);
    let mut keys = KeyBuf::new(&Layout::new(BITS).unwrap(), most.min(text.lines().count()));
    for line in text.lines().take(most) {
        let mut k: Vec<u128> = line.split_whitespace().take(6).map(number).collect();
        k[5] &= 0xffff;
        assert!(keys.push(&k), "{line}");
    }
    keys
}

/// Headers drawn from rules chosen at random, each anywhere within its rule.
pub fn headers(rules: &Rules, n: usize, rng: &mut Rng) -> Vec<Vec<u128>> {
    let l = rules.layout();
    (0..n)
        .map(|_| {
            let (m, _) = rules.get(rng.below(rules.len())).unwrap();
            (m.iter().enumerate())
                .map(|(f, m)| {
                    let (max, r) = (l.max_of(f), rng.wide());
                    match *m {
                        Match::Any => r & max,
                        Match::Exact(v) => v,
                        Match::Prefix { value, len } => {
                            let host = match l.bits(f) - len {
                                128 => u128::MAX,
                                h => (1 << h) - 1,
                            };
                            value & !host | r & host
                        }
                        Match::Range { lo, hi } => match (hi - lo).checked_add(1) {
                            Some(n) => lo + r % n,
                            None => r,
                        },
                        Match::Mask { value, mask } => value & mask | r & !mask & max,
                    }
                })
                .collect()
        })
        .collect()
}
