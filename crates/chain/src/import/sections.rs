//! Sections of lists, while lists are made ([`super::walk`]): where they begin, and what is known of their packets.

use super::asks::Ask;
use super::chains::{ChainRule, Target};
use super::headers::translates_prefixes;
use super::mark::{Change, MarkTest};
use super::own::OwnTest;
use super::rule::{Devices, Onward, Section, Step};
use super::walk::Wrong;
use crate::rules::RulePlace;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Most marks that packets of a function have.
const MAX_MARKS: usize = 128;

/// A rule that decides, or after which packets go on elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decides {
    pub target: Target,
    pub onward: Option<Onward>,
    pub filter: String,
    pub line: u32,
    pub place: Option<Arc<RulePlace>>,
}

/// A mark of packets, and whether they are not tracked. Packets carry its number in the list of all.
pub type Mark = (u32, bool);

/// What is known of all marks of a function while its lists are made.
#[derive(Debug, Clone)]
pub struct Marks {
    /// By number; the first one is that of packets that nothing has been done to.
    pub all: Vec<Mark>,
    /// What the marks of connections can be.
    pub connections: BTreeSet<u32>,
    /// Bits of connections' marks that are asked for.
    pub asked: u32,
    /// Rules translate connections.
    pub translates: bool,
}

impl Marks {
    pub fn new(asked: u32, translates: bool) -> Marks {
        Marks {
            translates,
            all: vec![(0, false)],
            connections: BTreeSet::from([0]),
            asked,
        }
    }

    pub(super) fn number(&mut self, mark: Mark) -> Result<u8, String> {
        let i = self.all.iter().position(|m| *m == mark);
        let i = i.unwrap_or(self.all.len());
        if i == self.all.len() {
            self.all.push(mark);
        }
        match u8::try_from(i) {
            Ok(n) if i < MAX_MARKS => Ok(n),
            _ => Err(format!(
                "the rules give packets more than {MAX_MARKS} different marks"
            )),
        }
    }

    /// The change of a header.
    pub(super) fn header(&self, element: &str) -> Result<Step, String> {
        match self.translates && translates_prefixes(element) {
            true => Err("targets 'SNPT' and 'DNPT' beside a table nat with rules are not supported: connections are \
                         translated by what they were before"
                .into()),
            false => Ok(Step::Header(element.into())),
        }
    }

    pub(super) fn write_connection(&mut self, mark: u32) -> Result<(), String> {
        self.connections.insert(mark);
        match self.connections.len() > MAX_MARKS {
            true => Err(format!(
                "the rules give connections more than {MAX_MARKS} different marks"
            )),
            false => Ok(()),
        }
    }
}

/// A chain with all that it jumps to.
#[derive(Debug, Clone)]
pub struct Source {
    pub chains: HashMap<String, Vec<ChainRule>>,
    /// Where packets come in.
    pub start: String,
    /// Packets have been tracked before they come here.
    pub tracked: bool,
    /// Which interfaces are known there.
    pub devices: Devices,
}

/// What became of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Walked {
    /// The first one is where packets begin, unless `entries` says otherwise.
    pub sections: Vec<Section<Decides>>,
    /// By the number of the mark with which packets come; nothing, where it makes no difference.
    pub entries: Vec<(u8, usize)>,
    /// The marks of packets that are let pass.
    pub exits: BTreeSet<u8>,
}

/// What is known of the connection of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Connection {
    Unknown,
    /// There is none.
    None,
    /// Its mark.
    Is(u32),
}

/// What is known of the packets of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// Number of their mark.
    pub mark: u8,
    pub connection: Connection,
}

/// Where in which chain packets go on.
pub(super) type Frame<'a> = (&'a str, usize);

/// Where a section begins.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key<'a> {
    /// Innermost chain last.
    pub frames: Vec<Frame<'a>>,
    pub state: State,
    /// So many questions of the rule that it begins with have been asked, and hold.
    pub granted: usize,
    pub kind: Kind,
}

/// What a section does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// It has rules.
    Rules,
    /// It tells packets by their connections' marks.
    Connection,
    /// It asks the next question of the rule that it begins with.
    Ask,
}

/// What of a rule is asked at once: all of it, or what stands before its first question, or what stands behind one.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub tests: &'a [String],
    pub own: &'a [OwnTest],
    pub marks: &'a [MarkTest],
    pub changes: &'a [Change],
    /// What is to be asked then.
    pub ask: Option<&'a Ask>,
}

