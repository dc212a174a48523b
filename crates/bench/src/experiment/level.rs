//! How chains of an experiment are executed.

/// One level of the executor, or all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The chain as written, a batch at a time.
    Reference,
    /// The program.
    Program,
    /// The program with a flow table in front of it.
    Flow,
    /// Whichever costs least, as `onefold run` has it.
    Auto,
}

impl Level {
    /// Those that are levels themselves, slowest for a known flow first.
    pub const ALL: [Level; 3] = [Level::Reference, Level::Program, Level::Flow];

    /// `reference`, `program`, `flow` or `auto`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Reference => "reference",
            Level::Program => "program",
            Level::Flow => "flow",
            Level::Auto => "auto",
        }
    }
}
