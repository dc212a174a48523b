//! Queues: Queue (FullNoteQueue), SimpleQueue, NotifierQueue, QuickNoteQueue, ThreadSafeQueue, MSQueue, MixedQueue,
//! FrontDropQueue (Click elements of these names).
//!
//! They differ in what they drop when full, in whether sources hear that they are full, and in how soon those who pull
//! fall asleep when they are empty: at the first vain pull (QuickNoteQueue) or at the tenth in a row, as in Click, so
//! that tasks take turns in the same order. Deliberate differences from Click: nobody polls SimpleQueue for ever
//! either, and a capacity of 0 drops everything in MixedQueue and FrontDropQueue too.

use super::util::{say_overflow, unknown, value};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;
use std::collections::VecDeque;

const fn class(
    name: &'static str,
    ports: &'static str,
    processing: &'static str,
    summary: &'static str,
    new: fn() -> Box<dyn Element>,
) -> ElementClass {
    ElementClass {
        name,
        ports,
        processing,
        flow: "x/x",
        effect: Effect::Holding,
        usage: "[CAPACITY]",
        summary,
        new,
    }
}

const FIFO: &str = "stores packets first in, first out";

/// `Queue`.
pub const QUEUE: ElementClass = class("Queue", "1/1-2", "h/lh", FIFO, || {
    Queue::boxed("Queue", Kind::Tail, true)
});
/// `FullNoteQueue`: the old name of Queue.
pub const FULL_NOTE_QUEUE: ElementClass = class("FullNoteQueue", "1/1-2", "h/lh", FIFO, || {
    Queue::boxed("Queue", Kind::Tail, true)
});
/// `QuickNoteQueue`.
pub const QUICK_NOTE_QUEUE: ElementClass = class("QuickNoteQueue", "1/1-2", "h/lh", FIFO, || {
    Queue::boxed("QuickNoteQueue", Kind::Quick, true)
});
/// `ThreadSafeQueue`.
pub const THREAD_SAFE_QUEUE: ElementClass = class("ThreadSafeQueue", "1/1-2", "h/lh", FIFO, || {
    Queue::boxed("ThreadSafeQueue", Kind::Tail, true)
});
/// `MSQueue`.
pub const MS_QUEUE: ElementClass = class("MSQueue", "1/1-2", "h/lh", FIFO, || {
    Queue::boxed("MSQueue", Kind::Tail, true)
});
/// `SimpleQueue`.
pub const SIMPLE_QUEUE: ElementClass = class("SimpleQueue", "1/1-2", "h/lh", FIFO, || {
    Queue::boxed("SimpleQueue", Kind::Tail, false)
});
/// `NotifierQueue`.
pub const NOTIFIER_QUEUE: ElementClass = class("NotifierQueue", "1/1-2", "h/lh", FIFO, || {
    Queue::boxed("NotifierQueue", Kind::Tail, false)
});
/// `MixedQueue`.
pub const MIXED_QUEUE: ElementClass = class(
    "MixedQueue",
    "2/1-2",
    "h/lh",
    "stores packets: first in, first out from input 0, last in, first out from input 1",
    || Queue::boxed("MixedQueue", Kind::Mixed, false),
);
/// `FrontDropQueue`.
pub const FRONT_DROP_QUEUE: ElementClass = class(
    "FrontDropQueue",
    "1/1-2",
    "h/lh",
    "stores packets first in, first out; drops the oldest when full",
    || Queue::boxed("FrontDropQueue", Kind::Front, false),
);

/// What goes when there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The packet that arrives.
    Tail,
    /// As `Tail`; who pulls sleeps at the first vain pull.
    Quick,
    /// The packet that has waited longest.
    Front,
    /// Input 0 as `Tail`; input 1 puts packets at the head, the last one in the queue goes.
    Mixed,
}

