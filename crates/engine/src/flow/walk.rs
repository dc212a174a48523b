//! Packets that go all their way alone, through all caches, before the next one is looked at.
//!
//! That is how [composed actions](crate::flow::composed) are applied, and how they come to be known: now and then a
//! packet is looked up cache by cache, what it was found in is written down, and what follows from what is worked out.

use crate::flow::action_table::ActionTable;
use crate::flow::composed::{ComposedTable, Part};
use crate::flow::exit::{Next, Output};
use crate::flow::in_place_way::Headers;
use crate::flow::ingress_cache::IngressCache;
use crate::flow::lease::LeasePool;
use crate::flow::lookup::entry;
use crate::flow::packet_meta::BY_FLOW;
#[cfg(debug_assertions)]
use crate::flow::packet_meta::PacketMeta;
use crate::flow::rewrite_template::{EXIT, NO_SINK, RewriteTemplate};
use crate::flow::runner::{FlowRunner, tell};
use crate::flow::table::NO_SLOT;
#[cfg(debug_assertions)]
use crate::flow::table::Table;
use crate::flow::transmit::count_known;
use crate::flow::wave::{LONGEST, place};
use crate::graph::reference::Graph;
use crate::simd::Wide;
use crate::simd::any::Any;
use crate::simd::window_rewrite::Operands as FlowOperands;
use onefold_element::{ElemId, Emission};
use onefold_nat::{Leases, NO_LEASE};
use onefold_packet::{Packet, Pkt, Timestamp};

/// Why a packet does not go all the way that was composed.
enum Stop {
    /// It is not known after all.
    Unknown(Pkt),
    /// It is to be looked up in this cache, from where that looks.
    Elsewhere(u32, Pkt),
    /// An element that was asked, whose outputs these are, has done something else from this effect on; the packet's
    /// place.
    Emitted(u32, (u32, u32), usize, u64),
}

/// What becomes of a packet behind an action.
pub(crate) enum Then {
    /// It is looked at in this cache.
    Cache(u32, Pkt),
    /// It left, was dropped, or went on elsewhere.
    Gone,
}

impl FlowRunner {
    /// Has this packet of a group a composed action? `stale`: the table may have changed since it was asked.
    #[inline(always)]
    pub(crate) fn is_composed(&mut self, wide: impl Wide, i: usize, stale: bool) -> bool {
        let Some(x) = self.group.get_mut(i) else {
            return false;
        };
        if x.slot != NO_SLOT && (stale || x.action == BY_FLOW) {
            entry(wide, &self.table, x);
        }
        ComposedTable::is(x.action)
    }

    /// Nothing has changed that what is known depends on.
    #[inline(always)]
    pub(crate) fn holds(&self) -> bool {
        let core = &self.runner.graph.core;
        self.seen == Some(core.changes) && core.overruns == 0
    }

    /// A packet with a composed action goes all its way. Given back if it is not known after all.
    #[inline(always)]
    pub(crate) fn walk(
        &mut self,
        wide: impl Wide,
        cache: usize,
        i: usize,
        p: Pkt,
        now: Timestamp,
    ) -> Option<Pkt> {
        self.walk_from(wide, (cache, i), p, now, 0)
    }

    /// [`FlowRunner::walk`] of a packet that has been taken account of in so many parts, and let pass by all elements
    /// between them ([`crate::flow::in_place`]): the next one is given it.
    #[cold]
    #[inline(never)]
    pub(crate) fn walk_on(&mut self, from: (usize, usize), p: Pkt, now: Timestamp, done: usize) {
        let back = self.walk_from(Any, from, p, now, done);
        debug_assert!(back.is_none(), "it is known in any case");
    }

