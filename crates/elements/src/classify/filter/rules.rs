//! A list of rules, first match wins.

use super::boxes::{Key, Ports, Region, regions};
use super::eval::View;
use super::expr::{Check, Expr};
use super::parse::Action;
use super::search::{Entry, NO_CHECKS, Search};

/// One rule of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which configuration argument it was, for traces.
    pub argument: u32,
    /// What happens to packets that it matches.
    pub action: Action,
    /// What it matches.
    pub expr: Expr,
}

/// What must hold besides the ranges of a box.
#[derive(Debug, Clone)]
enum Extra {
    /// These checks, each with the result that is wanted.
    Checks(Vec<(Check, bool)>),
    /// The whole expression of rule number so-and-so: it has too many boxes.
    Rule(u32),
}

/// Fewer rules than this are walked through where a port is cut in half.
const FEW: usize = 32;

/// Rules and the search structures over them.
#[derive(Debug, Clone)]
pub struct Filter {
    rules: Vec<Rule>,
    extras: Vec<Extra>,
    search: Search,
    /// For packets of which a port is cut in half, if there are many rules. A box's checks are its rule number: the
    /// rule's expression decides.
    cut_port: Option<Search>,
    boxes: usize,
}

impl Filter {
    /// Prepares a list of rules. At most `u32::MAX - 1` rules are looked at.
    pub fn new(rules: Vec<Rule>) -> Filter {
        let mut entries = Vec::with_capacity(rules.len());
        let mut may = Vec::new();
        let mut extras = Vec::new();
        let everything = || vec![Region::full()];
        for (rule, i) in rules.iter().zip(0..u32::MAX - 1) {
            let mut add = |r, extra: Option<Extra>| {
                let checks = match extra {
                    None => NO_CHECKS,
                    Some(e) => {
                        extras.push(e);
                        (extras.len() - 1) as u32
                    }
                };
                entries.push(Entry { r, rule: i, checks });
            };
            match regions(&rule.expr, true, Ports::Known) {
                Ok(list) => {
                    for Region { r, checks } in list {
                        let extra = (!checks.is_empty()).then_some(Extra::Checks(checks));
                        add(r, extra);
                    }
                }
                Err(_) => add(Region::full().r, Some(Extra::Rule(i))),
            }
            if rules.len() > FEW {
                let list =
                    regions(&rule.expr, true, Ports::Unknown).unwrap_or_else(|_| everything());
                may.extend(list.into_iter().map(|Region { r, .. }| Entry {
                    r,
                    rule: i,
                    checks: i,
                }));
            }
        }
        Filter {
            search: Search::build(&entries),
            cut_port: (rules.len() > FEW).then(|| Search::build(&may)),
            boxes: entries.len(),
            rules,
            extras,
        }
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Boxes before, nodes and boxes after building the search tree.
    pub fn sizes(&self) -> (usize, usize, usize) {
        let (nodes, leaves) = self.search.size();
        (self.boxes, nodes, leaves)
    }

    /// The first rule that matches, by looking at one after the other: the meaning of a list.
    pub fn first_match_linear(&self, v: &View<'_>) -> Option<usize> {
        self.rules.iter().position(|r| r.expr.matches(v))
    }

    /// The first rule that matches. Equal to [`Filter::first_match_linear`], in time that hardly grows with the rules;
    /// only packets that are cut off within the IP header's first 20 bytes (which CheckIPHeader drops) take the linear
    /// walk.
    #[inline]
    pub fn first_match(&self, v: &View<'_>) -> Option<usize> {
        match Key::of(v) {
            Key::Exact(key) => {
                let pass = |i| {
                    self.extras
                        .get(i as usize)
                        .is_some_and(|e| self.passes(e, v))
                };
                self.search.first(&key, pass).map(|i| i as usize)
            }
            Key::CutPort(key) => match &self.cut_port {
                Some(search) => {
                    let rule = search.first(&key, |i| self.rule_matches(i, v));
                    rule.map(|i| i as usize)
                }
                None => self.first_match_linear(v),
            },
            Key::CutHeader => self.first_match_linear(v),
        }
    }

    fn passes(&self, extra: &Extra, v: &View<'_>) -> bool {
        match extra {
            Extra::Checks(list) => list.iter().all(|(c, wanted)| c.matches(v) == *wanted),
            Extra::Rule(r) => self.rule_matches(*r, v),
        }
    }

    fn rule_matches(&self, i: u32, v: &View<'_>) -> bool {
        let rule = self.rules.get(i as usize);
        rule.is_some_and(|r| r.expr.matches(v))
    }
}
