//! One thread that takes the packets of all ports, and hands each to the worker whose it is.

use super::QUEUE;
use super::bell::Bell;
use super::check::Check;
use super::patience::Patience;
use super::ring_port::{RingPort, Rings, Told, WorkerEnd};
use crate::live::{LONGEST_SLEEP, Remark, wait_for};
use crate::port::{LinkState, Loss, Port, PortError};
use crate::worker::{STRIDE, give_back};
use nix::poll::PollFlags;
use onefold_packet::{Packet, Pkt, Pool, Timestamp, mempool};
use onefold_partition::{Partition, Target};
use onefold_table::{RingConsumer, RingProducer, spsc_ring};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Packets that are kept for the next ones, in batches.
const SPARE: usize = 8;
/// Of a packet whose worker is behind.
pub(super) const WORKER_FULL: &str = "worker's queue full";
/// Longest sleep while packets are left with a port: not every worker that gets room says so.
const LONGEST_WAIT: Duration = Duration::from_millis(1);

/// A port of the chain's, and what is behind it.
pub struct Entrance {
    /// Its name.
    pub name: String,
    /// Its number among the chain's ports.
    pub at: usize,
    /// Packets come in there, not only leave.
    pub receives: bool,
    /// What is behind it.
    pub port: Box<dyn Port>,
}

/// Where a live port stands that no worker has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveReport {
    /// The chain's port.
    pub name: String,
    /// Its link.
    pub link: LinkState,
    /// What was lost.
    pub losses: Vec<Loss>,
    /// What else was counted.
    pub counters: Vec<(&'static str, u64)>,
}

/// What a dispatcher has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DispatchCounts {
    /// Packets that came in.
    pub received: u64,
    /// Packets handed to workers; copies for all of them count.
    pub dispatched: u64,
    /// Packets whose worker had no room for them.
    pub dropped: u64,
    /// Packets that workers have sent.
    pub sent: u64,
    /// How long packets were left with their port because workers had no room, of all ports together.
    pub waited: Duration,
}

/// The queues of a port and a worker, at the dispatcher.
struct Lane {
    arriving: RingProducer<Pkt>,
    leaving: RingConsumer<Pkt>,
    empty: RingConsumer<Pkt>,
    /// Packets of this batch for the worker.
    staged: Vec<Pkt>,
}

struct Gate {
    entrance: Entrance,
    lanes: Vec<Lane>,
    told: Arc<Told>,
    patience: Patience,
    /// Found the worker's queue full.
    full: u64,
}

impl Gate {
    /// Are packets left with the port, as workers have no room for `n`?
    #[inline]
    fn waits(&mut self, n: usize) -> bool {
        let behind =
            (self.lanes.iter_mut()).fold(0, |all, l| all + usize::from(!l.arriving.has_room(n)));
        (behind > 0 || self.patience.is_waiting())
            && self
                .patience
                .waits(behind, self.lanes.len(), Instant::now())
    }
}

/// See the module's text.
pub struct Dispatcher {
    gates: Vec<Gate>,
    partition: Partition,
    workers: Vec<Arc<WorkerEnd>>,
    bell: Arc<Bell>,
    batch_size: usize,
    /// A port waits for the frames of its packets.
    lends: bool,
    free: Vec<Pkt>,
    /// What `free` has no room for, and copies.
    pool: Pool,
    batch: Vec<Pkt>,
    leaving: Vec<Pkt>,
    /// What has changed about ports, and was not told yet.
    remarks: Vec<Remark>,
    counts: DispatchCounts,
}

/// One queue of a port and a worker: both ends.
fn lane() -> (Lane, Rings) {
    let (to_worker, arriving) = spsc_ring(QUEUE);
    let (from_worker, leaving) = spsc_ring(QUEUE);
    let (back, empty) = spsc_ring(QUEUE);
    let lane = Lane {
        arriving: to_worker,
        leaving,
        empty,
        staged: Vec::new(),
    };
    let rings = Rings {
        arriving,
        leaving: from_worker,
        empty: back,
    };
    (lane, rings)
}

