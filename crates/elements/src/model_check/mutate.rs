//! Wrong models, made from right ones: one constant, boundary, field, port, guard, operation or exit is changed.
//! Whoever tests models shows with them that a wrong model would be found out.
//!
//! A mutant may mean the same as the model it was made of (a guard that another one implies), or only hand over more
//! packets than it had to: such ones are not wrong, and no test can find them out.

use onefold_element::model::{
    Case, Cond, DstAnno, Exit, FieldRef, Fix, Model, Op, Read, Rewritten, Value, ValueSet, max_of,
};

/// A changed model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutant {
    /// Which case, and what was changed in it.
    pub what: String,
    /// The model with the change.
    pub model: Model,
}

/// Reason of drops that no element has.
const OTHER: &str = "changed";

/// Intervals of one set whose boundaries are moved.
const MAX_INTERVALS: usize = 2;

/// Up to about `limit` mutants of a model, spread evenly over all that there are.
pub fn mutants(m: &Model, limit: usize) -> Vec<Mutant> {
    let Model::Cases(cases) = m else {
        return Vec::new();
    };
    let mut all: Vec<(String, usize, Option<Case>)> = Vec::new();
    for (i, c) in cases.iter().enumerate() {
        for (what, d) in changed(c) {
            all.push((format!("case {i}: {what}"), i, Some(d)));
        }
        if i + 1 < cases.len() {
            all.push((format!("case {i}: left out"), i, None));
        }
    }
    all.retain(|(_, i, d)| d.as_ref() != cases.get(*i));
    // where there is one account only, its tag means nothing
    let tags = cases.iter().flat_map(|c| &c.ops).filter_map(|o| match o {
        Op::Count(t) => Some(*t),
        _ => None,
    });
    let mut tags: Vec<u16> = tags.collect();
    tags.sort_unstable();
    tags.dedup();
    if tags.len() < 2 {
        all.retain(|(what, ..)| !what.ends_with("another account"));
    }
    let mut out: Vec<Mutant> = Vec::new();
    let every = all.len().div_ceil(limit.max(1)).max(1);
    for (n, (what, i, d)) in all.into_iter().enumerate() {
        if n % every != 0 {
            continue;
        }
        let mut list = cases.clone();
        match (d, list.get_mut(i)) {
            (Some(d), Some(slot)) => *slot = d,
            _ => {
                list.remove(i);
            }
        }
        let model = Model::Cases(list);
        out.push(Mutant { what, model });
    }
    for (i, pair) in cases.windows(2).enumerate() {
        // swapped exits, with what is done before them
        if let [a, b] = pair
            && (a.exit != b.exit || a.ops != b.ops)
            && i % every == 0
        {
            let mut list = cases.clone();
            if let Some([x, y]) = list.get_mut(i..i + 2) {
                std::mem::swap(&mut x.when, &mut y.when);
                // the one that held for the rest must still come last
                std::mem::swap(x, y);
            }
            out.push(Mutant {
                what: format!("case {i}: exits swapped with the next one"),
                model: Model::Cases(list),
            });
        }
    }
    out.retain(|n| n.model != *m);
    out
}

/// All single changes of one case.
fn changed(c: &Case) -> Vec<(String, Case)> {
    let mut out = Vec::new();
    for (what, when) in conds(&c.when) {
        out.push((what, Case { when, ..c.clone() }));
    }
    for (i, op) in c.ops.iter().enumerate() {
        let mut without = c.clone();
        without.ops.remove(i);
        out.push((format!("operation {i} left out"), without));
        for (what, op) in ops(op) {
            let mut d = c.clone();
            if let Some(slot) = d.ops.get_mut(i) {
                *slot = op;
            }
            out.push((format!("operation {i}: {what}"), d));
        }
    }
    for (what, exit) in exits(c) {
        let d = Case { exit, ..c.clone() };
        out.push((what, d));
    }
    out
}

fn other_field(f: FieldRef) -> FieldRef {
    FieldRef {
        bit: f.bit.wrapping_add(8),
        ..f
    }
}

fn other_read(r: Read) -> Option<Read> {
    Some(match r {
        Read::Field(f) => Read::Field(other_field(f)),
        Read::Anno(mut a) => {
            a.offset = if a.offset < 16 { 20 } else { 0 };
            Read::Anno(a)
        }
        Read::Len => Read::NetLen,
        Read::NetLen => Read::Len,
        Read::TransportLen => Read::NetLen,
        _ => return None,
    })
}

