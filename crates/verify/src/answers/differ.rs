//! What two chains do differently: classes of packets, each with a packet that shows it.
//!
//! Both programs are followed side by side, from every port that both have, stage by stage: lists of rules are
//! aligned ([`super::align`]), actions compared ([`super::actions`]). Where actions go on in stages, the pair of
//! stages is looked at, once, for all packets that can come there. Nothing found, and nothing left open, is a proof:
//! for every packet and every state that both chains may be in, both do the same.
//!
//! Where the reference graph takes over, both graphs must be the same from there on, lists that mean the same put one
//! for the other ([`super::actions::Terms`]).

use super::actions::{Like, Side, Terms};
use super::align::{Differing, Lists, WORK, align};
use super::filters::FilterList;
use super::tries::{FRAMES, Trial};
use super::ways::{self, Link, Links, MAX_WAYS};
use crate::cubes::both;
use crate::generate::Port;
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_synth::Program;
use onefold_synth::program::{Action, End, Filter, Stage, StageId};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

pub use super::tries::leaves;

/// Most classes that are told, of those with a packet and of those without one; others are counted.
pub const MAX_CHANGES: usize = 200;
/// Most pairs of rules that differ and are sorted into classes.
const MAX_DIFFERING: usize = 100_000;
/// So many classes are sought whatever it takes, within [`WORK`];
const ENOUGH: usize = 2 * MAX_CHANGES;
/// more of them only as long as no more filters than these have been looked at.
const WORK_MORE: u64 = 1_000_000;
/// Most pairs of stages that are looked at.
const MAX_PAIRS: usize = 4_000;
/// Parts of a class for which packets are sought.
const PARTS: usize = 8;
/// Rules behind an element that is asked of whose packets some are tried.
const ONWARD: usize = 48;
/// Frames that are tried of each.
const ONWARD_FRAMES: usize = 3;
/// Rules that are named of each side.
const MAX_RULES: usize = 16;

/// A chain that is compared.
pub struct Compared<'a> {
    /// Its graph, as it begins.
    pub graph: &'a Graph,
    /// Its program.
    pub program: &'a Program,
    /// Its ports.
    pub ports: &'a [Port],
}

/// A side's part in a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Does {
    /// The stage of its program.
    pub stage: usize,
    /// The action there.
    pub action: usize,
    /// The stage's rules that decide, as far as they are told.
    pub rules: Vec<usize>,
}

/// A class of packets that is treated differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The port where its packets come in.
    pub port: String,
    /// What differs.
    pub what: Like,
    /// Some of these packets are treated differently; of the others it is not known.
    pub some: bool,
    /// What the old chain does.
    pub old: Does,
    /// What the new one does.
    pub new: Does,
    /// Filters of its packets, in terms of the old program's stage; at most 16.
    pub filters: Vec<Filter>,
    /// What rules before those that decide take of them: what these ask beyond the filter; at most 16.
    pub except: Vec<Filter>,
    /// Pairs of rules in all.
    pub pairs: usize,
    /// A frame that both graphs, as they begin, treat differently.
    pub frame: Option<Vec<u8>>,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// Classes with a packet that shows the difference.
    pub changes: Vec<Change>,
    /// Classes without one: they may need a state that no single packet makes, or be of no packets.
    pub perhaps: Vec<Change>,
    /// So many more classes, of which no packet was made.
    pub more: usize,
    /// What could not be compared, and why.
    pub unknown: BTreeSet<String>,
    /// Ports that packets enter at in the old chain only.
    pub gone: Vec<String>,
    /// In the new one only.
    pub added: Vec<String>,
    /// Pairs of stages that were compared.
    pub stages: usize,
}

impl Differences {
    /// It is proved that both do the same.
    pub fn none(&self) -> bool {
        self.changes.is_empty()
            && !self.some_unknown()
            && self.gone.is_empty()
            && self.added.is_empty()
    }
    /// Something could not be told.
    pub fn some_unknown(&self) -> bool {
        !self.unknown.is_empty() || !self.perhaps.is_empty() || self.more > 0
    }
}

/// What a change of two stages is told by: their actions, and the origin of the rule that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    old: u32,
    new: u32,
    by_old: bool,
    origin: Option<(ElemId, Option<u32>)>,
}

/// A class, being found.
struct Class {
    change: Change,
    parts: Vec<Filter>,
}

