//! Which bytes of a packet a payload element looks at.

use onefold_element::Inspected;
use onefold_element::args::{ArgScope, FromArg};
use onefold_packet::{Packet, wire};

/// Where to start. Each falls back to the one before it where the packet's header annotations do not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Base {
    /// The whole packet.
    Packet,
    /// From the network header, up to the IP length.
    Network,
    /// From the transport header, up to the IP length.
    Transport,
    /// Behind the TCP, UDP or ICMP header, up to the IP length. Other protocols, and fragments that are not the first,
    /// have no such header: all behind the IP header.
    #[default]
    Payload,
}

impl FromArg for Base {
    const WANTS: &'static str = "packet, network, transport or payload";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        Ok(match s.to_ascii_lowercase().as_str() {
            "packet" => Base::Packet,
            "network" => Base::Network,
            "transport" => Base::Transport,
            "payload" => Base::Payload,
            _ => return Err(None),
        })
    }
}

/// What an IP packet says about itself.
#[derive(Debug, Clone, Copy)]
pub struct IpFacts {
    /// Upper-layer protocol.
    pub protocol: u8,
    /// Not the first fragment.
    pub later_fragment: bool,
    /// Bytes from the network header on, as far as they are there; never below the fixed header.
    pub len: usize,
    /// Offset of the upper-layer header.
    pub header: usize,
}

/// Reads an IPv4 or IPv6 header; `None` if it is neither, or cut off.
pub fn ip_facts(net: &[u8]) -> Option<IpFacts> {
    match net.first()? >> 4 {
        4 => {
            let h = wire::ipv4::Header::parse(net)?;
            let header = h.header_len().max(wire::ipv4::LEN);
            Some(IpFacts {
                protocol: h.protocol(),
                later_fragment: u16::from_be_bytes([net[6], net[7]]) & 0x1fff != 0,
                len: usize::from(h.total_len()).clamp(wire::ipv4::LEN, net.len()),
                header,
            })
        }
        6 => {
            let h = wire::ipv6::Header::parse(net)?;
            let (protocol, header, later_fragment) = h.upper_layer()?;
            Some(IpFacts {
                protocol,
                later_fragment,
                len: (wire::ipv6::LEN + usize::from(h.payload_len())).min(net.len()),
                header,
            })
        }
        _ => None,
    }
}

/// Bytes of the upper-layer header at the start of `b`.
fn upper_len(f: &IpFacts, b: &[u8]) -> usize {
    match f.protocol {
        _ if f.later_fragment => 0,
        6 => b.get(12).map_or(20, |o| usize::from(o >> 4) * 4).max(20),
        // UDP, ICMP, ICMPv6
        17 | 1 | 58 => 8,
        _ => 0,
    }
}

impl Base {
    /// The bytes to look at of a packet that is inspected; the packet's own header in front of IP's is not there.
    #[inline]
    pub fn inspected<'a>(self, p: &Inspected<'a>) -> &'a [u8] {
        match self {
            Base::Packet => p.net,
            Base::Network => p.net.get(..p.total).unwrap_or(&[]),
            Base::Transport => p.upper(),
            Base::Payload => p.payload(),
        }
    }

    /// The bytes to look at.
    pub fn of(self, p: &Packet) -> &[u8] {
        if self == Base::Packet {
            return p.data();
        }
        let Some(net) = p.network() else {
            return p.data();
        };
        let facts = ip_facts(net);
        let net = facts.map_or(net, |f| &net[..f.len.min(net.len())]);
        if self == Base::Network {
            return net;
        }
        // the annotations say where the transport header is; it may lie behind the packet's end
        let start = match (p.network_header_offset(), p.transport_header_offset()) {
            (Some(n), Some(t)) if t >= n => (t - n) as usize,
            _ => return net,
        };
        let transport = net.get(start..).unwrap_or(&[]);
        match (self, facts) {
            (Base::Payload, Some(f)) => {
                // an IPv6 packet's annotation points behind the fixed header
                let skipped = f.header.saturating_sub(start);
                let upper = transport.get(skipped..).unwrap_or(&[]);
                upper.get(upper_len(&f, upper)..).unwrap_or(&[])
            }
            _ => transport,
        }
    }
}

