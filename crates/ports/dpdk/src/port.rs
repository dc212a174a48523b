//! Queues of a device as a port of a worker.

use crate::error::DpdkError;
use crate::family::{HOLDS, Shared};
use crate::ffi::{self, Burst, Device, Received};
use crate::group::Group;
use crate::opened::{self, Opened};
use crate::queue::Queue;
use crate::spec::Spec;
use onefold_packet::{EtherAddr, Pkt, Timestamp};
use onefold_port_interface::{Interface, finish};
use onefold_runtime::{LinkState, Loss, Port, PortError};
use onefold_table::prefetch;
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a device is asked that cannot tell of packets, while nothing comes.
const BLIND: Duration = Duration::from_millis(1);
/// The same when it has been idle for [`LONG`] times.
const LONG_BLIND: Duration = Duration::from_millis(8);
const LONG: u32 = 32;

/// What happened, besides what queues count.
#[derive(Debug, Default)]
struct Counts {
    copied_in: u64,
    pieces: u64,
    finished: u64,
    /// Of devices that are gone.
    before: ffi::State,
}

/// See the module's text.
#[derive(Debug)]
pub struct DpdkPort {
    spec: Spec,
    shared: Arc<Shared>,
    /// None while the device is gone.
    opened: Option<Opened>,
    /// The device that has gone, as long as other workers' ports have it.
    gone: Weak<Device>,
    queues: Vec<Queue>,
    /// Their numbers.
    numbers: Vec<u16>,
    /// Other workers' ports have the other queues; how often the device was known to go away.
    group: Option<(Arc<Group>, u64)>,
    /// Which is asked first.
    turn: usize,
    finishes: bool,
    mtu: usize,
    link: LinkState,
    started: bool,
    /// Times that a worker has slept since packets came.
    slept: Cell<u32>,
    /// Packets without a frame.
    handles: Vec<Pkt>,
    burst: Burst,
    /// A packet that has to be copied together.
    scratch: Vec<u8>,
    /// Numbers of frames that go back.
    back: Vec<u32>,
    counts: Counts,
    shown: String,
    mac: [u8; 6],
}

/// Statistics of a device that was opened again go on.
fn plus(a: ffi::State, b: ffi::State) -> ffi::State {
    ffi::State {
        missed: a.missed + b.missed,
        rx_errors: a.rx_errors + b.rx_errors,
        no_mbuf: a.no_mbuf + b.no_mbuf,
        tx_errors: a.tx_errors + b.tx_errors,
        ..b
    }
}

impl DpdkPort {
    pub(crate) fn new(
        spec: Spec,
        opened: Opened,
        shared: Arc<Shared>,
        numbers: Vec<u16>,
        huge: bool,
    ) -> DpdkPort {
        let shown = shown(&spec, &opened, &shared, huge);
        let mut port = DpdkPort {
            gone: Weak::new(),
            queues: numbers
                .iter()
                .map(|q| Queue::new(*q, &shared.pool))
                .collect(),
            numbers,
            group: None,
            turn: 0,
            finishes: opened.kernel.as_ref().is_some_and(|k| k.unfinished),
            mtu: usize::from(opened.mtu),
            link: LinkState::Up,
            started: false,
            slept: Cell::new(0),
            handles: Vec::new(),
            burst: Burst::default(),
            scratch: Vec::new(),
            back: Vec::new(),
            counts: Counts::default(),
            shown,
            mac: opened.mac,
            opened: Some(opened),
            spec,
            shared,
        };
        port.link = port.look();
        port
    }

    /// The port of the first queue, and with it those of the others, for other workers.
    pub(crate) fn split(mut self, huge: bool) -> Vec<DpdkPort> {
        let group = Arc::new(Group::new(usize::from(self.spec.queues), self.link));
        let other = |n: u16| {
            let opened = self.opened.as_ref()?.again(&self.shared, &[n]);
            let (spec, shared) = (self.spec.clone(), Arc::clone(&self.shared));
            let mut port = DpdkPort::new(spec, opened, shared, vec![n], huge);
            port.finishes = self.finishes;
            port.group = Some((Arc::clone(&group), 0));
            Some(port)
        };
        let others: Vec<DpdkPort> = (1..self.spec.queues).filter_map(other).collect();
        self.group = Some((group, 0));
        std::iter::once(self).chain(others).collect()
    }

