//! All chains that packets pass, in their order, as lists: what one makes of packets' marks, the next ones are told.

use super::asks::Question;
use super::chains::{ChainRule, Interfaces, Target};
use super::mark::{Change, MarkOf};
use super::nat::{NatRule, NatTarget};
use super::rule::{Rule, Section, Sections, Verdict, Way};
use super::sections::{Decides, Marks, Source, Walked};
use super::walk::walk;
use std::collections::BTreeSet;

/// Errors: line, message.
type Errors = Vec<(u32, String)>;
/// A rule's conversion, or what is wrong with it.
type Converted<R> = Result<R, (u32, String)>;

/// The chains that some packets pass, in order.
#[derive(Debug, Clone, Default)]
pub struct Course {
    pub sources: Vec<Source>,
    /// Behind so many of them it is known by which way packets go on: they may have come by any way of any course of
    /// which that is so.
    pub rerouted: Option<usize>,
    /// Packets come from the end of this course, with the marks that they have there.
    pub from: Option<usize>,
}

/// The lists of a course: for each chain, those of both ways.
pub type Lists = Vec<[Walked; 2]>;

/// What has become of the chains.
#[derive(Debug, Default)]
pub struct Passage {
    /// For each course.
    pub lists: Vec<Lists>,
    /// As [`super::rule::RuleSet::marks`]: the same ones in all courses.
    pub marks: Vec<(u32, bool)>,
    /// For each course: rules that set bits of marks for which nothing asks.
    pub unasked: Vec<usize>,
}

/// The marks with which packets come, by number, for both ways.
type Coming = [BTreeSet<u8>; 2];

/// Makes the lists of all chains.
pub fn passage(courses: &[Course], names: &Interfaces) -> Result<Passage, Errors> {
    let (asked, of_connections) = asked(courses);
    let mut turn = Turn {
        courses,
        names,
        asked: &asked,
        marks: Marks::new(of_connections, translates(courses)),
        lists: Vec::new(),
        coming: Vec::new(),
        errors: Errors::new(),
    };
    // Bound: each turn but the last one adds a mark of connections, of which there are so many at most
    loop {
        let known = turn.marks.connections.len();
        turn.all();
        if turn.marks.connections.len() == known || !turn.errors.is_empty() {
            break;
        }
    }
    let Turn {
        lists,
        marks,
        mut errors,
        ..
    } = turn;
    if !errors.is_empty() {
        errors.sort();
        errors.dedup();
        return Err(errors);
    }
    let unasked = courses.iter().zip(&asked).map(|(c, asked)| {
        let first = asked.first().copied().unwrap_or(0);
        let sets = |c: &Change| matches!(c, Change::PacketMark(v) if v.flip & !first != 0);
        rules(&c.sources)
            .filter(|r| r.changes.iter().any(sets))
            .count()
    });
    Ok(Passage {
        unasked: unasked.collect(),
        lists,
        marks: match marks.all.len() {
            1 => Vec::new(),
            _ => marks.all,
        },
    })
}

/// All lists, made once.
struct Turn<'a> {
    courses: &'a [Course],
    names: &'a Interfaces,
    /// For each chain of each course, bits of marks that are asked for, there or later.
    asked: &'a [Vec<u32>],
    marks: Marks,
    lists: Vec<Lists>,
    /// By course, with which marks packets come to where it has been made to.
    coming: Vec<Coming>,
    errors: Errors,
}

impl Turn<'_> {
    fn all(&mut self) {
        let courses = self.courses;
        self.errors.clear();
        self.lists.clear();
        self.lists.resize_with(courses.len(), Vec::new);
        self.coming.clear();
        let first = || [(); 2].map(|()| BTreeSet::from([0]));
        self.coming.resize_with(courses.len(), first);
        let rerouted = || {
            let all = courses.iter().enumerate();
            all.filter_map(|(c, course)| Some((c, course.rerouted?)))
        };
        for (c, front) in rerouted() {
            self.part(c, 0, front);
        }
        let joined: BTreeSet<u8> = rerouted().flat_map(|(c, _)| self.marks_of(c)).collect();
        for (c, _) in rerouted() {
            self.coming[c] = [joined.clone(), joined.clone()];
        }
        for (c, course) in courses.iter().enumerate() {
            if let Some(before) = course.from.filter(|b| *b < c) {
                let all = self.marks_of(before);
                self.coming[c] = [all.clone(), all];
            }
            self.part(c, course.rerouted.unwrap_or(0), course.sources.len());
        }
    }

    fn marks_of(&self, course: usize) -> BTreeSet<u8> {
        self.coming[course].iter().flatten().copied().collect()
    }

    /// Makes the lists of a part of a course.
    fn part(&mut self, course: usize, from: usize, to: usize) {
        let c = &self.courses[course];
        let here = c.sources.iter().zip(&self.asked[course]);
        for (source, asked) in here.take(to).skip(from) {
            let mut pair: [Walked; 2] = Default::default();
            for (i, way) in [Way::Up, Way::Down].into_iter().enumerate() {
                let coming = &mut self.coming[course][i];
                match walk(source, (way, self.names), coming, *asked, &mut self.marks) {
                    Ok(w) => {
                        *coming = w.exits.clone();
                        pair[i] = w;
                    }
                    Err(e) => self.errors.extend(e),
                }
            }
            self.lists[course].push(pair);
        }
    }
}

