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
