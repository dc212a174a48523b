//! Literals that a regular expression cannot match without.

use super::rule::syntax;
use regex_automata::util::syntax as parser;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Shortest that is worth looking for: one byte is in most payloads.
const SHORTEST: usize = 2;
/// Longest that is looked for.
const LONGEST: usize = 256;

/// The longest that is found: bytes, in lower case, that every match contains next to one another, ASCII letters in
/// either case.
pub fn of_regex(text: &str) -> Option<Vec<u8>> {
    let hir = parser::parse_with(text, &syntax()).ok()?;
    let mut s = Search::default();
    s.walk(&hir);
    s.end();
    Some(s.best).filter(|b| b.len() >= SHORTEST)
}

#[derive(Default)]
struct Search {
    /// What every match has directly before the place that is looked at.
    run: Vec<u8>,
    best: Vec<u8>,
}

impl Search {
    /// Something else may follow.
    fn end(&mut self) {
        if self.run.len() > self.best.len() {
            self.best.clone_from(&self.run);
        }
        self.run.clear();
    }

    fn byte(&mut self, b: u8) {
        if self.run.len() == LONGEST {
            self.end();
        }
        self.run.push(b.to_ascii_lowercase());
    }

    /// Depth: the parser's limit of nesting.
    fn walk(&mut self, h: &Hir) {
        match h.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(l) => l.0.iter().for_each(|b| self.byte(*b)),
            HirKind::Class(c) => match one_letter(c) {
                Some(b) => self.byte(b),
                None => self.end(),
            },
            HirKind::Capture(c) => self.walk(&c.sub),
            HirKind::Concat(all) => all.iter().for_each(|h| self.walk(h)),
            // once at least: what stands before it is followed by the first, what stands behind it by nothing that is
            // known
            HirKind::Repetition(r) if r.min > 0 => {
                self.walk(&r.sub);
                self.end();
            }
            HirKind::Repetition(_) | HirKind::Alternation(_) => self.end(),
        }
    }
}

/// The letter, if a class is one letter in both cases, or one byte.
fn one_letter(c: &Class) -> Option<u8> {
    let bytes = match c {
        Class::Bytes(b) => b.clone(),
        Class::Unicode(u) => u.to_byte_class()?,
    };
    let mut all = (bytes.ranges().iter())
        .flat_map(|r| r.start()..=r.end())
        .map(|b| b.to_ascii_lowercase());
    let first = all.next()?;
    // ends at the first other byte
    all.all(|b| b == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::filter::rule::compile;
    use proptest::prelude::*;

    #[test]
    fn what_every_match_contains() {
        let of = |s: &str| of_regex(s).map(|b| String::from_utf8_lossy(&b).into_owned());
        assert_eq!(
            of("(?i)union[ +]+(all[ +]+)?select").as_deref(),
            Some("select")
        );
        assert_eq!(of("^GET (/a)+\\.php\\b").as_deref(), Some("get /a"));
        assert_eq!(of("(abc|abd)ef").as_deref(), Some("ef"));
        assert_eq!(of("\\x00\\xFFz").map(|s| s.len() > 2), Some(true));
        for none in ["a", "[a-z]{9}", "(abc)?", "abc|abd", "a.b.c", "("] {
            assert_eq!(of(none), None, "{none}");
        }
    }

    proptest! {
        #![proptest_config(crate::testing::cases(512))]

        /// No match is without its needle.
        #[test]
        fn matches_contain_it(
            text in "(\\(\\?i\\))?([abAB]|a\\+|\\[ab\\]|b\\?|\\(ab\\)\\{2\\}|\\(aB\\|b\\)|\\.){1,7}",
            data in "[abAB.]{0,16}",
        ) {
            if let (Some(needle), true) = (of_regex(&text), compile(&text).unwrap().is_match(&data)) {
                let low = data.to_ascii_lowercase();
                prop_assert!(low.as_bytes().windows(needle.len()).any(|w| w == needle), "{} in {}", text, data);
            }
        }
    }
}
