//! Programs written by hand, with elements of the test's own: copies, questions, bindings, write-outs, punts from everywhere;
//! and programs that are wrong.

use crate::harness::{Frame, Pair, Rng, build, build_with};
use onefold_element::model::{BindKind, BindPacket, Binding, Bound, ValueSet};
use onefold_element::{
    Cx, ElemId, Element, ElementClass, HandlerError, HandlerInfo, HandlerResult, Port, element_any,
};
use onefold_engine::program::{LoadError, ProgramRunner};
use onefold_packet::Pkt;
use onefold_synth::program::*;
use std::sync::Arc;

/// What all test elements share: a count of packets and bytes.
#[derive(Debug, Clone, Default)]
struct Counts {
    packets: u64,
    bytes: u64,
    calls: u64,
}

macro_rules! handlers {
    () => {
        fn handlers(&self) -> &'static [HandlerInfo] {
            const H: &[HandlerInfo] = &[
                HandlerInfo::r("packets"),
                HandlerInfo::r("bytes"),
                HandlerInfo::r("calls"),
            ];
            H
        }
        fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
            Ok(match name {
                "packets" => self.0.packets,
                "bytes" => self.0.bytes,
                "calls" => self.0.calls,
                _ => return Err(HandlerError::NoSuchHandler(name.into())),
            }
            .to_string())
        }
        element_any!();
    };
}

/// Counts.
#[derive(Debug, Clone, Default)]
struct Meter(Counts);

impl Element for Meter {
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.account(7, 1, p.len() as u64, cx);
        cx.emit(0, p);
    }
    fn account(&mut self, tag: u16, packets: u64, bytes: u64, _: &mut Cx<'_>) {
        assert_eq!(tag, 7);
        self.0.packets += packets;
        self.0.bytes += bytes;
    }
    handlers!();
}

/// Lets go: nothing, one, or copies at several outputs, by turns.
#[derive(Debug, Clone, Default)]
struct Moody(Counts);

impl Element for Moody {
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.0.calls += 1;
        match self.0.calls % 5 {
            0 => cx.drop(p, "Moody: no"),
            1 => cx.emit(0, p),
            2 => cx.emit(1, p),
            3 => {
                let (a, b) = (cx.copy(&p), cx.copy(&p));
                cx.emit(1, a);
                cx.emit(0, b);
                cx.emit(1, p);
            }
            _ => {
                let a = cx.copy(&p);
                cx.transmit(a);
                cx.emit(2, p);
            }
        }
    }
    handlers!();
}

/// Gives every source port a new one; drops port 13, lets port 80 pass, keeps odd ones for itself.
#[derive(Debug, Clone, Default)]
struct Ports(Counts);

impl Ports {
    fn choose(&mut self, port: u16) -> Option<u16> {
        self.0.calls += 1;
        (port != 13).then_some(port.wrapping_mul(3))
    }
}

impl Element for Ports {
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let at = 34;
        let port = u16::from_be_bytes([p.data()[at], p.data()[at + 1]]);
        if port == 80 {
            return cx.emit(1, p);
        }
        match self.choose(port) {
            None => cx.drop(p, "Ports: thirteen"),
            Some(new) => {
                p.data_mut()[at..at + 2].copy_from_slice(&new.to_be_bytes());
                cx.emit(usize::from(new > 40_000), p);
            }
        }
    }
    fn bind(
        &mut self,
        port: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
        _: &mut Cx<'_>,
    ) -> Bound {
        assert_eq!((p.proto, p.total_len, p.transport_len), (17, 48, 28));
        let sport = u16::from_be_bytes([p.head[0], p.head[1]]);
        if sport == 80 {
            return Bound::Pass(1);
        }
        if sport % 2 == 1 && sport != 13 {
            return Bound::Punt("odd");
        }
        match self.choose(sport) {
            None => Bound::Drop("Ports: thirteen"),
            Some(new) => {
                let b = Binding {
                    origin: port as u16,
                    output: u16::from(new > 40_000),
                    saddr: p.saddr,
                    daddr: p.daddr,
                    sport: new,
                    dport: u16::from_be_bytes([p.head[2], p.head[3]]),
                    ..Binding::default()
                };
                match may(&b) {
                    true => Bound::To(b),
                    false => Bound::Punt("may not"),
                }
            }
        }
    }
    handlers!();
}

