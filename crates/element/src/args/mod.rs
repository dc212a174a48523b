//! Reading an element's configuration: positional and keyword arguments, with Click's matching rules.
//!
//! ```
//! use onefold_element::args::Args;
//! let mut a = Args::from_strings(&["14", "CHECKSUM true"]);
//! let offset: u32 = a.mandatory("OFFSET").unwrap_or(0);
//! let check: bool = a.keyword("CHECKSUM").unwrap_or(false);
//! assert!(a.finish().is_ok());
//! assert_eq!((offset, check), (14, true));
//! ```

mod number;
mod text;
mod value;

pub use number::{Bandwidth, Fixed, Seconds, parse_fraction};
pub use text::{split_args, split_words, unquote};
pub use value::{
    AnnoArg, AnyArg, Data, ElementArg, Filename, FromArg, Ip4Prefix, Ip6Prefix, IpPort, SizedAnno,
    Word, is_element_name,
};

use crate::config_error::{ConfigError, ConfigErrors};
use crate::names::NameDb;

/// Most arguments that one element may have; more is refused.
pub const MAX_ARGS: usize = 4_000_000;

/// What an argument may refer to: named addresses and elements.
#[derive(Clone, Copy)]
pub struct ArgScope<'a> {
    /// Named addresses and numbers.
    pub names: &'a NameDb,
    /// Full name of the element that is configured.
    pub element: &'a str,
    /// All elements' full names.
    pub elements: &'a [String],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// Not keyword-like.
    Plain,
    /// Starts with a word of this many bytes that may be a keyword.
    Keyword(usize),
    /// Read.
    Used,
}

/// An element's arguments while they are being read. Every reading method records what is wrong and goes on, so that
/// all errors of a configuration are reported at once by [`Args::finish`].
pub struct Args<'a> {
    args: Vec<&'a str>,
    slots: Vec<Slot>,
    /// First slot that may still be unused (positional reads are in order).
    cursor: usize,
    scope: ArgScope<'a>,
    errors: ConfigErrors,
}

impl<'a> Args<'a> {
    /// Over split arguments (see [`split_args`]).
    pub fn new(args: Vec<&'a str>, scope: ArgScope<'a>) -> Self {
        let slots = args.iter().map(|a| keyword_slot(a)).collect();
        Args {
            args,
            slots,
            cursor: 0,
            scope,
            errors: Vec::new(),
        }
    }

