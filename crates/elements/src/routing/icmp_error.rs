//! ICMPError: answers packets with ICMP errors (RFC 792, RFC 1812 4.3).

use super::hop::is_group;
use super::options::{kind as option, store_checksum};
use crate::icmp_names::{IcmpType, icmp_code};
use crate::ip4;
use onefold_element::args::{Args, FromArg, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    Batching, ConfigCx, ConfigErrors, Cx, DropReason, Effect, ElemId, Element, ElementClass, Port,
    Scope, State, StateId, element_any, element_takes, state_any,
};
use onefold_packet::wire::icmp::kind;
use onefold_packet::wire::ipv4::{self, proto};
use onefold_packet::{Packet, Pkt, anno_field, checksum};
use std::net::Ipv4Addr;

/// `ICMPError`.
pub const ICMP_ERROR: ElementClass = ElementClass {
    name: "ICMPError",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "SRC, TYPE [, CODE, BADADDRS, keywords MTU, PMTU, SET_FIX_ANNO]",
    summary: "answers packets with ICMP errors",
    new: || {
        Box::new(IcmpError {
            src: Ipv4Addr::UNSPECIFIED,
            kind: 0,
            code: 0,
            bad: Vec::new(),
            mtu: 576,
            pmtu: 0,
            fix_anno: true,
            ids: StateId(u32::MAX),
        })
    },
};

/// The number that the next error's identification field gets. All ICMPError elements of a graph count together, as in
/// Click.
#[derive(Debug, Clone)]
struct NextId(u16);

impl State for NextId {
    fn summary(&self) -> String {
        format!("next ICMP error identification {}", self.0)
    }
    state_any!(Scope::PerWorker);
}

/// As Click, except: MTU must leave room for the headers, and packets without a whole IP header get no answer.
#[derive(Debug, Clone)]
struct IcmpError {
    src: Ipv4Addr,
    kind: u8,
    code: u8,
    bad: Vec<[u8; 4]>,
    mtu: u32,
    pmtu: u32,
    fix_anno: bool,
    ids: StateId,
}

/// IP header with the longest source route, and ICMP header.
const MAX_HEADERS: usize = 60 + 8;
/// Least MTU: headers without options.
const MIN_MTU: u32 = 28;

fn is_error_type(t: u8) -> bool {
    matches!(
        t,
        kind::UNREACHABLE
            | kind::SOURCE_QUENCH
            | kind::REDIRECT
            | kind::TIME_EXCEEDED
            | kind::PARAMETER_PROBLEM
    )
}

/// A source route option that has been followed at least so far that its pointer makes sense: its offset in `b`, its
/// pointer, and its type.
fn source_route(b: &[u8], header_len: usize) -> Option<(usize, usize, u8)> {
    let mut i = 20;
    while i < header_len {
        let kind = *b.get(i)?;
        match kind {
            option::NOP => {
                i += 1;
                continue;
            }
            option::END => return None,
            _ => {}
        }
        let len = usize::from(*b.get(i + 1)?);
        if len < 2 || i + len > header_len {
            return None;
        }
        let pointer = usize::from(*b.get(i + 2).unwrap_or(&0));
        let route = kind == option::LOOSE_ROUTE || kind == option::STRICT_ROUTE;
        if route && pointer >= 4 && pointer % 4 == 0 && pointer <= len + 1 {
            return Some((i, pointer, kind));
        }
        i += len;
    }
    None
}

impl IcmpError {
    /// Not a multicast, broadcast or listed bad address.
    fn unicast(&self, a: [u8; 4]) -> bool {
        a != [255; 4] && a[0] & 0xf0 != 0xe0 && !self.bad.contains(&a)
    }
    /// RFC 1812 5.3.7, 4.2.2.11, 4.2.3.1: may be answered to.
    fn valid_source(&self, a: [u8; 4]) -> bool {
        self.unicast(a) && a[0] != 0 && a[0] != 127 && a[0] & 0xf0 != 0xf0
    }

