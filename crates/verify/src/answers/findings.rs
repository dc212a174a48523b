//! What is odd about a list of rules: rules that never decide, and rules without which nothing would change.
//!
//! All of it is exact, not by pairs: a rule that several earlier ones take apart is found, and one of which a single
//! packet is left is not. "Never" and "nothing would change" are proved; where a bound ends the search, nothing is
//! said.

use super::filters::{Exists, exists};
use super::list::{List, ListOutcome, World};
use crate::generate::solve::Maker;
use crate::rng::Rng;
use onefold_element::model::ValueSet;
use onefold_synth::Program;
use onefold_synth::program::{Dim, Filter};
use std::collections::{BTreeMap, BTreeSet};

/// Most earlier rules of which it is asked whether they decide about packets of one that never does.
const MAX_DECIDERS: usize = 4_000;
/// Most rules that are named as reasons.
const MAX_BY: usize = 16;
/// Frames of a rule that are tried before anything is searched.
const SAMPLES: usize = 4;
/// Most parts of a set for which a frame is sought.
const MAX_FRAMES: usize = 64;

/// What a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// No packet fits it, whatever stands before it.
    NeverMatches,
    /// Earlier rules take all its packets, and all of them do the opposite.
    Contradicted,
    /// Earlier rules take all its packets; some do the same, some the opposite.
    Shadowed,
    /// Without it the same would happen to every packet: earlier rules that do the same take all its packets, or rules
    /// behind it would do the same with those that it takes.
    Redundant,
}

impl Kind {
    /// In one word, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NeverMatches => "never-matches",
            Kind::Contradicted => "contradictory",
            Kind::Shadowed => "shadowed",
            Kind::Redundant => "redundant",
        }
    }
}

/// Something odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The rule: its first argument.
    pub rule: usize,
    /// The rules that decide about its packets, or would; `None` is what happens to packets that no rule fits. At most
    /// 16.
    pub by: Vec<Option<usize>>,
    /// So many of them in all.
    pub of: usize,
    /// The rules stand behind it; else before it.
    pub behind: bool,
    /// A frame that fits the rule, and about which one of the others decides, or would.
    pub frame: Option<Vec<u8>>,
}

/// All that was found out about a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// In the list's order.
    pub all: Vec<Finding>,
    /// Rules of which nothing can be said: the element has to be asked about them, or a bound was reached.
    pub unknown: Vec<usize>,
    /// Rules that were looked at.
    pub looked: usize,
}

/// Looks at the rules of a list in all its worlds. `rules` has each rule's arguments (one, unless a rule set's chains
/// have made several of one rule); others are not looked at. `go_on` is told how many have been, and ends it.
pub fn look(
    worlds: &[List],
    rules: &[Vec<usize>],
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Findings {
    let mut out = Findings::default();
    let mut look = Look::new(worlds, rules);
    for (i, rule) in rules.iter().enumerate() {
        if !go_on(i) {
            break;
        }
        out.looked += 1;
        match look.rule(i as u32) {
            Said::Nothing => {}
            Said::Unknown => out.unknown.extend(rule.first()),
            Said::Found(f) => out.all.push(f),
        }
    }
    out
}

enum Said {
    Nothing,
    Unknown,
    Found(Finding),
}

/// Who decides: a rule by number, or none.
type Who = Option<u32>;

struct Look<'a> {
    worlds: &'a [List],
    rules: &'a [Vec<usize>],
    /// By world and line: the rule it belongs to; lines of arguments that belong to none have numbers of their own.
    of: Vec<Vec<Who>>,
    /// By world and rule: its lines.
    lines: Vec<BTreeMap<u32, Vec<usize>>>,
    /// Arguments of numbers that belong to no rule.
    others: Vec<usize>,
    program: Program,
    maker: Maker,
    rng: Rng,
}

