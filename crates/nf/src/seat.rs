//! A process's place in a chain: its ends of the rings, and the slots that it has.

mod sleep;

use crate::atomics::Native;
use crate::bell;
use crate::frames::SharedFrames;
use crate::futex;
use crate::plan::{Plan, Purpose};
use crate::region::{NfBlock, Region, Ring};
use crate::ring::{Consumer, Descriptor, Producer, RingError, RingMemory};
use onefold_table::Frame;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Empty slots that a process keeps for what it makes; what is more goes back to the launcher.
pub const SPARE_SLOTS: usize = 64;
/// Longest sleep, whatever peers say.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(100);

/// What a peer has done wrong, or why a process has no place in a chain.
#[derive(Debug, thiserror::Error)]
pub enum SeatError {
    /// A ring's counters.
    #[error("ring {ring}, from process {from} to {to}: {error}")]
    Ring {
        /// The ring.
        ring: u32,
        /// Who puts in.
        from: u32,
        /// Who takes out.
        to: u32,
        /// What is wrong.
        error: RingError,
    },
    /// The plan and the region do not fit each other.
    #[error("the plan has no process {0}, or its rings are not in the region")]
    NoPlace(u32),
}

/// How a process is woken.
#[derive(Debug)]
pub enum Waker {
    /// It waits for its word.
    Futex,
    /// It waits for this descriptor, among others.
    Event(OwnedFd),
}

impl Waker {
    fn wake(&self, block: &NfBlock) {
        match self {
            Waker::Futex => futex::wake(block.sleeping()),
            // a counter that is full is readable, too
            Waker::Event(fd) => drop(nix::unistd::write(fd, &1u64.to_ne_bytes())),
        }
    }
}

#[derive(Debug)]
struct Input {
    number: u32,
    from: u32,
    ring: Consumer<Ring>,
}

#[derive(Debug)]
struct Output {
    number: u32,
    to: u32,
    ring: Producer<Ring>,
    /// What waits for room, in order.
    backlog: Vec<Descriptor>,
    /// Something was put in and nobody rung for.
    rings: bool,
}

/// A packet, or a piece of one, that has come to this process.
#[derive(Debug)]
pub struct Arrived {
    /// Its slot.
    pub frame: Frame,
    /// What the descriptor says; its bytes are within the slot.
    pub descriptor: Descriptor,
}

/// See the module's text.
#[derive(Debug)]
pub struct Seat {
    region: Arc<Region>,
    me: u32,
    frames: SharedFrames,
    inputs: Vec<Input>,
    outputs: Vec<Output>,
    /// The launcher's: rings for empty slots. Of others: one each.
    slots_in: Vec<Input>,
    slots_out: Vec<Output>,
    /// Empty slots of this process.
    spare: Vec<u32>,
    wakers: Vec<Waker>,
    scratch: Vec<Descriptor>,
    refused: u64,
}

impl Seat {
    /// Process `me` of this plan. `wakers`: how each process is woken, by number; those that are not there wait for
    /// their word. All slots are the launcher's (`me` is 0) in the beginning.
    ///
    /// # Errors
    /// There is no such process, or the rings are not as they have to be.
    pub fn new(
        region: Arc<Region>,
        plan: &Plan,
        me: u32,
        wakers: Vec<Waker>,
    ) -> Result<Seat, SeatError> {
        if me >= plan.shape.nfs || region.shape() != plan.shape {
            return Err(SeatError::NoPlace(me));
        }
        let (mut ins, mut outs) = ([vec![], vec![]], [vec![], vec![]]);
        for (number, r) in (0u32..).zip(&plan.rings) {
            let slots = usize::from(r.purpose != Purpose::Packets);
            let failed = |error| SeatError::Ring {
                ring: number,
                from: r.from,
                to: r.to,
                error,
            };
            if r.to == me {
                let ring = region.ring(number).ok_or(SeatError::NoPlace(me))?;
                ins[slots].push(Input {
                    number,
                    from: r.from,
                    ring: Consumer::attach(ring).map_err(failed)?,
                });
            } else if r.from == me {
                let ring = region.ring(number).ok_or(SeatError::NoPlace(me))?;
                outs[slots].push(Output {
                    number,
                    to: r.to,
                    ring: Producer::attach(ring).map_err(failed)?,
                    backlog: Vec::new(),
                    rings: false,
                });
            }
        }
        let ([inputs, slots_in], [outputs, slots_out]) = (ins, outs);
        let spare = match me {
            // the first ones first
            0 => (0..plan.shape.slots).rev().collect(),
            _ => Vec::new(),
        };
        Ok(Seat {
            frames: SharedFrames::new(region.clone()),
            region,
            me,
            inputs,
            outputs,
            slots_in,
            slots_out,
            spare,
            wakers,
            scratch: Vec::new(),
            refused: 0,
        })
    }

