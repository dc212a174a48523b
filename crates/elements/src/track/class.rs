//! What rules can know of a packet's connection.

use std::fmt;

/// A packet's place in its connection, as rules ask for it (`ct state`, `-m conntrack --ctstate`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ConnState {
    /// Of a connection of which no reply has been seen.
    New = 0,
    /// Of a connection of which both directions have been seen.
    Established = 1,
    /// An ICMP error about a packet of a connection.
    Related = 2,
    /// Not of a connection, and none can begin with it.
    Invalid = 3,
    /// Not tracked, on purpose.
    Untracked = 4,
}

/// All states, by number.
pub const STATES: [ConnState; 5] = [
    ConnState::New,
    ConnState::Established,
    ConnState::Related,
    ConnState::Invalid,
    ConnState::Untracked,
];

impl ConnState {
    /// As rules call it.
    pub fn name(self) -> &'static str {
        match self {
            ConnState::New => "new",
            ConnState::Established => "established",
            ConnState::Related => "related",
            ConnState::Invalid => "invalid",
            ConnState::Untracked => "untracked",
        }
    }
    /// By name.
    pub fn parse(s: &str) -> Option<ConnState> {
        STATES.into_iter().find(|x| x.name() == s)
    }
}

/// State, direction and status: all that rules can know of a packet's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnClass {
    /// The state.
    pub state: ConnState,
    /// The packet goes against the direction of the connection's first one.
    pub reply: bool,
    /// Packets of both directions have been seen, this one among them.
    pub seen_reply: bool,
    /// The connection is one that does not give way to new ones.
    pub assured: bool,
    /// The connection is in the table: this is not its first packet.
    pub confirmed: bool,
    /// The source of the connection's packets is translated.
    pub snat: bool,
    /// The destination of the connection's packets is translated.
    pub dnat: bool,
}

/// So many numbers [`ConnClass::number`] gives at most.
pub const NUMBERS: usize = 512;

impl ConnClass {
    /// A packet without a connection.
    pub const fn without(state: ConnState) -> ConnClass {
        ConnClass {
            state,
            reply: false,
            seen_reply: false,
            assured: false,
            confirmed: false,
            snat: false,
            dnat: false,
        }
    }
    /// A packet of a connection in the table that has been answered, and is not translated.
    pub const fn established(reply: bool, assured: bool) -> ConnClass {
        ConnClass {
            reply,
            seen_reply: true,
            assured,
            confirmed: true,
            ..ConnClass::without(ConnState::Established)
        }
    }
    /// A small number of its own.
    pub fn number(self) -> usize {
        self.state as usize
            | usize::from(self.reply) << 3
            | usize::from(self.seen_reply) << 4
            | usize::from(self.assured) << 5
            | usize::from(self.confirmed) << 6
            | usize::from(self.snat) << 7
            | usize::from(self.dnat) << 8
    }
    /// Is there a connection?
    pub fn has_connection(self) -> bool {
        !matches!(self.state, ConnState::Invalid | ConnState::Untracked)
    }

    /// All classes that there are where no addresses are translated.
    pub fn all() -> Vec<ConnClass> {
        use ConnState::{Established, Invalid, New, Related, Untracked};
        let known = |state, reply, seen_reply, assured| ConnClass {
            reply,
            seen_reply,
            assured,
            confirmed: true,
            ..ConnClass::without(state)
        };
        let mut plain = vec![ConnClass::without(New), known(New, false, false, false)];
        for reply in [false, true] {
            for assured in [false, true] {
                plain.push(known(Established, reply, true, assured));
            }
        }
        for reply in [false, true] {
            for (seen, assured) in [(false, false), (true, false), (true, true)] {
                plain.push(known(Related, reply, seen, assured));
            }
        }
        plain.push(ConnClass::without(Invalid));
        plain.push(ConnClass::without(Untracked));
        plain
    }

