//! A program in namespaces of its own, from outside: launched by way of [`super::inner`], and ended.

use super::inner::{Inner, READY};
use anyhow::{Context, Result, bail};
use onefold_nf::{Channel, Isolation, NetSpace, Network, Process};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long set-up commands may take, and whatever packets have to wait for, together.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a program may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);

/// See the module's text. It is ended when this is dropped, and everything that it has launched.
pub struct Program {
    name: String,
    process: Process,
    channel: Channel,
}

impl Program {
    /// Launches it in this network, and waits until it is ready.
    ///
    /// # Errors
    /// Without privilege; a set-up command fails, the program cannot be launched or ends at once. What it was says
    /// standard error.
    pub fn launch(
        name: &str,
        what: &Inner,
        space: &Arc<NetSpace>,
        core: Option<u32>,
    ) -> Result<Program> {
        let (ours, theirs) = Channel::pair()?;
        ours.patience(PATIENCE)?;
        let isolation = Isolation {
            network: Network::Of(space.clone()),
            processes: true,
        };
        let command = Command::new("/proc/self/exe");
        let process = Process::spawn_in(command, theirs, core, &isolation, |command, fd| {
            // Ctrl-C is for who has launched us, and it ends this in order
            command.process_group(0);
            command
                .env_clear()
                .args(["box", "--channel", &fd.to_string()]);
            command
                .stdin(Stdio::null())
                .stdout(Stdio::from(std::io::stderr()));
        });
        let process = process.with_context(|| format!("{name}: making its namespaces"))?;
        let mut program = Program {
            name: name.to_string(),
            process,
            channel: ours,
        };
        // one that has ended already is found out below
        let _ = program.channel.send(&serde_json::to_vec(what)?, &[]);
        match program.channel.receive(READY.len()) {
            Ok((said, _)) if said == READY => Ok(program),
            _ => {
                let status = program.ended_within(Duration::from_secs(1));
                let how = status.map_or("it does not get ready".to_string(), |s| s.to_string());
                bail!("{name}: it could not be started ({how}); why is said above")
            }
        }
    }

    fn ended_within(&mut self, most: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        while self.process.ended().is_none() && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.process.ended()
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// A descriptor that becomes readable when it has ended.
    ///
    /// # Errors
    /// There is none to be had.
    pub fn watch(&self) -> Result<OwnedFd> {
        Ok(self.process.as_fd().try_clone_to_owned()?)
    }

    /// The first process of its namespaces.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Asks it to end, and ends it if it does not.
    pub fn end(mut self) {
        if self.channel.send(b"stop", &[]).is_ok() && self.ended_within(GRACE).is_none() {
            eprintln!(
                "{}: it has not ended within {GRACE:?} and is killed",
                self.name
            );
        }
    }
}
