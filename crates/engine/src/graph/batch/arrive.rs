//! How packets come in: which of them go together, and what is done when they have.

use crate::graph::batch::number;
use crate::graph::batch::plan;
use crate::graph::batch::plan::{Place, Plan};
use crate::graph::batch::waiting::{Going, Waiting};
use crate::graph::core::Core;
use crate::graph::limits::MAX_STEPS;
use crate::graph::reference::Graph;
use crate::graph::topology::Edge;
use onefold_element::{ElemId, LogStream, Outbox, StateStore};
use onefold_packet::{Pkt, Timestamp};
use std::sync::Arc;

/// How packets enter.
enum Enter {
    /// The next one as the scalar engine takes it.
    Single,
    /// So many together.
    Together(usize),
}

impl Graph {
    /// A batch arrives at `element`, at one moment: the batched engine. What leaves, and everything else that can be
    /// seen, is what [`Graph::inject`] makes of the same packets one by one. Leaves `batch` empty.
    ///
    /// The bounds of [`crate::graph::limits`] hold for the batch: for so many packets, so many times the steps.
    pub fn inject_batch(&mut self, element: ElemId, batch: &mut Vec<Pkt>, at: Timestamp) {
        self.core.together.times.clear();
        self.arrivals(element, batch, Some(at));
    }

    /// [`Graph::inject_batch`] of packets that arrive one after the other, each at its own time stamp: timers that
    /// are due between two of them fire there. One whose time stamp lies before that of the packet in front of it, or
    /// before the graph's clock, arrives at that time, which becomes its time stamp. Leaves `batch` empty.
    pub fn inject_stamped(&mut self, element: ElemId, batch: &mut Vec<Pkt>) {
        let mut clock = self.core.now;
        let times = &mut self.core.together.times;
        times.clear();
        for p in batch.iter_mut() {
            clock = clock.max(p.anno.timestamp);
            p.anno.timestamp = clock;
            times.push(clock);
        }
        self.arrivals(element, batch, None);
    }

    fn arrivals(&mut self, element: ElemId, batch: &mut Vec<Pkt>, at: Option<Timestamp>) {
        let input = self.entry(element);
        let to = Edge {
            node: element.0,
            port: input as u32,
        };
        let plan = self.core.plan();
        let time = |core: &Core, i: usize| {
            at.or_else(|| core.together.times.get(i).copied())
                .unwrap_or(core.now)
        };
        let all = batch.len();
        if let (0, Some(at)) = (all, at) {
            return self.advance_to(at);
        }
        let mut done = 0;
        // taken from the end of what is left: the packets lie the other way round
        let mut left = Vec::new();
        while done < all {
            let first = time(&self.core, done);
            self.arrive(first);
            let n = match self.core.enter_how(&plan, element, done, all, first) {
                Enter::Together(n) if n == all => {
                    self.run_group(&plan, to, batch, (done, first));
                    return;
                }
                how => {
                    if done == 0 {
                        left.extend(batch.drain(..).rev());
                    }
                    match how {
                        Enter::Single => 1,
                        Enter::Together(n) => n,
                    }
                }
            };
            match n {
                1 => {
                    if let Some(p) = left.pop() {
                        self.enter(element, input, p);
                    }
                }
                _ => {
                    batch.extend(left.drain(left.len() - n..).rev());
                    self.run_group(&plan, to, batch, (done, first));
                }
            }
            done += n;
        }
    }

    /// Packets that go together; the clock stands at the first one's time.
    fn run_group(
        &mut self,
        plan: &Arc<Plan>,
        to: Edge,
        batch: &mut Vec<Pkt>,
        (base, first): (usize, Timestamp),
    ) {
        let n = batch.len();
        self.packets_in += n as u64;
        for (i, p) in batch.iter_mut().enumerate() {
            (p.order, p.behind) = (number::of_arrival(i), 0);
        }
        let last = self.core.together.times.get(base + n - 1);
        let span = (first, last.copied().unwrap_or(first));
        self.out.coarse = span.0 != span.1;
        self.core.begin_together(n, base, span, &self.out);
        let (out, store) = (&mut self.out, &mut self.store);
        self.core.push_batch(plan, to, batch, out, store);
        self.core.run_batches(plan, out, store);
        if self.core.together.waiting.lowest().is_some() {
            self.core.run_alone(plan, n, out, store);
        }
        self.core.end_together(n, out);
        if self.out.coarse {
            self.stamp_unstamped();
        }
    }

    /// Packets that left without a time get that of the packet that they come of.
    fn stamp_unstamped(&mut self) {
        self.out.coarse = false;
        let sent = self.core.together.sent_from;
        for (_, p) in self.out.transmitted.iter_mut().skip(sent) {
            if !p.anno.timestamp.is_set() {
                p.anno.timestamp = self.core.together.time_of(p.order);
            }
        }
    }
}

