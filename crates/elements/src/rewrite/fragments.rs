//! Later fragments at a rewriter (keyword `FRAGMENTS`): what is remembered of first ones is in
//! [`onefold_nat::FragmentFate`].

use super::rewriter::{Rewriter, Sought, Way};
use onefold_element::Cx;
use onefold_nat::apply::{self, Arrival};
use onefold_nat::{FragmentFate, Hit};
use onefold_packet::Pkt;

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

    /// A later fragment.
    #[cold]
    pub(super) fn follow(&self, a: &Arrival, mut p: Pkt, cx: &mut Cx<'_>) {
        let reasons = self.kind.reasons();
        let Some(mut w) = Way::of(self.handle, cx) else {
            return cx.drop(p, reasons.dropped);
        };
        let fate = w.table.fragment_fate(self.kind, self.handle, a, w.now);
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
