//! StrideSched, StrideSwitch (Click): ports take turns in proportion to their tickets.

use super::util::{unknown, value};
use onefold_element::args::{Args, FromArg};
use onefold_element::handler::{HandlerError, HandlerFlags, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `StrideSched`.
pub const STRIDE_SCHED: ElementClass = ElementClass {
    name: "StrideSched",
    ports: "1-/1",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "TICKETS0, ..., TICKETSn",
    summary: "pulls from its inputs in proportion to their tickets",
    new: || Box::new(Stride::default()),
};
/// `StrideSwitch`.
pub const STRIDE_SWITCH: ElementClass = ElementClass {
    name: "StrideSwitch",
    ports: "1/1-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "TICKETS0, ..., TICKETSn",
    summary: "sends packets to its outputs in proportion to their tickets",
    new: || {
        Box::new(Stride {
            switch: true,
            ..Stride::default()
        })
    },
};

const STRIDE_ONE: u32 = 1 << 16;
/// Most tickets of a port.
const MAX_TICKETS: i32 = 1 << 15;

#[derive(Debug, Clone, Default)]
struct Client {
    tickets: i32,
    stride: u32,
    pass: u32,
}

impl Client {
    fn set(&mut self, tickets: i32) {
        self.tickets = tickets;
        self.stride = match u32::try_from(tickets) {
            Ok(t) if t > 0 => STRIDE_ONE / t,
            _ => 0,
        };
    }
}

#[derive(Debug, Clone, Default)]
struct Stride {
    /// Over outputs (StrideSwitch) instead of inputs.
    switch: bool,
    clients: Vec<Client>,
    /// Ports with tickets, the next one first: ascending by pass, the one that came last first among equals.
    list: Vec<usize>,
}

impl Stride {
    fn insert(&mut self, i: usize) {
        let pass = self.clients.get(i).map_or(0, |c| c.pass);
        // passes wrap: the sign of the difference orders them
        let behind = |j: &usize| {
            let other = self.clients.get(*j).map_or(0, |c| c.pass);
            pass.wrapping_sub(other) as i32 > 0
        };
        let at = self.list.iter().take_while(|j| behind(j)).count();
        self.list.insert(at, i);
    }

    fn step(&mut self, i: usize) {
        if let Some(c) = self.clients.get_mut(i) {
            c.pass = c.pass.wrapping_add(c.stride);
        }
    }
}

impl Element for Stride {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let (n, what) = match self.switch {
            true => (cx.noutputs, "output"),
            false => (cx.ninputs, "input"),
        };
        if args.len() != n {
            args.error(format!("need {n} arguments, one per {what} port"));
        }
        let scope = args.scope();
        let first = self.clients.is_empty();
        let mut clients = self.clients.clone();
        clients.resize(n, Client::default());
        for ((i, text), c) in args.rest().into_iter().zip(&mut clients) {
            let name = format!("TICKETS{i}");
            match i32::from_arg(text, &scope) {
                Ok(v) if v < 0 => args.error_at(i, &name, "must not be negative"),
                Ok(v) => {
                    if v > MAX_TICKETS {
                        args.warning(format!("input {i}'s tickets reduced to {MAX_TICKETS}"));
                    }
                    c.set(v.min(MAX_TICKETS));
                    if first {
                        c.pass = c.stride;
                    }
                }
                Err(_) => args.error_at(i, &name, "expected a number of tickets"),
            }
        }
        if args.ok() {
            self.clients = clients;
            self.list.clear();
            for i in (0..n).rev() {
                if self.clients[i].tickets > 0 {
                    self.insert(i);
                }
            }
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match self.switch {
            true => Model::ask("order"),
            false => Model::None("pulls packets"),
        }
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if !self.switch || self.list.is_empty() {
            cx.drop(p, "StrideSwitch: no output has tickets");
            return;
        }
        let i = self.list.remove(0);
        self.step(i);
        self.insert(i);
        cx.decide(Some(i), || format!("output {i}, its turn"));
        cx.emit(i, p);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let mut got = None;
        let mut tried = 0;
        while let Some(&i) = self.list.get(tried) {
            tried += 1;
            got = cx.pull(i);
            self.step(i);
            if got.is_some() {
                cx.decide(Some(i), || format!("input {i}"));
                break;
            }
        }
        if tried == 1 {
            // the common case, without moving the rest twice
            let i = self.list.remove(0);
            self.insert(i);
        } else {
            let again: Vec<usize> = self.list.drain(..tried).collect();
            for i in again {
                self.insert(i);
            }
        }
        got
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("config")];
        H
    }

    fn dynamic_handlers(&self) -> Vec<(String, HandlerFlags)> {
        (0..self.clients.len())
            .map(|i| (format!("tickets{i}"), HandlerFlags::ReadWrite))
            .collect()
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        if name == "config" {
            let all: Vec<String> = self.clients.iter().map(|c| c.tickets.to_string()).collect();
            return Ok(all.join(", "));
        }
        let i = name.strip_prefix("tickets").and_then(|i| i.parse().ok());
        match i.and_then(|i: usize| self.clients.get(i)) {
            Some(c) => Ok(c.tickets.to_string()),
            None => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let i = name.strip_prefix("tickets").and_then(|i| i.parse().ok());
        let i: usize = i.ok_or_else(|| HandlerError::NoSuchHandler(name.to_string()))?;
        let tickets = value::<i32>(name, text)?;
        if tickets < 0 {
            let m = "number of tickets must be >= 0".to_string();
            return Err(HandlerError::BadValue(m));
        }
        let first_pass = self.list.first().map(|j| self.clients[*j].pass);
        let Some(c) = self.clients.get_mut(i) else {
            return unknown(name);
        };
        let old = c.tickets;
        c.set(tickets.min(MAX_TICKETS));
        if tickets == 0 {
            self.list.retain(|j| *j != i);
        } else if old == 0 {
            c.pass = first_pass.map_or(0, |p| p.wrapping_add(c.stride));
            self.insert(i);
        }
        if !self.switch {
            cx.notify_nonempty();
        }
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    #[test]
    fn inputs_share_by_tickets() {
        let mut b = Bench::new("StrideSched", "1, 2, 0", 3, 1).unwrap();
        for port in 0..3 {
            let q = b.host.upstream.entry(port).or_default();
            q.extend((0..300).map(|_| Box::new(Packet::from_slice(&[port as u8]))));
        }
        let got: Vec<u8> = (0..9).map(|_| b.pull(0).unwrap().data()[0]).collect();
        assert_eq!(got.iter().filter(|x| **x == 1).count(), 6, "{got:?}");
        assert!(!got.contains(&2));
        b.write("tickets0", "0").unwrap();
        assert!((0..9).all(|_| b.pull(0).unwrap().data()[0] == 1));
        b.write("tickets2", "40000").unwrap();
        assert_eq!(b.read("config").unwrap(), "0, 2, 32768");
        assert_eq!(b.pull(0).unwrap().data(), [1]);
        assert!((0..99).all(|_| b.pull(0).unwrap().data()[0] == 2));
        assert!(b.write("tickets3", "1").is_err());
        assert!(b.write("tickets1", "-1").is_err());
        // an input that has nothing does not hold the others up
        b.host.upstream.remove(&2);
        assert_eq!(b.pull(0).unwrap().data(), [1]);
    }

    #[test]
    fn outputs_share_by_tickets() {
        let mut b = Bench::new("StrideSwitch", "3, 1", 1, 2).unwrap();
        let got: Vec<usize> = (0..8).map(|_| b.push(0, &[])[0].0).collect();
        assert_eq!(got.iter().filter(|x| **x == 0).count(), 6, "{got:?}");
        let mut b = Bench::new("StrideSwitch", "0", 1, 1).unwrap();
        assert!(b.push(0, &[]).is_empty());
    }

    #[test]
    fn argument_errors() {
        let e = |c: &str| Bench::new("StrideSched", c, 2, 1).err().unwrap().join("; ");
        assert_eq!(e("1"), "need 2 arguments, one per input port");
        assert_eq!(
            e("x, -1"),
            "TICKETS0: expected a number of tickets; TICKETS1: must not be negative"
        );
    }
}
