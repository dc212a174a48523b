//! The lists that packets are asked about on their way through a chain and all that it jumps to.
//!
//! A jump is written out: every rule of the chain jumped to, with the jump's own conditions before its. A `return` (and
//! what follows a `goto`) takes its packets out of the rules that follow in the same chain.
//!
//! A rule that changes a packet, or its mark, and goes on ends its *section*: its packets go on in another one, which
//! begins behind the rule, and whose packets all have the new mark. So a mark is known wherever it is asked for, and
//! the answer stands in the place of the question. Where the answer depends on the connection's mark, a section tells
//! packets by that first.
//!
//! A rule with a question ([`super::asks`]) ends a section, too: a section of its own asks it, and of whom it holds
//! goes on in one that begins with the rest of the rule. All others, asked or not, go on in one that begins behind the
//! rule.

use super::asks::{self, Question};
use super::chains::{At, ChainRule, InterfaceTest, Interfaces, Target};
use super::mark::{Change, MarkOf, MarkTest};
use super::rule::{MAX_RULES, Onward, Section, Step, Verdict, Way};
use super::sections::{
    Asked, Connection, Decides, Does, Frame, Key, Kind, Marks, Source, State, Walked, acyclic,
    behind, changes,
};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// How deep chains may call one another.
const MAX_DEPTH: usize = 32;
/// Longest expression that a rule may become, in bytes.
const MAX_EXPRESSION: usize = 1 << 16;
/// Most rules that are looked at while jumps are written out.
const MAX_STEPS: usize = 4_000_000;
/// Longest text that they may become in all, in bytes.
const MAX_BYTES: usize = 32 << 20;
/// Most sections of a list.
const MAX_SECTIONS: usize = 4096;

/// What goes wrong: the line of the rule that it is about, and why.
pub(super) type Wrong = (u32, String);

struct Walk<'a, 'm> {
    source: &'a Source,
    at: At,
    names: &'a Interfaces,
    /// Bits of packets' marks that are asked for, here or later.
    asked: u32,
    marks: &'m mut Marks,
    numbers: HashMap<Key<'a>, usize>,
    todo: Vec<Key<'a>>,
    /// Of the section that is being made.
    rules: Vec<Decides>,
    exits: BTreeSet<u8>,
    steps: usize,
    count: usize,
    bytes: usize,
    depth: usize,
    refused: Vec<Wrong>,
    /// No packet comes to what is looked at: it is told for lists that are to be whole.
    dead: bool,
    /// Rules that are in a list, by chain and place.
    added: HashSet<(&'a str, usize)>,
}

/// Makes the lists for packets that go `way` and come with one of these marks (by number).
///
/// # Errors
/// The line of the rule that it is about, and why.
pub fn walk(
    source: &Source,
    (way, names): (Way, &Interfaces),
    entries: &BTreeSet<u8>,
    asked: u32,
    marks: &mut Marks,
) -> Result<Walked, Vec<Wrong>> {
    let mut w = Walk {
        source,
        at: (way, source.devices),
        names,
        asked,
        marks,
        numbers: HashMap::new(),
        todo: Vec::new(),
        rules: Vec::new(),
        exits: BTreeSet::new(),
        steps: 0,
        count: 0,
        bytes: 0,
        depth: 0,
        refused: Vec::new(),
        dead: false,
        added: HashSet::new(),
    };
    let one = |e| vec![e];
    let mut out = Walked::default();
    for mark in entries {
        let connection = match source.tracked {
            true => Connection::Unknown,
            false => Connection::None,
        };
        let state = State {
            mark: *mark,
            connection,
        };
        let key = Key {
            frames: vec![(source.start.as_str(), 0)],
            state,
            granted: 0,
            kind: Kind::Rules,
        };
        let number = w.number(key, 0).map_err(one)?;
        out.entries.push((*mark, number));
    }
    let mut sections: Vec<Option<Section<Decides>>> = Vec::new();
    while let Some(key) = w.todo.pop() {
        let number = w.numbers.get(&key).copied().unwrap_or(0);
        let section = match key.kind {
            Kind::Connection => w.by_connection(key),
            Kind::Rules => w.section(key),
            Kind::Ask => w.by_answer(key),
        };
        let section = section.map_err(one)?;
        sections.resize(sections.len().max(number + 1), None);
        if let Some(s) = sections.get_mut(number) {
            *s = Some(section);
        }
    }
    out.sections = sections.into_iter().flatten().collect();
    if names.whole
        && let Some(Section::Rules(rules)) = out.sections.first_mut()
    {
        w.rules.clear();
        for r in source.without(&w.added).into_iter().take(MAX_RULES) {
            w.add((r, None), &["false".to_string()], Vec::new(), None);
        }
        rules.append(&mut w.rules);
    }
    if !w.refused.is_empty() {
        return Err(w.refused);
    }
    acyclic(&out.sections).map_err(one)?;
    out.exits = w.exits;
    out.simplify(entries);
    Ok(out)
}

impl<'a> Walk<'a, '_> {
    /// The number of a section.
    fn number(&mut self, key: Key<'a>, line: u32) -> Result<usize, Wrong> {
        if let Some(n) = self.numbers.get(&key) {
            return Ok(*n);
        }
        let n = self.numbers.len();
        if n >= MAX_SECTIONS {
            let text = format!(
                "rules that change packets or marks and go on, or ask for rates, strings or lists, lead to more than \
                 {MAX_SECTIONS} lists"
            );
            return Err((line.max(1), text));
        }
        if key.frames.len() > MAX_DEPTH {
            return Err(too_deep(line, key.frames.last().map_or("", |f| f.0)));
        }
        self.numbers.insert(key.clone(), n);
        self.todo.push(key);
        Ok(n)
    }

