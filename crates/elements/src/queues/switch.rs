//! Push switches: Switch, StaticSwitch, RoundRobinSwitch, HashSwitch, RandomSwitch, CPUSwitch, InputSwitch (Click).
//!
//! Deliberate differences: HashSwitch refuses a negative OFFSET or LENGTH; CPUSwitch sends everything to output 0, as
//! Click does on one CPU.

use super::util::{unknown, value};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

const fn class(
    name: &'static str,
    ports: &'static str,
    effect: Effect,
    usage: &'static str,
    summary: &'static str,
    new: fn() -> Box<dyn Element>,
) -> ElementClass {
    ElementClass {
        name,
        ports,
        processing: "h/h",
        flow: "x/x",
        effect,
        usage,
        summary,
        new,
    }
}

/// `Switch`.
pub const SWITCH: ElementClass = class(
    "Switch",
    "1/-",
    Effect::Pure,
    "[OUTPUT]",
    "sends packets to an output that can be set while running",
    || {
        Box::new(Switch {
            fixed: false,
            output: Some(0),
        })
    },
);
/// `StaticSwitch`.
pub const STATIC_SWITCH: ElementClass = class(
    "StaticSwitch",
    "1/-",
    Effect::Pure,
    "OUTPUT",
    "sends packets to a fixed output",
    || {
        Box::new(Switch {
            fixed: true,
            output: None,
        })
    },
);
/// `RoundRobinSwitch`.
pub const ROUND_ROBIN_SWITCH: ElementClass = class(
    "RoundRobinSwitch",
    "1/1-",
    Effect::OrderSensitive,
    "",
    "sends packets to its outputs in turn",
    || Box::new(RoundRobinSwitch::default()),
);
/// `HashSwitch`.
pub const HASH_SWITCH: ElementClass = class(
    "HashSwitch",
    "1/1-",
    Effect::Pure,
    "OFFSET, LENGTH",
    "chooses the output by a hash of some bytes of the packet",
    || Box::new(HashSwitch::default()),
);
/// `RandomSwitch`.
pub const RANDOM_SWITCH: ElementClass = class(
    "RandomSwitch",
    "1/1-",
    Effect::Random,
    "",
    "sends packets to random outputs",
    || Box::new(RandomSwitch),
);
/// `CPUSwitch`.
pub const CPU_SWITCH: ElementClass = class(
    "CPUSwitch",
    "1/1-",
    Effect::Pure,
    "",
    "sends packets to the output of the CPU they are processed on, which is 0",
    || Box::new(CpuSwitch),
);
/// `InputSwitch`.
pub const INPUT_SWITCH: ElementClass = class(
    "InputSwitch",
    "-/1",
    Effect::Pure,
    "[INPUT]",
    "lets packets from one input pass, which can be set while running",
    || Box::new(InputSwitch { input: Some(0) }),
);

const NO_OUTPUT: DropReason = "StaticSwitch: no output";
const SWITCHED_OFF: DropReason = "Switch: switched off";
const NOT_CHOSEN: DropReason = "InputSwitch: input not chosen";

/// A port number as switches take it: negative is none.
fn port_of(n: i32) -> Option<usize> {
    usize::try_from(n).ok()
}

/// As the `switch` handlers show it.
fn port_text(p: Option<usize>) -> String {
    p.map_or("-1".to_string(), |p| p.to_string())
}

#[derive(Debug, Clone)]
struct Switch {
    fixed: bool,
    /// `None`: packets are dropped.
    output: Option<usize>,
}

