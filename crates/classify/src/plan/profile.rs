//! What a table is like, in a few numbers.

use crate::Table;
use std::collections::HashSet;
use std::fmt;

/// Different tuples counted, at most.
const TUPLES: usize = 4096;

/// Numbers that estimates need.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Entries.
    pub entries: usize,
    /// Rules.
    pub rules: usize,
    /// Tests that ask something, of all entries.
    pub tests: usize,
    /// Words that some entry asks about.
    pub words: usize,
    /// Fields that some entry asks about.
    pub fields: usize,
    /// Every test is of a prefix, or exact.
    pub prefixes: bool,
    /// Share of entries that are wide in the two most telling words: both, one, none.
    pub wide: [f64; 3],
    /// Different sets of fixed bytes.
    pub tuples: usize,
}

impl Profile {
    /// Counts.
    pub fn of(table: &Table) -> Self {
        let layout = table.layout();
        let bits = layout.word_bits();
        let n = table.len();
        let mut asked = vec![0usize; bits.len()];
        let mut prefixes = true;
        let mut tuples: HashSet<Vec<u8>> = HashSet::new();
        for e in 0..n {
            let mut tuple = Vec::with_capacity(bits.len());
            for (w, t) in table.row(e).iter().enumerate() {
                let asks = !t.is_any(bits[w]);
                asked[w] += usize::from(asks);
                prefixes &=
                    !t.is_mask() && t.span & t.span.wrapping_add(1) == 0 && t.lo & t.span == 0;
                let free = !t.fixed() & crate::layout::word_max(bits[w]);
                tuple.push(match bits[w] > 16 {
                    true => bits[w].saturating_sub((32 - free.leading_zeros()) as u8) / 8,
                    false => 0,
                });
            }
            if tuples.len() < TUPLES {
                tuples.insert(tuple);
            }
        }
        // the words most asked about tell most apart
        let mut order: Vec<usize> = (0..bits.len()).collect();
        order.sort_by_key(|w| std::cmp::Reverse((bits[*w], asked[*w])));
        order.truncate(2);
        let mut wide = [0usize; 3];
        for e in 0..n {
            let is_wide = |w: &&usize| {
                let t = table.row(e).get(**w).copied();
                let (lo, hi) = t.map_or((0, 0), |t| t.hull(bits[**w]));
                hi - lo > crate::layout::word_max(bits[**w]) / 64
            };
            // of two words: none wide is 2
            let count = order.iter().filter(is_wide).count();
            wide[2 - count] += 1;
        }
        let share = |c: usize| c as f64 / n.max(1) as f64;
        Self {
            entries: n,
            rules: table.rules(),
            tests: asked.iter().sum(),
            words: asked.iter().filter(|a| **a > 0).count(),
            fields: (0..layout.fields())
                .filter(|f| layout.words_of(*f).any(|w| asked[w] > 0))
                .count(),
            prefixes,
            wide: wide.map(share),
            tuples: tuples.len(),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rules as {} entries with {} tests of {} words; {:.0}% wide in both of the two widest words, {:.0}% in one; {} tuples",
            self.rules,
            self.entries,
            self.tests,
            self.words,
            self.wide[0] * 100.0,
            self.wide[1] * 100.0,
            self.tuples
        )
    }
}
