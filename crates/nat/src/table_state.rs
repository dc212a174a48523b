//! The table as a state of a graph.

use crate::endpoints::Endpoint;
use crate::flow_id::FlowId;
use crate::insert_evict::EvictionOrder;
use crate::lease::STAMP_BITS;
use crate::record::{Member, Record};
use crate::table::FlowTable;
use onefold_state::{ElemId, Partition, Scope, State, Takes, state_any};
use std::fmt::Write;

impl FlowTable {
    /// All flows of a map, by the key that packets arrive with: the directions that a look-up finds.
    pub fn entries(&self, map: u16) -> Vec<(&Record, bool)> {
        let mut v: Vec<(&Record, bool)> = Vec::new();
        for (i, r) in self.records.iter().enumerate() {
            if !r.used() || r.map != map {
                continue;
            }
            for reply in [false, true] {
                if self.lookup(map, &r.key(reply)) == Some((i as u32, reply)) {
                    v.push((r, reply));
                }
            }
        }
        v.sort_by_key(|(r, reply)| r.key(*reply));
        v
    }
}

impl State for FlowTable {
    /// All flows; rewriters, with their specifications, are the new graph's.
    fn take_state(
        &mut self,
        old: &mut dyn State,
        same: &dyn Fn(ElemId) -> Option<ElemId>,
    ) -> Takes {
        let Some(old) = old.as_any_mut().downcast_mut::<FlowTable>() else {
            return Takes::Nothing;
        };
        let alike = |(mine, old): (&Member, &Member)| {
            same(old.elem) == Some(mine.elem)
                && old.kind == mine.kind
                && old.specs.len() == mine.specs.len()
        };
        if self.members.len() != old.members.len()
            || !self.members.iter().zip(&old.members).all(alike)
        {
            return Takes::Nothing;
        }
        // what a flow table in front knows of their last use is written down
        old.detach();
        std::mem::swap(self, old);
        for (mine, new) in self.members.iter_mut().zip(&old.members) {
            (mine.elem, mine.specs) = (new.elem, new.specs.clone());
        }
        (self.shared_with, self.order, self.flood) =
            (old.shared_with, EvictionOrder::default(), false);
        Takes::Done
    }
    /// Flows by key; among them `age` is the rank by last use (eviction depends on it where times are equal).
    fn summary(&self) -> String {
        let mut out = String::new();
        if let Some(e) = self.shared_with {
            return format!("flow table shared with element {}\n", e.0);
        }
        // writing to a String cannot fail
        let _ = writeln!(out, "capacity {}", self.capacity);
        for m in &self.members {
            let _ = write!(out, "rewriter {}", m.elem.0);
            for c in &m.inputs {
                let _ = write!(out, " {}/{}", c.flows, c.failures);
            }
            out.push('\n');
        }
        let mut by_age: Vec<u32> = (0..self.records.len() as u32)
            .filter(|i| self.records[*i as usize].used())
            .collect();
        let leases = self.leases.as_deref();
        by_age.sort_by_key(|i| self.records[*i as usize].last_use(leases));
        let mut lines: Vec<(u16, FlowId, String)> = Vec::new();
        for (age, i) in by_age.into_iter().enumerate() {
            let r = &self.records[i as usize];
            let degenerate = self.lookup(r.map, &r.forward) != Some((i, false));
            let mut s = format!(
                "{} {} => {} [{} {}] input {} protocol {} flags {} anno {} last {} age {age}",
                r.map,
                r.forward,
                r.rewritten(false),
                r.output[0],
                r.output[1],
                r.input,
                r.ip_p,
                r.flags,
                r.reply_anno,
                r.last_use(leases) >> STAMP_BITS
            );
            if degenerate {
                s.push_str(" reply-only");
            }
            if let Some(d) = self.shifts(r) {
                let _ = write!(s, " shifts {}", d.summary());
            }
            lines.push((r.map, r.forward, s));
        }
        lines.sort();
        for (_, _, s) in lines {
            out.push_str(&s);
            out.push('\n');
        }
        for (map, outside, inside, flows) in self.endpoints.iter().flat_map(|e| e.all()) {
            let ip = |e: Endpoint| std::net::Ipv4Addr::from(e.addr);
            let _ = writeln!(
                out,
                "mapping {map} {}:{} => {}:{} flows {flows}",
                ip(inside),
                inside.port,
                ip(outside),
                outside.port
            );
        }
        out.push_str(&self.fragments_text());
        out
    }
    state_any!(Scope::Partitioned(Partition::Flow));
}
