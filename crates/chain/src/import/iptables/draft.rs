//! A rule of `iptables` while its options are read: what it asks, in the order in which the kernel asks it.

use super::options::negate;
use super::questions::QuestionDraft;
use crate::import::asks::{Ask, Conditions};
use crate::import::chains::{InterfaceTest, Target};
use crate::import::mark::{Change, MarkOf};
use crate::import::own::{AddressKind, OwnTest};
use crate::import::terms::Family;
use onefold_click::suggest::{did_you_mean, near_misses};
use onefold_elements::connection::ConnTest;

/// A rule while its options are read.
#[derive(Default)]
pub(super) struct Draft {
    /// What is asked before all questions.
    pub base: Conditions,
    pub interfaces: Vec<InterfaceTest>,
    pub protocol: Option<u8>,
    /// The rule names a protocol that is not known.
    pub strange: bool,
    /// A match extension that looks at the transport header, which later fragments do not have.
    pub transport: bool,
    pub target: Option<Target>,
    /// What the target changes.
    pub changes: Vec<Change>,
    /// Whose mark '--mark' is about: as the last match says.
    pub mark_of: Option<MarkOf>,
    /// A test of the connection's state.
    state: Option<String>,
    /// Other tests of the connection.
    connection: Vec<String>,
    /// Matches that are loaded so far, and behind how many questions.
    loaded: Vec<(String, usize)>,
    /// What elements are asked.
    asks: Vec<AskDraft>,
    /// `-m rpfilter`, whose options may follow.
    pub reverse: Option<OwnTest>,
}

/// A question, and what is asked behind it.
struct AskDraft {
    question: QuestionDraft,
    not: bool,
    behind: Conditions,
}

impl Draft {
    /// Adds a test of a match, which is asked in the order in which matches are loaded. Without a name, it is one of
    /// the rule itself, which are asked first.
    pub fn add(&mut self, of: Option<&str>, test: String) {
        self.conditions(of).tests.push(test);
    }

    /// The conditions among which those of a match are.
    pub fn conditions(&mut self, of: Option<&str>) -> &mut Conditions {
        let found = of.and_then(|m| self.loaded.iter().rev().find(|(name, _)| name == m));
        let behind = found.and_then(|(_, n)| n.checked_sub(1));
        match behind.and_then(|n| self.asks.get_mut(n)) {
            Some(ask) => &mut ask.behind,
            None => &mut self.base,
        }
    }

    /// The last test for kinds of addresses.
    pub fn last_own(&mut self) -> Option<&mut OwnTest> {
        self.conditions(Some("addrtype")).own.last_mut()
    }

    /// `-m NAME`
    pub fn load(&mut self, name: &str, six: bool) -> Result<(), String> {
        // both ask the same
        let of = if name == "state" { "conntrack" } else { name };
        if let Some(question) = QuestionDraft::of(name) {
            let limits = |a: &AskDraft| matches!(a.question, QuestionDraft::Limit(_));
            if name == "limit" && self.asks.iter().any(limits) {
                return Err("match 'limit' twice".into());
            }
            self.asks.push(AskDraft {
                question,
                not: false,
                behind: Conditions::default(),
            });
            return Ok(());
        }
        match name {
            "tcp" | "udp" | "icmp" | "icmp6" | "multiport" => self.transport = true,
            "mark" => self.mark_of = Some(MarkOf::Packet),
            "connmark" => self.mark_of = Some(MarkOf::Connection),
            "rpfilter" => {
                let (loose, own) = (false, false);
                self.reverse = Some(OwnTest {
                    kind: AddressKind::Reverse { loose, own },
                    ..OwnTest::local(true, six)
                });
            }
            "conntrack" | "state" | "comment" | "iprange" | "ttl" | "hl" | "addrtype"
            | "policy" | "set" => {}
            "owner" => {
                return Err("match 'owner' is not supported: sockets are not known here".into());
            }
            m => {
                let text = format!("match '{m}' is not supported");
                return Err(meant(text, m, MATCHES));
            }
        }
        self.loaded.push((of.to_string(), self.asks.len()));
        Ok(())
    }

