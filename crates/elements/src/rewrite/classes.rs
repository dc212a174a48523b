//! Classes of the six rewriters.

use super::rewriter::Rewriter;
use onefold_element::{Effect, ElementClass};
use onefold_nat::RewriterKind;

macro_rules! class {
    ($const:ident, $name:literal, $kind:expr, $keywords:literal, $summary:literal) => {
        #[doc = concat!("`", $name, "`.")]
        pub const $const: ElementClass = ElementClass {
            name: $name,
            ports: "1-/1-",
            processing: "h/h",
            flow: "x/x",
            effect: Effect::PerFlow,
            usage: concat!("INPUTSPEC_1, ..., INPUTSPEC_n [, keywords ", $keywords, "]"),
            summary: $summary,
            new: || Box::new(Rewriter::new($kind)),
        };
    };
}

class!(
    IP_REWRITER,
    "IPRewriter",
    RewriterKind::Ip,
    "TCP_TIMEOUT, TCP_DONE_TIMEOUT, TCP_NODATA_TIMEOUT, TCP_GUARANTEE, UDP_TIMEOUT, UDP_STREAMING_TIMEOUT, UDP_GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY, TAKE_OVER, MAPPING, RESERVED, TCP_HANDSHAKE, FRAGMENTS, DST_ANNO, REPLY_ANNO",
    "rewrites addresses and ports of TCP and UDP flows: NAPT, load balancing"
);
class!(
    TCP_REWRITER,
    "TCPRewriter",
    RewriterKind::Tcp,
    "TCP_TIMEOUT, TCP_DONE_TIMEOUT, TCP_NODATA_TIMEOUT, TCP_GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY, TAKE_OVER, MAPPING, RESERVED, TCP_HANDSHAKE, FRAGMENTS, DST_ANNO, REPLY_ANNO",
    "rewrites addresses, ports and sequence numbers of TCP flows"
);
class!(
    UDP_REWRITER,
    "UDPRewriter",
    RewriterKind::Udp,
    "TIMEOUT, STREAMING_TIMEOUT, GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY, TAKE_OVER, MAPPING, RESERVED, FRAGMENTS, DST_ANNO, REPLY_ANNO",
    "rewrites addresses and ports of UDP (or TCP) flows"
);
class!(
    IP_ADDR_REWRITER,
    "IPAddrRewriter",
    RewriterKind::Addr,
    "TIMEOUT, GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY, TAKE_OVER, REPLY_ANNO",
    "rewrites source addresses, and back in replies: basic NAT"
);
class!(
    IP_ADDR_PAIR_REWRITER,
    "IPAddrPairRewriter",
    RewriterKind::AddrPair,
    "TIMEOUT, GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY, TAKE_OVER, REPLY_ANNO",
    "rewrites pairs of source and destination address"
);
class!(
    ICMP_PING_REWRITER,
    "ICMPPingRewriter",
    RewriterKind::Ping,
    "TIMEOUT, GUARANTEE, REAP_INTERVAL, MAPPING_CAPACITY, TAKE_OVER, MAPPING, FRAGMENTS, DST_ANNO, REPLY_ANNO",
    "rewrites addresses and identifiers of ICMP echo requests and replies"
);
