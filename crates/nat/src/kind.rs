//! The six kinds of rewriters, as far as bindings depend on them.

use crate::access::{NoFlow, has_ports};
use onefold_packet::wire::ipv4::proto;

/// Which rewriter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriterKind {
    /// IPRewriter.
    Ip,
    /// TCPRewriter.
    Tcp,
    /// UDPRewriter.
    Udp,
    /// IPAddrRewriter.
    Addr,
    /// IPAddrPairRewriter.
    AddrPair,
    /// ICMPPingRewriter.
    Ping,
}

/// Classes whose elements are rewriters.
pub const REWRITER_CLASSES: [&str; 6] = [
    "IPRewriter",
    "TCPRewriter",
    "UDPRewriter",
    "IPAddrRewriter",
    "IPAddrPairRewriter",
    "ICMPPingRewriter",
];

/// Reasons for drops.
pub struct Reasons {
    /// The packet has no IP header.
    pub no_header: &'static str,
    /// It is not of a kind that the rewriter rewrites.
    pub other: &'static str,
    /// The input makes no binding for it.
    pub dropped: &'static str,
    /// All variations of the pattern are taken.
    pub no_room: &'static str,
    /// All servers are down.
    pub no_server: &'static str,
    /// The pattern rewrites what the rewriter does not.
    pub unfit: &'static str,
    /// The table is full of flows that may not be evicted.
    pub full: &'static str,
}

impl Reasons {
    /// Why there is no new flow.
    pub fn of(&self, why: NoFlow) -> &'static str {
        match why {
            NoFlow::Pass(_) | NoFlow::Drop => self.dropped,
            NoFlow::NoRoom => self.no_room,
            NoFlow::NoServer => self.no_server,
            NoFlow::Unfit => self.unfit,
            NoFlow::Full => self.full,
        }
    }
}

macro_rules! reasons {
    ($class:literal, $other:literal) => {
        &Reasons {
            no_header: concat!($class, ": no IP header"),
            other: concat!($class, ": ", $other),
            dropped: concat!(
                $class,
                ": no mapping for this packet, and none is made at this input"
            ),
            no_room: concat!($class, ": no free port or address"),
            no_server: concat!($class, ": all servers are down"),
            unfit: concat!($class, ": pattern rewrites too much"),
            full: concat!($class, ": mapping capacity reached"),
        }
    };
}

impl RewriterKind {
    /// Why this kind of rewriter drops packets.
    pub fn reasons(self) -> &'static Reasons {
        match self {
            RewriterKind::Ip => reasons!("IPRewriter", "not TCP or UDP, or a later fragment"),
            RewriterKind::Tcp => reasons!("TCPRewriter", "not TCP, or a later fragment"),
            RewriterKind::Udp => {
                reasons!("UDPRewriter", "not UDP, TCP or DCCP, or a later fragment")
            }
            RewriterKind::Addr => reasons!("IPAddrRewriter", "not IP"),
            RewriterKind::AddrPair => reasons!("IPAddrPairRewriter", "not IP"),
            RewriterKind::Ping => reasons!(
                "ICMPPingRewriter",
                "not an echo request or reply, or a later fragment"
            ),
        }
    }

    /// Packets of which protocols it rewrites.
    #[inline]
    pub fn takes(self, protocol: u8) -> bool {
        match self {
            RewriterKind::Ip => matches!(protocol, proto::TCP | proto::UDP),
            RewriterKind::Tcp => protocol == proto::TCP,
            RewriterKind::Udp => has_ports(protocol),
            RewriterKind::Ping => protocol == proto::ICMP,
            RewriterKind::Addr | RewriterKind::AddrPair => true,
        }
    }
}
