//! A run whose functions are processes, while it runs.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A JSON text.
pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A run whose processes can be ended.
pub struct Running {
    pub child: Child,
    err: BufReader<std::process::ChildStderr>,
    /// Number and name of each process.
    pub kids: Vec<(u32, String)>,
    /// All that it said before it ran.
    pub said: String,
}

impl Running {
    /// Launches it, and waits until it takes packets.
    pub fn start(dir: &Path, chain: &str, more: &[&str]) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_onefold"))
            .current_dir(dir)
            .env("ONEFOLD_CACHE", "")
            .args(["run", chain, "--json", "--mode", "reference"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let (mut kids, mut said) = (Vec::new(), String::new());
        loop {
            let mut line = String::new();
            assert!(err.read_line(&mut line).unwrap() > 0, "ended: {said}");
            said.push_str(&line);
            if line.starts_with("running") {
                break;
            }
            if let Some((id, name)) = line
                .strip_prefix("process ")
                .and_then(|l| l.split_once(": "))
            {
                let name = name.split([',', ' ']).next().unwrap_or_default().trim();
                kids.push((id.parse().unwrap(), name.to_string()));
            }
        }
        Running {
            child,
            err,
            kids,
            said,
        }
    }

    /// The process of a function.
    pub fn of(&self, name: &str) -> u32 {
        self.kids.iter().find(|k| k.1 == name).unwrap().0
    }

    /// The process that was launched in the place of others.
    pub fn now(&self, but: u32) -> Option<u32> {
        let known: Vec<u32> = self.kids.iter().map(|k| k.0).collect();
        let children = children(self.child.id());
        children
            .into_iter()
            .rfind(|c| !known.contains(c) && *c != but)
    }

    /// Its report, after it has ended well.
    pub fn report(self) -> serde_json::Value {
        self.report_of(0)
    }

    /// Its report, after it has ended with this status.
    pub fn report_of(mut self, expected: i32) -> serde_json::Value {
        let mut out = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        let mut err = String::new();
        self.err.read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(expected), "{out}\n{err}");
        for (id, name) in &self.kids {
            assert!(!exists(*id), "{name} is still there");
        }
        json(&out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends a process at once.
pub fn kill(id: u32) {
    let done = Command::new("kill").args(["-9", &id.to_string()]).status();
    assert!(done.is_ok_and(|s| s.success()));
}

/// Is there such a process, other than one that waits for its end to be heard of?
pub fn exists(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|s| s.split_whitespace().next());
    state.is_some_and(|s| s != "Z")
}

/// Processes that this one has launched.
pub fn children(of: u32) -> Vec<u32> {
    let all = std::fs::read_to_string(format!("/proc/{of}/task/{of}/children"));
    let all = all.unwrap_or_default();
    all.split_whitespace()
        .filter_map(|c| c.parse().ok())
        .collect()
}

/// Waits until it is so.
pub fn wait_until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
