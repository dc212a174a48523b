//! A group meets the cases of an element.

use super::cases::{Meet, covered, meet, subtract, trim};
use super::groups::Traversal;
use super::{Group, MAX_CROSSINGS, MAX_VISITS, Part};
use crate::cond::{self, Trouble};
use crate::input::Input;
use crate::layout::Layout;
use crate::program::{Counted, Dim, Expr, Filter, Origin, Step, Why};
use crate::state::{Got, State};
use onefold_element::ElemId;
use onefold_element::model::{Case, Cond, Exit, Model, Op, Read, field};
use std::collections::{BTreeMap, HashMap};

/// Most alternatives of earlier cases that are taken out of what a case takes.
const MAX_EARLIER: usize = 64;
/// Cause of punts.
const ROUND: &str = "goes round between functions";
/// Most groups at one element in one stage.
const MAX_GROUPS: u32 = 4096;

/// What a case of an element makes of a class; whether its packets are counted is seen when they have taken it
/// ([`decided`]).
fn origin(elem: ElemId, case: &Case) -> Option<Origin> {
    let decides = case.origin.is_some() || case.policy;
    let arg = case.origin.and_then(|a| u32::try_from(a).ok());
    decides.then(|| Origin::of(elem, arg))
}

/// Packets of this state at an element have been decided about by the case that their last origin is.
pub(super) fn decided(case: &Case, before: &State, group: &mut Group) {
    if case.origin.is_none() && !case.policy {
        return;
    }
    let bind = |s: &&Step| matches!(s, Step::Bind { .. });
    let counted = Counted {
        len: before.len_at(),
        binds: u16::try_from(before.steps.iter().filter(bind).count()).unwrap_or(u16::MAX),
    };
    for p in &mut group.parts {
        if let Some(o) = p.origin.last_mut() {
            o.counted = Some(counted);
        }
    }
}

/// Alternatives of cases (with the cases' numbers) that speak of the packet's length among other things: the few that
/// make later cases' packets longer.
fn lengths<'a>(all: &'a [Vec<Filter>], s: &State, hint: Layout) -> Vec<(usize, &'a Filter)> {
    let layout = match s.layout() {
        Layout::Unknown => hint,
        l => l,
    };
    let field = match layout {
        Layout::Ip4(n) => Some((n + 2) * 8),
        Layout::Ip6(n) => Some((n + 4) * 8),
        Layout::Unknown => None,
    };
    let field = field.map(|bit| Dim::Bits { bit, bits: 16 });
    let of = |f: &&Filter| {
        let length = |d: &Dim| *d == Dim::Len || Some(*d) == field;
        f.0.len() > 1 && f.0.iter().any(|(d, _)| length(d))
    };
    let cases = all.iter().enumerate();
    let terms = cases.flat_map(|(i, t)| t.iter().filter(of).map(move |f| (i, f)));
    terms.take(MAX_EARLIER).collect()
}

/// The cases that an element distinguishes at an input, or why packets are punted there.
fn cases_at(input: &Input, elem: ElemId, port: u16) -> Result<&[Case], &'static str> {
    let info = input.elements.get(elem.0 as usize);
    let info = info.ok_or("no such element")?;
    if info.input_is_pull.get(usize::from(port)) == Some(&true) {
        return Err("packets are pulled here");
    }
    match info.models.get(usize::from(port)) {
        Some(Model::Cases(c)) => Ok(c),
        Some(Model::None(cause)) => Err(cause),
        None => Err("no model of this input"),
    }
}

/// The alternatives of an element's cases, as parts of a group meet them.
struct Alternatives<'a> {
    /// By case.
    conditions: &'a [Vec<Filter>],
    /// Which of them no packet gets to.
    dead: Vec<Vec<bool>>,
    /// Those that speak of lengths: see [`lengths`].
    short: Vec<(usize, &'a Filter)>,
}

impl Traversal<'_, '_> {
    /// How often a link was crossed on the way to here.
    fn crossings(&self, link: ElemId, group: &Group) -> usize {
        let before = &self.s.stages[self.me].trail;
        let before = before.iter().filter(|t| t.0 == link);
        before.count() + group.path.iter().filter(|e| **e == link).count()
    }

