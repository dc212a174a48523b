//! `bind` against `push`: two nets see the same packets; in one the rewriter is pushed into, in the other it is asked
//! for the binding, which is then written into the packet here. In a third one a binder is asked first.

use super::nets::NETS;
use super::*;
use onefold_element::model::{
    BindKind, BindPacket, Binding, Bound, DstAnno, Exit, Expected, Model, ModelCx, Rewritten,
};
use onefold_nat::{BindAnswer, COLUMNS, Columns, FlowId, FlowPacket, ROW, Wanted};
use proptest::prelude::*;

/// What is done to both nets.
#[derive(Debug, Clone)]
enum Step {
    /// A packet of one of a few flows.
    Packet(Port, Shape),
    /// The answer to a packet that has left, by index, with this shape's protocol details.
    Answer(Port, usize, Shape),
    /// Milliseconds pass.
    Wait(u32),
    Sweep,
}

#[derive(Debug, Clone)]
struct Shape {
    flow: [u8; 4],
    proto: u8,
    flags: u8,
    payload: u8,
    /// Wrong or missing checksum, odd lengths, another destination annotation, other fragments.
    twist: u8,
}

fn shape() -> impl Strategy<Value = Shape> {
    let flags = prop_oneof![
        Just(0x10u8),
        Just(2),
        Just(0x12),
        Just(0x11),
        Just(4),
        any::<u8>()
    ];
    let proto =
        prop_oneof![4 => Just(6u8), 4 => Just(17), 2 => Just(1), 1 => Just(33), 1 => Just(47)];
    (
        prop::array::uniform4(0u8..3),
        proto,
        flags,
        0u8..3,
        prop_oneof![12 => Just(0u8), 1 => 1u8..12],
    )
        .prop_map(|(flow, proto, flags, payload, twist)| Shape {
            flow,
            proto,
            flags,
            payload,
            twist,
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0usize..2, shape()).prop_map(|(p, s)| Step::Packet(p, s)),
        5 => (0usize..2, any::<prop::sample::Index>(), shape())
            .prop_map(|(p, i, s)| Step::Answer(p, i.index(1 << 20), s)),
        1 => prop_oneof![Just(1u32), Just(4_999), Just(5_001), Just(60_000), 0u32..700_000].prop_map(Step::Wait),
        1 => Just(Step::Sweep),
    ]
}

type Ends = ([u8; 4], u16, [u8; 4], u16);

