//! What is written to a packet's first bytes at once: bits kept and set, bytes subtracted, operands put in, operands taken off one's
//! complement sums.

use crate::simd::any::Any;
use crate::simd::{At, WINDOW, Wide};
#[cfg(target_arch = "x86_64")]
use crate::simd::{avx2::Avx2, avx512::Avx512};

/// Bytes at the beginning of a window that hold addresses of Ethernet, and an IPv4 header up to its source.
pub(crate) const NEAR: usize = WINDOW / 2;

/// No byte of a flow's own.
pub(crate) const NONE: u8 = 0x80;

/// Where [`Operands`] has what: addresses, first and second port, what is added to the header's checksum, and to the one behind it.
const OWN: [u8; 5] = [0, 8, 10, 12, 14];

/// Writes what becomes of a checksum that was `x`. One's complement sums do not mind which way round all of their bytes are; and to add to a complement, the
/// carry added in its turn, is to subtract, and the borrow in its turn.
#[inline(always)]
fn update_checksum(w: &mut [u8; WINDOW], at: At<2>, x: u16, k: u16, udp: bool) {
    if k == 0 || (udp && x == 0) {
        return;
    }
    let (less, borrow) = x.overflowing_sub(k);
    at.put(w, less.wrapping_sub(borrow.into()).to_ne_bytes());
}

/// What is written to a flow's packets, or added: in the order in which entries have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(align(16))]
pub(crate) struct Operands(pub [u64; 2]);

impl Operands {
    /// Addresses as they leave, their first byte the least significant.
    #[inline(always)]
    pub fn addresses(&self) -> u64 {
        self.0[0]
    }
    /// Ports, likewise.
    #[inline(always)]
    pub fn ports(&self) -> u32 {
        self.0[1] as u32
    }
    /// To be added to the complement of the header's checksum, as it stands on the wire; 0 for none.
    #[inline(always)]
    pub fn ip(&self) -> u16 {
        (self.0[1] >> 32) as u16
    }
    /// The same for the checksum behind the header.
    #[inline(always)]
    pub fn l4(&self) -> u16 {
        (self.0[1] >> 48) as u16
    }
    /// With more to be added to checksums: to the header's the low half of `sums`, to the one behind it the high one.
    #[inline(always)]
    pub fn with_sums(&self, sums: u32) -> Operands {
        // ones' complement numbers add up, and the sum of two is zero if both are
        let plus = |a: u32, b: u32| {
            let sum = a + b;
            u64::from((sum & 0xffff) + (sum >> 16))
        };
        let [a, b] = self.0;
        let (had, low) = ((b >> 32) as u32, b & u64::from(u32::MAX));
        let (ip, l4) = (
            plus(had & 0xffff, sums & 0xffff),
            plus(had >> 16, sums >> 16),
        );
        Operands([a, low | ip << 32 | l4 << 48])
    }
    /// For a packet whose checksum behind the header is this one, not zero, and leaves as zero.
    #[inline(always)]
    pub fn with_zero_udp_checksum(&self, x: u16) -> Operands {
        let [a, b] = self.0;
        Operands([a, b & (u64::MAX >> 16) | u64::from(x) << 48])
    }
}

/// [`Operands::with_sums`], without a number leaving its register.
pub(crate) trait AddSums: Copy {
    #[inline(always)]
    fn with_sums(self, own: &Operands, sums: u32) -> Operands {
        own.with_sums(sums)
    }
}

impl AddSums for Any {}

#[cfg(target_arch = "x86_64")]
impl AddSums for Avx2 {
    /// Eighteen instructions less for each packet: a sum has a carry where it is less than what was added to.
    #[inline(always)]
    fn with_sums(self, own: &Operands, sums: u32) -> Operands {
        use std::arch::x86_64::{
            _mm_add_epi16, _mm_andnot_si128, _mm_cmpeq_epi16, _mm_load_si128, _mm_max_epu16,
            _mm_set_epi32, _mm_set1_epi16, _mm_store_si128,
        };
        let mut both = Operands([0; 2]);
        // SAFETY: the instructions are there, or the value would not be; sixteen bytes, aligned to as many.
        unsafe {
            let own = _mm_load_si128(own.0.as_ptr().cast());
            let sum = _mm_add_epi16(own, _mm_set_epi32(sums as i32, 0, 0, 0));
            let none = _mm_cmpeq_epi16(_mm_max_epu16(sum, own), sum);
            let carry = _mm_andnot_si128(none, _mm_set1_epi16(1));
            _mm_store_si128(both.0.as_mut_ptr().cast(), _mm_add_epi16(sum, carry));
        }
        both
    }
}

