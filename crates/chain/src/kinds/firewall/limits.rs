//! Lists with rules that ask for a rate.
//!
//! Where a rule asks, the list ends: RateCheck tells those apart of whom it asks (`NAME_asks1`). They go through the
//! rules that depend on it with the answer in the place of the question (`NAME_yes1`), all others through the same with
//! the other answer (`NAME_no1`), where any are left of them; then all go through the list of what follows
//! (`NAME_rest1`).

use super::lists::{Lists, list};
use super::{Line, Lines};
use crate::import::limits::{Asked, asks as asks_for};
use crate::kinds::{ClickText, KindCx};
use std::collections::BTreeMap;

/// Most places where a function's lists ask for rates: each makes up to seven elements.
const MAX_PLACES: usize = 4096;

/// Does a line ask for a rate?
pub(super) fn asks(l: &Line) -> bool {
    asks_for(&l.text).is_some()
}

/// Declares the buckets of all lists: one for each rule, whatever it is in. What is wrong with them is said.
pub(super) fn declare(t: &mut ClickText, cx: &mut KindCx<'_>, lists: [Option<&Lists>; 2]) {
    let mut found: BTreeMap<String, Asked> = BTreeMap::new();
    let mut places = 0;
    let mut look = |lines: &Lines| {
        for l in lines.all() {
            if let Some((asked, _)) = asks_for(&l.text) {
                places += 1;
                found.insert(asked.name.clone(), asked);
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
            "rates are asked at more than {MAX_PLACES} places of its lists, jumps written out"
        ));
    }
    if !found.is_empty() && cx.reader.share.workers > 1 {
        let text = format!("{}: rules with a rate run on one worker", cx.name);
        let span = cx.span;
        cx.reader.error_hint(span, text, "give one worker");
    }
    for (name, asked) in found {
        let l = asked.limit;
        let bytes = if l.bytes { ", BYTES true" } else { "" };
        t.line(format!(
            "{name} :: RateLimit({}, {}, BURST {}{bytes});",
            l.rate, l.per, l.burst
        ));
    }
}

/// Writes a list, whose packets come from `from`; gives back where those leave that it lets pass.
pub(super) fn write(
    t: &mut ClickText,
    cx: &mut KindCx<'_>,
    filter: &'static str,
    (from, element): (String, String),
    lines: &[Line],
) -> String {
    let passed = format!("{element}_passed");
    t.line(format!("{passed} :: Null;"));
    let mut writer = Writer {
        filter,
        passed: passed.clone(),
        element: element.clone(),
        made: 0,
    };
    let mut todo = vec![Part {
        from: vec![from],
        name: element,
        lines: lines.to_vec(),
        then: None,
    }];
    // Bound: a part asks for a rate once less than the one that it comes of
    while let Some(part) = todo.pop() {
        writer.part(t, cx, part, &mut todo);
    }
    passed
}

/// A part of a list that is still to be written.
struct Part {
    /// Where its packets come from.
    from: Vec<String>,
    name: String,
    lines: Vec<Line>,
    /// Where those go that no line decides about.
    then: Option<String>,
}

struct Writer {
    filter: &'static str,
    /// Where all parts let packets pass to.
    passed: String,
    element: String,
    /// Places where rates are asked, so far.
    made: usize,
}

