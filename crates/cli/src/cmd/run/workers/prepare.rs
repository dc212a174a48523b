//! Everything that is done before the first packet: for each worker (or group) a graph, a program, a verdict.

use super::super::{Args, executor};
use super::{Common, Ready, STACK};
use crate::cache::slices_of;
use crate::common;
use crate::control::Session;
use crate::deploy::{Renewal, Shared, Verifier};
use crate::gate::Gate;
use crate::live::LivePlan;
use crate::merge;
use crate::program::{self, PreparedStages};
use crate::progress::Busy;
use crate::runner::{Part, Plan};
use crate::shadow::{Policy, ShadowLog};
use crate::xdp::Offloads;
use anyhow::{Context, Result, anyhow};
use onefold_chain::{Chain, WorkerChains};
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::Timestamp;
use onefold_verify::generate::adapt::Adapter;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

/// What is ready, or the exit status if there is nothing to be run.
type Made<T> = std::result::Result<T, u8>;

/// What workers are made ready with.
struct Preparing<'a> {
    args: &'a Args,
    common: &'a Common,
    parts: &'a [Vec<File>],
    shadows: &'a [File],
    ranges: Vec<(u16, u16)>,
    workers: usize,
    shared: Option<Shared>,
    policy: Policy,
    ready: Arc<Gate>,
    /// What the first one's packets are looked up in.
    stages: Mutex<PreparedStages>,
}

/// For each of these chains. The first one tells whether there is anything to be run, and says what is to be said; the
/// others are made on all cores: each is built and synthesized by itself.
///
/// # Errors
/// When something cannot be read or made.
pub fn prepare(
    args: &Args,
    loaded: WorkerChains,
    common: &Common,
    (parts, shadows): (&[Vec<File>], &[File]),
) -> Result<Made<Vec<Ready>>> {
    let workers = loaded.chains.len();
    let shared = match shared(args, common, workers) {
        Ok(shared) => shared,
        Err(code) => return Ok(Err(code)),
    };
    let all = Preparing {
        args,
        common,
        parts,
        shadows,
        ranges: loaded.ranges,
        workers,
        shared,
        policy: Policy::new(&args.shadow, args.seed),
        ready: Arc::new(Gate::new(workers)),
        stages: Mutex::default(),
    };
    let mut chains = loaded.chains.into_iter().enumerate();
    let mut ready = Vec::new();
    if let Some((worker, chain)) = chains.next() {
        match all.one(worker, chain)? {
            Ok(first) => ready.push(first),
            Err(code) => return Ok(Err(code)),
        }
    }
    let threads = merge::cores().len().clamp(1, workers);
    let left = Mutex::new(chains);
    let made = std::thread::scope(|scope| -> Result<Vec<_>> {
        let start = |_| {
            let thread = std::thread::Builder::new().name("preparing".to_string());
            let thread = thread.stack_size(STACK);
            thread.spawn_scoped(scope, || all.some(&left))
        };
        let threads: Vec<_> = (0..threads).map(start).collect();
        let mut made = Vec::new();
        for t in threads {
            let t = t.context("a thread that makes workers ready")?;
            made.extend(
                t.join()
                    .map_err(|_| anyhow!("a worker cannot be made ready"))??,
            );
        }
        Ok(made)
    });
    let mut made = made?;
    made.sort_by_key(|(worker, _)| *worker);
    let others: Made<Vec<Ready>> = made.into_iter().map(|(_, m)| m).collect();
    Ok(others.map(|others| {
        ready.extend(others);
        ready
    }))
}

