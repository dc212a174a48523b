//! Long lists of rules with denials among them, proved rule by rule: whatever is the same is proved, and nothing else.

use crate::small;

use onefold_element::model::ValueSet;
use onefold_engine::Graph;
use onefold_packet::Timestamp;
use onefold_synth::program::{Dim, Program, Rule};
use onefold_synth::{Budget, synthesize};
use onefold_verify::prove::{Options, Proof, prove, witness};
use small::graph;

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    /// Prefixes that lie in each other, or anywhere.
    fn prefix(&mut self) -> String {
        let (a, b, c) = (self.below(8), self.below(16), self.below(250));
        match self.below(5) {
            0 => "0.0.0.0/0".to_string(),
            1 => format!("{}.0.0.0/{}", 16 * (1 + a), 4 + self.below(5)),
            2 => format!("{}.{}.0.0/16", 16 * (1 + a), 16 * b),
            3 => format!("{}.{}.{c}.0/24", 16 * (1 + a), 16 * b),
            _ => format!("{}.{}.{c}.{}/32", 16 * (1 + a), 16 * b, self.below(250)),
        }
    }
    fn rule(&mut self) -> String {
        let verdict = ["allow", "deny"][self.below(2) as usize];
        let (src, dst) = (self.prefix(), self.prefix());
        let port = self.below(60_000);
        let more = match self.below(6) {
            0 => String::new(),
            1 => " && icmp".to_string(),
            2 => format!(" && tcp && dst port {}", self.below(1024)),
            3 => {
                let to = port + self.below(5000);
                format!(" && udp && src port >= {port} && src port <= {to}")
            }
            4 => {
                let to = port + self.below(5000);
                format!(" && tcp && dst port >= {port} && dst port <= {to}")
            }
            _ => " && tcp opt ack".to_string(),
        };
        format!("{verdict} src net {src} && dst net {dst}{more}")
    }
}

/// A firewall with so many rules, and something behind it that treats packets that pass differently.
fn firewall(rules: usize, seed: u64) -> Graph {
    let mut rng = Rng(seed);
    let list: Vec<String> = (0..rules).map(|_| rng.rule()).collect();
    graph(&format!(
        "FromDevice(lan) -> Strip(14) -> CheckIPHeader -> IPFilter({}, deny all)
           -> c :: IPClassifier(dst net 32.0.0.0/5, -);
         c[0] -> DecIPTTL -> Unstrip(14) -> ToDevice(wan);
         c[1] -> Unstrip(14) -> ToDevice(lan);",
        list.join(", ")
    ))
}

fn options(long: usize) -> Options {
    Options {
        time_limit: None,
        long,
        ..Options::default()
    }
}

fn judged(g: &Graph, p: &Program, o: &Options) -> Proof {
    prove(&g.synthesis_input(), p, o)
}

/// The stage with most rules.
fn list(p: &mut Program) -> &mut Vec<Rule> {
    let stages = p.stages.iter_mut().map(|s| &mut s.rules);
    stages.max_by_key(|r| r.len()).expect("a stage")
}

/// A list that is proved with fewer nodes than a diagram of it has.
#[test]
fn a_long_list_takes_no_function_of_all_its_bits() {
    let g = firewall(600, 1);
    let p = synthesize(&g.synthesis_input(), Budget::default());
    let few = |long| Options {
        nodes: 60_000,
        ..options(long)
    };
    let proof = judged(&g, &p, &few(128));
    assert!(proof.holds(), "{proof:#?}");
    let s = proof.share;
    assert_eq!((s.unknown, s.different), (0.0, 0.0));
    assert!(
        s.proved > 0.5 && s.punted > 0.0 && s.within <= 1e-3,
        "{s:?}"
    );
    let plain = judged(&g, &p, &few(usize::MAX));
    assert!(plain.stopped().is_some(), "{plain:?}");
}

/// Both ways to a proof count the same.
#[test]
fn shares_are_those_of_the_diagrams() {
    let g = firewall(40, 2);
    let p = synthesize(&g.synthesis_input(), Budget::default());
    let (a, b) = (
        judged(&g, &p, &options(8)),
        judged(&g, &p, &options(usize::MAX)),
    );
    assert!(a.holds() && b.holds(), "{a:#?} {b:#?}");
    assert_eq!(a.share.within, 0.0);
    assert!(
        (a.share.punted - b.share.punted).abs() < 1e-12,
        "{:?} {:?}",
        a.share,
        b.share
    );
    assert!((a.share.proved - b.share.proved).abs() < 1e-12);
    assert!(b.entries[0].nodes > a.entries[0].nodes / 4);
}

