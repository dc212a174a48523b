//! A point of a benchmark: a chain, its packets, its executions. What is on the command line, or an experiment, is a
//! list of them.

use crate::classifier::ClassifierArg;
use crate::common::{self, ChainArgs};
use crate::program;
use crate::runner;
use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;
use onefold_bench::experiment::{Level, UnseenSpec};
use onefold_bench::measure::{
    AimError, AimParams, Candidate, ChainReport, Executed, Lane, MAX_PER_FLOW, Machine,
    MatcherReport, Outcome, Subject, Templates, TrafficReport, Unseen, aim, matcher,
};
use onefold_bench::{ProtocolMix, SizeModel};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::flow::{DEFAULT_FLOWS, FlowRunner};
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Log};
use onefold_packet::Timestamp;
use std::time::Instant;

/// How chains are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Element by element, as written, a batch at a time.
    Reference,
    /// As one function: traffic classes with one action each.
    #[value(name = "program", alias = "synthesized")]
    Synthesized,
    /// As one function, with a flow table in front: what was done to a flow's packet is done to the next one without
    /// asking.
    Flow,
    /// As `onefold run` does it: at the level that costs least, as far as that is known.
    Auto,
    /// The first two, in alternation.
    Both,
    /// All of them, in alternation.
    All,
}

impl From<Level> for Mode {
    fn from(l: Level) -> Mode {
        match l {
            Level::Reference => Mode::Reference,
            Level::Program => Mode::Synthesized,
            Level::Flow => Mode::Flow,
            Level::Auto => Mode::Auto,
        }
    }
}

/// Each mode once.
pub fn modes(asked: &[Mode]) -> Vec<Mode> {
    let mut once = Vec::new();
    for m in asked {
        let all: &[Mode] = match m {
            Mode::Both => &[Mode::Reference, Mode::Synthesized],
            Mode::All => &[Mode::Reference, Mode::Synthesized, Mode::Flow, Mode::Auto],
            m => std::slice::from_ref(m),
        };
        for m in all {
            if !once.contains(m) {
                once.push(*m);
            }
        }
    }
    once
}

/// A chain and the packets that it is to be measured with.
#[derive(Debug, Clone)]
pub struct Point {
    /// What it is called.
    pub name: String,
    /// The chain.
    pub chain: ChainArgs,
    /// Executions of it.
    pub modes: Vec<Mode>,
    /// Lengths of frames.
    pub sizes: SizeModel,
    /// Flows.
    pub flows: usize,
    /// Skew of their popularity.
    pub zipf: f64,
    /// What flows are of.
    pub protocols: ProtocolMix,
    /// Where packets enter; the first port if it is not said.
    pub entry: Option<String>,
    /// Half of the packets are answers.
    pub replies: bool,
    /// Packets handed over together.
    pub batch: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Packets of flows that are not opened.
    pub strangers: Option<UnseenSpec>,
    /// What stages are looked up in.
    pub classifier: ClassifierArg,
    /// Share of time that unknown flows may take in front of a flow table.
    pub protect: Option<f64>,
    /// Packets after which all flows are forgotten.
    pub room: Option<u64>,
}

/// A point that can be measured, and what is told of it.
pub struct Made {
    /// To be measured.
    pub candidate: Candidate,
    about: About,
    /// Bytes that each execution needed when it was made, where the system says.
    pub bytes: Vec<Option<u64>>,
    /// Seconds that synthesis and the structures of the program took.
    pub build_seconds: f64,
    /// Bytes that they need, where the system says.
    pub build_bytes: Option<u64>,
}

/// What is known of a chain before it is measured.
#[derive(Debug, Clone)]
pub struct About {
    traffic: TrafficReport,
    classes: usize,
    matcher: Option<MatcherReport>,
}

/// The memory that this process has at present, in bytes.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(4096)
}

/// Packets of strangers come among those of the first lane.
fn mix_in(lane: &mut Lane, s: &UnseenSpec) {
    let known = lane.templates.len();
    let known = if s.share >= 1.0 { 0 } else { known };
    let own = |t: &Templates| -> Vec<Vec<u8>> { (0..t.len()).map(|i| t.get(i).to_vec()).collect() };
    let mut frames = own(&lane.templates);
    let others = match s.frames.is_empty() {
        true => frames.clone(),
        false => s.frames.clone(),
    };
    if known == 0 {
        frames.clear();
    }
    frames.extend(others);
    lane.templates = Templates::new(&frames, 1);
    lane.strangers = Some(Unseen {
        known,
        share: s.share,
        vary: s.vary,
    });
}

/// The entry that was asked for, or the first one.
fn entry(chain: &Chain, asked: Option<&str>) -> Result<usize> {
    match asked {
        Some(name) => runner::find_port(chain, name, true),
        None => (chain.ports.iter())
            .position(|p| p.source.is_some())
            .ok_or_else(|| anyhow!("{}: packets enter nowhere", chain.name)),
    }
}

