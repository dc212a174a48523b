//! A run on network interfaces gives up its privilege once it has all that it needs for it; a small process that keeps
//! some makes what is needed later.

use crate::cmd::run;
use crate::control::{self, OpenPort};
use crate::health;
use crate::log::{self, Level};
use anyhow::{Context, Result};
use clap::ValueEnum;
use onefold_chain::HealthPlan;
use onefold_control::Server;
use onefold_privilege::{
    Files, Helper, Keeps, Policy, Sandbox, enter as give_up, is_gone, set_helper,
};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// From this version on, who holds a map's descriptor may use it without a capability.
const MAPS_BY_DESCRIPTOR: (u32, u32) = (5, 19);

/// How much privilege a run gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// As much as kernel and ports allow; what it cannot is said.
    Auto,
    /// None.
    Off,
    /// All of it, or the run does not start.
    Strict,
}

/// Options of what a run keeps.
#[derive(clap::Args, Debug, Clone)]
pub struct SandboxArgs {
    /// With network interfaces: before the first packet the run gives up capabilities, files (Landlock) and system
    /// calls (seccomp) that it does not need; interfaces that come back are opened by a process that takes no packets
    #[arg(long, value_enum, default_value_t = Mode::Auto)]
    sandbox: Mode,
    /// With network interfaces: goes on as this user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// With network interfaces: a reload may read files there, too; those beside the chain's file it may, and in
    /// /etc/onefold
    #[arg(long, value_name = "FOLDER")]
    allow_read: Vec<PathBuf>,
}

impl SandboxArgs {
    /// Less privilege than usual is asked for.
    pub fn is_demanded(&self) -> bool {
        self.user.is_some() || self.sandbox == Mode::Strict
    }

    /// Options that do not go together.
    ///
    /// # Errors
    /// In words.
    pub fn check(&self) -> Result<()> {
        match (&self.user, self.sandbox) {
            (Some(_), Mode::Off) => {
                anyhow::bail!("--user gives up privilege, and --sandbox off does not")
            }
            _ => Ok(()),
        }
    }
}

/// Gives up what is not needed from now on. `server`: the control socket, which is the user's from now on.
fn enter(args: &run::Args, server: Option<&Server>, watched: &[HealthPlan]) -> Result<()> {
    let asked = args.sandbox();
    let sandbox = match asked.sandbox {
        Mode::Off => {
            if !args.is_quiet() {
                eprintln!("sandbox: off");
            }
            return Ok(());
        }
        Mode::Auto => Sandbox::Auto,
        Mode::Strict => Sandbox::Strict,
    };
    let helper = start_helper(args).context("the process that keeps privilege")?;
    if let (Some(server), Some(user)) = (server, &asked.user) {
        hand_over(server.path(), user);
    }
    let policy = Policy {
        sandbox,
        user: asked.user.clone(),
        files: files(args, server, watched),
        keeps: keeps(args),
    };
    let held = give_up(&policy)?;
    set_helper(helper);
    if !args.is_quiet() {
        eprintln!("sandbox: {}", held.holds.join("; "));
    }
    for m in &held.missing {
        eprintln!("sandbox: not so: {m}");
    }
    let level = match held.missing.is_empty() {
        true => Level::Info,
        false => Level::Warning,
    };
    let fields = [
        ("holds", held.holds.into()),
        ("missing", held.missing.into()),
    ];
    log::event(level, "sandbox", &fields);
    Ok(())
}

fn keeps(args: &run::Args) -> Keeps {
    let xdp = args.ports().iter().any(|p| p.is_xdp());
    Keeps {
        drivers: args.ports().iter().any(|p| p.is_dpdk()),
        maps: xdp && kernel().is_none_or(|v| v < MAPS_BY_DESCRIPTOR),
        locks: xdp,
    }
}

