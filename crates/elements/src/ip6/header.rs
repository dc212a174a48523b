//! The IPv6 header on a router's path: CheckIP6Header, MarkIP6Header, DecIP6HLIM; destination annotations:
//! GetIP6Address, SetIP6Address; small writers: SetIP6DSCP, IP6Mirror, IP6Encap.

use super::{Ip6List, header, header_mut};
use crate::routing::table::show_ip6;
use onefold_element::args::{ArgScope, Args, FromArg, Ip6Prefix, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{
    AnnoKey, Base, Case, Cond, Exit, Fix, HeaderCheck, Model, ModelCx, Op, Read, Value, ValueSet,
    bits, bytes, field,
};
use onefold_element::{
    Accounts, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    element_any,
};
use onefold_packet::wire::ipv6::{self, Header};
use onefold_packet::{Pkt, anno_field};
use std::net::Ipv6Addr;

/// `CheckIP6Header`.
pub const CHECK_IP6_HEADER: ElementClass = ElementClass {
    name: "CheckIP6Header",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "[BADADDRS, OFFSET, keyword PROCESS_EH]",
    summary: "checks IPv6 headers, marks them, cuts packets to their length",
    new: || Box::new(CheckIp6Header::default()),
};

/// As Click, but BADADDRS takes prefixes, too. PROCESS_EH (fastclick) puts the transport header behind the extension
/// headers.
#[derive(Debug, Clone, Default)]
struct CheckIp6Header {
    /// Sources that are refused: address and mask.
    bad: Vec<(u128, u128)>,
    offset: usize,
    follow: bool,
    count: u64,
    drops: u64,
}

const SHORT: DropReason = "CheckIP6Header: shorter than a header";
const VERSION: DropReason = "CheckIP6Header: version is not 6";
const LENGTH: DropReason = "CheckIP6Header: shorter than its header says";
const SOURCE: DropReason = "CheckIP6Header: bad source address";
/// Tags of its accounts.
const DROPPED: u16 = 0;
const PASSED: u16 = 1;

/// Offsets up to here have a name in a model: bits are counted in 16 bits.
const MAX_OFFSET: usize = 8000;
const TOO_FAR: &str = "an offset beyond 8000 bytes";

impl CheckIp6Header {
    fn count_drops(&mut self, packets: u64, cx: &mut Cx<'_>) {
        if self.drops == 0 && packets != 0 {
            cx.chatter("IP6 header check failed\n");
        }
        self.drops += packets;
    }

    /// The first check that the packet fails.
    fn check(&self, p: &Pkt) -> Option<&'static str> {
        let b = p.data().get(self.offset..).unwrap_or(&[]);
        let Some(h) = Header::parse(b) else {
            return Some(SHORT);
        };
        if h.version() != 6 {
            return Some(VERSION);
        }
        if usize::from(h.payload_len()) > b.len() - ipv6::LEN {
            return Some(LENGTH);
        }
        let src = u128::from_be_bytes(h.src());
        if self.bad.iter().any(|(a, mask)| src & mask == *a) {
            return Some(SOURCE);
        }
        None
    }
}

