//! Looking for many patterns at once.
//!
//! Literals are found by one Aho-Corasick automaton (two, if some ignore case), regular expressions by one automaton of
//! all of them that is determinized as packets come, in a cache of bounded size, and falls back to a simulation where
//! the cache does not pay. So one pass finds all literals, and one pass all expressions. The work per payload is bounded:
//! by its length times the longest chain of literals that are suffixes of one another, and by its length times the size of
//! the expressions' automaton, which is limited.

use super::error::{MAX_LITERAL, MAX_PATTERNS, PatternError};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use regex_automata::meta;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind as RegexMatchKind, PatternSet};

/// Default limit on the size of the expressions' automaton, in bytes.
pub const DEFAULT_REGEX_MEMORY: usize = 64 << 20;
/// Cache for determinized states.
const CACHE: usize = 8 << 20;
/// Nesting of expressions.
const NEST: u32 = 100;

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// These bytes.
    Literal(Vec<u8>),
    /// A match of this regular expression (syntax of the `regex` crate; bytes, ASCII classes; `(?s)`, `(?i)` ... as usual).
    Regex(String),
}

/// One pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// What to look for.
    pub look: Look,
    /// ASCII letters match in either case.
    pub nocase: bool,
    /// A literal must start at this byte or later.
    pub offset: u32,
    /// A literal must end within so many bytes from `offset` on.
    pub depth: Option<u32>,
}

impl Pattern {
    /// A literal anywhere.
    pub fn literal(bytes: impl Into<Vec<u8>>) -> Pattern {
        Pattern {
            look: Look::Literal(bytes.into()),
            nocase: false,
            offset: 0,
            depth: None,
        }
    }
    /// A regular expression.
    pub fn regex(text: impl Into<String>) -> Pattern {
        Pattern {
            look: Look::Regex(text.into()),
            ..Pattern::literal(Vec::new())
        }
    }
    fn accepts(&self, start: usize, end: usize) -> bool {
        let offset = self.offset as usize;
        start >= offset
            && self
                .depth
                .is_none_or(|d| end <= offset.saturating_add(d as usize))
    }
}

/// A set of pattern numbers.
#[derive(Debug, Clone, Default)]
pub struct Found {
    words: Vec<u64>,
    count: usize,
}

impl Found {
    fn with_len(n: usize) -> Found {
        Found {
            words: vec![0; n.div_ceil(64)],
            count: 0,
        }
    }
    fn clear(&mut self) {
        if self.count > 0 {
            self.words.fill(0);
            self.count = 0;
        }
    }
    fn insert(&mut self, i: usize) {
        if let Some(w) = self.words.get_mut(i / 64) {
            let bit = 1 << (i % 64);
            self.count += usize::from(*w & bit == 0);
            *w |= bit;
        }
    }
    /// Was pattern `i` found?
    pub fn has(&self, i: usize) -> bool {
        self.words
            .get(i / 64)
            .is_some_and(|w| w >> (i % 64) & 1 == 1)
    }
    /// How many different patterns were found.
    pub fn count(&self) -> usize {
        self.count
    }
    /// The lowest number found.
    pub fn first(&self) -> Option<usize> {
        let w = self.words.iter().position(|w| *w != 0)?;
        Some(w * 64 + self.words[w].trailing_zeros() as usize)
    }
}

/// Literals of one kind and their pattern numbers.
#[derive(Debug, Clone)]
struct Literals {
    automaton: AhoCorasick,
    of: Vec<u32>,
    /// None has an offset or depth, so that any occurrence is one.
    anywhere: bool,
}

#[derive(Debug, Clone)]
struct Regexes {
    automaton: meta::Regex,
    cache: meta::Cache,
    found: PatternSet,
    of: Vec<u32>,
}

/// See the module's text.
#[derive(Debug, Clone, Default)]
pub struct Scanner {
    patterns: Vec<Pattern>,
    literals: Vec<Literals>,
    regexes: Option<Box<Regexes>>,
    found: Found,
}

fn syntax_config(nocase: bool) -> syntax::Config {
    syntax::Config::new()
        .unicode(false)
        .utf8(false)
        .nest_limit(NEST)
        .case_insensitive(nocase)
}

/// First line of a message that may have several.
fn line(e: impl std::fmt::Display) -> String {
    let s = e.to_string();
    let last = s.lines().rev().find(|l| !l.trim().is_empty());
    last.unwrap_or("")
        .trim()
        .trim_start_matches("error: ")
        .to_string()
}

