//! `firewall`: lets packets pass between port 0 (inside) and port 1 (outside) by an ordered rule set; the first match
//! decides.

mod nat;
mod sections;
mod stages;

use super::connections::{Asking, Connections, Group, asks, groups, universe};
use super::{ClickText, KindCx, NOT_IP, VLAN_TAGGED, discard};
use crate::edit::{self, ListEdit};
use crate::file::Loc;
use crate::import::{
    Family, Hook, LEAST_MTU, Onward, ReadOptions, Rule, RuleFormat, RuleSet, Sections, Stage,
    Verdict, click_list, read_rules,
};
use crate::rules::{self, ListedRule, RulePlace};
use nat::Translation;
use onefold_click::source::Span;
use onefold_elements::connection::classes_text;
use schemars::JsonSchema;
use sections::{Exits, LineList, Marks};
use serde::Deserialize;
use stages::StageLines;
use std::sync::Arc;

/// Ports: 0 inside, 1 outside. Frames are passed on unchanged.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Firewall {
    /// Rules for IPv4, in order: `allow EXPRESSION` or `deny EXPRESSION` in IPFilter's language.
    pub rules: Option<Vec<Loc<String>>>,
    /// A file with rules for IPv4.
    pub rules_file: Option<Loc<String>>,
    /// Rules for IPv6, in order, in IP6Filter's language. Without rules for IPv6 it is treated as `other` says.
    pub rules6: Option<Vec<Loc<String>>>,
    /// A file with rules for IPv6.
    pub rules6_file: Option<Loc<String>>,
    /// How rule files are written.
    #[serde(default)]
    pub format: RuleFormat,
    /// For rule files without verdicts: every N-th rule denies, the others allow. 0: all allow.
    #[serde(default)]
    pub deny_every: u32,
    /// For iptables and nftables: which chain is taken, `CHAIN` or `TABLE/CHAIN`; the one that forwarded packets pass
    /// if not given.
    pub chain: Option<String>,
    /// For iptables and nftables: the names of the interfaces at port 0 and port 1, if rules refer to them.
    #[serde(default)]
    pub interfaces: Interfaces,
    /// What happens to IP packets that no rule matches; `deny` unless the rule file says otherwise.
    pub default: Option<Verdict>,
    /// The router's own addresses at port 0 and port 1, with the lengths of their networks' prefixes: for rules that
    /// ask for them (MASQUERADE, `addrtype LOCAL`). Where addresses are translated, packets for the router itself, and
    /// those that would turn back to where they came from, are dropped.
    #[serde(default)]
    pub addresses: Addresses,
    /// The smaller one of both ports' MTUs, for rules that ask for it (`--clamp-mss-to-pmtu`, `rt mtu`); 1500 if not
    /// given.
    pub mtu: Option<Loc<u16>>,
    /// What the rules say of traffic from port 1 to port 0: the same rules, or everything passes, or nothing.
    #[serde(default)]
    pub back: Back,
    /// What happens to ARP; it passes unless told otherwise.
    pub arp: Option<Verdict>,
    /// What happens to other non-IPv4 frames; they are dropped unless told otherwise.
    pub other: Option<Verdict>,
    /// How connections are tracked, where rules ask about them (`ct state established`).
    #[serde(default)]
    pub connections: Connections,
    /// Changes of the rules for IPv4 that are not in the file.
    #[serde(skip)]
    pub(crate) edits: Vec<ListEdit>,
}

/// Names of interfaces.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Interfaces {
    /// At port 0.
    pub inside: Option<String>,
    /// At port 1.
    pub outside: Option<String>,
}

/// Addresses of ports: lists, the first one of each version of IP is the port's main one.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Addresses {
    /// At port 0: `[192.168.1.1/24]`.
    #[serde(default)]
    pub inside: Vec<Loc<String>>,
    /// At port 1.
    #[serde(default)]
    pub outside: Vec<Loc<String>>,
}

/// Rules for the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Back {
    /// The same rules.
    #[default]
    Same,
    /// Everything passes.
    Allow,
    /// Nothing passes.
    Deny,
}

