//! Keys of a batch, one array per word, out of packets.

use crate::program::headers::registers::{Bits, Regs, Source};
use crate::program::headers::rows::{Part, ROW, Row};
use crate::program::lookup::cells::Cells;
use crate::program::lookup::guard::one_load;
use crate::program::lookup::rules::Field;
use onefold_classify::MAX_WORDS;
use onefold_packet::Packet;

/// Packets that are looked up at once.
pub(crate) const MOST: usize = 256;
/// From one word to the next: not a power of two, so that words of one packet do not compete for the same cache lines.
pub(crate) const STRIDE: usize = MOST + 16;

/// Where a word of a key comes from.
#[derive(Debug, Clone)]
enum Word {
    /// One load of eight bytes.
    Load {
        at: i32,
        shift: u8,
        mask: u32,
    },
    Len,
    /// Part of a register's value.
    Of {
        source: Source,
        reg: u16,
        shift: u8,
        mask: u32,
    },
    /// The number of its cell, or a bit for each set that has it.
    Cell {
        sets: bool,
        source: Source,
        reg: u16,
        cells: Box<Cells>,
        /// Of a field of up to eight bits, what it is for each value, and where it stands.
        small: Option<(Part, Box<[u32; 256]>)>,
    },
}

impl Word {
    /// What reads it of sixteen packets at once, if that can be.
    fn part(&self) -> Option<Part> {
        match self {
            Word::Load { at, shift, mask } => Part::of(*at, *shift, *mask),
            Word::Cell { small, .. } => small.as_ref().map(|s| s.0),
            _ => None,
        }
    }
}

/// The words of a key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    words: Vec<Word>,
}

impl Columns {
    /// Adds a field as it is.
    pub fn field(&mut self, f: &Field) {
        let n = f.bits.div_ceil(32);
        for w in (0..n).rev() {
            let shift = 32 * w;
            let bits = (f.bits - shift).min(32);
            let mask = u32::MAX >> (32 - bits);
            self.words.push(match f.source {
                Source::Len => Word::Len,
                Source::Bits(b) => {
                    let (at, shift) = one_load(&b.part(shift, bits));
                    Word::Load { at, shift, mask }
                }
                source => Word::Of {
                    source,
                    reg: f.reg,
                    shift,
                    mask,
                },
            });
        }
    }

    /// Adds a field by its cells, or by a bit for each of its first 32 sets.
    pub fn cells(&mut self, f: &Field, cells: &Cells, sets: bool) {
        let small = match f.source {
            Source::Bits(b) if f.bits <= 8 && b.bytes() <= 8 => {
                let (at, shift) = one_load(&b);
                let of = |v: usize| match sets {
                    true => cells.sets_of(v as u128) as u32,
                    false => u32::from(cells.of(v as u128)),
                };
                let part = Part::of(at, shift, (1 << f.bits) - 1);
                part.map(|p| (p, Box::new(std::array::from_fn(of))))
            }
            _ => None,
        };
        self.words.push(Word::Cell {
            sets,
            source: f.source,
            reg: f.reg,
            cells: Box::new(cells.clone()),
            small,
        });
    }

    /// How many words.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Bytes that packets must have for their keys to be read [sixteen at a time](Columns::fill_row); `None` where that cannot be.
    pub fn reach(&self) -> Option<u32> {
        let one = |w: &Word| match w {
            Word::Len => Some(0),
            w => w.part().map(Part::reach),
        };
        let all: Option<Vec<u32>> = self.words.iter().map(one).collect();
        all.map(|a| a.into_iter().max().unwrap_or(0))
    }

    /// Writes the keys of sixteen packets, which have as many bytes as [`Columns::reach`] says, their words `stride` apart.
    #[inline(always)]
    pub fn fill_row(&self, row: &Row<'_>, to: &mut [u32], stride: usize) {
        for (w, word) in self.words.iter().enumerate() {
            let Some(to) = to.get_mut(w * stride..).and_then(|t| t.first_chunk_mut()) else {
                continue;
            };
            match word {
                Word::Load { at, shift, mask } => {
                    if let Some(p) = Part::of(*at, *shift, *mask) {
                        p.get_row(row, to);
                    }
                }
                Word::Cell {
                    small: Some((p, table)),
                    ..
                } => {
                    for i in 0..ROW {
                        to[i] = table[p.get(row.windows[i]) as usize % 256];
                    }
                }
                Word::Len => *to = row.lens,
                _ => {}
            }
        }
    }

