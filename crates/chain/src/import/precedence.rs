//! Where a filter expression mixes `&&` and `or` without parentheses: `a && b or c` is `(a && b) or c`, as in Click,
//! which is seldom what its author meant by it.
//!
//! Only operators and parentheses are looked at, so that IPFilter's and IP6Filter's expressions are alike, and names
//! that only the elements know (of addresses, services) do not matter. Side by side (`tcp udp`) counts as one term.

use crate::error::Reader;
use onefold_click::diag::Diagnostic;
use onefold_click::source::Span;

/// Parentheses deeper than this are not looked into; the elements refuse them.
const MAX_DEPTH: usize = 100;
/// Longest reading that is told, in bytes; the rest is cut.
const MAX_TOLD: usize = 240;

/// An expression that mixes both operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mixed {
    /// Byte of the expression at which the first `or` of the mixture stands, and its length.
    pub at: (usize, usize),
    /// The expression as it is read, with parentheses.
    pub reading: String,
    /// As it would have to be written if `or` were to bind tighter.
    pub other: String,
}

/// Finds out whether an expression mixes `&&` and `or` at one level of parentheses.
pub fn mixed(expression: &str) -> Option<Mixed> {
    let has = |a: &str, b: &str| expression.contains(a) || expression.contains(b);
    // most rules of long lists have neither
    if !has("&&", "and") || !has("||", "or") {
        return None;
    }
    let mut p = Parser {
        text: expression,
        words: words(expression),
        pos: 0,
        first: None,
    };
    let both = p.expression(0)?;
    // what the parser does not understand is the element's to refuse
    if p.pos != p.words.len() {
        return None;
    }
    Some(Mixed {
        at: p.first?,
        reading: cut(both.reading),
        other: cut(both.other),
    })
}

/// Warns of a mixture in `expression`, which stands somewhere in `span`. True if there is one.
pub(crate) fn warn(reader: &mut Reader, who: &str, span: Span, expression: &str) -> bool {
    let Some(m) = mixed(expression) else {
        return false;
    };
    let bytes = reader.sources.bytes(span.file);
    let here = bytes.get(span.start as usize..span.end as usize);
    // quoted or folded text may not stand there as it is; then the whole of it is pointed at
    let within = here.and_then(|b| std::str::from_utf8(b).ok()?.find(expression));
    let at = within.map_or(span, |from| {
        let start = span.start as usize + from + m.at.0;
        Span::new(span.file, start, start + m.at.1)
    });
    let message = format!(
        "{who}'&&' binds tighter than 'or': this is read as {}",
        m.reading
    );
    let hint = format!(
        "put parentheses: these if that is what is meant, or else {}",
        m.other
    );
    let d = Diagnostic::warning(message).at(&reader.sources, at);
    reader.diagnostics.push(d.hint(hint));
    true
}

fn cut(mut s: String) -> String {
    if s.len() > MAX_TOLD {
        let end = (0..=MAX_TOLD).rev().find(|i| s.is_char_boundary(*i));
        s.truncate(end.unwrap_or(0));
        s.push_str(" ...");
    }
    s
}

/// A word and the byte at which it starts.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    at: usize,
}

/// Splits as the filters do: operators and brackets are words of their own.
fn words(text: &str) -> Vec<Word<'_>> {
    let in_word = |c: char| c.is_ascii_alphanumeric() || "-./@_:".contains(c);
    let mut out = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        if c.is_whitespace() {
            continue;
        }
        let mut end = at + c.len_utf8();
        let twice = "&|<>!=".contains(c);
        while let Some((i, n)) = rest.peek().copied() {
            let joined = match twice {
                true => end == at + 1 && (n == '=' || (n == c && "&|".contains(c))),
                false => in_word(c) && in_word(n),
            };
            if !joined {
                break;
            }
            end = i + n.len_utf8();
            rest.next();
        }
        out.push(Word {
            text: &text[at..end],
            at,
        });
    }
    out
}

/// One part's text in both readings.
#[derive(Debug, Clone, Default)]
struct Both {
    reading: String,
    other: String,
}

/// Factors with an operator in front of each but the first.
type Row<'a> = Vec<(&'a str, Both)>;

struct Parser<'a> {
    text: &'a str,
    words: Vec<Word<'a>>,
    pos: usize,
    first: Option<(usize, usize)>,
}

fn is_and(w: &str) -> bool {
    ["and", "&&"].contains(&w)
}

fn is_or(w: &str) -> bool {
    ["or", "||"].contains(&w)
}

