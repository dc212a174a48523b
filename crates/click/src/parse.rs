//! Tokens to syntax tree.

mod element;
#[cfg(test)]
mod tests;

use crate::ast::*;
use crate::conf;
use crate::diag::Diagnostic;
use crate::lex::{Cursor, Kind, Token};
use crate::library::Libraries;
use crate::limits::{MAX_ARGUMENTS, MAX_ERRORS, MAX_LIBRARIES, MAX_NESTING, MAX_NODES};
use crate::source::{FileId, MAX_SOURCE_BYTES, SourceMap, Span};
use crate::text::SrcText;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How to parse.
#[derive(Clone, Copy, Default)]
pub struct ParseOptions<'a> {
    /// Whether `# 12 "file"` has no effect.
    pub ignore_line_directives: bool,
    /// Where `require(library ...)` finds files; without it, libraries are errors.
    pub libraries: Option<&'a dyn Libraries>,
}

/// Parses a configuration. The tree is what could be understood; it is complete if no diagnostic is an error.
pub fn parse(text: &[u8], file_name: &str, options: &ParseOptions<'_>) -> (Ast, Vec<Diagnostic>) {
    let mut sources = SourceMap::new();
    let file = sources.add(file_name, text);
    let mut parser = Parser {
        cursor: Cursor::new(&sources, file, options.ignore_line_directives),
        sources,
        options: *options,
        unread: Vec::new(),
        diagnostics: Vec::new(),
        stopped: false,
        compounds: 0,
        groups: 0,
        nesting: 0,
        listed_ports: 0,
        nodes: 0,
        open: Vec::new(),
        libraries: BTreeSet::new(),
    };
    if text.len() > MAX_SOURCE_BYTES {
        parser.fatal(Diagnostic::error(format!(
            "{file_name} has more than {MAX_SOURCE_BYTES} bytes"
        )));
    } else if text.starts_with(b"!<arch>") {
        parser.fatal(
            Diagnostic::error("this is a Click archive")
                .at(&parser.sources, Span::new(file, 0, 7))
                .expected("the text of a configuration")
                .hint("extract its member 'config'"),
        );
    }
    let mut statements = Vec::new();
    while parser.statement(None, &mut statements) {}
    (
        Ast {
            sources: Arc::new(parser.sources),
            file,
            statements,
        },
        parser.diagnostics,
    )
}

struct Parser<'a> {
    cursor: Cursor,
    sources: SourceMap,
    options: ParseOptions<'a>,
    /// Tokens that were read but not used, the next one last.
    unread: Vec<Token>,
    diagnostics: Vec<Diagnostic>,
    /// After a fatal error, the text seems to end.
    stopped: bool,
    compounds: usize,
    groups: usize,
    nesting: usize,
    listed_ports: usize,
    nodes: usize,
    /// Brackets that are open.
    open: Vec<Span>,
    libraries: BTreeSet<String>,
}

