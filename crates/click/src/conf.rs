//! Configuration strings: the text between the parentheses of an element.
//!
//! They are split at commas into arguments ([`split_args`]) and at spaces into words ([`split_spaces`]), and
//! quoted in three ways: `"..."` with backslash escapes, `'...'` without, and `\<48 65 6c>` for bytes in hexadecimal.
//! `//` and `/* */` comments count as a space outside quotes.
//!
//! Configuration strings are text; what [`unquote`] makes of them is bytes, since escapes write any byte.
//!
//! ```
//! use onefold_click::conf::{split_args, unquote};
//! let args = split_args(r#"10, "a, b" /* two */, DATA \<00 ff>"#);
//! let texts: Vec<&str> = args.iter().map(|a| a.text.as_str()).collect();
//! assert_eq!(texts, ["10", "\"a, b\"", r"DATA \<00 ff>"]);
//! assert_eq!(unquote(&texts[1]), b"a, b");
//! ```

use std::ops::Range;

/// One argument of a configuration string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    /// The argument without surrounding space, each comment (with the space around it) replaced by one space.
    pub text: String,
    /// Where it is in the configuration string, surrounding space and comments left out.
    pub range: Range<usize>,
}

/// Space as C's `isspace` has it.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn at(b: &[u8], i: usize) -> u8 {
    b.get(i).copied().unwrap_or(0)
}

fn comment_starts(b: &[u8], s: usize) -> bool {
    at(b, s) == b'/' && s + 1 < b.len() && matches!(at(b, s + 1), b'/' | b'*')
}

/// The offset after the comment that starts at `s`.
fn skip_comment(b: &[u8], s: usize) -> usize {
    let end = b.len();
    let mut i = s + 2;
    if at(b, s + 1) == b'/' {
        while i + 1 < end && !matches!(at(b, i), b'\n' | b'\r') {
            i += 1;
        }
        if i + 1 < end && at(b, i) == b'\r' && at(b, i + 1) == b'\n' {
            i += 1;
        }
        (i + 1).min(end)
    } else {
        while i + 2 < end && !(at(b, i) == b'*' && at(b, i + 1) == b'/') {
            i += 1;
        }
        (i + 2).min(end)
    }
}

/// The offset after the backslash escape that starts at `s`.
fn skip_backslash(b: &[u8], s: usize) -> usize {
    let end = b.len();
    if s + 1 >= end {
        end
    } else if at(b, s + 1) == b'<' {
        let mut i = s + 2;
        while i < end {
            if at(b, i) == b'>' {
                return i + 1;
            }
            i = if comment_starts(b, i) {
                skip_comment(b, i)
            } else {
                i + 1
            };
        }
        end
    } else if at(b, s + 1) == b'\r' && at(b, s + 2) == b'\n' {
        s + 3
    } else {
        s + 2
    }
}

fn skip_double_quote(b: &[u8], s: usize) -> usize {
    let mut i = s + 1;
    while i < b.len() {
        match at(b, i) {
            b'\\' => i = skip_backslash(b, i),
            b'"' => return i + 1,
            _ => i += 1,
        }
    }
    b.len()
}

fn skip_single_quote(b: &[u8], s: usize) -> usize {
    b.iter()
        .skip(s + 1)
        .position(|&c| c == b'\'')
        .map_or(b.len(), |n| s + n + 2)
}

/// The offset of the first byte from `s` on that is neither space nor part of a comment.
pub(crate) fn skip_comment_space(b: &[u8], mut s: usize) -> usize {
    while s < b.len() {
        if is_space(at(b, s)) {
            s += 1;
        } else if comment_starts(b, s) {
            s = skip_comment(b, s);
        } else {
            break;
        }
    }
    s
}

/// The offset after the quoted or plain item that starts at `s`: one byte, unless it opens a quote.
fn skip_item(b: &[u8], s: usize) -> usize {
    match at(b, s) {
        b'\'' => skip_single_quote(b, s),
        b'"' => skip_double_quote(b, s),
        b'\\' if at(b, s + 1) == b'<' => skip_backslash(b, s),
        _ => s + 1,
    }
}

/// The parts of `b` from `from` on that are left when comments are removed, to be joined by one space each, and
/// the offset where it stopped: at a comma if `commas`, else at the end.
pub(crate) fn uncommented_parts(b: &[u8], from: usize, commas: bool) -> (Vec<Range<usize>>, usize) {
    let mut s = skip_comment_space(b, from);
    let mut parts = Vec::new();
    let (mut left, mut right, mut closed) = (s, s, false);
    while s < b.len() {
        if is_space(at(b, s)) {
            s += 1;
        } else if comment_starts(b, s) {
            s = skip_comment(b, s);
            closed = true;
        } else if commas && at(b, s) == b',' {
            break;
        } else {
            if closed {
                parts.push(left..right);
                left = s;
                closed = false;
            }
            s = skip_item(b, s);
            right = s;
        }
    }
    if left < right || !parts.is_empty() {
        parts.push(left..right);
    }
    (parts, s)
}

