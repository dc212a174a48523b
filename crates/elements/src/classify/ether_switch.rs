//! EtherSwitch: a learning Ethernet switch.
//!
//! Source: Click's `EtherSwitch` documentation. As there, an association lives for TIMEOUT seconds of the *time stamp
//! annotation*, which stays zero (so that nothing expires) where nobody sets it.
//!
//! Deliberate differences: the table holds at most [`MAX_ADDRESSES`] addresses (Click's has no limit); when it is full,
//! what has expired is removed, and if nothing has, new addresses are not learned and their packets go to all ports.
//! The `table` handler is sorted by address. Frames that end within their two addresses are dropped.

use onefold_element::args::{Args, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Clock, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, Scope, State, StateId,
    element_any, element_takes, state_any,
};
use onefold_packet::{EtherAddr, Pkt, Timestamp};
use std::collections::HashMap;
use std::fmt::Write;

/// `EtherSwitch`.
pub const ETHER_SWITCH: ElementClass = ElementClass {
    name: "EtherSwitch",
    ports: "2-/=",
    processing: "h/h",
    flow: "#/[^#]",
    effect: Effect::OrderSensitive,
    usage: "[keyword TIMEOUT]",
    summary: "learns which addresses are behind which port and forwards to that port",
    new: || {
        Box::new(EtherSwitch {
            timeout: 300,
            table: None,
        })
    },
};

/// Most addresses that a switch remembers.
pub const MAX_ADDRESSES: usize = 65_536;

#[derive(Debug, Clone, Default)]
struct Table {
    ports: HashMap<EtherAddr, (Port, Timestamp)>,
    /// When a full table was last searched for expired addresses.
    swept: Timestamp,
}

impl Table {
    fn sorted(&self) -> Vec<(EtherAddr, Port, Timestamp)> {
        let mut v: Vec<_> = self.ports.iter().map(|(a, (p, t))| (*a, *p, *t)).collect();
        v.sort();
        v
    }
    fn learn(&mut self, a: EtherAddr, port: Port, now: Timestamp, timeout: Timestamp) {
        if self.ports.len() >= MAX_ADDRESSES && !self.ports.contains_key(&a) {
            // at most once a second: the work per packet stays small
            if now < self.swept + Timestamp::from_secs(1) {
                return;
            }
            self.swept = now;
            self.ports.retain(|_, (_, t)| now < *t + timeout);
            if self.ports.len() >= MAX_ADDRESSES {
                return;
            }
        }
        self.ports.insert(a, (port, now));
    }
}

impl State for Table {
    fn summary(&self) -> String {
        let mut s = String::new();
        for (a, p, t) in self.sorted() {
            let _ = writeln!(s, "{a} {p} {}", t.nanos());
        }
        s
    }
    state_any!(Scope::PerWorker);
}

#[derive(Debug, Clone)]
struct EtherSwitch {
    timeout: u32,
    table: Option<StateId>,
}

impl EtherSwitch {
    fn timeout(&self) -> Timestamp {
        Timestamp::from_secs(self.timeout.into())
    }
}

