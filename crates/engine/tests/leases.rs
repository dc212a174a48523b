//! Leased connections: whatever comes, in whatever order, is what it is in the reference graph; packets, counts, and
//! everything that the tracker remembers.

#[allow(dead_code)]
use crate::harness;

use harness::{Rng, build};
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_packet::{Pkt, Timestamp, checksum};
use onefold_synth::{Budget, synthesize};

/// Both directions come in at one device, or at two; new connections have to be of two ports, unless somebody changes
/// that. `CAPACITY` and time-outs are small.
const CHAIN: &str = "
    connections :: ConnTable(CAPACITY 24, UDP 2, UDP_STREAM 4, TCP_ESTABLISHED 5, TCP_CLOSE 1, TCP_FIN_WAIT 1);
    out :: ToDevice(out);
    FromDevice(in) -> Strip(14) -> CheckIPHeader
      -> up :: ConnTrack(connections, established, related, new, -);
    up [0] -> n :: Counter -> passed :: Unstrip(14) -> out; up [1] -> passed;
    up [2] -> rules :: IPClassifier(dst port 53 or dst port 80, -);
    rules [0] -> ConnConfirm(connections) -> passed; rules [1] -> Discard;
    up [3] -> bad :: Counter -> Discard;
    FromDevice(other) -> Strip(14) -> CheckIPHeader
      -> down :: ConnTrack(connections, established.reply.seen-reply.assured.confirmed, established related, -);
    down [0] -> back :: Unstrip(14) -> ToDevice(back); down [1] -> back; down [2] -> Discard;";

pub(crate) type Left = Vec<(ElemId, Vec<u8>)>;

fn left(all: Vec<(ElemId, Pkt)>) -> Left {
    all.into_iter()
        .map(|(e, p)| (e, p.data().to_vec()))
        .collect()
}

/// The same graph at each level: the flow table's packets come in batches, and one by one.
pub(crate) struct Levels {
    pub reference: Graph,
    program: ProgramRunner,
    pub batches: FlowRunner,
    single: FlowRunner,
    now: Timestamp,
}

impl Levels {
    pub fn new(text: &str) -> Levels {
        let g = build(text);
        let program = synthesize(&g.synthesis_input(), Budget::default());
        let runner = ProgramRunner::with_program(g.fork(), &program).unwrap();
        let flow = |flows| FlowRunner::new(runner.fork(), flows).always();
        Levels {
            batches: flow(4096),
            // so few that entries give way, too
            single: flow(64),
            program: runner,
            reference: g,
            now: Timestamp::from_secs(1),
        }
    }

    /// The same as they were when nothing had come.
    pub fn again(&self) -> Levels {
        let flow = |flows| FlowRunner::new(self.program.fork(), flows).always();
        Levels {
            batches: flow(4096),
            single: flow(64),
            program: self.program.fork(),
            reference: self.reference.fork(),
            now: self.now,
        }
    }

    pub fn batch(&mut self, device: &str, frames: &[Vec<u8>], ns: i64) -> Left {
        self.now = Timestamp(self.now.0 + ns);
        let (now, source) = (self.now, self.reference.source(device).unwrap());
        let mut batch = Vec::new();
        for f in frames {
            self.reference.inject(source, f, now);
            self.program.inject(source, f, now);
            self.single.inject(source, f, now);
            let mut p = self.batches.make_packet(f);
            p.anno.timestamp = now;
            batch.push(p);
        }
        self.batches.inject_batch(source, &mut batch, now);
        let want = left(self.reference.take_transmitted());
        assert_eq!(want, left(self.program.graph_mut().take_transmitted()));
        for flow in [&mut self.single, &mut self.batches] {
            let mut got = Left::new();
            flow.drain_transmitted(|e, p| got.push((e, p.data().to_vec())));
            assert_eq!(want, got);
        }
        want
    }

    pub fn write(&mut self, handler: &str, value: &str) {
        self.reference.write_handler(handler, value).unwrap();
        for g in [
            self.program.graph_mut(),
            self.single.graph_mut(),
            self.batches.graph_mut(),
        ] {
            g.write_handler(handler, value).unwrap();
        }
    }

    pub fn compare(&mut self) {
        let want = self.reference.state_summary();
        let table = self.reference.read_handler("connections.table").unwrap();
        for g in [
            self.program.graph_mut(),
            self.single.graph_mut(),
            self.batches.graph_mut(),
        ] {
            assert_eq!(want, g.state_summary());
            assert_eq!(table, g.read_handler("connections.table").unwrap());
            for h in ["count", "new", "established", "related", "invalid", "ended"] {
                let h = format!("connections.{h}");
                assert_eq!(
                    self.reference.read_handler(&h).unwrap(),
                    g.read_handler(&h).unwrap(),
                    "{h}"
                );
            }
        }
    }
}

