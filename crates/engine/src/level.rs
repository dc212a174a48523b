//! The levels of execution, and the clock that tells what each of them costs.

use std::time::{Duration, Instant};

/// How a packet is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Element by element, as written.
    Reference,
    /// By the synthesized program.
    Program,
    /// As the flow table remembers that the flow's packets went.
    Flow,
}

impl Level {
    /// All of them, slowest for a known flow first.
    pub const ALL: [Level; 3] = [Level::Reference, Level::Program, Level::Flow];

    /// `reference`, `program` or `flow`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Reference => "reference",
            Level::Program => "program",
            Level::Flow => "flow",
        }
    }
}

/// Where costs come from that levels are chosen by.
#[derive(Debug, Clone)]
pub enum Stopwatch {
    /// The clock of the machine.
    Real(Instant),
    /// Whatever a seed says: each reading is up to a tenth of a millisecond behind the one before. Every choice that costs can
    /// lead to is reached, and comes again with the seed.
    Seeded {
        /// State of the generator; not zero.
        state: u64,
        /// Nanoseconds that have passed.
        ns: u64,
    },
}

impl Stopwatch {
    /// Of the machine.
    pub fn real() -> Stopwatch {
        Stopwatch::Real(Instant::now())
    }

    /// Of a seed.
    pub fn seeded(seed: u64) -> Stopwatch {
        Stopwatch::Seeded {
            state: seed | 1,
            ns: 0,
        }
    }

    /// Time since it was made.
    #[inline]
    pub fn read(&mut self) -> Duration {
        match self {
            Stopwatch::Real(from) => from.elapsed(),
            Stopwatch::Seeded { state, ns } => {
                // Marsaglia's xorshift: never zero
                *state ^= *state << 13;
                *state ^= *state >> 7;
                *state ^= *state << 17;
                // logarithmic: differences of all sizes
                let most = 100u64 << ((*state >> 60) % 11);
                *ns += 1 + (*state >> 20) % most;
                Duration::from_nanos(*ns)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seeded_clock_goes_on_and_comes_again() {
        let (mut a, mut b, mut c) = (
            Stopwatch::seeded(7),
            Stopwatch::seeded(7),
            Stopwatch::seeded(8),
        );
        let mut last = Duration::ZERO;
        let mut other = false;
        for _ in 0..1000 {
            let t = a.read();
            assert!(t > last);
            assert_eq!(t, b.read());
            other |= t != c.read();
            last = t;
        }
        assert!(other);
    }
}