impl Writer {
    /// Writes a part up to where it asks for a rate; what is to be written behind goes to `todo`.
    fn part(
        &mut self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        mut part: Part,
        todo: &mut Vec<Part>,
    ) {
        let asking =
            (part.lines.iter().enumerate()).find_map(|(i, l)| Some((i, asks_for(&l.text)?)));
        let Some((at, (asked, when))) = asking else {
            let mut outputs = vec![self.passed.clone()];
            if let Some(then) = part.then.take() {
                let last = part.lines.last().cloned();
                part.lines.extend(last.map(|l| goes_on(1, &l)));
                outputs.push(then);
            }
            self.filter(t, cx, &part, &outputs);
            return;
        };
        self.made += 1;
        let n = self.made;
        let named = |what: &str| format!("{}_{what}{n}", self.element);
        let (check, then, others) = (named("asks"), named("then"), named("others"));
        t.line(format!("{check} :: RateCheck({});", asked.name));
        t.line(format!("{then} :: Null; {others} :: Null;"));
        let here = part.lines[at].clone();
        let behind = part.lines.split_off(at);
        // what is before it decides as it did; the others go on, asked or not
        let when = when.split_once(' ').map_or("all", |(_, f)| f);
        part.lines.push(Line {
            text: format!("1 {}", conditions(when).unwrap_or("false".into())),
            ..here.clone()
        });
        part.lines.push(goes_on(2, &here));
        self.filter(
            t,
            cx,
            &part,
            &[self.passed.clone(), check.clone(), others.clone()],
        );
        let last = behind
            .iter()
            .rposition(|l| asked.decides(&l.text))
            .unwrap_or(0);
        let between = behind.get(1..=last).unwrap_or(&[]);
        let (holds, fails) = match asked.limit.over {
            false => (0, 1),
            true => (1, 0),
        };
        t.line(format!("{check}[{fails}] -> {others};"));
        for (answer, name, from) in [
            (true, named("yes"), format!("{check}[{holds}]")),
            (false, named("no"), others),
        ] {
            let lines = answered(between, &asked, answer);
            if lines.is_empty() {
                t.line(format!("{from} -> {then};"));
                continue;
            }
            todo.push(Part {
                from: vec![from],
                name,
                lines,
                then: Some(then.clone()),
            });
        }
        let rest = behind.get(last + 1..).unwrap_or(&[]).to_vec();
        match (rest.is_empty(), part.then) {
            (true, Some(next)) => {
                t.line(format!("{then} -> {next};"));
            }
            (_, next) => todo.push(Part {
                from: vec![then],
                name: named("rest"),
                lines: rest,
                then: next,
            }),
        }
    }

    /// Writes the element of a part: where its packets come from, its lines, and where its outputs lead.
    fn filter(&self, t: &mut ClickText, cx: &mut KindCx<'_>, part: &Part, outputs: &[String]) {
        let name = &part.name;
        t.line(format!("{name} :: {}(", self.filter));
        if part.lines.is_empty() {
            // nothing comes here: an earlier line takes everything
            t.line("deny all");
        }
        list(t, cx, name.clone(), &part.lines, None);
        t.line(");");
        for from in &part.from {
            t.line(format!("{from} -> {name};"));
        }
        for (k, to) in outputs.iter().enumerate() {
            t.line(format!("{name}[{k}] -> {to};"));
        }
    }
}

/// All that come here leave at this output.
fn goes_on(output: usize, l: &Line) -> Line {
    Line {
        text: format!("{output} all"),
        written: "goes on".into(),
        policy: true,
        ..l.clone()
    }
}

/// Lines with the answer in the place of tests for it; without those that then take nothing.
fn answered(lines: &[Line], asked: &Asked, answer: bool) -> Vec<Line> {
    let mut out = Vec::new();
    for l in lines {
        let text = asked.answered(&l.text, answer);
        let (verdict, filter) = text.split_once(' ').unwrap_or((&text, ""));
        let Some(filter) = conditions(filter) else {
            continue;
        };
        out.push(Line {
            text: format!("{verdict} {filter}"),
            ..l.clone()
        });
        if filter == "all" {
            break;
        }
    }
    out
}

/// Conditions that all must hold, without those that do; `None`: one does not.
fn conditions(filter: &str) -> Option<String> {
    let (mut kept, mut depth, mut from) = (Vec::new(), 0usize, 0);
    let ends = filter
        .match_indices(['(', ')', '&'])
        .map(Some)
        .chain([None]);
    for end in ends {
        let (at, what) = end.unwrap_or((filter.len(), "&"));
        match what {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            // of both characters the first one
            _ if depth == 0 && at >= from && (end.is_none() || filter[at..].starts_with("&&")) => {
                let one = filter[from..at].trim();
                match one {
                    "false" => return None,
                    "true" | "all" | "" => {}
                    _ => kept.push(one),
                }
                from = at + 2;
            }
            _ => {}
        }
    }
    Some(match kept.is_empty() {
        true => "all".to_string(),
        false => kept.join(" && "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_put_together() {
        let all = |t: &str| conditions(t);
        assert_eq!(all("true").as_deref(), Some("all"));
        assert_eq!(
            all("tcp && true && dst port 80").as_deref(),
            Some("tcp && dst port 80")
        );
        assert_eq!(all("tcp && false && dst port 80"), None);
        assert_eq!(
            all("not (tcp && true) && true").as_deref(),
            Some("not (tcp && true)")
        );
        assert_eq!(
            all("ip[6:2] & 8191 == 0 && true").as_deref(),
            Some("ip[6:2] & 8191 == 0")
        );
        assert_eq!(
            all("(udp or (tcp && false))").as_deref(),
            Some("(udp or (tcp && false))")
        );
    }
}
