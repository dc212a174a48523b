//! Parameters: scopes, and their substitution in configuration strings.

use crate::conf;
use crate::limits::{MAX_CONFIG_BYTES, MAX_SUBSTITUTIONS, MAX_VARIABLE_DEPTH};
use crate::text::SrcText;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

/// The parameters of a compound element that is expanded, and those around it.
#[derive(Debug, Default)]
pub(crate) struct Env {
    /// How many compound classes the class of this element is declared in.
    depth: usize,
    values: HashMap<String, SrcText>,
    parent: Option<Rc<Env>>,
}

impl Env {
    /// The scope of a class that is declared `depth` classes deep, seen from inside `from`.
    pub(crate) fn inside(from: &Rc<Env>, depth: usize) -> Env {
        let mut parent = Some(from.clone());
        while let Some(env) = &parent
            && env.depth >= depth
        {
            parent = env.parent.clone();
        }
        Env {
            depth: parent.as_ref().map_or(0, |p| p.depth + 1),
            values: HashMap::new(),
            parent,
        }
    }

    pub(crate) fn define(&mut self, name: &str, value: SrcText) {
        self.values.insert(name.to_owned(), value);
    }

    fn value(&self, name: &str) -> Option<&SrcText> {
        let mut env = Some(self);
        while let Some(e) = env {
            if let Some(value) = e.values.get(name) {
                return Some(value);
            }
            env = e.parent.as_deref();
        }
        None
    }
}

/// Substitutes parameters, within a budget.
#[derive(Debug)]
pub(crate) struct Expander {
    substitutions: usize,
    bytes: usize,
}

/// What a `$` stands for.
struct Reference {
    /// The name, `${...}` and `$(...)` without their brackets.
    name: Range<usize>,
    /// The offset after it.
    end: usize,
    /// Whether it is `${...}`, which may have a default.
    braces: bool,
    /// Whether there are references in it.
    nested: bool,
}

impl Expander {
    pub(crate) fn new() -> Expander {
        Expander {
            substitutions: 0,
            bytes: 0,
        }
    }

    /// Whether the budget is exceeded; what was expanded since then is not complete.
    pub(crate) fn exceeded(&self) -> bool {
        self.substitutions > MAX_SUBSTITUTIONS || self.bytes > MAX_CONFIG_BYTES
    }

