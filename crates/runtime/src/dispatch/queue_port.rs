//! A worker's own queue of a port: what comes there and is another worker's is handed to that one.
//!
//! Devices spread packets over queues by functions of their own, which know nothing of translations. So each worker
//! asks the partition about what its queue has got, and hands over what is not its own by a bounded queue to each of
//! the others. Fragments go to one worker first, which knows of all fragments of their datagram
//! ([`Partition::collector`]).

use super::QUEUE;
use super::bell::Bell;
use super::check::Check;
use super::ending::Ending;
use crate::port::{LinkState, Loss, Port, PortError};
use crate::worker::give_back;
use onefold_packet::{Packet, Pkt, Timestamp};
use onefold_partition::{Partition, Target};
use onefold_table::{RingConsumer, RingProducer, spsc_ring};
use std::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::dispatcher::WORKER_FULL;
use super::ring_port::AT_WRONG_WORKER;
use super::tag::Tags;

/// A port's counter of packets that came to another queue than their worker's.
const HANDED_OVER: &str = "handed over to their worker";

/// A port's counter of frames without one of its tags.
const UNTAGGED: &str = "without one of the tags";

/// What all workers' queues have counted; each port adds what it has done, a batch at a time.
#[derive(Debug, Default)]
pub struct QueueCounts {
    received: AtomicU64,
    handed_over: AtomicU64,
    copied: AtomicU64,
    dropped: AtomicU64,
    untagged: AtomicU64,
}

impl QueueCounts {
    /// Packets that came in.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
    /// Packets handed to another worker, each hop counted.
    pub fn handed_over(&self) -> u64 {
        self.handed_over.load(Ordering::Relaxed)
    }
    /// Packets whose worker had no room for them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
    /// Packets that came without one of the port's tags, where it has some.
    pub fn untagged(&self) -> u64 {
        self.untagged.load(Ordering::Relaxed)
    }
    /// Packets that workers have got: those that came in, copies for all workers, without those that were lost.
    pub fn taken(&self) -> u64 {
        let all = self.received() + self.copied.load(Ordering::Relaxed);
        all.saturating_sub(self.dropped())
    }
}

/// What the workers' queues of all ports have in common.
#[derive(Debug, Clone)]
pub struct Queues {
    partition: Partition,
    /// Looks at every packet ([`Check`]).
    check_all: bool,
    bells: Vec<Arc<Bell>>,
    ending: Arc<Ending>,
    counts: Arc<QueueCounts>,
    /// Packets that may still come in, of so many.
    budget: Option<Arc<AtomicU64>>,
    limit: u64,
}

impl Queues {
    /// For so many workers as `partition` has. `limit`: most packets in all.
    ///
    /// # Errors
    /// The system has no descriptors for it.
    pub fn new(
        partition: Partition,
        check_all: bool,
        ending: Arc<Ending>,
        limit: Option<u64>,
    ) -> io::Result<Queues> {
        let bells = (0..partition.workers()).map(|_| Bell::new().map(Arc::new));
        Ok(Queues {
            bells: bells.collect::<io::Result<_>>()?,
            partition,
            check_all,
            ending,
            counts: Arc::default(),
            budget: limit.map(|n| Arc::new(AtomicU64::new(n))),
            limit: limit.unwrap_or(u64::MAX),
        })
    }

    /// What all have counted.
    pub fn counts(&self) -> Arc<QueueCounts> {
        Arc::clone(&self.counts)
    }

    /// One of the chain's ports, number `at`, of which each worker has a queue: in the place of these, ports that hand
    /// over. `check`: by what workers look whether packets are theirs; `tags`: what frames carry, if they do.
    pub fn port(
        &self,
        at: usize,
        queues: Vec<Box<dyn Port>>,
        check: &Partition,
        tags: Option<Tags>,
    ) -> Vec<QueuePort> {
        let workers = queues.len();
        let lends = queues.iter().any(|q| q.lends_frames());
        let mut peers: Vec<Vec<Option<Peer>>> = (0..workers)
            .map(|_| (0..workers).map(|_| None).collect())
            .collect();
        for a in 0..workers {
            for b in 0..a {
                let (to_b, from_a) = spsc_ring(QUEUE);
                let (to_a, from_b) = spsc_ring(QUEUE);
                let (back_to_b, back_from_a) = spsc_ring(QUEUE);
                let (back_to_a, back_from_b) = spsc_ring(QUEUE);
                let at_a = Peer::new(to_b, from_b, back_to_b, back_from_b);
                let at_b = Peer::new(to_a, from_a, back_to_a, back_from_a);
                for (at, of, peer) in [(a, b, at_a), (b, a, at_b)] {
                    if let Some(place) = peers.get_mut(at).and_then(|all| all.get_mut(of)) {
                        *place = Some(peer);
                    }
                }
            }
        }
        let all = queues.into_iter().zip(peers).enumerate();
        all.map(|(worker, (inner, peers))| QueuePort {
            inner,
            at,
            worker,
            shared: self.clone(),
            peers,
            check: Check::new(check.clone(), at, worker, self.check_all),
            tags,
            lends,
            stopped: false,
            listens: Cell::new(false),
            came: Vec::new(),
            handed_over: 0,
            full: 0,
            untagged: 0,
        })
        .collect()
    }
}

