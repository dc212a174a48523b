//! Images held against a naive reading of what they say: bit by bit, word by word.

use crate::harness::build;
use onefold_element::ElemId;
use onefold_element::model::AnnoKey;
use onefold_engine::program::ProgramRunner;
use onefold_packet::{Packet, checksum};
use onefold_synth::program::{
    Action, ActionId, Dim, End, EndAt, Entry, Expr, Filter, Image, Mark, Program, Rule, Stage,
    StageId, SumKind, SumTerm, SumWrite, TypeExpr, Why, Write,
};
use proptest::prelude::*;
use std::sync::Arc;

const TEXT: &str = "FromDevice(a) -> ToDevice(b);";

/// A program of one rule that lets everything leave so.
fn program(image: &Image) -> Program {
    Program {
        elements: vec!["FromDevice@1".into(), "ToDevice@2".into()],
        entries: vec![Entry {
            source: ElemId(0),
            stage: StageId(0),
        }],
        stages: vec![Stage {
            at: (ElemId(0), 0),
            why: Why::Entry,
            fresh: true,
            known: Filter::default(),
            among: Vec::new(),
            rules: vec![Rule {
                filter: Filter::default(),
                action: ActionId(0),
                origin: Vec::new(),
            }],
            actions: vec![Action {
                steps: Vec::new(),
                end: End::Output {
                    sink: ElemId(1),
                    image: Arc::new(image.clone()),
                },
                path: Vec::new(),
            }],
        }],
        ..Program::default()
    }
}

fn apply(image: &Image, data: &[u8]) -> Box<Packet> {
    let mut r = ProgramRunner::with_program(build(TEXT), &program(image)).unwrap();
    r.inject(ElemId(0), data, Default::default());
    let mut out = r.graph_mut().take_transmitted();
    assert_eq!(out.len(), 1);
    assert!(r.graph().totals().balanced());
    out.remove(0).1
}

/// A packet without limits: zeros before and behind.
#[derive(Clone)]
struct Tape<'a>(&'a [u8]);

impl Tape<'_> {
    fn bit(&self, i: i64) -> u128 {
        let at = i.div_euclid(8);
        match usize::try_from(at).ok().and_then(|a| self.0.get(a)) {
            Some(b) => u128::from(b >> (7 - i.rem_euclid(8)) & 1),
            None => 0,
        }
    }
    fn bits(&self, bit: i32, n: u8) -> u128 {
        (0..i64::from(n)).fold(0, |v, i| v << 1 | self.bit(i64::from(bit) + i))
    }
    fn eval(&self, e: Expr, width: u8) -> u128 {
        let cut = |v: u128, n: u8| if n >= 128 { v } else { v & ((1 << n) - 1) };
        match e {
            Expr::Const(v) => cut(v, width),
            Expr::Of(Dim::Bits { bit, bits }, add) => {
                cut(cut(self.bits(bit, bits).wrapping_add(add), bits), width)
            }
            Expr::Of(_, add) => cut(cut((self.0.len() as u128).wrapping_add(add), 32), width),
        }
    }
}

/// The 16-bit word number `w` from byte `origin`, of a field of `bits` bits at `bit` with value `v` in a sea of `rest`.
fn word(bit: i32, bits: u8, origin: i32, w: i32, v: u128, rest: u16) -> u16 {
    (0..16).fold(0, |acc, i| {
        let at = (origin * 8 + w * 16 + i) - bit;
        let one = match (0..i32::from(bits)).contains(&at) {
            true => (v >> (i32::from(bits) - 1 - at) & 1) as u16,
            false => rest >> (15 - i) & 1,
        };
        acc << 1 | one
    })
}

fn expr() -> impl Strategy<Value = Expr> {
    prop_oneof![
        any::<u128>().prop_map(Expr::Const),
        Just(Expr::Const(0)),
        (-40i32..300, 1u8..=128, any::<u128>())
            .prop_map(|(bit, bits, add)| Expr::Of(Dim::Bits { bit, bits }, add)),
        any::<u8>().prop_map(|n| Expr::Of(Dim::Len, u128::from(n))),
    ]
}

