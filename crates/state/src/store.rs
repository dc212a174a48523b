//! State that outlives a packet and that more than one place uses: rewriter tables, mapper choices, ARP tables.
//!
//! DESIGN: a stateful element's table exists once; fast path and slow path share it. So tables live here, and elements
//! hold a [`StateId`]. Forking a graph clones the store with it.

use crate::ElemId;
use crate::scope::Scope;
use onefold_packet::Pkt;
use std::any::Any;

/// A piece of shared state.
pub trait State: Any + Send {
    /// What several workers do with it.
    fn scope(&self) -> Scope;
    /// A copy.
    fn clone_state(&self) -> Box<dyn State>;
    /// A text form that is equal exactly when two states behave the same (sorted; no addresses, no capacities).
    fn summary(&self) -> String;
    /// Packets kept inside (an ARP table's waiting lists). They count as held once, however many elements share the
    /// state.
    fn held(&self) -> usize {
        0
    }
    /// Takes out all packets kept inside, so that the end of a run can account for them.
    fn drain_held(&mut self) -> Vec<Pkt> {
        Vec::new()
    }
    /// `old` is what this state was in the graph that this one's graph replaces, used by the same elements with the
    /// same configurations (`same` has an old element's number in the new graph). [`Takes::Whole`], the default: `old`
    /// is used in the place of this state. One that holds numbers of elements or states keeps these, which are the
    /// new graph's, and takes everything else.
    fn take_state(
        &mut self,
        _old: &mut dyn State,
        _same: &dyn Fn(ElemId) -> Option<ElemId>,
    ) -> Takes {
        Takes::Whole
    }
    /// `old` is what this state was in the graph that this one's graph replaces, of an element of the same name and
    /// class whose configuration has changed: takes what people have set while it ran, as far as it means something
    /// still. Nothing, unless a state says otherwise.
    fn take_settings(&mut self, _old: &dyn State) {}
    /// See [`StateStore::part`].
    fn part(&self) -> Option<&dyn Any> {
        None
    }
    /// See [`StateStore::part_mut`].
    fn part_mut(&mut self) -> Option<&mut dyn Any> {
        None
    }
    /// See [`StateStore::get_mut`].
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// See [`StateStore::get`].
    fn as_any(&self) -> &dyn Any;
}

/// How an element or a state of a new graph goes on with what its predecessor has learnt and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The predecessor itself is to be used.
    Whole,
    /// It has taken what there was.
    Done,
    /// It cannot go on with it, and begins anew.
    Nothing,
}

/// Names a state in its [`StateStore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub u32);

/// Owns all shared state of a graph.
#[derive(Default)]
pub struct StateStore {
    states: Vec<Box<dyn State>>,
    published: Vec<(ElemId, StateId)>,
}

impl Clone for StateStore {
    fn clone(&self) -> Self {
        StateStore {
            states: self.states.iter().map(|s| s.clone_state()).collect(),
            published: self.published.clone(),
        }
    }
}

impl StateStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a state.
    pub fn alloc(&mut self, s: Box<dyn State>) -> StateId {
        self.states.push(s);
        StateId((self.states.len() - 1) as u32)
    }
    /// Makes a state known as the one that element `elem` offers to others (a mapper, a pattern set, an ARP table).
    pub fn publish(&mut self, elem: ElemId, id: StateId) {
        self.published.retain(|(e, _)| *e != elem);
        self.published.push((elem, id));
    }
    /// The state that `elem` offers, if it offers one.
    pub fn published_by(&self, elem: ElemId) -> Option<StateId> {
        self.published
            .iter()
            .find(|(e, _)| *e == elem)
            .map(|(_, s)| *s)
    }
    /// What several workers do with a state.
    pub fn scope(&self, id: StateId) -> Option<Scope> {
        Some(self.states.get(id.0 as usize)?.scope())
    }
    /// State `id` goes on with what `from` has as `old`; see [`State::take_state`]. False when it begins anew.
    pub fn take_state(
        &mut self,
        id: StateId,
        from: &mut StateStore,
        old: StateId,
        same: &dyn Fn(ElemId) -> Option<ElemId>,
    ) -> bool {
        let mine = self.states.get_mut(id.0 as usize);
        let (Some(mine), Some(old)) = (mine, from.states.get_mut(old.0 as usize)) else {
            return false;
        };
        let alike = mine.as_any().type_id() == old.as_any().type_id();
        match alike.then(|| mine.take_state(old.as_mut(), same)) {
            Some(Takes::Whole) => {
                std::mem::swap(mine, old);
                true
            }
            Some(Takes::Done) => true,
            Some(Takes::Nothing) | None => false,
        }
    }
    /// State `id` takes what people have set in `from`'s `old`; see [`State::take_settings`].
    pub fn take_settings(&mut self, id: StateId, from: &StateStore, old: StateId) {
        let mine = self.states.get_mut(id.0 as usize);
        if let (Some(mine), Some(old)) = (mine, from.states.get(old.0 as usize)) {
            mine.take_settings(old.as_ref());
        }
    }
    /// The state, if it has this type.
    #[inline]
    pub fn get<T: State>(&self, id: StateId) -> Option<&T> {
        self.states.get(id.0 as usize)?.as_any().downcast_ref()
    }
    /// The state, if it has this type.
    #[inline]
    pub fn get_mut<T: State>(&mut self, id: StateId) -> Option<&mut T> {
        self.states
            .get_mut(id.0 as usize)?
            .as_any_mut()
            .downcast_mut()
    }
    /// The part of a state that is known to those who do not know the state, if it has one of this type.
    #[inline]
    pub fn part<T: Any>(&self, id: StateId) -> Option<&T> {
        self.states.get(id.0 as usize)?.part()?.downcast_ref()
    }
    /// The part of a state that is known to those who do not know the state, if it has one of this type.
    #[inline]
    pub fn part_mut<T: Any>(&mut self, id: StateId) -> Option<&mut T> {
        self.states
            .get_mut(id.0 as usize)?
            .part_mut()?
            .downcast_mut()
    }
    /// Two different states at once.
    pub fn get_two_mut<A: State, B: State>(
        &mut self,
        a: StateId,
        b: StateId,
    ) -> Option<(&mut A, &mut B)> {
        let [x, y] = self
            .states
            .get_disjoint_mut([a.0 as usize, b.0 as usize])
            .ok()?;
        Some((
            x.as_any_mut().downcast_mut()?,
            y.as_any_mut().downcast_mut()?,
        ))
    }
    /// Packets kept inside shared states; elements' own come on top.
    pub fn held(&self) -> usize {
        self.states.iter().map(|s| s.held()).sum()
    }
    /// Takes out all packets kept inside shared states.
    pub fn drain_held(&mut self) -> Vec<Pkt> {
        self.states
            .iter_mut()
            .flat_map(|s| s.drain_held())
            .collect()
    }
    /// All states' summaries, for comparing two runs.
    pub fn summaries(&self) -> Vec<String> {
        self.states.iter().map(|s| s.summary()).collect()
    }
}

/// Implements the mechanical part of [`State`] inside an `impl State` block for a `Clone` type.
#[macro_export]
macro_rules! state_any {
    ($scope:expr) => {
        fn scope(&self) -> $crate::Scope {
            $scope
        }
        $crate::state_any!();
    };
    () => {
        fn clone_state(&self) -> Box<dyn $crate::State> {
            Box::new(self.clone())
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
    };
}
