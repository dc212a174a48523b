//! Leases: a flow is used without its record being written to.
//!
//! A flow table in front of a chain writes one word per packet, however many rewriters the chain has; records that the
//! flow goes through share it ([`Leases::word`]). The word is the flow's last use, in the same stamps as the records'
//! own, and says when what was remembered is no longer so. A table looks at it when it wants to know how old a record
//! is: when something expires, has to make room, or is listed.
//!
//! A record whose connection changes state, that goes, or whose sequence numbers begin to be shifted,
//! [ends](Leases::end) its lease. The last use stays readable until the lease is given back.

use crate::record::FlowRef;
use onefold_packet::Timestamp;
use onefold_state::StateId;
use onefold_table::HugeVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// No lease.
pub const NO_LEASE: u32 = u32::MAX;
/// Bit of a word: the lease has ended.
const ENDED: u64 = 1 << 63;
/// Bits of a stamp below the millisecond: a running number, so that stamps are never equal.
pub(crate) const STAMP_BITS: u32 = 20;

/// What tells which packets a binding is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundBy {
    /// Their addresses, ports and protocol where the rewriter is.
    Fields,
    /// The same as they were when they came, and a tracker in front that has been asked about each of them: it
    /// [ends](crate::RecordLeases::end) what was said of a connection before a packet with its fields goes on that is
    /// not one of its packets.
    Arrival,
    /// What another element has said of the same packet before, in the same part of its way.
    Earlier,
}

/// A binding that the next packets of the flow only refresh, as long as nothing else happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastingBinding {
    /// The flow table.
    pub table: StateId,
    /// The record in it.
    pub flow: FlowRef,
    /// Whose it is.
    pub by: BoundBy,
    /// A UDP checksum that comes to zero is written as all ones, as it says that there is none (RFC 768).
    pub no_zero: bool,
}

/// The words of all leases, and the clock that they share with the tables. One thread uses them; the words are atomic
/// because the tables and the flow table both hold on to them.
#[derive(Debug)]
pub struct Leases {
    words: HugeVec<AtomicU64>,
    clock: AtomicU64,
}

impl Leases {
    /// So many of them, none in use.
    pub fn new(n: usize) -> Arc<Leases> {
        let n = n.min(NO_LEASE as usize);
        // which of them a packet writes is anybody's guess
        Arc::new(Leases {
            words: (0..n).map(|_| AtomicU64::new(ENDED)).collect(),
            clock: AtomicU64::new(0),
        })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.words.len()
    }
    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Bytes of the words.
    pub fn memory_bytes(&self) -> usize {
        self.words.bytes()
    }

    /// The last stamp that was given.
    #[inline]
    pub fn clock(&self) -> u64 {
        self.clock.load(Relaxed)
    }
    /// Stamps up to this one have been given.
    #[inline]
    pub fn set_clock(&self, stamp: u64) {
        self.clock.store(stamp, Relaxed);
    }
    /// The stamp behind `last`: of this moment, after all others.
    #[inline]
    pub fn stamp_after(last: u64, now: Timestamp) -> u64 {
        Leases::first_stamp(now).max(last + 1)
    }
    /// The first stamp of a moment's millisecond.
    #[inline]
    pub fn first_stamp(now: Timestamp) -> u64 {
        (now.nanos().max(0) as u64 / 1_000_000) << STAMP_BITS
    }

    /// All words: for loops that touch many of them.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        &self.words
    }
    /// A packet of the flow at `stamp`. False, and nothing is noted, when the lease has ended.
    #[inline]
    pub fn touch(&self, lease: u32, stamp: u64) -> bool {
        Leases::touch_word(&self.words, lease, stamp)
    }
    /// [`Leases::touch`] in these [words](Leases::words).
    #[inline(always)]
    pub fn touch_word(words: &[AtomicU64], lease: u32, stamp: u64) -> bool {
        match words.get(lease as usize) {
            Some(w) if w.load(Relaxed) & ENDED == 0 => {
                w.store(stamp, Relaxed);
                true
            }
            _ => false,
        }
    }
    /// The word, to be read ahead of its use.
    #[inline]
    pub fn word(&self, lease: u32) -> Option<&AtomicU64> {
        self.words.get(lease as usize)
    }
    /// Is it running?
    #[inline]
    pub fn runs(&self, lease: u32) -> bool {
        self.words
            .get(lease as usize)
            .is_some_and(|w| w.load(Relaxed) & ENDED == 0)
    }
    /// Begins a lease with the flow's last use.
    pub fn begin(&self, lease: u32, stamp: u64) {
        if let Some(w) = self.words.get(lease as usize) {
            w.store(stamp & !ENDED, Relaxed);
        }
    }
    /// Ends a lease; nothing happens to one that has ended.
    pub fn end(&self, lease: u32) {
        if let Some(w) = self.words.get(lease as usize) {
            w.store(w.load(Relaxed) | ENDED, Relaxed);
        }
    }
    /// When the flow was last used, as far as the lease knows.
    #[inline]
    pub fn last_use(&self, lease: u32) -> u64 {
        self.words
            .get(lease as usize)
            .map_or(0, |w| w.load(Relaxed) & !ENDED)
    }
}
