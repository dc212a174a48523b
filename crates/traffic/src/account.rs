//! What became of packets: received, lost, duplicated, reordered, and how long they took.
//!
//! - *Reordered* is RFC 4737's Type-P-Reordered: a packet whose sequence number is below one that has arrived before.
//!   It is counted among packets that were sent at one port and arrived at one port, and once more among those of one
//!   flow that arrived at one port. Copies of a packet are duplicates, and never reordered.
//! - *Duplicates* are arrivals of a packet that has arrived before.
//! - *Lost* is what was sent and has not arrived by the end.
//!
//! Bound: packets are followed until [`WINDOW`] more have been sent; one that comes later is counted as late, and lost.

use crate::stamp::Stamp;
use onefold_runtime::Histogram;
use serde::Serialize;

/// Packets whose way is followed at one time.
pub const WINDOW: usize = 1 << 20;
/// Set in a packet's slot when it has arrived; below it, how late it was sent, in nanoseconds.
const ARRIVED: u32 = 1 << 31;

/// Numbers of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Sent, with a stamp.
    pub sent: u64,
    /// Of those, arrived (each once).
    pub received: u64,
    /// Arrived again.
    pub duplicates: u64,
    /// Arrived behind one that was sent after it, at the same port to the same port.
    pub reordered: u64,
    /// Arrived behind one of its flow that was sent after it.
    pub reordered_in_flows: u64,
    /// Arrived with a stamp or a checksum that is wrong.
    pub corrupted: u64,
    /// Arrived after [`WINDOW`] more had been sent.
    pub late: u64,
    /// Sent without a stamp: no room in it, or no TCP, UDP or ICMP echo packet in one piece.
    pub unstamped: u64,
    /// Arrived, but nothing that this run has sent with a stamp.
    pub foreign: u64,
}

impl Counts {
    /// Sent, and not arrived.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.received)
    }

    /// The share of what was sent.
    pub fn loss(&self) -> f64 {
        match self.sent {
            0 => 0.0,
            n => self.lost() as f64 / n as f64,
        }
    }
}

/// Follows the packets of a run, trial by trial.
#[derive(Debug)]
pub struct Account {
    slots: Box<[u32]>,
    /// First sequence number of this trial.
    from: u64,
    /// The next one to be sent.
    next: u64,
    /// By sending and receiving port: the next sequence number that is not reordered.
    expected: Box<[u64]>,
    /// By flow: the same, and the port at which its last packet arrived.
    flows: Box<[(u64, u8)]>,
    /// The port that a flow is sent at.
    sender: Box<[u8]>,
    ports: usize,
    counts: Counts,
    /// By port: arrived, bytes included.
    pub(crate) arrived: Box<[(u64, u64)]>,
    intended: Histogram,
    actual: Histogram,
}

impl Account {
    /// Of so many ports; `sender`: the port that each flow is sent at.
    pub fn new(ports: usize, sender: &[u8]) -> Account {
        Account {
            slots: vec![0; WINDOW].into(),
            from: 0,
            next: 0,
            expected: vec![0; ports * ports].into(),
            flows: vec![(0, 0); sender.len()].into(),
            sender: sender.into(),
            ports,
            counts: Counts::default(),
            arrived: vec![(0, 0); ports].into(),
            intended: Histogram::default(),
            actual: Histogram::default(),
        }
    }

    /// A trial begins: what was sent before is not counted any more.
    pub fn begin(&mut self) {
        self.from = self.next;
        self.counts = Counts::default();
        self.arrived.fill((0, 0));
        self.intended = Histogram::default();
        self.actual = Histogram::default();
    }

    /// The next sequence number, of a packet that is sent `late` nanoseconds after its intended time.
    #[inline]
    pub fn sent(&mut self, late: u64) -> u64 {
        let seq = self.next;
        self.next += 1;
        self.counts.sent += 1;
        if let Some(slot) = self.slots.get_mut(seq as usize % WINDOW) {
            *slot = late.min(u64::from(ARRIVED - 1)) as u32;
        }
        seq
    }

    /// One without a stamp was sent.
    pub fn sent_unstamped(&mut self) {
        self.counts.unstamped += 1;
    }

    /// Something else arrived.
    pub fn foreign(&mut self) {
        self.counts.foreign += 1;
    }

    /// A damaged packet arrived.
    pub fn corrupted(&mut self) {
        self.counts.corrupted += 1;
    }

    /// A packet arrived at a port, at a time on the clock of the stamps.
    #[inline]
    pub fn arrived(&mut self, port: usize, bytes: usize, s: Stamp, now: u64) {
        if s.seq < self.from {
            // of an earlier trial
            return;
        }
        if s.seq >= self.next {
            self.counts.corrupted += 1;
            return;
        }
        if let Some((packets, all)) = self.arrived.get_mut(port) {
            *packets += 1;
            *all += bytes as u64;
        }
        if self.next - s.seq > WINDOW as u64 {
            self.counts.late += 1;
            return;
        }
        let Some(slot) = self.slots.get_mut(s.seq as usize % WINDOW) else {
            return;
        };
        if *slot & ARRIVED != 0 {
            self.counts.duplicates += 1;
            return;
        }
        let late = u64::from(*slot);
        *slot |= ARRIVED;
        self.counts.received += 1;
        let age = s.age(now);
        self.intended.record(age);
        self.actual.record(age.saturating_sub(late));
        self.order(port, s);
    }

