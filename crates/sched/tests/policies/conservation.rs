use onefold_sched::nfvnice::NfvniceConfig;
use onefold_sched::sim::{Model, Simulator, Source};
use onefold_sched::{
    Baseline, Cooperative, Decisions, LatencyTarget, MILLISECOND, NfSpec, Nfvnice, Observation,
    ObservationError, Policy, Topology, Unis, UnisConfig,
};
use proptest::prelude::*;

/// Up to four chains without a common NF, over up to three cores.
fn chains() -> impl Strategy<Value = (Topology, Vec<u64>, Vec<Source>)> {
    let nf = (0usize..3, 1u32..4, 33u32..500, 1u64..3_000);
    let chain = (prop::collection::vec(nf, 1..5), 0u64..5_000_000);
    prop::collection::vec(chain, 1..5).prop_map(|all| {
        let (mut nfs, mut chains, mut costs, mut sources) = (vec![], vec![], vec![], vec![]);
        for (i, (hops, rate)) in all.into_iter().enumerate() {
            chains.push((nfs.len()..nfs.len() + hops.len()).collect());
            for (core, priority, capacity, cost) in hops {
                costs.push(cost);
                nfs.push(NfSpec {
                    core,
                    priority,
                    capacity,
                });
            }
            sources.push(Source::steady(i, rate));
        }
        (Topology::new(3, nfs, chains).unwrap(), costs, sources)
    })
}

fn policies(t: &Topology, costs: &[u64]) -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(Baseline::normal()),
        Box::new(Baseline::round_robin(MILLISECOND)),
        Box::new(Cooperative::default()),
        Box::new(Nfvnice::new(t, NfvniceConfig::default()).unwrap()),
        Box::new(Unis::new(t, costs.to_vec(), UnisConfig::default()).unwrap()),
        Box::new(LatencyTarget::new(t, vec![MILLISECOND; t.chains().len()]).unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Under every policy: each packet is somewhere, no core does more than there is time, nothing depends on chance.
    #[test]
    fn every_packet_is_somewhere((t, costs, sources) in chains(), polls in any::<bool>()) {
        let models: Vec<_> = costs.iter().map(|c| Model { polls, ..Model::interrupted(*c) }).collect();
        for which in 0..policies(&t, &costs).len() {
            let once = || {
                let policy = &mut policies(&t, &costs)[which];
                let mut sim = Simulator::new(&t, models.clone(), sources.clone()).unwrap();
                sim.run(policy.as_mut(), 15 * MILLISECOND).unwrap();
                sim.report()
            };
            let r = once();
            for (c, hops) in r.chains.iter().zip(t.chains()) {
                let waiting: u64 = hops.iter().map(|n| r.nfs[*n].waiting).sum();
                prop_assert_eq!(c.offered, c.shed + c.full + c.wasted + c.delivered + waiting);
            }
            for core in 0..t.cores() {
                let used: u64 = t.on_core(core).iter().map(|n| r.nfs[*n].cpu).sum();
                prop_assert!(used <= 15 * MILLISECOND);
            }
            prop_assert_eq!(r, once());
        }
    }
}

/// Says what may wait where a chain enters, and rests for long.
struct Door(u32, u64);

impl Policy for Door {
    fn name(&self) -> &'static str {
        "door"
    }
    fn period(&self) -> u64 {
        1_000
    }
    fn rests(&self) -> u64 {
        MILLISECOND
    }
    fn decide(&mut self, _: &Observation<'_>, to: &mut Decisions) -> Result<(), ObservationError> {
        self.1 += 1;
        to.admit[0] = Some(self.0);
        Ok(())
    }
}

/// What a policy lets in is kept to between its looks, and it looks as seldom as it wants to.
#[test]
fn entries_are_bounded_between_looks_that_are_as_rare_as_wanted() {
    let nf = NfSpec {
        core: 0,
        priority: 1,
        capacity: 1024,
    };
    let t = Topology::new(1, vec![nf], vec![vec![0]]).unwrap();
    let mut sim = Simulator::new(
        &t,
        vec![Model::interrupted(1_000)],
        vec![Source::steady(0, 2_000_000)],
    )
    .unwrap();
    let mut door = Door(10, 0);
    for ms in 1..=10 {
        sim.run(&mut door, MILLISECOND).unwrap();
        let r = sim.report();
        // those in its hands besides
        assert!(r.nfs[0].waiting <= 10 + 32, "{ms}: {r:?}");
    }
    let r = sim.report().chains[0];
    assert!(
        r.full == 0 && r.shed > 9_000 && r.delivered > 9_000,
        "{r:?}"
    );
    assert!((10..=11).contains(&door.1), "{} looks", door.1);
}
