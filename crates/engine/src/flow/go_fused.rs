//! Packets on ways that are [written once](crate::flow::fused_way).

use crate::flow::fused_way::{Fused, WayTally};
use crate::flow::hints::{hint, set_hint};
use crate::flow::in_place_way::HINTS;
use crate::flow::runner::{FlowRunner, tell};
use crate::flow::table::NO_SLOT;
use crate::flow::walk::{leaves, tally_and_tell, touched};
use crate::simd::window_rewrite::{Operands, rewrite_packet};
use crate::simd::{WINDOW, Wide};
use onefold_element::{InspectCx, Inspected, NO_HINT};
use onefold_nat::NO_LEASE;
use onefold_packet::{Packet, Pkt, Timestamp};
use std::ops::Range;

/// What a packet was before it was written: where it stood, and the bytes that are written over.
type Before = (Range<u32>, [u8; WINDOW]);

/// A packet on a way, as it came.
#[derive(Clone, Copy)]
struct Came {
    /// Where it is in the group, and in what cache it was found.
    at: (usize, usize),
    way: u32,
    /// Its length, and to where its IP header says that it ends if the way goes by that.
    len: usize,
    end: usize,
    total: u32,
}

impl Fused {
    /// Has this packet room for what is written?
    #[inline(always)]
    pub fn fits(&self, p: &Packet) -> bool {
        let room = (p.len() + p.tailroom()) as isize;
        isize::from(self.start) + WINDOW as isize <= room
    }

    /// What element number `j` would find in the packet that it would be given.
    #[inline(always)]
    fn seen<'a>(&self, j: usize, p: &'a Packet, first: usize, came: &Came) -> Inspected<'a> {
        let a = &self.asked[j];
        let upto = match j >= usize::from(self.trimmed) {
            true => came.end,
            false => came.len,
        };
        let net = first + usize::from(self.l3)..first + upto;
        let net = p.buffer().get(net).unwrap_or(&[]);
        Inspected {
            net,
            header: a.header.into(),
            total: (came.total as usize).min(net.len()),
            protocol: a.protocol,
            len: upto.saturating_add_signed(-isize::from(a.start)),
        }
    }

    /// The flow's operands, with what is added for all flows.
    #[inline(always)]
    pub fn operands(&self, own: &Operands) -> Operands {
        match self.sums {
            0 => *own,
            sums => own.with_sums(sums),
        }
    }
}

impl FlowRunner {
    /// A packet of a group, whose lease runs, goes a way that is written once.
    #[inline(always)]
    pub(crate) fn goes_fused(
        &mut self,
        wide: impl Wide,
        at: (usize, usize),
        way: u32,
        mut p: Pkt,
        now: Timestamp,
    ) {
        let x = &self.group[at.1];
        let (slot, lease, total) = (x.slot, x.lease, x.total);
        let Some(f) = self.composed.fused.ways.get(way as usize) else {
            return;
        };
        #[cfg(debug_assertions)]
        let expected = self.expected(at.1, &p);
        self.table.mark(slot);
        let (first, len) = (p.data_offset(), p.len());
        let end = match f.trims {
            true => len.min(usize::from(f.l3) + total as usize),
            false => len,
        };
        let came = Came {
            at,
            way,
            len,
            end,
            total,
        };
        let (mut before, mut j) = (None, 0);
        // Bound: the elements that are asked
        loop {
            if j == usize::from(f.touched) && lease != NO_LEASE {
                let runs = touched(&self.pool, lease, now);
                debug_assert!(runs, "a lease has ended since it was looked at");
            }
            if j == usize::from(f.written) {
                let extent = p.extent();
                match f.start {
                    n if n >= 0 => p.pull(n as usize),
                    n => p.push(n.unsigned_abs().into()),
                }
                if let (Some(w), Some(rewrite)) = (
                    p.window_mut(),
                    self.composed.fused.rewrites.get(f.rewrite as usize),
                ) {
                    if j < usize::from(f.count) {
                        before = Some((extent, *w));
                    }
                    if !f.idle {
                        let operands = match f.own {
                            true => f.operands(&x.operands),
                            false => rewrite.operands,
                        };
                        let template = (rewrite, wide.take(rewrite));
                        rewrite_packet(wide, wide.load(w), template, &operands, w);
                    }
                }
            }
            if j >= usize::from(f.count) {
                break;
            }
            let graph = &mut self.runner.graph;
            let a = &f.asked[j];
            let hinted = a.hint < HINTS && slot != NO_SLOT;
            let hint = hinted.then(|| hint(&self.table, slot, a.hint));
            let mut cx = InspectCx {
                now,
                store: &mut graph.store,
                hint,
            };
            let seen = f.seen(j, &p, first, &came);
            #[cfg(debug_assertions)]
            expected.check(j, &seen);
            if !(graph.core).inspect(a.node.into(), &seen, &mut cx) {
                return self.wanted(&came, (j, before), p, now);
            }
            if cx.hint != hint {
                set_hint(&mut self.table, slot, a.hint, cx.hint.unwrap_or(NO_HINT));
            }
            j += 1;
        }
        if let Some(t) = self.composed.fused.tallies.get_mut(way as usize) {
            if t.packets == 0 {
                self.composed.fused.dirty.push(way);
            }
            *t = WayTally {
                packets: t.packets + 1,
                bytes: t.bytes + len as u64,
                ends: t.ends + end as u64,
                ip_bytes: t.ip_bytes + u64::from(total),
            };
        }
        if end < len {
            p.keep(end.saturating_add_signed(-isize::from(f.start)));
        }
        self.stats.written_once += 1;
        #[cfg(debug_assertions)]
        assert_eq!(p.data(), expected.leaves.data());
        leaves(&mut self.runner.graph, f.sink, p);
    }

