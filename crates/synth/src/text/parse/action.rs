//! Reading actions: steps, ends, images.

use super::super::lex::Kind;
use super::super::print::{EXPECTED, EXPECTED_STYLE};
use super::words::{anno_of, number};
use super::{Parser, Res};
use crate::program::*;
use onefold_element::model::{BindKind, FlowSide, ValueSet, max_of};
use onefold_packet::EtherAddr;
use std::sync::Arc;

impl Parser<'_> {
    pub(super) fn action(&mut self) -> Res<Action> {
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
        let anno = match self.has_word("anno") {
            false => None,
            true => {
                let at = self.int("the byte of an annotation")?;
                self.keyword("into")?;
                Some((at, self.slot()?))
            }
        };
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
        let sides = match self.has_word("only") {
            true => Some(self.sides()?),
            false => None,
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
            anno,
            expect,
            bound,
            sides,
            pass,
        })
    }

    fn sides(&mut self) -> Res<Vec<FlowSide>> {
        let mut out = Vec::new();
        loop {
            let reply = self.has_word("reply");
            if !reply && !self.has_word("forward") {
                return Ok(out);
            }
            self.keyword("of")?;
            let origin = self.int("an input")?;
            self.keyword("output")?;
            let output = self.int("an output")?;
            let full = EXPECTED_STYLE.map(|(_, bits)| ValueSet::full(bits));
            let mut s = FlowSide {
                origin,
                reply,
                output,
                from: full.clone(),
                kept: [false; 4],
                to: full,
            };
            for (i, name) in EXPECTED.iter().enumerate() {
                let bits = EXPECTED_STYLE[i].1;
                self.keyword(name)?;
                if self.has_word("in") {
                    s.from[i] = self.set(bits)?;
                }
                s.kept[i] = self.has_word("kept");
                if self.has_word("to") {
                    s.to[i] = self.set(bits)?;
                }
            }
            out.push(s);
        }
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
            let next = self.stage_or_hand()?;
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

    /// A stage, or the name of a place in a later program.
    fn stage_or_hand(&mut self) -> Res<StageId> {
        if self.peek().is_none_or(|t| t.kind != Kind::Str) {
            return self.stage_id();
        }
        let name = self.string()?;
        let hands = &mut self.program.hands;
        let i = hands.iter().position(|h| *h == name).unwrap_or_else(|| {
            hands.push(name);
            hands.len() - 1
        });
        Ok(StageId::elsewhere(i))
    }

    fn nexts(&mut self) -> Res<Vec<Next>> {
        self.punct("[")?;
        let mut out = Vec::new();
        while !self.accept(Kind::Punct, "]") {
            if !out.is_empty() {
                self.punct(",")?;
            }
            out.push(if self.has_word("unconnected") {
                Next::Unconnected(self.elem()?)
            } else if self.has_word("never") {
                Next::Never
            } else {
                Next::Stage(self.stage_or_hand()?)
            });
        }
        Ok(out)
    }

    pub(super) fn end_at(&mut self) -> Res<EndAt> {
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
        if self.has_word("alone") {
            return Ok(Mark::Alone(at));
        }
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
}
