//! Packets ready before the clock starts: templates, the order in which they come, and the buffers that they are copied
//! to.

use crate::rng::Rng;
use crate::zipf::Zipf;
use onefold_packet::{Pkt, mempool};
use onefold_table::{HugeVec, prefetch};

/// Bytes from one buffer to the next: an odd number of cache lines, so that headers of packets in flight do not share a
/// few sets of the cache.
pub const STRIDE: usize = 2112;
/// Buffers in the ring unless told otherwise, as many as descriptors of a common receive queue.
pub const BUFFERS: usize = 1024;
/// Packets handed over together unless told otherwise: with many flows their lines of memory are on their way at once,
/// and more than 64 gain nothing (docs/decisions/0029).
pub const BATCH: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;
/// Fewest places in an order, so that no short pattern is learnt by the processor.
pub const MIN_ORDER: usize = 1 << 20;
/// Most places in an order: it comes again from its start then.
pub const MAX_ORDER: usize = 1 << 26;

/// Frames in memory, one after the other, each at the start of a cache line.
#[derive(Debug, Clone, Default)]
pub struct Templates {
    lines: HugeVec<[u8; LINE]>,
    places: Spans,
    /// Frames of a flow.
    per_flow: usize,
}

/// Where frames are.
#[derive(Debug, Clone)]
enum Spans {
    /// All of one length, so that nothing has to be looked up: how many, lines, bytes.
    Alike(usize, usize, usize),
    /// First line and length of each.
    Each(Vec<(u32, u32)>),
}

impl Default for Spans {
    fn default() -> Self {
        Spans::Alike(0, 1, 0)
    }
}

impl Templates {
    /// Copies of the frames, `per_flow` for each flow, one after the other.
    pub fn new(frames: &[Vec<u8>], per_flow: usize) -> Templates {
        let lines = |f: &Vec<u8>| f.len().div_ceil(LINE).max(1);
        let all: usize = frames.iter().map(lines).sum();
        let mut all: HugeVec<_> = std::iter::repeat_n([0; LINE], all).collect();
        let bytes = all.as_flattened_mut();
        let mut line = 0;
        let mut each = Vec::with_capacity(frames.len());
        for f in frames {
            let at = line * LINE;
            if let Some(to) = bytes.get_mut(at..at + f.len()) {
                to.copy_from_slice(f);
            }
            each.push((line as u32, f.len() as u32));
            line += lines(f);
        }
        let places = match frames.first() {
            Some(f) if frames.iter().all(|g| g.len() == f.len()) => {
                Spans::Alike(frames.len(), lines(f), f.len())
            }
            _ => Spans::Each(each),
        };
        Templates {
            lines: all,
            places,
            per_flow: per_flow.max(1),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.places {
            Spans::Alike(n, _, _) => *n,
            Spans::Each(all) => all.len(),
        }
    }
    /// The first `n` of them, places only: what [`Order::new`] asks for.
    fn first(&self, n: usize) -> Templates {
        Templates {
            lines: HugeVec::new(),
            places: Spans::Alike(n.min(self.len()), 1, 0),
            per_flow: self.per_flow,
        }
    }
    /// None at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Flows.
    pub fn flows(&self) -> usize {
        self.len() / self.per_flow.max(1)
    }
    /// The flow that one of them is of.
    pub fn flow_of(&self, i: usize) -> usize {
        i / self.per_flow.max(1)
    }
    /// The longest.
    pub fn longest(&self) -> usize {
        (0..self.len())
            .map(|i| self.get(i).len())
            .max()
            .unwrap_or(0)
    }
    /// All of them and their length, if they are of one length, and a cache line has room for it.
    pub fn lines(&self) -> Option<(&[[u8; LINE]], usize)> {
        match self.places {
            Spans::Alike(n, 1, len) if len <= LINE => Some((self.lines.get(..n)?, len)),
            _ => None,
        }
    }
    /// One of them; nothing beyond the end.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        let (line, len) = match &self.places {
            Spans::Alike(_, lines, len) => (i * lines, *len),
            Spans::Each(all) => match all.get(i) {
                Some((line, len)) => (*line as usize, *len as usize),
                None => return &[],
            },
        };
        let at = line * LINE;
        self.lines
            .as_flattened()
            .get(at..at + len)
            .unwrap_or_default()
    }
}