impl Element for EtherSwitch {
    fn multiplies(&self) -> bool {
        true
    }
    /// Addresses age by packets' time stamps.
    fn clock(&self, _: Clock) -> Clock {
        Clock::Unread
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let t: Option<Seconds> = args.keyword("TIMEOUT");
        // whole seconds, rounded
        let t = t.map(|t| {
            u32::try_from((t.0.nanos().saturating_add(500_000_000)).div_euclid(1_000_000_000))
        });
        if let Some(Err(_)) = t {
            args.error("TIMEOUT: expected seconds, 0 to 4294967295");
        }
        args.finish()?;
        if let Some(Ok(t)) = t {
            self.timeout = t;
        }
        if self.table.is_none() {
            self.table = Some(cx.store.alloc(Box::new(Table::default())));
        }
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("EtherSwitch: learns addresses")
    }
    fn push(&mut self, source: Port, p: Pkt, cx: &mut Cx<'_>) {
        let Some(h) = p.data().first_chunk::<12>() else {
            return cx.drop(p, "EtherSwitch: no Ethernet addresses");
        };
        let dst = EtherAddr::from_slice(&h[..6]).unwrap_or_default();
        let src = EtherAddr::from_slice(&h[6..]).unwrap_or_default();
        let (now, timeout) = (p.anno.timestamp, self.timeout());
        let mut out = None;
        if self.timeout != 0
            && let Some(id) = self.table
            && let Some(table) = cx.store.get_mut::<Table>(id)
        {
            table.learn(src, source, now, timeout);
            if !dst.is_group() {
                match table.ports.get(&dst) {
                    Some((port, t)) if now < *t + timeout => out = Some(*port),
                    Some(_) => {
                        table.ports.remove(&dst);
                    }
                    None => {}
                }
            }
        }
        cx.decide(None, || match out {
            Some(port) => format!("{dst} is behind port {port}"),
            None => format!("{dst} goes to all ports but {source}"),
        });
        match out {
            Some(port) if port == source => {
                cx.drop(p, "EtherSwitch: destination behind the ingress port")
            }
            Some(port) => cx.emit(port, p),
            None => {
                // highest port first; the lowest gets the packet itself
                let mut targets = (0..cx.noutputs).rev().filter(|i| *i != source).peekable();
                while let Some(port) = targets.next() {
                    if targets.peek().is_none() {
                        return cx.emit(port, p);
                    }
                    let copy = cx.copy(&p);
                    cx.emit(port, copy);
                }
                cx.drop(p, "EtherSwitch: no other port");
            }
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("table"), HandlerInfo::rw("timeout")];
        H
    }

    fn read(&mut self, name: &str, _: &str, cx: &mut Cx<'_>) -> HandlerResult {
        match name {
            "table" => {
                let table = self.table.and_then(|id| cx.store.get::<Table>(id));
                let mut s = String::new();
                for (a, p, _) in table.map(Table::sorted).unwrap_or_default() {
                    let _ = writeln!(s, "{a} {p}");
                }
                Ok(s)
            }
            "timeout" => Ok(self.timeout.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "timeout" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        let v: Result<u32, _> = value.trim().parse();
        self.timeout =
            v.map_err(|_| HandlerError::BadValue("expected timeout (integer)".into()))?;
        Ok(())
    }

    fn states(&self) -> Vec<StateId> {
        self.table.into_iter().collect()
    }

    element_takes!();
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, Timestamp};

    fn frame(dst: u8, src: u8, at: i64) -> Box<Packet> {
        let mut b = [0u8; 60];
        b[5] = dst;
        b[11] = src;
        let mut p = Box::new(Packet::from_slice(&b));
        p.anno.timestamp = Timestamp::from_secs(at);
        p
    }

    fn ports(b: &mut Bench, port: usize, p: Box<Packet>) -> Vec<usize> {
        b.push_packet(port, p).iter().map(|o| o.0).collect()
    }

    #[test]
    fn learns_forwards_and_forgets() {
        let mut b = Bench::new("EtherSwitch", "TIMEOUT 10", 3, 3).unwrap();
        assert_eq!(ports(&mut b, 1, frame(2, 1, 0)), [2, 0]);
        assert_eq!(ports(&mut b, 0, frame(1, 2, 1)), [1]);
        assert_eq!(ports(&mut b, 2, frame(2, 3, 2)), [0]);
        // on the same port: dropped
        assert!(ports(&mut b, 1, frame(1, 4, 3)).is_empty());
        // ten seconds after it was last seen, address 1 is unknown again
        assert_eq!(ports(&mut b, 2, frame(1, 3, 10)), [1, 0]);
        assert_eq!(
            b.read("table").unwrap(),
            "00-00-00-00-00-02 0\n00-00-00-00-00-03 2\n00-00-00-00-00-04 1\n"
        );
        b.write("timeout", "0").unwrap();
        assert_eq!(ports(&mut b, 0, frame(3, 9, 10)), [2, 1]);
        assert!(b.push(0, &[0; 11]).is_empty());
        assert_eq!(b.out.created, 3);
        assert!(Bench::new("EtherSwitch", "TIMEOUT x", 2, 2).is_err());
    }
}
