//! Lists in sections: what stands behind a rule that changes packets, or their marks, and goes on, or asks an element.
//!
//! A section is a filter. Rules that decide lead out of the list, the others, by what they do to a packet, to the
//! section behind them. All packets of a section have the same mark, of which the rules have been told already; the
//! number of a packet's mark goes with it as its colour (Paint), and where a list begins differently for different
//! marks, packets are told apart by it. What an expression cannot ask is asked by elements of their own,
//! between filters (RateCheck).

use super::Line;
use super::lists::{Lists, Passage, list};
use super::stages::for_groups;
use crate::import::{Asked, Onward, Section, Sections, Step, translates_prefixes};
use crate::kinds::connections::Group;
use crate::kinds::{ClickText, KindCx, discard};

/// Of packets that were dropped by a rule that has changed their connection's mark.
const DENIED: &str = "denied, with a mark for the connection";
/// Of packets with a mark with which none comes to a list.
const NO_MARK: &str = "a mark that no packet has here";

/// Marks of packets by number, and whether those that have them are not tracked; nothing, if there are none.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks(pub Vec<(u32, bool)>);

impl Marks {
    /// What stands behind the check of a packet's header.
    pub fn first(&self) -> &'static str {
        match self.0.is_empty() {
            true => "",
            false => " -> Paint(0)",
        }
    }
}

/// A list's lines, with its sections from 1 on; those of a list without any are the list.
#[derive(Debug, Clone, Default)]
pub(super) struct LineList {
    pub lines: Vec<Line>,
    entries: Vec<(u8, usize)>,
    pub more: Vec<Section<Line>>,
}

/// Where packets come to a list from, and what it is called.
pub(super) struct Begin<'a> {
    pub from: &'a [String],
    pub element: &'a str,
    pub filter: &'a str,
}