fn join(text: &str, parts: &[Range<usize>]) -> String {
    let parts: Vec<&str> = parts.iter().filter_map(|r| text.get(r.clone())).collect();
    parts.join(" ")
}

/// The parts of every argument: `split_args` for those who keep track of where text came from.
pub(crate) fn arg_parts(text: &str) -> Vec<Vec<Range<usize>>> {
    let b = text.as_bytes();
    let mut out = Vec::new();
    let mut pos = 0;
    while pos < b.len() {
        let (parts, stop) = uncommented_parts(b, pos, true);
        if !parts.is_empty() || stop < b.len() {
            // An empty argument has an empty part, so that it has a place.
            let empty = std::iter::once(stop..stop).filter(|_| parts.is_empty());
            out.push(empty.chain(parts.iter().cloned()).collect());
        }
        pos = stop + 1;
    }
    out
}

/// Splits a configuration string into arguments at commas that are not quoted. An empty last argument is left
/// out; the others are kept.
pub fn split_args(text: &str) -> Vec<Arg> {
    let make = |parts: Vec<Range<usize>>| Arg {
        text: join(text, &parts),
        range: parts.first().map_or(0, |r| r.start)..parts.last().map_or(0, |r| r.end),
    };
    arg_parts(text).into_iter().map(make).collect()
}

/// Removes space at both ends and replaces every comment (and the space around it) by one space.
pub fn uncomment(text: &str) -> String {
    join(text, &uncommented_parts(text.as_bytes(), 0, false).0)
}

/// The offset after the word that starts at `s`.
fn skip_word(b: &[u8], mut s: usize) -> usize {
    while s < b.len() && !is_space(at(b, s)) && !comment_starts(b, s) {
        s = skip_item(b, s);
    }
    s
}

/// The places of the words of `text`.
pub(crate) fn word_ranges(text: &str) -> Vec<Range<usize>> {
    let b = text.as_bytes();
    let mut out = Vec::new();
    let mut s = skip_comment_space(b, 0);
    while s < b.len() {
        let end = skip_word(b, s);
        out.push(s..end);
        s = skip_comment_space(b, end);
    }
    out
}

/// Splits text into words at space and comments that are not quoted. Quotes are kept; see [`unquote`].
pub fn split_spaces(text: &str) -> Vec<&str> {
    word_ranges(text)
        .into_iter()
        .filter_map(|r| text.get(r))
        .collect()
}

/// Splits off the first word: the places of the word and of the rest, space between them left out.
pub(crate) fn shift_word_ranges(text: &str) -> (Range<usize>, Range<usize>) {
    let b = text.as_bytes();
    let start = skip_comment_space(b, 0);
    let end = skip_word(b, start);
    (start..end, skip_comment_space(b, end)..b.len())
}

/// Splits off the first word: the word and the rest, space between them left out.
pub fn shift_word(text: &str) -> (&str, &str) {
    let (word, rest) = shift_word_ranges(text);
    (text.get(word).unwrap_or(""), text.get(rest).unwrap_or(""))
}

/// Splits `KEYWORD value` into its two halves; `None` if the text does not start with a keyword, which consists
/// of letters, digits and `_.:?!` and ends at space or at the end of the text.
pub fn split_keyword(text: &str) -> Option<(&str, &str)> {
    let (keyword, value) = keyword_ranges(text)?;
    Some((text.get(keyword)?, text.get(value)?))
}

pub(crate) fn keyword_ranges(text: &str) -> Option<(Range<usize>, Range<usize>)> {
    let b = text.as_bytes();
    let end = b.iter().position(|&c| is_space(c)).unwrap_or(b.len());
    let word = b.get(..end)?;
    let ok = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b':' | b'?' | b'!');
    if word.is_empty() || !word.iter().all(ok) {
        return None;
    }
    let value = b
        .iter()
        .skip(end)
        .position(|&c| !is_space(c))
        .map_or(b.len(), |n| end + n);
    Some((0..end, value..b.len()))
}

