//! Simple changes are what images say.

use super::*;
use crate::program::exec::nat_action;
use crate::program::headers::registers::{Bits, end_of};
use crate::program::rewrite::compiled::Quick;
use crate::program::rewrite::image::Kind;
use crate::program::rewrite::value::FieldWrite;
use onefold_nat::FlowId;
use onefold_packet::Packet;
use onefold_synth::program::Mark;
use proptest::prelude::*;

/// Registers: single bytes at these places, and one that is none.
const PLACES: [i32; 5] = [8, 9, 22, 23, 40];

/// The first register of a binding.
const FIRST: u16 = 6;

/// Its registers, then [`FIRST`] and five more of a binding.
fn sources() -> Vec<Source> {
    let byte = |at: &i32| Source::Bits(Bits::new(at * 8, 8));
    let mut all: Vec<Source> = PLACES.iter().map(byte).collect();
    all.push(Source::Bits(Bits::new(200, 16)));
    all.extend([const { Source::Slot }; 6]);
    all
}

fn constant(v: u64, bytes: u8) -> Value {
    Value {
        reg: CONST,
        add: u128::from(v & (u64::MAX >> (64 - 8 * u32::from(bytes)))),
        mask: u128::MAX,
    }
}

fn of(reg: u16, add: u8) -> Value {
    Value {
        reg,
        add: add.into(),
        mask: 0xff,
    }
}

proptest! {
    /// Whatever is taken apart is what registers and images make of a packet.
    #[test]
    fn as_the_image_says(
        writes in proptest::collection::vec((0u16..11, 0i32..60, 1u8..9, any::<u64>(), any::<u8>()), 0..4),
        sums in proptest::collection::vec(
            (0usize..3, 0i32..62, proptest::collection::vec(proptest::collection::vec((0u16..7, any::<u8>(), 0u8..5, any::<u16>()), 0..3), 0..4)),
            0..3
        ),
        trim: bool,
        mark in prop_oneof![Just(None), (0i32..60, any::<bool>()).prop_map(Some)],
        zero: bool,
        chained: bool,
        bound in prop_oneof![1 => Just(None), 3 => any::<(u32, u32, u16, u16, u16, u16)>().prop_map(Some)],
        data in proptest::collection::vec(any::<u8>(), 30..90),
    ) {
        let sources = sources();
        let writes: Vec<FieldWrite> = writes.into_iter().map(|(reg, at, n, v, add)| match PLACES.get(usize::from(reg)) {
            Some(place) => FieldWrite { bit: place * 8, bits: 8, value: of(reg, add) },
            None if reg == 5 && n == 2 => FieldWrite { bit: at * 8, bits: 16, value: Value { reg, add: 0, mask: 0xffff } },
            None if reg > 6 && bound.is_some() => {
                let bits = if reg < 9 { 32 } else { 16 };
                let value = Value { reg: reg - 7 + FIRST, add: 0, mask: (1 << bits) - 1 };
                FieldWrite { bit: at * 8, bits, value }
            }
            None => FieldWrite { bit: at * 8, bits: n * 8, value: constant(v, n) },
        }).collect();
        let kinds = [SumKind::Ip4, SumKind::Tcp, SumKind::Udp];
        let mut last = 7u8;
        let sums: Vec<Sum> = sums.into_iter().map(|(kind, at, groups)| Sum {
            kind: kinds[kind],
            header: 14,
            at,
            anew: false,
            groups: groups.into_iter().map(|g| g.into_iter().map(|(reg, to, what, v)| match what {
                0 => Term::Fixed(u64::from(v) * 3),
                3 | 4 if bound.is_some() => Term::Slot(FIRST + 1 + u16::from(what)),
                _ => {
                    let (from, reg) = if chained { (last, 2) } else { (to.wrapping_add(1), reg.min(4)) };
                    last = to;
                    let bit = PLACES[usize::from(reg)] * 8;
                    Term::change(bit, 8, 0, of(reg, from), of(reg, to))
                }
            }).collect()).collect(),
        }).collect();
        let m = Image {
            start: 0,
            end: if trim { EndAt::Ip4(14) } else { EndAt::Same },
            quick: Quick::of(0, &writes, &sums),
            writes: writes.into(),
            net: if mark.is_some() { Mark::At(14, 20) } else { Mark::Same },
            mac: match mark {
                Some((at, true)) => Mark::Alone(at),
                _ => Mark::Same,
            },
            cleared: false,
            annos: Box::default(),
            kind: Kind::Same,
            tuple: None,
            sums: sums.into(),
        };
        let Some(w) = Write::of(&sources, &m, 0, bound.map(|_| FIRST)) else {
            return Ok(());
        };
        let mut p = Packet::from_slice(&data);
        if zero && let Some(s) = m.sums.first() && let Some(to) = p.data_mut().get_mut(s.at as usize..s.at as usize + 2) {
            to.fill(0);
        }
        let end = end_of(m.end, p.buffer(), p.data_offset()) as usize;
        if end < w.least {
            return Ok(());
        }
        let mut slow = p.clone();
        let mut regs: Vec<u128> = sources.iter().map(|s| match s {
            Source::Bits(b) => b.read(p.buffer(), p.data_offset()),
            _ => 0,
        }).collect();
        let binding = bound.map(|(saddr, daddr, sport, dport, ip_sum, transport_sum)| FlowBinding {
            to: FlowId { saddr, daddr, sport, dport },
            ip_sum,
            transport_sum,
        });
        if let Some(b) = &binding {
            regs.truncate(usize::from(FIRST));
            regs.extend(nat_action::slots(b).map(u128::from));
        }
        m.apply(&mut slow, &regs, &[]);
        if w.trim {
            p.keep(end);
        }
        match &binding {
            Some(b) => w.apply_bound(p.window_mut().unwrap(), b),
            None => w.apply(p.window_mut().unwrap()),
        }
        prop_assert_eq!(w.marks, mark.map(|_| 0));
        prop_assert_eq!(w.headers.is_some(), matches!(mark, Some((_, true))));
        match w.headers {
            Some([mac, net, transport]) => p.set_headers(mac, net, transport),
            None => m.mark(&mut p, &[], &[]),
        }
        prop_assert_eq!(p.data(), slow.data());
        let places = |p: &Packet| {
            (p.mac_header_offset(), p.network_header_offset(), p.transport_header_offset())
        };
        prop_assert_eq!(places(&p), places(&slow));
    }
}

