//! Packets to try models on: valid ones, odd ones, and everything between, made from a seed.

use onefold_element::model::rng::Rng;
use onefold_packet::wire::ipv4;
use onefold_packet::{Packet, PacketType, Pkt, Timestamp, checksum};

/// What packets begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// An Ethernet header, mostly; most have their MAC header marked, few a network header.
    Ether,
    /// An IPv4 header, mostly marked.
    Ip4,
    /// An IPv6 header, mostly marked.
    Ip6,
    /// Any of them.
    Any,
}

/// A packet.
#[derive(Debug, Clone)]
pub struct Sample {
    /// It.
    pub packet: Pkt,
    /// An option-free, unfragmented, whole, correct TCP or UDP packet over IPv4 with a TTL above 2 (at layer
    /// [`Layer::Ip6`]: over IPv6, without extension headers), with its headers marked as they should be at this layer.
    pub plain: bool,
}

/// The answer to a TCP, UDP or echo packet over IPv4 without options: addresses and ports exchanged, a request made a
/// reply. (Checksums that add up stay right, but ICMP's.)
pub fn answer(p: &Pkt) -> Option<Pkt> {
    let mut q = p.clone();
    let header: &mut [u8; 20] = q.network_mut()?.first_chunk_mut()?;
    let [_, _, _, _, _, _, _, _, _, proto, ..] = *header;
    let (_, addresses) = header.split_at_mut(12);
    let (source, destination) = addresses.split_at_mut(4);
    source.swap_with_slice(destination);
    let head: &mut [u8; 4] = q.transport_mut()?.first_chunk_mut()?;
    match (proto, head[0]) {
        (6 | 17, _) => head.rotate_left(2),
        (1, 8) => head[0] = 0,
        _ => return None,
    }
    Some(q)
}

/// Values that a configuration mentions: packets near them find more.
#[derive(Debug, Clone, Default)]
struct Hints {
    addresses: Vec<u32>,
    numbers: Vec<u32>,
    ethers: Vec<[u8; 6]>,
}

impl Hints {
    fn of(config: &str) -> Hints {
        let mut h = Hints::default();
        // Bound: a configuration of thousands of rules gives a few thousand hints
        let words = config.split(|c: char| !(c.is_ascii_alphanumeric() || ".:".contains(c)));
        for w in words.filter(|w| !w.is_empty()).take(20_000) {
            if let Ok(a) = w.parse::<std::net::Ipv4Addr>() {
                let a = u32::from(a);
                h.addresses
                    .extend([a, a.wrapping_add(1), a.wrapping_sub(1)]);
            } else if let Ok(n) = w.parse::<u32>() {
                h.numbers
                    .extend([n, n.wrapping_add(1), n.saturating_sub(1)]);
            } else if let Some(hex) = w.strip_prefix("0x")
                && let Ok(n) = u32::from_str_radix(hex, 16)
            {
                h.numbers.extend([n, n.wrapping_add(1)]);
            } else if w.split(':').count() == 6 {
                let mut e = [0u8; 6];
                let mut parts = w.split(':');
                for b in &mut e {
                    *b = parts
                        .next()
                        .and_then(|p| u8::from_str_radix(p, 16).ok())
                        .unwrap_or(0);
                }
                h.ethers.push(e);
            }
        }
        h
    }
}

/// Makes `n` packets of a layer, near what `config` mentions.
pub fn samples(layer: Layer, config: &str, seed: u64, n: usize) -> Vec<Sample> {
    let mut g = Maker {
        rng: Rng::new(seed),
        hints: Hints::of(config),
        calm: false,
    };
    (0..n).map(|_| g.sample(layer)).collect()
}

struct Maker {
    rng: Rng,
    hints: Hints,
    /// Nothing odd happens to this packet.
    calm: bool,
}

const ADDRESSES: &[u32] = &[
    0x0a00_0001,
    0x0a00_0002,
    0x0a00_0101,
    0xc0a8_0001,
    0xc0a8_01c7,
    0x0102_0304,
    0x0808_0808,
    0,
    u32::MAX,
    0xe000_0001,
    0x7f00_0001,
    0x0aff_ffff,
    0xac10_0505,
];
const PORTS: &[u16] = &[53, 80, 443, 22, 1024, 1234, 0, 65535, 40000, 5060];
const ETHERS: &[[u8; 6]] = &[
    [0xff; 6],
    [1, 0, 0x5e, 0, 0, 1],
    [2, 0, 0, 0, 0, 1],
    [2, 0, 0, 0, 0, 2],
    [0x33, 0x33, 0, 0, 0, 1],
    [0; 6],
    [0, 1, 2, 3, 4, 5],
];

