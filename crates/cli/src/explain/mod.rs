//! What a program means, for people: its classes with their origin, what it does to each, what it punts, what it saves.

mod fate;
pub mod kinds;
pub mod odd;
mod prefix;
mod structures;
mod text;
mod view;

pub use fate::Fate;
pub use structures::html as structures_html;
pub use text::print;
pub use view::{class as class_json, json, summary};

use crate::graphview::split;
use kinds::{Counted, Ops};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::program::StageReport;
use onefold_synth::program::*;
use onefold_synth::text::Words;
use prefix::{Prefix, prefixes};
use std::collections::BTreeMap;

/// Where a part of a class comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct From {
    /// The element.
    pub elem: ElemId,
    /// The argument, if it was one.
    pub arg: Option<u32>,
}

/// A traffic class: all rules of a stage that name the same action.
pub struct Class {
    /// Its stage.
    pub stage: usize,
    /// Its action there.
    pub action: usize,
    /// Its rules, by place in the stage.
    pub rules: Vec<usize>,
    /// What becomes of it.
    pub fate: Fate,
    /// Where it ends: port of the chain, or element.
    pub to: String,
    /// What is done, in words, in order.
    pub does: Vec<String>,
    /// Every element (and argument) that made a part of it, in order of first mention.
    pub origin: Vec<From>,
    /// Operations of the chain as written on its way from the entry.
    pub before: Ops,
    /// Operations of the program for it.
    pub after: Ops,
    /// Header checks as written, and left.
    pub checks: (u32, u32),
    /// The elements on its way.
    pub path: Vec<ElemId>,
}

/// What is punted (or asked) for one cause at one element.
pub struct Punt {
    /// The element.
    pub elem: ElemId,
    /// Why.
    pub cause: String,
    /// The element is only asked; the fast path goes on behind it.
    pub asked: bool,
    /// Classes.
    pub classes: usize,
    /// Rules.
    pub rules: usize,
}

/// An explained program.
pub struct Explained<'a> {
    /// The chain.
    pub chain: &'a Chain,
    /// The program.
    pub program: &'a Program,
    /// Port of the chain where a stage's packets came in, if it is entered; by stage.
    pub entry_of: Vec<Option<String>>,
    /// All classes, stage by stage.
    pub classes: Vec<Class>,
    /// Causes.
    pub punts: Vec<Punt>,
    /// Where packets begin that the reference graph takes whole: no entry of the program. Name and class of the
    /// element.
    pub whole: Vec<(String, String)>,
    /// Seconds that synthesis took.
    pub seconds: f64,
    /// What each stage is looked up in, if that was found out; by stage.
    pub structures: Vec<StageReport>,
    /// The most memory that the process had until then, in bytes, where the system says.
    pub peak: Option<u64>,
    /// Rules that are surely not meant, if they were looked for.
    pub odd: Option<odd::Odd>,
    /// What the chain was called on the command line, for commands that are named.
    pub named: String,
    /// What elements count as.
    kinds: Vec<Counted>,
}

impl<'a> Explained<'a> {
    /// Explains a program that was made of a chain.
    pub fn new(chain: &'a Chain, program: &'a Program, seconds: f64, peak: Option<u64>) -> Self {
        let kinds = kinds::of_elements(chain);
        let mut entry_of = vec![None; program.stages.len()];
        for e in &program.entries {
            if let Some(s) = entry_of.get_mut(e.stage.0 as usize) {
                *s = Some(port_of(chain, program, e.source));
            }
        }
        let prefixes = prefixes(program, &kinds);
        let mut x = Explained {
            chain,
            program,
            entry_of,
            classes: Vec::new(),
            punts: Vec::new(),
            whole: whole(chain, program),
            seconds,
            structures: Vec::new(),
            peak,
            odd: None,
            named: chain.name.clone(),
            kinds,
        };
        for (i, s) in program.stages.iter().enumerate() {
            let mut rules: Vec<Vec<usize>> = vec![Vec::new(); s.actions.len()];
            for (j, r) in s.rules.iter().enumerate() {
                if let Some(l) = rules.get_mut(r.action.0 as usize) {
                    l.push(j);
                }
            }
            let prefix = prefixes.get(i).cloned().flatten().unwrap_or_default();
            for (j, (a, rules)) in s.actions.iter().zip(rules).enumerate() {
                let c = x.class(i, j, s, a, rules, &prefix);
                x.classes.push(c);
            }
        }
        x.find_punts();
        x
    }