    /// All classes that there are.
    pub fn all_translated() -> Vec<ConnClass> {
        let mut all = Vec::new();
        for c in ConnClass::all() {
            all.push(c);
            let statuses = [(false, true), (true, false), (true, true)];
            for (snat, dnat) in statuses.into_iter().filter(|_| c.has_connection()) {
                all.push(ConnClass { snat, dnat, ..c });
            }
        }
        all
    }
}

/// `established reply assured`.
impl fmt::Display for ConnClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.state.name())?;
        if self.has_connection() {
            f.write_str(if self.reply { " reply" } else { " original" })?;
            for (is, name) in [
                (self.seen_reply, " seen-reply"),
                (self.assured, " assured"),
                (self.confirmed, " confirmed"),
                (!self.confirmed, " unconfirmed"),
                (self.snat, " snat"),
                (self.dnat, " dnat"),
            ] {
                f.write_str(if is { name } else { "" })?;
            }
        }
        Ok(())
    }
}

/// A question that a rule asks about a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnTest {
    /// `state NAME`
    State(ConnState),
    /// `direction original` (false) or `direction reply` (true): never of packets without a connection.
    Direction(bool),
    /// `status seen-reply`
    SeenReply,
    /// `status assured`
    Assured,
    /// `status confirmed`
    Confirmed,
    /// `status snat`
    Snat,
    /// `status dnat`
    Dnat,
}

impl ConnTest {
    /// What is asked, by key and value: `state established`, `direction reply`, `status assured`.
    ///
    /// # Errors
    /// What was expected instead.
    pub fn parse(key: &str, value: &str) -> Result<ConnTest, String> {
        let wanted = |what: &str| {
            Err(format!(
                "expected {what} behind 'ct {key}', found '{value}'"
            ))
        };
        match (key, value) {
            ("state", s) => match ConnState::parse(s) {
                Some(s) => Ok(ConnTest::State(s)),
                None => wanted("new, established, related, invalid or untracked"),
            },
            ("direction", "original") => Ok(ConnTest::Direction(false)),
            ("direction", "reply") => Ok(ConnTest::Direction(true)),
            ("direction", _) => wanted("original or reply"),
            ("status", "seen-reply") => Ok(ConnTest::SeenReply),
            ("status", "assured") => Ok(ConnTest::Assured),
            ("status", "confirmed") => Ok(ConnTest::Confirmed),
            ("status", "snat") => Ok(ConnTest::Snat),
            ("status", "dnat") => Ok(ConnTest::Dnat),
            ("status", _) => wanted("seen-reply, assured, confirmed, snat or dnat"),
            _ => Err(format!(
                "'ct {key}' is not supported; rules can ask for 'ct state', 'ct direction' and 'ct status'"
            )),
        }
    }

    /// The answer for a packet.
    pub fn holds(self, c: ConnClass) -> bool {
        match self {
            ConnTest::State(s) => c.state == s,
            ConnTest::Direction(reply) => c.has_connection() && c.reply == reply,
            ConnTest::SeenReply => c.seen_reply,
            ConnTest::Assured => c.assured,
            ConnTest::Confirmed => c.confirmed,
            ConnTest::Snat => c.snat,
            ConnTest::Dnat => c.dnat,
        }
    }
}

/// The text of an argument of ConnTrack for these of all classes that there are; see [`parse_classes`].
pub fn classes_text(classes: &[ConnClass], all: &[ConnClass]) -> String {
    let mut words: Vec<String> = Vec::new();
    for state in STATES {
        let of_state: Vec<&ConnClass> = all.iter().filter(|c| c.state == state).collect();
        let ours: Vec<&ConnClass> = classes.iter().filter(|c| c.state == state).collect();
        if of_state.len() == ours.len() {
            words.push(state.name().to_string());
            continue;
        }
        words.extend(ours.iter().map(|c| c.to_string().replace(' ', ".")));
    }
    words.join(" ")
}

