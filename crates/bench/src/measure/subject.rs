//! What is measured: something that takes batches of packets. A further way to execute a chain is one more [`Subject`].

use onefold_element::ElemId;
use onefold_engine::flow::FlowStats;
use onefold_engine::program::Report;
use onefold_engine::{Executor, Graph};
use onefold_packet::{Pkt, Timestamp};
use std::time::Duration;

/// What became of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Account {
    /// Came in.
    pub packets_in: u64,
    /// Made by elements.
    pub created: u64,
    /// Left.
    pub packets_out: u64,
    /// Dropped, for whatever reason.
    pub dropped: u64,
    /// Still inside; of a stretch of time, how many more than before.
    pub held: i64,
    /// Of those that came in, handed over by the program to the reference graph.
    pub punted: u64,
}

impl Account {
    /// What happened since.
    pub fn since(self, e: Account) -> Account {
        Account {
            packets_in: self.packets_in.saturating_sub(e.packets_in),
            created: self.created.saturating_sub(e.created),
            packets_out: self.packets_out.saturating_sub(e.packets_out),
            dropped: self.dropped.saturating_sub(e.dropped),
            held: self.held - e.held,
            punted: self.punted.saturating_sub(e.punted),
        }
    }
    /// Is every packet accounted for?
    pub fn balanced(&self) -> bool {
        let came = i128::from(self.packets_in) + i128::from(self.created);
        came == i128::from(self.packets_out) + i128::from(self.dropped) + i128::from(self.held)
    }
    /// Those that left, of those that came in.
    pub fn share_out(&self) -> f64 {
        match self.packets_in {
            0 => 0.0,
            n => self.packets_out as f64 / n as f64,
        }
    }
}

/// Takes batches of packets.
pub trait Subject {
    /// How the chain is executed: the `--mode` or `--level` that names it.
    fn name(&self) -> &'static str;
    /// Sends packets that arrive at `source` at one moment all their way. Leaves `batch` empty; what comes out is put
    /// into `done`, which is empty, in order.
    fn run(&mut self, source: ElemId, batch: &mut Vec<Pkt>, at: Timestamp, done: &mut Vec<Pkt>);
    /// Rewriters forget their flows. Does nothing where nothing is kept.
    fn forget(&mut self) {}
    /// Buffers in the place of `n` packets that did not come out, to be refilled.
    fn buffers(&mut self, to: &mut Vec<Pkt>, n: usize) {
        let one = || Box::new(onefold_packet::Packet::from_slice(&[]));
        to.resize_with(to.len() + n, one);
    }
    /// What became of all packets so far.
    fn account(&self) -> Account;
    /// Traffic classes whose packets were seen so far, if the subject has any.
    fn classes_hit(&self) -> Option<usize> {
        None
    }
    /// How long it does something else in the beginning than later on: it is run for so long before anything is
    /// measured.
    fn settles(&self) -> Duration {
        Duration::ZERO
    }
    /// What the flow table has done so far, if the subject has one, and why packets that could have had an entry have
    /// none.
    fn flow_stats(&self) -> Option<(FlowStats, Vec<(&'static str, u64)>)> {
        None
    }
}

/// Nothing is done but to look at each packet's first cache line: what no execution can be faster than.
#[derive(Debug, Default)]
pub struct Ceiling {
    seen: u64,
    sum: u64,
}

impl Subject for Ceiling {
    fn name(&self) -> &'static str {
        "ceiling"
    }
    fn run(&mut self, _: ElemId, batch: &mut Vec<Pkt>, _: Timestamp, done: &mut Vec<Pkt>) {
        self.seen += batch.len() as u64;
        for p in batch.iter() {
            if let Some(head) = p.window::<8>() {
                self.sum = self.sum.wrapping_add(u64::from_ne_bytes(*head));
            }
        }
        std::hint::black_box(self.sum);
        std::mem::swap(batch, done);
    }
    fn account(&self) -> Account {
        Account {
            packets_in: self.seen,
            packets_out: self.seen,
            ..Account::default()
        }
    }
}

/// Exchanges the MAC addresses of each packet: the least that forwarding can be.
#[derive(Debug, Default)]
pub struct MacSwap {
    seen: u64,
}

impl Subject for MacSwap {
    fn name(&self) -> &'static str {
        "mac-swap"
    }
    fn run(&mut self, _: ElemId, batch: &mut Vec<Pkt>, _: Timestamp, done: &mut Vec<Pkt>) {
        self.seen += batch.len() as u64;
        for p in batch.iter_mut() {
            if let Some(head) = p.data_mut().first_chunk_mut::<12>() {
                let (to, from) = head.split_at_mut(6);
                to.swap_with_slice(from);
            }
        }
        std::mem::swap(batch, done);
    }
    fn account(&self) -> Account {
        Account {
            packets_in: self.seen,
            packets_out: self.seen,
            ..Account::default()
        }
    }
}

fn account(g: &Graph) -> Account {
    let t = g.totals();
    Account {
        packets_in: t.packets_in,
        created: t.created,
        packets_out: t.sent,
        dropped: t.dropped,
        held: t.held.min(i64::MAX as u64) as i64,
        punted: 0,
    }
}

/// Classes that took packets.
fn classes_hit(r: &Report) -> usize {
    r.classes().iter().filter(|c| c.packets > 0).count()
}

/// A chain, executed in one of the ways that there are.
pub struct Executed(pub Box<dyn Executor>);

impl Subject for Executed {
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn run(&mut self, source: ElemId, batch: &mut Vec<Pkt>, at: Timestamp, done: &mut Vec<Pkt>) {
        self.0.run_at(source, batch, at);
        self.0.collect(done);
    }
    fn forget(&mut self) {
        self.0.graph_mut().forget_flows();
    }
    fn buffers(&mut self, to: &mut Vec<Pkt>, n: usize) {
        self.0.lend_packets(to, n);
    }
    fn account(&self) -> Account {
        Account {
            punted: self.0.report().map_or(0, |r| r.punted()),
            ..account(self.0.graph())
        }
    }
    fn classes_hit(&self) -> Option<usize> {
        self.0.report().as_ref().map(classes_hit)
    }
    fn settles(&self) -> Duration {
        self.0.settles()
    }
    fn flow_stats(&self) -> Option<(FlowStats, Vec<(&'static str, u64)>)> {
        self.0.flow_stats()
    }
}
