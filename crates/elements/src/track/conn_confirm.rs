//! ConnConfirm: packets that have passed the rules.
//!
//! `ConnConfirm(TABLE)`: where a packet comes that is the first one of its connection, the connection is entered in the
//! ConnTable, and packets that follow are of a connection that is known. Packets leave as they came. Where the table is
//! full and nothing gives way, the packet is dropped; so is one whose replies would be another connection's, where
//! addresses are translated and no end was free.

use super::conn_track::table_of;
use super::headers::of_packet;
use super::table::{Confirmed, ConnTable, millis};
use onefold_element::args::{AnyArg, Args};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Clock, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId, element_any,
    element_takes,
};
use onefold_packet::Pkt;

const FULL: &str = "connection table full";
const CLASHES: &str = "no end is free: the replies would be another connection's";

/// `ConnConfirm`.
pub const CONN_CONFIRM: ElementClass = ElementClass {
    name: "ConnConfirm",
    ports: "1/1",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "TABLE",
    summary: "enters the connections of packets that have passed the rules",
    new: || {
        Box::new(ConnConfirm {
            table: StateId(u32::MAX),
        })
    },
};

#[derive(Debug, Clone)]
struct ConnConfirm {
    table: StateId,
}

impl Element for ConnConfirm {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("TABLE");
        args.finish()?;
        if let Some(AnyArg(name)) = name {
            self.table = table_of(&name, cx).map_err(|e| vec![e])?;
        }
        Ok(())
    }

    fn clock(&self, _: Clock) -> Clock {
        Clock::MILLISECONDS
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("connection tracking")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let now = millis(cx.now);
        let Some(t) = cx.store.get_mut::<ConnTable>(self.table) else {
            cx.emit(0, p);
            return;
        };
        let seen = of_packet(&p, t.settings.checksum);
        let confirmed = t.confirm(&seen, now);
        cx.decide(None, || {
            let text = match confirmed {
                Confirmed::Passes => "no connection begins",
                Confirmed::Entered => "a connection begins",
                Confirmed::Full => FULL,
                Confirmed::Clashes => CLASHES,
            };
            text.to_string()
        });
        match confirmed {
            Confirmed::Passes | Confirmed::Entered => cx.emit(0, p),
            Confirmed::Full => cx.drop(p, FULL),
            Confirmed::Clashes => cx.drop(p, CLASHES),
        }
    }

    fn states(&self) -> Vec<StateId> {
        vec![self.table]
    }

    element_takes!();
    element_any!();
}
