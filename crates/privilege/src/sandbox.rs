//! Privilege is given up.

mod files;
mod syscalls;

pub use files::Files;

use caps::{CapSet, Capability, CapsHashSet};
use nix::unistd::{Gid, Uid, User, setgid, setgroups, setuid};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;
use syscalls::Refused;

/// How much is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// As much as the kernel, and what the chain runs on, allow.
    Auto,
    /// All of it, or no start.
    Strict,
}

/// What the process is to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Keeps {
    /// What drivers of DPDK may come to need, which is theirs to know: capabilities and files.
    pub drivers: bool,
    /// The right to use maps of BPF: before Linux 5.19 their descriptors alone are not enough.
    pub maps: bool,
    /// Memory is locked when an interface comes back (AF_XDP): CAP_IPC_LOCK, where its limit cannot be lifted.
    pub locks: bool,
}

/// What is to be given up.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How much of it has to be.
    pub sandbox: Sandbox,
    /// It goes on as this user.
    pub user: Option<String>,
    /// Files that it may use.
    pub files: Files,
    /// What it keeps.
    pub keeps: Keeps,
}

/// What holds from now on, in words; and what does not, with why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// What holds.
    pub holds: Vec<String>,
    /// What was asked for and does not hold.
    pub missing: Vec<String>,
}

impl Held {
    fn add(&mut self, what: String, done: Result<(), String>) {
        match done {
            Ok(()) => self.holds.push(what),
            Err(why) => self.missing.push(format!("{what}: {why}")),
        }
    }
}

/// Why a process does not go on.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// There is no such user.
    #[error("--user {0}: there is no such user; type: useradd --system --no-create-home {0}")]
    NoUser(String),
    /// It cannot become another one.
    #[error("--user {name}: {error}; start it as root")]
    User {
        /// The user.
        name: String,
        /// What the system says.
        error: io::Error,
    },
    /// `strict`, and something is missing.
    #[error("--sandbox strict: {}; --sandbox auto goes on without", .0.join("; "))]
    Missing(Vec<String>),
}

/// Gives up privilege, for this process and all threads that it makes from now on. Threads that are there already keep
/// capabilities and files where the kernel gives them to each thread, which is told.
///
/// # Errors
/// See [`SandboxError`]: the process should end then.
pub fn enter(policy: &Policy) -> Result<Held, SandboxError> {
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    let limited = policy.keeps.locks && setrlimit(Resource::Memlock, unlimited).is_err();
    let mut held = Held::default();
    let drivers = policy.keeps.drivers;
    let mut kept = CapsHashSet::new();
    for (is_kept, capability) in [
        (policy.keeps.maps, Capability::CAP_BPF),
        (limited, Capability::CAP_IPC_LOCK),
    ] {
        if is_kept {
            kept.insert(capability);
        }
    }
    // without new privileges the bounding set bounds nothing: where it cannot be changed, nothing is missing
    if !drivers {
        let _ = caps::clear(None, CapSet::Bounding);
    }
    if let Some(name) = &policy.user {
        // or they are gone with the user
        let _ = rustix::thread::set_keep_capabilities(!kept.is_empty());
        become_user(name)?;
        held.holds.push(format!("user {name}"));
    }
    match drivers {
        true => held.missing.push(
            "capabilities and files: drivers of DPDK may need them when a device comes back"
                .to_string(),
        ),
        false => {
            let but: Vec<String> = kept.iter().map(ToString::to_string).collect();
            let but = match but.is_empty() {
                true => String::new(),
                false => format!(" but {}", but.join(", ")),
            };
            let done = capabilities(&kept).map_err(|e| e.to_string());
            held.add(format!("no capabilities{but}"), done);
        }
    }
    let fixed = no_new_privileges();
    held.add(
        "no new privileges".to_string(),
        fixed.map_err(|e| e.to_string()),
    );
    if !drivers {
        let done = policy.files.restrict();
        held.add(policy.files.told(), done);
    }
    let refused = match drivers {
        true => Refused::ForDrivers,
        false => Refused::All,
    };
    let done = syscalls::refuse(refused);
    let n = done.as_ref().map_or(0, |n| *n);
    held.add(format!("{n} system calls refused"), done.map(|_| ()));
    threads(&mut held);
    match policy.sandbox {
        Sandbox::Strict if !held.missing.is_empty() => Err(SandboxError::Missing(held.missing)),
        _ => Ok(held),
    }
}

/// The calling thread, and those that it makes, never get more privilege than they have.
///
/// # Errors
/// What the system says.
pub fn no_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Capabilities are each thread's own.
fn threads(held: &mut Held) {
    let n = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if n > 1 {
        let more = n - 1;
        held.missing.push(format!(
            "{more} threads that were there before keep their capabilities"
        ));
    }
}

fn capabilities(kept: &CapsHashSet) -> Result<(), caps::errors::CapsError> {
    let held = caps::read(None, CapSet::Permitted)?;
    let kept: CapsHashSet = held.intersection(kept).copied().collect();
    caps::clear(None, CapSet::Ambient)?;
    caps::set(None, CapSet::Effective, &kept)?;
    caps::set(None, CapSet::Permitted, &kept)?;
    caps::clear(None, CapSet::Inheritable)
}

fn become_user(name: &str) -> Result<(), SandboxError> {
    let user = |error: nix::Error| SandboxError::User {
        name: name.to_string(),
        error: error.into(),
    };
    let found = User::from_name(name).map_err(user)?;
    let found = found.ok_or_else(|| SandboxError::NoUser(name.to_string()))?;
    if Uid::current() == found.uid && Gid::current() == found.gid {
        return Ok(());
    }
    setgroups(&[]).map_err(user)?;
    setgid(found.gid).map_err(user)?;
    setuid(found.uid).map_err(user)
}
