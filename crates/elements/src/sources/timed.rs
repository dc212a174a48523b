//! TimedSource, TimedSink: a packet every so often.
//!
//! Click elements TimedSource, TimedSink. HEADROOM is accepted; headroom grows by itself here.

use super::data::DEFAULT_DATA;
use super::util::value;
use onefold_element::args::{Args, Data, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TimerId, element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `TimedSource`.
pub const TIMED_SOURCE: ElementClass = ElementClass {
    name: "TimedSource",
    ports: "0/1",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "[INTERVAL, DATA, keywords LIMIT, ACTIVE, STOP, HEADROOM]",
    summary: "makes a packet every INTERVAL",
    new: || Box::new(TimedSource::default()),
};

/// `TimedSink`.
pub const TIMED_SINK: ElementClass = ElementClass {
    name: "TimedSink",
    ports: "1/0",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "[INTERVAL]",
    summary: "pulls a packet every INTERVAL and drops it",
    new: || {
        Box::new(TimedSink {
            interval: Timestamp::from_millis(500),
            at: Timestamp::ZERO,
        })
    },
};

#[derive(Debug, Clone)]
struct TimedSink {
    interval: Timestamp,
    /// When the timer is set for.
    at: Timestamp,
}

impl TimedSink {
    fn schedule(&mut self, from: Timestamp, cx: &mut Cx<'_>) {
        // an interval of nothing must not stop the clock
        self.at = from + self.interval.max(Timestamp(1));
        cx.set_timer(0, self.at);
    }
}

impl Element for TimedSink {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(Seconds(t)) = args.optional("INTERVAL") {
            self.interval = t;
        }
        args.finish()
    }
    fn started(&mut self, cx: &mut Cx<'_>) {
        self.schedule(cx.now, cx);
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "TimedSink: discarded");
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let exit = Exit::Drop("TimedSink: discarded");
        Model::Cases(vec![Case::new(Cond::Always, exit)])
    }
    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        if let Some(p) = cx.pull(0) {
            cx.drop(p, "TimedSink: discarded");
        }
        self.schedule(self.at, cx);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("interval")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "interval" => Ok(interval_text(self.interval)),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, text: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "interval" => self.interval = positive_interval(text)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

/// An interval that a handler sets.
fn positive_interval(text: &str) -> Result<Timestamp, HandlerError> {
    match value(text) {
        Ok(Seconds(t)) if t > Timestamp::ZERO => Ok(t),
        _ => Err(HandlerError::BadValue("bad interval".to_string())),
    }
}

/// Click's default headroom; only shown.
const HEADROOM: u32 = 28;

#[derive(Debug, Clone)]
struct TimedSource {
    interval: Timestamp,
    data: Vec<u8>,
    limit: i32,
    active: bool,
    stop: bool,
    headroom: u32,
    count: i32,
    /// When the timer is set for.
    at: Option<Timestamp>,
}

impl Default for TimedSource {
    fn default() -> Self {
        TimedSource {
            interval: Timestamp::from_millis(500),
            data: DEFAULT_DATA.to_vec(),
            limit: -1,
            active: true,
            stop: false,
            headroom: HEADROOM,
            count: 0,
            at: None,
        }
    }
}

impl TimedSource {
    fn schedule(&mut self, at: Timestamp, cx: &mut Cx<'_>) {
        self.at = Some(at);
        cx.set_timer(0, at);
    }
    fn schedule_now(&mut self, cx: &mut Cx<'_>) {
        if self.at.is_none() && self.active {
            self.schedule(cx.now, cx);
        }
    }
}

