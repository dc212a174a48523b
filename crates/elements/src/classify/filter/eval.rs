//! The meaning of a filter: evaluation of the tree on a packet's bytes.
//!
//! A header field that the packet is too short for *fails* its test, negated relations (`!=`, `<=`) included; `not`
//! then turns the failure round. An ordered comparison of a field that is cut in the middle is decided by the bytes
//! that are there where they suffice, as in Click: see [`cut_greater`].

use super::expr::{Check, Compare, Expr, Field, Layer, Op, Test, Transport, Which};
use onefold_packet::Packet;
use onefold_packet::wire::ipv6;

/// A packet's headers as far as they are there; each slice goes on to the end of the packet's data.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// From the network header.
    pub net: &'a [u8],
    /// From the transport header.
    pub transport: &'a [u8],
    /// From the MAC header; empty if the packet's annotation is not set.
    pub mac: &'a [u8],
    /// From the IPv6 header; empty for IPv4.
    pub net6: &'a [u8],
}

impl<'a> View<'a> {
    /// `None` if the network header annotation is not set, or points behind the packet's end.
    #[inline]
    pub fn of(p: &'a Packet) -> Option<View<'a>> {
        Some(View {
            net: p.network()?,
            transport: p.transport().unwrap_or(&[]),
            mac: p.mac().unwrap_or(&[]),
            net6: &[],
        })
    }

    /// Is this the first fragment, or no fragment? False when the header is cut before the fragment offset's end.
    #[inline]
    pub fn first_fragment(&self) -> bool {
        match self.net.get(6..8) {
            Some(b) => u16::from_be_bytes([b[0], b[1]]) & 0x1fff == 0,
            None => false,
        }
    }

    fn protocol(&self) -> Option<u8> {
        self.net.get(9).copied()
    }

    pub(super) fn layer(&self, l: Layer) -> &'a [u8] {
        match l {
            Layer::Net => self.net,
            Layer::Net6 => self.net6,
            Layer::Transport => self.transport,
        }
    }
}

/// An IPv6 packet as filters see it: what IPv4 and IPv6 filters have in common (upper-layer protocol, fragments, and
/// the first 32 bits of the addresses, for the search) in the form of an IPv4 header.
#[derive(Debug, Clone, Copy)]
pub struct View6<'a> {
    common: [u8; 20],
    net6: &'a [u8],
    upper: &'a [u8],
    mac: &'a [u8],
}

impl<'a> View6<'a> {
    /// `None` if the network header annotation does not point at an IPv6 header, or if the extension headers cannot be
    /// followed to the upper-layer header: cut off, or too many.
    pub fn of(p: &'a Packet) -> Option<View6<'a>> {
        let net6 = p.network()?;
        let h = ipv6::Header::parse(net6)?;
        let u = h.upper()?;
        let mut common = [0; 20];
        // of flags and fragment offset all that counts is whether there are any
        common[6] = if u.fragment { 0x20 } else { 0 };
        common[7] = u8::from(u.later);
        common[9] = u.protocol;
        common[12..16].copy_from_slice(&h.src()[..4]);
        common[16..20].copy_from_slice(&h.dst()[..4]);
        Some(View6 {
            common,
            net6,
            upper: net6.get(u.offset..).unwrap_or(&[]),
            mac: p.mac().unwrap_or(&[]),
        })
    }
    /// What filters are evaluated on.
    pub fn view(&self) -> View<'_> {
        View {
            net: &self.common,
            transport: self.upper,
            mac: self.mac,
            net6: self.net6,
        }
    }
}

/// Up to four bytes from `at` on as a big-endian number, zeros for what is missing, and how many there were.
#[inline]
fn word(b: &[u8], at: usize) -> (u32, usize) {
    let tail = b.get(at..).unwrap_or(&[]);
    if let Some(c) = tail.first_chunk::<4>() {
        return (u32::from_be_bytes(*c), 4);
    }
    let mut c = [0u8; 4];
    c[..tail.len()].copy_from_slice(tail);
    (u32::from_be_bytes(c), tail.len())
}

