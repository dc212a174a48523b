//! Writing numbers, addresses, sets and strings.

use super::super::names::{PACKET_TYPES, Style};
use onefold_element::model::{ValueSet, max_of};
use onefold_packet::EtherAddr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A string in quotation marks; control characters, quotation marks and backslashes are escaped.
pub(crate) fn quoted(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                put!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A number in a field's style; what does not fit the style is written as a plain number.
pub(crate) fn number(v: u128, style: Style, bits: u8) -> String {
    match style {
        Style::Ip4 if let Ok(a) = u32::try_from(v) => Ipv4Addr::from(a).to_string(),
        Style::Ip6 => Ipv6Addr::from(v).to_string(),
        Style::Mac if v <= max_of(48) => {
            let b = v.to_be_bytes();
            let a = EtherAddr::from_slice(&b[10..]).unwrap_or_default();
            a.to_string().replace('-', ":").to_ascii_lowercase()
        }
        Style::PacketType
            if let Some(n) = usize::try_from(v).ok().and_then(|i| PACKET_TYPES.get(i)) =>
        {
            (*n).to_string()
        }
        Style::Hex | Style::Mac => format!("{v:#0w$x}", w = usize::from(bits).div_ceil(4) + 2),
        _ => v.to_string(),
    }
}

/// An interval: a value, a prefix (addresses) or `LOW-HIGH`.
fn interval(l: u128, h: u128, bits: u8, style: Style) -> String {
    if l == h {
        return number(l, style, bits);
    }
    let host = l ^ h;
    if matches!(style, Style::Ip4 | Style::Ip6)
        && host & host.wrapping_add(1) == 0
        && l & host == 0
        && h <= max_of(bits)
    {
        let len = u32::from(bits).saturating_sub(host.count_ones());
        return format!("{}/{len}", number(l, style, bits));
    }
    format!("{}-{}", number(l, style, bits), number(h, style, bits))
}

/// A set: one interval as it is, others in braces.
pub(crate) fn set(s: &ValueSet, bits: u8, style: Style) -> String {
    match s.intervals() {
        [(l, h)] => interval(*l, *h, bits, style),
        l => {
            let parts: Vec<String> = l
                .iter()
                .map(|(l, h)| interval(*l, *h, bits, style))
                .collect();
            format!("{{{}}}", parts.join(", "))
        }
    }
}

/// `= 6`, `!= 6`, `>= 2`, `<= 9`, `in 1-3`, `in {..}`, `not in {..}`, whichever is shortest to read.
pub(super) fn comparison(s: &ValueSet, bits: u8, style: Style) -> String {
    let max = max_of(bits);
    let one = |v| number(v, style, bits);
    let address = matches!(style, Style::Ip4 | Style::Ip6 | Style::Mac);
    match s.intervals() {
        [(l, h)] if l == h => return format!("= {}", one(*l)),
        [(0, h)] if *h == max && !address => return ">= 0".into(),
        [(l, h)] if *h == max && !address && *l > 0 => return format!(">= {}", one(*l)),
        [(0, h)] if *h < max && !address => return format!("<= {}", one(*h)),
        [_] | [] => return format!("in {}", set(s, bits, style)),
        _ => {}
    }
    let rest = s.complement(bits);
    // a set with values beyond the width is not its complement's complement
    if rest.intervals().len() < s.intervals().len() && rest.complement(bits) == *s {
        return match rest.single() {
            Some(v) => format!("!= {}", one(v)),
            None => format!("not in {}", set(&rest, bits, style)),
        };
    }
    format!("in {}", set(s, bits, style))
}

/// A set of values on its own, as people write them: addresses where there are 32 bits.
pub fn values(s: &ValueSet, bits: u8) -> String {
    let style = if bits == 32 { Style::Ip4 } else { Style::Dec };
    set(s, bits, style)
}