    /// Packets by their connections' marks.
    fn by_connection(&mut self, key: Key<'a>) -> Result<Section<Decides>, Wrong> {
        let known = |connection| Key {
            state: State {
                connection,
                ..key.state
            },
            kind: Kind::Rules,
            ..key.clone()
        };
        let mut values = Vec::new();
        for v in self.marks.connections.clone() {
            values.push((v, self.number(known(Connection::Is(v)), 0)?));
        }
        let none = self.number(known(Connection::None), 0)?;
        Ok(Section::Connection { values, none })
    }

    /// Packets by the answer to a question of the rule that the section begins with.
    fn by_answer(&mut self, key: Key<'a>) -> Result<Section<Decides>, Wrong> {
        let source = self.source;
        let rule = key
            .frames
            .last()
            .and_then(|(chain, i)| source.chains.get(*chain)?.get(*i));
        let number = key.granted;
        let Some((r, ask)) = rule.and_then(|r| Some((r, r.asks.get(number)?))) else {
            return Ok(Section::Rules(Vec::new()));
        };
        let behind = self.number(behind(&key), r.line)?;
        let granted = Key {
            granted: number + 1,
            kind: Kind::Rules,
            ..key
        };
        let goes_on = match idle(r, number + 1) {
            true => behind,
            false => self.number(granted, r.line)?,
        };
        let over = matches!(&ask.question, Question::Limit(l) if l.over);
        let (holds, fails) = match over != ask.not {
            false => (goes_on, behind),
            true => (behind, goes_on),
        };
        Ok(Section::Ask {
            asked: Arc::new(asks::Asked::of(r, number, &ask.question)),
            line: r.line,
            holds,
            fails,
        })
    }

    fn section(&mut self, key: Key<'a>) -> Result<Section<Decides>, Wrong> {
        self.rules.clear();
        let (mut frames, state) = (key.frames, key.state);
        let (mut open, mut granted) = (true, key.granted);
        while let Some(frame) = frames.pop().filter(|_| open) {
            open = !self.chain((frame, granted), &mut frames, state, (&[], 0))?;
            granted = 0;
        }
        if open {
            self.exits.insert(state.mark);
        }
        Ok(Section::Rules(std::mem::take(&mut self.rules)))
    }