impl Parser<'_> {
    fn next(&mut self) -> Token {
        if self.stopped {
            return Token {
                kind: Kind::End,
                start: self.cursor.pos,
                end: self.cursor.pos,
            };
        }
        if let Some(token) = self.unread.pop() {
            return token;
        }
        let mut problems = Vec::new();
        let token = self.cursor.next(&mut self.sources, &mut problems);
        problems.into_iter().for_each(|p| self.report(p));
        token
    }

    fn unread(&mut self, token: Token) {
        self.unread.push(token);
    }

    fn next_pos(&self) -> usize {
        self.unread.last().map_or(self.cursor.pos, |t| t.start)
    }

    fn config(&mut self) -> SrcText {
        let mut problems = Vec::new();
        let start = self.cursor.pos;
        let mut config = self.cursor.config(&mut self.sources, &mut problems);
        problems.into_iter().for_each(|p| self.report(p));
        if config.bytes().filter(|&c| c == b',').count() > MAX_ARGUMENTS {
            let span = self.span(start, start + 1);
            let d = Diagnostic::error(format!(
                "more than {MAX_ARGUMENTS} arguments in a configuration string"
            ));
            self.fatal(d.at(&self.sources, span));
            config = SrcText::default();
        }
        config
    }

    /// Reads a token if it is of this kind.
    fn accept(&mut self, kind: Kind) -> bool {
        let before = self.cursor.pos;
        let had = !self.unread.is_empty();
        let token = self.next();
        if token.kind == kind {
            return true;
        }
        if had || self.stopped {
            self.unread(token);
        } else {
            self.cursor.pos = before;
        }
        false
    }

    /// Reads the parenthesis that closes a configuration string.
    fn close_config(&mut self, config: &SrcText) {
        // The parenthesis that opened it is just before it.
        let open = config.span().map(|s| Span {
            start: s.start.saturating_sub(1),
            end: s.start,
            ..s
        });
        self.open.extend(open);
        self.expect(Kind::Char(b')'));
        if open.is_some() {
            self.open.pop();
        }
    }

    fn expect(&mut self, kind: Kind) -> bool {
        if self.accept(kind) {
            return true;
        }
        let token = self.next();
        self.unexpected(token, &kind.describe());
        self.unread(token);
        // A configuration string has to be read from where the cursor is.
        if let Some(token) = self.unread.last() {
            self.cursor.pos = token.start;
            self.unread.clear();
        }
        false
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span::new(self.cursor.file, start, end)
    }

    fn token_span(&self, token: Token) -> Span {
        self.span(token.start, token.end)
    }

    fn name(&self, token: Token) -> Name {
        let skip = usize::from(token.kind == Kind::Variable);
        Name {
            text: self.cursor.text(token.start + skip, token.end),
            span: self.token_span(token),
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        if self.stopped || self.diagnostics.contains(&diagnostic) {
            return;
        }
        self.diagnostics.push(diagnostic);
        if self.diagnostics.iter().filter(|d| d.is_error()).count() >= MAX_ERRORS {
            self.diagnostics.push(Diagnostic::error(format!(
                "stopped after {MAX_ERRORS} errors"
            )));
            self.stopped = true;
        }
    }

    fn fatal(&mut self, diagnostic: Diagnostic) {
        self.report(diagnostic);
        self.stopped = true;
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        let diagnostic = Diagnostic::error(message).at(&self.sources, span);
        self.report(diagnostic);
    }

    fn unexpected(&mut self, token: Token, expected: &str) {
        let what = match token.kind {
            Kind::Ident | Kind::Variable => {
                format!("'{}'", self.cursor.text(token.start, token.end))
            }
            Kind::Char(0) => "a zero byte".to_owned(),
            Kind::End => "end of the text".to_owned(),
            Kind::Char(c) if !c.is_ascii() => {
                format!(
                    "'{}'",
                    self.cursor.text(token.start, token.end).escape_debug()
                )
            }
            kind => kind.describe(),
        };
        let span = match token.kind {
            Kind::End => {
                // Where the text ends as people see it.
                let bytes = self.sources.bytes(self.cursor.file);
                let before = bytes.get(..token.start).unwrap_or(bytes);
                let end = before.trim_ascii_end().len();
                self.span(end, end)
            }
            _ => self.token_span(token),
        };
        let mut diagnostic = Diagnostic::error(format!("unexpected {what}"))
            .at(&self.sources, span)
            .expected(expected);
        if let (Kind::End, Some(&open)) = (token.kind, self.open.last()) {
            diagnostic = diagnostic.note_at("this is not closed", &self.sources, open);
        }
        let diagnostic = match token.kind {
            Kind::Provide => {
                diagnostic.hint("'provide' is reserved; configurations only require packages")
            }
            Kind::Variable => {
                diagnostic.hint("parameters are substituted in configuration strings only")
            }
            Kind::Char(b'~') => diagnostic.hint("'~>' context links are not part of the language"),
            Kind::Char(b'"' | b'\'') => diagnostic.hint("quotes belong into configuration strings"),
            Kind::Char(b'#') => {
                diagnostic.hint("comments start with // or are enclosed in /* and */")
            }
            _ => diagnostic,
        };
        self.report(diagnostic);
    }

    /// Counts a node of the syntax tree.
    fn node(&mut self, span: Span) {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            let d = Diagnostic::error(format!(
                "the configuration has more than {MAX_NODES} elements and statements"
            ));
            self.fatal(d.at(&self.sources, span));
        }
    }

    /// Enters a compound element or group; `None` if that is too deep.
    fn deeper(&mut self, token: Token) -> Option<()> {
        if self.nesting >= MAX_NESTING {
            self.fatal(
                Diagnostic::error(format!(
                    "more than {MAX_NESTING} compound elements and groups inside one another"
                ))
                .at(&self.sources, self.token_span(token)),
            );
            return None;
        }
        self.nesting += 1;
        self.open.push(self.token_span(token));
        Some(())
    }

    /// Reads a statement. False at the end: at `close` (which is left unread), or at the end of the text.
    fn statement(&mut self, close: Option<u8>, out: &mut Vec<Statement>) -> bool {
        let token = self.next();
        self.node(self.token_span(token));
        match token.kind {
            Kind::Ident | Kind::Char(b'[' | b'{' | b'(') | Kind::Arrow | Kind::DoubleArrow => {
                self.unread(token);
                out.extend(self.chain().map(Statement::Chain));
            }
            Kind::ElementClass => out.extend(self.element_class().map(Statement::ElementClass)),
            Kind::Require => out.extend(self.require().map(Statement::Require)),
            Kind::Define => out.extend(self.define().map(Statement::Define)),
            Kind::Char(b';') => {}
            Kind::Char(b'}') | Kind::Bars if close == Some(b'}') => {
                self.unread(token);
                return false;
            }
            Kind::Char(b')') if close == Some(b')') => {
                self.unread(token);
                return false;
            }
            Kind::End => {
                if let Some(close) = close {
                    self.unexpected(token, &format!("'{}'", close as char));
                }
                return false;
            }
            _ => self.unexpected(token, "a statement"),
        }
        true
    }

    fn group(&mut self, open: Token) -> Group {
        let mut statements = Vec::new();
        if self.deeper(open).is_some() {
            self.groups += 1;
            while self.statement(Some(b')'), &mut statements) {}
            self.accept(Kind::Char(b')'));
            self.groups -= 1;
            self.nesting -= 1;
            self.open.pop();
        }
        Group {
            statements,
            span: self.span(open.start, self.next_pos()),
        }
    }

    /// Reads a compound class after its `{`.
    fn compound(&mut self, open: Token, name: Option<&Name>) -> Compound {
        let mut compound = Compound {
            variants: Vec::new(),
            extends: None,
            span: self.token_span(open),
        };
        if self.deeper(open).is_none() {
            return compound;
        }
        self.compounds += 1;
        let mut start = open.start;
        loop {
            let mut token = self.next();
            if token.kind == Kind::Dots {
                let span = self.token_span(token);
                compound.extends = Some(span);
                if name.is_none() {
                    self.error(
                        span,
                        "a compound element class without a name extends nothing",
                    );
                }
                token = self.next();
                let closed = token.kind == Kind::Char(b'}');
                if !closed || compound.variants.is_empty() {
                    let d = Diagnostic::error("'...' has to be the last of several variants")
                        .at(&self.sources, span)
                        .hint("elementclass Name { $a | a variant || another variant || ... }");
                    self.report(d);
                }
                if closed && !compound.variants.is_empty() {
                    compound.span = self.span(open.start, token.end);
                    break;
                }
            }
            self.unread(token);
            let formals = self.formals();
            let mut statements = Vec::new();
            while self.statement(Some(b'}'), &mut statements) {}
            let token = self.next();
            compound.variants.push(Variant {
                formals,
                statements,
                span: self.span(start, token.end),
            });
            start = token.start;
            compound.span = self.span(open.start, token.end);
            if token.kind != Kind::Bars {
                break;
            }
        }
        self.compounds -= 1;
        self.nesting -= 1;
        self.open.pop();
        compound
    }

    /// Reads `$a, KEY $b |`, if it is there.
    fn formals(&mut self) -> Vec<Formal> {
        let mut formals: Vec<Formal> = Vec::new();
        loop {
            let first = self.next();
            let (keyword, variable) = match first.kind {
                Kind::Variable => (None, first),
                Kind::Char(b'|') => return formals,
                Kind::Ident => {
                    let second = self.next();
                    if second.kind != Kind::Variable {
                        if !formals.is_empty() {
                            self.unexpected(second, "a parameter such as $a");
                        }
                        self.unread(second);
                        self.unread(first);
                        return formals;
                    }
                    (Some(self.cursor.text(first.start, first.end)), second)
                }
                _ => {
                    if !formals.is_empty() {
                        self.unexpected(first, "a parameter such as $a");
                    }
                    self.unread(first);
                    return formals;
                }
            };
            let name = self.name(variable).text;
            formals.push(Formal {
                keyword,
                name,
                span: self.span(first.start, variable.end),
            });
            self.node(self.token_span(first));
            let separator = self.next();
            match separator.kind {
                Kind::Char(b'|') => return formals,
                Kind::Char(b',') => {}
                _ => {
                    self.unexpected(separator, "',' or '|' after a parameter");
                    self.unread(separator);
                    return formals;
                }
            }
        }
    }

    fn element_class(&mut self) -> Option<ElementClass> {
        let token = self.next();
        let name = if token.kind == Kind::Ident {
            Some(self.name(token))
        } else {
            self.unexpected(token, "the name of the new element class");
            self.unread(token);
            None
        };
        let token = self.next();
        let class = match token.kind {
            Kind::Char(b'{') => ClassRef::Compound(Box::new(self.compound(token, name.as_ref()))),
            Kind::Ident => ClassRef::Name(self.name(token)),
            _ => {
                self.unexpected(token, "'{' or the name of an element class");
                return None;
            }
        };
        name.map(|name| ElementClass { name, class })
    }

    fn require(&mut self) -> Option<Vec<Require>> {
        if !self.expect(Kind::Char(b'(')) {
            return None;
        }
        let text = self.config();
        self.close_config(&text);
        self.accept(Kind::Char(b';'));
        let here = self.span(self.cursor.pos, self.cursor.pos);
        let mut out = Vec::new();
        for arg in text.split_args() {
            let words = arg.split_spaces();
            let span = arg.span().unwrap_or(here);
            let kind = words
                .first()
                .and_then(|w| conf::parse_word(w))
                .unwrap_or_default();
            let value = words.get(1).and_then(|w| conf::parse_string(w));
            let value = value.map(|v| Name {
                text: String::from_utf8_lossy(&v).into_owned(),
                span,
            });
            match (kind.as_str(), words.len(), value) {
                (_, 0, _) => {}
                ("compact_config", 1, _) => out.push(Require::CompactConfig(span)),
                ("package", 2, Some(name)) => out.push(Require::Package(name)),
                ("library", 2, Some(name)) => out.extend(self.library(name)),
                ("" | "package", ..) | (_, 2.., _) => {
                    let d = Diagnostic::error("this is no requirement")
                        .at(&self.sources, span)
                        .expected("package \"name\", library \"file\", compact_config, or the name of a package");
                    self.report(d);
                }
                (package, 1, _) => out.push(Require::Package(Name {
                    text: package.to_owned(),
                    span,
                })),
            }
        }
        Some(out)
    }

    fn library(&mut self, name: Name) -> Option<Require> {
        if self.compounds > 0 {
            self.error(
                name.span,
                "libraries cannot be required inside compound elements",
            );
            return None;
        }
        let Some(libraries) = self.options.libraries else {
            self.error(
                name.span,
                format!("library '{}' cannot be read here", name.text),
            );
            return None;
        };
        let (file_name, text) = match libraries.find(&name.text, self.cursor.logical_name()) {
            Ok(found) => found,
            Err(why) => {
                self.error(
                    name.span,
                    format!("library '{}' cannot be read: {why}", name.text),
                );
                return None;
            }
        };
        let mut statements = Vec::new();
        if self.libraries.insert(file_name.clone()) {
            if self.libraries.len() > MAX_LIBRARIES || self.nesting >= MAX_NESTING {
                self.fatal(
                    Diagnostic::error(format!("more than {MAX_LIBRARIES} libraries"))
                        .at(&self.sources, name.span),
                );
                return None;
            }
            let file: FileId = self.sources.add(file_name, text);
            let inner = Cursor::new(&self.sources, file, self.options.ignore_line_directives);
            let outer = std::mem::replace(&mut self.cursor, inner);
            let unread = std::mem::take(&mut self.unread);
            self.nesting += 1;
            while self.statement(None, &mut statements) {}
            self.nesting -= 1;
            self.unread = unread;
            self.cursor = outer;
        }
        Some(Require::Library { name, statements })
    }

    fn define(&mut self) -> Option<Vec<Define>> {
        if !self.expect(Kind::Char(b'(')) {
            return None;
        }
        let text = self.config();
        self.close_config(&text);
        let here = self.span(self.cursor.pos, self.cursor.pos);
        let mut out = Vec::new();
        for arg in text.split_args() {
            let (word, value) = arg.shift_word();
            if word.is_empty() {
                continue;
            }
            let span = word.span().unwrap_or(here);
            match word.strip_prefix('$') {
                Some(name)
                    if !name.is_empty()
                        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_') =>
                {
                    out.push(Define {
                        name: Name {
                            text: name.to_owned(),
                            span,
                        },
                        value,
                    });
                }
                _ => {
                    let d = Diagnostic::error(format!("'{}' is no parameter", word.as_str()))
                        .at(&self.sources, span)
                        .expected("$NAME and its value");
                    self.report(d);
                }
            }
        }
        Some(out)
    }
}
