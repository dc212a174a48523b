//! Packets whose actions have been applied leave, are dropped, or go on.

use crate::flow::batch_drain::BatchDrain;
use crate::flow::rewrite_template::NO_SINK;
use crate::flow::runner::FlowRunner;
use crate::flow::stats::FlowStats;
use crate::program::ProgramRunner;
use onefold_element::{ElemId, Outbox};
use onefold_packet::Packet;

impl FlowRunner {
    /// The first packets of a group leave at the sinks that have been
    /// [noted](crate::flow::batch_meta::BatchMeta::sinks), as [`FlowRunner::transmit`] says.
    #[inline(always)]
    pub(crate) fn transmit_noted(
        &mut self,
        cache: usize,
        packets: &mut BatchDrain<'_>,
        n: usize,
        dropped: u64,
    ) {
        if n == 0 {
            // no run begins: others may leave next that nobody puts in order
            return;
        }
        if self.has_exits(cache) || self.depth > 0 {
            let sinks = self.meta.sinks;
            return self.transmit_or_wait(0, packets, sinks.get(..n).unwrap_or_default());
        }
        let sinks = self.meta.sinks.get(..n).unwrap_or_default();
        send_known(packets, sinks, dropped, &mut self.runner.graph.out);
    }

    /// As many packets of a cache as there are sinks leave at these, or go on; those that have none, `dropped`, are
    /// dropped. `from`: the number of the first one in its group.
    #[inline(always)]
    pub(crate) fn transmit(
        &mut self,
        cache: usize,
        from: usize,
        packets: &mut BatchDrain<'_>,
        sinks: &[u32],
        dropped: u64,
    ) {
        match self.has_exits(cache) || self.depth > 0 {
            false => send_known(packets, sinks, dropped, &mut self.runner.graph.out),
            true => self.transmit_or_wait(from, packets, sinks),
        }
    }

    /// So many packets were known. Those that go on have been counted at their entry.
    #[inline(always)]
    pub(crate) fn came(&mut self, packets: u64, by_class: u64) {
        if self.depth > 0 {
            return;
        }
        count_known(&mut self.stats, &mut self.runner, packets, by_class);
    }

    /// A packet as it came is kept, to be compared. Behind exits, marks and annotations are looked at, too.
    pub(crate) fn keep_original(&mut self, p: &Packet) {
        match self.runner.loaded.as_ref().map(|l| l.code.later.is_some()) {
            Some(true) => self.original = p.clone(),
            _ => self.original.refill(p.data()),
        }
    }
}

/// As many packets as there are sinks leave at these; those that have none, so many, are dropped.
#[inline(always)]
fn send_known(packets: &mut BatchDrain<'_>, sinks: &[u32], dropped: u64, out: &mut Outbox) {
    if dropped == 0 {
        packets.send(sinks, &mut out.transmitted);
        return;
    }
    for sink in sinks {
        match (packets.next(), *sink) {
            // the reason is told later
            (Some(p), NO_SINK) => out.pool.recycle(p),
            (Some(p), sink) => out.transmitted.push((ElemId(sink), p)),
            (None, _) => {}
        }
    }
}

/// So many packets were known at their entry.
#[inline(always)]
pub(crate) fn count_known(
    stats: &mut FlowStats,
    runner: &mut ProgramRunner,
    packets: u64,
    by_class: u64,
) {
    stats.hits += packets;
    stats.by_class += by_class;
    if let Some(l) = &mut runner.loaded {
        l.packets += packets;
    }
    runner.graph.packets_in += packets;
}