/// Disjoint, ascending.
fn writes() -> impl Strategy<Value = Vec<Write>> {
    proptest::collection::vec((0i32..40, 1u8..=128, expr()), 0..6).prop_map(|list| {
        let mut at = -60;
        list.into_iter()
            .map(|(gap, bits, value)| {
                let bit = at + gap;
                at = bit + i32::from(bits);
                Write { bit, bits, value }
            })
            .collect()
    })
}

fn term() -> impl Strategy<Value = SumTerm> {
    (0i32..300, 1u8..=128, expr(), expr()).prop_map(|(bit, bits, from, to)| SumTerm::Change {
        bit,
        bits,
        from,
        to,
    })
}

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(n: u32) -> ProptestConfig {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    ProptestConfig::with_cases(v.unwrap_or(n))
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn fields(data in proptest::collection::vec(any::<u8>(), 0..50), writes in writes(), start in -20i32..30, tail: bool) {
        let end = if tail { EndAt::Ip4(2) } else { EndAt::Same };
        let image = Image { start, end, writes: writes.clone(), ..Image::default() };
        let got = apply(&image, &data);
        let tape = Tape(&data);
        let len = data.len() as i64;
        let stop = match data.get(4..6) {
            Some(b) if tail => (2 + i64::from(b[0]) * 256 + i64::from(b[1])).min(len),
            _ => len,
        };
        let first = i64::from(start).min(stop);
        let want: Vec<u8> = (first..stop).map(|at| {
            (0..8).fold(0u8, |v, i| {
                let bit = at * 8 + i;
                let w = writes.iter().find(|w| (i64::from(w.bit)..i64::from(w.bit) + i64::from(w.bits)).contains(&bit));
                let b = match w {
                    Some(w) => tape.eval(w.value, w.bits) >> (i64::from(w.bit) + i64::from(w.bits) - 1 - bit) & 1,
                    None => tape.bit(bit),
                };
                v << 1 | b as u8
            })
        }).collect();
        prop_assert_eq!(got.data(), &want[..]);
    }

    /// Incremental sums are RFC 1624's, word by word, whatever the other bits of a word are.
    #[test]
    fn sums(
        data in proptest::collection::vec(any::<u8>(), 40..60),
        groups in proptest::collection::vec(proptest::collection::vec(term(), 0..3), 0..4),
        start_value in prop_oneof![Just(0u16), Just(0xffff), any::<u16>()],
        udp: bool,
        header in 0i32..3,
        rest: u16,
    ) {
        let mut data = data;
        data[20..22].copy_from_slice(&start_value.to_be_bytes());
        let kind = if udp { SumKind::Udp } else { SumKind::Tcp };
        let sum = SumWrite { kind, header, at: 20, anew: false, groups: groups.clone() };
        let got = apply(&Image { sums: vec![sum], ..Image::default() }, &data);
        let tape = Tape(&data);
        let mut c = start_value;
        for g in &groups {
            if udp && c == 0 {
                continue;
            }
            for t in g {
                let SumTerm::Change { bit, bits, from, to } = *t else { continue };
                let (from, to) = (tape.eval(from, bits), tape.eval(to, bits));
                let first = (bit - header * 8).div_euclid(16);
                let last = (bit + i32::from(bits) - 1 - header * 8).div_euclid(16);
                for w in first..=last {
                    let of = |v| word(bit, bits, header, w, v, rest);
                    c = checksum::update(c, of(from), of(to));
                }
            }
        }
        prop_assert_eq!(&got.data()[20..22], &c.to_be_bytes());
        data[20..22].copy_from_slice(&c.to_be_bytes());
        prop_assert_eq!(got.data(), &data[..]);
    }

    #[test]
    fn annotations_and_marks(e in expr(), offset in 0u8..33, size in 1u8..=16, cleared: bool, net in -5i32..20) {
        let data: Vec<u8> = (0..60).collect();
        let image = Image {
            cleared,
            annos: vec![(AnnoKey { offset, size }, e)],
            net: Mark::At(net, 20),
            mac: Mark::At(2, 14),
            start: 4,
            packet_type: TypeExpr::Destination(Expr::Of(Dim::Bits { bit: 0, bits: 48 }, 0), Some([0, 1, 2, 3, 4, 5])),
            ..Image::default()
        };
        let got = apply(&image, &data);
        let mut want = [0u8; 48];
        let v = Tape(&data).eval(e, size.saturating_mul(8)).to_be_bytes();
        let (from, n) = (usize::from(offset), usize::from(size));
        want[from..from + n].copy_from_slice(&v[16 - n..]);
        prop_assert_eq!(*got.anno.bytes(), want);
        prop_assert_eq!(got.network_header_offset(), Some(net as isize - 4));
        prop_assert_eq!(got.transport_header_offset(), Some(net as isize + 16));
        prop_assert_eq!(got.mac_header_offset(), Some(-2));
        prop_assert_eq!(got.anno.packet_type, onefold_packet::PacketType::Host);
    }
}

