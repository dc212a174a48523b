//! Neighbours whose addresses are learnt: what the reference graph does with a sequence of packets is what the program
//! and the flow table do, whatever becomes of the table of neighbours on the way.

#[allow(dead_code)]
use crate::harness;

use harness::{Rng, build};
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_packet::wire::arp;
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp, checksum};
use onefold_synth::{Budget, synthesize};

/// Two networks and a gateway; neighbours on both sides are asked for.
fn router(keywords: &str) -> String {
    format!(
        "outA :: ToDevice(a); outB :: ToDevice(b);
         FromDevice(a) -> ca :: Classifier(12/0806 20/0002, 12/0800, -);
         FromDevice(b) -> cb :: Classifier(12/0806 20/0002, 12/0800, -);
         qa :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1{keywords}) -> outA;
         qb :: ARPQuerier(10.0.1.1/24, 2:0:0:0:0:2{keywords}) -> outB;
         ca [0] -> [1] qa; cb [0] -> [1] qb; ca [2] -> Discard; cb [2] -> Discard;
         rt :: RadixIPLookup(10.0.0.0/24 0, 10.0.1.0/24 1, 0/0 10.0.1.254 1);
         ca [1] -> Strip(14) -> CheckIPHeader -> rt; cb [1] -> Strip(14) -> CheckIPHeader -> rt;
         rt [0] -> DecIPTTL -> qa; rt [1] -> DecIPTTL -> qb;"
    )
}

/// Packets that left: where, and their bytes.
type Left = Vec<(ElemId, Vec<u8>)>;
/// A frame of a batch, and how many nanoseconds after the one before it comes.
type Frame = (Vec<u8>, i64);

/// The first difference is told, not all frames.
fn same(want: &Left, got: &Left, who: &str) {
    let differs = want.iter().zip(got).position(|(a, b)| a != b);
    let differs = differs.map(|i| (i, &want[i], &got[i]));
    assert_eq!(differs, None, "{who}");
    assert_eq!(want.len(), got.len(), "{who}");
}

/// The same graph at every level.
struct All {
    reference: Graph,
    program: ProgramRunner,
    flows: Vec<FlowRunner>,
    now: Timestamp,
}

impl All {
    fn new(text: &str) -> All {
        let reference = build(text);
        let program = synthesize(&reference.synthesis_input(), Budget::default());
        let runner = ProgramRunner::with_program(reference.fork(), &program).unwrap();
        let flows = vec![
            FlowRunner::new(runner.fork(), 4096).always(),
            FlowRunner::seeded(runner.fork(), 4096, 7),
        ];
        All {
            reference,
            program: runner,
            flows,
            now: Timestamp::from_secs(1000),
        }
    }

    /// A handler is written to; the program is still the graph's.
    fn write(&mut self, handler: &str, value: &str) {
        self.reference.write_handler(handler, value).unwrap();
        let g = self.program.graph_mut();
        g.write_handler(handler, value).unwrap();
        assert!(!self.program.needs_synthesis(), "{handler}");
        for f in &mut self.flows {
            f.graph_mut().write_handler(handler, value).unwrap();
        }
    }

    /// Frames at a device, each so many nanoseconds after the one before it: what left, in order, which is the same
    /// everywhere.
    fn batch(&mut self, device: &str, frames: &[Frame]) -> Left {
        let source = self.reference.source(device).unwrap();
        let mut at = self.now;
        let timed: Vec<_> = (frames.iter())
            .map(|(f, ns)| {
                at = Timestamp(at.0 + ns);
                (f, at)
            })
            .collect();
        self.now = at;
        let packet = |f: &[u8], at| {
            let mut p: Pkt = Box::new(Packet::from_slice(f));
            p.anno.timestamp = at;
            p
        };
        let mut want = Left::new();
        for (f, at) in &timed {
            self.reference.inject(source, f, *at);
        }
        let seen = |e: ElemId, p: &Pkt| (e, p.data().to_vec());
        (self.reference).drain_transmitted(|e, p| want.push(seen(e, p)));
        let batch = || -> Vec<Pkt> { timed.iter().map(|(f, at)| packet(f, *at)).collect() };
        let mut got = Left::new();
        self.program.inject_stamped(source, &mut batch());
        let g = self.program.graph_mut();
        g.drain_transmitted(|e, p| got.push(seen(e, p)));
        same(&want, &got, "the program");
        for flow in &mut self.flows {
            let mut got = Left::new();
            flow.inject_stamped(source, &mut batch());
            flow.drain_transmitted(|e, p| got.push(seen(e, p)));
            same(&want, &got, "the flow table");
        }
        want
    }

