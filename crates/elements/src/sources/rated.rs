//! RatedSource: packets at a rate.
//!
//! Click element RatedSource, with FastClick's END_CALL; HEADROOM is accepted. The rate is kept by Click's token
//! bucket, which is refilled every millisecond.

use super::data::{DEFAULT_DATA, repeated};
use super::util::{AtEnd, value};
use crate::token_bucket::TokenBucket;
use onefold_element::args::{Args, Bandwidth, Data};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx, Port, TaskStatus, TimerId,
    element_any,
};
use onefold_packet::Pkt;

/// `RatedSource`.
pub const RATED_SOURCE: ElementClass = ElementClass {
    name: "RatedSource",
    ports: "0/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "[DATA, RATE, LIMIT, ACTIVE, keywords LENGTH, BANDWIDTH, STOP, END_CALL]",
    summary: "makes RATE packets per second",
    new: || Box::new(RatedSource::default()),
};

/// Burst that goes with a rate.
fn burst(rate: u32) -> u32 {
    if rate < 200 { 2 } else { rate / 100 }
}

#[derive(Debug, Clone)]
struct RatedSource {
    data: Vec<u8>,
    length: i32,
    packet: Vec<u8>,
    bucket: TokenBucket,
    limit: Option<u32>,
    active: bool,
    at_end: Option<AtEnd>,
    count: u32,
    push: bool,
}

impl Default for RatedSource {
    fn default() -> Self {
        RatedSource {
            data: DEFAULT_DATA.to_vec(),
            length: -1,
            packet: DEFAULT_DATA.to_vec(),
            bucket: TokenBucket::new(10, 2),
            limit: None,
            active: true,
            at_end: None,
            count: 0,
            push: false,
        }
    }
}

impl RatedSource {
    /// A packet if one is due; sets the timer if one will be.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Pkt> {
        if !self.active {
            return None;
        }
        if self.limit.is_some_and(|l| self.count >= l) {
            if let Some(end) = &self.at_end {
                end.later(cx);
            }
            return None;
        }
        self.bucket.refill(cx.now);
        if !self.bucket.remove_if(1) {
            if let Some(wait) = self.bucket.time_until(1) {
                cx.set_timer_after(0, wait);
            }
            return None;
        }
        self.count = self.count.saturating_add(1);
        let mut p = cx.make(&self.packet);
        p.anno.timestamp = cx.now;
        Some(p)
    }

    fn wake(&mut self, cx: &mut Cx<'_>) {
        match self.push {
            true => cx.wake_task(),
            false => cx.notify_nonempty(),
        }
    }
}

fn limit(n: i32) -> Option<u32> {
    u32::try_from(n).ok()
}