macro_rules! class {
    ($name:literal, $ports:literal, $t:ty) => {
        ElementClass {
            name: $name,
            ports: $ports,
            processing: "a/ah",
            flow: "x/x",
            effect: onefold_element::Effect::OrderSensitive,
            usage: "",
            summary: "for tests",
            new: || Box::new(<$t>::default()),
        }
    };
}

static CLASSES: [ElementClass; 3] = [
    class!("Meter", "1/1", Meter),
    class!("Moody", "1/3", Moody),
    class!("Ports", "1/2", Ports),
];

fn lookup(name: &str) -> Option<&'static ElementClass> {
    let own = CLASSES.iter().find(|c| c.name == name);
    own.or_else(|| onefold_elements::lookup(name))
}

/// src(0) -> m(1) -> moody(2); moody[0] -> Paint(3) -> out(4); moody[1] -> Strip -> out; moody[2] -> nowhere useful.
const TEXT: &str = "src :: FromDevice(a); m :: Meter; moody :: Moody; paint :: Paint(5); out :: ToDevice(b); strip :: Strip(2);
    t :: Tee; ports :: Ports; out2 :: ToDevice(c); m2 :: Meter; dis :: Discard; mark :: MarkIPHeader(14);
    src -> mark -> m -> t; t [0] -> moody; t [1] -> ports;
    moody [0] -> paint -> out; moody [1] -> strip -> out; moody [2] -> dis;
    ports [0] -> m2 -> out2; ports [1] -> out2;";
const NAMES: [&str; 12] = [
    "src", "m", "moody", "paint", "out", "strip", "t", "ports", "out2", "m2", "dis", "mark",
];

fn e(name: &str) -> ElemId {
    ElemId(NAMES.iter().position(|n| *n == name).unwrap() as u32)
}

fn rule(filter: Filter, action: u32) -> Rule {
    Rule {
        filter,
        action: ActionId(action),
        origin: Vec::new(),
    }
}

fn all(action: u32) -> Rule {
    rule(Filter::default(), action)
}

fn stage(at: &str, fresh: bool, rules: Vec<Rule>, actions: Vec<Action>) -> Stage {
    Stage {
        at: (e(at), 0),
        why: Why::Entry,
        fresh,
        known: Filter::default(),
        among: Vec::new(),
        rules,
        actions,
    }
}

fn action(steps: Vec<Step>, end: End) -> Action {
    Action {
        steps,
        end,
        path: Vec::new(),
    }
}

fn count(name: &str) -> Step {
    Step::Count {
        elem: e(name),
        tag: 7,
        len: LenAt {
            start: 0,
            end: EndAt::Same,
        },
    }
}

/// As it came, but that MAC and network header are marked.
fn arrived() -> Image {
    Image {
        mac: Mark::At(0, 14),
        net: Mark::At(14, 20),
        ..Image::default()
    }
}

fn same() -> Arc<Image> {
    Arc::new(Image::default())
}

fn punt(name: &str, image: Image) -> End {
    End::Punt {
        elem: e(name),
        port: 0,
        cause: "as told".into(),
        image: Arc::new(image),
    }
}

fn goes(n: u32) -> Next {
    Next::Stage(StageId(n))
}

