//! ConnTable: the connections that ConnTrack and ConnConfirm elements share.
//!
//! Time-outs are netfilter's, in seconds, with its defaults: `TCP_SYN_SENT` 120, `TCP_SYN_RECV` 60, `TCP_ESTABLISHED`
//! 432000, `TCP_FIN_WAIT` 120, `TCP_CLOSE_WAIT` 60, `TCP_LAST_ACK` 30, `TCP_TIME_WAIT` 120, `TCP_CLOSE` 10,
//! `TCP_SYN_SENT2` 120, `TCP_UNACKNOWLEDGED` 300 (of which one direction only has been seen), `UDP` 30, `UDP_STREAM`
//! 120, `ICMP` 30, `ICMP6` 30, `GENERIC` 600. `TCP_LOOSE` (true): a connection of TCP may begin in its middle.
//! `CHECKSUM` (true): packets with a wrong checksum are invalid. `CAPACITY` (262144): most connections; when there are
//! as many, one that is not assured gives way to a new one (of 64 that are looked at), and where there is none the new
//! one's packet is dropped.
//!
//! Handlers: `table` (one line per connection, sorted: protocol, addresses and ports of its first packet, state,
//! status, mark unless it is 0, what its packets become behind `as`, seconds left), `count`, `capacity`, `new`,
//! `established`, `related`, `invalid`, `untracked` (packets by state), `entered`, `expired`, `evicted`, `ended`,
//! `full`, `clashed`; `flows_to FROM SERVER ...`: how many connections whose destination is translated go to which
//! server, of a part of the table (`flows_to.rs`); `flush` forgets all connections.
//!
//! Differences from Linux:
//! - sequence numbers are not held against windows: as nf_conntrack_tcp_be_liberal = 1 and
//!   nf_conntrack_tcp_ignore_invalid_rst = 1;
//! - retransmissions, unacknowledged data and closed windows do not shorten the time-out of established connections of
//!   TCP (Linux: to 300 seconds);
//! - fragments are not put together, and are invalid;
//! - SCTP, GRE and DCCP have no states of their own: they are as all other protocols, SCTP with its ports;
//! - there are no expectations (helpers), zones and labels;
//! - which connection gives way when the table is full.

use super::conn_balancer::read_server;
use super::settings::{DEFAULT_CAPACITY, MAX_CAPACITY, Settings, TIMEOUTS};
use super::table::{ConnTable, millis};
use crate::flows_to::part_text;
use onefold_element::args::{Args, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId, element_any,
    element_takes,
};
use onefold_packet::Pkt;

/// `ConnTable`.
pub const CONN_TABLE: ElementClass = ElementClass {
    name: "ConnTable",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: concat!(
        "[keywords TCP_SYN_SENT, TCP_SYN_RECV, TCP_ESTABLISHED, TCP_FIN_WAIT, TCP_CLOSE_WAIT, TCP_LAST_ACK, ",
        "TCP_TIME_WAIT, TCP_CLOSE, TCP_SYN_SENT2, TCP_UNACKNOWLEDGED, UDP, UDP_STREAM, ICMP, ICMP6, GENERIC, ",
        "TCP_LOOSE, CHECKSUM, CAPACITY]"
    ),
    summary: "connections that ConnTrack elements share",
    new: || Box::new(ConnTableElement { table: None }),
};

/// Longest time-out, in seconds.
const MAX_SECONDS: i64 = 1 << 31;

#[derive(Debug, Clone)]
struct ConnTableElement {
    table: Option<StateId>,
}

impl Element for ConnTableElement {
    /// Before those that name it.
    fn configure_phase(&self) -> i32 {
        50
    }

    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let mut settings = Settings::default();
        for (to, (name, _)) in settings.timeouts_mut().into_iter().zip(TIMEOUTS) {
            if let Some(Seconds(t)) = args.keyword(name) {
                match t.sec() {
                    s if (0..=MAX_SECONDS).contains(&s) && t.nanos() > 0 => *to = millis(t).max(1),
                    _ => args.error(format!(
                        "{name}: out of range, more than 0 to {MAX_SECONDS} seconds"
                    )),
                }
            }
        }
        settings.loose = args.keyword("TCP_LOOSE").unwrap_or(true);
        settings.checksum = args.keyword("CHECKSUM").unwrap_or(true);
        let capacity = args.keyword("CAPACITY").unwrap_or(DEFAULT_CAPACITY);
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            args.error(format!(
                "CAPACITY: {capacity} out of range, 1 to {MAX_CAPACITY}"
            ));
        }
        settings.capacity = capacity as usize;
        args.finish()?;
        let id = cx.store.alloc(Box::new(ConnTable::new(settings)));
        cx.store.publish(cx.elem, id);
        self.table = Some(id);
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "ConnTable: has no inputs");
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("table"),
            HandlerInfo::r("count"),
            HandlerInfo::r("capacity"),
            HandlerInfo::r("new"),
            HandlerInfo::r("established"),
            HandlerInfo::r("related"),
            HandlerInfo::r("invalid"),
            HandlerInfo::r("untracked"),
            HandlerInfo::r("entered"),
            HandlerInfo::r("expired"),
            HandlerInfo::r("evicted"),
            HandlerInfo::r("ended"),
            HandlerInfo::r("full"),
            HandlerInfo::r("clashed"),
            HandlerInfo::rp("flows_to"),
            HandlerInfo::button("flush"),
        ];
        H
    }

    fn read(&mut self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let no_such = || HandlerError::NoSuchHandler(name.to_string());
        let now = millis(cx.now);
        let table = self.table.and_then(|id| cx.store.get::<ConnTable>(id));
        let table = table.ok_or_else(no_such)?;
        let t = &table.totals;
        let number = match name {
            "table" => return Ok(table.text(now)),
            "flows_to" => {
                return part_text(param, read_server, |from, counts| {
                    table.count_destinations(now, from, counts)
                });
            }
            "count" => table.len(now) as u64,
            "capacity" => table.settings.capacity as u64,
            "new" => t.packets[0],
            "established" => t.packets[1],
            "related" => t.packets[2],
            "invalid" => t.packets[3],
            "untracked" => t.packets[4],
            "entered" => t.entered,
            "expired" => t.expired,
            "evicted" => t.evicted,
            "ended" => t.ended,
            "full" => t.full,
            "clashed" => t.clashed,
            _ => return Err(no_such()),
        };
        Ok(number.to_string())
    }

    fn write(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "flush" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        if let Some(t) = self.table.and_then(|id| cx.store.get_mut::<ConnTable>(id)) {
            t.flush();
        }
        Ok(())
    }

    fn states(&self) -> Vec<StateId> {
        self.table.into_iter().collect()
    }

    element_takes!();
    element_any!();
}
