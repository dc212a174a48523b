//! One element's model on one symbolic packet: which cases are taken where, and what they make of the packet.

use super::bits;
use super::dd::{NO, Ref, YES};
use super::first::Rule;
use super::packet::{Cause, Sym, World};
use super::sum::Sum;
use super::unsaid::partly;
use onefold_element::model::{
    AT_ZERO, AnnoKey, Base, Bind, BindKind, Case, Checksum, Cond, DstAnno, Exit, FieldRef, Fix, Op,
    Read, TypeOf, Value, ValueSet, field,
};
use onefold_packet::anno_field;
use onefold_synth::program::{EndAt, LenAt, SumKind};
use std::collections::{BTreeSet, HashMap};

/// Stands for "cannot be said" among the numbers of cases.
pub const UNSAID: u32 = u32::MAX;

/// A list of cases, prepared.
pub struct Cases<'a> {
    /// The list.
    pub list: &'a [Case],
    /// Everything that conditions read.
    reads: Vec<Read>,
    /// For each case the first one with equal operations and exit.
    same: Vec<u32>,
    /// What has been worked out: for these readings, which case is taken where.
    known: HashMap<Vec<Got>, (Ref, Option<Cause>)>,
}

/// What a reading comes to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Got {
    /// A number.
    Is(Vec<Ref>),
    /// The bytes from here to the end.
    Length(i32, EndAt),
    /// Cannot be said.
    Not(Cause),
}

fn gather(c: &Cond, out: &mut BTreeSet<Read>) {
    match c {
        Cond::Always | Cond::Never => {}
        Cond::In(r, _) => {
            out.insert(*r);
        }
        Cond::Masked { field, .. } => {
            out.insert(Read::Field(*field));
        }
        Cond::All(l) | Cond::Any(l) => l.iter().for_each(|c| gather(c, out)),
        Cond::Not(c) => gather(c, out),
    }
}

impl<'a> Cases<'a> {
    /// Prepares a list.
    pub fn new(list: &'a [Case]) -> Self {
        let mut reads = BTreeSet::new();
        let mut first: HashMap<(&[Op], &Exit), u32> = HashMap::new();
        let mut same = Vec::with_capacity(list.len());
        for (i, c) in list.iter().enumerate() {
            gather(&c.when, &mut reads);
            same.push(*first.entry((&c.ops, &c.exit)).or_insert(i as u32));
        }
        Cases {
            list,
            reads: reads.into_iter().collect(),
            same,
            known: HashMap::new(),
        }
    }

    /// Another epoch begins.
    pub fn forget(&mut self) {
        self.known.clear();
    }

    /// Which case is taken where (its number plus one; [`UNSAID`] with the cause where that cannot be said; zero:
    /// none).
    pub fn taken(&mut self, w: &mut World, s: &Sym, here: Ref) -> (Ref, Option<Cause>) {
        let got = self.readings(w, s, here);
        if let Some(k) = self.known.get(&got) {
            return *k;
        }
        let (rules, trouble) = self.rules(w, &got);
        let r = (w.dd.first_match(rules), trouble);
        self.known.insert(got, r);
        r
    }

    /// What everything that conditions read comes to.
    pub fn readings(&self, w: &mut World, s: &Sym, here: Ref) -> Vec<Got> {
        self.reads.iter().map(|r| read(w, s, *r, here)).collect()
    }

    /// From now on that is what is taken for these readings (`None`: it is worked out); what was before.
    pub fn assume(
        &mut self,
        got: &[Got],
        taken: Option<(Ref, Option<Cause>)>,
    ) -> Option<(Ref, Option<Cause>)> {
        match taken {
            Some(t) => self.known.insert(got.to_vec(), t),
            None => self.known.remove(got),
        }
    }

