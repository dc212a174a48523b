//! Reading a program's text.

mod action;
mod filter;
mod items;
mod words;

use super::lex::{Kind, Token, tokens, unescape};
use crate::program::{Program, Slot, StageId};
use onefold_element::ElemId;
use words::{cut, indexed, plain, slot_of};

/// Errors that are told; reading stops there.
pub const MAX_ERRORS: usize = 50;
/// Largest text that is read, in bytes.
pub const MAX_TEXT: usize = 1 << 30;

/// What is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct ParseError {
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// What was expected, or what is wrong.
    pub message: String,
}

impl ParseError {
    pub(super) fn new(line: u32, column: u32, message: impl Into<String>) -> Self {
        ParseError {
            line,
            column,
            message: message.into(),
        }
    }
}

type Res<T> = Result<T, ParseError>;

/// Reads a program. All errors found are told, at most [`MAX_ERRORS`]; a text of more than [`MAX_TEXT`] bytes is
/// refused.
pub fn parse(text: &str) -> Result<Program, Vec<ParseError>> {
    if text.len() > MAX_TEXT {
        let message = format!("a program's text has at most {MAX_TEXT} bytes");
        return Err(vec![ParseError::new(1, 1, message)]);
    }
    let mut errors = Vec::new();
    let tokens = tokens(text, &mut errors);
    let mut p = Parser {
        tokens: &tokens,
        at: 0,
        program: Program::default(),
        errors,
    };
    p.program();
    p.errors.truncate(MAX_ERRORS);
    p.errors.sort_by_key(|e| (e.line, e.column));
    match p.errors.is_empty() {
        true => Ok(p.program),
        false => Err(p.errors),
    }
}

