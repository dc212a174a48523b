//! Plans: a program ready to be executed, made where no packet waits for it.
//!
//! Making one (synthesis, proof, translation, structures to look rules up in) takes milliseconds to seconds. It is done
//! on a copy of the graph ([`Graph::fork`]), in a thread of its own where packets arrive by themselves; whoever executes
//! packets takes the plan at the end of a batch ([`Executor::install`](crate::Executor::install)), which costs little. A
//! plan is for the graph as it was: if a handler has been written to since, it is refused ([`LoadError::Outdated`]), and
//! another one has to be made.

use crate::graph::reference::Graph;
use crate::graph::rule_counts::Decisions;
use crate::program::code::Code;
use crate::program::error::LoadError;
use crate::program::load;
use crate::program::load::decisions;
use crate::program::lookup::Made;
use crate::program::lookup::using::Using;
use crate::program::report;
use onefold_element::ElemId;
use onefold_element::model::Model;
use onefold_synth::program::Program;
use std::sync::Arc;

/// Stages in the middle of a program with more rules have structures of their own.
const MANY_RULES: usize = 64;

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) code: Arc<Code>,
    pub(crate) decisions: Arc<Decisions>,
    /// By rule: what it is recognized by.
    pub(crate) keys: Arc<Vec<u64>>,
    /// The models that the program was made of.
    pub(crate) models: Arc<Vec<Vec<Model>>>,
    /// [`Graph::changes`] that they are of.
    pub(crate) changes: u64,
}

impl Plan {
    /// For a graph (or a copy of it), as it is now, and a program made of its models.
    ///
    /// # Errors
    /// When the program is not one for this graph, or not well-formed.
    pub fn new(graph: &Graph, program: &Program, using: Using) -> Result<Plan, LoadError> {
        let mut code = load::load(program, &graph.core.topo, using)?;
        let decisions = decisions::of(&mut code, program, &graph.core)?;
        Ok(Plan {
            code: Arc::new(code),
            decisions: Arc::new(decisions),
            keys: Arc::new(report::keys(program)),
            models: Arc::new(all_models(graph)),
            changes: graph.core.changes,
        })
    }

    /// Makes the structures that packets at sources are looked up in, and those of other stages with many rules.
    /// Otherwise the first batch of packets at a source waits for its own.
    #[must_use]
    pub fn prepared(self) -> Plan {
        prepare(&self.code);
        self
    }

    /// As [`Plan::prepared`], with the structures of another plan where its stage has the same rules: workers have
    /// programs of their own that differ in which ports they may expect, not in how packets are told apart.
    #[must_use]
    pub fn prepared_like(self, others: &mut PreparedStages) -> Plan {
        let stages = &self.code.stages;
        others.stages.resize_with(stages.len(), || None);
        for ((i, s), made) in stages.iter().enumerate().zip(&mut others.stages) {
            if needs_structures(&self.code, i) {
                s.lookup.share(made);
            }
        }
        self
    }
}

/// What stages are looked up in, of plans that are made alike.
#[derive(Debug, Clone, Default)]
pub struct PreparedStages {
    stages: Vec<Option<Made>>,
}

/// See [`Plan::prepared`].
pub(crate) fn prepare(code: &Code) {
    for (i, s) in code.stages.iter().enumerate() {
        if needs_structures(code, i) {
            s.lookup.views();
        }
    }
}

fn needs_structures(code: &Code, stage: usize) -> bool {
    code.entries.contains(&(stage as u32)) || code.rules_of(stage) > MANY_RULES
}

/// The models of all elements, as they are now.
pub(crate) fn all_models(g: &Graph) -> Vec<Vec<Model>> {
    (0..g.len() as u32)
        .map(|i| g.models_of(ElemId(i)))
        .collect()
}