#[cfg(target_arch = "x86_64")]
impl AddSums for Avx512 {
    #[inline(always)]
    fn with_sums(self, own: &Operands, sums: u32) -> Operands {
        self.narrow().with_sums(own, sums)
    }
}

/// See the module's text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(crate) struct WindowRewrite {
    pub keep: [u8; WINDOW],
    pub set: [u8; WINDOW],
    pub sub: [u8; WINDOW],
    /// Which byte of a flow's own is added to the checksum that stands here; [`NONE`] elsewhere. Said by [`WindowRewrite::arrange`], as the following.
    pub adds: [u8; WINDOW],
    /// Which byte of a flow's own is written here; [`NONE`] for none.
    pub vars_at: [u8; WINDOW],
    /// Pairs of bytes, a bit each, to which nothing is added where they are zero: a UDP checksum that is not there.
    pub unsummed: u32,
    /// Bytes are set, or not kept.
    pub changes: bool,
    /// What stands behind the IP header is UDP.
    pub udp: bool,
    /// A checksum of UDP that comes to zero is written as all ones.
    pub no_zero: bool,
    /// The flow has addresses of its own, and whatever it has for ports.
    pub varies: bool,
    /// Where addresses go, and ports.
    pub vars: At<8>,
    /// See [`WindowRewrite::vars`].
    pub first: At<2>,
    /// See [`WindowRewrite::vars`].
    pub second: At<2>,
    /// Where checksums are. Where there is none, nothing is ever added.
    pub ip_sum: At<2>,
    /// The one behind the IP header.
    pub l4_sum: At<2>,
    /// What is added to the checksums of all packets alike; where that is a flow's own, nothing.
    pub operands: Operands,
    /// What is taken off pairs of bytes of a simple one's packets: [`WindowRewrite::adds`] of [`WindowRewrite::operands`].
    pub less: [u8; NEAR],
}

impl WindowRewrite {
    /// Nothing is written.
    pub fn nothing() -> WindowRewrite {
        WindowRewrite {
            keep: [0xff; WINDOW],
            set: [0; WINDOW],
            sub: [0; WINDOW],
            adds: [NONE; WINDOW],
            vars_at: [NONE; WINDOW],
            unsummed: 0,
            changes: false,
            udp: false,
            no_zero: false,
            varies: false,
            vars: At::LAST,
            first: At::LAST,
            second: At::LAST,
            ip_sum: At::LAST,
            l4_sum: At::LAST,
            operands: Operands::default(),
            less: [0; NEAR],
        }
    }

    /// Does the checksum behind the header come to zero in this window, where it has to be all ones then?
    #[inline(always)]
    pub fn comes_to_zero(&self, operands: &Operands, w: &[u8; WINDOW]) -> bool {
        if !(self.no_zero & self.udp) {
            return false;
        }
        // what is taken off a number leaves zero of that number alone
        let x = u16::from_ne_bytes(self.l4_sum.get(w));
        x != 0 && x == operands.l4()
    }

    /// Writes what is to become of these bytes, which are the window's or have changed places: as anyone would, field by field.
    #[inline(always)]
    pub fn write(&self, bytes: [u8; WINDOW], w: &mut [u8; WINDOW], operands: &Operands) {
        // before anything is written: what has just been written as a whole is slow to read in parts
        let (ip, l4) = (self.ip_sum.get(w), self.l4_sum.get(w));
        Any.change(bytes, &self.keep, &self.set, &self.sub, w);
        self.finish(w, operands, ip, l4);
    }

    /// [`WindowRewrite::write`] of one that is simple: [`WindowRewrite::near`], and nothing but the header's checksum.
    #[inline(always)]
    pub fn write_simple(&self, bytes: [u8; WINDOW], w: &mut [u8; WINDOW]) {
        let x = u16::from_ne_bytes(self.ip_sum.get(w));
        Any.change(bytes, &self.keep, &self.set, &self.sub, w);
        update_checksum(w, self.ip_sum, x, self.operands.ip(), false);
    }

    /// Is nothing written behind the first [`NEAR`] bytes? Said of one that has been [arranged](WindowRewrite::arrange).
    pub fn near(&self) -> bool {
        (NEAR..WINDOW).all(|i| {
            let plain = (self.keep[i], self.set[i], self.sub[i]) == (0xff, 0, 0);
            plain && (self.adds[i], self.vars_at[i]) == (NONE, NONE)
        })
    }

