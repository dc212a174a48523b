//! A firewall with an access list, a router, a NAPT: on flows that are known, and on headers never seen before.

use super::text::{self, Behind};
use super::{
    Axis, ChainSpec, Experiment, KTH, Level, Line, PEER, Plan, PlanError, PointSpec, Published,
    Quantity, Ratio, Scale, Traffic, UnseenSpec, Which,
};
use crate::measure::Vary;
use crate::rules::RuleKind;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "acl",
    title: "Firewall, router, NAPT",
    shows: "What an access list costs in a chain: 251, 713 and 8,550 generated rules (all allow, then deny; sources in 204.152.0.0/16), a router, and a NAPT towards the Internet. \
            'Established': flows that were opened, which exercise every rule. 'Never seen': headers that never come again; with the NAPT each of them makes a flow, without it none. \
            The NAPT has room for 131,072 flows and is full: each new flow takes another one out. 'Room for them': all flows are forgotten, off the clock, whenever 102,400 packets have come, and none is taken out.",
    x: Axis {
        name: "rules",
        log: true,
        labels: false,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

/// Flows that the NAPT has room for.
pub const NAPT_FLOWS: u32 = 131_072;
/// Packets after which they are forgotten where flows are to find room: whole batches, and no more than there is room
/// for.
const ROOM: u64 = 102_400;
/// A source port that has never been there.
pub const NEW_PORT: Vary = Vary {
    src: 0,
    dst: 0,
    sport: 0xffff,
    dport: 0,
};

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let places = scale.places(&[20.0, 50.0], &[251.0, 713.0, 8550.0], 100_000.0)?;
    for (group, x) in places.iter().enumerate() {
        let count = *x as usize;
        let set = text::rules(RuleKind::Acl, true, count, scale.seed)?;
        let with = text::edge(&set, Behind::Napt(NAPT_FLOWS));
        let without = text::edge(&set, Behind::Nothing);
        let flows = if scale.quick {
            200
        } else {
            (2 * count).max(10_000)
        };
        let never = UnseenSpec {
            share: 1.0,
            frames: Vec::new(),
            vary: NEW_PORT,
        };
        let rows = [
            ("established", &with, None, None),
            (
                "never seen, no flow made",
                &without,
                Some(never.clone()),
                None,
            ),
            ("never seen, flows made", &with, Some(never.clone()), None),
            (
                "never seen, flows made, room for them",
                &with,
                Some(never),
                Some(ROOM),
            ),
        ];
        for (series, chain, strangers, room) in rows {
            plan.points.push(PointSpec {
                traffic: Traffic {
                    flows,
                    tcp: 0.5,
                    strangers,
                    ..Traffic::default()
                },
                group,
                room,
                ..PointSpec::new(series, *x, ChainSpec::Click(chain.clone()))
            });
        }
        plan.ratios.push(Ratio {
            name: format!("{x} rules, established: rate of flow in rates of reference"),
            of: Which::new("established", Level::Flow, *x),
            to: Which::new("established", Level::Reference, *x),
        });
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![
        Published {
            source: "SNF, fig. 7.12 and section 7.4 of the thesis",
            setting: KTH,
            reported: "Batches of 128, 40 Gb/s: with 251 rules SNF and FastClick are equal; FastClick loses 1.5 times with 713 and ten times with 8,550, where SNF has up to 8.5 times its \
                       throughput and a median latency 1.1 to 12 times lower (less than 300 us), its variance 1.8 to 3.5 times lower. 713 rules compress better than 251.",
            erratum: None,
            lines: Vec::new(),
        },
        Published {
            source: "SNF, table 7.1 (cycles of merged elements)",
            setting: "200 kpps, 1500 bytes; chain of NAPT, firewall, balancer",
            reported: "18 operations, 2,014 cycles as written; 5 operations, 695 cycles merged (2.9 times fewer).",
            erratum: None,
            lines: Vec::new(),
        },
        Published {
            source: "SNF, fig. 7.11 (latency of classification and modification)",
            setting: "batches of 32, 5 Gb/s, 100,000 frames each",
            reported: "8,550 rules: 10 to 20 times lower than FastClick at the 1st, 25th and 50th percentile, 2 to 3 times at the 99th; modification 0.1 to 2 us, about 10 us at the 99th, whatever the rules.",
            erratum: Some(
                "3.55 Mpps are stated for 256-byte frames at 5 Gb/s; arithmetic gives 2.26.",
            ),
            lines: Vec::new(),
        },
        Published {
            source: "FastClick, measured by us",
            setting: PEER,
            reported: "Nanoseconds above its own ceiling, on rules of the same kind; IPFilter is a serial tree of comparisons whose cost grows with the rules.",
            erratum: None,
            lines: vec![
                Line {
                    name: "FastClick, firewall, router, NAPT",
                    points: vec![
                        (251.0, 518.0),
                        (713.0, 1147.0),
                        (1000.0, 1880.0),
                        (8550.0, 22_330.0),
                    ],
                },
                Line {
                    name: "FastClick, firewall alone",
                    points: vec![
                        (251.0, 378.0),
                        (713.0, 985.0),
                        (1000.0, 1742.0),
                        (8550.0, 22_910.0),
                    ],
                },
            ],
        },
    ]
}
