//! What is known of a group's packets whose ways have no entries: in columns, as the first look has it in registers, and as little as can be.
//!
//! Most of what [`Parsed`] has is of no use where a packet's class says it all, and writing it down and reading it back took as long as doing it.

use super::GROUP;
use super::direct::UNKNOWN;
use super::guard::Parsed;
use super::table::NO_SLOT;
use super::way::Own;
use super::ways::Ways;
use super::wide::ROW;
use onefold_elements::rewrite::NO_LEASE;

/// A packet, its bytes, those that its IP header says from that header on, and nothing: what is to be added to a [tally](super::ways::Tally).
pub(super) type Bill = [u32; 4];

/// See the module's text. By number in the group.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Briefs {
    pub ways: [u32; GROUP],
    pub bills: [Bill; GROUP],
    /// Which box; told where it is asked for.
    pub guards: [u16; GROUP],
    /// Of which packets nothing else has been written down: a bit each.
    pub only: u64,
}

impl Default for Briefs {
    fn default() -> Briefs {
        Briefs {
            ways: [UNKNOWN; GROUP],
            bills: [[0; 4]; GROUP],
            guards: [0; GROUP],
            only: 0,
        }
    }
}

impl Briefs {
    /// The rest is written down, for whoever wants to know more of these packets: a bit each.
    pub fn fill(&mut self, which: u64, known: &Ways, group: &mut [Parsed]) {
        let mut left = self.only & which;
        self.only &= !which;
        // Bound: one bit less each time
        while left != 0 {
            let i = left.trailing_zeros() as usize % GROUP;
            left &= left - 1;
            let Some(x) = group.get_mut(i) else { break };
            let [_, _, total, _] = self.bills[i];
            (x.guard, x.total) = (self.guards[i], total);
            (x.way, x.slot, x.lease) = (self.ways[i], NO_SLOT, NO_LEASE);
            x.own = known.act(x.way).map_or_else(Own::default, |a| a.own);
        }
    }
}

/// Bits of sixteen packets, the first of which has this number in the group.
#[inline(always)]
pub(super) fn bits_from(at: usize, bits: u16) -> u64 {
    u64::from(bits) << (at / ROW * ROW % GROUP)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_in_short_is_written_down_when_asked_for() {
        let mut b = Briefs::default();
        let mut group = vec![Parsed::default(); GROUP];
        for i in 0..GROUP {
            b.ways[i] = i as u32;
            (b.bills[i], b.guards[i]) = ([1, 60, 46, 0], 3);
        }
        b.only = bits_from(16, 0x8001) | bits_from(48, 2);
        b.fill(!(1 << 31), &Ways::default(), &mut group);
        assert_eq!(b.only, 1 << 31, "of one nobody has asked");
        for (i, x) in group.iter().enumerate() {
            let asked = i == 16 || i == 49;
            assert_eq!(x.way == i as u32, asked, "{i}");
            if asked {
                assert_eq!((x.guard, x.total), (3, 46));
                assert_eq!((x.slot, x.lease), (NO_SLOT, NO_LEASE));
            }
        }
    }
}
