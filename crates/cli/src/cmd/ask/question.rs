//! The language of questions, read: `can wan reach 10.1.0.0/16 port 22?`

use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, SourceMap, Span};
use onefold_click::suggest::near_misses;
use onefold_element::model::ValueSet;
use onefold_verify::answers::ask::{Conditions, Field, Question};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Most characters of a question.
const MAX_CHARS: usize = 4_000;

/// What `ask --help` says of it.
pub const LANGUAGE: &str = "Questions:\n  \
    can PORT[, PORT ...] reach TARGET [CONDITION ...]?\n\n\
    PORT is a port of the chain where packets come in, or `any`. TARGET is an address (10.0.0.1, 10.0.0.0/8,\n\
    10.0.0.1-10.0.0.9, 2001:db8::/32), a port of the chain where they are to leave, or `anything`.\n\
    `reach` an address: a packet that is sent to it, or delivered to it (behind NAT, a balancer), leaves the chain.\n\
    `send to` an address asks only for what packets are as they come in, `deliver to` only for what they are as they\n\
    leave. Without a port where they are to leave, it is any but the one where they come in.\n\n\
    Conditions, in any order, `and` and `with` between them or not:\n  \
    tcp, udp, icmp, icmp6, protocol N      the protocol\n  \
    port 22, port 80,443, port 1000-1999   the destination port (TCP and UDP, unless one of them is named)\n  \
    source port N                          the source port\n  \
    source ADDRESS                         the source address, as it comes in\n  \
    to ADDRESS                             the destination address, where TARGET is a port of the chain\n  \
    at PORT                                where packets are to leave";

/// What was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Where packets come in.
    pub from: Vec<String>,
    /// Where they are to leave; none: wherever they did not come in.
    pub at: Vec<String>,
    /// They may be sent to the address.
    pub sent: bool,
    /// They may be delivered to it.
    pub delivered: bool,
    /// The address.
    pub to: Option<Address>,
    /// The source address.
    pub source: Option<Address>,
    /// Protocols.
    pub protocol: Option<ValueSet>,
    /// Destination ports.
    pub port: Option<ValueSet>,
    /// Source ports.
    pub source_port: Option<ValueSet>,
}

/// Addresses of one IP version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// IPv6.
    pub six: bool,
    /// Which.
    pub set: ValueSet,
}

/// A word, and where it stands.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    at: usize,
}

struct Reading<'a> {
    words: Vec<Word<'a>>,
    next: usize,
    inputs: &'a [String],
    outputs: &'a [String],
    sources: SourceMap,
    file: FileId,
    end: usize,
}

type R<T> = Result<T, Box<Diagnostic>>;

/// Reads a question about a chain with these ports, where packets come in and where they leave.
///
/// # Errors
/// What is wrong, with its column and a hint.
pub fn read(text: &str, inputs: &[String], outputs: &[String]) -> R<Asked> {
    let mut sources = SourceMap::new();
    let file = sources.add("question", text);
    let mut r = Reading {
        words: words(text),
        next: 0,
        inputs,
        outputs,
        sources,
        file,
        end: text.trim_end().len(),
    };
    if text.chars().count() > MAX_CHARS {
        return Err(r.wrong(
            None,
            format!("a question of more than {MAX_CHARS} characters"),
        ));
    }
    r.question()
}

/// Words, commas by themselves, without the question mark.
fn words(text: &str) -> Vec<Word<'_>> {
    let text = text.trim_end().trim_end_matches(['?', '.', ' ']);
    let mut all = Vec::new();
    let mut from = None;
    let ends = text.char_indices().chain([(text.len(), ' ')]);
    for (i, c) in ends {
        if !(c.is_whitespace() || c == ',') {
            from.get_or_insert(i);
            continue;
        }
        if let Some(at) = from.take() {
            all.extend(text.get(at..i).map(|text| Word { text, at }));
        }
        if c == ',' {
            all.extend(text.get(i..=i).map(|text| Word { text, at: i }));
        }
    }
    all
}

