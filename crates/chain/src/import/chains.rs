//! Chains of rules that jump to one another, as iptables and nftables have them, as one list per direction in which the
//! first match decides.
//!
//! A jump is written out: every rule of the chain jumped to, with the jump's own conditions before its. A `return` (and
//! what follows a `goto`) takes its packets out of the rules that follow in the same chain.

use super::limits::{asks_before, named};
use super::nat::{NatRule, NatTarget};
use super::rule::{Devices, MAX_RULES, Rule, Verdict, Way};
use crate::rules::RulePlace;
use std::collections::HashMap;
use std::sync::Arc;

/// How deep chains may call one another.
const MAX_DEPTH: usize = 32;
/// Longest expression that a rule may become, in bytes.
const MAX_EXPRESSION: usize = 1 << 16;
/// Most rules that are looked at while jumps are written out.
const MAX_STEPS: usize = 4_000_000;
/// Longest text that they may become in all, in bytes.
const MAX_BYTES: usize = 32 << 20;

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Decides.
    Verdict(Verdict),
    /// In a table nat: decides what the connection's ends become.
    Nat(NatTarget),
    /// Leaves the chain.
    Return,
    /// Asks another chain and comes back if that does not decide.
    Jump(String),
    /// Asks another chain and leaves this one.
    Goto(String),
    /// Only counts or logs.
    Nothing,
}

/// A rule of a chain.
#[derive(Debug, Clone)]
pub struct ChainRule {
    /// Expressions that all must hold.
    pub tests: Vec<String>,
    /// Interfaces that must match.
    pub interfaces: Vec<InterfaceTest>,
    /// What it does.
    pub target: Target,
    /// Line, from 1.
    pub line: u32,
    /// Where it is.
    pub place: Option<Arc<RulePlace>>,
}

/// A condition on the interface that a packet came in by or goes out by.
#[derive(Debug, Clone)]
pub struct InterfaceTest {
    /// Out instead of in.
    pub out: bool,
    /// The opposite must hold.
    pub not: bool,
    /// Names; a `+` or `*` at the end stands for any end.
    pub names: Vec<String>,
}

/// The names of the interfaces at port 0 and port 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// At port 0.
    pub inside: Option<String>,
    /// At port 1.
    pub outside: Option<String>,
    /// The host's own addresses, of both.
    pub own: Vec<std::net::IpAddr>,
}

/// Which way packets go, and which interfaces are known.
pub type At = (Way, Devices);

impl InterfaceTest {
    fn holds(&self, (way, devices): At, names: &Interfaces) -> bool {
        let known = match devices {
            Devices::Both => true,
            Devices::In | Devices::InLoop => !self.out,
            Devices::Out | Devices::OutLoop => self.out,
        };
        let name = match (way == Way::Up, self.out) {
            // there is no such interface at this hook: its name is empty
            _ if !known => Some(""),
            _ if matches!(devices, Devices::InLoop | Devices::OutLoop) => Some("lo"),
            (true, false) | (false, true) => names.inside.as_deref(),
            _ => names.outside.as_deref(),
        };
        let is = name.is_some_and(|name| {
            self.names.iter().any(|n| match n.strip_suffix(['+', '*']) {
                Some(begin) => name.starts_with(begin),
                None => n == name,
            })
        });
        is != self.not
    }
}

/// Writes the jumps of `chain` out, for packets that go this way. An error has the line of the rule that it is about.
pub fn flatten(
    chains: &HashMap<String, Vec<ChainRule>>,
    chain: &str,
    at: At,
    names: &Interfaces,
) -> Result<Vec<Rule>, (u32, String)> {
    let rule = |d: Decides| match d.target {
        Target::Verdict(verdict) => Ok(Rule {
            verdict,
            filter: d.filter,
            line: d.line,
            place: d.place,
        }),
        _ => Err((d.line, TRANSLATES.to_string())),
    };
    let rules = Flatten::of(chains, chain, at, names)?.into_iter();
    rules.map(rule).collect()
}

const TRANSLATES: &str =
    "the rule translates addresses: without 'chain', table nat is read beside table filter";

