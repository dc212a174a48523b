//! Several threads begin at the same time, or not at all.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What a thread hears whose others have failed: the reason is theirs to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("another worker has failed before the first packet")]
pub struct Failed;

/// A barrier that a thread which ends before it does not leave the others waiting at.
#[derive(Debug)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Threads that have not come yet.
    missing: usize,
    /// One of them never will.
    failed: bool,
}

impl Gate {
    /// For so many threads.
    pub fn new(threads: usize) -> Gate {
        let state = State {
            missing: threads,
            failed: false,
        };
        Gate {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This thread is ready; returns when all are.
    ///
    /// # Errors
    /// Another one has failed before it was.
    pub fn wait(&self) -> Result<(), Failed> {
        let mut state = self.state();
        state.missing = state.missing.saturating_sub(1);
        self.changed.notify_all();
        while state.missing > 0 && !state.failed {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        match state.missing {
            0 => Ok(()),
            _ => Err(Failed),
        }
    }

    /// A thread has failed: who waits, or will, is told.
    pub fn fail(&self) {
        self.state().failed = true;
        self.changed.notify_all();
    }
}

/// Fails a gate when it goes, by whatever end of the thread: a panic, too. A gate that all have passed does not mind.
pub struct Fails<'a>(pub &'a Gate);

impl Drop for Fails<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Three threads, the last of which does this before it would wait; what becomes of the other two.
    fn beside(last: fn(&Gate)) -> Vec<bool> {
        let gate = Arc::new(Gate::new(3));
        let thread = |act: fn(&Gate) -> Option<bool>| {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || {
                let _fails = Fails(&gate);
                act(&gate)
            })
        };
        let waits = |g: &Gate| Some(g.wait().is_ok());
        let two = [thread(waits), thread(waits)];
        let third = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || {
                let _fails = Fails(&gate);
                last(&gate);
            })
        };
        let _ = third.join();
        let ended = two.into_iter().map(|t| t.join().ok().flatten());
        ended.map(|e| e == Some(true)).collect()
    }

    #[test]
    fn all_pass_together() {
        assert_eq!(beside(|g| g.wait().unwrap()), [true, true]);
    }

    #[test]
    fn who_panics_before_it_leaves_nobody_waiting() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let ended = beside(|_| panic!("a defect"));
        std::panic::set_hook(hook);
        assert_eq!(ended, [false, false]);
    }

    #[test]
    fn who_ends_before_it_leaves_nobody_waiting() {
        assert_eq!(beside(|_| ()), [false, false]);
    }
}
