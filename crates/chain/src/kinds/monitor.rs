//! `monitor`: counts packets, bytes and flows in both directions; changes nothing. Flows are those of IPv4 and IPv6,
//! with one VLAN tag or without; other frames pass and are counted as skipped.

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

/// How frames of each kind come to the monitor.
const MARKS: [&str; 5] = [
    "MarkIPHeader(14) -> ",
    "MarkIP6Header(14) -> ",
    "MarkIPHeader(18) -> ",
    "MarkIP6Header(18) -> ",
    "",
];

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
            // the monitor looks where header annotations say: nobody before it may have set them
            t.line(format!(
                "FromDevice({from}) -> {name}_count :: Counter -> {name} :: Classifier("
            ))
            .line("12/0800, 12/86dd, 12/8100 16/0800, 12/8100 16/86dd, -);")
            .line(format!("{name}_flows :: FlowMonitor({config})"))
            .line(format!("  -> ToDevice({to});"));
            for (output, mark) in MARKS.iter().enumerate() {
                t.line(format!("{name}[{output}] -> {mark}{name}_flows;"));
            }
        }
        t.finish()
    }
}
