//! What is found out about a packet before its action is applied.

use crate::flow::table::{KEY, NO_SLOT, Slot};
use crate::simd::window_rewrite::Operands as FlowOperands;
use onefold_nat::NO_LEASE;

/// Nothing has been seen yet.
pub(crate) const UNKNOWN: u32 = u32::MAX;

/// Flows have something of their own.
pub(crate) const BY_FLOW: u32 = u32::MAX - 1;

/// What was found out about a packet.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct PacketMeta {
    /// What its flow, or its place, has for itself.
    pub operands: FlowOperands,
    /// The action, if it is known; [`BY_FLOW`] where the table is to be asked, [`UNKNOWN`] where nobody is.
    pub action: u32,
    /// Bytes from the IP header on, as it says.
    pub total: u32,
    /// The flow's lease.
    pub lease: u32,
    /// The flow's entry.
    pub slot: Slot,
    pub hash: u64,
    /// The first rule of the program's entry stage that fits, or [`ASK`].
    pub rule: u32,
    /// Index of the masked match, or [`NO_MATCH`].
    pub guard: u16,
    /// Its flow has been met before: asked only where unknown flows have a share of time ([`crate::flow::policy::admission`]).
    pub again: bool,
    /// The UDP checksum, as it stands on the wire; zero for other protocols, and where there is none.
    pub sum: u16,
    pub key: [u64; KEY],
}

/// Of an entry stage's rule nothing is known.
pub(crate) const ASK: u32 = u32::MAX - 1;

impl Default for PacketMeta {
    fn default() -> Self {
        PacketMeta {
            key: [0; KEY],
            hash: 0,
            again: false,
            sum: 0,
            total: 0,
            guard: NO_MATCH,
            operands: FlowOperands::default(),
            action: UNKNOWN,
            lease: NO_LEASE,
            slot: NO_SLOT,
            rule: ASK,
        }
    }
}

/// Not for the flow table.
pub(crate) const NO_MATCH: u16 = u16::MAX;
