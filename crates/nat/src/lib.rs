//! Bindings of address translators: what they are, which rewriter has which, for how long, and which are evicted.
//!
//! - [`FlowTable`]: all bindings of one rewriter, or of several that share a capacity; a [`Record`] is one binding,
//!   found by [`FlowId`]s of both directions. It is a state of the graph's store, so that every execution works on the
//!   same bindings.
//! - [`Balancer`]: which server a connection gets, whatever version of IP it is of; it chooses as a [`Mapper`] does.
//! - [`InputSpec`], [`Pattern`], [`Mapper`]: what becomes of new flows; [`RewriterHandle`], [`entry`] and [`create`]
//!   look up bindings and make them.
//! - [`Binder`]: the bindings of a batch's packets, headers in [`Columns`], memory prefetched.
//! - [`Leases`]: flows that a flow table in front keeps in use without touching their records.
//! - [`apply`]: writing a binding into a packet.
//! - `endpoints.rs`: mappings of inside addresses and ports that hold whomever they talk to.
//!
//! The elements that use them (IPRewriter and its family) are in `onefold-elements`; this crate knows no element.
//!
//! **Bounds.** A table holds at most [`MAX_FLOWS`] flows; evictions, searches and remembered fragments have bounds that
//! are stated where they are made.
//!
//! **Inlining across crates.** What lies on the way of each packet (look-ups, stamps, [`Binder::bind`],
//! [`Binder::ask_row`], [`Binder::bind_new`], the setters of [`Columns`]) is `#[inline]` or `#[inline(always)]`: the
//! profile `quick` has no link-time optimisation, and loops over sixteen packets are vectorised only where all of their
//! body is seen by one crate.
#![forbid(unsafe_code)]

mod access;
mod age_queue;
pub mod apply;
mod balancer;
mod binder;
mod choice;
mod columns;
mod destinations;
mod endpoints;
mod eviction_cursor;
mod flood;
mod flow_id;
mod fragments;
mod hash_key;
mod hash_ring;
mod insert_evict;
mod kind;
mod lease;
mod maglev;
mod mapper;
mod pattern;
mod port_exhaustion;
mod prefetch;
mod record;
mod record_leases;
mod sequence_shifts;
mod spec;
mod table;
mod table_state;

pub use access::{EntryMode, NoFlow, RewriterHandle, answering, create, entry, has_ports, resolve};
pub use balancer::{BalancedFlow, BalancedServer, Balancer, ServerEnd, Spread};
pub use binder::{BindAnswer, Binder, FlowBinding, Wanted};
pub use columns::{BindRequest, COLUMNS, Columns, FlowPacket, HEADER_BYTES, HEADER_WORDS, ROW};
pub use destinations::{COUNTED_AT_ONCE, DestinationCounts};
pub use flow_id::{FlowId, checksum_addend, checksum_shift};
pub use fragments::{FragmentFate, MAX_FRAGMENTED};
pub use kind::{REWRITER_CLASSES, Reasons, RewriterKind};
pub use lease::{BoundBy, LastingBinding, Leases, NO_LEASE};
pub use maglev::{MAX_TABLE, TABLE_SIZE, is_table_size};
pub use mapper::{Mapper, ServerAddr};
pub use pattern::{Pattern, PatternRef, PatternSet};
pub use prefetch::{PrefetchPacket, prefetch_bindings};
pub use record::{CLASSES, Counts, FlowRef, Hit, Member, Record, Timeout, Track};
pub use record_leases::RecordLeases;
pub use sequence_shifts::SequenceShifts;
pub use spec::InputSpec;
pub use table::{DEFAULT_CAPACITY, FlowTable, MAX_FLOWS};