/// The order in which templates come.
#[derive(Debug, Clone)]
pub struct Order {
    places: Vec<u32>,
}

impl Order {
    /// Of these templates. Without Zipf's law rounds, each of which has every template once, in a random order of its
    /// own. With it, each packet's flow is drawn with this exponent; popularity has nothing to do with the place in
    /// memory.
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

    /// As [`Order::new`] of the first templates, up to `known`, but each place is with this probability that of one of
    /// the others, which come in rounds of their own.
    pub fn mixed(t: &Templates, known: usize, share: f64, zipf: f64, seed: u64) -> Order {
        let mut others: Vec<u32> = (known..t.len()).map(|i| i as u32).collect();
        let mut rng = Rng::stream(seed, 0x006d_6978_6564);
        if known == 0 {
            // rounds without an end that is no round's
            return Order::new(t, 0.0, seed);
        }
        let mut order = Order::new(&t.first(known), zipf, seed);
        let mut next = others.len();
        for p in &mut order.places {
            if !others.is_empty() && rng.chance(share) {
                if next == others.len() {
                    rng.shuffle(&mut others);
                    next = 0;
                }
                *p = others.get(next).copied().unwrap_or(*p);
                next += 1;
            }
        }
        order
    }

    /// The places, in order; after the last, the first comes again.
    pub fn places(&self) -> &[u32] {
        &self.places
    }
}

/// The buffers: taken in turn, a batch at a time, as descriptors of a ring are.
///
/// One rack more than there are batches, so that one is empty: what comes out is put there, and the rack that it came
/// from is the empty one then. No list changes its place: its length has just been written, and a list that is moved at
/// once waits until that write, and every one before, has reached the cache (1 ns for each packet).
#[derive(Debug)]
pub struct Ring {
    racks: Vec<Vec<Pkt>>,
    /// The empty one.
    empty: usize,
    batch: usize,
}

impl Ring {
    /// At least so many buffers in batches, for packets of up to `longest` bytes.
    pub fn new(buffers: usize, batch: usize, longest: usize) -> Ring {
        let stride = match longest + 256 > STRIDE {
            false => STRIDE,
            // the next odd number of lines
            true => ((longest + 256).div_ceil(LINE) | 1) * LINE,
        };
        let batch = batch.max(1);
        let racks = buffers.div_ceil(batch).max(1);
        let mut all = mempool(racks * batch, stride).into_iter();
        let mut all_racks = vec![Vec::with_capacity(batch)];
        all_racks.extend((0..racks).map(|_| all.by_ref().take(batch).collect()));
        Ring {
            racks: all_racks,
            empty: 0,
            batch,
        }
    }

    /// The rack that is so many further than the empty one.
    fn further(&self, n: usize) -> usize {
        (self.empty + n) % self.racks.len().max(1)
    }

    /// Asks for the batches that come next, as drivers do: for packets of the first, for handles of the second. A chain
    /// that fills the caches would pay for the harness's own buffers otherwise, 50 to 60 ns for each packet; where they
    /// are in the second cache anyway it is eight instructions that save nothing.
    #[inline]
    pub fn ask(&self) {
        let rack = |n: usize| self.racks.get(self.further(n)).map_or(&[][..], |r| r);
        for (first, second) in rack(2).iter().zip(rack(3)) {
            first.prefetch();
            prefetch(&**second);
        }
    }