/// Appends what the backslash escape at `s` stands for; returns the offset after it.
fn backslash(b: &[u8], s: usize, out: &mut Vec<u8>) -> usize {
    let end = b.len();
    if s + 1 >= end {
        out.push(b'\\');
        return end;
    }
    let hex = |c: u8| (c as char).to_digit(16);
    match at(b, s + 1) {
        b'\r' => return if at(b, s + 2) == b'\n' { s + 3 } else { s + 2 },
        b'\n' => {}
        b'a' => out.push(7),
        b'b' => out.push(8),
        b'f' => out.push(12),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'v' => out.push(11),
        b'0'..=b'7' => {
            let (mut i, mut c) = (s + 1, 0u32);
            while i < end && i < s + 4 && (b'0'..=b'7').contains(&at(b, i)) {
                c = c * 8 + u32::from(at(b, i) - b'0');
                i += 1;
            }
            out.push(c as u8);
            return i;
        }
        b'x' => {
            let (mut i, mut c) = (s + 2, 0u32);
            while i < end
                && let Some(d) = hex(at(b, i))
            {
                c = c.wrapping_mul(16).wrapping_add(d);
                i += 1;
            }
            out.push(c as u8);
            return i;
        }
        b'<' => {
            let (mut i, mut c, mut digits) = (s + 2, 0u32, 0);
            while i < end {
                if at(b, i) == b'>' {
                    return i + 1;
                } else if let Some(d) = hex(at(b, i)) {
                    c = c * 16 + d;
                    digits += 1;
                    if digits == 2 {
                        out.push(c as u8);
                        (c, digits) = (0, 0);
                    }
                } else if comment_starts(b, i) {
                    i = skip_comment(b, i);
                    continue;
                }
                i += 1;
            }
            return end;
        }
        other => out.push(other),
    }
    s + 2
}

/// Removes one level of quoting (and comments, and space at both ends): `"..."` with its escapes, `'...'`, and
/// `\<...>` outside quotes.
pub fn unquote(text: &str) -> Vec<u8> {
    let text = uncomment(text);
    let b = text.as_bytes();
    let mut out = Vec::with_capacity(b.len());
    let mut quote = 0;
    let mut s = 0;
    while s < b.len() {
        let c = at(b, s);
        match c {
            b'"' | b'\'' if quote == 0 => quote = c,
            b'"' | b'\'' if quote == c => quote = 0,
            b'\\' if s + 1 < b.len() && (quote == b'"' || (quote == 0 && at(b, s + 1) == b'<')) => {
                s = backslash(b, s, &mut out);
                continue;
            }
            _ => out.push(c),
        }
        s += 1;
    }
    out
}

/// A double-quoted string that [`unquote`] turns back into `bytes`. It is ASCII on one line.
pub fn quote(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for &c in bytes {
        match c {
            b'\\' | b'"' | b'$' => {
                out.push('\\');
                out.push(c as char);
            }
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\n' => out.push_str("\\n"),
            32..=126 => out.push(c as char),
            _ => out.push_str(&format!("\\{c:03o}")),
        }
    }
    out.push('"');
    out
}

/// Parses text that is one string, quoted or not: no unquoted space in it, not empty. What it stands for.
pub fn parse_string(text: &str) -> Option<Vec<u8>> {
    let b = text.as_bytes();
    let mut s = 0;
    while s < b.len() && !is_space(at(b, s)) {
        s = skip_item(b, s);
    }
    (s > 0 && s >= b.len()).then(|| unquote(text))
}

