//! Which level takes the packets of an entry port: what each of them costs is measured, and the cheapest one is taken.
//!
//! A batch in [`Pace::timed`] packets is timed. The levels that are not in use are *probed* now and then: some thousand packets go there, each
//! batch timed.
//!
//! - In a long window in which next to nothing was known, looking up is in vain whatever it costs: packets go to program or
//!   reference graph, whichever is cheaper, for [`REST`] windows; twice as long each time that it was no better behind it, up to eight times. A batch now and then
//!   is looked up meanwhile, as a sample ([`SAMPLED`]): where flows of the table come back, the rest ends at once; and so it does, somewhat later, where new
//!   flows last, which samples remember as any look-up does.
//! - Where some are known and many are not, what is dearer depends on the chain: a look-up that fails and a flow that is remembered for one more packet
//!   cost, and a packet that is known saves what the program would have needed. The others are probed after two such windows, and
//!   again much later ([`FRESH`]).
//! - Where most are known, hardly anything is faster than the table: the others are probed after the first window, and ever more seldom the more they cost.

use crate::level::Level;
use std::time::Duration;

/// Windows without a look-up, after a long one in which next to nothing was known, or with which something else was cheaper.
pub(crate) const REST: u32 = 15;
/// After so many long windows in a row in which next to nothing was known, rests do not get longer any more: each is twice as long as the one before.
const DOUBLED: u32 = 3;
/// While packets of a table in which next to nothing was known go elsewhere: so many of them for each batch that is looked up all the same. Neither
/// its code nor its memory is in the caches then, and a packet costs several times as much as in the program.
pub(crate) const SAMPLED: u32 = 16_384;
/// So many packets looked up as samples say whether that is still so.
pub(crate) const SAMPLE: u32 = 512;
/// Long windows until what the others cost is measured again.
const FRESH: u32 = 32;
/// The same where they cost more than twice as much, at most.
const SELDOM: u32 = 64 * FRESH;
/// Less than this, in costs of packets with the table, is cheaper.
const CHEAPER: f32 = 0.97;
/// Batches of a probe that are not counted: caches have something else in them.
const COLD: u32 = 2;

/// Packets, and those that were known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Share {
    pub looked_up: u32,
    pub known: u32,
}

impl Share {
    /// Counts some more; at the end of a window of so many, all of it.
    #[inline]
    pub fn count(&mut self, looked_up: usize, known: u64, window: u32) -> Option<Share> {
        self.looked_up = self.looked_up.saturating_add(looked_up as u32);
        self.known = self.known.saturating_add(known as u32);
        (self.looked_up >= window).then(|| std::mem::take(self))
    }
}

/// How fast is learnt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Packets of a short window, and the least of a long one.
    pub window: u32,
    /// Long windows are of so many packets, whatever the size of the table.
    pub long: Option<u32>,
    /// One batch for so many packets is timed.
    pub timed: u32,
    /// Packets that go to a level for comparison.
    pub probe: u32,
    /// Long windows without a look-up, where that is in vain or something else is cheaper.
    pub rest: u32,
    /// While the table is not asked since next to nothing was known: so many packets for each batch that is looked up all the same.
    pub sampled: u32,
}

impl Pace {
    /// What costs least in the long run.
    pub const USUAL: Pace = Pace {
        window: 4096,
        long: None,
        timed: 512,
        probe: 8192,
        rest: REST,
        sampled: SAMPLED,
    };
    /// Every choice within some thousand packets: for comparisons.
    pub const HASTY: Pace = Pace {
        window: 96,
        long: Some(200),
        timed: 16,
        probe: 48,
        rest: 1,
        sampled: 64,
    };
}

/// Nanoseconds per packet: a mean in which the last timed batches weigh most.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    ns: f32,
    batches: u32,
}