    /// Another port looks after the device: which one of the group this is, then.
    fn follows(&self) -> Option<usize> {
        let n = *self.numbers.first()?;
        (n > 0 && self.group.is_some()).then_some(usize::from(n))
    }

    /// Does as the port that looks after the device. A remark if something has changed.
    fn follow(&mut self, n: usize) -> Option<String> {
        let (group, known) = self.group.as_mut()?;
        let (gone, link, part) = group.look(n);
        let name = self.spec.interface().unwrap_or(&self.spec.name).to_string();
        if gone != *known {
            *known = gone;
            self.close();
        }
        if let Some(o) = part {
            self.mtu = usize::from(o.mtu);
            self.opened = Some(o);
        }
        let before = std::mem::replace(&mut self.link, link);
        (before != link).then(|| format!("link of {name} {}", link.name()))
    }

    /// What is known of the device, as of an interface.
    pub fn interface(&self) -> Interface {
        Interface {
            name: self.spec.name.clone(),
            index: 0,
            mac: EtherAddr(self.mac),
            mtu: self.mtu as u32,
            up: true,
            running: self.link == LinkState::Up,
            addresses: Vec::new(),
            forwards: [false; 2],
        }
    }

    /// How frames come and go, in words.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Can it be used for a chain that sends packets of so many bytes there?
    ///
    /// # Errors
    /// No, with what to type.
    pub fn check(spec: &Spec, has: u32, needed: u32) -> Result<(), DpdkError> {
        match has < needed {
            true => Err(DpdkError::SmallMtu {
                name: spec.devargs(),
                mtu: has,
                needed,
            }),
            false => Ok(()),
        }
    }

    /// The link's state.
    fn look(&self) -> LinkState {
        let Some(o) = &self.opened else {
            return LinkState::Gone;
        };
        let up = o.device.state().is_ok_and(|s| s.up != 0);
        let kernel = o.kernel.as_ref();
        let beneath =
            kernel.is_none_or(|k| k.control.flags(&k.name).is_ok_and(|f| f.up && f.running));
        match up && beneath {
            true => LinkState::Up,
            false => LinkState::Down,
        }
    }

    /// The device's counters, of all times that it was there; zeros where another port tells them.
    fn state(&self) -> ffi::State {
        if self.follows().is_some() {
            return ffi::State::default();
        }
        let now = self.opened.as_ref().and_then(|o| o.device.state().ok());
        now.map_or(self.counts.before, |s| plus(self.counts.before, s))
    }

    /// The device is let go; what was under way is lost.
    fn release(&mut self) {
        self.counts.before = self.state();
        for q in &mut self.queues {
            q.clear();
        }
        let opened = self.opened.take();
        if let Some(o) = &opened {
            self.gone = Arc::downgrade(&o.device);
        }
        match &self.group {
            Some((group, _)) => group.release(opened),
            None => drop(opened),
        }
    }

    /// The device is gone, and so it is for other workers' ports.
    fn close(&mut self) {
        self.release();
        self.link = LinkState::Gone;
        if let Some((group, _)) = self.group.as_ref().filter(|_| self.follows().is_none()) {
            group.close();
        }
    }

    /// Other workers' ports hear of the link.
    fn tell_link(&self) {
        if let Some((group, _)) = &self.group {
            group.set_link(self.link);
        }
    }

    /// The kernel's interface has gone: so is the device, until there is one again.
    fn is_gone(&self) -> Option<String> {
        let k = self.opened.as_ref()?.kernel.as_ref()?;
        (k.control.index(&k.name).ok() != Some(k.index)).then(|| k.name.clone())
    }

    /// Follows an interface of the kernel's that is there again.
    fn reopen(&mut self) -> Option<String> {
        let name = self.spec.interface()?.to_string();
        let i = Interface::find(&name).ok()?;
        if !i.up || i.mtu as usize > self.shared.pool.frame_len().saturating_sub(128) {
            return None;
        }
        // as long as other workers' ports have the device, DPDK has it, too
        let closed = self
            .group
            .as_ref()
            .is_none_or(|(g, _)| g.is_closed(&self.gone));
        if !closed {
            return None;
        }
        let (device, info) = opened::probe(&self.spec).ok()?;
        let o = Opened::set_up(&self.spec, device, &info, &self.shared, &self.numbers).ok()?;
        self.mtu = usize::from(o.mtu);
        if let Some((group, _)) = &self.group {
            group.open(&o, &self.shared);
        }
        self.opened = Some(o);
        self.link = self.look();
        self.tell_link();
        Some(format!(
            "interface {name} is back, link {}",
            self.link.name()
        ))
    }
}

