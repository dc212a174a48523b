//! Rewriters: NAT and its mappers.
//!
//! All bindings live in the state store, in [`FlowTable`]s, where a fast path can share them; patterns and mappers keep
//! their state there too. See `table` for how bindings are kept and `rewriter` for the elements.

mod access;
mod apply;
mod asked;
mod bind;
mod binder;
mod chash;
mod crowd;
mod flood;
mod flowid;
mod fragments;
mod ftp;
mod going;
mod handlers;
mod icmp;
mod kind;
mod lease;
mod mapper;
mod pattern;
mod patterns;
mod queue;
mod record;
mod rewriter;
mod room;
mod seed;
mod seqdelta;
mod spec;
mod table;

#[cfg(test)]
mod tests;

use crate::class::ElementClass;
use crate::store::{StateId, StateStore};

pub use asked::{Asked, COLUMNS, Columns, FlowPacket, HEADER_BYTES, HEADER_WORDS, ROW};
pub use binder::{Binder, FlowBinding, Tied, Wanted};
pub use flowid::FlowId;
pub use lease::{Lasting, Leases, NO_LEASE};
pub use mapper::Mapper;
pub use pattern::{Pattern, PatternRef, PatternSet};
pub use record::{FlowRef, Record};
pub use spec::InputSpec;
pub use table::{DEFAULT_CAPACITY, FlowTable, MAX_FLOWS};

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    rewriter::IP_REWRITER,
    rewriter::TCP_REWRITER,
    rewriter::UDP_REWRITER,
    rewriter::IP_ADDR_REWRITER,
    rewriter::IP_ADDR_PAIR_REWRITER,
    rewriter::ICMP_PING_REWRITER,
    icmp::ICMP_REWRITER,
    ftp::FTP_PORT_MAPPER,
    patterns::IP_REWRITER_PATTERNS,
    mapper::ROUND_ROBIN,
    mapper::SOURCE_HASH,
];

/// The pattern sets of all IPRewriterPatterns that are configured so far.
fn named_pattern_sets(classes: &[String], store: &StateStore) -> Vec<StateId> {
    let named = classes.iter().enumerate();
    let named = named.filter(|(_, c)| *c == patterns::IP_REWRITER_PATTERNS.name);
    named
        .filter_map(|(i, _)| store.published_by(crate::ElemId(i as u32)))
        .collect()
}