impl Cost {
    fn add(&mut self, ns: f32) {
        self.batches = self.batches.saturating_add(1);
        // a thread that was put aside within a batch says nothing about packets
        let ns = if self.batches > 4 {
            ns.min(8.0 * self.ns)
        } else {
            ns
        };
        self.ns += (ns - self.ns) / self.batches.min(64) as f32;
    }
}

/// What a long window of packets that were looked up says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Next to nothing was known.
    Unknown,
    /// Some, and many were not.
    Mixed,
    /// Most.
    Known,
}

/// What is measured, and what for.
#[derive(Debug, Clone, Copy)]
struct Probe {
    level: Level,
    left: u32,
    /// Batches so far.
    batches: u32,
    /// The table is not worth it, whatever the others cost: packets go elsewhere for so many.
    rest: Option<u32>,
}

/// See the module's text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelChoice {
    pace: Pace,
    /// The reference graph may be chosen, too, and whatever is cheaper than a table that knows most packets.
    pub(crate) open: bool,
    /// Packets of a long window.
    window: u32,
    costs: [Cost; 3],
    /// Where packets go while the table is not asked, and for how many of them it is not.
    away: Level,
    pub(crate) rest: u32,
    /// Long windows in a row in which next to nothing was known.
    pub(crate) calm: u32,
    /// The rest is one behind such a window: batches are looked up as samples, the present one, too.
    sampled: bool,
    pub(crate) sampling: bool,
    sample: Share,
    /// Packets since the last sample.
    unsampled: u32,
    /// Packets since a batch was timed.
    untimed: u32,
    probe: Option<Probe>,
    /// Long windows in a row with many unknown packets, and since the others were measured.
    mixed: u32,
    age: u32,
    /// Long windows until they are measured again where most packets are known.
    wait: u32,
}

impl LevelChoice {
    /// With long windows of so many packets.
    pub fn new(window: u32, pace: Pace) -> LevelChoice {
        LevelChoice {
            pace,
            open: true,
            window,
            costs: [Cost::default(); 3],
            away: Level::Program,
            rest: 0,
            calm: 0,
            sampled: false,
            sampling: false,
            sample: Share::default(),
            unsampled: 0,
            untimed: 0,
            probe: None,
            mixed: 0,
            age: FRESH,
            wait: FRESH,
        }
    }

    fn cost(&self, l: Level) -> Cost {
        self.costs[l as usize]
    }

    /// Is the next batch, of so many packets, to be timed?
    #[inline]
    pub fn times(&mut self, packets: usize) -> bool {
        self.untimed = self.untimed.saturating_add(packets as u32);
        let yes = self.untimed >= self.pace.timed || self.probe.is_some();
        if yes {
            self.untimed = 0;
        }
        yes
    }

    /// A batch of so many packets took so long at this level.
    pub fn took(&mut self, level: Level, packets: usize, time: Duration) {
        // a sample's code and memory were not asked for in a long time
        if level == Level::Flow && self.rest > 0 {
            return;
        }
        if let Some(p) = self.probe.as_mut().filter(|p| p.level == level) {
            p.batches += 1;
            if p.batches <= COLD {
                return;
            }
        }
        let ns = (time.as_secs_f32() * 1e9) / packets.max(1) as f32;
        self.costs[level as usize].add(ns);
    }

    /// The cheaper one of those that do not look up, and what it costs, as far as that is known.
    fn cheaper(&self) -> (Level, Option<f32>) {
        let [reference, program, _] = self.costs;
        let known = |c: Cost| (c.batches > 0).then_some(c.ns);
        match (known(reference), known(program)) {
            (Some(r), Some(p)) if r < p * CHEAPER => (Level::Reference, Some(r)),
            (_, p) => (Level::Program, p),
        }
    }

    /// Is it cheaper than the table?
    fn cheaper_than_flow(&self) -> bool {
        let flow = self.cost(Level::Flow);
        (self.cheaper().1).is_some_and(|ns| flow.batches > 0 && ns < flow.ns * CHEAPER)
    }

