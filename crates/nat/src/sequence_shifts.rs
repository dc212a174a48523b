//! SequenceShifts of a TCP connection's sequence numbers: what an application gateway (FTPPortMapper) asks for when it
//! changes the length of the data.

/// Most shifts that one connection remembers; a further one is refused, as if memory had run out.
const MAX_SHIFTS: usize = 256;
/// A shift is forgotten once the sequence numbers have gone this far beyond it.
const FORGET: u32 = 1 << 30;

/// One step: from sequence number `trigger` on, `delta` applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Step {
    delta: [i32; 2],
    trigger: [u32; 2],
    /// There is a trigger, and an older step beyond it, in this direction.
    has: [bool; 2],
}

/// All steps of one connection, newest first; direction 0 is forward, 1 the reply's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SequenceShifts(Vec<Step>);

/// Sequence number comparison modulo 2^32.
fn at_or_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

impl SequenceShifts {
    /// The shift that new data of this direction gets.
    pub fn current(&self, reply: bool) -> i32 {
        self.0.first().map_or(0, |s| s.delta[usize::from(reply)])
    }

    /// From sequence number `trigger` (as the sender counts) on, data of this direction is shifted by `by` more. False
    /// when that cannot be remembered: it lies before an earlier shift, or there are too many.
    pub fn add(&mut self, reply: bool, trigger: u32, by: i32) -> bool {
        let (d, o) = (usize::from(reply), usize::from(!reply));
        let newest = self.0.first().copied();
        if let Some(s) = newest
            && s.has[d]
            && !at_or_after(trigger, s.trigger[d])
        {
            return false;
        }
        let another = match newest {
            None => true,
            Some(s) if s.has[d] => trigger != s.trigger[d],
            Some(s) => s.delta[d] != 0,
        };
        if another {
            if self.0.len() >= MAX_SHIFTS {
                return false;
            }
            self.0.insert(0, Step::default());
            // the other direction's steps move up by one
            for i in 1..self.0.len() {
                let older = self.0[i];
                let s = &mut self.0[i - 1];
                s.delta[o] = older.delta[o];
                s.trigger[o] = older.trigger[o];
                s.has[o] = older.has[o];
                if !older.has[o] {
                    break;
                }
            }
        }
        let below = self.0.get(1).map_or(0, |s| s.delta[d]);
        if let Some(s) = self.0.first_mut() {
            s.trigger[d] = trigger;
            s.delta[d] = below.wrapping_add(by);
            s.has[d] = true;
        }
        // forget what lies far behind
        let old = self
            .0
            .iter()
            .skip(1)
            .position(|s| !s.has[d] || at_or_after(trigger, s.trigger[d].wrapping_add(FORGET)));
        if let Some(i) = old
            && self.0[i + 1].has[d]
        {
            self.0[i + 1].has[d] = false;
            if self.0[i + 1].has == [false; 2] {
                self.0.truncate(i + 2);
            }
        }
        true
    }

    /// Called with the sequence number of every segment: forgets a shift that lies far behind.
    pub fn seen(&mut self, reply: bool, seq: u32) {
        let d = usize::from(reply);
        if let Some(s) = self.0.first_mut()
            && s.has[d]
            && at_or_after(seq, s.trigger[d].wrapping_add(FORGET))
        {
            s.has[d] = false;
            if s.has == [false; 2] {
                self.0.truncate(1);
            }
        }
    }

    /// Do sequence numbers of this direction change?
    pub fn active(&self, reply: bool) -> bool {
        let d = usize::from(reply);
        self.0.first().is_some_and(|s| s.delta[d] != 0 || s.has[d])
    }

    /// The sequence number to send in the place of `seq`.
    pub fn sequence(&self, reply: bool, seq: u32) -> u32 {
        let d = usize::from(reply);
        let s = self
            .0
            .iter()
            .find(|s| !s.has[d] || at_or_after(seq, s.trigger[d]));
        s.map_or(seq, |s| seq.wrapping_add(s.delta[d] as u32))
    }

    /// The acknowledgment to send in the place of `ack`, which is for data of the other direction.
    pub fn acknowledgment(&self, reply: bool, ack: u32) -> u32 {
        let o = usize::from(!reply);
        let back = |s: &Step| ack.wrapping_sub(s.delta[o] as u32);
        let s = self
            .0
            .iter()
            .find(|s| !s.has[o] || at_or_after(back(s), s.trigger[o]));
        s.map_or(ack, back)
    }

    /// A text that is equal exactly when two of them behave the same.
    pub fn summary(&self) -> String {
        let steps = self.0.iter().map(|s| {
            let side = |d: usize| match s.has[d] {
                true => format!("{}@{}", s.delta[d], s.trigger[d]),
                false => s.delta[d].to_string(),
            };
            format!("{}/{}", side(0), side(1))
        });
        steps.collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_shift() {
        let mut s = SequenceShifts::default();
        assert!(s.add(false, 30, -12));
        // before the trigger nothing changes, from it on everything does
        assert_eq!(s.sequence(false, 1), 1);
        assert_eq!(s.sequence(false, 29), 29);
        assert_eq!(s.sequence(false, 30), 18);
        assert_eq!(s.acknowledgment(true, 1), 1);
        assert_eq!(s.acknowledgment(true, 18), 30);
        assert_eq!(s.acknowledgment(true, 10), 10);
        assert_eq!(s.current(false), -12);
        assert!(s.active(false) && !s.active(true));
    }

    #[test]
    fn shifts_add_up_and_both_ways() {
        let mut s = SequenceShifts::default();
        assert!(s.add(false, 30, -12));
        assert!(s.add(false, 65, -12));
        assert_eq!(s.sequence(false, 65), 41);
        assert_eq!(s.sequence(false, 30), 18);
        assert_eq!(s.sequence(false, 0), 0);
        assert_eq!(s.acknowledgment(true, 45), 69);
        assert!(s.add(true, 29, -12));
        assert_eq!(s.sequence(true, 29), 17);
        assert_eq!(s.acknowledgment(false, 17), 29);
        assert_eq!(s.sequence(false, 71), 47);
        // going back is refused
        assert!(!s.add(false, 64, 5));
    }

    #[test]
    fn far_away_shifts_are_forgotten() {
        let mut s = SequenceShifts::default();
        s.add(false, 30, -12);
        s.seen(false, 29);
        assert_eq!(s.sequence(false, 0), 0);
        s.seen(false, 1_100_000_000);
        assert_eq!(s.sequence(false, 0), 0u32.wrapping_sub(12));
    }

    #[test]
    fn bounded() {
        let mut s = SequenceShifts::default();
        let n = (0..1000u32).filter(|i| s.add(false, i * 100, 1)).count();
        assert_eq!(n, MAX_SHIFTS);
    }
}
