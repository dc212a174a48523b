//! Packets handed over together: one to 256.

use super::{
    Axis, ChainSpec, Experiment, Plan, PlanError, PointSpec, Published, Quantity, Scale, Traffic,
    text,
};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "batch",
    title: "Packets handed over together",
    shows: "The cost of a packet by the size of batches, 1 to 256: a router and a NAPT (64,000 flows). Small batches pay for each call, large ones for what does not stay in the nearest cache.",
    x: Axis {
        name: "packets in a batch",
        log: true,
        labels: false,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let all: Vec<f64> = (0..=8).map(|i| f64::from(1u16 << i)).collect();
    let rows = [
        ("router", text::routers(1), 4000),
        ("NAPT", text::napts(1), 64_000),
    ];
    for (group, (series, chain, flows)) in rows.into_iter().enumerate() {
        for x in scale.places(&[1.0, 32.0], &all, 256.0)? {
            plan.points.push(PointSpec {
                traffic: Traffic {
                    flows: if scale.quick { 100 } else { flows },
                    ..Traffic::default()
                },
                batch: x as usize,
                group,
                ..PointSpec::new(series, x, ChainSpec::Click(chain.clone()))
            });
        }
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![
        Published {
            source: "SCC, fig. 8 and table 7 of the thesis (system calls for so many frames)",
            setting: "one router as a process, 0.82 Mpps, one core; calculated latency in us: 217 (1), 127 (2), 117 (4), 101 (8), 95 (16), 84 (32), 86 (64), 94 (128), 155 (256)",
            reported: "Medians 270 to 310 us for batches of 1, 80 to 115 for 2 to 32; 64 and 128 are still better than 1, 256 is worse than 1 in latency and spread. Conclusions drawn: 2 to 32 for latency, \
                       8 to 64 for memory traffic, 2 for jitter.",
            erratum: None,
            lines: Vec::new(),
        },
        Published {
            source: "SNF, fig. 7.7",
            setting: super::KTH,
            reported: "NAPTs in a row stay flat with batches of 128; with 32 they dip after six.",
            erratum: None,
            lines: Vec::new(),
        },
    ]
}
