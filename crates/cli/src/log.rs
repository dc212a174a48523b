//! `--log`: what happens to a run on network interfaces, a line for each event, for machines and for those who look
//! back.
//!
//! Who logs hands a line to a thread that writes; nobody waits for a disk. An event that comes too often is left out,
//! and its next line says how many were.

mod journal;
mod line;
mod losses;

use anyhow::{Context, Result};
use clap::ValueEnum;
use line::Line;
pub use losses::Losses;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Most lines that wait to be written; more are left out, and counted.
const WAITING: usize = 4096;
/// Of an event so many lines at once,
const BURST: u32 = 20;
/// and then one each time this has gone by.
const EVERY: Duration = Duration::from_secs(1);
/// Most kinds of events that are told apart.
const KINDS: usize = 64;
/// Longest time for which the end of a run waits for what is not written yet.
const FLUSH: Duration = Duration::from_secs(1);

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object each.
    Json,
    /// Time, level, event, and `key=value`.
    Text,
}

/// Options of the log.
#[derive(clap::Args, Debug, Clone)]
pub struct LogArgs {
    /// With network interfaces: writes down what happens, a line for each event: to a file (lines are added), to
    /// standard error (`-`), or to systemd's journal (`journal`)
    #[arg(long, value_name = "FILE|-|journal")]
    log: Option<String>,
    /// How the log's lines look
    #[arg(long, value_enum, default_value_t = Format::Text, requires = "log")]
    log_format: Format,
}

impl LogArgs {
    /// The file, if it is one.
    pub fn file(&self) -> Option<&Path> {
        let to = self.log.as_deref()?;
        (to != "-" && to != "journal").then(|| Path::new(to))
    }
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// What is to be expected.
    Info,
    /// Packets are lost, or something is not as it was asked for.
    Warning,
    /// The run ends, or something was not done.
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

enum Message {
    Line(Line),
    /// All before it is written.
    Flush(SyncSender<()>),
}

/// How often an event has been told lately.
struct Told {
    left: u32,
    since: Instant,
    suppressed: u64,
}

struct Log {
    to: SyncSender<Message>,
    told: Mutex<BTreeMap<&'static str, Told>>,
}

static LOG: OnceLock<Log> = OnceLock::new();
/// What happened before there was a log, until it is known whether there is to be one.
static EARLY: Mutex<Vec<Line>> = Mutex::new(Vec::new());
/// Most of that.
const MOST_EARLY: usize = 256;

enum Output {
    Error,
    File(File, PathBuf),
    Journal(journal::Journal),
}

/// Opens the log, if there is to be one: before privilege is given up. Lines are written from [`start`] on.
///
/// # Errors
/// The file cannot be written, or there is no journal.
pub fn open(args: &LogArgs) -> Result<Option<Opened>> {
    let Some(to) = &args.log else { return Ok(None) };
    let output = match to.as_str() {
        "-" => Output::Error,
        "journal" => Output::Journal(journal::Journal::connect().context(
            "--log journal: systemd's journal is not there; name a file instead: --log FILE",
        )?),
        file => {
            let opened = File::options().append(true).create(true).open(file);
            let opened = opened.with_context(|| format!("--log {file}"))?;
            Output::File(opened, PathBuf::from(file))
        }
    };
    Ok(Some(Opened {
        output,
        format: args.log_format,
    }))
}

/// A log that nobody writes to yet.
pub struct Opened {
    output: Output,
    format: Format,
}

/// Events are written from now on, by a thread that this one makes.
///
/// # Errors
/// There is no thread to be had.
pub fn start(opened: Option<Opened>) -> Result<()> {
    let Some(Opened { output, format }) = opened else {
        return Ok(());
    };
    let (to, lines) = sync_channel(WAITING);
    let thread = std::thread::Builder::new().name("log".into());
    thread.spawn(move || write_all(output, format, &lines))?;
    let told = Mutex::new(BTreeMap::new());
    // one for the life of the process
    let _ = LOG.set(Log { to, told });
    let early = std::mem::take(&mut *EARLY.lock().unwrap_or_else(PoisonError::into_inner));
    for line in early {
        if let Some(log) = LOG.get() {
            // it is empty
            let _ = log.to.try_send(Message::Line(line));
        }
    }
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        event(Level::Error, "defect", &[("what", info.to_string().into())]);
        before(info);
    }));
    Ok(())
}

/// Is there a log?
pub fn is_on() -> bool {
    LOG.get().is_some()
}

