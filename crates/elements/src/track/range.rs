//! What a rule of table nat makes of one end of a connection: addresses and ports to choose from.
//!
//! As text: addresses (`203.0.113.1`, `203.0.113.1-203.0.113.4`; `192.168.0.0/24`: the first 24 bits are these, the
//! others stay; `-`: the address stays), then ports (`8080`, `1024-65535`; none: the port stays if it can), `offset N`
//! (the port moves by the distance of the range's first one from N), `random` (any port, whatever the packet has;
//! `random-fully` is the same), `persistent` (the address depends on the source alone).
//!
//! Source: Linux, net/netfilter/nf_nat_core.c (`find_best_ips_proto`, `nf_in_range`), xt_NETMAP.c.

use super::key::{Ends, Place};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which end of a connection is translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The source: SNAT, MASQUERADE, behind the rules.
    Src,
    /// The destination: DNAT, before the rules.
    Dst,
}

impl Side {
    /// That end.
    pub fn of(self, ends: &Ends) -> Place {
        match self {
            Side::Src => ends.src,
            Side::Dst => ends.dst,
        }
    }
    /// That end, to be changed.
    pub fn of_mut(self, ends: &mut Ends) -> &mut Place {
        match self {
            Side::Src => &mut ends.src,
            Side::Dst => &mut ends.dst,
        }
    }
}

/// Addresses to choose from; an IPv4 address is the first four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addresses {
    /// It stays.
    Kept,
    /// First and last.
    Range([u8; 16], [u8; 16]),
    /// Its first bits are these.
    Prefix([u8; 16], u8),
}

/// See the module's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub addresses: Addresses,
    /// First and last port (of ICMP: identifier).
    pub ports: Option<(u16, u16)>,
    /// Ports are counted from this one.
    pub offset: Option<u16>,
    pub random: bool,
    pub persistent: bool,
    /// Its addresses are IPv6; nothing if there are none.
    pub v6: Option<bool>,
}

/// An address as sixteen bytes.
pub(super) fn bytes(a: IpAddr) -> [u8; 16] {
    let mut b = [0; 16];
    match a {
        IpAddr::V4(a) => b[..4].copy_from_slice(&a.octets()),
        IpAddr::V6(a) => b = a.octets(),
    }
    b
}

/// An address from sixteen bytes.
pub(super) fn address(b: &[u8; 16], v6: bool) -> IpAddr {
    match v6 {
        true => Ipv6Addr::from(*b).into(),
        false => Ipv4Addr::new(b[0], b[1], b[2], b[3]).into(),
    }
}

impl Range {
    /// What is done where no rule says anything: the address stays, and the port if it can.
    pub fn null(end: Place) -> Range {
        Range {
            addresses: Addresses::Range(end.address, end.address),
            ports: None,
            offset: None,
            random: false,
            persistent: false,
            v6: None,
        }
    }

    /// This address and port; a port of 0 is one that stays.
    pub fn of((address, port): (IpAddr, u16)) -> Range {
        let one = bytes(address);
        Range {
            addresses: Addresses::Range(one, one),
            ports: (port != 0).then_some((port, port)),
            offset: None,
            random: false,
            persistent: false,
            v6: Some(address.is_ipv6()),
        }
    }

    /// Reads the text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Range, String> {
        let mut words = text.split_whitespace();
        let first = words.next().ok_or("expected addresses, or - for none")?;
        let (addresses, v6) = addresses(first)?;
        let mut r = Range {
            addresses,
            ports: None,
            offset: None,
            random: false,
            persistent: false,
            v6,
        };
        while let Some(w) = words.next() {
            match w {
                "random" | "random-fully" => r.random = true,
                "persistent" => r.persistent = true,
                "offset" => {
                    let n = words.next().and_then(|n| n.parse().ok());
                    r.offset = Some(n.ok_or("expected a port behind 'offset'")?);
                }
                _ if r.ports.is_none() => r.ports = Some(ports(w)?),
                _ => return Err(format!("what is '{w}' behind the ports?")),
            }
        }
        match (r.offset, r.ports) {
            (Some(_), None) => Err("'offset' needs a range of ports".into()),
            _ => Ok(r),
        }
    }

    /// Is this end one of those to choose from?
    pub fn has(&self, ends: &Ends, side: Side) -> bool {
        let p = side.of(ends);
        let fits = match self.addresses {
            Addresses::Kept => true,
            Addresses::Range(lo, hi) => lo <= p.address && p.address <= hi,
            Addresses::Prefix(prefix, len) => {
                p.address == with_prefix(&p.address, &prefix, len, ends.v6)
            }
        };
        fits && self
            .ports
            .is_none_or(|(lo, hi)| port_in(ends, side, lo, hi))
    }

    /// The address that this end gets. Of several, the source and, unless it is to be persistent, the destination
    /// decide, by the kernel's own function of them: a host that comes again comes from the same address.
    pub fn choose_address(&self, ends: &mut Ends, side: Side) {
        let v6 = ends.v6;
        let (lo, hi) = match self.addresses {
            Addresses::Kept => return,
            Addresses::Prefix(prefix, len) => {
                let to = side.of_mut(ends);
                to.address = with_prefix(&to.address, &prefix, len, v6);
                return;
            }
            Addresses::Range(lo, hi) => (lo, hi),
        };
        if lo == hi {
            side.of_mut(ends).address = lo;
            return;
        }
        let words = if v6 { 4 } else { 1 };
        let native = |a: &[u8; 16]| -> [u32; 4] {
            std::array::from_fn(|i| u32::from_ne_bytes(std::array::from_fn(|k| a[4 * i + k])))
        };
        let (src, dst) = (native(&ends.src.address), native(&ends.dst.address));
        let mut j = jhash4(src, if self.persistent { 0 } else { dst[words - 1] });
        let (low, high) = (native(&lo), native(&hi));
        let (mut to, mut full) = (side.of(ends).address, false);
        for i in 0..words {
            let (first, last) = (u32::from_be(low[i]), u32::from_be(high[i]));
            let (first, distance) = match full {
                false => (first, last.wrapping_sub(first).wrapping_add(1)),
                true => (0, u32::MAX),
            };
            let scaled = (u64::from(j) * u64::from(distance)) >> 32;
            let word = first.wrapping_add(scaled as u32).to_be_bytes();
            to[4 * i..4 * i + 4].copy_from_slice(&word);
            full |= u32::from_ne_bytes(word) != high[i];
            if !self.persistent {
                // of a destination, what it becomes
                j ^= match side {
                    Side::Src => dst[i],
                    Side::Dst => u32::from_ne_bytes(word),
                };
            }
        }
        side.of_mut(ends).address = to;
    }
}

