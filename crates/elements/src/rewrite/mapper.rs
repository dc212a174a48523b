//! Mappers: elements that choose among several patterns. RoundRobinIPMapper and SourceIPHashMapper (Click's
//! `rripmapper`, `siphmapper`).
//!
//! A mapper's state lives in the store, published under the mapper's element, and is used by every rewriter that names
//! it.
//!
//! Differences from Click: a server ID that is used twice, or above 65534, is refused (Click reads memory that nothing
//! has set, or never ends), and so are hash rings of more than 2^24 draws.

use super::named_pattern_sets;
use super::spec::{SpecScope, parse_pattern};
use onefold_element::args::{Args, FromArg, split_words};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId, element_any,
    element_takes,
};
use onefold_nat::{Mapper, PatternSet};
use onefold_packet::Pkt;

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
            hash: true,
            ..MapperElement::default()
        })
    },
};

/// Most random draws that a hash ring may need: nodes times the greatest server ID plus one.
const MAX_DRAWS: u64 = 1 << 24;

#[derive(Debug, Clone, Default)]
struct MapperElement {
    hash: bool,
    states: Vec<StateId>,
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
}

impl Element for MapperElement {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let set = cx.store.alloc(Box::new(PatternSet::default()));
        let named = named_pattern_sets(cx.classes, cx.store);
        let mut rest = args.rest();
        let first = match (self.hash, rest.is_empty()) {
            (true, false) => Some(rest.remove(0)),
            (true, true) => {
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
        let mut entries = Vec::new();
        let mut ids: Vec<u16> = Vec::new();
        for (n, (index, text)) in rest.into_iter().enumerate() {
            let name = format!("PATTERN_{}", n + 1);
            let mut words = split_words(text);
            if self.hash {
                let id = words
                    .pop()
                    .and_then(|w| u16::from_arg(w, &args.scope()).ok());
                match id.filter(|i| *i < u16::MAX) {
                    Some(i) if ids.contains(&i) => {
                        args.error_at(index, &name, format!("server ID {i} is already in use"));
                    }
                    Some(i) => ids.push(i),
                    None => args.error_at(
                        index,
                        &name,
                        "bad server ID, expected a number from 0 to 65534 after the outputs",
                    ),
                }
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
            match Self::ring(text, &ids, args) {
                Ok(r) => ring = Some(r),
                Err(e) => args.error_at(index, "NNODES SEED", e),
            }
        }
        let mapper = match ring {
            Some((nodes, seed)) => Mapper::source_hash(entries, &ids, nodes, seed),
            None => Mapper::round_robin(entries),
        };
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

    fn states(&self) -> Vec<StateId> {
        self.states.clone()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }
    element_takes!();
    element_any!();
}
