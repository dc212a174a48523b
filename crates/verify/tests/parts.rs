//! Programs in parts: what a sequence of partial programs is together is proved to be the chain, and wrong splits are
//! found out.

use crate::examples;

use examples::load;
use onefold_element::ElemId;
use onefold_engine::Graph;
use onefold_engine::program::ProgramRunner;
use onefold_synth::parts::{Split, compose, split};
use onefold_synth::program::{End, Program, Stage, StageId, Why};
use onefold_synth::{Budget, synthesize, text};
use onefold_verify::generate::Port;
use onefold_verify::prove::witness::{Look, refute};
use onefold_verify::prove::{Options, Proof, prove};
use std::time::Duration;

fn chain(name: &str) -> (Graph, Vec<Port>, Program) {
    let (c, g) = load(name);
    let port = |p: &onefold_chain::ChainPort| Port {
        name: p.name.clone(),
        source: p.source.map(|s| ElemId(s as u32)),
        sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
    };
    let ports = c.ports.iter().map(port).collect();
    let program = synthesize(&g.synthesis_input(), Budget::default());
    (g, ports, program)
}

/// As text and back: what is judged is the text.
fn read(parts: &[Program]) -> Vec<Program> {
    let written: String = parts.iter().map(text::print).collect();
    text::parse_all(&written).unwrap_or_else(|e| panic!("{e:?}"))
}

fn judged(g: &Graph, parts: &[Program]) -> (Program, Proof) {
    let whole = compose(&read(parts)).unwrap_or_else(|e| panic!("{e}"));
    ProgramRunner::with_program(g.fork(), &whole).unwrap_or_else(|e| panic!("{e}"));
    let options = Options {
        time_limit: Some(Duration::from_secs(120)),
        ..Options::default()
    };
    let proof = prove(&g.synthesis_input(), &whole, &options);
    (whole, proof)
}

fn refuted(name: &str, what: &str, g: &Graph, ports: &[Port], parts: &[Program]) {
    let (whole, proof) = judged(g, parts);
    assert!(!proof.holds(), "{name}, {what}: proved");
    let look = Look {
        packets: 20_000,
        seed: 1,
        shrink_time: Duration::from_secs(1),
    };
    let shown = refute(g, &whole, ports, &proof.different, &look, &mut |_| true).unwrap();
    assert!(shown.is_some(), "{name}, {what}: {:#?}", proof.different);
}

/// The names that the actions of a part's first stage hand packets over under.
fn hands(part: &mut Program) -> Vec<&mut StageId> {
    let actions = part.stages.iter_mut().flat_map(|s| &mut s.actions);
    let ends = actions.filter_map(|a| match &mut a.end {
        End::Write { next, .. } if next.hand().is_some() => Some(next),
        _ => None,
    });
    ends.collect()
}

#[test]
fn parts_of_examples_are_the_chain() {
    for name in ["napt-fw-lb", "isp-edge"] {
        let (g, ports, program) = chain(name);
        let parts = split(&program, Split::Classes).unwrap();
        assert!(parts[0].hands.len() > 4, "{name}");
        assert!(parts[1].entries.is_empty() && !parts[1].stages.is_empty());
        let (_, proof) = judged(&g, &parts);
        assert!(proof.holds(), "{name}: {proof:#?}");
        assert_eq!(proof.share.unknown, 0.0, "{name}");

        // before a stage behind a write-out
        let written = |s: &Stage| s.fresh && s.why == Why::Written;
        if let Some(n) = program.stages.iter().position(written) {
            let parts = split(&program, Split::Stage(StageId(n as u32))).unwrap();
            let (_, proof) = judged(&g, &parts);
            assert!(proof.holds(), "{name} at stage {n}: {proof:#?}");
        }

        // two classes get each other's tag
        let mut swapped = parts.clone();
        let second = &parts[1];
        let binds = |s: &StageId| {
            let name = s.hand().and_then(|i| parts[0].hands.get(i));
            let to = second.takes.iter().find(|(n, _)| Some(n) == name);
            let stage = to.and_then(|t| second.stages.get(t.1.0 as usize));
            stage.is_some_and(|s| !s.actions[0].steps.is_empty())
        };
        let mut list = hands(&mut swapped[0]);
        list.retain(|s| binds(s));
        let (x, y) = (*list[0], *list[1]);
        *list[0] = y;
        *list[1] = x;
        refuted(name, "swapped tags", &g, &ports, &swapped);

        // the second part takes a tag for another
        let mut mixed = parts.clone();
        let (a, b) = (mixed[1].takes[0].1, mixed[1].takes[1].1);
        mixed[1].takes[0].1 = b;
        mixed[1].takes[1].1 = a;
        refuted(name, "mixed up tags", &g, &ports, &mixed);

        // the first part lets go on what must be dropped
        let mut lost = parts.clone();
        // not to a class that the reference graph takes: that would be right
        let mut list = hands(&mut lost[0]);
        let to = list.pop().map_or(StageId(0), |s| *s);
        let dropped = lost[0].stages[0]
            .actions
            .iter_mut()
            .find(|a| matches!(a.end, End::Drop { .. }));
        if let Some(a) = dropped {
            a.steps.clear();
            a.end = End::Write {
                image: Default::default(),
                next: to,
            };
            refuted(name, "a lost drop", &g, &ports, &lost);
        }
    }
}

/// What is handed over has been changed on the way.
#[test]
fn what_changes_between_parts_is_found() {
    let (g, ports, program) = chain("napt-fw-lb");
    let mut parts = split(&program, Split::Classes).unwrap();
    let actions = parts[0].stages.iter_mut().flat_map(|s| &mut s.actions);
    let mut changed = 0;
    for a in actions {
        if let End::Write { image, .. } = &mut a.end {
            // annotations are lost: nothing has set any yet. Bytes are lost: that is seen.
            let m = std::sync::Arc::make_mut(image);
            m.start = 1;
            changed += 1;
        }
    }
    assert!(changed > 0);
    refuted("napt-fw-lb", "a byte is lost", &g, &ports, &parts);
}
