//! Fields read from text and from bytes.

use super::field::{Binary, Field, Info};
use super::ip_options;
use super::output::which;
use super::tcp_options;
use crate::icmp_names;
use crate::sources::util::value;
use onefold_element::args::Seconds;
use onefold_packet::{EtherAddr, Timestamp};
use std::net::Ipv4Addr;

/// A field's value as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// A number.
    Number(u64),
    /// A time.
    Time(Timestamp),
    /// An address, options or payload.
    Bytes(Vec<u8>),
}

const DONT_FRAGMENT: u64 = 0x4000;
const MORE_FRAGMENTS: u64 = 0x2000;
/// Any offset that is none: `f` says no more.
const SOME_OFFSET: u64 = 100;

/// What is known besides the text.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Minor version of the format.
    pub minor: u32,
    /// The packet's ICMP type, if it was given.
    pub icmp_type: Option<u8>,
}

/// Reads a field's text; nothing if it is wrong.
pub fn text(info: &Info, word: &[u8], known: Known) -> Option<Read> {
    use Field as F;
    let s = || std::str::from_utf8(word).ok();
    let number = |n: u64| Some(Read::Number(n));
    match info.field {
        F::Timestamp | F::NanoTimestamp | F::FirstTimestamp | F::FirstNanoTimestamp => {
            let Seconds(t) = value(s()?).ok()?;
            Some(Read::Time(t))
        }
        F::Link | F::Direction => match word {
            b">" | b"L" => number(0),
            b"<" | b"R" | b"X" => number(1),
            _ => number(u64::from(value::<u32>(s()?).ok()?)),
        },
        F::EthSrc | F::EthDst => {
            let a: EtherAddr = value(s()?).ok()?;
            Some(Read::Bytes(a.0.to_vec()))
        }
        F::EthType => number(u64::from(u16::from_str_radix(s()?, 16).ok()?)),
        F::IpSrc | F::IpDst => {
            let a: Ipv4Addr = value(s()?).ok()?;
            Some(Read::Bytes(a.octets().to_vec()))
        }
        F::IpFrag | F::IpFragOff => number(fragment(word, known.minor)?),
        F::IpProto => match word {
            b"T" => number(6),
            b"U" => number(17),
            b"I" => number(1),
            _ => number(u64::from(value::<u8>(s()?).ok()?)),
        },
        F::IpEcn => number(match word {
            b"0" | b"no" => 0,
            b"1" | b"ect1" | b"ECT(1)" => 1,
            b"2" | b"ect2" | b"ECT(0)" => 2,
            b"3" | b"ce" | b"CE" => 3,
            _ => return None,
        }),
        F::IpOpt => match word {
            b"." => Some(Read::Bytes(Vec::new())),
            _ => ip_options::parse(word).map(Read::Bytes),
        },
        F::TcpOpt | F::TcpNtOpt | F::TcpSack => match word {
            b"." => Some(Read::Bytes(Vec::new())),
            _ => tcp_options::parse(word, which(info.field)).map(Read::Bytes),
        },
        F::TcpFlags => number(flags(word)?),
        F::IcmpType | F::IcmpTypeName => {
            let name = s()?;
            let named = icmp_names::icmp_type(name);
            number(u64::from(named.or_else(|| value(name).ok())?))
        }
        F::IcmpCode | F::IcmpCodeName => {
            let name = s()?;
            let kind = known.icmp_type;
            let named = kind.and_then(|k| icmp_names::icmp_code(k, name));
            number(u64::from(named.or_else(|| value(name).ok())?))
        }
        F::Payload => payload(word).map(Read::Bytes),
        _ => {
            let n: u64 = value(s()?).ok()?;
            let fits = match info.binary {
                Binary::Number(bytes @ 0..8) => n >> (8 * bytes) == 0,
                _ => true,
            };
            fits.then_some(Read::Number(n))
        }
    }
}

/// `F`, `f`, `!`, `.`, or an offset with `+` and `!` behind it; as the header's field.
fn fragment(word: &[u8], minor: u32) -> Option<u64> {
    match word {
        b"." => return Some(0),
        b"!" => return Some(DONT_FRAGMENT),
        b"F" => return Some(MORE_FRAGMENTS),
        b"f" => return Some(SOME_OFFSET),
        _ => {}
    }
    let mut c = super::options::Cursor::new(word);
    let mut v = u64::from(c.number(true).unwrap_or(0));
    // the first version counted in units of eight bytes
    if minor > 0 {
        v >>= 3;
    }
    while !c.at_end() {
        if c.eat("!") {
            v |= DONT_FRAGMENT;
        } else if c.eat("+") {
            v |= MORE_FRAGMENTS;
        } else {
            return None;
        }
    }
    (!word.is_empty()).then_some(v)
}

/// Letters, including those of old versions, or a number.
fn flags(word: &[u8]) -> Option<u64> {
    if word == b"." {
        return Some(0);
    }
    if word.first()?.is_ascii_digit() {
        let n: u64 = value(std::str::from_utf8(word).ok()?).ok()?;
        return (n < 0x1000).then_some(n);
    }
    let mut v = 0;
    for c in word {
        let letter = match c {
            b'W' | b'Y' => b'C',
            b'X' => b'E',
            c => *c,
        };
        let bit = super::output::TCP_FLAGS.iter().position(|f| *f == letter)?;
        v |= 1 << bit;
    }
    Some(v)
}

/// A string. Bytes that are no text are read as if they were escaped.
fn payload(word: &[u8]) -> Option<Vec<u8>> {
    match std::str::from_utf8(word) {
        Ok(s) => onefold_click::conf::parse_string(s),
        Err(_) => {
            let mut escaped = String::new();
            for b in word {
                match b {
                    0..=127 => escaped.push(char::from(*b)),
                    _ => escaped.push_str(&format!("\\{b:03o}")),
                }
            }
            onefold_click::conf::parse_string(&escaped)
        }
    }
}

fn take<'a>(from: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = from.split_at_checked(n)?;
    *from = tail;
    Some(head)
}

fn word(from: &mut &[u8]) -> Option<u32> {
    let b = take(from, 4)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*b))
}

/// Reads a field from the front of a record; nothing if the record ends before it.
pub fn binary(info: &Info, from: &mut &[u8]) -> Option<Read> {
    match info.binary {
        Binary::Never => None,
        Binary::Number(n) => {
            let b = take(from, n)?;
            let v = b.iter().fold(0, |v, b| v << 8 | u64::from(*b));
            if info.field == Field::IpFrag {
                let letter = u8::try_from(v).ok()?;
                return fragment(&[letter], super::MINOR_VERSION).map(Read::Number);
            }
            Some(Read::Number(v))
        }
        Binary::Address(n) => take(from, n).map(|b| Read::Bytes(b.to_vec())),
        Binary::Micros => {
            let (sec, usec) = (word(from)?, word(from)?);
            let t = Timestamp::from_secs(i64::from(sec)) + Timestamp::from_micros(i64::from(usec));
            Some(Read::Time(t))
        }
        Binary::Nanos => {
            let (nsec, sec) = (word(from)?, word(from)?);
            Some(Read::Time(
                Timestamp::from_secs(i64::from(sec)) + Timestamp(i64::from(nsec)),
            ))
        }
        Binary::Digest => take(from, 16).map(|b| Read::Bytes(b.to_vec())),
        Binary::Counted => {
            let n = usize::from(*take(from, 1)?.first()?);
            take(from, n).map(|b| Read::Bytes(b.to_vec()))
        }
    }
}
