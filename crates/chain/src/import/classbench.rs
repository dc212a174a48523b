//! ClassBench filter sets (Taylor and Turner, INFOCOM 2005):
//! `@src/len  dst/len  lo : hi  lo : hi  proto/mask  flags/mask`, tab separated.
//!
//! The last column's high byte is the TCP flags byte (or the ICMP type), its low byte the ICMP code, as in the packet
//! filters that the seeds were taken from. A seventh column `allow` or `deny`, if there is one, is the rule's verdict.

use super::rule::{Rule, RuleSet, Verdict};
use std::fmt::Write;

/// A rule's fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fields {
    /// Source prefix: address, length.
    pub src: ([u8; 4], u8),
    /// Destination prefix.
    pub dst: ([u8; 4], u8),
    /// Source ports, inclusive.
    pub sport: (u16, u16),
    /// Destination ports, inclusive.
    pub dport: (u16, u16),
    /// Protocol; `None` for any.
    pub proto: Option<u8>,
    /// Value and mask of the flags column.
    pub flags: (u16, u16),
    /// Verdict column.
    pub verdict: Option<Verdict>,
}

/// Reads rules; every `deny_every`-th of those without a verdict column denies (0: none). Errors are (line, message).
pub fn parse(text: &str, deny_every: u32) -> Result<RuleSet, Vec<(u32, String)>> {
    let mut set = RuleSet::default();
    let mut errors = Vec::new();
    for (i, l) in text.lines().enumerate() {
        let line = i as u32 + 1;
        let l = l.trim();
        if l.is_empty() || l.starts_with('#') {
            continue;
        }
        match parse_line(l) {
            Ok(f) => {
                let n = set.rules.len() as u32 + 1;
                let denies = deny_every > 0 && n.is_multiple_of(deny_every);
                let verdict = f.verdict.unwrap_or(if denies {
                    Verdict::Deny
                } else {
                    Verdict::Allow
                });
                set.rules.push(Rule {
                    verdict,
                    filter: f.expression(),
                    line,
                    place: None,
                    onward: None,
                });
            }
            Err(e) => errors.push((line, e)),
        }
    }
    if errors.is_empty() {
        Ok(set)
    } else {
        Err(errors)
    }
}

fn prefix(s: &str) -> Result<([u8; 4], u8), String> {
    let bad = || format!("expected a prefix such as 10.0.0.0/8, found '{s}'");
    let (a, l) = s.split_once('/').ok_or_else(bad)?;
    let a: std::net::Ipv4Addr = a.parse().map_err(|_| bad())?;
    let l: u8 = l.parse().ok().filter(|l| *l <= 32).ok_or_else(bad)?;
    Ok((a.octets(), l))
}

fn hex_pair(s: &str) -> Result<(u16, u16), String> {
    let bad = || format!("expected VALUE/MASK in hexadecimal, found '{s}'");
    let (v, m) = s.split_once('/').ok_or_else(bad)?;
    let h = |t: &str| {
        t.strip_prefix("0x")
            .and_then(|t| u16::from_str_radix(t, 16).ok())
            .ok_or_else(bad)
    };
    Ok((h(v)?, h(m)?))
}

fn range(lo: &str, colon: &str, hi: &str) -> Result<(u16, u16), String> {
    let bad = || format!("expected a port range such as 0 : 65535, found '{lo} {colon} {hi}'");
    let (l, h) = (
        lo.parse().map_err(|_| bad())?,
        hi.parse().map_err(|_| bad())?,
    );
    if colon != ":" || l > h {
        Err(bad())
    } else {
        Ok((l, h))
    }
}

