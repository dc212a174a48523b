//! What the kernel's rules do with a packet: `nft monitor trace`.

use crate::KernelError;
use crate::commands;
use onefold_nf::NetSpace;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long is waited for the first line: `nft` starts, and subscribes.
const START: Duration = Duration::from_secs(5);
/// How long the next line may take.
const NEXT: Duration = Duration::from_millis(300);
/// Most lines of one packet's way through a function.
const MAX_LINES: usize = 200;
/// Marks packets, in front of everything else.
const ON: &str = "table inet onefold_trace {\n chain prerouting {\n  \
     type filter hook prerouting priority -500; policy accept;\n  meta nftrace set 1\n }\n}\n";
const OFF: &str = "delete table inet onefold_trace\n";

/// `nft monitor trace` in a function's namespace.
pub(crate) struct Monitor {
    function: String,
    space: Arc<NetSpace>,
    child: Child,
    lines: Receiver<String>,
}

impl Monitor {
    /// Starts it. A machine without `nft` has no traces.
    ///
    /// # Errors
    /// `nft` cannot be started.
    pub fn start(function: &str, space: &Arc<NetSpace>) -> Result<Monitor, KernelError> {
        let mut child = space
            .command("nft")
            .args(["monitor", "trace"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(KernelError::system("starting 'nft monitor trace'"))?;
        let (to, lines) = channel();
        if let Some(out) = child.stdout.take() {
            // ends with the child
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(Result::ok) {
                    if to.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let m = Monitor {
            function: function.to_string(),
            space: space.clone(),
            child,
            lines,
        };
        m.ready();
        let on = commands::tool(space, "nft", &["-f", "-"], ON)?;
        on.map_err(|said| KernelError::Refused {
            function: m.function.clone(),
            tool: "nft".into(),
            what: "the table that marks packets for traces".into(),
            said,
        })?;
        Ok(m)
    }

    /// Waits until it listens: until then its netlink socket is in no table of the kernel.
    fn ready(&self) {
        let begun = Instant::now();
        let file = format!("/proc/{}/net/netlink", self.child.id());
        let listens = || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            // protocol 12: netfilter; groups: a mask that is not zero
            text.lines().skip(1).any(|l| {
                let mut words = l.split_whitespace().skip(1);
                let netfilter = words.next() == Some("12");
                netfilter
                    && words
                        .nth(1)
                        .is_some_and(|g| !g.trim_start_matches('0').is_empty())
            })
        };
        while !listens() && begun.elapsed() < START {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What it has said, until nothing more comes; and it ends.
    pub fn finish(mut self) -> Vec<String> {
        let mut all = Vec::new();
        // Bound: MAX_LINES
        while all.len() < MAX_LINES {
            match self.lines.recv_timeout(NEXT) {
                Ok(l) => all.push(l),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let kept = |l: &String| !l.contains(" onefold") && !l.trim().is_empty();
        let lines: Vec<String> = (all.into_iter().filter(kept))
            .map(|l| format!("{}: {}", self.function, without_id(&l)))
            .collect();
        self.end();
        lines
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = commands::tool(&self.space, "nft", &["-f", "-"], OFF);
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|s| s.is_none()) {
            self.end();
        }
    }
}

/// A line without the number of the trace.
fn without_id(line: &str) -> &str {
    match line
        .strip_prefix("trace id ")
        .and_then(|r| r.split_once(' '))
    {
        Some((_, rest)) => rest,
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::without_id;

    #[test]
    fn numbers_of_traces_are_left_out() {
        assert_eq!(
            without_id("trace id a95ea7ef ip filter FORWARD rule drop"),
            "ip filter FORWARD rule drop"
        );
        assert_eq!(without_id("other"), "other");
    }
}
