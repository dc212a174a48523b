//! What packets may be pulled from: queues, and what never gives any (Click's notifiers).

use crate::graph::core::Core;
use crate::graph::hookup::MAX_PULL_PATH;
use crate::graph::topology::Edge;
use onefold_element::ElemId;
use std::collections::BTreeSet;

impl Core {
    /// What is connected to a pull input.
    fn pulled_from(&self, node: u32, port: usize) -> Option<Edge> {
        let base = self.nodes.get(node as usize)?.in_base as usize;
        let edge = self.topo.in_edge.get(base + port).copied()?;
        edge.is_some().then_some(edge)
    }

    /// Passes by elements that only say where to pull from ([`onefold_element::Element::pulls_through`]).
    pub(crate) fn pull_source(&self, mut up: Edge) -> Option<Edge> {
        for _ in 0..MAX_PULL_PATH {
            let node = self.nodes.get(up.node as usize)?;
            let through = node.elem.as_ref();
            let through =
                through.and_then(|e| e.pulls_through(up.port as usize, node.ninputs as usize));
            match through {
                Some(port) => up = self.pulled_from(up.node, port)?,
                None => return Some(up),
            }
        }
        None
    }

    /// Queues that packets are pulled from, through any element, by their number among all queues of the graph; and
    /// whether who pulls from each may expect a packet.
    pub(crate) fn queues_above(&self, elem: ElemId) -> Vec<(usize, bool)> {
        let element = |n: usize| self.nodes.get(n)?.elem.as_ref();
        let stores = |n: usize| element(n).is_some_and(|e| e.storage().is_some());
        let (mut todo, mut seen, mut found) = (vec![elem.0], BTreeSet::new(), BTreeSet::new());
        // Bound: every element is taken up once.
        while let Some(n) = todo.pop() {
            let inputs = self.nodes.get(n as usize).map_or(0, |n| n.ninputs);
            for port in 0..inputs as usize {
                let Some(up) = self.pulled_from(n, port).filter(|u| seen.insert(u.node)) else {
                    continue;
                };
                let n = up.node as usize;
                match stores(n) {
                    true => {
                        found.insert((n, element(n).is_some_and(|e| e.is_awake())));
                    }
                    false => todo.push(up.node),
                }
            }
        }
        let queues: Vec<usize> = (0..self.nodes.len()).filter(|n| stores(*n)).collect();
        let number = |n: usize| queues.iter().position(|q| *q == n).unwrap_or(0);
        found
            .into_iter()
            .map(|(n, some)| (number(n), some))
            .collect()
    }

    /// Is an input connected, directly or through elements with one input, to what never gives packets?
    pub(crate) fn never_gives(&self, elem: ElemId, port: usize) -> bool {
        let mut up = self.pulled_from(elem.0, port);
        for _ in 0..MAX_PULL_PATH {
            let Some(node) = up.map(|u| u.node) else {
                return false;
            };
            let spec = self.topo.spec.elements.get(node as usize);
            if spec.is_some_and(|e| e.class == "Idle") {
                return true;
            }
            let one = self.nodes.get(node as usize).is_some_and(|n| {
                n.ninputs == 1 && n.elem.as_ref().is_some_and(|e| e.storage().is_none())
            });
            up = match one {
                true => self.pulled_from(node, 0),
                false => return false,
            };
        }
        false
    }
}
