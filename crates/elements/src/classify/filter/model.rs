//! A list of rules as cases of a symbolic model.
//!
//! Behind guards that make sure that every field a rule reads is there, a rule is a plain Boolean expression of field
//! values, and so is its negation. It is brought to a union of products (one set of values per field); products that
//! differ in one field only become one, so that `dst port 80 or 443` is one product.
//!
//! The guards stand before the first rule that needs them: rules that look at addresses only decide about fragments,
//! too.
//!
//! A rule that cannot be said (a mask with holes in a comparison, bytes beyond every header, too many products) does
//! not cost the list its model: a case stands in its place that holds for *at least* the packets that it matches, and
//! asks the element. What the rule certainly does not match goes on to the rules behind it.

use super::expr::{Check, Compare, Expr, Field, Layer, Op, Test, Transport, Which};
use super::parse::Action;
use super::rules::Rule;
pub use cut::finer;
use onefold_element::DropReason;
use onefold_element::model::build::{CUT_OFF, Cases, FRAGMENT};
use onefold_element::model::{
    Base, Case, Cond, Exit, FieldRef, Model, Read, ValueSet, bits, bytes, field, max_of,
};
use std::collections::BTreeMap;

mod cut;

/// More products than this for one rule, or more intervals for one field, and there is no model.
const MAX_PRODUCTS: usize = 256;

/// Why packets are dropped.
pub struct Reasons {
    /// By the element, whatever the rules say.
    pub no_header: DropReason,
    /// By a rule.
    pub denied: DropReason,
    /// By no rule.
    pub no_match: DropReason,
}

/// What a model cannot say; the element is asked for this cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Inexpressible(&'static str);

const TOO_BIG: Inexpressible = Inexpressible("a pattern with too many alternatives");
const ETHER: Inexpressible = Inexpressible("a pattern that looks at the MAC header");
const MASK: Inexpressible = Inexpressible("a comparison under a mask with holes");
const CUT: Inexpressible = Inexpressible("a field that is cut in the middle");
const FAR: Inexpressible = Inexpressible("a pattern that looks beyond every header");

/// Bits of a header that a model looks at; more than IPv4's and TCP's longest. To look farther would mean to hand over
/// all packets that are shorter.
const MAX_BITS: u16 = 60 * 8;

type R<T> = Result<T, Inexpressible>;

/// Which values some fields have; nothing is said of others. Never contains an empty set.
type Product = BTreeMap<Read, ValueSet>;

/// A union of products.
type Union = Vec<Product>;

/// Where the fields of a version of IP are.
#[derive(Debug, Clone, Copy)]
struct Places {
    six: bool,
    /// What cannot be said is taken to hold: the result is a superset of what it should be.
    loose: bool,
    /// So many bytes of the transport header are there; without a number, all that are looked at.
    cut: Option<u16>,
}

impl Places {
    /// Are the bytes from `first` up to `last` of the transport header there? A test of bytes that are not fails.
    fn there(self, first: u16, last: u16) -> R<bool> {
        match self.cut {
            Some(n) if n <= first => Ok(false),
            Some(n) if n < last => Err(CUT),
            _ => Ok(true),
        }
    }
    fn protocol(self) -> Read {
        Read::Field(match self.six {
            false => field::IP_PROTO,
            true => field::IP6_NEXT,
        })
    }
    /// `bit` counts from the start of the transport header; without extension headers that is 40 bytes behind IPv6's.
    fn transport(self, bit: u16, n: u8) -> Read {
        Read::Field(match self.six {
            false => bits(Base::Transport, bit, n),
            true => bits(Base::Net, 320 + bit, n),
        })
    }
    fn field(self, f: Field) -> R<Read> {
        if f.bit > MAX_BITS - u16::from(f.bits) {
            return Err(FAR);
        }
        match (f.layer, self.six) {
            (Layer::Transport, _) => Ok(self.transport(f.bit, f.bits)),
            (Layer::Net, false) | (Layer::Net6, true) => {
                Ok(Read::Field(bits(Base::Net, f.bit, f.bits)))
            }
            // a pattern is of one version; nothing is known of the other's header
            _ => Err(FAR),
        }
    }
    /// Both, or where that is too much the one with fewer products.
    fn and(self, a: &Union, b: &Union) -> R<Union> {
        match and(a, b) {
            Err(_) if self.loose => Ok(if a.len() < b.len() { a } else { b }.clone()),
            r => r,
        }
    }
    fn or(self, a: Union, b: Union) -> R<Union> {
        match or(a, b) {
            Err(_) if self.loose => Ok(constant(true)),
            r => r,
        }
    }
}

