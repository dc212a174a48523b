//! The papers' figures as shapes, in the simulator.

mod baselines;
mod conservation;
mod latency_target;
mod nfvnice;
mod unis;

use onefold_sched::sim::{Model, Report, Simulator, Source};
use onefold_sched::{MILLISECOND, NfSpec, Policy, Topology};

/// NFs on these cores, with rings of so many places, and chains.
fn topology(on: &[usize], capacity: u32, chains: &[&[usize]]) -> Topology {
    let cores = on.iter().max().map_or(1, |c| c + 1);
    let nfs = on.iter().map(|core| NfSpec {
        core: *core,
        priority: 1,
        capacity,
    });
    let chains = chains.iter().map(|c| c.to_vec()).collect();
    Topology::new(cores, nfs.collect(), chains).unwrap()
}

/// ns of so many cycles at 2.6 GHz, NFVnice's machine.
fn ns(cycles: u64) -> u64 {
    cycles * 10 / 26
}

/// So many ms under a policy.
fn run(
    t: &Topology,
    models: &[Model],
    sources: &[Source],
    policy: &mut dyn Policy,
    ms: u64,
) -> Report {
    let mut sim = Simulator::new(t, models.to_vec(), sources.to_vec()).unwrap();
    sim.run(policy, ms * MILLISECOND).unwrap();
    sim.report()
}
