//! Time stamp annotations: SetTimestamp, SetTimestampDelta, AdjustTimestamp, TimeRange, TimestampAccum.
//!
//! The "first timestamp" annotation is eight bytes, nanoseconds in host order, as in a nanosecond-precision Click.

use super::one_to_one;
use onefold_element::args::{Args, Seconds, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx, Op};
use onefold_element::unparse::general12;
use onefold_element::{
    Batching, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Anno, Pkt, Timestamp, anno_field};

const FIRST: usize = anno_field::FIRST_TIMESTAMP.offset as usize;

fn first_timestamp(a: &Anno) -> Timestamp {
    let bytes = a.bytes().get(FIRST..).and_then(|b| b.first_chunk::<8>());
    Timestamp(bytes.map_or(0, |b| i64::from_ne_bytes(*b)))
}

fn set_first_timestamp(a: &mut Anno, t: Timestamp) {
    if let Some(b) = a.bytes_mut().get_mut(FIRST..FIRST + 8) {
        b.copy_from_slice(&t.0.to_ne_bytes());
    }
}

/// `SetTimestamp`.
pub const SET_TIMESTAMP: ElementClass = one_to_one(
    "SetTimestamp",
    Effect::Timed,
    "[TIMESTAMP, keywords FIRST, PER_BATCH]",
    "sets the time stamp to the present or a given time",
    || Box::new(SetTimestamp::default()),
);

#[derive(Debug, Clone, Default)]
struct SetTimestamp {
    /// `None`: the present.
    time: Option<Timestamp>,
    first: bool,
}

