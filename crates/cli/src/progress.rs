//! Progress on standard error, for whatever takes longer than two seconds at a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Shown after this long.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time from one turn of the spinner to the next.
const TURN: Duration = Duration::from_millis(120);

/// Says what is being done, and for how long already, while nothing is known of how much is left. It ends when it is
/// dropped.
pub struct Busy(Option<(Sender<()>, JoinHandle<()>)>);

impl Busy {
    /// Silent if standard error is not a terminal or `quiet`.
    pub fn new(what: &'static str, quiet: bool) -> Busy {
        if quiet || !std::io::stderr().is_terminal() {
            return Busy(None);
        }
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            // whatever arrives, and the sender's end, says that it is over
            if ended.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(s) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
                bar.set_style(s);
            }
            bar.set_elapsed(PATIENCE);
            bar.set_message(what);
            while ended.recv_timeout(TURN) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Busy(Some((end, thread)))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            // it draws nothing after this
            let _ = thread.join();
        }
    }
}

/// A progress bar that appears when its work turns out to be long.
pub struct Progress {
    start: Instant,
    total: u64,
    bar: Option<ProgressBar>,
    /// Of work that does not say how far it is.
    phase: Option<ProgressBar>,
    enabled: bool,
}

impl Progress {
    /// Of `total` units (0: unknown); silent if standard error is not a terminal or `quiet`.
    pub fn new(total: u64, quiet: bool) -> Self {
        let enabled = !quiet && std::io::stderr().is_terminal();
        Progress {
            start: Instant::now(),
            total,
            bar: None,
            phase: None,
            enabled,
        }
    }

    /// So much is done; `message` is shown beside the bar.
    pub fn at(&mut self, done: u64, message: impl FnOnce() -> String) {
        if !self.enabled {
            return;
        }
        self.end_phase();
        if self.bar.is_none() {
            if self.start.elapsed() < PATIENCE {
                return;
            }
            let bar = ProgressBar::with_draw_target(
                Some(self.total.max(1)),
                ProgressDrawTarget::stderr(),
            );
            let template = match self.total {
                0 => "{spinner} {elapsed} {msg}",
                _ => "{bar:40} {percent:>3}% {elapsed} left {eta}  {msg}",
            };
            if let Ok(s) = ProgressStyle::with_template(template) {
                bar.set_style(s);
            }
            self.bar = Some(bar);
        }
        if let Some(b) = &self.bar {
            b.set_position(done.min(self.total.max(1)));
            b.set_message(message());
        }
    }

    /// A line that stays, above the bar where there is one; also where standard error is no terminal.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    /// So much of so much is done.
    pub fn of(&mut self, done: u64, total: u64, message: impl FnOnce() -> String) {
        self.total = total;
        self.at(done, message);
    }

    /// Work begins that does not say how far it is: from two seconds after the start on, `message` turns up beside a
    /// spinner of its own, until the next word.
    pub fn phase(&mut self, message: &'static str) {
        if !self.enabled {
            return;
        }
        self.finish();
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(s) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            spinner.set_style(s);
        }
        spinner.set_message(message);
        let (shown, wait) = (
            spinner.clone(),
            PATIENCE.saturating_sub(self.start.elapsed()),
        );
        // ends by itself after two seconds at most
        std::thread::spawn(move || {
            std::thread::sleep(wait);
            if !shown.is_finished() {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(100));
            }
        });
        self.phase = Some(spinner);
    }

    fn end_phase(&mut self) {
        if let Some(b) = self.phase.take() {
            b.finish_and_clear();
        }
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        self.end_phase();
        if let Some(b) = self.bar.take() {
            b.finish_and_clear();
        }
    }
}
