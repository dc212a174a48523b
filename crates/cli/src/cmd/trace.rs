//! `onefold trace`: one packet, every decision.

mod before;
mod first_drop;
mod live;
mod text;

use crate::answers::packet as told;
use crate::common::{self, ChainArgs};
use crate::program;
use crate::progress::Busy;
use crate::runner;
use anyhow::{Context, Result, bail};
use before::{Asked, Frames};
use clap::ValueEnum;
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_element::model::Binding;
use onefold_engine::flow::{DEFAULT_FLOWS, FlowRunner, Taken};
use onefold_engine::program::{ProgramRunner, ProgramStep};
use onefold_engine::{BuildOptions, Entry, Graph, TraceStep};
use onefold_packet::Timestamp;
use onefold_synth::program::{End, Origin, Program};
use text::text;

/// Which way the packet is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Element by element, as written.
    Reference,
    /// Stage by stage of the synthesized program.
    #[value(name = "program", alias = "synthesized")]
    Synthesized,
    /// Both, side by side.
    Both,
}

/// Options of `onefold trace`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The packets before the traced one pass the chain first, so that it meets the state that it met in the \
    capture (bindings, ARP entries); --alone leaves them out. With --live, packets of a running chain are followed \
    through a copy of it; they themselves go their way.\n\n\
    Examples:\n  \
    onefold trace isp-edge --in lan=lan.pcap#17\n  \
    onefold trace isp-edge --in wan=wan.pcap#9 --in lan=lan.pcap     a reply, behind its request\n  \
    onefold trace isp-edge --in lan=lan.pcap --first-drop 'no route'\n  \
    onefold trace isp-edge --hex lan=0200000000010200000000020800450000...\n  \
    onefold trace --live isp-edge --port lan --filter 'udp && dst port 53' --count 3\n  \
    onefold trace --live --drop 'no route'",
    mut_arg("chain", |a| a.required(false).default_value(""))
)]
pub struct Args {
    #[command(flatten)]
    chain: ChainArgs,
    #[command(flatten)]
    live: live::LiveArgs,
    /// Packet N (from 1) of a capture that arrives at a port; without #N with --first-drop, and for captures of other
    /// ports, whose packets up to then pass the chain, too: so a reply is traced behind what it answers
    #[arg(
        long = "in",
        value_name = "PORT=FILE[#N]",
        value_parser = common::port_file,
        required_unless_present_any = ["hex", "live"]
    )]
    inputs: Vec<(String, String)>,
    /// The first packet of the captures (--in PORT=FILE) that is dropped, and only if its element and reason have this
    /// text in them
    #[arg(long, value_name = "REASON", num_args = 0..=1, default_missing_value = "", requires = "inputs")]
    first_drop: Option<String>,
    /// A frame in hexadecimal; without PORT it arrives at the chain's first port
    #[arg(long, value_name = "[PORT=]HEX", conflicts_with = "inputs")]
    hex: Option<String>,
    /// Only this packet: the ones before it are left out
    #[arg(long)]
    alone: bool,
    /// How the chain is executed
    #[arg(long, value_enum, default_value = "both")]
    mode: Mode,
    /// Follows the packet through this program (the text that `explain --program` prints), not the one that is made now
    #[arg(long, value_name = "FILE")]
    program: Option<std::path::PathBuf>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    if args.live.is_asked() {
        return live::run(&args.live, &args.chain.chain, args.json);
    }
    if args.chain.chain.is_empty() {
        bail!(
            "which chain? onefold trace CHAIN --in PORT=FILE#N; `onefold show --list` lists the examples"
        );
    }
    let Some(chain) = args.chain.load_or_print() else {
        return Ok(common::BAD_INPUT);
    };
    let Some((port, before, (frame, at))) = packet(args, &chain)? else {
        return Ok(common::HOLDS_NOT);
    };
    let p = runner::find_port(&chain, &port, true)?;
    let source = ElemId(chain.ports[p].source.unwrap_or(0) as u32);
    let start = before.first().map_or(at, |b| b.at);
    let options = BuildOptions {
        seed: args.seed,
        start,
        ..Default::default()
    };
    let graph = match common::build(&chain, &options) {
        Ok(g) => g,
        Err(ds) => {
            common::print_diagnostics(&ds);
            return Ok(common::BAD_INPUT);
        }
    };
    let before = if args.alone { Vec::new() } else { before };
    let last = now_of(&before).max(at);
    let mut ways = Vec::new();
    let mut taken = None;
    if args.mode != Mode::Synthesized {
        ways.push((ProgramRunner::new(graph.fork()), None));
    }
    if args.mode != Mode::Reference {
        let busy = Busy::new("synthesizing", args.json);
        let Some(s) = program::given_or_made(&graph, args.program.as_deref())? else {
            return Ok(common::BAD_INPUT);
        };
        drop(busy);
        let r = ProgramRunner::with_program(graph, &s.program);
        let r = r.context("the synthesized program")?;
        taken = Some(level(&r, source, &before, (&frame, last)));
        ways.push((r, Some(s.program)));
    }
    let followed: Vec<Followed> = ways
        .into_iter()
        .map(|(r, p)| follow(&chain, r, p, source, &before, (&frame, last)))
        .collect();
    let same = match &followed[..] {
        [a, b] => Some(a.outs == b.outs),
        _ => None,
    };
    let find = |program: bool| followed.iter().find(|f| f.program.is_some() == program);
    let (reference, synthesized) = (find(false), find(true));
    if args.json {
        let mut v = json(&chain, &port, &frame, reference, synthesized, same);
        if let (Some(t), Some(all)) = (&taken, v.as_object_mut()) {
            let t = serde_json::json!({ "level": t.level.name(), "why": t.why });
            all.insert("taken".into(), t);
        }
        common::print_json(&v)?;
    } else {
        for line in text(&port, &frame, reference, synthesized, same) {
            crate::say!("{line}");
        }
        if let Some(t) = &taken {
            crate::say!(
                "`onefold run` takes it at level {}: {}",
                t.level.name(),
                t.why
            );
        }
    }
    Ok(match same {
        Some(false) => common::HOLDS_NOT,
        _ => common::HOLDS,
    })
}

