//! Frames of one memory: a fixed number of them, and a list of those that are free.
//!
//! Frameworks have their packets in such a memory, on huge pages: packets that are allocated one by one lie where the
//! heap has room, and each waits for the translation of its address (docs/decisions/0034). A device that is told of
//! the memory fills frames where they lie.
//!
//! Taking and giving back in batches costs a lock and two counters a batch. A frame that is dropped by itself goes back
//! by its number, without a lock or a call through a table of functions, from whatever thread it is dropped on.
//!
//! A *foreign* pool ([`FramePool::foreign`]) is over memory that a driver library allocates and gives out itself: it
//! has no list of free frames, only one of those that were dropped, which the library gets back.
#![allow(unsafe_code)]

use crate::HugeVec;
use crate::frame::{CacheLine, Frame, LINE, RESIDENT};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, PoisonError};

/// Number in a list: none.
const NONE: u32 = u32::MAX;
/// Most frames of a pool.
const MOST: usize = 1 << 24;

/// What frames look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLayout {
    /// How many there are, at most 16,777,216.
    pub frames: usize,
    /// Bytes from one to the next, rounded up to cache lines. As memory of packets it should be an odd number of lines:
    /// then the headers do not share a few sets of the cache.
    pub stride: usize,
    /// Bytes at the beginning of each that are not the packet's (what a device keeps there), rounded down to lines.
    pub skip: usize,
}

/// A memory, and which of its frames are free. It is there until the last pool and the last frame are gone.
pub(crate) struct Owner {
    /// Nobody reads or writes it but through frames.
    memory: HugeVec<CacheLine>,
    base: NonNull<CacheLine>,
    /// Lines from one frame to the next (zero: the memory is somebody else's), and how many of them are not the
    /// packet's.
    stride: u32,
    skip: u32,
    frames: u32,
    /// Added to the numbers of frames that are handed out.
    mark: u32,
    free: Mutex<Vec<u32>>,
    /// The last one that was dropped by itself; `next` leads to the one before.
    dropped: AtomicU32,
    next: Box<[AtomicU32]>,
    /// Pools and frames that lead here.
    users: AtomicUsize,
}

impl Owner {
    /// A frame has been dropped.
    ///
    /// # Safety
    /// It was handed out by this owner, and counted among its users until now; nobody uses its memory any more.
    #[cold]
    pub(crate) unsafe fn give_back(owner: NonNull<Owner>, number: u32) {
        {
            // SAFETY: the frame counts among the users until the end of this function.
            let o = unsafe { owner.as_ref() };
            if let Some(next) = o.next.get(number as usize) {
                let mut head = o.dropped.load(Ordering::Relaxed);
                // Bound: another round only if somebody else has been faster
                loop {
                    next.store(head, Ordering::Relaxed);
                    // what was written to the frame comes before whoever takes it out of the list
                    match (o.dropped).compare_exchange_weak(
                        head,
                        number,
                        Ordering::Release,
                        Ordering::Relaxed,
                    ) {
                        Ok(_) => break,
                        Err(now) => head = now,
                    }
                }
            }
        }
        // SAFETY: this user does not look there any more.
        unsafe { Owner::release(owner, 1) };
    }

    /// So many users less; the last one frees the memory.
    ///
    /// # Safety
    /// They were counted, and do not use the owner from here on.
    unsafe fn release(owner: NonNull<Owner>, n: usize) {
        // SAFETY: those who leave are counted until now, so that it is there.
        let before = unsafe { owner.as_ref() }
            .users
            .fetch_sub(n, Ordering::Release);
        if before == n {
            // all that other users did comes before
            fence(Ordering::Acquire);
            // SAFETY: made by `FramePool::build` of a box; nobody is left.
            drop(unsafe { Box::from_raw(owner.as_ptr()) });
        }
    }

    /// Somebody else gives frames out.
    fn is_foreign(&self) -> bool {
        self.stride == 0
    }

    /// Those that were dropped by themselves are free, too.
    fn collect_dropped(&self, free: &mut Vec<u32>) {
        // the whole list at once: nobody else can see a part of it
        let mut number = self.dropped.swap(NONE, Ordering::Acquire);
        // Bound: each frame is in the list once at most
        for _ in 0..self.frames {
            let Some(next) = self.next.get(number as usize) else {
                break;
            };
            free.push(number);
            number = next.load(Ordering::Relaxed);
        }
    }
}

/// Frames of one memory; see the module's text. A clone is the same pool.
pub struct FramePool {
    owner: NonNull<Owner>,
}

