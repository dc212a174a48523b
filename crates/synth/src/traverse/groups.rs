//! Groups of filters on their way through one stage: where they wait, join and leave it.

use super::known::{carried, hull};
use super::{Group, Key, Leaf, Part, Synthesizer};
use crate::program::{Action, End, Filter, Step, Why};
use crate::state::{Need, State};
use onefold_elements::ElemId;
use std::collections::{BTreeMap, HashMap};

/// One stage being made.
pub(super) struct Traversal<'a, 'b> {
    pub(super) s: &'a mut Synthesizer<'b>,
    pub(super) me: usize,
    pub(super) waiting: BTreeMap<(u32, u32), (ElemId, u16, State, Group)>,
    pub(super) at: HashMap<(ElemId, u16, State), (u32, u32)>,
    pub(super) seq: u32,
    pub(super) visits: HashMap<ElemId, u32>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) actions: Vec<Action>,
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
            leaves: Vec::new(),
            actions: Vec::new(),
        }
    }

    pub(super) fn run(mut self, key: &Key, known: &Filter) -> (Vec<Leaf>, Vec<Action>) {
        let first = Part {
            rank: Vec::new(),
            filter: known.clone(),
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
            self.element(elem, port, state, group);
        }
        (self.leaves, self.actions)
    }

    pub(super) fn arrive(&mut self, elem: ElemId, port: u16, state: State, group: Group) {
        if group.parts.is_empty() {
            return;
        }
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
        let action = self.actions.len() as u32;
        self.actions.push(Action {
            steps,
            end,
            path: group.path,
        });
        let leaves = group.parts.into_iter().map(|part| Leaf { part, action });
        self.leaves.extend(leaves);
    }

    pub(super) fn punt(&mut self, elem: ElemId, port: u16, s: &State, group: Group, cause: &str) {
        let end = End::Punt {
            elem,
            port,
            cause: cause.to_string(),
            image: s.image(true),
        };
        self.leave(group, s.steps.clone(), end);
    }

    pub(super) fn known(&self, g: &Group) -> Filter {
        let mut it = g.parts.iter();
        let Some(first) = it.next() else {
            return Filter::default();
        };
        let mut f = first.filter.clone();
        for p in it {
            if f.0.is_empty() {
                break;
            }
            f = hull(&f, &p.filter);
        }
        f
    }

    /// The group goes on in another stage of this epoch.
    pub(super) fn goto(&mut self, elem: ElemId, port: u16, s: &State, group: Group, why: Why) {
        let known = self.known(&group);
        let key = Key {
            elem,
            port,
            fresh: false,
            state: s.clone().at_stage(),
            write: false,
        };
        let id = self.s.stage(Some(self.me), key, why, &known);
        self.leave(group, s.steps.clone(), End::Goto(id));
    }

    /// The group is written out and goes on in a new epoch.
    pub(super) fn write_out(&mut self, elem: ElemId, port: u16, s: &State, group: Group) {
        let known = carried(&self.known(&group), s);
        let key = Key {
            elem,
            port,
            fresh: true,
            state: s.written(),
            write: false,
        };
        let next = self.s.stage(Some(self.me), key, Why::Written, &known);
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
}
