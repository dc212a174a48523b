//! Days on the virtual clock: hosts come and go, flows time out, neighbours have to be asked again, every night is
//! quiet. Packets are conserved, and memory stays as it is.

use crate::common;

use common::{root, run, temp};
use onefold_capture::CaptureReader;
use onefold_chain::{Chain, LivePort, Options, load_live};
use onefold_element::ElemId;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_engine::{BuildOptions, Executor, Graph};
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize};
use onefold_verify::Rng;
use onefold_verify::frame::answer;
use onefold_verify::solicitation::asks_for_neighbour;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const SECOND: i64 = 1_000_000_000;

/// A chain, and where its traffic enters and comes back.
struct Case {
    chain: &'static str,
    entry: &'static str,
    /// Flows: more than are active within any time-out. Each has hosts of its own. Where these are neighbours, the flow
    /// table keeps an action for each that was ever one and each way to it, up to 65,536 in all: few enough that all
    /// have been there long before the end.
    flows: usize,
    /// From this day on what is allocated may not grow.
    settled: i64,
}

const CASES: [Case; 3] = [
    Case {
        chain: "isp-edge",
        entry: "lan",
        flows: 20_000,
        settled: 2,
    },
    Case {
        chain: "kitchen-sink",
        entry: "trunk",
        flows: 5_000,
        settled: 9,
    },
    Case {
        chain: "ipv6-edge",
        entry: "lan",
        flows: 20_000,
        settled: 2,
    },
];

/// Frames of flows that the chain lets pass, as `gen` makes them.
fn frames(dir: &Path, case: &Case) -> Vec<Vec<u8>> {
    let (aim, n) = (
        format!("{}:{}", case.chain, case.entry),
        case.flows.to_string(),
    );
    let out = "flows.pcap";
    let args = ["--packets", &n, "--flows", &n, "--out", out, "-q"];
    run(dir, 0, &[&["gen", "--for", &aim][..], &args].concat());
    let mut r = CaptureReader::open(dir.join(out)).unwrap();
    let (mut all, mut frame) = (Vec::new(), Vec::new());
    while let Some(meta) = r.next_into(&mut frame) {
        meta.unwrap();
        all.push(frame.clone());
    }
    all
}

/// The chain with network interfaces at its ports: functions ask for their neighbours.
fn load(case: &Case) -> Chain {
    let options = Options {
        set: Vec::new(),
        examples: vec![root().join("chains")],
    };
    let written = onefold_chain::load(case.chain, &options).unwrap();
    let live: Vec<LivePort> = (written.ports.iter())
        .filter(|p| p.source.is_some())
        .map(|p| LivePort {
            port: p.name.clone(),
            // the one that it has: `gen` aims at it
            mac: None,
            mtu: 1500,
            learns: true,
        })
        .collect();
    load_live(case.chain, &options, &live).unwrap().0
}

/// A frame that arrives: when, behind how many others, where.
type Arrival = Reverse<(i64, u64, usize, Vec<u8>)>;

struct Days {
    executor: FlowRunner,
    entries: Vec<ElemId>,
    /// By element: the entry of the port that it leads to.
    sinks: Vec<Option<usize>>,
    /// Answers under way; as many as leave within [`DELAY`].
    due: BinaryHeap<Arrival>,
    sent: u64,
    answered: u64,
    asked: u64,
    rng: Rng,
}

/// Answers come back after so long.
const DELAY: i64 = 30_000_000;

impl Days {
    fn new(chain: &Chain, seed: u64) -> Days {
        let options = BuildOptions {
            start: Timestamp::from_secs(1000),
            ..Default::default()
        };
        let graph =
            Graph::build(chain.graph.clone(), &options).unwrap_or_else(|e| panic!("{:?}", e.0));
        let program = synthesize(&graph.synthesis_input(), Budget::default());
        let mut sinks = vec![None; graph.len()];
        let mut entries = Vec::new();
        for p in chain.ports.iter().filter(|p| p.source.is_some()) {
            for s in &p.sinks {
                sinks[*s] = Some(entries.len());
            }
            entries.extend(p.source.map(|s| ElemId(s as u32)));
        }
        let program = ProgramRunner::with_program(graph, &program).unwrap();
        Days {
            executor: FlowRunner::new(program, 4096),
            entries,
            sinks,
            due: BinaryHeap::new(),
            sent: 0,
            answered: 0,
            asked: 0,
            rng: Rng::new(seed),
        }
    }

