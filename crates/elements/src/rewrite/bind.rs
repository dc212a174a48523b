//! Bindings without a packet: what `push` does to a rewriter's own state, told as numbers that somebody else writes
//! into the packet; and the model that says for which packets that can be done.

use super::rewriter::{Rewriter, Unbound, Way};
use crate::ip4;
use onefold_element::model::{
    Base, Bind, BindKind, BindPacket, Binding, Bound, Case, Cond, DstAnno, Exit, Expected,
    FlowKind, Model, ModelCx, Read, Rewritten, ValueSet, bits, field,
};
use onefold_element::{Cx, Port, StateStore};
use onefold_nat::apply::{self, Arrival, TCP_NEEDED, UDP_NEEDED};
use onefold_nat::{
    BoundBy, FlowTable, Hit, InputSpec, LastingBinding, Mapper, Pattern, PatternRef, PatternSet,
    RewriterKind,
};
use onefold_packet::anno_field::DST_IP;
use onefold_packet::wire::ipv4::proto;
use onefold_packet::wire::tcp::flag;

fn arrival(p: &BindPacket) -> Arrival {
    Arrival {
        proto: p.proto,
        first: true,
        more: false,
        id: 0,
        transport_len: p.transport_len,
        saddr: p.saddr,
        daddr: p.daddr,
        head: p.head,
    }
}

const CUT_OFF: &str = "a transport header that is cut off";

impl Rewriter {
    /// Packets that `bind` leaves to `push`, whatever the table says about them.
    fn odd(&self, p: &BindPacket) -> Option<&'static str> {
        match p.proto {
            proto::TCP if self.kind != RewriterKind::Ping && p.transport_len < TCP_NEEDED => {
                Some(CUT_OFF)
            }
            proto::TCP => None,
            _ if self.kind == RewriterKind::Udp && p.proto != proto::UDP => Some("DCCP"),
            _ if p.transport_len < UDP_NEEDED => Some(CUT_OFF),
            _ => None,
        }
    }

    pub(super) fn bind_packet(
        &self,
        port: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
        cx: &mut Cx<'_>,
    ) -> Bound {
        if let Some(cause) = self.odd(p) {
            return Bound::Punt(cause);
        }
        let a = arrival(p);
        let Some(mut w) = Way::of(self.handle, cx) else {
            return Bound::Drop(self.kind.reasons().dropped);
        };
        let Some(s) = self.key(w.table, a) else {
            return Bound::Punt("not for this rewriter");
        };
        if let Some(hit) = self.find(w.table, &s) {
            return self.apply_to(&mut w, hit, port, p, may);
        }
        match self.begin(port, &s, &p.anno, cx) {
            Ok(hit) => match Way::of(self.handle, cx) {
                Some(mut w) => self.apply_to(&mut w, hit, port, p, may),
                None => Bound::Drop(self.kind.reasons().dropped),
            },
            Err(Unbound::Pass(o)) => Bound::Pass(o),
            Err(Unbound::Drop(why)) => Bound::Drop(why),
        }
    }

    /// See [`onefold_element::Element::lasting`].
    pub(super) fn lasting_binding(
        &self,
        p: &BindPacket,
        cx: &mut Cx<'_>,
    ) -> Option<LastingBinding> {
        let flows = matches!(
            self.kind,
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp | RewriterKind::Ping
        );
        if !flows || self.odd(p).is_some() {
            return None;
        }
        let w = Way::of(self.handle, cx)?;
        let s = self.key(w.table, arrival(p))?;
        let (i, reply) = self.find(w.table, &s)?;
        let r = w.table.record(i)?;
        let after = match p.proto {
            proto::TCP if self.kind != RewriterKind::Udp => {
                let [words, control] = p.tcp;
                // the element's own state machine is for these
                if control & (flag::SYN | flag::FIN | flag::RST) != 0 {
                    return None;
                }
                let payload = 20 + usize::from(words >> 4) * 4 < usize::from(p.total_len);
                let after = apply::tcp_flags(r.flags(), reply, control, payload, self.acks);
                // with or without payload is asked of each packet, other bits are not
                if self.acks != 0 && !apply::tcp_has_data(after, reply) {
                    return None;
                }
                after
            }
            _ if self.kind == RewriterKind::Ping => r.flags(),
            _ => apply::udp_flags(r.flags(), reply),
        };
        if after != r.flags() || r.shifts_sequence_numbers() {
            return None;
        }
        Some(LastingBinding {
            table: self.handle.table,
            flow: w.table.reference(i)?,
            by: BoundBy::Fields,
            no_zero: false,
        })
    }

    /// Is the destination annotation another address than the packet's destination?
    fn moved(&self, p: &BindPacket) -> bool {
        let at = usize::from(DST_IP.offset);
        p.anno.get(at..at + 4) != Some(&p.daddr.to_be_bytes()[..])
    }

    /// The binding of a record for one packet; the record is refreshed.
    fn apply_to(
        &self,
        w: &mut Way<'_>,
        (i, reply): Hit,
        port: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
    ) -> Bound {
        // nothing is copied as a whole that has just been written in parts: that would wait for all that was written
        let Some(r) = w.table.record(i) else {
            return Bound::Drop(self.kind.reasons().dropped);
        };
        if r.shifts_sequence_numbers() {
            return Bound::Punt("sequence numbers are shifted");
        }
        let to = r.rewritten(reply);
        let (ip_sum, transport_sum) = r.checksum_addends(reply);
        let mut b = Binding {
            origin: r.origin() as u16,
            reply,
            output: r.output(reply) as u16,
            saddr: to.saddr,
            daddr: to.daddr,
            sport: to.sport,
            dport: to.dport,
            ip_sum,
            transport_sum,
            anno: None,
        };
        if reply && let Some(offset) = self.annos.reply {
            b.anno = Some((offset, r.reply_anno()));
        }
        let flags = match self.kind {
            RewriterKind::Ip | RewriterKind::Tcp if p.proto == proto::TCP => {
                let [words, control] = p.tcp;
                let payload = 20 + usize::from(words >> 4) * 4 < usize::from(p.total_len);
                apply::tcp_flags(r.flags(), reply, control, payload, self.acks)
            }
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {
                apply::udp_flags(r.flags(), reply)
            }
            RewriterKind::Addr | RewriterKind::AddrPair => {
                if self.kind == RewriterKind::Addr {
                    match reply {
                        // who wrote down what becomes of this flow knows that the annotation stays; of other flows, it
                        // is taken to follow the destination, which stays: only where it says so already
                        false if r.origin() != port && self.moved(p) => {
                            return Bound::Punt(MOVED);
                        }
                        false => b.daddr = p.daddr,
                        true => b.saddr = p.saddr,
                    }
                }
                if !matches!(p.proto, proto::TCP | proto::UDP) {
                    b.transport_sum = 0;
                }
                let [s0, s1, d0, d1, ..] = p.head;
                (b.sport, b.dport) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
                r.flags()
            }
            RewriterKind::Ping => {
                b.sport = if reply { to.dport } else { to.sport };
                b.dport = 0;
                r.flags()
            }
        };
        if !may(&b) {
            return Bound::Punt(UNKNOWN);
        }
        w.table.touch(i, w.now);
        w.table.set_flags(i, flags);
        if w.tracing {
            let r = w.table.record(i).copied();
            r.into_iter().for_each(|r| self.trace(w, &r, reply));
        }
        let Binding {
            origin,
            reply,
            output,
            saddr,
            daddr,
            sport,
            dport,
            ip_sum,
            transport_sum,
            anno,
        } = b;
        Bound::To(Binding {
            origin,
            reply,
            output,
            saddr,
            daddr,
            sport,
            dport,
            ip_sum,
            transport_sum,
            anno,
        })
    }
}