impl<'a> Reading<'a> {
    fn peek(&self) -> Option<Word<'a>> {
        self.words.get(self.next).copied()
    }
    fn word(&mut self) -> Option<Word<'a>> {
        let w = self.peek();
        self.next += usize::from(w.is_some());
        w
    }
    /// Takes one of these words, whatever its case.
    fn takes(&mut self, any: &[&str]) -> bool {
        let is = |w: Word<'_>| any.iter().any(|a| w.text.eq_ignore_ascii_case(a));
        let yes = self.peek().is_some_and(is);
        self.next += usize::from(yes);
        yes
    }

    fn wrong(&self, w: Option<Word<'_>>, what: String) -> Box<Diagnostic> {
        let (at, len) = w.map_or((self.end, 1), |w| (w.at, w.text.len()));
        let d = Diagnostic::error(what).at(&self.sources, Span::new(self.file, at, at + len));
        Box::new(d)
    }

    fn hinted(&self, w: Option<Word<'_>>, what: String, hint: String) -> Box<Diagnostic> {
        let d = *self.wrong(w, what);
        Box::new(d.hint(hint))
    }

    fn question(&mut self) -> R<Asked> {
        self.takes(&["can", "may", "does", "do"]);
        let mut asked = Asked {
            from: self.from()?,
            sent: true,
            delivered: true,
            ..Asked::default()
        };
        let verb = self.word();
        match verb.map(|w| w.text.to_ascii_lowercase()).as_deref() {
            Some("reach") => {}
            Some("send") => {
                self.takes(&["to"]);
                asked.delivered = false;
            }
            Some("deliver") => {
                self.takes(&["to"]);
                asked.sent = false;
            }
            _ => {
                let what = "expected `reach`, `send to` or `deliver to`".to_string();
                let hint = "as in `can wan reach 10.1.0.0/16 port 22?`".to_string();
                return Err(self.hinted(verb, what, hint));
            }
        }
        self.target(&mut asked)?;
        while let Some(w) = self.word() {
            self.condition(w, &mut asked)?;
        }
        self.versions(&asked)?;
        Ok(asked)
    }

    /// Ports where packets come in.
    fn from(&mut self) -> R<Vec<String>> {
        let mut all = Vec::new();
        loop {
            let w = self.word();
            match w {
                Some(w) if w.text.eq_ignore_ascii_case("any") => all.extend_from_slice(self.inputs),
                Some(w) if self.inputs.iter().any(|p| p == w.text) => all.push(w.text.to_string()),
                _ => return Err(self.no_port(w, self.inputs, "packets come in at")),
            }
            if !self.takes(&[",", "or", "and"]) {
                all.dedup();
                return Ok(all);
            }
        }
    }

    fn no_port(&self, w: Option<Word<'_>>, ports: &[String], what: &str) -> Box<Diagnostic> {
        let all = ports.join(", ");
        let Some(word) = w else {
            let hint = format!("{what} {all}");
            return self.hinted(w, "expected a port of the chain".into(), hint);
        };
        let near = near_misses(word.text, ports.iter().map(String::as_str));
        let hint = match near.first() {
            Some(n) => format!("did you mean `{n}`? {what} {all}"),
            None => format!("{what} {all}"),
        };
        self.hinted(w, format!("`{}` is no port of the chain", word.text), hint)
    }

    fn target(&mut self, asked: &mut Asked) -> R<()> {
        let w = self.word();
        let Some(word) = w else {
            let hint = format!(
                "an address, `anything`, or a port of the chain: {}",
                self.outputs.join(", ")
            );
            return Err(self.hinted(w, "what is to be reached?".into(), hint));
        };
        let any = ["any", "anything", "anywhere"];
        if any.iter().any(|a| word.text.eq_ignore_ascii_case(a)) {
            return Ok(());
        }
        if self.outputs.iter().any(|p| p == word.text) {
            asked.at.push(word.text.to_string());
            return Ok(());
        }
        let looks = word.text.contains([':', '.', '/'])
            || word.text.starts_with(|c: char| c.is_ascii_digit());
        match looks {
            true => {
                asked.to = Some(self.address(word)?);
                Ok(())
            }
            false => Err(self.no_port(
                w,
                self.outputs,
                "it is neither an address, nor where packets leave:",
            )),
        }
    }

    fn condition(&mut self, w: Word<'a>, asked: &mut Asked) -> R<()> {
        let lower = w.text.to_ascii_lowercase();
        match lower.as_str() {
            "and" | "with" | "," | "over" => return Ok(()),
            "port" | "ports" => set_once(&mut asked.port, self.numbers(16)?),
            "protocol" | "proto" => set_once(&mut asked.protocol, self.numbers(8)?),
            "source" | "from" | "src" => {
                if self.takes(&["port", "ports"]) {
                    set_once(&mut asked.source_port, self.numbers(16)?)
                } else {
                    let a = self.addresses()?;
                    set_once(&mut asked.source, a)
                }
            }
            "to" | "destination" | "dst" => {
                if self.takes(&["port", "ports"]) {
                    set_once(&mut asked.port, self.numbers(16)?)
                } else {
                    let a = self.addresses()?;
                    set_once(&mut asked.to, a)
                }
            }
            "at" => {
                let port = self.word();
                match port.filter(|p| self.outputs.iter().any(|o| o == p.text)) {
                    Some(p) => {
                        asked.at.push(p.text.to_string());
                        Ok(())
                    }
                    None => return Err(self.no_port(port, self.outputs, "packets leave at")),
                }
            }
            name => match protocol(name) {
                Some(n) => {
                    let before = asked.protocol.take().unwrap_or_else(ValueSet::empty);
                    asked.protocol = Some(before.union(&ValueSet::one(n)));
                    Ok(())
                }
                None => Err("is no condition"),
            },
        }
        .map_err(|why| {
            let hint = "conditions are tcp, udp, icmp, protocol N, port N, source port N, source ADDRESS, to ADDRESS, \
                        at PORT; `onefold ask --help` explains them";
            self.hinted(Some(w), format!("`{}` {why}", w.text), hint.into())
        })
    }

    /// Numbers and ranges, commas or `or` between them.
    fn numbers(&mut self, bits: u8) -> R<ValueSet> {
        let max = onefold_element::model::max_of(bits);
        let mut all = ValueSet::empty();
        loop {
            let w = self.word();
            let Some(word) = w else {
                let hint = "as in `port 22`, `port 80,443`, `port 1000-1999`".to_string();
                return Err(self.hinted(w, "expected a number".into(), hint));
            };
            let (lo, hi) = word.text.split_once('-').unwrap_or((word.text, word.text));
            let number = |s: &str| s.parse::<u128>().ok().filter(|n| *n <= max);
            let (Some(lo), Some(hi)) = (number(lo), number(hi)) else {
                let hint = format!("a number up to {max}, or a range such as 1000-1999");
                return Err(self.hinted(w, format!("`{}` is no such number", word.text), hint));
            };
            if lo > hi {
                let hint = format!("did you mean {hi}-{lo}?");
                return Err(self.hinted(w, format!("`{}` begins behind its end", word.text), hint));
            }
            all = all.union(&ValueSet::range(lo, hi));
            let more = |w: &Word<'_>| w.text.starts_with(|c: char| c.is_ascii_digit());
            let behind = self.words.get(self.next + 1).is_some_and(more);
            if !behind || !self.takes(&[",", "or"]) {
                return Ok(all);
            }
        }
    }

    fn addresses(&mut self) -> R<Address> {
        match self.word() {
            Some(w) => self.address(w),
            None => {
                let hint = "as in 10.0.0.0/8, 10.0.0.1-10.0.0.9, 2001:db8::1".to_string();
                Err(self.hinted(None, "expected an address".into(), hint))
            }
        }
    }

    fn address(&self, w: Word<'_>) -> R<Address> {
        let number = |s: &str| -> Option<(bool, u128)> {
            let four = s
                .parse::<Ipv4Addr>()
                .map(|a| (false, u128::from(u32::from(a))));
            four.or_else(|_| s.parse::<Ipv6Addr>().map(|a| (true, u128::from(a))))
                .ok()
        };
        let no = |what: String| {
            let hint = "as in 10.0.0.1, 10.0.0.0/8, 10.0.0.1-10.0.0.9, 2001:db8::/32".to_string();
            self.hinted(Some(w), what, hint)
        };
        let none = || no(format!("`{}` is no IP address", w.text));
        if let Some((a, len)) = w.text.split_once('/') {
            let (six, value) = number(a).ok_or_else(none)?;
            let most = if six { 128u8 } else { 32 };
            let len = len.parse::<u8>().ok().filter(|n| *n <= most);
            let len = len.ok_or_else(|| {
                no(format!(
                    "`{}`: a prefix is at most {most} bits long",
                    w.text
                ))
            })?;
            let set = ValueSet::prefix(value, len, most);
            return Ok(Address { six, set });
        }
        if let Some((a, b)) = w.text.split_once('-') {
            let ((six, lo), (other, hi)) =
                (number(a).ok_or_else(none)?, number(b).ok_or_else(none)?);
            if six != other || lo > hi {
                return Err(no(format!("`{}` is no range of addresses", w.text)));
            }
            let set = ValueSet::range(lo, hi);
            return Ok(Address { six, set });
        }
        let (six, value) = number(w.text).ok_or_else(none)?;
        let set = ValueSet::one(value);
        Ok(Address { six, set })
    }

    /// Addresses of one question are of one version.
    fn versions(&self, asked: &Asked) -> R<()> {
        match (&asked.source, &asked.to) {
            (Some(a), Some(b)) if a.six != b.six => Err(self.wrong(
                self.words.last().copied(),
                "one address is IPv4's, the other IPv6's: no packet has both".into(),
            )),
            _ => Ok(()),
        }
    }
}

