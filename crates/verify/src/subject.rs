//! An execution of a chain, as a comparison sees it.

use onefold_element::{ElemId, LogStream};
use onefold_engine::flow::{FlowRunner, FlowStats};
use onefold_engine::program::{ProgramRunner, ProgramStep, Report};
use onefold_engine::{Decision, DropCount, Graph, Totals, TraceStep, Visits};
use onefold_packet::{Pkt, Timestamp};

/// What has left a chain, in order, in one piece of memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Sink, time stamp, end of the bytes.
    heads: Vec<(ElemId, Timestamp, usize)>,
    bytes: Vec<u8>,
}

impl Outputs {
    /// Nothing has left.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.bytes.clear();
    }
    /// One more.
    pub fn push(&mut self, sink: ElemId, at: Timestamp, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.heads.push((sink, at, self.bytes.len()));
    }
    /// How many.
    pub fn len(&self) -> usize {
        self.heads.len()
    }
    /// None.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
    /// Sink, time stamp and bytes of one.
    pub fn get(&self, i: usize) -> Option<(ElemId, Timestamp, &[u8])> {
        let (sink, at, end) = *self.heads.get(i)?;
        let start = match i {
            0 => 0,
            _ => self.heads.get(i - 1)?.2,
        };
        Some((sink, at, self.bytes.get(start..end)?))
    }
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (ElemId, Timestamp, &[u8])> {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}

/// One execution of a chain.
pub trait Subject {
    /// What it is called in reports.
    fn name(&self) -> &'static str;
    /// A copy, state and all, with the same seed.
    fn fork(&self) -> Box<dyn Subject>;
    /// Frames arrive at a source, all at one time; at least one.
    fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp);
    /// Frames arrive at a source, each at its own time, none before the one in front of it.
    fn inject_stamped(&mut self, source: ElemId, frames: &[(&[u8], Timestamp)]) {
        for (f, at) in frames {
            self.inject(source, &[f], *at);
        }
    }
    /// Are batches invisible: is what comes of one exactly what comes of its frames one by one, each at its own time?
    fn exact(&self) -> bool {
        false
    }
    /// A frame arrives. Which elements did it, or what was made of it, come to? Only the reference graph can tell.
    fn inject_and_tell(&mut self, source: ElemId, frame: &[u8], at: Timestamp) -> Visits {
        self.inject(source, &[frame], at);
        Visits::default()
    }
    /// The clock moves on.
    fn advance(&mut self, at: Timestamp);
    /// A rewriter forgets its flows: its handler `clear` is written to. Nothing happens where there is none.
    fn clear(&mut self, elem: ElemId);
    /// What has left since the last call, in order, is added to `into`.
    fn outputs(&mut self, into: &mut Outputs);
    /// Drops by element and reason, sorted.
    fn drops(&self) -> Vec<DropCount>;
    /// The account.
    fn totals(&self) -> Totals;
    /// States and handler values.
    fn state(&mut self) -> Vec<(String, String)>;
    /// Starts to note what happens to packets.
    fn start_trace(&mut self);
    /// What has been noted, a line each.
    fn take_trace(&mut self) -> Vec<String>;
    /// What elements print is kept from now on; copies do not.
    fn keep_printed(&mut self) {}
    /// What elements have printed since the last call.
    fn printed(&mut self) -> String {
        String::new()
    }
    /// Of a program: notes which rules take packets, from now on.
    fn watch(&mut self) {}
    /// Of a program: the rules since [`Subject::watch`], which ends.
    fn watched(&mut self) -> Vec<ProgramStep> {
        Vec::new()
    }
    /// Of a program: what it has counted.
    fn report(&self) -> Option<Report> {
        None
    }
    /// Of a flow table: what it has done.
    fn flow_stats(&self) -> Option<FlowStats> {
        None
    }
    /// Of an execution with several levels: packets by level, in the order of [`onefold_engine::Level::ALL`].
    fn levels(&self) -> Option<[u64; 3]> {
        None
    }
    /// Of a flow table: why packets that could have had an entry have none.
    fn flow_causes(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A synthesized program.
pub struct Synthesized(pub ProgramRunner);

impl Subject for Synthesized {
    fn name(&self) -> &'static str {
        "program"
    }
    fn fork(&self) -> Box<dyn Subject> {
        Box::new(Synthesized(self.0.fork()))
    }
    fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp) {
        for f in frames {
            self.0.inject(source, f, at);
        }
    }
    fn advance(&mut self, at: Timestamp) {
        self.0.advance_to(at);
    }
    fn clear(&mut self, elem: ElemId) {
        clear(self.0.graph_mut(), elem);
    }
    fn outputs(&mut self, into: &mut Outputs) {
        collect(self.0.graph_mut(), into);
    }
    fn drops(&self) -> Vec<DropCount> {
        self.0.graph().drops()
    }
    fn totals(&self) -> Totals {
        self.0.graph().totals()
    }
    fn state(&mut self) -> Vec<(String, String)> {
        self.0.graph_mut().state_summary()
    }
    fn keep_printed(&mut self) {
        self.0.graph_mut().keep_printed();
    }
    fn printed(&mut self) -> String {
        text(self.0.graph_mut().take_printed())
    }
    fn start_trace(&mut self) {
        self.0.start_trace();
    }
    fn take_trace(&mut self) -> Vec<String> {
        let (program, steps, truncated) = self.0.take_trace();
        program_lines(&self.0, &program, &steps, truncated)
    }
    fn watch(&mut self) {
        self.0.start_trace();
    }
    fn watched(&mut self) -> Vec<ProgramStep> {
        self.0.take_trace().0
    }
    fn report(&self) -> Option<Report> {
        Some(self.0.report())
    }
}

