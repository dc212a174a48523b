//! Router with 3,117 host routes, NAPT, load balancer.

use super::{
    Axis, ChainSpec, Experiment, Line, PEER, Plan, PlanError, PointSpec, Published, Quantity,
    Scale, Traffic, text,
};
use crate::rng::Rng;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "router-napt-lb",
    title: "Router, NAPT, load balancer",
    shows: "A chain with two functions that keep state behind a router with 3,117 host routes (random addresses; the paper's were the distinct destinations of a campus trace), \
            by the number of flows; with 64-byte frames and with the campus' sizes.",
    x: Axis {
        name: "flows",
        log: true,
        labels: false,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

/// Host routes.
const ROUTES: usize = 3117;

/// Different addresses of unicast, no special ones among them.
pub fn hosts(n: usize, seed: u64) -> Vec<u32> {
    let mut rng = Rng::stream(seed, 0x0068_6f73_7473);
    let mut all = std::collections::BTreeSet::new();
    while all.len() < n {
        // 11.0.0.0 to 100.255.255.255
        all.insert(rng.between(0x0b00_0001, 0x64ff_fffe) as u32);
    }
    let mut all: Vec<u32> = all.into_iter().collect();
    rng.shuffle(&mut all);
    all
}

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let flows = scale.places(&[100.0, 300.0], &[1000.0, 4000.0, 64_000.0], 4e6)?;
    let routes = if scale.quick { 50 } else { ROUTES };
    let chain = text::router_napt_lb(&hosts(routes, scale.seed));
    for (series, size) in [("64 bytes", "64"), ("campus sizes", "campus")] {
        for (group, x) in flows.iter().enumerate() {
            plan.points.push(PointSpec {
                traffic: Traffic {
                    flows: *x as usize,
                    size: size.into(),
                    ..Traffic::default()
                },
                group,
                ..PointSpec::new(series, *x, ChainSpec::Click(chain.clone()))
            });
        }
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![
        Published {
            source: "Metron (Katsikas et al., NSDI 2018), figs 8.5 and 8.6 of the thesis",
            setting: "100 Gb/s, campus trace, up to 16 cores, switch and card take classification from the server",
            reported: "OpenBox with RSS gains 5.37 Gb/s for each core up to 12 cores and stays at 67; the emulated E2 gains 4.91, reaches 53 and falls to 41; forwarding alone is at 76 with 4 cores; \
                       Metron at 75 with 2.",
            erratum: None,
            lines: Vec::new(),
        },
        Published {
            source: "FastClick, measured by us",
            setting: PEER,
            reported: "Nanoseconds above its own ceiling, with a router of ten routes.",
            erratum: None,
            lines: vec![
                Line {
                    name: "FastClick",
                    points: vec![(1000.0, 180.0), (4000.0, 182.0), (64_000.0, 833.0)],
                },
                Line {
                    name: "FastClick, flow-based",
                    points: vec![(64_000.0, 121.0)],
                },
            ],
        },
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn hosts_are_different_and_stay_the_same() {
        let a = super::hosts(3117, 1);
        let b: std::collections::HashSet<_> = a.iter().collect();
        assert_eq!((a.len(), b.len()), (3117, 3117));
        assert_eq!(a, super::hosts(3117, 1));
        assert_ne!(a, super::hosts(3117, 2));
    }
}