const UNKNOWN: &str = "a binding of no known kind";
const MOVED: &str = "the destination annotation is not the destination";

/// What a pattern makes of a field.
fn pattern_field(first: u32, top: u32) -> Rewritten {
    match (first, top) {
        (0, 0) => Rewritten::Kept,
        (a, n) => {
            let last = u128::from(a) + u128::from(n);
            Rewritten::To(ValueSet::range(a.into(), last))
        }
    }
}

/// One field of two patterns that may both be chosen.
fn either(a: Rewritten, b: &Rewritten, bits: u8) -> Rewritten {
    match (&a, b) {
        (Rewritten::Kept, Rewritten::Kept) => a,
        (Rewritten::To(x), Rewritten::To(y)) => Rewritten::To(x.union(y)),
        _ => Rewritten::To(ValueSet::full(bits)),
    }
}

fn both(a: Expected, b: &Expected) -> Expected {
    Expected {
        output: a.output,
        saddr: either(a.saddr, &b.saddr, 32),
        daddr: either(a.daddr, &b.daddr, 32),
        sport: either(a.sport, &b.sport, 16),
        dport: either(a.dport, &b.dport, 16),
    }
}

/// What forward packets of a pattern's flows get; nothing when this rewriter refuses the pattern. The error says why no
/// model can tell.
fn expected(
    kind: RewriterKind,
    p: &Pattern,
    output: Port,
) -> Result<Option<Expected>, &'static str> {
    let (addresses, ports) = match p.ports {
        true => (0, p.top),
        false => (p.top, 0),
    };
    let mut e = Expected {
        output,
        saddr: pattern_field(p.saddr, addresses),
        daddr: pattern_field(p.daddr, 0),
        sport: pattern_field(p.sport.into(), ports),
        dport: pattern_field(p.dport.into(), 0),
    };
    let kept = |f: &Rewritten| *f == Rewritten::Kept;
    match kind {
        RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {}
        RewriterKind::Ping => e.dport = Rewritten::Kept,
        RewriterKind::Addr | RewriterKind::AddrPair => {
            if p.sport == 0 && ports != 0 {
                return Err("a pattern of ports that may be zero");
            }
            let fits = kept(&e.sport) && kept(&e.dport);
            if !fits || kind == RewriterKind::Addr && !kept(&e.daddr) {
                return Ok(None);
            }
        }
    }
    Ok(Some(e))
}

