//! What makes packets one flow.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What makes packets one flow: addresses, protocol, ports (absent in fragments that are not the first, and with
/// protocols that have none). One direction.
///
/// Forty bytes, so that a flow's key and counters are one line of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct FlowKey {
    /// An IPv4 address is the first four bytes, and the rest is zero.
    src: [u8; 16],
    dst: [u8; 16],
    /// Source and destination port; zero where there are none.
    ports: [u8; 4],
    protocol: u8,
    with_ports: bool,
    is_v6: bool,
}

impl FlowKey {
    fn new(is_v6: bool, protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
        let (s, d) = ports.unwrap_or_default();
        let ([a, b], [c, d]) = (s.to_be_bytes(), d.to_be_bytes());
        FlowKey {
            src: [0; 16],
            dst: [0; 16],
            ports: [a, b, c, d],
            protocol,
            with_ports: ports.is_some(),
            is_v6,
        }
    }
    /// From IPv4 addresses.
    #[inline]
    pub fn v4(src: [u8; 4], dst: [u8; 4], protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
        let mut key = FlowKey::new(false, protocol, ports);
        key.src[..4].copy_from_slice(&src);
        key.dst[..4].copy_from_slice(&dst);
        key
    }
    /// From IPv6 addresses.
    #[inline]
    pub fn v6(src: [u8; 16], dst: [u8; 16], protocol: u8, ports: Option<(u16, u16)>) -> FlowKey {
        FlowKey {
            src,
            dst,
            ..FlowKey::new(true, protocol, ports)
        }
    }
    fn address(&self, b: &[u8; 16]) -> IpAddr {
        match self.is_v6 {
            true => Ipv6Addr::from(*b).into(),
            false => Ipv4Addr::new(b[0], b[1], b[2], b[3]).into(),
        }
    }
    /// What keys are put in order by: IPv4 first, then by address.
    fn rank(&self) -> impl Ord {
        let ports = (self.with_ports, self.ports);
        (self.is_v6, self.src, self.dst, self.protocol, ports)
    }
}

impl Ord for FlowKey {
    fn cmp(&self, other: &FlowKey) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for FlowKey {
    fn partial_cmp(&self, other: &FlowKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for FlowKey {
    /// In few words: a hasher takes longer for each one, not for how long it is.
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let four = |b: &[u8; 16]| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]);
        if self.is_v6 {
            state.write_u128(u128::from_ne_bytes(self.src));
            state.write_u128(u128::from_ne_bytes(self.dst));
        } else {
            state.write_u64(u64::from(four(&self.src)) << 32 | u64::from(four(&self.dst)));
        }
        let ports = u64::from(u32::from_ne_bytes(self.ports));
        state.write_u64(u64::from(self.protocol) << 33 | u64::from(self.with_ports) << 32 | ports);
    }
}

/// `PROTOCOL SRC SPORT DST DPORT`, `-` for absent ports.
impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (src, dst) = (self.address(&self.src), self.address(&self.dst));
        let [a, b, c, d] = self.ports;
        let (s, d) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        match self.with_ports {
            true => write!(f, "{} {src} {s} {dst} {d}", self.protocol),
            false => write!(f, "{} {src} - {dst} -", self.protocol),
        }
    }
}

/// Source and destination, one behind the other, as in a packet.
#[derive(Debug, Clone, Copy)]
pub enum Addresses<'a> {
    /// Of IPv4.
    V4(&'a [u8; 8]),
    /// Of IPv6.
    V6(&'a [u8; 32]),
}

/// A [`FlowKey`] as it stands in a packet: to be compared, it need not be copied.
#[derive(Debug, Clone, Copy)]
pub struct FlowBytes<'a> {
    /// Addresses.
    pub addresses: Addresses<'a>,
    /// Protocol.
    pub protocol: u8,
    /// Source and destination port, if there are any.
    pub ports: Option<&'a [u8; 4]>,
}

impl FlowBytes<'_> {
    /// The key.
    pub fn key(&self) -> FlowKey {
        let ports = (self.ports)
            .map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        match self.addresses {
            Addresses::V4([a, b, c, d, e, f, g, h]) => {
                FlowKey::v4([*a, *b, *c, *d], [*e, *f, *g, *h], self.protocol, ports)
            }
            Addresses::V6(all) => {
                let mut key = FlowKey::new(true, self.protocol, ports);
                key.src.copy_from_slice(&all[..16]);
                key.dst.copy_from_slice(&all[16..]);
                key
            }
        }
    }

    /// Are they this key's?
    #[inline(always)]
    pub fn is(&self, key: &FlowKey) -> bool {
        let same = match self.addresses {
            // behind them there are zeros
            Addresses::V4(all) => {
                !key.is_v6 && all[..4] == key.src[..4] && all[4..] == key.dst[..4]
            }
            Addresses::V6(all) => key.is_v6 && all[..16] == key.src && all[16..] == key.dst,
        };
        let ports = self.ports.copied().unwrap_or([0; 4]);
        same && key.ports == ports
            && (key.protocol, key.with_ports) == (self.protocol, self.ports.is_some())
    }
}