/// The queues between two workers at a port, at one of them.
#[derive(Debug)]
struct Peer {
    to: RingProducer<Pkt>,
    from: RingConsumer<Pkt>,
    /// Buffers for those that came from there.
    back: RingProducer<Pkt>,
    /// Buffers that come back.
    backs: RingConsumer<Pkt>,
    /// Packets of this batch for it.
    staged: Vec<Pkt>,
}

impl Peer {
    fn new(
        to: RingProducer<Pkt>,
        from: RingConsumer<Pkt>,
        back: RingProducer<Pkt>,
        backs: RingConsumer<Pkt>,
    ) -> Peer {
        Peer {
            to,
            from,
            back,
            backs,
            staged: Vec::new(),
        }
    }
}

/// See the module's text.
pub struct QueuePort {
    inner: Box<dyn Port>,
    /// The chain's port.
    at: usize,
    worker: usize,
    shared: Queues,
    /// By worker; `None`: this one.
    peers: Vec<Option<Peer>>,
    check: Check,
    tags: Option<Tags>,
    lends: bool,
    /// Nothing more comes from the device.
    stopped: bool,
    listens: Cell<bool>,
    /// What has come, before it is known whose it is.
    came: Vec<Pkt>,
    handed_over: u64,
    full: u64,
    untagged: u64,
}

impl QueuePort {
    /// Puts a packet that has come here where it belongs: into the batch, or to another worker.
    #[inline]
    fn place(&mut self, p: Pkt, batch: &mut Vec<Pkt>, free: &mut Vec<Pkt>) {
        let partition = &mut self.shared.partition;
        let target = partition.target_from(self.worker, self.at, p.data());
        match target {
            Target::One(w) if w == self.worker => batch.push(p),
            Target::One(w) => match self.peers.get_mut(w) {
                Some(Some(peer)) => peer.staged.push(p),
                _ => batch.push(p),
            },
            Target::All => {
                let mut copied = 0;
                for peer in self.peers.iter_mut().flatten() {
                    let copy = match free.pop() {
                        Some(mut c) => {
                            c.refill(p.data());
                            c
                        }
                        None => Box::new(Packet::from_slice(p.data())),
                    };
                    peer.staged.push(copy);
                    copied += 1;
                }
                add(&self.shared.counts.copied, copied);
                batch.push(p);
            }
        }
    }

    /// Takes what other workers have handed over, up to `n`, and gives buffers back for it.
    fn take_handed(&mut self, free: &mut Vec<Pkt>, batch: &mut Vec<Pkt>, n: usize) {
        for w in 0..self.peers.len() {
            let Some(Some(peer)) = self.peers.get_mut(w) else {
                continue;
            };
            peer.backs.take(free, n);
            let before = self.came.len();
            peer.from.take(&mut self.came, n.saturating_sub(before));
            let owed = (self.came.len() - before).min(free.len());
            if owed > 0 {
                let mut back = free.split_off(free.len() - owed);
                peer.back.push_all(&mut back);
                free.append(&mut back);
            }
        }
        let mut came = std::mem::take(&mut self.came);
        for p in came.drain(..) {
            // fragments that are brought here to be told apart; all else has found its worker
            match self.shared.partition.collector(self.at, p.data()) {
                Some(w) if w == self.worker => self.place(p, batch, free),
                _ => batch.push(p),
            }
        }
        self.came = came;
    }

    /// Takes what the device has got, up to `n`.
    fn take_own(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let n = self.granted(n);
        let mut came = std::mem::take(&mut self.came);
        let polled = self.inner.poll(free, &mut came, n);
        add(&self.shared.counts.received, came.len() as u64);
        self.give_up(n - came.len().min(n));
        self.take_tags_off(&mut came);
        for p in came.drain(..) {
            self.place(p, batch, free);
        }
        self.came = came;
        polled
    }

