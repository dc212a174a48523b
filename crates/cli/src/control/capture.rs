//! Packets of a running chain, as they pass: those of a port by looking at what arrives and leaves there; those that
//! are dropped for a reason, or are of a class, by taking packets one by one for as long as somebody wants them, and
//! looking at what was counted.

use super::serve::{tell, unwatch};
use super::session::{Command, Session};
use super::trace::Tracer;
use crate::counterexample::hex;
use anyhow::Result;
use onefold_control::{Failure, Kind, Matching, Stream};
use onefold_engine::shadow::Shadow;
use onefold_engine::{Executor, Graph};
use onefold_packet::{Pkt, Timestamp};
use onefold_runtime::{Clock, PortError, Sender, Step, Tap, Worker};
use serde_json::{Value, json};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Most packets that wait for the client; more are not captured, and counted.
const WAITING: usize = 4096;
/// The client is looked after so often.
const LOOK: Duration = Duration::from_millis(100);

/// A packet that was captured.
pub struct Captured {
    port: String,
    /// `in` or `out`.
    direction: &'static str,
    at: Timestamp,
    frame: Vec<u8>,
    comment: String,
}

/// Where captured packets go; those for which there is no room are counted.
#[derive(Clone)]
pub struct Sink {
    to: SyncSender<Captured>,
    missed: Arc<Mutex<u64>>,
}

impl Sink {
    /// Packets that pass a port.
    pub fn port(&self, port: &str, direction: &'static str, packets: &[Pkt], at: Timestamp) {
        for p in packets {
            self.send(Captured {
                port: port.to_string(),
                direction,
                at,
                frame: p.data().to_vec(),
                comment: format!("{port} {direction}"),
            });
        }
    }

    fn send(&self, c: Captured) {
        if let Err(TrySendError::Full(_)) = self.to.try_send(c)
            && let Ok(mut n) = self.missed.lock()
        {
            *n += 1;
        }
    }
}

/// Looks at one port.
struct PortTap {
    name: String,
    /// Its number, as the worker has it.
    port: usize,
    sink: Sink,
}

impl PortTap {
    fn all(&self, port: usize, direction: &'static str, packets: &[Pkt], at: Timestamp) {
        if port == self.port {
            self.sink.port(&self.name, direction, packets, at);
        }
    }
}

impl Tap for PortTap {
    fn received(&mut self, port: usize, packets: &[Pkt], at: Timestamp, _: &Graph) {
        self.all(port, "in", packets, at);
    }
    fn sent(&mut self, port: usize, packets: &[Pkt], at: Timestamp) {
        self.all(port, "out", packets, at);
    }
}

/// Keeps the last packet that arrived.
struct LastTap(Arc<Mutex<(Timestamp, Vec<u8>)>>);

impl Tap for LastTap {
    fn received(&mut self, _: usize, packets: &[Pkt], at: Timestamp, _: &Graph) {
        if let (Some(p), Ok(mut last)) = (packets.last(), self.0.lock()) {
            last.0 = at;
            last.1.clear();
            last.1.extend_from_slice(p.data());
        }
    }
    fn sent(&mut self, _: usize, _: &[Pkt], _: Timestamp) {}
}

/// What packets are watched for, one by one.
#[derive(Clone)]
pub enum Wanted {
    /// Drops at an element, or for a reason, with this text in it.
    Drop(String),
    /// Stage and action.
    Class(usize, usize),
}

impl Wanted {
    /// `STAGE.ACTION`.
    ///
    /// # Errors
    /// It is something else.
    pub fn class(text: &str) -> Result<Wanted, Failure> {
        let parts = text.split_once('.');
        let numbers = parts.and_then(|(s, a)| Some((s.parse().ok()?, a.parse().ok()?)));
        let (stage, action) = numbers.ok_or_else(|| {
            let text = format!("expected STAGE.ACTION, such as 0.3, found '{text}'");
            Failure::new(Kind::BadInput, text)
        })?;
        Ok(Wanted::Class(stage, action))
    }
}

/// Where packets that are as wanted go.
enum To {
    Capture(Sink),
    Trace(Tracer),
}

/// Watches packets one by one.
pub struct Watch {
    wanted: Option<Wanted>,
    last: Arc<Mutex<(Timestamp, Vec<u8>)>>,
    to: To,
}

impl Watch {
    /// Follows packets; without `wanted`, all that the tracer wants.
    pub fn traces(wanted: Option<Wanted>, tracer: Tracer) -> Watch {
        Watch {
            wanted,
            last: Arc::default(),
            to: To::Trace(tracer),
        }
    }

    /// Packets that were as wanted so far, in words what they were.
    fn counted(&self, shadow: &Shadow) -> (u64, Vec<(String, u64)>) {
        match &self.wanted {
            None => (0, Vec::new()),
            Some(Wanted::Drop(text)) => {
                let told = |d: onefold_engine::DropCount| {
                    (format!("{}: {}", d.element, d.reason), d.packets)
                };
                let all = Executor::drops(shadow).into_iter().map(told);
                let all: Vec<(String, u64)> =
                    all.filter(|(t, _)| t.contains(text.as_str())).collect();
                (all.iter().map(|(_, n)| n).sum(), all)
            }
            Some(Wanted::Class(stage, action)) => {
                let r = shadow.flow().report();
                let mine = r
                    .rules
                    .iter()
                    .filter(|r| r.stage == *stage && r.action == *action);
                (mine.map(|r| r.packets).sum(), Vec::new())
            }
        }
    }
}

