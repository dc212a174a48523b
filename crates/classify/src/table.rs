//! The normal form that structures are built from: entries that ask one question of each word.
//!
//! A prefix or a mask of a wide field comes apart into one question per word. An arbitrary range of a field of `n`
//! words does not, but is the union of at most `2n - 1` disjoint boxes that do (an odometer that runs from the first to
//! the last value: the tail of the first digits, the full turns, the head of the last ones). So a rule becomes one
//! entry, seldom more, and structures know nothing of fields wider than a word.

use crate::layout::word_max;
use crate::rule::prefix_mask;
use crate::{Layout, Match, RuleError, Rules};
use std::collections::HashSet;

/// Entries of a table, at most.
pub const MAX_ENTRIES: usize = 1 << 22;
/// Entries that a single rule may come apart into.
pub const MAX_PARTS: usize = 256;

/// A question about one word: `(word & mask) - lo <= span`, in wrapping numbers.
///
/// A range has all bits in its mask; a mask that is no prefix has a span of zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Test {
    /// Bits that count.
    pub mask: u32,
    /// The least value of these bits.
    pub lo: u32,
    /// How far the greatest one is from it.
    pub span: u32,
}

impl Test {
    fn range(lo: u32, hi: u32) -> Self {
        Self {
            mask: u32::MAX,
            lo,
            span: hi.wrapping_sub(lo),
        }
    }

    fn masked(value: u32, mask: u32, bits: u8) -> Self {
        let max = word_max(bits);
        let (mask, host) = (mask & max, !mask & max);
        // host bits that are exactly the last ones: a prefix, thus a range
        if host & host.wrapping_add(1) == 0 {
            Self::range(value & mask, value & mask | host)
        } else {
            Self {
                mask,
                lo: value & mask,
                span: 0,
            }
        }
    }

    /// Does a word fit?
    #[inline(always)]
    pub fn fits(&self, word: u32) -> bool {
        (word & self.mask).wrapping_sub(self.lo) <= self.span
    }

    /// It is no prefix and no range, but a mask.
    pub fn is_mask(&self) -> bool {
        self.mask != u32::MAX
    }

    /// From the least to the greatest word that fits.
    pub fn hull(&self, bits: u8) -> (u32, u32) {
        match self.is_mask() {
            true => (self.lo, self.lo | !self.mask & word_max(bits)),
            false => (self.lo, self.lo.wrapping_add(self.span)),
        }
    }

    /// Every word of so many bits fits.
    pub fn is_any(&self, bits: u8) -> bool {
        !self.is_mask() && self.hull(bits) == (0, word_max(bits))
    }

    /// Everything in a region fits.
    pub fn covers(&self, region: (u32, u32)) -> bool {
        !self.is_mask() && self.lo <= region.0 && region.1 - self.lo <= self.span
    }

    /// The bits that all words that fit have in common.
    pub fn fixed(&self) -> u32 {
        match self.is_mask() {
            true => self.mask,
            false => {
                let differ = self.lo ^ self.lo.wrapping_add(self.span);
                !(u32::MAX.checked_shr(differ.leading_zeros()).unwrap_or(0))
            }
        }
    }
}

/// Entries in order of priority, each with one test per word.
#[derive(Debug, Clone)]
pub struct Table {
    layout: Layout,
    tests: Vec<Test>,
    values: Vec<u32>,
    rules: usize,
}

impl Table {
    /// The normal form of a list. Entries that repeat an earlier one are left out, and so is what follows one that
    /// takes everything.
    ///
    /// # Errors
    /// A rule comes apart into more than [`MAX_PARTS`] entries, or all of them into more than [`MAX_ENTRIES`].
    pub fn new(rules: &Rules) -> Result<Self, RuleError> {
        let layout = rules.layout().clone();
        let n = layout.words();
        let mut t = Self {
            layout,
            tests: Vec::with_capacity(rules.len() * n),
            values: Vec::with_capacity(rules.len()),
            rules: rules.len(),
        };
        let mut seen: HashSet<Vec<Test>> = HashSet::with_capacity(rules.len());
        'rules: for (rule, (matches, value)) in rules.iter().enumerate() {
            for row in parts(&t.layout, matches, rule)? {
                if seen.contains(&row) {
                    continue;
                }
                if t.values.len() == MAX_ENTRIES {
                    return Err(RuleError::TooMany { limit: MAX_ENTRIES });
                }
                t.tests.extend_from_slice(&row);
                t.values.push(value);
                let all = (row.iter().zip(t.layout.word_bits())).all(|(t, b)| t.is_any(*b));
                seen.insert(row);
                if all {
                    break 'rules;
                }
            }
        }
        Ok(t)
    }

    /// The fields.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// No entry.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// How many rules they were made from.
    pub fn rules(&self) -> usize {
        self.rules
    }

    /// How many words a key has.
    pub fn words(&self) -> usize {
        self.layout.words()
    }

    /// The tests of an entry, one per word; empty where there is no such entry.
    #[inline(always)]
    pub fn row(&self, entry: usize) -> &[Test] {
        let n = self.layout.words();
        self.tests.get(entry * n..(entry + 1) * n).unwrap_or(&[])
    }

    /// The value of each entry.
    pub fn values(&self) -> &[u32] {
        &self.values
    }
}