    /// The region.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// This process's block.
    pub fn block(&self) -> Option<&NfBlock> {
        self.region.nf(self.me)
    }

    /// This process's number.
    pub fn number(&self) -> u32 {
        self.me
    }

    /// The ring of input `i`, by number; inputs are in the order of their rings.
    pub fn input_ring(&self, i: usize) -> Option<u32> {
        self.inputs.get(i).map(|r| r.number)
    }

    /// The input that this ring is.
    pub fn input_of(&self, ring: u32) -> Option<usize> {
        self.inputs.iter().position(|i| i.number == ring)
    }

    /// The output that this ring is.
    pub fn output_of(&self, ring: u32) -> Option<usize> {
        self.outputs.iter().position(|o| o.number == ring)
    }

    /// How many inputs, and outputs.
    pub fn ends(&self) -> (usize, usize) {
        (self.inputs.len(), self.outputs.len())
    }

    /// Is it a frame of the region?
    #[inline]
    pub fn owns(&self, frame: &Frame) -> bool {
        self.frames.owns(frame)
    }

    /// Descriptors that led nowhere: a slot that there is not, bytes beyond its end, a slot that this process had
    /// already. They are passed over.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Slots that this process's packets have.
    pub fn held(&self) -> usize {
        self.frames.len()
    }

    /// Empty slots that this process has.
    pub fn spare(&self) -> usize {
        self.spare.len()
    }

    /// When the next packet of an input arrived; `None`: there is none at present.
    ///
    /// # Errors
    /// The peer's counter cannot be.
    #[inline]
    pub fn next_time(&mut self, input: usize) -> Result<Option<i64>, SeatError> {
        let Some(i) = self.inputs.get_mut(input) else {
            return Ok(None);
        };
        let next = i.ring.peek().map_err(|e| ring_error(i, self.me, e))?;
        Ok(next.map(|d| d.time))
    }

