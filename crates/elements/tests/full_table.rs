//! A full Internet table in the longest-prefix structure: right, soon built, and not too large.

use onefold_elements::routing::lpm::{Key, Lpm};
use std::collections::HashMap;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Instant;

type Prefixes<K> = Vec<(K, u8)>;

/// All prefixes of the shared table, or `None` (said so) where it is missing.
fn prefixes() -> Option<(Prefixes<u32>, Prefixes<u128>)> {
    let path = onefold_testing::data("fib/dfz-half-public.prefixes.txt.gz")?;
    let file = std::fs::File::open(path).unwrap();
    let mut text = String::new();
    let mut gz = flate2::read::GzDecoder::new(file);
    gz.read_to_string(&mut text).unwrap();
    let (mut v4, mut v6) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let (a, n) = line.split_once('/').unwrap();
        let n: u8 = n.parse().unwrap();
        match a.parse::<Ipv4Addr>() {
            Ok(a) => v4.push((u32::from(a), n)),
            Err(_) => v6.push((u128::from(a.parse::<Ipv6Addr>().unwrap()), n)),
        }
    }
    Some((v4, v6))
}

/// A plain generator of well-spread numbers.
fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Independent of the structure: every length from the longest, in a hash table.
fn definition<K: Key>(all: &HashMap<(K, u8), u32>, a: K) -> Option<u32> {
    (0..=K::BITS as u8)
        .rev()
        .find_map(|l| all.get(&(a.prefix(l), l)).copied())
}

fn check<K: Key>(
    name: &str,
    prefixes: &[(K, u8)],
    probes: &[K],
    build_seconds: f64,
    bytes_per_prefix: usize,
) {
    let start = Instant::now();
    let mut lpm = Lpm::new();
    for (i, (k, l)) in prefixes.iter().enumerate() {
        assert!(lpm.insert(*k, *l, i as u32, i as u32 % 64));
    }
    let built = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let rounds = 8;
    let mut sum = 0u64;
    for _ in 0..rounds {
        for p in probes {
            sum += u64::from(lpm.lookup(*p).unwrap_or(99));
        }
    }
    let each = start.elapsed().as_secs_f64() * 1e9 / (probes.len() * rounds) as f64;
    println!(
        "{name}: {} prefixes in {built:.3} s, {} bytes ({} each), {each:.1} ns per look-up (sum {sum})",
        lpm.len(),
        lpm.memory(),
        lpm.memory() / lpm.len()
    );
    assert!(
        lpm.memory() / lpm.len() < bytes_per_prefix,
        "{}",
        lpm.memory()
    );
    // an unoptimized build is no measure
    if !cfg!(debug_assertions) {
        assert!(built < build_seconds, "{built} s");
    }
    let all: HashMap<(K, u8), u32> = prefixes
        .iter()
        .enumerate()
        .map(|(i, (k, l))| ((k.prefix(*l), *l), i as u32))
        .collect();
    assert_eq!(lpm.len(), all.len());
    for p in probes.iter().take(100_000) {
        let want = definition(&all, *p);
        assert_eq!(lpm.lookup_id(*p), want, "{p:?}");
        assert_eq!(lpm.lookup(*p), want.map(|i| i % 64), "{p:?}");
    }
    // take every other prefix out again
    let mut rest = all.clone();
    for (k, l) in prefixes.iter().step_by(2) {
        assert_eq!(lpm.remove(*k, *l), rest.remove(&(k.prefix(*l), *l)));
    }
    for p in probes.iter().take(50_000) {
        assert_eq!(lpm.lookup_id(*p), definition(&rest, *p), "{p:?}");
    }
}

#[test]
fn full_tables() {
    let Some((v4, v6)) = prefixes() else { return };
    let probes: Vec<u32> = (0..400_000u64)
        .map(|i| match i % 4 {
            0 => mix(i) as u32,
            // inside announced space
            _ => {
                let (k, l) = v4[mix(i) as usize % v4.len()];
                k | (mix(i + 7) as u32).checked_shr(l.into()).unwrap_or(0)
            }
        })
        .collect();
    check("IPv4", &v4, &probes, 1.0, 128);
    let probes: Vec<u128> = (0..100_000u64)
        .map(|i| {
            let (k, l) = v6[mix(i) as usize % v6.len()];
            let low = u128::from(mix(i + 1)) << 64 | u128::from(mix(i + 2));
            k | low.checked_shr(l.into()).unwrap_or(0)
        })
        .collect();
    check("IPv6", &v6, &probes, 1.0, 512);
}
