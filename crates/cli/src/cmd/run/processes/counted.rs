//! What functions in processes have counted by rule and by link: each process says it at its end, by element, and who
//! launched them puts it together for the whole chain.

use crate::alerts::{self, Alerts};
use crate::cmd::run::{Args, workers};
use crate::links::{Counts, LinkCount};
use crate::rules::{self, Row};
use crate::runner::{Dropped, Outcome};
use onefold_chain::Chain;
use onefold_element::{ElemId, RuleCount, SourceLoc};
use onefold_engine::{Graph, Totals};
use onefold_packet::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::iter;
use std::sync::OnceLock;

/// The class of elements that links consist of.
const LINK: &str = "NFLink";
/// Marks what is said while packets go on.
const SO_FAR: &str = "so_far";

/// What a process says: `rules`, by element `[argument, packets, bytes]` (argument null: no rule fits) of those that
/// had packets; `links`, by element packets.
pub fn told(graph: &mut Graph) -> Value {
    let (mut lists, mut links) = (Map::new(), Map::new());
    for e in (0..graph.len() as u32).map(ElemId) {
        let name = graph.name(e).to_string();
        if graph.class(e) == LINK {
            let said = graph.read_handler(&format!("{name}.count"));
            let packets: u64 = said.ok().and_then(|n| n.trim().parse().ok()).unwrap_or(0);
            links.insert(name, packets.into());
        } else if let Some(c) = graph.rule_counters(e) {
            let own = c.rules().iter().enumerate().map(|(i, c)| (Some(i), *c));
            let all = own.chain([(None, c.policy())]);
            let hit = all.filter(|(_, c)| c.packets > 0);
            let hit: Vec<Value> = hit.map(|(i, c)| json!([i, c.packets, c.bytes])).collect();
            lists.insert(name, hit.into());
        }
    }
    json!({ "rules": lists, "links": links })
}

/// What a process says of what it has counted while it goes on: as [`told`], marked, so that it is not taken for a
/// report.
pub fn so_far(graph: &mut Graph) -> Value {
    let mut v = told(graph);
    v[SO_FAR] = true.into();
    v
}

/// Is it that, and no report?
pub fn is_so_far(v: &Value) -> bool {
    v.get(SO_FAR).is_some()
}

/// The whole chain, whose processes have counted.
pub struct Whole {
    args: Args,
    chain: Chain,
    /// Its rules, none of which has had packets; made when they are asked for.
    rules: OnceLock<Vec<Row>>,
}

impl Whole {
    pub fn new(args: &Args, chain: &Chain) -> Whole {
        Whole {
            args: args.clone(),
            chain: chain.clone(),
            rules: OnceLock::new(),
        }
    }

    /// What processes have said, put together: rules in the order in which they are listed, links in that of the chain
    /// file. Links that no process has counted (between programs of their own) are left out.
    pub fn counts<'v>(&self, said: impl Iterator<Item = &'v Value>) -> Counts {
        let mut counts: HashMap<(String, Option<usize>), RuleCount> = HashMap::new();
        let mut crossed: HashMap<&str, u64> = HashMap::new();
        for said in said {
            let lists = said.get("rules").and_then(Value::as_object);
            for (element, hit) in lists.into_iter().flatten() {
                for c in hit.as_array().into_iter().flatten() {
                    let n = |i: usize| c.get(i).and_then(Value::as_u64);
                    let key = (element.clone(), n(0).map(|a| a as usize));
                    let sum = counts.entry(key).or_default();
                    sum.packets += n(1).unwrap_or(0);
                    sum.bytes += n(2).unwrap_or(0);
                }
            }
            let links = said.get("links").and_then(Value::as_object);
            for (element, n) in links.into_iter().flatten() {
                *crossed.entry(element).or_default() += n.as_u64().unwrap_or(0);
            }
        }
        let links = self.chain.links.iter().filter_map(|l| {
            let one = |e: &String| Some((e.clone(), *crossed.get(e.as_str())?));
            let elements: Option<Vec<_>> = l.elements.iter().map(one).collect();
            Some(LinkCount {
                from: l.from.clone(),
                to: l.to.clone(),
                elements: elements?,
            })
        });
        Counts {
            links: links.collect(),
            rules: self.rows(&counts),
            // processes know their own tables only, and are not asked
            servers: Vec::new(),
        }
    }

    /// The rules of the whole chain, with these counts.
    fn rows(&self, counts: &HashMap<(String, Option<usize>), RuleCount>) -> Vec<Row> {
        let rules = self.rules.get_or_init(|| rules_of(&self.args, &self.chain));
        let with = |r: &Row| {
            let element = format!("{}/{}", r.nf, r.element);
            let mut count = RuleCount::default();
            for argument in iter::once(r.argument).chain(r.repeated.iter().map(|a| Some(*a))) {
                if let Some(c) = counts.get(&(element.clone(), argument)) {
                    count.add(c.packets, c.bytes);
                }
            }
            Row { count, ..r.clone() }
        };
        rules.iter().map(with).collect()
    }

    /// What rules on payloads have found.
    pub fn found(&self, counts: &Counts) -> Vec<Alerts> {
        alerts::table(&self.chain, &counts.rules)
    }
}

/// The rules of a whole chain; none where it cannot be built, as it has programs of their own in it.
fn rules_of(args: &Args, chain: &Chain) -> Vec<Row> {
    if chain.native().is_some() {
        return Vec::new();
    }
    match workers::graph(args, chain, Timestamp::ZERO, true) {
        Ok(mut graph) => rules::rows(chain, &mut graph),
        Err(_) => Vec::new(),
    }
}

/// What the page of a run shows, of a report for machines.
pub fn outcome(v: &Value, totals: Totals) -> Outcome {
    let number = |v: &Value, key: &str| v.get(key).and_then(Value::as_u64).unwrap_or(0);
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_string();
    let seconds = |key: &str| v.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let by = v["drops_by_element"].as_array();
    let mut drops_by_element: Vec<Dropped> = (by.into_iter().flatten())
        .map(|d| Dropped {
            element: text(d, "element"),
            place: SourceLoc {
                file: text(d, "file").into(),
                line: number(d, "line") as u32,
                column: 0,
            },
            reason: text(d, "reason"),
            packets: number(d, "packets"),
        })
        .collect();
    drops_by_element.sort_by_key(|d| std::cmp::Reverse(d.packets));
    let count = |v: &Value| onefold_runtime::Count {
        packets: number(v, "packets"),
        bytes: number(v, "bytes"),
    };
    let ports = v["ports"].as_object().into_iter().flatten();
    let drops = v["drops"].as_object().into_iter().flatten();
    Outcome {
        totals,
        ports: ports
            .map(|(n, p)| (n.clone(), count(&p["in"]), count(&p["out"])))
            .collect(),
        stays: Vec::new(),
        interfaces: Vec::new(),
        drops: drops
            .map(|(r, n)| (r.clone(), n.as_u64().unwrap_or(0)))
            .collect(),
        drops_by_element,
        seconds: seconds("seconds"),
        cpu_seconds: 0.0,
        span: seconds("capture_seconds"),
        warnings: Vec::new(),
        interrupted: v["interrupted"] == Value::Bool(true),
        overruns: 0,
        program: None,
        levels: [0; 3],
        flow: Default::default(),
        renewed: 0,
        history: None,
    }
}