/// The graph above: a copy to an element that is asked, the packet itself to a binding.
fn program() -> Program {
    let painted = Image {
        annos: vec![(
            onefold_element::model::AnnoKey {
                offset: 16,
                size: 1,
            },
            Expr::Const(5),
        )],
        ..Image::default()
    };
    let stripped = Image {
        start: 2,
        ..Image::default()
    };
    let net = Arc::new(arrived());
    let rewritten = |slot: u16| Image {
        writes: vec![Write {
            bit: 34 * 8,
            bits: 16,
            value: Expr::Of(Dim::Slot(Slot(slot)), 0),
        }],
        ..arrived()
    };
    let output = |name: &str, image: Image| End::Output {
        sink: e(name),
        image: Arc::new(image),
    };
    let low = ValueSet::range(0, 40_000);
    Program {
        elements: NAMES.map(String::from).to_vec(),
        entries: vec![Entry {
            source: e("src"),
            stage: StageId(0),
        }],
        stages: vec![
            stage(
                "src",
                true,
                vec![all(0)],
                vec![action(
                    vec![count("src"), count("m")],
                    End::Fork(vec![goes(1), goes(5)]),
                )],
            ),
            stage(
                "moody",
                false,
                vec![all(0)],
                vec![action(
                    vec![],
                    End::Ask {
                        elem: e("moody"),
                        port: 0,
                        cause: "mood".into(),
                        image: Arc::new(arrived()),
                        outputs: vec![goes(2), goes(3), goes(4)],
                    },
                )],
            ),
            stage(
                "paint",
                true,
                vec![all(0)],
                vec![action(vec![count("out")], output("out", painted))],
            ),
            // written out once more on the way, for no reason
            stage(
                "strip",
                true,
                vec![all(0)],
                vec![action(
                    vec![],
                    End::Write {
                        image: Arc::new(stripped),
                        next: StageId(7),
                    },
                )],
            ),
            stage(
                "dis",
                true,
                vec![all(0)],
                vec![action(
                    vec![count("dis")],
                    End::Drop {
                        elem: e("dis"),
                        reason: "Discard".into(),
                    },
                )],
            ),
            stage(
                "ports",
                false,
                vec![all(0)],
                vec![action(
                    vec![
                        Step::Bind {
                            elem: e("ports"),
                            port: 0,
                            kind: BindKind::Flow,
                            image: net,
                            first: Slot(0),
                            anno: None,
                            expect: Some(Expect {
                                output: 0,
                                kept: [true, true, false, true],
                                sets: [low.clone(), low.clone(), ValueSet::range(0, 3000), low],
                            }),
                            bound: vec![goes(6), goes(8)],
                            sides: None,
                            pass: vec![Next::Unconnected(e("ports")), goes(9)],
                        },
                        count("m2"),
                        count("out2"),
                    ],
                    output("out2", rewritten(2)),
                )],
            ),
            stage(
                "m2",
                false,
                vec![all(0)],
                vec![action(
                    vec![count("m2"), count("out2")],
                    output("out2", rewritten(2)),
                )],
            ),
            stage(
                "out",
                true,
                vec![all(0)],
                vec![action(vec![count("out")], output("out", Image::default()))],
            ),
            stage(
                "out2",
                false,
                vec![all(0)],
                vec![action(vec![count("out2")], output("out2", rewritten(2)))],
            ),
            stage(
                "out2",
                false,
                vec![all(0)],
                vec![action(vec![count("out2")], output("out2", arrived()))],
            ),
        ],
        slots: vec![
            SlotInfo {
                bits: 32,
                set: ValueSet::full(32),
            };
            6
        ],
        ..Program::default()
    }
}

fn frames(pair: &mut Pair, n: usize) {
    let mut r = Rng(0x9e37_79b9_7f4a_7c15);
    for _ in 0..n {
        let data = Frame {
            ports: (r.of(&[13, 80, 2, 4, 900, 1002, 7, 20_000, 50_002]), 53),
            ..Frame::default()
        }
        .bytes();
        pair.packet("a", &data, 1000);
    }
    pair.finish();
}

#[test]
fn copies_questions_and_bindings() {
    // what leaves at the Paint and Strip has marks and annotations as the reference's: all of it is compared
    let mut pair = Pair::with(build_with(TEXT, lookup), &program());
    frames(&mut pair, 600);
    let r = pair.program.report();
    assert!(r.punts.iter().any(|p| p.cause == "odd" && p.packets > 20));
    assert!(r.punts.iter().any(|p| p.asked && p.packets == 600));
    assert_eq!(r.reference, 0);
    // a copy goes on as the original does
    let mut other = pair.program.fork();
    assert_eq!(other.report(), r);
    let data = Frame::default().bytes();
    for x in [&mut other, &mut pair.program] {
        x.inject(e("src"), &data, onefold_packet::Timestamp::from_secs(900));
    }
    assert_eq!(other.report(), pair.program.report());
    assert_eq!(
        other.graph_mut().state_summary(),
        pair.program.graph_mut().state_summary()
    );
}

