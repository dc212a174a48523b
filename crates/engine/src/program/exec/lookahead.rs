//! Look-ahead: which rule of the stage behind an element that is asked will take a packet, looked up for a whole
//! batch before the first of its packets is carried out.
//!
//! A stage's rules are looked up for many packets at once in a fraction of the time that one by one takes. Behind an
//! element that is asked (a connection tracker) packets come one by one. Where the element only says which way a packet
//! goes ([`Element::only_tells`](onefold_element::Element::only_tells)), and the rules of the stage that packets have
//! come to last read nothing but bits of the packet, what they will say is known before. Which stage a packet comes to
//! is not: what was looked up for another one is worth nothing.

use crate::graph::core::Core;
use crate::program::code::{Code, End, NONE};
use crate::program::headers::registers::{Regs, Source};
use crate::program::lookup;
use crate::program::lookup::columns::Scratch;
use crate::program::lookup::tree::{Condition, NO_RULE};
use onefold_packet::{Packet, Pkt};

/// Fewer packets are looked up one by one.
const LEAST: usize = 4;

/// See the module's text.
#[derive(Debug, Clone)]
pub(crate) struct Lookahead {
    /// A rule at which an element is asked, and the stage that its packets have come to last.
    likely: (usize, u32),
    /// The stage that has been looked up, and by packet of the batch its rule.
    stage: u32,
    rules: Vec<u32>,
    /// That of the packet that is carried out.
    now: u32,
    /// Packets that are looked up, by their number in the batch; what is said of them.
    places: Vec<u32>,
    found: Vec<u32>,
}

impl Default for Lookahead {
    fn default() -> Lookahead {
        Lookahead {
            likely: (usize::MAX, NONE),
            stage: NONE,
            rules: Vec::new(),
            now: NO_RULE,
            places: Vec::new(),
            found: Vec::new(),
        }
    }
}

impl Lookahead {
    /// A packet of the batch is carried out: this one, or one of which nothing is known.
    #[inline]
    pub fn begin(&mut self, number: Option<usize>) {
        let rule = number.and_then(|i| self.rules.get(i));
        self.now = rule.copied().unwrap_or(NO_RULE);
    }

    /// A packet has been asked about by a rule, after so many stages, and comes to this stage: its rule there, if that
    /// was looked up ahead.
    #[inline]
    pub fn learn(&mut self, (rule, stages): (usize, u32), stage: u32) -> Option<u32> {
        // behind its first stage a packet may have been changed, or be a copy
        if stages != 1 {
            return None;
        }
        self.likely = (rule, stage);
        let known = std::mem::replace(&mut self.now, NO_RULE);
        (known != NO_RULE && self.stage == stage).then_some(known)
    }
}

/// How many bytes of a packet a stage's rules read; `None`: they read something else.
pub(crate) fn reach(rules: &[Vec<Condition>], sources: &[Source]) -> Option<u32> {
    let mut most = 0;
    for c in rules.iter().flatten() {
        match sources.get(usize::from(c.reg)) {
            Some(Source::Bits(b)) => most = most.max(b.first() + i32::from(b.bytes())),
            _ => return None,
        }
    }
    u32::try_from(most).ok()
}

