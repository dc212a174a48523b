//! The operator's rules: which argument of which element each of them became.
//!
//! Whoever shows counters of rules, as `iptables -L -v` does, finds here what to show beside the numbers: the rule as
//! it was written, and where a rule set has chains, which rule of which chain it is.

use std::sync::Arc;

/// Longest text of a rule that is kept, in characters.
const MAX_TEXT: usize = 400;

/// A rule's place in a rule set that has tables and chains.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct RulePlace {
    /// `ip`, `ip6`, `inet`.
    pub family: String,
    /// The table.
    pub table: String,
    /// The chain.
    pub chain: String,
    /// Position in the chain, from 1; 0 for the chain's policy.
    pub number: u32,
    /// What nftables calls the rule by, where the rule set says it.
    pub handle: Option<u64>,
}

/// A rule of a list, and where it is in the graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedRule {
    /// The element, without its function's name.
    pub element: String,
    /// Argument of the element's configuration.
    pub argument: usize,
    /// As it was written; of a list's policy, what it says.
    pub text: Arc<str>,
    /// It is what happens to packets that no rule fits.
    pub policy: bool,
    /// Where rule sets have chains.
    pub place: Option<Arc<RulePlace>>,
}

/// A rule's text, not too long to be shown.
pub(crate) fn shown(text: &str) -> Arc<str> {
    let text = text.trim();
    match text.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{} ...", &text[..end]).into(),
        None => text.into(),
    }
}

/// The lines of a rule file, by number from 1.
pub(crate) struct Lines<'a>(Vec<&'a str>);

impl<'a> Lines<'a> {
    pub fn of(text: &'a str) -> Lines<'a> {
        Lines(text.lines().collect())
    }
    /// What is written there.
    pub fn text(&self, line: u32) -> Option<Arc<str>> {
        let i = (line as usize).checked_sub(1)?;
        let l = self.0.get(i)?;
        (!l.trim().is_empty()).then(|| shown(l))
    }
}
