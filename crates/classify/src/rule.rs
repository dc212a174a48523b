//! First-match rule lists.

use crate::{Layout, NO_MATCH, RuleError};

/// Rules of a list, at most.
pub const MAX_RULES: usize = 1 << 20;

/// What a rule asks of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// Anything.
    Any,
    /// One value.
    Exact(u128),
    /// The first `len` bits are those of `value`.
    Prefix {
        /// The bits, left-aligned in the field: an address.
        value: u128,
        /// How many of them count.
        len: u8,
    },
    /// Between two values, both included.
    Range {
        /// The first one.
        lo: u128,
        /// The last one.
        hi: u128,
    },
    /// The bits of `mask` are those of `value`; any mask.
    Mask {
        /// The bits.
        value: u128,
        /// Which of them count.
        mask: u128,
    },
}

impl Match {
    /// Does a field of so many bits with this value fit?
    pub fn contains(&self, v: u128, bits: u8) -> bool {
        match *self {
            Self::Any => true,
            Self::Exact(x) => v == x,
            Self::Prefix { value, len } => {
                let mask = prefix_mask(bits, len);
                v & mask == value & mask
            }
            Self::Range { lo, hi } => (lo..=hi).contains(&v),
            Self::Mask { value, mask } => v & mask == value & mask,
        }
    }

    fn check(&self, rule: usize, field: usize, layout: &Layout) -> Result<(), RuleError> {
        let (max, bits) = (layout.max_of(field), layout.bits(field));
        let fits = |value: u128| match value <= max {
            true => Ok(()),
            false => Err(RuleError::Value {
                rule,
                field,
                value,
                bits,
            }),
        };
        match *self {
            Self::Any => Ok(()),
            Self::Exact(v) => fits(v),
            Self::Prefix { len, .. } if len > bits => Err(RuleError::Prefix {
                rule,
                field,
                len,
                bits,
            }),
            Self::Prefix { value, .. } => fits(value),
            Self::Range { lo, hi } if lo > hi => Err(RuleError::Range {
                rule,
                field,
                lo,
                hi,
            }),
            Self::Range { hi, .. } => fits(hi),
            Self::Mask { value, mask } => fits(value).and_then(|()| fits(mask)),
        }
    }
}

/// The first `len` of `bits` bits.
pub(crate) fn prefix_mask(bits: u8, len: u8) -> u128 {
    let all = match bits {
        128.. => u128::MAX,
        b => (1 << b) - 1,
    };
    match bits.saturating_sub(len) {
        128.. => 0,
        host => all & !((1 << host) - 1),
    }
}

/// A list of rules: the first one that fits decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    layout: Layout,
    matches: Vec<Match>,
    values: Vec<u32>,
}

impl Rules {
    /// An empty list.
    pub fn new(layout: Layout) -> Self {
        Self {
            layout,
            matches: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Appends a rule: one match per field, and what a look-up answers where it is the first that fits.
    ///
    /// # Errors
    /// A match that its field cannot have, [`NO_MATCH`] as value, or more than [`MAX_RULES`]; the list is as it was.
    pub fn push(&mut self, matches: &[Match], value: u32) -> Result<(), RuleError> {
        let rule = self.len();
        if rule >= MAX_RULES {
            return Err(RuleError::TooMany { limit: MAX_RULES });
        }
        if matches.len() != self.layout.fields() {
            return Err(RuleError::Matches {
                rule,
                found: matches.len(),
                expected: self.layout.fields(),
            });
        }
        if value == NO_MATCH {
            return Err(RuleError::Reserved { rule });
        }
        for (field, m) in matches.iter().enumerate() {
            m.check(rule, field, &self.layout)?;
        }
        self.matches.extend_from_slice(matches);
        self.values.push(value);
        Ok(())
    }

    /// How many rules.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// No rule.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The fields.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The matches and the value of a rule.
    pub fn get(&self, rule: usize) -> Option<(&[Match], u32)> {
        let n = self.layout.fields();
        let m = self.matches.get(rule * n..(rule + 1) * n)?;
        Some((m, *self.values.get(rule)?))
    }

    /// All rules in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[Match], u32)> {
        let n = self.layout.fields();
        (self.matches.chunks_exact(n)).zip(self.values.iter().copied())
    }
}
