//! The kinds of values that arguments have.

use super::{ArgScope, text};
use onefold_packet::{AnnoField, EtherAddr};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A value that can be read from an argument's text.
pub trait FromArg: Sized {
    /// What is wanted, for messages: `"an IPv4 address"`.
    const WANTS: &'static str;
    /// Reads it. `Err(None)`: it is not what is wanted; `Err(Some(why))`: a better message.
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>>;
}

/// An integer as Click writes it: decimal, `0x` hexadecimal, leading-zero octal; optional sign.
fn integer(s: &str) -> Option<i128> {
    let (neg, t) = match s.as_bytes().first()? {
        b'-' => (true, &s[1..]),
        b'+' => (false, &s[1..]),
        _ => (false, s),
    };
    let (digits, base) = if let Some(h) = t.strip_prefix("0x").or_else(|| t.strip_prefix("0X")) {
        (h, 16)
    } else if t.len() > 1 && t.starts_with('0') {
        (&t[1..], 8)
    } else {
        (t, 10)
    };
    if digits.is_empty() || !digits.bytes().all(|b| (b as char).is_digit(base)) {
        return None;
    }
    // out of range of i128 is out of range of every integer argument
    let v = i128::from_str_radix(digits, base).unwrap_or(i128::MAX);
    Some(if neg { -v } else { v })
}

macro_rules! int_arg {
    ($($t:ty => $wants:literal),*) => {$(
        impl FromArg for $t {
            const WANTS: &'static str = $wants;
            fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
                let v = integer(s).ok_or(None)?;
                <$t>::try_from(v).map_err(|_| {
                    Some(format!("'{s}' out of range, {} to {}", <$t>::MIN, <$t>::MAX))
                })
            }
        }
    )*};
}
int_arg!(
    u8 => "a number from 0 to 255",
    u16 => "a number from 0 to 65535",
    u32 => "an unsigned number",
    u64 => "an unsigned number",
    usize => "an unsigned number",
    i32 => "a number",
    i64 => "a number"
);

impl FromArg for bool {
    const WANTS: &'static str = "a boolean (true or false)";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        match s {
            "1" | "t" | "true" | "yes" | "y" => Ok(true),
            "0" | "f" | "false" | "no" | "n" => Ok(false),
            _ => Err(None),
        }
    }
}

impl FromArg for f64 {
    const WANTS: &'static str = "a real number";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let v: f64 = s.parse().map_err(|_| None)?;
        if v.is_finite() { Ok(v) } else { Err(None) }
    }
}

impl FromArg for Ipv4Addr {
    const WANTS: &'static str = "an IPv4 address";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Ok(a) = s.parse() {
            return Ok(a);
        }
        scope
            .names
            .ip4(s, scope.element)
            .map(Ipv4Addr::from)
            .ok_or(None)
    }
}

impl FromArg for Ipv6Addr {
    const WANTS: &'static str = "an IPv6 address";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Ok(a) = s.parse() {
            return Ok(a);
        }
        scope
            .names
            .ip6(s, scope.element)
            .map(Ipv6Addr::from)
            .ok_or(None)
    }
}

impl FromArg for EtherAddr {
    const WANTS: &'static str = "an Ethernet address";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Ok(a) = s.parse() {
            return Ok(a);
        }
        scope.names.ether(s, scope.element).ok_or(None)
    }
}

/// An IPv4 address and mask: `10.0.0.0/8`, `10.0.0.0/255.0.0.0`; a bare address has mask `/32` where Click allows that
/// (`Ip4Prefix::strict` is false), or a named prefix. The address is kept as written (host bits included).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ip4Prefix {
    /// Address, as written.
    pub addr: Ipv4Addr,
    /// Mask; need not be contiguous.
    pub mask: Ipv4Addr,
}

