//! What a program has done: packets and bytes per class and rule, packets that left it, by cause.

use crate::graph::rule_counts::RuleLedger;
use crate::program::code::Code;
use onefold_synth::program::{End, Program, Rule, Stage};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Causes beyond those that the program names; more different ones are counted together.
const MAX_CAUSES: usize = 256;

/// Counters of an executor beside those of rules ([`RuleLedger`]).
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    sites: Vec<u64>,
    /// Element, cause, packets.
    others: Vec<(u32, &'static str, u64)>,
    /// Packets of causes that a program before this one named.
    before: Vec<PuntCount>,
    /// Packets and bytes of rules that a program before this one had.
    gone: (u64, u64),
}

/// What every rule of a program is recognized by in the one that replaces it: place, filter, and what is done, by the elements
/// on the way. Stages may have other numbers then.
pub(crate) fn keys(p: &Program) -> Vec<u64> {
    let key = |s: &Stage, r: &Rule| {
        let mut h = DefaultHasher::new();
        (s.at, s.why as u8, &s.known, &r.filter, &r.origin).hash(&mut h);
        if let Some(a) = s.actions.get(r.action.0 as usize) {
            a.path.hash(&mut h);
            match &a.end {
                End::Drop { elem, reason } => (elem, reason).hash(&mut h),
                End::Punt { elem, cause, .. } | End::Ask { elem, cause, .. } => {
                    (elem, cause).hash(&mut h)
                }
                End::Output { sink, .. } => sink.hash(&mut h),
                _ => {}
            }
        }
        h.finish()
    };
    let rules = p
        .stages
        .iter()
        .flat_map(|s| s.rules.iter().map(move |r| (s, r)));
    rules.map(|(s, r)| key(s, r)).collect()
}

impl Counts {
    /// Goes on with the punts that were counted before, by another program.
    pub fn go_on(&mut self, old: &Counts, old_code: &Code, names: &[String]) {
        self.gone = old.gone;
        self.before = merged(punts(old_code, old, names));
        self.before.retain(|p| p.packets > 0);
    }

    /// Rules that are in both programs keep their counts; all lists have been told of the old one's.
    pub fn go_on_rules(
        &mut self,
        (keys, now): (&[u64], &mut RuleLedger),
        (old_keys, old): (&[u64], &mut RuleLedger),
    ) {
        now.take_waiting(old);
        let mut at: HashMap<u64, Vec<usize>> = HashMap::new();
        for (i, k) in keys.iter().enumerate().rev() {
            at.entry(*k).or_default().push(i);
        }
        for (k, c) in old_keys.iter().zip(old.all()) {
            // equal ones in their order
            let to = at.get_mut(k).and_then(Vec::pop);
            if !to.is_some_and(|i| now.go_on(i, *c)) {
                self.gone.0 += c.0;
                self.gone.1 += c.1;
            }
        }
    }

    pub fn new(code: &Code) -> Counts {
        Counts {
            sites: vec![0; code.sites.len()],
            others: Vec::new(),
            before: Vec::new(),
            gone: (0, 0),
        }
    }
    #[inline]
    pub fn site(&mut self, site: u32) {
        self.site_many(site, 1);
    }
    /// So many at once.
    #[inline]
    pub fn site_many(&mut self, site: u32, packets: u64) {
        if let Some(n) = self.sites.get_mut(site as usize) {
            *n += packets;
        }
    }
    #[cold]
    pub fn punt(&mut self, elem: u32, cause: &'static str) {
        let known = self.others.iter().position(|o| o.0 == elem && o.1 == cause);
        if known.is_none() && self.others.len() < MAX_CAUSES {
            self.others.push((elem, cause, 0));
        }
        let at = known.unwrap_or(self.others.len() - 1);
        if let Some(o) = self.others.get_mut(at) {
            o.2 += 1;
        }
    }
}

/// Packets of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleCount {
    /// Stage, index into [`onefold_synth::program::Program::stages`].
    pub stage: usize,
    /// Rule of the stage.
    pub rule: usize,
    /// Action of the stage; all rules with the same action are one class.
    pub action: usize,
    /// Packets, as often as they came here.
    pub packets: u64,
    /// Their bytes when the epoch began.
    pub bytes: u64,
}