/// The kinds of flows that begin at an input: what forward packets get, and where replies leave. No two are alike in
/// both outputs.
fn flows_of(
    kind: RewriterKind,
    spec: InputSpec,
    store: &StateStore,
) -> Result<Vec<(Expected, Port)>, &'static str> {
    let pattern = |r: PatternRef, o: Port| match PatternSet::get(store, r) {
        Some(p) => expected(kind, &p, o),
        None => Err("a pattern that is not there"),
    };
    match spec {
        InputSpec::Drop(_) | InputSpec::Pass(_) => Ok(Vec::new()),
        InputSpec::Keep(output, reply) => {
            let kept = Expected {
                output,
                saddr: Rewritten::Kept,
                daddr: Rewritten::Kept,
                sport: Rewritten::Kept,
                dport: Rewritten::Kept,
            };
            Ok(vec![(kept, reply)])
        }
        InputSpec::Mapped(output, reply) => {
            let ping = kind == RewriterKind::Ping;
            let any = || Rewritten::To(ValueSet::full(16));
            let to = Expected {
                output,
                saddr: Rewritten::Kept,
                daddr: Rewritten::To(ValueSet::full(32)),
                sport: if ping { any() } else { Rewritten::Kept },
                dport: if ping { Rewritten::Kept } else { any() },
            };
            Ok(vec![(to, reply)])
        }
        InputSpec::Pattern(r, output, reply) => {
            let e = pattern(r, output)?;
            Ok(e.map(|e| (e, reply)).into_iter().collect())
        }
        InputSpec::Mapper(elem) => {
            let id = store.published_by(elem);
            let Some(m) = id.and_then(|id| store.get::<Mapper>(id)) else {
                return Err("a mapper that is not there");
            };
            let mut all: Vec<(Expected, Port)> = Vec::new();
            for (r, output, reply) in m.patterns() {
                let (Ok(output), Ok(reply)) = (usize::try_from(*output), usize::try_from(*reply))
                else {
                    return Err("a mapper with an output that is not there");
                };
                let Some(e) = pattern(*r, output)? else {
                    continue;
                };
                let same = |(a, r): &&mut (Expected, Port)| a.output == e.output && *r == reply;
                match all.iter_mut().find(same) {
                    Some((a, _)) => *a = both(a.clone(), &e),
                    None => all.push((e, reply)),
                }
            }
            Ok(all)
        }
    }
}

/// What forward packets of flows that begin at an input get, all kinds taken together.
fn expected_of(flows: &[(Expected, Port)]) -> Result<Option<Expected>, &'static str> {
    let mut all: Option<Expected> = None;
    for (e, _) in flows {
        all = Some(match all {
            None => e.clone(),
            Some(a) if a.output == e.output => both(a, e),
            Some(_) => return Err("a mapper with several outputs"),
        });
    }
    Ok(all)
}

impl Rewriter {
    /// Cases of packets that are of no flow, where the rewriter knows flows of these protocols; fragments among them.
    fn of_no_flow(&self, protocols: &[u8], argument: usize, other: &dyn Fn() -> Exit) -> Vec<Case> {
        let mut v = Vec::new();
        let later = Cond::between(field::IP_FRAGOFF, 1, 0x1fff);
        if protocols.is_empty() {
            v.push(Case::new(later, Exit::Punt("a later fragment")));
        } else {
            let ours = ValueSet::from_intervals(protocols.iter().map(|p| {
                let p = u128::from(*p);
                (p, p)
            }));
            let others = Cond::In(Read::Field(field::IP_PROTO), ours.complement(8));
            v.push(Case::new(others, other()).from_arg(argument));
            let follow = self.fragments > 0;
            v.push(match follow {
                true => Case::new(later, Exit::Punt("a later fragment")),
                false => Case::new(later, other()).from_arg(argument),
            });
            let least = if self.kind == RewriterKind::Ping {
                6
            } else {
                8
            };
            let short = Cond::less(Read::TransportLen, least);
            v.push(Case::new(short, other()).from_arg(argument));
            if follow {
                let more = Read::Field(bits(Base::Net, 50, 1));
                let first = Cond::In(more, ValueSet::one(1));
                v.push(Case::new(first, Exit::Punt("a first fragment")));
            }
        }
        v
    }

