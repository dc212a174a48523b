//! Packets of a group that have one part of their ways behind them, and the places at which they leave in the end.

use crate::flow::batch_meta::BatchMeta;
use crate::flow::packet_meta::PacketMeta;
use crate::flow::wave_order::MAX_WAVES;
use crate::simd::GROUP;
use onefold_element::ElemId;
use onefold_packet::{MAX_PACKET_LEN, Pkt};

/// Longer packets could not be looked at from before their first byte.
pub(crate) const LONGEST: usize = MAX_PACKET_LEN / 2;

/// So many packets are put in order without memory of their own.
const FEW: usize = 256;

/// Packets that have so many epochs behind them.
#[derive(Debug, Default)]
pub(crate) struct Wave {
    pub meta: Box<BatchMeta>,
    pub group: Box<[PacketMeta]>,
    /// Those that have come to the end of another one, each with its exit.
    pub pending: Vec<(u32, Pkt)>,
    /// Those that are looked up next, by cache.
    pub lanes: Vec<(u32, Vec<Pkt>)>,
    /// The lane that a packet was put in last.
    pub last: usize,
}

impl Wave {
    pub fn new() -> Wave {
        Wave {
            group: vec![PacketMeta::default(); GROUP].into(),
            ..Wave::default()
        }
    }
}

/// The place of a packet that has this number in its group: packets that follow from it have places up to the next
/// one's.
pub(crate) fn place(i: usize) -> u64 {
    (i as u64) << (8 * MAX_WAVES)
}

/// What has left since, from this number on, has this place.
pub(crate) fn label(left: &mut [(ElemId, Pkt)], from: usize, order: u64) {
    for (_, p) in left.get_mut(from..).unwrap_or_default() {
        p.order = order;
    }
}

/// Packets that left are put in the order in which they came.
pub(crate) fn put_in_order(left: &mut [(ElemId, Pkt)]) {
    if left.is_sorted_by_key(|(_, p)| p.order) {
        return;
    }
    if left.len() > FEW {
        return left.sort_by_key(|(_, p)| p.order);
    }
    for i in 1..left.len() {
        let order = left[i].1.order;
        let to = left[..i].partition_point(|(_, p)| p.order <= order);
        left[to..=i].rotate_right(1);
    }
}
