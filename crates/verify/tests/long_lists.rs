//! Rules of a list that is long, and full of rules that overlap: every one is aimed at and hit, and what that costs has
//! a bound.

use crate::small;

use onefold_engine::program::ProgramRunner;
use onefold_packet::Timestamp;
use onefold_synth::program::Program;
use onefold_verify::generate::coverage::Counts;
use onefold_verify::generate::directed::{Account, Directed, Reason};
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::reach::proved::Proved;
use onefold_verify::reach::{Facts, Reach, Verdict};
use onefold_verify::{Options, Pair, Reference, Rng, Stop, Synthesized, run};
use small::{graph, ports};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A firewall's rules, as `gen --rules fw` makes them: wide networks on one side, ports, one in three denies.
fn firewall(rules: usize) -> String {
    let mut rng = Rng::new(5);
    let mut list = String::new();
    for i in 0..rules {
        let verdict = if rng.one_in(3) { "deny" } else { "allow" };
        let mut net = |wide: bool| {
            let len = if wide {
                4 + rng.below(8)
            } else {
                16 + rng.below(17)
            };
            let a = (rng.bits() as u32) & u32::MAX.checked_shl(32 - len as u32).unwrap_or(0);
            format!("{}/{len}", std::net::Ipv4Addr::from(a))
        };
        let (from, to) = (net(i % 2 == 0), net(i % 2 == 1));
        let port = match i % 3 {
            0 => String::new(),
            1 => format!(" && dst port {}", 1 + rng.below(1000)),
            _ => format!(" && src port >= {}", 1024 + rng.below(60_000)),
        };
        let proto = if rng.one_in(4) { "udp" } else { "tcp" };
        write!(
            list,
            "{verdict} src net {from} && dst net {to} && {proto}{port}, "
        )
        .unwrap();
    }
    format!(
        "FromDevice(lan) -> c :: Classifier(12/0800, -); c[1] -> Discard;
        c[0] -> Strip(14) -> CheckIPHeader -> IPFilter({list} deny all) -> Unstrip(14) -> ToDevice(wan);"
    )
}

fn program(text: &str) -> (onefold_engine::Graph, Arc<Program>) {
    let g = graph(text);
    let p = onefold_synth::synthesize(&g.synthesis_input(), Default::default());
    (g, Arc::new(p))
}

/// What a run aims at, and what it does not reach.
struct Ran {
    account: Account,
    coverage: Counts,
}

/// Packets for a configuration's rules and boundaries; `looks`: the bound on rules that are looked at for them.
fn aim(text: &str, packets: u64, looks: Option<u64>, stop: Stop) -> Ran {
    let (g, p) = program(text);
    let start = Timestamp::from_secs(1000);
    let ports = ports(&g);
    let traffic = Traffic::new(&ports, Hints::of(g.spec()), 1, packets, start, 1).unwrap();
    let reach = Reach::of_until(p.clone(), &Facts::of(g.spec(), &p), stop);
    let mut source =
        Directed::new(p.clone(), traffic, &ports, 1, packets, start).with_proved(Proved::of(reach));
    if let Some(n) = looks {
        source = source.with_looks(n);
    }
    let runner = ProgramRunner::with_program(g.fork(), &p).unwrap();
    let pair = Pair::new(
        Box::new(Reference(g.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let mut go_on = |_| !stop.asked();
    let o = run(&pair, &mut source, &Options::default(), &mut go_on);
    assert!(o.findings.is_empty(), "{:?}", o.findings);
    assert_eq!(o.interrupted, stop.asked());
    let coverage = source.coverage.clone();
    Ran {
        coverage: coverage.counts(),
        account: source.account(coverage),
    }
}

#[test]
fn every_rule_is_hit() {
    let Ran {
        account,
        coverage: c,
    } = aim(&firewall(600), 4_000, None, Stop::default());
    assert!(account.wrong.is_empty(), "{:?}", account.wrong);
    let missing = account.missing.iter().filter(|((side, _), _)| !side);
    let missing: usize = missing.map(|(_, l)| l.len()).sum();
    assert!(c.rules > 600, "{c:?}");
    assert!(missing * 100 <= c.rules as usize, "{missing} of {c:?}");
}

/// Searches for packets may cost so much in all. What is not searched for any more is told, not called unreachable;
/// packets that need no search are made as before.
#[test]
fn what_is_not_aimed_at_for_its_cost_is_told() {
    let of = |ran: &Ran, reason: Reason| -> usize {
        let all = (ran.account.missing.iter()).filter(|((_, r), _)| *r == reason);
        all.map(|(_, l)| l.len()).sum()
    };
    let text = firewall(50).replace(
        "IPFilter(",
        "IPFilter(deny src port <= 65000, deny dst port <= 65000, ",
    );
    let none = aim(&text, 3_000, Some(0), Stop::default());
    assert!(of(&none, Reason::Budget) > 0, "{:?}", none.account.missing);
    let enough = aim(&text, 3_000, None, Stop::default());
    assert_eq!(of(&enough, Reason::Budget), 0);
    assert!(none.account.wrong.is_empty() && enough.account.wrong.is_empty());
    let (some, all) = (none.coverage.rules_hit, enough.coverage.rules_hit);
    assert!(0 < some && some < all, "{some} of {all}");
    // the same again
    let again = aim(&text, 3_000, Some(0), Stop::default());
    assert_eq!(again.coverage.bounds_hit, none.coverage.bounds_hit);
}

/// Nothing is proved, searched or waited for any more; what was not tried is told as that.
#[test]
fn an_interrupt_ends_the_analysis_and_the_account() {
    static FLAG: AtomicBool = AtomicBool::new(true);
    let stop = Stop::when(&FLAG);
    let (g, p) = program(&firewall(50));
    let reach = Reach::of_until(p.clone(), &Facts::of(g.spec(), &p), stop);
    assert_eq!(reach.rule(0, 0), Verdict::Unknown);
    assert_eq!(reach.work(), 0);
    let ran = aim(&firewall(50), 3_000, None, stop);
    assert!(ran.account.never.is_empty() && ran.account.wrong.is_empty());
    let reasons: Vec<Reason> = ran.account.missing.keys().map(|(_, r)| *r).collect();
    assert!(reasons.contains(&Reason::Interrupted), "{reasons:?}");
    assert!(!reasons.contains(&Reason::Covered), "{reasons:?}");
}

/// Questions behind thousands of rules: the last ones are answered within a few looks at all of them.
#[test]
fn questions_cost_a_few_looks_at_the_rules() {
    let (g, p) = program(&firewall(1500));
    let reach = Reach::of(p.clone(), &Facts::of(g.spec(), &p));
    let stage = (0..p.stages.len()).max_by_key(|s| p.stages[*s].rules.len());
    let stage = stage.unwrap();
    let rules = p.stages[stage].rules.len();
    assert!(rules >= 1500, "{rules}");
    let before = reach.work();
    let asked = 300;
    let can = (rules - asked..rules)
        .filter(|r| reach.rule(stage, *r) == Verdict::Can)
        .count();
    let each = (reach.work() - before) / asked as u64;
    assert!(can * 10 >= asked * 9, "{can} of {asked}");
    assert!(
        each <= 3 * rules as u64,
        "{each} rules looked at for each of {rules}"
    );
}