/// The same of a chain of table nat.
pub fn flatten_nat(
    chains: &HashMap<String, Vec<ChainRule>>,
    chain: &str,
    at: At,
    names: &Interfaces,
) -> Result<Vec<NatRule>, (u32, String)> {
    let mut out = Vec::new();
    for d in Flatten::of(chains, chain, at, names)? {
        if super::limits::asks(&d.filter).is_some() {
            let text = "a rate ('limit') in table nat is not supported: it would be about connections, not packets";
            return Err((d.line, text.into()));
        }
        let target = match d.target {
            Target::Nat(target) => target,
            Target::Verdict(Verdict::Allow) => NatTarget::Stays,
            _ => return Err((d.line, "table nat translates; it drops nothing".into())),
        };
        out.push(NatRule {
            target,
            filter: d.filter,
            line: d.line,
            place: d.place,
        });
    }
    Ok(out)
}

/// A rule that decides, and what of.
struct Decides {
    target: Target,
    filter: String,
    line: u32,
    place: Option<Arc<RulePlace>>,
}

struct Flatten<'a> {
    chains: &'a HashMap<String, Vec<ChainRule>>,
    at: At,
    names: &'a Interfaces,
    rules: Vec<Decides>,
    steps: usize,
    bytes: usize,
}

impl Flatten<'_> {
    fn of(
        chains: &HashMap<String, Vec<ChainRule>>,
        chain: &str,
        at: At,
        names: &Interfaces,
    ) -> Result<Vec<Decides>, (u32, String)> {
        let mut f = Flatten {
            chains,
            at,
            names,
            rules: Vec::new(),
            steps: 0,
            bytes: 0,
        };
        f.walk(chain, &[], 0, 0)?;
        Ok(f.rules)
    }

    /// `before`: what holds of packets that come here. `line` of the jump.
    fn walk(
        &mut self,
        chain: &str,
        before: &[String],
        depth: usize,
        line: u32,
    ) -> Result<(), (u32, String)> {
        if depth > MAX_DEPTH {
            return Err((
                line,
                format!(
                    "chains call one another more than {MAX_DEPTH} deep, or in a circle, at '{chain}'"
                ),
            ));
        }
        let chains = self.chains;
        let Some(list) = chains.get(chain) else {
            return Err((line, format!("there is no chain '{chain}'")));
        };
        let mut here: Vec<String> = before.to_vec();
        for r in list {
            self.steps += 1;
            if self.steps > MAX_STEPS || self.rules.len() > MAX_RULES || self.bytes > MAX_BYTES {
                return Err((r.line, "the jumps lead to too many rules".into()));
            }
            if !r.interfaces.iter().all(|i| i.holds(self.at, self.names)) {
                continue;
            }
            let tests = named(r, self.steps);
            if let Some((before_it, ask)) =
                asks_before(&tests).filter(|_| r.target != Target::Nothing)
            {
                // whatever becomes of it, the rate is asked here
                let all = here.iter().chain(before_it).chain([&ask]);
                self.rules.push(Decides {
                    target: Target::Verdict(Verdict::Allow),
                    filter: all.cloned().collect::<Vec<_>>().join(" && "),
                    line: r.line,
                    place: r.place.clone(),
                });
            }
            let all: Vec<String> = here.iter().chain(tests.iter()).cloned().collect();
            let length = all.iter().map(|t| t.len() + 4).sum::<usize>();
            self.bytes += length;
            if length > MAX_EXPRESSION {
                return Err((
                    r.line,
                    "jumps and returns make this rule's conditions too long".into(),
                ));
            }
            let leaves = match &r.target {
                Target::Nothing => false,
                Target::Verdict(_) | Target::Nat(_) => {
                    self.rules.push(Decides {
                        target: r.target.clone(),
                        filter: if all.is_empty() {
                            "all".into()
                        } else {
                            all.join(" && ")
                        },
                        line: r.line,
                        place: r.place.clone(),
                    });
                    tests.is_empty()
                }
                Target::Jump(c) => {
                    self.walk(c, &all, depth + 1, r.line)?;
                    false
                }
                Target::Goto(c) => {
                    self.walk(c, &all, depth + 1, r.line)?;
                    true
                }
                Target::Return => true,
            };
            if leaves {
                if tests.is_empty() {
                    break;
                }
                // decided packets need not be taken out: a later rule is never asked about them
                if !matches!(r.target, Target::Verdict(_) | Target::Nat(_)) {
                    here.push(format!("not ({})", tests.join(" && ")));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: At = (Way::Up, Devices::Both);

    fn rule(tests: &[&str], target: Target, line: u32) -> ChainRule {
        ChainRule {
            tests: tests.iter().map(|s| s.to_string()).collect(),
            interfaces: Vec::new(),
            target,
            line,
            place: None,
        }
    }

    fn texts(r: Result<Vec<Rule>, (u32, String)>) -> Vec<String> {
        r.unwrap()
            .iter()
            .map(|r| format!("{} {}", r.verdict.action(), r.filter))
            .collect()
    }

    #[test]
    fn jumps_returns_and_gotos() {
        let accept = Target::Verdict(Verdict::Allow);
        let drop = Target::Verdict(Verdict::Deny);
        let mut chains = HashMap::from([
            (
                "main".to_string(),
                vec![
                    rule(&["tcp"], Target::Jump("a".into()), 1),
                    rule(&["udp"], Target::Goto("b".into()), 2),
                    rule(&[], drop.clone(), 3),
                    rule(&["never"], accept.clone(), 4),
                ],
            ),
            (
                "a".to_string(),
                vec![
                    rule(&["x", "y"], Target::Return, 5),
                    rule(&["z"], accept.clone(), 6),
                    rule(&[], Target::Nothing, 7),
                    rule(&["w"], Target::Return, 8),
                    rule(&[], drop.clone(), 9),
                ],
            ),
            ("b".to_string(), vec![rule(&["v"], accept, 10)]),
        ]);
        let names = Interfaces::default();
        assert_eq!(
            texts(flatten(&chains, "main", UP, &names)),
            [
                "allow tcp && not (x && y) && z",
                "deny tcp && not (x && y) && not (w)",
                "allow udp && v",
                "deny not (udp)",
            ]
        );
        chains
            .get_mut("b")
            .unwrap()
            .push(rule(&[], Target::Jump("main".into()), 11));
        assert!(
            flatten(&chains, "main", UP, &names)
                .unwrap_err()
                .1
                .contains("circle")
        );
        assert_eq!(
            flatten(&chains, "x", UP, &names).unwrap_err().1,
            "there is no chain 'x'"
        );
        // twice as many rules with every chain: the bound holds
        let mut many = HashMap::new();
        for i in 0..30 {
            let next = Target::Jump(format!("c{}", i + 1));
            many.insert(
                format!("c{i}"),
                vec![rule(&["a"], next.clone(), 1), rule(&["b"], next, 2)],
            );
        }
        many.insert("c30".into(), vec![rule(&["t"], drop, 3)]);
        assert!(
            flatten(&many, "c0", UP, &names)
                .unwrap_err()
                .1
                .contains("too many rules")
        );
    }

    #[test]
    fn interfaces_are_directions() {
        let mut r = rule(&["tcp"], Target::Verdict(Verdict::Allow), 1);
        r.interfaces.push(InterfaceTest {
            out: false,
            not: false,
            names: vec!["eth+".into()],
        });
        let mut o = rule(&["udp"], Target::Verdict(Verdict::Allow), 1);
        o.interfaces.push(InterfaceTest {
            out: true,
            not: true,
            names: vec!["ppp0".into()],
        });
        let chains = HashMap::from([("c".to_string(), vec![r, o])]);
        let names = Interfaces {
            inside: Some("eth1".into()),
            outside: Some("ppp0".into()),
            own: Vec::new(),
        };
        assert_eq!(texts(flatten(&chains, "c", UP, &names)), ["allow tcp"]);
        assert_eq!(
            texts(flatten(&chains, "c", (Way::Down, Devices::Both), &names)),
            ["allow udp"]
        );
        // where it is not known yet, or not any more, an interface has no name
        let at = |way, devices| texts(flatten(&chains, "c", (way, devices), &names));
        assert_eq!(at(Way::Up, Devices::In), ["allow tcp", "allow udp"]);
        assert_eq!(at(Way::Up, Devices::Out), [""; 0]);
        assert_eq!(at(Way::Down, Devices::Out), ["allow udp"]);
        assert_eq!(at(Way::Up, Devices::OutLoop), ["allow udp"]);
    }
}