impl<'a> Look<'a> {
    fn new(worlds: &'a [List], rules: &'a [Vec<usize>]) -> Look<'a> {
        let mut number: BTreeMap<usize, u32> = BTreeMap::new();
        for (i, r) in rules.iter().enumerate() {
            number.extend(r.iter().map(|a| (*a, i as u32)));
        }
        let mut others = Vec::new();
        let (mut of, mut lines) = (Vec::new(), Vec::new());
        for w in worlds {
            let mut mine: Vec<Who> = Vec::with_capacity(w.lines.len());
            let mut by: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            for (i, l) in w.lines.iter().enumerate() {
                let who = l.argument.map(|a| {
                    *number.entry(a).or_insert_with(|| {
                        others.push(a);
                        (rules.len() + others.len() - 1) as u32
                    })
                });
                if let Some(n) = who {
                    by.entry(n).or_default().push(i);
                }
                mine.push(who);
            }
            of.push(mine);
            lines.push(by);
        }
        Look {
            worlds,
            rules,
            of,
            lines,
            others,
            program: Program::default(),
            maker: Maker::default(),
            rng: Rng::new(1),
        }
    }

    /// The argument that stands for a rule in what is told.
    fn argument(&self, who: Who) -> Option<usize> {
        let n = who? as usize;
        match self.rules.get(n) {
            Some(r) => r.first().copied(),
            None => self.others.get(n - self.rules.len()).copied(),
        }
    }

    fn lines_of(&self, world: usize, rule: u32) -> Vec<usize> {
        let all = self.lines.get(world).and_then(|l| l.get(&rule));
        all.cloned().unwrap_or_default()
    }

    fn filter(&self, world: usize, line: usize) -> &'a Filter {
        static ANY: Filter = Filter(Vec::new());
        let w = self.worlds.get(world);
        w.and_then(|w| w.filters.get(line)).unwrap_or(&ANY)
    }

    fn fate(&self, world: usize, line: usize) -> ListOutcome {
        let w = self.worlds.get(world);
        w.and_then(|w| w.lines.get(line))
            .map_or(ListOutcome::Unknown, |l| l.fate)
    }

    /// Lines before `until` that overlap a filter and are exact, those of `rule` left out.
    fn before(&self, world: usize, cube: &Filter, until: usize, rule: u32) -> Vec<usize> {
        let Some(w) = self.worlds.get(world) else {
            return Vec::new();
        };
        let mut all = w.filters.overlapping(cube, until);
        all.retain(|i| {
            let exact = w.lines.get(*i).is_some_and(|l| l.exact);
            exact && self.of.get(world).and_then(|o| o.get(*i)) != Some(&Some(rule))
        });
        all
    }

    fn rule(&mut self, rule: u32) -> Said {
        let worlds = 0..self.worlds.len();
        let all: Vec<(usize, usize)> = worlds
            .flat_map(|w| self.lines_of(w, rule).into_iter().map(move |l| (w, l)))
            .collect();
        let exact = |(w, l): &(usize, usize)| {
            let w = self.worlds.get(*w);
            w.and_then(|w| w.lines.get(*l)).is_some_and(|l| l.exact)
        };
        if !all.iter().all(exact) {
            return Said::Unknown;
        }
        let possible: Vec<(usize, usize)> = (all.iter().copied())
            .filter(|(w, l)| crate::cubes::tightened(self.filter(*w, *l), None).is_some())
            .collect();
        let first = self.rules.get(rule as usize).and_then(|r| r.first());
        let finding = |kind| Finding {
            kind,
            rule: first.copied().unwrap_or(0),
            by: Vec::new(),
            of: 0,
            behind: false,
            frame: None,
        };
        if possible.is_empty() {
            return Said::Found(finding(Kind::NeverMatches));
        }
        let mut alive = false;
        for (w, l) in &possible {
            if !self.samples(*w, *l).is_empty() {
                alive = true;
                break;
            }
            let cube = self.filter(*w, *l);
            let earlier = self.before(*w, cube, *l, rule);
            match self.exists(*w, cube, &earlier) {
                Exists::No => {}
                Exists::Yes(_) | Exists::Refused => {
                    alive = true;
                    break;
                }
                Exists::Unknown => return Said::Unknown,
            }
        }
        match alive {
            true => self.behind(rule, &possible, finding(Kind::Redundant)),
            false => self.covered(rule, &possible, finding(Kind::Shadowed)),
        }
    }

    fn exists(&self, world: usize, cube: &Filter, earlier: &[usize]) -> Exists {
        let earlier: Vec<&Filter> = earlier.iter().map(|i| self.filter(world, *i)).collect();
        exists(&self.program, cube, &earlier, &mut |_| true)
    }

    /// Earlier rules take all packets: which ones decide about some, and what they do.
    fn covered(&mut self, rule: u32, mine: &[(usize, usize)], mut f: Finding) -> Said {
        let mut by: BTreeSet<Who> = BTreeSet::new();
        let (mut same, mut other) = (None, None);
        let mut tries = MAX_DECIDERS;
        for (w, l) in mine {
            let cube = self.filter(*w, *l);
            let fate = self.fate(*w, *l);
            for i in self.before(*w, cube, *l, rule) {
                let Some(both) = both(cube, self.filter(*w, i)) else {
                    continue;
                };
                if tries == 0 {
                    return Said::Unknown;
                }
                tries -= 1;
                let before = self.before(*w, &both, i, rule);
                match self.exists(*w, &both, &before) {
                    Exists::No => continue,
                    Exists::Unknown => return Said::Unknown,
                    Exists::Yes(_) | Exists::Refused => {}
                }
                by.extend(self.of.get(*w).and_then(|o| o.get(i)));
                let to = match self.fate(*w, i) == fate {
                    true => &mut same,
                    false => &mut other,
                };
                if to.as_ref().is_none_or(Option::is_none) {
                    *to = Some(self.frame(*w, &both, &before, i));
                }
            }
        }
        f.kind = match (&same, &other) {
            (_, None) => Kind::Redundant,
            (None, Some(_)) => Kind::Contradicted,
            (Some(_), Some(_)) => Kind::Shadowed,
        };
        f.frame = other.or(same).flatten();
        self.named(&mut f, by);
        Said::Found(f)
    }

    fn named(&self, f: &mut Finding, by: BTreeSet<Who>) {
        f.of = by.len();
        let mut all: Vec<Option<usize>> = by.into_iter().map(|w| self.argument(w)).collect();
        // in the list's order, the policy last
        all.sort_by_key(|a| a.unwrap_or(usize::MAX));
        all.truncate(MAX_BY);
        f.by = all;
    }

    /// Would rules behind this one do the same with all that it takes?
    fn behind(&mut self, rule: u32, mine: &[(usize, usize)], mut f: Finding) -> Said {
        let mut by: BTreeSet<Who> = BTreeSet::new();
        let mut shown = None;
        for (w, l) in mine {
            let Some(list) = self.worlds.get(*w) else {
                continue;
            };
            let cube = self.filter(*w, *l);
            let fate = self.fate(*w, *l);
            let of = &self.of[*w];
            let own = |i: usize| of.get(i) == Some(&Some(rule));
            let mut later = list.filters.overlapping(cube, list.filters.len());
            later.retain(|j| j > l && !own(*j));
            let alike =
                |j: usize| self.fate(*w, j) == fate && list.lines.get(j).is_some_and(|l| l.exact);
            // packets first: who would decide about those that the rule decides about?
            for frame in self.samples(*w, *l) {
                match list.first(&frame, &mut later.iter().copied()) {
                    Some((j, _)) if !alike(j) => return Said::Nothing,
                    Some((j, true)) => {
                        by.extend(of.get(j));
                        shown = shown.or(Some(frame));
                    }
                    _ => {}
                }
            }
            // nothing is left for lines behind one that would take everything
            let covers = |j: &&usize| alike(**j) && self.filter(*w, **j).covers(cube);
            let until = later.iter().find(covers).copied().unwrap_or(usize::MAX);
            let other = later.iter().copied().filter(|j| *j < until && !alike(*j));
            for j in other {
                let Some(both) = both(cube, self.filter(*w, j)) else {
                    continue;
                };
                let before = self.before(*w, &both, j, rule);
                match self.exists(*w, &both, &before) {
                    Exists::No => {}
                    _ => return Said::Nothing,
                }
            }
            self.deciders((*w, *l), rule, &later, &mut by, &mut shown);
            if shown.is_none() {
                let before = self.before(*w, cube, *l, rule);
                shown = self.frame(*w, cube, &before, *l);
                let next = shown
                    .as_ref()
                    .and_then(|f| list.first(f, &mut later.iter().copied()));
                by.extend(next.and_then(|(j, _)| of.get(j)));
            }
        }
        // who ends a list with `deny all` says what would happen anyway, and means to
        let policy = |w: &Who| w.is_none_or(|n| n as usize >= self.rules.len());
        let frames = |w: usize| self.worlds.get(w).is_some_and(|w| w.world == World::Frames);
        let all = |(w, l): &(usize, usize)| {
            // fragments are told apart everywhere
            self.filter(*w, *l).0.len() <= usize::from(!frames(*w))
        };
        if by.iter().all(Option::is_none) || by.iter().all(policy) && mine.iter().all(all) {
            return Said::Nothing;
        }
        f.behind = true;
        f.frame = shown;
        self.named(&mut f, by);
        Said::Found(f)
    }

    /// Adds lines that would decide about packets of a line, where no packet has told of one that the operator wrote.
    fn deciders(
        &self,
        (w, l): (usize, usize),
        rule: u32,
        later: &[usize],
        by: &mut BTreeSet<Who>,
        shown: &mut Option<Vec<u8>>,
    ) {
        let of = |j: usize| self.of.get(w).and_then(|o| o.get(j)).copied().flatten();
        if by.iter().any(Option::is_some) {
            return;
        }
        for j in later.iter().copied().filter(|j| of(*j).is_some()) {
            let Some(both) = both(self.filter(w, l), self.filter(w, j)) else {
                continue;
            };
            let before = self.before(w, &both, j, rule);
            if self.exists(w, &both, &before).found() {
                by.insert(of(j));
                let frame = self.frame(w, &both, &before, l);
                *shown = frame.or_else(|| shown.take());
                return;
            }
        }
    }

    /// Frames about which a line decides, found by trying some that fit it.
    fn samples(&self, world: usize, line: usize) -> Vec<Vec<u8>> {
        let (Some(w), mut cube) = (self.worlds.get(world), self.filter(world, line).clone()) else {
            return Vec::new();
        };
        if w.world != World::Frames && !usual_packet(&mut cube, w.six) {
            return Vec::new();
        }
        let near = w.filters.overlapping(&cube, line + 1);
        let mut rng = self.rng.clone();
        let made = (0..SAMPLES).filter_map(|i| match i {
            0 => self.maker.frame(&cube, &mut rng),
            _ => self.maker.random_frame(&cube, &mut rng),
        });
        let decided = |f: &Vec<u8>| w.first(f, &mut near.iter().copied()) == Some((line, true));
        made.filter(decided).collect()
    }

    /// A frame of the set that fits none of these lines, and about which `decides` is what decides.
    fn frame(
        &self,
        world: usize,
        cube: &Filter,
        before: &[usize],
        decides: usize,
    ) -> Option<Vec<u8>> {
        let w = self.worlds.get(world)?;
        let mut usual = cube.clone();
        let ok = w.world == World::Frames || usual_packet(&mut usual, w.six);
        let before: Vec<&Filter> = before.iter().map(|i| self.filter(world, *i)).collect();
        let mut rng = self.rng.clone();
        let near = w.filters.overlapping(cube, w.filters.len());
        let mut tries = MAX_FRAMES;
        let mut frame = None;
        if ok {
            exists(&self.program, &usual, &before, &mut |part| {
                tries = tries.saturating_sub(1);
                let first = |f: &Vec<u8>| w.first(f, &mut near.iter().copied());
                frame = (self.maker.frame(part, &mut rng))
                    .filter(|f| first(f) == Some((decides, true)));
                frame.is_some() || tries == 0
            });
        }
        frame
    }
}

/// The packets of both; `None`: there are none.
fn both(a: &Filter, b: &Filter) -> Option<Filter> {
    let mut out = a.clone();
    let all = b.0.iter().all(|(d, s)| out.narrow(*d, s, d.width()));
    all.then_some(out)
}

/// An IP packet without options in an Ethernet frame, well formed.
fn usual_packet(f: &mut Filter, six: bool) -> bool {
    let bits = |bit, bits| Dim::Bits { bit, bits };
    let mut say = |d: Dim, v: u128| f.narrow(d, &ValueSet::one(v), d.width());
    match six {
        true => say(bits(96, 16), 0x86dd) && say(bits(112, 4), 6),
        false => say(bits(96, 16), 0x0800) && say(bits(112, 4), 4) && say(bits(116, 4), 5),
    }
}