    #[inline(always)]
    fn walk_from(
        &mut self,
        wide: impl Wide,
        (cache, i): (usize, usize),
        mut p: Pkt,
        now: Timestamp,
        done: usize,
    ) -> Option<Pkt> {
        let Some(x) = self.group.get(i) else {
            return Some(p);
        };
        let (number, slot, lease, own, total) = (x.action, x.slot, x.lease, x.operands, x.total);
        if done == 0 && (!self.holds() || p.len() > LONGEST) {
            return Some(p);
        }
        self.flush();
        p.order = place(i);
        let parts = self.composed.parts(number);
        debug_assert!(parts.first().is_some_and(|p| p.cache == cache as u32));
        let mut next = parts.iter();
        let mut done = done;
        // Bound: the parts of a composed action
        let stop = loop {
            let Some(part) = next.next() else {
                break Stop::Elsewhere(cache as u32, p);
            };
            let is_done = done > 0;
            done = done.saturating_sub(1);
            let is_first = part.cache == cache as u32 && !is_done;
            if (part.marked && !marks_hold(&self.ingress, part, &p))
                || (part.own && !is_done && lease != NO_LEASE && !touched(&self.pool, lease, now))
            {
                break match is_first {
                    true => Stop::Unknown(p),
                    false => Stop::Elsewhere(part.cache, p),
                };
            }
            #[cfg(debug_assertions)]
            is_found((&self.ingress, &self.table), part, &p);
            if is_first {
                self.table.mark(slot);
                self.stats.composed += 1;
                let by_class = u64::from(slot == NO_SLOT);
                count_known(&mut self.stats, &mut self.runner, 1, by_class);
            }
            match self.actions.tallies.get_mut(part.action as usize) {
                _ if is_done => {}
                Some(t) if t.ready() => t.add(1, p.len() as u32, total),
                _ => tally_and_tell(
                    &mut self.actions,
                    (&mut self.dirty, &mut self.moments),
                    &mut self.runner.graph,
                    (part.action, p.len(), total),
                ),
            }
            let Some(template) = self.actions.templates.get(part.template as usize) else {
                break Stop::Elsewhere(part.cache, p);
            };
            let operands = [&template.bytes.operands, &own][usize::from(part.own)];
            apply(wide, template, operands, total, &mut p);
            if template.sink & EXIT == 0 || template.sink == NO_SINK {
                leaves(&mut self.runner.graph, template.sink, p);
                return None;
            }
            let (Some(exit), Some(l), Some(then)) = (
                self.exits.all.get_mut((template.sink & !EXIT) as usize),
                &mut self.runner.loaded,
                next.as_slice().first(),
            ) else {
                break Stop::Elsewhere(part.cache, p);
            };
            exit.apply(&l.code, &mut p);
            if let Next::Ask {
                node,
                port,
                outputs,
                site,
            } = exit.next
                && done == 0
            {
                l.state.counts.site(site);
                let order = p.order;
                let mark = ask_element(&mut self.runner.graph, (node, port), p);
                let out = &mut self.runner.graph.out;
                match out.effects.get(mark..) {
                    Some([Emission::Emit(to, _)])
                        if self.exits.output(outputs, *to) == Some(Output::Cache(then.cache)) => {}
                    _ => break Stop::Emitted(node, outputs, mark, order),
                }
                let Some(Emission::Emit(_, back)) = out.effects.pop() else {
                    return None;
                };
                p = back;
                p.order = order;
            }
            p.push(then.shift.into());
        };
        self.goes_elsewhere(stop, slot, lease)
    }

    /// A packet leaves the way that was composed.
    #[cold]
    #[inline(never)]
    fn goes_elsewhere(&mut self, stop: Stop, slot: u32, lease: u32) -> Option<Pkt> {
        if lease != NO_LEASE && !self.pool.leases.runs(lease) {
            self.drop_entry(slot);
            self.stats.ended += 1;
        }
        match stop {
            Stop::Unknown(p) => Some(p),
            Stop::Elsewhere(cache, p) => self.look_up_alone(cache, p),
            Stop::Emitted(node, outputs, mark, order) => {
                if self.runner.graph.out.effects.len() > mark {
                    self.emitted(node, outputs, mark, order);
                    self.run_lanes();
                    self.flush();
                }
                None
            }
        }
    }

