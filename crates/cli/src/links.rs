//! Packets that crossed the links between network functions, and what the operator's rules decided. Elements count both,
//! whichever level took the packets.

use crate::alerts::{self, Alerts};
use crate::merge;
use crate::rules::{self, Row};
use crate::servers::{self, ServerFlows};
use onefold_chain::Chain;
use onefold_engine::Graph;
use serde_json::{Map, Value, json};

/// See the module's text.
#[derive(Default)]
pub struct Counts {
    /// The operator's rules.
    pub rules: Vec<Row>,
    /// The links, in the order of the chain file.
    pub links: Vec<LinkCount>,
    /// Servers of load balancers, with the flows that they have.
    pub servers: Vec<ServerFlows>,
}

impl Counts {
    /// Of a graph that has been told of all packets.
    pub fn of(chain: &Chain, graph: &mut Graph) -> Counts {
        Counts {
            rules: rules::rows(chain, graph),
            links: counts(chain, graph),
            servers: servers::of_graph(chain, graph),
        }
    }

    /// Adds another worker's: all have the same rules and links, in the same order.
    pub fn add(&mut self, more: Counts) {
        merge::rows(&mut self.rules, more.rules);
        add(&mut self.links, more.links);
        servers::add(&mut self.servers, more.servers);
    }

    /// For machines, with what rules on payloads have found.
    pub fn json(&self, found: &[Alerts], into: &mut Map<String, Value>) {
        into.insert("links".into(), json(&self.links));
        into.insert("rules".into(), rules::json(&self.rules).into());
        into.insert("alerts".into(), alerts::json(found));
        if !self.servers.is_empty() {
            into.insert("servers".into(), servers::json(&self.servers).into());
        }
    }
}

/// A link, one way, and what crossed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkCount {
    /// `fw[1]`
    pub from: String,
    /// `router[0]`
    pub to: String,
    /// The elements that it consists of, and the packets of each.
    pub elements: Vec<(String, u64)>,
}

impl LinkCount {
    /// Packets.
    pub fn packets(&self) -> u64 {
        self.elements.iter().map(|e| e.1).sum()
    }
}

/// Packets that crossed each link of a graph that has been told of all packets.
pub fn counts(chain: &Chain, graph: &mut Graph) -> Vec<LinkCount> {
    let mut crossed = |element: &String| {
        let said = graph.read_handler(&format!("{element}.count"));
        let packets = said.ok().and_then(|n| n.trim().parse().ok());
        (element.clone(), packets.unwrap_or(0))
    };
    let one = |l: &onefold_chain::LinkInfo| LinkCount {
        from: l.from.clone(),
        to: l.to.clone(),
        elements: l.elements.iter().map(&mut crossed).collect(),
    };
    chain.links.iter().map(one).collect()
}

/// Adds another worker's: all have the same links, in the same order.
pub fn add(all: &mut Vec<LinkCount>, more: Vec<LinkCount>) {
    if all.is_empty() {
        *all = more;
        return;
    }
    for (a, b) in all.iter_mut().zip(more) {
        for (x, y) in a.elements.iter_mut().zip(b.elements) {
            x.1 += y.1;
        }
    }
}

/// For machines.
pub fn json(all: &[LinkCount]) -> Value {
    let one = |l: &LinkCount| json!({ "from": l.from, "to": l.to, "packets": l.packets() });
    all.iter().map(one).collect()
}
