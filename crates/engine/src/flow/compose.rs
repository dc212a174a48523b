//! Packets that are looked up cache by cache, so that what follows from what comes to be known and can be
//! [composed](crate::flow::composed).

use crate::flow::composed::{Known, Part, follows};
use crate::flow::exit::{Next, Output};
use crate::flow::in_place_way::Headers;
use crate::flow::learn::{entry_of, flow_of};
use crate::flow::origin;
use crate::flow::packet_meta::{BY_FLOW, NO_MATCH, PacketMeta};
use crate::flow::rewrite_template::{EXIT, Flow, NO_SINK, RewriteTemplate};
use crate::flow::runner::FlowRunner;
use crate::flow::table::{LONG, NO_SLOT};
use crate::flow::walk::{Then, apply};
use crate::flow::wave::{LONGEST, place};
use crate::simd::WINDOW;
use crate::simd::any::Any;
use onefold_nat::NO_LEASE;
use onefold_packet::{Packet, Pkt, Timestamp};

/// What a packet was found in at one of its caches.
struct Step {
    part: Part,
    slot: u32,
    key: [u64; 5],
    hash: u64,
    lease: u32,
    flow: Flow,
    window: [u8; WINDOW],
    /// What an element finds in the packet that is asked behind this action.
    headers: Option<Headers>,
}

impl Step {
    /// In an entry of a composed action elements' hints stand in their place.
    fn has_zero_sums(&self) -> bool {
        self.flow.zero_udp_checksum != [0; 3]
    }
}

impl FlowRunner {
    /// A packet at an entry is looked up cache by cache; if it `composes`, what follows from what it was found in there
    /// is composed. Given back if it is not known.
    #[inline(never)]
    pub(crate) fn walk_and_compose(
        &mut self,
        (cache, i): (usize, usize),
        mut p: Pkt,
        now: Timestamp,
        composes: bool,
    ) -> Option<Pkt> {
        if !self.holds() || p.len() > LONGEST {
            return Some(p);
        }
        self.flush();
        p.order = place(i);
        let mut steps: Vec<Step> = Vec::new();
        let mut at = cache as u32;
        // Bound: the depth of caches
        loop {
            self.look_at_neighbors(now);
            let Some((step, total)) = self.found_in(at, &p) else {
                return match steps.len() {
                    0 => Some(p),
                    _ => self.look_up_alone(at, p),
                };
            };
            if !self.is_used(step.lease, step.slot, now) {
                return match steps.len() {
                    0 => Some(p),
                    _ => self.look_up_alone(at, p),
                };
            }
            if step.slot != NO_SLOT {
                self.table.mark(step.slot);
            }
            if steps.is_empty() {
                self.came(1, u64::from(step.slot == NO_SLOT));
            }
            let mut operands = step.flow.operands;
            if let Some(template) = self.actions.template(step.part.action)
                && let Some(sum) = template.zero_udp_checksum_of(&step.flow, &p)
            {
                operands = operands.with_zero_udp_checksum(sum);
            }
            let action = step.part.action;
            self.tally(action, p.len(), total);
            if let Some(template) = self.actions.template(action) {
                apply(Any, template, &operands, total, &mut p);
            }
            steps.push(step);
            self.headers = None;
            match self.after(action, p) {
                Then::Gone => break,
                Then::Cache(next, behind) => (at, p) = (next, behind),
            }
            if let Some(s) = steps.last_mut() {
                s.headers = self.headers;
            }
        }
        let left = steps
            .last()
            .and_then(|s| self.actions.template(s.part.action));
        let whole = left.is_some_and(|t| t.sink == NO_SINK || t.sink & EXIT == 0);
        if !composes || !self.by_first_outputs(&steps) {
            return None;
        }
        if whole && steps.len() > 1 {
            let done = self.compose(&steps);
            if let Some(l) = self.ingress.get_mut(cache) {
                l.patience.tried(done.is_ok());
            }
            match done {
                Ok(()) => self.news += 1,
                Err(why) => self.note_not_composed(why),
            }
        } else if let Some(l) = self.ingress.get_mut(cache) {
            l.patience.tried(false);
        }
        None
    }

