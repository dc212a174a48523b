//! IPv6 addresses that stand for IPv4 addresses (RFC 6052).

use std::net::{Ipv4Addr, Ipv6Addr};

/// Lengths that a prefix may have (RFC 6052 2.2).
const LENGTHS: [u8; 6] = [32, 40, 48, 56, 64, 96];
/// Byte 8 of an address is zero, and no byte of an IPv4 address stands in it.
const RESERVED: usize = 8;
/// The Well-Known Prefix, whose length is 96.
const WELL_KNOWN: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// A prefix behind which IPv4 addresses stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix64 {
    address: [u8; 16],
    /// In bytes: 4, 5, 6, 7, 8 or 12.
    bytes: usize,
    well_known: bool,
}

impl Default for Prefix64 {
    fn default() -> Self {
        Prefix64 {
            address: WELL_KNOWN.octets(),
            bytes: 12,
            well_known: true,
        }
    }
}

impl Prefix64 {
    /// The prefix of this length, in bits.
    ///
    /// # Errors
    /// There is no such length, bits behind it are set, or bits 64 to 71 are.
    pub fn new(address: Ipv6Addr, length: u8) -> Result<Prefix64, String> {
        if !LENGTHS.contains(&length) {
            return Err(format!(
                "'{address}/{length}': a prefix of IPv4 addresses has 32, 40, 48, 56, 64 or 96 bits (RFC 6052)"
            ));
        }
        let octets = address.octets();
        if u128::from(address) << length != 0 {
            return Err(format!(
                "'{address}/{length}': bits behind the prefix are set"
            ));
        }
        if octets[RESERVED] != 0 {
            return Err(format!(
                "'{address}/{length}': bits 64 to 71 are zero (RFC 6052)"
            ));
        }
        Ok(Prefix64 {
            address: octets,
            bytes: usize::from(length / 8),
            well_known: address == WELL_KNOWN && length == 96,
        })
    }

    /// Where the bytes of an IPv4 address stand.
    fn places(&self) -> impl Iterator<Item = usize> {
        (self.bytes..16).filter(|i| *i != RESERVED).take(4)
    }

    /// The address that stands for an IPv4 address.
    pub fn embed(&self, v4: [u8; 4]) -> [u8; 16] {
        let mut a = self.address;
        for (place, byte) in self.places().zip(v4) {
            a[place] = byte;
        }
        a
    }

    /// Is this address in the prefix, whatever stands behind it?
    pub fn has(&self, a: [u8; 16]) -> bool {
        a[..self.bytes] == self.address[..self.bytes]
    }

    /// The IPv4 address that an address stands for. `None`: it is not in the prefix, or has something else than zeros
    /// where nothing of an IPv4 address stands; replies would come from another address than it.
    pub fn extract(&self, a: [u8; 16]) -> Option<[u8; 4]> {
        let mut v4 = [0; 4];
        for (place, byte) in self.places().zip(&mut v4) {
            *byte = a[place];
        }
        (self.embed(v4) == a).then_some(v4)
    }

    /// May an IPv4 address stand behind this prefix? Behind the Well-Known Prefix, addresses that are not global
    /// must not (RFC 6052 3.1).
    pub fn allows(&self, v4: [u8; 4]) -> bool {
        !self.well_known || is_global(v4)
    }
}

/// Is this no address of those that RFC 5735 section 3 lists as not global?
fn is_global(v4: [u8; 4]) -> bool {
    let a = Ipv4Addr::from(v4);
    // of these the library has no names
    let other = matches!(
        v4,
        [0, ..] | [192, 0, 0, _] | [198, 18 | 19, ..] | [240..=255, ..]
    );
    !(other
        || a.is_private()
        || a.is_loopback()
        || a.is_link_local()
        || a.is_documentation()
        || a.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Result<Prefix64, String> {
        let (a, n) = text.split_once('/').unwrap();
        Prefix64::new(a.parse().unwrap(), n.parse().unwrap())
    }

    /// RFC 6052 section 2.4: 192.0.2.33 behind prefixes of each length.
    #[test]
    fn the_rfcs_examples() {
        for (text, shown) in [
            ("2001:db8::/32", "2001:db8:c000:221::"),
            ("2001:db8:100::/40", "2001:db8:1c0:2:21::"),
            ("2001:db8:122::/48", "2001:db8:122:c000:2:2100::"),
            ("2001:db8:122:300::/56", "2001:db8:122:3c0:0:221::"),
            ("2001:db8:122:344::/64", "2001:db8:122:344:c0:2:2100::"),
            ("2001:db8:122:344::/96", "2001:db8:122:344::192.0.2.33"),
            ("64:ff9b::/96", "64:ff9b::192.0.2.33"),
        ] {
            let p = prefix(text).unwrap();
            let a = shown.parse::<Ipv6Addr>().unwrap();
            assert_eq!(Ipv6Addr::from(p.embed([192, 0, 2, 33])), a, "{text}");
            assert_eq!(p.extract(a.octets()), Some([192, 0, 2, 33]), "{text}");
            assert!(p.has(a.octets()));
        }
    }

    #[test]
    fn there_and_back() {
        for text in [
            "2001:db8::/32",
            "fd00:1200::/40",
            "fd00::/48",
            "fd00:0:0:100::/56",
            "fd00::/64",
            "64:ff9b:1::/96",
        ] {
            let p = prefix(text).unwrap();
            for n in 0..1000u32 {
                let v4 = n.wrapping_mul(0x9e37_79b1).to_be_bytes();
                let a = p.embed(v4);
                assert_eq!((a[8], p.extract(a)), (0, Some(v4)));
                // a bit elsewhere is another address
                let bit = (n % 128) as usize;
                let mut other = a;
                other[bit / 8] ^= 0x80 >> (bit % 8);
                match p.places().any(|i| i == bit / 8) {
                    true => assert_ne!(p.extract(other), Some(v4)),
                    false => assert_eq!(p.extract(other), None),
                }
            }
        }
    }

    #[test]
    fn the_well_known_prefix_is_for_global_addresses() {
        let (known, own) = (
            prefix("64:ff9b::/96").unwrap(),
            prefix("fd00::/96").unwrap(),
        );
        for (text, global) in [
            ("8.8.8.8", true),
            ("198.17.255.255", true),
            ("198.20.0.0", true),
            ("172.32.0.1", true),
            ("0.1.2.3", false),
            ("10.1.2.3", false),
            ("127.0.0.1", false),
            ("169.254.1.1", false),
            ("172.31.0.1", false),
            ("192.0.0.9", false),
            ("192.0.2.1", false),
            ("192.168.0.1", false),
            ("198.18.0.1", false),
            ("198.19.255.1", false),
            ("198.51.100.1", false),
            ("203.0.113.1", false),
            ("224.0.0.1", false),
            ("240.0.0.1", false),
            ("255.255.255.255", false),
        ] {
            let a = text.parse::<Ipv4Addr>().unwrap().octets();
            assert_eq!(known.allows(a), global, "{text}");
            assert!(own.allows(a));
        }
    }

    #[test]
    fn prefixes_that_are_wrong() {
        for (text, why) in [
            ("64:ff9b::/95", "32, 40, 48, 56, 64 or 96 bits"),
            ("64:ff9b::/128", "32, 40, 48, 56, 64 or 96 bits"),
            ("64:ff9b::1/96", "bits behind the prefix are set"),
            ("fd00:0:0:0:100::/96", "bits 64 to 71 are zero"),
        ] {
            let said = prefix(text).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
