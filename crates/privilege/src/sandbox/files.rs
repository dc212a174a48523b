//! Files that a process may use from now on, and TCP ports that it may connect to (Landlock).

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::PathBuf;

/// The newest version of Landlock whose rules are asked for; older kernels know less of it (`landlock(7)`).
const KNOWN: ABI = ABI::V6;

/// What every process reads: libraries, what the kernel says of interfaces, processors and itself, the time zone. Of
/// `/etc` nothing that is secret.
const SYSTEM: [&str; 14] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/sys",
    "/proc",
    "/etc/onefold",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/group",
    "/dev/urandom",
    "/dev/random",
];

/// Folders and files that may be read, and those that may be written, too; and what may be connected to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Read.
    pub read: Vec<PathBuf>,
    /// Read, written, made and removed.
    pub write: Vec<PathBuf>,
    /// TCP ports, of whatever host, that connections may be made to.
    pub connect: Vec<u16>,
}

impl Files {
    /// In words.
    pub(super) fn told(&self) -> String {
        let all = |paths: &[PathBuf]| -> String {
            let mut names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
            names.sort();
            names.dedup();
            names.join(", ")
        };
        let files = match (self.read.is_empty(), self.write.is_empty()) {
            (true, true) => "no files but the system's".to_string(),
            (false, true) => format!("no files but those in {}", all(&self.read)),
            (true, false) => format!("no files but those in {} (written)", all(&self.write)),
            (false, false) => format!(
                "no files but those in {}, {} (written)",
                all(&self.read),
                all(&self.write)
            ),
        };
        let ports: Vec<String> = self.connect.iter().map(u16::to_string).collect();
        match ports.is_empty() {
            true => files,
            false => format!(
                "{files}; TCP connections to ports {} alone",
                ports.join(", ")
            ),
        }
    }

    /// No other files from now on, for this thread and those that it makes.
    pub(super) fn restrict(&self) -> Result<(), String> {
        let read = AccessFs::from_read(KNOWN) & !AccessFs::Execute;
        let write = AccessFs::from_all(KNOWN) & !AccessFs::Execute;
        let system = SYSTEM.iter().map(PathBuf::from);
        // what is not there is no rule
        let reads = path_beneath_rules(self.read.iter().cloned().chain(system), read);
        let writes = self
            .write
            .iter()
            .cloned()
            .chain([PathBuf::from("/dev/null")]);
        let writes = path_beneath_rules(writes, write);
        let ports = self.connect.iter();
        let ports = ports.map(|p| {
            let rule = NetPort::new(*p, AccessNet::ConnectTcp);
            Ok::<_, landlock::RulesetError>(rule)
        });
        let made = || {
            Ruleset::default()
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::from_all(KNOWN))?
                // nothing here connects anywhere else, or tells other processes anything
                .handle_access(AccessNet::ConnectTcp)?
                .scope(Scope::Signal)?
                .create()?
                .add_rules(reads)?
                .add_rules(writes)?
                .add_rules(ports)?
                .restrict_self()
        };
        let status = made().map_err(|e: landlock::RulesetError| e.to_string())?;
        match status.ruleset {
            RulesetStatus::NotEnforced => Err(
                "this kernel has no Landlock (it comes with Linux 5.13, `lsm=landlock,...`)".into(),
            ),
            _ => Ok(()),
        }
    }
}
