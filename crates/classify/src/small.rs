//! Decision code for small sets: every rule is a few comparisons, made for up to 64 keys at once.
//!
//! The rules are compiled into a flat list of comparisons of one word with constants (equal, between, masked), without
//! those that always hold. It is run over 16 keys per vector and up to four vectors, so that fetching and decoding a
//! comparison is paid once for 64 keys; a batch ends early when each of its keys has its rule. No branch depends on a
//! key but that one, and nothing but the keys and the code is read.

use crate::simd::{self, Isa, Kernel};
use crate::{Classifier, Keys, Kind, MAX_WORDS, NO_MATCH, Refusal, Table};

/// Entries that decision code takes, at most. Where other structures are faster is for the cost model to say; it is
/// long before.
pub const MAX_SMALL: usize = 256;

#[derive(Debug, Clone, Copy)]
enum Form {
    Equal,
    Within,
    Masked,
}

#[derive(Debug, Clone, Copy)]
struct Op {
    word: u8,
    form: Form,
    a: u32,
    b: u32,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    end: u32,
    value: u32,
}

/// All rules as comparisons over vectors of keys.
#[derive(Debug, Clone)]
pub struct DecisionCode {
    ops: Vec<Op>,
    entries: Vec<Entry>,
}

impl DecisionCode {
    /// Compiles a table.
    ///
    /// # Errors
    /// More than [`MAX_SMALL`] entries.
    pub fn new(table: &Table) -> Result<Self, Refusal> {
        if table.len() > MAX_SMALL {
            return Err(Refusal::TooMany {
                kind: Kind::DecisionCode,
                found: table.len(),
                limit: MAX_SMALL,
            });
        }
        let mut c = Self {
            ops: Vec::new(),
            entries: Vec::with_capacity(table.len()),
        };
        let bits = table.layout().word_bits();
        for (e, &value) in table.values().iter().enumerate() {
            let first = c.ops.len();
            let mut ops = Vec::new();
            for (word, t) in table.row(e).iter().enumerate() {
                if t.is_any(bits[word]) {
                    continue;
                }
                let (form, a, b) = match (t.is_mask(), t.span) {
                    (true, _) => (Form::Masked, t.mask, t.lo),
                    (false, 0) => (Form::Equal, t.lo, 0),
                    (false, span) => (Form::Within, t.lo, span),
                };
                let op = Op {
                    word: word as u8,
                    form,
                    a,
                    b,
                };
                // about how many bits it fixes
                let fixed = match t.is_mask() {
                    true => t.mask.count_ones(),
                    false => u32::from(bits[word]) - (32 - t.span.leading_zeros()),
                };
                ops.push((fixed, op));
            }
            // what most keys fail first: then the rest need not be compared
            ops.sort_by_key(|(fixed, _)| std::cmp::Reverse(*fixed));
            c.ops.extend(ops.into_iter().map(|(_, op)| op));
            c.entries.push(Entry {
                end: c.ops.len() as u32,
                value,
            });
            if c.ops.len() == first {
                // it takes everything: the rest is never reached
                break;
            }
        }
        Ok(c)
    }

    /// Comparisons in all.
    pub fn comparisons(&self) -> usize {
        self.ops.len()
    }

    /// `G` vectors of keys; `live` are the lanes of the last one that are keys.
    #[inline(always)]
    fn block<'k, const G: usize, S: Isa>(
        &self,
        s: S,
        live: u32,
        column: impl Fn(usize) -> &'k [[u32; 16]; G],
        out: &mut [[u32; 16]; G],
    ) {
        *out = [[NO_MATCH; 16]; G];
        let mut pending = [0xffff; G];
        pending[G - 1] = live;
        let mut first = 0usize;
        for e in &self.entries {
            let mut m = pending;
            for op in self.ops.get(first..e.end as usize).unwrap_or(&[]) {
                let keys = column(usize::from(op.word));
                match op.form {
                    Form::Equal => {
                        for g in 0..G {
                            m[g] &= s.keys_equal(&keys[g], op.a);
                        }
                    }
                    Form::Within => {
                        for g in 0..G {
                            m[g] &= s.keys_within(&keys[g], op.a, op.b);
                        }
                    }
                    Form::Masked => {
                        for g in 0..G {
                            m[g] &= s.keys_masked(&keys[g], op.a, op.b);
                        }
                    }
                }
                if m.iter().fold(0, |all, m| all | m) == 0 {
                    break;
                }
            }
            first = e.end as usize;
            if m == [0; G] {
                continue;
            }
            let mut left = 0;
            for g in 0..G {
                s.put(&mut out[g], m[g], e.value);
                pending[g] &= !m[g];
                left |= pending[g];
            }
            if left == 0 {
                break;
            }
        }
    }
}

