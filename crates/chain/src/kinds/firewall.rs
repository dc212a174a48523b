//! `firewall`: lets packets pass between port 0 (inside) and port 1 (outside) by an ordered rule set; the first match
//! decides.

mod limits;
mod lists;
mod local;
mod nat;
mod sections;
mod stages;

use super::connections::{Asking, Connections};
use super::{ClickText, KindCx, NOT_IP, VLAN_TAGGED, discard};
use crate::edit::{self, ListEdit};
use crate::file::Loc;
use crate::import::{
    Family, IpSets, LEAST_MTU, Onward, ReadOptions, Rule, RuleFormat, RuleSet, Sections, Stage,
    Verdict, click_list, read_rules,
};
use crate::rules::{self, RulePlace};
use lists::{Lists, Passage};
use nat::{OwnAddresses, Translation};
use onefold_click::source::Span;
use schemars::JsonSchema;
use sections::{LineList, Marks};
use serde::Deserialize;
use stages::StageLines;
use std::sync::Arc;

/// Ports: 0 inside, 1 outside, and 2, if it is connected, the host itself: what comes for one of its addresses passes
/// chain INPUT and leaves there, what enters there passes chain OUTPUT. Frames are passed on unchanged.
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
    /// For iptables: what `ipset save` prints, if rules ask for sets (`-m set --match-set`).
    pub sets_file: Option<Loc<String>>,
    /// For iptables and nftables: which chain is taken, `CHAIN` or `TABLE/CHAIN`; the one that forwarded packets pass
    /// if not given.
    pub chain: Option<String>,
    /// For iptables and nftables: the names of the interfaces at port 0 and port 1, if rules refer to them.
    #[serde(default)]
    pub interfaces: Interfaces,
    /// What happens to IP packets that no rule matches; `deny` unless the rule file says otherwise.
    pub default: Option<Verdict>,
    /// The router's own addresses at port 0 and port 1, with the lengths of their networks' prefixes: for rules that
    /// ask for them (MASQUERADE, `addrtype LOCAL`), and for the host at port 2. Where addresses are translated, packets
    /// for the router itself are dropped if port 2 is not connected, and so are those that would turn back to where
    /// they came from.
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
    /// The group of the interface at port 0 (`ip link set dev NAME group N`); 0 if not given.
    pub inside_group: Option<u32>,
    /// Of that at port 1.
    pub outside_group: Option<u32>,
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
    /// Those of the host's packets, as [`RuleSet::host`].
    host: Option<Box<[Lines; 4]>>,
}

