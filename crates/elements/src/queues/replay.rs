//! ReplayUnqueue, MultiReplayUnqueue (FastClick): packets are kept, and sent as often as one likes.
//!
//! Deliberate differences: at most 65,536 packets are kept ([`MOST_KEPT`]); an element that has nothing to replay waits
//! for packets instead of asking for them without end; packets are sent as fast as they go (TIMING other than 0 is
//! refused); QUICK_CLONE, FREEONTERMINATE, USE_SIGNAL and VERBOSE are accepted and change nothing.

use super::util::{unknown, value};
use onefold_element::args::{AnyArg, Args};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TaskStatus, element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// Most packets that are kept.
const MOST_KEPT: usize = 65_536;
/// Packets asked for in a turn, while they are loaded.
const LOADED_AT_ONCE: usize = 64;

/// `ReplayUnqueue`.
pub const REPLAY_UNQUEUE: ElementClass = ElementClass {
    name: "ReplayUnqueue",
    ports: "1/1",
    processing: "l/h",
    flow: "#/#",
    effect: Effect::OrderSensitive,
    usage: "[keywords STOP, STOP_TIME, BURST, LIMIT, ACTIVE]",
    summary: "pulls packets until none comes, then pushes copies of them, again and again",
    new: || Box::new(Replay::default()),
};
/// `MultiReplayUnqueue`.
pub const MULTI_REPLAY_UNQUEUE: ElementClass = ElementClass {
    name: "MultiReplayUnqueue",
    ports: "1-/=",
    summary: "as ReplayUnqueue, of several inputs by time stamp, each to the output of its number",
    ..REPLAY_UNQUEUE
};

#[derive(Debug, Clone)]
struct Replay {
    active: bool,
    /// Rounds that are left; negative: without end.
    stop: i32,
    /// No round begins after this time from the first packet sent; zero: whenever.
    stop_time: i32,
    /// Packets per turn.
    burst: u32,
    /// Most packets to be loaded.
    limit: usize,
    loaded: bool,
    /// Packets by the input that they came from, in the order in which they are sent.
    kept: Vec<(Port, Pkt)>,
    /// While packets are loaded: the next one of each input.
    heads: Vec<Option<Pkt>>,
    /// The next one to be sent.
    next: usize,
    /// Packets sent in the turn at hand.
    sent: u32,
    began: Option<Timestamp>,
}

impl Default for Replay {
    fn default() -> Self {
        Replay {
            active: true,
            stop: -1,
            stop_time: 0,
            burst: 64,
            limit: MOST_KEPT,
            loaded: false,
            kept: Vec::new(),
            heads: Vec::new(),
            next: 0,
            sent: 0,
            began: None,
        }
    }
}

impl Replay {
    /// Loads some packets. `None`: there are none so far.
    fn load(&mut self, cx: &mut Cx<'_>) -> Option<TaskStatus> {
        self.heads.resize(cx.ninputs, None);
        for _ in 0..LOADED_AT_ONCE {
            let mut dry = self.kept.len() >= self.limit;
            for (i, head) in self.heads.iter_mut().enumerate() {
                if head.is_none() && !dry {
                    *head = cx.pull(i);
                    dry = head.is_none();
                }
            }
            if dry && self.kept.is_empty() {
                return None;
            }
            if dry {
                self.loaded = true;
                self.heads.drain(..).flatten().for_each(|p| {
                    cx.drop(p, "replay: nothing came at another input");
                });
                return Some(TaskStatus::Reschedule);
            }
            // of equal times the first input's
            let times = self.heads.iter().enumerate();
            let times = times.filter_map(|(i, p)| Some((p.as_ref()?.anno.timestamp, i)));
            let (_, first) = times.min()?;
            let mut p = self.heads[first].take()?;
            p.anno.set_paint(u8::try_from(first).unwrap_or(u8::MAX));
            self.kept.push((first, p));
        }
        Some(TaskStatus::Reschedule)
    }

    /// A round has ended.
    fn end_round(&mut self, cx: &mut Cx<'_>) {
        self.next = 0;
        self.stop -= i32::from(self.stop > 0);
        let limit = i64::from(self.stop_time);
        let late = |t: Timestamp| limit > 0 && (cx.now - t).sec() >= limit;
        if self.began.is_some_and(late) {
            self.stop = 0;
        }
        if self.stop == 0 {
            self.end(cx);
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        self.active = false;
        self.began = None;
        cx.host.stop();
    }

    fn forget(&mut self, cx: &mut Cx<'_>) {
        for p in self.drain_held(cx) {
            cx.drop(p, "replay: reset");
        }
        self.loaded = false;
        self.next = 0;
    }
}

impl Element for Replay {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.stop = args.keyword("STOP").unwrap_or(-1);
        self.stop_time = args.keyword("STOP_TIME").unwrap_or(0);
        self.burst = args.keyword("BURST").unwrap_or(64).max(1);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        let limit: i32 = args.keyword("LIMIT").unwrap_or(-1);
        self.limit = usize::try_from(limit).unwrap_or(MOST_KEPT).min(MOST_KEPT);
        if args.keyword("TIMING").is_some_and(|t: i32| t != 0) {
            args.error("TIMING: packets are sent as fast as they go, only 0 can be given");
        }
        for k in ["QUICK_CLONE", "FREEONTERMINATE", "USE_SIGNAL", "VERBOSE"] {
            let _: Option<AnyArg> = args.keyword(k);
        }
        args.finish()
    }

    fn multiplies(&self) -> bool {
        true
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(port, p);
    }

