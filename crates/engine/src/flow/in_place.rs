//! Composed actions whose asked elements need not be given the packet: they look at it where it is
//! ([`Element::inspect`]), and it goes on.
//!
//! To make a packet what an element wants it to be (annotations, header marks), to hand it over, and to take it back
//! from a queue costs more than most elements do with most packets. Here bytes alone are changed on the way. Where an
//! element wants the packet after all, what has been changed is undone, and the packet goes its way as any other
//! ([`crate::flow::walk`]), but is asked for, and accounted for, only from there on.
//!
//! [`Element::inspect`]: onefold_element::Element::inspect

use crate::flow::batch_drain::BatchDrain;
use crate::flow::composed::Part;
use crate::flow::exit::{Next, Output};
use crate::flow::hints::{hint, set_hint};
use crate::flow::in_place_way::{Asked, HINTS, Headers, InPlace, NOBODY, Stretch};
use crate::flow::rewrite_template::{EXIT, NO_SINK};
use crate::flow::runner::FlowRunner;
use crate::flow::table::NO_SLOT;
use crate::flow::transmit::count_known;
use crate::flow::walk::{apply, leaves, tally_and_tell, touched};
use crate::flow::wave::LONGEST;
use crate::program::headers::shape::Transport;
use crate::simd::{WINDOW, Wide};
#[cfg(debug_assertions)]
use onefold_element::Inspected;
use onefold_element::{InspectCx, NO_HINT};
use onefold_nat::NO_LEASE;
#[cfg(debug_assertions)]
use onefold_packet::Packet;
use onefold_packet::{Pkt, Timestamp};

/// Room in front of a packet from which a template may put bytes in front of it without moving it.
pub(crate) const ROOM: usize = 64;

/// So many packets are looked up, and elements told of them, before the first one goes.
const AHEAD: usize = 8;

impl FlowRunner {
    /// These parts in a form that packets may go through in place; `None` where elements have to be given packets, or
    /// annotations are looked at on the way. `headers`: what elements behind each of them found in the packet that was
    /// given to them.
    pub(crate) fn in_place(&self, parts: &[Part], headers: &[Option<Headers>]) -> Option<InPlace> {
        let (mut stretches, mut changed) = (Vec::new(), false);
        let (mut hinted, mut hints) = ([NOBODY; HINTS as usize], 0);
        for (i, part) in parts.iter().enumerate() {
            let t = self.actions.templates.get(part.template as usize)?;
            let (w, _) = self.actions.get(part.action)?;
            let mut stretch = Stretch {
                action: part.action,
                template: part.template,
                own: part.own,
                quiet: w.late.0 == w.name.counts.len(),
                less: 0,
                asked: None,
            };
            if part.marked {
                return None;
            }
            if let Some(then) = parts.get(i + 1) {
                let exit = (t.sink != NO_SINK && t.sink & EXIT != 0).then_some(t.sink & !EXIT)?;
                let exit = self.exits.all.get(exit as usize)?;
                stretch.less = i16::try_from(exit.pull() as i32 - i32::from(then.shift)).ok()?;
                changed |= !t.idle || stretch.less != 0;
                if let Next::Ask {
                    node,
                    outputs,
                    site,
                    ..
                } = exit.next
                {
                    let leads = self.exits.output(outputs, 0);
                    // what is put in front of a packet would have to be undone, too
                    if leads != Some(Output::Cache(then.cache)) || t.start < 0 {
                        return None;
                    }
                    let found = headers.get(i).copied().flatten()?;
                    let mut asked = self.inspector((node, site), then, found)?;
                    if let Some(h) = hinted.get_mut(usize::from(hints))
                        && self.runner.graph.core.hints(node)
                    {
                        (*h, asked.hint) = (node, hints);
                        hints += 1;
                    }
                    stretch.asked = Some(asked);
                } else if t.start < 0 {
                    return None;
                }
            }
            stretches.push(stretch);
        }
        Some(InPlace {
            stretches: stretches.into(),
            changed,
            hinted,
        })
    }

