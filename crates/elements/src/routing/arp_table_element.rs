//! ARPTable: the element that has a table for several ARPQuerier elements.

use super::arp_table::{ArpTable, EXPIRY, Limits, clock, drop_all, expire};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId, TimerId, element_any,
    element_takes,
};
use onefold_packet::{Pkt, Timestamp};

/// `ARPTable`.
pub const ARP_TABLE: ElementClass = ElementClass {
    name: "ARPTable",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Holding,
    usage: "[keywords CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR, TIMEOUT]",
    summary: "an ARP table that several ARPQuerier elements share",
    new: || {
        Box::new(ArpTableElement {
            table: StateId(u32::MAX),
            limits: Limits::default(),
        })
    },
};

/// As Click; a table without configured limits still has one: a million entries and a million packets.
#[derive(Debug, Clone)]
struct ArpTableElement {
    table: StateId,
    limits: Limits,
}

impl Element for ArpTableElement {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.limits = Limits::read(args);
        match cx.store.get_mut::<ArpTable>(self.table) {
            Some(t) => t.set_limits(self.limits.clone()),
            None => {
                let t = ArpTable::new(self.limits.clone());
                self.table = cx.store.alloc(Box::new(t));
                cx.store.publish(cx.elem, self.table);
            }
        }
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "ARPTable: has no inputs");
    }
    fn initial_timers(&self) -> Vec<(TimerId, Timestamp)> {
        self.limits
            .expiry(true)
            .map(|t| (EXPIRY, t))
            .into_iter()
            .collect()
    }
    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        expire(self.table, cx);
    }
    fn can_live_reconfigure(&self) -> bool {
        true
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("table"),
            HandlerInfo::r("drops"),
            HandlerInfo::r("count"),
            HandlerInfo::r("length"),
            HandlerInfo::w("insert"),
            HandlerInfo::w("delete"),
            HandlerInfo::w("clear"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let now = clock(cx.now);
        let missing = || HandlerError::NoSuchHandler(name.to_string());
        let t = cx.store.get::<ArpTable>(self.table).ok_or_else(missing)?;
        Ok(match name {
            "table" => t.text(now),
            "drops" => t.drops.to_string(),
            "count" => t.count().to_string(),
            "length" => t.length().to_string(),
            _ => return Err(missing()),
        })
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let now = clock(cx.now);
        let names = cx.names();
        let missing = || HandlerError::NoSuchHandler(name.to_string());
        if !["insert", "delete", "clear"].contains(&name) {
            return Err(missing());
        }
        let t = cx
            .store
            .get_mut::<ArpTable>(self.table)
            .ok_or_else(missing)?;
        let dropped = t.command(name, value, now, &names.scope())?;
        drop_all(dropped, cx);
        Ok(())
    }
    fn states(&self) -> Vec<StateId> {
        vec![self.table]
    }
    element_takes!();
    element_any!();
}
