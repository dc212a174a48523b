//! The chains of a file that packets pass, and the rule sets that they become.

use super::asks;
use super::chains::{ChainRule, Interfaces};
use super::nat::NatRules;
use super::passage::{Course, Lists, Passage, filters, passage, translations};
use super::rule::{Devices, Hook, Rule, RuleSet, Section, Sections, Stage, Verdict};
use super::sections::{Source, Walked};
use crate::kinds::connections::asks;
use crate::rules::RulePlace;
use std::collections::HashMap;
use std::sync::Arc;

/// Errors: line, message.
type Errors = Vec<(u32, String)>;

/// A chain that packets come to, and what it jumps to.
#[derive(Debug, Clone)]
pub struct Part {
    pub chains: HashMap<String, Vec<ChainRule>>,
    pub start: String,
    /// What happens to packets that no rule matches.
    pub default: Verdict,
    /// Whose policy that is, and the line that says it, if there is one.
    pub policy: Option<(Arc<RulePlace>, Option<u32>)>,
    /// Which interfaces are known there.
    pub devices: Devices,
}

impl Default for Part {
    fn default() -> Part {
        Part {
            chains: HashMap::new(),
            start: String::new(),
            default: Verdict::Allow,
            policy: None,
            devices: Devices::Both,
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub struct Parts {
    /// That packets are filtered by.
    pub main: Part,
    /// Other chains of filters, in the order of [`Hook`].
    pub stages: Vec<(Hook, Part)>,
    /// Of destinations, of sources; `None`: addresses are not translated.
    pub nat: Option<[Option<Part>; 2]>,
    /// What is not quite as it was.
    pub warnings: Vec<String>,
}

/// Which chain of a file a list is of.
#[derive(Debug, Clone, Copy)]
enum Which {
    Stage(usize),
    Main,
    /// Of sources, else of destinations.
    Nat(bool),
}

/// A list for both ways.
struct Both {
    up: Vec<Rule>,
    down: Option<Vec<Rule>>,
    sections: [Sections<Rule>; 2],
}

/// The course of what the host sends to itself, as it leaves, and as it comes in again; that of all else that it sends
/// is before it.
const LOOP_OUT: usize = 3;
const LOOP_IN: usize = 4;

/// The rule sets of a file, for packets that pass different chains: forwarded ones, then those of the host, as
/// [`RuleSet::host`] has them. Marks have the same numbers in all of them.
///
/// # Errors
/// By the line of the rule that each is about.
pub fn rule_sets<const N: usize>(
    all: [Parts; N],
    names: &Interfaces,
) -> Result<[RuleSet; N], Errors> {
    let mut orders: [Vec<Which>; N] = [(); N].map(|()| Vec::new());
    let mut courses: Vec<Course> = Vec::new();
    for (i, (parts, order)) in all.iter().zip(&mut orders).enumerate() {
        let (whichs, sources): (Vec<Which>, Vec<Source>) = parts.in_order().into_iter().unzip();
        let front = whichs.iter().take_while(|w| parts.is_front(**w)).count();
        let from_host = i == LOOP_OUT || i + 1 == LOOP_OUT;
        courses.push(Course {
            sources,
            // who has another destination then, may leave by another port
            rerouted: (from_host && parts.nat.is_some()).then_some(front),
            from: (i == LOOP_IN).then_some(LOOP_OUT),
        });
        *order = whichs;
    }
    let Passage {
        lists,
        marks,
        unasked,
    } = passage(&courses, names)?;
    let mut errors = Errors::new();
    let mut made = orders.into_iter().zip(lists).zip(unasked);
    let sets = all.map(|parts| {
        let mut set = RuleSet::default();
        if let Some(((order, lists), unasked)) = made.next() {
            set = parts.rule_set(order, lists, &mut errors);
            if unasked > 0 {
                set.warnings.push(format!(
                    "{unasked} rules set marks that no rule asks for: what routing and queues make of them is not done"
                ));
            }
        }
        set.marks = marks.clone();
        set
    });
    errors.sort();
    errors.dedup();
    match errors.is_empty() {
        true => Ok(sets),
        false => Err(errors),
    }
}

impl Parts {
    /// The rule set. What is wrong with it is added to `errors`.
    fn rule_set(self, order: Vec<Which>, lists: Lists, errors: &mut Errors) -> RuleSet {
        let mut set = RuleSet {
            default: Some(self.main.default),
            policy: self.main.policy.clone(),
            nat: self.nat.as_ref().map(|_| NatRules::default()),
            warnings: self.warnings,
            ..RuleSet::default()
        };
        for (which, pair) in order.into_iter().zip(lists) {
            match which {
                Which::Nat(src) => {
                    let nat = set.nat.get_or_insert_default();
                    for (i, w) in pair.into_iter().enumerate() {
                        let (rules, sections) = match src {
                            false => (&mut nat.dst[i], &mut nat.dst_sections[i]),
                            true => (&mut nat.src[i], &mut nat.src_sections[i]),
                        };
                        match translations(w) {
                            Ok(found) => (*rules, *sections) = found,
                            Err(e) => errors.push(e),
                        }
                    }
                }
                Which::Main => {
                    if let Some(b) = both(pair, errors) {
                        (set.rules, set.down, set.sections) = (b.up, b.down, b.sections);
                    }
                }
                Which::Stage(n) => {
                    let (Some(b), Some((hook, part))) = (both(pair, errors), self.stages.get(n))
                    else {
                        continue;
                    };
                    set.stages.push(Stage {
                        hook: *hook,
                        rules: b.up,
                        down: b.down,
                        sections: b.sections,
                        default: part.default,
                        policy: part.policy.clone().unwrap_or_default(),
                    });
                }
            }
        }
        asks_too_early(&set, errors);
        set
    }

    /// Is a chain asked before it is known where packets go?
    fn is_front(&self, which: Which) -> bool {
        match which {
            Which::Stage(n) => {
                let hook = self.stages.get(n).map(|s| s.0);
                matches!(hook, Some(Hook::Raw | Hook::Prerouting))
            }
            Which::Main => false,
            Which::Nat(src) => !src,
        }
    }

    /// Chains as packets come to them.
    fn in_order(&self) -> Vec<(Which, Source)> {
        let source = |p: &Part, tracked| Source {
            chains: resolved(p),
            start: p.start.clone(),
            tracked,
            devices: p.devices,
        };
        let stages = |hooks: &[Hook]| {
            let all = self.stages.iter().enumerate();
            let here = all.filter(|(_, (h, _))| hooks.contains(h));
            let one =
                |(n, (h, p)): (usize, &(Hook, Part))| (Which::Stage(n), source(p, *h != Hook::Raw));
            here.map(one).collect::<Vec<_>>()
        };
        let nat = |n: usize| {
            let part = self.nat.as_ref().and_then(|both| both[n].as_ref());
            part.map(|p| (Which::Nat(n == 1), source(p, true)))
        };
        let mut all = stages(&[Hook::Raw]);
        all.extend(stages(&[Hook::Prerouting]));
        all.extend(nat(0));
        all.extend(stages(&[Hook::Before]));
        all.push((Which::Main, source(&self.main, true)));
        all.extend(stages(&[Hook::Behind]));
        all.extend(nat(1));
        all
    }
}

/// The chains, with answers to questions that are the same for all packets there.
fn resolved(p: &Part) -> HashMap<String, Vec<ChainRule>> {
    let mut chains = p.chains.clone();
    for r in chains.values_mut().flatten() {
        asks::resolve(r, p.devices);
    }
    chains
}

fn both([up, down]: [Walked; 2], errors: &mut Errors) -> Option<Both> {
    let same = up == down;
    match (filters(up), filters(down)) {
        (Ok((up, first)), Ok((down, second))) => Some(Both {
            up,
            down: (!same).then_some(down),
            sections: [first, second],
        }),
        (a, b) => {
            errors.extend([a.err(), b.err()].into_iter().flatten());
            errors.dedup();
            None
        }
    }
}

/// Questions about connections before they are tracked.
fn asks_too_early(set: &RuleSet, errors: &mut Errors) {
    for s in set.stages.iter().filter(|s| s.hook == Hook::Raw) {
        let first = s.rules.iter().chain(s.down.iter().flatten());
        let more = s.sections.iter().flat_map(|s| &s.more);
        let rules = more.flat_map(|m| match m {
            Section::Rules(rules) => rules.as_slice(),
            Section::Connection { .. } | Section::Ask { .. } => &[],
        });
        if let Some(r) = first.chain(rules).find(|r| asks(&r.filter)) {
            let text =
                "a rule asks about connections before they are tracked (table raw, priority -200)";
            errors.push((r.line, text.into()));
        }
    }
}
