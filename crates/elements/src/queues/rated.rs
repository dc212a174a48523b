//! Token buckets: RatedUnqueue, BandwidthRatedUnqueue, RatedSplitter, BandwidthRatedSplitter (Click).
//!
//! Deliberate difference from Click: writing `active` wakes a task that had been switched off.

use super::util::{unknown, value};
use crate::token_bucket::TokenBucket;
use onefold_element::args::{Args, Bandwidth, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TaskStatus,
    element_any,
};
use onefold_packet::Pkt;

/// `RatedUnqueue`.
pub const RATED_UNQUEUE: ElementClass = ElementClass {
    name: "RatedUnqueue",
    ports: "1/1",
    processing: "l/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "RATE [, keywords BURST_DURATION, BURST_SIZE]",
    summary: "pulls at most so many packets per second and pushes them",
    new: || Box::new(RatedUnqueue::new(false)),
};
/// `BandwidthRatedUnqueue`.
pub const BANDWIDTH_RATED_UNQUEUE: ElementClass = ElementClass {
    name: "BandwidthRatedUnqueue",
    usage: "RATE [, keywords BURST_DURATION, BURST_BYTES]",
    summary: "pulls packets up to a bandwidth and pushes them",
    new: || Box::new(RatedUnqueue::new(true)),
    ..RATED_UNQUEUE
};
/// `RatedSplitter`.
pub const RATED_SPLITTER: ElementClass = ElementClass {
    name: "RatedSplitter",
    ports: "1/1-2",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "RATE [, keywords BURST_DURATION, BURST_SIZE]",
    summary: "lets so many packets per second pass, sends the rest to output 1",
    new: || Box::new(RatedSplitter(Limit::new(false))),
};
/// `BandwidthRatedSplitter`.
pub const BANDWIDTH_RATED_SPLITTER: ElementClass = ElementClass {
    name: "BandwidthRatedSplitter",
    usage: "RATE [, keywords BURST_DURATION, BURST_BYTES]",
    summary: "lets packets up to a bandwidth pass, sends the rest to output 1",
    new: || Box::new(RatedSplitter(Limit::new(true))),
    ..RATED_SPLITTER
};

/// A bandwidth limit lets packets pass while at least so many tokens (bytes) are there: no packet is longer.
const BANDWIDTH_THRESHOLD: u32 = 131_072;
/// How long a burst lasts unless told otherwise, in milliseconds.
const BURST_MS: u32 = 20;

/// A rate with its token bucket.
#[derive(Debug, Clone)]
struct Limit {
    /// Bytes per second instead of packets.
    bandwidth: bool,
    bucket: TokenBucket,
    burst_ms: u32,
    /// Capacity, when given instead of a duration.
    burst: Option<u32>,
}

impl Limit {
    fn new(bandwidth: bool) -> Self {
        Limit {
            bandwidth,
            bucket: TokenBucket::new(0, 1),
            burst_ms: BURST_MS,
            burst: None,
        }
    }

    fn configure(&mut self, args: &mut Args<'_>) -> Result<(), ConfigErrors> {
        let rate = match self.bandwidth {
            true => args.mandatory::<Bandwidth>("RATE").map(|b| b.0),
            false => args.mandatory::<u32>("RATE"),
        };
        let duration: Option<Seconds> = args.keyword("BURST_DURATION");
        let size = match self.bandwidth {
            true => "BURST_BYTES",
            false => "BURST_SIZE",
        };
        let burst: Option<u32> = args.keyword(size);
        if duration.is_some() && burst.is_some() {
            args.error(format!("cannot specify both BURST_DURATION and {size}"));
        }
        let ms = duration.map(|d| d.0.nanos().saturating_add(500_000).div_euclid(1_000_000));
        let ms = ms.map_or(Ok(BURST_MS), u32::try_from);
        if ms.is_err() {
            args.error("BURST_DURATION: out of range");
        }
        args.finish()?;
        self.burst_ms = ms.unwrap_or(BURST_MS);
        self.burst = burst;
        self.set(rate.unwrap_or(0));
        Ok(())
    }

