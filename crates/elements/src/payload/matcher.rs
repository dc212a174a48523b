//! PayloadMatcher: Onefold's own DPI element.
//!
//! A list of rules, the first that matches decides, as in IPFilter:
//!
//! ```text
//! PayloadMatcher(deny string "/etc/passwd" string "GET " offset 0 depth 4,
//!                1 regex "user-agent:\s*(nikto|sqlmap)" nocase,
//!                2 hex "90 90 90 90" !string "gzip" nocase,
//!                BASE payload, NOMATCH 0)
//! ```
//!
//! - An *action* (`allow`, `deny`, `drop` or an output number) and one or more *terms*, all of which must hold (with
//!   `ALL false`: one of them).
//! - A term is `string "TEXT"`, `hex "BYTES"` or `regex "EXPRESSION"`, with `!` before it for "does not occur", and
//!   options behind it: `nocase` or `case` (the default is `case`; keyword `CASE false` makes it `nocase`), and for
//!   strings and hex `offset N` (starts at byte N or later) and `depth N` (ends within N bytes from there). Text may be
//!   written with Click's escapes; `\<0d 0a>` outside or inside double quotes gives any bytes. `all` as the only term
//!   matches every packet.
//! - `BASE` says which bytes: `payload` (default: behind the TCP, UDP or ICMP header), `transport`, `network`,
//!   `packet`; `PAYLOAD_ONLY true` is `BASE payload`, `PAYLOAD_ONLY false` is `BASE packet`. IP lengths cut off
//!   padding.
//! - `NOMATCH` is the action for packets that match no rule, `allow` (output 0) unless given.
//! - `MAX_REGEX_MEMORY` bounds the expressions' automata in bytes: those of expressions that stand alone, together, and
//!   that of each of the others. An error says when they do not fit.
//! - `MATCHER` (`auto`, `portable` or `vectorscan`) says who looks for strings, and for expressions that stand alone;
//!   it makes no difference to what is found. Without it the environment variable `ONEFOLD_MATCHER` does.
//!
//! An expression that stands in a rule with strings is only tried when the strings hold (or, with `ALL false`, do not):
//! large rule sets cost little more than their strings. Matches are looked for packet by packet; streams are not put
//! together. Conditions on headers belong into an IPFilter before it.

use super::base::Base;
use super::error::PatternError;
use super::scan::{Choice, DEFAULT_REGEX_MEMORY, Look, Pattern, Scanner, check};
use onefold_element::args::{Args, split_words, unquote};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, InspectCx, Inspected, Port,
    element_any,
};
use onefold_packet::Pkt;
use std::fmt::Write;

/// `PayloadMatcher`.
pub const PAYLOAD_MATCHER: ElementClass = ElementClass {
    name: "PayloadMatcher",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "ACTION TERM..., ... [, keywords BASE, PAYLOAD_ONLY, NOMATCH, ALL, CASE, MATCHER, MAX_REGEX_MEMORY]; a TERM is \
            [!]string \"TEXT\", [!]hex \"BYTES\" or [!]regex \"EXPRESSION\" with nocase, offset N, depth N",
    summary: "looks for strings and regular expressions in payloads: the first rule that matches decides",
    new: || Box::new(PayloadMatcher::default()),
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Output(Port),
    Drop,
}

/// One condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    negated: bool,
    pattern: Pattern,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    argument: usize,
    action: Action,
    terms: Vec<Term>,
}

/// Where a term's answer comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// Number in the common scanner.
    Common(usize),
    /// Number of a scanner of its own, asked last and only if need be.
    Own(usize),
}

#[derive(Debug, Clone, Default)]
struct PayloadMatcher {
    rules: Vec<Rule>,
    /// Per rule, its terms' sources and whether they are negated, those of the common scanner first.
    sources: Vec<Vec<(Source, bool)>>,
    common: Scanner,
    own: Vec<Scanner>,
    base: Base,
    nomatch: Option<Action>,
    any_term: bool,
    counts: Vec<u64>,
    unmatched: u64,
}

