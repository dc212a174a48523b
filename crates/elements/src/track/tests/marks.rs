//! Marks of connections, and packets that are not tracked.

use super::{Confirmed, ConnState, Found, Rig, Seen, packet, read, udp};

#[test]
fn marks_are_of_connections_and_go_with_them() {
    let mut r = Rig::new();
    r.table.settings.marks = true;
    let there = packet(false, (1, 2), 17, &udp((1000, 53)));
    let back = packet(false, (2, 1), 17, &udp((53, 1000)));
    // given to a connection that is dropped: the next one begins without
    r.look(&there);
    assert!(r.table.set_mark_in_hand(7));
    assert_eq!(r.table.mark_in_hand(), Some(7));
    r.look(&there);
    assert_eq!(r.table.mark_in_hand(), Some(0));
    // before it is entered, and found by its replies and errors
    r.table.set_mark_in_hand(9);
    let seen = read(&there, true);
    assert_eq!(r.table.confirm(&seen, r.now), Confirmed::Entered);
    assert_eq!(r.pass(&back).state, ConnState::Established);
    assert_eq!(r.table.mark_in_hand(), Some(9));
    r.table.set_mark_in_hand(0x10);
    r.pass(&there);
    assert_eq!(r.table.mark_in_hand(), Some(0x10));
    assert!(r.text().contains("mark 0x10 "), "{}", r.text());
    // what is of no connection has none, whatever the packet before it had
    let mut broken = packet(false, (1, 2), 17, &udp((1000, 53)));
    broken[26] ^= 0xff;
    assert!(!r.pass(&broken).has_connection());
    assert_eq!(r.table.mark_in_hand(), None);
    assert!(!r.table.set_mark_in_hand(1));
    r.pass(&there);
    assert_eq!(r.table.mark_in_hand(), Some(0x10));
    // the next connection in the same record begins without
    r.now += 1_000_000_000;
    r.pass(&there);
    assert_eq!(r.table.mark_in_hand(), Some(0));
}

#[test]
fn packets_that_are_not_to_be_tracked_begin_nothing() {
    let mut r = Rig::new();
    let there = packet(false, (1, 2), 17, &udp((1000, 53)));
    let found = r.table.track(&Seen::Untracked, r.now);
    assert!(matches!(found, Found::Is(c, _) if c.state == ConnState::Untracked));
    assert_eq!(
        r.table.confirm(&read(&there, true), r.now),
        Confirmed::Passes
    );
    assert_eq!(r.text(), "");
    assert_eq!(r.state(&there), "new");
}
