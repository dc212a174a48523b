//! What a packet carries so that it is known when it comes back: 18 bytes at the start of its payload, as much as a
//! UDP datagram in the shortest Ethernet frame has.
//!
//! | bytes | what |
//! |---|---|
//! | 0, 1 | the generator's number: which run a packet is of |
//! | 2, 3 | a keyed hash of what follows |
//! | 4 to 8 | sequence number, 40 bits: of all packets of the run, whatever their flow |
//! | 9 to 11 | flow, 24 bits |
//! | 12 to 17 | intended send time, 48 bits, in nanoseconds since the run began, modulo 78 hours |
//!
//! The stamp is in the payload, so it survives whatever rewrites headers; the transport checksum is updated by what is
//! written (RFC 1624), as a NAT updates it by what it writes.

use onefold_packet::checksum;
use onefold_packet::wire::{ipv4, ipv6};

/// Bytes of a stamp.
pub const LEN: usize = 18;
/// Sequence numbers end before this one: at a million packets a second after twelve days.
pub const SEQUENCES: u64 = 1 << 40;
/// Flows end before this one.
pub const FLOWS: u32 = 1 << 24;
/// Bits of a time.
const TIME: u64 = (1 << 48) - 1;

/// Where the IP packet of a frame and its parts are, in bytes from the frame's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The IP header.
    net: u16,
    /// The transport header.
    transport: u16,
    /// The payload.
    payload: u16,
    /// Behind the IP packet; padding may follow.
    end: u16,
    /// TCP, UDP, or ICMP's number.
    protocol: u8,
    v6: bool,
}

/// TCP's number.
const TCP: u8 = 6;
/// UDP's.
const UDP: u8 = 17;
/// ICMP's.
const ICMP: u8 = 1;
/// ICMPv6's.
const ICMP6: u8 = 58;
/// VLAN tags that are looked behind.
const MAX_TAGS: usize = 4;

fn be16(b: &[u8], at: usize) -> Option<u16> {
    let two = b.get(at..at + 2)?.first_chunk::<2>()?;
    Some(u16::from_be_bytes(*two))
}

fn put16(b: &mut [u8], at: usize, v: u16) {
    if let Some(to) = b.get_mut(at..at + 2) {
        to.copy_from_slice(&v.to_be_bytes());
    }
}

impl Place {
    /// Where things are in a frame with an unfragmented TCP, UDP or ICMP echo packet; `None`: it is no such frame, or
    /// it is cut off.
    pub fn of(frame: &[u8]) -> Option<Place> {
        let mut net = 14;
        let mut kind = be16(frame, 12)?;
        for _ in 0..MAX_TAGS {
            if !matches!(kind, 0x8100 | 0x88a8) {
                break;
            }
            kind = be16(frame, net + 2)?;
            net += 4;
        }
        let ip = frame.get(net..)?;
        let (protocol, transport, len, v6) = match kind {
            0x0800 => {
                let h = ipv4::Header::parse(ip)?;
                if h.version() != 4 || h.header_len() < ipv4::LEN || h.is_fragment() {
                    return None;
                }
                (
                    h.protocol(),
                    h.header_len(),
                    usize::from(h.total_len()),
                    false,
                )
            }
            0x86dd => {
                let h = ipv6::Header::parse(ip)?;
                let u = h.upper()?;
                let len = ipv6::LEN + usize::from(h.payload_len());
                match h.version() == 6 && !u.fragment {
                    true => (u.protocol, u.offset, len, true),
                    false => return None,
                }
            }
            _ => return None,
        };
        let (transport, end) = (net + transport, net + len);
        let header = match (protocol, v6) {
            (TCP, _) => usize::from(frame.get(transport + 12)? >> 4) * 4,
            (UDP, _) => 8,
            (ICMP, false) if matches!(frame.get(transport)?, 0 | 8) => 8,
            (ICMP6, true) if matches!(frame.get(transport)?, 128 | 129) => 8,
            _ => return None,
        };
        let payload = transport + header;
        if header < 8 || payload > end || end > frame.len() {
            return None;
        }
        let short = |n: usize| u16::try_from(n).ok();
        Some(Place {
            net: short(net)?,
            transport: short(transport)?,
            payload: short(payload)?,
            end: short(end)?,
            protocol,
            v6,
        })
    }

    /// Is there room for a stamp?
    pub fn has_room(self) -> bool {
        self.end - self.payload >= LEN as u16
    }

    /// Where the transport checksum is.
    fn checksum_at(self) -> usize {
        let at = match self.protocol {
            TCP => 16,
            UDP => 6,
            _ => 2,
        };
        usize::from(self.transport) + at
    }

