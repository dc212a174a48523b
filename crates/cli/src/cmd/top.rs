//! `onefold top`: how a running chain stands, again and again, in a terminal.

use super::status::{PATIENCE, Which, number, refused};
use crate::common::{self, thousands};
use crate::runner;
use anyhow::{Context, Result};
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::{cursor, queue, style, terminal};
use onefold_control::Request;
use serde_json::Value;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most rows of a table.
const ROWS: usize = 12;

/// Options of `onefold top`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Prints how it stands once, with the rates of half a second, and ends
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = crate::live::seconds)]
    every: Duration,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let mut client = args.which.connect(Some(PATIENCE))?;
    let mut ask = || {
        client.ask(&Request::Status {
            rules: false,
            servers: false,
        })
    };
    let first = match ask() {
        Ok(v) => v,
        Err(e) => return refused(e, false),
    };
    if args.once {
        std::thread::sleep(Duration::from_millis(500));
        let now = ask()?;
        for line in frame(&now, Some(&first)) {
            crate::say!("{line}");
        }
        return Ok(common::HOLDS);
    }
    runner::catch_interrupt();
    let mut screen = Screen::open()?;
    let every = args.every.max(Duration::from_millis(100));
    let mut before = first;
    screen.show(&frame(&before, None))?;
    loop {
        if screen.wait(every)? {
            break;
        }
        match ask() {
            Ok(now) => {
                screen.show(&frame(&now, Some(&before)))?;
                before = now;
            }
            Err(e) => {
                drop(screen);
                return refused(e, false);
            }
        }
    }
    Ok(common::HOLDS)
}

/// The terminal; as it was before when this is dropped.
struct Screen {
    out: std::io::Stdout,
}

impl Screen {
    fn open() -> Result<Screen> {
        let why = "this is no terminal: --once prints how it stands";
        terminal::enable_raw_mode().context(why)?;
        let mut screen = Screen {
            out: std::io::stdout(),
        };
        queue!(screen.out, terminal::EnterAlternateScreen, cursor::Hide)?;
        screen.out.flush()?;
        Ok(screen)
    }

    fn show(&mut self, lines: &[String]) -> Result<()> {
        let (columns, rows) = terminal::size().unwrap_or((120, 40));
        queue!(self.out, cursor::MoveTo(0, 0))?;
        let shown = lines.iter().take(usize::from(rows).saturating_sub(1));
        for line in shown {
            let line: String = line.chars().take(usize::from(columns)).collect();
            let rest = terminal::Clear(terminal::ClearType::UntilNewLine);
            queue!(
                self.out,
                style::Print(line),
                rest,
                cursor::MoveToNextLine(1)
            )?;
        }
        let below = terminal::Clear(terminal::ClearType::FromCursorDown);
        queue!(self.out, below)?;
        self.out.flush()?;
        Ok(())
    }

