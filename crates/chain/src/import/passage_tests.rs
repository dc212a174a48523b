//! Marks from chain to chain, and from course to course.

use super::chains::{ChainRule, InterfaceTest, Interfaces, Target};
use super::mark::{Change, MarkOf, MarkTest, MarkValue};
use super::passage::{Course, passage};
use super::sections::{Source, Walked};
use super::walk_tests::{DROP, rule, source};
use std::collections::HashMap;

/// Packets that begin in one course with marks that others have given them: where their way is chosen anew, and where
/// they come in again.
#[test]
fn marks_go_from_course_to_course() {
    let mut sets = rule(&["a"], Target::Nothing, 1);
    sets.changes
        .push(Change::PacketMark(MarkValue::constant(1)));
    sets.interfaces.push(InterfaceTest {
        out: true,
        not: false,
        names: vec!["lan0".into()],
        of: Default::default(),
    });
    let mut asks = rule(&[], DROP, 2);
    asks.marks.push(MarkTest {
        of: MarkOf::Packet,
        mask: 1,
        ranges: vec![(1, 1)],
        not: false,
    });
    let chain = |r: &ChainRule| {
        source(
            &HashMap::from([("c".to_string(), vec![r.clone()])]),
            "c",
            true,
        )
    };
    let one = |sources: Vec<Source>, rerouted, from| Course {
        sources,
        rerouted,
        from,
    };
    let names = Interfaces {
        inside: Some("lan0".into()),
        outside: Some("wan0".into()),
        ..Interfaces::default()
    };
    // the mark is given on the way to lan0 alone, by the first course
    let nothing = chain(&rule(&[], Target::Nothing, 3));
    let courses = [
        one(vec![chain(&sets), chain(&asks)], Some(1), None),
        one(vec![nothing.clone(), nothing], Some(1), None),
        one(vec![chain(&asks)], None, Some(1)),
    ];
    let found = passage(&courses, &names).unwrap();
    let entries = |course: usize, chain: usize, way: usize| -> Vec<u8> {
        let l: &Walked = &found.lists[course][chain][way];
        l.entries.iter().map(|e| e.0).collect()
    };
    assert_eq!(found.marks, [(0, false), (1, false)]);
    // whichever way it goes then, it may have the mark
    assert_eq!(
        (entries(0, 1, 0), entries(0, 1, 1)),
        (vec![0, 1], vec![0, 1])
    );
    assert_eq!(entries(2, 0, 0), [0, 1]);
    // nobody chooses anew: it has it on that way only
    let courses = [one(vec![chain(&sets), chain(&asks)], None, None)];
    let found = passage(&courses, &names).unwrap();
    assert_eq!(found.lists[0][1][0].entries.len(), 0);
    assert_eq!(found.lists[0][1][1].entries.len(), 2);
}