fn action(word: &str, outputs: usize) -> Result<Action, String> {
    let n = match word {
        "deny" | "drop" => return Ok(Action::Drop),
        "allow" => 0,
        n => n.parse::<usize>().map_err(|_| {
            format!("unknown action '{n}', expected allow, deny, drop or an output number")
        })?,
    };
    if n >= outputs {
        return Err(format!(
            "output {word} out of range, the element has {outputs}"
        ));
    }
    Ok(Action::Output(n))
}

fn hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let digits: Vec<u8> = text
        .iter()
        .copied()
        .filter(|c| !c.is_ascii_whitespace() && *c != b'|')
        .collect();
    let value = |c: u8| (c as char).to_digit(16).map(|d| d as u8);
    if !digits.len().is_multiple_of(2) {
        return Err("odd number of hex digits".to_string());
    }
    digits
        .chunks_exact(2)
        .map(|p| Some(value(p[0])? << 4 | value(p[1])?))
        .collect::<Option<Vec<u8>>>()
        .ok_or_else(|| "bad hex digit".to_string())
}

/// Reads `ACTION TERM...`.
fn rule(argument: usize, text: &str, outputs: usize, nocase: bool) -> Result<Rule, String> {
    let words = split_words(text);
    let Some((first, mut rest)) = words.split_first() else {
        return Err("empty rule".to_string());
    };
    let mut r = Rule {
        argument,
        action: action(first, outputs)?,
        terms: Vec::new(),
    };
    if rest == ["all"] {
        return Ok(r);
    }
    while let Some((word, tail)) = rest.split_first() {
        rest = tail;
        let (negated, kind) = match word.strip_prefix('!') {
            Some("") => {
                let Some((kind, tail)) = rest.split_first() else {
                    return Err("expected string, hex or regex behind '!'".to_string());
                };
                rest = tail;
                (true, *kind)
            }
            Some(kind) => (true, kind),
            None => (false, *word),
        };
        if !["string", "hex", "regex"].contains(&kind) {
            return Err(format!("expected string, hex or regex, found '{kind}'"));
        }
        let Some((value, tail)) = rest.split_first() else {
            return Err(format!("{kind}: pattern missing"));
        };
        rest = tail;
        let raw = unquote(value);
        let mut p = match kind {
            "string" => Pattern::literal(raw),
            "hex" => Pattern::literal(hex(&raw)?),
            _ => Pattern::regex(
                String::from_utf8(raw).map_err(|_| "regex: not UTF-8; write bytes as \\xHH")?,
            ),
        };
        p.nocase = nocase;
        options(&mut p, &mut rest)?;
        check(&p).map_err(|e| e.to_string())?;
        r.terms.push(Term {
            negated,
            pattern: p,
        });
    }
    if r.terms.is_empty() {
        return Err("expected string, hex, regex or all behind the action".to_string());
    }
    Ok(r)
}

/// `nocase`, `case`, `offset N`, `depth N`.
fn options(p: &mut Pattern, rest: &mut &[&str]) -> Result<(), String> {
    while let Some((word, tail)) = rest.split_first() {
        match *word {
            "nocase" => p.nocase = true,
            "case" => p.nocase = false,
            "offset" | "depth" => {
                let n: Option<u32> = tail.first().and_then(|n| n.parse().ok());
                let n = n.ok_or_else(|| format!("{word}: expected a number"))?;
                let Look::Literal(b) = &p.look else {
                    return Err(format!(
                        "{word}: for strings and hex only; write it into the expression"
                    ));
                };
                if *word == "offset" {
                    p.offset = n;
                } else if (n as usize) < b.len() {
                    return Err(format!("depth: {n} is less than the pattern's length"));
                } else {
                    p.depth = Some(n);
                }
                *rest = &tail[1..];
                continue;
            }
            _ => break,
        }
        *rest = tail;
    }
    Ok(())
}

