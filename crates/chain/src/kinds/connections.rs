//! Rules that ask about connections.
//!
//! A rule's expression may ask `ct state established`, `ct direction reply`, `ct status assured` wherever IPFilter's
//! language has a primitive. What the answers are follows from the packet's class ([`ConnClass`]) alone; so packets
//! are told apart by class first (ConnTrack), and each group of classes that no rule tells apart has a list of its
//! own, in which the answers stand in the place of the questions. Rules that then take nothing are left out, and so is
//! what stands behind one that takes everything.

use super::KindCx;
use onefold_element::NameDb;
use onefold_element::args::ArgScope;
use onefold_elements::connection::{ConnClass, ConnState, ConnTest};
use onefold_elements::filter::{Expr, parse_pattern, parse_pattern6};
use schemars::JsonSchema;
use serde::Deserialize;

/// Longest list of values behind `ct state`.
const MAX_VALUES: usize = 16;

/// A piece of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// One of these holds.
    Asks(Vec<ConnTest>),
}

/// An expression in which questions about connections have been found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asking(Vec<Piece>);

/// Does an expression ask about connections?
pub(crate) fn asks(text: &str) -> bool {
    find(text).is_some()
}

/// Where a `ct` stands as a word of its own.
fn find(text: &str) -> Option<usize> {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || "()!&|?:".contains(c));
    text.match_indices("ct").map(|(i, _)| i).find(|i| {
        let (before, after) = (&text[..*i], &text[*i + 2..]);
        edge(before.chars().next_back()) && after.starts_with(char::is_whitespace)
    })
}

/// The next word, up to white space or a parenthesis, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let end = text.find(|c: char| c.is_whitespace() || c == '(' || c == ')');
    text.split_at(end.unwrap_or(text.len()))
}

impl Asking {
    /// Finds the questions in an expression.
    ///
    /// # Errors
    /// What is wrong with one.
    pub fn of(text: &str) -> Result<Asking, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        // Bound: each turn takes a word at least
        while let Some(i) = find(rest) {
            pieces.push(Piece::Text(rest[..i].to_string()));
            let (key, behind) = word(&rest[i + 2..]);
            let (values, behind) = word(behind);
            if key.is_empty() || values.is_empty() {
                return Err(
                    "expected a question behind 'ct', such as 'ct state established'".into(),
                );
            }
            let tests = values.split(',').take(MAX_VALUES);
            let tests = tests.map(|v| ConnTest::parse(key, v));
            pieces.push(Piece::Asks(tests.collect::<Result<_, _>>()?));
            rest = behind;
        }
        pieces.push(Piece::Text(rest.to_string()));
        Ok(Asking(pieces))
    }

    /// An expression without questions.
    pub fn plain(text: &str) -> Asking {
        Asking(vec![Piece::Text(text.to_string())])
    }

    /// The expression with `true` in the place of questions: what is left for who knows none.
    pub fn without_questions(&self) -> String {
        let piece = |p: &Piece| match p {
            Piece::Text(t) => t.clone(),
            Piece::Asks(_) => "true".to_string(),
        };
        self.0.iter().map(piece).collect()
    }

    /// All questions.
    fn questions(&self) -> impl Iterator<Item = &Vec<ConnTest>> {
        self.0.iter().filter_map(|p| match p {
            Piece::Asks(tests) => Some(tests),
            Piece::Text(_) => None,
        })
    }

    /// The expression for packets of a class: answers in the place of questions.
    pub fn answered(&self, class: ConnClass, six: bool) -> Answered {
        let mut text = String::new();
        let mut any = false;
        for p in &self.0 {
            match p {
                Piece::Text(t) => text.push_str(t),
                Piece::Asks(tests) => {
                    any = true;
                    let holds = tests.iter().any(|t| t.holds(class));
                    text.push_str(if holds { "true" } else { "false" });
                }
            }
        }
        match always(&text, six) {
            Some(b) => Answered::Always(b),
            None if any => Answered::Left(simplified(&text)),
            None => Answered::Left(text),
        }
    }
}