/// Are all bytes that the mask touches among the first `there` ones?
#[inline]
fn covered(mask: u32, there: usize) -> bool {
    there >= 4 || mask << (8 * there as u32) == 0
}

/// `word & mask == value`, false if bytes are missing.
#[inline]
fn equal(b: &[u8], at: usize, mask: u32, value: u32, negated: bool) -> bool {
    let (w, there) = word(b, at);
    covered(mask, there) && (w & mask == value) != negated
}

/// A relation on the bits from `shift` up in the word at `at`.
fn compare(b: &[u8], at: usize, shift: u32, c: Compare) -> bool {
    if let Some(answer) = c.constant() {
        return answer;
    }
    let (w, there) = word(b, at);
    if covered(c.mask << shift, there) {
        return c.holds(w >> shift);
    }
    c.op == Op::Greater && cut_greater(w, there, shift, c)
}

/// `field & mask > value` where the field's last bytes are missing.
///
/// The comparison is a chain of tests on leading bits: as long as the value's leading bits are zeros, a one among the
/// field's decides for "greater"; as long as they are ones, a zero among the field's decides against it. A test that
/// needs a missing byte fails, and so it does in the negated relation, whose chain is the mirror image.
fn cut_greater(w: u32, there: usize, shift: u32, c: Compare) -> bool {
    let (mut mask, mut value) = (c.mask, c.value);
    // each turn removes at least the highest mask bit: at most 32 turns
    while value < mask {
        let ones = value > mask >> 1;
        let differs = match ones {
            true => !(value + 1) & mask,
            false => value,
        };
        // the mask's bits above the highest bit at which the run of ones (or zeros) ends
        let run = match differs.checked_ilog2() {
            None => mask,
            Some(bit) => mask & (u32::MAX << bit << 1),
        };
        let wanted = if ones { run } else { 0 };
        let there_and = |hit: bool| covered(run << shift, there) && hit;
        let field = w >> shift & run;
        // ones: the run equal and the rest greater; zeros: the run different or the rest greater. Negated: mirrored
        let (test, all) = match c.negated {
            false => (there_and((field == wanted) == ones), ones),
            true => (there_and((field == wanted) != ones), !ones),
        };
        mask &= !run;
        value &= mask;
        let last = value >= mask;
        if last || test != all {
            return test;
        }
    }
    false
}

impl Field {
    /// Does the relation hold for this field of the packet?
    #[inline]
    fn compare(self, v: &View<'_>, c: Compare) -> bool {
        let bit = u32::from(self.bit);
        let at = (bit / 32 * 4) as usize;
        let shift = 32u32.saturating_sub(bit % 32 + u32::from(self.bits));
        compare(v.layer(self.layer), at, shift, c)
    }
}

/// Combines source and destination. A negated `either` wants both to differ, a negated `both` one of them.
#[inline]
fn sides(which: Which, negated: bool, src: impl Fn() -> bool, dst: impl Fn() -> bool) -> bool {
    match (which, negated) {
        (Which::Src, _) => src(),
        (Which::Dst, _) => dst(),
        (Which::Both, false) | (Which::Either, true) => src() && dst(),
        (Which::Either, false) | (Which::Both, true) => src() || dst(),
    }
}