    pub(super) fn element(&mut self, elem: ElemId, port: u16, s: State, mut group: Group) {
        let v = self.visits.entry(elem).or_default();
        *v += 1;
        let again = *v;
        let again_on_path = group.path.iter().filter(|e| **e == elem).count();
        if again > MAX_GROUPS || again_on_path >= MAX_VISITS {
            return self.punt(elem, port, &s, group, "too many rounds of a cycle");
        }
        if self.s.is_link(elem) && self.crossings(elem, &group) >= MAX_CROSSINGS {
            return self.punt(elem, port, &s, group, ROUND);
        }
        group.parts.sort_by(|a, b| a.rank.cmp(&b.rank));
        let input = self.s.input;
        let cases = match cases_at(input, elem, port) {
            Ok(cases) => cases,
            Err(cause) => return self.punt(elem, port, &s, group, cause),
        };
        let always = |c: &Case| matches!(c.when, Cond::Always);
        if let [case] = cases
            && always(case)
        {
            group.path.push(elem);
            if let Some(origin) = origin(elem, case) {
                group.parts.iter_mut().for_each(|p| p.origin.push(origin));
            }
            return self.take(elem, port, &s, group, case);
        }
        let conditions = match self.conditions(cases, &s, &group) {
            Ok(all) => all,
            Err(Trouble::Need(n)) => return self.help(n, elem, port, &s, group),
            Err(Trouble::TooBig) => {
                let cause = "the condition has too many alternatives";
                return self.punt(elem, port, &s, group, cause);
            }
        };
        let total: usize = conditions.iter().map(Vec::len).sum();
        if group.parts.len() > 1
            && group.parts.len().saturating_mul(total) > self.s.budget.rules.saturating_mul(64)
            && !self.just_begun(elem, port, &s, false)
        {
            let text = format!(
                "{}: the rules so far times its cases exceed the budget; a new stage begins there",
                self.s.name(elem)
            );
            self.s.note(text);
            return self.goto(elem, port, &s, group, Why::Budget);
        }
        let Some(divided) = self.divide(elem, &s, &group, cases, &conditions) else {
            return self.too_many(elem, port, &s, group);
        };
        group.path.push(elem);
        for (i, parts) in divided {
            let g = Group {
                parts,
                path: group.path.clone(),
            };
            self.take(elem, port, &s, g, &cases[i]);
        }
    }

