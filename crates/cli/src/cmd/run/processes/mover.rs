//! The launcher while packets go through: from ports to the first process's ring, from the last one's ring to ports;
//! and what it does for the processes meanwhile.
//!
//! Recorded packets go in by time, as they do into a chain in one process. Those that arrive at one port go in one
//! after the other, and all processes work at once; before packets of another port go in, nothing is under way any
//! more ([`onefold_nf::quiet`]). So each function gets its packets in the order in which it gets them in one process,
//! but for those that turn back within the chain.

mod counting;
mod ending;
mod interfaces;
mod scheduled;
mod tapped;

use super::asked::Questions;
use super::io::{Io, add_stayed, stamp};
use super::kids::{Kid, Launch};
use super::outside::beyond::Beyond;
use super::scheduling::Scheduling;
use crate::control::capture::Sink;
use crate::live::{LivePlan, tell_running};
use crate::progress::Progress;
use crate::runner;
use anyhow::{Result, bail};
use counting::Counting;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onefold_chain::segments::Segments;
use onefold_nf::{LONGEST_SLEEP, Purpose, Region, Ring, quiet};
use onefold_packet::{Pkt, Timestamp};
use onefold_port_ring::Packets;
use onefold_runtime::Clock;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tapped::look_at;

/// Processes are looked after so often.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Ports are.
const ATTEND_EVERY: Duration = Duration::from_millis(100);
/// How long packets that are under way are waited for at the end of a live run.
const DRAIN: Duration = Duration::from_millis(500);
/// How long a process may take to carry out a command, or to end.
const COMMAND: Duration = Duration::from_secs(30);
/// How often it looks again before it sleeps.
const SPINS: u32 = 64;

/// How it ended.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub seconds: f64,
    pub interrupted: bool,
    /// Between the first packet and the last.
    pub span: Timestamp,
}

/// See the module's text.
pub struct Mover {
    pub packets: Packets,
    pub region: Arc<Region>,
    launch: Launch,
    pub kids: Vec<Kid>,
    pub ios: Vec<Io>,
    rings: Vec<Ring>,
    clock: Clock,
    live: bool,
    batch: usize,
    limit: Option<u64>,
    /// Readable when somebody has rung.
    event: Option<OwnedFd>,
    free: Vec<Pkt>,
    some: Vec<Pkt>,
    /// The port that packets came from last.
    last: Option<usize>,
    first: Option<Timestamp>,
    now: Timestamp,
    looked: Instant,
    /// Packets that went in.
    came: u64,
    /// Packets that are still in rings at the end: a process that was to take them is not there, or too slow.
    pub left: u64,
    /// Slots that nobody has in the end: there are none, but for an error of Onefold's.
    pub missing: u64,
    /// What is not between a process and the next one by rings.
    pub beyond: Beyond,
    /// Who of the processes runs when.
    pub scheduling: Option<Scheduling>,
    /// Packets that were dropped where they entered, because a policy wanted that.
    pub shed: u64,
    /// What is asked from outside.
    pub questions: Option<Questions>,
    /// Processes that are being asked what they have counted.
    counting: Option<Counting>,
    /// Who looks at a port: its name, and where what passes goes.
    tap: Option<(String, Sink)>,
    /// Somebody has said stop.
    pub stopped: bool,
    begun: Instant,
}

impl Mover {
    pub fn new(packets: Packets, region: Arc<Region>, (launch, kids): (Launch, Vec<Kid>)) -> Mover {
        let rings = (0u32..).zip(&launch.plan.rings);
        let rings = rings.filter(|(_, r)| r.purpose == Purpose::Packets);
        Mover {
            rings: rings.filter_map(|(n, _)| region.ring(n)).collect(),
            packets,
            region,
            launch,
            kids,
            ios: Vec::new(),
            clock: Clock::start(),
            live: false,
            batch: 1,
            limit: None,
            event: None,
            free: Vec::new(),
            some: Vec::new(),
            last: None,
            first: None,
            now: Timestamp::ZERO,
            looked: Instant::now(),
            came: 0,
            left: 0,
            missing: 0,
            beyond: Beyond::default(),
            scheduling: None,
            shed: 0,
            questions: None,
            counting: None,
            tap: None,
            stopped: false,
            begun: Instant::now(),
        }
    }