impl Element for SetTimestamp {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.time = args.optional("TIMESTAMP").map(|s: Seconds| s.0);
        self.first = args.keyword("FIRST").unwrap_or(false);
        // one time per batch is how it is anyway
        let _: Option<bool> = args.keyword("PER_BATCH");
        if self.time.is_some_and(|t| t.0 < 0) {
            args.error("TIMESTAMP: must not be negative");
        }
        if args.keyword("DELTA") == Some(true) {
            args.error("DELTA is gone, use SetTimestampDelta(TYPE FIRST)");
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let t = self.time.unwrap_or(cx.now);
        if self.first {
            set_first_timestamp(&mut p.anno, t);
        } else {
            p.anno.timestamp = t;
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.first {
            true => {
                Model::None("SetTimestamp: the first time stamp is kept in the host's byte order")
            }
            false => Model::pass([Op::SetTime(self.time)]),
        }
    }
    element_any!();
}

/// `SetTimestampDelta`.
pub const SET_TIMESTAMP_DELTA: ElementClass = one_to_one(
    "SetTimestampDelta",
    Effect::OrderSensitive,
    "[keyword TYPE (RANGE, NOW or FIRST)]",
    "replaces time stamps by differences",
    || Box::new(SetTimestampDelta::default()),
);

#[derive(Debug, Clone, Copy, Default)]
enum Delta {
    /// To the first packet's time stamp.
    #[default]
    Range,
    /// From the time stamp to the present.
    Now,
    /// To the packet's first time stamp.
    First,
}

#[derive(Debug, Clone, Default)]
struct SetTimestampDelta {
    kind: Delta,
    /// Zero until a packet with a time stamp came.
    first: Timestamp,
}

impl Element for SetTimestampDelta {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(Word(w)) = args.keyword("TYPE") {
            match w.as_str() {
                "RANGE" => self.kind = Delta::Range,
                "NOW" => self.kind = Delta::Now,
                "FIRST" => self.kind = Delta::First,
                _ => args.error(format!("TYPE: expected RANGE, NOW or FIRST, found '{w}'")),
            }
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let t = p.anno.timestamp;
        if t.is_set() {
            p.anno.timestamp = match self.kind {
                Delta::Range => {
                    if !self.first.is_set() {
                        self.first = t;
                    }
                    t - self.first
                }
                Delta::Now => cx.now - t,
                Delta::First => t - first_timestamp(&p.anno),
            };
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("SetTimestampDelta: time stamps are subtracted")
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("first"), HandlerInfo::button("reset")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "first" => Ok(format!("{}\n", self.first)),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset" => self.first = Timestamp::ZERO,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

/// `AdjustTimestamp`.
pub const ADJUST_TIMESTAMP: ElementClass = one_to_one(
    "AdjustTimestamp",
    Effect::Pure,
    "TIME [, keywords FIRST, ALL]",
    "adds to time stamps",
    || Box::new(AdjustTimestamp::default()),
);

#[derive(Debug, Clone, Default)]
struct AdjustTimestamp {
    by: Timestamp,
    first: bool,
    /// Adjust zero time stamps too.
    all: bool,
}

impl Element for AdjustTimestamp {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.by = args
            .optional("TIME")
            .map_or(Timestamp::ZERO, |s: Seconds| s.0);
        self.first = args.keyword("FIRST").unwrap_or(false);
        self.all = args.keyword("ALL").unwrap_or(false);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let t = if self.first {
            first_timestamp(&p.anno)
        } else {
            p.anno.timestamp
        };
        if t.is_set() || self.all {
            if self.first {
                set_first_timestamp(&mut p.anno, t + self.by);
            } else {
                p.anno.timestamp = t + self.by;
            }
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("AdjustTimestamp: time stamps are added to")
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("time")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "time" => Ok(self.by.interval_text()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "time" => self.by = cx.value::<Seconds>(name, value)?.0,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

/// `TimeRange`.
pub const TIME_RANGE: ElementClass = one_to_one(
    "TimeRange",
    Effect::CommutativeCount,
    "[keyword SIMPLE]",
    "notes the earliest and the latest time stamp",
    || Box::new(TimeRange::default()),
);

#[derive(Debug, Clone, Default)]
struct TimeRange {
    /// Time stamps never fall: the latest is the last.
    simple: bool,
    first: Timestamp,
    last: Timestamp,
}

impl Element for TimeRange {
    /// With SIMPLE, the last time stamp counts.
    fn batching(&self, class: Batching) -> Batching {
        match self.simple {
            true => Batching::InOrder,
            false => class,
        }
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.simple = args.keyword("SIMPLE").unwrap_or(false);
        args.finish()
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let t = p.anno.timestamp;
        if !self.first.is_set() {
            (self.first, self.last) = (t, t);
        } else if self.simple || self.last < t {
            self.last = t;
        } else if t < self.first {
            self.first = t;
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("TimeRange: notes the time stamp")
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("first"),
            HandlerInfo::r("last"),
            HandlerInfo::r("range"),
            HandlerInfo::r("interval"),
            HandlerInfo::button("reset"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "first" => Ok(self.first.to_string()),
            "last" => Ok(self.last.to_string()),
            "range" => Ok(format!("{} {}", self.first, self.last)),
            "interval" => Ok((self.last - self.first).to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset" => (self.first, self.last) = (Timestamp::ZERO, Timestamp::ZERO),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

/// `TimestampAccum`.
pub const TIMESTAMP_ACCUM: ElementClass = one_to_one(
    "TimestampAccum",
    Effect::Timed,
    "",
    "sums the time from each packet's time stamp to the present",
    || Box::new(TimestampAccum::default()),
);

#[derive(Debug, Clone, Default)]
struct TimestampAccum {
    seconds: f64,
    count: u64,
}

impl Element for TimestampAccum {
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.seconds += (cx.now - p.anno.timestamp).as_secs_f64();
        self.count += 1;
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("TimestampAccum: sums time stamps")
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::r("time"),
            HandlerInfo::r("average_time"),
            HandlerInfo::button("reset_counts").counts(),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "count" => Ok(self.count.to_string()),
            "time" => Ok(general12(self.seconds)),
            "average_time" => Ok(general12(self.seconds / self.count as f64)),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => *self = TimestampAccum::default(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Pkt, Timestamp};

    fn at(ms: i64) -> Pkt {
        let mut p = Packet::from_slice(b"x");
        p.anno.timestamp = Timestamp::from_millis(ms);
        Box::new(p)
    }

    #[test]
    fn set() {
        let mut b = Bench::new("SetTimestamp", "", 1, 1).unwrap();
        assert_eq!(b.push(0, b"")[0].1.anno.timestamp, Timestamp::from_secs(1));
        let mut b = Bench::new("SetTimestamp", "5.5, FIRST true", 1, 1).unwrap();
        let p = b.push(0, b"").remove(0).1;
        assert_eq!(p.anno.timestamp, Timestamp::ZERO);
        assert_eq!(p.anno.bytes()[32..40], 5_500_000_000i64.to_ne_bytes());
        let mut d = Bench::new("SetTimestampDelta", "TYPE FIRST", 1, 1).unwrap();
        assert!(!d.push_packet(0, p.clone())[0].1.anno.timestamp.is_set());
        let mut q = p;
        q.anno.timestamp = Timestamp::from_secs(6);
        assert_eq!(
            d.push_packet(0, q)[0].1.anno.timestamp,
            Timestamp::from_millis(500)
        );
        for bad in ["x", "-1", "FIRST 9", "1, DELTA true"] {
            assert!(Bench::new("SetTimestamp", bad, 1, 1).is_err(), "{bad}");
        }
    }

    #[test]
    fn deltas() {
        let mut b = Bench::new("SetTimestampDelta", "", 1, 1).unwrap();
        let _ = b.push_packet(0, at(0));
        assert_eq!(b.read("first").unwrap(), "0.000000\n");
        assert!(!b.push_packet(0, at(3000))[0].1.anno.timestamp.is_set());
        assert_eq!(
            b.push_packet(0, at(2500))[0].1.anno.timestamp,
            Timestamp::from_millis(-500)
        );
        assert_eq!(b.read("first").unwrap(), "3.000000\n");
        b.write("reset", "").unwrap();
        assert_eq!(b.push_packet(0, at(5))[0].1.anno.timestamp, Timestamp::ZERO);
        let mut b = Bench::new("SetTimestampDelta", "TYPE NOW", 1, 1).unwrap();
        assert_eq!(
            b.push_packet(0, at(250))[0].1.anno.timestamp,
            Timestamp::from_millis(750)
        );
        assert!(Bench::new("SetTimestampDelta", "TYPE x", 1, 1).is_err());
    }

    #[test]
    fn adjust() {
        let mut b = Bench::new("AdjustTimestamp", "-1.5", 1, 1).unwrap();
        assert_eq!(
            b.push_packet(0, at(2000))[0].1.anno.timestamp,
            Timestamp::from_millis(500)
        );
        assert_eq!(b.push_packet(0, at(0))[0].1.anno.timestamp, Timestamp::ZERO);
        assert_eq!(b.read("time").unwrap(), "-1.500000s");
        b.write("time", "2").unwrap();
        let mut b = Bench::new("AdjustTimestamp", "1, ALL true, FIRST true", 1, 1).unwrap();
        assert_eq!(
            b.push_packet(0, at(0))[0].1.anno.bytes()[32..40],
            1_000_000_000i64.to_ne_bytes()
        );
    }

    #[test]
    fn range_and_sum() {
        let mut b = Bench::new("TimeRange", "", 1, 1).unwrap();
        assert_eq!(b.read("range").unwrap(), "0.000000 0.000000");
        for t in [500, 700, 300, 400] {
            let _ = b.push_packet(0, at(t));
        }
        assert_eq!(b.read("range").unwrap(), "0.300000 0.700000");
        assert_eq!(b.read("interval").unwrap(), "0.400000");
        b.write("reset", "").unwrap();
        assert_eq!(b.read("last").unwrap(), "0.000000");
        let mut b = Bench::new("TimestampAccum", "", 1, 1).unwrap();
        assert_eq!(b.read("average_time").unwrap(), "-nan");
        for t in [500, 750] {
            let _ = b.push_packet(0, at(t));
        }
        assert_eq!(b.read("time").unwrap(), "0.75");
        assert_eq!(b.read("average_time").unwrap(), "0.375");
        b.write("reset_counts", "").unwrap();
        assert_eq!(b.read("count").unwrap(), "0");
    }
}