    /// One frame now.
    fn one(&mut self, device: &str, frame: Vec<u8>) -> Left {
        self.batch(device, &[(frame, 0)])
    }

    /// Time passes, and nothing else happens.
    fn wait(&mut self, ms: i64) {
        self.now = self.now + Timestamp::from_millis(ms);
    }

    /// Drops and states are the same everywhere, and no entry was wrong.
    fn compare(&mut self) {
        let drops = self.reference.drops();
        let state = self.reference.state_summary();
        assert_eq!(drops, self.program.graph().drops());
        assert_eq!(state, self.program.graph_mut().state_summary());
        for flow in &mut self.flows {
            assert_eq!(drops, flow.drops());
            assert_eq!(state, flow.graph_mut().state_summary());
            assert_eq!(flow.stats().refused, 0, "{:?}", flow.causes());
        }
    }

    /// Packets that the flow table that is always asked knew; packets that left the program.
    fn hits(&self) -> u64 {
        self.flows[0].stats().hits
    }
    fn punted(&self) -> u64 {
        let report = self.program.report();
        report.punts.iter().map(|p| p.packets).sum()
    }
}

fn udp(src: [u8; 4], dst: [u8; 4], port: u16) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 9, 9, 8, 0];
    let [hi, lo] = port.to_be_bytes();
    let mut ip = vec![0x45, 0, 0, 36, 0, 1, 0x40, 0, 64, 17, 0, 0];
    ip.extend(src);
    ip.extend(dst);
    let sum = checksum::internet(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    f.extend(ip);
    f.extend([hi, lo, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    f.resize(60, 0);
    f
}

/// A host's packet for one of the other network, or for the world.
fn to_b(host: u8) -> Vec<u8> {
    udp([10, 0, 0, 9], [10, 0, 1, host], 5000)
}

fn reply(network: u8, host: u8, mac: u8) -> Vec<u8> {
    let eth = EtherAddr([2, 0, 0, 0, mac, host]);
    let me = EtherAddr([2, 0, 0, 0, 0, network + 1]);
    let mut f = [&me.0[..], &eth.0, &[8, 6]].concat();
    let ip = [10, 0, network, host];
    f.extend(arp::build(arp::REPLY, (eth, ip), (me, [10, 0, network, 1])));
    f.resize(60, 0);
    f
}

/// Where a frame goes.
fn mac(left: &Left, i: usize) -> [u8; 6] {
    left[i].1[..6].try_into().unwrap()
}
fn is_query(f: &(ElemId, Vec<u8>)) -> bool {
    f.1[12..14] == [8, 6]
}

#[test]
fn an_unknown_neighbour_s_packets_wait_and_leave_in_order() {
    let mut all = All::new(&router(""));
    let frames = |n: u16| -> Vec<Frame> {
        (0..n)
            .map(|i| (udp([10, 0, 0, 9], [10, 0, 1, 7], 1000 + i % 4), 0))
            .collect()
    };
    let left = all.batch("a", &frames(5));
    assert_eq!(left.len(), 1, "a query, and all wait");
    assert!(is_query(&left[0]));
    let left = all.one("b", reply(1, 7, 3));
    assert_eq!(left.len(), 5);
    assert_eq!(mac(&left, 4), [2, 0, 0, 0, 3, 7]);
    let punted = all.punted();
    for _ in 0..10 {
        assert_eq!(all.batch("a", &frames(40)).len(), 40);
    }
    assert_eq!(all.punted(), punted, "known packets stay in the program");
    assert!(all.hits() >= 380, "{}", all.hits());
    all.compare();
}

#[test]
fn a_changed_address_takes_effect_in_mid_batch() {
    let mut all = All::new(&router(""));
    all.one("b", reply(1, 7, 3));
    all.one("b", reply(1, 8, 3));
    let mut frames: Vec<Frame> = Vec::new();
    for i in 0..200u8 {
        frames.push((to_b(7 + i % 2), 0));
    }
    assert_eq!(all.batch("a", &frames).len(), 200);
    let hits = all.hits();
    // the reply comes in at the same device, between packets
    let reply_here = |host, mac| {
        let mut f = reply(1, host, mac);
        f[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
        f
    };
    let both = "ca [0] -> t :: Tee(2); t [0] -> [1] qa; t [1] -> [1] qb;";
    let text = router("").replace("ca [0] -> [1] qa;", both);
    let mut mixed = All::new(&text);
    mixed.one("b", reply(1, 7, 3));
    mixed.one("b", reply(1, 8, 3));
    mixed.batch("a", &frames);
    frames[100].0 = reply_here(7, 4);
    let left = mixed.batch("a", &frames);
    assert_eq!(
        (mac(&left, 98), mac(&left, 99)),
        ([2, 0, 0, 0, 3, 7], [2, 0, 0, 0, 3, 8])
    );
    assert_eq!(
        (mac(&left, 101), mac(&left, 100)),
        ([2, 0, 0, 0, 4, 7], [2, 0, 0, 0, 3, 8])
    );
    mixed.compare();
    // and from another device, between batches: entries stay, their action is made anew
    all.one("b", reply(1, 7, 5));
    frames[100].0 = to_b(7);
    let left = all.batch("a", &frames);
    assert_eq!(mac(&left, 0), [2, 0, 0, 0, 5, 7]);
    assert!(all.hits() - hits >= 198, "{}", all.hits() - hits);
    all.compare();
}

#[test]
fn a_reply_that_confirms_changes_nothing() {
    let mut all = All::new(&router(""));
    all.one("b", reply(1, 7, 3));
    all.batch("a", &vec![(to_b(7), 0); 64]);
    let hits = all.hits();
    for i in 0..20 {
        all.one("b", reply(1, 7, 3));
        // others are learnt
        all.one("b", reply(1, 100 + i, 3));
        all.batch("a", &vec![(to_b(7), 1000); 64]);
    }
    assert_eq!(all.hits() - hits, 20 * 64, "each of them was known");
    assert_eq!(all.flows[0].stats().cleared, 0);
    all.compare();
}

#[test]
fn a_query_is_due_and_the_answer_comes_later() {
    let mut all = All::new(&router(", TIMEOUT 300, POLL_TIMEOUT 60"));
    all.one("b", reply(1, 7, 3));
    let frames = |n: usize, ns: i64| vec![(to_b(7), ns); n];
    assert_eq!(all.batch("a", &frames(64, 0)).len(), 64);
    all.wait(59_999);
    assert_eq!(all.one("a", to_b(7)).len(), 1);
    // within a batch, from the 21st packet on: one query for all until 100 ms have passed
    let left = all.batch("a", &frames(64, 50_000));
    let queries: Vec<_> = (0..left.len()).filter(|i| is_query(&left[*i])).collect();
    assert_eq!((left.len(), queries), (65, vec![19]));
    all.wait(90);
    assert!(all.batch("a", &frames(9, 0)).iter().all(|f| !is_query(f)));
    all.wait(100);
    assert_eq!(all.batch("a", &frames(9, 0)).len(), 10);
    let hits = all.hits();
    all.one("b", reply(1, 7, 3));
    all.wait(500);
    assert_eq!(all.batch("a", &frames(64, 0)).len(), 64);
    assert!(all.hits() - hits >= 63);
    all.compare();
}

#[test]
fn an_entry_expires() {
    let mut all = All::new(&router(", TIMEOUT 3, POLL_TIMEOUT 0"));
    all.one("b", reply(1, 7, 3));
    let left = all.batch("a", &vec![(to_b(7), 1_000_000); 2900]);
    assert_eq!(left.len(), 2900);
    // to the millisecond, within a batch
    let left = all.batch("a", &vec![(to_b(7), 1_000_000); 200]);
    assert_eq!(left.iter().filter(|f| is_query(f)).count(), 1);
    assert_eq!(left.len(), 101);
    all.one("b", reply(1, 7, 3));
    all.batch("a", &vec![(to_b(7), 1_000_000); 64]);
    all.compare();
}

#[test]
fn handlers_write_to_the_table() {
    let mut all = All::new(&router(""));
    all.one("b", reply(1, 9, 3));
    all.write("qb.insert", "10.0.1.7 2:0:0:0:6:7");
    let left = all.batch("a", &vec![(to_b(7), 0); 64]);
    assert_eq!((left.len(), mac(&left, 63)), (64, [2, 0, 0, 0, 6, 7]));
    all.write("qb.insert", "10.0.1.7 2:0:0:0:8:7");
    let left = all.batch("a", &vec![(to_b(7), 0); 64]);
    assert_eq!((left.len(), mac(&left, 0)), (64, [2, 0, 0, 0, 8, 7]));
    all.write("qb.delete", "10.0.1.7");
    assert_eq!(all.batch("a", &vec![(to_b(7), 0); 64]).len(), 1);
    all.one("b", reply(1, 7, 3));
    all.write("qb.clear", "");
    assert_eq!(all.batch("a", &vec![(to_b(7), 0); 64]).len(), 1);
    all.compare();
}

#[test]
fn the_table_evicts_at_its_capacity() {
    let mut all = All::new(&router(", ENTRY_CAPACITY 2"));
    all.one("b", reply(1, 7, 3));
    all.one("b", reply(1, 8, 3));
    let both: Vec<Frame> = (0..64).map(|i| (to_b(7 + i % 2), 0)).collect();
    assert_eq!(all.batch("a", &both).len(), 64);
    // a third one is asked for, in mid batch: the oldest one goes, and its packets wait
    let mut more = both.clone();
    more[30].0 = to_b(9);
    let left = all.batch("a", &more);
    let queries = left.iter().filter(|f| is_query(f)).count();
    assert!(queries >= 2, "{queries}");
    all.compare();
}

#[test]
fn broadcasts_and_gateways() {
    let mut all = All::new(&router(""));
    let world = |i: u8| udp([10, 0, 0, 9], [8, 8, 8, i], 5000);
    assert_eq!(all.batch("a", &[(world(1), 0), (world(2), 0)]).len(), 1);
    assert_eq!(all.one("b", reply(1, 254, 3)).len(), 2);
    let hits = all.hits();
    let many: Vec<Frame> = (0..200).map(|i| (world(i), 0)).collect();
    for _ in 0..2 {
        let left = all.batch("a", &many);
        assert_eq!((left.len(), mac(&left, 199)), (200, [2, 0, 0, 0, 3, 254]));
    }
    assert!(all.hits() - hits >= 200);
    // a directed broadcast needs no neighbour, until one says that this is its address
    let left = all.batch("a", &vec![(to_b(255), 0); 64]);
    assert_eq!((left.len(), mac(&left, 63)), (64, [0xff; 6]));
    all.one("b", reply(1, 255, 3));
    let left = all.batch("a", &vec![(to_b(255), 0); 64]);
    assert_eq!(mac(&left, 0), [2, 0, 0, 0, 3, 255]);
    all.compare();
}

/// Whatever happens, in whatever order.
#[test]
fn random_sequences() {
    for (seed, keywords) in [
        (1, ", TIMEOUT 4, POLL_TIMEOUT 1"),
        (
            2,
            ", ENTRY_CAPACITY 4, CAPACITY 12, POLL_TIMEOUT 2, BROADCAST_POLL true",
        ),
        (3, ", ENTRY_PACKET_CAPACITY 2, TIMEOUT 2, POLL_TIMEOUT 0"),
    ] {
        let text = router(keywords).replace(
            "ca [0] -> [1] qa;",
            "ca [0] -> t :: Tee(2); t [0] -> [1] qa; t [1] -> [1] qb;",
        );
        let mut all = All::new(&text);
        let mut r = Rng(seed);
        for round in 0..150 {
            let n = r.below(100) + 1;
            let step = r.of(&[0, 300, 20_000, 2_000_000, 40_000_000]);
            let frames: Vec<Frame> = (0..n)
                .map(|_| {
                    let host = r.of(&[3, 4, 5, 6, 7, 8, 9, 254, 255]);
                    let (here, there) = r.of(&[(0, 1), (1, 0)]);
                    let f = match r.below(40) {
                        0..3 => reply(there, host, r.of(&[1, 1, 1, 1, 2])),
                        3 => udp([10, 0, here, 9], [224, 0, 0, host], 9),
                        4..10 => udp([10, 0, here, 9], [9, 9, 9, host], 9),
                        _ => udp([10, 0, here, 9], [10, 0, there, host], 9),
                    };
                    (f, if r.one_in(3) { step } else { 0 })
                })
                .collect();
            all.batch(r.of(&["a", "a", "b"]), &frames);
            match r.below(60) {
                0 => all.write("qb.clear", ""),
                1 => all.write("qb.insert", "10.0.1.7 2:0:0:0:6:7"),
                2 => all.write("qa.delete", "10.0.0.7"),
                3 => all.wait(3000),
                _ => {}
            }
            if round % 10 == 9 {
                all.compare();
            }
        }
        assert!(all.hits() > 500, "{keywords}: {}", all.hits());
        all.compare();
    }
}

/// A translator between networks whose hosts are learnt; some packets are asked about on the way.
const TRANSLATOR: &str = "
    outA :: ToDevice(a); outB :: ToDevice(b);
    FromDevice(a) -> ca :: Classifier(12/0806 20/0002, 12/0800, -);
    FromDevice(b) -> cb :: Classifier(12/0806 20/0002, 12/0800, -);
    qa :: ARPQuerier(10.0.0.1/24, 2:0:0:0:0:1, TIMEOUT 20, POLL_TIMEOUT 3, ENTRY_CAPACITY 6) -> outA;
    qb :: ARPQuerier(10.0.1.1/24, 2:0:0:0:0:2, TIMEOUT 20, POLL_TIMEOUT 2) -> outB;
    ca [0] -> [1] qa; cb [0] -> [1] qb; ca [2] -> Discard; cb [2] -> Discard;
    rw :: IPRewriter(pattern 10.0.1.1 1024-1063# - - 0 1, drop, CAPACITY 60, UDP_TIMEOUT 30);
    ca [1] -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> port :: IPClassifier(src port < 3, -)
      -> PayloadMatcher(deny string EVIL) -> d :: DecIPTTL; port [1] -> d -> [0] rw;
    cb [1] -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> DecIPTTL -> [1] rw;
    rw [0] -> GetIPAddress(16) -> hop :: RadixIPLookup(10.0.1.0/24 0, 0/0 10.0.1.254 0) -> qb;
    rw [1] -> GetIPAddress(16) -> qa;";

#[test]
fn behind_a_translator_and_asked_elements() {
    let mut all = All::new(TRANSLATOR);
    let mut r = Rng(11);
    let out = all.reference.sinks("b");
    let mut answers: Vec<Vec<u8>> = Vec::new();
    for round in 0..150 {
        let back = r.one_in(3);
        let n = r.below(100) + 1;
        let step = r.of(&[0, 300, 20_000, 2_000_000]);
        let frames: Vec<Frame> = (0..n)
            .map(|_| {
                let host = r.of(&[3, 4, 5, 6, 7, 8, 9]);
                let f = match (r.below(30), back) {
                    (0..2, _) => reply(u8::from(back), host, r.of(&[1, 1, 1, 2])),
                    (2, true) => reply(1, 254, 1),
                    (_, true) if answers.is_empty() => reply(1, host, 1),
                    (_, true) => answers[r.below(answers.len() as u64) as usize].clone(),
                    (3..9, false) => udp([10, 0, 0, host], [9, 9, 9, host], u16::from(host)),
                    _ => udp([10, 0, 0, host], [10, 0, 1, host], r.of(&[1, 7, 7, 7])),
                };
                (f, if r.one_in(3) { step } else { 0 })
            })
            .collect();
        for (e, f) in all.batch(if back { "b" } else { "a" }, &frames) {
            if out.contains(&e) && f[12..14] == [8, 0] && answers.len() < 100 {
                let mut f = f;
                for (x, y, n) in [(26, 30, 4), (34, 36, 2)] {
                    (0..n).for_each(|i| f.swap(x + i, y + i));
                }
                answers.push(f);
            }
        }
        if round % 10 == 9 {
            all.compare();
        }
    }
    let causes = all.flows[0].causes();
    assert!(all.hits() > 1000, "{} {causes:?}", all.hits());
    all.compare();
}

fn address(network: u8, host: u8) -> [u8; 16] {
    let mut a = [
        0x20, 1, 0x0d, 0xb8, 0, network, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    a[15] = host;
    a
}

fn ip6(src: [u8; 16], dst: [u8; 16], next: u8, hops: u8, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 9, 9, 0x86, 0xdd];
    f.extend([0x60, 0, 0, 0, 0, payload.len() as u8, next, hops]);
    f.extend(src);
    f.extend(dst);
    f.extend(payload);
    f
}

/// Neighbour `host` of a network has an address that ends with `mac`.
fn advertisement(network: u8, host: u8, mac: u8) -> Vec<u8> {
    let mut m = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    m.extend(address(network, host));
    m.extend([2, 1, 2, 0, 0, 0, mac, host]);
    let (src, dst) = (address(network, host), address(network, 1));
    let sum = checksum::sum(&m, checksum::pseudo_v6(&src, &dst, 58, 32));
    let sum = !checksum::fold(sum);
    m[2..4].copy_from_slice(&sum.to_be_bytes());
    ip6(src, dst, 58, 255, &m)
}

#[test]
fn neighbours_of_ipv6() {
    let text = "outA :: ToDevice(a); outB :: ToDevice(b);
        FromDevice(a) -> ca :: Classifier(12/86dd 20/3a 54/88, 12/86dd, -);
        FromDevice(b) -> cb :: Classifier(12/86dd 20/3a 54/88, 12/86dd, -);
        na :: IP6NDSolicitor(2001:db8::1, 2:0:0:0:0:1) -> outA;
        nb :: IP6NDSolicitor(2001:db8:1::1, 2:0:0:0:0:2) -> outB;
        ca [0] -> [1] na; cb [0] -> [1] nb; ca [2] -> Discard; cb [2] -> Discard;
        rt :: LookupIP6Route(2001:db8::/48 0, 2001:db8:1::/48 1, ::/0 2001:db8:1::fe 1);
        ca [1] -> Strip(14) -> CheckIP6Header -> GetIP6Address(24) -> rt;
        cb [1] -> Strip(14) -> CheckIP6Header -> GetIP6Address(24) -> rt;
        rt [0] -> DecIP6HLIM -> na; rt [1] -> DecIP6HLIM -> nb;";
    let mut all = All::new(text);
    let packet = |network: u8, to, port| {
        let udp = [0, port, 0, 53, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        ip6(address(1 - network, 9), to, 17, 64, &udp)
    };
    assert_eq!(
        all.one("a", packet(1, address(1, 7), 1)).len(),
        1,
        "a solicitation"
    );
    let left = all.one("b", advertisement(1, 7, 3));
    assert_eq!((left.len(), mac(&left, 0)), (1, [2, 0, 0, 0, 3, 7]));
    for mac in [3, 4] {
        all.one("b", advertisement(1, 7, mac));
        let left = all.batch("a", &vec![(packet(1, address(1, 7), 1), 0); 64]);
        assert_eq!((left.len(), left[63].1[4]), (64, mac));
    }
    assert!(all.hits() > 100, "{}", all.hits());
    // asked again after a minute, forgotten after two, random hosts meanwhile
    let mut r = Rng(3);
    for _ in 0..60 {
        let frames: Vec<Frame> = (0..r.below(80) + 1)
            .map(|_| {
                let host = r.of(&[3, 4, 5, 6, 7]);
                let f = match r.below(20) {
                    0 => advertisement(0, host, r.of(&[1, 1, 2])),
                    1..3 => advertisement(1, host, r.of(&[1, 1, 2])),
                    3 => advertisement(1, 0xfe, 1),
                    4..7 => packet(1, [0x26; 16], 1),
                    7 => packet(0, address(0, host), 2),
                    _ => packet(1, address(1, host), r.of(&[1, 2])),
                };
                (f, r.of(&[0, 0, 1000, 5_000_000]))
            })
            .collect();
        all.batch(r.of(&["a", "b"]), &frames);
        all.wait(r.of(&[0, 0, 1000, 14_000, 40_000]));
        all.compare();
    }
}

/// Each neighbour is an action of its own, and there may be 65,536: the flow table begins anew behind them, also where
/// most of them have long gone.
#[test]
fn more_neighbours_than_there_are_actions() {
    let text = router("").replace("10.0.1.1/24", "10.64.0.1/10");
    let text = text.replace("10.0.1.0/24 1", "10.64.0.0/10 1");
    let mut all = All::new(&text);
    let host = |i: u32| [10, 64 + (i >> 16) as u8, (i >> 8) as u8, i as u8];
    let hello = |i: u32| {
        let [_, a, b, c] = host(i);
        let (eth, me) = (EtherAddr([2, 0, 0, a, b, c]), EtherAddr([2, 0, 0, 0, 0, 2]));
        let mut f = [&me.0[..], &eth.0, &[8, 6]].concat();
        f.extend(arp::build(arp::REPLY, (eth, host(i)), (me, [10, 64, 0, 1])));
        f.resize(60, 0);
        (f, 0)
    };
    let one = |i: u32| (udp([10, 0, 0, 9], host(i), 5000), 1000);
    const MANY: u32 = 67_000;
    for first in (0..MANY).step_by(500) {
        let hosts = first..first + 500;
        all.batch("b", &hosts.clone().map(hello).collect::<Vec<_>>());
        let frames: Vec<Frame> = hosts.flat_map(|i| [one(i), one(i)]).collect();
        assert_eq!(all.batch("a", &frames).len(), 1000);
    }
    let stats = all.flows[0].stats();
    assert_eq!(stats.cleared, 1, "{stats:?} {:?}", all.flows[0].causes());
    // and packets are known again
    let hits = all.hits();
    let last: Vec<Frame> = (MANY - 100..MANY).flat_map(|i| [one(i), one(i)]).collect();
    all.batch("a", &last);
    assert!(all.hits() - hits >= 100, "{}", all.hits() - hits);
    all.compare();
}
