//! A request from outside to come to an end.

use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that somebody may set (Ctrl-C); what takes long asks for it between two pieces of its work. By default there
/// is none, and nobody ever asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stop(Option<&'static AtomicBool>);

impl Stop {
    /// When this becomes true.
    pub fn when(flag: &'static AtomicBool) -> Stop {
        Stop(Some(flag))
    }

    /// Is it to end now?
    pub fn asked(self) -> bool {
        self.0.is_some_and(|f| f.load(Ordering::Relaxed))
    }
}
