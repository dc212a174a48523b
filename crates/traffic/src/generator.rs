//! Sends what is due, takes what comes.

use crate::account::Account;
use crate::load::Load;
use crate::neighbor;
use crate::schedule::Schedule;
use crate::stamp::{Key, Read, SEQUENCES, Stamp};
use crate::trial::{Limit, PortCounts, Trial};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp, mempool};
use onefold_runtime::{Loss, MODERATION, Polling, Port, PortError, SPIN};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A port of the generator.
pub struct PortSpec {
    /// Its name.
    pub name: String,
    /// It.
    pub port: Box<dyn Port>,
    /// The MAC address that it has.
    pub mac: EtherAddr,
    /// Who asks for a neighbour there is answered.
    pub answers: bool,
}

/// How it runs.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// What is done while nothing is due and nothing comes.
    pub polling: Polling,
    /// Most packets that are handed to a port, or taken from it, at once.
    pub batch: usize,
    /// Packets on their way are waited for until none has come for so long, ten times that at most.
    pub settle: Duration,
    /// A generator that is behind goes on sending for so long after the time is over.
    pub grace: Duration,
    /// Turns a frame into its answer, if there is one. The first packet of each flow that arrives at another port than
    /// the one that it was sent at is answered there: whoever tracks connections takes the flow for established then.
    pub answer: Option<fn(&mut [u8]) -> bool>,
}

impl Default for How {
    fn default() -> Self {
        How {
            polling: Polling::Adaptive,
            batch: 64,
            settle: Duration::from_millis(200),
            grace: Duration::from_millis(250),
            answer: None,
        }
    }
}

/// Who looks on.
pub trait Watch {
    /// Is it to end?
    fn stop(&mut self) -> bool;
    /// Something has changed about a port.
    fn remark(&mut self, port: &str, text: &str);
    /// About ten times a second in a trial: time since its start, packets sent and received.
    fn progress(&mut self, _time: Duration, _sent: u64, _received: u64) {}
}

struct Slot {
    spec: PortSpec,
    leaving: Vec<Pkt>,
    sent: (u64, u64),
    /// What the port had lost when the trial began.
    losses: Vec<Loss>,
    /// Somebody else has this address: it is not answered for.
    gateway: Option<IpAddr>,
    /// Its MAC address, when it has been told.
    learnt: Option<EtherAddr>,
}

/// Links are looked after so often.
const ATTEND_EVERY: Duration = Duration::from_millis(100);
/// Sleep ends so long before a packet is due: about what being woken costs.
const MARGIN: u64 = 60_000;
/// Shorter sleeps are not worth it.
const LEAST_SLEEP: u64 = 20_000;
/// From one question for a neighbour to the next.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// Bytes from one buffer to the next.
const STRIDE: usize = 2112;
/// Packets on their way are waited for no longer than so many times [`How::settle`].
const MOST_SETTLES: u32 = 10;

/// See the crate's text.
pub struct Generator {
    slots: Vec<Slot>,
    load: Load,
    how: How,
    key: Key,
    account: Account,
    origin: Instant,
    /// Buffers for what is sent, and for what comes: those of the latter may have lent frames.
    spare: Vec<Pkt>,
    free: Vec<Pkt>,
    batch: Vec<Pkt>,
    attended: Instant,
    /// When something was last sent or came.
    active: Instant,
    /// By flow, where flows are answered: it has been.
    answered: Vec<bool>,
}

impl Generator {
    /// `run`: another number for every run.
    pub fn new(ports: Vec<PortSpec>, load: Load, how: How, run: u64) -> Generator {
        let how = How {
            batch: how.batch.clamp(1, 1024),
            ..how
        };
        let slot = |spec| Slot {
            spec,
            leaving: Vec::with_capacity(how.batch),
            sent: (0, 0),
            losses: Vec::new(),
            gateway: None,
            learnt: None,
        };
        let now = Instant::now();
        Generator {
            account: Account::new(ports.len(), load.senders()),
            slots: ports.into_iter().map(slot).collect(),
            how,
            key: Key::new(run),
            origin: now,
            spare: mempool(2 * how.batch, STRIDE),
            free: mempool(how.batch, STRIDE),
            batch: Vec::with_capacity(how.batch),
            attended: now,
            active: now,
            answered: match how.answer {
                Some(_) => vec![false; load.senders().len()],
                None => Vec::new(),
            },
            load,
        }
    }

    /// What is sent.
    pub fn load_mut(&mut self) -> &mut Load {
        &mut self.load
    }

    /// What is sent.
    pub fn load(&self) -> &Load {
        &self.load
    }