    /// Frames that have come lose their tags. Whose they are says the partition all the same: who tags may be wrong.
    #[inline]
    fn take_tags_off(&mut self, came: &mut [Pkt]) {
        let Some(tags) = &self.tags else { return };
        let mut without = 0;
        for p in came {
            without += u64::from(tags.take_off(p).is_none());
        }
        self.untagged += without;
        add(&self.shared.counts.untagged, without);
    }

    /// How many of `n` packets may come in.
    #[inline]
    fn granted(&self, n: usize) -> usize {
        let Some(budget) = &self.shared.budget else {
            return n;
        };
        let take = |left: u64| Some(left - left.min(n as u64));
        let before = budget
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .unwrap_or(0);
        usize::try_from(before).unwrap_or(usize::MAX).min(n)
    }

    /// So many of those that were granted have not come.
    #[inline]
    fn give_up(&self, n: usize) {
        if let Some(budget) = &self.shared.budget {
            budget.fetch_add(n as u64, Ordering::Relaxed);
            // what was granted to others may not come
            if self.shared.counts.received() >= self.shared.limit {
                self.shared.ending.ask();
            }
        }
    }

    /// What was put aside for others goes to them.
    fn hand_over(&mut self, free: &mut Vec<Pkt>) {
        let (mut handed, mut full) = (0, 0);
        for (peer, bell) in self.peers.iter_mut().zip(&self.shared.bells) {
            let Some(peer) = peer.as_mut().filter(|p| !p.staged.is_empty()) else {
                continue;
            };
            handed += peer.to.push_all(&mut peer.staged) as u64;
            bell.ring();
            if !peer.staged.is_empty() {
                full += peer.staged.len() as u64;
                if self.lends {
                    give_back(&mut peer.staged);
                }
                free.append(&mut peer.staged);
            }
        }
        if handed + full > 0 {
            self.handed_over += handed;
            self.full += full;
            add(&self.shared.counts.handed_over, handed);
            add(&self.shared.counts.dropped, full);
        }
    }

    /// Is nothing handed over that waits here?
    fn is_quiet(&self) -> bool {
        self.peers.iter().flatten().all(|p| p.from.is_empty())
    }
}

#[inline]
fn add(to: &AtomicU64, n: u64) {
    if n > 0 {
        to.fetch_add(n, Ordering::Relaxed);
    }
}

impl Port for QueuePort {
    /// A live port has no packets of which it knows when they come.
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}

    fn is_live(&self) -> bool {
        true
    }

    fn lends_frames(&self) -> bool {
        self.lends
    }

    fn start(&mut self, receives: bool) -> Result<(), PortError> {
        self.inner.start(receives)
    }

    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        if self.listens.replace(false)
            && let Some(bell) = self.shared.bells.get(self.worker)
        {
            bell.wake();
        }
        let before = batch.len();
        // what comes by hand is at most half of what there is room for, so that nobody keeps the device waiting
        let by_hand = n.div_ceil(2);
        self.take_handed(free, batch, by_hand);
        let left = n - (batch.len() - before).min(n);
        let own = match self.stopped {
            true => Ok(()),
            // buffers may have gone back
            false => self.take_own(free, batch, left.min(free.len())),
        };
        self.hand_over(free);
        self.check.came(batch.get(before..).unwrap_or_default());
        own
    }

    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        self.check.leave(packets);
        self.inner.transmit(packets, now)
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.inner.stop();
    }

    fn has_more(&self) -> bool {
        !self.is_quiet()
    }

    fn backlog(&self) -> usize {
        self.inner.backlog()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.inner.flush()
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    /// The worker is about to sleep.
    fn wake_descriptor(&self) -> Option<BorrowedFd<'_>> {
        let bell = self.shared.bells.get(self.worker)?;
        self.listens.set(true);
        let fd = bell.listen();
        if !self.is_quiet() {
            bell.ring();
        }
        Some(fd)
    }

    fn longest_sleep(&self) -> Option<std::time::Duration> {
        self.inner.longest_sleep()
    }

    fn send_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.send_descriptor()
    }

    fn attend(&mut self) -> Option<String> {
        self.inner.attend()
    }

    fn link(&self) -> LinkState {
        self.inner.link()
    }

    fn losses(&self) -> Vec<Loss> {
        let mut all = self.inner.losses();
        if self.full > 0 {
            all.push(Loss {
                reason: WORKER_FULL,
                packets: self.full,
            });
        }
        all
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.inner.counters();
        let own = [
            (HANDED_OVER, self.handed_over),
            (UNTAGGED, self.untagged),
            (AT_WRONG_WORKER, self.check.wrong),
        ];
        all.extend(own.into_iter().filter(|c| c.1 > 0));
        all
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.inner.finish()
    }
}
