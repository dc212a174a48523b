//! Partial programs in sequence: what a switch, a network card and a server do one after the other, and what that is
//! together.
//!
//! A partial program hands packets over under a name: `write IMAGE then "NAME"` (or an output of an element that is
//! asked). The packet is written out as the image says, annotations and header marks with it, and goes on where a
//! *later* program of the sequence takes packets under that name: in a fresh stage. The name is all that is known
//! besides: a tag.
//!
//! [`compose`] is the meaning of a sequence: one program, in which handing over is writing out. Whatever executes,
//! proves or tries programs does it with that one. [`split`] makes two parts of a program.

use crate::program::*;
use onefold_element::ElemId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is wrong with a sequence, parts counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ComposeError {
    /// No programs.
    #[error("there is no program")]
    Nothing,
    /// Another graph's.
    #[error("part {0} is one of another graph than part 1: its elements are not the same")]
    Foreign(usize),
    /// Two parts have an entry for one source.
    #[error("part {0} has an entry for e{source}, as an earlier part has", source = .1.0)]
    Entry(usize, ElemId),
    /// Nobody takes the packets.
    #[error("part {0} hands packets over under the name \"{1}\", and no later part takes them")]
    NotTaken(usize, String),
    /// Taken where no epoch begins.
    #[error(
        "part {0} takes packets under the name \"{1}\" in a stage that is not fresh, or that there is not"
    )]
    NotFresh(usize, String),
    /// Handed over while nothing is written out.
    #[error(
        "part {0} hands packets over under the name \"{1}\" amid an epoch: only what is written out, or comes from an element that was asked, can be"
    )]
    Amid(usize, String),
    /// A stage that there is not.
    #[error("part {0} goes on in stage {1}, which it does not have")]
    NoStage(usize, u32),
    /// Too many.
    #[error("all parts together have more slots or stages than a program can have")]
    TooMany,
}

/// The program that a sequence of partial programs is.
///
/// # Errors
/// When the parts do not fit together.
pub fn compose(parts: &[Program]) -> Result<Program, ComposeError> {
    let first = parts.first().ok_or(ComposeError::Nothing)?;
    let mut all = Program {
        elements: first.elements.clone(),
        ..Program::default()
    };
    // where each part's stages and slots begin
    let mut starts = Vec::with_capacity(parts.len());
    let (mut stages, mut slots) = (0usize, 0usize);
    for p in parts {
        starts.push((stages, slots));
        stages += p.stages.len();
        slots += p.slots.len();
    }
    if stages >= StageId::ELSEWHERE as usize || slots > usize::from(u16::MAX) + 1 {
        return Err(ComposeError::TooMany);
    }
    for (i, (p, start)) in parts.iter().zip(&starts).enumerate() {
        let nth = i + 1;
        if p.elements != all.elements {
            return Err(ComposeError::Foreign(nth));
        }
        // where each name leads
        let mut hands = Vec::with_capacity(p.hands.len());
        for name in &p.hands {
            let mut later = parts.iter().zip(&starts).enumerate().skip(nth);
            let taken = later.find_map(|(j, (q, s))| {
                let t = q.takes.iter().find(|(n, _)| n == name)?;
                Some((j, q, s, t.1))
            });
            let Some((j, q, s, stage)) = taken else {
                return Err(ComposeError::NotTaken(nth, name.clone()));
            };
            if !q.stages.get(stage.0 as usize).is_some_and(|s| s.fresh) {
                return Err(ComposeError::NotFresh(j + 1, name.clone()));
            }
            hands.push(StageId(stage.0 + s.0 as u32));
        }
        let mut move_to = |s: StageId, new_epoch: bool| match s.hand() {
            Some(h) => match (hands.get(h), p.hands.get(h)) {
                (Some(to), _) if new_epoch => Ok(*to),
                (_, Some(name)) => Err(ComposeError::Amid(nth, name.clone())),
                _ => Err(ComposeError::NoStage(nth, s.0)),
            },
            None if (s.0 as usize) < p.stages.len() => Ok(StageId(s.0 + start.0 as u32)),
            None => Err(ComposeError::NoStage(nth, s.0)),
        };
        for e in &p.entries {
            if all.entries.iter().any(|f| f.source == e.source) {
                return Err(ComposeError::Entry(nth, e.source));
            }
            let stage = move_to(e.stage, false)?;
            all.entries.push(Entry { stage, ..*e });
        }
        all.notes.extend(p.notes.iter().cloned());
        all.slots.extend(p.slots.iter().cloned());
        for s in &p.stages {
            let mut s = s.clone();
            for a in &mut s.actions {
                leads(a, &mut move_to)?;
            }
            if start.1 > 0 {
                move_slots(&mut s, start.1 as u16);
            }
            all.stages.push(s);
        }
    }
    Ok(all)
}