impl Dispatcher {
    /// For so many workers as `partition` has, with batches of so many packets. Also gives, for each worker, what it
    /// has in the place of each entrance. `check`: by what workers look whether packets are theirs, and whether they
    /// look at each.
    ///
    /// # Errors
    /// The system has no descriptors for it.
    pub fn new(
        entrances: Vec<Entrance>,
        partition: Partition,
        check: (&Partition, bool),
        batch: usize,
    ) -> io::Result<(Dispatcher, Vec<Vec<RingPort>>)> {
        let bell = Arc::new(Bell::new()?);
        let ends = (0..partition.workers()).map(|_| WorkerEnd::new().map(Arc::new));
        let workers: Vec<_> = ends.collect::<io::Result<_>>()?;
        let lends = entrances.iter().any(|e| e.port.lends_frames());
        let mut ports: Vec<Vec<RingPort>> = workers.iter().map(|_| Vec::new()).collect();
        let mut gates = Vec::new();
        for entrance in entrances {
            let told = Arc::new(Told::default());
            let mut lanes = Vec::new();
            for (w, (end, ports)) in workers.iter().zip(&mut ports).enumerate() {
                let (lane, rings) = lane();
                let shared = (Arc::clone(end), Arc::clone(&bell), Arc::clone(&told));
                let check = Check::new(check.0.clone(), entrance.at, w, check.1);
                ports.push(RingPort::new(rings, shared, check, lends));
                lanes.push(lane);
            }
            gates.push(Gate {
                entrance,
                lanes,
                told,
                patience: Patience::default(),
                full: 0,
            });
        }
        let batch_size = batch.max(1);
        let dispatcher = Dispatcher {
            gates,
            partition,
            workers,
            bell,
            batch_size,
            lends,
            free: mempool(SPARE * batch_size, STRIDE),
            pool: Pool::new(),
            batch: Vec::new(),
            leaving: Vec::new(),
            remarks: Vec::new(),
            counts: DispatchCounts::default(),
        };
        Ok((dispatcher, ports))
    }

    /// From now on packets arrive.
    ///
    /// # Errors
    /// A device refuses.
    pub fn start(&mut self) -> Result<(), PortError> {
        for g in &mut self.gates {
            g.entrance.port.start(g.entrance.receives)?;
        }
        Ok(())
    }

    /// Sends what workers have put into their queues, a batch of each at most. How many packets that were.
    ///
    /// # Errors
    /// A device is broken.
    pub fn send(&mut self) -> Result<usize, PortError> {
        let mut all = 0;
        for g in &mut self.gates {
            for l in &mut g.lanes {
                l.leaving.take(&mut self.leaving, self.batch_size);
                l.empty.take(&mut self.free, self.batch_size);
            }
            if self.leaving.is_empty() {
                continue;
            }
            all += self.leaving.len();
            let sent = g.entrance.port.transmit(&mut self.leaving, Timestamp::ZERO);
            if self.lends {
                give_back(&mut self.leaving);
            }
            self.free.append(&mut self.leaving);
            sent?;
        }
        self.counts.sent += all as u64;
        let most = SPARE * self.batch_size;
        if self.free.len() > most {
            let pool = &mut self.pool;
            self.free.drain(most..).for_each(|p| pool.recycle(p));
        }
        Ok(all)
    }

    /// Takes a batch from each port, `most` packets at most of all, and hands them over. How many that were. Of ports
    /// whose packets wait for workers ([`Dispatcher::is_waiting`]) nothing is taken.
    ///
    /// # Errors
    /// A device is broken.
    pub fn receive(&mut self, most: usize) -> Result<usize, PortError> {
        let mut left = most;
        for i in 0..self.gates.len() {
            let n = self.batch_size.min(left);
            if n == 0 {
                break;
            }
            self.make_room(n);
            let Some(g) = self.gates.get_mut(i) else {
                break;
            };
            if !g.entrance.receives || g.waits(n) {
                continue;
            }
            g.entrance.port.poll(&mut self.free, &mut self.batch, n)?;
            if !self.batch.is_empty() {
                left -= self.batch.len().min(left);
                self.hand_over(i);
            }
        }
        Ok(most - left)
    }

    /// Buffers for so many packets are in `free`.
    fn make_room(&mut self, n: usize) {
        if self.free.len() < n {
            let missing = n - self.free.len();
            let lent = self.pool.lend(&mut self.free, missing);
            let more = (lent..missing).map(|_| Box::new(Packet::from_slice(&[])));
            self.free.extend(more);
        }
    }

    /// The batch has come in at a port.
    fn hand_over(&mut self, gate: usize) {
        let Some(g) = self.gates.get_mut(gate) else {
            return;
        };
        self.counts.received += self.batch.len() as u64;
        for p in self.batch.drain(..) {
            let first = match self.partition.target(g.entrance.at, p.data()) {
                Target::One(w) => w,
                Target::All => {
                    for l in g.lanes.iter_mut().skip(1) {
                        l.staged.push(self.pool.make(p.data()));
                    }
                    0
                }
            };
            if let Some(l) = g.lanes.get_mut(first) {
                l.staged.push(p);
            }
        }
        for (l, w) in g.lanes.iter_mut().zip(&self.workers) {
            if l.staged.is_empty() {
                continue;
            }
            self.counts.dispatched += l.arriving.push_all(&mut l.staged) as u64;
            w.bell.ring();
            if !l.staged.is_empty() {
                g.full += l.staged.len() as u64;
                self.counts.dropped += l.staged.len() as u64;
                if self.lends {
                    give_back(&mut l.staged);
                }
                self.free.append(&mut l.staged);
            }
        }
    }

