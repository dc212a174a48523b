//! Composed actions in the form in which packets go through them together ([`crate::flow::inspect_batch`]).

use crate::flow::fused_way::Fused;
use crate::simd::HEAD_AT;
use onefold_element::BatchNeeds;
use onefold_packet::wire::ipv4;

/// A way that packets go together: what is asked of it for each packet.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct BatchWay {
    /// Its number; [`NO_WAY`] if there is none.
    pub way: u32,
    /// The element that inspects.
    pub node: u16,
    /// Where the IP header is.
    pub l3: u16,
    /// Where the packet begins that the element would be given.
    pub start: i16,
    pub header: u8,
    pub protocol: u8,
    /// Which of an entry's hints is the element's.
    pub hint: u8,
    /// Packets end where their IP headers say.
    pub trims: bool,
    /// They do so before the element would be given them.
    pub sees_trimmed: bool,
    /// The element needs [checksums](onefold_element::InspectedBatch::right).
    pub checksums: bool,
    /// The element gives leases, and packets are where [plain](crate::flow::plain) ones are looked for.
    pub leases: bool,
    /// Packets begin elsewhere when they leave: they have to have room there. (Who has been looked at has a window.)
    pub moves: bool,
    /// Nobody asks when the bindings that its entries lease were used last: a flow's lease, which is given while they
    /// hold, ends before they do.
    pub untimed: bool,
}

/// No way.
pub(crate) const NO_WAY: u32 = u32::MAX;

impl BatchWay {
    pub const NONE: BatchWay = BatchWay {
        way: NO_WAY,
        node: 0,
        l3: 0,
        start: 0,
        header: 0,
        protocol: 0,
        hint: 0,
        trims: false,
        sees_trimmed: false,
        checksums: false,
        leases: false,
        moves: false,
        untimed: false,
    };
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        self.way != NO_WAY
    }
    /// Does this element lease its flows?
    #[inline(always)]
    pub fn leases_of(&self, node: u16) -> bool {
        self.leases & (self.node == node)
    }
    /// The way with this number, whose element needs these.
    pub fn of(way: u32, f: &Fused, needs: BatchNeeds) -> BatchWay {
        let a = &f.asked[0];
        BatchWay {
            way,
            node: a.node,
            l3: f.l3,
            start: a.start,
            header: a.header,
            protocol: a.protocol,
            hint: a.hint,
            trims: f.trims,
            sees_trimmed: f.trimmed == 0,
            checksums: needs.checksums,
            // the second hint is the lease's
            leases: needs.leases
                && a.hint == 0
                && f.l3 == HEAD_AT as u16
                && usize::from(a.header) == ipv4::LEN,
            moves: f.start != 0,
            untimed: f.own && f.untimed,
        }
    }
}
