//! Meter, BandwidthMeter (Click): the whole stream goes to the output of its present rate.

use super::util::unknown;
use crate::rate::RateEwma;
use onefold_element::args::{Args, Bandwidth, FromArg};
use onefold_element::handler::{HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::unparse::fixed_point;
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `Meter`.
pub const METER: ElementClass = ElementClass {
    name: "Meter",
    ports: "1/2-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "RATE1, ..., RATEn",
    summary: "sends packets to the output of the stream's present rate in packets per second",
    new: || Box::new(Meter::default()),
};
/// `BandwidthMeter`.
pub const BANDWIDTH_METER: ElementClass = ElementClass {
    name: "BandwidthMeter",
    summary: "sends packets to the output of the stream's present bandwidth",
    new: || {
        Box::new(Meter {
            bytes: true,
            ..Meter::default()
        })
    },
    ..METER
};

/// Bits of fraction of rates.
const SCALE: u32 = 10;
/// Highest rate in a configuration.
const MAX_RATE: u32 = u32::MAX >> SCALE;

#[derive(Debug, Clone, Default)]
struct Meter {
    bytes: bool,
    rate: RateEwma<SCALE>,
    /// Limits per millisecond, scaled, ascending.
    limits: Vec<i64>,
}

impl Element for Meter {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let scope = args.scope();
        let mut last = None;
        self.limits.clear();
        for (i, text) in args.rest() {
            let name = format!("RATE{}", i + 1);
            let rate = match Bandwidth::from_arg(text, &scope) {
                Ok(b) => b.0,
                Err(why) => {
                    let m = why.unwrap_or(format!("expected {}", Bandwidth::WANTS));
                    args.error_at(i, &name, m);
                    continue;
                }
            };
            if last.is_some_and(|l| rate <= l) {
                args.error_at(i, &name, format!("must be more than RATE{i}"));
            }
            if rate > MAX_RATE {
                args.error_at(i, &name, format!("too large, at most {MAX_RATE}"));
            }
            let unitless = text.ends_with(|c: char| c.is_ascii_digit());
            if self.bytes && unitless {
                args.warning(format!("{name}: no units, taken as bytes per second"));
            }
            last = Some(rate);
            self.limits.push((i64::from(rate) << SCALE) / 1000);
        }
        if args.is_empty() {
            args.error("RATE1: required argument missing; expected a rate");
        } else if args.len() + 1 != cx.noutputs {
            let n = cx.noutputs.saturating_sub(1);
            args.error(format!(
                "need {n} arguments, one less than the number of outputs"
            ));
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("time")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let n = if self.bytes { p.len() as u64 } else { 1 };
        self.rate.update(n, cx.now);
        let r = self.rate.average();
        let i = self.limits.iter().position(|l| r < *l);
        let i = i.unwrap_or(self.limits.len());
        cx.decide(Some(i.min(self.limits.len().saturating_sub(1))), || {
            let unit = if self.bytes { "bytes" } else { "packets" };
            format!("{} {unit} per second", fixed_point(r * 1000, SCALE))
        });
        cx.emit(i, p);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("rate"), HandlerInfo::r("meters")];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "rate" => self.rate.per_second(cx.now),
            // as Click: nothing between them
            "meters" => self
                .limits
                .iter()
                .map(|l| fixed_point(l * 1000, SCALE))
                .collect(),
            _ => return unknown(name),
        })
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Timestamp;

    #[test]
    fn output_follows_the_rate() {
        let mut b = Bench::new("Meter", "500, 2000", 1, 3).unwrap();
        let at = |b: &mut Bench, ms: i64, per_ms: usize| {
            let mut last = 0;
            for t in 0..100 {
                b.now = Timestamp::from_secs(2) + Timestamp::from_millis(ms + t);
                for _ in 0..per_ms {
                    last = b.push(0, &[0; 60])[0].0;
                }
            }
            last
        };
        assert_eq!(at(&mut b, 0, 1), 1);
        assert_eq!(at(&mut b, 100, 4), 2);
        b.now = Timestamp::from_secs(9);
        assert_eq!(b.push(0, &[])[0].0, 0);
        assert_eq!(b.read("rate").unwrap(), "0");
        assert_eq!(b.read("meters").unwrap(), "5002000");

        let mut b = Bench::new("BandwidthMeter", "20kBps", 1, 2).unwrap();
        assert_eq!(at(&mut b, 0, 1), 1);
    }

    #[test]
    fn argument_errors() {
        let e = |c: &str, n| Bench::new("Meter", c, 1, n).err().unwrap().join("; ");
        assert!(e("", 2).starts_with("RATE1"));
        assert_eq!(e("5, 4", 3), "RATE2: must be more than RATE1");
        assert_eq!(e("5000000", 2), "RATE1: too large, at most 4194303");
        assert!(e("5", 3).starts_with("need 2 arguments"));
        assert!(e("x", 2).starts_with("RATE1: expected a bandwidth"));
    }
}
