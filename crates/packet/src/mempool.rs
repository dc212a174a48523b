//! Packets whose memory lies together: what a ring of descriptors is filled with.
//!
//! Packets that are allocated one by one lie where the heap has room. Behind 8,550 rules, whose making leaves holes
//! everywhere, 1,024 of them lay on 1,800 pages, and each packet waited for the translation of two addresses: 2 ns
//! where nothing is done with it, 10 to 20 where much is (docs/decisions/0034). Frameworks have their packets on huge
//! pages for that reason.

use crate::buffer::{DEFAULT_HEADROOM, Packet, Pkt};
use onefold_table::{Frame, FrameLayout, FramePool};
use std::collections::HashSet;
use std::mem::MaybeUninit;

/// A page of most systems.
const PAGE: usize = 4096;
/// How often handles are allocated, at most, until all lie together: what the heap has had free before is used up then.
const TRIES: usize = 64;
/// Handles that are allocated in all tries together, at most, but for twice as many as there are to be: 16 MiB and
/// more.
const TRIED: usize = 1 << 17;
/// Lies together: so many times the pages that there would be without anything in between. An allocation has a header.
const SPREAD: usize = 3;

type Handle = Box<MaybeUninit<Packet>>;

/// On how many pages do they begin?
fn pages(all: &[Handle]) -> usize {
    let page = |h: &Handle| std::ptr::from_ref(&**h).addr() / PAGE;
    all.iter().map(page).collect::<HashSet<_>>().len()
}

/// So many handles on as few pages as the heap has to offer.
fn handles(n: usize) -> Vec<Handle> {
    let few = SPREAD * (n * size_of::<Packet>()).div_ceil(PAGE) + 1;
    let mut tried: Vec<Vec<Handle>> = Vec::new();
    for _ in 0..(TRIED / n.max(1)).clamp(2, TRIES) {
        let some: Vec<Handle> = (0..n).map(|_| Box::new_uninit()).collect();
        let found = pages(&some) <= few;
        // none is given back before the last is there: it would come again
        tried.push(some);
        if found {
            break;
        }
    }
    tried
        .into_iter()
        .min_by_key(|all| pages(all))
        .unwrap_or_default()
}

/// So many empty packets with buffers of at least `len` bytes, all of them side by side (from 1 MiB on upon huge
/// pages), [`DEFAULT_HEADROOM`] of it before the data. A buffer is a number of cache lines, which should be odd: then
/// the headers do not share a few sets of the cache. Memory is given back when the last of them goes.
pub fn mempool(n: usize, len: usize) -> Vec<Pkt> {
    let pool = FramePool::resident(FrameLayout {
        frames: n,
        stride: len.max(DEFAULT_HEADROOM),
        skip: 0,
    });
    let mut buffers: Vec<Frame> = Vec::with_capacity(n);
    pool.take(n, &mut buffers);
    let all = handles(n).into_iter().zip(buffers);
    all.map(|(h, buf)| Box::write(h, Packet::of(buf, DEFAULT_HEADROOM)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MIN_BUFFER_LEN;

    #[test]
    fn they_are_packets_as_others_are() {
        for n in [0, 1, if cfg!(miri) { 10 } else { 1000 }] {
            let mut all = mempool(n, 2112);
            assert_eq!(all.len(), n);
            for (i, p) in all.iter_mut().enumerate() {
                assert_eq!((p.len(), p.headroom(), p.tailroom()), (0, 64, 2048));
                p.refill(&[i as u8; 60]);
                p.push(14);
            }
            for (i, p) in all.iter().enumerate() {
                assert_eq!(p.data()[..14], [0; 14]);
                assert_eq!(p.data()[14..], [i as u8; 60]);
            }
            let mut last = all.pop();
            drop(all);
            if let Some(p) = &mut last {
                // it grows out of its place
                p.put(3 * 2112);
                assert_eq!(p.data()[14..74], [(n - 1) as u8; 60]);
            }
        }
        assert_eq!(mempool(1, 0)[0].tailroom(), 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "looks at what the system's allocator does")]
    fn they_lie_together_in_a_heap_with_holes() {
        // every other one of many of this size is free, and as many of other sizes
        let mut many: Vec<Option<Box<Packet>>> = (0..20_000)
            .map(|_| Some(Box::new(Packet::from_slice(&[]))))
            .collect();
        many.iter_mut().step_by(2).for_each(|p| *p = None);
        let all = mempool(1024, 2112);
        let at = |p: &Pkt| p.buffer().as_ptr().addr();
        assert!(all.windows(2).all(|w| at(&w[1]) - at(&w[0]) == 2112));
        let mut pages: Vec<usize> = all
            .iter()
            .map(|p| std::ptr::from_ref(&**p).addr() / PAGE)
            .collect();
        pages.sort_unstable();
        pages.dedup();
        assert!(
            pages.len() <= 3 * 1024 * size_of::<Packet>() / PAGE + 1,
            "{} pages",
            pages.len()
        );
        assert!(
            many[1]
                .as_ref()
                .is_some_and(|p| p.tailroom() >= MIN_BUFFER_LEN - 64)
        );
    }
}
