//! Reading filters, sets of values and expressions.

use super::super::lex::Kind;
use super::super::names::{CHECKS, route_of};
use super::super::width;
use super::words::{address_of, dim_of, number, plain};
use super::{Parser, Res};
use crate::program::{Dim, EndAt, Expr, Filter};
use onefold_element::model::{ValueSet, max_of};

impl Parser<'_> {
    /// Bits of the packet.
    pub(super) fn target(&mut self) -> Res<(i32, u8)> {
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
        if t.kind == Kind::Word
            && let Some(what) = route_of(t.text)
        {
            self.at += 1;
            self.punct("(")?;
            let table = self.elem()?;
            self.keyword("of")?;
            let of = self.word("an address, or 32 or 128 bits with one", address_of)?;
            self.punct(")")?;
            return Ok(Dim::Route { table, of, what });
        }
        self.word(
            "a field (ip.src, @BIT:BITS, len, a check, route(eN of ADDRESS), a slot, anno.NAME, packet_type)",
            dim_of,
        )
    }

    pub(super) fn filter(&mut self) -> Res<Filter> {
        let mut f = Filter::default();
        if self.has_word("any") {
            return Ok(f);
        }
        loop {
            let d = self.dim()?;
            let bits = width(&self.program.slots, d);
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

    pub(super) fn set(&mut self, bits: u8) -> Res<ValueSet> {
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

    pub(super) fn expr(&mut self) -> Res<Expr> {
        if self
            .peek()
            .is_some_and(|t| t.kind == Kind::Word && number(t.text).is_some())
        {
            return Ok(Expr::Const(self.word("a number", number)?));
        }
        let d = self.dim()?;
        let max = max_of(width(&self.program.slots, d));
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
