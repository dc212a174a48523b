//! `vlan`: adds a VLAN tag to what goes from port 0 (untagged) to port 1 (trunk), removes it on the way back; frames on
//! the trunk that have another tag, or none, are dropped.

use super::{ClickText, KindCx, discard};
use crate::file::Loc;
use schemars::JsonSchema;
use serde::Deserialize;

/// Ports: 0 untagged, 1 trunk.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Vlan {
    /// VLAN identifier, 1 to 4094.
    pub id: Loc<u16>,
    /// Priority code point of added tags, 0 to 7.
    pub priority: Option<Loc<u8>>,
}

impl Vlan {
    /// The graph as Click text.
    pub fn click(&self, cx: &mut KindCx<'_>) -> String {
        if !(1..=4094).contains(&self.id.value) {
            cx.error(
                &self.id,
                format!("VLAN id {} out of range, 1 to 4094", self.id.value),
            );
        }
        let pcp = self.priority.as_ref().map_or(0, |p| p.value);
        if let Some(p) = self.priority.as_ref().filter(|p| p.value > 7) {
            cx.error(p, format!("priority {} out of range, 0 to 7", p.value));
        }
        let id = self.id.value;
        let mut t = ClickText::new();
        t.line("FromDevice(0)")
            .line(format!("  -> VLANEncap(VLAN_ID {id}, VLAN_PCP {pcp})"))
            .line("  -> ToDevice(1);")
            .line(format!(
                "FromDevice(1) -> tagged :: Classifier(12/8100 14/{id:04x}%0fff, -)"
            ))
            .line("  -> VLANDecap")
            .line("  -> ToDevice(0);")
            .line(format!(
                "tagged[1] -> {};",
                discard(&format!("frame on the trunk without the tag of VLAN {id}"))
            ));
        t.finish()
    }
}