/// All stages that an action leads to, changed; with whether a new epoch begins there.
fn leads<E>(
    a: &mut Action,
    f: &mut dyn FnMut(StageId, bool) -> Result<StageId, E>,
) -> Result<(), E> {
    let mut list = |l: &mut Vec<Next>, new: bool| {
        for n in l {
            if let Next::Stage(s) = n {
                *s = f(*s, new)?;
            }
        }
        Ok(())
    };
    for s in &mut a.steps {
        if let Step::Bind { bound, pass, .. } = s {
            list(bound, false)?;
            list(pass, false)?;
        }
    }
    match &mut a.end {
        End::Ask { outputs, .. } => list(outputs, true),
        End::Fork(ways) => list(ways, false),
        End::Write { next, .. } => {
            *next = f(*next, true)?;
            Ok(())
        }
        End::Goto(next) => {
            *next = f(*next, false)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

fn move_slots(s: &mut Stage, by: u16) {
    let slot = |n: &mut Slot| n.0 = n.0.saturating_add(by);
    let dim = |d: &mut Dim| {
        if let Dim::Slot(n) = d {
            slot(n);
        }
    };
    let expr = |e: &mut Expr| {
        if let Expr::Of(d, _) = e {
            dim(d);
        }
    };
    let filter = |f: &mut Filter| f.0.iter_mut().for_each(|(d, _)| dim(d));
    let image = |m: &mut Arc<Image>| {
        let m = Arc::make_mut(m);
        m.writes.iter_mut().for_each(|w| expr(&mut w.value));
        for t in (m.sums.iter_mut()).flat_map(|s| s.groups.iter_mut().flatten()) {
            match t {
                SumTerm::Slot(n) => slot(n),
                SumTerm::Change { from, to, .. } => {
                    expr(from);
                    expr(to);
                }
            }
        }
        m.annos.iter_mut().for_each(|(_, e)| expr(e));
        if let TypeExpr::Destination(e, _) = &mut m.packet_type {
            expr(e);
        }
    };
    filter(&mut s.known);
    s.among.iter_mut().for_each(filter);
    s.rules.iter_mut().for_each(|r| filter(&mut r.filter));
    for a in &mut s.actions {
        for step in &mut a.steps {
            if let Step::Bind {
                image: m,
                first,
                anno,
                ..
            } = step
            {
                image(m);
                slot(first);
                if let Some((_, n)) = anno {
                    slot(n);
                }
            }
        }
        match &mut a.end {
            End::Output { image: m, .. }
            | End::Punt { image: m, .. }
            | End::Ask { image: m, .. }
            | End::Write { image: m, .. } => image(m),
            _ => {}
        }
    }
}

/// Where a program is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// The first part tells the classes of the entries apart, and drops what is dropped there; all else goes on in the
    /// second, under its class's name.
    Classes,
    /// What comes to this fresh stage goes on in the second part.
    Stage(StageId),
}

/// Why a program is not split.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// Not a stage that packets come to newly.
    #[error(
        "stage {0} is no stage behind something that is written out or asked (they are called fresh)"
    )]
    NotFresh(u32),
    /// There is but a part.
    #[error("the program hands packets over or takes some: it is a part already")]
    Part,
}