    /// Without names and other elements; for tests and tools.
    pub fn from_strings(args: &[&'a str]) -> Args<'a> {
        Args::new(
            args.to_vec(),
            ArgScope {
                names: NameDb::builtin(),
                element: "",
                elements: &[],
            },
        )
    }

    /// The scope in which argument texts are understood.
    pub fn scope(&self) -> ArgScope<'a> {
        self.scope
    }
    /// Number of arguments in all.
    pub fn len(&self) -> usize {
        self.args.len()
    }
    /// No arguments at all.
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }
    /// Argument `i` as it stands.
    pub fn raw(&self, i: usize) -> Option<&'a str> {
        self.args.get(i).copied()
    }

    /// Click's `read_mp`: mandatory, positional or by keyword.
    pub fn mandatory<T: FromArg>(&mut self, name: &str) -> Option<T> {
        self.read(name, true, true)
    }
    /// Click's `read_p`: optional, positional or by keyword.
    pub fn optional<T: FromArg>(&mut self, name: &str) -> Option<T> {
        self.read(name, true, false)
    }
    /// Click's `read`: optional, by keyword only.
    pub fn keyword<T: FromArg>(&mut self, name: &str) -> Option<T> {
        self.read(name, false, false)
    }
    /// Click's `read_m`: mandatory, by keyword only.
    pub fn mandatory_keyword<T: FromArg>(&mut self, name: &str) -> Option<T> {
        self.read(name, false, true)
    }

    /// Which argument is the last one with this keyword, if it has not been read yet.
    pub fn keyword_index(&self, name: &str) -> Option<usize> {
        (0..self.args.len())
            .rev()
            .find(|i| self.is_keyword(*i, name))
    }

    /// All arguments given with this keyword, in order (Click's `read_all`).
    pub fn keyword_all<T: FromArg>(&mut self, name: &str) -> Vec<T> {
        let mut out = Vec::new();
        for i in 0..self.args.len() {
            if self.is_keyword(i, name) {
                self.slots[i] = Slot::Used;
                let text = keyword_value(self.args[i], name);
                if let Some(v) = self.parse(i, name, text) {
                    out.push(v);
                }
            }
        }
        out
    }

    /// Everything not read yet, keyword-like or not, with its index: for elements whose arguments are a list of rules.
    pub fn rest(&mut self) -> Vec<(usize, &'a str)> {
        let mut out = Vec::new();
        for i in 0..self.args.len() {
            if self.slots[i] != Slot::Used {
                self.slots[i] = Slot::Used;
                out.push((i, self.args[i]));
            }
        }
        out
    }

    /// How many arguments that cannot be keywords are not read yet.
    pub fn positional_left(&self) -> usize {
        self.slots.iter().filter(|s| **s == Slot::Plain).count()
    }
    /// Would the next positional argument be a `T`?
    pub fn next_positional_is<T: FromArg>(&self) -> bool {
        let i = self.slots.iter().position(|s| *s == Slot::Plain);
        i.is_some_and(|i| T::from_arg(self.args[i], &self.scope).is_ok())
    }

    fn is_keyword(&self, i: usize, name: &str) -> bool {
        self.slots.get(i) == Some(&Slot::Keyword(name.len())) && self.args[i].starts_with(name)
    }

    fn read<T: FromArg>(&mut self, name: &str, positional: bool, mandatory: bool) -> Option<T> {
        // As Click: the last argument with this keyword wins, all of them count as read.
        let mut got: Option<(usize, &'a str)> = None;
        for i in self.cursor..self.args.len() {
            if self.is_keyword(i, name) {
                self.slots[i] = Slot::Used;
                got = Some((i, keyword_value(self.args[i], name)));
            }
        }
        while self.slots.get(self.cursor) == Some(&Slot::Used) {
            self.cursor += 1;
        }
        if positional && let Some(slot) = self.slots.get(self.cursor) {
            // A keyword-like text counts as positional only if a mandatory argument is still missing.
            let take = match slot {
                Slot::Plain => true,
                Slot::Keyword(_) => got.is_none() && mandatory,
                Slot::Used => false,
            };
            if take {
                self.slots[self.cursor] = Slot::Used;
                if got.is_none_or(|(i, _)| i < self.cursor) {
                    got = Some((self.cursor, self.args[self.cursor]));
                }
            }
        }
        match got {
            Some((i, text)) => self.parse(i, name, text),
            None => {
                if mandatory {
                    self.errors.push(ConfigError {
                        argument: Some(name.to_string()),
                        ..ConfigError::new(format!(
                            "required argument missing; expected {}",
                            T::WANTS
                        ))
                    });
                }
                None
            }
        }
    }

    fn parse<T: FromArg>(&mut self, i: usize, name: &str, text: &'a str) -> Option<T> {
        match T::from_arg(text, &self.scope) {
            Ok(v) => Some(v),
            Err(why) => {
                let shown: String = text.chars().take(60).collect();
                let message = match why {
                    Some(w) => w,
                    None => format!("expected {}, found '{shown}'", T::WANTS),
                };
                self.errors.push(ConfigError::at(i, name, message));
                None
            }
        }
    }

    /// Records an error about argument `index`.
    pub fn error_at(&mut self, index: usize, name: &str, message: impl Into<String>) {
        self.errors.push(ConfigError::at(index, name, message));
    }
    /// Records an error about no particular argument.
    pub fn error(&mut self, message: impl Into<String>) {
        self.errors.push(ConfigError::new(message));
    }
    /// Records a warning.
    pub fn warning(&mut self, message: impl Into<String>) {
        self.errors.push(ConfigError {
            warning: true,
            ..ConfigError::new(message)
        });
    }
    /// Records a warning about argument `index`, if it is known.
    pub fn warning_at(&mut self, index: Option<usize>, name: &str, message: impl Into<String>) {
        self.errors.push(ConfigError {
            argument: Some(name.to_string()),
            index,
            warning: true,
            ..ConfigError::new(message)
        });
    }
    /// No error so far?
    pub fn ok(&self) -> bool {
        self.errors.iter().all(|e| e.warning)
    }

    /// Ends reading: unread arguments are errors; returns all that went wrong. Warnings alone come back as `Err` too;
    /// the engine tells them apart by [`ConfigError::warning`].
    pub fn finish(&mut self) -> Result<(), ConfigErrors> {
        for i in 0..self.args.len() {
            match self.slots[i] {
                Slot::Used => {}
                Slot::Keyword(n) => {
                    let word = &self.args[i][..n];
                    self.errors
                        .push(ConfigError::at(i, word, "unknown argument"));
                }
                Slot::Plain => {
                    let shown: String = self.args[i].chars().take(60).collect();
                    self.errors.push(ConfigError {
                        index: Some(i),
                        ..ConfigError::new(format!("too many arguments: '{shown}'"))
                    });
                    break;
                }
            }
        }
        self.slots.fill(Slot::Used);
        if self.errors.is_empty() {
            Ok(())
        } else {
            Err(std::mem::take(&mut self.errors))
        }
    }
}

