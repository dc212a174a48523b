//! `onefold gen --for CHAIN`: a capture of packets that the chain lets pass.

use super::generate::{Args, Bar};
use crate::common::{self, ChainArgs, thousands};
use crate::program;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use onefold_bench::measure::{AimError, AimParams, Aimed, aim};
use onefold_bench::{
    AimedParams, AimedSummary, Counts, Progress as _, SizeModel, WrittenFile, write_aimed,
};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Log};
use onefold_packet::Timestamp;
use onefold_synth::program::Program;
use std::time::Instant;

/// Flows unless told otherwise, if there are packets enough for them.
const FLOWS: u64 = 10_000;
/// Packets for each flow that are wanted before there are more flows.
const PER_FLOW: u64 = 4;
/// `run`'s own seed: what a chain draws (ports of a NAT) is then the same in both.
const CHAIN_SEED: u64 = 1;

/// The chain and the port of `CHAIN[:PORT]`. A chain whose name has a colon is found as it is.
fn split<'a>(spec: &'a str, set: &[(String, String)]) -> (ChainArgs, Option<&'a str>) {
    let args = |chain: &str| ChainArgs {
        chain: chain.to_string(),
        set: set.to_vec(),
    };
    let whole = args(spec);
    match spec.rsplit_once(':') {
        Some((chain, port))
            if !port.is_empty()
                && !port.contains(['/', '='])
                && onefold_chain::find(spec, &whole.options()).is_err() =>
        {
            (args(chain), Some(port))
        }
        _ => (whole, None),
    }
}

/// Ports that packets are tried at, in order.
fn entries(chain: &Chain, asked: Option<&str>) -> Result<Vec<usize>> {
    if let Some(name) = asked {
        return Ok(vec![runner::find_port(chain, name, true)?]);
    }
    let all: Vec<usize> = (0..chain.ports.len())
        .filter(|i| chain.ports[*i].source.is_some())
        .collect();
    match all.is_empty() {
        true => bail!("{}: packets enter nowhere", chain.name),
        false => Ok(all),
    }
}

/// The element through which packets enter at a port.
fn source(chain: &Chain, port: usize) -> ElemId {
    let source = chain.ports.get(port).and_then(|p| p.source);
    ElemId(source.unwrap_or(0) as u32)
}

/// Aims at ports in turn, until packets leave.
fn first_that_leaves(
    runner: &ProgramRunner,
    program: &Program,
    chain: &Chain,
    ports: Vec<usize>,
    params: impl Fn(ElemId) -> AimParams,
    quiet: bool,
) -> Result<(usize, Aimed)> {
    let all = super::verify::ports(chain);
    let mut last = None;
    for p in ports {
        let params = params(source(chain, p));
        let mut bar = Bar::new(quiet);
        let mut go_on = |n: u64, of: u64| bar.packets(n, of);
        match aim(runner, program, &all, &params, &mut go_on) {
            Ok(a) => return Ok((p, a)),
            Err(AimError::Interrupted) => return Err(AimError::Interrupted.into()),
            Err(e) => last = Some(e),
        }
    }
    let name = &chain.name;
    let why = last.map_or("packets enter nowhere".to_string(), |e| match e {
        AimError::NothingLeaves { port, tried } => {
            let tried = thousands(tried);
            format!(
                "none of {tried} flows that were tried at port '{port}' leaves the chain; \
                 hint: `onefold explain {name}` shows what it lets pass, --protocols says what flows are of"
            )
        }
        AimError::NoReplies => {
            "no answer to what leaves passes the chain; hint: leave --reverse out".to_string()
        }
        e => e.to_string(),
    });
    bail!("{name}: {why}")
}

/// Packets aimed at a chain, and the chain.
pub struct Found {
    /// As on the command line.
    pub spec: String,
    /// The chain.
    pub chain: Chain,
    /// The port that packets enter at.
    pub port: usize,
    /// The element there.
    pub entry: ElemId,
    /// The packets.
    pub aimed: Aimed,
}

/// How many packets are wanted of how many flows.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Packets.
    pub packets: u64,
    /// Flows.
    pub flows: u64,
    /// Answers, too.
    pub replies: bool,
}

/// Finds packets that a chain lets pass; errors of the chain are printed, and `None` comes back.
///
/// # Errors
/// Options are wrong, or nothing passes.
pub fn find(args: &Args, spec: &str, wanted: Wanted) -> Result<Option<Found>> {
    let g = &args.gen_args;
    let models = (g.size_models.as_ref())
        .map(|p| std::fs::read_to_string(p).with_context(|| format!("'{}'", p.display())))
        .transpose()?;
    let sizes = SizeModel::parse(&g.size, models.as_deref()).map_err(|e| anyhow!("--size: {e}"))?;
    let (which, port) = split(spec, &args.set);
    let Some(chain) = which.load_or_print() else {
        return Ok(None);
    };
    let candidates = entries(&chain, port)?;
    let start = Timestamp::from_secs(i64::from(g.start));
    let options = BuildOptions {
        seed: CHAIN_SEED,
        start,
        log: Log::Discard,
        ..Default::default()
    };
    let graph = match common::build(&chain, &options) {
        Ok(g) => g,
        Err(ds) => {
            common::print_diagnostics(&ds);
            return Ok(None);
        }
    };
    let made = program::synthesize_graph(&graph);
    let mut fresh =
        ProgramRunner::with_program(graph, &made.program).context("the synthesized program")?;
    fresh.prepare();
    let per_flow = wanted.packets / (PER_FLOW * wanted.flows.max(1));
    let params = |entry| AimParams {
        flows: wanted.flows as usize,
        sizes: sizes.clone(),
        protocols: g.protocols,
        strict: true,
        entry,
        replies: wanted.replies,
        one_way: !wanted.replies,
        frames_per_flow: per_flow.clamp(1, 64) as usize,
        keep_opening: true,
        seed: g.seed,
    };
    let (program, quiet) = (&made.program, args.quiet);
    let (port, aimed) = first_that_leaves(&fresh, program, &chain, candidates, params, quiet)?;
    let entry = source(&chain, port);
    Ok(Some(Found {
        spec: which.text(),
        chain,
        port,
        entry,
        aimed,
    }))
}

