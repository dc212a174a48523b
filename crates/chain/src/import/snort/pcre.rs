//! `pcre:"/expression/flags"` as an expression of ours.
//!
//! The two languages share most of their syntax; where the same text means something else, it is translated, and where
//! there is no equal, refused: look-around, back-references, atomic groups and possessive quantifiers, and the flags
//! that name a buffer of an application protocol.

use onefold_elements::payload::filter::rule;

/// An expression, translated.
pub struct Pcre {
    /// Its text.
    pub text: String,
    /// It is matched against what lies behind the last match (`R`).
    pub relative: bool,
    /// It must not match.
    pub not: bool,
}

/// Reads the option's value.
pub fn parse(value: &str) -> Result<Pcre, String> {
    let value = value.trim();
    let (not, v) = match value.strip_prefix('!') {
        Some(r) => (true, r.trim_start()),
        None => (false, value),
    };
    let inner = v
        .strip_prefix('"')
        .and_then(|v| v.strip_suffix('"'))
        .ok_or("pcre: expected \"/expression/flags\"")?;
    let body = inner
        .strip_prefix('/')
        .ok_or("pcre: expected \"/expression/flags\"")?;
    let (expression, flags) = body
        .rsplit_once('/')
        .ok_or("pcre: expected \"/expression/flags\"")?;
    let mut inline = String::new();
    let (mut relative, mut anchored, mut dollar_end) = (false, false, false);
    for f in flags.chars() {
        match f {
            'i' | 's' | 'm' | 'x' => inline.push(f),
            // our letter for "quantifiers match as little as possible"
            'G' => inline.push('U'),
            'R' => relative = true,
            'A' => anchored = true,
            'E' => dollar_end = true,
            _ => return Err(format!("pcre flag '{f}'")),
        }
    }
    let multi = inline.contains('m');
    let extended = inline.contains('x');
    let mut text = String::new();
    if !inline.is_empty() {
        text.push_str(&format!("(?{inline})"));
    }
    if anchored {
        text.push_str("\\A(?:");
    }
    translate(expression, multi, dollar_end, extended, &mut text)?;
    if anchored {
        // an expression with comments may end in one
        text.push_str(if extended { "\n)" } else { ")" });
    }
    rule::compile(&text).map_err(|e| format!("pcre: {}", e.trim_start_matches("REGEX: ")))?;
    Ok(Pcre {
        text,
        relative,
        not,
    })
}

