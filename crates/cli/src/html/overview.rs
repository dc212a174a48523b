//! A graph by network functions: a box for each and for each port of the chain, with edges between them; what passed
//! there, if it has run.

use super::layout;
use crate::graphview::split;
use crate::links::LinkCount;
use crate::runner::Outcome;
use onefold_chain::Chain;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// What passed where.
pub struct Counted {
    /// By element that counts what it lets pass: links, and devices of ports.
    passed: HashMap<String, u64>,
    /// By element and reason.
    dropped: BTreeMap<String, Vec<(String, u64)>>,
    /// By port of the chain: in and out.
    ports: HashMap<String, (u64, u64)>,
}

impl Counted {
    /// By a run.
    pub fn of(chain: &Chain, o: &Outcome, links: &[LinkCount]) -> Counted {
        let mut passed = HashMap::new();
        for (element, packets) in links.iter().flat_map(|l| &l.elements) {
            passed.insert(element.clone(), *packets);
        }
        let mut ports = HashMap::new();
        for (name, came, went) in &o.ports {
            ports.insert(name.clone(), (came.packets, went.packets));
        }
        for p in &chain.ports {
            let source = p.source.and_then(|i| chain.graph.elements.get(i));
            if let (Some(e), Some((came, _))) = (source, ports.get(&p.name)) {
                passed.insert(e.name.clone(), *came);
            }
        }
        let mut dropped: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
        for d in &o.drops_by_element {
            let of = dropped.entry(d.element.clone()).or_default();
            of.push((d.reason.clone(), d.packets));
        }
        Counted {
            passed,
            dropped,
            ports,
        }
    }

    /// Packets that an element let pass, where it counts them.
    pub fn of_element(&self, element: &str) -> Option<u64> {
        self.passed.get(element).copied()
    }

    /// Packets that an element dropped.
    pub fn dropped_by(&self, element: &str) -> u64 {
        let all = self.dropped.get(element);
        all.map_or(0, |d| d.iter().map(|d| d.1).sum())
    }

    /// The same by reason, for a page's scripts.
    pub fn drops_of(&self, element: &str) -> Value {
        let all = self.dropped.get(element);
        let one = |(reason, n): &(String, u64)| json!({ "reason": reason, "packets": n });
        all.map_or(Value::Null, |d| d.iter().map(one).collect())
    }

    /// Drops of a function, most first.
    fn drops_in(&self, function: &str) -> Vec<(&str, u64)> {
        let mut by: BTreeMap<&str, u64> = BTreeMap::new();
        let mine = self.dropped.iter().filter(|(e, _)| split(e).0 == function);
        for (reason, n) in mine.flat_map(|(_, d)| d) {
            *by.entry(reason).or_default() += n;
        }
        let mut all: Vec<(&str, u64)> = by.into_iter().collect();
        all.sort_by_key(|d| std::cmp::Reverse(d.1));
        all
    }
}

/// An edge: between which nodes, by which ports of the functions, how many packets.
struct Edge {
    from: usize,
    to: usize,
    by: Vec<String>,
    packets: Option<u64>,
}

/// The function of a port: `fw` of `fw[1]`.
fn function(port: &str) -> &str {
    port.rsplit_once('[').map_or(port, |(f, _)| f)
}

