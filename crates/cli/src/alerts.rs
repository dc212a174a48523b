//! What rules on payloads have found: a table of alerts by count, and a file of EVE lines (Suricata's JSON, one object
//! a line) with each packet that a rule was about.
//!
//! The table is made of the rules' counters. Which packets they were is found in a pass of its own over the captures,
//! through the chain as it is written, as `--drops` finds what is dropped: a trace names every rule that matched.

mod live;

pub use live::{Eve, Origins};

use crate::common::thousands;
use crate::dropped::Replay;
use crate::progress::Progress;
use crate::rules::Row;
use anyhow::{Context, Result};
use onefold_chain::Chain;
use onefold_engine::{Graph, TraceStep};
use onefold_packet::Timestamp;
use onefold_verify::frame::view;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The class of elements with rules on payloads.
const CLASS: &str = "PayloadFilter";
/// Alerts in the table for people.
const SHOWN: usize = 20;

/// What a rule is called: its number, where it has one, and its message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Signature {
    sid: Option<u64>,
    message: String,
}

impl Signature {
    /// Of a rule's name: `sid 1000003: long ping`, or any text.
    fn of(name: &str) -> Signature {
        let numbered = name
            .strip_prefix("sid ")
            .and_then(|rest| rest.split_once(": "));
        let sid = numbered.and_then(|(n, _)| n.parse().ok());
        let message = match (sid, numbered) {
            (Some(_), Some((_, message))) => message,
            _ => name,
        };
        Signature {
            sid,
            message: message.to_string(),
        }
    }
}

/// A rule's alerts, both ways together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alerts {
    signature: Signature,
    nf: String,
    /// `alert` or `deny`.
    verdict: String,
    file: String,
    line: u32,
    packets: u64,
    bytes: u64,
}

/// The name in an argument of the element: what stands behind NAME, in single or double quotes.
fn name(argument: &str) -> Option<&str> {
    let rest = argument.split_once(" NAME ")?.1;
    let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    rest.get(1..)?.split(quote).next()
}

/// All rules on payloads that alert or drop and had packets, most first.
pub fn table(chain: &Chain, rows: &[Row]) -> Vec<Alerts> {
    let mut by: BTreeMap<(String, Signature, String, u32), Alerts> = BTreeMap::new();
    for r in rows.iter().filter(|r| r.count.packets > 0) {
        let element = chain.graph.find(&format!("{}/{}", r.nf, r.element));
        let element = element.and_then(|i| chain.graph.elements.get(i));
        let Some(e) = element.filter(|e| e.class == CLASS) else {
            continue;
        };
        let argument = r.argument.and_then(|a| e.args.get(a));
        let Some(argument) = argument.filter(|_| r.verdict == "alert" || r.verdict == "deny")
        else {
            continue;
        };
        let signature = Signature::of(name(argument).unwrap_or(&r.text));
        let (file, line) = (r.loc.file.to_string(), r.loc.line);
        let key = (r.nf.clone(), signature.clone(), file.clone(), line);
        let a = by.entry(key).or_insert_with(|| Alerts {
            signature,
            nf: r.nf.clone(),
            verdict: r.verdict.clone(),
            file,
            line,
            packets: 0,
            bytes: 0,
        });
        a.packets += r.count.packets;
        a.bytes += r.count.bytes;
    }
    let mut all: Vec<Alerts> = by.into_values().collect();
    all.sort_by_key(|a| std::cmp::Reverse(a.packets));
    all
}

/// The table for machines.
pub fn json(all: &[Alerts]) -> Value {
    let one = |a: &Alerts| {
        json!({
            "sid": a.signature.sid,
            "message": a.signature.message,
            "nf": a.nf,
            "action": action(a.verdict == "deny"),
            "packets": a.packets,
            "bytes": a.bytes,
            "file": a.file,
            "line": a.line,
        })
    };
    all.iter().map(one).collect()
}

fn action(blocked: bool) -> &'static str {
    match blocked {
        true => "blocked",
        false => "allowed",
    }
}