/// Something has happened. What is called `name` is always told by these fields.
pub fn event(level: Level, name: &'static str, fields: &[(&'static str, Value)]) {
    let log = LOG.get();
    let passes = log.map_or(Some(0), |log| log.passes(name));
    let Some(suppressed) = passes else { return };
    let mut all = Map::new();
    for (k, v) in fields {
        all.insert((*k).to_string(), v.clone());
    }
    if suppressed > 0 {
        all.insert("suppressed".to_string(), suppressed.into());
    }
    let line = Line {
        at: SystemTime::now(),
        level,
        event: name,
        fields: all,
    };
    match log {
        None => {
            let mut early = EARLY.lock().unwrap_or_else(PoisonError::into_inner);
            if early.len() < MOST_EARLY {
                early.push(line);
            }
        }
        Some(log) if log.to.try_send(Message::Line(line)).is_err() => log.lost(name, suppressed),
        Some(_) => {}
    }
}

/// A run has come to its end, or has not begun: everything is written.
pub fn ended(args: &LogArgs, done: &Result<u8>) {
    match done {
        Ok(status) => {
            let status = crate::runner::status(*status);
            event(Level::Info, "exit", &[("status", status.into())]);
        }
        Err(e) => {
            let what = format!("{e:#}");
            event(Level::Error, "failed", &[("what", what.into())]);
        }
    }
    if !is_on() {
        // what kept it from beginning
        let opened = open(args).and_then(start);
        if let Err(e) = opened {
            eprintln!("warning: {e:#}");
        }
    }
    flush();
}

/// Everything that was told is written, or a second is over.
pub fn flush() {
    let Some(log) = LOG.get() else { return };
    let (done, is_done) = sync_channel(1);
    if log.to.try_send(Message::Flush(done)).is_ok() {
        // a disk that does not answer is not waited for
        let _ = is_done.recv_timeout(FLUSH);
    }
}

impl Log {
    /// May it be told now? How many of its kind were left out since the last one.
    fn passes(&self, name: &'static str) -> Option<u64> {
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KINDS && !all.contains_key(name) {
            return None;
        }
        let now = Instant::now();
        let t = all.entry(name).or_insert(Told {
            left: BURST,
            since: now,
            suppressed: 0,
        });
        let gone = now.duration_since(t.since).as_nanos() / EVERY.as_nanos();
        if gone > 0 {
            t.left = t
                .left
                .saturating_add(gone.min(u128::from(BURST)) as u32)
                .min(BURST);
            t.since = now;
        }
        match t.left.checked_sub(1) {
            Some(left) => {
                t.left = left;
                Some(std::mem::take(&mut t.suppressed))
            }
            None => {
                t.suppressed += 1;
                None
            }
        }
    }

    /// A line found no room, with what it would have told.
    fn lost(&self, name: &'static str, suppressed: u64) {
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(t) = all.get_mut(name) {
            t.suppressed += suppressed + 1;
        }
    }
}

fn write_all(mut output: Output, format: Format, lines: &Receiver<Message>) {
    let mut failed = false;
    for m in lines {
        match m {
            Message::Line(line) => {
                if let Err(e) = output.write(&line, format)
                    && !failed
                {
                    // said once: what cannot be written cannot be logged either
                    failed = true;
                    eprintln!("warning: the log{}: {e}", output.name());
                }
            }
            Message::Flush(done) => {
                // who asked may have gone
                let _ = done.try_send(());
            }
        }
    }
}

impl Output {
    fn name(&self) -> String {
        match self {
            Output::File(_, path) => format!(" {}", path.display()),
            Output::Error => String::new(),
            Output::Journal(_) => " (journal)".to_string(),
        }
    }

    fn write(&mut self, line: &Line, format: Format) -> std::io::Result<()> {
        match self {
            Output::Journal(j) => j.send(line),
            // one call for a line, so that others' lines do not come between
            Output::Error => std::io::stderr().write_all(line.text(format).as_bytes()),
            Output::File(f, _) => f.write_all(line.text(format).as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_often_is_counted() {
        let (to, _lines) = sync_channel(1);
        let log = Log {
            to,
            told: Mutex::default(),
        };
        let passed = (0..100).filter(|_| log.passes("flood").is_some()).count();
        assert_eq!(passed, BURST as usize);
        // others are not held up by it
        assert_eq!(log.passes("other"), Some(0));
        if let Some(t) = log.told.lock().unwrap().get_mut("flood") {
            t.since -= EVERY;
        }
        assert_eq!(log.passes("flood"), Some(100 - u64::from(BURST)));
        assert_eq!(log.passes("flood"), None);
        log.lost("flood", 7);
        if let Some(t) = log.told.lock().unwrap().get_mut("flood") {
            t.since -= EVERY;
        }
        assert_eq!(log.passes("flood"), Some(9));
    }
}
