//! The text of a rewrite pattern: `SADDR SPORT DADDR DPORT` with a range of source addresses or ports; see [`Pattern`].

use onefold_element::args::{ArgScope, FromArg, Ip4Prefix};
use onefold_nat::Pattern;
use std::net::Ipv4Addr;

/// From the words of a pattern: `SADDR DADDR`, `SADDR DADDR SPORT` or `SADDR SPORT DADDR DPORT`.
pub(super) fn parse_words(words: &[&str], scope: &ArgScope<'_>) -> Result<Pattern, String> {
    let (s, sp, d, dp) = match *words {
        [s, d] => (s, None, d, None),
        [s, d, sp] => (s, Some(sp), d, None),
        [s, sp, d, dp] => (s, Some(sp), d, Some(dp)),
        _ => {
            return Err("expected a pattern 'SADDR SPORT DADDR DPORT' or 'SADDR DADDR'".into());
        }
    };
    let mut p = Pattern {
        saddr: 0,
        sport: 0,
        daddr: 0,
        dport: 0,
        top: 0,
        ports: words.len() >= 3,
        sequential: false,
        same_first: true,
        next: 0,
    };
    parse_saddr(&mut p, s, scope)?;
    if let Some(sp) = sp {
        parse_sport(&mut p, sp, scope)?;
    }
    if d != "-" {
        p.daddr = address(d, scope).ok_or_else(|| {
            format!("bad destination address '{d}', expected an IPv4 address or '-'")
        })?;
    }
    if let Some(dp) = dp.filter(|x| *x != "-") {
        p.dport = port(dp, scope)
            .ok_or_else(|| format!("bad destination port '{dp}', expected 1 to 65535 or '-'"))?;
    }
    Ok(p)
}

/// Takes off a suffix that says how to choose.
fn parse_suffix<'t>(p: &mut Pattern, text: &'t str) -> &'t str {
    if let Some(t) = text.strip_suffix('#') {
        (p.sequential, p.same_first) = (true, false);
        t
    } else if let Some(t) = text.strip_suffix('?') {
        p.same_first = false;
        t
    } else {
        text
    }
}

fn parse_saddr(p: &mut Pattern, text: &str, scope: &ArgScope<'_>) -> Result<(), String> {
    if text == "-" {
        return Ok(());
    }
    if let Some(a) = address(text, scope) {
        p.saddr = a;
        return Ok(());
    }
    let bad = || {
        format!("bad source address '{text}', expected an address, 'FIRST-LAST', a prefix or '-'")
    };
    let t = parse_suffix(p, text);
    if let Some((a, b)) = t.split_once('-') {
        let (a, b) = (address(a, scope), address(b, scope));
        let (Some(a), Some(b)) = (a, b) else {
            return Err(bad());
        };
        if b < a {
            return Err(bad());
        }
        (p.saddr, p.top) = (a, b - a);
        return Ok(());
    }
    let prefix = Ip4Prefix::from_arg(t, scope).map_err(|_| bad())?;
    let (a, mask) = (u32::from(prefix.addr), u32::from(prefix.mask));
    match prefix.len() {
        Some(32) if a != 0 => p.saddr = a,
        Some(31) if a != 0 => (p.saddr, p.top) = (a & mask, 1),
        // the all-zeros and all-ones hosts are left out
        Some(1..=30) if a != 0 => (p.saddr, p.top) = (a & mask | 1, !mask - 2),
        _ => return Err(bad()),
    }
    Ok(())
}

fn parse_sport(p: &mut Pattern, text: &str, scope: &ArgScope<'_>) -> Result<(), String> {
    if text == "-" {
        return Ok(());
    }
    if let Some(x) = port(text, scope) {
        p.sport = x;
        return Ok(());
    }
    let t = parse_suffix(p, text);
    let ends = t.split_once('-').and_then(|(a, b)| {
        let (a, b) = (u16::from_arg(a, scope).ok()?, u16::from_arg(b, scope).ok()?);
        (a <= b).then_some((a, b))
    });
    let Some((a, b)) = ends else {
        return Err(format!(
            "bad source port '{text}', expected a port, 'LOW-HIGH', 'LOW-HIGH#' or '-'"
        ));
    };
    (p.sport, p.top) = (a, u32::from(b - a));
    Ok(())
}

fn address(s: &str, scope: &ArgScope<'_>) -> Option<u32> {
    Ipv4Addr::from_arg(s, scope).ok().map(u32::from)
}

fn port(s: &str, scope: &ArgScope<'_>) -> Option<u16> {
    u16::from_arg(s, scope).ok().filter(|p| *p > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::NameDb;
    use onefold_element::args::split_words;

    fn scope() -> ArgScope<'static> {
        ArgScope {
            names: NameDb::builtin(),
            element: "",
            elements: &[],
        }
    }
    fn pattern(s: &str) -> Result<Pattern, String> {
        parse_words(&split_words(s), &scope())
    }

    #[test]
    fn texts() {
        for (given, shown) in [
            ("1.0.0.1 -", "1.0.0.1 -"),
            ("1.0.0.1-1.0.255.255 -", "1.0.0.1-1.0.255.255 -"),
            ("1.0.0.1/24 -", "1.0.0.1-1.0.0.254 -"),
            ("1.0.0.1/8 2.0.0.2", "1.0.0.1-1.255.255.254 2.0.0.2"),
            ("1.0.0.4/31# -", "1.0.0.4-1.0.0.5 -"),
            ("1.0.0.9# -", "1.0.0.9 -"),
            ("1.0.0.1 1024-65535# - -", "1.0.0.1 1024-65535 - -"),
            ("- 20 3.0.0.3 80", "- 20 3.0.0.3 80"),
            ("2.0.0.2 - 0-65535", "2.0.0.2 - - -"),
            ("2.0.0.2 - 10-20?", "2.0.0.2 10-20 - -"),
        ] {
            assert_eq!(pattern(given).unwrap().to_string(), shown, "{given}");
        }
    }

    #[test]
    fn errors_say_what_is_wanted() {
        for (given, part) in [
            ("1.0.0.x -", "bad source address"),
            ("1.255.0.0-1.0.255.255 -", "bad source address"),
            ("1.0.0.0/0 -", "bad source address"),
            ("1.0.0.1 0 - -", "bad source port"),
            ("1.0.0.1 70000 - -", "bad source port"),
            ("1.0.0.1 9-8 - -", "bad source port"),
            ("1.0.0.1 1024# - -", "bad source port"),
            ("1.0.0.1 1 x -", "bad destination address"),
            ("1.0.0.1 1 - 1-2", "bad destination port"),
            ("1.0.0.1 1 - - -", "expected a pattern"),
            ("", "expected a pattern"),
        ] {
            let e = pattern(given).unwrap_err();
            assert!(e.contains(part), "{given}: {e}");
        }
    }
}
