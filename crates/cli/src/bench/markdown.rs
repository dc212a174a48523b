//! A benchmark as a section of a Markdown document.

use super::text::{conditions, number};
use onefold_bench::measure::{Report, Spread};
use std::fmt::Write;

/// The section, without a heading; its first line names the machine.
pub fn section(r: &Report) -> String {
    let mut t = String::new();
    // writing to a String cannot fail
    let _ = writeln!(
        t,
        "Machine: {}.\n\nPackets: {}.\n",
        r.machine.line(),
        conditions(r)
    );
    t.push_str(
        "| chain | mode | **above the ceiling** | median | min to max | ceiling | MAC swap | cycles | Mpps | flows | left |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let of = |s: Option<Spread>, f: fn(Spread) -> f64| s.map_or("-".into(), |s| number(f(s)));
    for c in &r.chains {
        let _ = writeln!(
            t,
            "| `{}` | {} | **{}** | {} | {} to {} | {} | {} | {} | {} | {} | {:.1}% |",
            c.name,
            c.mode,
            of(c.above_ceiling_ns, |s| s.median),
            of(c.ns_per_packet, |s| s.median),
            of(c.ns_per_packet, |s| s.min),
            of(c.ns_per_packet, |s| s.max),
            of(c.ceiling_ns, |s| s.median),
            of(c.mac_swap_ns, |s| s.median),
            c.cycles_per_packet
                .map_or("-".into(), |s| format!("{:.0}", s.median)),
            c.mpps.map_or("-".into(), |s| format!("{:.2}", s.median)),
            crate::common::thousands(c.traffic.flows as u64),
            c.share_out * 100.0,
        );
    }
    for w in &r.warnings {
        let _ = writeln!(t, "\nWarning: {w}.");
    }
    t
}