/// One line of a filter element's configuration, with its place, and what the operator wrote there.
#[derive(Debug, Clone)]
struct Line {
    text: String,
    file: String,
    line: u32,
    written: Arc<str>,
    policy: bool,
    place: Option<Arc<RulePlace>>,
    /// What becomes of packets beside the verdict.
    onward: Option<Onward>,
}

/// The lines for each way.
struct Lines {
    up: LineList,
    /// The same if `None`.
    down: Option<LineList>,
    /// Marks of packets, where there are any.
    marks: Marks,
    /// What becomes of addresses.
    nat: Option<Translation>,
    /// Other chains that packets pass.
    stages: Vec<StageLines>,
}

impl Firewall {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        let v4 = match (&self.rules, &self.rules_file) {
            (None, None) | (Some(_), Some(_)) => {
                cx.error_whole(
                    "give the rules either inline ('rules') or in a file ('rules-file')",
                );
                None
            }
            (rules, file) => {
                let lines = self.lines(cx, rules.as_deref(), file.as_ref(), Family::V4);
                lines.map(|l| self.edited(cx, l))
            }
        };
        let v6 = match (&self.rules6, &self.rules6_file) {
            (None, None) => None,
            (Some(_), Some(_)) => {
                cx.error_whole(
                    "give the rules for IPv6 either inline ('rules6') or in a file ('rules6-file')",
                );
                None
            }
            (rules, file) => self.lines(cx, rules.as_deref(), file.as_ref(), Family::V6),
        };
        let Some(v4) = v4 else {
            return String::new();
        };
        let v4 = Lists::new(v4, false);
        let v6 = v6.map(|l| Lists::new(l, true));
        let mut t = ClickText::new();
        if !v4.groups.is_empty() || v6.as_ref().is_some_and(|l| !l.groups.is_empty()) {
            let settings = self.connections.text(cx);
            t.line(format!("connections :: ConnTable({settings});"));
        }
        let arp = self.arp.unwrap_or(Verdict::Allow);
        let other = self.other.unwrap_or(Verdict::Deny);
        let back_all = match self.back {
            Back::Same => None,
            Back::Allow => Some("allow all"),
            Back::Deny => Some("deny all"),
        };
        for (name, from, to) in [("up", 0, 1), ("down", 1, 0)] {
            let down = name == "down";
            let only = back_all.filter(|_| down);
            // frames with a tag are told from the others only if both are dropped
            let tagged = match other {
                Verdict::Deny => "12/8100, ",
                Verdict::Allow => "",
            };
            t.line(format!(
                "FromDevice({from}) -> {name} :: Classifier(12/0800, 12/86dd, 12/0806, {tagged}-);"
            ));
            t.line(format!("{name}_out :: ToDevice({to});"));
            let way = Passage { name, down, only };
            v4.write(&mut t, cx, &way);
            match &v6 {
                Some(lists) => lists.write(&mut t, cx, &way),
                None => verdict(&mut t, name, 1, other, "IPv6, for which there are no rules"),
            }
            verdict(&mut t, name, 2, arp, "ARP does not pass");
            match other {
                Verdict::Allow => verdict(&mut t, name, 3, other, NOT_IP),
                Verdict::Deny => {
                    verdict(&mut t, name, 3, other, VLAN_TAGGED);
                    verdict(&mut t, name, 4, other, NOT_IP);
                }
            }
        }
        t.finish()
    }

    fn lines(
        &self,
        cx: &mut KindCx<'_>,
        rules: Option<&[Loc<String>]>,
        file: Option<&Loc<String>>,
        family: Family,
    ) -> Option<Lines> {
        let Some(f) = file else {
            return Some(Lines {
                up: LineList::plain(self.inline(cx, rules.unwrap_or(&[]))),
                down: None,
                marks: Marks::default(),
                nat: None,
                stages: Vec::new(),
            });
        };
        let span = cx.at(f);
        let (file, text) = cx.reader.read(&f.value, span)?;
        let own = self.own(cx);
        let interfaces = crate::import::Interfaces {
            inside: self.interfaces.inside.clone(),
            outside: self.interfaces.outside.clone(),
            own: own.all(),
            at: own.at(),
            mtu: self.mtu(cx),
        };
        let options = ReadOptions {
            format: self.format,
            deny_every: self.deny_every,
            family,
            chain: self.chain.as_deref(),
            interfaces: &interfaces,
        };
        let set = read_rules(cx.reader, file, &text, &options, span)?;
        let name = cx.reader.sources.name(file).to_string();
        let last = self.last(cx, &set, span, &name);
        // nothing that is read by people is written in JSON
        let json = text.trim_start().starts_with('{');
        let written = rules::Lines::of(if json { "" } else { &text });
        let lines = |rules: &[Rule], sections: &Sections<Rule>, last: &Line| -> LineList {
            let one = |r: &Rule| {
                let text = format!("{} {}", r.verdict.action(), r.filter);
                Line {
                    written: (written.text(r.line)).unwrap_or_else(|| rules::shown(&text)),
                    text,
                    file: name.clone(),
                    line: r.line,
                    policy: false,
                    place: r.place.clone(),
                    onward: r.onward.clone(),
                }
            };
            LineList::of(rules, sections, &one, Some(last))
        };
        let at = cx.reader.sources.locate(span);
        let stage = |s: &Stage| {
            let (place, line) = &s.policy;
            let mut last = policy(s.default, at.file.clone(), at.line);
            last.place = Some(place.clone());
            if let Some(line) = line {
                (last.file, last.line) = (name.clone(), *line);
            }
            StageLines {
                hook: s.hook,
                up: lines(&s.rules, &s.sections[0], &last),
                down: (s.down.as_deref()).map(|d| lines(d, &s.sections[1], &last)),
            }
        };
        let stages = set.stages.iter().map(stage).collect();
        let six = family == Family::V6;
        let place = (name.as_str(), &written, span);
        let nat = (set.nat.as_ref()).and_then(|n| Translation::of(self, cx, (n, six), place));
        Some(Lines {
            up: lines(&set.rules, &set.sections[0], &last),
            down: (set.down.as_deref()).map(|d| lines(d, &set.sections[1], &last)),
            marks: Marks(set.marks.clone()),
            nat,
            stages,
        })
    }

    /// The MTU that is said.
    fn mtu(&self, cx: &mut KindCx<'_>) -> Option<u16> {
        let mtu = self.mtu.as_ref()?;
        if mtu.value < LEAST_MTU {
            let text = format!("mtu: {} is less than {LEAST_MTU}", mtu.value);
            cx.error(mtu, text);
            return None;
        }
        Some(mtu.value)
    }

    /// The rules with the changes, both ways.
    fn edited(&self, cx: &mut KindCx<'_>, lines: Lines) -> Lines {
        if self.edits.is_empty() {
            return lines;
        }
        let l = cx.reader.sources.locate(cx.span);
        let mut change = |mut all: LineList| {
            if !all.more.is_empty() {
                cx.error_whole(
                    "the rules change packets or their marks and go on: change them in their file",
                );
                return all;
            }
            for e in &self.edits {
                if let Err(why) = edit_one(&mut all.lines, e, (&l.file, l.line)) {
                    cx.error_whole(why);
                }
            }
            all
        };
        Lines {
            up: change(lines.up),
            down: lines.down.map(change),
            ..lines
        }
    }

    /// What happens to packets that no rule of a file matches.
    fn last(&self, cx: &KindCx<'_>, set: &RuleSet, span: Span, name: &str) -> Line {
        let l = cx.reader.sources.locate(span);
        let v = self.default.or(set.default).unwrap_or(Verdict::Deny);
        let mut last = policy(v, l.file, l.line);
        if let (None, Some((place, line))) = (self.default, &set.policy) {
            last.place = Some(place.clone());
            if let Some(line) = line {
                (last.file, last.line) = (name.to_string(), *line);
            }
        }
        last
    }

    fn inline(&self, cx: &mut KindCx<'_>, rules: &[Loc<String>]) -> Vec<Line> {
        let mut out = Vec::new();
        for r in rules {
            let l = cx.reader.sources.locate(cx.at(r));
            match click_list::parse_rule(r.value.trim()) {
                Ok((v, f)) => {
                    cx.warn_of_mixture(r, &f);
                    out.push(Line {
                        text: format!("{} {f}", v.action()),
                        file: l.file,
                        line: l.line,
                        written: rules::shown(&r.value),
                        policy: false,
                        place: None,
                        onward: None,
                    });
                }
                Err(e) => cx.error(r, e),
            }
        }
        let l = cx.reader.sources.locate(cx.span);
        out.push(policy(
            self.default.unwrap_or(Verdict::Deny),
            l.file,
            l.line,
        ));
        out
    }
}

