//! What an element lets the batched engine do, and help for [`Element::pass`](crate::Element::pass).

use crate::class::Effect;
use crate::{Port, RuleCounters};
use onefold_packet::{Packet, Pkt};

/// What the batched engine may do at an element, so that a batch leaves it as the same packets would one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Batching {
    /// Packets may come in any order: what becomes of one does not depend on others, and what is counted only adds
    /// up.
    AnyOrder,
    /// Packets come in the order in which they arrived: what becomes of one depends on those before it. Nothing but
    /// packets that leave follows from one.
    InOrder,
    /// More than that may follow: a task is woken, a timer is set. It has happened before anything follows from a
    /// later packet, here and wherever packets go from here.
    Alone,
    /// Handlers of other elements may be called: no later packet has come to any element before.
    Calls,
}

impl Batching {
    /// What is safe for elements of a class with this effect.
    pub fn of(effect: Effect) -> Batching {
        match effect {
            Effect::Pure | Effect::CommutativeCount => Batching::AnyOrder,
            Effect::PerFlow | Effect::OrderSensitive => Batching::InOrder,
            Effect::Timed | Effect::Random | Effect::Originating | Effect::Holding => {
                Batching::Alone
            }
        }
    }
}

/// How closely an element looks at the clock: packets of a batch that it would tell apart are given to it one after
/// the other, each at its own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Not at all.
    Unread,
    /// It tells times apart that lie in different steps of so many nanoseconds (at least 1), counted from zero.
    Steps(i64),
}

impl Clock {
    /// What is safe for elements of a class with this effect.
    pub fn of(effect: Effect) -> Clock {
        match effect {
            Effect::Pure | Effect::CommutativeCount => Clock::Unread,
            _ => Clock::Steps(1),
        }
    }
    /// The millisecond: rewriters' stamps, rates' epochs, ARP tables.
    pub const MILLISECONDS: Clock = Clock::Steps(1_000_000);
}

/// For elements whose packets nearly all leave at output 0 after a change in place: `fast` makes the change and says
/// true, or leaves the packet alone and says false.
#[inline]
pub fn pass_while(batch: &mut [Pkt], mut fast: impl FnMut(&mut Packet) -> bool) -> (Port, usize) {
    let done = batch.iter_mut().position(|p| !fast(p));
    (0, done.unwrap_or(batch.len()))
}

/// For lists of rules, which change nothing: `decide` says to which output a packet goes, and by which argument, if it
/// goes anywhere. Takes the packets from the first on that go where the first one goes, and counts them.
#[inline]
pub fn pass_alike(
    batch: &[Pkt],
    counters: &mut RuleCounters,
    decide: impl Fn(&Packet) -> Option<(Port, usize)>,
) -> (Port, usize) {
    let Some((to, mut argument)) = batch.first().and_then(|p| decide(p)) else {
        return (0, 0);
    };
    for (i, p) in batch.iter().enumerate() {
        counters.packet(Some(argument), p.len());
        match batch.get(i + 1).and_then(|next| decide(next)) {
            Some((output, next)) if output == to => argument = next,
            _ => return (to, i + 1),
        }
    }
    (to, batch.len())
}
