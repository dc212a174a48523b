//! Substitution of `$variables`, `${...}` and `$(handler calls)` in script text.

/// Deepest nesting of substitutions inside substitutions.
const MAX_DEPTH: u32 = 10;
/// Longest text that substitution may make; more is cut.
pub(super) const MAX_TEXT: usize = 1 << 20;

/// What a reference stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reference {
    /// `$name` or `${name}`.
    Variable,
    /// `$(handler params)`.
    Call,
}

/// The end of a `$(...)`, from behind the opening parenthesis: index behind the closing one.
fn call_end(b: &[u8], start: usize) -> Option<usize> {
    let (mut level, mut quote, mut i) = (1u32, 0u8, start);
    while i < b.len() {
        match b[i] {
            b'(' if quote == 0 => level += 1,
            b')' if quote == 0 => {
                level -= 1;
                if level == 0 {
                    return Some(i + 1);
                }
            }
            c @ (b'"' | b'\'') if quote == 0 => quote = c,
            c @ (b'"' | b'\'') if quote == c => quote = 0,
            b'\\' if quote != b'\'' => i += 1,
            _ => {}
        }
        i += 1;
    }
    None
}

/// Quotes a text so that it is one word again (Click's `cp_quote`): as it is when it needs no quotes.
pub(super) fn quote(text: &str) -> String {
    if text.is_empty() {
        return "\"\"".into();
    }
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | ',' | '\\' | '/' | '$');
    if text.chars().all(plain) {
        return text.to_string();
    }
    format!("\"{}\"", escaped(text))
}

/// The inside of a double-quoted string.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    for c in text.chars() {
        match c {
            '\\' | '"' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c.is_ascii_control() => out.push_str(&format!("\\{:03o}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// Substitutes in `text`. `value` gives what a reference stands for; `None` leaves it as it is. Single quotes protect;
/// inside double quotes (and everywhere with `always_quote`) values are quoted so that they stay one word.
pub(super) fn expand(
    text: &str,
    always_quote: bool,
    depth: u32,
    value: &mut dyn FnMut(&str, Reference) -> Option<String>,
) -> String {
    if !text.contains('$') {
        return text.to_string();
    }
    let b = text.as_bytes();
    let mut out = String::new();
    let mut copied = 0; // text up to here is in `out`
    let mut quote_char = 0u8;
    let mut i = 0;
    while i < b.len() && out.len() < MAX_TEXT {
        match b[i] {
            b'\\' if quote_char == b'"' => i += 1,
            c @ (b'"' | b'\'') if quote_char == 0 => quote_char = c,
            c if c == quote_char && c != 0 => quote_char = 0,
            b'$' if quote_char != b'\'' && depth <= MAX_DEPTH => {
                let next = b.get(i + 1).copied().unwrap_or(0);
                let name_len = b[i + 1..]
                    .iter()
                    .take_while(|c| c.is_ascii_alphanumeric() || **c == b'_')
                    .count();
                let (name, end, kind) = match next {
                    b'{' => match text[i + 2..].find('}') {
                        Some(n) => (&text[i + 2..i + 2 + n], i + n + 3, Reference::Variable),
                        None => break,
                    },
                    b'(' => match call_end(b, i + 2) {
                        Some(e) => (&text[i + 2..e - 1], e, Reference::Call),
                        None => break,
                    },
                    b'?' | b'#' | b'$' => (&text[i + 1..i + 2], i + 2, Reference::Variable),
                    _ if name_len > 0 => (
                        &text[i + 1..i + 1 + name_len],
                        i + 1 + name_len,
                        Reference::Variable,
                    ),
                    _ => {
                        i += 1;
                        continue;
                    }
                };
                out.push_str(&text[copied..i]);
                copied = i;
                let nested = matches!(next, b'{' | b'(') && name.contains('$');
                let inner = match nested {
                    true => expand(name, false, depth + 1, value),
                    false => name.to_string(),
                };
                match value(&inner, kind) {
                    Some(v) => {
                        if quote_char == b'"' {
                            let q = quote(&v);
                            match q.strip_prefix('"') {
                                Some(r) => out.push_str(r.strip_suffix('"').unwrap_or(r)),
                                None => out.push_str(&q),
                            }
                        } else if always_quote {
                            let q = quote(&v);
                            match q.starts_with('"') {
                                true => out.push_str(&q),
                                false => out.push_str(&format!("\"{q}\"")),
                            }
                        } else {
                            out.push_str(&v);
                        }
                        copied = end;
                    }
                    None if nested => {
                        out.push_str(&text[i..i + 2]);
                        out.push_str(&inner);
                        out.push_str(&text[end - 1..end]);
                        copied = end;
                    }
                    None => {}
                }
                i = end;
                continue;
            }
            _ => {}
        }
        i += 1;
    }
    out.push_str(&text[copied..]);
    if out.len() > MAX_TEXT {
        let mut end = MAX_TEXT;
        while !out.is_char_boundary(end) {
            end -= 1;
        }
        out.truncate(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, always: bool) -> String {
        expand(text, always, 0, &mut |name, kind| match (name, kind) {
            ("x", Reference::Variable) => Some("a b".into()),
            ("n", Reference::Variable) => Some("add".into()),
            ("add 1 2", Reference::Call) => Some("3".into()),
            ("#", Reference::Variable) => Some("0".into()),
            _ => None,
        })
    }

    #[test]
    fn substitutes_where_quotes_allow() {
        assert_eq!(run("1 $x 2", false), "1 a b 2");
        assert_eq!(run("'$x' \"$x\" ${x}y", false), "'$x' \"a b\" a by");
        assert_eq!(run("$x", true), "\"a b\"");
        assert_eq!(run("$($n 1 2)$#", false), "30");
        assert_eq!(
            run("$nope $(nope $x) \"\\$x\"", false),
            "$nope $(nope a b) \"\\$x\""
        );
        assert_eq!(run("cost $ 5 $(unclosed", false), "cost $ 5 $(unclosed");
    }

    #[test]
    fn quotes_only_where_needed() {
        assert_eq!(quote("abc"), "abc");
        assert_eq!(quote(""), "\"\"");
        assert_eq!(quote("a\"b"), "\"a\\\"b\"");
    }
}
