//! Programs that are made anew while packets flow, because a handler has changed what a model says.

use super::{Verdict, Verification, Verifier};
use crate::program::{self, Synthesized};
use crate::shadow::Policy;
use crate::xdp::{Entries, Offloader, Prepared};
use anyhow::Result;
use onefold_engine::Graph;
use onefold_engine::program::{LoadError, Using};
use onefold_engine::shadow::Shadow;
use onefold_runtime::{Planned, Planner, stand_back};
use std::sync::Arc;

/// Most programs made anew in one run; then the reference graph goes on.
const MAX_RENEWED: u32 = 64;

/// What happens when a handler has changed a model: a new program, if it is the chain as it is now. It is made,
/// verified and prepared in a thread of its own; the reference graph takes packets until it is there.
pub struct Renewal {
    /// With the thread while a program is made.
    verifier: Option<Verifier>,
    policy: Policy,
    planner: Planner<Made>,
    /// Packets wait for a new program: those of captures, which have the time. Others do not.
    waits: bool,
    /// No new program is made.
    never: bool,
    /// Programs that were made anew.
    pub renewed: u32,
    /// Makes programs for what is in front of the chain, too.
    offloading: Option<(Offloader, Entries)>,
    /// Those of the last program that took packets, until somebody takes them.
    offloads: Option<Vec<Prepared>>,
    /// The last of them that took packets.
    latest: Option<Arc<(Synthesized, Verification)>>,
}

/// What the thread has made.
struct Made {
    verifier: Verifier,
    made: Result<(Synthesized, Verification, program::Plan)>,
    offloads: Option<Vec<Prepared>>,
}

/// On a copy of the graph.
fn make(
    graph: &Graph,
    using: Using,
    mut verifier: Verifier,
    offloading: Option<(Offloader, Entries)>,
) -> Made {
    let mut one = || {
        let s = program::synthesize_graph(graph);
        let v = verifier.verify_renewed(graph, &s.program)?;
        let plan = program::Plan::new(graph, &s.program, using)?.prepared();
        Ok((s, v, plan))
    };
    let made = one();
    let fits = (made.as_ref().ok()).filter(|(_, v, _)| v.verdict != Verdict::Refuted);
    let offloads = offloading.zip(fits);
    let offloads =
        offloads.map(|((o, entries), (s, v, _))| o.prepare_next(&entries, graph, &s.program, v));
    Made {
        verifier,
        made,
        offloads,
    }
}

impl Renewal {
    /// New programs are verified as the first one was; `given`: the program was given, and nobody knows what it
    /// should be now. `waits`: packets wait for them.
    pub fn new(verifier: Verifier, policy: Policy, given: bool, waits: bool) -> Renewal {
        Renewal {
            verifier: Some(verifier),
            policy,
            planner: Planner::default(),
            waits,
            never: given,
            renewed: 0,
            offloading: None,
            offloads: None,
            latest: None,
        }
    }

    /// What is in front of the chain is made anew with it.
    pub fn offloading(mut self, offloader: Offloader, entries: Entries) -> Renewal {
        self.offloading = (!offloader.is_empty()).then_some((offloader, entries));
        self
    }

    /// Programs for what is in front of the chain, if a program has been installed since the last question.
    pub fn take_offloads(&mut self) -> Option<Vec<Prepared>> {
        self.offloads.take()
    }

    /// The last program that was made anew and took packets.
    pub fn latest(&self) -> Option<Arc<(Synthesized, Verification)>> {
        self.latest.clone()
    }

    /// Verdicts about the new programs.
    pub fn verdicts(&self) -> &[Verdict] {
        self.verifier.as_ref().map_or(&[], |v| &v.renewals)
    }

    /// No more programs are needed. One that is being made is waited for where packets waited, so that what is known of
    /// it is told; who ends a live run does not wait for a proof.
    pub fn end(&mut self) {
        let planned = match self.waits {
            true => self.planner.wait(),
            false => self.planner.take(),
        };
        if let Planned::Made(m) = planned {
            self.verifier = Some(m.verifier);
        }
    }

    /// Has a new program made, verified and loaded: called between two batches as long as one is needed. False when the
    /// reference graph must go on for good: there have been too many, the program does not fit, or it is refuted.
    #[cold]
    pub fn renew(&mut self, shadow: &mut Shadow) -> bool {
        if self.never {
            return false;
        }
        let goes_on = self.step(shadow);
        self.never = !goes_on;
        goes_on
    }

    fn step(&mut self, shadow: &mut Shadow) -> bool {
        if !self.planner.is_busy() {
            if self.renewed >= MAX_RENEWED {
                return false;
            }
            let Some(verifier) = self.verifier.take() else {
                return false;
            };
            self.renewed += 1;
            shadow.stop();
            let (graph, using) = (shadow.graph().fork(), shadow.runner().using());
            let offloading = self.offloading.clone();
            let waits = self.waits;
            let thread = move || {
                if !waits {
                    // packets come meanwhile
                    stand_back();
                }
                make(&graph, using, verifier, offloading)
            };
            if !(self.planner).start(thread) {
                eprintln!(
                    "warning: there is no thread to make a new program in; the reference graph goes on"
                );
                return false;
            }
        }
        let planned = match self.waits {
            true => self.planner.wait(),
            false => self.planner.take(),
        };
        match planned {
            Planned::Busy | Planned::Idle => true,
            Planned::Lost => false,
            Planned::Made(m) => {
                self.verifier = Some(m.verifier);
                self.take_over(shadow, m.made, m.offloads)
            }
        }
    }

    /// A program has been made.
    fn take_over(
        &mut self,
        shadow: &mut Shadow,
        made: Result<(Synthesized, Verification, program::Plan)>,
        offloads: Option<Vec<Prepared>>,
    ) -> bool {
        let (s, v, plan) = match made {
            Ok(made) => made,
            Err(e) => {
                eprintln!("warning: the program that a handler made necessary: {e:#}");
                return false;
            }
        };
        v.log();
        if v.verdict == Verdict::Refuted {
            eprintln!(
                "warning: the program that a handler made necessary is {}; the reference graph goes on",
                v.line()
            );
            return false;
        }
        match shadow.install(plan) {
            Ok(()) => {}
            // a handler has been written to meanwhile: another one is made
            Err(LoadError::Outdated) => return true,
            Err(_) => return false,
        }
        let graph = shadow.runner_mut().graph_mut();
        graph.tell("verification", v.told());
        self.policy.watch(shadow, &s.program, &v);
        self.offloads = offloads;
        self.latest = Some(Arc::new((s, v)));
        true
    }
}
