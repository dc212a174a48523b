//! Half of the packets are hostile.

use super::text::{self, Behind};
use super::{
    Axis, ChainSpec, Experiment, Level, Plan, PlanError, PointSpec, Published, Quantity, Ratio,
    Scale, Traffic, UnseenSpec, Which,
};
use crate::experiment::acl::{NAPT_FLOWS, NEW_PORT};
use crate::measure::{Vary, frame_of};
use crate::rng::Rng;
use crate::rules::{Generated, ProtoMatch, RuleKind, mask};
use onefold_engine::flow::FLOOD_SHARE;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "attack",
    title: "Half of the packets are hostile",
    shows: "Firewall (713 rules), router, NAPT with room for 131,072 flows: established flows share a core with as many packets of other established flows (benign), or of an attacker: a SYN flood that the rules let pass, random \
            5-tuples, new flows that exhaust the NAPT's table, headers made of parts of different rules, so that a classifier finds out late that none matches, new flows to one destination when all ports towards it are \
            taken, and flows that are all alike to a hash without a key (they come again, as benign ones do: where the hash is keyed they cost what those cost). Half of the packets are the established flows' in all cases, so \
            the rate of all is their rate, too. One line gives packets of unknown flows at most 3% of the time (--protect 0.03), as live ports do while packets queue up: those beyond it are dropped at the door.",
    x: Axis {
        name: "the other half",
        log: false,
        labels: true,
    },
    y: Quantity::Ns,
    plan,
    published,
};

/// Templates of hostile packets.
const TEMPLATES: usize = 4096;
/// The line of `--protect` with [`FLOOD_SHARE`].
const PROTECTED: &str = "unknown flows: 3% of time";
const _: () = assert!(FLOOD_SHARE == 0.03, "the line says how much");
/// Attacks.
const ATTACKS: usize = 6;
/// Hosts that crowd one destination.
const HOSTS: u32 = 8;
/// What hashes without a key are to be like.
const SAME: u16 = 0x0f0f;
/// SYN.
const SYN: u8 = 0x02;

/// An address of a prefix.
fn within((address, len): (u32, u8), rng: &mut Rng) -> u32 {
    address | (rng.bits() as u32 & !mask(len))
}

fn port((lo, hi): (u16, u16), rng: &mut Rng) -> u16 {
    rng.between(u64::from(lo), u64::from(hi)) as u16
}

/// Frames with addresses and ports that rules of these protocols allow; `mixed`: each part from another rule.
fn frames(set: &Generated, tcp: bool, mixed: bool, rng: &mut Rng) -> Vec<Vec<u8>> {
    let number = if tcp { 6 } else { 17 };
    let fits = |p: &ProtoMatch| matches!(p, ProtoMatch::Any) || *p == ProtoMatch::Is(number);
    let rules: Vec<_> = set
        .rules
        .iter()
        .filter(|r| mixed || fits(&r.proto))
        .collect();
    let mut all = Vec::with_capacity(TEMPLATES);
    for _ in 0..TEMPLATES {
        let Some(a) = rng.pick(&rules).copied() else {
            break;
        };
        let (b, c) = match mixed {
            true => (rng.pick(&rules).copied(), rng.pick(&rules).copied()),
            false => (Some(a), Some(a)),
        };
        let (b, c) = (b.unwrap_or(a), c.unwrap_or(a));
        let (src, dst) = (within(a.src, rng), within(b.dst, rng));
        let (sport, dport) = (port(a.sport, rng), port(c.dport, rng));
        let flags = (tcp && (!mixed || rng.chance(0.5))).then_some(SYN);
        all.push(frame_of(src, dst, sport, dport, flags, 64));
    }
    all
}

/// A hash of the kind that flow tables without a key use: addresses rotated by ports, and the ports.
fn unkeyed(src: u32, dst: u32, sport: u16, dport: u16) -> u32 {
    let (s, d) = (
        src.swap_bytes().rotate_left(u32::from(sport % 16)),
        dst.swap_bytes().rotate_left(31 - u32::from(dport % 16)),
    );
    s ^ d ^ (u32::from(dport) << 16 | u32::from(sport))
}

/// The source port, from a range, by which a flow of these addresses and destination port is like all others that have
/// theirs from here, to a hash without a key: the lower 16 bits of [`unkeyed`]. `None`: there is none.
pub fn collide((src, dst, dport): (u32, u32, u16), range: (u16, u16)) -> Option<u16> {
    (0..16).find_map(|turns: u16| {
        // the port's last bits say how far the address is rotated
        let sport = unkeyed(src, dst, turns, dport) as u16 ^ turns ^ SAME;
        let good = sport % 16 == turns && (range.0..=range.1).contains(&sport);
        good.then_some(sport)
    })
}

/// Frames that rules allow, all different, all with the same lower 16 bits of [`unkeyed`].
fn colliding(set: &Generated, rng: &mut Rng) -> Vec<Vec<u8>> {
    let fits = |p: &ProtoMatch| matches!(p, ProtoMatch::Any) || *p == ProtoMatch::Is(17);
    let rules: Vec<_> = set.rules.iter().filter(|r| fits(&r.proto)).collect();
    let mut all = Vec::with_capacity(TEMPLATES);
    // Bound: one draw in two is of use where any source port is allowed.
    for _ in 0..64 * TEMPLATES {
        let Some(r) = rng.pick(&rules) else { break };
        let (src, dst, dport) = (within(r.src, rng), within(r.dst, rng), port(r.dport, rng));
        let alike = collide((src, dst, dport), r.sport);
        if let Some(sport) = alike {
            debug_assert_eq!(unkeyed(src, dst, sport, dport) as u16, SAME);
            all.push(frame_of(src, dst, sport, dport, None, 64));
        }
        if all.len() == TEMPLATES {
            break;
        }
    }
    all
}

