//! Kinds of arguments that several header elements take.

use onefold_element::args::{ArgScope, FromArg, Ip4Prefix, split_words};

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

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::args::Args;

    fn value<T: FromArg>(text: &str) -> Result<T, Option<String>> {
        T::from_arg(text, &Args::from_strings(&[]).scope())
    }

    #[test]
    fn bounds_and_lists() {
        assert_eq!(value::<Bounded<-1, 7>>("-1"), Ok(Bounded(-1)));
        let e = value::<Bounded<0, 7>>("8").unwrap_err();
        assert_eq!(e.as_deref(), Some("'8' out of range, 0 to 7"));
        let l = value::<PrefixList>("1.2.3.4/24  5.6.7.8").unwrap().0;
        assert_eq!((l.len(), l[0].len()), (2, Some(24)));
        assert!(value::<PrefixList>("1.2.3.4 x").is_err());
        assert_eq!(value::<Spelled<u32>>("0x2e").unwrap().text, "0x2e");
    }
}
