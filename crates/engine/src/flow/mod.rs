//! The flow table's level of execution: what the chain did to a flow's packet is done to the next one without asking.
//!
//! A [`FlowRunner`] is a [`ProgramRunner`] with a table in front of it. For a packet that the table does not know,
//! the program runs and its path is written down ([`Path`]); what can be repeated becomes an entry: the composed
//! [`FlowAction`] of the whole chain, with the flow's own addresses, ports and checksum differences, under a key of
//! addresses, ports and guards ([`guard`]). The next packet of the flow costs one look-up and one write, however long
//! the chain is.
//!
//! What stays as it would be without the table, and how:
//!
//! - **Bindings**: an entry has a lease on every record that it stands for ([`lease`]); a hit writes the flow's last use once, for all of
//!   them, in the order of packets. A record that goes or changes state ends the lease, and the entry with it.
//! - **Changes**: a handler that is written to empties the table before the next packet.
//! - **Counts** are told to elements before anyone can ask ([`FlowRunner::sync`]); those that look at the clock, at the end of each
//!   batch; those that print, packet by packet (`Accounts::Now`).
//! - **Order**: packets of a batch are taken in the order in which they came, those that the program runs among them.
//!
//! Every entry is tried on the packet that it was made of: should the outcome not be the packet that the program
//! sent, there is no entry, and [`FlowStats::refused`] counts it.
//!
//! Per packet of a known flow there is no allocation, no lock and no system call. A batch goes through in three
//! steps, so that memory comes while others are looked at: headers and hashes, buckets, entries.

pub(crate) mod action_table;
pub(crate) mod alone;
pub(crate) mod apply;
pub(crate) mod apply_grouped;
pub(crate) mod batch;
pub(crate) mod batch_drain;
pub(crate) mod batch_list;
pub(crate) mod batch_meta;
pub(crate) mod batch_way;
pub(crate) mod bit_range;
pub(crate) mod bucket;
pub(crate) mod compose;
pub(crate) mod composed;
pub(crate) mod enter;
pub(crate) mod exit;
pub(crate) mod extract;
pub(crate) mod field_read;
pub(crate) mod flow_action;
pub(crate) mod fuse;
pub(crate) mod fused_way;
pub(crate) mod go_fused;
pub(crate) mod group_packets;
pub(crate) mod hints;
pub(crate) mod in_place;
pub(crate) mod in_place_way;
pub(crate) mod ingress_cache;
pub(crate) mod inspect_batch;
pub(crate) mod interval_table;
pub(crate) mod key;
pub(crate) mod learn;
pub(crate) mod lease;
pub(crate) mod leased;
pub(crate) mod lookup;
pub(crate) mod mask_match;
pub(crate) mod masked_match;
pub(crate) mod match_order;
pub(crate) mod members;
pub(crate) mod neighbors;
pub(crate) mod noting;
pub(crate) mod origin;
pub(crate) mod overload;
pub(crate) mod packet_meta;
pub(crate) mod patience;
pub(crate) mod plain;
pub(crate) mod policy;
pub(crate) mod questions;
pub(crate) mod rewrite_template;
pub(crate) mod rule_cache;
pub(crate) mod runner;
pub(crate) mod stats;
pub(crate) mod steps;
pub(crate) mod table;
pub(crate) mod taken;
pub(crate) mod transmit;
pub(crate) mod walk;
pub(crate) mod wave;
pub(crate) mod wave_order;
pub(crate) mod waves;
pub(crate) mod windows;

pub use crate::flow::policy::admission::{FLOOD_SHARE, OVERLOAD};
pub use crate::flow::runner::{DEFAULT_FLOWS, FlowRunner};
pub use crate::flow::stats::FlowStats;
pub use crate::flow::taken::Taken;
