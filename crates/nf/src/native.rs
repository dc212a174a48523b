//! A function that is a program of its own: its place in a chain, for the C library and for programs in Rust.
//!
//! The launcher leaves a socket open for the program and says its number in the environment variable
//! [`ENVIRONMENT`]. Its first message ([`Hello`]) is text; the shared memory and what the launcher is woken by come
//! with it. The program reads packets in batches, changes them where they lie, and writes each to a port, or drops it.

mod full;
mod hello;

pub use hello::Hello;

use crate::ecn;
use crate::memory::Memory;
use crate::plan::PlanError;
use crate::process::{Channel, State};
use crate::region::{HEADROOM, NO_CLASS, NfBlock, Region, ShapeError};
use crate::ring::Descriptor;
use crate::seat::{Arrived, LONGEST_SLEEP, Seat, SeatError, Waker};
use crate::service::{ServiceClock, publish, thread_time};
use crate::storage::{Data, Storage};
use crate::ways::Ways;
use onefold_table::Frame;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Names the descriptor that a program is told by what to do.
pub const ENVIRONMENT: &str = "ONEFOLD_NF_FD";
/// Longest first message, in bytes.
const LONGEST_HELLO: usize = 1 << 20;
/// Most ports of a program.
pub const MOST_PORTS: usize = 64;
/// How long the launcher may take to say something.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a program has no place in a chain, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// It was not launched by Onefold.
    #[error("{ENVIRONMENT} names no descriptor: the program is to be launched by onefold run")]
    NotLaunched,
    /// What the launcher says cannot be read.
    #[error("the launcher's message: {0}")]
    Hello(&'static str),
    /// The plan in it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The memory's shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A peer does what cannot be.
    #[error(transparent)]
    Peer(#[from] SeatError),
    /// The system.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// How long it sleeps while packets wait for room.
const BLOCKED_SLEEP: Duration = Duration::from_micros(100);

/// A packet that the program has, until it writes or drops it.
#[derive(Debug)]
pub struct NativePacket {
    frame: Frame,
    /// Where its data begins in the slot.
    pub offset: usize,
    /// Bytes of data.
    pub len: usize,
    /// The port that it came from.
    pub port: usize,
    /// When it arrived, nanoseconds since 1970.
    pub time: i64,
    tag: u32,
    flags: u16,
}

impl NativePacket {
    /// Its data; empty if that was moved out of the slot.
    pub fn data(&self) -> &[u8] {
        let end = self.offset.saturating_add(self.len);
        self.frame.get(self.offset..end).unwrap_or_default()
    }
    /// Its data, to be changed.
    pub fn data_mut(&mut self) -> &mut [u8] {
        let end = self.offset.saturating_add(self.len);
        self.frame.get_mut(self.offset..end).unwrap_or_default()
    }
    /// The whole slot that it lies in.
    pub fn slot(&mut self) -> &mut [u8] {
        &mut self.frame
    }
    /// The slot's number: no other packet that the program has has it.
    pub fn number(&self) -> u32 {
        self.frame.number().unwrap_or(u32::MAX)
    }
    /// Is it a part of a packet that does not fit into one slot, and not the last one?
    pub fn continues(&self) -> bool {
        self.flags & Descriptor::MORE != 0
    }
}

/// Wakes a program that waits for packets.
#[derive(Debug, Clone)]
pub struct OwnBell {
    region: Arc<Region>,
    me: u32,
}

impl OwnBell {
    /// Of process `me`.
    pub fn of(region: Arc<Region>, me: u32) -> OwnBell {
        OwnBell { region, me }
    }

    /// Something has come that the program waits for.
    pub fn ring(&self) {
        if let Some(b) = self.region.nf(self.me)
            && crate::bell::ring::<crate::atomics::Native>(b.sleeping())
        {
            crate::futex::wake(b.sleeping());
        }
    }
}

/// A program's place in a chain; see the module's text.
#[derive(Debug)]
pub struct Native {
    channel: Channel,
    seat: Seat,
    /// By port: input and output.
    ports: Vec<(Option<usize>, Option<usize>)>,
    arrived: Vec<Arrived>,
    /// The port that is asked next.
    turn: usize,
    live: bool,
    done: u32,
    over: bool,
    received: u64,
    sent: u64,
    /// Packets that could not be written.
    lost: u64,
    /// Packets that found a ring full and were dropped.
    full: u64,
    marked: u64,
    /// Packets have waited for room since then.
    blocked: Option<Instant>,
    /// By port: where its packets go.
    ways: Ways,
    service: ServiceClock,
    /// When the batch that is timed began, by the clock and in processor time, and its packets.
    timed: Option<(Instant, Duration, usize)>,
    /// Batches since it yielded.
    batches: u32,
    /// It does not stand back when it is told to.
    stubborn: bool,
}

impl Native {
    /// The place that the environment names.
    ///
    /// # Errors
    /// There is none, or it cannot be taken.
    pub fn from_environment() -> Result<Native, NativeError> {
        let fd = std::env::var(ENVIRONMENT).ok().and_then(|v| v.parse().ok());
        let channel = fd.and_then(|fd| Channel::inherit(fd).ok());
        Native::attach(channel.ok_or(NativeError::NotLaunched)?)
    }

    /// The place that the launcher at the other end gives.
    ///
    /// # Errors
    /// It gives none, or it cannot be taken.
    pub fn attach(mut channel: Channel) -> Result<Native, NativeError> {
        channel.patience(PATIENCE)?;
        let (message, fds) = channel.receive(LONGEST_HELLO)?;
        let text = String::from_utf8(message).map_err(|_| NativeError::Hello("not a text"))?;
        let hello = Hello::of_text(&text)?;
        let Ok([memory, event]) = <[_; 2]>::try_from(fds) else {
            return Err(NativeError::Hello("expected two descriptors"));
        };
        let memory = Memory::attach(memory.as_fd(), hello.plan.bytes)?;
        let region = Arc::new(Region::new(memory, hello.plan.shape)?);
        let seat = Seat::new(region, &hello.plan, hello.me, vec![Waker::Event(event)])?;
        let ports = hello.ports.iter().map(|(i, o)| {
            let input = i.and_then(|r| seat.input_of(r));
            (input, o.and_then(|r| seat.output_of(r)))
        });
        let ways = Ways::new(hello.ports.len(), seat.ends().1);
        let native = Native {
            ports: ports.collect(),
            done: seat
                .block()
                .map_or(0, |b| b.said().done.load(Ordering::Relaxed)),
            seat,
            channel,
            arrived: Vec::new(),
            turn: 0,
            live: hello.live,
            over: false,
            received: 0,
            sent: 0,
            lost: 0,
            full: 0,
            marked: 0,
            blocked: None,
            ways,
            service: ServiceClock::default(),
            timed: None,
            batches: 0,
            stubborn: false,
        };
        native.say(State::Running);
        Ok(native)
    }

    fn say(&self, state: State) {
        if let Some(b) = self.seat.block() {
            b.said().state.store(state as u32, Ordering::Release);
        }
        self.seat.ring(0);
    }

    /// How many ports it has.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// Has the launcher told it to stop? Nothing arrives any more.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// From now on it neither yields nor sleeps because the launcher wants that: for programs that have to be first,
    /// and for tests of what a launcher does about them.
    pub fn ignore_orders(&mut self) {
        self.stubborn = true;
    }

    /// Does the launcher want it to sleep after this batch, whatever waits? [`Native::wait`] does so.
    pub fn relinquishes(&self) -> bool {
        let block = self.seat.block();
        block.is_some_and(|b| b.orders().relinquish.load(Ordering::Relaxed) != 0)
    }

    /// What a packet costs, as far as the program knows, in ns; 0: it does not.
    pub fn cost_hint(&self, ns: u64) {
        if let Some(b) = self.seat.block() {
            b.said().cost_hint.store(ns, Ordering::Relaxed);
        }
    }

    /// Sends what was written, and adds up to `most` packets that have arrived to `to`, from the ports in turn; does
    /// not wait for any. How many. While what was written waits for room, there are none.
    ///
    /// This is between two batches, where the launcher's wishes are heard ([`Orders`](crate::Orders)): the program
    /// yields its core, or sleeps here until it is to go on.
    ///
    /// # Errors
    /// A peer does what cannot be.
    pub fn read(&mut self, to: &mut Vec<NativePacket>, most: usize) -> Result<usize, NativeError> {
        let held = to.len();
        self.read_holding(to, most, held)
    }

    /// The same for who has so many packets that were read before, and neither written nor dropped yet.
    ///
    /// # Errors
    /// As [`Native::read`].
    pub fn read_holding(
        &mut self,
        to: &mut Vec<NativePacket>,
        most: usize,
        held: usize,
    ) -> Result<usize, NativeError> {
        self.flush(held)?;
        self.commands();
        self.stand_back();
        if self.is_blocked() {
            return Ok(0);
        }
        let n = self.ports.len();
        for _ in 0..n {
            let port = self.turn % n.max(1);
            self.turn = port + 1;
            let Some((Some(input), _)) = self.ports.get(port) else {
                continue;
            };
            if self.ways.is_shut(port) {
                continue;
            }
            if self.over || self.seat.receive(*input, &mut self.arrived, most)? == 0 {
                continue;
            }
            let got = self.arrived.len();
            self.received += got as u64;
            self.mark();
            if let Some(b) = self.seat.block() {
                let batches = &b.said().batches;
                batches.store(batches.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            let now = Instant::now();
            if self.service.is_due(now) {
                self.timed = Some((now, thread_time(), got));
            }
            to.extend(self.arrived.drain(..).map(|a| NativePacket {
                offset: usize::from(a.descriptor.offset),
                len: a.descriptor.len as usize,
                port,
                time: a.descriptor.came(),
                tag: a.descriptor.tag,
                // a program may write in front of a packet, and need not say so
                flags: a.descriptor.flags & Descriptor::MORE,
                frame: a.frame,
            }));
            return Ok(got);
        }
        Ok(0)
    }

    /// An empty packet, for one that the program makes itself; `None`: there is no slot at present.
    pub fn make(&mut self) -> Option<NativePacket> {
        let frame = self.seat.take_slot()?;
        if let Some(slot) = frame.number() {
            // whatever was in it before
            self.seat.classify(slot, NO_CLASS);
        }
        Some(NativePacket {
            frame,
            offset: HEADROOM,
            len: 0,
            port: 0,
            time: 0,
            tag: 0,
            flags: 0,
        })
    }

    /// A packet leaves through a port, with what was written before it and after it until the next [`Native::read`] or
    /// [`Native::wait`]. False: there is no such port, or the packet's data is not within its slot; it is dropped.
    pub fn write(&mut self, p: NativePacket, port: usize) -> bool {
        let output = self.ports.get(port).and_then(|p| p.1);
        let (Some(output), Some(d)) = (output, self.seat.describe(p.frame, p.offset, p.len)) else {
            self.lost += 1;
            return false;
        };
        self.sent += 1;
        self.ways.goes(p.port, output);
        self.seat.queue(
            output,
            Descriptor {
                time: p.time,
                tag: p.tag,
                flags: p.flags,
                ..d
            },
        );
        true
    }

    /// Marks what has arrived, if the launcher wants that.
    #[inline]
    fn mark(&mut self) {
        let wanted = |b: &NfBlock| b.orders().mark_ecn.load(Ordering::Relaxed) != 0;
        if !self.seat.block().is_some_and(wanted) {
            return;
        }
        for a in &mut self.arrived {
            let (from, len) = (usize::from(a.descriptor.offset), a.descriptor.len as usize);
            let marked = a.frame.get_mut(from..from + len).is_some_and(ecn::mark);
            self.marked += u64::from(marked);
        }
        if let Some(b) = self.seat.block() {
            b.said().marked.store(self.marked, Ordering::Relaxed);
        }
    }

    /// Yields, or sleeps, where the launcher wants that after a batch.
    #[inline]
    fn stand_back(&mut self) {
        let Some(b) = self.seat.block().filter(|_| !self.stubborn) else {
            return;
        };
        let done = self.done;
        self.seat
            .relinquish(|| b.orders().command.load(Ordering::Relaxed) != done);
        let after = b.orders().yield_after.load(Ordering::Relaxed);
        self.batches += 1;
        if after > 0 && self.batches >= after {
            self.batches = 0;
            let yields = &b.said().yields;
            yields.store(yields.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            std::thread::yield_now();
        }
    }

    /// The batch that was timed is done with.
    fn time(&mut self) {
        if let Some((begun, from, packets)) = self.timed.take()
            && let Some(b) = self.seat.block()
        {
            let took = thread_time().saturating_sub(from);
            if let Some(each) = self.service.timed((begun, took), packets, b.service()) {
                publish(b.said(), each);
            }
        }
    }

    /// A batch is done with: sends what was written. `held`: packets that the program has read and neither written nor
    /// dropped.
    fn flush(&mut self, held: usize) -> Result<(), NativeError> {
        self.put()?;
        self.time();
        self.tell_sent(held);
        Ok(())
    }

    /// Puts what was written into rings, as far as there is room.
    fn put(&mut self) -> Result<(), NativeError> {
        if self.seat.flush()? > 0 {
            // there was room
            self.blocked = None;
        }
        Ok(())
    }

    /// What the launcher wants: a program keeps no time, so that only stopping is something to do.
    fn commands(&mut self) {
        let Some(b) = self.seat.block() else { return };
        let command = b.orders().command.load(Ordering::Acquire);
        if command == self.done {
            return;
        }
        self.done = command;
        self.over |= command & 3 == 3;
        b.said().done.store(command, Ordering::Release);
        self.seat.ring(0);
    }

    /// Sends what was written, and sleeps until packets arrive, the launcher wants something, or for `most`.
    ///
    /// # Errors
    /// A peer does what cannot be.
    pub fn wait(&mut self, most: Duration) -> Result<(), NativeError> {
        self.wait_holding(most, 0)
    }

    /// The same for who has so many packets, as [`Native::read_holding`].
    ///
    /// # Errors
    /// As [`Native::wait`].
    pub fn wait_holding(&mut self, most: Duration, held: usize) -> Result<(), NativeError> {
        self.wait_or(most, held, || false)
    }

    /// [`Native::wait_holding`] for who waits for something else, too: `awake` says whether it is there, and
    /// [`OwnBell::ring`] that it has come.
    ///
    /// # Errors
    /// As [`Native::wait`].
    pub fn wait_or(
        &mut self,
        most: Duration,
        held: usize,
        awake: impl Fn() -> bool,
    ) -> Result<(), NativeError> {
        self.flush(held)?;
        let done = self.done;
        let block = self.seat.block();
        let ordered = || block.is_some_and(|b| b.orders().command.load(Ordering::Acquire) != done);
        let awake = &|| ordered() || awake();
        if self.backlog() > 0 {
            // nobody tells when there is room; what comes by an input that does not wait for it wakes this one
            let (most, shut) = (BLOCKED_SLEEP.min(most), |i| self.ways.is_shut(i));
            match (0..self.seat.ends().0).any(shut) {
                true => self.seat.sleep_despite(most, shut, awake),
                false => std::thread::sleep(most),
            }
        } else if self.stubborn || !self.seat.relinquish(awake) {
            self.seat.sleep(most.min(LONGEST_SLEEP), awake);
        }
        self.commands();
        Ok(())
    }

    /// Both buffers of a storage are full: sends what was written, says so to the launcher, and gives the core up until
    /// one of them has been carried out. What packets wait meanwhile does not wake it. `held`: packets that were read
    /// before, and neither written nor dropped yet.
    ///
    /// # Errors
    /// A peer does what cannot be.
    pub fn yield_to_storage<R: Data>(
        &mut self,
        storage: &mut Storage<R>,
        held: usize,
    ) -> Result<(), NativeError> {
        if !storage.is_full() {
            return Ok(());
        }
        self.put()?;
        self.tell_sent(held);
        if let Some(b) = self.seat.block() {
            let waits = &b.said().storage_waits;
            waits.store(waits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            b.said().in_storage.store(1, Ordering::Relaxed);
        }
        storage.wait_for_room();
        if let Some(b) = self.seat.block() {
            b.said().in_storage.store(0, Ordering::Relaxed);
        }
        Ok(())
    }

    /// [`Native::wait_holding`] for who has a storage: it wakes when something of it has been carried out, or is to be.
    ///
    /// # Errors
    /// As [`Native::wait`].
    pub fn wait_with<R: Data>(
        &mut self,
        most: Duration,
        held: usize,
        storage: &Storage<R>,
    ) -> Result<(), NativeError> {
        self.wait_or(storage.patience(most), held, || storage.is_ready())
    }

    /// What other threads of the program wake it by.
    pub fn bell(&self) -> OwnBell {
        OwnBell {
            region: self.seat.region().clone(),
            me: self.seat.number(),
        }
    }

    /// Packets in real time?
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Says at the end what it has done.
    ///
    /// # Errors
    /// The launcher is gone.
    pub fn end(mut self) -> Result<(), NativeError> {
        self.flush(0)?;
        // nobody takes it any more
        self.give_up();
        let (received, sent, lost, full) = (self.received, self.sent, self.lost, self.full);
        let dropped = received.saturating_sub(sent + full);
        let created = (sent + full).saturating_sub(received);
        let drops = match dropped {
            0 => String::new(),
            n => format!("\"dropped by the program\":{n}"),
        };
        let report = format!(
            "{{\"packets_in\":{received},\"packets_out\":{sent},\"created\":{created},\"dropped\":{dropped},\
             \"held\":0,\"drops\":{{{drops}}},\"refused\":{},\"lost\":{full},\
             \"cpu_seconds\":{:.6},\"unwritten\":{lost}}}",
            self.seat.refused(),
            thread_time().as_secs_f64()
        );
        self.channel.send(report.as_bytes(), &[])?;
        self.say(State::Ended);
        Ok(())
    }
}
