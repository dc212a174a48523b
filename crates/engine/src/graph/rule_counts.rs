//! What a program's rules have decided in place of the chain's lists of rules, and when the lists' counters are told.
//!
//! A program counts packets and bytes by its own rules; each knows which argument of which list its packets were decided by on the way
//! ([`onefold_synth::program::Origin`]). Elements are told in sums, when somebody reads their counters, and not before: what packets cost does not
//! grow with the number of lists that they pass. The ledger belongs to the graph, so that whoever reads a handler, elements included, finds everything told.
//!
//! Bytes follow from the packet's length when the epoch began and what was stripped since; where padding behind the IP packet has been cut off
//! before a list, the padding of a rule's packets is counted, too. Packets that leave an action at a binding that was not the expected
//! one do not come to the lists behind it: they are taken off as they leave.

use crate::graph::core::Node;
use onefold_element::RuleCount;
use onefold_packet::Packet;
use onefold_synth::program::{EndAt, LenAt};
use std::collections::HashMap;
use std::sync::Arc;

/// A list's argument (or policy) that decides about a program rule's packets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decision {
    pub elem: u32,
    pub arg: Option<u32>,
    pub len: LenAt,
    /// See [`onefold_synth::program::Counted::binds`].
    pub binds: u16,
}

impl Decision {
    /// Bytes of so many packets there, with so many bytes when the epoch began, and so many that are cut off if the packet ends
    /// there as its IP header says.
    fn bytes(&self, packets: u64, bytes: u64, padding: u64) -> u64 {
        let cut = match self.len.end {
            EndAt::Same => 0,
            EndAt::Ip4(_) | EndAt::Ip6(_) => padding,
        };
        let before = i64::from(self.len.start).wrapping_mul(packets as i64);
        bytes.wrapping_sub(cut).wrapping_sub(before as u64)
    }
}

/// Decisions of all rules of a program.
#[derive(Debug, Default)]
pub(crate) struct Decisions {
    all: Vec<Decision>,
    /// By rule: where its own end.
    ends: Vec<u32>,
}

impl Decisions {
    /// The next rule's.
    pub fn push(&mut self, rule: impl Iterator<Item = Decision>) {
        self.all.extend(rule);
        self.ends.push(self.all.len() as u32);
    }
    /// A rule's.
    pub fn of(&self, rule: usize) -> &[Decision] {
        let to = self.ends.get(rule).map_or(0, |e| *e as usize);
        let from = match rule.checked_sub(1) {
            Some(before) => self.ends.get(before).map_or(0, |e| *e as usize),
            None => 0,
        };
        self.all.get(from..to).unwrap_or_default()
    }
}

/// Counts of a program's rules, and what of them lists have not been told.
#[derive(Debug, Clone, Default)]
pub(crate) struct RuleLedger {
    decisions: Arc<Decisions>,
    /// By rule, among all: packets, bytes when the epoch began.
    rules: Vec<(u64, u64)>,
    /// The same, as far as it has been told.
    told: Vec<(u64, u64)>,
    /// Bytes behind the IP packet's end, of rules with one such end; not told.
    padding: Vec<u64>,
    /// To be told as soon as the element is not at work. Numbers may be less than nothing until all is told: they wrap.
    waiting: HashMap<(u32, Option<u32>), RuleCount>,
}

impl RuleLedger {
    /// Nothing is counted.
    pub fn new(decisions: Arc<Decisions>, rules: usize) -> RuleLedger {
        RuleLedger {
            decisions,
            rules: vec![(0, 0); rules],
            told: vec![(0, 0); rules],
            padding: vec![0; rules],
            waiting: HashMap::new(),
        }
    }

    /// A rule will be counted soon.
    #[inline]
    pub fn ask(&self, rule: usize) {
        if let Some(c) = self.rules.get(rule) {
            onefold_table::prefetch(c);
        }
    }