/// Adds a rule, or removes one; the policy behind them stays where it is.
fn edit_one(all: &mut Vec<Line>, e: &ListEdit, (file, line): (&str, u32)) -> Result<(), String> {
    let rules = all.iter().filter(|l| !l.policy).count();
    if e.add {
        let (verdict, filter) = edit::rule(&e.text)?;
        let at = e.at.unwrap_or(1).max(1) - 1;
        let new = Line {
            text: format!("{} {filter}", verdict.action()),
            file: file.to_string(),
            line,
            written: rules::shown(&edit::plain(&e.text)),
            policy: false,
            place: None,
            onward: None,
        };
        all.insert(at.min(rules), new);
        return Ok(());
    }
    let texts = all.iter().take(rules);
    let found = e.finds(texts.map(|l| [l.written.as_ref(), l.text.as_str()]));
    let at = found.ok_or_else(|| format!("there is no rule '{}'", edit::plain(&e.text)))?;
    all.remove(at);
    Ok(())
}

impl Lines {
    fn of(&self, down: bool) -> &LineList {
        match (&self.down, down) {
            (Some(d), true) => d,
            _ => &self.up,
        }
    }
}

/// A way through the function: the prefix of its elements' names, whether it is the one from port 1, and what is done
/// there in the place of rules.
struct Passage<'a> {
    name: &'a str,
    down: bool,
    only: Option<&'a str>,
}

