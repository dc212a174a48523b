//! What is done to the packets of ways: bytes kept and set, the time to live counted down, where a flow's own goes, and where packets leave.
//!
//! Ways that differ in nothing but whose packets they count share an act, so that acts stay in the nearest cache.

use super::super::regs::{Bits, write_bits};
use super::guard::WINDOW;
use super::way::{Flow, Own};
use super::wide::{Any, At, Wide};
use onefold_packet::Packet;

/// Most fields that are copied from one place of the packet to another.
pub(super) const MAX_MOVES: usize = 4;

/// See [`Act::sink`].
pub(super) const NO_SINK: u32 = u32::MAX;

/// See the module's text.
///
/// What every packet needs stands first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub(super) struct Act {
    pub keep: [u8; WINDOW],
    pub set: [u8; WINDOW],
    pub sub: [u8; WINDOW],
    /// By how much packets begin later than they did.
    pub start: i32,
    /// First byte of the IP header.
    pub l3: u32,
    /// The sink where packets leave; [`NO_SINK`] where they are dropped.
    pub sink: u32,
    /// Packets begin where they began, and no fields are copied.
    pub quick: bool,
    /// Packets end where their IP header says.
    pub trim: bool,
    /// Bytes are set, or not kept.
    pub changes: bool,
    /// What stands behind the IP header is UDP.
    pub udp: bool,
    /// The flow has addresses of its own, and whatever it has for ports.
    pub varies: bool,
    /// Flows have checksums that come to zero on the way.
    pub danger: bool,
    /// Where addresses go, and ports.
    pub vars: At<8>,
    /// See [`Act::vars`].
    pub first: At<2>,
    /// See [`Act::vars`].
    pub second: At<2>,
    /// Where checksums are. Where there is none, nothing is ever added.
    pub ip_sum: At<2>,
    /// The one behind the IP header.
    pub l4_sum: At<2>,
    /// What is added to the checksums of all packets alike; where that is a flow's own, nothing.
    pub own: Own,
    /// [`Act::quick`], and besides bytes that are kept and set at most the header's checksum is another: [`Act::apply_simple`].
    pub simple: bool,
    /// Fields that are copied: from where, and to which bits.
    pub moves: Box<[(Bits, i32, u8)]>,
}

/// Writes what becomes of a checksum that was `x`. One's complement sums do not mind which way round all of their bytes are; and to add to a complement, the
/// carry added in its turn, is to subtract, and the borrow in its turn.
#[inline(always)]
fn mend(w: &mut [u8; WINDOW], at: At<2>, x: u16, k: u16, udp: bool) {
    if k == 0 || (udp && x == 0) {
        return;
    }
    let (less, borrow) = x.overflowing_sub(k);
    at.put(w, less.wrapping_sub(borrow.into()).to_ne_bytes());
}

impl Act {
    /// Nothing is written: a drop, or the beginning of more.
    pub fn nothing() -> Act {
        Act {
            sink: NO_SINK,
            quick: false,
            start: 0,
            trim: false,
            l3: 0,
            changes: false,
            keep: [0xff; WINDOW],
            set: [0; WINDOW],
            sub: [0; WINDOW],
            varies: false,
            vars: At::LAST,
            first: At::LAST,
            second: At::LAST,
            ip_sum: At::LAST,
            l4_sum: At::LAST,
            udp: false,
            danger: false,
            own: Own::default(),
            simple: false,
            moves: Box::default(),
        }
    }

    /// This packet's UDP checksum, if it comes to zero on the way.
    #[inline(always)]
    pub fn dangerous(&self, flow: &Flow, p: &Packet) -> Option<u16> {
        if !self.danger {
            return None;
        }
        // where it is before anything is pulled
        let at = self.l4_sum.place().wrapping_add_signed(self.start as isize);
        let field = p.data().get(at..).and_then(|b| b.first_chunk::<2>());
        let x = field.map_or(0, |f| u16::from_ne_bytes(*f));
        (x != 0 && Any.among(&flow.danger, x)).then_some(x)
    }

    /// [`Act::apply`] of one that is [quick](Act::quick) to a packet's first bytes. Where it ends is left to be said ([`Act::end`]).
    #[inline(always)]
    pub fn apply_quick<W: Wide>(&self, wide: W, w: &mut [u8; WINDOW], own: &Own) {
        // before anything is written: what has just been written as a whole is slow to read in parts
        let (ip, l4) = (self.ip_sum.get(w), self.l4_sum.get(w));
        wide.change(wide.load(w), &self.keep, &self.set, &self.sub, w);
        self.finish(w, own, ip, l4);
    }

    /// [`Act::apply_quick`] of one that is [simple](Act::simple).
    #[inline(always)]
    pub fn apply_simple<W: Wide>(&self, wide: W, w: &mut [u8; WINDOW]) {
        let x = u16::from_ne_bytes(self.ip_sum.get(w));
        wide.change(wide.load(w), &self.keep, &self.set, &self.sub, w);
        mend(w, self.ip_sum, x, self.own.ip(), false);
    }

    /// A packet ends where its IP header says, if that is to be seen to.
    #[inline(always)]
    pub fn end(&self, p: &mut Packet, total: u32) {
        if self.trim {
            p.keep((self.l3 + total) as usize);
        }
    }

    /// Writes what is a flow's own, and checksums, which were these.
    #[inline(always)]
    fn finish(&self, w: &mut [u8; WINDOW], own: &Own, ip: [u8; 2], l4: [u8; 2]) {
        if self.varies {
            let [a, b, c, d] = own.ports().to_le_bytes();
            // one after the other, though one mostly follows the other: whether it does (an echo message has one) could not be foreseen
            self.second.put(w, [c, d]);
            self.first.put(w, [a, b]);
            self.vars.put(w, own.addresses().to_le_bytes());
        }
        mend(w, self.ip_sum, u16::from_ne_bytes(ip), own.ip(), false);
        mend(w, self.l4_sum, u16::from_ne_bytes(l4), own.l4(), self.udp);
    }

    /// Makes the packet what leaves. `total`: bytes that its IP header says.
    #[inline(never)]
    pub fn apply(&self, p: &mut Packet, own: &Own, total: u32) {
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
        // there is room: the box was made for packets that have it
        let Some(w) = p.window_mut::<WINDOW>() else {
            return;
        };
        // before anything is written: what has just been written as a whole is slow to read in parts
        let (ip, l4) = (self.ip_sum.get(w), self.l4_sum.get(w));
        if self.changes {
            Any.change(*w, &self.keep, &self.set, &self.sub, w);
        }
        self.finish(w, own, ip, l4);
        if !self.moves.is_empty() {
            for ((_, at, bits), v) in self.moves.iter().zip(moved) {
                write_bits(w, 0, *at, *bits, v);
            }
        }
    }
}
