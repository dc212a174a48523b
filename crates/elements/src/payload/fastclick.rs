//! FastClick's payload classifiers: StringMatcher, StringClassifier, RegexMatcher, RegexClassifier,
//! GroupRegexClassifier.
//!
//! Source: the documentation of these elements in tbarbette/fastclick. Expressions have the syntax of the `regex`
//! crate, which is RE2's in all but exotic classes.
//!
//! Deliberate differences: quotes around StringMatcher's and StringClassifier's strings are removed, and
//! StringClassifier chooses the first *pattern* that occurs, as its documentation says (FastClick's code keeps the
//! quotes and chooses the first occurrence); the two matchers' `MAX_REGEX_MEMORY` bounds the automaton before
//! determinization.

use super::base::payload_only;
use super::scan::{DEFAULT_REGEX_MEMORY, Pattern, Scanner, check};
use onefold_element::args::{Args, split_words, unquote};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

const fn class(
    name: &'static str,
    ports: &'static str,
    processing: &'static str,
    usage: &'static str,
    summary: &'static str,
    new: fn() -> Box<dyn Element>,
) -> ElementClass {
    ElementClass {
        name,
        ports,
        processing,
        flow: "x/x",
        effect: Effect::CommutativeCount,
        usage,
        summary,
        new,
    }
}

/// `StringMatcher`.
pub const STRING_MATCHER: ElementClass = class(
    "StringMatcher",
    "1/1-2",
    "a/ah",
    "STRING, ...",
    "sends packets that contain one of the strings to output 1, or drops them",
    || Matcher::boxed(Kind::StringMatcher),
);

/// `StringClassifier`.
pub const STRING_CLASSIFIER: ElementClass = class(
    "StringClassifier",
    "1/-",
    "h/h",
    "STRING, ...; one per output",
    "sends packets to the output of the first string that they contain",
    || Matcher::boxed(Kind::StringClassifier),
);

/// `RegexMatcher`.
pub const REGEX_MATCHER: ElementClass = class(
    "RegexMatcher",
    "1/1-2",
    "h/h",
    "REGEX, ... [, keywords PAYLOAD_ONLY, MATCH_ALL, MAX_REGEX_MEMORY]",
    "sends packets that match one (or all) expressions to output 0, others to output 1",
    || Matcher::boxed(Kind::RegexMatcher),
);

/// `RegexClassifier`.
pub const REGEX_CLASSIFIER: ElementClass = class(
    "RegexClassifier",
    "1/-",
    "h/h",
    "REGEX, ... [, keywords PAYLOAD_ONLY, MAX_REGEX_MEMORY]; one per output",
    "sends packets to the output of the first expression that they match",
    || Matcher::boxed(Kind::RegexClassifier),
);

/// `GroupRegexClassifier`.
pub const GROUP_REGEX_CLASSIFIER: ElementClass = class(
    "GroupRegexClassifier",
    "1/-",
    "h/h",
    "\"REGEX\" GROUP, ... [, keyword MAX_REGEX_MEMORY]",
    "sends packets to the output of the first group whose expressions they all match",
    || Matcher::boxed(Kind::GroupRegexClassifier),
);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    StringMatcher,
    StringClassifier,
    RegexMatcher,
    RegexClassifier,
    GroupRegexClassifier,
}

impl Kind {
    fn regex(self) -> bool {
        !matches!(self, Kind::StringMatcher | Kind::StringClassifier)
    }
    /// One pattern per output?
    fn per_output(self) -> bool {
        matches!(self, Kind::StringClassifier | Kind::RegexClassifier)
    }
}

#[derive(Debug, Clone)]
struct Matcher {
    kind: Kind,
    payload_only: bool,
    match_all: bool,
    memory: usize,
    /// Arguments as written, for the `patternN` handlers.
    texts: Vec<String>,
    /// Each group's patterns.
    groups: Vec<Vec<usize>>,
    scanner: Scanner,
    matches: u64,
}

/// A pattern argument as text: with quotes removed if there are any.
fn bytes(text: &str) -> Vec<u8> {
    unquote(text)
}

