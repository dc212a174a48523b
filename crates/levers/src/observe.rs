//! What is seen of processes: their rings' counters and what they say of themselves, as a policy wants it.

use crate::controller::{Shared, Way};
use onefold_nf::{Plan, Purpose, Region, Ring, RingMemory, State, bell, occupancy};
use onefold_sched::{
    ChainSet, Level, MICROSECOND, MILLISECOND, MOST_CHAINS, Nanos, NfView, Watermarks,
};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which chains wait in a ring is found out by so many packets in it.
const LOOKED_AT: u32 = 64;
/// And how often at most: 64 packets are 128 lines that are in another core's cache, some 10 us.
const LOOKED_EVERY: Nanos = 100 * MICROSECOND;

/// Where packets of chains come to is found out by so many packets of each ring,
const WAYS_BY: u32 = 8;
/// and so often.
const WAYS_EVERY: Nanos = MILLISECOND;
/// A chain of which no packet was seen somewhere for so long goes elsewhere.
const WAYS_KEPT: Nanos = 1_000 * MILLISECOND;

/// A counter of 32 bits that runs round, as one of 64.
#[derive(Debug, Clone, Copy, Default)]
struct Wide {
    last: u32,
    all: u64,
}

impl Wide {
    fn of(now: u32) -> Wide {
        Wide { last: now, all: 0 }
    }

    fn go_on(&mut self, now: u32) -> u64 {
        self.all += u64::from(now.wrapping_sub(self.last));
        self.last = now;
        self.all
    }
}

/// A ring, and how far its counters are.
#[derive(Debug)]
struct Seen {
    ring: Ring,
    /// By process number, who puts in.
    from: u32,
    tail: Wide,
    head: Wide,
    full: Wide,
    /// Chains that were found in it, and when.
    queued: (ChainSet, Nanos),
    /// All that ever were.
    met: ChainSet,
}

impl Seen {
    /// Chains that wait in it, if it is full.
    fn chains(&mut self, level: Level, now: Nanos, full: u32) -> ChainSet {
        if !level.at_least(full) {
            self.queued = (0, 0);
        } else if now.saturating_sub(self.queued.1) >= LOOKED_EVERY {
            self.queued = (self.ring.classes(LOOKED_AT).known, now);
            self.met |= self.queued.0;
        }
        self.queued.0
    }

    fn level(&self) -> Level {
        Level {
            occupancy: occupancy(&self.ring),
            capacity: self.ring.places(),
        }
    }
}

#[derive(Debug)]
struct Nf {
    inputs: Vec<Seen>,
    outputs: Vec<Ring>,
    /// Ways that begin here.
    entries: Vec<usize>,
    /// Ways that may come here or not, and when a packet of each was seen here.
    passes: Vec<(usize, Option<Nanos>)>,
    samples: u32,
    /// Batches and packets that it has taken, as of the last look.
    batches: (u64, u64),
}

/// Sees what there is to see; after it was made, nothing is allocated.
#[derive(Debug)]
pub struct Watcher {
    region: Arc<Region>,
    nfs: Vec<Nf>,
    views: Vec<NfView>,
    /// By NF: packets that it had worked on and that found the next ring full.
    wasted: Vec<u64>,
    /// When it was looked for ways.
    ways: Option<Nanos>,
}

/// What a policy wants to see besides counters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Which chains wait in full rings ([`NfView::queued`]).
    pub chains: Option<Watermarks>,
    /// Where chains' packets come to ([`NfView::absent`]).
    pub ways: bool,
}

/// The fuller one.
fn fuller(a: Level, b: Level) -> Level {
    let part = |x: Level, y: Level| u64::from(x.occupancy) * u64::from(y.capacity);
    match a.capacity == 0 || part(b, a) > part(a, b) {
        true => b,
        false => a,
    }
}

impl Nf {
    /// Looks whose packets wait here.
    fn find_ways(&mut self, now: Nanos) {
        // where packets can go no other way nobody asks, and their lines are in another core's cache
        if self.passes.is_empty() {
            return;
        }
        let found = self.inputs.iter().map(|s| s.ring.classes(WAYS_BY));
        let (mut known, mut others) = (0, false);
        for c in found {
            known |= c.known;
            others |= c.others;
        }
        for (way, seen) in &mut self.passes {
            // packets that functions have made or copied are of no chain that is known: they may be of any
            if others || known >> *way & 1 != 0 {
                *seen = Some(now);
            }
        }
    }

    /// Ways that could come here, and have not of late.
    fn absent(&self, now: Nanos) -> ChainSet {
        let of_late =
            |seen: Option<Nanos>| seen.is_some_and(|at| now.saturating_sub(at) < WAYS_KEPT);
        let absent = self.passes.iter().filter(|p| !of_late(p.1));
        absent.fold(0, |all, (way, _)| all | 1 << way)
    }
}

