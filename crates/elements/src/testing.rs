//! A one-element bench for tests: configure an element, push packets, look at what it did.
//!
//! ```
//! use onefold_elements::testing::Bench;
//! let mut b = Bench::new("Counter", "", 1, 1).unwrap();
//! let out = b.push(0, &[0u8; 60]);
//! assert_eq!(out[0].0, 0);                    // left at output 0
//! assert_eq!(b.read("count").unwrap(), "1");
//! ```

use onefold_element::args::{ArgScope, Args, split_args};
use onefold_element::handler::HandlerError;
use onefold_element::{
    ConfigCx, Cx, ElemId, Element, ElementClass, Emission as Effect, GraphSpec, Host, InitCx,
    LogStream, NameDb, Outbox, Port, Processing, StateStore, TaskStatus, TimerId,
};
use onefold_packet::{Packet, Pkt, Timestamp};
use std::collections::{BTreeMap, VecDeque};

/// So many cases of a property test, or as many as `PROPTEST_CASES` says.
#[cfg(test)]
pub(crate) fn cases(n: u32) -> proptest::test_runner::Config {
    let v = std::env::var("PROPTEST_CASES")
        .ok()
        .and_then(|v| v.parse().ok());
    proptest::test_runner::Config::with_cases(v.unwrap_or(n))
}

/// What the bench's engine side remembers.
#[derive(Default)]
pub struct BenchHost {
    /// Packets that pulls from an input will get.
    pub upstream: BTreeMap<Port, VecDeque<Pkt>>,
    /// Timers set.
    pub timers: BTreeMap<TimerId, Timestamp>,
    /// Everything printed.
    pub log: String,
    /// Trace decisions.
    pub decisions: Vec<(Option<usize>, String)>,
    /// Tasks woken.
    pub woken: usize,
    /// `stop` was asked for.
    pub stopped: bool,
    /// Values that read handlers of other elements give.
    pub handlers: BTreeMap<String, String>,
    /// Write handler calls to other elements.
    pub writes: Vec<(String, String)>,
    /// What [`Host::downstream_full`] answers.
    pub downstream_full: bool,
    /// Calls of `notify_nonempty`.
    pub nonempty: usize,
    /// Calls of `notify_nonfull`.
    pub nonfull: usize,
    /// Bytes written to standard output.
    pub stdout: Vec<u8>,
    /// Named addresses.
    pub names: std::sync::Arc<NameDb>,
    /// No trace is taken: for measuring.
    pub quiet: bool,
    draws: u64,
}

impl Host for BenchHost {
    fn pull(&mut self, _: ElemId, port: Port, _: &mut Outbox, _: &mut StateStore) -> Option<Pkt> {
        self.upstream.get_mut(&port)?.pop_front()
    }
    fn set_timer(&mut self, _: ElemId, timer: TimerId, at: Timestamp) {
        self.timers.insert(timer, at);
    }
    fn clear_timer(&mut self, _: ElemId, timer: TimerId) {
        self.timers.remove(&timer);
    }
    fn wake_task(&mut self, _: ElemId) {
        self.woken += 1;
    }
    fn notify_nonempty(&mut self, _: ElemId) {
        self.nonempty += 1;
    }
    fn notify_nonfull(&mut self, _: ElemId) {
        self.nonfull += 1;
    }
    fn downstream_full(&mut self, _: ElemId, _: Port) -> bool {
        self.downstream_full
    }
    fn write(&mut self, stream: LogStream, bytes: &[u8]) {
        match stream {
            LogStream::Stdout => self.stdout.extend_from_slice(bytes),
            LogStream::Stderr => self.log.push_str(&String::from_utf8_lossy(bytes)),
        }
    }
    fn read_handler(
        &mut self,
        _: ElemId,
        call: &str,
        _: &mut Outbox,
        _: &mut StateStore,
    ) -> Result<String, HandlerError> {
        self.handlers
            .get(call)
            .cloned()
            .ok_or_else(|| HandlerError::NoSuchHandler(call.to_string()))
    }
    fn write_handler(
        &mut self,
        _: ElemId,
        call: &str,
        value: &str,
        _: &mut Outbox,
        _: &mut StateStore,
    ) -> Result<(), HandlerError> {
        self.writes.push((call.to_string(), value.to_string()));
        Ok(())
    }
    fn log(&mut self, _: LogStream, text: &str) {
        self.log.push_str(text);
    }
    fn stop(&mut self) {
        self.stopped = true;
    }
    fn random(&mut self, _: ElemId) -> u32 {
        // splitmix64 of the draw's number
        self.draws += 1;
        let mut z = self.draws.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)) as u32
    }
    fn set_seed(&mut self, seed: u64) {
        self.draws = seed << 32;
    }
    fn tracing(&self) -> bool {
        !self.quiet
    }
    fn trace(&mut self, _: ElemId, argument: Option<usize>, text: String) {
        self.decisions.push((argument, text));
    }
    fn element_name(&self, elem: ElemId) -> String {
        format!("e{}", elem.0)
    }
    fn names(&self) -> std::sync::Arc<NameDb> {
        self.names.clone()
    }
    fn find_element(&self, _: ElemId, _: &str) -> Option<ElemId> {
        None
    }
}

