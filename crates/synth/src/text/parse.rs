//! Reading a program's text.

use super::lex::{Kind, Token, tokens, unescape};
use super::names::{ANNOS, CHECKS, PACKET_TYPES, bits_of};
use super::print::{EXPECTED, EXPECTED_STYLE};
use crate::program::*;
use onefold_elements::ElemId;
use onefold_elements::model::{AnnoKey, BindKind, ValueSet, max_of};
use onefold_packet::EtherAddr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Errors that are told; reading stops there.
pub const MAX_ERRORS: usize = 50;
/// Largest text that is read, in bytes.
pub const MAX_TEXT: usize = 64 << 20;

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

/// Reads a program. All errors found are told, at most [`MAX_ERRORS`]; a text of more than [`MAX_TEXT`] bytes is refused.
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

    /// Behind an error in the item that began at token `start`: on to the next line that begins an item beside it, or to the
    /// brace that closes the block that it stands in.
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

    fn item(&mut self) -> Res<()> {
        if self.has_word("note") {
            let s = self.string()?;
            self.program.notes.push(s);
        } else if self.has_word("element") {
            let n = self.program.elements.len();
            self.numbered("e", n)?;
            let s = self.string()?;
            self.program.elements.push(s);
        } else if self.has_word("slot") {
            if !self.program.stages.is_empty() {
                return self.wrong("slots are declared before the stages");
            }
            let n = self.program.slots.len();
            if n > usize::from(u16::MAX) {
                return self.wrong("there are at most 65536 slots");
            }
            self.numbered("s", n)?;
            self.keyword("bits")?;
            let bits = self.int("a number of bits")?;
            self.keyword("in")?;
            let set = self.set(bits)?;
            self.program.slots.push(SlotInfo { bits, set });
        } else if self.has_word("entry") {
            let source = self.elem()?;
            let stage = self.stage_id()?;
            self.program.entries.push(Entry { source, stage });
        } else if self
            .peek()
            .is_some_and(|t| t.kind == Kind::Word && indexed(t.text, "stage").is_some())
        {
            let n = self.program.stages.len();
            self.numbered("stage", n)?;
            self.stage()?;
        } else {
            return self.expected("'note', 'element', 'slot', 'entry' or 'stageN'");
        }
        Ok(())
    }

    /// `PREFIXn`, where n is the next number.
    fn numbered(&mut self, prefix: &str, n: usize) -> Res<()> {
        self.word(&format!("'{prefix}{n}' (numbers ascend by one)"), |w| {
            (indexed(w, prefix) == Some(n as u64)).then_some(())
        })
    }

    fn stage(&mut self) -> Res<()> {
        self.keyword("at")?;
        let at = self.elem_port()?;
        let why = self.word(
            "why the stage exists: entry, dynamic, bound, copy, asked, written or budget",
            |w| {
                Some(match w {
                    "entry" => Why::Entry,
                    "dynamic" => Why::Dynamic,
                    "bound" => Why::Bound,
                    "copy" => Why::Copy,
                    "asked" => Why::Asked,
                    "written" => Why::Written,
                    "budget" => Why::Budget,
                    _ => return None,
                })
            },
        )?;
        let fresh = self.has_word("fresh");
        self.punct("{")?;
        let mut stage = Stage {
            at,
            why,
            fresh,
            known: Filter::default(),
            rules: Vec::new(),
            actions: Vec::new(),
        };
        while !self.full() {
            if self.accept(Kind::Punct, "}") {
                break;
            }
            if self.peek().is_none() {
                self.program.stages.push(stage);
                return self.expected("'}' at the stage's end");
            }
            let start = self.at;
            if let Err(e) = self.stage_item(&mut stage) {
                self.recover(start, e);
            }
        }
        self.program.stages.push(stage);
        Ok(())
    }

    fn stage_item(&mut self, stage: &mut Stage) -> Res<()> {
        if self.has_word("known") {
            stage.known = self.filter()?;
        } else if self.has_word("when") {
            let filter = self.filter()?;
            self.punct("=>")?;
            let action = self.word("an action (a0, a1 ...)", |w| {
                indexed(w, "a")
                    .and_then(|n| u32::try_from(n).ok())
                    .map(ActionId)
            })?;
            let mut origin = Vec::new();
            if self.has_word("from") {
                while self
                    .peek()
                    .is_some_and(|t| t.kind == Kind::Word && !t.first)
                {
                    origin
                        .push(self.word("an element, or one with an argument (e3.0)", origin_of)?);
                }
            }
            stage.rules.push(Rule {
                filter,
                action,
                origin,
            });
        } else if self
            .peek()
            .is_some_and(|t| t.kind == Kind::Word && indexed(t.text, "a").is_some())
        {
            self.numbered("a", stage.actions.len())?;
            self.punct("{")?;
            // whatever is wrong inside, the action keeps its number
            let action = self.action();
            let failed = action.is_err();
            stage.actions.push(match action {
                Ok(a) => a,
                Err(e) => {
                    let start = self.at;
                    self.skip_block(start, e);
                    Action {
                        steps: Vec::new(),
                        end: End::Unreachable,
                        path: Vec::new(),
                    }
                }
            });
            if !failed {
                self.punct("}")?;
            }
        } else {
            return self.expected("'known', 'when', 'aN {' or '}'");
        }
        Ok(())
    }

    /// Behind an error within an action: on behind the brace that closes it, found by the next line that begins with an
    /// action, a rule or a stage.
    fn skip_block(&mut self, start: usize, e: ParseError) {
        self.errors.push(e);
        let mut i = start;
        while let Some(t) = self.tokens.get(i) {
            let word = t.first && t.kind == Kind::Word;
            let opens = self
                .tokens
                .get(i + 1)
                .is_some_and(|n| n.kind == Kind::Punct && n.text == "{");
            if word && (t.text == "when" || (indexed(t.text, "a").is_some() && opens)) {
                break;
            }
            // the stage's end: nothing, or the next one, follows
            let closes = t.kind == Kind::Punct && t.text == "}" && t.first && t.column == 1;
            if closes || (word && indexed(t.text, "stage").is_some()) {
                break;
            }
            i += 1;
        }
        self.at = i;
    }

    fn action(&mut self) -> Res<Action> {
        let mut steps = Vec::new();
        loop {
            if self.has_word("count") {
                let elem = self.elem()?;
                self.keyword("tag")?;
                let tag = self.int("a tag")?;
                self.keyword("from")?;
                let start = self.signed()?;
                self.keyword("to")?;
                let end = self.end_at()?;
                let len = LenAt { start, end };
                steps.push(Step::Count { elem, tag, len });
            } else if self.has_word("bind") {
                steps.push(self.bind()?);
            } else {
                break;
            }
        }
        let end = self.end()?;
        let mut path = Vec::new();
        if self.has_word("path") {
            while self
                .peek()
                .is_some_and(|t| t.kind == Kind::Word && !t.first)
            {
                path.push(self.elem()?);
            }
        }
        if !self.is(Kind::Punct, "}") {
            return self.expected("'}' at the action's end");
        }
        Ok(Action { steps, end, path })
    }

    fn bind(&mut self) -> Res<Step> {
        let (elem, port) = self.elem_port()?;
        let kind = self.word("flow, addresses or ping", |w| {
            Some(match w {
                "flow" => BindKind::Flow,
                "addresses" => BindKind::Addresses,
                "ping" => BindKind::Ping,
                _ => return None,
            })
        })?;
        self.keyword("into")?;
        let first = self.slot()?;
        self.keyword("with")?;
        let image = self.image()?;
        let mut expect = None;
        if self.has_word("expect") {
            self.keyword("output")?;
            let output = self.int("an output")?;
            let mut kept = [false; 4];
            let mut sets = EXPECTED_STYLE.map(|(_, bits)| ValueSet::full(bits));
            for (i, name) in EXPECTED.iter().enumerate() {
                self.keyword(name)?;
                kept[i] = self.has_word("kept");
                if self.has_word("in") {
                    sets[i] = self.set(EXPECTED_STYLE[i].1)?;
                }
            }
            expect = Some(Expect { output, kept, sets });
        }
        let bound = match self.has_word("bound") {
            true => self.nexts()?,
            false => Vec::new(),
        };
        let pass = match self.has_word("pass") {
            true => self.nexts()?,
            false => Vec::new(),
        };
        Ok(Step::Bind {
            elem,
            port,
            kind,
            image,
            first,
            expect,
            bound,
            pass,
        })
    }

    fn end(&mut self) -> Res<End> {
        if self.has_word("output") {
            let sink = self.elem()?;
            let image = self.image()?;
            return Ok(End::Output { sink, image });
        }
        if self.has_word("drop") {
            let elem = self.elem()?;
            let reason = self.string()?;
            return Ok(End::Drop { elem, reason });
        }
        if self.has_word("punt") {
            let (elem, port) = self.elem_port()?;
            let cause = self.string()?;
            let image = self.image()?;
            return Ok(End::Punt {
                elem,
                port,
                cause,
                image,
            });
        }
        if self.has_word("ask") {
            let (elem, port) = self.elem_port()?;
            let cause = self.string()?;
            let image = self.image()?;
            self.keyword("outputs")?;
            let outputs = self.nexts()?;
            return Ok(End::Ask {
                elem,
                port,
                cause,
                image,
                outputs,
            });
        }
        if self.has_word("write") {
            let image = self.image()?;
            self.keyword("then")?;
            let next = self.stage_id()?;
            return Ok(End::Write { image, next });
        }
        if self.has_word("goto") {
            return Ok(End::Goto(self.stage_id()?));
        }
        if self.has_word("fork") {
            return Ok(End::Fork(self.nexts()?));
        }
        if self.has_word("unreachable") {
            return Ok(End::Unreachable);
        }
        self.expected("a step (count, bind) or an end (output, drop, punt, ask, write, goto, fork, unreachable)")
    }

    fn nexts(&mut self) -> Res<Vec<Next>> {
        self.punct("[")?;
        let mut out = Vec::new();
        while !self.accept(Kind::Punct, "]") {
            if !out.is_empty() {
                self.punct(",")?;
            }
            out.push(match self.has_word("unconnected") {
                true => Next::Unconnected(self.elem()?),
                false => Next::Stage(self.stage_id()?),
            });
        }
        Ok(out)
    }

    fn end_at(&mut self) -> Res<EndAt> {
        if self.has_word("end") {
            Ok(EndAt::Same)
        } else if self.has_word("ip4") {
            Ok(EndAt::Ip4(self.signed()?))
        } else if self.has_word("ip6") {
            Ok(EndAt::Ip6(self.signed()?))
        } else {
            self.expected("'end', 'ip4 BYTE' or 'ip6 BYTE'")
        }
    }

    fn image(&mut self) -> Res<Arc<Image>> {
        self.punct("{")?;
        let mut image = Image::default();
        while !self.accept(Kind::Punct, "}") {
            if self.has_word("start") {
                image.start = self.signed()?;
            } else if self.has_word("end") {
                image.end = self.end_at()?;
            } else if self.has_word("write") {
                let (bit, bits) = self.target()?;
                self.punct("=")?;
                let value = self.expr()?;
                image.writes.push(Write { bit, bits, value });
            } else if self.has_word("sum") {
                let s = self.sum()?;
                image.sums.push(s);
            } else if self.has_word("net") {
                image.net = self.mark()?;
            } else if self.has_word("mac") {
                image.mac = self.mark()?;
            } else if self.has_word("cleared") {
                image.cleared = true;
            } else if self.has_word("type") {
                image.packet_type = self.packet_type()?;
            } else if self
                .peek()
                .is_some_and(|t| t.kind == Kind::Word && anno_of(t.text).is_some())
            {
                let a = self.word("an annotation", anno_of)?;
                self.punct("=")?;
                let e = self.expr()?;
                image.annos.push((a, e));
            } else {
                return self
                    .expected("start, end, write, sum, net, mac, cleared, anno.NAME, type or '}'");
            }
        }
        Ok(Arc::new(image))
    }

    fn mark(&mut self) -> Res<Mark> {
        if self.has_word("none") {
            return Ok(Mark::None);
        }
        self.keyword("at")?;
        let at = self.signed()?;
        self.keyword("len")?;
        Ok(Mark::At(at, self.int("a header's length")?))
    }

    fn packet_type(&mut self) -> Res<TypeExpr> {
        if !self.has_word("of") {
            return Ok(TypeExpr::Is(self.word("a packet type", |w| {
                number(w).and_then(|v| u8::try_from(v).ok())
            })?));
        }
        let e = self.expr()?;
        let device = match self.has_word("at") {
            false => None,
            true => Some(self.word("an Ethernet address", |w| {
                number(w)
                    .filter(|v| *v <= max_of(48))
                    .and_then(|v| EtherAddr::from_slice(&v.to_be_bytes()[10..]))
            })?),
        };
        Ok(TypeExpr::Destination(e, device.map(|a| a.0)))
    }

    fn sum(&mut self) -> Res<SumWrite> {
        let kind = self.word("ip4, tcp, udp or icmp", |w| {
            Some(match w {
                "ip4" => SumKind::Ip4,
                "tcp" => SumKind::Tcp,
                "udp" => SumKind::Udp,
                "icmp" => SumKind::Icmp,
                _ => return None,
            })
        })?;
        self.keyword("of")?;
        let header = self.signed()?;
        self.keyword("at")?;
        let at = self.signed()?;
        let anew = self.has_word("anew");
        let mut groups = Vec::new();
        while self.has_word("group") {
            let mut terms = Vec::new();
            loop {
                if self.has_word("add") {
                    terms.push(SumTerm::Slot(self.slot()?));
                } else if self.has_word("change") {
                    let (bit, bits) = self.target()?;
                    self.keyword("from")?;
                    let from = self.expr()?;
                    self.keyword("to")?;
                    let to = self.expr()?;
                    terms.push(SumTerm::Change {
                        bit,
                        bits,
                        from,
                        to,
                    });
                } else {
                    break;
                }
            }
            groups.push(terms);
        }
        Ok(SumWrite {
            kind,
            header,
            at,
            anew,
            groups,
        })
    }

    /// Bits of the packet.
    fn target(&mut self) -> Res<(i32, u8)> {
        self.word(
            "bits of the packet (a field's name or @BIT:BITS)",
            |w| match dim_of(w)? {
                Dim::Bits { bit, bits } => Some((bit, bits)),
                _ => None,
            },
        )
    }

    fn dim(&mut self) -> Res<Dim> {
        let Some(t) = self.peek() else {
            return self.expected("a field");
        };
        if t.kind == Kind::Word
            && let Some((_, check)) = CHECKS.iter().find(|c| c.0 == t.text)
        {
            self.at += 1;
            self.punct("(")?;
            let at = self.signed()?;
            let end = match self.has_word("to") {
                true => self.end_at()?,
                false => EndAt::Same,
            };
            self.punct(")")?;
            return Ok(Dim::Check {
                check: *check,
                at,
                end,
            });
        }
        self.word(
            "a field (ip.src, @BIT:BITS, len, a check, a slot, anno.NAME, packet_type)",
            dim_of,
        )
    }

    fn filter(&mut self) -> Res<Filter> {
        let mut f = Filter::default();
        if self.has_word("any") {
            return Ok(f);
        }
        loop {
            let d = self.dim()?;
            let bits = super::width(&self.program.slots, d);
            let set = self.comparison(bits)?;
            f.0.push((d, set));
            if !self.accept(Kind::Punct, ",") {
                return Ok(f);
            }
        }
    }

    fn comparison(&mut self, bits: u8) -> Res<ValueSet> {
        let number = |p: &mut Self| p.word("a number or address", number);
        if self.accept(Kind::Punct, "=") {
            Ok(ValueSet::one(number(self)?))
        } else if self.accept(Kind::Punct, "!=") {
            Ok(ValueSet::one(number(self)?).complement(bits))
        } else if self.accept(Kind::Punct, ">=") {
            Ok(ValueSet::range(number(self)?, max_of(bits)))
        } else if self.accept(Kind::Punct, "<=") {
            Ok(ValueSet::range(0, number(self)?))
        } else if self.has_word("in") {
            self.set(bits)
        } else if self.has_word("not") {
            self.keyword("in")?;
            Ok(self.set(bits)?.complement(bits))
        } else {
            self.expected("'=', '!=', '>=', '<=', 'in' or 'not in'")
        }
    }

    fn set(&mut self, bits: u8) -> Res<ValueSet> {
        if !self.accept(Kind::Punct, "{") {
            let (l, h) = self.interval(bits)?;
            return Ok(ValueSet::range(l, h));
        }
        let mut list = Vec::new();
        while !self.accept(Kind::Punct, "}") {
            if !list.is_empty() {
                self.punct(",")?;
            }
            list.push(self.interval(bits)?);
        }
        Ok(ValueSet::from_intervals(list))
    }

    fn interval(&mut self, bits: u8) -> Res<(u128, u128)> {
        let l = self.word("a number or address", number)?;
        if self.accept(Kind::Punct, "-") {
            let h = self.word("the interval's end", number)?;
            if h < l {
                self.at -= 1;
                return self.wrong("the interval ends before it begins");
            }
            return Ok((l, h));
        }
        if self.accept(Kind::Punct, "/") {
            let len = self.word("a prefix length within the field's width", |w| {
                plain(w)
                    .and_then(|n| u8::try_from(n).ok())
                    .filter(|n| *n <= bits)
            })?;
            let set = ValueSet::prefix(l, len, bits);
            return match set.intervals() {
                [i] => Ok(*i),
                _ => self.wrong("an empty prefix"),
            };
        }
        Ok((l, l))
    }

    fn expr(&mut self) -> Res<Expr> {
        if self
            .peek()
            .is_some_and(|t| t.kind == Kind::Word && number(t.text).is_some())
        {
            return Ok(Expr::Const(self.word("a number", number)?));
        }
        let d = self.dim()?;
        let max = max_of(super::width(&self.program.slots, d));
        let delta = if self.accept(Kind::Punct, "+") {
            self.int::<u128>("a number")?
        } else if self.accept(Kind::Punct, "-") {
            self.word("a number within the field's width", |w| {
                plain(w)
                    .filter(|n| *n <= max)
                    .map(|n| if n == 0 { 0 } else { max - n + 1 })
            })?
        } else {
            0
        };
        Ok(Expr::Of(d, delta))
    }
}

