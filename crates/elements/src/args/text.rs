//! Click's configuration strings: splitting at commas and spaces, comments, quotes.

/// Splits a configuration string at its top-level commas. Quotes, parentheses, brackets, braces and comments protect commas
/// ([Click's `cp_argvec`]: only quotes and comments do). Each argument is trimmed and freed of comments. An empty
/// configuration has no arguments; a trailing empty argument is dropped, as Click does.
///
/// [Click's `cp_argvec`]: https://github.com/kohler/click/blob/master/lib/confparse.cc
pub fn split_args(config: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut cur = String::new();
    let mut it = config.char_indices().peekable();
    let mut quote: Option<char> = None;
    while let Some((i, c)) = it.next() {
        match (quote, c) {
            (Some(q), c) if c == q => {
                quote = None;
                cur.push(c);
            }
            (Some('"'), '\\') => {
                cur.push(c);
                if let Some((_, d)) = it.next() {
                    cur.push(d);
                }
            }
            (Some(_), _) => cur.push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                cur.push(c);
            }
            (None, '\\') if config[i..].starts_with("\\<") => {
                // hexadecimal data up to '>'
                let end = config[i..].find('>').map_or(config.len(), |e| i + e + 1);
                cur.push_str(&config[i..end]);
                while it.peek().is_some_and(|(j, _)| *j < end) {
                    it.next();
                }
            }
            (None, '/') if config[i..].starts_with("//") => {
                let end = config[i..].find('\n').map_or(config.len(), |e| i + e);
                while it.peek().is_some_and(|(j, _)| *j < end) {
                    it.next();
                }
                cur.push(' ');
            }
            (None, '/') if config[i..].starts_with("/*") => {
                let end = config[i + 2..]
                    .find("*/")
                    .map_or(config.len(), |e| i + e + 4);
                while it.peek().is_some_and(|(j, _)| *j < end) {
                    it.next();
                }
                cur.push(' ');
            }
            (None, ',') => {
                out.push(cur.trim().to_string());
                cur.clear();
            }
            (None, _) => cur.push(c),
        }
    }
    let last = cur.trim();
    if !last.is_empty() {
        out.push(last.to_string());
    }
    out
}

/// Splits at unquoted white space (Click's `cp_spacevec`); quotes stay in the words.
pub fn split_words(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let b = text.as_bytes();
    let mut start = None;
    let mut quote: Option<u8> = None;
    let mut i = 0;
    while i < b.len() {
        let c = b[i];
        match quote {
            Some(q) => {
                if c == q {
                    quote = None;
                } else if c == b'\\' && q == b'"' {
                    i += 1;
                }
            }
            None if c.is_ascii_whitespace() => {
                if let Some(s) = start.take() {
                    out.push(&text[s..i]);
                }
            }
            None => {
                start.get_or_insert(i);
                if c == b'"' || c == b'\'' {
                    quote = Some(c);
                } else if c == b'\\' && b.get(i + 1) == Some(&b'<') {
                    while i < b.len() && b[i] != b'>' {
                        i += 1;
                    }
                }
            }
        }
        i += 1;
    }
    if let Some(s) = start {
        out.push(&text[s..]);
    }
    out
}

/// Removes quotes and resolves escapes (Click's `cp_unquote`): inside double quotes `\n`, `\t`, `\xHH`, octal ...; `\<HEX>`
/// inside double quotes and outside quotes; single quotes protect everything.
pub fn unquote(text: &str) -> Vec<u8> {
    let b = text.as_bytes();
    let mut out = Vec::with_capacity(b.len());
    let mut quote: Option<u8> = None;
    let mut i = 0;
    while i < b.len() {
        let c = b[i];
        match quote {
            None if c == b'"' || c == b'\'' => quote = Some(c),
            Some(q) if c == q => quote = None,
            Some(b'"') if c == b'\\' && i + 1 < b.len() => {
                i = escape(b, i + 1, &mut out);
                continue;
            }
            None if c == b'\\' && b.get(i + 1) == Some(&b'<') => {
                i = escape(b, i + 1, &mut out);
                continue;
            }
            _ => out.push(c),
        }
        i += 1;
    }
    out
}

/// One escape whose letter stands at `i`; returns the index behind it.
fn escape(b: &[u8], i: usize, out: &mut Vec<u8>) -> usize {
    match b[i] {
        b'a' => out.push(7),
        b'b' => out.push(8),
        b't' => out.push(9),
        b'n' => out.push(10),
        b'v' => out.push(11),
        b'f' => out.push(12),
        b'r' => out.push(13),
        b'\n' => {}
        b'\r' => {
            return if b.get(i + 1) == Some(&b'\n') {
                i + 2
            } else {
                i + 1
            };
        }
        b'0'..=b'7' => {
            let mut v = 0u32;
            let mut j = i;
            while j < b.len() && j < i + 3 && (b'0'..=b'7').contains(&b[j]) {
                v = v * 8 + u32::from(b[j] - b'0');
                j += 1;
            }
            out.push(v as u8);
            return j;
        }
        b'x' => {
            let mut v = 0u8;
            let mut j = i + 1;
            while let Some(h) = b.get(j).and_then(|c| (*c as char).to_digit(16)) {
                v = v.wrapping_mul(16).wrapping_add(h as u8);
                j += 1;
            }
            out.push(v);
            return j;
        }
        b'<' => {
            let mut half: Option<u8> = None;
            let mut j = i + 1;
            while j < b.len() && b[j] != b'>' {
                if let Some(h) = (b[j] as char).to_digit(16) {
                    let h = h as u8;
                    half = match half {
                        None => Some(h),
                        Some(v) => {
                            out.push(v << 4 | h);
                            None
                        }
                    };
                } else if b[j..].starts_with(b"//") {
                    while j < b.len() && b[j] != b'\n' {
                        j += 1;
                    }
                } else if b[j..].starts_with(b"/*") {
                    while j < b.len() && !b[j..].starts_with(b"*/") {
                        j += 1;
                    }
                    j += 1;
                }
                j += 1;
            }
            return j + 1;
        }
        c => out.push(c),
    }
    i + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas() {
        assert_eq!(
            split_args("a, \"b,c\" , 'd,e' // f,g\n, /* h, */ i"),
            ["a", "\"b,c\"", "'d,e'", "i"]
        );
        assert_eq!(split_args(""), Vec::<String>::new());
        assert_eq!(split_args("a,,b,"), ["a", "", "b"]);
        assert_eq!(split_args("\\<00, 01>, x"), ["\\<00, 01>", "x"]);
    }

    #[test]
    fn words_and_quotes() {
        assert_eq!(
            split_words(" a  \"b c\"d 'e f' "),
            ["a", "\"b c\"d", "'e f'"]
        );
        assert_eq!(unquote(r#""a\tb\x41\101"c'\n'"#), b"a\tbAAc\\n");
        assert_eq!(unquote(r"\<00 ff /* x */ 1 2>z"), b"\x00\xff\x12z");
        assert_eq!(unquote("\"\\<0a\">"), b"\n");
        for s in ["\"\\", "\\<", "\"\\x", "'", "\\", "\"\\<0"] {
            let _ = (unquote(s), split_words(s), split_args(s));
        }
    }
}
