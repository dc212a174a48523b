//! What a [`Binder`](super::binder::Binder) is asked about: one packet, or a batch of them field by field.
//!
//! One packet after the other, a hash is a handful of multiplications that the next one's wait for, and a new flow takes two of them and two checksum differences. Field
//! by field, sixteen packets take about as many instructions as one does (docs/decisions/0032).

use super::flowid::FlowId;
use super::seed::Seed;
use onefold_packet::checksum;

/// Packets of one set of columns.
pub const COLUMNS: usize = 64;
/// Packets of a column that are worked out together.
const ROW: usize = 16;

/// What a [`Binder`](super::binder::Binder) looks at of a packet: an IP header of 20 bytes, no later fragment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FlowPacket {
    /// IP protocol.
    pub proto: u8,
    /// Addresses and ports.
    pub flow: FlowId,
    /// TCP: the byte with the header's length, and the one with the flags.
    pub tcp: [u8; 2],
    /// Bytes from the transport header to the end of the packet.
    pub transport_len: u32,
    /// As the IP header says.
    pub total_len: u16,
}

/// A packet that a [`Binder`](super::binder::Binder) knows, with what is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    pub(super) packet: FlowPacket,
    pub(super) map: u16,
    pub(super) hash: u32,
    /// What is known of a new flow, if what it becomes follows from the packet.
    pub(super) likely: Option<Likely>,
}

/// What is known of a new flow before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Likely {
    /// Of its replies.
    pub hash: u32,
    /// As [`super::record::NewFlow::deltas`].
    pub deltas: (u16, u16),
}

impl Asked {
    /// Bytes from the transport header to the end of the packet.
    #[inline(always)]
    pub fn transport_len(&self) -> u32 {
        self.packet.transport_len
    }
}

/// What a pattern makes of flows where that follows from each flow alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Filling {
    /// Of source, destination, and both ports: bits that stay, and bits that are set.
    pub keep: [u32; 3],
    pub set: [u32; 3],
    /// Source ports that stay what they are: the first, and how many more. What becomes of others is not known before.
    pub stay: (u32, u32),
}

/// Which packets are known, and how they are looked up.
#[derive(Debug, Clone, Copy)]
pub(super) struct How<'t> {
    pub seed: &'t Seed,
    pub filling: Option<Filling>,
    pub map: u16,
    /// UDP flows are in a map of their own.
    pub two: bool,
    /// Least bytes of the transport header of TCP and of UDP packets; [`u32::MAX`]: none is known.
    pub least: [u32; 2],
}

const TCP: u32 = 6;
const UDP: u32 = 17;
/// Bits of [`Columns::state`].
const KNOWN: u32 = 1;
const LIKELY: u32 = 2;

/// Packets' fields, each in a column.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub struct Columns {
    saddr: [u32; COLUMNS],
    daddr: [u32; COLUMNS],
    /// Source port, destination port.
    ports: [u32; COLUMNS],
    /// Protocol, both bytes of [`FlowPacket::tcp`], from the lowest byte on.
    proto: [u32; COLUMNS],
    transport_len: [u32; COLUMNS],
    total_len: [u32; COLUMNS],
    // what is worked out
    state: [u32; COLUMNS],
    map: [u32; COLUMNS],
    hash: [u32; COLUMNS],
    reply: [u32; COLUMNS],
    /// Of addresses, of all in the upper half.
    deltas: [u32; COLUMNS],
}

impl Default for Columns {
    fn default() -> Columns {
        Columns {
            saddr: [0; COLUMNS],
            daddr: [0; COLUMNS],
            ports: [0; COLUMNS],
            proto: [0; COLUMNS],
            transport_len: [0; COLUMNS],
            total_len: [0; COLUMNS],
            state: [0; COLUMNS],
            map: [0; COLUMNS],
            hash: [0; COLUMNS],
            reply: [0; COLUMNS],
            deltas: [0; COLUMNS],
        }
    }
}