struct Lookup<'a> {
    code: &'a DecisionCode,
    keys: Keys<'a>,
    out: &'a mut [u32],
}

const NO_KEYS: [[u32; 16]; 4] = [[0; 16]; 4];

/// `G` vectors of a word, from its first key on.
#[inline(always)]
fn column<const G: usize>(keys: Keys<'_>, w: usize) -> &[[u32; 16]; G] {
    let chunks = keys.word(w).as_chunks::<16>().0;
    // the caller saw that there are so many keys; a word that is not there is as good as zero
    match chunks.first_chunk() {
        Some(c) => c,
        None => const { NO_KEYS.first_chunk().unwrap() },
    }
}

impl Lookup<'_> {
    /// As many blocks of `G` vectors as there are from key `at` on; answers where the next key is.
    #[inline(always)]
    fn blocks<const G: usize, S: Isa>(&mut self, s: S, mut at: usize, n: usize) -> usize {
        while n - at >= 16 * G {
            let out = self.out.get_mut(at..).unwrap_or(&mut []);
            let Some(out) = out.as_chunks_mut::<16>().0.first_chunk_mut::<G>() else {
                break;
            };
            let k = self.keys.part(at, 16 * G);
            self.code.block(s, 0xffff, |w| column(k, w), out);
            at += 16 * G;
        }
        at
    }
}

impl Kernel for Lookup<'_> {
    #[inline(always)]
    fn run<S: Isa>(mut self, s: S) {
        let n = self.keys.len().min(self.out.len());
        let mut at = 0;
        at = self.blocks::<4, S>(s, at, n);
        at = self.blocks::<2, S>(s, at, n);
        at = self.blocks::<1, S>(s, at, n);
        if at < n {
            let k = self.keys.part(at, n - at);
            let mut padded = [[[0u32; 16]; 1]; MAX_WORDS];
            for (w, p) in padded.iter_mut().enumerate().take(k.words()) {
                for (p, k) in p[0].iter_mut().zip(k.word(w)) {
                    *p = *k;
                }
            }
            let mut out = [[NO_MATCH; 16]];
            let live = (1 << (n - at)) - 1;
            let column = |w: usize| padded.get(w).unwrap_or(&padded[0]);
            self.code.block(s, live, column, &mut out);
            for (o, v) in self.out.iter_mut().skip(at).zip(out[0]).take(n - at) {
                *o = v;
            }
        }
    }
}

impl Classifier for DecisionCode {
    fn kind(&self) -> Kind {
        Kind::DecisionCode
    }

    fn lookup(&self, keys: Keys<'_>, out: &mut [u32]) {
        simd::dispatch(Lookup {
            code: self,
            keys,
            out,
        });
    }

    fn lookup_one(&self, key: &[u32]) -> u32 {
        let mut first = 0usize;
        for e in &self.entries {
            let ops = self.ops.get(first..e.end as usize).unwrap_or(&[]);
            let fits = ops.iter().all(|op| {
                let k = key.get(usize::from(op.word)).copied().unwrap_or(0);
                match op.form {
                    Form::Equal => k == op.a,
                    Form::Within => k.wrapping_sub(op.a) <= op.b,
                    Form::Masked => k & op.a == op.b,
                }
            });
            if fits {
                return e.value;
            }
            first = e.end as usize;
        }
        NO_MATCH
    }

    fn memory_bytes(&self) -> usize {
        self.ops.capacity() * size_of::<Op>() + self.entries.capacity() * size_of::<Entry>()
    }

    fn shape(&self) -> String {
        format!(
            "{} entries, {} comparisons",
            self.entries.len(),
            self.ops.len()
        )
    }
}
