//! What may be wrong with a filter.

use super::expr::Span;

/// An error in a filter's text: what, where, and how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct FilterError {
    /// What is wrong.
    pub kind: FilterErrorKind,
    /// Where in the text.
    pub span: Span,
    /// How to mend it, when there is something to say.
    pub hint: Option<String>,
}

/// See [`FilterError`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterErrorKind {
    /// Nothing but white space.
    #[error("empty pattern")]
    Empty,
    /// The first word of an IPFilter rule.
    #[error("unknown action '{0}', expected allow, deny, drop or an output number")]
    UnknownAction(String),
    /// An output that the element does not have.
    #[error("output {output} out of range, the element has {outputs}")]
    OutputOutOfRange {
        /// As written.
        output: String,
        /// Connected outputs.
        outputs: usize,
    },
    /// A word that means nothing.
    #[error("unknown word '{0}'")]
    UnknownWord(String),
    /// A word that could be read in several ways, or in none that fits here.
    #[error("'{word}' {problem}")]
    WordMisfit {
        /// The word.
        word: String,
        /// "is ambiguous", "makes no sense here".
        problem: &'static str,
    },
    /// Something is missing.
    #[error("expected {wanted} {place}")]
    Expected {
        /// What.
        wanted: &'static str,
        /// "before 'x'", "at the end".
        place: String,
    },
    /// The rule goes on after a complete expression.
    #[error("'{0}' after the end of the expression")]
    Garbage(String),
    /// The same thing is said twice in one primitive.
    #[error("{0} given twice")]
    Twice(&'static str),
    /// A primitive without the value that it compares with.
    #[error("{what}: {wanted} missing")]
    ValueMissing {
        /// The primitive.
        what: String,
        /// What it wants.
        wanted: &'static str,
    },
    /// A value, operator or mask that a primitive does not take.
    #[error("{what}: takes no {refused}")]
    Refused {
        /// The primitive.
        what: String,
        /// "operator", "mask", "value".
        refused: &'static str,
    },
    /// A number out of its range.
    #[error("{what}: {value} out of range, {range}")]
    OutOfRange {
        /// The primitive.
        what: String,
        /// The number.
        value: String,
        /// What is allowed.
        range: String,
    },
    /// `[POS:LEN]` that cannot be.
    #[error("bad field '[{text}]': {why}")]
    BadField {
        /// Between the brackets.
        text: String,
        /// Why not.
        why: &'static str,
    },
    /// Parentheses within parentheses within ...
    #[error("nested more than {0} deep")]
    TooDeep(usize),
    /// Not wrong, but surely not meant.
    #[error("{0}")]
    Suspicious(String),
}