/// What comes of connections, per cent.
#[derive(Clone, Copy)]
pub(crate) struct Mix {
    pub hosts: u64,
    /// Segments with flags that change a connection, or no segment has.
    pub lively: u64,
    /// Packets with something wrong about them.
    pub damaged: u64,
    /// ICMP, errors among it.
    pub icmp: u64,
}

/// A packet of one of few connections, either way.
pub(crate) fn packet(r: &mut Rng, mix: Mix, back: bool) -> Vec<u8> {
    let host = r.below(mix.hosts) as u8;
    let (inside, outside) = ((1000 + u16::from(host % 3)).to_be_bytes(), [0, 80]);
    let (mut ends, mut ports) = (([10, 0, 0, host], [10, 0, 0, 200]), (inside, outside));
    if back {
        (ends, ports) = ((ends.1, ends.0), (ports.1, ports.0));
    }
    let tcp = r.one_in(2);
    let upper = match tcp {
        true => {
            let flags = match r.below(100) < mix.lively {
                true => r.of(&[0x02, 0x02, 0x12, 0x11, 0x11, 0x04, 0x14, 0x30, 0x00, 0x3f]),
                false => r.of(&[0x10, 0x10, 0x18, 0xd0]),
            };
            let number = |r: &mut Rng| {
                let far = r.of(&[0, 0, 0, 0, 0, 0, 0x4000_0000, 0x8000_0001]);
                (r.below(4) as u32 * 4 + far).to_be_bytes()
            };
            let (seq, ack) = (number(r), number(r));
            let options = r.of(&[0usize, 0, 0, 12]);
            let mut b = [&ports.0[..], &ports.1, &seq, &ack].concat();
            b.extend([0x50 + (options as u8) * 4, flags, 1, 0, 0, 0, 0, 0]);
            b.extend(vec![1; options]);
            b
        }
        false => [&ports.0[..], &ports.1, &[0; 4]].concat(),
    };
    let payload = vec![7; r.of(&[0, 0, 1, 4, 6, 30, 200])];
    let b = whole(
        r,
        ends,
        if tcp { 6 } else { 17 },
        &[&upper[..], &payload].concat(),
    );
    if r.below(100) < mix.icmp {
        let quoted = &b[14..b.len().min(14 + 48)];
        // an error is sent to whom the packet came from
        let kind = r.of(&[3u8, 3, 11, 8, 0]);
        let upper = [&[kind, 0, 0, 0, 0, 0, 0, host][..], quoted].concat();
        return whole(r, (ends.1, ends.0), 1, &upper);
    }
    match r.below(100) < mix.damaged {
        true => damage(r, b),
        false => b,
    }
}

