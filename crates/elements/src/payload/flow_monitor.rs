//! FlowMonitor: Onefold's own per-flow monitor.
//!
//! Counts packets and bytes of every flow (addresses, protocol, ports; IPv4 and IPv6; one direction), and when it was
//! first and last seen. Packets pass unchanged; their network header annotation must be set (CheckIPHeader,
//! MarkIPHeader, CheckIP6Header ...), others pass and are counted as skipped. A packet's bytes are its length at this
//! place of the chain.
//!
//! The table holds at most `CAPACITY` flows. When it is full, a new flow takes the place of the one that was seen
//! longest ago. With `TIMEOUT`, flows that have been idle for so long are removed, at most two with each packet and all
//! of them before a report.
//!
//! Handlers: `flows` (one line per flow, `PROTOCOL SRC SPORT DST DPORT PACKETS BYTES FIRST LAST`, sorted), `top N` (the
//! N flows with the most bytes, 10 unless said), `count`, `packets`, `bytes`, `skipped`, `evicted`, `expired`,
//! `capacity`, `reset`.

use super::base::ip_facts;
use super::flow_key::{Addresses, FlowBytes, FlowKey};
use super::flow_table::{FlowTable, Record};
use onefold_element::args::{Args, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, InspectCx, Inspected, Port, StateId,
    StateStore, element_any, element_takes,
};
use onefold_packet::{Packet, Pkt, Timestamp, wire};
use std::fmt::Write;

/// `FlowMonitor`.
pub const FLOW_MONITOR: ElementClass = ElementClass {
    name: "FlowMonitor",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "[keywords CAPACITY, TIMEOUT]",
    summary: "counts packets and bytes of each flow",
    new: || Box::new(FlowMonitor { table: None }),
};

/// Flows in a table unless CAPACITY is given.
const DEFAULT_CAPACITY: u32 = 65_536;
/// Most flows that may be asked for.
const MAX_CAPACITY: u32 = 1 << 26;

#[derive(Debug, Clone)]
struct FlowMonitor {
    table: Option<StateId>,
}

/// The flow that a packet belongs to.
fn key(p: &Packet) -> Option<FlowKey> {
    let net = p.network()?;
    let f = ip_facts(net)?;
    let with_ports = matches!(f.protocol, 6 | 17 | 33 | 132 | 136) && !f.later_fragment;
    let upper = net.get(f.header..).and_then(|b| b.first_chunk::<4>());
    let ports = upper.filter(|_| with_ports).map(|b| {
        (
            u16::from_be_bytes([b[0], b[1]]),
            u16::from_be_bytes([b[2], b[3]]),
        )
    });
    if net[0] >> 4 == 4 {
        let h = wire::ipv4::Header::parse(net)?;
        return Some(FlowKey::v4(h.src(), h.dst(), f.protocol, ports));
    }
    let h = wire::ipv6::Header::parse(net)?;
    Some(FlowKey::v6(h.src(), h.dst(), f.protocol, ports))
}

/// The same of a packet that is inspected.
#[inline]
fn inspected_key<'a>(p: &Inspected<'a>) -> Option<FlowBytes<'a>> {
    let ports = p.net.get(p.header..p.total)?.first_chunk::<4>()?;
    let ports = matches!(p.protocol, 6 | 17).then_some(ports);
    let addresses = match p.header {
        20 => Addresses::V4(p.net.get(12..20)?.first_chunk()?),
        _ => Addresses::V6(p.net.get(8..40)?.first_chunk()?),
    };
    Some(FlowBytes {
        addresses,
        protocol: p.protocol,
        ports,
    })
}

impl Element for FlowMonitor {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let capacity = args.keyword("CAPACITY").unwrap_or(DEFAULT_CAPACITY);
        if !(1..=MAX_CAPACITY).contains(&capacity) {
            args.error(format!(
                "CAPACITY: {capacity} out of range, 1 to {MAX_CAPACITY}"
            ));
        }
        let timeout: Option<Seconds> = args.keyword("TIMEOUT");
        let timeout = timeout.map_or(Timestamp::ZERO, |t| t.0);
        if timeout < Timestamp::ZERO {
            args.error("TIMEOUT: must not be negative");
        }
        args.finish()?;
        let table = FlowTable::new(capacity as usize, timeout);
        self.table = Some(cx.store.alloc(Box::new(table)));
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("time")
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let now = cx.now;
        if let Some(t) = self.table.and_then(|id| cx.store.get_mut::<FlowTable>(id)) {
            match key(&p) {
                Some(k) => t.count(k, p.len() as u64, now),
                None => t.skipped += 1,
            }
        }
        cx.emit(0, p);
    }

    fn inspects(&self) -> bool {
        true
    }

    #[inline]
    fn inspect(&mut self, p: &Inspected<'_>, cx: &mut InspectCx<'_>) -> bool {
        let table = self.table.and_then(|id| cx.store.get_mut::<FlowTable>(id));
        let (Some(table), Some(key)) = (table, inspected_key(p)) else {
            return false;
        };
        match &mut cx.hint {
            Some(hint) => *hint = table.count_at(*hint, &key, p.len as u64, cx.now),
            None => table.count(key.key(), p.len as u64, cx.now),
        }
        true
    }

    fn hints(&self) -> bool {
        true
    }

    fn prefetch_flows(&self, hints: &[u32], store: &StateStore) {
        if let Some(t) = self.table.and_then(|id| store.get::<FlowTable>(id)) {
            t.prefetch(hints);
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("flows"),
            HandlerInfo::rp("top"),
            HandlerInfo::r("count"),
            HandlerInfo::r("packets"),
            HandlerInfo::r("bytes"),
            HandlerInfo::r("skipped"),
            HandlerInfo::r("evicted"),
            HandlerInfo::r("expired"),
            HandlerInfo::r("capacity"),
            HandlerInfo::button("reset"),
        ];
        H
    }

    fn read(&mut self, name: &str, param: &str, cx: &mut Cx<'_>) -> HandlerResult {
        let no_such = || HandlerError::NoSuchHandler(name.to_string());
        let now = cx.now;
        let table = self.table.and_then(|id| cx.store.get_mut::<FlowTable>(id));
        let table = table.ok_or_else(no_such)?;
        table.expire(now, usize::MAX);
        Ok(match name {
            "flows" => {
                let mut all = table.by_age();
                all.sort_by_key(|r| r.key);
                lines(&all)
            }
            "top" => {
                let n: usize = match param.trim() {
                    "" => 10,
                    s => s.parse().map_err(|_| {
                        HandlerError::BadValue(format!("top: expected a number, found '{s}'"))
                    })?,
                };
                let mut all = table.by_age();
                all.sort_by_key(|r| (std::cmp::Reverse(r.bytes), r.key));
                all.truncate(n);
                lines(&all)
            }
            "count" => table.len().to_string(),
            "packets" => table.packets.to_string(),
            "bytes" => table.bytes.to_string(),
            "skipped" => table.skipped.to_string(),
            "evicted" => table.evicted.to_string(),
            "expired" => table.expired.to_string(),
            "capacity" => table.capacity().to_string(),
            _ => return Err(no_such()),
        })
    }

    fn write(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "reset" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        if let Some(t) = self.table.and_then(|id| cx.store.get_mut::<FlowTable>(id)) {
            t.reset();
        }
        Ok(())
    }

    fn states(&self) -> Vec<StateId> {
        self.table.into_iter().collect()
    }

    element_takes!();
    element_any!();
}

