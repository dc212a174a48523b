//! Lists as they are made of chains: plain ones line by line, those with marks against chains that are run.

use super::asks::{Ask, Conditions, Question};
use super::chains::{ChainRule, InterfaceTest, Interfaces, Target};
use super::limits::Limit;
use super::mark::{Change, MarkOf, MarkTest, MarkValue};
use super::passage::{Course, Passage, asked, filters, passage};
use super::rule::{Devices, Section, Step, Verdict, Way};
use super::sections::{Marks, Source, Walked};
use super::walk::walk;
use std::collections::{BTreeSet, HashMap};

pub(super) fn rule(tests: &[&str], target: Target, line: u32) -> ChainRule {
    ChainRule {
        tests: tests.iter().map(|s| s.to_string()).collect(),
        interfaces: Vec::new(),
        own: Vec::new(),
        marks: Vec::new(),
        asks: Vec::new(),
        changes: Vec::new(),
        target,
        refused: None,
        line,
        place: None,
    }
}

pub(super) type Chains = HashMap<String, Vec<ChainRule>>;

pub(super) fn source(chains: &Chains, start: &str, tracked: bool) -> Source {
    Source {
        chains: chains.clone(),
        start: start.to_string(),
        tracked,
        devices: Devices::Both,
    }
}

/// One way through chains, one behind the other.
fn course(sources: Vec<Source>) -> [Course; 1] {
    [Course {
        sources,
        ..Course::default()
    }]
}

fn made(sources: Vec<Source>) -> Result<Passage, Vec<(u32, String)>> {
    passage(&course(sources), &Interfaces::default())
}

/// The plain list of a chain.
fn flat(
    chains: &Chains,
    start: &str,
    way: Way,
    names: &Interfaces,
) -> Result<Vec<String>, (u32, String)> {
    let mut marks = Marks::new(0, false);
    let from = BTreeSet::from([0]);
    let walked = walk(
        &source(chains, start, true),
        (way, names),
        &from,
        0,
        &mut marks,
    );
    let (rules, sections) = filters(walked.map_err(|e| e[0].clone())?)?;
    assert!(sections.more.is_empty() && sections.entries.is_empty());
    let text = |r: &super::rule::Rule| format!("{} {}", r.verdict.action(), r.filter);
    Ok(rules.iter().map(text).collect())
}

const ACCEPT: Target = Target::Verdict(Verdict::Allow);
pub(super) const DROP: Target = Target::Verdict(Verdict::Deny);

#[test]
fn jumps_returns_and_gotos() {
    let mut chains = HashMap::from([
        (
            "main".to_string(),
            vec![
                rule(&["tcp"], Target::Jump("a".into()), 1),
                rule(&["udp"], Target::Goto("b".into()), 2),
                rule(&[], DROP, 3),
                rule(&["never"], ACCEPT, 4),
            ],
        ),
        (
            "a".to_string(),
            vec![
                rule(&["x", "y"], Target::Return, 5),
                rule(&["z"], ACCEPT, 6),
                rule(&[], Target::Nothing, 7),
                rule(&["w"], Target::Return, 8),
                rule(&[], DROP, 9),
            ],
        ),
        ("b".to_string(), vec![rule(&["v"], ACCEPT, 10)]),
    ]);
    let names = Interfaces::default();
    assert_eq!(
        flat(&chains, "main", Way::Up, &names).unwrap(),
        [
            "allow tcp && not (x && y) && z",
            "deny tcp && not (x && y) && not (w)",
            "allow udp && v",
            "deny not (udp)",
        ]
    );
    let b = chains.get_mut("b").unwrap();
    b.push(rule(&[], Target::Jump("main".into()), 11));
    let e = flat(&chains, "main", Way::Up, &names).unwrap_err().1;
    assert!(e.contains("circle"));
    let e = flat(&chains, "x", Way::Up, &names).unwrap_err().1;
    assert_eq!(e, "there is no chain 'x'");
    // twice as many rules with every chain: the bound holds
    let mut many = HashMap::new();
    for i in 0..30 {
        let next = Target::Jump(format!("c{}", i + 1));
        let both = vec![rule(&["a"], next.clone(), 1), rule(&["b"], next, 2)];
        many.insert(format!("c{i}"), both);
    }
    many.insert("c30".into(), vec![rule(&["t"], DROP, 3)]);
    let e = flat(&many, "c0", Way::Up, &names).unwrap_err().1;
    assert!(e.contains("too many rules"));
}

