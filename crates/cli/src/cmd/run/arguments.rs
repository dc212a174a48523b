//! What others ask of the arguments of a run.

use super::{Args, Mode, flow};
use crate::alerts::{self, Eve, Origins};
use crate::common::ChainArgs;
use crate::control::ControlArgs;
use crate::deploy::VerifyArgs;
use crate::dropped;
use crate::history::History;
use crate::live::Poll;
use crate::log::LogArgs;
use crate::ports::{DpdkSetup, PortArg};
use crate::runner;
use crate::sandbox::{self, SandboxArgs};
use crate::shadow::ShadowArgs;
use anyhow::Result;
use onefold_chain::Chain;
use onefold_engine::Graph;
use onefold_engine::program::ProgramRunner;
use onefold_engine::shadow::Shadow;
use onefold_packet::Timestamp;

impl Args {
    /// The chain.
    pub fn chain(&self) -> &ChainArgs {
        &self.chain
    }
    /// How it is asked and changed.
    pub fn control(&self) -> &ControlArgs {
        &self.control
    }
    /// What it keeps of its privilege.
    pub fn sandbox(&self) -> &SandboxArgs {
        &self.sandbox
    }
    /// Its ports that are not captures bound by `--in` and `--out`.
    pub fn ports(&self) -> &[PortArg] {
        &self.ports
    }
    /// What happens is written down there.
    pub fn log(&self) -> &LogArgs {
        &self.log
    }
    /// How functions in processes share cores, if that is said.
    pub fn schedule(&self) -> Option<&onefold_sched::spec::Spec> {
        self.schedule.as_ref()
    }
    /// The core of who launches them.
    pub fn housekeeping(&self) -> Option<usize> {
        self.housekeeping
    }
    /// Places of rings between processes, if that is said.
    pub fn ring(&self) -> Option<u32> {
        self.ring
    }
    /// How many workers, at most.
    pub fn workers(&self) -> usize {
        self.workers.most()
    }
    /// Files that it writes.
    pub fn written(&self) -> Vec<std::path::PathBuf> {
        let others = [
            self.html.as_deref(),
            self.alerts.as_deref(),
            self.shadow.capture(),
            self.log.file(),
        ];
        sandbox::written(&self.outputs, &others)
    }
    /// How its programs are verified.
    pub fn verify(&self) -> &VerifyArgs {
        &self.verify
    }
    /// How they are compared with the reference graph.
    pub fn shadow(&self) -> &ShadowArgs {
        &self.shadow
    }
    /// How it is executed.
    pub fn mode(&self) -> Mode {
        self.mode
    }
    /// Are there to be programs?
    pub fn synthesizes(&self) -> bool {
        self.mode != Mode::Reference
    }
    /// Is there a program that was given?
    pub fn has_program(&self) -> bool {
        self.verify.program.is_some()
    }
    /// See [`Args::reload_fault`].
    #[cfg(debug_assertions)]
    pub fn reload_fault(&self) -> Option<usize> {
        self.reload_fault
    }
    /// Where what happens when is noted, if somebody is to see it.
    pub(super) fn history(&self) -> Option<History> {
        let wanted = self.html.is_some();
        wanted.then(|| History::new(Timestamp::ZERO))
    }
    /// Where a chain on interfaces writes alerts, if it does.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn eve(&self, live: bool) -> Result<Option<Eve>> {
        let file = self.alerts.as_deref().filter(|_| live);
        file.map(Eve::open).transpose()
    }
    /// The same for a process that is one of several which write to the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn eve_beside_others(&self, live: bool, origins: &Origins) -> Result<Option<Eve>> {
        let file = self.alerts.as_deref().filter(|_| live);
        file.map(|f| Eve::beside_others(f, origins)).transpose()
    }
    /// Most packets that go in together.
    pub fn batch_size(&self) -> usize {
        usize::from(self.batch)
    }
    /// See [`Args::seed`].
    pub fn seed(&self) -> u64 {
        self.seed
    }
    /// A function's process that has ended is launched again after this time at the latest.
    pub fn back_off(&self) -> std::time::Duration {
        self.back_off
    }
    /// Is nothing said that was not asked for?
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
    /// Is there anything to be done in front of the chain?
    pub fn offloads(&self) -> bool {
        self.offload.is_some()
    }
    /// The same, with nothing printed.
    pub fn silent(&self) -> Args {
        Args {
            quiet: true,
            json: false,
            ..self.clone()
        }
    }
    /// The same, and no packet is dropped for want of time, unless that was asked for.
    pub fn without_protection(&self) -> Args {
        Args {
            protect: self.protect.or(Some(1.0)),
            ..self.clone()
        }
    }
    /// Program and flow table, as asked for.
    pub fn flow(&self, runner: ProgramRunner) -> Shadow {
        flow(self, runner)
    }

    /// What DPDK is started with.
    pub fn dpdk(&self) -> DpdkSetup {
        let extra = self.dpdk_args.iter().flat_map(|a| a.split_whitespace());
        DpdkSetup {
            extra: extra.map(str::to_string).collect(),
            sleeps: self.poll != Poll::Busy,
        }
    }
}

/// What cannot be asked of functions in processes of their own.
///
/// # Errors
/// It is asked.
pub(super) fn in_processes(args: &Args) -> Result<()> {
    match args.read.is_empty() {
        false => anyhow::bail!(
            "--read looks into functions, which run in processes of their own here: take 'run: process' out of the \
             chain file"
        ),
        true => Ok(()),
    }
}

