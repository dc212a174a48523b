//! An experiment at a terminal.

use super::report::{SchedReport, digits, mark};
use std::fmt::Write;

/// All of it.
pub fn told(r: &SchedReport) -> String {
    let mut t = format!("{}: {}\n{}.\n\n", r.experiment, r.title, r.conditions());
    let mut rows = vec![vec![r.axis.to_string(), "policy".to_string()]];
    if let Some(head) = rows.first_mut() {
        head.extend(r.figures().map(str::to_string));
    }
    for c in &r.results.cells {
        let mut row = vec![c.setting.clone(), c.run.clone()];
        match &c.skipped {
            Some(why) => row.push(format!("not run: {why}")),
            None => row.extend(
                r.figures()
                    .map(|f| c.get(f).map_or("-".to_string(), |s| digits(s.median))),
            ),
        }
        rows.push(row);
    }
    table(&mut t, &rows);
    t.push('\n');
    for l in &r.lines {
        // writing to a String cannot fail
        let _ = writeln!(
            t,
            "{:<12}  {}\n              {}",
            mark(l.held),
            l.goal,
            l.got
        );
    }
    t.push_str("\nreported by others, on other machines\n");
    for (source, reported) in r.published {
        let _ = writeln!(t, "  {source}: {reported}");
    }
    let _ = writeln!(t, "what had to shrink: {}", r.shrunk);
    if r.interrupted {
        t.push_str("interrupted: not everything was measured\n");
    }
    t
}

/// Two columns of words, and numbers.
fn table(t: &mut String, rows: &[Vec<String>]) {
    let columns = rows.first().map_or(0, Vec::len);
    // a row with less than all columns has a sentence at its end
    let whole = || rows.iter().filter(|r| r.len() == columns);
    let wide = |i: usize| {
        whole()
            .filter_map(|r| r.get(i))
            .map(|c| c.chars().count())
            .max()
            .unwrap_or(0)
    };
    for row in rows {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let w = wide(i);
            let _ = match i {
                0 | 1 => write!(line, "{cell:<w$}  "),
                _ if row.len() < columns => write!(line, "{cell}"),
                _ => write!(line, "{cell:>w$}  "),
            };
        }
        t.push_str(line.trim_end());
        t.push('\n');
    }
}
