//! Shadow mode: some of the packets that a program takes also go through the reference graph, on a copy of the state, and both
//! must do the same.
//!
//! A [`Shadow`] is a [`FlowRunner`] that opens *windows*. As long as anything is watched, its packets go one by one, and through the program:
//! what the flow table does is compared elsewhere (`onefold verify --level flow`). When one opens, the graph is copied, state, clock and random numbers
//! and all: the *twin*. Until it ends, every packet that arrives, at whatever entry, goes through the program and then through
//! the twin. So the twin sees what the program sees and makes the same choices (a binding's port, a balancer's server), and nothing
//! that it does is seen: what leaves it is compared and thrown away, it prints nowhere and has no open files.
//!
//! After every packet: what left (sink, bytes, time stamp, order), drops by element and reason, packets made, dropped and sent. When the
//! window ends, for one window in eight: all shared states and the values of all handlers. On a difference the classes on the packet's way *fall back*
//! ([`ProgramRunner::fall_back`]): the reference graph takes their packets from then on.
//!
//! When a window opens:
//! - at a packet of a class that is watched, with the probability that gives the rate that was asked for;
//! - at one of the first packets of such a class, so that rare classes are looked at, too, unless a window has just ended or twice
//!   as many packets were compared as the rate says;
//! - always, with a rate of one.
//!
//! Costs: while no window is open, a look-up in a table per packet. A window: a copy of the graph when it opens, the reference graph's
//! time per packet. One whose states are compared: another copy when it opens (to find out which packet made them differ), two more
//! and all summaries when it ends, which is most of the time where tables are big. It needs up to five times the state's memory, and its
//! packets' bytes.
//!
//! ```
//! use onefold_engine::program::ProgramRunner;
//! use onefold_engine::shadow::{Options, Shadow};
//! use onefold_engine::{BuildOptions, Graph, spec_from_flat};
//! let text = "FromDevice(a) -> c :: Counter -> Discard;";
//! let flat = onefold_click::load(text.as_bytes(), "demo.click", &[], &Default::default()).unwrap();
//! let graph = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap();
//! let a = graph.source("a").unwrap();
//! let program = onefold_synth::synthesize(&graph.synthesis_input(), Default::default());
//! let mut shadow = Shadow::new(ProgramRunner::with_program(graph, &program).unwrap());
//! shadow.watch(&program, Options { rate: 1.0, ..Options::default() });
//! shadow.inject(a, &[0; 60], Default::default());
//! shadow.end_window();
//! assert_eq!((shadow.report().compared, shadow.report().mismatches), (1, 0));
//! ```

pub(crate) mod reach;
pub(crate) mod window;

pub use crate::shadow::window::{What, around};

use crate::flow::FlowRunner;
use crate::graph::random;
use crate::graph::reference::Graph;
use crate::level::Level;
use crate::program::ProgramRunner;
use crate::program::error::LoadError;
use crate::program::plan::Plan;
use crate::program::trace::Passed;
use crate::shadow::window::{Came, Differs, Window};
use onefold_element::ElemId;
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::program::Program;
use std::collections::BTreeSet;

/// Packets of a window when every packet is compared: states are compared after so many.
const ALL_WINDOW: u32 = 4096;
/// States are compared at the end of one window in so many; of every one when every packet is compared.
const STATES: u64 = 8;
/// Windows that may open for the first packets of classes, whatever the rate.
const FREE_WINDOWS: u64 = 16;
/// Random numbers of an element that there is not.
const NOBODY: u32 = u32::MAX;
/// Classes that a window compares at one of their first packets: so many of each.
const FIRST: u32 = 4;

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The share of the packets of watched classes, 0 to 1.
    pub rate: f64,
    /// Classes (stage, action) that are in doubt; packets that may come to one are watched. `None`: all.
    pub classes: Option<BTreeSet<(usize, usize)>>,
    /// Packets of a window.
    pub window: u32,
    /// Seed of the choice of packets.
    pub seed: u64,
    /// Differences that are kept with their packets; more are only counted.
    pub keep: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            rate: 0.01,
            classes: None,
            window: 512,
            seed: 1,
            keep: 100,
        }
    }
}

