//! Routes: as they are written, as rules, as changes.

use super::PrefixTrie;
use crate::left_right::Apply;
use crate::rule::prefix_mask;
use crate::table::Test;
use crate::{Kind, Layout, Match, Refusal, RuleError, Rules, Table};
use std::collections::HashSet;

/// A route that cannot be, or has no room.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A field of no width, or wider than 128 bits.
    #[error("prefixes of {bits} bits, expected 1 to 128")]
    Width {
        /// The width.
        bits: u8,
    },
    /// A prefix longer than the field.
    #[error("prefix length {len}, the field has {bits} bits")]
    Length {
        /// The length.
        len: u8,
        /// The field's width.
        bits: u8,
    },
    /// Bits beyond the field.
    #[error("{value:#x} does not fit in {bits} bits")]
    Value {
        /// The number.
        value: u128,
        /// The field's width.
        bits: u8,
    },
    /// The value that means "no route".
    #[error("the value {:#x} is reserved", crate::NO_MATCH)]
    Reserved,
    /// No room.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A change of a [`PrefixTrie`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteChange {
    /// A new route, or another value for one.
    Set {
        /// The prefix's bits, right-aligned in the field: an address.
        value: u128,
        /// How many of them count.
        len: u8,
        /// What a look-up answers.
        next: u32,
    },
    /// A route is no more.
    Remove {
        /// The prefix's bits.
        value: u128,
        /// How many of them count.
        len: u8,
    },
}

impl Apply<RouteChange> for PrefixTrie {
    type Error = RouteError;

    fn apply(&mut self, change: &RouteChange) -> Result<(), RouteError> {
        match *change {
            RouteChange::Set { value, len, next } => self.insert(value, len, next).map(|_| ()),
            RouteChange::Remove { value, len } => self.remove(value, len).map(|_| ()),
        }
    }
}

/// A list of routes: (address, length, value).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Routes {
    /// In any order; the last one of the same prefix counts.
    pub list: Vec<(u128, u8, u32)>,
}

impl Routes {
    /// As first-match rules over one field: the longest first. For a handful, [`DecisionCode`](crate::DecisionCode) of
    /// these is the fastest there is.
    ///
    /// # Errors
    /// A prefix or a value that cannot be.
    pub fn rules(&self, bits: u8) -> Result<Rules, RuleError> {
        let mut rules = Rules::new(Layout::new(&[bits])?);
        let mut list: Vec<_> = self.list.iter().rev().copied().collect();
        list.sort_by_key(|r| std::cmp::Reverse(r.1));
        for (value, len, next) in list {
            rules.push(&[Match::Prefix { value, len }], next)?;
        }
        Ok(rules)
    }

    /// As a trie, the field being the only one of keys.
    ///
    /// # Errors
    /// A prefix or a value that cannot be, or the budget does not suffice.
    pub fn trie(&self, bits: u8, budget: usize) -> Result<PrefixTrie, RouteError> {
        let mut t = PrefixTrie::new(bits, 0, budget)?;
        for (value, len, next) in &self.list {
            t.insert(*value, *len, *next)?;
        }
        Ok(t)
    }
}

impl PrefixTrie {
    /// The trie of rules that ask for prefixes of one field and nothing else. A prefix behind a shorter one that
    /// contains it is never reached and left out; of the others the longest is the first.
    ///
    /// # Errors
    /// Other rules, or the budget does not suffice.
    pub fn of_table(table: &Table, budget: usize) -> Result<Self, Refusal> {
        let form = |why| Refusal::Form {
            kind: Kind::PrefixTrie,
            why,
        };
        let layout = table.layout();
        let bits = layout.word_bits();
        let asked = |f: usize| {
            let asks = |e: usize, w: usize| table.row(e).get(w).is_some_and(|t| !t.is_any(bits[w]));
            layout
                .words_of(f)
                .any(|w| (0..table.len()).any(|e| asks(e, w)))
        };
        let mut fields = (0..layout.fields()).filter(|f| asked(*f));
        let field = fields.next().unwrap_or(0);
        if fields.next().is_some() {
            return Err(form("rules ask about more than one field"));
        }
        let (width, words) = (layout.bits(field), layout.words_of(field));
        let map = |e| match e {
            RouteError::Refused(r) => r,
            _ => form("a value that is reserved"),
        };
        let mut trie = Self::new(width, words.start, budget).map_err(map)?;
        let mut seen: HashSet<(u8, u128)> = HashSet::new();
        for (e, next) in table.values().iter().enumerate() {
            let row = table.row(e).get(words.clone()).unwrap_or(&[]);
            let bits = bits.get(words.clone()).unwrap_or(&[]);
            let (value, len) = prefix(row, bits).ok_or(form("rules that are no prefixes"))?;
            // Bound: 129 lengths.
            let behind = (0..=len).any(|l| seen.contains(&(l, value & prefix_mask(width, l))));
            if !behind {
                seen.insert((len, value));
                trie.insert(value, len, *next).map_err(map)?;
            }
        }
        Ok(trie)
    }
}

/// The tests of a field's words as a prefix, if they are one.
fn prefix(row: &[Test], bits: &[u8]) -> Option<(u128, u8)> {
    let (mut value, mut len, mut open) = (0u128, 0, false);
    for (t, bits) in row.iter().zip(bits) {
        let part = t.span.wrapping_add(1);
        let is_prefix = !t.is_mask() && t.span & part == 0 && t.lo & t.span == 0;
        if !is_prefix || open && !t.is_any(*bits) {
            return None;
        }
        let host = t.span.count_ones() as u8;
        open |= host > 0;
        len += bits - host;
        value = value << 32 | u128::from(t.lo);
    }
    Some((value, len))
}