impl Alerts {
    /// The rule's number, where it has one.
    pub fn sid(&self) -> Option<u64> {
        self.signature.sid
    }
    /// What it says.
    pub fn message(&self) -> &str {
        &self.signature.message
    }
    /// What became of the packets: `allowed` or `blocked`.
    pub fn action(&self) -> &'static str {
        action(self.verdict == "deny")
    }
    /// The network function.
    pub fn function(&self) -> &str {
        &self.nf
    }
    /// `file:line`.
    pub fn place(&self) -> String {
        format!("{}:{}", self.file, self.line)
    }
    /// Packets, and their bytes.
    pub fn count(&self) -> (u64, u64) {
        (self.packets, self.bytes)
    }
}

/// The table for people; nothing where there are none.
pub fn print(all: &[Alerts]) {
    if all.is_empty() {
        return;
    }
    crate::say!("alerts");
    for a in all.iter().take(SHOWN) {
        let sid = (a.signature.sid).map_or_else(|| "-".to_string(), |s| s.to_string());
        crate::say!(
            "  {:>12}  {:<8} {sid:>9}  {}  ({}, {}:{})",
            thousands(a.packets),
            action(a.verdict == "deny"),
            a.signature.message,
            a.nf,
            a.file,
            a.line
        );
    }
    if all.len() > SHOWN {
        crate::say!("  ... and {} more (--json shows all)", all.len() - SHOWN);
    }
}

/// Writes a line for each packet and each rule on payloads that it made alert or drop, and says how many.
///
/// # Errors
/// Something cannot be read or written.
pub fn write(
    file: &Path,
    (chain, graph): (&Chain, &Graph),
    inputs: &[(String, String)],
    (limit, quiet): (Option<u64>, bool),
) -> Result<()> {
    let mut replay = Replay::new(chain, graph.fork(), inputs)?;
    let out = onefold_bench::output::file(file).with_context(|| format!("'{}'", file.display()))?;
    let mut out = BufWriter::new(out);
    let mut progress = Progress::new(limit.unwrap_or(0), quiet);
    let mut counts: BTreeMap<(String, usize), u64> = BTreeMap::new();
    let (mut n, mut lines) = (0, 0u64);
    while limit.is_none_or(|l| n < l)
        && let Some(packet) = replay.step()?
    {
        n += 1;
        progress.at(n, || "alerts".to_string());
        for s in packet.steps.iter().filter(|s| s.class == CLASS) {
            for (argument, blocked, signature) in found(s) {
                let count = counts.entry((s.name.clone(), argument)).or_default();
                *count += 1;
                lines += 1;
                let (port, _) = inputs.get(packet.input).cloned().unwrap_or_default();
                let at = ((Some(port.as_str()), Some(packet.number)), packet.at);
                let mut line = eve(at, &replay.frame, (blocked, &signature));
                let loc = s.decisions.iter().find(|d| d.argument == Some(argument));
                line["onefold"] = json!({
                    "function": s.name.split('/').next(),
                    "element": s.name,
                    "file": loc.map(|d| d.loc.file.as_ref()),
                    "line": loc.map(|d| d.loc.line),
                    "count": *count,
                });
                serde_json::to_writer(&mut out, &line)?;
                out.write_all(b"\n")?;
            }
        }
    }
    progress.finish();
    out.flush()?;
    eprintln!("{} alerts: {}", thousands(lines), file.display());
    Ok(())
}

/// The rules of a step that alerted or dropped: argument, whether it dropped, name.
fn found(s: &TraceStep) -> Vec<(usize, bool, Signature)> {
    let one = |d: &onefold_engine::Decision| {
        let (verb, name) = d.text.split_once(' ').unwrap_or((&d.text, ""));
        let blocked = match verb {
            "alert" => false,
            "drop" => true,
            _ => return None,
        };
        Some((d.argument?, blocked, Signature::of(name)))
    };
    s.decisions.iter().filter_map(one).collect()
}

