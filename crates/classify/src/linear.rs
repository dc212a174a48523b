//! The linear scan: what every other structure must answer like.

use crate::{Classifier, Keys, Kind, Layout, Match, NO_MATCH, Rules};

/// All rules, asked one after the other, as they were written: nothing of this is shared with other structures.
#[derive(Debug, Clone)]
pub struct Linear {
    rules: Rules,
}

impl Linear {
    /// Takes any list.
    pub fn new(rules: &Rules) -> Self {
        Self {
            rules: rules.clone(),
        }
    }

    /// The index of the first rule that fits a key.
    pub fn first(&self, keys: Keys<'_>, i: usize) -> Option<usize> {
        let layout = self.rules.layout();
        let mut fields = [0u128; crate::MAX_FIELDS];
        for (f, v) in fields.iter_mut().enumerate().take(layout.fields()) {
            *v = layout.join(f, |w| keys.at(w, i));
        }
        let fits = |m: &[Match], l: &Layout| {
            (m.iter().zip(&fields).enumerate()).all(|(f, (m, v))| m.contains(*v, l.bits(f)))
        };
        self.rules.iter().position(|(m, _)| fits(m, layout))
    }
}

impl Classifier for Linear {
    fn kind(&self) -> Kind {
        Kind::Linear
    }

    fn lookup(&self, keys: Keys<'_>, out: &mut [u32]) {
        for (i, o) in out.iter_mut().enumerate().take(keys.len()) {
            let first = self.first(keys, i);
            *o = first.map_or(NO_MATCH, |r| self.rules.get(r).map_or(NO_MATCH, |r| r.1));
        }
    }

    fn memory_bytes(&self) -> usize {
        self.rules.len() * (self.rules.layout().fields() * size_of::<Match>() + 4)
    }

    fn shape(&self) -> String {
        format!("{} rules", self.rules.len())
    }
}