// SAFETY: the owner's lists are atomic or locked; its memory is touched through frames alone, each of which has a part
// of its own.
unsafe impl Send for FramePool {}
// SAFETY: as above.
unsafe impl Sync for FramePool {}

impl FramePool {
    /// A pool of frames that go back when their packet has left or was dropped ([`Frame::is_borrowed`]).
    pub fn new(layout: FrameLayout) -> FramePool {
        FramePool::build(layout, 0)
    }

    /// A pool whose frames packets keep for as long as they live, through any number of refills: memory that lies
    /// together, not memory that somebody waits for.
    pub fn resident(layout: FrameLayout) -> FramePool {
        FramePool::build(layout, RESIDENT)
    }

    fn build(l: FrameLayout, mark: u32) -> FramePool {
        let stride = l.stride.clamp(1, 1 << 20).div_ceil(LINE);
        let skip = (l.skip / LINE).min(stride);
        let frames = l.frames.min(MOST);
        FramePool::over(
            HugeVec::filled(frames * stride),
            frames,
            (stride, skip),
            mark,
        )
    }

    fn over(
        mut memory: HugeVec<CacheLine>,
        frames: usize,
        (stride, skip): (usize, usize),
        mark: u32,
    ) -> FramePool {
        let base = NonNull::from(&mut *memory).cast();
        // frames of somebody else's count from the start, wherever they are
        let (free, users) = match stride {
            0 => (Vec::new(), 1 + frames),
            // the first ones first
            _ => ((0..frames as u32).rev().collect(), 1),
        };
        let owner = Box::new(Owner {
            memory,
            base,
            stride: stride as u32,
            skip: skip as u32,
            frames: frames as u32,
            mark,
            free: Mutex::new(free),
            dropped: AtomicU32::new(NONE),
            next: (0..frames).map(|_| AtomicU32::new(NONE)).collect(),
            users: AtomicUsize::new(users),
        });
        FramePool {
            owner: NonNull::from(Box::leak(owner)),
        }
    }

    /// A pool of frames that are somebody else's, numbered from 0 to before `frames`: a driver library's, which gives
    /// them out ([`FramePool::adopt`]) and gets them back ([`FramePool::disown`], [`FramePool::returned`]). Packets do
    /// not keep them ([`Frame::is_borrowed`]). What is known of the frames stays allocated while any of them is not in
    /// the list of [`FramePool::returned`]: that of a library which keeps its frames, until the process ends.
    pub fn foreign(frames: usize) -> FramePool {
        FramePool::over(HugeVec::filled(0), frames.min(MOST), (0, 0), 0)
    }

    /// A frame that the library has given out: `lines` cache lines from `at` on, as number `number`.
    ///
    /// # Safety
    /// It is a foreign pool with such a number, and that number is not out. `at` is aligned to a cache line, all bytes
    /// are there until the process ends, and nobody else reads or writes them until the number has come back.
    #[inline]
    pub unsafe fn adopt(&self, at: NonNull<u8>, lines: u32, number: u32) -> Frame {
        // SAFETY: the caller says so; frames of a foreign pool are counted all the time.
        unsafe { Frame::owned(at.cast(), lines, number, self.owner) }
    }

    /// The library gets a frame back: where it begins. A frame that is not of this pool goes home, and `None` comes
    /// back; so does one of a pool that is not foreign.
    #[inline]
    pub fn disown(&self, frame: Frame) -> Option<NonNull<u8>> {
        if !self.owns(&frame) || !self.owner().is_foreign() {
            return None;
        }
        let at = NonNull::from(&*frame).cast();
        // counted as before
        frame.into_number();
        Some(at)
    }

    /// Adds the numbers of frames of a foreign pool that were dropped since the last time to `to`: the library gets
    /// them back.
    #[inline]
    pub fn returned(&self, to: &mut Vec<u32>) {
        let o = self.owner();
        if o.is_foreign() && o.dropped.load(Ordering::Relaxed) != NONE {
            let before = to.len();
            o.collect_dropped(to);
            // counted again
            o.users.fetch_add(to.len() - before, Ordering::Relaxed);
        }
    }

    fn owner(&self) -> &Owner {
        // SAFETY: a pool counts among the users.
        unsafe { self.owner.as_ref() }
    }