    /// The cases as rules, in order, for these readings; why the last one cannot be said, if so.
    pub fn rules(&self, w: &mut World, got: &[Got]) -> (Vec<Rule>, Option<Cause>) {
        let by: HashMap<Read, &Got> = self.reads.iter().copied().zip(got).collect();
        let mut rules = Vec::with_capacity(self.list.len());
        let mut trouble = None;
        for (c, same) in self.list.iter().zip(&self.same) {
            let always = rules.len();
            if alternatives(w, &c.when, &by, same + 1, &mut rules).is_err() {
                // what stands beside it may decide without what cannot be said
                rules.truncate(always);
                let p = partly(w, &c.when, &by);
                for (f, value) in [(p.holds, same + 1), (p.unsaid, UNSAID)] {
                    if f != NO {
                        let all = Some(f).filter(|f| *f != YES).into_iter().collect();
                        rules.push(Rule { all, value });
                    }
                }
                trouble = trouble.or(p.cause.filter(|_| p.unsaid != NO));
            }
            if rules
                .get(always..)
                .is_some_and(|l| l.iter().any(|r| r.all.is_empty()))
            {
                break;
            }
        }
        (rules, trouble)
    }
}

/// The ways in which a condition can hold, each a rule of this value.
fn alternatives(
    w: &mut World,
    c: &Cond,
    by: &HashMap<Read, &Got>,
    value: u32,
    out: &mut Vec<Rule>,
) -> Result<(), Cause> {
    match c {
        Cond::Any(l) => l
            .iter()
            .try_for_each(|c| alternatives(w, c, by, value, out)),
        c => {
            let mut all = Vec::new();
            factors(w, c, by, &mut all)?;
            all.retain(|f| *f != YES);
            if !all.contains(&NO) {
                out.push(Rule { all, value });
            }
            Ok(())
        }
    }
}

/// What must hold at once.
fn factors(
    w: &mut World,
    c: &Cond,
    by: &HashMap<Read, &Got>,
    out: &mut Vec<Ref>,
) -> Result<(), Cause> {
    match c {
        Cond::All(l) => {
            for c in l {
                factors(w, c, by, out)?;
                if out.last() == Some(&NO) {
                    break;
                }
            }
            Ok(())
        }
        c => {
            out.push(holds(w, c, by)?);
            Ok(())
        }
    }
}

fn base(s: &Sym, b: Base) -> Result<i32, Cause> {
    match b {
        Base::Data => Ok(s.start),
        Base::Mac => s.mac.ok_or("no MAC header is marked"),
        Base::Net => s.net.map(|n| n.0).ok_or("no network header is marked"),
        Base::Transport => transport(s),
    }
}

fn transport(s: &Sym) -> Result<i32, Cause> {
    let (at, len) = s.net.ok_or("no network header is marked")?;
    Ok(at + i32::from(len.ok_or("a network header alone is marked")?))
}

fn place(s: &Sym, f: FieldRef) -> Result<i32, Cause> {
    Ok(base(s, f.base)? * 8 + i32::from(f.bit))
}

fn anno_bits(k: AnnoKey) -> std::ops::Range<usize> {
    let from = usize::from(k.offset) * 8;
    from..from + usize::from(k.size) * 8
}

fn read(w: &mut World, s: &Sym, r: Read, here: Ref) -> Got {
    let flag = |b: bool| Got::Is(vec![if b { YES } else { NO }]);
    let length = |from: Result<i32, Cause>| match from {
        Ok(from) => Got::Length(from, w.end(s.end)),
        Err(c) => Got::Not(c),
    };
    let number = |v: Result<Vec<Ref>, Cause>| match v {
        Ok(v) => Got::Is(v),
        Err(c) => Got::Not(c),
    };
    match r {
        Read::Field(f) => number(place(s, f).and_then(|at| w.read(s, at, f.bits.into()))),
        Read::Anno(k) => {
            let v = s.annos.get(anno_bits(k)).map(<[Ref]>::to_vec);
            number(v.ok_or("an annotation that there is not"))
        }
        Read::PacketType => Got::Is(s.kind.clone()),
        Read::Len => length(Ok(s.start)),
        Read::NetLen => length(base(s, Base::Net)),
        // nothing that follows is marked
        Read::TransportLen if matches!(s.net, Some((_, None))) => Got::Is(bits::constant(0, 32)),
        Read::TransportLen => length(transport(s)),
        Read::HasNet => flag(s.net.is_some()),
        Read::HasMac => flag(s.mac.is_some()),
        Read::At(b) => {
            let at = base(s, b).map_or(0, |at| {
                let limit = AT_ZERO as i32 - 1;
                (at - s.start).clamp(-limit, limit) + limit + 1
            });
            Got::Is(bits::constant(at as u128, 16))
        }
        Read::Check {
            check,
            base: b,
            offset,
        } => {
            let at = base(s, b).map(|at| at + i32::from(offset));
            number(at.and_then(|at| w.check(s, check, at, here).map(|f| vec![f])))
        }
        Read::Route { table, anno, what } => {
            let address = s.annos.get(anno_bits(anno)).map(<[Ref]>::to_vec);
            let address = address.ok_or("an annotation that there is not");
            number(address.and_then(|a| w.route(table, what, a)))
        }
    }
}

