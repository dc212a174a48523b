//! The parameters of generated traffic.

use std::net::Ipv4Addr;

use onefold_packet::EtherAddr;

use super::MAX_FLOWS;
use super::exception::ExceptionKind;
use crate::ranges::{Addresses, Ports, ProtocolMix};
use crate::rules::Header;
use crate::sizes::SizeModel;

/// Source and destination of a direction's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAddresses {
    /// Source MAC address.
    pub src: EtherAddr,
    /// Destination MAC address: what the chain's port has, or it takes the frames for somebody else's.
    pub dst: EtherAddr,
}

/// What TCP flows do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpStyle {
    /// Connection after connection over the same addresses and ports: SYN, SYN-ACK, ACK, this many data segments (by
    /// turns from client and server if there are replies), FIN, FIN, ACK.
    Connections {
        /// Data segments of a connection.
        segments: u32,
    },
    /// Data segments only, as in the middle of a connection.
    Stateless,
}

/// What packets carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Payload {
    /// Zeros.
    Zero,
    /// 0, 1, 2, ... 255, 0, ...
    Ramp,
    /// Lines of a fictional web page's text.
    Text,
    /// Random bytes.
    Random,
}

/// All that decides about generated traffic. [`TrafficParams::default`] is what `onefold gen` does without options.
#[derive(Clone, Debug)]
pub struct TrafficParams {
    /// Frames, over both directions.
    pub packets: u64,
    /// Flows: pairwise different in addresses, ports and protocol.
    pub flows: u32,
    /// Same parameters and seed, same frames.
    pub seed: u64,
    /// Sizes of frames with payload. A frame is never shorter than its headers need, nor than 60 bytes.
    pub sizes: SizeModel,
    /// 0: rounds, each of which visits every flow once, in a random order of its own. Above: each packet belongs to a
    /// flow drawn by Zipf's law with this exponent; popularity has nothing to do with addresses.
    pub zipf: f64,
    /// Transports.
    pub protocols: ProtocolMix,
    /// Share of flows that are IPv6.
    pub ipv6: f64,
    /// TCP.
    pub tcp: TcpStyle,
    /// Do the servers answer? Their packets are in the direction [`Reverse`](super::Direction::Reverse).
    pub replies: bool,
    /// IPv4 clients.
    pub src: Addresses,
    /// IPv4 servers.
    pub dst: Addresses,
    /// IPv6 clients.
    pub src6: Addresses,
    /// IPv6 servers.
    pub dst6: Addresses,
    /// Client ports (of ICMP: the identifier).
    pub sport: Ports,
    /// Server ports.
    pub dport: Ports,
    /// MAC addresses of frames from clients.
    pub forward: LinkAddresses,
    /// MAC addresses of frames from servers.
    pub reverse: LinkAddresses,
    /// Replies over IPv4 go here rather than to the client: the outside address of a NAT that keeps ports.
    pub reply_to: Option<Ipv4Addr>,
    /// VLAN tag (id 0 to 4095 in the low 12 bits).
    pub vlan: Option<u16>,
    /// TTL and hop limit.
    pub ttl: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Packets per second of capture time, both directions together.
    pub pps: u64,
    /// Time of the first frame, nanoseconds since the epoch.
    pub start_ns: i64,
    /// What packets carry.
    pub payload: Payload,
    /// Bytes to hide in payloads, for payload inspection to find, and the share of packets (of those they fit in).
    pub needle: Option<(Vec<u8>, f64)>,
    /// Share of frames that are exceptional.
    pub exceptions: f64,
    /// How they are exceptional, in equal parts.
    pub exception_kinds: Vec<ExceptionKind>,
    /// Headers to send instead of flows drawn from ranges: protocols, addresses and ports above are ignored, and
    /// `flows` is how many there are.
    pub headers: Option<Vec<Header>>,
}