    /// The sum of what the transport checksum covers, the field itself included.
    fn sum(self, frame: &[u8]) -> u64 {
        let (net, at, end) = (self.net.into(), self.transport.into(), self.end.into());
        let ip: &[u8] = frame.get(net..).unwrap_or_default();
        let part: &[u8] = frame.get(at..end).unwrap_or_default();
        let acc = match (self.v6, self.protocol) {
            (false, ICMP) => 0,
            (false, p) => ipv4::Header::parse(ip).map_or(0, |h| {
                checksum::pseudo_v4(h.src(), h.dst(), p, part.len() as u16)
            }),
            (true, p) => ipv6::Header::parse(ip).map_or(0, |h| {
                checksum::pseudo_v6(&h.src(), &h.dst(), p, part.len() as u32)
            }),
        };
        checksum::sum(part, acc)
    }

    /// Are the checksums right (of UDP over IPv4: or absent)?
    fn intact(self, frame: &[u8]) -> bool {
        let ip = frame.get(usize::from(self.net)..).unwrap_or_default();
        let header = self.v6 || ipv4::Header::parse(ip).is_some_and(|h| h.checksum_ok());
        let absent = self.protocol == UDP && be16(frame, self.checksum_at()) == Some(0);
        header && ((absent && !self.v6) || checksum::fold(self.sum(frame)) == 0xffff)
    }

    /// Writes the transport checksum.
    fn fill(self, frame: &mut [u8]) {
        let at = self.checksum_at();
        put16(frame, at, 0);
        let sum = !checksum::fold(self.sum(frame));
        put16(frame, at, self.not_absent(sum));
    }

    /// Zero says of a UDP datagram that it has no checksum.
    fn not_absent(self, sum: u16) -> u16 {
        match (self.protocol, sum) {
            (UDP, 0) => 0xffff,
            (_, sum) => sum,
        }
    }
}

/// What became of a frame that was to be stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared {
    /// Its stamp goes there, and is zero until then; the transport checksum is right.
    Ready(Place),
    /// As `Ready`, but the frame had to be made longer.
    Longer(Place),
    /// It carries none.
    Without,
}

/// Makes a frame ready for stamps. A payload that is too short is made longer if it may be.
pub fn prepare(frame: &mut Vec<u8>, may_grow: bool) -> Prepared {
    let Some(mut at) = Place::of(frame) else {
        return Prepared::Without;
    };
    let grows = !at.has_room();
    if grows {
        if !may_grow {
            return Prepared::Without;
        }
        match grown(frame, at) {
            Some(longer) => at = longer,
            None => return Prepared::Without,
        }
    }
    let from = usize::from(at.payload);
    if let Some(stamp) = frame.get_mut(from..from + LEN) {
        stamp.fill(0);
    }
    at.fill(frame);
    match grows {
        true => Prepared::Longer(at),
        false => Prepared::Ready(at),
    }
}

/// The frame with a payload that has just room for a stamp.
fn grown(frame: &mut Vec<u8>, at: Place) -> Option<Place> {
    let end = usize::from(at.payload) + LEN;
    frame.truncate(at.end.into());
    frame.resize(end.max(60), 0);
    let net = usize::from(at.net);
    let len = u16::try_from(end - net).ok()?;
    match at.v6 {
        true => put16(frame, net + 4, len - ipv6::LEN as u16),
        false => {
            let mut h = ipv4::Header::parse(frame.get_mut(net..)?)?;
            h.set_total_len(len);
            h.fill_checksum();
        }
    }
    if at.protocol == UDP {
        let transport = usize::from(at.transport);
        put16(frame, transport + 4, (end - transport) as u16);
    }
    let end = u16::try_from(end).ok()?;
    Some(Place { end, ..at })
}

/// What a stamp says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Sequence number, below [`SEQUENCES`].
    pub seq: u64,
    /// Flow, below [`FLOWS`].
    pub flow: u32,
    /// Intended send time in nanoseconds, modulo 2^48.
    pub time: u64,
}

impl Stamp {
    /// Nanoseconds from this one's time to `now`, on the clock that it is of.
    pub fn age(self, now: u64) -> u64 {
        now.wrapping_sub(self.time) & TIME
    }
}

/// What a frame that has come says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// No packet of this run.
    Foreign,
    /// One of this run, damaged: the stamp, the transport checksum or the IP header's is wrong.
    Corrupted,
    /// One of this run.
    Stamped(Stamp),
}

/// Writes and recognises the stamps of a run.
#[derive(Debug, Clone, Copy)]
pub struct Key(u64);

impl Key {
    /// Of a run with this number, which is to be another one for every run.
    pub fn new(run: u64) -> Key {
        Key(mix(run))
    }

    fn number(self) -> u16 {
        (self.0 >> 48) as u16
    }

    fn check(self, [a, b]: [u64; 2]) -> u16 {
        (mix(mix(self.0 ^ a) ^ b) >> 32) as u16
    }