/// A program with a flow table in front.
pub struct Flow {
    runner: FlowRunner,
    batch: Vec<Pkt>,
}

impl Flow {
    /// With room for so many flows, each of which is remembered.
    pub fn new(runner: ProgramRunner, flows: usize) -> Flow {
        Flow {
            runner: FlowRunner::new(runner, flows).always(),
            batch: Vec::new(),
        }
    }

    /// As `onefold run` executes chains, with room for so many flows: every level, whichever costs least by a clock
    /// that the seed drives.
    pub fn auto(runner: ProgramRunner, flows: usize, seed: u64) -> Flow {
        Flow {
            runner: FlowRunner::seeded(runner, flows, seed),
            batch: Vec::new(),
        }
    }
}

impl Subject for Flow {
    fn name(&self) -> &'static str {
        self.runner.forced().map_or("auto", |l| l.name())
    }
    fn fork(&self) -> Box<dyn Subject> {
        Box::new(Flow {
            runner: self.runner.fork(),
            batch: Vec::new(),
        })
    }
    fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp) {
        for f in frames {
            let mut p = self.runner.make_packet(f);
            p.anno.timestamp = at;
            self.batch.push(p);
        }
        self.runner.inject_batch(source, &mut self.batch, at);
    }
    fn inject_stamped(&mut self, source: ElemId, frames: &[(&[u8], Timestamp)]) {
        for (f, at) in frames {
            let mut p = self.runner.make_packet(f);
            p.anno.timestamp = *at;
            self.batch.push(p);
        }
        self.runner.inject_stamped(source, &mut self.batch);
    }
    fn exact(&self) -> bool {
        true
    }
    fn levels(&self) -> Option<[u64; 3]> {
        Some(self.runner.levels())
    }
    fn advance(&mut self, at: Timestamp) {
        self.runner.advance_to(at);
    }
    fn clear(&mut self, elem: ElemId) {
        clear(self.runner.graph_mut(), elem);
    }
    fn outputs(&mut self, into: &mut Outputs) {
        self.runner
            .drain_transmitted(|e, p| into.push(e, p.anno.timestamp, p.data()));
    }
    fn drops(&self) -> Vec<DropCount> {
        self.runner.drops()
    }
    fn totals(&self) -> Totals {
        self.runner.totals()
    }
    fn state(&mut self) -> Vec<(String, String)> {
        self.runner.graph_mut().state_summary()
    }
    fn keep_printed(&mut self) {
        self.runner.graph_mut().keep_printed();
    }
    fn printed(&mut self) -> String {
        text(self.runner.graph_mut().take_printed())
    }
    fn start_trace(&mut self) {
        self.runner.runner().start_trace();
    }
    fn take_trace(&mut self) -> Vec<String> {
        let runner = self.runner.runner();
        let (program, steps, truncated) = runner.take_trace();
        program_lines(runner, &program, &steps, truncated)
    }
    fn watch(&mut self) {
        self.runner.runner().start_trace();
    }
    fn watched(&mut self) -> Vec<ProgramStep> {
        self.runner.runner().take_trace().0
    }
    fn report(&self) -> Option<Report> {
        Some(self.runner.report())
    }
    fn flow_stats(&self) -> Option<FlowStats> {
        Some(self.runner.stats())
    }
    fn flow_causes(&self) -> Vec<(&'static str, u64)> {
        self.runner.causes().to_vec()
    }
}