    #[allow(clippy::too_many_arguments)]
    fn class(
        &self,
        stage: usize,
        action: usize,
        s: &Stage,
        a: &Action,
        rules: Vec<usize>,
        prefix: &Prefix,
    ) -> Class {
        let kinds = &self.kinds;
        let mut seen = std::collections::HashSet::new();
        let mut origin = Vec::new();
        for r in rules.iter().filter_map(|i| s.rules.get(*i)) {
            for o in &r.origin {
                if seen.insert((o.elem, o.arg)) {
                    origin.push(From {
                        elem: o.elem,
                        arg: o.arg,
                    });
                }
            }
        }
        let first = rules.first().and_then(|i| s.rules.get(*i));
        let mut words = Words::for_stage(self.program, s);
        if let Some(r) = first {
            words = words.with(&r.filter);
        }
        let (fate, to) = self.fate(a);
        let mut path = prefix.path.clone();
        path.extend(&a.path);
        let (before, checks) = before(&path, kinds);
        let own = after(path.get(prefix.epoch..).unwrap_or(&[]), a, kinds);
        let after = plus(&prefix.after, &own);
        Class {
            stage,
            action,
            rules,
            fate,
            to,
            does: self.does(&words, a),
            origin,
            checks: (checks, checks.min(1)),
            before,
            after,
            path,
        }
    }

