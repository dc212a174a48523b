//! Which elements packets come to, and by which ways: what a comparison of batches with single packets must know.
//!
//! In a batch, packets that take one way keep their order, and packets that take different ways may pass each other.
//! Where two such packets meet at an element that remembers something, what it answers depends on which of them is
//! first there.

use crate::graph::Graph;
use onefold_elements::{Effect, StateId, lookup};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

const FACTOR: u64 = 0x100_0003;

/// A packet at an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Visit {
    pub node: u32,
    /// Input or output that it came by.
    pub port: u32,
    /// A number for the outputs that what came of it left at.
    pub left_at: u64,
}

impl Visit {
    /// What comes of it leaves at this output, too.
    pub fn leaves_at(&mut self, output: usize) {
        let more = output as u64 + 1;
        self.left_at = self.left_at.wrapping_mul(FACTOR).wrapping_add(more);
    }

    /// Did it leave as more than one packet? No element has so many outputs that one number were as large.
    fn copied(&self) -> bool {
        self.left_at > FACTOR
    }
}

/// The visits that followed from one packet, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visits(pub(crate) Vec<Visit>);

impl Visits {
    /// Was an element visited twice, by a packet that goes round or by several that were made of one?
    pub fn again(&self) -> bool {
        let mut nodes: Vec<u32> = self.0.iter().map(|v| v.node).collect();
        nodes.sort_unstable();
        nodes.windows(2).any(|w| w[0] == w[1])
    }

    /// Did a packet become several, of which more than one came to the same of these memories ([`Graph::memories`])?
    /// In a batch, even of one packet, they may do so in another order.
    pub fn copies_meet(&self, memories: &[Option<u32>]) -> bool {
        let of = |v: &Visit| memories.get(v.node as usize).copied().flatten();
        let mut met: Vec<u32> = self.0.iter().filter_map(of).collect();
        met.sort_unstable();
        self.0.iter().any(Visit::copied) && met.windows(2).any(|w| w[0] == w[1])
    }

    /// Memories ([`Graph::memories`]) that were come to, and a number for the way there: equal ways have equal numbers.
    pub fn meetings(&self, memories: &[Option<u32>]) -> Vec<(u32, u64)> {
        let mut way = DefaultHasher::new();
        let mut out = Vec::new();
        for v in &self.0 {
            (v.node, v.port).hash(&mut way);
            if let Some(Some(m)) = memories.get(v.node as usize) {
                out.push((*m, way.finish()));
            }
            v.left_at.hash(&mut way);
        }
        out
    }
}

impl Graph {
    /// For every element that remembers something across packets, the number of what it remembers: elements that
    /// share a state, or of which one names the other in its configuration, have the same one. `None` for those that
    /// remember nothing, or only count.
    pub fn memories(&self) -> Vec<Option<u32>> {
        let elements = &self.spec().elements;
        let remembers = |class: &str| {
            let effect = lookup(class).map(|c| c.effect);
            !matches!(effect, Some(Effect::Pure | Effect::CommutativeCount))
        };
        let mut all: Vec<Option<u32>> = (elements.iter().enumerate())
            .map(|(i, e)| remembers(&e.class).then_some(i as u32))
            .collect();
        let names: HashMap<&str, usize> = (elements.iter().enumerate())
            .map(|(i, e)| (e.name.as_str(), i))
            .collect();
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        let mut users: HashMap<StateId, usize> = HashMap::new();
        for (i, e) in elements.iter().enumerate() {
            for s in self.states_of(i) {
                pairs.push((i, *users.entry(s).or_insert(i)));
            }
            let scope = e.name.rsplit_once('/').map_or("", |(scope, _)| scope);
            let words =
                (e.args.iter()).flat_map(|a| a.split(|c: char| c.is_whitespace() || c == ','));
            for w in words.filter(|w| !w.is_empty()) {
                let full = if scope.is_empty() {
                    w.to_string()
                } else {
                    format!("{scope}/{w}")
                };
                pairs.extend(names.get(full.as_str()).map(|j| (i, *j)));
            }
        }
        // Bound: each of so many pairs joins two numbers into one at most once.
        for (i, j) in pairs {
            let (Some(Some(a)), Some(Some(b))) = (all.get(i).copied(), all.get(j).copied()) else {
                continue;
            };
            if a != b {
                for m in all.iter_mut().flatten().filter(|m| **m == a) {
                    *m = b;
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use crate::{BuildOptions, Graph, spec_from_flat};
    use onefold_packet::Timestamp;

    fn graph(text: &str) -> Graph {
        let flat =
            onefold_click::load(text.as_bytes(), "t.click", &[], &Default::default()).unwrap();
        Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap()
    }

    #[test]
    fn ways_are_told_apart_and_shared_memories_are_one() {
        let text = "
            rw :: IPRewriter(pattern 192.0.2.1 2000-2999 - - 0 1, drop);
            ping :: ICMPPingRewriter(pattern 192.0.2.1 1-65535 - - 0 1, drop);
            err :: ICMPRewriter(rw ping);
            FromDevice(lan) -> c :: Classifier(0/01, 0/02, 0/03, -);
            c[0] -> n :: Null -> MarkIPHeader -> [0]rw;
            c[1] -> n;
            c[2] -> MarkIPHeader -> err -> Discard;
            c[3] -> MarkIPHeader -> ping -> Discard;
            rw[0] -> Discard; rw[1] -> Discard; ping[1] -> Discard; Idle -> [1]rw; Idle -> [1]ping;";
        let mut g = graph(text);
        let memories = g.memories();
        let of = |name: &str| memories[g.find(name).unwrap().0 as usize];
        assert!(of("rw").is_some() && of("rw") == of("err") && of("ping") == of("err"));
        assert_eq!((of("n"), of("c")), (None, None));
        let source = g.source("lan").unwrap();
        let mut way = |first: u8| {
            g.start_visits();
            g.inject(source, &[first; 40], Timestamp::ZERO);
            let v = g.take_visits();
            assert!(!v.again());
            v.meetings(&memories)
        };
        let (one, two, three, again) = (way(1), way(2), way(3), way(1));
        assert_eq!(one, again);
        // by another output of the classifier into the same input
        assert_eq!((one.len(), two.len(), three.len()), (1, 1, 1));
        assert!(one[0].0 == two[0].0 && one[0].1 != two[0].1);
        assert!(one[0].0 == three[0].0 && one[0].1 != three[0].1);
    }
}