    fn order(&mut self, port: usize, s: Stamp) {
        let flow = s.flow as usize;
        let sender = self.sender.get(flow).copied().unwrap_or(0);
        let pair = usize::from(sender) * self.ports + port;
        if let Some(expected) = self.expected.get_mut(pair) {
            self.counts.reordered += u64::from(s.seq < *expected);
            *expected = (*expected).max(s.seq + 1);
        }
        if let Some((expected, at)) = self.flows.get_mut(flow) {
            let same = usize::from(*at) == port;
            self.counts.reordered_in_flows += u64::from(same && s.seq < *expected);
            *expected = (*expected).max(s.seq + 1);
            *at = port as u8;
        }
    }

    /// So far in this trial.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Times from the intended send time to arrival.
    pub fn from_intended(&self) -> &Histogram {
        &self.intended
    }

    /// Times from the moment at which the packet was handed to the port.
    pub fn from_sent(&self) -> &Histogram {
        &self.actual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ports; flows 0 and 1 are sent at the first one, 2 at the second.
    fn account() -> Account {
        let mut a = Account::new(2, &[0, 0, 1]);
        a.begin();
        a
    }

    fn came(a: &mut Account, port: usize, flow: u32, seq: u64) {
        let s = Stamp { seq, flow, time: 0 };
        a.arrived(port, 60, s, 1000);
    }

    fn send(a: &mut Account, n: u64) {
        for _ in 0..n {
            a.sent(0);
        }
    }

    #[test]
    fn everything_that_comes_once_and_in_order_is_received() {
        let mut a = account();
        send(&mut a, 100);
        (0..100).for_each(|s| came(&mut a, 1, 0, s));
        let c = Counts {
            sent: 100,
            received: 100,
            ..Counts::default()
        };
        assert_eq!((a.counts(), c.lost()), (c, 0));
        assert_eq!(a.arrived[1], (100, 6000));
    }

    #[test]
    fn loss_is_no_reordering_and_copies_are_neither() {
        let mut a = account();
        send(&mut a, 10);
        for s in [0, 2, 3, 3, 3, 9, 2] {
            came(&mut a, 1, 0, s);
        }
        let c = a.counts();
        assert_eq!((c.received, c.lost(), c.duplicates), (4, 6, 3));
        assert_eq!((c.reordered, c.reordered_in_flows), (0, 0));
        assert!((c.loss() - 0.6).abs() < 1e-9);
    }

    #[test]
    fn reordering_is_as_rfc_4737_says() {
        // its example: 1 2 3 7 8 4 5 6 9: three are reordered
        let mut a = account();
        send(&mut a, 10);
        for s in [1, 2, 3, 7, 8, 4, 5, 6, 9] {
            came(&mut a, 0, 0, s);
        }
        let c = a.counts();
        assert_eq!((c.reordered, c.reordered_in_flows, c.lost()), (3, 3, 1));
    }

    #[test]
    fn flows_that_pass_each_other_are_reordered_overall_only() {
        let mut a = account();
        send(&mut a, 4);
        for (flow, seq) in [(0, 0), (0, 2), (1, 1), (1, 3)] {
            came(&mut a, 1, flow, seq);
        }
        let c = a.counts();
        assert_eq!((c.reordered, c.reordered_in_flows), (1, 0));
    }

    #[test]
    fn what_is_sent_or_arrives_at_different_ports_has_no_order() {
        let mut a = account();
        send(&mut a, 6);
        // sent at the second port, arrives at the first
        for (port, flow, seq) in [(1, 0, 5), (0, 2, 1), (0, 0, 4), (0, 2, 3)] {
            came(&mut a, port, flow, seq);
        }
        let c = a.counts();
        assert_eq!((c.reordered, c.reordered_in_flows), (0, 0));
    }

    #[test]
    fn packets_of_an_earlier_trial_do_not_count() {
        let mut a = account();
        send(&mut a, 5);
        a.begin();
        send(&mut a, 5);
        (0..10).for_each(|s| came(&mut a, 0, 0, s));
        let c = a.counts();
        assert_eq!((c.sent, c.received, c.duplicates), (5, 5, 0));
    }

    #[test]
    fn what_comes_after_the_window_is_late_and_what_was_never_sent_is_damage() {
        let mut a = account();
        send(&mut a, WINDOW as u64 + 1);
        came(&mut a, 0, 0, 0);
        came(&mut a, 0, 0, 1);
        came(&mut a, 0, 0, WINDOW as u64 + 1);
        let c = a.counts();
        assert_eq!((c.late, c.received, c.corrupted), (1, 1, 1));
        assert_eq!(c.lost(), WINDOW as u64);
    }

    #[test]
    fn both_latencies() {
        let mut a = account();
        // 400 ns late, and 1000 ns after its intended time here
        let seq = a.sent(400);
        came(&mut a, 0, 0, seq);
        let max = |h: &Histogram| h.told().map(|p| p.max);
        assert_eq!(max(a.from_intended()), Some(1000));
        assert_eq!(max(a.from_sent()), Some(600));
    }
}
