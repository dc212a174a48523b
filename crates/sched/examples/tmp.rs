use onefold_sched::nfvnice::NfvniceConfig;
use onefold_sched::sim::{Model, Simulator, Source};
use onefold_sched::*;
use std::error::Error;
fn main() -> Result<(), Box<dyn Error>> {
    for (costs, rate, cap) in [
        (&[580u64, 1300, 2650][..], 1_488_000, 1024),
        (&[580, 1300, 2650], 150_000, 1024),
        (&[150; 5][..], 4_000_000, 1024),
        (&[250; 3][..], 4_000_000, 1024),
        (&[100; 2][..], 4_000_000, 1024),
        (&[500; 8][..], 4_000_000, 1024),
    ] {
        for (pause, lever) in [(30_000, 10_000)] {
            println!("\ncosts {costs:?} ns, {rate} pps, rings {cap}, pause {pause} lever {lever}");
            let nf = NfSpec {
                core: 0,
                priority: 1,
                capacity: cap,
            };
            let t = Topology::new(1, vec![nf; costs.len()], vec![(0..costs.len()).collect()])?;
            let all: Vec<(bool, Box<dyn Policy>)> = vec![
                (false, Box::new(Baseline::normal())),
                (false, Box::new(Nfvnice::new(&t, NfvniceConfig::default())?)),
                (true, Box::new(Cooperative::default())),
                (
                    true,
                    Box::new(Unis::new(&t, costs.to_vec(), UnisConfig::default())?),
                ),
                (true, Box::new(LatencyTarget::new(&t, vec![MILLISECOND])?)),
                (false, Box::new(LatencyTarget::new(&t, vec![MILLISECOND])?)),
            ];
            for (polls, mut p) in all {
                let models = costs
                    .iter()
                    .map(|c| Model {
                        polls,
                        ..Model::interrupted(*c)
                    })
                    .collect();
                let mut sim = Simulator::new(&t, models, vec![Source::steady(0, rate)])?;
                (sim.pause, sim.lever, sim.switch) = (pause, lever, 3000);
                sim.run(p.as_mut(), 200 * MILLISECOND)?;
                let a = sim.report();
                sim.run(p.as_mut(), 600 * MILLISECOND)?;
                let b = sim.report();
                let (x, y) = (a.chains[0], b.chains[0]);
                let d = y.delivered - x.delivered;
                println!(
                    "{:16} polls {polls:5} {:.3} Mpps wasted {:>7} mean {:>5} us longest {:>6} us switches/s {:>6}",
                    p.name(),
                    d as f64 / 0.6e6,
                    y.wasted - x.wasted,
                    (y.latency_sum - x.latency_sum) / u128::from(d.max(1)) / 1000,
                    y.latency_most / 1000,
                    (b.switches() - a.switches()) * 10 / 6
                );
            }
        }
    }
    Ok(())
}