/// A packet with which program and reference differed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// Which packet since the shadow was made, from 1.
    pub number: u64,
    /// Where it came in.
    pub source: ElemId,
    /// When.
    pub at: Timestamp,
    /// The frame.
    pub frame: Vec<u8>,
    /// What differed.
    pub what: What,
    /// Where.
    pub place: String,
    /// In the reference graph.
    pub reference: String,
    /// With the program.
    pub program: String,
    /// Classes (stage, action) that have fallen back because of it; those that had before are not told again.
    pub fallen: Vec<(usize, usize)>,
    /// The packet was found by running the window again. Otherwise, of a difference in state, it is the window's last.
    pub located: bool,
}

/// What has been compared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Windows that were opened.
    pub windows: u64,
    /// Packets that went both ways.
    pub compared: u64,
    /// Comparisons of all states.
    pub states: u64,
    /// Differences.
    pub mismatches: u64,
    /// The first of them.
    pub kept: Vec<Mismatch>,
    /// Classes of entries that are watched in the present program, and how many of those have been compared.
    pub watched: usize,
    /// See `watched`.
    pub seen: usize,
    /// Classes that have fallen back, of all programs so far.
    pub fallen: usize,
}

impl Report {
    /// In one line.
    pub fn line(&self) -> String {
        format!(
            "{} packets compared in {} windows, {} of {} watched classes among them; {} differences, {} classes fell back",
            self.compared, self.windows, self.seen, self.watched, self.mismatches, self.fallen
        )
    }
}

/// What is watched.
struct Watch {
    options: Options,
    /// By action: packets that enter with it are watched.
    watched: Vec<bool>,
    /// By action: packets that were compared.
    compared: Vec<u32>,
    window: Option<Window>,
    /// Packets since the last window ended.
    since: u32,
}

/// A program that is compared with its reference graph while it runs.
pub struct Shadow {
    runner: FlowRunner,
    watch: Option<Box<Watch>>,
    packets: u64,
    report: Report,
}

impl Shadow {
    /// Of a program alone. Nothing is compared yet.
    pub fn new(runner: ProgramRunner) -> Shadow {
        let mut runner = FlowRunner::new(runner, 1);
        runner.force(Some(Level::Program));
        Shadow::over(runner)
    }

    /// Nothing is compared yet.
    pub fn over(runner: FlowRunner) -> Shadow {
        Shadow {
            runner,
            watch: None,
            packets: 0,
            report: Report::default(),
        }
    }

    /// Compares from now on; the program is the one that the runner has loaded.
    pub fn watch(&mut self, program: &Program, options: Options) {
        self.end_window();
        let entered = match &options.classes {
            None => crate::shadow::reach::all(program),
            Some(c) => crate::shadow::reach::entries_to(program, c),
        };
        let actions = program.stages.iter().map(|s| s.actions.len()).sum();
        let mut watched = vec![false; actions];
        for (stage, action) in entered {
            let at = self.runner.program().action_of(stage, action);
            if let Some(w) = at.and_then(|i| watched.get_mut(i)) {
                *w = true;
            }
        }
        self.watch = Some(Box::new(Watch {
            compared: vec![0; actions],
            since: options.window,
            watched,
            options,
            window: None,
        }));
    }

    /// Nothing is compared any more.
    pub fn stop(&mut self) {
        self.end_window();
        self.watch = None;
    }

    /// Another program goes on; nothing is compared until [`Shadow::watch`] is called.
    ///
    /// # Errors
    /// When the program is not one for this graph, or not well-formed; the old one stays then.
    pub fn load(&mut self, program: &Program) -> Result<(), LoadError> {
        self.stop();
        self.runner.load(program)
    }

    /// As [`Shadow::load`], with all that takes time done already.
    ///
    /// # Errors
    /// As [`ProgramRunner::install`].
    pub fn install(&mut self, plan: Plan) -> Result<(), LoadError> {
        self.stop();
        self.runner.install(plan)
    }

