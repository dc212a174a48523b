//! The first packets of a batch, on their way out: they stay where they are while something is done to them, and leave several at a time.
#![allow(unsafe_code)]

use crate::flow::rewrite_template::NO_SINK;
use crate::simd::GROUP;
use crate::simd::bits::{each_bit, first_bits};
use onefold_element::{ElemId, Outbox};
use onefold_packet::Pkt;

/// Packets that a batch begins with. Those that nobody takes are gone in the end; the others of the batch stay in it.
pub(crate) struct BatchDrain<'a> {
    batch: &'a mut Vec<Pkt>,
    /// The first one that has not been taken.
    at: usize,
    /// Behind the last one of the front, and of the batch.
    end: usize,
    len: usize,
    /// What the next ones have to be when they leave.
    #[cfg(debug_assertions)]
    expected: Vec<onefold_packet::Packet>,
}

impl<'a> BatchDrain<'a> {
    /// The first `n`.
    pub fn of(batch: &'a mut Vec<Pkt>, n: usize) -> BatchDrain<'a> {
        let len = batch.len();
        // SAFETY: fewer than there are. Whatever happens to the front, nobody takes a packet from the batch a second time.
        unsafe { batch.set_len(0) };
        BatchDrain {
            batch,
            at: 0,
            end: n.min(len),
            len,
            #[cfg(debug_assertions)]
            expected: Vec::new(),
        }
    }

    /// For debug builds: what the next ones are to be when they leave.
    #[cfg(debug_assertions)]
    pub fn will_leave_as(&mut self, leave: Vec<onefold_packet::Packet>) {
        self.expected = leave;
    }

    /// For debug builds: are the next `n`, which leave now, what they are to be?
    #[cfg(debug_assertions)]
    pub fn are_expected(&mut self, n: usize) {
        let expected = std::mem::take(&mut self.expected);
        assert!(expected.len() >= n, "packets that nobody has looked at");
        for (p, leaves) in self.rest().iter().zip(&expected).take(n) {
            assert_eq!(p.data(), leaves.data());
        }
    }

    /// Those that have not been taken.
    pub fn rest(&mut self) -> &mut [Pkt] {
        // SAFETY: from `at` to `end` the batch's memory has packets, which are the front's alone.
        unsafe {
            let first = self.batch.as_mut_ptr().add(self.at);
            std::slice::from_raw_parts_mut(first, self.end - self.at)
        }
    }

    /// Takes one.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Pkt> {
        if self.at == self.end {
            return None;
        }
        let at = self.at;
        self.at += 1;
        // SAFETY: there is one, and as `at` is behind it now, nobody takes it a second time.
        Some(unsafe { self.batch.as_ptr().add(at).read() })
    }

    /// As many as there are sinks leave, each at its sink.
    #[inline(always)]
    pub fn send(&mut self, sinks: &[u32], to: &mut Vec<(ElemId, Pkt)>) {
        let n = sinks.len().min(self.end - self.at);
        to.reserve(n);
        let (at, left) = (self.at, to.len());
        self.at += n;
        // SAFETY: as for `next`, one after the other; there is room for `n` more where they go.
        unsafe {
            let (from, to) = (self.batch.as_ptr().add(at), to.as_mut_ptr().add(left));
            let mut i = 0;
            while i < n {
                to.add(i).write((ElemId(sinks[i]), from.add(i).read()));
                i += 1;
            }
        }
        // SAFETY: these have just been written.
        unsafe { to.set_len(left + n) };
    }

    /// The first ones, up to this number, leave at their sinks, by number in the group; those of `gone`, a bit each, and those that have no sink do not.
    #[inline(always)]
    pub fn part(&mut self, upto: usize, gone: u64, sinks: &[u32; GROUP], out: &mut Outbox) {
        let n = upto.min(self.end - self.at).min(GROUP);
        let at = self.at;
        self.at += n;
        out.transmitted.reserve(n);
        // SAFETY: as for `next`: each of them once, and none will be taken again.
        let take = |i: usize| unsafe { self.batch.as_ptr().add(at + i).read() };
        each_bit!(first_bits(n) & !gone, i, {
            match sinks[i] {
                NO_SINK => out.pool.recycle(take(i)),
                sink => out.transmitted.push((ElemId(sink), take(i))),
            }
        });
        each_bit!(first_bits(n) & gone, i, {
            out.pool.recycle(take(i));
        });
    }
}

impl Drop for BatchDrain<'_> {
    fn drop(&mut self) {
        let rest: *mut [Pkt] = self.rest();
        self.at = self.end;
        let others = self.len - self.end;
        // SAFETY: nobody else has the rest, and nobody looks for it again; behind it are those of the batch that were never the front's.
        unsafe {
            std::ptr::drop_in_place(rest);
            let batch = self.batch.as_mut_ptr();
            std::ptr::copy(batch.add(self.end), batch, others);
            self.batch.set_len(others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_packet::Packet;

    fn batch(n: u8) -> Vec<Pkt> {
        (0..n).map(|i| Box::new(Packet::from_slice(&[i]))).collect()
    }
    fn numbers(p: &[Pkt]) -> Vec<u8> {
        p.iter().map(|p| p.data()[0]).collect()
    }

    #[test]
    fn taken_sent_and_left() {
        let mut all = batch(10);
        let mut out = Vec::new();
        let mut f = BatchDrain::of(&mut all, 7);
        assert_eq!(numbers(f.rest()), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(f.next().map(|p| p.data()[0]), Some(0));
        f.send(&[5, 6, 7], &mut out);
        f.send(&[], &mut out);
        assert_eq!(numbers(f.rest()), [4, 5, 6]);
        f.rest()[0].data_mut()[0] = 40;
        drop(f.next());
        drop(f);
        assert_eq!(numbers(&all), [7, 8, 9]);
        let sent: Vec<_> = out.iter().map(|(e, p)| (e.0, p.data()[0])).collect();
        assert_eq!(sent, [(5, 1), (6, 2), (7, 3)]);
        let mut f = BatchDrain::of(&mut all, 20);
        f.send(&[1; 20], &mut out);
        assert!(f.next().is_none() && f.rest().is_empty());
        drop(f);
        assert!(all.is_empty());
        assert_eq!(out.len(), 6);
    }

    #[test]
    fn some_leave_and_others_do_not() {
        let mut all = batch(9);
        let mut out = Outbox::default();
        let mut sinks = [NO_SINK; GROUP];
        sinks[..5].copy_from_slice(&[7, 8, NO_SINK, 9, 7]);
        let mut f = BatchDrain::of(&mut all, 8);
        f.part(5, 0b11_0010, &sinks, &mut out);
        assert_eq!(numbers(f.rest()), [5, 6, 7]);
        drop(f);
        assert_eq!(numbers(&all), [8]);
        let sent: Vec<_> = out
            .transmitted
            .iter()
            .map(|(e, p)| (e.0, p.data()[0]))
            .collect();
        assert_eq!(sent, [(7, 0), (9, 3)]);
    }
}
