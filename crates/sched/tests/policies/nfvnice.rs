use super::{ns, run, topology};
use onefold_sched::nfvnice::NfvniceConfig;
use onefold_sched::sim::{Model, Simulator, Source, jain};
use onefold_sched::{Baseline, MILLISECOND, Nfvnice, Policy, Topology};

/// 64 bytes at 10 Gb/s.
const LINE: u64 = 14_880_000;

fn nfvnice(t: &Topology) -> Nfvnice {
    Nfvnice::new(t, NfvniceConfig::default()).unwrap()
}

/// Keeps a kernel class under NFVnice.
struct Under(Baseline, Nfvnice);

impl Policy for Under {
    fn name(&self) -> &'static str {
        self.1.name()
    }
    fn period(&self) -> u64 {
        self.1.period()
    }
    fn decide(
        &mut self,
        seen: &onefold_sched::Observation<'_>,
        to: &mut onefold_sched::Decisions,
    ) -> Result<(), onefold_sched::ObservationError> {
        self.0.decide(seen, to)?;
        self.1.decide(seen, to)
    }
}

/// Figure 7 and table 3: paper's totals fall 238, 252 and 47 times (RR 100 ms).
#[test]
fn wasted_work_falls_a_hundred_times_in_all_orders() {
    let t = topology(&[0, 0, 0], 4096, &[&[0, 1, 2]]);
    let orders = [
        [120, 270, 550],
        [120, 550, 270],
        [270, 120, 550],
        [270, 550, 120],
        [550, 120, 270],
        [550, 270, 120],
    ];
    for base in [
        Baseline::normal(),
        Baseline::batch(10 * MILLISECOND),
        Baseline::round_robin(100 * MILLISECOND),
    ] {
        for costs in orders {
            let models = costs.map(|c| Model::interrupted(ns(c)));
            let source = [Source::steady(0, LINE)];
            let without = run(&t, &models, &source, &mut { base }, 300);
            let with = run(&t, &models, &source, &mut Under(base, nfvnice(&t)), 300);
            let what = format!("{} {costs:?}", base.name());
            println!(
                "{what}: wasted {} -> {}, delivered {} -> {}",
                without.wasted(),
                with.wasted(),
                without.delivered(),
                with.delivered()
            );
            // heavy first: hardly anything is lost later even without
            if without.wasted() > 100_000 {
                assert!(with.wasted() * 100 < without.wasted(), "{what}");
            }
            assert!(with.delivered() > without.delivered(), "{what}");
        }
    }
}

/// The same by shedding and relinquishing alone, without NFs that sleep at a full ring.
#[test]
fn shedding_alone_keeps_work_from_being_wasted() {
    let t = topology(&[0, 0, 0], 4096, &[&[0, 1, 2]]);
    let models = [120, 270, 550].map(|c| Model::interrupted(ns(c)));
    let source = [Source::steady(0, LINE)];
    let config = NfvniceConfig {
        with_blocking: false,
        ..NfvniceConfig::default()
    };
    let without = run(&t, &models, &source, &mut Baseline::normal(), 300);
    let with = run(
        &t,
        &models,
        &source,
        &mut Nfvnice::new(&t, config).unwrap(),
        300,
    );
    println!("wasted {} -> {}", without.wasted(), with.wasted());
    assert!(with.wasted() * 100 < without.wasted());
    assert!(with.delivered() > without.delivered());
}

/// Figure 5: NFs 3 and 5 are too slow; A, C and D pass them, B does not, and shares NFs 1 and 2 with A.
#[test]
fn chains_of_slow_nfs_are_throttled_and_no_other_one() {
    let chains: [&[usize]; 4] = [&[0, 1, 2], &[0, 1, 3], &[0, 4], &[3, 4]];
    let t = topology(&[0, 1, 2, 3, 4], 4096, &chains);
    let models = [50, 50, 2_000, 50, 2_000].map(Model::interrupted);
    let sources: Vec<_> = (0..4).map(|c| Source::steady(c, 2_000_000)).collect();
    let r = run(&t, &models, &sources, &mut nfvnice(&t), 300);
    for chain in [0, 2, 3] {
        let c = r.chains[chain];
        assert!(c.shed * 2 > c.offered, "chain {chain}: {c:?}");
        assert!(c.wasted * 100 < c.offered, "chain {chain}: {c:?}");
    }
    let b = r.chains[1];
    assert_eq!((b.shed, b.full, b.wasted), (0, 0, 0), "{b:?}");
    assert!(b.delivered * 1000 > b.offered * 999, "{b:?}");
}