pub(super) fn holds(w: &mut World, c: &Cond, by: &HashMap<Read, &Got>) -> Result<Ref, Cause> {
    let got = |r: &Read| by.get(r).copied().ok_or("a reading is missing");
    match c {
        Cond::Always => Ok(YES),
        Cond::Never => Ok(NO),
        Cond::In(r, set) => match got(r)? {
            Got::Is(v) => Ok(bits::is_in(&mut w.dd, v, set)),
            Got::Length(from, end) => Ok(w.length_in(*from, *end, set)),
            Got::Not(cause) => Err(cause),
        },
        Cond::Masked { field, mask, value } => match got(&Read::Field(*field))? {
            Got::Is(v) => Ok(bits::masked(&mut w.dd, v, *mask, *value)),
            Got::Length(..) => Err("a reading is missing"),
            Got::Not(cause) => Err(cause),
        },
        // what stands before guards what stands behind
        Cond::All(l) => {
            let mut all = YES;
            for c in l {
                let f = holds(w, c, by)?;
                all = w.dd.and(all, f);
                if all == NO {
                    break;
                }
            }
            Ok(all)
        }
        Cond::Any(l) => {
            let mut any = NO;
            for c in l {
                let f = holds(w, c, by)?;
                any = w.dd.or(any, f);
                if any == YES {
                    break;
                }
            }
            Ok(any)
        }
        Cond::Not(c) => {
            let f = holds(w, c, by)?;
            Ok(w.dd.not(f))
        }
    }
}

fn value(w: &mut World, s: &Sym, v: Value, width: u8, here: Ref) -> Result<Vec<Ref>, Cause> {
    let (r, add) = match v {
        Value::Const(n) => return Ok(bits::constant(n, width)),
        Value::Of(r) => (r, 0),
        Value::Plus(r, n) => (r, n),
    };
    let v = match read(w, s, r, here) {
        Got::Is(v) => v,
        Got::Length(from, end) => w.length(from, end),
        Got::Not(c) => return Err(c),
    };
    let v = bits::resize(&v, width);
    Ok(bits::plus(&mut w.dd, &v, add))
}

/// What happens when operations are carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Where this is so.
    pub here: Ref,
    /// The packet.
    pub sym: Sym,
    /// Tags and lengths of what was counted, in order.
    pub counts: Vec<(u16, LenAt)>,
}

/// Carries out a case's operations; the packet falls apart where a checksum depends on the protocol.
pub fn apply(w: &mut World, s: &Sym, ops: &[Op], here: Ref) -> Vec<(Ref, Result<Done, Cause>)> {
    let mut values = Vec::with_capacity(ops.len());
    for op in ops {
        let v = match op {
            Op::Write {
                field, value: v, ..
            } => value(w, s, *v, field.bits, here),
            Op::SetAnno(k, v) => value(w, s, *v, k.size.saturating_mul(8), here),
            _ => Ok(Vec::new()),
        };
        match v {
            Ok(v) => values.push(v),
            Err(c) => return vec![(here, Err(c))],
        }
    }
    let mut out = Vec::new();
    let mut states = vec![Done {
        here,
        sym: s.clone(),
        counts: Vec::new(),
    }];
    // bits that were pushed and not written yet
    let mut bare: BTreeSet<i32> = BTreeSet::new();
    for (op, v) in ops.iter().zip(&values) {
        let mut next = Vec::new();
        for d in states {
            step(w, d, op, v, &mut bare, &mut next, &mut out);
        }
        states = next;
    }
    for d in states {
        let r = match bare.is_empty() {
            true => Ok(d.clone()),
            false => Err("bytes come at the front that nothing writes"),
        };
        out.push((d.here, r));
    }
    out
}

type Out = Vec<(Ref, Result<Done, Cause>)>;

