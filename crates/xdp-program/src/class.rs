//! What of a chain's program can be decided in front of it: packets of which nothing stays but counts.

use crate::rule::{Outcome, Rule};
use onefold_element::ElemId;
use onefold_element::model::HeaderCheck;
use onefold_synth::Program;
use onefold_synth::program::{
    Action, Dim, End, EndAt, Filter, LenAt, Origin, Stage, StageId, Step,
};
use std::collections::HashMap;

/// Most rules that are looked at, those of stages that rules go on to included.
const MOST_RULES: usize = 1 << 17;
/// Stages that follow each other.
const MOST_STAGES: usize = 16;
/// Bytes of a frame that are looked at, at most.
pub(crate) const REACH: u32 = 512;

/// Packets that the chain drops, and counts in the same places.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Class {
    /// Who drops them.
    pub elem: ElemId,
    /// Why.
    pub reason: String,
    /// Elements that count them, with their tag, and where the packet begins and ends there.
    pub counts: Vec<(ElemId, u16, LenAt)>,
    /// Arguments of lists of rules that decide about them, likewise; `None`: the list's policy.
    pub decisions: Vec<(ElemId, Option<u32>, LenAt)>,
    /// Where the packet ends in those of these places in which padding behind the IP packet has been cut off.
    pub cut: Option<EndAt>,
}

/// What has been counted of a class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Bytes of them behind [`Class::cut`].
    pub padding: u64,
}

impl Count {
    /// Numbers of a counter in the kernel: packets, bytes, padding.
    pub const WORDS: usize = 3;

    /// As they lie in the kernel.
    pub fn of(words: [u64; Count::WORDS]) -> Count {
        let [packets, bytes, padding] = words;
        Count {
            packets,
            bytes,
            padding,
        }
    }

    /// What has come since.
    pub fn since(self, before: Count) -> Count {
        Count {
            packets: self.packets.wrapping_sub(before.packets),
            bytes: self.bytes.wrapping_sub(before.bytes),
            padding: self.padding.wrapping_sub(before.padding),
        }
    }

    /// Bytes of these packets at some place of the chain.
    pub fn bytes_at(self, len: LenAt) -> u64 {
        let cut = match len.end {
            EndAt::Same => 0,
            EndAt::Ip4(_) | EndAt::Ip6(_) => self.padding,
        };
        let before = i64::from(len.start).wrapping_mul(self.packets as i64);
        self.bytes.wrapping_sub(cut).wrapping_sub(before as u64)
    }
}

/// Why a rule that drops is left to the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// It asks what is not in the frame, or sums over more of it than a header: tables, checksums of whole packets.
    Unseen,
    /// More happens on the way than counting, or whoever counts has to be told at once.
    Effect,
    /// Lengths ask for several ends of the packet.
    Ends,
    /// Nobody has proved that the chain does it.
    Unproved,
}

impl Left {
    /// All of them.
    pub const ALL: [Left; 4] = [Left::Unseen, Left::Effect, Left::Ends, Left::Unproved];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Left::Unseen => "they ask what is not in the headers",
            Left::Effect => "more happens to their packets than counting",
            Left::Ends => "their packets have several ends",
            Left::Unproved => "they are not proved",
        }
    }
}

/// Who may be told later that a packet has passed: [`onefold_element::Element::tells_later`] by element and tag.
pub type Waits<'a> = &'a dyn Fn(ElemId, u16) -> bool;
/// Is a class of the program, by stage and action, what the chain does?
pub type Trusts<'a> = &'a dyn Fn(usize, usize) -> bool;
/// Which worker packets of a rule go to, by stage and rule; `None`: nothing is said.
pub type Assign<'a> = &'a dyn Fn(usize, usize) -> Option<u32>;

/// What a program is made of.
pub struct Input<'a> {
    /// The chain's program.
    pub program: &'a Program,
    /// Where packets of the port enter.
    pub entry: StageId,
    /// Who may be told later.
    pub waits: Waits<'a>,
    /// Which classes may be dropped.
    pub trusts: Trusts<'a>,
    /// Which worker packets go to, for [`crate::Dispatch::Classes`].
    pub assign: Assign<'a>,
}

/// Rules and classes of an entry.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    /// First match; what fits none passes.
    pub rules: Vec<Rule>,
    pub classes: Vec<Class>,
    /// Rules that drop and are no class's, by [`Left`].
    pub left: [usize; Left::ALL.len()],
    numbers: HashMap<Class, u32>,
}

/// What has happened to a packet on its way to a rule.
#[derive(Debug, Clone, Default)]
struct Way {
    counts: Vec<(ElemId, u16, LenAt)>,
    decisions: Vec<(ElemId, Option<u32>, LenAt)>,
}

/// Reads an entry's stage, and those that follow in the same epoch.
pub(crate) fn read(input: &Input<'_>, by_class: bool) -> Classes {
    let mut c = Classes::default();
    let reader = Reader { input, by_class };
    let entry = input.entry.0 as usize;
    if let Some(s) = input.program.stages.get(entry) {
        let (all, way) = (Filter::default(), Way::default());
        reader.stage(&mut c, (entry, s), &all, &way, 0);
    }
    c
}

struct Reader<'a> {
    input: &'a Input<'a>,
    by_class: bool,
}

