//! What others ask of the arguments of a run.

use super::{Args, Mode, flow};
use crate::common::ChainArgs;
use crate::control::ControlArgs;
use crate::deploy::VerifyArgs;
use crate::dropped;
use crate::live::Poll;
use crate::log::LogArgs;
use crate::ports::{DpdkSetup, PortArg};
use crate::sandbox::{self, SandboxArgs};
use crate::shadow::ShadowArgs;
use anyhow::Result;
use onefold_chain::Chain;
use onefold_engine::Graph;
use onefold_engine::program::ProgramRunner;
use onefold_engine::shadow::Shadow;

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
    /// Writes down what is dropped, if that is asked for.
    pub fn write_drops(
        &self,
        chain: &Chain,
        graph: &Graph,
        inputs: &[(String, String)],
    ) -> Result<()> {
        let Some(file) = &self.drops else {
            return Ok(());
        };
        let how = (self.limit, self.quiet);
        dropped::write(file, (chain, graph), inputs, how)
    }
    /// How many workers, at most.
    pub fn workers(&self) -> usize {
        self.workers.most()
    }
    /// Files that it writes.
    pub fn written(&self) -> Vec<std::path::PathBuf> {
        let others = [self.html.as_deref(), self.shadow.capture(), self.log.file()];
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
