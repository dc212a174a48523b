//! Corner cases of checksums: a packet that just went well once more, with checksums that are zero, or become zero on
//! the way.
//!
//! Ones' complement has two forms of zero, and a UDP checksum of zero says that there is none. Chance hits such a value
//! once in 65536 packets.

use crate::event::Event;
use crate::frame;
use onefold_element::ElemId;
use onefold_engine::program::ProgramStep;
use onefold_packet::checksum;
use std::collections::VecDeque;

/// One packet in so many is a corner case.
const SHARE: u64 = 32;
/// A header checksum that is zero after the TTL has been decremented.
const BEFORE_TTL: u16 = 0xfeff;

/// A frame, where it comes in, and what it answers.
pub(super) type Corner = (ElemId, Vec<u8>, Option<(u64, u32)>);

/// Packets to be sent, and how many have been.
#[derive(Debug, Clone, Default)]
pub(super) struct Corners {
    queue: VecDeque<Corner>,
    made: u64,
}

impl Corners {
    /// The next one.
    pub fn next(&mut self) -> Option<Corner> {
        self.queue.pop_front()
    }

    /// A packet has passed these stages; `made`: packets so far.
    pub fn seen(&mut self, e: &Event, steps: &[ProgramStep], made: u64) {
        let Some(source) = e.source else { return };
        if !self.queue.is_empty() || self.made * SHARE > made {
            return;
        }
        let list = frames(&e.bytes, steps);
        self.made += list.len() as u64;
        (self.queue).extend(list.into_iter().map(|f| (source, f, e.answers)));
    }
}

/// The frame with other checksums. Those of the transport header need not be right: nobody on the way looks.
fn frames(b: &[u8], steps: &[ProgramStep]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let Some(v) = frame::view(b) else {
        return out;
    };
    let at = match (v.proto, v.transport) {
        (6, Some(t)) => Some(t + 16),
        (17, Some(t)) => Some(t + 6),
        _ => None,
    };
    if let Some(at) = at {
        let mut wanted = vec![0, 0xffff];
        // what is added to its complement on the way: with this it is zero behind it
        let mut sum = 0u64;
        for (_, b) in steps.iter().flat_map(|s| &s.bound) {
            sum += u64::from(b.transport_sum);
            wanted.push(checksum::fold(sum));
        }
        for c in wanted {
            let mut f = b.to_vec();
            if let Some(s) = f.get_mut(at..at + 2) {
                s.copy_from_slice(&c.to_be_bytes());
                out.push(f);
            }
        }
    }
    if v.ether_type == 0x0800 {
        let with = [0, 0xffff, BEFORE_TTL].into_iter();
        out.extend(with.filter_map(|c| with_header_sum(b, v.net, c)));
    }
    out.retain(|f| f != b);
    out.dedup();
    out
}

/// The frame with this IPv4 header checksum, right if it was right before: the identification makes up for it.
fn with_header_sum(b: &[u8], net: usize, wanted: u16) -> Option<Vec<u8>> {
    let mut f = b.to_vec();
    let word = |f: &[u8], at: usize| Some(u16::from_be_bytes(*f.get(at..)?.first_chunk::<2>()?));
    let (id, sum) = (word(&f, net + 4)?, word(&f, net + 10)?);
    let id = checksum::fold(u64::from(id) + u64::from(!wanted) + u64::from(sum));
    for (at, v) in [(net + 4, id), (net + 10, wanted)] {
        f.get_mut(at..at + 2)?.copy_from_slice(&v.to_be_bytes());
    }
    Some(f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::Binding;
    use onefold_packet::Timestamp;

    #[test]
    fn checksums_are_zero_now_or_then_and_headers_stay_right() {
        let mut b = frame::make(frame::Shape {
            version: 4,
            proto: 17,
            tags: 0,
            payload: 10,
        });
        let sum = !checksum::fold(checksum::sum(&b[14..24], 0) + checksum::sum(&b[26..34], 0));
        b[24..26].copy_from_slice(&sum.to_be_bytes());
        let binding = Binding {
            transport_sum: 0x1234,
            ..Binding::default()
        };
        let steps = [ProgramStep {
            bound: vec![(ElemId(3), binding)],
            ..ProgramStep::default()
        }];
        let list = frames(&b, &steps);
        let t = frame::view(&b).unwrap().transport.unwrap();
        let sums: Vec<u16> = list
            .iter()
            .map(|f| u16::from_be_bytes([f[t + 6], f[t + 7]]))
            .collect();
        // the frame has none
        assert_eq!(sums[..2], [0xffff, 0x1234]);
        // behind the binding nothing is left of it
        assert_eq!(!checksum::fold(u64::from(!sums[1]) + 0x1234), 0);
        for f in &list {
            assert_eq!(checksum::internet(&f[14..34]), 0, "{f:02x?}");
        }
        let headers: Vec<u16> = list[2..]
            .iter()
            .map(|f| u16::from_be_bytes([f[24], f[25]]))
            .collect();
        assert_eq!(headers, [0, 0xffff, BEFORE_TTL]);
        let mut c = Corners::default();
        c.seen(&Event::frame(Timestamp(0), ElemId(1), b.clone()), &steps, 1);
        assert_eq!(std::iter::from_fn(|| c.next()).count(), 5);
        // not too many
        c.seen(&Event::frame(Timestamp(0), ElemId(1), b), &steps, 100);
        assert!(c.next().is_none());
    }
}