    /// Writes a packet's key, its words `stride` apart.
    #[inline(always)]
    pub fn fill(
        &self,
        p: &Packet,
        buf: &[u8],
        head: usize,
        regs: &Regs,
        to: &mut [u32],
        stride: usize,
    ) {
        for (w, word) in self.words.iter().enumerate() {
            let v = match word {
                Word::Load { at, shift, mask } => {
                    let b = buf.get(head.wrapping_add_signed(*at as isize)..);
                    let v = match b.and_then(|b| b.first_chunk::<8>()) {
                        Some(b) => u64::from_be_bytes(*b) >> shift,
                        None => slowly(buf, head, *at) >> shift,
                    };
                    v as u32 & mask
                }
                other => other.read(p, buf, head, regs),
            };
            if let Some(to) = to.get_mut(w * stride) {
                *to = v;
            }
        }
    }
}

impl Word {
    /// What is no single load.
    #[inline(never)]
    fn read(&self, p: &Packet, buf: &[u8], head: usize, regs: &Regs) -> u32 {
        match self {
            Word::Load { .. } => 0,
            Word::Len => (buf.len() - head) as u32,
            Word::Of {
                source,
                reg,
                shift,
                mask,
            } => (value(source, *reg, p, regs) >> shift) as u32 & mask,
            Word::Cell {
                sets,
                source,
                reg,
                cells,
                ..
            } => {
                let v = value(source, *reg, p, regs);
                match sets {
                    true => cells.sets_of(v) as u32,
                    false => u32::from(cells.of(v)),
                }
            }
        }
    }
}

/// Eight bytes some of which are not there: they are zeros.
#[cold]
fn slowly(buf: &[u8], head: usize, at: i32) -> u64 {
    Bits::new(at.saturating_mul(8), 64).read(buf, head) as u64
}

#[inline]
fn value(source: &Source, reg: u16, p: &Packet, regs: &Regs) -> u128 {
    match source {
        Source::Slot => regs.v.get(usize::from(reg)).map_or(0, |v| *v),
        s => s.read(p, &regs.tables),
    }
}

/// Numbers of a batch's packets.
#[derive(Debug)]
pub(crate) struct Numbers {
    list: Box<[u16; MOST]>,
    len: usize,
}

impl Numbers {
    fn new() -> Numbers {
        Numbers {
            list: Box::new([0; MOST]),
            len: 0,
        }
    }
    #[inline]
    pub fn clear(&mut self) {
        self.len = 0;
    }
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }
    #[inline(always)]
    pub fn push(&mut self, i: u16) {
        if let Some(to) = self.list.get_mut(self.len) {
            *to = i;
            self.len += 1;
        }
    }
    /// A row of them.
    #[inline(always)]
    pub fn push_row(&mut self, first: u16) {
        let row = self.list.get_mut(self.len..);
        if let Some(to) = row.and_then(|r| r.first_chunk_mut::<ROW>()) {
            *to = std::array::from_fn(|i| first + i as u16);
            self.len += ROW;
        }
    }
    #[inline]
    pub fn as_slice(&self) -> &[u16] {
        self.list.get(..self.len).unwrap_or_default()
    }
}

/// Room for the keys of a batch and what is found for them.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub keys: Vec<u32>,
    pub found: Vec<u32>,
    /// Which packets the keys are of.
    pub at: Numbers,
    /// Packets still to be looked up, and those that will be left.
    pub open: Numbers,
    pub left: Numbers,
}

impl Scratch {
    pub fn new() -> Scratch {
        Scratch {
            keys: vec![0; STRIDE * MAX_WORDS],
            found: vec![0; MOST],
            at: Numbers::new(),
            open: Numbers::new(),
            left: Numbers::new(),
        }
    }
}