    /// Adds up to `n` free frames to `to`, with whatever was in them. How many there were.
    /// A foreign pool has none to give.
    pub fn take(&self, n: usize, to: &mut impl Extend<Frame>) -> usize {
        let o = self.owner();
        if o.is_foreign() {
            return 0;
        }
        let mut free = o.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < n {
            o.collect_dropped(&mut free);
        }
        let n = n.min(free.len());
        if n == 0 {
            return 0;
        }
        o.users.fetch_add(n, Ordering::Relaxed);
        let from = free.len() - n;
        to.extend(free.drain(from..).rev().map(|number| {
            let line = number as usize * o.stride as usize + o.skip as usize;
            // SAFETY: `frames` times `stride` lines are there, and the number is less than that of frames; it was free,
            // so that nobody has it, and it is counted.
            unsafe {
                let lines = o.stride - o.skip;
                Frame::owned(o.base.add(line), lines, number | o.mark, self.owner)
            }
        }));
        n
    }

    /// Frames go back, those of this pool with one lock for all of them.
    pub fn give(&self, frames: impl IntoIterator<Item = Frame>) {
        let o = self.owner();
        if o.is_foreign() {
            return frames.into_iter().for_each(drop);
        }
        let mut mine = 0;
        {
            let mut free = o.free.lock().unwrap_or_else(PoisonError::into_inner);
            for f in frames {
                if self.owns(&f) {
                    free.push(f.into_number());
                    mine += 1;
                }
            }
        }
        // SAFETY: frames of this pool that are not there any more; this pool counts, too, and stays.
        unsafe { Owner::release(self.owner, mine) };
    }

    /// Is it a frame of this pool?
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        frame.owner() == Some(self.owner)
    }

    /// How many are free at present; of a foreign pool none.
    pub fn free(&self) -> usize {
        let o = self.owner();
        if o.is_foreign() {
            return 0;
        }
        let mut free = o.free.lock().unwrap_or_else(PoisonError::into_inner);
        o.collect_dropped(&mut free);
        free.len()
    }

    /// How many there are, free or not.
    pub fn frames(&self) -> usize {
        self.owner().frames as usize
    }

    /// Bytes from one frame to the next.
    pub fn stride(&self) -> usize {
        self.owner().stride as usize * LINE
    }

    /// Bytes of each that are not the packet's.
    pub fn skip(&self) -> usize {
        self.owner().skip as usize * LINE
    }

    /// The whole memory: where it begins, and its bytes. For those who tell a device of it: the device may read and
    /// write a frame's bytes only while whoever told it has the [`Frame`] and leaves it alone.
    pub fn memory(&self) -> (*mut u8, usize) {
        let o = self.owner();
        (o.base.as_ptr().cast(), o.memory.len() * LINE)
    }
}

impl Clone for FramePool {
    fn clone(&self) -> FramePool {
        self.owner().users.fetch_add(1, Ordering::Relaxed);
        FramePool { owner: self.owner }
    }
}

impl Drop for FramePool {
    fn drop(&mut self) {
        // SAFETY: this pool was counted, and is gone.
        unsafe { Owner::release(self.owner, 1) };
    }
}

