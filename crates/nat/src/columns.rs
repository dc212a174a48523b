//! Headers of packets that a [`Binder`](crate::binder::Binder) binds: one packet, or a batch of them field by field.
//!
//! One packet after the other, a hash is a handful of multiplications that the next one's wait for, and a new flow
//! takes two of them and two checksum differences. Field by field, sixteen packets take about as many instructions as
//! one does (docs/decisions/0032).

use crate::binder::FlowBinding;
use crate::flow_id::FlowId;
use crate::hash_key::HashKey;
use crate::record::{NewFlow, TCP_DATA, TCP_DONE, Usage};
use onefold_packet::checksum;
use onefold_packet::wire::tcp::flag;

/// Packets of one set of columns.
pub const COLUMNS: usize = 64;
/// Packets of a column that are worked out together.
pub const ROW: usize = 16;

/// What a [`Binder`](crate::binder::Binder) looks at of a packet: an IP header of 20 bytes, no later fragment.
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

/// A packet that a [`Binder`](crate::binder::Binder) knows, with what is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BindRequest {
    pub(crate) packet: FlowPacket,
    pub(crate) map: u16,
    pub(crate) hash: u32,
    /// What is known of a new flow, if what it becomes follows from the packet.
    pub(crate) likely: Option<Likely>,
}

/// What is known of a new flow before it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Likely {
    /// Of its replies.
    pub hash: u32,
    /// As [`crate::record::NewFlow::deltas`].
    pub deltas: (u16, u16),
}

/// What a pattern makes of flows where that follows from each flow alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filling {
    /// Of source, destination, and both ports: bits that stay, and bits that are set.
    pub keep: [u32; 3],
    pub set: [u32; 3],
    /// Source ports that stay what they are: the first, and how many more. What becomes of others is not known before.
    pub stay: (u32, u32),
}

/// Which packets are known, and how they are looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'t> {
    pub hash_key: &'t HashKey,
    pub filling: Option<Filling>,
    pub map: u16,
    /// UDP flows are in a map of their own.
    pub two: bool,
    /// Least bytes of the transport header of TCP and of UDP packets; [`u32::MAX`]: none is known.
    pub least: [u32; 2],
    /// TCP's control bits that count as data.
    pub acks: u8,
}

/// Where the words of an IP header without options, and of what is behind it, begin that [`Columns::put_row`] wants:
/// total length first, protocol last, addresses, ports, TCP's length and flags last.
pub const HEADER_WORDS: [usize; 6] = [2, 6, 12, 16, 20, 30];
/// Bytes of them from the IP header on.
pub const HEADER_BYTES: u32 = 34;

