//! Ports of the runtime that are rings in shared memory ([`onefold_nf`]): packets come in the slots that whoever sent
//! them has written them to, and leave in them.
//!
//! [`Packets`] is a process's place in a chain, with packets in the place of slots: who launches processes and moves
//! packets between them and devices uses it as it is. [`RingPort`] is one of its rings, or one each way, as a
//! [`Port`]: what a worker has.
#![forbid(unsafe_code)]

use onefold_nf::{Arrived, Descriptor, HEADROOM, NO_CLASS, NfBlock, Seat, SeatError, Ways, ecn};
use onefold_packet::{DEFAULT_HEADROOM, Packet, Pkt, Timestamp};
use onefold_runtime::{Loss, Port, PortError, TRANSMIT_QUEUE_FULL};
use onefold_table::prefetch_at;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most packets that wait for room in a ring where none may be lost; beyond that they are.
pub const MOST_WAITING: usize = 1 << 16;
/// Of live ports.
pub const MOST_WAITING_LIVE: usize = 1 << 10;
/// The annotations that cross with a packet, by their place.
const KEPT: [usize; 2] = {
    let first = onefold_packet::anno_field::PERFCTR.offset as usize;
    [first, first + 1]
};
/// Longest packet that comes in pieces.
const LONGEST: usize = onefold_packet::MAX_PACKET_LEN;

const _: () = assert!(HEADROOM == DEFAULT_HEADROOM);

/// What was sent, received and lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets taken out of rings.
    pub received: u64,
    /// Packets put into rings, or waiting for room in one.
    pub sent: u64,
    /// Packets that found no room.
    pub lost: u64,
}

/// A process's place in a chain, with packets.
#[derive(Debug)]
pub struct Packets {
    seat: Seat,
    arrived: Vec<Arrived>,
    /// By input: the pieces of a packet that is not whole yet.
    pieces: Vec<Vec<u8>>,
    /// By output: packets that found no slot, in order.
    waiting: Vec<VecDeque<Pkt>>,
    /// No more than this waits at an output.
    most_waiting: usize,
    /// By output: the class of what is put there, of who is the first to have it ([`onefold_nf::Region::classes`]).
    classes: Vec<u32>,
    /// Slots that this process may have at a time; what arrives when it has more is copied.
    quota: usize,
    /// By slot that this process has: when its packet came into the chain, nanoseconds since 1970; 0: nobody says. What
    /// takes packets in may give them another time stamp, as the clock of a function that waits goes on.
    came: Vec<i64>,
    counts: Counts,
    /// Where packets of inputs go: those of the input that some came from last are sent before others come.
    ways: Ways,
    last: Option<usize>,
}

impl Packets {
    /// With this seat. `lossless`: far more packets may wait for room. `quota`: of slots; what arrives when this
    /// process has more is copied out of its slot.
    pub fn new(seat: Seat, lossless: bool, quota: usize) -> Packets {
        let (inputs, outputs) = seat.ends();
        Packets {
            came: vec![0; seat.region().shape().slots as usize],
            seat,
            arrived: Vec::new(),
            pieces: vec![Vec::new(); inputs],
            waiting: (0..outputs).map(|_| VecDeque::new()).collect(),
            classes: vec![NO_CLASS; outputs],
            most_waiting: match lossless {
                true => MOST_WAITING,
                false => MOST_WAITING_LIVE,
            },
            quota,
            counts: Counts::default(),
            ways: Ways::new(inputs, outputs),
            last: None,
        }
    }

    /// The seat.
    pub fn seat(&mut self) -> &mut Seat {
        &mut self.seat
    }

    /// Packets that leave through an output are of this class from now on, whatever they were before.
    pub fn classify(&mut self, output: usize, class: u32) {
        if let Some(c) = self.classes.get_mut(output) {
            *c = class;
        }
    }

