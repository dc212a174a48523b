//! Packets of attackers, made from packets that a chain lets pass: half of a load, beside established flows.
//!
//! Every header is another one, where the attack is one of new flows: so many of them are made that none comes twice
//! within a measurement. What rules let pass is taken from frames that pass; nothing is known of the rules themselves.

use crate::experiment::collide;
use crate::measure::{Vary, frame_of};
use crate::rng::Rng;

/// What attackers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Hostile {
    /// New TCP connections that pass, none of which goes on.
    SynFlood,
    /// Addresses and ports at random.
    RandomTuples,
    /// New UDP flows that pass: rewriters make a binding for each.
    Exhaustion,
    /// Headers made of parts of different flows: a classifier finds out late that none matches.
    MixedRules,
    /// New flows of a few hosts to one port of another, until there is no port left for them.
    NoPortLeft,
    /// Flows that are all alike to a hash without a key.
    HashCollisions,
}

/// Bytes of a hostile frame, without check sequence.
const LEN: usize = 60;
/// SYN.
const SYN: u8 = 0x02;
/// Hosts that crowd one destination: the last three bits of an address.
const HOSTS: u64 = 8;

/// Addresses, ports and protocol of a flow over IPv4.
#[derive(Debug, Clone, Copy)]
struct Tuple {
    src: u32,
    dst: u32,
    sport: u16,
    dport: u16,
    tcp: bool,
}

impl Tuple {
    /// Of an untagged frame with TCP or UDP over IPv4 without options.
    fn of(f: &[u8]) -> Option<Tuple> {
        let word = |at: usize| {
            let b = f.get(at..at + 4)?.first_chunk()?;
            Some(u32::from_be_bytes(*b))
        };
        let plain = f.get(12..15)? == [0x08, 0x00, 0x45];
        let protocol = *f.get(23)?;
        let ports = word(34)?;
        (plain && matches!(protocol, 6 | 17)).then_some(Tuple {
            src: word(26)?,
            dst: word(30)?,
            sport: (ports >> 16) as u16,
            dport: ports as u16,
            tcp: protocol == 6,
        })
    }

    fn frame(&self) -> Vec<u8> {
        let flags = self.tcp.then_some(SYN);
        frame_of(self.src, self.dst, self.sport, self.dport, flags, LEN)
    }
}

/// Of several flows' headers one.
fn mixed(all: &[Tuple], rng: &mut Rng) -> Option<Tuple> {
    let (a, b, c) = (rng.pick(all)?, rng.pick(all)?, rng.pick(all)?);
    Some(Tuple {
        src: a.src,
        dst: b.dst,
        sport: c.sport,
        dport: c.dport,
        tcp: rng.chance(0.5),
    })
}

impl Hostile {
    /// The name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Hostile::SynFlood => "SYN flood",
            Hostile::RandomTuples => "random 5-tuples",
            Hostile::Exhaustion => "exhaustion",
            Hostile::MixedRules => "mixed-up rules",
            Hostile::NoPortLeft => "no port left",
            Hostile::HashCollisions => "hash collisions",
        }
    }

    /// As it is written.
    pub fn option(self) -> &'static str {
        match self {
            Hostile::SynFlood => "syn-flood",
            Hostile::RandomTuples => "random-tuples",
            Hostile::Exhaustion => "exhaustion",
            Hostile::MixedRules => "mixed-rules",
            Hostile::NoPortLeft => "no-port-left",
            Hostile::HashCollisions => "hash-collisions",
        }
    }

    /// `count` frames (of collisions: as many as there are), from frames that pass. Empty: none of these can be used,
    /// as where a flood of TCP connections is wanted and no TCP passes.
    pub fn frames(self, passing: &[&[u8]], count: usize, seed: u64) -> Vec<Vec<u8>> {
        let mut rng = Rng::stream(seed, 0x0068_6f73_7469_6c65);
        let all: Vec<Tuple> = passing.iter().filter_map(|f| Tuple::of(f)).collect();
        let wanted = |t: &Tuple| match self {
            Hostile::SynFlood => t.tcp,
            Hostile::Exhaustion | Hostile::NoPortLeft | Hostile::HashCollisions => !t.tcp,
            Hostile::RandomTuples | Hostile::MixedRules => true,
        };
        let of: Vec<Tuple> = all.iter().copied().filter(wanted).collect();
        match self {
            Hostile::SynFlood | Hostile::Exhaustion => other_ports(&of, count),
            Hostile::RandomTuples => random(&of, count),
            Hostile::MixedRules => (0..count)
                .map_while(|_| mixed(&of, &mut rng))
                .map(|t| t.frame())
                .collect(),
            Hostile::NoPortLeft => crowd(&of, count, &mut rng),
            Hostile::HashCollisions => alike(&of).take(count).map(|t| t.frame()).collect(),
        }
    }
}