/// Runs it.
pub fn run(args: &Args, spec: &str) -> Result<u8> {
    let begun = Instant::now();
    let g = &args.gen_args;
    let out = g.file()?;
    if g.pps == 0 {
        bail!("--pps 0: expected 1 or more");
    }
    if g.reverse.as_deref() == Some(out) {
        bail!("--reverse: the same file as --out");
    }
    let both = g.out.iter().chain(&g.reverse);
    common::reserve_stdout(both.filter_map(|f| f.to_str()))?;
    let packets = g.frames();
    let flows = match g.flows {
        Some(0) => bail!("--flows 0: expected 1 or more"),
        Some(n) => u64::from(n.min(onefold_bench::MAX_FLOWS)),
        None => FLOWS.min(packets / PER_FLOW).max(1),
    };
    let wanted = Wanted {
        packets,
        flows,
        replies: g.reverse.is_some(),
    };
    let Some(found) = find(args, spec, wanted)? else {
        return Ok(common::BAD_INPUT);
    };
    let how = AimedParams {
        packets,
        pps: g.pps,
        start_ns: i64::from(g.start) * 1_000_000_000,
        zipf: g.zipf,
        seed: g.seed,
        entry: found.entry,
        out: out.to_path_buf(),
        reverse: g.reverse.clone(),
    };
    crate::runner::catch_interrupt();
    let written = write_aimed(&found.aimed, &how, &mut Bar::new(args.quiet))?;
    let told = Told {
        chain: &found.chain,
        spec: found.spec.clone(),
        port: found.port,
        aimed: &found.aimed,
        wanted: flows,
        seconds: begun.elapsed().as_secs_f64(),
    };
    match args.json {
        true => common::print_json(&told.json(args, &written)),
        false => {
            told.print(&written);
            Ok(common::HOLDS)
        }
    }
}

/// What is told of it.
struct Told<'a> {
    chain: &'a Chain,
    /// As on the command line.
    spec: String,
    port: usize,
    aimed: &'a Aimed,
    wanted: u64,
    seconds: f64,
}

type Written = (AimedSummary, Vec<WrittenFile>, Counts);

impl Told<'_> {
    fn port(&self) -> &str {
        &self.chain.ports[self.port].name
    }

    fn reverse(&self, s: &AimedSummary) -> Option<&str> {
        let at = s.reverse?.0 as usize;
        let port = self.chain.ports.iter().find(|p| p.source == Some(at))?;
        Some(&port.name)
    }

    fn json(&self, args: &Args, (s, files, counts): &Written) -> serde_json::Value {
        let packets = counts.forward + counts.reverse;
        serde_json::json!({
            "files": files,
            "seed": args.gen_args.seed,
            "packets": packets,
            "flows": s.flows_begun,
            "mean_size": counts.bytes as f64 / packets.max(1) as f64,
            "counts": counts,
            "for": {
                "chain": self.chain.name,
                "port": self.port(),
                "reverse_port": self.reverse(s),
                "flows_found": self.aimed.flows,
                "tcp_flows": self.aimed.tcp_flows,
                "openings": s.openings,
                "tried": self.aimed.tried,
                "filters": self.aimed.spots.0,
                "filters_hit": self.aimed.spots.1,
            },
            "stopped": s.stopped,
            "seconds": self.seconds,
        })
    }

    fn print(&self, (s, files, counts): &Written) {
        let packets = counts.forward + counts.reverse;
        for f in files {
            let (path, items) = (f.path.display(), thousands(f.items));
            crate::say!("wrote {path}: {items} {}", f.counts());
        }
        crate::say!(
            "{} packets of {} flows that {} lets pass from port {}, {:.0} bytes on average, in {:.2} s",
            thousands(packets),
            thousands(s.flows_begun),
            self.chain.name,
            self.port(),
            counts.bytes as f64 / packets.max(1) as f64,
            self.seconds
        );
        let found = self.aimed.flows as u64;
        if found < self.wanted {
            crate::say!(
                "{} flows were asked for: no more than {} were found that leave the chain",
                thousands(self.wanted),
                thousands(found)
            );
        }
        if s.flows_begun < found {
            crate::say!(
                "too few packets to open all of {} flows: more --packets, or fewer --flows",
                thousands(found)
            );
        }
        let mut next = format!("onefold run {}", self.spec);
        let ports = [Some(self.port()), self.reverse(s)];
        for (f, port) in files.iter().zip(ports) {
            if let Some(port) = port {
                next += &format!(" --in {port}={}", f.path.display());
            }
        }
        crate::say!("next: {next}");
    }
}