/// How the pretended graph around a benched element looks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Setup {
    /// Connected inputs.
    pub ninputs: usize,
    /// Connected outputs.
    pub noutputs: usize,
    /// Agnostic ports are pull instead of push.
    pub pull: bool,
    /// Not bound to a port: the element opens its own device or file.
    pub unbound: bool,
}

/// One element with a pretended graph around it.
pub struct Bench {
    /// The element.
    pub element: Box<dyn Element>,
    /// The engine's side.
    pub host: BenchHost,
    /// Shared state.
    pub store: StateStore,
    /// Effects, drops, pool.
    pub out: Outbox,
    /// The clock; set it as the test likes.
    pub now: Timestamp,
    /// Warnings of the configuration.
    pub warnings: Vec<String>,
    ninputs: usize,
    noutputs: usize,
}

impl Bench {
    /// Configures and initializes `class(config)` with so many connected ports. Errors (with the
    /// warnings before them) come back as texts; warnings alone are kept in [`Bench::warnings`].
    pub fn new(
        class: &str,
        config: &str,
        ninputs: usize,
        noutputs: usize,
    ) -> Result<Bench, Vec<String>> {
        Self::with_names(class, config, ninputs, noutputs, NameDb::builtin())
    }

    /// [`Bench::new`] with named addresses.
    pub fn with_names(
        class: &str,
        config: &str,
        ninputs: usize,
        noutputs: usize,
        names: &NameDb,
    ) -> Result<Bench, Vec<String>> {
        let setup = Setup {
            ninputs,
            noutputs,
            ..Setup::default()
        };
        Self::with_setup(class, config, setup, names)
    }

    /// [`Bench::with_names`] with more to say about the surroundings.
    pub fn with_setup(
        class: &str,
        config: &str,
        setup: Setup,
        names: &NameDb,
    ) -> Result<Bench, Vec<String>> {
        Self::with_others(class, config, setup, names, &[])
    }

