//! What is odd about a list of rules: rules that never decide, and rules without which nothing would change.
//!
//! All of it is exact, not by pairs: a rule that several earlier ones take apart is found, and one of which a single
//! packet is left is not. "Never" and "nothing would change" are proved; where a bound ends the search, nothing is
//! said.

pub use super::finding::{Finding, Findings, Kind};

use super::boxes::bits::{Bits, clear_bit, has, keep, ones, set_bit};
use super::boxes::{Boxes, Cube, Point};
use super::list::{List, ListOutcome, World};
use super::search::{Found, exists};
use crate::cubes::tightened;
use crate::generate::solve::Maker;
use crate::rng::Rng;
use onefold_element::model::ValueSet;
use onefold_synth::program::{Dim, Filter};
use std::collections::{BTreeMap, BTreeSet};

/// Most earlier rules that overlap one of which each is asked whether it decides about its packets.
const MAX_COUNTED: usize = 64;
/// Packets that are drawn for each of them before.
const POINTS: usize = 2;
/// Filters that may be looked at for one rule, in one of the questions about it.
const WORK: usize = 20_000_000;
/// Most rules that are named as reasons.
const MAX_BY: usize = 16;
/// Packets of a rule that are tried before it is asked which rules behind it would decide.
const SAMPLES: usize = 12;
/// Most parts of a set for which a frame is sought.
const MAX_FRAMES: usize = 64;

/// Looks at the rules of lists in all their worlds. A rule of several lists is odd where it is in all of them; numbers
/// of arguments are those of all lists together. `rules` has each rule's arguments (one, unless several lists have it,
/// or a rule set's chains have made several of one rule); others are not looked at. `policies` are those of them that
/// belong together: what a rule set says of packets that no rule fits. `go_on` is told how many rules have been looked
/// at, and ends it.
pub fn look(
    worlds: &[List],
    rules: &[Vec<usize>],
    policies: &[Vec<usize>],
    go_on: &mut dyn FnMut(usize) -> bool,
) -> Findings {
    let mut out = Findings::default();
    let mut look = Look::new(worlds, rules, policies);
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
/// A frame that shows something, and the list that it is for.
type Shown = (Option<Vec<u8>>, usize);

/// A list in one of its worlds.
struct Side<'a> {
    list: &'a List,
    boxes: Boxes,
    /// Lines whose filters are exactly what their rules take.
    exact: Bits,
    /// By line: the rule it belongs to; lines of arguments that belong to none have numbers of their own.
    of: Vec<Who>,
    /// By rule: its lines.
    lines: BTreeMap<u32, Vec<usize>>,
}

impl Side<'_> {
    fn of(&self, line: usize) -> Who {
        self.of.get(line).copied().flatten()
    }

    fn fate(&self, line: usize) -> ListOutcome {
        let line = self.list.lines.get(line);
        line.map_or(ListOutcome::Unknown, |l| l.fate)
    }

    fn filter(&self, line: usize) -> &Filter {
        static ANY: Filter = Filter(Vec::new());
        self.list.filters.get(line).unwrap_or(&ANY)
    }

    /// The first `until` lines that meet a set, those of a rule left out.
    fn others(&self, cube: &Cube, until: usize, rule: u32) -> Bits {
        let mut all = self.boxes.overlapping(cube, until);
        for l in self.lines.get(&rule).into_iter().flatten() {
            clear_bit(&mut all, *l);
        }
        all
    }

    /// Those of them that are exact.
    fn before(&self, cube: &Cube, until: usize, rule: u32) -> Bits {
        let mut all = self.others(cube, until, rule);
        keep(&mut all, &self.exact);
        all
    }

    /// The first exact line of these, and from `from` on, that a packet fits, and whether that is certain: no line
    /// before it may take the packet, too.
    fn decider(&self, p: &Point, among: &Bits, from: usize) -> Option<(usize, bool)> {
        let mut certain = true;
        let mut from = from;
        // Bound: the number of lines
        while let Some(i) = self.boxes.first(p, among, from) {
            if has(&self.exact, i) {
                return Some((i, certain));
            }
            certain = false;
            from = i + 1;
        }
        None
    }

    /// Packets of a set that are like most, as far as the list tells.
    fn usual(&self, cube: &Cube) -> Option<Cube> {
        if self.list.world == World::Frames {
            return Some(cube.clone());
        }
        let mut cube = cube.clone();
        for (dim, value) in usual_packet(self.list.six) {
            cube = self.boxes.with_value(cube, dim, value)?;
        }
        Some(cube)
    }

    /// A frame of a set about which a line decides.
    fn frame(&self, maker: &Maker, rng: &mut Rng, part: &Cube, decides: usize) -> Option<Vec<u8>> {
        let mut f = self.boxes.filter(part);
        if self.list.world != World::Frames {
            for (d, v) in usual_packet(self.list.six) {
                if !f.narrow(d, &ValueSet::one(v), d.width()) {
                    return None;
                }
            }
        }
        let frame = maker.frame(&f, rng)?;
        let p = self.boxes.point(&frame);
        let near = self
            .boxes
            .overlapping(&self.boxes.around(&p), self.boxes.len());
        (self.decider(&p, &near, 0) == Some((decides, true))).then_some(frame)
    }
}

