//! Rules of a list that is long, and full of rules that overlap: every one is aimed at and hit, and what that costs has a bound.

mod small;

use onefold_engine::program::ProgramRunner;
use onefold_packet::Timestamp;
use onefold_synth::program::Program;
use onefold_verify::generate::directed::Directed;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::reach::{Facts, Reach, Verdict};
use onefold_verify::{Options, Pair, Reference, Rng, Synthesized, run};
use small::{graph, ports};
use std::fmt::Write;
use std::sync::Arc;

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

#[test]
fn every_rule_is_hit() {
    let (g, p) = program(&firewall(600));
    let (packets, start) = (4_000, Timestamp::from_secs(1000));
    let ports = ports(&g);
    let traffic = Traffic::new(&ports, Hints::of(g.spec()), 1, packets, start, 1).unwrap();
    let reach = Reach::of(p.clone(), &Facts::of(g.spec(), &p));
    let mut source = Directed::new(p.clone(), traffic, &ports, 1, packets, start).with_reach(reach);
    let runner = ProgramRunner::with_program(g.fork(), &p).unwrap();
    let pair = Pair::new(
        Box::new(Reference(g.fork())),
        Box::new(Synthesized(runner)),
        1,
    );
    let o = run(&pair, &mut source, &Options::default(), &mut |_| true);
    assert!(o.findings.is_empty(), "{:?}", o.findings);
    let coverage = source.coverage.clone();
    let c = coverage.counts();
    let account = source.account(coverage);
    assert!(account.wrong.is_empty(), "{:?}", account.wrong);
    let missing = account.missing.iter().filter(|((side, _), _)| !side);
    let missing: usize = missing.map(|(_, l)| l.len()).sum();
    assert!(c.rules > 600, "{c:?}");
    assert!(missing * 100 <= c.rules as usize, "{missing} of {c:?}");
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
