//! When all that is written on a composed action's way can be written at once ([`crate::flow::fused_way`]).
//!
//! Places are in bytes behind the beginning of the packet that came; headers do not move, but packets begin
//! elsewhere, and what is in front of IP's is written anew. Of each byte it is worked out what becomes of it
//! ([`Byte`]), template by template, and what has become of all of them in the end is one template, if each stays
//! where it is, is set, or is the flow's own. Differences of checksums add up (RFC 1624). Where one of UDP could come
//! to zero between two parts, from where on it would be none, nothing is fused.
//!
//! An element that is asked on the way sees the packet from its IP header on. So that it sees there what it would have
//! seen, all that is written there is written between the same two elements: before them, the packet is as it came, and
//! behind them, as it leaves.

use crate::flow::composed::Part;
use crate::flow::fused_way::{Fused, FusedAsk, FusedPart, MAX_ASKED, WholeWay};
use crate::flow::in_place_way::{InPlace, Stretch};
use crate::flow::rewrite_template::{EXIT, NO_SINK, RewriteTemplate};
use crate::flow::runner::FlowRunner;
use crate::simd::window_rewrite::{Operands, WindowRewrite};
use crate::simd::{At, WINDOW};

/// Bytes in front of packets that are looked at, and bytes in all.
const BEFORE: i32 = 64;
const BYTES: usize = 192;

/// What a byte has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Byte {
    /// What stood here, of which bits were kept and set, and a number taken off.
    Here {
        keep: u8,
        set: u8,
        sub: u8,
    },
    Is(u8),
    /// The flow's own: which of the operands' bytes.
    Own(u8),
    /// A checksum's: IP's, or the one behind.
    Sum {
        behind: bool,
    },
    /// Something else.
    Else,
}

const SAME: Byte = Byte::Here {
    keep: 0xff,
    set: 0,
    sub: 0,
};

impl Byte {
    /// Bits are kept and set, and a number is taken off.
    fn changed(self, keep: u8, set: u8, sub: u8) -> Byte {
        match (self, (keep, set, sub)) {
            (same, (0xff, 0, 0)) => same,
            (_, (0, ..)) => Byte::Is(set.wrapping_sub(sub)),
            (Byte::Is(x), _) => Byte::Is((x & keep | set).wrapping_sub(sub)),
            (
                Byte::Here {
                    keep: k,
                    set: s,
                    sub: 0,
                },
                _,
            ) => Byte::Here {
                keep: k & keep,
                set: s & keep | set,
                sub,
            },
            (
                Byte::Here {
                    keep: k,
                    set: s,
                    sub: less,
                },
                (0xff, 0, sub),
            ) => Byte::Here {
                keep: k,
                set: s,
                sub: less.wrapping_add(sub),
            },
            _ => Byte::Else,
        }
    }
}

/// What becomes of the first bytes of a way's packets, as far as it has been looked at.
struct Bytes {
    all: [Byte; BYTES],
    /// Where checksums are that something is added to: IP's, and the one behind.
    at: [Option<i32>; 2],
    /// What is added to them but for the flow's own.
    sums: [u16; 2],
    /// How many templates add to the one behind, and whether it is UDP's.
    behind: (usize, bool),
    /// It must not come to zero.
    no_zero: bool,
    /// Where the flow's own goes: addresses and ports.
    own: Option<[i32; 3]>,
    /// The first place behind what is in front of the IP header.
    l3: i32,
    /// Something has been written behind there.
    net: bool,
}

/// One's complement numbers add up, one that is not zero to no zero.
fn sum_of(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u16::from(carry)
}

impl Bytes {
    fn new(l3: i32) -> Bytes {
        Bytes {
            all: [SAME; BYTES],
            at: [None; 2],
            sums: [0; 2],
            behind: (0, false),
            no_zero: false,
            own: None,
            l3,
            net: false,
        }
    }

    fn get(&self, at: i32) -> Option<Byte> {
        let at = usize::try_from(at + BEFORE).ok()?;
        self.all.get(at).copied()
    }

    fn put(&mut self, at: i32, byte: Byte) -> Option<()> {
        let to = usize::try_from(at + BEFORE).ok()?;
        let to = self.all.get_mut(to)?;
        self.net |= at >= self.l3 && *to != byte;
        *to = byte;
        Some(())
    }

