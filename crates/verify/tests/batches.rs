//! Batches are invisible: what the batched reference graph does with packets, each with its own time, is what the
//! scalar one does with them one by one: bytes, time stamps, sinks, the order in which packets leave, drops,
//! counters, states, what is printed.

use crate::examples;
use crate::small;

use onefold_element::ElemId;
use onefold_packet::{Timestamp, checksum};
use onefold_verify::generate::Port;
use onefold_verify::generate::hints::Hints;
use onefold_verify::generate::traffic::Traffic;
use onefold_verify::{Batched, Event, Options, Outputs, Pair, Reference, Subject};
use small::graph;

/// Frames with the milliseconds at which they come.
type Frames = [(i64, Vec<u8>)];

fn at(ms: i64) -> Timestamp {
    Timestamp::from_secs(1000) + Timestamp::from_millis(ms)
}

fn outputs(s: &mut dyn Subject, source: ElemId, frames: &Frames) -> Outputs {
    let mut out = Outputs::default();
    let frames: Vec<(&[u8], Timestamp)> = (frames.iter())
        .map(|(ms, f)| (f.as_slice(), at(*ms)))
        .collect();
    s.inject_stamped(source, &frames);
    s.outputs(&mut out);
    out
}

/// Sends frames to `wan`, one by one and in batches of several sizes: everything is the same. What leaves.
fn same(text: &str, frames: &Frames) -> Outputs {
    let g = graph(text);
    let source = g.source("wan").unwrap();
    let mut one = Reference(g.fork());
    one.keep_printed();
    let single = outputs(&mut one, source, frames);
    for size in [2, 3, 7, 64, 256, 5000] {
        let mut batched = Batched::new(g.fork());
        batched.keep_printed();
        let mut all = Outputs::default();
        for some in frames.chunks(size) {
            let some = outputs(&mut batched, source, some);
            some.iter().for_each(|(e, t, b)| all.push(e, t, b));
        }
        for (a, b) in single.iter().zip(all.iter()) {
            assert_eq!(a, b, "batches of {size}");
        }
        assert_eq!(single.len(), all.len(), "batches of {size}");
        assert_eq!(one.drops(), batched.drops(), "batches of {size}");
        assert_eq!(one.totals(), batched.totals(), "batches of {size}");
        let (a, b) = (
            one.0.fork().state_summary(),
            batched.0.fork().state_summary(),
        );
        assert_eq!(a, b, "batches of {size}");
        let (a, b) = (one.0.fork(), batched.0.fork());
        assert_eq!((a.now(), a.next_timer()), (b.now(), b.next_timer()));
    }
    let printed = one.printed();
    let mut batched = Batched::new(g.fork());
    batched.keep_printed();
    outputs(&mut batched, source, frames);
    assert_eq!(printed, batched.printed());
    single
}

/// An IPv4 frame with these flags of TCP, or a UDP one.
fn frame(from: ([u8; 4], u16), to: ([u8; 4], u16), flags: Option<u8>, payload: &[u8]) -> Vec<u8> {
    let head = if flags.is_some() { 20 } else { 8 };
    let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    p.extend(((20 + head + payload.len()) as u16).to_be_bytes());
    p.extend([0, 0, 0, 0, 64, if flags.is_some() { 6 } else { 17 }, 0, 0]);
    p.extend(from.0.iter().chain(&to.0));
    let sum = checksum::internet(&p[14..34]).to_be_bytes();
    p[24..26].copy_from_slice(&sum);
    p.extend(from.1.to_be_bytes().iter().chain(&to.1.to_be_bytes()));
    match flags {
        Some(f) => p.extend([0, 0, 0, 9, 0, 0, 0, 7, 0x50, f, 16, 0, 0, 0, 0, 0]),
        None => p.extend([0, (8 + payload.len()) as u8, 0, 0]),
    }
    p.extend(payload);
    p
}

fn udp(host: u8, port: u16) -> Vec<u8> {
    frame(([10, 0, 0, host], port), ([192, 0, 2, 9], 53), None, b"x")
}

/// Two ways of different length to one place.
const JOIN: &str = "Idle -> ToDevice(wan); FromDevice(lan) -> Discard;
    FromDevice(wan) -> Strip(14) -> CheckIPHeader -> ";

