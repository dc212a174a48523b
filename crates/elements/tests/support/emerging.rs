//! The Emerging Threats rules and the captured payloads of the third-party data, as matchers take them.
#![allow(dead_code)] // the test and the example that include it take different parts

use onefold_capture::{CaptureReader, LinkType};
use onefold_elements::payload::base::Base;
use onefold_packet::Packet;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// All files below a folder, in one order on every machine.
pub fn files(dir: &Path, to: &mut Vec<PathBuf>) {
    let mut all: Vec<PathBuf> = (std::fs::read_dir(dir).into_iter().flatten())
        .filter_map(|e| e.ok().map(|e| e.path()))
        .collect();
    all.sort();
    for p in all {
        match p.is_dir() {
            true => files(&p, to),
            false => to.push(p),
        }
    }
}

/// The bytes of a `content` option's text: `|0d 0a|` is hexadecimal, a backslash protects one character. `None`: not
/// understood.
fn content(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for (i, part) in text.split('|').enumerate() {
        if i % 2 == 1 {
            let digits: String = part.split_whitespace().collect();
            let pair = |k: usize| u8::from_str_radix(digits.get(k..k + 2)?, 16).ok();
            out.extend(
                (0..digits.len())
                    .step_by(2)
                    .map(pair)
                    .collect::<Option<Vec<u8>>>()?,
            );
            continue;
        }
        let mut bytes = part.bytes();
        while let Some(b) = bytes.next() {
            out.push(if b == b'\\' { bytes.next()? } else { b });
        }
    }
    Some(out)
}

/// The longest `content` of a rule that is not negated.
fn longest(rule: &str) -> Option<Vec<u8>> {
    let mut best: Option<Vec<u8>> = None;
    let mut rest = rule;
    while let Some(at) = rest.find("content:") {
        rest = rest[at + 8..].trim_start();
        let Some(text) = rest.strip_prefix('"') else {
            continue;
        };
        let bytes = text.as_bytes();
        let mut end = 0;
        while end < bytes.len() && bytes[end] != b'"' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let c = content(text.get(..end).unwrap_or("")).filter(|c| !c.is_empty());
        best = best.into_iter().chain(c).max_by_key(Vec::len);
        rest = text.get(end..).unwrap_or("");
    }
    best
}

/// What a matcher looks for, of all rules of the files, those that are switched off or cannot be expressed included:
/// the longest string of each, in lower case, each once.
pub fn needles(dir: &Path) -> Vec<Vec<u8>> {
    let mut paths = Vec::new();
    files(dir, &mut paths);
    let mut known = HashSet::new();
    let mut all = Vec::new();
    for p in paths
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "rules"))
    {
        let text = String::from_utf8_lossy(&std::fs::read(p).unwrap_or_default()).into_owned();
        let found = text
            .lines()
            .filter_map(longest)
            .map(|n| n.to_ascii_lowercase());
        all.extend(found.filter(|n| known.insert(n.clone())));
    }
    all
}

/// Every IP packet of the captures below a folder, as an element behind `Strip(14)` gets it.
pub fn packets(dir: &Path) -> Vec<Packet> {
    let mut paths = Vec::new();
    files(dir, &mut paths);
    let mut all = Vec::new();
    let mut buf = Vec::new();
    for p in paths {
        let Ok(mut r) = CaptureReader::open(&p) else {
            continue;
        };
        // a damaged container ends it
        while let Some(Ok(meta)) = r.next_into(&mut buf) {
            let ip = match (meta.link, buf.get(12..14)) {
                (LinkType(1), Some([0x08, 0x00] | [0x86, 0xdd])) => buf.get(14..),
                (LinkType(101), _) => Some(&buf[..]),
                _ => None,
            };
            let version = ip.and_then(|b| b.first()).map(|b| b >> 4);
            let (Some(ip), Some(4 | 6)) = (ip, version) else {
                continue;
            };
            let mut p = Packet::from_slice(ip);
            p.set_network_header(0, if version == Some(4) { 20 } else { 40 });
            all.push(p);
        }
    }
    all
}

/// Their payloads that are not empty.
pub fn payloads(packets: &[Packet]) -> Vec<Vec<u8>> {
    (packets.iter())
        .map(|p| Base::Payload.of(p).to_vec())
        .filter(|b| !b.is_empty())
        .collect()
}