    /// Is nothing under way?
    fn is_quiet(&mut self) -> bool {
        let quiet = !self.packets.is_blocked() && quiet(&self.region, &self.rings);
        self.beyond.is_quiet(quiet, &self.region)
    }

    /// How far it is.
    pub fn so_far(&self) -> Ended {
        Ended {
            seconds: self.begun.elapsed().as_secs_f64(),
            interrupted: false,
            span: Timestamp::from_secs_f64(self.begun.elapsed().as_secs_f64()),
        }
    }

    /// Who moves packets is woken by it.
    pub fn event(&self) -> Option<&OwnedFd> {
        self.event.as_ref()
    }

    /// These are its ports.
    pub fn ports(
        &mut self,
        ios: Vec<Io>,
        (clock, live): (Clock, bool),
        (batch, limit): (usize, Option<u64>),
        event: OwnedFd,
    ) {
        (self.ios, self.clock, self.live) = (ios, clock, live);
        let stamped = self.ios.iter().any(|io| io.stamps);
        self.ios.iter_mut().for_each(|io| io.stamped = stamped);
        (self.batch, self.limit, self.event) = (batch, limit, Some(event));
    }

    /// Launches all, and waits until they take packets. False: it was interrupted.
    ///
    /// # Errors
    /// One of them has ended instead.
    pub fn launch(&mut self) -> Result<bool> {
        self.packets.seat().tidy();
        loop {
            self.look()?;
            if self.kids.iter().all(Kid::is_running) {
                return Ok(true);
            }
            if runner::interrupted().load(Ordering::Relaxed) {
                return Ok(false);
            }
            self.sleep(LONGEST_SLEEP)?;
        }
    }

    /// Says which processes there are, and that they run.
    pub fn say(&self, segments: &Segments, quiet: bool) {
        if !quiet {
            self.say_who(segments);
        }
        tell_running(quiet);
    }

    fn say_who(&self, segments: &Segments) {
        for (kid, s) in self.kids.iter().zip(&segments.all) {
            let core = kid.core.map_or(String::new(), |c| format!(", core {c}"));
            let id = kid.process().map_or(0, |p| p.id());
            let what = match s.functions.len() {
                1 => String::new(),
                n => format!(" ({n} functions, merged)"),
            };
            eprintln!("process {id}: {}{what}{core}", kid.name);
        }
        if let Some(s) = &self.scheduling {
            eprintln!("schedule: {}", s.schedule().told());
            for r in s.schedule().remarks() {
                eprintln!("schedule: {r}");
            }
        }
        if self.live {
            eprintln!(
                "sandbox: off (functions are processes, which are started anew when they fail)"
            );
        }
    }

    /// Looks after the processes.
    fn look(&mut self) -> Result<()> {
        self.looked = Instant::now();
        self.beyond.look()?;
        for kid in &mut self.kids {
            if let Some(slots) = kid.look(&self.launch, &self.region)? {
                self.packets.seat().reclaim(&slots);
            }
            kid.launch(&self.launch, &self.region)?;
        }
        self.tell_processes();
        Ok(())
    }

    /// Answers what was asked meanwhile.
    fn answer(&mut self) {
        // Bound: as many as may wait
        while let Some(q) = self.questions.as_ref().and_then(Questions::next) {
            q.answer(self);
        }
        self.counted();
    }