impl Reader<'_> {
    fn stage(
        &self,
        c: &mut Classes,
        (number, stage): (usize, &Stage),
        within: &Filter,
        way: &Way,
        depth: usize,
    ) {
        for (i, r) in stage.rules.iter().enumerate() {
            let Some(filter) = both(within, &r.filter) else {
                continue;
            };
            if c.rules.len() >= MOST_RULES {
                break;
            }
            // what cannot be looked at may be so or not: such packets pass
            let whole = filter.0.iter().all(|(d, _)| can_see(*d));
            let to = self
                .by_class
                .then(|| (self.input.assign)(number, i))
                .flatten();
            let pass = || to.map_or(Outcome::Pass, Outcome::To);
            let trusted = (self.input.trusts)(number, r.action.0 as usize);
            let Some(a) = stage.actions.get(r.action.0 as usize) else {
                continue;
            };
            let along = self.along(way, a, &r.origin);
            let outcome = match (&a.end, along) {
                (End::Drop { .. }, _) if !trusted => c.leave(Left::Unproved, pass()),
                (End::Drop { .. }, _) if !whole => c.leave(Left::Unseen, pass()),
                (End::Drop { .. }, None) => c.leave(Left::Effect, pass()),
                (End::Drop { elem, reason }, Some(way)) => match class(*elem, reason, way) {
                    Some(class) => c.drop(class),
                    None => c.leave(Left::Ends, pass()),
                },
                (End::Goto(to), Some(way)) if whole && trusted => {
                    if let Some(s) = self.input.program.stages.get(to.0 as usize)
                        && depth < MOST_STAGES
                        && !s.fresh
                    {
                        self.stage(c, (to.0 as usize, s), &filter, &way, depth + 1);
                    }
                    // what none of its rules takes
                    Outcome::Pass
                }
                _ => pass(),
            };
            let outcome = match (whole, outcome) {
                (false, Outcome::To(_)) => Outcome::Pass,
                (_, o) => o,
            };
            c.rules.push(Rule::new(&filter, outcome));
        }
    }

    /// The way with an action's counts and a rule's decisions; `None` where more happens than counting.
    fn along(&self, way: &Way, a: &Action, origin: &[Origin]) -> Option<Way> {
        let mut way = way.clone();
        for s in &a.steps {
            match s {
                Step::Count { elem, tag, len } if (self.input.waits)(*elem, *tag) => {
                    way.counts.push((*elem, *tag, *len));
                }
                _ => return None,
            }
        }
        for o in origin {
            if let Some(c) = o.counted {
                way.decisions.push((o.elem, o.arg, c.len));
            }
        }
        Some(way)
    }
}

fn both(a: &Filter, b: &Filter) -> Option<Filter> {
    let mut f = a.clone();
    let all = b.0.iter().all(|(d, set)| f.narrow(*d, set, d.width()));
    all.then_some(f)
}

/// `None` where lengths ask for more than one end of the packet.
fn class(elem: ElemId, reason: &str, way: Way) -> Option<Class> {
    let lens = way.counts.iter().map(|c| c.2);
    let lens = lens.chain(way.decisions.iter().map(|d| d.2));
    let mut cut = None;
    for end in lens.map(|l| l.end).filter(|e| *e != EndAt::Same) {
        let (EndAt::Ip4(at) | EndAt::Ip6(at)) = end else {
            continue;
        };
        let near = u32::try_from(at).is_ok_and(|at| at + 8 <= REACH);
        if !near || cut.is_some_and(|c| c != end) {
            return None;
        }
        cut = Some(end);
    }
    Some(Class {
        elem,
        reason: reason.to_string(),
        counts: way.counts,
        decisions: way.decisions,
        cut,
    })
}

impl Classes {
    fn leave(&mut self, why: Left, o: Outcome) -> Outcome {
        if let Some(n) = self.left.get_mut(why as usize) {
            *n += 1;
        }
        o
    }

    fn drop(&mut self, class: Class) -> Outcome {
        let next = self.classes.len() as u32;
        let n = *self.numbers.entry(class.clone()).or_insert(next);
        if n == next {
            self.classes.push(class);
        }
        Outcome::Drop(n)
    }
}

/// Bytes that must be there to answer; `None`: the code cannot ask that.
pub(crate) fn needs(d: Dim) -> Option<u32> {
    let bytes = match d {
        Dim::Len => 0,
        Dim::Bits { bit, bits } => {
            let bit = u32::try_from(bit).ok()?;
            let end = bit.checked_add(u32::from(bits))?;
            let (first, last) = (bit / 8, end.div_ceil(8));
            let aligned = bit.is_multiple_of(8) && bits.is_multiple_of(8);
            if !(last - first <= 8 || aligned && last - first <= 16) {
                return None;
            }
            last
        }
        Dim::Check { check, at, end } => {
            let at = u32::try_from(at).ok().filter(|_| end == EndAt::Same)?;
            match check {
                HeaderCheck::Ip4Fits | HeaderCheck::Ip4Checksum => at.checked_add(20)?,
                HeaderCheck::Ip6Fits => at.checked_add(40)?,
                _ => return None,
            }
        }
        Dim::Slot(_) | Dim::Anno(_) | Dim::PacketType | Dim::Route { .. } => return None,
    };
    (bytes <= REACH).then_some(bytes)
}

pub(crate) fn can_see(d: Dim) -> bool {
    needs(d).is_some()
}
