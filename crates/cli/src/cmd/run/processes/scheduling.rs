//! Scheduling of a chain's processes while it runs: a policy ([`onefold_levers`]) in a thread of its own, on the core
//! where the launcher is, too.

use super::kids::Kid;
use anyhow::{Context, Result};
use onefold_chain::segments::Cut;
use onefold_control::{Failure, Kind, default_folder};
use onefold_levers::sys::{self, Attributes};
use onefold_levers::{Controller, Figures, Setup, Shared, Way};
use onefold_nf::Plan;
use onefold_sched::spec::Spec;
use onefold_sched::{MILLISECOND, MOST_CHAINS};
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A policy with a shorter period than this goes before whoever else is on its core.
const URGENT: u64 = MILLISECOND;
/// How: by weight, and with a slice that lets it preempt. In real time, several runs on one core would leave nothing to
/// those who move packets.
const BEFORE_OTHERS: Attributes = Attributes {
    class: sys::Class::Normal,
    nice: -10,
    priority: 0,
    slice: MILLISECOND / 10,
    alone: true,
};
/// How long who asks for another policy waits for it.
const PATIENCE: Duration = Duration::from_secs(10);

/// Another policy is asked for.
struct Change {
    spec: Spec,
    reply: SyncSender<Result<Vec<String>, String>>,
}

/// What there is to say of the policy at work.
#[derive(Debug, Clone)]
struct Said {
    spec: Spec,
    remarks: Vec<String>,
    /// Times that another one took its place.
    changes: u64,
}

/// What who moves packets and who asks have of it.
#[derive(Clone)]
pub struct Schedule {
    pub shared: Arc<Shared>,
    /// By chain: the port's name.
    pub ways: Vec<String>,
    pub housekeeping: Option<usize>,
    said: Arc<Mutex<Said>>,
    changes: SyncSender<Change>,
}

/// A policy at work; dropped, it ends, and all levers are put back.
pub struct Scheduling {
    schedule: Schedule,
    thread: Option<JoinHandle<()>>,
}

/// The ways through the processes: one for each port that packets enter at, and the functions that they can come to
/// from there, nearest first. `entries`: port, and its ring; between functions packets go by `cuts`, however they are
/// connected. Up to the first function that goes on to several its packets come to all of them.
pub fn ways(plan: &Plan, entries: &[(String, u32)], cuts: &[Cut]) -> Vec<Way> {
    let mut all = Vec::new();
    for (name, ring) in entries.iter().take(MOST_CHAINS - 1) {
        let Some(first) = plan.rings.get(*ring as usize) else {
            continue;
        };
        let mut reached = vec![first.to];
        let (mut at, mut certain, mut parts) = (0, 1, false);
        // Bound: each process once
        while let Some(here) = reached.get(at).copied() {
            at += 1;
            let before = reached.len();
            for cut in cuts.iter().filter(|c| c.from as u32 + 1 == here) {
                let to = cut.to as u32 + 1;
                if !reached.contains(&to) {
                    reached.push(to);
                }
            }
            // back to where packets have been is no other way
            parts |= reached.len() > before + 1;
            if !parts {
                certain = reached.len();
            }
        }
        let nfs = reached.iter().filter_map(|p| (*p as usize).checked_sub(1));
        all.push(Way {
            name: name.clone(),
            nfs: nfs.collect(),
            certain,
        });
    }
    all
}

impl Scheduling {
    /// A policy begins.
    ///
    /// # Errors
    /// It does not fit the chain, or the system refuses a lever; with what to do about it.
    pub fn start(setup: Setup, spec: &Spec, quiet: bool) -> Result<Scheduling> {
        for cleaned in onefold_levers::clean(&setup.folder) {
            eprintln!("schedule: {cleaned}");
        }
        let shared = Arc::new(Shared::new(setup.names.len(), setup.ways.len()));
        let ways = setup.ways.iter().map(|w| w.name.clone()).collect();
        let housekeeping = setup.housekeeping;
        let made = Controller::new(setup, shared.clone(), spec);
        let (controller, remarks) = made.with_context(|| format!("--schedule {spec}"))?;
        let said = Arc::new(Mutex::new(Said {
            spec: spec.clone(),
            remarks,
            changes: 0,
        }));
        let (changes, asked) = sync_channel(1);
        let schedule = Schedule {
            shared,
            ways,
            housekeeping,
            said,
            changes,
        };
        let own = schedule.clone();
        let thread = std::thread::Builder::new().name("schedule".into());
        let thread = thread.spawn(move || own.run(controller, &asked, quiet))?;
        Ok(Scheduling {
            schedule,
            thread: Some(thread),
        })
    }

    /// For who moves packets and who asks.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// No policy is at work any more: its last figures are there, and all levers are put back.
    pub fn end(&mut self) {
        self.schedule.shared.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!(
                "warning: the scheduling policy has failed; the kernel scheduled alone since then"
            );
        }
    }
}

impl Drop for Scheduling {
    fn drop(&mut self) {
        self.end();
    }
}