impl Maker {
    fn address(&mut self) -> u32 {
        if !self.hints.addresses.is_empty() && !self.rng.one_in(3) {
            let a = self.rng.pick(&self.hints.addresses);
            // anywhere in a network around it
            return match self.rng.below(4) {
                0 => a ^ self.rng.below(1 << self.rng.clone().below(25)) as u32,
                _ => a,
            };
        }
        match self.rng.below(4) {
            0 => self.rng.next() as u32,
            _ => self.rng.pick(ADDRESSES),
        }
    }
    fn port(&mut self) -> u16 {
        let n = self.rng.pick(&self.hints.numbers);
        match self.rng.below(4) {
            0 => self.rng.next() as u16,
            1 if !self.hints.numbers.is_empty() => n as u16,
            _ => self.rng.pick(PORTS),
        }
    }
    fn byte(&mut self) -> u8 {
        let n = self.rng.pick(&self.hints.numbers);
        match self.rng.below(3) {
            0 => self.rng.next() as u8,
            1 if !self.hints.numbers.is_empty() => n as u8,
            _ => self.rng.pick(&[0, 1, 2, 3, 17, 255]),
        }
    }
    fn ether(&mut self) -> [u8; 6] {
        if !self.hints.ethers.is_empty() && !self.rng.one_in(3) {
            return self.rng.pick(&self.hints.ethers);
        }
        self.rng.pick(ETHERS)
    }

    /// True once in `n` times, never for a calm packet.
    fn odd(&mut self, n: u64) -> bool {
        let v = self.rng.one_in(n);
        v && !self.calm
    }
    fn sample(&mut self, layer: Layer) -> Sample {
        self.calm = self.rng.one_in(2);
        let layer = match layer {
            Layer::Any => self.rng.pick(&[0u8, 1, 2]),
            Layer::Ether => 0,
            Layer::Ip4 => 1,
            Layer::Ip6 => 2,
        };
        let mut plain;
        let mut body;
        let mut kind = 0x0800u16;
        // the other protocol now and then, and what is neither
        let other = self.odd(8);
        if (layer == 2) != other {
            (body, plain) = self.ip6();
            plain &= layer == 2;
            kind = 0x86dd;
        } else {
            (body, plain) = self.ip4();
            plain &= layer != 2;
        }
        if layer == 0 && self.odd(6) {
            (body, plain, kind) = (self.arp(), false, 0x0806);
        }
        if self.odd(30) {
            let n = self.rng.below(80);
            body = (0..n).map(|_| self.rng.next() as u8).collect();
            plain = false;
        }
        let mut frame = Vec::new();
        frame.extend(self.ether());
        frame.extend(self.ether());
        if self.odd(6) {
            frame.extend([0x81, 0, self.rng.next() as u8, self.byte()]);
            plain &= layer != 0;
        }
        frame.extend(
            if self.odd(20) {
                plain &= layer != 0;
                self.rng.pick(&[0x88a8u16, 0x8863, 0x0101, 0x8100])
            } else {
                kind
            }
            .to_be_bytes(),
        );
        let ip_at = frame.len();
        frame.extend(&body);
        if layer == 0 && self.rng.one_in(4) {
            // Ethernet padding
            frame.resize(frame.len() + self.rng.below(20) as usize, 0);
        }
        if self.odd(12) {
            let keep = self.rng.below(frame.len() as u64 + 1) as usize;
            frame.truncate(keep);
            plain = false;
        }
        if self.odd(12) && !frame.is_empty() {
            let at = self.rng.below(frame.len() as u64) as usize;
            frame[at] ^= 1 << self.rng.below(8);
            plain = false;
        }
        let mut p = Packet::from_slice(&frame);
        let marked = self.mark(&mut p, layer, ip_at);
        self.annotate(&mut p);
        if layer != 0 {
            p.pull(ip_at);
        }
        Sample {
            packet: Box::new(p),
            plain: plain && marked,
        }
    }

