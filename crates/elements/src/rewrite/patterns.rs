//! IPRewriterPatterns: patterns with names (Click's `iprwpatterns`).
//!
//! A named pattern is shared by all inputs that use it: where a sequential search goes on is the pattern's. Names are
//! seen from the compound that the element stands in downwards.

use super::named_pattern_sets;
use super::pattern::parse_words;
use onefold_element::args::{Args, split_words};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId, element_any,
    element_takes,
};
use onefold_nat::PatternSet;
use onefold_packet::Pkt;

/// `IPRewriterPatterns`.
pub const IP_REWRITER_PATTERNS: ElementClass = ElementClass {
    name: "IPRewriterPatterns",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "NAME SADDR SPORT DADDR DPORT, ...",
    summary: "gives names to rewrite patterns, to be shared by rewriters",
    new: || Box::new(Patterns { set: None }),
};

#[derive(Debug, Clone)]
struct Patterns {
    set: Option<StateId>,
}

impl Element for Patterns {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let scope = cx.name.rsplit_once('/').map_or("", |(p, _)| p).to_string();
        let set = cx.store.alloc(Box::new(PatternSet {
            scope,
            ..PatternSet::default()
        }));
        let mut known = named_pattern_sets(cx.classes, cx.store);
        known.push(set);
        for (index, text) in args.rest() {
            let words = split_words(text);
            let Some((name, pattern)) = words.split_first() else {
                continue;
            };
            if PatternSet::find(cx.store, &known, cx.name, name).is_some() {
                args.error_at(index, name, "there is already a pattern with this name");
                continue;
            }
            // a single word is another pattern's name: the same pattern, under one more name
            let known = match pattern {
                [other] => PatternSet::find(cx.store, &known, cx.name, other)
                    .ok_or_else(|| format!("no pattern named '{other}'")),
                words => {
                    parse_words(words, &args.scope()).map(|p| PatternSet::add(cx.store, set, p))
                }
            };
            match (known, cx.store.get_mut::<PatternSet>(set)) {
                (Ok(r), Some(s)) => s.names.push((name.to_string(), r)),
                (Err(e), _) => args.error_at(index, name, e),
                _ => {}
            }
        }
        cx.store.publish(cx.elem, set);
        self.set = Some(set);
        args.finish()
    }

    /// An information element: before everything that uses it.
    fn configure_phase(&self) -> i32 {
        0
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        // it has no inputs
        cx.drop(p, "IPRewriterPatterns: no inputs");
    }

    fn states(&self) -> Vec<StateId> {
        self.set.into_iter().collect()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }
    element_takes!();
    element_any!();
}