impl Element for CheckIp6Header {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let bad = args.optional("BADADDRS").unwrap_or(Ip6List(Vec::new()));
        let masked = |p: &Ip6Prefix| (u128::from(p.addr) & p.mask(), p.mask());
        self.bad = bad.0.iter().map(masked).collect();
        self.bad.push((u128::MAX, u128::MAX));
        self.offset = args.optional::<u32>("OFFSET").unwrap_or(0) as usize;
        self.follow = args.keyword("PROCESS_EH").unwrap_or(false);
        args.finish()
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if let Some(reason) = self.check(&p) {
            self.count_drops(1, cx);
            cx.decide(None, || reason.to_string());
            return cx.emit_or_drop(1, p, reason);
        }
        self.count += 1;
        let h = Header::parse(p.data().get(self.offset..).unwrap_or(&[]));
        let (len, upper) = h.map_or((0, ipv6::LEN), |h| {
            let upper = self.follow.then(|| h.upper_layer()).flatten();
            let at = upper.map_or(ipv6::LEN, |u| u.1);
            (usize::from(h.payload_len()), at)
        });
        p.set_network_header(self.offset as isize, upper);
        let end = self.offset + ipv6::LEN + len;
        p.take(p.len().saturating_sub(end));
        cx.emit(0, p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        if self.offset > MAX_OFFSET {
            return Model::None(TOO_FAR);
        }
        let at = self.offset as u16;
        let bad =
            |when, reason| Case::new(when, Exit::PortOrDrop(1, reason)).with([Op::Count(DROPPED)]);
        let version = Read::Field(bits(Base::Data, at * 8, 4));
        let fits = Read::Check {
            check: HeaderCheck::Ip6Fits,
            base: Base::Data,
            offset: at,
        };
        let sources = self.bad.iter().map(|(a, mask)| (*a, a | !mask));
        let sources = ValueSet::from_intervals(sources);
        let source = Read::Field(bytes(Base::Data, at + 8, 16));
        let mut cases = vec![
            bad(Cond::less(Read::Len, u128::from(at) + 40), SHORT),
            bad(Cond::In(version, ValueSet::one(6).complement(4)), VERSION),
            bad(Cond::In(fits, ValueSet::one(0)), LENGTH),
            bad(Cond::In(source, sources), SOURCE),
        ];
        if self.follow {
            let next = Read::Field(bytes(Base::Data, at + 6, 1));
            let more = Cond::In(next, super::extensions());
            cases.push(Case::new(more, Exit::Punt(super::EXTENSIONS)));
        }
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with([
            Op::Count(PASSED),
            Op::SetNet {
                at: at as i16,
                len: 40,
            },
            Op::TrimToIp6 { at },
        ]));
        Model::Cases(cases)
    }
    fn account(&mut self, tag: u16, packets: u64, _: u64, cx: &mut Cx<'_>) {
        match tag {
            DROPPED => self.count_drops(packets, cx),
            _ => self.count += packets,
        }
    }
    fn tells_later(&self, _: u16) -> bool {
        true
    }
    fn accounts(&self, tag: u16) -> Accounts {
        match tag {
            // the first one is told of on the console
            DROPPED => Accounts::Now,
            _ => Accounts::Later,
        }
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops"), HandlerInfo::r("count")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// `MarkIP6Header`.
pub const MARK_IP6_HEADER: ElementClass = ElementClass {
    name: "MarkIP6Header",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "[OFFSET]",
    summary: "sets the network header annotation to an IPv6 header, unchecked",
    new: || Box::new(MarkIp6Header { offset: 0 }),
};

#[derive(Debug, Clone)]
struct MarkIp6Header {
    offset: u32,
}

impl Element for MarkIp6Header {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.offset = args.optional("OFFSET").unwrap_or(0);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.set_network_header(self.offset as isize, ipv6::LEN);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        match i16::try_from(self.offset) {
            Ok(at) => Model::pass([Op::SetNet { at, len: 40 }]),
            Err(_) => Model::None(TOO_FAR),
        }
    }
    element_any!();
}

/// `DecIP6HLIM`.
pub const DEC_IP6_HLIM: ElementClass = ElementClass {
    name: "DecIP6HLIM",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "",
    summary: "decrements the hop limit, sends expired packets to output 1",
    new: || Box::new(DecIp6Hlim { drops: 0 }),
};

/// As Click. Packets without an IPv6 header are dropped (Click stops there).
#[derive(Debug, Clone)]
struct DecIp6Hlim {
    drops: u64,
}

const NO_HEADER: DropReason = "DecIP6HLIM: no IPv6 header";
const EXPIRED: DropReason = "DecIP6HLIM: hop limit expired";