impl Ip4Prefix {
    /// Prefix length, if the mask is contiguous.
    pub fn len(&self) -> Option<u8> {
        let m = u32::from(self.mask);
        let n = m.leading_ones();
        (m.count_ones() == n).then_some(n as u8)
    }
    /// The whole address space.
    pub fn is_empty(&self) -> bool {
        u32::from(self.mask) == 0
    }
    /// Is `a` in it?
    pub fn contains(&self, a: Ipv4Addr) -> bool {
        (u32::from(a) ^ u32::from(self.addr)) & u32::from(self.mask) == 0
    }
    /// From an address and a prefix length (at most 32).
    pub fn new(addr: Ipv4Addr, len: u8) -> Self {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(len.min(32)))
            .unwrap_or(0);
        Ip4Prefix {
            addr,
            mask: Ipv4Addr::from(mask),
        }
    }
}

impl FromArg for Ip4Prefix {
    const WANTS: &'static str = "an IPv4 address or prefix (such as 10.0.0.0/8)";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Some((a, m)) = s.rsplit_once('/') {
            let addr = Ipv4Addr::from_arg(a, scope).or_else(|e| short_ip4(a).ok_or(e));
            if let Ok(addr) = addr {
                if let Some(len) = integer(m) {
                    return match u8::try_from(len) {
                        Ok(len) if len <= 32 => Ok(Ip4Prefix::new(addr, len)),
                        _ => Err(Some(format!("bad prefix length '{m}', expected 0 to 32"))),
                    };
                }
                if let Ok(mask) = m.parse() {
                    return Ok(Ip4Prefix { addr, mask });
                }
            }
        } else if let Ok(addr) = Ipv4Addr::from_arg(s, scope) {
            return Ok(Ip4Prefix {
                addr,
                mask: Ipv4Addr::BROADCAST,
            });
        }
        scope
            .names
            .ip4_prefix(s, scope.element)
            .map(|(a, m)| Ip4Prefix {
                addr: a.into(),
                mask: m.into(),
            })
            .ok_or(None)
    }
}

/// `18/8`, `18.26/16`: missing bytes are zero (only before a slash, as in Click).
fn short_ip4(s: &str) -> Option<Ipv4Addr> {
    let mut b = [0u8; 4];
    let parts: Vec<&str> = s.split('.').collect();
    if parts.len() > 4 {
        return None;
    }
    for (i, p) in parts.iter().enumerate() {
        if p.is_empty() || !p.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        b[i] = p.parse().ok()?;
    }
    Some(Ipv4Addr::from(b))
}

/// An IPv6 prefix; a bare address has length 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ip6Prefix {
    /// Address, as written.
    pub addr: Ipv6Addr,
    /// Prefix length, 0 to 128.
    pub len: u8,
}

impl Ip6Prefix {
    /// The mask as a number.
    pub fn mask(&self) -> u128 {
        u128::MAX
            .checked_shl(128 - u32::from(self.len.min(128)))
            .unwrap_or(0)
    }
    /// Is `a` in it?
    pub fn contains(&self, a: Ipv6Addr) -> bool {
        (u128::from(a) ^ u128::from(self.addr)) & self.mask() == 0
    }
}

impl FromArg for Ip6Prefix {
    const WANTS: &'static str = "an IPv6 address or prefix (such as 2001:db8::/32)";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Some((a, m)) = s.rsplit_once('/') {
            if let Ok(addr) = Ipv6Addr::from_arg(a, scope) {
                if let Some(len) = integer(m) {
                    return match u8::try_from(len) {
                        Ok(len) if len <= 128 => Ok(Ip6Prefix { addr, len }),
                        _ => Err(Some(format!("bad prefix length '{m}', expected 0 to 128"))),
                    };
                }
                if let Ok(mask) = m.parse::<Ipv6Addr>() {
                    let v = u128::from(mask);
                    if v.leading_ones() == v.count_ones() {
                        return Ok(Ip6Prefix {
                            addr,
                            len: v.leading_ones() as u8,
                        });
                    }
                }
            }
        } else if let Ok(addr) = Ipv6Addr::from_arg(s, scope) {
            return Ok(Ip6Prefix { addr, len: 128 });
        }
        scope
            .names
            .ip6_prefix(s, scope.element)
            .map(|(a, len)| Ip6Prefix {
                addr: a.into(),
                len,
            })
            .ok_or(None)
    }
}

