//! Inserting and evicting, against plain searches.

use super::*;
use crate::flow_id::FlowId;
use crate::kind::RewriterKind;
use crate::port_exhaustion::Search;
use crate::record::{CLASSES, Counts, Member, Timeout, Track};
use onefold_state::ElemId;

fn table(capacity: u32) -> FlowTable {
    let mut t = FlowTable::new();
    let expire = 1000;
    t.add_member(Member {
        elem: ElemId(0),
        kind: RewriterKind::Ip,
        specs: Vec::new(),
        timeouts: [Timeout {
            expire,
            guarantee: 0,
        }; CLASSES],
        track: [Track::Tcp, Track::Udp(3)],
        noutputs: 2,
        take_over: true,
        endpoints: false,
        reserved: Vec::new(),
        handshake: false,
        inputs: vec![Counts::default()],
    });
    t.set_capacity(capacity);
    t
}
fn new(host: u32, to: u32, port: u16) -> NewFlow {
    let flow = FlowId {
        saddr: 0x0a00_0000 + host,
        daddr: to,
        sport: 9,
        dport: 53,
    };
    NewFlow {
        map: 1,
        input: 0,
        ip_p: 17,
        flow,
        hash: 0,
        rewritten: FlowId {
            saddr: 0x0100_0001,
            sport: port,
            ..flow
        },
        outputs: (0, 1),
        ping: false,
        free: false,
        flags: 0,
        usage: Usage::Plain,
    }
}

fn put(t: &mut FlowTable, n: NewFlow, now: Timestamp) -> Option<u32> {
    let hash = t.hash(n.map, &n.flow);
    t.insert(&NewFlow { hash, ..n }, now)
}

proptest::proptest! {
    /// Ports are found as if one after the other had been looked at, whoever comes, makes room, times out or is
    /// taken the place of.
    #[test]
    fn free_ports_are_those_of_a_plain_search(
        capacity in 20u32..200, top in 1u32..120,
        steps in proptest::collection::vec((0u8..20, 0u32..3, 0u32..500), 1..600),
    ) {
        let mut t = table(capacity);
        let mut ms = 1i64;
        for (host, (what, to, at)) in (0u32..).zip(steps) {
            // within a millisecond the next victim is known
            ms += i64::from(at % 4 == 0);
            let now = Timestamp(ms * 1_000_000);
            let n = new(host, to, 0);
            let s = Search { ports: true, base: 1024, top, to: n.rewritten };
            let from = at % (top + 1);
            let want = s.look(from, u64::from(top) + 1, |k| t.taken(1, false, k)).ok();
            proptest::prop_assert_eq!(t.search(1, false, &s, from), want);
            match (what, want) {
                // a rewriter that takes over replaces another flow
                (0, _) => drop(put(&mut t, new(host, to, (1024 + from) as u16), now)),
                (1, _) => t.sweep(Timestamp((ms + 900) * 1_000_000)),
                (2, _) => ms += 300,
                (_, Some(v)) => drop(put(&mut t, new(host, to, (1024 + v) as u16), now)),
                (_, None) => {}
            }
            proptest::prop_assert!(t.len() <= capacity as usize);
        }
    }
}

/// The flow that would go first is the new one, where its class times out before all others.
#[test]
fn a_new_flow_may_have_to_make_room_for_itself() {
    let mut t = table(2);
    t.members[0].timeouts[0].expire = 500;
    let now = Timestamp(1_000_000_000);
    assert!(put(&mut t, new(1, 1, 1), now).is_some());
    assert!(put(&mut t, new(2, 1, 2), now).is_some());
    let tcp = NewFlow {
        map: 0,
        ..new(3, 1, 3)
    };
    assert_eq!(put(&mut t, tcp, now), None);
    assert_eq!((t.len(), t.evictions()), (2, 0));
    assert_eq!(t.members[0].inputs[0].failures, 1);
    assert!(put(&mut t, new(4, 1, 4), now).is_some());
    assert_eq!((t.len(), t.evictions()), (2, 1));
    // guaranteed flows stay
    for t in &mut t.members[0].timeouts {
        t.guarantee = 10_000;
    }
    assert_eq!(put(&mut t, new(5, 1, 5), now), None);
    assert_eq!((t.len(), t.evictions()), (2, 1));
}

