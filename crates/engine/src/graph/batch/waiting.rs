//! What waits where: packets at inputs, by rank.

use onefold_packet::Pkt;
use std::collections::VecDeque;

/// Packets that wait, and where something does.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    slots: Vec<Slot>,
    /// Ranks at which something waits, one bit each.
    ready: Vec<u64>,
    /// No word of `ready` before this one is set.
    first: usize,
}

/// What waits at a rank.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub batch: Vec<Pkt>,
    /// Where packets take turns: those that wait, instead of `batch`.
    pub turns: VecDeque<Pkt>,
    pub hops: u32,
    /// They are in order.
    pub sorted: bool,
    takes_turns: bool,
}

/// Packets on their way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Going {
    /// Elements passed, by the packet that has passed most ([`onefold_packet::Packet::behind`]).
    pub hops: u32,
    /// They are in order.
    pub sorted: bool,
}

impl Clone for Waiting {
    /// Nothing waits between injections.
    fn clone(&self) -> Self {
        Waiting::default()
    }
}

impl Waiting {
    /// For so many ranks; at those that are named packets take turns.
    pub fn new(takes_turns: impl ExactSizeIterator<Item = bool>) -> Self {
        Waiting {
            ready: vec![0; takes_turns.len().div_ceil(64)],
            slots: takes_turns
                .map(|takes_turns| Slot {
                    takes_turns,
                    ..Slot::default()
                })
                .collect(),
            first: 0,
        }
    }

    /// How many ranks there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn set_ready(&mut self, rank: usize) {
        self.ready[rank / 64] |= 1 << (rank % 64);
        self.first = self.first.min(rank / 64);
    }

    /// Adds packets to those that wait at a rank. Leaves `batch` empty.
    #[inline]
    pub fn add(&mut self, rank: u32, batch: &mut Vec<Pkt>, going: Going) {
        let rank = rank as usize;
        let Some(first) = batch.first() else { return };
        let order = first.order;
        let slot = &mut self.slots[rank];
        if !slot.takes_turns && slot.batch.is_empty() {
            std::mem::swap(&mut slot.batch, batch);
            (slot.hops, slot.sorted) = (going.hops, going.sorted);
        } else if slot.takes_turns && slot.turns.is_empty() {
            (slot.hops, slot.sorted) = (going.hops, going.sorted);
            slot.turns.extend(batch.drain(..));
        } else {
            let last = match slot.takes_turns {
                true => slot.turns.back(),
                false => slot.batch.last(),
            };
            let in_order = last.is_some_and(|l| l.order <= order);
            slot.sorted &= going.sorted && in_order;
            if slot.hops != going.hops {
                slot.meet(batch, going.hops);
            }
            match slot.takes_turns {
                true => slot.turns.extend(batch.drain(..)),
                false => slot.batch.append(batch),
            }
        }
        self.set_ready(rank);
    }

    /// [`Waiting::add`] for one packet.
    pub fn add_one(&mut self, rank: u32, p: Pkt, hops: u32) {
        let mut one = vec![p];
        self.add(rank, &mut one, Going { hops, sorted: true });
    }

    /// Does anything wait at this rank?
    #[inline]
    pub fn has(&self, rank: u32) -> bool {
        let word = self.ready.get(rank as usize / 64).copied().unwrap_or(0);
        word >> (rank % 64) & 1 != 0
    }

    /// The lowest rank at which something waits.
    #[inline]
    pub fn lowest(&mut self) -> Option<u32> {
        while let Some(word) = self.ready.get(self.first) {
            if *word != 0 {
                return Some(self.first as u32 * 64 + word.trailing_zeros());
            }
            self.first += 1;
        }
        None
    }

    /// Does anything wait at this rank or before it?
    #[inline]
    pub fn any_before(&mut self, rank: u32) -> bool {
        self.lowest().is_some_and(|lowest| lowest <= rank)
    }

    /// The next rank from this one to before `end` at which something waits.
    pub fn next_from(&self, from: u32, end: u32) -> Option<u32> {
        let mut at = from as usize;
        // Bound: each word once.
        while at < end as usize {
            let word = self.ready.get(at / 64)? >> (at % 64);
            if word != 0 {
                let found = at as u32 + word.trailing_zeros();
                return (found < end).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Nothing waits at this rank any more.
    #[inline]
    pub fn done(&mut self, rank: u32) {
        self.ready[rank as usize / 64] &= !(1 << (rank % 64));
    }

    /// What waits at a rank comes in `batch`, which has to be empty.
    #[inline]
    pub fn take(&mut self, rank: u32, batch: &mut Vec<Pkt>) -> Going {
        self.done(rank);
        let slot = &mut self.slots[rank as usize];
        std::mem::swap(&mut slot.batch, batch);
        Going {
            hops: slot.hops,
            sorted: slot.sorted,
        }
    }

    /// What waits at a rank.
    #[inline]
    pub fn slot(&mut self, rank: u32) -> &mut Slot {
        &mut self.slots[rank as usize]
    }

    /// All packets that wait.
    pub fn packets(&mut self) -> impl Iterator<Item = &mut Pkt> {
        (self.slots.iter_mut()).flat_map(|s| s.batch.iter_mut().chain(s.turns.iter_mut()))
    }
}

impl Slot {
    /// Packets that have passed so many elements are about to go on with those that wait here.
    fn meet(&mut self, batch: &mut [Pkt], hops: u32) {
        let fewer = hops.abs_diff(self.hops);
        match hops < self.hops {
            true => batch.iter_mut().for_each(|p| p.behind += fewer),
            false => {
                let waiting = self.batch.iter_mut().chain(&mut self.turns);
                waiting.for_each(|p| p.behind += fewer);
            }
        }
        self.hops = self.hops.max(hops);
    }

    /// Packets that take turns are put in order.
    pub fn sort_turns(&mut self) {
        if !self.sorted {
            self.turns.make_contiguous().sort_by_key(|p| p.order);
            self.sorted = true;
        }
    }
}
