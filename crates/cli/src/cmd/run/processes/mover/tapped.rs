//! What passes a port of the chain is looked at from outside.

use super::Mover;
use crate::control::capture::Sink;
use onefold_packet::{Pkt, Timestamp};

impl Mover {
    /// What passes a port goes there, too, from now on; `None`: nobody looks any more. False: there is no such port.
    pub fn tap(&mut self, tap: Option<(String, Sink)>) -> bool {
        let known = |name: &String| self.ios.iter().any(|io| io.name == *name);
        let there = tap.as_ref().is_none_or(|(name, _)| known(name));
        self.tap = tap.filter(|_| there);
        there
    }
}

/// These packets pass a port.
#[inline]
pub(super) fn look_at(
    tap: &Option<(String, Sink)>,
    port: &str,
    direction: &'static str,
    packets: &[Pkt],
    at: Timestamp,
) {
    if let Some((name, sink)) = tap
        && name == port
    {
        sink.port(port, direction, packets, at);
    }
}
