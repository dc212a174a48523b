//! Where the fields of known headers lie, so that every test of the same bits is about the same dimension.

use crate::program::{Dim, Filter};
use onefold_element::model::ValueSet;

/// What is known of the network header's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Nothing.
    #[default]
    Unknown,
    /// An IPv4 header starts at this byte.
    Ip4(i32),
    /// An IPv6 header starts at this byte.
    Ip6(i32),
}

const IP4: &[(i32, u8)] = &[
    (0, 4),
    (4, 4),
    (8, 8),
    (16, 16),
    (32, 16),
    (48, 3),
    (51, 13),
    (64, 8),
    (72, 8),
    (80, 16),
    (96, 32),
    (128, 32),
];
const IP6: &[(i32, u8)] = &[
    (0, 4),
    (4, 8),
    (12, 20),
    (32, 16),
    (48, 8),
    (56, 8),
    (64, 128),
    (192, 128),
];
const ETHERNET: &[(i32, u8)] = &[(0, 48), (48, 48), (96, 16)];

fn find(table: &[(i32, u8)], base: i32, bit: i32) -> Option<(i32, u8)> {
    let rel = bit - base;
    let hit = |f: &&(i32, u8)| f.0 <= rel && rel < f.0 + i32::from(f.1);
    table.iter().find(hit).map(|(b, n)| (base + b, *n))
}

impl Layout {
    /// From what a filter says about an Ethernet frame that begins at byte 0: its type, behind at most one VLAN tag.
    pub fn of_frame(f: &Filter) -> Layout {
        let at = |bit| {
            let dim = Dim::Bits { bit, bits: 16 };
            f.get(dim).and_then(|s| s.single())
        };
        let (ty, net) = match at(96) {
            Some(0x8100) => (at(128), 18),
            t => (t, 14),
        };
        match ty {
            Some(0x0800) => Layout::Ip4(net),
            Some(0x86dd) => Layout::Ip6(net),
            _ => Layout::Unknown,
        }
    }

    /// From what a filter says: as [`Layout::of_frame`], or where it knows an IP header's version.
    pub fn of(f: &Filter) -> Layout {
        match Layout::of_frame(f) {
            Layout::Unknown => {}
            l => return l,
        }
        let version = |(d, set): &(Dim, ValueSet)| match (*d, set.single()) {
            (Dim::Bits { bit, bits: 4 }, Some(4)) if bit % 8 == 0 => Some(Layout::Ip4(bit / 8)),
            (Dim::Bits { bit, bits: 4 }, Some(6)) if bit % 8 == 0 => Some(Layout::Ip6(bit / 8)),
            _ => None,
        };
        f.0.iter().find_map(version).unwrap_or_default()
    }

    /// The field (first bit, number of bits) that `bit` belongs to. Behind the headers: 16-bit words, but single bytes
    /// where TCP has its flags.
    pub fn field_at(self, bit: i32) -> (i32, u8) {
        let (table, base, transport) = match self {
            Layout::Ip4(n) => (IP4, n * 8, n * 8 + 160),
            Layout::Ip6(n) => (IP6, n * 8, n * 8 + 320),
            Layout::Unknown => (ETHERNET, 0, i32::MAX),
        };
        if bit >= transport {
            let rel = bit - transport;
            return match rel {
                96..=103 => (transport + 96, 8),
                104..=111 => (transport + 104, 8),
                _ => (transport + rel.div_euclid(16) * 16, 16),
            };
        }
        if let Some(f) = find(table, base, bit) {
            return f;
        }
        if let Some(f) =
            find(ETHERNET, 0, bit).filter(|f| bit < base || f.0 + i32::from(f.1) <= base)
            && (base == 0 || f.0 + i32::from(f.1) <= base)
        {
            return f;
        }
        (bit.div_euclid(16) * 16, 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_in_its_field() {
        for l in [
            Layout::Unknown,
            Layout::Ip4(14),
            Layout::Ip4(0),
            Layout::Ip4(18),
            Layout::Ip6(14),
        ] {
            for bit in -112..1000 {
                let (b, n) = l.field_at(bit);
                assert!(b <= bit && bit < b + i32::from(n), "{l:?} {bit}");
                // the same field whichever of its bits is asked for
                for other in b..b + i32::from(n) {
                    assert_eq!(l.field_at(other), (b, n), "{l:?} {bit} {other}");
                }
            }
        }
        assert_eq!(Layout::Ip4(14).field_at(14 * 8 + 100), (14 * 8 + 96, 32));
        assert_eq!(Layout::Ip4(14).field_at(100), (96, 16));
    }
}