#[test]
fn a_queue_of_two_keeps_what_comes_a_millisecond_apart() {
    let text = "FromDevice(wan) -> Queue(2) -> Unqueue -> ToDevice(lan);
        FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let frames: Vec<_> = (0..1000).map(|i| (i, udp(1, i as u16))).collect();
    assert_eq!(same(text, &frames).len(), 1000);
    // all at one moment, each leaves before the next comes
    let frames: Vec<_> = frames.into_iter().map(|(_, f)| (0, f)).collect();
    assert_eq!(same(text, &frames).len(), 1000);
    // what is emptied more slowly is full
    let slow = text.replace("Unqueue", "RatedUnqueue(100)");
    let frames: Vec<_> = (0..300).map(|i| (i, udp(1, i as u16))).collect();
    let left = same(&slow, &frames).len();
    assert!((20..60).contains(&left), "{left}");
}

#[test]
fn bindings_expire_between_packets_of_a_batch() {
    let text = format!(
        "{JOIN} c :: IPClassifier(src host 192.0.2.9, -);
        nat :: IPRewriter(pattern 203.0.113.1 - - - 0 1, drop, UDP_TIMEOUT 2, UDP_GUARANTEE 0, REAP_INTERVAL 1);
        c[1] -> [0]nat; c[0] -> Null -> [1]nat;
        nat[0] -> out :: ToDevice(lan); nat[1] -> Counter -> out;"
    );
    let back = |port| frame(([192, 0, 2, 9], 53), ([203, 0, 113, 1], port), None, b"y");
    let frames = [
        (0, udp(1, 1000)),
        (1, udp(1, 1001)),
        (500, back(1000)),
        (1_900, back(1001)),
        (4_800, back(1000)),
        (4_801, udp(1, 1000)),
        (4_802, back(1001)),
        (4_803, back(1000)),
    ];
    // the answers after more than two seconds find nothing
    assert_eq!(same(&text, &frames).len(), 6);
}

#[test]
fn a_port_command_of_ftp_leaves_with_the_address_that_its_binding_has() {
    let text = format!(
        "{JOIN} c :: IPClassifier(tcp && dst port 21 && tcp opt psh, -);
        nat :: TCPRewriter(pattern 203.0.113.1 1024-65535# - - 0 0) -> ToDevice(lan);
        c[0] -> FTPPortMapper(nat, nat, 0) -> nat; c[1] -> Null -> nat;"
    );
    let (client, server) = (([10, 0, 0, 1], 3000), ([192, 0, 2, 9], 21));
    let command = |port: u8| format!("PORT 10,0,0,1,9,{port}\r\n");
    let mut frames = vec![(0, frame(client, server, Some(2), b""))];
    frames.push((0, frame(client, server, Some(16), b"")));
    for i in 0..4 {
        frames.push((
            i,
            frame(client, server, Some(24), command(i as u8).as_bytes()),
        ));
        frames.push((i, frame(([10, 0, 0, i as u8 + 2], 9), server, Some(2), b"")));
    }
    let left = same(&text, &frames);
    let private = b"PORT 10,0,0,1";
    assert_eq!(left.len(), frames.len());
    assert!(
        left.iter()
            .all(|(_, _, b)| !b.windows(private.len()).any(|w| w == private))
    );
}

#[test]
fn a_balancer_in_front_of_a_napt_gives_ports_in_order() {
    let text = format!(
        "{JOIN} lb :: IPRewriter(m);
        m :: RoundRobinIPMapper(- - 10.9.0.1 - 0 2, - - 10.9.0.2 - 1 2, - - 10.9.0.3 - 0 2);
        nat :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 0) -> ToDevice(lan);
        lb[0] -> Null -> Counter -> nat; lb[1] -> nat; lb[2] -> Discard;"
    );
    let frames: Vec<_> = (0..90)
        .map(|i| (i / 9, udp(i as u8 % 31, i as u16 % 8)))
        .collect();
    let left = same(&text, &frames);
    let port = |b: &[u8]| u16::from_be_bytes([b[20], b[21]]);
    let ports: Vec<u16> = left.iter().map(|(_, _, b)| port(b)).collect();
    assert_eq!(ports[..31], (1024..1055).collect::<Vec<_>>());
}

