//! What it costs to touch a packet, by number of buffers and of different packets: `cargo run --release -p
//! onefold-bench --example ceiling`.

use onefold_bench::measure::{
    Candidate, Ceiling, Lane, MacSwap, Settings, Spread, Templates, alternate, pin,
};
use onefold_element::ElemId;
use onefold_packet::Timestamp;

fn main() {
    let core = pin(None);
    println!("core {core:?}; nanoseconds per packet: median (min to max)");
    for templates in [1000usize, 4000, 64_000, 1_000_000] {
        for buffers in [64, 256, 1024, 4096] {
            let frames: Vec<Vec<u8>> = (0..templates).map(|i| vec![i as u8; 64]).collect();
            let mut all = [Candidate {
                name: "ceiling".into(),
                subjects: vec![Box::new(Ceiling::default()), Box::new(MacSwap::default())],
                lanes: vec![Lane {
                    source: ElemId(0),
                    strangers: None,
                    templates: Templates::new(&frames, 1),
                }],
                start: Timestamp::ZERO,
                batch: 32,
                zipf: 0.0,
                seed: 1,
                room: None,
            }];
            let settings = Settings {
                buffers,
                seconds: 0.1,
                repeats: 9,
            };
            let o = alternate(&mut all, &settings, &mut |_, _, _| true);
            let of = |i: usize| {
                let s = o.measured.get(i).map(|m| m.samples.iter().map(|s| s.ns));
                s.and_then(Spread::of).map_or(String::new(), |s| {
                    format!("{:5.1} ({:.1} to {:.1})", s.median, s.min, s.max)
                })
            };
            println!(
                "{templates:8} templates {buffers:5} buffers: {}; MAC swap {}",
                of(0),
                of(1)
            );
        }
    }
}