fn packet(s: &Shape, (src, sport, dst, dport): Ends, answer: bool) -> Pkt {
    let show = |a: [u8; 4]| std::net::Ipv4Addr::from(a).to_string();
    let (src, dst) = (show(src), show(dst));
    let payload = &b"abc"[..usize::from(s.payload)];
    let mut p = match s.proto {
        6 => tcp_packet((&src, sport), (&dst, dport), s.flags, payload),
        17 | 33 => {
            let mut p = udp_packet((&src, sport), (&dst, dport), payload);
            if s.proto == 33 {
                p.network_mut().unwrap()[9] = 33;
            }
            p
        }
        1 => {
            let id = sport.to_be_bytes();
            let kind = if answer { 0 } else { 8 };
            icmp_packet(&src, &dst, kind, [id[0], id[1], 0, s.flags & 1], payload)
        }
        _ => ip_packet(&src, &dst, s.proto, b"whatever"),
    };
    let dst_ip: std::net::Ipv4Addr = dst.parse().unwrap();
    p.anno.set_dst_ip(dst_ip.octets());
    p.anno.set_paint(s.flags);
    let at = match s.proto {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    match s.twist {
        1 => p.transport_mut().unwrap()[at..at + 2].fill(0),
        2 => p.transport_mut().unwrap()[at..at + 2].fill(0xff),
        3 => p.network_mut().unwrap()[10..12].fill(0xff),
        4 => p.network_mut().unwrap()[10..12].fill(0),
        5 => p.transport_mut().unwrap()[at] ^= 0x55,
        6 => p.anno.set_dst_ip([9, 9, 9, 9]),
        // the last fragment of something
        7 => p.network_mut().unwrap()[7] = 3,
        // the first one
        8 => p.network_mut().unwrap()[6] = 0x20,
        9 => p.take(usize::from(s.payload) + 1),
        10 => p.take(p.transport().map_or(0, |t| t.len().min(16))),
        11 => p
            .transport_mut()
            .unwrap()
            .iter_mut()
            .skip(12)
            .for_each(|b| *b |= 0x70),
        _ => {}
    }
    p
}

/// Addresses and ports of a packet that has left, seen from the other end.
fn ends_of_answer(p: &Packet) -> (u8, Ends) {
    let h = ipv4::Header::parse(p.network().unwrap()).unwrap();
    let t = p.transport().unwrap_or(&[]);
    let word = |at: usize| {
        t.get(at..at + 2)
            .map_or(0, |b| u16::from_be_bytes([b[0], b[1]]))
    };
    let ports = match h.protocol() {
        1 => (word(4), 0),
        _ => (word(2), word(0)),
    };
    (h.protocol(), (h.dst(), ports.0, h.src(), ports.1))
}

fn asked(p: &Packet) -> BindPacket {
    let h = ipv4::Header::parse(p.network().unwrap()).unwrap();
    let t = p.transport().unwrap_or(&[]);
    let mut b = BindPacket {
        proto: h.protocol(),
        saddr: u32::from_be_bytes(h.src()),
        daddr: u32::from_be_bytes(h.dst()),
        head: [0; 8],
        tcp: [0; 2],
        transport_len: t.len(),
        total_len: h.total_len(),
        anno: *p.anno.bytes(),
    };
    let n = t.len().min(8);
    b.head[..n].copy_from_slice(&t[..n]);
    if let Some(c) = t.get(12..14) {
        b.tcp.copy_from_slice(c);
    }
    b
}

fn add(b: &mut [u8], at: usize, x: u16) {
    if x != 0 {
        let sum = u16::from_be_bytes([b[at], b[at + 1]]);
        let new = !checksum::fold(u64::from(!sum) + u64::from(x));
        b[at..at + 2].copy_from_slice(&new.to_be_bytes());
    }
}

/// Writes a binding, as the documentation of [`Binding`] says.
fn write(p: &mut Packet, b: &Binding, kind: BindKind, dst_anno: DstAnno) {
    let proto = ipv4::Header::parse(p.network().unwrap())
        .unwrap()
        .protocol();
    let ip = p.network_mut().unwrap();
    ip[12..16].copy_from_slice(&b.saddr.to_be_bytes());
    ip[16..20].copy_from_slice(&b.daddr.to_be_bytes());
    add(ip, 10, b.ip_sum);
    let t = p.transport_mut().unwrap();
    match kind {
        BindKind::Flow => {
            t[0..2].copy_from_slice(&b.sport.to_be_bytes());
            t[2..4].copy_from_slice(&b.dport.to_be_bytes());
        }
        BindKind::Ping => t[4..6].copy_from_slice(&b.sport.to_be_bytes()),
        BindKind::Addresses => {}
    }
    match (kind, proto) {
        (BindKind::Ping, _) => {
            add(t, 2, b.transport_sum);
            if t.iter().all(|b| *b == 0) {
                t[2..4].fill(0xff);
            }
        }
        (_, 6) => add(t, 16, b.transport_sum),
        (_, 17) if t[6..8] != [0, 0] => add(t, 6, b.transport_sum),
        _ => {}
    }
    if dst_anno == DstAnno::Rewritten || dst_anno == DstAnno::OfReplies && b.reply {
        p.anno.set_dst_ip(b.daddr.to_be_bytes());
    }
    if let Some((at, v)) = b.anno {
        p.anno.set_u8(usize::from(at), v);
    }
}

fn within(r: &Rewritten, old: u32, new: u32) -> bool {
    match r {
        Rewritten::Kept => old == new,
        Rewritten::To(s) => s.contains(new.into()),
    }
}

fn check_expected(e: &Expected, b: &Binding, p: &BindPacket, kind: BindKind) {
    assert_eq!(e.output, usize::from(b.output));
    assert!(within(&e.saddr, p.saddr, b.saddr), "{e:?} {b:?}");
    assert!(within(&e.daddr, p.daddr, b.daddr), "{e:?} {b:?}");
    let word = |at: usize| u32::from(u16::from_be_bytes([p.head[at], p.head[at + 1]]));
    match kind {
        BindKind::Flow => {
            assert!(within(&e.sport, word(0), b.sport.into()), "{e:?} {b:?}");
            assert!(within(&e.dport, word(2), b.dport.into()), "{e:?} {b:?}");
        }
        BindKind::Ping => assert!(within(&e.sport, word(4), b.sport.into()), "{e:?} {b:?}"),
        BindKind::Addresses => {}
    }
}

impl Net {
    fn model_of(&self, name: &str, port: Port) -> Model {
        let i = self.names.iter().position(|n| n == name).unwrap();
        let cx = ModelCx {
            elem: ElemId(i as u32),
            ninputs: self.ports[i].0,
            noutputs: self.ports[i].1,
            store: &self.store,
        };
        self.elements[i].model(port, &cx)
    }
}

/// What a program would want of a binder; `None` where it would not ask one.
fn wanted(e: &Expected) -> Option<Wanted> {
    let field = |r: &Rewritten| match r {
        Rewritten::Kept => Some(None),
        Rewritten::To(s) => match *s.intervals() {
            [(lo, hi)] => Some(Some((lo as u32, hi as u32))),
            _ => None,
        },
    };
    Some(Wanted {
        output: e.output as u16,
        fields: [
            field(&e.saddr)?,
            field(&e.daddr)?,
            field(&e.sport)?,
            field(&e.dport)?,
        ],
    })
}

/// A binder's answer, as far as it has one.
fn tie(
    net: &mut Net,
    port: Port,
    p: &BindPacket,
    wanted: &Wanted,
    flooded: &mut usize,
) -> Option<Bound> {
    let word = |at: usize| u16::from_be_bytes([p.head[at], p.head[at + 1]]);
    let flow = FlowPacket {
        proto: p.proto,
        flow: FlowId {
            saddr: p.saddr,
            daddr: p.daddr,
            sport: word(0),
            dport: word(2),
        },
        tcp: p.tcp,
        transport_len: p.transport_len as u32,
        total_len: p.total_len,
    };
    let tied = net.with("rw", |e, cx| {
        let mut b = e.binder(port, cx.store)?;
        // alone, or in a batch, at some place in it
        let one = b.ask(flow);
        let mut columns = Columns::default();
        let at = usize::from(p.total_len) % COLUMNS;
        for i in 0..COLUMNS {
            columns.put(i, (i == at).then_some(flow));
        }
        for row in 0..COLUMNS / ROW {
            b.ask_row(&mut columns, row, ROW, 0);
        }
        let of_many = columns.get(at);
        assert_eq!(of_many.is_some(), one.is_some());
        let (Some(one), Some(of_many)) = (one, of_many) else {
            return Some(BindAnswer::Ask);
        };
        // which may not change anything
        let columns = [columns];
        b.batch_prepare(&columns, COLUMNS, 0);
        // as one of a flood's, if it is new
        if p.total_len % 3 == 1
            && b.always_as_wanted(wanted)
            && b.bind_new(&columns[0], at, 1, cx.now) == 1
        {
            *flooded += 1;
            return Some(BindAnswer::To(columns[0].binding(at)));
        }
        let a = if p.total_len.is_multiple_of(3) {
            one
        } else {
            of_many
        };
        Some(b.bind(&a, wanted, cx.now, || cx.host.random(cx.elem)))
    });
    match tied? {
        BindAnswer::Ask => None,
        BindAnswer::Drop(why) => Some(Bound::Drop(why)),
        BindAnswer::To(b) => Some(Bound::To(Binding {
            origin: port as u16,
            reply: false,
            output: wanted.output,
            saddr: b.to.saddr,
            daddr: b.to.daddr,
            sport: b.to.sport,
            dport: b.to.dport,
            ip_sum: b.ip_sum,
            transport_sum: b.transport_sum,
            anno: None,
        })),
    }
}

#[derive(Default)]
struct Seen {
    tied: usize,
    flooded: usize,
    bound: usize,
    replies: usize,
    passed: usize,
    dropped: usize,
    punted: usize,
}

pub(super) type Spec<'a> = &'a [(&'a str, &'a str, &'a str, usize, usize)];

fn play(spec: Spec<'_>, steps: &[Step], seen: &mut Seen) {
    let (mut pushed, mut asked_net) = (Net::new(spec).unwrap(), Net::new(spec).unwrap());
    let mut tied_net = Net::new(spec).unwrap();
    let mut answers: Vec<(u8, Ends)> = Vec::new();
    for (n, s) in steps.iter().enumerate() {
        let (port, p) = match s {
            Step::Wait(ms) => {
                let t = Timestamp::from_millis(i64::from(*ms));
                pushed.now = pushed.now + t;
                asked_net.now = pushed.now;
                tied_net.now = pushed.now;
                continue;
            }
            Step::Sweep => {
                pushed.timer("rw");
                asked_net.timer("rw");
                tied_net.timer("rw");
                continue;
            }
            Step::Packet(port, s) => {
                let [a, b, c, d] = s.flow;
                let ends = (
                    [10, 0, 0, 1 + a],
                    [1024, 5000, 0][usize::from(b)],
                    [20, 0, 0, 1 + c],
                    [80, 1024, 53][usize::from(d)],
                );
                (*port, packet(s, ends, s.flow == [2; 4]))
            }
            Step::Answer(port, i, s) => {
                let Some((proto, ends)) = (!answers.is_empty()).then(|| answers[i % answers.len()])
                else {
                    continue;
                };
                let s = Shape { proto, ..s.clone() };
                (*port, packet(&s, ends, true))
            }
        };
        let Model::Cases(cases) = asked_net.model_of("rw", port) else {
            panic!("no model");
        };
        let bind = cases.iter().find_map(|c| match &c.exit {
            Exit::Bind(b) => Some(b.clone()),
            _ => None,
        });
        let bind = bind.unwrap();
        let want = pushed.push("rw", port, p.clone());
        let facts = asked(&p);
        // headers that say something else than what is marked are not asked about, nor later fragments
        let h = ipv4::Header::parse(p.network().unwrap()).unwrap();
        let whole = match spec.iter().any(|l| l.2.contains("FRAGMENTS")) {
            true => !h.is_fragment(),
            false => h.is_first_fragment(),
        };
        let bound = match whole {
            true => asked_net.with("rw", |e, cx| e.bind(port, &facts, &|_| true, cx)),
            false => Bound::Punt("a later fragment"),
        };
        let mut tied = None;
        if whole && let Some(w) = bind.expected.as_ref().and_then(wanted) {
            tied = tie(&mut tied_net, port, &facts, &w, &mut seen.flooded);
            seen.tied += usize::from(tied.is_some());
        }
        let tied = tied.unwrap_or_else(|| match whole {
            true => tied_net.with("rw", |e, cx| e.bind(port, &facts, &|_| true, cx)),
            false => bound,
        });
        assert_eq!(tied, bound, "step {n}: {s:?}");
        if let Bound::Punt(_) = bound {
            tied_net.push("rw", port, p.clone());
        }
        let got = match bound {
            Bound::To(b) => {
                seen.bound += 1;
                seen.replies += usize::from(b.reply);
                if !b.reply && usize::from(b.origin) == port {
                    let e = bind.expected.as_ref().expect("flows begin here");
                    check_expected(e, &b, &facts, bind.kind);
                }
                let mut q = p.clone();
                write(&mut q, &b, bind.kind, bind.dst_anno);
                Some((usize::from(b.output), q))
            }
            Bound::Pass(o) => {
                seen.passed += 1;
                Some((o, p.clone()))
            }
            Bound::Drop(why) => {
                seen.dropped += 1;
                let elem = ElemId(asked_net.names.iter().position(|n| n == "rw").unwrap() as u32);
                asked_net.out.drop(elem, why, p.clone());
                None
            }
            Bound::Punt(_) => {
                seen.punted += 1;
                asked_net.push("rw", port, p.clone())
            }
        };
        let show = |x: &Option<(Port, Pkt)>| {
            x.as_ref()
                .map(|(o, p)| (*o, p.data().to_vec(), *p.anno.bytes()))
        };
        assert_eq!(show(&got), show(&want), "step {n}: {s:?}, {bound:?}");
        if let Some((_, q)) = &want {
            answers.push(ends_of_answer(q));
        }
        let drops = |n: &Net| {
            let mut d: Vec<_> = n.out.drops.iter().map(|d| (d.1, d.2)).collect();
            d.sort();
            d
        };
        assert_eq!(drops(&asked_net), drops(&pushed), "step {n}");
        assert_eq!(
            asked_net.store.summaries(),
            pushed.store.summaries(),
            "step {n}: {s:?}, {bound:?}"
        );
        assert_eq!(
            tied_net.store.summaries(),
            pushed.store.summaries(),
            "step {n}: {s:?}, {bound:?}"
        );
        assert_eq!(asked_net.host.decisions, pushed.host.decisions, "step {n}");
    }
    for h in ["mappings", "nmappings", "mapping_failures", "patterns"] {
        let ask = |n: &mut Net| n.with("rw", |e, cx| e.read(h, "", cx)).map_err(|_| ());
        assert_eq!(ask(&mut asked_net), ask(&mut pushed), "{h}");
        assert_eq!(ask(&mut tied_net), ask(&mut pushed), "{h}");
    }
}

#[test]
fn asked_and_pushed_are_the_same() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::{Config, TestRunner};
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let many = prop::collection::vec(step(), 40..120);
    let mut flooded = 0;
    for net in NETS {
        let mut seen = Seen::default();
        for _ in 0..crate::testing::cases(30).cases {
            let steps = many.new_tree(&mut runner).unwrap().current();
            play(net, &steps, &mut seen);
        }
        let (class, config) = net.last().map(|l| (l.1, l.2)).unwrap();
        assert!(
            seen.bound > 100 && seen.replies > 20,
            "{class}({config}): {} {}",
            seen.bound,
            seen.replies
        );
        let tied = matches!(class, "IPRewriter" | "TCPRewriter" | "UDPRewriter")
            && !config.contains("REPLY_ANNO");
        assert!(seen.tied > 50 || !tied, "{class}({config}): {}", seen.tied);
        flooded += seen.flooded;
    }
    assert!(flooded > 20, "{flooded}");
}

/// Expected sets as the issue wants them.
#[test]
fn what_new_flows_get() {
    let spec: Spec<'_> = &[
        (
            "m",
            "RoundRobinIPMapper",
            "1.0.0.1 - 30.0.0.1 80 0 1, 1.0.0.1 2000-2003# 30.0.0.2 - 0 1",
            0,
            0,
        ),
        (
            "n",
            "RoundRobinIPMapper",
            "- - 30.0.0.1 - 0 1, - - 30.0.0.2 - 1 0",
            0,
            0,
        ),
        ("rw", "IPRewriter", "m, n, drop, pass 1", 4, 2),
    ];
    let net = Net::new(spec).unwrap();
    let expected = |port| match net.model_of("rw", port) {
        Model::Cases(c) => match &c.last().unwrap().exit {
            Exit::Bind(b) => Ok(b.expected.clone()),
            other => panic!("{other:?}"),
        },
        Model::None(cause) => Err(cause),
    };
    let e = expected(0).unwrap().unwrap();
    assert_eq!(
        e.saddr,
        Rewritten::To(onefold_element::model::ValueSet::one(0x0100_0001))
    );
    assert_eq!(
        e.daddr,
        Rewritten::To(onefold_element::model::ValueSet::range(
            0x1e00_0001,
            0x1e00_0002
        ))
    );
    assert_eq!(
        e.sport,
        Rewritten::To(onefold_element::model::ValueSet::full(16))
    );
    assert_eq!(
        e.dport,
        Rewritten::To(onefold_element::model::ValueSet::full(16))
    );
    assert_eq!(expected(1), Err("a mapper with several outputs"));
    assert_eq!(expected(2), Ok(None));
    assert_eq!(expected(3), Ok(None));
}

/// What ICMPRewriter's model drops, it drops, for that reason; errors are handed over.
#[test]
fn only_icmp_errors_are_handed_over() {
    let spec: Spec<'_> = &[
        (
            "rw",
            "IPRewriter",
            "pattern 1.0.0.1 1024-2000 - - 0 1, drop",
            2,
            2,
        ),
        ("ir", "ICMPRewriter", "rw", 1, 1),
        (
            "strict",
            "ICMPRewriter",
            "rw, STRICT true, SOURCE all",
            1,
            1,
        ),
    ];
    for name in ["ir", "strict"] {
        drops_are_as_the_model_says(spec, name);
    }
}

