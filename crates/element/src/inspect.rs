//! A packet that an element looks at without being given it.

use onefold_packet::{Packet, Timestamp};
use onefold_state::StateStore;

/// An IPv4 packet without options, or an IPv6 packet without extension headers, that is no fragment, as somebody who
/// knows where its headers are hands it to [`Element::inspect`](crate::Element::inspect).
#[derive(Debug, Clone, Copy)]
pub struct Inspected<'a> {
    /// From the IP header to the packet's end.
    pub net: &'a [u8],
    /// Bytes of the IP header: what stands behind it is the upper-layer header, at least as much of it as the
    /// protocol's ports need.
    pub header: usize,
    /// Bytes from the IP header on, as it says; not more than there are.
    pub total: usize,
    /// The upper-layer protocol.
    pub protocol: u8,
    /// The packet's length at the element, in bytes.
    pub len: usize,
}

impl<'a> Inspected<'a> {
    /// The packet as its annotations have it; `None` where it is none of those that can be handed over like this.
    pub fn of(p: &'a Packet) -> Option<Inspected<'a>> {
        let net = p.network()?;
        let header = match net.first()? {
            0x45 => 20,
            b if b >> 4 == 6 => 40,
            _ => return None,
        };
        let word = |at: usize| Some(u16::from_be_bytes([*net.get(at)?, *net.get(at + 1)?]));
        let (total, protocol, fragment) = match header {
            20 => (word(2)?, *net.get(9)?, word(6)? & 0x3fff != 0),
            _ => (word(4)?.checked_add(40)?, *net.get(6)?, false),
        };
        let upper = match protocol {
            6 => 20,
            1 | 17 => 8,
            _ => return None,
        };
        let total = usize::from(total);
        let there = header + upper <= total && total <= net.len();
        let here = p.network_header_offset()? + header as isize;
        (there && !fragment && p.transport_header_offset() == Some(here)).then_some(Inspected {
            net,
            header,
            total,
            protocol,
            len: p.len(),
        })
    }

    /// From the upper-layer header to the end that the IP header says.
    #[inline]
    pub fn upper(&self) -> &'a [u8] {
        self.net.get(self.header..self.total).unwrap_or(&[])
    }

    /// What TCP, UDP or ICMP carry.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let upper = self.upper();
        let skipped = match self.protocol {
            6 => upper
                .get(12)
                .map_or(20, |o| usize::from(o >> 4) * 4)
                .max(20),
            _ => 8,
        };
        upper.get(skipped..).unwrap_or(&[])
    }
}

/// Packets that come one behind the other, for [`Element::inspect_batch`](crate::Element::inspect_batch).
#[derive(Debug, Clone, Copy)]
pub struct InspectedBatch<'a> {
    /// In their order, 64 at most. Each is as long as its IP header says, or longer.
    pub packets: &'a [Inspected<'a>],
    /// As many: each packet's, as in [`InspectCx::hint`].
    pub hints: &'a [u32],
    /// Whose upper-layer checksum is right, as TCP and UDP have it: a bit each, the first packet's the lowest. `None`
    /// if the element has not [asked](BatchNeeds::checksums) for it.
    pub right: Option<u64>,
}

/// What an element wants to be told of packets that it [inspects together](crate::Element::inspect_batch).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchNeeds {
    /// See [`InspectedBatch::right`].
    pub checksums: bool,
    /// It gives [leases](crate::Element::leases).
    pub leases: bool,
}

/// What an element that inspects has besides the packet.
#[allow(missing_debug_implementations)]
pub struct InspectCx<'a> {
    /// The current time.
    pub now: Timestamp,
    /// Shared state.
    pub store: &'a mut StateStore,
    /// What the element has said of the last packet of this packet's flow ([`NO_HINT`] if it has not said anything
    /// yet), and what it says of this one. It may be of another flow, or of one that is not there any more. `None`:
    /// nobody keeps it.
    pub hint: Option<u32>,
}

/// An element's hint about a flow of which it has said nothing.
pub const NO_HINT: u32 = 0;
