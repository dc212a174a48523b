//! Numbers and `sprintf` as scripts know them.

use super::text::shift_word;
use onefold_element::args::unquote;

/// An integer as Click's arguments have it: decimal, `0x` hexadecimal, `0` octal, `0b` binary, with an optional sign.
pub(super) fn integer(s: &str) -> Option<i128> {
    let (negative, t) = match s.as_bytes().first()? {
        b'-' => (true, &s[1..]),
        b'+' => (false, &s[1..]),
        _ => (false, s),
    };
    let lower = t.to_ascii_lowercase();
    let (digits, base) = if let Some(h) = lower.strip_prefix("0x") {
        (h, 16)
    } else if let Some(h) = lower.strip_prefix("0b") {
        (h, 2)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (&lower[1..], 8)
    } else {
        (lower.as_str(), 10)
    };
    if digits.is_empty() || !digits.bytes().all(|b| (b as char).is_digit(base)) {
        return None;
    }
    let v = i128::from_str_radix(digits, base).ok()?;
    Some(if negative { -v } else { v })
}

/// A 64-bit integer.
pub(super) fn int64(s: &str) -> Option<i64> {
    i64::try_from(integer(s)?).ok()
}

/// A real number.
pub(super) fn real(s: &str) -> Option<f64> {
    let ok = s.bytes().any(|b| b.is_ascii_digit())
        && s.bytes()
            .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    if ok {
        s.parse().ok()
    } else {
        integer(s).map(|v| v as f64)
    }
}

/// C's `%.12g`.
pub(super) fn real_text(v: f64) -> String {
    general(v, 12)
}

