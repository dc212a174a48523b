//! Shaper, BandwidthShaper (Click): pull elements that answer no faster than a rate.
//!
//! Deliberate difference from Click: who pulls in vain is woken by a timer when the next packet may pass; nobody polls.

use super::util::{unknown, value};
use crate::token_bucket::{GapRate, MAX_GAP_RATE};
use onefold_element::args::{Args, Bandwidth};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `Shaper`.
pub const SHAPER: ElementClass = ElementClass {
    name: "Shaper",
    ports: "1/1-2",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "RATE",
    summary: "lets at most so many packets per second pass; output 1 gives those that must wait",
    new: || Box::new(Shaper::new(false)),
};
/// `BandwidthShaper`.
pub const BANDWIDTH_SHAPER: ElementClass = ElementClass {
    name: "BandwidthShaper",
    summary: "lets packets up to a bandwidth pass",
    new: || Box::new(Shaper::new(true)),
    ..SHAPER
};

#[derive(Debug, Clone)]
struct Shaper {
    bandwidth: bool,
    /// The configured rate; taken over when the time is known.
    wanted: u32,
    rate: GapRate,
}

impl Shaper {
    fn new(bandwidth: bool) -> Self {
        Shaper {
            bandwidth,
            wanted: 0,
            rate: GapRate::new(0),
        }
    }

    /// Nobody gets a packet before the time that the rate allows one.
    fn promise(&mut self, cx: &mut Cx<'_>) {
        if let Some(at) = self.rate.expiry(cx.now) {
            cx.set_timer(0, at);
        }
    }
}

impl Element for Shaper {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let rate = match self.bandwidth {
            true => args.mandatory::<Bandwidth>("RATE").map(|b| b.0),
            false => args.mandatory::<u32>("RATE"),
        };
        if rate.is_some_and(|r| r > MAX_GAP_RATE) {
            args.warning(format!("rate too large; lowered to {MAX_GAP_RATE}"));
        }
        if args.ok() {
            self.wanted = rate.unwrap_or(0).min(MAX_GAP_RATE);
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "Shaper: pushed into a pull element");
    }

    fn pull(&mut self, port: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        self.rate.set_rate(self.wanted, cx.now);
        let due = self.rate.need_update(cx.now);
        if port == 1 && !self.bandwidth {
            if due {
                // whoever pulls output 0 next makes room for output 1
                return None;
            }
            return cx.pull(0);
        }
        if !due {
            self.promise(cx);
            return None;
        }
        let p = cx.pull(0)?;
        let n = if self.bandwidth { p.len() as u32 } else { 1 };
        self.rate.update(n);
        if cx.noutputs > 1 && !self.rate.need_update(cx.now) {
            cx.notify_nonempty();
        }
        Some(p)
    }

    fn run_timer(&mut self, _: u32, cx: &mut Cx<'_>) {
        cx.notify_nonempty();
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("rate").sets(0, "RATE"),
            HandlerInfo::r("config"),
            HandlerInfo::w("reset"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "rate" | "config" if self.bandwidth => Ok(Bandwidth(self.wanted).text()),
            "rate" | "config" => Ok(self.wanted.to_string()),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "rate" => {
                let rate = match self.bandwidth {
                    true => value::<Bandwidth>(name, text)?.0,
                    false => value::<u32>(name, text)?,
                };
                self.wanted = rate.min(MAX_GAP_RATE);
                self.rate.set_rate(self.wanted, cx.now);
            }
            "reset" => self.rate.reset(),
            _ => return unknown(name),
        }
        cx.notify_nonempty();
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn feed(b: &mut Bench, n: usize, len: usize) {
        let q = b.host.upstream.entry(0).or_default();
        q.extend((0..n).map(|_| Box::new(Packet::from_slice(&vec![0; len]))));
    }

    fn run(b: &mut Bench, until: Timestamp) -> usize {
        let mut n = 0;
        loop {
            while b.pull(0).is_some() {
                n += 1;
            }
            match b.host.timers.values().min().copied() {
                Some(t) if t < until => {
                    b.advance_to(t);
                }
                _ => return n,
            }
        }
    }

    #[test]
    fn evenly_at_the_rate() {
        let mut b = Bench::new("Shaper", "100", 1, 1).unwrap();
        feed(&mut b, 1000, 60);
        b.now = Timestamp::from_secs(4);
        let n = run(&mut b, Timestamp::from_secs(6));
        assert!((199..=201).contains(&n), "{n}");
        // the next one is due a hundredth of a second later
        assert!(b.pull(0).is_none());
        b.write("rate", "0").unwrap();
        assert_eq!(b.read("rate").unwrap(), "0");
        let mut b = Bench::new("BandwidthShaper", "100kBps", 1, 1).unwrap();
        feed(&mut b, 1000, 1000);
        b.now = Timestamp::from_secs(4);
        let n = run(&mut b, Timestamp::from_secs(6));
        assert!((199..=202).contains(&n), "{n}");
        assert_eq!(b.read("config").unwrap(), "800kbps");
    }

    #[test]
    fn the_second_output_gives_the_rest() {
        let mut b = Bench::new("Shaper", "10", 1, 2).unwrap();
        feed(&mut b, 10, 60);
        assert!(b.pull(1).is_none());
        assert!(b.pull(0).is_some());
        assert_eq!(b.host.nonempty, 1);
        assert!(b.pull(1).is_some());
        assert!(b.pull(0).is_none());
        b.advance_to(Timestamp::from_millis(1100));
        assert_eq!(b.host.nonempty, 2);
        assert!(b.pull(1).is_none());
        assert!(b.pull(0).is_some());
        assert!(Bench::new("Shaper", "fast", 1, 1).is_err());
        let big = Bench::new("Shaper", "4200000000", 1, 1).unwrap();
        assert_eq!(big.warnings.len(), 1);
    }
}