impl<'a> Parser<'a> {
    fn ahead(&self, n: usize) -> &'a str {
        self.words.get(self.pos + n).map_or("", |w| w.text)
    }

    /// Alternatives, and conditionals of such.
    fn expression(&mut self, depth: usize) -> Option<Both> {
        if depth > MAX_DEPTH {
            return None;
        }
        let mut all = self.any_of(depth)?;
        while ["?", ":"].contains(&self.ahead(0)) {
            let sign = self.ahead(0);
            self.pos += 1;
            let next = self.any_of(depth)?;
            all.reading += &format!(" {sign} {}", next.reading);
            all.other += &format!(" {sign} {}", next.other);
        }
        Some(all)
    }

    /// `factor && factor or factor ...`, all of one level.
    fn any_of(&mut self, depth: usize) -> Option<Both> {
        let mut terms: Vec<Row<'a>> = vec![vec![("", self.factor(depth, "")?)]];
        let mut ors = Vec::new();
        loop {
            let op = self.words.get(self.pos).copied();
            let Some(op) = op.filter(|w| is_and(w.text) || is_or(w.text)) else {
                break;
            };
            self.pos += 1;
            let before = self.qualifiers(self.pos.saturating_sub(2));
            let next = self.factor(depth, &before)?;
            if is_or(op.text) {
                ors.push((op.at, op.text.len()));
                terms.push(vec![(op.text, next)]);
            } else if let Some(t) = terms.last_mut() {
                t.push((op.text, next));
            }
        }
        let is_mixed = terms.len() > 1 && terms.iter().any(|t| t.len() > 1);
        if is_mixed {
            self.first = self.first.or(ors.first().copied());
        }
        Some(Both {
            reading: reading(&terms),
            other: if is_mixed {
                other(&terms)
            } else {
                join(terms.iter().flatten(), |b| &b.other)
            },
        })
    }

    /// What a value alone takes over from the primitive that ends at a word: all of it but its own value.
    fn qualifiers(&self, last: usize) -> String {
        let stop = |w: &str| is_and(w) || is_or(w) || ["(", ")", "!", "not", "?", ":"].contains(&w);
        let ahead = |i: usize| self.words.get(i).map_or("", |w| w.text);
        let mut from = last;
        while from > 0 && (!stop(ahead(from - 1)) || self.is_both(from - 1)) {
            from -= 1;
        }
        // neither a relation nor a mask is taken over
        let ends = |w: &Word<'_>| {
            w.text
                .starts_with(|c: char| "&=!<>[".contains(c) || c.is_ascii_digit())
        };
        let all = self.words.get(from..=last).unwrap_or(&[]);
        match (all.first(), all.iter().find(|w| ends(w))) {
            (Some(a), Some(z)) if z.text != "[" => self.text[a.at..z.at].trim().to_string(),
            _ => String::new(),
        }
    }

    /// Is the word the operator of `src or dst`, `src and dst`?
    fn is_both(&self, at: usize) -> bool {
        let text = |i: usize| self.words.get(i).map_or("", |w| w.text);
        let joins = is_and(text(at)) || is_or(text(at));
        joins && at > 0 && text(at - 1) == "src" && ["dst", "dest"].contains(&text(at + 1))
    }

    /// Primitives and parentheses up to the next operator. `before` is what a value alone takes over.
    fn factor(&mut self, depth: usize, before: &str) -> Option<Both> {
        let mut out = Both::default();
        let start = self.pos;
        while let Some(w) = self.words.get(self.pos).copied() {
            let operator = (is_and(w.text) || is_or(w.text)) && !self.is_both(self.pos);
            if operator || [")", "?", ":"].contains(&w.text) {
                break;
            }
            self.pos += 1;
            if w.text == "(" {
                let inner = self.expression(depth + 1)?;
                if self.ahead(0) != ")" {
                    return None;
                }
                self.pos += 1;
                out.add(
                    &format!("({})", inner.reading),
                    &format!("({})", inner.other),
                );
                continue;
            }
            // words that stand together in the text stay together
            let glued = (self.pos.checked_sub(2).filter(|p| *p >= start))
                .and_then(|p| self.words.get(p))
                .is_some_and(|p| p.at + p.text.len() == w.at);
            match glued {
                true => {
                    out.reading.push_str(w.text);
                    out.other.push_str(w.text);
                }
                false => out.add(w.text, w.text),
            }
        }
        let alone = self.pos == start + 1;
        let bare = alone
            && self.words[start]
                .text
                .starts_with(|c: char| c.is_ascii_digit());
        // what was taken over is written out, in this row's words too, for the value behind it
        if bare && !before.is_empty() {
            let whole = format!("{before} {}", self.words[start].text);
            out = Both {
                reading: whole.clone(),
                other: whole,
            };
        }
        (self.pos > start).then_some(out)
    }
}

impl Both {
    fn add(&mut self, reading: &str, other: &str) {
        for (s, more) in [(&mut self.reading, reading), (&mut self.other, other)] {
            if !s.is_empty() && !s.ends_with('!') {
                s.push(' ');
            }
            s.push_str(more);
        }
    }
}