    /// What arrives by `until`, in order of time, and what comes back for what leaves.
    fn settle(&mut self, until: i64) {
        let (mut batch, mut left): (Vec<Pkt>, _) = (Vec::new(), Vec::new());
        while self.due.peek().is_some_and(|Reverse(a)| a.0 <= until) {
            let Some(Reverse((at, _, port, frame))) = self.due.pop() else {
                break;
            };
            let mut p = self.executor.make_packet(&frame);
            p.anno.timestamp = Timestamp(at);
            batch.push(p);
            // packets of one port in a row are one batch
            let more = |Reverse(a): &Arrival| a.0 <= until.min(at + DELAY / 2) && a.2 == port;
            if batch.len() < 64 && self.due.peek().is_some_and(more) {
                continue;
            }
            self.executor.run(self.entries[port], &mut batch);
            self.take(at, &mut left);
        }
        self.executor.advance(Timestamp(until));
        self.take(until, &mut left);
    }

    fn take(&mut self, at: i64, left: &mut Vec<(ElemId, Pkt)>) {
        self.executor.take_transmitted(left);
        for (sink, p) in left.drain(..) {
            let Some(port) = self.sinks[sink.0 as usize] else {
                continue;
            };
            let asks = asks_for_neighbour(p.data());
            self.asked += u64::from(asks);
            // some hosts are silent
            if !asks && self.rng.one_in(4) {
                continue;
            }
            let Some(back) = answer(p.data()) else {
                continue;
            };
            self.sent += 1;
            self.answered += 1;
            self.due.push(Reverse((at + DELAY, self.sent, port, back)));
        }
    }

    /// Packets a second: nothing from two to four at night.
    fn rate(second: i64) -> f64 {
        let hour = (second % DAY) as f64 / HOUR as f64;
        let wave = 1.0 - (hour / 24.0 * std::f64::consts::TAU).cos();
        if (2.0..4.0).contains(&hour) {
            0.0
        } else {
            1.0 + 6.0 * wave
        }
    }

    /// Simulated time passes, with flows that come and go: each sends for some minutes, twenty at a time send most.
    fn pass(&mut self, frames: &[Vec<u8>], from: i64, seconds: i64) {
        let start = 1000 * SECOND;
        for s in from..from + seconds {
            let n = self.rng.below((2.0 * Days::rate(s)) as usize + 1);
            for _ in 0..n {
                let window = if self.rng.one_in(4) { 400 } else { 20 };
                let flow = (s / 3) as usize + self.rng.below(window);
                let at = start + s * SECOND + self.rng.below(SECOND as usize) as i64;
                self.sent += 1;
                let frame = frames[flow % frames.len()].clone();
                self.due.push(Reverse((at, self.sent, 0, frame)));
            }
            self.settle(start + (s + 1) * SECOND);
        }
        let totals = self.executor.totals();
        assert!(totals.balanced(), "packets are conserved: {totals:?}");
        assert!(
            self.due.len() < 1000,
            "{} answers under way",
            self.due.len()
        );
    }
}

/// Kilobytes that are allocated. Tables have their place from the beginning, of which pages become resident as hashes
/// find them, ever more slowly over weeks: what is resident grows for longer than anything is allocated.
/// Where the allocator does not say, what is resident counts.
fn allocated() -> u64 {
    onefold_table::allocated().map_or_else(resident, |bytes| bytes as u64 / 1024)
}

/// Kilobytes of memory that the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// All chains, for so many rounds of so many seconds. From a chain's settled round on, or from round `at_most`, what is
/// allocated may not grow by more than `room` kilobytes.
fn all(name: &str, (rounds, seconds): (i64, i64), at_most: i64, room: u64) {
    for case in &CASES {
        let dir = temp(name);
        let frames = frames(&dir, case);
        assert!(frames.len() >= case.flows / 2, "{}", frames.len());
        let mut days = Days::new(&load(case), 1);
        let mut before = [0; 2];
        // the first round begins at noon
        let mut at = 12 * HOUR;
        for round in 0..rounds {
            days.pass(&frames, at, seconds);
            at += seconds;
            if round == case.settled.min(at_most) {
                before = [allocated(), resident()];
            }
        }
        let (t, after) = (days.executor.totals(), [allocated(), resident()]);
        let s = days.executor.stats();
        println!(
            "{}: {} minutes, {} packets ({} answers, {} neighbours asked), {:?} hits {}, allocated and resident \
             {:?} KiB, then {:?}",
            case.chain,
            rounds * seconds / 60,
            days.sent,
            days.answered,
            days.asked,
            t,
            s.hits,
            before,
            after
        );
        assert!(
            days.answered > days.sent / 8,
            "hardly anything comes through"
        );
        assert!(days.asked > 0, "nobody asks for neighbours");
        assert!(
            after[0] <= before[0] + room,
            "memory grows: {before:?} KiB, then {after:?}"
        );
    }
}

#[test]
fn time_passes_and_memory_stays() {
    all("days-some", (3, 300), 1, 2048);
}

/// `scripts/soak.sh days`.
#[test]
#[ignore = "minutes; make soak-days"]
fn thirty_days_pass_and_memory_stays() {
    all("days-thirty", (30, DAY), 30, 2048);
    println!(
        "soak: 30 simulated days of {} chains, packets conserved, memory flat",
        CASES.len()
    );
}
