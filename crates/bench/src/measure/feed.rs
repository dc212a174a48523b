//! Packets ready before the clock starts: templates, the order in which they come, and the buffers that they are copied to.

use crate::rng::Rng;
use crate::zipf::Zipf;
use onefold_packet::{Packet, Pkt, Timestamp};
use std::collections::VecDeque;

/// Bytes from one buffer to the next: an odd number of cache lines, so that headers of packets in flight do not share a
/// few sets of the cache.
pub const STRIDE: usize = 2112;
/// What an allocation needs beside its bytes.
const ALLOCATION: usize = 16;
/// Buffers in the pool, as many as descriptors of a common receive ring.
pub const BUFFERS: usize = 4096;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Fewest places in an order, so that no short pattern is learnt by the processor.
pub const MIN_ORDER: usize = 1 << 20;
/// Most places in an order: it comes again from its start then.
pub const MAX_ORDER: usize = 1 << 26;

/// Frames in memory, one after the other, each at the start of a cache line.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    bytes: Vec<u8>,
    base: usize,
    /// Start (from the base) and length of each.
    spans: Vec<(usize, usize)>,
    /// Frames of a flow.
    per_flow: usize,
}

impl Templates {
    /// Copies of the frames, `per_flow` for each flow, one after the other.
    pub fn new(frames: &[Vec<u8>], per_flow: usize) -> Templates {
        let room = |f: &Vec<u8>| f.len().next_multiple_of(LINE);
        let all: usize = frames.iter().map(room).sum();
        let mut bytes = vec![0u8; all + LINE];
        let base = bytes.as_ptr().align_offset(LINE).min(LINE);
        let mut at = 0;
        let mut spans = Vec::with_capacity(frames.len());
        for f in frames {
            if let Some(to) = bytes.get_mut(base + at..base + at + f.len()) {
                to.copy_from_slice(f);
            }
            spans.push((at, f.len()));
            at += room(f);
        }
        Templates {
            bytes,
            base,
            spans,
            per_flow: per_flow.max(1),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }
    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
    /// Flows.
    pub fn flows(&self) -> usize {
        self.spans.len() / self.per_flow
    }
    /// The longest.
    pub fn longest(&self) -> usize {
        self.spans.iter().map(|s| s.1).max().unwrap_or(0)
    }
    /// One of them; nothing beyond the end.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let (at, len) = self.spans.get(i).copied().unwrap_or_default();
        let at = self.base + at;
        self.bytes.get(at..at + len).unwrap_or_default()
    }
}

/// The order in which templates come.
#[derive(Debug, Clone)]
pub struct Order {
    places: Vec<u32>,
}

impl Order {
    /// Of these templates. Without Zipf's law rounds, each of which has every template once, in a random order of its own. With
    /// it, each packet's flow is drawn with this exponent; popularity has nothing to do with the place in memory.
    pub fn new(t: &Templates, zipf: f64, seed: u64) -> Order {
        let n = t.len().min(u32::MAX as usize) as u32;
        let mut rng = Rng::stream(seed, 0x006f_7264_6572);
        let wanted = MIN_ORDER.max(10 * t.len()).min(MAX_ORDER.max(t.len()));
        let mut places = Vec::with_capacity(wanted + t.len());
        if n == 0 {
            return Order { places };
        }
        if zipf > 0.0 {
            let flows = t.flows().max(1) as u32;
            let mut by_rank: Vec<u32> = (0..flows).collect();
            rng.shuffle(&mut by_rank);
            let law = Zipf::new(flows, zipf);
            while places.len() < wanted {
                let rank = law.draw(&mut rng).saturating_sub(1) as usize;
                let flow = by_rank.get(rank).copied().unwrap_or(0);
                let k = rng.below(t.per_flow as u64) as u32;
                places.push(flow * t.per_flow as u32 + k);
            }
            return Order { places };
        }
        let mut round: Vec<u32> = (0..n).collect();
        while places.len() < wanted {
            rng.shuffle(&mut round);
            places.extend_from_slice(&round);
        }
        Order { places }
    }

    /// The places, in order; after the last, the first comes again.
    pub fn places(&self) -> &[u32] {
        &self.places
    }
}

/// The buffers: taken in turn, as descriptors of a ring are.
#[derive(Debug)]
pub struct Ring {
    free: VecDeque<Pkt>,
}

impl Ring {
    /// Buffers for packets of up to `longest` bytes.
    pub fn new(longest: usize) -> Ring {
        let stride = match longest + 256 > STRIDE {
            false => STRIDE,
            // the next odd number of lines
            true => ((longest + 256).div_ceil(LINE) | 1) * LINE,
        };
        let headroom = onefold_packet::DEFAULT_HEADROOM;
        let tailroom = stride - ALLOCATION - headroom;
        // all buffers before the first handle: nothing comes between them
        let all: Vec<Packet> = (0..BUFFERS)
            .map(|_| Packet::with_room(headroom, &[], tailroom))
            .collect();
        Ring {
            free: all.into_iter().map(Box::new).collect(),
        }
    }

    /// How many are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The buffer that has been free longest, with a copy of a frame.
    #[inline]
    pub fn take(&mut self, frame: &[u8], at: Timestamp) -> Option<Pkt> {
        let mut p = self.free.pop_front()?;
        p.refill(frame);
        p.anno.timestamp = at;
        Some(p)
    }

