//! 5-tuple rules in the text form of ClassBench:
//!
//! ```text
//! @src/len  dst/len  lo : hi  lo : hi  proto/mask  flags/mask
//! @10.0.0.0/8  192.0.2.1/32  0 : 65535  80 : 80  0x06/0xFF  0x1000/0x1000
//! ```
//!
//! The columns are separated by tabs. The last one holds the 14th byte of a TCP header (the flags) in its high byte:
//! `0x1000/0x1000` is "ACK set", `0x0000/0x0200` "SYN not set". Of ICMP it holds type and code: `0x0303/0xffff` is
//! "port unreachable". A rule for any protocol with a condition on flags is one for TCP; for other protocols the column
//! says nothing. The first rule that matches decides.

use std::fmt;
use std::io::{self, Write};
use std::net::Ipv4Addr;

use super::MAX_RULES;

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;

/// A protocol, or none in particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProtoMatch {
    /// Every protocol.
    Any,
    /// This one.
    Is(u8),
}

/// A 5-tuple rule with a condition on TCP flags or ICMP types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Source: address (host bits zero) and prefix length.
    pub src: (u32, u8),
    /// Destination.
    pub dst: (u32, u8),
    /// Source ports, both ends included.
    pub sport: (u16, u16),
    /// Destination ports.
    pub dport: (u16, u16),
    /// Protocol.
    pub proto: ProtoMatch,
    /// Value and mask of the flags column.
    pub flags: (u16, u16),
}

/// A packet's header, as a rule sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Source address.
    pub src: u32,
    /// Destination address.
    pub dst: u32,
    /// Source and destination port. `None`: the packet has no ports, and only rules for all ports match.
    pub ports: Option<(u16, u16)>,
    /// Protocol.
    pub proto: u8,
    /// The flags column: TCP flags, or ICMP type and code.
    pub flags: u16,
}

/// The network mask of a prefix length.
pub(crate) fn mask(len: u8) -> u32 {
    u32::MAX
        .checked_shl(32 - u32::from(len.min(32)))
        .unwrap_or(0)
}

/// All ports.
pub(crate) const ANY_PORT: (u16, u16) = (0, u16::MAX);

impl Rule {
    /// Does the rule match?
    pub fn matches(&self, h: &Header) -> bool {
        let port_in = |(lo, hi): (u16, u16), p: u16| lo <= p && p <= hi;
        let ports = match h.ports {
            Some((s, d)) => port_in(self.sport, s) && port_in(self.dport, d),
            None => self.sport == ANY_PORT && self.dport == ANY_PORT,
        };
        let (proto, (value, flag_mask)) = self.condition();
        ports
            && (h.flags ^ value) & flag_mask == 0
            && (h.src ^ self.src.0) & mask(self.src.1) == 0
            && (h.dst ^ self.dst.0) & mask(self.dst.1) == 0
            && match proto {
                ProtoMatch::Any => true,
                ProtoMatch::Is(p) => p == h.proto,
            }
    }

    /// Protocol and flags as they apply: flags of TCP, type and code of ICMP, nothing of others.
    fn condition(&self) -> (ProtoMatch, (u16, u16)) {
        let (value, mask) = self.flags;
        let tcp = (value & mask & 0xff00, mask & 0xff00);
        match self.proto {
            ProtoMatch::Any if tcp.1 != 0 => (ProtoMatch::Is(TCP), tcp),
            ProtoMatch::Is(TCP) => (self.proto, tcp),
            ProtoMatch::Is(ICMP) => (self.proto, (value & mask, mask)),
            _ => (self.proto, (0, 0)),
        }
    }

    /// Could one header match both rules?
    pub fn overlaps(&self, o: &Rule) -> bool {
        let prefixes = |a: (u32, u8), b: (u32, u8)| (a.0 ^ b.0) & mask(a.1.min(b.1)) == 0;
        let ports = |a: (u16, u16), b: (u16, u16)| a.0 <= b.1 && b.0 <= a.1;
        let (mine, my_flags) = self.condition();
        let (other, other_flags) = o.condition();
        let proto = match (mine, other) {
            (ProtoMatch::Is(a), ProtoMatch::Is(b)) => a == b,
            _ => true,
        };
        let both = my_flags.1 & other_flags.1;
        proto
            && prefixes(self.src, o.src)
            && prefixes(self.dst, o.dst)
            && ports(self.sport, o.sport)
            && ports(self.dport, o.dport)
            && (my_flags.0 ^ other_flags.0) & both == 0
    }

