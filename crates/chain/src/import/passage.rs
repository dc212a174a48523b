//! All chains that forwarded packets pass, in their order, as lists: what one makes of packets' marks, the next ones
//! are told.

use super::chains::{ChainRule, Interfaces, Target};
use super::mark::{Change, MarkOf, Marks};
use super::nat::{NatRule, NatTarget};
use super::rule::{Rule, Section, Sections, Verdict, Way};
use super::walk::{Decides, Source, Walked, walk};
use std::collections::BTreeSet;

/// Errors: line, message.
type Errors = Vec<(u32, String)>;
/// A rule's conversion, or what is wrong with it.
type Converted<R> = Result<R, (u32, String)>;

/// What has become of the chains.
#[derive(Debug, Default)]
pub struct Passage {
    /// For each chain: the lists of both ways.
    pub lists: Vec<[Walked; 2]>,
    /// As [`super::rule::RuleSet::marks`].
    pub marks: Vec<(u32, bool)>,
    /// Rules that set bits of marks for which nothing asks.
    pub unasked: usize,
}

/// Makes the lists of all chains (in the order in which packets pass them).
pub fn passage(sources: &[Source], names: &Interfaces) -> Result<Passage, Errors> {
    let (asked, of_connections) = asked(sources);
    let mut marks = Marks::new(of_connections);
    let mut out = Passage::default();
    let mut errors = Errors::new();
    // Bound: each turn but the last one adds a mark of connections, of which there are so many at most
    loop {
        let known = marks.connections.len();
        out.lists.clear();
        errors.clear();
        let mut pairs: Vec<[Walked; 2]> = Vec::new();
        pairs.resize_with(sources.len(), Default::default);
        for (i, way) in [Way::Up, Way::Down].into_iter().enumerate() {
            let mut coming = BTreeSet::from([0]);
            for ((s, asked), pair) in sources.iter().zip(&asked).zip(&mut pairs) {
                match walk(s, (way, names), &coming, *asked, &mut marks) {
                    Ok(w) => {
                        coming = w.exits.clone();
                        pair[i] = w;
                    }
                    Err(e) => errors.extend(e),
                }
            }
        }
        out.lists = pairs;
        if marks.connections.len() == known || !errors.is_empty() {
            break;
        }
    }
    if !errors.is_empty() {
        errors.sort();
        errors.dedup();
        return Err(errors);
    }
    let first = asked.first().copied().unwrap_or(0);
    let sets = |r: &&ChainRule| {
        r.changes
            .iter()
            .any(|c| matches!(c, Change::PacketMark(v) if v.flip & !first != 0))
    };
    out.unasked = rules(sources).filter(sets).count();
    if marks.all.len() > 1 {
        out.marks = marks.all;
    }
    Ok(out)
}

fn rules(sources: &[Source]) -> impl Iterator<Item = &ChainRule> {
    sources.iter().flat_map(|s| s.chains.values().flatten())
}

/// Bits of packets' marks that are asked for by each chain or one behind it; bits of connections' marks.
pub(super) fn asked(sources: &[Source]) -> (Vec<u32>, u32) {
    let tests = |r: &ChainRule, of| {
        let tests = r.marks.iter().filter(|t| t.of == of);
        tests.fold(0, |bits, t| bits | t.mask)
    };
    let restores = |r: &ChainRule| {
        r.changes.iter().fold(0, |bits, c| match c {
            Change::PacketMark(v) => bits | v.connection,
            _ => bits,
        })
    };
    let of_connections = rules(sources).fold(0, |bits, r| {
        bits | tests(r, MarkOf::Connection) | restores(r)
    });
    let saves = |r: &ChainRule| {
        r.changes.iter().fold(0, |bits, c| match c {
            Change::ConnectionMark(v) if of_connections != 0 => bits | v.packet,
            _ => bits,
        })
    };
    let mut all = Vec::new();
    let mut behind = 0;
    for s in sources.iter().rev() {
        for r in s.chains.values().flatten() {
            behind |= tests(r, MarkOf::Packet) | saves(r);
        }
        all.push(behind);
    }
    all.reverse();
    (all, of_connections)
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