/// Frames from several hosts to one port of another: there is only one port for each flow.
fn crowding(set: &Generated, rng: &mut Rng) -> Vec<Vec<u8>> {
    let fits = |p: &ProtoMatch| matches!(p, ProtoMatch::Any) || *p == ProtoMatch::Is(17);
    let any_port = |p: (u16, u16)| p.0 <= 1024 && p.1 == u16::MAX;
    let wide = |r: &&crate::rules::Rule| fits(&r.proto) && any_port(r.sport) && r.src.1 <= 28;
    let mut rules = set.rules.iter().filter(wide);
    let Some(r) = rules.next() else {
        return Vec::new();
    };
    let (dst, dport) = (within(r.dst, rng), port(r.dport, rng));
    (0..HOSTS)
        .map(|host| frame_of(r.src.0 | host, dst, 1024, dport, None, 64))
        .collect()
}

/// Packets of attackers by what they do: name, packets.
pub fn hostile(set: &Generated, share: f64, seed: u64) -> Vec<(&'static str, UnseenSpec)> {
    let mut rng = Rng::stream(seed, 0x6174_7461_636b);
    let spec = |frames, vary| UnseenSpec {
        share,
        frames,
        vary,
    };
    let all = Vary {
        src: !0,
        dst: !0,
        sport: !0,
        dport: !0,
    };
    let random = vec![
        frame_of(1, 2, 3, 4, Some(SYN), 64),
        frame_of(1, 2, 3, 4, None, 64),
    ];
    vec![
        (
            "SYN flood",
            spec(frames(set, true, false, &mut rng), NEW_PORT),
        ),
        ("random 5-tuples", spec(random, all)),
        (
            "NAPT exhaustion",
            spec(frames(set, false, false, &mut rng), NEW_PORT),
        ),
        (
            "mixed-up rules",
            spec(frames(set, true, true, &mut rng), NEW_PORT),
        ),
        ("no port left", spec(crowding(set, &mut rng), NEW_PORT)),
        (
            "hash collisions",
            spec(colliding(set, &mut rng), Vary::default()),
        ),
    ]
}

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let (rules, flows) = if scale.quick {
        (40, 100)
    } else {
        (713, 10_000)
    };
    let set = text::rules(RuleKind::Acl, true, rules, scale.seed)?;
    let chain = ChainSpec::Click(text::edge(&set, Behind::Napt(NAPT_FLOWS)));
    let mut add = |x: f64, label: &str, flows: usize, strangers: Option<UnseenSpec>| {
        plan.points.push(PointSpec {
            label: Some(label.into()),
            traffic: Traffic {
                flows,
                tcp: 0.5,
                strangers,
                ..Traffic::default()
            },
            levels: Level::ALL.to_vec(),
            ..PointSpec::new("", x, chain.clone())
        });
        if let Some(p) = plan.points.last().cloned() {
            plan.points.push(PointSpec {
                series: PROTECTED.into(),
                levels: vec![Level::Flow],
                protect: Some(FLOOD_SHARE),
                ..p
            });
        }
    };
    // as many packets of the established flows as below, and as many of others
    add(0.0, "benign", 2 * flows, None);
    let all: Vec<f64> = (0..=ATTACKS).map(|x| x as f64).collect();
    let places = scale.places(&all, &all, ATTACKS as f64)?;
    for (i, (label, strangers)) in hostile(&set, 0.5, scale.seed).into_iter().enumerate() {
        let x = (i + 1) as f64;
        if !places.contains(&x) {
            continue;
        }
        add(x, label, flows, Some(strangers));
        plan.ratios.push(Ratio {
            name: format!(
                "{label}, {PROTECTED}: rate of established flows in rates of benign, flow"
            ),
            of: Which::new(PROTECTED, Level::Flow, x),
            to: Which::new("", Level::Flow, 0.0),
        });
        for level in Level::ALL {
            plan.ratios.push(Ratio {
                name: format!(
                    "{label}, {}: rate of established flows in rates of benign",
                    level.name()
                ),
                of: Which::new("", level, x),
                to: Which::new("", level, 0.0),
            });
        }
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![Published {
        source: "None of the papers",
        setting: "SCC, SNF, Metron, NFVnice and UNiS measure benign traffic only",
        reported: "The aim here: established flows keep at least 80% of the rate that they have beside benign traffic of the same size.",
        erratum: None,
        lines: Vec::new(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attackers_have_packets() {
        let set = text::rules(RuleKind::Acl, true, 713, 1).unwrap();
        let all = hostile(&set, 0.5, 1);
        assert_eq!(all.len(), ATTACKS);
        let of = |name| &all.iter().find(|a| a.0 == name).unwrap().1.frames;
        assert_eq!(of("no port left").len(), HOSTS as usize);
        let alike = of("hash collisions");
        assert!(alike.len() > TEMPLATES / 2, "{}", alike.len());
        let different: std::collections::BTreeSet<_> = alike.iter().collect();
        assert!(different.len() > alike.len() / 2, "{}", different.len());
    }
}
