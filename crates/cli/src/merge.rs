//! What several workers have done, put together; and what they need of the system.

use crate::rules::Row;
use crate::runner::{Dropped, InterfaceReport, Outcome};
use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use onefold_capture::{CaptureReader, Merge};
use onefold_engine::Totals;
use onefold_engine::flow::FlowStats;
use onefold_engine::program::Report;
use onefold_runtime::{Count, LinkState};
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Cores that this process may be executed on.
pub fn cores() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    let all = 0..CpuSet::count();
    all.filter(|c| set.is_set(*c).unwrap_or(false)).collect()
}

/// This thread is executed on this core only. False where the system refuses.
pub fn pin(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core).is_ok() && sched_setaffinity(Pid::from_raw(0), &set).is_ok()
}

/// A file beside `output` (of a stream: among temporary files) that has no name: it takes room until it is closed,
/// however that happens.
///
/// # Errors
/// It cannot be made.
pub fn unnamed(output: &str) -> Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    let beside = match crate::files::is_stream(output) {
        true => std::env::temp_dir().join("onefold"),
        false => PathBuf::from(output),
    };
    let name = format!("{}.part-{}-{n}", beside.display(), std::process::id());
    let path = Path::new(&name);
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .with_context(|| format!("'{name}', for one worker's share of it"))?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Merges what workers have written (pcapng) by time into a capture; at equal times the first worker's comes first.
/// Memory: a frame of each.
///
/// # Errors
/// Something cannot be read or written.
pub fn captures<'a>(parts: impl Iterator<Item = &'a File>, output: &str) -> Result<()> {
    let mut readers = Vec::new();
    for p in parts {
        let mut p = p.try_clone()?;
        p.seek(SeekFrom::Start(0))?;
        readers.push(CaptureReader::from_reader(p)?);
    }
    let mut merge = Merge::new(readers);
    let mut w = onefold_bench::output::capture(output)?;
    let mut frame = Vec::new();
    while let Some(next) = merge.next_into(&mut frame) {
        let (_, meta) = next?;
        w.write(meta.ts_ns, &frame, meta.orig_len)?;
    }
    w.finish()?;
    Ok(())
}

fn add(a: Count, b: Count) -> Count {
    Count {
        packets: a.packets + b.packets,
        bytes: a.bytes + b.bytes,
    }
}

/// All workers' outcomes as one. They ran at the same time: the longest one's time counts, and `merging` behind it.
pub fn outcomes<'a>(all: impl Iterator<Item = &'a Outcome>, merging: f64) -> Outcome {
    let mut sum = Outcome {
        totals: Totals::default(),
        ports: Vec::new(),
        stays: Vec::new(),
        interfaces: Vec::new(),
        drops: Default::default(),
        drops_by_element: Vec::new(),
        seconds: 0.0,
        cpu_seconds: 0.0,
        span: 0.0,
        warnings: Vec::new(),
        interrupted: false,
        overruns: 0,
        program: None,
        levels: [0; 3],
        flow: FlowStats::default(),
        renewed: 0,
        history: None,
    };
    for (i, o) in all.enumerate() {
        let (a, b) = (&mut sum.totals, &o.totals);
        a.packets_in += b.packets_in;
        a.created += b.created;
        a.sent += b.sent;
        a.dropped += b.dropped;
        a.held += b.held;
        if sum.ports.is_empty() {
            sum.ports.clone_from(&o.ports);
        } else {
            for (p, q) in sum.ports.iter_mut().zip(&o.ports) {
                (p.1, p.2) = (add(p.1, q.1), add(p.2, q.2));
            }
        }
        for (reason, n) in &o.drops {
            *sum.drops.entry(reason.clone()).or_default() += n;
        }
        o.drops_by_element
            .iter()
            .for_each(|d| dropped(&mut sum.drops_by_element, d));
        for (name, stayed) in &o.stays {
            match sum.stays.iter_mut().find(|s| s.0 == *name) {
                Some(s) => s.1.add(stayed),
                None => sum.stays.push((name.clone(), stayed.clone())),
            }
        }
        for i in &o.interfaces {
            interface(&mut sum.interfaces, i);
        }
        sum.seconds = sum.seconds.max(o.seconds);
        sum.cpu_seconds += o.cpu_seconds;
        sum.span = sum.span.max(o.span);
        for w in o
            .warnings
            .iter()
            .filter(|w| !sum.warnings.contains(w))
            .collect::<Vec<_>>()
        {
            sum.warnings.push(w.clone());
        }
        sum.interrupted |= o.interrupted;
        sum.overruns += o.overruns;
        sum.renewed += o.renewed;
        sum.levels
            .iter_mut()
            .zip(o.levels)
            .for_each(|(a, b)| *a += b);
        flows(&mut sum.flow, &o.flow);
        match (&mut sum.history, &o.history) {
            (Some(a), Some(b)) => a.add(b),
            (a @ None, b) => a.clone_from(b),
            _ => {}
        }
        sum.program = match (sum.program.take(), &o.program) {
            (None, r) if i == 0 => r.clone(),
            (Some(a), Some(b)) => programs(a, b),
            _ => None,
        };
    }
    sum.drops_by_element
        .sort_by_key(|d| std::cmp::Reverse(d.packets));
    sum.seconds += merging;
    sum
}