/// Where packets go that a rule decides about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Exits<'a> {
    /// Those that are let pass come to this element.
    One(&'a str),
    /// To the input of this element that the rule's first word says, of so many.
    Inputs(&'a str, usize),
}

impl LineList {
    /// Without sections.
    pub fn plain(lines: Vec<Line>) -> LineList {
        LineList {
            lines,
            ..LineList::default()
        }
    }

    /// Of rules and sections; `last` stands behind each.
    pub fn of<R>(
        rules: &[R],
        sections: &Sections<R>,
        mut line: impl FnMut(&R) -> Line,
        last: Option<&Line>,
    ) -> LineList {
        let mut lines = |rules: &[R]| -> Vec<Line> {
            let all = rules.iter().map(&mut line);
            all.chain(last.cloned()).collect()
        };
        let first = lines(rules);
        let mut more = Vec::new();
        for s in &sections.more {
            more.push(match s {
                Section::Rules(rules) => Section::Rules(lines(rules)),
                Section::Connection { values, none } => Section::Connection {
                    values: values.clone(),
                    none: *none,
                },
                Section::Ask {
                    asked,
                    line,
                    holds,
                    fails,
                } => Section::Ask {
                    asked: asked.clone(),
                    line: *line,
                    holds: *holds,
                    fails: *fails,
                },
            });
        }
        LineList {
            lines: first,
            entries: sections.entries.clone(),
            more,
        }
    }

    /// All lines, of all sections.
    pub fn all(&self) -> impl Iterator<Item = &Line> {
        let more = self.more.iter().flat_map(|s| match s {
            Section::Rules(lines) => lines.as_slice(),
            Section::Connection { .. } | Section::Ask { .. } => &[],
        });
        self.lines.iter().chain(more)
    }

    /// Does it ask for the marks of connections, or set them?
    pub fn marks_connections(&self) -> bool {
        let sets = |l: &Line| {
            let steps = l.onward.iter().flat_map(|o| &o.steps);
            steps
                .into_iter()
                .any(|s| matches!(s, Step::ConnectionMark(_)))
        };
        let by_mark = |s: &Section<Line>| matches!(s, Section::Connection { .. });
        self.more.iter().any(by_mark) || self.all().any(sets)
    }

    /// What is asked of elements, as often as it is.
    pub fn questions(&self) -> impl Iterator<Item = &Asked> {
        self.more.iter().filter_map(|s| match s {
            Section::Ask { asked, .. } => Some(asked.as_ref()),
            Section::Rules(_) | Section::Connection { .. } => None,
        })
    }

    /// Is it one filter?
    pub fn is_plain(&self) -> bool {
        self.more.is_empty() && self.lines.iter().all(|l| l.onward.is_none())
    }

    /// The list for a group, with questions about connections answered, as [`for_groups`] makes it.
    pub fn for_group(&self, groups: &[Group], number: usize, how: (bool, bool)) -> LineList {
        let of = |lines: &[Line]| {
            let mut lists = for_groups(lines, groups, how).into_iter();
            lists.nth(number).unwrap_or_default()
        };
        let more = self.more.iter().map(|s| match s {
            Section::Rules(lines) => Section::Rules(of(lines)),
            s => s.clone(),
        });
        LineList {
            lines: of(&self.lines),
            entries: self.entries.clone(),
            more: more.collect(),
        }
    }

    /// Writes the list's elements.
    pub fn write(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        begin: Begin<'_>,
        exits: Exits<'_>,
    ) {
        let element = begin.element;
        let mut w = Writer {
            list: self,
            begin: &begin,
            exits,
            todo: Vec::new(),
            known: vec![false; self.more.len() + 1],
            edges: Vec::new(),
            tracks: cx.tracks,
        };
        if self.entries.len() <= 1 {
            let to = w.section(self.entries.first().map_or(0, |e| e.1));
            for from in begin.from {
                w.edges.push(format!("{from} -> {to};"));
            }
        } else {
            let colours = format!("{element}_marks");
            t.line(format!("{colours} :: PaintSwitch;"));
            let most = self.entries.iter().map(|e| e.0).max().unwrap_or(0);
            for colour in 0..=most {
                let to = match self.entries.iter().find(|e| e.0 == colour) {
                    Some((_, section)) => w.section(*section),
                    None => discard(NO_MARK),
                };
                w.edges.push(format!("{colours}[{colour}] -> {to};"));
            }
            for from in begin.from {
                w.edges.push(format!("{from} -> {colours};"));
            }
        }
        // Bound: each section is written once
        while let Some(n) = w.todo.pop() {
            match n.checked_sub(1).and_then(|n| self.more.get(n)) {
                None => w.lines(t, cx, n, &self.lines),
                Some(Section::Rules(lines)) => w.lines(t, cx, n, lines),
                Some(Section::Connection { values, none }) => w.connections(t, n, values, *none),
                Some(Section::Ask {
                    asked,
                    holds,
                    fails,
                    ..
                }) => w.ask(t, n, asked, (*holds, *fails)),
            }
        }
        for e in &w.edges {
            t.line(e);
        }
        // where all packets are dropped, what stands behind is there for the other lists
        if let Exits::One(to) = exits
            && !w.edges.iter().any(|e| e.ends_with(&format!("-> {to};")))
        {
            t.line(format!("Idle -> {to};"));
        }
    }
}

/// The element that changes a header. One that gives packets other addresses says so to who tracks connections.
fn changed(element: &str, tracks: bool) -> String {
    match element.strip_suffix(')') {
        Some(text) if tracks && translates_prefixes(element) => {
            format!("{text}, TRACKED connections)")
        }
        _ => element.to_string(),
    }
}

/// A list while it is written.
struct Writer<'a> {
    list: &'a LineList,
    begin: &'a Begin<'a>,
    exits: Exits<'a>,
    /// Sections that packets come to, and that have not been written.
    todo: Vec<usize>,
    known: Vec<bool>,
    edges: Vec<String>,
    /// The function tracks connections.
    tracks: bool,
}