/// C's `%.{precision}g`.
fn general(v: f64, precision: usize) -> String {
    if v.is_nan() {
        return if v.is_sign_negative() { "-nan" } else { "nan" }.into();
    }
    if v.is_infinite() {
        return if v < 0.0 { "-inf" } else { "inf" }.into();
    }
    if v == 0.0 {
        return if v.is_sign_negative() { "-0" } else { "0" }.into();
    }
    let sci = format!("{:.*e}", precision - 1, v);
    let (mantissa, exponent) = sci.split_once('e').unwrap_or((&sci, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if exponent < -4 || exponent >= precision as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
    } else {
        let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
        trim(&format!("{v:.decimals$}"))
    }
}

/// Widest field and longest precision that `sprintf` makes.
const MAX_WIDTH: usize = 4096;

/// One conversion's flags.
#[derive(Default)]
struct Spec {
    minus: bool,
    zero: bool,
    alternate: bool,
    space: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

impl Spec {
    fn pad(&self, sign: &str, prefix: &str, body: &str, numeric: bool) -> String {
        let len = sign.len() + prefix.len() + body.chars().count();
        let fill = self.width.saturating_sub(len);
        if self.minus {
            format!("{sign}{prefix}{body}{}", " ".repeat(fill))
        } else if self.zero && numeric && self.precision.is_none() {
            format!("{sign}{prefix}{}{body}", "0".repeat(fill))
        } else {
            format!("{}{sign}{prefix}{body}", " ".repeat(fill))
        }
    }
    fn number(&self, magnitude: u128, negative: bool, signed: bool, conv: u8) -> String {
        let mut body = match conv {
            b'x' => format!("{magnitude:x}"),
            b'X' => format!("{magnitude:X}"),
            b'o' => format!("{magnitude:o}"),
            _ => magnitude.to_string(),
        };
        if let Some(p) = self.precision {
            if p == 0 && magnitude == 0 {
                body.clear();
            }
            if body.len() < p {
                body = format!("{}{body}", "0".repeat(p - body.len()));
            }
        }
        let prefix = match conv {
            b'x' if self.alternate && magnitude != 0 => "0x",
            b'X' if self.alternate && magnitude != 0 => "0X",
            b'o' if self.alternate && !body.starts_with('0') => "0",
            _ => "",
        };
        let sign = match (negative, signed && self.plus, signed && self.space) {
            (true, _, _) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        self.pad(sign, prefix, &body, true)
    }
}

/// Click's `sprintf` handler: a format and its arguments, separated by spaces. `None` is a syntax error.
pub(super) fn sprintf(params: &str) -> Option<String> {
    let (format, mut rest) = shift_word(params);
    let format = unquote(format);
    let mut out: Vec<u8> = Vec::new();
    let mut i = 0;
    while i < format.len() {
        if format[i] != b'%' {
            out.push(format[i]);
            i += 1;
            continue;
        }
        i += 1;
        let mut take = || {
            let (word, r) = shift_word(rest);
            rest = r;
            word
        };
        let mut spec = Spec::default();
        loop {
            match format.get(i) {
                Some(b'0') => spec.zero = true,
                Some(b'#') => spec.alternate = true,
                Some(b'-') => spec.minus = true,
                Some(b' ') => spec.space = true,
                Some(b'+') => spec.plus = true,
                _ => break,
            }
            i += 1;
        }
        let digits = |i: &mut usize| {
            let mut n = 0usize;
            while let Some(d) = format.get(*i).filter(|c| c.is_ascii_digit()) {
                n = (n * 10 + usize::from(d - b'0')).min(MAX_WIDTH);
                *i += 1;
            }
            n
        };
        if format.get(i) == Some(&b'*') {
            i += 1;
            let w = int64(take())?;
            spec.minus |= w < 0;
            spec.width = (w.unsigned_abs() as usize).min(MAX_WIDTH);
        } else {
            spec.width = digits(&mut i);
        }
        if format.get(i) == Some(&b'.') {
            i += 1;
            if format.get(i) == Some(&b'*') {
                i += 1;
                spec.precision = Some(usize::try_from(int64(take())?).ok()?.min(MAX_WIDTH));
            } else {
                spec.precision = Some(digits(&mut i));
            }
        }
        let mut short = false;
        while let Some(c) = format.get(i).filter(|c| b"hlLq".contains(c)) {
            short = *c == b'h';
            i += 1;
        }
        match format.get(i).copied() {
            Some(c @ (b'o' | b'x' | b'X' | b'u')) => {
                let v = integer(take())?;
                // as a conversion to an unsigned 64-bit number
                let mut v = v.clamp(i128::from(i64::MIN), i128::from(u64::MAX)) as u64;
                if short {
                    v = u64::from(v as u16);
                }
                out.extend(spec.number(u128::from(v), false, false, c).bytes());
            }
            Some(b'd' | b'i') => {
                let mut v = int64(take())?;
                if short {
                    v = i64::from(v as i16);
                }
                let text = spec.number(u128::from(v.unsigned_abs()), v < 0, true, b'd');
                out.extend(text.bytes());
            }
            Some(b'%') => out.push(b'%'),
            Some(b's') => {
                let word = take();
                if word.is_empty() {
                    return None;
                }
                let s = String::from_utf8_lossy(&unquote(word)).into_owned();
                let s: String = s
                    .chars()
                    .take(spec.precision.unwrap_or(usize::MAX))
                    .collect();
                out.extend(spec.pad("", "", &s, false).bytes());
            }
            _ => return None,
        }
        i += 1;
    }
    rest.is_empty()
        .then(|| String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(int64("0x10"), Some(16));
        assert_eq!(int64("010"), Some(8));
        assert_eq!(int64("-7"), Some(-7));
        assert_eq!(int64("7x"), None);
        assert_eq!(real("2.5e1"), Some(25.0));
        assert_eq!(real("inf"), None);
        assert_eq!(real_text(6.0), "6");
        assert_eq!(real_text(1.0 / 3.0), "0.333333333333");
        assert_eq!(real_text(1e20), "1e+20");
        assert_eq!(real_text(0.00001), "1e-05");
        assert_eq!(real_text(123456.75), "123456.75");
    }

    #[test]
    fn formats_as_c_does() {
        let f = |s: &str| sprintf(s).unwrap_or("?".into());
        assert_eq!(f("\"%05x\" 127"), "0007f");
        assert_eq!(f("'%-5d|%+d|%s' 3 4 'a b'"), "3    |+4|a b");
        assert_eq!(f("'%#x %#o %X' 255 8 171"), "0xff 010 AB");
        assert_eq!(f("'%*d%%' 4 7"), "   7%");
        assert_eq!(f("'%.3d %5.2s|' 7 abc"), "007    ab|");
        assert_eq!(f("'%hu' 65537"), "1");
        assert_eq!(sprintf("%d x"), None);
        assert_eq!(sprintf("%d 1 2"), None);
        assert_eq!(sprintf("%q 1"), None);
    }
}
