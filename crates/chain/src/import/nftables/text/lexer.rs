//! Words, strings and signs of nft's language, with definitions put in their places.

use std::collections::HashMap;

/// Most tokens of a file, definitions written out.
const MAX_TOKENS: usize = 4_000_000;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A name, a number, an address.
    Word(String),
    /// What stands in quotes.
    Text(String),
    /// A sign: `{`, `==`, `:`.
    Sign(&'static str),
    /// The end of a line, or `;`.
    End,
}

/// With its line.
pub type Placed = (Token, u32);

const SIGNS: [&str; 19] = [
    "==", "!=", "<=", ">=", "<<", ">>", "{", "}", "(", ")", ",", "=", "<", ">", "&", "|", "^", "!",
    "/",
];

/// Ends a word.
fn is_edge(c: char) -> bool {
    c.is_whitespace() || "{}(),;\"=!<>&|^#".contains(c)
}

/// The tokens of a text.
///
/// # Errors
/// The line of a string without an end, or of what is too much.
pub fn tokens(text: &str) -> Result<Vec<Placed>, (u32, String)> {
    let mut out: Vec<Placed> = Vec::new();
    let mut line = 1;
    let mut rest = text;
    // Bound: each turn takes a character at least
    while let Some(c) = rest.chars().next() {
        if out.len() > MAX_TOKENS {
            return Err((line, format!("more than {MAX_TOKENS} words")));
        }
        let behind = &rest[c.len_utf8()..];
        match c {
            '\n' => {
                out.push((Token::End, line));
                line += 1;
                rest = behind;
            }
            ';' => {
                out.push((Token::End, line));
                rest = behind;
            }
            '\\' if behind
                .trim_start_matches(['\r', ' ', '\t'])
                .starts_with('\n') =>
            {
                // the line goes on
                let end = behind.find('\n').map_or(behind.len(), |i| i + 1);
                line += 1;
                rest = &behind[end..];
            }
            '#' => rest = &behind[behind.find('\n').unwrap_or(behind.len())..],
            '"' => {
                let end = behind
                    .find('"')
                    .ok_or((line, "a string without an end".to_string()))?;
                let text = &behind[..end];
                out.push((Token::Text(text.to_string()), line));
                line += u32::try_from(text.matches('\n').count()).unwrap_or(0);
                rest = &behind[end + 1..];
            }
            c if c.is_whitespace() => rest = behind,
            _ => match SIGNS.into_iter().find(|s| rest.starts_with(*s)) {
                Some(sign) => {
                    out.push((Token::Sign(sign), line));
                    rest = &rest[sign.len()..];
                }
                None => {
                    let end = rest.find(is_edge).unwrap_or(rest.len());
                    word(&rest[..end], line, &mut out);
                    rest = &rest[end..];
                }
            },
        }
    }
    out.push((Token::End, line));
    Ok(out)
}

/// A word; a ':' that is not part of an address stands for itself.
fn word(w: &str, line: u32, out: &mut Vec<Placed>) {
    if w == ":" || w == "." {
        let sign = if w == ":" { ":" } else { "." };
        out.push((Token::Sign(sign), line));
        return;
    }
    if let Some(name) = w.strip_suffix(':').filter(|n| !n.ends_with(':')) {
        out.push((Token::Word(name.to_string()), line));
        out.push((Token::Sign(":"), line));
        return;
    }
    let of_name = |c: char| c.is_ascii_alphabetic() && !c.is_ascii_hexdigit() || c == '_';
    if let Some((name, value)) = w.split_once(':')
        && name.chars().any(of_name)
    {
        out.push((Token::Word(name.to_string()), line));
        out.push((Token::Sign(":"), line));
        word(value, line, out);
        return;
    }
    out.push((Token::Word(w.to_string()), line));
}

/// Takes definitions out, and puts what they stand for in the place of their names.
///
/// # Errors
/// A name that is not defined.
pub fn defined(all: Vec<Placed>) -> Result<Vec<Placed>, (u32, String)> {
    let mut names: HashMap<String, Vec<Token>> = HashMap::new();
    let mut out: Vec<Placed> = Vec::new();
    let mut it = all.into_iter().peekable();
    let mut begins = true;
    while let Some((token, line)) = it.next() {
        let is = |w: &str| matches!(&token, Token::Word(t) if t == w);
        if begins && (is("define") || is("redefine")) {
            let Some((Token::Word(name), _)) = it.next() else {
                return Err((line, "expected 'define NAME = VALUE'".into()));
            };
            if it.next().map(|t| t.0) != Some(Token::Sign("=")) {
                return Err((line, "expected 'define NAME = VALUE'".into()));
            }
            let (mut value, mut depth) = (Vec::new(), 0usize);
            while let Some((t, _)) = it.peek() {
                match t {
                    Token::Sign("{") => depth += 1,
                    Token::Sign("}") => depth = depth.saturating_sub(1),
                    Token::End if depth == 0 => break,
                    _ => {}
                }
                if let Some((t, l)) = it.next() {
                    expand(t, l, &names, |t| value.push(t))?;
                }
            }
            names.insert(name, value);
            continue;
        }
        begins = matches!(token, Token::End | Token::Sign("{" | "}"));
        expand(token, line, &names, |t| out.push((t, line)))?;
        if out.len() > MAX_TOKENS {
            return Err((line, format!("more than {MAX_TOKENS} words")));
        }
    }
    Ok(out)
}

fn expand(
    token: Token,
    line: u32,
    names: &HashMap<String, Vec<Token>>,
    mut add: impl FnMut(Token),
) -> Result<(), (u32, String)> {
    match &token {
        Token::Word(w) if w.starts_with('$') => {
            let value = names.get(&w[1..]);
            let value = value.ok_or_else(|| (line, format!("'{w}' is not defined")))?;
            value.iter().cloned().for_each(add);
        }
        _ => add(token),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let all = defined(tokens(text).unwrap()).unwrap();
        let one = |(t, _): &Placed| match t {
            Token::Word(w) => w.clone(),
            Token::Text(t) => format!("\"{t}\""),
            Token::Sign(s) => format!("'{s}'"),
            Token::End => ";".into(),
        };
        all.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_and_signs() {
        assert_eq!(
            shown("ip6 saddr fd00::/8 tcp dport {80,443} accept # x\n"),
            "ip6 saddr fd00::/8 tcp dport '{' 80 ',' 443 '}' accept ; ;"
        );
        assert_eq!(
            shown("vmap { ipv6: jump a, new:accept }"),
            "vmap '{' ipv6 ':' jump a ',' new ':' accept '}' ;"
        );
        assert_eq!(shown("dnat to 10.0.0.1:80"), "dnat to 10.0.0.1:80 ;");
        assert_eq!(shown("a \\\n b!=\"c d\""), "a b '!=' \"c d\" ;");
    }

    #[test]
    fn definitions() {
        assert_eq!(
            shown("define a = { 1,\n 2 }\ndefine b = $a\ntcp dport $b"),
            "; ; tcp dport '{' 1 ',' ; 2 '}' ;"
        );
        assert_eq!(defined(tokens("\n$x").unwrap()).unwrap_err().0, 2);
        assert!(tokens("\"").is_err());
    }
}
