//! What `onefold run` executes chains with: levels chosen by costs that the input makes up, a flow table that may be
//! small, and between batches handler writes, programs loaded anew, copies that go on in the original's place, and
//! overload. After every batch: what left, in order, drops, account; in the end the states. A packet that is dropped as
//! overload counts as one that never came.

use crate::packet_path::{Arrival, EXAMPLES, Example, Left, batches, collect, equal, scalar};
use crate::script::Script;
use onefold_element::ElemId;
use onefold_engine::flow::{FlowRunner, OVERLOAD};
use onefold_engine::{DropCount, Graph};

/// What happens between two batches.
#[derive(Debug, Clone, Copy)]
enum Between {
    Nothing,
    /// Rewriters forget their flows.
    Clear,
    /// Counters begin anew.
    Reset,
    /// The program is loaded anew.
    Load,
    /// A copy goes on.
    Fork,
    /// From here on, unknown flows get a share of the time only.
    Protect(f64),
}

/// Numbers that follow from the input.
struct Numbers(u64);

impl Numbers {
    fn of(data: &[u8]) -> Numbers {
        // FNV-1a
        let hash = data.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
        });
        Numbers(hash | 1)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }
    fn between(&mut self) -> Between {
        match self.below(24) {
            0 => Between::Clear,
            1 => Between::Reset,
            2 => Between::Load,
            3 => Between::Fork,
            4 => Between::Protect(self.below(4) as f64 / 100.0),
            _ => Between::Nothing,
        }
    }
}

/// Writes to this handler of every element that has it.
fn write_all(g: &mut Graph, handler: &str) {
    for i in 0..g.len() as u32 {
        if g.has_handler(ElemId(i), handler, true) {
            let call = format!("{}.{handler}", g.name(ElemId(i)));
            // one that refuses does so in every execution
            let _refused = g.write_handler(&call, "");
        }
    }
}

/// Both executions, and what they agree on.
struct Both<'a> {
    example: &'a Example,
    reference: Graph,
    executor: FlowRunner,
    /// Packets dropped as overload: in all, and by the present copy.
    shed: u64,
    shed_here: u64,
}

impl Both<'_> {
    /// Packets of one entry, in one batch, or one by one where some may be dropped as overload.
    fn packets(&mut self, some: &[Arrival], one_by_one: bool) {
        let size = if one_by_one { 1 } else { some.len() };
        let mut batch = Vec::new();
        for part in some.chunks(size.max(1)) {
            for a in part {
                let mut p = self.executor.make_packet(&a.bytes);
                p.anno.timestamp = a.at;
                batch.push(p);
            }
            self.executor.inject_stamped(part[0].entry, &mut batch);
            assert!(batch.is_empty());
            let shed = self.executor.stats().shed;
            let dropped = shed - std::mem::replace(&mut self.shed_here, shed);
            self.shed += dropped;
            assert!(dropped == 0 || one_by_one, "{}", self.example.name);
            match (dropped, part.last()) {
                (1.., Some(a)) => {
                    let now = a.at.max(self.reference.now());
                    self.reference.advance_to(now);
                }
                _ => {
                    for a in part {
                        self.reference.inject(a.entry, &a.bytes, a.at);
                    }
                }
            }
            self.compare();
        }
    }

    fn compare(&mut self) {
        let name = self.example.name;
        let (mut want, mut got) = (Left::new(), Left::new());
        collect(self.example, &mut self.reference, &mut want);
        collect(self.example, self.executor.peek_graph_mut(), &mut got);
        equal(name, &got, &want);
        let (mut a, b) = (self.executor.totals(), self.reference.totals());
        a.packets_in -= self.shed;
        a.dropped -= self.shed;
        assert_eq!(a, b, "{name}");
    }

    fn finish(&mut self, state: bool) {
        let name = self.example.name;
        let not_overload = |d: &DropCount| d.reason != OVERLOAD;
        let drops: Vec<DropCount> = self
            .executor
            .drops()
            .into_iter()
            .filter(not_overload)
            .collect();
        assert_eq!(drops, self.reference.drops(), "{name}");
        let stats = self.executor.stats();
        assert_eq!(stats.refused, 0, "{name}: {:?}", self.executor.causes());
        assert!(stats.bytes <= stats.most_bytes, "{name}: {stats:?}");
        if state {
            let want = self.reference.state_summary();
            for (a, b) in self.executor.graph_mut().state_summary().iter().zip(&want) {
                assert_eq!(a, b, "{name}");
            }
        }
    }
}

/// One input.
pub fn run(data: &[u8]) {
    EXAMPLES.with(|examples| {
        let script = Script::new(data);
        let switches = script.switches;
        let example = &examples[script.chain % examples.len()];
        let mut numbers = Numbers::of(data);
        // who arrives, and when: answers need what has left
        let mut first = example.graph.fork();
        let arrivals = scalar(example, script, &mut first, &mut Left::new());
        let flows = if switches & 2 != 0 { 64 } else { 1024 };
        let mut both = Both {
            example,
            reference: example.graph.fork(),
            executor: FlowRunner::seeded(example.program.fork(), flows, numbers.0),
            shed: 0,
            shed_here: 0,
        };
        let mut protected = false;
        for some in batches(&arrivals) {
            let both = &mut both;
            match numbers.between() {
                Between::Nothing => {}
                Between::Clear => {
                    write_all(&mut both.reference, "clear");
                    write_all(both.executor.graph_mut(), "clear");
                }
                Between::Reset => {
                    write_all(&mut both.reference, "reset_counts");
                    write_all(both.executor.graph_mut(), "reset_counts");
                }
                Between::Load => both.executor.load(&example.made).expect("the same program"),
                Between::Fork => {
                    let copy = both.executor.fork();
                    both.executor = copy;
                    both.shed_here = both.executor.stats().shed;
                }
                Between::Protect(share) => {
                    protected = true;
                    both.executor.protect(Some(share));
                }
            }
            both.packets(some, protected);
        }
        both.finish(switches & 1 != 0);
    });
}
