//! What a hop costs: nanoseconds per packet and element in both engines, on chains of elements that do next to nothing.
//!
//! `cargo run --release -p onefold-engine --example hops`

use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use std::time::Instant;

fn graph(hops: usize) -> Graph {
    let mut text = String::from("Idle -> first :: Null");
    for _ in 0..hops {
        text.push_str(" -> Null");
    }
    text.push_str(" -> Discard;");
    let flat = onefold_click::load(text.as_bytes(), "hops", &[], &Default::default())
        .unwrap_or_else(|e| panic!("{e:?}"));
    Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn scalar(hops: usize, packets: usize) -> f64 {
    let mut g = graph(hops);
    let Some(first) = g.find("first") else {
        return 0.0;
    };
    let began = Instant::now();
    for _ in 0..packets {
        let p = g.make_packet(&[0; 60]);
        g.inject_packet(first, 0, p, Default::default());
    }
    began.elapsed().as_nanos() as f64 / packets as f64
}

fn batched(hops: usize, packets: usize, batch: usize) -> f64 {
    let mut g = graph(hops);
    let Some(first) = g.find("first") else {
        return 0.0;
    };
    let mut list = Vec::new();
    let began = Instant::now();
    for _ in 0..packets / batch {
        for _ in 0..batch {
            list.push(g.make_packet(&[0; 60]));
        }
        g.inject_batch(first, &mut list, Default::default());
    }
    began.elapsed().as_nanos() as f64 / packets as f64
}

fn main() {
    let n = 2_000_000;
    let per_hop = |f: &dyn Fn(usize) -> f64| {
        f(40);
        let (a, b) = (f(0), f(40));
        println!(
            "  no hops {a:6.1} ns, 40 hops {b:6.1} ns: {:.2} ns per hop",
            (b - a) / 40.0
        );
    };
    println!("scalar");
    per_hop(&|h| scalar(h, n / 10));
    for batch in [1, 4, 32, 64, 256] {
        println!("batches of {batch}");
        per_hop(&|h| batched(h, n, batch));
    }
}
