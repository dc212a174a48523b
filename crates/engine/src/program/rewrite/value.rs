//! Values, fields and checksums of images.

use onefold_synth::program::SumKind;

/// In [`Value::reg`]: a constant.
pub(crate) const CONST: u16 = u16::MAX;

/// A value: a constant, or a register plus a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Value {
    pub reg: u16,
    pub add: u128,
    /// Cuts the sum to the register's width and to the target's.
    pub mask: u128,
}

impl Value {
    #[inline]
    pub fn get(&self, regs: &[u128]) -> u128 {
        match self.reg {
            CONST => self.add,
            r => {
                regs.get(usize::from(r))
                    .map_or(0, |v| v.wrapping_add(self.add))
                    & self.mask
            }
        }
    }
}

/// A field that is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldWrite {
    pub bit: i32,
    pub bits: u8,
    pub value: Value,
}

/// What is added to the one's complement of a checksum.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Term {
    /// Always the same.
    Fixed(u64),
    /// What a register holds.
    Slot(u16),
    /// A field changes.
    Change {
        from: Value,
        to: Value,
        /// How far the value is shifted left to stand in the first word that it touches; 16 more for each that follows.
        shift: i16,
        words: u8,
    },
}

impl Term {
    /// A change of `bits` bits at `bit` of values counted in words from byte `origin`.
    pub fn change(bit: i32, bits: u8, origin: i32, from: Value, to: Value) -> Term {
        let start = i64::from(bit) - i64::from(origin) * 8;
        let end = start + i64::from(bits);
        let first = start.div_euclid(16);
        let last = (end - 1).div_euclid(16);
        let t = Term::Change {
            from,
            to,
            shift: (first * 16 + 16 - end) as i16,
            words: (last - first + 1) as u8,
        };
        match from.reg == CONST && to.reg == CONST {
            true => Term::Fixed(t.sum(&[])),
            false => t,
        }
    }

    /// Its number.
    #[inline]
    pub fn sum(&self, regs: &[u128]) -> u64 {
        match *self {
            Term::Fixed(n) => n,
            Term::Slot(r) => regs.get(usize::from(r)).map_or(0, |v| u64::from(*v as u16)),
            Term::Change {
                from,
                to,
                shift,
                words,
            } => {
                let (from, to) = (from.get(regs), to.get(regs));
                let mut sum = 0;
                for i in 0..i16::from(words) {
                    let s = shift + 16 * i;
                    // the word's other bits cancel out
                    let part = |v: u128| match s >= 0 {
                        true => (v << s) as u16,
                        false => (v >> -s) as u16,
                    };
                    sum += u64::from(!part(from)) + u64::from(part(to));
                }
                sum
            }
        }
    }
}

/// A checksum that is written.
#[derive(Debug, Clone)]
pub(crate) struct Sum {
    pub kind: SumKind,
    pub header: i32,
    pub at: i32,
    pub anew: bool,
    pub groups: Box<[Box<[Term]>]>,
}