impl Core {
    /// What the graph lets the engine do now.
    fn plan(&mut self) -> Arc<Plan> {
        let t = &mut self.together;
        if let Some(plan) = &t.plan
            && t.changes == self.changes
            && t.waiting.len() == plan.input.len()
        {
            return plan.clone();
        }
        let natures = plan::natures(self);
        let old = self.together.plan.take();
        let plan = match old.filter(|p| p.natures == natures) {
            Some(same) => same,
            None => Arc::new(Plan::new(self, natures)),
        };
        let t = &mut self.together;
        t.changes = self.changes;
        t.waiting = Waiting::new(plan.place.iter().map(|p| matches!(p, Place::Turns(_))));
        t.plan = Some(plan.clone());
        plan
    }

    /// How packets from number `done` on enter there, of `all`; the clock stands at the first one's time.
    fn enter_how(
        &self,
        plan: &Plan,
        element: ElemId,
        done: usize,
        all: usize,
        first: Timestamp,
    ) -> Enter {
        let single = plan.single.get(element.0 as usize).copied().unwrap_or(true);
        // a task that wants to run has its turn after every packet
        if single || self.trace.is_some() || !self.is_quiet() {
            return Enter::Single;
        }
        let times = &self.together.times;
        let most = (all - done).min(number::MOST);
        // what is due before a packet arrives happens before
        let before = self.timers.next().filter(|_| !times.is_empty());
        let n = match before {
            Some(due) if times[done..done + most].last().is_some_and(|t| *t >= due) => {
                times[done..done + most].partition_point(|t| *t < due)
            }
            _ => most,
        };
        debug_assert!(n > 0 || first >= before.unwrap_or(first));
        let apart = |n: usize, step: &i64| {
            let alike = |t: &Timestamp| t.0.div_euclid(*step) == first.0.div_euclid(*step);
            times
                .get(done..done + n)
                .map_or(n, |t| t.partition_point(alike))
        };
        let n = plan.apart.iter().fold(n, apart);
        match n {
            0 | 1 => Enter::Single,
            n => Enter::Together(n),
        }
    }

    fn begin_together(
        &mut self,
        n: usize,
        base: usize,
        span: (Timestamp, Timestamp),
        out: &Outbox,
    ) {
        self.steps = 0;
        let t = &mut self.together;
        t.most_steps = MAX_STEPS.saturating_mul(n as u64);
        (t.base, t.span) = (base, span);
        (t.sent_from, t.sent_sorted) = (out.transmitted.len(), true);
        (t.printing, t.label) = (true, 0);
    }

    /// Pushes a batch to where it enters.
    fn push_batch(
        &mut self,
        plan: &Plan,
        to: Edge,
        batch: &mut Vec<Pkt>,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let going = Going {
            hops: 0,
            sorted: true,
        };
        let p = self.topo.ports.get(to.node as usize);
        match p.filter(|p| (to.port as usize) < p.ninputs) {
            Some(p) => {
                let rank = plan.rank_of_input[p.in_base + to.port as usize];
                self.together.waiting.add(rank, batch, going);
            }
            // an input that the graph does not have: packets enter here from outside
            None => self.batch_to(plan, to, batch, going, out, store),
        }
    }

    /// Puts in order what has left, and what was printed.
    fn end_together(&mut self, n: usize, out: &mut Outbox) {
        self.now = self.now.max(self.together.span.1);
        if !self.together.sent_sorted {
            self.sort_sent(n, out);
        }
        self.together.printing = false;
        if !self.together.printed.is_empty() {
            let mut printed = std::mem::take(&mut self.together.printed);
            printed.sort_by_key(|(order, ..)| *order);
            for (_, stream, text) in printed {
                self.print(stream, &text);
            }
        }
    }

    /// What has left is put in order: packets that are as they came, one of each, by their places; others are sorted.
    fn sort_sent(&mut self, n: usize, out: &mut Outbox) {
        let from = self.together.sent_from;
        let sent = &mut out.transmitted[from..];
        let places = &mut self.together.places;
        places.clear();
        places.resize(n, u32::MAX);
        for (at, (_, p)) in sent.iter().enumerate() {
            match places.get_mut(number::arrival(p.order)) {
                Some(place) if *place == u32::MAX => *place = at as u32,
                _ => return sent.sort_by_key(|(_, p)| p.order),
            }
        }
        let spare = &mut self.together.sent;
        spare.extend(out.transmitted.drain(from..).map(Some));
        let in_order = places
            .iter()
            .filter_map(|at| spare.get_mut(*at as usize)?.take());
        out.transmitted.extend(in_order);
        spare.clear();
    }

    /// Prints, or keeps what is printed until the batch is done.
    pub(crate) fn print_of(&mut self, order: Option<u64>, stream: LogStream, text: &[u8]) {
        let t = &mut self.together;
        match t.printing {
            true => t
                .printed
                .push((order.unwrap_or(t.label), stream, text.to_vec())),
            false => self.print(stream, text),
        }
    }
}
