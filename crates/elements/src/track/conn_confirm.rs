//! ConnConfirm: packets that have passed the rules.
//!
//! `ConnConfirm(TABLE)`: where a packet comes that is the first one of its connection, the connection is entered in the
//! ConnTable, and packets that follow are of a connection that is known. Packets leave as they came. Where the table is
//! full and nothing gives way, the packet is dropped; so is one whose replies would be another connection's, where
//! addresses are translated and no end was free.

use super::begin::Confirmed;
use super::bind;
use super::conn_index::key_ahead;
use super::headers::is_fragment;
use super::table::{ConnTable, millis};
use super::table_user::{NO_TABLE, TRACKING, finish, uses_table};
use onefold_element::args::{AnyArg, Args};
use onefold_element::model::{BindPacket, Binding, Bound, Model, ModelCx};
use onefold_element::{ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId};
use onefold_packet::{Packet, Pkt};

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
    new: || Box::new(ConnConfirm { table: NO_TABLE }),
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
        self.table = finish(args, name, cx, Vec::new(), |_| ())?;
        Ok(())
    }

    /// It is bound where translation is: keys of flows tell TCP's flags apart then, and packets that open and close
    /// connections are no flows of those between. Where nothing is translated they are, and that is worth more.
    fn model(&self, _: Port, cx: &ModelCx<'_>) -> Model {
        match cx.store.get::<ConnTable>(self.table) {
            Some(t) if t.settings.translates => bind::confirming(),
            _ => Model::ask(TRACKING),
        }
    }

    fn bind(
        &mut self,
        _: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
        cx: &mut Cx<'_>,
    ) -> Bound {
        let b = bind::unchanged(0, p);
        if !may(&b) {
            return Bound::Punt("a binding of no known kind");
        }
        let now = millis(cx.now);
        let t = cx.store.get_mut::<ConnTable>(self.table);
        let (key, flipped) = bind::key(p);
        let Some(confirmed) = t.and_then(|t| t.confirm_in_hand((&key, flipped), now)) else {
            return Bound::Punt("another packet is in hand");
        };
        cx.decide(None, || text(confirmed).to_string());
        match refusal(confirmed) {
            Some(why) => Bound::Drop(why),
            None => Bound::To(b),
        }
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let now = millis(cx.now);
        let Some(t) = cx.store.get_mut::<ConnTable>(self.table) else {
            cx.emit(0, p);
            return;
        };
        let confirmed = confirm(t, &p, now);
        cx.decide(None, || text(confirmed).to_string());
        match refusal(confirmed) {
            Some(why) => cx.drop(p, why),
            None => cx.emit(0, p),
        }
    }

    uses_table!(table);
}

/// A packet has passed the rules.
pub(super) fn confirm(t: &mut ConnTable, p: &Packet, now: u64) -> Confirmed {
    // most are the packet in hand, which the tracker has read
    let ahead = p.network().filter(|n| !is_fragment(n)).and_then(key_ahead);
    let in_hand = ahead.and_then(|(key, flipped)| t.confirm_in_hand((&key, flipped), now));
    in_hand.unwrap_or_else(|| {
        let seen = t.read_again(p);
        t.confirm(&seen, now)
    })
}

/// Why a packet is dropped, if it is.
pub(super) fn refusal(confirmed: Confirmed) -> Option<&'static str> {
    match confirmed {
        Confirmed::Passes | Confirmed::Entered => None,
        Confirmed::Full => Some(FULL),
        Confirmed::Clashes => Some(CLASHES),
    }
}

/// What becomes of a packet.
pub(super) fn text(confirmed: Confirmed) -> &'static str {
    match confirmed {
        Confirmed::Passes => "no connection begins",
        Confirmed::Entered => "a connection begins",
        Confirmed::Full => FULL,
        Confirmed::Clashes => CLASHES,
    }
}