#[test]
fn interfaces_are_directions() {
    let mut r = rule(&["tcp"], ACCEPT, 1);
    r.interfaces.push(InterfaceTest {
        out: false,
        not: false,
        names: vec!["eth+".into()],
        of: Default::default(),
    });
    let mut o = rule(&["udp"], ACCEPT, 1);
    o.interfaces.push(InterfaceTest {
        out: true,
        not: true,
        names: vec!["ppp0".into()],
        of: Default::default(),
    });
    let chains = HashMap::from([("c".to_string(), vec![r, o])]);
    let names = Interfaces {
        inside: Some("eth1".into()),
        outside: Some("ppp0".into()),
        own: Vec::new(),
        ..Interfaces::default()
    };
    let up = flat(&chains, "c", Way::Up, &names).unwrap();
    assert_eq!(up, ["allow tcp"]);
    let down = flat(&chains, "c", Way::Down, &names).unwrap();
    assert_eq!(down, ["allow udp"]);
}

/// `a && b && not (c && d)`, where `is` says of each word whether it holds.
fn holds(filter: &str, is: &dyn Fn(&str) -> bool) -> bool {
    let mut rest = filter;
    let mut all = true;
    // Bound: each turn takes a word at least
    while !rest.is_empty() {
        let (term, behind) = match rest.strip_prefix("not (") {
            Some(inner) => {
                let (inner, behind) = inner.split_once(')').unwrap();
                (!holds(inner, is), behind)
            }
            None => {
                let (word, behind) = match rest.find(" && ") {
                    Some(i) => rest.split_at(i),
                    None => (rest, ""),
                };
                (word == "all" || is(word), behind)
            }
        };
        all &= term;
        rest = behind.strip_prefix(" && ").unwrap_or(behind);
    }
    all
}

/// A packet's fate: whether it passes, its mark, its connection's; the lines of rules whose rates have been asked.
type Fate = (bool, u32, Option<u32>, Vec<String>);

/// What a bucket of these tests says: a word stands for it.
fn within(limit: Limit, is: &dyn Fn(&str) -> bool) -> bool {
    is(WORDS[limit.rate as usize])
}

/// Follows a packet through lists.
fn follow(
    lists: &[Walked],
    marks: &[(u32, bool)],
    is: &dyn Fn(&str) -> bool,
    mut connection: Option<u32>,
) -> Fate {
    let mut colour = 0u8;
    let mut buckets = Vec::new();
    let mark = |c: u8| marks.get(usize::from(c)).map_or(0, |m| m.0);
    for l in lists {
        let entry = l.entries.iter().find(|e| e.0 == colour);
        assert!(
            l.entries.is_empty() || entry.is_some(),
            "nobody comes with {colour}"
        );
        let mut at = entry.map_or(0, |e| e.1);
        loop {
            let rules = match &l.sections[at] {
                Section::Rules(rules) => rules,
                Section::Connection { values, none } => {
                    at = match connection {
                        None => *none,
                        Some(c) => values.iter().find(|v| v.0 == c).unwrap().1,
                    };
                    continue;
                }
                Section::Ask {
                    asked,
                    line,
                    holds,
                    fails,
                } => {
                    let Question::Limit(limit) = asked.question else {
                        panic!("{asked:?}");
                    };
                    let number = asked.name.strip_prefix(&format!("limit_{line}")).unwrap();
                    buckets.push(format!("{line}{number}"));
                    at = if within(limit, is) { *holds } else { *fails };
                    continue;
                }
            };
            let Some(r) = rules.iter().find(|r| holds(&r.filter, is)) else {
                break;
            };
            let onward = r.onward.clone().unwrap_or(super::rule::Onward {
                steps: Vec::new(),
                section: None,
                others: false,
            });
            for s in onward.steps {
                match s {
                    Step::Mark(n) => colour = n,
                    Step::ConnectionMark(m) => connection = connection.map(|_| m),
                    Step::Header(_) => {}
                }
            }
            match (onward.section, &r.target) {
                (Some(n), _) => at = n,
                (None, Target::Verdict(Verdict::Allow)) => break,
                _ => return (false, mark(colour), connection, buckets),
            }
        }
    }
    (true, mark(colour), connection, buckets)
}

/// What chains say, run as netfilter runs them.
struct Run<'a> {
    chains: &'a Chains,
    is: &'a dyn Fn(&str) -> bool,
    mark: u32,
    connection: Option<u32>,
    buckets: Vec<String>,
}

