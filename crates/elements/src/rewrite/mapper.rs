//! Mappers: elements that choose among several patterns. RoundRobinIPMapper and SourceIPHashMapper (Click's
//! `rripmapper`, `siphmapper`), and MaglevIPMapper, which Click does not have.
//!
//! A mapper's state lives in the store, published under the mapper's element, and is used by every rewriter that names
//! it. Handlers, which Click's have not: `down` has the servers (destination addresses of patterns) that get no new
//! flows, `ADDRESS` or `ADDRESS:PORT` each; writing it says it of these and no others. Flows that there are stay.
//!
//! Differences from Click: a server ID that is used twice, or above 65534, is refused (Click reads memory that nothing
//! has set, or never ends), and so are hash rings of more than 2^24 draws.

use super::named_pattern_sets;
use super::spec::{SpecScope, parse_pattern};
use onefold_element::args::{Args, FromArg, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId, element_any,
    element_takes,
};
use onefold_nat::{MAX_TABLE, Mapper, PatternSet, ServerAddr, TABLE_SIZE, is_table_size};
use onefold_packet::Pkt;
use std::net::Ipv4Addr;

/// `RoundRobinIPMapper`.
pub const ROUND_ROBIN: ElementClass = ElementClass {
    name: "RoundRobinIPMapper",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "PATTERN_1 FOUTPUT ROUTPUT, ..., PATTERN_n FOUTPUT ROUTPUT",
    summary: "gives a rewriter's new flows one pattern after the other",
    new: || Box::new(MapperElement::default()),
};

/// `SourceIPHashMapper`.
pub const SOURCE_HASH: ElementClass = ElementClass {
    name: "SourceIPHashMapper",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "NNODES SEED, PATTERN_1 FOUTPUT ROUTPUT ID_1, ..., PATTERN_n FOUTPUT ROUTPUT ID_n",
    summary: "chooses a pattern for a rewriter's new flows by consistent hashing of the source address",
    new: || {
        Box::new(MapperElement {
            kind: Kind::SourceHash,
            ..MapperElement::default()
        })
    },
};

/// `MaglevIPMapper`.
pub const MAGLEV: ElementClass = ElementClass {
    name: "MaglevIPMapper",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "PATTERN_1 FOUTPUT ROUTPUT NAME_1 WEIGHT_1, ..., PATTERN_n FOUTPUT ROUTPUT NAME_n WEIGHT_n \
            [, SIZE PRIME, SEED N]",
    summary: "chooses a pattern for a rewriter's new flows by Maglev hashing of addresses, ports and protocol",
    new: || {
        Box::new(MapperElement {
            kind: Kind::Maglev,
            ..MapperElement::default()
        })
    },
};

/// Most random draws that a hash ring may need: nodes times the greatest server ID plus one.
const MAX_DRAWS: u64 = 1 << 24;

/// Greatest weight of a server: as many turns may pass until another one has its first.
const MAX_WEIGHT: u32 = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    RoundRobin,
    SourceHash,
    Maglev,
}

#[derive(Debug, Clone, Default)]
struct MapperElement {
    kind: Kind,
    states: Vec<StateId>,
}

/// What stands behind a pattern and its outputs.
#[derive(Default)]
struct Servers<'a> {
    /// SourceIPHashMapper's.
    ids: Vec<u16>,
    /// MaglevIPMapper's, with weights.
    names: Vec<(&'a str, u32)>,
}

impl<'a> Servers<'a> {
    /// Takes off the words that say who the server is.
    fn take(
        &mut self,
        kind: Kind,
        words: &mut Vec<&'a str>,
        args: &Args<'_>,
    ) -> Result<(), String> {
        let scope = args.scope();
        match kind {
            Kind::RoundRobin => {}
            Kind::SourceHash => {
                let id = words.pop().and_then(|w| u16::from_arg(w, &scope).ok());
                let id = id
                    .filter(|i| *i < u16::MAX)
                    .ok_or("bad server ID, expected a number from 0 to 65534 after the outputs")?;
                if self.ids.contains(&id) {
                    return Err(format!("server ID {id} is already in use"));
                }
                self.ids.push(id);
            }
            Kind::Maglev => {
                let weight = words.pop().and_then(|w| u32::from_arg(w, &scope).ok());
                let weight = weight.filter(|w| (1..=MAX_WEIGHT).contains(w));
                let (Some(name), Some(weight)) = (words.pop(), weight) else {
                    return Err(format!(
                        "expected a name and a weight from 1 to {MAX_WEIGHT} after the outputs"
                    ));
                };
                if self.names.iter().any(|n| n.0 == name) {
                    return Err(format!("server '{name}' is there already"));
                }
                self.names.push((name, weight));
            }
        }
        Ok(())
    }
}

