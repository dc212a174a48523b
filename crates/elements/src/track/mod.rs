//! Connection tracking: what netfilter's nf_conntrack tells rules of packets.
//!
//! A packet comes to a [ConnTrack](conn_track) where it enters a function, before any rule, and leaves at the output of
//! its state (new, established, related, invalid, untracked). Its connection is entered in the table only when it has
//! passed the rules: at a [ConnConfirm](conn_confirm) behind them; a packet that is dropped leaves no connection. The
//! Where rules translate addresses, a [ConnDstNat](conn_nat) in front of the rules and a ConnSrcNat behind them do it
//! as the connection says, and a [ConnBalancer](conn_balancer) may choose among servers; a [ConnStatus](conn_status)
//! tells packets apart behind them. Marks that rules give to
//! connections are asked for by [ConnMark](conn_mark) and set by ConnSetMark. The table itself is a
//! [ConnTable](conn_table), which both name; [`table`] is what it holds, [`headers`] what is read of packets, [`tcp`]
//! the state machine of TCP.
//!
//! Source: Linux, net/netfilter/nf_conntrack_core.c, nf_conntrack_proto_{tcp,udp,icmp,icmpv6,generic}.c. What is not
//! the same is listed at [`conn_table`].

mod apply;
mod batch;
mod begin;
mod bind;
mod choose;
pub mod class;
mod conn_balancer;
mod conn_confirm;
mod conn_index;
mod conn_mark;
mod conn_nat;
mod conn_status;
mod conn_table;
mod conn_track;
mod given;
mod headers;
mod key;
mod prefetch;
mod range;
pub(crate) mod rename;
mod report;
mod settings;
mod table;
mod table_user;
mod tcp;
mod translate;
mod translations;

#[cfg(test)]
mod nat_tests;
#[cfg(test)]
mod tests;

use onefold_element::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    conn_table::CONN_TABLE,
    conn_track::CONN_TRACK,
    conn_confirm::CONN_CONFIRM,
    conn_nat::CONN_DST_NAT,
    conn_nat::CONN_SRC_NAT,
    conn_balancer::CONN_BALANCER,
    conn_status::CONN_STATUS,
    conn_mark::CONN_MARK,
    conn_mark::CONN_SET_MARK,
];
