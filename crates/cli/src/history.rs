//! What happened when: packets in, out and dropped by reason, in equal stretches of time. However long a run is, there
//! are no more than [`MOST`] of them: when they are full, every two become one.

use crate::control::Session;
use crate::runner::{Dropped, Outcome};
use onefold_engine::shadow::Shadow;
use onefold_packet::Timestamp;
use onefold_runtime::{Clock, Worker};
use std::collections::BTreeMap;

/// Most stretches of time.
pub const MOST: usize = 120;
/// Most reasons that are told apart; what comes later is one of [`OTHERS`].
const REASONS: usize = 64;
/// All reasons beyond these.
const OTHERS: &str = "other reasons";

/// Packets of one kind, by stretch of time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Series {
    /// How many at the last look, since the run began.
    seen: u64,
    counts: Vec<u64>,
}

impl Series {
    /// By stretch of time; those at the end may be missing.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
    /// Of all stretches together.
    pub fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// There were so many at this look: those that are new are divided evenly over the time since the last one.
    fn look(&mut self, total: u64, since: &Since) {
        let new = total.saturating_sub(self.seen);
        self.seen = self.seen.max(total);
        if new == 0 {
            return;
        }
        if self.counts.len() <= since.last {
            self.counts.resize(since.last + 1, 0);
        }
        let mut before = 0;
        for (i, c) in self.counts.iter_mut().enumerate().skip(since.first) {
            // all of them by the end of the last stretch
            let by_now = match i == since.last {
                true => new,
                false => since.share(new, i),
            };
            *c += by_now - before;
            before = by_now;
        }
    }

    fn halve(&mut self) {
        let pairs = self.counts.chunks(2).map(|c| c.iter().sum());
        self.counts = pairs.collect();
    }

    fn add(&mut self, other: &Series) {
        self.seen += other.seen;
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (a, b) in self.counts.iter_mut().zip(&other.counts) {
            *a += b;
        }
    }
}

/// The time since the last look: from when to when, in nanoseconds since the run began, and in which stretches.
struct Since {
    from: i64,
    to: i64,
    width: i64,
    first: usize,
    last: usize,
}

impl Since {
    /// Of so many packets those that had come by the end of a stretch, but the last one.
    fn share(&self, new: u64, stretch: usize) -> u64 {
        let end = (stretch as i64 + 1).saturating_mul(self.width);
        let part = end.clamp(self.from, self.to) - self.from;
        let whole = (self.to - self.from).max(1);
        let share = u128::from(new) * u128::from(part.unsigned_abs());
        u64::try_from(share / u128::from(whole.unsigned_abs())).unwrap_or(new)
    }
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    begun: Timestamp,
    /// Of a stretch, in nanoseconds: a power of two of the first one's.
    width: i64,
    /// The stretch of the last look.
    at: usize,
    /// When that was, in nanoseconds since it began.
    looked: i64,
    /// No look is due before this.
    next: Timestamp,
    /// Packets that came in.
    pub packets_in: Series,
    /// Packets that left.
    pub packets_out: Series,
    /// Packets dropped, by function and reason.
    pub drops: BTreeMap<String, Series>,
}

/// How a run stands, counted since it began.
pub struct SoFar {
    /// Packets that came in.
    pub packets_in: u64,
    /// Packets that left.
    pub packets_out: u64,
    /// Packets dropped, by function and reason.
    pub drops: BTreeMap<String, u64>,
}

impl SoFar {
    /// Of what executes packets, and what was dropped by elements that are not there any more.
    pub fn of(shadow: &Shadow, earlier: &[Dropped]) -> SoFar {
        let totals = shadow.flow().totals();
        let mut drops = BTreeMap::new();
        for d in shadow.flow().drops() {
            *drops.entry(told(&d.element, d.reason)).or_default() += d.packets;
        }
        for d in earlier {
            *drops.entry(d.told()).or_default() += d.packets;
        }
        SoFar {
            packets_in: totals.packets_in,
            packets_out: totals.sent,
            drops,
        }
    }
}

/// Nothing has happened before now.
pub fn begin(history: &mut Option<History>, now: Timestamp) {
    if let Some(h) = history {
        *h = History::new(now);
    }
}

/// Looks at a chain on interfaces, if it is time to.
pub fn attend(
    history: &mut Option<History>,
    clock: &Clock,
    worker: &mut Worker<Shadow>,
    session: Option<&Session>,
) {
    let Some(history) = history else { return };
    let now = clock.now();
    if history.is_due(now) {
        let earlier = session.map_or(&[][..], |s| &s.earlier.drops);
        history.look(now, &SoFar::of(worker.executor(), earlier));
    }
}

/// As [`Dropped::told`].
fn told(element: &str, reason: &str) -> String {
    let function = element.split('/').next().unwrap_or_default();
    format!("{function}: {reason}")
}

impl History {
    /// Of what happens from now on; the first stretches are so long, which suits what takes a few seconds.
    pub fn new(now: Timestamp) -> History {
        const WIDTH: i64 = 100_000;
        History {
            begun: now,
            width: WIDTH,
            at: 0,
            looked: 0,
            next: Timestamp(now.0.saturating_add(WIDTH)),
            packets_in: Series::default(),
            packets_out: Series::default(),
            drops: BTreeMap::new(),
        }
    }

    /// Is a stretch of time over?
    #[inline]
    pub fn is_due(&self, now: Timestamp) -> bool {
        now >= self.next
    }

    /// How long a stretch is, in seconds.
    pub fn seconds(&self) -> f64 {
        self.width as f64 / 1e9
    }