    /// Counts bytes that are kept.
    pub(crate) fn keep(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// `text` with the parameters of `env` substituted.
    pub(crate) fn expand(&mut self, text: &SrcText, env: &Env) -> SrcText {
        let out = self.expand_at(text, env, 0);
        self.keep(out.weight());
        out
    }

    fn expand_at(&mut self, text: &SrcText, env: &Env, depth: usize) -> SrcText {
        if !text.contains('$') || depth > MAX_VARIABLE_DEPTH {
            return text.clone();
        }
        let b = text.as_bytes();
        let at = |i: usize| b.get(i).copied().unwrap_or(0);
        let mut out = SrcText::default();
        let (mut s, mut copied, mut quote) = (0, 0, 0u8);
        while s < b.len() {
            match at(s) {
                b'\\' if quote == b'"' && s + 1 < b.len() => s += 1,
                c @ (b'\'' | b'"') if quote == 0 => quote = c,
                c @ (b'\'' | b'"') if quote == c => quote = 0,
                b'/' if quote == 0 && matches!(at(s + 1), b'/' | b'*') => {
                    s = conf::skip_comment_space(b, s);
                    continue;
                }
                b'$' if quote != b'\'' && !self.exceeded() => {
                    let Some(reference) = reference(b, s) else {
                        s += 1;
                        continue;
                    };
                    if reference.end == usize::MAX {
                        break;
                    }
                    self.substitutions += 1;
                    let mut name = text.slice(reference.name.clone());
                    if reference.nested {
                        name = self.expand_at(&name, env, depth + 1);
                    }
                    let value = self.value(&name, reference.braces, env, depth);
                    self.keep(value.as_ref().map_or(0, SrcText::weight));
                    if value.is_some() || reference.nested {
                        out.push_slice(text, copied..s);
                        copied = reference.end;
                        match value {
                            Some(value) if quote == b'"' => push_quoted(&mut out, &value),
                            Some(value) => out.push(&value),
                            None => {
                                out.push_slice(text, s..s + 2);
                                out.push(&name);
                                out.push_slice(text, reference.end - 1..reference.end);
                            }
                        }
                    }
                    s = reference.end;
                    continue;
                }
                _ => {}
            }
            s += 1;
        }
        if copied == 0 && out.is_empty() {
            return text.clone();
        }
        out.push_slice(text, copied..b.len());
        out
    }

    /// The value of a reference.
    fn value(&mut self, name: &SrcText, braces: bool, env: &Env, depth: usize) -> Option<SrcText> {
        let mut variable = name.as_str();
        let mut default = None;
        let mut word = None;
        if braces {
            let b = name.as_bytes();
            let space = |mut i: usize| {
                while b.get(i).is_some_and(|&c| conf::is_space(c)) {
                    i += 1;
                }
                i
            };
            let start = space(0);
            let mut s = start;
            while b
                .get(s)
                .is_some_and(|&c| c.is_ascii_alphanumeric() || c == b'_')
            {
                s += 1;
            }
            variable = name.get(start..s).unwrap_or("");
            s = space(s);
            if b.get(s) == Some(&b'[') {
                let from = space(s + 1);
                s = from;
                while b.get(s).is_some_and(u8::is_ascii_digit) {
                    s += 1;
                }
                if s > from && b.get(s) == Some(&b']') {
                    // A number too large for this is larger than the number of words, too.
                    word = Some(
                        name.get(from..s)
                            .and_then(|n| n.parse::<usize>().ok())
                            .unwrap_or(usize::MAX),
                    );
                    s = space(s + 1);
                }
            }
            if b.get(s) == Some(&b'-') {
                default = Some(s + 1..b.len());
            }
        }
        if let Some(value) = env.value(variable) {
            let value = self.expand_at(value, env, depth + 1);
            return Some(match word {
                Some(index) => value
                    .split_spaces()
                    .into_iter()
                    .nth(index)
                    .unwrap_or_default(),
                None => value,
            });
        }
        default.map(|range| self.expand_at(&name.slice(range), env, depth + 1))
    }
}

/// The reference that starts with the `$` at `s`, if there is one. One that does not end before the text does has
/// the end `usize::MAX`.
fn reference(b: &[u8], s: usize) -> Option<Reference> {
    let at = |i: usize| b.get(i).copied().unwrap_or(0);
    let unfinished = Reference {
        name: 0..0,
        end: usize::MAX,
        braces: false,
        nested: false,
    };
    let start = s + 2;
    match at(s + 1) {
        b'{' => {
            let Some(length) = b.get(start..)?.iter().position(|&c| c == b'}') else {
                return Some(unfinished);
            };
            let name = start..start + length;
            let nested = b.get(name.clone())?.contains(&b'$');
            Some(Reference {
                end: name.end + 1,
                name,
                braces: true,
                nested,
            })
        }
        b'(' => {
            let (mut i, mut level, mut quote, mut nested) = (start, 1, 0u8, false);
            while i < b.len() && level > 0 {
                match at(i) {
                    b'(' if quote == 0 => level += 1,
                    b')' if quote == 0 => level -= 1,
                    c @ (b'"' | b'\'') if quote == 0 => quote = c,
                    c @ (b'"' | b'\'') if quote == c => quote = 0,
                    b'\\' if quote != b'\'' && i + 1 < b.len() => i += 1,
                    b'$' if quote != b'\'' => nested = true,
                    _ => {}
                }
                i += 1;
            }
            if i <= start || at(i - 1) != b')' {
                return Some(unfinished);
            }
            Some(Reference {
                name: start..i - 1,
                end: i,
                braces: false,
                nested,
            })
        }
        c if c.is_ascii_alphanumeric() || c == b'_' => {
            let mut i = s + 1;
            while at(i).is_ascii_alphanumeric() || at(i) == b'_' {
                i += 1;
            }
            Some(Reference {
                name: s + 1..i,
                end: i,
                braces: false,
                nested: false,
            })
        }
        // These have a value in scripts only.
        b'?' | b'#' | b'$' => Some(Reference {
            name: s + 1..s + 2,
            end: s + 2,
            braces: false,
            nested: false,
        }),
        _ => None,
    }
}

/// Appends a value inside double quotes, so that it is the value that is quoted.
fn push_quoted(out: &mut SrcText, value: &SrcText) {
    let quoted = conf::quote(value.as_bytes());
    let inner = quoted.get(1..quoted.len() - 1).unwrap_or("");
    if inner == value.as_str() {
        out.push(value);
    } else if let Some(span) = value.span() {
        out.push_str(inner, span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{SourceMap, Span};

    fn nowhere() -> Span {
        Span::new(SourceMap::new().add("", ""), 0, 0)
    }

    fn env(values: &[(&str, &str)]) -> Env {
        let mut env = Env::default();
        for (name, value) in values {
            env.define(name, SrcText::new(*value, nowhere()));
        }
        env
    }

    fn expand(text: &str, values: &[(&str, &str)]) -> String {
        Expander::new()
            .expand(&SrcText::new(text, nowhere()), &env(values))
            .to_string()
    }

    #[test]
    fn names_and_braces() {
        let values = [("a", "1"), ("ab", "2"), ("n", "a")];
        assert_eq!(expand("$a $ab ${a}b $b $", &values), "1 2 1b $b $");
        assert_eq!(
            expand("${ a }${b-x $a}${a-y}${$n}${b$n}", &values),
            "1x 111${ba}"
        );
        assert_eq!(expand("$(a)", &values), "1");
    }

    #[test]
    fn quotes_and_comments() {
        let values = [("a", "x\"y$z")];
        assert_eq!(
            expand("'$a' \"$a\" $a", &values),
            "'$a' \"x\\\"y\\$z\" x\"y$z"
        );
        assert_eq!(
            expand("// $a\n$a /* $a */ \"\\$a\"", &values),
            "// $a\nx\"y$z /* $a */ \"\\$a\""
        );
    }

    #[test]
    fn words_of_a_value() {
        let values = [("a", "one 'two three' four")];
        assert_eq!(
            expand("${a[0]}|${a[1]}|${a[2]}|${a[3]}|", &values),
            "one|'two three'|four||"
        );
        assert_eq!(expand("${a[99999999999999999999999]}|", &values), "|");
    }

    #[test]
    fn values_are_expanded_too_but_not_for_ever() {
        assert_eq!(expand("$a", &[("a", "$b$b"), ("b", "x")]), "xx");
        assert_eq!(expand("$a", &[("a", "$a")]), "$a");
        assert_eq!(
            expand("$a", &[("a", "[$b]"), ("b", "($a)")])
                .matches('[')
                .count(),
            6
        );
    }

    #[test]
    fn an_empty_value_is_substituted() {
        assert_eq!(expand("$a", &[("a", "")]), "");
        assert_eq!(expand("$a, x", &[("a", "")]), ", x");
    }

    #[test]
    fn unfinished_references_stay() {
        for text in ["${a", "$(a", "x $(", "${", "$(\"a)"] {
            assert_eq!(expand(text, &[("a", "1")]), text);
        }
        assert_eq!(expand("$a ${a", &[("a", "1")]), "1 ${a");
    }

    #[test]
    fn explosive_values_exceed_the_budget() {
        let wide = "$a".repeat(50);
        let mut expander = Expander::new();
        expander.expand(&SrcText::new("$a", nowhere()), &env(&[("a", &wide)]));
        assert!(expander.exceeded());
    }
}