/// A trace, a line each.
fn program_lines(
    runner: &ProgramRunner,
    program: &[ProgramStep],
    steps: &[TraceStep],
    truncated: bool,
) -> Vec<String> {
    let mut all: Vec<String> = program
        .iter()
        .map(|s| stage_line(s, runner.graph()))
        .collect();
    if !steps.is_empty() {
        all.push("in the reference graph:".to_string());
        let steps = lines(steps, truncated);
        all.extend(steps.into_iter().map(|l| format!("  {l}")));
    }
    all
}

/// A rewriter that has no such handler keeps its flows, in every execution alike.
fn clear(graph: &mut Graph, elem: ElemId) {
    let call = format!("{}.clear", graph.name(elem));
    let _refused = graph.write_handler(&call, "");
}

fn text(printed: Vec<(LogStream, Vec<u8>)>) -> String {
    let line = |(_, b): &(LogStream, Vec<u8>)| String::from_utf8_lossy(b).into_owned();
    printed.iter().map(line).collect()
}

fn stage_line(s: &ProgramStep, graph: &Graph) -> String {
    let mut line = match s.rule {
        Some(r) => format!("stage {} rule {r}", s.stage),
        None => format!("stage {}: no rule fits", s.stage),
    };
    for (e, len) in &s.counted {
        line.push_str(&format!("; {} counts {len} bytes", graph.name(*e)));
    }
    for (e, b) in &s.bound {
        let a = |a: u32| std::net::Ipv4Addr::from(a);
        line.push_str(&format!(
            "; {}: {} mapping ({}, {}, {}, {}), output {}",
            graph.name(*e),
            if b.reply { "reply" } else { "forward" },
            a(b.saddr),
            b.sport,
            a(b.daddr),
            b.dport,
            b.output
        ));
    }
    if let Some(n) = s.left {
        line.push_str(&format!("; left the chain, {n} bytes"));
    }
    line
}

/// The reference graph: scalar, as written.
pub struct Reference(pub Graph);

/// The batched engine over the reference graph.
pub struct Batched(pub Graph, Vec<Pkt>);

impl Batched {
    /// Runs this graph in batches.
    pub fn new(graph: Graph) -> Self {
        Batched(graph, Vec::new())
    }
}

fn collect(graph: &mut Graph, into: &mut Outputs) {
    graph.drain_transmitted(|e, p| into.push(e, p.anno.timestamp, p.data()));
}

/// The steps of a graph, a line each.
pub fn lines(steps: &[TraceStep], truncated: bool) -> Vec<String> {
    let mut out: Vec<String> = steps.iter().map(line).collect();
    if truncated {
        out.push("(more steps than are kept)".to_string());
    }
    out
}