    /// A template is applied to packets that begin here. `own`: with the flow's operands. `None` if too much becomes of
    /// them.
    fn apply(&mut self, t: &RewriteTemplate, start: i32, own: bool) -> Option<()> {
        let mut moved = Vec::new();
        for (from, to, bits) in &t.moves {
            let (from, _) = from.position();
            if (from | to | i32::from(*bits)) & 7 != 0 {
                return None;
            }
            for i in 0..i32::from(bits / 8) {
                let byte = self.get(start + from / 8 + i)?;
                let here = start + t.start + to / 8 + i;
                let stays = here == start + from / 8 + i || matches!(byte, Byte::Is(_));
                moved.push((here, if stays { byte } else { Byte::Else }));
            }
        }
        let (b, at) = (&t.bytes, start + t.start);
        if b.changes {
            for i in 0..WINDOW {
                let byte = self.get(at + i as i32)?;
                self.put(at + i as i32, byte.changed(b.keep[i], b.set[i], b.sub[i]))?;
            }
        }
        if b.varies {
            self.writes_own(b, at, own)?;
        }
        self.no_zero |= b.no_zero;
        let operands = &b.operands;
        for (behind, place, k) in [
            (false, b.ip_sum.place(), operands.ip()),
            (true, b.l4_sum.place(), operands.l4()),
        ] {
            if place != At::<2>::LAST.place() && (own || k != 0) {
                self.adds(behind, at + place as i32, if own { 0 } else { k }, b.udp)?;
            }
        }
        for (at, byte) in moved {
            self.put(at, byte)?;
        }
        Some(())
    }

    /// What is the flow's own is written, or what all flows have in common in its place.
    fn writes_own(&mut self, b: &WindowRewrite, at: i32, own: bool) -> Option<()> {
        let places = [b.vars.place(), b.first.place(), b.second.place()].map(|p| at + p as i32);
        let [x, y] = b.operands.0.map(u64::to_le_bytes);
        // what is written later stands
        for (place, from, n) in [(places[2], 10u8, 2u8), (places[1], 8, 2), (places[0], 0, 8)] {
            for i in 0..n {
                let k = from + i;
                let byte = match own {
                    true => Byte::Own(k),
                    false => Byte::Is([x, y][usize::from(k / 8)][usize::from(k % 8)]),
                };
                self.put(place + i32::from(i), byte)?;
            }
        }
        if own {
            self.own = Some(places);
        }
        Some(())
    }

    /// Something is added to the checksum here.
    fn adds(&mut self, behind: bool, at: i32, k: u16, udp: bool) -> Option<()> {
        let which = usize::from(behind);
        let sum = Byte::Sum { behind };
        for at in [at, at + 1] {
            if !matches!(self.get(at)?, b if b == SAME || b == sum) {
                return None;
            }
            self.put(at, sum)?;
        }
        if *self.at[which].get_or_insert(at) != at {
            return None;
        }
        self.net = true;
        // the operands' order of bytes is the wire's, and sums do not mind
        self.sums[which] = sum_of(self.sums[which], k);
        if behind {
            self.behind = (self.behind.0 + 1, self.behind.1 | udp);
        }
        Some(())
    }

    /// What writes all of it to packets that begin here in the end.
    fn rewrite(&self, start: i32) -> Option<WindowRewrite> {
        if self.behind.1 && self.behind.0 > 1 {
            return None;
        }
        let mut w = WindowRewrite::nothing();
        for (i, byte) in (-BEFORE..).zip(self.all) {
            let at = match usize::try_from(i - start) {
                Ok(at) if at < WINDOW => at,
                // what is in front of the packet is not there any more
                Err(_) => continue,
                Ok(_) if byte == SAME => continue,
                Ok(_) => return None,
            };
            (w.keep[at], w.set[at], w.sub[at]) = match byte {
                Byte::Here { keep, set, sub } => (keep, set, sub),
                Byte::Is(x) => (0, x, 0),
                Byte::Own(_) | Byte::Sum { .. } => (0xff, 0, 0),
                Byte::Else => return None,
            };
        }
        let place = |at: i32| usize::try_from(at - start).ok();
        if let Some(own) = self.own {
            let [vars, first, second] = own.map(place);
            w.varies = true;
            (w.vars, w.first) = (At::of(vars?)?, At::of(first?)?);
            w.second = At::of(second?)?;
        }
        let [ip, behind] = self.at.map(|at| at.map(|at| place(at).and_then(At::of)));
        // one that is there has to have its place
        let (ip, behind) = (
            ip.map_or(Some(None), |at| at.map(Some))?,
            behind.map_or(Some(None), |at| at.map(Some))?,
        );
        (w.ip_sum, w.l4_sum) = (ip.unwrap_or(At::LAST), behind.unwrap_or(At::LAST));
        (w.udp, w.no_zero) = (self.behind.1, self.no_zero);
        w.changes = (w.keep, w.set, w.sub) != ([0xff; WINDOW], [0; WINDOW], [0; WINDOW]);
        if !w.arrange((ip, behind)) || !self.own_stands(&w, start) {
            return None;
        }
        if self.own.is_none() {
            w.operands = Operands([0, u64::from(self.sums()) << 32]);
        }
        Some(w)
    }

