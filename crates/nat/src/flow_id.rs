//! What a rewriter's mapping is looked up by.

use onefold_packet::checksum;
use std::fmt;
use std::net::Ipv4Addr;

/// Source and destination address and port of one direction of a flow, in host byte order.
///
/// Rewriters that know no ports leave them zero; ICMPPingRewriter keeps the echo identifier there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowId {
    /// Source address.
    pub saddr: u32,
    /// Destination address.
    pub daddr: u32,
    /// Source port.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
}

impl FlowId {
    /// Addresses alone.
    pub fn addresses(saddr: u32, daddr: u32) -> FlowId {
        FlowId {
            saddr,
            daddr,
            ..FlowId::default()
        }
    }

    /// Both ports, the source's in the upper half.
    #[inline(always)]
    pub(crate) fn ports(&self) -> u32 {
        u32::from(self.sport) << 16 | u32::from(self.dport)
    }
    /// Of addresses and [both ports](FlowId::ports).
    #[inline(always)]
    pub(crate) fn of(saddr: u32, daddr: u32, ports: u32) -> FlowId {
        FlowId {
            saddr,
            daddr,
            sport: (ports >> 16) as u16,
            dport: ports as u16,
        }
    }

    /// The other direction.
    #[inline]
    pub fn reversed(self) -> FlowId {
        FlowId {
            saddr: self.daddr,
            daddr: self.saddr,
            sport: self.dport,
            dport: self.sport,
        }
    }

    /// The six 16-bit words that a checksum sees: addresses, then ports.
    #[cfg(test)]
    pub(crate) fn words(self) -> [u16; 6] {
        [
            (self.saddr >> 16) as u16,
            self.saddr as u16,
            (self.daddr >> 16) as u16,
            self.daddr as u16,
            self.sport,
            self.dport,
        ]
    }
}

/// `(1.0.0.1, 1024, 2.0.0.2, 80)`.
impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "({}, {}, {}, {})",
            Ipv4Addr::from(self.saddr),
            self.sport,
            Ipv4Addr::from(self.daddr),
            self.dport
        )
    }
}

/// RFC 1624 equation 3, folded as Click folds it.
#[inline]
pub(crate) fn checksum_step(sum: u16, old: u16, new: u16) -> u16 {
    let s = u32::from(!sum) + u32::from(!old) + u32::from(new);
    let s = (s & 0xffff) + (s >> 16);
    !((s + (s >> 16)) as u16)
}

/// Applies a stored difference in a direction. Nothing changes where the difference is nothing, not even a checksum
/// field that holds the other zero.
#[inline]
pub fn checksum_shift(sum: u16, delta: u16, reply: bool) -> u16 {
    if delta == 0 {
        return sum;
    }
    checksum_step(sum, 0, if reply { delta } else { !delta })
}

/// The differences that a mapping from `a` to `b` makes to a checksum over the addresses, and over addresses and ports.
///
/// These are [`checksum_step`]s from zero on, word by word. As a sum that is not zero never folds to zero, it does not
/// matter when it is folded, and two words may be added as one number.
#[inline]
pub(crate) fn checksum_deltas(a: FlowId, b: FlowId) -> (u16, u16) {
    let address = |x: u32, y: u32| u64::from(!x) + u64::from(y);
    let port = |x: u16, y: u16| u64::from(!x) + u64::from(y);
    let addresses = 0xffff + address(a.saddr, b.saddr) + address(a.daddr, b.daddr);
    let all = addresses + port(a.sport, b.sport) + port(a.dport, b.dport);
    // four numbers of 32 bits and some of 16
    let folded = |sum: u64| {
        !checksum::fold_few((sum >> 32) as u32 + (sum as u32 >> 16) + (sum as u32 & 0xffff))
    };
    (folded(addresses), folded(all))
}

/// What is to be added to a checksum's complement in one direction. Nothing means that the field is left alone, even
/// where it holds the other zero; so a difference that comes to zero is written as minus zero.
#[inline]
pub fn checksum_addend(delta: u16, reply: bool) -> u16 {
    match (delta, reply) {
        (0, _) => 0,
        (d, true) => d,
        (0xffff, false) => 0xffff,
        (d, false) => !d,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_reverse() {
        let f = FlowId {
            saddr: 0x0100_0001,
            daddr: 0x0200_0002,
            sport: 1024,
            dport: 80,
        };
        assert_eq!(f.to_string(), "(1.0.0.1, 1024, 2.0.0.2, 80)");
        assert_eq!(f.reversed().to_string(), "(2.0.0.2, 80, 1.0.0.1, 1024)");
        assert_eq!(f.reversed().reversed(), f);
    }

    /// As Click does it.
    fn word_by_word(a: FlowId, b: FlowId) -> (u16, u16) {
        let (a, b) = (a.words(), b.words());
        let mut deltas = [0; 6];
        let mut delta = 0;
        for ((x, y), to) in a.iter().zip(&b).zip(&mut deltas) {
            // what stays the same changes nothing but the form of a zero
            if x != y || delta == 0xffff {
                delta = checksum_step(delta, *x, *y);
            }
            *to = delta;
        }
        (deltas[3], deltas[5])
    }

    proptest::proptest! {
        /// A checksum that was right before is right after, both ways, and back to what it was.
        #[test]
        fn shifts_keep_a_checksum_right(a: [u16; 6], b: [u16; 6], rest: u16) {
            let id = |w: [u16; 6]| FlowId {
                saddr: u32::from(w[0]) << 16 | u32::from(w[1]),
                daddr: u32::from(w[2]) << 16 | u32::from(w[3]),
                sport: w[4],
                dport: w[5],
            };
            // a non-zero word beside, as every real header has one
            let sum = |w: [u16; 6]| {
                let total = w.iter().map(|x| u64::from(*x)).sum::<u64>() + u64::from(rest | 1);
                !checksum::fold(total)
            };
            let (addresses, all) = checksum_deltas(id(a), id(b));
            proptest::prop_assert_eq!((addresses, all), word_by_word(id(a), id(b)));
            // many words that stay as they are
            let same = std::array::from_fn(|i| if rest >> i & 1 == 0 { a[i] } else { b[i] });
            proptest::prop_assert_eq!(checksum_deltas(id(a), id(same)), word_by_word(id(a), id(same)));
            proptest::prop_assert_eq!(checksum_shift(sum(a), all, false), sum(b));
            proptest::prop_assert_eq!(checksum_shift(sum(b), all, true), sum(a));
            if a[4..] == b[4..] {
                proptest::prop_assert_eq!(addresses, all);
            }
        }
    }

    #[test]
    fn shifts_add_up_as_the_packet_path_does() {
        for delta in 0..=u16::MAX {
            for reply in [false, true] {
                let x = checksum_addend(delta, reply);
                for sum in [0, 1, 0x7fff, 0x8000, 0xfffe, 0xffff, delta, !delta] {
                    let got = match x {
                        0 => sum,
                        x => !checksum::fold(u64::from(!sum) + u64::from(x)),
                    };
                    assert_eq!(got, checksum_shift(sum, delta, reply), "{sum:x} {delta:x}");
                }
            }
        }
    }
}
