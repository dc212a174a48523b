//! Looking for many patterns at once.
//!
//! A [`Scanner`] says which of its patterns are in a payload. Who looks for them is another matter, and makes no
//! difference to what is found: Hyperscan or Vectorscan (`libhs.so.5`) where it can be loaded, all patterns in one
//! pass; else, and for the few patterns that have no equal there, the portable matcher: Aho-Corasick and
//! regex-automata. The environment variable [`VARIABLE`] asks for one of them.
//!
//! Both are made in any case, so that a configuration that is accepted on one machine is accepted on all.
//!
//! What is compiled is shared by the clones of a scanner, and by all scanners of a process with the same patterns;
//! room to work in is each scanner's own. A scan neither allocates nor locks.

mod choice;
mod expression;
mod portable;
pub mod record;
mod short;
#[cfg(test)]
mod tests;
mod vectorscan;

pub use choice::{Choice, Engine, VARIABLE, Why, check_environment};

use super::error::{MAX_LITERAL, MAX_PATTERNS, PatternError};
use portable::Portable;
use regex_automata::util::syntax;
use short::Short;
use std::sync::Arc;
use vectorscan::Vectorscan;

/// Default limit on the size of the expressions' automaton, in bytes.
pub const DEFAULT_REGEX_MEMORY: usize = 64 << 20;
/// Nesting of expressions.
const NEST: u32 = 100;

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    /// These bytes.
    Literal(Vec<u8>),
    /// A match of this regular expression (syntax of the `regex` crate; bytes, ASCII classes; `(?s)`, `(?i)` ... as
    /// usual).
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
    /// The numbers, in the order in which they were found; it has room for all.
    list: Vec<u32>,
}

impl Found {
    fn with_len(n: usize) -> Found {
        Found {
            words: vec![0; n.div_ceil(64)],
            list: Vec::with_capacity(n),
        }
    }
    /// Takes as long as there are patterns to forget.
    fn clear(&mut self) {
        for i in self.list.drain(..) {
            if let Some(w) = self.words.get_mut(i as usize / 64) {
                *w = 0;
            }
        }
    }
    #[inline]
    fn insert(&mut self, i: u32) {
        if let Some(w) = self.words.get_mut(i as usize / 64) {
            let bit = 1 << (i % 64);
            if *w & bit == 0 {
                *w |= bit;
                self.list.push(i);
            }
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
        self.list.len()
    }
    /// The lowest number found.
    pub fn first(&self) -> Option<usize> {
        self.list.iter().min().map(|i| *i as usize)
    }
    /// The numbers found, each once, in no order.
    pub fn numbers(&self) -> &[u32] {
        &self.list
    }
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

/// See the module's text.
#[derive(Debug, Default)]
pub struct Scanner {
    patterns: Arc<[Pattern]>,
    portable: Portable,
    vectorscan: Option<Box<Vectorscan>>,
    short: Option<Arc<Short>>,
    why: Why,
    found: Found,
}

impl Scanner {
    /// Prepares patterns for the matcher that the environment asks for; `memory` limits the size of the expressions'
    /// automaton in bytes.
    pub fn new(patterns: Vec<Pattern>, memory: usize) -> Result<Scanner, PatternError> {
        Scanner::with(patterns, memory, Choice::of_environment()?)
    }

    /// Prepares patterns for this matcher.
    pub fn with(
        patterns: Vec<Pattern>,
        memory: usize,
        choice: Choice,
    ) -> Result<Scanner, PatternError> {
        if patterns.len() > MAX_PATTERNS {
            return Err(PatternError::TooMany);
        }
        patterns.iter().try_for_each(check)?;
        Scanner::build(patterns, memory, choice)
    }

    /// Prepares patterns that others have checked.
    pub(super) fn build(
        patterns: Vec<Pattern>,
        memory: usize,
        choice: Choice,
    ) -> Result<Scanner, PatternError> {
        let portable = Portable::new(&patterns, |_| true, memory)?;
        let library = match choice {
            // not even opened
            Choice::Portable => Err(Why::Asked),
            Choice::Auto => onefold_hyperscan::library().map_err(|_| Why::Missing),
            Choice::Vectorscan => match onefold_hyperscan::library() {
                Err(e) => return Err(PatternError::NoVectorscan(e.to_string())),
                Ok(library) => Ok(library),
            },
        };
        let (vectorscan, why) = match library {
            Err(why) => (None, why),
            Ok(library) => match Vectorscan::new(library, &patterns, memory)? {
                Some(v) => (Some(Box::new(v)), Why::No),
                None => (None, Why::Patterns),
            },
        };
        Ok(Scanner {
            found: Found::with_len(patterns.len()),
            short: Short::new(&patterns).map(Arc::new),
            patterns: patterns.into(),
            portable,
            vectorscan,
            why,
        })
    }

    /// The patterns.
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    /// Who looks for them.
    pub fn engine(&self) -> Engine {
        let (name, version, left) = match &self.vectorscan {
            Some(v) => (v.name(), Some(v.version()), v.left()),
            None => ("portable", None, 0),
        };
        Engine {
            name,
            version,
            patterns: self.patterns.len(),
            left,
            why: self.why,
        }
    }

    /// Looks for all patterns.
    pub fn scan(&mut self, data: &[u8]) -> &Found {
        if record::on() {
            record::note(self, data);
        }
        self.look(data)
    }

    fn look(&mut self, data: &[u8]) -> &Found {
        self.found.clear();
        if self.is_without(data) {
            return &self.found;
        }
        let done = match &mut self.vectorscan {
            Some(v) => v.scan(&self.patterns, data, &mut self.found),
            None => false,
        };
        if !done {
            self.portable.scan(&self.patterns, data, &mut self.found);
        }
        &self.found
    }

    /// Is it short, and without doubt without any of the patterns?
    #[inline]
    fn is_without(&self, data: &[u8]) -> bool {
        let none = |s: &Arc<Short>| !s.may_be_in(data);
        data.len() <= short::LONGEST && self.short.as_ref().is_some_and(none)
    }

    /// Is any pattern there? Stops at the first.
    pub fn any(&mut self, data: &[u8]) -> bool {
        if record::on() {
            record::note(self, data);
        }
        if self.is_without(data) {
            return false;
        }
        let any = match &mut self.vectorscan {
            Some(v) => v.any(data),
            None => self.portable.any(data),
        };
        match any {
            Some(any) => any,
            None => self.look(data).count() > 0,
        }
    }
}

impl Clone for Scanner {
    fn clone(&self) -> Scanner {
        Scanner {
            patterns: self.patterns.clone(),
            portable: self.portable.clone(),
            vectorscan: self.vectorscan.clone(),
            short: self.short.clone(),
            why: self.why,
            // room for all: a clone of a vector has room for what it holds
            found: Found::with_len(self.patterns.len()),
        }
    }
}
