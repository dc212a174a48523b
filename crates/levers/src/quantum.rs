//! The system's round-robin quantum: one for everybody. Who sets it writes down what it was, so that it can be put back
//! by somebody else.

use crate::group::{is_dead, own_name};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where it is, in milliseconds.
const QUANTUM: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";
/// What records' names end with.
const SUFFIX: &str = ".rr-ms";

/// The quantum, in ms; `None`: the kernel does not say.
pub fn get() -> Option<u64> {
    fs::read_to_string(QUANTUM).ok()?.trim().parse().ok()
}

/// It is another one until this is dropped.
#[derive(Debug)]
pub struct Quantum {
    record: PathBuf,
    before: u64,
}

impl Quantum {
    /// Sets it, in ms; what it was is written down in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// What the system says: it takes root.
    pub fn set(ms: u64, folder: &Path) -> io::Result<Quantum> {
        let before = get().ok_or(io::ErrorKind::NotFound)?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let record = folder.join(format!("{}{SUFFIX}", own_name()));
        fs::write(&record, before.to_string())?;
        let quantum = Quantum { record, before };
        fs::write(QUANTUM, ms.max(1).to_string())?;
        Ok(quantum)
    }
}

impl Drop for Quantum {
    fn drop(&mut self) {
        let _ = fs::write(QUANTUM, self.before.to_string());
        let _ = fs::remove_file(&self.record);
    }
}

/// Puts it back for who has set it and was killed; to what, in ms.
pub fn restore_dead(folder: &Path) -> Option<u64> {
    let mut restored = None;
    for e in fs::read_dir(folder).ok()?.flatten() {
        let name = e.file_name();
        let dead = name
            .to_str()
            .and_then(|n| n.strip_suffix(SUFFIX))
            .is_some_and(is_dead);
        if !dead {
            continue;
        }
        let before: Option<u64> = fs::read_to_string(e.path())
            .ok()
            .and_then(|t| t.trim().parse().ok());
        if let Some(ms) = before.filter(|ms| (1..=10_000).contains(ms)) {
            restored = fs::write(QUANTUM, ms.to_string())
                .is_ok()
                .then_some(ms)
                .or(restored);
        }
        let _ = fs::remove_file(e.path());
    }
    restored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_put_back_whoever_does_so() {
        let folder = std::env::temp_dir().join(format!("onefold-levers-rr-{}", std::process::id()));
        let Some(before) = get() else {
            onefold_testing::skip("the kernel has no round-robin quantum");
            return;
        };
        match Quantum::set(before, &folder) {
            Ok(q) => drop(q),
            Err(e) => {
                onefold_testing::skip(format!("the round-robin quantum: {e}"));
                return;
            }
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        fs::write(folder.join("onefold-4194305-7.rr-ms"), before.to_string()).unwrap();
        fs::write(folder.join("onefold-4194305-8.rr-ms"), "nonsense").unwrap();
        fs::write(folder.join("other"), "5").unwrap();
        assert_eq!(restore_dead(&folder), Some(before));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(get(), Some(before));
        fs::remove_dir_all(&folder).unwrap();
    }
}
