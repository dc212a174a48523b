//! Groups of filters on their way through one stage: where they wait, join and leave it.

use super::carry::carried;
use super::known::{Known, hull};
use super::{Group, Key, Leaf, Part, Synthesizer};
use crate::program::{Action, Dim, End, Filter, Step, Why};
use crate::state::{Need, State};
use onefold_element::ElemId;
use onefold_element::model::ValueSet;
use std::collections::{BTreeMap, HashMap};

/// Most filters of a group that are told from each other in what is known of it.
const MAX_TOLD: usize = 64;

/// What fits both; `None` where nothing does.
fn both(a: &Filter, b: &Filter) -> Option<Filter> {
    let mut f = a.clone();
    for (d, s) in &b.0 {
        // no set is full: the width does not matter
        if !f.narrow(*d, s, 128) {
            return None;
        }
    }
    Some(f)
}

/// One stage being made.
pub(super) struct Traversal<'a, 'b> {
    pub(super) s: &'a mut Synthesizer<'b>,
    pub(super) me: usize,
    pub(super) waiting: BTreeMap<(u32, u32), (ElemId, u16, State, Group)>,
    pub(super) at: HashMap<(ElemId, u16, State), (u32, u32)>,
    pub(super) seq: u32,
    pub(super) visits: HashMap<ElemId, u32>,
    /// Where one filter does not say all that is known: every packet fits one of these.
    pub(super) among: Vec<Filter>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) actions: Vec<Action>,
    /// What waits and what has left take of [`crate::input::Budget::size`].
    pub(super) size: usize,
}

impl<'a, 'b> Traversal<'a, 'b> {
    pub(super) fn new(s: &'a mut Synthesizer<'b>, me: usize) -> Self {
        Traversal {
            s,
            me,
            waiting: BTreeMap::new(),
            at: HashMap::new(),
            seq: 0,
            visits: HashMap::new(),
            among: Vec::new(),
            leaves: Vec::new(),
            actions: Vec::new(),
            size: 0,
        }
    }

    pub(super) fn run(mut self, key: &Key, known: &Known) -> (Vec<Leaf>, Vec<Action>) {
        if known.cubes().len() > 1 {
            self.among = known.cubes().to_vec();
        }
        let first = Part {
            rank: Vec::new(),
            filter: known.hull(&self.s.slots),
            origin: Vec::new(),
        };
        self.arrive(
            key.elem,
            key.port,
            key.state.clone(),
            Group {
                parts: vec![first],
                path: Vec::new(),
            },
        );
        // Bound: MAX_GROUPS per element.
        while let Some((_, (elem, port, state, group))) = self.waiting.pop_first() {
            self.at.remove(&(elem, port, state.clone()));
            self.size -= group.size();
            self.element(elem, port, state, group);
        }
        (self.leaves, self.actions)
    }

    pub(super) fn arrive(&mut self, elem: ElemId, port: u16, state: State, group: Group) {
        if group.parts.is_empty() {
            return;
        }
        self.size += group.size();
        let k = (elem, port, state);
        if let Some(place) = self.at.get(&k)
            && let Some((_, _, _, g)) = self.waiting.get_mut(place)
        {
            g.parts.extend(group.parts);
            return;
        }
        let topo = self.s.topo.get(elem.0 as usize).copied().unwrap_or(0);
        self.seq += 1;
        let place = (topo, self.seq);
        self.at.insert(k.clone(), place);
        self.waiting.insert(place, (k.0, k.1, k.2, group));
    }

    pub(super) fn leave(&mut self, group: Group, steps: Vec<Step>, end: End) {
        self.size += group.size();
        let action = self.actions.len() as u32;
        self.actions.push(Action {
            steps,
            end,
            path: group.path,
        });
        let leaves = group.parts.into_iter().map(|part| Leaf { part, action });
        self.leaves.extend(leaves);
    }

    /// The reference graph takes over what there is no program for: any flow may begin behind it.
    pub(super) fn punt(&mut self, elem: ElemId, port: u16, s: &State, group: Group, cause: &str) {
        self.s.loosen(elem, port);
        self.hand_over(elem, port, s, group, cause);
    }

    /// The reference graph takes over exceptions; their flows are as others.
    pub(super) fn hand_over(
        &mut self,
        elem: ElemId,
        port: u16,
        s: &State,
        group: Group,
        cause: &str,
    ) {
        let end = End::Punt {
            elem,
            port,
            cause: cause.to_string(),
            image: s.image(true),
        };
        self.leave(group, s.steps.clone(), end);
    }

