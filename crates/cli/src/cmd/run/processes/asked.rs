//! A running chain whose functions are processes is asked from outside: how it stands, which policy schedules it, which
//! packets pass its ports, and to stop. Who moves packets answers between two batches.

use super::counted::Whole;
use super::mover::Mover;
use super::report;
use super::scheduling::Schedule;
use crate::cmd::run::Args;
use crate::control::{self, capture};
use anyhow::{Context, Result};
use onefold_chain::Chain;
use onefold_control::{Failure, Handler, Kind, Matching, Request, Server, Stream};
use serde_json::{Value, json};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Most that is asked at a time.
const MOST: usize = 16;

/// What is asked of who moves packets.
enum What {
    Status,
    /// What each process has counted: a list.
    Counted,
    Stop,
    /// What passes this port goes there, too; `None`: nobody looks any more.
    Tap(Option<(String, capture::Sink)>),
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
            What::Counted => return mover.count(self.reply),
            What::Stop => {
                mover.stopped = true;
                json!({ "stopping": true })
            }
            What::Tap(tap) => mover.tap(tap).into(),
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
pub fn start(args: &Args, chain: &Chain, mover: &mut Mover) -> Result<Option<Server>> {
    let name = chain.name.as_str();
    let Some(mut server) = control::bind(args.control(), name, args.is_quiet())? else {
        return Ok(None);
    };
    let (ask, waiting) = sync_channel(MOST);
    mover.questions = Some(Questions {
        waiting,
        mode: args.mode(),
        name: server.name().unwrap_or(name).to_string(),
        chain: name.to_string(),
        socket: server.path().display().to_string(),
    });
    let answers = Answers {
        ask,
        event: mover.event().map(OwnedFd::try_clone).transpose()?,
        schedule: mover.scheduling.as_ref().map(|s| s.schedule().clone()),
        whole: Whole::new(args, chain),
    };
    let handler: Arc<Handler> = Arc::new(move |r, stream| answers.answer(&r, stream));
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
    whole: Whole,
}

impl Answers {
    fn answer(&self, request: &Request, stream: &mut Stream<'_>) -> Result<Value, Failure> {
        match request {
            Request::Status { rules: false, .. } => self.ask(What::Status),
            Request::Status { rules: true, .. } => {
                let mut v = self.ask(What::Status)?;
                let said = self.ask(What::Counted)?;
                let counts = self.whole.counts(said.as_array().into_iter().flatten());
                if let Some(all) = v.as_object_mut() {
                    counts.json(&self.whole.found(&counts), all);
                }
                Ok(v)
            }
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
            Request::Capture {
                matching: Matching::Port(port),
                count,
            } => self.capture(port, *count, stream),
            other => Err(Failure::new(Kind::Unsupported, why_not(other))),
        }
    }

    /// Packets that pass a port, by who moves them.
    fn capture(&self, port: &str, count: u64, stream: &mut Stream<'_>) -> Result<Value, Failure> {
        let begin = |sink| match self.ask(What::Tap(Some((port.to_string(), sink))))? {
            Value::Bool(true) => Ok(()),
            _ => {
                let none = format!("the chain has no port '{port}'");
                Err(Failure::new(Kind::BadInput, none))
            }
        };
        // one that has ended looks at nothing
        let end = || drop(self.ask(What::Tap(None)));
        capture::run_by(begin, end, count, stream)
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

/// Why such a chain does not do that, and what to do instead.
fn why_not(request: &Request) -> &'static str {
    match request {
        Request::Reload { .. } => {
            "functions in processes keep what they know to themselves, which nobody can hand on to another chain: \
             end the run and start it again"
        }
        Request::Edit { .. } => {
            "a rule, route or backend is changed in a copy of the whole chain, which functions in processes do not \
             have: change the chain file, end the run and start it again"
        }
        Request::Capture { .. } => {
            "what becomes of a packet within a function is known in its process only: capture by --port"
        }
        Request::Trace(_) => {
            "packets are followed through a copy of the whole chain, which functions in processes do not have: \
             capture by --port, and 'onefold trace CHAIN --in PORT=FILE#N' with the functions inline"
        }
        Request::Scale { .. } => {
            "its functions are processes, each of one thread: there are no workers"
        }
        Request::Status { .. } | Request::Schedule { .. } | Request::Stop => "it is answered",
    }
}
