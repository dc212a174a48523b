//! NFVnice (SIGCOMM 2017): shares in proportion to load, and backpressure by chain.
//!
//! - Each [`NfvniceConfig::period`] (what the paper's Tx and Wakeup threads do without pause): the states of
//!   backpressure. An NF whose ring is above HIGH is *watched*; where what waits would take longer than a threshold,
//!   its queued chains are *throttled*: shed where they enter, until its ring is below LOW. NFs upstream of it are told
//!   to relinquish their core if all chains that pass them are throttled by NFs further on.
//! - Each millisecond: load = arrival rate x median service time ([`ServiceEstimate`]), and the moving average of rings
//!   by which packets are marked (ECN).
//! - Each 10 ms: shares = priority x load / sum of loads on the core, written as `cpu.shares`; arrival rates are moving
//!   averages over some 40 ms. Service times are medians of 100 ms already: to smooth these once more let shares follow
//!   a step of cost 35 to 57 ms later.
//!
//! What cannot have happened is not looked for: with rings far from HIGH, or still above LOW, the policy says when
//! something can be ([`Policy::rests`]), by the highest rate at which packets have come of late. The paper's threads
//! have cores of their own, and look all the time; here whoever moves packets would pay for it.
//!
//! *Local backpressure*: the paper's NFs block on their own Tx ring, which a manager empties into the next NF's. Here
//! the ring that an NF puts packets into is the next NF's, so that an NF with several next ones must not block on one
//! of them: others' packets would wait behind it. Such an NF waits by way: it takes nothing from inputs that lead to
//! the full ring alone, and goes on with others; where an input leads to several rings, shedding is all there is.
//!
//! *Several input rings*: the paper's NFs have one. Here chains that enter by ports of their own have rings of their
//! own at a shared NF, and are throttled and cleared by these: that of a chain that waits for room further on stays
//! full.
//!
//! What the paper does not give is a parameter of [`NfvniceConfig`], with our choice as its default.

use crate::decision::Decisions;
use crate::estimate::ServiceEstimate;
use crate::observation::{NfView, Observation, ObservationError, Watermarks};
use crate::topology::{ChainSet, Topology};
use crate::{MICROSECOND, MILLISECOND, Nanos, Policy};

/// Least `cpu.shares` that the kernel takes.
pub const LEAST_SHARES: u32 = 2;
/// Most of them.
pub const MOST_SHARES: u32 = 262_144;

/// Packets are taken to come at least so fast, in ns between two of them, when it is to be said how soon a ring can be
/// full.
const FASTEST: f64 = 1_000.0;
/// Each millisecond so much of the highest rate is forgotten.
const FORGOTTEN: f64 = 0.05;

/// Weight of the last 10 ms in the moving average of an arrival rate.
const RATE_GAIN: f64 = 0.25;

/// `cpu.shares` (cgroup v1) as `cpu.weight` (v2): 1 to 10,000.
pub fn weight(shares: u32) -> u32 {
    let shares = u64::from(shares.clamp(LEAST_SHARES, MOST_SHARES));
    (1 + (shares - 2) * 9_999 / 262_142) as u32
}

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NfvniceConfig {
    /// Backpressure is looked at so often, in ns (paper: all the time).
    pub period: Nanos,
    /// HIGH, in per cent of a ring.
    pub high: u32,
    /// LOW, in per cent of a ring; less than `high`.
    pub low: u32,
    /// What waits has to be worth so much time, in ns, before chains are throttled (not given).
    pub queueing_time: Nanos,
    /// `cpu.shares` that a core has for each of its NFs (not given).
    pub shares_each: u32,
    /// Weight of a new length in the moving average for ECN (not given).
    pub ecn_gain: f64,
    /// The average, as part of a ring, from which on packets are marked (not given).
    pub ecn_above: f64,
    /// Shares are written.
    pub with_shares: bool,
    /// Chains are shed, NFs relinquish.
    pub with_backpressure: bool,
    /// Local backpressure: NFs sleep while the ring that they put packets into is full.
    pub with_blocking: bool,
}

impl Default for NfvniceConfig {
    fn default() -> Self {
        NfvniceConfig {
            period: 10 * MICROSECOND,
            high: 80,
            low: 60,
            queueing_time: 10 * MICROSECOND,
            shares_each: 1024,
            ecn_gain: 0.02,
            ecn_above: 0.5,
            with_shares: true,
            with_backpressure: true,
            with_blocking: true,
        }
    }
}