    fn inspector(&self, (node, site): (u32, u32), then: &Part, found: Headers) -> Option<Asked> {
        let inspects = self.runner.graph.core.inspects(node);
        let cache = self.ingress.get(then.cache as usize)?;
        let shape = cache.matches.get(usize::from(then.guard))?.shape;
        let protocol = match shape.transport {
            Transport::Tcp => 6,
            Transport::Udp => 17,
            Transport::Echo => 1,
            Transport::Other => return None,
        };
        let expected = Headers {
            network: shape.l3.checked_sub(usize::from(then.shift))?,
            header: shape.l4() - shape.l3,
            protocol,
        };
        (inspects && found == expected).then_some(Asked {
            node,
            site,
            l3: u16::try_from(shape.l3).ok()?,
            shift: then.shift,
            header: u16::try_from(shape.l4() - shape.l3).ok()?,
            protocol,
            hint: HINTS,
        })
    }

    /// Packets of a group, from number `i` on, whose composed actions they may go through in place, do; up to the
    /// first one of which more is to be known, which is the next one then. How many went.
    #[inline(always)]
    pub(crate) fn go_in_place(
        &mut self,
        wide: impl Wide,
        (cache, from): (usize, usize),
        upto: usize,
        packets: &mut BatchDrain<'_>,
        stale: bool,
    ) -> usize {
        self.flush();
        let now = self.runner.graph.core.now;
        let (mut i, mut by_class) = (from, 0);
        let (mut news, mut stale, mut found) = (self.news, stale, from);
        let ahead = self.composed.any_hinted();
        // Bound: each round takes a packet
        while i < upto && self.holds() && !self.runner.graph.out.traced {
            // one that an element wanted may have come to be known, in another flow's place
            if self.news != news {
                (news, stale, found) = (self.news, true, i);
            }
            if !ahead {
                if !self.is_composed(wide, i, stale) {
                    break;
                }
            } else if found < upto && found <= i + AHEAD {
                found = self.look_ahead(wide, (found, upto.min(found + AHEAD)), stale);
            }
            let Some(x) = self.group.get(i) else { break };
            let (number, lease) = (x.action, x.lease);
            let fits = |p: &Pkt| p.len() <= LONGEST && p.headroom() >= ROOM;
            let Some(p) = packets.rest().first().filter(|p| fits(p)) else {
                break;
            };
            let way = self.composed.fused_way(number);
            let way = way.filter(|way| self.composed.fits(*way, p));
            if way.is_none() && self.composed.in_place(number).is_none()
                || lease != NO_LEASE && !self.pool.leases.runs(lease)
            {
                break;
            }
            by_class += u64::from(x.slot == NO_SLOT);
            let Some(p) = packets.next() else { break };
            match way {
                Some(way) => self.goes_fused(wide, (cache, i), way, p, now),
                None => self.goes_in_place(wide, (cache, i), p, now),
            }
            i += 1;
        }
        let went = (i - from) as u64;
        self.stats.composed += went;
        self.stats.in_place += went;
        count_known(&mut self.stats, &mut self.runner, went, by_class);
        i - from
    }

    /// These packets of a group are looked up, and elements are told whose packets they will inspect. The number of the
    /// one behind them.
    #[inline(always)]
    fn look_ahead(&mut self, wide: impl Wide, (from, to): (usize, usize), stale: bool) -> usize {
        let (mut hints, mut n) = ([[NO_HINT; AHEAD]; HINTS as usize], [0; HINTS as usize]);
        let mut nodes = [NOBODY; HINTS as usize];
        for i in from..to {
            if !self.is_composed(wide, i, stale) {
                continue;
            }
            let Some(x) = self.group.get(i) else { break };
            for (k, node) in self.composed.hinted(x.action).into_iter().enumerate() {
                if x.slot == NO_SLOT || node == NOBODY {
                    break;
                }
                if nodes[k] == NOBODY {
                    nodes[k] = node;
                }
                // those of another element are not in a hurry
                if nodes[k] == node {
                    hints[k][n[k] % AHEAD] = hint(&self.table, x.slot, k as u8);
                    n[k] += 1;
                }
            }
        }
        let g = &self.runner.graph;
        for (k, node) in nodes.iter().enumerate().filter(|(_, n)| **n != NOBODY) {
            g.core
                .prefetch_flows(*node, &hints[k][..n[k].min(AHEAD)], &g.store);
        }
        to
    }

