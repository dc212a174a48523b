//! What elements keep for the questions of rules: buckets of rates, lists of addresses. Where these are asked is said
//! by the sections of lists ([`super::sections`]).

use super::Lines;
use super::lists::Lists;
use super::sections::LineList;
use crate::kinds::{ClickText, KindCx};
use std::collections::BTreeMap;

/// Most places where a function's lists ask elements, those of groups of connections not counted.
const MAX_PLACES: usize = 4096;

/// Declares what all lists ask: one for each rule, whatever it is in, and one for each list of addresses by its name.
/// What is wrong with them is said.
pub(super) fn declare(t: &mut ClickText, cx: &mut KindCx<'_>, lists: [Option<&Lists>; 2]) {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut places = 0;
    let mut look = |lines: &Lines| {
        let nat = lines.nat.iter().flat_map(|n| n.lists());
        for asked in lines.all().chain(nat).flat_map(LineList::questions) {
            places += 1;
            if let Some(text) = asked.declared() {
                found.insert(asked.name.clone(), text);
            }
        }
    };
    for l in lists.into_iter().flatten() {
        look(&l.lines);
        if let Some(host) = &l.host {
            host.lines().into_iter().for_each(&mut look);
        }
    }
    if places > MAX_PLACES {
        cx.error_whole(format!(
            "rates, strings and lists are asked at more than {MAX_PLACES} places of its lists, jumps written out"
        ));
    }
    if !found.is_empty() && cx.reader.share.workers > 1 {
        let text = format!(
            "{}: rules that ask for rates, turns, or addresses seen before run on one worker",
            cx.name
        );
        let span = cx.span;
        cx.reader.error_hint(span, text, "give one worker");
    }
    for text in found.into_values() {
        t.line(text);
    }
}