struct Look<'a> {
    sides: Vec<Side<'a>>,
    rules: &'a [Vec<usize>],
    /// Arguments of numbers that belong to no rule.
    others: Vec<usize>,
    maker: Maker,
    rng: Rng,
}

impl<'a> Look<'a> {
    fn new(worlds: &'a [List], rules: &'a [Vec<usize>], policies: &[Vec<usize>]) -> Look<'a> {
        let mut number: BTreeMap<usize, u32> = BTreeMap::new();
        for (i, r) in rules.iter().enumerate() {
            number.extend(r.iter().map(|a| (*a, i as u32)));
        }
        let mut others = Vec::new();
        for p in policies {
            number.extend(p.iter().map(|a| (*a, (rules.len() + others.len()) as u32)));
            others.push(p.first().copied().unwrap_or(usize::MAX));
        }
        let mut sides = Vec::with_capacity(worlds.len());
        for w in worlds {
            let mut of: Vec<Who> = Vec::with_capacity(w.lines.len());
            let mut lines: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            let mut exact = vec![0; w.lines.len().div_ceil(64)];
            for (i, l) in w.lines.iter().enumerate() {
                let who = l.argument.map(|a| {
                    *number.entry(a).or_insert_with(|| {
                        others.push(a);
                        (rules.len() + others.len() - 1) as u32
                    })
                });
                if let Some(n) = who {
                    lines.entry(n).or_default().push(i);
                }
                if l.exact {
                    set_bit(&mut exact, i);
                }
                of.push(who);
            }
            let filters: Vec<Filter> = (0..w.filters.len())
                .filter_map(|i| w.filters.get(i).cloned())
                .collect();
            sides.push(Side {
                list: w,
                boxes: Boxes::new(&filters),
                exact,
                of,
                lines,
            });
        }
        Look {
            sides,
            rules,
            others,
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

    fn rule(&mut self, rule: u32) -> Said {
        let mut all: Vec<(usize, usize)> = Vec::new();
        for (w, side) in self.sides.iter().enumerate() {
            let mine = side.lines.get(&rule).into_iter().flatten();
            all.extend(mine.map(|l| (w, *l)));
        }
        let side = |w: usize| self.sides.get(w);
        if !all
            .iter()
            .all(|(w, l)| side(*w).is_some_and(|s| has(&s.exact, *l)))
        {
            return Said::Unknown;
        }
        all.retain(|(w, l)| side(*w).is_some_and(|s| tightened(s.filter(*l), None).is_some()));
        let first = self.rules.get(rule as usize).and_then(|r| r.first());
        let list = self.first_list(rule);
        let finding = |kind| Finding {
            kind,
            rule: first.copied().unwrap_or(0),
            by: Vec::new(),
            of: 0,
            more: false,
            behind: false,
            frame: None,
            list,
        };
        if all.is_empty() {
            return Said::Found(finding(Kind::NeverMatches));
        }
        let mut alive = false;
        let mut work = WORK;
        for (w, l) in &all {
            let Some(side) = self.sides.get(*w) else {
                continue;
            };
            let cube = side.boxes.cube(*l);
            let earlier = side.before(&cube, *l, rule);
            match exists(
                &side.boxes,
                &cube,
                &earlier,
                (&mut self.rng, &mut work),
                &mut |_| true,
            ) {
                Found::No => {}
                Found::Yes | Found::Refused => {
                    alive = true;
                    break;
                }
                Found::Unknown => return Said::Unknown,
            }
        }
        match alive {
            true => self.behind(rule, &all, finding(Kind::Redundant)),
            false => self.covered(rule, &all, finding(Kind::Shadowed)),
        }
    }

    /// The first list that has a rule.
    fn first_list(&self, rule: u32) -> usize {
        let has = |s: &Side<'_>| s.lines.contains_key(&rule);
        self.sides.iter().position(has).unwrap_or(0)
    }

    /// Earlier rules take all packets: which ones decide about some, and what they do.
    fn covered(&mut self, rule: u32, mine: &[(usize, usize)], mut f: Finding) -> Said {
        let mut by: BTreeSet<Who> = BTreeSet::new();
        let (mut same, mut other): (Option<Shown>, Option<Shown>) = (None, None);
        let mut work = WORK;
        for (w, l) in mine {
            let Some(side) = self.sides.get(*w) else {
                continue;
            };
            let Some((decide, all)) = deciders(side, &mut self.rng, (*l, rule), &mut work) else {
                return Said::Unknown;
            };
            f.more |= !all;
            let (cube, fate) = (side.boxes.cube(*l), side.fate(*l));
            for i in decide {
                by.insert(side.of(i));
                let to = match side.fate(i) == fate {
                    true => &mut same,
                    false => &mut other,
                };
                if to.as_ref().is_none_or(|shown| shown.0.is_none())
                    && let Some(both) = side.boxes.both(&cube, i)
                {
                    let before = side.before(&both, i, rule);
                    let frame = frame(side, (&self.maker, &mut self.rng), &both, &before, i);
                    *to = Some((frame, *w));
                }
            }
        }
        f.kind = match (&same, &other) {
            (_, None) => Kind::Redundant,
            (None, Some(_)) => Kind::Contradicted,
            (Some(_), Some(_)) => Kind::Shadowed,
        };
        if let Some((frame, list)) = other.or(same) {
            (f.frame, f.list) = (frame, list);
        }
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
        let mut shown: Option<Vec<u8>> = None;
        let mut work = WORK;
        let rules = self.rules.len();
        let policy = |w: &Who| w.is_none_or(|n| n as usize >= rules);
        for (w, l) in mine {
            let Some(side) = self.sides.get(*w) else {
                continue;
            };
            let (cube, fate, n) = (side.boxes.cube(*l), side.fate(*l), side.boxes.len());
            let later = side.others(&cube, n, rule);
            let alike = |j: usize| side.fate(j) == fate && has(&side.exact, j);
            // packets first: who would decide about those that the rule decides about?
            let near = side.boxes.overlapping(&cube, l + 1);
            let mut told = false;
            for _ in 0..SAMPLES {
                let p = side.boxes.random(&cube, &mut self.rng);
                if side.decider(&p, &near, 0) != Some((*l, true)) || !possible(side, &p) {
                    continue;
                }
                match side.decider(&p, &later, l + 1) {
                    Some((j, _)) if !alike(j) => return Said::Nothing,
                    Some((j, true)) if !told => {
                        told = true;
                        by.insert(side.of(j));
                    }
                    _ => {}
                }
            }
            // nothing is left for lines behind one that would take everything
            let around = side.boxes.covering(&cube, n);
            let until = ones(&around)
                .find(|j| j > l && has(&later, *j) && alike(*j) && side.boxes.covers(*j, &cube))
                .unwrap_or(usize::MAX);
            for j in ones(&later)
                .skip_while(|j| j <= l)
                .take_while(|j| *j < until)
            {
                if alike(j) {
                    continue;
                }
                let Some(both) = side.boxes.both(&cube, j) else {
                    continue;
                };
                let before = side.before(&both, j, rule);
                match exists(
                    &side.boxes,
                    &both,
                    &before,
                    (&mut self.rng, &mut work),
                    &mut |_| true,
                ) {
                    Found::No => {}
                    _ => return Said::Nothing,
                }
            }
            let mut make = (&self.maker, &mut self.rng);
            if by.iter().all(policy)
                && let Some((j, frame)) =
                    written(side, &mut make, (*l, rule), (&later, &mut work), &policy)
            {
                by.insert(side.of(j));
                if frame.is_some() {
                    (shown, f.list) = (frame, *w);
                }
            }
            if shown.is_none() {
                let before = side.before(&cube, *l, rule);
                shown = frame(side, make, &cube, &before, *l);
                if shown.is_some() {
                    f.list = *w;
                }
                let next = shown
                    .as_ref()
                    .and_then(|f| side.decider(&side.boxes.point(f), &later, l + 1));
                by.extend(next.map(|(j, _)| side.of(j)));
            }
        }
        // who ends a list with `deny all` says what would happen anyway, and means to
        let all = |(w, l): &(usize, usize)| {
            self.sides.get(*w).is_some_and(|s| {
                // fragments are told apart everywhere
                s.filter(*l).0.len() <= usize::from(s.list.world != World::Frames)
            })
        };
        if by.iter().all(Option::is_none) || by.iter().all(policy) && mine.iter().all(all) {
            return Said::Nothing;
        }
        f.behind = true;
        f.frame = shown;
        self.named(&mut f, by);
        Said::Found(f)
    }
}

/// Can there be a packet of these classes?
fn possible(side: &Side, p: &Point) -> bool {
    side.boxes.independent() || {
        let f = side.boxes.filter(&side.boxes.around(p));
        tightened(&f, None).is_some()
    }
}

/// Which lines decide about packets of a line all of which earlier ones take, and whether those are all; `None` where a
/// bound was reached. Of many lines those are found that decide about packets drawn at random; whether any of them
/// does the same, or the opposite, is known in any case.
fn deciders(
    side: &Side,
    rng: &mut Rng,
    (line, rule): (usize, u32),
    work: &mut usize,
) -> Option<(BTreeSet<usize>, bool)> {
    let cube = side.boxes.cube(line);
    let earlier = side.before(&cube, line, rule);
    let candidates: Vec<(usize, Cube)> = ones(&earlier)
        .filter_map(|i| Some((i, side.boxes.both(&cube, i)?)))
        .collect();
    let mut decide: BTreeSet<usize> = BTreeSet::new();
    for (i, both) in &candidates {
        for _ in 0..POINTS {
            if decide.contains(i) {
                break;
            }
            let p = side.boxes.random(both, rng);
            if let Some(i) = side.boxes.first(&p, &earlier, 0)
                && !decide.contains(&i)
                && possible(side, &p)
            {
                decide.insert(i);
            }
        }
    }
    let fate = side.fate(line);
    let alike = |i: usize| side.fate(i) == fate;
    let few = candidates.len() <= MAX_COUNTED;
    // by whether they do the same
    let mut seen = [false; 2];
    for d in &decide {
        seen[usize::from(alike(*d))] = true;
    }
    for (i, both) in &candidates {
        if decide.contains(i) || !few && seen[usize::from(alike(*i))] {
            continue;
        }
        let before = side.before(both, *i, rule);
        match exists(
            &side.boxes,
            both,
            &before,
            (&mut *rng, &mut *work),
            &mut |_| true,
        ) {
            Found::No => {}
            Found::Unknown => return None,
            Found::Yes | Found::Refused => {
                decide.insert(*i);
                seen[usize::from(alike(*i))] = true;
            }
        }
    }
    Some((decide, few))
}

/// A line that the operator wrote and that would decide about packets of a line, where no packet has told of one, and a
/// frame about which it would.
fn written(
    side: &Side,
    make: &mut (&Maker, &mut Rng),
    (line, rule): (usize, u32),
    (later, work): (&Bits, &mut usize),
    policy: &dyn Fn(&Who) -> bool,
) -> Option<(usize, Option<Vec<u8>>)> {
    let cube = side.boxes.cube(line);
    for j in ones(later).filter(|j| *j > line && !policy(&side.of(*j))) {
        let Some(both) = side.boxes.both(&cube, j) else {
            continue;
        };
        let before = side.before(&both, j, rule);
        if exists(
            &side.boxes,
            &both,
            &before,
            (&mut *make.1, &mut *work),
            &mut |_| true,
        ) == Found::Yes
        {
            return Some((j, frame(side, (make.0, &mut *make.1), &both, &before, line)));
        }
    }
    None
}

/// A frame of the set that fits none of the lines `before`, and about which `decides` is what decides.
fn frame(
    side: &Side,
    (maker, rng): (&Maker, &mut Rng),
    cube: &Cube,
    before: &Bits,
    decides: usize,
) -> Option<Vec<u8>> {
    let usual = side.usual(cube)?;
    let mut tries = MAX_FRAMES;
    let mut frame = None;
    let mut random = rng.clone();
    let mut work = WORK;
    exists(&side.boxes, &usual, before, (rng, &mut work), &mut |part| {
        tries = tries.saturating_sub(1);
        frame = side.frame(maker, &mut random, part, decides);
        frame.is_some() || tries == 0
    });
    frame
}

/// What an IP packet without options in an Ethernet frame has.
fn usual_packet(six: bool) -> Vec<(Dim, u128)> {
    let bits = |bit, bits| Dim::Bits { bit, bits };
    match six {
        true => vec![(bits(96, 16), 0x86dd), (bits(112, 4), 6)],
        false => vec![(bits(96, 16), 0x0800), (bits(112, 4), 4), (bits(116, 4), 5)],
    }
}
