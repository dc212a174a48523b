//! `onefold trace`: one packet, every decision.

use crate::common::{self, ChainArgs};
use crate::runner;
use anyhow::{Context, Result, bail};
use onefold_chain::Chain;
use onefold_elements::ElemId;
use onefold_engine::{BuildOptions, Entry, Graph, TraceStep};
use onefold_io::CaptureReader;
use onefold_packet::Timestamp;

/// Options of `onefold trace`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The packets before the traced one pass the chain first, so that it meets the state that it met in the \
    capture (bindings, ARP entries); --alone leaves them out.\n\n\
    Examples:\n  \
    onefold trace isp-edge --in lan=lan.pcap#17\n  \
    onefold trace isp-edge --hex lan=0200000000010200000000020800450000..."
)]
pub struct Args {
    #[command(flatten)]
    chain: ChainArgs,
    /// Packet N (from 1) of a capture that arrives at a port
    #[arg(long = "in", value_name = "PORT=FILE#N", value_parser = common::key_value, required_unless_present = "hex")]
    input: Option<(String, String)>,
    /// A frame in hexadecimal; without PORT it arrives at the chain's first port
    #[arg(long, value_name = "[PORT=]HEX", conflicts_with = "input")]
    hex: Option<String>,
    /// Only this packet: the ones before it are left out
    #[arg(long)]
    alone: bool,
    /// How the chain is executed
    #[arg(long, value_enum, default_value = "reference")]
    mode: super::run::Mode,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let Some(chain) = args.chain.load_or_print() else {
        return Ok(common::BAD_INPUT);
    };
    let (port, before, frame, at) = match (&args.input, &args.hex) {
        (Some((port, spec)), _) => {
            let (file, n) = spec.rsplit_once('#').context("expected PORT=FILE#N")?;
            let n: u64 = n
                .parse()
                .ok()
                .filter(|n| *n > 0)
                .context("expected a packet's number, from 1, behind '#'")?;
            let (before, frame, at) = read_until(file, n)?;
            (port.clone(), before, frame, at)
        }
        (None, Some(hex)) => {
            let (port, hex) = match hex.split_once('=') {
                Some((p, h)) => (p.to_string(), h),
                None => {
                    let first = chain
                        .ports
                        .iter()
                        .find(|p| p.source.is_some())
                        .context("the chain has no entry")?;
                    (first.name.clone(), hex.as_str())
                }
            };
            (port, Vec::new(), parse_hex(hex)?, Timestamp::from_secs(1))
        }
        (None, None) => bail!("give a packet with --in PORT=FILE#N or --hex"),
    };
    let p = runner::find_port(&chain, &port, true)?;
    let source = ElemId(chain.ports[p].source.unwrap_or(0) as u32);
    let start = before.first().map_or(at, |(_, t)| *t);
    let options = BuildOptions {
        seed: args.seed,
        start,
        ..Default::default()
    };
    let mut graph = match common::build(&chain, &options) {
        Ok(g) => g,
        Err(ds) => {
            common::print_diagnostics(&ds);
            return Ok(common::BAD_INPUT);
        }
    };
    let mut now = Timestamp::ZERO;
    if !args.alone {
        for (data, t) in &before {
            now = now.max(*t);
            graph.inject(source, data, now);
            graph.drain_transmitted(|_, _| {});
        }
    }
    graph.start_trace();
    graph.inject(source, &frame, now.max(at));
    let (steps, truncated) = graph.take_trace();
    let outs = outputs(&chain, &mut graph);
    if args.json {
        common::print_json(&json(&chain, &port, &frame, &steps, truncated, &outs))?;
    } else {
        print_text(&port, &frame, &steps, truncated, &outs);
    }
    Ok(common::HOLDS)
}

type Frames = Vec<(Vec<u8>, Timestamp)>;

/// Frames 1 to n-1, and frame n with its time.
fn read_until(file: &str, n: u64) -> Result<(Frames, Vec<u8>, Timestamp)> {
    let mut r = CaptureReader::open(file)?;
    let mut before = Vec::new();
    let mut buf = Vec::new();
    for i in 1..=n {
        match r.next_into(&mut buf) {
            None => bail!("'{file}' has only {} packets", i - 1),
            Some(Err(e)) => return Err(e.into()),
            Some(Ok(m)) if i == n => return Ok((before, buf, Timestamp(m.ts_ns))),
            Some(Ok(m)) => before.push((buf.clone(), Timestamp(m.ts_ns))),
        }
    }
    bail!("'{file}' has no packet {n}")
}

