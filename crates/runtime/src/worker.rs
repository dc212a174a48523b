//! A worker: batches from ports, through an executor, to ports.

use crate::control::Wakes;
use crate::histogram::Histogram;
use crate::live::Remark;
use crate::port::{Port, PortError};
use crate::pressure::Pressure;
use onefold_element::ElemId;
use onefold_engine::{Executor, Graph};
use onefold_packet::{Packet, Pkt, Timestamp, mempool};

/// Packets that are kept for later, in batches: what is more goes back to the executor's pool. As many are made in the
/// beginning, in frames that lie together.
const SPARE: usize = 4;
/// Bytes from one frame to the next: an odd number of cache lines, so that headers of packets in flight do not share a
/// few sets of the cache. Longer packets grow out of their frames.
pub(crate) const STRIDE: usize = 2112;

/// Packets and bytes of a port, one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A port of a chain.
pub struct PortSpec {
    /// What it is called.
    pub name: String,
    /// Where its packets enter the graph, if any do.
    pub entry: Option<ElemId>,
    /// Elements whose packets leave there.
    pub sinks: Vec<ElemId>,
    /// What is behind it; `None`: no packets come, and what leaves is counted only.
    pub port: Option<Box<dyn Port>>,
}

pub(crate) struct Slot {
    pub(crate) name: String,
    pub(crate) entry: Option<ElemId>,
    pub(crate) port: Option<Box<dyn Port>>,
    pub(crate) received: Count,
    sent: Count,
    /// How long live packets that left here were in the chain, ns.
    stayed: Histogram,
    /// When its next packet arrives, if that is known.
    next: Option<Timestamp>,
    /// Of a live port: do packets queue up?
    pub(crate) pressure: Pressure,
    /// Packets that leave there, of this batch.
    leaving: Vec<Pkt>,
}

impl Slot {
    fn new(p: PortSpec) -> Slot {
        Slot {
            name: p.name,
            entry: p.entry,
            port: p.port,
            received: Count::default(),
            sent: Count::default(),
            stayed: Histogram::default(),
            next: None,
            pressure: Pressure::default(),
            leaving: Vec::new(),
        }
    }
}

/// What a [`Worker::step`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The port that packets came from.
    pub port: usize,
    /// How many.
    pub packets: usize,
}

/// See the module's text.
pub struct Worker<E> {
    pub(crate) executor: E,
    pub(crate) slots: Vec<Slot>,
    /// By element: the port that it leads to.
    port_of: Vec<u32>,
    /// A port waits for the frames of its packets.
    lends: bool,
    pub(crate) batch_size: usize,
    /// Buffers for what arrives.
    pub(crate) free: Vec<Pkt>,
    pub(crate) batch: Vec<Pkt>,
    out: Vec<(ElemId, Pkt)>,
    /// When the first packet arrived, and the last one.
    pub(crate) first: Option<Timestamp>,
    pub(crate) now: Timestamp,
    /// Of live ports: the one that is asked next.
    pub(crate) turn: usize,
    /// What has changed about ports.
    pub(crate) remarks: Vec<Remark>,
    /// Ends its sleep.
    pub(crate) wakes: Option<Wakes>,
    /// Who looks at what passes live ports.
    pub(crate) tap: Option<Box<dyn Tap>>,
}

/// Looks at the packets that pass live ports.
pub trait Tap: Send {
    /// These have arrived at the port with this number, and are about to enter the graph.
    fn received(&mut self, port: usize, packets: &[Pkt], at: Timestamp, graph: &Graph);
    /// These leave there.
    fn sent(&mut self, port: usize, packets: &[Pkt], at: Timestamp);
}

/// Where packets of a port enter an executor, and where they leave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The port's name.
    pub name: String,
    /// Where its packets enter the graph, if any do.
    pub entry: Option<ElemId>,
    /// Elements whose packets leave there.
    pub sinks: Vec<ElemId>,
}

/// Why a worker does not go on with another executor.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// A port has a device, and the new chain does not have the port.
    #[error("the new chain has no port '{0}', which is open")]
    NoPort(String),
    /// Packets arrive in one of the chains only.
    #[error(
        "packets arrive at port '{port}' in the {which} chain only; stop the chain and start the new one"
    )]
    OtherWay {
        /// The port.
        port: String,
        /// Which one.
        which: &'static str,
    },
    /// What had left before could not be written.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// Frames that somebody waits for go back: no packet that is kept for later has one.