/// A TCP or UDP port, by number or service name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPort(pub u16);

impl FromArg for IpPort {
    const WANTS: &'static str = "a port number or service name";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Some(v) = integer(s) {
            return u16::try_from(v)
                .map(IpPort)
                .map_err(|_| Some(format!("port '{s}' out of range, 0 to 65535")));
        }
        let port = scope.names.port(s, scope.element);
        port.map(IpPort).ok_or(None)
    }
}

/// Any text, as it stands (Click's `AnyArg`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnyArg(pub String);

impl FromArg for AnyArg {
    const WANTS: &'static str = "a value";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        Ok(AnyArg(s.to_string()))
    }
}

/// A string with its quotes removed (Click's `StringArg`). Must be one word or quoted.
impl FromArg for String {
    const WANTS: &'static str = "a string (put quotes around one with spaces)";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if text::split_words(s).len() != 1 {
            return Err(None);
        }
        Ok(String::from_utf8_lossy(&text::unquote(s)).into_owned())
    }
}

/// Bytes: a string with its quotes removed; `\<00 ff>` gives any byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data(pub Vec<u8>);

impl FromArg for Data {
    const WANTS: &'static str = "a string or \\<hexadecimal> data";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if text::split_words(s).len() > 1 {
            return Err(None);
        }
        Ok(Data(text::unquote(s)))
    }
}

/// One word, unquoted (Click's `WordArg`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word(pub String);

impl FromArg for Word {
    const WANTS: &'static str = "a word";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let ok = !s.is_empty() && !s.contains(|c: char| c.is_whitespace() || "\"'\\,".contains(c));
        if ok {
            Ok(Word(s.to_string()))
        } else {
            Err(None)
        }
    }
}

/// A file name, unquoted. `-` is standard input or output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filename(pub String);

impl FromArg for Filename {
    const WANTS: &'static str = "a file name";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let f = String::from_arg(s, scope)?;
        if f.is_empty() {
            Err(None)
        } else {
            Ok(Filename(f))
        }
    }
}

/// An annotation by name (`PAINT`, `DST_IP`) or byte offset, optionally `offset/size`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnnoArg(pub AnnoField);

impl FromArg for AnnoArg {
    const WANTS: &'static str = "an annotation name or offset (such as PAINT or 16)";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Some(f) = scope.names.annotation(s) {
            return Ok(AnnoArg(f));
        }
        let (o, size) = match s.split_once('/') {
            Some((o, n)) => (o, integer(n).ok_or(None)?),
            None => (s, 0),
        };
        let offset = integer(o).ok_or(None)?;
        if !(0..48).contains(&offset) || !(0..=48).contains(&size) || offset + size > 48 {
            return Err(Some(format!(
                "annotation '{s}' out of range, bytes 0 to 47"
            )));
        }
        Ok(AnnoArg(AnnoField {
            offset: offset as u8,
            size: size as u8,
        }))
    }
}

/// An annotation of exactly `N` bytes, by name or byte offset (Click's `AnnoArg(N)`); a size that is given must be `N`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizedAnno<const N: u8>(pub u8);

impl<const N: u8> FromArg for SizedAnno<N> {
    const WANTS: &'static str = AnnoArg::WANTS;
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let AnnoArg(f) = AnnoArg::from_arg(s, scope)?;
        if f.size != 0 && f.size != N {
            return Err(Some(format!(
                "annotation '{s}' has {} bytes, {N} are wanted",
                f.size
            )));
        }
        if u16::from(f.offset) + u16::from(N) > 48 {
            return Err(Some(format!(
                "annotation '{s}' out of range, bytes 0 to {}",
                48 - N
            )));
        }
        Ok(SizedAnno(f.offset))
    }
}