    /// What is to be done now and then, and packets that pass by who is not there. Did any?
    fn tend(&mut self) -> Result<bool> {
        if self.looked.elapsed() >= LOOK_EVERY {
            self.look()?;
            self.answer();
        }
        let mut passed = 0;
        for kid in &mut self.kids {
            passed += kid.bypass(&self.launch, &self.region);
        }
        self.packets.seat().tidy();
        Ok(passed > 0)
    }

    /// Everything that has come out of the chain goes to its ports. How many packets.
    fn drain(&mut self) -> Result<usize> {
        let mut all = 0;
        for io in &mut self.ios {
            for input in &io.exits {
                while self.free.len() < self.batch {
                    self.free
                        .push(Box::new(onefold_packet::Packet::from_slice(&[])));
                }
                let both = (&mut self.free, &mut self.some);
                if let Err(e) = self.packets.receive(*input, both, self.batch) {
                    bail!("port {}: {e}", io.name);
                }
                if self.some.is_empty() {
                    continue;
                }
                all += self.some.len();
                io.sent.packets += self.some.len() as u64;
                io.sent.bytes += self.some.iter().map(|p| p.len() as u64).sum::<u64>();
                let now = match self.launch.live {
                    true => self.clock.now(),
                    false => self.now,
                };
                let how = (self.live, io.stamped);
                let packets = &self.packets;
                add_stayed(&mut io.stayed, how, &self.some, |p| packets.came(p), now);
                look_at(&self.tap, &io.name, "out", &self.some, now);
                if let Some(port) = &mut io.port {
                    port.transmit(&mut self.some, now)?;
                }
                for p in self.some.iter_mut().filter(|p| p.is_borrowed()) {
                    drop(p.detach());
                }
                self.free.append(&mut self.some);
            }
        }
        all += self.beyond.forward(self.packets.seat())?;
        self.packets.flush()?;
        if all > 0 {
            self.packets.seat().release();
        }
        Ok(all)
    }

    /// The port whose packet is the earliest, and up to when its packets come before all others'.
    fn earliest(&mut self) -> Option<(usize, Timestamp)> {
        let mut best: Option<(usize, Timestamp)> = None;
        for (i, io) in self.ios.iter_mut().enumerate() {
            if io.next.is_none() && io.entry.is_some() {
                io.next = io.port.as_mut().and_then(|p| p.next_at());
            }
            if let Some(at) = io.next
                && best.is_none_or(|(_, b)| at < b)
            {
                best = Some((i, at));
            }
        }
        let (port, _) = best?;
        let others = self.ios.iter().enumerate().filter(|(i, _)| *i != port);
        let until = others.filter_map(|(i, s)| {
            let at = s.next?;
            // a port in front of it comes first at the same time
            Some(Timestamp(at.0.saturating_add(i64::from(i > port))))
        });
        Some((port, until.min().unwrap_or(Timestamp::MAX)))
    }

    /// May packets of this port go in at present?
    fn may_feed(&mut self, port: usize, output: usize) -> bool {
        if self.packets.backlog(output) > 0 {
            return false;
        }
        // one at a time, by wish
        let alone = self.batch == 1 || self.last.is_some_and(|last| last != port);
        !(alone || self.beyond.is_slow()) || self.is_quiet()
    }

    /// Recorded packets go in, as many as may. `None`: there are none any more.
    fn feed(&mut self) -> Result<Option<usize>> {
        let left = self.limit.map_or(u64::MAX, |l| l - self.came);
        let Some((port, until)) = self.earliest().filter(|_| left > 0) else {
            return Ok(None);
        };
        let Some(output) = self.ios.get(port).and_then(|io| io.entry) else {
            return Ok(None);
        };
        if !self.may_feed(port, output) {
            return Ok(Some(0));
        }
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(self.batch);
        self.packets.handles(&mut self.free, n);
        let Some(io) = self.ios.get_mut(port) else {
            return Ok(None);
        };
        io.next = None;
        if let Some(p) = &mut io.port {
            p.receive(&mut self.free, &mut self.some, until, n);
        }
        for p in &mut self.some {
            self.now = self.now.max(p.anno.timestamp);
            p.anno.timestamp = self.now;
            io.received.bytes += p.len() as u64;
        }
        self.first.get_or_insert(self.now);
        let n = self.some.len();
        io.received.packets += n as u64;
        self.last = Some(port);
        self.send(output)?;
        Ok(Some(n))
    }

