//! Where to cut a node.

/// Rules looked at to choose.
const SAMPLE: usize = 2048;

/// Ends of entries, by word.
pub(super) struct Hulls {
    /// First values by entry, of each word.
    pub lo: Vec<Vec<u32>>,
    /// Last values.
    pub hi: Vec<Vec<u32>>,
}

/// A choice: the word, and ascending values at which new parts begin.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cut {
    pub word: usize,
    pub at: Vec<u32>,
}

/// The cut after which an entry has the fewest others beside it, copies counted; `None` if none gets ahead.
pub(super) fn choose(
    hulls: &Hulls,
    entries: &[u32],
    region: &[(u32, u32)],
    leaf: usize,
) -> Option<Cut> {
    let step = entries.len().div_ceil(SAMPLE);
    let n = entries.len().div_ceil(step) as f64;
    let fanout = (entries.len() * 2).div_ceil(leaf.max(1)).clamp(2, 16);
    let mut best: Option<(f64, Cut)> = None;
    let (mut lows, mut highs, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (word, region) in region.iter().enumerate() {
        let (Some(lo), Some(hi)) = (hulls.lo.get(word), hulls.hi.get(word)) else {
            continue;
        };
        lows.clear();
        highs.clear();
        ends.clear();
        for e in entries.iter().step_by(step) {
            let (l, h) = (lo[*e as usize], hi[*e as usize]);
            lows.push(l.max(region.0));
            highs.push(h.min(region.1));
            if l > region.0 {
                ends.push(l);
            }
            if h < region.1 {
                ends.push(h + 1);
            }
        }
        if ends.is_empty() {
            continue;
        }
        lows.sort_unstable();
        highs.sort_unstable();
        ends.sort_unstable();
        let mut at: Vec<u32> = (1..fanout)
            .map(|j| ends[(ends.len() * j / fanout).min(ends.len() - 1)])
            .collect();
        at.dedup();
        // expected size of the part that an entry lies in, times copies
        let mut squares = 0.0;
        let mut from = region.0;
        let mut part = |from: u32, to: u32| {
            // entries that begin at or before `to` and do not end before `from`
            let c = lows.partition_point(|l| *l <= to) - highs.partition_point(|h| *h < from);
            squares += (c * c) as f64;
        };
        for a in &at {
            part(from, a - 1);
            from = *a;
        }
        part(from, region.1);
        let cost = squares / n;
        if best.as_ref().is_none_or(|b| cost < b.0) {
            best = Some((cost, Cut { word, at }));
        }
    }
    let (cost, cut) = best?;
    // parts nearly as long as the whole are no gain: two parts of 0.9 have 1.62
    (cost < 1.6 * n).then_some(cut)
}
