//! `onefold run` in a namespace, from its start to its report.

use crate::common;
use onefold_testing::net::Net;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Longest time for what takes a moment: many times what it takes on a quiet machine. (Threads of another class that
/// have a core to themselves were seen to keep all others from it for twenty seconds.)
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Onefold, running.
pub struct Running {
    child: Child,
    /// Lines of standard error.
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Running {
    /// Starts it in a host's namespace, every packet compared with the reference graph, and waits until it takes
    /// packets.
    pub fn start(net: &Net, host: &str, args: &[&str]) -> Running {
        Running::compared(net, host, args, "all")
    }

    /// As [`Running::start`], with this share of the packets compared.
    pub fn compared(net: &Net, host: &str, args: &[&str], share: &str) -> Running {
        let mut command = net.command(host, env!("CARGO_BIN_EXE_onefold"));
        command.arg("run").args(args);
        // proofs of these chains are other tests' matter
        command.args(["--json", "--verify-time", "0", "--shadow", share]);
        let mut running = Running::spawn(command);
        running.wait_for("running;");
        running
    }

    /// As [`Running::compared`] with nothing compared, and these in its environment.
    pub fn with(net: &Net, host: &str, args: &[&str], environment: &[(&str, &str)]) -> Running {
        let mut command = net.command(host, env!("CARGO_BIN_EXE_onefold"));
        command.arg("run").args(args);
        command.args(["--json", "--verify-time", "0", "--shadow", "off"]);
        command.envs(environment.iter().copied());
        let mut running = Running::spawn(command);
        running.wait_for("running;");
        running
    }

    /// The same as an operator starts it: proved in the beginning, and compared with nothing then.
    pub fn proved(net: &Net, host: &str, args: &[&str]) -> Running {
        let mut command = net.command(host, env!("CARGO_BIN_EXE_onefold"));
        command.arg("run").args(args).arg("--json");
        let mut running = Running::spawn(command);
        running.wait_for("running;");
        running
    }

    /// As [`Running::compared`], without a namespace.
    pub fn alone(args: &[&str], share: &str) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
        command.arg("run").args(args);
        command.args(["--json", "--verify-time", "0", "--shadow", share]);
        let mut running = Running::spawn(command);
        running.wait_for("running;");
        running
    }

    /// What it has said on standard error, as far as it was waited for.
    pub fn said(&self) -> &[String] {
        &self.said
    }

    fn spawn(mut command: Command) -> Running {
        let mut child = command
            .current_dir(common::root())
            .env("ONEFOLD_CACHE", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let (send, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Running {
            child,
            lines,
            said: Vec::new(),
        }
    }

    /// Waits until standard error has a line with this in it.
    pub fn wait_for(&mut self, part: &str) -> String {
        let begun = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.said.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                Err(RecvTimeoutError::Timeout) => panic!("no '{part}': {:?}", self.said),
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("ended without '{part}': {:?}", self.said)
                }
            }
        }
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it SIGTERM and reads its report: every packet is accounted for, and no comparison has shown a difference.
    pub fn stop(mut self) -> Value {
        self.terminate();
        self.report(143)
    }

    /// Sends it SIGTERM.
    pub fn terminate(&self) {
        let killed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(killed.is_ok_and(|s| s.success()));
    }

    /// Reads its report when it ends by itself, with this status.
    pub fn report(&mut self, status: i32) -> Value {
        let mut text = String::new();
        let mut out = self.child.stdout.take().expect("piped");
        out.read_to_string(&mut text).expect("a report");
        let ended = self.child.wait().expect("it ends");
        self.said.extend(self.lines.iter());
        assert_eq!(ended.code(), Some(status), "{text} {:?}", self.said);
        let v: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(v["conserved"], true, "{v}");
        // null where nothing is compared
        let differences = v["shadow"]["differences"].as_u64();
        assert_eq!(differences.unwrap_or(0), 0, "{v}");
        v
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
