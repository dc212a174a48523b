//! `onefold trace --live`: the next packets that are as wanted are followed through copies of the graph that they met,
//! in the thread that was asked; they themselves go their way.
//!
//! A worker that is asked takes packets one by one meanwhile. A packet that is wanted for where it arrives and what
//! is in it meets the copy in the state that it met the graph in. Whether a packet is dropped for some reason, or of
//! some class, is known when it is through: the copy is then of the graph behind it, which is told.

use super::capture::{Wanted, Watch, alone};
use super::serve::{snapshot, tell, unwatch};
use super::session::Command;
use crate::cmd::trace::{Copied, copied};
use onefold_control::{Failure, Kind, Stream, Tracing};
use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::{Pkt, Timestamp};
use onefold_runtime::{Sender, Tap};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Most packets that one request follows.
const MOST: u64 = 10_000;
/// Most copies of graphs that wait to be followed; the next packets go by meanwhile.
const WAITING: u64 = 8;
/// The client is looked after so often.
const LOOK: Duration = Duration::from_millis(100);

/// A packet, and a copy of the graph.
struct Met {
    port: String,
    at: Timestamp,
    frame: Vec<u8>,
    graph: Graph,
}

/// Makes copies for packets that are wanted, as long as some are.
#[derive(Clone)]
pub struct Tracer {
    port: Option<String>,
    filter: Option<Arc<Mutex<Filter>>>,
    /// Packets that are still wanted.
    left: Arc<AtomicU64>,
    /// Copies that nobody has followed yet.
    waiting: Arc<AtomicU64>,
    to: SyncSender<Met>,
}

impl Tracer {
    fn wants(&self, port: &str, frame: &[u8]) -> bool {
        let here = self.port.as_ref().is_none_or(|p| p == port);
        let open = self.left.load(Ordering::Relaxed) > 0;
        let room = self.waiting.load(Ordering::Relaxed) < WAITING;
        here && open
            && room
            && self.filter.as_ref().is_none_or(|f| {
                // whoever failed with it has told why
                f.lock().is_ok_and(|mut f| f.matches(frame))
            })
    }

    /// A packet has come, and meets this graph.
    pub fn came(&self, port: &str, (at, frame): (Timestamp, &[u8]), graph: &Graph) {
        if !self.wants(port, frame) {
            return;
        }
        let met = Met {
            port: port.to_string(),
            at,
            frame: frame.to_vec(),
            graph: graph.fork(),
        };
        self.left.fetch_sub(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // there is room for all that wait
        let _ = self.to.try_send(met);
    }

    /// Looks at what arrives at these ports.
    pub fn tap<'a>(&self, ports: impl Iterator<Item = &'a str>) -> TracerTap {
        TracerTap {
            tracer: self.clone(),
            ports: ports.map(str::to_string).collect(),
        }
    }
}

/// A tracer, and the names of the worker's ports.
pub struct TracerTap {
    tracer: Tracer,
    ports: Vec<String>,
}

impl Tap for TracerTap {
    fn received(&mut self, port: usize, packets: &[Pkt], at: Timestamp, graph: &Graph) {
        let name = self.ports.get(port).map_or("?", String::as_str);
        // one by one, or it would not be the first one's graph that the others meet
        for p in packets.iter().take(1) {
            self.tracer.came(name, (at, p.data()), graph);
        }
    }
    fn sent(&mut self, _: usize, _: &[Pkt], _: Timestamp) {}
}

/// Says which packets a firewall's rule would match: a graph of such an element, for IPv4, for IPv6, or both.
struct Filter {
    graph: Graph,
    source: ElemId,
}

impl Filter {
    fn new(expression: &str) -> Result<Filter, Failure> {
        // an expression, and nothing else of a configuration
        if expression.contains([',', ';', '{', '}', '[', ']', '"', '#', '\\']) {
            let text = format!(
                "the filter '{expression}' is no expression, such as `src host 10.0.0.1 && tcp`"
            );
            return Err(Failure::new(Kind::BadInput, text));
        }
        let rule = |class: &str| format!("{class}(allow {expression}, deny all)");
        let (v4, v6) = (rule("IPFilter"), rule("IP6Filter"));
        // what one family's rules cannot say, the other's may
        let (mut made, mut error) = (None, None);
        for (four, six) in [(Some(&v4), Some(&v6)), (Some(&v4), None), (None, Some(&v6))] {
            match Filter::build(four, six) {
                Ok(f) => {
                    made = Some(f);
                    break;
                }
                Err(e) => error = error.or(Some(e)),
            }
        }
        made.ok_or_else(|| {
            let why = error.unwrap_or_default();
            Failure::new(Kind::BadInput, format!("the filter '{expression}': {why}"))
        })
    }