impl Columns {
    /// Writes a packet down; `None`: there is nothing to be asked about it.
    #[inline(always)]
    pub fn put(&mut self, i: usize, p: Option<FlowPacket>) {
        let i = i % COLUMNS;
        let Some(p) = p else {
            self.proto[i] = 0;
            return;
        };
        self.saddr[i] = p.flow.saddr;
        self.daddr[i] = p.flow.daddr;
        self.ports[i] = p.flow.ports();
        let [words, control] = p.tcp;
        self.proto[i] = u32::from(p.proto) | u32::from(words) << 8 | u32::from(control) << 16;
        self.transport_len[i] = p.transport_len;
        self.total_len[i] = p.total_len.into();
    }

    /// What is to be asked about a packet, after [`Binder::ask_all`](super::binder::Binder::ask_all), if anything is.
    #[inline(always)]
    pub fn get(&self, i: usize) -> Option<Asked> {
        let i = i % COLUMNS;
        let (state, deltas, proto) = (self.state[i], self.deltas[i], self.proto[i]);
        (state & KNOWN != 0).then(|| Asked {
            packet: FlowPacket {
                proto: proto as u8,
                flow: FlowId::of(self.saddr[i], self.daddr[i], self.ports[i]),
                tcp: [(proto >> 8) as u8, (proto >> 16) as u8],
                transport_len: self.transport_len[i],
                total_len: self.total_len[i] as u16,
            },
            map: self.map[i] as u16,
            hash: self.hash[i],
            likely: (state & LIKELY != 0).then_some(Likely {
                hash: self.reply[i],
                deltas: (deltas as u16, (deltas >> 16) as u16),
            }),
        })
    }

    /// Is there something to be asked about it?
    #[inline(always)]
    pub(super) fn is_known(&self, i: usize) -> bool {
        self.state[i % COLUMNS] & KNOWN != 0
    }
    /// Its hash.
    #[inline(always)]
    pub(super) fn hash(&self, i: usize) -> u32 {
        self.hash[i % COLUMNS]
    }
    /// The hash of a new flow's replies, if it is known.
    #[inline(always)]
    pub(super) fn reply(&self, i: usize) -> Option<u32> {
        (self.state[i % COLUMNS] & LIKELY != 0).then_some(self.reply[i % COLUMNS])
    }
    /// The map that it is looked up in.
    pub(super) fn map(&self, i: usize) -> u16 {
        self.map[i % COLUMNS] as u16
    }
    /// Its addresses and ports.
    pub(super) fn flow(&self, i: usize) -> FlowId {
        let i = i % COLUMNS;
        FlowId::of(self.saddr[i], self.daddr[i], self.ports[i])
    }

    /// Works out the first `n` packets.
    #[inline(always)]
    pub(super) fn work_out(&mut self, n: usize, how: &How<'_>) {
        let fill = how.filling.unwrap_or(Filling {
            keep: [!0; 3],
            set: [0; 3],
            stay: (0, 0),
        });
        let likely = if how.filling.is_some() { LIKELY } else { 0 };
        let (map, two) = (u32::from(how.map), u32::from(how.two));
        // Bound: the columns' length. All arrays are of one length, so that no index is asked about.
        for row in 0..n.min(COLUMNS).div_ceil(ROW) {
            for i in row * ROW..(row + 1) * ROW {
                let (saddr, daddr, ports) = (self.saddr[i], self.daddr[i], self.ports[i]);
                let proto = self.proto[i] & 0xff;
                let least = match proto {
                    TCP => how.least[0],
                    UDP => how.least[1],
                    _ => u32::MAX,
                };
                let known = u32::from(self.transport_len[i] >= least);
                let map = map + two * u32::from(proto != TCP);
                let to = [
                    saddr & fill.keep[0] | fill.set[0],
                    daddr & fill.keep[1] | fill.set[1],
                    ports & fill.keep[2] | fill.set[2],
                ];
                let stays = u32::from((ports >> 16).wrapping_sub(fill.stay.0) <= fill.stay.1);
                self.state[i] = known * (KNOWN | (stays * likely));
                self.map[i] = map;
                self.hash[i] = how.seed.hash([saddr, daddr, ports, map]);
                self.reply[i] = how.seed.hash([to[1], to[0], to[2].rotate_left(16), map]);
                self.deltas[i] = deltas([saddr, daddr, ports], to);
            }
        }
    }
}