pub(crate) fn give_back(packets: &mut [Pkt]) {
    let lent = |p: &&mut Pkt| p.is_borrowed();
    packets
        .iter_mut()
        .filter(lent)
        .for_each(|p| drop(Packet::detach(p)));
}

/// Nothing is in a chain for longer, ns: what says so has had its time stamp changed.
const LONGEST_STAY: u64 = 600_000_000_000;

/// Packets that leave at a moment; most of them have arrived together.
fn add_stayed(to: &mut Histogram, packets: &[Pkt], (now, left): (Timestamp, Timestamp)) {
    let stay = |came: Timestamp| {
        let ns = left.0.checked_sub(came.0);
        ns.and_then(|ns| u64::try_from(ns).ok())
            .filter(|ns| *ns <= LONGEST_STAY)
    };
    let mut together = 0;
    for p in packets {
        if p.anno.timestamp == now {
            together += 1;
        } else if let Some(ns) = stay(p.anno.timestamp) {
            to.record(ns);
        }
    }
    if let Some(ns) = stay(now) {
        to.record_many(ns, together);
    }
}

/// No port.
const NOWHERE: u32 = u32::MAX;

impl<E: Executor> Worker<E> {
    /// With batches of so many packets, 1 at least.
    pub fn new(executor: E, ports: Vec<PortSpec>, batch_size: usize) -> Worker<E> {
        let mut port_of = vec![NOWHERE; executor.graph().len()];
        for (i, p) in ports.iter().enumerate() {
            for s in &p.sinks {
                if let Some(at) = port_of.get_mut(s.0 as usize) {
                    *at = i as u32;
                }
            }
        }
        let lends = |p: &PortSpec| p.port.as_ref().is_some_and(|p| p.lends_frames());
        let batch_size = batch_size.max(1);
        Worker {
            executor,
            lends: ports.iter().any(lends),
            slots: ports.into_iter().map(Slot::new).collect(),
            port_of,
            batch_size,
            free: mempool(SPARE * batch_size, STRIDE),
            batch: Vec::new(),
            out: Vec::new(),
            first: None,
            now: Timestamp::ZERO,
            turn: 0,
            remarks: Vec::new(),
            wakes: None,
            tap: None,
        }
    }

    /// From now on its sleep ([`Worker::wait`]) ends when this becomes readable.
    pub fn wake_by(&mut self, wakes: Wakes) {
        self.wakes = Some(wakes);
    }

    /// From now on this looks at what passes live ports; `None`: nobody does. Who did before comes back.
    pub fn tap(&mut self, tap: Option<Box<dyn Tap>>) -> Option<Box<dyn Tap>> {
        std::mem::replace(&mut self.tap, tap)
    }

