use super::{run, topology};
use onefold_sched::sim::{Model, Report, Source};
use onefold_sched::{
    Ageing, Cooperative, Decisions, Level, MILLISECOND, NfView, Observation, Policy, Topology,
    TopologyError, Unis, UnisConfig, UnisError,
};

fn chain(length: usize) -> Topology {
    let hops: Vec<usize> = (0..length).collect();
    topology(&vec![0; length], 2048, &[&hops])
}

fn unis(t: &Topology, cost: u64, config: UnisConfig) -> Unis {
    Unis::new(t, vec![cost; t.nfs().len()], config).unwrap()
}

/// So many NFs of this cost on one core, at a rate, for 100 ms.
fn under(length: usize, cost: u64, rate: u64, config: UnisConfig) -> Report {
    let t = chain(length);
    let models = vec![Model::polling(cost); length];
    run(
        &t,
        &models,
        &[Source::steady(0, rate)],
        &mut unis(&t, cost, config),
        100,
    )
}

/// A burst of 40 packets, then nothing.
fn burst(ageing: Ageing) -> Report {
    let t = chain(3);
    let burst = Source {
        until: 40_000,
        ..Source::steady(0, 1_000_000)
    };
    let config = UnisConfig {
        ageing,
        ..UnisConfig::default()
    };
    let models = vec![Model::polling(100); 3];
    run(&t, &models, &[burst], &mut unis(&t, 100, config), 50)
}

#[test]
fn as_published_the_last_packets_wait_for_ever_and_with_ageing_they_do_not() {
    let published = burst(Ageing::Faithful);
    assert_eq!(published.delivered(), 0);
    let stranded: Vec<u64> = published.nfs.iter().map(|n| n.waiting).collect();
    assert_eq!(stranded, [0, 40, 0]);
    let aged = burst(Ageing::After(MILLISECOND));
    assert_eq!(aged.delivered(), 40);
    assert!(aged.chains[0].latency_most < 5 * MILLISECOND, "{aged:?}");
}

#[test]
fn as_published_at_most_56_packets_are_stranded_at_an_nf() {
    for (length, rate, until) in [
        (2, 3_000_000, 999_000),
        (4, 2_000_000, 7_000_000),
        (6, 900_000, 5_500_000),
    ] {
        let t = chain(length);
        let source = Source {
            until,
            ..Source::steady(0, rate)
        };
        let config = UnisConfig {
            ageing: Ageing::Faithful,
            ..UnisConfig::default()
        };
        let models = vec![Model::polling(50); length];
        let r = run(&t, &models, &[source], &mut unis(&t, 50, config), 60);
        assert!(r.nfs.iter().all(|n| n.waiting <= 56), "{r:?}");
        let all = UnisConfig::default();
        let r = run(&t, &models, &[source], &mut unis(&t, 50, all), 60);
        assert!(r.nfs.iter().all(|n| n.waiting == 0), "{r:?}");
    }
}

/// Figure 15: slices of more than a ring overflow it, unless occupancy ends them.
#[test]
fn occupancy_keeps_long_slices_from_losing_packets() {
    for (length, cost) in [(4, 30), (4, 60)] {
        let at = |gamma, theta_max| {
            under(
                length,
                cost,
                14_880_000,
                UnisConfig {
                    gamma,
                    theta_max,
                    ..UnisConfig::default()
                },
            )
        };
        let (with, without) = (at(1.25, Some(0.75)), at(1.25, None));
        let usual = at(0.75, Some(0.75));
        println!(
            "{cost} ns: usual {}, 125% with {} (wasted {}), without {} (wasted {})",
            usual.delivered(),
            with.delivered(),
            with.wasted(),
            without.delivered(),
            without.wasted()
        );
        assert_eq!(with.wasted(), 0);
        assert!(without.wasted() > 0);
        assert!(with.delivered() > without.delivered());
        assert!(with.delivered() * 100 >= usual.delivered() * 97);
    }
}

