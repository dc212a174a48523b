//! Packets that are used again.

use crate::buffer::{Packet, Pkt};

/// Recycles packets so that a graph in steady state does not allocate. Bounded: more than its capacity is freed.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Pkt>,
}

impl Pool {
    /// Most packets kept for reuse.
    pub const CAPACITY: usize = 4096;
    /// Buffers longer than this are freed, not kept.
    const KEEP_LEN: usize = 16 * 1024;

    /// A pool with nothing in it.
    pub fn new() -> Self {
        Pool { free: Vec::new() }
    }
    /// A packet with a copy of `data`.
    #[inline]
    pub fn make(&mut self, data: &[u8]) -> Pkt {
        match self.free.pop() {
            Some(mut p) => {
                p.refill(data);
                p
            }
            None => Box::new(Packet::from_slice(data)),
        }
    }
    /// Adds up to `n` packets to `to`, with whatever is in them: to be refilled. How many there were.
    pub fn lend(&mut self, to: &mut Vec<Pkt>, n: usize) -> usize {
        let n = n.min(self.free.len());
        to.extend(self.free.drain(self.free.len() - n..));
        n
    }
    /// Is it to be kept as it is? Its buffer is of a usual length, and nobody waits for it.
    #[inline]
    fn keeps(p: &Packet) -> bool {
        p.frame().len() <= Self::KEEP_LEN && !p.is_borrowed()
    }
    /// Takes a packet back. A frame that is borrowed goes back to its owner.
    #[inline]
    pub fn recycle(&mut self, mut p: Pkt) {
        if self.free.len() < Self::CAPACITY && p.frame().len() <= Self::KEEP_LEN {
            if p.is_borrowed() {
                drop(p.detach());
            }
            self.free.push(p);
        }
    }
    /// Takes the packets of a batch from number `from` to before `to` back; those behind them move up.
    pub fn recycle_range(&mut self, batch: &mut Vec<Pkt>, from: usize, to: usize) {
        let to = to.min(batch.len());
        let some = batch.get(from..to).unwrap_or_default();
        let all = some.iter().fold(true, |all, p| all & Self::keeps(p));
        let drained = batch.drain(from.min(to)..to);
        if all && self.free.len() + drained.len() <= Self::CAPACITY {
            self.free.extend(drained);
        } else {
            drained.for_each(|p| self.recycle(p));
        }
    }
    /// Takes a batch back; leaves it empty.
    pub fn recycle_all(&mut self, batch: &mut Vec<Pkt>) {
        let fits = self.free.len() + batch.len() <= Self::CAPACITY;
        if fits && batch.iter().all(|p| Self::keeps(p)) {
            self.free.append(batch);
            return;
        }
        for p in batch.drain(..) {
            self.recycle(p);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Anno, DEFAULT_HEADROOM, Timestamp};
    use onefold_table::{Frame, FrameLayout, FramePool};

    #[test]
    fn a_part_of_a_batch_is_taken_back() {
        let batch =
            |n: u8| -> Vec<Pkt> { (0..n).map(|i| Box::new(Packet::from_slice(&[i]))).collect() };
        let mut pool = Pool::default();
        let mut b = batch(10);
        *b[4] = Packet::from_slice(&vec![4; Pool::KEEP_LEN + 1]);
        pool.recycle_range(&mut b, 7, 9);
        assert_eq!(
            b.iter().map(|p| p.data()[0]).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 9]
        );
        assert_eq!(pool.free.len(), 2);
        pool.recycle_range(&mut b, 3, 20);
        assert_eq!(b.len(), 3);
        assert_eq!(pool.free.len(), 6, "what is too long is not kept");
        pool.recycle_range(&mut b, 9, 20);
        pool.recycle_range(&mut b, 2, 1);
        assert_eq!(b.len(), 3);
        let mut many: Vec<Pkt> = (0..=Pool::CAPACITY)
            .map(|_| Box::new(Packet::from_slice(&[0])))
            .collect();
        let n = many.len();
        pool.recycle_range(&mut many, 0, n);
        assert!(many.is_empty());
        assert_eq!(pool.free.len(), Pool::CAPACITY);
    }

