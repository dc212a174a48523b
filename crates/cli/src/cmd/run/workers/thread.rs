//! Threads that take packets of the groups that they have, one batch of each in turn. Between two rounds a thread gives
//! groups away, or takes some: what moves is who owns a group, and nothing is copied. A group's packets wait in its own
//! queues meanwhile, so that none overtakes another one.

use super::group::{Group, Turn};
use super::{Ended, merge};
use crate::gate::{Fails, Gate};
use crate::runner;
use crate::sandbox;
use crate::service::Manager;
use anyhow::Result;
use onefold_runtime::{
    Clock, Ending, Load, LoadReport, Mailbox, Polling, Rhythm, Sender, wait_for_any,
};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// While packets come, what groups do without packets is looked at once in so many rounds.
const IDLE_EVERY: u32 = 16;

/// What a thread is told to do.
pub enum Order {
    /// These groups go to another thread.
    Give {
        /// Their numbers.
        groups: Vec<usize>,
        /// Who gets them.
        to: Sender<Order>,
        /// Who waits for it.
        reply: SyncSender<Duration>,
    },
    /// These come.
    Take {
        /// The groups.
        groups: Vec<Group>,
        /// Nobody has had them since.
        since: Instant,
        /// Who waits for it: for how long nobody had them.
        reply: SyncSender<Duration>,
    },
}

/// How a thread stands, as far as others are told.
#[derive(Debug, Clone, Default)]
pub struct Metered {
    /// How busy it is.
    pub load: LoadReport,
    /// Seconds for which it was executed.
    pub cpu_seconds: f64,
    /// The core that it is executed on, if there is one of its own.
    pub core: Option<usize>,
    /// Groups that it has, with what their packets have cost so far.
    pub groups: Vec<(usize, Duration)>,
}

/// Where a thread says how it stands, ten times a second.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Metered>);

impl Meter {
    /// The last that it has said.
    pub fn read(&self) -> Metered {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
    fn write(&self, m: Metered) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = m;
    }
}

/// What all threads of a run have in common.
#[derive(Clone)]
pub struct Common {
    pub clock: Clock,
    pub polling: Polling,
    /// Nobody takes packets before all are ready.
    pub begin: Arc<Gate>,
    pub ending: Arc<Ending>,
    /// Groups that have not ended, and the dispatcher.
    pub alive: Weak<()>,
}

/// See the module's text.
pub struct Thread {
    number: usize,
    common: Common,
    core: Option<usize>,
    groups: Vec<Group>,
    ended: Vec<Ended>,
    mailbox: Mailbox<Order>,
    meter: Arc<Meter>,
    load: Load,
    rounds: u32,
    /// Processor time when it began, and when it was counted last.
    cpu: (f64, f64),
}

impl Thread {
    /// With these groups, on this core if there is one.
    pub fn new(
        number: usize,
        common: Common,
        core: Option<usize>,
        groups: Vec<Group>,
        (mailbox, meter): (Mailbox<Order>, Arc<Meter>),
    ) -> Thread {
        Thread {
            number,
            common,
            core,
            groups,
            ended: Vec::new(),
            mailbox,
            meter,
            load: Load::default(),
            rounds: 0,
            cpu: (0.0, 0.0),
        }
    }

    /// Takes packets until no more come to any group.
    ///
    /// # Errors
    /// When something cannot be written, or another thread has failed before the first packet.
    pub fn run(mut self) -> Result<Vec<Ended>> {
        let begin = Arc::clone(&self.common.begin);
        let _fails = Fails(&begin);
        self.core = self.core.filter(|c| merge::pin(*c));
        for g in &mut self.groups {
            g.start(&self.common.clock)?;
        }
        begin.wait()?;
        let mut manager = Manager::of_environment();
        manager.ready();
        let now = runner::thread_seconds();
        (self.cpu, self.load) = ((now, now), Load::default());
        self.groups.iter_mut().for_each(Group::begin);
        let mut rhythm = Rhythm::new(self.common.polling);
        self.publish();
        loop {
            while let Some(order) = self.mailbox.take() {
                self.obey(order);
            }
            let sample = self.load.sample();
            let packets = self.round()?;
            let attend = match packets {
                0 if self.is_over() => break,
                0 => self.rest(&mut rhythm)?,
                _ => {
                    self.load.worked(packets, sample);
                    rhythm.busy()
                }
            };
            if attend {
                manager.alive();
                self.attend();
            }
        }
        manager.ends();
        self.publish();
        Ok(self.ended)
    }

