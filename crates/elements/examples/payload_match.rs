//! How fast payloads are searched for the needles of the Emerging Threats rules: the portable matcher and Vectorscan,
//! in alternation, beside a pass that only reads the payloads.
//!
//! ```text
//! cargo run --profile quick -p onefold-elements --example payload_match -- [ROUNDS] [FOLDER]
//! ```
//!
//! The data is third-party (`ONEFOLD_DATA`, docs/benchmarks.md). With FOLDER, needles and payloads are written there
//! for other matchers: `needles.bin` and `payloads.bin`, each entry behind its length (32 bits, little endian).

#[path = "../tests/support/emerging.rs"]
mod emerging;

use nix::time::{ClockId, clock_gettime};
use onefold_elements::payload::scan::{Choice, DEFAULT_REGEX_MEMORY, Pattern, Scanner};
use std::time::Instant;

/// Payloads of these lengths are told apart.
const LENGTHS: [(&str, usize, usize); 6] = [
    ("all", 1, usize::MAX),
    ("1 to 16", 1, 16),
    ("17 to 32", 17, 32),
    ("33 to 256", 33, 256),
    ("257 to 1024", 257, 1024),
    ("over 1024", 1025, usize::MAX),
];

/// Processor time of this thread in nanoseconds: other load on the machine does not count.
fn now() -> f64 {
    let t = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    t.map_or(0.0, |t| t.tv_sec() as f64 * 1e9 + t.tv_nsec() as f64)
}

fn median(v: &mut [f64]) -> f64 {
    v.sort_by(f64::total_cmp);
    v.get(v.len() / 2).copied().unwrap_or(0.0)
}

fn write(path: std::path::PathBuf, list: &[Vec<u8>]) -> std::io::Result<()> {
    let mut out = Vec::new();
    for b in list {
        out.extend((b.len() as u32).to_le_bytes());
        out.extend(b);
    }
    std::fs::write(path, out)
}

/// Something that goes over all payloads and gives a number that depends on them.
type Pass<'a> = Box<dyn FnMut(&[&[u8]]) -> usize + 'a>;

fn scanner(needles: &[Vec<u8>], choice: Choice) -> Option<Scanner> {
    let all = needles.iter().map(|n| Pattern {
        nocase: true,
        ..Pattern::literal(n.clone())
    });
    let start = Instant::now();
    let s = Scanner::with(all.collect(), DEFAULT_REGEX_MEMORY, choice);
    match s {
        Ok(s) => {
            println!(
                "{}: made in {:.3} s",
                s.engine(),
                start.elapsed().as_secs_f64()
            );
            Some(s)
        }
        Err(e) => {
            println!("{e}");
            None
        }
    }
}

fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().and_then(|n| n.parse().ok()).unwrap_or(9);
    let (Some(rules), Some(captures)) = (
        onefold_testing::data("dpi/et-open"),
        onefold_testing::data("pcap"),
    ) else {
        return Ok(());
    };
    let needles = emerging::needles(&rules);
    let payloads = emerging::payloads(&emerging::packets(&captures));
    println!("{} needles, {} payloads", needles.len(), payloads.len());
    if let Some(dir) = args.next() {
        let dir = std::path::PathBuf::from(dir);
        write(dir.join("needles.bin"), &needles)?;
        write(dir.join("payloads.bin"), &payloads)?;
    }
    let mut passes: Vec<(&str, Pass<'_>)> = Vec::new();
    passes.push((
        "ceiling (memchr of a byte that is rare)",
        Box::new(|all: &[&[u8]]| {
            all.iter()
                .map(|p| memchr::memchr_iter(0xf7, p).count())
                .sum()
        }),
    ));
    for (name, choice) in [
        ("portable", Choice::Portable),
        ("vectorscan", Choice::Vectorscan),
    ] {
        if let Some(mut s) = scanner(&needles, choice) {
            passes.push((
                name,
                Box::new(move |all: &[&[u8]]| all.iter().map(|p| s.scan(p).count()).sum()),
            ));
        }
    }
    for (what, least, most) in LENGTHS {
        let list: Vec<&[u8]> = (payloads.iter().map(Vec::as_slice))
            .filter(|p| (least..=most).contains(&p.len()))
            .collect();
        let bytes: usize = list.iter().map(|p| p.len()).sum();
        println!(
            "\npayloads of {what} bytes: {}, {:.1} bytes on average",
            list.len(),
            bytes as f64 / list.len() as f64
        );
        let mut times = vec![Vec::new(); passes.len()];
        let mut found = vec![0; passes.len()];
        for round in 0..=rounds {
            for (k, (_, pass)) in passes.iter_mut().enumerate() {
                let start = now();
                found[k] = std::hint::black_box(pass(&list));
                // the first round warms up
                if round > 0 {
                    times[k].push(now() - start);
                }
            }
        }
        for (k, (name, _)) in passes.iter().enumerate() {
            let m = median(&mut times[k]);
            let (lo, hi) = (
                times[k].first().copied().unwrap_or(0.0),
                times[k].last().copied().unwrap_or(0.0),
            );
            println!(
                "{name:40} {:8.1} ns a payload ({:.1} to {:.1}) {:7.2} Gbit/s  {} found",
                m / list.len() as f64,
                lo / list.len() as f64,
                hi / list.len() as f64,
                bytes as f64 * 8.0 / m,
                found[k]
            );
        }
    }
    Ok(())
}
