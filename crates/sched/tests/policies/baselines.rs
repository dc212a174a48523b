use super::{run, topology};
use onefold_sched::sim::{Model, Report, Source};
use onefold_sched::{Baseline, Cooperative, MILLISECOND, Policy};

/// Two NFs of 100 and 300 ns on a core, each with more than it can do.
fn two(policy: &mut dyn Policy) -> Report {
    let t = topology(&[0, 0], 4096, &[&[0], &[1]]);
    let models = [100, 300].map(Model::interrupted);
    let sources = [0, 1].map(|c| Source::steady(c, 12_000_000));
    run(&t, &models, &sources, policy, 600)
}

#[test]
fn fair_classes_split_time_and_batch_switches_less() {
    let normal = two(&mut Baseline::normal());
    let batch = two(&mut Baseline::batch(10 * MILLISECOND));
    for r in [&normal, &batch] {
        let part = r.nfs[0].cpu as f64 / (r.nfs[0].cpu + r.nfs[1].cpu) as f64;
        assert!((0.48..0.52).contains(&part), "{r:?}");
    }
    assert!(
        batch.switches() * 2 < normal.switches(),
        "{normal:?} {batch:?}"
    );
}

#[test]
fn a_quantum_is_what_a_turn_lasts() {
    for ms in [1, 5, 50] {
        let r = two(&mut Baseline::round_robin(ms * MILLISECOND));
        let turns = 600 / ms;
        assert!(
            (turns * 9 / 10..=turns).contains(&r.switches()),
            "{ms}: {r:?}"
        );
    }
}

#[test]
fn fifo_runs_until_it_sleeps_and_cooperative_until_it_yields() {
    let fifo = two(&mut Baseline::fifo());
    assert_eq!((fifo.nfs[1].done, fifo.switches()), (0, 0));
    let shared = two(&mut Cooperative { batches: 4 });
    // equal batches, so that packets are equal and time is 1:3
    let (a, b) = (shared.nfs[0].done, shared.nfs[1].done);
    assert!(a.abs_diff(b) <= 4 * 32, "{a} {b}");
}