impl Matcher {
    fn boxed(kind: Kind) -> Box<dyn Element> {
        Box::new(Matcher {
            kind,
            payload_only: false,
            match_all: false,
            memory: DEFAULT_REGEX_MEMORY,
            texts: Vec::new(),
            groups: Vec::new(),
            scanner: Scanner::default(),
            matches: 0,
        })
    }

    /// Reads one argument: the pattern and, in groups, its group.
    fn pattern(&self, text: &str, outputs: usize) -> Result<(Pattern, usize), String> {
        let (text, group) = match self.kind {
            Kind::GroupRegexClassifier => match split_words(text)[..] {
                [p, g] => {
                    let group = g.parse::<usize>().ok().filter(|g| *g < outputs);
                    let g = group.ok_or_else(|| {
                        format!("group '{g}' out of range, there are {outputs} outputs")
                    })?;
                    (p, g)
                }
                _ => return Err("expected '\"REGEX\" GROUP'".to_string()),
            },
            _ => (text, 0),
        };
        let raw = bytes(text);
        let p = if self.kind.regex() {
            match String::from_utf8(raw) {
                Ok(s) => Pattern::regex(s),
                Err(_) => return Err("not UTF-8; write bytes as \\xHH".to_string()),
            }
        } else {
            Pattern::literal(raw)
        };
        check(&p).map_err(|e| e.to_string())?;
        Ok((p, group))
    }

    fn output(&mut self, data: &[u8]) -> Option<Port> {
        match self.kind {
            Kind::StringMatcher => Some(usize::from(self.scanner.any(data))),
            Kind::StringClassifier | Kind::RegexClassifier => self.scanner.scan(data).first(),
            Kind::RegexMatcher => {
                let hit = if self.match_all {
                    let n = self.scanner.patterns().len();
                    self.scanner.scan(data).count() == n
                } else {
                    self.scanner.any(data)
                };
                Some(usize::from(!hit))
            }
            Kind::GroupRegexClassifier => {
                let found = self.scanner.scan(data);
                let hit = |g: &Vec<usize>| !g.is_empty() && g.iter().all(|i| found.has(*i));
                self.groups.iter().position(hit)
            }
        }
    }

    fn drop_reason(&self) -> &'static str {
        match self.kind {
            Kind::StringMatcher => "StringMatcher: match",
            Kind::StringClassifier => "StringClassifier: no match",
            Kind::RegexMatcher => "RegexMatcher: no match",
            Kind::RegexClassifier => "RegexClassifier: no match",
            Kind::GroupRegexClassifier => "GroupRegexClassifier: no match",
        }
    }
}