/// An echo message of nothing but zeros has a checksum of all ones, and another one keeps its zero.
#[test]
fn pings_of_zeros() {
    let value = |v| Expr::Const(v);
    let term = |from, to| SumTerm::Change {
        bit: 38 * 8,
        bits: 16,
        from: value(from),
        to: value(to),
    };
    let image = |start, end| Image {
        start,
        end,
        writes: vec![Write {
            bit: 38 * 8,
            bits: 16,
            value: value(0),
        }],
        sums: vec![SumWrite {
            kind: SumKind::Icmp,
            header: 14,
            at: 36,
            anew: false,
            groups: vec![vec![term(7, 5)], vec![term(5, 0)]],
        }],
        ..Image::default()
    };
    let mut data = vec![0; 60];
    data[16..18].copy_from_slice(&[0, 30]);
    data[36..40].copy_from_slice(&[0xff, 0xf8, 0, 7]);
    for start in [0, 14, 34] {
        let got = apply(&image(start, EndAt::Same), &data);
        let at = 36 - start as usize;
        assert_eq!(got.data()[at..at + 4], [0xff, 0xff, 0, 0], "{start}");
    }
    data[59] = 1;
    let got = apply(&image(0, EndAt::Same), &data);
    assert_eq!(got.data()[36..40], [0, 0, 0, 0]);
    // what is cut off is not looked at
    let got = apply(&image(0, EndAt::Ip4(14)), &data);
    assert_eq!(got.data()[36..40], [0xff, 0xff, 0, 0]);
    assert_eq!(got.len(), 44);
}

/// A network header with nothing marked behind it.
#[test]
fn a_mark_alone() {
    let image = Image {
        net: Mark::Alone(3),
        start: 2,
        ..Image::default()
    };
    let got = apply(&image, &[0; 40]);
    assert_eq!(got.network_header_offset(), Some(1));
    assert_eq!(got.transport_header_offset(), None);
}

/// Computed anew: every kind, right over what is written, and left alone where it does not fit.
#[test]
fn sums_computed_anew() {
    use crate::harness::Frame;
    for (proto, kind, at) in [
        (6, SumKind::Tcp, 50),
        (17, SumKind::Udp, 40),
        (1, SumKind::Icmp, 36),
        (6, SumKind::Ip4, 24),
    ] {
        let right = Frame {
            proto,
            ..Frame::default()
        }
        .bytes();
        let mut wrong = right.clone();
        wrong[at as usize] ^= 0x5a;
        let image = Image {
            sums: vec![SumWrite {
                kind,
                header: 14,
                at,
                anew: true,
                groups: Vec::new(),
            }],
            ..Image::default()
        };
        assert_eq!(apply(&image, &wrong).data(), &right[..], "{kind:?}");
        // a total length that lies
        wrong[16] = 0xff;
        if kind != SumKind::Ip4 && kind != SumKind::Udp {
            assert_eq!(apply(&image, &wrong).data(), &wrong[..], "{kind:?}");
        }
        for n in 0..30 {
            assert_eq!(apply(&image, &wrong[..n]).len(), n);
        }
    }
}
