//! The health of load balancers' servers: a thread that tries them and reads files, and tells the workers which ones
//! are down (the handler `down` of the balancer's mapper). Servers that are down get no new flows.
//!
//! What is known of a server is known by function and server: a reload that keeps both keeps it.

mod file;
mod judge;
mod probe;

use crate::log::{self, Level};
use file::{Read, Said, Stamp};
use judge::Judge;
use onefold_chain::{Chain, HealthPlan, HealthServer};
use probe::{Attempt, Tried};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often files are looked at.
const FILES: Duration = Duration::from_secs(1);
/// Longest time until a change of what is to be watched is noticed.
const TICK: Duration = Duration::from_millis(100);

/// What the functions of a chain want to be watched.
pub fn plans(chain: &Chain) -> Vec<HealthPlan> {
    let each = chain.functions.iter().filter_map(|f| f.health.clone());
    each.collect()
}

/// The ports that probes connect to, and the files that are read.
pub fn needs(plans: &[HealthPlan]) -> (Vec<u16>, Vec<&Path>) {
    let ports = plans
        .iter()
        .flat_map(|p| p.servers.iter().filter_map(|s| p.probed_port(s)));
    let mut ports: Vec<u16> = ports.collect();
    ports.sort_unstable();
    ports.dedup();
    let files = plans.iter().filter_map(|p| p.file.as_deref());
    (ports, files.collect())
}

/// Tells the workers: element, and its servers that are down. False: they have not heard it.
pub type Tell = dyn Fn(&str, &str) -> bool + Send;

/// A server of a function.
type Key = (String, HealthServer);

/// What is known of a server.
#[derive(Debug, Default)]
struct Server {
    judge: Judge,
    /// Why the last try has failed, or could not be made.
    why: Option<String>,
    /// It could not be tried, which has been said.
    unable: bool,
    /// When it is tried next; not while it is tried.
    next: Option<Instant>,
}

/// What is known of a file.
#[derive(Debug, Default)]
struct Watched {
    stamp: Option<Stamp>,
    said: Said,
    /// What is wrong with it, which has been said.
    wrong: Option<String>,
}

/// What is watched, and what is known.
#[derive(Default)]
struct State {
    plans: Vec<HealthPlan>,
    servers: HashMap<Key, Server>,
    files: HashMap<PathBuf, Watched>,
    /// What the workers have been told, by element.
    told: HashMap<String, String>,
    ended: bool,
}

impl State {
    /// Is a server down?
    fn down(&self, plan: &HealthPlan, server: &HealthServer) -> bool {
        let file = plan.file.as_ref().and_then(|f| self.files.get(f));
        let by_file = file.is_some_and(|f| !f.said.is_up(server));
        let known = self.servers.get(&(plan.function.clone(), *server));
        by_file || (plan.probe.is_some() && known.is_some_and(|s| !s.judge.is_up()))
    }

