//! A ring of packets, which are kept as runs of equal ones.

use crate::Nanos;
use crate::observation::Level;
use crate::topology::ChainSet;
use std::collections::VecDeque;

/// Packets that are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packets {
    pub chain: usize,
    pub number: u32,
    /// When they arrived at the chain.
    pub born: Nanos,
    pub ecn: bool,
    pub marked: bool,
}

/// At most as many runs as it has places.
#[derive(Debug)]
pub(super) struct Queue {
    runs: VecDeque<Packets>,
    len: u32,
    capacity: u32,
    of_chain: Vec<u32>,
}

impl Queue {
    pub fn new(capacity: u32, chains: usize) -> Queue {
        Queue {
            runs: VecDeque::new(),
            len: 0,
            capacity,
            of_chain: vec![0; chains],
        }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn level(&self) -> Level {
        Level {
            occupancy: self.len,
            capacity: self.capacity,
        }
    }

    /// Chains with packets in it.
    pub fn chains(&self) -> ChainSet {
        let some = self.of_chain.iter().enumerate().filter(|c| *c.1 > 0);
        some.fold(0, |set, (chain, _)| set | 1 << chain)
    }

    /// Puts in what there is room for. How many found none?
    pub fn push(&mut self, packets: Packets) -> u32 {
        let number = packets.number.min(self.capacity - self.len);
        if number > 0 {
            self.len += number;
            self.of_chain[packets.chain] += number;
            let like = |p: &Packets| Packets { number: 0, ..*p };
            match self.runs.back_mut() {
                Some(last) if like(last) == like(&packets) => last.number += number,
                _ => self.runs.push_back(Packets { number, ..packets }),
            }
        }
        packets.number - number
    }

    /// Takes out up to `most`, to the end of `to`. How many?
    pub fn take(&mut self, most: u32, to: &mut Vec<Packets>) -> u32 {
        let mut taken = 0;
        while let Some(first) = self.runs.front_mut() {
            let number = first.number.min(most - taken);
            if number == 0 {
                break;
            }
            to.push(Packets { number, ..*first });
            taken += number;
            self.of_chain[first.chain] -= number;
            first.number -= number;
            if first.number == 0 {
                self.runs.pop_front();
            }
        }
        self.len -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a queue of single packets: order, losses, lengths, chains.
        #[test]
        fn runs_are_packets(
            capacity in 1u32..50,
            steps in prop::collection::vec((any::<bool>(), 0usize..3, 0u32..40), 1..60),
        ) {
            let mut ring = Queue::new(capacity, 3);
            let mut model: VecDeque<(usize, Nanos)> = VecDeque::new();
            let mut out = Vec::new();
            for (i, (puts, chain, number)) in steps.into_iter().enumerate() {
                let born = i as Nanos / 4;
                if puts {
                    let lost = ring.push(Packets { chain, number, born, ecn: false, marked: false });
                    let fits = number.min(capacity - model.len() as u32);
                    prop_assert_eq!(lost, number - fits);
                    model.extend((0..fits).map(|_| (chain, born)));
                } else {
                    out.clear();
                    let n = ring.take(number, &mut out);
                    let single: Vec<_> = out.iter().flat_map(|p| (0..p.number).map(|_| (p.chain, p.born))).collect();
                    let want: Vec<_> = model.drain(..(number as usize).min(model.len())).collect();
                    prop_assert_eq!(n as usize, want.len());
                    prop_assert_eq!(single, want);
                }
                prop_assert_eq!(ring.len() as usize, model.len());
                prop_assert_eq!(ring.chains(), model.iter().fold(0, |s, p| s | 1 << p.0));
            }
        }
    }
}
