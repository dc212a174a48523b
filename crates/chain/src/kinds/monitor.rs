//! `monitor`: counts packets, bytes and flows in both directions; changes nothing.

use super::{ClickText, KindCx};
use crate::file::Loc;
use schemars::JsonSchema;
use serde::Deserialize;

/// Ports: 0 and 1, joined.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Monitor {
    /// Most flows that are remembered, per direction.
    pub flows: Option<Loc<u32>>,
}

impl Monitor {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        let config = match &self.flows {
            Some(f) if f.value == 0 => {
                cx.error(f, "flows must be at least 1");
                String::new()
            }
            Some(f) => format!("CAPACITY {}", f.value),
            None => String::new(),
        };
        let mut t = ClickText::new();
        for (name, from, to) in [("up", 0, 1), ("down", 1, 0)] {
            t.line(format!("FromDevice({from})"))
                .line(format!("  -> {name}_count :: Counter"))
                .line(format!("  -> {name}_flows :: FlowMonitor({config})"))
                .line(format!("  -> ToDevice({to});"));
        }
        t.finish()
    }
}
