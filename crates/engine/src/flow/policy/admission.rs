//! Admission: how much time packets of unknown flows may take while packets queue up.
//!
//! A known flow's packet costs tens of nanoseconds, the first packet of a new one hundreds: it is classified, bindings are made, older
//! ones make room. One core that is offered as many new flows as packets of known ones therefore spends nine tenths of its time on new
//! flows, and the queue in front of it loses known and unknown packets alike: this is what a flood wants. No execution that opens
//! flows mends that, as long as opening costs more than a quarter of what a known packet does.
//!
//! Whoever drains a queue that fills faster than it is drained loses packets in any case, and can only choose which. With a share
//! set ([`crate::flow::FlowRunner::protect`]), time is given to unknown packets as tokens to a bucket: that share of all time that
//! passes, [`BURST`] at most. Each such packet takes out what it costs, as far as that is known. Where the bucket is empty, an unknown packet is dropped
//! before the chain sees it, as a full receive queue drops, and counted with [`OVERLOAD`] as the reason. So what the chain does is what it would do if
//! these packets had never arrived.
//!
//! Half of the bucket is for flows that have been met before ([`crate::flow::policy::seen_filter`]): a client sends its SYN again, a flood of single packets
//! does not, and an established flow whose entry was lost is back at once.
//!
//! The clock is read for one of [`GROUPS`] groups that have unknown packets in them (more often where the chain's time tells that there was a pause), and before and after one of [`TIMED`] packets that are let in; never for known
//! ones.

use onefold_packet::Timestamp;
use std::time::Duration;

/// A share of the time for unknown flows that keeps known ones near their rate in a flood: what benchmarks of attacks
/// ask for, and live ports while packets queue up.
pub const FLOOD_SHARE: f64 = 0.03;
/// Why packets were dropped.
pub const OVERLOAD: &str = "overload: of no known flow";

/// Nanoseconds of the whole that may be saved up: 2 ms at a share of one, so that flows which arrive together after a pause are not taken for a flood.
const BURST: f64 = 2e6;

/// Groups with unknown packets for which the clock is read once: reading takes as long as a packet, and what a bucket is given within a few groups is little.
const GROUPS: u32 = 32;

/// Nanoseconds of the chain's time after which it is read in any case: after a pause there is more in the bucket.
const PAUSE: i64 = 100_000;

/// Of so many packets that are let in one is timed, twice reading the clock; the others take out what these took, as a mean.
const TIMED: u64 = 8;

/// What an unknown packet is thought to cost before any has been measured.
const FIRST_GUESS: f64 = 1000.0;

/// A packet takes out no more than so many times what one costs: who takes longer was not running all the while. One pause of ten milliseconds, in which the
/// core did something else, would otherwise keep new flows out for a fifth of a second.
const DEAREST: f64 = 16.0;

/// Time that flows are given in the beginning, when none is known, and at most when everything was forgotten: nanoseconds.
const MOST_BACK: f64 = 1e8;
/// Until that is used up, whatever arrives beside unknown packets: about twice as long.
pub(crate) const SETTLES: Duration = Duration::from_nanos(2 * MOST_BACK as u64);

/// Nanoseconds; a conversion of what has 128 bits would be a call.
#[inline]
fn ns(d: Duration) -> f64 {
    d.as_secs() as f64 * 1e9 + f64::from(d.subsec_nanos())
}

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Admission {
    share: f64,
    /// What is kept for flows that have been met before.
    kept: f64,
    /// Nanoseconds that may be spent; less than nothing after a dear packet.
    credit: f64,
    /// Nanoseconds that an unknown packet costs: mean, with the last ones weighing most.
    guess: f64,
    last: Option<Duration>,
    /// Groups since then, and the chain's time then.
    since: (u32, Timestamp),
    /// Which packets are timed.
    dice: u64,
}

