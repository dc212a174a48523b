//! What can be asked of filters, and how they are narrowed: conditions are in the order of their dimensions.

use crate::program::{Dim, Filter};
use onefold_element::model::ValueSet;
use std::cmp::Ordering;

impl Filter {
    /// The set of a dimension; `None` when anything goes.
    pub fn get(&self, d: Dim) -> Option<&ValueSet> {
        let i = self.0.binary_search_by(|(k, _)| k.cmp(&d)).ok()?;
        self.0.get(i).map(|(_, s)| s)
    }
    /// Both conditions; `None` when nothing fits. `bits` is the dimension's width.
    pub fn and(&self, d: Dim, set: &ValueSet, bits: u8) -> Option<Filter> {
        let mut f = self.clone();
        f.narrow(d, set, bits).then_some(f)
    }
    /// Adds a condition in place; false when nothing fits any more.
    pub fn narrow(&mut self, d: Dim, set: &ValueSet, bits: u8) -> bool {
        match self.0.binary_search_by(|(k, _)| k.cmp(&d)) {
            Ok(i) => {
                let s = self.0[i].1.intersect(set);
                let ok = !s.is_empty();
                self.0[i].1 = s;
                ok
            }
            Err(_) if set.is_full(bits) => true,
            Err(i) => {
                self.0.insert(i, (d, set.clone()));
                !set.is_empty()
            }
        }
    }
    /// What of this does not fit `f`, in disjoint pieces. `width` tells a dimension's width.
    pub fn subtract(mut self, f: &Filter, width: impl Fn(Dim) -> u8, out: &mut Vec<Filter>) {
        for (d, set) in &f.0 {
            let bits = width(*d);
            if let Some(piece) = self.and(*d, &set.complement(bits), bits) {
                out.push(piece);
            }
            if !self.narrow(*d, set, bits) {
                return;
            }
        }
    }
    /// Does every packet that fits `other` fit this?
    pub fn covers(&self, other: &Filter) -> bool {
        let mut theirs = Rest(&other.0);
        self.0
            .iter()
            .all(|(d, s)| theirs.get(*d).is_some_and(|o| o.is_subset(s)))
    }
    /// Does no packet fit both, as far as single dimensions tell?
    pub fn is_disjoint(&self, other: &Filter) -> bool {
        let mut theirs = Rest(&other.0);
        self.0
            .iter()
            .any(|(d, s)| theirs.get(*d).is_some_and(|o| o.is_disjoint(s)))
    }
}

/// What is left of a filter's conditions while dimensions are asked for in order: two filters are compared in one walk.
struct Rest<'a>(&'a [(Dim, ValueSet)]);

impl<'a> Rest<'a> {
    /// The set of a dimension that is behind all asked for before.
    fn get(&mut self, d: Dim) -> Option<&'a ValueSet> {
        while let Some(((k, set), rest)) = self.0.split_first() {
            match k.cmp(&d) {
                Ordering::Less => self.0 = rest,
                Ordering::Equal => return Some(set),
                Ordering::Greater => return None,
            }
        }
        None
    }
}
