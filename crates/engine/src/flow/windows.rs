//! Packets of a group, and their first bytes: found at the first look, and there for the last write.
//!
//! Where a packet's bytes are is written in the packet: to ask for that again, and whether there are enough of them, was a fifth of what is done when all else is known.
#![allow(unsafe_code)]

use crate::simd::GROUP;
use crate::simd::ROW;
use crate::simd::WINDOW;
use crate::simd::bits::first_bits;
use crate::simd::dispatch::one_by_one;
use onefold_packet::{Packet, Pkt};
use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Where nothing is to be read.
static NOTHING: [u8; WINDOW] = [0; WINDOW];
/// A row of that.
static NOWHERE: [&[u8; WINDOW]; ROW] = [&NOTHING; ROW];

/// Room for where windows are. To clear it, and to copy it to where it is wanted, took as long as to find half of the windows.
pub(crate) type Places = [MaybeUninit<*const [u8; WINDOW]>; GROUP];

/// Room in which there is nothing yet.
#[inline(always)]
pub(crate) fn places() -> Places {
    [const { MaybeUninit::uninit() }; GROUP]
}

/// See the module's text.
pub(crate) struct Windows<'a> {
    packets: *mut Pkt,
    n: usize,
    /// By number in the group, up to the end of the last packet's row; nothing has been written behind that. Each is [`NOTHING`], or in the buffer of a packet of the
    /// group; those behind the last packet are for reading alone.
    at: &'a mut Places,
    /// Of which packets the windows are not there: a bit each.
    missing: u64,
    of: PhantomData<&'a mut [Pkt]>,
}

impl<'a> Windows<'a> {
    /// Of the first packets, [`GROUP`] at most; `lens`: how many bytes each of them has, 0 if it has no window.
    ///
    /// Windows behind the last one, up to the end of its row, are read as if they were those of the row's first packet.
    #[inline(always)]
    pub fn of(packets: &'a mut [Pkt], lens: &mut [u32; GROUP], at: &'a mut Places) -> Windows<'a> {
        let n = packets.len().min(GROUP);
        let mut missing = 0;
        // Loops over indices: adapters may not be inlined, and would be compiled without wide registers. Bounds: the group
        let mut i = 0;
        while i < n {
            one_by_one();
            let p = &mut *packets[i];
            lens[i] = p.len() as u32;
            let window = match p.window_mut::<WINDOW>() {
                Some(w) => std::ptr::from_mut(w).cast_const(),
                None => {
                    missing |= 1 << i;
                    lens[i] = 0;
                    &raw const NOTHING
                }
            };
            at[i].write(window);
            i += 1;
        }
        let first = match n % ROW {
            // all rows are full
            0 => MaybeUninit::uninit(),
            _ => at[n / ROW * ROW],
        };
        while !i.is_multiple_of(ROW) {
            (at[i], lens[i]) = (first, 0);
            i += 1;
        }
        Windows {
            n,
            packets: packets.as_mut_ptr(),
            at,
            missing,
            of: PhantomData,
        }
    }

    /// How many packets there are.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Lanes windows, from the row on that this number is in, to be read.
    #[inline(always)]
    pub fn row(&self, first: usize) -> &[&[u8; WINDOW]; ROW] {
        if first >= self.n {
            return &NOWHERE;
        }
        let row = &self.at.as_chunks::<ROW>().0[first / ROW % (GROUP / ROW)];
        // SAFETY: in a row with a packet, these are pointers to what can be read, as references are; while they are there nobody writes to it, as that takes
        // `self`, to be changed.
        unsafe { &*std::ptr::from_ref(row).cast() }
    }

    /// A packet, to be read.
    #[inline(always)]
    pub fn packet(&self, i: usize) -> Option<&Packet> {
        // SAFETY: one of the slice's packets, to which nobody writes meanwhile, as above.
        (i < self.n).then(|| unsafe { &**self.packets.add(i) })
    }

    /// A packet's window.
    #[inline(always)]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut [u8; WINDOW]> {
        if i >= self.n || self.missing >> i & 1 != 0 {
            return None;
        }
        // SAFETY: it was found, in the buffer of one of the slice's packets, and that has not been given away since; packets have a buffer each.
        Some(unsafe { &mut *self.at[i].assume_init().cast_mut() })
    }

    /// Of which packets the windows are there: a bit each.
    #[inline(always)]
    pub fn present(&self) -> u64 {
        first_bits(self.n) & !self.missing
    }

    /// The windows of these packets, a bit each, those that are there.
    #[inline(always)]
    pub fn some(&mut self, which: u64) -> Those<'_> {
        Those {
            left: which & self.present(),
            at: self.at,
        }
    }

    /// A packet keeps so many bytes, the first ones. Its window stays where it is.
    #[inline(always)]
    pub fn keep(&mut self, i: usize, len: usize) {
        if i < self.n {
            // SAFETY: one of the slice's packets. Nothing is done to its buffer.
            unsafe { (*self.packets.add(i)).keep(len) };
        }
    }

    /// A packet, to be changed: its window is not there any more.
    #[inline]
    pub fn packet_mut(&mut self, i: usize) -> Option<&mut Packet> {
        if i >= self.n {
            return None;
        }
        self.missing |= 1 << i;
        // others may be read there, too
        for at in &mut self.at[self.n..self.n.next_multiple_of(ROW)] {
            at.write(&NOTHING);
        }
        self.at[i].write(&NOTHING);
        // SAFETY: one of the slice's packets, into whose buffer there are no pointers any more.
        Some(unsafe { &mut *self.packets.add(i) })
    }
}