impl fmt::Debug for FramePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramePool")
            .field("frames", &self.frames())
            .field("free", &self.free())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(frames: usize) -> FramePool {
        FramePool::new(FrameLayout {
            frames,
            stride: 2112,
            skip: 100,
        })
    }

    fn take(p: &FramePool, n: usize) -> Vec<Frame> {
        let mut all = Vec::new();
        p.take(n, &mut all);
        all
    }

    #[test]
    fn parts_lie_side_by_side_and_outlive_their_pool() {
        for frames in [0, 1, 7, 100] {
            let p = pool(frames);
            let mut all = take(&p, frames + 3);
            assert_eq!((all.len(), p.free(), p.frames()), (frames, 0, frames));
            assert!(
                all.iter()
                    .all(|f| f.len() == 2112 - 64 && f.iter().all(|b| *b == 0))
            );
            let apart = |w: &[Frame]| w[1].as_ptr().addr() - w[0].as_ptr().addr();
            assert!(all.windows(2).all(|w| apart(w) == 2112));
            for (i, f) in all.iter_mut().enumerate() {
                assert_eq!(f.number(), Some(i as u32));
                assert!(f.is_borrowed() && p.owns(f));
                assert_eq!(f.as_ptr().addr(), p.memory().0.addr() + i * 2112 + 64);
                f.fill(i as u8);
            }
            let copy = all.get(3).cloned();
            assert!(copy.as_ref().is_none_or(|f| !f.is_borrowed()));
            let kept = all.pop();
            drop((all, p));
            if let Some(f) = kept {
                assert!(f.iter().all(|b| *b == (frames - 1) as u8));
            }
            assert!(copy.is_none_or(|f| f.iter().all(|b| *b == 3)));
        }
    }

    #[test]
    fn every_frame_is_out_once_or_free() {
        let p = pool(8);
        let mut all = take(&p, 8);
        assert_eq!((all.len(), p.take(1, &mut Vec::new())), (8, 0));
        // one by one, and in a batch
        drop(all.drain(..3));
        assert_eq!(p.free(), 3);
        p.give(all.drain(..2).chain([Frame::zeroed(64)]));
        assert_eq!(p.free(), 5);
        let mut again = take(&p, 8);
        assert_eq!(again.len(), 5);
        again.append(&mut all);
        let mut numbers: Vec<_> = again.iter().filter_map(Frame::number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
        // those of another pool go home
        let other = pool(2);
        p.give(take(&other, 2));
        assert_eq!((p.free(), other.free()), (0, 2));
    }

    #[test]
    fn growth_copies_out_and_gives_the_frame_back() {
        let p = pool(2);
        let mut all = take(&p, 2);
        let f = &mut all[0];
        f.fill(7);
        let before = f.len();
        f.grow(before);
        assert!(f.is_borrowed(), "there was room");
        f.grow(before + 1);
        assert!(!f.is_borrowed() && f.number().is_none());
        assert!(f[..before].iter().all(|b| *b == 7) && f[before..].iter().all(|b| *b == 0));
        assert_eq!(p.free(), 1);
        all[1].grow_front(64);
        assert_eq!((p.free(), all[1].is_borrowed()), (2, false));
    }

    #[test]
    fn residents_are_not_waited_for() {
        let p = FramePool::resident(FrameLayout {
            frames: 3,
            stride: 256,
            skip: 0,
        });
        let all = take(&p, 3);
        assert!(all.iter().all(|f| !f.is_borrowed() && p.owns(f)));
        assert_eq!(all[2].number(), Some(2));
        drop(all);
        assert_eq!(p.free(), 3);
    }

    #[test]
    fn frames_of_a_library_go_back_to_it() {
        // what a library would have allocated for good
        let memory = Box::leak(vec![CacheLine::default(); 40].into_boxed_slice());
        let base = NonNull::from(memory).cast::<CacheLine>();
        let p = FramePool::foreign(4);
        // SAFETY: ten lines for each of four numbers, which nobody has, and nobody frees.
        let out = |n: u32| unsafe { p.adopt(base.add(10 * n as usize).cast(), 9, n) };
        let (mut a, b, c) = (out(3), out(0), out(2));
        a.fill(7);
        assert_eq!((a.len(), a.number(), a.is_borrowed()), (576, Some(3), true));
        assert!(p.owns(&b) && p.take(1, &mut Vec::new()) == 0 && p.free() == 0);
        let at = a.as_ptr();
        assert_eq!(p.disown(a).map(|at| at.as_ptr().cast_const()), Some(at));
        let mut numbers = Vec::new();
        p.returned(&mut numbers);
        assert!(numbers.is_empty());
        drop(b);
        p.give([c, Frame::zeroed(64)]);
        p.returned(&mut numbers);
        assert_eq!(numbers, [2, 0]);
        p.returned(&mut numbers);
        assert_eq!(numbers.len(), 2);
        // those that came back may go out again; those of others are not taken for ours
        let b = out(0);
        assert!(p.disown(Frame::zeroed(64)).is_none());
        let other = pool(1);
        assert!(other.disown(b).is_none());
        p.returned(&mut numbers);
        assert_eq!(numbers, [2, 0, 0]);
        // a frame outlives the pool
        let b = out(0);
        drop(p);
        drop(b);
    }

    #[test]
    fn threads_give_back_what_others_took() {
        let p = pool(64);
        let rounds = if cfg!(miri) { 4 } else { 400 };
        std::thread::scope(|s| {
            for id in 0..3u8 {
                let p = p.clone();
                s.spawn(move || {
                    for _ in 0..rounds {
                        let mut some = take(&p, 21);
                        for f in &mut some {
                            f[..64].fill(id);
                        }
                        std::thread::yield_now();
                        assert!(some.iter().all(|f| f[..64] == [id; 64]));
                        let rest = some.split_off(some.len() / 2);
                        // dropped in a thread that did not take them
                        s.spawn(move || drop(rest));
                        p.give(some);
                    }
                });
            }
        });
        assert_eq!(p.free(), 64);
    }
}