/// See [`Asking::answered`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answered {
    /// The same for all packets of the class.
    Always(bool),
    /// What is left to be asked.
    Left(String),
}

/// What an expression is for all packets, if its structure tells.
fn always(text: &str, six: bool) -> Option<bool> {
    let text = text.trim();
    if text.is_empty() {
        return Some(true);
    }
    let scope = ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    };
    let parsed = match six {
        false => parse_pattern(text, &scope),
        true => parse_pattern6(text, &scope),
    };
    // what is wrong with it is told where it is a filter's argument
    constant(&parsed.ok()?.expr)
}

/// Recursion is as deep as the expression, which the parser bounds.
fn constant(e: &Expr) -> Option<bool> {
    match e {
        Expr::Const(b) => Some(*b),
        Expr::Test(_) => None,
        Expr::All(list) => some_or_all(list, false),
        Expr::Any(list) => some_or_all(list, true),
        Expr::Not(e) => constant(e).map(|b| !b),
        Expr::Choose { cases, otherwise } => {
            for (when, value) in cases {
                match constant(when)? {
                    true => return constant(value),
                    false => continue,
                }
            }
            constant(otherwise)
        }
    }
}

/// One of them is `wanted`, or all of them are the opposite.
fn some_or_all(list: &[Expr], wanted: bool) -> Option<bool> {
    let mut open = false;
    for e in list {
        match constant(e) {
            Some(b) if b == wanted => return Some(wanted),
            Some(_) => {}
            None => open = true,
        }
    }
    (!open).then_some(!wanted)
}

/// Without `true` beside other conditions that must hold, too: what importers make of most rules.
fn simplified(text: &str) -> String {
    let mut t = text.trim().replace("not false", "true");
    // a word ends there
    for (end, with) in [(" ", " "), (")", ")")] {
        t = t.replace(&format!(" && true{end}"), with);
    }
    t = t.replace("(true && ", "(");
    // Bound: each turn takes some characters
    while let Some(s) = t.strip_suffix(" && true").or(t.strip_prefix("true && ")) {
        t = s.trim().to_string();
    }
    t
}

/// How connections are tracked. Times are in seconds; what is not given is as in Linux.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Connections {
    /// TCP, when SYN has been seen.
    pub tcp_syn_sent: Option<u32>,
    /// TCP, when SYN has been answered.
    pub tcp_syn_recv: Option<u32>,
    /// TCP, established.
    pub tcp_established: Option<u32>,
    /// TCP, when a FIN has been seen.
    pub tcp_fin_wait: Option<u32>,
    /// TCP, when a FIN has been acknowledged.
    pub tcp_close_wait: Option<u32>,
    /// TCP, when both FINs have been seen.
    pub tcp_last_ack: Option<u32>,
    /// TCP, when both FINs have been acknowledged.
    pub tcp_time_wait: Option<u32>,
    /// TCP, when a RST has been seen.
    pub tcp_close: Option<u32>,
    /// TCP, when both sides have sent SYN.
    pub tcp_syn_sent2: Option<u32>,
    /// TCP that is established, but of which one direction only has been seen.
    pub tcp_unacknowledged: Option<u32>,
    /// UDP.
    pub udp: Option<u32>,
    /// UDP that has been answered for more than two seconds.
    pub udp_stream: Option<u32>,
    /// ICMP.
    pub icmp: Option<u32>,
    /// ICMPv6.
    pub icmp6: Option<u32>,
    /// All other protocols.
    pub generic: Option<u32>,
    /// A connection of TCP may begin in its middle.
    pub tcp_loose: Option<bool>,
    /// Packets with a wrong checksum are invalid.
    pub checksum: Option<bool>,
    /// Most connections.
    pub capacity: Option<u32>,
}

