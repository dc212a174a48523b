//! Stages whose rules come from a long list of cases: both lists are compared rule by rule ([`crate::prove::lists`]).

use super::*;
use crate::prove::element::{self, Got};
use crate::prove::first::Rule;
use crate::prove::vars::MAX_DECIDED;

/// Most elements that are visited to find the long list that packets come to.
const MAX_STEPS: u32 = 10_000;

/// In a list that is made a diagram at once, so many cases at most say something else than all others ...
const FEW_OTHERS: usize = 16;
/// ... and they are at most one in so many.
const SHARE: usize = 64;

/// Comparisons, by stage, what its slots hold, and where the reference graph is with which packet.
pub(super) type Comparisons = HashMap<(StageId, Vec<Ref>, Place, Rc<Sym>), Option<Listed>>;

/// A comparison of a stage's rules with an element's cases.
#[derive(Clone)]
pub(super) struct Listed {
    /// The element's input.
    place: Place,
    /// What the cases read there.
    got: Rc<Vec<Got>>,
    /// The comparison.
    pub with: Rc<Compared>,
}

impl<'a> Search<'a> {
    /// The comparison of a stage's rules with the first long list that packets come to, if there is one.
    pub(super) fn listed(&mut self, way: &Position, id: StageId, stage: &Stage) -> Option<Listed> {
        let long = self.long;
        let is_long = |m: &Model| matches!(m, Model::Cases(c) if c.len() >= long);
        let place = way.at.place?;
        let elements = &self.input.elements;
        if !elements.iter().any(|e| e.models.iter().any(is_long)) {
            return None;
        }
        let key = (id, slots_key(&way.slots), place, way.at.sym.clone());
        if let Some(l) = self.listed.get(&key) {
            return l.clone();
        }
        let l = self.compare(way, stage);
        self.listed.insert(key, l.clone());
        l
    }

    fn compare(&mut self, way: &Position, stage: &Stage) -> Option<Listed> {
        let nth = self.compared.len() as u32;
        if nth >= MAX_DECIDED {
            return None;
        }
        let (place, got, marks) = self.first_long(way)?;
        let program = self.list(stage, &way.slots).ok()?;
        let cases = self.cases.get(&place)?;
        let (source, trouble) = cases.rules(&mut self.w, &got);
        if trouble.is_some() {
            return None;
        }
        if is_uniform(&source) {
            self.long = usize::MAX;
            return None;
        }
        let (dd, vars) = (&mut self.w.dd, &mut self.w.vars);
        let Some(c) = lists::compare(dd, vars, nth, &source, &program, &marks) else {
            // the packets must not be told apart by other lists' kinds if this one is a diagram anyway
            self.long = usize::MAX;
            return None;
        };
        let with = Rc::new(c);
        self.compared.push(with.clone());
        Some(Listed {
            place,
            got: Rc::new(got),
            with,
        })
    }

    /// The long list that packets come to first, what its cases read, and the functions that other elements before
    /// and behind it ask about. `None`: there is no such list, or packets come to different ones.
    fn first_long(&mut self, way: &Position) -> Option<(Place, Vec<Got>, Vec<Ref>)> {
        let input = self.input;
        let mut found: Option<(Place, Vec<Got>)> = None;
        let mut marks: BTreeSet<Ref> = BTreeSet::new();
        let mut open = vec![(way.here, way.at.place?, way.at.sym.clone(), false)];
        let mut steps = 0;
        while let Some((here, place, sym, behind)) = open.pop() {
            steps += 1;
            if steps > MAX_STEPS || self.w.dd.stopped().is_some() {
                return None;
            }
            let models = &input.elements.get(place.0.0 as usize)?.models;
            let Some(Model::Cases(list)) = models.get(usize::from(place.1)) else {
                continue;
            };
            let cases = (self.cases)
                .entry(place)
                .or_insert_with(|| Cases::new(list));
            if list.len() >= self.long && behind {
                // a second list, behind the first: what it asks about is too much to keep
                continue;
            }
            if list.len() >= self.long {
                let got = cases.readings(&mut self.w, &sym, here);
                match &found {
                    None => found = Some((place, got)),
                    Some(f) if f.0 == place && f.1 == got => continue,
                    Some(_) => return None,
                }
                let ports: BTreeSet<usize> = list
                    .iter()
                    .filter_map(|c| match &c.exit {
                        Exit::Port(p) if c.ops.is_empty() => Some(*p),
                        _ => None,
                    })
                    .collect();
                let to = ports.iter().filter_map(|p| self.successor(place.0, *p));
                open.extend(to.map(|to| (here, to, sym.clone(), true)));
                continue;
            }
            let got = cases.readings(&mut self.w, &sym, here);
            let (rules, _) = cases.rules(&mut self.w, &got);
            marks.extend(rules.iter().flat_map(|r| &r.all));
            let (taken, _) = cases.taken(&mut self.w, &sym, here);
            let some = self.w.dd.ite(here, taken, NO);
            for v in self.w.dd.values(some) {
                let here = self.w.dd.is(some, v);
                let Some(case) = list.get((v as usize).wrapping_sub(1)) else {
                    continue;
                };
                let ports = match &case.exit {
                    Exit::Port(p) | Exit::PortOrDrop(p, _) => std::slice::from_ref(p),
                    Exit::Each(ports) => ports.as_slice(),
                    _ => continue,
                };
                for (here, done) in element::apply(&mut self.w, &sym, &case.ops, here) {
                    let Ok(done) = done else { continue };
                    let sym = Rc::new(done.sym);
                    let to = ports.iter().filter_map(|p| self.successor(place.0, *p));
                    open.extend(to.map(|to| (here, to, sym.clone(), behind)));
                }
            }
        }
        let (place, got) = found?;
        Some((place, got, marks.into_iter().collect()))
    }

    /// From now on the element's list says what the comparison leaves open. Gives what it said before, for
    /// [`Search::forget`].
    pub(super) fn assume(&mut self, l: &Listed) -> Option<(Ref, Option<Cause>)> {
        let cases = self.cases.get_mut(&l.place)?;
        cases.assume(&l.got, Some((l.with.taken, None)))
    }

    /// The element's list says again what it said before the comparison was assumed.
    pub(super) fn forget(&mut self, l: &Listed, before: Option<(Ref, Option<Cause>)>) {
        if let Some(cases) = self.cases.get_mut(&l.place) {
            cases.assume(&l.got, before);
        }
    }

    /// Some packets of a set that do not depend on unknown kinds: a case of that kind really decides about them.
    pub fn concrete(&mut self, mut set: Ref) -> Ref {
        for c in self.compared.clone() {
            set = c.concrete(&mut self.w.dd, &mut self.w.vars, set);
        }
        set
    }
}

/// Do all cases but a few say the same? The diagram of such a list is small.
fn is_uniform(source: &[Rule]) -> bool {
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for r in source {
        *counts.entry(r.value).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or(0);
    let others = source.len() - most;
    others <= FEW_OTHERS && others * SHARE <= source.len()
}

/// What the slots hold, as a key.
pub(super) fn slots_key(slots: &Slots) -> Vec<Ref> {
    slots
        .iter()
        .flat_map(|(s, v)| std::iter::once(u32::from(s.0)).chain(v.iter().copied()))
        .collect()
}
