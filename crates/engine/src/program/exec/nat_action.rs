//! Packets that are bound once on their way: what is known of that when the program is loaded.
//!
//! Behind a translator most packets are counted, get the binding that their class expects, are counted again, written and sent. For these a rewriter
//! need not be asked in general ([`crate::program::exec::general`]): a [`Binder`](onefold_nat::Binder) is at hand for a whole batch of them
//! ([`crate::program::exec::batch_exec`]), and what the binding says is written into the packet as everything else is.

use crate::program::code::{Action, Code, End, Expect, Span, Step};
use crate::program::headers::registers::{Regs, Source, end_of};
use crate::program::rewrite::flow_tuple::Tuple;
use crate::program::rewrite::image::Image;
use crate::program::rewrite::window_write::Write;
use onefold_element::model::BindKind;
use onefold_nat::{FlowBinding, FlowPacket, Wanted};
use onefold_packet::{Packet, Pkt};
use onefold_synth::program::EndAt;

/// Values that a binding gives: addresses, ports, what is added to two checksums.
const SLOTS: usize = 6;

/// An action's binding.
#[derive(Debug, Clone)]
pub(crate) struct NatAction {
    /// The rewriter and its input.
    pub elem: u32,
    pub port: u16,
    pub wanted: Wanted,
    pub tuple: Tuple,
    /// Where the packet ends for the rewriter.
    pub end: EndAt,
    pub sink: u32,
    /// How many counts there are before.
    pub before: usize,
    /// What becomes of the packet.
    pub write: NatWrite,
}

/// How an image is written with a binding.
#[derive(Debug, Clone)]
pub(crate) enum NatWrite {
    /// At once.
    BatchAction(Box<Write>),
    /// With registers, which these and the binding's are, from the first one on.
    Image { image: u32, needs: Span, first: u16 },
}

/// What a class expects, where that is one interval for each field.
fn wanted(e: &Expect) -> Option<Wanted> {
    let mut fields = [None; 4];
    let most = [u32::MAX, u32::MAX, 0xffff, 0xffff];
    for (i, (to, kept)) in fields.iter_mut().zip(e.kept).enumerate() {
        if kept {
            continue;
        }
        let ends = match e.sets[i].as_ref().map(|s| s.intervals()) {
            None => (0, most[i]),
            Some(&[(lo, hi)]) => (
                u32::try_from(lo).ok()?,
                u32::try_from(hi).unwrap_or(most[i]),
            ),
            Some(_) => return None,
        };
        *to = Some(ends);
    }
    Some(Wanted {
        output: e.output,
        fields,
    })
}

impl NatAction {
    /// `None` where an action is more than that. `waits`: by number of what is counted.
    pub fn of(code: &Code, a: &Action, waits: &[bool]) -> Option<NatAction> {
        let End::Output { sink, image } = a.end else {
            return None;
        };
        let steps = a.steps.of(&code.steps);
        let is_bind = |s: &&Step| matches!(s, Step::Bind { .. });
        let before = steps.iter().position(|s| is_bind(&s))?;
        for s in steps {
            if let Step::Count { number, .. } = s
                && waits.get(*number as usize) != Some(&true)
            {
                return None;
            }
        }
        if steps.iter().filter(is_bind).count() != 1 {
            return None;
        }
        let Some(Step::Bind {
            elem,
            port,
            kind: BindKind::Flow,
            image: seen,
            first,
            anno: None,
            expect: Some(expect),
            ..
        }) = steps.get(before)
        else {
            return None;
        };
        let seen = code.images.get(*seen as usize)?;
        let tuple = seen.tuple.clone().filter(Tuple::as_it_came)?;
        let m = code.images.get(image as usize)?;
        let route = |r: &u16| {
            let source = code.sources.get(usize::from(*r));
            !matches!(source, Some(Source::Route(..)))
        };
        let write = match Write::of(&code.sources, m, image, Some(*first)) {
            Some(w) => NatWrite::BatchAction(Box::new(w)),
            // tables are not at hand
            None if a.needs.of(&code.lists).iter().all(route) => NatWrite::Image {
                image,
                needs: a.needs,
                first: *first,
            },
            None => return None,
        };
        Some(NatAction {
            elem: *elem,
            port: *port,
            wanted: wanted(expect)?,
            tuple,
            end: seen.end,
            sink,
            before,
            write,
        })
    }
}

impl NatAction {
    /// What the rewriter looks at of a packet as it came.
    #[inline(always)]
    pub fn flow(&self, p: &Packet) -> Option<FlowPacket> {
        let end = match self.end {
            EndAt::Same => Some(p.len()),
            e if self.tuple.says(e) => None,
            e => Some(end_of(e, p.buffer(), p.data_offset()) as usize),
        };
        self.tuple.as_came(p, end)
    }

    /// What becomes of a packet that has been bound, and ends here.
    #[inline(always)]
    pub fn carry_out(
        &self,
        code: &Code,
        regs: &mut Regs,
        b: &FlowBinding,
        p: &mut Pkt,
        end: usize,
    ) {
        match &self.write {
            NatWrite::BatchAction(w) => {
                if w.trim {
                    p.keep(end);
                }
                if let Some(bytes) = p.window_mut() {
                    w.apply_bound(bytes, b);
                }
                w.mark(&code.images, p);
            }
            NatWrite::Image {
                image,
                needs,
                first,
            } => {
                fill(code, regs, *needs, *first, b, p);
                if let Some(m) = code.images.get(*image as usize) {
                    apply(m, regs, p);
                }
            }
        }
    }
}

/// A binding's values, in the order of their slots.
#[inline(always)]
pub(crate) fn slots(b: &FlowBinding) -> [u32; SLOTS] {
    [
        b.to.saddr,
        b.to.daddr,
        b.to.sport.into(),
        b.to.dport.into(),
        b.ip_sum.into(),
        b.transport_sum.into(),
    ]
}

/// Fills registers for a packet that has been bound.
fn fill(code: &Code, regs: &mut Regs, needs: Span, first: u16, b: &FlowBinding, p: &Packet) {
    regs.begin();
    for r in needs.of(&code.lists) {
        regs.fill(*r, &code.sources, p);
    }
    let from = usize::from(first);
    if let Some(to) = regs.v.get_mut(from..from + SLOTS) {
        for (to, v) in to.iter_mut().zip(slots(b)) {
            *to = v.into();
        }
    }
}

/// The image with those registers.
fn apply(m: &Image, regs: &Regs, p: &mut Pkt) {
    m.apply(p, &regs.v, &[]);
}