    /// What is in `some` goes in.
    fn send(&mut self, output: usize) -> Result<()> {
        self.came += self.some.len() as u64;
        self.beyond.fed();
        self.packets.send(output, &mut self.some);
        self.packets.flush()?;
        self.free.append(&mut self.some);
        Ok(())
    }

    /// Nothing happens: sleeps until somebody rings, a packet arrives at an interface, or a process ends.
    fn sleep(&mut self, most: Duration) -> Result<()> {
        let due = self.kids.iter().filter_map(Kid::due).min();
        let most = due.map_or(most, |d| {
            most.min(d.saturating_duration_since(Instant::now()))
        });
        let (event, seat) = (self.event.as_ref(), self.packets.seat());
        let mut failed = None;
        let (ios, kids, live) = (&self.ios, &self.kids, self.live);
        seat.sleep_by(
            most,
            || false,
            |_, most| {
                let mut fds: Vec<BorrowedFd<'_>> = event.iter().map(|e| e.as_fd()).collect();
                fds.extend(kids.iter().filter_map(|k| Some(k.process()?.as_fd())));
                let entries = ios.iter().filter(|io| live && io.entry.is_some());
                let ports = entries.filter_map(|io| io.port.as_ref()?.descriptor());
                fds.extend(ports);
                let mut fds: Vec<PollFd<'_>> = fds
                    .into_iter()
                    .map(|f| PollFd::new(f, PollFlags::POLLIN))
                    .collect();
                let millis = u16::try_from(most.as_millis()).unwrap_or(u16::MAX);
                match poll(&mut fds, PollTimeout::from(millis)) {
                    Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                    Err(e) => failed = Some(e),
                }
            },
        );
        if let Some(event) = event {
            let mut count = [0; 8];
            // nobody may have rung
            let _ = nix::unistd::read(event, &mut count);
        }
        match failed {
            Some(e) => bail!("waiting for processes and ports: {e}"),
            None => Ok(()),
        }
    }

    /// Recorded packets, until no more come or somebody says stop.
    ///
    /// # Errors
    /// What leaves cannot be written, or a process does not stay.
    pub fn captures(&mut self, linger: Timestamp) -> Result<Ended> {
        let begun = Instant::now();
        let total: u64 = self
            .ios
            .iter()
            .filter_map(|io| io.port.as_ref()?.progress().total)
            .sum();
        let mut progress = Progress::new(total, self.launch.quiet);
        let mut interrupted = false;
        let (mut shown, mut idle) = (0, 0);
        loop {
            let moved = self.drain()?;
            let fed = self.feed()?;
            let passed = self.tend()?;
            if fed.is_none() && self.is_quiet() && self.drain()? == 0 {
                break;
            }
            interrupted = runner::interrupted().load(Ordering::Relaxed);
            if interrupted {
                break;
            }
            if self.came - shown >= 4096 {
                shown = self.came;
                let read = self
                    .ios
                    .iter()
                    .filter_map(|io| Some(io.port.as_ref()?.progress().read));
                let came = crate::common::thousands(self.came);
                progress.at(read.sum(), || format!("{came} packets"));
            }
            idle = match moved > 0 || fed.is_some_and(|n| n > 0) || passed {
                true => 0,
                false => idle + 1,
            };
            if idle > SPINS {
                self.nap()?;
            } else if idle > 0 {
                std::thread::yield_now();
            }
        }
        progress.finish();
        let seconds = begun.elapsed().as_secs_f64();
        // in real time, clocks have gone on by themselves
        let to = (!self.launch.live).then_some(self.now + linger);
        self.end(to)?;
        Ok(Ended {
            seconds,
            interrupted,
            span: self.now - self.first.unwrap_or(self.now),
        })
    }