    /// Writes a stamp where zeros are ([`prepare`]), and updates the transport checksum.
    #[inline]
    pub fn write(self, frame: &mut [u8], at: Place, s: Stamp) {
        let a = (s.seq % SEQUENCES) << 24 | u64::from(s.flow % FLOWS);
        let b = s.time & TIME;
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&self.number().to_be_bytes());
        bytes[2..4].copy_from_slice(&self.check([a, b]).to_be_bytes());
        bytes[4..12].copy_from_slice(&a.to_be_bytes());
        bytes[12..].copy_from_slice(&b.to_be_bytes()[2..]);
        let from = usize::from(at.payload);
        if let Some(to) = frame.get_mut(from..from + LEN) {
            to.copy_from_slice(&bytes);
        }
        let field = at.checksum_at();
        let old = be16(frame, field).unwrap_or(0);
        // payloads begin at an even place of what the checksum covers
        let sum = !checksum::fold(checksum::sum(&bytes, u64::from(!old)));
        put16(frame, field, at.not_absent(sum));
    }

    /// What a frame says.
    #[inline]
    pub fn read(self, frame: &[u8]) -> Read {
        let Some(at) = Place::of(frame).filter(|p| p.has_room()) else {
            return Read::Foreign;
        };
        let from = usize::from(at.payload);
        let Some(bytes) = frame.get(from..).and_then(|b| b.first_chunk::<LEN>()) else {
            return Read::Foreign;
        };
        let word = |at: usize| be16(bytes, at).map_or(0, u64::from);
        if word(0) != u64::from(self.number()) {
            return Read::Foreign;
        }
        let a = [4, 6, 8, 10].iter().fold(0, |a, at| a << 16 | word(*at));
        let b = [12, 14, 16].iter().fold(0, |b, at| b << 16 | word(*at));
        if word(2) != u64::from(self.check([a, b])) || !at.intact(frame) {
            return Read::Corrupted;
        }
        Read::Stamped(Stamp {
            seq: a >> 24,
            flow: (a & u64::from(FLOWS - 1)) as u32,
            time: b,
        })
    }
}

/// Takes the stamp out of a frame: zeros are there then, and the checksum is right. False: there is no room for one.
pub fn erase(frame: &mut [u8]) -> bool {
    let Some(at) = Place::of(frame).filter(|p| p.has_room()) else {
        return false;
    };
    let from = usize::from(at.payload);
    if let Some(stamp) = frame.get_mut(from..from + LEN) {
        stamp.fill(0);
    }
    at.fill(frame);
    true
}

