//! Which level when: what is learnt from how many packets were known.
//!
//! Looking up packets that are never known, and remembering flows that never come again, costs without return. So the packets of each
//! entry port are counted in windows:
//!
//! - Where fewer than three of four were known, a flow is remembered from its second packet on, not from its first ([`Once`]): a flood of
//!   single packets makes no entries.
//! - Where fewer than one of sixteen was known in a long window, packets go to the program at once, batch by batch, for [`REST`] windows as long as
//!   that one. It is long enough for every flow that the table has room for to come twice: in a short one, many flows that all
//!   come again look as those that never do. If the next long window is no better, the rest behind it is twice as long, up to eight times.
//!   A batch now and then is looked up meanwhile, as a sample ([`SAMPLED`]): where flows of the table come back, the rest ends at once; and so it does, somewhat
//!   later, where new flows last, which samples remember as any look-up does.
//! - In between, where some are known and many are not, what is dearer depends on the chain: a look-up that fails and a flow that is remembered for one
//!   more packet cost, and a packet that is known saves what the program would have needed. So it is measured: a batch in 512 packets is timed, and
//!   after two long windows with fewer than three of four known, a few thousand packets go to the program for comparison. If they are
//!   cheaper, those of the next windows follow; if not, it is tried again much later.

use onefold_packet::{Roomy, prefetch, spread};
use std::time::Duration;

/// Packets of a short window.
const WINDOW: u32 = 4096;
/// Windows without a look-up, after a long one in which next to nothing was known.
const REST: u32 = 15;
/// After so many long windows in a row in which next to nothing was known, rests do not get longer any more: each is twice as long as the one before.
const DOUBLED: u32 = 3;
/// While packets of a table in which next to nothing was known go to the program: so many of them for each batch that is looked up all the same. Neither
/// its code nor its memory is in the caches then, and a packet costs several times as much as in the program.
const SAMPLED: u32 = 16_384;
/// So many packets looked up as samples say whether that is still so.
const SAMPLE: u32 = 512;

/// One batch for so many packets is timed.
const TIMED: u32 = 512;
/// Packets that go to the program for comparison.
const PROBE: u32 = 8192;
/// Long windows until what the program costs is measured again.
const FRESH: u32 = 32;
/// Less than this, in costs of packets with the table, is cheaper.
const CHEAPER: f32 = 0.97;

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

/// Packets, and those that were known.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    asked: u32,
    known: u32,
}

impl Share {
    /// Counts some more; at the end of a window of so many, all of it.
    #[inline]
    fn count(&mut self, asked: usize, known: u64, window: u32) -> Option<Share> {
        self.asked = self.asked.saturating_add(asked as u32);
        self.known = self.known.saturating_add(known as u32);
        (self.asked >= window).then(|| std::mem::take(self))
    }
}

/// What is known of the packets of an entry port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Monitor {
    short: Share,
    long: Share,
    /// Packets of the long window that were known by rule.
    ruled: u32,
    /// Packets of a long window.
    window: u32,
    /// Packets for which the table is not asked.
    rest: u32,
    /// Long windows in a row in which next to nothing was known.
    calm: u32,
    /// The rest is one behind such a window: batches are looked up as samples, the present one, too.
    sampled: bool,
    sampling: bool,
    sample: Share,
    /// Packets since the last sample.
    unsampled: u32,
    /// Many are new.
    pub pressed: bool,
    /// Costs with the table, and without.
    table: Cost,
    program: Cost,
    /// Packets since a batch was timed.
    untimed: u32,
    /// Packets go to the program for comparison.
    probing: bool,
    /// Long windows in a row with many unknown packets, and since the program was measured.
    mixed: u32,
    age: u32,
}

impl Monitor {
    /// Of a table for so many flows.
    pub fn new(flows: usize) -> Monitor {
        let window = u32::try_from(flows.saturating_mul(2)).unwrap_or(u32::MAX);
        Monitor {
            short: Share::default(),
            long: Share::default(),
            ruled: 0,
            window: window.clamp(WINDOW, u32::MAX / REST),
            rest: 0,
            calm: 0,
            sampled: false,
            sampling: false,
            sample: Share::default(),
            unsampled: 0,
            pressed: false,
            table: Cost::default(),
            program: Cost::default(),
            untimed: 0,
            probing: false,
            mixed: 0,
            age: FRESH,
        }
    }

    /// Is the next batch, of so many packets, to be timed?
    #[inline]
    pub fn times(&mut self, packets: usize) -> bool {
        self.untimed = self.untimed.saturating_add(packets as u32);
        let yes = self.untimed >= TIMED || self.probing;
        if yes {
            self.untimed = 0;
        }
        yes
    }

    /// A batch of so many packets took so long: looked up, or in the program only.
    pub fn took(&mut self, looked_up: bool, packets: usize, time: Duration) {
        // a sample's code and memory were not asked for in a long time
        if looked_up && self.rest > 0 {
            return;
        }
        let ns = (time.as_secs_f32() * 1e9) / packets.max(1) as f32;
        match looked_up {
            true => self.table.add(ns),
            false => self.program.add(ns),
        }
    }

