//! Addresses with the length of their network's prefix, and what is wrong with one.

use std::str::FromStr;

/// `192.168.1.1/24`; `bits`: those of an address, `example`: what a right one looks like. An error begins with what is
/// wrong.
pub(super) fn network<A: FromStr>(text: &str, bits: u8, example: &str) -> Result<(A, u8), String> {
    let version = if bits == 32 { "IPv4" } else { "IPv6" };
    let Some((address, length)) = text.split_once('/') else {
        return Err(match text.parse::<A>() {
            Ok(_) => format!("`{text}`: the length of the prefix is missing, as in {example}"),
            Err(_) => format!(
                "`{text}`: expected an {version} address with the length of its prefix, such as {example}"
            ),
        });
    };
    let Ok(length) = length.parse::<u32>() else {
        return Err(format!("`{text}`: `{length}` is no length of a prefix"));
    };
    let length = match u8::try_from(length) {
        Ok(l) if l <= bits => l,
        _ => return Err(format!("`{text}`: a prefix is at most {bits} bits long")),
    };
    match address.parse() {
        Ok(a) => Ok((a, length)),
        Err(_) => Err(format!("`{text}`: `{address}` is no {version} address")),
    }
}

#[cfg(test)]
mod tests {
    use super::network;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn what_is_wrong_comes_first() {
        let v4 = |t: &str| network::<Ipv4Addr>(t, 32, "10.0.0.1/8").unwrap_err();
        assert_eq!(
            v4("10.0.0.0/33"),
            "`10.0.0.0/33`: a prefix is at most 32 bits long"
        );
        assert_eq!(
            v4("10.0.0.0/256"),
            "`10.0.0.0/256`: a prefix is at most 32 bits long"
        );
        assert_eq!(
            v4("10.0.0.0/x"),
            "`10.0.0.0/x`: `x` is no length of a prefix"
        );
        assert_eq!(
            v4("10.0.0.300/24"),
            "`10.0.0.300/24`: `10.0.0.300` is no IPv4 address"
        );
        assert_eq!(
            v4("10.0.0.1"),
            "`10.0.0.1`: the length of the prefix is missing, as in 10.0.0.1/8"
        );
        assert!(v4("here").contains("expected an IPv4 address with the length of its prefix"));
        assert_eq!(
            network::<Ipv4Addr>("10.0.0.1/8", 32, ""),
            Ok((Ipv4Addr::new(10, 0, 0, 1), 8))
        );
        let v6 = network::<Ipv6Addr>("fd00::/129", 128, "").unwrap_err();
        assert_eq!(v6, "`fd00::/129`: a prefix is at most 128 bits long");
        assert_eq!(
            network::<Ipv6Addr>("::/0", 128, ""),
            Ok((Ipv6Addr::UNSPECIFIED, 0))
        );
    }
}