    /// One of them, whose lease runs.
    #[inline(always)]
    fn goes_in_place(
        &mut self,
        wide: impl Wide,
        (cache, i): (usize, usize),
        mut p: Pkt,
        now: Timestamp,
    ) {
        let x = &self.group[i];
        let (number, slot, lease) = (x.action, x.slot, x.lease);
        let (own, total) = (x.operands, x.total);
        let Some(way) = self.composed.in_place(number) else {
            return;
        };
        let before = match way.changed {
            true => Some((p.extent(), p.window::<WINDOW>().copied())),
            false => None,
        };
        self.table.mark(slot);
        #[cfg(debug_assertions)]
        let mut shadow = (*p).clone();
        let mut sink = NO_SINK;
        // Bound: the parts of a composed action
        for (k, s) in way.stretches.iter().enumerate() {
            if s.own && lease != NO_LEASE {
                let runs = touched(&self.pool, lease, now);
                debug_assert!(runs, "a lease has ended since it was looked at");
            }
            match self.actions.tallies.get_mut(s.action as usize) {
                Some(t) if s.quiet => {
                    if !t.ready() && t.pending().packets == 0 {
                        self.dirty.push(s.action);
                    }
                    t.add(1, p.len() as u32, total);
                }
                _ => tally_and_tell(
                    &mut self.actions,
                    (&mut self.dirty, &mut self.moments),
                    &mut self.runner.graph,
                    (s.action, p.len(), total),
                ),
            }
            let Some(template) = self.actions.templates.get(s.template as usize) else {
                break;
            };
            let operands = [&template.bytes.operands, &own][usize::from(s.own)];
            apply(wide, template, operands, total, &mut p);
            #[cfg(debug_assertions)]
            self.check(number, k, operands, total, (&p, &mut shadow));
            s.moves(&mut p);
            sink = template.sink;
            let Some(a) = &s.asked else { continue };
            let core = &mut self.runner.graph.core;
            let hint = (a.hint < HINTS && slot != NO_SLOT).then(|| hint(&self.table, slot, a.hint));
            let mut cx = InspectCx {
                now,
                store: &mut self.runner.graph.store,
                hint,
            };
            if core.inspect(a.node, &a.of(&p, total), &mut cx) {
                if cx.hint != hint {
                    set_hint(&mut self.table, slot, a.hint, cx.hint.unwrap_or(NO_HINT));
                }
                if let Some(l) = &mut self.runner.loaded {
                    l.state.counts.site(a.site);
                }
                continue;
            }
            if let Some((extent, bytes)) = before {
                p.set_extent(extent);
                if let (Some(w), Some(before)) = (p.window_mut(), bytes) {
                    *w = before;
                }
            }
            return self.walk_on((cache, i), p, now, k + 1);
        }
        leaves(&mut self.runner.graph, sink, p);
    }

    /// For debug builds: what an element inspects is what it would find in the packet that it would be given.
    #[cfg(debug_assertions)]
    pub(crate) fn check(
        &self,
        number: u32,
        k: usize,
        operands: &crate::simd::window_rewrite::Operands,
        total: u32,
        (p, shadow): (&Packet, &mut Packet),
    ) {
        let parts = self.composed.parts(number);
        let (Some(part), Some(l)) = (parts.get(k), &self.runner.loaded) else {
            return;
        };
        crate::flow::walk::is_found((&self.ingress, &self.table), part, shadow);
        let template = &self.actions.templates[part.template as usize];
        apply(crate::simd::any::Any, template, operands, total, shadow);
        assert_eq!(p.data(), shadow.data());
        let Some(then) = parts.get(k + 1) else { return };
        let mut exit = self.exits.all[(template.sink & !EXIT) as usize].clone();
        exit.apply(&l.code, shadow);
        if let Some(a) = self
            .composed
            .in_place(number)
            .and_then(|w| w.stretches[k].asked)
        {
            let mut moved = p.clone();
            moved.pull(exit.pull() as usize);
            moved.push(then.shift.into());
            let (had, would) = (a.of(&moved, total), Inspected::of(shadow));
            let would = would.expect("an element would not find the headers");
            assert_eq!(
                (had.net, had.header, had.total, had.protocol, had.len),
                (
                    would.net,
                    would.header,
                    would.total,
                    would.protocol,
                    would.len
                )
            );
        }
        shadow.push(then.shift.into());
    }
}
