//! What is told of a table: its connections as text, and its state.

use super::class::STATES;
use super::table::{ASSURED, ConnTable, DNAT, FLIPPED, Record, SEEN_REPLY, SNAT, TCP, USED};
use onefold_element::{Partition, Scope, State, state_any};
use onefold_nat::{COUNTED_AT_ONCE, DestinationCounts, ServerEnd};
use std::any::Any;
use std::fmt::Write;

impl ConnTable {
    /// One line per connection that has not ended, sorted: what it is, its state, its status, seconds it has left.
    pub fn text(&self, now: u64) -> String {
        let mut all: Vec<(u32, &Record)> = self.live(now).collect();
        all.sort_by_key(|(_, r)| r.key);
        let mut s = String::new();
        for (i, r) in all {
            let left = self.expires(i).saturating_sub(now).div_ceil(1000);
            let _ = writeln!(s, "{} {left}", self.describe_record(i, r));
        }
        s
    }

    /// What is known of the connection with this number, for traces.
    pub fn describe(&self, i: u32) -> Option<String> {
        let r = self.records.get(i as usize)?;
        (r.status & USED != 0).then(|| self.describe_record(i, r))
    }

    /// Counts connections whose destination is translated, and that have not ended, by where they go; of
    /// [`COUNTED_AT_ONCE`] records from number `from` on. Where the next ones begin; `None`: that was all.
    pub fn count_destinations(
        &self,
        now: u64,
        from: usize,
        counts: &mut DestinationCounts<ServerEnd>,
    ) -> Option<usize> {
        let end = from.saturating_add(COUNTED_AT_ONCE);
        let records = self.records.iter().enumerate().skip(from);
        for (i, r) in records.take(COUNTED_AT_ONCE) {
            let i = i as u32;
            let live = r.status & USED != 0 && !self.has_ended(i, now);
            let t = self.translation(i);
            let t = t.filter(|_| live && r.status & DNAT != 0);
            if let Some(t) = t {
                let (address, port) = t.leaves().destination();
                counts.add((address, port), (address, 0));
            }
        }
        (end < self.records.len()).then_some(end)
    }

    fn describe_record(&self, i: u32, r: &Record) -> String {
        let mut s = r.key.text(r.status & FLIPPED != 0).to_string();
        if r.key.protocol() == TCP {
            let _ = write!(s, " {}", r.machine.state.name());
        }
        let words = [
            (SEEN_REPLY, "seen-reply"),
            (ASSURED, "assured"),
            (SNAT, "snat"),
            (DNAT, "dnat"),
        ];
        for (_, name) in words.iter().filter(|(bit, _)| r.status & bit != 0) {
            let _ = write!(s, " {name}");
        }
        let mark = self.given.mark(i);
        if mark != 0 {
            let _ = write!(s, " mark {mark:#x}");
        }
        if let Some(t) = self.translation(i) {
            let (key, flipped) = t.leaves().key();
            let _ = write!(s, " as {}", key.text(flipped));
        }
        s
    }
}

impl State for ConnTable {
    fn summary(&self) -> String {
        let t = &self.totals;
        let mut s = format!(
            "{} entered, {} expired, {} evicted, {} ended, {} full, {} clashed",
            t.entered, t.expired, t.evicted, t.ended, t.full, t.clashed
        );
        for (state, n) in STATES.iter().zip(t.packets) {
            let _ = write!(s, ", {n} {}", state.name());
        }
        // in the order of records: it decides who gives way next
        let _ = writeln!(s, "\nnext {}", self.sweep);
        for (i, r) in (0..).zip(self.records.iter()) {
            if r.status & USED != 0 {
                let what = self.describe_record(i, r);
                let n = self.noted.get(i as usize).copied().unwrap_or_default();
                let _ = write!(s, "{i} {what} until {} {:?}", n.expires, r.machine);
                let _ = writeln!(s, " {:?} {} {}", n.acks, n.end, n.reply);
            }
        }
        s
    }
    fn part(&self) -> Option<&dyn Any> {
        Some(&self.leases)
    }
    fn part_mut(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.leases)
    }
    state_any!(Scope::Partitioned(Partition::Flow));
}
