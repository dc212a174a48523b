//! What is learnt from how many packets were known.
//!
//! Looking up packets that are never known, and remembering flows that never come again, costs without return. So the packets of each
//! entry port are counted in windows:
//!
//! - Where fewer than three of four were known, a flow is remembered from its second packet on, not from its first ([`crate::flow::policy::seen_filter`]): a flood of
//!   single packets makes no entries.
//! - What a long window says decides whether packets are looked up at all ([`crate::flow::policy::level_choice`]). It is long enough for every flow that the table has room for to
//!   come twice: in a short one, many flows that all come again look as those that never do.

use crate::flow::policy::level_choice::{LevelChoice, Pace, REST, Share, Verdict};

/// What is known of the packets of an entry port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monitor {
    short: Share,
    long: Share,
    /// Packets of the long window that were known by rule.
    ruled: u32,
    /// Packets of a short window, and of a long one.
    windows: (u32, u32),
    /// Many are new.
    pub overloaded: bool,
    /// Which level takes them.
    pub choice: LevelChoice,
}

impl Monitor {
    /// Of a table for so many flows.
    pub fn new(flows: usize, pace: Pace) -> Monitor {
        let long = u32::try_from(flows.saturating_mul(2)).unwrap_or(u32::MAX);
        let long = pace
            .long
            .unwrap_or(long)
            .clamp(pace.window, u32::MAX / REST);
        Monitor {
            short: Share::default(),
            long: Share::default(),
            ruled: 0,
            windows: (pace.window, long),
            overloaded: false,
            choice: LevelChoice::new(long, pace),
        }
    }

