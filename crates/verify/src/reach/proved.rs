//! What is shown to be unreachable, rule by rule and side by side; asked once, remembered.

use super::{Reach, Verdict};
use crate::generate::coverage::{sides, width};
use std::collections::HashMap;

/// Work that is put into proofs before the first packet: rules that are looked at.
const BEFOREHAND: u64 = 20_000_000;
/// The same for what was not hit, in the end.
const AFTERWARDS: u64 = 16_000_000;
/// On top of it, for rules as a whole: they are few beside sides of boundaries.
const RULES: u64 = 4_000_000;

/// A rule of a stage; a side (dimension, number) of a boundary of it.
pub type Key = (usize, usize, Option<(usize, usize)>);

/// The proofs. A clone goes on from where they are by itself.
#[derive(Clone)]
pub struct Proved {
    /// What can come where.
    pub reach: Reach,
    known: HashMap<Key, Verdict>,
}

impl Proved {
    /// What can be shown within a bound, stage by stage; what is left is shown when somebody asks.
    pub fn of(reach: Reach) -> Proved {
        let mut proved = Proved {
            reach,
            known: HashMap::new(),
        };
        proved.beforehand();
        proved
    }

    fn beforehand(&mut self) {
        let p = self.reach.program.clone();
        for (stage, s) in p.stages.iter().enumerate() {
            for (rule, r) in s.rules.iter().enumerate() {
                if self.reach.work() > BEFOREHAND || self.reach.stop.asked() {
                    return;
                }
                if self.verdict((stage, rule, None)).is_never() && self.reach.at(stage).is_empty() {
                    continue;
                }
                for (dim, (d, set)) in r.filter.0.iter().enumerate() {
                    for side in 0..sides(set, width(&p, *d)).len() {
                        self.verdict((stage, rule, Some((dim, side))));
                    }
                }
            }
        }
    }

    /// What was shown so far.
    pub fn known(&self, key: Key) -> Verdict {
        self.known.get(&key).cloned().unwrap_or(Verdict::Unknown)
    }

    /// Can it be hit? Shown now, unless it was before.
    pub fn verdict(&mut self, key: Key) -> Verdict {
        if let Some(v) = self.known.get(&key) {
            return v.clone();
        }
        let more = if key.2.is_none() { RULES } else { 0 };
        if self.reach.work() > BEFOREHAND + AFTERWARDS + more || self.reach.stop.asked() {
            return Verdict::Unknown;
        }
        let (stage, rule, side) = key;
        let v = match side {
            None => self.reach.rule(stage, rule),
            Some((dim, n)) => {
                let p = self.reach.program.clone();
                let part = (p.stages.get(stage))
                    .and_then(|s| s.rules.get(rule))
                    .and_then(|r| r.filter.0.get(dim));
                let value = part.and_then(|(d, set)| {
                    let all = sides(set, width(&p, *d));
                    all.get(n).copied()
                });
                match value {
                    Some((v, _)) => self.reach.side(stage, rule, dim, v),
                    None => Verdict::Unknown,
                }
            }
        };
        self.known.insert(key, v.clone());
        v
    }

    /// What was shown so far to be never hit.
    pub fn never(&self) -> impl Iterator<Item = (Key, &str)> {
        self.known.iter().filter_map(|(k, v)| match v {
            Verdict::Never(why) => Some((*k, why.as_str())),
            _ => None,
        })
    }
}
