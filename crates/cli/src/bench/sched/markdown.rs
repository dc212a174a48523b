//! An experiment as a section of a Markdown document.

use super::report::{SchedReport, digits, mark};
use std::fmt::Write;

/// The section, with its heading.
pub fn section(r: &SchedReport) -> String {
    let mut t = String::new();
    // writing to a String cannot fail
    let _ = writeln!(
        t,
        "### {}\n\n`onefold bench sched {}`. {}\n",
        r.title, r.experiment, r.shows
    );
    let _ = writeln!(
        t,
        "{}. Medians; of {} the least and the greatest, too. {}\n",
        r.conditions(),
        r.plot,
        r.machine.line()
    );
    let figures: Vec<&str> = r.figures().collect();
    let _ = writeln!(
        t,
        "| {} | policy | {} |\n|---|---|{}",
        r.axis,
        figures.join(" | "),
        "---|".repeat(figures.len())
    );
    for c in &r.results.cells {
        if let Some(why) = &c.skipped {
            let _ = writeln!(t, "| {} | {} | not run: {why} |", c.setting, c.run);
            continue;
        }
        let cell = |(i, f): (usize, &&str)| match (i, c.get(f)) {
            (_, None) => "-".to_string(),
            (0, Some(s)) if c.rounds.len() > 1 => {
                format!(
                    "**{}** ({} to {})",
                    digits(s.median),
                    digits(s.min),
                    digits(s.max)
                )
            }
            (_, Some(s)) => digits(s.median),
        };
        let cells: Vec<String> = figures.iter().enumerate().map(cell).collect();
        let _ = writeln!(t, "| {} | {} | {} |", c.setting, c.run, cells.join(" | "));
    }
    t.push_str("\n| goal | got | |\n|---|---|---|\n");
    for l in &r.lines {
        let _ = writeln!(t, "| {} | {} | {} |", l.goal, l.got, mark(l.held));
    }
    t.push_str("\nReported by others (other machines; compare shapes):\n\n");
    for (source, reported) in r.published {
        let _ = writeln!(t, "- {source}: {reported}");
    }
    let _ = writeln!(t, "\n*What had to shrink.* {}\n", r.shrunk);
    for w in &r.warnings {
        let _ = writeln!(t, "Remark: {w}.\n");
    }
    t
}
