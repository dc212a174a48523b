//! What flows are drawn from: lists of addresses, of ports, of protocols, as they are written on a command line.

use std::net::IpAddr;
use std::str::FromStr;

use crate::rng::Rng;

/// A part of a command line that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RangeError(pub(crate) String);

/// The most entries of an address list: half a full BGP table fits.
const MAX_ENTRIES: usize = 2_000_000;

/// Addresses of one family: each entry is as likely as any other, and so is each address within an entry.
///
/// An entry is a prefix (`10.0.0.0/8`; its first and last address are left out where it has more than two), a range
/// (`10.0.0.1-10.0.0.9`) or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    v6: bool,
    ranges: Vec<(u128, u128)>,
}

fn number(a: IpAddr) -> (bool, u128) {
    match a {
        IpAddr::V4(a) => (false, u128::from(u32::from(a))),
        IpAddr::V6(a) => (true, u128::from(a)),
    }
}

impl Addresses {
    /// From the lines or the comma-separated parts of a text; `#` starts a comment.
    ///
    /// # Errors
    /// The first part that is no address, prefix or range, or of another family than the first one; no part at all.
    pub fn parse(text: &str) -> Result<Self, RangeError> {
        let mut family = None;
        let mut ranges = Vec::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or("");
            for part in line.split([',', ' ', '\t']).filter(|p| !p.is_empty()) {
                let (v6, lo, hi) = parse_entry(part)?;
                if *family.get_or_insert(v6) != v6 {
                    return Err(RangeError(format!(
                        "`{part}` is of another address family than the entries before it"
                    )));
                }
                ranges.push((lo, hi));
                if ranges.len() > MAX_ENTRIES {
                    return Err(RangeError(format!("more than {MAX_ENTRIES} entries")));
                }
            }
        }
        match family {
            Some(v6) => Ok(Self { v6, ranges }),
            None => Err(RangeError(
                "no address, expected for example 10.0.0.0/8 or 192.0.2.1-192.0.2.9".into(),
            )),
        }
    }

    /// One range, both ends included.
    pub fn range(v6: bool, lo: u128, hi: u128) -> Self {
        Self {
            v6,
            ranges: vec![(lo.min(hi), hi.max(lo))],
        }
    }

    /// IPv6 rather than IPv4?
    pub fn is_v6(&self) -> bool {
        self.v6
    }

    /// How many addresses there are, entries that overlap counted twice; saturating.
    pub fn count(&self) -> u128 {
        self.ranges.iter().fold(0u128, |n, (lo, hi)| {
            n.saturating_add((hi - lo).saturating_add(1))
        })
    }

    /// An address; an IPv4 address is in the low 32 bits.
    pub fn draw(&self, rng: &mut Rng) -> u128 {
        match self.ranges.as_slice() {
            [(lo, hi)] => rng.between_u128(*lo, *hi),
            many => rng
                .pick(many)
                .copied()
                .map_or(0, |(lo, hi)| rng.between_u128(lo, hi)),
        }
    }
}

fn parse_entry(part: &str) -> Result<(bool, u128, u128), RangeError> {
    let bad = |why: &str| RangeError(format!("`{part}`: {why}"));
    let address = |s: &str| s.parse::<IpAddr>().map(number);
    const EXPECTED: &str =
        "expected an address, a prefix (10.0.0.0/8) or a range (10.0.0.1-10.0.0.9)";
    if let Some((lo, hi)) = part.split_once('-') {
        let ((v6, lo), (hi_v6, hi)) = match (address(lo), address(hi)) {
            (Ok(lo), Ok(hi)) => (lo, hi),
            _ => return Err(bad(EXPECTED)),
        };
        if v6 != hi_v6 || lo > hi {
            return Err(bad(
                "expected two addresses of one family, the lower one first",
            ));
        }
        return Ok((v6, lo, hi));
    }
    let Some((base, len)) = part.split_once('/') else {
        let (v6, a) = address(part).map_err(|_| bad(EXPECTED))?;
        return Ok((v6, a, a));
    };
    let (v6, base) = address(base).map_err(|_| bad(EXPECTED))?;
    let bits: u32 = if v6 { 128 } else { 32 };
    let len: u32 = len
        .parse()
        .ok()
        .filter(|&l| l <= bits)
        .ok_or_else(|| bad(&format!("expected a prefix length of 0 to {bits}")))?;
    let host = (1u128.checked_shl(bits - len).unwrap_or(0)).wrapping_sub(1);
    let (lo, hi) = (base & !host, base | host);
    // A prefix that holds hosts: neither its network address nor its broadcast address is one.
    Ok(if hi - lo > 1 {
        (v6, lo + 1, hi - 1)
    } else {
        (v6, lo, hi)
    })
}

impl FromStr for Addresses {
    type Err = RangeError;

    fn from_str(s: &str) -> Result<Self, RangeError> {
        Self::parse(s)
    }
}

/// Ports: each entry (`80` or `8000-8099`) is as likely as any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports(Vec<(u16, u16)>);

impl Ports {
    /// One range, both ends included.
    pub fn range(lo: u16, hi: u16) -> Self {
        Self(vec![(lo.min(hi), hi.max(lo))])
    }

