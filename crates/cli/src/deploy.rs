//! Verification before a program takes traffic: proved, or not known (then in shadow mode), or refuted (then not at
//! all).

mod renewal;

pub use renewal::Renewal;

use crate::cache::{Kept, Key, ProofCache, Slices};
use crate::common::thousands;
use crate::counterexample::{PACKETS, Search, Shown, hex, place, show};
use crate::log::{self, Level};
use crate::program;
use crate::progress::Busy;
use anyhow::Result;
use onefold_engine::Graph;
use onefold_synth::program::{Program, StageId};
use onefold_verify::generate::Port;
use onefold_verify::prove::{self, EntryProof, Proof, Share, prove_with};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// All programs that are made anew during a run have so many times the time limit in all; then they are unknown.
const RENEWALS: u32 = 4;
/// Seconds for the proof before the first packet, if nobody says otherwise.
const VERIFY_SECONDS: u32 = 30;
/// Packets of a counterexample that are printed.
const SHOWN: usize = 8;
/// Most places told of what is not known.
const PLACES: usize = 20;

/// On network interfaces packets that show a difference are looked for at least so long.
const HURRIED: Duration = Duration::from_secs(2);

/// What shows a difference is made smaller for so long at most: who starts a chain waits for it.
const SHRINKING: Duration = Duration::from_secs(2);

/// What `--no-verify` is answered with.
pub const UNVERIFIED: &str =
    "--no-verify: nobody has shown that this program is the chain as it is written";

/// Options of verification.
#[derive(clap::Args, Debug, Clone)]
pub struct VerifyArgs {
    /// Longest time for the proof that the program is the chain, which comes before the first packet. What is not
    /// proved by then runs in shadow mode; with 0 everything does
    #[arg(long, value_name = "SECONDS", default_value_t = VERIFY_SECONDS)]
    verify_time: u32,
    /// Takes packets without a proof
    #[arg(long, conflicts_with = "verify_time")]
    no_verify: bool,
    /// Proves even what was proved before, and keeps no proof. Proofs are kept in ONEFOLD_CACHE, or else in
    /// ~/.cache/onefold
    #[arg(long)]
    no_proof_cache: bool,
    /// Runs this program (the text that `explain --program` prints), not the one that is made now
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Program and chain do the same with every packet.
    Proved,
    /// Some of it is not known.
    Unknown,
    /// A packet shows a difference.
    Refuted,
    /// Nobody has looked.
    Skipped,
}

impl Verdict {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Proved => "proved",
            Verdict::Unknown => "unknown",
            Verdict::Refuted => "refuted",
            Verdict::Skipped => "skipped",
        }
    }
}

/// What is known of a program.
#[derive(Clone)]
pub struct Verification {
    pub verdict: Verdict,
    pub seconds: f64,
    share: Share,
    /// Classes (stage, action) that are not proved.
    pub unknown: BTreeSet<(usize, usize)>,
    /// Classes in all.
    of: usize,
    /// Where, and why not.
    places: Vec<String>,
    stopped: Option<String>,
    shown: Option<Shown>,
    /// The proof was made before.
    kept: Option<Kept>,
}

/// A verdict that the verifiers of several workers share.
///
/// Their graphs are that of one worker, but that each NAT hands out a slice of what it has there. What is proved with
/// all of it, whichever value a NAT takes, is proved with each slice. So the program of one worker is verified, once,
/// when it is first asked for (who needs it meanwhile waits), and its verdict is that of each worker's program that is
/// the same one but for the slices ([`Key::of_proof`]). A program that is not has a proof of its own.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Whole>>);

enum Whole {
    /// The graph of one worker.
    Graph(Box<Graph>),
    /// With its program.
    Program(Box<(Graph, Program)>, Key),
    /// What came of it.
    Verified(Key, Box<Verification>),
    /// It cannot be verified.
    Failed,
}

impl Shared {
    /// By the graph of the chain as one worker has it.
    pub fn of(graph: Graph) -> Shared {
        Shared(Arc::new(Mutex::new(Whole::Graph(Box::new(graph)))))
    }
}

/// Verifies programs of one run.
pub struct Verifier {
    limit: Option<Duration>,
    /// Left for programs made anew.
    pool: Duration,
    ports: Vec<Port>,
    seed: u64,
    quiet: bool,
    /// Packets wait on network interfaces.
    hurries: bool,
    /// Proofs that were made before.
    cache: Option<ProofCache>,
    /// With what is this worker's of it.
    shared: Option<(Shared, Slices)>,
    /// Verdicts about programs that were made anew.
    pub renewals: Vec<Verdict>,
}

