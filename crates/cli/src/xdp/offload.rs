//! `run --offload xdp`: programs in front of `xdp:` ports, and what they have dropped added to the chain's counts.

use super::{account, of_entry, told};
use crate::control::OpenPort;
use crate::deploy::Verification;
use crate::log::{self, Level};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::shadow::Shadow;
use onefold_engine::{Executor, Graph};
use onefold_port_xdp::{Loaded, Offload};
use onefold_runtime::Worker;
use onefold_synth::Program;
use onefold_xdp_program::{Class, Count, Dispatch, Options};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What of a chain is done in front of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Offloading {
    /// Classes that the chain drops are dropped by an XDP program at `xdp:` ports.
    Xdp,
}

/// Counters are read so often.
const COLLECT_EVERY: Duration = Duration::from_secs(1);

/// The program of a port.
struct OfPort {
    port: String,
    offload: Offload,
    classes: Vec<Class>,
    /// What has been accounted for.
    before: Vec<Count>,
}

/// What was dropped early before another chain was tried.
pub struct Paused(Vec<DroppedEarly>);

/// Packets that were dropped in front of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedEarly {
    /// The chain's port.
    pub port: String,
    /// The element that would have dropped them.
    pub element: String,
    /// Why.
    pub reason: String,
    /// How many.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// A port that programs can be put in front of.
#[derive(Debug, Clone)]
struct Place {
    port: String,
    offload: Offload,
    queue: u32,
}

/// What makes programs for the ports of a run: those of the chain that it starts with, and of all that follow. Making
/// one takes up to seconds, so it is not the worker who does it.
#[derive(Debug, Clone, Default)]
pub struct Offloader(Arc<[Place]>);

/// A program that is ready to be put in front of its port.
pub struct Prepared {
    of: OfPort,
    loaded: Loaded,
    /// What became of the rules, in words.
    told: String,
}

impl Offloader {
    /// For the `xdp:` ports among these.
    pub fn of(open: &[OpenPort]) -> Offloader {
        let place = |p: &OpenPort| {
            let (offload, queue) = p.offload.clone()?;
            Some(Place {
                port: p.live.port.clone(),
                offload,
                queue,
            })
        };
        Offloader(open.iter().filter_map(place).collect())
    }

    /// Is there nothing to do?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Programs of this chain for all ports, taken by the kernel. Classes that are not proved stay with the chain.
    ///
    /// # Errors
    /// One is too long, or the kernel refuses it.
    pub fn prepare(
        &self,
        entries: &Entries,
        graph: &Graph,
        program: &Program,
        verification: &Verification,
    ) -> Result<Vec<Prepared>> {
        let trusts = |stage, action| !verification.unknown.contains(&(stage, action));
        let mut all = Vec::new();
        for place in self.0.iter() {
            let Some(source) = entries.0.get(&place.port) else {
                continue;
            };
            let options = Options {
                dispatch: Dispatch::Queue(place.queue),
                ..Options::default()
            };
            let about = || format!("--offload xdp: port '{}'", place.port);
            let made = of_entry(graph, program, *source, &trusts, &options);
            let Some(g) = made.with_context(about)? else {
                continue;
            };
            let counters = (g.classes.len() as u32, Count::WORDS);
            let loaded = Loaded::new(&g.code, counters, g.places).with_context(about)?;
            all.push(Prepared {
                loaded,
                told: told(&g.summary),
                of: OfPort {
                    port: place.port.clone(),
                    offload: place.offload.clone(),
                    before: vec![Count::default(); g.classes.len()],
                    classes: g.classes,
                },
            });
        }
        Ok(all)
    }

    /// The same of a program that takes the place of another one while packets flow: without it, nothing is dropped
    /// early, which is said.
    pub fn prepare_next(
        &self,
        entries: &Entries,
        graph: &Graph,
        program: &Program,
        verification: &Verification,
    ) -> Vec<Prepared> {
        let made = self.prepare(entries, graph, program, verification);
        made.unwrap_or_else(|e| {
            eprintln!("warning: nothing is dropped early any more: {e:#}");
            Vec::new()
        })
    }
}

/// Where a chain's packets enter, by port.
#[derive(Debug, Clone, Default)]
pub struct Entries(BTreeMap<String, ElemId>);

impl Entries {
    /// Of this chain.
    pub fn of(chain: &Chain) -> Entries {
        let ports = chain.ports.iter();
        let all = ports.filter_map(|p| Some((p.name.clone(), ElemId(p.source? as u32))));
        Entries(all.collect())
    }
}

/// Tells the log that nothing is dropped early at a port from now on.
fn out(port: &str, why: &str) {
    let fields = [("port", port.into()), ("why", why.into())];
    log::event(Level::Info, "offload-out", &fields);
}

/// The programs of a run.
#[derive(Default)]
pub struct Offloads {
    all: Vec<OfPort>,
    collected: Option<Instant>,
    /// Of programs that are there no more.
    earlier: Vec<DroppedEarly>,
    quiet: bool,
}

impl Offloads {
    /// Programs for a run that is about to start.
    ///
    /// # Errors
    /// There is no port for one, or the system refuses.
    pub fn start(prepared: Vec<Prepared>, quiet: bool) -> Result<Offloads> {
        if prepared.is_empty() {
            bail!(
                "--offload xdp is for xdp: ports at which packets enter (--port PORT=xdp:IF), and there is none"
            );
        }
        let mut all = Offloads {
            quiet,
            ..Offloads::default()
        };
        for p in prepared {
            let port = p.of.port.clone();
            all.put(p)
                .with_context(|| format!("--offload xdp: port '{port}'"))?;
        }
        Ok(all)
    }

