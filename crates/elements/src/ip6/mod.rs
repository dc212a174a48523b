//! IPv6: header checks, look-ups, hop limit, ICMPv6 errors and echo, neighbor discovery, translation of
//! prefixes and to IPv4.

mod filter;
mod header;
mod icmp6_error;
mod lookup;
mod nat64;
pub(crate) mod neighbor;
mod ping;
mod prefix_map;
mod prefix_translate;
#[cfg(test)]
mod testpkt;

use onefold_element::ElementClass;
use onefold_element::args::{ArgScope, FromArg, Ip6Prefix, split_words, unquote};
use onefold_element::model::{Case, Cond, Exit, Read, ValueSet};
use onefold_packet::Packet;
use onefold_packet::wire::ipv6::{EXTENSION_HEADERS, Header};

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    filter::IP6_FILTER,
    header::CHECK_IP6_HEADER,
    header::DEC_IP6_HLIM,
    header::GET_IP6_ADDRESS,
    header::IP6_ENCAP,
    header::IP6_MIRROR,
    header::MARK_IP6_HEADER,
    header::SET_IP6_ADDRESS,
    header::SET_IP6_DSCP,
    icmp6_error::ICMP6_ERROR,
    icmp6_error::IP6_FRAGMENTER,
    lookup::LOOKUP_IP6_ROUTE,
    nat64::NAT64,
    neighbor::IP6_ND_ADVERTISER,
    neighbor::IP6_ND_SOLICITOR,
    ping::ICMP6_PING_RESPONDER,
    prefix_translate::IP6_PREFIX_TRANSLATE,
];

/// A view of the IPv6 header that the network header annotation points at.
fn header(p: &Packet) -> Option<Header<&[u8]>> {
    Header::parse(p.network()?)
}

/// Guards that a model begins with: packets without a marked network header, or with fewer than 40 bytes of it, leave
/// so.
fn unless_header(exit: Exit) -> [Case; 2] {
    [
        Case::new(Cond::In(Read::HasNet, ValueSet::one(0)), exit.clone()),
        Case::new(Cond::less(Read::NetLen, 40), exit),
    ]
}

/// Next headers that are extension headers, behind which the upper-layer header stands.
pub(crate) fn extensions() -> ValueSet {
    ValueSet::from_intervals(EXTENSION_HEADERS.map(|n| (n.into(), n.into())))
}

const EXTENSIONS: &str = "IPv6 extension headers";

/// [`header`], to be changed.
fn header_mut(p: &mut Packet) -> Option<Header<&mut [u8]>> {
    Header::parse(p.network_mut()?)
}

/// The checksum of an upper-layer message whose checksum field is zero (RFC 8200 8.1).
fn checksum(src: &[u8; 16], dst: &[u8; 16], next: u8, message: &[u8]) -> u16 {
    use onefold_packet::checksum::{fold, pseudo_v6, sum};
    !fold(sum(
        message,
        pseudo_v6(src, dst, next, message.len() as u32),
    ))
}

/// Names of IP protocols that an argument may use.
fn protocol_number(name: &str) -> Option<u8> {
    Some(match name {
        "icmp" => 1,
        "igmp" => 2,
        "ipip" => 4,
        "tcp" => 6,
        "udp" => 17,
        "dccp" => 33,
        "gre" => 47,
        "icmp6" => 58,
        "sctp" => 132,
        _ => return None,
    })
}

/// IPv6 addresses and prefixes separated by spaces, in quotes or not (Click wants quotes around more than one, and
/// takes addresses only).
struct Ip6List(Vec<Ip6Prefix>);

impl FromArg for Ip6List {
    const WANTS: &'static str = "IPv6 addresses or prefixes separated by spaces";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let s = String::from_utf8_lossy(&unquote(s)).into_owned();
        let all: Result<_, _> = split_words(&s)
            .iter()
            .map(|w| Ip6Prefix::from_arg(w, scope))
            .collect();
        all.map(Ip6List).map_err(|_| None)
    }
}