/// What a port is, in words.
fn shown(s: &Spec, o: &Opened, shared: &Shared, huge: bool) -> String {
    let queues = match s.queues {
        1 => "one queue".to_string(),
        n => format!("{n} queues"),
    };
    let [rx, tx] = o.descriptors;
    let pages = if huge { "huge pages" } else { "usual pages" };
    let idle = match (&o.wake, shared.interrupts) {
        (Some(_), _) => "wakes when packets come",
        (None, true) => "has no receive interrupts, is asked every 1 to 8 ms while idle",
        (None, false) => "polled",
    };
    format!(
        "driver {}, {queues} of {rx} and {tx} descriptors, {} frames on {pages}, {idle}",
        o.driver,
        shared.pool.frames()
    )
}

/// Packets whose handles are asked for before it is their turn.
const AHEAD: usize = 4;

/// What receiving needs besides the device.
struct Into<'a> {
    shared: &'a Shared,
    /// Others have been asked for handles.
    asked: bool,
    free: &'a mut Vec<Pkt>,
    handles: &'a mut Vec<Pkt>,
    batch: &'a mut Vec<Pkt>,
    scratch: &'a mut Vec<u8>,
    counts: &'a mut Counts,
    scarce: bool,
    finishes: bool,
}

impl Into<'_> {
    /// A packet without a frame that other ports have left, or one of the worker's.
    #[cold]
    fn other_handle(&mut self) -> Option<Pkt> {
        if !std::mem::replace(&mut self.asked, true) {
            self.shared.take_handles(self.handles);
        }
        self.handles.pop().or_else(|| self.free.pop())
    }

    /// A packet that has arrived joins the batch.
    #[inline(always)]
    fn add(&mut self, r: Received) {
        // a packet without a frame, as long as there are some
        let Some(mut p) = self.handles.pop().or_else(|| self.other_handle()) else {
            return;
        };
        // those of the next packets are on their way meanwhile
        if let Some(next) = self
            .handles
            .len()
            .checked_sub(AHEAD)
            .and_then(|i| self.handles.get(i))
        {
            prefetch(&**next);
        }
        match r {
            Received::Plain(frame, data) if !self.scarce => p.attach(frame, data),
            Received::Plain(frame, data) => {
                p.refill(frame.get(data).unwrap_or_default());
                self.counts.copied_in += 1;
            }
            Received::Other(pieces) => {
                pieces.copy(self.scratch);
                p.refill(self.scratch);
                self.counts.pieces += 1;
            }
        }
        if self.finishes && finish::finish(p.data_mut()) {
            self.counts.finished += 1;
        }
        self.batch.push(p);
    }
}