/// Sets with one boundary moved by one.
fn sets(s: &ValueSet, bits: u8) -> Vec<(String, ValueSet)> {
    let all = s.intervals();
    let with = |i: usize, lo: u128, hi: u128| {
        let changed = all
            .iter()
            .enumerate()
            .map(|(j, iv)| if i == j { (lo, hi) } else { *iv });
        ValueSet::from_intervals(changed)
    };
    let mut out = Vec::new();
    let ends = all.iter().copied().enumerate();
    for (i, (lo, hi)) in ends.filter(|(i, _)| *i < MAX_INTERVALS || i + 1 == all.len()) {
        let max = max_of(bits);
        if lo > 0 {
            out.push((format!("from {lo:#x} one lower"), with(i, lo - 1, hi)));
        }
        if lo < max {
            out.push((format!("from {lo:#x} one higher"), with(i, lo + 1, hi)));
        }
        if hi < max {
            out.push((format!("up to {hi:#x} one higher"), with(i, lo, hi + 1)));
        }
        if let Some(h) = hi.checked_sub(1)
            && hi <= max
        {
            out.push((format!("up to {hi:#x} one lower"), with(i, lo, h)));
        }
    }
    out
}

fn conds(c: &Cond) -> Vec<(String, Cond)> {
    let mut out = Vec::new();
    match c {
        Cond::Always | Cond::Never => {}
        Cond::In(r, s) => {
            for (what, s) in sets(s, r.width()) {
                out.push((format!("{r:?} {what}"), Cond::In(*r, s)));
            }
            if let Some(o) = other_read(*r) {
                out.push((format!("{o:?} instead of {r:?}"), Cond::In(o, s.clone())));
            }
        }
        Cond::Masked { field, mask, value } => {
            let (field, mask, value) = (*field, *mask, *value);
            let low = mask & mask.wrapping_neg();
            let flipped = value ^ low;
            let m = |field, mask, value| Cond::Masked { field, mask, value };
            out.push(("value of the lowest bit".into(), m(field, mask, flipped)));
            out.push((
                "lowest bit not looked at".into(),
                m(field, mask & !low, value & !low),
            ));
            out.push(("another field".into(), m(other_field(field), mask, value)));
        }
        Cond::All(l) | Cond::Any(l) => {
            let list = |v: Vec<Cond>| match c {
                Cond::All(_) => Cond::All(v),
                _ => Cond::Any(v),
            };
            for (i, part) in l.iter().enumerate() {
                let mut v = l.clone();
                v.remove(i);
                out.push((format!("part {i} left out"), list(v)));
                for (what, d) in conds(part) {
                    let mut v = l.clone();
                    if let Some(slot) = v.get_mut(i) {
                        *slot = d;
                    }
                    out.push((format!("part {i}: {what}"), list(v)));
                }
            }
        }
        Cond::Not(inner) => {
            out.push(("not left out".into(), (**inner).clone()));
            for (what, d) in conds(inner) {
                out.push((format!("not: {what}"), d.not()));
            }
        }
    }
    out
}

fn values(v: Value) -> Vec<(&'static str, Value)> {
    match v {
        Value::Const(n) => vec![("one more", Value::Const(n ^ 1))],
        Value::Plus(r, n) => {
            let mut out = vec![
                ("one more", Value::Plus(r, n.wrapping_add(1))),
                ("one less", Value::Plus(r, n.wrapping_sub(1))),
            ];
            out.extend(other_read(r).map(|o| ("from another place", Value::Plus(o, n))));
            out
        }
        Value::Of(r) => {
            let mut out = vec![("one more", Value::Plus(r, 1))];
            out.extend(other_read(r).map(|o| ("from another place", Value::Of(o))));
            out
        }
    }
}