/// Reads one rule.
pub fn parse_line(l: &str) -> Result<Fields, String> {
    let l = l
        .strip_prefix('@')
        .ok_or("a ClassBench rule starts with '@'")?;
    let w: Vec<&str> = l.split_whitespace().collect();
    let [src, dst, s1, s2, s3, d1, d2, d3, proto, rest @ ..] = w.as_slice() else {
        return Err(format!("expected at least 9 columns, found {}", w.len()));
    };
    let proto = match hex_pair(proto)? {
        (_, 0) => None,
        (p, 0xff) => Some(p as u8),
        _ => {
            return Err(format!(
                "protocol mask must be 0x00 or 0xFF, found '{proto}'"
            ));
        }
    };
    let flags = rest.first().map_or(Ok((0, 0)), |f| hex_pair(f))?;
    let verdict = match rest.get(1) {
        None => None,
        Some(&"allow") => Some(Verdict::Allow),
        Some(&"deny") => Some(Verdict::Deny),
        Some(v) => {
            return Err(format!(
                "expected allow or deny in the verdict column, found '{v}'"
            ));
        }
    };
    Ok(Fields {
        src: prefix(src)?,
        dst: prefix(dst)?,
        sport: range(s1, s2, s3)?,
        dport: range(d1, d2, d3)?,
        proto,
        flags,
        verdict,
    })
}

impl Fields {
    /// The rule as an expression of IPFilter's language. A port range that is not the whole range asks for a first
    /// fragment of TCP or UDP, as any filter on ports does.
    pub fn expression(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (name, (a, l)) in [("src", self.src), ("dst", self.dst)] {
            if l > 0 {
                let m = u32::MAX << (32 - u32::from(l));
                let net = std::net::Ipv4Addr::from(u32::from_be_bytes(a) & m);
                parts.push(format!("{name} net {net}/{l}"));
            }
        }
        if let Some(p) = self.proto {
            parts.push(format!("ip proto {p}"));
        }
        for (name, (lo, hi)) in [("src", self.sport), ("dst", self.dport)] {
            match (lo, hi) {
                (0, 65535) => {}
                (a, b) if a == b => parts.push(format!("{name} port {a}")),
                (0, b) => parts.push(format!("{name} port <= {b}")),
                (a, 65535) => parts.push(format!("{name} port >= {a}")),
                (a, b) => parts.push(format!("{name} port >= {a} && {name} port <= {b}")),
            }
        }
        let (value, mask) = self.flags;
        let (fv, fm) = (value >> 8, mask >> 8);
        match self.proto {
            Some(1) => {
                if fm != 0 {
                    parts.push(masked("icmp[0:1]", fv, fm));
                }
                if mask & 0xff != 0 {
                    parts.push(masked("icmp[1:1]", value & 0xff, mask & 0xff));
                }
            }
            Some(6) | None if fm != 0 => parts.push(masked("tcp[13:1]", fv, fm)),
            _ => {}
        }
        if parts.is_empty() {
            "all".to_string()
        } else {
            parts.join(" && ")
        }
    }
}

fn masked(field: &str, value: u16, mask: u16) -> String {
    let mut s = field.to_string();
    if mask != 0xff {
        // writing to a String cannot fail
        let _ = write!(s, " & {mask}");
    }
    let _ = write!(s, " == {}", value & mask);
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns() {
        let f =
            parse_line("@1.2.3.0/24\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0200/0x1200\t")
                .unwrap();
        assert_eq!(
            f.expression(),
            "src net 1.2.3.0/24 && ip proto 6 && dst port 80 && tcp[13:1] & 18 == 2"
        );
        let f =
            parse_line("@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00 0x0000/0x0000").unwrap();
        assert_eq!(f.expression(), "all");
        let f =
            parse_line("@0.0.0.0/0 9.9.9.9/32 0 : 65535 0 : 65535 0x01/0xFF 0x0800/0xff00 deny")
                .unwrap();
        assert_eq!(
            f.expression(),
            "dst net 9.9.9.9/32 && ip proto 1 && icmp[0:1] == 8"
        );
        assert_eq!(f.verdict, Some(Verdict::Deny));
        for bad in [
            "1.2.3.4/8",
            "@x",
            "@1.2.3.0/33 0.0.0.0/0 0 : 1 0 : 1 0x00/0x00",
            "@1.2.3.0/3 0.0.0.0/0 5 : 1 0 : 1 0x00/0x00",
        ] {
            assert!(parse_line(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn every_third_denies() {
        let line = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00 0x0000/0x0000\n";
        let s = parse(&line.repeat(6), 3).unwrap();
        let v: Vec<bool> = s.rules.iter().map(|r| r.verdict == Verdict::Deny).collect();
        assert_eq!(v, [false, false, true, false, false, true]);
    }
}