fn rules(sources: &[Source]) -> impl Iterator<Item = &ChainRule> {
    sources.iter().flat_map(|s| s.chains.values().flatten())
}

/// Do rules translate connections?
fn translates(courses: &[Course]) -> bool {
    let mut all = courses.iter().flat_map(|c| rules(&c.sources));
    all.any(|r| matches!(r.target, Target::Nat(_)))
}

/// Bits of packets' marks that are asked for by each chain of each course or one behind it; bits of connections' marks.
/// Of several courses all bits count, as packets go from one to the other.
pub(super) fn asked(courses: &[Course]) -> (Vec<Vec<u32>>, u32) {
    let tests = |r: &ChainRule, of| {
        let behind = r.asks.iter().flat_map(|ask| &ask.behind.marks);
        let tests = r.marks.iter().chain(behind).filter(|t| t.of == of);
        tests.fold(0, |bits, t| bits | t.mask)
    };
    let restores = |r: &ChainRule| {
        r.changes.iter().fold(0, |bits, c| match c {
            Change::PacketMark(v) => bits | v.connection,
            _ => bits,
        })
    };
    let all = courses.iter().flat_map(|c| rules(&c.sources));
    let of_connections = all.fold(0, |bits, r| {
        bits | tests(r, MarkOf::Connection) | restores(r)
    });
    let saves = |r: &ChainRule| {
        r.changes.iter().fold(0, |bits, c| match c {
            Change::ConnectionMark(v) if of_connections != 0 => bits | v.packet,
            _ => bits,
        })
    };
    let mut found = Vec::new();
    for c in courses {
        let mut all = Vec::new();
        let mut behind = 0;
        for s in c.sources.iter().rev() {
            for r in s.chains.values().flatten() {
                behind |= tests(r, MarkOf::Packet) | saves(r);
            }
            all.push(behind);
        }
        all.reverse();
        found.push(all);
    }
    if found.len() > 1 {
        let all = found.iter().flatten().fold(0, |bits, b| bits | b);
        for b in found.iter_mut().flatten() {
            *b = all;
        }
    }
    (found, of_connections)
}

/// A list of rules that let pass or drop.
///
/// # Errors
/// A rule does something else.
pub fn filters(w: Walked) -> Result<(Vec<Rule>, Sections<Rule>), (u32, String)> {
    converted(w, |d| match d.target {
        Target::Verdict(verdict) => Ok(rule(verdict, d)),
        // what packets go on with decides
        _ if d.onward.as_ref().is_some_and(|o| o.section.is_some()) => Ok(rule(Verdict::Allow, d)),
        _ => Err((
            d.line,
            "the rule translates addresses: without 'chain', table nat is read beside table filter"
                .into(),
        )),
    })
}

fn rule(verdict: Verdict, d: Decides) -> Rule {
    Rule {
        verdict,
        filter: d.filter,
        line: d.line,
        place: d.place,
        onward: d.onward,
    }
}

/// A list of rules that translate.
///
/// # Errors
/// A rule does something else.
pub fn translations(w: Walked) -> Result<(Vec<NatRule>, Sections<NatRule>), (u32, String)> {
    let rate = w.sections.iter().find_map(|s| match s {
        Section::Ask { asked, line, .. } if matches!(asked.question, Question::Limit(_)) => {
            Some(*line)
        }
        _ => None,
    });
    if let Some(line) = rate {
        let text = "a rate ('limit') in table nat is not supported: it would be about connections, not packets";
        return Err((line, text.into()));
    }
    converted(w, |d| {
        let target = match d.target {
            Target::Nat(target) => target,
            Target::Verdict(Verdict::Allow) => NatTarget::Stays,
            _ if d.onward.as_ref().is_some_and(|o| o.section.is_some()) => NatTarget::Stays,
            _ => return Err((d.line, "table nat translates; it drops nothing".into())),
        };
        Ok(NatRule {
            target,
            filter: d.filter,
            line: d.line,
            place: d.place,
            onward: d.onward,
        })
    })
}

fn converted<R>(
    w: Walked,
    one: impl Fn(Decides) -> Converted<R>,
) -> Converted<(Vec<R>, Sections<R>)> {
    let mut all = Vec::new();
    for s in w.sections {
        all.push(match s {
            Section::Rules(rules) => {
                Section::Rules(rules.into_iter().map(&one).collect::<Result<_, _>>()?)
            }
            Section::Connection { values, none } => Section::Connection { values, none },
            Section::Ask {
                asked,
                line,
                holds,
                fails,
            } => Section::Ask {
                asked,
                line,
                holds,
                fails,
            },
        });
    }
    let mut all = all.into_iter();
    let first = match all.next() {
        Some(Section::Rules(rules)) => rules,
        _ => Vec::new(),
    };
    let sections = Sections {
        entries: w.entries,
        more: all.collect(),
    };
    Ok((first, sections))
}