    fn build(four: Option<&String>, six: Option<&String>) -> Result<Filter, String> {
        let way = |n: usize, check: &str, filter: Option<&String>| match filter {
            Some(f) => format!("c[{n}] -> Strip(14) -> {check} -> {f} -> out;\n"),
            None => format!("c[{n}] -> Discard;\n"),
        };
        let config = format!(
            "FromDevice(in) -> c :: Classifier(12/0800, 12/86dd, -); c[2] -> Discard; out :: ToDevice(out);\n{}{}",
            way(0, "CheckIPHeader", four),
            way(1, "CheckIP6Header", six)
        );
        let flat = onefold_click::load(config.as_bytes(), "filter", &[], &Default::default());
        let flat = flat.map_err(|all| all.first().map_or(String::new(), |d| d.message.clone()))?;
        let graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default());
        let graph = graph.map_err(|e| e.0.first().map_or(String::new(), |d| d.message.clone()))?;
        let source = graph.source("in").ok_or("no source")?;
        Ok(Filter { graph, source })
    }

    fn matches(&mut self, frame: &[u8]) -> bool {
        self.graph.inject(self.source, frame, Timestamp::ZERO);
        let mut left = false;
        self.graph.drain_transmitted(|_, _| left = true);
        left
    }
}

/// Follows packets until there are as many as were wanted, or the client goes.
///
/// # Errors
/// There is no such port or class, the filter is none, or another capture or trace is under way.
pub fn run(
    senders: &[Sender<Command>],
    wanted: &Tracing,
    stream: &mut Stream<'_>,
) -> Result<Value, Failure> {
    let _alone = alone()?;
    let seen = match (&wanted.drop, &wanted.class) {
        (Some(_), Some(_)) => {
            let text = "a drop reason or a class, not both";
            return Err(Failure::new(Kind::BadRequest, text));
        }
        (Some(text), None) => Some(Wanted::Drop(text.clone())),
        (None, Some(class)) => Some(Wanted::class(class)?),
        (None, None) => None,
    };
    let filter = wanted.filter.as_deref().map(Filter::new).transpose()?;
    let first = senders.first();
    let none = || Failure::new(Kind::Ended, "there is no worker");
    let chain = snapshot(first.ok_or_else(none)?, false)?.chain;
    if let Some(p) = &wanted.port
        && chain.ports.iter().all(|q| q.name != *p)
    {
        return Err(Failure::new(
            Kind::BadInput,
            format!("the chain has no port '{p}'"),
        ));
    }
    let (to, met) = sync_channel(WAITING as usize * senders.len().max(1));
    let tracer = Tracer {
        port: wanted.port.clone(),
        filter: filter.map(|f| Arc::new(Mutex::new(f))),
        left: Arc::new(AtomicU64::new(wanted.count.min(MOST))),
        waiting: Arc::default(),
        to,
    };
    let waiting = tracer.waiting.clone();
    let begun = senders.iter().try_for_each(|s| {
        let watch = Watch::traces(seen.clone(), tracer.clone());
        tell(s, Command::Watch(Some(watch)))
    });
    drop(tracer);
    let behind = seen.is_some();
    let followed = begun.and_then(|()| {
        let about = (wanted.count.min(MOST), behind);
        follow_all(senders, &met, about, &waiting, stream)
    });
    unwatch(senders);
    Ok(json!({ "packets": followed? }))
}

fn follow_all(
    senders: &[Sender<Command>],
    met: &Receiver<Met>,
    (count, behind): (u64, bool),
    waiting: &AtomicU64,
    stream: &mut Stream<'_>,
) -> Result<u64, Failure> {
    let mut sent = 0;
    while sent < count {
        match met.recv_timeout(LOOK) {
            Ok(m) => {
                waiting.fetch_sub(1, Ordering::Relaxed);
                let line = follow(senders, m, behind)?;
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
    Ok(sent)
}

/// Follows one.
fn follow(senders: &[Sender<Command>], m: Met, behind: bool) -> Result<Value, Failure> {
    // the chain as it is now: where it has been exchanged meanwhile, the copy alone is followed
    let now = senders.first().map(|s| snapshot(s, false)).transpose()?;
    let now = now.ok_or_else(|| Failure::new(Kind::Ended, "there is no worker"))?;
    let followed = copied(Copied {
        chain: &now.chain,
        port: &m.port,
        frame: &m.frame,
        at: m.at,
        graph: m.graph,
        program: now.made.as_ref().map(|m| &m.0.program),
    });
    let (mut trace, mut text) = followed.map_err(|e| {
        Failure::new(
            Kind::Unsupported,
            format!("the packet cannot be followed: {e:#}"),
        )
    })?;
    let state = match behind {
        true => "behind",
        false => "before",
    };
    if let Some(all) = trace.as_object_mut() {
        all.insert("time_ns".into(), m.at.nanos().into());
        all.insert("state".into(), state.into());
    }
    if behind {
        text.push("(followed once more behind itself, in the state that it left)".to_string());
    }
    Ok(json!({ "trace": trace, "text": text }))
}