/// Compares two chains. `go_on` ends it.
pub fn differences(
    old: &Compared<'_>,
    new: &Compared<'_>,
    go_on: &mut dyn FnMut() -> bool,
) -> Differences {
    let mut out = Differences::default();
    let side = |c: &Compared<'_>| -> HashMap<ElemId, String> {
        let all = c.ports.iter();
        all.flat_map(|p| p.sinks.iter().map(move |s| (*s, p.name.clone())))
            .collect()
    };
    let mut terms = Terms::new(
        Side {
            program: old.program,
            spec: old.graph.spec(),
            sinks: side(old),
        },
        Side {
            program: new.program,
            spec: new.graph.spec(),
            sinks: side(new),
        },
    );
    let mut queue = entries((old, new), &mut terms, &mut out);
    let mut seen: BTreeSet<Pair> = BTreeSet::new();
    let mut trial = Trial::new(old, new);
    let work = Cell::new(WORK);
    while let Some((pair, port, ways)) = queue.pop_front() {
        if !seen.insert(pair) {
            continue;
        }
        if seen.len() > MAX_PAIRS || !go_on() {
            out.unknown
                .insert("the comparison was ended before all was compared".into());
            break;
        }
        let (classes, next) = stages(&mut terms, pair, (port.as_str(), &work), &mut out.unknown);
        for (pair, links) in next {
            queue.push_back((pair, port.clone(), onwards(&ways, links)));
        }
        let entry = old.program.entries.iter().any(|e| e.stage == pair.0);
        for mut c in classes {
            let told = out.changes.len() < MAX_CHANGES && out.perhaps.len() < MAX_CHANGES;
            if !told || trial.tries == 0 {
                out.more += usize::from(!c.change.some);
                continue;
            }
            if go_on() {
                let each = if c.change.some { ONWARD_FRAMES } else { FRAMES };
                if c.change.some {
                    c.onward(&terms);
                }
                let come = |part: &Filter| -> Vec<Filter> {
                    let before = |w: &Links| ways::before(old.program, part, w);
                    ways.iter().filter_map(before).collect()
                };
                let parts = match entry {
                    true => c.parts,
                    false => c.parts.iter().flat_map(come).collect(),
                };
                c.change.frame = trial.show(&port, &parts, each);
            }
            match &c.change.frame {
                Some(f) => {
                    if c.change.some {
                        c.change.what = trial.what(&port, f);
                    }
                    out.changes.push(c.change);
                }
                // that it is not known is told
                None if c.change.some => {}
                None => out.perhaps.push(c.change),
            }
        }
    }
    out.stages = seen.len();
    out
}

/// Pairs of stages, the port that packets come from, and how they come there.
type Queue = VecDeque<(Pair, String, Vec<Links>)>;

/// The stages of ports that both have; what only one has is noted, and where both are the same nothing is compared.
fn entries(
    (old, new): (&Compared<'_>, &Compared<'_>),
    terms: &mut Terms<'_>,
    out: &mut Differences,
) -> Queue {
    let mut queue = Queue::new();
    for p in old.ports.iter().filter(|p| p.source.is_some()) {
        let q = new
            .ports
            .iter()
            .find(|q| q.name == p.name && q.source.is_some());
        let Some(q) = q else {
            out.gone.push(p.name.clone());
            continue;
        };
        let stage = |c: &Compared<'_>, source: Option<ElemId>| {
            let e = c.program.entries.iter().find(|e| Some(e.source) == source);
            e.map(|e| e.stage)
        };
        // the same from the port on, lists put for lists that mean the same: nothing is left to be compared
        if let (Some(a), Some(b)) = (p.source, q.source)
            && terms.same_onwards(a, b)
        {
            continue;
        }
        match (stage(old, p.source), stage(new, q.source)) {
            (Some(a), Some(b)) => queue.push_back(((a, b), p.name.clone(), Vec::new())),
            _ => {
                let port = &p.name;
                out.unknown.insert(format!(
                    "what comes in at {port} has no program: the reference graph takes it whole"
                ));
            }
        }
    }
    for q in new.ports.iter().filter(|q| q.source.is_some()) {
        if !old
            .ports
            .iter()
            .any(|p| p.name == q.name && p.source.is_some())
        {
            out.added.push(q.name.clone());
        }
    }
    queue
}

/// The ways to stages behind these, to which these links lead.
fn onwards(ways: &[Links], links: Vec<Link>) -> Vec<Links> {
    let mut all = Vec::new();
    for l in links {
        match ways {
            [] => all.push(vec![l]),
            ways => all.extend(
                ways.iter()
                    .map(|w| [&w[..], std::slice::from_ref(&l)].concat()),
            ),
        }
    }
    all.truncate(MAX_WAYS);
    all
}

/// Stages of both.
type Pair = (StageId, StageId);

/// Pairs of stages where packets go on, and how they come there.
type Onwards = BTreeMap<Pair, Vec<Link>>;

/// Two stages, and what is known of their actions.
struct Stages<'a> {
    at: (StageId, StageId),
    old: &'a Stage,
    new: &'a Stage,
    known: HashMap<(u32, u32), Like>,
}