impl Connections {
    /// The times, by the keyword that ConnTable knows each by.
    pub(crate) fn times(&self) -> [(&'static str, Option<u32>); 15] {
        [
            ("TCP_SYN_SENT", self.tcp_syn_sent),
            ("TCP_SYN_RECV", self.tcp_syn_recv),
            ("TCP_ESTABLISHED", self.tcp_established),
            ("TCP_FIN_WAIT", self.tcp_fin_wait),
            ("TCP_CLOSE_WAIT", self.tcp_close_wait),
            ("TCP_LAST_ACK", self.tcp_last_ack),
            ("TCP_TIME_WAIT", self.tcp_time_wait),
            ("TCP_CLOSE", self.tcp_close),
            ("TCP_SYN_SENT2", self.tcp_syn_sent2),
            ("TCP_UNACKNOWLEDGED", self.tcp_unacknowledged),
            ("UDP", self.udp),
            ("UDP_STREAM", self.udp_stream),
            ("ICMP", self.icmp),
            ("ICMP6", self.icmp6),
            ("GENERIC", self.generic),
        ]
    }

    /// All connections stay for so many seconds.
    pub(crate) fn stay(&mut self, seconds: u32) {
        for t in [
            &mut self.tcp_syn_sent,
            &mut self.tcp_syn_recv,
            &mut self.tcp_established,
            &mut self.tcp_fin_wait,
            &mut self.tcp_close_wait,
            &mut self.tcp_last_ack,
            &mut self.tcp_time_wait,
            &mut self.tcp_close,
            &mut self.tcp_syn_sent2,
            &mut self.tcp_unacknowledged,
            &mut self.udp,
            &mut self.udp_stream,
            &mut self.icmp,
            &mut self.icmp6,
            &mut self.generic,
        ] {
            *t = Some(seconds);
        }
    }

    /// A ConnTable's configuration; what is out of range is said.
    pub(crate) fn text(&self, cx: &mut KindCx<'_>) -> String {
        let mut words = Vec::new();
        let times = self.times().into_iter();
        for (keyword, value) in times.chain([("CAPACITY", self.capacity)]) {
            match value {
                None => {}
                Some(0) => {
                    let name = keyword.to_lowercase().replace('_', "-");
                    cx.error_whole(format!("connections: '{name}' must not be 0"));
                }
                Some(n) => words.push(format!("{keyword} {n}")),
            }
        }
        for (keyword, value) in [("TCP_LOOSE", self.tcp_loose), ("CHECKSUM", self.checksum)] {
            words.extend(value.map(|b| format!("{keyword} {b}")));
        }
        words.join(", ")
    }
}

/// Packets of connections that no rule tells apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Their classes.
    pub classes: Vec<ConnClass>,
    /// Some of them begin connections.
    pub begins: bool,
    /// For names of elements: the states, and a number where other groups have the same.
    pub name: String,
}

/// The states of these classes.
fn name_of(classes: &[ConnClass]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for c in classes {
        if !names.contains(&c.state.name()) {
            names.push(c.state.name());
        }
    }
    names.join("_")
}

/// The classes that there are, where addresses are translated or not.
pub(crate) fn universe(translated: bool) -> Vec<ConnClass> {
    match translated {
        true => ConnClass::all_translated(),
        false => ConnClass::all(),
    }
}

