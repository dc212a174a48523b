//! A region's slots as frames of packets: what of them this process has.
#![allow(unsafe_code)]

use crate::region::Region;
use onefold_table::{Frame, FramePool};
use std::sync::{Arc, Mutex, PoisonError};

/// Regions with frames, which may be anywhere: they stay until the process ends. One for each seat of a process.
static KEPT: Mutex<Vec<(Arc<Region>, FramePool)>> = Mutex::new(Vec::new());

/// The slots of a region that a process has, each once.
///
/// The bytes of a slot are its owner's. That others leave them alone is what processes of one chain have agreed on, and
/// nothing enforces it: a peer that breaks it can spoil packets, as it could by sending other ones.
#[derive(Debug)]
pub struct SharedFrames {
    region: Arc<Region>,
    pool: FramePool,
    /// By slot: this process has it.
    held: Vec<bool>,
    /// How many it has.
    all: usize,
    lines: u32,
}

impl SharedFrames {
    /// None yet. The region stays mapped until the process ends.
    pub fn new(region: Arc<Region>) -> SharedFrames {
        let shape = region.shape();
        let pool = FramePool::foreign(shape.slots as usize);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((region.clone(), pool.clone()));
        SharedFrames {
            pool,
            held: vec![false; shape.slots as usize],
            all: 0,
            lines: shape.slot_bytes / 64,
            region,
        }
    }

    /// Is it a frame of these?
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        self.pool.owns(frame)
    }

    /// A slot that has come to this process; `None`: there is no such slot, or this process has it already.
    #[inline]
    pub fn adopt(&mut self, slot: u32) -> Option<Frame> {
        let held = self.held.get_mut(slot as usize)?;
        let at = self.region.slot(slot)?;
        if std::mem::replace(held, true) {
            return None;
        }
        self.all += 1;
        // SAFETY: a number of the pool, which is not out, as it was not held; a slot begins at a line, so many lines
        // are there, and the region is never unmapped. The slot came from its owner, and is this process's until it
        // is handed on.
        Some(unsafe { self.pool.adopt(at, self.lines, slot) })
    }

    /// A frame is about to go to another process: its slot. `None`: it is no frame of these, and goes home.
    #[inline]
    pub fn disown(&mut self, frame: Frame) -> Option<u32> {
        let slot = frame.number()?;
        self.pool.disown(frame)?;
        self.gone(slot);
        Some(slot)
    }

    /// Adds the slots of frames that were dropped since the last time to `to`.
    #[inline]
    pub fn collect(&mut self, to: &mut Vec<u32>) {
        let from = to.len();
        self.pool.returned(to);
        for slot in to.get(from..).unwrap_or_default() {
            self.gone(*slot);
        }
    }

    #[inline]
    fn gone(&mut self, slot: u32) {
        if let Some(held) = self.held.get_mut(slot as usize) {
            *held = false;
            self.all -= 1;
        }
    }

    /// How many this process has.
    pub fn len(&self) -> usize {
        self.all
    }

    /// It has none.
    pub fn is_empty(&self) -> bool {
        self.all == 0
    }
}
