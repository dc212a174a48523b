//! Live ports: the clock is the real one, packets are there or not, and who has nothing to do sleeps.
//!
//! A round of [`Worker::live_step`] asks every port with an entry in turn, a batch at most from each. Where all of
//! them have nothing, timers and tasks that are due take place ([`Worker::idle`]), and the worker may wait
//! ([`Worker::wait`]) until a packet arrives, a queue has room again, or the next timer is due.

use crate::control::Wakes;
use crate::port::{LinkState, Loss, PortError};
use crate::worker::{Step, Worker};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onefold_engine::Executor;
use onefold_packet::Timestamp;
use std::num::NonZeroU64;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The real time, in a form that never goes back: wall time of the moment of [`Clock::start`], and a monotone clock
/// from then on. Corrections of the wall clock while it runs are not followed.
///
/// Processes of one chain have one clock: [`Clock::parts`] of who started it are for [`Clock::of`] in others.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// The monotone clock of all processes (`CLOCK_MONOTONIC`) at the start.
    begun: Duration,
    wall: Timestamp,
}

/// `CLOCK_MONOTONIC`, which a process reads without a system call.
fn monotonic() -> Duration {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    // it can be read wherever this is built for
    now.map_or(Duration::ZERO, Duration::from)
}

impl Clock {
    /// From now on.
    pub fn start() -> Clock {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = wall.map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX));
        Clock {
            begun: monotonic(),
            wall: Timestamp(nanos),
        }
    }

    /// Wall time and the monotone clock when it was started, ns.
    pub fn parts(&self) -> (i64, u64) {
        let begun = u64::try_from(self.begun.as_nanos());
        (self.wall.0, begun.unwrap_or(u64::MAX))
    }

    /// The clock of another process of this machine, by its parts.
    pub fn of((wall, begun): (i64, u64)) -> Clock {
        Clock {
            begun: Duration::from_nanos(begun),
            wall: Timestamp(wall),
        }
    }

    /// Wall time when it was started.
    pub fn origin(&self) -> Timestamp {
        self.wall
    }

    /// Time now.
    #[inline]
    pub fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.elapsed().as_nanos()).unwrap_or(i64::MAX);
        Timestamp(self.wall.0.saturating_add(passed))
    }

    /// Time since it was started.
    pub fn elapsed(&self) -> Duration {
        monotonic().saturating_sub(self.begun)
    }
}

/// What a worker does while no packets come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Polling {
    /// It asks again and again: the least latency, a whole core.
    Busy,
    /// It asks for [`SPIN`] after the last packet, and sleeps then until one comes.
    #[default]
    Adaptive,
    /// It sleeps at once.
    Interrupt,
    /// It looks every [`MODERATION`] while packets come, and sleeps when there were none: what interrupt moderation is
    /// for a card (`ethtool -C rx-usecs`). Batches are larger, and nobody is woken for each packet.
    Moderate,
}

/// How long an adaptive worker goes on asking after the last packet: about what being woken costs.
pub const SPIN: Duration = Duration::from_micros(50);
/// Between two looks of a moderate worker: 20,000 wakes a second at most, instead of one for every packet or two (some
/// 3 us each on virtual interfaces, docs/decisions/0083), and packets wait no longer.
pub const MODERATION: Duration = Duration::from_micros(50);
/// Longest sleep, so that links are looked after and somebody who wants the worker to end is heard.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Longest sleep while tasks of the chain want to run.
const TASKS_SLEEP: Duration = Duration::from_millis(1);
/// Links are looked after so often.
const ATTEND_EVERY: Duration = Duration::from_millis(100);
/// Batches of the ports between two looks at the time for that.
const ATTEND_STEPS: u32 = 64;

/// Looks after the ports of a worker, and says when it may sleep.
#[derive(Debug)]
pub struct Rhythm {
    polling: Polling,
    /// Nothing has come since.
    idle_since: Option<Instant>,
    attended: Instant,
    steps: u32,
}

