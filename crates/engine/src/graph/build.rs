//! From a graph as written to a graph that runs.

use crate::graph::batch::MAX_LANES;
use crate::graph::core::{Core, Log, Node};
use crate::graph::diag::{BuildError, Diagnostic, Severity, Stage};
use crate::graph::hookup;
use crate::graph::reference::Graph;
use crate::graph::sched::{RunList, Timers};
use crate::graph::topology::Topology;
use crate::graph::unparse;
use onefold_element::args::{ArgScope, Args};
use onefold_element::{
    ConfigCx, ConfigErrors, ElemId, Element, ElementClass, GraphSpec, Host, InitCx, IoRole,
    LogStream, NameDb, Outbox, Processing, StateStore,
};
use onefold_packet::Timestamp;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Which of the elements that stand for devices and files ([`IoRole`]) are bound to ports of the engine: it injects and
/// collects their packets, and they open nothing.
#[derive(Debug, Clone, Default)]
pub enum Bound {
    /// None: each opens its own device or file.
    None,
    /// All.
    #[default]
    All,
    /// Those with these full element names.
    Elements(HashSet<String>),
}

/// How to build a graph.
#[derive(Clone)]
pub struct BuildOptions {
    /// Finds element classes.
    pub lookup: fn(&str) -> Option<&'static ElementClass>,
    /// Which I/O elements the engine stands in for.
    pub bound: Bound,
    /// Seed of random numbers.
    pub seed: u64,
    /// The clock at the start.
    pub start: Timestamp,
    /// Where printed text goes.
    pub log: Log,
    /// The text that the `config` handler gives; the flat graph if empty.
    pub source_text: String,
    /// What the configuration requires (`require(KIND VALUE)`), for the handlers that show it.
    pub requirements: Vec<(String, String)>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        BuildOptions {
            lookup: onefold_elements::lookup,
            bound: Bound::All,
            seed: 1,
            start: Timestamp::ZERO,
            log: Log::Keep,
            source_text: String::new(),
            requirements: Vec::new(),
        }
    }
}

impl Graph {
    /// Makes, connects, configures and initializes all elements.
    ///
    /// # Errors
    /// Everything that is wrong, of all elements, in one go; warnings come with it. A graph that is built keeps its warnings
    /// in [`Graph::warnings`].
    pub fn build(spec: GraphSpec, options: &BuildOptions) -> Result<Graph, BuildError> {
        Builder {
            diags: Vec::new(),
            options,
        }
        .run(spec)
    }
}

struct Builder<'a> {
    diags: Vec<Diagnostic>,
    options: &'a BuildOptions,
}

