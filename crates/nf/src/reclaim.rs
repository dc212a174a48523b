//! After a process has ended: what it had comes back, and what was on its way stays so.

use crate::plan::{Plan, Purpose};
use crate::region::{Region, Ring};
use crate::ring::{Descriptor, RingMemory, read};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What a process had that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Slots, for [`Seat::reclaim`](crate::Seat::reclaim).
    pub slots: Vec<u32>,
    /// Packets that it had taken and not passed on: at most these are lost.
    pub lost: u64,
    /// Rings whose counters could not be, and which were emptied for that.
    pub emptied: u32,
}

/// A ring's counters.
struct Counters {
    head: u32,
    taken: u32,
    tail: u32,
}

/// Reads them; `None`: they cannot be.
fn counters(ring: &Ring) -> Option<Counters> {
    let head = ring.head().load(Ordering::Acquire);
    let taken = ring.taken().load(Ordering::Acquire);
    let tail = ring.tail().load(Ordering::Acquire);
    let ok = tail.wrapping_sub(head) <= ring.places()
        && taken.wrapping_sub(head) <= tail.wrapping_sub(head);
    ok.then_some(Counters { head, taken, tail })
}

/// Process `nf` has ended, and nobody is in its place yet: finds what it had, and makes its rings such that another one
/// can go on there. What waits in its inputs stays, and so does what it has sent.
///
/// A slot is its, if it was the last to take it out of a ring ([`Region::owners`]), and the slot is not in one of its
/// rings. Rings are looked at first: what a neighbour takes out of one meanwhile has another owner by then.
pub fn reclaim(region: &Arc<Region>, plan: &Plan, nf: u32) -> Reclaimed {
    let mut all = Reclaimed::default();
    if let Some(b) = region.nf(nf) {
        b.said().waiting.store(0, Ordering::Relaxed);
        b.sleeping().store(crate::bell::AWAKE, Ordering::Relaxed);
    }
    let slots = region.shape().slots as usize;
    let mut on_the_way = vec![false; slots];
    let mut claimed = vec![false; slots];
    let mark = |marks: &mut Vec<bool>, d: Descriptor| {
        if let Some(m) = marks.get_mut(d.slot as usize) {
            *m = true;
        }
    };
    for (number, r) in (0u32..).zip(&plan.rings) {
        if r.from != nf && r.to != nf {
            continue;
        }
        let Some(ring) = region.ring(number) else {
            continue;
        };
        let Some(c) = counters(&ring) else {
            // the other end's counter is the other end's; this one's may be anything
            empty(&ring, r.to == nf);
            all.emptied += 1;
            continue;
        };
        let from = match r.to == nf {
            true => {
                for n in 0..c.taken.wrapping_sub(c.head) {
                    let d = read(&ring, c.head.wrapping_add(n));
                    if r.purpose == Purpose::Packets && d.flags & Descriptor::MORE == 0 {
                        mark(&mut claimed, d);
                    }
                }
                ring.head().store(c.taken, Ordering::Release);
                c.taken
            }
            false => c.head,
        };
        for n in 0..c.tail.wrapping_sub(from) {
            mark(&mut on_the_way, read(&ring, from.wrapping_add(n)));
        }
    }
    let owners = region.owners().iter().zip(on_the_way.iter().zip(&claimed));
    for (slot, (owner, (on_the_way, claimed))) in (0u32..).zip(owners) {
        if owner.load(Ordering::Relaxed) == nf && !on_the_way {
            all.slots.push(slot);
            all.lost += u64::from(*claimed);
        }
    }
    all
}

/// Nothing is in a ring any more whose counters cannot be: the dead end's counters follow the living one's.
fn empty(ring: &Ring, consumer_is_dead: bool) {
    match consumer_is_dead {
        true => {
            let tail = ring.tail().load(Ordering::Acquire);
            ring.taken().store(tail, Ordering::Release);
            ring.head().store(tail, Ordering::Release);
        }
        false => {
            let taken = ring.taken().load(Ordering::Acquire);
            ring.tail().store(taken, Ordering::Release);
        }
    }
}

/// Is nothing under way in these rings? Whoever takes something out is done with it ([`crate::ring`]) only when what
/// came of it is in a ring, or is said to wait for room in one ([`Said::waiting`](crate::Said::waiting)): so if all
/// rings are empty, nothing waits, and nothing was put into any of them meanwhile, nothing is.
///
/// The caller puts nothing in meanwhile.
pub fn quiet(region: &Region, rings: &[Ring]) -> bool {
    let tails = || rings.iter().map(|r| r.tail().load(Ordering::Acquire));
    let before: Vec<u32> = tails().collect();
    let heads = rings.iter().map(|r| r.head().load(Ordering::Acquire));
    // in this order: a head that has come as far as its tail means that what came of it is said to wait, or is in a
    // ring; and what does not wait any more is in a ring, which is then seen in the tails that are read behind it
    let empty = heads.zip(&before).all(|(head, tail)| head == *tail);
    let nfs = (1..region.shape().nfs).filter_map(|nf| region.nf(nf));
    let mut waiting = nfs.map(|b| b.said().waiting.load(Ordering::Acquire));
    empty && waiting.all(|n| n == 0) && tails().zip(&before).all(|(now, then)| now == *then)
}
