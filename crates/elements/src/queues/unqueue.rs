//! Unqueue (Click), RoundRobinUnqueue (FastClick): pull turned into push by a task.
//!
//! Deliberate differences: a BURST of 0 does not keep the task busy; RoundRobinUnqueue sleeps after a round without a
//! packet.

use super::util::{unknown, value};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx, Port,
    TaskStatus, element_any,
};
use onefold_packet::Pkt;

/// `Unqueue`.
pub const UNQUEUE: ElementClass = ElementClass {
    name: "Unqueue",
    ports: "1/1",
    processing: "l/h",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "[BURST, keywords ACTIVE, LIMIT, BURST]",
    summary: "pulls packets whenever there are any and pushes them",
    new: || Box::new(Unqueue::default()),
};

#[derive(Debug, Clone)]
struct Unqueue {
    active: bool,
    /// Packets per turn; negative: until nothing comes.
    burst: i32,
    /// Packets in all; negative: no limit.
    limit: i32,
    count: u32,
    /// Packets left of the turn at hand.
    quota: Option<u32>,
}

impl Default for Unqueue {
    fn default() -> Self {
        Unqueue {
            active: true,
            burst: 1,
            limit: -1,
            count: 0,
            quota: None,
        }
    }
}

fn burst_of(n: i32) -> i32 {
    if n < 0 { i32::MAX } else { n }
}

impl Unqueue {
    /// Packets that a turn may move.
    fn turn(&self) -> u32 {
        let burst = u32::try_from(self.burst).unwrap_or(0);
        match u32::try_from(self.limit) {
            Ok(limit) => burst.min(limit.saturating_sub(self.count)),
            Err(_) => burst,
        }
    }
}

impl Element for Unqueue {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.burst = burst_of(args.optional("BURST").unwrap_or(1));
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        self.limit = args.keyword("LIMIT").unwrap_or(-1);
        args.finish()
    }

    fn initialize(&mut self, _: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        if self.burst == 0 {
            let mut w = ConfigError::new("BURST size 0, no packets will be pulled");
            w.warning = true;
            return Err(vec![w]);
        }
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }

    fn has_task(&self) -> bool {
        true
    }
    fn task_active(&self) -> bool {
        self.active
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        let left = match self.quota.take() {
            _ if !self.active => 0,
            Some(n) => n,
            None => self.turn(),
        };
        if left == 0 {
            return TaskStatus::Sleep;
        }
        let Some(p) = cx.pull(0) else {
            return TaskStatus::Sleep;
        };
        self.count = self.count.wrapping_add(1);
        cx.emit(0, p);
        if left > 1 {
            self.quota = Some(left - 1);
            return TaskStatus::Again;
        }
        TaskStatus::Reschedule
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("active"),
            HandlerInfo::r("count"),
            HandlerInfo::rw("burst"),
            HandlerInfo::rw("limit"),
            HandlerInfo::button("reset"),
            HandlerInfo::button("reset_counts").counts(),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "active" => self.active.to_string(),
            "count" => self.count.to_string(),
            "burst" => self.burst.to_string(),
            "limit" => self.limit.to_string(),
            _ => return unknown(name),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = value(name, text)?,
            "reset" | "reset_counts" => self.count = 0,
            "limit" => self.limit = value(name, text)?,
            "burst" => self.burst = burst_of(value(name, text)?),
            _ => return unknown(name),
        }
        self.quota = None;
        if self.active && self.turn() > 0 {
            cx.wake_task();
        }
        Ok(())
    }
    element_any!();
}

/// `RoundRobinUnqueue`.
pub const ROUND_ROBIN_UNQUEUE: ElementClass = ElementClass {
    name: "RoundRobinUnqueue",
    ports: "-/-",
    processing: "l/h",
    flow: "#/#",
    effect: Effect::OrderSensitive,
    usage: "[BURST]",
    summary: "pulls from its inputs in turn and pushes to the output of the same number",
    new: || {
        Box::new(RoundRobinUnqueue {
            burst: 1,
            ..Default::default()
        })
    },
};