fn step(
    w: &mut World,
    mut d: Done,
    op: &Op,
    v: &[Ref],
    bare: &mut BTreeSet<i32>,
    next: &mut Vec<Done>,
    out: &mut Out,
) {
    let here = d.here;
    let r = match *op {
        Op::Write { field, fix, .. } => {
            if let Ok(bit) = place(&d.sym, field) {
                for i in bit..bit + i32::from(field.bits) {
                    bare.remove(&i);
                }
            }
            match write(w, d, field, v, fix) {
                Ok(all) => {
                    next.extend(all);
                    return;
                }
                Err(c) => Err(c),
            }
        }
        Op::Push(n) => {
            let to = d.sym.start * 8;
            d.sym.start -= i32::from(n);
            bare.extend(d.sym.start * 8..to);
            Ok(d)
        }
        Op::Count(tag) => {
            let len = LenAt {
                start: d.sym.start,
                end: w.end(d.sym.end),
            };
            d.counts.push((tag, len));
            Ok(d)
        }
        _ => simple(w, &mut d.sym, op, v).map(|()| d),
    };
    match r {
        Ok(d) => next.push(d),
        Err(c) => out.push((here, Err(c))),
    }
}

fn simple(w: &mut World, s: &mut Sym, op: &Op, v: &[Ref]) -> Result<(), Cause> {
    #[allow(unreachable_patterns)]
    match *op {
        Op::Recompute(which) => recompute(s, which)?,
        Op::SetAnno(k, _) => match s.annos.get_mut(anno_bits(k)) {
            Some(to) if to.len() == v.len() => to.copy_from_slice(v),
            _ => return Err("an annotation that there is not"),
        },
        Op::ClearAnnos => {
            s.annos.fill(NO);
            s.kind.fill(NO);
            (s.net, s.mac) = (None, None);
        }
        Op::SetPacketType(TypeOf::Is(t)) => s.kind = bits::constant(t as u128, 8),
        Op::SetPacketType(TypeOf::Destination(device)) => {
            let dst = w.read(s, s.start * 8, 48)?;
            s.kind = bits::packet_type(&mut w.dd, &dst, device.map(|d| d.0));
        }
        Op::Pull(n) => s.start += i32::from(n),
        Op::Unpull(n) => s.start -= i32::from(n),
        Op::TrimToIp4 { at } => {
            let at = s.start + i32::from(at);
            whole_message(w, s, EndAt::Ip4(at))?;
            if s.touched((at + 2) * 8, 16) {
                return Err("cut to a length that was written");
            }
            s.end = EndAt::Ip4(at);
        }
        Op::TrimToIp6 { at } => {
            let at = s.start + i32::from(at);
            whole_message(w, s, EndAt::Ip6(at))?;
            if s.touched((at + 4) * 8, 16) {
                return Err("cut to a length that was written");
            }
            s.end = EndAt::Ip6(at);
        }
        Op::SetNet { at, len } => s.net = Some((s.start + i32::from(at), Some(len))),
        Op::MoveNet { at } => {
            let to = s.start + i32::from(at);
            // what follows it stays where it is
            let len = match s.net {
                Some((net, Some(len))) => {
                    let len = u8::try_from(net + i32::from(len) - to);
                    Some(len.map_err(|_| "a network header far from what follows it")?)
                }
                _ => None,
            };
            s.net = Some((to, len));
        }
        Op::StartAt(b) => s.start = base(s, b)?,
        Op::SetMac { at } => s.mac = Some(s.start + i32::from(at)),
        Op::ClearNet => s.net = None,
        Op::ClearMac => s.mac = None,
        Op::SetTime(_) => return Err("the time stamp is set"),
        _ => return Err("an operation that is not known here"),
    }
    Ok(())
}

/// A ping that has become nothing but zeros gets a checksum of all ones: what is looked at must not change behind
/// that.
fn whole_message(w: &World, s: &Sym, end: EndAt) -> Result<(), Cause> {
    match w.end(s.end) != end && s.sums.iter().any(|p| p.kind == SumKind::Icmp) {
        true => Err("a ping is cut behind a binding"),
        false => Ok(()),
    }
}

