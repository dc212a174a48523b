//! Invariant 10: no packet comes round to a stage within one epoch.

use super::{Checker, Place, stage_place};
use crate::progress::loops;

impl Checker<'_> {
    /// Invariant 10.
    pub(super) fn progress(&mut self) {
        if let Some(t) = loops(self.p.stages.iter().map(Some)) {
            self.place = stage_place(t);
            self.wrong(10, format!("a way within one epoch leads back to stage{t}"));
            self.place = Place::default();
        }
    }
}
