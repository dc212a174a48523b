//! Numbers and addresses as text, the way Click writes them.

/// An IPv6 address (RFC 5952, except that every address below `::1:0:0` and the mapped ones end as IPv4 addresses do).
pub fn ip6(a: &[u8; 16]) -> String {
    let dotted = format!("{}.{}.{}.{}", a[12], a[13], a[14], a[15]);
    if a == &[0; 16] {
        return "::".to_string();
    } else if a[..12] == [0; 12] {
        return format!("::{dotted}");
    } else if a[..10] == [0; 10] && a[10..12] == [0xff; 2] {
        return format!("::ffff:{dotted}");
    }
    let groups: Vec<u16> = a
        .chunks_exact(2)
        .map(|c| u16::from_be_bytes([c[0], c[1]]))
        .collect();
    // the first of the longest runs of zero groups, if longer than one
    let (mut start, mut len, mut run) = (0, 0, 0);
    for (i, g) in groups.iter().enumerate() {
        run = if *g == 0 { run + 1 } else { 0 };
        if run > len {
            (start, len) = (i + 1 - run, run);
        }
    }
    let text = |g: &[u16]| -> String {
        let parts: Vec<String> = g.iter().map(|g| format!("{g:x}")).collect();
        parts.join(":")
    };
    if len < 2 {
        return text(&groups);
    }
    format!(
        "{}::{}",
        text(&groups[..start]),
        text(&groups[start + len..])
    )
}

/// A real number with twelve significant digits (C's `%.12g`).
pub fn general12(v: f64) -> String {
    const DIGITS: i32 = 12;
    if v.is_nan() {
        // what dividing zero by zero gives on the machines that Click runs on
        return "-nan".to_string();
    }
    if v.is_infinite() {
        return if v > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{v:.11e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let cut = |s: &str| -> String {
        if s.contains('.') {
            s.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            s.to_string()
        }
    };
    if (-4..DIGITS).contains(&exponent) {
        let decimals = (DIGITS - 1 - exponent) as usize;
        cut(&format!("{v:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", cut(mantissa), exponent.abs())
    }
}

/// A binary fixed-point number with `bits` (at most 28) bits of fraction, in decimal with as few digits as tell it from
/// its neighbours (Knuth's `print_scaled`, which Click's `cp_unparse_real2` follows).
pub fn fixed_point(v: i64, bits: u32) -> String {
    let sign = if v < 0 { "-" } else { "" };
    let v = v.unsigned_abs();
    let one = 1u64 << bits;
    let mut out = format!("{sign}{}", v >> bits);
    let mut fraction = v & (one - 1);
    if fraction == 0 {
        return out;
    }
    out.push('.');
    // `error` is how far off the digits so far may be; once it exceeds one, the last digit is rounded
    let mut error = 10;
    let mut rounder = 5;
    while rounder < one / 2 {
        rounder *= 10;
    }
    fraction = 10 * fraction + 5;
    // Bound: `error` grows tenfold per turn, `fraction` stays below 10 * one.
    loop {
        if error > one {
            fraction = (fraction + one / 2).saturating_sub(rounder);
        }
        let digit = ((fraction >> bits) % 10) as u8;
        out.push(char::from(b'0' + digit));
        fraction = 10 * (fraction & (one - 1));
        error *= 10;
        if fraction <= error {
            return out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip6_addresses() {
        let t = |s: &str| ip6(&s.parse::<std::net::Ipv6Addr>().unwrap().octets());
        for same in [
            "::",
            "2001:db8::1",
            "::1:0:0:0",
            "1::",
            "1:2:3:4:5:6:7:8",
            "1:0:3:4:5:6:7:8",
            "1:0:0:4::8",
            "fe80::1:2",
            "::ffff:1.2.3.4",
        ] {
            let want = if same == "1:0:0:4::8" {
                "1:0:0:4::8"
            } else {
                same
            };
            assert_eq!(t(same), want);
        }
        assert_eq!(t("::1"), "::0.0.0.1");
        assert_eq!(t("1:0:0:4:5:0:0:8"), "1::4:5:0:0:8");
    }

    #[test]
    fn reals() {
        for (v, s) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1234.5, "1234.5"),
            (123_456_789_012.0, "123456789012"),
            (1_234_567_890_123.0, "1.23456789012e+12"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5e-7, "-2.5e-07"),
            (1.0 / 3.0, "0.333333333333"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(general12(v), s);
        }
    }

    #[test]
    fn fixed_point_text() {
        assert_eq!(fixed_point(3 << 10, 10), "3");
        assert_eq!(fixed_point((3 << 10) + 512, 10), "3.5");
        assert_eq!(fixed_point(1, 10), "0.001");
        assert_eq!(fixed_point(-3, 1), "-1.5");
        // every fraction of ten bits reads back as itself
        for v in 0..1024i64 {
            let x: f64 = fixed_point(v, 10).parse().unwrap();
            assert_eq!((x * 1024.0).round() as i64, v);
        }
    }
}
