//! What rules have made of connections, by their numbers: marks.

use onefold_table::{HugeVec, prefetch};

/// The marks of all connections, by their numbers; of those behind the end, zero. Records are one line of the cache
/// without them, and tables that know no marks never have any.
#[derive(Debug, Clone, Default)]
pub(super) struct AllGiven(HugeVec<u32>);

impl AllGiven {
    /// What has been made of a connection will be asked.
    #[inline]
    pub fn prefetch(&self, i: u32) {
        if let Some(g) = self.0.get(i as usize) {
            prefetch(g);
        }
    }

    /// A connection's mark. It stays for the packet that has ended the connection, which may still be in hand.
    #[inline]
    pub fn mark(&self, i: u32) -> u32 {
        self.0.get(i as usize).copied().unwrap_or(0)
    }

    /// Bound: as many as there are records.
    pub fn set_mark(&mut self, i: u32, mark: u32) {
        while self.0.len() <= i as usize {
            self.0.push(0);
        }
        if let Some(m) = self.0.get_mut(i as usize) {
            *m = mark;
        }
    }
}
