//! What a graph lets the batched engine do: found out once, and again when a write handler has changed what an
//! element is.
//!
//! Every input has a rank. Elements at which packets may come in [any order](Batching::AnyOrder) take up what waits
//! at the lowest rank. Those that want packets [in order](Batching::InOrder) have a rank behind all elements whose
//! packets may still come to them, or to elements that share what they remember: what waits there then is all of the
//! batch, and is taken up in order of arrival. Where packets may come round to such an element again, it takes one
//! packet at a time, and what follows from that one within the cycle is carried out before the next. Elements at
//! which [more](Batching::Alone) may happen, and all that packets or tasks come to from there, are ranked last:
//! there, packets go as in the scalar engine.

use crate::graph::core::Core;
use crate::graph::core::Node;
use crate::graph::topology::{Edge, Topology};
use onefold_element::{Batching, Clock, Effect, StateId};
use std::collections::{BTreeSet, HashMap};

/// What an element is to the batched engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nature {
    pub batching: Batching,
    /// Steps of the clock that it tells apart, in nanoseconds; 0 for none.
    pub step: i64,
    pub multiplies: bool,
}

/// Where an output leads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputTarget {
    pub to: Edge,
    /// The input's rank; `u32::MAX` for an output that leads nowhere.
    pub rank: u32,
    /// No other output leads to the input.
    pub alone: bool,
    /// Packets may come there in any order.
    pub free: bool,
}

/// How what waits at a rank is taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// All of it, as it stands.
    Free,
    /// In order of arrival, together with what waits at the other ranks from the first to before the second.
    InOrder(u32, u32),
    /// One by one, by the turns of this number.
    Turns(u32),
    /// As the scalar engine does.
    Alone,
}

/// Ranks of a cycle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cycle {
    /// Its first rank.
    pub from: u32,
    /// Its first rank at which packets take turns.
    pub first: u32,
    /// The rank behind its last one.
    pub end: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Plan {
    pub natures: Box<[Nature]>,
    /// Rank of the input that each output leads to; `u32::MAX` for none.
    pub rank_of_output: Box<[u32]>,
    /// The same, with more about the input.
    pub ways: Box<[OutputTarget]>,
    /// Rank of each input.
    pub rank_of_input: Box<[u32]>,
    /// The input at each rank.
    pub input: Box<[Edge]>,
    /// How each rank is taken up.
    pub place: Box<[Place]>,
    pub cycles: Box<[Cycle]>,
    /// First rank of elements that are [`Place::Alone`].
    pub alone_from: u32,
    /// Packets that enter at this element come one by one.
    pub single: Box<[bool]>,
    /// Steps of the clock that elements tell apart to which packets may come in any order: for them it must not go
    /// back, so that packets of different steps do not go together.
    pub apart: Box<[i64]>,
}

impl Core {
    /// May any element call another one's handlers while packets are under way?
    pub fn calls_handlers(&self) -> bool {
        self.nodes.iter().zip(&self.topo.class).any(|(n, class)| {
            let of_class = Batching::of(class.effect);
            let elem = n.elem.as_ref();
            elem.is_none_or(|e| e.batching(of_class) == Batching::Calls)
        })
    }
}

/// What every element is, as it is configured now.
pub(crate) fn natures(core: &Core) -> Box<[Nature]> {
    let topo = &core.topo;
    let one = |(i, n): (usize, &Node)| {
        let (class, ports) = (topo.class[i], topo.ports[i]);
        let (of_class, clock) = (Batching::of(class.effect), Clock::of(class.effect));
        let pulls = (0..ports.ninputs).any(|p| topo.input_is_pull(i, p))
            || (0..ports.noutputs).any(|p| topo.output_is_pull(i, p));
        let least = match pulls || n.has_task {
            true => Batching::Alone,
            false => Batching::AnyOrder,
        };
        let e = n.elem.as_ref();
        let step = match e.map_or(clock, |e| e.clock(clock)) {
            Clock::Unread => 0,
            Clock::Steps(n) => n.max(1),
        };
        Nature {
            batching: e
                .map_or(Batching::Calls, |e| e.batching(of_class))
                .max(least),
            step,
            multiplies: e.is_some_and(|e| e.multiplies()),
        }
    };
    core.nodes.iter().enumerate().map(one).collect()
}