fn constant(b: bool) -> Union {
    if b { vec![Product::new()] } else { Vec::new() }
}

fn one(r: Read, set: ValueSet) -> Union {
    if set.is_full(r.width()) {
        return constant(true);
    }
    match set.is_empty() {
        true => Vec::new(),
        false => vec![Product::from([(r, set)])],
    }
}

fn and(a: &Union, b: &Union) -> R<Union> {
    let mut out = Union::new();
    for x in a {
        'pair: for y in b {
            let mut z = x.clone();
            for (r, set) in y {
                let both = match z.get(r) {
                    Some(s) => s.intersect(set),
                    None => set.clone(),
                };
                if both.is_empty() {
                    continue 'pair;
                }
                z.insert(*r, both);
            }
            out.push(z);
            if out.len() > MAX_PRODUCTS {
                return Err(TOO_BIG);
            }
        }
    }
    Ok(merged(out))
}

fn or(mut a: Union, b: Union) -> R<Union> {
    a.extend(b);
    if a.len() > MAX_PRODUCTS {
        return Err(TOO_BIG);
    }
    Ok(merged(a))
}

/// Two products that differ in one field's values only are one.
fn merged(list: Union) -> Union {
    let mut out: Union = Vec::with_capacity(list.len());
    // Bound: at most MAX_PRODUCTS of them, each compared with the others
    for p in list {
        let joined = out.iter_mut().any(|q| {
            if q.len() != p.len() || q.keys().ne(p.keys()) {
                return false;
            }
            let mut odd = q.iter().zip(&p).filter(|((_, a), (_, b))| a != b);
            let (first, second) = (odd.next().map(|((r, _), _)| *r), odd.next().is_some());
            match (first, second) {
                (None, _) => true,
                (Some(r), false) => {
                    if let (Some(a), Some(b)) = (q.get(&r), p.get(&r)) {
                        let both = a.union(b);
                        if both.is_full(r.width()) {
                            q.remove(&r);
                        } else {
                            q.insert(r, both);
                        }
                    }
                    true
                }
                _ => false,
            }
        });
        if !joined {
            out.push(p);
        }
    }
    out
}

/// The values of a field of `n` bits that satisfy a relation.
fn values(c: Compare, n: u8) -> R<ValueSet> {
    let (mask, value, max) = (u128::from(c.mask), u128::from(c.value), max_of(n));
    let hit = match c.op {
        Op::Equal if mask == 0 => ValueSet::full(n),
        Op::Equal => ValueSet::masked(mask, value, n, MAX_PRODUCTS).ok_or(MASK)?,
        Op::Greater => {
            let low = max & !mask;
            if low & (low + 1) == 0 {
                // only bits below the mask may be anything
                ValueSet::range((value | low) + 1, max)
            } else if n <= 16 {
                // Bound: 65,536 values
                let hits = (0..=max).filter(|v| v & mask > value).map(|v| (v, v));
                let set = ValueSet::from_intervals(hits);
                if set.intervals().len() > MAX_PRODUCTS {
                    return Err(MASK);
                }
                set
            } else {
                return Err(MASK);
            }
        }
    };
    Ok(if c.negated { hit.complement(n) } else { hit })
}

/// The packets of which `field & mask` equals a value. Under a mask with many holes every run of bits is a field of its
/// own.
fn equal(f: FieldRef, mask: u128, value: u128, negated: bool) -> R<Union> {
    if mask == 0 {
        return Ok(constant(!negated));
    }
    if let Some(set) = ValueSet::masked(mask, value, f.bits, MAX_PRODUCTS) {
        let set = if negated { set.complement(f.bits) } else { set };
        return Ok(one(Read::Field(f), set));
    }
    let mut all = Product::new();
    let bit = |of: u128, i: u8| of >> (f.bits - 1 - i) & 1;
    let mut i = 0;
    // Bound: at most as many turns as the field has bits
    while i < f.bits {
        let (first, mut v) = (i, 0);
        while i < f.bits && bit(mask, i) == 1 {
            v = v << 1 | bit(value, i);
            i += 1;
        }
        if i > first {
            let part = bits(f.base, f.bit + u16::from(first), i - first);
            all.insert(Read::Field(part), ValueSet::one(v));
        } else {
            i += 1;
        }
    }
    let all = vec![all];
    if negated { not(&all) } else { Ok(all) }
}