/// IPv4 addresses separated by spaces, in one argument; may be empty.
impl FromArg for Vec<Ipv4Addr> {
    const WANTS: &'static str = "IPv4 addresses separated by spaces";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        text::split_words(s)
            .iter()
            .map(|w| Ipv4Addr::from_arg(w, scope))
            .collect::<Result<_, _>>()
            .map_err(|_| None)
    }
}

/// Another element, by name in this element's scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementArg(pub crate::ElemId);

impl FromArg for ElementArg {
    const WANTS: &'static str = "the name of an element";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        crate::element::find_element(scope.elements, scope.element, s)
            .map(ElementArg)
            .ok_or_else(|| Some(format!("no element named '{s}'")))
    }
}

/// Could this text be an element's name?
pub fn is_element_name(s: &str) -> bool {
    !s.is_empty()
        && s.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'@' || b == b'/')
        && !s.as_bytes()[0].is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;

    fn one<T: FromArg>(s: &str) -> Result<T, String> {
        let mut a = Args::from_strings(&[s]);
        let v = a.mandatory("X");
        match a.finish() {
            Ok(()) => v.ok_or_else(|| "none".into()),
            Err(e) => Err(e[0].to_string()),
        }
    }

    #[test]
    fn integers() {
        assert_eq!(one::<u8>("0x1F"), Ok(31));
        assert_eq!(one::<u32>("010"), Ok(8));
        assert!(one::<u32>("089").is_err());
        assert_eq!(one::<i32>("-5"), Ok(-5));
        assert_eq!(
            one::<u8>("256").unwrap_err(),
            "X: '256' out of range, 0 to 255"
        );
        assert!(one::<u32>("1x").is_err());
        assert!(one::<u64>("99999999999999999999999999999999999999999999999999").is_err());
    }

    #[test]
    fn prefixes() {
        let p = one::<Ip4Prefix>("18.26/16").unwrap();
        assert_eq!((p.addr, p.len()), (Ipv4Addr::new(18, 26, 0, 0), Some(16)));
        let p = one::<Ip4Prefix>("10.0.0.1/255.0.255.0").unwrap();
        assert_eq!(p.len(), None);
        assert!(p.contains(Ipv4Addr::new(10, 9, 0, 77)));
        assert!(one::<Ip4Prefix>("10.0.0.0/33").is_err());
        assert_eq!(one::<Ip4Prefix>("0.0.0.0/0").unwrap().len(), Some(0));
        assert_eq!(one::<Ip6Prefix>("2001:db8::/32").unwrap().len, 32);
        assert!(one::<Ip6Prefix>("::/129").is_err());
    }

    #[test]
    fn strings_and_annotations() {
        assert_eq!(one::<String>("\"a b\""), Ok("a b".into()));
        assert!(one::<String>("a b").is_err());
        assert_eq!(one::<AnnoArg>("PAINT").unwrap().0.offset, 16);
        assert_eq!(one::<AnnoArg>("20/4").unwrap().0.size, 4);
        assert!(one::<AnnoArg>("48").is_err());
        assert_eq!(one::<SizedAnno<4>>("DST_IP").unwrap().0, 0);
        assert!(one::<SizedAnno<4>>("PAINT").is_err());
        assert!(one::<SizedAnno<4>>("46").is_err());
        let two = one::<Vec<Ipv4Addr>>("1.2.3.4  5.6.7.8").unwrap();
        assert_eq!(two, [Ipv4Addr::new(1, 2, 3, 4), Ipv4Addr::new(5, 6, 7, 8)]);
        assert!(one::<Vec<Ipv4Addr>>("1.2.3.4 x").is_err());
    }
}
