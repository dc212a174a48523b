//! The measurement: subjects in alternation, slice by slice, on one core.

use super::aim::Lane;
use super::clock::Times;
use super::feed::{Order, Ring};
use super::seen::{Batches, Seen};
use super::subject::{Account, Ceiling, MacSwap, Subject};
use super::unseen_frames::{PREPARED, UnseenFrames};
use onefold_engine::flow::FlowStats;
use onefold_packet::{Packet, Pkt, Timestamp, refill_lines};
use onefold_table::prefetch;
use std::cell::Cell;
use std::collections::HashMap;

/// Time of the chain's clock from one packet to the next, in nanoseconds: 64-byte frames at 10 Gb/s.
const PACKET_NS: i64 = 67;
/// Packets between two looks at the clock: at first, and at most.
const BLOCK: (u64, u64) = (256, 1 << 16);
/// A block is to take about so long, in nanoseconds.
const BLOCK_NS: u64 = 1_000_000;
/// A flow table remembers a flow when it has come so often.
const MEETINGS: u64 = 5;
/// Of a slice's time, so long it is looked at afterwards, with the clock stopped, which packets come out.
const AUDIT: f64 = 0.1;
/// Of a slice's time, so much runs before the clock starts: the part that finds the caches full of another subject's
/// data.
const RUN_UP: f64 = 0.1;

/// How it is measured.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Settings {
    /// Buffers that packets are copied to, in turn.
    pub buffers: usize,
    /// Seconds of each slice.
    pub seconds: f64,
    /// Slices of each subject.
    pub repeats: usize,
}

/// What is measured on the same packets: a chain in one or several modes.
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Executions of it.
    pub subjects: Vec<Box<dyn Subject>>,
    /// Packets, by direction.
    pub lanes: Vec<Lane>,
    /// The chain's time when the clock starts.
    pub start: Timestamp,
    /// Packets that are handed over together.
    pub batch: usize,
    /// Skew of flows.
    pub zipf: f64,
    /// Seed of the order.
    pub seed: u64,
    /// Before the first packet and after so many (up to a batch more), rewriters forget their flows: what is made next
    /// finds room. It takes no time that is measured. Never if it is not said.
    pub room: Option<u64>,
}

/// One slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Sample {
    /// Packets sent.
    pub packets: u64,
    /// Processor time of the thread, nanoseconds per packet.
    pub ns: f64,
    /// Time on the wall, nanoseconds per packet.
    pub wall_ns: f64,
    /// The ceiling in the same round.
    pub ceiling_ns: f64,
    /// The MAC swap in the same round.
    pub mac_swap_ns: f64,
}

/// What was measured of one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Which candidate it is of.
    pub candidate: usize,
    /// The candidate's name and the subject's.
    pub name: (String, &'static str),
    /// One for each round.
    pub samples: Vec<Sample>,
    /// Packets sent while the clock ran and before it, warm-up included.
    pub offered: u64,
    /// Of these, packets of flows that had not been opened.
    pub strangers: u64,
    /// Flows that the packets are of that were sent while the clock ran (answers and strangers left out).
    pub flows_seen: usize,
    /// Packets that a flow table knew while the clock ran, and all that it was given then.
    pub flow_hits: Option<(u64, u64)>,
    /// Of the flows that had been opened, beside strangers: packets that were looked after, and those of them that came
    /// out.
    pub opened: Option<(u64, u64)>,
    /// What became of these.
    pub account: Account,
    /// Is every packet accounted for, and has the subject taken those that were sent to it?
    pub conserved: bool,
    /// Traffic classes that took packets.
    pub classes_hit: Option<usize>,
    /// What its flow table has done, warm-up included, and why packets that could have had an entry have none.
    pub flow: Option<(FlowStats, Vec<(&'static str, u64)>)>,
}

/// What came of a measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// Every candidate's subjects, in order.
    pub measured: Vec<Measured>,
    /// Slices in the order in which they were measured: candidate and subject.
    pub order: Vec<(String, &'static str)>,
    /// Rounds that were finished.
    pub rounds: usize,
    /// It was stopped early.
    pub interrupted: bool,
}

/// Where a subject is in its packets.
struct Place {
    next: Vec<usize>,
    lane: usize,
    now: Timestamp,
    offered: u64,
    block: u64,
    /// Unseen packets sent: the number of the next one.
    strange: u64,
    /// Packets sent since flows were forgotten; none yet if they are to be before the first.
    since: Option<u64>,
}

impl Place {
    fn new(lanes: usize, start: Timestamp) -> Place {
        Place {
            next: vec![0; lanes],
            lane: 0,
            now: start,
            offered: 0,
            block: BLOCK.0,
            strange: 0,
            since: None,
        }
    }
}

/// Copies frames of any length.
fn refill(packets: &mut [Pkt], lane: &Lane, these: &[u32], ahead: &[u32], at: Timestamp) {
    for which in ahead {
        if let Some(first) = lane.templates.get(*which as usize).first() {
            prefetch(first);
        }
    }
    for (p, which) in packets.iter_mut().zip(these) {
        p.refill(lane.templates.get(*which as usize));
        p.anno.timestamp = at;
    }
}

/// A lane's packets on their way to a subject.
struct Way<'a> {
    lane: &'a Lane,
    order: &'a Order,
    unseen: Option<UnseenFrames<'a>>,
}

impl Way<'_> {
    /// The templates of the batch that begins at a place, which becomes the place of the next one; after the last, the
    /// first comes again. An order is longer than any batch.
    fn window(&self, next: &mut usize, batch: usize) -> Option<&[u32]> {
        let places = self.order.places();
        if places.get(*next..*next + batch).is_none() {
            *next = 0;
        }
        let these = places.get(*next..*next + batch);
        *next += batch;
        these
    }
}