    /// [`Bench::with_setup`] beside elements without ports, `(name, class, configuration)`, that the element may name:
    /// they are configured first and are elements 1 and on.
    pub fn with_others(
        class: &str,
        config: &str,
        setup: Setup,
        names: &NameDb,
        others: &[(&str, &str, &str)],
    ) -> Result<Bench, Vec<String>> {
        let Setup {
            ninputs, noutputs, ..
        } = setup;
        let c = crate::lookup(class).ok_or_else(|| vec![format!("no class '{class}'")])?;
        let mut element = (c.new)();
        let mut store = StateStore::new();
        let mut names_list = vec!["e0".to_string()];
        let mut classes = vec![class.to_string()];
        for (name, class, _) in others {
            names_list.push(name.to_string());
            classes.push(class.to_string());
        }
        let mut failed = Vec::new();
        for (i, (name, class, config)) in others.iter().enumerate() {
            let c = crate::lookup(class).ok_or_else(|| vec![format!("no class '{class}'")])?;
            let split = split_args(config);
            let scope = ArgScope {
                names,
                element: name,
                elements: &names_list,
            };
            let mut args = Args::new(split.iter().map(String::as_str).collect(), scope);
            let mut cx = ConfigCx {
                elem: ElemId(i as u32 + 1),
                name,
                ninputs: 0,
                noutputs: 0,
                names,
                elements: &names_list,
                classes: &classes,
                store: &mut store,
                seed: 1,
            };
            if let Err(e) = (c.new)().configure(&mut args, &mut cx) {
                failed.extend(e.iter().filter(|e| !e.warning).map(ToString::to_string));
            }
        }
        if !failed.is_empty() {
            return Err(failed);
        }
        let split = split_args(config);
        let scope = ArgScope {
            names,
            element: "e0",
            elements: &names_list,
        };
        let mut args = Args::new(split.iter().map(String::as_str).collect(), scope);
        let mut cx = ConfigCx {
            elem: ElemId(0),
            name: "e0",
            ninputs,
            noutputs,
            names,
            elements: &names_list,
            classes: &classes,
            store: &mut store,
            seed: 1,
        };
        let mut errors = Vec::new();
        if let Err(e) = element.configure(&mut args, &mut cx) {
            errors.extend(e);
        }
        if let Err(e) = args.finish() {
            errors.extend(e);
        }
        let (warnings, errors): (Vec<_>, Vec<_>) = errors.into_iter().partition(|e| e.warning);
        if !errors.is_empty() {
            let all = warnings.iter().chain(&errors);
            return Err(all.map(|e| e.to_string()).collect());
        }
        let (half_in, half_out) = ElementClass::halves(c.processing);
        let resolve = |half: &str, n: usize| -> Vec<Processing> {
            let agnostic = match setup.pull {
                true => Processing::Pull,
                false => Processing::Push,
            };
            (0..n)
                .map(|i| match Processing::of(half, i) {
                    Processing::Agnostic => agnostic,
                    other => other,
                })
                .collect()
        };
        let graph = GraphSpec::default();
        let mut host = BenchHost {
            names: std::sync::Arc::new(names.clone()),
            ..BenchHost::default()
        };
        let mut icx = InitCx {
            elem: ElemId(0),
            name: "e0",
            elements: &names_list,
            classes: &classes,
            store: &mut store,
            bound: !setup.unbound,
            now: Timestamp::ZERO,
            inputs: &resolve(half_in, ninputs),
            outputs: &resolve(half_out, noutputs),
            graph: &graph,
            stdout: &mut host.stdout,
        };
        let initialized = element.initialize(&mut icx).err().unwrap_or_default();
        let (later, errors): (Vec<_>, Vec<_>) = initialized.into_iter().partition(|e| e.warning);
        if !errors.is_empty() {
            return Err(errors.iter().map(|e| e.to_string()).collect());
        }
        let warnings: Vec<_> = warnings.into_iter().chain(later).collect();
        Ok(Bench {
            element,
            host,
            store,
            out: Outbox {
                traced: true,
                ..Outbox::default()
            },
            now: Timestamp::from_secs(1),
            warnings: warnings.iter().map(|e| e.to_string()).collect(),
            ninputs,
            noutputs,
        })
    }

