//! How many flows each server of a load balancer has: when one that is drained can be switched off.
//!
//! They are counted when somebody asks, by those who have the tables, a part of a table at a time: a worker counts a
//! part between two batches (the handler `flows_to` of elements). Flows that begin or end meanwhile may be missed.

use crate::common::thousands;
use onefold_chain::{Balanced, Chain, HealthServer};
use onefold_engine::Graph;
use serde_json::{Value, json};

/// Most parts of a table that are asked for: as many as the largest table has.
const MOST_PARTS: usize = 1 << 16;

/// A server and its flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFlows {
    /// The load balancer.
    pub function: String,
    /// The server; `None`: all that are no servers of it any more.
    pub server: Option<HealthServer>,
    /// Its weight; 0: it is drained.
    pub weight: u32,
    /// Flows that have not ended.
    pub flows: u64,
}

/// All servers of a chain, by function in their order; `read` calls a read handler of it.
pub fn count(chain: &Chain, mut read: impl FnMut(&str) -> Option<String>) -> Vec<ServerFlows> {
    let mut all = Vec::new();
    for f in &chain.functions {
        let Some(balanced) = &f.balanced else {
            continue;
        };
        let flows = flows(balanced, &mut read);
        let gone = balanced.servers.len();
        let each = balanced.servers.iter().map(|s| (Some(s.0), s.1));
        for (i, (server, weight)) in each.chain([(None, 0)]).enumerate() {
            let flows = flows.get(i).copied().unwrap_or(0);
            if i < gone || flows > 0 {
                all.push(ServerFlows {
                    function: f.name.clone(),
                    server,
                    weight,
                    flows,
                });
            }
        }
    }
    all
}

/// The same of a graph.
pub fn of_graph(chain: &Chain, graph: &mut Graph) -> Vec<ServerFlows> {
    count(chain, |call| graph.read_handler(call).ok())
}

/// By server, and of others.
fn flows(balanced: &Balanced, read: &mut impl FnMut(&str) -> Option<String>) -> Vec<u64> {
    let mut sum = vec![0; balanced.servers.len() + 1];
    let mut from = 0;
    for _ in 0..MOST_PARTS {
        let said = read(&balanced.counter(from)).unwrap_or_default();
        let mut numbers = said
            .split_whitespace()
            .map(|n| n.parse::<u64>().unwrap_or(0));
        let next = numbers.next().unwrap_or(0);
        for (all, n) in sum.iter_mut().zip(numbers) {
            *all += n;
        }
        match usize::try_from(next) {
            Ok(next) if next > from => from = next,
            _ => break,
        }
    }
    sum
}

/// Adds another worker's, of the same chain.
pub fn add(all: &mut Vec<ServerFlows>, more: Vec<ServerFlows>) {
    for m in more {
        let same = |s: &&mut ServerFlows| s.function == m.function && s.server == m.server;
        match all.iter_mut().find(same) {
            Some(s) => s.flows += m.flows,
            None => all.push(m),
        }
    }
}

/// For machines.
pub fn json(all: &[ServerFlows]) -> Vec<Value> {
    let one = |s: &ServerFlows| {
        json!({
            "nf": s.function,
            "server": s.server.map(|s| s.to_string()),
            "weight": s.weight,
            "flows": s.flows,
        })
    };
    all.iter().map(one).collect()
}

/// What is known of servers' health goes to each of them; where nobody looks for it, nothing is known.
pub fn with_health(all: &[ServerFlows], health: &[Value]) -> Vec<Value> {
    let mut told = json(all);
    for s in &mut told {
        let known = health
            .iter()
            .find(|h| h["nf"] == s["nf"] && h["server"] == s["server"]);
        for key in ["up", "why"] {
            s[key] = known.map_or(Value::Null, |h| h[key].clone());
        }
    }
    told
}

/// One of them in words.
pub fn line(s: &Value) -> String {
    let text = |key: &str| s[key].as_str().unwrap_or_default();
    let mut line = format!("server {}", text("nf"));
    let (flows, weight) = (s["flows"].as_u64(), s["weight"].as_u64());
    match s["server"].as_str() {
        Some(server) => line += &format!(" {server}"),
        None => line += " (removed)",
    }
    match s["up"].as_bool() {
        Some(true) => line += " up",
        Some(false) => line += " down",
        None => {}
    }
    if s["server"].is_string() {
        match weight {
            Some(0) => line += " drained",
            Some(w) => line += &format!(" weight {w}"),
            None => {}
        }
    }
    if let Some(n) = flows {
        line += &format!("  {} flows", thousands(n));
    }
    match text("why") {
        "" => line,
        why => format!("{line}  {why}"),
    }
}

/// The table for people.
pub fn print(all: &[ServerFlows]) {
    if all.is_empty() {
        return;
    }
    crate::say!("servers");
    for s in json(all) {
        crate::say!("  {}", line(&s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_say_what_is_known() {
        let s = |v: Value| line(&v);
        let all = json!({ "nf": "lb", "server": "10.0.0.1:80", "weight": 2, "flows": 1200, "up": true, "why": null });
        assert_eq!(s(all), "server lb 10.0.0.1:80 up weight 2  1,200 flows");
        let drained =
            json!({ "nf": "lb", "server": "10.0.0.1", "weight": 0, "flows": 0, "up": null });
        assert_eq!(s(drained), "server lb 10.0.0.1 drained  0 flows");
        let gone = json!({ "nf": "lb", "server": null, "weight": 0, "flows": 3 });
        assert_eq!(s(gone), "server lb (removed)  3 flows");
        let health = json!({ "nf": "lb", "server": "10.0.0.1", "up": false, "why": "refused" });
        assert_eq!(s(health), "server lb 10.0.0.1 down  refused");
    }

    #[test]
    fn parts_are_added_up() {
        let server = |n: &str| (n.parse::<HealthServer>().unwrap(), 1);
        let chain = "functions:\n  lb:\n    load-balancer:\n      address: 198.18.0.80\n      servers:\n        \
                     - { address: 10.0.0.1 }\n        - { address: 10.0.0.2, port: 80, weight: 0 }\n        \
                     - { address: 10.0.0.1, weight: 3 }\n\
                     ports: { c: \"lb[0]\", s: \"lb[1]\" }\n";
        let dir = std::env::temp_dir().join(format!("onefold-servers-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("chain.yaml");
        std::fs::write(&file, chain).unwrap();
        let chain = onefold_chain::load(&file.display().to_string(), &Default::default()).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        let balanced = chain.functions[0].balanced.clone().unwrap();
        assert_eq!(
            balanced.servers,
            [(server("10.0.0.1").0, 4), (server("10.0.0.2:80").0, 0)]
        );
        let mut asked = Vec::new();
        let all = count(&chain, |call| {
            asked.push(call.to_string());
            let said = ["100 1 2 0", "200 3 4 0", "0 5 6 7"];
            said.get(asked.len() - 1).map(|s| s.to_string())
        });
        let call = |from| format!("lb/rw.flows_to {from} 10.0.0.1 10.0.0.2:80");
        assert_eq!(asked, [call(0), call(100), call(200)]);
        let flows: Vec<_> = all.iter().map(|s| (s.weight, s.flows)).collect();
        assert_eq!(flows, [(4, 9), (0, 12), (0, 7)]);
        assert!(all[2].server.is_none());
        let mut sum = all.clone();
        add(&mut sum, all);
        assert_eq!(
            sum.iter().map(|s| s.flows).collect::<Vec<_>>(),
            [18, 24, 14]
        );
    }
}
