//! TimeSortedSched (Click): merges streams by time stamp.
//!
//! Deliberate difference from Click: without signals from upstream, STOP takes effect after ten pulls in a row that
//! found nothing (as many as a Click queue waits before it says that it is empty).

use super::util::unknown;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `TimeSortedSched`.
pub const TIME_SORTED_SCHED: ElementClass = ElementClass {
    name: "TimeSortedSched",
    ports: "-/1",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "[keywords STOP, BUFFER]",
    summary: "pulls the packet with the earliest time stamp",
    new: || Box::new(TimeSorted::default()),
};

/// Empty pulls before STOP stops.
const PATIENCE: u32 = 10;
/// Most packets buffered per input.
const MAX_BUFFER: i32 = 1 << 20;

#[derive(Debug, Clone, Default)]
struct TimeSorted {
    stop: bool,
    /// Packets that each input may still buffer.
    space: Vec<usize>,
    /// Inputs with space, in the order in which Click looks at them (last first).
    ready: Vec<usize>,
    /// A binary heap by time stamp. Its order among equal time stamps is that of Click's heap, so the standard
    /// library's, which leaves that open, does not serve.
    heap: Vec<(Pkt, usize)>,
    last: Timestamp,
    disordered: bool,
    empty: u32,
}

impl TimeSorted {
    fn less(&self, a: usize, b: usize) -> bool {
        match (self.heap.get(a), self.heap.get(b)) {
            (Some(a), Some(b)) => a.0.anno.timestamp < b.0.anno.timestamp,
            _ => false,
        }
    }

    fn add(&mut self, p: Pkt, input: usize) {
        self.heap.push((p, input));
        let mut i = self.heap.len() - 1;
        while i > 0 && self.less(i, (i - 1) / 2) {
            self.heap.swap(i, (i - 1) / 2);
            i = (i - 1) / 2;
        }
    }

    fn take(&mut self) -> Option<(Pkt, usize)> {
        if self.heap.is_empty() {
            return None;
        }
        let first = self.heap.swap_remove(0);
        let mut i = 0;
        // Bound: the depth of the heap.
        loop {
            let mut smallest = i;
            for child in [2 * i + 1, 2 * i + 2] {
                if self.less(child, smallest) {
                    smallest = child;
                }
            }
            if smallest == i {
                return Some(first);
            }
            self.heap.swap(i, smallest);
            i = smallest;
        }
    }

    /// Fills the buffers.
    fn fill(&mut self, cx: &mut Cx<'_>) {
        for at in (0..self.ready.len()).rev() {
            let i = self.ready[at];
            while let Some(p) = cx.pull(i) {
                self.add(p, i);
                self.space[i] -= 1;
                if self.space[i] == 0 {
                    self.ready.swap_remove(at);
                    break;
                }
            }
        }
    }
}

impl Element for TimeSorted {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.stop = args.keyword("STOP").unwrap_or(false);
        let buffer = args.keyword("BUFFER").unwrap_or(1);
        if !(1..=MAX_BUFFER).contains(&buffer) {
            args.error(format!("BUFFER: must be from 1 to {MAX_BUFFER}"));
        }
        self.space = vec![buffer.max(1) as usize; cx.ninputs];
        self.ready = (0..cx.ninputs).collect();
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "TimeSortedSched: pushed into a pull element");
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        self.fill(cx);
        let Some((p, input)) = self.take() else {
            if self.stop && self.empty < PATIENCE {
                self.empty += 1;
                match self.empty {
                    PATIENCE => cx.host.stop(),
                    _ => cx.notify_nonempty(),
                }
            }
            return None;
        };
        self.empty = 0;
        let t = p.anno.timestamp;
        if t.is_set() {
            self.disordered |= self.last.is_set() && t < self.last;
            self.last = t;
        }
        self.space[input] += 1;
        if self.space[input] == 1 {
            self.ready.push(input);
        }
        cx.decide(None, || format!("input {input}, time {t}"));
        Some(p)
    }

    fn held(&self) -> usize {
        self.heap.len()
    }

    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        self.heap.drain(..).map(|(p, _)| p).collect()
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("well_ordered")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "well_ordered" => Ok((!self.disordered).to_string()),
            _ => unknown(name),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn feed(b: &mut Bench, port: usize, times: &[i64]) {
        let q = b.host.upstream.entry(port).or_default();
        q.extend(times.iter().map(|t| {
            let mut p = Packet::from_slice(&[port as u8]);
            p.anno.timestamp = Timestamp::from_secs(*t);
            Box::new(p)
        }));
    }
    fn times(b: &mut Bench) -> Vec<i64> {
        std::iter::from_fn(|| b.pull(0))
            .map(|p| p.anno.timestamp.sec())
            .collect()
    }

    #[test]
    fn merges_and_stops() {
        let mut b = Bench::new("TimeSortedSched", "STOP true", 3, 1).unwrap();
        feed(&mut b, 0, &[1, 4, 9]);
        feed(&mut b, 1, &[2, 3, 8]);
        feed(&mut b, 2, &[5]);
        assert_eq!(times(&mut b), [1, 2, 3, 4, 5, 8, 9]);
        assert_eq!(b.read("well_ordered").unwrap(), "true");
        for _ in 0..20 {
            assert!(b.pull(0).is_none());
        }
        assert!(b.host.stopped);
    }

    #[test]
    fn a_larger_buffer_sorts_more() {
        let mut b = Bench::new("TimeSortedSched", "", 1, 1).unwrap();
        feed(&mut b, 0, &[2, 1, 3]);
        assert_eq!(times(&mut b), [2, 1, 3]);
        assert_eq!(b.read("well_ordered").unwrap(), "false");
        let mut b = Bench::new("TimeSortedSched", "BUFFER 2", 1, 1).unwrap();
        feed(&mut b, 0, &[2, 1, 3]);
        assert!(b.pull(0).is_some());
        assert_eq!(b.element.held(), 1);
        assert_eq!(times(&mut b), [2, 3]);
        assert!(Bench::new("TimeSortedSched", "BUFFER 0", 1, 1).is_err());
    }
}