/// A configuration that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NfvniceError {
    /// HIGH and LOW.
    #[error("watermarks: 0 < LOW < HIGH <= 100 per cent has to hold, not {low} and {high}")]
    Watermarks {
        /// LOW.
        low: u32,
        /// HIGH.
        high: u32,
    },
    /// ECN's average.
    #[error("ECN: the gain has to be more than 0 and at most 1, the threshold 0 to 1")]
    Ecn,
    /// A period of nothing.
    #[error("the period has to be 1 ns at least")]
    Period,
}

/// Backpressure's state for an NF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pressure {
    /// Nothing is wrong.
    Clear,
    /// Its ring was above HIGH, and what waits is not worth enough time yet.
    Watch,
    /// These chains are throttled on its behalf.
    Throttle(ChainSet),
}

#[derive(Debug, Clone)]
struct State {
    estimate: ServiceEstimate,
    pressure: Pressure,
    /// `arrived` a millisecond ago.
    arrived: Option<u64>,
    /// Arrival rates (packets a ns) added up since shares were written, and how many.
    rate: f64,
    rates: u32,
    /// Moving average of arrival rates, over some 40 ms: an NF whose chain is shed gets nothing for as long as its ring
    /// is being emptied, and works all the same.
    smooth: Option<f64>,
    /// Moving average of the ring's occupancy, as a part of it.
    average: f64,
    /// Highest rate of arrivals of late, in packets a ns, and `arrived` at the last look.
    highest: f64,
    came: Option<u64>,
}

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Nfvnice {
    topology: Topology,
    config: NfvniceConfig,
    /// NFs that may sleep while what they put packets into is full: they put all of them into one ring. Others would
    /// hold up chains that have nothing to do with it.
    blocking: Vec<bool>,
    states: Vec<State>,
    /// By NF: chains whose packets would be lost further on, if it worked on them.
    lost_later: Vec<ChainSet>,
    last_load: Option<Nanos>,
    last_shares: Nanos,
    last_look: Nanos,
    rests: Nanos,
}

impl Nfvnice {
    /// For these NFs.
    ///
    /// # Errors
    /// The configuration cannot be.
    pub fn new(topology: &Topology, config: NfvniceConfig) -> Result<Nfvnice, NfvniceError> {
        let (low, high) = (config.low, config.high);
        if low == 0 || low >= high || high > 100 {
            return Err(NfvniceError::Watermarks { low, high });
        }
        let gain = config.ecn_gain > 0.0 && config.ecn_gain <= 1.0;
        if !gain || !(0.0..=1.0).contains(&config.ecn_above) {
            return Err(NfvniceError::Ecn);
        }
        if config.period == 0 {
            return Err(NfvniceError::Period);
        }
        let state = State {
            estimate: ServiceEstimate::default(),
            pressure: Pressure::Clear,
            arrived: None,
            rate: 0.0,
            rates: 0,
            smooth: None,
            average: 0.0,
            highest: 0.0,
            came: None,
        };
        Ok(Nfvnice {
            blocking: (0..topology.nfs().len())
                .map(|nf| topology.has_one_output(nf))
                .collect(),
            states: vec![state; topology.nfs().len()],
            lost_later: vec![0; topology.nfs().len()],
            topology: topology.clone(),
            config,
            last_load: None,
            last_shares: 0,
            last_look: 0,
            rests: 0,
        })
    }

    /// The state of an NF.
    pub fn pressure(&self, nf: usize) -> Pressure {
        self.states.get(nf).map_or(Pressure::Clear, |s| s.pressure)
    }

    /// What an NF's packet costs, in ns, as far as it is known.
    pub fn service(&self, nf: usize) -> Option<Nanos> {
        self.states.get(nf).and_then(|s| s.estimate.median())
    }

    /// How soon the state of any NF can change, in ns: half of what it takes to fill a ring up to HIGH at twice the
    /// highest rate of late, or to work it off down to LOW.
    fn foresee(&mut self, now: Nanos, views: &[NfView]) -> Nanos {
        let c = &self.config;
        let passed = now.saturating_sub(self.last_look).max(1) as f64;
        self.last_look = now;
        let forgotten = 1.0 - FORGOTTEN * (passed / MILLISECOND as f64).min(1.0);
        let mut soonest = MILLISECOND as f64;
        for (s, v) in self.states.iter_mut().zip(views) {
            if let Some(came) = s.came.replace(v.arrived) {
                let rate = v.arrived.wrapping_sub(came) as f64 / passed;
                s.highest = (s.highest * forgotten).max(rate);
            }
            let at = |per_cent: u32| f64::from(v.input.capacity) * f64::from(per_cent) / 100.0;
            let waits = f64::from(v.input.occupancy);
            let left = match (s.pressure, s.estimate.median()) {
                (Pressure::Clear, _) => (at(c.high) - waits) / (2.0 * s.highest).max(1.0 / FASTEST),
                (Pressure::Throttle(_), Some(cost)) => (waits - at(c.low)) * cost as f64,
                _ => 0.0,
            };
            soonest = soonest.min(left / 2.0);
        }
        soonest.max(0.0) as Nanos
    }

