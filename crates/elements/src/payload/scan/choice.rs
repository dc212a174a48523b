//! Which matcher is used.

use super::PatternError;
use onefold_element::args::{ArgScope, FromArg};
use std::ffi::OsStr;

/// Names the matcher: `auto` (or empty, or not set), `portable`, or `vectorscan` (also called `hyperscan`: whichever
/// is installed).
pub const VARIABLE: &str = "ONEFOLD_MATCHER";

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// Vectorscan or Hyperscan (`libhs.so.5`) where it can be loaded, for all patterns that it compiles; else, and
    /// for the others, the portable matcher.
    #[default]
    Auto,
    /// Aho-Corasick and regex-automata.
    Portable,
    /// Vectorscan or Hyperscan; an error where it cannot be loaded.
    Vectorscan,
}

impl Choice {
    fn of(word: &str) -> Option<Choice> {
        Some(match word {
            "" | "auto" => Choice::Auto,
            "portable" => Choice::Portable,
            "vectorscan" | "hyperscan" => Choice::Vectorscan,
            _ => return None,
        })
    }

    fn of_variable(value: Option<&OsStr>) -> Result<Choice, PatternError> {
        let value = value.map(OsStr::to_string_lossy).unwrap_or_default();
        Choice::of(&value).ok_or_else(|| PatternError::Matcher(value.into_owned()))
    }

    /// What the environment variable [`VARIABLE`] says.
    ///
    /// # Errors
    /// It says something else.
    pub fn of_environment() -> Result<Choice, PatternError> {
        Choice::of_variable(std::env::var_os(VARIABLE).as_deref())
    }
}

/// Looks at the environment variable [`VARIABLE`], and whether what it names can be had.
///
/// # Errors
/// It names no matcher, or one that cannot be loaded.
pub fn check_environment() -> Result<(), PatternError> {
    match Choice::of_environment()? {
        Choice::Vectorscan => onefold_hyperscan::library()
            .map(drop)
            .map_err(|e| PatternError::NoVectorscan(e.to_string())),
        _ => Ok(()),
    }
}

impl FromArg for Choice {
    const WANTS: &'static str = "auto, portable or vectorscan";
    fn from_arg(s: &str, _: &ArgScope<'_>) -> Result<Self, Option<String>> {
        Choice::of(s).filter(|_| !s.is_empty()).ok_or(None)
    }
}

/// Who looks for patterns, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Engine {
    /// `hyperscan`, `vectorscan` or `portable`.
    pub name: &'static str,
    /// Version of the library.
    pub version: Option<&'static str>,
    /// All patterns.
    pub patterns: usize,
    /// Those that the portable matcher looks for although there is another one.
    pub left: usize,
    /// Why it is the portable matcher.
    pub why: Why,
}

/// Why the portable matcher is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Why {
    /// It is not.
    No,
    /// It was asked for.
    Asked,
    /// The library is missing or unusable.
    Missing,
    /// No pattern can be compiled by the library, or there is none.
    #[default]
    Patterns,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)?;
        if let Some(v) = self.version {
            write!(f, " {v}")?;
        }
        write!(f, ", {} pattern", self.patterns)?;
        if self.patterns != 1 {
            f.write_str("s")?;
        }
        match self.why {
            Why::Missing => match onefold_hyperscan::library() {
                Err(e) => write!(f, "; {e}"),
                Ok(_) => Ok(()),
            },
            Why::Asked => f.write_str("; as asked"),
            _ if self.left > 0 => write!(f, ", {} of them portable", self.left),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let of = |s: &str| Choice::of_variable(Some(OsStr::new(s)));
        assert_eq!(Choice::of_variable(None), Ok(Choice::Auto));
        assert_eq!(of(""), Ok(Choice::Auto));
        assert_eq!(of("auto"), Ok(Choice::Auto));
        assert_eq!(of("portable"), Ok(Choice::Portable));
        assert_eq!(of("vectorscan"), Ok(Choice::Vectorscan));
        assert_eq!(of("hyperscan"), Ok(Choice::Vectorscan));
        assert_eq!(
            of("hyper").unwrap_err().to_string(),
            "ONEFOLD_MATCHER is 'hyper'; hint: it can be auto (as without it), portable or vectorscan"
        );
    }
}
