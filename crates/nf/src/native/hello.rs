//! What a program is told first.

use super::{MOST_PORTS, NativeError};
use crate::plan::Plan;
use std::fmt::Write;

/// What a program is told first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Its number.
    pub me: u32,
    /// Packets arrive in real time.
    pub live: bool,
    /// By port: the ring that packets come from, and the one that they leave through.
    pub ports: Vec<(Option<u32>, Option<u32>)>,
    /// The plan.
    pub plan: Plan,
}

impl Hello {
    /// As a text.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "onefold-nf 2\n{} {} {}\n",
            self.me,
            u8::from(self.live),
            self.ports.len()
        );
        let ring = |r: Option<u32>| r.map_or(-1, i64::from);
        for (input, output) in &self.ports {
            // writing to a string does not fail
            let _ = writeln!(text, "{} {}", ring(*input), ring(*output));
        }
        text + &self.plan.to_text()
    }

    /// Reads [`Hello::to_text`].
    ///
    /// # Errors
    /// It is none.
    pub fn of_text(text: &str) -> Result<Hello, NativeError> {
        let wrong = NativeError::Hello;
        let mut rest = text;
        let mut line = || {
            let (line, behind) = rest.split_once('\n')?;
            rest = behind;
            Some(line)
        };
        if line() != Some("onefold-nf 2") {
            return Err(wrong("not one of version 2"));
        }
        let numbers = |line: Option<&str>| -> Option<Vec<i64>> {
            line?.split(' ').map(|n| n.parse().ok()).collect()
        };
        let Some([me, live, ports]) = numbers(line()).and_then(|n| <[i64; 3]>::try_from(n).ok())
        else {
            return Err(wrong("expected number, liveness and ports"));
        };
        let me = u32::try_from(me).map_err(|_| wrong("expected a process's number"))?;
        let n = usize::try_from(ports).ok().filter(|n| *n <= MOST_PORTS);
        let n = n.ok_or(wrong("64 ports at most"))?;
        let mut all = Vec::new();
        for _ in 0..n {
            match numbers(line()).as_deref() {
                Some([i, o]) => all.push((u32::try_from(*i).ok(), u32::try_from(*o).ok())),
                _ => return Err(wrong("expected a port's two rings")),
            }
        }
        Ok(Hello {
            me,
            live: live != 0,
            ports: all,
            plan: Plan::of_text(rest)?,
        })
    }
}