    /// Is the program alone cheaper, as far as that is known?
    fn program_is_cheaper(&self) -> bool {
        self.program.batches > 0 && self.program.ns < self.table.ns * CHEAPER
    }

    /// Is a batch of so many packets to be looked up at all?
    #[inline]
    pub fn asks(&mut self, packets: usize) -> bool {
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        if self.rest == 0 && self.probing {
            (self.probing, self.age) = (false, 0);
            if self.program_is_cheaper() {
                self.rest(REST * self.window, false);
            }
        }
        let asks = self.rest == 0;
        self.rest = self.rest.saturating_sub(packets);
        self.sampling = false;
        if !asks && self.sampled {
            self.unsampled = self.unsampled.saturating_add(packets);
            if self.unsampled >= SAMPLED {
                (self.unsampled, self.sampling) = (0, true);
            }
        }
        asks || self.sampling
    }

    /// Packets go to the program for so many.
    fn rest(&mut self, packets: u32, sampled: bool) {
        (self.rest, self.sampled) = (packets, sampled);
        (self.sample, self.unsampled) = (Share::default(), 0);
    }

    /// So many were looked up, and so many of them were known, these among them by the rule that takes them and not by their flow: they need no program, but
    /// entries would be of no use to them.
    #[inline]
    pub fn count(&mut self, asked: usize, known: u64, by_rule: u64) {
        if std::mem::take(&mut self.sampling) {
            // twice as many as would have begun it: what is little known stays at rest
            if let Some(s) = self.sample.count(asked, known, SAMPLE)
                && s.known > s.asked / 8
            {
                (self.rest, self.calm) = (0, 0);
            }
            return;
        }
        if let Some(s) = self
            .short
            .count(asked, known.saturating_sub(by_rule), WINDOW)
        {
            self.pressed = s.known / 3 < s.asked / 4;
        }
        self.ruled = self.ruled.saturating_add(by_rule as u32);
        if let Some(s) = self.long.count(asked, known, self.window) {
            self.age = self.age.saturating_add(1);
            // what the rule says is looked up by the program as well: which is cheaper is to be measured
            let ruled = std::mem::take(&mut self.ruled);
            let mixed = s.known.saturating_sub(ruled) / 3 < s.asked / 4;
            self.mixed = if mixed { self.mixed + 1 } else { 0 };
            let unknown = s.known < s.asked / 16;
            if unknown {
                let rest = (REST * self.window).saturating_mul(1 << self.calm.min(DOUBLED));
                self.rest(rest, true);
            } else if self.mixed >= 2 && self.age >= FRESH {
                self.rest(PROBE, false);
                self.probing = true;
                self.program = Cost::default();
            } else if self.mixed >= 2 && self.program_is_cheaper() {
                self.rest(REST * self.window, false);
            }
            self.calm = if unknown {
                self.calm.saturating_add(1)
            } else {
                0
            };
            if self.rest > PROBE {
                // what is measured next is not of before
                self.table = Cost::default();
            }
        }
    }
}

/// Flows of which one packet was seen, by a part of their hash: one place for each, the last one stays.
#[derive(Debug)]
pub(super) struct Once {
    seen: Roomy<u16>,
}

impl Once {
    /// For about so many flows.
    pub fn new(flows: usize) -> Once {
        let n = flows
            .saturating_mul(2)
            .clamp(1 << 10, 1 << 26)
            .next_power_of_two();
        Once { seen: spread(n) }
    }

    /// [`Once::again`] is about to be asked.
    #[inline]
    pub fn expect(&self, hash: u64) {
        if let Some(place) = self.seen.get(self.place(hash)) {
            prefetch(place);
        }
    }
    #[inline]
    fn place(&self, hash: u64) -> usize {
        (hash >> 20) as usize & (self.seen.len() - 1)
    }

    /// Was this flow seen before? From now on it was.
    pub fn again(&mut self, hash: u64) -> bool {
        let at = self.place(hash);
        let tag = (hash >> 44) as u16 | 1;
        match self.seen.get_mut(at) {
            Some(s) if *s == tag => true,
            Some(s) => {
                *s = tag;
                false
            }
            None => true,
        }
    }

    /// [`Once::again`] where that cannot be foreseen: without a branch.
    #[inline(always)]
    pub fn meet(&mut self, hash: u64) -> bool {
        let at = self.place(hash);
        let tag = (hash >> 44) as u16 | 1;
        match self.seen.get_mut(at) {
            Some(s) => std::mem::replace(s, tag) == tag,
            None => true,
        }
    }