    /// Does the rule match whatever `o` matches?
    pub fn covers(&self, o: &Rule) -> bool {
        let prefix = |a: (u32, u8), b: (u32, u8)| a.1 <= b.1 && (a.0 ^ b.0) & mask(a.1) == 0;
        let ports = |a: (u16, u16), b: (u16, u16)| a.0 <= b.0 && b.1 <= a.1;
        let (mine, my_flags) = self.condition();
        let (other, other_flags) = o.condition();
        let proto = mine == ProtoMatch::Any || mine == other;
        let flags =
            my_flags.1 & !other_flags.1 == 0 && (my_flags.0 ^ other_flags.0) & my_flags.1 == 0;
        proto
            && flags
            && prefix(self.src, o.src)
            && prefix(self.dst, o.dst)
            && ports(self.sport, o.sport)
            && ports(self.dport, o.dport)
    }

    /// Is the rule about ports (or flags) of protocols that have none, so that no packet matches?
    pub(crate) fn has_packets(&self) -> bool {
        match self.proto {
            ProtoMatch::Any | ProtoMatch::Is(TCP | UDP) => true,
            ProtoMatch::Is(_) => self.sport == ANY_PORT && self.dport == ANY_PORT,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (proto, proto_mask) = match self.proto {
            ProtoMatch::Any => (0, 0),
            ProtoMatch::Is(p) => (p, 0xff),
        };
        write!(
            f,
            "@{}/{}\t{}/{}\t{} : {}\t{} : {}\t{proto:#04x}/0x{proto_mask:02X}\t{:#06x}/{:#06x}",
            Ipv4Addr::from(self.src.0),
            self.src.1,
            Ipv4Addr::from(self.dst.0),
            self.dst.1,
            self.sport.0,
            self.sport.1,
            self.dport.0,
            self.dport.1,
            self.flags.0,
            self.flags.1,
        )
    }
}

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct RuleError {
    /// From 1.
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
    /// What was expected.
    pub message: String,
}

/// Errors that are reported at once.
const MAX_ERRORS: usize = 20;

/// Reads a rule set: one rule a line; empty lines and lines that start with `#` are passed over; so is what follows the
/// flags column.
///
/// # Errors
/// Up to 20 lines that are no rules.
pub fn parse_rules(text: &str) -> Result<Vec<Rule>, Vec<RuleError>> {
    let mut rules = Vec::new();
    let mut errors = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if rules.len() == MAX_RULES {
            errors.push(RuleError {
                line: i + 1,
                column: 1,
                message: format!("more than {MAX_RULES} rules"),
            });
            break;
        }
        let mut cursor = Cursor { line, at: 0 };
        match cursor.rule() {
            Ok(rule) => rules.push(rule),
            Err(message) => errors.push(RuleError {
                line: i + 1,
                column: cursor.at + 1,
                message,
            }),
        }
        if errors.len() == MAX_ERRORS {
            break;
        }
    }
    if errors.is_empty() {
        Ok(rules)
    } else {
        Err(errors)
    }
}

/// A position in a line.
struct Cursor<'a> {
    line: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn rest(&self) -> &str {
        self.line.get(self.at..).unwrap_or("")
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn symbol(&mut self, c: char) -> Result<(), String> {
        self.space();
        if self.rest().starts_with(c) {
            self.at += c.len_utf8();
            Ok(())
        } else {
            Err(format!("expected `{c}`"))
        }
    }

    /// Letters, digits, dots: the text is consumed only if `read` takes it.
    fn word<T>(&mut self, what: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, String> {
        self.space();
        let rest = self.rest();
        let len = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '.')
            .unwrap_or(rest.len());
        let word = rest.get(..len).unwrap_or("");
        let value = read(word).ok_or_else(|| format!("expected {what}"))?;
        self.at += len;
        Ok(value)
    }

    fn prefix(&mut self) -> Result<(u32, u8), String> {
        let address: u32 = self.word("an IPv4 address", |w| {
            w.parse::<Ipv4Addr>().ok().map(u32::from)
        })?;
        self.symbol('/')?;
        let len = self.word("a prefix length of 0 to 32", |w| {
            w.parse::<u8>().ok().filter(|&l| l <= 32)
        })?;
        Ok((address & mask(len), len))
    }

    fn ports(&mut self) -> Result<(u16, u16), String> {
        let port = |w: &str| w.parse::<u16>().ok();
        let lo = self.word("a port of 0 to 65535", port)?;
        self.symbol(':')?;
        let hi = self.word("a port that is not below the first one", |w| {
            port(w).filter(|&hi| lo <= hi)
        })?;
        Ok((lo, hi))
    }

    fn rule(&mut self) -> Result<Rule, String> {
        fn hex(max: u32) -> impl Fn(&str) -> Option<u32> {
            move |w| {
                let digits = w.strip_prefix("0x").or_else(|| w.strip_prefix("0X"))?;
                u32::from_str_radix(digits, 16).ok().filter(|&v| v <= max)
            }
        }
        self.symbol('@')?;
        let src = self.prefix()?;
        let dst = self.prefix()?;
        let sport = self.ports()?;
        let dport = self.ports()?;
        let proto = self.word("a protocol such as 0x06", hex(0xff))?;
        self.symbol('/')?;
        let mask_at = self.at;
        let proto_mask = self.word("a protocol mask", hex(0xff))?;
        let proto = match proto_mask {
            0 => ProtoMatch::Any,
            0xff => ProtoMatch::Is(proto as u8),
            _ => {
                self.at = mask_at;
                return Err("expected the protocol mask 0x00 or 0xFF".into());
            }
        };
        self.space();
        // The first ClassBench sets have no flags.
        let flags = if self.rest().is_empty() {
            (0, 0)
        } else {
            let value = self.word("flags such as 0x0200", hex(0xffff))?;
            self.symbol('/')?;
            let mask = self.word("a mask such as 0x1200", hex(0xffff))?;
            (value as u16, mask as u16)
        };
        Ok(Rule {
            src,
            dst,
            sport,
            dport,
            proto,
            flags,
        })
    }
}

