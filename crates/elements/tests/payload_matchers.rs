//! The rules of the Emerging Threats set on captured packets: whoever looks, the same is found.

#[path = "support/emerging.rs"]
mod emerging;

use onefold_elements::payload::scan::{Choice, DEFAULT_REGEX_MEMORY, Pattern, Scanner};
use std::collections::HashSet;

/// Of so many payloads one is searched by hand, needle by needle.
const BY_HAND: usize = 100;

fn scanner(needles: &[Vec<u8>], choice: Choice) -> Scanner {
    let all = needles.iter().map(|n| Pattern {
        nocase: true,
        ..Pattern::literal(n.clone())
    });
    Scanner::with(all.collect(), DEFAULT_REGEX_MEMORY, choice).unwrap()
}

fn numbers(s: &mut Scanner, data: &[u8]) -> Vec<u32> {
    let mut v = s.scan(data).numbers().to_vec();
    v.sort_unstable();
    v
}

#[test]
fn matchers_find_the_same_of_real_rules_in_captures() {
    let Some(rules) = onefold_testing::data("dpi/et-open") else {
        return;
    };
    let Some(captures) = onefold_testing::data("pcap") else {
        return;
    };
    let needles = emerging::needles(&rules);
    let mut known = HashSet::new();
    let mut payloads = emerging::payloads(&emerging::packets(&captures));
    payloads.retain(|p| known.insert(p.clone()));
    assert!(
        needles.len() > 500 && payloads.len() > 10_000,
        "{} {}",
        needles.len(),
        payloads.len()
    );
    let mut portable = scanner(&needles, Choice::Portable);
    let vectorscan = onefold_hyperscan::library().map_err(onefold_testing::skip);
    let mut vectorscan = vectorscan
        .ok()
        .map(|_| scanner(&needles, Choice::Vectorscan));
    let mut hits = 0;
    for (i, p) in payloads.iter().enumerate() {
        let found = numbers(&mut portable, p);
        hits += found.len();
        if i.is_multiple_of(BY_HAND) {
            let low = p.to_ascii_lowercase();
            let by_hand: Vec<u32> = (0..needles.len())
                .filter(|k| low.windows(needles[*k].len()).any(|w| w == needles[*k]))
                .map(|k| k as u32)
                .collect();
            assert_eq!(found, by_hand, "{p:?}");
        }
        if let Some(s) = &mut vectorscan {
            assert_eq!(numbers(s, p), found, "{p:?}");
        }
    }
    assert!(hits > 1000, "{hits}");
}