/// The flows' headers with other source ports, round by round.
fn other_ports(of: &[Tuple], count: usize) -> Vec<Vec<u8>> {
    let vary = Vary {
        sport: !0,
        ..Vary::default()
    };
    varied(of, count, vary)
}

/// All of a header is random.
fn random(of: &[Tuple], count: usize) -> Vec<Vec<u8>> {
    let vary = Vary {
        src: !0,
        dst: !0,
        sport: !0,
        dport: !0,
    };
    varied(of, count, vary)
}

fn varied(of: &[Tuple], count: usize, vary: Vary) -> Vec<Vec<u8>> {
    let one = |n: usize| {
        let mut f = of.get(n % of.len().max(1))?.frame();
        vary.apply(&mut f, n as u64, (n / of.len()) as u64);
        Some(f)
    };
    (0..count).map_while(one).collect()
}

/// Some hosts beside the one of a flow, from all their ports.
fn crowd(of: &[Tuple], count: usize, rng: &mut Rng) -> Vec<Vec<u8>> {
    let Some(t) = rng.pick(of).copied() else {
        return Vec::new();
    };
    let one = |n: u64| Tuple {
        src: t.src ^ (n % HOSTS) as u32,
        sport: (n / HOSTS) as u16,
        ..t
    };
    (0..count as u64).map(|n| one(n).frame()).collect()
}

/// Flows with a source port by which they are alike, of those for which there is one.
fn alike(of: &[Tuple]) -> impl Iterator<Item = Tuple> + '_ {
    of.iter().filter_map(|t| {
        let sport = collide((t.src, t.dst, t.dport), (0, u16::MAX))?;
        Some(Tuple { sport, ..*t })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::HashSet;

    fn passing() -> Vec<Vec<u8>> {
        (0..64u32)
            .map(|n| {
                let tcp = (n % 2 == 0).then_some(0x10);
                frame_of(0x0a00_0100 + n, 0xc612_0001, 1000 + n as u16, 80, tcp, 60)
            })
            .collect()
    }

    #[test]
    fn attackers_have_as_many_packets_as_they_are_asked_for() {
        let all = passing();
        let all: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        for kind in Hostile::value_variants() {
            let frames = kind.frames(&all, 5000, 1);
            let different: HashSet<_> = frames.iter().collect();
            match kind {
                Hostile::HashCollisions => assert!(frames.len() > 5, "{}", frames.len()),
                _ => assert_eq!(frames.len(), 5000, "{kind:?}"),
            }
            // few flows make few different mixtures
            let least = if *kind == Hostile::MixedRules {
                3500
            } else {
                4990
            };
            let least = least.min(frames.len());
            assert!(different.len() >= least, "{kind:?}: {}", different.len());
            for f in &frames {
                let sums = onefold_verify::frame::sums_right(f);
                assert_eq!(sums, (Some(true), Some(true)), "{kind:?}");
            }
            let tcp = |f: &Vec<u8>| f.get(23) == Some(&6);
            match kind {
                Hostile::SynFlood => assert!(frames.iter().all(tcp)),
                Hostile::Exhaustion | Hostile::NoPortLeft => assert!(!frames.iter().any(tcp)),
                _ => {}
            }
            let name = kind.to_possible_value().expect("a name");
            assert_eq!(name.get_name(), kind.option());
        }
    }

    #[test]
    fn without_packets_that_pass_there_are_none() {
        for kind in Hostile::value_variants() {
            assert!(kind.frames(&[&[0; 60], &[]], 10, 1).is_empty(), "{kind:?}");
        }
    }
}