/// Parses text that is one word: a string of visible ASCII without quotes, backslashes and commas.
pub fn parse_word(text: &str) -> Option<String> {
    let word = parse_string(text)?;
    let ok = |&c: &u8| c > 32 && c < 127 && !matches!(c, b'"' | b'\'' | b'\\' | b',');
    (!word.is_empty() && word.iter().all(ok)).then(|| word.iter().map(|&c| c as char).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(conf: &str) -> Vec<String> {
        split_args(conf).into_iter().map(|a| a.text).collect()
    }

    #[test]
    fn arguments_are_split_at_unquoted_commas() {
        assert_eq!(texts("a, b, c"), ["a", "b", "c"]);
        assert_eq!(texts("  a /*?*/ b,  c, "), ["a b", "c"]);
        assert_eq!(texts("\"x, y\" // ?"), ["\"x, y\""]);
        assert_eq!(texts("'x, y', \\<2c 2c>"), ["'x, y'", "\\<2c 2c>"]);
        assert_eq!(texts("a,,b"), ["a", "", "b"]);
        assert_eq!(texts(","), [""]);
        assert_eq!(texts(", ,"), ["", ""]);
        assert!(texts("").is_empty() && texts(" /* x */ ").is_empty());
        // Parentheses and braces do not protect commas.
        assert_eq!(texts("f(a, b)"), ["f(a", "b)"]);
    }

    #[test]
    fn arguments_know_where_they_are() {
        let conf = " one , /* c */ two /* d */ words ,three";
        let args = split_args(conf);
        assert_eq!(&conf[args[0].range.clone()], "one");
        assert_eq!(&conf[args[1].range.clone()], "two /* d */ words");
        assert_eq!(args[1].text, "two words");
        assert_eq!(&conf[args[2].range.clone()], "three");
    }

    #[test]
    fn escapes_in_double_quotes() {
        assert_eq!(
            unquote(r#""\a\b\f\n\r\t\v\\\"\$\,\q""#),
            b"\x07\x08\x0c\n\r\t\x0b\\\"$,q"
        );
        assert_eq!(unquote(r#""\1\12\1234\x41\x141g""#), b"\x01\x0a\x534AAg");
        assert_eq!(unquote("\"a\\\nb\\\r\nc\""), b"abc");
        assert_eq!(unquote(r#""\<48656c6C 6f 2 /* end */ 1>""#), b"Hello!");
    }

    #[test]
    fn quotes_join_what_is_between_them() {
        assert_eq!(
            unquote(r#""\n" abc /* 123 */ '/* def */'"#),
            b"\n abc /* def */"
        );
        assert_eq!(unquote(r#"a'b"c'd"e'f""#), b"ab\"cde'f");
        assert_eq!(unquote(r"\n \<0a> '\n'"), b"\\n \x0a \\n");
        assert_eq!(unquote("  spaced   out  "), b"spaced   out");
    }

    #[test]
    fn words_are_split_at_unquoted_space() {
        assert_eq!(split_spaces("a  b, c"), ["a", "b,", "c"]);
        assert_eq!(
            split_spaces("  'a /*?*/ b'c x/* y */z"),
            ["'a /*?*/ b'c", "x", "z"]
        );
        assert_eq!(
            split_spaces("\\<00 11> \"two words\""),
            ["\\<00 11>", "\"two words\""]
        );
        assert_eq!(shift_word(" DATA  x y "), ("DATA", "x y "));
        assert_eq!(shift_word(""), ("", ""));
    }

    #[test]
    fn keywords_are_split_off() {
        assert_eq!(split_keyword("LIMIT  10 "), Some(("LIMIT", "10 ")));
        assert_eq!(split_keyword("STOP"), Some(("STOP", "")));
        assert_eq!(split_keyword("10.0.0.1 x"), Some(("10.0.0.1", "x")));
        assert_eq!(split_keyword("\"LIMIT\" 10"), None);
        assert_eq!(split_keyword(" LIMIT 10"), None);
    }

    #[test]
    fn strings_and_words() {
        assert_eq!(parse_string("\"a b\"").as_deref(), Some(&b"a b"[..]));
        assert_eq!(parse_string("a b"), None);
        assert_eq!(parse_string(""), None);
        assert_eq!(parse_word("'abc'").as_deref(), Some("abc"));
        assert_eq!(parse_word("\"a b\""), None);
    }

    #[test]
    fn unfinished_quotes_and_comments_end_with_the_text() {
        for text in [
            "\"abc",
            "'abc",
            "\\<00",
            "/*",
            "/* x",
            "/*/",
            "//",
            "\"\\",
            "\\",
            "\"\\<00 /*",
            "a/",
            "\\<//",
        ] {
            let _ = (
                split_args(text),
                split_spaces(text),
                unquote(text),
                uncomment(text),
                parse_string(text),
            );
        }
        assert_eq!(unquote("\"abc"), b"abc");
        assert_eq!(texts("'a, b"), ["'a, b"]);
    }

    proptest! {
        #[test]
        fn quoting_is_undone_by_unquoting(bytes: Vec<u8>) {
            let quoted = quote(&bytes);
            prop_assert!(quoted.is_ascii() && !quoted.contains('\n'));
            prop_assert_eq!(unquote(&quoted), bytes.clone());
            prop_assert_eq!(split_args(&quoted).len(), 1);
            prop_assert_eq!(parse_string(&quoted), Some(bytes));
        }

        #[test]
        fn nothing_panics(text in r#"[ab ,/*"'\\<>\n\r0-9é]{0,40}"#) {
            for arg in split_args(&text) {
                prop_assert!(text.get(arg.range).is_some());
            }
            let _ = (split_spaces(&text), unquote(&text), split_keyword(&text), shift_word(&text));
        }
    }
}