#[test]
fn punts_from_every_element() {
    let p = program();
    // the entry punts at once, then behind the first element, and so on
    for (name, before) in [
        ("src", vec![]),
        ("mark", vec![count("src")]),
        ("m", vec![count("src")]),
        ("t", vec![count("src"), count("m")]),
    ] {
        let mut q = p.clone();
        q.stages[0].actions[0] = action(
            before,
            punt(
                name,
                match name {
                    "src" => Image::default(),
                    "mark" => Image {
                        mac: Mark::At(0, 14),
                        ..Image::default()
                    },
                    _ => arrived(),
                },
            ),
        );
        frames(&mut Pair::with(build_with(TEXT, lookup), &q), 100);
    }
    for (s, name) in [
        (1, "moody"),
        (2, "paint"),
        (3, "strip"),
        (4, "dis"),
        (5, "ports"),
        (7, "out"),
    ] {
        let mut q = p.clone();
        let image = if matches!(s, 1 | 5) {
            arrived()
        } else {
            Image::default()
        };
        q.stages[s].actions[0] = action(vec![], punt(name, image));
        let mut pair = Pair::with(build_with(TEXT, lookup), &q);
        frames(&mut pair, 100);
        assert!(pair.punted() > 0, "{name}");
    }
    // with the slots in the image
    let mut q = p.clone();
    if let End::Output { image, .. } = q.stages[6].actions[0].end.clone() {
        q.stages[6].actions[0] = action(
            vec![],
            End::Punt {
                elem: e("m2"),
                port: 0,
                cause: "late".into(),
                image,
            },
        );
    }
    frames(&mut Pair::with(build_with(TEXT, lookup), &q), 100);
}

#[test]
fn what_no_rule_takes_goes_to_the_reference_graph_where_an_epoch_begins() {
    for s in [0, 2, 3, 4, 7] {
        let mut q = program();
        q.stages[s].rules.clear();
        frames(&mut Pair::with(build_with(TEXT, lookup), &q), 60);
    }
    // elsewhere nobody knows the packet: it is dropped, and accounted for
    let mut q = program();
    q.stages[1].rules.clear();
    q.stages[9].actions[0].end = End::Unreachable;
    let mut r = ProgramRunner::with_program(build_with(TEXT, lookup), &q).unwrap();
    for port in [4, 80] {
        let f = Frame {
            ports: (port, 53),
            ..Frame::default()
        };
        r.inject(e("src"), &f.bytes(), Default::default());
    }
    assert!(r.graph().totals().balanced());
    let drops: Vec<_> = r
        .graph()
        .drops()
        .iter()
        .map(|d| (d.reason, d.packets))
        .collect();
    assert!(
        drops.contains(&("engine: no rule of the program fits", 2)),
        "{drops:?}"
    );
    assert!(
        drops.contains(&("engine: an unreachable end was reached", 1)),
        "{drops:?}"
    );
}

#[test]
fn endless_programs_end() {
    // written out for ever: the reference graph takes over where the stage stands
    let mut q = program();
    q.stages[3].actions[0].end = End::Write {
        image: same(),
        next: StageId(3),
    };
    let mut pair = Pair::with(build_with(TEXT, lookup), &q);
    frames(&mut pair, 20);
    assert!(
        pair.program
            .report()
            .punts
            .iter()
            .any(|p| p.cause == "too many stages")
    );
    // copies of copies of copies
    let mut q = program();
    q.stages[0].actions[0].end = End::Write {
        image: same(),
        next: StageId(1),
    };
    q.stages[1].actions[0].end = End::Fork(vec![goes(3), goes(4)]);
    q.stages[3].actions[0].end = End::Write {
        image: same(),
        next: StageId(1),
    };
    let mut r = ProgramRunner::with_program(build_with(TEXT, lookup), &q).unwrap();
    r.inject(e("src"), &Frame::default().bytes(), Default::default());
    assert!(r.graph().totals().balanced());
}

