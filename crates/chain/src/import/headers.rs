//! Header fields that rules set: the elements that do it.

use super::terms::Family;
use std::net::Ipv6Addr;

/// What rules have for the MTU of a port of which nobody says it: Ethernet's.
pub const USUAL_MTU: u16 = 1500;
/// What a port is taken to pass at least (RFC 791): less than the headers of IPv6 and TCP are no MTU.
pub const LEAST_MTU: u16 = 68;

/// Sets the code point.
pub fn dscp(family: Family, n: u32) -> Result<String, String> {
    match (family, n) {
        (Family::V4, 0..=63) => Ok(format!("SetIPDSCP({n})")),
        (Family::V6, 0..=63) => Ok(format!("SetIP6DSCP({n})")),
        _ => Err(format!("code point {n} is more than 63")),
    }
}

/// Sets the time to live or hop limit; `how` is empty, `ADD ` or `SUBTRACT `.
pub fn hops(family: Family, how: &str, n: u8) -> String {
    match family {
        Family::V4 => format!("SetIPTTL({how}{n})"),
        Family::V6 => format!("SetIP6HLIM({how}{n})"),
    }
}

/// Lowers the maximum segment size. `add`: segments that do not say one get it, as for iptables.
pub fn segment_size(n: u16, add: bool) -> String {
    match add {
        true => format!("SetTCPMSS({n}, ADD true)"),
        false => format!("SetTCPMSS({n})"),
    }
}

/// The element that translates prefixes of addresses.
const PREFIXES: &str = "IP6PrefixTranslate";
/// Longest prefix that Linux translates.
const LONGEST_PREFIX: u8 = 64;

/// Translates the prefix of sources, or of destinations, as the targets SNPT and DNPT do (RFC 6296).
pub fn prefixes(source: bool, from: &str, to: &str) -> Result<String, String> {
    let side = if source { "SOURCE" } else { "DESTINATION" };
    let (from, to) = (prefix(from)?, prefix(to)?);
    Ok(format!("{PREFIXES}({side}, {from} {to}, NETFILTER true)"))
}

/// Does an element translate prefixes?
pub fn translates_prefixes(element: &str) -> bool {
    element.starts_with(PREFIXES)
}

/// A prefix that can be translated.
fn prefix(text: &str) -> Result<String, String> {
    let wrong = || format!("'{text}': expected an IPv6 prefix such as 2001:db8:1::/48");
    let (a, len) = text.split_once('/').ok_or_else(wrong)?;
    let a: Ipv6Addr = a.parse().map_err(|_| wrong())?;
    let len: u8 = len.parse().map_err(|_| wrong())?;
    if !(1..=LONGEST_PREFIX).contains(&len) {
        return Err(format!(
            "'{text}': a prefix that is translated is from 1 to {LONGEST_PREFIX} bits long"
        ));
    }
    if u128::from(a) << len != 0 {
        return Err(format!("'{text}': bits behind the prefix are set"));
    }
    Ok(format!("{a}/{len}"))
}

/// The largest segment of packets of this size.
pub fn fitting(family: Family, mtu: u16) -> u16 {
    let headers = match family {
        Family::V4 => 40,
        Family::V6 => 60,
    };
    mtu.saturating_sub(headers)
}

/// A code point by name (RFC 2474, 2597, 3246, 5865, 8622).
pub fn code_point(name: &str) -> Option<u32> {
    let name = name.to_ascii_lowercase();
    let digits = |prefix: &str| -> Option<Vec<u32>> {
        let rest = name.strip_prefix(prefix)?;
        rest.chars().map(|c| c.to_digit(10)).collect()
    };
    match name.as_str() {
        "be" | "df" => return Some(0),
        "le" | "lephb" => return Some(1),
        "va" | "voice-admit" => return Some(44),
        "ef" => return Some(46),
        _ => {}
    }
    match (digits("cs").as_deref(), digits("af").as_deref()) {
        (Some([n @ 0..=7]), _) => Some(n * 8),
        (_, Some([class @ 1..=4, drop @ 1..=3])) => Some(class * 8 + drop * 2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_points_have_names() {
        for (name, n) in [
            ("BE", 0),
            ("cs1", 8),
            ("CS7", 56),
            ("AF11", 10),
            ("af43", 38),
            ("EF", 46),
            ("lephb", 1),
        ] {
            assert_eq!(code_point(name), Some(n), "{name}");
        }
        for bad in ["", "cs8", "cs", "af14", "af50", "x"] {
            assert_eq!(code_point(bad), None, "{bad}");
        }
        assert!(dscp(Family::V4, 64).is_err());
        assert_eq!(fitting(Family::V6, 1500), 1440);
    }
}
