//! The fields of a key, and the words they take.

use crate::RuleError;

/// Fields of a layout, at most.
pub const MAX_FIELDS: usize = 24;
/// Words of a key, at most.
pub const MAX_WORDS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Field {
    bits: u8,
    first: u8,
    words: u8,
}

/// Which fields a key has. A field takes as many words of 32 bits as it needs, the most significant one first; what
/// does not fill a word is right-aligned in the first one.
///
/// ```
/// let five_tuple = onefold_classify::Layout::new(&[32, 32, 16, 16, 8]).unwrap();
/// assert_eq!(five_tuple.words(), 5);
/// let ipv6 = onefold_classify::Layout::new(&[128, 128, 16, 16, 8]).unwrap();
/// assert_eq!(ipv6.words(), 11);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<Field>,
    words: Vec<u8>,
}

impl Layout {
    /// Fields by their widths in bits, 1 to 128 each.
    ///
    /// # Errors
    /// No field, more than [`MAX_FIELDS`], more than [`MAX_WORDS`] words, or a width out of range.
    pub fn new(bits: &[u8]) -> Result<Self, RuleError> {
        if bits.is_empty() || bits.len() > MAX_FIELDS {
            return Err(RuleError::Fields { found: bits.len() });
        }
        let mut l = Self {
            fields: Vec::with_capacity(bits.len()),
            words: Vec::new(),
        };
        for (field, &bits) in bits.iter().enumerate() {
            if !(1..=128).contains(&bits) {
                return Err(RuleError::Width { field, bits });
            }
            let words = bits.div_ceil(32);
            l.fields.push(Field {
                bits,
                first: l.words.len().min(255) as u8,
                words,
            });
            l.words.push(bits - (words - 1) * 32);
            l.words.extend((1..words).map(|_| 32));
        }
        if l.words.len() > MAX_WORDS {
            return Err(RuleError::Words {
                found: l.words.len(),
            });
        }
        Ok(l)
    }

    /// How many fields.
    pub fn fields(&self) -> usize {
        self.fields.len()
    }

    /// How many words a key has.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Bits of each word.
    pub fn word_bits(&self) -> &[u8] {
        &self.words
    }

    /// Width of a field; 0 where there is none.
    pub fn bits(&self, field: usize) -> u8 {
        self.fields.get(field).map_or(0, |f| f.bits)
    }

    /// Which words a field takes.
    pub fn words_of(&self, field: usize) -> std::ops::Range<usize> {
        self.fields.get(field).map_or(0..0, |f| {
            usize::from(f.first)..usize::from(f.first) + usize::from(f.words)
        })
    }

    /// The greatest value of a field.
    pub fn max_of(&self, field: usize) -> u128 {
        match self.bits(field) {
            128 => u128::MAX,
            b => (1 << b) - 1,
        }
    }

    /// The words of a field's value; bits that the field does not have are left out.
    pub fn split(&self, field: usize, value: u128) -> impl Iterator<Item = u32> + use<> {
        let n = self.words_of(field).len();
        let value = value & self.max_of(field);
        (0..n).map(move |w| (value >> (32 * (n - 1 - w))) as u32)
    }

    /// A field's value from the words of a key, which `word` gives.
    pub fn join(&self, field: usize, word: impl Fn(usize) -> u32) -> u128 {
        self.words_of(field)
            .fold(0, |v, w| v << 32 | u128::from(word(w)))
    }
}

/// The greatest value of a word of so many bits.
pub(crate) fn word_max(bits: u8) -> u32 {
    u32::MAX >> (32 - u32::from(bits.clamp(1, 32)))
}