    /// Packets are left with a port, as workers have no room for them: more will not come in before a worker has been
    /// executed, so that who calls sleeps ([`Dispatcher::wait`]).
    pub fn is_waiting(&self) -> bool {
        self.gates.iter().any(|g| g.patience.is_waiting())
    }

    /// No packets have come: what waits for room is tried again.
    ///
    /// # Errors
    /// A device is broken.
    pub fn idle(&mut self) -> Result<(), PortError> {
        for g in &mut self.gates {
            if g.entrance.port.backlog() > 0 {
                g.entrance.port.flush()?;
            }
        }
        Ok(())
    }

    /// Sleeps until a packet arrives at a port or comes from a worker, a queue with a backlog has room, or for
    /// [`LONGEST_SLEEP`]; for less where a port cannot tell of packets, or packets wait for workers.
    ///
    /// # Errors
    /// The system cannot wait for the ports' descriptors.
    pub fn wait(&mut self) -> Result<(), PortError> {
        let receiving = |g: &&Gate| g.entrance.receives && !g.patience.is_waiting();
        let blind = self.gates.iter().filter(receiving);
        let blind = blind.filter_map(|g| g.entrance.port.longest_sleep());
        let waiting = self.is_waiting().then_some(LONGEST_WAIT);
        let most = blind.chain(waiting).fold(LONGEST_SLEEP, Duration::min);
        let mut fds: Vec<(usize, BorrowedFd<'_>, PollFlags)> = Vec::new();
        for (i, g) in self.gates.iter().enumerate() {
            let port = &g.entrance.port;
            let input = Some(g).filter(receiving).and_then(|_| port.descriptor());
            let output = port.send_descriptor().filter(|_| port.backlog() > 0);
            fds.extend(input.map(|fd| (i, fd, PollFlags::POLLIN)));
            fds.extend(output.map(|fd| (i, fd, PollFlags::POLLOUT)));
        }
        fds.push((usize::MAX, self.bell.listen(), PollFlags::POLLIN));
        let has = |l: &Lane| !l.leaving.is_empty();
        if self.gates.iter().any(|g| g.lanes.iter().any(has)) {
            self.bell.ring();
        }
        let broken = wait_for(&fds, most);
        self.bell.wake();
        // an error stays readable until somebody has asked for it
        for i in broken? {
            if let Some(g) = self.gates.get_mut(i) {
                self.remarks.extend(attend(g));
            }
        }
        Ok(())
    }

    /// Looks after the ports; workers hear of what has changed, and so does who calls.
    pub fn attend(&mut self) -> Vec<Remark> {
        let mut remarks = std::mem::take(&mut self.remarks);
        remarks.extend(self.gates.iter_mut().filter_map(attend));
        if !remarks.is_empty() {
            self.workers.iter().for_each(|w| w.bell.ring());
        }
        remarks
    }

    /// Nothing more is taken in: sends what workers send until `done` says that they have ended, and what waits for
    /// room then; for `most` in all.
    ///
    /// # Errors
    /// A device is broken.
    pub fn drain(&mut self, most: Duration, done: impl Fn() -> bool) -> Result<(), PortError> {
        self.workers.iter().for_each(|w| w.bell.ring());
        let begun = Instant::now();
        while begun.elapsed() < most {
            let ended = done();
            let sent = self.send()?;
            self.idle()?;
            let waiting: usize = self.gates.iter().map(|g| g.entrance.port.backlog()).sum();
            if ended && sent == 0 && waiting == 0 {
                break;
            }
            if sent == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Ports write what they hold, and close.
    ///
    /// # Errors
    /// They cannot.
    pub fn finish(&mut self) -> Result<(), PortError> {
        // each of them, whatever another one says
        let mut ended = Ok(());
        for g in &mut self.gates {
            ended = ended.and(g.entrance.port.finish());
        }
        ended
    }

    /// What it has done.
    pub fn counts(&self) -> DispatchCounts {
        DispatchCounts {
            waited: self.gates.iter().map(|g| g.patience.waited()).sum(),
            ..self.counts
        }
    }

    /// Where each port stands.
    pub fn reports(&self) -> Vec<LiveReport> {
        let one = |g: &Gate| {
            let mut losses = g.entrance.port.losses();
            if g.full > 0 {
                losses.push(Loss {
                    reason: WORKER_FULL,
                    packets: g.full,
                });
            }
            LiveReport {
                name: g.entrance.name.clone(),
                link: g.entrance.port.link(),
                losses,
                counters: g.entrance.port.counters(),
            }
        };
        self.gates.iter().map(one).collect()
    }
}

/// Looks after a port.
fn attend(g: &mut Gate) -> Option<Remark> {
    let before = g.entrance.port.link();
    let text = g.entrance.port.attend()?;
    let link = g.entrance.port.link();
    g.told.tell(&text, link);
    Some(Remark {
        port: g.entrance.name.clone(),
        text,
        restored: before != LinkState::Up && link == LinkState::Up,
    })
}
