//! Shares of processor time: a control group for each process, below one of the run's.
//!
//! | version | file | of 1024 shares |
//! |---|---|---|
//! | 1 | `cpu.shares` | 1024 |
//! | 2 | `cpu.weight` | 39 ([`weight`]) |
//!
//! A run's group is named after its process's number and the moment that it began, so that a later run can tell whether
//! it is still there: what one has left behind that was killed is removed when the next one begins ([`remove_dead`]).

use onefold_sched::nfvnice::weight;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What names of runs' groups begin with.
const PREFIX: &str = "onefold-";
/// Where control groups are looked for.
const MOUNTS: [&str; 3] = [
    "/sys/fs/cgroup/cpu",
    "/sys/fs/cgroup/cpu,cpuacct",
    "/sys/fs/cgroup",
];

/// Which control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Version 1, `cpu.shares`.
    V1,
    /// Version 2, `cpu.weight`.
    V2,
}

/// A hierarchy of control groups that processor time is shared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// Which.
    pub version: Version,
    /// Where it is mounted.
    pub root: PathBuf,
}

/// The hierarchy of this system; `None`: there is none with a processor controller.
pub fn hierarchy() -> Option<Hierarchy> {
    MOUNTS.iter().find_map(|m| of(Path::new(m)))
}

/// The hierarchy that is mounted there.
fn of(root: &Path) -> Option<Hierarchy> {
    let root = root.to_path_buf();
    if root.join("cpu.shares").exists() {
        return Some(Hierarchy {
            version: Version::V1,
            root,
        });
    }
    let text = fs::read_to_string(root.join("cgroup.controllers")).ok()?;
    text.split_ascii_whitespace()
        .any(|w| w == "cpu")
        .then_some(Hierarchy {
            version: Version::V2,
            root,
        })
}

/// When a process began, in ticks since the system did; `None`: there is none.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // behind the name, which may have anything in it; the 22nd word of all
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A name for something of this process, by which others can tell whether it is still there.
pub fn own_name() -> String {
    let pid = std::process::id();
    format!("{PREFIX}{pid}-{}", began(pid).unwrap_or(0))
}

/// Is it the name of something whose process has ended?
pub fn is_dead(name: &str) -> bool {
    let Some((pid, at)) = name.strip_prefix(PREFIX).and_then(|n| n.split_once('-')) else {
        return false;
    };
    let (Ok(pid), Ok(at)) = (pid.parse::<u32>(), at.parse::<u64>()) else {
        return false;
    };
    began(pid) != Some(at)
}

/// Removes what runs have left that were killed. How many groups.
pub fn remove_dead(h: &Hierarchy) -> usize {
    let entries = fs::read_dir(&h.root).into_iter().flatten().flatten();
    let dead = entries.filter(|e| e.file_name().to_str().is_some_and(is_dead));
    dead.filter(|e| remove(&e.path()).is_ok()).count()
}

/// Removes a run's group and those below it, which have no processes any more.
fn remove(run: &Path) -> io::Result<()> {
    for e in fs::read_dir(run)?.flatten() {
        if e.file_type().is_ok_and(|t| t.is_dir()) {
            fs::remove_dir(e.path())?;
        }
    }
    fs::remove_dir(run)
}

/// The groups of a run: one for each process.
#[derive(Debug)]
pub struct Groups {
    version: Version,
    run: PathBuf,
    /// Where processes are that are in none of these.
    home: PathBuf,
    each: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    path: PathBuf,
    shares: File,
}

impl Groups {
    /// Makes them, with the usual shares; `n` processes.
    ///
    /// # Errors
    /// What the system says: who runs may not, for instance.
    pub fn create(h: &Hierarchy, n: usize) -> io::Result<Groups> {
        let run = h.root.join(own_name());
        fs::create_dir(&run)?;
        let mut groups = Groups {
            version: h.version,
            home: home(h),
            run,
            each: Vec::new(),
        };
        let file = groups.file();
        if h.version == Version::V2 {
            // a group hands its controllers on by wish
            fs::write(h.root.join("cgroup.subtree_control"), "+cpu")?;
            fs::write(groups.run.join("cgroup.subtree_control"), "+cpu")?;
        }
        // all together weigh as much as they would each by itself
        let all = onefold_sched::DEFAULT_SHARES.saturating_mul(n as u32);
        fs::write(groups.run.join(file), groups.value(all).to_string())?;
        for i in 0..n {
            let path = groups.run.join(i.to_string());
            fs::create_dir(&path)?;
            let shares = File::options().write(true).open(path.join(file))?;
            groups.each.push(Group { path, shares });
        }
        Ok(groups)
    }