    /// So far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Takes up to `n` packets out of an input, to the end of `batch`; `free` has handles, `n` at least. How many
    /// descriptors were taken: a long packet has several.
    ///
    /// # Errors
    /// The peer's counter cannot be.
    #[inline]
    pub fn receive(
        &mut self,
        input: usize,
        (free, batch): (&mut Vec<Pkt>, &mut Vec<Pkt>),
        n: usize,
    ) -> Result<usize, SeatError> {
        let n = n.min(free.len());
        let taken = self.seat.receive(input, &mut self.arrived, n)?;
        if taken > 0 {
            self.last = Some(input);
        }
        self.mark();
        // who sent them wrote them from another core, as a rule: all are asked for before the first one is read
        for a in &self.arrived {
            prefetch_at(a.frame.as_ptr().wrapping_add(a.descriptor.offset.into()));
        }
        let copies = self.seat.held() > self.quota;
        for a in self.arrived.drain(..) {
            let d = a.descriptor;
            if let Some(came) = self.came.get_mut(d.slot as usize) {
                *came = d.came();
            }
            let (from, len) = (usize::from(d.offset), d.len as usize);
            let pieces = self.pieces.get_mut(input);
            if let Some(pieces) =
                pieces.filter(|p| d.flags & Descriptor::MORE != 0 || !p.is_empty())
            {
                let bytes = a.frame.get(from..from + len).unwrap_or_default();
                if pieces.len() + bytes.len() <= LONGEST {
                    pieces.extend_from_slice(bytes);
                }
                if d.flags & Descriptor::MORE != 0 {
                    continue;
                }
                let Some(mut p) = free.pop() else { continue };
                p.refill(pieces);
                pieces.clear();
                arrive(&mut p, &d);
                batch.push(p);
                continue;
            }
            let Some(mut p) = free.pop() else { continue };
            let clear = d.flags & Descriptor::CLEAR_FRONT != 0 && from == DEFAULT_HEADROOM;
            match copies {
                true => p.refill(a.frame.get(from..from + len).unwrap_or_default()),
                false if clear => p.attach_cleared(a.frame, len),
                false => p.attach(a.frame, from..from + len),
            }
            arrive(&mut p, &d);
            batch.push(p);
        }
        Ok(taken)
    }

    /// Marks what has arrived, if the launcher wants that ([`onefold_nf::Orders::mark_ecn`]).
    #[inline]
    fn mark(&mut self) {
        let wanted = |b: &NfBlock| b.orders().mark_ecn.load(Ordering::Relaxed) != 0;
        let Some(block) = self.seat.block().filter(|b| wanted(b)) else {
            return;
        };
        let mut marked = 0;
        for a in &mut self.arrived {
            let (from, len) = (usize::from(a.descriptor.offset), a.descriptor.len as usize);
            marked += u64::from(a.frame.get_mut(from..from + len).is_some_and(ecn::mark));
        }
        let all = &block.said().marked;
        all.store(all.load(Ordering::Relaxed) + marked, Ordering::Relaxed);
    }

    /// These packets leave through an output, in order: as far as there is room ([`Seat::flush`]), others wait. All
    /// that is left of them in `packets` are their handles.
    #[inline]
    pub fn send(&mut self, output: usize, packets: &mut [Pkt]) {
        let mut behind = self.waiting.get(output).is_some_and(|w| !w.is_empty());
        if let Some(input) = self.last.filter(|_| !packets.is_empty()) {
            self.ways.goes(input, output);
        }
        for p in packets {
            let full = self.backlog(output) >= self.most_waiting;
            if full {
                self.counts.lost += 1;
                self.seat.found_full(output, 1);
            } else if behind || !self.queue(output, p) {
                // a slot may be there for the next one, which waits behind it all the same
                behind = true;
                let p = std::mem::replace(p, Box::new(Packet::from_slice(&[])));
                if let Some(w) = self.waiting.get_mut(output) {
                    w.push_back(p);
                }
            }
        }
    }

    /// Puts a packet in front of an output's ring. False: there is no slot for it.
    #[inline]
    fn queue(&mut self, output: usize, p: &mut Pkt) -> bool {
        let (at, len) = (p.data_offset(), p.len());
        let first = Descriptor {
            time: p.anno.timestamp.0,
            tag: kept(p),
            ..Descriptor::default()
        };
        let flags = match p.front_is_clear() {
            true => Descriptor::CLEAR_FRONT,
            false => 0,
        };
        if self.seat.owns(p.frame())
            && let Some(d) = self.seat.describe(p.detach(), at, len)
        {
            let class = self.classes.get(output).copied().unwrap_or(NO_CLASS);
            if class != NO_CLASS {
                self.seat.classify(d.slot, class);
            }
            let came = self.came.get(d.slot as usize).copied().unwrap_or_default() as u64;
            let d = Descriptor { came, ..d };
            self.seat.queue(output, place(d, first, flags));
            self.counts.sent += 1;
            return true;
        }
        self.copy(output, p, first)
    }