    /// How many stretches there were.
    pub fn len(&self) -> usize {
        self.at + 1
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Series> {
        [&mut self.packets_in, &mut self.packets_out]
            .into_iter()
            .chain(self.drops.values_mut())
    }

    fn halve(&mut self) {
        self.all().for_each(Series::halve);
        self.width = self.width.saturating_mul(2);
        self.at /= 2;
    }

    /// Looks at how the run stands.
    pub fn look(&mut self, now: Timestamp, so_far: &SoFar) {
        // the clock may be set back
        let since = now.0.saturating_sub(self.begun.0).max(0);
        // a moment that ends a stretch belongs to it
        let stretch = |width: i64| (since - 1).max(0) / width.max(1);
        while stretch(self.width) >= MOST as i64 {
            self.halve();
        }
        let first = self.at;
        let last = usize::try_from(stretch(self.width)).unwrap_or(first);
        self.at = last.max(first);
        let end = (self.at as i64 + 1).saturating_mul(self.width);
        let end = end.max(since.saturating_add(1));
        self.next = Timestamp(self.begun.0.saturating_add(end));
        let from = self.looked;
        self.looked = since.max(from);
        let among = Since {
            from,
            to: self.looked,
            width: self.width,
            first,
            last: self.at,
        };
        self.packets_in.look(so_far.packets_in, &among);
        self.packets_out.look(so_far.packets_out, &among);
        let mut others = 0;
        for (reason, n) in &so_far.drops {
            let known = self.drops.contains_key(reason);
            if !known && (self.drops.len() >= REASONS || reason == OTHERS) {
                others += n;
                continue;
            }
            let series = self.drops.entry(reason.clone()).or_default();
            series.look(*n, &among);
        }
        if others > 0 {
            let series = self.drops.entry(OTHERS.to_string()).or_default();
            series.look(others, &among);
        }
    }

    /// The run has ended so: whatever was not looked at is added to the last stretch.
    pub fn end(&mut self, now: Timestamp, o: &Outcome) {
        let mut drops = BTreeMap::new();
        for d in &o.drops_by_element {
            *drops.entry(d.told()).or_default() += d.packets;
        }
        let so_far = SoFar {
            packets_in: o.totals.packets_in,
            packets_out: o.totals.sent,
            drops,
        };
        self.look(now, &so_far);
    }

    /// Adds what another worker has done meanwhile.
    pub fn add(&mut self, other: &History) {
        let mut other = other.clone();
        while self.width < other.width {
            self.halve();
        }
        while other.width < self.width {
            other.halve();
        }
        self.at = self.at.max(other.at);
        self.packets_in.add(&other.packets_in);
        self.packets_out.add(&other.packets_out);
        for (reason, series) in &other.drops {
            self.drops.entry(reason.clone()).or_default().add(series);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn so_far(n: u64, reasons: &[(&str, u64)]) -> SoFar {
        SoFar {
            packets_in: n,
            packets_out: n / 2,
            drops: reasons.iter().map(|(r, n)| (r.to_string(), *n)).collect(),
        }
    }

    #[test]
    fn what_came_between_two_looks_is_divided_evenly() {
        let mut h = History::new(Timestamp::ZERO);
        h.look(Timestamp(100_000), &so_far(10, &[("fw: denied", 3)]));
        h.look(Timestamp(350_000), &so_far(20, &[("fw: denied", 3)]));
        assert_eq!(h.packets_in.counts(), [10, 4, 4, 2]);
        assert_eq!(h.drops["fw: denied"].counts(), [3]);
        assert_eq!((h.len(), h.seconds()), (4, 0.0001));
    }

    #[test]
    fn more_reasons_than_are_told_apart() {
        let mut h = History::new(Timestamp::ZERO);
        let names: Vec<String> = (0..REASONS + 9).map(|i| format!("r{i:03}")).collect();
        let all: Vec<(&str, u64)> = names.iter().map(|n| (n.as_str(), 2)).collect();
        h.look(Timestamp(1), &so_far(0, &all));
        assert_eq!(h.drops.len(), REASONS + 1);
        assert_eq!(h.drops[OTHERS].sum(), 18);
    }

    /// Whatever times are looked at, and by how many workers: nothing is lost, and there is room for it.
    #[test]
    fn sums_are_totals() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = |below: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % below
        };
        for _ in 0..200 {
            let mut all = [History::new(Timestamp(7)), History::new(Timestamp(7))];
            let (mut totals, mut now) = ([0u64; 2], [7i64; 2]);
            for _ in 0..draw(200) + 1 {
                let i = draw(2) as usize;
                now[i] += (draw(4_000_000_000_000) >> draw(32)) as i64;
                totals[i] += draw(1_000_000);
                let so_far = so_far(totals[i], &[("x: y", totals[i] / 3)]);
                all[i].look(Timestamp(now[i]), &so_far);
                let h = &all[i];
                assert!(h.len() <= MOST && !h.is_due(Timestamp(now[i])), "{h:?}");
                assert!(h.packets_in.counts().len() <= h.len(), "{h:?}");
                let covered = h.len() as f64 * h.seconds();
                assert!((now[i] - 7) as f64 / 1e9 <= covered + 1e-6, "{h:?}");
            }
            let [mut a, b] = all;
            a.add(&b);
            assert!(a.len() <= MOST);
            assert_eq!(a.packets_in.sum(), totals[0] + totals[1]);
            let drops: u64 = a.drops.values().map(Series::sum).sum();
            assert_eq!(drops, totals[0] / 3 + totals[1] / 3);
        }
    }
}
