//! Binders, alone and in floods.

use super::*;
use crate::record::{CLASSES, Counts, Member, Timeout, Track};
use onefold_packet::wire::tcp::flag;
use onefold_state::ElemId;
use onefold_state::State;
use proptest::prelude::*;

proptest! {
    /// What is wanted of any flow is wanted of each.
    #[test]
    fn what_is_always_wanted_is_wanted(
        set in any::<[bool; 4]>(),
        (saddr, sport, daddr, dport, top) in (1u32.., 1u16..60_000, 1u32.., 1u16.., 0u32..200),
        fields in proptest::collection::vec(proptest::option::of((0u32..3, 0u32..3)), 4),
        flow in any::<(u32, u32, u16, u16)>(),
    ) {
        let of = |i: usize, v: u32| if set[i] { v } else { 0 };
        let pattern = Pattern {
            saddr: of(0, saddr),
            sport: of(2, sport.into()) as u16,
            daddr: of(1, daddr),
            dport: of(3, dport.into()) as u16,
            top: if set[2] { top } else { 0 },
            ports: true,
            sequential: false,
            same_first: true,
            next: 0,
        };
        let flow = FlowId { saddr: flow.0, daddr: flow.1, sport: flow.2, dport: flow.3 };
        let (least, most) = pattern.ends(flow);
        // about what comes out: less, as much, or more
        let near = |i: usize, (lo, hi): (u32, u32)| {
            let (a, b) = (super::fields(&least)[i], super::fields(&most)[i]);
            (a.saturating_add(lo).saturating_sub(1), b.saturating_add(hi).saturating_sub(1))
        };
        let mut wanted = Wanted { output: 0, fields: [None; 4] };
        for (i, (to, f)) in wanted.fields.iter_mut().zip(fields).enumerate() {
            *to = f.map(|f| near(i, f));
        }
        if pattern.always_wanted(&wanted) {
            prop_assert!(wanted.takes(&flow, &least, &most));
        }
        // that a field that is set has to be what it is set to is enough
        let all = (0..4).all(|i| match wanted.fields[i] {
            None => !set[i],
            Some(_) => set[i],
        });
        if all {
            prop_assert_eq!(pattern.always_wanted(&wanted), wanted.takes(&flow, &least, &most));
        }
    }
}
/// A table of one rewriter, whose flows time out after so many milliseconds by class.
fn table(capacity: u32, expire: &[u64]) -> FlowTable {
    let mut t = FlowTable::new();
    t.add_member(Member {
        elem: ElemId(0),
        kind: RewriterKind::Ip,
        specs: Vec::new(),
        timeouts: std::array::from_fn(|i| Timeout {
            expire: expire[i],
            guarantee: 0,
        }),
        track: [Track::Tcp, Track::Udp(3)],
        noutputs: 2,
        take_over: true,
        endpoints: false,
        reserved: Vec::new(),
        handshake: false,
        inputs: vec![Counts::default()],
    });
    t.set_capacity(capacity);
    t
}

fn binder<'s>(table: &'s mut FlowTable, pattern: &'s mut Pattern) -> Binder<'s> {
    Binder {
        filling: pattern.filling(),
        table,
        new: Some((pattern, 0, 1)),
        kind: RewriterKind::Ip,
        take_over: true,
        endpoints: false,
        acks: 0,
        map: 0,
        port: 0,
        moment: (Timestamp::ZERO, 0),
        sure: [0; SURE],
    }
}

proptest! {
    /// New flows that are made together are those that are made one after the other, whoever else comes, is known,
    /// finds its port taken, or has to go.
    #[test]
    fn a_flood_is_one_after_the_other(
        capacity in prop_oneof![1u32..150, 100u32..600], top in 0u32..3000,
        expire in proptest::collection::vec(10u64..13, CLASSES),
        batches in proptest::collection::vec(
            (0i64..3, proptest::collection::vec((0u32..200, 0u32..3, 0u16..60, any::<bool>(), any::<u8>(), 0u8..9), 1..COLUMNS)),
            1..24,
        ),
    ) {
        let pattern = Pattern {
            saddr: 0x0100_0001,
            sport: 1024,
            daddr: 0,
            dport: 0,
            top: top + 1,
            ports: true,
            sequential: false,
            same_first: true,
            next: 0,
        };
        let port = |p: u32| p.min(0xffff);
        let wanted = Wanted {
            output: 0,
            fields: [Some((pattern.saddr, pattern.saddr)), None, Some((1024, port(1025 + top))), None],
        };
        let mut tables = [table(capacity, &expire), table(capacity, &expire)];
        tables[1].hash_key = tables[0].hash_key;
        let mut patterns = [pattern; 2];
        let mut draws = [0u32; 2];
        let mut draw = |of: usize| {
            draws[of] = draws[of].wrapping_mul(0x9e37_79b9).wrapping_add(12345);
            draws[of]
        };
        let mut now = 1_000_000_000i64;
        let mut together = 0;
        for (step, packets) in &batches {
            now += step * 500_000;
            let now = Timestamp(now);
            let mut c = Columns::default();
            for (i, (host, to, port, udp, control, odd)) in packets.iter().enumerate() {
                c.put(i, (*odd != 0).then_some(FlowPacket {
                    proto: if *udp { 17 } else { 6 },
                    flow: FlowId { saddr: 0x0a00_0000 + host, daddr: 0x0900_0000 + to, sport: 1020 + port, dport: 80 },
                    tcp: [0x50, *control],
                    transport_len: 26,
                    total_len: if *odd == 1 { 60 } else { 40 },
                }));
            }
            let [one, other] = &mut tables;
            let [first, second] = &mut patterns;
            let (mut all, mut each) = (binder(one, first), binder(other, second));
            all.table.flood = true;
            prop_assert!(all.always_as_wanted(&wanted));
            let rows = packets.chunks(ROW).enumerate();
            rows.fold(0, |new, (row, some)| new + all.ask_row(&mut c, row, some.len(), new));
            let mut i = 0;
            while i < packets.len() {
                let made = all.bind_new(&c, i, packets.len() - i, now);
                together += made;
                for j in i..i + made {
                    let a = c.get(j);
                    prop_assert!(a.is_some());
                    let Some(a) = a else { continue };
                    let tied = each.bind(&a, &wanted, now, || draw(1));
                    prop_assert_eq!(tied, BindAnswer::To(c.binding(j)));
                }
                i += made;
                if let Some(a) = c.get(i).filter(|_| made == 0) {
                    let tied = all.bind(&a, &wanted, now, || draw(0));
                    prop_assert_eq!(tied, each.bind(&a, &wanted, now, || draw(1)));
                }
                i += usize::from(made == 0);
            }
            prop_assert_eq!(tables[0].summary(), tables[1].summary());
            prop_assert_eq!(tables[0].evictions(), tables[1].evictions());
            prop_assert_eq!(patterns[0], patterns[1]);
        }
        // the first flows of all are new, and find room, unless they are odd; by chance both places of one may be in
        // one bucket
        let new = batches[0].1.iter().filter(|p| p.5 != 0 && (4..4 + top as u16).contains(&p.2));
        let flows: std::collections::HashSet<_> = new.map(|p| (p.0, p.1, p.2, p.3)).collect();
        prop_assert!(together > 0 || flows.len() < 8 || capacity < 100);
    }
}