    /// So many were looked up, and so many of them were known, these among them by the rule that takes them and not by their flow: they need no program, but
    /// entries would be of no use to them.
    #[inline]
    pub fn count(&mut self, looked_up: usize, known: u64, by_rule: u64) {
        if self.choice.sampling {
            return self.choice.sampled(looked_up, known);
        }
        let (short, long) = self.windows;
        if let Some(s) = (self.short).count(looked_up, known.saturating_sub(by_rule), short) {
            self.overloaded = s.known / 3 < s.looked_up / 4;
        }
        self.ruled = self.ruled.saturating_add(by_rule as u32);
        if let Some(s) = self.long.count(looked_up, known, long) {
            // what the rule says is looked up by the program as well: which is cheaper is to be measured
            let ruled = std::mem::take(&mut self.ruled);
            let mixed = s.known.saturating_sub(ruled) / 3 < s.looked_up / 4;
            self.choice.window_ended(match s.known < s.looked_up / 16 {
                true => Verdict::Unknown,
                false if mixed => Verdict::Mixed,
                false => Verdict::Known,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::policy::level_choice::{SAMPLE, SAMPLED};
    use crate::flow::policy::seen_filter::SeenFilter;
    use crate::level::Level;
    use std::time::Duration;

    fn monitor(flows: usize) -> Monitor {
        Monitor::new(flows, Pace::USUAL)
    }
    fn asks(m: &mut Monitor, n: usize) -> bool {
        m.choice.next(n) == Level::Flow
    }

    #[test]
    fn what_is_known_by_rule_goes_where_it_is_cheaper() {
        for (table, program, rests) in [(120, 100, true), (100, 120, false)] {
            let mut m = monitor(10_000);
            let mut looked_up = 0;
            for _ in 0..100_000 {
                let level = m.choice.next(32);
                let asks = level == Level::Flow;
                if m.choice.times(32) {
                    let ns = [3 * program, program, table][level as usize];
                    (m.choice).took(level, 32, Duration::from_nanos(32 * ns));
                }
                if asks {
                    looked_up += 32;
                    m.count(32, 32, 32);
                }
            }
            assert!(m.overloaded, "no entries are made");
            // two windows, and then one of sixteen
            let share = f64::from(looked_up) / 3_200_000.0;
            assert_eq!(share < 0.2, rests, "{share}");
            assert_eq!(share > 0.9, !rests, "{share}");
        }
    }

    #[test]
    fn packets_that_are_never_known_are_not_looked_up_for_long() {
        let mut m = monitor(10_000);
        let mut looked_up = 0;
        for _ in 0..100_000 {
            if asks(&mut m, 32) {
                looked_up += 32;
                m.count(32, 0, 0);
            }
        }
        assert!(m.overloaded);
        // four windows and samples
        assert!((80_000..95_000).contains(&looked_up), "{looked_up}");
        // times change: rests are longer by now
        let mut late = 0;
        loop {
            if asks(&mut m, 32) {
                if !m.choice.sampling {
                    break;
                }
                m.count(32, 0, 0);
            }
            late += 32;
        }
        assert!(late <= REST * 20_032 * 8);
        for _ in 0..1000 {
            m.count(32, 31, 0);
            assert!(asks(&mut m, 32));
        }
        assert!(!m.overloaded);
        for _ in 0..1000 {
            m.count(32, 16, 0);
            assert!(asks(&mut m, 32), "half of them are known");
        }
        assert!(m.overloaded);
    }

    /// While next to nothing is known, of many packets only a few are looked up; when flows of the table come back, they are found.
    #[test]
    fn samples_find_those_that_come_back() {
        let mut m = monitor(10_000);
        let run = |m: &mut Monitor, packets: u32, known: u64| {
            let mut looked_up = 0;
            for _ in 0..packets / 32 {
                if asks(m, 32) {
                    looked_up += 32;
                    m.count(32, known, 0);
                }
            }
            looked_up
        };
        run(&mut m, 3_000_000, 0);
        // rests are eight times as long in the end
        let looked_up = run(&mut m, 10_000_000, 1);
        assert!(looked_up < 300_000, "{looked_up}");
        // a rest has begun, and one sample window is enough to end it
        while m.choice.rest < 1_000_000 {
            run(&mut m, 32, 0);
        }
        let late = SAMPLED * SAMPLE / 32 * 2;
        run(&mut m, late, 30);
        assert_eq!((m.choice.rest, m.choice.calm), (0, 0));
        // two levels are probed meanwhile
        assert!(run(&mut m, 320_000, 30) >= 320_000 - 2 * (8192 + 32));
        // a few do not end the next one
        while m.choice.rest == 0 {
            run(&mut m, 32, 0);
        }
        let (rest, looked_up) = (m.choice.rest, run(&mut m, 256_000, 3));
        assert!(m.choice.rest < rest && looked_up < 4_000, "{looked_up}");
    }

    /// Half of the packets are known; the table costs so much, the program so much: the share of packets that went to the program.
    fn passed(table: u64, program: u64) -> f64 {
        let mut m = monitor(10_000);
        let (mut all, mut passed) = (0u64, 0);
        for _ in 0..400_000 {
            let level = m.choice.next(32);
            let asks = level == Level::Flow;
            let ns = 32 * [3 * program, program, table][level as usize];
            if m.choice.times(32) {
                (m.choice).took(level, 32, Duration::from_nanos(ns));
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
        assert!(cheap < 0.03, "{cheap}");
        assert!(passed(100, 100) < 0.03);
    }

    /// As many flows as there is room for, in rounds: none is known in the first packets, all are in the end.
    #[test]
    fn many_flows_that_all_come_again_are_remembered() {
        let (mut m, mut o) = (monitor(10_000), SeenFilter::new(10_000));
        let (mut entries, mut probed) = (std::collections::HashSet::new(), 0);
        let hash = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for batch in 0..20_000u64 {
            if !asks(&mut m, 32) {
                probed += 32;
                continue;
            }
            let mut known = 0;
            for i in batch * 32..batch * 32 + 32 {
                let h = hash(i % 10_000);
                known += u64::from(entries.contains(&h));
                if !m.overloaded || o.again(h) {
                    entries.insert(h);
                }
            }
            m.count(32, known, 0);
        }
        assert!(probed <= 2 * (8192 + 32), "{probed}");
        assert!(!m.overloaded && entries.len() > 9900, "{}", entries.len());
    }
}
