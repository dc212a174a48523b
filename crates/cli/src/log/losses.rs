//! What ports have lost since the last look.

use super::{Level, event, is_on};
use onefold_engine::shadow::Shadow;
use onefold_runtime::Worker;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Ports are looked at so often.
const EVERY: Duration = Duration::from_secs(1);

/// What was lost until the last look, by port and reason.
#[derive(Debug, Default)]
pub struct Losses {
    looked: Option<Instant>,
    before: BTreeMap<(String, String), u64>,
}

impl Losses {
    /// Looks once a second, if there is a log.
    pub fn attend(&mut self, worker: &Worker<Shadow>) {
        if !is_on() || self.looked.is_some_and(|t| t.elapsed() < EVERY) {
            return;
        }
        self.look(worker);
    }

    /// Tells of what was lost since the last time.
    pub fn look(&mut self, worker: &Worker<Shadow>) {
        self.looked = Some(Instant::now());
        let mut now = Vec::new();
        for p in worker.states() {
            let lost = p.losses.iter();
            now.extend(lost.map(|l| ("lost", p.name.to_string(), l.reason.to_string(), l.packets)));
            // frames that had to be copied, since packets inside the chain have all others
            let starved = p
                .counters
                .iter()
                .filter(|(what, _)| what.contains("few free"));
            now.extend(
                starved
                    .map(|(what, n)| ("pool-starved", p.name.to_string(), (*what).to_string(), *n)),
            );
        }
        for (name, port, reason, packets) in now {
            let before = self
                .before
                .entry((port.clone(), reason.clone()))
                .or_default();
            let new = packets.saturating_sub(*before);
            *before = packets;
            if new > 0 {
                let fields = [
                    ("port", port.into()),
                    ("reason", reason.into()),
                    ("packets", new.into()),
                ];
                event(Level::Warning, name, &fields);
            }
        }
    }
}