    /// A flow's lease, if it has one, is used. False if it has ended.
    pub(crate) fn is_used(&mut self, lease: u32, slot: u32, now: Timestamp) -> bool {
        if lease == NO_LEASE || touched(&self.pool, lease, now) {
            debug_assert!(lease == NO_LEASE || self.pool.holds(lease, &self.runner.graph.store));
            return true;
        }
        self.drop_entry(slot);
        self.stats.ended += 1;
        false
    }

    /// One packet more of an action is to be accounted for; those are told who cannot wait.
    #[inline(always)]
    pub(crate) fn tally(&mut self, action: u32, len: usize, total: u32) {
        if let Some(t) = self.actions.tallies.get_mut(action as usize)
            && t.ready()
        {
            return t.add(1, len as u32, total);
        }
        tally_and_tell(
            &mut self.actions,
            (&mut self.dirty, &mut self.moments),
            &mut self.runner.graph,
            (action, len, total),
        );
    }

    /// A packet leaves, is dropped, or goes through its action's exit. Where it comes to a cache, it is looked at from
    /// as many bytes before its first one as the cache says.
    #[inline(always)]
    pub(crate) fn after(&mut self, action: u32, mut p: Pkt) -> Then {
        let sink = self.actions.template(action).map_or(NO_SINK, |t| t.sink);
        if sink & EXIT == 0 || sink == NO_SINK {
            leaves(&mut self.runner.graph, sink, p);
            return Then::Gone;
        }
        let Some((exit, l)) =
            (self.exits.all.get_mut((sink & !EXIT) as usize)).zip(self.runner.loaded.as_mut())
        else {
            return Then::Gone;
        };
        exit.apply(&l.code, &mut p);
        match exit.next {
            Next::Cache(cache) => self.comes_to(cache, p),
            Next::Ask {
                node,
                port,
                outputs,
                site,
            } => {
                l.state.counts.site(site);
                self.ask_alone((node, port), outputs, p)
            }
        }
    }

    /// A packet is looked at from where the cache looks.
    #[inline(always)]
    fn comes_to(&mut self, cache: u32, mut p: Pkt) -> Then {
        if let Some(l) = self.ingress.get(cache as usize) {
            p.push(l.seat.shift as usize);
        }
        Then::Cache(cache, p)
    }

    /// An element is given a packet. Where it gives back that one alone, at an output that leads to a cache, the packet
    /// is handed back; what else it does is done.
    #[inline(always)]
    fn ask_alone(&mut self, (node, port): (u32, u32), outputs: (u32, u32), p: Pkt) -> Then {
        let order = p.order;
        self.headers = Headers::of(&p);
        let mark = ask_element(&mut self.runner.graph, (node, port), p);
        let g = &mut self.runner.graph;
        if g.out.effects.len() == mark + 1
            && let Some(Emission::Emit(port, _)) = g.out.effects.last()
            && let Some(Output::Cache(cache)) = self.exits.output(outputs, *port)
            && let Some(Emission::Emit(_, mut p)) = g.out.effects.pop()
        {
            p.order = order;
            return self.comes_to(cache, p);
        }
        if g.out.effects.len() > mark {
            self.emitted(node, outputs, mark, order);
            self.run_lanes();
            self.flush();
        }
        Then::Gone
    }

    /// A packet that is looked at from where a cache looks is looked up there like any other, and goes on from there.
    #[inline(never)]
    pub(crate) fn look_up_alone(&mut self, cache: u32, mut p: Pkt) -> Option<Pkt> {
        if let Some(l) = self.ingress.get(cache as usize) {
            p.pull(l.seat.shift as usize);
        }
        self.put(cache, p);
        self.run_lanes();
        self.flush();
        None
    }
}

/// A flow's lease is used now. False if it has ended.
#[inline(always)]
pub(crate) fn touched(pool: &LeasePool, lease: u32, now: Timestamp) -> bool {
    let stamp = Leases::stamp_after(pool.leases.clock(), now);
    let runs = pool.leases.touch(lease, stamp);
    if runs {
        pool.leases.set_clock(stamp);
    }
    runs
}

