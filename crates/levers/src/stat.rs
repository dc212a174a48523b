//! What the kernel counts of a process: processor time, time that it waited for a core, switches. Files stay open, and
//! are read into memory that is there already.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Longest `status` that is read; what is looked for stands at its end, within some 2 KiB.
const LONGEST: usize = 4096;

/// What is counted of a process's first thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time, in ns.
    pub run: u64,
    /// Time that it was runnable and did not run, in ns.
    pub wait: u64,
    /// Times that it slept or yielded.
    pub voluntary: u64,
    /// Times that it was preempted.
    pub involuntary: u64,
}

impl Usage {
    /// What has come since then.
    pub fn since(self, then: Usage) -> Usage {
        Usage {
            run: self.run.saturating_sub(then.run),
            wait: self.wait.saturating_sub(then.wait),
            voluntary: self.voluntary.saturating_sub(then.voluntary),
            involuntary: self.involuntary.saturating_sub(then.involuntary),
        }
    }

    /// Both together.
    pub fn plus(self, other: Usage) -> Usage {
        Usage {
            run: self.run + other.run,
            wait: self.wait + other.wait,
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
        }
    }
}

/// A process's counters.
#[derive(Debug)]
pub struct Counters {
    schedstat: File,
    status: File,
}

impl Counters {
    /// Of process `pid`.
    ///
    /// # Errors
    /// There is no such process, or the kernel does not count (`CONFIG_SCHED_INFO`).
    pub fn open(pid: u32) -> io::Result<Counters> {
        Ok(Counters {
            schedstat: File::open(format!("/proc/{pid}/schedstat"))?,
            status: File::open(format!("/proc/{pid}/status"))?,
        })
    }

    /// As they are now; `None`: the process has ended.
    pub fn read(&self) -> Option<Usage> {
        let (run, wait) = self.times()?;
        let mut text = [0; LONGEST];
        let n = self.status.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..n)?).ok()?;
        let number = |key: &str| -> Option<u64> {
            let line = text.lines().find_map(|l| l.strip_prefix(key))?;
            line.trim().parse().ok()
        };
        Some(Usage {
            run,
            wait,
            voluntary: number("voluntary_ctxt_switches:")?,
            involuntary: number("nonvoluntary_ctxt_switches:")?,
        })
    }

    /// Processor time and time that it waited for a core, in ns.
    pub fn times(&self) -> Option<(u64, u64)> {
        let mut text = [0; 128];
        let n = self.schedstat.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..n)?).ok()?;
        let mut words = text.split_ascii_whitespace().map(|w| w.parse::<u64>().ok());
        Some((words.next()??, words.next()??))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_counted() {
        let c = Counters::open(std::process::id()).unwrap();
        let before = c.read().unwrap();
        // this may not be the first thread, whose counters these are: they do not go back
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = c.read().unwrap();
        assert!(after.run >= before.run && after.voluntary >= before.voluntary);
        assert_eq!(before.since(before), Usage::default());
        assert_eq!(Usage::default().plus(after), after);
        assert!(Counters::open(0).is_err());
    }
}
