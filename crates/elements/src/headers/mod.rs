//! Headers: stripping, checking, encapsulating, checksums, paint, time stamps.
//!
//! Where Click would read past a packet or through a header annotation that is not set, these elements drop the packet
//! with a reason instead; each module says where.

mod annotate;
mod arg;
mod check_arp;
mod check_ip;
mod check_l4;
mod checksum;
mod crc;
mod encap;
mod ether;
mod ether_encap;
mod hop_limit;
mod ip_fields;
mod length;
mod mark;
mod number;
mod refusal;
mod resize;
mod strip;
mod tcp_mss;
mod tcp_option;
mod time_filter;
mod timestamp;
mod vlan;
mod vlan_encap;

use onefold_element::{Effect, Element, ElementClass};
use onefold_packet::{Packet, wire::ipv4};

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    annotate::PAINT,
    annotate::PAINT_TEE,
    annotate::SET_ANNO_BYTE,
    annotate::SET_PACKET_TYPE,
    annotate::STORE_DATA,
    check_arp::CHECK_ARP_HEADER,
    check_ip::CHECK_IP_HEADER,
    check_ip::CHECK_IP_HEADER2,
    check_l4::CHECK_ICMP_HEADER,
    check_l4::CHECK_TCP_HEADER,
    check_l4::CHECK_UDP_HEADER,
    checksum::RESET_IP_CHECKSUM,
    checksum::SET_IP_CHECKSUM,
    checksum::SET_TCP_CHECKSUM,
    checksum::SET_UDP_CHECKSUM,
    crc::CHECK_CRC32,
    crc::SET_CRC32,
    encap::IP_ENCAP,
    encap::UDP_IP_ENCAP,
    ether::ENSURE_ETHER,
    ether::ETHER_MIRROR,
    ether::ETHER_REWRITE,
    ether::STORE_ETHER_ADDRESS,
    ether_encap::ETHER_ENCAP,
    ip_fields::IP_MIRROR,
    ip_fields::MARK_IP_CE,
    ip_fields::SET_IP_DSCP,
    ip_fields::SET_IP_ECN,
    hop_limit::SET_IP_TTL,
    hop_limit::SET_IP6_HLIM,
    length::ALIGN,
    length::PAD,
    length::TRUNCATE,
    mark::MARK_IP_HEADER,
    mark::MARK_MAC_HEADER,
    number::NUMBER_PACKET,
    resize::RESIZE,
    tcp_option::TCP_OPTION_CHECK,
    strip::STRIP,
    strip::STRIP_ETHER_VLAN_HEADER,
    strip::STRIP_ETHER_VLAN_HEADER_OLD,
    strip::STRIP_IP_HEADER,
    strip::STRIP_TCP_HEADER,
    strip::STRIP_TO_NETWORK_HEADER,
    strip::STRIP_TRANSPORT_HEADER,
    strip::STRIP_UDP_HEADER,
    strip::UNSTRIP,
    strip::UNSTRIP_IP_HEADER,
    strip::UNSTRIP_TRANSPORT_HEADER,
    tcp_mss::SET_TCP_MSS,
    time_filter::TIME_FILTER,
    timestamp::ADJUST_TIMESTAMP,
    timestamp::SET_TIMESTAMP,
    timestamp::SET_TIMESTAMP_DELTA,
    timestamp::TIME_RANGE,
    timestamp::TIMESTAMP_ACCUM,
    vlan::SET_VLAN_ANNO,
    vlan::SET_VLAN_ANNO_OLD,
    vlan::VLAN_DECAP,
    vlan::VLAN_ENCAP,
    vlan_encap::ETHER_VLAN_ENCAP,
    vlan_encap::ETHER_VLAN_ENCAP_OLD,
];

/// One input, one output, push or pull as its neighbours.
const fn one_to_one(
    name: &'static str,
    effect: Effect,
    usage: &'static str,
    summary: &'static str,
    new: fn() -> Box<dyn Element>,
) -> ElementClass {
    ElementClass {
        name,
        ports: "1/1",
        processing: "a/a",
        flow: "x/x",
        effect,
        usage,
        summary,
        new,
    }
}

/// One input, one output, and a push output for packets that are refused.
const fn with_refusals(
    name: &'static str,
    effect: Effect,
    usage: &'static str,
    summary: &'static str,
    new: fn() -> Box<dyn Element>,
) -> ElementClass {
    ElementClass {
        ports: "1/1-2",
        processing: "a/ah",
        ..one_to_one(name, effect, usage, summary, new)
    }
}

/// The IPv4 header that the network header annotation points at, if its fixed part is in the packet. The version is
/// not looked at.
#[inline]
fn ip_header(p: &Packet) -> Option<ipv4::Header<&[u8]>> {
    p.network().and_then(ipv4::Header::parse)
}

/// Click's text for a `pull` of more bytes than there are.
fn pull_message(wanted: i32, length: usize) -> String {
    format!("Packet::pull {wanted} > length {length}\n")
}
