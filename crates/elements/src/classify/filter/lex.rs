//! Filter text to words.

/// A word of filter text and the byte at which it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl Word<'_> {
    pub fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// Splits as Click does: operators and brackets are words of their own, `&& || <= >= == !=` are two characters long,
/// and letters, digits and `- . / @ _ :` make up the rest. A colon belongs to its word: `a ? b : c` needs spaces around
/// it.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let b = text.as_bytes();
    let mut out = Vec::with_capacity(b.len() / 4 + 1);
    let mut i = 0;
    while i < b.len() {
        let c = b[i];
        if c.is_ascii_whitespace() || c == 0x0b {
            i += 1;
            continue;
        }
        let next = b.get(i + 1).copied();
        let len = match c {
            b'&' | b'|' if next == Some(c) => 2,
            b'<' | b'>' | b'!' | b'=' if next == Some(b'=') => 2,
            _ if in_word(c) => b[i..].iter().take_while(|c| in_word(**c)).count(),
            // anything else, one character (not one byte: the text is sliced)
            _ => text[i..].chars().next().map_or(1, char::len_utf8),
        };
        out.push(Word {
            text: &text[i..i + len],
            at: i,
        });
        i += len;
    }
    out
}

fn in_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"-./@_:".contains(&c)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn splits_like_click() {
        let t = |s| words(s).iter().map(|w| w.text).collect::<Vec<_>>();
        assert_eq!(
            t("src  1.2.3.4/24&&!(port>=80||ip[9:1]=6)"),
            [
                "src",
                "1.2.3.4/24",
                "&&",
                "!",
                "(",
                "port",
                ">=",
                "80",
                "||",
                "ip",
                "[",
                "9:1",
                "]",
                "=",
                "6",
                ")"
            ]
        );
        assert_eq!(
            t("a ? b:c & d !=é\u{a0}"),
            ["a", "?", "b:c", "&", "d", "!=", "é", "\u{a0}"]
        );
        assert_eq!(words("  x y")[1].at, 4);
    }
}
