//! Keys of flows: where a masked match's packets have them, one packet at a time and sixteen at once.

use crate::flow::table::{KEY, LONG};
use crate::program::headers::shape::{Shape, Transport};
use crate::simd::WINDOW;
use crate::simd::hash::MORE;
use crate::simd::{At, COLUMNS, HEAD, HEAD_AT, Wide};

/// Where both addresses are behind an IPv6 header at [`HEAD_AT`].
pub(crate) const ADDRESSES: LongAddresses = match LongAddresses::of(HEAD_AT) {
    Some(at) => at,
    None => LongAddresses([At::LAST; KEY - 1]),
};

/// A place of both addresses of an IPv6 header, by words of a key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongAddresses([At<8>; KEY - 1]);

impl LongAddresses {
    /// Of a header that begins here.
    const fn of(l3: usize) -> Option<LongAddresses> {
        let words = (
            At::of(l3 + 8),
            At::of(l3 + 16),
            At::of(l3 + 24),
            At::of(l3 + 32),
        );
        match words {
            (Some(a), Some(b), Some(c), Some(d)) => Some(LongAddresses([a, b, c, d])),
            _ => None,
        }
    }

    /// Addresses as they stand there.
    #[inline(always)]
    pub fn words(self, w: &[u8; WINDOW]) -> [u64; KEY - 1] {
        let [a, b, c, d] = self.0;
        // written out: adapters may not be inlined
        [
            u64::from_ne_bytes(a.get(w)),
            u64::from_ne_bytes(b.get(w)),
            u64::from_ne_bytes(c.get(w)),
            u64::from_ne_bytes(d.get(w)),
        ]
    }
}

/// Where a key is: of two words an IPv4 flow's, of five an IPv6 flow's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPlace {
    /// The match's number, in the upper half; of a long key with [`LONG`].
    id: u64,
    ports: At<4>,
    /// Bits of the ports that are part of the key.
    mask: u32,
    /// What stands there is the word behind what ports are for others: an echo message's identifier.
    later: bool,
    addresses: At<8>,
    /// Both addresses of a long key.
    long: Option<LongAddresses>,
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

impl KeyPlace {
    pub fn of(s: Shape, id: u32) -> Option<KeyPlace> {
        let id = u64::from(id) << 32;
        if s.v6 {
            // echo messages of ICMPv6 have no shape of their own
            let ports = s.transport != Transport::Other;
            return Some(KeyPlace {
                id: id | LONG,
                ports: At::of(s.l4())?,
                mask: if ports { u32::MAX } else { 0 },
                later: false,
                addresses: At::of(s.l3 + 8)?,
                long: Some(LongAddresses::of(s.l3)?),
                sum: (At::LAST, 0),
            });
        }
        let later = s.transport == Transport::Echo;
        let mask = match s.transport {
            Transport::Tcp | Transport::Udp => u32::MAX,
            Transport::Echo => 0xffff_0000,
            Transport::Other => 0,
        };
        Some(KeyPlace {
            id,
            ports: At::of(s.l4() + if later { 4 } else { 0 })?,
            mask,
            later,
            addresses: At::of(s.l3 + 12)?,
            long: None,
            sum: (At::of(s.l4() + 6)?, if s.udp() { u16::MAX } else { 0 }),
        })
    }

    /// A packet's key: number and ports, and addresses; of a short one, as they are written, of a long one as they
    /// stand there. What a short one has not is left as it is.
    #[inline(always)]
    pub fn key(&self, w: &[u8; WINDOW], to: &mut [u64; KEY]) {
        let ports = u32::from_be_bytes(self.ports.get(w)) & self.mask;
        let addresses = self.addresses.get(w);
        to[0] = self.id | u64::from(ports);
        let Some(long) = self.long else {
            to[1] = u64::from_be_bytes(addresses);
            return;
        };
        to[1..].copy_from_slice(&long.words(w));
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
    /// [`KeyPlace::keys`] of IPv6: what is not in the columns of addresses.
    #[inline(always)]
    pub fn long_keys<W: Wide>(
        &self,
        wide: W,
        words: &[W::N; COLUMNS],
        which: u16,
        to: &mut Keys<W::N>,
    ) {
        let ports = wide.and(words[10], wide.all(self.mask));
        to.ports = wide.choose(to.ports, ports, which);
        to.ids = wide.choose(to.ids, wide.all((self.id >> 32) as u32), which);
    }
}

/// The addresses of sixteen IPv6 packets, as they stand there: the first word of a key's, and the further ones.
#[inline(always)]
pub(crate) fn long_addresses<W: Wide>(
    wide: W,
    inner: &[W::N; HEAD / 4],
    outer: &[W::N; HEAD / 4],
) -> ([W::N; 2], [[W::N; 2]; MORE]) {
    let [.., a, b, c, d, e, f] = *inner;
    // written out: closures may not be inlined
    let (a, b, c) = (wide.swapped(a), wide.swapped(b), wide.swapped(c));
    let (d, e, f) = (wide.swapped(d), wide.swapped(e), wide.swapped(f));
    ([a, b], [[c, d], [e, f], [outer[4], outer[5]]])
}
