//! The matcher that every machine has.
//!
//! Literals are found by one Aho-Corasick automaton (two, if some ignore case), regular expressions by one automaton
//! of all of them that is determinized as packets come, in a cache of bounded size, and falls back to a simulation
//! where the cache does not pay. So one pass finds all literals, and one pass all expressions. The work per payload
//! is bounded: by its length times the longest chain of literals that are suffixes of one another, and by its length
//! times the size of the expressions' automaton, which is limited.

use super::{Found, Look, Pattern, PatternError, line, syntax_config};
use aho_corasick::{AhoCorasick, AhoCorasickBuilder, AhoCorasickKind, MatchKind};
use regex_automata::meta;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind as RegexMatchKind, PatternSet};

/// Cache for determinized states.
const CACHE: usize = 8 << 20;

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
pub struct Portable {
    literals: Vec<Literals>,
    regexes: Option<Box<Regexes>>,
}
fn literals(
    patterns: &[Pattern],
    which: impl Fn(usize) -> bool,
    nocase: bool,
) -> Result<Option<Literals>, PatternError> {
    let mut of = Vec::new();
    let mut bytes: Vec<&[u8]> = Vec::new();
    let mut anywhere = true;
    for (i, p) in patterns.iter().enumerate() {
        if let Look::Literal(b) = &p.look
            && p.nocase == nocase
            && which(i)
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

fn regexes(
    patterns: &[Pattern],
    which: impl Fn(usize) -> bool,
    memory: usize,
) -> Result<Option<Box<Regexes>>, PatternError> {
    let mut of = Vec::new();
    let mut parsed = Vec::new();
    for (i, p) in patterns.iter().enumerate() {
        if let Look::Regex(r) = &p.look
            && which(i)
        {
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

impl Portable {
    /// For those of the patterns that `which` names; `memory` limits the size of the expressions' automaton in bytes.
    pub fn new(
        patterns: &[Pattern],
        which: impl Fn(usize) -> bool,
        memory: usize,
    ) -> Result<Portable, PatternError> {
        let mut list = Vec::new();
        for nocase in [false, true] {
            list.extend(literals(patterns, &which, nocase)?);
        }
        Ok(Portable {
            literals: list,
            regexes: regexes(patterns, which, memory)?,
        })
    }

    /// Looks for all, of the same patterns.
    pub fn scan(&mut self, patterns: &[Pattern], data: &[u8], to: &mut Found) {
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
                let fits = |p: &Pattern| p.accepts(m.start(), m.end());
                if !to.has(*i as usize) && patterns.get(*i as usize).is_some_and(fits) {
                    to.insert(*i);
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
                    to.insert(*i);
                }
            }
        }
    }

    /// Is any there? Stops at the first; `None`: a scan has to say, because literals are bound to places.
    pub fn any(&mut self, data: &[u8]) -> Option<bool> {
        if self.literals.iter().any(|l| !l.anywhere) {
            return None;
        }
        let any = self.literals.iter().any(|l| l.automaton.is_match(data))
            || self.regexes.as_mut().is_some_and(|r| {
                let input = Input::new(data).earliest(true);
                r.automaton.search_half_with(&mut r.cache, &input).is_some()
            });
        Some(any)
    }
}
