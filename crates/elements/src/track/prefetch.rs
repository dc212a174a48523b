//! Memory that a table of connections will read is asked for ahead: of packets that are tracked soon, and of
//! connections that give way next. It is a matter of speed alone.
//!
//! A new connection in a full table reads, and writes, what is known of two connections: where the index has both by
//! the keys of their packets, and by those of their replies where they are translated; what is kept of the one that
//! goes, and of those that are listed with it. All of that is found at random, in tables of many megabytes.

use super::conn_index::key_ahead;
use super::key::Ends;
use super::table::{ConnTable, Record, SWEPT};
use super::translations::source_hash;
use onefold_table::prefetch;

/// Connections that give way are prefetched in steps of so many, each of which reads what the one before has asked for:
/// a look-up from far away takes about as long as a new connection does.
const STEP: usize = 3;

impl ConnTable {
    /// A packet will be tracked soon: where its connection would be found is asked for.
    #[inline]
    pub fn prefetch_packet(&self, net: &[u8]) {
        let Some((key, flipped)) = key_ahead(net) else {
            return;
        };
        self.index.prefetch(self.hash(&key));
        if !self.settings.translates {
            return;
        }
        let mut ends = Ends::of(&key, flipped);
        let hash = source_hash(&self.hasher, &ends.src, ends.protocol);
        self.translations.prefetch_source(hash);
        // most connections become what the last one became, and keep their ports
        if let Some(address) = self.translations.last_source() {
            ends.src.address = address;
            let (back, _) = ends.answered_key();
            self.index.prefetch(self.hash(&back));
        }
    }

    /// A connection has given way at this place of the table. While the table is full, and few connections are assured,
    /// the ones that are next follow at equal distances: their memory is asked for.
    #[inline]
    pub(super) fn prefetch_victims(&self, i: u32) {
        let place = |steps: usize| {
            let at = i as usize + steps * STEP * (SWEPT + 1);
            let len = self.records.len();
            // behind the last one comes the first one
            if at < len { at } else { at.wrapping_sub(len) }
        };
        let record = |at: usize| -> Option<&Record> { self.records.get(at) };
        let next = place(1);
        // a sweep looks at what is noted of all on the way there: a line has one and a half
        for at in (next..next + SWEPT + 1).step_by(2) {
            if let Some(n) = self.noted.get(at) {
                prefetch(n);
            }
        }
        let hashes = record(next).map(|r| r.hashes).unwrap_or_default();
        self.index.prefetch(hashes.own);
        if !self.settings.translates {
            if let Some(r) = record(place(2)) {
                prefetch(r);
            }
            return;
        }
        if let Some(t) = self.translation(next as u32) {
            self.index.prefetch(hashes.back);
            self.translations.prefetch_around(t, hashes.source);
        }
        self.translations.prefetch(place(2) as u32);
        let last = place(3);
        if let Some(r) = record(last) {
            prefetch(r);
        }
        self.given.prefetch(last as u32);
    }
}