/// The groups of classes that these rules tell apart; that of established connections comes first, as most packets do.
/// Where addresses are `translated`, connections are begun by packets that are not of one in the table, and those are
/// asked about.
pub(crate) fn groups(rules: &[&Asking], translated: bool) -> Vec<Group> {
    let mut questions: Vec<&Vec<ConnTest>> = rules.iter().flat_map(|r| r.questions()).collect();
    questions.sort();
    questions.dedup();
    let mut groups: Vec<(Vec<bool>, Vec<ConnClass>)> = Vec::new();
    let mut all = universe(translated);
    let begins = |c: &ConnClass| c.state == ConnState::New && !(translated && c.confirmed);
    all.sort_by_key(|c| {
        (
            c.state != ConnState::Established,
            c.state,
            c.reply,
            !c.assured,
        )
    });
    for c in all {
        let answers = questions.iter().map(|q| q.iter().any(|t| t.holds(c)));
        // who begins a connection goes by ConnConfirm
        let key: Vec<bool> = answers.chain([begins(&c)]).collect();
        match groups.iter_mut().find(|g| g.0 == key) {
            Some((_, classes)) => classes.push(c),
            None => groups.push((key, vec![c])),
        }
    }
    let mut out: Vec<Group> = Vec::new();
    for (_, classes) in groups {
        let plain = name_of(&classes);
        let same = out.iter().filter(|g| name_of(&g.classes) == plain).count();
        out.push(Group {
            begins: classes.iter().any(begins),
            name: match same {
                0 => plain,
                n => format!("{plain}_{}", n + 1),
            },
            classes,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(state: ConnState) -> ConnClass {
        let all = ConnClass::all();
        all.into_iter().rfind(|c| c.state == state).unwrap()
    }

    fn left(text: &str, state: ConnState) -> Answered {
        Asking::of(text).unwrap().answered(class(state), false)
    }

    #[test]
    fn questions_are_answered() {
        use Answered::{Always, Left};
        use ConnState::{Established, Invalid, New};
        let t = "ct state established,related";
        assert_eq!(left(t, Established), Always(true));
        assert_eq!(left(t, New), Always(false));
        let t = "tcp && ct state new && dst port 22";
        assert_eq!(left(t, New), Left("tcp && dst port 22".into()));
        assert_eq!(left(t, Established), Always(false));
        let t = "not (ct state invalid or udp)";
        assert_eq!(left(t, Invalid), Always(false));
        assert_eq!(left(t, New), Left("not (false or udp)".into()));
        let t = "!ct state new";
        assert_eq!(left(t, New), Always(false));
        assert_eq!(left("all", New), Always(true));
        assert_eq!(left("tcp", New), Left("tcp".into()));
        let t = "(ct direction reply) and ct status assured,seen-reply";
        assert_eq!(left(t, Established), Always(true));
        assert_eq!(left(t, New), Always(false));
        // what is not understood is left to the filter
        assert_eq!(left("foo && ct state new", New), Left("foo".into()));
        assert!(!asks("dst host act-1 && proto 3") && asks("(ct state new)"));
        for bad in [
            "ct ",
            "ct state",
            "ct state old",
            "ct mark 1",
            "tcp && ct state new,x",
        ] {
            assert!(Asking::of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_are_what_is_told_apart() {
        let rules = |texts: &[&str]| -> Vec<Asking> {
            texts.iter().map(|t| Asking::of(t).unwrap()).collect()
        };
        let names = |texts: &[&str]| -> Vec<String> {
            let all = rules(texts);
            let of: Vec<&Asking> = all.iter().collect();
            groups(&of, false).iter().map(|g| g.name.clone()).collect()
        };
        assert_eq!(
            names(&["ct state established,related", "ct state invalid"]),
            ["established_related", "new", "invalid", "untracked"]
        );
        assert_eq!(
            names(&["ct state established"]),
            ["established", "new", "related_invalid_untracked"]
        );
        assert_eq!(
            names(&["ct direction reply"]),
            [
                "established_related_invalid_untracked",
                "established_related",
                "new"
            ]
        );
        assert_eq!(
            names(&["ct direction reply", "ct direction original"]),
            [
                "established_related",
                "established_related_2",
                "new",
                "invalid_untracked"
            ]
        );
        let all = rules(&["ct state new", "ct status assured"]);
        let of: Vec<&Asking> = all.iter().collect();
        let total: usize = groups(&of, false).iter().map(|g| g.classes.len()).sum();
        assert_eq!(total, 14);
    }
}
