//! What the elements of this family have in common.

use onefold_element::args::{ArgScope, FromArg};
use onefold_element::handler::HandlerError;
use onefold_element::{Cx, NameDb};

/// Reads the value written to a handler.
pub(crate) fn value<T: FromArg>(handler: &str, text: &str) -> Result<T, HandlerError> {
    let scope = ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    };
    T::from_arg(text.trim(), &scope).map_err(|why| {
        let shown: String = text.chars().take(60).collect();
        HandlerError::BadValue(match why {
            Some(w) => format!("{handler}: {w}"),
            None => format!("{handler}: expected {}, found '{shown}'", T::WANTS),
        })
    })
}

/// No handler of this name.
pub(crate) fn unknown<T>(name: &str) -> Result<T, HandlerError> {
    Err(HandlerError::NoSuchHandler(name.to_string()))
}

/// The one message that a queue gives when it overflows for the first time.
pub(crate) fn say_overflow(class: &str, cx: &mut Cx<'_>) {
    let name = cx.host.element_name(cx.elem);
    cx.chatter(&format!("{name} :: {class}: overflow\n"));
}