impl Element for TimedSource {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(Seconds(t)) = args.optional("INTERVAL") {
            self.interval = t;
        }
        if let Some(Data(d)) = args.optional("DATA") {
            self.data = d;
        }
        self.limit = args.keyword("LIMIT").unwrap_or(-1);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        self.stop = args.keyword("STOP").unwrap_or(false);
        self.headroom = args.keyword("HEADROOM").unwrap_or(HEADROOM);
        args.finish()
    }

    fn started(&mut self, cx: &mut Cx<'_>) {
        if self.active {
            self.schedule(cx.now + self.interval, cx);
        }
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "TimedSource: takes no packets");
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("TimedSource: makes packets, takes none")
    }

    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        let due = self.at.take().unwrap_or(cx.now);
        if !self.active {
            return;
        }
        if self.limit < 0 || self.count < self.limit {
            let mut p = cx.make(&self.data);
            p.anno.timestamp = cx.now;
            cx.emit(0, p);
            self.count = self.count.saturating_add(1);
            // an interval of nothing must not stop the clock
            let step = self.interval.max(Timestamp(1));
            self.schedule(due + step, cx);
        } else if self.stop {
            cx.host.stop();
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("data"),
            HandlerInfo::rw("limit"),
            HandlerInfo::rw("interval"),
            HandlerInfo::rw("active"),
            HandlerInfo::r("count"),
            HandlerInfo::rw("headroom"),
            HandlerInfo::button("reset"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "data" => String::from_utf8_lossy(&self.data).into_owned(),
            "limit" => self.limit.to_string(),
            "interval" => interval_text(self.interval),
            "active" => self.active.to_string(),
            "count" => self.count.to_string(),
            "headroom" => self.headroom.to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let bad = |m: &str| HandlerError::BadValue(m.to_string());
        match name {
            "data" => self.data = text.as_bytes().to_vec(),
            "limit" => self.limit = value(text)?,
            "interval" => self.interval = positive_interval(text)?,
            "active" => {
                self.active = parse_bool(text).map_err(|_| bad("bad active"))?;
                self.schedule_now(cx);
            }
            "headroom" => self.headroom = value(text).map_err(|_| bad("bad headroom"))?,
            "reset" => {
                self.count = 0;
                self.schedule_now(cx);
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

/// A time span as Click's `unparse_interval` writes it: below a second in the largest unit that gives a whole number.
fn interval_text(t: Timestamp) -> String {
    match (t.sec(), t.subsec_nanos()) {
        (0, n) if n % 1_000_000 == 0 => format!("{}ms", n / 1_000_000),
        (0, n) if n % 1_000 == 0 => format!("{}us", n / 1_000),
        (0, n) => format!("{n}ns"),
        _ => format!("{t}s"),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Timestamp;

    #[test]
    fn a_packet_every_interval_then_the_end() {
        let mut b = Bench::new("TimedSource", "0.1, DATA hi, LIMIT 3, STOP true", 0, 1).unwrap();
        b.with(|e, cx| e.started(cx));
        assert!(b.advance_to(Timestamp::from_millis(1050)).is_empty());
        let out = b.advance_to(Timestamp::from_millis(1250));
        assert_eq!(out.len(), 2);
        assert_eq!(out[1].1.data(), b"hi");
        assert_eq!(out[1].1.anno.timestamp, Timestamp::from_millis(1200));
        assert_eq!(b.advance_to(Timestamp::from_millis(1350)).len(), 1);
        assert!(!b.host.stopped);
        b.advance_to(Timestamp::from_millis(1450));
        assert!(b.host.stopped && b.host.timers.is_empty());
        b.write("reset", "").unwrap();
        assert_eq!(b.advance_to(Timestamp::from_millis(1451)).len(), 1);
        assert_eq!(b.read("count").unwrap(), "1");
    }

    #[test]
    fn the_sink_pulls_on_time() {
        let mut b = Bench::new("TimedSink", "0.1", 1, 0).unwrap();
        b.with(|e, cx| e.started(cx));
        for _ in 0..5 {
            let p = Box::new(onefold_packet::Packet::from_slice(b"x"));
            b.host.upstream.entry(0).or_default().push_back(p);
        }
        b.advance_to(Timestamp::from_millis(1350));
        assert_eq!(b.drops()["TimedSink: discarded"], 3);
        b.write("interval", "1").unwrap();
        assert_eq!(b.read("interval").unwrap(), "1.000000s");
    }

    #[test]
    fn handlers() {
        let mut b = Bench::new("TimedSource", "ACTIVE false", 0, 1).unwrap();
        b.with(|e, cx| e.started(cx));
        assert!(b.host.timers.is_empty());
        assert_eq!(b.read("interval").unwrap(), "500ms");
        b.write("interval", "2").unwrap();
        assert_eq!(b.read("interval").unwrap(), "2.000000s");
        assert!(b.write("interval", "0").is_err());
        b.write("active", "true").unwrap();
        assert_eq!(b.host.timers.len(), 1);
    }
}