/// Writes a rule set.
///
/// # Errors
/// Writing fails.
pub fn write_rules(out: &mut impl Write, rules: &[Rule]) -> io::Result<()> {
    rules.iter().try_for_each(|r| writeln!(out, "{r}"))
}

/// The index of the first rule that matches, by linear search: the definition.
pub fn first_match(rules: &[Rule], h: &Header) -> Option<usize> {
    rules.iter().position(|r| r.matches(h))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        parse_rules(text).unwrap()[0]
    }

    #[test]
    fn text_round_trip() {
        let text = "@10.1.0.0/16\t192.0.2.1/32\t0 : 65535\t80 : 443\t0x06/0xFF\t0x1000/0x1000";
        let r = rule(text);
        assert_eq!(r.to_string(), text);
        assert_eq!(r.dport, (80, 443));
        // Host bits are dropped, spacing is free, flags may be absent, more columns are ignored.
        let loose = "  @10.1.2.3/16  192.0.2.1/32 0:65535 80 :443 0x06/0xff  ";
        assert_eq!(rule(loose).src, (0x0a01_0000, 16));
        assert_eq!(rule(loose).flags, (0, 0));
        assert_eq!(rule(&format!("{text}\tdeny")), r);
        assert_eq!(parse_rules("# nothing\n\n").unwrap(), []);
    }

    #[test]
    fn errors_have_places() {
        let text = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 9 : 1 0x06/0xFF\n\
                    10.0.0.0/8\n\
                    @10.0.0.0/8 0.0.0.0/33 0 : 1 0 : 1 0x06/0xFF\n\
                    @10.0.0.0/8 0.0.0.0/0 0 : 1 0 : 1 0x06/0x0F\n\
                    @1.1.1.1/32 0.0.0.0/0 0 : 1 0 : 1 0x06/0xFF 0x1/0x10000";
        let places: Vec<_> = parse_rules(text)
            .unwrap_err()
            .into_iter()
            .map(|e| (e.line, e.column))
            .collect();
        assert_eq!(places, [(1, 37), (2, 1), (3, 21), (4, 40), (5, 49)]);
        assert_eq!(
            parse_rules(&"x\n".repeat(100)).unwrap_err().len(),
            MAX_ERRORS
        );
        assert!(parse_rules("@é").is_err());
    }

    #[test]
    fn matching_by_field() {
        let r = rule("@10.0.0.0/8 0.0.0.0/0 1 : 65535 80 : 80 0x06/0xFF 0x0200/0x1200");
        let h = Header {
            src: 0x0a00_0001,
            dst: 7,
            ports: Some((1, 80)),
            proto: 6,
            flags: 0x0200,
        };
        assert!(r.matches(&h));
        for miss in [
            Header {
                src: 0x0b00_0001,
                ..h
            },
            Header {
                ports: Some((0, 80)),
                ..h
            },
            Header {
                ports: Some((1, 81)),
                ..h
            },
            Header { ports: None, ..h },
            Header { proto: 17, ..h },
            Header { flags: 0x1200, ..h },
            Header { flags: 0x0000, ..h },
        ] {
            assert!(!r.matches(&miss), "{miss:?}");
        }
        // Flags of "any protocol" are those of TCP; of UDP there are none.
        let syn = "@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00 0x0200/0x0200";
        assert!(rule(syn).matches(&h) && rule(syn).covers(&r));
        let udp = Header { proto: 17, ..h };
        let udp_rule = rule(&syn.replace("0x00/0x00", "0x11/0xFF"));
        assert!(!rule(syn).matches(&udp) && udp_rule.matches(&Header { flags: 0, ..udp }));
        assert!(!rule(syn).overlaps(&udp_rule));
        let any = rule("@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00");
        assert!(any.matches(&Header {
            ports: None,
            proto: 47,
            ..h
        }));
        assert!(any.covers(&r) && !r.covers(&any) && any.overlaps(&r));
        assert_eq!(first_match(&[r, any], &Header { proto: 17, ..h }), Some(1));
    }
}
