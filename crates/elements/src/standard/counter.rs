//! Counter: packets, bytes, rates, and handler calls at thresholds.

use crate::args::{AnyArg, Args, split_words};
use crate::class::{Effect, ElementClass};
use crate::cx::Cx;
use crate::element::{ConfigCx, ConfigErrors, Element};
use crate::handler::{HandlerError, HandlerInfo, HandlerResult};
use crate::{Port, element_any};
use onefold_packet::Pkt;

/// `Counter`.
pub const COUNTER: ElementClass = ElementClass {
    name: "Counter",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "[keywords COUNT_CALL, BYTE_COUNT_CALL]",
    summary: "counts packets and bytes, measures rates",
    new: || Box::new(Counter::default()),
};

/// A handler call at a threshold.
#[derive(Debug, Clone)]
struct Trigger {
    at: u64,
    call: String,
    value: String,
    fired: bool,
}

impl Trigger {
    /// `"N element.handler value..."`.
    fn parse(text: &str) -> Option<Trigger> {
        let words = split_words(text);
        let (n, rest) = words.split_first()?;
        let (call, value) = rest.split_first()?;
        Some(Trigger {
            at: n.parse().ok()?,
            call: call.to_string(),
            value: value.join(" "),
            fired: false,
        })
    }
    fn check(t: &mut Option<Trigger>, hit: impl Fn(u64) -> bool, cx: &mut Cx<'_>) {
        if let Some(t) = t
            && !t.fired
            && hit(t.at)
        {
            t.fired = true;
            cx.call_write(&t.call, &t.value);
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Counter {
    count: u64,
    bytes: u64,
    rate: crate::rate::RateEwma,
    byte_rate: crate::rate::RateEwma,
    count_call: Option<Trigger>,
    byte_call: Option<Trigger>,
}

impl Element for Counter {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        for name in ["COUNT_CALL", "BYTE_COUNT_CALL"] {
            let Some(AnyArg(text)) = args.keyword(name) else {
                continue;
            };
            let t = Trigger::parse(&text);
            if t.is_none() {
                args.error(format!("{name}: expected 'N ELEMENT.HANDLER [VALUE]'"));
            }
            if name == "COUNT_CALL" {
                self.count_call = t;
            } else {
                self.byte_call = t;
            }
        }
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.count += 1;
        self.bytes += p.len() as u64;
        self.rate.update(1, cx.now);
        self.byte_rate.update(p.len() as u64, cx.now);
        let (count, bytes) = (self.count, self.bytes);
        // Click calls the handler before it passes the packet on
        if self.count_call.is_some() || self.byte_call.is_some() {
            Trigger::check(&mut self.count_call, |at| count == at, cx);
            Trigger::check(&mut self.byte_call, |at| bytes >= at, cx);
        }
        cx.emit(0, p);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::r("byte_count"),
            HandlerInfo::r("rate"),
            HandlerInfo::r("bit_rate"),
            HandlerInfo::r("byte_rate"),
            HandlerInfo::button("reset"),
            HandlerInfo::button("reset_counts"),
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
            "bit_rate" => self.byte_rate.times_per_second(8, cx.now),
            "count_call" => self
                .count_call
                .as_ref()
                .map_or(String::new(), |t| t.at.to_string()),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        let parse = || {
            Trigger::parse(value).ok_or_else(|| {
                HandlerError::BadValue(format!("{name}: expected 'N ELEMENT.HANDLER [VALUE]'"))
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

    #[test]
    fn counts_and_calls_once() {
        let mut b = Bench::new("Counter", "COUNT_CALL 2 s.run now", 1, 1).unwrap();
        for _ in 0..4 {
            b.push(0, &[0; 60]);
        }
        assert_eq!(b.read("count").unwrap(), "4");
        assert_eq!(b.read("byte_count").unwrap(), "240");
        assert_eq!(b.host.writes, [("s.run".to_string(), "now".to_string())]);
        b.write("reset", "").unwrap();
        assert_eq!(b.read("count").unwrap(), "0");
        assert!(Bench::new("Counter", "COUNT_CALL x", 1, 1).is_err());
        assert!(Bench::new("Counter", "3", 1, 1).is_err());
    }
}
