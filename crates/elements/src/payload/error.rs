//! What may be wrong with payload patterns.

use super::scan::VARIABLE;

/// An error in the patterns of a payload matcher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// No bytes to look for.
    #[error("empty pattern")]
    Empty,
    /// A literal that is too long.
    #[error("pattern of {0} bytes, at most {MAX_LITERAL} are allowed")]
    TooLong(usize),
    /// Too many patterns in one element.
    #[error("more than {MAX_PATTERNS} patterns")]
    TooMany,
    /// A regular expression that cannot be read.
    #[error("bad regular expression: {0}")]
    Syntax(String),
    /// A regular expression that is read, but would take too much memory.
    #[error("{0}")]
    TooBig(String),
    /// A matcher that there is not.
    #[error("{VARIABLE} is '{0}'; hint: it can be auto (as without it), portable or vectorscan")]
    Matcher(String),
    /// Vectorscan was asked for.
    #[error("the matcher vectorscan was asked for: {0}")]
    NoVectorscan(String),
}

/// Most patterns of one element.
pub const MAX_PATTERNS: usize = 65_536;
/// Longest literal pattern.
pub const MAX_LITERAL: usize = 4096;