    /// The states, what is shed, and who relinquishes.
    fn backpressure(&mut self, views: &[NfView], to: &mut Decisions) {
        let mut shed = 0;
        for (s, v) in self.states.iter_mut().zip(views) {
            s.pressure = next(s.pressure, v, s.estimate.median(), &self.config);
            if let Pressure::Throttle(chains) = s.pressure {
                shed |= chains;
            }
        }
        to.shed = shed;
        self.lost_later.fill(0);
        for (i, hops) in self.topology.chains().iter().enumerate() {
            let chain = 1 << i;
            if shed & chain == 0 {
                continue;
            }
            // the last one of the chain that is the reason; those before it have nothing to do that would not be lost
            let is_reason = |nf: &usize| match self.states.get(*nf).map(|s| s.pressure) {
                Some(Pressure::Throttle(chains)) => chains & chain != 0,
                _ => false,
            };
            let before = hops.iter().rposition(is_reason).unwrap_or(0);
            for &nf in hops.iter().take(before) {
                if let Some(lost) = self.lost_later.get_mut(nf) {
                    *lost |= chain;
                }
            }
        }
        // one whose own ring is the reason for another chain has that to work on
        for (nf, (n, lost)) in to.nfs.iter_mut().zip(&self.lost_later).enumerate() {
            let through = self.topology.through(nf);
            n.relinquish = through != 0 && through & !lost == 0;
        }
    }

    /// Service times and arrival rates of the last millisecond, and ECN.
    fn loads(&mut self, (now, passed): (Nanos, Nanos), views: &[NfView], to: &mut Decisions) {
        let c = &self.config;
        for ((s, v), n) in self.states.iter_mut().zip(views).zip(&mut to.nfs) {
            s.estimate.update(now);
            if let (Some(before), Some(_)) = (s.arrived, s.estimate.median()) {
                s.rate += v.arrived.wrapping_sub(before) as f64 / passed.max(1) as f64;
                s.rates += 1;
            }
            s.arrived = Some(v.arrived);
            let part = f64::from(v.input.occupancy) / f64::from(v.input.capacity.max(1));
            s.average += c.ecn_gain * (part - s.average);
            n.mark_ecn = c.with_backpressure && s.average > c.ecn_above;
        }
    }

    /// Writes shares, by loads of late. A core has its NFs' as they were while nothing is known of one of them.
    fn shares(&mut self, to: &mut Decisions) {
        for s in self.states.iter_mut().filter(|s| s.rates > 0) {
            let rate = s.rate / f64::from(s.rates);
            s.smooth = Some(s.smooth.map_or(rate, |was| was + RATE_GAIN * (rate - was)));
        }
        for core in 0..self.topology.cores() {
            let nfs = self.topology.on_core(core);
            let load = |nf: &usize| {
                let s = self.states.get(*nf)?;
                Some(s.smooth? * s.estimate.median()? as f64)
            };
            let mut sum = 0.0;
            let known = nfs.iter().filter_map(load).inspect(|l| sum += l).count();
            if known < nfs.len() || sum <= 0.0 {
                continue;
            }
            let all = f64::from(self.config.shares_each) * nfs.len() as f64;
            for nf in nfs {
                let priority = self.topology.nfs().get(*nf).map_or(1, |n| n.priority);
                if let (Some(load), Some(n)) = (load(nf), to.nfs.get_mut(*nf)) {
                    let shares = all * f64::from(priority) * load / sum;
                    n.shares = shares
                        .round()
                        .clamp(f64::from(LEAST_SHARES), f64::from(MOST_SHARES))
                        as u32;
                }
            }
        }
        for s in &mut self.states {
            (s.rate, s.rates) = (0.0, 0);
        }
    }
}

