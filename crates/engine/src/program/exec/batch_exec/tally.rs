//! Lengths that a short action counts, summed for all of its packets of a batch.

use onefold_synth::program::{EndAt, LenAt};

/// Different lengths that one action counts, at most.
const LENGTHS: usize = 4;

/// The lengths that an action counts, each once: first byte, and whether to where the header says.
#[derive(Debug, Clone)]
pub(crate) struct Lengths {
    all: Vec<(i32, bool)>,
    /// All of them begin in packets that are so long, and end there by their header.
    least: usize,
}

/// Packets of an action that have not been told of, and their lengths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub packets: u64,
    /// Of those that are long enough for each length to begin in them: how many, their lengths, and those up to where the header says.
    whole: u64,
    lens: u64,
    ends: u64,
    /// Of the others, in the order of the lengths.
    bytes: [u64; LENGTHS],
}

impl Lengths {
    /// `None` if there are too many different ones.
    pub fn of(mut all: Vec<(i32, bool)>) -> Option<Lengths> {
        all.sort_unstable();
        all.dedup();
        let starts = all.iter().map(|l| usize::try_from(l.0).unwrap_or(0));
        let least = starts.max().unwrap_or(0);
        (all.len() <= LENGTHS).then_some(Lengths { all, least })
    }

    /// One more packet, of so many bytes, which ends there by its header.
    #[inline(always)]
    pub fn add(&self, t: &mut Tally, len: usize, end: usize) {
        t.packets += 1;
        if end.min(len) >= self.least {
            t.whole += 1;
            t.lens += len as u64;
            t.ends += end as u64;
        } else {
            self.add_short(t, len, end);
        }
    }

    #[cold]
    fn add_short(&self, t: &mut Tally, len: usize, end: usize) {
        for (l, to) in self.all.iter().zip(&mut t.bytes) {
            *to += length(*l, len, end);
        }
    }

    /// What one of them comes to for all packets; nothing where it is none of them.
    pub fn sum(&self, t: &Tally, of: &LenAt) -> u64 {
        let of = (of.start, of.end != EndAt::Same);
        let Some(k) = self.all.iter().position(|l| *l == of) else {
            return 0;
        };
        let whole = if of.1 { t.ends } else { t.lens };
        let before = i64::from(of.0) * t.whole as i64;
        t.bytes
            .get(k)
            .map_or(0, |b| b + (whole as i64 - before) as u64)
    }
}

/// A length of a packet; none where it begins behind the end.
fn length((start, by_header): (i32, bool), len: usize, end: usize) -> u64 {
    let end = if by_header { end } else { len };
    u64::try_from(end as i64 - i64::from(start)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Summed for all packets at once is summed one by one, of those that are too short, too.
        #[test]
        fn all_at_once_is_one_by_one(
            lengths in proptest::collection::vec((-40i32..80, any::<bool>()), 0..6),
            packets in proptest::collection::vec((0usize..120, 0usize..120), 0..40),
        ) {
            let mut different = lengths.clone();
            different.sort_unstable();
            different.dedup();
            let Some(l) = Lengths::of(lengths) else {
                prop_assert!(different.len() > LENGTHS);
                return Ok(());
            };
            let mut t = Tally::default();
            for (len, end) in &packets {
                l.add(&mut t, *len, *end);
            }
            prop_assert_eq!(t.packets, packets.len() as u64);
            for one in different {
                let end = if one.1 { EndAt::Ip4(14) } else { EndAt::Same };
                let want: u64 = packets.iter().map(|(len, end)| length(one, *len, *end)).sum();
                prop_assert_eq!(l.sum(&t, &LenAt { start: one.0, end }), want);
            }
        }
    }
}