/// Which elements remember the same: equal numbers. Those at which packets may come in any order are alone.
pub(crate) fn units(core: &Core, natures: &[Nature]) -> Vec<u32> {
    let topo = &core.topo;
    let mut unit: Vec<u32> = (0..natures.len() as u32).collect();
    let cares = |i: usize| natures[i].batching > Batching::AnyOrder;
    let mut join = |a: usize, b: usize| {
        let (a, b) = (unit[a], unit[b]);
        if a != b {
            // Bound: each of the elements is joined to another once.
            unit.iter_mut().filter(|u| **u == b).for_each(|u| *u = a);
        }
    };
    let by_name: HashMap<&str, usize> = (topo.names.iter().enumerate())
        .map(|(i, n)| (n.as_str(), i))
        .collect();
    let mut users: HashMap<StateId, usize> = HashMap::new();
    for i in (0..natures.len()).filter(|i| cares(*i)) {
        let states = core.nodes[i].elem.as_ref().map(|e| e.states());
        for s in states.into_iter().flatten() {
            join(*users.entry(s).or_insert(i), i);
        }
        let args = &topo.spec.elements[i].args;
        let part = |c: char| !(c.is_alphanumeric() || "_/@".contains(c));
        for word in args
            .iter()
            .flat_map(|a| a.split(part))
            .filter(|w| !w.is_empty())
        {
            // the innermost compound that has the name
            let mut scope = topo.names[i].as_str();
            let found = loop {
                scope = match scope.rsplit_once('/') {
                    Some((outer, _)) => outer,
                    None => break by_name.get(word),
                };
                if let Some(j) = by_name.get(format!("{scope}/{word}").as_str()) {
                    break Some(j);
                }
            };
            if let Some(j) = found.copied().filter(|j| cares(*j)) {
                join(j, i);
            }
        }
    }
    unit
}

/// Where a packet, or a task that is woken, may be next.
fn onward(topo: &Topology) -> Vec<Vec<u32>> {
    let mut next = vec![Vec::new(); topo.ports.len()];
    for (i, p) in topo.ports.iter().enumerate() {
        let edges = topo.out_edge[p.out_base..p.out_base + p.noutputs].iter();
        next[i].extend(edges.filter(|e| e.is_some()).map(|e| e.node));
    }
    for c in &topo.spec.connections {
        if topo.input_is_pull(c.to.0, c.to.1) {
            next[c.from.0].push(c.to.0 as u32);
        }
    }
    next
}

/// All that can be come to from these.
fn reach(from: Vec<u32>, next: &[Vec<u32>]) -> Vec<bool> {
    let mut seen = vec![false; next.len()];
    let mut todo = from;
    // Bound: every element is followed once.
    while let Some(i) = todo.pop() {
        if !std::mem::replace(&mut seen[i as usize], true) {
            todo.extend(&next[i as usize]);
        }
    }
    seen
}

/// The strongly connected components of the elements that are not left out, each before those that it leads to
/// (Tarjan's algorithm, without recursion).
fn components(next: &[Vec<u32>], out: &[bool]) -> Vec<Vec<u32>> {
    const NEW: u32 = u32::MAX;
    let n = next.len();
    let (mut index, mut low) = (vec![NEW; n], vec![0; n]);
    let (mut on_stack, mut stack) = (vec![false; n], Vec::new());
    let mut found = Vec::new();
    let mut count = 0;
    for root in (0..n as u32).rev().filter(|r| !out[*r as usize]) {
        // (element, edges that have been followed)
        let mut path = vec![(root, 0)];
        if index[root as usize] != NEW {
            continue;
        }
        // Bound: every edge is followed once.
        while let Some((v, done)) = path.pop() {
            let i = v as usize;
            if done == 0 {
                (index[i], low[i]) = (count, count);
                count += 1;
                stack.push(v);
                on_stack[i] = true;
            } else {
                let w = next[i][next[i].len() - done] as usize;
                if on_stack[w] {
                    low[i] = low[i].min(low[w]);
                }
            }
            // the last edges first: the components are turned round at the end
            let mut k = done;
            let mut deeper = None;
            while let Some(at) = next[i].len().checked_sub(k + 1) {
                k += 1;
                let w = next[i][at];
                if out[w as usize] {
                    continue;
                }
                if index[w as usize] == NEW {
                    deeper = Some(w);
                    break;
                }
                if on_stack[w as usize] {
                    low[i] = low[i].min(index[w as usize]);
                }
            }
            if let Some(w) = deeper {
                path.push((v, k));
                path.push((w, 0));
            } else if low[i] == index[i] {
                let at = stack.iter().rposition(|s| *s == v).unwrap_or(0);
                let component: Vec<u32> = stack.split_off(at);
                component.iter().for_each(|w| on_stack[*w as usize] = false);
                found.push(component);
            }
        }
    }
    found.reverse();
    found
}