impl Watcher {
    /// Of the processes of this plan, which are NFs 0, 1 ... by their number less one.
    pub fn new(region: &Arc<Region>, plan: &Plan, ways: &[Way]) -> Watcher {
        let rings: Vec<_> = (0u32..)
            .zip(&plan.rings)
            .filter(|(_, r)| r.purpose == Purpose::Packets)
            .filter_map(|(n, r)| Some((r, region.ring(n)?)))
            .collect();
        let nfs: Vec<Nf> = (1..plan.shape.nfs)
            .map(|number| {
                let inputs = rings.iter().filter(|r| r.0.to == number);
                let inputs = inputs.map(|(r, ring)| Seen {
                    tail: Wide::of(ring.tail().load(Ordering::Acquire)),
                    head: Wide::of(ring.head().load(Ordering::Acquire)),
                    full: Wide::of(ring.full().load(Ordering::Relaxed)),
                    ring: ring.clone(),
                    from: r.from,
                    queued: (0, 0),
                    met: 0,
                });
                let outputs = rings.iter().filter(|r| r.0.from == number);
                let here = |w: &Way| w.nfs.first() == Some(&(number as usize - 1));
                let entries = ways.iter().enumerate().filter(|(_, w)| here(w));
                let may = |w: &Way| {
                    w.nfs
                        .iter()
                        .skip(w.certain.max(1))
                        .any(|n| *n == number as usize - 1)
                };
                let passes = ways.iter().take(MOST_CHAINS).enumerate();
                let passes = passes.filter(|(_, w)| may(w));
                Nf {
                    inputs: inputs.collect(),
                    outputs: outputs.map(|r| r.1.clone()).collect(),
                    entries: entries.map(|(i, _)| i).collect(),
                    passes: passes.map(|(i, _)| (i, None)).collect(),
                    samples: 0,
                    batches: (0, 0),
                }
            })
            .collect();
        Watcher {
            region: region.clone(),
            views: vec![NfView::default(); nfs.len()],
            wasted: vec![0; nfs.len()],
            nfs,
            ways: None,
        }
    }

    /// Looks, at this moment. Steps: the rings; if it is wanted which chains wait, 64 packets of each that is half
    /// full, ten thousand times a second at most; if ways are wanted, 8 packets of each ring and the ways, a thousand
    /// times.
    pub fn look(&mut self, shared: &Shared, at: Nanos, wanted: Wanted) -> &[NfView] {
        self.wasted.fill(0);
        let due = |last: Nanos| at.saturating_sub(last) >= WAYS_EVERY;
        let find = wanted.ways && self.ways.is_none_or(due);
        if find {
            self.ways = Some(at);
        }
        for (i, (nf, view)) in self.nfs.iter_mut().zip(&mut self.views).enumerate() {
            let mut now = NfView::default();
            if find {
                nf.find_ways(at);
            }
            now.absent = match (wanted.ways, find) {
                (false, _) => 0,
                (true, true) => nf.absent(at),
                (true, false) => view.absent,
            };
            let mut held = 0;
            for seen in &mut nf.inputs {
                let level = seen.level();
                now.input = fuller(now.input, level);
                let full = seen.full.go_on(seen.ring.full().load(Ordering::Relaxed));
                now.arrived += seen.tail.go_on(seen.ring.tail().load(Ordering::Acquire)) + full;
                now.done += seen.head.go_on(seen.ring.head().load(Ordering::Acquire));
                if let Some(marks) = wanted.chains {
                    now.queued |= seen.chains(level, at, marks.high);
                    match level.at_least(marks.low) {
                        true => held |= seen.met,
                        false => now.relieved |= seen.met,
                    }
                }
                if let Some(w) = (seen.from as usize)
                    .checked_sub(1)
                    .and_then(|from| self.wasted.get_mut(from))
                {
                    *w += full;
                }
            }
            now.relieved &= !held;
            for ring in &nf.outputs {
                let level = Level {
                    occupancy: occupancy(ring),
                    capacity: ring.places(),
                };
                now.output = fuller(now.output, level);
            }
            for way in &nf.entries {
                now.arrived += shared.shed_packets(*way);
            }
            if let Some(block) = self.region.nf(i as u32 + 1) {
                let said = block.said();
                let samples = said.samples.load(Ordering::Acquire);
                if samples != nf.samples {
                    nf.samples = samples;
                    let sample = said.sample.load(Ordering::Relaxed);
                    now.sample = (sample > 0).then_some(sample);
                }
                let (batches, packets) = (
                    said.batches.load(Ordering::Relaxed),
                    said.received.load(Ordering::Relaxed),
                );
                let new = (
                    batches.saturating_sub(nf.batches.0),
                    packets.saturating_sub(nf.batches.1),
                );
                nf.batches = (batches, packets);
                let each = new.1.checked_div(new.0).unwrap_or(0);
                now.batch = u32::try_from(each).unwrap_or(u32::MAX);
                let runs = said.state.load(Ordering::Relaxed) == State::Running as u32;
                let asleep = block.sleeping().load(Ordering::Relaxed) == bell::ASLEEP;
                now.runnable = runs && !asleep;
            }
            *view = now;
        }
        &self.views
    }

    /// As it was seen last.
    pub fn views(&self) -> &[NfView] {
        &self.views
    }

    /// Packets that an NF had worked on and that found the next ring full.
    pub fn wasted(&self, nf: usize) -> u64 {
        self.wasted.get(nf).copied().unwrap_or(0)
    }
}