/// A line as Suricata writes it to eve.json, of a packet: the port that it came in at and which of its packets it was,
/// where that is known, and when it came.
fn eve(
    ((port, number), at): ((Option<&str>, Option<u64>), Timestamp),
    frame: &[u8],
    (blocked, signature): (bool, &Signature),
) -> Value {
    let mut v = json!({
        "timestamp": timestamp(at),
        "event_type": "alert",
    });
    if let Some(port) = port {
        v["in_iface"] = port.into();
    }
    if let Some(number) = number {
        v["pcap_cnt"] = number.into();
    }
    if let Some((src, dst, proto, ports)) = flow(frame) {
        v["src_ip"] = src.into();
        v["dest_ip"] = dst.into();
        if let Some((s, d)) = ports {
            v["src_port"] = s.into();
            v["dest_port"] = d.into();
        }
        v["proto"] = match proto {
            1 => "ICMP".into(),
            6 => "TCP".into(),
            17 => "UDP".into(),
            58 => "IPv6-ICMP".into(),
            132 => "SCTP".into(),
            n => n.to_string().into(),
        };
    }
    v["alert"] = json!({
        "action": action(blocked),
        "gid": 1,
        "signature_id": signature.sid,
        "signature": signature.message,
    });
    v
}

/// Addresses, protocol, and ports where there are any.
type Flow = (String, String, u8, Option<(u16, u16)>);

/// What flow a frame is of.
fn flow(b: &[u8]) -> Option<Flow> {
    let v = view(b)?;
    let bytes = |at: usize, n: usize| b.get(v.net + at..v.net + at + n);
    let (src, dst) = match v.ether_type {
        0x0800 => {
            let ip = |at| Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes(at, 4)?).ok()?));
            (ip(12)?.to_string(), ip(16)?.to_string())
        }
        0x86dd => {
            let ip = |at| Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes(at, 16)?).ok()?));
            (ip(8)?.to_string(), ip(24)?.to_string())
        }
        _ => return None,
    };
    let port = |at: usize| {
        let at = v.transport? + at;
        Some(u16::from_be_bytes([*b.get(at)?, *b.get(at + 1)?]))
    };
    let ports = match v.proto {
        6 | 17 | 132 => port(0).zip(port(2)),
        _ => None,
    };
    Some((src, dst, v.proto, ports))
}

/// A time as `2026-11-26T20:50:00.000001+0000`: days to a date as in H. Hinnant, "chrono-compatible low-level date
/// algorithms".
fn timestamp(at: Timestamp) -> String {
    let ns = at.nanos();
    let (seconds, micros) = (
        ns.div_euclid(1_000_000_000),
        ns.rem_euclid(1_000_000_000) / 1000,
    );
    let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (day, month) = (
        doy - (153 * mp + 2) / 5 + 1,
        if mp < 10 { mp + 3 } else { mp - 9 },
    );
    let year = yoe + era * 400 + i64::from(month <= 2);
    let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{micros:06}+0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        let at = |s: i64, ns: i64| timestamp(Timestamp(s * 1_000_000_000 + ns));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000+0000");
        assert_eq!(at(951_782_400, 0), "2000-02-29T00:00:00.000000+0000");
        assert_eq!(
            at(1_700_000_000, 123_456_789),
            "2023-11-14T22:13:20.123456+0000"
        );
        assert_eq!(at(4_107_542_399, 0), "2100-02-28T23:59:59.000000+0000");
    }

    #[test]
    fn rules_have_names() {
        let numbered = Signature {
            sid: Some(12),
            message: "long: ping".into(),
        };
        assert_eq!(Signature::of("sid 12: long: ping"), numbered);
        assert_eq!(Signature::of("sid x: y").message, "sid x: y");
        assert_eq!(
            name("alert NAME \"SQL injection\" FILTER \"tcp\""),
            Some("SQL injection")
        );
        assert_eq!(name("drop NAME 'say \"x\"' \"y\""), Some("say \"x\""));
        assert_eq!(name("drop \"y\""), None);
    }
}