impl Builder<'_> {
    fn run(mut self, spec: GraphSpec) -> Result<Graph, BuildError> {
        let class: Vec<Option<&'static ElementClass>> = (spec.elements.iter())
            .map(|e| (self.options.lookup)(&e.class))
            .collect();
        self.unknown_classes(&spec, &class);
        let (mut hookup, errors) = hookup::check(&spec, &class);
        let connected = errors.is_empty();
        self.diags.extend(errors);
        if !connected {
            return Err(BuildError(self.diags));
        }

        // what neither push nor pull reaches behaves as push
        for p in hookup.in_proc.iter_mut().chain(&mut hookup.out_proc) {
            if *p == Processing::Agnostic {
                *p = Processing::Push;
            }
        }

        let n = spec.elements.len();
        let names: Vec<String> = spec.elements.iter().map(|e| e.name.clone()).collect();
        let classes: Vec<String> = spec.elements.iter().map(|e| e.class.clone()).collect();
        let mut elems: Vec<Option<Box<dyn Element>>> =
            class.iter().map(|c| c.map(|c| (c.new)())).collect();
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_key(|i| {
            let e = elems[*i as usize].as_ref();
            e.map_or(0, |e| e.configure_phase())
        });
        let mut rank = vec![0; n];
        for (r, i) in order.iter().enumerate() {
            rank[*i as usize] = r as u32;
        }

        let mut store = StateStore::new();
        let mut db = NameDb::builtin().clone();
        for i in order.iter().map(|i| *i as usize) {
            let Some(elem) = elems[i].as_mut() else {
                continue;
            };
            let args = &spec.elements[i].args;
            if let Err(e) = elem.define_names(&names[i], args, &mut db) {
                self.config_errors(&spec, i, Stage::Configure, e);
            }
            let scope = ArgScope {
                names: &db,
                element: &names[i],
                elements: &names,
            };
            let mut reader = Args::new(args.iter().map(String::as_str).collect(), scope);
            let mut cx = ConfigCx {
                elem: ElemId(i as u32),
                name: &names[i],
                ninputs: hookup.ports[i].ninputs,
                noutputs: hookup.ports[i].noutputs,
                names: &db,
                elements: &names,
                classes: &classes,
                store: &mut store,
                seed: self.options.seed,
            };
            let mut errors = elem
                .configure(&mut reader, &mut cx)
                .err()
                .unwrap_or_default();
            errors.extend(reader.finish().err().unwrap_or_default());
            self.config_errors(&spec, i, Stage::Configure, errors);
        }
        self.one_driver(&spec, &elems);
        if self.failed() {
            return Err(BuildError(self.diags));
        }

        let mut stdout = Vec::new();
        for i in order.iter().map(|i| *i as usize) {
            let Some(elem) = elems[i].as_mut() else {
                continue;
            };
            let bound = match (&self.options.bound, elem.io_role()) {
                (_, None) | (Bound::None, _) => false,
                (Bound::All, Some(_)) => true,
                (Bound::Elements(s), Some(_)) => s.contains(&names[i]),
            };
            let p = hookup.ports[i];
            let mut cx = InitCx {
                elem: ElemId(i as u32),
                name: &names[i],
                elements: &names,
                classes: &classes,
                store: &mut store,
                bound,
                now: self.options.start,
                inputs: &hookup.in_proc[p.in_base..p.in_base + p.ninputs],
                outputs: &hookup.out_proc[p.out_base..p.out_base + p.noutputs],
                graph: &spec,
                stdout: &mut stdout,
            };
            if let Err(e) = elem.initialize(&mut cx) {
                self.config_errors(&spec, i, Stage::Initialize, e);
            }
        }
        if self.failed() {
            return Err(BuildError(self.diags));
        }

        let nodes: Vec<Node> = (elems.into_iter().enumerate())
            .map(|(i, elem)| {
                let p = hookup.ports[i];
                let ins = &hookup.in_proc[p.in_base..p.in_base + p.ninputs];
                let pulls = ins.contains(&Processing::Pull);
                // an agnostic input that turned out to be push: packets come by themselves
                let agnostic = class[i].is_some_and(|c| {
                    let (code, _) = ElementClass::halves(c.processing);
                    Processing::of(code, 0) == Processing::Agnostic
                });
                let fed = agnostic && !ins.is_empty() && !pulls;
                Node {
                    passes: p.ninputs <= 1 && elem.as_ref().is_some_and(|e| e.passes()),
                    has_task: !fed && elem.as_ref().is_some_and(|e| e.has_task()),
                    elem,
                    ninputs: p.ninputs as u32,
                    noutputs: p.noutputs as u32,
                    in_base: p.in_base as u32,
                    out_base: p.out_base as u32,
                    draws: 0,
                }
            })
            .collect();
        let widest = nodes.iter().map(|n| n.noutputs).max().unwrap_or(0);
        let source_text = match self.options.source_text.is_empty() {
            true => unparse::flat_config(&spec, &self.options.requirements),
            false => self.options.source_text.clone(),
        };
        let driver = (0..n).find(|i| {
            let e = nodes[*i].elem.as_ref();
            e.is_some_and(|e| e.is_driver_script())
        });
        let topo = Arc::new(Topology {
            class: class.iter().flatten().copied().collect(),
            spec,
            names,
            classes,
            ports: hookup.ports,
            in_proc: hookup.in_proc,
            out_proc: hookup.out_proc,
            out_edge: hookup.out_edge,
            in_edge: hookup.in_edge,
            order,
            rank,
        });
        let mut core = Core {
            run_list: RunList::new(n),
            timers: Timers::default(),
            now: self.options.start,
            ingress: None,
            seed: self.options.seed,
            stack: Vec::new(),
            together: Default::default(),
            late: VecDeque::new(),
            late_calls: VecDeque::new(),
            steps: 0,
            activity: 0,
            pull_depth: 0,
            handler_depth: 0,
            run_count: 1,
            stop_flag: false,
            overruns: 0,
            log: self.options.log.clone(),
            printed: Vec::new(),
            trace: None,
            wake_pullers: vec![None; n],
            wake_pushers: vec![None; n],
            full_queues: Default::default(),
            configs: Default::default(),
            names: Arc::new(db),
            source_text,
            requirements: self.options.requirements.clone(),
            driver: driver.map(|d| d as u32),
            changes: 0,
            changed: Default::default(),
            told: Default::default(),
            rules: None,
            nodes,
            topo,
        };
        let mut out = Outbox::default();
        // More lanes than an element has outputs are never used; an element with very many falls back to the ordered list.
        out.lanes
            .resize_with((widest as usize).min(MAX_LANES), Vec::new);
        if !stdout.is_empty() {
            core.write(LogStream::Stdout, &stdout);
        }
        core.start(&mut out, &mut store);
        Ok(Graph {
            roles: io_roles(&core),
            core,
            out,
            store,
            packets_in: 0,
            warnings: self.diags,
        })
    }

    fn failed(&self) -> bool {
        self.diags.iter().any(|d| d.severity == Severity::Error)
    }

    fn unknown_classes(&mut self, spec: &GraphSpec, class: &[Option<&'static ElementClass>]) {
        for (e, c) in spec.elements.iter().zip(class) {
            if c.is_some() {
                continue;
            }
            let m = format!("unknown element class '{}'", e.class);
            let mut d = Diagnostic::new(Stage::Classes, e.decl.clone(), m).about(&e.name, &e.class);
            let near: Vec<String> = onefold_elements::near_misses(&e.class)
                .iter()
                .map(|n| format!("'{n}'"))
                .collect();
            if !near.is_empty() {
                d.hint = Some(format!("did you mean {}?", near.join(" or ")));
            }
            self.diags.push(d);
        }
    }

    fn config_errors(&mut self, spec: &GraphSpec, i: usize, stage: Stage, errors: ConfigErrors) {
        let e = &spec.elements[i];
        for error in errors {
            let loc = match error.index {
                Some(k) => spec.arg_loc(i, k),
                None => e.decl.clone(),
            };
            let d = Diagnostic::of_config(stage, error, loc, e.decl.clone());
            self.diags.push(d.about(&e.name, &e.class));
        }
    }

    fn one_driver(&mut self, spec: &GraphSpec, elems: &[Option<Box<dyn Element>>]) {
        let drivers = elems
            .iter()
            .enumerate()
            .filter(|(_, e)| e.as_ref().is_some_and(|e| e.is_driver_script()));
        for (i, _) in drivers.skip(1) {
            let e = &spec.elements[i];
            let m = "router has more than one driver script";
            let d = Diagnostic::new(Stage::Configure, e.decl.clone(), m);
            self.diags.push(d.about(&e.name, &e.class));
        }
    }
}

