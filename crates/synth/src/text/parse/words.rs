//! What single words of a program's text mean: numbers, addresses, names.

use super::super::names::{ANNOS, PACKET_TYPES, bits_of};
use crate::program::{Address, Counted, Dim, EndAt, LenAt, Origin, Slot};
use onefold_element::ElemId;
use onefold_element::model::AnnoKey;
use onefold_packet::EtherAddr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A token's text, short.
pub(super) fn cut(s: &str) -> String {
    s.chars().take(40).collect()
}

/// `PREFIXn`: n.
pub(super) fn indexed(w: &str, prefix: &str) -> Option<u64> {
    let n = w.strip_prefix(prefix)?;
    (!n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        .then(|| n.parse().ok())
        .flatten()
}

pub(super) fn slot_of(w: &str) -> Option<Slot> {
    indexed(w, "s")
        .and_then(|n| u16::try_from(n).ok())
        .map(Slot)
}

/// `eN`, `eN.A`, and where its packets are counted `@START`, `:ip4@AT` or `:ip6@AT`, `:bBINDS`.
pub(super) fn origin_of(w: &str) -> Option<Origin> {
    let (w, counted) = match w.split_once('@') {
        Some((w, c)) => (w, Some(counted_of(c)?)),
        None => (w, None),
    };
    let (e, arg) = match w.split_once('.') {
        Some((e, a)) => (e, Some(u32::try_from(plain(a)?).ok()?)),
        None => (w, None),
    };
    let elem = indexed(e, "e").and_then(|n| u32::try_from(n).ok())?;
    Some(Origin {
        elem: ElemId(elem),
        arg,
        counted,
    })
}

fn counted_of(w: &str) -> Option<Counted> {
    let mut words = w.split(':');
    let start = words.next()?.parse().ok()?;
    let mut end = EndAt::Same;
    let mut binds = 0;
    for w in words {
        match (w.strip_prefix("ip4@"), w.strip_prefix("ip6@")) {
            (Some(at), _) => end = EndAt::Ip4(at.parse().ok()?),
            (_, Some(at)) => end = EndAt::Ip6(at.parse().ok()?),
            _ => binds = indexed(w, "b").and_then(|n| u16::try_from(n).ok())?,
        }
    }
    let len = LenAt { start, end };
    Some(Counted { len, binds })
}

pub(super) fn anno_of(w: &str) -> Option<AnnoKey> {
    if let Some(name) = w.strip_prefix("anno.") {
        let a = ANNOS.iter().find(|a| a.0 == name)?;
        return Some(AnnoKey {
            offset: a.1,
            size: a.2,
        });
    }
    let (offset, size) = w.strip_prefix("anno@")?.split_once(':')?;
    Some(AnnoKey {
        offset: offset.parse().ok()?,
        size: size.parse().ok()?,
    })
}

/// Dimensions of one word: all but checks.
pub(super) fn dim_of(w: &str) -> Option<Dim> {
    match w {
        "len" => return Some(Dim::Len),
        "packet_type" => return Some(Dim::PacketType),
        _ => {}
    }
    if let Some(s) = slot_of(w) {
        return Some(Dim::Slot(s));
    }
    if w.starts_with("anno") {
        return anno_of(w).map(Dim::Anno);
    }
    if let Some((bit, bits)) = w.strip_prefix('@').and_then(|r| r.split_once(':')) {
        let bits: u8 = bits.parse().ok()?;
        let bit = bit.parse().ok()?;
        return (1..=128).contains(&bits).then_some(Dim::Bits { bit, bits });
    }
    bits_of(w).map(|(bit, bits)| Dim::Bits { bit, bits })
}

/// What a route table is asked about.
pub(super) fn address_of(w: &str) -> Option<Address> {
    let of = match dim_of(w) {
        Some(Dim::Bits { bit, bits }) => Address::Bits { bit, bits },
        Some(Dim::Anno(a)) => Address::Anno(a),
        Some(_) => return None,
        None => match w.parse().ok()? {
            IpAddr::V4(a) => Address::Is {
                value: u32::from(a).into(),
                bits: 32,
            },
            IpAddr::V6(a) => Address::Is {
                value: a.into(),
                bits: 128,
            },
        },
    };
    matches!(of.width(), 32 | 128).then_some(of)
}

/// A decimal or hexadecimal number.
pub(super) fn plain(w: &str) -> Option<u128> {
    let (digits, radix) = match w.strip_prefix("0x") {
        Some(d) => (d, 16),
        None => (w, 10),
    };
    digits
        .bytes()
        .all(|b| b.is_ascii_hexdigit())
        .then(|| u128::from_str_radix(digits, radix).ok())
        .flatten()
}

/// A number, an address, or the name of a packet type.
pub(super) fn number(w: &str) -> Option<u128> {
    if let Some(n) = plain(w) {
        return Some(n);
    }
    if let Some(i) = PACKET_TYPES.iter().position(|p| *p == w) {
        return Some(i as u128);
    }
    if w.contains(':') {
        if let Ok(EtherAddr(a)) = w.parse() {
            let mut v = [0u8; 16];
            v[10..].copy_from_slice(&a);
            return Some(u128::from_be_bytes(v));
        }
        return w.parse::<Ipv6Addr>().ok().map(u128::from);
    }
    w.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into())
}