    /// Where each byte of a flow's own goes, for whoever writes all of them at once ([`Wide::rewrite`]). False if that would come to something else than one after
    /// the other: where a checksum does not stand where pairs of bytes do, or something else is written there. Said when all else has been; of checksums, where they
    /// are.
    #[must_use]
    pub fn arrange(&mut self, (ip, l4): (Option<At<2>>, Option<At<2>>)) -> bool {
        let mut to = [NONE; WINDOW];
        if self.varies {
            // what is written later stands
            for (at, from, n) in [
                (self.second.place(), OWN[2], 2),
                (self.first.place(), OWN[1], 2),
                (self.vars.place(), OWN[0], 8),
            ] {
                for i in 0..n {
                    to[at + usize::from(i)] = from + i;
                }
            }
        }
        let (mut adds, mut unsummed) = ([NONE; WINDOW], 0);
        for (at, from, udp) in [(ip, OWN[3], false), (l4, OWN[4], self.udp)] {
            let Some(at) = at.map(At::place) else {
                continue;
            };
            let plain = |i: usize| {
                (self.keep[i], self.set[i], self.sub[i], to[i], adds[i]) == (0xff, 0, 0, NONE, NONE)
            };
            if !at.is_multiple_of(2) || !plain(at) || !plain(at + 1) {
                return false;
            }
            (adds[at], adds[at + 1]) = (from, from + 1);
            unsummed |= u32::from(udp) << (at / 2);
        }
        for i in (0..WINDOW).filter(|i| to[*i] != NONE) {
            // nothing else comes to stand there
            (self.keep[i], self.set[i], self.sub[i]) = (0, 0, 0);
        }
        (self.vars_at, self.adds, self.unsummed) = (to, adds, unsummed);
        true
    }

    /// Of one that has been [arranged](WindowRewrite::arrange): does it leave all bytes as they are?
    pub fn writes_nothing(&self) -> bool {
        !self.changes && !self.varies && self.adds == [NONE; WINDOW]
    }

    /// Writes what is a flow's own, and checksums, which were these.
    #[inline(always)]
    pub fn finish(&self, w: &mut [u8; WINDOW], operands: &Operands, ip: [u8; 2], l4: [u8; 2]) {
        if self.varies {
            let [a, b, c, d] = operands.ports().to_le_bytes();
            // one after the other, though one mostly follows the other: whether it does (an echo message has one) could not be foreseen
            self.second.put(w, [c, d]);
            self.first.put(w, [a, b]);
            self.vars.put(w, operands.addresses().to_le_bytes());
        }
        update_checksum(w, self.ip_sum, u16::from_ne_bytes(ip), operands.ip(), false);
        update_checksum(
            w,
            self.l4_sum,
            u16::from_ne_bytes(l4),
            operands.l4(),
            self.udp,
        );
    }
}

/// [`Wide::rewrite`] of one of a flow's packets, `template` being what has been taken: what comes to zero and must not
/// is all ones.
#[inline(always)]
pub(crate) fn rewrite_packet<W: Wide>(
    wide: W,
    v: W::V,
    (template, taken): (&WindowRewrite, W::LoadedTemplate<'_>),
    operands: &Operands,
    to: &mut [u8; WINDOW],
) {
    let zero = template.comes_to_zero(operands, to);
    wide.rewrite(v, taken, operands, to);
    if zero {
        template.l4_sum.put(to, [0xff; 2]);
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Few numbers, so that sums often come to zero.
    fn number() -> impl Strategy<Value = u16> {
        proptest::sample::select(vec![0, 1, 2, 0x7fff, 0x8000, 0xfffd, 0xfffe, 0xffff])
    }

    proptest! {
        /// What is added at once is what is added one after the other.
        #[test]
        fn sums_add_up(x in number(), own in number(), more in number(), low: u32) {
            let operands = Operands([7, u64::from(low) | u64::from(own) << 32 | u64::from(own) << 48]);
            let both = operands.with_sums(u32::from(more) | u32::from(more) << 16);
            prop_assert_eq!((both.addresses(), both.ports()), (7, low));
            let (mut want, mut got) = ([0; WINDOW], [0; WINDOW]);
            let at = At::of(24).unwrap();
            at.put(&mut want, x.to_ne_bytes());
            at.put(&mut got, x.to_ne_bytes());
            for k in [own, more] {
                let x = u16::from_ne_bytes(at.get(&want));
                update_checksum(&mut want, at, x, k, false);
            }
            update_checksum(&mut got, at, x, both.ip(), false);
            prop_assert_eq!(want, got);
            prop_assert_eq!(both.ip(), both.l4());
            let sums = u32::from(more) | u32::from(own) << 16;
            let want = operands.with_sums(sums);
            if let Some(wide) = Avx2::found() {
                prop_assert_eq!(wide.with_sums(&operands, sums), want);
            }
            if let Some(wide) = Avx512::found() {
                prop_assert_eq!(wide.with_sums(&operands, sums), want);
            }
        }
    }
}