    /// A packet whose memory is not the region's is copied into slots.
    #[cold]
    fn copy(&mut self, output: usize, p: &Pkt, first: Descriptor) -> bool {
        let room = self.seat.region().shape().room();
        let mut slots = Vec::new();
        // an empty packet is a packet, too
        for _ in 0..p.len().div_ceil(room).max(1) {
            match self.seat.take_slot() {
                Some(slot) => slots.push(slot),
                None => return false,
            }
        }
        let mut left = p.data();
        let last = slots.len().saturating_sub(1);
        for (i, mut slot) in slots.into_iter().enumerate() {
            let (here, rest) = left.split_at(left.len().min(room));
            left = rest;
            let to = slot.get_mut(HEADROOM..HEADROOM + here.len());
            to.unwrap_or_default().copy_from_slice(here);
            let flags = if i < last { Descriptor::MORE } else { 0 };
            if let Some(d) = self.seat.describe(slot, HEADROOM, here.len()) {
                // also where none is known: something else was there before
                let class = self.classes.get(output).copied().unwrap_or(NO_CLASS);
                self.seat.classify(d.slot, class);
                self.seat.queue(output, place(d, first, flags));
            }
        }
        self.counts.sent += 1;
        true
    }

    /// Sends what waits, as far as there is room. How many descriptors were sent.
    ///
    /// # Errors
    /// A peer's counter cannot be.
    #[inline]
    pub fn flush(&mut self) -> Result<usize, SeatError> {
        for output in 0..self.waiting.len() {
            while let Some(mut p) = self.waiting.get_mut(output).and_then(VecDeque::pop_front) {
                if !self.queue(output, &mut p) {
                    if let Some(w) = self.waiting.get_mut(output) {
                        w.push_front(p);
                    }
                    break;
                }
            }
        }
        self.seat.flush()
    }

    /// Packets that wait at an output.
    #[inline]
    pub fn backlog(&self, output: usize) -> usize {
        self.seat.backlog(output) + self.waiting.get(output).map_or(0, VecDeque::len)
    }

    /// Does anything wait at any output?
    #[inline]
    pub fn is_blocked(&self) -> bool {
        (0..self.waiting.len()).any(|o| self.backlog(o) > 0)
    }

    /// Inputs that lead to full rings, and only there, wait from now on, until there is room or somebody says
    /// otherwise ([`Packets::open`]); what has waited at such a ring for too long is given up, and counted as lost.
    pub fn wait_by_way(&mut self, now: Instant) {
        let (seat, waiting) = (&self.seat, &self.waiting);
        let backlog = |o| seat.backlog(o) + waiting.get(o).map_or(0, VecDeque::len);
        self.ways.look(now, backlog);
        for output in 0..self.waiting.len() {
            if self.ways.is_over(output) {
                self.give_up_at(output);
            }
        }
    }

    /// Does an input wait for room further on ([`Packets::wait_by_way`])? Then this sleeps for `most`, or until
    /// something comes by another one, or `awake`: nobody tells when there is room. If none does, it returns at once,
    /// and says so.
    pub fn sleep_by_way(&self, most: Duration, awake: impl Fn() -> bool) -> bool {
        let shut = |i| self.ways.is_shut(i);
        if !(0..self.seat.ends().0).any(shut) {
            return false;
        }
        self.seat.sleep_despite(most, shut, awake);
        true
    }

    /// No input waits.
    #[inline]
    pub fn open(&mut self) {
        self.ways.open();
    }

    /// What waits at all outputs is given up, and counted as lost.
    pub fn give_up(&mut self) {
        for output in 0..self.waiting.len() {
            self.give_up_at(output);
        }
    }

    fn give_up_at(&mut self, output: usize) {
        if let Some(waiting) = self.waiting.get_mut(output) {
            let n = self.seat.give_up(output) + waiting.len() as u64;
            self.seat.found_full(output, waiting.len() as u64);
            waiting.clear();
            self.counts.lost += n;
            self.counts.sent -= n.min(self.counts.sent);
        }
    }

    /// When a packet that was received came into the chain: at the time stamp that it had in the first ring that it was
    /// in. One that had to be copied is as old as its own time stamp.
    #[inline]
    pub fn came(&self, p: &Packet) -> Timestamp {
        let slot = p.frame().number().filter(|_| self.seat.owns(p.frame()));
        let came = slot.and_then(|n| self.came.get(n as usize));
        came.filter(|came| **came != 0)
            .map_or(p.anno.timestamp, |came| Timestamp(*came))
    }

    /// Handles to be refilled, `n` of them, each with a slot as far as there are any: what is received into them lies
    /// in shared memory already.
    pub fn handles(&mut self, free: &mut Vec<Pkt>, n: usize) {
        while free.len() < n {
            free.push(Box::new(Packet::from_slice(&[])));
        }
        let from = free.len() - n;
        for p in free.iter_mut().skip(from) {
            if !self.seat.owns(p.frame())
                && let Some(frame) = self.seat.take_slot()
            {
                let slot = frame.number().and_then(|n| self.came.get_mut(n as usize));
                slot.into_iter().for_each(|came| *came = 0);
                p.attach(frame, HEADROOM..HEADROOM);
            }
        }
    }
}

