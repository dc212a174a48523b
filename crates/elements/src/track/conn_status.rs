//! ConnStatus: tells packets by the state of their connection, once more.
//!
//! `ConnStatus(TABLE, CLASSES, ...)`: as ConnTrack, behind it; but nothing is done to the connection, and what has been
//! decided about its translation since the packet was tracked counts (`dnat` behind ConnDstNat). What has not been
//! tracked is untracked.

use super::class::{ConnClass, ConnState};
use super::conn_track::{ClassOutputs, UNNAMED};
use super::table::ConnTable;
use super::table_user::{is_asked, uses_table};
use onefold_element::args::Args;
use onefold_element::{ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port};
use onefold_packet::Pkt;

/// `ConnStatus`.
pub const CONN_STATUS: ElementClass = ElementClass {
    name: "ConnStatus",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "TABLE, CLASSES_1, ..., CLASSES_n",
    summary: "tells packets by the state of their connection, as it is behind translation",
    new: || Box::new(ConnStatus::default()),
};

#[derive(Debug, Clone, Default)]
struct ConnStatus {
    outputs: ClassOutputs,
}

impl Element for ConnStatus {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.outputs.configure(args, cx)
    }

    is_asked!();

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let table = cx.store.get::<ConnTable>(self.outputs.table);
        let class = table.and_then(|t| t.in_hand.class);
        let class = class.unwrap_or(ConnClass::without(ConnState::Untracked));
        let output = self.outputs.of(class);
        cx.decide(output.map(|o| o + 1), || class.to_string());
        match output {
            Some(o) => cx.emit_or_drop(o, p, "unconnected output"),
            None => cx.drop(p, UNNAMED),
        }
    }

    uses_table!(outputs.table);
}