    /// A packet of a rule.
    #[inline(always)]
    pub fn class(&mut self, rule: usize, bytes: usize) {
        if let Some(c) = self.rules.get_mut(rule) {
            c.0 += 1;
            c.1 += bytes as u64;
        }
    }

    /// So many packets of so many bytes in all, and so many of them behind the end that the IP header says.
    pub fn classes(&mut self, rule: usize, packets: u64, bytes: u64, padding: u64) {
        if let Some(c) = self.rules.get_mut(rule) {
            c.0 += packets;
            c.1 += bytes;
        }
        if let Some(p) = self.padding.get_mut(rule) {
            *p += padding;
        }
    }

    /// So many bytes of a packet of the rule lie behind the end that lists see.
    #[inline(never)]
    pub fn padded(&mut self, rule: usize, padding: usize) {
        if let Some(p) = self.padding.get_mut(rule) {
            *p += padding as u64;
        }
    }

    /// The same for a rule whose lists see different ends: `end` finds them.
    #[cold]
    pub fn padded_each(&mut self, rule: usize, p: &Packet, end: impl Fn(EndAt) -> usize) {
        for d in self.decisions.of(rule) {
            let padding = p.len().saturating_sub(end(d.len.end)) as u64;
            let w = self.waiting.entry((d.elem, d.arg)).or_default();
            w.bytes = w.bytes.wrapping_sub(padding);
        }
    }

    /// Packets of the rule, counted with it, have left its action at this binding (from 0): lists behind it did not see them. `padding`: how many of their
    /// bytes lie behind an end.
    #[cold]
    pub fn left(
        &mut self,
        rule: usize,
        bind: u16,
        (packets, bytes): (u64, u64),
        padding: impl Fn(EndAt) -> u64,
    ) {
        for d in self.decisions.of(rule).iter().filter(|d| d.binds > bind) {
            let w = self.waiting.entry((d.elem, d.arg)).or_default();
            w.packets = w.packets.wrapping_sub(packets);
            let there = d.bytes(packets, bytes, padding(d.len.end));
            w.bytes = w.bytes.wrapping_sub(there);
        }
    }

    /// All rules'.
    pub fn all(&self) -> &[(u64, u64)] {
        &self.rules
    }

    /// A rule goes on with what a program before this one has counted, and told.
    pub fn go_on(&mut self, rule: usize, count: (u64, u64)) -> bool {
        match (self.rules.get_mut(rule), self.told.get_mut(rule)) {
            (Some(c), Some(t)) => {
                (*c, *t) = (count, count);
                true
            }
            _ => false,
        }
    }
    /// What could not be told yet is told by this one.
    pub fn take_waiting(&mut self, old: &mut RuleLedger) {
        self.waiting = std::mem::take(&mut old.waiting);
    }

    /// Lists are told of all that their counters do not have.
    pub fn tell(&mut self, nodes: &mut [Node]) {
        let told = self.told.iter_mut().zip(&mut self.padding);
        for (i, (now, (told, padding))) in self.rules.iter().zip(told).enumerate() {
            if *now == *told {
                continue;
            }
            let (packets, bytes) = (now.0 - told.0, now.1 - told.1);
            let padding = std::mem::take(padding);
            for d in self.decisions.of(i) {
                let w = self.waiting.entry((d.elem, d.arg)).or_default();
                w.packets = w.packets.wrapping_add(packets);
                w.bytes = w.bytes.wrapping_add(d.bytes(packets, bytes, padding));
            }
            *told = *now;
        }
        self.waiting.retain(|(elem, arg), c| {
            let node = nodes.get_mut(*elem as usize);
            let Some(e) = node.and_then(|n| n.elem.as_mut()) else {
                return true;
            };
            if let Some(counters) = e.rule_counters_mut() {
                counters.add(arg.map(|a| a as usize), c.packets, c.bytes);
            }
            false
        });
    }
}
