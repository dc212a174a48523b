//! The parameters of the rule generator.

use super::classbench::mask;
use serde::{Deserialize, Serialize};

/// A style of rule sets. The proportions are ours, of the order that published sets show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RuleKind {
    /// Access list of a router: specific addresses, mostly TCP, exact destination ports.
    Acl,
    /// Firewall: many wildcard addresses, TCP and UDP, port ranges on both sides.
    Fw,
    /// In between: medium prefixes, more UDP, many rules for any protocol.
    Ipc,
}

/// How likely prefix lengths of `from..=to` are, together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthWeight {
    /// Shortest length.
    pub from: u8,
    /// Longest length.
    pub to: u8,
    /// Weight of all of them.
    pub weight: f64,
}

/// How likely the five classes of port ranges are.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PortMix {
    /// Wildcard: 0 to 65535.
    pub wc: f64,
    /// Ephemeral: 1024 to 65535.
    pub hi: f64,
    /// Privileged: 0 to 1023.
    pub lo: f64,
    /// An arbitrary range.
    pub ar: f64,
    /// One port, exactly: a well-known one in four of five cases.
    pub em: f64,
}

/// How likely a protocol is, and its ports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProtocolWeight {
    /// The number; `null`: any protocol.
    pub protocol: Option<u8>,
    /// Weight.
    pub weight: f64,
    /// Source ports, of TCP and UDP; other protocols get wildcards.
    #[serde(default)]
    pub sport: PortMix,
    /// Destination ports, likewise.
    #[serde(default)]
    pub dport: PortMix,
}

/// All that decides about a generated rule set, together with the number of rules and the seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleParams {
    /// Prefix lengths of source addresses.
    pub src_lengths: Vec<LengthWeight>,
    /// Prefix lengths of destination addresses.
    pub dst_lengths: Vec<LengthWeight>,
    /// Share of addresses that are 0.0.0.0/0; `null`: as the lengths say.
    pub wildcards: Option<f64>,
    /// Share of prefixes that repeat an earlier one of the same column.
    pub reuse: f64,
    /// Share of prefixes that lie in an earlier one, or contain it: what makes rules overlap.
    pub nesting: f64,
    /// Protocols and their ports.
    pub protocols: Vec<ProtocolWeight>,
    /// Share of TCP rules with a condition on flags (established, not SYN, SYN without ACK) and of ICMP rules with one
    /// on the type.
    pub flags: f64,
    /// Share of rules that deny; the others allow.
    pub deny: f64,
    /// How far rules stray from "most specific first": zero is exactly so, 96 any order. The unit is one bit of header
    /// space. Rules that an earlier rule covers completely are never emitted.
    pub disorder: f64,
    /// Source addresses lie within this prefix, `204.152.0.0/16`: that of a network whose edge the rules guard. The
    /// prefix's bits replace a source's first ones, and shorter sources, wildcards among them, become the whole prefix.
    #[serde(default)]
    pub inside: Option<Inside>,
}

/// An IPv4 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Inside {
    /// Address, host bits zero.
    pub address: u32,
    /// Length, 0 to 32.
    pub len: u8,
}

impl Inside {
    /// A source prefix, moved inside.
    pub(crate) fn fold(self, (address, len): (u32, u8)) -> (u32, u8) {
        let keep = mask(self.len);
        let moved = (address & !keep) | self.address;
        let len = len.max(self.len);
        (moved & mask(len), len)
    }
}

impl std::str::FromStr for Inside {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (a, l) = s.split_once('/').unwrap_or((s, "32"));
        match (a.parse::<std::net::Ipv4Addr>(), l.parse::<u8>()) {
            (Ok(a), Ok(len)) if len <= 32 => Ok(Self {
                address: u32::from(a) & mask(len),
                len,
            }),
            _ => Err(format!(
                "expected an IPv4 prefix such as 204.152.0.0/16, found '{s}'"
            )),
        }
    }
}