/// Random chain 94: what has a VLAN tag takes another way than what has none.
#[test]
fn a_frame_with_a_tag_and_one_without_leave_in_the_order_in_which_they_came() {
    let ways = "FromDevice(wan) -> c :: Classifier(12/0800, -);
        c[0] -> Strip(14) -> CheckIPHeader -> Unstrip(14) -> out :: ToDevice(lan); c[1] -> out;
        FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let plain = udp(1, 1);
    let tagged = [&plain[..12], &[0x81, 0, 0, 7], &plain[12..]].concat();
    let frames = [(0, plain.clone()), (0, tagged.clone()), (1, plain.clone())];
    let left = same(ways, &frames);
    let order: Vec<&[u8]> = left.iter().map(|(_, _, b)| b).collect();
    assert_eq!(order, [&plain[..], &tagged, &plain]);
}

/// Random chain 205: a packet becomes two that leave as one flow by different ways.
#[test]
fn copies_of_a_packet_leave_one_behind_the_other() {
    let ways = "FromDevice(wan) -> t :: Tee(2);
        t[0] -> Strip(14) -> EtherEncap(0x0800, 2:0:0:0:0:7, 2:0:0:0:0:2) -> u :: Tee(3);
        out :: ToDevice(lan); u[2] -> Null -> Null -> out; u[0] -> Null -> out; u[1] -> out; t[1] -> out;
        FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let frames: Vec<_> = (0..20).map(|i| (i / 3, udp(1, i as u16))).collect();
    let left = same(ways, &frames);
    let way: Vec<u8> = left.iter().map(|(_, _, b)| b[11]).collect();
    assert_eq!(way, [7, 7, 7, 2].repeat(20));
    let port: Vec<u8> = left.iter().map(|(_, _, b)| b[35]).collect();
    let want: Vec<u8> = (0..80).map(|i| i / 4).collect();
    assert_eq!(port, want);
}

/// More copies of copies than the numbers of one arrival have room for at first.
#[test]
fn a_long_row_of_taps() {
    let mut text = "FromDevice(lan) -> Discard; Idle -> ToDevice(wan); FromDevice(wan)".to_string();
    for i in 0..40 {
        text.push_str(&format!(" -> t{i} :: Tee(2)"));
    }
    text.push_str(" -> out :: ToDevice(lan);");
    for i in 0..40 {
        let way = [" -> Null", ""][i % 2];
        text.push_str(&format!("t{i}[1] -> Paint({i}){way} -> Strip({i}) -> out;"));
    }
    let frames: Vec<_> = (0..9).map(|i| (i, udp(1, i as u16))).collect();
    assert_eq!(same(&text, &frames).len(), 9 * 41);
}

/// Random chains 442 and 560: a redirect and the packet that it is about wait for two addresses at one ARPQuerier.
#[test]
fn copies_meet_at_an_element_that_holds_them() {
    let text = "a :: ARPQuerier(10.0.0.1, 2:0:0:0:0:1);
        FromDevice(wan) -> c :: Classifier(12/0800, -);
        c[0] -> Strip(14) -> CheckIPHeader -> SetIPAddress(10.0.0.9) -> t :: Tee(2); c[1] -> [1]a;
        t[0] -> SetIPAddress(10.0.0.7) -> a; t[1] -> a;
        a -> ToDevice(lan); FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let reply = |host: u8| {
        let mut p = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, host, 8, 6];
        p.extend([0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, host, 10, 0, 0, host]);
        p.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        p
    };
    let mut frames: Vec<_> = (0..6).map(|i| (i, udp(1, i as u16))).collect();
    frames.push((6, reply(9)));
    frames.push((6, udp(1, 77)));
    frames.push((7, reply(7)));
    frames.extend((8..20).map(|i| (i, udp(2, i as u16))));
    assert!(same(text, &frames).len() > 30);
}

/// What an element prints, and makes, has its packet's place and time.
#[test]
fn errors_and_what_is_printed_come_in_order() {
    let text = "FromDevice(wan) -> Strip(14) -> c :: CheckIPHeader(VERBOSE true, DETAILS true);
        c[1] -> bad :: Counter -> IPPrint(bad) -> Discard;
        c[0] -> rt :: StaticIPLookup(192.0.2.0/24 0, 10.0.0.0/8 1, 0/0 2);
        rt[2] -> IPPrint(none) -> ICMPError(10.0.0.250, unreachable, net) -> [0]rt;
        rt[0] -> d :: DecIPTTL -> n :: Counter -> IPPrint(there) -> out :: ToDevice(lan);
        d[1] -> ICMPError(10.0.0.250, timeexceeded) -> [0]rt;
        rt[1] -> IPPrint(back) -> Null -> out;
        FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let mut frames = Vec::new();
    for i in 0..60u8 {
        let mut f = udp(i, 7);
        match i % 5 {
            // time to live: with its checksum
            1 => {
                (f[22], f[24], f[25]) = (1, 0, 0);
                let sum = checksum::internet(&f[14..34]).to_be_bytes();
                f[24..26].copy_from_slice(&sum);
            }
            2 => f = frame(([10, 0, 0, i], 5), ([172, 16, 0, 1], 9), None, b"z"),
            3 => f[24] ^= 1,
            _ => {}
        }
        frames.push((i64::from(i) * 3 / 2, f));
    }
    // what is dropped is of a fifth
    assert_eq!(same(text, &frames).len(), 48);
}

