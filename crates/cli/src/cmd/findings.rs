//! Differences that `verify` has found: printed, and written as captures.

use anyhow::{Context, Result};
use onefold_capture::{CaptureWriter, LinkType};
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_verify::generate::Port;
use onefold_verify::shrink::Cut;
use onefold_verify::{Event, Finding};
use std::path::Path;

fn port_of(ports: &[Port], e: &Event) -> Option<String> {
    let source = e.source?;
    ports
        .iter()
        .find(|p| p.source == Some(source))
        .map(|p| p.name.clone())
}

/// The port's name instead of its sink's number.
fn name_ports(text: &str, ports: &[Port], prefix: &str) -> String {
    let Some(rest) = text.strip_prefix(prefix) else {
        return text.to_string();
    };
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let sink = digits.parse().map(ElemId);
    let port = ports
        .iter()
        .find(|p| sink.as_ref().is_ok_and(|s| p.sinks.contains(s)));
    match port {
        Some(p) => format!("port {}{}", p.name, &rest[digits.len()..]),
        None => text.to_string(),
    }
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

/// The smallest sequence, a capture for each port.
pub(super) fn write_captures(
    dir: &Path,
    level: &str,
    number: usize,
    f: &Finding,
    ports: &[Port],
) -> Result<Vec<String>> {
    let mut files = Vec::new();
    let Some(small) = &f.small else {
        return Ok(files);
    };
    for p in ports {
        let mine = |e: &&Event| e.source.is_some() && e.source == p.source;
        let events: Vec<&Event> = small.events.iter().filter(mine).collect();
        if events.is_empty() {
            continue;
        }
        let file = dir.join(format!("difference-{level}-{number}-{}.pcap", p.name));
        let mut w = CaptureWriter::create_for(&file, LinkType::ETHERNET)
            .with_context(|| format!("'{}'", file.display()))?;
        for e in events {
            w.write(e.at.0, &e.bytes, e.bytes.len() as u32)?;
        }
        w.finish()?;
        files.push(file.display().to_string());
    }
    Ok(files)
}

/// A difference, as JSON.
pub(super) fn finding_json(
    level: &str,
    f: &Finding,
    ports: &[Port],
    graph: &Graph,
) -> serde_json::Value {
    let d = f.small.as_ref().map_or(&f.difference, |s| &s.difference);
    serde_json::json!({
        "level": level,
        "packet": f.difference.event + 1,
        "what": d.what.to_string(),
        "place": name_ports(&d.place, ports, "sink "),
        "reference": name_ports(&d.left, ports, "element "),
        "compared": name_ports(&d.right, ports, "element "),
        "sequence": f.small.as_ref().map(|s| s.events.iter().map(|e| serde_json::json!({
            "port": port_of(ports, e),
            "seconds": e.at.to_string(),
            "packet": hex(&e.bytes),
            "clears": e.clears.map(|c| graph.name(c)),
        })).collect::<Vec<_>>()),
        "cut_short": f.cut.map(cut_short),
        "trace_reference": f.traces[0],
        "trace_compared": f.traces[1],
    })
}

/// Why a difference may not be as small as it could be.
fn cut_short(c: Cut) -> &'static str {
    match c {
        Cut::Time => "the time was up (--shrink-time)",
        Cut::Work => "too many packets would have had to be sent again",
        Cut::Interrupted => "interrupted",
    }
}

/// A difference, as text.
pub(super) fn print_finding(number: usize, f: &Finding, ports: &[Port], graph: &Graph) {
    let d = f.small.as_ref().map_or(&f.difference, |s| &s.difference);
    crate::say!(
        "difference {number}: {} ({}), seen after packet {}",
        d.what,
        name_ports(&d.place, ports, "sink "),
        f.difference.event + 1
    );
    crate::say!("  reference  {}", name_ports(&d.left, ports, "element "));
    crate::say!("  compared   {}", name_ports(&d.right, ports, "element "));
    match &f.small {
        None => match f.cut {
            Some(c) => crate::say!("  not shrunk: {}", cut_short(c)),
            None => {
                crate::say!(
                    "  it did not come again when the same packets were sent from the start"
                )
            }
        },
        Some(s) => {
            let cut = (f.cut).map_or(String::new(), |c| {
                format!(", perhaps not the smallest: {}", cut_short(c))
            });
            crate::say!("  smallest sequence: {} packets{cut}", s.events.len());
            for e in s.events.iter().take(20) {
                match port_of(ports, e) {
                    Some(p) => crate::say!("    {} at port {p}: {}", e.at, hex(&e.bytes)),
                    None => match e.clears {
                        Some(c) => crate::say!("    {}: write {}.clear", e.at, graph.name(c)),
                        None => crate::say!("    {}: time passes", e.at),
                    },
                }
            }
        }
    }
    for (name, lines) in ["reference", "compared"].iter().zip(&f.traces) {
        if !lines.is_empty() {
            crate::say!("  the last packet, {name}:");
            for l in lines {
                crate::say!("    {l}");
            }
        }
    }
}