    /// Nobody tells when a ring has room, or nothing is under way any more: that is looked for again soon.
    fn nap(&mut self) -> Result<()> {
        let waits = self.ios.iter().any(|io| io.next.is_some());
        match waits {
            true => {
                std::thread::sleep(Duration::from_micros(50));
                Ok(())
            }
            false => self.sleep(Duration::from_millis(1)),
        }
    }

    /// The packets of network interfaces, from [`Mover::start`] until somebody says stop.
    ///
    /// # Errors
    /// A device is broken, or a process does not stay.
    pub fn live(&mut self, plan: &LivePlan) -> Result<Ended> {
        let begun = Instant::now();
        self.begun = begun;
        let mut attended = Instant::now();
        let mut interrupted = false;
        let (mut idle_since, mut last) = (None, begun);
        while !interrupted && !self.stopped && self.limit.is_none_or(|l| self.came < l) {
            let moved = self.drain()?;
            let polled = self.poll()?;
            let passed = self.tend()?;
            let now = Instant::now();
            if now - attended >= ATTEND_EVERY {
                attended = now;
                self.attend();
                if plan.duration.is_some_and(|d| begun.elapsed() >= d) {
                    break;
                }
            }
            interrupted = runner::interrupted().load(Ordering::Relaxed);
            if moved + polled > 0 || passed {
                idle_since = None;
                last = now;
                continue;
            }
            let since = *idle_since.get_or_insert(now);
            match plan.polling {
                onefold_runtime::Polling::Busy => {}
                onefold_runtime::Polling::Adaptive if now - since < onefold_runtime::SPIN => {
                    std::thread::yield_now();
                }
                onefold_runtime::Polling::Moderate if now == since => {
                    std::thread::sleep(onefold_runtime::MODERATION);
                }
                _ if self.packets.is_blocked() => std::thread::sleep(Duration::from_micros(50)),
                _ => match self.longest_sleep() {
                    most if most < Duration::from_millis(1) => std::thread::sleep(most),
                    most => self.sleep(most)?,
                },
            }
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.end(None)?;
        Ok(Ended {
            seconds,
            interrupted,
            span: Timestamp::from_secs_f64((last - begun).as_secs_f64()),
        })
    }

    /// Packets of interfaces go in; where the first process's ring is full, they wait in the device. How many.
    fn poll(&mut self) -> Result<usize> {
        let mut all = 0;
        for i in 0..self.ios.len() {
            let Some(output) = self.ios.get(i).and_then(|io| io.entry) else {
                continue;
            };
            let room = self.room_at_entry(i, output)?;
            if room.is_none() && self.packets.backlog(output) > 0 {
                continue;
            }
            let Some(most) = self.wanted_at_entry(i, room) else {
                continue;
            };
            let left = self.limit.map_or(u64::MAX, |l| l.saturating_sub(self.came));
            let n = usize::try_from(left).unwrap_or(usize::MAX).min(most);
            self.packets.handles(&mut self.free, n);
            let Some(io) = self.ios.get_mut(i) else { break };
            let Some(p) = &mut io.port else { continue };
            p.poll(&mut self.free, &mut self.some, n)?;
            if p.backlog() > 0 {
                p.flush()?;
            }
            if self.some.is_empty() {
                continue;
            }
            let now = self.clock.now();
            for p in &mut self.some {
                p.anno.timestamp = now;
                io.received.bytes += p.len() as u64;
            }
            io.received.packets += self.some.len() as u64;
            if io.stamps {
                stamp(&mut self.some, now);
            }
            look_at(&self.tap, &io.name, "in", &self.some, now);
            all += self.some.len();
            if let Some(room) = room {
                self.drop_at_entry(i, room);
            }
            self.send(output)?;
        }
        Ok(all)
    }
}