impl Run<'_> {
    /// Do conditions hold?
    fn holds(&self, tests: &[String], marks: &[MarkTest]) -> bool {
        let test = |t: &MarkTest| match t.of {
            MarkOf::Packet => t.holds(self.mark),
            MarkOf::Connection => self.connection.is_some_and(|c| t.holds(c)),
        };
        tests.iter().all(|t| (self.is)(t)) && marks.iter().all(test)
    }

    /// The same of a rule's rate, and of what is behind it.
    fn rate(&mut self, r: &ChainRule) -> bool {
        if r.target == Target::Nothing && r.changes.is_empty() && !r.asks.is_empty() {
            return false;
        }
        for (n, ask) in r.asks.iter().enumerate() {
            let Question::Limit(limit) = ask.question else {
                panic!("{ask:?}");
            };
            let number = if n > 0 {
                format!("_{n}")
            } else {
                String::new()
            };
            self.buckets.push(format!("{}{number}", r.line));
            let holds = within(limit, self.is) != limit.over;
            if holds == ask.not || !self.holds(&ask.behind.tests, &ask.behind.marks) {
                return false;
            }
        }
        true
    }

    /// `Some`: decided.
    fn chain(&mut self, name: &str) -> Option<bool> {
        for r in &self.chains[name] {
            if !self.holds(&r.tests, &r.marks) || !self.rate(r) {
                continue;
            }
            for c in &r.changes {
                match c {
                    Change::PacketMark(v) if v.connection == 0 => self.mark = v.apply(self.mark, 0),
                    Change::PacketMark(v) => {
                        if let Some(c) = self.connection {
                            self.mark = v.apply(self.mark, c);
                        }
                    }
                    Change::ConnectionMark(v) => {
                        self.connection = self.connection.map(|c| v.apply(self.mark, c));
                    }
                    Change::Untrack | Change::Header(_) => {}
                }
            }
            match &r.target {
                Target::Verdict(v) => return Some(*v == Verdict::Allow),
                Target::Return => return None,
                Target::Jump(c) => {
                    if let Some(v) = self.chain(c) {
                        return Some(v);
                    }
                }
                Target::Goto(c) => return self.chain(c),
                Target::Nothing | Target::Nat(_) => {}
            }
        }
        None
    }
}

const WORDS: [&str; 3] = ["a", "b", "c"];

/// Numbers that are drawn, the same ones each time, and how many rules.
struct Draws(u64, u32);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn bits(&mut self) -> u32 {
        self.below(8) as u32
    }

    fn change(&mut self) -> Change {
        let (packet, connection, flip) = (self.bits(), self.bits(), self.bits());
        let v = match self.below(3) {
            0 => MarkValue::constant(flip),
            1 => MarkValue {
                packet,
                connection: 0,
                flip,
            },
            _ => MarkValue {
                packet,
                connection,
                flip,
            },
        };
        match self.below(2) {
            0 => Change::PacketMark(v),
            _ => Change::ConnectionMark(v),
        }
    }

    fn test(&mut self) -> MarkTest {
        let mask = 1 + self.below(7) as u32;
        let v = self.bits() & mask;
        MarkTest {
            of: match self.below(2) {
                0 => MarkOf::Packet,
                _ => MarkOf::Connection,
            },
            mask,
            ranges: vec![(v, v)],
            not: self.below(2) == 0,
        }
    }

    /// A rule of chain number `n`, which calls later ones only.
    fn rule(&mut self, n: u64) -> ChainRule {
        let to = n + 1 + self.below(2);
        let target = match (self.below(8), to < 3) {
            (0, _) => ACCEPT,
            (1, _) => DROP,
            (2, _) => Target::Return,
            (3 | 4, true) => Target::Jump(format!("c{to}")),
            (5, true) => Target::Goto(format!("c{to}")),
            _ => Target::Nothing,
        };
        let words = self.words();
        self.1 += 1;
        ChainRule {
            marks: (0..self.below(2)).map(|_| self.test()).collect(),
            asks: match self.below(6) {
                0 => vec![self.ask()],
                1 => vec![self.ask(), self.ask()],
                _ => Vec::new(),
            },
            changes: (0..self.below(3)).map(|_| self.change()).collect(),
            ..rule(&words, target, self.1)
        }
    }

    fn words(&mut self) -> Vec<&'static str> {
        WORDS.into_iter().filter(|_| self.below(3) == 0).collect()
    }

    fn ask(&mut self) -> Ask {
        Ask {
            not: self.below(3) == 0,
            question: Question::Limit(Limit {
                rate: self.below(3),
                per: 1,
                burst: 5,
                bytes: false,
                over: self.below(2) == 0,
            }),
            behind: Conditions {
                tests: self.words().iter().map(|s| s.to_string()).collect(),
                own: Vec::new(),
                marks: (0..self.below(2)).map(|_| self.test()).collect(),
            },
        }
    }

    fn chains(&mut self) -> Chains {
        let chain = |n: u64| {
            let rules = (0..self.below(5)).map(|_| self.rule(n)).collect();
            (format!("c{n}"), rules)
        };
        (0..3).map(chain).collect()
    }
}