/// Windows of some packets of a group, one after the other.
pub(crate) struct Those<'a> {
    at: &'a mut Places,
    /// Of which packets: a bit each.
    left: u64,
}

impl Those<'_> {
    /// The next one, and the number of its packet in the group. No iterator: adapters may not be inlined, and would be compiled without wide registers.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(usize, &mut [u8; WINDOW])> {
        if self.left == 0 {
            return None;
        }
        let i = self.left.trailing_zeros() as usize % GROUP;
        self.left &= self.left - 1;
        // SAFETY: as for `get_mut`, and `some` has seen to it that it is there. Read as a reference, which is known not to be null: nothing is asked a second time.
        Some((i, unsafe {
            self.at[i].as_ptr().cast::<&mut [u8; WINDOW]>().read()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(n: usize) -> Vec<Pkt> {
        let data = |i: usize| vec![i as u8; 20 + i];
        (0..n)
            .map(|i| Box::new(Packet::from_slice(&data(i))))
            .collect()
    }

    #[test]
    fn found_read_and_written() {
        for n in [1, 15, 16, 17, 40, 64, 70] {
            let mut all = packets(n);
            let mut lens = [7; GROUP];
            let mut at = places();
            let mut w = Windows::of(&mut all, &mut lens, &mut at);
            let n = n.min(GROUP);
            assert_eq!(w.len(), n);
            for (i, len) in lens.iter().enumerate() {
                let want = if i < n { 20 + i } else { 0 };
                assert!(
                    *len as usize == want || i >= n.next_multiple_of(ROW),
                    "{n} {i}"
                );
            }
            for i in 0..n {
                let row = w.row(i);
                assert_eq!(row[i % ROW][0], i as u8);
                for (j, r) in row.iter().enumerate() {
                    let number = i / ROW * ROW + j;
                    let like = if number < n { number } else { i / ROW * ROW };
                    assert_eq!(r[0], like as u8);
                }
                assert_eq!(w.packet(i).map(Packet::len), Some(20 + i));
            }
            for i in 0..n {
                w.get_mut(i).unwrap()[1] = 200;
                w.keep(i, 3);
            }
            assert!(w.get_mut(n).is_none());
            for i in 0..n {
                let p = w.packet_mut(i).unwrap();
                assert_eq!(p.data(), [i as u8, 200, i as u8]);
                p.push(1000);
                assert!(w.get_mut(i).is_none());
                assert_eq!(w.row(i)[i % ROW], &NOTHING);
            }
        }
    }

    #[test]
    fn packets_without_room_have_none() {
        let mut short = Packet::from_slice(&[1; 300]);
        short.pull(280);
        let mut all = vec![Box::new(short), Box::new(Packet::from_slice(&[2; 60]))];
        let mut lens = [7; GROUP];
        let mut at = places();
        let mut w = Windows::of(&mut all, &mut lens, &mut at);
        assert_eq!(lens[..3], [0, 60, 0]);
        assert!(w.get_mut(0).is_none() && w.get_mut(1).is_some());
        assert_eq!(w.row(0)[0], &NOTHING);
    }
}