    /// Have all elements that inspect packets let this one leave at output 0? A flow's packets leave elsewhere at
    /// first, mostly (a connection that begins); what was composed then would stay in the flow's entry.
    fn by_first_outputs(&self, steps: &[Step]) -> bool {
        steps.windows(2).all(|pair| {
            let [step, then] = pair else { return true };
            let exit = self.actions.template(step.part.action);
            let exit = exit.filter(|t| t.sink != NO_SINK && t.sink & EXIT != 0);
            let exit = exit.and_then(|t| self.exits.all.get((t.sink & !EXIT) as usize));
            match exit.map(|e| e.next) {
                Some(Next::Ask { node, outputs, .. }) if self.runner.graph.core.inspects(node) => {
                    self.exits.output(outputs, 0) == Some(Output::Cache(then.part.cache))
                }
                _ => true,
            }
        })
    }

    /// What a packet is found in that is looked at from where this cache looks, and what its IP header says of its
    /// length.
    fn found_in(&self, cache: u32, p: &Packet) -> Option<(Step, u32)> {
        let l = self.ingress.get(cache as usize)?;
        let mut x = PacketMeta::default();
        l.parse(Any, p, &mut x);
        if x.guard == NO_MATCH || p.len() > LONGEST {
            return None;
        }
        let guard = l.matches.get(usize::from(x.guard))?;
        let (mut action, mut slot, mut lease) = (x.action, NO_SLOT, NO_LEASE);
        let mut flow = None;
        let hash = self.table.hash(&x.key);
        if action == BY_FLOW {
            slot = self.table.find(hash, &x.key);
            let l = self.table.get(slot)?;
            (action, lease) = (l.0[5] as u32, (l.0[5] >> 32) as u32);
            flow = (x.key[0] & LONG == 0).then(|| flow_of(l));
        }
        let template = self.actions.template(action)?;
        let common = || Flow {
            operands: template.bytes.operands,
            ..Flow::default()
        };
        let flow = flow.unwrap_or_else(common);
        let part = Part {
            action,
            template: self.actions.tallies.get(action as usize)?.template(),
            cache,
            guard: x.guard,
            shift: u16::try_from(l.seat.shift).ok()?,
            marked: guard.asks_marks(),
            own: slot != NO_SLOT && (lease != NO_LEASE || flow.operands != template.bytes.operands),
        };
        let step = Step {
            part,
            slot,
            key: x.key,
            hash,
            lease,
            flow,
            window: *p.window()?,
            headers: None,
        };
        Some((step, x.total))
    }