    /// The servers that are down, as the handler takes them.
    fn text(&self, plan: &HealthPlan) -> String {
        let down = plan.servers.iter().filter(|s| self.down(plan, s));
        down.map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// Every server, as `status` tells it.
    fn json(&self) -> Vec<Value> {
        let mut all = Vec::new();
        for plan in &self.plans {
            for server in &plan.servers {
                let file = plan.file.as_ref().and_then(|f| self.files.get(f));
                let by_file = file.is_some_and(|f| !f.said.is_up(server));
                let known = self.servers.get(&(plan.function.clone(), *server));
                let tried = known.and_then(|s| s.why.as_deref());
                all.push(json!({
                    "nf": plan.function,
                    "server": server.to_string(),
                    "up": !self.down(plan, server),
                    "why": if by_file { Some("its file says so") } else { tried },
                }));
            }
        }
        all
    }

    /// Others are watched from now on; the first tries of a function's servers are spread over the interval.
    fn watch(&mut self, plans: Vec<HealthPlan>, now: Instant) {
        let mut servers = HashMap::new();
        for plan in &plans {
            for (i, server) in plan.servers.iter().enumerate() {
                let key = (plan.function.clone(), *server);
                let mut known = self.servers.remove(&key).unwrap_or_default();
                known.next = plan.probe.map(|p| {
                    let share = p.interval.mul_f64(i as f64 / plan.servers.len() as f64);
                    now + share
                });
                servers.insert(key, known);
            }
        }
        let watched = |f: &PathBuf| plans.iter().any(|p| p.file.as_ref() == Some(f));
        self.files.retain(|f, _| watched(f));
        // another graph, which may have been told something else when it was made
        self.told.clear();
        (self.servers, self.plans) = (servers, plans);
    }

    /// Tells the workers what they do not know.
    fn tell(&mut self, tell: &Tell) {
        for plan in &self.plans {
            let text = self.text(plan);
            let known = self.told.get(&plan.mapper);
            if known != Some(&text) && tell(&plan.mapper, &text) {
                self.told.insert(plan.mapper.clone(), text);
            }
        }
    }

    /// A try is over.
    fn note(&mut self, key: &Key, tried: Tried) {
        let plan = self.plans.iter().find(|p| p.function == key.0);
        let (Some(probe), Some(server)) = (plan.and_then(|p| p.probe), self.servers.get_mut(key))
        else {
            // it is not watched any more
            return;
        };
        server.next = Some(Instant::now() + probe.interval);
        let why = match tried {
            Tried::Answered => String::new(),
            Tried::Failed(why) => why,
            Tried::Unable(e) => {
                let why = format!("cannot be tried: {e}");
                if !std::mem::replace(&mut server.unable, true) {
                    say(key, &why, Level::Error);
                }
                server.why = Some(why);
                return;
            }
        };
        server.unable = false;
        server.why = (!why.is_empty()).then(|| why.clone());
        if server.judge.note(why.is_empty(), probe.rise, probe.fall) {
            match server.judge.is_up() {
                true => say(key, "up", Level::Info),
                false => say(key, &format!("down: {why}"), Level::Warning),
            }
        }
    }

    /// A file has been looked at.
    fn note_file(&mut self, path: &Path, read: Read) {
        let Some(file) = self.files.get_mut(path) else {
            return;
        };
        match read {
            Ok(None) => {}
            Ok(Some((stamp, said))) => {
                let before = std::mem::replace(&mut file.said, said);
                (file.stamp, file.wrong) = (Some(stamp), None);
                self.say_file(path, &before);
            }
            Err((stamp, why)) => {
                file.stamp = stamp;
                if file.wrong.as_ref() != Some(&why) {
                    let text = format!(
                        "health: {}: {why}; what it said before holds",
                        path.display()
                    );
                    eprintln!("warning: {text}");
                    log::event(Level::Warning, "health-file", &[("what", text.into())]);
                    file.wrong = Some(why);
                }
            }
        }
    }

    /// Says whom a file has made another one.
    fn say_file(&self, path: &Path, before: &Said) {
        let Some(file) = self.files.get(path) else {
            return;
        };
        for plan in self
            .plans
            .iter()
            .filter(|p| p.file.as_deref() == Some(path))
        {
            for server in &plan.servers {
                let key = (plan.function.clone(), *server);
                match (before.is_up(server), file.said.is_up(server)) {
                    (true, false) => say(&key, "down: its file says so", Level::Warning),
                    (false, true) => say(&key, "up: its file says so", Level::Info),
                    _ => {}
                }
            }
        }
    }
}

/// To the operator, and to the log.
fn say((function, server): &Key, what: &str, level: Level) {
    eprintln!("{function}: server {server} {what}");
    let fields = [
        ("function", function.as_str().into()),
        ("server", server.to_string().into()),
        ("what", what.into()),
    ];
    log::event(level, "server", &fields);
}

/// See the module's text. The thread ends when this is dropped.
pub struct Health {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What thread and run have in common.
#[derive(Default)]
pub struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// What a new graph's mappers are told before they take packets: elements, and their servers that are down.
    pub fn known(&self, plans: &[HealthPlan]) -> Vec<(String, String)> {
        let state = self.state();
        let each = plans.iter().map(|p| (p.mapper.clone(), state.text(p)));
        each.filter(|(_, down)| !down.is_empty()).collect()
    }
    /// Every server that is watched: `nf`, `server`, `up`, `why`.
    pub fn json(&self) -> Vec<Value> {
        self.state().json()
    }
    /// Another chain runs: this is watched from now on, and its workers are told anew.
    pub fn watch(&self, plans: Vec<HealthPlan>) {
        self.state().watch(plans, Instant::now());
        self.changed.notify_all();
    }
}

impl Health {
    /// Watches from now on.
    ///
    /// # Errors
    /// There is no thread.
    pub fn start(plans: Vec<HealthPlan>, tell: Box<Tell>) -> std::io::Result<Health> {
        let shared = Arc::new(Shared::default());
        shared.watch(plans);
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("health".into());
        let thread = thread.spawn(move || Thread::default().run(&theirs, &*tell))?;
        Ok(Health {
            shared,
            thread: Some(thread),
        })
    }

