//! Kinds of flows that a rewriter's table can hold, and what packets of both directions look like.
//!
//! Told from the configuration alone: that a packet has such a binding is not said, only that none has another one.
//! Whoever relies on that asks first ([`crate::Element::bind`]): bindings also come from handlers, other elements and
//! earlier configurations, and a packet from 0.0.0.0 to anywhere gets IPAddrRewriter's binding of replies to 0.0.0.0,
//! if there is one.

use super::{BindKind, BindPacket, Binding, Expected, Rewritten, ValueSet};
use crate::Port;

/// A kind of flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FlowKind {
    /// Input at which such flows begin.
    pub input: Port,
    /// What their forward packets get, whatever input they arrive at.
    pub forward: Expected,
    /// Where their replies leave; `None` if they have no bindings of this rewriter.
    pub reply: Option<Port>,
}

/// One direction of a kind of flow: its packets as they arrive, and what becomes of them. Fields are source address,
/// destination address, source port (the identifier of a ping), destination port; what a kind of binding does not look
/// at is anything, and kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowSide {
    /// Input that the flow's first packet came in at.
    pub origin: u16,
    /// Packets of the reply direction.
    pub reply: bool,
    /// Where they leave.
    pub output: u16,
    /// What their fields are when they arrive.
    pub from: [ValueSet; 4],
    /// Which fields stay.
    pub kept: [bool; 4],
    /// What the others become (full sets for those kept).
    pub to: [ValueSet; 4],
}

/// Widths of the fields.
pub const BITS: [u8; 4] = [32, 32, 16, 16];

impl BindKind {
    /// How many of source address, destination address, source port, destination port it rewrites.
    pub fn fields(self) -> usize {
        match self {
            BindKind::Flow => 4,
            BindKind::Addresses => 2,
            BindKind::Ping => 3,
        }
    }

    /// The field of a reply in which it has what stands in this field of a forward packet.
    fn opposite(self, field: usize) -> Option<usize> {
        match (self, field) {
            (_, 0) => Some(1),
            (_, 1) => Some(0),
            (BindKind::Flow, 2) => Some(3),
            (BindKind::Flow, 3) => Some(2),
            (BindKind::Ping, 2) => Some(2),
            _ => None,
        }
    }
}

impl FlowKind {
    /// The forward direction of such flows and, if it has bindings, that of replies. `first` says what the fields of
    /// their first packets are.
    pub fn sides(
        &self,
        kind: BindKind,
        source_only: bool,
        first: &[ValueSet; 4],
    ) -> impl Iterator<Item = FlowSide> {
        let f = &self.forward;
        let rewritten = [&f.saddr, &f.daddr, &f.sport, &f.dport];
        let side = |reply: bool, output: Port| FlowSide {
            origin: u16::try_from(self.input).unwrap_or(u16::MAX),
            reply,
            output: u16::try_from(output).unwrap_or(u16::MAX),
            from: BITS.map(ValueSet::full),
            kept: [true; 4],
            to: BITS.map(ValueSet::full),
        };
        let (mut forward, mut back) = (
            side(false, f.output),
            side(true, self.reply.unwrap_or_default()),
        );
        for i in 0..kind.fields() {
            let Some(o) = kind.opposite(i) else { continue };
            // a packet's field, and the one of the other direction that it comes from
            let asked = !source_only || i == 0;
            if asked {
                forward.from[i] = first[i].clone();
                back.from[o] = match rewritten[i] {
                    Rewritten::Kept => first[i].clone(),
                    Rewritten::To(set) => set.clone(),
                };
            }
            if let Rewritten::To(set) = rewritten[i] {
                forward.kept[i] = false;
                forward.to[i] = set.clone();
                back.kept[o] = false;
                back.to[o] = first[i].clone();
            }
        }
        let back = self.reply.map(|_| back);
        std::iter::once(forward).chain(back)
    }
}

