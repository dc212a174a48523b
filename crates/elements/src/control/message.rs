//! Message and Error: say something when the graph is configured.
//!
//! Click elements Message, Error. The text is reported with the configuration's other diagnostics: `MESSAGE` and
//! `WARNING` as warnings, `ERROR` as an error.

use onefold_element::args::Args;
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `Message`.
pub const MESSAGE: ElementClass = ElementClass {
    name: "Message",
    ports: "0/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "MESSAGE [, TYPE]",
    summary: "prints a message, a warning or an error when it is configured",
    new: || Box::new(Message),
};

/// `Error`.
pub const ERROR: ElementClass = ElementClass {
    name: "Error",
    ports: "-/-",
    usage: "...",
    summary: "refuses to be configured",
    new: || Box::new(Refuse),
    ..MESSAGE
};

#[derive(Debug, Clone)]
struct Message;

impl Element for Message {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let text: Option<String> = args.mandatory("MESSAGE");
        let kind: Option<String> = args.optional("TYPE");
        let Some(text) = text else {
            return args.finish();
        };
        match kind.as_deref().unwrap_or("MESSAGE") {
            "MESSAGE" => {
                let mut e = args.finish().err().unwrap_or_default();
                e.push(ConfigError {
                    warning: true,
                    info: true,
                    ..ConfigError::new(text)
                });
                return Err(e);
            }
            "WARNING" => args.warning(text),
            "ERROR" => args.error(text),
            other => args.error(format!(
                "TYPE: expected MESSAGE, WARNING or ERROR, found '{other}'"
            )),
        }
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("Message: takes no packets")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "Message: has no ports");
    }
    element_any!();
}

#[derive(Debug, Clone)]
struct Refuse;

impl Element for Refuse {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        args.rest();
        Err(vec![ConfigError::new("element of class Error")])
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("Error: is never configured")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "Error: not configured");
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn says_it_at_its_level() {
        assert!(Bench::new("Message", "\"hello there\"", 0, 0).is_ok());
        let e = Bench::new("Message", "broken, ERROR", 0, 0).err().unwrap();
        assert_eq!(e, ["broken"]);
        let e = Bench::new("Message", "x, LOUD", 0, 0).err().unwrap();
        assert!(e[0].starts_with("TYPE: expected MESSAGE"), "{e:?}");
        assert!(Bench::new("Error", "", 0, 0).is_err());
    }
}