/// Finds it; `None`: no packet is dropped, which was said.
fn packet(args: &Args, chain: &Chain) -> Result<Option<Asked>> {
    if let Some(reason) = &args.first_drop {
        let Some(d) = first_drop::find(args, chain, &args.inputs, reason)? else {
            let what = match reason.as_str() {
                "" => "no packet is dropped".to_string(),
                r => format!("no packet is dropped for a reason with '{r}' in it"),
            };
            let all: Vec<&str> = args.inputs.iter().map(|(_, f)| f.as_str()).collect();
            crate::say!("{}: {what}", all.join(", "));
            return Ok(None);
        };
        let (n, file) = (d.number, args.inputs.get(d.input).map_or("", |(_, f)| f));
        if !args.json {
            crate::say!("packet {n} of {file} is dropped by {}", d.why);
        }
        return before::until(chain, &args.inputs, (d.input, n)).map(Some);
    }
    one_packet(args, chain).map(Some)
}

/// The packet that is named.
fn one_packet(args: &Args, chain: &Chain) -> Result<Asked> {
    if !args.inputs.is_empty() {
        let (inputs, which) = before::named(&args.inputs)?;
        return before::until(chain, &inputs, which);
    }
    Ok(match &args.hex {
        Some(hex) => {
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
            (port, Vec::new(), (parse_hex(hex)?, Timestamp::from_secs(1)))
        }
        None => bail!("give a packet with --in PORT=FILE#N or --hex"),
    })
}

/// The level at which `onefold run` takes a packet behind these, and why.
fn level(
    r: &ProgramRunner,
    source: ElemId,
    before: &Frames,
    (frame, at): (&[u8], Timestamp),
) -> Taken {
    let mut flow = FlowRunner::new(r.fork(), DEFAULT_FLOWS);
    let mut now = Timestamp::ZERO;
    for b in before {
        now = now.max(b.at);
        flow.inject(b.source, &b.frame, now);
        flow.drain_transmitted(|_, _| {});
    }
    flow.inject_and_tell(source, frame, at)
}

/// A packet that has been followed one way.
struct Followed {
    /// The program, if it was followed through one.
    program: Option<Program>,
    graph: Graph,
    stages: Vec<ProgramStep>,
    steps: Vec<TraceStep>,
    truncated: bool,
    outs: Vec<(String, Vec<u8>)>,
}

fn now_of(before: &Frames) -> Timestamp {
    let times = before.iter().map(|b| b.at);
    times.max().unwrap_or(Timestamp::ZERO)
}

