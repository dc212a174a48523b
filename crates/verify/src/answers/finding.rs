//! What is found odd about rules.

/// What a rule is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// No packet fits it, whatever stands before it.
    NeverMatches,
    /// Earlier rules take all its packets, and all of them do the opposite.
    Contradicted,
    /// Earlier rules take all its packets; some do the same, some the opposite.
    Shadowed,
    /// Without it the same would happen to every packet: earlier rules that do the same take all its packets, or rules
    /// behind it would do the same with those that it takes.
    Redundant,
}

impl Kind {
    /// In one word, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NeverMatches => "never-matches",
            Kind::Contradicted => "contradictory",
            Kind::Shadowed => "shadowed",
            Kind::Redundant => "redundant",
        }
    }
}

/// Something odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What.
    pub kind: Kind,
    /// The rule: its first argument.
    pub rule: usize,
    /// The rules that decide about its packets, or would; `None` is what happens to packets that no rule fits. At most
    /// 16.
    pub by: Vec<Option<usize>>,
    /// So many of them in all.
    pub of: usize,
    /// There may be more of them: where many overlap the rule, only those are counted that packets were found for.
    pub more: bool,
    /// The rules stand behind it; else before it.
    pub behind: bool,
    /// A frame that fits the rule, and about which one of the others decides, or would.
    pub frame: Option<Vec<u8>>,
    /// The list that the frame is for, by number; where there is no frame, the first one that has the rule.
    pub list: usize,
}

/// All that was found out about a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// In the list's order.
    pub all: Vec<Finding>,
    /// Rules of which nothing can be said: the element has to be asked about them, or a bound was reached.
    pub unknown: Vec<usize>,
    /// Rules that were looked at.
    pub looked: usize,
}
