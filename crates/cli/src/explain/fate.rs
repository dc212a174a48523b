//! What becomes of a class.

/// What becomes of a class, for grouping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Leaves the chain.
    Leaves,
    /// Dropped.
    Dropped,
    /// Goes on in another stage.
    GoesOn,
    /// An element is asked.
    Asks,
    /// Punted.
    Punted,
    /// Does not happen.
    Never,
}

impl Fate {
    /// A word for it.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Leaves => "leaves",
            Fate::Dropped => "dropped",
            Fate::GoesOn => "goes on",
            Fate::Asks => "asks",
            Fate::Punted => "punted",
            Fate::Never => "never",
        }
    }

    /// The level that takes a class's packets where levels are chosen (`--mode auto`), as far as the program says it.
    pub fn level(self) -> &'static str {
        match self {
            Fate::Leaves | Fate::Dropped | Fate::GoesOn | Fate::Asks => "flow",
            Fate::Punted => "reference",
            Fate::Never => "none",
        }
    }
}
