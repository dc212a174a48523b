//! What is done to the packets of actions: bytes kept and set, the time to live counted down, where a flow's own
//! goes, and where packets leave.
//!
//! Actions that differ in nothing but whose packets they count share a template, so that templates stay in the
//! nearest cache.

use crate::program::headers::registers::{Bits, write_bits};
use crate::simd::WINDOW;
use crate::simd::Wide;
use crate::simd::any::Any;
use crate::simd::window_rewrite::Operands as FlowOperands;
use crate::simd::window_rewrite::WindowRewrite;
use crate::simd::window_rewrite::rewrite_packet;
use onefold_packet::Packet;

/// Most fields that are copied from one place of the packet to another.
pub(crate) const MAX_MOVES: usize = 4;

/// Bytes at the beginning of a window that can change places at once.
const TURNED: usize = 16;

/// See [`RewriteTemplate::sink`].
pub(crate) const NO_SINK: u32 = u32::MAX;

/// In [`RewriteTemplate::sink`], with a number: packets do not leave but [go on](crate::flow::exit::Exit).
pub(crate) const EXIT: u32 = 1 << 31;

/// What a flow has for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flow {
    pub operands: FlowOperands,
    /// UDP checksums that come to zero on the way, as they stand on the wire, four to a word; zero for none.
    pub zero_udp_checksum: [u64; 3],
}

/// See the module's text.
///
/// What every packet needs stands first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(crate) struct RewriteTemplate {
    /// What is written to the first bytes.
    pub bytes: WindowRewrite,
    /// By how much packets begin later than they did.
    pub start: i32,
    /// First byte of the IP header.
    pub l3: u32,
    /// The sink where packets leave; [`NO_SINK`] where they are dropped, [`EXIT`] where they go on.
    pub sink: u32,
    /// Packets begin where they began, and no fields are copied.
    pub quick: bool,
    /// Of a quick one: nothing is written.
    pub idle: bool,
    /// Packets end where their IP header says.
    pub trim: bool,
    /// Flows have checksums that come to zero on the way.
    pub zero_udp_checksum: bool,
    /// Nobody asks when the bindings were used last that flows' operands stand on.
    pub untimed: bool,
    /// [`RewriteTemplate::quick`], and besides bytes that are kept and set at most the header's checksum is another,
    /// all within [`NEAR`] bytes: [`RewriteTemplate::apply_simple`].
    pub simple: bool,
    /// Fields that are copied: from where, and to which bits.
    pub moves: Box<[(Bits, i32, u8)]>,
    /// Where these are whole bytes of the first sixteen and packets begin where they began (MAC addresses that change
    /// places): from which place each byte of the window comes. [`RewriteTemplate::apply_turned`].
    pub turn: Option<Box<[u8; WINDOW]>>,
}

impl RewriteTemplate {
    /// Nothing is written: a drop, or the beginning of more.
    pub fn nothing() -> RewriteTemplate {
        RewriteTemplate {
            bytes: WindowRewrite::nothing(),
            sink: NO_SINK,
            quick: false,
            idle: false,
            start: 0,
            trim: false,
            l3: 0,
            zero_udp_checksum: false,
            untimed: false,
            simple: false,
            moves: Box::default(),
            turn: None,
        }
    }

    /// This packet's UDP checksum, if it comes to zero on the way.
    #[inline(always)]
    pub fn zero_udp_checksum_of(&self, flow: &Flow, p: &Packet) -> Option<u16> {
        if !self.zero_udp_checksum {
            return None;
        }
        // where it is before anything is pulled
        let at = self
            .bytes
            .l4_sum
            .place()
            .wrapping_add_signed(self.start as isize);
        let field = p.data().get(at..).and_then(|b| b.first_chunk::<2>());
        let x = field.map_or(0, |f| u16::from_ne_bytes(*f));
        (x != 0 && Any.among(&flow.zero_udp_checksum, x)).then_some(x)
    }

    /// [`RewriteTemplate::apply`] of one that is [quick](RewriteTemplate::quick) to a packet's first bytes. Where it
    /// ends is left to be said ([`RewriteTemplate::end`]).
    #[inline(always)]
    pub fn apply_quick<W: Wide>(&self, wide: W, w: &mut [u8; WINDOW], operands: &FlowOperands) {
        let template = (&self.bytes, wide.take(&self.bytes));
        rewrite_packet(wide, wide.load(w), template, operands, w);
    }

    /// [`RewriteTemplate::apply_quick`] of one that is [simple](RewriteTemplate::simple).
    #[inline(always)]
    pub fn apply_simple<W: Wide>(&self, wide: W, w: &mut [u8; WINDOW]) {
        wide.rewrite_near(&self.bytes, w);
    }

