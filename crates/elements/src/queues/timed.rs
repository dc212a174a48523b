//! TimedUnqueue, Burster (Click): at most BURST packets per INTERVAL.

use onefold_element::args::{Args, Seconds};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TaskStatus, element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `TimedUnqueue`.
pub const TIMED_UNQUEUE: ElementClass = ElementClass {
    name: "TimedUnqueue",
    ports: "1/1",
    processing: "l/h",
    flow: "x/x",
    effect: Effect::Timed,
    usage: "INTERVAL [, BURST]",
    summary: "pulls some packets per interval and pushes them",
    new: || Box::new(Timed::new(1)),
};
/// `Burster`.
pub const BURSTER: ElementClass = ElementClass {
    name: "Burster",
    summary: "pulls some packets (8) per interval and pushes them",
    new: || Box::new(Timed::new(8)),
    ..TIMED_UNQUEUE
};

#[derive(Debug, Clone)]
struct Timed {
    interval: Timestamp,
    burst: u32,
    /// Packets moved in the turn at hand.
    moved: u32,
    /// The timer runs: nothing is pulled.
    waiting: bool,
    /// When the timer was last set to; intervals count from there.
    expiry: Option<Timestamp>,
}

impl Timed {
    fn new(burst: u32) -> Self {
        Timed {
            interval: Timestamp::ZERO,
            burst,
            moved: 0,
            waiting: false,
            expiry: None,
        }
    }

    fn wait(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        self.moved = 0;
        let at = self.expiry.unwrap_or(cx.now) + self.interval;
        self.expiry = Some(at);
        self.waiting = true;
        cx.set_timer(0, at);
        TaskStatus::Sleep
    }
}

impl Element for Timed {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(Seconds(t)) = args.mandatory("INTERVAL") {
            // whole milliseconds
            let ms = (t + Timestamp::from_micros(500)).millis();
            if ms < 0 {
                args.error("INTERVAL: must not be negative");
            }
            self.interval = Timestamp::from_millis(ms);
        }
        match args.optional::<i32>("BURST").map(u32::try_from) {
            Some(Ok(n)) if n > 0 => self.burst = n,
            Some(_) => args.error("BURST: must be more than 0"),
            None => {}
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        if self.waiting {
            return TaskStatus::Sleep;
        }
        match cx.pull(0) {
            Some(p) => {
                self.moved += 1;
                cx.emit(0, p);
                if self.moved < self.burst {
                    return TaskStatus::Again;
                }
                self.wait(cx)
            }
            // as Click: a queue that does not count as empty yet costs an interval, too
            None if self.moved == 0 && !cx.host.task_woken(cx.elem) => {
                self.expiry = None;
                TaskStatus::Sleep
            }
            None => self.wait(cx),
        }
    }

    fn run_timer(&mut self, _: u32, cx: &mut Cx<'_>) {
        self.waiting = false;
        cx.wake_task();
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn feed(b: &mut Bench, n: u8) {
        let q = b.host.upstream.entry(0).or_default();
        q.extend((0..n).map(|i| Box::new(Packet::from_slice(&[i]))));
    }

    #[test]
    fn bursts_at_intervals() {
        let mut b = Bench::new("TimedUnqueue", "0.1, 2", 1, 1).unwrap();
        feed(&mut b, 3);
        assert_eq!(b.run_task().len(), 2);
        assert_eq!(b.run_task().len(), 0);
        assert_eq!(b.host.timers[&0], Timestamp::from_millis(1100));
        b.advance_to(Timestamp::from_millis(1105));
        assert_eq!(b.run_task().len(), 1);
        // from the last expiry, not from now
        assert_eq!(b.host.timers[&0], Timestamp::from_millis(1200));
        b.advance_to(Timestamp::from_millis(1300));
        assert_eq!(b.run_task().len(), 0);
        assert!(b.host.timers.is_empty());
        feed(&mut b, 1);
        assert_eq!(b.run_task().len(), 1);
        assert_eq!(b.host.timers[&0], Timestamp::from_millis(1400));
    }

    #[test]
    fn burster_takes_eight() {
        let mut b = Bench::new("Burster", "1", 1, 1).unwrap();
        feed(&mut b, 20);
        assert_eq!(b.run_task().len(), 8);
        assert!(Bench::new("Burster", "1, 0", 1, 1).is_err());
        assert!(Bench::new("TimedUnqueue", "", 1, 1).is_err());
    }
}