    fn file(&self) -> &'static str {
        match self.version {
            Version::V1 => "cpu.shares",
            Version::V2 => "cpu.weight",
        }
    }

    fn value(&self, shares: u32) -> u32 {
        match self.version {
            Version::V1 => shares,
            Version::V2 => weight(shares),
        }
    }

    /// Where the run's group is.
    pub fn path(&self) -> &Path {
        &self.run
    }

    /// Process `pid` is in the group of process number `n`, with all its threads.
    ///
    /// # Errors
    /// What the system says: it has ended, or is of real time, which these groups do not allow.
    pub fn join(&self, n: usize, pid: u32) -> io::Result<()> {
        let group = self.each.get(n).ok_or(io::ErrorKind::NotFound)?;
        fs::write(group.path.join("cgroup.procs"), pid.to_string())
    }

    /// Process `pid` is where it was before.
    ///
    /// # Errors
    /// What the system says.
    pub fn leave(&self, pid: u32) -> io::Result<()> {
        fs::write(self.home.join("cgroup.procs"), pid.to_string())
    }

    /// Sets the shares of process number `n`; nothing is allocated.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_shares(&self, n: usize, shares: u32) -> io::Result<()> {
        let group = self.each.get(n).ok_or(io::ErrorKind::NotFound)?;
        let mut text = [0; 12];
        let mut left = text.as_mut_slice();
        io::Write::write_fmt(&mut left, format_args!("{}", self.value(shares)))?;
        let n = 12 - left.len();
        let text = text.get(..n).unwrap_or_default();
        group.shares.write_at(text, 0).map(|_| ())
    }
}

/// Where this process is, in this hierarchy.
fn home(h: &Hierarchy) -> PathBuf {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let mine = text.lines().find_map(|l| {
        let (_, rest) = l.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let here = match h.version {
            Version::V1 => controllers.split(',').any(|c| c == "cpu"),
            Version::V2 => controllers.is_empty(),
        };
        here.then(|| path.trim_start_matches('/').to_string())
    });
    h.root.join(mine.unwrap_or_default())
}

impl Drop for Groups {
    fn drop(&mut self) {
        // processes that are still there keep them; the next run removes them
        let _ = remove(&self.run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_they_are() {
        let own = own_name();
        assert!(!is_dead(&own), "{own}");
        assert!(is_dead(&format!("{own}1")));
        assert!(is_dead("onefold-4194305-1"));
        for other in [
            "onefold-1",
            "onefold-x-1",
            "other-4194305-1",
            "onefold--1",
            "user.slice",
        ] {
            assert!(!is_dead(other), "{other}");
        }
    }

    /// A folder with the files of version 2 in it.
    #[test]
    fn of_version_2_weights_are_written() {
        let root = std::env::temp_dir().join(format!("onefold-levers-v2-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        assert_eq!(of(&root), None);
        fs::write(root.join("cgroup.controllers"), "cpuset cpu io\n").unwrap();
        let h = of(&root).unwrap();
        assert_eq!(h.version, Version::V2);
        // its group's files are made by the kernel there
        let dir = h.root.join(own_name()).join("0");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("cpu.weight"), "").unwrap();
        let shares = File::options()
            .write(true)
            .open(dir.join("cpu.weight"))
            .unwrap();
        let groups = Groups {
            version: h.version,
            run: h.root.join(own_name()),
            home: root.clone(),
            each: vec![Group {
                path: dir.clone(),
                shares,
            }],
        };
        groups.set_shares(0, 1024).unwrap();
        assert_eq!(fs::read_to_string(dir.join("cpu.weight")).unwrap(), "39");
        drop(groups);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn of_version_1_shares_are_written_and_all_is_removed() {
        let Some(h) = hierarchy().filter(|h| h.version == Version::V1) else {
            onefold_testing::skip("no control groups of version 1");
            return;
        };
        let groups = match Groups::create(&h, 2) {
            Ok(g) => g,
            Err(e) => {
                onefold_testing::skip(format!("control groups: {e}"));
                return;
            }
        };
        let path = groups.path().to_path_buf();
        groups.set_shares(1, 3072).unwrap();
        groups.set_shares(1, 77).unwrap();
        let read = |n: &str| fs::read_to_string(path.join(n).join("cpu.shares")).unwrap();
        assert_eq!((read("0").trim(), read("1").trim()), ("1024", "77"));
        assert_eq!(
            fs::read_to_string(path.join("cpu.shares")).unwrap().trim(),
            "2048"
        );
        let mut sleeper = std::process::Command::new("sleep")
            .arg("100")
            .spawn()
            .unwrap();
        groups.join(1, sleeper.id()).unwrap();
        let procs = || fs::read_to_string(path.join("1/cgroup.procs")).unwrap();
        assert_eq!(procs().trim(), sleeper.id().to_string());
        groups.leave(sleeper.id()).unwrap();
        assert_eq!(procs().trim(), "");
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        // one that a dead run has left
        let dead = h.root.join("onefold-4194305-1");
        fs::create_dir_all(dead.join("0")).unwrap();
        assert!(remove_dead(&h) >= 1);
        assert!(!dead.exists() && path.exists());
        drop(groups);
        assert!(!path.exists());
    }
}