/// Where the rules of a file stand.
struct RuleFile<'a> {
    name: &'a str,
    written: &'a rules::Lines<'a>,
    /// In the chain file.
    span: Span,
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
        let host = self.host(cx);
        let Some(v4) = v4 else {
            return String::new();
        };
        let v4 = Lists::new(v4, false, host.as_ref());
        let v6 = v6.map(|l| Lists::new(l, true, host.as_ref()));
        let mut t = ClickText::new();
        cx.tracks = v4.tracks() || v6.as_ref().is_some_and(Lists::tracks);
        if cx.tracks {
            let settings = self.connections.text(cx);
            t.line(format!("connections :: ConnTable({settings});"));
        }
        limits::declare(&mut t, cx, [Some(&v4), v6.as_ref()]);
        let arp = self.arp.unwrap_or(Verdict::Allow);
        let other = self.other.unwrap_or(Verdict::Deny);
        let back_all = match self.back {
            Back::Same => None,
            Back::Allow => Some("allow all"),
            Back::Deny => Some("deny all"),
        };
        // frames with a tag are told from the others only if both are dropped
        let tagged = match other {
            Verdict::Deny => "12/8100, ",
            Verdict::Allow => "",
        };
        let frames = format!("Classifier(12/0800, 12/86dd, 12/0806, {tagged}-)");
        if host.is_some() {
            t.line("up_out :: ToDevice(1); down_out :: ToDevice(0); local_out :: ToDevice(2);");
        }
        for (name, from, to) in [("up", 0, 1), ("down", 1, 0)] {
            let down = name == "down";
            let only = back_all.filter(|_| down);
            t.line(format!("FromDevice({from}) -> {name} :: {frames};"));
            let out = format!("{name}_out");
            if host.is_none() {
                t.line(format!("{out} :: ToDevice({to});"));
            }
            let out = out.as_str();
            let way = Passage {
                name,
                down,
                only,
                out,
            };
            v4.write(&mut t, cx, &way);
            match &v6 {
                Some(lists) => lists.write(&mut t, cx, &way),
                None => verdict(&mut t, name, 1, other, NO_RULES6),
            }
            match (&host, arp) {
                (Some(host), Verdict::Allow) => host.write_arp(&mut t, name),
                _ => verdict(&mut t, name, 2, arp, NO_ARP),
            }
            match other {
                Verdict::Allow => verdict(&mut t, name, 3, other, NOT_IP),
                Verdict::Deny => {
                    verdict(&mut t, name, 3, other, VLAN_TAGGED);
                    verdict(&mut t, name, 4, other, NOT_IP);
                }
            }
        }
        if let Some(host) = &host {
            host.write(&mut t, cx, (&v4, v6.as_ref()), (&frames, arp, other));
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
        let host = cx.wired(local::PORT);
        let Some(f) = file else {
            let plain = |up| Lines {
                up,
                down: None,
                marks: Marks::default(),
                nat: None,
                stages: Vec::new(),
                host: None,
            };
            // they say nothing of the host
            let mut own = |list: &[Loc<String>]| plain(LineList::plain(self.inline(cx, list)));
            let none = host.then(|| Box::new([(); 4].map(|()| own(&[]))));
            return Some(Lines {
                host: none,
                ..own(rules.unwrap_or(&[]))
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
            groups: [self.interfaces.inside_group, self.interfaces.outside_group]
                .map(|g| g.unwrap_or(0)),
            networks: own.by_port(),
            mtu: self.mtu(cx),
            sets: self.sets(cx),
            whole: cx.reader.whole,
        };
        let options = ReadOptions {
            format: self.format,
            deny_every: self.deny_every,
            family,
            chain: self.chain.as_deref(),
            interfaces: &interfaces,
            host,
        };
        let mut set = read_rules(cx.reader, file, &text, &options, span)?;
        let name = cx.reader.sources.name(file).to_string();
        // nothing that is read by people is written in JSON
        let json = text.trim_start().starts_with('{');
        let written = rules::Lines::of(if json { "" } else { &text });
        let from = RuleFile {
            name: &name,
            written: &written,
            span,
        };
        let own = set.host.take();
        let last = self.last(cx, (&set, self.default), span, &name);
        let addresses = self.own(cx);
        let lines = self.lines_of(cx, (&set, last), (family, &addresses), &from);
        // formats without chains say nothing of the host
        let default = self.default.filter(|_| own.is_none());
        let own = own.or(host.then(Box::default)).map(|sets| {
            Box::new(sets.map(|set| {
                let last = self.last(cx, (&set, default), span, &name);
                self.lines_of(cx, (&set, last), (family, &addresses), &from)
            }))
        });
        Some(Lines { host: own, ..lines })
    }

    /// The rules of a file as lines of lists.
    fn lines_of(
        &self,
        cx: &mut KindCx<'_>,
        (set, last): (&RuleSet, Line),
        (family, addresses): (Family, &OwnAddresses),
        from: &RuleFile<'_>,
    ) -> Lines {
        let RuleFile {
            name,
            written,
            span,
        } = *from;
        let lines = |rules: &[Rule], sections: &Sections<Rule>, last: &Line| -> LineList {
            let one = |r: &Rule| {
                let others = r.onward.as_ref().is_some_and(|o| o.others);
                let text = format!("{} {}", r.verdict.action(), r.filter);
                Line {
                    written: match others {
                        true => GOES_ON.into(),
                        false => (written.text(r.line)).unwrap_or_else(|| rules::shown(&text)),
                    },
                    text,
                    file: name.to_string(),
                    line: r.line,
                    policy: others,
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
                (last.file, last.line) = (name.to_string(), *line);
            }
            StageLines {
                hook: s.hook,
                up: lines(&s.rules, &s.sections[0], &last),
                down: (s.down.as_deref()).map(|d| lines(d, &s.sections[1], &last)),
            }
        };
        let stages = set.stages.iter().map(stage).collect();
        let six = family == Family::V6;
        let place = (name, written, span);
        let nat = set.nat.as_ref();
        let nat = nat.and_then(|n| Translation::of(addresses, cx, (n, six), place));
        Lines {
            up: lines(&set.rules, &set.sections[0], &last),
            down: (set.down.as_deref()).map(|d| lines(d, &set.sections[1], &last)),
            marks: Marks(set.marks.clone()),
            nat,
            stages,
            host: None,
        }
    }

    /// The file with sets of ipset, as it stands there.
    pub(crate) fn sets_text(&self, cx: &mut KindCx<'_>) -> Option<String> {
        let f = self.sets_file.as_ref()?;
        let span = cx.at(f);
        cx.reader.read(&f.value, span).map(|(_, text)| text)
    }

    /// The sets of ipset; what is wrong with their file is said.
    fn sets(&self, cx: &mut KindCx<'_>) -> Option<Arc<IpSets>> {
        let f = self.sets_file.as_ref()?;
        let span = cx.at(f);
        let (file, text) = cx.reader.read(&f.value, span)?;
        match IpSets::parse(&text) {
            Ok(sets) => Some(Arc::new(sets)),
            Err(errors) => {
                // enough to mend the file
                for (line, message) in errors.into_iter().take(20) {
                    let at = cx.reader.line_span(file, line as usize);
                    cx.reader.error(at, message);
                }
                None
            }
        }
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
                    "the rules change packets or their marks and go on, or ask for rates: change them in their file",
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

    /// What happens to packets that no rule of a file matches; `default`, whatever the file says, if it is given.
    fn last(
        &self,
        cx: &KindCx<'_>,
        (set, default): (&RuleSet, Option<Verdict>),
        span: Span,
        name: &str,
    ) -> Line {
        let l = cx.reader.sources.locate(span);
        let v = default.or(set.default).unwrap_or(Verdict::Deny);
        let mut last = policy(v, l.file, l.line);
        if let (None, Some((place, line))) = (default, &set.policy) {
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
    /// All of them but those that translate, of both ways and all chains.
    fn all(&self) -> impl Iterator<Item = &LineList> {
        let stages = self.stages.iter().flat_map(StageLines::both);
        [&self.up].into_iter().chain(&self.down).chain(stages)
    }

    fn of(&self, down: bool) -> &LineList {
        match (&self.down, down) {
            (Some(d), true) => d,
            _ => &self.up,
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

/// Of packets that a rule with a rate leaves.
const GOES_ON: &str = "goes on";
/// Of ARP, where it does not pass.
const NO_ARP: &str = "ARP does not pass";
/// Of IPv6 without rules.
const NO_RULES6: &str = "IPv6, for which there are no rules";

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