fn dropped(all: &mut Vec<Dropped>, d: &Dropped) {
    let same = |o: &&mut Dropped| o.element == d.element && o.reason == d.reason;
    match all.iter_mut().find(same) {
        Some(o) => o.packets += d.packets,
        None => all.push(d.clone()),
    }
}

/// Adds what is known of a port to what others know of it: of its links the worst counts.
pub fn interface(all: &mut Vec<InterfaceReport>, more: &InterfaceReport) {
    let Some(a) = all.iter_mut().find(|a| a.name == more.name) else {
        all.push(more.clone());
        return;
    };
    let worse = |l: LinkState| match l {
        LinkState::Up => 0,
        LinkState::Down => 1,
        LinkState::Gone => 2,
    };
    if worse(more.link) > worse(a.link) {
        a.link = more.link;
    }
    for l in &more.losses {
        match a.losses.iter_mut().find(|o| o.reason == l.reason) {
            Some(o) => o.packets += l.packets,
            None => a.losses.push(*l),
        }
    }
    for (what, n) in &more.counters {
        match a.counters.iter_mut().find(|o| o.0 == *what) {
            Some(o) => o.1 += n,
            None => a.counters.push((what, *n)),
        }
    }
}

fn flows(a: &mut FlowStats, b: &FlowStats) {
    a.hits += b.hits;
    a.by_class += b.by_class;
    a.composed += b.composed;
    a.in_place += b.in_place;
    a.written_once += b.written_once;
    a.inspected_in_batches += b.inspected_in_batches;
    a.leased += b.leased;
    a.misses += b.misses;
    a.resumed += b.resumed;
    a.passed_by += b.passed_by;
    a.others += b.others;
    a.made += b.made;
    a.evicted += b.evicted;
    a.ended += b.ended;
    a.refused += b.refused;
    a.shed += b.shed;
    a.cleared += b.cleared;
    a.entries += b.entries;
    a.places += b.places;
    a.classes += b.classes;
    a.leases += b.leases;
    a.bytes += b.bytes;
    a.most_bytes += b.most_bytes;
}

/// What two programs have counted, if they have the same rules: workers' programs differ in what NATs hand out only,
/// unless one of them has been made anew.
fn programs(mut a: Report, b: &Report) -> Option<Report> {
    let same = a.rules.len() == b.rules.len()
        && a.rules
            .iter()
            .zip(&b.rules)
            .all(|(x, y)| (x.stage, x.rule, x.action) == (y.stage, y.rule, y.action))
        && a.punts.len() == b.punts.len()
        && a.punts
            .iter()
            .zip(&b.punts)
            .all(|(x, y)| (&x.element, &x.cause) == (&y.element, &y.cause));
    if !same {
        return None;
    }
    a.packets += b.packets;
    a.reference += b.reference;
    a.chosen += b.chosen;
    a.gone = (a.gone.0 + b.gone.0, a.gone.1 + b.gone.1);
    for (x, y) in a.rules.iter_mut().zip(&b.rules) {
        x.packets += y.packets;
        x.bytes += y.bytes;
    }
    for (x, y) in a.punts.iter_mut().zip(&b.punts) {
        x.packets += y.packets;
    }
    Some(a)
}

/// Adds a worker's counters of the operator's rules: all have the same rules, in the same order.
pub fn rows(all: &mut Vec<Row>, more: Vec<Row>) {
    if all.is_empty() {
        *all = more;
        return;
    }
    for (a, b) in all.iter_mut().zip(more) {
        a.count.packets += b.count.packets;
        a.count.bytes += b.count.bytes;
    }
}