/// Only interfaces go on for a time.
///
/// # Errors
/// A time is given, and there are none.
pub(super) fn timed(args: &Args, live: bool) -> Result<()> {
    if !live && args.duration.is_some() {
        anyhow::bail!(
            "--duration is for network interfaces; captures end by themselves, or with --limit"
        );
    }
    Ok(())
}

/// What is done before the run: what is dropped and what alerts are about is written down, if that is asked for, and
/// handlers that are to be read at the end are looked at.
///
/// # Errors
/// Something cannot be read or written.
pub(super) fn beforehand(
    args: &Args,
    chain: &Chain,
    graph: &mut Graph,
    inputs: &[(String, String)],
) -> Result<()> {
    readable(args, graph)?;
    let how = (args.limit, args.quiet);
    if let Some(file) = &args.drops {
        dropped::write(file, (chain, graph), inputs, how)?;
    }
    // of interfaces they are written while packets come
    if let Some(file) = args.alerts.as_ref().filter(|_| !inputs.is_empty()) {
        alerts::write(file, (chain, graph), inputs, how)?;
    }
    Ok(())
}

/// Can the handlers that are to be read at the end be read?
///
/// # Errors
/// Which one cannot, and why.
fn readable(args: &Args, graph: &mut Graph) -> Result<()> {
    for call in &args.read {
        if let Err(e) = graph.read_handler(call) {
            let (element, _) = call.rsplit_once('.').unwrap_or(("", call));
            let hint = match element {
                "" => "FUNCTION/ELEMENT.HANDLER is expected, for example router/rt.table",
                _ => {
                    "`onefold show CHAIN` lists elements; each has a handler `handlers` that lists its own"
                }
            };
            anyhow::bail!("--read {call}: {e}; hint: {hint}");
        }
    }
    Ok(())
}

/// What they say.
pub(super) fn read(args: &Args, graph: &mut Graph) -> Vec<(String, String)> {
    let mut one = |call: &String| {
        let says = graph.read_handler(call);
        (call.clone(), says.unwrap_or_else(|e| e.to_string()))
    };
    args.read.iter().map(&mut one).collect()
}

/// The same for machines, by name.
pub(super) fn handlers_json(all: &[(String, String)]) -> serde_json::Value {
    let all = all.iter().map(|(n, v)| (n.clone(), v.as_str().into()));
    serde_json::Value::Object(all.collect())
}

/// Port and file of every capture that packets come from; every port is one of the chain's.
pub(super) fn bound(args: &Args, chain: &Chain) -> Result<Vec<(String, String)>> {
    let mut inputs = args.inputs.clone();
    inputs.extend((args.ports.iter()).filter_map(|p| Some((p.port.clone(), p.input()?.into()))));
    runner::check_bindings(chain, &args.chain.text(), &inputs, &args.outputs)?;
    for p in &args.ports {
        if chain.ports.iter().all(|q| q.name != p.port) {
            anyhow::bail!("the chain has no port '{}'", p.port);
        }
    }
    Ok(inputs)
}

/// Options that do not go together.
pub(super) fn check(args: &Args, captures: bool) -> Result<()> {
    let mode = args.mode;
    args.sandbox.check()?;
    if !captures && args.ports.iter().all(|p| p.device().is_none()) {
        anyhow::bail!(
            "no packets come: --in PORT=FILE names a capture that arrives at a port, --port PORT=packet:IF an interface; \
             hint: `onefold gen --for CHAIN --out FILE` makes one"
        );
    }
    let passes = [("--drops", &args.drops), ("--alerts", &args.alerts)];
    for (flag, _) in passes.into_iter().filter(|(_, file)| file.is_some()) {
        let devices = args.ports.iter().any(|p| p.device().is_some());
        if flag == "--alerts" && devices {
            continue;
        }
        let as_they_are = !args.adapt && args.workers.is_one();
        dropped::check(flag, captures && !devices, as_they_are)?;
    }
    if !args.read.is_empty() && !args.workers.is_one() {
        anyhow::bail!("--read goes with one worker: each has elements of its own");
    }
    if args.groups.is_some() && !args.workers.is_range() {
        anyhow::bail!("--groups is for --workers MIN..MAX: with --workers N each worker is one");
    }
    if args.scaling.is_some() && !args.workers.is_range() {
        anyhow::bail!("--scaling is for --workers MIN..MAX: the number of workers is fixed");
    }
    if !args.dpdk_args.is_empty() && args.ports.iter().all(|p| !p.is_dpdk()) {
        anyhow::bail!("--dpdk-args is for ports of DPDK: --port PORT=dpdk:DEVICE");
    }
    if args.offload.is_some() && args.ports.iter().all(|p| !p.is_xdp()) {
        anyhow::bail!("--offload xdp is for ports with AF_XDP: --port PORT=xdp:IF");
    }
    if mode == Mode::Reference && args.verify.program.is_some() {
        anyhow::bail!("--program is for --mode program");
    }
    if let Some(flag) = args.shadow.in_vain(mode == Mode::Reference) {
        let why = match mode {
            Mode::Reference => "the reference graph runs alone",
            _ => "nothing is compared with --shadow off",
        };
        anyhow::bail!(
            "{flag} has nothing to do: {why}; leave it out, or use --mode program with a rate"
        );
    }
    Ok(())
}