    /// An element's name.
    pub fn name(&self, e: ElemId) -> &'a str {
        self.program
            .elements
            .get(e.0 as usize)
            .map_or("?", String::as_str)
    }

    fn fate(&self, a: &Action) -> (Fate, String) {
        let at = |e: &ElemId| self.name(*e).to_string();
        match &a.end {
            End::Output { sink, .. } => (Fate::Leaves, port_of(self.chain, self.program, *sink)),
            End::Drop { elem, .. } => (Fate::Dropped, at(elem)),
            End::Punt { elem, .. } => (Fate::Punted, at(elem)),
            End::Ask { elem, .. } => (Fate::Asks, at(elem)),
            End::Write { next, .. } => (Fate::GoesOn, format!("stage {}", next.0)),
            End::Goto(s) => (Fate::GoesOn, format!("stage {}", s.0)),
            End::Fork(l) => (Fate::GoesOn, self.nexts(l)),
            End::Unreachable => match crate::program::bindings(a).pop() {
                Some((_, ways)) => (Fate::GoesOn, self.nexts(&ways)),
                None => (Fate::Never, String::new()),
            },
        }
    }

    fn nexts(&self, l: &[Next]) -> String {
        let parts: Vec<String> = l
            .iter()
            .map(|n| match n {
                Next::Stage(s) => format!("stage {}", s.0),
                Next::Unconnected(_) => "nowhere".into(),
                Next::Never => "never".into(),
            })
            .collect();
        parts.join(", ")
    }

    /// An action in words.
    fn does(&self, words: &Words<'_>, a: &Action) -> Vec<String> {
        let mut out = Vec::new();
        for s in &a.steps {
            match s {
                Step::Count { elem, .. } => {
                    // devices and header checks account for nearly every packet: not worth a word
                    if self.kinds.get(elem.0 as usize) == Some(&Counted::As("count")) {
                        out.push(format!("counted by {}", self.name(*elem)));
                    }
                }
                Step::Bind {
                    elem, kind, expect, ..
                } => {
                    let by = match kind {
                        onefold_element::model::BindKind::Flow => "the flow",
                        onefold_element::model::BindKind::Addresses => "its addresses",
                        onefold_element::model::BindKind::Ping => "the ping",
                    };
                    let mut t = format!("{} finds or makes the binding of {by}", self.name(*elem));
                    if let Some(x) = expect {
                        let what = [
                            ("source address", 32u8),
                            ("destination address", 32),
                            ("source port", 16),
                            ("destination port", 16),
                        ];
                        let new: Vec<String> = what
                            .iter()
                            .zip(x.kept.iter().zip(&x.sets))
                            .filter(|(_, (kept, _))| !**kept)
                            .map(|((name, bits), (_, set))| match set.is_full(*bits) {
                                true => format!("a new {name}"),
                                false => {
                                    format!("{name} {}", onefold_synth::text::values(set, *bits))
                                }
                            })
                            .collect();
                        if !new.is_empty() {
                            t += &format!(": {}", new.join(", "));
                        }
                    }
                    out.push(t);
                }
            }
        }
        let why =
            |e: &ElemId, what: &str, cause: &str| format!("{what} {}: {cause}", self.name(*e));
        match &a.end {
            End::Output { sink, image } => {
                image_words(words, image, &mut out);
                out.push(format!(
                    "leaves at {}",
                    port_of(self.chain, self.program, *sink)
                ));
            }
            End::Drop { elem, reason } => out.push(why(elem, "dropped by", reason)),
            End::Punt {
                elem, cause, image, ..
            } => {
                image_words(words, image, &mut out);
                out.push(why(elem, "punted at", cause));
            }
            End::Ask {
                elem,
                cause,
                image,
                outputs,
                ..
            } => {
                image_words(words, image, &mut out);
                out.push(why(elem, "asks", cause));
                out.push(format!("goes on in {}", self.nexts(outputs)));
            }
            End::Write { image, next } => {
                image_words(words, image, &mut out);
                out.push(format!("is written out, goes on in stage {}", next.0));
            }
            End::Goto(s) => out.push(format!("is classified again in stage {}", s.0)),
            End::Fork(l) => out.push(format!("is copied, goes on in {}", self.nexts(l))),
            End::Unreachable => out.push("goes on as the binding says".into()),
        }
        out
    }

    fn find_punts(&mut self) {
        let mut by: BTreeMap<(bool, ElemId, &str), (usize, usize)> = BTreeMap::new();
        for c in &self.classes {
            let a = &self.program.stages[c.stage].actions[c.action];
            let key = match &a.end {
                End::Punt { elem, cause, .. } => (false, *elem, cause.as_str()),
                End::Ask { elem, cause, .. } => (true, *elem, cause.as_str()),
                _ => continue,
            };
            let n = by.entry(key).or_default();
            n.0 += 1;
            n.1 += c.rules.len();
        }
        self.punts = by
            .into_iter()
            .map(|((asked, elem, cause), (classes, rules))| Punt {
                elem,
                cause: cause.to_string(),
                asked,
                classes,
                rules,
            })
            .collect();
        self.punts
            .sort_by(|a, b| (a.asked, b.rules).cmp(&(b.asked, a.rules)));
    }

    /// Rules of all stages.
    pub fn rules(&self) -> usize {
        self.program.stages.iter().map(|s| s.rules.len()).sum()
    }

    /// The class with the longest way through the chain: of those that leave straight from their entry's stage, else of
    /// those that leave, else of all.
    pub fn longest(&self) -> Option<&Class> {
        let leaves = |c: &&Class| c.fate == Fate::Leaves;
        let entered = |c: &&Class| self.entry_of.get(c.stage).is_some_and(Option::is_some);
        let best = |l: Vec<&'_ Class>| -> Option<usize> {
            // of equals the first
            let most = l.iter().map(|c| kinds::total(&c.before)).max()?;
            let c = l.iter().find(|c| kinds::total(&c.before) == most)?;
            self.classes
                .iter()
                .position(|x| x.stage == c.stage && x.action == c.action)
        };
        let all = || self.classes.iter();
        best(all().filter(leaves).filter(entered).collect())
            .or_else(|| best(all().filter(leaves).collect()))
            .or_else(|| best(all().collect()))
            .and_then(|i| self.classes.get(i))
    }

    /// An origin's element, argument text and place.
    pub fn origin(&self, o: &From) -> (String, Option<String>, onefold_element::SourceLoc) {
        let i = o.elem.0 as usize;
        let spec = self.chain.graph.elements.get(i);
        let arg = o
            .arg
            .and_then(|a| spec.and_then(|e| e.args.get(a as usize)).cloned());
        let loc = match o.arg {
            Some(a) => self.chain.graph.arg_loc(i, a as usize),
            None => spec.map(|e| e.decl.clone()).unwrap_or_default(),
        };
        (self.name(o.elem).to_string(), arg, loc)
    }

    /// A rule's filter, condition by condition, what is known in the stage included where it tells the header.
    pub fn filter(&self, stage: usize, rule: usize) -> String {
        let Some(s) = self.program.stages.get(stage) else {
            return String::new();
        };
        let words = Words::for_stage(self.program, s);
        match s.rules.get(rule) {
            Some(r) => words.with(&r.filter).filter(&r.filter),
            None => String::new(),
        }
    }

    /// The network function and element of a class's end, for grouping.
    pub fn end_nf(&self, c: &Class) -> &'a str {
        let a = &self.program.stages[c.stage].actions[c.action];
        let e = match &a.end {
            End::Output { sink: e, .. }
            | End::Drop { elem: e, .. }
            | End::Punt { elem: e, .. }
            | End::Ask { elem: e, .. } => *e,
            _ => match c.path.last() {
                Some(e) => *e,
                None => return "",
            },
        };
        split(self.name(e)).0
    }
}

