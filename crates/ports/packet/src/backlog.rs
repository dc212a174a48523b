//! Frames that wait for room in the device's queue, in order; their number is bounded, and their memory is kept.

/// Most frames that wait.
pub const MOST: usize = 1024;

/// See the module's text.
#[derive(Debug, Default)]
pub struct Backlog {
    frames: Vec<Vec<u8>>,
    /// The first one that waits, and how many do.
    first: usize,
    waiting: usize,
}

impl Backlog {
    /// How many wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.waiting
    }

    /// One more waits, behind all others. False: there is no room for it.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        if self.waiting >= MOST {
            return false;
        }
        if self.frames.len() < MOST {
            self.frames.resize_with(MOST, Vec::new);
        }
        let at = (self.first + self.waiting) % MOST;
        if let Some(to) = self.frames.get_mut(at) {
            to.clear();
            to.extend_from_slice(frame);
            self.waiting += 1;
        }
        true
    }

    /// Those that wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.waiting).filter_map(|i| {
            let f = self.frames.get((self.first + i) % MOST)?;
            Some(f.as_slice())
        })
    }

    /// The first `n` do not wait any more.
    pub fn remove(&mut self, n: usize) {
        let n = n.min(self.waiting);
        self.first = (self.first + n) % MOST;
        self.waiting -= n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_and_no_more_than_there_is_room_for() {
        let mut b = Backlog::default();
        let frame = |i: usize| (i as u32).to_be_bytes();
        for i in 0..MOST {
            assert!(b.push(&frame(i)));
        }
        assert!(!b.push(&frame(MOST)));
        b.remove(10);
        assert!((0..10).all(|i| b.push(&frame(MOST + i))));
        assert!(!b.push(&frame(0)));
        assert_eq!(b.len(), MOST);
        let all: Vec<&[u8]> = b.iter().collect();
        let want: Vec<[u8; 4]> = (10..MOST + 10).map(frame).collect();
        assert_eq!(all, want);
        b.remove(MOST + 1);
        assert_eq!(b.len(), 0);
    }
}