impl Point {
    /// What traffic is wanted that enters there.
    fn aimed_at(&self, entry: ElemId) -> AimParams {
        AimParams {
            flows: self.flows,
            sizes: self.sizes.clone(),
            protocols: self.protocols,
            strict: false,
            entry,
            replies: self.replies,
            one_way: false,
            frames_per_flow: MAX_PER_FLOW,
            keep_opening: false,
            seed: self.seed,
        }
    }

    /// Makes a chain's packets and executions. `None`: its errors have been printed. Remarks are added to `warnings`;
    /// `go_on` is told how much of how much is done, and stops it by saying no.
    pub fn make(
        &self,
        warnings: &mut Vec<String>,
        go_on: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<Option<Made>> {
        let name = &self.name;
        let Some(chain) = self.chain.load_or_print() else {
            return Ok(None);
        };
        let port = entry(&chain, self.entry.as_deref())?;
        let options = BuildOptions {
            seed: self.seed,
            start: Timestamp::from_secs(1_000),
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
        let (begun, before) = (Instant::now(), resident());
        let made = program::synthesize_graph(&graph);
        let using = self.classifier.using();
        let mut fresh = ProgramRunner::with_program_using(graph, &made.program, using)
            .with_context(|| format!("{name}: the synthesized program"))?;
        fresh.prepare();
        let build_seconds = begun.elapsed().as_secs_f64();
        let grown = before.zip(resident());
        let build_bytes = grown.map(|(before, now)| now.saturating_sub(before));
        if let Some(told) = self.classifier.told(&fresh) {
            warnings.push(format!("{name}: {told}"));
        }
        let entry = chain.ports.get(port);
        let params = self.aimed_at(ElemId(entry.and_then(|p| p.source).unwrap_or(0) as u32));
        let ports = crate::cmd::verify::ports(&chain);
        let mut aimed = match aim(&fresh, &made.program, &ports, &params, go_on) {
            Ok(a) => a,
            Err(AimError::Interrupted) => return Err(AimError::Interrupted.into()),
            Err(e) => bail!("{name}: {e}"),
        };
        drop(fresh);
        if aimed.flows < self.flows {
            warnings.push(format!(
                "{name}: {} flows of the {} asked for: no more were found that leave the chain",
                common::thousands(aimed.flows as u64),
                common::thousands(self.flows as u64)
            ));
        }
        if let (Some(s), Some(lane)) = (&self.strangers, aimed.lanes.first_mut()) {
            mix_in(lane, s);
        }
        let traffic = TrafficReport::new(&aimed, entry.map_or("", |p| &p.name));
        let matcher = matcher(aimed.runner.graph(), &aimed.lanes, aimed.now);
        let subject = |m: &Mode| -> Box<dyn Subject> {
            Box::new(Executed(match m {
                Mode::Reference => Box::new(aimed.runner.graph().fork()),
                Mode::Flow | Mode::Auto => {
                    // a flow's two directions, and what guards keep apart
                    let flows = (4 * aimed.flows).max(DEFAULT_FLOWS);
                    let mut runner = FlowRunner::new(aimed.runner.fork(), flows);
                    runner.force((*m == Mode::Flow).then_some(onefold_engine::Level::Flow));
                    runner.protect(self.protect);
                    Box::new(runner)
                }
                _ => Box::new(aimed.runner.fork()),
            }))
        };
        let mut bytes = Vec::new();
        let mut subjects = Vec::new();
        for m in &self.modes {
            let before = resident();
            subjects.push(subject(m));
            bytes.push(before.and_then(|b| Some(resident()?.saturating_sub(b))));
        }
        Ok(Some(Made {
            candidate: Candidate {
                name: name.clone(),
                subjects,
                lanes: aimed.lanes,
                start: aimed.now,
                batch: self.batch,
                zipf: self.zipf,
                seed: self.seed,
                room: self.room,
            },
            about: About {
                traffic,
                classes: program::classes(&made.program),
                matcher,
            },
            bytes,
            build_seconds,
            build_bytes,
        }))
    }
}

/// What is told of each candidate and subject.
pub fn reports(made: &[About], o: &Outcome, machine: &Machine) -> Vec<ChainReport> {
    (o.measured.iter())
        .filter_map(|m| {
            let a = made.get(m.candidate)?.clone();
            let ghz = machine.tsc_ghz;
            Some(ChainReport::new(
                m,
                a.traffic,
                a.matcher,
                Some(a.classes),
                ghz,
            ))
        })
        .collect()
}

/// What is measured, and what is told of it.
pub fn split(made: Vec<Made>) -> (Vec<Candidate>, Vec<About>) {
    made.into_iter().map(|m| (m.candidate, m.about)).unzip()
}