impl Default for TrafficParams {
    fn default() -> Self {
        let list = |a: u128, b: u128, v6| Addresses::range(v6, a, b);
        // 10/8 to 198.18/15 (benchmarking, RFC 2544); 2001:db8::/48 to 2001:2::/48 (RFC 3849, RFC 5180).
        Self {
            packets: 1_000_000,
            flows: 10_000,
            seed: 1,
            sizes: SizeModel::named("imix").unwrap_or_else(|| SizeModel::fixed(64)),
            zipf: 0.0,
            protocols: ProtocolMix {
                tcp: 80.0,
                udp: 19.0,
                icmp: 1.0,
            },
            ipv6: 0.0,
            tcp: TcpStyle::Connections { segments: 10 },
            replies: false,
            src: list(0x0a00_0001, 0x0aff_fffe, false),
            dst: list(0xc612_0001, 0xc613_fffe, false),
            src6: list(
                0x2001_0db8_0000_0000_0000_0000_0000_0001,
                0x2001_0db8_0000_ffff_ffff_ffff_ffff_fffe,
                true,
            ),
            dst6: list(
                0x2001_0002_0000_0000_0000_0000_0000_0001,
                0x2001_0002_0000_ffff_ffff_ffff_ffff_fffe,
                true,
            ),
            sport: Ports::range(1024, u16::MAX),
            dport: Ports::list(&[80, 443, 22, 25, 53, 123, 1234, 8080]),
            forward: LinkAddresses {
                src: EtherAddr([2, 0, 0, 0, 0, 1]),
                dst: EtherAddr([2, 0, 0, 0, 0, 2]),
            },
            reverse: LinkAddresses {
                src: EtherAddr([2, 0, 0, 0, 0, 2]),
                dst: EtherAddr([2, 0, 0, 0, 0, 1]),
            },
            reply_to: None,
            vlan: None,
            ttl: 64,
            dscp: 0,
            pps: 1_000_000,
            start_ns: 1_700_000_000_000_000_000,
            payload: Payload::Random,
            needle: None,
            exceptions: 0.0,
            exception_kinds: ExceptionKind::ALL.to_vec(),
            headers: None,
        }
    }
}

/// Parameters from which no traffic comes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TrafficError {
    /// A value out of its range.
    #[error("{what} is {value}, expected {expected}")]
    Range {
        /// Which parameter.
        what: &'static str,
        /// Its value.
        value: String,
        /// What is possible.
        expected: String,
    },
    /// An address list of the wrong family.
    #[error("{0} holds addresses of the wrong family")]
    Family(&'static str),
    /// The ranges do not hold as many flows.
    #[error(
        "the address and port ranges hold too few different flows: {found} found, {wanted} asked for; hint: more addresses or ports, or fewer flows"
    )]
    TooFewFlows {
        /// How many there are, about.
        found: u64,
        /// How many are asked for.
        wanted: u64,
    },
}

impl TrafficParams {
    /// Are all values in their ranges?
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), TrafficError> {
        let range = |what, value: String, ok: bool, expected: &str| {
            if ok {
                Ok(())
            } else {
                Err(TrafficError::Range {
                    what,
                    value,
                    expected: expected.to_owned(),
                })
            }
        };
        let flows = self
            .headers
            .as_ref()
            .map_or(u64::from(self.flows), |h| h.len() as u64);
        range(
            "the number of flows",
            flows.to_string(),
            (1..=u64::from(MAX_FLOWS)).contains(&flows),
            &format!("1 to {MAX_FLOWS}"),
        )?;
        range(
            "the Zipf exponent",
            self.zipf.to_string(),
            (0.0..=10.0).contains(&self.zipf),
            "0 to 10",
        )?;
        for (what, share) in [
            ("the share of IPv6", self.ipv6),
            ("the share of exceptions", self.exceptions),
            (
                "the share of needles",
                self.needle.as_ref().map_or(0.0, |n| n.1),
            ),
        ] {
            range(
                what,
                share.to_string(),
                (0.0..=1.0).contains(&share),
                "0 to 1",
            )?;
        }
        range(
            "the list of exceptions",
            "empty".into(),
            self.exceptions == 0.0 || !self.exception_kinds.is_empty(),
            "at least one kind",
        )?;
        range(
            "the rate",
            format!("{} packets per second", self.pps),
            (1..=1_000_000_000).contains(&self.pps),
            "1 to 1000000000 (one a nanosecond)",
        )?;
        // The last frame must have a time that captures can hold.
        let last = i128::from(self.start_ns)
            + i128::from(self.packets) * 1_000_000_000 / i128::from(self.pps.max(1));
        let latest = i128::from(u32::MAX) * 1_000_000_000;
        range(
            "the time of the last frame",
            format!("{} s after 1970", last / 1_000_000_000),
            self.start_ns >= 0 && last <= latest,
            "at most 4294967295 s; start earlier or raise the rate",
        )?;
        range(
            "the code point",
            self.dscp.to_string(),
            self.dscp < 64,
            "0 to 63",
        )?;
        range(
            "the VLAN",
            self.vlan.unwrap_or(0).to_string(),
            self.vlan.is_none_or(|v| v < 4096),
            "0 to 4095",
        )?;
        for (name, list, v6) in [
            ("the IPv4 source list", &self.src, false),
            ("the IPv4 destination list", &self.dst, false),
            ("the IPv6 source list", &self.src6, true),
            ("the IPv6 destination list", &self.dst6, true),
        ] {
            if list.is_v6() != v6 {
                return Err(TrafficError::Family(name));
            }
        }
        Ok(())
    }
}