impl TryFrom<String> for Inside {
    type Error = String;

    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

impl From<Inside> for String {
    fn from(i: Inside) -> String {
        format!("{}/{}", std::net::Ipv4Addr::from(i.address), i.len)
    }
}

/// Parameters from which no rules come.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rule parameters: {0}")]
pub struct RuleParamsError(pub(crate) String);

impl RuleParams {
    /// The preset of a style.
    pub fn preset(kind: RuleKind) -> Self {
        let lengths = |parts: &[(u8, u8, f64)]| {
            parts
                .iter()
                .map(|&(from, to, weight)| LengthWeight { from, to, weight })
                .collect::<Vec<_>>()
        };
        let mix = |[wc, hi, lo, ar, em]: [f64; 5]| PortMix { wc, hi, lo, ar, em };
        let proto = |protocol, weight, sport, dport| ProtocolWeight {
            protocol,
            weight,
            sport: mix(sport),
            dport: mix(dport),
        };
        const WC: [f64; 5] = [1.0, 0.0, 0.0, 0.0, 0.0];
        let common = |src, dst, protocols| Self {
            src_lengths: lengths(src),
            dst_lengths: lengths(dst),
            wildcards: None,
            reuse: 0.5,
            nesting: 0.3,
            protocols,
            flags: 0.2,
            deny: 0.33,
            disorder: 12.0,
            inside: None,
        };
        match kind {
            RuleKind::Acl => common(
                &[
                    (0, 0, 1.0),
                    (8, 20, 2.0),
                    (21, 24, 14.0),
                    (25, 29, 6.0),
                    (30, 31, 28.0),
                    (32, 32, 49.0),
                ],
                &[
                    (0, 0, 2.0),
                    (4, 16, 7.0),
                    (17, 24, 15.0),
                    (25, 29, 5.0),
                    (30, 31, 24.0),
                    (32, 32, 47.0),
                ],
                vec![
                    proto(Some(6), 86.0, WC, [18.0, 1.0, 1.0, 13.0, 67.0]),
                    proto(None, 8.0, WC, WC),
                    proto(Some(17), 4.0, WC, [5.0, 5.0, 0.0, 15.0, 75.0]),
                    proto(Some(1), 2.0, WC, WC),
                ],
            ),
            RuleKind::Fw => Self {
                reuse: 0.55,
                nesting: 0.25,
                flags: 0.5,
                ..common(
                    &[
                        (0, 0, 35.0),
                        (1, 2, 10.0),
                        (8, 19, 4.0),
                        (20, 24, 10.0),
                        (25, 29, 12.0),
                        (30, 31, 12.0),
                        (32, 32, 17.0),
                    ],
                    &[
                        (0, 0, 22.0),
                        (1, 2, 8.0),
                        (16, 24, 9.0),
                        (25, 29, 7.0),
                        (30, 31, 26.0),
                        (32, 32, 28.0),
                    ],
                    vec![
                        proto(
                            Some(6),
                            54.0,
                            [92.0, 6.0, 1.0, 0.0, 1.0],
                            [20.0, 6.0, 2.0, 4.0, 68.0],
                        ),
                        proto(
                            Some(17),
                            32.0,
                            [42.0, 15.0, 1.0, 2.0, 40.0],
                            [30.0, 14.0, 2.0, 2.0, 52.0],
                        ),
                        proto(Some(47), 5.0, WC, WC),
                        proto(Some(1), 5.0, WC, WC),
                        proto(None, 4.0, WC, WC),
                    ],
                )
            },
            RuleKind::Ipc => common(
                &[
                    (0, 0, 8.0),
                    (1, 2, 5.0),
                    (14, 18, 8.0),
                    (19, 22, 7.0),
                    (23, 25, 37.0),
                    (26, 29, 9.0),
                    (30, 31, 8.0),
                    (32, 32, 18.0),
                ],
                &[
                    (0, 0, 6.0),
                    (1, 2, 3.0),
                    (14, 18, 8.0),
                    (19, 22, 4.0),
                    (23, 25, 28.0),
                    (26, 29, 12.0),
                    (30, 31, 13.0),
                    (32, 32, 26.0),
                ],
                vec![
                    proto(
                        Some(17),
                        39.0,
                        [74.0, 1.0, 0.0, 1.0, 24.0],
                        [24.0, 16.0, 0.0, 2.0, 58.0],
                    ),
                    proto(None, 30.0, WC, WC),
                    proto(
                        Some(6),
                        28.0,
                        [66.0, 1.0, 0.0, 6.0, 27.0],
                        [41.0, 1.0, 0.0, 8.0, 50.0],
                    ),
                    proto(Some(1), 2.0, WC, WC),
                    proto(Some(50), 1.0, WC, WC),
                ],
            ),
        }
    }

    /// From JSON, every key given.
    ///
    /// # Errors
    /// The text is no such JSON, or a value is out of its range.
    pub fn from_json(text: &str) -> Result<Self, RuleParamsError> {
        let p: Self = serde_json::from_str(text).map_err(|e| RuleParamsError(e.to_string()))?;
        p.check()?;
        Ok(p)
    }

    /// Are all values in their ranges?
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check(&self) -> Result<(), RuleParamsError> {
        let bad = |what: String| Err(RuleParamsError(what));
        let weights = |name: &str, w: &[f64]| {
            if w.iter().all(|w| w.is_finite() && *w >= 0.0) && w.iter().sum::<f64>() > 0.0 {
                Ok(())
            } else {
                bad(format!(
                    "the weights of {name} must not be negative, and one must be positive"
                ))
            }
        };
        for (name, lengths) in [
            ("src_lengths", &self.src_lengths),
            ("dst_lengths", &self.dst_lengths),
        ] {
            weights(name, &lengths.iter().map(|l| l.weight).collect::<Vec<_>>())?;
            if let Some(l) = lengths.iter().find(|l| l.from > l.to || l.to > 32) {
                return bad(format!(
                    "{name} has lengths {} to {}, expected an ascending range within 0 to 32",
                    l.from, l.to
                ));
            }
        }
        weights(
            "protocols",
            &self.protocols.iter().map(|p| p.weight).collect::<Vec<_>>(),
        )?;
        for p in &self.protocols {
            // Protocols without ports need no mix.
            if matches!(p.protocol, Some(6 | 17)) {
                for m in [p.sport, p.dport] {
                    weights("port classes", &[m.wc, m.hi, m.lo, m.ar, m.em])?;
                }
            }
        }
        for (name, share) in [
            ("wildcards", self.wildcards.unwrap_or(0.0)),
            ("reuse", self.reuse),
            ("nesting", self.nesting),
            ("reuse + nesting", self.reuse + self.nesting),
            ("flags", self.flags),
            ("deny", self.deny),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return bad(format!("{name} is {share}, expected a share of 0 to 1"));
            }
        }
        if !(0.0..=96.0).contains(&self.disorder) {
            return bad(format!("disorder is {}, expected 0 to 96", self.disorder));
        }
        Ok(())
    }
}
