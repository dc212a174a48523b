//! Running a Click configuration as Click's user-level driver does: `onefold click`.
//!
//! Differences: time is virtual and jumps to the next timer when there is nothing to do (`--real-time` for the wall clock);
//! a run in which nothing can happen any more ends; control sockets are refused.

pub(crate) mod options;
pub(crate) mod report;
mod words;

use crate::graph::build::{Bound, BuildOptions};
use crate::graph::click::options::{Options, Source};
use crate::graph::click::report::SHORT_USAGE;
use crate::graph::click::report::USAGE;
use crate::graph::core::Log;
use crate::graph::diag::Stage;
use crate::graph::driver::{DriverOptions, Ended};
use crate::graph::flat::spec_from_flat;
use crate::graph::handlers::Target;
use crate::graph::handlers::VERSION;
use crate::graph::reference::Graph;
use onefold_click::{FileLibraries, FlatGraph, LoadOptions, ParseOptions};
use onefold_element::{ElemId, HandlerError};
use onefold_packet::Timestamp;
use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Exit status of a run that could not be started.
const FAILED: i32 = 1;
/// Largest configuration that is read.
const MAX_CONFIG: u64 = 256 << 20;

fn complain(text: &str) {
    // a closed standard error is nobody's concern
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

fn read_source(source: &Source) -> Result<(Vec<u8>, String), String> {
    let (name, read) = match source {
        Source::Expression(e) => return Ok((e.clone().into_bytes(), "config".into())),
        Source::File(f) if f == "-" || f.is_empty() => {
            let mut v = Vec::new();
            let r = std::io::stdin().lock().take(MAX_CONFIG).read_to_end(&mut v);
            ("<stdin>".to_string(), r.map(|_| v))
        }
        Source::File(f) => (f.clone(), std::fs::read(f)),
    };
    match read {
        Ok(v) => Ok((v, name)),
        Err(e) => Err(format!(
            "{name}: {}\n",
            crate::graph::click::report::os_error(&e)
        )),
    }
}

/// Runs `onefold click ARGS...`; `interrupt` ends the run when it is set (by a signal). Prints to standard output and error;
/// gives the exit status.
pub fn click_main(args: &[String], interrupt: &AtomicBool) -> i32 {
    let options = match Options::parse(args) {
        Ok(o) => o,
        Err(e) => {
            complain(&format!("click: {e}\n{}", SHORT_USAGE));
            return FAILED;
        }
    };
    if options.help {
        say(USAGE);
        return 0;
    }
    if options.version {
        say(&format!("onefold click {}\n", VERSION));
        return 0;
    }
    let source = options.source.clone().unwrap_or(Source::File("-".into()));
    let (text, file) = match read_source(&source) {
        Ok(s) => s,
        Err(e) => {
            complain(&e);
            return FAILED;
        }
    };
    let Some(flat) = load(&options, &text, &file) else {
        return FAILED;
    };
    if options.flatten {
        say(&flat.to_click_text());
        return 0;
    }
    let source_text = String::from_utf8_lossy(&text).into_owned();
    let Some(mut graph) = build(&options, &flat, source_text) else {
        return FAILED;
    };
    let mut status = 0;
    if let Some(path) = &options.output {
        let text = graph.read_handler("flatconfig").unwrap_or_default();
        match path.as_str() {
            "-" => say(&text),
            _ => {
                if let Err(e) = std::fs::write(path, text) {
                    complain(&format!(
                        "{path}: {}\n",
                        crate::graph::click::report::os_error(&e)
                    ));
                    status = 1;
                }
            }
        }
    }
    let began = Instant::now();
    let mut ended = Ended::Stopped;
    if !options.quit && !graph.is_empty() {
        ended = graph.run_driver(DriverOptions {
            real_time: options.real_time,
            interrupt: Some(interrupt),
            ..Default::default()
        });
    } else if !options.quit && options.warnings {
        complain(&format!(
            "{file}: warning: configuration has no elements, exiting\n"
        ));
    }
    if options.time {
        say(&crate::graph::click::report::times(began.elapsed()));
    }
    if call_handlers(&mut graph, &options.handlers) {
        status = 1;
    }
    if let Some(h) = &options.exit_handler {
        status = exit_status(&mut graph, h);
    }
    graph.finish();
    // Nothing left is a clean end here, where Click would wait for ever.
    let _ = ended;
    status
}

fn load(options: &Options, text: &[u8], file: &str) -> Option<FlatGraph> {
    let libraries = FileLibraries::new(options.clickpath.as_deref());
    let how = LoadOptions {
        parse: ParseOptions {
            libraries: Some(&libraries),
            ..Default::default()
        },
        ..Default::default()
    };
    match onefold_click::load(text, file, &options.params, &how) {
        Ok(flat) => {
            if options.warnings {
                complain(&crate::graph::click::report::language(&flat.warnings));
            }
            Some(flat)
        }
        Err(d) => {
            complain(&crate::graph::click::report::language(&d));
            None
        }
    }
}

fn build(options: &Options, flat: &FlatGraph, source_text: String) -> Option<Graph> {
    let start = match options.simtime {
        Some(t) => Timestamp::from_secs_f64(t),
        None => Graph::wall_clock(),
    };
    let how = BuildOptions {
        bound: Bound::None,
        seed: options.seed.unwrap_or(1),
        start,
        log: Log::Stdio,
        source_text: match flat.requirements.iter().any(|r| r.kind == "compact_config") {
            true => String::new(),
            false => source_text,
        },
        requirements: (flat.requirements.iter())
            .map(|r| (r.kind.clone(), r.value.clone()))
            .collect(),
        ..Default::default()
    };
    match Graph::build(spec_from_flat(flat), &how) {
        Ok(g) => {
            if options.warnings {
                complain(&crate::graph::click::report::elements(g.warnings()));
            }
            Some(g)
        }
        Err(e) => {
            // what comes after an unknown class would not be seen by somebody who is used to Click
            let unknown: Vec<_> = e.0.iter().filter(|d| d.stage == Stage::Classes).collect();
            complain(&crate::graph::click::report::elements(&e.0));
            if unknown.is_empty() {
                complain("Router could not be initialized!\n");
            }
            None
        }
    }
}

/// Does a shell pattern (`*`, `?`, `[...]`) match?
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    // Bound: every return to the last star moves it on by one.
    loop {
        let step = match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            None if t == text.len() => return true,
            Some(b'?') if t < text.len() => Some(p + 1),
            Some(b'[') if t < text.len() => class(pattern, p, text[t]),
            Some(c) if text.get(t) == Some(c) => Some(p + 1),
            _ => None,
        };
        match (step, star) {
            (Some(next), _) => {
                p = next;
                t += 1;
            }
            (None, Some((sp, st))) if st < text.len() => {
                star = Some((sp, st + 1));
                p = sp + 1;
                t = st + 1;
            }
            _ => return false,
        }
    }
}