/// Packets of one traffic class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassCount {
    /// Stage.
    pub stage: usize,
    /// Action of the stage.
    pub action: usize,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Packets that left the program for one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PuntCount {
    /// At this element; its full name.
    pub element: String,
    /// Why.
    pub cause: String,
    /// The element was only asked, and the program went on behind it.
    pub asked: bool,
    /// How many.
    pub packets: u64,
}

/// All that a [`crate::program::ProgramRunner`] has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Packets that went through the program from its entry.
    pub packets: u64,
    /// Packets that went through the reference graph from the entry, because no program was valid for them.
    pub reference: u64,
    /// The same, because that is cheaper ([`crate::flow::FlowRunner`]).
    pub chosen: u64,
    /// Every rule.
    pub rules: Vec<RuleCount>,
    /// Packets and bytes of rules that a program had which has been replaced, and that its successors have not.
    pub gone: (u64, u64),
    /// Every cause, those that never happened included.
    pub punts: Vec<PuntCount>,
    /// Nodes of the search trees of all stages.
    pub tree_nodes: usize,
    /// Rules in their leaves, copies included.
    pub tree_entries: usize,
}

impl Report {
    /// Rules taken together by class: stage and action.
    pub fn classes(&self) -> Vec<ClassCount> {
        let mut all: std::collections::BTreeMap<(usize, usize), (u64, u64)> = Default::default();
        for r in &self.rules {
            let c = all.entry((r.stage, r.action)).or_default();
            c.0 += r.packets;
            c.1 += r.bytes;
        }
        all.into_iter()
            .map(|((stage, action), (packets, bytes))| ClassCount {
                stage,
                action,
                packets,
                bytes,
            })
            .collect()
    }
    /// Packets handed over to the reference graph, those that only asked an element excluded.
    pub fn punted(&self) -> u64 {
        let punts = self.punts.iter().filter(|p| !p.asked);
        punts.map(|p| p.packets).sum::<u64>() + self.reference
    }
}

/// Makes the report.
pub(crate) fn report(
    code: &Code,
    counts: &Counts,
    by_rule: &[(u64, u64)],
    names: &[String],
) -> Report {
    let mut rules = Vec::with_capacity(code.rule_action.len());
    for (i, s) in code.stages.iter().enumerate() {
        let next = code.stages.get(i + 1);
        let end = next.map_or(code.rule_action.len(), |n| n.rules as usize);
        for at in s.rules as usize..end {
            let (packets, bytes) = by_rule.get(at).copied().unwrap_or_default();
            let action = code.rule_action.get(at).copied().unwrap_or(s.actions);
            rules.push(RuleCount {
                stage: i,
                rule: at - s.rules as usize,
                action: (action - s.actions) as usize,
                packets,
                bytes,
            });
        }
    }
    let punts = merged(punts(code, counts, names));
    let (tree_nodes, tree_entries) = code.classifier.size();
    Report {
        packets: 0,
        reference: 0,
        chosen: 0,
        rules,
        gone: counts.gone,
        punts,
        tree_nodes,
        tree_entries,
    }
}

/// Every cause with its packets; the same one may come twice.
fn punts(code: &Code, counts: &Counts, names: &[String]) -> Vec<PuntCount> {
    let name = |e: u32| names.get(e as usize).cloned().unwrap_or_default();
    let sites = code.sites.iter().zip(&counts.sites);
    let mut punts: Vec<PuntCount> = sites
        .map(|(s, n)| PuntCount {
            element: name(s.elem),
            cause: s.cause.clone(),
            asked: s.asked,
            packets: *n,
        })
        .collect();
    punts.extend(counts.others.iter().map(|(e, cause, n)| PuntCount {
        element: name(*e),
        cause: cause.to_string(),
        asked: false,
        packets: *n,
    }));
    punts.extend(counts.before.iter().cloned());
    punts
}

/// Every cause once, the most frequent first.
fn merged(list: Vec<PuntCount>) -> Vec<PuntCount> {
    let mut at: HashMap<(String, String, bool), usize> = HashMap::new();
    let mut punts: Vec<PuntCount> = Vec::with_capacity(list.len());
    for p in list {
        let key = (p.element.clone(), p.cause.clone(), p.asked);
        match at.get(&key).and_then(|i| punts.get_mut(*i)) {
            Some(have) => have.packets += p.packets,
            None => {
                at.insert(key, punts.len());
                punts.push(p);
            }
        }
    }
    punts.sort_by(|a, b| {
        b.packets
            .cmp(&a.packets)
            .then_with(|| a.element.cmp(&b.element))
    });
    punts
}
