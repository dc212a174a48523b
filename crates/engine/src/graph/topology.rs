//! The fixed part of a graph: who is connected to whom, what is push and what is pull.

use onefold_element::flow::flows;
use onefold_element::{ElementClass, GraphSpec, Port, Processing};

/// One end of a connection, packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Edge {
    pub node: u32,
    pub port: u32,
}

impl Edge {
    /// Nothing is connected.
    pub const NONE: Edge = Edge {
        node: u32::MAX,
        port: 0,
    };
    pub fn is_some(self) -> bool {
        self.node != u32::MAX
    }
}

/// Ports of one element.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PortCounts {
    pub ninputs: usize,
    pub noutputs: usize,
    /// Of its first input (output) among all inputs (outputs).
    pub in_base: usize,
    pub out_base: usize,
}

/// Everything about a graph that does not change while it runs.
#[derive(Debug)]
pub(crate) struct Topology {
    pub spec: GraphSpec,
    pub names: Vec<String>,
    pub classes: Vec<String>,
    pub class: Vec<&'static ElementClass>,
    pub ports: Vec<PortCounts>,
    /// Resolved processing of every input and output.
    pub in_proc: Vec<Processing>,
    pub out_proc: Vec<Processing>,
    /// Where a push output leads; for every output.
    pub out_edge: Vec<Edge>,
    /// Where a pull input comes from; for every input.
    pub in_edge: Vec<Edge>,
    /// Elements in order of configuration.
    pub order: Vec<u32>,
    /// Position of each element in `order`.
    pub rank: Vec<u32>,
}

impl Topology {
    pub fn input_is_pull(&self, node: usize, port: Port) -> bool {
        let base = self.ports[node].in_base;
        self.in_proc.get(base + port) == Some(&Processing::Pull)
    }
    pub fn output_is_pull(&self, node: usize, port: Port) -> bool {
        let base = self.ports[node].out_base;
        self.out_proc.get(base + port) == Some(&Processing::Pull)
    }

    /// All connections that leave output `port` of `node`: more than one only where pull.
    pub fn downstream(&self, node: usize, port: Port) -> impl Iterator<Item = (usize, Port)> + '_ {
        self.spec
            .connections
            .iter()
            .filter(move |c| c.from == (node, port))
            .map(|c| c.to)
    }

    /// Elements whose tasks pull, directly or through others, from `node`; `has_task` tells which have one.
    pub fn pullers(&self, node: usize, has_task: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut by_source: std::collections::HashMap<(usize, Port), Vec<(usize, Port)>> =
            Default::default();
        for c in &self.spec.connections {
            if self.input_is_pull(c.to.0, c.to.1) {
                by_source.entry(c.from).or_default().push(c.to);
            }
        }
        let outputs = (0..self.ports[node].noutputs).map(|p| (node, p));
        let mut todo: Vec<(usize, Port)> = outputs.collect();
        let mut seen = std::collections::HashSet::new();
        let mut found = std::collections::BTreeSet::new();
        // Bound: every output is taken up once.
        while let Some(from) = todo.pop() {
            if !seen.insert(from) {
                continue;
            }
            for &(to, port) in by_source.get(&from).into_iter().flatten() {
                if has_task(to) {
                    found.insert((self.rank[to], to as u32));
                }
                for out in 0..self.ports[to].noutputs {
                    if self.output_is_pull(to, out) && flows(self.class[to].flow, port, out) {
                        todo.push((to, out));
                    }
                }
            }
        }
        found.into_iter().map(|(_, e)| e).collect()
    }

    /// Elements whose tasks push, directly or through others, into `node`.
    pub fn pushers(&self, node: usize, has_task: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut by_target: std::collections::HashMap<(usize, Port), Vec<(usize, Port)>> =
            Default::default();
        for c in &self.spec.connections {
            if !self.input_is_pull(c.to.0, c.to.1) {
                by_target.entry(c.to).or_default().push(c.from);
            }
        }
        let inputs = (0..self.ports[node].ninputs).map(|p| (node, p));
        let mut todo: Vec<(usize, Port)> = inputs.collect();
        let mut seen = std::collections::HashSet::new();
        let mut found = std::collections::BTreeSet::new();
        // Bound: every input is taken up once.
        while let Some(to) = todo.pop() {
            if !seen.insert(to) {
                continue;
            }
            for &(from, port) in by_target.get(&to).into_iter().flatten() {
                if has_task(from) {
                    found.insert((self.rank[from], from as u32));
                }
                for input in 0..self.ports[from].ninputs {
                    if !self.input_is_pull(from, input) && flows(self.class[from].flow, input, port)
                    {
                        todo.push((from, input));
                    }
                }
            }
        }
        found.into_iter().map(|(_, e)| e).collect()
    }

    /// The queues at which all push paths from output `port` of `node` end; `None` if one ends elsewhere.
    pub fn queues_below(
        &self,
        node: usize,
        port: Port,
        is_queue: impl Fn(usize) -> bool,
    ) -> Option<Vec<u32>> {
        let mut todo = vec![(node, port)];
        let mut seen = std::collections::HashSet::new();
        let mut found = std::collections::BTreeSet::new();
        // Bound: every output is taken up once.
        while let Some((from, output)) = todo.pop() {
            if !seen.insert((from, output)) {
                continue;
            }
            let base = self.ports.get(from)?.out_base;
            let e = *self.out_edge.get(base + output)?;
            if !e.is_some() {
                return None;
            }
            let to = e.node as usize;
            if is_queue(to) {
                found.insert(e.node);
                continue;
            }
            let before = todo.len();
            for out in 0..self.ports[to].noutputs {
                if flows(self.class[to].flow, e.port as usize, out) {
                    todo.push((to, out));
                }
            }
            if todo.len() == before {
                return None;
            }
        }
        (!found.is_empty()).then(|| found.into_iter().collect())
    }
}
