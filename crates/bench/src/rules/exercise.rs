//! Headers that exercise every rule of a set.

use std::io::{self, Write};

use super::classbench::{ANY_PORT, Header, ProtoMatch, Rule, mask};
use crate::rng::Rng;

/// Headers, and what they exercise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exercise {
    /// Headers in random order, each with the index of the *first* rule that matches it.
    pub headers: Vec<(Header, usize)>,
    /// Rules for which no header was found: earlier rules cover them, or they ask for ports of a protocol that has
    /// none.
    pub unreached: Vec<usize>,
}

/// How often a header is drawn for a rule before the rule is given up.
const TRIES: usize = 200;

/// `count` headers, every rule being the first match of equally many (give or take one).
///
/// A quarter of the addresses and half of the ports are the first or the last value of their range: off-by-one
/// errors live there. With `packets`, headers are ones that packets have: ports for TCP and UDP only.
pub fn exercise(rules: &[Rule], count: usize, seed: u64, packets: bool) -> Exercise {
    let mut rng = Rng::stream(seed, 0x68_6561_6465);
    let mut result = Exercise::default();
    let n = rules.len();
    if n == 0 {
        return result;
    }
    result.headers.reserve(count);
    let (each, more) = (count / n, count % n);
    // Who gets one more is random too, lest the first rules be favoured.
    let mut extra = vec![0usize; n];
    if let Some(some) = extra.get_mut(..more) {
        some.fill(1);
    }
    rng.shuffle(&mut extra);
    for (i, (rule, extra)) in rules.iter().zip(extra).enumerate() {
        let wanted = each + extra;
        if packets && !rule.has_packets() {
            result.unreached.push(i);
            continue;
        }
        let rivals: Vec<&Rule> = rules.iter().take(i).filter(|r| r.overlaps(rule)).collect();
        let mut found = 0;
        // Even where no header is wanted, one is looked for: `unreached` is about the rule, not about the count.
        for _ in 0..wanted.max(1) {
            let header = (0..TRIES)
                .map(|_| draw(rule, &mut rng, packets))
                .find(|h| rule.matches(h) && !rivals.iter().any(|r| r.matches(h)));
            let Some(header) = header else { break };
            found += 1;
            if wanted > 0 {
                result.headers.push((header, i));
            }
        }
        if found == 0 {
            result.unreached.push(i);
        }
    }
    rng.shuffle(&mut result.headers);
    result
}

fn draw(rule: &Rule, rng: &mut Rng, packets: bool) -> Header {
    let address = |(base, len): (u32, u8), rng: &mut Rng| {
        let host = !mask(len);
        match rng.below(8) {
            0 => base,
            1 => base | host,
            _ => base | (rng.bits() as u32 & host),
        }
    };
    let port = |(lo, hi): (u16, u16), rng: &mut Rng| match rng.below(4) {
        0 => lo,
        1 => hi,
        _ => rng.between(u64::from(lo), u64::from(hi)) as u16,
    };
    let any_ports = rule.sport == ANY_PORT && rule.dport == ANY_PORT;
    let proto = match rule.proto {
        ProtoMatch::Is(p) => p,
        ProtoMatch::Any if rule.flags.1 != 0 => 6,
        ProtoMatch::Any if any_ports => rng.pick(&[6, 17, 6, 17, 1, 47]).copied().unwrap_or(6),
        ProtoMatch::Any => rng.pick(&[6, 17]).copied().unwrap_or(6),
    };
    let (value, flag_mask) = rule.flags;
    let flags = match proto {
        6 => {
            // What the rule leaves open is as in most packets of a connection, or a SYN, or anything.
            let free = match rng.below(4) {
                0 => 0x0200,
                1 => (rng.bits() as u16) & 0x3f00,
                _ => 0x1000,
            };
            (value & flag_mask) | (free & !flag_mask)
        }
        1 => (value & flag_mask) | (0x0800 & !flag_mask),
        _ => 0,
    };
    let src = address(rule.src, rng);
    let dst = address(rule.dst, rng);
    let ports = (port(rule.sport, rng), port(rule.dport, rng));
    Header {
        src,
        dst,
        ports: (!packets || matches!(proto, 6 | 17)).then_some(ports),
        proto,
        flags,
    }
}

/// Writes headers as text, one a line: source, destination, source port, destination port, protocol, flags, index of
/// the first rule that matches (from 0), all decimal and separated by tabs. Ports that a packet has not are 0.
///
/// # Errors
/// Writing fails.
pub fn write_headers(out: &mut impl Write, headers: &[(Header, usize)]) -> io::Result<()> {
    for (h, rule) in headers {
        let (s, d) = h.ports.unwrap_or((0, 0));
        writeln!(
            out,
            "{}\t{}\t{s}\t{d}\t{}\t{}\t{rule}",
            h.src, h.dst, h.proto, h.flags
        )?;
    }
    Ok(())
}
