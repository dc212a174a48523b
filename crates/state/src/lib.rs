//! State that several parts of a graph share ([`StateStore`]), and the few names that everything which works on a graph
//! has in common: elements by number ([`ElemId`]), ports ([`Port`]), why a packet was dropped ([`DropReason`]).
//!
//! It lies below `nat`, whose tables are states, and below `element`, whose elements use them.
#![forbid(unsafe_code)]

mod scope;
mod store;

pub use scope::{Partition, Scope};
pub use store::{State, StateId, StateStore, Takes};

/// Index of an element in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElemId(pub u32);

/// An input or output port number of an element.
pub type Port = usize;

/// Why a packet went no further: a stable, documented text such as `"CheckIPHeader: bad checksum"`.
pub type DropReason = &'static str;
