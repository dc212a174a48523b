//! Splits program text into tokens.

use super::parse::ParseError;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters, digits, `_`, `.`, `:`, `@` (and a minus sign behind `@`).
    Word,
    /// A string; the text is what stands between the quotation marks, escapes not yet replaced.
    Str,
    /// `=>`, `!=`, `>=`, `<=`, or one character.
    Punct,
}

/// A token with its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token<'a> {
    /// What.
    pub kind: Kind,
    /// Its text.
    pub text: &'a str,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// Nothing but blanks before it on its line.
    pub first: bool,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '@')
}

/// All tokens; `;` begins a comment. Characters that begin no token are errors, and left out.
pub(super) fn tokens<'a>(text: &'a str, errors: &mut Vec<ParseError>) -> Vec<Token<'a>> {
    let mut out = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let number = u32::try_from(i).unwrap_or(u32::MAX).saturating_add(1);
        let mut first = true;
        let mut chars = line.char_indices().peekable();
        let mut column = 0u32;
        while let Some((start, c)) = chars.next() {
            column = column.saturating_add(1);
            let at = column;
            if c.is_whitespace() {
                continue;
            }
            if c == ';' {
                break;
            }
            let mut end = start + c.len_utf8();
            let kind = if is_word(c) {
                let mut last = c;
                while let Some((i, n)) = chars.peek().copied() {
                    let more = is_word(n) || (n == '-' && last == '@');
                    if !more {
                        break;
                    }
                    last = n;
                    end = i + n.len_utf8();
                    column = column.saturating_add(1);
                    chars.next();
                }
                Kind::Word
            } else if c == '"' {
                let mut closed = false;
                let mut escaped = false;
                for (i, n) in chars.by_ref() {
                    column = column.saturating_add(1);
                    end = i;
                    if escaped {
                        escaped = false;
                    } else if n == '\\' {
                        escaped = true;
                    } else if n == '"' {
                        closed = true;
                        break;
                    }
                }
                if !closed {
                    errors.push(ParseError::new(
                        number,
                        at,
                        "this string has no end on its line",
                    ));
                    break;
                }
                Kind::Str
            } else if "{}[](),=!<>-+/".contains(c) {
                let two = matches!(
                    (c, chars.peek()),
                    ('=', Some((_, '>'))) | ('!' | '<' | '>', Some((_, '=')))
                );
                if two {
                    end += 1;
                    column = column.saturating_add(1);
                    chars.next();
                }
                Kind::Punct
            } else {
                errors.push(ParseError::new(
                    number,
                    at,
                    format!("'{}' means nothing here", c.escape_default()),
                ));
                continue;
            };
            let begin = if kind == Kind::Str { start + 1 } else { start };
            out.push(Token {
                kind,
                text: line.get(begin..end).unwrap_or(""),
                line: number,
                column: at,
                first,
            });
            first = false;
        }
    }
    out
}

/// Replaces the escapes of a string.
pub(super) fn unescape(s: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(s.len());
    let mut chars = s.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some(c @ ('"' | '\\')) => out.push(c),
            Some('u') => {
                let rest = chars.as_str();
                let (digits, behind) = rest
                    .strip_prefix('{')
                    .and_then(|r| r.split_once('}'))
                    .ok_or("expected '{' and hexadecimal digits behind '\\u'")?;
                let c = u32::from_str_radix(digits, 16)
                    .ok()
                    .and_then(char::from_u32)
                    .ok_or("'\\u{...}' is no character")?;
                out.push(c);
                chars = behind.chars();
            }
            _ => return Err("unknown escape: there are \\\", \\\\, \\n and \\u{...}"),
        }
    }
    Ok(out)
}