fn drops_are_as_the_model_says(spec: Spec<'_>, name: &str) {
    use crate::model_check::samples::{Layer, samples};
    use onefold_element::model::interp::{self, Next};
    let mut net = Net::new(spec).unwrap();
    let model = net.model_of(name, 0);
    let mut list: Vec<Pkt> = samples(Layer::Ip4, "icmp 0 8 3 11", 5, 600)
        .into_iter()
        .map(|s| s.packet)
        .collect();
    for kind in 0..=255u8 {
        for n in [0, 1, 19, 20, 27, 28, 40] {
            let mut p = icmp_packet("1.2.3.4", "1.0.0.1", kind, [0; 4], &[0x45; 40][..n]);
            list.push(p.clone());
            let mut later = p.clone();
            later.network_mut().unwrap()[7] = 3;
            list.push(later);
            p.clear_network_header();
            list.push(p);
        }
    }
    let (mut dropped, mut punted) = (0, 0);
    for p in list {
        let out = interp::apply(&model, p.clone(), 1, net.now).unwrap();
        match (&out.next, &out.dropped[..]) {
            (Next::Punt(_), []) => punted += 1,
            (Next::Done, [reason]) => {
                let before = net.drops(reason);
                assert!(net.push(name, 0, p.clone()).is_none());
                assert_eq!(net.drops(reason), before + 1, "{reason}: {:02x?}", p.data());
                dropped += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(dropped > 1000 && punted > 20, "{dropped} {punted}");
}