proptest::proptest! {
    /// The victim for a new flow is the one that a plain search finds, whatever was inserted before, of whatever
    /// class, at whatever time.
    #[test]
    fn who_goes_is_found_by_a_plain_search(
        capacity in 1u32..12,
        expire in proptest::collection::vec(10u64..13, CLASSES),
        steps in proptest::collection::vec((0u8..6, 0usize..12, 0i64..3), 1..400),
    ) {
        let mut t = table(capacity);
        for (to, expire) in t.members[0].timeouts.iter_mut().zip(expire) {
            to.expire = expire;
        }
        let mut at = 1_000_000_000i64;
        for (host, (what, which, step)) in (0u32..).zip(steps) {
            at += step * 50_000;
            let now = Timestamp(at);
            // a flow that is there is used, and may change its class
            if what < 2 {
                let used: Vec<u32> = (0..t.records.len() as u32).filter(|i| t.records[*i as usize].used()).collect();
                if let Some(i) = used.get(which % used.len().max(1)) {
                    t.touch(*i, now);
                    t.set_flags(*i, [0, 12, 3, 7][which % 4]);
                }
                continue;
            }
            let n = NewFlow {
                map: u16::from(what & 1),
                flags: [0, 2][which % 2],
                ..new(host, 1, (1024 + host) as u16)
            };
            let now_ms = t.now_ms(now);
            let rank_of = |t: &FlowTable, r: &Record| rank(timeout(&t.members, t.queue_of(r.map, r.flags)), now_ms, r.stamp);
            let all = t.records.iter().enumerate().filter(|(_, r)| r.used());
            let first = all.map(|(i, r)| (rank_of(&t, r), i)).min();
            let full = t.full();
            let flows: Vec<(usize, u32)> = (t.records.iter().enumerate()).filter(|(_, r)| r.used()).map(|(i, r)| (i, r.generation)).collect();
            let made = put(&mut t, n, now);
            let left = |t: &FlowTable, (i, g): &(usize, u32)| t.records[*i].used() && t.records[*i].generation == *g;
            for f in &flows {
                let goes = full && made.is_some() && first.is_some_and(|(_, i)| i == f.0);
                proptest::prop_assert_eq!(left(&t, f), !goes, "{:?} {:?}", f, first);
            }
            proptest::prop_assert!(made.is_some() || full);
        }
    }
}

/// In a flood one search does for all that come in a millisecond, of whatever protocols.
#[test]
fn a_turn_lasts_in_a_flood() {
    let mut t = table(100);
    let mut searched = 0;
    for i in 0..2000u32 {
        let now = Timestamp(1_000_000_000 + i64::from(i) * 1000);
        let before = t.order.now_ms;
        let n = NewFlow {
            map: u16::from(i % 3 == 0),
            ..new(i, 1, (1024 + i) as u16)
        };
        assert!(put(&mut t, n, now).is_some());
        searched += u32::from(t.full() && t.order.now_ms != before);
    }
    assert_eq!(t.evictions(), 1900);
    assert!(
        (1..=3).contains(&searched),
        "{searched} searches in two milliseconds"
    );
}

/// However many flows come, and whatever they do: 64 bytes for the record, and twice as much at most for finding it
/// and for its age.
#[test]
fn a_flood_takes_no_more_memory_than_the_capacity_allows() {
    let mut t = table(1000);
    for i in 0..60_000u32 {
        let now = Timestamp(i64::from(i) * 10_000);
        let made = put(&mut t, new(i, i % 7, (1024 + i % 60_000) as u16), now);
        // from one time-out class to another, and back
        for flags in [9, 0, 9, 0] {
            made.into_iter().for_each(|f| t.set_flags(f, flags));
        }
    }
    assert_eq!(t.len(), 1000);
    assert!(t.memory_bytes() < 300_000, "{}", t.memory_bytes());
}