    fn put(&mut self, p: Prepared) -> std::io::Result<()> {
        p.of.offload.install(p.loaded)?;
        if !self.quiet {
            eprintln!("port {}: XDP program: {}", p.of.port, p.told);
        }
        let fields = [("port", p.of.port.as_str().into()), ("what", p.told.into())];
        log::event(Level::Info, "offload-in", &fields);
        self.all.push(p.of);
        Ok(())
    }

    /// Rules have changed: all packets go to the chain from now on.
    pub fn withdraw(&mut self, why: &str) {
        for p in self.all.iter().filter(|p| p.offload.is_active()) {
            out(&p.port, why);
            match p.offload.withdraw() {
                Ok(()) => eprintln!("port {}: nothing is dropped early for now: {why}", p.port),
                Err(e) => eprintln!("warning: port {}: the XDP program stays: {e}", p.port),
            }
        }
    }

    /// The chain goes on with a program that was made anew; what was dropped by the one before is accounted for.
    pub fn renew(&mut self, worker: &mut Worker<Shadow>, prepared: Vec<Prepared>) {
        self.collect(worker);
        self.earlier = self.report(worker.executor().graph());
        self.exchange(prepared);
    }

    fn exchange(&mut self, prepared: Vec<Prepared>) {
        self.all.clear();
        for p in prepared {
            let port = p.of.port.clone();
            if let Err(e) = self.put(p) {
                eprintln!("warning: port {port}: nothing is dropped early any more: {e}");
            }
        }
    }

    /// Another chain may take this one's place: nothing more is dropped in this one's name, and what was is accounted
    /// for.
    pub fn pause(&mut self, worker: &mut Worker<Shadow>) -> Paused {
        for p in &self.all {
            out(&p.port, "another chain is about to go on");
            // where the interface is gone, so is the program
            let _ = p.offload.withdraw();
        }
        self.collect(worker);
        Paused(self.report(worker.executor().graph()))
    }

    /// It has, or not: then the programs of this one are back.
    pub fn go_on(&mut self, paused: Paused, next: Option<Vec<Prepared>>) {
        match next {
            Some(prepared) => {
                self.earlier = paused.0;
                for p in self.all.iter().filter(|_| prepared.is_empty()) {
                    eprintln!(
                        "port {}: nothing is dropped early for now: another chain goes on",
                        p.port
                    );
                }
                self.exchange(prepared);
            }
            None => {
                for p in &self.all {
                    if let Err(e) = p.offload.restore() {
                        eprintln!(
                            "warning: port {}: nothing is dropped early any more: {e}",
                            p.port
                        );
                    }
                }
            }
        }
    }

    /// The end: nothing more is dropped, and all is accounted for.
    pub fn finish(&mut self, worker: &mut Worker<Shadow>) {
        for p in &self.all {
            // where the interface is gone, so is the program
            let _ = p.offload.withdraw();
        }
        self.collect(worker);
    }

    /// What has been dropped and accounted for, by port, element and reason.
    pub fn report(&self, graph: &Graph) -> Vec<DroppedEarly> {
        let mut sums: BTreeMap<(&str, &str, &str), (u64, u64)> = BTreeMap::new();
        for p in &self.all {
            for (class, count) in p.classes.iter().zip(&p.before) {
                let key = (
                    p.port.as_str(),
                    graph.name(class.elem),
                    class.reason.as_str(),
                );
                let sum = sums.entry(key).or_default();
                *sum = (sum.0 + count.packets, sum.1 + count.bytes);
            }
        }
        let some = sums.into_iter().filter(|(_, (packets, _))| *packets > 0);
        let some = some.map(|((port, element, reason), (packets, bytes))| DroppedEarly {
            port: port.to_string(),
            element: element.to_string(),
            reason: reason.to_string(),
            packets,
            bytes,
        });
        self.earlier.iter().cloned().chain(some).collect()
    }

    /// Accounts for what has been dropped, now and then.
    pub fn attend(&mut self, worker: &mut Worker<Shadow>) {
        let waits = |t: &Instant| t.elapsed() < COLLECT_EVERY;
        if !self.all.is_empty() && !self.collected.as_ref().is_some_and(waits) {
            self.collect(worker);
            self.collected = Some(Instant::now());
        }
    }

    fn collect(&mut self, worker: &mut Worker<Shadow>) {
        for p in &mut self.all {
            let Ok(now) = p.offload.counted() else {
                continue;
            };
            let (words, _) = now.as_chunks::<{ Count::WORDS }>();
            let mut ended = false;
            let (mut packets, mut bytes) = (0, 0);
            for ((class, before), words) in p.classes.iter().zip(&mut p.before).zip(words) {
                let now = Count::of(*words);
                let new = now.since(*before);
                if new.packets == 0 {
                    continue;
                }
                if !ended {
                    // what is compared did not come there
                    worker.executor().end_window();
                    ended = true;
                }
                if account(worker.executor().graph_mut(), class, new) {
                    *before = now;
                    (packets, bytes) = (packets + new.packets, bytes + new.bytes);
                }
            }
            worker.count_received(&p.port, packets, bytes);
        }
    }
}