    /// The program. Its elements may not have been told of the last packets.
    pub fn runner(&self) -> &ProgramRunner {
        self.runner.program()
    }
    /// The program and its graph, to take out what has left. Whoever changes the graph (writes to a handler, moves the clock) calls
    /// [`Shadow::end_window`] before: the twin does not see it.
    pub fn runner_mut(&mut self) -> &mut ProgramRunner {
        self.runner.runner()
    }
    /// Program and flow table.
    pub fn flow(&self) -> &FlowRunner {
        &self.runner
    }
    /// The same, to take out what has left.
    pub fn flow_mut(&mut self) -> &mut FlowRunner {
        &mut self.runner
    }

    /// Is anything compared?
    pub fn is_watching(&self) -> bool {
        self.watch.is_some()
    }
    /// Differences so far.
    pub fn mismatches(&self) -> u64 {
        self.report.mismatches
    }
    /// The first of them, with their packets.
    pub fn kept(&self) -> &[Mismatch] {
        &self.report.kept
    }

    /// What has been compared so far.
    pub fn report(&self) -> Report {
        let mut r = self.report.clone();
        if let Some(w) = &self.watch {
            let both = w.watched.iter().zip(&w.compared).filter(|(w, _)| **w);
            r.watched = both.clone().count();
            r.seen = both.filter(|(_, n)| **n > 0).count();
        }
        r
    }

    /// As [`ProgramRunner::inject`].
    pub fn inject(&mut self, source: ElemId, data: &[u8], at: Timestamp) {
        self.packets += 1;
        match self.watch {
            None => self.runner.inject(source, data, at),
            Some(_) => self.inject_watched(source, data, at),
        }
    }

    /// As [`FlowRunner::inject_stamped`].
    pub fn inject_stamped(&mut self, source: ElemId, batch: &mut Vec<Pkt>) {
        if self.watch.is_none() {
            self.packets += batch.len() as u64;
            return self.runner.inject_stamped(source, batch);
        }
        for p in batch.drain(..) {
            self.packets += 1;
            self.inject_watched(source, p.data(), p.anno.timestamp);
            self.runner.runner().graph_mut().recycle(p);
        }
    }

    fn inject_watched(&mut self, source: ElemId, data: &[u8], at: Timestamp) {
        self.arrive(at);
        let mark = self.runner.graph().out.transmitted.len();
        let mut p = self.runner.graph_mut().make_packet(data);
        p.anno.timestamp = at;
        let Some(first) = self.runner.runner().first_class(source, &p) else {
            // the reference graph itself: nothing to compare
            self.end_window();
            return self.runner.runner().enter(source, p, None);
        };
        let Some(w) = self.watch.as_deref_mut() else {
            return self.runner.runner().enter(source, p, Some(first));
        };
        if w.window.is_none() && w.wants(first.action, self.packets, &self.report) {
            // the first of each group, so that short runs have one, too
            let states = w.options.rate >= 1.0 || self.report.windows.is_multiple_of(STATES);
            self.report.windows += 1;
            w.window = Some(Window::open(self.runner.graph(), w.size(), states));
        }
        let Some(window) = &mut w.window else {
            w.since = w.since.saturating_add(1);
            return self.runner.runner().enter(source, p, Some(first));
        };
        self.runner.runner().record_passed();
        self.runner.runner().enter(source, p, Some(first));
        let passed = self.runner.runner().take_passed();
        window.enter(source, data, at, self.packets);
        self.report.compared += 1;
        if let Some(n) = first.action.and_then(|a| w.compared.get_mut(a)) {
            *n = n.saturating_add(1);
        }
        window.passed.extend(passed.iter().copied());
        let last = window.len() - 1;
        match window.compare(self.runner.graph(), mark) {
            Some(d) => {
                let came = window.frame(last).map(|(c, f)| (c, f.to_vec()));
                w.close();
                self.mismatch(came, d, &passed, true);
            }
            None if window.is_full() => self.end_window(),
            None => {}
        }
    }

