//! When not to write a packet's action down, because those before it could not be kept.
//!
//! A packet that changes a binding (TCP's SYN, as long as nobody answers) has an action of its own each time. Following it through the program, copying it and making
//! an entry that is thrown away takes a microsecond; where a [masked match](crate::flow::masked_match::MaskedMatch) has nothing but such packets, that is all that the table does.

/// Actions in a row that could not be kept, after which few are tried.
const MANY: u8 = 16;
/// One of so many is tried then.
const EVERY: u8 = 16;

/// Of the packets in a masked match that have no entry.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InsertBackoff {
    /// Up to [`MANY`]: Actions that could not be kept. Above: packets since the last one that was tried.
    count: u8,
}

impl InsertBackoff {
    /// Shall this packet's action be written down?
    pub fn tries(&mut self) -> bool {
        if self.count < MANY {
            return true;
        }
        self.count += 1;
        if self.count < MANY + EVERY {
            return false;
        }
        self.count = MANY;
        true
    }
    /// What became of it.
    pub fn tried(&mut self, kept: bool) {
        self.count = match kept {
            true => 0,
            false => (self.count + 1).min(MANY),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_tried_after_many_in_vain() {
        let mut v = InsertBackoff::default();
        let mut tried = 0;
        for _ in 0..MANY as usize + 10 * EVERY as usize {
            if v.tries() {
                tried += 1;
                v.tried(false);
            }
        }
        assert_eq!(tried, MANY as usize + 10);
    }

    #[test]
    fn one_that_is_kept_ends_it() {
        let mut v = InsertBackoff::default();
        for _ in 0..1000 {
            if v.tries() {
                v.tried(false);
            }
        }
        let looked_up = (0..EVERY).find(|_| v.tries());
        assert!(looked_up.is_some());
        v.tried(true);
        assert!((0..MANY).all(|_| {
            let yes = v.tries();
            v.tried(false);
            yes
        }));
        assert!(!v.tries());
    }
}