fn recompute(s: &mut Sym, which: Checksum) -> Result<(), Cause> {
    let net = base(s, Base::Net)?;
    let t = transport(s)?;
    let (kind, at) = match which {
        Checksum::Ip4 => (SumKind::Ip4, net + 10),
        Checksum::Tcp => (SumKind::Tcp, t + 16),
        Checksum::Udp => (SumKind::Udp, t + 6),
    };
    s.sums.retain(|p| p.at != at);
    s.bits.retain(|i, _| !(at * 8..at * 8 + 16).contains(i));
    let p = s.pending(kind, net, at)?;
    p.anew = true;
    if which == Checksum::Ip4 {
        s.stale_ip
            .retain(|(a, b)| *b <= net * 8 || *a >= (net + 20) * 8);
        s.followed
            .retain(|(a, b, _)| *b <= net * 8 || *a >= (net + 20) * 8);
    }
    Ok(())
}

/// What a write means for checksums that are computed over the packet as it is: they must follow, or are not right
/// any more.
fn covered(s: &Sym, from: i32, to: i32, ip: bool, l4: bool) -> Result<(), Cause> {
    let ping = |p: &&super::packet::Pending| p.kind == SumKind::Icmp && to > (p.at - 2) * 8;
    if s.sums.iter().any(|p| ping(&p)) {
        return Err("a ping changes behind a binding");
    }
    for p in s.sums.iter().filter(|p| p.anew) {
        let h = p.header * 8;
        let hit = |a: i32, b: i32| from < b && a < to;
        let trouble = match p.kind {
            SumKind::Ip4 => !ip && hit(h, h + 160),
            // zero is written as it is when computed, and ends the updates
            SumKind::Udp | SumKind::Icmp => hit(h + 16, h + 32) || hit(h + 72, i32::MAX),
            SumKind::Tcp => {
                !l4 && (hit(h + 16, h + 32)
                    || hit(h + 72, h + 80)
                    || hit(h + 96, h + 160)
                    || hit(h + 160, i32::MAX))
            }
        };
        if trouble {
            return Err("a checksum was computed, and what it covers changes behind its back");
        }
    }
    Ok(())
}

fn write(w: &mut World, mut d: Done, f: FieldRef, v: &[Ref], fix: Fix) -> Result<Vec<Done>, Cause> {
    let from = base(&d.sym, f.base)?;
    let bit = from * 8 + i32::from(f.bit);
    let end = bit + i32::from(f.bits);
    let (ip, l4) = match fix {
        Fix::Nothing => (false, false),
        Fix::Ip4 => (true, false),
        Fix::Transport => (false, true),
        Fix::Both => (true, true),
    };
    // a checksum that is written over is gone
    d.sym
        .sums
        .retain(|p| !(bit <= p.at * 8 && p.at * 8 + 16 <= end));
    if d.sym.sum_in(bit, i32::from(f.bits)) {
        return Err("a part of a checksum is written");
    }
    covered(&d.sym, bit, end, ip, l4)?;
    let mut term = Sum::default();
    if ip || l4 {
        // words are counted from where the field is
        let first = i32::from(f.bit) / 16;
        let last = (i32::from(f.bit) + i32::from(f.bits) - 1) / 16;
        let at = |n: i32| from * 8 + n * 16;
        let mut old = Vec::new();
        for n in first..=last {
            old.push(w.read(&d.sym, at(n), 16)?);
        }
        w.put(&mut d.sym, bit, v);
        for (n, old) in (first..=last).zip(&old) {
            let new = w.read(&d.sym, at(n), 16)?;
            term.change(&mut w.dd, old, &new);
        }
    } else {
        w.put(&mut d.sym, bit, v);
    }
    if ip {
        let net = base(&d.sym, Base::Net)?;
        let p = d.sym.pending(SumKind::Ip4, net, net + 10)?;
        if !p.anew {
            p.groups.push(term.clone());
        }
        d.sym.followed.push((bit, end, net));
    } else {
        d.sym.stale_ip.push((bit, end));
    }
    match l4 {
        true => follow_transport(w, d, &term),
        false => Ok(vec![d]),
    }
}

