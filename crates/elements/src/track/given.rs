//! What rules have made of connections, by their numbers: which are translated, and marks.

use onefold_table::{HugeVec, prefetch};

/// Of a connection that is not translated.
pub(super) const NOT_TRANSLATED: u32 = u32::MAX;

/// What rules have made of a connection.
#[derive(Debug, Clone, Copy)]
struct Given {
    /// What is translated: its number in [`Translations`].
    translation: u32,
    /// The mark.
    mark: u32,
}

const NOTHING_GIVEN: Given = Given {
    translation: NOT_TRANSLATED,
    mark: 0,
};

/// The same of all connections, by their numbers; of those behind the end, nothing. Records are one line of the cache
/// without it, and tables that neither translate nor know marks never have any.
#[derive(Debug, Clone, Default)]
pub(super) struct AllGiven(HugeVec<Given>);

impl AllGiven {
    #[inline]
    fn of(&self, i: u32) -> Given {
        self.0.get(i as usize).copied().unwrap_or(NOTHING_GIVEN)
    }

    /// The number of a connection's translation, or one that none has.
    #[inline]
    pub fn translation(&self, i: u32) -> u32 {
        self.of(i).translation
    }

    /// What has been made of a connection will be asked.
    #[inline]
    pub fn prefetch(&self, i: u32) {
        if let Some(g) = self.0.get(i as usize) {
            prefetch(g);
        }
    }

    /// A connection's mark.
    pub fn mark(&self, i: u32) -> u32 {
        self.of(i).mark
    }

    pub fn set_mark(&mut self, i: u32, mark: u32) {
        if let Some(g) = self.of_mut(i) {
            g.mark = mark;
        }
    }

    pub fn set_translation(&mut self, i: u32, translation: u32) {
        if let Some(g) = self.of_mut(i) {
            g.translation = translation;
        }
    }

    /// Bound: as many as there are records.
    fn of_mut(&mut self, i: u32) -> Option<&mut Given> {
        while self.0.len() <= i as usize {
            self.0.push(NOTHING_GIVEN);
        }
        self.0.get_mut(i as usize)
    }

    /// The connection goes: the number of its translation. Its mark stays for the packet that has ended it, which may
    /// still be in hand.
    pub fn take_translation(&mut self, i: u32) -> u32 {
        let given = self.0.get_mut(i as usize);
        given.map_or(NOT_TRANSLATED, |g| {
            std::mem::replace(&mut g.translation, NOT_TRANSLATED)
        })
    }
}
