//! The worker's side: what it is told to do, and what it goes on with.

use super::capture;
use crate::alerts::Eve;
use crate::common;
use crate::deploy::{Renewal, Verification};
use crate::links::{self, LinkCount};
use crate::program::Synthesized;
use crate::rules;
use crate::runner::{self, Dropped, Outcome, Ran};
use crate::shadow::ShadowLog;
use crate::xdp::Prepared;
use anyhow::Result;
use onefold_chain::{Attached, Chain};
use onefold_element::{ElemId, SourceLoc};
use onefold_engine::flow::FlowStats;
use onefold_engine::shadow::Shadow;
use onefold_engine::{Executor, TakenOver};
use onefold_runtime::{
    Binding, Load, LoadReport, Mailbox, ReplaceError, Sender, Wakes, Worker, mailbox,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Instant;

/// A program that was made, and what is known of it.
pub type Made = Arc<(Synthesized, Verification)>;

/// What a worker can be told to do.
pub enum Command {
    /// Say how it stands.
    Status {
        /// The operator's rules, too.
        rules: bool,
        /// Who wants to know.
        reply: SyncSender<Snapshot>,
    },
    /// Say what a read handler says.
    Read {
        /// The handler, and its parameter.
        call: String,
        /// Who wants to know; `None`: there is none, or it refuses.
        reply: SyncSender<Option<String>>,
    },
    /// Hold another chain, unless it does not fit.
    Prepare {
        /// The chain, ready.
        next: Box<Next>,
        /// Whether it is still wanted.
        wanted: Arc<Wanted>,
        /// Who waits for it.
        reply: SyncSender<std::result::Result<(), NotPrepared>>,
    },
    /// Go on with the chain that is held.
    Commit {
        /// Who waits for it.
        reply: SyncSender<Installed>,
    },
    /// The chain that is held is not wanted any more.
    Abort,
    /// What passes a port goes there, too.
    Tap {
        /// The port.
        port: String,
        /// Where to.
        sink: capture::Sink,
        /// Is there such a port?
        reply: SyncSender<bool>,
    },
    /// Packets that are dropped for such a reason, or are of such a class, go there; `None`: nobody looks any more.
    Watch(Option<capture::Watch>),
    /// These servers of a mapper are down, as its handler takes them; all others are up.
    Down {
        /// The element.
        mapper: String,
        /// The servers.
        down: String,
    },
}

/// Is a change still wanted that several workers are to make together? It is decided once.
#[derive(Debug, Default)]
pub struct Wanted(AtomicBool);

impl Wanted {
    /// It is not: who has not prepared for it need not.
    pub fn give_up(&self) {
        self.0.store(true, Ordering::Release);
    }
    fn is_given_up(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Why a worker does not hold a chain.
#[derive(Debug, thiserror::Error)]
pub enum NotPrepared {
    /// It does not fit the ports that are open.
    #[error(transparent)]
    Ports(#[from] ReplaceError),
    /// Somebody has waited for too long.
    #[error("it is not wanted any more")]
    GivenUp,
    /// A fault that a test has planted.
    #[cfg(debug_assertions)]
    #[error("a planted fault")]
    Fault,
}

/// A chain that is ready to take packets.
pub struct Next {
    /// As it was loaded.
    pub chain: Arc<Chain>,
    /// What executes it.
    pub executor: Shadow,
    /// Its program, if it has one already.
    pub made: Option<Made>,
    /// Makes it new programs.
    pub renewal: Renewal,
    /// What is dropped in front of it.
    pub offloads: Vec<Prepared>,
    /// What became of the ports.
    pub attached: Vec<Attached>,
    /// As it would be written on the command line.
    pub command: String,
    /// It is to be refused, for tests of what follows.
    #[cfg(debug_assertions)]
    pub fault: bool,
}

/// What came of it.
pub struct Installed {
    /// What became of the state.
    pub taken: TakenOver,
    /// How long no packet was taken, in seconds.
    pub pause: f64,
    /// What ran before: it takes a while until all of it is gone, which no packet should wait for.
    pub old: Box<dyn Send>,
}

/// How a worker stands.
pub struct Snapshot {
    /// The account.
    pub outcome: Outcome,
    /// How busy it is.
    pub load: LoadReport,
    /// The chain that runs.
    pub chain: Arc<Chain>,
    /// Its program, if there is one.
    pub made: Option<Made>,
    /// What is known of the program, in words.
    pub verification: String,
    /// The operator's rules with their counters.
    pub rules: Option<Vec<rules::Row>>,
    /// Packets that crossed links between functions.
    pub links: Vec<LinkCount>,
    /// Chains that took another one's place.
    pub reloads: u32,
    /// Packets that were compared with the reference graph, and differences.
    pub compared: (u64, u64),
}

/// What was counted by executors that are not there any more.
#[derive(Debug, Clone, Default)]
pub struct Earlier {
    /// Packets by level.
    pub levels: [u64; 3],
    /// What their flow tables did.
    pub flow: FlowStats,
    /// Packets compared in shadow mode.
    pub compared: u64,
    /// Differences in shadow mode.
    pub mismatches: u64,
    /// Programs that handlers made necessary.
    pub renewed: u32,
    /// Drops of elements that are not there any more.
    pub drops: Vec<Dropped>,
}

impl Earlier {
    fn add(&mut self, s: &Shadow, renewed: u32) {
        for (sum, n) in self.levels.iter_mut().zip(s.flow().levels()) {
            *sum += n;
        }
        add_flow(&mut self.flow, &s.flow().stats());
        let r = s.report();
        self.compared += r.compared;
        self.mismatches += r.mismatches;
        self.renewed += renewed;
    }

    /// Adds what was counted before to what an executor has counted.
    pub fn add_to(&self, o: &mut Outcome) {
        for (sum, n) in o.levels.iter_mut().zip(self.levels) {
            *sum += n;
        }
        add_flow(&mut o.flow, &self.flow);
        o.renewed += self.renewed;
        for d in &self.drops {
            *o.drops.entry(d.reason.clone()).or_default() += d.packets;
            o.drops_by_element.push(d.clone());
        }
        o.drops_by_element
            .sort_by_key(|d| std::cmp::Reverse(d.packets));
    }
}

/// What is counted up; what is there at present is left alone.
fn add_flow(sum: &mut FlowStats, s: &FlowStats) {
    sum.hits += s.hits;
    sum.misses += s.misses;
    sum.made += s.made;
    sum.evicted += s.evicted;
    sum.ended += s.ended;
    sum.refused += s.refused;
    sum.shed += s.shed;
}

/// See the module's text.
pub struct Session {
    mailbox: Mailbox<Command>,
    sender: Sender<Command>,
    /// How busy the worker is.
    pub load: Load,
    /// The chain that runs.
    pub chain: Arc<Chain>,
    /// Its program, as far as it was made before it took packets.
    pub made: Option<Made>,
    /// Where its ports are.
    pub attached: Vec<Attached>,
    /// Ports with devices.
    live: Vec<String>,
    /// What was counted before the last reload.
    pub earlier: Earlier,
    /// Chains that took another one's place.
    pub reloads: u32,
    /// Programs are made.
    synthesizes: bool,
    begun: Instant,
    cpu: f64,
    /// The chain that it goes on with when all workers are ready.
    held: Option<Box<Next>>,
    /// Processor time, where the thread has others' packets, too.
    counted: Option<f64>,
    /// Who looks at packets one by one.
    pub watch: Option<capture::Watch>,
    /// Where alerts are written, if they are.
    pub eve: Option<Eve>,
}

impl Session {
    /// Of a chain that is about to run on these ports.
    ///
    /// # Errors
    /// When the system has no descriptor left.
    pub fn new(
        chain: Chain,
        made: Option<(Synthesized, Verification)>,
        attached: Vec<Attached>,
        live: Vec<String>,
    ) -> Result<Session> {
        let (sender, mailbox) = mailbox()?;
        Ok(Session {
            mailbox,
            sender,
            load: Load::default(),
            chain: Arc::new(chain),
            synthesizes: made.is_some(),
            made: made.map(Arc::new),
            attached,
            live,
            earlier: Earlier::default(),
            reloads: 0,
            begun: Instant::now(),
            cpu: 0.0,
            held: None,
            counted: None,
            watch: None,
            eve: None,
        })
    }

    /// Who tells the worker what to do.
    pub fn sender(&self) -> Sender<Command> {
        self.sender.clone()
    }
    /// What wakes it.
    pub fn wakes(&self) -> Wakes {
        self.mailbox.wakes()
    }
    /// Elements tell of alerts from now on, if these are to be written.
    pub fn begin_alerts(&self, worker: &mut Worker<Shadow>) {
        if let Some(eve) = &self.eve {
            eve.begin(worker.executor().flow_mut().peek_graph_mut());
        }
    }
    /// Writes the alerts that there have been.
    pub fn write_alerts(&self, worker: &mut Worker<Shadow>) {
        if let Some(eve) = &self.eve {
            let graph = worker.executor().flow_mut().peek_graph_mut();
            eve.write(graph, &self.chain);
        }
    }
    /// Writes alerts from time to time; where the ports are.
    pub fn look_after(&self, worker: &mut Worker<Shadow>) -> &Vec<Attached> {
        self.write_alerts(worker);
        &self.attached
    }
    /// It begins to take packets now, in this thread.
    pub fn begin(&mut self) {
        self.begun = Instant::now();
        self.cpu = runner::thread_seconds();
        self.load = Load::default();
    }
    /// So much processor time more: somebody else counts it from now on.
    pub fn count_cpu(&mut self, seconds: f64) {
        *self.counted.get_or_insert(0.0) += seconds;
    }
    /// Processor time that its packets took, in seconds; asked in the worker's thread.
    pub fn cpu_seconds(&self) -> f64 {
        let own = || runner::thread_seconds() - self.cpu;
        self.counted.unwrap_or_else(own)
    }
    /// Is there to be a program?
    pub fn synthesizes(&self) -> bool {
        self.synthesizes
    }
    /// The next thing to do, if there is one.
    #[inline]
    pub fn mail(&mut self) -> Option<Command> {
        self.mailbox.take()
    }

    /// What is to be dropped in front of the chain that is held.
    pub fn take_offloads(&mut self) -> Vec<Prepared> {
        let held = self.held.as_mut();
        held.map_or(Vec::new(), |next| std::mem::take(&mut next.offloads))
    }

    /// Does it, between two batches. True: another executor has been installed.
    ///
    /// # Errors
    /// When a capture of shadow mode cannot be written.
    #[cold]
    pub fn carry_out(
        &mut self,
        command: Command,
        worker: &mut Worker<Shadow>,
        renewal: &mut Renewal,
        log: &mut ShadowLog,
    ) -> Result<bool> {
        match command {
            // who asked may have gone
            Command::Status { rules, reply } => {
                let _ = reply.try_send(self.snapshot(worker, renewal, rules));
                Ok(false)
            }
            Command::Read { call, reply } => {
                let graph = worker.executor().flow_mut().peek_graph_mut();
                let _ = reply.try_send(graph.read_handler(&call).ok());
                Ok(false)
            }
            Command::Tap { port, sink, reply } => {
                let _ = reply.try_send(capture::tap_port(worker, &port, sink));
                Ok(false)
            }
            Command::Watch(watch) => {
                match &watch {
                    Some(w) => capture::tap_last(worker, w),
                    None => drop(worker.tap(None)),
                }
                self.watch = watch;
                Ok(false)
            }
            Command::Down { mapper, down } => {
                // what is compared with the reference graph has been decided by what was known before
                worker.executor().end_window();
                log.tell(worker.executor())?;
                let graph = Executor::graph_mut(worker.executor());
                // of a chain that is about to be replaced: the next one is told anew
                let _ = graph.write_handler(&format!("{mapper}.down"), &down);
                Ok(false)
            }
            Command::Prepare {
                next,
                wanted,
                reply,
            } => {
                let _ = reply.try_send(self.prepare(next, &wanted, worker));
                Ok(false)
            }
            Command::Abort => {
                self.held = None;
                Ok(false)
            }
            Command::Commit { reply } => {
                let Some(next) = self.held.take() else {
                    return Ok(false);
                };
                worker.executor().end_window();
                log.tell(worker.executor())?;
                let installed = self.install(*next, worker, renewal, log)?;
                let _ = reply.try_send(installed);
                Ok(true)
            }
        }
    }

    /// Holds another chain, if it fits.
    fn prepare(
        &mut self,
        next: Box<Next>,
        wanted: &Wanted,
        worker: &Worker<Shadow>,
    ) -> std::result::Result<(), NotPrepared> {
        #[cfg(debug_assertions)]
        if next.fault {
            return Err(NotPrepared::Fault);
        }
        worker.fits(&self.bindings(&next.chain))?;
        if wanted.is_given_up() {
            return Err(NotPrepared::GivenUp);
        }
        self.held = Some(next);
        Ok(())
    }

    /// Where packets enter a chain and leave it, at the ports that are open.
    fn bindings(&self, chain: &Chain) -> Vec<Binding> {
        let entry = |p: &onefold_chain::ChainPort| {
            let source = p.source.filter(|_| self.live.contains(&p.name));
            source.map(|s| ElemId(s as u32))
        };
        let bindings = chain.ports.iter().map(|p| Binding {
            name: p.name.clone(),
            entry: entry(p),
            sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
        });
        bindings.collect()
    }

    fn snapshot(
        &mut self,
        worker: &mut Worker<Shadow>,
        renewal: &Renewal,
        rules: bool,
    ) -> Snapshot {
        let ran = Ran {
            seconds: self.begun.elapsed().as_secs_f64(),
            cpu_seconds: self.cpu_seconds(),
            interrupted: false,
            renewed: renewal.renewed,
            program: (self.synthesizes).then(|| worker.executor().flow().report()),
            // in the chain's counts already
            early: Vec::new(),
        };
        let mut outcome = runner::outcome(&self.chain, worker, ran, true);
        self.earlier.add_to(&mut outcome);
        let shadow = worker.executor();
        let report = shadow.report();
        let graph = shadow.graph_mut();
        let verification = graph.read_handler("verification").unwrap_or_default();
        let listed = rules.then(|| rules::rows(&self.chain, graph));
        Snapshot {
            outcome,
            load: self.load.report(),
            chain: self.chain.clone(),
            made: renewal.latest().or_else(|| self.made.clone()),
            verification: verification.trim_end().to_string(),
            rules: listed,
            links: links::counts(&self.chain, graph),
            reloads: self.reloads,
            compared: (
                report.compared + self.earlier.compared,
                report.mismatches + self.earlier.mismatches,
            ),
        }
    }

    fn install(
        &mut self,
        next: Next,
        worker: &mut Worker<Shadow>,
        renewal: &mut Renewal,
        log: &mut ShadowLog,
    ) -> std::result::Result<Installed, ReplaceError> {
        let begun = Instant::now();
        // of the chain that they are about
        self.write_alerts(worker);
        let bindings = self.bindings(&next.chain);
        let mut earlier = self.earlier.clone();
        earlier.add(worker.executor(), renewal.renewed);
        let go_on = |new: &mut Shadow, old: &mut Shadow| {
            Executor::graph_mut(new).take_state(Executor::graph_mut(old))
        };
        let (old, taken) = worker.replace(next.executor, bindings, go_on)?;
        let place = |element: &str| {
            let at = self.chain.graph.find(element);
            at.map_or_else(SourceLoc::default, |i| {
                self.chain.graph.elements[i].decl.clone()
            })
        };
        for d in &taken.gone {
            earlier.drop_at(&d.element, d.reason, d.packets, place(&d.element));
        }
        self.earlier = earlier;
        self.reloads += 1;
        let before = std::mem::replace(renewal, next.renewal);
        log.goes_on(&next.chain, next.command);
        let chain = std::mem::replace(&mut self.chain, next.chain);
        (self.made, self.attached) = (next.made, next.attached);
        self.begin_alerts(worker);
        Ok(Installed {
            taken,
            pause: begun.elapsed().as_secs_f64(),
            old: Box::new((old, before, chain)),
        })
    }
}

impl Earlier {
    fn drop_at(&mut self, element: &str, reason: &str, packets: u64, place: SourceLoc) {
        let known = self
            .drops
            .iter_mut()
            .find(|d| d.element == element && d.reason == reason);
        match known {
            Some(d) => d.packets += packets,
            None => self.drops.push(Dropped {
                element: element.to_string(),
                place,
                reason: reason.to_string(),
                packets,
            }),
        }
    }
}

/// In one line, for people.
pub fn told(i: &TakenOver) -> Vec<String> {
    let lost = i.lost.iter().map(|b| format!("{}: {}", b.element, b.why));
    let mut all: Vec<String> = lost.collect();
    if i.dropped > 0 {
        all.push(format!(
            "{} packets inside these were dropped",
            common::thousands(i.dropped)
        ));
    }
    all
}
