//! Reading what a program consists of: declarations, stages, rules.

use super::super::lex::Kind;
use super::words::{indexed, origin_of};
use super::{ParseError, Parser, Res};
use crate::program::*;

impl Parser<'_> {
    pub(super) fn item(&mut self) -> Res<()> {
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
        } else if self.has_word("take") {
            let name = self.string()?;
            if self.program.takes.iter().any(|(n, _)| *n == name) {
                return self.wrong("packets are taken under this name already");
            }
            let stage = self.stage_id()?;
            self.program.takes.push((name, stage));
        } else if self
            .peek()
            .is_some_and(|t| t.kind == Kind::Word && indexed(t.text, "stage").is_some())
        {
            let n = self.program.stages.len();
            self.numbered("stage", n)?;
            self.stage()?;
        } else {
            return self.expected("'note', 'element', 'slot', 'entry', 'take' or 'stageN'");
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
            among: Vec::new(),
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
        } else if self.has_word("among") {
            stage.among.push(self.filter()?);
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
            return self.expected("'known', 'among', 'when', 'aN {' or '}'");
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
}