    /// Which level takes the next batch, of so many packets?
    #[inline]
    pub fn next(&mut self, packets: usize) -> Level {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        if let Some(level) = self.probing(packets) {
            return level;
        }
        self.sampling = false;
        if self.rest == 0 {
            return Level::Flow;
        }
        self.rest = self.rest.saturating_sub(packets);
        if self.sampled {
            self.unsampled = self.unsampled.saturating_add(packets);
            if self.unsampled >= self.pace.sampled {
                (self.unsampled, self.sampling) = (0, true);
                return Level::Flow;
            }
        }
        self.away
    }

    /// The level that is being measured, if one is.
    #[inline]
    fn probing(&mut self, packets: u32) -> Option<Level> {
        let p = self.probe.as_mut()?;
        if p.left == 0 {
            self.measured();
        }
        let p = self.probe.as_mut()?;
        p.left = p.left.saturating_sub(packets);
        Some(p.level)
    }

    /// A level has been measured: the next one, or what follows from it.
    #[cold]
    fn measured(&mut self) {
        let Some(p) = self.probe.take() else { return };
        if p.level == Level::Program && self.open {
            return self.measure(Level::Reference, p.rest);
        }
        self.age = 0;
        let (away, ns) = self.cheaper();
        self.away = away;
        if let Some(rest) = p.rest {
            return self.go_away(rest, true);
        }
        if self.cheaper_than_flow() {
            self.wait = FRESH;
            return self.go_away(self.pace.rest * self.window, false);
        }
        // the dearer, the more seldom
        let dear = ns.is_some_and(|ns| ns > 2.0 * self.cost(Level::Flow).ns);
        self.wait = if dear {
            (self.wait * 2).min(SELDOM)
        } else {
            FRESH
        };
    }

    #[cold]
    fn measure(&mut self, level: Level, rest: Option<u32>) {
        self.costs[level as usize] = Cost::default();
        self.probe = Some(Probe {
            level,
            left: self.pace.probe,
            batches: 0,
            rest,
        });
    }

    /// Packets are not looked up for so many.
    fn go_away(&mut self, packets: u32, sampled: bool) {
        (self.rest, self.sampled) = (packets, sampled);
        (self.sample, self.unsampled) = (Share::default(), 0);
        // what is measured next is not of before
        self.costs[Level::Flow as usize] = Cost::default();
    }

    /// So many of a sample were looked up, and so many of them were known.
    pub fn sampled(&mut self, looked_up: usize, known: u64) {
        self.sampling = false;
        // twice as many as would have begun it: what is little known stays at rest
        if let Some(s) = self.sample.count(looked_up, known, SAMPLE)
            && s.known > s.looked_up / 8
        {
            (self.rest, self.calm) = (0, 0);
        }
    }

    /// A long window has ended.
    pub fn window_ended(&mut self, verdict: Verdict) {
        self.age = self.age.saturating_add(1);
        self.calm = match verdict {
            Verdict::Unknown => self.calm.saturating_add(1),
            _ => 0,
        };
        self.mixed = match verdict {
            Verdict::Known => 0,
            _ => self.mixed.saturating_add(1),
        };
        match verdict {
            Verdict::Unknown => {
                let doubled = (self.calm - 1).min(DOUBLED);
                let rest = (self.pace.rest * self.window).saturating_mul(1 << doubled);
                self.measure(Level::Program, Some(rest));
            }
            Verdict::Mixed if self.mixed < 2 => {}
            Verdict::Mixed if self.age >= FRESH => self.measure(Level::Program, None),
            Verdict::Known if !self.open => {}
            Verdict::Known if self.age >= self.wait => self.measure(Level::Program, None),
            _ if self.cheaper_than_flow() => {
                self.away = self.cheaper().0;
                self.go_away(self.pace.rest * self.window, false);
            }
            _ => {}
        }
    }
}