/// The worker looks at a port from now on. False: there is no such port.
pub fn tap_port(worker: &mut Worker<Shadow>, port: &str, sink: Sink) -> bool {
    let at = worker.port_names().position(|n| n == port);
    if let Some(at) = at {
        let name = port.to_string();
        worker.tap(Some(Box::new(PortTap {
            name,
            port: at,
            sink,
        })));
    }
    at.is_some()
}

/// Packets are looked at one by one from now on.
pub fn tap_last(worker: &mut Worker<Shadow>, watch: &Watch) {
    let tap: Box<dyn Tap> = match (&watch.wanted, &watch.to) {
        (None, To::Trace(t)) => Box::new(t.tap(worker.port_names())),
        _ => Box::new(LastTap(watch.last.clone())),
    };
    worker.tap(Some(tap));
}

/// As [`Worker::live_step`] with a single packet, which is captured if it is as wanted.
///
/// # Errors
/// As there.
#[cold]
pub fn watched_step(
    session: &Session,
    worker: &mut Worker<Shadow>,
    clock: &Clock,
) -> std::result::Result<Option<Step>, PortError> {
    let Some(w) = &session.watch else {
        return worker.live_step(clock, 1);
    };
    let (before, told) = w.counted(worker.executor());
    let step = worker.live_step(clock, 1)?;
    let Some(taken) = step else { return Ok(None) };
    let (after, now) = w.counted(worker.executor());
    if after > before {
        let new = now
            .iter()
            .find(|(t, n)| !told.iter().any(|(u, m)| t == u && m >= n));
        let comment = match (&w.wanted, new) {
            (Some(Wanted::Drop(_)), Some((text, _))) => text.clone(),
            (Some(Wanted::Drop(text)), None) => text.clone(),
            (Some(Wanted::Class(s, a)), _) => format!("class {s}.{a}"),
            (None, _) => String::new(),
        };
        let port = worker
            .port_names()
            .nth(taken.port)
            .unwrap_or("?")
            .to_string();
        if let Ok(last) = w.last.lock() {
            match &w.to {
                To::Capture(sink) => sink.send(Captured {
                    port,
                    direction: "in",
                    at: last.0,
                    frame: last.1.clone(),
                    comment,
                }),
                To::Trace(t) => t.came(&port, (last.0, &last.1), worker.executor().graph()),
            }
        }
    }
    Ok(step)
}

/// One capture or trace at a time.
///
/// # Errors
/// Another one is under way.
pub fn alone() -> Result<MutexGuard<'static, ()>, Failure> {
    static ONE: Mutex<()> = Mutex::new(());
    let text = "another capture or trace is under way";
    ONE.try_lock().map_err(|_| Failure::new(Kind::Busy, text))
}

/// Captures until there are as many as were wanted, or the client goes.
///
/// # Errors
/// When there is no such port or class, or another capture is under way.
pub fn run(
    senders: &[Sender<Command>],
    matching: &Matching,
    count: u64,
    stream: &mut Stream<'_>,
) -> Result<Value, Failure> {
    let begin = |sink: Sink| {
        senders
            .iter()
            .try_for_each(|s| begin(s, matching, sink.clone()))
    };
    run_by(begin, || unwatch(senders), count, stream)
}

/// Captures what goes into the sink that `begin` is given, until there is as much as was wanted, or the client goes.
///
/// # Errors
/// It cannot begin, or another capture is under way.
pub fn run_by(
    begin: impl FnOnce(Sink) -> Result<(), Failure>,
    end: impl FnOnce(),
    count: u64,
    stream: &mut Stream<'_>,
) -> Result<Value, Failure> {
    let _alone = alone()?;
    let (to, captured) = sync_channel(WAITING);
    let missed = Arc::new(Mutex::new(0));
    let sink = Sink {
        to,
        missed: missed.clone(),
    };
    let sent = begin(sink).map(|()| send_all(&captured, count, stream));
    end();
    let sent = sent?;
    let missed = missed.lock().map_or(0, |n| *n);
    Ok(json!({ "packets": sent, "missed": missed }))
}

fn begin(sender: &Sender<Command>, matching: &Matching, sink: Sink) -> Result<(), Failure> {
    let wanted = match matching {
        Matching::Port(port) => {
            let (reply, answer) = sync_channel(1);
            let port = port.clone();
            let none = format!("the chain has no port '{port}'");
            tell(sender, Command::Tap { port, sink, reply })?;
            return match answer.recv_timeout(super::PATIENCE) {
                Ok(true) => Ok(()),
                Ok(false) => Err(Failure::new(Kind::BadInput, none)),
                Err(_) => Err(Failure::new(Kind::Ended, "the worker does not answer")),
            };
        }
        Matching::Drop(text) => Wanted::Drop(text.clone()),
        Matching::Class(text) => Wanted::class(text)?,
    };
    let watch = Watch {
        wanted: Some(wanted),
        last: Arc::default(),
        to: To::Capture(sink),
    };
    tell(sender, Command::Watch(Some(watch)))
}

fn send_all(captured: &Receiver<Captured>, count: u64, stream: &mut Stream<'_>) -> u64 {
    let mut sent = 0;
    while sent < count {
        match captured.recv_timeout(LOOK) {
            Ok(c) => {
                let line = json!({
                    "port": c.port,
                    "direction": c.direction,
                    "time_ns": c.at.nanos(),
                    "hex": hex(&c.frame),
                    "comment": c.comment,
                });
                if stream.send(&line).is_err() {
                    break;
                }
                sent += 1;
            }
            Err(RecvTimeoutError::Timeout) if stream.is_closed() => break,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    sent
}