/// Can packets go round among these without passing an element that ends it? Loop guards do, and elements that answer
/// a packet with another one, which is no longer of the kind that they answer.
fn unguarded(component: &[u32], next: &[Vec<u32>], topo: &Topology) -> bool {
    let guards = |i: u32| {
        let c = topo.class[i as usize];
        c.name == "LoopGuard" || !matches!(c.effect, Effect::Pure | Effect::CommutativeCount)
    };
    let mut left: HashMap<u32, usize> = component.iter().map(|i| (*i, 0)).collect();
    left.retain(|i, _| !guards(*i));
    let all: Vec<u32> = left.keys().copied().collect();
    for i in &all {
        for to in &next[*i as usize] {
            if let Some(feeders) = left.get_mut(to) {
                *feeders += 1;
            }
        }
    }
    let mut todo: Vec<u32> = all
        .into_iter()
        .filter(|i| left.get(i) == Some(&0))
        .collect();
    // Bound: every element is taken away once.
    while let Some(i) = todo.pop() {
        left.remove(&i);
        for to in &next[i as usize] {
            if let Some(feeders) = left.get_mut(to) {
                *feeders -= 1;
                if *feeders == 0 {
                    todo.push(*to);
                }
            }
        }
    }
    !left.is_empty()
}

/// Elements in an order in which a push goes forwards, except in cycles.
fn push_order(topo: &Topology) -> Vec<u32> {
    let n = topo.ports.len();
    let mut fed = vec![false; n];
    for e in topo.out_edge.iter().filter(|e| e.is_some()) {
        fed[e.node as usize] = true;
    }
    let roots = (0..n)
        .filter(|i| !fed[*i])
        .chain((0..n).filter(|i| fed[*i]));
    let mut seen = vec![false; n];
    let mut finished = Vec::with_capacity(n);
    // the last root first, because the whole order is turned round at the end
    for root in roots.rev() {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        // (element, outputs still to be followed), highest output first
        let mut stack = vec![(root, topo.ports[root].noutputs)];
        while let Some((node, left)) = stack.pop() {
            if left == 0 {
                finished.push(node as u32);
                continue;
            }
            stack.push((node, left - 1));
            let e = topo.out_edge[topo.ports[node].out_base + left - 1];
            if e.is_some() && !std::mem::replace(&mut seen[e.node as usize], true) {
                let to = e.node as usize;
                stack.push((to, topo.ports[to].noutputs));
            }
        }
    }
    finished.reverse();
    finished
}

/// Gives ranks to inputs, one element after the other.
struct Ranks<'a> {
    topo: &'a Topology,
    input: Vec<Edge>,
    place: Vec<Place>,
}

impl Ranks<'_> {
    fn next(&self) -> u32 {
        self.input.len() as u32
    }
    fn add(&mut self, node: u32) {
        for port in 0..self.topo.ports[node as usize].ninputs as u32 {
            self.input.push(Edge { node, port });
        }
    }
    /// All ranks since the last call are taken up like this.
    fn take_up(&mut self, how: Place) {
        self.place.resize(self.input.len(), how);
    }
}

