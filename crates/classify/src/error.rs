//! What can be wrong with rules, and why a structure does not take them.

use crate::Kind;

/// A layout or a rule that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// A layout without fields, or with too many.
    #[error("{found} fields, expected 1 to {}", crate::MAX_FIELDS)]
    Fields {
        /// How many.
        found: usize,
    },
    /// A field of no width, or wider than 128 bits.
    #[error("field {field} is {bits} bits wide, expected 1 to 128")]
    Width {
        /// Which field.
        field: usize,
        /// Its width.
        bits: u8,
    },
    /// All fields together are too wide.
    #[error(
        "the fields take {found} words of 32 bits, the limit is {}",
        crate::MAX_WORDS
    )]
    Words {
        /// How many words.
        found: usize,
    },
    /// A rule with more or fewer matches than there are fields.
    #[error("rule {rule} has {found} matches, expected one for each of {expected} fields")]
    Matches {
        /// Which rule.
        rule: usize,
        /// How many matches.
        found: usize,
        /// How many fields.
        expected: usize,
    },
    /// A number that the field cannot have.
    #[error("rule {rule}, field {field}: {value:#x} does not fit in {bits} bits")]
    Value {
        /// Which rule.
        rule: usize,
        /// Which field.
        field: usize,
        /// The number.
        value: u128,
        /// The field's width.
        bits: u8,
    },
    /// A prefix longer than the field.
    #[error("rule {rule}, field {field}: prefix length {len}, the field has {bits} bits")]
    Prefix {
        /// Which rule.
        rule: usize,
        /// Which field.
        field: usize,
        /// The length.
        len: u8,
        /// The field's width.
        bits: u8,
    },
    /// A range that ends before it begins.
    #[error("rule {rule}, field {field}: the range {lo:#x} to {hi:#x} is empty")]
    Range {
        /// Which rule.
        rule: usize,
        /// Which field.
        field: usize,
        /// First value.
        lo: u128,
        /// Last value.
        hi: u128,
    },
    /// The value that means "no rule".
    #[error("rule {rule}: the value {:#x} is reserved", crate::NO_MATCH)]
    Reserved {
        /// Which rule.
        rule: usize,
    },
    /// Too many rules.
    #[error("more than {limit} rules")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Arbitrary ranges of several wide fields at once have to be taken apart, and this is too many parts.
    #[error("rule {rule}: ranges of wide fields come apart into more than {limit} boxes")]
    Parts {
        /// Which rule.
        rule: usize,
        /// The limit.
        limit: usize,
    },
}

/// Why a structure does not take a set of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It would take more memory than it may.
    #[error("{kind}: needs at least {needed} bytes, the budget is {budget}")]
    Memory {
        /// The structure.
        kind: Kind,
        /// What was needed when it gave up: at least.
        needed: usize,
        /// What it may have.
        budget: usize,
    },
    /// More rules than it is for.
    #[error("{kind}: {found} entries, it takes at most {limit}")]
    TooMany {
        /// The structure.
        kind: Kind,
        /// How many.
        found: usize,
        /// How many at most.
        limit: usize,
    },
    /// Rules of a form that it has no place for.
    #[error("{kind}: {why}")]
    Form {
        /// The structure.
        kind: Kind,
        /// What it cannot.
        why: &'static str,
    },
}