impl FlowSide {
    /// Can this be the packet's binding?
    pub fn fits(&self, kind: BindKind, b: &Binding, p: &BindPacket) -> bool {
        if b.reply != self.reply || b.origin != self.origin || b.output != self.output {
            return false;
        }
        let [s0, s1, d0, d1, i0, i1, ..] = p.head;
        let word = |a: u8, b: u8| u32::from(u16::from_be_bytes([a, b]));
        let sport = match kind {
            BindKind::Ping => word(i0, i1),
            _ => word(s0, s1),
        };
        let old = [p.saddr, p.daddr, sport, word(d0, d1)];
        let new = [b.saddr, b.daddr, b.sport.into(), b.dport.into()];
        (0..kind.fields()).all(|i| {
            self.from[i].contains(old[i].into())
                && match self.kept[i] {
                    true => old[i] == new[i],
                    false => self.to[i].contains(new[i].into()),
                }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(v: u128) -> ValueSet {
        ValueSet::one(v)
    }

    fn napt() -> FlowKind {
        FlowKind {
            input: 2,
            forward: Expected {
                output: 0,
                saddr: Rewritten::To(one(9)),
                daddr: Rewritten::Kept,
                sport: Rewritten::To(ValueSet::range(1024, 2000)),
                dport: Rewritten::Kept,
            },
            reply: Some(1),
        }
    }

    fn sides(kind: BindKind, source_only: bool, first: &[ValueSet; 4]) -> [FlowSide; 2] {
        let all: Vec<FlowSide> = napt().sides(kind, source_only, first).collect();
        all.try_into().unwrap()
    }

    #[test]
    fn replies_of_which_nothing_is_known_have_no_side() {
        let mut kind = napt();
        kind.reply = None;
        let any = BITS.map(ValueSet::full);
        let all: Vec<FlowSide> = kind.sides(BindKind::Flow, false, &any).collect();
        assert!(all.len() == 1 && !all[0].reply);
    }

    #[test]
    fn replies_come_to_where_forward_packets_came_from() {
        let first = [one(1), one(2), ValueSet::range(30, 33), one(4)];
        let [f, r] = sides(BindKind::Flow, false, &first);
        assert_eq!((f.origin, f.reply, f.output), (2, false, 0));
        assert_eq!(f.from, first);
        assert_eq!(f.kept, [false, true, false, true]);
        assert_eq!(f.to[0], one(9));
        assert_eq!((r.origin, r.reply, r.output), (2, true, 1));
        assert_eq!(
            r.from,
            [one(2), one(9), one(4), ValueSet::range(1024, 2000)]
        );
        assert_eq!(r.kept, [true, false, true, false]);
        assert_eq!((&r.to[1], &r.to[3]), (&one(1), &first[2]));
    }

    #[test]
    fn what_a_kind_does_not_look_at_is_anything() {
        let first = [one(1), one(2), one(3), one(4)];
        let any = BITS.map(ValueSet::full);
        let [f, r] = sides(BindKind::Ping, false, &first);
        assert_eq!(f.from, [one(1), one(2), one(3), any[3].clone()]);
        // the identifier stays where it is
        assert_eq!(
            (&r.from[2], &r.to[2]),
            (&ValueSet::range(1024, 2000), &one(3))
        );
        let [f, r] = sides(BindKind::Addresses, true, &first);
        assert_eq!((&f.from[0], &f.from[1]), (&one(1), &any[1]));
        assert_eq!((&r.from[0], &r.from[1]), (&any[0], &one(9)));
        assert_eq!(r.kept, [true, false, true, true]);
    }

    #[test]
    fn a_binding_fits_its_side_only() {
        let any = BITS.map(ValueSet::full);
        let [f, r] = sides(BindKind::Flow, false, &any);
        let p = BindPacket {
            proto: 17,
            saddr: 7,
            daddr: 9,
            head: [0, 53, 4, 4, 0, 8, 0, 0],
            tcp: [0; 2],
            transport_len: 8,
            total_len: 28,
            anno: [0; 48],
        };
        let b = Binding {
            origin: 2,
            reply: true,
            output: 1,
            saddr: 7,
            daddr: 5,
            sport: 53,
            dport: 40,
            ..Binding::default()
        };
        assert!(r.fits(BindKind::Flow, &b, &p) && !f.fits(BindKind::Flow, &b, &p));
        for wrong in [
            Binding { origin: 1, ..b },
            Binding { output: 0, ..b },
            Binding { reply: false, ..b },
            Binding { saddr: 8, ..b },
            Binding { sport: 54, ..b },
        ] {
            assert!(!r.fits(BindKind::Flow, &wrong, &p), "{wrong:?}");
        }
        let elsewhere = BindPacket { daddr: 10, ..p };
        assert!(!r.fits(BindKind::Flow, &b, &elsewhere));
    }
}
