//! A graph as the synthesizer sees it: every element's models as configured now, and the wiring.

use crate::graph::reference::Graph;
use onefold_element::model::{Case, Model, ModelCx};
use onefold_element::{ElemId, IoRole};
use onefold_synth::{ElementInfo, Input};

impl Graph {
    /// Models and wiring, for [`onefold_synth::synthesize`]. Sources are the elements through which packets enter from
    /// outside; a source has one input that the graph does not show.
    pub fn synthesis_input(&self) -> Input {
        let topo = &self.core.topo;
        let elements = (0..self.len()).map(|i| {
            let id = ElemId(i as u32);
            let (ninputs, noutputs) = self.port_counts(id);
            let outputs = (0..noutputs).map(|port| {
                let to = self.core.out_edge(i as u32, port);
                let pushed = to.is_some() && !topo.output_is_pull(i, port);
                pushed.then_some((ElemId(to.node), to.port as u16))
            });
            ElementInfo {
                name: self.name(id).to_string(),
                class: self.class(id).to_string(),
                models: self.models_of(id),
                outputs: outputs.collect(),
                input_is_pull: (0..ninputs).map(|p| self.input_is_pull(id, p)).collect(),
            }
        });
        Input {
            elements: elements.collect(),
            sources: self.sources().collect(),
        }
    }

    /// The model of every input of an element, as configured now.
    pub fn models_of(&self, e: ElemId) -> Vec<Model> {
        let (ninputs, noutputs) = self.port_counts(e);
        let cx = ModelCx {
            elem: e,
            ninputs,
            noutputs,
            store: &self.store,
        };
        let elem = self.core.nodes.get(e.0 as usize);
        let elem = elem.and_then(|n| n.elem.as_ref());
        let inputs = ninputs.max(usize::from(self.sources().any(|s| s == e)));
        let model = |port| match elem {
            Some(e) => e.model(port, &cx),
            None => Model::None("the element is at work"),
        };
        (0..inputs).map(model).collect()
    }

    /// What becomes of packets that an element's model hands over, as far as it can be told ([`onefold_element::Element::finer`]).
    pub fn finer_model(&self, e: ElemId, port: u16) -> Option<Vec<Case>> {
        let (ninputs, noutputs) = self.port_counts(e);
        let cx = ModelCx {
            elem: e,
            ninputs,
            noutputs,
            store: &self.store,
        };
        let elem = self.core.nodes.get(e.0 as usize);
        let elem = elem.and_then(|n| n.elem.as_ref())?;
        elem.finer(port.into(), &cx)
    }

    /// Elements through which packets enter.
    pub fn sources(&self) -> impl Iterator<Item = ElemId> + '_ {
        let is = |r: &&(ElemId, IoRole)| matches!(r.1, IoRole::Source { .. });
        self.roles.iter().filter(is).map(|r| r.0)
    }

    /// How often write handlers of elements have been called: when it has changed, models may have, too.
    pub fn changes(&self) -> u64 {
        self.core.changes
    }
}
