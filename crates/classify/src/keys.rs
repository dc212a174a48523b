//! Batches of keys, one array per word.

use crate::Layout;

/// A batch of keys as structure of arrays: word `w` of key `i` stands at `w * stride + i`.
///
/// A single key in the usual order is a batch with a stride of one. Bits above a field's width must be zero: of other
/// keys any answer may come, but nothing worse.
#[derive(Debug, Clone, Copy)]
pub struct Keys<'a> {
    data: &'a [u32],
    words: usize,
    stride: usize,
    len: usize,
}

impl<'a> Keys<'a> {
    /// Keys of so many words; `None` if `data` is too short for them or a row is longer than the stride.
    pub fn new(data: &'a [u32], words: usize, stride: usize, len: usize) -> Option<Self> {
        let fits = words.checked_mul(stride).is_some_and(|n| n <= data.len());
        (fits && len <= stride).then_some(Self {
            data,
            words,
            stride,
            len,
        })
    }

    /// One key, its words in order.
    pub fn one(key: &'a [u32]) -> Self {
        Self {
            data: key,
            words: key.len(),
            stride: 1,
            len: 1,
        }
    }

    /// How many keys.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// No key.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many words a key has.
    #[inline(always)]
    pub fn words(&self) -> usize {
        self.words
    }

    /// One word of all keys; empty where there is no such word.
    #[inline(always)]
    pub fn word(&self, w: usize) -> &'a [u32] {
        self.data
            .get(w * self.stride..w * self.stride + self.len)
            .unwrap_or(&[])
    }

    /// One word of one key; 0 where there is none.
    #[inline(always)]
    pub fn at(&self, w: usize, i: usize) -> u32 {
        self.data.get(w * self.stride + i).copied().unwrap_or(0)
    }

    /// Keys `from` to `from + len`, as far as there are so many.
    #[inline(always)]
    pub fn part(&self, from: usize, len: usize) -> Self {
        let from = from.min(self.len);
        Self {
            data: self.data.get(from..).unwrap_or(&[]),
            words: self.words,
            stride: self.stride,
            len: len.min(self.len - from),
        }
    }
}

/// Keys of one's own.
///
/// ```
/// use onefold_classify::{KeyBuf, Layout};
/// let layout = Layout::new(&[32, 16]).unwrap();
/// let mut keys = KeyBuf::new(&layout, 64);
/// assert!(keys.push(&[0x0a00_0001, 80]));
/// assert_eq!(keys.keys().at(1, 0), 80);
/// ```
#[derive(Debug, Clone)]
pub struct KeyBuf {
    layout: Layout,
    data: Vec<u32>,
    stride: usize,
    len: usize,
}

impl KeyBuf {
    /// Room for so many keys.
    pub fn new(layout: &Layout, capacity: usize) -> Self {
        Self {
            layout: layout.clone(),
            data: vec![0; capacity.saturating_mul(layout.words())],
            stride: capacity,
            len: 0,
        }
    }

    /// Adds a key by its fields; `false` if there is no room or it has another number of fields.
    pub fn push(&mut self, fields: &[u128]) -> bool {
        if self.len == self.stride || fields.len() != self.layout.fields() {
            return false;
        }
        let mut at = self.len;
        for (f, v) in fields.iter().enumerate() {
            for w in self.layout.split(f, *v) {
                if let Some(p) = self.data.get_mut(at) {
                    *p = w;
                }
                at += self.stride;
            }
        }
        self.len += 1;
        true
    }

    /// Adds a key by its words; `false` if there is no room or it has another number of words.
    pub fn push_words(&mut self, words: &[u32]) -> bool {
        if self.len == self.stride || words.len() != self.layout.words() {
            return false;
        }
        let row = self.data.iter_mut().skip(self.len).step_by(self.stride);
        for (to, w) in row.zip(words) {
            *to = *w;
        }
        self.len += 1;
        true
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// The keys.
    pub fn keys(&self) -> Keys<'_> {
        Keys {
            data: &self.data,
            words: self.layout.words(),
            stride: self.stride,
            len: self.len,
        }
    }
}
