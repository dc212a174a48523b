//! What is to be hit, and what became of it.

use super::coverage::{sides, width};
use crate::reach::proved::Key;
use onefold_synth::program::Program;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Something to be hit: a rule, or a side of a boundary of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Goal {
    /// Stage.
    pub stage: usize,
    /// Rule.
    pub rule: usize,
    /// Dimension and side; `None`: the rule itself.
    pub side: Option<(usize, usize)>,
}

impl Goal {
    /// As proofs name it.
    pub fn key(self) -> Key {
        (self.stage, self.rule, self.side)
    }
}

/// What became of all goals.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Shown to be unreachable, with the reason.
    pub never: Vec<(Goal, String)>,
    /// Not hit, and not shown to be unreachable.
    pub missing: BTreeMap<(bool, Reason), Vec<Goal>>,
    /// Hit, although shown to be unreachable: a fault of the analysis.
    pub wrong: Vec<(Goal, String)>,
}

/// Why a goal has not been reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// Nothing comes to the stage that fits.
    NoWay,
    /// Rules before take every such packet.
    Covered,
    /// Such values, but no well-formed frame has them.
    NoFrame,
    /// The search was given up.
    TooLong,
    /// It was not searched for any more: all searches together had cost what a run may cost.
    Budget,
    /// A frame that should have hit it was taken elsewhere.
    Elsewhere,
    /// It needs a value that a binding gives, and none that was seen does.
    Binding,
    /// It needs a flow that one rewriter has forgotten and others remember.
    Outlived,
    /// There were more goals than packets.
    NotTried,
    /// Its turn had not come when the run was interrupted.
    Interrupted,
    /// It is punted, and enough packets were.
    Punts,
}

impl Reason {
    /// Is it certain that nothing can hit it?
    pub fn is_certain(self) -> bool {
        self == Reason::Covered
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::NoWay => "no packet that comes to the stage has such values",
            Reason::Covered => "covered by earlier rules: another rule's boundary decides there",
            Reason::NoFrame => "no well-formed frame has such values",
            Reason::TooLong => "not found within the bound of the search",
            Reason::Budget => {
                "not aimed at: searches for packets had cost what they may in a run of so many packets"
            }
            Reason::Elsewhere => "frames made for it were taken by another rule",
            Reason::Binding => "no binding gave such a value",
            Reason::Outlived => {
                "needs a flow that one rewriter has forgotten while others remember it, and none was brought about"
            }
            Reason::Interrupted => "not tried: interrupted before its turn came",
            Reason::NotTried => "not tried: more boundaries than packets",
            Reason::Punts => "put off: such packets are punted, and few of all packets are to be",
        })
    }
}

impl Reason {
    /// The one that leaves more hope.
    pub(super) fn max_by_hope(self, other: Reason) -> Reason {
        let rank = |r: Reason| match r {
            Reason::NotTried | Reason::Interrupted | Reason::Punts => 0,
            Reason::NoWay => 1,
            Reason::Covered => 2,
            Reason::NoFrame => 3,
            Reason::Binding => 4,
            Reason::TooLong => 5,
            Reason::Budget => 6,
            Reason::Elsewhere => 7,
            Reason::Outlived => 8,
        };
        match rank(other) > rank(self) {
            true => other,
            false => self,
        }
    }
}

/// All goals, rules first.
pub(super) fn all_goals(p: &Program) -> Vec<Goal> {
    let mut all = Vec::new();
    let rules = || {
        (p.stages.iter().enumerate())
            .flat_map(|(s, x)| x.rules.iter().enumerate().map(move |(r, y)| (s, x, r, y)))
    };
    for (stage, _, rule, _) in rules() {
        all.push(Goal {
            stage,
            rule,
            side: None,
        });
    }
    for (stage, _, rule, r) in rules() {
        for (dim, (d, set)) in r.filter.0.iter().enumerate() {
            for side in 0..sides(set, width(p, *d)).len() {
                all.push(Goal {
                    stage,
                    rule,
                    side: Some((dim, side)),
                });
            }
        }
    }
    all
}

/// Goals for so many packets; what is left out is not tried.
pub(super) fn goals(p: &Program, budget: u64) -> (VecDeque<(Goal, u8)>, HashMap<Goal, Reason>) {
    let all = all_goals(p);
    let every = (all.len() as u64).div_ceil(budget.max(1)).max(1);
    let mut kept = VecDeque::new();
    for (i, g) in all.into_iter().enumerate() {
        if g.side.is_none() || (i as u64).is_multiple_of(every) {
            kept.push_back((g, 0));
        }
    }
    (kept, HashMap::new())
}
