//! `run --offload xdp`: programs in front of `xdp:` ports, and what they have dropped added to the chain's counts.

use super::{account, of_entry, told};
use crate::ports::Live;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::shadow::Shadow;
use onefold_engine::{Executor, Graph};
use onefold_port_xdp::Offload;
use onefold_runtime::Worker;
use onefold_synth::Program;
use onefold_xdp_program::{Class, Count, Dispatch, Options};
use std::collections::{BTreeMap, BTreeSet};
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

/// The programs of a run.
#[derive(Default)]
pub struct Offloads {
    all: Vec<OfPort>,
    collected: Option<Instant>,
    /// Of chains that run no more.
    earlier: Vec<DroppedEarly>,
}

impl Offloads {
    /// A program for each `xdp:` port, ready for its start. `unproved`: classes (stage, action) that stay with the
    /// chain.
    ///
    /// # Errors
    /// There is no such port, or the kernel refuses a program.
    pub fn install(
        chain: &Chain,
        live: &[Live],
        graph: &Graph,
        program: &Program,
        unproved: &BTreeSet<(usize, usize)>,
        quiet: bool,
    ) -> Result<Offloads> {
        let mut all = Vec::new();
        for l in live {
            let Some((offload, queue)) = &l.offload else {
                continue;
            };
            let port = chain.ports.iter().find(|p| p.name == l.port);
            let Some(source) = port.and_then(|p| p.source) else {
                continue;
            };
            let options = Options {
                dispatch: Dispatch::Queue(*queue),
                ..Options::default()
            };
            let trusts = |stage, action| !unproved.contains(&(stage, action));
            let made = of_entry(graph, program, ElemId(source as u32), &trusts, &options);
            let about = || format!("--offload xdp: port '{}'", l.port);
            let Some(g) = made.with_context(about)? else {
                continue;
            };
            let counters = (g.classes.len() as u32, Count::WORDS);
            let installed = offload.install(&g.code, counters, g.places);
            installed.with_context(about)?;
            if !quiet {
                eprintln!("port {}: XDP program: {}", l.port, told(&g.summary));
            }
            all.push(OfPort {
                port: l.port.clone(),
                offload: offload.clone(),
                before: vec![Count::default(); g.classes.len()],
                classes: g.classes,
            });
        }
        if all.is_empty() {
            bail!(
                "--offload xdp is for xdp: ports at which packets enter (--port PORT=xdp:IF), and there is none"
            );
        }
        Ok(Offloads {
            all,
            collected: None,
            earlier: Vec::new(),
        })
    }

    /// Rules have changed: all packets go to the chain from now on.
    pub fn withdraw(&mut self, why: &str) {
        for p in self.all.iter().filter(|p| p.offload.is_active()) {
            match p.offload.withdraw() {
                Ok(()) => eprintln!("port {}: nothing is dropped early any more: {why}", p.port),
                Err(e) => eprintln!("warning: port {}: the XDP program stays: {e}", p.port),
            }
        }
    }

    /// Another chain goes on: nothing more is dropped in this one's name, and its account is closed.
    pub fn close(&mut self, worker: &mut Worker<Shadow>) {
        self.withdraw("another chain goes on");
        self.collect(worker);
        self.earlier = self.report(worker.executor().graph());
        self.all.clear();
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
