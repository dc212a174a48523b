//! A graph as the synthesizer sees it: every element's models as configured now, and the wiring.

use crate::graph::Graph;
use onefold_elements::model::{Model, ModelCx};
use onefold_elements::{ElemId, IoRole};
use onefold_synth::{ElementInfo, Input};

impl Graph {
    /// Models and wiring, for [`onefold_synth::synthesize`]. Sources are the elements through which packets enter from
    /// outside; a source has one input that the graph does not show.
    pub fn synthesis_input(&self) -> Input {
        let is_source = |e: ElemId| {
            self.roles
                .iter()
                .any(|(s, r)| *s == e && matches!(r, IoRole::Source { .. }))
        };
        let topo = &self.core.topo;
        let elements = (0..self.len()).map(|i| {
            let id = ElemId(i as u32);
            let (ninputs, noutputs) = self.port_counts(id);
            let cx = ModelCx {
                elem: id,
                ninputs,
                noutputs,
                store: &self.store,
            };
            let elem = self.core.nodes.get(i).and_then(|n| n.elem.as_ref());
            let inputs = ninputs.max(usize::from(is_source(id)));
            let models = (0..inputs).map(|port| match elem {
                Some(e) => e.model(port, &cx),
                None => Model::None("the element is at work"),
            });
            let outputs = (0..noutputs).map(|port| {
                let to = self.core.out_edge(i as u32, port);
                let pushed = to.is_some() && !topo.output_is_pull(i, port);
                pushed.then_some((ElemId(to.node), to.port as u16))
            });
            ElementInfo {
                name: self.name(id).to_string(),
                class: self.class(id).to_string(),
                models: models.collect(),
                outputs: outputs.collect(),
                input_is_pull: (0..ninputs).map(|p| self.input_is_pull(id, p)).collect(),
            }
        });
        let sources = self.roles.iter().filter_map(|(e, r)| match r {
            IoRole::Source { .. } => Some(*e),
            IoRole::Sink { .. } => None,
        });
        Input {
            elements: elements.collect(),
            sources: sources.collect(),
        }
    }
}