impl Element for DecIp6Hlim {
    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(mut h) = header_mut(&mut p) else {
            return cx.drop(p, NO_HEADER);
        };
        let n = h.hop_limit();
        if n <= 1 {
            self.drops += 1;
            cx.decide(None, || format!("hop limit is {n}"));
            cx.emit_or_drop(1, p, EXPIRED);
        } else {
            h.set_hop_limit(n - 1);
            cx.emit(0, p);
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::from(super::unless_header(Exit::Drop(NO_HEADER)));
        let expired = Cond::between(field::IP6_HLIM, 0, 1);
        cases.push(Case::new(expired, Exit::PortOrDrop(1, EXPIRED)).with([Op::Count(0)]));
        let one_less = Op::Write {
            field: field::IP6_HLIM,
            value: Value::Plus(Read::Field(field::IP6_HLIM), 0xff),
            fix: Fix::Nothing,
        };
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with([one_less]));
        Model::Cases(cases)
    }
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.drops += packets;
    }
    fn accounts(&self, _: u16) -> Accounts {
        Accounts::Later
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// `GetIP6Address`.
pub const GET_IP6_ADDRESS: ElementClass = ElementClass {
    name: "GetIP6Address",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "OFFSET",
    summary: "sets the IPv6 destination annotation from packet data",
    new: || Box::new(GetIp6Address { offset: 0 }),
};

/// As Click. Packets too short for OFFSET are dropped; Click reads whatever lies there.
#[derive(Debug, Clone)]
struct GetIp6Address {
    offset: u32,
}

const GET_SHORT: DropReason = "GetIP6Address: packet too short";

impl Element for GetIp6Address {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.offset = args.mandatory("OFFSET").unwrap_or(0);
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let at = self.offset as usize;
        let a = p.data().get(at..).and_then(|d| d.first_chunk::<16>());
        match a.copied() {
            Some(a) => {
                p.anno.set_dst_ip6(a);
                cx.emit(0, p);
            }
            None => cx.drop(p, GET_SHORT),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        if self.offset as usize > MAX_OFFSET {
            return Model::None(TOO_FAR);
        }
        let short = Cond::less(Read::Len, u128::from(self.offset) + 16);
        let from = Read::Field(bytes(Base::Data, self.offset as u16, 16));
        let set = Op::SetAnno(AnnoKey::from(anno_field::DST_IP6), Value::Of(from));
        Model::Cases(vec![
            Case::new(short, Exit::Drop(GET_SHORT)),
            Case::new(Cond::Always, Exit::Port(0)).with([set]),
        ])
    }
    element_any!();
}

/// `SetIP6Address`.
pub const SET_IP6_ADDRESS: ElementClass = ElementClass {
    name: "SetIP6Address",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "IPADDR",
    summary: "sets the IPv6 destination annotation to a fixed address",
    new: || Box::new(SetIp6Address { addr: [0; 16] }),
};

#[derive(Debug, Clone)]
struct SetIp6Address {
    addr: [u8; 16],
}

impl Element for SetIp6Address {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(a) = args.mandatory::<Ipv6Addr>("IPADDR") {
            self.addr = a.octets();
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        p.anno.set_dst_ip6(self.addr);
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let a = Value::Const(u128::from_be_bytes(self.addr));
        Model::pass([Op::SetAnno(AnnoKey::from(anno_field::DST_IP6), a)])
    }
    element_any!();
}

/// `SetIP6DSCP`.
pub const SET_IP6_DSCP: ElementClass = ElementClass {
    name: "SetIP6DSCP",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "DSCP",
    summary: "sets the differentiated services code point of IPv6 packets",
    new: || Box::new(SetIp6Dscp { dscp: 0 }),
};

/// As Click. Packets without an IPv6 header are dropped (Click stops there).
#[derive(Debug, Clone)]
struct SetIp6Dscp {
    dscp: u8,
}

impl SetIp6Dscp {
    fn parse(n: u32) -> Option<u8> {
        u8::try_from(n).ok().filter(|n| *n <= 63)
    }
}

const DSCP_NO_HEADER: DropReason = "SetIP6DSCP: no IPv6 header";

impl Element for SetIp6Dscp {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        if let Some(n) = args.mandatory::<u32>("DSCP") {
            match Self::parse(n) {
                Some(n) => self.dscp = n,
                None => args.error("DSCP: expected a number from 0 to 63"),
            }
        }
        args.finish()
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let b = p.network_mut().filter(|b| b.len() >= ipv6::LEN);
        let Some([first, second, ..]) = b else {
            return cx.drop(p, DSCP_NO_HEADER);
        };
        // the six bits stand across the first two bytes, behind the version
        *first = *first & 0xf0 | self.dscp >> 2;
        *second = *second & 0x3f | self.dscp << 6;
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::from(super::unless_header(Exit::Drop(DSCP_NO_HEADER)));
        let set = Op::Write {
            field: bits(Base::Net, 4, 6),
            value: Value::Const(self.dscp.into()),
            fix: Fix::Nothing,
        };
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with([set]));
        Model::Cases(cases)
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("dscp").sets(0, "DSCP")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "dscp" => Ok(self.dscp.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        if name != "dscp" {
            return Err(HandlerError::NoSuchHandler(name.to_string()));
        }
        let n = value.trim().parse().ok().and_then(Self::parse);
        self.dscp = n.ok_or_else(|| {
            HandlerError::BadValue(format!("expected a number from 0 to 63, found '{value}'"))
        })?;
        Ok(())
    }
    element_any!();
}

