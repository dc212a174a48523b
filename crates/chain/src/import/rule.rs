//! Firewall rules, whatever they were written in.

use super::asks::Asked;
use super::chains::Interfaces;
use super::iptables::Request;
use super::precedence::{mixed, warn};
use super::terms::Family;
use crate::error::Reader;
use crate::rules::RulePlace;
use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, Span};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;

/// Most rules in one set.
pub const MAX_RULES: usize = 1_000_000;

/// What happens to a packet that a rule matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It passes.
    Allow,
    /// It is dropped.
    Deny,
}

impl Verdict {
    /// As IPFilter's action.
    pub fn action(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        }
    }
}

/// One rule: the first that matches decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What happens.
    pub verdict: Verdict,
    /// Which packets: an expression of IPFilter's language (of IP6Filter's in an IPv6 set).
    pub filter: String,
    /// Line of the file that it was read from, from 1.
    pub line: u32,
    /// In formats with chains.
    pub place: Option<Arc<RulePlace>>,
    /// What becomes of packets beside that.
    pub onward: Option<Onward>,
}

/// What a rule does to packets, and with which rules they go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Onward {
    /// What is done to them, in order.
    pub steps: Vec<Step>,
    /// The section of the list with which they go on; without one, the rule decides.
    pub section: Option<usize>,
    /// They are those that the rule does not take: it ends its section, as it asks a question.
    pub others: bool,
}

/// Something that is done to a packet on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It gets the mark of this number ([`RuleSet::marks`]).
    Mark(u8),
    /// Its connection gets this mark.
    ConnectionMark(u32),
    /// Its header is changed, by this element.
    Header(Arc<str>),
}

/// A part of a list, whose packets all have the same mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Section<R> {
    /// The first rule that matches says what becomes of a packet.
    Rules(Vec<R>),
    /// Packets go on by their connections' marks.
    Connection {
        /// The section for each mark.
        values: Vec<(u32, usize)>,
        /// That for packets without a connection.
        none: usize,
    },
    /// A rule's question is asked.
    Ask {
        /// The question.
        asked: Arc<Asked>,
        /// The line of the rule.
        line: u32,
        /// The section for packets of which it holds.
        holds: usize,
        /// That for all others.
        fails: usize,
    },
}

/// What there is of a list beside its rules, which are section 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sections<R> {
    /// Where packets begin that come with a mark, by its number; nothing, if all begin in section 0.
    pub entries: Vec<(u8, usize)>,
    /// Sections from 1 on.
    pub more: Vec<Section<R>>,
}

impl<R> Default for Sections<R> {
    fn default() -> Sections<R> {
        Sections {
            entries: Vec::new(),
            more: Vec::new(),
        }
    }
}

/// Where packets are asked about, beside the chain that forwarded packets are filtered by; in the order in which they
/// come there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Before connections are tracked.
    Raw,
    /// Behind that, before destinations are translated.
    Prerouting,
    /// Before the chain that forwarded packets are filtered by.
    Before,
    /// Behind it, before sources are translated.
    Behind,
}

impl Hook {
    /// As a part of elements' names.
    pub fn name(self) -> &'static str {
        match self {
            Hook::Raw => "raw",
            Hook::Prerouting => "prerouting",
            Hook::Before => "before",
            Hook::Behind => "behind",
        }
    }
}

/// Another chain that forwarded packets pass; who is let pass there is asked about by the next one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// Where.
    pub hook: Hook,
    /// The rules.
    pub rules: Vec<Rule>,
    /// Those for packets from port 1 to port 0, if they are not the same.
    pub down: Option<Vec<Rule>>,
    /// The rest of both lists.
    pub sections: [Sections<Rule>; 2],
    /// What happens to packets that no rule matches.
    pub default: Verdict,
    /// Whose policy that is, and the line that says it, if there is one.
    pub policy: (Arc<RulePlace>, Option<u32>),
}

