//! Which interval a field of several words is in, for sixteen packets at once: an IPv6 address, or a part of one.
//!
//! The first values of intervals are numbers of 64, 96 or 128 bits, and registers have columns of 32. Most of these
//! numbers begin alike (the networks of one provider) and end in zeros (prefixes), so they are kept as a tree of
//! words: a node stands for the numbers that have the same first words, and asks one more word. Which packets are at a
//! node is a mask; each of a node's numbers adds to the interval of those of them whose word is above it. That takes
//! two instructions for each number, and one for each node.

use crate::simd::{COLUMNS, Wide};

/// Bits of a word.
const BITS: u32 = 32;
/// Words of a field.
const WORDS: usize = 4;
/// Nodes, at most: their masks stay in the nearest cache.
const MAX_NODES: usize = 64;
/// Numbers that are compared, at most: more take longer than packet by packet.
const MAX_STEPS: usize = 512;

/// Whose word is above this one is so many intervals further on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    above: u32,
    more: u32,
}

/// Numbers that have the same first words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Node {
    /// The node of those that have one word less in common. The first node is its own.
    parent: u8,
    /// Which word of the field is asked.
    word: u8,
    /// What the word before is.
    value: u32,
    /// Which steps: the first one, and the one behind the last.
    steps: (u16, u16),
    /// The node behind the last one below it.
    next: u8,
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordTree {
    /// The field's first word.
    first: u8,
    nodes: Box<[Node]>,
    steps: Box<[Step]>,
}

/// A tree that is being made.
#[derive(Default)]
struct Made {
    nodes: Vec<Node>,
    steps: Vec<Step>,
}

impl Made {
    /// A node of a field of so many words, and all below it; `at`: its parent, which word it asks, and the value of
    /// the word before. Bound: a field has [`WORDS`] words at most, and nodes and steps have their bounds.
    fn add(&mut self, words: usize, at: (usize, usize, u32), cuts: &[u128]) -> Option<()> {
        let (parent, word, value) = at;
        let behind = BITS as usize * (words - 1 - word);
        let word_of = |cut: u128| (cut >> behind) as u32;
        let (node, begin) = (self.nodes.len(), self.steps.len());
        self.nodes.push(Node {
            parent: u8::try_from(parent).ok()?,
            word: word as u8,
            value,
            steps: (0, 0),
            next: 0,
        });
        let mut below = Vec::new();
        for group in cuts.chunk_by(|a, b| word_of(*a) == word_of(*b)) {
            let at = word_of(*group.first()?);
            let ends = |cut: &&u128| **cut & !(u128::MAX << behind) == 0;
            let (end, go_on): (Vec<u128>, Vec<u128>) = group.iter().partition(ends);
            if !end.is_empty() {
                // a cut of nothing but zeros is none
                let above = at.checked_sub(1)?;
                self.steps.push(Step { above, more: 1 });
            }
            if !go_on.is_empty() {
                let more = go_on.len() as u32;
                self.steps.push(Step { above: at, more });
                below.push((at, go_on));
            }
        }
        let steps = (begin as u16, self.steps.len() as u16);
        for (at, cuts) in below {
            if self.nodes.len() >= MAX_NODES || self.steps.len() > MAX_STEPS {
                return None;
            }
            self.add(words, (node, word + 1, at), &cuts)?;
        }
        let next = self.nodes.len() as u8;
        let made = self.nodes.get_mut(node)?;
        (made.steps, made.next) = (steps, next);
        Some(())
    }
}

impl WordTree {
    /// A field of `bits` bits from word number `first` of the columns on, which is cut at these values: in order, none
    /// of them zero. `None` if the field is not two to four whole words, or if there are too many cuts.
    pub fn of(first: usize, bits: u8, cuts: &[u128]) -> Option<WordTree> {
        let words = usize::from(bits) / BITS as usize;
        if !u32::from(bits).is_multiple_of(BITS) || !(2..=WORDS).contains(&words) {
            return None;
        }
        let mut tree = Made::default();
        tree.add(words, (0, 0, 0), cuts)?;
        Some(WordTree {
            first: u8::try_from(first).ok()?,
            nodes: tree.nodes.into(),
            steps: tree.steps.into(),
        })
    }

    /// The interval of each of sixteen packets, which have these words? `None` where the columns end before the field.
    #[inline(always)]
    pub fn number<W: Wide>(&self, wide: W, words: &[W::N]) -> Option<W::N> {
        let first = usize::from(self.first);
        let field = words.get(first..)?;
        let mut masks = [wide.every(); MAX_NODES];
        let mut n = wide.all(0);
        let mut i = 0;
        // Loops over indices: adapters may not be inlined. Bounds: nodes and steps, as many as were made
        while i < self.nodes.len() {
            let node = &self.nodes[i];
            let word = usize::from(node.word);
            let mut mask = masks[usize::from(node.parent) % MAX_NODES];
            if word > 0 {
                mask = wide.equal_among(mask, *field.get(word - 1)?, node.value);
            }
            // networks that nobody is in now, and all within them
            if !wide.any_among(mask) {
                i = usize::from(node.next).max(i + 1);
                continue;
            }
            masks[i % MAX_NODES] = mask;
            i += 1;
            let v = *field.get(word)?;
            let (from, to) = node.steps;
            for s in self.steps.get(usize::from(from)..usize::from(to))? {
                n = wide.add_above(n, mask, v, (s.above, s.more));
            }
        }
        Some(n)
    }
}