/// Reads a text of one program, or of several: each begins with a line of its own that says `onefold program`.
pub fn parse_all(text: &str) -> Result<Vec<Program>, Vec<ParseError>> {
    let mut starts: Vec<(usize, u32)> = Vec::new();
    let (mut at, mut line) = (0, 0u32);
    for l in text.split_inclusive('\n') {
        if l.trim_start().starts_with("onefold program") {
            starts.push((at, line));
        }
        at += l.len();
        line = line.saturating_add(1);
    }
    if starts.len() <= 1 {
        return Ok(vec![parse(text)?]);
    }
    // what stands before the first is read with it
    if let Some(first) = starts.first_mut() {
        *first = (0, 0);
    }
    let mut all = Vec::with_capacity(starts.len());
    for (i, (from, line)) in starts.iter().enumerate() {
        let to = starts.get(i + 1).map_or(text.len(), |n| n.0);
        let part = parse(text.get(*from..to).unwrap_or_default());
        all.push(part.map_err(|mut errors| {
            for e in &mut errors {
                e.line = e.line.saturating_add(*line);
            }
            errors
        })?);
    }
    Ok(all)
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    program: Program,
    errors: Vec<ParseError>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }
    /// An error at the token that comes next.
    fn wrong<T>(&self, message: impl Into<String>) -> Res<T> {
        let place = match (self.peek(), self.tokens.last()) {
            (Some(t), _) => (t.line, t.column),
            // behind the last token
            (None, Some(t)) => (t.line, t.column.saturating_add(1)),
            (None, None) => (1, 1),
        };
        Err(ParseError::new(place.0, place.1, message))
    }
    fn expected<T>(&self, what: &str) -> Res<T> {
        match self.peek() {
            Some(t) => self.wrong(format!("expected {what}, not '{}'", cut(t.text))),
            None => self.wrong(format!("expected {what}, not the end of the text")),
        }
    }
    fn is(&self, kind: Kind, text: &str) -> bool {
        self.peek()
            .is_some_and(|t| t.kind == kind && t.text == text)
    }
    fn accept(&mut self, kind: Kind, text: &str) -> bool {
        let yes = self.is(kind, text);
        self.at += usize::from(yes);
        yes
    }
    fn punct(&mut self, text: &str) -> Res<()> {
        match self.accept(Kind::Punct, text) {
            true => Ok(()),
            false => self.expected(&format!("'{text}'")),
        }
    }
    fn keyword(&mut self, text: &str) -> Res<()> {
        match self.accept(Kind::Word, text) {
            true => Ok(()),
            false => self.expected(&format!("'{text}'")),
        }
    }
    fn has_word(&mut self, text: &str) -> bool {
        self.accept(Kind::Word, text)
    }
    /// A word that `f` understands.
    fn word<T>(&mut self, what: &str, f: impl FnOnce(&'a str) -> Option<T>) -> Res<T> {
        match self.peek() {
            Some(t) if t.kind == Kind::Word => match f(t.text) {
                Some(v) => {
                    self.at += 1;
                    Ok(v)
                }
                None => self.expected(what),
            },
            _ => self.expected(what),
        }
    }
    fn string(&mut self) -> Res<String> {
        match self.peek() {
            Some(t) if t.kind == Kind::Str => match unescape(t.text) {
                Ok(s) => {
                    self.at += 1;
                    Ok(s)
                }
                Err(e) => self.wrong(e),
            },
            _ => self.expected("a string in quotation marks"),
        }
    }
    fn int<T: TryFrom<u128>>(&mut self, what: &str) -> Res<T> {
        self.word(what, |w| plain(w).and_then(|v| T::try_from(v).ok()))
    }
    fn signed(&mut self) -> Res<i32> {
        let minus = self.accept(Kind::Punct, "-");
        self.word("a number of bytes", |w| {
            let v = i64::try_from(plain(w)?).ok()?;
            i32::try_from(if minus { -v } else { v }).ok()
        })
    }
    fn elem(&mut self) -> Res<ElemId> {
        self.word("an element (e0, e1 ...)", |w| {
            indexed(w, "e")
                .and_then(|n| u32::try_from(n).ok())
                .map(ElemId)
        })
    }
    fn stage_id(&mut self) -> Res<StageId> {
        self.word("a stage (stage0, stage1 ...)", |w| {
            indexed(w, "stage")
                .and_then(|n| u32::try_from(n).ok())
                .map(StageId)
        })
    }
    fn slot(&mut self) -> Res<Slot> {
        self.word("a slot (s0, s1 ...)", slot_of)
    }
    /// `e3[0]`
    fn elem_port(&mut self) -> Res<(ElemId, u16)> {
        let e = self.elem()?;
        self.punct("[")?;
        let port = self.int("an input")?;
        self.punct("]")?;
        Ok((e, port))
    }

    /// Behind an error in the item that began at token `start`: on to the next line that begins an item beside it, or
    /// to the brace that closes the block that it stands in.
    fn recover(&mut self, start: usize, e: ParseError) {
        self.errors.push(e);
        let stop = self.at.max(start + 1);
        let mut depth = 0usize;
        let mut i = start;
        while let Some(t) = self.tokens.get(i) {
            if depth == 0 && i >= stop && t.first && !(t.kind == Kind::Punct && t.text == "{") {
                break;
            }
            if t.kind == Kind::Punct && t.text == "{" {
                depth += 1;
            } else if t.kind == Kind::Punct && t.text == "}" {
                match depth.checked_sub(1) {
                    Some(d) => depth = d,
                    None => break,
                }
            }
            i += 1;
        }
        self.at = i;
    }

    fn full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS
    }

    fn program(&mut self) {
        if let Err(e) = self.header() {
            self.errors.push(e);
            return;
        }
        while self.peek().is_some() && !self.full() {
            let start = self.at;
            if let Err(e) = self.item() {
                self.recover(start, e);
                // a brace that closes nothing
                if self.is(Kind::Punct, "}") {
                    self.at += 1;
                }
            }
        }
    }

    fn header(&mut self) -> Res<()> {
        self.keyword("onefold")?;
        self.keyword("program")?;
        match self.int::<u32>("the format's version, 1")? {
            1 => Ok(()),
            v => {
                self.at -= 1;
                self.wrong(format!(
                    "this is version {v} of the format; only 1 is known"
                ))
            }
        }
    }
}
