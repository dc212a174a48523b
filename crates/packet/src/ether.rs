//! Ethernet addresses.

use std::fmt;
use std::str::FromStr;

/// A 48-bit Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EtherAddr(pub [u8; 6]);

impl EtherAddr {
    /// FF-FF-FF-FF-FF-FF.
    pub const BROADCAST: EtherAddr = EtherAddr([0xff; 6]);

    /// From the first six bytes of a slice.
    pub fn from_slice(b: &[u8]) -> Option<Self> {
        b.first_chunk::<6>().map(|c| EtherAddr(*c))
    }
    /// Group bit set (broadcast included).
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
    /// All ones.
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }
}

/// As Click prints it: upper case, dashes.
impl fmt::Display for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let a = &self.0;
        write!(
            f,
            "{:02X}-{:02X}-{:02X}-{:02X}-{:02X}-{:02X}",
            a[0], a[1], a[2], a[3], a[4], a[5]
        )
    }
}

impl fmt::Debug for EtherAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for EtherAddr {
    type Err = ();
    /// `AA:BB:CC:DD:EE:FF` or with dashes; one or two hexadecimal digits per byte.
    fn from_str(s: &str) -> Result<Self, ()> {
        let sep = if s.contains(':') { ':' } else { '-' };
        let mut out = [0u8; 6];
        let mut n = 0;
        for part in s.split(sep) {
            if n == 6 || part.is_empty() || part.len() > 2 {
                return Err(());
            }
            if !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(());
            }
            out[n] = u8::from_str_radix(part, 16).map_err(|_| ())?;
            n += 1;
        }
        if n == 6 { Ok(EtherAddr(out)) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form() {
        let a: EtherAddr = "0:1:2:aB:04:05".parse().unwrap();
        assert_eq!(a.to_string(), "00-01-02-AB-04-05");
        assert_eq!("00-01-02-AB-04-05".parse(), Ok(a));
        for bad in [
            "",
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:+6",
            "001:2:3:4:5:6",
        ] {
            assert!(bad.parse::<EtherAddr>().is_err(), "{bad}");
        }
    }
}
