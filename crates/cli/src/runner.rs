//! Captures through a chain: frames merged by time, one clock, an account of every packet.

use crate::common;
use crate::deploy::Renewal;
use crate::progress::Progress;
use crate::shadow::ShadowLog;
use anyhow::{Context, Result, bail};
use onefold_chain::Chain;
use onefold_elements::{ElemId, SourceLoc};
use onefold_engine::program::Report;
use onefold_engine::shadow::Shadow;
use onefold_engine::{Graph, Totals};
use onefold_io::{CaptureReader, CaptureWriter, Format, LinkType, Merge};
use onefold_packet::Timestamp;
use onefold_verify::generate::adapt::Adapter;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// What to run.
pub struct Plan {
    /// Port name and capture file.
    pub inputs: Vec<(String, String)>,
    /// Port name and capture file.
    pub outputs: Vec<(String, String)>,
    /// Packets per batch; 1 is the scalar reference engine. More only without a program.
    pub batch: usize,
    /// Frames also come in the forms that fit the chain.
    pub adapter: Option<Adapter>,
    /// Stop after this many packets.
    pub limit: Option<u64>,
    /// Let the clock run on for this long after the last packet.
    pub linger: Timestamp,
    /// No progress bar.
    pub quiet: bool,
}

/// Packets and bytes of a port, one way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Packets that one element dropped for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dropped {
    /// The element; its network function is the first part of its name.
    pub element: String,
    /// Where the operator wrote what it was made from.
    pub place: SourceLoc,
    /// The reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
}

impl Dropped {
    /// The network function.
    pub fn function(&self) -> &str {
        self.element.split('/').next().unwrap_or_default()
    }
    /// `nat: no mapping for this inbound packet`.
    pub fn told(&self) -> String {
        format!("{}: {}", self.function(), self.reason)
    }
    /// `nat/rw, chain.yaml:12`.
    pub fn at(&self) -> String {
        match (self.place.file.is_empty(), self.place.line) {
            (false, line @ 1..) => format!("{}, {}:{line}", self.element, self.place.file),
            _ => self.element.clone(),
        }
    }
}

/// What happened.
pub struct Outcome {
    /// The account.
    pub totals: Totals,
    /// Port name -> (in, out), in the order of the chain file.
    pub ports: Vec<(String, Count, Count)>,
    /// Reason -> packets.
    pub drops: BTreeMap<String, u64>,
    /// By element and reason, most first.
    pub drops_by_element: Vec<Dropped>,
    /// Seconds of real time, reading and writing included.
    pub seconds: f64,
    /// Seconds of capture time.
    pub span: f64,
    /// Remarks: damaged captures, foreign link types.
    pub warnings: Vec<String>,
    /// Ctrl-C ended it early.
    pub interrupted: bool,
    /// Work cut short by the engine's bounds.
    pub overruns: u64,
    /// What the program did, if there was one.
    pub program: Option<Report>,
    /// Programs that were made because handlers had changed models.
    pub renewed: u32,
}

/// Set by the signals that end a run.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// The first of them; zero: none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Makes Ctrl-C and SIGTERM set a flag instead of ending the program; the second of them ends it at once.
pub fn catch_interrupt() {
    for signal in [SIGINT, SIGTERM] {
        // Registering fails for signals that cannot be caught only. What is registered first is done first: a signal
        // that finds the flag set ends the program.
        let _ = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&INTERRUPTED));
        let _ = flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize);
        let _ = flag::register(signal, Arc::clone(&INTERRUPTED));
    }
}

/// The flag that Ctrl-C and SIGTERM set.
pub fn interrupted() -> &'static AtomicBool {
    &INTERRUPTED
}

/// The exit status of what holds as far as it went, if a signal ended it: 130 behind Ctrl-C, 143 behind SIGTERM.
pub fn status(holds: u8) -> u8 {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => holds,
        _ if holds != common::HOLDS => holds,
        signal => u8::try_from(128 + signal).unwrap_or(u8::MAX),
    }
}

/// The same as analyses of `onefold_verify` ask for it.
pub fn stop() -> onefold_verify::Stop {
    onefold_verify::Stop::when(interrupted())
}

/// The chain's ports by name, for binding files to them.
pub fn find_port(chain: &Chain, name: &str, entry: bool) -> Result<usize> {
    let known = |want_entry: bool| -> Vec<&str> {
        let has = |p: &&onefold_chain::ChainPort| {
            if want_entry {
                p.source.is_some()
            } else {
                !p.sinks.is_empty()
            }
        };
        chain
            .ports
            .iter()
            .filter(has)
            .map(|p| p.name.as_str())
            .collect()
    };
    let list = known(entry).join(", ");
    let way = if entry { "enter" } else { "leave" };
    match chain.ports.iter().position(|p| p.name == name) {
        None => bail!("the chain has no port '{name}'; packets {way} at: {list}"),
        Some(i) if entry && chain.ports[i].source.is_none() => {
            bail!("no packets enter at port '{name}'; they do at: {list}")
        }
        Some(i) if !entry && chain.ports[i].sinks.is_empty() => {
            bail!("no packets leave at port '{name}'; they do at: {list}")
        }
        Some(i) => Ok(i),
    }
}