/// `IP6Mirror`.
pub const IP6_MIRROR: ElementClass = ElementClass {
    name: "IP6Mirror",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "",
    summary: "swaps IPv6 source and destination, and TCP and UDP ports",
    new: || Box::new(Ip6Mirror),
};

/// As Click. Packets without an IPv6 header are dropped.
#[derive(Debug, Clone)]
struct Ip6Mirror;

const MIRROR_NO_HEADER: DropReason = "IP6Mirror: no IPv6 header";

impl Element for Ip6Mirror {
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(mut h) = header_mut(&mut p) else {
            return cx.drop(p, MIRROR_NO_HEADER);
        };
        let (src, dst, next) = (h.src(), h.dst(), h.next_header());
        h.set_src(dst);
        h.set_dst(src);
        if (next == 6 || next == 17)
            && let Some(t) = p.transport_mut()
            && let Some([a, b, c, d, ..]) = t.first_chunk_mut::<8>()
        {
            std::mem::swap(a, c);
            std::mem::swap(b, d);
        }
        cx.emit(0, p);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut cases = Vec::from(super::unless_header(Exit::Drop(MIRROR_NO_HEADER)));
        let swap = |a, b| {
            [(a, b), (b, a)].map(|(field, from)| Op::Write {
                field,
                value: Value::Of(Read::Field(from)),
                fix: Fix::Nothing,
            })
        };
        let addresses = swap(field::IP6_SRC, field::IP6_DST);
        // the transport header is where it is marked, if it is
        let ports = swap(field::SPORT, field::DPORT);
        // behind another header, and behind extension headers, the transport header is elsewhere
        let version = Read::Field(field::IP_VERSION);
        let other = Cond::In(version, ValueSet::one(6).complement(4));
        cases.push(Case::new(other, Exit::Punt("not IPv6")));
        let next = |s| Cond::In(Read::Field(field::IP6_NEXT), s);
        let with_ports = ValueSet::from_intervals([(6, 6), (17, 17)]);
        let there = next(with_ports).and(Cond::at_least(Read::TransportLen, 8));
        let there = Case::new(there, Exit::Port(0)).with(addresses);
        cases.push(there.with(ports));
        cases.push(Case::new(Cond::Always, Exit::Port(0)).with(addresses));
        Model::Cases(cases)
    }
    element_any!();
}