    /// Why the packet gets no answer (RFC 1812 4.3.2.7), or its source route.
    fn check(&self, p: &Packet) -> Result<Option<(usize, usize, u8)>, DropReason> {
        let h = ip4::header(p).ok_or("ICMPError: no IP header")?;
        let hlen = h.header_len();
        if h.protocol() == proto::ICMP {
            let t = p.transport().and_then(|t| t.first());
            match t {
                Some(t) if hlen + 4 <= p.len() && !is_error_type(*t) => {}
                _ => return Err("ICMPError: answers no ICMP error"),
            }
        }
        if !self.unicast(h.dst()) {
            return Err("ICMPError: destination is no unicast address");
        }
        if is_group(p) {
            return Err("ICMPError: arrived as link-level broadcast or multicast");
        }
        if !self.valid_source(h.src()) {
            return Err("ICMPError: source cannot be answered");
        }
        if !h.is_first_fragment() {
            return Err("ICMPError: not the first fragment");
        }
        let mut route = source_route(h.bytes(), hlen);
        if let Some((at, _, _)) = route {
            if self.kind == kind::REDIRECT {
                return Err("ICMPError: no redirect for a source route");
            }
            // a problem with the source route itself: do not use it (4.3.2.6)
            let problem = usize::from(p.anno.u8(anno_field::ICMP_PARAMPROB.offset.into()));
            let len = usize::from(*h.bytes().get(at + 1).unwrap_or(&0));
            if self.kind == kind::PARAMETER_PROBLEM
                && self.code == 0
                && (at..at + len).contains(&problem)
            {
                route = None;
            }
        }
        Ok(route)
    }

