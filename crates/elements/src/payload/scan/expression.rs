//! Patterns as expressions of Vectorscan.
//!
//! A regular expression is not handed over as it is written: its syntax and PCRE's differ in small things (`$`,
//! nested classes, flags). It is parsed here, and its tree is written again with the few constructs that mean the
//! same in both.

use super::{Look, Pattern, syntax_config};
use onefold_hyperscan::Expression;
use regex_automata::util::syntax;
use regex_syntax::hir::{self, Class, Hir, HirKind};
use std::fmt::Write;

/// Longest text of an expression that the library takes (its `limitPatternLength`).
const MAX_TEXT: usize = 16_000;
/// Most places of a regular expression, repetitions multiplied: it takes too long to compile beyond.
const MAX_PLACES: u64 = 2_000;

/// A pattern as an expression, if it can be written as one that means the same.
pub fn expression(id: u32, p: &Pattern) -> Option<Expression> {
    let mut text = String::new();
    match &p.look {
        Look::Literal(b) => b.iter().for_each(|c| byte(&mut text, *c)),
        Look::Regex(r) => {
            let hir = syntax::parse_with(r, &syntax_config(p.nocase)).ok()?;
            // what matches nothing at all is found everywhere, or at one end
            if hir.properties().minimum_len().is_none_or(|n| n == 0) || places(&hir) > MAX_PLACES {
                return None;
            }
            write_hir(&mut text, &hir)?;
        }
    }
    if text.len() > MAX_TEXT {
        return None;
    }
    let mut e = Expression::new(id, text)?;
    if let Look::Literal(b) = &p.look {
        e.caseless = p.nocase;
        let len = b.len() as u64;
        let offset = u64::from(p.offset);
        e.min_end = (offset > 0).then_some(offset + len);
        e.max_end = p.depth.map(|d| offset + u64::from(d));
        // can never be there: the library calls it an error
        if e.max_end.is_some_and(|end| end < offset + len) {
            return None;
        }
    }
    Some(e)
}

/// A byte that stands for itself.
fn byte(text: &mut String, b: u8) {
    // writing to a String cannot fail
    let _ = match b {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => write!(text, "{}", b as char),
        _ => write!(text, "\\x{b:02x}"),
    };
}

/// Places of an expression, its repetitions written out.
fn places(h: &Hir) -> u64 {
    match h.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(l) => l.0.len() as u64,
        HirKind::Class(_) => 1,
        HirKind::Repetition(r) => {
            let times = r.max.unwrap_or(r.min.saturating_add(1)).max(1);
            places(&r.sub).saturating_mul(u64::from(times))
        }
        HirKind::Capture(c) => places(&c.sub),
        HirKind::Concat(all) | HirKind::Alternation(all) => {
            all.iter().map(places).fold(0, u64::saturating_add)
        }
    }
}

/// Writes a tree; `None` if something in it has no equal. Depth: the parser's limit of nesting.
fn write_hir(text: &mut String, h: &Hir) -> Option<()> {
    match h.kind() {
        HirKind::Empty => text.push_str("(?:)"),
        HirKind::Literal(l) => l.0.iter().for_each(|b| byte(text, *b)),
        HirKind::Class(c) => class(text, c)?,
        HirKind::Look(l) => text.push_str(match l {
            hir::Look::Start => "\\A",
            hir::Look::End => "\\z",
            hir::Look::WordAscii => "\\b",
            hir::Look::WordAsciiNegate => "\\B",
            // `^` and `$` of lines differ at the end of the data; the others do not exist there
            _ => return None,
        }),
        HirKind::Repetition(r) => {
            text.push_str("(?:");
            write_hir(text, &r.sub)?;
            let _ = match (r.min, r.max) {
                (0, None) => write!(text, ")*"),
                (1, None) => write!(text, ")+"),
                (0, Some(1)) => write!(text, ")?"),
                (min, None) => write!(text, "){{{min},}}"),
                (min, Some(max)) => write!(text, "){{{min},{max}}}"),
            };
        }
        HirKind::Capture(c) => write_hir(text, &c.sub)?,
        HirKind::Concat(all) => {
            for h in all {
                write_hir(text, h)?;
            }
        }
        HirKind::Alternation(all) => {
            text.push_str("(?:");
            for (i, h) in all.iter().enumerate() {
                if i > 0 {
                    text.push('|');
                }
                write_hir(text, h)?;
            }
            text.push(')');
        }
    }
    Some(())
}

/// A set of bytes; none of characters beyond ASCII, and not the empty one.
fn class(text: &mut String, c: &Class) -> Option<()> {
    let bytes = match c {
        Class::Bytes(b) => b.clone(),
        Class::Unicode(u) => u.to_byte_class()?,
    };
    if bytes.ranges().is_empty() {
        return None;
    }
    text.push('[');
    for r in bytes.ranges() {
        let _ = write!(text, "\\x{:02x}-\\x{:02x}", r.start(), r.end());
    }
    text.push(']');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_again() {
        let text = |p: Pattern| expression(0, &p).map(|e| e.text().to_string());
        let regex = |s: &str| text(Pattern::regex(s));
        assert_eq!(
            text(Pattern::literal(&b"a.\0"[..])).as_deref(),
            Some("a\\x2e\\x00")
        );
        assert_eq!(
            regex("^GET [^ ]{1,3}$").as_deref(),
            Some("\\AGET\\x20(?:[\\x00-\\x1f\\x21-\\xff]){1,3}\\z")
        );
        assert_eq!(regex("ab|c?d").as_deref(), Some("(?:ab|(?:c)?d)"));
        // may be empty; lines; too many places; words of Unicode
        for s in ["a*", "(?m)^a", "(a{90}){90}", "(?u:\\b)a"] {
            assert_eq!(regex(s), None, "{s}");
        }
        let never = Pattern {
            depth: Some(1),
            ..Pattern::literal(&b"ab"[..])
        };
        assert_eq!(text(never), None);
        assert_eq!(text(Pattern::literal(vec![0; 4096])), None);
    }
}
