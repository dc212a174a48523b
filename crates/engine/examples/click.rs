//! Runs a Click configuration: `cargo run --example click -- -e 'InfiniteSource(LIMIT 5) -> Print -> Discard'`.

use std::sync::atomic::AtomicBool;

fn main() {
    static INTERRUPT: AtomicBool = AtomicBool::new(false);
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(onefold_engine::click::click_main(&args, &INTERRUPT));
}
