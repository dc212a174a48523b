//! Ten rules to a hundred thousand.

use super::{
    Axis, ChainSpec, Experiment, Level, Line, PEER, Plan, PlanError, PointSpec, Published,
    Quantity, Scale, StrangerSpec, Traffic, text,
};
use crate::experiment::acl::NEW_PORT;
use crate::rules::RuleKind;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rules",
    title: "Rules of a firewall",
    shows: "A firewall alone, with 10 to 100,000 rules like an access list's and like a firewall's, on headers that never come again (every one is classified) and, through the flow table, on \
            established flows. The time that synthesis and the search structures took is in 'build_seconds'.",
    x: Axis {
        name: "rules",
        log: true,
        labels: false,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let all = [10.0, 100.0, 1000.0, 10_000.0, 100_000.0];
    let places = scale.places(&[10.0, 40.0], &all, 131_072.0)?;
    for (k, (kind, name)) in [(RuleKind::Acl, "acl-like"), (RuleKind::Fw, "fw-like")]
        .into_iter()
        .enumerate()
    {
        for (i, x) in places.iter().enumerate() {
            let count = *x as usize;
            let chain = text::firewall(&text::rules(kind, false, count, scale.seed)?);
            let flows = if scale.quick {
                100
            } else {
                count.clamp(4000, 20_000)
            };
            let never = StrangerSpec {
                share: 1.0,
                frames: Vec::new(),
                vary: NEW_PORT,
            };
            // as written, long lists cost microseconds, and the graph as much as the program to build
            let with_reference = match count > 20_000 {
                true => Level::FAST.to_vec(),
                false => Level::ALL.to_vec(),
            };
            for (what, strangers, levels) in [
                ("never seen", Some(never), with_reference),
                ("established", None, vec![Level::Flow]),
            ] {
                // the longest lists are built once
                if strangers.is_none() && count > 20_000 {
                    continue;
                }
                plan.points.push(PointSpec {
                    traffic: Traffic {
                        flows,
                        tcp: 0.5,
                        strangers,
                        ..Traffic::default()
                    },
                    levels,
                    group: k * places.len() + i,
                    ..PointSpec::new(
                        format!("{name}, {what}"),
                        *x,
                        ChainSpec::Click(chain.clone()),
                    )
                });
            }
        }
    }
    if places.iter().any(|x| *x > 20_000.0) {
        plan.remarks.push(
            "the reference graph and established flows are left out above 20,000 rules".into(),
        );
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![
        Published {
            source: "SNF, fig. 7.11",
            setting: super::KTH,
            reported: "Latency of classification with 8,550 rules is 10 to 20 times lower than FastClick's in the median; some classes have more than 2,000 filters.",
            erratum: Some(
                "3.55 Mpps are stated for 256-byte frames at 5 Gb/s; arithmetic gives 2.26.",
            ),
            lines: Vec::new(),
        },
        Published {
            source: "FastClick and DPDK, measured by us",
            setting: PEER,
            reported: "IPFilter, above its own ceiling; rte_acl (AVX-512) takes 31 to 38 ns for a look-up with 1,000 rules and 63 to 70 with 8,000.",
            erratum: None,
            lines: vec![
                Line {
                    name: "FastClick, IPFilter",
                    points: vec![
                        (10.0, 54.0),
                        (251.0, 378.0),
                        (713.0, 985.0),
                        (1000.0, 1742.0),
                        (8550.0, 22_910.0),
                    ],
                },
                Line {
                    name: "DPDK rte_acl, a look-up alone",
                    points: vec![(1000.0, 34.5), (8000.0, 66.5)],
                },
            ],
        },
        Published {
            source: "NuevoMatch (Rashelbach et al., SIGCOMM 2020)",
            setting: "500,000 rules, one core",
            reported: "1.6 to 2.6 times the rate of the best decision-tree and tuple-space classifiers.",
            erratum: None,
            lines: Vec::new(),
        },
    ]
}