    /// Ports by number, as [`Step::port`] has it.
    pub fn port_names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|s| s.name.as_str())
    }

    /// Could it go on with another executor, whose ports are these?
    ///
    /// # Errors
    /// When a port with a device is not in the new chain, or packets arrive there in only one of them.
    pub fn fits(&self, ports: &[Binding]) -> Result<(), ReplaceError> {
        for s in self.slots.iter().filter(|s| s.port.is_some()) {
            let Some(b) = ports.iter().find(|b| b.name == s.name) else {
                return Err(ReplaceError::NoPort(s.name.clone()));
            };
            if b.entry.is_some() != s.entry.is_some() {
                return Err(ReplaceError::OtherWay {
                    port: s.name.clone(),
                    which: if b.entry.is_some() { "new" } else { "old" },
                });
            }
        }
        Ok(())
    }

    /// Goes on with another executor, whose ports are these, between two batches. `go_on` lets the new one, its first
    /// argument, take what it needs of the old one, which comes back. Ports without a device come and go with the
    /// chain; counts of packets go on.
    ///
    /// # Errors
    /// When it does not fit ([`Worker::fits`]), or what left before cannot be written: the old one stays then, and the
    /// new one is dropped.
    pub fn replace<R>(
        &mut self,
        executor: E,
        ports: Vec<Binding>,
        go_on: impl FnOnce(&mut E, &mut E) -> R,
    ) -> Result<(E, R), ReplaceError> {
        self.fits(&ports)?;
        self.deliver()?;
        let mut old = std::mem::replace(&mut self.executor, executor);
        let said = go_on(&mut self.executor, &mut old);
        self.port_of.clear();
        self.port_of.resize(self.executor.graph().len(), NOWHERE);
        for s in &mut self.slots {
            s.entry = None;
        }
        for b in ports {
            let at = match self.slots.iter().position(|s| s.name == b.name) {
                Some(at) => at,
                None => {
                    self.slots.push(Slot::new(PortSpec {
                        name: b.name,
                        entry: None,
                        sinks: Vec::new(),
                        port: None,
                    }));
                    self.slots.len() - 1
                }
            };
            if let Some(s) = self.slots.get_mut(at) {
                s.entry = b.entry;
            }
            for sink in b.sinks {
                if let Some(p) = self.port_of.get_mut(sink.0 as usize) {
                    *p = at as u32;
                }
            }
        }
        Ok((old, said))
    }

    /// The executor: to install programs, and to ask.
    pub fn executor(&mut self) -> &mut E {
        &mut self.executor
    }

    /// The executor alone.
    pub fn into_executor(self) -> E {
        self.executor
    }

    /// Name, packets received and packets sent of each port.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Count, Count)> {
        (self.slots.iter()).map(|s| (s.name.as_str(), s.received, s.sent))
    }

    /// Name of each port, and how long live packets that left there were in the chain, in ns: from when they were taken
    /// from a port to when they were handed to one.
    pub fn stays(&self) -> impl Iterator<Item = (&str, &Histogram)> {
        self.slots.iter().map(|s| (s.name.as_str(), &s.stayed))
    }

    /// So many packets more have arrived at a port, of so many bytes: somebody in front of the chain took care of them.
    pub fn count_received(&mut self, port: &str, packets: u64, bytes: u64) {
        if let Some(s) = self.slots.iter_mut().find(|s| s.name == port) {
            s.received.packets += packets;
            s.received.bytes += bytes;
        }
    }

    /// When the last packet arrived.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Time between the first packet and the last.
    pub fn span(&self) -> Timestamp {
        self.now - self.first.unwrap_or(self.now)
    }

    /// Bytes that ports have read, and bytes that there are.
    pub fn progress(&self) -> (u64, u64) {
        let all = self.slots.iter().filter_map(|s| s.port.as_ref());
        all.map(|p| p.progress()).fold((0, 0), |(read, total), p| {
            (read + p.read, total + p.total.unwrap_or(p.read))
        })
    }

    /// Remarks of ports.
    pub fn take_warnings(&mut self) -> Vec<String> {
        let all = self.slots.iter_mut().filter_map(|s| s.port.as_mut());
        all.flat_map(|p| p.take_warnings()).collect()
    }

    /// The port whose packet is the earliest (of several the first one), and up to when its packets come before all
    /// others'.
    fn earliest(&mut self) -> Option<(usize, Timestamp)> {
        let mut best: Option<(usize, Timestamp)> = None;
        for (i, s) in self.slots.iter_mut().enumerate() {
            if s.next.is_none() && s.entry.is_some() {
                s.next = s.port.as_mut().and_then(|p| p.next_at());
            }
            if let Some(at) = s.next
                && best.is_none_or(|(_, b)| at < b)
            {
                best = Some((i, at));
            }
        }
        let (port, _) = best?;
        let others = self.slots.iter().enumerate().filter(|(i, _)| *i != port);
        let until = others.filter_map(|(i, s)| {
            let at = s.next?;
            // a port in front of it comes first at the same time
            Some(Timestamp(at.0.saturating_add(i64::from(i > port))))
        });
        Some((port, until.min().unwrap_or(Timestamp::MAX)))
    }

    /// Takes up to `most` packets all their way, a batch at most; `None` when no more arrive.
    ///
    /// # Errors
    /// When what leaves cannot be written.
    pub fn step(&mut self, most: usize) -> Result<Option<Step>, PortError> {
        let Some((port, until)) = self.earliest() else {
            return Ok(None);
        };
        let n = self.batch_size.min(most.max(1));
        self.make_room(n);
        let Some(slot) = self.slots.get_mut(port) else {
            return Ok(None);
        };
        let (Some(entry), Some(source)) = (slot.entry, &mut slot.port) else {
            return Ok(None);
        };
        source.receive(&mut self.free, &mut self.batch, until, n);
        slot.next = None;
        let packets = self.batch.len();
        slot.received.packets += packets as u64;
        for p in &mut self.batch {
            slot.received.bytes += p.len() as u64;
            // the clock never goes back, whatever a port says
            self.now = self.now.max(p.anno.timestamp);
            p.anno.timestamp = self.now;
            if self.first.is_none() {
                self.first = Some(self.now);
            }
        }
        self.executor.run(entry, &mut self.batch);
        self.deliver()?;
        Ok(Some(Step { port, packets }))
    }

    /// No packet arrives for so long; what timers and tasks let leave is delivered.
    ///
    /// # Errors
    /// As [`Worker::step`].
    pub fn linger(&mut self, time: Timestamp) -> Result<(), PortError> {
        if time > Timestamp::ZERO {
            self.executor.advance(self.now + time);
        }
        self.deliver()
    }

    /// Buffers for so many packets are in `free`.
    pub(crate) fn make_room(&mut self, n: usize) {
        if self.free.len() < n {
            let missing = n - self.free.len();
            self.executor.lend_packets(&mut self.free, missing);
        }
    }

    /// Hands what has left to the ports.
    pub(crate) fn deliver(&mut self) -> Result<(), PortError> {
        self.deliver_at(None)
    }

    /// The same; how long packets were in the chain up to this moment is counted, if there is one.
    pub(crate) fn deliver_at(&mut self, left: Option<Timestamp>) -> Result<(), PortError> {
        // those that are kept already have no frame that anybody waits for
        let kept = self.free.len();
        self.executor.take_transmitted(&mut self.out);
        let port = |sink: ElemId| {
            self.port_of
                .get(sink.0 as usize)
                .copied()
                .unwrap_or(NOWHERE)
        };
        // most batches leave at one sink
        let sink = self.out.first().map(|o| o.0);
        let one = sink.filter(|s| self.out.iter().all(|o| o.0 == *s));
        match one.and_then(|s| self.slots.get_mut(port(s) as usize)) {
            Some(s) => {
                s.sent.packets += self.out.len() as u64;
                s.leaving.extend(self.out.drain(..).map(|(_, p)| p));
                s.sent.bytes += s.leaving.iter().map(|p| p.len() as u64).sum::<u64>();
            }
            None => {
                for (sink, p) in self.out.drain(..) {
                    match self.slots.get_mut(port(sink) as usize) {
                        Some(s) => {
                            s.sent.packets += 1;
                            s.sent.bytes += p.len() as u64;
                            s.leaving.push(p);
                        }
                        None => self.free.push(p),
                    }
                }
            }
        }
        let mut failed = Ok(());
        for (i, s) in self.slots.iter_mut().enumerate() {
            if s.leaving.is_empty() {
                continue;
            }
            if let Some(left) = left {
                add_stayed(&mut s.stayed, &s.leaving, (self.now, left));
            }
            if let Some(tap) = &mut self.tap {
                tap.sent(i, &s.leaving, self.now);
            }
            if let Some(port) = &mut s.port
                && failed.is_ok()
            {
                failed = port.transmit(&mut s.leaving, self.now);
            }
            self.free.append(&mut s.leaving);
        }
        if self.lends {
            give_back(self.free.get_mut(kept..).unwrap_or_default());
        }
        let most = SPARE * self.batch_size;
        if self.free.len() > most {
            self.executor.recycle(self.free.drain(most..));
        }
        failed
    }

    /// The run has ended: elements are told, ports write what they hold.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn finish(&mut self) -> Result<(), PortError> {
        self.executor.graph_mut().finish();
        self.deliver()?;
        for s in &mut self.slots {
            if let Some(p) = &mut s.port {
                p.finish()?;
            }
        }
        Ok(())
    }
}
