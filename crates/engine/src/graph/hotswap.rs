//! A graph goes on with the state of the one that it replaces (Click's hot swapping).
//!
//! Elements with the same name, class, configuration and ports are the same ones: what they have learnt and counted
//! goes on, with their timers, tasks and random numbers. A shared state goes on if all elements that use it in the new
//! graph are the same ones as before. Everything else begins anew; lists of rules that have changed keep the counters
//! of rules that are in both. The account of packets, and drops by element, go on.
//!
//! Nothing is copied: states and elements change hands, so that what it costs follows from the number of elements,
//! not from what they know. It is done between two batches.

use crate::graph::reference::{DropCount, Graph};
use onefold_element::{DropReason, ElemId, StateId, Takes};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Elements whose models handlers may have changed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changed {
    /// Since somebody looked.
    since: BTreeSet<u32>,
    /// Ever.
    ever: BTreeSet<u32>,
}

impl Changed {
    /// One more.
    pub fn insert(&mut self, node: u32) {
        self.since.insert(node);
        self.ever.insert(node);
    }
    /// Those since the last time.
    pub fn take(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.since)
    }
}

/// Of packets inside elements that are not in the new graph, or have changed.
pub(crate) const REPLACED: DropReason = "inside an element that a reload replaced";

/// An element of the old graph whose state does not go on, although it had some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begins {
    /// Its full name.
    pub element: String,
    /// Why.
    pub why: &'static str,
}

/// What became of the old graph's state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Elements that go on.
    pub kept: usize,
    /// Elements of the old graph that do not, and had shared state, or packets inside.
    pub lost: Vec<Begins>,
    /// Packets that were inside these, and were dropped.
    pub dropped: u64,
    /// Drops of elements that are not in the new graph. Its own account has them in the sum only.
    pub gone: Vec<DropCount>,
}

impl Graph {
    /// Goes on with the state of `old`, whose packets have all been delivered. What is left of `old` is of no use.
    pub fn take_state(&mut self, old: &mut Graph) -> TakenOver {
        old.core.tell_rules();
        let same = Same::find(self, old);
        let mut taken = TakenOver {
            kept: same.new_of.len(),
            ..TakenOver::default()
        };
        taken.lost = same.lost(old);
        self.take_shared(old, &same);
        self.take_settings(old, &same);
        for (from, to) in same.pairs() {
            self.take_element(old, from, to);
        }
        self.take_rule_counters(old, &same);
        taken.dropped = old.drop_held(&same);
        taken.gone = self.take_account(old);
        let core = &mut self.core;
        core.overruns += old.core.overruns;
        let before = std::mem::take(&mut old.core.printed);
        core.printed.splice(0..0, before);
        core.now = core.now.max(old.core.now);
        taken
    }

    /// Shared states whose users are all the same ones.
    fn take_shared(&mut self, old: &mut Graph, same: &Same) {
        let mut pairs: BTreeMap<StateId, StateId> = BTreeMap::new();
        let mut spoilt = Vec::new();
        for (i, node) in self.core.nodes.iter().enumerate() {
            let states = node.elem.as_ref().map_or(Vec::new(), |e| e.states());
            let before = same.old_of.get(&(i as u32)).and_then(|o| {
                let node = old.core.nodes.get(*o as usize)?;
                Some(node.elem.as_ref()?.states())
            });
            match before {
                Some(b) if b.len() == states.len() => {
                    for (now, before) in states.into_iter().zip(b) {
                        if *pairs.entry(now).or_insert(before) != before {
                            spoilt.push(now);
                        }
                    }
                }
                _ => spoilt.extend(states),
            }
        }
        for id in spoilt {
            pairs.remove(&id);
        }
        let new_number = |e: ElemId| same.new_of.get(&e.0).map(|n| ElemId(*n));
        for (now, before) in pairs {
            (self.store).take_state(now, &mut old.store, before, &new_number);
        }
    }

    /// What people have set in states of elements whose configurations have changed.
    fn take_settings(&mut self, old: &Graph, same: &Same) {
        let states = |g: &Graph, n: u32| {
            let elem = g.core.nodes.get(n as usize).and_then(|n| n.elem.as_ref());
            elem.map_or(Vec::new(), |e| e.states())
        };
        for (_, from, to) in &same.changed {
            for (now, before) in states(self, *to).into_iter().zip(states(old, *from)) {
                self.store.take_settings(now, &old.store, before);
            }
        }
    }