/// The cache of proofs, if it is wanted and can be used; whoever wants it is told why not.
fn cache(args: &VerifyArgs) -> Option<ProofCache> {
    if args.no_proof_cache || args.no_verify || args.verify_time == 0 {
        return None;
    }
    ProofCache::open().unwrap_or_else(|e| {
        eprintln!("warning: proofs are not kept: {e:#}");
        None
    })
}

impl VerifyArgs {
    /// Is there to be a proof?
    pub fn proves(&self) -> bool {
        !self.no_verify && self.verify_time > 0
    }
}

impl Verifier {
    /// For a chain with these ports.
    pub fn new(args: &VerifyArgs, ports: Vec<Port>, seed: u64, quiet: bool) -> Verifier {
        let limit = Duration::from_secs(args.verify_time.into());
        Verifier {
            limit: (!args.no_verify).then_some(limit),
            pool: limit * RENEWALS,
            ports,
            seed,
            quiet,
            hurries: false,
            cache: cache(args),
            shared: None,
            renewals: Vec::new(),
        }
    }

    /// The same, for one of several workers, whose NATs hand out these slices.
    pub fn sharing(self, shared: &Shared, slices: Slices) -> Verifier {
        Verifier {
            shared: Some((shared.clone(), slices)),
            ..self
        }
    }

    /// On network interfaces: where a proof leaves something open, packets that show a difference are looked for as
    /// long as the proof took, not for the whole of the time limit. What is open is compared in shadow mode.
    pub fn hurrying(mut self, hurries: bool) -> Verifier {
        self.hurries = hurries;
        self
    }

    /// Is the program what the graph is now?
    ///
    /// # Errors
    /// When the program is not one for this graph.
    pub fn verify(&self, graph: &Graph, program: &Program) -> Result<Verification> {
        match self.shared {
            Some(_) => self.once(graph, program, self.limit),
            None => self.verify_cached(graph, program, self.limit),
        }
    }

    /// Looks for a proof that was made before, and keeps one that is made now.
    fn verify_cached(
        &self,
        graph: &Graph,
        program: &Program,
        limit: Option<Duration>,
    ) -> Result<Verification> {
        let begun = Instant::now();
        let cache = self.cache.as_ref().filter(|_| self.limit.is_some());
        let key = cache.and_then(|_| Key::of(graph, program));
        let (Some(cache), Some(key)) = (cache, key) else {
            return self.within(graph, program, limit);
        };
        if let Some(kept) = cache.find(&key) {
            let mut v = Verification::unseen(program);
            v.verdict = Verdict::Proved;
            v.share = Share {
                proved: kept.proved,
                punted: kept.punted,
                within: kept.within,
                ..Share::default()
            };
            v.seconds = begun.elapsed().as_secs_f64();
            v.kept = Some(kept);
            return Ok(v);
        }
        let v = self.within(graph, program, limit)?;
        if v.verdict == Verdict::Proved {
            let proof = Kept::now(v.seconds, [v.share.proved, v.share.punted, v.share.within]);
            if let Err(e) = cache.keep(&key, &proof) {
                eprintln!("warning: the proof is not kept: {e}");
            }
        }
        Ok(v)
    }

    /// The same for a program that was made because a handler changed a model; with the time that is left for those.
    ///
    /// # Errors
    /// When the program is not one for this graph.
    pub fn verify_renewed(&mut self, graph: &Graph, program: &Program) -> Result<Verification> {
        let limit = self.limit.map(|l| l.min(self.pool));
        let begun = Instant::now();
        let v = self.once(graph, program, limit)?;
        self.pool = self.pool.saturating_sub(begun.elapsed());
        self.renewals.push(v.verdict);
        Ok(v)
    }

