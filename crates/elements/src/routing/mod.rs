//! Routing: look-ups and the other parts of an IP router; ARP and ICMP.

mod address;
mod arp_querier;
mod arp_responder;
mod arp_table;
mod arp_table_element;
mod combo;
mod fragmenter;
pub(crate) mod hop;
mod icmp_encap;
mod icmp_error;
mod lookup;
pub mod lpm;
pub mod neighbors;
mod options;
mod ping;
mod reassembler;
pub(crate) mod route_model;
pub mod table;
#[cfg(test)]
pub(crate) mod testpkt;

use onefold_element::ElementClass;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    address::GET_IP_ADDRESS,
    address::SET_IP_ADDRESS,
    address::STORE_IP_ADDRESS,
    arp_querier::ARP_QUERIER,
    arp_responder::ARP_FAKER,
    arp_responder::ARP_RESPONDER,
    arp_table_element::ARP_TABLE,
    combo::IP_INPUT_COMBO,
    combo::IP_OUTPUT_COMBO,
    fragmenter::IP_FRAGMENTER,
    hop::DEC_IP_TTL,
    hop::DROP_BROADCASTS,
    hop::FIX_IP_SRC,
    icmp_encap::ICMP_IP_ENCAP,
    icmp_error::ICMP_ERROR,
    lookup::DIRECT_IP_LOOKUP,
    lookup::LINEAR_IP_LOOKUP,
    lookup::LOOKUP_IP_ROUTE_MP,
    lookup::RADIX_IP_LOOKUP,
    lookup::RANGE_IP_LOOKUP,
    lookup::SORTED_IP_LOOKUP,
    lookup::STATIC_IP_LOOKUP,
    options::IP_GW_OPTIONS,
    ping::ICMP_PING_RESPONDER,
    ping::ICMP_PING_SOURCE,
    ping::ICMP_SEND_PINGS,
    reassembler::IP_REASSEMBLER,
];