impl PayloadMatcher {
    /// Distributes the terms: strings, and expressions without a string at their side, are looked for together.
    fn compile(
        &mut self,
        memory: usize,
        choice: Choice,
    ) -> Result<(), (Option<usize>, PatternError)> {
        let mut common: Vec<Pattern> = Vec::new();
        let mut known = std::collections::HashMap::new();
        for r in &self.rules {
            let literal = |t: &Term| matches!(t.pattern.look, Look::Literal(_));
            let guarded = r.terms.iter().any(literal);
            let mut sources = Vec::new();
            for t in &r.terms {
                let source = if literal(t) || !guarded {
                    // the same string in many rules is one pattern
                    let key = format!("{:?}", t.pattern);
                    Source::Common(*known.entry(key).or_insert_with(|| {
                        common.push(t.pattern.clone());
                        common.len() - 1
                    }))
                } else {
                    // asked of few packets: not worth a database
                    let one = vec![t.pattern.clone()];
                    let s = Scanner::with(one, memory, Choice::Portable);
                    self.own.push(s.map_err(|e| (Some(r.argument), e))?);
                    Source::Own(self.own.len() - 1)
                };
                sources.push((source, t.negated));
            }
            sources.sort_by_key(|(s, _)| matches!(s, Source::Own(_)));
            self.sources.push(sources);
        }
        self.common = Scanner::with(common, memory, choice).map_err(|e| (None, e))?;
        Ok(())
    }

    /// The first rule that matches.
    fn first(&mut self, data: &[u8]) -> Option<usize> {
        let found = self.common.scan(data);
        for (i, terms) in self.sources.iter().enumerate() {
            let mut holds = |(source, negated): &(Source, bool)| {
                let there = match source {
                    Source::Common(n) => found.has(*n),
                    Source::Own(n) => self.own.get_mut(*n).is_some_and(|s| s.any(data)),
                };
                there != *negated
            };
            let hit = match self.any_term && !terms.is_empty() {
                true => terms.iter().any(&mut holds),
                false => terms.iter().all(&mut holds),
            };
            if hit {
                return Some(i);
            }
        }
        None
    }
}

impl Element for PayloadMatcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let mut new = PayloadMatcher::default();
        let base: Option<Base> = args.keyword("BASE");
        let payload: Option<bool> = args.keyword("PAYLOAD_ONLY");
        new.base = match (base, payload) {
            (Some(_), Some(_)) => {
                args.error("BASE and PAYLOAD_ONLY say the same; give one of them");
                Base::default()
            }
            (Some(b), None) => b,
            (None, Some(false)) => Base::Packet,
            (None, _) => Base::Payload,
        };
        new.any_term = !args.keyword("ALL").unwrap_or(true);
        let nocase = !args.keyword("CASE").unwrap_or(true);
        let memory: Option<u32> = args.keyword("MAX_REGEX_MEMORY");
        let memory = memory.map_or(DEFAULT_REGEX_MEMORY, |m| m as usize);
        let choice: Option<Choice> = args.keyword("MATCHER");
        let choice = match choice.map_or_else(Choice::of_environment, Ok) {
            Ok(c) => c,
            Err(e) => {
                args.error(e.to_string());
                Choice::Auto
            }
        };
        let nomatch: Option<onefold_element::args::Word> = args.keyword("NOMATCH");
        match action(
            nomatch.as_ref().map_or("allow", |w| w.0.as_str()),
            cx.noutputs,
        ) {
            Ok(a) => new.nomatch = Some(a),
            Err(e) => args.error(format!("NOMATCH: {e}")),
        }
        for (i, text) in args.rest() {
            match rule(i, text, cx.noutputs, nocase) {
                Ok(r) => new.rules.push(r),
                Err(e) => args.error_at(i, &format!("rule {i}"), e),
            }
        }
        if args.ok()
            && let Err((argument, e)) = new.compile(memory, choice)
        {
            match argument {
                Some(i) => args.error_at(i, &format!("rule {i}"), e.to_string()),
                None => args.error(e.to_string()),
            }
        }
        args.finish()?;
        new.counts = vec![0; new.rules.len()];
        *self = new;
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("payload")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let hit = self.first(self.base.of(&p));
        let action = match hit.and_then(|i| self.rules.get(i)) {
            Some(r) => {
                cx.decide(Some(r.argument), || describe(r));
                Some(r.action)
            }
            None => {
                cx.decide(None, || "no rule matches".to_string());
                self.nomatch
            }
        };
        match hit.and_then(|i| self.counts.get_mut(i)) {
            Some(n) => *n += 1,
            None => self.unmatched += 1,
        }
        match action {
            Some(Action::Output(n)) => cx.emit(n, p),
            _ if hit.is_some() => cx.drop(p, "PayloadMatcher: denied"),
            _ => cx.drop(p, "PayloadMatcher: no rule matches"),
        }
    }

    fn inspects(&self) -> bool {
        self.base != Base::Packet && self.nomatch == Some(Action::Output(0))
    }

    /// Packets that no rule is about.
    fn inspect(&mut self, p: &Inspected<'_>, _: &mut InspectCx<'_>) -> bool {
        let none = self.inspects() && self.first(self.base.inspected(p)).is_none();
        self.unmatched += u64::from(none);
        none
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("matches"),
            HandlerInfo::r("unmatched"),
            HandlerInfo::r("counts"),
            HandlerInfo::r("program"),
            HandlerInfo::r("matcher"),
            HandlerInfo::button("reset_counts").counts(),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        let mut s = String::new();
        match name {
            "matches" => s = self.counts.iter().sum::<u64>().to_string(),
            "unmatched" => s = self.unmatched.to_string(),
            "matcher" => s = self.common.engine().to_string(),
            "counts" => {
                for (r, n) in self.rules.iter().zip(&self.counts) {
                    let _ = writeln!(s, "{} {n}", r.argument);
                }
            }
            "program" => {
                for r in &self.rules {
                    let _ = writeln!(s, "{:2} {}", r.argument, describe(r));
                }
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(s)
    }

    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "reset_counts" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        self.counts.fill(0);
        self.unmatched = 0;
        Ok(())
    }

    element_any!();
}

