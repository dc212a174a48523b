//! Generates rule sets.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::net::Ipv4Addr;

use serde::Serialize;

use super::MAX_RULES;
use super::classbench::{ANY_PORT, ProtoMatch, Rule, mask};
use super::params::{LengthWeight, PortMix, RuleParams, RuleParamsError};
use crate::rng::Rng;

/// What a rule decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The packet passes.
    Allow,
    /// The packet is dropped.
    Deny,
}

/// A generated rule set: rules and verdicts, first match first.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The rules.
    pub rules: Vec<Rule>,
    /// What each of them decides.
    pub verdicts: Vec<Verdict>,
}

/// Ports that exact matches prefer, the most popular ones first.
const WELL_KNOWN: [u16; 32] = [
    80, 443, 22, 25, 53, 21, 23, 110, 143, 123, 161, 389, 445, 3389, 8080, 993, 995, 1433, 3306,
    5432, 514, 69, 111, 135, 139, 179, 500, 1521, 1723, 5060, 6000, 8443,
];

/// Generates `count` rules: distinct, none covered by an earlier one.
///
/// # Errors
/// The parameters are out of range, there are more rules asked for than
/// [`MAX_RULES`], or the parameters do not hold that many
/// different rules.
pub fn generate_rules(
    params: &RuleParams,
    count: usize,
    seed: u64,
) -> Result<Generated, RuleParamsError> {
    params.check()?;
    if count == 0 || count > MAX_RULES {
        return Err(RuleParamsError(format!(
            "{count} rules, expected 1 to {MAX_RULES}"
        )));
    }
    let mut maker = Maker {
        params,
        rng: Rng::stream(seed, 0x72_756c_6573),
        src: Vec::new(),
        dst: Vec::new(),
    };
    let mut seen = HashSet::with_capacity(count);
    let mut rules: Vec<(f64, Rule)> = Vec::with_capacity(count);
    // Rounds of "draw what is missing, drop what is covered". Two or three do where the parameters hold enough
    // different rules; a round that hardly helps says that they do not.
    for _ in 0..30 {
        let before = rules.len();
        let missing = count - before;
        // Duplicates are common where prefixes are reused.
        let tries = missing * 8 + 200;
        let mut added = 0;
        for _ in 0..tries {
            if added == missing {
                break;
            }
            let rule = maker.rule();
            if seen.insert(rule) {
                let key = volume(&rule) + maker.rng.unit() * params.disorder;
                rules.push((key, rule));
                added += 1;
            }
        }
        rules.sort_by(|a, b| a.0.total_cmp(&b.0));
        drop_covered(&mut rules);
        if rules.len() == count || rules.len() < before + missing / 20 {
            break;
        }
    }
    if rules.len() < count {
        return Err(RuleParamsError(format!(
            "they hold only about {} different rules that are not covered by others, {count} are asked for",
            rules.len()
        )));
    }
    let mut rng = Rng::stream(seed, 0x76_6572_6469);
    let verdicts = rules
        .iter()
        .map(|_| {
            if rng.chance(params.deny) {
                Verdict::Deny
            } else {
                Verdict::Allow
            }
        })
        .collect();
    Ok(Generated {
        rules: rules.into_iter().map(|r| r.1).collect(),
        verdicts,
    })
}

/// Drops every rule that an earlier one covers. Who covers has a source that is a prefix of the covered one's, and the
/// same destination port or a range of them: only those are compared.
fn drop_covered(rules: &mut Vec<(f64, Rule)>) {
    let one_port = |r: &Rule| (r.dport.0 == r.dport.1).then_some(r.dport.0);
    let mut kept: HashMap<(u32, u8, Option<u16>), Vec<Rule>> = HashMap::with_capacity(rules.len());
    rules.retain(|(_, r)| {
        let port = one_port(r);
        let covered = (0..=r.src.1).any(|len| {
            let source = r.src.0 & mask(len);
            let among = |port| {
                kept.get(&(source, len, port))
                    .is_some_and(|some| some.iter().any(|k| k.covers(r)))
            };
            among(None) || (port.is_some() && among(port))
        });
        if !covered {
            kept.entry((r.src.0, r.src.1, port)).or_default().push(*r);
        }
        !covered
    });
}

