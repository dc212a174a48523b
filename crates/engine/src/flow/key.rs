//! Keys of flows: where a masked match's packets have them, one packet at a time and sixteen at once.

use crate::program::headers::shape::{Shape, Transport};
use crate::simd::WINDOW;
use crate::simd::{At, HEAD, Wide};

/// Where a key of two words is: an IPv4 flow's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Short {
    /// the match's number, in the upper half.
    id: u64,
    ports: At<4>,
    /// Bits of the ports that are part of the key.
    mask: u32,
    /// What stands there is the word behind what ports are for others: an echo message's identifier.
    later: bool,
    addresses: At<8>,
    /// The UDP checksum, and its bits if there is one.
    pub sum: (At<2>, u16),
}

/// Keys of sixteen packets by columns, and what endangers their checksums ([`PacketMeta::sum`](crate::flow::packet_meta::PacketMeta::sum)).
#[derive(Clone, Copy)]
pub(crate) struct Keys<N> {
    pub ports: N,
    pub ids: N,
    pub sums: N,
}

impl<N: Copy> Keys<N> {
    /// Of no packet.
    #[inline(always)]
    pub fn none<W: Wide<N = N>>(wide: W) -> Keys<N> {
        let none = wide.all(0);
        Keys {
            ports: none,
            ids: none,
            sums: none,
        }
    }
}

impl Short {
    pub fn of(s: Shape, id: u32) -> Option<Short> {
        if s.v6 {
            // its keys are long
            return Some(Short {
                id: 0,
                ports: At::LAST,
                mask: 0,
                later: false,
                addresses: At::LAST,
                sum: (At::LAST, 0),
            });
        }
        let later = s.transport == Transport::Echo;
        let mask = match s.transport {
            Transport::Tcp | Transport::Udp => u32::MAX,
            Transport::Echo => 0xffff_0000,
            Transport::Other => 0,
        };
        Some(Short {
            id: u64::from(id) << 32,
            ports: At::of(s.l4() + if later { 4 } else { 0 })?,
            mask,
            later,
            addresses: At::of(s.l3 + 12)?,
            sum: (At::of(s.l4() + 6)?, if s.udp() { u16::MAX } else { 0 }),
        })
    }

    /// The two words of a packet's key: number and ports, and addresses, as they are written.
    #[inline(always)]
    pub fn key(&self, w: &[u8; WINDOW]) -> (u64, u64) {
        let ports = u32::from_be_bytes(self.ports.get(w)) & self.mask;
        (
            self.id | u64::from(ports),
            u64::from_be_bytes(self.addresses.get(w)),
        )
    }

    /// The same for some of sixteen packets, a bit each, whose headers begin at [`HEAD_AT`](crate::simd::HEAD_AT), by [columns](Wide::columns). Addresses are in the columns as they are.
    #[inline(always)]
    pub fn keys<W: Wide>(
        &self,
        wide: W,
        words: &[W::N; HEAD / 4],
        which: u16,
        to: &mut Keys<W::N>,
    ) {
        let later = words[6];
        let ports = wide.and(
            if self.later { later } else { words[5] },
            wide.all(self.mask),
        );
        // as it stands, its first byte the least
        let sum = wide.and(later, wide.all(self.sum.1.into()));
        let sum = wide.plus(
            wide.right(sum, 8),
            wide.times(wide.and(sum, wide.all(0xff)), wide.all(0x100)),
        );
        to.ports = wide.choose(to.ports, ports, which);
        to.ids = wide.choose(to.ids, wide.all((self.id >> 32) as u32), which);
        to.sums = wide.choose(to.sums, sum, which);
    }
}