    fn set(&mut self, rate: u32) {
        let by_time = u64::from(rate) * u64::from(self.burst_ms) / 1000;
        let mut tokens = self
            .burst
            .unwrap_or_else(|| u32::try_from(by_time).unwrap_or(u32::MAX));
        if self.bandwidth {
            tokens = tokens.saturating_add(BANDWIDTH_THRESHOLD);
        }
        self.bucket.assign(rate, tokens.max(1));
    }

    /// Tokens without which nothing passes.
    fn needed(&self) -> u32 {
        if self.bandwidth {
            BANDWIDTH_THRESHOLD
        } else {
            1
        }
    }

    /// What a packet costs.
    fn cost(&self, p: &Pkt) -> u32 {
        if self.bandwidth {
            u32::try_from(p.len()).unwrap_or(u32::MAX)
        } else {
            1
        }
    }

    /// May a packet pass now?
    fn ready(&mut self, cx: &Cx<'_>) -> bool {
        self.bucket.refill(cx.now);
        self.bucket.contains(self.needed())
    }

    fn text(&self) -> String {
        let r = self.bucket.rate();
        match self.bandwidth {
            true => Bandwidth(r).text(),
            false => r.to_string(),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), HandlerError> {
        let rate = match self.bandwidth {
            true => value::<Bandwidth>("rate", text)?.0,
            false => value::<u32>("rate", text)?,
        };
        self.set(rate);
        Ok(())
    }
}

#[derive(Debug, Clone)]
struct RatedUnqueue {
    limit: Limit,
    active: bool,
    runs: u32,
    pushes: u32,
    failed: u32,
    empty: u32,
}

impl RatedUnqueue {
    fn new(bandwidth: bool) -> Self {
        RatedUnqueue {
            limit: Limit::new(bandwidth),
            active: true,
            runs: 0,
            pushes: 0,
            failed: 0,
            empty: 0,
        }
    }
}

impl Element for RatedUnqueue {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.limit.configure(args)
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        self.runs = self.runs.wrapping_add(1);
        if !self.active {
            return TaskStatus::Sleep;
        }
        if !self.limit.ready(cx) {
            self.empty = self.empty.wrapping_add(1);
            if let Some(wait) = self.limit.bucket.time_until(self.limit.needed()) {
                cx.set_timer_after(0, wait);
            }
            return TaskStatus::Sleep;
        }
        let Some(p) = cx.pull(0) else {
            self.failed = self.failed.wrapping_add(1);
            return TaskStatus::Sleep;
        };
        self.limit.bucket.remove(self.limit.cost(&p));
        self.pushes = self.pushes.wrapping_add(1);
        cx.emit(0, p);
        TaskStatus::Reschedule
    }