impl Writer<'_> {
    /// The name of a section's element, to which packets come.
    fn section(&mut self, n: usize) -> String {
        if let Some(known) = self.known.get_mut(n).filter(|k| !**k) {
            *known = true;
            self.todo.push(n);
        }
        match n {
            0 => self.begin.element.to_string(),
            n => format!("{}_section{n}", self.begin.element),
        }
    }

    fn lines(&mut self, t: &mut ClickText, cx: &mut KindCx<'_>, n: usize, lines: &[Line]) {
        let element = self.section(n);
        // where each output leads
        let mut outputs: Vec<String> = match self.exits {
            // what translates has an input for each of its ranges, and they are all connected
            Exits::Inputs(to, inputs) if self.list.more.is_empty() => {
                (0..inputs).map(|k| format!("[{k}]{to}")).collect()
            }
            _ => Vec::new(),
        };
        let mut written = Vec::new();
        for l in lines {
            let word = match self.leads_to(l) {
                None => "deny".to_string(),
                Some(to) => {
                    let found = outputs.iter().position(|o| *o == to);
                    let output = found.unwrap_or(outputs.len());
                    if found.is_none() {
                        outputs.push(to);
                    }
                    output.to_string()
                }
            };
            let filter = l.text.split_once(' ').map_or("all", |(_, f)| f);
            written.push(Line {
                text: format!("{word} {filter}"),
                ..l.clone()
            });
        }
        t.line(format!("{element} :: {}(", self.begin.filter));
        list(t, cx, element.clone(), &written, None);
        t.line(");");
        for (k, to) in outputs.iter().enumerate() {
            self.edges.push(format!("{element}[{k}] -> {to};"));
        }
    }

    /// Where the packets of a rule go; `None`: they are dropped.
    fn leads_to(&mut self, l: &Line) -> Option<String> {
        let word = l.verdict();
        let mut way: Vec<String> = Vec::new();
        if let Some(Onward { steps, .. }) = &l.onward {
            way.extend(steps.iter().map(|s| match s {
                Step::Mark(n) => format!("Paint({n})"),
                Step::ConnectionMark(m) => format!("ConnSetMark(connections, {m})"),
                Step::Header(element) => changed(element, self.tracks),
            }));
        }
        let goal = match (l.onward.as_ref().and_then(|o| o.section), self.exits) {
            (Some(n), _) => self.section(n),
            (None, _) if word == "deny" && way.is_empty() => return None,
            (None, _) if word == "deny" => discard(DENIED),
            (None, Exits::One(to)) => to.to_string(),
            (None, Exits::Inputs(to, _)) => format!("[{word}]{to}"),
        };
        way.push(goal);
        Some(way.join(" -> "))
    }

    /// Packets of which it holds, and the others.
    fn ask(&mut self, t: &mut ClickText, n: usize, asked: &Asked, (holds, fails): (usize, usize)) {
        let element = self.section(n);
        let (before, text, behind, outputs) = asked.element();
        let mut asks = element.clone();
        if !before.is_empty() {
            // packets come to what stands in front
            asks = format!("{element}_asks");
            t.line(format!("{element} :: {before};"));
            self.edges.push(format!("{element} -> {asks};"));
        }
        t.line(format!("{asks} :: {text};"));
        let behind = match behind.is_empty() {
            true => String::new(),
            false => format!("{behind} -> "),
        };
        for k in 0..=outputs {
            let to = self.section(if k < outputs { holds } else { fails });
            self.edges.push(format!("{asks}[{k}] -> {behind}{to};"));
        }
    }

    fn connections(&mut self, t: &mut ClickText, n: usize, values: &[(u32, usize)], none: usize) {
        let element = self.section(n);
        let marks: Vec<String> = values.iter().map(|(v, _)| v.to_string()).collect();
        let marks = marks.join(", ");
        t.line(format!("{element} :: ConnMark(connections, {marks});"));
        let goals = values.iter().map(|v| v.1).chain([none]);
        for (k, to) in goals.enumerate() {
            let to = self.section(to);
            self.edges.push(format!("{element}[{k}] -> {to};"));
        }
    }
}

impl Lists {
    /// Writes the tracker, with these classes at its outputs; packets that are not to be tracked come to its second
    /// input.
    pub(super) fn write_tracker(
        &self,
        t: &mut ClickText,
        way: &Passage<'_>,
        (from, state): (String, &str),
        outputs: &[String],
    ) {
        let track = format!("{state} :: ConnTrack(connections, {});", outputs.join(", "));
        let marks = &self.lines.marks.0;
        if way.only.is_some() || !marks.iter().any(|(_, untracked)| *untracked) {
            t.line(format!("{from} -> {track}"));
            return;
        }
        t.line(&track);
        t.line(format!("{from} -> {state}_marks :: PaintSwitch;"));
        for (i, (_, untracked)) in marks.iter().enumerate() {
            let input = u8::from(*untracked);
            t.line(format!("{state}_marks[{i}] -> [{input}]{state};"));
        }
    }
}