/// The lists of rules of a family.
struct Lists {
    lines: Lines,
    six: bool,
    /// Which connections they tell apart; nothing if they do not ask about any.
    groups: Vec<Group>,
}

impl Lists {
    fn new(lines: Lines, six: bool) -> Lists {
        // what is asked before destinations are translated is told apart there
        let translated = lines.nat.is_some();
        let here = lines.stages.iter().filter(|s| match s.hook {
            Hook::Raw => false,
            Hook::Prerouting => !translated,
            Hook::Before | Hook::Behind => true,
        });
        let stages = here.flat_map(|s| s.up.all().chain(s.down.iter().flat_map(LineList::all)));
        let all = (lines.up.all()).chain(lines.down.iter().flat_map(LineList::all));
        let all = all.chain(stages);
        let marks = |l: Option<&LineList>| l.is_some_and(LineList::marks_connections);
        let of_stage = |s: &StageLines| marks(Some(&s.up)) || marks(s.down.as_ref());
        let marked = marks(Some(&lines.up)) || marks(lines.down.as_ref());
        let marked = marked || lines.stages.iter().any(of_stage);
        let asking: Vec<Asking> = all.filter(|l| asks(&l.text)).map(Line::asking).collect();
        let of: Vec<&Asking> = asking.iter().collect();
        Lists {
            groups: match of.is_empty() && !translated && !marked {
                true => Vec::new(),
                false => groups(&of, translated),
            },
            lines,
            six,
        }
    }

