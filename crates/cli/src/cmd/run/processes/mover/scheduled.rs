//! A policy is told of processes and of what enters.

use super::Mover;
use crate::cmd::run::processes::scheduling::Scheduling;
use anyhow::Result;

impl Mover {
    /// A policy is at work from now on. What enters at each port is told apart for it.
    pub fn schedule(&mut self, scheduling: Scheduling) {
        let ways = scheduling.schedule().ways.iter();
        for (i, name) in ways.enumerate() {
            let io = self
                .ios
                .iter_mut()
                .find(|io| io.entry.is_some() && io.name == *name);
            if let Some(io) = io {
                io.way = Some(i);
                let class = u32::try_from(i + 1).unwrap_or(onefold_nf::NO_CLASS);
                self.packets.classify(io.entry.unwrap_or(0), class);
            }
        }
        self.scheduling = Some(scheduling);
        self.tell_processes();
    }

    /// The policy hears which processes there are.
    pub(super) fn tell_processes(&self) {
        let Some(s) = &self.scheduling else { return };
        for (nf, kid) in self.kids.iter().enumerate() {
            let running = kid.process().filter(|_| kid.is_running());
            s.schedule()
                .shared
                .set_pid(nf, running.map_or(0, |p| p.id()));
        }
    }

    /// How many more packets may go in here at present, as far as a policy has something to say of it; where it is a
    /// batch or more, it may be more than what is said.
    pub(super) fn room_at_entry(&mut self, io: usize, output: usize) -> Result<Option<usize>> {
        let way = self.ios.get(io).and_then(|io| io.way);
        let Some((way, s)) = way.zip(self.scheduling.as_ref()) else {
            return Ok(None);
        };
        let most = s.schedule().admits(way);
        if most == u32::MAX {
            return Ok(None);
        }
        if most == 0 || self.packets.backlog(output) > 0 {
            return Ok(Some(0));
        }
        let seat = self.packets.seat();
        Ok(Some(
            seat.room_below(output, most, self.batch as u32)? as usize
        ))
    }

    /// How many packets to ask a port for, `room` being what [`Mover::room_at_entry`] says; `None`: it has dropped
    /// those that came. A port that drops by itself is asked for what there is room for, and not before there is room
    /// for a quarter of a batch: who fetches packets to drop them, or two at a time, has less time for those that are
    /// let in (a function alone on its core had half of what it can do).
    pub(super) fn wanted_at_entry(&mut self, io: usize, room: Option<usize>) -> Option<usize> {
        let Some(room) = room else {
            return Some(self.batch);
        };
        let bound = (self.ios.get(io).and_then(|io| io.way))
            .zip(self.scheduling.as_ref())
            .map_or(u32::MAX, |(way, s)| s.schedule().admits(way));
        let worth = self.batch.min(bound as usize) / 4;
        if room <= worth && self.discard_at_entry(io) {
            return None;
        }
        let port = self.ios.get_mut(io).and_then(|io| io.port.as_mut());
        let by_itself = self.tap.is_none() && port.is_some_and(|p| p.discard(0).is_some());
        Some(match by_itself {
            true => self.batch.min(room),
            false => self.batch,
        })
    }

    /// None of a port's packets may go in: they are dropped by the port, if it does that, so that they cost next to
    /// nothing. Somebody who looks at what arrives is to see them.
    pub(super) fn discard_at_entry(&mut self, io: usize) -> bool {
        let left = self.limit.map_or(u64::MAX, |l| l.saturating_sub(self.came));
        let Some(io) = self.ios.get_mut(io).filter(|_| self.tap.is_none()) else {
            return false;
        };
        let Some(gone) = io.port.as_mut().and_then(|p| p.discard(left)) else {
            return false;
        };
        io.received.packets += gone.packets;
        io.received.bytes += gone.bytes;
        self.came += gone.packets;
        self.shed += gone.packets;
        if let (Some(way), Some(s)) = (io.way, &self.scheduling) {
            s.schedule().shared.count_shed(way, gone.packets);
        }
        true
    }

    /// All but the first `keep` packets of `some` are dropped where they would enter.
    pub(super) fn drop_at_entry(&mut self, io: usize, keep: usize) {
        let n = self.some.len().saturating_sub(keep) as u64;
        if n == 0 {
            return;
        }
        self.came += n;
        self.shed += n;
        let way = self.ios.get(io).and_then(|io| io.way);
        if let (Some(way), Some(s)) = (way, &self.scheduling) {
            s.schedule().shared.count_shed(way, n);
        }
        for mut p in self.some.drain(keep..) {
            if p.is_borrowed() {
                drop(p.detach());
            }
            self.free.push(p);
        }
    }
}