    /// Are all inputs empty at this moment?
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.inputs.iter().all(|i| i.ring.is_empty())
    }

    /// Is an input empty at this moment? One that there is not is.
    #[inline]
    pub fn is_empty(&self, input: usize) -> bool {
        self.inputs.get(input).is_none_or(|i| i.ring.is_empty())
    }

    /// Takes up to `most` packets out of an input, to the end of `to`; they are this process's.
    ///
    /// # Errors
    /// The peer's counter cannot be.
    #[inline]
    pub fn receive(
        &mut self,
        input: usize,
        to: &mut Vec<Arrived>,
        most: usize,
    ) -> Result<usize, SeatError> {
        let Some(i) = self.inputs.get_mut(input) else {
            return Ok(0);
        };
        self.scratch.clear();
        let taken = i.ring.take(&mut self.scratch, most);
        let n = taken.map_err(|e| ring_error(i, self.me, e))?;
        if n == 0 {
            return Ok(0);
        }
        let before = to.len();
        for d in &self.scratch {
            let end = u64::from(d.offset) + u64::from(d.len);
            let fits = end <= u64::from(self.region.shape().slot_bytes);
            match self.frames.adopt(d.slot).filter(|_| fits) {
                Some(frame) => to.push(Arrived {
                    frame,
                    descriptor: *d,
                }),
                None => self.refused += 1,
            }
        }
        // By itself: other cores have written these lines, and whatever is read back behind a write that waits for its
        // line waits, too
        let owners = self.region.owners();
        for a in to.iter().skip(before) {
            if let Some(o) = owners.get(a.descriptor.slot as usize) {
                o.store(self.me, Ordering::Relaxed);
            }
        }
        // whose they are is written before it is seen that they were taken
        i.ring.claim();
        Ok(n)
    }

    /// What was received from all inputs is done with, and what came of it is sent.
    #[inline]
    pub fn release(&mut self) {
        for i in &mut self.inputs {
            i.ring.release();
        }
    }

    /// An empty slot; `None`: there is none at present.
    #[inline]
    pub fn take_slot(&mut self) -> Option<Frame> {
        if self.spare.is_empty() {
            self.refill();
        }
        self.frames.adopt(self.spare.pop()?)
    }

    /// Slots of packets that were dropped, and those that others give, are spare.
    #[cold]
    fn refill(&mut self) {
        self.frames.collect(&mut self.spare);
        let owners = self.region.owners();
        let most = match self.me {
            0 => usize::MAX,
            _ => SPARE_SLOTS,
        };
        for i in &mut self.slots_in {
            self.scratch.clear();
            // a peer whose counter cannot be gives nothing
            if i.ring.take(&mut self.scratch, most).is_err() {
                continue;
            }
            for d in &self.scratch {
                match owners.get(d.slot as usize) {
                    Some(o) => {
                        o.store(self.me, Ordering::Relaxed);
                        self.spare.push(d.slot);
                    }
                    None => self.refused += 1,
                }
            }
            i.ring.claim();
            i.ring.release();
        }
    }

    /// These slots are this process's, and empty: the launcher has them back from a process that has ended.
    pub fn reclaim(&mut self, slots: &[u32]) {
        let owners = self.region.owners();
        for s in slots {
            if let Some(o) = owners.get(*s as usize) {
                o.store(self.me, Ordering::Relaxed);
            }
        }
        self.spare.extend(slots);
    }

    /// Where `len` bytes of a frame of the region are, which is about to be sent. `None`: it is none, and goes home.
    #[inline]
    pub fn describe(&mut self, frame: Frame, offset: usize, len: usize) -> Option<Descriptor> {
        let end = offset.checked_add(len)?;
        if end > frame.len() {
            return None;
        }
        Some(Descriptor {
            slot: self.frames.disown(frame)?,
            offset: u16::try_from(offset).ok()?,
            len: u32::try_from(len).ok()?,
            ..Descriptor::default()
        })
    }

    /// A packet, or a piece of one, is to leave through an output: it waits there for [`Seat::flush`].
    #[inline]
    pub fn queue(&mut self, output: usize, d: Descriptor) {
        if let Some(o) = self.outputs.get_mut(output) {
            o.backlog.push(d);
        }
    }

    /// Packets that wait for room at an output.
    #[inline]
    pub fn backlog(&self, output: usize) -> usize {
        self.outputs.get(output).map_or(0, |o| o.backlog.len())
    }

    /// How many more packets may wait at an output, in its ring and in front of it, if these are all that may; where it
    /// is `wanted` or more, it may be more than what is said ([`Producer::waiting`]).
    ///
    /// # Errors
    /// The peer's counter cannot be.
    #[inline]
    pub fn room_below(&mut self, output: usize, all: u32, wanted: u32) -> Result<u32, SeatError> {
        let Some(o) = self.outputs.get_mut(output) else {
            return Ok(all);
        };
        let backlog = u32::try_from(o.backlog.len()).unwrap_or(u32::MAX);
        let left = all.saturating_sub(backlog);
        let waiting =
            (o.ring.waiting(left.saturating_sub(wanted))).map_err(|error| SeatError::Ring {
                ring: o.number,
                from: self.me,
                to: o.to,
                error,
            })?;
        Ok(left.saturating_sub(waiting))
    }

    /// What waits at an output is given up: how many packets, and their slots are spare.
    pub fn give_up(&mut self, output: usize) -> u64 {
        let Some(o) = self.outputs.get_mut(output) else {
            return 0;
        };
        let whole = |d: &&Descriptor| d.flags & Descriptor::MORE == 0;
        let n = o.backlog.iter().filter(whole).count();
        self.spare.extend(o.backlog.drain(..).map(|d| d.slot));
        count_full(o, n as u64);
        n as u64
    }

    /// So many packets found an output's ring full, and are dropped by who has them.
    pub fn found_full(&self, output: usize, packets: u64) {
        if let Some(o) = self.outputs.get(output) {
            count_full(o, packets);
        }
    }

    /// Packets that were put in front of an output, or are in its ring, are of this class: see [`Region::classes`].
    #[inline]
    pub fn classify(&self, slot: u32, class: u32) {
        if let Some(c) = self.region.classes().get(slot as usize) {
            c.store(class, Ordering::Relaxed);
        }
    }

    /// Sends what waits at all outputs, as far as there is room, and wakes who sleeps. How many descriptors were sent.
    ///
    /// # Errors
    /// A peer's counter cannot be; what is for others is sent.
    #[inline]
    pub fn flush(&mut self) -> Result<usize, SeatError> {
        let (mut sent, mut failed) = (0, Ok(()));
        for o in &mut self.outputs {
            match push(o) {
                Ok(n) => sent += n,
                Err(error) => {
                    failed = Err(SeatError::Ring {
                        ring: o.number,
                        from: self.me,
                        to: o.to,
                        error,
                    });
                }
            }
        }
        for i in 0..self.outputs.len() {
            let Some(o) = self.outputs.get_mut(i) else {
                break;
            };
            if std::mem::take(&mut o.rings) {
                let to = o.to;
                self.ring(to);
            }
        }
        failed.map(|()| sent)
    }

    /// Empty slots that are too many go to the launcher; the launcher fills what others are supplied from. For once in
    /// a while, or a batch.
    #[inline]
    pub fn tidy(&mut self) {
        self.frames.collect(&mut self.spare);
        if self.me == 0 {
            return self.supply();
        }
        if self.spare.len() <= SPARE_SLOTS {
            return;
        }
        let Some(o) = self.slots_out.first_mut() else {
            return;
        };
        // those that were used last stay
        for slot in self.spare.drain(..self.spare.len() - SPARE_SLOTS) {
            o.backlog.push(empty(slot));
        }
        let pushed = push(o);
        // what there is no room for stays here
        self.spare.extend(o.backlog.drain(..).map(|d| d.slot));
        o.rings = false;
        let _ = pushed;
    }

    fn supply(&mut self) {
        for n in 0..self.slots_out.len() {
            let Some(o) = self.slots_out.get_mut(n) else {
                return;
            };
            let has = crate::ring::occupancy(o.ring.ring()) as usize;
            if has >= SPARE_SLOTS / 2 || has >= o.ring.ring().places() as usize / 2 {
                continue;
            }
            let most = SPARE_SLOTS.min(o.ring.ring().places() as usize) - has;
            if self.spare.len() < most {
                self.refill();
            }
            let Some(o) = self.slots_out.get_mut(n) else {
                return;
            };
            let from = self.spare.len().saturating_sub(most);
            o.backlog.extend(self.spare.drain(from..).map(empty));
            let _ = push(o);
            self.spare.extend(o.backlog.drain(..).map(|d| d.slot));
            o.rings = false;
        }
    }

    /// Takes back what others have returned, once there are few left.
    pub fn take_returns(&mut self) {
        self.refill();
    }

    /// Something has been put where process `nf` looks: wakes it, if it sleeps.
    #[inline]
    pub fn ring(&self, nf: u32) {
        if let Some(block) = self.region.nf(nf)
            && bell::ring::<Native>(block.sleeping())
        {
            self.wakers
                .get(nf as usize)
                .unwrap_or(&Waker::Futex)
                .wake(block);
        }
    }
}

/// An empty slot's descriptor.
fn empty(slot: u32) -> Descriptor {
    Descriptor {
        slot,
        ..Descriptor::default()
    }
}

fn ring_error(i: &Input, me: u32, error: RingError) -> SeatError {
    SeatError::Ring {
        ring: i.number,
        from: i.from,
        to: me,
        error,
    }
}

fn count_full(o: &Output, packets: u64) {
    let full = o.ring.ring().full();
    full.store(
        full.load(Ordering::Relaxed).wrapping_add(packets as u32),
        Ordering::Relaxed,
    );
}

/// Sends what waits at an output, as far as there is room.
#[inline]
fn push(o: &mut Output) -> Result<usize, RingError> {
    if o.backlog.is_empty() {
        return Ok(0);
    }
    let n = o.ring.push(&o.backlog)?;
    o.backlog.drain(..n);
    o.rings |= n > 0;
    Ok(n)
}