/// A flow that is its own reply, and closed by the packet that makes it, takes another one's place as if it were open:
/// what it has become is found out when it is there.
#[test]
fn one_that_is_its_own_reply_and_closed_finds_a_place() {
    let mut pattern = Pattern {
        saddr: 0x0100_0001,
        sport: 0,
        daddr: 0,
        dport: 0,
        top: 0,
        ports: true,
        sequential: false,
        same_first: true,
        next: 0,
    };
    let wanted = Wanted {
        output: 0,
        fields: [Some((0x0100_0001, 0x0100_0001)), None, None, None],
    };
    // closed ones time out first
    let mut t = table(1, &[1000, 1000, 10, 1000, 1000]);
    let now = Timestamp(1_000_000_000);
    for (saddr, daddr, port, control) in [
        (0x0a00_0001, 0x0900_0001, 80, flag::SYN),
        (0x0100_0001, 0x0100_0001, 7, flag::RST),
    ] {
        let mut b = binder(&mut t, &mut pattern);
        let flow = FlowId {
            saddr,
            daddr,
            sport: 7,
            dport: port,
        };
        let asked = b.ask(FlowPacket {
            proto: 6,
            flow,
            tcp: [0x50, control],
            transport_len: 26,
            total_len: 40,
        });
        let tied = asked.map(|a| b.bind(&a, &wanted, now, || 0));
        assert!(matches!(tied, Some(BindAnswer::To(_))), "{tied:?}");
        assert!(t.lookup(0, &flow).is_some());
    }
    assert_eq!((t.len(), t.evictions()), (1, 1));
}

/// A flood's flow that is alone in its queue may be the next to go: what a search has found out before does not hold
/// any more.
#[test]
fn one_that_comes_alone_ends_a_turn() {
    let mut pattern = Pattern {
        saddr: 0x0100_0001,
        sport: 1024,
        daddr: 0,
        dport: 0,
        top: 1000,
        ports: true,
        sequential: false,
        same_first: true,
        next: 0,
    };
    // TCP flows time out first
    let mut t = table(4, &[10, 1000, 1000, 1000, 1000]);
    let now = Timestamp(1_000_000_000);
    let mut come = |t: &mut FlowTable, port: u16, proto: u8| {
        let mut c = Columns::default();
        let flow = FlowId {
            saddr: 0x0a00_0001,
            daddr: 0x0900_0001,
            sport: 1024 + port,
            dport: 80,
        };
        c.put(
            0,
            Some(FlowPacket {
                proto,
                flow,
                tcp: [0x50, 0x02],
                transport_len: 26,
                total_len: 40,
            }),
        );
        let mut b = binder(t, &mut pattern);
        b.ask_row(&mut c, 0, 1, 0);
        let made = b.bind_new(&c, 0, 1, now);
        // whom a flood leaves is bound as ever
        let wanted = Wanted {
            output: 0,
            fields: [
                Some((0x0100_0001, 0x0100_0001)),
                None,
                Some((0, 0xffff)),
                None,
            ],
        };
        if let Some(a) = c.get(0).filter(|_| made == 0) {
            let tied = b.bind(&a, &wanted, now, || 0);
            assert!(matches!(tied, BindAnswer::To(_)), "{tied:?}");
        }
        (u16::from(proto == 17), flow)
    };
    for port in 0..6 {
        come(&mut t, port, 17);
    }
    assert!(t.full() && t.evictions() == 2);
    t.set_capacity(5);
    let (map, tcp) = come(&mut t, 10, 6);
    assert!(t.full() && t.lookup(map, &tcp).is_some());
    come(&mut t, 11, 17);
    assert_eq!((t.len(), t.lookup(map, &tcp)), (5, None));
}