impl Admission {
    /// `share` of all time, 0 to 1, and in the beginning a tenth of a second. `seed`: nobody's, who sends packets.
    pub fn new(share: f64, seed: u64) -> Admission {
        let share = if share.is_nan() {
            1.0
        } else {
            share.clamp(0.0, 1.0)
        };
        Admission {
            share,
            kept: share * BURST / 2.0,
            credit: if share > 0.0 { MOST_BACK } else { 0.0 },
            guess: FIRST_GUESS,
            last: None,
            since: (GROUPS, Timestamp::ZERO),
            dice: seed | 1,
        }
    }

    /// The share.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// A group with unknown packets begins at this time of the chain: is the clock to be read, and [`Admission::begin`] to be told?
    #[inline]
    pub fn due(&mut self, now: Timestamp) -> bool {
        let (groups, then) = self.since;
        if groups < GROUPS && (0..PAUSE).contains(&now.0.saturating_sub(then.0)) {
            self.since.0 += 1;
            return false;
        }
        self.since = (1, now);
        true
    }

    /// Gives for the time that has passed.
    pub fn begin(&mut self, now: Duration) {
        let passed = self.last.map_or(0.0, |l| ns(now.saturating_sub(l)));
        self.last = Some(now);
        let most = self.share * BURST;
        // what was given for flows to come back stays until it is used
        let more = self.credit + self.share * passed;
        self.credit = more.min(most.max(self.credit));
    }

    /// May a packet in? Takes what it is thought to cost. `again`: its flow was met before.
    #[inline]
    fn admits(&mut self, again: bool) -> bool {
        let floor = if again { 0.0 } else { self.kept };
        let yes = self.credit > floor;
        if yes {
            self.credit -= self.guess;
        }
        yes
    }

    /// Is the clock to be read before and after a packet that was let in? Nobody can know which ones are.
    #[inline]
    pub fn times(&mut self) -> bool {
        // Marsaglia's xorshift: never zero
        let mut x = self.dice;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.dice = x;
        (x >> 32).is_multiple_of(TIMED)
    }

    /// Which of several unknown packets, a bit each and the lowest first, are let in. `again`: those whose flows were met before.
    #[inline]
    pub fn admit(&mut self, unknown: u64, again: u64) -> u64 {
        // in a flood nothing is left for new ones, and none of them has to be asked about
        let mut left = if self.credit > self.kept {
            unknown
        } else {
            unknown & again
        };
        let mut some = 0;
        // Bound: a bit less each time
        while left != 0 {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            if self.admits(again & bit != 0) {
                some |= bit;
            }
        }
        some
    }

    /// A packet that was let in took so long.
    pub fn ran(&mut self, took: Duration) {
        let ns = ns(took).min(DEAREST * self.guess);
        self.credit += self.guess - ns;
        self.guess += (ns - self.guess) / 16.0;
    }

    /// Everything known was forgotten, so many flows: time for these to come back, a tenth of a second at most.
    pub fn forgot(&mut self, flows: usize) {
        self.credit += (flows as f64 * self.guess).min(MOST_BACK);
    }

