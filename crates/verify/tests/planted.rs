//! Differences planted in programs are found, and shrunk to a packet or two.

use crate::small;

use onefold_element::model::{HeaderCheck, ValueSet};
use onefold_engine::Graph;
use onefold_engine::program::ProgramRunner;
use onefold_packet::Timestamp;
use onefold_synth::program::{Dim, End, Expr, Program, SumTerm};
use onefold_verify::generate::coverage::Counts;
use onefold_verify::generate::directed::Directed;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::{Options, Outcome, Pair, Reference, Synthesized, run};
use small::{FIREWALL, NAT, graph, ports};
use std::sync::Arc;

fn synthesize(g: &Graph) -> Program {
    onefold_synth::synthesize(&g.synthesis_input(), onefold_synth::Budget::default())
}

fn verify(g: &Graph, program: &Program, packets: u64) -> (Outcome, Counts) {
    let ports = ports(g);
    let start = Timestamp::from_secs(1000);
    let traffic = Traffic::new(&ports, Hints::of(g.spec()), 1, packets, start, 1).unwrap();
    let shared = Arc::new(program.clone());
    let mut source = Directed::new(shared, traffic, &ports, 1, packets, start);
    let runner = ProgramRunner::with_program(g.fork(), program).unwrap();
    let pair = Pair::new(
        Box::new(Reference(g.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let o = run(&pair, &mut source, &Options::default(), &mut |_| true);
    (o, source.coverage.counts())
}

/// The program, changed by `change`, which says whether it did, is found out.
fn found_out(text: &str, name: &str, change: impl FnOnce(&mut Program) -> bool) {
    let g = graph(text);
    let mut program = synthesize(&g);
    assert!(change(&mut program), "{name}: nothing to change");
    let (o, _) = verify(&g, &program, 8000);
    let f = o
        .findings
        .first()
        .unwrap_or_else(|| panic!("{name}: not found"));
    let small = f
        .small
        .as_ref()
        .unwrap_or_else(|| panic!("{name}: not shrunk"));
    assert!(
        small.events.len() <= 2,
        "{name}: {} packets: {:?}, {:?}",
        small.events.len(),
        small.difference,
        small.events.last()
    );
    assert!(!f.traces[0].is_empty() && !f.traces[1].is_empty(), "{name}");
}

fn is_output(e: &End) -> bool {
    matches!(e, End::Output { .. })
}

#[test]
fn programs_as_made_show_no_difference_and_their_rules_are_hit() {
    for text in [FIREWALL, NAT] {
        let g = graph(text);
        let (o, c) = verify(&g, &synthesize(&g), 8000);
        assert!(o.findings.is_empty(), "{:?}", o.findings);
        assert_eq!(o.packets, 8000);
        let punted = o.report.unwrap().punted();
        assert!(punted * 5 < o.packets, "{punted} punted");
        assert!(c.rules_hit * 10 >= c.rules * 7, "{c:?}");
    }
}

#[test]
fn a_changed_constant() {
    found_out(FIREWALL, "constant", |p| {
        let sets = p
            .stages
            .iter_mut()
            .flat_map(|s| &mut s.rules)
            .flat_map(|r| &mut r.filter.0);
        let mut changed = false;
        for (_, set) in sets {
            if set.single() == Some(53) {
                *set = ValueSet::one(54);
                changed = true;
            }
        }
        changed
    });
}

#[test]
fn a_boundary_off_by_one() {
    found_out(FIREWALL, "boundary", |p| {
        let sets = p
            .stages
            .iter_mut()
            .flat_map(|s| &mut s.rules)
            .flat_map(|r| &mut r.filter.0);
        let mut changed = false;
        for (d, set) in sets {
            if matches!(d, Dim::Bits { bits: 32, .. })
                && let [(0x0a00_0000, hi)] = *set.intervals()
            {
                *set = ValueSet::range(0x0a00_0000, hi - 1);
                changed = true;
            }
        }
        changed
    });
}

#[test]
fn a_swapped_action() {
    found_out(FIREWALL, "action", |p| {
        for s in &mut p.stages {
            let ends: Vec<bool> = (s.rules.iter())
                .map(|r| is_output(&s.actions[r.action.0 as usize].end))
                .collect();
            let drops = (s.rules.iter()).position(|r| {
                matches!(&s.actions[r.action.0 as usize].end, End::Drop { reason, .. } if reason.contains("IPFilter"))
            });
            if let (Some(a), Some(b)) = (ends.iter().position(|e| *e), drops) {
                let (x, y) = (s.rules[a].action, s.rules[b].action);
                s.rules[a].action = y;
                s.rules[b].action = x;
                return true;
            }
        }
        false
    });
}

#[test]
fn a_lost_rule() {
    found_out(FIREWALL, "rule", |p| {
        for s in &mut p.stages {
            let outputs = s
                .rules
                .iter()
                .position(|r| is_output(&s.actions[r.action.0 as usize].end));
            if let Some(i) = outputs {
                s.rules.remove(i);
                return true;
            }
        }
        false
    });
}

#[test]
fn a_wrong_checksum_term() {
    found_out(FIREWALL, "checksum", |p| {
        for a in p.stages.iter_mut().flat_map(|s| &mut s.actions) {
            if let End::Output { image, .. } = &mut a.end {
                let mut m = (**image).clone();
                for t in m.sums.iter_mut().flat_map(|s| &mut s.groups).flatten() {
                    if let SumTerm::Change {
                        to: Expr::Of(_, plus),
                        ..
                    } = t
                    {
                        *plus = plus.wrapping_add(1);
                        *image = Arc::new(m);
                        return true;
                    }
                }
            }
        }
        false
    });
}

#[test]
fn a_missing_guard() {
    found_out(FIREWALL, "guard", |p| {
        let mut changed = false;
        for r in p.stages.iter_mut().flat_map(|s| &mut s.rules) {
            let n = r.filter.0.len();
            // a rule that a wrong header checksum makes fit
            r.filter.0.retain(|(d, set)| {
                let check = matches!(
                    d,
                    Dim::Check {
                        check: HeaderCheck::Ip4Checksum,
                        ..
                    }
                );
                !(check && set.contains(1))
            });
            changed |= r.filter.0.len() < n;
        }
        let drops = |p: &mut Program| {
            // and the rule that would take it before is gone
            for s in &mut p.stages {
                s.rules.retain(|r| {
                    !r.filter.0.iter().any(|(d, set)| {
                        matches!(
                            d,
                            Dim::Check {
                                check: HeaderCheck::Ip4Checksum,
                                ..
                            }
                        ) && set.contains(0)
                    })
                });
            }
        };
        drops(p);
        changed || !p.stages.is_empty()
    });
}

#[test]
fn a_wrong_write_behind_a_binding() {
    found_out(NAT, "write", |p| {
        for a in p.stages.iter_mut().flat_map(|s| &mut s.actions) {
            if let End::Output { image, .. } = &mut a.end
                && !a.steps.is_empty()
            {
                let mut m = (**image).clone();
                if let Some(w) = m.writes.first_mut() {
                    w.value = Expr::Const(5);
                    *image = Arc::new(m);
                    return true;
                }
            }
        }
        false
    });
}

#[test]
fn a_rule_for_replies_that_is_lost() {
    // the filter behind the rewriter looks at the port that the binding gives back
    found_out(NAT, "reply", |p| {
        let slot_rule = |s: &onefold_synth::program::Stage| {
            s.rules.iter().position(|r| {
                (r.filter.0.iter())
                    .any(|(d, set)| matches!(d, Dim::Slot(_)) && set.single() == Some(7))
            })
        };
        let mut changed = false;
        for s in &mut p.stages {
            if let Some(i) = slot_rule(s) {
                s.rules.remove(i);
                changed = true;
            }
        }
        changed
    });
}

/// Shrinking ends when its time is up, or when somebody wants it to; what it had until then is there.
#[test]
fn shrinking_is_bounded() {
    use onefold_verify::At;
    use onefold_verify::shrink::Cut;
    use std::time::Duration;

    let g = graph(FIREWALL);
    let mut program = synthesize(&g);
    for s in program.stages.iter_mut().flat_map(|s| &mut s.rules) {
        for (_, set) in &mut s.filter.0 {
            if set.single() == Some(53) {
                *set = ValueSet::one(54);
            }
        }
    }
    let found = |time: Duration, patience: usize| {
        let ports = ports(&g);
        let start = Timestamp::from_secs(1000);
        let mut source = Traffic::new(&ports, Hints::of(g.spec()), 1, 8000, start, 1).unwrap();
        let runner = ProgramRunner::with_program(g.fork(), &program).unwrap();
        let pair = Pair::new(
            Box::new(Reference(g.fork())),
            Box::new(Synthesized(runner)),
            1,
        );
        let options = Options {
            shrink_time: time,
            ..Options::default()
        };
        let mut asked = 0;
        let mut o = run(&pair, &mut source, &options, &mut |at| {
            asked += usize::from(matches!(at, At::Shrinking(_)));
            asked <= patience
        });
        (o.findings.remove(0), o.interrupted)
    };
    let hour = Duration::from_secs(3600);
    let (f, interrupted) = found(hour, usize::MAX);
    assert!(f.small.is_some() && f.cut.is_none() && !interrupted);
    let smallest = f.small.unwrap().events[0].bytes.len();
    let (f, _) = found(Duration::ZERO, usize::MAX);
    assert!(f.small.is_none(), "{:?}", f.small);
    assert_eq!(f.cut, Some(Cut::Time));
    let (f, interrupted) = found(hour, 0);
    assert!(f.small.is_none() && interrupted);
    assert_eq!(f.cut, Some(Cut::Interrupted));
    // the last packet alone shows it; then no more
    let (f, interrupted) = found(hour, 1);
    assert_eq!((f.cut, interrupted), (Some(Cut::Interrupted), true));
    let small = f.small.unwrap();
    assert_eq!(small.events.len(), 1);
    assert!(small.events[0].bytes.len() >= smallest);
}