/// What a descriptor says of the packet, besides where it is.
#[inline]
fn arrive(p: &mut Pkt, d: &Descriptor) {
    p.anno.timestamp = Timestamp(d.time);
    if d.tag != 0 {
        let [a, b, ..] = d.tag.to_le_bytes();
        for (at, v) in KEPT.into_iter().zip([a, b]) {
            p.anno.set_u8(at, v);
        }
    }
}

/// What crosses of a packet's annotations.
#[inline]
fn kept(p: &Pkt) -> u32 {
    let [a, b] = KEPT.map(|at| p.anno.u8(at));
    u32::from_le_bytes([a, b, 0, 0])
}

#[inline]
fn place(at: Descriptor, first: Descriptor, flags: u16) -> Descriptor {
    Descriptor {
        time: first.time,
        tag: first.tag,
        flags,
        ..at
    }
}

/// A place in a chain that a process's ports have together.
pub type Shared = Arc<Mutex<Packets>>;

/// Nobody else has it for long.
pub fn lock(shared: &Shared) -> MutexGuard<'_, Packets> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A ring that packets come from, one that they leave through, or both.
#[derive(Debug)]
pub struct RingPort {
    name: String,
    packets: Shared,
    input: Option<usize>,
    output: Option<usize>,
    /// Packets arrive at the time at which they come out of the ring; if not, at their own.
    live: bool,
    /// What is wrong with the peer; nothing arrives any more.
    failed: Option<SeatError>,
}

impl RingPort {
    /// Of these ends of a seat. `name` is for messages.
    pub fn new(
        name: &str,
        packets: Shared,
        (input, output): (Option<usize>, Option<usize>),
        live: bool,
    ) -> RingPort {
        RingPort {
            name: name.to_string(),
            packets,
            input,
            output,
            live,
            failed: None,
        }
    }

    fn error(&self, doing: &'static str, error: SeatError) -> PortError {
        PortError::Device {
            port: self.name.clone(),
            doing,
            error: std::io::Error::other(error),
        }
    }
}

impl Port for RingPort {
    fn next_at(&mut self) -> Option<Timestamp> {
        let next = lock(&self.packets).seat().next_time(self.input?);
        match next {
            Ok(next) => next.map(Timestamp),
            Err(e) => {
                self.failed.get_or_insert(e);
                None
            }
        }
    }
    fn receive(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, until: Timestamp, n: usize) {
        let Some(input) = self.input else { return };
        let mut all = lock(&self.packets);
        let mut got = 0;
        while got < n {
            // as many as come before others'
            let most = match until {
                Timestamp::MAX => n - got,
                _ => match all.seat().next_time(input) {
                    Ok(Some(at)) if at < until.0 => 1,
                    _ => break,
                },
            };
            match all.receive(input, (free, batch), most) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) => {
                    self.failed.get_or_insert(e);
                    break;
                }
            }
            if most > 1 {
                break;
            }
        }
        all.counts.received += got as u64;
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        let Some(output) = self.output else {
            return Ok(());
        };
        for p in packets.iter_mut().filter(|p| !p.anno.timestamp.is_set()) {
            p.anno.timestamp = now;
        }
        let sent = {
            let mut all = lock(&self.packets);
            all.send(output, packets);
            all.flush()
        };
        sent.map(|_| ()).map_err(|e| self.error("sending", e))
    }
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn lends_frames(&self) -> bool {
        true
    }
    fn is_live(&self) -> bool {
        self.live
    }
    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let Some(input) = self.input else {
            return Ok(());
        };
        let got = {
            let mut all = lock(&self.packets);
            if all.ways.is_shut(input) {
                return Ok(());
            }
            let got = all.receive(input, (free, batch), n);
            if let Ok(n) = got {
                all.counts.received += n as u64;
            }
            got
        };
        got.map(|_| ()).map_err(|e| self.error("receiving", e))
    }
    fn take_warnings(&mut self) -> Vec<String> {
        let failed = self.failed.take();
        failed
            .map(|e| format!("{}: {e}", self.name))
            .into_iter()
            .collect()
    }
    fn losses(&self) -> Vec<Loss> {
        let packets = lock(&self.packets).counts.lost;
        let all = self.output.filter(|o| *o == 0 && packets > 0);
        let loss = |_| Loss {
            reason: TRANSMIT_QUEUE_FULL,
            packets,
        };
        all.map(loss).into_iter().collect()
    }
}