/// The entries of one rule.
pub(crate) fn parts(
    layout: &Layout,
    matches: &[Match],
    rule: usize,
) -> Result<Vec<Vec<Test>>, RuleError> {
    let mut rows: Vec<Vec<Test>> = vec![Vec::with_capacity(layout.words())];
    for (f, m) in matches.iter().enumerate() {
        let boxes = field_boxes(layout, f, m);
        if rows.len() * boxes.len() > MAX_PARTS {
            return Err(RuleError::Parts {
                rule,
                limit: MAX_PARTS,
            });
        }
        rows = (rows.iter())
            .flat_map(|r| boxes.iter().map(move |b| [&r[..], &b[..]].concat()))
            .collect();
    }
    Ok(rows)
}

fn field_boxes(layout: &Layout, f: usize, m: &Match) -> Vec<Vec<Test>> {
    let bits = &layout.word_bits()[layout.words_of(f)];
    let masked = |value: u128, mask: u128| {
        (layout.split(f, value).zip(layout.split(f, mask)).zip(bits))
            .map(|((v, m), b)| Test::masked(v, m, *b))
            .collect()
    };
    match *m {
        Match::Any => vec![masked(0, 0)],
        Match::Exact(v) => vec![masked(v, u128::MAX)],
        Match::Prefix { value, len } => vec![masked(value, prefix_mask(layout.bits(f), len))],
        Match::Mask { value, mask } => vec![masked(value, mask)],
        Match::Range { lo, hi } => {
            let lo: Vec<u32> = layout.split(f, lo).collect();
            let hi: Vec<u32> = layout.split(f, hi).collect();
            let mut out = Vec::new();
            odometer(&lo, &hi, bits, &mut Vec::new(), &mut out);
            out
        }
    }
}

/// The boxes of the range `lo..=hi` of numbers whose digits are words. Recursion: one level per word, of which a field
/// has at most 4.
fn odometer(lo: &[u32], hi: &[u32], bits: &[u8], done: &mut Vec<Test>, out: &mut Vec<Vec<Test>>) {
    let (Some((&l, lo)), Some((&h, hi)), Some((_, bits))) =
        (lo.split_first(), hi.split_first(), bits.split_first())
    else {
        out.push(done.clone());
        return;
    };
    let zeros = vec![0; lo.len()];
    let tops: Vec<u32> = bits.iter().map(|b| word_max(*b)).collect();
    if l == h {
        done.push(Test::range(l, l));
        odometer(lo, hi, bits, done, out);
        done.pop();
        return;
    }
    let (mut first, mut last) = (l, h);
    if lo != zeros {
        done.push(Test::range(l, l));
        odometer(lo, &tops, bits, done, out);
        done.pop();
        first = l + 1;
    }
    let head = hi != tops;
    if head {
        last = h - 1;
    }
    if first <= last {
        let mut row = done.clone();
        row.push(Test::range(first, last));
        row.extend(tops.iter().map(|t| Test::range(0, *t)));
        out.push(row);
    }
    if head {
        done.push(Test::range(h, h));
        odometer(&zeros, hi, bits, done, out);
        done.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_range_comes_apart_into_disjoint_boxes() {
        let layout = Layout::new(&[100]).unwrap();
        let (lo, hi) = (0x1_0000_0005_0000_0003u128, 0x9_0000_0001_2222_0000u128);
        let rows = parts(&layout, &[Match::Range { lo, hi }], 0).unwrap();
        assert!(rows.len() <= 7, "{rows:?}");
        let count = |v: u128| {
            let words: Vec<u32> = layout.split(0, v).collect();
            (rows.iter())
                .filter(|r| r.iter().zip(&words).all(|(t, w)| t.fits(*w)))
                .count()
        };
        for (v, n) in [
            (lo - 1, 0),
            (lo, 1),
            (lo + 1, 1),
            (0x1_ffff_ffff_ffff_ffff, 1),
            (0x2_0000_0000_0000_0000, 1),
            (0x8_ffff_ffff_ffff_ffff, 1),
            (0x9_0000_0000_ffff_ffff, 1),
            (hi, 1),
            (hi + 1, 0),
        ] {
            assert_eq!(count(v), n, "{v:#x}");
        }
    }

    #[test]
    fn prefixes_are_ranges_and_other_masks_are_not() {
        assert_eq!(
            Test::masked(0x1234, 0xff00, 16),
            Test::range(0x1200, 0x12ff)
        );
        assert!(Test::masked(5, 0, 16).is_any(16));
        let odd = Test::masked(0xffff, 0x0101, 16);
        assert!(odd.is_mask() && odd.fits(0x0301) && !odd.fits(0x0300));
        assert_eq!(odd.hull(16), (0x0101, 0xffff));
        assert_eq!(Test::range(0x1200, 0x12ff).fixed(), 0xffff_ff00);
        assert_eq!(Test::range(0, u32::MAX).fixed(), 0);
        assert_eq!(Test::range(7, 7).fixed(), u32::MAX);
    }
}