impl Element for RatedSource {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(Data(d)) = args.optional("DATA") {
            self.data = d;
        }
        let mut rate = args.optional("RATE").unwrap_or(10u32);
        self.limit = limit(args.optional("LIMIT").unwrap_or(-1));
        self.active = args.optional("ACTIVE").unwrap_or(true);
        self.length = args.keyword("LENGTH").unwrap_or(-1);
        self.length = args.keyword("DATASIZE").unwrap_or(self.length);
        let bandwidth: Option<Bandwidth> = args.keyword("BANDWIDTH");
        let _: Option<u32> = args.keyword("HEADROOM");
        self.at_end = AtEnd::configure(args);
        self.packet = repeated(&self.data, self.length);
        let mut capacity = burst(rate);
        if let Some(Bandwidth(b)) = bandwidth.filter(|b| b.0 > 0) {
            // packets are far below 4 GiB
            match b.checked_div(self.packet.len() as u32) {
                Some(r) => rate = r,
                None => args.error("BANDWIDTH: the packet is empty"),
            }
            let twice = u32::try_from(self.length).unwrap_or(0).saturating_mul(2);
            capacity = burst(rate).max(twice);
        }
        self.bucket = TokenBucket::new(rate, capacity);
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.push = cx.output_is_push(0);
        self.bucket.set(1);
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("RatedSource: makes packets, takes none")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "RatedSource: takes no packets");
    }

    fn has_task(&self) -> bool {
        self.push
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        match self.next(cx) {
            Some(p) => {
                cx.emit(0, p);
                TaskStatus::Reschedule
            }
            None => TaskStatus::Sleep,
        }
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        self.next(cx)
    }

    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        self.wake(cx);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("data"),
            HandlerInfo::rw("rate"),
            HandlerInfo::rw("limit"),
            HandlerInfo::rw("active"),
            HandlerInfo::r("count"),
            HandlerInfo::button("reset"),
            HandlerInfo::rw("length"),
            HandlerInfo::rw("datasize"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "rate" => self.bucket.rate().to_string(),
            "limit" => self.limit.map_or("-1".to_string(), |l| l.to_string()),
            "active" => self.active.to_string(),
            "count" => self.count.to_string(),
            "length" | "datasize" => self.length.to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let bad = |_| HandlerError::BadValue("syntax error".to_string());
        match name {
            "data" => {
                self.data = text.as_bytes().to_vec();
                // LENGTH does not apply to data that is given later
                self.packet = repeated(&self.data, -1);
            }
            "rate" => {
                let rate: u32 = value(text).map_err(bad)?;
                self.bucket.assign_adjust(rate, burst(rate));
                self.wake(cx);
            }
            "limit" => self.limit = limit(value(text).map_err(bad)?),
            "active" => {
                let active =
                    parse_bool(text).map_err(|_| bad(HandlerError::Busy(String::new())))?;
                if active && !self.active {
                    self.bucket.set(1);
                }
                self.active = active;
                if active {
                    self.wake(cx);
                }
            }
            "reset" => {
                self.count = 0;
                self.bucket.set(1);
                if self.active {
                    self.wake(cx);
                }
            }
            "length" | "datasize" => {
                self.length = value(text).map_err(bad)?;
                self.packet = repeated(&self.data, self.length);
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Timestamp;

    /// Runs task and timers from second 1 to `end` milliseconds.
    fn run(b: &mut Bench, end: i64) -> usize {
        let mut n = 0;
        loop {
            loop {
                let out = b.run_task().len();
                n += out;
                if out == 0 {
                    break;
                }
            }
            let Some(at) = b.host.timers.get(&0).copied() else {
                return n;
            };
            if at > Timestamp::from_millis(end) {
                return n;
            }
            b.advance_to(at);
        }
    }

    #[test]
    fn keeps_the_rate_and_stops() {
        let mut b = Bench::new("RatedSource", "RATE 100, LIMIT 150, STOP true", 0, 1).unwrap();
        let n = run(&mut b, 2000);
        assert!((88..=104).contains(&n), "{n}");
        assert_eq!(b.read("rate").unwrap(), "100");
        run(&mut b, 10_000);
        assert_eq!(b.read("count").unwrap(), "150");
        assert!(b.host.stopped);
    }

    #[test]
    fn bandwidth_sets_the_rate() {
        let mut b = Bench::new("RatedSource", "LENGTH 100, BANDWIDTH 80kbps", 0, 1).unwrap();
        assert_eq!(b.read("rate").unwrap(), "100");
        assert_eq!(b.run_task()[0].1.len(), 100);
        assert!(Bench::new("RatedSource", "LENGTH 0, BANDWIDTH 80kbps", 0, 1).is_err());
    }

    #[test]
    fn rate_of_nothing_and_handlers() {
        let mut b = Bench::new("RatedSource", "RATE 0, ACTIVE false", 0, 1).unwrap();
        assert_eq!(run(&mut b, 5000), 0);
        b.write("active", "true").unwrap();
        assert!(b.host.woken > 0);
        assert!(run(&mut b, 5000) >= 1);
        assert!(b.host.timers.is_empty());
        b.write("rate", "1000").unwrap();
        assert_eq!(b.read("rate").unwrap(), "1000");
        assert!(run(&mut b, 6000) > 500);
        assert!(b.write("rate", "x").is_err());
        b.write("data", "abc").unwrap();
        assert_eq!(b.read("data").unwrap(), "abc");
    }
}