/// Is the port (of ICMP: the identifier) in a range? Protocols without ports are in any.
pub(super) fn port_in(ends: &Ends, side: Side, lo: u16, hi: u16) -> bool {
    match ends.protocol {
        1 | 58 => (lo..=hi).contains(&ends.src.port),
        6 | 17 | 132 => (lo..=hi).contains(&side.of(ends).port),
        _ => true,
    }
}

/// An address with its first bits replaced.
fn with_prefix(a: &[u8; 16], prefix: &[u8; 16], len: u8, v6: bool) -> [u8; 16] {
    let bits = if v6 { 128 } else { 32 };
    let kept = bits - u32::from(len).min(bits);
    let mask = |b: usize| -> u8 {
        let below = (8 * (b as u32 + 1)).saturating_sub(bits - kept).min(8);
        // so many of the byte's last bits stay
        ((1u16 << below) - 1) as u8
    };
    std::array::from_fn(|b| match b < bits as usize / 8 {
        true => prefix[b] & !mask(b) | a[b] & mask(b),
        false => 0,
    })
}

/// The kernel's `jhash2` of four words (include/linux/jhash.h).
fn jhash4(k: [u32; 4], initial: u32) -> u32 {
    let begin = 0xdead_beef_u32.wrapping_add(4 << 2).wrapping_add(initial);
    let (mut a, mut b, mut c) = (
        begin.wrapping_add(k[0]),
        begin.wrapping_add(k[1]),
        begin.wrapping_add(k[2]),
    );
    let mut mix = |x: u32| {
        a = a.wrapping_sub(c) ^ c.rotate_left(x);
        c = c.wrapping_add(b);
        (a, b, c) = (b, c, a);
    };
    // each step with the three words in the next one's places
    for x in [4, 6, 8, 16, 19, 4] {
        mix(x);
    }
    a = a.wrapping_add(k[3]);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

fn addresses(word: &str) -> Result<(Addresses, Option<bool>), String> {
    let parse = |s: &str| {
        s.parse::<IpAddr>()
            .map_err(|_| format!("'{s}' is no address"))
    };
    if word == "-" {
        return Ok((Addresses::Kept, None));
    }
    if let Some((a, len)) = word.split_once('/') {
        let a = parse(a)?;
        let most = if a.is_ipv6() { 128 } else { 32 };
        let len: u8 = len
            .parse()
            .ok()
            .filter(|n| *n <= most)
            .ok_or_else(|| format!("'{word}': a prefix is at most {most} bits long"))?;
        return Ok((Addresses::Prefix(bytes(a), len), Some(a.is_ipv6())));
    }
    let (lo, hi) = word.split_once('-').unwrap_or((word, word));
    let (lo, hi) = (parse(lo)?, parse(hi)?);
    if lo.is_ipv6() != hi.is_ipv6() || lo > hi {
        return Err(format!("'{word}' is no range of addresses"));
    }
    Ok((Addresses::Range(bytes(lo), bytes(hi)), Some(lo.is_ipv6())))
}

fn ports(word: &str) -> Result<(u16, u16), String> {
    let (lo, hi) = word.split_once('-').unwrap_or((word, word));
    match (lo.parse::<u16>(), hi.parse::<u16>()) {
        (Ok(lo), Ok(hi)) if lo <= hi => Ok((lo, hi)),
        _ => Err(format!(
            "expected a port or a range of ports, found '{word}'"
        )),
    }
}

/// As it is read.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v6 = self.v6 == Some(true);
        match &self.addresses {
            Addresses::Kept => write!(f, "-")?,
            Addresses::Range(a, b) if a == b => write!(f, "{}", address(a, v6))?,
            Addresses::Range(a, b) => write!(f, "{}-{}", address(a, v6), address(b, v6))?,
            Addresses::Prefix(a, n) => write!(f, "{}/{n}", address(a, v6))?,
        }
        match self.ports {
            Some((a, b)) if a == b => write!(f, " {a}")?,
            Some((a, b)) => write!(f, " {a}-{b}")?,
            None => {}
        }
        if let Some(n) = self.offset {
            write!(f, " offset {n}")?;
        }
        for (is, word) in [(self.random, " random"), (self.persistent, " persistent")] {
            f.write_str(if is { word } else { "" })?;
        }
        Ok(())
    }
}
