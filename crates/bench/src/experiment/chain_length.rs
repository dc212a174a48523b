//! One to ten routers, one to ten NAPTs in a row.

use super::{
    Axis, ChainSpec, Experiment, KTH, Level, Line, PEER, Plan, PlanError, PointSpec, Published,
    Quantity, Ratio, Scale, Traffic, Which, text,
};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "chain-length",
    title: "Routers and NAPTs in a row",
    shows: "What each further function of a chain costs: routers (ten routes, ten outputs, everything that RFC 1812 asks for) and NAPTs (UDP, one address each), \
            one to ten of them in a row. As written, the cost grows with the length; as one function it should not.",
    x: Axis {
        name: "functions in a row",
        log: false,
        labels: false,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

const LENGTHS: [f64; 6] = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let lengths = scale.places(&[1.0, 2.0], &LENGTHS, 16.0)?;
    type Row = (&'static str, usize, fn(usize) -> String);
    let rows: [Row; 3] = [
        ("routers", 4_000, text::routers),
        ("NAPTs, 1,000 flows", 1_000, text::napts),
        ("NAPTs, 64,000 flows", 64_000, text::napts),
    ];
    for (group, (series, flows, chain)) in rows.into_iter().enumerate() {
        let flows = if scale.quick { flows.min(500) } else { flows };
        for x in &lengths {
            plan.points.push(PointSpec {
                traffic: Traffic {
                    flows,
                    ..Traffic::default()
                },
                group,
                ..PointSpec::new(series, *x, ChainSpec::Click(chain(*x as usize)))
            });
        }
        let (Some(first), Some(last)) = (lengths.first(), lengths.last()) else {
            continue;
        };
        if first < last {
            for level in Level::ALL {
                plan.ratios.push(Ratio {
                    name: format!(
                        "{series}, {}: rate of {last} in rates of {first}",
                        level.name()
                    ),
                    of: Which::new(series, level, *last),
                    to: Which::new(series, level, *first),
                });
            }
        }
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    let line = |name, points: &[(f64, f64)]| Line {
        name,
        points: points.to_vec(),
    };
    vec![
        Published {
            source: "SNF (Katsikas et al., PeerJ CS 2016), figs 7.7 and 7.8 of Katsikas' thesis",
            setting: KTH,
            reported: "60-byte frames: FastClick is at the card's limit (31.5 Gb/s) for one and two routers, then falls faster than linearly to less than 10 Gb/s at ten; \
                       NAPTs fall faster. SNF stays at the limit for any length (NAPTs: flat with batches of 128; with 32 it dips after six). Ten functions, 60 to 1500 bytes: \
                       SNF has line rate above 128 bytes, FastClick from 800 to 1000 on.",
            erratum: None,
            lines: Vec::new(),
        },
        Published {
            source: "SCC (Katsikas et al., JSS 2017), figs 4.2 and 4.3 of the thesis",
            setting: "one to eight routers, 64 bytes, 0.82 Mpps; as processes behind a software switch, back to back, in one process; then on DPDK",
            reported: "Latency added per router: 1,769 us behind Open vSwitch, 1,335 back to back, 28 in one process with the kernel's driver (p99 about 1 ms at eight); on DPDK 8 us for \
                       one and 1.4 us for each further one at 0.57 Gb/s, about 500 us for eight at 2.5 Gb/s.",
            erratum: None,
            lines: Vec::new(),
        },
        Published {
            source: "FastClick, measured by us",
            setting: PEER,
            reported: "Nanoseconds above its own ceiling (replay and discard, 20.5 ns). IPRewriter falls off with 64,000 flows: expiry heap, clock calls, hash misses.",
            erratum: None,
            lines: vec![
                line(
                    "FastClick, routers",
                    &[
                        (1.0, 32.0),
                        (2.0, 70.0),
                        (4.0, 127.0),
                        (8.0, 249.0),
                        (10.0, 321.0),
                    ],
                ),
                line(
                    "FastClick, routers with IPOutputCombo",
                    &[
                        (1.0, 30.0),
                        (2.0, 58.0),
                        (4.0, 110.0),
                        (8.0, 236.0),
                        (10.0, 295.0),
                    ],
                ),
                line(
                    "FastClick, NAPTs, 1,000 flows",
                    &[(1.0, 66.0), (2.0, 139.0), (4.0, 280.0), (8.0, 553.0)],
                ),
                line(
                    "FastClick, NAPTs, 64,000 flows",
                    &[(1.0, 270.0), (2.0, 624.0), (4.0, 1870.0), (8.0, 2833.0)],
                ),
                line(
                    "FastClick, flow-based NAPTs, 64,000 flows",
                    &[(1.0, 67.0), (2.0, 78.0), (4.0, 106.0), (8.0, 181.0)],
                ),
            ],
        },
    ]
}
