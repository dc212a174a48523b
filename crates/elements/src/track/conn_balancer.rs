//! ConnBalancer: which server a connection gets.
//!
//! `ConnBalancer(POLICY, SERVER WEIGHT ID, ...)` stands in the place of a range in the configuration of a ConnDstNat:
//! first packets that come to that input get one of the servers as their destination. SERVER is an address, or address
//! and port (`10.0.0.1:80`, `[2001:db8::1]:80`); without one the port stays. POLICY is `round-robin` (one after the
//! other, each as often as its WEIGHT), `source-hash` (consistent hashing of the source address: a server has WEIGHT
//! identities of which ID is the first one, with NODES places each, 100, drawn from SEED) or `maglev` (Maglev hashing
//! of addresses, ports and protocol: a table of SIZE places, 65537, permutations by SEED). All are of one version of
//! IP.
//!
//! Handler `down`: the servers that get no new connections; writing it says it of these and no others. Connections that
//! there are stay. Where all are down, first packets are dropped at the ConnDstNat.

use onefold_element::args::{Args, Word, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId, element_any,
    element_takes,
};
use onefold_nat::{
    BalancedServer, Balancer, MAX_TABLE, ServerEnd, Spread, TABLE_SIZE, is_table_size,
};
use onefold_packet::Pkt;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// `ConnBalancer`.
pub const CONN_BALANCER: ElementClass = ElementClass {
    name: CLASS,
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "POLICY, SERVER_1 WEIGHT_1 ID_1, ..., SERVER_n WEIGHT_n ID_n [, NODES N, SIZE PRIME, SEED N]",
    summary: "chooses a server for the connections of a ConnDstNat",
    new: || Box::new(ConnBalancer { state: None }),
};

/// The name of the class.
pub(super) const CLASS: &str = "ConnBalancer";

/// Most servers.
const MAX_SERVERS: usize = 1024;
/// Greatest weight, and the greatest one by a hash of the source.
const MAX_WEIGHT: u32 = 1000;
const MAX_HASH_WEIGHT: u32 = 63;
/// Places of an identity on the ring.
const NODES: u32 = 100;
/// Most places that are drawn: for all identities below the greatest one.
const MAX_DRAWS: u32 = 1 << 24;

#[derive(Debug, Clone)]
struct ConnBalancer {
    state: Option<StateId>,
}

/// `ADDRESS`, `ADDRESS:PORT`, `[ADDRESS]:PORT`.
pub(super) fn read_server(text: &str) -> Result<ServerEnd, String> {
    if let Ok(a) = text.parse::<IpAddr>() {
        return Ok((a, 0));
    }
    match text.parse::<SocketAddr>() {
        Ok(s) if s.port() != 0 => Ok((s.ip(), s.port())),
        _ => Err(format!(
            "expected ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT, found '{text}'"
        )),
    }
}

fn server_text((address, port): ServerEnd) -> String {
    match port {
        0 => address.to_string(),
        port => SocketAddr::new(address, port).to_string(),
    }
}

/// `SERVER WEIGHT ID`.
fn read_balanced(text: &str, most: u32) -> Result<BalancedServer, String> {
    let words = split_words(text);
    let [server, weight, id] = words[..] else {
        return Err(format!("expected SERVER WEIGHT ID, found '{text}'"));
    };
    let weight = weight.parse().ok().filter(|w| (1..=most).contains(w));
    let id = id.parse().ok().filter(|i| usize::from(*i) < MAX_SERVERS);
    Ok(BalancedServer {
        end: read_server(server)?,
        weight: weight.ok_or_else(|| format!("a weight is from 1 to {most}"))?,
        id: id.ok_or_else(|| format!("an identity is below {MAX_SERVERS}"))?,
    })
}

