//! Why packets are dropped.

use onefold_element::DropReason;

pub(super) const CUT: DropReason = "NAT64: header or packet that is cut off";
pub(super) const EXTENSION: DropReason = "NAT64: too many extension headers";
pub(super) const FRAGMENT_EXTENSION: DropReason =
    "NAT64: extension headers behind a fragment header";
pub(super) const SOURCE_ROUTE: DropReason = "NAT64: source route that has not ended";
pub(super) const PROTOCOL: DropReason = "NAT64: neither TCP, UDP nor ICMP";
pub(super) const NO_PREFIX: DropReason = "NAT64: destination stands for no IPv4 address";
pub(super) const PREFIX_SOURCE: DropReason = "NAT64: source is in the prefix of IPv4 addresses";
pub(super) const NOT_GLOBAL: DropReason =
    "NAT64: IPv4 address that is not global behind 64:ff9b::/96 (RFC 6052 3.1)";
pub(super) const NO_HOST: DropReason = "NAT64: destination is no single IPv4 host";
pub(super) const CROWDED: DropReason = "NAT64: too many IPv6 hosts";
pub(super) const UNKNOWN: DropReason = "NAT64: no IPv6 host has this handle";
pub(super) const NO_FLOW: DropReason = "NAT64: ICMP error about a packet of nobody's";
pub(super) const ICMP: DropReason = "NAT64: ICMP message that has no counterpart";
pub(super) const ICMP_FRAGMENT: DropReason = "NAT64: fragment of an ICMP message";
pub(super) const ICMP_CHECKSUM: DropReason = "NAT64: ICMP error with a wrong checksum";
pub(super) const NO_CHECKSUM: DropReason = "NAT64: UDP without a checksum that can be made";
pub(super) const TOO_BIG: DropReason = "NAT64: longer than the MTU, and not to be fragmented";
pub(super) const TOO_LONG: DropReason = "NAT64: longer than an IPv4 packet can be";
pub(super) const NO_HEADER: DropReason = "NAT64: no IP header at its beginning";
