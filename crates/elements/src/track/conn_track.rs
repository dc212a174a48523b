//! ConnTrack: tells packets by the state of their connection.
//!
//! `ConnTrack(TABLE, CLASSES, ...)`: the name of a ConnTable, then for each output which packets leave there: words,
//! each a state (`new`, `established`, `related`, `invalid`, `untracked`) and, behind dots, direction (`original`,
//! `reply`) and status (`seen-reply`, `assured`, `confirmed`; a status that is not named must not hold if any is;
//! `unconfirmed` for none); `-` stands for all. A packet leaves at the first output that names its class, and is
//! dropped where none does. Packets that come to the second input, if there is one, are not tracked: they are
//! untracked, whatever they are. Packets are not changed. Their network header must be marked (CheckIPHeader,
//! CheckIP6Header); what has none is invalid.
//!
//! What a packet does to its connection (state of TCP, how long it stays) is done here, whatever rules say of it
//! afterwards, as in Linux; connections are entered by ConnConfirm.

use super::batch::Lets;
use super::class::{ConnClass, NUMBERS, parse_classes};
use super::headers::{Seen, of_packet, read_any};
use super::table::{ConnTable, Found, millis};
use super::table_user::{NO_TABLE, finish, is_asked, uses_table};
use onefold_element::args::{AnyArg, Args};
use onefold_element::{
    BatchNeeds, ConfigCx, ConfigError, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass,
    FlowLeases, InspectCx, Inspected, InspectedBatch, NO_FLOW_LEASE, NO_HINT, Port, StateId,
    StateStore,
};
use onefold_packet::{Packet, Pkt};

/// `ConnTrack`.
pub const CONN_TRACK: ElementClass = ElementClass {
    name: "ConnTrack",
    ports: "1-2/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "TABLE, CLASSES_1, ..., CLASSES_n",
    summary: "tells packets by the state of their connection (new, established, related, invalid, untracked)",
    new: || Box::new(ConnTrack::default()),
};

/// No output names the class.
const NOWHERE: u16 = u16::MAX;
/// Of packets of a class that no output names.
pub(super) const UNNAMED: &str = "a connection state that no output is for";
/// Of packets that would begin a connection.
const FULL: &str = "connection table full";

/// Which output packets of each class leave at: the first one whose argument names it.
#[derive(Debug, Clone)]
pub(super) struct ClassOutputs {
    pub table: StateId,
    /// By number of the class.
    outputs: [u16; NUMBERS],
    /// Packets of which established connections leave at the first output.
    pub lets: Lets,
}

impl Default for ClassOutputs {
    fn default() -> ClassOutputs {
        ClassOutputs {
            table: NO_TABLE,
            outputs: [NOWHERE; NUMBERS],
            lets: Lets::default(),
        }
    }
}

impl ClassOutputs {
    /// Where packets of a class leave.
    #[inline]
    pub fn of(&self, c: ConnClass) -> Option<Port> {
        match self.outputs.get(c.number()) {
            None | Some(&NOWHERE) => None,
            Some(o) => Some(Port::from(*o)),
        }
    }

    /// Reads `TABLE, CLASSES, ...`.
    pub fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("TABLE");
        let rest = args.rest();
        self.outputs = [NOWHERE; NUMBERS];
        let mut errors = Vec::new();
        if rest.is_empty() {
            errors.push(ConfigError::new(
                "expected the classes of each output, such as 'established, new, -'",
            ));
        }
        for (output, (index, text)) in rest.into_iter().enumerate() {
            let classes = match parse_classes(text) {
                Ok(classes) => classes,
                Err(why) => {
                    errors.push(ConfigError::at(index, "CLASSES", why));
                    continue;
                }
            };
            let Ok(o) = u16::try_from(output) else {
                errors.push(ConfigError::at(
                    index,
                    "CLASSES",
                    "more than 65,535 outputs",
                ));
                break;
            };
            let mut any = false;
            for c in classes {
                if let Some(to) = self.outputs.get_mut(c.number())
                    && *to == NOWHERE
                {
                    (*to, any) = (o, true);
                }
            }
            if output >= cx.noutputs {
                let text = format!("output {output} is not connected");
                errors.push(ConfigError::at(index, "CLASSES", text));
            } else if !any {
                let text = "no packet comes here: outputs before it name all of these classes";
                let mut e = ConfigError::at(index, "CLASSES", text);
                e.warning = true;
                errors.push(e);
            }
        }
        self.lets = Lets::of(|c| self.of(c) == Some(0));
        self.table = finish(args, name, cx, errors, |_| ())?;
        Ok(())
    }
}

