//! For the terminal.

use super::{Class, Explained, Fate, kinds};
use crate::common::thousands;
use std::fmt::Write;

/// Rules and origins of a class that are written out.
const SHOWN: usize = 4;

macro_rules! put {
    ($out:expr, $($t:tt)*) => { let _ = writeln!($out, $($t)*); };
}

/// Which level takes whose packets, and why; `trace` says it of one packet.
fn print_levels(x: &Explained<'_>, t: &mut String) {
    let v = super::view::levels(x);
    let n = |key: &str| thousands(v[key].as_u64().unwrap_or(0));
    put!(
        t,
        "levels (--mode auto): {} classes by the flow table, once their flows are known, and by the program before; \
         elements are asked about {} of them; {} by the reference graph, for the causes below",
        n("flow"),
        n("asked"),
        n("reference")
    );
}

/// Rules that are surely not meant.
fn print_odd(x: &Explained<'_>, t: &mut String) {
    let Some(line) = super::odd::line(x) else {
        return;
    };
    put!(t, "{line}: `onefold check {} --rules` says why", x.named);
    for rule in super::odd::named(x) {
        put!(t, "  {rule}");
    }
}

/// The explanation as text; of every stage the first `most` classes.
pub fn print(x: &Explained<'_>, most: usize) -> String {
    let mut t = String::new();
    let n = |n: usize| thousands(n as u64);
    put!(
        t,
        "{}: {} classes, {} rules, {} stages, synthesized in {:.3} s{}",
        x.chain.name,
        n(x.classes.len()),
        n(x.rules()),
        n(x.program.stages.len()),
        x.seconds,
        x.peak.map_or(String::new(), |b| format!(
            ", peak memory {:.0} MB",
            b as f64 / 1e6
        ))
    );
    if let Some(c) = x.longest() {
        put!(
            t,
            "operations on the longest way: {} become {}",
            kinds::total(&c.before),
            kinds::total(&c.after)
        );
        put!(t, "  before: {}", kinds::words(&c.before));
        put!(t, "  after:  {}", kinds::words(&c.after));
    }
    print_levels(x, &mut t);
    print_odd(x, &mut t);
    for note in &x.program.notes {
        put!(t, "note: {note}");
    }
    for (name, class) in &x.whole {
        put!(
            t,
            "packets that begin at {name} ({class}): the reference graph takes them whole"
        );
    }
    let rules = x.rules().max(1);
    for (asked, title) in [
        (false, "punted to the reference graph"),
        (true, "asked of elements"),
    ] {
        let list: Vec<_> = x.punts.iter().filter(|p| p.asked == asked).collect();
        if list.is_empty() {
            if !asked {
                put!(
                    t,
                    "\nnothing is punted{}",
                    if x.whole.is_empty() {
                        ""
                    } else {
                        " of other packets"
                    }
                );
            }
            continue;
        }
        put!(t, "\n{title}");
        for p in list {
            put!(
                t,
                "  {:>5.1}% of rules  {}: {} ({} classes)",
                p.rules as f64 * 100.0 / rules as f64,
                x.name(p.elem),
                p.cause,
                p.classes
            );
        }
    }
    let mut stage = usize::MAX;
    let mut shown = 0;
    for c in &x.classes {
        if c.stage != stage {
            stage = c.stage;
            shown = 0;
            head(&mut t, x, stage);
        }
        shown += 1;
        match shown.cmp(&(most + 1)) {
            std::cmp::Ordering::Less => class(&mut t, x, c),
            std::cmp::Ordering::Equal => {
                let all = x.program.stages[stage].actions.len();
                put!(
                    t,
                    "  ... {} more classes (--all, --html or --json)",
                    n(all - most)
                );
            }
            std::cmp::Ordering::Greater => {}
        }
    }
    t
}

/// A stage, why it exists, and what is known there.
fn head(t: &mut String, x: &Explained<'_>, stage: usize) {
    let s = &x.program.stages[stage];
    match &x.entry_of[stage] {
        Some(port) => {
            put!(t, "\npackets that come in at {port} (stage {stage})");
        }
        None => {
            put!(
                t,
                "\nstage {stage} at {}: {}",
                x.name(s.at.0),
                super::view::why(s.why)
            );
            if !s.known.0.is_empty() {
                let words = onefold_synth::text::Words::for_stage(x.program, s);
                put!(t, "  of packets with {}", words.filter(&s.known));
            }
        }
    }
    super::structures::print(t, x, stage);
}

fn class(t: &mut String, x: &Explained<'_>, c: &Class) {
    put!(t, "  class {}.{}: {}", c.stage, c.action, c.does.join("; "));
    for r in c.rules.iter().take(SHOWN) {
        put!(t, "    when {}", x.filter(c.stage, *r));
    }
    if c.rules.len() > SHOWN {
        put!(t, "    ... {} more filters", c.rules.len() - SHOWN);
    }
    for o in c.origin.iter().take(SHOWN * 2) {
        let (elem, arg, loc) = x.origin(o);
        let arg = arg.map_or(String::new(), |a| format!(" ({})", short(&a)));
        put!(t, "      by {elem}{arg} {loc}");
    }
    if c.origin.len() > SHOWN * 2 {
        put!(t, "      ... and {} more", c.origin.len() - SHOWN * 2);
    }
    if c.fate != Fate::Never {
        put!(
            t,
            "      operations: {} become {}",
            kinds::total(&c.before),
            kinds::total(&c.after)
        );
    }
}

fn short(s: &str) -> String {
    match s.chars().count() > 60 {
        true => s.chars().take(57).chain("...".chars()).collect(),
        false => s.to_string(),
    }
}