impl Preparing<'_> {
    fn is_live(&self) -> bool {
        !self.common.attached.is_empty()
    }

    /// As many of those that are left as there is time for.
    fn some(
        &self,
        left: &Mutex<impl Iterator<Item = (usize, Chain)>>,
    ) -> Result<Vec<(usize, Made<Ready>)>> {
        let mut made = Vec::new();
        loop {
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((worker, chain)) = next else {
                return Ok(made);
            };
            made.push((worker, self.one(worker, chain)?));
        }
    }

    fn one(&self, worker: usize, chain: Chain) -> Result<Made<Ready>> {
        // what is said of the first one holds for all
        let quiet = self.args.quiet || worker > 0;
        let graph = match graph(self.args, &chain, self.common.start, quiet) {
            Ok(g) => g,
            Err(code) => return Ok(Err(code)),
        };
        if worker == 0 {
            common::print_warnings(&graph);
        }
        let adapter =
            (self.args.adapt).then(|| Adapter::new(&program::synthesize_graph(&graph).program));
        let ports = crate::cmd::verify::ports(&chain);
        let mut verifier = Verifier::new(&self.args.verify, ports, self.args.seed, quiet);
        if let Some(shared) = &self.shared {
            verifier = verifier.sharing(shared, slices_of(&self.ranges, worker, self.workers));
        }
        let how = (quiet, worker == 0);
        let known = || self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stages = known().clone();
        let both = (&verifier, &self.policy);
        let (executor, made) = match executor(self.args, graph, both, how, &mut stages)? {
            Ok(begun) => begun,
            Err(code) => return Ok(Err(code)),
        };
        if worker == 0 {
            *known() = stages;
        }
        let outputs = (self.args.outputs)
            .iter()
            .zip(self.parts.get(worker).into_iter().flatten());
        let outputs = outputs.map(|((port, _), f)| Ok((port.clone(), f.try_clone()?)));
        let part = Part {
            worker,
            partition: self.common.partition.clone(),
            outputs: outputs.collect::<std::io::Result<_>>()?,
            ready: self.ready.clone(),
        };
        let own = self.shadows.get(worker).map(File::try_clone).transpose()?;
        // frames of a share have other numbers than those of the files
        let (text, inputs) = (self.args.chain.text(), &self.common.inputs);
        let log = ShadowLog::new(&self.args.shadow, &chain, text, inputs, true, own)?;
        let plan = plan(self.args, adapter, part, quiet, self.common);
        let (attached, live) = (self.common.attached.clone(), self.common.live.clone());
        let (chain, made, session) = match self.is_live() {
            true => {
                let s = Session::new(chain, made, attached, live)?;
                (s.chain.clone(), s.made.clone(), Some(s))
            }
            false => (Arc::new(chain), made.map(Arc::new), None),
        };
        Ok(Ok(Ready {
            renewal: Renewal::new(verifier, self.policy, false, !self.is_live()),
            log,
            plan,
            chain,
            executor,
            made,
            session,
        }))
    }
}

/// What the proof for all of so many workers is made of, if there is to be one; or the exit status, if it cannot be.
fn shared(args: &Args, common: &Common, workers: usize) -> Result<Option<Shared>, u8> {
    if workers == 1 || !args.synthesizes() || !args.verify.proves() {
        return Ok(None);
    }
    let (name, options) = (&args.chain.chain, args.chain.options());
    let one = onefold_chain::load_live(name, &options, &common.ports);
    let (chain, _) = one.map_err(|e| {
        common::print_diagnostics(&common::chain_error(&e));
        common::BAD_INPUT
    })?;
    Ok(Some(Shared::of(graph(args, &chain, common.start, true)?)))
}

/// A worker's graph; or the exit status, if it cannot be built.
pub fn graph(args: &Args, chain: &Chain, start: Timestamp, quiet: bool) -> Result<Graph, u8> {
    let options = BuildOptions {
        seed: args.seed,
        start,
        ..Default::default()
    };
    // databases of many patterns take seconds
    let busy = Busy::new("configuring the elements", quiet);
    let built = common::build(chain, &options);
    drop(busy);
    built.map_err(|ds| {
        common::print_diagnostics(&ds);
        common::BAD_INPUT
    })
}

fn plan(args: &Args, adapter: Option<Adapter>, part: Part, quiet: bool, common: &Common) -> Plan {
    Plan {
        inputs: args.inputs.clone(),
        outputs: args.outputs.clone(),
        ports: args.ports.clone(),
        live: Vec::new(),
        offloads: Offloads::default(),
        live_plan: LivePlan {
            polling: args.poll.polling(),
            duration: None,
            limit: None,
            quiet,
            attached: common.attached.clone(),
            team: None,
        },
        clock: common.clock,
        adapter,
        batch: usize::from(args.batch),
        limit: None,
        linger: Timestamp::from_secs_f64(args.linger.clamp(0.0, 1e9)),
        quiet,
        part: Some(part),
    }
}