#[derive(Debug, Clone, Default)]
struct ConnTrack {
    outputs: ClassOutputs,
}

impl ConnTrack {
    /// What becomes of a packet.
    fn decide(&self, port: Port, p: &Packet, cx: &mut Cx<'_>) -> Result<Port, &'static str> {
        let now = millis(cx.now);
        let Some(t) = cx.store.get_mut::<ConnTable>(self.outputs.table) else {
            return Err(UNNAMED);
        };
        let seen = match port {
            0 => of_packet(p, t.settings.checksum),
            _ => Seen::Untracked,
        };
        let found = t.track(&seen, now);
        let (class, i) = match found {
            Found::Is(class, i) => (class, i),
            Found::Full => {
                cx.decide(None, || FULL.to_string());
                return Err(FULL);
            }
        };
        if !class.has_connection() {
            t.is_none_of_its_connection(p);
        }
        let output = self.outputs.of(class);
        if cx.host.tracing() {
            let known = i.and_then(|i| cx.store.get::<ConnTable>(self.outputs.table)?.describe(i));
            let why = match seen {
                Seen::Invalid(why) => format!(": {why}"),
                _ => known.map_or(String::new(), |k| format!(": {k}")),
            };
            cx.decide(output.map(|o| o + 1), || format!("{class}{why}"));
        }
        output.ok_or(UNNAMED)
    }
}

impl Element for ConnTrack {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.outputs.configure(args, cx)
    }

    is_asked!();

    #[inline]
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        match self.decide(port, &p, cx) {
            Ok(port) => cx.emit_or_drop(port, p, "unconnected output"),
            Err(why) => cx.drop(p, why),
        }
    }

    fn only_tells(&self) -> bool {
        true
    }

    #[inline]
    fn tell(
        &mut self,
        port: Port,
        p: &Packet,
        cx: &mut Cx<'_>,
    ) -> Option<Result<Port, DropReason>> {
        Some(self.decide(port, p, cx))
    }

    fn inspects(&self) -> bool {
        true
    }

    #[inline]
    fn inspect(&mut self, p: &Inspected<'_>, cx: &mut InspectCx<'_>) -> bool {
        let Some(t) = cx.store.get_mut::<ConnTable>(self.outputs.table) else {
            return false;
        };
        let net = p.net.get(..p.total).unwrap_or(&[]);
        let checksum = t.settings.checksum;
        let Seen::Packet(seen) = read_any(net, checksum) else {
            return false;
        };
        let outputs = &self.outputs;
        let first = |c: ConnClass| outputs.of(c) == Some(0);
        let hint = cx.hint.unwrap_or(NO_HINT);
        match t.refresh(&seen, hint, millis(cx.now), first) {
            Some(found) => {
                if let Some(h) = &mut cx.hint {
                    *h = found;
                }
                true
            }
            None => false,
        }
    }

    fn hints(&self) -> bool {
        true
    }

    fn inspects_batches(&self, store: &StateStore) -> Option<BatchNeeds> {
        let t = store.get::<ConnTable>(self.outputs.table)?;
        Some(BatchNeeds {
            checksums: t.settings.checksum,
            leases: t.gives_leases(),
        })
    }

    fn inspect_batch(&mut self, b: &InspectedBatch<'_>, cx: &mut InspectCx<'_>) -> usize {
        match cx.store.get_mut::<ConnTable>(self.outputs.table) {
            Some(t) => t.refresh_batch(b, millis(cx.now), self.outputs.lets),
            None => 0,
        }
    }

    #[inline]
    fn leases<'a>(&self, store: &'a mut StateStore) -> Option<FlowLeases<'a>> {
        store.get_mut::<ConnTable>(self.outputs.table)?.leases()
    }

    fn lease(&mut self, p: &Inspected<'_>, hint: u32, cx: &mut InspectCx<'_>) -> u32 {
        match cx.store.get_mut::<ConnTable>(self.outputs.table) {
            Some(t) => t.lease(p, hint, millis(cx.now), self.outputs.lets),
            None => NO_FLOW_LEASE,
        }
    }

    fn prefetch_flows(&self, hints: &[u32], store: &StateStore) {
        if let Some(t) = store.get::<ConnTable>(self.outputs.table) {
            t.prefetch(hints);
        }
    }

    fn prefetch_packet(&self, net: &[u8], store: &StateStore) {
        if let Some(t) = store.get::<ConnTable>(self.outputs.table) {
            t.prefetch_packet(net);
        }
    }

    uses_table!(outputs.table);
}
