//! Another chain is read, built, synthesized and verified while the one that runs goes on; then it takes its place.

use super::serve::{Workers, tell};
use super::session::{Command, Installed, Next, Wanted, told};
use crate::cache::{Slices, slices_of};
use crate::cmd::run;
use crate::common::{self, ChainArgs};
use crate::deploy::{Renewal, Shared, Verdict, Verifier};
use crate::health;
use crate::live;
use crate::log::{self, Level};
use crate::ports::Live;
use crate::program::{self, PreparedStages};
use crate::shadow::Policy;
use crate::xdp::{Entries, Offloader};
use onefold_chain::{Attached, Chain, Diagnostic, LivePort, WorkerChains};
use onefold_control::{Change, Edit, EditKind, Failure, Kind};
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Graph};
use onefold_partition::PortRule;
use onefold_port_xdp::Offload;
use onefold_runtime::{Clock, Sender, stand_back};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time until a worker has looked at its mailbox.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Most changes that a running chain has beside its file.
const MAX_EDITS: usize = 10_000;

/// A port that is open.
#[derive(Debug, Clone)]
pub struct OpenPort {
    /// As the chain is told of it.
    pub live: LivePort,
    /// Its frames may have what MTU the interface has; the chain may not want more.
    pub mtu: u32,
    /// Where an XDP program can be put in front, and the receive queue.
    pub offload: Option<(Offload, u32)>,
}

/// What is open there.
pub fn open_ports(live: &[Live]) -> Vec<OpenPort> {
    let as_told = live::ports_of(live).into_iter();
    as_told
        .zip(live)
        .map(|(told, l)| OpenPort {
            live: told,
            mtu: l.interface.mtu,
            offload: l.offload.clone(),
        })
        .collect()
}

/// See the module's text.
pub struct Reloader {
    args: run::Args,
    ports: Vec<OpenPort>,
    clock: Clock,
    /// The workers, in their order.
    senders: Vec<Sender<Command>>,
    /// By what several workers' packets are told apart.
    rules: Vec<PortRule>,
    /// What is known of servers' health.
    health: Arc<health::Shared>,
    /// What runs; held while something else is made.
    now: Mutex<Now>,
    /// Frees what the last reload has replaced.
    freeing: Mutex<Option<JoinHandle<()>>>,
}

/// The chain that runs.
#[derive(Debug, Clone)]
struct Now {
    chain: ChainArgs,
    edits: Vec<Edit>,
}

/// How a chain is to be made.
struct Plan<'a> {
    chain: &'a ChainArgs,
    edits: &'a [Edit],
    /// Its program is made and verified before it takes packets.
    verified: bool,
}

fn lines(all: &[Diagnostic]) -> Vec<String> {
    all.iter()
        .map(|d| d.render(false).trim_end().to_string())
        .collect()
}

fn bad(message: impl Into<String>, details: &[Diagnostic]) -> Failure {
    Failure {
        details: lines(details),
        ..Failure::new(Kind::BadInput, message)
    }
}

impl Reloader {
    /// For a run with these arguments on these ports.
    pub fn new(
        args: &run::Args,
        ports: Vec<OpenPort>,
        workers: &Workers,
        health: Arc<health::Shared>,
    ) -> Reloader {
        let mut chain = args.chain().clone();
        // who asks later may be elsewhere
        if let Ok(absolute) = std::fs::canonicalize(&chain.chain) {
            chain.chain = absolute.display().to_string();
        }
        Reloader {
            args: args.silent(),
            ports,
            clock: workers.clock,
            senders: workers.senders.clone(),
            rules: workers.rules.clone(),
            health,
            now: Mutex::new(Now {
                chain,
                edits: Vec::new(),
            }),
            freeing: Mutex::new(None),
        }
    }