/// Looks whether every file is bound to a port that there is, and outputs can be written where they are to be: before anything
/// takes time. `spec` is the chain as on the command line.
///
/// # Errors
/// A port is not there or has no such way, or a file is bound twice or cannot be.
pub fn check_bindings(
    chain: &Chain,
    spec: &str,
    inputs: &[(String, String)],
    outputs: &[(String, String)],
) -> Result<()> {
    for (port, file) in inputs {
        find_port(chain, port, true)?;
        if !Path::new(file).exists() {
            bail!(
                "there is no file '{file}'; hint: `onefold gen --for {spec} --out {file}` makes packets that the chain lets pass"
            );
        }
    }
    let mut taken = Vec::new();
    for (port, file) in outputs {
        let i = find_port(chain, port, false)?;
        if taken.contains(&i) {
            bail!("port '{port}' has two output files");
        }
        taken.push(i);
        if inputs.iter().any(|(_, f)| same_file(f, file)) {
            bail!("'{file}' is an input and an output");
        }
        Format::from_path(file)?;
        let folder = Path::new(file)
            .parent()
            .filter(|p| !p.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|f| !f.is_dir()) {
            bail!("'{file}': there is no folder '{}'", folder.display());
        }
    }
    Ok(())
}

/// The time of the first frame of all inputs, which starts the clock.
pub fn first_time(inputs: &[(String, String)]) -> Result<Timestamp> {
    let mut first: Option<i64> = None;
    for (_, file) in inputs {
        let mut r = CaptureReader::open(file)?;
        let mut buf = Vec::new();
        if let Some(Ok(m)) = r.next_into(&mut buf) {
            first = Some(first.map_or(m.ts_ns, |f| f.min(m.ts_ns)));
        }
    }
    Ok(Timestamp(first.unwrap_or(0).max(0)))
}

/// Prints what elements have printed, all of it on standard error: standard output is for the result.
fn forward_prints(graph: &mut Graph) {
    for (_, bytes) in graph.take_printed() {
        // a closed pipe is no reason to stop
        let _ = std::io::stderr().write_all(&bytes);
    }
}

/// Where transmitted packets go.
struct Outputs {
    /// Element -> port.
    port_of: Vec<Option<usize>>,
    writers: Vec<Option<CaptureWriter<File>>>,
    counts: Vec<Count>,
    error: Option<onefold_io::WriteError>,
}

impl Outputs {
    fn collect(&mut self, graph: &mut Graph, now: Timestamp) {
        graph.drain_transmitted_at(|e, p, at| {
            let Some(port) = self.port_of.get(e.0 as usize).copied().flatten() else {
                return;
            };
            self.counts[port].packets += 1;
            self.counts[port].bytes += p.len() as u64;
            if let Some(w) = &mut self.writers[port]
                && self.error.is_none()
            {
                let at = at.unwrap_or(now);
                self.error = w.write(at.0, p.data(), p.len() as u32).err();
            }
        });
    }
}