    /// These ports.
    pub fn list(ports: &[u16]) -> Self {
        Self(ports.iter().map(|&p| (p, p)).collect())
    }

    /// How many ports there are, entries that overlap counted twice.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(lo, hi)| u64::from(hi - lo) + 1).sum()
    }

    /// A port.
    pub fn draw(&self, rng: &mut Rng) -> u16 {
        let (lo, hi) = match self.0.as_slice() {
            [only] => *only,
            many => rng.pick(many).copied().unwrap_or((0, 0)),
        };
        rng.between(u64::from(lo), u64::from(hi)) as u16
    }
}

impl FromStr for Ports {
    type Err = RangeError;

    fn from_str(s: &str) -> Result<Self, RangeError> {
        let mut ports = Vec::new();
        for part in s.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (lo, hi) = part.split_once('-').unwrap_or((part, part));
            match (lo.parse::<u16>(), hi.parse::<u16>()) {
                (Ok(lo), Ok(hi)) if lo <= hi => ports.push((lo, hi)),
                _ => {
                    return Err(RangeError(format!(
                        "`{part}`: expected a port of 0 to 65535 or a range such as 1024-65535"
                    )));
                }
            }
        }
        if ports.is_empty() {
            return Err(RangeError("no port".into()));
        }
        Ok(Self(ports))
    }
}

/// A transport that flows use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// ICMP (in IPv6: ICMPv6) echo.
    Icmp,
}

/// Which share of the flows uses which transport: `tcp=80,udp=19,icmp=1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProtocolMix {
    /// Weight of TCP.
    pub tcp: f64,
    /// Weight of UDP.
    pub udp: f64,
    /// Weight of ICMP echo.
    pub icmp: f64,
}

impl ProtocolMix {
    /// A transport.
    pub fn draw(&self, rng: &mut Rng) -> Transport {
        match rng.weighted([self.tcp, self.udp, self.icmp].into_iter()) {
            0 => Transport::Tcp,
            1 => Transport::Udp,
            _ => Transport::Icmp,
        }
    }
}

impl FromStr for ProtocolMix {
    type Err = RangeError;

    fn from_str(s: &str) -> Result<Self, RangeError> {
        let mut mix = Self {
            tcp: 0.0,
            udp: 0.0,
            icmp: 0.0,
        };
        for part in s.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let weight = weight
                .parse::<f64>()
                .ok()
                .filter(|w| w.is_finite() && *w >= 0.0)
                .ok_or_else(|| RangeError(format!("`{part}`: expected a weight such as tcp=80")))?;
            let slot = match name {
                "tcp" => &mut mix.tcp,
                "udp" => &mut mix.udp,
                "icmp" => &mut mix.icmp,
                _ => {
                    return Err(RangeError(format!(
                        "`{name}`: expected tcp, udp or icmp, for example tcp=80,udp=19,icmp=1"
                    )));
                }
            };
            *slot += weight;
        }
        if mix.tcp + mix.udp + mix.icmp <= 0.0 {
            return Err(RangeError(
                "no protocol has a weight, expected for example tcp=80,udp=20".into(),
            ));
        }
        Ok(mix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_written() {
        let a: Addresses = "10.0.0.0/30, 192.0.2.7,198.51.100.3-198.51.100.5"
            .parse()
            .unwrap();
        assert_eq!(a.count(), 2 + 1 + 3);
        let mut rng = Rng::new(1);
        let drawn: std::collections::BTreeSet<String> = (0..500)
            .map(|_| std::net::Ipv4Addr::from(a.draw(&mut rng) as u32).to_string())
            .collect();
        assert_eq!(
            drawn.into_iter().collect::<Vec<_>>(),
            [
                "10.0.0.1",
                "10.0.0.2",
                "192.0.2.7",
                "198.51.100.3",
                "198.51.100.4",
                "198.51.100.5"
            ]
        );
        let six = Addresses::parse("# lab\n2001:db8::/127\n2001:db8::9 # last\n").unwrap();
        assert!(six.is_v6());
        assert_eq!(six.count(), 3);
        assert_eq!(Addresses::parse("::/0").unwrap().count(), u128::MAX - 1);
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.9-10.0.0.1",
            "10.0.0.1-::1",
            "10.0.0.1,::1",
            "host",
            "1.2.3.4/",
            "10.0.0.1-",
        ] {
            assert!(Addresses::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ports_and_mixes_as_written() {
        let p: Ports = "80,443,8000-8099".parse().unwrap();
        assert_eq!(p.count(), 102);
        let mut rng = Rng::new(2);
        let n80 = (0..9_000).filter(|_| p.draw(&mut rng) == 80).count();
        assert!(n80.abs_diff(3_000) < 300, "{n80}");
        for bad in ["", "70000", "9-1", "x", "1-2-3"] {
            assert!(bad.parse::<Ports>().is_err(), "{bad}");
        }
        let m: ProtocolMix = "tcp=3,udp".parse().unwrap();
        assert_eq!((m.tcp, m.udp, m.icmp), (3.0, 1.0, 0.0));
        for bad in ["", "tcp=-1", "tcp=0", "sctp=1", "tcp=nan", "udp=inf"] {
            assert!(bad.parse::<ProtocolMix>().is_err(), "{bad}");
        }
    }
}