fn lines(records: &[Record]) -> String {
    let mut s = String::new();
    for r in records {
        let _ = writeln!(
            s,
            "{} {} {} {} {}",
            r.key, r.packets, r.bytes, r.first, r.last
        );
    }
    s
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn udp(src: u8, sport: u16, frag: u16, len: usize) -> Box<Packet> {
        let mut b = vec![0x45, 0, 0, 28, 0, 0];
        b.extend(frag.to_be_bytes());
        b.extend([64, 17, 0, 0, 10, 0, 0, src, 10, 0, 0, 2]);
        b.extend(sport.to_be_bytes());
        b.extend([0, 53, 0, 8, 0, 0]);
        b.resize(len, 0);
        let mut p = Box::new(Packet::from_slice(&b));
        p.set_network_header(0, 20);
        p
    }

    #[test]
    fn counts_reports_and_resets() {
        let mut b = Bench::new("FlowMonitor", "", 1, 1).unwrap();
        for (src, sport, frag, len) in [
            (1, 1000, 0, 60),
            (1, 1000, 0, 40),
            (1, 1001, 0, 500),
            (1, 1000, 5, 30),
            (3, 1, 0x2000, 22),
        ] {
            b.now = b.now + Timestamp::from_secs(1);
            assert_eq!(b.push_packet(0, udp(src, sport, frag, len)).len(), 1);
        }
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 6, 64];
        v6.extend([0; 15]);
        v6.push(1);
        v6.extend([0; 15]);
        v6.extend([2, 0, 80, 0, 81, 0, 0, 0, 0]);
        let mut p = Box::new(Packet::from_slice(&v6));
        p.set_network_header(0, 40);
        b.push_packet(0, p);
        b.push(0, b"no header");
        assert_eq!(
            b.read("flows").unwrap(),
            "17 10.0.0.1 - 10.0.0.2 - 1 30 5.000000 5.000000\n\
             17 10.0.0.1 1000 10.0.0.2 53 2 100 2.000000 3.000000\n\
             17 10.0.0.1 1001 10.0.0.2 53 1 500 4.000000 4.000000\n\
             17 10.0.0.3 - 10.0.0.2 - 1 22 6.000000 6.000000\n\
             6 ::1 80 ::2 81 1 48 6.000000 6.000000\n"
        );
        assert!(b.read("top 1").unwrap().starts_with("17 10.0.0.1 1001"));
        assert_eq!(b.read("top").unwrap().lines().count(), 5);
        assert!(b.read("top x").is_err());
        let read = |b: &mut Bench, n: &str| b.read(n).unwrap();
        assert_eq!(
            (
                read(&mut b, "count"),
                read(&mut b, "packets"),
                read(&mut b, "skipped")
            ),
            ("5".into(), "6".into(), "1".into())
        );
        assert_eq!(read(&mut b, "bytes"), "700");
        let fork = b.store.clone();
        assert_eq!(fork.summaries(), b.store.summaries());
        b.write("reset", "").unwrap();
        assert_eq!(read(&mut b, "count"), "0");
        assert_ne!(fork.summaries(), b.store.summaries());
    }

    #[test]
    fn bounded() {
        let mut b = Bench::new("FlowMonitor", "CAPACITY 2, TIMEOUT 10", 1, 1).unwrap();
        for sport in 1..=3 {
            b.push_packet(0, udp(1, sport, 0, 28));
        }
        assert_eq!(b.read("count").unwrap(), "2");
        assert_eq!(b.read("evicted").unwrap(), "1");
        b.now = Timestamp::from_secs(100);
        assert_eq!(b.read("count").unwrap(), "0");
        assert_eq!(b.read("expired").unwrap(), "2");
        assert!(Bench::new("FlowMonitor", "CAPACITY 0", 1, 1).is_err());
        assert!(Bench::new("FlowMonitor", "TIMEOUT -1", 1, 1).is_err());
    }
}
