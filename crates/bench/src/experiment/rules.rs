//! Ten rules to a hundred thousand.

use super::{
    Axis, ChainSpec, Experiment, Level, Line, PEER, Plan, PlanError, PointSpec, Published,
    Quantity, Scale, Traffic, UnseenSpec, text,
};
use crate::experiment::acl::NEW_PORT;
use crate::rules::{Generated, RuleKind, Verdict, parse_rules};
use std::io::Read;
use std::path::Path;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rules",
    title: "Rules of a firewall",
    shows: "A firewall alone, with 10 to 100,000 rules like an access list's and like a firewall's, on headers that never come again (every one is classified) and, through the flow table, on \
            established flows. The time that synthesis and the search structures took, and the memory that they need, is in 'build_seconds' and 'build_bytes'. \
            Of 10,000 rules and more, a published set of ClassBench's is there, too, where the folder with third-party data is.",
    x: Axis {
        name: "rules",
        log: true,
        labels: false,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

/// A published set of rules, which is no part of the project.
const PUBLISHED: &str = "fw2_10k";

/// The rules of it, all of them `allow`. The error says why they are not there.
fn published_set() -> Result<Generated, String> {
    let data = std::env::var_os("ONEFOLD_DATA").unwrap_or_else(|| "../shared/data".into());
    let file = Path::new(&data).join(format!("rules/classbench/{PUBLISHED}.gz"));
    let hint = "set ONEFOLD_DATA to the folder with third-party data";
    let told = |e: std::io::Error| format!("'{}': {e}; {hint}", file.display());
    let mut text = String::new();
    let packed = std::fs::File::open(&file).map_err(told)?;
    // Bound: a file of the size that is known
    let mut plain = flate2::read::MultiGzDecoder::new(packed).take(64 << 20);
    plain.read_to_string(&mut text).map_err(told)?;
    let rules = parse_rules(&text).map_err(|all| {
        let first = all.first().map_or(String::new(), ToString::to_string);
        format!("'{}': {first}", file.display())
    })?;
    Ok(Generated {
        verdicts: vec![Verdict::Allow; rules.len()],
        rules,
    })
}

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
            let never = UnseenSpec {
                share: 1.0,
                frames: Vec::new(),
                vary: NEW_PORT,
            };
            // as written, long lists cost microseconds, and the graph as much as the program to build
            let with_reference = match count > 20_000 {
                true => super::FAST.to_vec(),
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
    if !scale.quick && places.iter().any(|x| *x >= 10_000.0) {
        match published_set() {
            Ok(set) => {
                let never = UnseenSpec {
                    share: 1.0,
                    frames: Vec::new(),
                    vary: NEW_PORT,
                };
                plan.points.push(PointSpec {
                    traffic: Traffic {
                        flows: set.rules.len(),
                        tcp: 0.5,
                        strangers: Some(never),
                        ..Traffic::default()
                    },
                    levels: super::FAST.to_vec(),
                    group: 2 * places.len(),
                    ..PointSpec::new(
                        format!("{PUBLISHED} (ClassBench), never seen"),
                        set.rules.len() as f64,
                        ChainSpec::Click(text::firewall(&set)),
                    )
                });
            }
            Err(why) => plan.remarks.push(format!("{PUBLISHED} is left out: {why}")),
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