    /// The clock moves, and the twin's, too. What timers let leave must be the same.
    fn arrive(&mut self, at: Timestamp) {
        let mark = self.runner.graph().out.transmitted.len();
        self.runner.runner().arrive(at);
        let window = self.watch.as_mut().and_then(|w| w.window.as_mut());
        let Some(window) = window else { return };
        window.twin.arrive(at);
        if let Some(d) = window.compare(self.runner.graph(), mark) {
            self.blame(d);
        }
    }

    /// Ends the window that is open, if one is: compares states.
    pub fn end_window(&mut self) {
        let window = self.watch.as_mut().and_then(|w| w.window.as_ref());
        let Some(window) = window else { return };
        let differs = match window.has_start() {
            true => {
                self.report.states += 1;
                window.compare_state(self.runner.graph())
            }
            false => None,
        };
        match differs {
            Some(d) => self.blame(d),
            None => {
                if let Some(w) = &mut self.watch {
                    w.close();
                }
                self.tell();
            }
        }
    }

    /// Something differs that no single packet has shown: finds the one that made it so. Where that fails, every class of the
    /// window falls back.
    fn blame(&mut self, d: Differs) {
        let Some(w) = self.watch.as_deref_mut() else {
            return;
        };
        let Some(window) = w.window.take() else {
            return;
        };
        w.close();
        let (at, d, passed, located) = match window.locate(self.runner.program()) {
            Some((at, found, passed)) => (at, found, passed, true),
            None => {
                let all = window.passed.iter().copied().collect();
                (window.len().saturating_sub(1), d, all, false)
            }
        };
        let came = window.frame(at).map(|(c, f)| (c, f.to_vec()));
        self.mismatch(came, d, &passed, located);
    }

    fn mismatch(
        &mut self,
        came: Option<(Came, Vec<u8>)>,
        d: Differs,
        passed: &[Passed],
        located: bool,
    ) {
        self.report.mismatches += 1;
        let mut fallen = Vec::new();
        for p in passed.iter().filter(|p| p.fresh) {
            if self.runner.runner().fall_back(p.stage, p.action) {
                fallen.push((p.stage, p.action));
            }
        }
        self.report.fallen += fallen.len();
        let keep = self.watch.as_ref().map_or(0, |w| w.options.keep);
        if let Some((came, frame)) = came
            && self.report.kept.len() < keep
        {
            self.report.kept.push(Mismatch {
                number: came.number,
                source: came.source,
                at: came.at,
                frame,
                what: d.what,
                place: d.place,
                reference: d.reference,
                program: d.program,
                fallen,
                located,
            });
        }
        self.tell();
    }

    /// The handler `shadow` says how it stands.
    fn tell(&mut self) {
        let text = self.report().line() + "\n";
        self.runner.graph_mut().tell("shadow", text);
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        self.runner.graph()
    }
}

impl Watch {
    /// Packets of the next window.
    fn size(&self) -> u32 {
        match self.options.rate >= 1.0 {
            true => self.options.window.max(ALL_WINDOW),
            false => self.options.window.max(1),
        }
    }

    /// Shall a window open at this packet, which enters with this action?
    fn wants(&self, action: Option<usize>, number: u64, so_far: &Report) -> bool {
        let o = &self.options;
        let watched = action.and_then(|a| self.watched.get(a)).copied();
        if watched != Some(true) || o.rate <= 0.0 {
            // of no class: the reference graph takes it
            return false;
        }
        if o.rate >= 1.0 {
            return true;
        }
        let compared = action.and_then(|a| self.compared.get(a)).copied();
        // however many classes there are: not more than twice as many packets as were asked for
        let affordable =
            so_far.windows < FREE_WINDOWS || so_far.compared as f64 <= 2.0 * o.rate * number as f64;
        if affordable && compared.is_some_and(|n| n < FIRST) && self.since >= o.window {
            return true;
        }
        let draw = f64::from(random::draw(o.seed, NOBODY, number)) / f64::from(u32::MAX);
        draw < o.rate / f64::from(o.window.max(1))
    }

    fn close(&mut self) {
        self.window = None;
        self.since = 0;
    }
}