/// A rule for people: what it looks for and what happens.
fn describe(r: &Rule) -> String {
    let mut s = String::new();
    for t in &r.terms {
        let not = if t.negated { "!" } else { "" };
        let _ = match &t.pattern.look {
            Look::Literal(b) => write!(s, "{not}string \"{}\"", b.escape_ascii()),
            Look::Regex(e) => write!(s, "{not}regex \"{e}\""),
        };
        if t.pattern.nocase {
            s.push_str(" nocase");
        }
        if t.pattern.offset != 0 {
            let _ = write!(s, " offset {}", t.pattern.offset);
        }
        if let Some(d) = t.pattern.depth {
            let _ = write!(s, " depth {d}");
        }
        s.push(' ');
    }
    if r.terms.is_empty() {
        s.push_str("all ");
    }
    match r.action {
        Action::Output(n) => {
            let _ = write!(s, "-> output {n}");
        }
        Action::Drop => s.push_str("-> drop"),
    }
    s
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    fn out(b: &mut Bench, data: &[u8]) -> Option<usize> {
        b.push(0, data).first().map(|o| o.0)
    }

    #[test]
    fn rules_in_order() {
        let config = r#"deny string "/etc/passwd" string "GET " offset 0 depth 4,
            1 regex "user-agent:\\s*(nikto|sqlmap)" nocase,
            2 hex "90 90 90 90" !string "gzip" nocase,
            1 string evil regex "a+b$",
            BASE packet"#;
        let mut b = Bench::new("PayloadMatcher", config, 1, 3).unwrap();
        assert_eq!(out(&mut b, b"GET /etc/passwd"), None);
        assert_eq!(out(&mut b, b"POST GET /etc/passwd"), Some(0));
        assert_eq!(out(&mut b, b"User-Agent:  SQLmap/1"), Some(1));
        assert_eq!(out(&mut b, b"\x90\x90\x90\x90"), Some(2));
        assert_eq!(out(&mut b, b"\x90\x90\x90\x90 GZIP"), Some(0));
        assert_eq!(out(&mut b, b"evil aab"), Some(1));
        assert_eq!(out(&mut b, b"aab"), Some(0));
        assert_eq!(b.read("counts").unwrap(), "0 1\n1 1\n2 1\n3 1\n");
        assert_eq!(
            (b.read("matches").unwrap(), b.read("unmatched").unwrap()),
            ("4".into(), "3".into())
        );
        assert_eq!(b.drops()["PayloadMatcher: denied"], 1);
        assert_eq!(
            b.host.decisions[3],
            (
                Some(2),
                "string \"\\x90\\x90\\x90\\x90\" !string \"gzip\" nocase -> output 2".into()
            )
        );
        b.write("reset_counts", "").unwrap();
        assert_eq!(b.read("matches").unwrap(), "0");
    }

    #[test]
    fn options_of_the_element() {
        let mut b = Bench::new(
            "PayloadMatcher",
            "1 string abc, ALL true, CASE false, PAYLOAD_ONLY false, NOMATCH drop",
            1,
            2,
        )
        .unwrap();
        assert_eq!(out(&mut b, b"xABCx"), Some(1));
        assert_eq!(out(&mut b, b"ab"), None);
        assert_eq!(b.drops()["PayloadMatcher: no rule matches"], 1);
        let mut b = Bench::new(
            "PayloadMatcher",
            "1 string ab string cd regex 'x[0-9]', ALL false, BASE packet",
            1,
            2,
        )
        .unwrap();
        for data in [&b"ab"[..], b"cd", b"x7"] {
            assert_eq!(out(&mut b, data), Some(1));
        }
        assert_eq!(out(&mut b, b"x"), Some(0));
        let mut b = Bench::new("PayloadMatcher", "1 all", 1, 2).unwrap();
        assert_eq!(out(&mut b, b""), Some(1));
    }

    #[test]
    fn looks_behind_the_headers() {
        let mut b = Bench::new("PayloadMatcher", "deny string E", 1, 1).unwrap();
        let mut data = vec![
            b'E', 0, 0, 29, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
        ];
        data.extend([0, 1, 0, 2, 0, 9, 0, 0, b'x', b'E']);
        let mut p = Box::new(Packet::from_slice(&data));
        p.set_network_header(0, 20);
        // the E behind the IP length is padding, the one before is the IP header
        assert_eq!(b.push_packet(0, p).len(), 1);
        data[28] = b'E';
        let mut p = Box::new(Packet::from_slice(&data));
        p.set_network_header(0, 20);
        assert!(b.push_packet(0, p).is_empty());
    }

    #[test]
    fn errors() {
        let e = Bench::new(
            "PayloadMatcher",
            "allow, permit string x, 5 string x, deny word x, deny string, deny regex \"(\", deny regex a depth 3, deny string abc depth 2, deny hex 9, NOMATCH 9",
            1,
            1,
        );
        assert_eq!(
            e.err().unwrap(),
            [
                "NOMATCH: output 9 out of range, the element has 1",
                "rule 0: expected string, hex, regex or all behind the action",
                "rule 1: unknown action 'permit', expected allow, deny, drop or an output number",
                "rule 2: output 5 out of range, the element has 1",
                "rule 3: expected string, hex or regex, found 'word'",
                "rule 4: string: pattern missing",
                "rule 5: bad regular expression: unclosed group",
                "rule 6: depth: for strings and hex only; write it into the expression",
                "rule 7: depth: 2 is less than the pattern's length",
                "rule 8: odd number of hex digits",
            ]
        );
        let e = Bench::new(
            "PayloadMatcher",
            "deny string x regex \"(a{900}){900}\", MAX_REGEX_MEMORY 100000",
            1,
            1,
        );
        assert_eq!(
            e.err().unwrap(),
            ["rule 0: the regular expressions need more than 100000 bytes of memory"]
        );
        assert!(Bench::new("PayloadMatcher", "BASE packet, PAYLOAD_ONLY true", 1, 1).is_err());
    }
}