/// Sets what is not set yet.
fn set_once<T>(to: &mut Option<T>, v: T) -> Result<(), &'static str> {
    match to.replace(v) {
        None => Ok(()),
        Some(_) => Err("was said before"),
    }
}

fn protocol(name: &str) -> Option<u128> {
    Some(match name {
        "tcp" => 6,
        "udp" => 17,
        "icmp" => 1,
        "icmp6" | "icmpv6" => 58,
        "sctp" => 132,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        _ => return None,
    })
}

impl Asked {
    /// The questions that together are this one: about IPv4 or IPv6 (both where no address says which), about what is
    /// sent to an address and what is delivered to it. `outputs`: all ports where packets leave.
    pub fn questions(&self, outputs: &[String]) -> Vec<Question> {
        let six = [&self.to, &self.source]
            .into_iter()
            .flatten()
            .map(|a| a.six)
            .next();
        let versions = six.map_or(vec![false, true], |s| vec![s]);
        let ways = match (&self.to, self.sent, self.delivered) {
            (None, ..) => vec![true],
            (_, true, true) => vec![true, false],
            (_, sent, _) => vec![sent],
        };
        let mut all = Vec::new();
        for from in &self.from {
            let mut to = self.at.clone();
            if to.is_empty() {
                to = outputs.iter().filter(|o| *o != from).cloned().collect();
            }
            for six in &versions {
                for sent in &ways {
                    all.push(self.question(from, &to, *six, *sent));
                }
            }
        }
        all
    }