impl Schedule {
    /// The thread.
    fn run(&self, mut controller: Controller, asked: &Receiver<Change>, quiet: bool) {
        sys::exact_timers();
        if let Some(core) = self.housekeeping {
            // a wish: elsewhere it is as right
            let _ = sys::pin(0, core);
        }
        be_in_time(&controller);
        let mut told = false;
        while !self.shared.is_stopped() {
            let begun = sys::now();
            if let Ok(change) = asked.try_recv() {
                self.change(&mut controller, &change);
                told = false;
            }
            if controller.step(begun) && !quiet {
                eprintln!(
                    "schedule: a function does not let others of its core run; all of them have turns (SCHED_RR) now"
                );
            }
            if let Some(e) = controller.take_refused()
                && !std::mem::replace(&mut told, true)
            {
                eprintln!("warning: schedule: {e}");
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                said.remarks.push(e.to_string());
            }
            controller.pause(begun);
        }
        controller.end();
    }

    fn change(&self, controller: &mut Controller, change: &Change) {
        let before = controller.spec().clone();
        let done = controller.change(&change.spec);
        let done = match done {
            Ok(remarks) => {
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                (said.spec, said.remarks) = (change.spec.clone(), remarks.clone());
                said.changes += 1;
                Ok(remarks)
            }
            Err(e) => {
                // what there was may have been put back already
                let _ = controller.change(&before);
                Err(e.to_string())
            }
        };
        be_in_time(controller);
        // who asked may have gone
        let _ = change.reply.try_send(done);
    }

    /// Another policy takes the place of the one at work.
    ///
    /// # Errors
    /// It does not fit, or the system refuses; the one at work stays.
    pub fn ask(&self, text: &str) -> Result<Value, Failure> {
        let spec: Spec = text.parse().map_err(|e: onefold_sched::spec::SpecError| {
            Failure::new(Kind::BadInput, e.to_string())
        })?;
        let (reply, answer) = sync_channel(1);
        let busy = || Failure::new(Kind::Busy, "another policy is about to begin");
        self.changes
            .try_send(Change { spec, reply })
            .map_err(|_| busy())?;
        match answer.recv_timeout(PATIENCE) {
            Ok(Ok(_)) => Ok(self.json(&[])),
            Ok(Err(e)) => Err(Failure::new(Kind::BadInput, e)),
            Err(_) => Err(Failure::new(
                Kind::Ended,
                "the policy's thread does not answer",
            )),
        }
    }

    /// How many packets of a chain may wait where it enters.
    #[inline]
    pub fn admits(&self, way: usize) -> u32 {
        self.shared.admits(way)
    }

    /// Packets that were, by port.
    pub fn shed(&self) -> impl Iterator<Item = (&str, u64)> {
        let all = self.ways.iter().enumerate();
        all.map(|(i, name)| (name.as_str(), self.shared.shed_packets(i)))
    }

    /// How it stands.
    pub fn figures(&self) -> Figures {
        self.shared.figures()
    }

    /// In a line.
    pub fn told(&self) -> String {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let core = self.housekeeping;
        let core = core.map_or(String::new(), |c| format!(", housekeeping core {c}"));
        format!("{}{core}", said.spec)
    }

    /// What this kernel does not do as it is meant.
    pub fn remarks(&self) -> Vec<String> {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.remarks.clone()
    }

    /// The key `schedule` of `run --json` and `status`.
    pub fn json(&self, kids: &[Kid]) -> Value {
        let (said, f) = (
            self.said
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
            self.figures(),
        );
        let functions = kids.iter().zip(&f.nfs).map(|(k, n)| {
            json!({
                "name": k.name,
                "core": k.core,
                "cpu_share": n.usage.run as f64 / f.elapsed.max(1) as f64,
                "run_seconds": n.usage.run as f64 / 1e9,
                "wait_seconds": n.usage.wait as f64 / 1e9,
                "voluntary_switches": n.usage.voluntary,
                "involuntary_switches": n.usage.involuntary,
                "wasted": n.wasted,
                "throttled": n.throttled,
                "throttled_seconds": n.throttled_ns as f64 / 1e9,
                "shares": n.shares,
            })
        });
        let shed: serde_json::Map<_, _> = self
            .shed()
            .map(|(name, n)| (name.to_string(), n.into()))
            .collect();
        json!({
            "policy": said.spec.name(),
            "parameters": said.spec.text(),
            "housekeeping": self.housekeeping,
            "remarks": said.remarks,
            "changes": said.changes,
            "seconds": f.elapsed as f64 / 1e9,
            "looks": f.steps,
            "levers_pulled": f.pulled,
            "rescued": f.rescued,
            "wasted": f.nfs.iter().map(|n| n.wasted).sum::<u64>(),
            "shed": shed,
            "functions": functions.collect::<Vec<_>>(),
        })
    }
}

/// The thread's own class.
fn be_in_time(controller: &Controller) {
    let me = nix::unistd::gettid().as_raw() as u32;
    let wanted = match controller.period() < URGENT {
        true => BEFORE_OTHERS,
        false => Attributes::DEFAULT,
    };
    // without the right to, it comes later now and then
    let _ = sys::set_attributes(me, wanted);
}

/// Who moves packets goes before others of the housekeeping core, too, where there is a policy: each look takes the
/// core away from it, and whoever else is there would have it then. Processes that it launches do not.
pub fn move_before_others() {
    let me = nix::unistd::gettid().as_raw() as u32;
    let wanted = Attributes {
        slice: 0,
        ..BEFORE_OTHERS
    };
    // without the right to, others have their part
    let _ = sys::set_attributes(me, wanted);
}

/// Where records of what was changed in the system are kept.
pub fn folder() -> std::path::PathBuf {
    default_folder().join("levers")
}