fn line(s: &TraceStep) -> String {
    let mut parts: Vec<String> = Vec::new();
    for Decision {
        argument,
        loc,
        text,
    } in &s.decisions
    {
        parts.push(match argument {
            Some(_) => format!("{text} (by {loc})"),
            None => text.clone(),
        });
    }
    for (port, len) in &s.outputs {
        parts.push(format!("-> [{port}] ({len} bytes)"));
    }
    parts.extend(s.drops.iter().map(|d| format!("dropped: {d}")));
    if s.transmitted > 0 {
        parts.push("left the chain".to_string());
    }
    format!("{} :: {}: {}", s.name, s.class, parts.join("; "))
}

impl Subject for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }
    fn fork(&self) -> Box<dyn Subject> {
        Box::new(Reference(self.0.fork()))
    }
    fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp) {
        for f in frames {
            self.0.inject(source, f, at);
        }
    }
    fn inject_and_tell(&mut self, source: ElemId, frame: &[u8], at: Timestamp) -> Visits {
        self.0.start_visits();
        self.0.inject(source, frame, at);
        self.0.take_visits()
    }
    fn advance(&mut self, at: Timestamp) {
        self.0.advance_to(at);
    }
    fn clear(&mut self, elem: ElemId) {
        clear(&mut self.0, elem);
    }
    fn outputs(&mut self, into: &mut Outputs) {
        collect(&mut self.0, into);
    }
    fn drops(&self) -> Vec<DropCount> {
        self.0.drops()
    }
    fn totals(&self) -> Totals {
        self.0.totals()
    }
    fn state(&mut self) -> Vec<(String, String)> {
        self.0.state_summary()
    }
    fn keep_printed(&mut self) {
        self.0.keep_printed();
    }
    fn printed(&mut self) -> String {
        text(self.0.take_printed())
    }
    fn start_trace(&mut self) {
        self.0.start_trace();
    }
    fn take_trace(&mut self) -> Vec<String> {
        let (steps, truncated) = self.0.take_trace();
        lines(&steps, truncated)
    }
}

impl Subject for Batched {
    fn name(&self) -> &'static str {
        "batched"
    }
    fn fork(&self) -> Box<dyn Subject> {
        Box::new(Batched::new(self.0.fork()))
    }
    fn inject(&mut self, source: ElemId, frames: &[&[u8]], at: Timestamp) {
        for f in frames {
            let mut p = self.0.make_packet(f);
            p.anno.timestamp = at;
            self.1.push(p);
        }
        self.0.inject_batch(source, &mut self.1, at);
    }
    fn inject_stamped(&mut self, source: ElemId, frames: &[(&[u8], Timestamp)]) {
        for (f, at) in frames {
            let mut p = self.0.make_packet(f);
            p.anno.timestamp = *at;
            self.1.push(p);
        }
        self.0.inject_stamped(source, &mut self.1);
    }
    fn exact(&self) -> bool {
        true
    }
    fn advance(&mut self, at: Timestamp) {
        self.0.advance_to(at);
    }
    fn clear(&mut self, elem: ElemId) {
        clear(&mut self.0, elem);
    }
    fn outputs(&mut self, into: &mut Outputs) {
        collect(&mut self.0, into);
    }
    fn drops(&self) -> Vec<DropCount> {
        self.0.drops()
    }
    fn totals(&self) -> Totals {
        self.0.totals()
    }
    fn state(&mut self) -> Vec<(String, String)> {
        self.0.state_summary()
    }
    fn keep_printed(&mut self) {
        self.0.keep_printed();
    }
    fn printed(&mut self) -> String {
        text(self.0.take_printed())
    }
    fn start_trace(&mut self) {
        self.0.start_trace();
    }
    fn take_trace(&mut self) -> Vec<String> {
        let (steps, truncated) = self.0.take_trace();
        lines(&steps, truncated)
    }
}
