//! LinkUnqueue (Click): a serial link with a latency and a bandwidth.
//!
//! Deliberate difference from Click: the transmission time of a packet is computed in 64 bits, so that it does not wrap
//! for packets with a huge extra-length annotation; `latency` and `bandwidth` can be written as in Click, which empties
//! the link.

use super::util::{unknown, value};
use onefold_element::args::{Args, Bandwidth, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TaskStatus, element_any,
};
use onefold_packet::{Pkt, Timestamp, anno_field};
use std::collections::VecDeque;

/// `LinkUnqueue`.
pub const LINK_UNQUEUE: ElementClass = ElementClass {
    name: "LinkUnqueue",
    ports: "1/1",
    processing: "l/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "LATENCY, BANDWIDTH",
    summary: "emulates a link: pulls packets, delays them by latency and length, pushes them",
    new: || Box::new(Link::default()),
};

/// Lowest bandwidth, and the unit it is counted in, bytes per second.
const UNIT: u32 = 100;
const TOO_SMALL: &str = "bandwidth too small, minimum 100Bps";

#[derive(Debug, Clone, Default)]
struct Link {
    latency: Timestamp,
    /// In units of 100 bytes per second.
    bandwidth: u32,
    /// On the link; time stamps say when they arrive.
    q: VecDeque<Pkt>,
    /// The last packet was followed by the next without a gap.
    back_to_back: bool,
}

impl Link {
    fn arrival(&self, p: &Pkt, from: Timestamp) -> Timestamp {
        let extra = p.anno.u32(usize::from(anno_field::EXTRA_LENGTH.offset));
        let length = p.len() as u64 + u64::from(extra);
        let us = length * 10_000 / u64::from(self.bandwidth.max(1));
        from + Timestamp::from_micros(i64::try_from(us).unwrap_or(i64::MAX / 1000))
    }
}

impl Element for Link {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(Seconds(t)) = args.mandatory("LATENCY") {
            self.latency = t;
        }
        match args.mandatory("BANDWIDTH") {
            Some(Bandwidth(b)) if b < UNIT => args.error(format!("BANDWIDTH: {TOO_SMALL}")),
            Some(Bandwidth(b)) => self.bandwidth = b / UNIT,
            None => {}
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("holds packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        let now = cx.now;
        let delayed = now + self.latency;
        let mut more = true;
        // Bound: each packet moves the end of the link on; it is full when that is a latency away. Packets of no length
        // do not move it, hence the second condition.
        for _ in 0..65_536 {
            if self.q.back().is_some_and(|p| p.anno.timestamp > delayed) {
                break;
            }
            let Some(mut p) = cx.pull(0) else {
                self.back_to_back = false;
                more = false;
                break;
            };
            let from = match self.q.back() {
                Some(last) if self.back_to_back => last.anno.timestamp,
                _ => delayed,
            };
            p.anno.timestamp = self.arrival(&p, from);
            self.q.push_back(p);
            self.back_to_back = true;
        }
        while let Some(p) = self.q.pop_front_if(|p| p.anno.timestamp <= now) {
            cx.emit(0, p);
        }
        let (Some(first), Some(last)) = (self.q.front(), self.q.back()) else {
            return match more {
                true => TaskStatus::Reschedule,
                false => TaskStatus::Sleep,
            };
        };
        let mut at = first.anno.timestamp;
        if more {
            at = at.min(last.anno.timestamp - self.latency);
        }
        if at <= now {
            return TaskStatus::Reschedule;
        }
        cx.set_timer(0, at);
        TaskStatus::Sleep
    }

    fn run_timer(&mut self, _: u32, cx: &mut Cx<'_>) {
        cx.wake_task();
    }

    fn storage(&self) -> Option<usize> {
        Some(self.q.len())
    }

    fn held(&self) -> usize {
        self.q.len()
    }

    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        self.q.drain(..).collect()
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("latency"),
            HandlerInfo::rw("bandwidth"),
            HandlerInfo::r("size"),
            HandlerInfo::button("reset"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "latency" => self.latency.interval_text(),
            "bandwidth" => (u64::from(self.bandwidth) * u64::from(UNIT)).to_string(),
            "size" => self.q.len().to_string(),
            _ => return unknown(name),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "latency" => self.latency = value::<Seconds>(name, text)?.0,
            "bandwidth" => match value::<Bandwidth>(name, text)?.0 {
                b if b < UNIT => return Err(HandlerError::BadValue(TOO_SMALL.into())),
                b => self.bandwidth = b / UNIT,
            },
            "reset" => {}
            _ => return unknown(name),
        }
        for p in std::mem::take(&mut self.q) {
            cx.drop(p, "LinkUnqueue: reset");
        }
        cx.clear_timer(0);
        cx.wake_task();
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_element::TaskStatus;
    use onefold_packet::{Packet, Timestamp};

    fn ms(n: i64) -> Timestamp {
        Timestamp::from_millis(n)
    }

    #[test]
    fn latency_and_transmission_time() {
        // 1000 bytes at 100,000 bytes per second: 10 ms each
        let mut b = Bench::new("LinkUnqueue", "50ms, 100kBps", 1, 1).unwrap();
        b.now = ms(1000);
        let q = b.host.upstream.entry(0).or_default();
        q.extend((0..3).map(|_| Box::new(Packet::from_slice(&[0; 1000]))));
        assert!(b.run_task().is_empty());
        // the first occupies the link until 1060; the next may start 10 ms from now
        assert_eq!((b.element.held(), b.host.timers[&0]), (1, ms(1010)));
        b.advance_to(ms(1010));
        b.run_task();
        b.advance_to(ms(1020));
        b.run_task();
        assert_eq!(b.read("size").unwrap(), "3");
        let mut out = Vec::new();
        for t in [1060, 1070, 1080] {
            b.advance_to(ms(t));
            out.extend(b.run_task().iter().map(|(_, p)| p.anno.timestamp));
        }
        assert_eq!(out, [ms(1060), ms(1070), ms(1080)]);
        assert_eq!(b.with(|e, cx| e.run_task(cx)), TaskStatus::Sleep);
    }

    #[test]
    fn handlers_and_errors() {
        let mut b = Bench::new("LinkUnqueue", "2ms, 8Mbps", 1, 1).unwrap();
        b.host
            .upstream
            .entry(0)
            .or_default()
            .push_back(Box::new(Packet::from_slice(&[0; 9])));
        b.run_task();
        assert_eq!(b.read("latency").unwrap(), "2ms");
        assert_eq!(b.read("bandwidth").unwrap(), "1000000");
        b.write("reset", "").unwrap();
        assert_eq!(b.drops()["LinkUnqueue: reset"], 1);
        assert!(b.write("bandwidth", "10").is_err());
        assert!(Bench::new("LinkUnqueue", "1, 10", 1, 1).is_err());
        assert!(Bench::new("LinkUnqueue", "1", 1, 1).is_err());
    }
}
