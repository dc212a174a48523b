//! Which inputs of a process lead to which of its outputs, as far as packets have shown it, and which inputs wait
//! because a ring is full ([`WhenFull::ByWay`](crate::WhenFull::ByWay)).
//!
//! A process on several ways must not stand still because one of them is: it goes on with the inputs that lead
//! elsewhere. An input whose packets go to several outputs cannot be told apart like that: it goes on, too, and what
//! finds a full ring is dropped.

use std::time::{Duration, Instant};

/// How long packets wait for room at an output, with none of them sent.
const PATIENCE: Duration = Duration::from_millis(20);
/// After so many looks what was seen of ways is forgotten: chains change.
const REMEMBERED: u32 = 1 << 14;
/// Outputs that are told apart; others never wait.
const MOST: usize = 64;

/// See the module's text.
#[derive(Debug)]
pub struct Ways {
    /// By input: outputs that packets have gone to, as bits.
    leads: Vec<u64>,
    /// By output: packets that waited at the last look, and since when none of them was sent.
    waiting: Vec<(usize, Option<Instant>)>,
    /// Outputs that packets wait at.
    full: u64,
    /// Those where they are to be given up.
    over: u64,
    looks: u32,
}

impl Ways {
    /// Of a process with so many inputs and outputs.
    pub fn new(inputs: usize, outputs: usize) -> Ways {
        Ways {
            leads: vec![0; inputs],
            waiting: vec![(0, None); outputs],
            full: 0,
            over: 0,
            looks: 0,
        }
    }

    /// A packet from an input goes to an output.
    #[inline]
    pub fn goes(&mut self, input: usize, output: usize) {
        if let Some(l) = self.leads.get_mut(input)
            && output < MOST
        {
            *l |= 1 << output;
        }
    }

    /// Does it lead to a full ring, and nowhere else? Nothing is to be taken from it then.
    #[inline]
    pub fn is_shut(&self, input: usize) -> bool {
        let leads = self.leads.get(input).copied().unwrap_or(0);
        leads & self.full != 0 && leads.is_power_of_two()
    }

    /// Nothing waits for room, or nobody is to wait.
    #[inline]
    pub fn open(&mut self) {
        if self.full | self.over != 0 {
            (self.full, self.over) = (0, 0);
            self.waiting.fill((0, None));
        }
    }

    /// Has what waits at an output waited for too long, or is it of inputs that lead elsewhere, too?
    pub fn is_over(&self, output: usize) -> bool {
        output >= MOST || self.over >> output & 1 == 1
    }

    /// So much waits at outputs now.
    pub fn look(&mut self, now: Instant, backlog: impl Fn(usize) -> usize) {
        self.looks += 1;
        if self.looks >= REMEMBERED {
            self.looks = 0;
            self.leads.fill(0);
        }
        (self.full, self.over) = (0, 0);
        for (output, (before, since)) in self.waiting.iter_mut().enumerate().take(MOST) {
            let n = backlog(output);
            if n == 0 {
                (*before, *since) = (0, None);
                continue;
            }
            if n < *before {
                *since = None;
            }
            *before = n;
            let begun = *since.get_or_insert(now);
            let several = |l: &u64| l >> output & 1 == 1 && !l.is_power_of_two();
            let of_several = self.leads.iter().any(several);
            if of_several || now.saturating_duration_since(begun) >= PATIENCE {
                (*before, *since, self.over) = (0, None, self.over | 1 << output);
            } else {
                self.full |= 1 << output;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_wait_for_the_ring_that_they_lead_to_alone() {
        let mut w = Ways::new(3, 2);
        w.goes(0, 0);
        w.goes(1, 1);
        let at = Instant::now();
        let ms = |n| at + Duration::from_millis(n);
        w.look(at, |o| [5, 0][o]);
        assert_eq!([0, 1, 2].map(|i| w.is_shut(i)), [true, false, false]);
        // some of it was sent: patience begins anew
        w.look(ms(15), |o| [3, 0][o]);
        w.look(ms(30), |o| [3, 0][o]);
        assert!(w.is_shut(0) && !w.is_over(0));
        w.look(ms(36), |o| [3, 0][o]);
        assert_eq!((w.is_shut(0), w.is_over(0)), (false, true));
        w.look(ms(40), |o| [3, 7][o]);
        assert_eq!([0, 1].map(|i| w.is_shut(i)), [true, true]);
        assert!(!w.is_over(0) && !w.is_over(1));
        w.open();
        assert_eq!([0, 1].map(|i| w.is_shut(i)), [false, false]);
    }

    #[test]
    fn who_leads_to_several_rings_does_not_wait_for_one_of_them() {
        let mut w = Ways::new(2, 2);
        w.goes(0, 0);
        w.goes(0, 1);
        w.goes(1, 1);
        let now = Instant::now();
        w.look(now, |o| [5, 0][o]);
        assert!(!w.is_shut(0) && w.is_over(0));
        // those of the second input would wait, but cannot be told from the first one's
        w.look(now, |o| [0, 5][o]);
        assert!(!w.is_shut(1) && w.is_over(1) && !w.is_over(0));
        // what was seen is forgotten
        for _ in 0..REMEMBERED {
            w.look(now, |_| 0);
        }
        w.goes(0, 0);
        w.look(now, |o| [5, 0][o]);
        assert!(w.is_shut(0) && !w.is_over(0));
        // outputs that are not told apart
        let mut many = Ways::new(1, 70);
        many.goes(0, 69);
        many.look(now, |o| usize::from(o == 69));
        assert!(!many.is_shut(0) && many.is_over(69));
    }
}