    /// A batch of each group. How many packets they were.
    #[inline]
    fn round(&mut self) -> Result<usize> {
        let (mut packets, mut i) = (0, 0);
        self.rounds = self.rounds.wrapping_add(1);
        while let Some(g) = self.groups.get_mut(i) {
            match g.turn(&self.common.clock)? {
                Turn::Took(n) => packets += n,
                Turn::Nothing => {}
                Turn::Over => {
                    self.count();
                    let group = self.groups.remove(i);
                    self.ended.push(group.end(self.number, self.core)?);
                    continue;
                }
            }
            i += 1;
        }
        // timers of one group do not wait for ever for another one's packets
        if packets == 0 || self.rounds.is_multiple_of(IDLE_EVERY) {
            for g in &mut self.groups {
                g.idle(&self.common.clock)?;
            }
        }
        Ok(packets)
    }

    /// No group has any packets: sleeps, if it is time to. Is it time to look after the ports?
    fn rest(&mut self, rhythm: &mut Rhythm) -> Result<bool> {
        let idle = rhythm.idle();
        self.is_idle(idle.now);
        if self.common.ending.is_over() {
            // somebody else's groups are ending, or on their way
            std::thread::sleep(Duration::from_millis(1));
        } else if let Some(p) = idle.pause {
            std::thread::sleep(p);
            self.is_idle(Instant::now());
        } else if idle.sleep || self.groups.is_empty() {
            let mut workers: Vec<_> = self.groups.iter_mut().map(|g| &mut g.worker).collect();
            let wakes = self.mailbox.wakes();
            wait_for_any(&mut workers, &self.common.clock, Some(&wakes))?;
            self.is_idle(Instant::now());
        }
        Ok(idle.attend)
    }

    fn is_idle(&mut self, now: Instant) {
        self.load.idle(now);
        for g in &mut self.groups {
            g.session.load.idle(now);
        }
    }

    /// No more packets come, and no group that is on its way either.
    fn is_over(&self) -> bool {
        let last = || self.groups.is_empty() && self.common.alive.strong_count() <= 1;
        self.common.ending.is_over() && last()
    }

    fn attend(&mut self) {
        for g in &mut self.groups {
            if g.look_after() {
                self.common.ending.ask();
            }
        }
        sandbox::attend();
        self.publish();
    }

    /// Divides the processor time since the last time among the groups, by what their packets have cost.
    fn count(&mut self) {
        let now = runner::thread_seconds();
        let used = now - std::mem::replace(&mut self.cpu.1, now);
        let costs: Vec<f64> = self
            .groups
            .iter_mut()
            .map(|g| g.cost().as_secs_f64())
            .collect();
        let all: f64 = costs.iter().sum();
        for (g, cost) in self.groups.iter_mut().zip(&costs) {
            let share = match all > 0.0 {
                true => cost / all,
                false => 1.0 / costs.len() as f64,
            };
            g.session.count_cpu(used * share);
        }
    }

    fn publish(&mut self) {
        self.count();
        let groups = self.groups.iter();
        self.meter.write(Metered {
            load: self.load.report(),
            cpu_seconds: self.cpu.1 - self.cpu.0,
            core: self.core,
            groups: groups.map(|g| (g.number, g.session.load.spent())).collect(),
        });
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Give { groups, to, reply } => {
                self.count();
                let (gone, stay) = std::mem::take(&mut self.groups)
                    .into_iter()
                    .partition(|g| groups.contains(&g.number));
                self.groups = stay;
                let since = Instant::now();
                let groups = gone;
                // a thread that has failed takes the run with it: groups that nobody has end it, too
                let _ = to.send(Order::Take {
                    groups,
                    since,
                    reply,
                });
                self.publish();
            }
            Order::Take {
                groups,
                since,
                reply,
            } => {
                self.count();
                self.groups.extend(groups);
                self.groups.sort_by_key(|g| g.number);
                // who asked may have gone
                let _ = reply.try_send(since.elapsed());
                self.publish();
            }
        }
    }
}
