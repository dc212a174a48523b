//! A running chain whose functions are processes is asked from outside: how it stands, which policy schedules it, and
//! to stop. Who moves packets answers between two batches.

use super::mover::Mover;
use super::report;
use super::scheduling::Schedule;
use crate::cmd::run::Args;
use crate::control;
use anyhow::{Context, Result};
use onefold_control::{Failure, Handler, Kind, Request, Server, Stream};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Most that is asked at a time.
const MOST: usize = 16;

/// What is asked of who moves packets.
#[derive(Debug, Clone, Copy)]
enum What {
    Status,
    Stop,
}

/// A question, and where the answer goes.
pub struct Question {
    what: What,
    reply: SyncSender<Value>,
}

/// Questions that wait.
pub struct Questions {
    waiting: Receiver<Question>,
    mode: crate::cmd::run::Mode,
    name: String,
    chain: String,
    socket: String,
}

impl Questions {
    /// The next one.
    pub fn next(&self) -> Option<Question> {
        self.waiting.try_recv().ok()
    }
}

impl Question {
    /// Answers it.
    pub fn answer(self, mover: &mut Mover) {
        let answer = match self.what {
            What::Status => status(mover),
            What::Stop => {
                mover.stopped = true;
                json!({ "stopping": true })
            }
        };
        // who asked may have gone
        let _ = self.reply.try_send(answer);
    }
}

/// How it stands.
fn status(mover: &Mover) -> Value {
    let Some(q) = &mover.questions else {
        return Value::Null;
    };
    let mut v = report::json(q.mode, mover, mover.so_far());
    if let Some(all) = v.as_object_mut() {
        // packets under way are neither dropped nor out
        all.remove("conserved");
        all.insert("name".into(), q.name.as_str().into());
        all.insert("pid".into(), std::process::id().into());
        all.insert("socket".into(), q.socket.as_str().into());
        all.insert("chain".into(), q.chain.as_str().into());
    }
    v
}

/// Listens from now on, until what comes back is dropped.
///
/// # Errors
/// A socket that was asked for cannot be had.
pub fn start(args: &Args, chain: &str, mover: &mut Mover) -> Result<Option<Server>> {
    let Some(mut server) = control::bind(args.control(), chain, args.is_quiet())? else {
        return Ok(None);
    };
    let (ask, waiting) = sync_channel(MOST);
    mover.questions = Some(Questions {
        waiting,
        mode: args.mode(),
        name: server.name().unwrap_or(chain).to_string(),
        chain: chain.to_string(),
        socket: server.path().display().to_string(),
    });
    let answers = Answers {
        ask,
        event: mover.event().map(OwnedFd::try_clone).transpose()?,
        schedule: mover.scheduling.as_ref().map(|s| s.schedule().clone()),
    };
    let handler: Arc<Handler> = Arc::new(move |r, _: &mut Stream<'_>| answers.answer(&r));
    server
        .serve(handler)
        .context("a thread for the control socket")?;
    Ok(Some(server))
}

struct Answers {
    ask: SyncSender<Question>,
    /// Wakes who moves packets.
    event: Option<OwnedFd>,
    schedule: Option<Schedule>,
}

impl Answers {
    fn answer(&self, request: &Request) -> Result<Value, Failure> {
        match request {
            Request::Status { .. } => self.ask(What::Status),
            Request::Stop => self.ask(What::Stop),
            Request::Schedule { policy } => {
                let none = || Failure::new(Kind::Ended, "no policy is at work");
                let schedule = self.schedule.as_ref().ok_or_else(none)?;
                if let Some(policy) = policy {
                    schedule.ask(policy)?;
                }
                let mut v = self.ask(What::Status)?;
                Ok(v.get_mut("schedule").map(Value::take).unwrap_or_default())
            }
            _ => Err(Failure::new(
                Kind::Unsupported,
                "chains with functions in processes of their own (run: process) answer status, schedule and stop; \
                 this is not there yet",
            )),
        }
    }

    fn ask(&self, what: What) -> Result<Value, Failure> {
        let (reply, answer) = sync_channel(1);
        let busy = || Failure::new(Kind::Busy, "too much is asked at a time");
        self.ask
            .try_send(Question { what, reply })
            .map_err(|_| busy())?;
        if let Some(event) = &self.event {
            // a counter that is full is readable, too
            let _ = nix::unistd::write(event, &1u64.to_ne_bytes());
        }
        let answer = answer.recv_timeout(control::PATIENCE);
        answer.map_err(|_| Failure::new(Kind::Ended, "the chain does not answer"))
    }
}
