//! A rule of `iptables` while its options are read: what it asks, in the order in which the kernel asks it.

use super::limit::LimitDraft;
use super::options::negate;
use crate::import::chains::{InterfaceTest, OwnTest, Target};
use crate::import::limits::Conditions;
use crate::import::mark::{Change, MarkOf, MarkTest};
use onefold_elements::connection::ConnTest;

/// A rule while its options are read.
#[derive(Default)]
pub(super) struct Draft {
    pub tests: Vec<String>,
    pub interfaces: Vec<InterfaceTest>,
    pub protocol: Option<u8>,
    /// A match extension that looks at the transport header, which later fragments do not have.
    pub transport: bool,
    pub target: Option<Target>,
    /// What the target changes.
    pub changes: Vec<Change>,
    pub own: Vec<OwnTest>,
    pub marks: Vec<MarkTest>,
    /// Whose mark '--mark' is about: as the last match says.
    pub mark_of: Option<MarkOf>,
    /// A test of the connection's state.
    state: Option<String>,
    /// Other tests of the connection.
    connection: Vec<String>,
    /// Matches that are loaded so far.
    loaded: Vec<String>,
    /// A rate, and tests that are asked behind it.
    pub limit: Option<LimitDraft>,
    pub behind: Conditions,
}

impl Draft {
    /// Adds a test of a match, which is asked in the order in which matches are loaded. Without a name, it is one of
    /// the rule itself, which are asked first.
    pub fn add(&mut self, of: Option<&str>, test: String) {
        match of.is_some_and(|m| self.is_behind(m)) {
            true => self.behind.tests.push(test),
            false => self.tests.push(test),
        }
    }

    /// Is this match asked behind the rate?
    pub fn is_behind(&self, of: &str) -> bool {
        self.limit.as_ref().is_some_and(|l| !l.asked_behind(of))
    }

    /// The last test for the host's own addresses.
    pub fn last_own(&mut self) -> Option<&mut OwnTest> {
        match self.is_behind("addrtype") {
            true => self.behind.own.last_mut(),
            false => self.own.last_mut(),
        }
    }

    /// `-m NAME`
    pub fn load(&mut self, name: &str) -> Result<(), String> {
        // both ask the same
        let of = if name == "state" { "conntrack" } else { name };
        match name {
            "limit" if self.limit.is_some() => return Err("match 'limit' twice".into()),
            "limit" => self.limit = Some(LimitDraft::new(&self.loaded)),
            "tcp" | "udp" | "icmp" | "icmp6" | "multiport" => self.transport = true,
            "mark" => self.mark_of = Some(MarkOf::Packet),
            "connmark" => self.mark_of = Some(MarkOf::Connection),
            "conntrack" | "state" | "comment" | "iprange" | "ttl" | "hl" | "addrtype"
            | "policy" => {}
            m => return Err(format!("match '{m}' is not supported")),
        }
        self.loaded.push(of.to_string());
        Ok(())
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
        ConnTest::parse(key, &name)
            .map_err(|_| format!("connection {key} '{v}' is not supported"))?;
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