    /// Reads an option of a question, with its value if it has one; `None` if it is none of the questions so far.
    pub fn ask<'b>(
        &mut self,
        w: &str,
        mut not: bool,
        value: impl FnOnce(&mut bool) -> Result<&'b str, String>,
    ) -> Option<Result<(), String>> {
        let ask = self.asks.iter_mut().rev().find(|a| a.question.knows(w))?;
        let v = match QuestionDraft::is_flag(w) {
            true => Ok(""),
            false => value(&mut not),
        };
        Some(v.and_then(|v| {
            if not && !QuestionDraft::negates(w) {
                return Err(format!("'!' before '{w}' is not supported"));
            }
            ask.not |= not;
            ask.question.option(w, v)
        }))
    }

    /// The questions; what is wrong with them is added to `errors`.
    pub fn questions(&mut self, family: Family, errors: &mut Vec<String>) -> Vec<Ask> {
        if let Some(test) = self.reverse.take() {
            self.conditions(Some("rpfilter")).own.push(test);
        }
        let mut out = Vec::new();
        for a in std::mem::take(&mut self.asks) {
            match a.question.question(family) {
                Ok(question) => out.push(Ask {
                    question,
                    not: a.not,
                    behind: a.behind,
                }),
                Err(e) => errors.push(e),
            }
        }
        out
    }

    /// A question about the connection.
    pub fn asks(&mut self, w: &str, v: &str, not: bool) -> Result<(), String> {
        match w {
            "--ctdir" => {
                let test = connection_test("direction", v)?;
                self.connection.push(negate(test, not));
            }
            "--ctstatus" => {
                let test = connection_test("status", v)?;
                self.connection.push(negate(test, not));
            }
            _ if self.state.is_some() => return Err(format!("'{w}' twice")),
            _ => self.state = Some(negate(connection_test("state", v)?, not)),
        }
        Ok(())
    }

    /// Adds the tests of the connection. Where there is none, a test of the state alone decides, whatever else is asked
    /// (xt_conntrack.c).
    pub fn connection_tests(&mut self) {
        let none = "ct state invalid,untracked";
        for t in std::mem::take(&mut self.connection) {
            let t = match self.state.is_some() {
                true => format!("({t} or {none})"),
                false => format!("{t} && not {none}"),
            };
            self.add(Some("conntrack"), t);
        }
        if let Some(t) = self.state.take() {
            self.add(Some("conntrack"), t);
        }
    }
}

/// Matches that are known.
const MATCHES: &[&str] = &[
    "tcp",
    "udp",
    "icmp",
    "icmp6",
    "multiport",
    "mark",
    "connmark",
    "conntrack",
    "state",
    "comment",
    "iprange",
    "ttl",
    "hl",
    "addrtype",
    "policy",
    "set",
    "limit",
    "recent",
    "string",
    "statistic",
    "pkttype",
    "mac",
    "rpfilter",
];
const STATES: &[&str] = &["NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED"];
const STATUS: &[&str] = &[
    "EXPECTED",
    "SEEN_REPLY",
    "ASSURED",
    "CONFIRMED",
    "SNAT",
    "DNAT",
];

/// With what was probably meant.
pub(super) fn meant(text: String, name: &str, known: &[&str]) -> String {
    match did_you_mean(name, known.iter().copied()) {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

/// [`meant`], of options: dashes, which all of them have, do not make them alike.
pub(super) fn meant_option(text: String, name: &str, known: &[&str]) -> String {
    let bare = name.trim_start_matches('-');
    let near = near_misses(bare, known.iter().map(|k| k.trim_start_matches('-')));
    let whole = |bare: &&str| (known.iter()).find(|k| k.trim_start_matches('-') == *bare);
    let near: Vec<String> = (near.iter().filter_map(whole))
        .map(|k| format!("'{k}'"))
        .collect();
    match near.is_empty() {
        true => text,
        false => format!("{text}; did you mean {}?", near.join(" or ")),
    }
}

/// A test of a packet's connection: a list of values as `iptables` writes them, in the words of firewall rules.
fn connection_test(key: &str, list: &str) -> Result<String, String> {
    let (mut values, mut translated) = (Vec::new(), Vec::new());
    for v in list.split(',') {
        let name = v.to_lowercase().replace('_', "-");
        // as states, these are of connections that are translated, whatever else they are
        if matches!(name.as_str(), "snat" | "dnat") {
            translated.push(name);
            continue;
        }
        ConnTest::parse(key, &name).map_err(|_| {
            let known: &[&str] = match key {
                "state" => STATES,
                "direction" => &["ORIGINAL", "REPLY"],
                _ => STATUS,
            };
            meant(format!("connection {key} '{v}' is not supported"), v, known)
        })?;
        values.push(name);
    }
    let plain = format!("ct {key} {}", values.join(","));
    let translated = match translated.is_empty() {
        true => return Ok(plain),
        false => format!("ct status {}", translated.join(",")),
    };
    match values.is_empty() {
        true => Ok(translated),
        false => Ok(format!("({plain} or {translated})")),
    }
}
