//! A group of flows while it runs: what one worker has besides its thread. It belongs to one thread at a time, with all
//! that its packets ask for: a graph, a program, a flow table, NAT ports, counters and the queues of the dispatcher.

use super::dispatch::{End, Ends};
use super::{Ended, Ready};
use crate::control::Session;
use crate::deploy::Renewal;
use crate::history;
use crate::live::{self, Stage};
use crate::log::Losses;
use crate::runner::{self, Plan};
use crate::shadow::ShadowLog;
use anyhow::Result;
use onefold_chain::Chain;
use onefold_engine::Executor;
use onefold_engine::shadow::Shadow;
use onefold_runtime::{Clock, Worker};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a look at a group has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// So many packets were taken.
    Took(usize),
    /// There were none.
    Nothing,
    /// There were none, and no more come.
    Over,
}

/// See the module's text.
pub struct Group {
    /// Its number, which is its packets' part of the partition.
    pub number: usize,
    pub worker: Worker<Shadow>,
    pub session: Session,
    chain: Arc<Chain>,
    renewal: Renewal,
    log: ShadowLog,
    plan: Plan,
    /// What of its ports' losses the log knows.
    losses: Losses,
    /// As long as it is there, the others go on.
    ends: Ends,
    /// How far it is with ending.
    stage: Stage,
    /// There is to be a program, and there was one in the beginning.
    synthesized: bool,
    with_program: bool,
    begun: Instant,
    /// What its packets had cost when its processor time was counted last.
    counted: Duration,
}

impl Group {
    /// Of what was prepared, at its end of the dispatcher's queues.
    ///
    /// # Errors
    /// When it is not a group of network interfaces.
    pub fn new(number: usize, ready: Ready, end: End) -> Result<Group> {
        let Ready {
            chain,
            executor,
            made: _,
            renewal,
            log,
            session,
            mut plan,
        } = ready;
        let ends = end.attach(&mut plan);
        let worker = runner::open(&chain, executor, &mut plan)?;
        let Some(session) = session else {
            anyhow::bail!("group {number} has no interfaces");
        };
        let mut worker = worker;
        let synthesized = !worker.executor().needs_program();
        Ok(Group {
            number,
            worker,
            session,
            chain,
            renewal,
            log,
            plan,
            losses: Losses::default(),
            ends,
            stage: Stage::Receiving,
            synthesized,
            with_program: synthesized,
            begun: Instant::now(),
            counted: Duration::ZERO,
        })
    }

    /// Its ports are there.
    ///
    /// # Errors
    /// One is not.
    pub fn start(&mut self, clock: &Clock) -> Result<()> {
        Ok(self.worker.start(clock.now())?)
    }

    /// From now on packets come.
    pub fn begin(&mut self) {
        self.worker.wake_by(self.session.wakes());
        self.session.begin_alerts(&mut self.worker);
        self.session.begin();
        self.session.count_cpu(0.0);
        self.begun = Instant::now();
        history::begin(&mut self.plan.history, self.plan.clock.now());
    }

    /// A batch, if there is one; commands before it.
    ///
    /// # Errors
    /// When something cannot be written.
    #[inline]
    pub fn turn(&mut self, clock: &Clock) -> Result<Turn> {
        // before the last look at the queues
        let over = self.stage.ends(self.ends.team(), &mut self.worker);
        let how = (&mut self.renewal, &mut self.plan.offloads);
        let (worker, session, log) = (&mut self.worker, &mut self.session, &mut self.log);
        live::between(worker, how, log, Some(session), &mut self.synthesized)?;
        match live::step(worker, clock, usize::MAX, Some(session))? {
            Some(step) => {
                live::taken(worker, &step, log)?;
                Ok(Turn::Took(step.packets))
            }
            None if over && !worker.has_more() => Ok(Turn::Over),
            None => Ok(Turn::Nothing),
        }
    }

    /// What is due without packets takes place.
    ///
    /// # Errors
    /// When something cannot be written.
    #[inline]
    pub fn idle(&mut self, clock: &Clock) -> Result<()> {
        Ok(self.worker.idle(clock)?)
    }

    /// Looks after its ports. True: the chain wants to end.
    pub fn look_after(&mut self) -> bool {
        let (plan, session) = (&mut self.plan, Some(&self.session));
        live::look_after(&mut self.worker, &plan.live_plan, session);
        history::attend(&mut plan.history, &plan.clock, &mut self.worker, session);
        if self.losses.is_time() {
            self.losses.look(self.worker.states());
        }
        self.worker.executor().graph().stop_requested()
    }

    /// What its packets have cost since this was asked last.
    pub fn cost(&mut self) -> Duration {
        let spent = self.session.load.spent();
        let before = std::mem::replace(&mut self.counted, spent);
        spent.saturating_sub(before)
    }

    /// No more packets come.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn end(mut self, thread: usize, core: Option<usize>) -> Result<Ended> {
        live::drain(&mut self.worker)?;
        self.losses.look(self.worker.states());
        let (seconds, cpu) = (
            self.begun.elapsed().as_secs_f64(),
            self.session.cpu_seconds(),
        );
        let outcome = runner::close(
            &mut self.worker,
            &self.chain,
            &self.plan,
            (&mut self.renewal, &mut self.log),
            Some(&mut self.session),
            (|| (seconds, cpu), false, self.with_program),
        )?;
        self.log.finish()?;
        let Session {
            chain,
            made,
            earlier,
            ..
        } = self.session;
        Ok(Ended {
            chain,
            made: self.renewal.latest().or(made),
            earlier: (earlier.compared, earlier.mismatches),
            runner: self.worker.into_executor(),
            renewal: self.renewal,
            log: self.log,
            outcome,
            core,
            number: self.number,
            thread,
        })
    }
}