/// Edges, those between the same nodes taken together.
fn edges(
    chain: &Chain,
    (counted, links): (Option<&Counted>, &[Option<u64>]),
    node: &HashMap<(bool, &str), usize>,
) -> Vec<Edge> {
    let mut all: Vec<Edge> = Vec::new();
    let mut add = |from: Option<&usize>, to: Option<&usize>, by: String, packets: Option<u64>| {
        let (Some(from), Some(to)) = (from, to) else {
            return;
        };
        match all.iter_mut().find(|e| (e.from, e.to) == (*from, *to)) {
            Some(e) => {
                e.by.push(by);
                e.packets = e.packets.zip(packets).map(|(a, b)| a + b);
            }
            None => all.push(Edge {
                from: *from,
                to: *to,
                by: vec![by],
                packets,
            }),
        }
    };
    let of = |i: usize| {
        let e = chain.graph.elements.get(i)?;
        Some(split(&e.name).0)
    };
    for p in &chain.ports {
        let port = node.get(&(true, p.name.as_str()));
        let count = counted.and_then(|c| c.ports.get(&p.name));
        if let Some(f) = p.source.and_then(of) {
            let by = format!("{} to {f}", p.name);
            add(port, node.get(&(false, f)), by, count.map(|c| c.0));
        }
        if let Some(f) = p.sinks.first().and_then(|s| of(*s)) {
            let by = format!("{f} to {}", p.name);
            add(node.get(&(false, f)), port, by, count.map(|c| c.1));
        }
    }
    for (l, packets) in chain.links.iter().zip(links) {
        let (from, to) = (function(&l.from), function(&l.to));
        let by = format!("{} to {}", l.from, l.to);
        add(
            node.get(&(false, from)),
            node.get(&(false, to)),
            by,
            *packets,
        );
    }
    all
}

/// Packets by link of the chain; `None` where nothing has run.
fn crossed(chain: &Chain, counted: Option<&Counted>) -> Vec<Option<u64>> {
    let one = |l: &onefold_chain::LinkInfo| {
        let counted = counted?;
        let each = l.elements.iter().map(|e| counted.of_element(e));
        each.sum::<Option<u64>>()
    };
    chain.links.iter().map(one).collect()
}

/// For a page's script, which places the boxes: `nodes[]` with `layer` and `slot` in it, and `edges[]`.
pub fn json(chain: &Chain, counted: Option<&Counted>) -> Value {
    let ports = chain.ports.iter().map(|p| (true, p.name.as_str(), ""));
    let functions = (chain.functions.iter()).map(|f| (false, f.name.as_str(), f.kind));
    let names: Vec<(bool, &str, &str)> = ports.chain(functions).collect();
    let node: HashMap<(bool, &str), usize> = (names.iter().enumerate())
        .map(|(i, (is_port, name, _))| ((*is_port, *name), i))
        .collect();
    let edges = edges(chain, (counted, &crossed(chain, counted)), &node);
    let pairs: Vec<(usize, usize)> = edges.iter().map(|e| (e.from, e.to)).collect();
    // packets enter at ports, which come first
    let members: Vec<usize> = (0..names.len()).collect();
    let layers = layout::layer(&members, names.len(), &pairs);
    let mut place = vec![(0, 0); names.len()];
    for (i, l) in layers.iter().enumerate() {
        for (k, n) in l.iter().enumerate() {
            if let Some(p) = place.get_mut(*n) {
                *p = (i, k);
            }
        }
    }
    let sum = |test: &dyn Fn(&&Edge) -> bool| {
        let counts = edges.iter().filter(test).map(|e| e.packets);
        counted.and_then(|_| counts.sum::<Option<u64>>())
    };
    let node = |(i, (is_port, name, kind)): (usize, &(bool, &str, &str))| {
        let (layer, slot) = place.get(i).copied().unwrap_or_default();
        let drops = match (counted, is_port) {
            (Some(c), false) => c.drops_in(name),
            _ => Vec::new(),
        };
        let (dropped, listed) = (drops.iter().map(|d| d.1).sum::<u64>(), drops.iter());
        json!({
            "name": name, "kind": kind, "port": is_port, "layer": layer, "slot": slot,
            "in": sum(&|e| e.to == i), "out": sum(&|e| e.from == i), "dropped": dropped,
            "drops": listed.map(|(r, n)| json!({ "reason": r, "packets": n })).collect::<Vec<_>>(),
        })
    };
    json!({
        "nodes": names.iter().enumerate().map(node).collect::<Vec<_>>(),
        "edges": edges.iter().map(|e| json!({
            "from": e.from, "to": e.to, "by": e.by, "packets": e.packets,
        })).collect::<Vec<_>>(),
        "counted": counted.is_some(),
    })
}
