//! Bytes to tokens.

use crate::conf::{is_space, unquote};
use crate::diag::Diagnostic;
use crate::source::{FileId, SourceMap, Span};
use crate::text::SrcText;
use std::rc::Rc;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    End,
    Ident,
    Variable,
    Arrow,
    DoubleArrow,
    Colons,
    Bars,
    Dots,
    ElementClass,
    Require,
    Provide,
    Define,
    /// Any other character; outside ASCII, its first byte.
    Char(u8),
}

impl Kind {
    /// The kind as messages name it.
    pub(crate) fn describe(self) -> String {
        let text = match self {
            Kind::End => "the end of the text",
            Kind::Ident => "a name",
            Kind::Variable => "a $variable",
            Kind::Arrow => "'->'",
            Kind::DoubleArrow => "'=>'",
            Kind::Colons => "'::'",
            Kind::Bars => "'||'",
            Kind::Dots => "'...'",
            Kind::ElementClass => "'elementclass'",
            Kind::Require => "'require'",
            Kind::Provide => "'provide'",
            Kind::Define => "'define'",
            Kind::Char(c) => return format!("'{}'", c as char),
        };
        text.to_owned()
    }
}

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// What goes wrong while lexing, for the parser to report.
pub(crate) type Problems = Vec<Diagnostic>;

/// A place in a file.
#[derive(Clone)]
pub(crate) struct Cursor {
    pub(crate) file: FileId,
    pub(crate) pos: usize,
    bytes: Rc<[u8]>,
    /// File name by the latest line directive.
    name: String,
    ignore_line_directives: bool,
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'@'
}

impl Cursor {
    pub(crate) fn new(sources: &SourceMap, file: FileId, ignore_line_directives: bool) -> Cursor {
        let name = sources.name(file).to_owned();
        Cursor {
            file,
            pos: 0,
            bytes: sources.bytes(file).into(),
            name,
            ignore_line_directives,
        }
    }

    fn at(&self, i: usize) -> u8 {
        self.bytes.get(i).copied().unwrap_or(0)
    }

    fn end(&self) -> usize {
        self.bytes.len()
    }

    /// The text of a token; only for those that consist of ASCII.
    pub(crate) fn text(&self, start: usize, end: usize) -> String {
        String::from_utf8_lossy(self.bytes.get(start..end).unwrap_or(&[])).into_owned()
    }

    /// The name of the file that the directory of libraries is taken from.
    pub(crate) fn logical_name(&self) -> &str {
        &self.name
    }

    fn is_newline(&self, i: usize) -> bool {
        i < self.end() && matches!(self.at(i), b'\n' | b'\r')
    }

    /// The offset after the line end at `s`.
    fn skip_newline(&self, s: usize) -> usize {
        if self.at(s) == b'\r' && self.at(s + 1) == b'\n' {
            s + 2
        } else {
            s + 1
        }
    }

    fn skip_line(&self, mut s: usize) -> usize {
        while s < self.end() {
            if self.is_newline(s) {
                return self.skip_newline(s);
            }
            s += 1;
        }
        s
    }

    fn skip_block_comment(&self, mut s: usize) -> usize {
        while s < self.end() {
            if self.at(s) == b'*' && self.at(s + 1) == b'/' {
                return s + 2;
            }
            s += 1;
        }
        s
    }

    /// The offset after the comment at `s`; `None` if there is none.
    fn comment(&self, s: usize) -> Option<usize> {
        match (self.at(s), self.at(s + 1)) {
            (b'/', b'/') => Some(self.skip_line(s + 2)),
            (b'/', b'*') => Some(self.skip_block_comment(s + 2)),
            _ => None,
        }
    }

    /// The offset after a `\<...>` whose inside starts at `s`.
    fn skip_hex(&self, mut s: usize) -> usize {
        while s < self.end() {
            match self.at(s) {
                b'>' => return s + 1,
                b'/' => s = self.comment(s).unwrap_or(s + 1),
                _ => s += 1,
            }
        }
        s
    }

    /// The offset after a quoted string whose inside starts at `s`.
    fn skip_quote(&self, mut s: usize, quote: u8) -> usize {
        while s < self.end() {
            match self.at(s) {
                b'\\' if quote == b'"' && s + 1 < self.end() => {
                    s = if self.at(s + 1) == b'<' {
                        self.skip_hex(s + 2)
                    } else {
                        s + 2
                    };
                }
                c if c == quote => return s + 1,
                _ => s += 1,
            }
        }
        s.min(self.end())
    }

    fn starts_line(&self, s: usize) -> bool {
        s == 0 || self.is_newline(s - 1)
    }