impl Plan {
    /// Of a graph whose elements are of these natures.
    pub fn new(core: &Core, natures: Box<[Nature]>) -> Plan {
        let topo = &*core.topo;
        let n = natures.len();
        let next = onward(topo);
        let unit = units(core, &natures);
        let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
        for (i, u) in unit.iter().enumerate() {
            members.entry(*u).or_default().push(i as u32);
        }
        // elements that share what they remember lead to each other
        let mut joined = next.clone();
        for all in members.values().filter(|all| all.len() > 1) {
            for (a, b) in all.iter().zip(all.iter().cycle().skip(1)) {
                joined[*a as usize].push(*b);
            }
        }
        let mut freed = joined.clone();
        for (i, node) in core.nodes.iter().enumerate() {
            // who has room again wakes those that push
            if node.elem.as_ref().is_some_and(|e| e.full().is_some()) {
                freed[i].extend(topo.pushers(i, |e| core.nodes[e].has_task));
            }
        }
        let of = |b: Batching| -> Vec<u32> {
            let all = 0..n as u32;
            all.filter(|i| natures[*i as usize].batching >= b).collect()
        };
        let alone = reach(of(Batching::Alone), &freed);
        let components = components(&joined, &alone);

        let mut place_in_order = vec![0; n];
        for (at, i) in push_order(topo).into_iter().enumerate() {
            place_in_order[i as usize] = at;
        }
        let mut loops: Vec<u32> = of(Batching::Calls);
        let mut ranks = Ranks {
            topo,
            input: Vec::new(),
            place: Vec::new(),
        };
        let mut cycles = Vec::new();
        for mut c in components {
            c.sort_unstable_by_key(|i| place_in_order[*i as usize]);
            let inside = |i: &u32| next[*i as usize].iter().any(|to| c.contains(to));
            let goes_round = c.iter().any(inside);
            let (free, ordered): (Vec<u32>, Vec<u32>) =
                (c.iter()).partition(|i| natures[**i as usize].batching == Batching::AnyOrder);
            if goes_round && unguarded(&c, &next, topo) {
                loops.extend(&c);
            }
            let from = ranks.next();
            free.iter().for_each(|i| ranks.add(*i));
            ranks.take_up(Place::Free);
            let first = ranks.next();
            ordered.iter().for_each(|i| ranks.add(*i));
            let end = ranks.next();
            match goes_round {
                true => {
                    ranks.take_up(Place::Turns(cycles.len() as u32));
                    cycles.push(Cycle { from, first, end });
                }
                false => ranks.take_up(Place::InOrder(first, end)),
            }
        }
        let alone_from = ranks.next();
        for i in (0..n).filter(|i| alone[*i]) {
            ranks.add(i as u32);
        }
        ranks.take_up(Place::Alone);

        // who can come to a call of a handler, or to an endless loop
        let mut back = vec![Vec::new(); n];
        for (i, to) in joined.iter().enumerate() {
            to.iter().for_each(|t| back[*t as usize].push(i as u32));
        }
        let mut single = reach(loops, &back);
        for i in 0..n {
            single[i] |= alone[i] || natures[i].batching != Batching::AnyOrder;
        }
        Plan::of_ranks(topo, ranks, cycles, alone_from, single.into(), natures)
    }

    fn of_ranks(
        topo: &Topology,
        ranks: Ranks<'_>,
        cycles: Vec<Cycle>,
        alone_from: u32,
        single: Box<[bool]>,
        natures: Box<[Nature]>,
    ) -> Plan {
        let Ranks { input, place, .. } = ranks;
        let inputs: usize = topo.ports.iter().map(|p| p.ninputs).sum();
        let mut rank_of_input = vec![u32::MAX; inputs].into_boxed_slice();
        for (rank, e) in input.iter().enumerate() {
            let base = topo.ports[e.node as usize].in_base;
            rank_of_input[base + e.port as usize] = rank as u32;
        }
        let rank_of_output: Box<[u32]> = (topo.out_edge.iter())
            .map(|e| match e.is_some() {
                true => rank_of_input[topo.ports[e.node as usize].in_base + e.port as usize],
                false => u32::MAX,
            })
            .collect();
        let mut feeders = vec![0u32; input.len()];
        for rank in &rank_of_output {
            if let Some(n) = feeders.get_mut(*rank as usize) {
                *n += 1;
            }
        }
        let ways = (topo.out_edge.iter().zip(&rank_of_output))
            .map(|(to, rank)| OutputTarget {
                to: *to,
                rank: *rank,
                alone: feeders.get(*rank as usize) == Some(&1),
                free: place.get(*rank as usize) == Some(&Place::Free),
            })
            .collect();
        let reads = |n: &&Nature| n.batching == Batching::AnyOrder && n.step > 0;
        let apart: BTreeSet<i64> = natures.iter().filter(reads).map(|n| n.step).collect();
        Plan {
            apart: apart.into_iter().collect(),
            natures,
            rank_of_output,
            ways,
            rank_of_input,
            input: input.into(),
            place: place.into(),
            cycles: cycles.into(),
            alone_from,
            single,
        }
    }
}
