//! The program's side: filters, expressions and images as functions of the epoch's packet.

use super::bits;
use super::dd::{NO, Ref};
use super::first::Rule;
use super::packet::{Cause, Sym, World};
use super::sum::Sum;
use super::vars::Bit;
use onefold_element::model::{HeaderCheck, ValueSet};
use onefold_synth::program::{
    Address, Dim, EndAt, Expr, Image, Mark, Program, Slot, Stage, SumTerm, TypeExpr,
};
use std::collections::{BTreeMap, HashMap};

/// What the slots hold on a path.
pub type Slots = BTreeMap<Slot, Vec<Ref>>;

/// A program's meaning within an epoch.
pub struct Reader<'a> {
    /// The program.
    pub program: &'a Program,
    /// What the slots hold.
    pub slots: &'a Slots,
}

impl Reader<'_> {
    /// A dimension's bits.
    pub fn dim(&self, w: &mut World, d: Dim) -> Result<Vec<Ref>, Cause> {
        Ok(match d {
            Dim::Len => w.length(0, EndAt::Same),
            Dim::Bits { bit, bits } => w.vars.packet(&mut w.dd, bit, bits),
            Dim::Check { check, .. } if of_checksum(check) && !w.facts.apart.is_empty() => {
                return Err("a checksum is asked about that may be another one");
            }
            Dim::Check { check, at, end } => vec![w.question(check, at, end)],
            Dim::Slot(s) => {
                let bits = self.program.slots.get(usize::from(s.0)).map(|s| s.bits);
                match (self.slots.get(&s), bits) {
                    (Some(v), Some(bits)) => bits::resize(v, bits),
                    _ => return Err("a slot is read that nothing has filled"),
                }
            }
            Dim::Anno(k) => {
                let fresh = w.fresh();
                let from = usize::from(k.offset) * 8;
                let v = fresh.annos.get(from..from + usize::from(k.size) * 8);
                v.ok_or("an annotation that there is not")?.to_vec()
            }
            Dim::PacketType => w.fresh().kind,
            Dim::Route { table, of, what } => {
                let address = match of {
                    Address::Bits { bit, bits } => w.vars.packet(&mut w.dd, bit, bits),
                    Address::Anno(k) => self.dim(w, Dim::Anno(k))?,
                    Address::Is { value, bits } => bits::constant(value, bits),
                };
                w.route(table, what, address)?
            }
        })
    }

    /// An expression, in so many bits.
    pub fn expr(&self, w: &mut World, e: Expr, width: u8) -> Result<Vec<Ref>, Cause> {
        match e {
            Expr::Const(c) => Ok(bits::constant(c, width)),
            Expr::Of(d, add) => {
                let v = self.dim(w, d)?;
                let v = bits::plus(&mut w.dd, &v, add);
                Ok(bits::resize(&v, width))
            }
        }
    }

    /// The rules of a stage, each with its action's number plus one.
    pub fn rules(&self, w: &mut World, s: &Stage) -> Result<Vec<Rule>, Cause> {
        let mut known: HashMap<(Dim, &ValueSet), Ref> = HashMap::new();
        let mut dims: HashMap<Dim, Vec<Ref>> = HashMap::new();
        let mut list = Vec::with_capacity(s.rules.len());
        for r in &s.rules {
            let mut all = Vec::with_capacity(r.filter.0.len());
            for (d, set) in &r.filter.0 {
                let here = match known.get(&(*d, set)) {
                    Some(f) => *f,
                    None => {
                        let f = match d {
                            Dim::Len => w.length_in(0, EndAt::Same, set),
                            d => {
                                let v = match dims.get(d) {
                                    Some(v) => v,
                                    None => {
                                        let v = self.dim(w, *d)?;
                                        dims.entry(*d).or_insert(v)
                                    }
                                };
                                bits::is_in(&mut w.dd, v, set)
                            }
                        };
                        known.insert((*d, set), f);
                        f
                    }
                };
                all.push(here);
            }
            list.push(Rule {
                all,
                value: r.action.0 + 1,
            });
        }
        Ok(list)
    }

    /// The packet as an image has it.
    pub fn image(&self, w: &mut World, m: &Image) -> Result<Sym, Cause> {
        let mut s = w.fresh();
        s.start = m.start;
        s.end = m.end;
        for x in &m.writes {
            let v = self.expr(w, x.value, x.bits)?;
            w.put(&mut s, x.bit, &v);
        }
        for x in &m.sums {
            let mut groups = Vec::with_capacity(x.groups.len());
            for g in &x.groups {
                let mut sum = Sum::default();
                for t in g {
                    self.term(w, &mut sum, t, x.header)?;
                }
                groups.push(sum);
            }
            if s.sum_in(x.at * 8, 16) {
                return Err("two checksums at one place");
            }
            let p = s.pending(x.kind, x.header, x.at)?;
            p.anew = x.anew;
            p.groups = if x.anew { Vec::new() } else { groups };
        }
        match m.net {
            Mark::Same => {}
            Mark::None => s.net = None,
            Mark::At(at, len) => s.net = Some((at, Some(len))),
            Mark::Alone(at) => s.net = Some((at, None)),
        }
        match m.mac {
            Mark::Same => {}
            Mark::None => s.mac = None,
            Mark::At(at, _) | Mark::Alone(at) => s.mac = Some(at),
        }
        let before = s.annos.clone();
        if m.cleared {
            s.annos.fill(NO);
        }
        for (k, e) in &m.annos {
            let v = match *e {
                // annotations are read as they were
                Expr::Of(Dim::Anno(from), 0) if from.size == k.size => {
                    let at = usize::from(from.offset) * 8;
                    let v = before.get(at..at + usize::from(from.size) * 8);
                    v.ok_or("an annotation that there is not")?.to_vec()
                }
                e => self.expr(w, e, k.size.saturating_mul(8))?,
            };
            let at = usize::from(k.offset) * 8;
            match s.annos.get_mut(at..at + v.len()) {
                Some(to) => to.copy_from_slice(&v),
                None => return Err("an annotation that there is not"),
            }
        }
        match m.packet_type {
            TypeExpr::Same => {}
            TypeExpr::Is(t) => s.kind = bits::constant(t.into(), 8),
            TypeExpr::Destination(e, device) => {
                let dst = self.expr(w, e, 48)?;
                s.kind = bits::packet_type(&mut w.dd, &dst, device);
            }
        }
        Ok(s)
    }

    fn term(&self, w: &mut World, sum: &mut Sum, t: &SumTerm, header: i32) -> Result<(), Cause> {
        match *t {
            SumTerm::Slot(s) => {
                let v = self.dim(w, Dim::Slot(s))?;
                sum.add(&mut w.dd, &bits::resize(&v, 16));
            }
            SumTerm::Change {
                bit,
                bits: n,
                from,
                to,
            } => {
                let (from, to) = (self.expr(w, from, n)?, self.expr(w, to, n)?);
                // words are counted from the IP header; of a word that is not touched whole, the other bits do not
                // count
                let start = bit - header * 8;
                let end = start + i32::from(n);
                for word in start.div_euclid(16)..=(end - 1).div_euclid(16) {
                    let part = |v: &[Ref]| -> Vec<Ref> {
                        let bit = |i: i32| {
                            let i = usize::try_from(word * 16 + i - start).ok();
                            i.and_then(|i| v.get(i)).copied().unwrap_or(NO)
                        };
                        (0..16).map(bit).collect()
                    };
                    sum.change(&mut w.dd, &part(&from), &part(&to));
                }
            }
        }
        Ok(())
    }
}

fn of_checksum(check: HeaderCheck) -> bool {
    matches!(
        check,
        HeaderCheck::Ip4Checksum
            | HeaderCheck::TcpChecksum
            | HeaderCheck::UdpChecksum
            | HeaderCheck::IcmpChecksum
    )
}

/// Variables that a new binding on a path gives.
pub fn binding(w: &mut World, nth: u32) -> Vec<Vec<Ref>> {
    let mut out = Vec::with_capacity(7);
    for (what, bits) in super::vars::BOUND_BITS.iter().enumerate() {
        let v = (0..*bits).map(|i| w.vars.var(&mut w.dd, Bit::Bound(nth, what as u8, i)));
        out.push(v.collect());
    }
    out
}