    fn question(&self, from: &str, to: &[String], six: bool, sent: bool) -> Question {
        let mut q = Question {
            six,
            from: vec![from.to_string()],
            to: to.to_vec(),
            ..Question::default()
        };
        let ports = self.port.is_some() || self.source_port.is_some();
        let both = ValueSet::from_intervals([(6, 6), (17, 17)]);
        let protocol = self.protocol.clone().or(ports.then_some(both));
        let say = |to: &mut Conditions, f: Field, v: Option<ValueSet>| to.extend(v.map(|v| (f, v)));
        say(&mut q.sent, Field::Protocol, protocol);
        say(
            &mut q.sent,
            Field::Source,
            self.source.clone().map(|a| a.set),
        );
        say(&mut q.sent, Field::SourcePort, self.source_port.clone());
        let target = if sent { &mut q.sent } else { &mut q.delivered };
        say(target, Field::Destination, self.to.clone().map(|a| a.set));
        say(target, Field::DestinationPort, self.port.clone());
        q
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports() -> Vec<String> {
        vec!["lan".into(), "wan".into()]
    }

    fn asked(t: &str) -> Asked {
        read(t, &ports(), &ports()).unwrap_or_else(|e| panic!("{t}: {}", e.message))
    }

    fn wrong(t: &str) -> (u32, String) {
        let e = read(t, &ports(), &ports()).expect_err(t);
        (e.location.map_or(0, |l| l.column), e.message)
    }

    #[test]
    fn questions_are_understood() {
        let a = asked("can wan reach 10.1.0.0/16 port 22?");
        assert_eq!(a.from, ["wan"]);
        assert_eq!(
            a.to.as_ref().map(|t| t.set.clone()),
            Some(ValueSet::range(0x0a01_0000, 0x0a01_ffff))
        );
        assert_eq!(a.port, Some(ValueSet::one(22)));
        let all = a.questions(&ports());
        assert_eq!(all.len(), 2, "sent, delivered");
        assert_eq!(all[0].to, ["lan"]);
        assert_eq!(all[0].delivered, []);
        assert_eq!(
            all[1].sent,
            [(
                Field::Protocol,
                ValueSet::from_intervals([(6, 6), (17, 17)])
            )]
        );
        let a = asked(
            "can lan or wan send to 2001:db8::1 udp port 53, 1000-1999 and source port 7 source 2001:db8::/32",
        );
        assert_eq!((a.from.len(), a.sent, a.delivered), (2, true, false));
        assert_eq!(
            a.port,
            Some(ValueSet::from_intervals([(53, 53), (1000, 1999)]))
        );
        assert_eq!(a.source_port, Some(ValueSet::one(7)));
        assert!(a.questions(&ports()).iter().all(|q| q.six));
        let a = asked("can any reach lan over icmp");
        assert_eq!(a.questions(&ports()).len(), 4, "two ports, two versions");
        assert_eq!(
            asked("can wan reach anything, tcp, to 10.0.0.1-10.0.0.9 at lan").at,
            ["lan"]
        );
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(
            wrong("can wann reach lan?"),
            (5, "`wann` is no port of the chain".into())
        );
        assert_eq!(wrong("can wan touch lan?").0, 9);
        assert_eq!(
            wrong("can wan reach 10.0.0.0/33").1,
            "`10.0.0.0/33`: a prefix is at most 32 bits long"
        );
        assert_eq!(wrong("can wan reach 10.0.0.1 port 99999").0, 29);
        assert_eq!(wrong("can wan reach 10.0.0.1 port").1, "expected a number");
        assert_eq!(
            wrong("can wan reach 10.0.0.1 quickly").1,
            "`quickly` is no condition"
        );
        assert_eq!(
            wrong("can wan reach 10.0.0.1 port 1 port 2").1,
            "`port` was said before"
        );
        assert_eq!(wrong("can wan reach").1, "what is to be reached?");
        assert!(read("can wan reach 10.0.0.1 source ::1", &ports(), &ports()).is_err());
        assert!(read("", &ports(), &ports()).is_err());
        assert!(read(&"x ".repeat(3000), &ports(), &ports()).is_err());
    }
}
