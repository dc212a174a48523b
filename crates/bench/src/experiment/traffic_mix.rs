//! The flow table against the program alone, on traffic that it is good for and on traffic that it is not.

use super::text::{self, Behind};
use super::{
    Axis, ChainSpec, Experiment, Level, Plan, PlanError, PointSpec, Published, Quantity, Ratio,
    Scale, Traffic, UnseenSpec, Which,
};
use crate::experiment::acl::{NAPT_FLOWS, NEW_PORT};
use crate::experiment::attack::hostile;
use crate::rules::RuleKind;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "traffic-mix",
    title: "Flow table against program, by traffic",
    shows: "Firewall (713 rules), router, NAPT on established flows in rounds and by Zipf's law, with 1% of packets that begin a flow, on nothing but random headers, and on nothing but a SYN flood: the flow table in \
            front of the program should never cost more than a tenth of the program's rate.",
    x: Axis {
        name: "traffic",
        log: false,
        labels: true,
    },
    y: Quantity::Ns,
    plan,
    published,
};

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let (rules, flows) = if scale.quick {
        (40, 100)
    } else {
        (713, 10_000)
    };
    let set = text::rules(RuleKind::Acl, true, rules, scale.seed)?;
    let chain = ChainSpec::Click(text::edge(&set, Behind::Napt(NAPT_FLOWS)));
    let new = UnseenSpec {
        share: 0.01,
        frames: Vec::new(),
        vary: NEW_PORT,
    };
    let mut floods = hostile(&set, 1.0, scale.seed).into_iter();
    let mut rows: Vec<(&str, f64, Option<UnseenSpec>)> = vec![
        ("in rounds", 0.0, None),
        ("Zipf 1.0", 1.0, None),
        ("1% new flows", 0.0, Some(new)),
    ];
    rows.extend(
        floods
            .by_ref()
            .take(2)
            .map(|(name, s)| (name, 0.0, Some(s))),
    );
    for (i, (label, zipf, strangers)) in rows.into_iter().enumerate() {
        let x = i as f64;
        plan.points.push(PointSpec {
            label: Some(label.into()),
            traffic: Traffic {
                flows,
                zipf,
                tcp: 0.5,
                strangers,
                ..Traffic::default()
            },
            levels: vec![Level::Program, Level::Flow, Level::Auto],
            ..PointSpec::new("", x, chain.clone())
        });
        for (of, to) in [
            (Level::Flow, Level::Program),
            (Level::Auto, Level::Flow),
            (Level::Auto, Level::Program),
        ] {
            plan.ratios.push(Ratio {
                name: format!("{label}: rate of {} in rates of {}", of.name(), to.name()),
                of: Which::new("", of, x),
                to: Which::new("", to, x),
            });
        }
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![Published {
        source: "None of the papers",
        setting: "caches of flows are measured on traffic that suits them",
        reported: "The aim here: at least 0.9 on every kind of traffic; where the executor chooses, 0.9 of the better.",
        erratum: None,
        lines: Vec::new(),
    }]
}
