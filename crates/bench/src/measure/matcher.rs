//! The payload matcher alone, on the payloads that a chain gives it.
//!
//! The chain's packets are sent through its reference graph once, and what its matchers are given is written down;
//! then they look through the same payloads again, with nothing else done. What a matcher finds is not followed up:
//! rules that may match are verified by their elements, and that is the elements' time.

use super::aim::Lane;
use super::clock::Times;
use super::report::Spread;
use onefold_elements::payload::scan::record::{Recording, record};
use onefold_engine::Graph;
use onefold_packet::Timestamp;
use serde::Serialize;

/// Packets of a lane that are sent, at most.
const PACKETS: usize = 4096;
/// Packets sent together.
const BATCH: usize = 64;
/// Bytes of payload that are kept at most.
const BYTES: usize = 16 << 20;
/// Rounds of which the median is taken.
const ROUNDS: usize = 9;
/// A round takes so long at least, in nanoseconds.
const ROUND_NS: u64 = 1_000_000;

/// What a chain's payload matchers take of a packet's time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatcherReport {
    /// Who looks, and for how many patterns; of several matchers, each once.
    pub engines: Vec<String>,
    /// Packets that were sent through the chain for it.
    pub packets: usize,
    /// Payloads looked through, for each of these packets.
    pub scans_per_packet: f64,
    /// Their mean length.
    pub bytes_per_scan: f64,
    /// Nanoseconds of processor time for a payload.
    pub ns_per_scan: Spread,
    /// The same for a packet of the chain.
    pub ns_per_packet: Spread,
}

/// Sends the first packets of each lane through a graph.
fn send(graph: &mut Graph, lanes: &[Lane], at: Timestamp) -> usize {
    let mut sent = 0;
    let (mut batch, mut out) = (Vec::new(), Vec::new());
    for lane in lanes {
        let n = lane.templates.len();
        // of many, some from all over
        let step = n.div_ceil(PACKETS).max(1);
        let mut places = (0..n).step_by(step).peekable();
        while places.peek().is_some() {
            let some = places.by_ref().take(BATCH);
            batch.extend(some.map(|i| graph.make_packet(lane.templates.get(i))));
            sent += batch.len();
            graph.inject_batch(lane.source, &mut batch, at);
            graph.collect_transmitted(&mut out);
            out.clear();
        }
    }
    sent
}

/// Nanoseconds of a round: the whole recording, as often as it takes to be measured.
fn round(r: &mut Recording) -> f64 {
    let start = Times::now();
    let mut times = 0u32;
    loop {
        std::hint::black_box(r.replay());
        times += 1;
        let ns = Times::now().since(start).cpu_ns;
        // a system without such a clock gives zeros
        if ns >= ROUND_NS || times == 1000 {
            return ns as f64 / f64::from(times);
        }
    }
}

/// Measures the matchers of a chain; `None`: its packets come to none.
pub fn matcher(graph: &Graph, lanes: &[Lane], at: Timestamp) -> Option<MatcherReport> {
    let mut graph = graph.fork();
    let mut packets = 0;
    let mut r = record(BYTES, || packets = send(&mut graph, lanes, at));
    let scans = r.scans();
    if scans == 0 {
        return None;
    }
    let mut engines = Vec::new();
    for s in r.scanners() {
        let e = s.engine().to_string();
        if !engines.contains(&e) {
            engines.push(e);
        }
    }
    round(&mut r);
    let all: Vec<f64> = (0..ROUNDS).map(|_| round(&mut r)).collect();
    let by = |n: usize| Spread::of(all.iter().map(|ns| ns / n.max(1) as f64));
    Some(MatcherReport {
        engines,
        packets,
        scans_per_packet: scans as f64 / packets.max(1) as f64,
        bytes_per_scan: r.bytes() as f64 / scans as f64,
        ns_per_scan: by(scans)?,
        ns_per_packet: by(packets)?,
    })
}