/// How connections are spread, by the policy's name and keywords.
fn spread(policy: &str, args: &mut Args<'_>) -> Option<Spread> {
    let nodes: Option<u32> = args.keyword("NODES");
    let size: Option<u32> = args.keyword("SIZE");
    let seed: u32 = args.keyword("SEED").unwrap_or(0);
    let (nodes, size) = (nodes.unwrap_or(NODES), size.unwrap_or(TABLE_SIZE));
    match policy {
        "round-robin" => Some(Spread::RoundRobin),
        "source-hash" => {
            let most = MAX_DRAWS / (MAX_HASH_WEIGHT * MAX_SERVERS as u32);
            if !(1..=most).contains(&nodes) {
                args.error(format!("NODES: expected 1 to {most} places"));
            }
            Some(Spread::SourceHash { nodes, seed })
        }
        "maglev" => {
            if !is_table_size(size) {
                args.error(format!(
                    "SIZE: expected a prime number of places, at most {MAX_TABLE}, as {TABLE_SIZE} is"
                ));
            }
            Some(Spread::Maglev { size, seed })
        }
        other => {
            args.error(format!(
                "expected 'round-robin', 'source-hash' or 'maglev', found '{other}'"
            ));
            None
        }
    }
}

/// What is wrong with all of them together.
fn wrong_together(servers: &[BalancedServer], spread: Spread) -> Option<String> {
    if !(1..=MAX_SERVERS).contains(&servers.len()) {
        return Some(format!("expected 1 to {MAX_SERVERS} servers"));
    }
    let (mut ends, mut ids) = (HashSet::new(), HashSet::new());
    for s in servers {
        if !ends.insert(s.end) {
            return Some(format!("server {} is there twice", server_text(s.end)));
        }
        if !ids.insert(s.id) {
            return Some(format!("identity {} is there twice", s.id));
        }
    }
    let six = |s: &BalancedServer| s.end.0.is_ipv6();
    if servers.iter().any(six) && !servers.iter().all(six) {
        return Some("servers are of one version of IP".into());
    }
    match spread {
        Spread::Maglev { size, .. } if (size as usize) < servers.len() => {
            Some("SIZE: the table has fewer places than there are servers".into())
        }
        _ => None,
    }
}

impl Element for ConnBalancer {
    /// Before those that name it.
    fn configure_phase(&self) -> i32 {
        50
    }

    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let policy: Option<Word> = args.mandatory("POLICY");
        let spread = policy.and_then(|p| spread(&p.0, args));
        let most = match spread {
            Some(Spread::SourceHash { .. }) => MAX_HASH_WEIGHT,
            _ => MAX_WEIGHT,
        };
        let mut servers = Vec::new();
        for (n, (index, text)) in args.rest().into_iter().enumerate() {
            match read_balanced(text, most) {
                Ok(s) => servers.push(s),
                Err(why) => args.error_at(index, &format!("SERVER_{}", n + 1), why),
            }
        }
        if let Some(spread) = spread.filter(|_| args.ok()) {
            match wrong_together(&servers, spread) {
                Some(why) => args.error(why),
                None => {
                    let state = Balancer::new(&servers, spread);
                    let id = cx.store.alloc(Box::new(state));
                    cx.store.publish(cx.elem, id);
                    self.state = Some(id);
                }
            }
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "ConnBalancer: has no inputs");
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("down").decides_new_flows()];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let state = self.state.and_then(|id| cx.store.get::<Balancer>(id));
        match (name, state) {
            ("down", Some(b)) => {
                let down = b.servers().filter(|s| s.1);
                Ok(down.map(|(s, _)| server_text(s) + "\n").collect())
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let state = self.state.and_then(|id| cx.store.get_mut::<Balancer>(id));
        let (Some(b), "down") = (state, name) else {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        };
        let bad = |why: String| HandlerError::BadValue(format!("down: {why}"));
        let down: Result<Vec<_>, _> = value.split_whitespace().map(read_server).collect();
        let set = b.set_down(&down.map_err(bad)?);
        set.map_err(|s| bad(format!("{} is no server", server_text(s))))
    }

    fn states(&self) -> Vec<StateId> {
        self.state.into_iter().collect()
    }

    element_takes!();
    element_any!();
}

#[cfg(test)]
#[path = "conn_balancer_tests.rs"]
mod tests;
