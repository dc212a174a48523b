//! ControlSocket and ChatterSocket: refused.
//!
//! A control connection without authentication would let anybody on the machine (or beyond) rewrite a running graph;
//! control goes through the agent, which authenticates. So configurations that ask for one are refused with that
//! reason.

use onefold_element::args::Args;
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `ControlSocket`.
pub const CONTROL_SOCKET: ElementClass = ElementClass {
    name: "ControlSocket",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "...",
    summary: "refused: control connections are not opened from configurations",
    new: || Box::new(Refused),
};

/// `ChatterSocket`.
pub const CHATTER_SOCKET: ElementClass = ElementClass {
    name: "ChatterSocket",
    ..CONTROL_SOCKET
};

#[derive(Debug, Clone)]
struct Refused;

impl Element for Refused {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        args.rest();
        let why = "control sockets are not opened: they let anybody who connects change the graph";
        Err(vec![
            ConfigError::new(why).hint("read handlers with -h, or use a Script"),
        ])
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("ControlSocket: takes no packets")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "ControlSocket: has no ports");
    }
    element_any!();
}