fn follow(
    chain: &Chain,
    mut r: ProgramRunner,
    program: Option<Program>,
    source: ElemId,
    before: &Frames,
    (frame, at): (&[u8], Timestamp),
) -> Followed {
    let mut now = Timestamp::ZERO;
    for b in before {
        now = now.max(b.at);
        r.inject(b.source, &b.frame, now);
        r.graph_mut().drain_transmitted(|_, _| {});
    }
    r.start_trace();
    r.inject(source, frame, at);
    let (stages, steps, truncated) = r.take_trace();
    let mut graph = r.into_graph();
    let outs = outputs(chain, &mut graph);
    Followed {
        program,
        graph,
        stages,
        steps,
        truncated,
        outs,
    }
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
    if digits.len() / 2 > onefold_capture::MAX_FRAME {
        bail!("a frame has at most {} bytes", onefold_capture::MAX_FRAME);
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

fn step_json(s: &TraceStep) -> serde_json::Value {
    let (nf, element) = split(&s.name);
    // the rule that decided, or the element's declaration
    let decided = s.decisions.iter().find(|d| d.argument.is_some());
    let loc = decided.map_or(&s.loc, |d| &d.loc);
    let outputs = s.outputs.iter();
    let missed = s.missed.iter().map(|m| {
        serde_json::json!({
            "rule": m.argument.map_or(0, |a| a + 1),
            "file": m.loc.file.as_ref(),
            "line": m.loc.line,
            "why": m.text,
        })
    });
    serde_json::json!({
        "nf": nf,
        "element": element,
        "class": s.class,
        "file": loc.file.as_ref(),
        "line": loc.line,
        "column": loc.column,
        "packet": s.packet,
        "decision": decision(s),
        "not_matched": missed.collect::<Vec<_>>(),
        "not_matched_more": s.more_missed,
        "outputs": outputs.map(|(p, l)| serde_json::json!({"port": p, "length": l})).collect::<Vec<_>>(),
        "drops": s.drops,
    })
}

fn stage_json(f: &Followed, p: &Program, s: &ProgramStep) -> serde_json::Value {
    let rule = s.rule.and_then(|r| p.stages.get(s.stage)?.rules.get(r));
    let g = &f.graph;
    let origin = rule.map_or(&[][..], |r| &r.origin).iter().map(|o| {
        let loc = program::location(g, o);
        serde_json::json!({
            "element": g.name(o.elem),
            "argument": o.arg,
            "file": loc.file.as_ref(),
            "line": loc.line,
        })
    });
    let steps = s
        .counted
        .iter()
        .map(|(e, n)| (g.name(*e), format!("counts {n} bytes")));
    let bound = s.bound.iter().map(|(e, b)| (g.name(*e), binding(b)));
    serde_json::json!({
        "stage": s.stage,
        "rule": s.rule,
        "action": rule.map(|r| r.action.0),
        "origin": origin.collect::<Vec<_>>(),
        "steps": steps.chain(bound).map(|(element, what)| serde_json::json!({
            "element": element, "what": what })).collect::<Vec<_>>(),
        "end": program::action(p, s).map(|a| program::ended(g, a, s)),
    })
}

/// A step of the program: what an element of the chain as written has to do with it, and where that stands.
fn program_step(g: &Graph, at: &Origin, decision: String) -> serde_json::Value {
    let loc = program::location(g, at);
    let (nf, element) = split(g.name(at.elem));
    serde_json::json!({
        "nf": nf,
        "element": element,
        "class": g.class(at.elem),
        "file": loc.file.as_ref(),
        "line": loc.line,
        "column": loc.column,
        "decision": decision,
        "outputs": [],
        "drops": [],
    })
}

/// The steps of a packet that has followed the program: of each stage the rules and elements that made the class, what
/// was counted and bound, and how it ended; then what the reference graph did behind punts.
fn program_steps(f: &Followed) -> Vec<serde_json::Value> {
    let Some(p) = &f.program else {
        return Vec::new();
    };
    let g = &f.graph;
    let whole = |elem: ElemId| Origin::of(elem, None);
    let mut all = Vec::new();
    for s in &f.stages {
        let rule = s.rule.and_then(|r| p.stages.get(s.stage)?.rules.get(r));
        let entry = p.stages.get(s.stage).map(|s| s.at.0);
        let (Some(i), Some(rule)) = (s.rule, rule) else {
            let said = format!("stage {}: no rule fits", s.stage);
            all.extend(entry.map(|e| program_step(g, &whole(e), said)));
            continue;
        };
        let class = format!("stage {}, rule {i}: class {}", s.stage, rule.action.0);
        for o in &rule.origin {
            all.push(program_step(g, o, class.clone()));
        }
        for (e, n) in &s.counted {
            all.push(program_step(g, &whole(*e), format!("counts {n} bytes")));
        }
        for (e, b) in &s.bound {
            all.push(program_step(g, &whole(*e), binding(b)));
        }
        let Some(action) = program::action(p, s) else {
            continue;
        };
        let at = match &action.end {
            End::Output { sink, .. } => Some(*sink),
            End::Drop { elem, .. } | End::Punt { elem, .. } | End::Ask { elem, .. } => Some(*elem),
            _ => rule.origin.last().map(|o| o.elem).or(entry),
        };
        all.extend(at.map(|e| program_step(g, &whole(e), program::end(g, action))));
    }
    all.extend(f.steps.iter().map(step_json));
    all
}

fn json(
    chain: &Chain,
    port: &str,
    frame: &[u8],
    reference: Option<&Followed>,
    synthesized: Option<&Followed>,
    same: Option<bool>,
) -> serde_json::Value {
    let steps = |f: Option<&Followed>| -> Vec<_> {
        let all = f.map_or(&[][..], |f| &f.steps);
        all.iter().map(step_json).collect()
    };
    let stages: Vec<_> = match synthesized {
        Some(f) => {
            let p = f.program.as_ref();
            let of = |s: &ProgramStep| p.map(|p| stage_json(f, p, s));
            f.stages.iter().filter_map(of).collect()
        }
        None => Vec::new(),
    };
    let outs = reference.or(synthesized).map_or(&[][..], |f| &f.outs);
    let own = match (reference, synthesized) {
        (None, Some(f)) => program_steps(f),
        _ => steps(reference),
    };
    let left = |(p, b): &(String, Vec<u8>)| serde_json::json!({"port": p, "packet": hex(b), "summary": told::line(b)});
    serde_json::json!({
        "chain": chain.name,
        "port": port,
        "packet": hex(frame),
        "summary": told::line(frame),
        "steps": own,
        "program": stages,
        "punted_steps": steps(synthesized),
        "same": same,
        "truncated": reference.is_some_and(|f| f.truncated) || synthesized.is_some_and(|f| f.truncated),
        "outputs": outs.iter().map(left).collect::<Vec<_>>(),
    })
}

/// A binding in words.
fn binding(b: &Binding) -> String {
    let (s, d) = (program::address(b.saddr), program::address(b.daddr));
    let way = if b.reply { "reply" } else { "forward" };
    format!(
        "{way}: {s}:{} -> {d}:{}, output {}",
        b.sport, b.dport, b.output
    )
}

/// A packet of a running chain, followed through a copy of the graph that it met.
pub struct Copied<'a> {
    /// The chain.
    pub chain: &'a Chain,
    /// Where the packet arrived.
    pub port: &'a str,
    /// The packet.
    pub frame: &'a [u8],
    /// When.
    pub at: Timestamp,
    /// The copy.
    pub graph: Graph,
    /// The chain's program, if it has one.
    pub program: Option<&'a Program>,
}

/// Follows it, both ways where there is a program: as JSON, and as text.
///
/// # Errors
/// The chain has no such port.
pub fn copied(c: Copied<'_>) -> Result<(serde_json::Value, Vec<String>)> {
    let p = runner::find_port(c.chain, c.port, true)?;
    let source = ElemId(c.chain.ports[p].source.unwrap_or(0) as u32);
    let packet = (c.frame, c.at);
    // none where another chain has taken this one's place meanwhile
    let synthesized = c.program.and_then(|p| {
        let r = ProgramRunner::with_program(c.graph.fork(), p).ok()?;
        Some(follow(
            c.chain,
            r,
            Some(p.clone()),
            source,
            &Vec::new(),
            packet,
        ))
    });
    let r = ProgramRunner::new(c.graph);
    let reference = follow(c.chain, r, None, source, &Vec::new(), packet);
    let same = synthesized.as_ref().map(|s| s.outs == reference.outs);
    let both = (Some(&reference), synthesized.as_ref());
    let v = json(c.chain, c.port, c.frame, both.0, both.1, same);
    Ok((v, text(c.port, c.frame, both.0, both.1, same)))
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