    /// Waits so long. True: somebody wants to end.
    fn wait(&mut self, time: Duration) -> Result<bool> {
        let begun = Instant::now();
        loop {
            if runner::interrupted().load(Ordering::Relaxed) {
                return Ok(true);
            }
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            if !event::poll(left.min(Duration::from_millis(100)))? {
                continue;
            }
            match event::read()? {
                Event::Key(k) => {
                    let control = k.modifiers.contains(KeyModifiers::CONTROL);
                    match k.code {
                        KeyCode::Char('q') | KeyCode::Esc => return Ok(true),
                        // the terminal makes no signal of it
                        KeyCode::Char('c') if control => {
                            signal_hook::low_level::raise(signal_hook::consts::SIGINT)?;
                            return Ok(true);
                        }
                        _ => {}
                    }
                }
                // it is drawn anew
                Event::Resize(..) => return Ok(false),
                _ => {}
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = queue!(self.out, terminal::LeaveAlternateScreen, cursor::Show);
        let _ = self.out.flush();
        let _ = terminal::disable_raw_mode();
    }
}

/// How it stands, in lines: sums, and rates since `before`.
pub fn frame(now: &Value, before: Option<&Value>) -> Vec<String> {
    let f = Frame {
        now,
        before: before.filter(|b| number(b, &["pid"]) == number(now, &["pid"])),
    };
    let mut lines = Vec::new();
    f.head(&mut lines);
    f.workers(&mut lines);
    f.ports(&mut lines);
    f.functions(&mut lines);
    f.drops(&mut lines);
    f.classes(&mut lines);
    lines
}

struct Frame<'a> {
    now: &'a Value,
    before: Option<&'a Value>,
}

fn text<'a>(v: &'a Value, key: &str) -> &'a str {
    v.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(v: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    v.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// `1.23 M`.
fn short(rate: f64) -> String {
    match rate {
        r if r >= 1e9 => format!("{:.2} G", r / 1e9),
        r if r >= 1e6 => format!("{:.2} M", r / 1e6),
        r if r >= 1e3 => format!("{:.1} k", r / 1e3),
        r => format!("{r:.0}  "),
    }
}

impl Frame<'_> {
    fn seconds(&self) -> f64 {
        let at = |v: &Value| v["seconds"].as_f64().unwrap_or(0.0);
        match self.before {
            Some(b) => (at(self.now) - at(b)).max(1e-3),
            None => at(self.now).max(1e-3),
        }
    }

    /// A rate, from two numbers at the same place.
    fn rate(&self, now: u64, before: u64) -> String {
        let grown = match self.before {
            Some(_) => now.saturating_sub(before),
            None => now,
        };
        short(grown as f64 / self.seconds())
    }

    /// The object in a list of the earlier status that has the same text there.
    fn earlier<'a>(&'a self, key: &str, same: impl Fn(&Value) -> bool) -> Option<&'a Value> {
        list(self.before?, key).find(|v| same(v))
    }

    fn head(&self, lines: &mut Vec<String>) {
        let v = self.now;
        let up = v["seconds"].as_f64().unwrap_or(0.0);
        lines.push(format!(
            "{} ({})  pid {}  up {up:.0} s  reloads {}  verification: {}",
            text(v, "name"),
            text(v, "chain"),
            number(v, &["pid"]),
            number(v, &["reloads"]),
            text(&v["verification"], "told"),
        ));
        let total = |key: &str| number(v, &[key]);
        let before = |key: &str| self.before.map_or(0, |b| number(b, &[key]));
        let rate = |key: &str| self.rate(total(key), before(key));
        lines.push(format!(
            "in {} ({}pps)  out {} ({}pps)  dropped {} ({}pps)  held {}",
            thousands(total("packets_in")),
            rate("packets_in"),
            thousands(total("packets_out")),
            rate("packets_out"),
            thousands(total("dropped")),
            rate("dropped"),
            thousands(total("held")),
        ));
        let level = |key: &str| {
            let before = self.before.map_or(0, |b| number(b, &["levels", key]));
            number(v, &["levels", key]).saturating_sub(before) as f64
        };
        let (reference, program, flow) = (level("reference"), level("program"), level("flow"));
        let all = (reference + program + flow).max(1.0);
        lines.push(format!(
            "levels: flow table {:.1}%  program {:.1}%  reference {:.1}%   flow table: {} entries",
            flow * 100.0 / all,
            program * 100.0 / all,
            reference * 100.0 / all,
            thousands(number(v, &["levels", "flow_table", "entries"])),
        ));
    }

    fn workers(&self, lines: &mut Vec<String>) {
        lines.push(String::new());
        let scaling = self.now.get("scaling");
        let more = scaling.map_or("", |_| "   groups");
        lines.push(format!(
            "worker       in/s   load   packets/batch   batch p50     p99{more}"
        ));
        for w in list(self.now, "workers") {
            let b = self.earlier("workers", |o| o["worker"] == w["worker"]);
            let of = |v: Option<&Value>, key: &str| v.and_then(|v| v[key].as_f64()).unwrap_or(0.0);
            let grown = |key: &str| of(Some(w), key) - of(b, key);
            let load = grown("busy_seconds") / grown("elapsed_seconds").max(1e-3);
            let packets = number(w, &["packets_in"]);
            let us = |key: &str| number(w, &["batch_ns", key]) as f64 / 1e3;
            let groups: Vec<String> = list(w, "groups").map(Value::to_string).collect();
            lines.push(format!(
                "{:<6} {:>10} {:>5.1}%   {:>13.1}   {:>6.1} us {:>6.1} us   {}",
                number(w, &["worker"]),
                self.rate(packets, b.map_or(0, |b| number(b, &["packets_in"]))),
                load.clamp(0.0, 1.0) * 100.0,
                of(Some(w), "batch_packets"),
                us("p50"),
                us("p99"),
                groups.join(" "),
            ));
        }
        if let Some(s) = scaling {
            self.scaling(s, lines);
        }
    }

    fn scaling(&self, s: &Value, lines: &mut Vec<String>) {
        lines.push(format!(
            "scaling: {} of {} to {} workers{}, {} splits, {} merges, {} balances",
            number(s, &["workers", "active"]),
            number(s, &["workers", "least"]),
            number(s, &["workers", "most"]),
            match s["by_hand"] == true {
                true => " (by hand)",
                false => "",
            },
            number(s, &["splits"]),
            number(s, &["merges"]),
            number(s, &["balances"]),
        ));
        if let Some(e) = list(s, "events").last() {
            let groups: Vec<String> = list(e, "groups").map(Value::to_string).collect();
            lines.push(format!(
                "  last: {} at {:.1} s, groups {} from worker {} to {}",
                text(e, "kind"),
                e["seconds"].as_f64().unwrap_or(0.0),
                groups.join(" "),
                number(e, &["from"]),
                number(e, &["to"]),
            ));
        }
    }

    fn ports(&self, lines: &mut Vec<String>) {
        lines.push(String::new());
        lines.push(format!(
            "{:<12} {:>10} {:>10} {:>10} {:>10}  {:<5} lost",
            "port", "in pps", "in bit/s", "out pps", "out bit/s", "link"
        ));
        for (name, p) in self.now["ports"].as_object().into_iter().flatten() {
            let b = self.before.and_then(|b| b["ports"].get(name));
            let rate = |way: &str, what: &str, times: u64| {
                let was = b.map_or(0, |b| number(b, &[way, what]));
                self.rate(number(p, &[way, what]) * times, was * times)
            };
            let lost = p["lost"].as_object().into_iter().flatten();
            let lost: u64 = lost.filter_map(|(_, n)| n.as_u64()).sum();
            lines.push(format!(
                "{name:<12} {:>10} {:>10} {:>10} {:>10}  {:<5} {}",
                rate("in", "packets", 1),
                rate("in", "bytes", 8),
                rate("out", "packets", 1),
                rate("out", "bytes", 8),
                text(p, "link"),
                thousands(lost),
            ));
        }
    }

    fn functions(&self, lines: &mut Vec<String>) {
        lines.push(String::new());
        lines.push(format!(
            "{:<16} {:<14} {:>10} {:>16} {:>14}",
            "function", "kind", "pps", "packets", "dropped"
        ));
        for f in list(self.now, "nfs").take(ROWS) {
            let b = self.earlier("nfs", |o| o["nf"] == f["nf"]);
            let packets = number(f, &["packets"]);
            lines.push(format!(
                "{:<16} {:<14} {:>10} {:>16} {:>14}",
                text(f, "nf"),
                text(f, "kind"),
                self.rate(packets, b.map_or(0, |b| number(b, &["packets"]))),
                thousands(packets),
                thousands(number(f, &["dropped"])),
            ));
        }
    }

    fn drops(&self, lines: &mut Vec<String>) {
        let mut any = false;
        for d in list(self.now, "drops_by_element").take(ROWS) {
            if !std::mem::replace(&mut any, true) {
                lines.push(String::new());
                lines.push(format!(
                    "{:>10} {:>14}  dropped at: reason",
                    "pps", "packets"
                ));
            }
            let same = |o: &Value| o["element"] == d["element"] && o["reason"] == d["reason"];
            let b = self.earlier("drops_by_element", same);
            let packets = number(d, &["packets"]);
            lines.push(format!(
                "{:>10} {:>14}  {}: {}",
                self.rate(packets, b.map_or(0, |b| number(b, &["packets"]))),
                thousands(packets),
                text(d, "element"),
                text(d, "reason"),
            ));
        }
    }

    fn classes(&self, lines: &mut Vec<String>) {
        let mut any = false;
        for c in list(self.now, "classes").take(ROWS) {
            if !std::mem::replace(&mut any, true) {
                lines.push(String::new());
                lines.push(format!(
                    "{:>10} {:>14}  {:<8} traffic class",
                    "pps", "packets", "class"
                ));
            }
            let b = self.earlier("classes", |o| {
                o["class"] == c["class"] && o["end"] == c["end"]
            });
            let packets = number(c, &["packets"]);
            lines.push(format!(
                "{:>10} {:>14}  {:<8} {}",
                self.rate(packets, b.map_or(0, |b| number(b, &["packets"]))),
                thousands(packets),
                text(c, "class"),
                text(c, "end"),
            ));
        }
    }
}
