//! From tries to a verdict: a server is up or down when enough tries in a row have said so.

/// What tries have said of a server. It is up until they have said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Judge {
    down: bool,
    /// Tries in a row that say the opposite.
    against: u32,
}

impl Judge {
    /// Does it get new flows?
    pub fn is_up(&self) -> bool {
        !self.down
    }

    /// A try has succeeded, or failed. True: the verdict has changed.
    pub fn note(&mut self, succeeded: bool, rise: u32, fall: u32) -> bool {
        if succeeded != self.down {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let enough = match self.down {
            true => rise,
            false => fall,
        };
        if self.against < enough {
            return false;
        }
        *self = Judge {
            down: !self.down,
            against: 0,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_in_a_row() {
        let mut j = Judge::default();
        let mut after = |tries: &str| -> String {
            let each = tries.chars().map(|c| {
                let changed = j.note(c == '+', 2, 3);
                match (changed, j.is_up()) {
                    (true, true) => 'U',
                    (true, false) => 'D',
                    (false, true) => 'u',
                    (false, false) => 'd',
                }
            });
            each.collect()
        };
        assert_eq!(after("++--+--"), "uuuuuuu", "never three failures in a row");
        assert_eq!(after("-"), "D");
        assert_eq!(after("--+-+-+"), "ddddddd", "never two successes in a row");
        assert_eq!(after("+"), "U");
        assert_eq!(after("---"), "uuD");
    }

    #[test]
    fn one_try_is_enough_where_that_is_asked_for() {
        let mut j = Judge::default();
        assert!(j.note(false, 1, 1) && !j.is_up());
        assert!(j.note(true, 1, 1) && j.is_up());
        assert!(!j.note(true, 1, 1));
    }
}