    /// [`RewriteTemplate::apply_quick`] of one whose fields [change places](RewriteTemplate::turn).
    #[inline(always)]
    pub fn apply_turned<W: Wide>(
        &self,
        wide: W,
        turn: &[u8; WINDOW],
        w: &mut [u8; WINDOW],
        operands: &FlowOperands,
    ) {
        let template = (&self.bytes, wide.take(&self.bytes));
        rewrite_packet(
            wide,
            wide.turned_by(wide.load(w), turn),
            template,
            operands,
            w,
        );
    }

    /// The same is added to checksums of all packets, and this is it: said of one that has been
    /// [arranged](RewriteTemplate::arrange).
    pub fn share(&mut self, operands: FlowOperands) {
        self.bytes.operands = operands;
        let [a, b] = operands.0.map(u64::to_le_bytes);
        for (less, from) in self.bytes.less.iter_mut().zip(self.bytes.adds) {
            let byte = a.iter().chain(&b).nth(from.into());
            *less = byte.copied().unwrap_or(0);
        }
        self.simple = self.quick && operands.l4() == 0 && self.bytes.near();
    }

    /// Fields that are copied: said last, after what is written elsewhere.
    pub fn set_moves(&mut self, moves: Vec<(Bits, i32, u8)>) {
        let mut turn: [u8; WINDOW] = std::array::from_fn(|i| i as u8);
        let mut all = self.start == 0 && !moves.is_empty();
        for (from, to, bits) in &moves {
            let (from, same) = from.position();
            let end = from.max(*to) + i32::from(*bits);
            // every packet of a masked match has an IP header, and so these bytes
            all &= (from | to | i32::from(*bits)) & 7 == 0 && from.min(*to) >= 0;
            all &= end <= TURNED as i32 * 8 && same == *bits;
            if !all {
                break;
            }
            for i in 0..usize::from(bits / 8) {
                let (from, to) = (from as usize / 8 + i, *to as usize / 8 + i);
                turn[to] = from as u8;
                // whatever was to be written here is written over
                (self.bytes.keep[to], self.bytes.set[to], self.bytes.sub[to]) = (0xff, 0, 0);
            }
        }
        self.turn = all.then(|| Box::new(turn));
        self.moves = moves.into();
    }

    /// A packet ends where its IP header says, if that is to be seen to.
    #[inline(always)]
    pub fn end(&self, p: &mut Packet, total: u32) {
        if self.trim {
            p.keep((self.l3 + total) as usize);
        }
    }