/// An ordered rule set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSet {
    /// The rules.
    pub rules: Vec<Rule>,
    /// What the file itself says about packets that no rule matches.
    pub default: Option<Verdict>,
    /// In formats with chains: whose policy that is, and the line that says it, if there is one.
    pub policy: Option<(Arc<RulePlace>, Option<u32>)>,
    /// Rules for packets from port 1 to port 0, if they are not the same.
    pub down: Option<Vec<Rule>>,
    /// The rest of both lists.
    pub sections: [Sections<Rule>; 2],
    /// Marks of packets, by number, and whether those that have them are not tracked; nothing, if there are none.
    pub marks: Vec<(u32, bool)>,
    /// What becomes of addresses, where the file says it.
    pub nat: Option<super::nat::NatRules>,
    /// Other chains that forwarded packets pass, in their order.
    pub stages: Vec<Stage>,
    /// Rules for packets of the host itself, if they were asked for: for those that come to it, for its own, and for
    /// those that it sends to itself, where they leave and where they come in again.
    pub host: Option<Box<[RuleSet; 4]>>,
    /// What is not quite as it was, said once for all rules.
    pub warnings: Vec<String>,
}

impl RuleSet {
    /// Has it no rules at all?
    fn says_nothing(&self) -> bool {
        let plain = self.rules.is_empty() && self.sections.iter().all(|s| s.more.is_empty());
        let here = plain && self.nat.is_none() && self.stages.is_empty();
        let host = self.host.iter().flat_map(|h| h.iter());
        // Bound: a set of the host's packets has none within
        here && host.into_iter().all(RuleSet::says_nothing)
    }
}

/// Which way a packet goes through a function with two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// From port 0 to port 1.
    Up,
    /// From port 1 to port 0.
    Down,
}

/// Which interfaces are known where a list is asked: in netfilter's hooks prerouting and input the one that the packet
/// came in by, in output and postrouting that which it goes out by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Devices {
    /// That which it came in by: of [`Way::Up`] that at port 0.
    In,
    /// That which it goes out by: of [`Way::Up`] that at port 1.
    Out,
    /// Both.
    Both,
    /// It came in by the loopback interface, from the host itself.
    InLoop,
    /// It goes out by the loopback interface, to the host itself.
    OutLoop,
}

/// Whose packets a ruleset is read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traffic {
    /// Those that pass from port to port.
    #[default]
    Forwarded,
    /// Those for the host itself (hook input). [`Way::Up`] is from port 0, [`Way::Down`] from port 1.
    ToHost,
    /// The host's own (hook output). [`Way::Up`] is to port 1, [`Way::Down`] to port 0.
    FromHost,
    /// Those from the host to itself, where they leave, and ...
    LoopOut,
    /// ... where they come in again.
    LoopIn,
}

impl Traffic {
    /// The same hooks are passed by what comes from, or goes to, a port.
    pub(super) fn course(self) -> Traffic {
        match self {
            Traffic::LoopOut => Traffic::FromHost,
            Traffic::LoopIn => Traffic::ToHost,
            t => t,
        }
    }

    /// The interface, where it is known.
    pub(super) fn devices(self, at_ports: Devices) -> Devices {
        match (self, at_ports) {
            (Traffic::LoopOut, Devices::Out) => Devices::OutLoop,
            (Traffic::LoopIn, Devices::In) => Devices::InLoop,
            (_, d) => d,
        }
    }
}

/// How a rule file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleFormat {
    /// Found out from the text.
    #[default]
    Auto,
    /// One `allow EXPRESSION` or `deny EXPRESSION` per line, in IPFilter's language; `#` starts a comment.
    Click,
    /// ClassBench filter sets: `@src/len dst/len lo : hi lo : hi proto/mask flags/mask`, with an optional verdict
    /// behind.
    Classbench,
    /// What `iptables-save` (for IPv6: `ip6tables-save`) prints.
    Iptables,
    /// What `nft -j list ruleset` or `nft list ruleset` prints, or a file for `nft -f`.
    Nftables,
}

/// Does a file in nft's language begin with this line?
fn begins_nft(l: &str) -> bool {
    let mut words = l.split_whitespace();
    match (words.next(), words.next()) {
        (Some("table" | "define" | "include"), Some(_)) => true,
        (Some("add" | "flush" | "delete" | "destroy" | "create"), Some("table")) => true,
        (Some("flush"), Some(ruleset)) => ruleset.trim_end_matches(';') == "ruleset",
        _ => false,
    }
}

/// Guesses a rule file's format from its first line that says anything.
fn detect(text: &str) -> RuleFormat {
    let first = text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with('#'));
    match first {
        Some(l) if l.starts_with('@') => RuleFormat::Classbench,
        Some(l) if l.starts_with('{') || begins_nft(l) => RuleFormat::Nftables,
        Some(l) if l.starts_with('*') => RuleFormat::Iptables,
        _ => RuleFormat::Click,
    }
}

