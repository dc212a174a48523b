//! A frame of a capture.

use std::fmt;

/// What the first byte of a frame belongs to (the registry of tcpdump.org, as recorded in files).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinkType(pub u32);

impl LinkType {
    /// BSD loopback: four bytes of address family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// IPv4 or IPv6, told apart by the version.
    pub const RAW: Self = Self(101);
    /// IEEE 802.11.
    pub const IEEE802_11: Self = Self(105);
    /// OpenBSD loopback: as [`LinkType::NULL`], in network byte order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1 (device `any`).
    pub const LINUX_SLL: Self = Self(113);
    /// IPv4.
    pub const IPV4: Self = Self(228);
    /// IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);

    /// The name, where Onefold has one for it.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NULL => "null",
            Self::ETHERNET => "ethernet",
            Self::RAW => "raw IP",
            Self::IEEE802_11 => "802.11",
            Self::LOOP => "loop",
            Self::LINUX_SLL => "linux cooked",
            Self::IPV4 => "ipv4",
            Self::IPV6 => "ipv6",
            Self::LINUX_SLL2 => "linux cooked v2",
            _ => return None,
        })
    }

    /// From the 32-bit field of a pcap header: the upper bits tell about frame check sequences, and two numbers that
    /// differ between operating systems stand for [`LinkType::RAW`].
    pub(crate) fn from_file(field: u32) -> Self {
        match field & 0x03ff_ffff {
            12 | 14 => Self::RAW,
            other => Self(other),
        }
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "link type {}", self.0),
        }
    }
}

/// All that a capture says about a frame besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameMeta {
    /// Nanoseconds since the epoch. Times outside of the years 1677 to 2262 saturate. A pcapng *simple* packet has no
    /// time and gets that of the frame before it.
    pub ts_ns: i64,
    /// How long the frame was on the wire, says the capture. May be smaller than the captured length: never trust it.
    pub orig_len: u32,
    /// How the frame starts.
    pub link: LinkType,
    /// pcapng: the interface within its section; 0 in pcap.
    pub interface: u32,
}

/// A frame with its bytes: [`FrameMeta`] and what [`next_into`](crate::CaptureReader::next_into) puts into a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Nanoseconds since the epoch, see [`FrameMeta::ts_ns`].
    pub ts_ns: i64,
    /// The length on the wire, says the capture, see [`FrameMeta::orig_len`].
    pub orig_len: u32,
    /// How the frame starts.
    pub link: LinkType,
    /// pcapng: the interface within its section; 0 in pcap.
    pub interface: u32,
    /// The captured bytes.
    pub data: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(meta: FrameMeta, data: Vec<u8>) -> Self {
        Self {
            ts_ns: meta.ts_ns,
            orig_len: meta.orig_len,
            link: meta.link,
            interface: meta.interface,
            data,
        }
    }
}
