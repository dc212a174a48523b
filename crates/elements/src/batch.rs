//! Help for [`Element::push_batch`](crate::Element::push_batch): elements that pass nearly everything on at output 0.

use crate::cx::Cx;
use crate::{Element, Port};
use onefold_packet::{Packet, Pkt};

/// Passes on a batch of which nearly all packets leave at output 0 after a change in place: `fast` makes the change and says
/// true, or leaves the packet alone and says false. From the first packet on that `fast` refuses, the rest goes through
/// [`Element::push`], so that order and effects are those of the packets one by one.
#[inline]
pub fn pass_batch<E: Element>(
    e: &mut E,
    port: Port,
    batch: &mut Vec<Pkt>,
    cx: &mut Cx<'_>,
    mut fast: impl FnMut(&mut E, &mut Packet) -> bool,
) {
    let mut done = 0;
    if !cx.out.traced {
        for p in batch.iter_mut() {
            if !fast(e, p) {
                break;
            }
            done += 1;
        }
    }
    if done == batch.len() {
        cx.pass_on(0, batch);
        return;
    }
    for (i, p) in batch.drain(..).enumerate() {
        match i < done {
            true => cx.emit(0, p),
            false => e.push(port, p, cx),
        }
    }
}