impl Check {
    /// Does the packet pass this check? Protocol and fragment offset are not looked at: see [`Test::matches`].
    pub fn matches(&self, v: &View<'_>) -> bool {
        match *self {
            Check::Protocol => true,
            Check::Host {
                which,
                addr,
                mask,
                negated,
            } => {
                let one = |at| match mask {
                    0 => !negated,
                    _ => equal(v.net, at, mask, addr, negated),
                };
                sides(which, negated, || one(12), || one(16))
            }
            Check::Host6 {
                which,
                addr,
                mask,
                negated,
            } => {
                let one = |at: usize| match v.net6.get(at..).and_then(|b| b.first_chunk()) {
                    Some(b) => (u128::from_be_bytes(*b) & mask == addr) != negated,
                    None => false,
                };
                sides(which, negated, || one(8), || one(24))
            }
            Check::Ether {
                which,
                addr,
                mask,
                negated,
            } => {
                let one = |at: usize| {
                    // the address in the two aligned pieces in which it lies in the header
                    let cut = if at == 0 { 2 } else { 4 };
                    let piece = |r: std::ops::Range<usize>| {
                        if mask[r.clone()].iter().all(|m| *m == 0) {
                            return !negated;
                        }
                        r.clone().all(|i| mask[i] == 0 || at + i < v.mac.len())
                            && r.clone()
                                .all(|i| mask[i] == 0 || v.mac[at + i] & mask[i] == addr[i])
                                != negated
                    };
                    match negated {
                        false => piece(0..cut) && piece(cut..6),
                        true => piece(0..cut) || piece(cut..6),
                    }
                };
                sides(which, negated, || one(6), || one(0))
            }
            Check::Port { which, compare: c } => sides(
                which,
                c.negated,
                || compare(v.transport, 0, 16, c),
                || compare(v.transport, 0, 0, c),
            ),
            Check::TcpFlags(set) => set == 0 || v.transport.get(13).is_some_and(|f| f & set == set),
            Check::Fragment(yes) => equal(v.net, 4, 0x3fff, 0, yes),
            Check::Field { field, compare } => field.compare(v, compare),
        }
    }
}

impl Test {
    /// Does the packet pass?
    pub fn matches(&self, v: &View<'_>) -> bool {
        let protocol = match self.transport {
            None => true,
            Some(Transport::Protocol(p)) => v.protocol() == Some(p),
            Some(Transport::TcpOrUdp) => matches!(v.protocol(), Some(6 | 17)),
        };
        protocol
            && (!self.check.first_fragment_only() || v.first_fragment())
            && self.check.matches(v)
    }
}

impl Expr {
    /// Does the packet match? Recursion is as deep as the expression, which the parser bounds.
    pub fn matches(&self, v: &View<'_>) -> bool {
        match self {
            Expr::Const(b) => *b,
            Expr::Test(t) => t.matches(v),
            Expr::All(list) => list.iter().all(|e| e.matches(v)),
            Expr::Any(list) => list.iter().any(|e| e.matches(v)),
            Expr::Not(e) => !e.matches(v),
            Expr::Choose { cases, otherwise } => match cases.iter().find(|(c, _)| c.matches(v)) {
                Some((_, value)) => value.matches(v),
                None => otherwise.matches(v),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With everything there, the chain of leading-bit tests is the comparison itself; all of it 6 bits wide.
    #[test]
    fn chain_is_comparison() {
        for mask in 1..64u32 {
            for value in (0..mask).filter(|v| v & !mask == 0) {
                for negated in [false, true] {
                    let c = Compare {
                        mask,
                        op: Op::Greater,
                        value,
                        negated,
                    };
                    for field in 0..64u32 {
                        let got = cut_greater(field << 8, 4, 8, c);
                        assert_eq!(got, c.holds(field), "{field} & {mask} > {value} {negated}");
                    }
                }
            }
        }
    }

    /// A port of which one byte is there: decided by it if possible, else false either way.
    #[test]
    fn cut_port() {
        let c = |value, negated| Compare {
            mask: 0xffff,
            op: Op::Greater,
            value,
            negated,
        };
        // first byte 0x04: above 1023 = 0x03ff, whose leading six zeros differ from it
        assert!(compare(&[4], 0, 16, c(1023, false)));
        assert!(!compare(&[4], 0, 16, c(1023, true)));
        assert!(!compare(&[3], 0, 16, c(1023, false)));
        // 3 <= 3ff holds whatever the second byte is, and the six leading zeros suffice
        assert!(compare(&[3], 0, 16, c(1023, true)));
        // 0x04?? > 0x0410 is open
        assert!(!compare(&[4], 0, 16, c(0x410, false)));
        assert!(!compare(&[4], 0, 16, c(0x410, true)));
        assert!(!compare(&[], 0, 16, c(1023, true)));
    }
}