/// `IP6Encap`.
pub const IP6_ENCAP: ElementClass = ElementClass {
    name: "IP6Encap",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "PROTO, SRC, DST [, keywords HLIM, CLASS]",
    summary: "puts an IPv6 header in front of packets",
    new: || {
        Box::new(Ip6Encap {
            head: [0; ipv6::LEN],
            dst_anno: false,
        })
    },
};

/// As Click. DST may be DST_ANNO: the destination annotation, unless that is zero.
#[derive(Debug, Clone)]
struct Ip6Encap {
    head: [u8; ipv6::LEN],
    dst_anno: bool,
}

/// A protocol by number or name.
struct Protocol(u8);

impl FromArg for Protocol {
    const WANTS: &'static str = "an IP protocol, a number from 0 to 255 or a name such as 'udp'";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        let named = super::protocol_number(s);
        named
            .map_or_else(|| u8::from_arg(s, scope), Ok)
            .map(Protocol)
    }
}

impl Element for Ip6Encap {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let scope = args.scope();
        let proto: Option<Protocol> = args.mandatory("PROTO");
        let src: Option<Ipv6Addr> = args.mandatory("SRC");
        let dst: Option<Word> = args.mandatory("DST");
        let hlim: u8 = args.keyword("HLIM").unwrap_or(250);
        let class: u8 = args.keyword("CLASS").unwrap_or(0);
        let mut to = Ipv6Addr::UNSPECIFIED;
        if let Some(Word(w)) = dst {
            self.dst_anno = w == "DST_ANNO";
            match Ipv6Addr::from_arg(&w, &scope) {
                Ok(a) => to = a,
                Err(_) if self.dst_anno => {}
                Err(_) => {
                    args.error(format!(
                        "DST: expected an IPv6 address or DST_ANNO, found '{w}'"
                    ));
                }
            }
        }
        if let Some(mut h) = Header::parse(&mut self.head[..]) {
            h.set_version_class_label(class, 0);
            h.set_next_header(proto.map_or(0, |p| p.0));
            h.set_hop_limit(hlim);
            h.set_src(src.unwrap_or(to).octets());
            h.set_dst(to.octets());
        }
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("writes the packet's length")
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let payload = p.len();
        let anno = p.anno.dst_ip6();
        p.push(ipv6::LEN);
        let Some(d) = p.data_mut().first_chunk_mut::<40>() else {
            return cx.drop(p, "IP6Encap: packet too long");
        };
        *d = self.head;
        if let Some(mut h) = Header::parse(p.data_mut()) {
            h.set_payload_len(payload as u16);
            if self.dst_anno && anno != [0; 16] {
                h.set_dst(anno);
            }
        }
        p.set_network_header(0, ipv6::LEN);
        if let Some(dst) = header(&p).map(|h| h.dst()) {
            p.anno.set_dst_ip6(dst);
        }
        cx.emit(0, p);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::rw("src").sets(1, "SRC"),
            HandlerInfo::rw("dst").sets(2, "DST"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        let h = Header::parse(&self.head[..]);
        match (name, h) {
            ("src", Some(h)) => Ok(show_ip6(u128::from_be_bytes(h.src()))),
            ("dst", _) if self.dst_anno => Ok("DST_ANNO".to_string()),
            ("dst", Some(h)) => Ok(show_ip6(u128::from_be_bytes(h.dst()))),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let a = cx.value::<Ipv6Addr>(name, value);
        let bad = HandlerError::BadValue(format!("expected an IPv6 address, found '{value}'"));
        let Some(mut h) = Header::parse(&mut self.head[..]) else {
            return Err(bad);
        };
        match (name, a) {
            ("src", Ok(a)) => h.set_src(a.octets()),
            ("dst", Ok(a)) => {
                h.set_dst(a.octets());
                self.dst_anno = false;
            }
            ("dst", _) if value.trim() == "DST_ANNO" => {
                h.set_dst([0; 16]);
                self.dst_anno = true;
            }
            ("src" | "dst", _) => return Err(bad),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