    /// Bytes.
    pub fn memory_bytes(&self) -> usize {
        self.seen.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_by_rule_goes_where_it_is_cheaper() {
        for (table, program, rests) in [(120, 100, true), (100, 120, false)] {
            let mut m = Monitor::new(10_000);
            let mut asked = 0;
            for _ in 0..100_000 {
                let asks = m.asks(32);
                if m.times(32) {
                    let ns = if asks { table } else { program };
                    m.took(asks, 32, Duration::from_nanos(32 * ns));
                }
                if asks {
                    asked += 32;
                    m.count(32, 32, 32);
                }
            }
            assert!(m.pressed, "no entries are made");
            // two windows, and then one of sixteen
            let share = f64::from(asked) / 3_200_000.0;
            assert_eq!(share < 0.2, rests, "{share}");
            assert_eq!(share > 0.9, !rests, "{share}");
        }
    }

    #[test]
    fn packets_that_are_never_known_are_not_looked_up_for_long() {
        let mut m = Monitor::new(10_000);
        let mut asked = 0;
        for _ in 0..100_000 {
            if m.asks(32) {
                asked += 32;
                m.count(32, 0, 0);
            }
        }
        assert!(m.pressed);
        // four windows and samples
        assert!((80_000..95_000).contains(&asked), "{asked}");
        // times change: rests are longer by now
        let mut late = 0;
        loop {
            if m.asks(32) {
                if !m.sampling {
                    break;
                }
                m.count(32, 0, 0);
            }
            late += 32;
        }
        assert!(late <= REST * 20_032 * 8);
        for _ in 0..1000 {
            m.count(32, 31, 0);
            assert!(m.asks(32));
        }
        assert!(!m.pressed);
        for _ in 0..1000 {
            m.count(32, 16, 0);
            assert!(m.asks(32), "half of them are known");
        }
        assert!(m.pressed);
    }

    /// While next to nothing is known, of many packets only a few are looked up; when flows of the table come back, they are found.
    #[test]
    fn samples_find_those_that_come_back() {
        let mut m = Monitor::new(10_000);
        let run = |m: &mut Monitor, packets: u32, known: u64| {
            let mut asked = 0;
            for _ in 0..packets / 32 {
                if m.asks(32) {
                    asked += 32;
                    m.count(32, known, 0);
                }
            }
            asked
        };
        run(&mut m, 3_000_000, 0);
        // rests are eight times as long in the end
        let asked = run(&mut m, 10_000_000, 1);
        assert!(asked < 300_000, "{asked}");
        // a rest has begun, and one sample window is enough to end it
        while m.rest < 1_000_000 {
            run(&mut m, 32, 0);
        }
        let late = SAMPLED * SAMPLE / 32 * 2;
        run(&mut m, late, 30);
        assert_eq!((m.rest, m.calm), (0, 0));
        assert_eq!(run(&mut m, 320_000, 30), 320_000);
        // a few do not end the next one
        while m.rest == 0 {
            run(&mut m, 32, 0);
        }
        let (rest, asked) = (m.rest, run(&mut m, 256_000, 3));
        assert!(m.rest < rest && asked < 4_000, "{asked}");
    }

    /// Half of the packets are known; the table costs so much, the program so much: the share of packets that went to the program.
    fn passed(table: u64, program: u64) -> f64 {
        let mut m = Monitor::new(10_000);
        let (mut all, mut passed) = (0u64, 0);
        for _ in 0..400_000 {
            let asks = m.asks(32);
            let timed = m.times(32);
            let ns = 32 * if asks { table } else { program };
            if timed {
                m.took(asks, 32, Duration::from_nanos(ns));
            }
            match asks {
                true => m.count(32, 16, 0),
                false => passed += 1,
            }
            all += 1;
        }
        passed as f64 / all as f64
    }

    #[test]
    fn what_is_cheaper_is_measured() {
        let dear = passed(230, 130);
        assert!(dear > 0.9, "{dear}");
        let cheap = passed(100, 400);
        assert!(cheap < 0.02, "{cheap}");
        assert!(passed(100, 100) < 0.02);
    }

    /// As many flows as there is room for, in rounds: none is known in the first packets, all are in the end.
    #[test]
    fn many_flows_that_all_come_again_are_remembered() {
        let (mut m, mut o) = (Monitor::new(10_000), Once::new(10_000));
        let mut entries = std::collections::HashSet::new();
        let hash = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for batch in 0..20_000u64 {
            assert!(m.asks(32), "{batch}");
            let mut known = 0;
            for i in batch * 32..batch * 32 + 32 {
                let h = hash(i % 10_000);
                known += u64::from(entries.contains(&h));
                if !m.pressed || o.again(h) {
                    entries.insert(h);
                }
            }
            m.count(32, known, 0);
        }
        assert!(!m.pressed && entries.len() > 9900, "{}", entries.len());
    }

    #[test]
    fn a_flow_is_seen_once() {
        let mut o = Once::new(4096);
        let hash = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (0..1000).filter(|i| o.again(hash(*i))).count();
        let second = (0..1000).filter(|i| o.meet(hash(*i))).count();
        assert!(first < 10 && second > 700, "{first} {second}");
        assert_eq!(o.memory_bytes(), 16_384);
    }
}
