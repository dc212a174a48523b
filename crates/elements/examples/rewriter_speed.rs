//! Time per packet of an IPRewriter with many established flows, packets in random order, in batches of 32.
//!
//! `cargo run --release -p onefold-elements --example rewriter_speed [FLOWS]`

use onefold_element::Emission;
use onefold_elements::testing::Bench;
use onefold_packet::{Packet, Pkt};
use std::time::Instant;

const BATCH: usize = 32;
const ROUNDS: usize = 40_000;

/// Writes a UDP packet of flow `i` into `p`.
fn write(p: &mut Packet, i: u32) {
    let d = p.data_mut();
    d[12..16].copy_from_slice(&(0x0a00_0000 + (i >> 8)).to_be_bytes());
    d[16..20].copy_from_slice(&[8, 8, 8, 8]);
    d[20..22].copy_from_slice(&(10_000 + (i & 255) as u16).to_be_bytes());
    d[22..24].copy_from_slice(&53u16.to_be_bytes());
    p.set_network_header(0, 20);
}

fn packet() -> Pkt {
    let mut d = [0u8; 60];
    d[0] = 0x45;
    d[9] = 17;
    d[26] = 1;
    Box::new(Packet::from_slice(&d))
}

fn main() {
    let arg = std::env::args().nth(1).and_then(|a| a.parse().ok());
    let flows: u32 = arg.unwrap_or(65_536);
    // destination 8.8.8.8:53 has 64k ports per address only: several addresses
    let config = "pattern 1.0.0.0-1.0.255.255# - 0 1, drop, UDP_GUARANTEE 5";
    let class = "IPRewriter";
    let mut b = match Bench::new(class, config, 2, 2) {
        Ok(b) => b,
        Err(e) => panic!("{e:?}"),
    };
    b.host.quiet = true;
    let mut p = packet();
    for i in 0..flows {
        write(&mut p, i);
        b.push_packet(0, p.clone());
    }
    println!("{} flows", b.read("size").unwrap_or_default());
    let mut pool: Vec<Pkt> = (0..BATCH).map(|_| packet()).collect();
    let mut seed = 1u32;
    let mut order: Vec<u32> = Vec::new();
    for _ in 0..ROUNDS * BATCH {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        order.push(((u64::from(seed) * u64::from(flows)) >> 32) as u32);
    }
    for _ in 0..3 {
        let mut ns = [0f64; 2];
        for (k, total) in ns.iter_mut().enumerate() {
            let start = Instant::now();
            for batch in order.chunks_exact(BATCH) {
                for (p, i) in pool.iter_mut().zip(batch) {
                    write(p, *i);
                }
                if k == 0 {
                    b.now.0 += 1000;
                    b.with(|e, cx| e.push_batch(0, &mut pool, cx));
                    for e in b.out.effects.drain(..) {
                        if let Emission::Emit(_, p) = e {
                            pool.push(p);
                        }
                    }
                    assert_eq!(pool.len(), BATCH);
                }
            }
            *total = start.elapsed().as_nanos() as f64 / order.len() as f64;
        }
        println!(
            "{:.1} ns per packet, and {:.1} ns to make it",
            ns[0] - ns[1],
            ns[1]
        );
    }
}