/// Two pairs of addresses: packets from outside come in by an input for each.
#[test]
fn packets_meet_at_different_inputs_of_a_rewriter() {
    let text = "
        rw :: IPAddrPairRewriter(pattern 203.0.113.5 - 0 1, pattern 203.0.113.7 - 0 1, pattern - 10.0.0.2 1 0,
          pattern - 10.0.1.7 1 0);
        FromDevice(lan) -> Discard;
        FromDevice(wan) -> Strip(14) -> CheckIPHeader
          -> c :: IPClassifier(src host 10.0.0.2, src host 10.0.1.7, dst host 203.0.113.5, dst host 203.0.113.7, -);
        c[0] -> [0]rw; c[1] -> [1]rw; c[2] -> [2]rw; c[3] -> Null -> [3]rw; c[4] -> Discard;
        rw[0] -> Unstrip(14) -> ToDevice(wan); rw[1] -> Unstrip(14) -> ToDevice(lan);";
    let (inside, outside) = (
        [[10, 0, 0, 2], [10, 0, 1, 7]],
        [[203, 0, 113, 5], [203, 0, 113, 7]],
    );
    let mut frames = Vec::new();
    for i in 0..64usize {
        let (a, b, c) = (i & 1, i >> 1 & 1, i >> 2 & 3);
        let f = match c {
            0 => frame((inside[a], 1), (outside[b], 2), None, b"p"),
            1 => frame((outside[a], 1), (outside[b], 2), None, b"q"),
            2 => frame((inside[a], 1), ([192, 0, 2, 1 + b as u8], 2), None, b"r"),
            _ => frame(([192, 0, 2, 1 + b as u8], 1), (outside[a], 2), None, b"s"),
        };
        frames.push((i as i64 / 5, f));
    }
    assert!(same(text, &frames).len() > 30);
}

/// Where a handler is called, and where there is no end to a loop, packets go one by one.
#[test]
fn calls_of_handlers_and_endless_loops() {
    let text = "FromDevice(wan) -> s :: Switch(0); s[0] -> Counter(COUNT_CALL 5 s.switch 1) -> out :: ToDevice(lan);
        s[1] -> Strip(2) -> c :: Classifier(33/00, -); c[0] -> out; c[1] -> n :: Null -> Counter -> n;
        FromDevice(lan) -> Discard; Idle -> ToDevice(wan);";
    let frames: Vec<_> = (0..12).map(|i| (i, udp(1, i as u16 * 7))).collect();
    assert!(same(text, &frames).len() < 12);
}

fn all_ports(chain: &onefold_chain::Chain) -> Vec<Port> {
    let port = |p: &onefold_chain::ChainPort| Port {
        name: p.name.clone(),
        source: p.source.map(|s| ElemId(s as u32)),
        sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
    };
    chain.ports.iter().map(port).collect()
}

/// Every example chain, with times that are equal, and microseconds, milliseconds and seconds apart.
#[test]
fn batches_of_example_chains_are_invisible() {
    let mut with_output = 0;
    for name in [
        "campus-dpi",
        "fw-l3fwd-l2fwd",
        "fw10",
        "ipv6-edge",
        "isp-edge",
        "kitchen-sink",
        "l2fwd",
        "l3fwd",
        "napt-fw-lb",
        "napts-3",
        "router-nat-lb",
        "routers-3",
    ] {
        let (chain, g) = examples::load(name);
        let ports = all_ports(&chain);
        let start = Timestamp::from_secs(1000);
        let mut pair = Pair::new(
            Box::new(Reference(g.fork())),
            Box::new(Batched::new(g.fork())),
            64,
        );
        pair.keep_printed();
        let hints = Hints::of(g.spec());
        let traffic = Traffic::new(&ports, hints, 7, 500, start, pair.max_batch);
        let mut traffic = traffic.expect("something enters").stamped(7);
        let options = Options {
            checkpoint_every: 100,
            ..Options::default()
        };
        let o = onefold_verify::run(&pair, &mut traffic, &options, &mut |_| true);
        let found = o
            .findings
            .first()
            .map(|f| (&f.difference, f.small.as_ref().map(|s| s.events.len())));
        assert!(found.is_none(), "{name}: {found:?}");
        assert_eq!(o.packets, 500, "{name}");
        with_output += o.with_output;
    }
    assert!(with_output > 500, "{with_output}");
}