    /// Nanoseconds since the run began.
    fn now(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Packets may leave and arrive from now on.
    ///
    /// # Errors
    /// When a device refuses.
    pub fn start(&mut self) -> Result<(), PortError> {
        for s in &mut self.slots {
            s.spec.port.start(true)?;
        }
        Ok(())
    }

    /// Asks, at a port, who has an address, until somebody answers or the time is over. `own`: the IP address of who
    /// asks, of the same family.
    ///
    /// # Errors
    /// When a device is broken.
    pub fn resolve(
        &mut self,
        port: usize,
        (own, gateway): (IpAddr, IpAddr),
        time: Duration,
        watch: &mut dyn Watch,
    ) -> Result<Option<EtherAddr>, PortError> {
        let Some(slot) = self.slots.get_mut(port) else {
            return Ok(None);
        };
        slot.gateway = Some(gateway);
        let Some(question) = neighbor::question((slot.spec.mac, own), gateway) else {
            return Ok(None);
        };
        let begun = Instant::now();
        let mut asked: Option<Instant> = None;
        while begun.elapsed() < time && !watch.stop() {
            if asked.is_none_or(|a| a.elapsed() >= ASK_EVERY) {
                asked = Some(Instant::now());
                if let Some(s) = self.slots.get_mut(port) {
                    let mut one = vec![Box::new(Packet::from_slice(&question))];
                    s.spec.port.transmit(&mut one, Timestamp::ZERO)?;
                }
            }
            let came = self.receive()?;
            if let Some(mac) = self.slots.get(port).and_then(|s| s.learnt) {
                return Ok(Some(mac));
            }
            if came == 0 {
                self.sleep(Some(self.now() + 1_000_000));
            }
            self.attend(watch);
        }
        Ok(None)
    }

    /// Sends the frames that open flows, so many a second.
    ///
    /// # Errors
    /// When a device is broken.
    pub fn open(&mut self, pps: f64, watch: &mut dyn Watch) -> Result<u64, PortError> {
        let begun = self.now();
        let gap = 1e9 / pps.max(1.0);
        let all: Vec<(usize, Pkt)> = (self.load.opening())
            .map(|(port, f)| (port, Box::new(Packet::from_slice(f))))
            .collect();
        let mut sent = 0;
        for (port, p) in all {
            let due = begun + (sent as f64 * gap) as u64;
            while self.now() < due {
                if self.receive()? == 0 {
                    self.sleep(Some(due));
                }
            }
            if watch.stop() {
                break;
            }
            if let Some(s) = self.slots.get_mut(port) {
                s.spec.port.transmit(&mut vec![p], Timestamp::ZERO)?;
                // Bound: the port takes them, or counts them as lost when its link goes
                while s.spec.port.backlog() > 0 && !watch.stop() {
                    s.spec.port.flush()?;
                    s.spec.port.attend();
                }
            }
            self.receive()?;
            self.attend(watch);
            sent += 1;
        }
        if sent > 0 {
            // what comes of them is no trial's
            self.settle(watch)?;
        }
        Ok(sent)
    }

    /// Sends by a schedule until the limit, waits for what is on its way, and says what became of it.
    ///
    /// # Errors
    /// When a device is broken.
    pub fn trial(
        &mut self,
        mut schedule: Schedule,
        limit: Limit,
        watch: &mut dyn Watch,
    ) -> Result<Trial, PortError> {
        self.account.begin();
        for s in &mut self.slots {
            s.sent = (0, 0);
            s.losses = s.spec.port.losses();
        }
        let begun = self.now();
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
        let end = limit.time.map(nanos);
        let grace = nanos(self.how.grace);
        let (mut left, mut behind, mut last) = (limit.packets.unwrap_or(u64::MAX), 0, 0);
        let mut interrupted = false;
        loop {
            interrupted |= watch.stop();
            let now = self.now() - begun;
            let next = schedule.next();
            let over = match (end, next) {
                (_, None) => true,
                (None, _) => false,
                (Some(end), Some(next)) => next >= end || now >= end.saturating_add(grace),
            };
            // a port's pace has no intended times that could end it
            let over = over || end.is_some_and(|e| next == Some(0) && now >= e && last > 0);
            if over || left == 0 || interrupted || self.load.is_empty() {
                break;
            }
            let (sent, late) = self.send(&mut schedule, (begun, end), left)?;
            if sent > 0 {
                left -= sent;
                behind = behind.max(late);
                last = self.now() - begun;
            }
            let came = self.receive()?;
            if sent + came == 0 {
                self.sleep(schedule.next().map(|t| begun.saturating_add(t)));
            }
            if self.attend(watch) {
                let c = self.account.counts();
                watch.progress(Duration::from_nanos(now), c.sent, c.received);
            }
        }
        let seconds = self.now() - begun;
        let in_flight = self.account.counts().lost();
        // a schedule that was kept ends when it says
        let seconds = match end {
            Some(end) if !interrupted && left > 0 && last <= end => end,
            _ => seconds.min(last.max(1)),
        };
        self.settle(watch)?;
        let mut shown = self.shown(seconds as f64 / 1e9, behind, interrupted);
        // what is lost was not on its way
        shown.in_flight = in_flight.saturating_sub(shown.counts.lost());
        Ok(shown)
    }

    fn shown(&mut self, seconds: f64, behind: u64, interrupted: bool) -> Trial {
        let arrived = self.account.arrived.clone();
        let ports = self
            .slots
            .iter()
            .zip(&arrived)
            .map(|(s, received)| PortCounts {
                name: s.spec.name.clone(),
                sent: s.sent,
                received: *received,
                lost: since(&s.spec.port.losses(), &s.losses),
            });
        Trial {
            counts: self.account.counts(),
            seconds,
            from_intended: self.account.from_intended().clone(),
            from_sent: self.account.from_sent().clone(),
            behind,
            in_flight: 0,
            ports: ports.collect(),
            interrupted,
        }
    }

    /// Sends a batch of what is due: how many, and how late the latest of them is. Nothing is sent while a port has a
    /// backlog.
    fn send(
        &mut self,
        schedule: &mut Schedule,
        (begun, end): (u64, Option<u64>),
        most: u64,
    ) -> Result<(u64, u64), PortError> {
        for s in &mut self.slots {
            if s.spec.port.backlog() > 0 {
                s.spec.port.flush()?;
                if s.spec.port.backlog() > 0 {
                    return Ok((0, 0));
                }
            }
        }
        let now = self.now() - begun;
        let (mut sent, mut most_late) = (0, 0);
        while sent < most.min(self.how.batch as u64) {
            if end.is_some_and(|e| schedule.next().is_none_or(|t| t >= e)) {
                break;
            }
            let Some(intended) = schedule.take(now) else {
                break;
            };
            let Some(o) = self.load.take() else { break };
            let late = now - intended;
            most_late = most_late.max(late);
            let mut p = match self.spare.pop() {
                Some(p) => p,
                None => Box::new(Packet::from_slice(&[])),
            };
            p.refill(o.bytes);
            match o.place {
                Some(at) => {
                    let stamp = Stamp {
                        seq: self.account.sent(late) % SEQUENCES,
                        flow: o.flow,
                        time: begun + intended,
                    };
                    self.key.write(p.data_mut(), at, stamp);
                }
                None => self.account.sent_unstamped(),
            }
            if let Some(s) = self.slots.get_mut(o.port) {
                s.sent.0 += 1;
                s.sent.1 += o.bytes.len() as u64;
                s.leaving.push(p);
            }
            sent += 1;
        }
        for s in self.slots.iter_mut().filter(|s| !s.leaving.is_empty()) {
            s.spec.port.transmit(&mut s.leaving, Timestamp::ZERO)?;
            self.spare.append(&mut s.leaving);
        }
        if sent > 0 {
            self.active = Instant::now();
        }
        Ok((sent, most_late))
    }

    /// Takes a batch from each port, and counts it: how many packets came.
    fn receive(&mut self) -> Result<u64, PortError> {
        let mut came = 0;
        for i in 0..self.slots.len() {
            let n = self.how.batch;
            while self.free.len() < n {
                self.free.push(Box::new(Packet::from_slice(&[])));
            }
            let Some(s) = self.slots.get_mut(i) else {
                continue;
            };
            s.spec.port.poll(&mut self.free, &mut self.batch, n)?;
            if self.batch.is_empty() {
                continue;
            }
            let now = u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX);
            came += self.batch.len() as u64;
            let mut answers: Vec<Pkt> = Vec::new();
            for p in &self.batch {
                match self.key.read(p.data()) {
                    Read::Stamped(stamp) => {
                        self.account.arrived(i, p.len(), stamp, now);
                        let open = self.answered.get_mut(stamp.flow as usize);
                        if let Some(done) = open.filter(|done| !**done)
                            && self.load.senders().get(stamp.flow as usize) != Some(&(i as u8))
                            && let Some(to_answer) = self.how.answer
                        {
                            let mut frame = p.data().to_vec();
                            *done = true;
                            if crate::stamp::erase(&mut frame) && to_answer(&mut frame) {
                                answers.push(Box::new(Packet::from_slice(&frame)));
                            }
                        }
                    }
                    Read::Corrupted => self.account.corrupted(),
                    Read::Foreign => match neighbours(s, p.data()) {
                        Neighbours::Asked(answer) => {
                            answers.push(Box::new(Packet::from_slice(&answer)));
                        }
                        Neighbours::Told => {}
                        Neighbours::Nothing => self.account.foreign(),
                    },
                }
            }
            if !answers.is_empty() {
                s.spec.port.transmit(&mut answers, Timestamp::ZERO)?;
            }
            // lent frames go back at once
            for mut p in self.batch.drain(..) {
                if p.is_borrowed() {
                    drop(p.detach());
                }
                self.free.push(p);
            }
            self.free.truncate(2 * n);
        }
        if came > 0 {
            self.active = Instant::now();
        }
        Ok(came)
    }

