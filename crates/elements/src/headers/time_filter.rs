//! TimeFilter: lets packets through whose time stamps lie in a range.
//!
//! Different from Click: writing `end` sets the end (in Click that handler has been overwritten by the one for
//! `interval`, which cannot be written). In a pull context, END_CALL is made after the packet that triggered it has
//! been refused, except for calls to this element's own handlers, which are made at once and so may let that packet
//! through, as documented.

use super::with_refusals;
use onefold_element::args::{AnyArg, Args, Seconds, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Batching, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx, Port, Processing,
    element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `TimeFilter`.
pub const TIME_FILTER: ElementClass = with_refusals(
    "TimeFilter",
    Effect::OrderSensitive,
    "keywords START, START_AFTER, START_DELAY, END, END_AFTER, END_DELAY, INTERVAL, STOP, END_CALL",
    "lets packets through whose time stamps lie in a range",
    || Box::new(TimeFilter::default()),
);

/// What a bound is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Base {
    #[default]
    Absolute,
    /// The first packet's time stamp.
    FirstPacket,
    /// The time of initialization.
    Start,
    /// The lower bound.
    Interval,
}

/// What happens when the first packet at or after the end comes.
#[derive(Debug, Clone, Default)]
enum AtEnd {
    #[default]
    Nothing,
    Stop,
    Call(String, String),
}

#[derive(Debug, Clone, Default)]
struct TimeFilter {
    first: Timestamp,
    first_base: Base,
    last: Timestamp,
    last_base: Base,
    /// Bounds relative to the first packet have been fixed.
    ready: bool,
    at_end: AtEnd,
    armed: bool,
    /// Packets are pulled.
    pull: bool,
    /// END_CALL is under way, and the end was then: packets wait for it.
    calling: Option<Timestamp>,
}

/// The input at which a packet comes back when END_CALL has been made.
const CALLED: Port = 1;

/// At most one of several times; zero counts as not given, as in Click.
fn one_of(
    args: &mut Args<'_>,
    names: &[(&str, Base)],
    optional: &str,
) -> (Timestamp, Option<Base>) {
    let mut got = (Timestamp::ZERO, None);
    for (name, base) in names {
        let t: Option<Seconds> = if *name == optional {
            args.optional(name)
        } else {
            args.keyword(name)
        };
        match t {
            Some(Seconds(t)) if t.0 < 0 => args.error(format!("{name}: must not be negative")),
            Some(Seconds(t)) if t.is_set() => {
                if got.1.is_some() {
                    let all: Vec<&str> = names.iter().map(|n| n.0).collect();
                    args.error(format!("{} are mutually exclusive", all.join(", ")));
                }
                got = (t, Some(*base));
            }
            _ => {}
        }
    }
    got
}

impl TimeFilter {
    fn first_packet(&mut self, t: Timestamp) {
        if self.first_base == Base::FirstPacket {
            self.first = self.first + t;
        }
        match self.last_base {
            Base::FirstPacket => self.last = self.last + t,
            Base::Interval => self.last = self.last + self.first,
            Base::Absolute | Base::Start => {}
        }
        self.ready = true;
    }

