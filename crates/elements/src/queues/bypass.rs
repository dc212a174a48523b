//! Bypass (Click): packets take another way while it is active.
//!
//! Deliberate difference: neighbours are not changed, a packet passes the element like any other (INLINE changes
//! nothing). What it costs is nothing in a program: its model is a wire.

use super::util::{unknown, value};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `Bypass`.
pub const BYPASS: ElementClass = ElementClass {
    name: "Bypass",
    ports: "1-2/1-2",
    processing: "a/a",
    flow: "xy/[xy]x",
    effect: Effect::Pure,
    usage: "[ACTIVE, keyword INLINE]",
    summary: "sends packets another way while it is active, from which they come back to input 1",
    new: || Box::new(Bypass { active: false }),
};

#[derive(Debug, Clone)]
struct Bypass {
    active: bool,
}

impl Bypass {
    /// The other end of what comes to, or is asked of, a port, where there are so many of them.
    fn other(&self, port: Port, ends: usize) -> Port {
        usize::from(self.active && port == 0 && ends > 1)
    }
}

impl Element for Bypass {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.active = args.optional("ACTIVE").unwrap_or(false);
        let _: Option<bool> = args.keyword("INLINE");
        args.finish()
    }

    fn model(&self, port: Port, cx: &ModelCx<'_>) -> Model {
        let exit = Exit::Port(self.other(port, cx.noutputs));
        Model::Cases(vec![Case::new(Cond::Always, exit)])
    }

    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        let to = self.other(port, cx.noutputs);
        cx.emit(to, p);
    }

    fn pull(&mut self, port: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        let from = self.other(port, cx.ninputs);
        cx.pull(from)
    }

    fn pulls_through(&self, port: Port, ninputs: usize) -> Option<Port> {
        Some(self.other(port, ninputs))
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("active")];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "active" => Ok(self.active.to_string()),
            _ => unknown(name),
        }
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "active" => self.active = value(name, text)?,
            _ => return unknown(name),
        }
        // what is pulled from may have packets now
        cx.notify_nonempty();
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::Packet;

    fn way(b: &mut Bench, port: usize) -> usize {
        b.push(port, b"x")[0].0
    }

    #[test]
    fn packets_go_round_while_it_is_active() {
        let mut b = Bench::new("Bypass", "", 2, 2).unwrap();
        assert_eq!((way(&mut b, 0), way(&mut b, 1)), (0, 0));
        b.write("active", "true").unwrap();
        assert_eq!((way(&mut b, 0), way(&mut b, 1)), (1, 0));
        assert_eq!(b.read("active").unwrap(), "true");
        // without a way round there is none
        let mut b = Bench::new("Bypass", "true, INLINE true", 1, 1).unwrap();
        assert_eq!(way(&mut b, 0), 0);
        assert!(Bench::new("Bypass", "perhaps", 1, 1).is_err());
        assert!(b.write("active", "perhaps").is_err());
    }

    #[test]
    fn pulls_go_round_too() {
        let mut b = Bench::new("Bypass", "", 2, 2).unwrap();
        for port in 0..2 {
            let q = b.host.upstream.entry(port).or_default();
            q.extend((0..3).map(|_| Box::new(Packet::from_slice(&[port as u8]))));
        }
        let from = |b: &mut Bench, port| b.pull(port).map(|p| p.data()[0]);
        assert_eq!((from(&mut b, 0), from(&mut b, 1)), (Some(0), Some(0)));
        b.write("active", "true").unwrap();
        assert_eq!((from(&mut b, 0), from(&mut b, 1)), (Some(1), Some(0)));
    }
}