/// Vain pulls in a row that do not yet send the puller to sleep.
const WAKEFUL: u8 = 9;
/// Packets that a queue holds unless told otherwise.
const CAPACITY: u32 = 1000;

const DROP: &str = "Queue: overflow";
const RESET: &str = "Queue: reset";
const SHRUNK: &str = "Queue: capacity reduced";

#[derive(Debug, Clone)]
struct Queue {
    class: &'static str,
    kind: Kind,
    /// Tells sources when it is full.
    full_note: bool,
    q: VecDeque<Pkt>,
    capacity: usize,
    drops: u64,
    highwater: usize,
    /// Vain pulls since the last packet.
    sleepiness: u8,
    /// Whoever pulls may expect a packet: one has come, or none has, and nobody has found that out often enough.
    awake: bool,
}

impl Queue {
    fn boxed(class: &'static str, kind: Kind, full_note: bool) -> Box<dyn Element> {
        Box::new(Queue {
            class,
            kind,
            full_note,
            q: VecDeque::new(),
            capacity: CAPACITY as usize,
            drops: 0,
            highwater: 0,
            sleepiness: 0,
            awake: true,
        })
    }

    /// A packet finds (or pushes another out of) a full queue.
    #[cold]
    fn overflow(&mut self, p: Pkt, cx: &mut Cx<'_>) {
        if self.drops == 0 && self.capacity > 0 {
            say_overflow(self.class, cx);
        }
        self.drops += 1;
        cx.decide(None, || {
            format!("{} packets wait, the queue is full", self.q.len())
        });
        cx.emit_or_drop(1, p, DROP);
    }

    /// After the capacity has become less than what is stored.
    #[cold]
    fn shrink(&mut self, cx: &mut Cx<'_>) {
        // Bound: what is stored.
        while self.q.len() > self.capacity {
            let p = match self.kind {
                Kind::Front => self.q.pop_front(),
                _ => self.q.pop_back(),
            };
            if let Some(p) = p {
                cx.drop(p, SHRUNK);
            }
        }
    }

    /// Stores a packet without telling anybody.
    #[inline]
    fn store(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        if self.q.len() < self.capacity {
            self.awake = true;
            if port == 1 && self.kind == Kind::Mixed {
                self.q.push_front(p);
            } else {
                self.q.push_back(p);
            }
            self.highwater = self.highwater.max(self.q.len());
        } else {
            self.store_full(port, p, cx);
        }
    }

    #[cold]
    fn store_full(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.shrink(cx);
        let old = match (self.kind, port) {
            (Kind::Front, _) => self.q.pop_front(),
            (Kind::Mixed, 1) => self.q.pop_back(),
            _ => None,
        };
        match old {
            None => self.overflow(p, cx),
            Some(old) => {
                match self.kind {
                    Kind::Front => self.q.push_back(p),
                    _ => self.q.push_front(p),
                }
                self.overflow(old, cx);
            }
        }
    }
}

