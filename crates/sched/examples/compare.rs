//! All policies over one chain on one core, in the simulator: `cargo run -p onefold-sched --example compare`.

use onefold_sched::nfvnice::NfvniceConfig;
use onefold_sched::sim::{Model, Simulator, Source};
use onefold_sched::{
    Ageing, Baseline, Cooperative, LatencyTarget, MICROSECOND, MILLISECOND, NfSpec, Nfvnice,
    Policy, Topology, Unis, UnisConfig,
};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    // 120, 270 and 550 cycles at 2.6 GHz (NFVnice, figure 7), and five equal ones of 30 ns (UNiS, figure 4)
    for costs in [&[46, 103, 211][..], &[30; 5]] {
        for rate in [1_000_000, 14_880_000] {
            println!("\ncosts {costs:?} ns, {rate} packets a second, 1 s, rings of 2048");
            let nf = NfSpec {
                core: 0,
                priority: 1,
                capacity: 2048,
            };
            let hops = (0..costs.len()).collect();
            let t = Topology::new(1, vec![nf; costs.len()], vec![hops])?;
            let unis = |ageing| {
                let config = UnisConfig {
                    ageing,
                    ..UnisConfig::default()
                };
                Unis::new(&t, costs.to_vec(), config)
            };
            let asleep: [Box<dyn Policy>; 6] = [
                Box::new(Baseline::normal()),
                Box::new(Baseline::batch(10 * MILLISECOND)),
                Box::new(Baseline::round_robin(4 * MILLISECOND)),
                Box::new(Nfvnice::new(&t, NfvniceConfig::default())?),
                Box::new(Nfvnice::new(
                    &t,
                    NfvniceConfig {
                        with_blocking: false,
                        ..NfvniceConfig::default()
                    },
                )?),
                Box::new(LatencyTarget::new(&t, vec![500 * MICROSECOND])?),
            ];
            for policy in asleep {
                print(
                    &t,
                    costs.iter().map(|c| Model::interrupted(*c)).collect(),
                    (policy, rate),
                )?;
            }
            let polling: [Box<dyn Policy>; 4] = [
                Box::new(Cooperative::default()),
                Box::new(unis(Ageing::Faithful)?),
                Box::new(unis(Ageing::After(MILLISECOND))?),
                Box::new(LatencyTarget::new(&t, vec![500 * MICROSECOND])?),
            ];
            for policy in polling {
                print(
                    &t,
                    costs.iter().map(|c| Model::polling(*c)).collect(),
                    (policy, rate),
                )?;
            }
        }
    }
    Ok(())
}

fn print(
    t: &Topology,
    models: Vec<Model>,
    (mut policy, rate): (Box<dyn Policy>, u64),
) -> Result<(), Box<dyn Error>> {
    let how = match models.iter().all(|m| m.polls) {
        true => "polling",
        false => "asleep when idle",
    };
    let mut sim = Simulator::new(t, models, vec![Source::steady(0, rate)])?;
    sim.run(policy.as_mut(), 1000 * MILLISECOND)?;
    let r = sim.report();
    let c = &r.chains[0];
    println!(
        "{:20} {how:16} delivered {:>8}, wasted {:>8}, mean {:>6} us, longest {:>6} us, switches {:>6}",
        policy.name(),
        c.delivered,
        c.wasted,
        c.latency_sum / u128::from(c.delivered.max(1)) / 1000,
        c.latency_most / 1000,
        r.switches()
    );
    Ok(())
}