/// Reads an argument of ConnTrack: words, each a state and, behind dots, what else must hold of a packet's connection:
/// `established.reply.assured new`. A status that is not named must not hold if any is; `-` is all classes.
///
/// # Errors
/// What is wrong with it.
pub fn parse_classes(text: &str) -> Result<Vec<ConnClass>, String> {
    if text.trim() == "-" {
        return Ok(ConnClass::all_translated());
    }
    let mut out = Vec::new();
    for word in text.split_whitespace() {
        let mut parts = word.split('.');
        let name = parts.next().unwrap_or("");
        let state = ConnState::parse(name).ok_or_else(|| {
            format!("'{name}' is no state; there are new, established, related, invalid, untracked, and - for all")
        })?;
        let (mut reply, mut status) = (None, None::<[bool; 5]>);
        for p in parts {
            match p {
                "original" => reply = Some(false),
                "reply" => reply = Some(true),
                "unconfirmed" => drop(status.get_or_insert_default()),
                _ => {
                    let at = ["seen-reply", "assured", "confirmed", "snat", "dnat"]
                        .iter()
                        .position(|n| *n == p)
                        .ok_or_else(|| {
                            format!(
                                "'{p}' behind '{name}': there are original, reply, seen-reply, assured, confirmed, \
                                 unconfirmed, snat, dnat"
                            )
                        })?;
                    status.get_or_insert_default()[at] = true;
                }
            }
        }
        let fits = |c: &ConnClass| {
            c.state == state
                && reply.is_none_or(|r| c.has_connection() && c.reply == r)
                && status
                    .is_none_or(|s| s == [c.seen_reply, c.assured, c.confirmed, c.snat, c.dnat])
        };
        let all = ConnClass::all_translated().into_iter();
        let found: Vec<ConnClass> = all.filter(fits).collect();
        if found.is_empty() {
            return Err(format!("no packet is '{word}'"));
        }
        out.extend(found);
    }
    match out.is_empty() {
        true => Err("expected states, such as 'established related', or -".into()),
        false => Ok(out),
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn texts_name_what_they_are_of() {
        assert_eq!(ConnClass::all().len(), 14);
        let all = ConnClass::all_translated();
        assert_eq!(all.len(), 50);
        let mut numbers: Vec<usize> = all.iter().map(|c| c.number()).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert!(numbers.len() == 50 && numbers.iter().all(|n| *n < NUMBERS));
        // any subset comes back
        for bits in (0u64..1 << 50).step_by(3_600_000_000_037) {
            let some: Vec<ConnClass> = all
                .iter()
                .enumerate()
                .filter(|(i, _)| bits >> i & 1 == 1)
                .map(|(_, c)| *c)
                .collect();
            if some.is_empty() {
                continue;
            }
            let mut back = parse_classes(&classes_text(&some, &all)).unwrap();
            back.sort();
            let mut some = some;
            some.sort();
            assert_eq!(back, some, "{}", classes_text(&some, &all));
        }
        assert_eq!(parse_classes("-").unwrap().len(), 50);
        for bad in ["", "old", "new.reply.x", "new.reply", "invalid.original"] {
            assert!(parse_classes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn tests_and_their_answers() {
        let c = ConnClass {
            state: ConnState::Established,
            reply: true,
            seen_reply: true,
            assured: false,
            confirmed: true,
            snat: false,
            dnat: true,
        };
        let holds = |k: &str, v: &str| ConnTest::parse(k, v).unwrap().holds(c);
        assert!(holds("state", "established") && !holds("state", "new"));
        assert!(holds("direction", "reply") && !holds("direction", "original"));
        assert!(holds("status", "seen-reply") && !holds("status", "assured"));
        assert!(holds("status", "dnat") && !holds("status", "snat"));
        let none = ConnClass::without(ConnState::Invalid);
        for v in ["original", "reply"] {
            assert!(!ConnTest::parse("direction", v).unwrap().holds(none));
        }
        for (k, v) in [
            ("state", "old"),
            ("mark", "1"),
            ("status", "expected"),
            ("direction", "up"),
        ] {
            assert!(ConnTest::parse(k, v).is_err());
        }
    }
}