/// The state after this one.
fn next(is: Pressure, v: &NfView, service: Option<Nanos>, c: &NfvniceConfig) -> Pressure {
    let above = v.input.at_least(c.high);
    match is {
        Pressure::Throttle(_) if !v.input.at_least(c.low) => Pressure::Clear,
        // chains that have come into the ring since then; those with a ring of their own have left it
        Pressure::Throttle(chains) if above => {
            Pressure::Throttle((chains | v.queued) & !v.relieved)
        }
        Pressure::Throttle(chains) => Pressure::Throttle(chains & !v.relieved),
        Pressure::Clear | Pressure::Watch if !above => Pressure::Clear,
        Pressure::Clear => Pressure::Watch,
        Pressure::Watch => {
            // while nothing is known of its cost, its ring alone decides
            let long = service
                .is_none_or(|s| s.saturating_mul(u64::from(v.input.occupancy)) >= c.queueing_time);
            match long {
                true => Pressure::Throttle(v.queued),
                false => Pressure::Watch,
            }
        }
    }
}

impl Policy for Nfvnice {
    fn name(&self) -> &'static str {
        match (self.config.with_shares, self.config.with_backpressure) {
            (true, true) => "NFVnice",
            (true, false) => "NFVnice, shares alone",
            (false, true) => "NFVnice, backpressure alone",
            (false, false) => "NFVnice, watching",
        }
    }

    fn period(&self) -> Nanos {
        self.config.period
    }

    fn rests(&self) -> Nanos {
        self.rests.max(self.config.period)
    }

    fn sees_chains(&self) -> Option<Watermarks> {
        let (low, high) = (self.config.low, self.config.high);
        (self.config.with_backpressure).then_some(Watermarks { low, high })
    }

    fn decide(
        &mut self,
        seen: &Observation<'_>,
        to: &mut Decisions,
    ) -> Result<(), ObservationError> {
        seen.check(&self.topology)?;
        for (s, v) in self.states.iter_mut().zip(seen.nfs) {
            if let Some(took) = v.sample {
                s.estimate.add(seen.now, took);
            }
        }
        if self.config.with_backpressure {
            self.backpressure(seen.nfs, to);
        }
        for (n, blocks) in to.nfs.iter_mut().zip(&self.blocking) {
            n.blocks_when_full = *blocks && self.config.with_blocking;
            n.waits_by_way = self.config.with_blocking;
        }
        let since = self.last_load.map(|l| seen.now.saturating_sub(l));
        if since.is_none_or(|s| s >= MILLISECOND) {
            self.loads((seen.now, since.unwrap_or(0)), seen.nfs, to);
            self.last_load = Some(seen.now);
        }
        if seen.now.saturating_sub(self.last_shares) >= 10 * MILLISECOND {
            if self.config.with_shares {
                self.shares(to);
            }
            self.last_shares = seen.now;
        }
        self.rests = match self.config.with_backpressure {
            true => self.foresee(seen.now, seen.nfs),
            false => MILLISECOND,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::Level;

    #[test]
    fn shares_become_weights() {
        assert_eq!(
            [0, 2, 1024, 262_144, u32::MAX].map(weight),
            [1, 1, 39, 10_000, 10_000]
        );
    }

    #[test]
    fn states_follow_the_watermarks() {
        let c = NfvniceConfig::default();
        let at = |occupancy| NfView {
            input: Level {
                occupancy,
                capacity: 1000,
            },
            queued: 0b101,
            ..NfView::default()
        };
        let step = |is, occupancy, service| next(is, &at(occupancy), service, &c);
        use Pressure::{Clear, Throttle, Watch};
        assert_eq!(step(Clear, 799, None), Clear);
        assert_eq!(step(Clear, 800, None), Watch);
        // 900 packets of 10 ns are 9 us, of 20 ns 18 us
        assert_eq!(step(Watch, 900, Some(10)), Watch);
        assert_eq!(step(Watch, 900, Some(20)), Throttle(0b101));
        assert_eq!(step(Watch, 700, Some(20)), Clear);
        assert_eq!(step(Throttle(1), 600, Some(20)), Throttle(1));
        assert_eq!(step(Throttle(2), 800, Some(20)), Throttle(0b111));
        assert_eq!(step(Throttle(1), 599, Some(20)), Clear);
        // a chain whose own ring here is empty again, while another one's is full
        let relieved = |is, occupancy, queued| {
            let v = NfView {
                queued,
                relieved: 0b1,
                ..at(occupancy)
            };
            next(is, &v, Some(20), &c)
        };
        assert_eq!(relieved(Throttle(0b11), 900, 0b10), Throttle(0b10));
        assert_eq!(relieved(Throttle(0b11), 700, 0), Throttle(0b10));
        assert_eq!(relieved(Throttle(0b1), 900, 0b100), Throttle(0b100));
    }

    /// Both chains are shed: one for a ring further on, the other one for that of the NF that they share.
    #[test]
    fn who_is_full_itself_does_not_relinquish() {
        let nf = crate::NfSpec {
            core: 0,
            priority: 1,
            capacity: 1000,
        };
        let t = Topology::new(1, vec![nf; 3], vec![vec![0, 1], vec![0, 2]]).unwrap();
        let mut policy = Nfvnice::new(&t, NfvniceConfig::default()).unwrap();
        let mut to = Decisions::new(&t);
        let mut decided = |round: u64, full: [(u32, ChainSet); 3]| {
            let nfs = full.map(|(occupancy, queued)| NfView {
                input: Level {
                    occupancy,
                    capacity: 1000,
                },
                queued,
                sample: Some(10_000),
                ..NfView::default()
            });
            for step in 0..3 {
                let now = round * MILLISECOND + step * MICROSECOND;
                let seen = Observation { now, nfs: &nfs };
                policy.decide(&seen, &mut to).unwrap();
            }
            (to.shed, [0, 1, 2].map(|n| to.nfs[n].relinquish))
        };
        let none = [false; 3];
        assert_eq!(decided(1, [(0, 0), (0, 0), (900, 0b10)]), (0b10, none));
        let both = [(900, 0b01), (0, 0), (900, 0b10)];
        assert_eq!(decided(2, both), (0b11, none));
        // the other chain waits further on, too
        let later = [(900, 0b01), (900, 0b01), (900, 0b10)];
        assert_eq!(decided(3, later), (0b11, [true, false, false]));
    }

    #[test]
    fn it_rests_until_a_ring_can_be_full_or_empty() {
        let nf = crate::NfSpec {
            core: 0,
            priority: 1,
            capacity: 1000,
        };
        let t = Topology::new(1, vec![nf], vec![vec![0]]).unwrap();
        let mut policy = Nfvnice::new(&t, NfvniceConfig::default()).unwrap();
        let mut to = Decisions::new(&t);
        let mut rests = |now: Nanos, occupancy, arrived| {
            let view = NfView {
                input: Level {
                    occupancy,
                    capacity: 1000,
                },
                arrived,
                sample: Some(200),
                queued: 1,
                ..NfView::default()
            };
            let nfs = &[view];
            policy.decide(&Observation { now, nfs }, &mut to).unwrap();
            policy.rests()
        };
        // 800 packets, of which one may come each microsecond; a millisecond at most, for loads
        assert_eq!(rests(MICROSECOND, 0, 0), 400_000);
        assert_eq!(rests(401_000, 600, 100), 100_000);
        // two in a microsecond: four may come
        assert_eq!(rests(501_000, 700, 300), 12_500);
        // it has to be looked at again at once while it is watched, and while nothing is known of its cost
        assert_eq!(rests(520_000, 850, 320), 10_000);
        assert_eq!(rests(540_000, 900, 340), 10_000);
        let mut last = 0;
        for ms in 1..20 {
            last = rests(ms * MILLISECOND, 900, 340);
        }
        // 300 packets of 200 ns to LOW
        assert_eq!(last, 30_000);
    }

    #[test]
    fn configurations_that_cannot_be_are_refused() {
        let nf = crate::NfSpec {
            core: 0,
            priority: 1,
            capacity: 64,
        };
        let t = Topology::new(1, vec![nf], vec![vec![0]]).unwrap();
        let new = |c| Nfvnice::new(&t, c).map(|_| ());
        let c = NfvniceConfig::default();
        let (low, high) = (80, 80);
        assert_eq!(
            new(NfvniceConfig { low, ..c }),
            Err(NfvniceError::Watermarks { low, high })
        );
        assert_eq!(
            new(NfvniceConfig { ecn_gain: 0.0, ..c }),
            Err(NfvniceError::Ecn)
        );
        assert_eq!(
            new(NfvniceConfig { period: 0, ..c }),
            Err(NfvniceError::Period)
        );
        let mut policy = Nfvnice::new(&t, c).unwrap();
        let seen = Observation { now: 0, nfs: &[] };
        let error = policy.decide(&seen, &mut Decisions::new(&t)).unwrap_err();
        assert_eq!((error.seen, error.known), (0, 1));
    }
}
