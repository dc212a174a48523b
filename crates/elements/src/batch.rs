//! Help for [`Element::pass`](crate::Element::pass).

use crate::Port;
use onefold_packet::{Packet, Pkt};

/// For elements whose packets nearly all leave at output 0 after a change in place: `fast` makes the change and says true, or
/// leaves the packet alone and says false.
#[inline]
pub fn pass_while(batch: &mut [Pkt], mut fast: impl FnMut(&mut Packet) -> bool) -> (Port, usize) {
    let done = batch.iter_mut().position(|p| !fast(p));
    (0, done.unwrap_or(batch.len()))
}

/// For elements that change nothing and choose an output, or none: the packets from the first on that go where the first one
/// goes.
#[inline]
pub fn pass_alike(batch: &[Pkt], output: impl Fn(&Packet) -> Option<usize>) -> (Port, usize) {
    let Some(to) = batch.first().and_then(|p| output(p)) else {
        return (0, 0);
    };
    let same = batch[1..].iter().position(|p| output(p) != Some(to));
    (to, same.map_or(batch.len(), |i| i + 1))
}
