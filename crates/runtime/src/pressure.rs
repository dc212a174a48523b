//! Whether packets queue up in front of a live port.
//!
//! A port whose batches are full has packets left behind. After a burst that is over in a moment; where it lasts, more
//! packets arrive than can be carried out, the queue runs over, and known and unknown packets are lost alike. From then
//! on a full batch is said to come from a queue that runs over, and one that is not full is not: there is time for all
//! of its packets.

use onefold_packet::Timestamp;

/// Full batches for so long are no burst any more: a ring of 4,096 frames is drained sooner.
const LASTS: Timestamp = Timestamp(10_000_000);
/// After so long without a full batch it is over.
const OVER: Timestamp = Timestamp(1_000_000_000);

/// See the module's text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pressure {
    /// Batches have been full since.
    full_since: Option<Timestamp>,
    /// Full batches up to this time are of a queue that runs over.
    until: Option<Timestamp>,
    /// When the last batch arrived.
    last: Timestamp,
}

impl Pressure {
    /// A batch has arrived. Does it come from a queue that runs over?
    #[inline]
    pub fn batch(&mut self, full: bool, now: Timestamp) -> bool {
        // where nothing has come for so long, nothing was left behind
        let pause = now - std::mem::replace(&mut self.last, now) >= LASTS;
        if !full || pause {
            self.full_since = None;
        }
        if !full {
            return false;
        }
        let since = *self.full_since.get_or_insert(now);
        let lasts = now - since >= LASTS;
        let before = self.until.is_some_and(|until| now < until);
        self.until = (lasts || before).then(|| now + OVER);
        lasts || before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: i64) -> Timestamp {
        Timestamp(n * 1_000_000)
    }

    #[test]
    fn bursts_are_not_told_and_floods_are() {
        let mut p = Pressure::default();
        for t in 0..9 {
            assert!(!p.batch(true, ms(t)), "a burst");
        }
        assert!(!p.batch(false, ms(9)));
        for t in 10..20 {
            assert!(!p.batch(true, ms(t)), "another one");
        }
        assert!(p.batch(true, ms(20)) && p.batch(true, ms(21)));
        // there is time for these, and the flood goes on
        assert!(!p.batch(false, ms(22)));
        assert!(p.batch(true, ms(23)) && p.batch(true, ms(1000)));
        // a second later it is a burst again
        assert!(!p.batch(true, ms(2001)));
    }
}