/// Source, destination or their combination; a negated `either` wants both to differ, a negated `both` one of them.
fn sides(which: Which, negated: bool, src: Union, dst: Union) -> R<Union> {
    match (which, negated) {
        (Which::Src, _) => Ok(src),
        (Which::Dst, _) => Ok(dst),
        (Which::Both, false) | (Which::Either, true) => and(&src, &dst),
        (Which::Either, false) | (Which::Both, true) => or(src, dst),
    }
}

fn check(c: &Check, at: Places) -> R<Union> {
    let address = |byte: u16, n: u8| bytes(Base::Net, byte, n);
    match c {
        Check::Protocol => Ok(constant(true)),
        Check::Host {
            which,
            addr,
            mask,
            negated,
        } if !at.six => {
            let side = |byte| equal(address(byte, 4), (*mask).into(), (*addr).into(), *negated);
            sides(*which, *negated, side(12)?, side(16)?)
        }
        Check::Host6 {
            which,
            addr,
            mask,
            negated,
        } if at.six => {
            let side = |byte| equal(address(byte, 16), *mask, *addr, *negated);
            sides(*which, *negated, side(8)?, side(24)?)
        }
        Check::Host { .. } | Check::Host6 { .. } => Err(FAR),
        Check::Ether { .. } => Err(ETHER),
        Check::Port { which, compare } => {
            let set = values(*compare, 16)?;
            let side = |bit: u16| -> R<Union> {
                let there = compare.mask == 0 || at.there(bit / 8, bit / 8 + 2)?;
                Ok(match there {
                    true => one(at.transport(bit, 16), set.clone()),
                    false => constant(false),
                })
            };
            let none = || constant(false);
            let (src, dst) = match which {
                Which::Src => (side(0)?, none()),
                Which::Dst => (none(), side(16)?),
                Which::Both | Which::Either => (side(0)?, side(16)?),
            };
            sides(*which, compare.negated, src, dst)
        }
        Check::TcpFlags(flags) if *flags != 0 && !at.there(13, 14)? => Ok(constant(false)),
        Check::TcpFlags(flags) => {
            // each flag a field of its own
            let mut all = Product::new();
            for i in (0..8u16).filter(|i| flags >> (7 - i) & 1 == 1) {
                all.insert(at.transport(13 * 8 + i, 1), ValueSet::one(1));
            }
            Ok(vec![all])
        }
        Check::Fragment(yes) if at.six => Ok(constant(!yes)),
        Check::Fragment(yes) => {
            let more = Read::Field(bits(Base::Net, 50, 1));
            let offset = Read::Field(field::IP_FRAGOFF);
            if *yes {
                let later = ValueSet::one(0).complement(13);
                return or(one(more, ValueSet::one(1)), one(offset, later));
            }
            and(&one(more, ValueSet::one(0)), &one(offset, ValueSet::one(0)))
        }
        Check::Field { field, compare } => {
            let set = values(*compare, field.bits)?;
            let read = at.field(*field)?;
            let end = (u32::from(field.bit) + u32::from(field.bits)).div_ceil(8) as u16;
            if field.layer == Layer::Transport
                && compare.mask != 0
                && !at.there(field.bit / 8, end)?
            {
                return Ok(constant(false));
            }
            Ok(one(read, set))
        }
    }
}

/// What is left out by a union of products.
fn not(u: &Union) -> R<Union> {
    let mut out = constant(true);
    for p in u {
        let mut one_differs = Union::new();
        let mut before = Product::new();
        // the first field that differs; those before it do not, so that a field is read behind what guards it
        for (r, set) in p {
            let mut here = before.clone();
            here.insert(*r, set.complement(r.width()));
            one_differs.push(here);
            before.insert(*r, set.clone());
        }
        out = and(&out, &one_differs)?;
    }
    Ok(out)
}