    /// The batch of buffers that has been free longest, and an empty list for those that come back. The batch is to be
    /// left empty. Where packets did not come back, `more` adds others.
    #[inline]
    pub fn turn(
        &mut self,
        more: impl FnOnce(&mut Vec<Pkt>, usize),
    ) -> Option<(&mut Vec<Pkt>, &mut Vec<Pkt>)> {
        let (to, from) = (self.empty, self.empty + 1);
        let from = match from == self.racks.len() {
            true => 0,
            false => from,
        };
        self.empty = from;
        let [out, rack] = self.racks.get_disjoint_mut([to, from]).ok()?;
        match self.batch.checked_sub(rack.len()) {
            Some(0) => {}
            Some(n) => more(rack, n),
            // more than were taken (copies that a chain has made) are not kept
            None => rack.truncate(self.batch),
        }
        Some((rack, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_packet::Packet;

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
    fn strangers_have_their_share_and_the_others_their_order() {
        let t = templates(300, 1);
        let o = Order::mixed(&t, 200, 0.5, 0.0, 5);
        let strange = o.places().iter().filter(|p| **p >= 200).count() as f64;
        assert!((strange / o.places().len() as f64 - 0.5).abs() < 0.01);
        assert!(o.places().iter().all(|p| *p < 300));
        let all = Order::mixed(&t, 0, 1.0, 0.0, 5);
        assert!(all.places().len() >= MIN_ORDER);
        let mut seen = vec![0u32; 300];
        for p in all.places() {
            seen[*p as usize] += 1;
        }
        assert!(seen.iter().all(|n| *n > 0));
        let none = Order::mixed(&t, 300, 0.5, 0.0, 5);
        assert_eq!(none.places(), Order::new(&t, 0.0, 5).places());
    }

    #[test]
    fn buffers_come_in_turn() {
        let more = |_: &mut Vec<Pkt>, _| unreachable!("all come back");
        let mut r = Ring::new(1000, 32, 60);
        assert_eq!(
            r.racks.len(),
            33,
            "no fewer than asked for, and an empty one"
        );
        let places = |p: &[Pkt]| -> Vec<_> { p.iter().map(|p| p.buffer().as_ptr()).collect() };
        let mut seen = Vec::new();
        for _ in 0..3 {
            let mut round = Vec::new();
            for _ in 0..32 {
                let (rack, out) = r.turn(more).unwrap();
                assert_eq!((rack.len(), out.len()), (32, 0));
                round.extend(places(rack));
                out.append(rack);
            }
            seen.push(round);
        }
        let mut first = seen[0].clone();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 1024, "none twice in a round");
        assert!(seen.iter().all(|round| *round == seen[0]));
        // what was dropped is replaced, copies are not kept
        let mut r = Ring::new(1, 2, 60);
        let (rack, out) = r.turn(more).unwrap();
        out.append(rack);
        out.truncate(1);
        let mut made = 0;
        let add = |to: &mut Vec<Pkt>, n: usize| {
            made += n;
            to.resize_with(to.len() + n, || Box::new(Packet::from_slice(&[])));
        };
        let (rack, out) = r.turn(add).unwrap();
        assert_eq!((rack.len(), made), (2, 1));
        out.append(rack);
        out.push(Box::new(Packet::from_slice(&[])));
        assert_eq!(r.turn(more).unwrap().0.len(), 2);
        // long ones fit without growing
        let mut r = Ring::new(1, 1, 9000);
        let (p, _) = r.turn(more).unwrap();
        p[0].refill(&[1; 9000]);
        assert!(p[0].tailroom() > 0);
    }

    #[test]
    fn neighbouring_buffers_are_an_odd_number_of_lines_apart() {
        let r = Ring::new(BUFFERS, 32, 1514);
        let all = r.racks.iter().flatten();
        let at: Vec<usize> = all.map(|p| p.buffer().as_ptr() as usize).collect();
        // racks are in order
        assert!(at.windows(2).all(|w| w[1] - w[0] == STRIDE));
        assert_eq!(STRIDE / LINE % 2, 1);
        let on_line = |a: &&usize| (**a + onefold_packet::DEFAULT_HEADROOM).is_multiple_of(LINE);
        assert!(at.iter().all(|a| on_line(&a)), "each is on a line");
    }
}