fn io_roles(core: &Core) -> Vec<(ElemId, IoRole)> {
    (core.nodes.iter().enumerate())
        .filter_map(|(i, n)| Some((ElemId(i as u32), n.elem.as_ref()?.io_role()?)))
        .collect()
}

impl Core {
    /// Schedules the first tasks and timers and tells every element that the graph is up.
    fn start(&mut self, out: &mut Outbox, store: &mut StateStore) {
        let order = self.topo.order.clone();
        for i in 0..self.nodes.len() as u32 {
            let e = self.nodes[i as usize].elem.as_ref();
            let tickets = e.map_or(Vec::new(), |e| e.tickets().to_vec());
            for (name, n) in tickets {
                if let Some(e) = self.find_element(ElemId(i), &name) {
                    self.run_list.set_tickets(e.0, n);
                }
            }
        }
        for &i in &order {
            let n = &self.nodes[i as usize];
            let Some(e) = n.elem.as_ref() else { continue };
            let (task, timers) = (n.has_task && e.task_active(), e.initial_timers());
            if task {
                self.run_list.wake(i);
            }
            for (timer, delay) in timers {
                self.timers.set(i, timer, self.now + delay);
            }
            let mark = out.effects.len();
            self.with(i, out, store, |e, cx| e.started(cx));
            self.settle(i, mark, out, store);
        }
        self.run_late(out, store);
    }
}
