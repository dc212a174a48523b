//! Processor time: of a process, and of everything on a core.

use std::fs::read_to_string;

/// Nanoseconds of one tick of `/proc/stat` (`USER_HZ` is 100 on all that Linux runs on).
const TICK: u64 = 10_000_000;

/// Processor time of a process with all its threads so far, in nanoseconds; `None`: it is gone.
pub fn of_process(pid: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = 0;
    for t in tasks.flatten() {
        // nanoseconds on a processor come first
        let text = read_to_string(t.path().join("schedstat")).ok();
        match text.and_then(|t| t.split_whitespace().next()?.parse::<u64>().ok()) {
            Some(ns) => sum += ns,
            None => return of_stat(pid),
        }
    }
    Some(sum)
}

/// The same in ticks, of kernels without statistics of the scheduler.
fn of_stat(pid: u32) -> Option<u64> {
    let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // the name is in parentheses, and may have any character
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let tick = |i: usize| fields.get(i)?.parse::<u64>().ok();
    Some((tick(11)? + tick(12)?) * TICK)
}

/// What a core has spent its time with, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Core {
    /// With anything.
    pub busy: u64,
    /// With interrupts, deferred ones (softirq) included.
    pub interrupts: u64,
    /// With anything, or nothing.
    pub all: u64,
}

impl Core {
    /// So far.
    pub fn now(core: usize) -> Option<Core> {
        parse(&read_to_string("/proc/stat").ok()?, core)
    }

    /// Since then.
    pub fn since(self, then: Core) -> Core {
        Core {
            busy: self.busy.saturating_sub(then.busy),
            interrupts: self.interrupts.saturating_sub(then.interrupts),
            all: self.all.saturating_sub(then.all),
        }
    }

    /// Nanoseconds with anything.
    pub fn busy_ns(self) -> u64 {
        self.busy * TICK
    }

    /// The share of its time.
    pub fn share(self) -> f64 {
        self.busy as f64 / self.all.max(1) as f64
    }
}

fn parse(stat: &str, core: usize) -> Option<Core> {
    let name = format!("cpu{core}");
    let line = stat
        .lines()
        .find(|l| l.split_whitespace().next() == Some(&name))?;
    let t: Vec<u64> = (line.split_whitespace().skip(1))
        .map_while(|f| f.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guests are in user
    let at = |i: usize| t.get(i).copied().unwrap_or(0);
    let interrupts = at(5) + at(6);
    let busy = at(0) + at(1) + at(2) + interrupts;
    Some(Core {
        busy,
        interrupts,
        all: busy + at(3) + at(4) + at(7),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Command, Stdio};

    #[test]
    fn a_core_is_found_and_its_time_is_sorted() {
        let text = "cpu  1 1 1 1\ncpu1 10 1 20 300 5 2 40 7 0 0\ncpu10 9 9 9 9\n";
        let c = Core {
            busy: 73,
            interrupts: 42,
            all: 385,
        };
        assert_eq!(parse(text, 1), Some(c));
        assert_eq!(parse(text, 2), None);
        assert_eq!(c.since(Core::default()), c);
        assert!((c.share() - 73.0 / 385.0).abs() < 1e-9);
    }

    /// A process of one thread: of one with several, time is gone with each thread that ends.
    #[test]
    fn a_process_that_counts_has_used_some() {
        let counts =
            "while read x; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done; done";
        let mut child = Command::new("sh")
            .args(["-c", counts])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let before = of_process(child.id()).unwrap();
        let mut to = child.stdin.take().unwrap();
        to.write_all(b"go\n").unwrap();
        let mut said = String::new();
        let mut from = BufReader::new(child.stdout.take().unwrap());
        from.read_line(&mut said).unwrap();
        assert_eq!(said, "done\n");
        assert!(of_process(child.id()).unwrap() > before);
        drop(to);
        assert!(child.wait().unwrap().success());
        assert_eq!(of_process(u32::MAX), None);
    }
}