    /// The element with its state, clock, timers and random numbers a second time; nothing printed, noted or emitted so
    /// far goes with it.
    pub fn fork(&self) -> Bench {
        Bench {
            element: self.element.clone(),
            host: BenchHost {
                timers: self.host.timers.clone(),
                handlers: self.host.handlers.clone(),
                names: self.host.names.clone(),
                quiet: self.host.quiet,
                draws: self.host.draws,
                ..BenchHost::default()
            },
            store: self.store.clone(),
            out: Outbox {
                traced: self.out.traced,
                ..Outbox::default()
            },
            now: self.now,
            warnings: Vec::new(),
            ninputs: self.ninputs,
            noutputs: self.noutputs,
        }
    }

    /// Runs `f` with the element and a context.
    pub fn with<R>(&mut self, f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R) -> R {
        let mut cx = Cx {
            elem: ElemId(0),
            now: self.now,
            ninputs: self.ninputs,
            noutputs: self.noutputs,
            store: &mut self.store,
            out: &mut self.out,
            host: &mut self.host,
        };
        f(&mut *self.element, &mut cx)
    }

    /// Takes what has been emitted: output port and packet, in order; packets that come back come back. Deferred
    /// handler calls go to `host.writes`.
    pub fn emitted(&mut self) -> Vec<(Port, Pkt)> {
        let mut v = Vec::new();
        let mut again = Vec::new();
        for e in self.out.effects.drain(..) {
            match e {
                Effect::Emit(port, p) => v.push((port, p)),
                Effect::Call(c) => self.host.writes.push(*c),
                Effect::Again(port, p) => again.push((port, p)),
            }
        }
        for (port, p) in again {
            v.extend(self.push_packet(port, p));
        }
        v
    }

    /// Pushes a new packet with this data.
    pub fn push(&mut self, port: Port, data: &[u8]) -> Vec<(Port, Pkt)> {
        self.push_packet(port, Box::new(Packet::from_slice(data)))
    }

    /// Pushes a packet.
    pub fn push_packet(&mut self, port: Port, p: Pkt) -> Vec<(Port, Pkt)> {
        self.with(|e, cx| e.push(port, p, cx));
        self.emitted()
    }

    /// Pulls from an output.
    pub fn pull(&mut self, port: Port) -> Option<Pkt> {
        self.with(|e, cx| e.pull(port, cx))
    }

    /// Gives the task a turn, following [`TaskStatus::Again`] (at most 100,000 times).
    pub fn run_task(&mut self) -> Vec<(Port, Pkt)> {
        let mut all = Vec::new();
        for _ in 0..100_000 {
            let s = self.with(|e, cx| e.run_task(cx));
            all.extend(self.emitted());
            if s != TaskStatus::Again {
                break;
            }
        }
        all
    }

    /// Advances the clock to `now`, firing timers that are due, earliest first (at most 100,000).
    pub fn advance_to(&mut self, now: Timestamp) -> Vec<(Port, Pkt)> {
        let mut all = Vec::new();
        for _ in 0..100_000 {
            let due = self
                .host
                .timers
                .iter()
                .filter(|(_, at)| **at <= now)
                .min_by_key(|(_, at)| **at)
                .map(|(t, at)| (*t, *at));
            let Some((t, at)) = due else { break };
            self.host.timers.remove(&t);
            self.now = self.now.max(at);
            self.with(|e, cx| e.run_timer(t, cx));
            all.extend(self.emitted());
        }
        self.now = self.now.max(now);
        all
    }

    /// Calls a read handler.
    pub fn read(&mut self, name: &str) -> Result<String, HandlerError> {
        let (n, param) = name.split_once(' ').unwrap_or((name, ""));
        self.with(|e, cx| e.read(n, param, cx))
    }

    /// Calls a write handler.
    pub fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        self.with(|e, cx| e.write(name, value, cx))
    }

    /// Drops so far, by reason.
    pub fn drops(&self) -> BTreeMap<&'static str, u64> {
        let mut m = BTreeMap::new();
        for (_, r, n) in &self.out.drops {
            *m.entry(*r).or_insert(0) += n;
        }
        m
    }
}
