//! `native`: a program of its own that uses the NF library (`libonefold-nf`). Onefold launches it and cannot see into
//! it: in the chain's graph stand elements that neither take nor give packets, and nothing but `run` executes such a
//! chain.

use super::{ClickText, KindCx};
use crate::file::Loc;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;

/// Most ports of a program.
const MOST_PORTS: u32 = 64;

/// Ports: as many as it says.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Native {
    /// The program and its arguments. A program whose name has a slash is looked for from the chain file's folder on;
    /// `onefold` is the one that runs the chain.
    pub command: Vec<Loc<String>>,
    /// How many ports it has; 2, if not given.
    pub ports: Option<Loc<u32>>,
}

/// What is launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How many ports it has.
    pub ports: usize,
}

impl Native {
    fn ports(&self) -> u32 {
        self.ports.as_ref().map_or(2, |p| p.value)
    }

    /// What is launched; `None`: nothing is named.
    pub(crate) fn program(&self, cx: &KindCx<'_>) -> Option<NativeProgram> {
        let (first, rest) = self.command.split_first()?;
        let program = match first.value.contains('/') {
            true => cx.reader.dir.join(&first.value),
            false => PathBuf::from(&first.value),
        };
        Some(NativeProgram {
            program,
            arguments: rest.iter().map(|a| a.value.clone()).collect(),
            ports: self.ports() as usize,
        })
    }

    /// The graph as Click text: devices that nothing comes from and nothing is sent to.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        if self.command.iter().all(|c| c.value.is_empty()) {
            cx.error_whole("command names no program");
        }
        if let Some(p) = &self.ports
            && !(1..=MOST_PORTS).contains(&p.value)
        {
            cx.error(p, format!("ports must be from 1 to {MOST_PORTS}"));
            return String::new();
        }
        let mut t = ClickText::new();
        for n in 0..self.ports() {
            t.line(format!("in{n} :: FromDevice({n}) -> taken{n} :: Discard;"))
                .line(format!("Idle -> out{n} :: ToDevice({n});"));
        }
        t.finish()
    }
}

/// The port that an element of such a graph is at: where packets leave ("out"), or where they arrive ("taken", "in").
pub(crate) fn port_of(element: &str) -> Option<usize> {
    let name = element.split_once('/').map_or(element, |(_, n)| n);
    let number = ["out", "taken", "in"]
        .iter()
        .find_map(|p| name.strip_prefix(p))?;
    number.parse().ok()
}
