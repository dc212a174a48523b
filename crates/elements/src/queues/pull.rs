//! Elements of pull paths: PullSwitch, SimplePullSwitch, StaticPullSwitch, PullTee, PullNull, and PushNull (Click).

use super::util::{unknown, value};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `PullSwitch`.
pub const PULL_SWITCH: ElementClass = ElementClass {
    name: "PullSwitch",
    ports: "-/1",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "[INPUT]",
    summary: "pulls from one input, which can be set while running",
    new: || {
        Box::new(PullSwitch {
            fixed: false,
            input: Some(0),
        })
    },
};
/// `SimplePullSwitch`.
pub const SIMPLE_PULL_SWITCH: ElementClass = ElementClass {
    name: "SimplePullSwitch",
    ..PULL_SWITCH
};
/// `StaticPullSwitch`.
pub const STATIC_PULL_SWITCH: ElementClass = ElementClass {
    name: "StaticPullSwitch",
    usage: "INPUT",
    summary: "pulls from a fixed input",
    new: || {
        Box::new(PullSwitch {
            fixed: true,
            input: None,
        })
    },
    ..PULL_SWITCH
};
/// `PullTee`.
pub const PULL_TEE: ElementClass = ElementClass {
    name: "PullTee",
    ports: "1/1-",
    processing: "l/lh",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "[N]",
    summary: "answers pulls on output 0 and pushes copies to the others",
    new: || Box::new(PullTee),
};
/// `PullNull`.
pub const PULL_NULL: ElementClass = ElementClass {
    name: "PullNull",
    ports: "1/1",
    processing: "l/l",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "",
    summary: "passes packets on; forces pull",
    new: || Box::new(Pass),
};
/// `PushNull`.
pub const PUSH_NULL: ElementClass = ElementClass {
    name: "PushNull",
    processing: "h/h",
    summary: "passes packets on; forces push",
    ..PULL_NULL
};

const PUSHED: &str = "PullSwitch: pushed into a pull element";

#[derive(Debug, Clone)]
struct PullSwitch {
    fixed: bool,
    /// `None`: nothing is pulled.
    input: Option<usize>,
}

impl Element for PullSwitch {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let n: i32 = match self.fixed {
            true => args.mandatory("INPUT").unwrap_or(0),
            false => args.optional("INPUT").unwrap_or(0),
        };
        self.input = usize::try_from(n).ok().filter(|i| *i < cx.ninputs);
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, PUSHED);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let i = self.input?;
        cx.decide(Some(0), || format!("input {i}"));
        cx.pull(i)
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("switch"), HandlerInfo::r("config")];
        if self.fixed { &[] } else { H }
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "switch" | "config" => Ok(self.input.map_or("-1".into(), |i| i.to_string())),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "switch" || self.fixed {
            return unknown(name);
        }
        let n: i32 = value(name, text)?;
        self.input = usize::try_from(n).ok().filter(|i| *i < cx.ninputs);
        // where nothing ever comes from, nobody need look
        if self
            .input
            .is_none_or(|i| !cx.host.upstream_idle(cx.elem, i))
        {
            cx.notify_nonempty();
        }
        Ok(())
    }

    fn can_live_reconfigure(&self) -> bool {
        !self.fixed
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct PullTee;

impl Element for PullTee {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let n: Option<usize> = args.optional("N");
        if n.is_some_and(|n| n != cx.noutputs) {
            args.error(format!("N: {} outputs are connected", cx.noutputs));
        }
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("pulls packets")
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "PullTee: pushed into a pull element");
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let p = cx.pull(0)?;
        for i in 1..cx.noutputs {
            let q = cx.copy(&p);
            cx.emit(i, q);
        }
        Some(p)
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct Pass;

impl Element for Pass {
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([])
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        cx.pull(0)
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    fn feed(b: &mut Bench) {
        for port in 0..2 {
            let q = b.host.upstream.entry(port).or_default();
            q.extend((0..9).map(|_| Box::new(Packet::from_slice(&[port as u8]))));
        }
    }

    #[test]
    fn pull_switches() {
        for class in ["PullSwitch", "SimplePullSwitch"] {
            let mut b = Bench::new(class, "1", 2, 1).unwrap();
            feed(&mut b);
            assert_eq!(b.pull(0).unwrap().data(), [1]);
            b.write("switch", "2").unwrap();
            assert_eq!(b.read("switch").unwrap(), "-1");
            assert!(b.pull(0).is_none());
            b.write("switch", "0").unwrap();
            assert_eq!(b.host.nonempty, 2);
            assert_eq!(b.pull(0).unwrap().data(), [0]);
        }
        let mut b = Bench::new("StaticPullSwitch", "1", 2, 1).unwrap();
        feed(&mut b);
        assert_eq!(b.pull(0).unwrap().data(), [1]);
        assert!(b.write("switch", "0").is_err());
        assert!(Bench::new("StaticPullSwitch", "", 2, 1).is_err());
    }

    #[test]
    fn tee_and_null() {
        let mut b = Bench::new("PullTee", "3", 1, 3).unwrap();
        feed(&mut b);
        assert_eq!(b.pull(0).unwrap().data(), [0]);
        let ports: Vec<usize> = b.emitted().iter().map(|e| e.0).collect();
        assert_eq!((ports, b.out.created), (vec![1, 2], 2));
        assert!(Bench::new("PullTee", "2", 1, 3).is_err());
        let mut b = Bench::new("PullNull", "", 1, 1).unwrap();
        feed(&mut b);
        assert!(b.pull(0).is_some());
        assert_eq!(
            Bench::new("PushNull", "", 1, 1)
                .unwrap()
                .push(0, &[1])
                .len(),
            1
        );
    }
}