impl Rhythm {
    /// With this way of polling.
    ///
    /// Timers of the calling thread are exact from then on if it is moderate (50 us late otherwise).
    pub fn new(polling: Polling) -> Rhythm {
        if polling == Polling::Moderate {
            // without it pauses are twice as long, and all else is the same
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        }
        Rhythm {
            polling,
            idle_since: None,
            attended: Instant::now(),
            steps: 0,
        }
    }

    /// Packets have come: is it time to look after the ports?
    #[inline]
    pub fn busy(&mut self) -> bool {
        self.idle_since = None;
        self.steps += 1;
        self.steps >= ATTEND_STEPS && self.is_time()
    }

    /// None have come.
    pub fn idle(&mut self) -> Idle {
        let now = Instant::now();
        let first = self.idle_since.is_none();
        let since = *self.idle_since.get_or_insert(now);
        let sleep = match self.polling {
            Polling::Busy => false,
            Polling::Adaptive => now - since >= SPIN,
            Polling::Interrupt => true,
            Polling::Moderate => !first,
        };
        let pause = self.polling == Polling::Moderate && first;
        let attend = self.is_time();
        Idle {
            sleep,
            pause: pause.then_some(MODERATION),
            attend,
            now,
        }
    }

    fn is_time(&mut self) -> bool {
        self.steps = 0;
        let time = self.attended.elapsed() >= ATTEND_EVERY;
        if time {
            self.attended = Instant::now();
        }
        time
    }
}

/// What there is to do when no packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// The worker may sleep.
    pub sleep: bool,
    /// It does something else for so long, whatever comes.
    pub pause: Option<Duration>,
    /// The ports are looked after.
    pub attend: bool,
    /// When this was asked.
    pub now: Instant,
}

/// What has changed about a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// The port.
    pub port: String,
    /// In words.
    pub text: String,
    /// Its link is up again: who is at its other end may be somebody else.
    pub restored: bool,
}

/// Where a port of a worker stands.
#[derive(Debug, Clone)]
pub struct PortState<'a> {
    /// The port.
    pub name: &'a str,
    /// Its link.
    pub link: LinkState,
    /// What it has lost.
    pub losses: Vec<Loss>,
    /// What else was counted.
    pub counters: Vec<(&'static str, u64)>,
}

