//! The control socket and the metrics of a run: what is listened at, and who answers.

use super::capture::{self, Watch};
use super::reload::{OpenPort, PATIENCE, Reloader};
use super::session::{Command, Snapshot};
use super::{metrics, status, trace};
use crate::cmd::run::{self, Scaling};
use crate::health::{self, Health};
use crate::servers::{self, ServerFlows};
use anyhow::{Context, Result, anyhow};
use onefold_chain::Chain;
use onefold_control::{
    Failure, Handler, Kind, MetricsServer, Request, Server, Stream, default_folder,
};
use onefold_partition::PortRule;
use onefold_runtime::{Clock, SendError, Sender};
use serde_json::Value;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

/// Options of a run that is asked and changed while it runs.
#[derive(clap::Args, Debug, Clone)]
pub struct ControlArgs {
    /// With network interfaces: the name that `status`, `top`, `reload` and others know the run by; the chain's if not
    /// given
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The control socket, or `off`; if not given, a socket with the run's name in $XDG_RUNTIME_DIR/onefold or
    /// /run/onefold
    #[arg(long, value_name = "PATH|off", conflicts_with = "name")]
    control: Option<String>,
    /// Answers GET /metrics there, in the text format of Prometheus
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
}

/// What a run is asked and changed by; all of it ends when this is dropped.
pub struct Controls {
    _server: Option<Server>,
    _metrics: Option<MetricsServer>,
    _health: Health,
}

/// Who takes packets.
#[derive(Clone)]
pub struct Workers {
    /// The run's.
    pub clock: Clock,
    /// Reach the workers, or groups, in their order.
    pub senders: Vec<Sender<Command>>,
    /// By what their packets are told apart.
    pub rules: Vec<PortRule>,
    /// Where groups go from worker to worker.
    pub scaling: Option<Arc<Scaling>>,
    /// Where several workers have network interfaces: how packets come to them.
    pub watched: Option<run::Watched>,
}

/// Listens from now on, at this socket; what is asked is answered once the workers take packets.
///
/// # Errors
/// When what was asked for is not possible: a name that is taken, an address in use.
pub fn start(
    args: &run::Args,
    chain: &Chain,
    ports: Vec<OpenPort>,
    workers: Workers,
    mut server: Option<Server>,
) -> Result<Controls> {
    let control = args.control();
    let senders = workers.senders.clone();
    let tell = move |mapper: &str, down: &str| tell_down(&senders, mapper, down);
    let health = Health::start(health::plans(chain), Box::new(tell));
    let health = health.context("a thread for the servers' health")?;
    let watching = health.shared();
    let reloader = Reloader::new(args, ports, &workers, health.shared());
    let Workers {
        senders,
        scaling,
        watched,
        ..
    } = workers;
    let socket = server.as_ref().map(|s| s.path().display().to_string());
    let name = server
        .as_ref()
        .and_then(|s| s.name())
        .unwrap_or(&chain.name);
    let answers = Arc::new(Answers {
        reloader,
        senders,
        scaling,
        watched,
        health: watching,
        mode: args.mode(),
        name: name.to_string(),
        socket,
    });
    if let Some(s) = &mut server {
        let answers = answers.clone();
        let handler: Arc<Handler> = Arc::new(move |r, s: &mut Stream<'_>| answers.answer(r, s));
        s.serve(handler)
            .context("a thread for the control socket")?;
    }
    let metrics = match control.metrics {
        None => None,
        Some(at) => {
            let text = move || match answers.status(false, false) {
                Ok(v) => Ok(metrics::text(&v)),
                Err(e) => Err(e.message),
            };
            let s = MetricsServer::start(at, text);
            let s = s.map_err(|e| anyhow!("--metrics {at}: {}", no_metrics(at, &e)))?;
            if !args.is_quiet() {
                eprintln!("metrics: http://{}/metrics", s.address());
            }
            Some(s)
        }
    };
    Ok(Controls {
        _server: server,
        _metrics: metrics,
        _health: health,
    })
}

/// Why nobody can listen there, and what to type.
fn no_metrics(at: SocketAddr, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::AddrInUse => format!(
            "somebody else listens there; give another port, or see who it is: ss -ltnp 'sport = :{}'",
            at.port()
        ),
        ErrorKind::PermissionDenied => format!(
            "{error}: ports below 1024 take CAP_NET_BIND_SERVICE, which a run gives up; give one above, or \
             --sandbox off"
        ),
        ErrorKind::AddrNotAvailable => format!("{error}; the host's addresses: ip address show"),
        _ => error.to_string(),
    }
}

/// The socket. One that nobody has asked for may be missing: this is said, and the chain runs.
///
/// # Errors
/// When one that was asked for cannot be had: a name that is taken.
pub fn bind(control: &ControlArgs, chain: &str, quiet: bool) -> Result<Option<Server>> {
    let server = match (&control.control, &control.name) {
        (Some(off), _) if off == "off" => return Ok(None),
        (Some(path), _) => Server::bind(Path::new(path))?,
        (None, Some(name)) => Server::bind_name(&default_folder(), name, false)?,
        (None, None) => {
            let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
            let name: String = chain.chars().take(48).map(plain).collect();
            match Server::bind_name(&default_folder(), name.trim_matches('-'), true) {
                Ok(s) => s,
                Err(e) => {
                    eprintln!("warning: no control socket: {e}");
                    return Ok(None);
                }
            }
        }
    };
    if !quiet {
        eprintln!("control: {}", server.path().display());
    }
    Ok(Some(server))
}

