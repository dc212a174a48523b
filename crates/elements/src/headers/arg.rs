//! Kinds of arguments that several header elements take.

use crate::args::{ArgScope, Args, FromArg, Ip4Prefix, split_words};
use crate::handler::HandlerError;

/// An integer between two bounds, both allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded<const LO: i64, const HI: i64>(pub i64);

impl<const LO: i64, const HI: i64> FromArg for Bounded<LO, HI> {
    const WANTS: &'static str = "a number";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let v = i64::from_arg(s, scope)
            .map_err(|_| Some(format!("expected a number from {LO} to {HI}, found '{s}'")))?;
        if (LO..=HI).contains(&v) {
            Ok(Bounded(v))
        } else {
            Err(Some(format!("'{s}' out of range, {LO} to {HI}")))
        }
    }
}

/// A value together with the text that it was written as (what Click's keyword handlers give back).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spelled<T> {
    /// The value.
    pub value: T,
    /// As written.
    pub text: String,
}

impl<T: FromArg> FromArg for Spelled<T> {
    const WANTS: &'static str = T::WANTS;
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        Ok(Spelled {
            value: T::from_arg(s, scope)?,
            text: s.to_string(),
        })
    }
}

/// Space-separated IPv4 addresses with prefix lengths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrefixList(pub Vec<Ip4Prefix>);

impl FromArg for PrefixList {
    const WANTS: &'static str =
        "IPv4 addresses with prefix lengths (such as 18.26.4.9/24), separated by spaces";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        split_words(s)
            .into_iter()
            .map(|w| Ip4Prefix::from_arg(w, scope))
            .collect::<Result<_, _>>()
            .map(PrefixList)
    }
}

/// Reads a handler's new value as an argument named `name`, without the configuration's named addresses.
pub fn handler_value<T: FromArg>(name: &str, value: &str) -> Result<T, HandlerError> {
    let mut args = Args::from_strings(&[]);
    let scope = args.scope();
    let v = T::from_arg(value.trim(), &scope).map_err(|why| {
        let why = why.unwrap_or_else(|| format!("expected {}, found '{value}'", T::WANTS));
        HandlerError::BadValue(format!("{name}: {why}"))
    });
    let _ = args.finish();
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_lists() {
        assert_eq!(handler_value::<Bounded<-1, 7>>("X", "-1"), Ok(Bounded(-1)));
        let e = handler_value::<Bounded<0, 7>>("X", "8").unwrap_err();
        assert_eq!(e.to_string(), "X: '8' out of range, 0 to 7");
        let l = handler_value::<PrefixList>("X", "1.2.3.4/24  5.6.7.8")
            .unwrap()
            .0;
        assert_eq!((l.len(), l[0].len()), (2, Some(24)));
        assert!(handler_value::<PrefixList>("X", "1.2.3.4 x").is_err());
        assert_eq!(
            handler_value::<Spelled<u32>>("X", "0x2e").unwrap().text,
            "0x2e"
        );
    }
}
