//! The first process of a black box's namespaces: carries out what is to be done before its program, launches the
//! program, and ends with it. Whatever else was launched there ends with this process, as the kernel sees to.

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use onefold_chain::kinds::external::{BlackBox, SCRATCH};
use onefold_nf::{Channel, unprepared};
use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What it says when packets may come.
pub const READY: &[u8] = b"ready";
/// Longest message to it, in bytes.
const LONGEST: usize = 1 << 24;
/// How long commands are tried again that say whether a program is ready.
const TRIED: Duration = Duration::from_secs(10);
/// And how often.
const TRY_EVERY: Duration = Duration::from_millis(20);
/// How long a program has to end.
const GRACE: Duration = Duration::from_secs(2);

/// Options of the hidden subcommand: where its launcher is.
#[derive(clap::Args, Debug, Clone)]
#[group(skip)]
pub struct Args {
    /// The descriptor that it is told by what to do
    #[arg(long, value_name = "FD")]
    channel: i32,
}

/// What it is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Inner {
    /// The function's name.
    pub name: String,
    /// What is launched.
    pub black_box: BlackBox,
    /// It has a folder of its own for sockets.
    pub scratch: bool,
}

/// A folder for sockets, that nobody else sees and that is gone with the process's mount namespace.
///
/// # Errors
/// Without privilege.
pub fn scratch() -> Result<()> {
    std::fs::create_dir_all(SCRATCH).with_context(|| SCRATCH.to_string())?;
    let none: Option<&str> = None;
    mount(
        Some("tmpfs"),
        SCRATCH,
        Some("tmpfs"),
        MsFlags::empty(),
        none,
    )
    .with_context(|| format!("mounting {SCRATCH}"))
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let mut channel = Channel::inherit(args.channel)
        .context("'box' is what 'run' launches; run a chain with external functions")?;
    channel.patience(Duration::from_secs(60))?;
    let (message, _) = channel.receive(LONGEST)?;
    let told: Inner = serde_json::from_slice(&message)?;
    if told.scratch {
        scratch()?;
    }
    let b = &told.black_box;
    for line in &b.set_up {
        let status = shell(b, line).status().with_context(|| line.clone())?;
        if !status.success() {
            bail!("{}: set-up: '{line}' has failed ({status})", told.name);
        }
    }
    let program = launch(&told)?;
    for line in &b.ready {
        wait_for(&told, line, program)?;
    }
    channel.send(READY, &[])?;
    stop_when_told(channel, program)?;
    loop {
        match waitpid(None::<Pid>, None) {
            Ok(status) if program.is_some() && status.pid() == program => return Ok(code(status)),
            Ok(_) | Err(Errno::EINTR) => {}
            // nobody is there to wait for: the kernel works alone
            Err(_) => std::thread::sleep(Duration::from_secs(3600)),
        }
    }
}

/// A line for the shell, in the black box's folder and environment.
fn shell(b: &BlackBox, line: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", line]);
    at_home(b, &mut command);
    command
}

fn at_home(b: &BlackBox, command: &mut Command) {
    command.current_dir(&b.directory).stdin(Stdio::null());
    command
        .env_clear()
        .envs(b.environment.iter().map(|(k, v)| (k, v)));
    unprepared(command);
}

/// Launches the program, if there is one.
fn launch(told: &Inner) -> Result<Option<Pid>> {
    let b = &told.black_box;
    let Some((program, arguments)) = &b.command else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    at_home(b, &mut command);
    let child = command
        .spawn()
        .with_context(|| format!("{}: launching {}", told.name, program.display()))?;
    Ok(Some(Pid::from_raw(child.id() as i32)))
}

/// Tries a line until it succeeds.
fn wait_for(told: &Inner, line: &str, program: Option<Pid>) -> Result<()> {
    let begun = Instant::now();
    loop {
        let mut command = shell(&told.black_box, line);
        let last = begun.elapsed() >= TRIED;
        if !last {
            // what it says is of interest when it is the last time
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let status = command.status().with_context(|| line.to_string())?;
        if status.success() {
            return Ok(());
        }
        let ended = |id| waitpid(id, Some(WaitPidFlag::WNOHANG));
        if let Some(id) = program
            && ended(id) != Ok(WaitStatus::StillAlive)
        {
            bail!("{}: its program has ended", told.name);
        }
        if last {
            bail!(
                "{}: ready: '{line}' has failed for {TRIED:?} ({status})",
                told.name
            );
        }
        std::thread::sleep(TRY_EVERY);
    }
}

/// Ends it all when the launcher says so, or is gone.
fn stop_when_told(mut channel: Channel, program: Option<Pid>) -> Result<()> {
    // for as long as it takes
    channel.patience(Duration::from_secs(86_400 * 365))?;
    std::thread::Builder::new()
        .name("stop".into())
        .spawn(move || {
            let _ = channel.receive(64);
            if let Some(id) = program
                && kill(id, Signal::SIGTERM).is_ok()
            {
                // whoever waits for it ends this process, if it does end
                std::thread::sleep(GRACE);
            }
            std::process::exit(0)
        })?;
    Ok(())
}

fn code(status: WaitStatus) -> u8 {
    match status {
        WaitStatus::Exited(_, code) => code as u8,
        WaitStatus::Signaled(_, signal, _) => 128u8.saturating_add(signal as u8),
        _ => 1,
    }
}
