//! NAT64: IPv6 hosts reach IPv4 hosts (RFC 6146, with the translation of RFC 7915 and the addresses of RFC 6052).
//!
//! `NAT64(PREFIX, HOST_1, ..., HOST_n)` is the half of a NAT64 that knows of IPv6. At input 0 come IPv6 packets to
//! addresses in PREFIX; they leave at output 0 as IPv4 packets to the address that stands behind the prefix. Their
//! source is the host's *handle*, an IPv4 address of 240.0.0.0/4 that nobody else has ([`hosts`]). Rewriters of IPv4
//! stand behind it and give such packets, as any others, an outside address and port: mapping, filtering, time-outs,
//! hairpinning and ICMP errors are theirs. At input 1 come IPv4 packets to handles; they leave at output 1 as IPv6
//! packets to the host. HOST_k has the handle 240.0.0.(k-1) for ever, so that static rules can name it.
//!
//! Both inputs take packets that begin with their IP header and have been checked (CheckIPHeader, CheckIP6Header). The
//! frame's header in front of it gets the other EtherType. TTL and hop limit are copied: what decrements them stands
//! beside. What is translated:
//!
//! - TCP and UDP: checksums are adjusted. A UDP checksum of zero is made up for towards IPv6 (7915 4.5); of fragments,
//!   and from IPv6, where it is not allowed, such packets are dropped.
//! - Echo requests and replies.
//! - ICMP errors, with the packet that they quote, which must be one of a host that has a handle. MTUs differ by 20 and
//!   are at most that of the link (`MTU`, 1500). Extensions (RFC 4884) are left out. Their source, from IPv6, is the
//!   handle of who the quoted packet was for.
//! - Fragments of TCP and UDP. Those of ICMP are dropped, as its checksum is over the length of the whole.
//! - From IPv6, packets of up to 1,260 bytes as IPv4 may be fragmented on their way, and have an identification; longer
//!   ones must not (7915 5.1). Extension headers but the fragment header are left out.
//! - From IPv4, packets that may be fragmented and are longer than `LOWEST_MTU` (1280) are cut in fragments; others
//!   that are longer than `MTU` leave as they came at output 2, where an ICMPError belongs. Options are left out, but
//!   for source routes, with which packets are dropped.
//!
//! A host's handle is taken back when `CAPACITY` (1048576) hosts have one, and rewriters with the time-outs
//! `TCP_TIMEOUT`, `TCP_TRANSITORY_TIMEOUT`, `UDP_TIMEOUT` and `ICMP_TIMEOUT` and a sweep every `SWEEP` seconds have
//! forgotten all its flows. Whoever gets none is dropped.
//!
//! Handlers: `hosts` has a line for each handle, `count` their number.

mod datagram;
mod element;
mod hosts;
mod icmp;
mod prefix;
mod reasons;
mod translate;

#[cfg(test)]
mod tests;

pub(super) use element::NAT64;