    #[test]
    fn a_packet_lies_in_a_frame_of_a_pool_and_gives_it_back() {
        let frames = FramePool::new(FrameLayout {
            frames: 4,
            stride: 2048,
            skip: 192,
        });
        let mut got = Vec::new();
        frames.take(4, &mut got);
        let mut next = |p: &mut Packet| {
            let mut f: Frame = got.pop().unwrap();
            f.fill(9);
            f[64..164].fill(1);
            p.anno.set_paint(3);
            p.set_mac_header(0);
            p.attach(f, 64..164);
            assert!(p.is_borrowed());
            assert_eq!((p.data(), p.anno), (&[1; 100][..], Anno::default()));
            assert_eq!((p.headroom(), p.mac_header_offset()), (64, None));
            assert!(p.headroom_bytes().iter().all(|b| *b == 0));
        };
        // what is dropped by a chain goes home at once, and the handle is good for another packet
        let mut pool = Pool::new();
        let mut p = pool.make(&[5; 80]);
        next(&mut p);
        assert_eq!(frames.free(), 0);
        pool.recycle(p);
        assert_eq!((frames.free(), pool.free.len()), (1, 1));
        let mut p = pool.make(&[6; 300]);
        assert_eq!((p.data(), p.is_borrowed()), (&[6; 300][..], false));
        // a batch of them, too
        next(&mut p);
        let mut batch = vec![p, Box::new(Packet::from_slice(&[7]))];
        pool.recycle_all(&mut batch);
        assert_eq!((frames.free(), pool.free.len()), (2, 2));
        assert!(pool.free.iter().all(|p| !p.is_borrowed()));
        // growth copies out
        let mut p = Packet::from_slice(&[]);
        next(&mut p);
        p.set_network_header(14, 20);
        p.push(DEFAULT_HEADROOM + 1);
        assert_eq!((frames.free(), p.is_borrowed()), (3, false));
        assert_eq!(p.data()[65..], [1; 100]);
        assert_eq!(p.network_header_offset(), Some(79));
        // and so does whoever keeps it
        next(&mut p);
        p.pull(10);
        let twin = p.clone();
        assert!(p.copy_out() && !p.copy_out() && !twin.is_borrowed());
        assert_eq!((frames.free(), p.data()), (4, twin.data()));
        p.push(10);
        assert_eq!(p.data(), [1; 100]);
        // a handle without a frame is refilled in every way
        drop(p.detach());
        assert_eq!((p.len(), p.headroom()), (0, 0));
        p.refill_line(&[2; 64], 60, Timestamp(3));
        assert_eq!(p.data(), [2; 60]);
        // a frame that is shorter than it says, and a range that is none
        let mut p = Packet::from_slice(&[]);
        let mut one = Vec::new();
        frames.take(1, &mut one);
        p.attach(one.remove(0), 4000..5000);
        assert_eq!((p.len(), p.headroom()), (0, 2048 - 192));
    }

    #[test]
    fn who_had_a_frame_says_whether_its_front_is_clear() {
        let layout = FrameLayout {
            frames: 4,
            stride: 2048,
            skip: 192,
        };
        let frames = FramePool::new(layout);
        let mut p = Packet::from_slice(&[]);
        let mut one = Vec::new();
        frames.take(1, &mut one);
        let mut frame: Frame = one.remove(0);
        frame.fill(9);
        p.attach(frame, DEFAULT_HEADROOM..DEFAULT_HEADROOM);
        p.refill(&[1; 100]);
        // handed on and on, and written to where its data is
        for _ in 0..3 {
            p.data_mut()[7] = 5;
            p.set_mac_header(0);
            p.anno.set_paint(3);
            assert!(p.front_is_clear());
            let len = p.len();
            p.attach_cleared(p.clone().detach(), len);
            assert_eq!((p.len(), p.anno), (100, Anno::default()));
            assert_eq!((p.headroom(), p.mac_header_offset()), (64, None));
            assert!(p.headroom_bytes().iter().all(|b| *b == 0));
        }
        let changes: [fn(&mut Packet); 5] = [
            |p| p.pull(14),
            |p| p.push(1),
            |p| {
                p.push(8);
                p.pull(8);
            },
            |p| p.buffer_mut()[3] = 1,
            |p| drop(p.detach()),
        ];
        for (i, change) in changes.iter().enumerate() {
            let mut q = p.clone();
            assert!(q.front_is_clear());
            change(&mut q);
            assert!(!q.front_is_clear(), "change {i}");
        }
        // of a frame that has no headroom, and one that is too short
        p.attach_cleared(Frame::default(), 100);
        assert_eq!((p.len(), p.front_is_clear()), (0, false));
        p.attach_cleared(Frame::zeroed(128), 100);
        assert_eq!((p.len(), p.headroom()), (64, 64));
    }

    #[test]
    fn refilled_packet_equals_a_new_one() {
        let mut pool = Pool::new();
        let mut p = pool.make(&[1; 300]);
        p.push(14);
        p.data_mut().fill(9);
        p.anno.set_paint(9);
        p.set_network_header(0, 20);
        pool.recycle(p);
        let q = pool.make(&[2; 10]);
        assert_eq!(q.data(), &[2; 10]);
        assert_eq!(q.anno, Anno::default());
        assert_eq!(q.network_header_offset(), None);
        assert!(q.headroom_bytes().iter().all(|b| *b == 0));
    }
}