const TCP: u32 = 6;
const UDP: u32 = 17;
/// A UDP flow's tracking flags behind the packet that makes it.
const UDP_FIRST: u32 = 2;
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
    // what is known of a new flow besides: addresses and ports that it gets, what is added to the complements of both
    // checksums, and its tracking flags
    to: [[u32; COLUMNS]; 3],
    sums: [u32; COLUMNS],
    flags: [u32; COLUMNS],
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
            to: [[0; COLUMNS]; 3],
            sums: [0; COLUMNS],
            flags: [0; COLUMNS],
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

    /// Writes down a row's packets, all of which have an IP header of 20 bytes that many bytes (`net`) behind their
    /// beginning, no later fragments: their [words](HEADER_WORDS) as they stand, and how long they are. A packet ends
    /// where its IP header says, if not before. False, and nothing is to be relied on, where one does so before byte
    /// `least`, or before all that is looked at.
    #[inline(always)]
    pub fn put_row(
        &mut self,
        row: usize,
        words: &[[u32; ROW]; HEADER_WORDS.len()],
        lens: &[u32; ROW],
        (net, least): (u32, u32),
    ) -> bool {
        let least = least.max(net + HEADER_BYTES);
        let from = row * ROW % COLUMNS;
        let [lengths, protos, saddrs, daddrs, ports, tcp] = words;
        let mut shorter = 0;
        for i in 0..ROW {
            let at = from + i;
            let total = u32::from_be(lengths[i]) >> 16;
            let end = lens[i].min(net + total);
            shorter |= u32::from(end < least);
            let tcp = u32::from_be(tcp[i]);
            self.saddr[at] = u32::from_be(saddrs[i]);
            self.daddr[at] = u32::from_be(daddrs[i]);
            self.ports[at] = u32::from_be(ports[i]);
            self.proto[at] = u32::from_be(protos[i]) & 0xff | tcp & 0xff00 | (tcp & 0xff) << 16;
            self.transport_len[at] = end.wrapping_sub(net + 20);
            self.total_len[at] = total;
        }
        shorter == 0
    }

    /// Nothing is to be asked about a row's packets.
    pub fn forget(&mut self, row: usize) {
        let from = row * ROW % COLUMNS;
        self.state
            .iter_mut()
            .skip(from)
            .take(ROW)
            .for_each(|s| *s = 0);
    }

    /// What is to be asked about a packet, after [`Binder::ask_row`](crate::binder::Binder::ask_row), if anything is.
    #[inline(always)]
    pub fn get(&self, i: usize) -> Option<BindRequest> {
        let i = i % COLUMNS;
        let (state, deltas, proto) = (self.state[i], self.deltas[i], self.proto[i]);
        (state & KNOWN != 0).then(|| BindRequest {
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

    /// Bytes from its transport header to its end, if something is to be asked about it.
    #[inline(always)]
    pub fn transport_len(&self, i: usize) -> Option<u32> {
        self.is_known(i).then_some(self.transport_len[i % COLUMNS])
    }
    /// The same of a packet of which that is known.
    #[inline(always)]
    pub fn length(&self, i: usize) -> u32 {
        self.transport_len[i % COLUMNS]
    }
    /// Is there something to be asked about it?
    #[inline(always)]
    pub(crate) fn is_known(&self, i: usize) -> bool {
        self.state[i % COLUMNS] & KNOWN != 0
    }
    /// Its hash.
    #[inline(always)]
    pub(crate) fn hash(&self, i: usize) -> u32 {
        self.hash[i % COLUMNS]
    }
    /// The hash of a new flow's replies, if it is known.
    #[inline(always)]
    pub(crate) fn reply(&self, i: usize) -> Option<u32> {
        (self.state[i % COLUMNS] & LIKELY != 0).then_some(self.reply[i % COLUMNS])
    }
    /// The map that it is looked up in.
    pub(crate) fn map(&self, i: usize) -> u16 {
        self.map[i % COLUMNS] as u16
    }
    /// Its addresses and ports.
    pub(crate) fn flow(&self, i: usize) -> FlowId {
        let i = i % COLUMNS;
        FlowId::of(self.saddr[i], self.daddr[i], self.ports[i])
    }

    /// Works out the packets of a row.
    #[inline(always)]
    pub(crate) fn work_out(&mut self, row: usize, how: &How<'_>) {
        let fill = how.filling.unwrap_or(Filling {
            keep: [!0; 3],
            set: [0; 3],
            stay: (0, 0),
        });
        let likely = if how.filling.is_some() { LIKELY } else { 0 };
        let (map, two) = (u32::from(how.map), u32::from(how.two));
        // all arrays are of one length, so that no index is asked about
        let from = row * ROW % COLUMNS;
        for i in from..from + ROW {
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
            let reply = [to[1], to[0], to[2].rotate_left(16)];
            // its own reply it is never
            let other = (reply[0] ^ saddr) | (reply[1] ^ daddr) | (reply[2] ^ ports);
            let likely = stays * u32::from(other != 0) * likely;
            self.state[i] = known * (KNOWN | likely);
            self.map[i] = map;
            self.hash[i] = how.hash_key.hash([saddr, daddr, ports, map]);
            self.reply[i] = how.hash_key.hash([reply[0], reply[1], reply[2], map]);
            let deltas = deltas([saddr, daddr, ports], to);
            self.deltas[i] = deltas;
            self.sums[i] = shifts(deltas);
            for (all, to) in self.to.iter_mut().zip(to) {
                all[i] = to;
            }
            self.flags[i] = first_flags(self.proto[i], self.total_len[i], how.acks);
        }
    }

    /// How many packets there are from number `from` on, up to `n`, of which it is [known](Likely) what new flows will
    /// become.
    #[inline(always)]
    pub(crate) fn likely(&self, from: usize, n: usize) -> usize {
        // all of them are looked at: few vector instructions, and one that ends at the first takes several for each
        // packet
        let mut first = COLUMNS as u32;
        for (i, state) in (0..).zip(&self.state) {
            let odd = (state & LIKELY == 0) & (u32::wrapping_sub(i, from as u32) < n as u32);
            first = first.min(if odd { i } else { COLUMNS as u32 });
        }
        (first as usize).saturating_sub(from).min(n)
    }
    /// The hashes of a new flow and of its replies.
    #[inline(always)]
    pub(crate) fn hashes(&self, i: usize) -> [u32; 2] {
        [self.hash[i % COLUMNS], self.reply[i % COLUMNS]]
    }
    /// A new flow, if it becomes what it is likely to become, and what it does to checksums.
    #[inline(always)]
    pub(crate) fn new_flow(
        &self,
        i: usize,
        input: u16,
        outputs: (usize, usize),
    ) -> (NewFlow, (u16, u16)) {
        let deltas = self.deltas[i % COLUMNS];
        let new = NewFlow {
            map: self.map(i),
            input,
            ip_p: self.proto[i % COLUMNS] as u8,
            flow: self.flow(i),
            hash: self.hash(i),
            rewritten: self.becomes(i),
            outputs,
            ping: false,
            free: true,
            flags: self.flags[i % COLUMNS] as u8,
            usage: Usage::Plain,
        };
        (new, (deltas as u16, (deltas >> 16) as u16))
    }
    #[inline(always)]
    fn becomes(&self, i: usize) -> FlowId {
        let [saddr, daddr, ports] = &self.to;
        let i = i % COLUMNS;
        FlowId::of(saddr[i], daddr[i], ports[i])
    }
    /// The binding of a packet that [`Binder::bind_new`](crate::binder::Binder::bind_new) has bound.
    #[inline(always)]
    pub fn binding(&self, i: usize) -> FlowBinding {
        let sums = self.sums[i % COLUMNS];
        FlowBinding {
            to: self.becomes(i),
            ip_sum: sums as u16,
            transport_sum: (sums >> 16) as u16,
        }
    }
}

/// [`crate::bind::shift`] of forward packets, of both halves.
#[inline(always)]
fn shifts(deltas: u32) -> u32 {
    let one = |d: u32| match d {
        0 => 0,
        0xffff => 0xffff,
        d => d ^ 0xffff,
    };
    one(deltas & 0xffff) | one(deltas >> 16) << 16
}

/// Tracking flags behind the packet that makes a flow: those of [`crate::binder::Binder`], of a column's numbers.
#[inline(always)]
fn first_flags(proto: u32, total_len: u32, acks: u8) -> u32 {
    let (words, control) = (proto >> 12 & 15, proto >> 16);
    let bit = |f: u8| u32::from(control & u32::from(f) != 0);
    let closed = u32::from(TCP_DONE);
    let data = (u32::from(20 + words * 4 < total_len) | bit(acks)) * u32::from(TCP_DATA);
    let (reset, fin) = (bit(flag::RST), bit(flag::FIN));
    let tcp = (reset * (closed | (closed << 1))) | ((fin & !reset) * closed) | data;
    match proto & 0xff {
        TCP => tcp,
        _ => UDP_FIRST,
    }
}

/// [`crate::flow_id::checksum_deltas`] of addresses and ports in words, in one word.
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
    use super::*;
    use crate::binder::Binder;
    use crate::flow_id::checksum_addend;
    use crate::flow_id::checksum_deltas;
    use proptest::prelude::*;

    proptest! {
        /// A row that is read as a whole is sixteen packets that are put down one after the other.
        #[test]
        fn a_row_is_sixteen_packets(
            bytes in proptest::collection::vec(proptest::collection::vec(any::<u8>(), HEADER_BYTES as usize), ROW),
            lens in proptest::collection::vec(prop_oneof![20u32..80, Just(64u32)], ROW),
            near in any::<bool>(), net in 0u32..31, least in 0u32..70, row in 0..COLUMNS / ROW,
        ) {
            let mut bytes = bytes;
            if near {
                bytes.iter_mut().for_each(|h| h[2] = 0);
            }
            let word = |h: &[u8], at: usize| u32::from_ne_bytes(h[at..at + 4].try_into().unwrap());
            let words = HEADER_WORDS.map(|at| std::array::from_fn(|i| word(&bytes[i], at)));
            let (mut all, mut each) = (Columns::default(), Columns::default());
            let put = all.put_row(row, &words, lens.first_chunk().unwrap(), (net, least));
            let mut whole = true;
            for (i, (h, len)) in bytes.iter().zip(&lens).enumerate() {
                let b16 = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
                let b32 = |at: usize| u32::from_be_bytes([h[at], h[at + 1], h[at + 2], h[at + 3]]);
                let end = (net + u32::from(b16(2))).min(*len);
                whole &= end >= least && end >= net + HEADER_BYTES;
                if end >= net + 20 {
                    each.put(row * ROW + i, Some(FlowPacket {
                        proto: h[9],
                        flow: FlowId { saddr: b32(12), daddr: b32(16), sport: b16(20), dport: b16(22) },
                        tcp: [h[32], h[33]],
                        transport_len: end - net - 20,
                        total_len: b16(2),
                    }));
                }
            }
            prop_assert_eq!(put, whole);
            if whole {
                let fields = |c: &Columns| (c.saddr, c.daddr, c.ports, c.proto, c.transport_len, c.total_len);
                prop_assert_eq!(fields(&all), fields(&each));
            }
        }

        /// Columns give what one packet after the other does.
        #[test]
        fn columns_are_packets(
            flows in proptest::collection::vec((any::<(u32, u32, u32)>(), 0u8..4, any::<[u8; 2]>(), 0u32..40, any::<u16>()), 1..COLUMNS),
            set in any::<[bool; 3]>(), value in any::<[u32; 3]>(),
            (base, more, two, map) in (0u32..0x10000, 0u32..0x10000, any::<bool>(), 0u16..9),
            known in any::<bool>(), acks in prop_oneof![Just(0), Just(flag::ACK)],
        ) {
            let hash_key = HashKey::new();
            let filling = known.then_some(Filling {
                keep: set.map(|s| if s { 0 } else { !0 }),
                set: std::array::from_fn(|i| if set[i] { value[i] } else { 0 }),
                stay: (base, more),
            });
            let how = How { hash_key: &hash_key, filling, map, two, least: [18, 8], acks };
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
            (0..COLUMNS / ROW).for_each(|row| c.work_out(row, &how));
            for (i, ((saddr, daddr, ports), proto, tcp, transport_len, total_len)) in flows.iter().enumerate() {
                let flow = FlowId::of(*saddr, *daddr, *ports);
                let least = [18, 8, u32::MAX, u32::MAX][usize::from(*proto)];
                prop_assert_eq!(c.get(i).is_none(), *transport_len < least);
                let Some(a) = c.get(i) else { continue };
                prop_assert_eq!((a.packet.flow, a.packet.tcp), (flow, *tcp));
                prop_assert_eq!((a.packet.transport_len, a.packet.total_len), (*transport_len, *total_len));
                let map = map + u16::from(two && *proto != 0);
                prop_assert_eq!(a.map, map);
                prop_assert_eq!(a.hash, hash_key.of(map, &flow));
                let stays = (u32::from(flow.sport)).wrapping_sub(base) <= more;
                let becomes = filling.map(|f| {
                    let word = |i: usize, old: u32| if set[i] { f.set[i] } else { old };
                    FlowId::of(word(0, *saddr), word(1, *daddr), word(2, *ports))
                });
                prop_assert_eq!(a.likely.is_some(), known && stays && becomes.is_some_and(|b| b.reversed() != flow));
                prop_assert_eq!(c.likely(i, 1) == 1, a.likely.is_some());
                if let (Some(l), Some(f)) = (a.likely, filling) {
                    let word = |i: usize, old: u32| if set[i] { value[i] } else { old };
                    let to = FlowId::of(word(0, *saddr), word(1, *daddr), word(2, *ports));
                    prop_assert_eq!(l.hash, hash_key.of(map, &to.reversed()));
                    prop_assert_eq!(l.deltas, checksum_deltas(flow, to), "{:?}", f);
                    let (new, deltas) = c.new_flow(i, 3, (1, 2));
                    prop_assert_eq!((new.flow, new.rewritten, new.map, deltas), (flow, to, map, l.deltas));
                    prop_assert_eq!(new.flags, Binder::flags(0, &a.packet, acks));
                    let sums = [l.deltas.0, l.deltas.1].map(|d| checksum_addend(d, false));
                    prop_assert_eq!(c.binding(i), FlowBinding { to, ip_sum: sums[0], transport_sum: sums[1] });
                    prop_assert_eq!(c.hashes(i), [a.hash, l.hash]);
                }
            }
        }
    }
}