/// Sleeps until one of these descriptors is ready, for `most`, in whole milliseconds, or until a signal comes. Gives
/// the numbers of those that say that something is wrong.
///
/// # Errors
/// When the system cannot wait for them.
pub(crate) fn wait_for(
    fds: &[(usize, BorrowedFd<'_>, PollFlags)],
    most: Duration,
) -> Result<Vec<usize>, PortError> {
    let mut waiting: Vec<PollFd<'_>> = fds.iter().map(|f| PollFd::new(f.1, f.2)).collect();
    let millis = u16::try_from(most.as_millis()).unwrap_or(u16::MAX);
    match poll(&mut waiting, PollTimeout::from(millis)) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(e) => {
            return Err(PortError::Device {
                port: "all ports".to_string(),
                doing: "waiting for packets",
                error: e.into(),
            });
        }
    }
    let failed = PollFlags::POLLERR | PollFlags::POLLHUP | PollFlags::POLLNVAL;
    let broken = waiting
        .iter()
        .zip(fds)
        .filter(|(w, _)| w.revents().is_some_and(|r| r.intersects(failed)));
    Ok(broken.map(|(_, f)| f.0).collect())
}

/// Ports of a worker whose descriptors are told apart.
const PORTS: usize = 1 << 16;

/// As [`Worker::wait`] for several workers of one thread: it sleeps until there is something for one of them to do, or
/// for `also`.
///
/// # Errors
/// As there.
pub fn wait_for_any<E: Executor>(
    workers: &mut [&mut Worker<E>],
    clock: &Clock,
    also: Option<&Wakes>,
) -> Result<(), PortError> {
    let each = workers.iter().map(|w| w.longest_sleep(clock));
    let most = each.fold(LONGEST_SLEEP, Duration::min);
    // whole milliseconds: what is less is spent asking
    if most.as_millis() == 0 {
        std::thread::yield_now();
        return Ok(());
    }
    let mut fds: Vec<(usize, BorrowedFd<'_>, PollFlags)> = Vec::new();
    for (i, w) in workers.iter().enumerate() {
        w.listen(i, &mut fds);
    }
    fds.extend(also.map(|w| (usize::MAX, w.descriptor(), PollFlags::POLLIN)));
    let broken = wait_for(&fds, most)?;
    let own = workers.iter().filter_map(|w| w.wakes.as_ref());
    own.chain(also).for_each(Wakes::clear);
    // an error stays readable until somebody has asked for it
    for at in broken {
        if let Some(w) = workers.get_mut(at / PORTS) {
            w.attend_port(at % PORTS);
        }
    }
    Ok(())
}

impl<E: Executor> Worker<E> {
    /// From now on packets arrive; the clock of the executor goes on at `now`.
    ///
    /// # Errors
    /// When a device refuses.
    pub fn start(&mut self, now: Timestamp) -> Result<(), PortError> {
        for s in &mut self.slots {
            if let Some(p) = &mut s.port {
                p.start(s.entry.is_some())?;
            }
        }
        self.now = self.now.max(now);
        self.first.get_or_insert(self.now);
        self.executor.advance(self.now);
        self.deliver()
    }

    /// Takes a batch, `most` packets at most, all its way: from the next port that has packets. All of them arrive at
    /// one moment, which is read from the clock once. `None` when no port has any.
    ///
    /// # Errors
    /// When a device is broken, or what leaves cannot be written.
    pub fn live_step(&mut self, clock: &Clock, most: usize) -> Result<Option<Step>, PortError> {
        let n = self.batch_size.min(most.max(1));
        self.make_room(n);
        for _ in 0..self.slots.len() {
            let port = self.turn;
            self.turn = match port + 1 < self.slots.len() {
                true => port + 1,
                false => 0,
            };
            let Some(slot) = self.slots.get_mut(port) else {
                continue;
            };
            let (Some(entry), Some(source)) = (slot.entry, &mut slot.port) else {
                continue;
            };
            source.poll(&mut self.free, &mut self.batch, n)?;
            if self.batch.is_empty() {
                continue;
            }
            let packets = self.batch.len();
            self.now = self.now.max(clock.now());
            slot.received.packets += packets as u64;
            for p in &mut self.batch {
                slot.received.bytes += p.len() as u64;
                p.anno.timestamp = self.now;
            }
            if let Some(tap) = &mut self.tap {
                tap.received(port, &self.batch, self.now, self.executor.graph());
            }
            let queued_up = slot.pressure.batch(packets == n, self.now);
            self.executor.press(queued_up);
            self.executor.peek_graph_mut().set_ingress(Some(entry));
            self.executor.run_at(entry, &mut self.batch, self.now);
            let left = clock.now();
            self.deliver_at(Some(left))?;
            return Ok(Some(Step { port, packets }));
        }
        Ok(None)
    }

    /// No packets have come: timers and tasks that are due take place, and what waits for room is tried again.
    ///
    /// # Errors
    /// As [`Worker::live_step`].
    pub fn idle(&mut self, clock: &Clock) -> Result<(), PortError> {
        self.executor.peek_graph_mut().set_ingress(None);
        let graph = self.executor.graph();
        let (timer, tasks) = (graph.next_timer(), graph.has_runnable_tasks());
        if timer.is_some() || tasks {
            let now = self.now.max(clock.now());
            if tasks || timer.is_some_and(|t| t <= now) {
                self.now = now;
                self.executor.advance(now);
                self.deliver_at(Some(now))?;
            }
        }
        for s in &mut self.slots {
            if let Some(p) = s.port.as_mut().filter(|p| p.backlog() > 0) {
                p.flush()?;
            }
        }
        Ok(())
    }

    /// Sleeps until a packet arrives, a queue with a backlog has room, the next timer is due, or for
    /// [`LONGEST_SLEEP`]; for less where a port cannot tell of packets ([`Port::longest_sleep`]). A signal ends it,
    /// too.
    ///
    /// # Errors
    /// When the system cannot wait for the ports' descriptors.
    pub fn wait(&mut self, clock: &Clock) -> Result<(), PortError> {
        wait_for_any(&mut [self], clock, None)
    }

    /// The longest that it may sleep.
    fn longest_sleep(&self, clock: &Clock) -> Duration {
        let graph = self.executor.graph();
        let mut most = match graph.has_runnable_tasks() {
            true => TASKS_SLEEP,
            false => LONGEST_SLEEP,
        };
        if let Some(at) = graph.next_timer() {
            let left = u64::try_from((at - clock.now()).0).unwrap_or(0);
            most = most.min(Duration::from_nanos(left));
        }
        let with_entry = self.slots.iter().filter(|s| s.entry.is_some());
        let blind = with_entry.filter_map(|s| s.port.as_ref()?.longest_sleep());
        blind.fold(most, Duration::min)
    }

    /// What ends its sleep, with the number of this worker and of the port.
    fn listen<'a>(&'a self, worker: usize, fds: &mut Vec<(usize, BorrowedFd<'a>, PollFlags)>) {
        for (i, s) in self.slots.iter().enumerate().take(PORTS) {
            let Some(port) = &s.port else { continue };
            let at = worker * PORTS + i;
            let input = s.entry.and_then(|_| port.descriptor());
            let output = port.send_descriptor().filter(|_| port.backlog() > 0);
            let others = s.entry.and_then(|_| port.wake_descriptor());
            fds.extend(
                input
                    .into_iter()
                    .chain(others)
                    .map(|fd| (at, fd, PollFlags::POLLIN)),
            );
            fds.extend(output.map(|fd| (at, fd, PollFlags::POLLOUT)));
        }
        // of no port: nobody looks after it
        let wakes = self.wakes.as_ref();
        fds.extend(wakes.map(|w| (usize::MAX, w.descriptor(), PollFlags::POLLIN)));
    }

    /// Looks after the ports; remarks about what has changed wait for [`Worker::take_remarks`].
    pub fn attend(&mut self) {
        for i in 0..self.slots.len() {
            self.attend_port(i);
        }
    }

    fn attend_port(&mut self, i: usize) {
        if let Some(s) = self.slots.get_mut(i)
            && let Some(p) = &mut s.port
        {
            let before = p.link();
            if let Some(text) = p.attend() {
                self.remarks.push(Remark {
                    port: s.name.clone(),
                    text,
                    restored: before != LinkState::Up && p.link() == LinkState::Up,
                });
            }
        }
    }

    /// What has changed about ports since the last time.
    pub fn take_remarks(&mut self) -> Vec<Remark> {
        std::mem::take(&mut self.remarks)
    }

    /// Where each live port stands.
    pub fn states(&self) -> impl Iterator<Item = PortState<'_>> {
        let with_port = self
            .slots
            .iter()
            .filter_map(|s| Some((s, s.port.as_ref()?)));
        let live = with_port.filter(|(_, p)| p.is_live());
        live.map(|(s, p)| PortState {
            name: &s.name,
            link: p.link(),
            losses: p.losses(),
            counters: p.counters(),
        })
    }

    /// Nothing more is taken in from devices; what other workers hand over still comes.
    pub fn stop(&mut self) {
        for p in self.slots.iter_mut().filter_map(|s| s.port.as_mut()) {
            p.stop();
        }
    }

    /// Is there something that was taken in before [`Worker::stop`]?
    pub fn has_more(&self) -> bool {
        let mut ports = self.slots.iter().filter_map(|s| s.port.as_ref());
        ports.any(|p| p.has_more())
    }

    /// Nothing more is taken in; what waits for room is sent, as far as that is done within `most`.
    ///
    /// # Errors
    /// As [`Worker::live_step`].
    pub fn drain(&mut self, most: Duration) -> Result<(), PortError> {
        let begun = Instant::now();
        while begun.elapsed() < most {
            let mut left = 0;
            for p in self.slots.iter_mut().filter_map(|s| s.port.as_mut()) {
                p.flush()?;
                left += p.backlog();
            }
            if left == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}