impl Port for DpdkPort {
    /// A live port has no packets of which it knows when they come.
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}

    fn is_live(&self) -> bool {
        true
    }

    fn lends_frames(&self) -> bool {
        true
    }

    /// What has come before is not for the chain.
    fn start(&mut self, receives: bool) -> Result<(), PortError> {
        /// A device that gives packets without an end has no more of them than others.
        const ROUNDS: usize = 16;
        self.started = true;
        // this is the thread that uses it: it has a cache of free frames then
        let _ = ffi::register_thread();
        ffi::running();
        if let Some(o) = self
            .opened
            .as_ref()
            .filter(|_| receives && !self.spec.replays())
        {
            for q in &self.numbers {
                // Bound: ROUNDS
                for _ in 0..ROUNDS {
                    let pool = &self.shared.pool;
                    if pool
                        .receive(&o.device, *q, ffi::BURST, &mut self.burst)
                        .len()
                        == 0
                    {
                        break;
                    }
                }
            }
        }
        self.shared.pool.collect(&mut self.back);
        if self.follows().is_none() {
            self.link = self.look();
            self.tell_link();
        }
        Ok(())
    }

    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let Some(o) = &mut self.opened else {
            return Ok(());
        };
        let pool = &self.shared.pool;
        let mut to = Into {
            shared: &self.shared,
            asked: false,
            free,
            handles: &mut self.handles,
            batch,
            scratch: &mut self.scratch,
            counts: &mut self.counts,
            scarce: pool.out() > i64::from(HOLDS),
            finishes: self.finishes,
        };
        let mut left = n;
        if let Some(w) = &mut o.wake {
            let early = w.disarm(&o.device);
            let some = early.len().min(left);
            early.drain(..some).for_each(|r| to.add(r));
            left -= some;
        }
        for _ in 0..self.numbers.len() {
            if left == 0 {
                break;
            }
            let Some(q) = self.numbers.get(self.turn) else {
                self.turn = 0;
                continue;
            };
            let arrived = pool.receive(&o.device, *q, left, &mut self.burst);
            left -= arrived.len();
            for r in arrived {
                to.add(r);
            }
            self.turn += 1;
            if self.turn >= self.numbers.len() {
                self.turn = 0;
            }
        }
        if left < n {
            self.slept.set(0);
        }
        pool.collect(&mut self.back);
        Ok(())
    }

    fn transmit(&mut self, packets: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        let Some(q) = self.queues.first_mut() else {
            return Ok(());
        };
        match &self.opened {
            Some(o) if self.link == LinkState::Up => q.send(&o.device, self.mtu, packets),
            _ => q.lose(packets.len()),
        }
        // those whose frames are gone are other ports' to use
        let mut i = 0;
        while let Some(p) = packets.get(i) {
            match p.frame().is_empty() {
                true => self.handles.push(packets.swap_remove(i)),
                false => i += 1,
            }
        }
        self.shared.give_handles(&mut self.handles);
        Ok(())
    }

    fn backlog(&self) -> usize {
        self.queues.iter().map(Queue::backlog).sum()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        if let Some(o) = &self.opened {
            for q in &mut self.queues {
                q.flush(&o.device);
            }
        }
        Ok(())
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        let o = self.opened.as_ref()?;
        let w = o.wake.as_ref()?;
        Some(w.arm(&o.device, &self.shared, &self.numbers))
    }

    fn longest_sleep(&self) -> Option<Duration> {
        let blind = self.opened.as_ref().is_some_and(|o| o.wake.is_none());
        let slept = self.slept.get().saturating_add(1);
        self.slept.set(slept);
        blind.then_some(if slept > LONG { LONG_BLIND } else { BLIND })
    }

    fn attend(&mut self) -> Option<String> {
        if let Some(n) = self.follows() {
            return self.follow(n);
        }
        if self.opened.is_none() {
            return self.started.then(|| self.reopen()).flatten();
        }
        if let Some(name) = self.is_gone() {
            self.close();
            return Some(format!(
                "interface {name} is gone; waiting until it comes back"
            ));
        }
        self.shared.pool.collect(&mut self.back);
        let link = self.look();
        if link == self.link {
            return None;
        }
        self.link = link;
        self.tell_link();
        let name = self.spec.interface().unwrap_or(&self.spec.name);
        Some(format!("link of {name} {}", link.name()))
    }

    fn link(&self) -> LinkState {
        self.link
    }

    fn losses(&self) -> Vec<Loss> {
        let s = self.state();
        let own = [
            (
                "arrived faster than they were taken (no receive descriptor)",
                s.missed,
            ),
            ("arrived while no frame was free", s.no_mbuf),
            ("damaged on their way", s.rx_errors),
            ("refused by the device", s.tx_errors),
        ];
        let sent = self.queues.iter().flat_map(|q| q.sent.losses());
        let mut all: Vec<Loss> = Vec::new();
        for (reason, packets) in own.into_iter().chain(sent).filter(|(_, n)| *n > 0) {
            match all.iter_mut().find(|l| l.reason == reason) {
                Some(l) => l.packets += packets,
                None => all.push(Loss { reason, packets }),
            }
        }
        all
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let own = [
            ("copied in (few free frames)", self.counts.copied_in),
            (
                "copied in (in several pieces, or elsewhere)",
                self.counts.pieces,
            ),
            ("checksums finished", self.counts.finished),
        ];
        let sent = self.queues.iter().flat_map(|q| q.sent.counters());
        let mut all: Vec<(&'static str, u64)> = Vec::new();
        for (what, n) in own.into_iter().chain(sent).filter(|(_, n)| *n > 0) {
            match all.iter_mut().find(|a| a.0 == what) {
                Some(a) => a.1 += n,
                None => all.push((what, n)),
            }
        }
        all
    }

    /// The device is closed: drivers write what they hold, and remove what they have made.
    fn finish(&mut self) -> Result<(), PortError> {
        self.release();
        self.started = false;
        Ok(())
    }
}