/// Matches `[...]` at `p` against `c`; the index behind it.
fn class(pattern: &[u8], p: usize, c: u8) -> Option<usize> {
    let negated = matches!(pattern.get(p + 1), Some(b'^' | b'!'));
    let mut i = p + 1 + usize::from(negated);
    let first = i;
    let mut found = false;
    while let Some(&a) = pattern.get(i) {
        if a == b']' && i > first {
            return (found != negated).then_some(i + 1);
        }
        match (pattern.get(i + 1), pattern.get(i + 2)) {
            (Some(b'-'), Some(&b)) if b != b']' => {
                found |= (a..=b).contains(&c);
                i += 3;
            }
            _ => {
                found |= a == c;
                i += 1;
            }
        }
    }
    None
}

/// Prints the values of handlers as `-h` asks. True if something was wrong.
fn call_handlers(graph: &mut Graph, handlers: &[String]) -> bool {
    let several = handlers.len() > 1;
    let mut failed = false;
    for h in handlers {
        let Some((element, name)) = h.split_once('.') else {
            failed |= call_handler(graph, Target::Global(h.clone()), several);
            continue;
        };
        if let Some(e) = graph.find(element) {
            let t = Target::Element(e.0, name.to_string());
            failed |= call_handler(graph, t, several);
            continue;
        }
        let pattern = element.contains(['?', '*', '[']);
        let mut any = false;
        for i in 0..graph.len() as u32 {
            let e = ElemId(i);
            let hit = match pattern {
                true => glob(element.as_bytes(), graph.name(e).as_bytes()),
                false => graph.class(e) == element,
            };
            any |= hit;
            if hit && graph.has_handler(e, name, false) {
                failed |= call_handler(graph, Target::Element(i, name.to_string()), true);
            }
        }
        if !any {
            let what = if pattern {
                "no element matching"
            } else {
                "no element"
            };
            complain(&format!("{what} '{element}'\n"));
            failed = true;
        }
    }
    failed
}

fn call_handler(graph: &mut Graph, target: Target, print_name: bool) -> bool {
    let name = graph.core.target_name(&target);
    match graph.read_target(&target, "") {
        Ok(value) => {
            let mut text = String::new();
            if print_name {
                text.push_str(&format!("{name}:\n"));
            }
            text.push_str(&value);
            if !value.is_empty() && !value.ends_with('\n') {
                text.push('\n');
            }
            if print_name {
                text.push('\n');
            }
            say(&text);
            false
        }
        Err(HandlerError::NoSuchHandler(_)) => {
            complain(&format!("no '{name}' handler\n"));
            true
        }
        Err(HandlerError::WrongDirection(..)) => {
            complain(&format!("'{name}' is a write handler\n"));
            true
        }
        Err(e) => {
            complain(&format!("{e}\n"));
            true
        }
    }
}

/// The exit status that a handler's value stands for.
fn exit_status(graph: &mut Graph, call: &str) -> i32 {
    match graph.read_handler(call) {
        Err(e) => {
            complain(&format!("{e}\n"));
            -1
        }
        Ok(v) => match (
            v.trim().parse::<i32>(),
            onefold_element::handler::parse_bool(&v),
        ) {
            (Ok(n), _) => n,
            (_, Ok(true)) => 0,
            (_, Ok(false)) => 1,
            _ => {
                complain("exit handler value should be integer\n");
                -1
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::click::glob;

    #[test]
    fn patterns() {
        let g = |p: &str, t: &str| glob(p.as_bytes(), t.as_bytes());
        assert!(g("*", "") && g("a*c", "abbc") && g("a?c", "abc") && g("[a-c]x", "bx"));
        assert!(g("*@*", "Idle@1") && g("[^x]*", "abc") && g("a**b*", "aXbY"));
        assert!(!g("a*c", "abd") && !g("[a-c]x", "dx") && !g("?", "") && !g("[a", "a"));
    }
}
