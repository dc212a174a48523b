//! How a run ends: what is under way comes out, and processes are told to end.

use super::{COMMAND, DRAIN, Mover};
use crate::cmd::run::processes::kids::Kid;
use crate::cmd::run::processes::slots;
use anyhow::Result;
use onefold_nf::{LIFE, occupancy};
use onefold_packet::Timestamp;
use std::time::{Duration, Instant};

impl Mover {
    /// No more packets go in: those that are under way come out, the clock goes on to `to`, and the processes end.
    pub(super) fn end(&mut self, to: Option<Timestamp>) -> Result<()> {
        if let Some(s) = &mut self.scheduling {
            // what is under way comes out as the kernel has it
            s.end();
        }
        self.settle(DRAIN)?;
        let [(_, advance), (_, finish), (_, stop)] = LIFE;
        for kid in 0..self.kids.len() {
            if let Some(to) = to {
                self.order(kid, advance, to)?;
            }
        }
        for kid in 0..self.kids.len() {
            self.order(kid, finish, self.now)?;
        }
        for kid in &self.kids {
            if kid.is_running() {
                kid.order(&self.region, stop, self.now);
                self.packets.seat().ring(kid.number);
            }
        }
        for kid in &mut self.kids {
            kid.end(COMMAND);
        }
        // who wants to know what has been counted hears that it has ended
        self.counting = None;
        self.beyond.end();
        self.drain()?;
        self.packets.give_up();
        self.left = self.rings.iter().map(|r| u64::from(occupancy(r))).sum();
        // handles of the launcher's own may have some still
        self.free.clear();
        self.some.clear();
        self.missing = slots::missing(&self.region, &self.launch.plan, self.packets.seat());
        for io in &mut self.ios {
            if let Some(p) = &mut io.port {
                p.finish()?;
            }
        }
        Ok(())
    }

    /// What is under way comes out; with packets in real time, as far as that takes no longer than `most`.
    fn settle(&mut self, most: Duration) -> Result<()> {
        let begun = Instant::now();
        // Bound: a chain whose processes run comes to rest; one that does not has `COMMAND`
        while begun.elapsed() < if self.launch.live { most } else { COMMAND } {
            let moved = self.drain()?;
            self.tend()?;
            let ports = self.ios.iter().filter_map(|io| io.port.as_ref());
            let backlog = ports.map(|p| p.backlog()).sum::<usize>();
            if moved == 0 && backlog == 0 && self.is_quiet() {
                break;
            }
            for p in self.ios.iter_mut().filter_map(|io| io.port.as_mut()) {
                p.flush()?;
            }
            if moved == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        Ok(())
    }

    /// A process does something, and what comes of it comes out.
    fn order(&mut self, kid: usize, what: u32, at: Timestamp) -> Result<()> {
        let Some(k) = self.kids.get(kid).filter(|k| k.is_running()) else {
            return Ok(());
        };
        let (nf, number) = (k.number, k.order(&self.region, what, at));
        self.packets.seat().ring(nf);
        let begun = Instant::now();
        loop {
            self.drain()?;
            let Some(k) = self.kids.get(kid) else { break };
            if k.has_done(&self.region, number) || begun.elapsed() > COMMAND {
                break;
            }
            self.look()?;
            if !self.kids.get(kid).is_some_and(Kid::is_running) {
                break;
            }
            std::thread::sleep(Duration::from_micros(20));
        }
        self.settle(DRAIN)
    }
}
