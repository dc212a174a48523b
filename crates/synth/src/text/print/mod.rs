//! Writing a program as text.

/// Writing to a `String` cannot fail; this says so once.
macro_rules! put {
    ($out:expr, $($t:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($t)*);
    }};
}

mod action;
mod value;
mod words;

use crate::program::{Counted, Dim, EndAt, Program, Rule, Slot, Stage, Why};
pub(crate) use action::{EXPECTED, EXPECTED_STYLE};
pub use value::values;
pub(crate) use value::{quoted, set};
pub use words::Words;

/// The whole program.
pub fn print(p: &Program) -> String {
    let mut out = String::from("onefold program 1\n");
    let w = Words::new(p);
    for n in &p.notes {
        put!(out, "note {}\n", quoted(n));
    }
    if !p.elements.is_empty() {
        out.push('\n');
    }
    for (i, e) in p.elements.iter().enumerate() {
        put!(out, "element e{i} {}\n", quoted(e));
    }
    if !p.slots.is_empty() {
        out.push('\n');
    }
    for (i, s) in p.slots.iter().enumerate() {
        let style = w
            .dim(Dim::Slot(Slot(u16::try_from(i).unwrap_or(u16::MAX))))
            .1;
        put!(
            out,
            "slot s{i} bits {} in {}\n",
            s.bits,
            set(&s.set, s.bits, style)
        );
    }
    if !p.entries.is_empty() {
        out.push('\n');
    }
    for e in &p.entries {
        put!(
            out,
            "entry e{} stage{}{}\n",
            e.source.0,
            e.stage.0,
            w.comment(e.source)
        );
    }
    for (name, stage) in &p.takes {
        put!(out, "take {} stage{}\n", quoted(name), stage.0);
    }
    for (i, s) in p.stages.iter().enumerate() {
        put!(out, "\n");
        print_stage(&mut out, p, i, s);
    }
    out
}

/// A stage, or the name of a place in a later program.
pub(super) fn stage_name(p: &Program, s: crate::program::StageId) -> String {
    match s.hand().and_then(|i| p.hands.get(i)) {
        Some(name) => quoted(name),
        None => format!("stage{}", s.0),
    }
}

fn print_stage(out: &mut String, p: &Program, i: usize, s: &Stage) {
    let why = match s.why {
        Why::Entry => "entry",
        Why::Dynamic => "dynamic",
        Why::Bound => "bound",
        Why::Copy => "copy",
        Why::Asked => "asked",
        Why::Written => "written",
        Why::Budget => "budget",
    };
    let w = Words::for_stage(p, s);
    let fresh = if s.fresh { " fresh" } else { "" };
    put!(
        out,
        "stage{i} at e{}[{}] {why}{fresh} {{{}\n",
        s.at.0.0,
        s.at.1,
        w.comment(s.at.0)
    );
    if !s.known.0.is_empty() {
        out.push_str("  known ");
        w.put_filter(out, &s.known);
        out.push('\n');
    }
    for f in &s.among {
        out.push_str("  among ");
        w.with(f).put_filter(out, f);
        out.push('\n');
    }
    // an action is named after the headers of the first class that takes it
    let mut first: Vec<Option<&Rule>> = vec![None; s.actions.len()];
    for r in &s.rules {
        out.push_str("  when ");
        w.with(&r.filter).put_filter(out, &r.filter);
        put!(out, " => a{}", r.action.0);
        if !r.origin.is_empty() {
            out.push_str(" from");
        }
        for o in &r.origin {
            put!(out, " e{}", o.elem.0);
            if let Some(a) = o.arg {
                put!(out, ".{a}");
            }
            if let Some(c) = &o.counted {
                put_counted(out, c);
            }
        }
        out.push('\n');
        if let Some(f) = first.get_mut(r.action.0 as usize)
            && f.is_none()
        {
            *f = Some(r);
        }
    }
    for (j, a) in s.actions.iter().enumerate() {
        put!(out, "  a{j} {{\n");
        let w = match first.get(j).copied().flatten() {
            Some(r) => w.with(&r.filter),
            None => w,
        };
        for step in &a.steps {
            w.step(out, step);
        }
        w.end(out, &a.end);
        if !a.path.is_empty() {
            out.push_str("    path");
            for e in &a.path {
                put!(out, " e{}", e.0);
            }
            out.push('\n');
        }
        out.push_str("  }\n");
    }
    out.push_str("}\n");
}

/// Where packets that an origin decides about are counted: how long they are there, and behind how many bindings.
fn put_counted(out: &mut String, c: &Counted) {
    put!(out, "@{}", c.len.start);
    match c.len.end {
        EndAt::Same => {}
        EndAt::Ip4(at) => put!(out, ":ip4@{at}"),
        EndAt::Ip6(at) => put!(out, ":ip6@{at}"),
    }
    if c.binds > 0 {
        put!(out, ":b{}", c.binds);
    }
}