#[test]
fn a_router_s_change_is_simple() {
    let sources = sources();
    let ttl = |from, to| Term::change(22 * 8, 8, 0, of(2, from), of(2, to));
    let sums = [Sum {
        kind: SumKind::Ip4,
        header: 14,
        at: 24,
        anew: false,
        groups: [[ttl(0, 255)], [ttl(255, 254)]]
            .map(|g| Box::from(&g[..]))
            .into(),
    }];
    let m = ChecksumUpdate::of(&sources, &sums[0], None).unwrap();
    let once = Change {
        at: 22,
        from: 0,
        to: 254,
        shift: 8,
    };
    assert_eq!(&m.changes[..], [once], "one difference of two");
    let udp = Sum {
        kind: SumKind::Udp,
        ..sums[0].clone()
    };
    assert_eq!(
        ChecksumUpdate::of(&sources, &udp, None),
        None,
        "it may come to zero between"
    );
}

proptest! {
    /// Fields that change places, of any length, are what registers and images make of them.
    #[test]
    fn fields_change_places(
        fields in proptest::collection::vec((0i32..50, 0i32..50, 1u8..=8), 1..4),
        data in proptest::collection::vec(any::<u8>(), 40..90),
    ) {
        let sources: Vec<Source> = fields.iter().map(|(from, _, n)| Source::Bits(Bits::new(from * 8, n * 8))).collect();
        let write = |(reg, (_, to, n)): (usize, &(i32, i32, u8))| FieldWrite {
            bit: to * 8,
            bits: n * 8,
            value: Value { reg: reg as u16, add: 0, mask: u128::MAX >> (128 - u32::from(*n) * 8) },
        };
        let writes: Vec<FieldWrite> = fields.iter().enumerate().map(write).collect();
        let m = Image {
            start: 0,
            end: EndAt::Same,
            quick: Quick::of(0, &writes, &[]),
            writes: writes.into(),
            net: Mark::Same,
            mac: Mark::Same,
            cleared: false,
            annos: Box::default(),
            kind: Kind::Same,
            tuple: None,
            sums: Box::default(),
        };
        let Some(w) = Write::of(&sources, &m, 0, None) else {
            // they overlap, or one stays where it is
            return Ok(());
        };
        let mut p = Packet::from_slice(&data);
        if p.len() < w.least {
            return Ok(());
        }
        let mut slow = p.clone();
        let regs: Vec<u128> = sources.iter().map(|s| match s {
            Source::Bits(b) => b.read(p.buffer(), p.data_offset()),
            _ => 0,
        }).collect();
        m.apply(&mut slow, &regs, &[]);
        w.apply(p.window_mut().unwrap());
        prop_assert_eq!(p.data(), slow.data());
    }
}