    /// What packets of this family go through, from the classifier to the device.
    fn write(&self, t: &mut ClickText, cx: &mut KindCx<'_>, way: &Passage<'_>) {
        let (check, six, input) = match self.six {
            false => ("CheckIPHeader", "", 0),
            true => ("CheckIP6Header", "6", 1),
        };
        let name = way.name;
        let first = self.lines.marks.first();
        let from = format!("{name}[{input}] -> Strip(14) -> {check}{first}");
        let from = self.write_stages(t, cx, way, (from, &[Hook::Raw]), None);
        if self.groups.is_empty() {
            let hooks = [Hook::Prerouting, Hook::Before];
            let from = self.write_stages(t, cx, way, (from, &hooks), None);
            let element = format!("{name}_rules{six}");
            let lines = self.lines.of(way.down);
            let from = self.write_list(t, cx, way, (from, element), lines, None);
            let from = self.write_stages(t, cx, way, (from, &[Hook::Behind]), None);
            t.line(format!("{from} -> Unstrip(14) -> {name}_out;"));
            return;
        }
        if let Some(nat) = &self.lines.nat {
            self.write_translated(t, cx, way, (from, nat));
            return;
        }
        let outputs: Vec<String> = (self.groups.iter())
            .map(|g| classes_text(&g.classes, &universe(false)))
            .collect();
        let state = format!("{name}_state{six}");
        self.write_tracker(t, way, (from, &state), &outputs);
        t.line(format!("{name}_passed{six} :: Unstrip(14) -> {name}_out;"));
        for i in 0..self.groups.len() {
            let from = format!("{state}[{i}]");
            let hooks = [Hook::Prerouting, Hook::Before];
            let from = self.write_group(t, cx, way, (from, &hooks), i);
            let confirm = match self.groups.get(i) {
                Some(g) if g.begins => "ConnConfirm(connections) -> ",
                _ => "",
            };
            t.line(format!("{from} -> {confirm}{name}_passed{six};"));
        }
    }

    /// The lists that packets of a group pass, with `before` in front of the chain that they are filtered by; gives
    /// back where they leave.
    fn write_group(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, before): (String, &[Hook]),
        number: usize,
    ) -> String {
        let (_, six) = self.filter();
        let groups = Some((self.groups.as_slice(), number));
        let from = self.write_stages(t, cx, way, (from, before), groups);
        let name = self.groups.get(number).map_or("", |g| g.name.as_str());
        let element = format!("{}_rules{six}_{name}", way.name);
        let lines = self.lines.of(way.down);
        let from = self.write_list(t, cx, way, (from, element), lines, groups);
        self.write_stages(t, cx, way, (from, &[Hook::Behind]), groups)
    }

    /// The element that asks rules, and what names of elements end in.
    fn filter(&self) -> (&'static str, &'static str) {
        match self.six {
            false => ("IPFilter", ""),
            true => ("IP6Filter", "6"),
        }
    }
}

impl Line {
    fn verdict(&self) -> &str {
        self.text.split_once(' ').map_or("deny", |(v, _)| v)
    }
    /// The expression. What is wrong with its questions has been said where it was read.
    fn asking(&self) -> Asking {
        let filter = self.text.split_once(' ').map_or("", |(_, f)| f);
        Asking::of(filter).unwrap_or_else(|_| Asking::plain(filter))
    }
}

/// Writes a list's arguments, and says which rules became them.
fn list(
    t: &mut ClickText,
    cx: &mut KindCx<'_>,
    element: String,
    lines: &[Line],
    way: &Passage<'_>,
) {
    if let Some(all) = way.only {
        t.line(all);
        let back = match all.starts_with("deny") {
            true => "back: deny",
            false => "back: allow",
        };
        cx.rules.push(ListedRule {
            element,
            argument: 0,
            text: back.into(),
            policy: true,
            place: None,
        });
        return;
    }
    for (i, l) in lines.iter().enumerate() {
        let comma = if i + 1 < lines.len() { "," } else { "" };
        t.line_from(&l.file, l.line, format!("{}{comma}", l.text));
    }
    let rule = |(argument, l): (usize, &Line)| ListedRule {
        element: element.clone(),
        argument,
        text: l.written.clone(),
        policy: l.policy,
        place: l.place.clone(),
    };
    cx.rules.extend(lines.iter().enumerate().map(rule));
}

/// What happens to packets that no rule fits.
fn policy(v: Verdict, file: String, line: u32) -> Line {
    Line {
        text: format!("{} all", v.action()),
        file,
        line,
        written: format!("policy {}", v.action()).into(),
        policy: true,
        place: None,
        onward: None,
    }
}

/// What becomes of the frames that leave the classifier `name` at `output`.
fn verdict(t: &mut ClickText, name: &str, output: usize, v: Verdict, reason: &str) {
    match v {
        Verdict::Allow => t.line(format!("{name}[{output}] -> {name}_out;")),
        Verdict::Deny => t.line(format!("{name}[{output}] -> {};", discard(reason))),
    };
}
