//! Counter: packets, bytes, rates, and handler calls at thresholds.
//!
//! FastClick's NO_RATE, BATCH_PRECISE and ATOMIC are taken; its CounterMP and alike are the same element.

use crate::rate::RateEwma;
use onefold_element::args::{AnyArg, Args, FromArg, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx, Op};
use onefold_element::{
    Accounts, Batching, Clock, ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element,
    ElementClass, InitCx, Port, element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `Counter`.
pub const COUNTER: ElementClass = ElementClass {
    name: "Counter",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "[keywords COUNT_CALL, BYTE_COUNT_CALL, NO_RATE, BATCH_PRECISE, ATOMIC]",
    summary: "counts packets and bytes, measures rates",
    new: || Box::new(Counter::default()),
};
/// `CounterMP`.
pub const COUNTER_MP: ElementClass = ElementClass {
    name: "CounterMP",
    ..COUNTER
};

/// A handler call at a threshold.
#[derive(Debug, Clone)]
struct Trigger {
    at: u64,
    /// Handler and value; `None`: the threshold has no effect.
    call: Option<(String, String)>,
    fired: bool,
}

impl Trigger {
    /// `"N [element.handler [value...]]"`.
    fn parse(text: &str) -> Option<Trigger> {
        let words = split_words(text);
        let (n, rest) = words.split_first()?;
        let digits = !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit());
        let at = match u64::from_arg(n, &Args::from_strings(&[]).scope()) {
            Ok(v) => v,
            // a number that is too large is never reached
            Err(_) if digits => u64::MAX,
            Err(_) => return None,
        };
        let call = rest
            .split_first()
            .map(|(call, value)| (call.to_string(), value.join(" ")));
        Some(Trigger {
            at,
            call,
            fired: false,
        })
    }
    fn check(t: &mut Option<Trigger>, hit: impl Fn(u64) -> bool, cx: &mut Cx<'_>) {
        if let Some(t) = t
            && !t.fired
            && hit(t.at)
        {
            t.fired = true;
            if let Some((call, value)) = &t.call {
                cx.call_write(call, value);
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Counter {
    count: u64,
    bytes: u64,
    rate: RateEwma,
    byte_rate: RateEwma<4>,
    no_rate: bool,
    count_call: Option<Trigger>,
    byte_call: Option<Trigger>,
}

impl Counter {
    #[inline]
    fn count(&mut self, packets: u64, bytes: u64, now: Timestamp) {
        self.count += packets;
        self.bytes += bytes;
        if !self.no_rate {
            self.rate.update(packets, now);
            self.byte_rate.update(bytes, now);
        }
    }
}

impl Element for Counter {
    /// Even a threshold that has been reached may be set again.
    fn batching(&self, class: Batching) -> Batching {
        match self.count_call.is_some() || self.byte_call.is_some() {
            true => Batching::Calls,
            false => class,
        }
    }
    fn clock(&self, class: Clock) -> Clock {
        match self.no_rate {
            true => class,
            false => Clock::MILLISECONDS,
        }
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        for name in ["COUNT_CALL", "BYTE_COUNT_CALL"] {
            let Some(AnyArg(text)) = args.keyword(name) else {
                continue;
            };
            let t = Trigger::parse(&text).filter(|t| t.call.is_some());
            if t.is_none() {
                args.error(format!("{name}: expected 'N ELEMENT.HANDLER [VALUE]'"));
            }
            if name == "COUNT_CALL" {
                self.count_call = t;
            } else {
                self.byte_call = t;
            }
        }
        self.no_rate = args.keyword("NO_RATE").unwrap_or(false);
        let _: Option<bool> = args.keyword("BATCH_PRECISE");
        let _: Option<u8> = args.keyword("ATOMIC");
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        let calls = [
            ("COUNT_CALL", &self.count_call),
            ("BYTE_COUNT_CALL", &self.byte_call),
        ];
        let mut errors = Vec::new();
        for (name, trigger) in calls {
            let call = trigger.as_ref().and_then(|t| t.call.as_ref());
            if let Some((element, _)) = call.and_then(|(c, _)| c.rsplit_once('.'))
                && cx.find_element(element).is_none()
            {
                errors.push(ConfigError {
                    argument: Some(name.to_string()),
                    ..ConfigError::new(format!("no element named '{element}'"))
                });
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.count(1, p.len() as u64, cx.now);
        // Click calls the handler before it passes the packet on
        if self.count_call.is_some() || self.byte_call.is_some() {
            let (count, bytes) = (self.count, self.bytes);
            Trigger::check(&mut self.count_call, |at| count == at, cx);
            Trigger::check(&mut self.byte_call, |at| bytes >= at, cx);
        }
        cx.emit(0, p);
    }

    /// A threshold's handler must be called at its packet, before that packet goes on.
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        if self.count_call.is_some() || self.byte_call.is_some() {
            return Model::None("Counter: calls a handler at a threshold");
        }
        Model::pass([Op::Count(0)])
    }
    /// Tag 0: passed.
    fn account(&mut self, _: u16, packets: u64, bytes: u64, cx: &mut Cx<'_>) {
        self.count(packets, bytes, cx.now);
    }
    fn accounts(&self, _: u16) -> Accounts {
        Accounts::Moment
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], now: Timestamp) -> (Port, usize) {
        if self.count_call.is_some() || self.byte_call.is_some() {
            return (0, 0);
        }
        let bytes = batch.iter().map(|p| p.len() as u64).sum();
        // at one moment, an average is told sums as well as parts
        self.count(batch.len() as u64, bytes, now);
        (0, batch.len())
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::r("byte_count"),
            HandlerInfo::r("rate"),
            HandlerInfo::r("bit_rate"),
            HandlerInfo::r("byte_rate"),
            HandlerInfo::button("reset").counts(),
            HandlerInfo::button("reset_counts").counts(),
            HandlerInfo::rw("count_call"),
            HandlerInfo::w("byte_count_call"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "count" => self.count.to_string(),
            "byte_count" => self.bytes.to_string(),
            "rate" => self.rate.per_second(cx.now),
            "byte_rate" => self.byte_rate.per_second(cx.now),
            "bit_rate" => self.byte_rate.shifted_per_second(3, cx.now),
            "count_call" => self
                .count_call
                .as_ref()
                .filter(|t| t.call.is_some())
                .map_or(String::new(), |t| t.at.to_string()),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        let parse = || {
            Trigger::parse(value).ok_or_else(|| {
                HandlerError::BadValue(format!("'{name}' first word should be unsigned (count)"))
            })
        };
        match name {
            "reset" | "reset_counts" => {
                self.count = 0;
                self.bytes = 0;
                for t in [&mut self.count_call, &mut self.byte_call]
                    .into_iter()
                    .flatten()
                {
                    t.fired = false;
                }
            }
            "count_call" => self.count_call = Some(parse()?),
            "byte_count_call" => self.byte_call = Some(parse()?),
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

    #[test]
    fn counts_and_calls_once() {
        let mut b = Bench::new("Counter", "COUNT_CALL 2 e0.run now", 1, 1).unwrap();
        for _ in 0..4 {
            b.push(0, &[0; 60]);
        }
        assert_eq!(b.read("count").unwrap(), "4");
        assert_eq!(b.read("byte_count").unwrap(), "240");
        assert_eq!(b.host.writes, [("e0.run".to_string(), "now".to_string())]);
        assert_eq!(b.read("count_call").unwrap(), "2");
        b.write("reset", "").unwrap();
        assert_eq!(b.read("count").unwrap(), "0");
        b.write("count_call", "1").unwrap();
        b.write("byte_count_call", "100 stop").unwrap();
        for _ in 0..3 {
            b.push(0, &[0; 60]);
        }
        assert_eq!(b.read("count_call").unwrap(), "");
        assert_eq!(b.host.writes[1..], [("stop".to_string(), String::new())]);
        assert!(b.write("count_call", "x").is_err());
    }

    #[test]
    fn rates() {
        let mut b = Bench::new("CounterMP", "", 1, 1).unwrap();
        b.push(0, &[0; 100]);
        b.now = b.now + Timestamp::from_millis(1);
        assert_eq!(b.read("rate").unwrap(), "62.5");
        assert_eq!(b.read("byte_rate").unwrap(), "6250");
        assert_eq!(b.read("bit_rate").unwrap(), "50000");
        let mut b = Bench::new(
            "Counter",
            "NO_RATE true, ATOMIC 1, BATCH_PRECISE false",
            1,
            1,
        )
        .unwrap();
        b.push(0, &[0; 100]);
        b.now = b.now + Timestamp::from_millis(1);
        assert_eq!(b.read("rate").unwrap(), "0");
    }

    #[test]
    fn argument_errors() {
        for (bad, text) in [
            (
                "COUNT_CALL x",
                "COUNT_CALL: expected 'N ELEMENT.HANDLER [VALUE]'",
            ),
            (
                "COUNT_CALL 3",
                "COUNT_CALL: expected 'N ELEMENT.HANDLER [VALUE]'",
            ),
            (
                "BYTE_COUNT_CALL 3 nobody.run",
                "BYTE_COUNT_CALL: no element named 'nobody'",
            ),
            ("3", "too many arguments: '3'"),
        ] {
            assert_eq!(Bench::new("Counter", bad, 1, 1).err().unwrap(), [text]);
        }
        assert!(Bench::new("Counter", "COUNT_CALL 99999999999999999999999 stop", 1, 1).is_ok());
    }
}