impl Element for Switch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let n: i32 = match self.fixed {
            true => args.mandatory("OUTPUT").unwrap_or(0),
            false => args.optional("OUTPUT").unwrap_or(0),
        };
        self.output = port_of(n);
        if self.output.is_some_and(|o| o >= cx.noutputs) {
            match self.fixed {
                true => self.output = None,
                false => args.error(format!("OUTPUT: must be less than {}", cx.noutputs)),
            }
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let exit = match (self.output, self.fixed) {
            (Some(o), _) => Exit::Port(o),
            (None, true) => Exit::Drop(NO_OUTPUT),
            (None, false) => Exit::Drop(SWITCHED_OFF),
        };
        Model::Cases(vec![Case::new(Cond::Always, exit).from_arg(0)])
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.decide(Some(0), || format!("output {}", port_text(self.output)));
        match (self.output, self.fixed) {
            (Some(o), _) => cx.emit(o, p),
            (None, true) => cx.drop(p, NO_OUTPUT),
            (None, false) => cx.drop(p, SWITCHED_OFF),
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("switch"), HandlerInfo::r("config")];
        if self.fixed { &[] } else { H }
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "switch" | "config" => Ok(port_text(self.output)),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "switch" || self.fixed {
            return unknown(name);
        }
        self.output = port_of(value(name, text)?).filter(|o| *o < cx.noutputs);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        !self.fixed
    }
    element_any!();
}

#[derive(Debug, Clone, Default)]
struct RoundRobinSwitch {
    next: usize,
}

impl Element for RoundRobinSwitch {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("order")
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let i = self.next;
        self.next = if i + 1 >= cx.noutputs { 0 } else { i + 1 };
        cx.decide(None, || format!("output {i}, its turn"));
        cx.emit(i, p);
    }
    element_any!();
}

#[derive(Debug, Clone, Default)]
struct HashSwitch {
    offset: usize,
    length: usize,
}

impl HashSwitch {
    /// The output for a packet: the sum of the bytes, folded for small powers of two. Packets that are too short go to
    /// 0.
    fn output(&self, data: &[u8], outputs: usize) -> usize {
        let end = self.offset.saturating_add(self.length);
        let Some(bytes) = data.get(self.offset..end) else {
            return 0;
        };
        let sum: u32 = bytes.iter().map(|b| u32::from(*b)).sum();
        let d = match outputs {
            2 | 4 | 8 => sum ^ (sum >> 4),
            _ => sum,
        };
        d as usize % outputs.max(1)
    }
}

