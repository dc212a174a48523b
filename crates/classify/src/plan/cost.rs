//! The numbers behind estimates.
//!
//! Constants are nanoseconds on one core at 2.6 GHz with AVX-512, from `examples/measure` over generated and published
//! sets; they need not be right elsewhere, their proportions should: choosing by estimates is off where two structures
//! are close, which is when it matters least.

use super::{Estimate, Profile};
use crate::{Kind, MAX_SMALL, Refusal};

/// Candidates.
pub(super) const KINDS: [Kind; 5] = [
    Kind::DecisionCode,
    Kind::PrefixTrie,
    Kind::DecisionTree,
    Kind::TupleSpace,
    Kind::BitVector,
];

/// Structures whose rules come and go.
pub(super) fn changes(kind: Kind) -> bool {
    matches!(kind, Kind::TupleSpace | Kind::PrefixTrie)
}

/// Why a structure does not take such rules, where that is plain to see.
pub(super) fn form(kind: Kind, p: &Profile) -> Option<Refusal> {
    match kind {
        Kind::DecisionCode if p.entries > MAX_SMALL => Some(Refusal::TooMany {
            kind,
            found: p.entries,
            limit: MAX_SMALL,
        }),
        Kind::PrefixTrie if p.fields > 1 => Some(Refusal::Form {
            kind,
            why: "rules ask about more than one field",
        }),
        Kind::PrefixTrie if !p.prefixes => Some(Refusal::Form {
            kind,
            why: "rules that are no prefixes",
        }),
        _ => None,
    }
}

/// A cache line from memory that so many bytes lie in, asked for early: nanoseconds.
fn line(bytes: usize) -> f64 {
    match bytes >> 10 {
        0..32 => 0.3,
        32..1024 => 0.7,
        1024..16384 => 1.3,
        _ => 2.5,
    }
}

/// Decision code: comparisons are paid once per group of vectors.
pub(super) fn code(comparisons: usize, entries: usize, batch: usize) -> f64 {
    let group = match batch {
        64.. => 1.0,
        32.. => 1.4,
        16.. => 2.2,
        n => 35.0 / n.max(1) as f64,
    };
    let each = comparisons as f64 * CODE_COMPARISON + entries as f64 * CODE_ENTRY;
    0.6 + each * group
}

const CODE_COMPARISON: f64 = 0.075;
const CODE_ENTRY: f64 = 0.01;

/// A tuple space by its tables.
pub(super) fn tuples(tables: usize, memory: usize) -> f64 {
    let each = 3.0 + 2.0 * line(memory);
    // the last tables are seldom reached: their best rule is late
    12.0 + tables as f64 * each * 0.9_f64.powf((tables as f64 / 20.0).min(6.0))
}

/// From the profile alone.
pub(super) fn estimate(kind: Kind, p: &Profile, batch: usize) -> Estimate {
    let n = p.entries as f64;
    let depth = (n / 8.0).max(1.0).log2();
    let (ns, bytes, build) = match kind {
        Kind::DecisionCode | Kind::Linear => (
            code(p.tests, p.entries, batch),
            40.0 + p.tests as f64 * 12.0,
            n * 1e-7,
        ),
        Kind::DecisionTree => {
            let copies = 1.5 + 6.0 * p.wide[1].min(0.3);
            let bytes = n * copies * (p.words as f64 + 1.0) * 8.0;
            // wide rules take trees of their own, and longer leaves
            let trees = 1.0 + (p.wide[0] + p.wide[1]).sqrt() * (n / 3000.0).min(1.0) * 1.5;
            let each = depth * 2.5 + line(bytes as usize) * 4.0;
            (14.0 + each * trees, bytes, n * 2e-5)
        }
        Kind::TupleSpace => {
            let tables = (p.tuples as f64).min(n / 6.0).max(1.0);
            let bytes = n * (12.0 * (p.words as f64 + 1.0) + 70.0);
            (tuples(tables as usize, bytes as usize), bytes, n * 1e-6)
        }
        Kind::BitVector => {
            let blocks = (n / 512.0).ceil();
            let dense = p.wide[0] + p.wide[1] / 2.0;
            let ns = 40.0 + p.words as f64 * 3.0 + blocks * (1.5 + 20.0 * dense);
            (
                ns,
                n * (p.words as f64 * 60.0 + blocks * 4.0) + 3e5,
                n * 5e-6 + 5e-3,
            )
        }
        Kind::PrefixTrie => {
            let levels = if p.words > 1 { 5.0 } else { 1.0 };
            // of the first table few slots are hot where there are few routes
            let hot = line((n * 40.0) as usize);
            (
                3.0 + levels * (1.2 + 3.0 * hot),
                2.4e6 + n * 40.0,
                n * 6e-7 + 1e-3,
            )
        }
    };
    Estimate {
        ns,
        memory: bytes as usize,
        build,
    }
}