/// The kernel's version.
fn kernel() -> Option<(u32, u32)> {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The user may remove it, and wake who waits at it.
fn hand_over(socket: &Path, user: &str) {
    let found = nix::unistd::User::from_name(user).ok().flatten();
    // no such user is said where it is to become one
    if let Some(u) = found {
        let _ = std::os::unix::fs::chown(socket, Some(u.uid.as_raw()), Some(u.gid.as_raw()));
    }
}

/// Where a file is, as far as the system knows it.
fn folder(file: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(file).ok()?;
    let whole = std::fs::canonicalize(&whole).unwrap_or(whole);
    whole.parent().map(Path::to_path_buf)
}

fn files(args: &run::Args, server: Option<&Server>, watched: &[HealthPlan]) -> Files {
    let chain = args.chain();
    let options = chain.options();
    let named = chain.set.iter().map(|(_, v)| Path::new(v));
    let named = named.chain([Path::new(&chain.chain)]);
    let mut read: Vec<PathBuf> = named.filter(|f| f.is_file()).filter_map(folder).collect();
    // an example's folder has more than its file
    read.extend(options.examples.into_iter().filter(|e| e.is_dir()));
    read.extend(args.sandbox().allow_read.iter().cloned());
    let (connect, said) = health::needs(watched);
    read.extend(said.into_iter().filter_map(folder));
    let mut write: Vec<PathBuf> = args.written().iter().filter_map(|f| folder(f)).collect();
    write.extend(server.and_then(|s| folder(s.path())));
    write.extend(crate::cache::kept_in());
    for list in [&mut read, &mut write] {
        list.sort();
        list.dedup();
    }
    Files {
        read,
        write,
        connect,
    }
}

/// Starts the process that keeps what privilege there is, for these interfaces.
fn start_helper(args: &run::Args) -> Result<Helper> {
    let (helper, theirs) = Helper::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(NAME);
    for p in args.ports() {
        command.args(p.device().map(|d| &d.interface));
    }
    command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
    // Ctrl-C is not for it: it ends with the run
    command.process_group(0);
    command.spawn()?;
    Ok(helper)
}

/// Says, once, if the process that keeps privilege has ended.
pub fn attend() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if is_gone() && !SAID.swap(true, Ordering::Relaxed) {
        let what = "the process that keeps privilege has ended: interfaces that go away are not opened again; \
                    start the run anew";
        eprintln!("warning: {what}");
        log::event(Level::Error, "helper-gone", &[("what", what.into())]);
    }
}

/// The command of the process that keeps privilege.
pub const NAME: &str = "privileged-helper";

/// All that a run on network interfaces takes privilege for is made (the socket that it is asked at, its log); then it
/// gives it up. The socket comes back. `watched`: whose health is looked for.
///
/// # Errors
/// A socket or a log that was asked for cannot be had; those of giving up.
pub fn confine(
    args: &run::Args,
    chain: &str,
    open: &[OpenPort],
    watched: &[HealthPlan],
) -> Result<Option<Server>> {
    if open.is_empty() {
        return Ok(None);
    }
    let server = control::bind(args.control(), chain, args.is_quiet())?;
    let opened = log::open(args.log())?;
    enter(args, server.as_ref(), watched)?;
    // its thread, too, has no privilege
    log::start(opened)?;
    let socket = server.as_ref().map(|s| s.path().display().to_string());
    let fields = [
        ("chain", chain.into()),
        ("version", env!("CARGO_PKG_VERSION").into()),
        ("pid", std::process::id().into()),
        ("workers", args.workers().into()),
        ("control", socket.into()),
    ];
    log::event(Level::Info, "start", &fields);
    Ok(server)
}

/// Files that a run writes at its end.
pub fn written<'a>(outputs: &'a [(String, String)], others: &[Option<&'a Path>]) -> Vec<PathBuf> {
    let outputs = outputs.iter().map(|(_, f)| PathBuf::from(f));
    let others = others.iter().flatten().map(|f| f.to_path_buf());
    outputs.chain(others).collect()
}
