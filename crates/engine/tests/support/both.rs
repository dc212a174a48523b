//! A program, and the same with a flow table in front: what both do with the same packets is compared.

use super::harness::build;
use onefold_element::ElemId;
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize};

/// The same graph twice.
pub struct Both {
    pub program: ProgramRunner,
    pub flow: FlowRunner,
    pub now: Timestamp,
}

/// Packets that left: where, their bytes, and when they had come.
pub type Left = Vec<(ElemId, Vec<u8>, Timestamp)>;

impl Both {
    /// With room for so many flows.
    pub fn new(text: &str, flows: usize) -> Both {
        let g = build(text);
        let program = synthesize(&g.synthesis_input(), Budget::default());
        let runner = ProgramRunner::with_program(g, &program).unwrap();
        Both {
            flow: FlowRunner::new(runner.fork(), flows).always(),
            program: runner,
            now: Timestamp::from_secs(1),
        }
    }

    /// A batch at a device, `ns` later; what left.
    pub fn batch(&mut self, device: &str, frames: &[Vec<u8>], ns: i64) -> Left {
        self.now = Timestamp(self.now.0 + ns);
        let source = self.program.graph().source(device).unwrap();
        let mut batches: [Vec<Pkt>; 2] = Default::default();
        for f in frames {
            batches[0].push(self.program.graph_mut().make_packet(f));
            batches[1].push(self.flow.make_packet(f));
        }
        for p in batches.iter_mut().flatten() {
            p.anno.timestamp = self.now;
        }
        self.program.inject_batch(source, &mut batches[0], self.now);
        self.flow.inject_batch(source, &mut batches[1], self.now);
        let (mut want, mut got) = (Left::new(), Left::new());
        let seen = |e: ElemId, p: &Pkt| (e, p.data().to_vec(), p.anno.timestamp);
        (self.program.graph_mut()).drain_transmitted(|e, p| want.push(seen(e, p)));
        self.flow.drain_transmitted(|e, p| got.push(seen(e, p)));
        assert_eq!(want, got, "order and bytes");
        assert_eq!(self.program.graph().totals(), self.flow.totals());
        want
    }

    /// Classes count the same packets, but those that took the reference graph.
    fn compare_reports(&self) {
        let (want, got) = (self.program.report(), self.flow.report());
        assert_eq!(want.packets, got.packets + got.chosen);
        if got.chosen == 0 {
            assert_eq!(want, got);
        }
    }

    /// Everything that can be asked for.
    pub fn compare(&mut self) {
        assert_eq!(self.program.graph().drops(), self.flow.drops());
        self.compare_reports();
        // copies know what has not been told to elements yet
        let mut copy = self.flow.fork();
        let want = self.program.graph_mut().state_summary();
        assert_eq!(want, copy.graph_mut().state_summary());
        assert_eq!(want, self.flow.graph_mut().state_summary());
        assert_eq!(self.program.graph().drops(), self.flow.graph().drops());
        self.compare_reports();
    }
}

/// All tests of a module of this program (`flow::`) with the instructions of other processors, in processes of their
/// own: [`onefold_classify::vectors_limit`] is asked once.
pub fn with_fewer_instructions(module: &str) {
    // one of those processes, or somebody who wants it so
    if std::env::var_os("ONEFOLD_ISA").is_some() {
        return;
    }
    let (_, module) = module.split_once("::").expect("a module of the program");
    for isa in ["avx2", "any"] {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .arg(format!("{module}::"))
            .env("ONEFOLD_ISA", isa)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(out.status.success(), "ONEFOLD_ISA={isa}: {text}");
        assert!(!text.contains("running 0 tests"), "{module}: {text}");
    }
}
