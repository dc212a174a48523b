//! The six rewriters: what they have in common is in [`super::rewriter`], what differs is told here.

use super::access::has_ports;
use super::fragments::MAX_FRAGMENTED;
use super::record::{CLASSES, Timeout, Track};
use crate::args::{Args, Seconds, SizedAnno};
use onefold_packet::wire::ipv4::proto;

/// Which rewriter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) const REWRITER_CLASSES: [&str; 6] = [
    "IPRewriter",
    "TCPRewriter",
    "UDPRewriter",
    "IPAddrRewriter",
    "IPAddrPairRewriter",
    "ICMPPingRewriter",
];

/// Reasons for drops.
pub(super) struct Reasons {
    pub no_header: &'static str,
    pub other: &'static str,
    pub dropped: &'static str,
    pub no_room: &'static str,
    pub unfit: &'static str,
    pub full: &'static str,
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
            unfit: concat!($class, ": pattern rewrites too much"),
            full: concat!($class, ": mapping capacity reached"),
        }
    };
}

/// Settings of a rewriter besides its input specifications.
pub(super) struct Settings {
    pub timeouts: [Timeout; CLASSES],
    pub track: [Track; 2],
    pub take_over: bool,
    /// Packets whose later fragments are to follow.
    pub fragments: u32,
    pub annos: super::apply::Annos,
}

impl Kind {
    pub fn reasons(self) -> &'static Reasons {
        match self {
            Kind::Ip => reasons!("IPRewriter", "not TCP or UDP, or a later fragment"),
            Kind::Tcp => reasons!("TCPRewriter", "not TCP, or a later fragment"),
            Kind::Udp => reasons!("UDPRewriter", "not UDP, TCP or DCCP, or a later fragment"),
            Kind::Addr => reasons!("IPAddrRewriter", "not IP"),
            Kind::AddrPair => reasons!("IPAddrPairRewriter", "not IP"),
            Kind::Ping => reasons!(
                "ICMPPingRewriter",
                "not an echo request or reply, or a later fragment"
            ),
        }
    }

    /// Packets of which protocols it rewrites.
    #[inline]
    pub fn takes(self, protocol: u8) -> bool {
        match self {
            Kind::Ip => matches!(protocol, proto::TCP | proto::UDP),
            Kind::Tcp => protocol == proto::TCP,
            Kind::Udp => has_ports(protocol),
            Kind::Ping => protocol == proto::ICMP,
            Kind::Addr | Kind::AddrPair => true,
        }
    }

    /// Reads all keywords but the capacity's and the sweep's.
    pub fn settings(self, args: &mut Args<'_>) -> Settings {
        const MINUTE: u64 = 60;
        let mut seconds = |names: &[&str], default: u64| {
            let mut v = default;
            for n in names {
                if let Some(s) = read_seconds(args, n) {
                    v = s;
                }
            }
            v
        };
        let mut timeouts = [Timeout::default(); CLASSES];
        let mut udp = None;
        if self == Kind::Ip {
            let expire = seconds(&["UDP_TIMEOUT"], 5 * MINUTE);
            let streaming = seconds(&["UDP_STREAMING_TIMEOUT"], expire);
            let guarantee = seconds(&["UDP_GUARANTEE"], 5);
            udp = Some((expire, streaming, guarantee));
        }
        let mut base = match self {
            Kind::Addr | Kind::AddrPair => 120 * MINUTE,
            _ => 5 * MINUTE,
        };
        let mut guarantee = 5;
        match self {
            Kind::Ip | Kind::Tcp => {
                base = seconds(&["TCP_NODATA_TIMEOUT"], base);
                guarantee = seconds(&["TCP_GUARANTEE"], guarantee);
                timeouts[1].expire = seconds(&["TIMEOUT", "TCP_TIMEOUT"], 24 * 60 * MINUTE);
                timeouts[2].expire = seconds(&["TCP_DONE_TIMEOUT"], 4 * MINUTE);
            }
            Kind::Udp => {
                base = seconds(&["UDP_TIMEOUT", "TIMEOUT"], base);
                timeouts[4].expire = seconds(&["UDP_STREAMING_TIMEOUT", "STREAMING_TIMEOUT"], base);
                guarantee = seconds(&["UDP_GUARANTEE"], guarantee);
            }
            _ => base = seconds(&["TIMEOUT"], base),
        }
        guarantee = seconds(&["GUARANTEE"], guarantee);
        timeouts[0].expire = base;
        for t in &mut timeouts {
            t.guarantee = guarantee;
        }
        let mut track = [Track::None; 2];
        match (self, udp) {
            (Kind::Ip, Some((expire, streaming, guarantee))) => {
                timeouts[3] = Timeout { expire, guarantee };
                timeouts[4] = Timeout {
                    expire: streaming,
                    guarantee,
                };
                track = [Track::Tcp, Track::Udp(3)];
            }
            (Kind::Tcp, _) => track[0] = Track::Tcp,
            (Kind::Udp, _) => track[0] = Track::Udp(0),
            _ => {}
        }
        for t in &mut timeouts {
            t.expire *= 1000;
            t.guarantee *= 1000;
        }
        let mut annos = super::apply::Annos {
            dst: true,
            reply: None,
        };
        if !matches!(self, Kind::Addr | Kind::AddrPair) {
            annos.dst = args.keyword("DST_ANNO").unwrap_or(true);
        }
        let mut fragments = 0;
        // the others translate later fragments as any packet
        if !matches!(self, Kind::Addr | Kind::AddrPair) {
            fragments = args.keyword("FRAGMENTS").unwrap_or(0);
            if fragments > MAX_FRAGMENTED {
                args.error(format!("FRAGMENTS: out of range, 0 to {MAX_FRAGMENTED}"));
            }
        }
        annos.reply = args
            .keyword("REPLY_ANNO")
            .map(|SizedAnno::<1>(offset)| offset);
        Settings {
            timeouts,
            track,
            take_over: args.keyword("TAKE_OVER").unwrap_or(true),
            fragments,
            annos,
        }
    }
}

/// A time in whole seconds, rounded as Click rounds it.
pub(super) fn read_seconds(args: &mut Args<'_>, name: &str) -> Option<u64> {
    let Seconds(t) = args.keyword(name)?;
    let s = t.nanos().saturating_add(500_000_000) / 1_000_000_000;
    match u64::try_from(s).ok().filter(|s| *s <= u64::from(u32::MAX)) {
        Some(s) if t.nanos() >= 0 => Some(s),
        _ => {
            args.error(format!("{name}: out of range, 0 to {} seconds", u32::MAX));
            None
        }
    }
}