/// Figure 8, table 6: two chains share their first and last NF; the second one has a slow NF in between.
#[test]
fn a_slow_chain_does_not_hold_up_the_one_beside_it() {
    let t = topology(&[0, 1, 2, 3], 4096, &[&[0, 1, 3], &[0, 2, 3]]);
    let models = [270, 120, 4500, 300].map(|c| Model::interrupted(ns(c)));
    let sources = [Source::steady(0, LINE / 2), Source::steady(1, LINE / 2)];
    let without = run(&t, &models, &sources, &mut Baseline::normal(), 300);
    let with = run(&t, &models, &sources, &mut nfvnice(&t), 300);
    let (a, b) = (without.chains, with.chains);
    println!("{a:?} {b:?}");
    // 3.26 -> 6.50 Mpps in the paper
    assert!(b[0].delivered * 10 > a[0].delivered * 14, "{a:?} {b:?}");
    assert!(b[1].delivered * 100 > a[1].delivered * 95, "{a:?} {b:?}");
}

/// Figure 15a: costs 1:3, then equal for a while.
#[test]
fn shares_follow_a_step_of_cost_within_200_ms() {
    let t = topology(&[0, 0], 4096, &[&[0], &[1]]);
    let step = Model {
        cost: vec![(0, 100), (400 * MILLISECOND, 300), (800 * MILLISECOND, 100)],
        ..Model::interrupted(100)
    };
    let models = vec![step, Model::interrupted(300)];
    let sources = (0..2).map(|c| Source::steady(c, 6_000_000)).collect();
    let mut sim = Simulator::new(&t, models, sources).unwrap();
    let mut policy = nfvnice(&t);
    let mut ratio = |ms: u64, policy: &mut Nfvnice| {
        sim.run(policy, ms * MILLISECOND).unwrap();
        let s = &sim.wanted().nfs;
        f64::from(s[1].shares) / f64::from(s[0].shares)
    };
    let three = 2.8..3.2;
    assert!(three.contains(&ratio(200, &mut policy)));
    assert!(three.contains(&ratio(200, &mut policy)));
    // samples of before are the majority of the window for a while
    assert!(three.contains(&ratio(30, &mut policy)));
    assert!((0.95..1.05).contains(&ratio(170, &mut policy)));
    assert!((0.95..1.05).contains(&ratio(200, &mut policy)));
    assert!(three.contains(&ratio(200, &mut policy)));
}

/// Figure 15b: six NFs of costs 1:2:5:20:40:60, equal rates.
#[test]
fn flows_of_unequal_cost_have_equal_rates() {
    let t = topology(&[0; 6], 4096, &[&[0], &[1], &[2], &[3], &[4], &[5]]);
    let models = [1, 2, 5, 20, 40, 60].map(|c| Model::interrupted(ns(100 * c)));
    let sources: Vec<_> = (0..6).map(|c| Source::steady(c, 1_000_000)).collect();
    let index = |policy: &mut dyn Policy| {
        let mut sim = Simulator::new(&t, models.to_vec(), sources.clone()).unwrap();
        sim.run(policy, 100 * MILLISECOND).unwrap();
        let before = sim.report();
        sim.run(policy, 500 * MILLISECOND).unwrap();
        let after = sim.report();
        let rates = after.chains.iter().zip(&before.chains);
        let rates: Vec<f64> = rates
            .map(|(a, b)| (a.delivered - b.delivered) as f64)
            .collect();
        println!("{}: {rates:?}", policy.name());
        jain(&rates)
    };
    let (equal, ours) = (index(&mut Baseline::normal()), index(&mut nfvnice(&t)));
    assert!((0.5..0.75).contains(&equal), "{equal}");
    assert!(ours >= 0.99, "{ours}");
}

/// Marks before it sheds: a ring that stays half full, and chains that are not ECN-capable.
#[test]
fn long_queues_mark_what_is_ecn_capable() {
    let t = topology(&[0], 4096, &[&[0], &[0]]);
    let models = [Model::interrupted(1_000)];
    let ecn = Source {
        ecn: true,
        ..Source::steady(0, 700_000)
    };
    let r = run(
        &t,
        &models,
        &[ecn, Source::steady(1, 700_000)],
        &mut nfvnice(&t),
        300,
    );
    assert!(r.chains[0].marked * 2 > r.chains[0].delivered, "{r:?}");
    assert_eq!(r.chains[1].marked, 0);
    let calm = Source {
        rate: 200_000,
        ..ecn
    };
    let r = run(&t, &models, &[calm], &mut nfvnice(&t), 300);
    assert_eq!(r.chains[0].marked, 0);
}