    fn has_task(&self) -> bool {
        true
    }
    fn task_active(&self) -> bool {
        self.active
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        if !self.active {
            return TaskStatus::Sleep;
        }
        if self.stop == 0 {
            self.end(cx);
            return TaskStatus::Sleep;
        }
        if !self.loaded {
            return self.load(cx).unwrap_or(TaskStatus::Sleep);
        }
        self.began.get_or_insert(cx.now);
        let Some((port, p)) = self.kept.get(self.next) else {
            return TaskStatus::Sleep;
        };
        let copy = cx.copy(p);
        cx.emit(*port, copy);
        self.next += 1;
        self.sent += 1;
        if self.next == self.kept.len() {
            self.end_round(cx);
        }
        if self.active && self.sent < self.burst {
            return TaskStatus::Again;
        }
        self.sent = 0;
        match self.active {
            true => TaskStatus::Reschedule,
            false => TaskStatus::Sleep,
        }
    }

    fn held(&self) -> usize {
        self.kept.len() + self.heads.iter().flatten().count()
    }
    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        let kept = self.kept.drain(..).map(|(_, p)| p);
        let mut all: Vec<Pkt> = kept.collect();
        all.extend(self.heads.drain(..).flatten());
        all
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("active"),
            HandlerInfo::rw("stop"),
            HandlerInfo::r("loaded"),
            HandlerInfo::button("reset"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "active" => self.active.to_string(),
            "stop" => self.stop.to_string(),
            "loaded" => self.loaded.to_string(),
            _ => return unknown(name),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = value(name, text)?,
            "stop" => self.stop = value(name, text)?,
            "reset" => self.forget(cx),
            _ => return unknown(name),
        }
        if self.active {
            cx.wake_task();
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn feed(b: &mut Bench, port: usize, all: &[(u8, i64)]) {
        let q = b.host.upstream.entry(port).or_default();
        for (n, ms) in all {
            let mut p = Box::new(Packet::from_slice(&[*n]));
            p.anno.timestamp = Timestamp::from_millis(*ms);
            q.push_back(p);
        }
    }

    /// Outputs and first bytes of what comes in so many turns.
    fn sent(b: &mut Bench, turns: usize) -> Vec<(usize, u8)> {
        let mut all = Vec::new();
        for _ in 0..turns {
            all.extend(b.run_task().iter().map(|(port, p)| (*port, p.data()[0])));
        }
        all
    }

    #[test]
    fn packets_come_again() {
        let mut b =
            Bench::new("ReplayUnqueue", "STOP 2, QUICK_CLONE 0, ACTIVE false", 1, 1).unwrap();
        feed(&mut b, 0, &[(1, 0), (2, 0), (3, 0)]);
        assert!(sent(&mut b, 3).is_empty());
        b.write("active", "true").unwrap();
        assert_eq!(b.host.woken, 1);
        let twice = [1, 2, 3, 1, 2, 3].map(|n| (0, n));
        assert_eq!(sent(&mut b, 20), twice);
        assert_eq!(
            (b.read("active").unwrap(), b.read("stop").unwrap()),
            ("false".into(), "0".into())
        );
        assert_eq!(b.read("loaded").unwrap(), "true");
        assert_eq!(b.element.held(), 3);
        // other packets, another round
        b.write("reset", "").unwrap();
        assert_eq!(b.drops()["replay: reset"], 3);
        feed(&mut b, 0, &[(9, 0)]);
        b.write("stop", "1").unwrap();
        b.write("active", "true").unwrap();
        assert_eq!(sent(&mut b, 9), [(0, 9)]);
    }

    #[test]
    fn nothing_to_replay_is_waited_for() {
        let mut b = Bench::new("ReplayUnqueue", "STOP 1", 1, 1).unwrap();
        assert!(sent(&mut b, 3).is_empty());
        assert_eq!(b.read("loaded").unwrap(), "false");
        feed(&mut b, 0, &[(7, 0)]);
        assert_eq!(sent(&mut b, 5), [(0, 7)]);
    }

    #[test]
    fn several_inputs_by_time() {
        let mut b = Bench::new("MultiReplayUnqueue", "STOP 1", 2, 2).unwrap();
        feed(&mut b, 0, &[(1, 10), (3, 30), (5, 50)]);
        feed(&mut b, 1, &[(2, 20), (4, 40)]);
        // input 1 is the first that nothing comes from: what input 0 has beyond is dropped
        assert_eq!(sent(&mut b, 20), [(0, 1), (1, 2), (0, 3), (1, 4)]);
        assert_eq!(b.drops()["replay: nothing came at another input"], 1);
    }

    #[test]
    fn limits() {
        let mut b = Bench::new("ReplayUnqueue", "STOP 1, LIMIT 2, BURST 1", 1, 1).unwrap();
        feed(&mut b, 0, &[(1, 0), (2, 0), (3, 0)]);
        assert_eq!(sent(&mut b, 9), [(0, 1), (0, 2)]);
        assert_eq!(b.host.upstream[&0].len(), 1);
        assert!(Bench::new("ReplayUnqueue", "TIMING 100", 1, 1).is_err());
        assert!(Bench::new("ReplayUnqueue", "STOP often", 1, 1).is_err());
        let mut b = Bench::new("ReplayUnqueue", "STOP_TIME 5", 1, 1).unwrap();
        feed(&mut b, 0, &[(1, 0)]);
        assert!(sent(&mut b, 4).len() > 1);
        b.advance_to(Timestamp::from_secs(6));
        assert_eq!(sent(&mut b, 4).len(), 1);
        assert_eq!(b.read("active").unwrap(), "false");
    }
}