    fn answer(&self, p: &Packet, route: Option<(usize, usize, u8)>, id: u16, q: &mut Packet) {
        let (Some(h), Some(original)) = (ip4::header(p), p.network()) else {
            return;
        };
        let mut head = [0u8; MAX_HEADERS];
        let mut hlen = ipv4::LEN;
        if let Some((at, pointer, kind)) = route {
            let n = pointer - 1;
            hlen = (ipv4::LEN + n + 3) & !3;
            head[20..23].copy_from_slice(&[kind, n as u8, 4]);
            // the routers visited so far, last one first; padding is END already
            let visited = original.get(at + 3..at + n).unwrap_or(&[]);
            let to = head[23..].chunks_exact_mut(4);
            for (to, from) in to.zip(visited.chunks_exact(4).rev()) {
                to.copy_from_slice(from);
            }
        }
        let icmp = hlen..hlen + 8;
        head[icmp.start] = self.kind;
        head[icmp.start + 1] = self.code;
        let body = &mut head[icmp.start + 4..icmp.end];
        match (self.kind, self.code) {
            (kind::PARAMETER_PROBLEM, 0) => {
                body[0] = p.anno.u8(anno_field::ICMP_PARAMPROB.offset.into());
            }
            (kind::REDIRECT, _) => body.copy_from_slice(&p.anno.dst_ip()),
            (kind::UNREACHABLE, 4) => body[2..].copy_from_slice(&(self.pmtu as u16).to_be_bytes()),
            _ => {}
        }
        let room = (self.mtu as usize).saturating_sub(icmp.end);
        let quoted = &original[..original.len().min(room)];
        let acc = checksum::sum(quoted, checksum::sum(&head[icmp.clone()], 0));
        head[icmp.start + 2..icmp.start + 4].copy_from_slice(&(!checksum::fold(acc)).to_be_bytes());
        let total = icmp.end + quoted.len();
        head[0] = 0x40 | (hlen / 4) as u8;
        head[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        head[4..6].copy_from_slice(&id.to_be_bytes());
        head[8..10].copy_from_slice(&[200, proto::ICMP]);
        head[12..16].copy_from_slice(&self.src.octets());
        head[16..20].copy_from_slice(&h.src());
        store_checksum(&mut head, hlen);
        q.put(total);
        let (to_head, to_body) = q.data_mut().split_at_mut(icmp.end.min(total));
        to_head.copy_from_slice(&head[..icmp.end]);
        to_body.copy_from_slice(quoted);
        q.set_network_header(0, hlen);
        q.anno.set_dst_ip(h.src());
        if self.fix_anno {
            q.anno.set_u8(anno_field::FIX_IP_SRC.offset.into(), 1);
        }
    }
}

impl Element for IcmpError {
    /// Errors of all elements of the class are numbered.
    fn batching(&self, _: Batching) -> Batching {
        Batching::InOrder
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        self.src = args.mandatory("SRC").unwrap_or(self.src);
        let t: Option<IcmpType> = args.mandatory("TYPE");
        let code: Option<Word> = args.optional("CODE");
        let bad: Option<Vec<Ipv4Addr>> = args.optional("BADADDRS");
        self.bad = bad.unwrap_or_default().iter().map(|a| a.octets()).collect();
        self.mtu = args.keyword("MTU").unwrap_or(576);
        self.pmtu = args.keyword("PMTU").unwrap_or(0);
        self.fix_anno = args.keyword("SET_FIX_ANNO").unwrap_or(true);
        if let Some(IcmpType(t)) = t {
            self.kind = t;
            if !is_error_type(t) {
                args.error(format!("TYPE: ICMP type {t} is not an error type"));
            }
        }
        self.code = 0;
        if let Some(Word(w)) = code {
            let scope = args.scope();
            match icmp_code(self.kind, &w).or_else(|| u8::from_arg(&w, &scope).ok()) {
                Some(c) => self.code = c,
                None => args.error(format!(
                    "CODE: expected an ICMP code, a number from 0 to 255 or a name that type {} has, found '{w}'",
                    self.kind
                )),
            }
        }
        if self.mtu < MIN_MTU {
            args.error(format!("MTU: must be at least {MIN_MTU}"));
        }
        // longer ones do not exist: the length field has 16 bits
        self.mtu = self.mtu.min(0xffff);
        // the first ICMPError of the graph owns the counter
        let first = cx.classes.iter().position(|c| c == "ICMPError");
        let owner = first.map_or(cx.elem, |i| ElemId(i as u32));
        self.ids = match cx.store.published_by(owner) {
            Some(id) => id,
            None => {
                let id = cx.store.alloc(Box::new(NextId(1)));
                cx.store.publish(owner, id);
                id
            }
        };
        args.finish()
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("originates packets")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let route = match self.check(&p) {
            Ok(route) => route,
            Err(reason) => {
                cx.decide(None, || reason.to_string());
                return cx.drop(p, reason);
            }
        };
        let id = match cx.store.get_mut::<NextId>(self.ids) {
            Some(n) => {
                let id = n.0;
                n.0 = n.0.wrapping_add(1);
                id
            }
            None => 0,
        };
        let mut q = cx.make(&[]);
        self.answer(&p, route, id, &mut q);
        q.anno.timestamp = cx.now;
        cx.decide(None, || {
            format!("ICMP type {} code {}", self.kind, self.code)
        });
        cx.drop(p, "ICMPError: answered with an ICMP error");
        cx.emit(0, q);
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("src"),
            HandlerInfo::rw("mtu"),
            HandlerInfo::rw("pmtu"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "src" => self.src.to_string(),
            "mtu" => self.mtu.to_string(),
            "pmtu" => self.pmtu.to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let number = || {
            let n = value.trim().parse::<u32>();
            n.map_err(|_| HandlerError::BadValue(format!("expected a number, found '{value}'")))
        };
        match name {
            "src" => self.src = cx.value(name, value)?,
            "mtu" => {
                let n = number()?;
                if n < MIN_MTU {
                    return Err(HandlerError::BadValue(format!(
                        "MTU must be at least {MIN_MTU}"
                    )));
                }
                self.mtu = n.min(0xffff);
            }
            "pmtu" => self.pmtu = number()?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    fn states(&self) -> Vec<StateId> {
        vec![self.ids]
    }
    element_takes!();
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::routing::testpkt::*;
    use crate::testing::Bench;
    use onefold_packet::{PacketType, Timestamp, checksum};

    fn bench(config: &str) -> Bench {
        Bench::new("ICMPError", config, 1, 1).unwrap()
    }

    #[test]
    fn time_exceeded_byte_for_byte() {
        let mut b = bench("18.26.4.24, timeexceeded");
        b.now = Timestamp::from_secs(77);
        let d = ip(A, B, 17, &[], &[1, 2, 3, 4, 5, 6, 7, 8]);
        let out = b.push_packet(0, marked(&d));
        let q = &out[0].1;
        let mut want = vec![
            0x45, 0, 0, 56, 0, 1, 0, 0, 200, 1, 0, 0, 18, 26, 4, 24, 10, 0, 0, 1, 11, 0, 0, 0, 0,
            0, 0, 0,
        ];
        fix(&mut want);
        want.extend_from_slice(&d);
        let sum = checksum::internet(&want[20..]).to_be_bytes();
        want[22..24].copy_from_slice(&sum);
        assert_eq!(q.data(), want);
        assert_eq!((q.anno.dst_ip(), q.anno.u8(19)), (A, 1));
        assert_eq!(q.anno.timestamp, b.now);
        assert_eq!(
            (q.network_header_offset(), q.transport_header_offset()),
            (Some(0), Some(20))
        );
        // the next one has the next identification
        assert_eq!(b.push_packet(0, marked(&d))[0].1.data()[4..6], [0, 2]);
    }

    #[test]
    fn particulars_of_types() {
        let d = ip(A, B, 17, &[], &[0; 8]);
        let mut p = marked(&d);
        p.anno.set_u8(17, 20);
        let q = bench("1.2.3.4, parameterproblem").push_packet(0, p);
        assert_eq!(q[0].1.data()[20..22], [12, 0]);
        assert_eq!(q[0].1.data()[24..28], [20, 0, 0, 0]);
        let mut p = marked(&d);
        p.anno.set_dst_ip([9, 8, 7, 6]);
        let q = bench("1.2.3.4, redirect, host").push_packet(0, p);
        assert_eq!(q[0].1.data()[20..22], [5, 1]);
        assert_eq!(q[0].1.data()[24..28], [9, 8, 7, 6]);
        let q = bench("1.2.3.4, unreachable, needfrag, PMTU 1400").push_packet(0, marked(&d));
        assert_eq!(q[0].1.data()[20..22], [3, 4]);
        assert_eq!(q[0].1.data()[24..28], [0, 0, 5, 0x78]);
        let q = bench("1.2.3.4, 3, 1, SET_FIX_ANNO false").push_packet(0, marked(&d));
        assert_eq!(q[0].1.anno.u8(19), 0);
    }

    #[test]
    fn at_most_mtu_bytes() {
        let d = ip(A, B, 17, &[], &[9; 1400]);
        let out = bench("1.2.3.4, 3, 3").push_packet(0, marked(&d));
        assert_eq!(out[0].1.len(), 576);
        assert_eq!(out[0].1.data()[28..], d[..548]);
        let mut b = bench("1.2.3.4, 3, 3, MTU 100");
        assert_eq!(b.push_packet(0, marked(&d))[0].1.len(), 100);
        b.write("mtu", "200").unwrap();
        assert_eq!(b.push_packet(0, marked(&d))[0].1.len(), 200);
        assert_eq!(b.read("mtu").unwrap(), "200");
        assert!(b.write("mtu", "5").is_err());
        assert!(Bench::new("ICMPError", "1.2.3.4, 3, 3, MTU 27", 1, 1).is_err());
    }

    #[test]
    fn reverses_a_source_route() {
        // one router visited (5.5.5.5), the next to come is 6.6.6.6
        let o = [131, 11, 8, 5, 5, 5, 5, 6, 6, 6, 6, 0];
        let d = ip(A, B, 17, &o, &[0; 8]);
        let out = bench("1.2.3.4, 11").push_packet(0, marked(&d));
        let q = out[0].1.data();
        assert_eq!(q[0], 0x47);
        assert_eq!(q[20..28], [131, 7, 4, 5, 5, 5, 5, 0]);
        assert_eq!(q[28], 11);
        assert_eq!(q[36..], d);
        assert!(sound(q));
        assert_eq!(checksum::internet(&q[28..]), 0);
        // never a redirect; not used when the problem lies in it
        assert!(bench("1.2.3.4, 5").push_packet(0, marked(&d)).is_empty());
        let mut p = marked(&d);
        p.anno.set_u8(17, 21);
        assert_eq!(bench("1.2.3.4, 12").push_packet(0, p)[0].1.data()[0], 0x45);
        let mut p = marked(&d);
        p.anno.set_u8(17, 31);
        assert_eq!(bench("1.2.3.4, 12").push_packet(0, p)[0].1.data()[0], 0x47);
    }

    #[test]
    fn answers_nothing_that_rfc1812_forbids() {
        let mut b = bench("1.2.3.4, 11, 0, 7.7.7.7 8.8.8.8");
        let mut silent = |d: &[u8], why: &str| {
            assert!(b.push_packet(0, marked(d)).is_empty(), "{why}");
            assert_eq!(*b.drops().get(why).unwrap_or(&0), 1, "{:?}", b.drops());
            b.out.drops.clear();
        };
        let icmp = |t: u8| ip(A, B, 1, &[], &[t, 0, 0, 0, 0, 0, 0, 0]);
        for t in [3, 4, 5, 11, 12] {
            silent(&icmp(t), "ICMPError: answers no ICMP error");
        }
        silent(
            &ip(A, B, 1, &[], &[8, 0, 0]),
            "ICMPError: answers no ICMP error",
        );
        for dst in [[255; 4], [224, 0, 0, 1], [239, 1, 2, 3], [7; 4]] {
            silent(
                &ip(A, dst, 17, &[], &[]),
                "ICMPError: destination is no unicast address",
            );
        }
        for src in [
            [0, 1, 2, 3],
            [127, 0, 0, 1],
            [240, 0, 0, 1],
            [255; 4],
            [225, 0, 0, 1],
            [8; 4],
        ] {
            silent(
                &ip(src, B, 17, &[], &[]),
                "ICMPError: source cannot be answered",
            );
        }
        let mut d = ip(A, B, 17, &[], &[0; 8]);
        d[7] = 1;
        silent(&d, "ICMPError: not the first fragment");
        silent(&d[..19], "ICMPError: no IP header");
        let mut p = marked(&ip(A, B, 17, &[], &[]));
        p.anno.packet_type = PacketType::Broadcast;
        assert!(b.push_packet(0, p).is_empty());
        assert_eq!(
            b.push_packet(0, marked(&icmp(8))).len(),
            1,
            "echo requests are answered"
        );
    }

    #[test]
    fn arguments() {
        for (config, want) in [
            ("1.2.3.4, 8", "TYPE: ICMP type 8 is not an error type"),
            ("1.2.3.4, timeexceeded, port", "CODE: expected an ICMP code"),
            ("1.2.3.4, foo", "TYPE: expected an ICMP type"),
            ("1.2.3.4", "TYPE: required argument missing"),
            ("1.2.3.4, 3, 300", "CODE: expected an ICMP code"),
            ("1.2.3.4, 3, 0, 1.2.3", "BADADDRS: expected IPv4 addresses"),
        ] {
            let e = Bench::new("ICMPError", config, 1, 1).err().unwrap();
            assert!(e[0].starts_with(want), "{config}: {e:?}");
        }
    }

    #[test]
    fn lying_headers_do_not_panic() {
        let mut b = bench("1.2.3.4, 12");
        let o: Vec<u8> = (0..40).map(|i: u8| i.wrapping_mul(131)).collect();
        for first in 0x40..=0x4f {
            for n in 0..100 {
                let mut d = ip(A, B, 1, &o, &[8; 40]);
                d[0] = first;
                d[20] = 131;
                d[22] = n;
                b.push_packet(0, marked(&d[..usize::from(n)]));
            }
        }
    }
}