/// Packets are about to go through the program with these rules of a stage, whose first one among all is `first_rule`.
pub(crate) fn look_ahead(
    (code, core): (&Code, &Core),
    f: &mut Lookahead,
    (regs, scratch): (&mut Regs, &mut Option<Box<Scratch>>),
    batch: &mut [Pkt],
    (first_rule, rules): (u32, &[u32]),
) {
    f.rules.clear();
    f.places.clear();
    let (rule, stage) = f.likely;
    if let Some(start) = moves(code, core, rule)
        && let Some(s) = code.stages.get(stage as usize)
        && let Some(reach) = s.reach
    {
        let is_it = |r: &u32| *r != NO_RULE && first_rule.saturating_add(*r) as usize == rule;
        for (i, (p, r)) in (0..).zip(batch.iter_mut().zip(rules)) {
            if is_it(r) && whole(code, rule, p, start + reach) {
                p.pull(start as usize);
                f.places.push(i);
            }
        }
        if f.places.len() >= LEAST {
            let some = f.places.iter().filter_map(|i| batch.get(*i as usize));
            let some: Vec<&Packet> = some.map(|p| &**p).collect();
            let scratch = scratch.get_or_insert_with(|| Box::new(Scratch::new()));
            lookup::first_rules(code.lookup_of(s), regs, scratch, &some, &mut f.found);
            f.rules.resize(batch.len(), NO_RULE);
            for (i, found) in f.places.iter().zip(&f.found) {
                if let Some(to) = f.rules.get_mut(*i as usize) {
                    *to = *found;
                }
            }
            f.stage = stage;
        }
        for i in &f.places {
            if let Some(p) = batch.get_mut(*i as usize) {
                p.push(start as usize);
            }
        }
    }
}

/// How far the beginning of packets moves that this rule has an element asked about, if nothing else happens to their
/// bytes.
fn moves(code: &Code, core: &Core, rule: usize) -> Option<u32> {
    let End::Ask { to, image, .. } = code.action_of(u32::try_from(rule).ok()?)?.end else {
        return None;
    };
    let m = code.images.get(image as usize)?;
    let elem = core.nodes.get(to.node as usize)?.elem.as_ref()?;
    let as_it_is = m.writes.is_empty() && m.sums.is_empty() && elem.only_tells();
    u32::try_from(m.start).ok().filter(|_| as_it_is)
}

/// Will so many bytes of a packet be left when the element is asked?
fn whole(code: &Code, rule: usize, p: &Packet, least: u32) -> bool {
    let action = u32::try_from(rule).ok().and_then(|r| code.action_of(r));
    let Some(End::Ask { image, .. }) = action.map(|a| a.end) else {
        return false;
    };
    let m = code.images.get(image as usize);
    p.len() >= least as usize && m.is_some_and(|m| m.end(p) >= i64::from(least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::headers::registers::Bits;
    use onefold_element::model::ValueSet;

    #[test]
    fn a_rule_is_told_once_and_for_its_stage() {
        let mut f = Lookahead {
            stage: 3,
            rules: vec![5, NO_RULE],
            ..Lookahead::default()
        };
        f.begin(Some(0));
        assert_eq!((f.learn((9, 1), 3), f.learn((9, 1), 3)), (Some(5), None));
        f.begin(Some(0));
        assert_eq!(f.learn((9, 1), 4), None);
        assert_eq!(f.likely, (9, 4));
        // nothing is known of the second packet, of a third one, and of one that is in no batch
        for number in [Some(1), Some(2), None] {
            f.begin(number);
            assert_eq!(f.learn((9, 1), 3), None, "{number:?}");
        }
        // behind the first stage it may be another packet
        f.begin(Some(0));
        assert_eq!(f.learn((8, 2), 3), None);
        assert_eq!(f.likely, (9, 3));
    }

    #[test]
    fn stages_that_read_more_than_bits_are_not_looked_up() {
        let sources = [
            Source::Slot,
            Source::Bits(Bits::new(72, 8)),
            Source::Bits(Bits::new(160, 16)),
            Source::Len,
            Source::Bits(Bits::new(-16, 16)),
        ];
        let on = |reg| Condition {
            reg,
            bits: 16,
            set: ValueSet::one(6),
            lazy: false,
        };
        assert_eq!(
            reach(&[vec![on(1)], vec![on(2), on(1)]], &sources),
            Some(22)
        );
        assert_eq!(reach(&[vec![on(4)]], &sources), Some(0));
        for other in [0, 3, 9] {
            assert_eq!(reach(&[vec![on(1)], vec![on(other)]], &sources), None);
        }
    }
}