/// The logarithm of the number of headers that a rule matches.
fn volume(r: &Rule) -> f64 {
    let ports = |(lo, hi): (u16, u16)| (f64::from(hi - lo) + 1.0).log2();
    let proto = if r.proto == ProtoMatch::Any { 8.0 } else { 0.0 };
    f64::from(64 - r.src.1 - r.dst.1) + ports(r.sport) + ports(r.dport) + proto
        - f64::from(r.flags.1.count_ones())
}

struct Maker<'a> {
    params: &'a RuleParams,
    rng: Rng,
    /// Prefixes so far, to reuse and to nest in.
    src: Vec<(u32, u8)>,
    dst: Vec<(u32, u8)>,
}

impl Maker<'_> {
    fn rule(&mut self) -> Rule {
        let p = self.params;
        let mut src = self.prefix(true);
        if let Some(inside) = p.inside {
            src = inside.fold(src);
        }
        let dst = self.prefix(false);
        let choice = self.rng.weighted(p.protocols.iter().map(|w| w.weight));
        // `check` made sure that there is a protocol with a weight.
        let Some(chosen) = p.protocols.get(choice) else {
            return Rule {
                src,
                dst,
                sport: ANY_PORT,
                dport: ANY_PORT,
                proto: ProtoMatch::Any,
                flags: (0, 0),
            };
        };
        let (sport, dport) = match chosen.protocol {
            Some(6 | 17) => (self.port(&chosen.sport), self.port(&chosen.dport)),
            _ => (ANY_PORT, ANY_PORT),
        };
        let flags = match chosen.protocol {
            Some(6) if self.rng.chance(p.flags) => {
                // Established; anything but a SYN; a new connection.
                let conditions = [(0x1000, 0x1000), (0x0000, 0x0200), (0x0200, 0x1200)];
                self.rng.pick(&conditions).copied().unwrap_or((0, 0))
            }
            Some(1) if self.rng.chance(p.flags) => {
                // Echo reply, unreachable, echo, time exceeded.
                let types = [0u16, 3, 8, 11];
                let t = self.rng.pick(&types).copied().unwrap_or(8);
                (t << 8, 0xff00)
            }
            _ => (0, 0),
        };
        Rule {
            src,
            dst,
            sport,
            dport,
            proto: chosen.protocol.map_or(ProtoMatch::Any, ProtoMatch::Is),
            flags,
        }
    }

    fn prefix(&mut self, source: bool) -> (u32, u8) {
        let p = self.params;
        let rng = &mut self.rng;
        let (lengths, earlier) = if source {
            (&p.src_lengths, &mut self.src)
        } else {
            (&p.dst_lengths, &mut self.dst)
        };
        if let Some(w) = p.wildcards
            && rng.chance(w)
        {
            return (0, 0);
        }
        let len = length(rng, lengths, p.wildcards.is_some());
        if len == 0 {
            return (0, 0);
        }
        let u = rng.unit();
        let prefix = if u < p.reuse && !earlier.is_empty() {
            // Not the length that was drawn: look a few times for an earlier prefix of it, so that reuse does not
            // change the distribution of lengths much.
            let mut found = None;
            for _ in 0..8 {
                found = rng.pick(earlier).copied().filter(|e| e.1 == len);
                if found.is_some() {
                    break;
                }
            }
            found.unwrap_or_else(|| fresh(rng, len))
        } else if u < p.reuse + p.nesting && !earlier.is_empty() {
            let base = rng.pick(earlier).copied().unwrap_or((0, 0));
            // Below the earlier prefix random bits follow; above it is cut.
            let bits = base.0 | (rng.bits() as u32 & !mask(base.1));
            (bits & mask(len), len)
        } else {
            fresh(rng, len)
        };
        earlier.push(prefix);
        prefix
    }

    fn port(&mut self, mix: &PortMix) -> (u16, u16) {
        let rng = &mut self.rng;
        match rng.weighted([mix.wc, mix.hi, mix.lo, mix.ar, mix.em].into_iter()) {
            0 => ANY_PORT,
            1 => (1024, u16::MAX),
            2 => (0, 1023),
            3 => {
                // Small ranges are the rule: the length is a power of two, from 2 to 4,096.
                let len = 1u64 << rng.between(1, 12);
                let lo = rng.between(1, 65_535 - len) as u16;
                (lo, lo + (len - 1) as u16)
            }
            _ => {
                let port = if rng.chance(0.8) {
                    // The lower of two draws favours the front of the list.
                    let n = WELL_KNOWN.len() as u64;
                    let i = rng.below(n).min(rng.below(n)) as usize;
                    WELL_KNOWN.get(i).copied().unwrap_or(80)
                } else {
                    rng.between(1, 65_535) as u16
                };
                (port, port)
            }
        }
    }
}