    /// Adds the rules of a chain from a place on. `before`: what holds of packets that come here; `callers`: where
    /// those go on that come back; `line`: of the jump; `granted`: so many questions of the first rule hold. Gives back
    /// whether all packets have been decided.
    fn chain(
        &mut self,
        ((chain, from), granted): (Frame<'a>, usize),
        callers: &mut Vec<Frame<'a>>,
        state: State,
        (before, line): (&[String], u32),
    ) -> Result<bool, Wrong> {
        let source = self.source;
        let Some(list) = source.chains.get(chain) else {
            // the others are looked at, so that all that is wrong is said at once
            let known = source.chains.keys().map(String::as_str);
            let known = known.chain(["ACCEPT", "DROP", "REJECT", "RETURN"]);
            let text = format!("there is no chain '{chain}'");
            let text = match onefold_click::suggest::did_you_mean(chain, known) {
                // every name of a letter or two is like every other
                Some(hint) if chain.len() > 2 => format!("{text}; {hint}"),
                _ => text,
            };
            self.refused.push((line.max(1), text));
            return Ok(false);
        };
        let mut here: Vec<String> = before.to_vec();
        let (whole, dead) = (self.names.whole, self.dead);
        let mut decided = false;
        for (i, r) in list.iter().enumerate().skip(from) {
            self.bounded(r.line)?;
            let holds = |i: &InterfaceTest| i.holds(self.at, self.names);
            if !r.interfaces.iter().all(holds) {
                continue;
            }
            let granted = if i == from { granted } else { 0 };
            let asked = Asked::of(r, granted);
            let does = self.does(asked, state).map_err(|why| (r.line, why))?;
            let other = || asked.ask.is_some() || r.refused.is_some() || changes(&does, state);
            if does == Does::Nothing || self.dead && other() {
                continue;
            }
            if let (Some(why), Does::Takes(..)) = (&r.refused, &does) {
                self.refused.push((r.line, why.clone()));
                continue;
            }
            // a rule that does nothing keeps a rate for nobody
            if asked.ask.is_some() && idle(r, granted) {
                continue;
            }
            let mut tests = asked.tests.to_vec();
            match (asked.own.iter())
                .map(|o| o.test(self.at, self.names))
                .collect()
            {
                Ok(own) => tests.extend::<Vec<String>>(own),
                Err(why) => {
                    self.refused.push((r.line, why));
                    continue;
                }
            }
            let all: Vec<String> = here.iter().chain(&tests).cloned().collect();
            let length = all.iter().map(|t| t.len() + 4).sum::<usize>();
            self.bytes += length;
            if length > MAX_EXPRESSION {
                let why = "jumps and returns make this rule's conditions too long";
                return Err((r.line, why.into()));
            }
            let at = Key {
                frames: callers.iter().copied().chain([(chain, i)]).collect(),
                state,
                granted,
                kind: Kind::Rules,
            };
            if asked.ask.is_some() && matches!(does, Does::Takes(..)) {
                self.asks(r, at, (&here, &tests), &all)?;
                return Ok(here.is_empty());
            }
            match self.rule((r, at), callers, does, &all)? {
                Left::Nobody => {}
                // unless some have left the chain before
                Left::Decided if tests.is_empty() && !whole => return Ok(here.is_empty()),
                Left::Decided if tests.is_empty() => {
                    decided |= here.is_empty();
                    self.dead = true;
                }
                // they need not be taken out: a later rule is never asked about them
                Left::Decided => {}
                Left::Returned if tests.is_empty() => break,
                Left::Returned => here.push(format!("not ({})", tests.join(" && "))),
            }
        }
        self.dead = dead;
        Ok(decided)
    }

    fn bounded(&mut self, line: u32) -> Result<(), Wrong> {
        self.steps += 1;
        let many = self.count > MAX_RULES || self.bytes > MAX_BYTES;
        match self.steps > MAX_STEPS || many {
            true => Err((line, "the jumps lead to too many rules".into())),
            false => Ok(()),
        }
    }

    /// Adds a rule, or those of the chain that it jumps to; `all`: its conditions.
    fn rule(
        &mut self,
        (r, at): (&'a ChainRule, Key<'a>),
        callers: &mut Vec<Frame<'a>>,
        does: Does,
        all: &[String],
    ) -> Result<Left, Wrong> {
        let state = at.state;
        let place = at.frames.last().copied();
        let (new, steps) = match does {
            Does::Nothing => return Ok(Left::Nobody),
            Does::Depends => {
                let kind = Kind::Connection;
                let to = self.number(Key { kind, ..at }, r.line)?;
                self.add((r, place), all, Vec::new(), Some(to));
                return Ok(Left::Decided);
            }
            Does::Takes(new, steps) => (new, steps),
        };
        let changed = new != state || !steps.is_empty();
        // where packets go on that have been changed
        let next = behind(&at).frames.last().copied();
        let mut frames = callers.clone();
        let behind = match &r.target {
            Target::Verdict(Verdict::Deny) => {
                // nothing of the packet is left; its connection is, if it has been there before
                let of_connection = |s: &Step| matches!(s, Step::ConnectionMark(_));
                let steps = steps.into_iter().filter(of_connection).collect();
                self.add((r, place), all, steps, None);
                return Ok(Left::Decided);
            }
            Target::Verdict(_) | Target::Nat(_) => {
                self.exits.insert(new.mark);
                self.add((r, place), all, steps, None);
                return Ok(Left::Decided);
            }
            Target::Nothing if !changed => return Ok(Left::Nobody),
            Target::Return if !changed => return Ok(Left::Returned),
            Target::Jump(c) if !changed => {
                let depth = callers.len();
                callers.extend(next);
                let called = self.called(c, callers, state, (all, r.line));
                callers.truncate(depth);
                called?;
                return Ok(Left::Nobody);
            }
            Target::Goto(c) if !changed => {
                self.called(c, callers, state, (all, r.line))?;
                return Ok(Left::Returned);
            }
            Target::Nothing => next.into_iter().collect(),
            Target::Return => vec![],
            Target::Jump(c) => next.into_iter().chain([(c.as_str(), 0)]).collect(),
            Target::Goto(c) => vec![(c.as_str(), 0)],
        };
        frames.extend(behind);
        let key = Key {
            frames,
            state: new,
            granted: 0,
            kind: Kind::Rules,
        };
        let to = self.number(key, r.line)?;
        self.add((r, place), all, steps, Some(to));
        Ok(Left::Decided)
    }

    /// Adds a rule's question. `here`: what holds of packets that come to the rule, `tests`: what must hold before it
    /// is asked, `all`: both.
    fn asks(
        &mut self,
        r: &ChainRule,
        at: Key<'a>,
        (here, tests): (&[String], &[String]),
        all: &[String],
    ) -> Result<(), Wrong> {
        let kind = Kind::Ask;
        let next = behind(&at);
        let place = at.frames.last().copied();
        let to = self.number(Key { kind, ..at }, r.line)?;
        self.add((r, place), all, Vec::new(), Some(to));
        if !tests.is_empty() {
            let to = self.number(next, r.line)?;
            self.add((r, None), here, Vec::new(), Some(to));
            let last = self.rules.last_mut();
            if let Some(onward) = last.and_then(|r| r.onward.as_mut()) {
                onward.others = true;
            }
        }
        Ok(())
    }

    /// Adds a rule that stands at this place of a chain.
    fn add(
        &mut self,
        (r, place): (&ChainRule, Option<Frame<'a>>),
        all: &[String],
        steps: Vec<Step>,
        section: Option<usize>,
    ) {
        self.added.extend(place);
        self.count += 1;
        self.rules.push(Decides {
            target: r.target.clone(),
            onward: (section.is_some() || !steps.is_empty()).then_some(Onward {
                steps,
                section,
                others: false,
            }),
            filter: match all.is_empty() {
                true => "all".into(),
                false => all.join(" && "),
            },
            line: r.line,
            place: r.place.clone(),
        });
    }

    /// What a rule does with packets of this state, its other conditions aside.
    ///
    /// # Errors
    /// There are too many marks.
    fn does(&mut self, r: Asked<'_>, state: State) -> Result<Does, String> {
        let mark = self
            .marks
            .all
            .get(usize::from(state.mark))
            .map_or(0, |m| m.0);
        let of_packet = |t: &&MarkTest| t.of == MarkOf::Packet;
        if !r.marks.iter().filter(of_packet).all(|t| t.holds(mark)) {
            return Ok(Does::Nothing);
        }
        let of_connection = r.marks.iter().any(|t| t.of == MarkOf::Connection);
        let asked = self.marks.asked != 0;
        let needs = |c: &Change| match c {
            Change::ConnectionMark(_) => asked,
            c => c.needs_connection(),
        };
        let needs = of_connection || r.changes.iter().any(needs);
        if state.connection != Connection::Unknown || !needs {
            return self.with(r, state);
        }
        // whatever it is, if it is all the same
        let mut found: Option<Does> = None;
        let candidates = self.marks.connections.clone().into_iter();
        for c in candidates.map(Connection::Is).chain([Connection::None]) {
            let known = State {
                connection: c,
                ..state
            };
            let does = match self.with(r, known)? {
                Does::Takes(new, steps) if new.connection == c => {
                    let same = State {
                        connection: Connection::Unknown,
                        ..new
                    };
                    Does::Takes(same, steps)
                }
                Does::Nothing => Does::Nothing,
                _ => return Ok(Does::Depends),
            };
            if found.get_or_insert_with(|| does.clone()) != &does {
                return Ok(Does::Depends);
            }
        }
        Ok(found.unwrap_or(Does::Nothing))
    }

    /// The same, where what is asked of the connection is known.
    fn with(&mut self, r: Asked<'_>, state: State) -> Result<Does, String> {
        let holds = |t: &MarkTest| match (t.of, state.connection) {
            (MarkOf::Packet, _) => true,
            (MarkOf::Connection, Connection::Is(m)) => t.holds(m),
            (MarkOf::Connection, _) => false,
        };
        if !r.marks.iter().all(holds) {
            return Ok(Does::Nothing);
        }
        let (mut new, mut steps) = (state, Vec::new());
        for c in r.changes {
            let now = self.marks.all.get(usize::from(new.mark)).copied();
            let (mark, untracked) = now.unwrap_or((0, false));
            match (c, new.connection) {
                (Change::Header(e), _) => steps.push(self.marks.header(e)?),
                (Change::Untrack, _) if self.source.tracked => {
                    return Err("a packet that has been tracked cannot be left untracked: 'notrack' is for table raw, or \
                                chains at hook prerouting with a priority below -200"
                        .into());
                }
                (Change::Untrack, _) if untracked => {}
                (Change::Untrack, _) => new.mark = self.marks.number((mark, true))?,
                // it stays as it is
                (Change::PacketMark(v), Connection::None) if v.connection != 0 => {}
                (Change::PacketMark(v), connection) => {
                    let of_connection = match connection {
                        Connection::Is(m) => m,
                        _ => 0,
                    };
                    let to = v.apply(mark, of_connection) & self.asked;
                    if to != mark & self.asked {
                        new.mark = self.marks.number((to, untracked))?;
                    }
                }
                (Change::ConnectionMark(v), Connection::Is(m)) => {
                    let to = v.apply(mark, m) & self.marks.asked;
                    if to != m {
                        self.marks.write_connection(to)?;
                        new.connection = Connection::Is(to);
                        steps.push(Step::ConnectionMark(to));
                    }
                }
                // there is none, or nobody asks
                (Change::ConnectionMark(_), _) => {}
            }
        }
        if new.mark != state.mark {
            steps.push(Step::Mark(new.mark));
        }
        Ok(Does::Takes(new, steps))
    }

    /// Adds the rules of a chain that is called.
    fn called(
        &mut self,
        chain: &'a str,
        callers: &mut Vec<Frame<'a>>,
        state: State,
        (all, line): (&[String], u32),
    ) -> Result<(), Wrong> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(too_deep(line, chain));
        }
        let decided = self.chain(((chain, 0), 0), callers, state, (all, line));
        self.depth -= 1;
        decided.map(drop)
    }
}

/// Does nothing come of the questions of a rule, behind so many of them?
fn idle(r: &ChainRule, granted: usize) -> bool {
    let notes = |a: &asks::Ask| matches!(a.question, Question::Recent(_));
    r.target == Target::Nothing && r.changes.is_empty() && !r.asks.iter().skip(granted).any(notes)
}

/// What has become of the packets that a rule takes.
enum Left {
    /// They are still there.
    Nobody,
    /// They will be asked about no more.
    Decided,
    /// They have left the chain.
    Returned,
}

fn too_deep(line: u32, chain: &str) -> Wrong {
    let text =
        format!("chains call one another more than {MAX_DEPTH} deep, or in a circle, at '{chain}'");
    (line, text)
}
