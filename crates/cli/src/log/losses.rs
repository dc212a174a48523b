//! What ports have lost since the last look.

use super::{Level, event, is_on};
use onefold_runtime::{LiveReport, Loss, PortState};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Ports are looked at so often.
const EVERY: Duration = Duration::from_secs(1);

/// What is looked at of a port.
pub struct Look<'a> {
    name: &'a str,
    losses: Vec<Loss>,
    counters: Vec<(&'static str, u64)>,
}

impl<'a> From<PortState<'a>> for Look<'a> {
    fn from(p: PortState<'a>) -> Self {
        Look {
            name: p.name,
            losses: p.losses,
            counters: p.counters,
        }
    }
}

impl<'a> From<&'a LiveReport> for Look<'a> {
    fn from(p: &'a LiveReport) -> Self {
        Look {
            name: &p.name,
            losses: p.losses.clone(),
            counters: p.counters.clone(),
        }
    }
}

/// What was lost until the last look, by port and reason.
#[derive(Debug, Default)]
pub struct Losses {
    looked: Option<Instant>,
    before: BTreeMap<(String, String), u64>,
}

impl Losses {
    /// Is there a log, and a second over since the last look?
    pub fn is_time(&self) -> bool {
        is_on() && self.looked.is_none_or(|t| t.elapsed() >= EVERY)
    }

    /// Tells of what was lost since the last time.
    pub fn look<'a>(&mut self, ports: impl Iterator<Item = impl Into<Look<'a>>>) {
        self.looked = Some(Instant::now());
        for p in ports {
            let Look {
                name,
                losses,
                counters,
            } = p.into();
            for l in losses {
                self.tell("lost", name, l.reason, l.packets);
            }
            // frames that had to be copied, since packets inside the chain have all others
            for (what, packets) in counters.into_iter().filter(|c| c.0.contains("few free")) {
                self.tell("pool-starved", name, what, packets);
            }
        }
    }

    fn tell(&mut self, event_name: &'static str, port: &str, reason: &str, packets: u64) {
        let key = (port.to_string(), reason.to_string());
        let before = self.before.entry(key).or_default();
        let new = packets.saturating_sub(*before);
        *before = packets;
        if new > 0 {
            let fields = [
                ("port", port.into()),
                ("reason", reason.into()),
                ("packets", new.into()),
            ];
            event(Level::Warning, event_name, &fields);
        }
    }
}