/// Sends packets.
struct Driver<'a> {
    ring: &'a mut Ring,
    batch: usize,
    /// Packets of opened flows are looked after: how many, and how many of them came out.
    audit: Option<(u64, u64)>,
    /// Buffers of a batch's packets of opened flows.
    theirs: Vec<*const Packet>,
    /// After so many packets all flows are forgotten.
    room: Option<u64>,
}

/// Where a packet is: it leaves in the buffer that it came in.
fn place_of(p: &Pkt) -> *const Packet {
    &**p
}

impl Driver<'_> {
    /// So many packets in batches; returns how many were sent, time measured around all of it: copies and outputs are
    /// part.
    fn block(
        &mut self,
        s: &mut dyn Subject,
        lanes: &mut [Way<'_>],
        place: &mut Place,
        packets: u64,
    ) -> (u64, Times) {
        let begun = Times::now();
        let mut sent = 0;
        while sent < packets {
            let Some(way) = lanes.get_mut(place.lane) else {
                break;
            };
            let Some(next) = place.next.get_mut(place.lane) else {
                break;
            };
            if way.unseen.is_some() {
                // headers that nobody has seen lead all over a chain's memory
                self.ring.ask();
            }
            // a ring has two racks or more
            let Some((packets, done)) = self.ring.turn(|to, n| s.buffers(to, n)) else {
                break;
            };
            if let Some(e) = &mut way.unseen {
                e.fill(packets, place.now);
            }
            let Some(these) = way.window(next, self.batch) else {
                break;
            };
            let lane = way.lane;
            if way.unseen.is_none() {
                // packets that come next are asked for while nothing waits for them. Loads would be waited for in the
                // end: with 60,000 templates half of the time of this loop
                let ahead = way.window(&mut { *next }, self.batch).unwrap_or_default();
                match lane.templates.lines() {
                    // most benchmarks: short frames, all of one length
                    Some((lines, len)) => {
                        refill_lines(packets, lines, len, (these, ahead), place.now);
                    }
                    None => refill(packets, lane, these, ahead, place.now),
                }
            }
            let n = packets.len();
            if let (Some(_), Some(s)) = (self.audit, &lane.strangers) {
                let own = packets.iter().zip(these);
                let own = own.filter(|(_, which)| (**which as usize) < s.known);
                self.theirs.clear();
                self.theirs.extend(own.map(|(p, _)| place_of(p)));
            }
            s.run(lane.source, packets, place.now, done);
            if let (Some((sent, out)), Some(_)) = (&mut self.audit, &lane.strangers) {
                let came = |p: &&Pkt| self.theirs.contains(&place_of(p));
                *sent += self.theirs.len() as u64;
                *out += done.iter().filter(came).count() as u64;
            }
            place.now = place.now + Timestamp(PACKET_NS * n as i64);
            place.lane += 1;
            if place.lane == lanes.len() {
                place.lane = 0;
            }
            sent += n as u64;
        }
        place.offered += sent;
        place.since = place.since.map(|n| n + sent);
        (sent, Times::now().since(begun))
    }

    /// Writes the frames of a block's strangers.
    fn prepare(&self, lanes: &mut [Way<'_>], place: &mut Place, packets: u64) {
        lanes
            .iter_mut()
            .filter_map(|w| w.unseen.as_mut())
            .for_each(UnseenFrames::clear);
        let mut next = place.next.clone();
        for n in 0..packets.div_ceil(self.batch as u64) as usize {
            let lane = (place.lane + n) % lanes.len().max(1);
            let (Some(way), Some(next)) = (lanes.get_mut(lane), next.get_mut(lane)) else {
                break;
            };
            let Some(mut e) = way.unseen.take() else {
                continue;
            };
            if let Some(these) = way.window(next, self.batch) {
                e.write(these, &mut place.strange);
            }
            way.unseen = Some(e);
        }
    }

    /// How many packets of a block may be sent before flows are forgotten; sees to that, if none may.
    fn allowed(&self, s: &mut dyn Subject, place: &mut Place) -> u64 {
        let Some(room) = self.room else {
            return place.block;
        };
        let left = place.since.map_or(0, |n| room.saturating_sub(n));
        if left > 0 {
            return place.block.min(left);
        }
        s.forget();
        place.since = Some(0);
        place.block.min(room.max(1))
    }

    /// Runs for so long (processor time), at least `packets` packets. `None` if it was stopped before half of it.
    fn slice(
        &mut self,
        s: &mut dyn Subject,
        lanes: &mut [Way<'_>],
        place: &mut Place,
        seconds: f64,
        packets: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<(u64, Times)> {
        let wanted = (seconds * 1e9) as u64;
        let begun = Times::now();
        let mut all = Times::default();
        let mut sent = 0;
        let mut paused = 0;
        // Bound: each block takes time, and the clock goes forward.
        while all.cpu_ns.max(all.wall_ns / 64) < wanted || sent < packets {
            let pause = Times::now();
            let mut block = self.allowed(s, place);
            if lanes.iter().any(|w| w.unseen.is_some()) {
                block = block.min(PREPARED);
                self.prepare(lanes, place, block);
            }
            paused += Times::now().since(pause).wall_ns;
            let (n, t) = self.block(s, lanes, place, block);
            sent += n;
            all.cpu_ns += t.cpu_ns;
            // between blocks, too: a thread whose share of the core is used up sleeps where its clock is read
            all.wall_ns = (Times::now().since(begun).wall_ns).saturating_sub(paused);
            if t.cpu_ns < BLOCK_NS / 2 && block == place.block {
                place.block = (place.block * 2).min(BLOCK.1);
            } else if t.cpu_ns > BLOCK_NS * 2 {
                place.block = (place.block / 2).max(BLOCK.0);
            }
            if !go_on() {
                return (all.cpu_ns >= wanted / 2 && sent > 0).then_some((sent, all));
            }
            if n == 0 {
                return None;
            }
        }
        Some((sent, all))
    }
}

/// Measures all candidates: in each round, for each candidate, the ceiling, a MAC swap, and its subjects. `go_on` is
/// told between blocks how much of how much is done and of what, and stops it by saying no.
pub fn alternate(
    candidates: &mut [Candidate],
    settings: &Settings,
    go_on: &mut dyn FnMut(u64, u64, &str) -> bool,
) -> Outcome {
    let longest = candidates.iter().flat_map(|c| &c.lanes);
    let longest = longest.map(|l| l.templates.longest()).max().unwrap_or(0);
    // the same buffers for all that have batches of one size
    let mut rings: HashMap<usize, Ring> = HashMap::new();
    let orders: Vec<Vec<Order>> = candidates
        .iter()
        .map(|c| {
            let order = |(i, l): (usize, &Lane)| {
                let seed = c.seed.wrapping_add(i as u64);
                match &l.strangers {
                    None => Order::new(&l.templates, c.zipf, seed),
                    Some(s) => Order::mixed(&l.templates, s.known, s.share, c.zipf, seed),
                }
            };
            c.lanes.iter().enumerate().map(order).collect()
        })
        .collect();
    let (mut ceiling, mut swap) = (Ceiling::default(), MacSwap::default());
    let mut out = Outcome::default();
    let mut places: HashMap<(usize, usize), Place> = HashMap::new();
    let mut samples: HashMap<(usize, usize), Vec<Sample>> = HashMap::new();
    let mut before: HashMap<(usize, usize), Account> = HashMap::new();
    let mut opened: HashMap<(usize, usize), (u64, u64)> = HashMap::new();
    let mut seen: HashMap<(usize, usize), Seen> = HashMap::new();
    let subjects: usize = candidates.iter().map(|c| c.subjects.len() + 2).sum();
    let total = (subjects * (settings.repeats + 1)) as u64;
    let done = Cell::new(0);
    // the ceiling needs less time to show its figure, but its caches have to be as warm
    let short = settings.seconds / 4.0;
    // round 0 warms up: every flow is met at least once, and so often that a flow table remembers it
    'rounds: for round in 0..=settings.repeats {
        let warm_up = round == 0;
        for (ci, c) in candidates.iter_mut().enumerate() {
            let mut lanes: Vec<Way<'_>> = (c.lanes.iter())
                .zip(orders.get(ci).into_iter().flatten())
                .map(|(lane, order)| Way {
                    lane,
                    order,
                    unseen: (lane.strangers.as_ref())
                        .map(|s| UnseenFrames::new(s, &lane.templates)),
                })
                .collect();
            let every = c.lanes.iter().map(|l| l.templates.len()).max().unwrap_or(0);
            let every = (every * c.lanes.len()) as u64;
            let mut base = [0.0; 2];
            let batch = c.batch.max(1);
            let ring = rings
                .entry(batch)
                .or_insert_with(|| Ring::new(settings.buffers.max(batch), batch, longest));
            let mut driver = Driver {
                ring,
                batch,
                audit: None,
                theirs: Vec::new(),
                room: c.room,
            };
            for si in 0..c.subjects.len() + 2 {
                let (s, seconds): (&mut dyn Subject, f64) = match si {
                    0 => (&mut ceiling, short),
                    1 => (&mut swap, short),
                    i => match c.subjects.get_mut(i - 2) {
                        Some(s) => (&mut **s, settings.seconds),
                        None => continue,
                    },
                };
                let name = s.name();
                let told = format!("{} {name}", c.name);
                let mut tell = || go_on(done.get(), total, &told);
                let place = places
                    .entry((ci, si))
                    .or_insert_with(|| Place::new(c.lanes.len(), c.start));
                before.entry((ci, si)).or_insert_with(|| s.account());
                let meetings = if s.flow_stats().is_some() {
                    MEETINGS
                } else {
                    1
                };
                let (run_up, packets) = match warm_up {
                    true => (
                        (seconds / 4.0).max(s.settles().as_secs_f64()),
                        every * meetings,
                    ),
                    false => (seconds * RUN_UP, 0),
                };
                if driver
                    .slice(s, &mut lanes, place, run_up, packets, &mut tell)
                    .is_none()
                {
                    out.interrupted = true;
                    break 'rounds;
                }
                done.set(done.get() + 1);
                if warm_up {
                    continue;
                }
                let table = s.flow_stats().map(|f| f.0);
                let from = (place.next.first().copied().unwrap_or(0), place.lane);
                let Some((n, t)) = driver.slice(s, &mut lanes, place, seconds, 0, &mut tell) else {
                    out.interrupted = true;
                    break 'rounds;
                };
                if let (2.., Some(first)) = (si, lanes.first()) {
                    let seen = seen.entry((ci, si)).or_default();
                    let batches = n / batch as u64;
                    let these = Batches::of_first(from.0, from.1, lanes.len(), batches, batch);
                    seen.mark(first.lane, first.order, these);
                    seen.table(table, s.flow_stats().map(|f| f.0));
                }
                out.order.push((c.name.clone(), name));
                let ns = t.cpu_ns as f64 / n as f64;
                if let Some(b) = base.get_mut(si) {
                    *b = ns;
                    continue;
                }
                if lanes.iter().any(|w| w.unseen.is_some()) {
                    let opened = opened.entry((ci, si)).or_insert((0, 0));
                    driver.audit = Some(*opened);
                    let whole = driver.slice(s, &mut lanes, place, seconds * AUDIT, 0, &mut tell);
                    *opened = driver.audit.take().unwrap_or_default();
                    if whole.is_none() {
                        out.interrupted = true;
                        break 'rounds;
                    }
                }
                samples.entry((ci, si)).or_default().push(Sample {
                    packets: n,
                    ns,
                    wall_ns: t.wall_ns as f64 / n as f64,
                    ceiling_ns: base[0],
                    mac_swap_ns: base[1],
                });
            }
        }
        out.rounds = round;
    }
    for (ci, c) in candidates.iter().enumerate() {
        for (i, s) in c.subjects.iter().enumerate() {
            let key = (ci, i + 2);
            let now = s.account();
            let account = now.since(before.get(&key).copied().unwrap_or(now));
            let offered = places.get(&key).map_or(0, |p| p.offered);
            out.measured.push(Measured {
                candidate: ci,
                name: (c.name.clone(), s.name()),
                samples: samples.remove(&key).unwrap_or_default(),
                offered,
                strangers: places.get(&key).map_or(0, |p| p.strange),
                flows_seen: seen.get(&key).map_or(0, Seen::flows),
                flow_hits: seen.get(&key).map(|s| s.table).filter(|t| t.1 > 0),
                opened: opened.get(&key).copied().filter(|o| o.0 > 0),
                account,
                conserved: now.balanced() && account.packets_in == offered,
                classes_hit: s.classes_hit(),
                flow: s.flow_stats(),
            });
        }
    }
    out
}