    /// These follow one from the other, for all packets of the first one's flow, or of its place: they are composed.
    fn compose(&mut self, steps: &[Step]) -> Result<(), &'static str> {
        const GONE: &str = "not there any more";
        const NO_ROOM: &str = "a flow's own that the entry has no room for";
        let (first, others) = steps.split_first().ok_or(GONE)?;
        let matched = |s: &Step| {
            let cache = self.ingress.get(s.part.cache as usize)?;
            cache.matches.get(usize::from(s.part.guard))
        };
        let known = |s: &'_ Step| matched(s).map(|of| (of, s.slot != NO_SLOT));
        let (of, keyed) = known(first).ok_or(GONE)?;
        let head = Known {
            of,
            window: &first.window,
            keyed,
        };
        let parts: Vec<Part> = steps.iter().map(|s| s.part).collect();
        if keyed && self.composed.has(&parts) {
            // what is a flow's own was right for one packet, and so is for all of its packets
            let number = self.composed.number(&parts, None).ok_or(GONE)?;
            if steps.iter().any(Step::has_zero_sums) {
                return Err(NO_ROOM);
            }
            return self.install_entry(first, steps.iter().find(|s| s.part.own), number);
        }
        let (mut origins, mut before) = (origin::first(), first);
        let (least, most) = of.lengths();
        let least = least.max(of.shape.l3 as u64 + of.totals().0);
        let mut lens = (least, most.min(LONGEST as u64));
        for s in others {
            let t = self.actions.template(before.part.action).ok_or(GONE)?;
            let pull = self.pull_of(t).ok_or(GONE)?;
            let cache = self.ingress.get(s.part.cache as usize);
            let shift = cache.ok_or(GONE)?.seat.shift;
            if t.trim {
                let l3 = u64::from(t.l3);
                let (lo, hi) = of.totals();
                lens = (lo.saturating_add(l3), hi.saturating_add(l3).min(lens.1));
            }
            let less = i64::from(t.start) + i64::from(pull) - i64::from(shift);
            let now = |n: u64| u64::try_from(n as i64 - less).unwrap_or(0);
            lens = (now(lens.0), now(lens.1));
            origins = origin::next(&origins, t, pull, shift, before.part.own);
            let (of, keyed) = known(s).ok_or(GONE)?;
            let then = Known {
                of,
                window: &s.window,
                keyed,
            };
            if then.keyed && !head.keyed {
                return Err("a flow's own action behind one of a place");
            }
            follows(head, then, &origins, lens)?;
            before = s;
        }
        // what stands on a neighbour may rest, and is known by its template, which parts keep
        let asks = |s: &Step| {
            self.actions
                .get(s.part.action)
                .is_none_or(|(w, _)| !w.name.asked.is_empty())
        };
        if steps.iter().any(asks) {
            return Err("an action that stands on a neighbour");
        }
        let mut owns = steps.iter().filter(|s| s.part.own);
        let own = owns.next();
        if owns.next().is_some() {
            return Err("two actions with something of the flow's own");
        }
        if steps.iter().any(Step::has_zero_sums)
            || own.is_some() && (first.key[0] & LONG != 0 || !keyed)
        {
            return Err(NO_ROOM);
        }
        let headers: Vec<_> = steps.iter().map(|s| s.headers).collect();
        let in_place = self.in_place(&parts, &headers);
        let fused = in_place.as_ref().and_then(|way| self.fuse(&parts, way));
        let number = self
            .composed
            .number(&parts, in_place)
            .ok_or("too many composed actions")?;
        if let Some(fused) = fused {
            self.composed.set_fused(number, fused);
        }
        match keyed {
            true => self.install_entry(first, own, number)?,
            false => {
                let cache = self
                    .ingress
                    .get_mut(first.part.cache as usize)
                    .ok_or(GONE)?;
                let guard = cache.matches.get_mut(usize::from(first.part.guard));
                let table = guard.and_then(|b| b.interval_table.as_mut()).ok_or(GONE)?;
                table.set(&first.window, number, &mut cache.places);
            }
        }
        if let Some(l) = self.ingress.get_mut(first.part.cache as usize) {
            l.composed = true;
        }
        Ok(())
    }

    /// By how many bytes packets begin later behind the exit of this template.
    fn pull_of(&self, t: &RewriteTemplate) -> Option<u32> {
        let exit = (t.sink != NO_SINK && t.sink & EXIT != 0).then_some(t.sink & !EXIT)?;
        self.exits.all.get(exit as usize).map(|e| e.pull())
    }

    /// The first step's flow has a composed action from now on, with what the flow has for itself in one of them.
    fn install_entry(
        &mut self,
        first: &Step,
        own: Option<&Step>,
        number: u32,
    ) -> Result<(), &'static str> {
        let lease = own.map_or(NO_LEASE, |s| s.lease);
        if lease != NO_LEASE && !self.pool.share(lease) {
            return Err("a binding that is gone");
        }
        let slot = self.table.find(first.hash, &first.key);
        if let Some(old) = self.table.remove(slot) {
            let old = (old.0[5] >> 32) as u32;
            self.pool.give_back(old, &mut self.runner.graph.store);
        }
        let flow = own.map_or(Flow::default(), |s| s.flow);
        let entry = entry_of(&first.key, number, lease, &flow);
        let (stats, pool, store) = (
            &mut self.stats,
            &mut self.pool,
            &mut self.runner.graph.store,
        );
        self.table.insert(first.hash, entry, &mut |old| {
            stats.evicted += 1;
            pool.give_back((old.0[5] >> 32) as u32, store);
        });
        Ok(())
    }
}
