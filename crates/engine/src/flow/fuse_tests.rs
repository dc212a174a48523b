use super::*;
use crate::program::headers::registers::Bits;
use onefold_packet::Packet;
use proptest::prelude::*;

/// Where the IP header is in packets as they come, and what stands behind it.
const L3: i32 = 18;
const IP_SUM: i32 = L3 + 10;
const TTL: i32 = L3 + 8;
const L4: i32 = L3 + 20;
const BEHIND: i32 = L4 + 6;

/// One template of several: by how much packets begin later, and what is done to them.
#[derive(Debug, Clone)]
struct Step {
    start: i32,
    /// Bytes in front of the IP header, from the packet's beginning on.
    front: Vec<(usize, u8, u8)>,
    ttl: u8,
    sums: [u16; 2],
    varies: bool,
    moves: bool,
}

impl Step {
    /// The template, for packets that begin here.
    fn template(&self, start: i32, udp: bool) -> RewriteTemplate {
        let at = |place: i32| (place - start - self.start) as usize;
        let mut t = RewriteTemplate::nothing();
        (t.start, t.sink, t.bytes.udp) = (self.start, 1, udp);
        for (place, keep, set) in &self.front {
            // nothing but what is in front of the header
            let place = place % at(L3);
            (t.bytes.keep[place], t.bytes.set[place]) = (*keep, set & !keep);
        }
        t.bytes.sub[at(TTL)] = self.ttl;
        let [ip, behind] = self.sums;
        let (ip_at, behind_at) = (At::of(at(IP_SUM)), At::of(at(BEHIND)));
        let mut operands = u64::from(ip) << 32 | u64::from(behind) << 48;
        if ip != 0 {
            t.bytes.ip_sum = ip_at.unwrap();
        }
        if behind != 0 {
            t.bytes.l4_sum = behind_at.unwrap();
        }
        if self.varies {
            t.bytes.varies = true;
            t.bytes.vars = At::of(at(L3 + 12)).unwrap();
            t.bytes.first = At::of(at(L4)).unwrap();
            t.bytes.second = At::of(at(L4 + 2)).unwrap();
            operands |= 0x1234_5678;
        }
        t.bytes.operands = Operands([0x0102_0304_0506_0708, operands]);
        t.bytes.changes = true;
        let moves = match self.moves {
            // addresses that change places
            true => vec![(Bits::new(0, 48), 48, 48), (Bits::new(48, 48), 0, 48)],
            false => Vec::new(),
        };
        t.quick = self.start == 0 && moves.is_empty();
        t.set_moves(moves);
        let place = |k: u16, at: Option<At<2>>| at.filter(|_| k != 0);
        if !t
            .bytes
            .arrange((place(ip, ip_at), place(behind, behind_at)))
        {
            (t.quick, t.turn) = (false, None);
        }
        t
    }
}

fn step() -> impl Strategy<Value = Step> {
    let byte = || proptest::sample::select(vec![0, 0, 0xff, 0xf0, 0x3c]);
    let front = proptest::collection::vec((0usize..14, byte(), any::<u8>()), 0..6);
    let sum = || proptest::sample::select(vec![0, 0, 1, 0xfffe, 0xffff, 0x1234]);
    (
        proptest::sample::select(vec![0, 0, -4, 4, 14]),
        front,
        0u8..3,
        [sum(), sum()],
        any::<bool>(),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(start, front, ttl, sums, varies, moves)| Step {
            start,
            front,
            ttl,
            sums,
            varies,
            moves,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// What is written at once is what templates write one after the other: tags and headers put on and taken off,
    /// times to live, addresses and ports, checksums of UDP and others that are none, or come to none.
    #[test]
    fn at_once_as_one_by_one(
        steps in proptest::collection::vec(step(), 1..5),
        own in 0usize..6,
        udp: bool,
        checksum in proptest::sample::select(vec![0, 1, 0xfffe, 0xffff, 0x1234, 0x1235, 0x1233]),
        operands: [u64; 2],
        data in proptest::collection::vec(any::<u8>(), 160),
    ) {
        let mut bytes = Bytes::new(L3);
        let mut want = Packet::from_slice(&data);
        want.pull(20);
        let at = BEHIND as usize;
        want.data_mut()[at..at + 2].copy_from_slice(&u16::to_ne_bytes(checksum));
        let mut got = want.clone();
        let (mut start, mut told, mut owner) = (0, true, None);
        // nothing is added where there is no checksum
        let own_of = |s: &Step| {
            let none = |k: u16, by: u32| if k == 0 { 0xffff << by } else { 0 };
            let [a, b] = operands;
            Operands([a, b & !none(s.sums[0], 32) & !none(s.sums[1], 48)])
        };
        for (i, step) in steps.iter().enumerate() {
            if start + step.start > L3 - 2 || start + step.start < -16 {
                continue;
            }
            let t = step.template(start, udp);
            let own = own == i;
            told &= bytes.apply(&t, start, own).is_some();
            let operands = match own {
                true => own_of(owner.insert(step)),
                false => t.bytes.operands,
            };
            t.apply(&mut want, &operands, 100);
            start += step.start;
        }
        let rewrite = bytes.rewrite(start).filter(|_| told);
        if let Some(rewrite) = rewrite {
            let operands = match owner {
                Some(s) => own_of(s).with_sums(bytes.sums()),
                None => rewrite.operands,
            };
            match start {
                n if n > 0 => got.pull(n as usize),
                n => got.push(n.unsigned_abs() as usize),
            }
            let w = got.window_mut().unwrap();
            rewrite.write(*w, w, &operands);
            prop_assert_eq!(want.data(), got.data());
        } else {
            // moved, not understood, or UDP's changed twice
            let twice = bytes.behind.1 && bytes.behind.0 > 1;
            let fields = steps.iter().any(|s| s.moves || s.front.iter().any(|f| f.1 != 0 && f.1 != 0xff));
            let varies = steps.iter().filter(|s| s.varies).count() > 1;
            prop_assert!(twice || fields || varies, "{:?}", steps);
        }
    }
}

#[test]
fn bytes_that_are_changed_twice() {
    for (steps, then) in [
        (
            vec![(0xf0, 0x05, 0), (0x3c, 0x40, 0)],
            Some((0x30, 0x44, 0)),
        ),
        (vec![(0xff, 0, 1), (0xff, 0, 2)], Some((0xff, 0, 3))),
        (vec![(0xff, 0, 1), (0x0f, 0, 0)], None),
    ] {
        let byte = (steps.iter()).fold(SAME, |b, (k, s, n)| b.changed(*k, *s, *n));
        let want = then.map_or(Byte::Else, |(keep, set, sub)| Byte::Here { keep, set, sub });
        assert_eq!(byte, want, "{steps:?}");
    }
    assert_eq!(Byte::Is(7).changed(0x0f, 0x10, 1), Byte::Is(0x16));
}