/// Is the broken program refuted with a frame, as it is where both lists are functions?
fn refuted(g: &Graph, p: &Program, what: &str) -> bool {
    let (a, b) = (
        judged(g, p, &options(8)),
        judged(g, p, &options(usize::MAX)),
    );
    assert_eq!(a.holds(), b.holds(), "{what}: {a:#?} {b:#?}");
    if a.holds() {
        return false;
    }
    let at = Timestamp::from_secs(1000);
    let shows = a.different.iter().any(|d| {
        let mut frames = d.frames.iter();
        frames.any(|f| witness::confirm(g, p, d.source, f, at).unwrap().is_some())
    });
    assert!(shows, "{what}: {:#?}", a.different);
    true
}

/// Breaks every `step`-th rule of the program in several ways; by way, how often what should come of it came: rules
/// exchanged that meet and have different actions, rules exchanged that do not meet (which must be proved), lost
/// rules, other actions, a bound of a port range that is one off.
fn damaged(g: &Graph, step: usize) -> [usize; 5] {
    let whole = synthesize(&g.synthesis_input(), Budget::default());
    assert!(!refuted(g, &whole, "as it was made"));
    let n = list(&mut whole.clone()).len();
    let mut found = [0; 5];
    for i in (0..n - 1).step_by(step) {
        let (mut met, mut apart) = (None, None);
        let rules = list(&mut whole.clone()).clone();
        for j in i + 1..n {
            let (a, b) = (&rules[i], &rules[j]);
            match a.filter.is_disjoint(&b.filter) {
                true => apart = apart.or(Some(j)),
                false if a.action != b.action => met = met.or(Some(j)),
                false => {}
            }
        }
        let mut kinds: Vec<(usize, Program)> = Vec::new();
        let mut with = |kind, change: &dyn Fn(&mut Vec<Rule>)| {
            let mut p = whole.clone();
            change(list(&mut p));
            kinds.push((kind, p));
        };
        if let Some(j) = met {
            with(0, &|l| l.swap(i, j));
        }
        if apart == Some(i + 1) {
            with(1, &|l| l.swap(i, i + 1));
        }
        with(2, &|l| drop(l.remove(i)));
        let other = rules.iter().find(|r| r.action != rules[i].action);
        let other = other.expect("another action").action;
        with(3, &|l| l[i].action = other);
        let port = |d: &Dim| matches!(d, Dim::Bits { bits: 16, bit } if *bit >= 34 * 8);
        if let Some(k) = rules[i].filter.0.iter().position(|(d, _)| port(d)) {
            let moved = |set: &ValueSet| {
                let mut v = set.intervals().to_vec();
                let last = v.last_mut().expect("an interval");
                last.1 = if last.1 < 0xffff {
                    last.1 + 1
                } else {
                    last.1 - 1
                };
                ValueSet::from_intervals(v)
            };
            with(4, &|l| {
                let set = &mut l[i].filter.0[k].1;
                *set = moved(set);
            });
        }
        for (kind, p) in kinds {
            let is = refuted(g, &p, &format!("{i} {kind}"));
            assert!(kind != 1 || !is, "{i}: rules that do not meet");
            assert!(
                kind != 3
                    || is
                    || rules[..i]
                        .iter()
                        .any(|r| !r.filter.is_disjoint(&rules[i].filter))
            );
            found[kind] += usize::from(is == (kind != 1));
        }
    }
    found
}

/// Errors are refuted with a frame that both sides take differently; an exchange of rules that do not meet is proved.
#[test]
fn damaged_lists_are_refuted() {
    let found = damaged(&firewall(30, 3), 7);
    assert!(found.iter().all(|n| *n > 0), "{found:?}");
}

/// The same in a longer list.
#[test]
fn errors_in_longer_lists_are_refuted() {
    let found = damaged(&firewall(200, 4), 47);
    assert!(found[1] > 0 && found[3] > 0, "{found:?}");
}

/// Small lists whose cases overlap, broken anywhere or not: proved if and only if the functions are the same.
#[test]
fn proved_if_and_only_if_equal() {
    let (mut same, mut different) = (0, 0);
    for seed in 0..24 {
        let mut rng = Rng(1000 + seed);
        let n = 4 + rng.below(8) as usize;
        let g = firewall(n, 77 + seed);
        let mut p = synthesize(&g.synthesis_input(), Budget::default());
        let l = list(&mut p);
        let (i, j) = (
            rng.below(l.len() as u64) as usize,
            rng.below(l.len() as u64) as usize,
        );
        match rng.below(4) {
            0 => l.swap(i, j),
            1 => drop(l.remove(i)),
            2 => l[i].action = l[j].action,
            _ => {
                let copy = l[i].clone();
                l.insert(j, copy);
            }
        }
        let (a, b) = (
            judged(&g, &p, &options(2)),
            judged(&g, &p, &options(usize::MAX)),
        );
        assert_eq!(a.holds(), b.holds(), "{seed}: {a:#?} {b:#?}");
        assert_eq!(a.different.is_empty(), b.different.is_empty(), "{seed}");
        match a.holds() {
            true => same += 1,
            false => different += 1,
        }
    }
    assert!(same > 4 && different > 4, "{same} {different}");
}