    /// Buffers come back.
    #[inline]
    pub fn give_all(&mut self, packets: &mut Vec<Pkt>) {
        self.free.extend(packets.drain(..));
        // more than were taken (copies that a chain has made) are not kept
        self.free.truncate(BUFFERS);
    }

    /// A buffer in the place of one that did not come back.
    pub fn give(&mut self, p: Pkt) {
        self.free.push_back(p);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates(n: usize, per_flow: usize) -> Templates {
        let frames: Vec<Vec<u8>> = (0..n).map(|i| vec![i as u8; 60 + i % 9]).collect();
        Templates::new(&frames, per_flow)
    }

    #[test]
    fn templates_stand_on_cache_lines_and_are_what_was_given() {
        let t = templates(300, 3);
        assert_eq!((t.len(), t.flows(), t.longest()), (300, 100, 68));
        for i in 0..300 {
            assert_eq!(t.get(i), vec![i as u8; 60 + i % 9]);
            assert_eq!(t.get(i).as_ptr() as usize % LINE, 0);
        }
        assert!(t.get(300).is_empty());
        assert!(Templates::new(&[], 1).is_empty());
    }

    #[test]
    fn every_round_is_a_permutation_of_its_own_and_none_is_sorted() {
        let t = templates(1000, 1);
        let o = Order::new(&t, 0.0, 7);
        assert!(o.places().len() >= MIN_ORDER);
        let rounds: Vec<&[u32]> = o.places().chunks(1000).collect();
        assert!(o.places().len().is_multiple_of(1000));
        for r in &rounds {
            let mut sorted = r.to_vec();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..1000), "every one once");
            // neighbours in memory are neighbours in time as often as chance has it: about one in a thousand
            let near = r.windows(2).filter(|w| w[1] == w[0] + 1).count();
            assert!(near < 20, "{near}");
            // about half of the steps go up
            let up = r.windows(2).filter(|w| w[1] > w[0]).count();
            assert!((400..600).contains(&up), "{up}");
        }
        assert_ne!(rounds[0], rounds[1]);
        assert_ne!(Order::new(&t, 0.0, 8).places()[..1000], *rounds[0]);
        assert_eq!(Order::new(&t, 0.0, 7).places()[..1000], *rounds[0]);
    }

    #[test]
    fn many_templates_come_ten_times() {
        let t = templates(200_000, 1);
        let o = Order::new(&t, 0.0, 1);
        assert_eq!(o.places().len(), 2_000_000);
        assert!(Order::new(&templates(0, 1), 0.0, 1).places().is_empty());
    }

    #[test]
    fn zipf_prefers_some_flows_and_all_their_templates() {
        let t = templates(4000, 4);
        let o = Order::new(&t, 1.0, 3);
        let mut by_flow = vec![0u32; 1000];
        let mut by_k = [0u32; 4];
        for p in o.places() {
            by_flow[*p as usize / 4] += 1;
            by_k[*p as usize % 4] += 1;
        }
        let most = *by_flow.iter().max().unwrap() as f64 / o.places().len() as f64;
        // the first of 1000 has 1/H(1000) = 0.1336
        assert!((most - 0.1336).abs() < 0.01, "{most}");
        let each = o.places().len() as u32 / 4;
        assert!(
            by_k.iter().all(|n| n.abs_diff(each) < each / 20),
            "{by_k:?}"
        );
        assert!(by_flow.iter().position(|n| *n > each / 2) != Some(0));
    }

    #[test]
    fn buffers_come_in_turn() {
        let mut r = Ring::new(60);
        assert_eq!(r.free(), BUFFERS);
        let mut got: Vec<Pkt> = (0..4)
            .map(|_| r.take(&[7; 60], Timestamp(5)).unwrap())
            .collect();
        assert_eq!(got[0].data(), &[7; 60]);
        assert_eq!(got[0].anno.timestamp, Timestamp(5));
        let first = got[0].buffer().as_ptr();
        r.give_all(&mut got);
        assert_eq!((got.len(), r.free()), (0, BUFFERS));
        for _ in 0..BUFFERS - 4 {
            let p = r.take(&[1; 60], Timestamp(5)).unwrap();
            assert_ne!(p.buffer().as_ptr(), first);
            r.give(p);
        }
        assert_eq!(r.take(&[1], Timestamp(5)).unwrap().buffer().as_ptr(), first);
        // long ones fit without growing
        let p = Ring::new(9000).take(&[1; 9000], Timestamp(0)).unwrap();
        assert!(p.tailroom() > 0);
    }

    #[test]
    fn neighbouring_buffers_are_an_odd_number_of_lines_apart() {
        let r = Ring::new(1514);
        let at: Vec<usize> = r
            .free
            .iter()
            .map(|p| p.buffer().as_ptr() as usize)
            .collect();
        let odd = at
            .windows(2)
            .filter(|w| w[1].abs_diff(w[0]) == STRIDE)
            .count();
        // what the allocator had free before may come between a few
        assert!(odd > BUFFERS * 9 / 10, "{odd}");
        assert_eq!(STRIDE / LINE % 2, 1);
    }
}