    /// Does what is the flow's own stand where it was written, and nowhere else?
    fn own_stands(&self, w: &WindowRewrite, start: i32) -> bool {
        (0..WINDOW).all(|i| {
            let own = match self.get(start + i as i32) {
                Some(Byte::Own(k)) => k,
                _ => crate::simd::window_rewrite::NONE,
            };
            w.vars_at[i] == own
        })
    }

    /// What is added to checksums but for the flow's own, as operands have it.
    fn sums(&self) -> u32 {
        u32::from(self.sums[0]) | u32::from(self.sums[1]) << 16
    }
}

impl FlowRunner {
    /// A composed action that packets may go through in place, if all that is written on the way can be written at
    /// once, and nobody is told of each packet: with what is written, and what is counted.
    pub(crate) fn fuse(&self, parts: &[Part], way: &InPlace) -> Option<WholeWay> {
        let first = parts.first()?;
        let cache = self.ingress.get(first.cache as usize)?;
        let l3 = cache.matches.get(usize::from(first.guard))?.shape.l3 as i32;
        let mut bytes = Bytes::new(l3);
        let (mut start, mut sink) = (0, NO_SINK);
        let (mut counted, mut moments) = (Vec::new(), Vec::new());
        let mut fused = Fused {
            asked: [FusedAsk::default(); MAX_ASKED],
            count: 0,
            written: u8::MAX,
            touched: u8::MAX,
            trimmed: u8::MAX,
            own: false,
            idle: false,
            trims: false,
            untimed: false,
            l3: u16::try_from(l3).ok()?,
            start: 0,
            rewrite: 0,
            sink: NO_SINK,
            sums: 0,
        };
        for s in &way.stretches {
            let t = self.actions.templates.get(s.template as usize)?;
            let (w, _) = self.actions.get(s.action)?;
            if t.sink == NO_SINK || !w.waits() || start + t.l3 as i32 != l3 {
                return None;
            }
            let told = w.name.counts.get(w.late.0..).unwrap_or_default();
            moments.extend(told.iter().map(|c| (*c, counted.len())));
            counted.push(FusedPart {
                action: s.action,
                start,
                trimmed: fused.trims,
                site: s.asked.map(|a| a.site),
            });
            if t.trim && !fused.trims {
                (fused.trims, fused.trimmed) = (true, fused.count);
            }
            bytes.net = false;
            bytes.apply(t, start, s.own)?;
            if bytes.net {
                // behind an element that has seen what was written
                if fused.written != u8::MAX && fused.written != fused.count {
                    return None;
                }
                fused.written = fused.count;
            }
            if s.own {
                (fused.own, fused.touched) = (true, fused.count);
                fused.untimed = t.untimed;
            }
            (start, sink) = (start + t.start + i32::from(s.less), t.sink);
            self.asks(s, (start, l3), &mut fused)?;
        }
        if sink & EXIT != 0 {
            return None;
        }
        let rewrite = bytes.rewrite(start)?;
        fused.written = fused.written.min(fused.count);
        fused.idle = rewrite.writes_nothing();
        fused.start = i16::try_from(start).ok()?;
        (fused.sink, fused.sums) = (sink, bytes.sums());
        Some(WholeWay {
            batched: self.may_inspect_batch(&fused),
            way: fused,
            rewrite,
            parts: counted.into(),
            moments,
        })
    }

    /// One more is asked, if one is, of a packet that the next cache looks at from `start` on.
    fn asks(&self, s: &Stretch, (start, l3): (i32, i32), fused: &mut Fused) -> Option<()> {
        let Some(a) = s.asked else { return Some(()) };
        let to = fused.asked.get_mut(usize::from(fused.count))?;
        if start + i32::from(a.l3) != l3 {
            return None;
        }
        *to = FusedAsk {
            node: u16::try_from(a.node).ok()?,
            start: i16::try_from(start + i32::from(a.shift)).ok()?,
            header: u8::try_from(a.header).ok()?,
            protocol: a.protocol,
            hint: a.hint,
        };
        fused.count += 1;
        Some(())
    }
}

#[cfg(test)]
#[path = "fuse_tests.rs"]
mod tests;