/// Trees that fields of one cache share, at most.
pub(crate) const MAX_TREES: usize = 8;

/// The columns of sixteen packets, and their intervals, as far as they have been asked: TCP's and UDP's addresses are
/// mostly cut alike.
#[derive(Clone, Copy)]
pub(crate) struct Ranks<N> {
    pub words: [N; COLUMNS],
    numbers: [N; MAX_TREES],
    /// Which of them are there: a bit each.
    there: u32,
}

impl<N: Copy> Ranks<N> {
    #[inline(always)]
    pub fn of<W: Wide<N = N>>(wide: W, words: [N; COLUMNS]) -> Ranks<N> {
        Ranks {
            words,
            numbers: [wide.all(0); MAX_TREES],
            there: 0,
        }
    }

    /// [`WordTree::number`] of one of these.
    #[inline(always)]
    pub fn number<W: Wide<N = N>>(&mut self, wide: W, trees: &[WordTree], i: u8) -> Option<N> {
        let i = usize::from(i) % MAX_TREES;
        if self.there >> i & 1 == 0 {
            self.numbers[i] = trees.get(i)?.number(wide, &self.words)?;
            self.there |= 1 << i;
        }
        Some(self.numbers[i])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::any::Any;
    use crate::simd::{Lanes, ROW};
    use std::collections::BTreeSet;

    /// Intervals of sixteen values, one way or the other.
    fn numbers<W: Wide>(wide: W, tree: &WordTree, words: &[Lanes; 8]) -> [u32; ROW] {
        let words = words.map(|w| wide.get(&w));
        let mut to = Lanes([0; ROW]);
        wide.put(tree.number(wide, &words).unwrap(), &mut to);
        to.0
    }

    /// Words that stand side by side, as they do in addresses.
    fn word() -> impl proptest::strategy::Strategy<Value = u32> {
        use proptest::prelude::*;
        prop_oneof![
            Just(0u32),
            Just(u32::MAX),
            Just(0x2001_0db8),
            0u32..3,
            any::<u32>()
        ]
    }

    proptest::proptest! {
        /// The interval is the number of cuts that a value has reached, with all instructions.
        #[test]
        fn numbers_are_places_in_the_list(
            words in 2usize..5,
            // each has three nodes of its own at most: as many as there may be
            cuts in proptest::collection::vec([word(), word(), word(), word()], 0..=MAX_NODES / 3),
            values in proptest::collection::vec([word(), word(), word(), word()], ROW),
            near in proptest::collection::vec((0usize..30, -1i8..2), ROW),
        ) {
            let bits = words as u32 * BITS;
            let whole = |w: &[u32]| w.iter().take(words).fold(0u128, |v, w| v << BITS | u128::from(*w));
            let cuts: BTreeSet<u128> = cuts.iter().map(|c| whole(c)).filter(|c| *c > 0).collect();
            let cuts: Vec<u128> = cuts.into_iter().collect();
            // for fewer bits no value is near the largest number
            let most = u128::MAX >> (128 - bits);
            let tree = WordTree::of(3, bits as u8, &cuts).unwrap();
            let beside = near.iter().filter_map(|(i, by)| {
                Some(cuts.get(*i)?.wrapping_add_signed(i128::from(*by)).min(most))
            });
            let all: Vec<u128> = values.iter().map(|c| whole(c)).chain(beside).collect();
            for some in all.chunks(ROW) {
                let mut columns = [Lanes([7; ROW]); 8];
                for (lane, v) in some.iter().enumerate() {
                    for (w, column) in columns[3..3 + words].iter_mut().enumerate() {
                        column.0[lane] = (v >> (BITS as usize * (words - 1 - w))) as u32;
                    }
                }
                let got = numbers(Any, &tree, &columns);
                for (got, v) in got.iter().zip(some) {
                    proptest::prop_assert_eq!(*got as usize, cuts.partition_point(|c| c <= v));
                }
                #[cfg(target_arch = "x86_64")]
                {
                    if let Some(wide) = crate::simd::avx2::Avx2::found() {
                        proptest::prop_assert_eq!(numbers(wide, &tree, &columns), got);
                    }
                    if let Some(wide) = crate::simd::avx512::Avx512::found() {
                        proptest::prop_assert_eq!(numbers(wide, &tree, &columns), got);
                    }
                }
            }
        }
    }

    #[test]
    fn fields_of_whole_words_and_others() {
        assert!(WordTree::of(2, 128, &[1 << 64, 2 << 96]).is_some());
        assert!(WordTree::of(2, 32, &[7]).is_none(), "one word");
        assert!(WordTree::of(2, 72, &[7]).is_none(), "a part of a word");
        let apart: Vec<u128> = (1..=MAX_NODES as u128).map(|i| i << 96 | 1).collect();
        assert!(WordTree::of(2, 128, &apart).is_none(), "too many nodes");
        let tree = WordTree::of(2, 128, &[1 << 64]).unwrap();
        assert!(
            tree.number(Any, &[Lanes([0; ROW]); 3]).is_none(),
            "columns end"
        );
    }
}
