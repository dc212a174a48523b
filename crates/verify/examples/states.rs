//! Checks what rewriters and balancers promise of their bindings: all short sequences of events, then a long random one
//! for each configuration.
//!
//! `cargo run --release -p onefold-verify --example states -- [EVENTS] [SEED] [DEPTH]` (100,000,000 events, seed 1,
//! depth 5)

use onefold_verify::states::{config, explore, soak};
use std::io::{IsTerminal, Write};
use std::time::Instant;

fn main() -> std::process::ExitCode {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().ok());
    let mut next = |default| args.next().flatten().unwrap_or(default);
    let (events, seed, depth) = (next(100_000_000), next(1), next(5));
    let shown = std::io::stderr().is_terminal();
    let mut failed = false;
    for (small, large) in config::all(2).iter().zip(config::all(64)) {
        println!("{}", small.name);
        let start = Instant::now();
        match explore(small, 3, depth as usize) {
            Ok(r) => println!(
                "  {} sequences of {depth} events, the table compared after each of {}: kept, {:.1} s",
                r.sequences,
                r.events,
                start.elapsed().as_secs_f64()
            ),
            Err(e) => {
                println!("  {e}");
                failed = true;
            }
        }
        let start = Instant::now();
        let r = soak(&large, 200, events, seed, &mut |n| {
            if shown && n.is_multiple_of(1 << 20) {
                eprint!("\r  {} of {} million ", n / 1_000_000, events / 1_000_000);
                let _ = std::io::stderr().flush();
            }
            true
        });
        if shown {
            eprint!("\r");
        }
        match r {
            Ok(r) => println!(
                "  {} events, {} bindings at most, {} evictions, {} tables compared: kept, {:.1} s",
                r.events,
                r.most,
                r.evictions,
                r.audits,
                start.elapsed().as_secs_f64()
            ),
            Err(e) => {
                println!("  {e}");
                failed = true;
            }
        }
    }
    match failed {
        true => std::process::ExitCode::FAILURE,
        false => std::process::ExitCode::SUCCESS,
    }
}
