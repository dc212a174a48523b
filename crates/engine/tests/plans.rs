//! Plans: made on a copy of a graph, in another thread, and taken at the end of a batch.

use onefold_engine::flow::FlowRunner;
use onefold_engine::program::{LoadError, Plan, PreparedStages, ProgramRunner};
use onefold_engine::{BuildOptions, Executor, Graph, spec_from_flat};
use onefold_packet::Timestamp;
use onefold_synth::{Budget, synthesize};

fn build(text: &str) -> Graph {
    let flat = onefold_click::load(text.as_bytes(), "test", &[], &Default::default())
        .unwrap_or_else(|e| panic!("{text}: {e:?}"));
    Graph::build(spec_from_flat(&flat), &BuildOptions::default())
        .unwrap_or_else(|e| panic!("{text}: {e}"))
}

const CHAIN: &str = "FromDevice(a) -> s :: Switch(0); s[0] -> x :: Counter -> ToDevice(b);
                     s[1] -> y :: Counter -> ToDevice(c);";

/// As the compile thread does it: from a copy, where nobody waits.
fn plan(graph: &Graph) -> Plan {
    let copy = graph.fork();
    let made = std::thread::spawn(move || {
        let program = synthesize(&copy.synthesis_input(), Budget::default());
        Plan::new(&copy, &program, Default::default())
            .unwrap()
            .prepared()
    });
    made.join().unwrap()
}

/// A UDP datagram of one flow.
fn frame() -> Vec<u8> {
    let mut f = vec![0; 60];
    f[12] = 8;
    f[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17]);
    f[26..38].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 54]);
    f[38..40].copy_from_slice(&[0, 26]);
    f
}

fn send(e: &mut dyn Executor, n: usize) {
    let source = e.graph().source("a").unwrap();
    let mut batch = (0..n).map(|_| e.make_packet(&frame())).collect();
    e.run_at(source, &mut batch, Timestamp(1));
}

#[test]
fn a_plan_that_is_made_elsewhere_takes_over_between_batches() {
    let mut e = FlowRunner::new(ProgramRunner::new(build(CHAIN)), 64);
    send(&mut e, 3);
    assert_eq!(e.levels()[0], 3, "there is no program yet");
    let first = plan(e.graph());
    send(&mut e, 2);
    Executor::install(&mut e, first).unwrap();
    assert!(!Executor::needs_program(&mut e));
    send(&mut e, 5);
    assert_eq!((e.levels()[0], e.levels().iter().sum::<u64>()), (5, 10));
    assert_eq!(e.graph_mut().read_handler("x.count").unwrap(), "10");
}

#[test]
fn a_plan_of_other_models_is_refused() {
    let mut e = FlowRunner::new(ProgramRunner::new(build(CHAIN)), 64);
    let old = plan(e.graph());
    e.graph_mut().write_handler("s.switch", "1").unwrap();
    assert_eq!(Executor::install(&mut e, old), Err(LoadError::Outdated));
    assert!(Executor::needs_program(&mut e));
    send(&mut e, 4);
    let now = plan(e.graph());
    Executor::install(&mut e, now).unwrap();
    send(&mut e, 4);
    let count = |e: &mut FlowRunner, c: &str| e.graph_mut().read_handler(c).unwrap();
    assert_eq!(
        (count(&mut e, "x.count"), count(&mut e, "y.count")),
        ("0".into(), "8".into())
    );
    let other = plan(&build("FromDevice(a) -> ToDevice(b);"));
    assert!(matches!(
        Executor::install(&mut e, other),
        Err(LoadError::Size { .. })
    ));
}

#[test]
fn a_counter_that_is_reset_empties_no_flow_table() {
    let text = "FromDevice(a) -> c :: Counter -> s :: Switch(0); s[0] -> x :: Counter -> ToDevice(b); \
                s[1] -> ToDevice(c);";
    let mut e = FlowRunner::new(ProgramRunner::new(build(text)), 64).always();
    let now = plan(e.graph());
    Executor::install(&mut e, now).unwrap();
    send(&mut e, 8);
    let before = e.stats();
    assert!(before.hits > 0, "{before:?}");
    e.graph_mut().write_handler("c.reset", "").unwrap();
    assert!(!Executor::needs_program(&mut e));
    send(&mut e, 8);
    assert_eq!(e.stats().cleared, before.cleared, "nothing was forgotten");
    assert_eq!(e.stats().hits, before.hits + 8);
    let count = |e: &mut FlowRunner, c: &str| e.graph_mut().read_handler(c).unwrap();
    assert_eq!(
        (count(&mut e, "c.count"), count(&mut e, "x.count")),
        ("8".into(), "16".into())
    );
    // what packets see is another matter
    e.graph_mut().write_handler("s.switch", "1").unwrap();
    assert!(Executor::needs_program(&mut e));
    send(&mut e, 1);
    assert_eq!(count(&mut e, "x.count"), "16");
}

/// Of a plan's stages, when what they are looked up in was made: a moment of its own for each.
fn moments(p: &Plan, graph: Graph) -> Vec<u64> {
    let mut r = ProgramRunner::new(graph);
    r.install(p.clone()).unwrap();
    let reports = r.structures().into_iter();
    reports.map(|s| s.seconds.to_bits()).collect()
}

#[test]
fn what_stages_are_looked_up_in_is_made_once() {
    const RULES: &str =
        "FromDevice(a) -> f :: IPFilter(drop dst port 22, allow src net 10.0.0.0/8, deny all)
                         -> ToDevice(b);";
    let chain = |text: &str| build(&text.replace("-> f", "-> Strip(14) -> CheckIPHeader -> f"));
    let unprepared = |g: &Graph| {
        let program = synthesize(&g.synthesis_input(), Budget::default());
        Plan::new(g, &program, Default::default()).unwrap()
    };
    let mut stages = PreparedStages::default();
    let [one, two, other] = [
        chain(RULES),
        chain(RULES),
        chain(&RULES.replace("22", "23")),
    ]
    .map(|g| (unprepared(&g).prepared_like(&mut stages), g));
    let seconds = [one, two, other].map(|(p, g)| moments(&p, g));
    assert_eq!(seconds[0], seconds[1]);
    assert!(!seconds[0].is_empty() && seconds[0] != seconds[2]);
}