impl Stages<'_> {
    /// How the actions of two rules differ.
    fn compare(&mut self, i: usize, j: usize, terms: &mut Terms<'_>) -> Like {
        let (i, j) = (action(self.old, i), action(self.new, j));
        let (old, new) = (
            self.old.actions.get(i as usize),
            self.new.actions.get(j as usize),
        );
        let found = self
            .known
            .entry((i, j))
            .or_insert_with(|| match (old, new) {
                (Some(a), Some(b)) => terms.compare(a, b),
                _ => Like::Unknown("an action is not there".into()),
            });
        found.clone()
    }

    /// Packets of two rules go on in pairs of stages.
    fn lead(
        &self,
        (i, j): (usize, usize),
        to: Vec<Pair>,
        (terms, next): (&Terms<'_>, &mut Onwards),
    ) {
        for pair in to {
            let links = next.entry(pair).or_default();
            let (Some(r), Some(q)) = (self.old.rules.get(i), self.new.rules.get(j)) else {
                continue;
            };
            if links.len() < MAX_WAYS
                && let Some(filter) = both(terms.old().program, &r.filter, &terms.filter(&q.filter))
            {
                let a = self.old.actions.get(r.action.0 as usize);
                let image = a.and_then(ways::image);
                links.push(Link { filter, image });
            }
        }
    }

    /// Is an element asked by one of both?
    fn asks(&self, d: &Differing) -> bool {
        let is = |s: &Stage, rule: usize| {
            let a = s.actions.get(action(s, rule) as usize);
            a.is_some_and(|a| matches!(a.end, End::Ask { .. }))
        };
        is(self.old, d.old) || is(self.new, d.new)
    }

    /// What a difference is told by; `by_old`: the rule that changed is the old list's.
    fn key(&self, d: &Differing, by_old: bool) -> Key {
        let rule = match by_old {
            true => self.old.rules.get(d.old),
            false => self.new.rules.get(d.new),
        };
        let last = rule.and_then(|r| {
            r.origin
                .iter()
                .rev()
                .find(|o| o.arg.is_some())
                .or(r.origin.last())
        });
        Key {
            old: action(self.old, d.old),
            new: action(self.new, d.new),
            by_old,
            origin: last.map(|o| (o.elem, o.arg)),
        }
    }
}

fn action(s: &Stage, rule: usize) -> u32 {
    s.rules.get(rule).map_or(u32::MAX, |r| r.action.0)
}

/// Compares two stages: classes that differ, and pairs of stages where packets go on.
fn stages(
    terms: &mut Terms<'_>,
    (a, b): Pair,
    (port, work): (&str, &Cell<u64>),
    unknown: &mut BTreeSet<String>,
) -> (Vec<Class>, Onwards) {
    let mut next = Onwards::new();
    let (old, new) = (terms.old().program, terms.new_side().program);
    let (Some(s), Some(t)) = (old.stages.get(a.0 as usize), new.stages.get(b.0 as usize)) else {
        unknown.insert("a stage is not there".into());
        return (Vec::new(), next);
    };
    let x = FilterList::new(s.rules.iter().map(|r| r.filter.clone()).collect());
    let y = FilterList::new(t.rules.iter().map(|r| terms.filter(&r.filter)).collect());
    let mut both_of = Stages {
        at: (a, b),
        old: s,
        new: t,
        known: HashMap::new(),
    };
    let aligned = align(&x, &y, &mut |i, j| {
        matches!(both_of.compare(i, j, terms), Like::Same(_))
    });
    let mut seen: BTreeMap<(u32, u32), usize> = BTreeMap::new();
    for (i, j) in &aligned.common {
        let known = seen.entry((action(s, *i), action(t, *j))).or_insert(0);
        *known += 1;
        if *known <= MAX_WAYS
            && let Like::Same(list) = both_of.compare(*i, *j, terms)
        {
            both_of.lead((*i, *j), list, (&*terms, &mut next));
        }
    }
    let base = both(old, &s.known, &terms.filter(&t.known)).unwrap_or_default();
    let widths = terms.widths.clone();
    let lists = Lists {
        program: &widths,
        base: &base,
        old: &x,
        new: &y,
        exact: [&|_| true, &|_| true],
        work,
    };
    let mut found = Vec::new();
    let mut like = |i: usize, j: usize| match both_of.compare(i, j, terms) {
        Like::Same(list) => {
            both_of.lead((i, j), list, (&*terms, &mut next));
            true
        }
        _ => false,
    };
    let changed: BTreeSet<usize> = aligned.old.iter().copied().collect();
    let mut several: BTreeSet<(u32, u32, usize)> = BTreeSet::new();
    let whole = lists.differing(&aligned, &mut like, &mut |d| {
        let rule = if changed.contains(&d.old) {
            d.old
        } else {
            d.new
        };
        several.insert((action(s, d.old), action(t, d.new), rule));
        found.push(d);
        let enough = several.len() >= ENOUGH && work.get() < WORK - WORK_MORE;
        found.len() < MAX_DIFFERING && !enough
    });
    if !whole {
        let why = match several.len() >= ENOUGH {
            true => "more rules may differ: not all were looked at, as many do",
            false => "a search among rules was ended by its bound",
        };
        unknown.insert(format!("{why}, at {port}"));
    }
    let mut classes: BTreeMap<Key, Class> = BTreeMap::new();
    for d in found {
        let what = both_of.compare(d.old, d.new, terms);
        if let Like::Unknown(why) = &what {
            unknown.insert(why.clone());
            if !both_of.asks(&d) {
                continue;
            }
        }
        let key = both_of.key(&d, changed.contains(&d.old));
        let class = classes
            .entry(key)
            .or_insert_with(|| Class::new(port, what, both_of.at, key));
        class.add(d, (&widths, &x, &y));
    }
    (classes.into_values().collect(), next)
}

