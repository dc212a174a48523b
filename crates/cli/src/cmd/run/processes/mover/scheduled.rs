//! A policy is told of processes and of what enters.

use super::Mover;
use crate::cmd::run::processes::scheduling::Scheduling;

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

    /// Is what enters here dropped at present?
    pub(super) fn sheds(&self, io: usize) -> bool {
        let way = self.ios.get(io).and_then(|io| io.way);
        let schedule = self.scheduling.as_ref().map(Scheduling::schedule);
        way.zip(schedule).is_some_and(|(way, s)| s.sheds(way))
    }

    /// What is in `some` is dropped where it would enter.
    pub(super) fn drop_at_entry(&mut self, io: usize) {
        let n = self.some.len() as u64;
        self.came += n;
        self.shed += n;
        let way = self.ios.get(io).and_then(|io| io.way);
        if let (Some(way), Some(s)) = (way, &self.scheduling) {
            s.schedule().shared.count_shed(way, n);
        }
        for p in self.some.iter_mut().filter(|p| p.is_borrowed()) {
            drop(p.detach());
        }
        self.free.append(&mut self.some);
    }
}