    /// The element itself, its timers, task and random numbers.
    fn take_element(&mut self, old: &mut Graph, from: u32, to: u32) {
        let before = old.core.nodes.get_mut(from as usize);
        let (Some(node), Some(before)) = (self.core.nodes.get_mut(to as usize), before) else {
            return;
        };
        if let (Some(mine), Some(theirs)) = (&mut node.elem, &mut before.elem)
            && mine.take_state(theirs.as_mut()) == Takes::Whole
        {
            std::mem::swap(mine, theirs);
        }
        node.draws = before.draws;
        let core = &mut self.core;
        core.timers.clear_all(to);
        for (_, timer, at) in old.core.timers.all().filter(|(e, ..)| *e == from) {
            core.timers.set(to, timer, at);
        }
        core.run_list.forget(to);
        if old.core.run_list.is_scheduled(from) {
            core.run_list.wake(to);
        }
        if let Some(config) = old.core.configs.remove(&from) {
            core.configs.insert(to, config);
        }
        if old.core.changed.ever.contains(&from) {
            // a handler may have made its model another one than that of its configuration
            core.changed.insert(to);
            core.changes += 1;
        }
    }

    /// Rules that are in the old list of this name, too, keep their counters.
    fn take_rule_counters(&mut self, old: &Graph, same: &Same) {
        for (name, from, to) in &same.changed {
            let args = |g: &Graph, i: u32| {
                g.core
                    .topo
                    .spec
                    .elements
                    .get(i as usize)
                    .map(|e| e.args.clone())
            };
            let (Some(rules), Some(old_rules)) = (args(self, *to), args(old, *from)) else {
                continue;
            };
            debug_assert_eq!(Some(name), self.core.topo.names.get(*to as usize));
            let before = old
                .core
                .nodes
                .get(*from as usize)
                .and_then(|n| n.elem.as_ref());
            let node = self.core.nodes.get_mut(*to as usize);
            let mine = node
                .and_then(|n| n.elem.as_mut())
                .and_then(|e| e.rule_counters_mut());
            if let (Some(mine), Some(before)) = (mine, before.and_then(|e| e.rule_counters())) {
                mine.take_equal(before, &old_rules, &rules);
            }
        }
    }

    /// Packets inside what does not go on are dropped. How many.
    fn drop_held(&mut self, same: &Same) -> u64 {
        let before = self.out.dropped;
        let core = &mut self.core;
        for (to, p, _) in std::mem::take(&mut core.late) {
            self.out.drop(ElemId(to.node), REPLACED, p);
        }
        for i in 0..core.nodes.len() as u32 {
            // in the place of one that goes on there is the new graph's, which has nothing
            let (out, store) = (&mut self.out, &mut self.store);
            let held = core.with(i, out, store, |e, cx| e.drain_held(cx));
            for p in held.unwrap_or_default() {
                self.out.drop(ElemId(i), REPLACED, p);
            }
        }
        let inside = self.store.drain_held();
        if !inside.is_empty() {
            let owner = (0..core.nodes.len() as u32).find(|i| {
                let elem = core.nodes.get(*i as usize).and_then(|n| n.elem.as_ref());
                !same.new_of.contains_key(i) && elem.is_some_and(|e| !e.states().is_empty())
            });
            for p in inside {
                self.out.drop(ElemId(owner.unwrap_or(0)), REPLACED, p);
            }
        }
        self.out.dropped - before
    }

    /// The account of packets. Drops of elements that are not there any more come back.
    fn take_account(&mut self, old: &mut Graph) -> Vec<DropCount> {
        self.packets_in += old.packets_in;
        let (out, before) = (&mut self.out, &mut old.out);
        out.created += before.created;
        out.dropped += before.dropped;
        out.sent += before.sent;
        std::mem::swap(&mut out.pool, &mut before.pool);
        let numbers: HashMap<&str, u32> = names(&self.core.topo.names);
        let mut gone = Vec::new();
        for (elem, reason, packets) in std::mem::take(&mut before.drops) {
            let name = old.core.topo.names.get(elem.0 as usize);
            let name = name.map_or("?", |n| n);
            match numbers.get(name) {
                Some(i) => {
                    out.count_drops(ElemId(*i), reason, packets);
                    // they are in the sum already
                    out.dropped -= packets;
                }
                None => gone.push(DropCount {
                    element: name.to_string(),
                    reason,
                    packets,
                }),
            }
        }
        gone
    }
}

