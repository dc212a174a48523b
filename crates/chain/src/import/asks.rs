//! What rules ask that an expression about headers cannot: rates, lists of addresses that have been seen, strings,
//! chance, what a frame is addressed to.
//!
//! A rule with such a question is asked in parts. What stands before the question must hold of a packet; then an
//! element of its own is asked, whatever comes of it. Of whom it holds, what stands behind it is asked, which may be
//! another question; then the rule does what it does. How a list goes on for these and for all others is said by
//! [`super::walk`].

use super::chains::ChainRule;
use super::limits::Limit;
use super::mark::MarkTest;
use super::own::OwnTest;
use super::recent::Recent;
use super::rule::Devices;
use std::fmt::Write;

/// A question that an element answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Is the packet within a rate? Each rule has a bucket of its own.
    Limit(Limit),
    /// Whom is its frame addressed to?
    Kind(Kind),
    /// Does its Ethernet header match one of these patterns of a Classifier?
    Frame(Vec<String>),
    /// Does it leave this element at output 0?
    Element(String),
    /// Packets that come to the rule are numbered one after the other, from 0, and again behind so many: is the number
    /// in this range?
    Turn { every: u32, from: u32, to: u32 },
    /// Has its address been seen?
    Recent(Recent),
}

/// Whom frames are addressed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One station.
    Unicast,
    /// All of them.
    Broadcast,
    /// A group of them.
    Multicast,
    /// Another station: netfilter never sees these.
    Other,
}

/// A question in a rule, and the conditions that are asked behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// What is asked.
    pub question: Question,
    /// The opposite must hold.
    pub not: bool,
    /// What is asked of packets of which it holds.
    pub behind: Conditions,
}

/// Conditions of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Conditions {
    /// Expressions.
    pub tests: Vec<String>,
    /// Addresses of certain kinds.
    pub own: Vec<OwnTest>,
    /// Marks that must match.
    pub marks: Vec<MarkTest>,
}

/// A question with a name. Wherever its rule comes to stand, what it keeps is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Of what it keeps.
    pub name: String,
    /// What is asked.
    pub question: Question,
}

impl Asked {
    /// That of a rule, by its place among the rule's.
    pub(super) fn of(r: &ChainRule, number: usize, question: &Question) -> Asked {
        let kind = match question {
            Question::Limit(_) => "limit",
            Question::Recent(recent) => {
                return Asked {
                    name: word("recent", [recent.list.as_str()]),
                    question: question.clone(),
                };
            }
            _ => "ask",
        };
        let mut name = name(kind, r);
        if number > 0 {
            // writing to a String cannot fail
            let _ = write!(name, "_{number}");
        }
        Asked {
            name,
            question: question.clone(),
        }
    }

    /// The element that keeps what is asked for, if there is one.
    pub fn declared(&self) -> Option<String> {
        let Asked { name, question } = self;
        Some(match question {
            Question::Limit(l) => {
                let bytes = if l.bytes { ", BYTES true" } else { "" };
                format!(
                    "{name} :: RateLimit({}, {}, BURST {}{bytes});",
                    l.rate, l.per, l.burst
                )
            }
            Question::Turn { every, .. } => format!("{name} :: Turns({every});"),
            Question::Recent(_) => format!("{name} :: RecentList;"),
            Question::Kind(_) | Question::Frame(_) | Question::Element(_) => return None,
        })
    }

    /// The element that is asked, what stands before it and behind it, and how many of its outputs, the first ones, are
    /// for packets of which it holds.
    pub fn element(&self) -> (&'static str, String, &'static str, usize) {
        let name = &self.name;
        let frame = |patterns: &[String]| {
            let text = format!("Classifier({}, -)", patterns.join(", "));
            ("Unstrip(14)", text, "Strip(14)", patterns.len())
        };
        let plain = |text| ("", text, "", 1);
        match &self.question {
            Question::Limit(_) => plain(format!("RateCheck({name})")),
            Question::Kind(kind) => frame(&[kind.pattern().to_string()]),
            Question::Frame(patterns) => frame(patterns),
            Question::Element(text) => plain(text.clone()),
            Question::Turn { from, to, .. } => plain(format!("TurnCheck({name}, {from}, {to})")),
            Question::Recent(r) => plain(r.element(name)),
        }
    }

    /// Is it the same however often it is asked, and by whom?
    pub fn keeps_nothing(&self) -> bool {
        self.declared().is_none()
    }
}

impl Kind {
    /// As a Classifier's pattern.
    fn pattern(self) -> &'static str {
        match self {
            Kind::Unicast => "0/00%01",
            Kind::Broadcast => "0/ffffffffffff",
            Kind::Multicast => "0/01%01 !0/ffffffffffff",
            // never asked
            Kind::Other => "0/01%01 0/00%01",
        }
    }
}

