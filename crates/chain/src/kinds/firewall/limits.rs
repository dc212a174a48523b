//! The buckets of rules with a rate; where they are asked is said by the sections of lists ([`super::sections`]).

use super::Lines;
use super::lists::Lists;
use super::sections::LineList;
use crate::import::Bucket;
use crate::kinds::{ClickText, KindCx};
use std::collections::BTreeMap;

/// Most places where a function's lists ask for rates, those of groups of connections not counted.
const MAX_PLACES: usize = 4096;

/// Declares the buckets of all lists: one for each rule, whatever it is in. What is wrong with them is said.
pub(super) fn declare(t: &mut ClickText, cx: &mut KindCx<'_>, lists: [Option<&Lists>; 2]) {
    let mut found: BTreeMap<String, Bucket> = BTreeMap::new();
    let mut places = 0;
    let mut look = |lines: &Lines| {
        for bucket in lines.all().flat_map(LineList::buckets) {
            places += 1;
            found.insert(bucket.name.clone(), bucket.clone());
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
            "rates are asked at more than {MAX_PLACES} places of its lists, jumps written out"
        ));
    }
    if !found.is_empty() && cx.reader.share.workers > 1 {
        let text = format!("{}: rules with a rate run on one worker", cx.name);
        let span = cx.span;
        cx.reader.error_hint(span, text, "give one worker");
    }
    for (name, Bucket { limit, .. }) in found {
        let bytes = if limit.bytes { ", BYTES true" } else { "" };
        t.line(format!(
            "{name} :: RateLimit({}, {}, BURST {}{bytes});",
            limit.rate, limit.per, limit.burst
        ));
    }
}