impl MapperElement {
    /// Nodes of each server, and seed, from SourceIPHashMapper's first argument.
    fn ring(first: &str, ids: &[u16], args: &Args<'_>) -> Result<(u32, u32), String> {
        let words = split_words(first);
        let [nodes, seed] = words[..] else {
            return Err("expected 'NNODES SEED'".into());
        };
        let scope = args.scope();
        let nodes = u32::from_arg(nodes, &scope)
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| format!("bad number of nodes '{nodes}', expected 1 or more"))?;
        let seed = i32::from_arg(seed, &scope)
            .map_err(|_| format!("bad hash seed '{seed}', expected a number"))?;
        let top = ids.iter().max().map_or(0, |i| u64::from(*i) + 1);
        if u64::from(nodes) * top > MAX_DRAWS {
            return Err(format!(
                "too many nodes: NNODES times the greatest server ID must not exceed {MAX_DRAWS}"
            ));
        }
        Ok((nodes, seed as u32))
    }

    /// Places of the table, and seed, from MaglevIPMapper's keywords.
    fn table(args: &mut Args<'_>) -> (u32, u32) {
        let size = args.keyword::<u32>("SIZE").unwrap_or(TABLE_SIZE);
        let seed = args.keyword::<u32>("SEED").unwrap_or(0);
        if !is_table_size(size) {
            args.error(format!(
                "SIZE: expected a prime number of places, at most {MAX_TABLE}, as {TABLE_SIZE} is"
            ));
        }
        (size, seed)
    }
}

impl Element for MapperElement {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let set = cx.store.alloc(Box::new(PatternSet::default()));
        let named = named_pattern_sets(cx.classes, cx.store);
        // keywords stand anywhere
        let (mut size, mut seed) = (TABLE_SIZE, 0);
        if self.kind == Kind::Maglev {
            (size, seed) = Self::table(args);
        }
        let mut rest = args.rest();
        let first = match (self.kind, rest.is_empty()) {
            (Kind::SourceHash, false) => Some(rest.remove(0)),
            (Kind::SourceHash, true) => {
                args.error("NNODES SEED: required argument missing; expected two numbers");
                None
            }
            _ => None,
        };
        if rest.is_empty() {
            args.error("PATTERN_1: required argument missing; expected a pattern and two outputs");
        } else if rest.len() == 1 {
            args.warning("only one pattern given");
        }
        let (mut entries, mut servers) = (Vec::new(), Servers::default());
        for (n, (index, text)) in rest.into_iter().enumerate() {
            let name = format!("PATTERN_{}", n + 1);
            let mut words = split_words(text);
            if let Err(e) = servers.take(self.kind, &mut words, args) {
                args.error_at(index, &name, e);
            }
            let scope = SpecScope {
                args: args.scope(),
                classes: cx.classes,
                noutputs: 0,
                named: &named,
                set,
            };
            match parse_pattern(&words, &scope, cx.store) {
                Ok(e) => entries.push(e),
                Err(e) => args.error_at(index, &name, e),
            }
        }
        let mut ring = None;
        if let Some((index, text)) = first {
            match Self::ring(text, &servers.ids, args) {
                Ok(r) => ring = Some(r),
                Err(e) => args.error_at(index, "NNODES SEED", e),
            }
        }
        if (size as usize) < entries.len() {
            args.error("SIZE: the table has fewer places than there are servers");
        }
        // whoever has been refused needs no table
        let mapper = match (self.kind, ring) {
            _ if !args.ok() => Mapper::round_robin(entries),
            (Kind::Maglev, _) => Mapper::maglev(entries, &servers.names, size, seed),
            (_, Some((nodes, seed))) => Mapper::source_hash(entries, &servers.ids, nodes, seed),
            _ => Mapper::round_robin(entries),
        };
        let mapper = mapper.with_patterns_of(cx.store);
        let id = cx.store.alloc(Box::new(mapper));
        cx.store.publish(cx.elem, id);
        self.states = vec![id, set];
        args.finish()
    }

    /// Before the rewriters, after the named patterns.
    fn configure_phase(&self) -> i32 {
        99
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        // it has no inputs
        cx.drop(p, "Mapper: no inputs");
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("down").decides_new_flows()];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let mapper = self.states.first();
        let mapper = mapper.and_then(|id| cx.store.get::<Mapper>(*id));
        match (name, mapper) {
            ("down", Some(m)) => {
                let mut down = m.servers();
                down.retain(|s| s.1);
                down.dedup();
                let lines = down.into_iter().map(|(s, _)| server_text(s) + "\n");
                Ok(lines.collect())
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let (Some(mapper), "down") = (self.states.first().copied(), name) else {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        };
        let bad = |why: String| HandlerError::BadValue(format!("down: {why}"));
        let words = value.split_whitespace();
        let down: Result<Vec<ServerAddr>, String> = words.map(read_server).collect();
        let set = Mapper::set_down(mapper, &down.map_err(bad)?, cx.store);
        set.map_err(|s| bad(format!("no pattern leads to {}", server_text(s))))
    }

    fn states(&self) -> Vec<StateId> {
        self.states.clone()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }
    element_takes!();
    element_any!();
}

/// `ADDRESS`, or `ADDRESS:PORT`.
fn server_text((addr, port): ServerAddr) -> String {
    match port {
        0 => Ipv4Addr::from(addr).to_string(),
        port => format!("{}:{port}", Ipv4Addr::from(addr)),
    }
}

pub(super) fn read_server(text: &str) -> Result<ServerAddr, String> {
    let (addr, port) = match text.split_once(':') {
        Some((addr, port)) => (addr, port.parse::<u16>().ok().filter(|p| *p > 0)),
        None => (text, Some(0)),
    };
    match (addr.parse::<Ipv4Addr>(), port) {
        (Ok(addr), Some(port)) => Ok((addr.into(), port)),
        _ => Err(format!("expected ADDRESS or ADDRESS:PORT, found '{text}'")),
    }
}