fn ops(op: &Op) -> Vec<(&'static str, Op)> {
    match *op {
        Op::Write { field, value, fix } => {
            let mut out: Vec<(&'static str, Op)> = values(value)
                .into_iter()
                .map(|(what, value)| (what, Op::Write { field, value, fix }))
                .collect();
            let moved = other_field(field);
            out.push((
                "into another field",
                Op::Write {
                    field: moved,
                    value,
                    fix,
                },
            ));
            let fixes: &[(&'static str, Fix)] = match fix {
                Fix::Nothing => &[],
                Fix::Ip4 | Fix::Transport => &[("no checksum", Fix::Nothing)],
                Fix::Both => &[
                    ("no transport checksum", Fix::Ip4),
                    ("no IP checksum", Fix::Transport),
                ],
            };
            for (what, fix) in fixes.iter().copied() {
                out.push((what, Op::Write { field, value, fix }));
            }
            out
        }
        Op::SetAnno(key, value) => {
            let mut out: Vec<(&'static str, Op)> = values(value)
                .into_iter()
                .map(|(what, value)| (what, Op::SetAnno(key, value)))
                .collect();
            let mut other = key;
            other.offset = if key.offset < 16 { 20 } else { 0 };
            out.push(("another annotation", Op::SetAnno(other, value)));
            out
        }
        Op::Pull(n) => vec![("one byte more", Op::Pull(n.wrapping_add(1)))],
        Op::Push(n) => vec![("one byte more", Op::Push(n.wrapping_add(1)))],
        Op::Unpull(n) => vec![("one byte more", Op::Unpull(n.wrapping_add(1)))],
        Op::SetNet { at, len } => vec![
            (
                "one byte further",
                Op::SetNet {
                    at: at.wrapping_add(1),
                    len,
                },
            ),
            (
                "a longer header",
                Op::SetNet {
                    at,
                    len: len.wrapping_add(4),
                },
            ),
        ],
        Op::SetMac { at } => vec![(
            "one byte further",
            Op::SetMac {
                at: at.wrapping_add(1),
            },
        )],
        Op::Count(tag) => vec![("another account", Op::Count(tag ^ 1))],
        // what is left has nothing to change that leaving it out does not show
        _ => Vec::new(),
    }
}

fn exits(c: &Case) -> Vec<(String, Exit)> {
    let mut out: Vec<(String, Exit)> = Vec::new();
    let mut to = |what: &str, e: Exit| out.push((what.to_string(), e));
    match &c.exit {
        Exit::Port(p) => {
            to("another output", Exit::Port(p + 1));
            to("dropped", Exit::Drop(OTHER));
        }
        Exit::PortOrDrop(p, reason) => {
            // an output that is connected, where one is
            to("another output", Exit::Port(usize::from(*p == 0)));
            to("another reason", Exit::PortOrDrop(*p, OTHER));
            to("dropped for no reason", Exit::Drop(reason));
        }
        Exit::Each(ports) => {
            let mut fewer = ports.clone();
            fewer.pop();
            to("one copy less", Exit::Each(fewer));
            let mut turned = ports.clone();
            turned.reverse();
            to("copies the other way round", Exit::Each(turned));
        }
        Exit::Drop(_) => {
            to("another reason", Exit::Drop(OTHER));
            to("not dropped", Exit::Port(0));
        }
        Exit::Transmit => to("dropped", Exit::Drop(OTHER)),
        Exit::Ask(_) => to("nobody asked", Exit::Port(0)),
        Exit::Punt(_) => to("not handed over", Exit::Port(0)),
        Exit::Bind(b) => {
            let mut flipped = b.clone();
            flipped.dst_anno = match b.dst_anno {
                DstAnno::Kept => DstAnno::Rewritten,
                DstAnno::Rewritten | DstAnno::OfReplies => DstAnno::Kept,
            };
            to("the destination annotation", Exit::Bind(flipped));
            for i in 0..b.flows.len() {
                let mut other = b.clone();
                if let Some(reply) = &mut other.flows[i].reply {
                    *reply += 1;
                    to("another output of replies", Exit::Bind(other));
                }
                let mut none = b.clone();
                none.flows.remove(i);
                to("a kind of flow less", Exit::Bind(none));
            }
            let Some(e) = &b.expected else {
                to("not bound", Exit::Port(0));
                return out;
            };
            let mut with = |what: &str, e: onefold_element::model::Expected| {
                let mut b = b.clone();
                b.expected = Some(e);
                to(what, Exit::Bind(b));
            };
            let mut other = e.clone();
            other.output += 1;
            with("another output of new flows", other);
            let change = |r: &Rewritten| match r {
                Rewritten::Kept => Rewritten::To(ValueSet::one(0)),
                Rewritten::To(_) => Rewritten::Kept,
            };
            let mut other = e.clone();
            other.saddr = change(&e.saddr);
            with("the source of new flows", other);
            let mut other = e.clone();
            other.daddr = change(&e.daddr);
            with("the destination of new flows", other);
            let mut other = e.clone();
            other.sport = change(&e.sport);
            with("the source port of new flows", other);
            let mut none = b.clone();
            none.expected = None;
            to("no new flows", Exit::Bind(none));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::model::field;

    #[test]
    fn every_mutant_differs_and_a_limit_holds() {
        let m = Model::Cases(vec![
            Case::new(Cond::less(Read::Len, 20), Exit::Drop("short")),
            Case::new(
                Cond::eq(field::IP_TTL, 1).and(Cond::eq(field::IP_PROTO, 6).not()),
                Exit::Port(1),
            ),
            Case::new(Cond::Always, Exit::Port(0)).with([
                Op::Count(0),
                Op::Write {
                    field: field::IP_TTL,
                    value: Value::Const(3),
                    fix: Fix::Both,
                },
            ]),
        ]);
        let all = mutants(&m, usize::MAX);
        assert!(all.len() > 25, "{}", all.len());
        for n in &all {
            assert_ne!(n.model, m, "{}", n.what);
        }
        let mut kinds: Vec<_> = all.iter().map(|n| n.what.clone()).collect();
        kinds.sort();
        kinds.dedup();
        assert_eq!(kinds.len(), all.len(), "each says what it is: {kinds:?}");
        assert!(mutants(&m, 8).len() <= 11);
        assert!(mutants(&Model::None("x"), 8).is_empty());
    }
}