fn protocols(t: Option<Transport>) -> Option<ValueSet> {
    match t? {
        Transport::Protocol(p) => Some(ValueSet::one(p.into())),
        Transport::TcpOrUdp => Some(ValueSet::from_intervals([(6, 6), (17, 17)])),
    }
}

fn test(t: &Test, wanted: bool, at: Places) -> R<Union> {
    let protocol = match protocols(t.transport) {
        Some(set) => one(at.protocol(), set),
        None => constant(true),
    };
    let good = match check(&t.check, at) {
        Err(_) if at.loose && wanted => return Ok(protocol),
        Err(_) if at.loose => return Ok(constant(true)),
        r => r?,
    };
    if wanted {
        return at.and(&protocol, &good);
    }
    let bad = match not(&good) {
        Err(_) if at.loose => return Ok(constant(true)),
        r => r?,
    };
    // another protocol, or this one and the check fails: the check's field is read in packets of its protocol only
    at.or(not(&protocol)?, at.and(&protocol, &bad)?)
}

/// The packets that an expression matches, or with `wanted` false does not match.
fn union_of(e: &Expr, wanted: bool, at: Places) -> R<Union> {
    match e {
        Expr::Const(b) => Ok(constant(*b == wanted)),
        Expr::Test(t) => test(t, wanted, at),
        Expr::Not(e) => union_of(e, !wanted, at),
        Expr::All(list) => chain(list, true, wanted, at),
        Expr::Any(list) => chain(list, false, wanted, at),
        Expr::Choose { cases, otherwise } => {
            let mut so_far = constant(true);
            let mut out = Union::new();
            for (c, v) in cases {
                let here = at.and(&so_far, &union_of(c, true, at)?)?;
                out = at.or(out, at.and(&here, &union_of(v, wanted, at)?)?)?;
                so_far = at.and(&so_far, &union_of(c, false, at)?)?;
            }
            at.or(out, at.and(&so_far, &union_of(otherwise, wanted, at)?)?)
        }
    }
}

fn chain(list: &[Expr], conjunction: bool, wanted: bool, at: Places) -> R<Union> {
    let joined = conjunction == wanted;
    let mut out = constant(joined);
    for e in list {
        let next = union_of(e, wanted, at)?;
        out = match joined {
            true => at.and(&out, &next)?,
            false => at.or(out, next)?,
        };
    }
    Ok(out)
}

fn condition(mut u: Union) -> Cond {
    let product = |p: Product| {
        let mut all: Vec<Cond> = p.into_iter().map(|(r, s)| Cond::In(r, s)).collect();
        match all.len() {
            0 => Cond::Always,
            1 => all.remove(0),
            _ => Cond::All(all),
        }
    };
    if u.iter().any(Product::is_empty) {
        return Cond::Always;
    }
    match u.len() {
        0 => Cond::Never,
        1 => product(u.remove(0)),
        _ => Cond::Any(u.into_iter().map(product).collect()),
    }
}

/// How many bytes of which header a rule, or a list of them, reads.
#[derive(Debug, Clone, Default)]
struct Needs {
    /// Bytes of the network header.
    net: u16,
    /// Bytes of the transport header, by protocol.
    transport: BTreeMap<u8, u16>,
    /// Bytes of the transport header, whatever the protocol.
    any: u16,
}

impl Needs {
    fn test(&mut self, t: &Test, at: Places) {
        // what cannot be said is not read
        if check(&t.check, at).is_err() {
            return;
        }
        let (layer, last) = match &t.check {
            Check::Port { which, compare } if compare.mask != 0 => {
                (Layer::Transport, if which.dst() { 4 } else { 2 })
            }
            Check::TcpFlags(f) if *f != 0 => (Layer::Transport, 14),
            Check::Field { field, compare } if compare.mask != 0 => {
                let end = u32::from(field.bit) + u32::from(field.bits);
                (field.layer, end.div_ceil(8) as u16)
            }
            // it holds for first fragments only, even where it looks at nothing
            c if c.first_fragment_only() => (Layer::Transport, 0),
            _ => return,
        };
        if layer != Layer::Transport {
            self.net = self.net.max(last);
            return;
        }
        let mut of = |p: u8| {
            let n = self.transport.entry(p).or_default();
            *n = last.max(*n);
        };
        match t.transport {
            Some(Transport::Protocol(p)) => of(p),
            Some(Transport::TcpOrUdp) => [6, 17].into_iter().for_each(of),
            None => self.any = self.any.max(last.max(1)),
        }
    }
    fn expr(&mut self, e: &Expr, at: Places) {
        match e {
            Expr::Const(_) => {}
            Expr::Test(t) => self.test(t, at),
            Expr::Not(e) => self.expr(e, at),
            Expr::All(list) | Expr::Any(list) => list.iter().for_each(|e| self.expr(e, at)),
            Expr::Choose { cases, otherwise } => {
                for (c, v) in cases {
                    self.expr(c, at);
                    self.expr(v, at);
                }
                self.expr(otherwise, at);
            }
        }
    }
    fn reads_transport(&self) -> bool {
        self.any > 0 || !self.transport.is_empty()
    }
}

