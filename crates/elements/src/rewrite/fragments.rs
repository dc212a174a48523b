//! Later fragments at a rewriter (keyword `FRAGMENTS`): what is remembered of first ones is in
//! [`onefold_nat::FragmentFate`]. With `HOLD n` those that overtake their first one wait for it (RFC 4787 REQ-14): at
//! most `n`, each for [`HELD_FOR`]; who comes when so many wait takes the place of the one that has waited longest, so
//! that a flood of them holds up nobody else.

use super::rewriter::{Rewriter, Sought, WAITING, Way};
use onefold_element::Cx;
use onefold_nat::apply::{self, Arrival};
use onefold_nat::{FragmentFate, Hit};
use onefold_packet::{Pkt, Timestamp};
use std::collections::VecDeque;

/// A fragment that has overtaken the first one waits for so long.
const HELD_FOR: Timestamp = Timestamp::from_secs(2);
/// Most fragments that `HOLD` may ask for.
pub(super) const MAX_HELD: u32 = 4096;

/// Fragments that wait for their first one, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldFragments {
    /// At most so many.
    pub most: usize,
    all: VecDeque<(Arrival, Timestamp, Pkt)>,
}

impl HeldFragments {
    /// How many.
    pub fn len(&self) -> usize {
        self.all.len()
    }
    /// Takes all of them out.
    pub fn drain(&mut self) -> Vec<Pkt> {
        self.all.drain(..).map(|(.., p)| p).collect()
    }
}

/// Fragments of one packet (RFC 791).
fn same(a: &Arrival, b: &Arrival) -> bool {
    (a.saddr, a.daddr, a.id, a.proto) == (b.saddr, b.daddr, b.id, b.proto)
}

impl Rewriter {
    /// Do fragments follow a packet that it is the first one of?
    #[inline]
    pub(super) fn leads(&self, a: &Arrival) -> bool {
        self.fragments > 0 && a.more
    }

    /// Later fragments of this packet's are to do as it does.
    #[cold]
    pub(super) fn lead(&self, w: &mut Way<'_>, s: &Sought, fate: FragmentFate) {
        let most = self.fragments as usize;
        w.table
            .remember_fragments(self.kind, self.handle, &s.a, fate, w.now, most);
    }

    /// The same where a packet's record is known.
    #[cold]
    pub(super) fn lead_by(&self, w: &mut Way<'_>, s: &Sought, (i, reply): Hit) {
        if let Some(f) = w.table.reference(i) {
            self.lead(w, s, FragmentFate::Bound(f, reply));
        }
    }

    /// Later fragments that have waited for this first one go where it has gone.
    #[cold]
    pub(super) fn release_held(&mut self, a: &Arrival, cx: &mut Cx<'_>) {
        let (mine, others): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.held.all)
            .into_iter()
            .partition(|(b, ..)| same(a, b));
        self.held.all = others;
        for (a, _, p) in mine {
            self.follow(&a, p, cx, false);
        }
    }

    /// Those that have waited for long enough are dropped.
    #[cold]
    pub(super) fn expire_held(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        while let Some((_, at, _)) = self.held.all.front()
            && *at + HELD_FOR <= now
            && let Some((.., p)) = self.held.all.pop_front()
        {
            cx.drop(p, self.kind.reasons().no_first);
        }
        if let Some((_, at, _)) = self.held.all.front() {
            let due = *at + HELD_FOR;
            cx.set_timer(WAITING, due);
        }
    }

    /// A fragment waits for its first one.
    #[cold]
    fn hold(&mut self, a: &Arrival, p: Pkt, cx: &mut Cx<'_>) {
        if self.held.all.len() >= self.held.most
            && let Some((.., p)) = self.held.all.pop_front()
        {
            cx.drop(p, self.kind.reasons().no_first);
        }
        if self.held.all.is_empty() {
            cx.set_timer(WAITING, cx.now + HELD_FOR);
        }
        self.held.all.push_back((*a, cx.now, p));
    }

    /// A later fragment; it may wait if `may_wait`.
    #[cold]
    pub(super) fn follow(&mut self, a: &Arrival, mut p: Pkt, cx: &mut Cx<'_>, may_wait: bool) {
        let reasons = self.kind.reasons();
        let Some(mut w) = Way::of(self.handle, cx) else {
            return cx.drop(p, reasons.dropped);
        };
        let fate = w.table.fragment_fate(self.kind, self.handle, a, w.now);
        if fate.is_none() && may_wait && self.held.most > 0 {
            return self.hold(a, p, cx);
        }
        let output = match fate {
            Some(FragmentFate::Passed(o)) => Some(o),
            Some(FragmentFate::Bound(f, reply)) => w.table.resolve(f).copied().map(|r| {
                apply::addresses(&mut p, &r, reply, self.annos, true, true);
                w.table.touch(f.record, w.now);
                if w.tracing {
                    self.trace(&mut w, &r, reply);
                }
                r.output(reply)
            }),
            None => None,
        };
        match output {
            Some(o) if o < w.noutputs => w.out.emit(o, p),
            Some(_) => w.out.drop(w.elem, "unconnected output", p),
            None => w.out.drop(w.elem, reasons.other, p),
        }
    }
}
