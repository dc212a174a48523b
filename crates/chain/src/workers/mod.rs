//! A chain for several workers: a graph for each, and what a partition goes by at each of the chain's ports.
//!
//! N workers are N reference graphs. They are alike but for what NATs hand out: each has its slice of the port range
//! and of the identifiers of echo requests ([`onefold_partition::slice_of`]). Which packets have to meet follows from
//! the functions that rewrite addresses, and where they are between the chain's ports (`derive`).

mod classes;
mod derive;

use crate::edit::Edit;
use crate::error::ChainError;
use crate::live::{Attached, Live, LivePort};
use crate::load::{Options, load_as};
use crate::stitch::Chain;
use onefold_click::diag::Diagnostic;
use onefold_click::source::Span;
use onefold_partition::{MAX_WORKERS, Pool, PortRule};

/// A chain as several workers have it.
#[derive(Debug, Clone)]
pub struct WorkerChains {
    /// Each worker's, with the same elements at the same indices.
    pub chains: Vec<Chain>,
    /// What the partition goes by at each port of the chain, in their order.
    pub ports: Vec<PortRule>,
    /// What NATs have of ports and of identifiers, of which each worker has its slice.
    pub ranges: Vec<(u16, u16)>,
    /// What several workers do otherwise than one, by name.
    pub warnings: Vec<Diagnostic>,
}

/// Which of how many workers a chain is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub worker: usize,
    pub workers: usize,
}

impl Default for Share {
    fn default() -> Share {
        Share {
            worker: 0,
            workers: 1,
        }
    }
}

/// A function that rewrites addresses.
#[derive(Debug, Clone)]
pub(crate) struct Translator {
    pub function: String,
    /// What messages about it point at.
    pub span: Span,
    pub kind: Kind,
    /// Inside hosts reach each other through outside addresses.
    pub hairpin: bool,
    /// What it forwards it does not hand out.
    pub reserves: bool,
    /// It rewrites addresses of IPv6, and leaves ports as they are.
    pub six: bool,
    /// IPv6 hosts inside have handles, which are the function's own.
    pub hosts6: bool,
}

/// What it rewrites.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    /// The address of who is at port 0, into one of these.
    Nat(Pool),
    /// The address of who is at port 0, one to one.
    Pairs,
    /// The address of who is at port 1: a server's, and its virtual one.
    Balancer,
}

/// Loads a chain for so many workers, 1 to [`MAX_WORKERS`].
///
/// # Errors
/// The chain is wrong, or several workers cannot do together what one does: why not, with file, line and hint.
pub fn load_workers(
    name: &str,
    options: &Options,
    workers: usize,
) -> Result<WorkerChains, ChainError> {
    Ok(load_workers_live(name, options, workers, &[])?.0)
}

/// The same of a chain some of whose ports are network interfaces: also gives back what became of these, in their
/// order. Those that the chain does not have are left out.
///
/// # Errors
/// As [`load_workers`].
pub fn load_workers_live(
    name: &str,
    options: &Options,
    workers: usize,
    live: &[LivePort],
) -> Result<(WorkerChains, Vec<Attached>), ChainError> {
    load_workers_edited(name, options, workers, live, &[])
}

/// The same with changes that are not in the chain's file.
///
/// # Errors
/// As [`load_workers`].
pub fn load_workers_edited(
    name: &str,
    options: &Options,
    workers: usize,
    live: &[LivePort],
    edits: &[Edit],
) -> Result<(WorkerChains, Vec<Attached>), ChainError> {
    let workers = workers.clamp(1, MAX_WORKERS);
    let mut chains = Vec::new();
    let mut derived = None;
    let mut ranges = Vec::new();
    let mut attached = Vec::new();
    for worker in 0..workers {
        let share = Share { worker, workers };
        let (chain, mut reader) =
            load_as(name, options, (Live::new(live), share, edits), None, false)?;
        if worker == 0 && workers > 1 {
            ranges = ranges_of(&reader.translators);
            let ports = derive::rules(&chain, &mut reader);
            let warnings = classes::look(&chain, &mut reader);
            let found = std::mem::take(&mut reader.diagnostics);
            match ports.filter(|_| !found.iter().any(Diagnostic::is_error)) {
                Some(ports) => derived = Some((ports, warnings)),
                None => return Err(ChainError::Invalid(found)),
            }
        }
        if worker == 0 {
            attached = reader.live.attached_in(&chain);
        }
        chains.push(chain);
    }
    let (ports, warnings) = derived.unwrap_or_else(|| {
        let ports = chains.first().map_or(0, |c| c.ports.len());
        (vec![PortRule::default(); ports], Vec::new())
    });
    let loaded = WorkerChains {
        chains,
        ports,
        ranges,
        warnings,
    };
    Ok((loaded, attached))
}

/// Each range once.
fn ranges_of(translators: &[Translator]) -> Vec<(u16, u16)> {
    let pools = translators.iter().filter_map(|t| match &t.kind {
        Kind::Nat(pool) => Some([pool.ports, pool.identifiers]),
        _ => None,
    });
    let mut all: Vec<(u16, u16)> = pools.flatten().collect();
    all.sort_unstable();
    all.dedup();
    all
}