    fn run_timer(&mut self, _: u32, cx: &mut Cx<'_>) {
        cx.wake_task();
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("calls"),
            HandlerInfo::rw("rate").sets(0, "RATE"),
            HandlerInfo::rw("active"),
            HandlerInfo::r("config"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "calls" => format!(
                "{} calls to run_task()\n{} empty runs\n{} pushes\n{} failed pulls\n",
                self.runs, self.empty, self.pushes, self.failed
            ),
            "rate" | "config" => self.limit.text(),
            "active" => self.active.to_string(),
            _ => return unknown(name),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "rate" => self.limit.write(text)?,
            "active" => self.active = value(name, text)?,
            _ => return unknown(name),
        }
        cx.wake_task();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct RatedSplitter(Limit);

impl Element for RatedSplitter {
    /// Its bucket is refilled by the millisecond.
    fn batching(&self, _: Batching) -> Batching {
        Batching::InOrder
    }
    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.0.configure(args)
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("time")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if self.0.ready(cx) {
            self.0.bucket.remove(self.0.cost(&p));
            cx.decide(Some(0), || "within the rate".to_string());
            cx.emit(0, p);
        } else {
            cx.decide(Some(0), || "above the rate".to_string());
            cx.emit_or_drop(1, p, "RatedSplitter: above the rate");
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("rate"), HandlerInfo::r("config")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "rate" | "config" => Ok(self.0.text()),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "rate" => self.0.write(text),
            _ => unknown(name),
        }
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_element::TaskStatus;
    use onefold_packet::{Packet, Timestamp};

    fn feed(b: &mut Bench, n: usize, len: usize) {
        let q = b.host.upstream.entry(0).or_default();
        q.extend((0..n).map(|_| Box::new(Packet::from_slice(&vec![0; len]))));
    }

    /// Runs the task whenever it wants to until `until`; says how many packets came.
    fn run(b: &mut Bench, until: Timestamp) -> usize {
        let mut n = 0;
        loop {
            loop {
                let s = b.with(|e, cx| e.run_task(cx));
                n += b.emitted().len();
                if s == TaskStatus::Sleep {
                    break;
                }
            }
            match b.host.timers.values().min().copied() {
                Some(t) if t <= until => {
                    b.advance_to(t);
                }
                _ => return n,
            }
        }
    }

    #[test]
    fn a_burst_of_20_ms_then_the_rate() {
        let mut b = Bench::new("RatedUnqueue", "1000", 1, 1).unwrap();
        feed(&mut b, 5000, 60);
        b.now = Timestamp::from_secs(10);
        let n = run(&mut b, Timestamp::from_secs(12));
        // 20 at once, 1000 per second after that
        assert!((2010..=2021).contains(&n), "{n}");
        assert_eq!(b.read("rate").unwrap(), "1000");
        assert!(b.read("calls").unwrap().contains(&format!("{n} pushes\n")));
        b.write("rate", "10").unwrap();
        assert_eq!(b.read("config").unwrap(), "10");
        assert!(b.write("rate", "-1").is_err());
    }

    #[test]
    fn bandwidth_in_bytes() {
        let mut b = Bench::new("BandwidthRatedUnqueue", "1MBps", 1, 1).unwrap();
        feed(&mut b, 20_000, 1000);
        b.now = Timestamp::from_secs(10);
        let n = run(&mut b, Timestamp::from_secs(12));
        assert!((1990..=2025).contains(&n), "{n}");
        // integer arithmetic cannot express the rate exactly
        assert_eq!(b.read("rate").unwrap(), "8.004Mbps");
    }

    #[test]
    fn splitter_keeps_the_base_rate() {
        let mut b = Bench::new("RatedSplitter", "1000, BURST_SIZE 5", 1, 2).unwrap();
        let mut n = [0; 2];
        for us in 0..10_000 {
            b.now = Timestamp::from_secs(10) + Timestamp::from_micros(us * 100);
            n[b.push(0, &[0; 60])[0].0] += 1;
        }
        assert!((1000..=1006).contains(&n[0]), "{n:?}");
        assert_eq!(n[0] + n[1], 10_000);
        let mut b = Bench::new("BandwidthRatedSplitter", "80kbps, BURST_BYTES 2000", 1, 1).unwrap();
        let sent = (0..100)
            .filter(|_| !b.push(0, &[0; 100]).is_empty())
            .count();
        assert_eq!(sent, 21);
        assert_eq!(b.drops()["RatedSplitter: above the rate"], 79);
        assert_eq!(b.read("rate").unwrap(), "80.04kbps");
    }

    #[test]
    fn argument_errors() {
        let e = Bench::new("RatedUnqueue", "5, BURST_SIZE 3, BURST_DURATION 1", 1, 1);
        assert_eq!(
            e.err().unwrap(),
            ["cannot specify both BURST_DURATION and BURST_SIZE"]
        );
        assert!(Bench::new("RatedUnqueue", "", 1, 1).is_err());
        assert!(Bench::new("BandwidthRatedUnqueue", "3foo", 1, 1).is_err());
        assert!(Bench::new("RatedSplitter", "3, BURST_DURATION -1", 1, 1).is_err());
    }
}