/// A length; never 0 where wildcards have a share of their own, unless all lengths are 0.
fn length(rng: &mut Rng, lengths: &[LengthWeight], no_wildcard: bool) -> u8 {
    let weights = lengths.iter().map(|l| {
        if no_wildcard && l.to == 0 {
            0.0
        } else {
            l.weight
        }
    });
    let i = rng.weighted(weights);
    lengths.get(i).map_or(32, |l| {
        let from = if no_wildcard {
            l.from.max(1).min(l.to)
        } else {
            l.from
        };
        rng.between(u64::from(from), u64::from(l.to)) as u8
    })
}

/// A prefix of unicast space: neither 0/8 nor 127/8 nor 224/3, as far as its length can tell.
fn fresh(rng: &mut Rng, len: u8) -> (u32, u8) {
    let mut first = rng.between(1, 222) as u32;
    if first >= 127 {
        first += 1;
    }
    let address = first << 24 | (rng.bits() as u32 & 0x00ff_ffff);
    (address & mask(len), len)
}

/// Writes rules and verdicts as the arguments of a Click `IPFilter`, one a line, without the last comma. Packets that
/// no rule matches are dropped, as there.
///
/// # Errors
/// Writing fails.
pub fn write_click_filter(out: &mut impl Write, set: &Generated) -> io::Result<()> {
    let n = set.rules.len();
    for (i, (r, v)) in set.rules.iter().zip(&set.verdicts).enumerate() {
        let mut terms: Vec<String> = Vec::new();
        for (side, (a, len)) in [("src", r.src), ("dst", r.dst)] {
            match len {
                0 => {}
                32 => terms.push(format!("{side} host {}", Ipv4Addr::from(a))),
                _ => terms.push(format!("{side} net {}/{len}", Ipv4Addr::from(a))),
            }
        }
        match r.proto {
            ProtoMatch::Any => {}
            ProtoMatch::Is(6) => terms.push("tcp".into()),
            ProtoMatch::Is(17) => terms.push("udp".into()),
            ProtoMatch::Is(1) => terms.push("icmp".into()),
            ProtoMatch::Is(p) => terms.push(format!("ip proto {p}")),
        }
        for (side, (lo, hi)) in [("src", r.sport), ("dst", r.dport)] {
            match (lo, hi) {
                ANY_PORT => {}
                _ if lo == hi => terms.push(format!("{side} port {lo}")),
                _ => {
                    if lo > 0 {
                        terms.push(format!("{side} port >= {lo}"));
                    }
                    if hi < u16::MAX {
                        terms.push(format!("{side} port <= {hi}"));
                    }
                }
            }
        }
        match (r.proto, r.flags) {
            (ProtoMatch::Is(6), (value, flag_mask)) => {
                for (bit, name) in [
                    (0x0100, "fin"),
                    (0x0200, "syn"),
                    (0x0400, "rst"),
                    (0x0800, "psh"),
                    (0x1000, "ack"),
                    (0x2000, "urg"),
                ] {
                    if flag_mask & bit != 0 {
                        let not = if value & bit == 0 { "not " } else { "" };
                        terms.push(format!("{not}tcp opt {name}"));
                    }
                }
            }
            (ProtoMatch::Is(1), (value, 0xff00)) => terms.push(format!("icmp type {}", value >> 8)),
            _ => {}
        }
        if terms.is_empty() {
            terms.push("all".into());
        }
        let verdict = match v {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        };
        let comma = if i + 1 < n { "," } else { "" };
        writeln!(out, "{verdict} {}{comma}", terms.join(" && "))?;
    }
    Ok(())
}