/// Figures 4, 5 and 13: near cooperative NFs, with fewer switches.
#[test]
fn unmodified_nfs_are_near_cooperative_ones() {
    for (length, cost) in [(2, 30), (4, 60), (5, 100)] {
        let t = chain(length);
        let models = vec![Model::polling(cost); length];
        let source = [Source::steady(0, 14_880_000)];
        let other = run(&t, &models, &source, &mut Cooperative::default(), 100);
        let ours = under(length, cost, 14_880_000, UnisConfig::default());
        println!(
            "{length} of {cost} ns: {} and {}, switches {} and {}",
            other.delivered(),
            ours.delivered(),
            other.switches(),
            ours.switches()
        );
        assert!(ours.delivered() * 100 >= other.delivered() * 90);
        assert!(ours.switches() < other.switches());
    }
}

#[test]
fn what_the_algorithm_does_not_do_is_refused() {
    let shared = topology(&[0, 0], 64, &[&[0, 1], &[0]]);
    let config = UnisConfig::default();
    assert_eq!(
        Unis::new(&shared, vec![1, 1], config).unwrap_err(),
        UnisError::Shared { nf: 0 }
    );
    let (costs, nfs) = (1, 3);
    assert_eq!(
        Unis::new(&chain(3), vec![5], config).unwrap_err(),
        UnisError::Costs { costs, nfs }
    );
    let wrong = UnisConfig {
        gamma: f64::NAN,
        ..config
    };
    assert_eq!(
        Unis::new(&chain(1), vec![5], wrong).unwrap_err(),
        UnisError::Config
    );
    assert!(matches!(
        Topology::new(0, vec![], vec![]),
        Err(TopologyError::Number { what: "cores", .. })
    ));
}

#[test]
fn slices_are_cost_times_gamma_times_places() {
    let t = chain(2);
    let u = unis(&t, 100, UnisConfig::default());
    let output = onefold_sched::Level {
        occupancy: 7,
        capacity: 2048,
    };
    assert_eq!(u.slice(0, output), 153_600);
    assert_eq!(u.slice(1, onefold_sched::Level::default()), 153_600);
}

/// What costs tell is believed by half: so many packets wait for the first NF, and so many are in front of the second.
#[test]
fn it_need_not_be_asked_before_a_slice_can_end() {
    let t = chain(2);
    let seen = |waiting: u32, ahead: u32| {
        let level = |occupancy| Level {
            occupancy,
            capacity: 2048,
        };
        let none = Level::default();
        let views = [(level(waiting), level(ahead)), (level(ahead), none)];
        views.map(|(input, output)| NfView {
            input,
            output,
            ..NfView::default()
        })
    };
    let rests = |config: UnisConfig, waiting: u32, ahead: u32, passed: u64| {
        let mut policy = unis(&t, 100, config);
        let mut to = Decisions::new(&t);
        let nfs = seen(waiting, ahead);
        for now in [0, passed] {
            policy
                .decide(&Observation { now, nfs: &nfs }, &mut to)
                .unwrap();
        }
        policy.rests()
    };
    let config = UnisConfig::default();
    // a slice is 100 ns x 0.75 x 2,048 packets
    assert_eq!(rests(config, 2048, 0, 0), 76_800);
    assert_eq!(rests(config, 2048, 0, 100_000), 26_800);
    // 200 packets to be worked off, or room for 300
    assert_eq!(rests(config, 256, 0, 0), 10_000);
    assert_eq!(rests(config, 2048, 1236, 0), 15_000);
    // nothing to do: it may come at any time
    assert_eq!(rests(config, 0, 0, 0), config.period);
    // nobody waits longer than ageing has it
    let slow = UnisConfig {
        gamma: 100.0,
        theta_max: None,
        ..config
    };
    assert_eq!(rests(slow, 2048, 0, 0), 99_600);
    let published = UnisConfig {
        ageing: Ageing::Faithful,
        ..config
    };
    assert_eq!(rests(published, 2048, 0, 0), config.period);
}
