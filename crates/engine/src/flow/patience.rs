//! When packets are looked up for what may be composed.

/// Between two packets that are looked up for what may be composed: at most so many times.
const MOST_PATIENCE: u32 = 1 << 12;

/// When a cache's next packet is looked up for what may be composed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Patience {
    left: u32,
    most: u32,
}

impl Patience {
    /// Is it time? Each time that it is asked it is a little more so.
    #[inline]
    pub fn ends(&mut self) -> bool {
        let ends = self.left == 0;
        self.left = self.left.saturating_sub(1);
        ends
    }
    /// It was worth it, or not.
    pub fn tried(&mut self, worth_it: bool) {
        self.most = match worth_it {
            true => 0,
            false => (self.most * 2 + 1).min(MOST_PATIENCE),
        };
        self.left = self.most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_vain_is_tried_ever_more_seldom() {
        let mut p = Patience::default();
        let waits = |p: &mut Patience, worth_it| {
            p.tried(worth_it);
            // Bound: the most that it waits
            (0..=MOST_PATIENCE).take_while(|_| !p.ends()).count() as u32
        };
        assert_eq!([1, 3, 7, 15].map(|_| waits(&mut p, false)), [1, 3, 7, 15]);
        let last = (0..20).map(|_| waits(&mut p, false)).last();
        assert_eq!(last, Some(MOST_PATIENCE));
        assert_eq!(waits(&mut p, true), 0);
    }
}