    /// Conditions of cases in a state, once for all parts of a group; those that no packet of it gets to may be left
    /// out.
    fn conditions(
        &self,
        cases: &[Case],
        s: &State,
        group: &Group,
    ) -> Result<Vec<Vec<Filter>>, Trouble> {
        let hint = self.hint(group);
        let mut all = Vec::with_capacity(cases.len());
        for c in cases {
            match cond::terms(&c.when, s, hint, self.s.budget.terms) {
                Ok(t) => all.push(t),
                // a need of a later case concerns only packets that no earlier case takes
                Err(Trouble::Need(_)) if !self.can_reach(group, &all) => break,
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(all)
    }

    /// The parts of a group by the case that takes them; cases with equal operations and exit share the first one's
    /// place.
    /// `None` where that exceeds the budget.
    fn divide(
        &self,
        elem: ElemId,
        s: &State,
        group: &Group,
        cases: &[Case],
        conditions: &[Vec<Filter>],
    ) -> Option<BTreeMap<usize, Vec<Part>>> {
        let mut same: HashMap<(&[Op], &Exit), usize> = HashMap::new();
        let class_of: Vec<usize> = cases
            .iter()
            .enumerate()
            .map(|(i, c)| *same.entry((&c.ops, &c.exit)).or_insert(i))
            .collect();
        let among = Alternatives {
            conditions,
            dead: covered(conditions),
            short: lengths(conditions, s, self.hint(group)),
        };
        let (mut made, mut size) = (0usize, 0usize);
        let most = self.s.room().saturating_sub(self.size);
        let waiting: usize = self.waiting.values().map(|w| w.3.parts.len()).sum();
        let rules = self.s.budget.rules;
        let room = rules.saturating_sub(waiting + self.leaves.len());
        let mut out: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
        for p in &group.parts {
            self.shares(p, s, &among, |i, filter| {
                let mut rank = p.rank.clone();
                rank.push(i as u32);
                let mut from = p.origin.clone();
                from.extend(origin(elem, &cases[i]));
                let part = Part {
                    rank,
                    filter,
                    origin: from,
                };
                size += part.size();
                out.entry(class_of[i]).or_default().push(part);
                made += 1;
            });
            if made > room || size > most {
                return None;
            }
        }
        Some(out)
    }

    /// What the cases take of a part, one after the other.
    fn shares(
        &self,
        part: &Part,
        s: &State,
        among: &Alternatives<'_>,
        mut found: impl FnMut(usize, Filter),
    ) {
        let width = |d| cond::width(s, d);
        let mut rest = part.filter.clone();
        for (i, alternatives) in among.conditions.iter().enumerate() {
            for (t, dead) in alternatives.iter().zip(&among.dead[i]) {
                if *dead {
                    continue;
                }
                let (mut filter, left) = match meet(&rest, t) {
                    Meet::Never => continue,
                    Meet::Whole => (rest.clone(), false),
                    Meet::Part => {
                        let mut filter = rest.clone();
                        for (d, set) in &t.0 {
                            filter.narrow(*d, set, width(*d));
                        }
                        (filter, subtract(&mut rest, t, width))
                    }
                };
                let mut earlier = among.short.iter().take_while(|(case, _)| *case < i);
                let possible = earlier.all(|(_, e)| trim(&mut filter, e, width));
                if possible && self.possible(&filter) {
                    found(i, filter);
                }
                if !left {
                    // nothing of it is left for later cases
                    return;
                }
            }
        }
    }

    /// A group whose cases exceed the budget: a new stage, or a punt where one has just begun.
    fn too_many(&mut self, elem: ElemId, port: u16, s: &State, group: Group) {
        let name = self.s.name(elem);
        if self.just_begun(elem, port, s, false) {
            let cause = "more cases than the budget of rules allows";
            self.s.note(format!("{name}: {cause}"));
            return self.punt(elem, port, s, group, cause);
        }
        let text = format!("{name}: the budget of rules is exceeded; a new stage begins there");
        self.s.note(text);
        self.goto(elem, port, s, group, Why::Budget);
    }

    /// Takes out of a part what cases before `case` take of it, now that it is of one protocol only. False when nothing
    /// is left.
    pub(super) fn trimmed(
        &self,
        at: (ElemId, u16),
        s: &State,
        hint: Layout,
        case: &Case,
        f: &mut Filter,
    ) -> bool {
        let info = self.s.input.elements.get(at.0.0 as usize);
        let Some(Model::Cases(cases)) = info.and_then(|i| i.models.get(usize::from(at.1))) else {
            return true;
        };
        let this = cases.iter().position(|c| std::ptr::eq(c, case));
        let mut terms = 0;
        for c in cases.iter().take(this.unwrap_or(0)) {
            let Ok(t) = cond::terms(&c.when, s, hint, MAX_EARLIER) else {
                return true;
            };
            terms += t.len();
            if terms > MAX_EARLIER {
                return true;
            }
            if !t.iter().all(|e| trim(f, e, |d| cond::width(s, d))) {
                return false;
            }
        }
        true
    }

    /// Does anything of the group get past these cases?
    fn can_reach(&self, group: &Group, earlier: &[Vec<Filter>]) -> bool {
        group
            .parts
            .iter()
            .any(|p| !earlier.iter().flatten().any(|t| t.covers(&p.filter)))
    }

    pub(super) fn hint(&self, group: &Group) -> Layout {
        let mut it = group.parts.iter().map(|p| Layout::of(&p.filter));
        match it.next() {
            Some(l) if it.all(|o| o == l) => l,
            _ => Layout::Unknown,
        }
    }

    /// The IP protocol, if the group has but one.
    pub(super) fn proto(&self, s: &State, group: &Group) -> Option<u128> {
        match s.read(Read::Field(field::IP_PROTO)).ok()? {
            Got::Expr(Expr::Const(c)) => Some(c),
            Got::Expr(Expr::Of(d, 0)) => {
                let mut all = group
                    .parts
                    .iter()
                    .map(|p| self.values(&p.filter, d).and_then(|s| s.single()));
                let first = all.next()??;
                all.all(|v| v == Some(first)).then_some(first)
            }
            _ => None,
        }
    }
}