/// Are a packet's annotations what a part's masked match asks?
fn marks_hold(caches: &[IngressCache], part: &Part, p: &Packet) -> bool {
    let guard = caches
        .get(part.cache as usize)
        .and_then(|l| l.matches.get(usize::from(part.guard)));
    guard
        .zip(p.window())
        .is_some_and(|(b, w)| b.others_hold(w, p))
}

/// For debug builds: a packet is found in what it is said to follow that it is found in.
#[cfg(debug_assertions)]
pub(crate) fn is_found((caches, table): (&[IngressCache], &Table), part: &Part, p: &Packet) {
    let mut x = PacketMeta::default();
    if let Some(l) = caches.get(part.cache as usize) {
        l.parse(Any, p, &mut x);
    }
    assert_eq!(x.guard, part.guard, "a match that did not follow");
    let action = match x.action {
        BY_FLOW => table
            .get(table.find(table.hash(&x.key), &x.key))
            .map(|l| l.0[5] as u32),
        known => Some(known).filter(|a| *a < BY_FLOW),
    };
    let right = |a: u32| a == part.action || ComposedTable::is(a);
    assert!(
        action.is_none_or(right),
        "action {action:?} instead of {}",
        part.action
    );
}

/// One packet more of an action is to be accounted for, and those are told who cannot wait. The packet's length, and
/// what its IP header says.
#[inline(never)]
pub(crate) fn tally_and_tell(
    actions: &mut ActionTable,
    (dirty, moments): (&mut Vec<u32>, &mut Vec<u32>),
    graph: &mut Graph,
    (action, len, total): (u32, usize, u32),
) {
    let Some((w, t)) = actions.get_mut(action) else {
        return;
    };
    if !t.ready() {
        if t.pending().packets == 0 {
            dirty.push(action);
        }
        if t.plain() {
            t.set_ready();
        }
    }
    t.add(1, len as u32, total);
    let (late, moment) = w.late;
    if late < w.name.counts.len() {
        let len = len as u64;
        if moment > 0 && w.counts_in_moment(len, total) {
            moments.push(action);
        }
        for c in w.name.counts.get(late + moment..).unwrap_or_default() {
            tell(graph, c, 1, len, total.into());
        }
    }
}

/// A packet becomes what the template makes of it.
#[inline(always)]
pub(crate) fn apply(
    wide: impl Wide,
    template: &RewriteTemplate,
    operands: &FlowOperands,
    total: u32,
    p: &mut Packet,
) {
    if template.sink == NO_SINK {
        return;
    }
    if template.quick {
        template.end(p, total);
        if template.idle {
            return;
        }
        if let Some(w) = p.window_mut() {
            return template.apply_quick(wide, w, operands);
        }
    } else if let Some(turn) = &template.turn {
        template.end(p, total);
        if let Some(w) = p.window_mut() {
            return template.apply_turned(wide, turn, w, operands);
        }
    }
    template.apply(p, operands, total);
}

/// An element is given a packet: its effects are behind those of which this is the number.
#[inline(always)]
fn ask_element(g: &mut Graph, (node, port): (u32, u32), p: Pkt) -> usize {
    let mark = g.out.effects.len();
    (g.out.batched, g.out.order) = (false, p.order);
    (g.core).with(node, &mut g.out, &mut g.store, |e, cx| {
        e.push(port as usize, p, cx)
    });
    mark
}

/// A packet leaves at its sink, or is dropped.
#[inline(always)]
pub(crate) fn leaves(g: &mut Graph, sink: u32, mut p: Pkt) {
    let out = &mut g.out;
    if sink == NO_SINK {
        // the reason is told later
        out.dropped += 1;
        return out.pool.recycle(p);
    }
    // an element may have taken its time stamp away
    if !p.anno.timestamp.is_set() {
        p.anno.timestamp = g.core.now;
    }
    out.sent += 1;
    out.transmitted.push((ElemId(sink), p));
}