    /// Element number `j` wants a packet after all: it is what it was, and has been counted up to there.
    #[cold]
    #[inline(never)]
    fn wanted(
        &mut self,
        came: &Came,
        (j, before): (usize, Option<Before>),
        mut p: Pkt,
        now: Timestamp,
    ) {
        if let Some((extent, bytes)) = before {
            if let Some(w) = p.window_mut() {
                *w = bytes;
            }
            p.set_extent(extent);
        }
        let (mut done, mut asked) = (0, 0);
        // Bound: the parts of a composed action
        while let Some(part) = (self.composed.fused.parts)
            .get(came.way as usize)
            .and_then(|all| all.get(done))
            .copied()
        {
            done += 1;
            let upto = if part.trimmed { came.end } else { came.len };
            let len = upto.saturating_add_signed(-(part.start as isize));
            tally_and_tell(
                &mut self.actions,
                (&mut self.dirty, &mut self.moments),
                &mut self.runner.graph,
                (part.action, len, came.total),
            );
            let Some(site) = part.site else { continue };
            if asked == j {
                break;
            }
            if let Some(l) = &mut self.runner.loaded {
                l.state.counts.site(site);
            }
            asked += 1;
        }
        self.walk_on(came.at, p, now, done);
    }

    /// The moment ends for packets that went ways that are written once.
    #[inline]
    pub(crate) fn end_fused_moment(&mut self) {
        let fused = &mut self.composed.fused;
        if fused.dirty.is_empty() {
            return;
        }
        let mut counts = self.runner.loaded.as_mut().map(|l| &mut l.state.counts);
        fused.end_moment(|site, n| {
            if let Some(c) = &mut counts {
                c.site_many(site, n);
            }
        });
        for (c, n) in &mut fused.counters {
            let n = std::mem::take(n);
            if n.packets > 0 {
                tell(&mut self.runner.graph, c, n.packets, n.bytes, n.ip_bytes);
            }
        }
    }

    /// Actions are told of packets that went ways that are written once, in moments that have ended.
    pub(crate) fn tell_fused(&mut self) {
        for (action, n) in self.composed.fused.waiting() {
            let Some((_, t)) = self.actions.get_mut(action) else {
                continue;
            };
            if !t.ready() {
                if t.pending().packets == 0 {
                    self.dirty.push(action);
                }
                if t.plain() {
                    t.set_ready();
                }
            }
            t.add_many(n.packets, n.bytes, n.ip_bytes);
        }
        self.composed.fused.all_told();
    }
}

/// For debug builds: what a packet would be, and elements would find, template by template.
#[cfg(debug_assertions)]
pub(crate) struct Expected {
    /// From the IP header on, with its length, the length that it says, the protocol and the packet's length.
    seen: Vec<(Vec<u8>, usize, usize, u8, usize)>,
    pub(crate) leaves: Packet,
}

#[cfg(debug_assertions)]
impl Expected {
    pub(crate) fn check(&self, j: usize, seen: &Inspected<'_>) {
        let (header, total) = (seen.header, seen.total);
        let got = (seen.net.to_vec(), header, total, seen.protocol, seen.len);
        assert_eq!(self.seen.get(j), Some(&got));
    }
}

#[cfg(debug_assertions)]
impl FlowRunner {
    pub(crate) fn expected(&self, i: usize, p: &Packet) -> Expected {
        let x = &self.group[i];
        let way = self.composed.in_place(x.action).unwrap();
        let (mut p, mut shadow) = (p.clone(), p.clone());
        let mut all = Vec::new();
        for (k, s) in way.stretches.iter().enumerate() {
            let template = &self.actions.templates[s.template as usize];
            let operands = [&template.bytes.operands, &x.operands][usize::from(s.own)];
            crate::flow::walk::apply(crate::simd::any::Any, template, operands, x.total, &mut p);
            self.check(x.action, k, operands, x.total, (&p, &mut shadow));
            s.moves(&mut p);
            if let Some(a) = &s.asked {
                let seen = a.of(&p, x.total);
                let (header, total) = (seen.header, seen.total);
                all.push((seen.net.to_vec(), header, total, seen.protocol, seen.len));
            }
        }
        Expected {
            seen: all,
            leaves: p,
        }
    }
}