    fn begin(&self) -> Result<std::sync::MutexGuard<'_, Now>, Failure> {
        if self.args.has_program() {
            let why = "this run has a program that was given (--program): it is not made anew";
            return Err(Failure::new(Kind::Unsupported, why));
        }
        match self.now.try_lock() {
            Ok(now) => Ok(now),
            Err(TryLockError::WouldBlock) => {
                Err(Failure::new(Kind::Busy, "another reload is under way"))
            }
            // who held it has failed; what it says is still what runs
            Err(TryLockError::Poisoned(now)) => Ok(now.into_inner()),
        }
    }

    /// Another chain, or the same one read again.
    ///
    /// # Errors
    /// When it is not installed: the one that runs goes on.
    pub fn reload(
        &self,
        chain: Option<String>,
        set: Vec<(String, String)>,
    ) -> Result<Value, Failure> {
        logged("reload", self.do_reload(chain, set))
    }

    fn do_reload(
        &self,
        chain: Option<String>,
        set: Vec<(String, String)>,
    ) -> Result<Value, Failure> {
        let mut now = self.begin()?;
        let next = ChainArgs {
            set: match (&chain, set.is_empty()) {
                (None, true) => now.chain.set.clone(),
                _ => set,
            },
            chain: chain.unwrap_or_else(|| now.chain.chain.clone()),
        };
        let plan = Plan {
            chain: &next,
            edits: &[],
            verified: true,
        };
        let said = self.install(&plan)?;
        *now = Now {
            chain: next,
            edits: Vec::new(),
        };
        Ok(said)
    }

    /// The chain that runs, with a change.
    ///
    /// # Errors
    /// As [`Reloader::reload`].
    pub fn edit(&self, edit: Edit, verify_first: bool) -> Result<Value, Failure> {
        let name = match edit.change {
            Change::Add => "added",
            Change::Remove => "removed",
            Change::Drain => "drained",
            Change::Resume => "resumed",
        };
        logged(name, self.do_edit(edit, verify_first))
    }

    fn do_edit(&self, edit: Edit, verify_first: bool) -> Result<Value, Failure> {
        let mut now = self.begin()?;
        if now.edits.len() >= MAX_EDITS {
            let text = format!(
                "the chain has {MAX_EDITS} changes that are not in its file: write them there, and reload"
            );
            return Err(Failure::new(Kind::Unsupported, text));
        }
        let mut edits = now.edits.clone();
        edits.push(edit);
        let plan = Plan {
            chain: &now.chain,
            edits: &edits,
            verified: verify_first,
        };
        let said = self.install(&plan)?;
        now.edits = edits;
        Ok(said)
    }

    /// Makes it, has it installed, and says what happened.
    fn install(&self, plan: &Plan<'_>) -> Result<Value, Failure> {
        let begun = Instant::now();
        let freeing = (self.freeing.lock().unwrap_or_else(PoisonError::into_inner)).take();
        // a defect there has been told by the thread
        let _ = freeing.map(JoinHandle::join);
        let (all, verdict) = self.make_beside(plan)?;
        let first = all.first().ok_or_else(nobody)?;
        let warnings = lines(&first.chain.warnings);
        let (classes, name) = (
            first.made.as_ref().map(|m| program::classes(&m.0.program)),
            first.chain.name.clone(),
        );
        let made = begun.elapsed();
        let watched = health::plans(&first.chain);
        self.prepare(all)?;
        let installed = self.commit()?;
        self.health.watch(watched);
        let took = begun.elapsed();
        let (mut lost, mut dropped, mut pause) = (Vec::new(), 0, 0.0f64);
        let kept = installed.first().map_or(0, |i| i.taken.kept);
        for i in &installed {
            // of several workers the same elements begin anew
            let more = told(&i.taken).into_iter();
            lost.extend(more.filter(|l| !lost.contains(l)).collect::<Vec<_>>());
            dropped += i.taken.dropped;
            pause = pause.max(i.pause);
        }
        self.free(installed.into_iter().map(|i| i.old).collect());
        Ok(json!({
            "chain": name,
            "seconds": took.as_secs_f64(),
            "made_seconds": made.as_secs_f64(),
            "pause_seconds": pause,
            "verification": verdict,
            "classes": classes,
            "kept": kept,
            "lost": lost,
            "dropped": dropped,
            "warnings": warnings,
        }))
    }

    /// Frees what was replaced, in a thread that stands back behind the workers: it takes tens of milliseconds of
    /// processor time, which nobody waits for. Of reloads in a row one is freed before the next is begun.
    fn free(&self, old: Vec<Box<dyn Send>>) {
        let thread = std::thread::Builder::new().name("freeing".into());
        let thread = thread.spawn(move || {
            stand_back();
            drop(old);
            onefold_table::return_free_pages();
        });
        // without a thread it was freed at once, with what the thread was to do
        *self.freeing.lock().unwrap_or_else(PoisonError::into_inner) = thread.ok();
    }

    /// As [`Reloader::make`], in a thread that stands back behind the workers: packets do not pay for a proof.
    fn make_beside(&self, plan: &Plan<'_>) -> Result<(Vec<Next>, String), Failure> {
        let failed =
            |what: &str| Failure::new(Kind::Unsupported, format!("making the chain: {what}"));
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("reload".into());
            let thread = thread.spawn_scoped(scope, || {
                stand_back();
                self.make(plan)
            });
            let thread = thread.map_err(|e| failed(&format!("no thread: {e}")))?;
            let made = thread.join();
            made.unwrap_or_else(|_| Err(failed("a defect; what it says is in the run's log")))
        })
    }

    /// Each worker holds its chain, or none does.
    fn prepare(&self, all: Vec<Next>) -> Result<(), Failure> {
        let wanted = Arc::new(Wanted::default());
        let mut answers = Vec::new();
        let mut failed = None;
        for (sender, next) in self.senders.iter().zip(all) {
            let (reply, answer) = sync_channel(1);
            let command = Command::Prepare {
                next: Box::new(next),
                wanted: Arc::clone(&wanted),
                reply,
            };
            match tell(sender, command) {
                Ok(()) => answers.push(answer),
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        let until = Instant::now() + PATIENCE;
        for answer in answers {
            let left = until.saturating_duration_since(Instant::now());
            let no = match answer.recv_timeout(left) {
                Ok(Ok(())) => continue,
                Ok(Err(e)) => Failure::new(Kind::Ports, e.to_string()),
                Err(_) => Failure::new(Kind::Ended, "a worker has not taken the new chain"),
            };
            failed = failed.or(Some(no));
        }
        let Some(failure) = failed else { return Ok(()) };
        // before the commands: who comes late finds one of both
        wanted.give_up();
        for sender in &self.senders {
            // an ended worker holds nothing
            let _ = sender.send(Command::Abort);
        }
        Err(failure)
    }

    /// All workers hold a chain: each goes on with it behind its batch. That does not fail but with the run.
    fn commit(&self) -> Result<Vec<Installed>, Failure> {
        let mut answers = Vec::new();
        for sender in &self.senders {
            let (reply, answer) = sync_channel(1);
            tell(sender, Command::Commit { reply })?;
            answers.push(answer);
        }
        let until = Instant::now() + PATIENCE;
        let one = |answer: Receiver<Installed>| {
            let left = until.saturating_duration_since(Instant::now());
            let ended = || Failure::new(Kind::Ended, "a worker has not taken the new chain yet");
            answer.recv_timeout(left).map_err(|_| ended())
        };
        answers.into_iter().map(one).collect()
    }

    /// Reads, builds, synthesizes and verifies: for each worker, what it has in common once.
    fn make(&self, plan: &Plan<'_>) -> Result<(Vec<Next>, String), Failure> {
        let (loaded, attached) = self.load(plan)?;
        let shared = self.shared(plan)?;
        let n = loaded.chains.len();
        let (mut all, mut told) = (Vec::new(), None);
        let mut stages = PreparedStages::default();
        for (worker, chain) in loaded.chains.into_iter().enumerate() {
            let slices = slices_of(&loaded.ranges, worker, n);
            let shared = shared.as_ref().map(|s| (s, slices));
            let (next, verdict) = self.make_one(plan, chain, &attached, (shared, &mut stages))?;
            told.get_or_insert(verdict);
            all.push(next);
        }
        #[cfg(debug_assertions)]
        if let Some(next) = self.args.reload_fault().and_then(|w| all.get_mut(w)) {
            next.fault = true;
        }
        Ok((all, told.unwrap_or_default()))
    }

    /// What the proof for all of several workers is made of, if there is to be one.
    fn shared(&self, plan: &Plan<'_>) -> Result<Option<Shared>, Failure> {
        let wanted = self.args.synthesizes() && self.args.verify().proves();
        if self.senders.len() == 1 || !wanted {
            return Ok(None);
        }
        let one = self.load_for(plan, 1)?.0.chains.pop().ok_or_else(nobody)?;
        Ok(Some(Shared::of(self.graph(&one)?)))
    }

    fn graph(&self, chain: &Chain) -> Result<Graph, Failure> {
        let options = BuildOptions {
            seed: self.args.seed(),
            start: self.clock.now(),
            ..Default::default()
        };
        common::build(chain, &options)
            .map_err(|ds| bad("the chain's elements cannot be configured", &ds))
    }

    fn make_one(
        &self,
        plan: &Plan<'_>,
        chain: Chain,
        attached: &[Attached],
        (shared, stages): (Option<(&Shared, Slices)>, &mut PreparedStages),
    ) -> Result<(Next, String), Failure> {
        let mut graph = self.graph(&chain)?;
        for (mapper, down) in self.health.known(&health::plans(&chain)) {
            let told = graph.write_handler(&format!("{mapper}.down"), &down);
            told.map_err(|e| bad(e.to_string(), &[]))?;
        }
        let ports = crate::cmd::verify::ports(&chain);
        let verifier = Verifier::new(self.args.verify(), ports, self.args.seed(), true);
        let verifier = verifier.hurrying(true);
        let mut verifier = match shared {
            None => verifier,
            Some((shared, slices)) => verifier.sharing(shared, slices),
        };
        let policy = Policy::new(self.args.shadow(), self.args.seed());
        let offloader = match self.args.offloads() {
            true => Offloader::of(&self.ports),
            false => Offloader::default(),
        };
        let entries = Entries::of(&chain);
        let mut offloads = Vec::new();
        let (executor, made, verdict) = match plan.verified && self.args.synthesizes() {
            false => {
                let executor = self.args.flow(ProgramRunner::new(graph));
                let verdict = match self.args.synthesizes() {
                    true => "the reference graph runs until the program is made and verified",
                    false => "the reference graph runs",
                };
                (executor, None, verdict.to_string())
            }
            true => {
                let (e, m, v) = self.synthesized(graph, (&mut verifier, policy), stages)?;
                offloads = offloader.prepare_next(&entries, e.graph(), &m.0.program, &m.1);
                (e, Some(m), v)
            }
        };
        let next = Next {
            chain: Arc::new(chain),
            executor,
            made,
            renewal: Renewal::new(verifier, policy, false, false).offloading(offloader, entries),
            offloads,
            attached: attached.to_vec(),
            command: plan.chain.text(),
            #[cfg(debug_assertions)]
            fault: false,
        };
        Ok((next, verdict))
    }

    /// What executes the graph, with what has been made for other workers where their stages have the same rules.
    fn synthesized(
        &self,
        graph: Graph,
        (verifier, policy): (&mut Verifier, Policy),
        stages: &mut PreparedStages,
    ) -> Result<(onefold_engine::shadow::Shadow, super::session::Made, String), Failure> {
        let failed = |e: anyhow::Error| Failure::new(Kind::BadInput, format!("{e:#}"));
        let mut r = ProgramRunner::new(graph);
        let s = program::synthesize_graph(r.graph());
        let ready = program::Plan::new(r.graph(), &s.program, r.using());
        let ready = ready.map_err(|e| failed(e.into()))?.prepared_like(stages);
        r.install(ready).map_err(|e| failed(e.into()))?;
        let v = verifier.verify(r.graph(), &s.program).map_err(failed)?;
        if v.verdict == Verdict::Refuted {
            let chain = self.args.chain().text();
            let told = v.refusal(&chain, None);
            return Err(Failure {
                details: told.lines().map(str::to_string).collect(),
                ..Failure::new(Kind::Refuted, "the program is not the chain")
            });
        }
        r.graph_mut().tell("verification", v.told());
        let verdict = v.told().trim_end().to_string();
        let mut shadow = self.args.flow(r);
        policy.watch(&mut shadow, &s.program, &v);
        Ok((shadow, Arc::new((s, v)), verdict))
    }

    /// A chain for each of so many workers.
    fn load_for(
        &self,
        plan: &Plan<'_>,
        workers: usize,
    ) -> Result<(WorkerChains, Vec<Attached>), Failure> {
        let live: Vec<LivePort> = self.ports.iter().map(|p| p.live.clone()).collect();
        let edits: Vec<onefold_chain::Edit> = plan.edits.iter().map(of_chain).collect();
        let options = plan.chain.options();
        let name = &plan.chain.chain;
        let loaded = onefold_chain::load_workers_edited(name, &options, workers, &live, &edits);
        loaded.map_err(|e| bad(e.to_string(), &common::chain_error(&e)))
    }

    /// The same for each of the run's workers, if it fits the run.
    fn load(&self, plan: &Plan<'_>) -> Result<(WorkerChains, Vec<Attached>), Failure> {
        let n = self.senders.len();
        let (loaded, attached) = self.load_for(plan, n)?;
        let chain = loaded.chains.first().ok_or_else(nobody)?;
        for p in &self.ports {
            let name = &p.live.port;
            if chain.ports.iter().all(|q| q.name != *name) {
                let text = format!("the new chain has no port '{name}', which is open");
                return Err(Failure::new(Kind::Ports, text));
            }
            let needs = attached
                .iter()
                .find(|a| a.port == *name)
                .map_or(0, |a| a.mtu);
            if needs > p.mtu {
                let text = format!(
                    "port '{name}': the new chain sends IP packets of {needs} bytes there, and the interface's MTU is \
                     {}: raise it, or set the chain's mtu",
                    p.mtu
                );
                return Err(Failure::new(Kind::Ports, text));
            }
        }
        if n > 1 && loaded.ports != self.rules {
            let text = "the new chain's packets would come to other workers than those that know their flows (its \
                        NATs, or where they are, have changed): stop the run and start the new chain";
            return Err(Failure::new(Kind::Unsupported, text));
        }
        Ok((loaded, attached))
    }
}

fn nobody() -> Failure {
    Failure::new(Kind::Ended, "there is no worker")
}

/// Tells the log what came of a change.
fn logged(name: &'static str, done: Result<Value, Failure>) -> Result<Value, Failure> {
    match &done {
        Ok(v) => {
            let keys = [
                "chain",
                "seconds",
                "pause_seconds",
                "verification",
                "lost",
                "dropped",
            ];
            let fields = keys.map(|k| (k, v[k].clone()));
            log::event(Level::Info, name, &fields);
        }
        Err(f) => {
            let kind = serde_json::to_value(f.kind).unwrap_or_default();
            let fields = [
                ("change", name.into()),
                ("kind", kind),
                ("what", f.message.as_str().into()),
            ];
            log::event(Level::Error, "not-changed", &fields);
        }
    }
    done
}

fn of_chain(e: &Edit) -> onefold_chain::Edit {
    onefold_chain::Edit {
        kind: match e.kind {
            EditKind::Rule => onefold_chain::EditKind::Rule,
            EditKind::Route => onefold_chain::EditKind::Route,
            EditKind::Backend => onefold_chain::EditKind::Backend,
        },
        function: e.function.clone(),
        change: match e.change {
            Change::Add => onefold_chain::Change::Add,
            Change::Remove => onefold_chain::Change::Remove,
            Change::Drain => onefold_chain::Change::Drain,
            Change::Resume => onefold_chain::Change::Resume,
        },
        text: e.text.clone(),
        at: e.at,
    }
}

/// A chain as a client names it: files by their absolute paths, since the chain runs elsewhere.
pub fn named(chain: &str) -> String {
    let path = PathBuf::from(chain);
    match std::fs::canonicalize(&path) {
        Ok(absolute) => absolute.display().to_string(),
        Err(_) => chain.to_string(),
    }
}
