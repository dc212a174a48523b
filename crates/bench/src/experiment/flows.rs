//! A thousand flows to sixteen million.

use super::{
    Axis, ChainSpec, Experiment, Level, Line, PEER, Plan, PlanError, PointSpec, Published,
    Quantity, Scale, Traffic, text,
};

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "flows",
    title: "Flows, and the memory that each needs",
    shows: "One NAPT on more and more established flows, 1,000 to 1,000,000 (--at takes others, up to 16,777,216: reckon with 1 KiB of memory for each while packets are made), in random order: \
            what it costs when tables do not fit into caches, and how many bytes a flow needs.",
    x: Axis {
        name: "flows",
        log: true,
        labels: false,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let all = [1000.0, 4000.0, 16_000.0, 64_000.0, 256_000.0, 1_000_000.0];
    let flows = scale.places(&[100.0, 1000.0], &all, 16_777_216.0)?;
    // each alone, so that their tables are not in memory at once
    for (group, x) in flows.iter().enumerate() {
        plan.points.push(PointSpec {
            traffic: Traffic {
                flows: *x as usize,
                ..Traffic::default()
            },
            levels: match *x > 300_000.0 {
                true => super::FAST.to_vec(),
                false => Level::ALL.to_vec(),
            },
            group,
            ..PointSpec::new(
                "NAPT",
                *x,
                ChainSpec::Click(text::napts_beside(*x as usize)),
            )
        });
    }
    if flows.iter().any(|x| *x > 300_000.0) {
        let why = "the reference graph is left out above 300,000 flows";
        plan.remarks.push(why.into());
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![Published {
        source: "FastClick, measured by us",
        setting: PEER,
        reported: "Nanoseconds above its own ceiling: IPRewriter, and the flow-based FlowIPNAT.",
        erratum: None,
        lines: vec![
            Line {
                name: "FastClick, IPRewriter",
                points: vec![(1000.0, 66.0), (64_000.0, 270.0)],
            },
            Line {
                name: "FastClick, flow-based",
                points: vec![(1000.0, 38.0), (64_000.0, 67.0)],
            },
        ],
    }]
}
