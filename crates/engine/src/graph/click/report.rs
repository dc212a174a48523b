//! Messages in the form that Click prints them.

use super::words;
use crate::graph::diag::{Diagnostic, Severity, Stage};
use std::time::Duration;

/// For wrong usage.
pub(crate) const SHORT_USAGE: &str = "Usage: onefold click [OPTION]... [ROUTERFILE]\n\
     Try 'onefold click --help' for more information.\n";

/// For `--help`.
pub(crate) const USAGE: &str = "\
'onefold click' runs a Click configuration. It builds the configuration, reports
any errors to standard error, and then runs until it is asked to stop or nothing
can happen any more.

Usage: onefold click [OPTION]... [ROUTERFILE] [PARAM=VALUE]...

Options:
  -f, --file FILE               Read the configuration from FILE.
  -e, --expression EXPR         Use EXPR as configuration.
  -h, --handler ELEMENT.H       Call ELEMENT's read handler H after the run and
                                print the result to standard output.
  -x, --exit-handler ELEMENT.H  Use handler ELEMENT.H's value as exit status.
  -o, --output FILE             Write the flat configuration to FILE.
  -q, --quit                    Do not run, only initialize.
  -t, --time                    Print how long the run took.
  -w, --no-warnings             Do not print warnings.
  -C, --clickpath PATH          Use PATH to find libraries.
      --flatten                 Print the flat configuration and exit.
      --simtime[=T]             Start the clock at T seconds (1000000000).
      --real-time               Let the clock follow real time.
      --seed N                  Seed of random numbers (1).
      --help                    Print this message and exit.
  -v, --version                 Print the version and exit.
";

/// What the system says about an error, without the number that Rust adds.
pub(crate) fn os_error(e: &std::io::Error) -> String {
    let text = e.to_string();
    match text.find(" (os error") {
        Some(n) => text[..n].to_string(),
        None => text,
    }
}

/// Diagnostics of the language: `FILE:LINE: message`.
pub(crate) fn language(all: &[onefold_click::diag::Diagnostic]) -> String {
    let mut s = String::new();
    for d in all {
        if let Some(l) = &d.location {
            s.push_str(&format!("{}:{}: ", l.file, l.line));
        }
        if !d.is_error() {
            s.push_str("warning: ");
        }
        let (text, note) = words::of_language(d);
        s.push_str(&text);
        s.push('\n');
        let before = d.notes.first().and_then(|n| n.location.as_ref());
        if let (Some(note), Some(l)) = (note, before) {
            s.push_str(&format!("{}:{}: {note}\n", l.file, l.line));
        }
    }
    s
}

/// Diagnostics of elements: `FILE:LINE: While configuring 'name :: Class':` and the messages, indented.
pub(crate) fn elements(all: &[Diagnostic]) -> String {
    let mut s = String::new();
    let mut context = None;
    for d in all {
        let place = match (d.decl.file.is_empty(), d.decl.line) {
            (true, _) => String::new(),
            (_, 0) => format!("{}: ", d.decl.file),
            (_, n) => format!("{}:{n}: ", d.decl.file),
        };
        let warning = match d.severity {
            Severity::Warning if !d.info => "warning: ",
            _ => "",
        };
        let input = (d.argument.as_ref()).and_then(|a| words::of_input(a, &d.message));
        let message = input.as_ref().unwrap_or(&d.message);
        let argument = (d.argument.as_ref())
            .filter(|_| input.is_none())
            .map_or(String::new(), |a| format!("{a}: "));
        let doing = match d.stage {
            Stage::Configure => "configuring",
            Stage::Initialize => "initializing",
            Stage::Classes | Stage::Connections => {
                context = None;
                // Click says nothing of the place where push meets pull
                let place = if d.notes.is_empty() {
                    place
                } else {
                    String::new()
                };
                s.push_str(&format!("{place}{warning}{}\n", d.message));
                continue;
            }
        };
        let here = (doing, d.element.clone());
        if context.as_ref() != Some(&here) {
            let name = match &d.element {
                Some((n, c)) => format!("{n} :: {c}"),
                None => "?".into(),
            };
            s.push_str(&format!("{place}While {doing} '{name}':\n"));
            context = Some(here);
        }
        for (i, line) in message.lines().enumerate() {
            let lead = match i {
                0 => format!("{warning}{argument}"),
                _ => String::new(),
            };
            s.push_str(&format!("  {lead}{line}\n"));
        }
    }
    s
}

/// The line that `-t` prints: user time, system time, wall time. Processor times come from the kernel's accounting (in
/// hundredths); zero where there is none.
pub(crate) fn times(wall: Duration) -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // fields behind the command's name, which ends at the last parenthesis
    let fields: Vec<&str> = match stat.rfind(')') {
        Some(n) => stat[n + 1..].split_whitespace().collect(),
        None => Vec::new(),
    };
    let ticks = |i: usize| {
        fields
            .get(i)
            .and_then(|f| f.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let (user, system) = (ticks(11), ticks(12));
    let hundredths = wall.as_millis() / 10;
    format!(
        "{}.{:02}0u {}.{:02}0s {}:{:02}.{:02}\n",
        user / 100,
        user % 100,
        system / 100,
        system % 100,
        hundredths / 6000,
        hundredths / 100 % 60,
        hundredths % 100
    )
}