    /// Reads the line directive at `start`; returns the offset of the line end after it.
    fn line_directive(
        &mut self,
        start: usize,
        sources: &mut SourceMap,
        problems: &mut Problems,
    ) -> usize {
        let blank = |c: u8| c == b' ' || c == b'\t';
        let mut s = start + 1;
        while blank(self.at(s)) {
            s += 1;
        }
        if self.bytes.get(s..s + 4) == Some(b"line") && blank(self.at(s + 4)) {
            s += 5;
            while blank(self.at(s)) {
                s += 1;
            }
        }
        let line_end = (s..self.end())
            .find(|&i| self.is_newline(i))
            .unwrap_or(self.end());
        if !self.at(s).is_ascii_digit() {
            problems.push(
                Diagnostic::error("unknown directive")
                    .at(sources, Span::new(self.file, start, line_end))
                    .expected("a line directive such as # 12 \"file\"")
                    .hint("comments start with // or are enclosed in /* and */"),
            );
            return line_end;
        }
        if self.ignore_line_directives {
            return line_end;
        }
        let mut line = 0u32;
        while self.at(s).is_ascii_digit() {
            line = line
                .saturating_mul(10)
                .saturating_add(u32::from(self.at(s) - b'0'));
            s += 1;
        }
        while blank(self.at(s)) {
            s += 1;
        }
        if self.at(s) == b'"' && s < line_end {
            let from = s;
            s += 1;
            while s < line_end && self.at(s) != b'"' {
                s += if self.at(s) == b'\\' && s + 1 < line_end {
                    2
                } else {
                    1
                };
            }
            let quoted = self.text(from, s.min(line_end)) + "\"";
            let name = String::from_utf8_lossy(&unquote(&quoted)).into_owned();
            // An empty name is the name of the file itself.
            self.name = if name.is_empty() {
                sources.name(self.file).to_owned()
            } else {
                name
            };
        }
        if line_end < self.end() {
            sources.add_line_mark(self.file, self.skip_newline(line_end), line, &self.name);
        }
        line_end
    }

    pub(crate) fn next(&mut self, sources: &mut SourceMap, problems: &mut Problems) -> Token {
        let mut s = self.pos;
        while s < self.end() {
            if is_space(self.at(s)) {
                s += 1;
            } else if let Some(after) = self.comment(s) {
                s = after;
            } else if self.at(s) == b'#' && self.starts_line(s) {
                s = self.line_directive(s, sources, problems);
            } else {
                break;
            }
        }
        let start = s;
        let (kind, end) = self.token_at(start);
        self.pos = end;
        Token { kind, start, end }
    }

    fn token_at(&self, start: usize) -> (Kind, usize) {
        if start >= self.end() {
            return (Kind::End, self.end());
        }
        let mut s = start;
        if is_word(self.at(s)) {
            loop {
                while is_word(self.at(s)) {
                    s += 1;
                }
                if !(self.at(s) == b'/' && is_word(self.at(s + 1))) {
                    break;
                }
                s += 1;
            }
            let kind = match self.bytes.get(start..s) {
                Some(b"elementclass") => Kind::ElementClass,
                Some(b"require") => Kind::Require,
                Some(b"provide") => Kind::Provide,
                Some(b"define") => Kind::Define,
                _ => Kind::Ident,
            };
            return (kind, s);
        }
        if self.at(s) == b'$' {
            s += 1;
            while self.at(s).is_ascii_alphanumeric() || self.at(s) == b'_' {
                s += 1;
            }
            if s > start + 1 {
                return (Kind::Variable, s);
            }
        }
        match (self.at(start), self.at(start + 1), self.at(start + 2)) {
            (b'-', b'>', _) => (Kind::Arrow, start + 2),
            (b'=', b'>', _) => (Kind::DoubleArrow, start + 2),
            (b':', b':', _) => (Kind::Colons, start + 2),
            (b'|', b'|', _) => (Kind::Bars, start + 2),
            (b'.', b'.', b'.') => (Kind::Dots, start + 3),
            (c, ..) => {
                // The rest of a character outside ASCII belongs to it, so that it is one error.
                let rest = (start + 1..self.end())
                    .take(3)
                    .take_while(|&i| c >= 0xc0 && self.at(i) & 0xc0 == 0x80);
                (Kind::Char(c), start + 1 + rest.count())
            }
        }
    }

    /// Reads a configuration string: from here (after the opening parenthesis) to the closing parenthesis, which is
    /// left. Line directives in it are not part of the text.
    pub(crate) fn config(&mut self, sources: &mut SourceMap, problems: &mut Problems) -> SrcText {
        let begin = self.pos;
        let (mut s, mut from) = (begin, begin);
        let mut depth = 1usize;
        let mut out = SrcText::empty_at(Span::new(self.file, begin, begin));
        while s < self.end() {
            match self.at(s) {
                b'(' => depth += 1,
                b')' => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                b'#' if s > begin && self.is_newline(s - 1) => {
                    self.push_config(&mut out, from, s, sources, problems);
                    s = self.line_directive(s, sources, problems);
                    from = s;
                    continue;
                }
                b'/' => {
                    s = self.comment(s).unwrap_or(s + 1);
                    continue;
                }
                quote @ (b'\'' | b'"') => {
                    s = self.skip_quote(s + 1, quote);
                    continue;
                }
                b'\\' if self.at(s + 1) == b'<' => {
                    s = self.skip_hex(s + 2);
                    continue;
                }
                _ => {}
            }
            s += 1;
        }
        self.push_config(&mut out, from, s, sources, problems);
        self.pos = s;
        out
    }

    fn push_config(
        &self,
        out: &mut SrcText,
        from: usize,
        to: usize,
        sources: &SourceMap,
        problems: &mut Problems,
    ) {
        let bytes = self.bytes.get(from..to).unwrap_or(&[]);
        match std::str::from_utf8(bytes) {
            Ok(text) => out.push_str(text, Span::new(self.file, from, to)),
            Err(error) => {
                let bad = from + error.valid_up_to();
                problems.push(
                    Diagnostic::error("this configuration string is not UTF-8")
                        .at(sources, Span::new(self.file, bad, bad + 1))
                        .hint(format!(
                            "write the byte as an escape in double quotes: \"\\x{:02x}\"",
                            self.at(bad)
                        )),
                );
                out.push_str(
                    &String::from_utf8_lossy(bytes),
                    Span::new(self.file, from, to),
                );
            }
        }
    }
}
