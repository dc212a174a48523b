//! The rules of a stage, as look-up structures are made from them: every set of a field once.

use crate::program::headers::registers::Source;
use crate::program::lookup::cells::Cells;
use crate::program::lookup::tree::Condition;
use onefold_element::model::{HeaderCheck, ValueSet};
use std::collections::HashMap;

/// A field that rules ask about.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub reg: u16,
    pub bits: u8,
    pub source: Source,
    /// All sets that rules ask for.
    pub sets: Vec<ValueSet>,
}

impl Field {
    /// What it asks about a header.
    pub fn check(&self) -> Option<HeaderCheck> {
        match self.source {
            Source::Check(c, ..) => Some(c),
            _ => None,
        }
    }

    /// To answer it, the whole packet has to be read.
    pub fn sums_payload(&self) -> bool {
        use HeaderCheck::*;
        matches!(self.check(), Some(TcpChecksum | UdpChecksum | IcmpChecksum))
    }
}

/// A condition of a rule: field, and which of its sets.
pub(crate) type Asked = (u16, u32);

/// The rules of a stage.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct StageRules {
    pub fields: Vec<Field>,
    /// Conditions of all rules.
    asked: Vec<Asked>,
    /// Where those of each rule end.
    ends: Vec<u32>,
    /// How much a rule's packets matter, by what becomes of them: 0 to 1. 0 for rules that take nothing.
    pub weights: Vec<f32>,
}

impl StageRules {
    /// `rules` in order; `weights` as many.
    pub fn new(rules: &[Vec<Condition>], mut weights: Vec<f32>, sources: &[Source]) -> StageRules {
        let mut s = StageRules::default();
        let mut fields: HashMap<u16, u16> = HashMap::new();
        let mut known: Vec<HashMap<ValueSet, u32>> = Vec::new();
        let mut mine: Vec<(u16, ValueSet)> = Vec::new();
        for (i, r) in rules.iter().enumerate() {
            mine.clear();
            let mut possible = true;
            for c in r {
                let f = *fields.entry(c.reg).or_insert_with(|| {
                    s.fields.push(Field {
                        reg: c.reg,
                        bits: c.bits,
                        source: sources.get(usize::from(c.reg)).map_or(Source::Slot, |s| *s),
                        sets: Vec::new(),
                    });
                    known.push(HashMap::new());
                    (s.fields.len() - 1) as u16
                });
                let within = c
                    .set
                    .intervals()
                    .last()
                    .is_some_and(|(_, hi)| c.bits >= 128 || *hi >> c.bits == 0);
                let set = match within {
                    true => c.set.clone(),
                    false => c.set.intersect(&ValueSet::full(c.bits)),
                };
                possible &= !set.is_empty();
                match mine.iter_mut().find(|(g, _)| *g == f) {
                    Some((_, have)) => *have = have.intersect(&set),
                    None if set.is_full(c.bits) => {}
                    None => mine.push((f, set)),
                }
            }
            possible &= mine.iter().all(|(_, set)| !set.is_empty());
            for (f, set) in mine.drain(..) {
                let field = usize::from(f);
                let next = s.fields[field].sets.len() as u32;
                let number = *known[field].entry(set).or_insert_with_key(|set| {
                    s.fields[field].sets.push(set.clone());
                    next
                });
                s.asked.push((f, number));
            }
            s.ends.push(s.asked.len() as u32);
            if let (Some(w), false) = (weights.get_mut(i), possible) {
                *w = 0.0;
            }
        }
        weights.resize(rules.len(), 0.0);
        s.weights = weights;
        s
    }

    /// How many rules.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The conditions of a rule.
    pub fn rule(&self, i: usize) -> &[Asked] {
        let from = match i {
            0 => 0,
            _ => self.ends.get(i - 1).map_or(0, |e| *e as usize),
        };
        let to = self.ends.get(i).map_or(from, |e| *e as usize);
        self.asked.get(from..to).unwrap_or_default()
    }

    /// Can a rule take a packet?
    pub fn possible(&self, i: usize) -> bool {
        self.weights.get(i).is_some_and(|w| *w > 0.0)
    }

    /// The cells of each field that has few enough sets.
    pub(crate) fn cells(&self) -> Vec<Option<Cells>> {
        (self.fields.iter())
            .map(|f| Cells::new(&f.sets, f.bits))
            .collect()
    }
}
