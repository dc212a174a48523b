//! AverageCounter: packets, bytes and their rates between the first and the last packet.
//!
//! Time is counted in milliseconds. Of FastClick's version the arguments LINK_FCS, MAX and THRESHOLD, fractional
//! IGNORE, and the handlers for bits, link bits and time are taken; AverageCounterMP and AverageCounterIMP are the same
//! element.

use onefold_element::args::{ArgScope, Args, FromArg};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx, Op};
use onefold_element::unparse::general12;
use onefold_element::{
    Accounts, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// Milliseconds per second.
const HZ: f64 = 1000.0;

/// `AverageCounter`.
pub const AVERAGE_COUNTER: ElementClass = ElementClass {
    name: "AverageCounter",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "[IGNORE, LINK_FCS, keywords MAX, THRESHOLD]",
    summary: "counts packets and bytes, averages their rates over the whole time",
    new: || Box::new(AverageCounter::default()),
};
/// `AverageCounterMP`.
pub const AVERAGE_COUNTER_MP: ElementClass = ElementClass {
    name: "AverageCounterMP",
    ..AVERAGE_COUNTER
};
/// `AverageCounterIMP`.
pub const AVERAGE_COUNTER_IMP: ElementClass = ElementClass {
    name: "AverageCounterIMP",
    ..AVERAGE_COUNTER
};

/// Seconds, an integer in any of Click's spellings or a fraction.
struct Span(f64);

impl FromArg for Span {
    const WANTS: &'static str = "a number of seconds";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Ok(whole) = u32::from_arg(s, scope) {
            return Ok(Span(whole.into()));
        }
        match f64::from_arg(s, scope) {
            Ok(v) if (0.0..=f64::from(u32::MAX)).contains(&v) && s.contains('.') => Ok(Span(v)),
            _ => Err(None),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct AverageCounter {
    count: u64,
    bytes: u64,
    /// Milliseconds; 0 stands for "none yet" as in Click.
    first: u32,
    last: u32,
    ignore: u32,
    /// Count only so many milliseconds from the first packet; 0: no limit.
    max: u32,
    /// Start over once the rate exceeds this; 0: never.
    threshold: u64,
    /// The link's bits include four bytes of check sequence per frame.
    link_fcs: bool,
}

impl AverageCounter {
    /// What is counted, by the prefix of the handler names.
    fn amount(&self, kind: &str) -> Option<u64> {
        let overhead = 20 + if self.link_fcs { 4 } else { 0 };
        Some(match kind {
            "count" | "rate" => self.count,
            "byte_count" | "byte_rate" => self.bytes,
            "bit_count" | "bit_rate" => self.bytes * 8,
            "link_count" | "link_rate" => (self.bytes + self.count * overhead) * 8,
            _ => return None,
        })
    }
    /// Milliseconds over which the rates are taken, at least one.
    fn duration(&self) -> u32 {
        let d = self.last.wrapping_sub(self.first);
        d.wrapping_sub(self.ignore).max(1)
    }
    fn reset(&mut self) {
        (self.count, self.bytes, self.first, self.last) = (0, 0, 0, 0);
    }
}

impl Element for AverageCounter {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let ignore = args.optional("IGNORE").map_or(0.0, |Span(s)| s);
        self.link_fcs = args.optional("LINK_FCS").unwrap_or(true);
        let max: u32 = args.keyword("MAX").unwrap_or(0);
        let threshold: u32 = args.keyword("THRESHOLD").unwrap_or(0);
        self.ignore = (ignore * HZ) as u32;
        self.max = max.saturating_mul(HZ as u32);
        self.threshold = threshold.into();
        args.finish()
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.account(0, 1, p.len() as u64, cx);
        cx.emit(0, p);
    }
    /// With a THRESHOLD it matters which packet exceeds it.
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.threshold {
            0 => Model::pass([Op::Count(0)]),
            _ => Model::None("AverageCounter: starts over at a rate"),
        }
    }
    /// Tag 0: passed.
    #[inline]
    fn account(&mut self, _: u16, packets: u64, bytes: u64, cx: &mut Cx<'_>) {
        let now = cx.now.0.div_euclid(1_000_000) as u32;
        if self.first == 0 {
            self.first = now;
        }
        let since = now.wrapping_sub(self.first);
        let in_time = self.max == 0 || since < self.max;
        if since >= self.ignore && in_time {
            self.count += packets;
            self.bytes += bytes;
        }
        if in_time {
            self.last = now;
        }
        if self.threshold > 0
            && since > 1000
            && self.count * 1000 / u64::from(since) > self.threshold
        {
            self.threshold = 0;
            self.reset();
        }
    }
    fn accounts(&self, _: u16) -> Accounts {
        match self.threshold {
            0 => Accounts::Moment,
            _ => Accounts::Now,
        }
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::r("byte_count"),
            HandlerInfo::r("bit_count"),
            HandlerInfo::r("link_count"),
            HandlerInfo::r("rate"),
            HandlerInfo::r("byte_rate"),
            HandlerInfo::r("bit_rate"),
            HandlerInfo::r("link_rate"),
            HandlerInfo::r("time"),
            HandlerInfo::button("reset").counts(),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        let duration = f64::from(self.duration());
        if name == "time" {
            return Ok(general12(duration / HZ));
        }
        let n = self
            .amount(name)
            .ok_or_else(|| HandlerError::NoSuchHandler(name.to_string()))?;
        Ok(if name.ends_with("count") {
            n.to_string()
        } else {
            general12(n as f64 * HZ / duration)
        })
    }
    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset" => self.reset(),
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
    fn averages() {
        let mut b = Bench::new("AverageCounter", "", 1, 1).unwrap();
        assert_eq!(b.read("rate").unwrap(), "0");
        for ms in [1000, 1500, 4000] {
            b.now = Timestamp::from_millis(ms);
            b.push(0, &[0; 100]);
        }
        assert_eq!(b.read("rate").unwrap(), "1");
        assert_eq!(b.read("byte_rate").unwrap(), "100");
        assert_eq!(b.read("bit_count").unwrap(), "2400");
        assert_eq!(b.read("link_rate").unwrap(), "992");
        assert_eq!(b.read("time").unwrap(), "3");
        b.write("reset", "").unwrap();
        assert_eq!(b.read("count").unwrap(), "0");
    }

    #[test]
    fn ignored_time_and_limit() {
        let mut b = Bench::new("AverageCounterMP", "1, MAX 3", 1, 1).unwrap();
        for ms in [1000, 1500, 2500, 3000, 9000] {
            b.now = Timestamp::from_millis(ms);
            b.push(0, &[0; 100]);
        }
        assert_eq!(b.read("count").unwrap(), "2");
        assert_eq!(b.read("rate").unwrap(), "2");
        for bad in ["-1", "4294967296", "08"] {
            assert!(Bench::new("AverageCounter", bad, 1, 1).is_err(), "{bad}");
        }
        assert!(Bench::new("AverageCounter", "0x10", 1, 1).is_ok());
        assert!(Bench::new("AverageCounter", "1.5", 1, 1).is_ok());
        assert!(Bench::new("AverageCounter", "x", 1, 1).is_err());
    }
}