fn names(all: &[String]) -> HashMap<&str, u32> {
    let numbered = all.iter().enumerate();
    numbered.map(|(i, n)| (n.as_str(), i as u32)).collect()
}

/// Which elements of two graphs are the same ones.
struct Same {
    /// By number in the old graph: that in the new one.
    new_of: HashMap<u32, u32>,
    old_of: HashMap<u32, u32>,
    /// Name and numbers (old, new) of those that have only the name and the class in common.
    changed: Vec<(String, u32, u32)>,
    /// By number in the old graph: why it does not go on.
    why: HashMap<u32, &'static str>,
}

impl Same {
    fn find(new: &Graph, old: &Graph) -> Same {
        let mut same = Same {
            new_of: HashMap::new(),
            old_of: HashMap::new(),
            changed: Vec::new(),
            why: HashMap::new(),
        };
        let (n, o) = (&new.core.topo, &old.core.topo);
        let numbers = names(&n.names);
        // texts of configurations mean something else when the names in them do
        let names_differ = new.core.names != old.core.names;
        for (i, name) in o.names.iter().enumerate() {
            let from = i as u32;
            let Some(to) = numbers.get(name.as_str()).copied() else {
                same.why.insert(from, "it is not in the new chain");
                continue;
            };
            let t = to as usize;
            let why = match () {
                () if n.classes.get(t) != o.classes.get(i) => Some("it is of another class"),
                () if !ports_alike(new, t, old, i) => Some("it is connected in another way"),
                () if names_differ => Some("the names that configurations use have changed"),
                () if config(new, t) != config(old, i) => Some("its configuration has changed"),
                () => None,
            };
            match why {
                None => {
                    same.new_of.insert(from, to);
                    same.old_of.insert(to, from);
                }
                Some(why) => {
                    if n.classes.get(t) == o.classes.get(i) {
                        same.changed.push((name.clone(), from, to));
                    }
                    same.why.insert(from, why);
                }
            }
        }
        same
    }

    /// Old and new numbers, in the order in which the old graph's timers and tasks are compared where they are equal.
    fn pairs(&self) -> Vec<(u32, u32)> {
        let mut all: Vec<(u32, u32)> = self.new_of.iter().map(|(o, n)| (*o, *n)).collect();
        all.sort_unstable();
        all
    }

    /// What had state and does not go on.
    fn lost(&self, old: &Graph) -> Vec<Begins> {
        let mut lost = Vec::new();
        for (i, node) in old.core.nodes.iter().enumerate() {
            let Some(elem) = &node.elem else { continue };
            let has = elem.held() > 0 || !elem.states().is_empty();
            if let Some(why) = self.why.get(&(i as u32)).filter(|_| has) {
                lost.push(Begins {
                    element: old.core.topo.names[i].clone(),
                    why,
                });
            }
        }
        lost
    }
}

/// A configuration as it is now, without the white space around arguments.
fn config(g: &Graph, i: usize) -> Vec<String> {
    if let Some(text) = g.core.configs.get(&(i as u32)) {
        let args = onefold_element::args::split_args(text);
        return args.iter().map(|a| a.trim().to_string()).collect();
    }
    let elem = g.core.topo.spec.elements.get(i);
    elem.map_or(Vec::new(), |e| {
        e.args.iter().map(|a| a.trim().to_string()).collect()
    })
}

/// Have the elements as many inputs and outputs, push and pull alike?
fn ports_alike(a: &Graph, i: usize, b: &Graph, j: usize) -> bool {
    let counts = (
        a.port_counts(ElemId(i as u32)),
        b.port_counts(ElemId(j as u32)),
    );
    let ((ins, outs), other) = counts;
    let (a, b) = (&a.core.topo, &b.core.topo);
    (ins, outs) == other
        && (0..ins).all(|p| a.input_is_pull(i, p) == b.input_is_pull(j, p))
        && (0..outs).all(|p| a.output_is_pull(i, p) == b.output_is_pull(j, p))
}
