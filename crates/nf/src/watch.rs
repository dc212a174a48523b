//! A process's bell, for one that sleeps on descriptors: a thread of its own waits for the bell in its place.

use crate::atomics::Native;
use crate::bell;
use crate::futex;
use crate::region::Region;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// See the module's text.
#[derive(Debug, Clone)]
pub struct Watch {
    region: Arc<Region>,
    me: u32,
}

impl Watch {
    /// Of process `me`.
    pub fn new(region: Arc<Region>, me: u32) -> Watch {
        Watch { region, me }
    }

    /// From here on whoever rings is heard ([`Watch::wait`]). The process must look once more before it sleeps.
    pub fn lie_down(&self) {
        if let Some(b) = self.region.nf(self.me) {
            bell::lie_down::<Native>(b.sleeping());
        }
    }

    /// The process is awake.
    pub fn get_up(&self) {
        if let Some(b) = self.region.nf(self.me) {
            bell::get_up::<Native>(b.sleeping());
        }
    }

    /// Waits until somebody rings, or the process is awake by itself, for `most`.
    pub fn wait(&self, most: Duration) {
        let Some(b) = self.region.nf(self.me) else {
            return;
        };
        if b.sleeping().load(Ordering::Acquire) == bell::ASLEEP {
            futex::wait(b.sleeping(), bell::ASLEEP, most);
        }
    }
}