/// The format of a rule file: the one that is said, or what its text looks like.
pub fn format_of(text: &str, said: RuleFormat) -> RuleFormat {
    match said {
        RuleFormat::Auto => detect(text),
        f => f,
    }
}

/// How a rule file is read.
#[derive(Debug, Clone)]
pub struct ReadOptions<'a> {
    /// How it is written.
    pub format: RuleFormat,
    /// Every so many-th rule of a format without verdicts denies, the others allow (0: all allow).
    pub deny_every: u32,
    /// IPv4 or IPv6.
    pub family: Family,
    /// For formats with chains: `CHAIN` or `TABLE/CHAIN`.
    pub chain: Option<&'a str>,
    /// For formats that name interfaces.
    pub interfaces: &'a Interfaces,
    /// For formats with chains: those of the host's own packets, too.
    pub host: bool,
}

/// Says that a rule file decides nothing.
fn no_rules(reader: &mut Reader, file: FileId, span: Span, default: Option<Verdict>) {
    let name = reader.sources.name(file).to_string();
    let then = match default {
        Some(Verdict::Allow) => "its policy lets every packet pass",
        Some(Verdict::Deny) => "its policy drops every packet",
        None => "every packet is treated as 'default' says, which is deny unless it is given",
    };
    let d = Diagnostic::warning(format!("{name} has no rules: {then}"))
        .at(&reader.sources, span)
        .hint("is it the right file? 'rules: []' says the same without one");
    reader.diagnostics.push(d);
}

/// Warns of rules that mix `&&` and `or`.
fn mixtures(reader: &mut Reader, file: FileId, rules: &[Rule]) {
    // enough to see what it is about
    const SHOWN: usize = 20;
    let mut shown = 0;
    for r in rules {
        if shown == SHOWN {
            let more = rules.iter().filter(|r| mixed(&r.filter).is_some()).count() - SHOWN;
            if more > 0 {
                let name = reader.sources.name(file);
                let d = Diagnostic::warning(format!("{name}: and {more} more rules like these"));
                reader.diagnostics.push(d);
            }
            return;
        }
        if mixed(&r.filter).is_some() {
            let at = reader.line_span(file, r.line as usize);
            warn(reader, "", at, &r.filter);
            shown += 1;
        }
    }
}

/// Reads a rule file. Errors and warnings go to the reader.
pub fn read_rules(
    reader: &mut Reader,
    file: FileId,
    text: &str,
    options: &ReadOptions<'_>,
    span: Span,
) -> Option<RuleSet> {
    let format = format_of(text, options.format);
    let request = Request {
        family: options.family,
        chain: options.chain,
        interfaces: options.interfaces,
        host: options.host,
        traffic: Traffic::Forwarded,
    };
    let result = match format {
        RuleFormat::Classbench if options.family == Family::V6 => {
            Err(vec![(1, "ClassBench sets are about IPv4".to_string())])
        }
        RuleFormat::Classbench => super::classbench::parse(text, options.deny_every),
        RuleFormat::Iptables => super::iptables::parse(text, &request),
        RuleFormat::Nftables => super::nftables::parse(text, &request),
        RuleFormat::Click | RuleFormat::Auto => super::click_list::parse(text),
    };
    match result {
        Ok(set) if set.rules.len() > MAX_RULES => {
            reader.error(span, format!("more than {MAX_RULES} rules"));
            None
        }
        Ok(set) => {
            for w in &set.warnings {
                let name = reader.sources.name(file).to_string();
                let d = Diagnostic::warning(format!("{name}: {w}"));
                reader.diagnostics.push(d.at(&reader.sources, span));
            }
            if set.says_nothing() {
                no_rules(reader, file, span, set.default);
            }
            if matches!(format, RuleFormat::Click | RuleFormat::Auto) {
                mixtures(reader, file, &set.rules);
            }
            Some(set)
        }
        Err(errors) => {
            // enough to mend the file; thousands of the same help nobody
            const SHOWN: usize = 20;
            let n = errors.len();
            for (line, message) in errors.into_iter().take(SHOWN) {
                let at = reader.word_span(file, line as usize, &message);
                reader.error(at, message);
            }
            if n > SHOWN {
                reader.error(
                    span,
                    format!("and {} more errors in the rule file", n - SHOWN),
                );
            }
            None
        }
    }
}