/// Two parts that are the program together.
///
/// # Errors
/// When it cannot be split there.
pub fn split(p: &Program, at: Split) -> Result<[Program; 2], SplitError> {
    if !p.hands.is_empty() || !p.takes.is_empty() {
        return Err(SplitError::Part);
    }
    let mut whole = p.clone();
    let mut cuts: BTreeMap<StageId, String> = BTreeMap::new();
    match at {
        Split::Stage(s) => {
            let entry = p.entries.iter().any(|e| e.stage == s);
            if entry || !p.stages.get(s.0 as usize).is_some_and(|s| s.fresh) {
                return Err(SplitError::NotFresh(s.0));
            }
            cuts.insert(s, format!("stage{}", s.0));
        }
        Split::Classes => {
            let entries: BTreeSet<StageId> = p.entries.iter().map(|e| e.stage).collect();
            let mut made: Vec<Stage> = Vec::new();
            for id in entries {
                let Some(stage) = whole.stages.get_mut(id.0 as usize) else {
                    continue;
                };
                let place = stage.at;
                for i in 0..stage.actions.len() {
                    let a = &stage.actions[i];
                    let binds = a.steps.iter().any(|s| matches!(s, Step::Bind { .. }));
                    if !binds && matches!(a.end, End::Drop { .. }) {
                        continue;
                    }
                    let action = stage.actions[i].clone();
                    for (n, behind) in behind_bindings(stage, i).into_iter().enumerate() {
                        let to = StageId((p.stages.len() + made.len()) as u32);
                        let name = format!("stage{}/a{i}", id.0);
                        let name = if n == 0 { name } else { format!("{name}-{n}") };
                        cuts.insert(to, name);
                        give(stage, i, &behind, (n == 0, hand_over(to)));
                        made.push(class(place, action.clone(), behind));
                    }
                }
            }
            whole.stages.extend(made);
        }
    }
    let entries: Vec<StageId> = whole.entries.iter().map(|e| e.stage).collect();
    let mut first = part(&whole, &entries, &cuts);
    first.notes = p.notes.clone();
    let roots: Vec<StageId> = cuts.keys().copied().collect();
    let mut second = part(&whole, &roots, &BTreeMap::new());
    second.entries.clear();
    let (_, numbers) = reached(&whole, &roots, &BTreeMap::new());
    second.takes = (cuts.iter())
        .filter_map(|(s, name)| Some((name.clone(), *numbers.get(s)?)))
        .collect();
    Ok([first, second])
}

/// Decisions of lists that come behind bindings of action `i`: each set of them that rules of the action have. They go
/// where the bindings go; there is one set at least.
fn behind_bindings(stage: &Stage, i: usize) -> Vec<Vec<Origin>> {
    let mine = stage.rules.iter().filter(|r| r.action.0 as usize == i);
    let sets: BTreeSet<Vec<Origin>> = mine.map(late).collect();
    match sets.is_empty() {
        true => vec![Vec::new()],
        false => sets.into_iter().collect(),
    }
}

/// Decisions behind bindings, of a rule.
fn late(r: &Rule) -> Vec<Origin> {
    let behind = |o: &&Origin| o.counted.is_some_and(|c| c.binds > 0);
    r.origin.iter().filter(behind).copied().collect()
}

/// Rules of action `i` with these decisions behind its bindings hand their packets over, in the action's place
/// (`whole`) or by one of their own, and no longer count them.
fn give(stage: &mut Stage, i: usize, behind: &[Origin], (whole, hand): (bool, Action)) {
    let new = ActionId(if whole { i } else { stage.actions.len() } as u32);
    let of = |r: &&mut Rule| r.action.0 as usize == i && late(r) == behind;
    for r in stage.rules.iter_mut().filter(of) {
        r.action = new;
        for o in r.origin.iter_mut().filter(|o| behind.contains(o)) {
            o.counted = None;
        }
    }
    match stage.actions.get_mut(new.0 as usize) {
        Some(a) => *a = hand,
        None => stage.actions.push(hand),
    }
}

/// All that it does is to go on there.
fn hand_over(to: StageId) -> Action {
    Action {
        steps: Vec::new(),
        end: End::Write {
            image: Arc::new(Image::default()),
            next: to,
        },
        path: Vec::new(),
    }
}

/// A class of its own, which all packets that come are, and what lists decide about them behind its bindings.
fn class(at: (ElemId, u16), action: Action, origin: Vec<Origin>) -> Stage {
    Stage {
        at,
        why: Why::Written,
        fresh: true,
        known: Filter::default(),
        among: Vec::new(),
        rules: vec![Rule {
            filter: Filter::default(),
            action: ActionId(0),
            origin,
        }],
        actions: vec![action],
    }
}

/// Stages that packets come to from `roots` without being handed over, and their new numbers.
fn reached(
    p: &Program,
    roots: &[StageId],
    cuts: &BTreeMap<StageId, String>,
) -> (Vec<StageId>, BTreeMap<StageId, StageId>) {
    let mut seen: BTreeSet<StageId> = BTreeSet::new();
    let mut stack: Vec<StageId> = roots.to_vec();
    while let Some(id) = stack.pop() {
        let Some(stage) = p.stages.get(id.0 as usize) else {
            continue;
        };
        if !seen.insert(id) {
            continue;
        }
        for a in &stage.actions {
            let _ = leads::<()>(&mut a.clone(), &mut |s, _| {
                if !cuts.contains_key(&s) {
                    stack.push(s);
                }
                Ok(s)
            });
        }
    }
    let list: Vec<StageId> = seen.into_iter().collect();
    let numbers = (list.iter().enumerate()).map(|(i, s)| (*s, StageId(i as u32)));
    let numbers = numbers.collect();
    (list, numbers)
}

