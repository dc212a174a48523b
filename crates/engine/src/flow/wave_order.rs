//! Which packets of a group may go on together behind a write-out or an element that was asked.
//!
//! The packets of a group take the first part of their ways together, then the second one, and so on, as if each had
//! gone all its way before the next. That is no difference where what a packet meets in a later part of its way has
//! not been met by packets behind it, in earlier parts of theirs: translators' tables and elements that remember
//! ([units](WaveOrder::unit)) must see packets in their order. So a packet goes on with others only as long as
//! nothing that they may have met is still in front of it; beyond that it is the program's, which takes it all its
//! way before the next one is looked at.

use crate::graph::batch::plan::{Nature, natures, units};
use crate::graph::core::Core;
use crate::program::code::{Code, End, Next, Span, Step};
use crate::program::headers::registers::Source;
use onefold_element::Batching;
use std::collections::{BTreeSet, HashMap};

/// Parts of a packet's way, at most; behind the last one the program goes on.
pub(crate) const MAX_WAVES: usize = 6;

/// Elements that remember something of their own, at most; with more of them nothing goes on together.
const MAX_UNITS: usize = 128;

/// See the module's text. Sets of units are bits.
#[derive(Debug, Default)]
pub(crate) struct WaveOrder {
    natures: Box<[Nature]>,
    /// By element: the unit that it is of, as a set.
    unit: Vec<u128>,
    /// By element: what may be met there and behind it.
    reach: Vec<u128>,
    /// By entry stage, and by number of parts: what may be met by packets that are known, in any of these.
    met: HashMap<u32, [u128; MAX_WAVES]>,
    /// Nobody calls handlers while packets are on their way.
    calm: bool,
}

impl WaveOrder {
    /// Of a graph and its program.
    pub fn of(core: &Core, code: &Code) -> WaveOrder {
        if code.later.is_none() {
            return WaveOrder::default();
        }
        let natures = natures(core);
        let numbers = units(core, &natures);
        let mut bits: HashMap<u32, usize> = HashMap::new();
        let mut unit = vec![0; natures.len()];
        for (i, n) in natures.iter().enumerate() {
            if n.batching > Batching::AnyOrder {
                let next = bits.len();
                let bit = *bits.entry(numbers[i]).or_insert(next);
                unit[i] = 1u128.checked_shl(bit as u32).unwrap_or(0);
            }
        }
        let mut order = WaveOrder {
            calm: natures.iter().all(|n| n.batching != Batching::Calls) && bits.len() <= MAX_UNITS,
            reach: reach(core, &unit),
            natures,
            unit,
            met: HashMap::new(),
        };
        for stage in &code.entries {
            if (*stage as usize) < code.stages.len() {
                let met = order.met_from(code, *stage);
                order.met.insert(*stage, met);
            }
        }
        order
    }

    /// May packets that entered at this stage go on together to this element, after so many parts of their ways?
    pub fn may_go_on(&self, entry: u32, parts: usize, to: u32) -> bool {
        let met = self.met.get(&entry).and_then(|m| m.get(parts));
        let reach = self.reach.get(to as usize);
        self.calm && met.zip(reach).is_some_and(|(m, r)| m & r == 0)
    }

    /// May handlers be called while packets are on their way?
    pub fn calls(&self) -> bool {
        !self.calm
    }

    /// May packets be given to this element in their order, and others be looked at before what follows from them is
    /// done?
    pub fn may_be_asked(&self, node: u32) -> bool {
        let nature = self.natures.get(node as usize);
        nature.is_some_and(|n| n.batching <= Batching::InOrder)
    }

    /// Is nothing met both behind the one element and behind the other?
    pub fn apart(&self, a: u32, b: u32) -> bool {
        let reach = |e: u32| self.reach.get(e as usize).copied();
        reach(a).zip(reach(b)).is_some_and(|(a, b)| a & b == 0)
    }

    /// What may be met by packets that are known, in each part of their ways and those before.
    fn met_from(&self, code: &Code, entry: u32) -> [u128; MAX_WAVES] {
        let mut all = [0; MAX_WAVES];
        let mut begin = BTreeSet::from([entry]);
        let mut met = 0;
        for part in &mut all {
            let mut next = BTreeSet::new();
            let (mut todo, mut seen) = (begin.clone(), BTreeSet::new());
            // Bound: each stage once.
            while let Some(stage) = todo.pop_first() {
                if seen.insert(stage) {
                    met |= self.stage(code, stage, &mut todo, &mut next);
                }
            }
            *part = met;
            begin = next;
        }
        all
    }

    /// What is met at a stage. Stages that follow are added: in the same epoch, and in the next one.
    fn stage(
        &self,
        code: &Code,
        stage: u32,
        same: &mut BTreeSet<u32>,
        next: &mut BTreeSet<u32>,
    ) -> u128 {
        let first = |i: usize| code.stages.get(i).map(|s| s.actions as usize);
        let from = first(stage as usize).unwrap_or(code.actions.len());
        let to = first(stage as usize + 1).unwrap_or(code.actions.len());
        let unit = |e: u32| self.unit.get(e as usize).copied().unwrap_or(0);
        let add = |all: &mut BTreeSet<u32>, of: Span| {
            all.extend(of.of(&code.nexts).iter().filter_map(|n| match n {
                Next::Stage(s) => Some(*s),
                Next::Unconnected(_) | Next::Never => None,
            }));
        };
        let mut met = self.neighbors(code, stage);
        for a in code.actions.get(from..to).unwrap_or_default() {
            for s in a.steps.of(&code.steps) {
                if let Step::Bind {
                    elem, bound, pass, ..
                } = s
                {
                    met |= unit(*elem);
                    add(same, *bound);
                    add(same, *pass);
                }
            }
            match a.end {
                End::Goto(s) => {
                    same.insert(s);
                }
                End::Fork(ways) => add(same, ways),
                End::Write { next: s, .. } => {
                    next.insert(s);
                }
                End::Ask { to, outputs, .. } => {
                    met |= unit(to.node);
                    add(next, outputs);
                }
                End::Output { .. } | End::Drop { .. } | End::Punt { .. } | End::Unreachable => {}
            }
        }
        met
    }
}

impl WaveOrder {
    /// The elements whose tables of neighbours are read at a stage: what they do to a packet may change what is read
    /// for those behind it.
    fn neighbors(&self, code: &Code, stage: u32) -> u128 {
        let first = |i: usize| code.stages.get(i).map(|s| s.rules);
        let from = first(stage as usize).unwrap_or(u32::MAX);
        let to = first(stage as usize + 1).unwrap_or(u32::MAX);
        let regs = code.asks.range(from..to).flat_map(|(_, regs)| regs);
        let elems = regs.filter_map(|r| match code.sources.get(usize::from(*r))? {
            Source::Route(table, ..) => code.tables.get(usize::from(*table)),
            _ => None,
        });
        let unit = |e: &u32| self.unit.get(*e as usize).copied().unwrap_or(0);
        elems.map(unit).fold(0, |a, b| a | b)
    }
}

/// What may be met at each element and behind it.
fn reach(core: &Core, unit: &[u128]) -> Vec<u128> {
    let mut reach = unit.to_vec();
    // Bound: each round adds to a set, of which there are as many as elements.
    loop {
        let mut more = false;
        for c in core.topo.spec.connections.iter().rev() {
            let (Some(from), Some(to)) = (reach.get(c.from.0), reach.get(c.to.0)) else {
                continue;
            };
            let both = from | to;
            if both != *from {
                reach[c.from.0] = both;
                more = true;
            }
        }
        if !more {
            return reach;
        }
    }
}
