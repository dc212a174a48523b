//! Where tasks may be woken and timers set: packets go on as in the scalar engine, one arrival after the other, each
//! until nothing more happens, and the clock moves from one to the next.

use crate::graph::batch::number;
use crate::graph::batch::plan::Plan;
use crate::graph::core::Core;
use onefold_element::{Outbox, StateStore};

impl Core {
    /// Carries on with what is left of `n` arrivals.
    pub(crate) fn run_alone(
        &mut self,
        plan: &Plan,
        n: usize,
        out: &mut Outbox,
        store: &mut StateStore,
    ) {
        let mut left = self.take_alone(plan, out).into_iter().peekable();
        if left.peek().is_none() {
            return;
        }
        self.now = self.together.span.0;
        for i in 0..n {
            let at = self.together.time_of(number::of_arrival(i));
            let mine = |o: u64| number::arrival(o) == i;
            if left.peek().is_none_or(|(_, p, _)| !mine(p.order)) && self.is_quiet_until(at) {
                continue;
            }
            self.labelled(number::before(i), out, |core, out| {
                core.advance(at, out, store);
            });
            self.steps = 0;
            // Bound: each round takes a packet.
            while let Some((to, p, hops)) = left.next_if(|(_, p, _)| mine(p.order)) {
                self.labelled(p.order, out, |core, out| core.push(to, p, hops, out, store));
            }
            self.labelled(number::behind(i), out, |core, out| {
                core.quiesce(out, store);
            });
        }
    }

    /// What is printed, made and sent meanwhile has this number.
    fn labelled(&mut self, order: u64, out: &mut Outbox, f: impl FnOnce(&mut Core, &mut Outbox)) {
        let sent = out.transmitted.len();
        out.order = order;
        self.together.label = order;
        f(self, out);
        for (_, p) in out.transmitted.iter_mut().skip(sent) {
            p.order = order;
        }
        self.together.note_sent(sent, true, out);
    }
}