impl Element for HashSwitch {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let offset: Option<i32> = args.mandatory("OFFSET");
        let length: Option<i32> = args.mandatory("LENGTH");
        match offset.map(usize::try_from) {
            Some(Ok(n)) => self.offset = n,
            Some(Err(_)) => args.error("OFFSET: must not be negative"),
            None => {}
        }
        match length.map(usize::try_from) {
            Some(Ok(n)) if n > 0 => self.length = n,
            Some(_) => args.error("LENGTH: must be more than 0"),
            None => {}
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("a hash of the packet")
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let o = self.output(p.data(), cx.noutputs);
        cx.decide(None, || format!("output {o} by hash"));
        cx.emit(o, p);
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct RandomSwitch;

impl Element for RandomSwitch {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::ask("chance")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        // the high bits of the product: even over any number of outputs
        let o = (u64::from(cx.random()) * cx.noutputs as u64) >> 32;
        cx.decide(None, || format!("output {o} by chance"));
        cx.emit(o as usize, p);
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct CpuSwitch;

impl Element for CpuSwitch {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([])
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct InputSwitch {
    input: Option<usize>,
}

impl Element for InputSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        // Click's keyword is OUTPUT, its documentation says INPUT
        let by_word: Option<i32> = args.keyword("INPUT");
        let n: Option<i32> = args.optional("OUTPUT").or(by_word);
        self.input = port_of(n.unwrap_or(0));
        if self.input.is_some_and(|i| i >= cx.ninputs) {
            args.error(format!("INPUT: must be less than {}", cx.ninputs));
        }
        args.finish()
    }

    fn model(&self, port: Port, _: &ModelCx<'_>) -> Model {
        let exit = match self.input == Some(port) {
            true => Exit::Port(0),
            false => Exit::Drop(NOT_CHOSEN),
        };
        Model::Cases(vec![Case::new(Cond::Always, exit).from_arg(0)])
    }

    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.decide(Some(0), || {
            format!("input {} is open", port_text(self.input))
        });
        if self.input == Some(port) {
            cx.emit(0, p);
        } else {
            cx.drop(p, NOT_CHOSEN);
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("switch"), HandlerInfo::r("config")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "switch" | "config" => Ok(port_text(self.input)),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "switch" {
            return unknown(name);
        }
        self.input = port_of(value(name, text)?).filter(|i| *i < cx.ninputs);
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::HashSwitch;
    use crate::testing::Bench;

    #[test]
    fn switch_can_be_set() {
        let mut b = Bench::new("Switch", "1", 1, 3).unwrap();
        assert_eq!(b.push(0, &[1])[0].0, 1);
        b.write("switch", "2").unwrap();
        assert_eq!(b.push(0, &[1])[0].0, 2);
        b.write("switch", "3").unwrap();
        assert_eq!(b.read("switch").unwrap(), "-1");
        assert!(b.push(0, &[1]).is_empty());
        assert_eq!(b.drops()["Switch: switched off"], 1);
        assert!(b.write("switch", "x").is_err());
        let e = Bench::new("Switch", "3", 1, 3).err().unwrap();
        assert_eq!(e, ["OUTPUT: must be less than 3"]);
    }

    #[test]
    fn static_switch_cannot() {
        let mut b = Bench::new("StaticSwitch", "1", 1, 2).unwrap();
        assert_eq!(b.push(0, &[1])[0].0, 1);
        assert!(b.write("switch", "0").is_err());
        let mut b = Bench::new("StaticSwitch", "7", 1, 2).unwrap();
        assert!(b.push(0, &[1]).is_empty());
        assert!(Bench::new("StaticSwitch", "", 1, 2).is_err());
    }

    #[test]
    fn round_robin_and_random() {
        let mut b = Bench::new("RoundRobinSwitch", "", 1, 3).unwrap();
        let ports: Vec<usize> = (0..7).map(|_| b.push(0, &[])[0].0).collect();
        assert_eq!(ports, [0, 1, 2, 0, 1, 2, 0]);
        let mut b = Bench::new("RandomSwitch", "", 1, 3).unwrap();
        let mut n = [0; 3];
        for _ in 0..3000 {
            n[b.push(0, &[])[0].0] += 1;
        }
        assert!(n.iter().all(|n| (900..1100).contains(n)), "{n:?}");
    }

    #[test]
    fn hash_is_the_sum_of_bytes() {
        let h = HashSwitch {
            offset: 1,
            length: 2,
        };
        // 0x11 + 0x22 = 0x33; 0x33 ^ 0x03 = 0x30
        let p = [9, 0x11, 0x22];
        assert_eq!(
            [1, 2, 3, 4, 5, 8].map(|n| h.output(&p, n)),
            [0, 0, 0, 0, 1, 0]
        );
        assert_eq!(h.output(&[9, 0x11, 0x23], 8), (0x34 ^ 0x03) & 7);
        assert_eq!(h.output(&[9, 0x11], 8), 0);
        for bad in ["-1, 4", "0, 0", "0", "a, b"] {
            assert!(Bench::new("HashSwitch", bad, 1, 2).is_err(), "{bad}");
        }
    }

    #[test]
    fn input_switch_opens_one() {
        let mut b = Bench::new("InputSwitch", "1", 2, 1).unwrap();
        assert!(b.push(0, &[1]).is_empty());
        assert_eq!(b.push(1, &[1]).len(), 1);
        b.write("switch", "0").unwrap();
        assert_eq!(b.push(0, &[1]).len(), 1);
        assert!(Bench::new("InputSwitch", "INPUT 2", 2, 1).is_err());
        assert_eq!(
            Bench::new("CPUSwitch", "", 1, 2).unwrap().push(0, &[])[0].0,
            0
        );
    }
}
