//! Progress on standard error, for whatever takes longer than two seconds at a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shown after this long.
const PATIENCE: Duration = Duration::from_secs(2);

/// A progress bar that appears when its work turns out to be long.
pub struct Progress {
    start: Instant,
    total: u64,
    bar: Option<ProgressBar>,
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
            enabled,
        }
    }

    /// So much is done; `message` is shown beside the bar.
    pub fn at(&mut self, done: u64, message: impl FnOnce() -> String) {
        if !self.enabled {
            return;
        }
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

    /// So much of so much is done.
    pub fn of(&mut self, done: u64, total: u64, message: impl FnOnce() -> String) {
        self.total = total;
        self.at(done, message);
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        if let Some(b) = self.bar.take() {
            b.finish_and_clear();
        }
    }
}