    /// So much was done for several packets that were let in together.
    pub fn spent(&mut self, took: Duration) {
        self.credit -= ns(took).min(DEAREST * self.guess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// With a full bucket, the beginning being over.
    fn begun(share: f64) -> Admission {
        let mut a = Admission::new(share, 7);
        a.credit = a.share * BURST;
        a
    }

    #[test]
    fn the_clock_is_read_now_and_then_and_after_a_pause() {
        let mut a = begun(0.05);
        assert!(a.due(Timestamp(5)));
        let read = (0..80).filter(|i| a.due(Timestamp(6 + i))).count();
        assert_eq!(read, 80 / GROUPS as usize);
        assert!(a.due(Timestamp(PAUSE + 100)), "a pause");
        assert!(!a.due(Timestamp(PAUSE + 100)));
        assert!(a.due(Timestamp(0)), "time was set back");
    }

    #[test]
    fn a_pause_of_the_core_is_not_what_a_packet_costs() {
        let mut a = begun(0.05);
        let before = a.credit;
        assert!(a.admits(true));
        a.ran(Duration::from_millis(10));
        assert!(before - a.credit <= DEAREST * FIRST_GUESS, "{}", a.credit);
        a.spent(Duration::from_millis(10));
        assert!(a.credit > 0.0, "{}", a.credit);
        // what costs more and more is seen to
        for _ in 0..200 {
            a.ran(Duration::from_micros(500));
        }
        assert!(a.guess > 490_000.0, "{}", a.guess);
    }

    /// Packets of unknown flows come without end, each costs this; how much of the time they get.
    fn share_taken(share: f64, cost: u64, again: bool) -> f64 {
        let mut a = begun(share);
        let mut now = Duration::ZERO;
        let mut taken = 0;
        for _ in 0..100_000 {
            a.begin(now);
            for _ in 0..32 {
                if a.admits(again) {
                    now += Duration::from_nanos(cost);
                    taken += cost;
                    a.ran(Duration::from_nanos(cost));
                }
            }
            // the known ones
            now += Duration::from_nanos(1000);
        }
        taken as f64 / now.as_nanos() as f64
    }

    #[test]
    fn unknown_flows_get_their_share_and_no_more() {
        for cost in [100, 1000, 20_000] {
            for again in [false, true] {
                let taken = share_taken(0.25, cost, again);
                assert!((taken - 0.25).abs() < 0.01, "{cost} {again}: {taken}");
            }
        }
        assert!(share_taken(0.0, 100, true) == 0.0);
        assert!(share_taken(f64::NAN, 100, true) > 0.7);
    }

    #[test]
    fn flows_met_before_come_first() {
        let mut a = begun(0.25);
        let mut now = Duration::ZERO;
        let (mut first, mut again) = ([0, 0], [0, 0]);
        for _ in 0..10_000 {
            a.begin(now);
            for i in 0..32 {
                let met = i == 31;
                let yes = a.admits(met);
                let count = if met { &mut again } else { &mut first };
                count[usize::from(yes)] += 1;
                if yes {
                    now += Duration::from_nanos(1000);
                    a.ran(Duration::from_micros(1));
                }
            }
            now += Duration::from_nanos(10_000);
        }
        assert_eq!(again[0], 0, "one in 32, and all of them got in");
        assert!(first[0] > 10 * first[1], "{first:?}");
    }

    #[test]
    fn flows_that_were_forgotten_come_back() {
        let mut a = begun(0.1);
        a.forgot(10_000);
        a.begin(Duration::ZERO);
        let back = (0..20_000).filter(|_| a.admits(false)).count();
        assert!((10_000..10_300).contains(&back), "{back}");
        a.forgot(usize::MAX);
        a.begin(Duration::ZERO);
        assert!((0..200_000).filter(|_| a.admits(false)).count() < 101_000);
        let mut a = Admission::new(0.1, 7);
        let first = (0..200_000).filter(|_| a.admits(false)).count();
        assert!((99_000..101_000).contains(&first), "{first}");
    }

    #[test]
    fn what_arrives_together_after_a_pause_gets_in() {
        let mut a = begun(0.25);
        a.begin(Duration::ZERO);
        let burst = (0..200).filter(|_| a.admits(false)).count();
        assert_eq!(burst, 200, "a quarter of a millisecond");
    }

    /// Several at once are let in as one after the other.
    #[test]
    fn together_as_one_by_one() {
        for credit in [-10.0, 0.0, 500.0, 1200.0, 3000.0, 1e6] {
            for (unknown, again) in [
                (0u64, 0u64),
                (0b1011, 0b10),
                (!0, 0x5555),
                (!0, 0),
                (0xff00, 0xff00),
            ] {
                let (mut a, mut b) = (begun(0.001), begun(0.001));
                (a.credit, b.credit) = (credit, credit);
                let one = |i: &u32| unknown >> i & 1 == 1 && b.admits(again >> i & 1 == 1);
                let want = (0..64).filter(one).map(|i| 1u64 << i).sum::<u64>();
                assert_eq!(
                    a.admit(unknown, again),
                    want,
                    "{credit} {unknown:x} {again:x}"
                );
                assert!((a.credit - b.credit).abs() < 1e-6);
            }
        }
    }
}
