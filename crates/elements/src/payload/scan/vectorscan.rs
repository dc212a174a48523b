//! The matcher of `libhs.so.5`: one database for all patterns that have an equal expression there.
//!
//! Strings of one byte are looked for by `memchr`: a few of them among a thousand strings take the library's filter
//! half of its speed (docs/decisions/0045).

use super::expression::expression;
use super::portable::Portable;
use super::{Found, Look, Pattern, PatternError};
use onefold_hyperscan::{Database, Expression, Library, Scanner};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// After so many expressions that the library does not take, it is not used.
const MAX_REFUSED: usize = 64;

/// Most strings of one byte that are looked for one by one; more are the library's.
const MAX_BYTES: usize = 16;

/// A string of one byte.
#[derive(Debug, Clone)]
struct Byte {
    id: u32,
    byte: u8,
    /// The same letter in the other case.
    other: u8,
    /// First place, and the one behind the last.
    places: (usize, usize),
}

impl Byte {
    fn new(id: u32, p: &Pattern) -> Option<Byte> {
        let Look::Literal(b) = &p.look else {
            return None;
        };
        let &[byte] = b.as_slice() else { return None };
        let other = match p.nocase && byte.is_ascii_alphabetic() {
            true => byte ^ 0x20,
            false => byte,
        };
        let from = p.offset as usize;
        let to = p
            .depth
            .map_or(usize::MAX, |d| from.saturating_add(d as usize));
        Some(Byte {
            id,
            byte,
            other,
            places: (from, to),
        })
    }

    #[inline]
    fn is_in(&self, data: &[u8]) -> bool {
        let (from, to) = self.places;
        let there = data.get(from..to.min(data.len())).unwrap_or(&[]);
        memchr::memchr2(self.byte, self.other, there).is_some()
    }
}

/// A database, and what it was made from.
#[derive(Debug)]
struct Made {
    expressions: Vec<Expression>,
    database: Arc<Database>,
    /// Numbers of patterns that the library refused.
    refused: Vec<u32>,
}

/// All that are in use: a chain's graph is made several times, and an element for each direction.
static MADE: Mutex<Vec<Weak<Made>>> = Mutex::new(Vec::new());

fn in_use() -> std::sync::MutexGuard<'static, Vec<Weak<Made>>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The database of these expressions, less those that the library refuses. `None`: it is of no use.
fn made(library: &'static Library, expressions: Vec<Expression>) -> Option<Arc<Made>> {
    let known = in_use()
        .iter()
        .filter_map(Weak::upgrade)
        .find(|m| m.expressions == expressions);
    if known.is_some() {
        return known;
    }
    let mut left = expressions.clone();
    let mut refused = Vec::new();
    // Bound: each turn ends it or takes an expression out
    let database = loop {
        if left.is_empty() || refused.len() > MAX_REFUSED {
            return None;
        }
        match library.compile(&left) {
            Ok(d) => break Arc::new(d),
            Err(e) => match e.expression.filter(|i| *i < left.len()) {
                Some(i) => refused.push(left.remove(i).id),
                None => return None,
            },
        }
    };
    let made = Arc::new(Made {
        expressions,
        database,
        refused,
    });
    let mut all = in_use();
    all.retain(|m| m.strong_count() > 0);
    all.push(Arc::downgrade(&made));
    Some(made)
}

/// Patterns, and room to look for them.
#[derive(Debug, Clone)]
pub struct Vectorscan {
    scanner: Scanner,
    /// Keeps it among those in use.
    _made: Arc<Made>,
    bytes: Vec<Byte>,
    /// Looks for the other patterns.
    rest: Option<Portable>,
    left: usize,
    library: &'static Library,
}

impl Vectorscan {
    /// `None`: not for these patterns.
    pub fn new(
        library: &'static Library,
        patterns: &[Pattern],
        memory: usize,
    ) -> Result<Option<Vectorscan>, PatternError> {
        let mut taken = vec![false; patterns.len()];
        let mut bytes: Vec<Byte> = (patterns.iter().enumerate())
            .filter_map(|(i, p)| Byte::new(i as u32, p))
            .collect();
        if bytes.len() > MAX_BYTES {
            bytes.clear();
        }
        for b in &bytes {
            if let Some(t) = taken.get_mut(b.id as usize) {
                *t = true;
            }
        }
        let expressions: Vec<Expression> = (patterns.iter().enumerate())
            .filter(|(i, _)| taken.get(*i) == Some(&false))
            // expressions are left to the portable matcher where the library is known to miss matches of some
            // (Vectorscan's releases up to 5.4.12 at least), beyond what is tried when it is opened
            .filter(|(_, p)| library.is_hyperscan() || matches!(p.look, Look::Literal(_)))
            .filter_map(|(i, p)| expression(i as u32, p))
            .collect();
        let Some(made) = made(library, expressions) else {
            return Ok(None);
        };
        let Ok(scanner) = Scanner::new(made.database.clone()) else {
            return Ok(None);
        };
        for e in &made.expressions {
            if let Some(t) = taken.get_mut(e.id as usize) {
                *t = !made.refused.contains(&e.id);
            }
        }
        let left = taken.iter().filter(|t| !**t).count();
        let rest = match left {
            0 => None,
            _ => Some(Portable::new(
                patterns,
                |i| taken.get(i) == Some(&false),
                memory,
            )?),
        };
        Ok(Some(Vectorscan {
            scanner,
            _made: made,
            bytes,
            rest,
            left,
            library,
        }))
    }

    /// The library's version.
    pub fn version(&self) -> &'static str {
        self.library.version()
    }

    /// What it is called.
    pub fn name(&self) -> &'static str {
        match self.library.is_hyperscan() {
            true => "hyperscan",
            false => "vectorscan",
        }
    }

    /// Where the database is: one for all with the same patterns.
    #[cfg(test)]
    pub fn database_address(&self) -> usize {
        std::ptr::from_ref(self.scanner.database()).addr()
    }

    /// Patterns that are looked for by the portable matcher.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Looks for all patterns. `false`: the library failed, and another one has to look.
    pub fn scan(&mut self, patterns: &[Pattern], data: &[u8], to: &mut Found) -> bool {
        // no expression matches nothing
        if !data.is_empty() {
            let done = self.scanner.scan(data, |i| {
                to.insert(i);
                true
            });
            if done.is_err() {
                return false;
            }
        }
        for b in &self.bytes {
            if b.is_in(data) {
                to.insert(b.id);
            }
        }
        if let Some(rest) = &mut self.rest {
            rest.scan(patterns, data, to);
        }
        true
    }

    /// Is any pattern there? Stops at the first. `None`: it takes a scan.
    pub fn any(&mut self, data: &[u8]) -> Option<bool> {
        let mut any = false;
        if !data.is_empty() {
            let stop = |_| {
                any = true;
                false
            };
            self.scanner.scan(data, stop).ok()?;
        }
        any = any || self.bytes.iter().any(|b| b.is_in(data));
        match &mut self.rest {
            Some(rest) if !any => rest.any(data),
            _ => Some(any),
        }
    }
}