fn parse_hex(s: &str) -> Result<Vec<u8>> {
    let digits: Vec<u32> = s
        .chars()
        .filter(|c| !c.is_whitespace() && *c != ':')
        .map(|c| {
            c.to_digit(16)
                .with_context(|| format!("'{c}' is not a hexadecimal digit"))
        })
        .collect::<Result<_>>()?;
    if !digits.len().is_multiple_of(2) {
        bail!("an odd number of hexadecimal digits");
    }
    if digits.len() / 2 > onefold_io::MAX_FRAME {
        bail!("a frame has at most {} bytes", onefold_io::MAX_FRAME);
    }
    Ok(digits.chunks(2).map(|c| (c[0] << 4 | c[1]) as u8).collect())
}

/// What left: port name and bytes.
fn outputs(chain: &Chain, graph: &mut Graph) -> Vec<(String, Vec<u8>)> {
    graph
        .take_transmitted()
        .into_iter()
        .map(|(e, p)| {
            let port = chain
                .ports
                .iter()
                .find(|c| c.sinks.contains(&(e.0 as usize)));
            (
                port.map_or("?".to_string(), |p| p.name.clone()),
                p.data().to_vec(),
            )
        })
        .collect()
}

fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

/// What happened at a step, in words.
fn decision(s: &TraceStep) -> String {
    let mut parts: Vec<String> = s.decisions.iter().map(|d| d.text.clone()).collect();
    for (port, len) in &s.outputs {
        parts.push(format!("-> [{port}] ({len} bytes)"));
    }
    parts.extend(s.drops.iter().map(|d| format!("dropped: {d}")));
    if s.transmitted > 0 {
        parts.push("left the chain".to_string());
    }
    if parts.is_empty() {
        parts.push(match s.entry {
            Entry::Task => "task had nothing to do".to_string(),
            _ => "kept".to_string(),
        });
    }
    parts.join("; ")
}

fn json(
    chain: &Chain,
    port: &str,
    frame: &[u8],
    steps: &[TraceStep],
    truncated: bool,
    outs: &[(String, Vec<u8>)],
) -> serde_json::Value {
    let steps: Vec<_> = steps
        .iter()
        .map(|s| {
            let (nf, element) = split(&s.name);
            // the rule that decided, or the element's declaration
            let loc = s.decisions.iter().find(|d| d.argument.is_some()).map_or(&s.loc, |d| &d.loc);
            serde_json::json!({
                "nf": nf,
                "element": element,
                "class": s.class,
                "file": loc.file.as_ref(),
                "line": loc.line,
                "column": loc.column,
                "decision": decision(s),
                "outputs": s.outputs.iter().map(|(p, l)| serde_json::json!({"port": p, "length": l})).collect::<Vec<_>>(),
                "drops": s.drops,
            })
        })
        .collect();
    serde_json::json!({
        "chain": chain.name,
        "port": port,
        "packet": hex(frame),
        "steps": steps,
        "truncated": truncated,
        "outputs": outs.iter().map(|(p, b)| serde_json::json!({"port": p, "packet": hex(b)})).collect::<Vec<_>>(),
    })
}

fn print_text(
    port: &str,
    frame: &[u8],
    steps: &[TraceStep],
    truncated: bool,
    outs: &[(String, Vec<u8>)],
) {
    crate::say!("packet of {} bytes at port {port}", frame.len());
    let mut last = None;
    for s in steps {
        let (nf, element) = split(&s.name);
        if last != Some(nf) {
            crate::say!("{nf}");
            last = Some(nf);
        }
        crate::say!("  {element} :: {}: {}", s.class, decision(s));
        for d in s.decisions.iter().filter(|d| d.argument.is_some()) {
            crate::say!("      by {}", d.loc);
        }
    }
    if truncated {
        crate::say!("  (more steps than are kept)");
    }
    if outs.is_empty() {
        crate::say!("nothing left the chain");
    }
    for (p, b) in outs {
        crate::say!("left at port {p}, {} bytes: {}", b.len(), hex(b));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hexadecimal() {
        assert_eq!(super::parse_hex("00 ff:1A").unwrap(), [0, 255, 26]);
        assert!(super::parse_hex("0").is_err());
        assert!(super::parse_hex("0g").is_err());
    }
}