impl<'a> Asked<'a> {
    /// Behind so many of its questions.
    pub(super) fn of(r: &'a ChainRule, granted: usize) -> Asked<'a> {
        let ask = r.asks.get(granted);
        let changes: &[Change] = if ask.is_some() { &[] } else { &r.changes };
        match granted.checked_sub(1).and_then(|n| r.asks.get(n)) {
            Some(before) => Asked {
                tests: &before.behind.tests,
                own: &before.behind.own,
                marks: &before.behind.marks,
                changes,
                ask,
            },
            None => Asked {
                tests: &r.tests,
                own: &r.own,
                marks: &r.marks,
                changes,
                ask,
            },
        }
    }
}

/// What a rule does with the packets of a section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Does {
    /// It takes none.
    Nothing,
    /// What they become.
    Takes(State, Vec<Step>),
    /// That depends on their connections' marks.
    Depends,
}

/// Where packets go on that a rule leaves: the section that begins behind it.
pub(super) fn behind<'a>(at: &Key<'a>) -> Key<'a> {
    let mut frames = at.frames.clone();
    if let Some(last) = frames.last_mut() {
        last.1 += 1;
    }
    Key {
        frames,
        state: at.state,
        granted: 0,
        kind: Kind::Rules,
    }
}

/// Do packets that a rule takes go on in another section, or depends that on something?
pub(super) fn changes(does: &Does, state: State) -> bool {
    !matches!(does, Does::Takes(new, steps) if *new == state && steps.is_empty())
}

impl Source {
    /// Rules that decide and are not among these, of all chains that something jumps to; those that change or ask
    /// something are left out.
    pub(super) fn without<'a>(&'a self, others: &HashSet<Frame<'a>>) -> Vec<&'a ChainRule> {
        let (mut seen, mut todo) = (HashSet::new(), vec![self.start.as_str()]);
        let mut all = Vec::new();
        // Bound: each chain once
        while let Some(chain) = todo.pop() {
            if !seen.insert(chain) {
                continue;
            }
            let list = self.chains.get(chain).map_or(&[][..], Vec::as_slice);
            for (i, r) in list.iter().enumerate() {
                let plain = r.asks.is_empty() && r.changes.is_empty() && r.marks.is_empty();
                match &r.target {
                    Target::Jump(c) | Target::Goto(c) => todo.push(c),
                    Target::Verdict(_) if plain && !others.contains(&(chain, i)) => all.push(r),
                    _ => {}
                }
            }
        }
        all
    }
}

impl Walked {
    /// Where the mark with which packets come makes no difference, and nothing is changed, one section is enough.
    pub(super) fn simplify(&mut self, entries: &BTreeSet<u8>) {
        let plain = |s: &Section<Decides>| match s {
            Section::Rules(rules) => rules.iter().all(|r| r.onward.is_none()),
            Section::Connection { .. } | Section::Ask { .. } => false,
        };
        let same = self
            .sections
            .iter()
            .all(|s| self.sections.first() == Some(s));
        if same && self.sections.iter().all(plain) {
            self.sections.truncate(1);
            self.entries.clear();
            self.exits = entries.clone();
        }
    }
}

/// No section is come to from itself: chains that call one another in a circle, changing marks.
pub(super) fn acyclic(sections: &[Section<Decides>]) -> Result<(), Wrong> {
    let next = |s: &Section<Decides>| -> Vec<(usize, u32)> {
        match s {
            Section::Rules(rules) => {
                let to = |r: &Decides| Some((r.onward.as_ref()?.section?, r.line));
                rules.iter().filter_map(to).collect()
            }
            Section::Connection { values, none } => {
                let all = values.iter().map(|v| v.1).chain([*none]);
                all.map(|n| (n, 0)).collect()
            }
            Section::Ask {
                line, holds, fails, ..
            } => vec![(*holds, *line), (*fails, *line)],
        }
    };
    let mut before = vec![0usize; sections.len()];
    for (to, _) in sections.iter().flat_map(next) {
        if let Some(n) = before.get_mut(to) {
            *n += 1;
        }
    }
    let mut free: Vec<usize> = (0..sections.len()).filter(|i| before[*i] == 0).collect();
    let mut done = 0;
    // Bound: each section becomes free once
    while let Some(i) = free.pop() {
        done += 1;
        for (to, _) in sections.get(i).map(next).unwrap_or_default() {
            if let Some(n) = before.get_mut(to) {
                *n -= 1;
                if *n == 0 {
                    free.push(to);
                }
            }
        }
    }
    if done == sections.len() {
        return Ok(());
    }
    let line = sections.iter().flat_map(next).map(|n| n.1).max();
    Err((
        line.unwrap_or(1),
        "chains call one another in a circle, where marks change, or questions such as rates are asked".into(),
    ))
}