    /// Verifies it, unless it is what all workers have.
    fn once(
        &self,
        graph: &Graph,
        program: &Program,
        limit: Option<Duration>,
    ) -> Result<Verification> {
        let worth = limit.is_some_and(|l| !l.is_zero());
        let Some((Shared(shared), slices)) = self.shared.as_ref().filter(|_| worth) else {
            return self.within(graph, program, limit);
        };
        let mine = Key::of_proof(graph, program, slices);
        let mut whole = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *whole, Whole::Failed);
        let before = match before {
            Whole::Graph(g) => {
                let program = program::synthesize_graph(&g).program;
                let key = Key::of_proof(&g, &program, &Slices::new());
                Whole::Program(Box::new((*g, program)), key)
            }
            other => other,
        };
        *whole = match before {
            Whole::Program(all, key) if key == mine => {
                let v = self.verify_cached(&all.0, &all.1, limit)?;
                Whole::Verified(key, Box::new(v))
            }
            other => other,
        };
        match &*whole {
            Whole::Verified(key, v) if *key == mine => Ok(v.as_ref().clone()),
            _ => {
                drop(whole);
                self.within(graph, program, limit)
            }
        }
    }

    fn within(
        &self,
        graph: &Graph,
        program: &Program,
        limit: Option<Duration>,
    ) -> Result<Verification> {
        let begun = Instant::now();
        let mut v = Verification::unseen(program);
        let Some(limit) = limit else {
            return Ok(v);
        };
        let options = prove::Options {
            time_limit: Some(limit),
            ..prove::Options::default()
        };
        let proof = match limit.is_zero() {
            true => untried(program),
            false => {
                let _busy = Busy::new("proving that the program is the chain", self.quiet);
                prove_with(&graph.synthesis_input(), program, &options, &|e, p| {
                    graph.finer_model(e, p)
                })
            }
        };
        if !proof.different.is_empty() {
            // at least a second: a refutation is worth more than being on time
            let most = match self.hurries {
                true => (begun.elapsed() * 2).clamp(HURRIED, limit.max(HURRIED)),
                false => limit,
            };
            let how = Search {
                packets: PACKETS,
                seed: self.seed,
                shrink_time: SHRINKING,
                deadline: Some((begun + most).max(Instant::now() + Duration::from_secs(1))),
                quiet: self.quiet,
            };
            v.shown = show(graph, program, &self.ports, &proof, &how)?;
        }
        v.verdict = match (&v.shown, proof.holds()) {
            (Some(_), _) => Verdict::Refuted,
            (None, true) => Verdict::Proved,
            (None, false) => Verdict::Unknown,
        };
        v.unknown = unproved(program, &proof);
        let doubts = proof.different.iter().chain(&proof.unknown);
        v.places = doubts.take(PLACES).map(|d| place(graph, d)).collect();
        v.stopped = proof.stopped().map(str::to_string);
        v.share = proof.share;
        v.seconds = begun.elapsed().as_secs_f64();
        Ok(v)
    }
}

/// The proof that nobody has tried, for want of time.
fn untried(program: &Program) -> Proof {
    let entry = |source| EntryProof {
        source,
        share: Share {
            unknown: 1.0,
            ..Share::default()
        },
        reference: false,
        epochs: 0,
        steps: 0,
        nodes: 0,
        stopped: Some("no time was given".to_string()),
    };
    Proof {
        entries: program.entries.iter().map(|e| entry(e.source)).collect(),
        share: Share {
            unknown: 1.0,
            ..Share::default()
        },
        ..Proof::default()
    }
}

/// Classes that a proof leaves open. Where an entry was given up, every class that packets enter it with is open.
fn unproved(program: &Program, proof: &Proof) -> BTreeSet<(usize, usize)> {
    let all_of = |s: StageId| {
        let stage = program.stages.get(s.0 as usize);
        let n = stage.map_or(0, |s| s.actions.len());
        (0..n).map(move |a| (s.0 as usize, a))
    };
    let mut open = BTreeSet::new();
    for d in proof.different.iter().chain(&proof.unknown) {
        match d.action {
            Some(a) => drop(open.insert((d.stage.0 as usize, a as usize))),
            None => open.extend(all_of(d.stage)),
        }
    }
    for e in proof.entries.iter().filter(|e| e.stopped.is_some()) {
        let entry = program.entries.iter().find(|p| p.source == e.source);
        open.extend(entry.into_iter().flat_map(|e| all_of(e.stage)));
    }
    open
}