    /// Sets one of the times.
    fn set(&mut self, name: &str, t: Timestamp) -> Result<(), HandlerError> {
        match name {
            "start" => {
                if !self.ready {
                    self.first_packet(t);
                }
                self.first = t;
                return Ok(());
            }
            "end" => {
                self.last = t;
                self.last_base = Base::Absolute;
            }
            "interval" => self.last = self.first + t,
            "extend_interval" => self.last = self.last + t,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        self.armed = true;
        Ok(())
    }

    /// The end has been reached by a packet with time stamp `t`. Is there a call to wait for?
    fn end_reached(&mut self, t: Timestamp, cx: &mut Cx<'_>) -> bool {
        // Bound: each turn moves the end forward; a call that does not is the last.
        while self.armed && t >= self.last {
            self.armed = false;
            match self.at_end.clone() {
                AtEnd::Nothing => {}
                AtEnd::Stop => cx.host.stop(),
                AtEnd::Call(call, value) => {
                    let value = value.replace("$t", &t.to_string());
                    let own = call.rsplit_once('.').is_some_and(|(element, _)| {
                        cx.host.find_element(cx.elem, element) == Some(cx.elem)
                    });
                    let before = self.last;
                    match call.rsplit_once('.') {
                        Some((_, handler)) if own => {
                            if let Ok(Seconds(v)) = cx.value(handler, &value) {
                                // a handler of another name does nothing, as a failed call in Click
                                let _ = self.set(handler, v);
                            }
                            if self.last <= before {
                                return false;
                            }
                        }
                        _ => {
                            cx.call_write(&call, &value);
                            return true;
                        }
                    }
                }
            }
        }
        false
    }
}

impl Element for TimeFilter {
    fn batching(&self, class: Batching) -> Batching {
        match &self.at_end {
            AtEnd::Call(..) => Batching::Calls,
            _ => class,
        }
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let (first, first_base) = one_of(
            args,
            &[
                ("START", Base::Absolute),
                ("START_AFTER", Base::FirstPacket),
                ("START_DELAY", Base::Start),
            ],
            "START",
        );
        self.first = first;
        self.first_base = first_base.unwrap_or(Base::FirstPacket);
        let (last, last_base) = one_of(
            args,
            &[
                ("END", Base::Absolute),
                ("END_AFTER", Base::FirstPacket),
                ("END_DELAY", Base::Start),
                ("INTERVAL", Base::Interval),
            ],
            "END",
        );
        self.last = if last_base.is_some() {
            last
        } else {
            Timestamp::MAX
        };
        self.last_base = last_base.unwrap_or_default();
        let stop: bool = args.keyword("STOP").unwrap_or(false);
        let call: Option<AnyArg> = args.keyword("END_CALL");
        if stop {
            self.at_end = AtEnd::Stop;
        }
        if let Some(AnyArg(text)) = call {
            if stop {
                args.error("END_CALL and STOP are mutually exclusive");
            }
            match split_words(&text).split_first() {
                Some((call, value)) => {
                    self.at_end = AtEnd::Call(call.to_string(), value.join(" "));
                }
                None => args.error("END_CALL: expected 'ELEMENT.HANDLER [VALUE]'"),
            }
        }
        self.armed = !matches!(self.at_end, AtEnd::Nothing);
        args.finish()
    }
    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        if self.first_base == Base::Start {
            self.first = self.first + cx.now;
        }
        if self.last_base == Base::Start {
            self.last = self.last + cx.now;
        }
        self.pull = cx.inputs.first() == Some(&Processing::Pull);
        Ok(())
    }
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        let moved = match self.calling {
            Some(_) if port != CALLED => return cx.again(CALLED, p),
            Some(before) => self.last > before,
            None => true,
        };
        self.calling = None;
        let t = p.anno.timestamp;
        if !self.ready {
            self.first_packet(t);
        }
        if t < self.first {
            cx.decide(None, || "before the start".to_string());
            return cx.emit_or_drop(1, p, "TimeFilter: before the start");
        }
        let last = self.last;
        if t >= last && moved && self.end_reached(t, cx) && !self.pull {
            self.calling = Some(last);
            return cx.again(CALLED, p);
        }
        if t >= self.last {
            cx.decide(None, || "after the end".to_string());
            return cx.emit_or_drop(1, p, "TimeFilter: after the end");
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.at_end {
            AtEnd::Call(..) => Model::None("TimeFilter: calls a handler at its end"),
            _ => Model::ask("TimeFilter: looks at the time stamp"),
        }
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("start"),
            HandlerInfo::rw("end"),
            HandlerInfo::rw("interval"),
            HandlerInfo::w("extend_interval"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "start" => Ok(self.first.to_string()),
            "end" => Ok(self.last.to_string()),
            "interval" => Ok((self.last - self.first).to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let Seconds(t) = cx.value(name, value)?;
        self.set(name, t)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn passes(b: &mut Bench, secs: i64) -> bool {
        let mut p = Packet::from_slice(b"x");
        p.anno.timestamp = Timestamp::from_secs(secs);
        b.push_packet(0, Box::new(p))[0].0 == 0
    }

    #[test]
    fn ranges() {
        let mut b = Bench::new("TimeFilter", "START 5, INTERVAL 3, STOP true", 1, 2).unwrap();
        let got: Vec<bool> = (3..10).map(|t| passes(&mut b, t)).collect();
        assert_eq!(got, [false, false, true, true, true, false, false]);
        assert!(b.host.stopped);
        assert_eq!(b.read("end").unwrap(), "8.000000");
        b.write("end", "20").unwrap();
        assert!(passes(&mut b, 19));
        assert_eq!(b.read("interval").unwrap(), "15.000000");
        b.write("interval", "1").unwrap();
        assert!(!passes(&mut b, 6) && passes(&mut b, 5));
        b.write("start", "6").unwrap();
        assert!(!passes(&mut b, 5));

        let mut b = Bench::new("TimeFilter", "START_AFTER 2, END_AFTER 4", 1, 2).unwrap();
        let got: Vec<bool> = (100..106).map(|t| passes(&mut b, t)).collect();
        assert_eq!(got, [false, false, true, true, false, false]);
        let mut b = Bench::new("TimeFilter", "", 1, 2).unwrap();
        assert!(passes(&mut b, 7) && passes(&mut b, 1_000_000) && !passes(&mut b, 6));
        // the bench initializes at time 0
        let mut b = Bench::new("TimeFilter", "START_DELAY 3, END_DELAY 5", 1, 2).unwrap();
        assert!(!passes(&mut b, 2) && passes(&mut b, 3) && !passes(&mut b, 5));
    }

    #[test]
    fn calls_and_errors() {
        let mut b = Bench::new("TimeFilter", "END 5, END_CALL s.run \"at $t\"", 1, 1).unwrap();
        let mut p = Packet::from_slice(b"x");
        p.anno.timestamp = Timestamp::from_secs(5);
        assert!(b.push_packet(0, Box::new(p)).is_empty());
        assert_eq!(
            b.host.writes,
            [("s.run".to_string(), "\"at 5.000000\"".to_string())]
        );
        assert_eq!(b.drops()["TimeFilter: after the end"], 1);
        // further ones: no call any more
        assert!(!passes(
            &mut Bench::new("TimeFilter", "END 5, END_CALL s.run", 1, 2).unwrap(),
            7
        ));
        for bad in [
            "START 1, START_AFTER 1",
            "END 1, INTERVAL 2",
            "END 1, STOP true, END_CALL a.b",
            "START x",
            "-1",
        ] {
            assert!(Bench::new("TimeFilter", bad, 1, 1).is_err(), "{bad}");
        }
    }
}
