//! What the levels of a comparison have in common: made when the first of them asks for it, and once.

use crate::runner;
use onefold_engine::Graph;
use onefold_packet::Timestamp;
use onefold_synth::{Budget, Program};
use onefold_verify::generate::Port;
use onefold_verify::generate::directed::Directed;
use onefold_verify::generate::tables::Tables;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::reach::proved::Proved;
use onefold_verify::reach::{Facts, Reach};
use std::cell::OnceCell;
use std::sync::Arc;

/// A chain's program, and what can be reached in it.
pub(super) struct Prepared<'a> {
    graph: &'a Graph,
    budget: Budget,
    program: OnceCell<Arc<Program>>,
    proved: OnceCell<Proved>,
}

impl<'a> Prepared<'a> {
    /// Of a chain; with a program that is given, or that is synthesized within the budget.
    pub(super) fn new(graph: &'a Graph, budget: Budget, given: Option<Program>) -> Self {
        let program = OnceCell::new();
        if let Some(p) = given {
            program.get_or_init(|| Arc::new(p));
        }
        Prepared {
            graph,
            budget,
            program,
            proved: OnceCell::new(),
        }
    }

    /// The program.
    pub(super) fn program(&self) -> &Arc<Program> {
        let made = || onefold_synth::synthesize(&self.graph.synthesis_input(), self.budget);
        self.program.get_or_init(|| Arc::new(made()))
    }

    /// What makes so many packets for the program's rules, out of this traffic. Each begins with the same proofs.
    pub(super) fn directed(
        &self,
        traffic: Traffic,
        ports: &[Port],
        (seed, packets): (u64, u64),
        start: Timestamp,
    ) -> Directed {
        let p = self.program();
        let proved = self.proved.get_or_init(|| {
            let facts = Facts::of(self.graph.spec(), p);
            Proved::of(Reach::of_until(p.clone(), &facts, runner::stop()))
        });
        Directed::new(p.clone(), traffic, ports, seed, packets, start)
            .with_proved(proved.clone())
            .with_tables(Tables::of(self.graph, p))
    }
}