fn join<'a, 'b: 'a>(
    row: impl Iterator<Item = &'a (&'b str, Both)>,
    text: impl Fn(&Both) -> &str,
) -> String {
    let mut s = String::new();
    for (op, b) in row {
        if !s.is_empty() {
            s += &format!(" {op} ");
        }
        s += text(b);
    }
    s
}

/// Terms of several factors in parentheses, where there are several terms.
fn reading(terms: &[Row<'_>]) -> String {
    let mut s = String::new();
    for t in terms {
        let whole = join(t.iter(), |b| &b.reading);
        if !s.is_empty() {
            s += &format!(" {} ", t.first().map_or("or", |f| f.0));
        }
        match t.len() > 1 && terms.len() > 1 {
            true => s += &format!("({whole})"),
            false => s += &whole,
        }
    }
    s
}

/// As if `or` bound tighter: factors with `or` between them in parentheses.
fn other(terms: &[Row<'_>]) -> String {
    let mut groups: Vec<(&str, Row<'_>)> = Vec::new();
    for (op, b) in terms.iter().flatten() {
        match groups.last_mut() {
            Some((_, g)) if is_or(op) => g.push((op, b.clone())),
            _ => groups.push((op, vec![("", b.clone())])),
        }
    }
    let mut s = String::new();
    for (op, g) in &groups {
        if !s.is_empty() {
            s += &format!(" {op} ");
        }
        let whole = join(g.iter(), |b| &b.other);
        match g.len() > 1 && groups.len() > 1 {
            true => s += &format!("({whole})"),
            false => s += &whole,
        }
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixtures_are_spelled_out() {
        for (text, at, reading, other) in [
            (
                "src net 10.0.0.0/8 && tcp && dst port 80 or 443",
                "or 443",
                "(src net 10.0.0.0/8 && tcp && dst port 80) or dst port 443",
                "src net 10.0.0.0/8 && tcp && (dst port 80 or dst port 443)",
            ),
            (
                "tcp or udp and port 53",
                "or udp",
                "tcp or (udp and port 53)",
                "(tcp or udp) and port 53",
            ),
            (
                "a&&(src or dst port 80 or 443&&udp)",
                "or 443",
                "a && (src or dst port 80 or (src or dst port 443 && udp))",
                "a && ((src or dst port 80 or src or dst port 443) && udp)",
            ),
            (
                "!tcp[13:1] & 18 == 2 || udp && src host 10.0.0.1",
                "|| udp",
                "!tcp[13:1] & 18 == 2 || (udp && src host 10.0.0.1)",
                "(!tcp[13:1] & 18 == 2 || udp) && src host 10.0.0.1",
            ),
        ] {
            let m = mixed(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (m.reading.as_str(), m.other.as_str()),
                (reading, other),
                "{text}"
            );
            assert!(text[m.at.0..].starts_with(at), "{text}: {m:?}");
        }
    }

    #[test]
    fn clear_expressions_are_left_alone() {
        for text in [
            "",
            "all",
            "tcp dst port 80 or 443",
            "src net 10.0.0.0/8 && tcp && (dst port 80 or 443)",
            "(a && b) or (c && d)",
            "a and b && c",
            "src or dst net 10.0.0.0/8 && tcp",
            "src and dst port 80 or 443",
            "a ? b || c : d && e",
            "not tcp or not udp",
            // the element's to refuse
            "a && b or",
            "a && (b or c",
        ] {
            assert_eq!(mixed(text), None, "{text}");
        }
        let deep = format!("{}a{}", "(".repeat(500), ")".repeat(500));
        assert_eq!(mixed(&deep), None);
    }

    #[test]
    fn readings_are_read_back_the_same() {
        use onefold_element::NameDb;
        use onefold_element::args::ArgScope;
        use onefold_elements::filter::parse_pattern;
        let scope = ArgScope {
            names: NameDb::builtin(),
            element: "",
            elements: &[],
        };
        let said = |t: &str| parse_pattern(t, &scope).unwrap().expr.to_string();
        for text in [
            "src net 10.0.0.0/8 && tcp && dst port 80 or 443",
            "tcp || udp && dst port 53 or 5353 || icmp",
            "! tcp && src host 10.0.0.1 or src and dst net 10.0.0.0/8 && udp",
            "tcp && (dst port 80 && ip ttl >= 5 or 64) || udp",
            "tcp && net 10.0.0.0 mask 255.0.0.0 or 11.0.0.0/8 || ip[8] & 3 == 2",
        ] {
            let m = mixed(text).unwrap();
            assert_eq!(said(&m.reading), said(text), "{}", m.reading);
            assert_ne!(said(&m.other), said(text), "{}", m.other);
        }
    }
}