    /// Takes what is on its way.
    fn settle(&mut self, watch: &mut dyn Watch) -> Result<(), PortError> {
        let begun = Instant::now();
        let mut last = begun;
        let most = self.how.settle * MOST_SETTLES;
        // Bound: `most`. What has come is taken before the time is looked at: whoever had no processor for as long has
        // packets to take
        loop {
            for s in &mut self.slots {
                if s.spec.port.backlog() > 0 {
                    s.spec.port.flush()?;
                }
            }
            let came = self.receive()?;
            if came > 0 {
                last = Instant::now();
            }
            if last.elapsed() >= self.how.settle || begun.elapsed() >= most {
                break;
            }
            if came == 0 {
                self.sleep(Some(self.now() + 1_000_000));
            }
            self.attend(watch);
        }
        Ok(())
    }

    /// Sleeps until packets come, or shortly before `until` (at most 100 ms).
    fn sleep(&mut self, until: Option<u64>) {
        let quiet = self.active.elapsed() >= SPIN;
        let may = match self.how.polling {
            Polling::Busy => false,
            Polling::Adaptive => quiet,
            Polling::Interrupt | Polling::Moderate => true,
        };
        let most = ATTEND_EVERY.as_nanos() as u64;
        let left = until.map_or(most, |u| u.saturating_sub(self.now()).min(most));
        let left = left.saturating_sub(MARGIN);
        if !may || left < LEAST_SLEEP {
            return;
        }
        if self.how.polling == Polling::Moderate && !quiet {
            return std::thread::sleep(MODERATION.min(Duration::from_nanos(left)));
        }
        let mut waiting: Vec<PollFd<'_>> = Vec::with_capacity(2 * self.slots.len());
        for s in &self.slots {
            if let Some(fd) = s.spec.port.descriptor() {
                waiting.push(PollFd::new(fd, PollFlags::POLLIN));
            }
            if s.spec.port.backlog() > 0
                && let Some(fd) = s.spec.port.send_descriptor()
            {
                waiting.push(PollFd::new(fd, PollFlags::POLLOUT));
            }
        }
        let time = TimeSpec::from_duration(Duration::from_nanos(left));
        match ppoll(&mut waiting, Some(time), None) {
            Ok(_) | Err(Errno::EINTR) => {}
            // nothing to wait for: time passes all the same
            Err(_) => std::thread::sleep(Duration::from_nanos(left)),
        }
    }