impl Element for Matcher {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let mut new = Matcher {
            texts: Vec::new(),
            groups: vec![Vec::new(); cx.noutputs],
            ..self.clone()
        };
        if self.kind.regex() {
            if self.kind != Kind::GroupRegexClassifier {
                new.payload_only = args.keyword("PAYLOAD_ONLY").unwrap_or(false);
            }
            if self.kind == Kind::RegexMatcher {
                new.match_all = args.keyword("MATCH_ALL").unwrap_or(false);
            }
            let memory: Option<u32> = args.keyword("MAX_REGEX_MEMORY");
            new.memory = memory.map_or(DEFAULT_REGEX_MEMORY, |m| m as usize);
        }
        let list = args.rest();
        if self.kind.per_output() && list.len() != cx.noutputs {
            args.error(format!(
                "need {} patterns, one per output port; there are {}",
                cx.noutputs,
                list.len()
            ));
        }
        let mut patterns: Vec<Pattern> = Vec::new();
        for (i, text) in list {
            match new.pattern(text, cx.noutputs) {
                Ok((p, group)) => {
                    if self.kind == Kind::StringMatcher && patterns.contains(&p) {
                        args.warning(format!("pattern {i} is a duplicate"));
                        continue;
                    }
                    if let Some(g) = new.groups.get_mut(group) {
                        g.push(patterns.len());
                    }
                    patterns.push(p);
                    new.texts.push(text.to_string());
                }
                Err(e) => args.error_at(i, &format!("pattern {i}"), e),
            }
        }
        if self.kind == Kind::GroupRegexClassifier && args.ok() {
            for (i, _) in new.groups.iter().enumerate().filter(|(_, g)| g.is_empty()) {
                args.error(format!("group {i} has no patterns"));
            }
        }
        if args.ok() {
            match Scanner::new(patterns, new.memory) {
                Ok(s) => new.scanner = s,
                Err(e) => args.error(e.to_string()),
            }
        }
        let good = args.ok();
        let messages = args.finish();
        if good
            && messages
                .as_ref()
                .err()
                .is_none_or(|m| m.iter().all(|e| e.warning))
        {
            *self = new;
        }
        messages
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("payload")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let data = if self.payload_only {
            payload_only(&p)
        } else {
            p.data()
        };
        let out = self.output(data);
        cx.decide(out.filter(|_| self.kind.per_output()), || match out {
            Some(o) => format!("output {o}"),
            None => "no match".to_string(),
        });
        if self.kind == Kind::StringMatcher && out == Some(1) {
            self.matches += 1;
        }
        match out {
            Some(port) => cx.emit_or_drop(port, p, self.drop_reason()),
            None => cx.drop(p, self.drop_reason()),
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const STRING: &[HandlerInfo] = &[
            HandlerInfo::r("matches"),
            HandlerInfo::r("matcher"),
            HandlerInfo::button("reset_count").counts(),
        ];
        const REGEX: &[HandlerInfo] = &[
            HandlerInfo::rw("payload_only"),
            HandlerInfo::rw("match_all"),
            HandlerInfo::r("matcher"),
        ];
        const CLASSIFIER: &[HandlerInfo] =
            &[HandlerInfo::rw("payload_only"), HandlerInfo::r("matcher")];
        match self.kind {
            Kind::StringMatcher => STRING,
            Kind::RegexMatcher => REGEX,
            Kind::RegexClassifier => CLASSIFIER,
            _ => crate::classify::pattern_handlers(self.texts.len())
                .get(1..)
                .unwrap_or(&[]),
        }
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match (name, self.kind) {
            ("matches", Kind::StringMatcher) => self.matches.to_string(),
            ("payload_only", Kind::RegexMatcher | Kind::RegexClassifier) => {
                self.payload_only.to_string()
            }
            ("match_all", Kind::RegexMatcher) => self.match_all.to_string(),
            ("matcher", Kind::StringMatcher | Kind::RegexMatcher | Kind::RegexClassifier) => {
                self.scanner.engine().to_string()
            }
            _ => {
                let n = name
                    .strip_prefix("pattern")
                    .and_then(|n| n.parse::<usize>().ok());
                match n.and_then(|n| self.texts.get(n)) {
                    Some(t) => t.clone(),
                    None => return Err(HandlerError::NoSuchHandler(name.to_string())),
                }
            }
        })
    }

    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match (name, self.kind) {
            ("reset_count", Kind::StringMatcher) => self.matches = 0,
            ("payload_only", Kind::RegexMatcher | Kind::RegexClassifier) => {
                self.payload_only = parse_bool(value)?;
            }
            ("match_all", Kind::RegexMatcher) => self.match_all = parse_bool(value)?,
            _ => {
                let n = name
                    .strip_prefix("pattern")
                    .and_then(|n| n.parse::<usize>().ok());
                let Some(n) = n.filter(|n| *n < self.texts.len()) else {
                    return Err(HandlerError::NoSuchHandler(name.to_string()));
                };
                let bad = HandlerError::BadValue;
                let (p, group) = self.pattern(value.trim(), cx.noutputs).map_err(bad)?;
                let mut patterns = self.scanner.patterns().to_vec();
                patterns[n] = p;
                self.scanner =
                    Scanner::new(patterns, self.memory).map_err(|e| bad(e.to_string()))?;
                self.groups.iter_mut().for_each(|g| g.retain(|i| *i != n));
                if let Some(g) = self.groups.get_mut(group) {
                    g.push(n);
                }
                self.texts[n] = value.trim().to_string();
            }
        }
        Ok(())
    }

    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    fn out(b: &mut Bench, data: &[u8]) -> Option<usize> {
        b.push(0, data).first().map(|o| o.0)
    }

    #[test]
    fn string_matcher() {
        let mut b = Bench::new("StringMatcher", "xnet, \"text 1\", test3, xnet", 1, 2).unwrap();
        assert_eq!(b.warnings, ["pattern 3 is a duplicate"]);
        assert_eq!(out(&mut b, b"nothing"), Some(0));
        assert_eq!(out(&mut b, b"a text 1"), Some(1));
        assert_eq!(out(&mut b, b"axnety"), Some(1));
        assert_eq!(b.read("matches").unwrap(), "2");
        b.write("reset_count", "").unwrap();
        assert_eq!(b.read("matches").unwrap(), "0");
        let mut b = Bench::new("StringMatcher", "x", 1, 1).unwrap();
        assert_eq!(out(&mut b, b"x"), None);
        assert_eq!(b.drops()["StringMatcher: match"], 1);
        let e = Bench::new("StringMatcher", "x, \"\"", 1, 1).err().unwrap();
        assert_eq!(e, ["pattern 1: empty pattern"]);
    }

    #[test]
    fn classifiers() {
        let mut b = Bench::new("StringClassifier", "xnet, hello, ynet", 1, 3).unwrap();
        assert_eq!(out(&mut b, b"ynet xnet"), Some(0));
        assert_eq!(out(&mut b, b"ynet"), Some(2));
        assert_eq!(out(&mut b, b"znet"), None);
        assert_eq!(b.read("pattern1").unwrap(), "hello");
        b.write("pattern1", "znet").unwrap();
        assert_eq!(out(&mut b, b"znet"), Some(1));

        let mut b = Bench::new("RegexClassifier", "\"xnet\", \"he.*o\", \".*\"", 1, 3).unwrap();
        assert_eq!(out(&mut b, b"hello xnet"), Some(0));
        assert_eq!(out(&mut b, b"hello"), Some(1));
        assert_eq!(out(&mut b, b"\xff\x00"), Some(2));
        let e = Bench::new("RegexClassifier", "a, b(", 1, 3).err().unwrap();
        assert_eq!(
            e,
            [
                "need 3 patterns, one per output port; there are 2",
                "pattern 1: bad regular expression: unclosed group"
            ]
        );
    }

    #[test]
    fn regex_matcher() {
        let mut b = Bench::new("RegexMatcher", "\"xnet\", \"he.*o\"", 1, 2).unwrap();
        assert_eq!(out(&mut b, b"hello"), Some(0));
        assert_eq!(out(&mut b, b"nothing"), Some(1));
        b.write("match_all", "true").unwrap();
        assert_eq!(out(&mut b, b"hello"), Some(1));
        assert_eq!(out(&mut b, b"hello xnet"), Some(0));
        let mut b = Bench::new("RegexMatcher", "E, PAYLOAD_ONLY true", 1, 2).unwrap();
        let mut p = Box::new(Packet::from_slice(b"E2345678901234567890body"));
        assert_eq!(b.push_packet(0, p.clone())[0].0, 0);
        p.set_network_header(0, 20);
        assert_eq!(b.push_packet(0, p)[0].0, 1);
        let e = Bench::new(
            "RegexMatcher",
            "(a{900}){900}, MAX_REGEX_MEMORY 100000",
            1,
            1,
        )
        .err()
        .unwrap();
        assert_eq!(
            e,
            ["the regular expressions need more than 100000 bytes of memory"]
        );
    }

    #[test]
    fn groups() {
        let config = "\"xnet\" 0, \"shopping\" 0, \"co\" 1, \"ynet\" 1, \".*\" 2";
        let mut b = Bench::new("GroupRegexClassifier", config, 1, 3).unwrap();
        assert_eq!(out(&mut b, b"shopping at xnet"), Some(0));
        assert_eq!(out(&mut b, b"shopping at ynet.co"), Some(1));
        assert_eq!(out(&mut b, b"shopping"), Some(2));
        b.write("pattern4", "never 2").unwrap();
        assert_eq!(out(&mut b, b"shopping"), None);
        let e = Bench::new("GroupRegexClassifier", "a 0, b 7, c", 1, 2)
            .err()
            .unwrap();
        assert_eq!(
            e,
            [
                "pattern 1: group '7' out of range, there are 2 outputs",
                "pattern 2: expected '\"REGEX\" GROUP'"
            ]
        );
        let e = Bench::new("GroupRegexClassifier", "a 0", 1, 2)
            .err()
            .unwrap();
        assert_eq!(e, ["group 1 has no patterns"]);
    }
}