impl Class {
    fn new(port: &str, what: Like, (a, b): (StageId, StageId), key: Key) -> Class {
        let does = |stage: StageId, action: u32| Does {
            stage: stage.0 as usize,
            action: action as usize,
            rules: Vec::new(),
        };
        let change = Change {
            port: port.to_string(),
            some: matches!(what, Like::Unknown(_)),
            what,
            old: does(a, key.old),
            new: does(b, key.new),
            filters: Vec::new(),
            except: Vec::new(),
            pairs: 0,
            frame: None,
        };
        Class {
            change,
            parts: Vec::new(),
        }
    }

    /// Adds packets of rules behind elements that are asked.
    fn onward(&mut self, terms: &Terms<'_>) {
        let (old, new) = (terms.old().program, terms.new_side().program);
        let mut all = Vec::new();
        for (p, does, is_new) in [
            (old, &self.change.old, false),
            (new, &self.change.new, true),
        ] {
            let Some(a) = (p.stages.get(does.stage)).and_then(|s| s.actions.get(does.action))
            else {
                continue;
            };
            let term = |f: &Filter| if is_new { terms.filter(f) } else { f.clone() };
            let rules = behind(p, a).into_iter().map(|f| term(&f)).take(ONWARD);
            for f in rules {
                let one = |part: &Filter| match ways::image(a) {
                    Some(image) => ways::back(&terms.widths, &f, &image, part.clone()),
                    None => both(&terms.widths, &f, part),
                };
                all.extend(self.parts.iter().filter_map(one));
            }
        }
        self.parts.extend(all);
    }

    /// Adds a pair of rules.
    fn add(&mut self, d: Differing, (p, x, y): (&Program, &FilterList, &FilterList)) {
        let c = &mut self.change;
        c.pairs += 1;
        note(&mut c.old.rules, d.old);
        note(&mut c.new.rules, d.new);
        let cube = (x.get(d.old).zip(y.get(d.new))).and_then(|(f, g)| both(p, f, g));
        if let Some(cube) = cube.filter(|f| c.filters.len() < MAX_RULES && !c.filters.contains(f)) {
            for (list, until) in [(x, d.old), (y, d.new)] {
                excepted(&mut c.except, &cube, list, until);
            }
            c.filters.push(cube);
        }
        if self.parts.len() < PARTS {
            self.parts.push(d.part);
        }
    }
}

/// Filters of the rules of stages where an action's packets go on, those of each stage in turn.
fn behind(p: &Program, a: &Action) -> Vec<Filter> {
    let stages = ways::next_stages(a).into_iter();
    let lists: Vec<&Stage> = stages.filter_map(|s| p.stages.get(s.0 as usize)).collect();
    let longest = lists.iter().map(|s| s.rules.len()).max().unwrap_or(0);
    let rows = (0..longest.min(ONWARD)).flat_map(|i| lists.iter().map(move |s| s.rules.get(i)));
    rows.flatten().map(|r| r.filter.clone()).collect()
}

/// Notes what the first lines of a list take of a filter's packets.
fn excepted(to: &mut Vec<Filter>, cube: &Filter, list: &FilterList, until: usize) {
    for i in list.overlapping(cube, until) {
        let Some(f) = list.get(i).filter(|_| to.len() < MAX_RULES) else {
            return;
        };
        let beyond =
            f.0.iter()
                .filter(|(d, s)| cube.get(*d).is_none_or(|c| !c.is_subset(s)));
        let f = Filter(beyond.cloned().collect());
        if !to.contains(&f) {
            to.push(f);
        }
    }
}

fn note(list: &mut Vec<usize>, rule: usize) {
    if list.len() < MAX_RULES && !list.contains(&rule) {
        list.push(rule);
    }
}