#[derive(Debug, Clone, Default)]
struct RoundRobinUnqueue {
    /// Packets per turn; 0: until nothing comes.
    burst: u32,
    packets: u32,
    next: usize,
    /// Packets moved in the turn at hand.
    moved: u32,
    /// Inputs in a row that gave nothing.
    empty: usize,
}

impl Element for RoundRobinUnqueue {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.burst = args.optional("BURST").unwrap_or(1);
        if cx.ninputs != cx.noutputs {
            args.error("number of outputs must equal number of inputs");
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(port, p);
    }

    fn has_task(&self) -> bool {
        true
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        let port = self.next;
        let got = cx.pull(port);
        if let Some(p) = got {
            self.empty = 0;
            self.moved += 1;
            self.packets = self.packets.wrapping_add(1);
            cx.emit(port, p);
            if self.burst == 0 || self.moved < self.burst {
                return TaskStatus::Again;
            }
        } else if self.moved == 0 {
            self.empty += 1;
        }
        self.moved = 0;
        self.next = if port + 1 >= cx.ninputs { 0 } else { port + 1 };
        if self.empty >= cx.ninputs {
            self.empty = 0;
            return TaskStatus::Sleep;
        }
        TaskStatus::Reschedule
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("packets")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "packets" => Ok(format!("{} packets\n", self.packets)),
            _ => unknown(name),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_element::TaskStatus;
    use onefold_packet::Packet;

    fn feed(b: &mut Bench, port: usize, n: u8) {
        let q = b.host.upstream.entry(port).or_default();
        q.extend((0..n).map(|i| Box::new(Packet::from_slice(&[i]))));
    }

    #[test]
    fn one_packet_per_turn_unless_told() {
        let mut b = Bench::new("Unqueue", "", 1, 1).unwrap();
        feed(&mut b, 0, 3);
        assert_eq!(b.run_task().len(), 1);
        b.write("burst", "-1").unwrap();
        assert_eq!(b.run_task().len(), 2);
        assert_eq!(b.with(|e, cx| e.run_task(cx)), TaskStatus::Sleep);
        assert_eq!(b.read("count").unwrap(), "3");
        assert_eq!(b.read("burst").unwrap(), "2147483647");
    }

    #[test]
    fn limit_and_activity() {
        let mut b = Bench::new("Unqueue", "LIMIT 3, ACTIVE false, BURST 2", 1, 1).unwrap();
        assert!(b.element.has_task() && !b.element.task_active());
        feed(&mut b, 0, 9);
        assert_eq!(b.run_task().len(), 0);
        b.write("active", "true").unwrap();
        assert_eq!(b.host.woken, 1);
        assert_eq!(b.run_task().len(), 2);
        assert_eq!(b.run_task().len(), 1);
        assert_eq!(b.run_task().len(), 0);
        b.write("reset", "").unwrap();
        assert_eq!(b.host.woken, 2);
        assert_eq!(b.run_task().len(), 2);
        assert!(b.write("limit", "few").is_err());
        let b = Bench::new("Unqueue", "0", 1, 1).unwrap();
        assert_eq!(b.warnings, ["BURST size 0, no packets will be pulled"]);
        assert!(Bench::new("Unqueue", "LIMIT x", 1, 1).is_err());
    }

    #[test]
    fn round_robin_keeps_ports_apart() {
        let mut b = Bench::new("RoundRobinUnqueue", "2", 2, 2).unwrap();
        feed(&mut b, 0, 3);
        feed(&mut b, 1, 1);
        let mut ports = Vec::new();
        for _ in 0..5 {
            ports.extend(b.run_task().iter().map(|(port, _)| *port));
        }
        assert_eq!(ports, [0, 0, 1, 0]);
        assert_eq!(b.with(|e, cx| e.run_task(cx)), TaskStatus::Reschedule);
        assert_eq!(b.read("packets").unwrap(), "4 packets\n");
        assert!(Bench::new("RoundRobinUnqueue", "", 2, 1).is_err());
    }
}