/// Checks one pattern by itself, so that what is wrong can be said of it.
pub fn check(p: &Pattern) -> Result<(), PatternError> {
    match &p.look {
        Look::Literal(b) if b.is_empty() => Err(PatternError::Empty),
        Look::Literal(b) if b.len() > MAX_LITERAL => Err(PatternError::TooLong(b.len())),
        Look::Literal(_) => Ok(()),
        Look::Regex(r) if r.is_empty() => Err(PatternError::Empty),
        Look::Regex(r) => syntax::parse_with(r, &syntax_config(p.nocase))
            .map(|_| ())
            .map_err(|e| PatternError::Syntax(line(e))),
    }
}

fn literals(patterns: &[Pattern], nocase: bool) -> Result<Option<Literals>, PatternError> {
    let mut of = Vec::new();
    let mut bytes: Vec<&[u8]> = Vec::new();
    let mut anywhere = true;
    for (i, p) in patterns.iter().enumerate() {
        if let Look::Literal(b) = &p.look
            && p.nocase == nocase
        {
            of.push(i as u32);
            bytes.push(b);
            anywhere &= p.offset == 0 && p.depth.is_none();
        }
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    // a full table is fastest, but has 256 entries per state at worst
    let total: usize = bytes.iter().map(|b| b.len()).sum();
    let kind = if total <= 20_000 {
        AhoCorasickKind::DFA
    } else {
        AhoCorasickKind::ContiguousNFA
    };
    let automaton = AhoCorasickBuilder::new()
        .match_kind(MatchKind::Standard)
        .ascii_case_insensitive(nocase)
        .kind(Some(kind))
        .build(bytes)
        .map_err(|e| PatternError::TooBig(line(e)))?;
    Ok(Some(Literals {
        automaton,
        of,
        anywhere,
    }))
}

fn regexes(patterns: &[Pattern], memory: usize) -> Result<Option<Box<Regexes>>, PatternError> {
    let mut of = Vec::new();
    let mut parsed = Vec::new();
    for (i, p) in patterns.iter().enumerate() {
        if let Look::Regex(r) = &p.look {
            of.push(i as u32);
            let hir = syntax::parse_with(r, &syntax_config(p.nocase));
            parsed.push(hir.map_err(|e| PatternError::Syntax(line(e)))?);
        }
    }
    if parsed.is_empty() {
        return Ok(None);
    }
    let config = meta::Config::new()
        .match_kind(RegexMatchKind::All)
        .utf8_empty(false)
        .nfa_size_limit(Some(memory))
        .hybrid_cache_capacity(CACHE);
    let automaton = meta::Builder::new()
        .configure(config)
        .build_many_from_hir(&parsed)
        .map_err(|e| {
            PatternError::TooBig(match e.size_limit() {
                Some(n) => format!("the regular expressions need more than {n} bytes of memory"),
                None => line(e),
            })
        })?;
    Ok(Some(Box::new(Regexes {
        cache: automaton.create_cache(),
        found: PatternSet::new(parsed.len()),
        automaton,
        of,
    })))
}

impl Scanner {
    /// Prepares patterns; `memory` limits the size of the expressions' automaton in bytes.
    pub fn new(patterns: Vec<Pattern>, memory: usize) -> Result<Scanner, PatternError> {
        if patterns.len() > MAX_PATTERNS {
            return Err(PatternError::TooMany);
        }
        patterns.iter().try_for_each(check)?;
        let mut list = Vec::new();
        for nocase in [false, true] {
            list.extend(literals(&patterns, nocase)?);
        }
        Ok(Scanner {
            found: Found::with_len(patterns.len()),
            literals: list,
            regexes: regexes(&patterns, memory)?,
            patterns,
        })
    }

    /// The patterns.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Looks for all patterns.
    pub fn scan(&mut self, data: &[u8]) -> &Found {
        self.found.clear();
        for l in &self.literals {
            let all = l.of.len();
            let mut seen = 0;
            // Cannot fail: the automata are made for overlapping searches
            let Ok(matches) = l.automaton.try_find_overlapping_iter(data) else {
                continue;
            };
            for m in matches {
                let Some(i) = l.of.get(m.pattern().as_usize()) else {
                    continue;
                };
                let i = *i as usize;
                let fits = |p: &Pattern| p.accepts(m.start(), m.end());
                if !self.found.has(i) && self.patterns.get(i).is_some_and(fits) {
                    self.found.insert(i);
                    seen += 1;
                    if seen == all {
                        break;
                    }
                }
            }
        }
        if let Some(r) = &mut self.regexes {
            r.found.clear();
            let input = Input::new(data);
            let found = &mut r.found;
            r.automaton
                .which_overlapping_matches_with(&mut r.cache, &input, found);
            for p in r.found.iter() {
                if let Some(i) = r.of.get(p.as_usize()) {
                    self.found.insert(*i as usize);
                }
            }
        }
        &self.found
    }

    /// Is any pattern there? Stops at the first.
    pub fn any(&mut self, data: &[u8]) -> bool {
        if self.literals.iter().any(|l| !l.anywhere) {
            return self.scan(data).count() > 0;
        }
        self.literals.iter().any(|l| l.automaton.is_match(data))
            || self.regexes.as_mut().is_some_and(|r| {
                let input = Input::new(data).earliest(true);
                r.automaton.search_half_with(&mut r.cache, &input).is_some()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(patterns: Vec<Pattern>, data: &[u8]) -> Vec<usize> {
        let n = patterns.len();
        let mut s = Scanner::new(patterns, DEFAULT_REGEX_MEMORY).unwrap();
        let any = s.any(data);
        let f = s.scan(data);
        let v: Vec<usize> = (0..n).filter(|i| f.has(*i)).collect();
        assert_eq!(
            (any, f.count(), f.first()),
            (!v.is_empty(), v.len(), v.first().copied())
        );
        v
    }

    #[test]
    fn literals_and_regexes_at_once() {
        let list = || {
            vec![
                Pattern::literal(&b"he"[..]),
                Pattern::literal(&b"she"[..]),
                Pattern {
                    nocase: true,
                    ..Pattern::literal(&b"HERS"[..])
                },
                Pattern::regex("^GET [^ ]+\\.php"),
                Pattern {
                    nocase: true,
                    ..Pattern::regex("s.e")
                },
                Pattern::regex("\\xff\\x00"),
            ]
        };
        assert_eq!(found(list(), b"ushers"), [0, 1, 2, 4]);
        assert_eq!(found(list(), b"GET /a.php SHE"), [3, 4]);
        assert_eq!(found(list(), b" GET /a.php\xff\x00"), [5]);
        assert_eq!(found(list(), b""), [0usize; 0]);
        assert_eq!(found(Vec::new(), b"x"), [0usize; 0]);
    }

    #[test]
    fn offset_and_depth() {
        let p = |offset, depth| Pattern {
            offset,
            depth,
            ..Pattern::literal(&b"ab"[..])
        };
        let list = vec![
            p(0, Some(2)),
            p(1, Some(3)),
            p(2, None),
            p(5, None),
            p(0, Some(1)),
        ];
        assert_eq!(found(list.clone(), b"ab"), [0]);
        // the second occurrence fits where the first does not
        assert_eq!(found(list.clone(), b"abab"), [0, 1, 2]);
        assert_eq!(found(list, b"-----ab"), [2, 3]);
    }

    #[test]
    fn errors_and_limits() {
        let e = |p: Pattern| check(&p).unwrap_err().to_string();
        assert_eq!(e(Pattern::literal(Vec::new())), "empty pattern");
        assert_eq!(
            e(Pattern::literal(vec![0; 5000])),
            "pattern of 5000 bytes, at most 4096 are allowed"
        );
        assert_eq!(
            e(Pattern::regex("a(b")),
            "bad regular expression: unclosed group"
        );
        assert!(
            e(Pattern::regex("(?=a)b")).contains("look-around"),
            "{}",
            e(Pattern::regex("(?=a)b"))
        );
        assert!(e(Pattern::regex("(".repeat(200) + &")".repeat(200))).contains("nest"));
        let big = Scanner::new(vec![Pattern::regex("(a{1,1000}){1,100}")], 1 << 20).unwrap_err();
        assert_eq!(
            big.to_string(),
            "the regular expressions need more than 1048576 bytes of memory"
        );
    }

    proptest! {
        #[test]
        fn agrees_with_a_naive_search(
            patterns in prop::collection::vec((prop::collection::vec(97u8..100, 1..4), any::<bool>(), 0u32..4, prop::option::of(0u32..8)), 1..8),
            data in prop::collection::vec(prop_oneof![97u8..100, 65u8..68], 0..24),
        ) {
            let list: Vec<Pattern> = patterns.iter().map(|(b, nocase, offset, depth)| Pattern {
                nocase: *nocase, offset: *offset, depth: *depth, ..Pattern::literal(b.clone())
            }).collect();
            let want: Vec<usize> = (0..list.len()).filter(|i| {
                let (b, nocase, offset, depth) = &patterns[*i];
                let end = depth.map_or(data.len(), |d| data.len().min((offset + d) as usize));
                let window = data.get(*offset as usize..end).unwrap_or(&[]);
                window.windows(b.len()).any(|w| if *nocase { w.eq_ignore_ascii_case(b) } else { w == b })
            }).collect();
            prop_assert_eq!(found(list, &data), want);
        }
    }
}