/// Does the text start with a word that could be a keyword, followed by white space and more text?
fn keyword_slot(a: &str) -> Slot {
    let b = a.as_bytes();
    let starts = b
        .first()
        .is_some_and(|c| c.is_ascii_alphabetic() || *c == b'_');
    if !starts {
        return Slot::Plain;
    }
    let n = b
        .iter()
        .take_while(|c| c.is_ascii_alphanumeric() || b"_:.?!".contains(c))
        .count();
    let rest = &b[n..];
    let space = rest.iter().take_while(|c| c.is_ascii_whitespace()).count();
    if space == 0 || space == rest.len() {
        Slot::Plain
    } else {
        Slot::Keyword(n)
    }
}

fn keyword_value<'a>(arg: &'a str, name: &str) -> &'a str {
    arg.get(name.len()..).unwrap_or("").trim_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_positions_mix() {
        let mut a = Args::from_strings(&["14", "CHECKSUM false"]);
        assert_eq!(a.mandatory::<u32>("OFFSET"), Some(14));
        assert_eq!(a.keyword::<bool>("CHECKSUM"), Some(false));
        assert!(a.finish().is_ok());

        let mut a = Args::from_strings(&["OFFSET 3"]);
        assert_eq!(a.mandatory::<u32>("OFFSET"), Some(3));
        assert!(a.finish().is_ok());
    }

    #[test]
    fn all_errors_at_once() {
        let mut a = Args::from_strings(&["x", "BOGUS 1", "2", "3"]);
        assert_eq!(a.mandatory::<u32>("OFFSET"), None);
        let _ = a.optional::<u32>("LENGTH");
        let e = a.finish().unwrap_err();
        let text: Vec<String> = e.iter().map(|e| e.to_string()).collect();
        assert_eq!(text.len(), 3, "{text:?}");
        assert!(text[0].starts_with("OFFSET: expected"), "{text:?}");
        assert!(text.iter().any(|t| t == "BOGUS: unknown argument"));
        assert!(text.iter().any(|t| t.starts_with("too many arguments")));
    }

    #[test]
    fn missing_names_the_argument_and_what_it_wants() {
        let mut a = Args::from_strings(&[]);
        let _ = a.mandatory::<bool>("ACTIVE");
        let e = a.finish().unwrap_err();
        assert_eq!(
            e[0].to_string(),
            "ACTIVE: required argument missing; expected a boolean (true or false)"
        );
    }
}