fn part(p: &Program, roots: &[StageId], cuts: &BTreeMap<StageId, String>) -> Program {
    let (list, numbers) = reached(p, roots, cuts);
    let mut hands: Vec<String> = Vec::new();
    let mut stages = Vec::with_capacity(list.len());
    for id in &list {
        let Some(mut s) = p.stages.get(id.0 as usize).cloned() else {
            continue;
        };
        for a in &mut s.actions {
            let _ = leads::<()>(a, &mut |to, _| {
                Ok(match (cuts.get(&to), numbers.get(&to)) {
                    (Some(name), _) => {
                        let i = hands.iter().position(|h| h == name).unwrap_or(hands.len());
                        if i == hands.len() {
                            hands.push(name.clone());
                        }
                        StageId::elsewhere(i)
                    }
                    (None, Some(n)) => *n,
                    (None, None) => to,
                })
            });
        }
        stages.push(s);
    }
    let entry = |e: &Entry| {
        let stage = *numbers.get(&e.stage)?;
        Some(Entry { stage, ..*e })
    };
    Program {
        elements: p.elements.clone(),
        entries: p.entries.iter().filter_map(entry).collect(),
        stages,
        slots: p.slots.clone(),
        notes: Vec::new(),
        hands,
        takes: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    const WHOLE: &str = r#"
onefold program 1
element e0 "in"
element e1 "ask"
element e2 "out"
entry e0 stage0
stage0 at e0[0] entry fresh {
  when len <= 59 => a0
  when ip.ttl <= 1 => a1
  when any => a2
  a0 {
    drop e1 "short"
  }
  a1 {
    ask e1[0] "payload" {} outputs [stage1]
  }
  a2 {
    write {
      write ip.ttl = ip.ttl - 1
    } then stage1
  }
}
stage1 at e2[0] written fresh {
  when any => a0
  a0 {
    output e2 {}
  }
}
"#;

    #[test]
    fn parts_are_the_whole() {
        let p = text::parse(WHOLE).unwrap();
        for at in [Split::Classes, Split::Stage(StageId(1))] {
            let parts = split(&p, at).unwrap();
            assert!(!parts[0].hands.is_empty() && !parts[1].takes.is_empty());
            let written: String = parts.iter().map(text::print).collect();
            assert_eq!(text::parse_all(&written).unwrap(), parts, "{written}");
            let all = compose(&parts).unwrap();
            assert_eq!((all.hands.len(), all.takes.len()), (0, 0));
            assert_eq!(all.entries, p.entries);
            // the parts alone are none
            assert!(compose(&parts[..1]).is_err());
            assert_eq!(split(&parts[0], at), Err(SplitError::Part));
        }
        // a program alone is itself
        assert_eq!(compose(std::slice::from_ref(&p)).unwrap(), p);
        assert_eq!(
            split(&p, Split::Stage(StageId(0))),
            Err(SplitError::NotFresh(0))
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let p = text::parse(WHOLE).unwrap();
        let [a, b] = split(&p, Split::Stage(StageId(1))).unwrap();
        assert_eq!(compose(&[]), Err(ComposeError::Nothing));
        // packets are handed forwards only
        assert!(matches!(
            compose(&[b.clone(), a.clone()]),
            Err(ComposeError::NotTaken(2, _))
        ));
        let mut other = b.clone();
        other.elements[2] = "elsewhere".to_string();
        assert_eq!(compose(&[a.clone(), other]), Err(ComposeError::Foreign(2)));
        let mut other = b.clone();
        other.stages[0].fresh = false;
        assert!(matches!(
            compose(&[a.clone(), other]),
            Err(ComposeError::NotFresh(2, _))
        ));
        let mut other = b.clone();
        other.entries = a.entries.clone();
        assert_eq!(
            compose(&[a.clone(), other]),
            Err(ComposeError::Entry(2, ElemId(0)))
        );
        let mut amid = a.clone();
        amid.stages[0].actions[0].end = End::Goto(StageId::elsewhere(0));
        assert!(matches!(compose(&[amid, b]), Err(ComposeError::Amid(1, _))));
    }

    #[test]
    fn errors_are_told_at_their_lines() {
        let two = format!("{}\nonefold program 1\nnonsense\n", WHOLE.trim_start());
        let e = text::parse_all(&two).unwrap_err();
        assert_eq!(e[0].line as usize, two.lines().count());
    }
}
