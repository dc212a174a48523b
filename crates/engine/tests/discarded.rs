//! Packets that somebody in front of a chain has dropped are accounted for as if they had come.

#[allow(dead_code)]
use crate::harness;

use harness::build;
use onefold_engine::Discarded;
use onefold_packet::Timestamp;

const CONFIG: &str = "FromDevice(a) -> Strip(14) -> c :: CheckIPHeader -> f :: IPFilter(deny dst port 9, allow all) \
    -> ToDevice(a);";

#[test]
fn counts_are_those_of_packets_that_came() {
    let (mut came, mut told) = (build(CONFIG), build(CONFIG));
    let source = came.source("a").expect("a device");
    // a version that is none: dropped by the check, which says so once
    let mut frame = vec![0; 60];
    frame[14] = 0x35;
    came.keep_printed();
    told.keep_printed();
    for n in 0..3 {
        came.inject(source, &frame, Timestamp::from_secs(1000 + n));
    }
    let find = |name: &str| told.find(name).expect("an element");
    let (check, filter) = (find("c"), find("f"));
    let drop = came.drops().first().expect("a drop").clone();
    assert!(told.tells_later(check, 1) && told.tells_later(source, 0));
    assert!(!told.tells_later(filter, 0));
    assert!(told.account_discarded(&Discarded {
        elem: check,
        reason: drop.reason,
        packets: 3,
        counts: vec![(source, 0, 180), (check, 1, 138)],
        decisions: vec![],
    }));
    assert_eq!(told.totals(), came.totals());
    assert_eq!(told.drops(), came.drops());
    let now = Timestamp::from_secs(2000);
    came.advance_to(now);
    told.advance_to(now);
    assert_eq!(told.state_summary(), came.state_summary());
    assert_eq!(told.take_printed(), came.take_printed());
    // a list's argument and its policy
    assert!(told.account_discarded(&Discarded {
        elem: filter,
        reason: "IPFilter: denied",
        packets: 2,
        counts: vec![],
        decisions: vec![(filter, Some(0), 92)],
    }));
    let counters = told.rule_counters(filter).expect("a list");
    assert_eq!(
        (counters.get(Some(0)).packets, counters.get(Some(0)).bytes),
        (2, 92)
    );
    assert!(told.totals().balanced());
    // nothing is nothing
    let before = (told.totals(), told.drops());
    assert!(told.account_discarded(&Discarded {
        elem: filter,
        reason: "never heard of",
        packets: 0,
        counts: vec![],
        decisions: vec![],
    }));
    assert_eq!((told.totals(), told.drops()), before);
}