/// The transport checksum follows, by protocol: TCP with 18 bytes there, UDP with eight and a checksum.
fn follow_transport(w: &mut World, d: Done, term: &Sum) -> Result<Vec<Done>, Cause> {
    let net = base(&d.sym, Base::Net)?;
    let t = transport(&d.sym)?;
    let proto = w.read(&d.sym, net * 8 + i32::from(field::IP_PROTO.bit), 8)?;
    let mut rest = d.here;
    let mut out = Vec::new();
    for (number, kind, at, least) in [(6, SumKind::Tcp, 16, 18), (17, SumKind::Udp, 6, 8)] {
        let is = bits::masked(&mut w.dd, &proto, 255, number);
        let there = w.length_in(t, d.sym.end, &ValueSet::range(least, u128::from(u32::MAX)));
        let both = w.dd.and(is, there);
        let here = w.dd.and(rest, both);
        rest = w.dd.minus(rest, both);
        if here == NO {
            continue;
        }
        let mut d = Done { here, ..d.clone() };
        let p = d.sym.pending(kind, net, t + at)?;
        match (p.anew, kind) {
            (true, SumKind::Udp) => return Err("a computed checksum that may be zero changes"),
            (true, _) => {}
            (false, _) => p.groups.push(term.clone()),
        }
        out.push(d);
    }
    if rest != NO {
        out.push(Done { here: rest, ..d });
    }
    Ok(out)
}

/// A binding's values are written: addresses, ports, checksums by the terms that come with them.
pub fn bound(
    w: &mut World,
    s: &Sym,
    bind: &Bind,
    values: &[Vec<Ref>],
    here: Ref,
) -> Vec<(Ref, Result<Done, Cause>)> {
    match bound_in(w, s, bind, values, here) {
        Ok(all) => all.into_iter().map(|d| (d.here, Ok(d))).collect(),
        Err(c) => vec![(here, Err(c))],
    }
}

fn bound_in(
    w: &mut World,
    s: &Sym,
    bind: &Bind,
    values: &[Vec<Ref>],
    here: Ref,
) -> Result<Vec<Done>, Cause> {
    let [saddr, daddr, sport, dport, ip_sum, l4_sum, anno] = values else {
        return Err("a binding without values");
    };
    let mut d = Done {
        here,
        sym: s.clone(),
        counts: Vec::new(),
    };
    let net = base(s, Base::Net)?;
    let t = transport(s)?;
    let mut fields: Vec<(i32, &[Ref])> = vec![((net + 12) * 8, saddr), ((net + 16) * 8, daddr)];
    match bind.kind {
        BindKind::Flow => fields.extend([(t * 8, &sport[..]), ((t + 2) * 8, &dport[..])]),
        BindKind::Addresses => {}
        BindKind::Ping => fields.push(((t + 4) * 8, sport)),
    }
    for (bit, v) in fields {
        let end = bit + v.len() as i32;
        if d.sym.sum_in(bit, v.len() as i32) {
            return Err("a binding writes where a checksum follows");
        }
        // the next binding of a ping updates and looks again
        if bind.kind != BindKind::Ping {
            covered(&d.sym, bit, end, true, true)?;
        }
        w.put(&mut d.sym, bit, v);
        if bit < (net + 20) * 8 {
            d.sym.followed.push((bit, end, net));
        } else {
            d.sym.stale_ip.push((bit, end));
        }
    }
    let mut term = Sum::default();
    term.add(&mut w.dd, ip_sum);
    let p = d.sym.pending(SumKind::Ip4, net, net + 10)?;
    if !p.anew {
        p.groups.push(term);
    }
    // which of its packets are replies, only the rewriter knows
    if bind.dst_anno == DstAnno::OfReplies {
        return Err("the annotation of replies alone");
    }
    if bind.dst_anno == DstAnno::Rewritten {
        let k: AnnoKey = anno_field::DST_IP.into();
        if let Some(to) = d.sym.annos.get_mut(anno_bits(k)) {
            to.copy_from_slice(daddr);
        }
    }
    if let Some(at) = bind.reply_anno {
        let at = usize::from(at) * 8;
        match d.sym.annos.get_mut(at..at + 8) {
            Some(to) => to.copy_from_slice(anno),
            None => return Err("an annotation that there is not"),
        }
    }
    let mut term = Sum::default();
    term.add(&mut w.dd, l4_sum);
    match bind.kind {
        BindKind::Ping => {
            let p = d.sym.pending(SumKind::Icmp, net, t + 2)?;
            if p.anew {
                return Err("a computed checksum that may be zero changes");
            }
            p.groups.push(term);
            Ok(vec![d])
        }
        _ => follow_transport(w, d, &term),
    }
}