/// Two chains one behind the other: packets end as where the chains are run.
#[test]
fn sections_do_what_chains_do() {
    let (mut passed, mut marked, mut told, mut limited) = (0, 0, 0, 0);
    for seed in 1..400u64 {
        let mut draws = Draws(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0);
        let both = [draws.chains(), draws.chains()];
        let sources: Vec<Source> = both.iter().map(|c| source(c, "c0", true)).collect();
        let courses = course(sources);
        let made = passage(&courses, &Interfaces::default()).unwrap();
        let asked = asked(&courses).1;
        let lists = made.lists.into_iter().flatten();
        let lists: Vec<Walked> = lists.map(|[up, _]| up).collect();
        let by_connection = |s: &Section<_>| matches!(s, Section::Connection { .. });
        told += usize::from(lists.iter().any(|l| l.sections.iter().any(by_connection)));
        for words in 0..8u8 {
            let is = |w: &str| words >> WORDS.iter().position(|x| *x == w).unwrap() & 1 == 1;
            // connections have the marks that packets before have left
            let mut known = BTreeSet::from([None, Some(0)]);
            let mut todo: Vec<Option<u32>> = known.iter().copied().collect();
            while let Some(connection) = todo.pop() {
                let mut run = Run {
                    chains: &both[0],
                    is: &is,
                    mark: 0,
                    connection,
                    buckets: Vec::new(),
                };
                let mut passes = run.chain("c0").unwrap_or(true);
                if passes {
                    run.chains = &both[1];
                    passes = run.chain("c0").unwrap_or(true);
                }
                // bits that nobody asks for are not kept
                let kept = |c: Option<u32>| c.map(|c| c & asked);
                let found = follow(&lists, &made.marks, &is, kept(connection));
                assert_eq!(found.0, passes, "{seed} {words} {connection:?}");
                assert_eq!(
                    found.2,
                    kept(run.connection),
                    "{seed} {words} {connection:?}"
                );
                assert_eq!(found.3, run.buckets, "{seed} {words} {connection:?}");
                limited += usize::from(!found.3.is_empty());
                passed += usize::from(passes);
                marked += usize::from(found.1 != 0);
                if known.insert(run.connection) && known.len() < 20 {
                    todo.push(run.connection);
                }
            }
        }
    }
    assert!(
        passed > 1000 && marked > 1000 && told > 50 && limited > 1000,
        "{passed} {marked} {told} {limited}"
    );
}

/// Marks that change round and round.
#[test]
fn circles_that_change_marks_are_refused() {
    let mut flips = rule(&[], Target::Nothing, 1);
    flips
        .changes
        .push(Change::PacketMark(MarkValue::of(MarkOf::Packet).xor(1)));
    let mut asks = rule(&[], Target::Goto("c".into()), 2);
    asks.marks.push(MarkTest {
        of: MarkOf::Packet,
        mask: 1,
        ranges: vec![(0, 1)],
        not: false,
    });
    let chains = HashMap::from([("c".to_string(), vec![flips, asks])]);
    let e = made(vec![source(&chains, "c", true)]).unwrap_err();
    assert!(e[0].1.contains("circle"), "{e:?}");
}

/// A rule that cannot be said stands in nobody's way where no packet comes to it.
#[test]
fn what_no_packet_comes_to_is_not_refused() {
    let mut bad = rule(&["a"], DROP, 7);
    bad.refused = Some("no such thing".into());
    bad.marks.push(MarkTest {
        of: MarkOf::Packet,
        mask: 0xff,
        ranges: vec![(5, 5)],
        not: false,
    });
    let mut sets = rule(&["b"], Target::Nothing, 3);
    sets.changes
        .push(Change::PacketMark(MarkValue::constant(5)));
    let of = |rules: Vec<ChainRule>| {
        let chains = HashMap::from([("c".to_string(), rules)]);
        made(vec![source(&chains, "c", true)])
    };
    let found = of(vec![bad.clone()]).unwrap();
    assert_eq!(found.lists[0][0][0].sections, [Section::Rules(vec![])]);
    let e = of(vec![sets, bad]).unwrap_err();
    assert_eq!(e, [(7, "no such thing".to_string())]);
}

/// Rates end sections for all packets, so that what is behind is there once: lists grow with their number alone.
#[test]
fn lists_grow_with_the_number_of_rates() {
    let rate = Ask {
        question: Question::Limit(Limit {
            rate: 1,
            per: 1,
            burst: 5,
            bytes: false,
            over: false,
        }),
        not: false,
        behind: Conditions::default(),
    };
    let limited = |n: u32| ChainRule {
        asks: vec![rate.clone()],
        ..rule(&["a"], ACCEPT, n)
    };
    let count = |n: u32| -> usize {
        let chains = HashMap::from([("c".to_string(), (1..=n).map(limited).collect())]);
        let found = made(vec![source(&chains, "c", true)]).unwrap();
        let rules = found.lists[0][0][0].sections.iter().map(|s| match s {
            Section::Rules(rules) => rules.len(),
            _ => 1,
        });
        rules.sum()
    };
    let one = count(1);
    assert!(count(100) <= 100 * one, "{one} {}", count(100));
}