impl Ask {
    /// The answer where it is known of all packets.
    fn known(&self, devices: Devices) -> Option<bool> {
        let comes = matches!(devices, Devices::Both | Devices::In);
        match &self.question {
            Question::Kind(Kind::Other) => Some(self.not),
            // the host's own are of no frame yet; the loopback interface's are for the host
            Question::Kind(k) if !comes => Some((*k == Kind::Unicast) != self.not),
            // they have no Ethernet header to ask about
            Question::Frame(_) if !comes => Some(false),
            _ => None,
        }
    }
}

/// Answers what is known of all packets of a hook.
pub(super) fn resolve(r: &mut ChainRule, devices: Devices) {
    if r.asks.iter().all(|a| a.known(devices).is_none()) {
        return;
    }
    let mut left: Vec<Ask> = Vec::new();
    for ask in std::mem::take(&mut r.asks) {
        let known = ask.known(devices);
        if known.is_none() {
            left.push(ask);
            continue;
        }
        let behind = ask.behind;
        let (tests, own, marks) = match left.last_mut() {
            Some(a) => (&mut a.behind.tests, &mut a.behind.own, &mut a.behind.marks),
            None => (&mut r.tests, &mut r.own, &mut r.marks),
        };
        if known == Some(false) {
            tests.push("false".into());
            break;
        }
        tests.extend(behind.tests);
        own.extend(behind.own);
        marks.extend(behind.marks);
    }
    r.asks = left;
}

/// A name for the rule: where it stands.
fn name(kind: &str, r: &ChainRule) -> String {
    match &r.place {
        Some(p) => {
            let number = p.number.to_string();
            word(kind, [&p.family, &p.table, &p.chain, number.as_str()])
        }
        None => word(kind, [r.line.to_string().as_str()]),
    }
}

/// A name of letters and digits.
fn word<'a>(kind: &str, parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::from(kind);
    for part in parts {
        out.push('_');
        for c in part.chars() {
            // writing to a String cannot fail
            let _ = match c.is_ascii_alphanumeric() {
                true => write!(out, "{c}"),
                false => write!(out, "_{:x}_", u32::from(c)),
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::chains::Target;
    use crate::rules::RulePlace;
    use std::sync::Arc;

    fn rule(asks: Vec<Ask>) -> ChainRule {
        ChainRule {
            tests: Vec::new(),
            interfaces: Vec::new(),
            own: Vec::new(),
            marks: Vec::new(),
            asks,
            changes: Vec::new(),
            target: Target::Return,
            refused: None,
            line: 7,
            place: Some(Arc::new(RulePlace {
                family: "ip".into(),
                table: "filter".into(),
                chain: "A-b".into(),
                number: 3,
                handle: None,
            })),
        }
    }

    #[test]
    fn questions_have_names() {
        let mut r = rule(Vec::new());
        let limit = Question::Limit(Limit {
            rate: 1,
            per: 1,
            burst: 5,
            bytes: false,
            over: false,
        });
        let of = |r: &ChainRule, n| Asked::of(r, n, &limit).name;
        assert_eq!(of(&r, 0), "limit_ip_filter_A_2d_b_3");
        assert_eq!(of(&r, 1), "limit_ip_filter_A_2d_b_3_1");
        r.place = None;
        assert_eq!(of(&r, 0), "limit_7");
    }

    /// In OUTPUT all packets are of this host, and none has a frame.
    #[test]
    fn answers_that_are_known() {
        let ask = |question: Question, not| Ask {
            question,
            not,
            behind: Conditions {
                tests: vec!["tcp".into()],
                ..Conditions::default()
            },
        };
        let kind = |k, not| ask(Question::Kind(k), not);
        let frame = |not| ask(Question::Frame(vec!["6/00".into()]), not);
        for (ask, devices, tests, left) in [
            (kind(Kind::Broadcast, false), Devices::In, vec![], 1),
            (kind(Kind::Broadcast, false), Devices::Out, vec!["false"], 0),
            (kind(Kind::Broadcast, true), Devices::Out, vec!["tcp"], 0),
            (kind(Kind::Unicast, false), Devices::InLoop, vec!["tcp"], 0),
            (kind(Kind::Other, false), Devices::Both, vec!["false"], 0),
            (frame(true), Devices::OutLoop, vec!["false"], 0),
            (frame(true), Devices::Both, vec![], 1),
        ] {
            let mut r = rule(vec![ask]);
            resolve(&mut r, devices);
            assert_eq!(
                (r.tests, r.asks.len()),
                (tests.into_iter().map(String::from).collect(), left)
            );
        }
    }
}
