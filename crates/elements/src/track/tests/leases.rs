//! Connections that are leased, against the same ones that are not.

use super::super::batch::Lets;
use super::super::class::ConnState;
use super::super::headers::{Tracked, Upper, read_usual};
use super::batch::{any_packet, inspected};
use super::{ACK, RST, Rig, SYN, packet, tcp, udp};
use crate::testing::cases;
use onefold_element::{Inspected, NO_FLOW_LEASE, NO_HINT, State};
use proptest::prelude::*;
use std::collections::HashMap;

/// A table that is asked for leases, and one that is not.
struct Twins {
    leased: Rig,
    tracked: Rig,
    /// By addresses, ports and protocol of packets: hint and lease.
    leases: HashMap<Vec<u8>, (u32, u32)>,
    noted: usize,
}

/// What may be noted in a lease, and what is noted.
fn plain(b: &[u8]) -> Option<(Inspected<'_>, Tracked, (u32, u32))> {
    let p = inspected(b).filter(|p| p.header == 20)?;
    let seen = read_usual(&p.net[..p.total], true)?;
    let noted = match &seen.upper {
        Upper::Tcp(s) => (s.ack, s.end),
        _ => (0, 0),
    };
    Some((p, seen, noted))
}

impl Twins {
    fn new() -> Twins {
        let rig = || {
            let mut r = Rig::new();
            r.table.settings.udp = 4_000;
            r.table.settings.tcp[3] = 5_000;
            r.table.settings.capacity = 12;
            r
        };
        Twins {
            leased: rig(),
            tracked: rig(),
            leases: HashMap::new(),
            noted: 0,
        }
    }

    fn pass(&mut self, b: &[u8]) {
        let Some((p, seen, noted)) = plain(b) else {
            return self.track(b);
        };
        let now = self.leased.now;
        let flow = [&[p.protocol], &p.net[12..24]].concat();
        let (hint, lease) = (self.leases.get(&flow).copied()).unwrap_or((NO_HINT, NO_FLOW_LEASE));
        let leases = self.leased.table.leases().expect("leases");
        let at = leases.all.get_mut(hint.wrapping_sub(1) as usize);
        let runs = at.is_some_and(|l| l.note(lease, now, &leases.stays, noted));
        let found = self.tracked.table.refresh(&seen, hint, now, |_| true);
        if runs {
            self.leased.table.count_established(1);
            self.noted += 1;
            assert_eq!(found, Some(hint));
            return;
        }
        assert_eq!(self.leased.table.refresh(&seen, hint, now, |_| true), found);
        let Some(hint) = found else {
            return self.track(b);
        };
        let lets = Lets::of(|c| c.state == ConnState::Established);
        let lease = self.leased.table.lease(&p, hint, now, lets);
        self.leases.insert(flow, (hint, lease));
    }

    /// Neither is leased.
    fn track(&mut self, b: &[u8]) {
        for r in [&mut self.leased, &mut self.tracked] {
            let seen = super::read(b, true);
            // a full table drops it
            r.table.track(&seen, r.now);
            r.table.confirm(&seen, r.now);
        }
    }

    fn wait(&mut self, ms: u64) {
        self.leased.now += ms;
        self.tracked.now += ms;
    }

    fn compare(&self) {
        let (a, b) = (&self.leased.table, &self.tracked.table);
        assert_eq!(State::summary(a), State::summary(b));
        assert_eq!(a.totals, b.totals);
        assert_eq!(self.leased.text(), self.tracked.text());
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn what_is_noted_is_what_is_tracked(
        all in prop::collection::vec((any_packet(), 0u64..40, 0usize..200), 1..300),
    ) {
        let mut t = Twins::new();
        for (b, wait, rare) in all {
            t.wait(if wait == 0 { 2_500 } else { wait });
            t.pass(&b);
            if rare == 0 {
                t.leased.table.flush();
                t.tracked.table.flush();
            }
        }
        t.compare();
    }
}

/// Both directions of an opened connection are leased.
fn opened() -> (Twins, [Vec<u8>; 2]) {
    let there = |flags, seq, ack| packet(false, (1, 2), 6, &tcp((1000, 80), flags, seq, ack, 3));
    let back = |flags, seq, ack| packet(false, (2, 1), 6, &tcp((80, 1000), flags, seq, ack, 5));
    let mut t = Twins::new();
    for b in [there(SYN, 1, 0), back(SYN | ACK, 5, 2)] {
        t.pass(&b);
    }
    let both = [there(ACK, 2, 6), back(ACK, 6, 5)];
    for _ in 0..4 {
        both.iter().for_each(|b| t.pass(b));
    }
    assert!(t.noted >= 4, "{}", t.noted);
    (t, both)
}

#[test]
fn a_reset_ends_the_lease_of_both_directions() {
    for flags in [RST, SYN, ACK | 1, ACK | 32] {
        let (mut t, both) = opened();
        t.pass(&both[0]);
        let before = t.noted;
        t.pass(&packet(false, (1, 2), 6, &tcp((1000, 80), flags, 5, 11, 0)));
        t.pass(&both[1]);
        t.pass(&both[0]);
        assert_eq!(t.noted, before, "{flags:x}");
        t.compare();
    }
}

/// What a reset is held against has been noted: acknowledgements of the other side, and the end of the last segment.
#[test]
fn resets_are_held_against_what_was_noted() {
    for (seq, closes) in [(5, true), (6, false), (9, true), (10, false)] {
        let (mut t, both) = opened();
        // the other side has acknowledged 9, then 5
        let further = packet(false, (2, 1), 6, &tcp((80, 1000), ACK, 6, 9, 5));
        for b in [&further, &both[1], &both[0]] {
            t.pass(b);
        }
        t.pass(&packet(false, (1, 2), 6, &tcp((1000, 80), RST, seq, 0, 0)));
        assert_eq!(t.leased.text().contains("CLOSE"), closes, "{seq}");
        t.compare();
    }
}

/// A SYN that has been let through may have begun the connection anew: what was acknowledged before counts for nothing.
#[test]
fn a_reset_behind_a_syn_closes_whatever_its_number_is() {
    for (opens, closes) in [(false, false), (true, true)] {
        let (mut t, both) = opened();
        for b in [&both[1], &both[0]] {
            t.pass(b);
        }
        if opens {
            t.pass(&packet(false, (1, 2), 6, &tcp((1000, 80), SYN, 7777, 0, 0)));
        }
        t.pass(&packet(false, (1, 2), 6, &tcp((1000, 80), RST, 9999, 0, 0)));
        assert_eq!(
            t.leased.text().contains("CLOSE"),
            closes,
            "{}",
            t.leased.text()
        );
        t.compare();
    }
}

#[test]
fn udp_is_leased_up_to_where_it_is_a_stream() {
    let (ask, answer) = (
        packet(false, (1, 2), 17, &udp((1000, 53))),
        packet(false, (2, 1), 17, &udp((53, 1000))),
    );
    let mut t = Twins::new();
    for b in [&ask, &answer, &ask, &answer, &ask] {
        t.pass(b);
    }
    assert_eq!(t.noted, 1);
    t.wait(2_000);
    t.pass(&answer);
    assert_eq!(t.noted, 2);
    t.wait(1);
    t.pass(&answer);
    assert_eq!(t.noted, 2);
    assert!(t.leased.text().contains("assured"));
    for b in [&ask, &answer, &ask, &answer] {
        t.pass(b);
    }
    assert_eq!(t.noted, 4);
    // and to where it is over
    t.wait(120_000);
    t.pass(&answer);
    assert_eq!(t.noted, 4);
    t.compare();
}