    /// Marks headers; true if they are as they should be.
    fn mark(&mut self, p: &mut Packet, layer: u8, ip_at: usize) -> bool {
        let right = !self.odd(6);
        if right || self.rng.one_in(2) {
            p.set_mac_header(0);
        }
        let first = p.data().get(ip_at).copied().unwrap_or(0);
        let len = match first >> 4 {
            6 => 40,
            _ => usize::from(first & 15) * 4,
        };
        if (layer != 0 && right) || (layer == 0 && self.rng.one_in(6)) {
            p.set_network_header(ip_at as isize, len);
        } else if !right {
            match self.rng.below(4) {
                // somewhere else, perhaps behind the end, perhaps before the data
                0 => {
                    let at = self.rng.below(90) as usize;
                    let first = p.data().get(at).copied().unwrap_or(0);
                    let len = match first >> 4 {
                        6 => 40,
                        _ => usize::from(first & 15) * 4,
                    };
                    p.set_network_header(at as isize, len);
                }
                1 => p.set_mac_header_len(2, self.rng.pick(&[14, 18, 2])),
                _ => {}
            }
        }
        right
    }

    fn annotate(&mut self, p: &mut Packet) {
        if self.rng.one_in(3) {
            for b in p.anno.bytes_mut() {
                *b = self.rng.next() as u8;
            }
        }
        let paint = self.byte();
        p.anno.set_paint(paint);
        let (at, v) = (self.rng.below(48) as usize, self.byte());
        p.anno.set_u8(at, v);
        if self.rng.one_in(2) {
            let dst = self.address();
            p.anno.set_dst_ip(dst.to_be_bytes());
        }
        p.anno.packet_type = [
            PacketType::Host,
            PacketType::Host,
            PacketType::Broadcast,
            PacketType::Multicast,
            PacketType::OtherHost,
            PacketType::Outgoing,
        ][self.rng.below(6) as usize];
        if !self.rng.one_in(4) {
            p.anno.timestamp = Timestamp(self.rng.below(10_000_000_000) as i64);
        }
        if self.rng.one_in(2) {
            p.anno.ingress = Some(self.rng.below(4) as u16);
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        let n = match self.rng.below(12) {
            0 => 0,
            1 => self.rng.below(1480),
            2 => self.rng.below(4),
            _ => self.rng.below(64),
        };
        (0..n).map(|_| self.rng.next() as u8).collect()
    }

    /// A transport message with a checksum field at the place given; what is before it is its protocol.
    fn transport(&mut self) -> (u8, Vec<u8>, Option<usize>) {
        let payload = self.payload();
        let (s, d) = (self.port().to_be_bytes(), self.port().to_be_bytes());
        let mut t = Vec::new();
        match self.rng.below(16) {
            0..=6 => {
                t.extend(s);
                t.extend(d);
                t.extend((self.rng.next() as u32).to_be_bytes());
                t.extend((self.rng.next() as u32).to_be_bytes());
                let flags = match self.rng.below(3) {
                    0 => self.rng.next() as u8,
                    _ => self.rng.pick(&[0x10, 0x18, 0x02, 0x11, 0x04, 0x12]),
                };
                let options = self.rng.one_in(4);
                t.extend([if options { 0x60 } else { 0x50 }, flags, 1, 0, 0, 0, 0, 0]);
                if options {
                    t.extend([2, 4, 5, 0xb4]);
                }
                t.extend(payload);
                (ipv4::proto::TCP, t, Some(16))
            }
            7..=12 => {
                t.extend(s);
                t.extend(d);
                t.extend((8 + payload.len() as u16).to_be_bytes());
                t.extend([0, 0]);
                t.extend(payload);
                (ipv4::proto::UDP, t, Some(6))
            }
            13 | 14 => {
                let kind = self.rng.pick(&[8, 0, 3, 11, 5, 13, 12, 4, 15]);
                t.extend([kind, self.rng.pick(&[0, 1, 3]), 0, 0]);
                t.extend((self.rng.next() as u32).to_be_bytes());
                t.extend(payload);
                (ipv4::proto::ICMP, t, Some(2))
            }
            _ => (self.byte(), payload, None),
        }
    }

    /// An IPv4 packet, and whether it is plain.
    fn ip4(&mut self) -> (Vec<u8>, bool) {
        let (protocol, mut t, sum_at) = self.transport();
        let options: &[u8] = match self.rng.below(6) {
            _ if self.calm => &[],
            0 => &[1, 1, 1, 0],
            1 => &[148, 4, 0, 0],
            2 => &[131, 7, 4, 10, 0, 0, 9, 0],
            3 if self.rng.one_in(3) => &[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            _ => &[],
        };
        let fragment: u16 = match self.rng.below(8) {
            _ if self.calm => 0,
            0 => 0x2000,
            1 => 0x2000 | (1 + self.rng.below(100) as u16),
            2 => 1 + self.rng.below(8000) as u16,
            _ => 0,
        };
        let flags = if self.rng.one_in(2) { 0x4000 } else { 0 };
        let ttl = match self.rng.below(8) {
            0 if !self.calm => self.rng.below(3) as u8,
            1 => self.byte(),
            _ => self.rng.pick(&[64, 128, 255, 3]),
        };
        let len = 20 + options.len();
        let (src, dst) = (self.address().to_be_bytes(), self.address().to_be_bytes());
        let tos = if self.rng.one_in(3) {
            self.rng.next() as u8
        } else {
            0
        };
        let mut plain = matches!(protocol, 6 | 17) && sum_at.is_some();
        plain &= options.is_empty() && fragment == 0 && ttl > 2;
        if let Some(at) = sum_at {
            let pseudo = match protocol {
                ipv4::proto::ICMP => 0,
                p => checksum::pseudo_v4(src, dst, p, t.len() as u16),
            };
            let c = !checksum::fold(checksum::sum(&t, pseudo));
            // UDP: no checksum, or the other zero
            let c = match protocol {
                ipv4::proto::UDP if c == 0 => 0xffff,
                ipv4::proto::UDP if self.rng.one_in(4) => 0,
                _ => c,
            };
            t[at..at + 2].copy_from_slice(&c.to_be_bytes());
            if self.odd(10) {
                // 0xffff, 0x0000: where incremental arithmetic goes wrong
                let odd = self.rng.pick(&[[0u8, 0], [0xff, 0xff], [0x12, 0x34]]);
                t[at..at + 2].copy_from_slice(&odd);
                plain = false;
            }
            if self.odd(15) {
                let i = self.rng.below(t.len() as u64) as usize;
                t[i] = self.byte();
                plain = false;
            }
        }
        let mut d = vec![0x40 | (len / 4) as u8, tos];
        d.extend(((len + t.len()) as u16).to_be_bytes());
        d.extend((self.rng.next() as u16).to_be_bytes());
        d.extend((fragment | flags).to_be_bytes());
        d.extend([ttl, protocol, 0, 0]);
        d.extend(src);
        d.extend(dst);
        d.extend(options);
        let c = checksum::internet(&d).to_be_bytes();
        d[10..12].copy_from_slice(&c);
        match self.rng.below(20) {
            _ if self.calm => {}
            0 => d[10..12].copy_from_slice(&[0xff, 0xff]),
            1 => d[10..12].copy_from_slice(&[0, 0]),
            2 => d[11] ^= 0x10,
            3 => d[0] = self.rng.pick(&[0x44, 0x4f, 0x46, 0x55, 0x40]),
            4 => d[2..4].copy_from_slice(&(self.rng.below(70) as u16).to_be_bytes()),
            5 => d[2] = 0xff,
            _ => {}
        }
        plain &= d[10..12] == c && d[0] == 0x45 && checksum::internet(&d) == 0;
        d.extend(t);
        plain &= usize::from(u16::from_be_bytes([d[2], d[3]])) == d.len();
        (d, plain)
    }

    /// An IPv6 packet, and whether it is plain.
    fn ip6(&mut self) -> (Vec<u8>, bool) {
        let (protocol, mut t, sum_at) = self.transport();
        let next = match protocol {
            ipv4::proto::ICMP => ipv4::proto::ICMP6,
            p => p,
        };
        let mut address = || {
            let mut a = [0u8; 16];
            a[..4].copy_from_slice(&self.rng.pick(&[
                [0x20, 1, 0xd, 0xb8],
                [0xfe, 0x80, 0, 0],
                [0xff, 2, 0, 0],
                [0; 4],
            ]));
            a[15] = self.rng.below(4) as u8;
            a[14] = self.rng.below(2) as u8;
            a
        };
        let (src, dst) = (address(), address());
        if let Some(at) = sum_at {
            let pseudo = checksum::pseudo_v6(&src, &dst, next, t.len() as u32);
            let c = !checksum::fold(checksum::sum(&t, pseudo));
            t[at..at + 2].copy_from_slice(&c.to_be_bytes());
        }
        let mut body = Vec::new();
        let mut first = next;
        // one extension header now and then: hop-by-hop, routing, fragment, destination options
        if self.odd(3) {
            first = self.rng.pick(&[0, 43, 44, 60]);
            let offset = if self.rng.one_in(2) { [0, 0] } else { [0, 9] };
            let rest = if first == 44 { offset } else { [1, 4] };
            body.extend([next, 0, rest[0], rest[1], 0, 0, 0, 0]);
        }
        body.extend(t);
        let mut d = vec![
            0x60 | (self.rng.below(4) as u8),
            self.rng.next() as u8,
            0,
            0,
        ];
        d.extend((body.len() as u16).to_be_bytes());
        let odd = if self.calm { 64 } else { 1 };
        d.extend([
            first,
            self.rng
                .pick(&[64, 255, odd, 0, 2][..if self.calm { 3 } else { 5 }]),
        ]);
        d.extend(src);
        d.extend(dst);
        d.extend(body);
        match self.rng.below(10) {
            _ if self.calm => {}
            0 => d[0] = self.rng.pick(&[0x45, 0x50, 0x70]),
            1 => d[4..6].copy_from_slice(&(self.rng.below(90) as u16).to_be_bytes()),
            _ => {}
        }
        let whole = usize::from(u16::from_be_bytes([d[4], d[5]])) + 40 == d.len();
        let plain = matches!(d[6], 6 | 17) && sum_at.is_some() && d[7] > 2;
        let plain = plain && whole && d[0] >> 4 == 6;
        (d, plain)
    }

    fn arp(&mut self) -> Vec<u8> {
        let mut d = vec![0, 1, 8, 0, 6, 4, 0, self.rng.pick(&[1, 2, 3])];
        d.extend(self.ether());
        d.extend(self.address().to_be_bytes());
        d.extend(self.ether());
        d.extend(self.address().to_be_bytes());
        if self.rng.one_in(4) {
            let at = self.rng.below(6) as usize;
            d[at] = self.byte();
        }
        d
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_packets_and_most_are_plain() {
        for layer in [Layer::Ether, Layer::Ip4, Layer::Ip6, Layer::Any] {
            let a = samples(layer, "allow src 10.1.2.3, 80", 7, 500);
            let b = samples(layer, "allow src 10.1.2.3, 80", 7, 500);
            assert!(
                a.iter()
                    .zip(&b)
                    .all(|(x, y)| x.packet.data() == y.packet.data())
            );
            let plain = a.iter().filter(|s| s.plain).count();
            match layer {
                Layer::Ether | Layer::Ip4 => assert!(plain > 150, "{layer:?}: {plain}"),
                _ => {}
            }
            if layer == Layer::Ip6 {
                assert!(plain > 100, "{plain}");
                continue;
            }
            for s in a.iter().filter(|s| s.plain) {
                let ip = match layer {
                    Layer::Ether => &s.packet.data()[14..],
                    _ => match s.packet.network() {
                        Some(n) => n,
                        // a frame whose network header nobody has marked yet
                        None => continue,
                    },
                };
                if ip[0] >> 4 == 6 {
                    continue;
                }
                let h = ipv4::Header::parse(ip).unwrap();
                assert!(h.checksum_ok() && h.header_len() == 20 && !h.is_fragment());
                assert!(usize::from(h.total_len()) <= ip.len() && h.ttl() > 2);
            }
        }
        let near = samples(Layer::Ip4, "10.77.1.2", 1, 300);
        let hit = |s: &&Sample| s.packet.data().get(12..16) == Some(&[10, 77, 1, 2]);
        assert!(near.iter().filter(hit).count() > 10);
    }
}
