//! Where something stands.

use std::fmt;
use std::sync::Arc;

/// A place in a configuration or rule file, for messages and traces.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SourceLoc {
    /// File name as given; empty when unknown. Shared: large rule sets have one location per rule.
    pub file: Arc<str>,
    /// Line, from 1; 0 when unknown.
    pub line: u32,
    /// Column in characters, from 1; 0 when unknown.
    pub column: u32,
}

impl fmt::Display for SourceLoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.is_empty(), self.line) {
            (true, 0) => write!(f, "(unknown)"),
            (_, 0) => write!(f, "{}", self.file),
            _ => write!(f, "{}:{}:{}", self.file, self.line, self.column),
        }
    }
}
