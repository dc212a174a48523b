//! The benchmark of Niu and others: forwarding, a firewall, and chains of these, by the size of frames, by the share of
//! a core, and several of them at once.

use super::{
    Axis, ChainSpec, Experiment, Level, Plan, PlanError, PointSpec, Published, Quantity, Scale,
    Traffic,
};

/// By the size of frames.
pub const SIZES: Experiment = Experiment {
    name: "nf-benchmark",
    title: "Forwarding, firewall, and chains of them, by frame size",
    shows: "The benchmark of Niu et al.: L2 forwarding, L3 forwarding with ten routes, a firewall with ten rules, and chains of two and three of them, with six sizes of frames and the sizes of a \
            data centre. The cost of longer frames is that of copying them: it is in the ceiling, too.",
    x: Axis {
        name: "frame size",
        log: false,
        labels: true,
    },
    y: Quantity::Ns,
    plan: sizes,
    published,
};

/// By the share of a core.
pub const SHARES: Experiment = Experiment {
    name: "nf-cpu-share",
    title: "Forwarding and a firewall, by the share of a core",
    shows: "The rate of L3 forwarding and of a firewall when the thread may have 25 to 100% of a core's time (a quota of a control group, in periods of 10 ms, in place of the paper's frequencies). Needs root and the \
            cpu controller of control groups, version 1.",
    x: Axis {
        name: "share of a core in %",
        log: false,
        labels: false,
    },
    y: Quantity::WallMpps,
    plan: shares,
    published,
};

/// Several at once.
pub const COLOCATED: Experiment = Experiment {
    name: "nf-colocated",
    title: "Instances side by side",
    shows: "One to three processes that forward or filter at the same time, each with packets of its own, spread over the cores: the rate of all together. Where there are fewer cores than \
            instances, two share a core.",
    x: Axis {
        name: "instances",
        log: false,
        labels: false,
    },
    y: Quantity::WallMpps,
    plan: colocated,
    published,
};

/// Chains of the examples.
const CHAINS: [(&str, &str); 5] = [
    ("L2FWD", "l2fwd"),
    ("L3FWD", "l3fwd"),
    ("firewall", "fw10"),
    ("firewall, L3FWD", "fw-l3fwd"),
    ("firewall, L3FWD, L2FWD", "fw-l3fwd-l2fwd"),
];

fn point(series: &str, x: f64, chain: &'static str, scale: &Scale) -> PointSpec {
    PointSpec {
        traffic: Traffic {
            flows: if scale.quick { 64 } else { 4000 },
            tcp: 0.5,
            ..Traffic::default()
        },
        ..PointSpec::new(series, x, ChainSpec::Example(chain, Vec::new()))
    }
}

fn sizes(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let all = [64.0, 128.0, 256.0, 512.0, 1024.0, 1500.0];
    let places = scale.places(&[64.0, 1500.0], &all, 1514.0)?;
    for (group, (series, chain)) in CHAINS.into_iter().enumerate() {
        for (i, x) in places.iter().enumerate() {
            let mut p = point(series, i as f64, chain, scale);
            p.traffic.size = format!("{x}");
            p.label = Some(format!("{x}"));
            p.group = group;
            plan.points.push(p);
        }
        let mut p = point(series, places.len() as f64, chain, scale);
        p.traffic.size = "datacenter".into();
        p.label = Some("data centre".into());
        p.group = group;
        plan.points.push(p);
    }
    Ok(plan)
}

fn shares(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let places = scale.places(&[50.0, 100.0], &[25.0, 50.0, 75.0, 100.0], 100.0)?;
    for (group, x) in places.iter().enumerate() {
        for (series, chain) in [("L3FWD", "l3fwd"), ("firewall", "fw10")] {
            let mut p = point(series, *x, chain, scale);
            p.cpu = x / 100.0;
            p.group = group;
            plan.points.push(p);
        }
    }
    Ok(plan)
}

fn colocated(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let places = scale.places(&[1.0, 2.0], &[1.0, 2.0, 3.0], 16.0)?;
    let mut group = 0;
    for (series, chain) in [("L3FWD", "l3fwd"), ("firewall", "fw10")] {
        for x in &places {
            // an execution at a time, so that all processes do the same
            for level in Level::ALL {
                let mut p = point(series, x.round(), chain, scale);
                p.instances = x.round() as usize;
                p.levels = vec![level];
                p.group = group;
                group += 1;
                plan.points.push(p);
            }
        }
    }
    plan.points
        .dedup_by(|a, b| a.series == b.series && a.x == b.x && a.levels == b.levels);
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![Published {
        source: "Niu et al., Benchmarking NFV software dataplanes (2016)",
        setting: "one virtual machine per function, one virtual CPU, two virtual network cards; SoftNIC and ClickOS; 64 bytes",
        reported: "L3FWD / firewall in Mpps, SoftNIC: 4.31 / 4.45 at 1.2 GHz, 5.73 / 5.92 at 1.6, 7.19 / 7.38 at 2.0, 8.60 / 8.87 at 2.4, 9.34 / 9.59 at 2.6; ClickOS: 2.10 / 1.98, 2.82 / 2.75, 3.44 / 3.27, 4.26 / 4.24, \
                   5.34 / 5.03. Line rate of 10 Gb/s from 128 bytes on (SoftNIC, 2.4 GHz), 256 (ClickOS). Chains over two sockets nearly halve the rate at 64 bytes, over two servers nothing is lost. One to three instances, each with its \
                   generator: linear. Data-centre mix, median 120 bytes: 8.662 Mpps.",
        erratum: None,
        lines: Vec::new(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_share_and_number_is_a_point() {
        let full = Scale {
            seed: 1,
            ..Scale::default()
        };
        let p = shares(&full).unwrap().points;
        let cpu: Vec<f64> = p
            .iter()
            .filter(|p| p.series == "L3FWD")
            .map(|p| p.cpu)
            .collect();
        assert_eq!(cpu, [0.25, 0.5, 0.75, 1.0]);
        let p = colocated(&full).unwrap().points;
        assert_eq!(p.len(), 2 * 3 * 3);
        assert!(p.iter().all(|p| p.instances as f64 == p.x));
        assert_eq!(sizes(&full).unwrap().points.len(), 5 * 7);
    }
}