/// A permutation of 64-bit numbers that spreads every bit (the finalizer of SplitMix64).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn udp(payload: usize) -> Vec<u8> {
        let b = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [198, 18, 0, 9], 64)
            .udp(1024, 9);
        let mut f = Vec::new();
        b.write(&mut f, &vec![7; payload]).unwrap();
        f
    }

    fn all_kinds(payload: usize) -> Vec<Vec<u8>> {
        let p = vec![0xa5; payload];
        let mut all = vec![udp(payload)];
        let mut add = |f: &dyn Fn(&mut Vec<u8>)| {
            let mut frame = Vec::new();
            f(&mut frame);
            all.push(frame);
        };
        let four =
            || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 1, 1, 1], [198, 18, 0, 9], 3);
        let six = || PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([3; 16], [5; 16], 9);
        add(&|f| four().tcp(1, 2, 3, 1000).write(f, &p).unwrap());
        add(&|f| four().icmpv4_echo_request(1, 2).write(f, &p).unwrap());
        add(&|f| six().udp(1, 2).write(f, &p).unwrap());
        add(&|f| six().tcp(1, 2, 3, 1000).write(f, &p).unwrap());
        add(&|f| six().icmpv6_echo_request(1, 2).write(f, &p).unwrap());
        add(&|f| {
            let b = PacketBuilder::ethernet2([2; 6], [4; 6]).single_vlan(7.try_into().unwrap());
            b.ipv4([1; 4], [9; 4], 3).udp(1, 2).write(f, &p).unwrap();
        });
        all
    }

    const STAMP: Stamp = Stamp {
        seq: 0xfe_dcba_9876,
        flow: 0xab_cdef,
        time: 0x1234_5678_9abc,
    };

    #[test]
    fn stamps_of_every_protocol_and_length_are_read_and_the_checksum_is_right() {
        let key = Key::new(7);
        for payload in [0, 1, 17, 18, 19, 100, 1400] {
            for mut f in all_kinds(payload) {
                let whole = f.len();
                let at = match prepare(&mut f, true) {
                    Prepared::Ready(p) if payload >= LEN => p,
                    Prepared::Longer(p) if payload < LEN => p,
                    other => panic!("{payload}: {other:?}"),
                };
                assert_eq!(f.len(), whole.max(at.end.into()).max(60).max(f.len()));
                key.write(&mut f, at, STAMP);
                assert_eq!(key.read(&f), Read::Stamped(STAMP));
                assert_eq!(Key::new(8).read(&f), Read::Foreign);
                let mut without = f.clone();
                assert!(erase(&mut without));
                assert_eq!(key.read(&without), Read::Foreign);
                // another opinion on the checksums
                let s = etherparse::PacketHeaders::from_ethernet_slice(&f).unwrap();
                if let Some(etherparse::TransportHeader::Udp(u)) = &s.transport
                    && let Some(etherparse::NetHeaders::Ipv4(ip, _)) = &s.net
                {
                    let right = u.calc_checksum_ipv4(ip, s.payload.slice()).unwrap();
                    assert_eq!(u.checksum, right);
                }
            }
        }
    }

    #[test]
    fn the_shortest_frame_has_room() {
        let mut f = udp(LEN);
        assert_eq!(f.len(), 60);
        assert!(matches!(prepare(&mut f, false), Prepared::Ready(_)));
        let mut short = udp(LEN - 1);
        assert_eq!(prepare(&mut short.clone(), false), Prepared::Without);
        assert!(matches!(prepare(&mut short, true), Prepared::Longer(_)));
        assert_eq!(short.len(), 60);
    }

    #[test]
    fn what_a_nat_does_leaves_the_stamp_and_a_right_checksum() {
        let key = Key::new(1);
        for n in 0..2000u64 {
            let mut f = udp(LEN);
            let Prepared::Ready(at) = prepare(&mut f, false) else {
                panic!("there is room")
            };
            let s = Stamp {
                seq: n,
                flow: n as u32 & 7,
                time: n * 1000,
            };
            key.write(&mut f, at, s);
            // source address and port are rewritten, the checksums incrementally (RFC 1624)
            let (old, new) = (0x0a00_0001, 0xcb00_7101u32.wrapping_add(mix(n) as u32));
            let (port, to) = (1024, mix(n ^ 1) as u16);
            let udp_sum = be16(&f, 40).unwrap();
            let udp_sum = checksum::update(checksum::update32(udp_sum, old, new), port, to);
            put16(&mut f, 40, if udp_sum == 0 { 0xffff } else { udp_sum });
            let ip_sum = be16(&f, 24).unwrap();
            put16(&mut f, 24, checksum::update32(ip_sum, old, new));
            f[26..30].copy_from_slice(&new.to_be_bytes());
            put16(&mut f, 34, to);
            assert_eq!(key.read(&f), Read::Stamped(s), "{n}");
        }
    }

    #[test]
    fn damage_is_seen_wherever_it_is() {
        let key = Key::new(99);
        for mut f in all_kinds(40) {
            let Prepared::Ready(at) = prepare(&mut f, false) else {
                panic!("there is room")
            };
            key.write(&mut f, at, STAMP);
            // behind the Ethernet header and its tags, before padding; no checksum covers IPv6's first word and hop
            // limit
            let net = usize::from(at.net);
            let uncovered = [net, net + 1, net + 2, net + 3, net + 7];
            let all = net..usize::from(at.end);
            for byte in all.filter(|b| !at.v6 || !uncovered.contains(b)) {
                let mut g = f.clone();
                g[byte] ^= 0x10;
                assert_ne!(key.read(&g), Read::Stamped(STAMP), "byte {byte}");
            }
            let inner = usize::from(at.payload) + 30;
            f[inner] ^= 1;
            assert_eq!(key.read(&f), Read::Corrupted);
        }
    }

    #[test]
    fn what_carries_no_stamp_is_left_alone() {
        let mut arp = vec![0xff; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        let mut fragment = udp(40);
        fragment[20] |= 0x20;
        let mut cut = udp(40);
        cut.truncate(70);
        for f in [arp, fragment, cut, vec![1, 2, 3], Vec::new()] {
            let mut g = f.clone();
            assert_eq!(prepare(&mut g, true), Prepared::Without);
            assert_eq!(f, g);
            assert_eq!(Key::new(1).read(&f), Read::Foreign);
        }
    }

    #[test]
    fn ages_are_taken_modulo() {
        let s = Stamp {
            time: TIME - 10,
            ..STAMP
        };
        assert_eq!(s.age(20), 31);
    }

    proptest::proptest! {
        #[test]
        fn no_frame_makes_it_panic(
            f in proptest::collection::vec(proptest::num::u8::ANY, 0..120),
            kind in 0usize..3,
        ) {
            let mut f = f;
            if f.len() > 24 {
                let (a, b) = [(8, 0), (0x86, 0xdd), (0x81, 0)][kind];
                (f[12], f[13]) = (a, b);
                f[14] = if kind == 0 { 0x45 } else { 0x60 };
            }
            let _ = Key::new(1).read(&f);
            let _ = prepare(&mut f, true);
        }
    }
}