/// FastClick's choice for `PAYLOAD_ONLY`: from the transport header if there is one, else from the network header, else
/// all; up to the packet's end, padding included.
pub fn payload_only(p: &Packet) -> &[u8] {
    let from = p.transport_header_offset().or(p.network_header_offset());
    match from.and_then(|o| usize::try_from(o).ok()) {
        Some(o) => p.data().get(o..).unwrap_or(&[]),
        None => p.transport().or(p.network()).unwrap_or(p.data()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_of_a_padded_frame() {
        let mut b = vec![0xee; 14];
        b.extend([
            0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
        ]);
        b.extend([
            0, 1, 0, 2, 0, 12, 0, 0, b'd', b'a', b't', b'a', b'p', b'a', b'd',
        ]);
        let mut p = Packet::from_slice(&b);
        let len = |b: Base, p: &Packet| b.of(p).len();
        assert_eq!(len(Base::Payload, &p), b.len());
        p.set_network_header(14, 20);
        assert_eq!(len(Base::Packet, &p), b.len());
        assert_eq!(len(Base::Network, &p), 32);
        assert_eq!(len(Base::Transport, &p), 12);
        assert_eq!(Base::Payload.of(&p), b"data");
        assert_eq!(payload_only(&p).len(), 15);
        // the same behind Strip(14)
        p.pull(14);
        assert_eq!(Base::Payload.of(&p), b"data");
        // a later fragment has no UDP header
        p.data_mut()[7] = 1;
        assert_eq!(len(Base::Payload, &p), 12);
        p.data_mut()[7] = 0;
        // TCP with its offset
        p.data_mut()[9] = 6;
        assert_eq!(Base::Payload.of(&p), b"");
        for n in 0..p.len() {
            let mut q = Packet::from_slice(&p.data()[..n]);
            q.set_network_header(0, 20);
            for base in [Base::Network, Base::Transport, Base::Payload] {
                let _ = base.of(&q);
            }
            let _ = payload_only(&q);
        }
    }

    /// What is inspected is what the packet's annotations lead to, or cannot be inspected.
    #[test]
    fn inspected_is_what_is_there() {
        let mut seen = 0;
        for (protocol, upper) in [(6, 20), (6, 32), (17, 8), (1, 8), (47, 4)] {
            for (padding, fragment, first) in
                [(0, 0, 0x45), (9, 0, 0x45), (0, 0x20, 0x45), (0, 0, 0x46)]
            {
                let total = 20 + upper + 7u8;
                let mut b = vec![first, 0, 0, total, 0, 0, fragment, 0, 64, protocol, 0, 0];
                b.extend([10, 0, 0, 1, 10, 0, 0, 2]);
                let mut l4 = vec![0; usize::from(upper)];
                if protocol == 6 {
                    l4[12] = (upper / 4) << 4;
                }
                b.extend(l4);
                b.extend(b"payload");
                b.resize(b.len() + padding, 0xee);
                let mut p = Packet::from_slice(&b);
                p.set_network_header(0, usize::from(first & 15) * 4);
                for n in 0..b.len() {
                    let mut q = p.clone();
                    q.keep(b.len() - n);
                    let Some(i) = Inspected::of(&q) else { continue };
                    seen += 1;
                    for base in [Base::Network, Base::Transport, Base::Payload] {
                        assert_eq!(base.inspected(&i), base.of(&q), "{base:?} {protocol}");
                    }
                }
            }
        }
        assert!(seen > 20, "{seen}");
    }

    #[test]
    fn ipv6() {
        let mut b = vec![0x60, 0, 0, 0, 0, 18, 0, 64];
        b.extend([1; 32]);
        b.extend([17, 0, 0, 0, 0, 0, 0, 0]); // hop-by-hop, then UDP
        b.extend([0, 1, 0, 2, 0, 10, 0, 0, b'h', b'i', b'!']);
        let mut p = Packet::from_slice(&b);
        p.set_network_header(0, 40);
        assert_eq!(Base::Payload.of(&p), b"hi");
    }
}