/// The chain's port that an element is, or the element's name.
/// Elements that packets come from but that are no entries of the program: those that make packets, those that are
/// entry and exit in one.
fn whole(chain: &Chain, program: &Program) -> Vec<(String, String)> {
    let g = &chain.graph;
    let mut fed = vec![false; g.elements.len()];
    let mut feeds = vec![false; g.elements.len()];
    for c in &g.connections {
        for (list, at) in [(&mut fed, c.to.0), (&mut feeds, c.from.0)] {
            if let Some(x) = list.get_mut(at) {
                *x = true;
            }
        }
    }
    let is_port = |i: usize| chain.ports.iter().any(|p| p.source == Some(i));
    let is_entry = |i: usize| program.entries.iter().any(|e| e.source.0 as usize == i);
    let begins = |i: usize, class: &str| is_port(i) || (feeds[i] && !fed[i] && class != "Idle");
    let all = g.elements.iter().enumerate();
    all.filter(|(i, e)| begins(*i, &e.class) && !is_entry(*i))
        .map(|(i, e)| {
            let name = port_of(chain, program, ElemId(i as u32));
            (name, e.class.clone())
        })
        .collect()
}

fn port_of(chain: &Chain, program: &Program, e: ElemId) -> String {
    let i = e.0 as usize;
    chain
        .ports
        .iter()
        .find(|p| p.source == Some(i) || p.sinks.contains(&i))
        .map(|p| p.name.clone())
        .or_else(|| program.elements.get(i).cloned())
        .unwrap_or_else(|| "?".into())
}

fn image_words(words: &Words<'_>, image: &Image, out: &mut Vec<String>) {
    let words = words.for_image(image);
    match image.start {
        0 => {}
        n if n > 0 => out.push(format!("without its first {n} bytes")),
        n => out.push(format!("{} bytes longer at its front", n.unsigned_abs())),
    }
    if image.end != EndAt::Same {
        out.push("cut to the IP packet's length".into());
    }
    out.extend(image.writes.iter().map(|w| words.write(w)));
    for s in &image.sums {
        let kind = match s.kind {
            SumKind::Ip4 => "IPv4",
            SumKind::Tcp => "TCP",
            SumKind::Udp => "UDP",
            SumKind::Icmp => "ICMP",
        };
        let how = if s.anew { "computed anew" } else { "follows" };
        out.push(format!("{kind} checksum {how}"));
    }
}

/// Operations as written, and header checks, of elements that are passed.
fn before(path: &[ElemId], kinds: &[Counted]) -> (Ops, u32) {
    let mut ops = Ops::new();
    let mut checks = 0;
    for e in path {
        match kinds.get(e.0 as usize) {
            Some(Counted::As(k)) => *ops.entry(k).or_default() += 1,
            Some(Counted::Check) => checks += 1,
            _ => {}
        }
    }
    (ops, checks)
}

fn plus(a: &Ops, b: &Ops) -> Ops {
    let mut sum = a.clone();
    for (k, n) in b {
        *sum.entry(k).or_default() += n;
    }
    sum
}

/// Operations of the program in one stage: one classification, and what the action does. `path` begins where the epoch
/// did.
fn after(path: &[ElemId], a: &Action, kinds: &[Counted]) -> Ops {
    let mut ops = Ops::from([("classify", 1)]);
    let mut once = |k: &'static str| {
        ops.insert(k, 1);
    };
    let is = |e: ElemId, k: &'static str| kinds.get(e.0 as usize) == Some(&Counted::As(k));
    let has = |k: &'static str| path.iter().any(|e| is(*e, k));
    for s in &a.steps {
        match s {
            // what devices and header checks account for is not an operation of its own
            Step::Count { elem, .. } if is(*elem, "count") => once("count"),
            Step::Count { .. } => {}
            Step::Bind { .. } => once("rewrite"),
        }
    }
    let image = match &a.end {
        End::Output { image, .. }
        | End::Punt { image, .. }
        | End::Ask { image, .. }
        | End::Write { image, .. } => image,
        _ => return ops,
    };
    if has("strip") || image.start != 0 || image.end != EndAt::Same {
        once("strip");
    }
    // bytes of the link header are the encapsulation's, all others the one rewrite's
    let header = link_header(image);
    let (encap, rewrite): (Vec<&Write>, Vec<&Write>) =
        image.writes.iter().partition(|w| w.bit < header);
    if !encap.is_empty() {
        once("encap");
    }
    if !rewrite.is_empty() || !image.sums.is_empty() {
        once("rewrite");
    }
    if has("fragment") {
        once("fragment");
    }
    if !image.annos.is_empty() && !matches!(a.end, End::Output { .. }) {
        once("annotate");
    }
    if matches!(a.end, End::Ask { .. }) {
        once("other");
    }
    ops
}

/// First bit behind the link header of what an image gives: where its network header starts, or 14 bytes from its
/// start.
fn link_header(image: &Image) -> i32 {
    let sum = || image.sums.first().map(|s| s.header);
    let marked = image.net.start().or_else(sum);
    marked
        .unwrap_or(image.start.saturating_add(14))
        .saturating_mul(8)
}