/// [`super::flowid::checksum_deltas`] of addresses and ports in words, in one word.
#[inline(always)]
fn deltas(from: [u32; 3], to: [u32; 3]) -> u32 {
    let halves = |x: u32| (x >> 16) + (x & 0xffff);
    let part = |i: usize| halves(!from[i]) + halves(to[i]);
    let addresses = 0xffff + part(0) + part(1);
    let folded = |sum| u32::from(!checksum::fold_few(sum));
    folded(addresses) | folded(addresses + part(2)) << 16
}

#[cfg(test)]
mod tests {
    use super::super::flowid::checksum_deltas;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Columns give what one packet after the other does.
        #[test]
        fn columns_are_packets(
            flows in proptest::collection::vec((any::<(u32, u32, u32)>(), 0u8..4, any::<[u8; 2]>(), 0u32..40, any::<u16>()), 1..COLUMNS),
            set in any::<[bool; 3]>(), value in any::<[u32; 3]>(),
            (base, more, two, map) in (0u32..0x10000, 0u32..0x10000, any::<bool>(), 0u16..9),
            known in any::<bool>(),
        ) {
            let seed = Seed::new();
            let filling = known.then_some(Filling {
                keep: set.map(|s| if s { 0 } else { !0 }),
                set: std::array::from_fn(|i| if set[i] { value[i] } else { 0 }),
                stay: (base, more),
            });
            let how = How { seed: &seed, filling, map, two, least: [18, 8] };
            let mut c = Columns::default();
            for (i, ((saddr, daddr, ports), proto, tcp, transport_len, total_len)) in flows.iter().enumerate() {
                let p = FlowPacket {
                    proto: [6, 17, 1, 0][usize::from(*proto)],
                    flow: FlowId::of(*saddr, *daddr, *ports),
                    tcp: *tcp,
                    transport_len: *transport_len,
                    total_len: *total_len,
                };
                c.put(i, Some(p));
            }
            c.work_out(flows.len(), &how);
            for (i, ((saddr, daddr, ports), proto, tcp, transport_len, total_len)) in flows.iter().enumerate() {
                let flow = FlowId::of(*saddr, *daddr, *ports);
                let least = [18, 8, u32::MAX, u32::MAX][usize::from(*proto)];
                prop_assert_eq!(c.get(i).is_none(), *transport_len < least);
                let Some(a) = c.get(i) else { continue };
                prop_assert_eq!((a.packet.flow, a.packet.tcp), (flow, *tcp));
                prop_assert_eq!((a.packet.transport_len, a.packet.total_len), (*transport_len, *total_len));
                let map = map + u16::from(two && *proto != 0);
                prop_assert_eq!(a.map, map);
                prop_assert_eq!(a.hash, seed.of(map, &flow));
                let stays = (u32::from(flow.sport)).wrapping_sub(base) <= more;
                prop_assert_eq!(a.likely.is_some(), known && stays);
                if let (Some(l), Some(f)) = (a.likely, filling) {
                    let word = |i: usize, old: u32| if set[i] { value[i] } else { old };
                    let to = FlowId::of(word(0, *saddr), word(1, *daddr), word(2, *ports));
                    prop_assert_eq!(l.hash, seed.of(map, &to.reversed()));
                    prop_assert_eq!(l.deltas, checksum_deltas(flow, to), "{:?}", f);
                }
            }
        }
    }
}