/// With lengths and checksums that are right.
pub(crate) fn whole(
    r: &mut Rng,
    (src, dst): ([u8; 4], [u8; 4]),
    protocol: u8,
    upper: &[u8],
) -> Vec<u8> {
    let mut upper = upper.to_vec();
    let len = upper.len() as u16;
    let (at, pseudo) = match protocol {
        6 => (
            16,
            checksum::sum(&src, checksum::sum(&dst, 6 + u64::from(len))),
        ),
        17 => (
            6,
            checksum::sum(&src, checksum::sum(&dst, 17 + u64::from(len))),
        ),
        _ => (2, 0),
    };
    if protocol == 17 {
        upper[4..6].copy_from_slice(&len.to_be_bytes());
    }
    let sum = !checksum::fold(checksum::sum(&upper, pseudo));
    if protocol != 17 || !r.one_in(4) {
        upper[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let mut b = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    b.extend((20 + len).to_be_bytes());
    b.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
    b.extend([src, dst].concat());
    header_sum(&mut b);
    b.extend(upper);
    // frames are filled up, with something that adds to sums
    if r.one_in(2) {
        b.resize(b.len().max(60) + r.below(6) as usize, 0xa5);
    }
    b
}

fn header_sum(b: &mut [u8]) {
    b[24..26].fill(0);
    let sum = checksum::internet(&b[14..34]);
    b[24..26].copy_from_slice(&sum.to_be_bytes());
}

/// A bit, a length, a fragment, an option.
fn damage(r: &mut Rng, mut b: Vec<u8>) -> Vec<u8> {
    let total = usize::from(u16::from_be_bytes([b[16], b[17]]));
    match r.below(6) {
        // behind the addresses: ports, numbers, flags, lengths, checksums, payload
        0 | 1 => {
            let at = 34 + r.below(total as u64 - 20) as usize;
            b[at] ^= 1 << r.below(8);
        }
        // IP says another length
        2 | 3 => {
            let total = (total as u64 - r.below(30).min(total as u64 - 20)) as u16;
            b[16..18].copy_from_slice(&total.to_be_bytes());
            header_sum(&mut b);
        }
        4 => {
            b[20] = 0x20;
            header_sum(&mut b);
        }
        _ => b.truncate(b.len() - r.below(20) as usize),
    }
    b
}

fn run(mix: Mix, rounds: usize, seed: u64) -> Levels {
    let mut l = Levels::new(CHAIN);
    let mut r = Rng(seed);
    for round in 0..rounds {
        let ns = r.of(&[0, 0, 0, 1_000_000, 100_000_000, 900_000_000, 2_100_000_000]);
        let n = r.below(150) as usize + 1;
        let one_way = r.one_in(3);
        let some: Vec<_> = (0..n)
            .map(|_| {
                let back = !one_way && r.one_in(2);
                packet(&mut r, mix, back || one_way)
            })
            .collect();
        l.batch(if one_way { "other" } else { "in" }, &some, ns);
        // whoever has a program waits for another one from here on, which nobody makes
        if round + 20 == rounds {
            if r.one_in(2) {
                l.write("connections.flush", "");
            }
            let pattern = r.of(&["dst port 53", "dst port 53 or dst port 80", "tcp", "udp"]);
            l.write("rules.pattern0", pattern);
        }
        if round % 10 == 9 {
            l.compare();
        }
    }
    l.compare();
    l
}

/// Of so many packets in a thousand at least, leases must have taken care.
fn check(mix: Mix, rounds: usize, seed: u64, least: u64) {
    let l = run(mix, rounds, seed);
    let s = l.batches.stats();
    assert_eq!(s.refused, 0, "{:?}", l.batches.causes());
    assert!(
        s.leased * 1000 >= least * s.hits,
        "{s:?} {:?}",
        l.batches.not_composed()
    );
}

const QUIET: Mix = Mix {
    hosts: 6,
    lively: 2,
    damaged: 0,
    icmp: 0,
};

#[test]
fn packets_of_few_connections_are_noted_in_leases() {
    for seed in 1..4 {
        check(QUIET, 150, seed, 100);
    }
}

#[test]
fn resets_and_the_like_end_leases() {
    for (lively, seed) in [(5, 11), (20, 12), (20, 13), (60, 14)] {
        check(Mix { lively, ..QUIET }, 150, seed, 10);
    }
}

#[test]
fn what_is_wrong_is_not_noted() {
    for (damaged, icmp, seed) in [(3, 2, 21), (20, 5, 22), (30, 30, 23)] {
        let mix = Mix {
            damaged,
            icmp,
            lively: 4,
            ..QUIET
        };
        // groups of such packets go one by one, for the most part
        check(mix, 150, seed, u64::from(damaged == 3));
    }
}

/// More connections than the table has room for: records, and their leases' places, are used again.
#[test]
fn leases_of_connections_that_gave_way_are_over() {
    for (hosts, lively, seed) in [(14, 3, 31), (40, 3, 32), (40, 15, 33)] {
        let mix = Mix {
            hosts,
            lively,
            damaged: 2,
            icmp: 2,
        };
        check(mix, 200, seed, 0);
    }
}

/// A reset between segments of one batch: those behind it are of a connection that is closed.
#[test]
fn a_reset_in_the_middle_of_a_batch() {
    let mut l = Levels::new(CHAIN);
    let mut r = Rng(77);
    let mut segment = |back: bool, flags: u8, seq: u32, ack: u32| {
        let (inside, outside) = ([10, 0, 0, 1], [10, 0, 0, 200]);
        let (ports, ends) = match back {
            true => ([0, 80, 4, 210], (outside, inside)),
            false => ([4, 210, 0, 80], (inside, outside)),
        };
        let mut b = [&ports[..], &seq.to_be_bytes(), &ack.to_be_bytes()].concat();
        b.extend([0x50, flags, 1, 0, 0, 0, 0, 0, 7, 7]);
        whole(&mut r, ends, 6, &b)
    };
    let opened = [
        segment(false, 2, 10, 0),
        segment(true, 0x12, 20, 11),
        segment(false, 0x10, 11, 21),
    ];
    let there = segment(false, 0x10, 11, 21);
    let back = segment(true, 0x18, 21, 11);
    let reset = segment(false, 4, 13, 0);
    l.batch("in", &opened, 0);
    let many: Vec<_> = (0..40)
        .flat_map(|_| [there.clone(), back.clone()])
        .collect();
    for _ in 0..8 {
        l.batch("in", &many, 1_000_000);
    }
    let before = l.batches.stats().leased;
    assert!(before > 100, "{:?}", l.batches.stats());
    // the last one of them goes the reset's way: it is of their train
    let mut some = many[..21].to_vec();
    some.push(reset);
    some.extend_from_slice(&many[..20]);
    l.batch("in", &some, 1_000_000);
    assert_eq!(l.batches.stats().leased - before, 21);
    l.compare();
    let table = l.reference.read_handler("connections.table").unwrap();
    assert!(table.contains("CLOSE"), "{table}");
}