    /// What is known of a group's packets that are in this state.
    pub(super) fn known(&self, g: &Group, s: &State) -> Known {
        let slots = &self.s.slots;
        let mut k: Option<Known> = None;
        let mut put = |f: Filter| match &mut k {
            Some(k) => {
                k.add(f, slots);
            }
            None => k = Some(Known::of(f)),
        };
        if g.parts.len() > MAX_TOLD {
            let mut it = g.parts.iter();
            let mut f = it.next().map(|p| p.filter.clone()).unwrap_or_default();
            for p in it {
                if f.0.is_empty() {
                    break;
                }
                f = hull(&f, &p.filter, slots);
            }
            put(f);
        } else {
            for p in &g.parts {
                match &self.among[..] {
                    [] => put(p.filter.clone()),
                    cubes => cubes
                        .iter()
                        .filter_map(|c| both(c, &p.filter))
                        .for_each(&mut put),
                }
            }
        }
        // and what bindings have been expected to give
        let told = |f: &Filter| {
            let mut f = f.clone();
            for p in s.slots.iter().filter(|p| !p.set.is_full(p.bits)) {
                f.narrow(Dim::Slot(p.slot), &p.set, p.bits);
            }
            f
        };
        k.unwrap_or_else(Known::anything).map(slots, told)
    }

    /// The group goes on in another stage of this epoch.
    pub(super) fn goto(&mut self, elem: ElemId, port: u16, s: &State, group: Group, why: Why) {
        let known = self.known(&group, s);
        let key = Key {
            elem,
            port,
            fresh: false,
            state: s.clone().at_stage(),
            write: false,
        };
        let id = self.s.stage(Some((self.me, &group.path)), key, why, &known);
        self.leave(group, s.steps.clone(), End::Goto(id));
    }

    /// The group is written out and goes on in a new epoch.
    pub(super) fn write_out(&mut self, elem: ElemId, port: u16, s: &State, group: Group) {
        let known = self.known(&group, s).map(&self.s.slots, |f| carried(f, s));
        let key = Key {
            elem,
            port,
            fresh: true,
            state: s.written(),
            write: false,
        };
        let next = self
            .s
            .stage(Some((self.me, &group.path)), key, Why::Written, &known);
        let end = End::Write {
            image: s.image(true),
            next,
        };
        self.leave(group, s.steps.clone(), end);
    }

    /// Is nothing gained by a new stage here, because this one began here?
    pub(super) fn just_begun(&self, elem: ElemId, port: u16, s: &State, fresh: bool) -> bool {
        let k = &self.s.stages[self.me].key;
        k.elem == elem && k.port == port && k.state == *s && (k.fresh || !fresh)
    }

    pub(super) fn help(&mut self, need: Need, elem: ElemId, port: u16, s: &State, group: Group) {
        match need {
            Need::Stage if !self.just_begun(elem, port, s, false) => {
                self.goto(elem, port, s, group, Why::Dynamic)
            }
            Need::Write
                if !(self.just_begun(elem, port, s, true)
                    && s.writes.is_empty()
                    && s.sums.is_empty()) =>
            {
                self.write_out(elem, port, s, group)
            }
            Need::Punt(cause) => self.punt(elem, port, s, group, cause),
            _ => self.punt(elem, port, s, group, "cannot be expressed"),
        }
    }

    /// May there be a packet that fits, by what is known of the stage?
    pub(super) fn possible(&self, f: &Filter) -> bool {
        self.among.is_empty() || self.among.iter().any(|c| !c.is_disjoint(f))
    }

    /// What a dimension may be in packets that fit.
    pub(super) fn values(&self, f: &Filter, d: Dim) -> Option<ValueSet> {
        let own = f.get(d);
        if self.among.is_empty() || own.is_some_and(|s| s.single().is_some()) {
            return own.cloned();
        }
        let mut all: Option<ValueSet> = None;
        for c in self.among.iter().filter(|c| !c.is_disjoint(f)) {
            let here = match (c.get(d), own) {
                (Some(a), Some(b)) => a.intersect(b),
                (Some(a), None) | (None, Some(a)) => a.clone(),
                (None, None) => return None,
            };
            all = Some(match all {
                Some(a) => a.union(&here),
                None => here,
            });
        }
        all
    }
}