/// A token's text, short.
fn cut(s: &str) -> String {
    s.chars().take(40).collect()
}

/// `PREFIXn`: n.
fn indexed(w: &str, prefix: &str) -> Option<u64> {
    let n = w.strip_prefix(prefix)?;
    (!n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        .then(|| n.parse().ok())
        .flatten()
}

fn slot_of(w: &str) -> Option<Slot> {
    indexed(w, "s")
        .and_then(|n| u16::try_from(n).ok())
        .map(Slot)
}

fn origin_of(w: &str) -> Option<Origin> {
    let (e, arg) = match w.split_once('.') {
        Some((e, a)) => (e, Some(u32::try_from(plain(a)?).ok()?)),
        None => (w, None),
    };
    let elem = indexed(e, "e").and_then(|n| u32::try_from(n).ok())?;
    Some(Origin {
        elem: ElemId(elem),
        arg,
    })
}

fn anno_of(w: &str) -> Option<AnnoKey> {
    if let Some(name) = w.strip_prefix("anno.") {
        let a = ANNOS.iter().find(|a| a.0 == name)?;
        return Some(AnnoKey {
            offset: a.1,
            size: a.2,
        });
    }
    let (offset, size) = w.strip_prefix("anno@")?.split_once(':')?;
    Some(AnnoKey {
        offset: offset.parse().ok()?,
        size: size.parse().ok()?,
    })
}

/// Dimensions of one word: all but checks.
fn dim_of(w: &str) -> Option<Dim> {
    match w {
        "len" => return Some(Dim::Len),
        "packet_type" => return Some(Dim::PacketType),
        _ => {}
    }
    if let Some(s) = slot_of(w) {
        return Some(Dim::Slot(s));
    }
    if w.starts_with("anno") {
        return anno_of(w).map(Dim::Anno);
    }
    if let Some((bit, bits)) = w.strip_prefix('@').and_then(|r| r.split_once(':')) {
        let bits: u8 = bits.parse().ok()?;
        let bit = bit.parse().ok()?;
        return (1..=128).contains(&bits).then_some(Dim::Bits { bit, bits });
    }
    bits_of(w).map(|(bit, bits)| Dim::Bits { bit, bits })
}

/// A decimal or hexadecimal number.
fn plain(w: &str) -> Option<u128> {
    let (digits, radix) = match w.strip_prefix("0x") {
        Some(d) => (d, 16),
        None => (w, 10),
    };
    digits
        .bytes()
        .all(|b| b.is_ascii_hexdigit())
        .then(|| u128::from_str_radix(digits, radix).ok())
        .flatten()
}

/// A number, an address, or the name of a packet type.
fn number(w: &str) -> Option<u128> {
    if let Some(n) = plain(w) {
        return Some(n);
    }
    if let Some(i) = PACKET_TYPES.iter().position(|p| *p == w) {
        return Some(i as u128);
    }
    if w.contains(':') {
        if let Ok(EtherAddr(a)) = w.parse() {
            let mut v = [0u8; 16];
            v[10..].copy_from_slice(&a);
            return Some(u128::from_be_bytes(v));
        }
        return w.parse::<Ipv6Addr>().ok().map(u128::from);
    }
    w.parse::<Ipv4Addr>().ok().map(|a| u32::from(a).into())
}
