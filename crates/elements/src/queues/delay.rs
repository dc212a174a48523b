//! DelayShaper, DelayUnqueue (Click): a packet with time stamp T passes no earlier than T + DELAY.

use super::util::{unknown, value};
use onefold_element::args::{Args, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TaskStatus, element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `DelayShaper`.
pub const DELAY_SHAPER: ElementClass = ElementClass {
    name: "DelayShaper",
    ports: "1/1",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "DELAY",
    summary: "delays packets in a pull path",
    new: || {
        Box::new(Delay {
            push: false,
            delay: Timestamp::ZERO,
            head: None,
        })
    },
};
/// `DelayUnqueue`.
pub const DELAY_UNQUEUE: ElementClass = ElementClass {
    name: "DelayUnqueue",
    processing: "l/h",
    summary: "pulls packets, delays them, and pushes them",
    new: || {
        Box::new(Delay {
            push: true,
            delay: Timestamp::ZERO,
            head: None,
        })
    },
    ..DELAY_SHAPER
};

#[derive(Debug, Clone)]
struct Delay {
    /// Pushes by a task of its own.
    push: bool,
    delay: Timestamp,
    /// The packet that waits; its time stamp says until when.
    head: Option<Pkt>,
}

impl Delay {
    /// A packet whose time has come. Otherwise sets the timer if one waits.
    fn next(&mut self, cx: &mut Cx<'_>) -> Option<Pkt> {
        let p = match self.head.take() {
            Some(p) => p,
            None => {
                let mut p = cx.pull(0)?;
                let t = &mut p.anno.timestamp;
                if t.sec() == 0 {
                    *t = cx.now;
                }
                *t = *t + self.delay;
                p
            }
        };
        let at = p.anno.timestamp;
        if at <= cx.now {
            return Some(p);
        }
        cx.set_timer(0, at);
        self.head = Some(p);
        None
    }
}

impl Element for Delay {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(Seconds(t)) = args.mandatory("DELAY") {
            self.delay = t;
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let mut p = self.next(cx)?;
        p.anno.timestamp = cx.now;
        Some(p)
    }

    fn has_task(&self) -> bool {
        self.push
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        match self.next(cx) {
            Some(p) => {
                cx.emit(0, p);
                TaskStatus::Again
            }
            None => TaskStatus::Sleep,
        }
    }

    fn run_timer(&mut self, _: u32, cx: &mut Cx<'_>) {
        match self.push {
            true => cx.wake_task(),
            false => cx.notify_nonempty(),
        }
    }

    fn held(&self) -> usize {
        usize::from(self.head.is_some())
    }

    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        self.head.take().into_iter().collect()
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("delay")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "delay" => Ok(self.delay.interval_text()),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "delay" {
            return unknown(name);
        }
        self.delay = value::<Seconds>(name, text)?.0;
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn feed(b: &mut Bench, ms: &[i64]) {
        let q = b.host.upstream.entry(0).or_default();
        q.extend(ms.iter().map(|t| {
            let mut p = Packet::from_slice(&[0; 60]);
            p.anno.timestamp = Timestamp::from_millis(*t);
            Box::new(p)
        }));
    }

    #[test]
    fn pull_waits_for_the_time_stamp() {
        let mut b = Bench::new("DelayShaper", "0.5", 1, 1).unwrap();
        b.now = Timestamp::from_millis(2000);
        feed(&mut b, &[1400, 1600, 0]);
        let p = b.pull(0).unwrap();
        assert_eq!(p.anno.timestamp, b.now);
        assert!(b.pull(0).is_none());
        assert_eq!(
            (b.element.held(), b.host.timers[&0]),
            (1, Timestamp::from_millis(2100))
        );
        b.advance_to(Timestamp::from_millis(2100));
        assert_eq!(b.host.nonempty, 1);
        assert!(b.pull(0).is_some());
        // without a time stamp: from now on
        assert!(b.pull(0).is_none());
        assert_eq!(b.host.timers[&0], Timestamp::from_millis(2600));
        assert_eq!(b.with(|e, cx| e.drain_held(cx)).len(), 1);
    }

    #[test]
    fn task_pushes_what_is_due() {
        let mut b = Bench::new("DelayUnqueue", "20ms", 1, 1).unwrap();
        b.now = Timestamp::from_millis(2000);
        feed(&mut b, &[1900, 1980, 1981]);
        let out = b.run_task();
        assert_eq!(out.len(), 2);
        assert_eq!(out[0].1.anno.timestamp, Timestamp::from_millis(1920));
        assert_eq!(b.read("delay").unwrap(), "20ms");
        b.write("delay", "3").unwrap();
        assert_eq!(b.read("delay").unwrap(), "3.000000s");
        assert!(b.write("delay", "soon").is_err());
        b.advance_to(Timestamp::from_millis(2001));
        assert_eq!(b.host.woken, 1);
        assert_eq!(b.run_task().len(), 1);
        assert!(Bench::new("DelayUnqueue", "", 1, 1).is_err());
    }
}