    /// Looks after the ports, if it is time to. True: it was.
    fn attend(&mut self, watch: &mut dyn Watch) -> bool {
        if self.attended.elapsed() < ATTEND_EVERY {
            return false;
        }
        self.attended = Instant::now();
        for s in &mut self.slots {
            if let Some(text) = s.spec.port.attend() {
                watch.remark(&s.spec.name, &text);
            }
        }
        true
    }
}

/// What a foreign frame has to do with neighbours.
enum Neighbours {
    /// It asked for one; this is the answer.
    Asked(Vec<u8>),
    /// It told of one.
    Told,
    Nothing,
}

fn neighbours(s: &mut Slot, frame: &[u8]) -> Neighbours {
    if let Some(gateway) = s.gateway
        && let Some(mac) = neighbor::learn(frame, gateway)
    {
        s.learnt = Some(mac);
        return Neighbours::Told;
    }
    match neighbor::answer(frame, s.spec.mac, s.gateway) {
        Some(a) if s.spec.answers => Neighbours::Asked(a),
        Some(_) => Neighbours::Told,
        None => Neighbours::Nothing,
    }
}

/// What was lost since then.
fn since(now: &[Loss], then: &[Loss]) -> Vec<Loss> {
    let before = |reason| {
        let of = then.iter().filter(|l| l.reason == reason);
        of.map(|l| l.packets).sum::<u64>()
    };
    let all = now.iter().map(|l| Loss {
        reason: l.reason,
        packets: l.packets.saturating_sub(before(l.reason)),
    });
    all.filter(|l| l.packets > 0).collect()
}