/// What a rule takes and where it goes. What cannot be told of it in full goes where `untold` says, and may be more
/// than it takes.
fn rule_case(
    r: &Rule,
    at: Places,
    reasons: &Reasons,
    untold: fn(&'static str) -> Exit,
) -> (Cond, Exit) {
    let exit = match r.action {
        Action::Output(n) => Exit::Port(n as usize),
        Action::Drop => Exit::Drop(reasons.denied),
    };
    let (union, exit) = match union_of(&r.expr, true, at) {
        Ok(u) => (u, exit),
        Err(Inexpressible(cause)) => {
            let at = Places { loose: true, ..at };
            let u = union_of(&r.expr, true, at);
            (u.unwrap_or_else(|_| constant(true)), untold(cause))
        }
    };
    (condition(union), exit)
}

/// The model of a list of rules for IPv4, or with `six` for IPv6.
pub fn model(rules: &[Rule], six: bool, reasons: &Reasons) -> Model {
    let at = Places {
        six,
        loose: false,
        cut: None,
    };
    let mut needs = Needs::default();
    rules.iter().for_each(|r| needs.expr(&r.expr, at));
    let none = || Exit::Drop(reasons.no_header);
    let fixed = if six { 40 } else { 20 };
    let mut c = Cases::new().case(onefold_element::model::build::no_net(), [], none());
    let short = |n: u16| Cond::less(Read::NetLen, n.into());
    if six {
        c = c.case(short(fixed), [], none());
        if needs.net > fixed {
            c = c.punt(short(needs.net), "network header cut off");
        }
        c = c.punt(
            Cond::In(at.protocol(), crate::ip6::extensions()),
            "IPv6 extension headers",
        );
    } else {
        c = c.punt(short(needs.net.max(fixed)), "network header cut off");
    }
    let mut guarded = false;
    for r in rules {
        if !guarded {
            let mut own = Needs::default();
            own.expr(&r.expr, at);
            if own.reads_transport() {
                c = guards(c, &needs, at);
                guarded = true;
            }
        }
        let (when, exit) = rule_case(r, at, reasons, Exit::Ask);
        let always = when == Cond::Always;
        // a rule that never matches is nobody's origin
        if when != Cond::Never {
            c = c.push(Case::new(when, exit).from_arg(r.argument as usize));
        }
        if always {
            return c.done();
        }
    }
    c.push(Case::new(Cond::Always, Exit::Drop(reasons.no_match)).policy())
        .done()
}

/// No later fragments, and all that rules read of the transport header is there.
fn guards(mut c: Cases, needs: &Needs, at: Places) -> Cases {
    if !at.six {
        let later = ValueSet::one(0).complement(13);
        c = c.punt(Cond::In(Read::Field(field::IP_FRAGOFF), later), FRAGMENT);
    }
    let short = |n: u16| match at.six {
        false => Cond::less(Read::TransportLen, n.into()),
        true => Cond::less(Read::NetLen, u128::from(n) + 40),
    };
    if needs.any > 0 {
        c = c.punt(short(needs.any), CUT_OFF);
    }
    let mut by_length: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    for (p, n) in needs.transport.iter().filter(|(_, n)| **n > needs.any) {
        by_length.entry(*n).or_default().push(*p);
    }
    for (n, protocols) in by_length {
        let set = ValueSet::from_intervals(protocols.iter().map(|p| ((*p).into(), (*p).into())));
        c = c.punt(Cond::In(at.protocol(), set).and(short(n)), CUT_OFF);
    }
    c
}
