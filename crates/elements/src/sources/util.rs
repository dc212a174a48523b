//! Small things that sources share: end-of-run calls, handler values, files that belong to one graph only.

use onefold_element::args::{AnyArg, ArgScope, Args, FromArg, split_words};
use onefold_element::handler::HandlerError;
use onefold_element::{Cx, NameDb};
use std::fmt;

/// Something that only the original of an element has, such as an open file: a copy (of a forked graph) has none, so
/// that it can neither write to the original's file nor read on in it.
pub struct Own<T>(pub Option<T>);

impl<T> Default for Own<T> {
    fn default() -> Self {
        Own(None)
    }
}

impl<T> Clone for Own<T> {
    fn clone(&self) -> Self {
        Own(None)
    }
}

impl<T> fmt::Debug for Own<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "open" } else { "detached" })
    }
}

/// What happens at the end: a write handler call, or a stop request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtEnd {
    /// Asks the run to stop.
    Stop,
    /// Calls a write handler: its name and the value.
    Call(String, String),
}

impl AtEnd {
    /// The source's own handler `active` is called with `false`.
    pub fn switch_off() -> AtEnd {
        AtEnd::Call("active".to_string(), "false".to_string())
    }

    /// Reads STOP and END_CALL, of which one may be given.
    pub fn configure(args: &mut Args<'_>) -> Option<AtEnd> {
        let stop = args.keyword("STOP").unwrap_or(false);
        let call: Option<AnyArg> = args.keyword("END_CALL");
        match (stop, call) {
            (true, Some(_)) => {
                args.error("END_CALL and STOP are mutually exclusive");
                None
            }
            (true, None) => Some(AtEnd::Stop),
            (false, Some(AnyArg(text))) => {
                let words = split_words(&text);
                match words.split_first() {
                    Some((name, value)) => Some(AtEnd::Call(name.to_string(), value.join(" "))),
                    None => {
                        args.error("END_CALL: expected 'ELEMENT.HANDLER [VALUE]'");
                        None
                    }
                }
            }
            (false, None) => None,
        }
    }

    /// Carries it out once everything emitted so far has been processed.
    pub fn later(&self, cx: &mut Cx<'_>) {
        match self {
            AtEnd::Stop => cx.host.stop(),
            AtEnd::Call(name, value) => cx.call_write(name, value),
        }
    }
}

/// A handler's value as an argument of type `T`.
pub fn value<T: FromArg>(text: &str) -> Result<T, HandlerError> {
    let scope = ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    };
    T::from_arg(text.trim(), &scope).map_err(|why| {
        HandlerError::BadValue(why.unwrap_or_else(|| format!("expected {}", T::WANTS)))
    })
}