impl Verification {
    /// Of a program that nobody has looked at.
    fn unseen(program: &Program) -> Verification {
        Verification {
            verdict: Verdict::Skipped,
            seconds: 0.0,
            share: Share {
                unknown: 1.0,
                ..Share::default()
            },
            unknown: BTreeSet::new(),
            of: program::classes(program),
            places: Vec::new(),
            stopped: None,
            shown: None,
            kept: None,
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        if let Some(k) = &self.kept {
            let (date, seconds) = (k.date(), k.seconds);
            return format!("proved (from cache, made {date} in {seconds:.2} s)");
        }
        match self.verdict {
            Verdict::Proved => format!("proved in {:.2} s", self.seconds),
            Verdict::Skipped => "nobody has looked (--no-verify)".to_string(),
            Verdict::Refuted => format!("refuted in {:.2} s", self.seconds),
            Verdict::Unknown => {
                let why = match (&self.stopped, self.places.first()) {
                    (Some(s), _) => format!(" ({s})"),
                    (None, Some(p)) => format!(" ({p})"),
                    (None, None) => String::new(),
                };
                format!(
                    "{} of {} classes not proved in {:.2} s, {:.2}% of the header space{why}",
                    thousands(self.unknown.len() as u64),
                    thousands(self.of as u64),
                    self.seconds,
                    (self.share.unknown + self.share.different) * 100.0
                )
            }
        }
    }

    /// Says on standard error how it is with a program that is about to run. Whoever did not want a proof is told
    /// every time.
    pub fn say(&self, quiet: bool) {
        self.log();
        match self.verdict {
            Verdict::Skipped => eprintln!("warning: {UNVERIFIED}"),
            Verdict::Proved if quiet => {}
            Verdict::Proved => eprintln!("verified: {}", self.line()),
            Verdict::Unknown => eprintln!("verified: {}", self.line()),
            Verdict::Refuted => {}
        }
    }

    /// Tells the log of it.
    pub fn log(&self) {
        let level = match self.verdict {
            Verdict::Proved => Level::Info,
            Verdict::Unknown | Verdict::Skipped => Level::Warning,
            Verdict::Refuted => Level::Error,
        };
        let fields = [
            ("verdict", self.verdict.name().into()),
            ("seconds", self.seconds.into()),
            ("classes", self.of.into()),
            ("unknown", self.unknown.len().into()),
            ("what", self.line().into()),
        ];
        log::event(level, "verified", &fields);
    }

    /// What the handler `verification` says: the verdict, and what there is to it.
    pub fn told(&self) -> String {
        match self.verdict {
            Verdict::Proved => "proved\n".to_string(),
            v => format!("{}: {}\n", v.name(), self.line()),
        }
    }

    /// Why the program must not run, and how to see it.
    pub fn refusal(&self, chain: &str, program: Option<&std::path::Path>) -> String {
        let mut s = format!("refused: the program is not the chain ({})\n", self.line());
        if let Some(shown) = &self.shown {
            s += &format!("  {}\n", shown.difference);
            let with = program.map_or(String::new(), |p| format!(" --program {}", p.display()));
            // the last one shows it
            let before = shown.packets.len().saturating_sub(SHOWN);
            if before > 0 {
                s += &format!("  behind {before} packets before these (--json shows all):\n");
            }
            for (port, bytes) in shown.packets.iter().skip(before) {
                s += &format!(
                    "  onefold trace {chain}{with} --hex {port}={}\n",
                    hex(bytes)
                );
            }
        }
        s + "  --mode reference runs the chain as it is written"
    }

    /// As documented in docs/json.md.
    pub fn json(&self, renewals: &[Verdict]) -> serde_json::Value {
        serde_json::json!({
            "verdict": self.verdict.name(),
            "seconds": self.seconds,
            "from_cache": self.kept.map(|k| serde_json::json!({
                "made": k.date(),
                "seconds": k.seconds,
            })),
            "header_space": {
                "proved": self.share.proved,
                "punted": self.share.punted,
                "unknown": self.share.unknown + self.share.different,
                "within": self.share.within,
            },
            "unknown_classes": self.unknown.iter()
                .map(|(s, a)| serde_json::json!({ "stage": s, "action": a })).collect::<Vec<_>>(),
            "unknown": self.places,
            "stopped": self.stopped,
            "counterexample": self.shown.as_ref().map(|s| serde_json::json!({
                "packets": s.packets.iter()
                    .map(|(p, b)| serde_json::json!({ "port": p, "packet": hex(b) }))
                    .collect::<Vec<_>>(),
                "difference": s.difference,
            })),
            "renewals": renewals.iter().map(|v| v.name()).collect::<Vec<_>>(),
        })
    }
}