fn translate(
    e: &str,
    multi: bool,
    dollar_end: bool,
    extended: bool,
    out: &mut String,
) -> Result<(), String> {
    let mut it = e.chars().peekable();
    let mut class = false; // within [...]
    let mut first = false; // at the begin of one
    let mut quantified = false; // behind a quantifier
    while let Some(c) = it.next() {
        let was_quantified = std::mem::take(&mut quantified);
        let was_first = std::mem::take(&mut first);
        match c {
            '\\' => {
                let Some(n) = it.next() else {
                    return Err("pcre: '\\' at the end".into());
                };
                match n {
                    // the beginning and the end of a word in our language
                    '<' | '>' => out.push(n),
                    'h' => out.push_str(if class { "\\t " } else { "[\\t ]" }),
                    'e' => out.push_str("\\x1b"),
                    'b' if class => out.push_str("\\x08"),
                    'Z' if !class => out.push_str("\\n?\\z"),
                    'Q' | 'E' | 'R' | 'K' | 'G' | 'X' | 'C' | 'N' | 'H' | 'V' | 'k' | 'g' | 'p'
                    | 'P' => {
                        return Err(format!("pcre escape '\\{n}'"));
                    }
                    '0' => out.push_str("\\x00"),
                    '1'..='9' => return Err("pcre back-reference".into()),
                    c if c.is_ascii_alphanumeric() => {
                        out.push('\\');
                        out.push(c);
                    }
                    c if c.is_ascii() => {
                        out.push('\\');
                        out.push(c);
                    }
                    c => out.push(c),
                }
            }
            _ if class => match c {
                ']' if !was_first => {
                    class = false;
                    out.push(']');
                }
                ']' => out.push_str("\\]"),
                '^' if was_first => {
                    out.push('^');
                    first = true;
                    // only once
                    if it.peek() == Some(&'^') {
                        it.next();
                        out.push_str("\\^");
                        first = false;
                    }
                }
                '[' if it.peek() == Some(&':') => {
                    out.push('[');
                    // the name of a class, to its end
                    for n in it.by_ref() {
                        out.push(n);
                        if n == ']' {
                            break;
                        }
                    }
                }
                // sets within sets, and their operators, are ours alone
                '[' | '&' | '~' => {
                    out.push('\\');
                    out.push(c);
                }
                '-' if it.peek() == Some(&'-') => out.push_str("\\-"),
                // white space and # are themselves within a class there
                ' ' | '#' | '\t' if extended => {
                    out.push_str(&format!("\\x{:02x}", c as u32));
                }
                _ => out.push(c),
            },
            '[' => {
                class = true;
                first = true;
                out.push('[');
            }
            '$' if !multi => out.push_str(if dollar_end { "\\z" } else { "(?:\\n?\\z)" }),
            '+' if was_quantified => return Err("pcre possessive quantifier".into()),
            '*' | '+' | '?' => {
                quantified = true;
                out.push(c);
            }
            '{' => {
                // a quantifier, or a brace that stands for itself
                let rest: String = it.clone().take_while(|c| *c != '}').collect();
                let ends = it.clone().nth(rest.chars().count()) == Some('}');
                let mut parts = rest.splitn(2, ',');
                let number = |s: Option<&str>| {
                    s.is_some_and(|s| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()))
                };
                let low = number(parts.next());
                let high = parts.next();
                if ends && low && (high.is_none_or(str::is_empty) || number(high)) {
                    out.push('{');
                    for n in it.by_ref() {
                        out.push(n);
                        if n == '}' {
                            break;
                        }
                    }
                    quantified = true;
                } else {
                    out.push_str("\\{");
                }
            }
            '}' => out.push_str("\\}"),
            '(' if it.peek() == Some(&'?') => {
                let next: String = it.clone().skip(1).take(2).collect();
                let what = match next.chars().next() {
                    Some('=' | '!') => Some("look-ahead"),
                    Some('>') => Some("atomic group"),
                    Some('<') if next.ends_with(['=', '!']) => Some("look-behind"),
                    Some('(') => Some("conditional group"),
                    Some('#') => Some("comment"),
                    Some('R' | '&' | '0'..='9') => Some("recursion"),
                    Some('|') => Some("branch reset"),
                    _ => None,
                };
                if let Some(w) = what {
                    return Err(format!("pcre {w}"));
                }
                out.push('(');
            }
            '(' if it.peek() == Some(&'*') => return Err("pcre verb".into()),
            _ => out.push(c),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(value: &str, text: &[u8]) -> bool {
        let p = parse(value).unwrap_or_else(|e| panic!("{value}: {e}"));
        rule::compile(&p.text).unwrap().is_match(text) != p.not
    }

    #[test]
    fn what_differs_is_translated() {
        assert!(matches(r#""/a\/b/""#, b"xa/b"));
        assert!(matches(r#""/^GET\s/i""#, b"get x") && !matches(r#""/^GET\s/""#, b"get x"));
        assert!(matches(r#"!"/x/""#, b"y"));
        // the dollar also matches before a newline at the end
        assert!(matches(r#""/ab$/""#, b"ab\n") && !matches(r#""/ab$/E""#, b"ab\n"));
        assert!(!matches(r#""/ab$/""#, b"ab\nc") && matches(r#""/ab$/m""#, b"ab\nc"));
        assert!(matches(r#""/\<a\>/""#, b"<a>"));
        assert!(matches(r#""/[[a]x/""#, b"[x") && matches(r#""/[[a]x/""#, b"ax"));
        assert!(matches(r#""/[a&&b]x/""#, b"&x") && matches(r#""/[]a]x/""#, b"]x"));
        assert!(matches(r#""/[^]a]x/""#, b"bx") && !matches(r#""/[^]a]x/""#, b"]x"));
        assert!(matches(r#""/[[:digit:]]x/""#, b"1x") && matches(r#""/a{x/""#, b"a{x"));
        assert!(matches(r#""/a{2,}b{1}c{1,2}}/""#, b"aabc}"));
        assert!(matches(r#""/\xff\x00/""#, b"\xff\0") && matches(r#""/a b # c/x""#, b"ab"));
        assert!(matches(r#""/b/A""#, b"bc") && !matches(r#""/b/A""#, b"abc"));
        assert!(matches(r#""/[ #]x/x""#, b"#x"));
        assert!(parse(r#""/a/R""#).unwrap().relative);
        assert!(matches(r#""/.{2}/""#, b"\xff\xfe"));
    }

    #[test]
    fn what_has_no_equal_is_refused() {
        for (value, why) in [
            (r#""/a/U""#, "pcre flag 'U'"),
            (r#""/a(?=b)/""#, "pcre look-ahead"),
            (r#""/(?<!a)b/""#, "pcre look-behind"),
            (r#""/(a)\1/""#, "pcre back-reference"),
            (r#""/a++b/""#, "pcre possessive quantifier"),
            (r#""/(?>a)/""#, "pcre atomic group"),
            (r#""/\Qa\E/""#, "pcre escape '\\Q'"),
            (r#""/(/""#, "pcre: unclosed group"),
            ("x", "pcre: expected \"/expression/flags\""),
            (r#""/a""#, "pcre: expected \"/expression/flags\""),
        ] {
            assert_eq!(parse(value).err().as_deref(), Some(why), "{value}");
        }
    }
}
