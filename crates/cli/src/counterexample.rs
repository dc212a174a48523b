//! Packets that show what a proof has found to be different.

use crate::common::thousands;
use crate::progress::Progress;
use crate::runner;
use anyhow::Result;
use onefold_engine::Graph;
use onefold_synth::Program;
use onefold_verify::generate::Port;
use onefold_verify::prove::witness::{Evidence, Look};
use onefold_verify::prove::{Doubt, Proof, witness};
use onefold_verify::{At, Difference, Event};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most packets that are tried when none of the proof's own shows a difference: what is rare among them, such as a
/// checksum that becomes zero between two rewriters, must come up.
pub const PACKETS: u64 = 200_000;

/// Beyond the deadline, a sequence of packets that was found in time is made smaller for so long at most.
const GRACE_SECONDS: u64 = 5;

/// A difference that packets show.
#[derive(Clone)]
pub struct Shown {
    /// Port and frame, in order; the last shows it.
    pub packets: Vec<(String, Vec<u8>)>,
    /// In words.
    pub difference: String,
}

/// How packets are looked for.
pub struct Search {
    /// Most packets that are tried when none of the proof's own does.
    pub packets: u64,
    /// Seed of the packets.
    pub seed: u64,
    /// What shows a difference is made smaller for so long at most.
    pub shrink_time: Duration,
    /// No longer than this.
    pub deadline: Option<Instant>,
    /// No progress bar.
    pub quiet: bool,
}

/// Looks for packets that show what differs: the frames of the proof first, then packets made for the program's rules.
pub fn show(
    graph: &Graph,
    program: &Program,
    ports: &[Port],
    proof: &Proof,
    how: &Search,
) -> Result<Option<Shown>> {
    let name = |e: &Event| {
        let p = ports.iter().find(|p| p.source == e.source);
        p.map_or("?".to_string(), |p| p.name.clone())
    };
    // what happens besides packets is said in words
    let clears = |events: &[Event]| -> String {
        let before = |i: usize| events.iter().take(i).filter(|e| e.source.is_some()).count();
        let all = events.iter().enumerate();
        all.filter_map(|(i, e)| Some((before(i) + 1, graph.name(e.clears?))))
            .map(|(n, elem)| format!("; {elem}.clear is written before packet {n}"))
            .collect()
    };
    let told = |events: &[Event], difference: String| Shown {
        packets: (events.iter().filter(|e| e.source.is_some()))
            .map(|e| (name(e), e.bytes.clone()))
            .collect(),
        difference: difference + &clears(events),
    };
    let mut progress = Progress::new(how.packets, how.quiet);
    let look = Look {
        packets: how.packets,
        seed: how.seed,
        shrink_time: how.shrink_time,
    };
    let mut sent = 0;
    let mut go_on = |at| {
        // what was found is made small within a little more time
        let (message, late) = match at {
            At::Packets(n) => {
                sent = n;
                (
                    format!("a packet that shows it: {}", thousands(n)),
                    Duration::ZERO,
                )
            }
            At::Shrinking(n) => (
                format!("made smaller: {} packets", thousands(n as u64)),
                Duration::from_secs(GRACE_SECONDS),
            ),
        };
        progress.at(sent, || message);
        !runner::interrupted().load(Ordering::SeqCst)
            && how.deadline.is_none_or(|d| Instant::now() < d + late)
    };
    let different = &proof.different;
    let found = witness::refute(graph, program, ports, different, &look, &mut go_on);
    progress.finish();
    Ok(found?.map(|s| match &s.evidence {
        Evidence::Seen(d) => told(&s.events, difference(d)),
        Evidence::Certain(d) => told(&s.events, place(graph, d)),
    }))
}

/// A difference in words.
fn difference(d: &Difference) -> String {
    format!(
        "{} at {}: reference {}, program {}",
        d.what, d.place, d.left, d.right
    )
}

/// Bytes in hexadecimal.
pub fn hex(b: &[u8]) -> String {
    b.iter().map(|x| format!("{x:02x}")).collect()
}

/// Where something was not shown to be the same.
pub fn place(graph: &Graph, d: &Doubt) -> String {
    let action = d.action.map_or(String::new(), |a| format!(" a{a}"));
    format!(
        "from {}, stage{}{action}, at {}: {}",
        graph.name(d.source),
        d.stage.0,
        graph.name(d.elem),
        d.what
    )
}