struct Answers {
    reloader: Reloader,
    senders: Vec<Sender<Command>>,
    scaling: Option<Arc<Scaling>>,
    watched: Option<run::Watched>,
    health: Arc<health::Shared>,
    mode: run::Mode,
    name: String,
    socket: Option<String>,
}

impl Answers {
    fn answer(&self, request: Request, stream: &mut Stream<'_>) -> Result<Value, Failure> {
        match request {
            Request::Status { rules, servers } => self.status(rules, servers),
            Request::Reload { chain, set } => self.reloader.reload(chain, set),
            Request::Edit { edit, verify_first } => self.reloader.edit(edit, verify_first),
            Request::Capture { matching, count } => {
                capture::run(&self.senders, &matching, count, stream)
            }
            Request::Scale { workers } => self.scale(workers),
            Request::Schedule { .. } => Err(Failure::new(
                Kind::Unsupported,
                "the functions of this run are in one process: there is nobody to be scheduled",
            )),
            Request::Stop => {
                crate::runner::interrupted().store(true, std::sync::atomic::Ordering::Relaxed);
                Ok(serde_json::json!({ "stopping": true }))
            }
            Request::Trace(tracing) => trace::run(&self.senders, &tracing, stream),
        }
    }

    fn status(&self, rules: bool, servers: bool) -> Result<Value, Failure> {
        let all: Result<Vec<Snapshot>, Failure> =
            self.senders.iter().map(|s| snapshot(s, rules)).collect();
        let all = all?;
        let health = self.health.json();
        let servers = match all.first().filter(|_| servers) {
            Some(s) => servers::with_health(&self.servers(&s.chain)?, &health),
            None => health,
        };
        let socket = self.socket.as_deref();
        let v = status::json(
            all,
            self.mode,
            (&self.name, socket),
            (self.scaling.as_deref(), self.watched.as_ref()),
        );
        let mut v = v.ok_or_else(|| Failure::new(Kind::Ended, "there is no worker"))?;
        if let Some(keys) = v.as_object_mut().filter(|_| !servers.is_empty()) {
            keys.insert("servers".into(), servers.into());
        }
        Ok(v)
    }
}

impl Answers {
    /// Servers with the flows that they have at all workers.
    fn servers(&self, chain: &Chain) -> Result<Vec<ServerFlows>, Failure> {
        let mut all = Vec::new();
        for s in &self.senders {
            let mut failed = None;
            let counted = servers::count(chain, |call| match handler(s, call) {
                Ok(said) => said,
                Err(e) => {
                    failed = Some(e);
                    None
                }
            });
            if let Some(e) = failed {
                return Err(e);
            }
            servers::add(&mut all, counted);
        }
        Ok(all)
    }

    fn scale(&self, workers: Option<usize>) -> Result<Value, Failure> {
        let Some(scaling) = &self.scaling else {
            let why =
                "the number of workers of this run is fixed: start it with --workers MIN..MAX";
            return Err(Failure::new(Kind::Unsupported, why));
        };
        let done = scaling.by_hand(workers);
        done.map_err(|e| Failure::new(Kind::BadInput, format!("{e:#}")))
    }
}

/// How a worker stands.
pub fn snapshot(sender: &Sender<Command>, rules: bool) -> Result<Snapshot, Failure> {
    let (reply, answer) = sync_channel(1);
    tell(sender, Command::Status { rules, reply })?;
    let got = answer.recv_timeout(PATIENCE);
    got.map_err(|_| Failure::new(Kind::Ended, "the worker does not answer"))
}

/// What a read handler of a worker's graph says; `None`: there is none, or it refuses.
fn handler(sender: &Sender<Command>, call: &str) -> Result<Option<String>, Failure> {
    let (reply, answer) = sync_channel(1);
    let call = call.to_string();
    tell(sender, Command::Read { call, reply })?;
    let got = answer.recv_timeout(PATIENCE);
    got.map_err(|_| Failure::new(Kind::Ended, "the worker does not answer"))
}

/// Tells a worker.
pub fn tell(sender: &Sender<Command>, command: Command) -> Result<(), Failure> {
    let sent = sender.send(command);
    sent.map_err(|e| match e {
        SendError::Full => Failure::new(Kind::Busy, e.to_string()),
        SendError::Ended => Failure::new(Kind::Ended, e.to_string()),
    })
}

/// Tells all workers which of a mapper's servers are down. False: one of them has not heard it.
fn tell_down(senders: &[Sender<Command>], mapper: &str, down: &str) -> bool {
    let command = || Command::Down {
        mapper: mapper.to_string(),
        down: down.to_string(),
    };
    // a worker that has ended has no new flows
    let heard = |s: &Sender<Command>| !matches!(s.send(command()), Err(SendError::Full));
    senders.iter().filter(|s| !heard(s)).count() == 0
}

/// Nobody looks at packets one by one any more.
pub fn unwatch(senders: &[Sender<Command>]) {
    for s in senders {
        // an ended worker watches nothing
        let _ = s.send(Command::Watch(None::<Watch>));
    }
}