impl Element for Queue {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let n: u32 = args.optional("CAPACITY").unwrap_or(CAPACITY);
        args.finish()?;
        // what no longer fits is dropped when the queue is used next
        self.capacity = n as usize;
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("holds packets")
    }

    #[inline]
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        let was_empty = self.q.is_empty();
        self.store(port, p, cx);
        if was_empty {
            cx.notify_nonempty();
        }
    }

    fn push_batch(&mut self, port: Port, batch: &mut Vec<Pkt>, cx: &mut Cx<'_>) {
        let was_empty = self.q.is_empty();
        for p in batch.drain(..) {
            self.store(port, p, cx);
        }
        if was_empty && !self.q.is_empty() {
            cx.notify_nonempty();
        }
    }

    #[inline]
    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        if self.q.len() > self.capacity {
            self.shrink(cx);
        }
        let Some(p) = self.q.pop_front() else {
            if self.sleepiness < WAKEFUL && self.kind != Kind::Quick {
                self.sleepiness += 1;
                cx.notify_nonempty();
            } else {
                self.awake = false;
            }
            return None;
        };
        self.sleepiness = 0;
        self.awake = self.kind != Kind::Quick || !self.q.is_empty();
        if self.full_note && self.q.len() + 1 == self.capacity {
            cx.notify_nonfull();
        }
        Some(p)
    }

    fn full(&self) -> Option<bool> {
        self.full_note.then_some(self.q.len() >= self.capacity)
    }

    fn storage(&self) -> Option<usize> {
        Some(self.q.len())
    }

    fn is_awake(&self) -> bool {
        self.awake
    }

    fn held(&self) -> usize {
        self.q.len()
    }

    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        self.q.drain(..).collect()
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("length"),
            HandlerInfo::r("highwater_length"),
            HandlerInfo::rw("capacity").sets(0, "CAPACITY"),
            HandlerInfo::r("drops"),
            HandlerInfo::button("reset_counts").counts(),
            HandlerInfo::button("reset"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "length" => self.q.len().min(self.capacity).to_string(),
            "highwater_length" => self.highwater.to_string(),
            "capacity" => self.capacity.to_string(),
            "drops" => self.drops.to_string(),
            _ => return unknown(name),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "capacity" => {
                let was_full = self.q.len() >= self.capacity;
                self.capacity = value::<u32>(name, text)? as usize;
                self.shrink(cx);
                if was_full && self.q.len() < self.capacity {
                    cx.notify_nonfull();
                }
            }
            "reset_counts" => {
                self.drops = 0;
                self.highwater = self.q.len();
            }
            "reset" => {
                let was_full = self.q.len() >= self.capacity;
                for p in std::mem::take(&mut self.q) {
                    cx.emit_or_drop(1, p, RESET);
                }
                if was_full {
                    cx.notify_nonfull();
                }
            }
            _ => return unknown(name),
        }
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

    fn drain(b: &mut Bench) -> Vec<u8> {
        std::iter::from_fn(|| b.pull(0))
            .map(|p| p.data()[0])
            .collect()
    }

    #[test]
    fn fifo_drops_arrivals_and_says_so_once() {
        for class in [
            "Queue",
            "FullNoteQueue",
            "QuickNoteQueue",
            "ThreadSafeQueue",
            "MSQueue",
            "SimpleQueue",
            "NotifierQueue",
        ] {
            let mut b = Bench::new(class, "2", 1, 1).unwrap();
            for i in 0..4 {
                b.push(0, &[i]);
            }
            assert_eq!(b.read("length").unwrap(), "2");
            assert_eq!(b.read("drops").unwrap(), "2");
            assert_eq!(
                b.host.nonempty, 1,
                "{class}: told once that it is not empty"
            );
            assert!(b.host.log.ends_with(": overflow\n"));
            assert_eq!(b.host.log.lines().count(), 1);
            assert_eq!(drain(&mut b), [0, 1]);
            assert_eq!(b.read("highwater_length").unwrap(), "2");
            assert_eq!(b.drops()["Queue: overflow"], 2);
            b.write("reset_counts", "").unwrap();
            assert_eq!(b.read("highwater_length").unwrap(), "0");
            let notes = ["SimpleQueue", "NotifierQueue"].contains(&class);
            assert_eq!(b.element.full().is_none(), notes);
            assert_eq!(b.host.nonfull, usize::from(!notes));
        }
    }

    #[test]
    fn tenth_vain_pull_sends_to_sleep() {
        for (class, polls) in [("Queue", 9), ("NotifierQueue", 9), ("QuickNoteQueue", 0)] {
            let mut b = Bench::new(class, "", 1, 1).unwrap();
            for _ in 0..30 {
                assert!(b.pull(0).is_none());
            }
            assert_eq!(b.host.nonempty, polls, "{class}");
            b.push(0, &[1]);
            assert!(b.pull(0).is_some());
            b.pull(0);
            let expected = polls + 1 + usize::from(polls > 0);
            assert_eq!(b.host.nonempty, expected, "{class}");
        }
    }

    #[test]
    fn awake_until_the_tenth_vain_pull_or_when_nothing_is_left() {
        for (class, vain) in [("Queue", 10), ("NotifierQueue", 10), ("QuickNoteQueue", 1)] {
            let mut b = Bench::new(class, "", 1, 1).unwrap();
            for round in 0..3 {
                let mut pulls = 0;
                while b.element.is_awake() {
                    assert!(b.pull(0).is_none());
                    pulls += 1;
                }
                let quick = class == "QuickNoteQueue";
                let expected = if quick && round > 0 { 0 } else { vain };
                assert_eq!(pulls, expected, "{class}, round {round}");
                b.push(0, &[1]);
                b.push(0, &[2]);
                assert!(b.element.is_awake() && b.pull(0).is_some());
                assert!(b.element.is_awake() && b.pull(0).is_some());
                assert_eq!(b.element.is_awake(), !quick, "{class}");
            }
        }
    }

    #[test]
    fn overflow_output_and_reset() {
        let mut b = Bench::new("Queue", "1", 1, 2).unwrap();
        assert!(b.push(0, &[1]).is_empty());
        assert_eq!(b.element.full(), Some(true));
        assert_eq!(b.push(0, &[2])[0].0, 1);
        b.write("reset", "").unwrap();
        let out = b.emitted();
        assert_eq!((out[0].0, out[0].1.data()), (1, &[1][..]));
        assert_eq!(b.element.held(), 0);
    }

    #[test]
    fn front_drop_and_mixed() {
        let mut b = Bench::new("FrontDropQueue", "2", 1, 2).unwrap();
        b.push(0, &[1]);
        b.push(0, &[2]);
        assert_eq!(b.push(0, &[3])[0].1.data(), [1]);
        assert_eq!(drain(&mut b), [2, 3]);

        // the sequence of Click's documentation: [E C A B D]
        let mut b = Bench::new("MixedQueue", "", 2, 1).unwrap();
        for (port, x) in [(0, b'A'), (0, b'B'), (1, b'C'), (0, b'D'), (1, b'E')] {
            b.push(port, &[x]);
        }
        assert_eq!(drain(&mut b), *b"ECABD");
        let mut b = Bench::new("MixedQueue", "2", 2, 2).unwrap();
        b.push(0, b"a");
        b.push(0, b"b");
        assert_eq!(b.push(0, b"c")[0].1.data(), b"c");
        assert_eq!(b.push(1, b"d")[0].1.data(), b"b");
        assert_eq!(drain(&mut b), *b"da");
    }

    #[test]
    fn capacity_can_change_and_be_zero() {
        let mut b = Bench::new("Queue", "CAPACITY 3", 1, 1).unwrap();
        for i in 0..3 {
            b.push(0, &[i]);
        }
        b.write("capacity", "1").unwrap();
        assert_eq!(b.read("length").unwrap(), "1");
        assert_eq!(b.drops()["Queue: capacity reduced"], 2);
        b.write("capacity", "2").unwrap();
        assert_eq!(b.host.nonfull, 1);
        assert_eq!(drain(&mut b), [0]);
        assert!(b.write("capacity", "x").is_err());
        for class in ["Queue", "FrontDropQueue", "MixedQueue"] {
            let n = if class == "MixedQueue" { 2 } else { 1 };
            let mut b = Bench::new(class, "0", n, 1).unwrap();
            b.push(n - 1, &[1]);
            assert!(b.pull(0).is_none());
            assert_eq!(b.drops()["Queue: overflow"], 1);
            assert_eq!(b.host.log, "");
        }
        let e = Bench::new("Queue", "many", 1, 1).err().unwrap();
        assert_eq!(e, ["CAPACITY: expected an unsigned number, found 'many'"]);
    }
}