    /// Who asks, and changes what is watched.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl Drop for Health {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        // a defect there has been told
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The thread's own.
#[derive(Default)]
struct Thread {
    attempts: Vec<Attempt<Key>>,
    files_at: Option<Instant>,
}

impl Thread {
    fn run(mut self, shared: &Shared, tell: &Tell) {
        loop {
            let mut state = shared.state();
            // Bound: until somebody wants something to be watched, or the end.
            while state.plans.is_empty() && !state.ended {
                let waited = shared.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            if state.ended {
                return;
            }
            let now = Instant::now();
            let (due, files) = (due(&mut state, now), self.due_files(&mut state, now));
            drop(state);
            // without the lock: a file may be slow
            let read: Vec<(PathBuf, Read)> = files
                .into_iter()
                .map(|(path, stamp)| {
                    let read = file::read(&path, stamp);
                    (path, read)
                })
                .collect();
            let mut done = self.begin(due);
            match probe::wait(&mut self.attempts, TICK) {
                Ok(more) => done.extend(more),
                Err(e) => {
                    eprintln!("warning: health: {e}");
                    std::thread::sleep(TICK);
                }
            }
            let mut state = shared.state();
            for (path, read) in read {
                state.note_file(&path, read);
            }
            for (key, tried) in done {
                state.note(&key, tried);
            }
            state.tell(tell);
        }
    }

    /// Begins tries; those that nothing has to be waited for.
    fn begin(&mut self, due: Vec<(Key, SocketAddr, Duration)>) -> Vec<(Key, Tried)> {
        let mut done = Vec::new();
        for (key, to, timeout) in due {
            match probe::begin(key, to, timeout) {
                Ok(a) => self.attempts.push(a),
                Err(over) => done.push(over),
            }
        }
        done
    }

    fn due_files(&mut self, state: &mut State, now: Instant) -> Vec<(PathBuf, Option<Stamp>)> {
        let missing = |p: &HealthPlan| {
            let file = p.file.as_ref();
            file.is_some_and(|f| !state.files.contains_key(f))
        };
        // one that is new is read at once
        let new = state.plans.iter().any(missing);
        if !new && self.files_at.is_some_and(|at| now < at) {
            return Vec::new();
        }
        self.files_at = Some(now + FILES);
        let files: Vec<PathBuf> = state.plans.iter().filter_map(|p| p.file.clone()).collect();
        for f in files {
            state.files.entry(f).or_default();
        }
        let each = state.files.iter().map(|(f, w)| (f.clone(), w.stamp));
        each.collect()
    }
}

/// Tries that are due, and are under way from now on.
fn due(state: &mut State, now: Instant) -> Vec<(Key, SocketAddr, Duration)> {
    let State { plans, servers, .. } = state;
    let mut due = Vec::new();
    for plan in plans.iter() {
        let Some(probe) = plan.probe else { continue };
        for server in &plan.servers {
            let key = (plan.function.clone(), *server);
            let Some(known) = servers.get_mut(&key) else {
                continue;
            };
            if known.next.is_none_or(|at| now < at) {
                continue;
            }
            // a chain without such a port is refused
            let Some(port) = plan.probed_port(server) else {
                continue;
            };
            known.next = None;
            due.push((key, SocketAddr::new(server.address, port), probe.timeout));
        }
    }
    due
}

#[cfg(test)]
mod tests;