/// Runs.
pub fn run(
    chain: &Chain,
    runner: &mut Shadow,
    plan: &Plan,
    renewal: &mut Renewal,
    log: &mut ShadowLog,
) -> Result<Outcome> {
    let mut warnings = Vec::new();
    let mut synthesized = !runner.runner_mut().needs_synthesis();
    let with_program = synthesized;
    let mut readers = Vec::new();
    let mut entries = Vec::new();
    let mut total_bytes = 0;
    for (port, file) in &plan.inputs {
        let i = find_port(chain, port, true)?;
        let reader = CaptureReader::open(file)?;
        total_bytes += std::fs::metadata(file).map(|m| m.len()).unwrap_or(0);
        let source = chain.ports[i].source.unwrap_or(0);
        entries.push((i, ElemId(source as u32)));
        readers.push(reader);
    }
    let mut out = Outputs {
        port_of: vec![None; chain.graph.elements.len()],
        writers: chain.ports.iter().map(|_| None).collect(),
        counts: vec![Count::default(); chain.ports.len()],
        error: None,
    };
    for (i, p) in chain.ports.iter().enumerate() {
        for s in &p.sinks {
            out.port_of[*s] = Some(i);
        }
    }
    for (port, file) in &plan.outputs {
        let i = find_port(chain, port, false)?;
        out.writers[i] = Some(CaptureWriter::create_for(file, LinkType::ETHERNET)?);
    }

    let mut ins = vec![Count::default(); chain.ports.len()];
    let mut merge = Merge::new(readers);
    let mut progress = Progress::new(total_bytes, plan.quiet);
    let start = Instant::now();
    let (mut n, mut bytes) = (0u64, 0u64);
    let (mut first, mut now) = (None, Timestamp::ZERO);
    let mut buf = Vec::new();
    let mut foreign: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    let mut batch = Vec::with_capacity(plan.batch);
    let mut batch_entry = None;
    let mut interrupted = false;
    // forms of the frame that was read last
    let mut adapted = VecDeque::new();
    while plan.limit.is_none_or(|l| n < l) {
        let (input, ts_ns) = match adapted.pop_front() {
            Some((input, ts_ns, frame)) => {
                buf = frame;
                (input, ts_ns)
            }
            None => {
                let Some(next) = merge.next_into(&mut buf) else {
                    break;
                };
                let (input, meta) = match next {
                    Ok(x) => x,
                    Err(e) => {
                        // what was read before the damage has been used; the rest of that file is lost
                        warnings.push(format!("port {}: {}", plan.inputs[e.port].0, e.error));
                        continue;
                    }
                };
                bytes += buf.len() as u64 + 16;
                if meta.link != LinkType::ETHERNET {
                    *foreign.entry((input, meta.link.0)).or_default() += 1;
                }
                let forms = (plan.adapter.iter())
                    .flat_map(|a| a.variants(entries[input].1, meta.link, &buf));
                adapted.extend(forms.map(|(_, f)| (input, meta.ts_ns, f)));
                (input, meta.ts_ns)
            }
        };
        let (port, element) = entries[input];
        n += 1;
        ins[port].packets += 1;
        ins[port].bytes += buf.len() as u64;
        // the clock never goes back, whatever the capture says
        let at = Timestamp(ts_ns).max(now);
        first.get_or_insert(at);
        if plan.batch <= 1 {
            now = at;
            if synthesized && runner.runner_mut().needs_synthesis() {
                synthesized = renewal.renew(runner);
            }
            log.came(input);
            runner.inject(element, &buf, now);
            log.tell(runner)?;
            out.collect(runner.runner_mut().graph_mut(), now);
        } else {
            let graph = runner.runner_mut().graph_mut();
            if let Some(e) = batch_entry
                && (e != element || batch.len() >= plan.batch)
            {
                graph.inject_stamped(e, &mut batch);
                out.collect(graph, now);
            }
            batch_entry = Some(element);
            now = at;
            let mut p = graph.make_packet(&buf);
            p.anno.timestamp = at;
            batch.push(p);
        }
        if n.is_multiple_of(1024) {
            let graph = runner.runner_mut().graph_mut();
            forward_prints(graph);
            let rate = n as f64 / start.elapsed().as_secs_f64().max(1e-9) / 1e6;
            progress.at(bytes, || {
                format!("{} packets, {rate:.2} Mpps", crate::common::thousands(n))
            });
            if out.error.is_some()
                || self::interrupted().load(Ordering::SeqCst)
                || graph.stop_requested()
            {
                interrupted = self::interrupted().load(Ordering::SeqCst);
                break;
            }
        }
    }
    runner.end_window();
    log.tell(runner)?;
    let program = with_program.then(|| runner.runner().report());
    let graph = runner.runner_mut().graph_mut();
    if let (Some(e), false) = (batch_entry, batch.is_empty()) {
        graph.inject_stamped(e, &mut batch);
    }
    if plan.linger > Timestamp::ZERO {
        graph.advance_to(now + plan.linger);
    }
    out.collect(graph, now);
    graph.finish();
    forward_prints(graph);
    progress.finish();
    for (i, w) in out.writers.iter_mut().enumerate() {
        if let Some(w) = w.take() {
            w.finish().with_context(|| {
                format!("writing the capture of port '{}'", chain.ports[i].name)
            })?;
        }
    }
    if let Some(e) = out.error {
        return Err(e.into());
    }
    for ((input, link), count) in foreign {
        let name = LinkType(link)
            .name()
            .map_or(format!("{link}"), |s| format!("{link} ({s})"));
        warnings.push(format!(
            "port {}: {count} frames of link type {name} were treated as Ethernet frames",
            plan.inputs[input].0
        ));
    }
    let seconds = start.elapsed().as_secs_f64();
    let mut drops: BTreeMap<String, u64> = BTreeMap::new();
    let mut by_element = Vec::new();
    for d in graph.drops() {
        *drops.entry(d.reason.to_string()).or_default() += d.packets;
        let element = chain.graph.find(&d.element);
        by_element.push(Dropped {
            place: element
                .map_or_else(SourceLoc::default, |i| chain.graph.elements[i].decl.clone()),
            element: d.element,
            reason: d.reason.to_string(),
            packets: d.packets,
        });
    }
    // those of one number stay as they are, by element and reason
    by_element.sort_by_key(|d| std::cmp::Reverse(d.packets));
    Ok(Outcome {
        totals: graph.totals(),
        ports: chain
            .ports
            .iter()
            .zip(ins)
            .zip(out.counts)
            .map(|((p, i), o)| (p.name.clone(), i, o))
            .collect(),
        drops,
        drops_by_element: by_element,
        seconds,
        span: (now - first.unwrap_or(now)).as_secs_f64(),
        warnings,
        interrupted,
        overruns: graph.overruns(),
        program,
        renewed: renewal.renewed,
    })
}

fn same_file(a: &str, b: &str) -> bool {
    match (std::fs::canonicalize(a), std::fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}