    /// Makes the packet what leaves. `total`: bytes that its IP header says.
    #[inline(never)]
    pub fn apply(&self, p: &mut Packet, operands: &FlowOperands, total: u32) {
        let mut moved = [0; MAX_MOVES];
        if !self.moves.is_empty() {
            for (v, (b, ..)) in moved.iter_mut().zip(&self.moves) {
                *v = b.read(p.buffer(), p.data_offset());
            }
        }
        self.end(p, total);
        match self.start {
            0 => {}
            n if n > 0 => p.pull(n as usize),
            n => p.push(n.unsigned_abs() as usize),
        }
        // there is room: the masked match was made for packets that have it
        let Some(w) = p.window_mut::<WINDOW>() else {
            return;
        };
        // before anything is written: what has just been written as a whole is slow to read in parts
        let (ip, l4) = (self.bytes.ip_sum.get(w), self.bytes.l4_sum.get(w));
        if self.bytes.changes {
            Any.change(*w, &self.bytes.keep, &self.bytes.set, &self.bytes.sub, w);
        }
        self.bytes.finish(w, operands, ip, l4);
        if !self.moves.is_empty() {
            for ((_, at, bits), v) in self.moves.iter().zip(moved) {
                write_bits(w, 0, *at, *bits, v);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::At;
    use proptest::prelude::*;

    proptest! {
        /// Bytes that change places at once are fields that are copied one after the other, after everything else.
        #[test]
        fn turned_as_moved(
            moves in proptest::collection::vec((0i32..12, 0i32..12, 1u8..5), 1..MAX_MOVES),
            changed in proptest::collection::vec((0usize..24, any::<u8>(), any::<u8>(), any::<u8>()), 0..6),
            operands: [u64; 2],
            data in proptest::collection::vec(any::<u8>(), 64),
        ) {
            let mut template = RewriteTemplate::nothing();
            template.bytes.changes = true;
            template.bytes.ip_sum = At::of(24).unwrap();
            template.bytes.operands = FlowOperands(operands);
            for (at, keep, set, sub) in changed {
                (template.bytes.keep[at], template.bytes.set[at], template.bytes.sub[at]) = (keep, set, sub);
            }
            let bits = |(from, to, n): &(i32, i32, u8)| (Bits::new(from * 8, n * 8), to * 8, n * 8);
            template.set_moves(moves.iter().map(bits).collect());
            let turn = template.turn.clone().unwrap();
            let mut want = Packet::from_slice(&data);
            template.apply(&mut want, &template.bytes.operands, 40);
            let mut got = Packet::from_slice(&data);
            template.apply_turned(Any, &turn, got.window_mut().unwrap(), &template.bytes.operands);
            prop_assert_eq!(want.data(), got.data());
        }
    }

    /// All that is written at once is what is written field by field.
    fn written(
        wide: impl Wide,
        template: &RewriteTemplate,
        w: &[u8; WINDOW],
        operands: &FlowOperands,
    ) {
        let (mut want, mut got) = (*w, *w);
        template.bytes.write(*w, &mut want, operands);
        template.apply_quick(wide, &mut got, operands);
        assert_eq!(want, got);
        if !template.bytes.varies && template.bytes.near() {
            let (mut want, mut got) = (*w, *w);
            template.bytes.write_simple(*w, &mut want);
            template.apply_simple(wide, &mut got);
            assert_eq!(want, got);
        }
    }

    proptest! {
        /// What is written at once is what is written one after the other.
        #[test]
        fn at_once_as_field_by_field(
            changed in proptest::collection::vec((0usize..WINDOW, any::<u8>(), any::<u8>(), any::<u8>()), 0..6),
            (addresses, ports) in (0usize..24, 0usize..6),
            (ip, l4) in (proptest::option::of(0usize..63), proptest::option::of(0usize..63)),
            (varies, udp, zero) in (any::<bool>(), any::<bool>(), any::<bool>()),
            operands in (any::<u64>(), any::<u64>(), proptest::sample::select(vec![0, 1, 0xfffe, 0xffff])),
            data in proptest::collection::vec(any::<u8>(), WINDOW),
        ) {
            let place = |at: Option<usize>| at.and_then(At::<2>::of);
            let (ip, l4) = (place(ip), place(l4));
            let (a, b, k) = operands;
            let operands = FlowOperands([a, b & 0x0000_ffff_ffff_ffff | if ports == 0 { b & 0xffff << 48 } else { k << 48 }]);
            let mut template = RewriteTemplate::nothing();
            template.bytes = WindowRewrite {
                changes: true,
                varies,
                udp,
                vars: At::of(addresses).unwrap(),
                first: At::of(addresses + ports * 2).unwrap(),
                second: At::of(addresses + ports * 2 + ports / 2).unwrap(),
                ip_sum: ip.unwrap_or(At::LAST),
                l4_sum: l4.unwrap_or(At::LAST),
                operands: FlowOperands([operands.0[0], operands.0[1] & u64::MAX >> 16]),
                ..WindowRewrite::nothing()
            };
            for (at, keep, set, sub) in changed {
                (template.bytes.keep[at], template.bytes.set[at], template.bytes.sub[at]) = (keep, set, sub);
            }
            // where there is none, nothing is added
            let none = |at: Option<At<2>>, by: u32| if at.is_none() { u64::from(u16::MAX) << by } else { 0 };
            let operands = FlowOperands([operands.0[0], operands.0[1] & !none(ip, 32) & !none(l4, 48)]);
            template.bytes.operands.0[1] &= !none(ip, 32);
            let before = template.clone();
            if template.bytes.arrange((ip, l4)) {
                template.share(template.bytes.operands);
                let mut w: [u8; WINDOW] = data.try_into().unwrap();
                if zero && let Some(at) = l4 {
                    at.put(&mut w, [0; 2]);
                }
                let (mut want, mut plain) = (w, w);
                before.bytes.write(w, &mut want, &operands);
                template.bytes.write(w, &mut plain, &operands);
                prop_assert_eq!(want, plain);
                #[cfg(target_arch = "x86_64")]
                {
                    use crate::simd::avx2::Avx2;
                    use crate::simd::avx512::Avx512;
                    if let Some(wide) = Avx2::found() {
                        written(wide, &template, &w, &operands);
                    }
                    if let Some(wide) = Avx512::found() {
                        written(wide, &template, &w, &operands);
                    }
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_turned_is_moved() {
        let set = |from, to, bits, start| {
            let mut template = RewriteTemplate {
                start,
                ..RewriteTemplate::nothing()
            };
            template.set_moves(vec![(Bits::new(from, bits), to, bits)]);
            template.turn.is_some()
        };
        assert!(set(0, 48, 48, 0));
        assert!(!set(0, 48, 48, 14), "it begins elsewhere");
        assert!(!set(4, 48, 8, 0), "half of two bytes");
        assert!(!set(128, 0, 8, 0) && !set(0, 124, 8, 0), "too far behind");
        let mut none = RewriteTemplate::nothing();
        none.set_moves(Vec::new());
        assert!(none.turn.is_none());
    }
}
