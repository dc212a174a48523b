//! What stages are to be looked up in.

use onefold_classify::Kind;

/// What stages are looked up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Structures {
    /// What the cost model chooses.
    #[default]
    Chosen,
    /// The program's own tree, one packet at a time.
    Tree,
    /// This structure, wherever it takes the rules; else the tree.
    Only(Kind),
}

/// How a program is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Using {
    /// What stages are looked up in.
    pub structures: Structures,
    /// Candidates are measured, which takes some milliseconds for each.
    pub measure: bool,
}