    pub(super) fn model_of(&self, port: Port, cx: &ModelCx<'_>) -> Model {
        let t = cx.store.get::<FlowTable>(self.handle.table);
        let m = t.and_then(|t| t.member(self.handle.member));
        let specs = m.map_or(&[][..], |m| &m.specs);
        let Some((spec, argument)) = specs.get(port).copied() else {
            return Model::None("no input specification");
        };
        if self.annos.reply.is_some_and(|at| at < 4) {
            return Model::None("a reply annotation within the destination annotation");
        }
        let own = flows_of(self.kind, spec, cx.store);
        let expected = match own.and_then(|own| expected_of(&own)) {
            Ok(e) => e,
            Err(cause) => return Model::None(cause),
        };
        // no other rewriter's bindings are looked at, not even those of one that shares the table
        let mut flows = Vec::new();
        for (input, (spec, _)) in specs.iter().enumerate() {
            match flows_of(self.kind, *spec, cx.store) {
                Ok(all) => flows.extend(all.into_iter().map(|(forward, reply)| FlowKind {
                    input,
                    forward,
                    reply: Some(reply),
                })),
                Err(cause) => return Model::None(cause),
            }
        }
        let reasons = self.kind.reasons();
        let other = || match spec {
            InputSpec::Pass(o) => Exit::Port(o),
            _ => Exit::Drop(reasons.other),
        };
        let mut cases = Vec::from(ip4::unless_header(Exit::Drop(reasons.no_header)));
        // a transport header is where the header length says, of these only
        let lengths = ValueSet::one(5).complement(4);
        let options = Cond::In(Read::Field(field::IP_IHL), lengths);
        cases.push(Case::new(options, Exit::Punt("IP options")));
        let protocols: &[u8] = match self.kind {
            RewriterKind::Ip => &[proto::TCP, proto::UDP],
            RewriterKind::Tcp => &[proto::TCP],
            RewriterKind::Udp => &[proto::TCP, proto::UDP, apply::DCCP],
            RewriterKind::Ping => &[proto::ICMP],
            RewriterKind::Addr | RewriterKind::AddrPair => &[],
        };
        cases.extend(self.of_no_flow(protocols, argument, &other));
        let cut_off = |protocol: u8, n: usize| {
            let when = Cond::eq(field::IP_PROTO, protocol.into())
                .and(Cond::less(Read::TransportLen, n as u128));
            Case::new(when, Exit::Punt(CUT_OFF))
        };
        match self.kind {
            RewriterKind::Ping => {
                let kinds = ValueSet::from_intervals([(0, 0), (8, 8)]).complement(8);
                let no_echo = Cond::In(Read::Field(field::ICMP_TYPE), kinds);
                cases.push(Case::new(no_echo, other()).from_arg(argument));
                cases.push(cut_off(proto::ICMP, UDP_NEEDED));
            }
            RewriterKind::Addr | RewriterKind::AddrPair => {
                let short = Cond::less(Read::TransportLen, UDP_NEEDED as u128);
                cases.push(Case::new(short, Exit::Punt(CUT_OFF)));
                cases.push(cut_off(proto::TCP, TCP_NEEDED));
            }
            RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Udp => {
                cases.push(cut_off(proto::TCP, TCP_NEEDED))
            }
        }
        if protocols.contains(&apply::DCCP) {
            let dccp = Cond::eq(field::IP_PROTO, apply::DCCP.into());
            cases.push(Case::new(dccp, Exit::Punt("DCCP")));
        }
        let bind = Bind {
            kind: match self.kind {
                RewriterKind::Ping => BindKind::Ping,
                RewriterKind::Addr | RewriterKind::AddrPair => BindKind::Addresses,
                _ => BindKind::Flow,
            },
            expected,
            flows,
            source_only: self.kind == RewriterKind::Addr,
            // UDPRewriter finds flows of TCP by packets of UDP
            by_protocol: matches!(
                self.kind,
                RewriterKind::Ip | RewriterKind::Tcp | RewriterKind::Ping
            ),
            dst_anno: match (self.annos.dst, self.kind) {
                (false, _) => DstAnno::Kept,
                // forward packets get another source only
                (true, RewriterKind::Addr) => DstAnno::OfReplies,
                (true, _) => DstAnno::Rewritten,
            },
            reply_anno: self.annos.reply,
            pass: match spec {
                InputSpec::Pass(o) => Some(o),
                _ => None,
            },
        };
        let exit = Exit::Bind(Box::new(bind));
        cases.push(Case::new(Cond::Always, exit).from_arg(argument));
        Model::Cases(cases)
    }
}
