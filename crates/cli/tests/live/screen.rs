//! `onefold top` as somebody sees it who sits in front of it: in a terminal (tmux), with keys and another size.

use crate::edge::{Connections, Edge};
use crate::running::PATIENCE;
use crate::scaling::{edge, servers};
use std::process::Command;
use std::time::{Duration, Instant};

/// A terminal with one program in it.
struct Terminal {
    /// Of the server, which is this test's own.
    name: String,
}

impl Terminal {
    /// A shell that says what was there before and behind the program, and how that ended.
    fn start(name: &str, program: &str) -> Terminal {
        let t = Terminal {
            name: format!("onefold-{name}-{}", std::process::id()),
        };
        let line = format!("echo it begins; {program}; echo ended with $?; sleep 1000");
        t.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "110",
            "-y",
            "40",
            &line,
        ]);
        t
    }

    fn tmux(&self, args: &[&str]) -> String {
        let o = Command::new("tmux")
            .args(["-L", &self.name])
            .args(args)
            .output();
        let o = o.expect("tmux runs");
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.success(), "tmux {args:?}: {said}");
        String::from_utf8_lossy(&o.stdout).into_owned()
    }

    /// What is to be seen.
    fn shows(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until what is to be seen is so.
    fn until(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.shows();
            if is(&text) {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "not {what}:\n{text}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .args(["-L", &self.name, "kill-server"])
            .output();
    }
}

/// `onefold top` of this run, in a terminal.
fn top(edge: &Edge, name: &str) -> Terminal {
    let (program, socket) = (env!("CARGO_BIN_EXE_onefold"), edge.socket.display());
    let t = Terminal::start(
        name,
        &format!("{program} top --every 0.2 --socket {socket}"),
    );
    t.until("the chain's name", |s| s.starts_with("isp-edge"));
    t
}

/// Packets that have come in, as they are shown.
fn came(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("in "))?;
    let digits = line
        .chars()
        .take_while(|c| *c != '(')
        .filter(char::is_ascii_digit);
    digits.collect::<String>().parse().ok()
}

/// Are both ports shown, with their links?
fn has_ports(text: &str) -> bool {
    let of = |port: &str| {
        text.lines()
            .any(|l| l.starts_with(port) && l.contains(" up "))
    };
    of("lan") && of("wan")
}

#[test]
fn top_follows_the_run_and_ends_by_key() {
    if Command::new("tmux").arg("-V").output().is_err() {
        return onefold_testing::skip("tmux is not installed");
    }
    let Some(mut edge) = edge("screen", &["--workers", "1..2", "--groups", "4"], "off") else {
        return;
    };
    let connections = Connections::over(&edge, &servers(), 8, 9090);
    let t = top(&edge, "keys");
    // figures go on by themselves
    let before = came(&t.until("both ports", has_ports));
    t.until("more packets", |s| came(s) > before);
    // so does what somebody else changes
    t.until("one worker", |s| s.contains("scaling: 1 of 1 to 2 workers"));
    edge.json(&["scale", "2"]);
    t.until("two workers", |s| {
        s.contains("scaling: 2 of 1 to 2 workers (by hand)")
    });
    // a key that means nothing does nothing
    t.key("x");
    // a small window shows what it has room for, from the top
    t.tmux(&["resize-window", "-x", "48", "-y", "8"]);
    let small = t.until("a small window", |s| {
        s.starts_with("isp-edge") && s.trim_end().lines().count() <= 8
    });
    assert!(small.lines().all(|l| l.chars().count() <= 48), "{small}");
    t.tmux(&["resize-window", "-x", "110", "-y", "40"]);
    t.until("all of it again", has_ports);
    // behind it is what was there before
    t.key("q");
    let text = t.until("its end", |s| s.contains("ended with 0"));
    assert!(
        text.starts_with("it begins") && !text.contains("isp-edge ("),
        "{text}"
    );
    let t = top(&edge, "interrupt");
    t.key("C-c");
    t.until("its end", |s| s.contains("ended with 130"));
    // a run that ends takes it with it, and it says why
    let t = top(&edge, "gone");
    connections.end();
    edge.onefold.terminate();
    let text = t.until("its end", |s| s.contains("ended with"));
    assert!(
        text.contains("ended with 1") && text.contains("onefold: "),
        "{text}"
    );
    edge.onefold.report(143);
}
