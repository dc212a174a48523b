//! Where the bytes come from that later caches look at: what a template has written, and what it has left as it was.
//!
//! Packets that have one action in a cache come to the next one with bytes that follow from those that they had there.
//! Whether the next cache's answer follows from the first one's can be told byte by byte.

use crate::flow::rewrite_template::RewriteTemplate;
use crate::simd::{At, WINDOW};

/// What a byte of a later window follows from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The byte at this place of the first window, of which bits were kept and set and a number taken off, in turn.
    Byte(usize, Vec<[u8; 3]>),
    /// All packets of the action have it.
    Is(u8),
    /// All packets of the flow have it.
    Flow,
    /// More than that.
    Unknown,
}

impl Origin {
    /// Is it the first window's byte at this place, as it was?
    pub fn same_as(&self) -> Option<usize> {
        match self {
            Origin::Byte(at, done) if done.is_empty() => Some(*at),
            _ => None,
        }
    }

    /// What is done to a byte `x` of the first window.
    pub fn of(done: &[[u8; 3]], x: u8) -> u8 {
        let step = |x: u8, [keep, set, sub]: &[u8; 3]| (x & keep | set).wrapping_sub(*sub);
        done.iter().fold(x, step)
    }

    fn changed(self, keep: u8, set: u8, sub: u8) -> Origin {
        match (self, [keep, set, sub]) {
            (_, [0, ..]) => Origin::Is(set.wrapping_sub(sub)),
            (same, [0xff, 0, 0]) => same,
            (Origin::Byte(at, mut done), step) => {
                done.push(step);
                Origin::Byte(at, done)
            }
            (Origin::Is(x), step) => Origin::Is(Origin::of(&[step], x)),
            (Origin::Flow, _) => Origin::Flow,
            (Origin::Unknown, _) => Origin::Unknown,
        }
    }
}

/// By place in a window.
pub(crate) type Origins = Vec<Origin>;

/// Of the first window itself.
pub(crate) fn first() -> Origins {
    (0..WINDOW).map(|i| Origin::Byte(i, Vec::new())).collect()
}

/// Of the next cache's window: behind this template, where the packet begins `pull` bytes later and is looked at from
/// `shift` bytes before that. `flows`: the template's flows have something of their own.
pub(crate) fn next(
    from: &Origins,
    t: &RewriteTemplate,
    pull: u32,
    shift: i32,
    flows: bool,
) -> Origins {
    let before = |at: i32| {
        let known = usize::try_from(at).ok().and_then(|at| from.get(at));
        known.cloned().unwrap_or(Origin::Unknown)
    };
    let mut written: Origins = (0..WINDOW as i32).map(|at| before(at + t.start)).collect();
    let b = &t.bytes;
    if b.changes {
        for (i, o) in written.iter_mut().enumerate() {
            let was = std::mem::replace(o, Origin::Unknown);
            *o = was.changed(b.keep[i], b.set[i], b.sub[i]);
        }
    }
    let mut put = |at: usize, n: usize, what: Origin| {
        for o in written.iter_mut().skip(at).take(n) {
            *o = what.clone();
        }
    };
    if b.varies {
        let own = if flows { Origin::Flow } else { Origin::Unknown };
        put(b.vars.place(), 8, own.clone());
        put(b.first.place(), 2, own.clone());
        put(b.second.place(), 2, own);
    }
    // nothing is ever added where there is no checksum
    for sum in [b.ip_sum, b.l4_sum] {
        if sum.place() != At::<2>::LAST.place() {
            put(sum.place(), 2, Origin::Unknown);
        }
    }
    for (source, to, bits) in &t.moves {
        let (bit, _) = source.position();
        let whole = (bit | to | i32::from(*bits)) & 7 == 0;
        for i in 0..(i32::from(*bits) + 7 + (to & 7)) / 8 {
            let what = if whole {
                before(bit / 8 + i)
            } else {
                Origin::Unknown
            };
            if let Some(o) = usize::try_from(to / 8 + i)
                .ok()
                .and_then(|at| written.get_mut(at))
            {
                *o = what;
            }
        }
    }
    let behind = |at: i32| match usize::try_from(at) {
        Ok(at) => written.get(at).cloned().unwrap_or(Origin::Unknown),
        // what was taken off the front is still there
        Err(_) => before(at + t.start),
    };
    let first = pull as i32 - shift;
    (0..WINDOW as i32).map(|at| behind(at + first)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::headers::registers::Bits;
    use crate::simd::window_rewrite::Operands;
    use onefold_packet::Packet;
    use proptest::prelude::*;

    proptest! {
        /// What is said of each byte is what the template makes of it.
        #[test]
        fn bytes_come_from_where_it_is_said(
            changed in proptest::collection::vec((0usize..60, any::<u8>(), any::<u8>(), any::<u8>()), 0..12),
            moves in proptest::collection::vec((0i32..100, 0i32..100, 1u8..40), 0..4),
            (start, pull, shift) in (-8i32..20, 0u32..20, 0i32..20),
            vars in proptest::option::of((0usize..40, 0usize..40)),
            sum in proptest::option::of(0usize..60),
            operands: [u64; 2],
            data in proptest::collection::vec(any::<u8>(), 160),
        ) {
            let mut t = RewriteTemplate::nothing();
            t.start = start;
            t.bytes.changes = true;
            for (at, keep, set, sub) in changed {
                let keep = if keep < 90 { 0 } else { keep };
                (t.bytes.keep[at], t.bytes.set[at], t.bytes.sub[at]) = (keep, set & !keep, sub % 4);
            }
            if let Some((a, p)) = vars {
                t.bytes.varies = true;
                t.bytes.vars = At::of(a).unwrap();
                (t.bytes.first, t.bytes.second) = (At::of(p).unwrap(), At::of(p + 2).unwrap());
            }
            if let Some(at) = sum {
                t.bytes.ip_sum = At::of(at).unwrap();
            }
            // nothing is added to what is not there
            let none = if sum.is_none() { 0xffff << 32 } else { 0 } | 0xffff << 48;
            let operands = Operands([operands[0], operands[1] & !none]);
            t.set_moves(moves.iter().map(|(f, to, n)| (Bits::new(*f, *n), *to, *n)).collect());
            t.turn = None;
            let mut p = Packet::from_slice(&data);
            p.pull(30);
            let before = *p.window::<WINDOW>().unwrap();
            t.apply(&mut p, &operands, 60);
            p.pull(pull as usize);
            p.push(shift as usize);
            let after = *p.window::<WINDOW>().unwrap();
            for (i, o) in next(&first(), &t, pull, shift, true).iter().enumerate() {
                match o {
                    Origin::Byte(at, done) => prop_assert_eq!(after[i], Origin::of(done, before[*at]), "{} {:?}", i, o),
                    Origin::Is(x) => prop_assert_eq!(after[i], *x, "{}", i),
                    Origin::Flow | Origin::Unknown => {}
                }
            }
        }
    }
}