fn refused(change: impl FnOnce(&mut Program)) -> LoadError {
    let mut p = program();
    change(&mut p);
    ProgramRunner::with_program(build_with(TEXT, lookup), &p).unwrap_err()
}

#[test]
fn wrong_programs_are_refused() {
    use LoadError as L;
    let far = |at| {
        Arc::new(Image {
            start: at,
            ..Image::default()
        })
    };
    let set_end = |p: &mut Program, end| p.stages[2].actions[0].end = end;
    assert!(matches!(
        refused(|p| {
            p.elements.pop();
        }),
        L::Size { .. }
    ));
    assert!(matches!(
        refused(|p| p.elements[1] = "x".into()),
        L::Name { index: 1, .. }
    ));
    assert!(matches!(
        refused(|p| p.entries[0].stage = StageId(99)),
        L::NoStage { index: 99, .. }
    ));
    assert!(matches!(
        refused(|p| p.entries[0].source = ElemId(99)),
        L::NoElement { .. }
    ));
    assert!(matches!(
        refused(|p| p.entries.push(p.entries[0])),
        L::TwoEntries { .. }
    ));
    assert!(matches!(
        refused(|p| p.stages[0].rules[0].action = ActionId(1)),
        L::NoAction { .. }
    ));
    assert!(matches!(
        refused(|p| p.stages[0].at = (e("m"), 1)),
        L::NoInput { port: 1, .. }
    ));
    assert!(matches!(
        refused(|p| p.slots.truncate(5)),
        L::NoSlot { index: 5, .. }
    ));
    assert!(matches!(
        refused(|p| p.slots[0].bits = 0),
        L::Width { bits: 0, .. }
    ));
    let goto = |n| End::Goto(StageId(n));
    assert!(matches!(
        refused(|p| set_end(p, goto(2))),
        L::Cycle { stage: 2 }
    ));
    assert!(matches!(
        refused(|p| set_end(p, goto(10))),
        L::NoStage { .. }
    ));
    assert!(matches!(
        refused(|p| set_end(p, End::Fork(vec![]))),
        L::EmptyFork { .. }
    ));
    assert!(matches!(
        refused(|p| p.stages[9].actions[0].end = goto(5)),
        L::Cycle { .. }
    ));
    let out = |image| End::Output {
        sink: e("out"),
        image,
    };
    assert!(matches!(
        refused(|p| set_end(p, out(far(i32::MIN)))),
        L::Position { .. }
    ));
    let w = |bit, bits, value| {
        Arc::new(Image {
            writes: vec![Write { bit, bits, value }],
            ..Image::default()
        })
    };
    assert!(matches!(
        refused(|p| set_end(p, out(w(0, 129, Expr::Const(0))))),
        L::Width { .. }
    ));
    assert!(matches!(
        refused(|p| set_end(p, out(w(i32::MAX, 1, Expr::Const(0))))),
        L::Position { .. }
    ));
    let slot = Expr::Of(Dim::Slot(Slot(6)), 0);
    assert!(matches!(
        refused(|p| set_end(p, out(w(0, 8, slot)))),
        L::NoSlot { .. }
    ));
    let anno = Expr::Of(
        Dim::Anno(onefold_element::model::AnnoKey {
            offset: 40,
            size: 16,
        }),
        0,
    );
    assert!(matches!(
        refused(|p| set_end(p, out(w(0, 8, anno)))),
        L::Anno { .. }
    ));
    let kind = Arc::new(Image {
        packet_type: TypeExpr::Is(77),
        ..Image::default()
    });
    assert!(matches!(
        refused(|p| set_end(p, out(kind))),
        L::PacketType { number: 77, .. }
    ));
    let long = End::Drop {
        elem: e("dis"),
        reason: "x".repeat(9999),
    };
    assert!(matches!(refused(|p| set_end(p, long)), L::TooMany { .. }));
    // nothing of a refused program is used
    let mut r = ProgramRunner::new(build("FromDevice(a) -> ToDevice(b);"));
    assert!(r.load(&program()).is_err() && r.needs_synthesis());
    r.inject(ElemId(0), &[0; 60], Default::default());
    assert_eq!((r.graph().totals().sent, r.report().reference), (1, 1));
}