/// A time before that of the packet in front of it counts as that one's.
#[test]
fn a_clock_that_goes_back_stands_still() {
    let g = graph(
        "FromDevice(wan) -> Queue(9) -> DelayUnqueue(0.002) -> ToDevice(lan); FromDevice(lan) -> Discard; Idle -> ToDevice(wan);",
    );
    let source = g.source("wan").unwrap();
    let mut one = g.fork();
    let mut batched = g.fork();
    let mut clock = at(0);
    let mut batch = Vec::new();
    for (i, ms) in [5i64, 3, 9, -100, 9, 12, 11, 40].into_iter().enumerate() {
        clock = clock.max(at(ms));
        one.inject(source, &udp(1, i as u16), clock);
        let mut p = batched.make_packet(&udp(1, i as u16));
        p.anno.timestamp = at(ms);
        batch.push(p);
    }
    batched.inject_stamped(source, &mut batch);
    assert!(batch.is_empty());
    let left = |g: &mut onefold_engine::Graph| {
        let all = g.take_transmitted().into_iter();
        all.map(|(e, p)| (e, p.anno.timestamp, p.data().to_vec()))
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&mut one), left(&mut batched));
    assert_eq!((one.now(), one.totals()), (batched.now(), batched.totals()));
}

/// `verify` sees a batch that is not what its packets are one by one.
#[test]
fn a_batch_whose_times_are_not_kept_is_found() {
    struct AllAtOnce(Batched);
    impl Subject for AllAtOnce {
        fn name(&self) -> &'static str {
            "all at once"
        }
        fn fork(&self) -> Box<dyn Subject> {
            Box::new(AllAtOnce(Batched::new(self.0.0.fork())))
        }
        fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp) {
            self.0.inject(source, frames, at);
        }
        fn inject_stamped(&mut self, source: ElemId, frames: &[(&[u8], Timestamp)]) {
            let at = frames.last().map_or(Timestamp::ZERO, |f| f.1);
            let all: Vec<&[u8]> = frames.iter().map(|f| f.0).collect();
            self.0.inject(source, &all, at);
        }
        fn exact(&self) -> bool {
            true
        }
        fn advance(&mut self, at: Timestamp) {
            self.0.advance(at);
        }
        fn clear(&mut self, elem: ElemId) {
            self.0.clear(elem);
        }
        fn outputs(&mut self, into: &mut Outputs) {
            self.0.outputs(into);
        }
        fn drops(&self) -> Vec<onefold_engine::DropCount> {
            self.0.drops()
        }
        fn totals(&self) -> onefold_engine::Totals {
            self.0.totals()
        }
        fn state(&mut self) -> Vec<(String, String)> {
            self.0.state()
        }
        fn start_trace(&mut self) {}
        fn take_trace(&mut self) -> Vec<String> {
            Vec::new()
        }
    }
    let g = graph(
        "FromDevice(wan) -> Queue(2) -> RatedUnqueue(2000) -> ToDevice(lan); FromDevice(lan) -> Discard; Idle -> ToDevice(wan);",
    );
    let source = g.source("wan").unwrap();
    let find = |right: Box<dyn Subject>| {
        let mut pair = Pair::new(Box::new(Reference(g.fork())), right, 16);
        let found = (0..16).find_map(|i| {
            let e = Event::frame(at(i), source, udp(1, 1));
            pair.step(&Event { joined: i > 0, ..e })
        });
        found.or_else(|| pair.checkpoint())
    };
    assert_eq!(find(Box::new(Batched::new(g.fork()))), None);
    assert!(find(Box::new(AllAtOnce(Batched::new(g.fork())))).is_some());
}
