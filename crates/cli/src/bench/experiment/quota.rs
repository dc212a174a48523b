//! A share of a core's time for this thread: a quota of a control group (version 1).

use std::path::{Path, PathBuf};

/// Where the cpu controller may be.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"];
/// The quota is given anew so often, in microseconds.
const PERIOD_US: u64 = 10_000;

/// This thread is in a group of its own while this lives, and back where it was afterwards.
pub struct Quota {
    group: PathBuf,
    back: PathBuf,
    thread: String,
}

/// The number of this thread.
fn thread() -> Result<String, String> {
    let link = std::fs::read_link("/proc/thread-self").map_err(|e| format!("/proc: {e}"))?;
    let name = link.file_name().map(|n| n.to_string_lossy().into_owned());
    name.ok_or_else(|| "/proc/thread-self has no number".into())
}

fn write(dir: &Path, file: &str, text: &str) -> Result<(), String> {
    let path = dir.join(file);
    std::fs::write(&path, text).map_err(|e| format!("'{}': {e}", path.display()))
}

/// The group that this thread is in at present.
fn present(root: &Path) -> PathBuf {
    let own = std::fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|l| {
        let mut parts = l.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        let path = parts.next()?;
        controllers.split(',').any(|c| c == "cpu").then_some(path)
    });
    let there = root.join(path.unwrap_or("/").trim_start_matches('/'));
    // the path may be another view's
    if there.is_dir() {
        there
    } else {
        root.to_path_buf()
    }
}

impl Quota {
    /// So much of a core's time, more than none and less than all of it.
    ///
    /// # Errors
    /// In words: why it cannot be.
    pub fn new(share: f64) -> Result<Quota, String> {
        let root = ROOTS.map(PathBuf::from);
        let root = root
            .iter()
            .find(|r| r.join("cpu.cfs_quota_us").exists() || r.join("tasks").exists());
        let root = root.ok_or("no cpu controller of control groups, version 1, is mounted")?;
        let back = present(root);
        let thread = thread()?;
        let group = back.join(format!("onefold-{}-{thread}", std::process::id()));
        std::fs::create_dir(&group).map_err(|e| format!("'{}': {e}", group.display()))?;
        let quota = Quota {
            group,
            back,
            thread,
        };
        let us = ((PERIOD_US as f64 * share) as u64).clamp(1000, PERIOD_US);
        write(&quota.group, "cpu.cfs_period_us", &PERIOD_US.to_string())?;
        write(&quota.group, "cpu.cfs_quota_us", &us.to_string())?;
        write(&quota.group, "tasks", &quota.thread)?;
        Ok(quota)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = write(&self.back, "tasks", &self.thread);
        let _ = std::fs::remove_dir(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_its_share_and_comes_back() {
        let before = std::fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
        match Quota::new(0.5) {
            Err(why) => println!("skipped: {why}"),
            Ok(q) => {
                let tasks = std::fs::read_to_string(q.group.join("tasks")).unwrap();
                assert_eq!(tasks.trim(), q.thread);
                let us = std::fs::read_to_string(q.group.join("cpu.cfs_quota_us")).unwrap();
                assert_eq!(us.trim(), "5000");
                let dir = q.group.clone();
                drop(q);
                assert!(!dir.exists());
            }
        }
        let after = std::fs::read_to_string("/proc/thread-self/cgroup").unwrap_or_default();
        assert_eq!(before, after);
    }
}
